/*
 * Fuzzes the filters of HDF5 chunks. The first bytes choose filters, their values, the mask and the size of the chunk; the rest is the
 * chunk as stored. Nothing may be read or written outside, and a pair must give what each gives alone.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/hdf5_filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILTERS_MAX = 4, VALUES_MAX = 24 };

typedef struct input {
    const uint8_t *data;
    size_t size;
} input;

static unsigned take(input *in)
{
    if (!in->size)
        return 0;
    in->size--;
    return *in->data++;
}

/* Small values as they are, or four bytes. */
static uint32_t take_value(input *in)
{
    const unsigned first = take(in);
    if (first < 255)
        return first;
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value = value << 8 | take(in);
    return value;
}

static uint32_t take_id(input *in)
{
    static const uint32_t ids[] = {STK__H5_DEFLATE, STK__H5_SHUFFLE,     STK__H5_FLETCHER32, STK__H5_SZIP,
                                   STK__H5_NBIT,    STK__H5_SCALEOFFSET, STK__H5_LZF,        STK__H5_BLOSC,
                                   STK__H5_LZ4,     STK__H5_BITSHUFFLE,  STK__H5_ZSTD,       307};
    return ids[take(in) % (sizeof ids / sizeof *ids)];
}

/* Decodes into room of exactly the size that is promised to do. To be freed; NULL when it is refused. */
static uint8_t *decode(stk__h5_decoder *d, stk__h5_job job, stk_status *status)
{
    stk_error err;
    stk_error_clear(&err);
    job.out = malloc(job.out_size + STK__H5_AIR);
    if (!job.out)
        abort();
    memset(job.out, 0xa5, job.out_size + STK__H5_AIR);
    *status = stk__h5_decode(d, &job, &err);
    if (*status != STK_OK && *status != STK_CORRUPT && *status != STK_NOMEM && *status != STK_UNSUPPORTED)
        abort();
    if (*status != STK_OK && !err.message[0])
        abort();
    return job.out;
}

/* The chunk together with itself. */
static void check_pair(stk__h5_decoder *d, const stk__h5_job *job, const uint8_t *wanted, stk_status wanted_status)
{
    stk__h5_job jobs[2] = {*job, *job};
    stk_status status[2];
    for (int i = 0; i < 2; i++) {
        jobs[i].out = malloc(job->out_size + STK__H5_AIR);
        if (!jobs[i].out)
            abort();
    }
    stk__h5_decode_pair(d, (const stk__h5_job *const[2]){&jobs[0], &jobs[1]}, status,
                        (stk_error *const[2]){NULL, NULL});
    for (int i = 0; i < 2; i++) {
        if (status[i] != wanted_status || (status[i] == STK_OK && memcmp(jobs[i].out, wanted, job->out_size) != 0))
            abort();
        free(jobs[i].out);
    }
}

static void decode_chunk(const stk__h5_filter *filters, size_t count, uint32_t mask, size_t chunk_bytes, input in)
{
    stk__h5_decoder *d;
    if (stk__h5_decoder_new(&d, NULL) != STK_OK)
        return;
    uint8_t *exact = malloc(in.size ? in.size : 1);
    if (!exact)
        abort();
    memcpy(exact, in.data, in.size);
    stk__h5_job job = {.filters = filters, .filter_count = count, .mask = mask, .in = exact, .in_size = in.size};
    job.out_size = chunk_bytes;
    stk_status status;
    uint8_t *plain = decode(d, job, &status);
    check_pair(d, &job, plain, status);
    if (count && filters[0].id == STK__H5_SHUFFLE && !(mask & 1)) {
        job.keep_shuffled = true;
        uint8_t *planes = decode(d, job, &status);
        free(planes);
    }
    free(plain);
    free(exact);
    stk__h5_decoder_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    stk__h5_filter filters[FILTERS_MAX] = {{0}};
    uint32_t *values[FILTERS_MAX] = {NULL};
    const size_t count = take(&in) % (FILTERS_MAX + 1);
    const uint32_t mask = take(&in) & take(&in); /* mostly few bits */
    const size_t chunk_bytes = 1 + (take(&in) | (size_t)take(&in) << 8) * (take(&in) % 4 == 3 ? 12 : 1);
    for (size_t i = 0; i < count; i++) {
        filters[i].id = take_id(&in);
        filters[i].value_count = take(&in) % (VALUES_MAX + 1);
        values[i] = malloc(filters[i].value_count ? filters[i].value_count * sizeof *values[i] : 1);
        if (!values[i])
            abort();
        for (size_t k = 0; k < filters[i].value_count; k++)
            values[i][k] = take_value(&in);
        filters[i].values = values[i];
    }
    char why[256] = "";
    if (stk__h5_filters_known(filters, count, chunk_bytes, why, sizeof why))
        decode_chunk(filters, count, mask, chunk_bytes, in);
    else if (!why[0])
        abort();
    for (size_t i = 0; i < count; i++)
        free(values[i]);
    return 0;
}
