/* What readers ask of manifests: are these the files that were published, and all of them? */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "formats/set.h"
#include "formats/set_impl.h"
#include "formats/shard_names.h"

#include "base/banned.h"

/* ---- the manifests of a directory ---- */

char *stk__set_dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? stk__strndup(path, slash > path ? (size_t)(slash - path) : 1) : stk__strdup(".");
}

void stk__set_dir_clear(stk__set_dir *d)
{
    for (size_t i = 0; i < d->count; i++) {
        stk__manifest_clear(&d->manifests[i]);
        stk__free(d->paths[i]);
    }
    stk__free(d->manifests);
    stk__free(d->paths);
    stk__free(d->dir);
    *d = (stk__set_dir){0};
}

/* Other programs call files so, too. */
static bool says_manifest(const char *path)
{
    char start[256];
    return stk__read_start(path, start, sizeof start) && strstr(start, "\"stoker_manifest\"");
}

static stk_status add_manifest(stk__set_dir *d, const char *name, stk_error *err)
{
    size_t paths = d->count, manifests = d->count;
    stk__manifest m;
    if (!stk__grow((void **)&d->paths, &paths, d->count + 1, sizeof *d->paths) ||
        !stk__grow((void **)&d->manifests, &manifests, d->count + 1, sizeof *d->manifests))
        return stk__nomem(sizeof *d->manifests, err);
    char *path = strcmp(d->dir, ".") == 0 ? stk__strdup(name) : stk__set_join(d->dir, name);
    if (!path)
        return stk__nomem(strlen(name), err);
    stk_status status = says_manifest(path) ? stk__manifest_load(path, &m, NULL, err) : STK_END;
    if (status == STK_OK) {
        d->paths[d->count] = path;
        d->manifests[d->count++] = m;
        return STK_OK;
    }
    /* Where it may not be read, it cannot be asked; what is damaged must not pass for what is not there. */
    const bool unread = status == STK_IO && access(path, R_OK) != 0;
    stk__free(path);
    return status == STK_END || unread ? STK_OK : status;
}

stk_status stk__set_dir_load(const char *dir, stk__set_dir *out, stk_error *err)
{
    *out = (stk__set_dir){.dir = stk__strdup(dir)};
    if (!out->dir)
        return stk__nomem(strlen(dir), err);
    DIR *d = opendir(dir);
    if (!d)
        return STK_OK;
    stk_status status = STK_OK;
    const struct dirent *entry;
    while (status == STK_OK && (entry = readdir(d)))
        if (stk__manifest_is_path(entry->d_name) && entry->d_name[0] != '.')
            status = add_manifest(out, entry->d_name, err);
    closedir(d);
    if (status != STK_OK)
        stk__set_dir_clear(out);
    return status;
}

const stk__manifest_file *stk__set_dir_find(const stk__set_dir *d, const char *name, size_t *out_manifest)
{
    for (size_t i = 0; i < d->count; i++) {
        const stk__manifest_file *f = stk__manifest_find(&d->manifests[i], name);
        *out_manifest = i;
        if (f)
            return f;
    }
    return NULL;
}

/* ---- what can be wrong ---- */

static stk_status trouble(const char *path, stk_error *err)
{
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return STK_CORRUPT;
}

stk_status stk__set_size_error(const char *path, int64_t found, int64_t wanted, const char *manifest, stk_error *err)
{
    stk_error_set(err, STK_CORRUPT,
                  "has %" PRId64 " bytes, but was published with %" PRId64 " (%.400s): write the set anew, or "
                  "remove the manifest to read the file as it is",
                  found, wanted, manifest);
    return trouble(path, err);
}

static stk_status missing_error(const stk__set_dir *d, size_t manifest, const char *name, stk_error *err)
{
    stk_error_set(err, STK_CORRUPT,
                  "file '%.250s' of this set is missing; write the set anew, or remove the manifest to read what "
                  "is there",
                  name);
    return trouble(d->paths[manifest], err);
}

static stk_status extra_error(const char *path, const char *manifest, stk_error *err)
{
    stk_error_set(err, STK_CORRUPT,
                  "looks like a file of the set of '%.400s', which does not list it; remove it, or the manifest",
                  manifest);
    return trouble(path, err);
}

/* ---- marks ---- */

void stk__set_marks_clear(stk__set_marks *marks)
{
    for (size_t i = 0; i < marks->count; i++)
        stk__free(marks->items[i].path);
    stk__free(marks->items);
    *marks = (stk__set_marks){0};
}

/* One that is gone has no number. */
static void look_at_mark(const char *path, stk__set_mark *out)
{
    struct stat st;
    out->inode = 0;
    if (stat(path, &st))
        return;
    out->inode = (uint64_t)st.st_ino;
    out->id.size_bytes = st.st_size;
    out->id.mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
}

static stk_status add_mark(stk__set_marks *marks, const char *path, stk_error *err)
{
    stk__set_mark mark = {.path = stk__strdup(path)};
    if (!mark.path || !stk__grow((void **)&marks->items, &marks->capacity, marks->count + 1, sizeof *marks->items)) {
        stk__free(mark.path);
        return stk__nomem(strlen(path), err);
    }
    look_at_mark(path, &mark);
    marks->items[marks->count++] = mark;
    return STK_OK;
}

stk_status stk__set_marks_check(const stk__set_marks *marks, stk_error *err)
{
    for (size_t i = 0; i < marks->count; i++) {
        const stk__set_mark *then = &marks->items[i];
        stk__set_mark now = {0};
        look_at_mark(then->path, &now);
        if (now.inode == then->inode && now.id.size_bytes == then->id.size_bytes &&
            now.id.mtime_ns == then->id.mtime_ns)
            continue;
        stk_error_set(err, STK_CORRUPT,
                      "this set was replaced or removed while it was read; start again to read the new one");
        return trouble(then->path, err);
    }
    return STK_OK;
}

/* ---- the files of one directory ---- */

/* A path, and where it stands in the list. */
typedef struct place {
    const char *path;
    size_t dir_size; /* up to its last slash */
    bool wild;
} place;

static stk_status check_place(const stk__set_dir *d, const place *p, bool *reads, stk_error *err)
{
    const char *name = stk__base_name(p->path);
    size_t at;
    struct stat st;
    const stk__manifest_file *f = stk__set_dir_find(d, name, &at);
    if (f) {
        reads[at] = reads[at] || p->wild;
        /* One that is gone is found when it is opened. */
        if (stat(p->path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size != f->bytes)
            return stk__set_size_error(p->path, st.st_size, f->bytes, d->paths[at], err);
        return STK_OK;
    }
    for (at = 0; at < d->count && p->wild; at++)
        if (stk__shard_fits(d->manifests[at].pattern, name, NULL))
            return extra_error(p->path, d->paths[at], err);
    return STK_OK;
}

static stk_status check_whole(const stk__set_dir *d, size_t manifest, stk_error *err)
{
    const stk__manifest *m = &d->manifests[manifest];
    for (size_t i = 0; i < m->count; i++) {
        char *path = stk__set_join(d->dir, m->files[i].name);
        if (!path)
            return stk__nomem(strlen(d->dir), err);
        const bool there = access(path, F_OK) == 0;
        stk__free(path);
        if (!there)
            return missing_error(d, manifest, m->files[i].name, err);
    }
    return STK_OK;
}

static stk_status check_directory(const char *dir, const place *places, size_t count, stk__set_marks *marks,
                                  stk_error *err)
{
    stk__set_dir d;
    STK_TRY(stk__set_dir_load(dir, &d, err));
    bool *reads = stk__calloc(d.count + 1, sizeof *reads);
    stk_status status = reads ? STK_OK : stk__nomem(d.count, err);
    for (size_t i = 0; i < d.count && marks && status == STK_OK; i++)
        status = add_mark(marks, d.paths[i], err);
    for (size_t i = 0; i < count && d.count && status == STK_OK; i++)
        status = check_place(&d, &places[i], reads, err);
    for (size_t i = 0; i < d.count && status == STK_OK; i++)
        if (reads[i])
            status = check_whole(&d, i, err);
    stk__free(reads);
    stk__set_dir_clear(&d);
    return status;
}

/* ---- all of them ---- */

static int compare_places(const void *a, const void *b)
{
    const place *x = a, *y = b;
    const int order = memcmp(x->path, y->path, STK_MIN(x->dir_size, y->dir_size));
    return order ? order : (x->dir_size > y->dir_size) - (x->dir_size < y->dir_size);
}

static stk_status check_groups(const place *places, size_t count, stk__set_marks *marks, stk_error *err)
{
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && compare_places(&places[from], &places[to]) == 0; to++) {
        }
        char *dir = stk__set_dir_of(places[from].path);
        const stk_status status =
            dir ? check_directory(dir, places + from, to - from, marks, err) : stk__nomem(places[from].dir_size, err);
        stk__free(dir);
        STK_TRY(status);
    }
    return STK_OK;
}

stk_status stk__sets_check(const stk__paths *paths, const bool *wild, stk__set_marks *marks, stk_error *err)
{
    place *places = stk__calloc(paths->count + 1, sizeof *places);
    if (!places)
        return stk__nomem(paths->count * sizeof *places, err);
    size_t count = 0;
    for (size_t i = 0; i < paths->count; i++) {
        const char *path = paths->items[i];
        if (strcmp(path, "-") != 0)
            places[count++] = (place){path, (size_t)(stk__base_name(path) - path), wild[i]};
    }
    qsort(places, count, sizeof *places, compare_places);
    const stk_status status = check_groups(places, count, marks, err);
    stk__free(places);
    return status;
}
