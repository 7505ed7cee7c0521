/* Files of sets: a buffer, a descriptor and a running digest. */
#include "formats/set_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/mem.h"

#include "base/banned.h"

/* STATE: what xxhash takes for a digest, about. */
enum { BUFFER_BYTES = 64 << 10, STATE_BYTES = 640 };

struct stk__set_file {
    char *path; /* as messages call it */
    int fd;
    bool failed;
    int64_t bytes; /* with those in the buffer */
    size_t used;
    XXH3_state_t *hash;
    uint8_t buffer[BUFFER_BYTES];
};

int64_t stk__set_file_memory(void)
{
    return (int64_t)(sizeof(stk__set_file) + (size_t)STATE_BYTES);
}

static stk_status open_file(const char *path, const char *target, int flags, stk__set_file **out, stk_error *err)
{
    stk__set_file *f = stk__alloc(sizeof *f);
    if (!f)
        return stk__nomem(sizeof *f, err);
    *f = (stk__set_file){.path = stk__strdup(target), .hash = XXH3_createState(), .fd = -1};
    if (!f->path || !f->hash) {
        stk__set_file_close(f);
        return stk__nomem(STATE_BYTES, err);
    }
    XXH3_128bits_reset(f->hash);
    f->fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (f->fd < 0) {
        const stk_status status = stk__io_error(err, target, "cannot create");
        stk__set_file_close(f);
        return status;
    }
    *out = f;
    return STK_OK;
}

stk_status stk__set_file_create(const char *path, const char *target, stk__set_file **out, stk_error *err)
{
    return open_file(path, target, O_WRONLY | O_CREAT | O_EXCL, out, err);
}

/* Adds the first `bytes` of the file to the digest. */
static stk_status digest_start(stk__set_file *f, int64_t bytes, stk_error *err)
{
    while (f->bytes < bytes) {
        const size_t n = (size_t)STK_MIN(bytes - f->bytes, (int64_t)sizeof f->buffer);
        STK_TRY(stk__pread_full(f->fd, f->buffer, n, f->bytes, f->path, err));
        XXH3_128bits_update(f->hash, f->buffer, n);
        f->bytes += (int64_t)n;
    }
    return STK_OK;
}

stk_status stk__set_file_reopen(const char *path, const char *target, int64_t bytes, stk__set_file **out,
                                stk_error *err)
{
    stk__set_file *f;
    STK_TRY(open_file(path, target, O_RDWR, &f, err));
    stk_status status = digest_start(f, bytes, err);
    if (status == STK_OK && (ftruncate(f->fd, bytes) || lseek(f->fd, bytes, SEEK_SET) < 0))
        status = stk__io_error(err, path, "cannot cut to its size at the checkpoint");
    if (status != STK_OK) {
        stk__set_file_close(f);
        return status;
    }
    *out = f;
    return STK_OK;
}

static stk_status write_all(stk__set_file *f, const uint8_t *data, size_t size, stk_error *err)
{
    while (size) {
        const ssize_t n = write(f->fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            f->failed = true;
            return stk__io_error(err, f->path, "cannot write");
        }
        data += n;
        size -= (size_t)n;
    }
    return STK_OK;
}

static stk_status flush(stk__set_file *f, stk_error *err)
{
    if (f->failed) {
        stk_error_set(err, STK_IO, "an earlier write failed, so nothing is published");
        if (err)
            snprintf(err->file, sizeof err->file, "%s", f->path);
        return STK_IO;
    }
    STK_TRY(write_all(f, f->buffer, f->used, err));
    f->used = 0;
    return STK_OK;
}

stk_status stk__set_file_write(stk__set_file *f, const void *data, size_t size, stk_error *err)
{
    if (size > sizeof f->buffer - f->used || f->failed) {
        STK_TRY(flush(f, err));
        if (size >= sizeof f->buffer)
            STK_TRY(write_all(f, data, size, err));
    }
    if (size < sizeof f->buffer) {
        if (size)
            memcpy(f->buffer + f->used, data, size);
        f->used += size;
    }
    XXH3_128bits_update(f->hash, data, size);
    f->bytes += (int64_t)size;
    return STK_OK;
}

stk_status stk__set_file_sync(stk__set_file *f, stk_error *err)
{
    STK_TRY(flush(f, err));
    if (fsync(f->fd)) {
        f->failed = true;
        return stk__io_error(err, f->path, "cannot write");
    }
    return STK_OK;
}

int64_t stk__set_file_bytes(const stk__set_file *f)
{
    return f->bytes;
}

stk__file_digest stk__set_file_digest(const stk__set_file *f)
{
    const XXH128_hash_t hash = XXH3_128bits_digest(f->hash);
    return (stk__file_digest){hash.high64, hash.low64};
}

const char *stk__set_file_path(const stk__set_file *f)
{
    return f->path;
}

void stk__set_file_close(stk__set_file *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    XXH3_freeState(f->hash);
    stk__free(f->path);
    stk__free(f);
}

stk_status stk__digest_of_file(const char *path, bool (*progress)(void *arg, int64_t bytes), void *arg,
                               int64_t *out_bytes, stk__file_digest *out, stk_error *err)
{
    int fd;
    stk__file_id id;
    STK_TRY(stk__file_open(path, &fd, &id, err));
    stk__set_file *f = stk__alloc(sizeof *f);
    stk_status status = f ? STK_OK : stk__nomem(sizeof *f, err);
    if (f)
        *f = (stk__set_file){.path = stk__strdup(path), .hash = XXH3_createState(), .fd = fd};
    else
        close(fd);
    if (f && (!f->path || !f->hash))
        status = stk__nomem(STATE_BYTES, err);
    if (status == STK_OK)
        XXH3_128bits_reset(f->hash);
    while (status == STK_OK && f->bytes < id.size_bytes) {
        status = digest_start(f, STK_MIN(id.size_bytes, f->bytes + ((int64_t)16 << 20)), err);
        if (status == STK_OK && progress && !progress(arg, f->bytes))
            status = stk_error_set(err, STK_CANCELLED, "cancelled");
    }
    if (status == STK_OK) {
        *out_bytes = f->bytes;
        *out = stk__set_file_digest(f);
    }
    stk__set_file_close(f);
    return status;
}
