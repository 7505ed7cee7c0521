/* Chrome's trace event JSON, in all the shapes that its writers leave behind: whole, cut off, joined, line by line. */
#include "trace/read_chrome.h"

#include "base/mem.h"

#include "base/banned.h"

enum {
    WINDOW_WANT = 1 << 20,
    LOW_WATER = 64 << 10, /* an event is rarely longer; the window is filled up when less is left */
    EVENT_MAX = 32 << 20, /* longer ones are left out */
    LOOK_AHEAD = 256,     /* what tells the start of an event */
    RESCAN_START = 1 << 20,
    RESCAN_MAX = 64 << 20,
    RESCAN_FACTOR = 4, /* bytes that may be read again, per byte of good events */
    CONTAINERS_MAX = 16,
};

void stk__chrome_nomem(stk__chrome *r, size_t size)
{
    if (r->status == STK_OK)
        r->status = stk__nomem(size, &r->error);
}

/* ---- the window ---- */

static void release(stk__chrome *r)
{
    if (r->held)
        stk__input_advance(r->in, (size_t)(r->p - r->window));
    r->held = false;
    r->last = false;
    r->end = r->p;
}

static void refill(stk__chrome *r, size_t want)
{
    size_t size = 0;
    release(r);
    stk__builder_saw(r->b, r->saw);
    r->saw = 0;
    if (r->status == STK_OK)
        r->status = stk__reader_progress(r->b, r->in, &r->error);
    r->window = stk__input_peek(r->in, want, &size);
    r->held = true;
    r->p = r->window;
    r->end = r->window + size;
    r->last = size < want;
    r->window_offset = stk__input_offset(r->in);
}

static int64_t place(const stk__chrome *r)
{
    return r->window_offset + (r->p - r->window);
}

/* ---- finding the way back after broken events ---- */

/* The text of a key at p (at its quote) with a colon behind it; its size, or 0. */
static size_t key_at(const uint8_t *p, const uint8_t *end, const char **out)
{
    if (p == end || *p != '"')
        return 0;
    const uint8_t *q = ++p;
    while (q < end && q - p < LOOK_AHEAD && *q != '"' && *q >= 0x20 && *q != '\\')
        q++;
    if (q == end || *q != '"')
        return 0;
    const size_t size = (size_t)(q - p);
    q = stk__json_skip_space(q + 1, end);
    *out = (const char *)p;
    return q < end && *q == ':' ? size : 0;
}

/* Whether p stands at the start of a line, or of what is left to see. Else *out_before is what stands before it, space apart. */
static bool starts_line(const stk__chrome *r, const uint8_t *p, uint8_t *out_before)
{
    while (p > r->window) {
        p--;
        if (*p == '\n')
            return true;
        if (!stk__json_space(*p)) {
            *out_before = *p;
            return false;
        }
    }
    return true;
}

/* Whether an object with a key of events, or the object around them, starts at p. */
static bool opens_event(const stk__chrome *r, const uint8_t *p)
{
    const char *key;
    if (p == r->end || *p != '{')
        return false;
    const size_t size = key_at(stk__json_skip_space(p + 1, r->end), r->end, &key);
    return size && (stk__chrome_field_of(key, size) >= 0 || (size == 11 && memcmp(key, "traceEvents", 11) == 0));
}

/* Whether reading can go on at p: an event behind another one or on a line of its own, or an array of them on its own line. */
static bool starts_event(const stk__chrome *r, const uint8_t *p)
{
    uint8_t before = 0;
    const bool line = starts_line(r, p, &before);
    if (*p == '[')
        return line && opens_event(r, stk__json_skip_space(p + 1, r->end));
    return (line || before == ',' || before == '}' || before == ']') && opens_event(r, p);
}

/* Whether the array of events ends at the bracket at p: the end of the file, or a key of the outer object follows. */
static bool ends_events(const stk__chrome *r, const uint8_t *p)
{
    const uint8_t *q = stk__json_skip_space(p + 1, r->end);
    const char *key;
    if (q < r->end && *q == '}')
        return r->last && stk__json_skip_space(q + 1, r->end) == r->end;
    if (q == r->end || *q != ',')
        return false;
    const size_t size = key_at(stk__json_skip_space(q + 1, r->end), r->end, &key);
    return size && stk__chrome_container_key(key, size);
}

/* Moves to where reading can go on; false when that is the end of the file. */
static bool resync(stk__chrome *r)
{
    while (r->status == STK_OK) {
        while (r->p < r->end && *r->p != '{' && *r->p != ']' && *r->p != '[')
            r->p++;
        if (r->end - r->p < 2 * LOOK_AHEAD && !r->last) {
            refill(r, WINDOW_WANT);
            continue;
        }
        if (r->p == r->end)
            return false;
        if (*r->p == ']' ? ends_events(r, r->p) : starts_event(r, r->p))
            return true;
        r->p++;
    }
    return false;
}

/* Bytes between events that are none. */
static void pass_junk(stk__chrome *r)
{
    const int64_t at = place(r);
    r->p++;
    resync(r);
    stk__builder_note(r->b, STK__REASON_SYNTAX, at);
}

/* The object at r->p is broken at `stop`. Events may have been swallowed by it, so reading goes on from its start while that is cheap. */
static void pass_broken(stk__chrome *r, const uint8_t *stop, bool too_large, bool outermost)
{
    const int64_t at = place(r);
    const size_t scanned = (size_t)(stop - r->p);
    const bool cut = r->lexer.cut;
    if (scanned <= r->rescan) {
        r->rescan -= scanned;
        r->p++;
    } else {
        r->p = scanned ? stop : r->p + 1;
    }
    r->saw += !(outermost && cut && !r->event.seen); /* cut off in its first key it may be anything */
    bool found = resync(r);
    if (cut && found && *r->p == ']') { /* of an array in the event itself */
        r->p = r->end;
        found = false;
    }
    r->cut |= cut && !found;
    stk__builder_note(r->b,
                      too_large       ? STK__REASON_TOO_LARGE
                      : cut && !found ? STK__REASON_TRUNCATED
                                      : STK__REASON_SYNTAX,
                      at);
}

/* ---- objects ---- */

static void read_container(stk__chrome *r);

static void take_event(stk__chrome *r, const uint8_t *behind)
{
    const size_t size = (size_t)(behind - r->p);
    r->rescan = STK_MIN(r->rescan + RESCAN_FACTOR * size, (uint64_t)RESCAN_MAX);
    r->p = behind;
    r->saw++;
    stk__chrome_emit(r);
}

static void read_odd_object(stk__chrome *r, bool outermost)
{
    const uint8_t *stop;
    stk__chrome_result result;
    bool too_large = false;
    while ((result = stk__chrome_parse(r, r->p, outermost, &stop)) == STK__CHROME_MORE) {
        const size_t size = (size_t)(r->end - r->p);
        too_large = size > EVENT_MAX;
        if (too_large)
            break;
        refill(r, size < WINDOW_WANT / 2 ? WINDOW_WANT : size * 2);
        if (r->status != STK_OK)
            return;
    }
    if (r->status != STK_OK)
        return;
    if (result == STK__CHROME_CONTAINER) {
        read_container(r);
    } else if (result != STK__CHROME_OK) {
        pass_broken(r, too_large ? r->end : stop, too_large, outermost);
    } else if (!r->event.seen && !r->event.arg_count) {
        r->p = stop; /* {}: some writers end their array with it */
    } else {
        stk__lexer_flush(&r->lexer, r->b);
        take_event(r, stop);
    }
}

/* Events up to the end of their array, which is left to the caller, when `nested`; else to the end of the file. */
static void read_events(stk__chrome *r, bool nested)
{
    uint64_t arrays = 0;
    while (r->status == STK_OK) {
        if (r->end - r->p < LOW_WATER && !r->last)
            refill(r, WINDOW_WANT);
        while (r->p < r->end && (stk__json_space(*r->p) || *r->p == ','))
            r->p++;
        if (r->p == r->end) {
            if (r->last)
                return;
            continue;
        }
        const uint8_t c = *r->p;
        if (c == '{') {
            r->event.offset = place(r);
            const uint8_t *behind = stk__chrome_parse_fast(r, r->p, r->end);
            if (STK_LIKELY(behind != NULL))
                take_event(r, behind);
            else
                read_odd_object(r, !nested && !arrays);
        } else if (c == '[') {
            arrays++;
            r->p++;
        } else if (c == ']' && arrays) {
            arrays--;
            r->p++;
        } else if (nested && (c == ']' || c == '}')) {
            return;
        } else {
            pass_junk(r);
        }
    }
}

/* The value of "traceEvents". */
static void read_event_array(stk__chrome *r, stk__json *j)
{
    if (stk__json_next(j) != STK__JSON_ARRAY) {
        if (!j->cut)
            stk__builder_note(r->b, STK__REASON_BAD_VALUE, j->offset);
        stk__json_skip(j);
        return;
    }
    stk__json_release(j);
    read_events(r, true);
    release(r);
    j->cut |= r->cut;
    stk__json_next(j); /* the end of the array */
}

/* The object around the events, at its brace. */
static void read_container(stk__chrome *r)
{
    if (r->containers == CONTAINERS_MAX) {
        stk__builder_note(r->b, STK__REASON_TOO_DEEP, place(r));
        r->p++;
        resync(r);
        return;
    }
    stk__json j;
    r->containers++;
    release(r);
    stk__json_init(&j, r->b, r->in);
    stk__json_next(&j);
    while (r->status == STK_OK && stk__json_next(&j) == STK__JSON_KEY) {
        if (stk__json_is(&j, "traceEvents"))
            read_event_array(r, &j);
        else if (stk__json_is(&j, "stackFrames"))
            stk__chrome_stack_frames(r, &j);
        else if (stk__json_is(&j, "samples"))
            stk__chrome_samples(r, &j);
        else
            stk__chrome_fact(r, &j);
    }
    r->cut |= j.cut;
    if (r->status == STK_OK)
        r->status = stk__json_status(&j, &r->error);
    stk__json_clear(&j);
    r->containers--;
}

/* ---- the reader ---- */

stk__chrome *stk__chrome_new(stk__builder *b, stk__input *in, stk_error *err)
{
    stk__chrome *r = stk__calloc(1, sizeof *r);
    if (!r) {
        stk__nomem(sizeof *r, err);
        return NULL;
    }
    r->b = b;
    r->in = in;
    r->rescan = RESCAN_START;
    stk_error_clear(&r->error);
    stk__lexer_init(&r->lexer);
    r->keys = stk__calloc(STK__CHROME_KEYS, sizeof *r->keys);
    r->strings = stk__calloc(STK__CHROME_STRINGS, sizeof *r->strings);
    r->scratch = stk__alloc(STK__CHROME_SCRATCH);
    if (r->keys && r->strings && r->scratch)
        return r;
    stk__chrome_free(r);
    stk__nomem(STK__CHROME_STRINGS * sizeof *r->strings, err);
    return NULL;
}

void stk__chrome_free(stk__chrome *r)
{
    stk__lexer_clear(&r->lexer);
    stk__text_clear(&r->text);
    stk__keymap_clear(&r->async_process);
    stk__keymap_clear(&r->tids);
    stk__keymap_clear(&r->sampled_rows);
    for (size_t i = 0; i < r->sampled_count; i++)
        stk__free(r->sampled[i].tracks);
    stk__free(r->sampled);
    stk__chrome_stacks_clear(&r->stacks);
    stk__free(r->event.args);
    stk__free(r->keys);
    stk__free(r->strings);
    stk__free(r->scratch);
    stk__free(r);
}

static void set_resolution(const stk__chrome *r)
{
    if (r->timed)
        stk__builder_file(r->b)->resolution_ns = r->below_us ? 1 : 1000;
}

static void read_all(stk__chrome *r)
{
    refill(r, WINDOW_WANT);
    if (r->end - r->p >= 3 && memcmp(r->p, "\xef\xbb\xbf", 3) == 0)
        r->p += 3;
    if (r->last && stk__json_skip_space(r->p, r->end) == r->end)
        stk__builder_note(r->b, STK__REASON_TRUNCATED, 0); /* empty */
    read_events(r, false);
    release(r);
    stk__builder_saw(r->b, r->saw);
    if (r->status == STK_OK)
        stk__chrome_stacks_finish(r);
    stk__chrome_timeline(r);
    set_resolution(r);
}

static stk_status chrome_read(stk__builder *b, stk__input *in, stk_error *err)
{
    stk__chrome *r = stk__chrome_new(b, in, err);
    if (!r)
        return STK_NOMEM;
    read_all(r);
    const stk_status status = r->status;
    if (status != STK_OK && err)
        *err = r->error;
    stk__chrome_free(r);
    return status;
}

/* A file that was cut off inside {"traceEvents":[ */
static bool cut_in_the_head(const uint8_t *p, const uint8_t *end)
{
    const char *head = "{\"traceEvents\":[";
    for (; p < end; p++) {
        if (stk__json_space(*p))
            continue;
        if (*p != (uint8_t)*head)
            return false;
        head++;
    }
    return true;
}

static int chrome_detect(const uint8_t *data, size_t size, bool whole)
{
    const uint8_t *p = data, *end = data + size;
    const char *key;
    if (size >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        p += 3;
    p = stk__json_skip_space(p, end);
    if (p == end || (*p != '{' && *p != '['))
        return 0;
    const size_t left = (size_t)(end - p);
    if (stk__bytes_contain(p, left, "speedscope.app/file-format-schema"))
        return 0;
    if (stk__bytes_contain(p, left, "\"traceEvents\""))
        return 90;
    if (stk__bytes_contain(p, left, "\"ph\""))
        return 80;
    const size_t first = key_at(stk__json_skip_space(p + 1, end), end, &key);
    if (*p == '{' && first && stk__chrome_container_key(key, first))
        return 40;
    const uint8_t *second = stk__json_skip_space(p + 1, end);
    if (whole && (cut_in_the_head(p, end) || second == end || *second == (*p == '{' ? '}' : ']')))
        return 30;
    /* an event that is cut off, or that is longer than what is here */
    if (second < end && *p == '[' && *second == '{')
        return key_at(stk__json_skip_space(second + 1, end), end, &key) ? 20 : whole ? 10 : 0;
    return 0;
}

const stk__reader stk__reader_chrome = {
    .name = "chrome",
    .summary = "Chrome JSON: TensorFlow timeline, PyTorch Kineto, Chrome, DFTracer",
    .detect = chrome_detect,
    .read = chrome_read,
};
