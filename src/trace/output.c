/* The growing trace file, plain or gzip. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
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
    /* Without zlib's own frame of gzip: the checksum at the end is of the segments that are left by then. */
    if (deflateInit2(z, DEFLATE_LEVEL, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        stk__free(z);
        return false;
    }
    o->deflate = z;
    return true;
}

static bool is_plain_file(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

/* Opens the file; *out_why is the reason when that failed, else NULL. */
static stk_status open_file(stk__output *o, bool rolls, const char **out_why, stk_error *err)
{
    *out_why = NULL;
    if (rolls)
        o->fd = open(o->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    else
        STK_TRY(stk__open_output(o->path, O_CREAT | O_TRUNC, &o->fd, err));
    if (o->fd < 0)
        *out_why = strerror(errno);
    else if (rolls && !is_plain_file(o->fd))
        *out_why = "only a plain file can keep the last part of a trace";
    return STK_OK;
}

static void write_file(stk__output *o, const uint8_t *data, size_t size);

stk_status stk__output_open(stk__output *o, const char *path, bool gzip, bool rolls, stk_error *err)
{
    static const uint8_t gzip_header[10] = {0x1f, 0x8b, Z_DEFLATED, 0, 0, 0, 0, 0, 0, 3 /* Unix */};
    *o = (stk__output){.fd = -1};
    o->path = stk__strdup(path);
    o->buffer = stk__alloc(BUFFER_BYTES);
    if (!o->path || !o->buffer || (gzip && !gzip_init(o))) {
        output_free(o);
        return stk__nomem(stk__output_bytes(gzip), err);
    }
    const char *why;
    const stk_status opened = open_file(o, rolls, &why, err);
    if (opened != STK_OK) {
        output_free(o);
        return opened;
    }
    if (why) {
        stk_error failure;
        set_error(o, &failure, "cannot create the trace file", why);
        if (err)
            *err = failure;
        output_free(o);
        return STK_IO;
    }
    if (gzip)
        write_file(o, gzip_header, sizeof gzip_header);
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
            o->current.bytes += (uint64_t)n;
        } else if (n == 0 || errno != EINTR) {
            set_error(o, &o->error, "cannot write the trace file", n == 0 ? "no byte was taken" : strerror(errno));
            o->error.offset = (int64_t)o->bytes_written;
        }
    }
}

/* Hands the buffer on. `mode` is zlib's: Z_NO_FLUSH, Z_SYNC_FLUSH, Z_FULL_FLUSH, Z_FINISH. */
static void drain(stk__output *o, int mode)
{
    z_stream *z = o->deflate;
    o->current.plain_bytes += o->used;
    if (!z) {
        write_file(o, o->buffer, o->used);
        o->used = 0;
        return;
    }
    o->current.crc = (uint32_t)crc32(o->current.crc, o->buffer, (unsigned)o->used);
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

/* ---- segments ---- */

/* A full flush forgets what came before, so that the compressed bytes of a segment stand for themselves. */
static stk__segment end_current(stk__output *o)
{
    drain(o, Z_FULL_FLUSH);
    const stk__segment ended = o->current;
    o->current = (stk__segment){0};
    return ended;
}

void stk__output_end_head(stk__output *o)
{
    o->head = end_current(o);
}

void stk__output_end_segment(stk__output *o)
{
    o->segments[o->segment_count++] = end_current(o);
}

/* Copies through the buffer, which is empty. errno on failure, else 0; 0 bytes where the file should go on are EIO. */
static int copy_range(stk__output *o, int to, uint64_t from, uint64_t until)
{
    while (from < until) {
        const ssize_t n = pread(o->fd, o->buffer, STK_MIN((uint64_t)BUFFER_BYTES, until - from), (off_t)from);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        for (ssize_t done = 0; done < n;) {
            const ssize_t m = write(to, o->buffer + done, (size_t)(n - done));
            if (m < 0 && errno != EINTR)
                return errno;
            done += m > 0 ? m : 0;
        }
        from += (uint64_t)n;
    }
    return 0;
}

/* Head and all segments but the oldest. */
static int copy_rest(stk__output *o, int to)
{
    const int code = copy_range(o, to, 0, o->head.bytes);
    return code ? code : copy_range(o, to, o->head.bytes + o->segments[0].bytes, o->bytes_written);
}

/*
 * The new file takes the place of the old one, without waiting for the disk: that can take seconds, in which the rings run
 * over, and what outlives a crash of the machine lacks the last seconds either way.
 */
static stk_status replace_file(stk__output *o, stk_error *err)
{
    stk__new_file f;
    STK_TRY(stk__new_file_open(&f, o->path, err));
    const int fd = fcntl(fileno(f.stream), F_DUPFD_CLOEXEC, 0);
    const int code = fd < 0 ? errno : copy_rest(o, fd);
    stk_status status = STK_OK;
    if (code) {
        stk__new_file_abort(&f);
        set_error(o, err, "cannot write the trace file anew without its oldest part", strerror(code));
        status = err->status;
    } else {
        status = stk__new_file_commit_unsynced(&f, err);
    }
    if (status != STK_OK) {
        if (fd >= 0)
            close(fd);
        return status;
    }
    close(o->fd);
    o->fd = fd;
    return STK_OK;
}

void stk__output_drop_oldest(stk__output *o)
{
    stk_error err;
    if (o->error.status != STK_OK || o->segment_count == 0)
        return;
    stk_error_clear(&err);
    if (replace_file(o, &err) != STK_OK) {
        o->error = err;
        return;
    }
    o->bytes_written -= o->segments[0].bytes;
    o->segment_count--;
    memmove(o->segments, o->segments + 1, o->segment_count * sizeof *o->segments);
}

static void write_gzip_trailer(stk__output *o)
{
    uint8_t trailer[8];
    uint64_t plain = o->head.plain_bytes;
    uint32_t crc = o->head.crc;
    for (size_t i = 0; i <= o->segment_count; i++) {
        const stk__segment *s = i < o->segment_count ? &o->segments[i] : &o->current;
        crc = (uint32_t)crc32_combine(crc, s->crc, (z_off_t)s->plain_bytes);
        plain += s->plain_bytes;
    }
    for (int i = 0; i < 4; i++) {
        trailer[i] = (uint8_t)(crc >> 8 * i);
        trailer[4 + i] = (uint8_t)(plain >> 8 * i);
    }
    write_file(o, trailer, sizeof trailer);
}

stk_status stk__output_close(stk__output *o, uint64_t *out_bytes, stk_error *err)
{
    drain(o, Z_FINISH);
    if (o->deflate)
        write_gzip_trailer(o);
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
