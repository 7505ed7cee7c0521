/*
 * Names with wildcards to files: one component after the other, a directory read for each that has one.
 *
 * A short pattern can ask for a walk without end (every directory of every directory, back up by "..", again), so the work is
 * counted and has a limit, and the walk looks for an interrupt as it goes.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/expand.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/str.h"

#include "base/banned.h"

/* Work is counted in directory entries; the rest in what it takes compared with one. */
enum { DIRECTORY_WORK = 64, STAT_WORK = 16, STEPS_PER_ENTRY = 64, LOOK_EVERY = 512, WORK_MAX = 32000000 };

/* ---- limits ---- */

static stk_status add_work(stk__wild *w, uint64_t work, stk_error *err)
{
    const uint64_t before = w->work;
    w->work += work;
    if (w->work > WORK_MAX)
        return stk_error_set(err, STK_INVALID,
                             "'%.200s' takes too long to expand: more than %d million directory entries were looked at",
                             w->pattern, WORK_MAX / 1000000);
    return before / LOOK_EVERY != w->work / LOOK_EVERY ? stk__interrupt_check(err) : STK_OK;
}

static stk_status add_bytes(stk__wild *w, size_t bytes, stk_error *err)
{
    w->bytes += bytes;
    if (w->bytes <= STK__NAMES_BYTES_MAX)
        return STK_OK;
    return stk_error_set(err, STK_INVALID, "the names that match '%.200s' take more than %llu MiB", w->pattern,
                         (unsigned long long)(STK__NAMES_BYTES_MAX >> 20));
}

static stk_status keep_name(stk__paths *paths, const char *name, size_t size, stk_error *err)
{
    char *copy = stk__strndup(name, size);
    if (!copy || !stk__grow((void **)&paths->items, &paths->capacity, paths->count + 1, sizeof *paths->items)) {
        stk__free(copy);
        return stk__nomem(size, err);
    }
    paths->items[paths->count++] = copy;
    return STK_OK;
}

static stk_status found(stk__wild *w, const stk__text *path, stk_error *err)
{
    if (++w->names > STK__WILD_NAMES_MAX)
        return stk_error_set(err, STK_INVALID, "'%.200s' matches more than %d names", w->pattern, STK__WILD_NAMES_MAX);
    STK_TRY(add_bytes(w, path->length + 1, err));
    return keep_name(w->paths, path->data, path->length, err);
}

/* ---- what cannot be read ---- */

/* Nothing can be there: the others would hide what there is. ESRCH: a process that ended, in /proc. */
static bool is_absent(int code)
{
    return code == ENOENT || code == ENOTDIR || code == ELOOP || code == ENAMETOOLONG || code == ESRCH;
}

static stk_status unreadable(const stk__wild *w, const char *path, int code, stk_error *err)
{
    if (is_absent(code))
        return STK_OK;
    return stk_error_set(err, stk__errno_status(code),
                         "cannot expand '%.200s': a directory cannot be read: '%.200s': %s", w->pattern, path,
                         strerror(code));
}

/* ---- one component ---- */

/* A component of a pattern, to `end`, and whether more follows. */
typedef struct component {
    const char *begin, *end;
    bool last;
} component;

static component read_component(const char *at)
{
    const char *end = strchrnul(at, '/');
    return (component){at, end, *end == 0};
}

static bool is_wild(const component *c)
{
    for (const char *p = c->begin; p < c->end; p++) {
        if (*p == '\\')
            p++;
        else if (*p == '*' || *p == '?' || *p == '[')
            return true;
    }
    return false;
}

static void put_plain(stk__text *path, const component *c)
{
    for (const char *p = c->begin; p < c->end; p++) {
        if (*p == '\\' && p + 1 < c->end)
            p++;
        stk__text_putc(path, *p);
    }
}

/* A hidden name wants its dot written out; "." and "..", and files that somebody is still writing, are never meant. */
static bool may_match(const component *c, const char *name)
{
    if (name[0] != '.')
        return true;
    const char *p = c->begin + (*c->begin == '\\');
    return p < c->end && *p == '.' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !stk__is_temporary(name);
}

static bool may_be_directory(const struct dirent *e)
{
    return e->d_type == DT_DIR || e->d_type == DT_LNK || e->d_type == DT_UNKNOWN;
}

static void cut(stk__text *path, size_t length)
{
    path->length = length;
    path->data[length] = 0;
}

static stk_status add_name(stk__text *path, const char *name, stk_error *err)
{
    stk__text_puts(path, name);
    return path->failed ? stk__nomem(path->length, err) : STK_OK;
}

/* An entry of the directory at `path`: found, or kept in `held` when more components follow. */
static stk_status take_entry(stk__wild *w, stk__text *path, const component *c, const struct dirent *e,
                             stk__paths *held, stk_error *err)
{
    uint64_t steps = 0;
    const bool fits = (c->last || may_be_directory(e)) && may_match(c, e->d_name) &&
                      stk__wild_match(c->begin, c->end, e->d_name, &steps);
    STK_TRY(add_work(w, 1 + steps / STEPS_PER_ENTRY, err));
    if (!fits)
        return STK_OK;
    if (!c->last) {
        const size_t size = strlen(e->d_name);
        STK_TRY(add_bytes(w, size + 1, err));
        return keep_name(held, e->d_name, size, err);
    }
    const size_t length = path->length;
    STK_TRY(add_name(path, e->d_name, err));
    STK_TRY(found(w, path, err));
    cut(path, length);
    return STK_OK;
}

static stk_status read_directory(stk__wild *w, stk__text *path, const component *c, stk__paths *held, stk_error *err)
{
    STK_TRY(add_work(w, DIRECTORY_WORK, err));
    const char *name = path->length ? path->data : ".";
    DIR *d = opendir(name);
    if (!d)
        return unreadable(w, name, errno, err);
    stk_status status = STK_OK;
    while (status == STK_OK) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (!e) {
            status = errno ? unreadable(w, name, errno, err) : STK_OK;
            break;
        }
        status = take_entry(w, path, c, e, held, err);
    }
    closedir(d);
    return status;
}

/* ---- the walk ---- */

static stk_status walk(stk__wild *w, stk__text *path, const char *rest, stk_error *err);

/* The component's matches below `path`, and for each of them the components behind it. */
static stk_status walk_wild(stk__wild *w, stk__text *path, const component *c, stk_error *err)
{
    stk__paths held = {0};
    const size_t length = path->length;
    stk_status status = read_directory(w, path, c, &held, err);
    for (size_t i = 0; i < held.count && status == STK_OK; i++) {
        status = add_name(path, held.items[i], err);
        if (status == STK_OK)
            status = walk(w, path, c->end, err);
        if (status == STK_OK)
            cut(path, length);
    }
    for (size_t i = 0; i < held.count; i++)
        w->bytes -= strlen(held.items[i]) + 1; /* of what was held, not of what was found */
    stk__paths_clear(&held);
    return status;
}

/* All components have been read, none of them since the last '*': is there such a file? A link that leads nowhere is one. */
static stk_status look(stk__wild *w, const stk__text *path, stk_error *err)
{
    struct stat st;
    STK_TRY(add_work(w, STAT_WORK, err));
    return lstat(path->data, &st) ? unreadable(w, path->data, errno, err) : found(w, path, err);
}

static stk_status walk(stk__wild *w, stk__text *path, const char *rest, stk_error *err)
{
    for (;;) {
        for (; *rest == '/'; rest++)
            stk__text_putc(path, '/');
        const component c = read_component(rest);
        if (path->failed)
            return stk__nomem(path->length, err);
        if (path->length >= PATH_MAX)
            return STK_OK; /* the system takes no such name */
        if (c.begin == c.end)
            return look(w, path, err);
        if (is_wild(&c))
            return walk_wild(w, path, &c, err);
        put_plain(path, &c);
        rest = c.end;
    }
}

stk_status stk__wild_expand(stk__wild *w, const char *name, stk_error *err)
{
    stk__text path = STK__TEXT_INIT;
    size_t used = 0;
    stk__text_puts(&path, "");
    stk_status status = path.failed ? stk__nomem(1, err) : stk__tilde_expand(name, &path, &used, err);
    if (status == STK_OK)
        status = walk(w, &path, name + used, err);
    stk__text_clear(&path);
    return status;
}
