/*
 * Reads flame graphs (SVG) as FlameGraph, inferno and py-spy draw them, and makes stacks of them again.
 *
 *     <g><title>f (w.py:3) (4 samples, 26.67%)</title><rect x="0.0%" y="132" width="26.6%" fg:x="0" fg:w="4"/></g>
 *
 * Each rectangle is a frame, the one below it (or above, when the graph stands on its head) its caller. inferno writes
 * places and widths in samples beside those in pixels; for others the count is in the title. Frames that were too
 * narrow to be drawn are part of their callers. The frame "all" at the root is the drawing's, not the program's.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trace/frame_text.h"
#include "trace/reader.h"

#include "base/banned.h"

enum { TAG_MAX = 1 << 20, WINDOW = 256 << 10 };

typedef struct box {
    double x, width, y;
    int64_t count; /* samples */
    int64_t inner; /* of the frames on it */
    uint32_t frame, callsite;
    bool is_all;
    int64_t offset;
} box;

typedef struct flame_reader {
    stk__builder *b;
    stk__input *in;
    stk__text title; /* decoded; of the rectangle to come */
    int64_t title_offset;
    bool has_title;
    box *boxes;
    size_t box_count, box_capacity;
    bool nomem;
} flame_reader;

/* ---- SVG ---- */

/* The window holds at least `want` bytes, or all that are left. */
static const char *window(flame_reader *r, size_t want, size_t *out_size)
{
    return (const char *)stk__input_peek(r->in, want, out_size);
}

/* Goes behind the next `mark`; false at the end of the file. */
static bool skip_past(flame_reader *r, const char *mark)
{
    const size_t length = strlen(mark);
    size_t size;
    for (const char *p = window(r, WINDOW, &size); size >= length; p = window(r, WINDOW, &size)) {
        size_t at = 0;
        while (at + length <= size) {
            const char *hit = memchr(p + at, mark[0], size - at - length + 1);
            if (!hit)
                break;
            at = (size_t)(hit - p);
            if (memcmp(hit, mark, length) == 0) {
                stk__input_advance(r->in, at + length);
                return true;
            }
            at++;
        }
        stk__input_advance(r->in, size - length + 1);
    }
    stk__input_advance(r->in, size);
    return false;
}

/* Goes to the next '<' and gives the tag from there to its '>'. False at the end. The tag is not yet passed. */
static bool find_tag(flame_reader *r, const char **out, size_t *out_size)
{
    size_t size;
    for (;;) {
        const char *p = window(r, WINDOW, &size);
        if (size == 0)
            return false;
        const char *open = memchr(p, '<', size);
        if (open) {
            stk__input_advance(r->in, (size_t)(open - p));
            break;
        }
        stk__input_advance(r->in, size);
    }
    for (size_t want = WINDOW, seen = 0;; want *= 2) {
        const char *p = window(r, want, &size);
        const char *close = memchr(p + seen, '>', size - seen);
        *out = p;
        *out_size = close ? (size_t)(close - p) + 1 : size;
        if (close || size < want || want >= TAG_MAX)
            return true;
        seen = size;
    }
}

static bool tag_is(const char *tag, size_t size, const char *name)
{
    const size_t length = strlen(name);
    if (size <= length + 1 || memcmp(tag + 1, name, length) != 0)
        return false;
    const char next = tag[length + 1];
    return next == ' ' || next == '>' || next == '/' || next == '\n' || next == '\r' || next == '\t';
}

/* The value of an attribute; names are whole words. */
static bool attribute(const char *tag, size_t size, const char *name, double *out)
{
    const size_t length = strlen(name);
    for (size_t i = 1; i + length + 2 < size; i++) {
        const bool word = tag[i - 1] == ' ' || tag[i - 1] == '\n' || tag[i - 1] == '\t' || tag[i - 1] == '\r';
        if (!word || tag[i] != name[0] || memcmp(tag + i, name, length) != 0 || tag[i + length] != '=')
            continue;
        char copy[32];
        size_t at = 0;
        for (size_t from = i + length + 2; from < size && at + 1 < sizeof copy; from++) {
            const char c = tag[from];
            if (!((c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e'))
                break;
            copy[at++] = c;
        }
        copy[at] = '\0';
        char *end;
        *out = stk__strtod(copy, &end);
        return end != copy && isfinite(*out);
    }
    return false;
}

/* ---- titles ---- */

static void put_code_point(stk__text *out, unsigned long code)
{
    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        code = 0xfffd;
    if (code < 0x80) {
        stk__text_putc(out, (char)code);
    } else if (code < 0x800) {
        stk__text_putc(out, (char)(0xc0 | code >> 6));
        stk__text_putc(out, (char)(0x80 | (code & 63)));
    } else if (code < 0x10000) {
        stk__text_putc(out, (char)(0xe0 | code >> 12));
        stk__text_putc(out, (char)(0x80 | (code >> 6 & 63)));
        stk__text_putc(out, (char)(0x80 | (code & 63)));
    } else {
        stk__text_putc(out, (char)(0xf0 | code >> 18));
        stk__text_putc(out, (char)(0x80 | (code >> 12 & 63)));
        stk__text_putc(out, (char)(0x80 | (code >> 6 & 63)));
        stk__text_putc(out, (char)(0x80 | (code & 63)));
    }
}

/* "&lt;" and its like at the start of text; gives the bytes that it takes, 0 for others. */
static size_t put_entity(stk__text *out, const char *text, size_t size)
{
    static const struct {
        const char *name;
        char byte;
    } names[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        const size_t length = strlen(names[i].name);
        if (size >= length && memcmp(text, names[i].name, length) == 0) {
            stk__text_putc(out, names[i].byte);
            return length;
        }
    }
    if (size < 4 || text[1] != '#')
        return 0;
    char copy[12] = {0};
    const bool hex = text[2] == 'x' || text[2] == 'X';
    const size_t start = hex ? 3 : 2;
    size_t digits = 0;
    while (start + digits < size && digits < sizeof copy - 1 && text[start + digits] != ';') {
        copy[digits] = text[start + digits];
        digits++;
    }
    if (digits == 0 || start + digits >= size || text[start + digits] != ';')
        return 0;
    char *end;
    const unsigned long code = strtoul(copy, &end, hex ? 16 : 10);
    if (*end)
        return 0;
    put_code_point(out, code);
    return start + digits + 1;
}

/* The text from here to the next tag. */
static void read_title(flame_reader *r)
{
    size_t size = 0, want = WINDOW;
    const char *p, *end;
    for (;; want *= 2) {
        p = window(r, want, &size);
        end = memchr(p, '<', size);
        if (end || size < want || want >= TAG_MAX)
            break;
    }
    const size_t length = end ? (size_t)(end - p) : size;
    stk__text_reset(&r->title);
    r->title_offset = stk__input_offset(r->in);
    for (size_t i = 0; i < length;) {
        const size_t taken = p[i] == '&' ? put_entity(&r->title, p + i, length - i) : 0;
        if (!taken)
            stk__text_putc(&r->title, p[i]);
        i += taken ? taken : 1;
    }
    r->nomem = r->nomem || r->title.failed;
    r->has_title = !r->title.failed && r->title.length > 0;
    stk__input_advance(r->in, length);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "name (1,234 samples, 5.00%)" -> the length of the name and the count; false when it is no such title. */
static bool split_title(const char *text, size_t size, size_t *out_name, int64_t *out_count)
{
    size_t open = size;
    if (size < 6 || text[size - 1] != ')')
        return false;
    while (open > 1 && !(text[open - 1] == '(' && text[open - 2] == ' '))
        open--;
    if (open <= 1 || !is_digit(text[open]))
        return false;
    int64_t count = 0;
    size_t at = open;
    for (; at < size && (is_digit(text[at]) || text[at] == ','); at++) {
        if (text[at] == ',' && !(at + 1 < size && is_digit(text[at + 1])))
            break;
        if (is_digit(text[at]) &&
            (__builtin_mul_overflow(count, 10, &count) || __builtin_add_overflow(count, text[at] - '0', &count)))
            return false;
    }
    /* "(12%)" is no count, "(12 samples, 3%)" and "(12 bytes, 3%)" are */
    if (at >= size || text[at] != ' ' || !memchr(text + at, '%', size - at))
        return false;
    *out_name = open - 2;
    *out_count = count;
    return true;
}

static uint32_t frame_of(flame_reader *r, size_t size)
{
    const char *text = r->title.data;
    const stk__frame_text parts = stk__frame_split(text, size);
    stk__trace_frame frame = {.name = stk__builder_text(r->b, text, parts.name_size, r->title_offset),
                              .line = parts.line};
    if (parts.file_size)
        frame.file = stk__builder_text(r->b, text + parts.file, parts.file_size, r->title_offset);
    return stk__builder_frame(r->b, &frame);
}

/* ---- rectangles ---- */

static void add_box(flame_reader *r, const char *tag, size_t size)
{
    box new_box = {.callsite = STK__NONE, .offset = r->title_offset};
    double x, width, y;
    size_t name;
    stk__builder_saw(r->b, 1);
    r->has_title = false;
    if (!split_title(r->title.data, r->title.length, &name, &new_box.count) || !attribute(tag, size, "y", &y)) {
        stk__builder_note(r->b, STK__REASON_SYNTAX, r->title_offset);
        return;
    }
    if (attribute(tag, size, "fg:x", &x) && attribute(tag, size, "fg:w", &width)) {
        if (width >= 0 && width < 9e18)
            new_box.count = llround(width);
    } else if (!attribute(tag, size, "x", &x) || !attribute(tag, size, "width", &width)) {
        stk__builder_note(r->b, STK__REASON_BAD_VALUE, r->title_offset);
        return;
    }
    new_box.x = x;
    new_box.width = width;
    new_box.y = y;
    new_box.is_all = name == 3 && memcmp(r->title.data, "all", 3) == 0;
    new_box.frame = frame_of(r, name);
    if (!stk__grow((void **)&r->boxes, &r->box_capacity, r->box_count + 1, sizeof *r->boxes))
        r->nomem = true;
    else
        r->boxes[r->box_count++] = new_box;
}

/* One tag; what belongs to a script or a comment is passed over as a whole. */
static bool read_tag(flame_reader *r)
{
    const char *tag;
    size_t size;
    if (!find_tag(r, &tag, &size))
        return false;
    if (size >= 4 && memcmp(tag, "<!--", 4) == 0)
        return skip_past(r, "-->");
    if (size >= 9 && memcmp(tag, "<![CDATA[", 9) == 0)
        return skip_past(r, "]]>");
    if (tag_is(tag, size, "rect") && r->has_title)
        add_box(r, tag, size);
    if (tag_is(tag, size, "title")) {
        if (r->has_title) { /* the one before had no rectangle */
            stk__builder_saw(r->b, 1);
            stk__builder_note(r->b, STK__REASON_SYNTAX, r->title_offset);
        }
        stk__input_advance(r->in, size);
        read_title(r);
        return true;
    }
    stk__input_advance(r->in, size);
    return true;
}

/* ---- stacks ---- */

static int by_row(const void *a, const void *b)
{
    const box *p = a, *q = b;
    if (p->y != q->y)
        return p->y < q->y ? -1 : 1;
    return p->x != q->x ? (p->x < q->x ? -1 : 1) : p->offset < q->offset ? -1 : p->offset > q->offset;
}

/* Roots are in the first row or in the last: where "all" is, else where the wider frames are. */
static bool root_is_last(const box *boxes, size_t count)
{
    double first = 0, last = 0;
    for (size_t i = 0; i < count && boxes[i].y == boxes[0].y; i++)
        first += boxes[i].width;
    for (size_t i = count; i > 0 && boxes[i - 1].y == boxes[count - 1].y; i--)
        last += boxes[i - 1].width;
    if (boxes[0].is_all != boxes[count - 1].is_all)
        return boxes[count - 1].is_all;
    return last > first;
}

static void place_box(flame_reader *r, box *child, box *caller)
{
    uint32_t parent = STK__NONE;
    if (caller) {
        caller->inner += STK_MIN(child->count, INT64_MAX - caller->inner);
        parent = caller->callsite;
    } else if (child->is_all) {
        return; /* the root of the drawing */
    }
    child->callsite = stk__builder_callsite(r->b, parent, child->frame);
}

/* Both rows are by x: each frame stands on the one that its middle is over. */
static void place_row(flame_reader *r, box *row, size_t count, box *below, size_t below_count)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const double middle = row[i].x + row[i].width / 2;
        while (at + 1 < below_count && below[at + 1].x <= middle)
            at++;
        const bool over = at < below_count && below[at].x <= middle && middle <= below[at].x + below[at].width;
        if (!over && below_count)
            stk__builder_note(r->b, STK__REASON_BAD_REFERENCE, row[i].offset);
        place_box(r, &row[i], over ? &below[at] : NULL);
    }
}

static size_t row_end(const box *boxes, size_t count, size_t start)
{
    size_t end = start;
    while (end < count && boxes[end].y == boxes[start].y)
        end++;
    return end;
}

static void make_stacks(flame_reader *r)
{
    if (r->box_count == 0)
        return;
    qsort(r->boxes, r->box_count, sizeof *r->boxes, by_row);
    if (root_is_last(r->boxes, r->box_count)) {
        for (size_t i = 0; i < r->box_count; i++)
            r->boxes[i].y = -r->boxes[i].y;
        qsort(r->boxes, r->box_count, sizeof *r->boxes, by_row);
    }
    box *below = NULL;
    size_t below_count = 0;
    for (size_t start = 0, end; start < r->box_count; start = end) {
        end = row_end(r->boxes, r->box_count, start);
        place_row(r, r->boxes + start, end - start, below, below_count);
        below = r->boxes + start;
        below_count = end - start;
    }
}

static void add_samples(flame_reader *r)
{
    const uint32_t track = stk__builder_global_track(r->b);
    stk__trace_track *row = stk__builder_track_at(r->b, track);
    if (row)
        row->unit = STK__UNIT_SAMPLES;
    for (size_t i = 0; i < r->box_count; i++) {
        const box *p = &r->boxes[i];
        stk__builder_at(r->b, p->offset);
        if (p->count > p->inner)
            stk__builder_sample(r->b, track, STK__NO_TIME, p->callsite, p->count - p->inner, 0);
    }
}

static stk_status flamegraph_read(stk__builder *b, stk__input *in, stk_error *err)
{
    flame_reader r = {.b = b, .in = in};
    stk_status status = STK_OK;
    int64_t told = 0;
    while (status == STK_OK && !r.nomem && read_tag(&r)) {
        if (stk__input_offset(in) - told > WINDOW) {
            told = stk__input_offset(in);
            status = stk__reader_progress(b, in, err);
        }
    }
    if (r.has_title)
        stk__builder_note(b, STK__REASON_TRUNCATED, r.title_offset);
    if (status == STK_OK && !r.nomem) {
        make_stacks(&r);
        add_samples(&r);
    }
    if (r.nomem && status == STK_OK)
        status = stk__nomem(r.box_capacity * sizeof *r.boxes, err);
    stk__text_clear(&r.title);
    stk__free(r.boxes);
    return status;
}

static int flamegraph_detect(const uint8_t *data, size_t size, bool whole)
{
    static const char *const signs[] = {"FlameGraph", "flamegraph",    "Flame Graph",
                                        "inferno",    "id=\"frames\"", "class=\"func_g\""};
    const size_t at = stk__bytes_start(data, size);
    if (at == size || data[at] != '<' || !stk__bytes_contain(data, STK_MIN(size, at + 4096), "<svg"))
        return 0;
    for (size_t i = 0; i < STK_COUNT(signs); i++) {
        if (stk__bytes_contain(data, size, signs[i]))
            return 95;
    }
    return stk__bytes_contain(data, size, "<title>") && stk__bytes_contain(data, size, "samples,") ? 60 : 0;
}

const stk__reader stk__reader_flamegraph = {
    .name = "flamegraph",
    .summary = "flame graphs (SVG): FlameGraph, inferno, py-spy",
    .detect = flamegraph_detect,
    .read = flamegraph_read,
};
