/* TFRecord framing and the writer. */
#include "formats/tfrecord.h"

#include <stdio.h>
#include <string.h>

#include <zlib.h>

#include "base/mem.h"
#include "formats/zlib_memory.h"
#include "kernels/crc32c.h"

#include "base/banned.h"

static uint32_t load_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void store_le32(uint8_t *p, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> 8 * i);
}

stk_status stk__tfrecord_header(const uint8_t header[12], uint64_t *out_size, stk_error *err)
{
    const uint32_t found = load_le32(header + 8);
    const uint32_t wanted = stk__crc32c_mask(stk__crc32c(header, 8));
    if (STK_UNLIKELY(found != wanted))
        return stk_error_set(err, STK_CORRUPT, "length CRC is 0x%08x, wanted 0x%08x", found, wanted);
    *out_size = load_le32(header) | (uint64_t)load_le32(header + 4) << 32;
    return STK_OK;
}

stk_status stk__tfrecord_data(const uint8_t *data, size_t size, const uint8_t footer[4], stk_error *err)
{
    const uint32_t found = load_le32(footer);
    const uint32_t wanted = stk__crc32c_mask(stk__crc32c(data, size));
    if (STK_UNLIKELY(found != wanted))
        return stk_error_set(err, STK_CORRUPT, "data CRC of %zu bytes is 0x%08x, wanted 0x%08x", size, found, wanted);
    return STK_OK;
}

enum { STREAM_BUFFER = 64 << 10, DEFLATE_BUFFER = 64 << 10, DEFLATE_STATE = 272 << 10 };

struct stk__tfrecord_writer {
    stk__set_file *part; /* a file of a set, which is its owner; NULL: `file` */
    stk__new_file file;
    char *buffer; /* of file.stream; outlives it */
    bool deflating;
    bool failed; /* a write was lost: commit must not publish */
    bool ended;  /* all is on the disk */
    z_stream z;
    uint8_t *deflated;
};

static void writer_free(stk__tfrecord_writer *w)
{
    if (w->deflating)
        deflateEnd(&w->z);
    stk__free(w->deflated);
    stk__free(w->buffer);
    stk__free(w);
}

static stk_status start_deflate(stk__tfrecord_writer *w, stk__compression compression, int level, stk_error *err)
{
    w->deflated = stk__alloc(DEFLATE_BUFFER);
    if (!w->deflated)
        return stk__nomem(DEFLATE_BUFFER, err);
    w->z.zalloc = stk__zlib_alloc;
    w->z.zfree = stk__zlib_free;
    const int window_bits = compression == STK__GZIP ? 15 + 16 : 15;
    if (deflateInit2(&w->z, level, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return stk__nomem((size_t)256 << 10, err);
    w->deflating = true;
    return STK_OK;
}

int64_t stk__tfrecord_writer_memory(stk__compression compression)
{
    const int64_t plain = (int64_t)sizeof(stk__tfrecord_writer) + STREAM_BUFFER;
    return compression == STK__PLAIN ? plain : plain + DEFLATE_BUFFER + DEFLATE_STATE;
}

static stk_status writer_new(const char *path, stk__compression compression, int level, stk__tfrecord_writer **out,
                             stk_error *err)
{
    if (level < -1 || level > 9) {
        stk_error_set(err, STK_INVALID, "compression level is %d, wanted -1 to 9", level);
        if (err)
            snprintf(err->file, sizeof err->file, "%s", path);
        return STK_INVALID;
    }
    stk__tfrecord_writer *w = stk__calloc(1, sizeof *w);
    if (!w)
        return stk__nomem(sizeof *w, err);
    const stk_status status = compression != STK__PLAIN ? start_deflate(w, compression, level, err) : STK_OK;
    if (status != STK_OK) {
        writer_free(w);
        return status;
    }
    *out = w;
    return STK_OK;
}

stk_status stk__tfrecord_writer_open(const char *path, stk__compression compression, int level,
                                     stk__tfrecord_writer **out, stk_error *err)
{
    stk__tfrecord_writer *w;
    STK_TRY(writer_new(path, compression, level, &w, err));
    w->buffer = stk__alloc(STREAM_BUFFER);
    const stk_status status = w->buffer ? stk__new_file_open(&w->file, path, err) : stk__nomem(STREAM_BUFFER, err);
    if (status != STK_OK) {
        writer_free(w);
        return status;
    }
    setvbuf(w->file.stream, w->buffer, _IOFBF, STREAM_BUFFER);
    *out = w;
    return STK_OK;
}

stk_status stk__tfrecord_writer_part(stk__set_file *part, stk__compression compression, int level,
                                     stk__tfrecord_writer **out, stk_error *err)
{
    STK_TRY(writer_new(stk__set_file_path(part), compression, level, out, err));
    (*out)->part = part;
    return STK_OK;
}

static stk_status store(stk__tfrecord_writer *w, const void *data, size_t size, stk_error *err)
{
    return w->part ? stk__set_file_write(w->part, data, size, err) : stk__new_file_write(&w->file, data, size, err);
}

/* Runs deflate until it has taken all input, or until its end when finishing. */
static stk_status deflate_some(stk__tfrecord_writer *w, int flush, stk_error *err)
{
    int rc;
    do {
        w->z.next_out = w->deflated;
        w->z.avail_out = DEFLATE_BUFFER;
        rc = deflate(&w->z, flush);
        STK_TRY(store(w, w->deflated, DEFLATE_BUFFER - w->z.avail_out, err));
    } while (flush == Z_FINISH ? rc == Z_OK || rc == Z_BUF_ERROR : w->z.avail_in || w->z.avail_out == 0);
    return STK_OK;
}

static stk_status put(stk__tfrecord_writer *w, const void *data, size_t size, stk_error *err)
{
    if (!w->deflating)
        return store(w, data, size, err);
    const uint8_t *p = data;
    while (size) {
        const size_t piece = STK_MIN(size, (size_t)1 << 30); /* zlib counts in 32 bits */
        w->z.next_in = (z_const Bytef *)p;
        w->z.avail_in = (uInt)piece;
        STK_TRY(deflate_some(w, Z_NO_FLUSH, err));
        p += piece;
        size -= piece;
    }
    return STK_OK;
}

stk_status stk__tfrecord_writer_add(stk__tfrecord_writer *w, const void *data, size_t size, stk_error *err)
{
    uint8_t header[STK__TFRECORD_HEADER], footer[STK__TFRECORD_FOOTER];
    store_le32(header, (uint32_t)size);
    store_le32(header + 4, (uint32_t)((uint64_t)size >> 32));
    store_le32(header + 8, stk__crc32c_mask(stk__crc32c(header, 8)));
    store_le32(footer, stk__crc32c_mask(stk__crc32c(data, size)));
    stk_status status = put(w, header, sizeof header, err);
    if (status == STK_OK)
        status = put(w, data, size, err);
    if (status == STK_OK)
        status = put(w, footer, sizeof footer, err);
    w->failed |= status != STK_OK;
    return status;
}

void stk__tfrecord_writer_abort(stk__tfrecord_writer *w)
{
    if (!w)
        return;
    stk__new_file_abort(&w->file);
    writer_free(w);
}

stk_status stk__tfrecord_writer_end(stk__tfrecord_writer *w, stk_error *err)
{
    if (w->ended)
        return STK_OK;
    stk_status status = STK_OK;
    if (w->failed) {
        status = stk_error_set(err, STK_IO, "an earlier write failed, so the file is not published");
        if (err)
            snprintf(err->file, sizeof err->file, "%s", w->part ? stk__set_file_path(w->part) : w->file.path);
    } else if (w->deflating) {
        w->z.avail_in = 0;
        status = deflate_some(w, Z_FINISH, err);
    }
    if (status == STK_OK)
        status = w->part ? stk__set_file_sync(w->part, err) : stk__new_file_sync(&w->file, err);
    w->ended = status == STK_OK;
    w->failed |= status != STK_OK;
    return status;
}

stk_status stk__tfrecord_writer_commit(stk__tfrecord_writer *w, stk_error *err)
{
    stk_status status = stk__tfrecord_writer_end(w, err);
    if (status != STK_OK)
        stk__new_file_abort(&w->file);
    else
        status = stk__new_file_commit(&w->file, err);
    writer_free(w);
    return status;
}
