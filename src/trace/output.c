/* The growing trace file, plain or gzip. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "trace/recorder_format.h"

#include "base/banned.h"

enum { BUFFER_BYTES = 64 * 1024, DEFLATE_LEVEL = 1 };

static void set_error(stk__output *o, stk_error *err, const char *what, const char *why)
{
    stk_error_clear(err);
    stk_error_set(err, STK_IO, "%s: %s", what, why);
    snprintf(err->file, sizeof err->file, "%s", o->path);
}

static void *zlib_alloc(void *opaque, unsigned count, unsigned size)
{
    (void)opaque;
    return stk__calloc(count, size);
}

static void zlib_free(void *opaque, void *p)
{
    (void)opaque;
    stk__free(p);
}

size_t stk__output_bytes(bool gzip)
{
    /* zconf.h: deflate takes (1 << (windowBits + 2)) + (1 << (memLevel + 9)) bytes and a few kilobytes. */
    return BUFFER_BYTES + (gzip ? BUFFER_BYTES + (1u << 17) + (1u << 17) + 16 * 1024 : 0);
}

static void output_free(stk__output *o)
{
    if (o->deflate)
        deflateEnd(o->deflate);
    stk__free(o->deflate);
    stk__free(o->buffer);
    stk__free(o->compressed);
    stk__free(o->path);
    if (o->fd >= 0)
        close(o->fd);
    *o = (stk__output){.fd = -1};
}

static bool gzip_init(stk__output *o)
{
    z_stream *z = stk__calloc(1, sizeof *z);
    o->compressed = stk__alloc(BUFFER_BYTES);
    if (!z || !o->compressed) {
        stk__free(z);
        return false;
    }
    z->zalloc = zlib_alloc;
    z->zfree = zlib_free;
    if (deflateInit2(z, DEFLATE_LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        stk__free(z);
        return false;
    }
    o->deflate = z;
    return true;
}

stk_status stk__output_open(stk__output *o, const char *path, bool gzip, stk_error *err)
{
    *o = (stk__output){.fd = -1};
    o->path = stk__strdup(path);
    o->buffer = stk__alloc(BUFFER_BYTES);
    if (!o->path || !o->buffer || (gzip && !gzip_init(o))) {
        output_free(o);
        return stk__nomem(stk__output_bytes(gzip), err);
    }
    const stk_status opened = stk__open_output(path, O_CREAT | O_TRUNC, &o->fd, err);
    if (opened != STK_OK) {
        output_free(o);
        return opened;
    }
    if (o->fd < 0) {
        stk_error failure;
        set_error(o, &failure, "cannot create the trace file", strerror(errno));
        if (err)
            *err = failure;
        output_free(o);
        return STK_IO;
    }
    return STK_OK;
}

static void write_file(stk__output *o, const uint8_t *data, size_t size)
{
    while (size && o->error.status == STK_OK) {
        const ssize_t n = write(o->fd, data, size);
        if (n > 0) {
            data += n;
            size -= (size_t)n;
            o->bytes_written += (uint64_t)n;
        } else if (n == 0 || errno != EINTR) {
            set_error(o, &o->error, "cannot write the trace file", n == 0 ? "no byte was taken" : strerror(errno));
            o->error.offset = (int64_t)o->bytes_written;
        }
    }
}

/* Hands the buffer on. `mode` is zlib's: Z_NO_FLUSH, Z_SYNC_FLUSH, Z_FINISH. */
static void drain(stk__output *o, int mode)
{
    z_stream *z = o->deflate;
    if (!z) {
        write_file(o, o->buffer, o->used);
        o->used = 0;
        return;
    }
    z->next_in = o->buffer;
    z->avail_in = (unsigned)o->used;
    do {
        z->next_out = o->compressed;
        z->avail_out = BUFFER_BYTES;
        deflate(z, mode); /* cannot fail: the stream is sound and there is room */
        write_file(o, o->compressed, BUFFER_BYTES - z->avail_out);
    } while (z->avail_out == 0);
    o->used = 0;
}

void stk__output_write(stk__output *o, const void *data, size_t size)
{
    const uint8_t *p = data;
    while (size) {
        if (o->used == BUFFER_BYTES)
            drain(o, Z_NO_FLUSH);
        const size_t n = STK_MIN(size, BUFFER_BYTES - o->used);
        memcpy(o->buffer + o->used, p, n);
        o->used += n;
        p += n;
        size -= n;
    }
}

void stk__output_flush(stk__output *o)
{
    if (o->used)
        drain(o, Z_SYNC_FLUSH);
}

stk_status stk__output_close(stk__output *o, uint64_t *out_bytes, stk_error *err)
{
    drain(o, Z_FINISH);
    if (close(o->fd) && o->error.status == STK_OK)
        set_error(o, &o->error, "cannot write the trace file", strerror(errno));
    o->fd = -1;
    const stk_status status = o->error.status;
    if (status != STK_OK && err)
        *err = o->error;
    if (out_bytes)
        *out_bytes = o->bytes_written;
    output_free(o);
    return status;
}
