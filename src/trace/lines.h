/* The lines of an input, one at a time, without copying; for formats of text. */
#ifndef STK_TRACE_LINES_H
#define STK_TRACE_LINES_H

#include <string.h>

#include "base/compiler.h"
#include "trace/input.h"

enum { STK__LINE_MAX = 16 << 20, STK__LINE_WINDOW = 256 << 10 };

typedef struct stk__line {
    const char *text; /* without its end; no NUL behind it; holds until the next call */
    size_t size;
    int64_t offset;
    bool cut; /* longer than STK__LINE_MAX: this is its beginning, the rest is left out */
} stk__line;

/* Zeroed but for `in` before the first call. */
typedef struct stk__lines {
    stk__input *in;
    const char *window;
    size_t size, at; /* of the window; where the next line starts */
    int64_t base;    /* offset of the window */
    bool skip;       /* the rest of a line that was too long is still to come */
    bool refilled;   /* new bytes since the reader last set it to false: time for stk__reader_progress */
} stk__lines;

/*
 * The next line of bytes in memory, for detect(): *at moves behind it. False at the end; the last line may be a part of
 * one when the bytes are the beginning of a file.
 */
static inline bool stk__line_of(const void *data, size_t size, size_t *at, stk__line *out, bool *out_ended)
{
    if (*at >= size)
        return false;
    const char *start = (const char *)data + *at;
    const char *end = memchr(start, '\n', size - *at);
    *out = (stk__line){start, end ? (size_t)(end - start) : size - *at, (int64_t)*at, false};
    *at = end ? *at + out->size + 1 : size;
    *out_ended = end != NULL;
    if (out->size && start[out->size - 1] == '\r')
        out->size--;
    return true;
}

/* Gives up what was read, and gets more behind what is left. False at the end of the data. */
static inline bool stk__lines_refill(stk__lines *l)
{
    const size_t left = l->size - l->at;
    stk__input_advance(l->in, l->at);
    l->at = 0;
    l->base = stk__input_offset(l->in);
    l->window = (const char *)stk__input_peek(l->in, left + STK_MAX(left, (size_t)STK__LINE_WINDOW), &l->size);
    l->refilled = true;
    return l->size > left;
}

/* Gives `size` bytes from the current place as a line, and goes `step` bytes on. */
static inline void stk__lines_take(stk__lines *l, size_t size, size_t step, bool cut, stk__line *out)
{
    out->text = l->window + l->at;
    out->offset = l->base + (int64_t)l->at;
    out->cut = cut;
    l->at += step;
    if (size && !cut && out->text[size - 1] == '\r')
        size--;
    out->size = size;
}

/* False at the end. The last line need not have a line end; \r\n ends lines as well. */
static inline bool stk__lines_next(stk__lines *l, stk__line *out)
{
    size_t seen = 0;
    for (;;) {
        const size_t left = l->size - l->at;
        const char *start = l->window ? l->window + l->at : NULL;
        const char *end = left > seen ? memchr(start + seen, '\n', left - seen) : NULL;
        if (end && l->skip) {
            l->skip = false;
            l->at += (size_t)(end - start) + 1;
            seen = 0;
        } else if (end) {
            const size_t size = (size_t)(end - start);
            stk__lines_take(l, STK_MIN(size, (size_t)STK__LINE_MAX), size + 1, size > STK__LINE_MAX, out);
            return true;
        } else if (l->skip) {
            l->at = l->size;
            seen = 0;
            if (!stk__lines_refill(l))
                return false;
        } else if (left >= STK__LINE_MAX) {
            l->skip = true;
            stk__lines_take(l, STK__LINE_MAX, left, true, out);
            return true;
        } else {
            seen = left;
            if (stk__lines_refill(l))
                continue;
            if (!l->size)
                return false;
            stk__lines_take(l, STK_MIN(l->size, (size_t)STK__LINE_MAX), l->size, l->size > STK__LINE_MAX, out);
            return true;
        }
    }
}

#endif
