/* Files and directories that appear whole or not at all. */
#define _GNU_SOURCE
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#include "base/banned.h"

/* Names are drawn of 2^64; more than one try is for a sweeper that took the fresh file for a leftover. */
#define TRIES_MAX 16

/* The directory of a path, as far as it can be one. No allocation: what was renamed is there, and its sync must not fail for that. */
static const char *parent_of(const char *path, char out[PATH_MAX])
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    snprintf(out, PATH_MAX, "%.*s", n ? (int)STK_MIN(n, (size_t)PATH_MAX) : 1, n ? path : ".");
    return out;
}

stk_status stk__sync_parent(const char *path, stk_error *err)
{
    char room[PATH_MAX];
    const char *dir = parent_of(path, room);
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* A directory that may be written but not read cannot be synced, nor can those of some network file systems. */
    stk_status status = STK_OK;
    if (fd >= 0 && fsync(fd) && errno != EINVAL && errno != ENOTSUP && errno != EROFS)
        status = stk__io_error(err, dir, "cannot sync the directory");
    if (fd >= 0)
        close(fd);
    return status;
}

static void sweep_beside(const char *path)
{
    char dir[PATH_MAX];
    stk__sweep(parent_of(path, dir));
}

/* Makes something under a hidden name: a descriptor, -1 with errno. */
typedef int (*make_hidden)(const char *temp);

static int make_file(const char *temp)
{
    return open(temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

static int make_dir(const char *temp)
{
    if (mkdir(temp, 0777))
        return -1;
    const int fd = open(temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        const int code = errno;
        rmdir(temp);
        errno = code == ENOENT ? EEXIST : code; /* a sweeper was faster; another name, then */
    }
    return fd;
}

/* Made and locked, with its name in *out_temp; else -1 with errno. */
static int open_hidden(const char *path, make_hidden make, char **out_temp)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        char *temp = stk__hidden_name(path, STK__TEMP_SUFFIX);
        if (!temp) {
            errno = ENOMEM;
            return -1;
        }
        const int fd = make(temp);
        if (fd >= 0 && stk__lock_alive(fd)) {
            *out_temp = temp;
            return fd;
        }
        const int code = errno;
        if (fd >= 0)
            close(fd);
        stk__free(temp);
        if (fd < 0 && code != EEXIST) {
            errno = code;
            return -1;
        }
    }
    errno = EEXIST;
    return -1;
}

/* ---- files ---- */

static void new_file_free(stk__new_file *f)
{
    stk__free(f->path);
    stk__free(f->temp);
    *f = (stk__new_file){0};
}

stk_status stk__new_file_open(stk__new_file *f, const char *path, stk_error *err)
{
    *f = (stk__new_file){0};
    /* The rename would put a plain file in the place of a device, or fail on a directory after all the work. */
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        return stk__io_error(err, path, S_ISDIR(st.st_mode) ? "cannot write" : "cannot write: not a regular file");
    }
    f->path = stk__strdup(path);
    if (!f->path)
        return stk__nomem(strlen(path) + 1, err);
    sweep_beside(path);
    const int fd = open_hidden(path, make_file, &f->temp);
    f->stream = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (f->stream)
        return STK_OK;
    const stk_status status = stk__io_error(err, path, "cannot create");
    if (fd >= 0) {
        close(fd);
        unlink(f->temp);
    }
    new_file_free(f);
    return status;
}

stk_status stk__new_file_write(stk__new_file *f, const void *data, size_t size, stk_error *err)
{
    if (size && fwrite(data, 1, size, f->stream) != size)
        return stk__io_error(err, f->path, "cannot write");
    return STK_OK;
}

stk_status stk__new_file_sync(stk__new_file *f, stk_error *err)
{
    if (fflush(f->stream) || fsync(fileno(f->stream)))
        return stk__io_error(err, f->path, "cannot write");
    return STK_OK;
}

/* Renamed before it is closed: with the descriptor goes the lock, and a sweeper may come. */
static stk_status rename_and_close(stk__new_file *f, stk_status status, stk_error *err)
{
    if (status == STK_OK && rename(f->temp, f->path))
        status = stk__io_error(err, f->path, "cannot rename into place");
    if (status != STK_OK)
        unlink(f->temp);
    fclose(f->stream);
    return status;
}

stk_status stk__new_file_commit(stk__new_file *f, stk_error *err)
{
    stk_status status = rename_and_close(f, stk__new_file_sync(f, err), err);
    if (status == STK_OK)
        status = stk__sync_parent(f->path, err);
    new_file_free(f);
    return status;
}

stk_status stk__new_file_commit_unsynced(stk__new_file *f, stk_error *err)
{
    const stk_status written = fflush(f->stream) ? stk__io_error(err, f->path, "cannot write") : STK_OK;
    const stk_status status = rename_and_close(f, written, err);
    new_file_free(f);
    return status;
}

void stk__new_file_abort(stk__new_file *f)
{
    if (!f->stream)
        return;
    unlink(f->temp);
    fclose(f->stream);
    new_file_free(f);
}

stk_status stk__write_file(const char *path, const void *data, size_t size, stk_error *err)
{
    stk__new_file f;
    STK_TRY(stk__new_file_open(&f, path, err));
    const stk_status status = stk__new_file_write(&f, data, size, err);
    if (status != STK_OK) {
        stk__new_file_abort(&f);
        return status;
    }
    return stk__new_file_commit(&f, err);
}

/* ---- directories ---- */

static void new_dir_free(stk__new_dir *d)
{
    if (d->fd >= 0)
        close(d->fd);
    stk__free(d->path);
    stk__free(d->temp);
    *d = (stk__new_dir){.fd = -1};
}

stk_status stk__new_dir_open(stk__new_dir *d, const char *path, stk_error *err)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    *d = (stk__new_dir){.fd = -1, .path = stk__strndup(path, length)};
    if (!d->path)
        return stk__nomem(length, err);
    stk_status status = stk__make_parents(d->path, err);
    if (status == STK_OK) {
        sweep_beside(d->path);
        d->fd = open_hidden(d->path, make_dir, &d->temp);
        status = d->fd >= 0 ? STK_OK : stk__io_error(err, path, "cannot create directory");
    }
    if (status != STK_OK)
        new_dir_free(d);
    return status;
}

stk_status stk__new_dir_commit(stk__new_dir *d, stk_error *err)
{
    stk_status status = STK_OK;
    if (syncfs(d->fd))
        status = stk__io_error(err, d->path, "cannot write");
    else if (rename(d->temp, d->path))
        status = stk__io_error(err, d->path, "cannot rename into place");
    else
        status = stk__sync_parent(d->path, err);
    if (status != STK_OK)
        return status; /* abort removes it */
    new_dir_free(d);
    return STK_OK;
}

void stk__new_dir_abort(stk__new_dir *d)
{
    if (!d->temp)
        return;
    stk__remove_tree(d->temp);
    new_dir_free(d);
}
