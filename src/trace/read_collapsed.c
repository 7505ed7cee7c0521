/*
 * Reads collapsed (folded) stacks: "main;read (io.py:12);memcpy_[k] 42", one stack per line, outermost frame first.
 *
 * The last word is the count. A frame "name (file:line)" or "name (file.ext)", as py-spy and others write it, is taken
 * apart; the marks _[k], _[j] and _[i] behind a name say that it is of the kernel, compiled at run time, or inlined.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trace/frame_text.h"
#include "trace/lines.h"
#include "trace/reader.h"

#include "base/banned.h"

/* Counts with a fraction are kept in thousandths. */
enum { FRACTION_SCALE = 1000, DETECT_LINES = 2000, STACK_MAX = 65535 };

typedef struct stack_line {
    const char *stack;
    size_t stack_size;
    const char *count;
    size_t count_size;
    bool fraction; /* has a part behind the point that is not 0 */
} stack_line;

/* Where a frame of the line before ended, and the place in the tree that it stands for. */
typedef struct known_frame {
    size_t end;
    uint32_t callsite;
} known_frame;

typedef struct collapsed_reader {
    stk__builder *b;
    uint32_t track;
    bool scaled;
    stk__text last;     /* the stack of the line before: neighbours have most of their frames in common */
    known_frame *known; /* its frames */
    size_t known_count, known_capacity;
} collapsed_reader;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* [-]digits[.digits][e[+-]digits] */
static bool is_count(const char *p, size_t size, bool *out_fraction)
{
    const char *end = p + size;
    *out_fraction = false;
    if (p < end && *p == '-')
        p++;
    if (p == end || !is_digit(*p))
        return false;
    while (p < end && is_digit(*p))
        p++;
    if (p < end && *p == '.') {
        for (p++; p < end && is_digit(*p); p++) {
            if (*p != '0')
                *out_fraction = true;
        }
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        *out_fraction = true;
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (p == end || !is_digit(*p))
            return false;
        while (p < end && is_digit(*p))
            p++;
    }
    return p == end;
}

/* Takes the count from the end of a line; false when there is none. */
static bool split_line(const char *text, size_t size, stack_line *out)
{
    while (size && is_space(text[size - 1]))
        size--;
    size_t start = size;
    while (start && !is_space(text[start - 1]))
        start--;
    out->count = text + start;
    out->count_size = size - start;
    if (start == 0 || !is_count(out->count, out->count_size, &out->fraction))
        return false;
    out->stack = text;
    out->stack_size = start - 1;
    return true;
}

static bool is_nothing(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size && is_space(text[at]))
        at++;
    return at == size || text[at] == '#';
}

/* The number, times 1 or 1000. *out_exact is false when it was rounded, or does not fit. */
static int64_t read_count(const stack_line *line, bool scaled, bool *out_exact)
{
    char copy[64];
    const size_t size = STK_MIN(line->count_size, sizeof copy - 1);
    memcpy(copy, line->count, size);
    copy[size] = '\0';
    int64_t whole;
    *out_exact = true;
    if (!line->fraction && size == line->count_size) {
        char *point = strchr(copy, '.');
        if (point)
            *point = '\0';
        if (stk__parse_int64(copy, &whole) && (!scaled || llabs(whole) < INT64_MAX / FRACTION_SCALE))
            return scaled ? whole * FRACTION_SCALE : whole;
    }
    const double x = stk__strtod(copy, NULL) * (scaled ? FRACTION_SCALE : 1);
    *out_exact = scaled && fabs(x) < 9e15 && fabs(x - round(x)) <= 1e-6 * fmax(1, fabs(x));
    return x >= 9.2e18 ? INT64_MAX : x <= -9.2e18 ? -INT64_MAX : (int64_t)llround(x);
}

static uint32_t split_mark(const char *text, size_t *size)
{
    static const struct {
        const char *mark;
        uint32_t flag;
    } marks[] = {{"_[k]", STK__FRAME_KERNEL}, {"_[j]", STK__FRAME_JIT}, {"_[i]", STK__FRAME_INLINED}};
    for (size_t i = 0; *size > 4 && i < STK_COUNT(marks); i++) {
        if (memcmp(text + *size - 4, marks[i].mark, 4) == 0) {
            *size -= 4;
            return marks[i].flag;
        }
    }
    return 0;
}

static uint32_t read_frame(stk__builder *b, const char *text, size_t size, int64_t offset)
{
    stk__trace_frame frame = {.flags = split_mark(text, &size)};
    const stk__frame_text parts = frame.flags ? (stk__frame_text){.name_size = size} : stk__frame_split(text, size);
    frame.name = stk__builder_text(b, text, parts.name_size, offset);
    frame.line = parts.line;
    if (parts.file_size)
        frame.file = stk__builder_text(b, text + parts.file, parts.file_size, offset + (int64_t)parts.file);
    return stk__builder_frame(b, &frame);
}

/* Frames that this stack has in common with the one before; *out_start is where the others start. */
static size_t common_frames(const collapsed_reader *r, const char *text, size_t size, size_t *out_start)
{
    const size_t shorter = STK_MIN(size, r->last.length);
    size_t same = 0, count = 0;
    while (same < shorter && text[same] == r->last.data[same])
        same++;
    while (count < r->known_count && r->known[count].end < same &&
           (r->known[count].end < size && text[r->known[count].end] == ';'))
        count++;
    *out_start = count ? r->known[count - 1].end + 1 : 0;
    return count;
}

static bool remember_frame(collapsed_reader *r, size_t end, uint32_t callsite)
{
    if (!stk__grow((void **)&r->known, &r->known_capacity, r->known_count + 1, sizeof *r->known))
        return false;
    r->known[r->known_count++] = (known_frame){end, callsite};
    return true;
}

/* The place in the tree of a stack; false when memory is out. */
static bool read_stack(collapsed_reader *r, const char *text, size_t size, int64_t offset, uint32_t *out)
{
    size_t start;
    r->known_count = common_frames(r, text, size, &start);
    uint32_t callsite = r->known_count ? r->known[r->known_count - 1].callsite : STK__NONE;
    while (size && start <= size) {
        if (r->known_count == STACK_MAX) { /* the time stays with the frame that the rest hangs on */
            stk__builder_note(r->b, STK__REASON_TOO_DEEP, offset);
            break;
        }
        const char *semicolon = memchr(text + start, ';', size - start);
        const size_t end = semicolon ? (size_t)(semicolon - text) : size;
        const uint32_t frame = read_frame(r->b, text + start, end - start, offset + (int64_t)start);
        callsite = stk__builder_callsite(r->b, callsite, frame);
        if (!remember_frame(r, end, callsite))
            return false;
        start = end + 1;
    }
    stk__text_reset(&r->last);
    stk__text_write(&r->last, text, size);
    *out = callsite;
    return !r->last.failed;
}

static bool read_line(collapsed_reader *r, const stk__line *line)
{
    stack_line parts;
    uint32_t callsite;
    bool exact;
    if (line->cut) {
        stk__builder_saw(r->b, 1);
        stk__builder_note(r->b, STK__REASON_TOO_LARGE, line->offset);
        return true;
    }
    if (is_nothing(line->text, line->size))
        return true;
    stk__builder_saw(r->b, 1);
    if (!split_line(line->text, line->size, &parts)) {
        stk__builder_note(r->b, STK__REASON_SYNTAX, line->offset);
        return true;
    }
    const int64_t weight = read_count(&parts, r->scaled, &exact);
    if (!exact)
        stk__builder_note(r->b, STK__REASON_FRACTION, line->offset);
    if (!read_stack(r, parts.stack, parts.stack_size, line->offset, &callsite))
        return false;
    stk__builder_at(r->b, line->offset);
    stk__builder_sample(r->b, r->track, STK__NO_TIME, callsite, weight, 0);
    return true;
}

/* The first of the counts at the beginning that has a fraction, -1: none. One makes all be kept in thousandths. */
static int64_t first_fraction(stk__input *in)
{
    size_t size, at = 0;
    const uint8_t *data = stk__input_peek(in, STK__LINE_WINDOW, &size);
    stk__line line;
    stack_line parts;
    bool ended;
    while (stk__line_of(data, size, &at, &line, &ended)) {
        if (!is_nothing(line.text, line.size) && split_line(line.text, line.size, &parts) && parts.fraction)
            return stk__input_offset(in) + line.offset + (parts.count - line.text);
    }
    return -1;
}

static void skip_byte_order_mark(stk__input *in)
{
    size_t size;
    const uint8_t *text = stk__input_peek(in, 3, &size);
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        stk__input_advance(in, 3);
}

static stk_status collapsed_read(stk__builder *b, stk__input *in, stk_error *err)
{
    stk_status status = STK_OK;
    stk__line line;
    skip_byte_order_mark(in);
    const int64_t fraction = first_fraction(in);
    collapsed_reader r = {.b = b, .track = stk__builder_global_track(b), .scaled = fraction >= 0};
    stk__lines lines = {.in = in};
    stk__trace_track *track = stk__builder_track_at(b, r.track);
    if (track)
        track->unit = r.scaled ? STK__UNIT_NONE : STK__UNIT_SAMPLES;
    if (r.scaled) {
        stk__builder_fact(b, stk__builder_str(b, "weight_scale"), stk__builder_str(b, "1000"));
        stk__builder_note(b, STK__REASON_FRACTION, fraction);
    }
    while (status == STK_OK && stk__lines_next(&lines, &line)) {
        if (!read_line(&r, &line))
            status = stk__nomem(r.known_capacity * sizeof *r.known, err);
        if (lines.refilled && status == STK_OK)
            status = stk__reader_progress(b, in, err);
        lines.refilled = false;
    }
    stk__text_clear(&r.last);
    stk__free(r.known);
    return status;
}

/* A word that is not a number alone: tables of figures are no stacks. */
static bool has_name(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!is_digit(text[i]) && !is_space(text[i]) && !strchr("+-.,eE:", text[i]))
            return true;
    }
    return false;
}

static bool starts_other_format(const uint8_t *data, size_t size)
{
    size_t at = size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < size && (is_space((char)data[at]) || data[at] == '\n' || data[at] == '\r'))
        at++;
    if (at < size && (data[at] == '{' || data[at] == '"'))
        return true;
    if (at < size && data[at] == '[') { /* JSON; but "[unknown];main 3" is a stack */
        do
            at++;
        while (at < size && (is_space((char)data[at]) || data[at] == '\n' || data[at] == '\r'));
        return at < size && (data[at] == '{' || data[at] == ']' || data[at] == '"');
    }
    return size - at >= 5 && (memcmp(data + at, "<?xml", 5) == 0 || memcmp(data + at, "<svg ", 5) == 0);
}

/* What the lines of a text look like. */
typedef struct line_counts {
    size_t stacks, others; /* a text and a count, or not */
    size_t deep;           /* of the stacks: frames with ';' between them, and no space behind it */
    size_t placed, words;  /* of one frame: with its file, or a word of its own */
} line_counts;

static bool has_frames(const char *text, size_t size)
{
    const char *end = text + size, *at = text;
    while ((at = memchr(at, ';', (size_t)(end - at)))) {
        if (++at < end && !is_space(*at))
            return true;
    }
    return false;
}

static void count_line(line_counts *c, const stk__line *line)
{
    stack_line parts;
    if (!split_line(line->text, line->size, &parts) || (parts.stack_size && !has_name(parts.stack, parts.stack_size))) {
        c->others++;
        return;
    }
    c->stacks++;
    if (has_frames(parts.stack, parts.stack_size))
        c->deep++;
    else if (stk__frame_split(parts.stack, parts.stack_size).file_size)
        c->placed++;
    else if (!memchr(parts.stack, ' ', parts.stack_size))
        c->words++;
}

/*
 * Many texts have lines that end in a number: logs, tables, counters of the kernel. So most lines must have frames with ';' between them, or
 * files behind their names; words alone are frames in the company of stacks only.
 */
static int collapsed_detect(const uint8_t *data, size_t size, bool whole)
{
    size_t at = 0;
    line_counts c = {0};
    stk__line line;
    bool ended;
    if (size == 0 || memchr(data, '\0', size) || starts_other_format(data, size))
        return 0;
    while (c.stacks + c.others < DETECT_LINES && stk__line_of(data, size, &at, &line, &ended)) {
        if (!is_nothing(line.text, line.size) && (ended || whole || !c.stacks))
            count_line(&c, &line);
    }
    if (c.stacks <= c.others)
        return 0;
    if (c.deep * 2 >= c.stacks)
        return 60;
    const bool all_frames = c.deep && !c.others && c.deep + c.placed + c.words == c.stacks;
    return all_frames || (c.deep + c.placed) * 2 >= c.stacks ? 45 : 0;
}

const stk__reader stk__reader_collapsed = {
    .name = "collapsed",
    .summary = "collapsed stacks: FlameGraph, py-spy raw, inferno, async-profiler",
    .detect = collapsed_detect,
    .read = collapsed_read,
};
