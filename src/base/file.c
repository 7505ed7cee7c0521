/* File helpers over POSIX. */
#define _GNU_SOURCE
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/mem.h"

#include "base/banned.h"

static stk_status io_error(stk_error *err, const char *path, const char *what)
{
    const int code = errno;
    if (err)
        err->status = STK_OK; /* a fresh error: forget older places */
    stk_error_set(err, STK_IO, "%s: %s", what, strerror(code));
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return STK_IO;
}

stk_status stk__file_id_of(int fd, const char *path, stk__file_id *out, stk_error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return io_error(err, path, "cannot stat");
    out->size_bytes = st.st_size;
    out->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return STK_OK;
}

stk_status stk__file_open(const char *path, int *out_fd, stk__file_id *out_id, stk_error *err)
{
    int fd;
    STK_TRY(stk__open_input(path, &fd, err));
    if (fd < 0)
        return io_error(err, path, "cannot open");
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(fd);
        errno = EISDIR;
        return io_error(err, path, "cannot read");
    }
    stk__file_id id;
    const stk_status status = stk__file_id_of(fd, path, &id, err);
    if (status != STK_OK) {
        close(fd);
        return status;
    }
    *out_fd = fd;
    if (out_id)
        *out_id = id;
    return STK_OK;
}

stk_status stk__pread_full(int fd, void *data, size_t size, int64_t offset, const char *path, stk_error *err)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t n = pread(fd, (char *)data + done, size - done, offset + (int64_t)done);
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0) {
            stk_error_set(err, STK_CORRUPT, "file ends at byte %lld, wanted %zu bytes from offset %lld",
                          (long long)offset + (long long)done, size, (long long)offset);
            if (err) {
                snprintf(err->file, sizeof err->file, "%s", path);
                err->offset = offset;
            }
            return STK_CORRUPT;
        } else if (errno != EINTR) {
            io_error(err, path, "cannot read");
            if (err)
                err->offset = offset + (int64_t)done;
            return STK_IO;
        }
    }
    return STK_OK;
}

bool stk__read_start(const char *path, char *out, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t done = 0;
    ssize_t got;
    while (done + 1 < size && (got = read(fd, out + done, size - 1 - done)) > 0)
        done += (size_t)got;
    close(fd);
    out[done] = 0;
    return true;
}

stk_status stk__read_file(const char *path, size_t max, char **out_data, size_t *out_size, stk_error *err)
{
    int fd = STDIN_FILENO;
    const bool is_stdin = strcmp(path, "-") == 0;
    if (!is_stdin)
        STK_TRY(stk__file_open(path, &fd, NULL, err));
    char *data = NULL;
    size_t size = 0, capacity = 0;
    stk_status status = STK_OK;
    for (;;) {
        if (!stk__grow((void **)&data, &capacity, size + 4097, 1)) {
            status = stk__nomem(size + 4097, err);
            break;
        }
        status = stk__await_input(fd, err);
        if (status != STK_OK)
            break;
        const ssize_t n = read(fd, data + size, capacity - size - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            status = io_error(err, path, "cannot read");
            break;
        }
        if (n == 0)
            break;
        size += (size_t)n;
        if (size > max) {
            status = stk_error_set(err, STK_INVALID, "file is larger than %zu bytes", max);
            if (err)
                snprintf(err->file, sizeof err->file, "%s", path);
            break;
        }
    }
    if (!is_stdin)
        close(fd);
    if (status != STK_OK) {
        stk__free(data);
        return status;
    }
    data[size] = 0;
    *out_data = data;
    *out_size = size;
    return STK_OK;
}

static void new_file_free(stk__new_file *f)
{
    stk__free(f->path);
    stk__free(f->temp);
    *f = (stk__new_file){0};
}

stk_status stk__new_file_open(stk__new_file *f, const char *path, stk_error *err)
{
    static atomic_uint serial;
    *f = (stk__new_file){0};
    /* The rename would put a plain file in the place of a device, or fail on a directory after all the work. */
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        return io_error(err, path, S_ISDIR(st.st_mode) ? "cannot write" : "cannot write: not a regular file");
    }
    const size_t room = strlen(path) + 48;
    f->path = stk__strdup(path);
    f->temp = stk__alloc(room);
    if (!f->path || !f->temp) {
        new_file_free(f);
        return stk__nomem(room, err);
    }
    snprintf(f->temp, room, "%s.tmp-%ld-%u", path, (long)getpid(), atomic_fetch_add(&serial, 1));
    f->stream = fopen(f->temp, "wxe");
    if (!f->stream) {
        const stk_status status = io_error(err, path, "cannot create");
        new_file_free(f);
        return status;
    }
    return STK_OK;
}

stk_status stk__new_file_write(stk__new_file *f, const void *data, size_t size, stk_error *err)
{
    if (size && fwrite(data, 1, size, f->stream) != size)
        return io_error(err, f->path, "cannot write");
    return STK_OK;
}

stk_status stk__new_file_sync(stk__new_file *f, stk_error *err)
{
    if (fflush(f->stream) || fsync(fileno(f->stream)))
        return io_error(err, f->path, "cannot write");
    return STK_OK;
}

stk_status stk__new_file_commit(stk__new_file *f, stk_error *err)
{
    stk_status status = stk__new_file_sync(f, err);
    if (fclose(f->stream) && status == STK_OK)
        status = io_error(err, f->path, "cannot write");
    if (status == STK_OK && rename(f->temp, f->path))
        status = io_error(err, f->path, "cannot rename into place");
    if (status != STK_OK)
        unlink(f->temp);
    new_file_free(f);
    return status;
}

void stk__new_file_abort(stk__new_file *f)
{
    if (!f->stream)
        return;
    fclose(f->stream);
    unlink(f->temp);
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

stk_status stk__make_parents(const char *path, stk_error *err)
{
    char *copy = stk__strdup(path);
    if (!copy)
        return stk__nomem(strlen(path), err);
    stk_status status = STK_OK;
    for (char *slash = strchr(copy + 1, '/'); slash && status == STK_OK; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(copy, 0777) && errno != EEXIST)
            status = io_error(err, copy, "cannot create directory");
        *slash = '/';
    }
    stk__free(copy);
    return status;
}
