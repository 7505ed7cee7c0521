/* Publication of a set by one step: its directory takes the place of the old one, or its files are committed to be moved. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "formats/set_impl.h"
#include "formats/shard_names.h"

#include "base/banned.h"

/* So long a writer waits for another that publishes into the same directory. */
#define WAIT_MS 60000
#define STEP_MS 10
/* Another program may put files into the directory while we look at it. */
#define TRIES_MAX 8

/* ---- the manifest ---- */

static int64_t rows_of_shard(const stk__set *s, int64_t rows, int64_t i)
{
    return rows / s->shards + (i < rows % s->shards);
}

/* The shards first, in order; then what was added before. */
static stk_status list_files(stk__set *s, int64_t rows, stk__manifest *m, stk_error *err)
{
    m->rows = rows;
    m->pattern = stk__strdup(s->pattern);
    if (!m->pattern)
        return stk__nomem(strlen(s->pattern), err);
    for (int64_t i = 0; i < s->shards; i++) {
        const stk__set_file *f = s->files[i];
        STK_TRY(stk__manifest_add(m, stk__base_name(stk__set_file_path(f)), stk__set_file_bytes(f),
                                  rows_of_shard(s, rows, i), stk__set_file_digest(f), err));
    }
    for (size_t i = 0; i < s->manifest.count; i++) {
        const stk__manifest_file *f = &s->manifest.files[i];
        STK_TRY(stk__manifest_add(m, f->name, f->bytes, f->rows, f->digest, err));
    }
    return STK_OK;
}

static stk_status write_manifest(stk__set *s, int64_t rows, stk_error *err)
{
    stk__manifest m = {0};
    stk__text text = STK__TEXT_INIT;
    stk_status status = list_files(s, rows, &m, err);
    if (status == STK_OK)
        status = stk__manifest_print(&m, &text, err);
    const size_t at = s->manifest.count;
    if (status == STK_OK)
        status = stk__set_add(s, s->manifest_name, text.data, text.length, err);
    if (status == STK_OK)
        s->published_digest = s->manifest.files[at].digest;
    stk__text_clear(&text);
    stk__manifest_clear(&m);
    return status;
}

/* ---- one publisher at a time ---- */

/* Locks the directory above the output; -1 where that cannot be: then all goes well as long as others do not publish here. */
static int lock_above(const stk__set *s)
{
    char *above = stk__set_join(s->dir, "..");
    int fd = above ? open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    stk__free(above);
    if (fd < 0 && errno == ENOENT && s->beside) { /* the output is not there yet */
        char *parent = stk__set_dir_of(s->beside);
        fd = parent ? open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        stk__free(parent);
    }
    return fd;
}

static stk_status lock_publishing(const stk__set *s, int *out_fd, stk_error *err)
{
    *out_fd = lock_above(s);
    for (int waited = 0; *out_fd >= 0 && waited < WAIT_MS; waited += STEP_MS) {
        if (flock(*out_fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
            return STK_OK;
        nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000L}, NULL);
    }
    if (*out_fd < 0)
        return STK_OK;
    close(*out_fd);
    *out_fd = -1;
    stk_error_set(err, STK_IO, "another set is being published here, for more than %d s", WAIT_MS / 1000);
    if (err)
        snprintf(err->file, sizeof err->file, "%s", s->dir);
    return STK_IO;
}

/* ---- a directory of its own ---- */

/* The new directory is to be like the one that it replaces. */
static bool take_after(const stk__set *s)
{
    struct stat old, own;
    if (stat(s->beside, &old))
        return errno == ENOENT;
    if (fstat(s->data_fd, &own) || (own.st_gid != old.st_gid && fchown(s->data_fd, (uid_t)-1, old.st_gid)))
        return false;
    return fchmod(s->data_fd, old.st_mode & 07777) == 0;
}

/* Whether files of an exchanged directory are the older set's: others came between our look and the exchange, and go back. */
static void give_back_others(const stk__set *s)
{
    stk__manifest old = {0};
    char *path = stk__set_join(s->data, s->manifest_name);
    const bool known = path && stk__manifest_load(path, &old, NULL, NULL) == STK_OK;
    DIR *d = opendir(s->data);
    const struct dirent *entry;
    while (d && (entry = readdir(d))) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, s->manifest_name) == 0 ||
            (known && stk__manifest_find(&old, name)))
            continue;
        char *from = stk__set_join(s->data, name), *to = stk__set_join(s->beside, name);
        if (from && to)
            renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
        stk__free(from);
        stk__free(to);
    }
    if (d)
        closedir(d);
    stk__manifest_clear(&old);
    stk__free(path);
}

/* *out_done false: it cannot be, so the files go in one by one. */
static stk_status publish_alone(stk__set *s, bool *out_done, stk_error *err)
{
    *out_done = false;
    for (int i = 0; i < TRIES_MAX; i++) {
        stk__set_place place;
        STK_TRY(stk__set_look(s, &place, err));
        if (!place.alone || s->inside || !take_after(s))
            return STK_OK;
        /* Onto nothing, or onto an empty directory. */
        *out_done = rename(s->data, s->beside) == 0;
        bool exchanged = false;
        if (!*out_done && (errno == ENOTEMPTY || errno == EEXIST)) {
            exchanged = *out_done = renameat2(AT_FDCWD, s->data, AT_FDCWD, s->beside, RENAME_EXCHANGE) == 0;
            if (!exchanged && errno == ENOENT)
                continue; /* it was removed meanwhile */
        }
        if (exchanged)
            give_back_others(s);
        break;
    }
    return STK_OK;
}

/* ---- among other files ---- */

static stk_status publish_among(stk__set *s, stk_error *err)
{
    char *publish = stk__set_publish_name(s->name), *to = publish ? stk__set_join(s->dir, publish) : NULL;
    stk_status status = to ? STK_OK : stk__nomem(strlen(s->dir), err);
    if (status == STK_OK && mkdir(s->dir, 0777) && errno != EEXIST)
        status = stk__io_error(err, s->dir, "cannot create directory");
    if (status == STK_OK && rename(s->data, to))
        status = stk__io_error(err, to, "cannot rename into place");
    stk__free(publish);
    stk__free(to);
    STK_TRY(status);
    s->published = true;
    status = stk__set_roll(s->dir, s->name, err);
    if (status != STK_OK)
        stk__error_prefix(
            err, "the set is written and takes the place of the older one as soon as a reader or writer comes by, but "
                 "not all of it could be moved there now: ");
    return status;
}

static stk_status publish_locked(stk__set *s, stk_error *err)
{
    STK_TRY(stk__sets_settle(s->dir, err));
    bool done;
    STK_TRY(publish_alone(s, &done, err));
    if (!done)
        return publish_among(s, err);
    s->published = true;
    return stk__sync_parent(s->beside, err);
}

stk_status stk__set_publish(stk__set *s, int64_t rows, stk_error *err)
{
    if (s->published)
        return STK_OK;
    for (int64_t i = 0; i < s->shards; i++)
        STK_TRY(stk__set_file_sync(s->files[i], err));
    STK_TRY(write_manifest(s, rows, err));
    if (fsync(s->data_fd) && errno != EINVAL && errno != ENOTSUP)
        return stk__io_error(err, s->data, "cannot sync the directory");
    if (s->keep)
        STK_TRY(stk__set_keep_final(s, s->published_digest, err));
    int lock;
    STK_TRY(lock_publishing(s, &lock, err));
    const stk_status status = publish_locked(s, err);
    if (lock >= 0)
        close(lock);
    return status;
}
