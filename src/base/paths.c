/* From what users write for files to their paths: braces, wildcards, the home directory. */
#define _GNU_SOURCE
#include "base/file.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

#include "base/banned.h"

/* A pattern is not to fill the memory by itself. */
#define EXPANSIONS_MAX 1000000
#define BRACES_MAX 16
#define DIGITS_MAX 18

static stk_status paths_take(stk__paths *paths, char *path, stk_error *err)
{
    if (!path || !stk__grow((void **)&paths->items, &paths->capacity, paths->count + 1, sizeof *paths->items)) {
        stk__free(path);
        return stk__nomem((paths->count + 1) * sizeof *paths->items, err);
    }
    paths->items[paths->count++] = path;
    return STK_OK;
}

static stk_status paths_add(stk__paths *paths, const char *path, stk_error *err)
{
    return paths_take(paths, stk__strdup(path), err);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

size_t stk__path_scheme(const char *path)
{
    static const char pipe[] = "pipe:";
    if (strncmp(path, pipe, sizeof pipe - 1) == 0)
        return sizeof pipe - 1;
    size_t n = 0;
    while (isalnum((unsigned char)path[n]) || (n > 0 && path[n] && strchr("+.-", path[n])))
        n++;
    return n > 1 && strncmp(path + n, "://", 3) == 0 ? n + 3 : 0;
}

static stk_status refuse_remote(const char *path, size_t scheme, stk_error *err)
{
    if (strncmp(path, "file://", scheme) == 0)
        return stk_error_set(err, STK_UNSUPPORTED, "'%.200s': wanted the path without file://", path);
    if (strncmp(path, "pipe:", scheme) == 0)
        return stk_error_set(err, STK_UNSUPPORTED,
                             "'%.200s': commands are not run; give a named pipe, or '-' for standard input", path);
    return stk_error_set(err, STK_UNSUPPORTED, "'%.200s': remote files (%.*s) are not read; copy or mount them first", path,
                         (int)scheme, path);
}

/* ---- braces ---- */

/* {first..last..step} with numbers; `width` is that of numbers with leading zeros, else 0. */
typedef struct range {
    int64_t first, last, step;
    int width;
} range;

/* Reads a number, and notes how wide it was written when zeros lead. */
static bool read_number(const char **p, const char *end, int64_t *out, int *width)
{
    const char *start = *p, *digits = start + (*start == '-');
    int64_t value = 0;
    const char *at = digits;
    for (; at < end && *at >= '0' && *at <= '9' && at - digits < DIGITS_MAX; at++)
        value = value * 10 + (*at - '0');
    if (at == digits)
        return false;
    if (*digits == '0' && at - digits > 1)
        *width = STK_MAX(*width, (int)(at - start));
    *out = *start == '-' ? -value : value;
    *p = at;
    return true;
}

static bool read_dots(const char **p, const char *end)
{
    if (end - *p < 2 || (*p)[0] != '.' || (*p)[1] != '.')
        return false;
    *p += 2;
    return true;
}

static bool read_range(const char *p, const char *end, range *out)
{
    int step_width = 0;
    *out = (range){.step = 1};
    if (!read_number(&p, end, &out->first, &out->width) || !read_dots(&p, end) ||
        !read_number(&p, end, &out->last, &out->width))
        return false;
    if (p < end && (!read_dots(&p, end) || !read_number(&p, end, &out->step, &step_width) || out->step < 1))
        return false;
    return p == end;
}

/* What stands between a brace and its partner: a range, or alternatives with commas. */
typedef struct brace {
    const char *open, *close;
    bool is_range;
    range range;
} brace;

/* The brace that `open` begins; one that is neither a range nor has a comma is a part of the name. */
static bool read_brace(const char *open, brace *out)
{
    int depth = 0;
    bool comma = false;
    for (const char *p = open; *p; p++) {
        depth += (*p == '{') - (*p == '}');
        comma = comma || (*p == ',' && depth == 1);
        if (depth == 0) {
            *out = (brace){.open = open, .close = p};
            out->is_range = !comma && read_range(open + 1, p, &out->range);
            return comma || out->is_range;
        }
    }
    return false;
}

static bool find_brace(const char *pattern, brace *out)
{
    for (const char *open = strchr(pattern, '{'); open; open = strchr(open + 1, '{'))
        if (read_brace(open, out))
            return true;
    return false;
}

static stk_status expand(stk__paths *out, const char *pattern, int depth, stk_error *err);

/* The pattern with `middle` in place of the brace, and what that becomes. */
static stk_status expand_with(stk__paths *out, const char *pattern, const brace *b, const char *middle, size_t size, int depth,
                              stk_error *err)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_write(&t, pattern, (size_t)(b->open - pattern));
    stk__text_write(&t, middle, size);
    stk__text_puts(&t, b->close + 1);
    const stk_status status = t.failed ? stk__nomem(strlen(pattern), err) : expand(out, t.data, depth + 1, err);
    stk__text_clear(&t);
    return status;
}

static stk_status too_many(const char *pattern, stk_error *err)
{
    return stk_error_set(err, STK_INVALID, "the braces of '%.200s' stand for more than %d names", pattern, EXPANSIONS_MAX);
}

static stk_status expand_range(stk__paths *out, const char *pattern, const brace *b, int depth, stk_error *err)
{
    const range *r = &b->range;
    const uint64_t span = r->last > r->first ? (uint64_t)r->last - (uint64_t)r->first : (uint64_t)r->first - (uint64_t)r->last;
    const uint64_t count = span / (uint64_t)r->step + 1;
    if (count > EXPANSIONS_MAX)
        return too_many(pattern, err);
    for (uint64_t i = 0; i < count; i++) {
        char number[32];
        stk__text t;
        const int64_t way = (int64_t)i * r->step;
        stk__text_fixed(&t, number, sizeof number);
        stk__text_printf(&t, "%0*lld", r->width, (long long)(r->last > r->first ? r->first + way : r->first - way));
        STK_TRY(expand_with(out, pattern, b, number, t.length, depth, err));
    }
    return STK_OK;
}

static stk_status expand_words(stk__paths *out, const char *pattern, const brace *b, int depth, stk_error *err)
{
    const char *word = b->open + 1;
    int inner = 0;
    for (const char *p = word; p <= b->close; p++) {
        if (p == b->close || (*p == ',' && inner == 0)) {
            STK_TRY(expand_with(out, pattern, b, word, (size_t)(p - word), depth, err));
            word = p + 1;
        }
        inner += (*p == '{') - (*p == '}');
    }
    return STK_OK;
}

/* Appends the names that the braces of a pattern stand for, in the order in which they are written. */
static stk_status expand(stk__paths *out, const char *pattern, int depth, stk_error *err)
{
    brace b;
    if (!find_brace(pattern, &b)) {
        if (out->count >= EXPANSIONS_MAX)
            return too_many(pattern, err);
        return paths_add(out, pattern, err);
    }
    if (depth >= BRACES_MAX)
        return stk_error_set(err, STK_INVALID, "'%.200s' has more than %d braces", pattern, BRACES_MAX);
    return b.is_range ? expand_range(out, pattern, &b, depth, err) : expand_words(out, pattern, &b, depth, err);
}

/* ---- wildcards ---- */

/* A directory that is missing matches nothing; one that cannot be read would hide files, so it ends the search. */
static int glob_error(const char *path, int code)
{
    (void)path;
    return code != ENOENT;
}

static bool is_wild(const char *name)
{
    return strpbrk(name, "*?[") || name[0] == '~';
}

/* Appends what matches, be it nothing. */
static stk_status add_matches(stk__paths *paths, const char *name, stk_error *err)
{
    glob_t g = {0};
    const int rc = glob(name, GLOB_TILDE | GLOB_NOSORT, glob_error, &g);
    stk_status status = STK_OK;
    if (rc && rc != GLOB_NOMATCH)
        status = stk_error_set(err, STK_IO, "cannot expand '%s': %s", name,
                               rc == GLOB_NOSPACE ? "out of memory" : "a directory cannot be read");
    for (size_t i = 0; rc == 0 && status == STK_OK && i < g.gl_pathc; i++)
        status = paths_add(paths, g.gl_pathv[i], err);
    globfree(&g);
    return status;
}

stk_status stk__paths_glob(stk__paths *paths, const char *pattern, stk_error *err)
{
    /* A file whose own name holds such characters still opens by that name. */
    const size_t scheme = stk__path_scheme(pattern);
    if ((!scheme && !strpbrk(pattern, "*?[{~")) || access(pattern, F_OK) == 0)
        return paths_add(paths, pattern, err);
    if (scheme)
        return refuse_remote(pattern, scheme, err);
    stk__paths names = {0};
    const size_t first = paths->count;
    bool wild = false;
    stk_status status = expand(&names, pattern, 0, err);
    for (size_t i = 0; i < names.count && status == STK_OK; i++) {
        const bool matches = is_wild(names.items[i]) && access(names.items[i], F_OK) != 0;
        status = matches ? add_matches(paths, names.items[i], err) : paths_add(paths, names.items[i], err);
        wild = wild || matches;
    }
    if (status == STK_OK && paths->count == first)
        status = stk_error_set(err, STK_IO, "no file matches '%s'", pattern);
    /* glob itself would sort as the locale says, and each alternative of a brace apart. */
    if (wild && paths->count > first)
        qsort(paths->items + first, paths->count - first, sizeof *paths->items, compare_paths);
    stk__paths_clear(&names);
    return status;
}

void stk__paths_clear(stk__paths *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        stk__free(paths->items[i]);
    stk__free(paths->items);
    *paths = (stk__paths){0};
}
