/*
 * The deflate filter of HDF5 undone. libdeflate does single streams, and our own reader pairs of them; what either of
 * them refuses goes through zlib, which has the last word as it has in libhdf5: streams may be longer or shorter than
 * the chunk.
 */
#include "formats/hdf5_deflate.h"

#include <limits.h>
#include <string.h>

#include <libdeflate.h>
#include <zlib.h>

#include "base/mem.h"
#include "formats/hdf5_filter.h"
#include "formats/image_png_inflate.h"
#include "formats/zlib_memory.h"

#include "base/banned.h"

/* The reader of pairs is told to stop one byte behind the chunk, to see whether the stream ends there. */
_Static_assert(STK__INFLATE_OUT_AIR + 1 <= STK__H5_AIR, "the air behind a chunk must do for inflating");

struct stk__h5_inflater {
    struct libdeflate_decompressor *single;
    stk__inflate *tables; /* two, made by the first pair */
};

stk_status stk__h5_inflater_new(stk__h5_inflater **out, stk_error *err)
{
    stk__h5_inflater *f = stk__calloc(1, sizeof *f);
    if (!f)
        return stk__nomem(sizeof *f, err);
    f->single = libdeflate_alloc_decompressor();
    if (!f->single) {
        stk__free(f);
        return stk_error_set(err, STK_NOMEM, "out of memory for the tables of deflate");
    }
    *out = f;
    return STK_OK;
}

void stk__h5_inflater_free(stk__h5_inflater *f)
{
    if (!f)
        return;
    libdeflate_free_decompressor(f->single);
    stk__free(f->tables);
    stk__free(f);
}

size_t stk__h5_inflater_memory(void)
{
    enum { LIBDEFLATE_TABLES = 16 << 10 };
    return sizeof(stk__h5_inflater) + LIBDEFLATE_TABLES + 2 * sizeof(stk__inflate);
}

/* ---- zlib ---- */

static stk_status refuse(const stk__h5_stream *s, const z_stream *z, size_t read, int result, stk_error *err)
{
    if (result == Z_MEM_ERROR)
        return stk_error_set(err, STK_NOMEM, "out of memory for zlib");
    if (result == Z_NEED_DICT)
        return stk_error_set(err, STK_CORRUPT, "the stream wants a dictionary");
    if (result == Z_DATA_ERROR)
        return stk_error_set(err, STK_CORRUPT, "%s at byte %zu of %zu", z->msg ? z->msg : "damaged", read, s->in_size);
    if (s->size > s->longest)
        return stk_error_set(err, STK_CORRUPT, "the stream gives more than %zu bytes, wanted %zu", s->longest,
                             s->out_size);
    return stk_error_set(err, STK_CORRUPT, "the stream is cut off: its %zu bytes give %zu, wanted %zu", s->in_size,
                         s->size, s->out_size);
}

/* Inflates to the end of the stream, or until it is too long; behind out_size into a buffer that nobody reads. */
static int inflate_all(stk__h5_stream *s, z_stream *z, size_t *read)
{
    uint8_t nowhere[4096];
    int result;
    do {
        const size_t in_left = s->in_size - *read, out_left = s->size < s->out_size ? s->out_size - s->size : 0;
        z->next_in = (z_const Bytef *)s->in + *read;
        z->avail_in = (uInt)STK_MIN(in_left, (size_t)UINT_MAX);
        z->next_out = out_left ? s->out + s->size : nowhere;
        z->avail_out = out_left ? (uInt)STK_MIN(out_left, (size_t)UINT_MAX) : (uInt)sizeof nowhere;
        const uInt in_before = z->avail_in, out_before = z->avail_out;
        result = inflate(z, Z_NO_FLUSH);
        *read += in_before - z->avail_in;
        s->size += out_before - z->avail_out;
    } while (result == Z_OK && s->size <= s->longest);
    return s->size > s->longest ? Z_BUF_ERROR : result;
}

static stk_status inflate_by_zlib(stk__h5_stream *s, stk_error *err)
{
    z_stream z = {.zalloc = stk__zlib_alloc, .zfree = stk__zlib_free};
    size_t read = 0;
    s->size = 0;
    int result = inflateInit(&z);
    if (result == Z_OK)
        result = inflate_all(s, &z, &read);
    const stk_status status = result == Z_STREAM_END ? STK_OK : refuse(s, &z, read, result, err);
    inflateEnd(&z);
    return status;
}

/* ---- one ---- */

stk_status stk__h5_inflate(stk__h5_inflater *f, stk__h5_stream *s, stk_error *err)
{
    if (libdeflate_zlib_decompress(f->single, s->in, s->in_size, s->out, s->out_size, &s->size) == LIBDEFLATE_SUCCESS)
        return STK_OK;
    return inflate_by_zlib(s, err);
}

/* ---- two ---- */

/*
 * With literals and short matches the look-ups of one stream wait for each other, and those of a second one fill the
 * time. With long matches most of it is copying, and libdeflate is better at that. Measured, in pairs against
 * libdeflate: 1.6 times as fast at ratios of 1.2 to 1.7, 1.2 to 2 times up to 5, 0.8 to 1.5 times at 4 to 6, 0.7 times
 * at 13.
 */
bool stk__h5_inflate_pairs(size_t in_size, size_t chunk_bytes)
{
    return chunk_bytes / 6 < in_size;
}

static stk_status take_result(stk__h5_stream *s, const stk__inflate_job *job, stk_error *err)
{
    s->size = job->out_size;
    return job->result == STK__INFLATE_DONE ? STK_OK : inflate_by_zlib(s, err);
}

void stk__h5_inflate_pair(stk__h5_inflater *f, stk__h5_stream *const streams[2], stk_status status[2],
                          stk_error *const err[2])
{
    if (!f->tables)
        f->tables = stk__alloc(2 * sizeof *f->tables);
    if (!f->tables) {
        for (int i = 0; i < 2; i++)
            status[i] = stk__nomem(2 * sizeof *f->tables, err[i]);
        return;
    }
    stk__inflate_job jobs[2];
    for (int i = 0; i < 2; i++)
        jobs[i] = (stk__inflate_job){.tables = &f->tables[i],
                                     .in = streams[i]->in,
                                     .in_size = streams[i]->in_size,
                                     .out = streams[i]->out,
                                     .stop = streams[i]->out_size + 1};
    stk__inflate_zlib_pair(&jobs[0], &jobs[1]);
    for (int i = 0; i < 2; i++)
        status[i] = take_result(streams[i], &jobs[i], err[i]);
}
