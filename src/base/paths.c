/* From what users write for files to their paths; braces.c, wild.c and wild_match.c do the parts. */
#define _GNU_SOURCE
#include "base/file.h"

#include <ctype.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/expand.h"
#include "base/interrupt.h"
#include "base/mem.h"

#include "base/banned.h"

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
    return stk_error_set(err, STK_UNSUPPORTED, "'%.200s': remote files (%.*s) are not read; copy or mount them first",
                         path, (int)scheme, path);
}

/* The C library knows where home is; it gets nothing that it would have to search for. */
stk_status stk__tilde_expand(const char *name, stk__text *path, size_t *out_used, stk_error *err)
{
    char user[256];
    const size_t size = name[0] == '~' ? strcspn(name, "/") : 0;
    *out_used = 0;
    if (!size || size >= sizeof user || strcspn(name, "*?[\\") < size)
        return STK_OK;
    memcpy(user, name, size);
    user[size] = 0;
    glob_t g = {0};
    const int rc = glob(user, GLOB_TILDE | GLOB_NOCHECK | GLOB_NOSORT, NULL, &g);
    if (rc == 0 && g.gl_pathc == 1) {
        stk__text_puts(path, g.gl_pathv[0]);
        *out_used = size;
    }
    globfree(&g);
    return rc == GLOB_NOSPACE || path->failed ? stk__nomem(sizeof user, err) : STK_OK;
}

static bool is_wild(const char *name)
{
    return strpbrk(name, "*?[") || name[0] == '~';
}

/* A file whose own name holds such characters still opens by that name. */
static bool is_there(const char *name)
{
    return access(name, F_OK) == 0;
}

/* Appends what every name of the braces stands for; *out_wild: files were looked for, so that they have no order yet. */
static stk_status add_names(stk__wild *w, const stk__braces *b, bool *out_wild, stk_error *err)
{
    const uint64_t count = stk__braces_count(b);
    stk_status status = STK_OK;
    *out_wild = false;
    for (uint64_t i = 0; i < count && status == STK_OK; i++) {
        char *name = stk__braces_name(b, i);
        if (name && is_wild(name) && !is_there(name)) {
            *out_wild = true;
            status = stk__wild_expand(w, name, err);
            stk__free(name);
        } else {
            status = paths_take(w->paths, name, err);
        }
        if (status == STK_OK && i % 1024 == 0)
            status = stk__interrupt_check(err);
    }
    return status;
}

stk_status stk__paths_glob(stk__paths *paths, const char *pattern, stk_error *err)
{
    const size_t scheme = stk__path_scheme(pattern);
    if ((!scheme && !strpbrk(pattern, "*?[{~")) || is_there(pattern))
        return paths_add(paths, pattern, err);
    if (scheme)
        return refuse_remote(pattern, scheme, err);
    stk__wild w = {.paths = paths, .pattern = pattern};
    stk__braces *braces = NULL;
    const size_t first = paths->count;
    bool wild;
    STK_TRY(stk__braces_open(pattern, &braces, err));
    stk_status status = add_names(&w, braces, &wild, err);
    if (status == STK_OK && paths->count == first)
        status = stk_error_set(err, STK_IO, "no file matches '%s'", pattern);
    /* By bytes over all of it, whatever the locale and the order of alternatives. */
    if (wild && paths->count > first)
        qsort(paths->items + first, paths->count - first, sizeof *paths->items, compare_paths);
    stk__braces_close(braces);
    return status;
}

void stk__paths_clear(stk__paths *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        stk__free(paths->items[i]);
    stk__free(paths->items);
    *paths = (stk__paths){0};
}
