/* File helpers over POSIX. */
#define _GNU_SOURCE
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/mem.h"

#include "base/banned.h"

stk_status stk__errno_status(int code)
{
    return code == EMFILE || code == ENFILE || code == ENOMEM ? STK_NOMEM : STK_IO;
}

stk_status stk__io_error(stk_error *err, const char *path, const char *what)
{
    const int code = errno;
    const stk_status status = stk__errno_status(code);
    if (err)
        err->status = STK_OK; /* a fresh error: forget older places */
    stk_error_set(err, status, "%s: %s", what, strerror(code));
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return status;
}

stk_status stk__file_id_of(int fd, const char *path, stk__file_id *out, stk_error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return stk__io_error(err, path, "cannot stat");
    out->size_bytes = st.st_size;
    out->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    out->ctime_ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec;
    return STK_OK;
}

stk_status stk__file_open(const char *path, int *out_fd, stk__file_id *out_id, stk_error *err)
{
    int fd;
    STK_TRY(stk__open_input(path, &fd, err));
    if (fd < 0)
        return stk__io_error(err, path, "cannot open");
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(fd);
        errno = EISDIR;
        return stk__io_error(err, path, "cannot read");
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
            const stk_status status = stk__io_error(err, path, "cannot read");
            if (err)
                err->offset = offset + (int64_t)done;
            return status;
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
            status = stk__io_error(err, path, "cannot read");
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

stk_status stk__make_parents(const char *path, stk_error *err)
{
    char *copy = stk__strdup(path);
    if (!copy)
        return stk__nomem(strlen(path), err);
    stk_status status = STK_OK;
    for (char *slash = strchr(copy + 1, '/'); slash && status == STK_OK; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(copy, 0777) && errno != EEXIST)
            status = stk__io_error(err, copy, "cannot create directory");
        *slash = '/';
    }
    stk__free(copy);
    return status;
}
