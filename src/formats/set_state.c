/* The state of an unfinished set as text. */
#include "formats/set_state.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

#define HEADER "stoker-set 1\n"

void stk__set_state_clear(stk__set_state *s)
{
    stk__free(s->pattern);
    stk__free(s->files);
    stk__free(s->extra);
    *s = (stk__set_state){0};
}

/* Sizes come before what they are of, since patterns and keys may have any bytes. */
void stk__set_state_print(const stk__set_state *s, stk__text *out)
{
    stk__text_printf(out, HEADER "%" PRId64 " %zu %zu %zu\n", s->rows, s->count, strlen(s->pattern), s->extra_size);
    for (size_t i = 0; i < s->count; i++) {
        char hex[33];
        stk__file_digest_print(s->files[i].digest, hex);
        stk__text_printf(out, "%" PRId64 " %s\n", s->files[i].bytes, hex);
    }
    stk__text_puts(out, s->pattern);
    stk__text_write(out, s->extra, s->extra_size);
}

/* A number of at least 0 that `end` follows; moves behind that. */
static bool read_number(const char **p, char end, int64_t *out)
{
    int64_t x = 0;
    const char *start = *p;
    for (; **p >= '0' && **p <= '9'; ++*p)
        if (__builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, **p - '0', &x))
            return false;
    if (*p == start || **p != end)
        return false;
    ++*p;
    *out = x;
    return true;
}

static bool read_files(const char **p, const char *end, stk__set_state *s)
{
    for (size_t i = 0; i < s->count; i++) {
        char hex[33] = "";
        if (!read_number(p, ' ', &s->files[i].bytes) || end - *p < 33 || (*p)[32] != '\n')
            return false;
        memcpy(hex, *p, 32);
        *p += 33;
        if (!stk__file_digest_parse(hex, &s->files[i].digest))
            return false;
    }
    return true;
}

static stk_status read_state(const char *p, const char *end, stk__set_state *s, stk_error *err)
{
    int64_t count, pattern, extra;
    const stk_status bad = STK_MISMATCH;
    if (!read_number(&p, ' ', &s->rows) || !read_number(&p, ' ', &count) || !read_number(&p, ' ', &pattern) ||
        !read_number(&p, '\n', &extra) || count > (end - p) / 34 || pattern < 1 || pattern > end - p || extra > end - p)
        return bad;
    s->files = stk__calloc((size_t)count + 1, sizeof *s->files);
    if (!s->files)
        return stk__nomem((size_t)count * sizeof *s->files, err);
    s->count = (size_t)count;
    if (!read_files(&p, end, s) || end - p != pattern + extra || memchr(p, 0, (size_t)pattern))
        return bad;
    s->pattern = stk__strndup(p, (size_t)pattern);
    s->extra = stk__alloc((size_t)extra + 1);
    if (!s->pattern || !s->extra)
        return stk__nomem((size_t)(pattern + extra), err);
    memcpy(s->extra, p + pattern, (size_t)extra);
    s->extra_size = (size_t)extra;
    return STK_OK;
}

stk_status stk__set_state_parse(const char *text, size_t size, stk__set_state *out, stk_error *err)
{
    const size_t header = strlen(HEADER);
    *out = (stk__set_state){0};
    stk_status status = STK_MISMATCH;
    if (size > header && memcmp(text, HEADER, header) == 0)
        status = read_state(text + header, text + size, out, err);
    if (status == STK_OK)
        return STK_OK;
    stk__set_state_clear(out);
    return status == STK_MISMATCH ? stk_error_set(err, STK_MISMATCH, "the state of the kept output is damaged")
                                  : status;
}
