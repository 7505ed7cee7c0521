/* Where writers write to: a file that appears whole or not at all, or standard output, compressed on demand. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "trace/writer.h"

#include "base/banned.h"

enum { PACKED_BYTES = 256 * 1024, GZIP_LEVEL = 6, ZSTD_LEVEL = 3 };

struct stk__sink {
    stk__new_file file; /* when `direct` is -1 */
    int direct;         /* standard output, or what is no regular file */
    bool (*stopped)(void);
    stk__sink_compression compression;
    z_stream zlib;
    ZSTD_CCtx *zstd;
    uint8_t *packed; /* PACKED_BYTES, when there is compression */
    uint64_t bytes;
    stk_error error; /* the first failure */
};

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

static void sink_free(stk__sink *s)
{
    if (s->compression == STK__SINK_GZIP)
        deflateEnd(&s->zlib);
    ZSTD_freeCCtx(s->zstd);
    stk__free(s->packed);
    if (s->direct > STDOUT_FILENO)
        close(s->direct);
    stk__free(s);
}

static stk_status start_compression(stk__sink *s, stk__sink_compression compression, stk_error *err)
{
    if (compression == STK__SINK_PLAIN)
        return STK_OK;
    s->packed = stk__alloc(PACKED_BYTES);
    if (!s->packed)
        return stk__nomem(PACKED_BYTES, err);
    if (compression == STK__SINK_GZIP) {
        s->zlib.zalloc = zlib_alloc;
        s->zlib.zfree = zlib_free;
        /* One member: browsers and some viewers stop at the end of the first. */
        if (deflateInit2(&s->zlib, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
            return stk__nomem(1 << 18, err);
    } else {
        s->zstd = ZSTD_createCCtx();
        if (!s->zstd || ZSTD_isError(ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL)))
            return stk__nomem(1 << 20, err);
        ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_checksumFlag, 1);
    }
    s->compression = compression;
    return STK_OK;
}

/* Devices and pipes cannot appear by a rename. Directories are left to the error of a file. */
static stk_status open_direct(stk__sink *s, const char *path, stk_error *err)
{
    struct stat info;
    s->direct = -1;
    if (strcmp(path, "-") == 0) {
        s->direct = STDOUT_FILENO;
        return STK_OK;
    }
    if (stat(path, &info) || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode))
        return STK_OK;
    STK_TRY(stk__open_output(path, 0, &s->direct, err));
    if (s->direct >= 0)
        return STK_OK;
    stk_error_set(err, STK_IO, "cannot write: %s", strerror(errno));
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return STK_IO;
}

stk_status stk__sink_open(const char *path, stk__sink_compression compression, stk__sink **out, stk_error *err)
{
    stk__sink *s = stk__calloc(1, sizeof *s);
    if (!s)
        return stk__nomem(sizeof *s, err);
    stk_error_clear(&s->error);
    stk_status status = open_direct(s, path, err);
    if (status == STK_OK)
        status = start_compression(s, compression, err);
    if (status == STK_OK && s->direct < 0)
        status = stk__new_file_open(&s->file, path, err);
    if (status != STK_OK) {
        sink_free(s);
        return status;
    }
    *out = s;
    return STK_OK;
}

static void write_direct(stk__sink *s, const char *data, size_t size)
{
    while (size) {
        const ssize_t n = write(s->direct, data, size);
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        } else if (n == 0 || errno == EPIPE) {
            /* Nobody reads on, as in "| head": an end of the work, not a failure of it. */
            stk_error_set(&s->error, STK_CANCELLED, "the reader of the output went away");
            return;
        } else if (errno != EINTR) {
            stk_error_set(&s->error, STK_IO, "cannot write to %s: %s",
                          s->direct == STDOUT_FILENO ? "standard output" : "the output", strerror(errno));
            return;
        }
    }
}

static void write_raw(stk__sink *s, const void *data, size_t size)
{
    if (s->error.status != STK_OK || size == 0)
        return;
    if (s->direct >= 0)
        write_direct(s, data, size);
    else
        stk__new_file_write(&s->file, data, size, &s->error);
}

static void write_gzip(stk__sink *s, const void *data, size_t size, bool last)
{
    const uint8_t *from = size ? data : (const uint8_t *)"";
    do {
        const size_t piece = STK_MIN(size, (size_t)1 << 30); /* zlib counts in unsigned */
        const int flush = last && piece == size ? Z_FINISH : Z_NO_FLUSH;
        s->zlib.next_in = (uint8_t *)from; /* zlib does not write to it */
        s->zlib.avail_in = (unsigned)piece;
        do {
            s->zlib.next_out = s->packed;
            s->zlib.avail_out = PACKED_BYTES;
            deflate(&s->zlib, flush); /* cannot fail: the stream is sound and there is room */
            write_raw(s, s->packed, PACKED_BYTES - s->zlib.avail_out);
        } while (s->zlib.avail_out == 0 && s->error.status == STK_OK);
        from += piece;
        size -= piece;
    } while (size && s->error.status == STK_OK);
}

static void write_zstd(stk__sink *s, const void *data, size_t size, bool last)
{
    ZSTD_inBuffer in = {data, size, 0};
    bool more = true;
    while (more && s->error.status == STK_OK) {
        ZSTD_outBuffer out = {s->packed, PACKED_BYTES, 0};
        const size_t left = ZSTD_compressStream2(s->zstd, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left)) {
            stk_error_set(&s->error, STK_NOMEM, "zstd cannot go on: %s", ZSTD_getErrorName(left));
            return;
        }
        write_raw(s, s->packed, out.pos);
        more = last ? left != 0 : in.pos < in.size;
    }
}

void stk__sink_stop_when(stk__sink *s, bool (*stopped)(void))
{
    s->stopped = stopped;
}

void stk__sink_write(stk__sink *s, const void *data, size_t size)
{
    if (s->error.status == STK_OK && s->stopped && s->stopped())
        stk_error_set(&s->error, STK_CANCELLED, "writing was stopped");
    if (s->error.status != STK_OK || size == 0)
        return;
    s->bytes += size;
    if (s->compression == STK__SINK_GZIP)
        write_gzip(s, data, size, false);
    else if (s->compression == STK__SINK_ZSTD)
        write_zstd(s, data, size, false);
    else
        write_raw(s, data, size);
}

void stk__sink_text(stk__sink *s, stk__text *text)
{
    if (text->failed && s->error.status == STK_OK)
        stk__nomem(text->capacity * 2, &s->error);
    stk__sink_write(s, text->data, text->length);
    stk__text_reset(text);
}

uint64_t stk__sink_bytes(const stk__sink *s)
{
    return s->bytes;
}

bool stk__sink_failed(const stk__sink *s)
{
    return s->error.status != STK_OK;
}

stk_status stk__sink_close(stk__sink *s, stk_error *err)
{
    if (s->error.status == STK_OK && s->compression == STK__SINK_GZIP)
        write_gzip(s, NULL, 0, true);
    if (s->error.status == STK_OK && s->compression == STK__SINK_ZSTD)
        write_zstd(s, NULL, 0, true);
    if (s->error.status != STK_OK)
        stk__new_file_abort(&s->file);
    else if (s->direct < 0)
        stk__new_file_commit(&s->file, &s->error);
    const stk_status status = s->error.status;
    if (status != STK_OK && err)
        *err = s->error;
    sink_free(s);
    return status;
}

void stk__sink_abort(stk__sink *s)
{
    if (!s)
        return;
    stk__new_file_abort(&s->file);
    sink_free(s);
}
