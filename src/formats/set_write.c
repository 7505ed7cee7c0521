/* Sets while they are written: where they will be, their hidden directory, and their files. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/mem.h"
#include "formats/schema.h"
#include "formats/set_impl.h"
#include "formats/shard_names.h"

#include "base/banned.h"

/* ---- names ---- */

char *stk__set_join(const char *dir, const char *name)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "%s%s%s", dir, *dir && dir[strlen(dir) - 1] == '/' ? "" : "/", name);
    if (t.failed)
        stk__text_clear(&t);
    return t.data;
}

/* The last part of what a function makes of a pattern. */
static char *name_of(void (*put)(stk__text *t, const char *pattern), const char *pattern)
{
    stk__text t = STK__TEXT_INIT;
    put(&t, pattern);
    if (t.failed)
        stk__text_clear(&t);
    return t.data;
}

char *stk__set_schema_name(const char *pattern)
{
    return name_of(stk__schema_path, pattern);
}

bool stk__set_owns(const char *pattern, const char *schema_name, const char *name)
{
    return stk__shard_fits(pattern, name, NULL) || strcmp(schema_name, name) == 0;
}

/* The directory of the pattern, in which "%%" is a percent sign; "." where it has none. */
static char *directory_of(const char *pattern)
{
    const char *base = stk__base_name(pattern);
    stk__text t = STK__TEXT_INIT;
    for (const char *p = pattern; p < base; p++) {
        p += p[0] == '%' && p[1] == '%';
        stk__text_putc(&t, *p);
    }
    while (t.length > 1 && t.data[t.length - 1] == '/')
        t.data[--t.length] = 0;
    if (!t.length)
        stk__text_putc(&t, '.');
    if (t.failed)
        stk__text_clear(&t);
    return t.data;
}

/* Whether the last part of a path is a name in its parent, and no link to somewhere else. */
static bool is_plain(const char *dir)
{
    struct stat st;
    const char *base = stk__base_name(dir);
    if (!*base || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
        return false;
    return lstat(dir, &st) || !S_ISLNK(st.st_mode);
}

/* The output directory by a name that can be renamed; NULL also where there is none, as of "/". */
static char *name_beside(const char *dir)
{
    char real[PATH_MAX];
    if (is_plain(dir))
        return stk__strdup(dir);
    if (!realpath(dir, real) || strcmp(real, "/") == 0)
        return NULL;
    return stk__strdup(real);
}

char *stk__set_shard_path(const stk__set *s, int64_t i)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "%s/", s->data);
    stk__shard_path(&t, s->pattern, i, s->shards);
    if (t.failed)
        stk__text_clear(&t);
    return t.data;
}

/* Found now, not when all is written. */
static stk_status check_lengths(const stk__set *s, stk_error *err)
{
    if (strlen(s->manifest_name) <= NAME_MAX && strlen(s->name) + strlen(STK__PUBLISH_SUFFIX) < NAME_MAX)
        return STK_OK;
    return stk_error_set(err, STK_INVALID,
                         "'%.250s' is too long for the name of a set: its manifest would have %zu bytes, wanted "
                         "at most %d",
                         s->name, strlen(s->manifest_name), NAME_MAX);
}

stk_status stk__set_new(const stk__set_config *config, stk__set **out, stk_error *err)
{
    stk__set *s = stk__calloc(1, sizeof *s);
    if (!s)
        return stk__nomem(sizeof *s, err);
    const char *base = stk__base_name(config->pattern);
    s->hidden.fd = s->data_fd = -1;
    s->dir = directory_of(config->pattern);
    s->pattern = stk__strdup(base);
    s->name = name_of(stk__set_name, base);
    s->manifest_name = name_of(stk__manifest_path, base);
    s->schema_name = stk__set_schema_name(base);
    s->has_schema = config->schema;
    s->shards = config->shards;
    s->keep = config->keep;
    s->files = stk__calloc((size_t)config->shards, sizeof(stk__set_file *));
    if (!s->dir || !s->pattern || !s->name || !s->manifest_name || !s->schema_name || !s->files) {
        stk__set_close(s);
        return stk__nomem((size_t)config->shards * sizeof(stk__set_file *), err);
    }
    stk_status status = check_lengths(s, err);
    if (status == STK_OK)
        status = stk__make_parents(s->dir, err);
    if (status != STK_OK) {
        stk__set_close(s);
        return status;
    }
    s->beside = name_beside(s->dir);
    *out = s;
    return STK_OK;
}

/* ---- the output directory ---- */

static stk_status refuse(stk_error *err, const char *dir, const char *name, const char *why)
{
    stk_error_set(err, STK_IO, "%s", why);
    if (err)
        snprintf(err->file, sizeof err->file, "%s/%s", dir, name);
    return STK_IO;
}

/* Whether a name is that of a file which this set will have. */
static bool is_new_name(const stk__set *s, const char *name)
{
    int64_t number;
    if (strcmp(name, s->schema_name) == 0)
        return s->has_schema;
    if (!stk__shard_fits(s->pattern, name, &number) || number >= s->shards)
        return false;
    stk__text t = STK__TEXT_INIT;
    stk__shard_path(&t, s->pattern, number, s->shards);
    const bool same = t.data && strcmp(t.data, name) == 0;
    stk__text_clear(&t);
    return same;
}

/* A manifest of another set must not list what we are about to write. */
static stk_status check_other(const stk__set *s, const char *name, stk_error *err)
{
    char *path = stk__set_join(s->dir, name);
    stk__manifest other;
    if (!path)
        return stk__nomem(strlen(s->dir), err);
    stk_status status = STK_OK;
    if (stk__manifest_load(path, &other, NULL, NULL) == STK_OK) {
        for (size_t i = 0; i < other.count && status == STK_OK; i++) {
            char why[600];
            snprintf(why, sizeof why, "belongs to the set of %.250s; choose another name, or remove that set", name);
            if (stk__set_owns(s->pattern, s->schema_name, other.files[i].name) && is_new_name(s, other.files[i].name))
                status = refuse(err, s->dir, other.files[i].name, why);
        }
        stk__manifest_clear(&other);
    }
    stk__free(path);
    return status;
}

/* The manifest of the older set; empty where there is none. */
static stk_status load_old(const stk__set *s, stk__manifest *out, stk_error *err)
{
    char *path = stk__set_join(s->dir, s->manifest_name);
    *out = (stk__manifest){0};
    if (!path)
        return stk__nomem(strlen(s->dir), err);
    stk_status status = STK_OK;
    if (access(path, F_OK) == 0)
        status = stk__manifest_load(path, out, NULL, err);
    stk__free(path);
    if (status != STK_OK) {
        stk__error_prefix(err,
                          "cannot be read, so what is the old set is not known; remove it, or choose another name: ");
        return status;
    }
    if (!out->pattern || strcmp(out->pattern, s->pattern) == 0)
        return STK_OK;
    char why[700];
    snprintf(why, sizeof why,
             "is of the set '%.250s', which is not replaced by '%.250s'; remove that set, or choose another name",
             out->pattern, s->pattern);
    stk__manifest_clear(out);
    return refuse(err, s->dir, s->manifest_name, why);
}

/* A rename would put a plain file in the place of a device, or fail on a directory after all the work. */
static stk_status check_targets(const stk__set *s, stk_error *err)
{
    stk__text t = STK__TEXT_INIT;
    stk_status status = STK_OK;
    for (int64_t i = 0; i < s->shards && status == STK_OK; i++) {
        struct stat st;
        stk__text_reset(&t);
        stk__text_printf(&t, "%s/", s->dir);
        stk__shard_path(&t, s->pattern, i, s->shards);
        if (t.failed)
            status = stk__nomem(t.length, err);
        else if (stat(t.data, &st) == 0 && !S_ISREG(st.st_mode))
            status = refuse(err, s->dir, stk__base_name(t.data),
                            S_ISDIR(st.st_mode) ? "cannot write: Is a directory" : "cannot write: not a regular file");
    }
    stk__text_clear(&t);
    return status;
}

/* One name in the directory. */
static stk_status look_at_name(const stk__set *s, const stk__manifest *old, const char *name, stk__set_place *place,
                               stk_error *err)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, s->manifest_name) == 0)
        return STK_OK;
    if (old->pattern && stk__manifest_find(old, name) && stk__set_owns(s->pattern, s->schema_name, name))
        return STK_OK;
    place->alone = false;
    if (stk__manifest_is_path(name))
        return check_other(s, name, err);
    if (stk__shard_fits(s->pattern, name, NULL) && !is_new_name(s, name))
        return refuse(
            err, s->dir, name,
            "is there already and not of this set, but readers would take it for a part of it; remove it, or choose "
            "another name");
    return STK_OK;
}

/* Whether the directory can be given away for another one: nothing hangs on it but its name. */
static bool is_replaceable(const stk__set *s, int fd)
{
    struct stat st, above, here;
    struct statx about;
    if (!s->beside || fstat(fd, &st) || fstatat(fd, "..", &above, 0) || stat(".", &here))
        return false;
    if (st.st_dev != above.st_dev || (st.st_dev == here.st_dev && st.st_ino == here.st_ino) || st.st_uid != geteuid())
        return false;
    if (statx(fd, "", AT_EMPTY_PATH, 0, &about) == 0 && (about.stx_attributes & STATX_ATTR_MOUNT_ROOT))
        return false;
    char names[1024]; /* access lists and the like; a label of the system's is given to the new one as well */
    const ssize_t n = flistxattr(fd, names, sizeof names);
    if (n < 0)
        return errno == ENOTSUP;
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1)
        if (strncmp(names + at, "security.", 9) != 0)
            return false;
    return true;
}

/* Looks at every name in the directory. */
static stk_status look_at_names(const stk__set *s, DIR *d, stk__set_place *out, stk_error *err)
{
    stk__manifest old;
    STK_TRY(load_old(s, &old, err));
    out->alone = is_replaceable(s, dirfd(d));
    stk_status status = STK_OK;
    const struct dirent *entry;
    while (status == STK_OK && (entry = readdir(d)))
        status = look_at_name(s, &old, entry->d_name, out, err);
    stk__manifest_clear(&old);
    return status;
}

stk_status stk__set_look(const stk__set *s, stk__set_place *out, stk_error *err)
{
    *out = (stk__set_place){.alone = s->beside != NULL};
    DIR *d = opendir(s->dir);
    if (!d && errno == ENOENT)
        return STK_OK;
    if (!d && errno != EACCES)
        return stk__io_error(err, s->dir, "cannot write into the directory");
    *out = (stk__set_place){.exists = true}; /* one that may be written but not read cannot be looked at */
    stk_status status = check_targets(s, err);
    if (status == STK_OK && d)
        status = look_at_names(s, d, out, err);
    if (d)
        closedir(d);
    return status;
}

/* ---- the hidden directory ---- */

static stk_status make_directory(const char *dir, stk_error *err)
{
    if (mkdir(dir, 0777) && errno != EEXIST)
        return stk__io_error(err, dir, "cannot create directory");
    return STK_OK;
}

/* Beside the output directory, or in it. */
static stk_status make_hidden(stk__set *s, bool inside, stk_error *err)
{
    if (inside)
        STK_TRY(make_directory(s->dir, err));
    s->inside = inside;
    if (s->keep)
        return stk__set_keep_make(s, inside, err);
    char *path = inside ? stk__set_join(s->dir, s->name) : stk__strdup(s->beside);
    if (!path)
        return stk__nomem(strlen(s->dir), err);
    stk_status status = stk__new_dir_open(&s->hidden, path, err);
    stk__free(path);
    STK_TRY(status);
    s->data = stk__strdup(s->hidden.temp);
    s->data_fd = dup(s->hidden.fd);
    return s->data && s->data_fd >= 0 ? STK_OK : stk__nomem(strlen(s->dir), err);
}

static stk_status open_set(stk__set *s, stk_error *err)
{
    STK_TRY(stk__sets_settle(s->dir, err));
    stk__set_place place;
    STK_TRY(stk__set_look(s, &place, err));
    stk__set_keep_forget(s);
    if (place.exists)
        stk__sweep(s->dir);
    stk_status status = make_hidden(s, !place.alone, err);
    /* A parent that we may not write in is no reason to give up. */
    if (status == STK_IO && place.alone && place.exists)
        status = make_hidden(s, true, err);
    STK_TRY(status);
    for (int64_t i = 0; i < s->shards; i++) {
        char *path = stk__set_shard_path(s, i), *target = path ? stk__set_join(s->dir, stk__base_name(path)) : NULL;
        status = target ? stk__set_file_create(path, target, &s->files[i], err) : stk__nomem(strlen(s->data), err);
        stk__free(path);
        stk__free(target);
        STK_TRY(status);
    }
    return STK_OK;
}

stk_status stk__set_open(const stk__set_config *config, stk__set **out, stk_error *err)
{
    stk__set *s;
    STK_TRY(stk__set_new(config, &s, err));
    const stk_status status = open_set(s, err);
    if (status != STK_OK) {
        stk__set_close(s);
        return status;
    }
    *out = s;
    return STK_OK;
}

stk__set_file *stk__set_shard(stk__set *s, int64_t i)
{
    return s->files[i];
}

const char *stk__set_kept_at(const stk__set *s)
{
    return s->hidden.temp ? s->hidden.temp : "";
}

stk_status stk__set_add(stk__set *s, const char *name, const void *data, size_t size, stk_error *err)
{
    char *path = stk__set_join(s->data, name), *target = path ? stk__set_join(s->dir, name) : NULL;
    stk__set_file *f = NULL;
    stk_status status = target ? stk__set_file_create(path, target, &f, err) : stk__nomem(strlen(s->data), err);
    if (status == STK_OK)
        status = stk__set_file_write(f, data, size, err);
    if (status == STK_OK)
        status = stk__set_file_sync(f, err);
    if (status == STK_OK)
        status = stk__manifest_add(&s->manifest, name, (int64_t)size, 0, stk__set_file_digest(f), err);
    stk__set_file_close(f);
    stk__free(path);
    stk__free(target);
    return status;
}

void stk__set_close(stk__set *s)
{
    if (!s)
        return;
    for (int64_t i = 0; s->files && i < s->shards; i++)
        stk__set_file_close(s->files[i]);
    if (s->keep && s->saved && !s->published && s->hidden.temp) {
        close(s->hidden.fd); /* stays for a later run */
        stk__free(s->hidden.temp);
        stk__free(s->hidden.path);
    } else {
        stk__new_dir_abort(&s->hidden);
    }
    if (s->data_fd >= 0)
        close(s->data_fd);
    stk__manifest_clear(&s->manifest);
    stk__free(s->files);
    stk__free(s->data);
    stk__free(s->schema_name);
    stk__free(s->manifest_name);
    stk__free(s->name);
    stk__free(s->pattern);
    stk__free(s->beside);
    stk__free(s->dir);
    stk__free(s);
}
