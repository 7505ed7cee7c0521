/* The filters of HDF5 chunks: round trips in every order, masks, damage, bombs, and streams that are too long or too short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <lz4.h>
#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "formats/hdf5_filter.h"
#include "kernels/fletcher32.h"
#include "kernels/shuffle.h"
#include "kernels/simd.h"

/* ---- makings ---- */

typedef struct bytes {
    uint8_t *data; /* of exactly this size, to be freed */
    size_t size;
} bytes;

static bytes bytes_of(const uint8_t *data, size_t size)
{
    bytes b = {malloc(size ? size : 1), size};
    assert_non_null(b.data);
    if (size)
        memcpy(b.data, data, size);
    return b;
}

/* Elements that rise slowly, noise, or few values with runs. */
static bytes content(size_t size, uint64_t key)
{
    bytes b = {malloc(size ? size : 1), size};
    assert_non_null(b.data);
    uint64_t last = 0;
    for (size_t i = 0; i < size; i++) {
        const uint64_t x = stk__mix(key, i);
        if (key % 3 == 0)
            b.data[i] = (uint8_t)x;
        else if (key % 3 == 1)
            b.data[i] = (uint8_t)(i % 4 ? i % 4 == 3 ? 63 : x % 7 : x);
        else
            b.data[i] = (uint8_t)(last = x % 16 ? last : x >> 8 & 7);
    }
    return b;
}

static stk__h5_filter filter(uint32_t id, const uint32_t *values, size_t count)
{
    return (stk__h5_filter){.id = id, .values = values, .value_count = count};
}

static const uint32_t level4[] = {4}, size2[] = {2}, size3[] = {3}, size4[] = {4}, size8[] = {8}, size12[] = {12},
                      size16[] = {16};
#define GZIP filter(STK__H5_DEFLATE, level4, 1)
#define SHUFFLE(values) filter(STK__H5_SHUFFLE, values, 1)
#define FLETCHER filter(STK__H5_FLETCHER32, NULL, 0)
#define LZF filter(STK__H5_LZF, NULL, 0)
#define LZ4 filter(STK__H5_LZ4, NULL, 0)
#define ZSTD filter(STK__H5_ZSTD, level4, 1)

static stk__h5_decoder *new_decoder(void)
{
    stk__h5_decoder *d;
    assert_int_equal(stk__h5_decoder_new(&d, NULL), STK_OK);
    return d;
}

static bytes encode(const stk__h5_filter *filters, size_t count, bytes in, uint32_t *mask)
{
    stk__h5_encoder *e;
    assert_int_equal(stk__h5_encoder_new(&e, NULL), STK_OK);
    uint8_t *out = NULL;
    size_t capacity = 0, size = 0;
    stk_error err;
    stk_error_clear(&err);
    if (stk__h5_encode(e, filters, count, in.data, in.size, &out, &capacity, &size, mask, &err) != STK_OK)
        fail_msg("%s", err.message);
    const bytes b = bytes_of(out, size);
    stk__free(out);
    stk__h5_encoder_free(e);
    return b;
}

/* A job for a chunk of `size` bytes, with room of exactly the size that is asked for. */
static stk__h5_job job_for(const stk__h5_filter *filters, size_t count, uint32_t mask, bytes in, size_t size)
{
    stk__h5_job job = {.filters = filters, .filter_count = count, .mask = mask, .in = in.data, .in_size = in.size};
    job.out_size = size;
    job.out = malloc(size + STK__H5_AIR);
    assert_non_null(job.out);
    memset(job.out, 0xa5, size + STK__H5_AIR);
    return job;
}

/* Decodes to `wanted`, on its own and as either half of a pair. */
static void check_decodes(stk__h5_decoder *d, const stk__h5_filter *filters, size_t count, uint32_t mask, bytes in,
                          bytes wanted)
{
    stk__h5_job job = job_for(filters, count, mask, in, wanted.size),
                other = job_for(filters, count, mask, in, wanted.size);
    stk_error err[2];
    stk_error_clear(&err[0]);
    stk_error_clear(&err[1]);
    if (stk__h5_decode(d, &job, &err[0]) != STK_OK)
        fail_msg("%s", err[0].message);
    assert_memory_equal(job.out, wanted.data, wanted.size);
    memset(job.out, 0xa5, wanted.size);
    stk_status status[2];
    stk__h5_decode_pair(d, (const stk__h5_job *const[2]){&job, &other}, status,
                        (stk_error *const[2]){&err[0], &err[1]});
    assert_int_equal(status[0], STK_OK);
    assert_int_equal(status[1], STK_OK);
    assert_memory_equal(job.out, wanted.data, wanted.size);
    assert_memory_equal(other.out, wanted.data, wanted.size);
    free(job.out);
    free(other.out);
}

/* Refused as CORRUPT, with `name` at the start of the message and `text` in it. */
static void check_refused(stk__h5_decoder *d, const stk__h5_filter *filters, size_t count, bytes in, size_t size,
                          const char *name, const char *text)
{
    stk__h5_job job = job_for(filters, count, 0, in, size);
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__h5_decode(d, &job, &err), STK_CORRUPT);
    if (strncmp(err.message, name, strlen(name)) != 0 || err.message[strlen(name)] != ':' || !strstr(err.message, text))
        fail_msg("message is '%s', wanted '%s: ...%s...'", err.message, name, text);
    assert_int_equal(stk__h5_decode(d, &job, NULL), STK_CORRUPT);
    free(job.out);
}

/* To be freed. window: 15 zlib, -15 raw, 31 gzip. */
static bytes deflated(const uint8_t *data, size_t size, int level, int window)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, level, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
    const size_t bound = size + size / 8 + 1000;
    uint8_t *out = malloc(bound);
    assert_non_null(out);
    z.next_in = (z_const Bytef *)data;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = (uInt)bound;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    const bytes b = bytes_of(out, z.total_out);
    deflateEnd(&z);
    free(out);
    return b;
}

/* ---- round trips ---- */

static void check_round_trip(stk__h5_decoder *d, const stk__h5_filter *filters, size_t count, size_t size, uint64_t key)
{
    char why[256] = "";
    if (size && !stk__h5_filters_known(filters, count, size, why, sizeof why))
        fail_msg("%s", why);
    const bytes in = content(size, key);
    uint32_t mask = UINT32_MAX;
    const bytes stored = encode(filters, count, in, &mask);
    assert_int_equal(mask, 0); /* none is optional */
    check_decodes(d, filters, count, mask, stored, in);
    free(stored.data);
    free(in.data);
}

static const size_t odd_sizes[] = {1, 2, 3, 4, 7, 8, 11, 12, 13, 31, 64, 100, 1000, 4095, 12288, 70001};

static void every_order_of_filters_decodes_to_what_was_encoded(void **state)
{
    const stk__h5_filter sets[][4] = {
        {GZIP},
        {LZF},
        {LZ4},
        {ZSTD},
        {FLETCHER},
        {SHUFFLE(size4)},
        {SHUFFLE(size3), GZIP},
        {GZIP, SHUFFLE(size4)},
        {SHUFFLE(size4), GZIP, FLETCHER},
        {SHUFFLE(size8), FLETCHER, GZIP},
        {FLETCHER, SHUFFLE(size2), GZIP},
        {FLETCHER, GZIP, SHUFFLE(size4)},
        {GZIP, FLETCHER, SHUFFLE(size12)},
        {GZIP, SHUFFLE(size16), FLETCHER},
        {GZIP, GZIP},
        {GZIP, GZIP, GZIP, GZIP},
        {SHUFFLE(size4), SHUFFLE(size2)},
        {SHUFFLE(size3), SHUFFLE(size3), SHUFFLE(size16), FLETCHER},
        {FLETCHER, FLETCHER, FLETCHER},
        {SHUFFLE(size2), LZF, FLETCHER},
        {SHUFFLE(size4), LZ4, GZIP},
        {LZ4, ZSTD, LZF, GZIP},
        {SHUFFLE(size8), ZSTD},
    };
    stk__h5_decoder *d = new_decoder();
    uint64_t key = 0;
    for (size_t i = 0; i < STK_COUNT(sets); i++) {
        size_t count = 0;
        while (count < 4 && sets[i][count].id)
            count++;
        for (size_t k = 0; k < STK_COUNT(odd_sizes); k++) {
            stk__simd_limit((stk__simd)(key % STK__SIMD_COUNT));
            check_round_trip(d, sets[i], count, odd_sizes[k], key++);
        }
    }
    stk__simd_limit(STK__SIMD_AVX512);
    stk__h5_decoder_free(d);
}

static void every_level_of_gzip_up_to_12_is_written(void **state)
{
    stk__h5_decoder *d = new_decoder();
    for (uint32_t level = 0; level <= 12; level++) {
        const stk__h5_filter f = filter(STK__H5_DEFLATE, &level, 1);
        check_round_trip(d, &f, 1, 30000, level);
    }
    stk__h5_decoder_free(d);
    const uint32_t wrong = 13;
    const stk__h5_filter f = filter(STK__H5_DEFLATE, &wrong, 1);
    stk__h5_encoder *e;
    uint8_t *out = NULL;
    size_t capacity = 0, size;
    uint32_t mask;
    assert_int_equal(stk__h5_encoder_new(&e, NULL), STK_OK);
    assert_int_equal(stk__h5_encode(e, &f, 1, (const uint8_t *)"abc", 3, &out, &capacity, &size, &mask, NULL),
                     STK_INVALID);
    stk__free(out);
    stk__h5_encoder_free(e);
}

static void masked_filters_are_left_alone(void **state)
{
    const stk__h5_filter all[] = {SHUFFLE(size4), GZIP, FLETCHER, LZ4, ZSTD};
    stk__h5_decoder *d = new_decoder();
    for (uint32_t mask = 0; mask < 32; mask++) {
        stk__h5_filter some[5];
        size_t count = 0;
        for (unsigned i = 0; i < 5; i++)
            if (!(mask >> i & 1))
                some[count++] = all[i];
        const bytes in = content(5000 + mask, mask);
        uint32_t none;
        const bytes stored = encode(some, count, in, &none);
        check_decodes(d, all, 5, mask, stored, in);
        free(stored.data);
        free(in.data);
    }
    stk__h5_decoder_free(d);
}

static void an_optional_filter_that_gains_nothing_is_masked(void **state)
{
    stk__h5_filter filters[] = {SHUFFLE(size4), GZIP, LZF, LZ4, ZSTD, FLETCHER};
    for (int i = 0; i < 6; i++)
        filters[i].optional = true;
    stk__h5_decoder *d = new_decoder();
    for (size_t size = 0; size < 3000; size += 1499) {
        const bytes in = content(size, 3); /* noise */
        uint32_t mask;
        const bytes stored = encode(filters, 6, in, &mask);
        assert_int_equal(mask, 0x1e);
        assert_int_equal(stored.size, size + 4);
        check_decodes(d, filters, 6, mask, stored, in);
        free(stored.data);
        free(in.data);
    }
    stk__h5_decoder_free(d);
}

static void no_filters_copy_cut_or_fill_with_zeros(void **state)
{
    stk__h5_decoder *d = new_decoder();
    const bytes in = content(100, 1);
    for (size_t size = 0; size <= 200; size += 50) {
        uint8_t wanted[200] = {0};
        memcpy(wanted, in.data, size < 100 ? size : 100);
        check_decodes(d, NULL, 0, 0, in, (bytes){wanted, size});
        const stk__h5_filter gzip = GZIP;
        check_decodes(d, &gzip, 1, 1, in, (bytes){wanted, size});
    }
    const uint8_t zeros[10] = {0};
    check_decodes(d, NULL, 0, 0, (bytes){NULL, 0}, (bytes){(uint8_t *)(uintptr_t)zeros, 10});
    free(in.data);
    stk__h5_decoder_free(d);
}

/* ---- shuffles that stay ---- */

static void keep_shuffled_gives_planes_of_the_chunk_whatever_the_stream_gives(void **state)
{
    stk__h5_decoder *d = new_decoder();
    const stk__h5_filter sets[3][3] = {
        {SHUFFLE(size4), GZIP, FLETCHER}, {SHUFFLE(size4), FLETCHER, GZIP}, {SHUFFLE(size4), ZSTD, FLETCHER}};
    for (size_t i = 0; i < 9; i++) {
        const stk__h5_filter *filters = sets[i / 3];
        const size_t stored_size = i % 3 == 0 ? 4003 : i % 3 == 1 ? 3001 : 5002;
        if (i == 8)
            continue; /* zstd that is too long counts as cut to the chunk */
        const bytes in = content(stored_size, i);
        uint32_t mask;
        const bytes stored = encode(filters, 3, in, &mask);
        uint8_t plain[4003] = {0}, wanted[4003];
        memcpy(plain, in.data, STK_MIN(stored_size, sizeof plain));
        stk__shuffle(wanted, plain, 1000, 4);
        memcpy(wanted + 4000, plain + 4000, 3);
        stk__h5_job job = job_for(filters, 3, 0, stored, sizeof plain);
        job.keep_shuffled = true;
        assert_int_equal(stk__h5_decode(d, &job, NULL), STK_OK);
        assert_memory_equal(job.out, wanted, sizeof wanted);
        job.keep_shuffled = false;
        assert_int_equal(stk__h5_decode(d, &job, NULL), STK_OK);
        assert_memory_equal(job.out, plain, sizeof plain);
        free(job.out);
        free(stored.data);
        free(in.data);
    }
    stk__h5_decoder_free(d);
}

/* ---- gzip ---- */

static void a_stream_may_be_longer_or_shorter_than_the_chunk_or_have_garbage_behind(void **state)
{
    stk__h5_decoder *d = new_decoder();
    const stk__h5_filter gzip = GZIP;
    for (uint64_t key = 0; key < 6; key++) {
        const bytes in = content(20000, key);
        const bytes z = deflated(in.data, in.size, 6, 15);
        for (size_t size = 0; size <= 40000; size += 4999) {
            bytes wanted = {calloc(size + 1, 1), size};
            memcpy(wanted.data, in.data, STK_MIN(size, in.size));
            check_decodes(d, &gzip, 1, 0, z, wanted);
            free(wanted.data);
        }
        bytes more = {malloc(z.size + 50), z.size + 50};
        memcpy(more.data, z.data, z.size);
        memset(more.data + z.size, 0x5a, 50);
        check_decodes(d, &gzip, 1, 0, more, in);
        free(more.data);
        free(z.data);
        free(in.data);
    }
    stk__h5_decoder_free(d);
}

static void what_is_no_zlib_stream_is_refused(void **state)
{
    stk__h5_decoder *d = new_decoder();
    const stk__h5_filter gzip = GZIP;
    const bytes in = content(3000, 1);
    const bytes raw = deflated(in.data, in.size, 6, -15), wrapped = deflated(in.data, in.size, 6, 31);
    check_refused(d, &gzip, 1, raw, in.size, "gzip", "");
    check_refused(d, &gzip, 1, wrapped, in.size, "gzip", "incorrect header check");
    check_refused(d, &gzip, 1, (bytes){raw.data, 0}, in.size, "gzip", "cut off");
    bytes z = deflated(in.data, in.size, 6, 15);
    for (size_t size = 0; size < z.size; size += size < 20 || size + 20 > z.size ? 1 : 97) {
        const bytes cut = bytes_of(z.data, size);
        check_refused(d, &gzip, 1, cut, in.size, "gzip", "cut off");
        free(cut.data);
    }
    z.data[z.size - 1] ^= 1;
    check_refused(d, &gzip, 1, z, in.size, "gzip", "incorrect data check");
    check_refused(d, &gzip, 1, z, in.size - 10, "gzip", "incorrect data check"); /* noticed behind the chunk too */
    free(z.data);
    free(raw.data);
    free(wrapped.data);
    free(in.data);
    stk__h5_decoder_free(d);
}

/* One bit is wrong: never a crash, never other data than zlib gives. */
static void damage_is_judged_as_zlib_does_alone_and_in_pairs(void **state)
{
    stk__h5_decoder *d = new_decoder();
    const stk__h5_filter gzip = GZIP;
    for (uint64_t key = 0; key < 60; key++) {
        const bytes in = content(1500, key);
        const bytes good = deflated(in.data, in.size, (int)(key % 10), 15);
        bytes z = bytes_of(good.data, good.size);
        z.data[stk__mix(key, 1) % (key % 2 ? z.size : STK_MIN(z.size, (size_t)60))] ^=
            (uint8_t)(1u << stk__mix(key, 2) % 8);
        uint8_t judge[1500];
        uLongf size = sizeof judge;
        const bool taken = uncompress(judge, &size, z.data, (uLong)z.size) == Z_OK;
        stk__h5_job job = job_for(&gzip, 1, 0, z, in.size), other = job_for(&gzip, 1, 0, good, in.size);
        stk_status status[2];
        stk__h5_decode_pair(d, (const stk__h5_job *const[2]){&job, &other}, status, (stk_error *const[2]){NULL, NULL});
        assert_int_equal(status[1], STK_OK);
        assert_memory_equal(other.out, in.data, in.size);
        assert_int_equal(stk__h5_decode(d, &job, NULL), status[0]);
        assert_true(status[0] == STK_OK || status[0] == STK_CORRUPT);
        if (taken) {
            assert_int_equal(status[0], STK_OK);
            assert_memory_equal(job.out, judge, size);
        } else if (status[0] == STK_OK) {
            fail_msg("key %d: taken, but not by zlib", (int)key);
        }
        free(job.out);
        free(other.out);
        free(z.data);
        free(good.data);
        free(in.data);
    }
    stk__h5_decoder_free(d);
}

static void bombs_stop(void **state)
{
    stk__h5_decoder *d = new_decoder();
    uint8_t *zeros = calloc(1, 64 << 20);
    assert_non_null(zeros);
    const bytes once = deflated(zeros, 64 << 20, 9, 15), twice = deflated(once.data, once.size, 9, 15);
    free(zeros);
    const stk__h5_filter gzips[] = {GZIP, GZIP}, shuffled[] = {SHUFFLE(size4), GZIP};
    check_refused(d, gzips, 1, once, 1000, "gzip", "more than 66661 bytes, wanted 1000");
    check_refused(d, gzips, 2, twice, 1000, "gzip", "more than");
    check_refused(d, shuffled, 2, once, 1000, "gzip", "more than");
    free(once.data);
    free(twice.data);
    stk__h5_decoder_free(d);
}

/* ---- fletcher32 ---- */

static void a_wrong_checksum_is_refused_and_that_of_old_libraries_taken(void **state)
{
    stk__h5_decoder *d = new_decoder();
    const stk__h5_filter fletcher = FLETCHER;
    const bytes in = content(1001, 1);
    uint32_t mask;
    bytes stored = encode(&fletcher, 1, in, &mask);
    uint8_t *sum = stored.data + in.size;
    for (int i = 0; i < 4; i += 2) {
        const uint8_t low = sum[i];
        sum[i] = sum[i + 1];
        sum[i + 1] = low;
    }
    check_decodes(d, &fletcher, 1, 0, stored, in);
    stored.data[500] ^= 1;
    check_refused(d, &fletcher, 1, stored, in.size, "fletcher32", "stored checksum is 0x");
    for (size_t size = 0; size < 4; size++)
        check_refused(d, &fletcher, 1, (bytes){stored.data, size}, in.size, "fletcher32", "wanted a checksum of 4");
    free(stored.data);
    free(in.data);
    stk__h5_decoder_free(d);
}

/* ---- bitshuffle ---- */

static void put_u32(uint8_t *p, size_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> (24 - 8 * i));
}

/* Bits of `count` elements as the definition has them. */
static void shuffle_bits(uint8_t *out, const uint8_t *in, size_t count, size_t size)
{
    memset(out, 0, count * size);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < size; j++)
            for (size_t k = 0; k < 8; k++)
                out[(j * 8 + k) * count / 8 + i / 8] |= (uint8_t)((in[i * size + j] >> k & 1) << (i % 8));
}

static bytes bitshuffled(bytes in, size_t size, size_t block, uint32_t with)
{
    bytes b = {malloc(2 * in.size + 4096), 0};
    uint8_t *bits = malloc(block * size);
    assert_true(b.data && bits);
    if (with) {
        put_u32(b.data, 0);
        put_u32(b.data + 4, in.size);
        put_u32(b.data + 8, block * size);
        b.size = 12;
    }
    const size_t elements = in.size / size, whole = elements / 8 * 8;
    for (size_t i = 0; i < whole; i += block) {
        const size_t n = STK_MIN(block, whole - i);
        shuffle_bits(bits, in.data + i * size, n, size);
        uint8_t *to = b.data + b.size + (with ? 4 : 0);
        size_t stored = n * size;
        if (with == 2)
            stored =
                (size_t)LZ4_compress_default((const char *)bits, (char *)to, (int)(n * size), (int)(2 * n * size + 64));
        else if (with == 3)
            stored = ZSTD_compress(to, 2 * n * size + 64, bits, n * size, 1);
        else
            memcpy(to, bits, stored);
        if (with)
            put_u32(to - 4, stored);
        b.size += stored + (with ? 4 : 0);
    }
    memcpy(b.data + b.size, in.data + whole * size, in.size - whole * size);
    b.size += in.size - whole * size;
    const bytes exact = bytes_of(b.data, b.size);
    free(b.data);
    free(bits);
    return exact;
}

static void bitshuffle_decodes_all_sizes_blocks_and_compressors(void **state)
{
    static const uint32_t element_sizes[] = {1, 2, 3, 4, 8, 12, 16, 100};
    stk__h5_decoder *d = new_decoder();
    uint64_t key = 0;
    for (size_t s = 0; s < STK_COUNT(element_sizes); s++) {
        for (size_t count = 1; count < 6000; count = count * 3 + 5) {
            const uint32_t size = element_sizes[s], with = (uint32_t[]){0, 2, 3}[key % 3];
            const uint32_t block = key % 2 ? 64 : 0;
            const size_t used = block ? block : STK_MAX(8192 / size / 8 * 8, (size_t)128);
            const uint32_t values[] = {0, 4, size, block, with};
            const stk__h5_filter f = filter(STK__H5_BITSHUFFLE, values, 5);
            char why[256];
            assert_true(stk__h5_filters_known(&f, 1, count * size, why, sizeof why));
            const bytes in = content(count * size, key++), stored = bitshuffled(in, size, used, with);
            check_decodes(d, &f, 1, 0, stored, in);
            check_decodes(d, &f, 1, 0, stored, (bytes){in.data, in.size / 2}); /* longer than the chunk */
            free(stored.data);
            free(in.data);
        }
    }
    stk__h5_decoder_free(d);
}

static void bitshuffle_refuses_damage(void **state)
{
    stk__h5_decoder *d = new_decoder();
    for (uint32_t with = 2; with <= 3; with++) {
        const uint32_t values[] = {0, 4, 4, 0, with};
        const stk__h5_filter f = filter(STK__H5_BITSHUFFLE, values, 5);
        const bytes in = content(20020, 1), stored = bitshuffled(in, 4, 2048, with);
        for (size_t size = 0; size < stored.size; size += 1 + size / 3) {
            const bytes cut = bytes_of(stored.data, size);
            check_refused(d, &f, 1, cut, in.size, "bitshuffle", size < 12 ? "wanted at least 12" : "inside a block");
            free(cut.data);
        }
        check_refused(d, &f, 1, (bytes){stored.data, stored.size - 1}, in.size, "bitshuffle", "wanted 1 more");
        stored.data[7] ^= 1;
        check_refused(d, &f, 1, stored, in.size, "bitshuffle", "whole elements");
        stored.data[7] ^= 1;
        stored.data[8] = 255;
        check_refused(d, &f, 1, stored, in.size, "bitshuffle", "");
        free(stored.data);
        free(in.data);
    }
    stk__h5_decoder_free(d);
}

/* ---- what is known ---- */

static void filters_that_cannot_be_undone_are_told_with_the_reason(void **state)
{
    char why[256];
    const stk__h5_filter unknown[] = {GZIP, filter(307, NULL, 0)};
    assert_false(stk__h5_filters_known(unknown, 2, 100, why, sizeof why));
    assert_string_equal(why, "filter 307 is not built in");
    assert_null(stk__h5_filter_name(307));
    assert_string_equal(stk__h5_filter_name(STK__H5_DEFLATE), "gzip");
    const stk__h5_filter sizeless = filter(STK__H5_SHUFFLE, NULL, 0);
    assert_false(stk__h5_filters_known(&sizeless, 1, 100, why, sizeof why));
    assert_string_equal(why, "shuffle: its elements have no size");
    static const uint32_t wrong[][5] = {{0, 4, 0, 0, 2}, {0, 4, 3, 0, 2}, {0, 4, 4, 9, 2}, {0, 4, 4, 0, 1}};
    for (size_t i = 0; i < STK_COUNT(wrong); i++) {
        const stk__h5_filter bits = filter(STK__H5_BITSHUFFLE, wrong[i], 5);
        assert_false(stk__h5_filters_known(&bits, 1, 100, why, sizeof why));
        assert_memory_equal(why, "bitshuffle: ", 12);
    }
    stk__h5_filter many[33];
    for (int i = 0; i < 33; i++)
        many[i] = GZIP;
    assert_true(stk__h5_filters_known(many, 32, 100, why, sizeof why));
    assert_false(stk__h5_filters_known(many, 33, 100, why, sizeof why));
}

static void a_failed_allocation_is_reported_and_the_decoder_goes_on(void **state)
{
    const stk__h5_filter filters[] = {FLETCHER, GZIP, SHUFFLE(size4), LZF, GZIP};
    const bytes in = content(5000, 0);
    uint32_t mask;
    const bytes stored = encode(filters, 5, in, &mask), longer = deflated(in.data, in.size, 1, 15);
    bool all = false;
    for (uint64_t n = 1; !all; n++) {
        stk__alloc_fail_at(n, false);
        stk__h5_decoder *d = NULL;
        stk_status status[2] = {stk__h5_decoder_new(&d, NULL), STK_OK};
        if (status[0] == STK_OK) {
            stk__h5_job jobs[2] = {job_for(filters, 5, 0, stored, in.size), job_for(filters + 1, 1, 0, longer, 4000)};
            stk__h5_decode_pair(d, (const stk__h5_job *const[2]){&jobs[0], &jobs[1]}, status,
                                (stk_error *const[2]){NULL, NULL});
            all = status[0] == STK_OK && status[1] == STK_OK;
            assert_true(status[0] == STK_OK || status[0] == STK_NOMEM);
            assert_true(status[1] == STK_OK || status[1] == STK_NOMEM);
            stk__alloc_fail_at(0, false);
            assert_int_equal(stk__h5_decode(d, &jobs[0], NULL), STK_OK);
            assert_memory_equal(jobs[0].out, in.data, in.size);
            free(jobs[0].out);
            free(jobs[1].out);
        } else {
            assert_int_equal(status[0], STK_NOMEM);
        }
        stk__alloc_fail_at(0, false);
        stk__h5_decoder_free(d);
        assert_true(n < 100);
    }
    free(longer.data);
    free(stored.data);
    free(in.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_of_filters_decodes_to_what_was_encoded),
        cmocka_unit_test(every_level_of_gzip_up_to_12_is_written),
        cmocka_unit_test(masked_filters_are_left_alone),
        cmocka_unit_test(an_optional_filter_that_gains_nothing_is_masked),
        cmocka_unit_test(no_filters_copy_cut_or_fill_with_zeros),
        cmocka_unit_test(keep_shuffled_gives_planes_of_the_chunk_whatever_the_stream_gives),
        cmocka_unit_test(a_stream_may_be_longer_or_shorter_than_the_chunk_or_have_garbage_behind),
        cmocka_unit_test(what_is_no_zlib_stream_is_refused),
        cmocka_unit_test(damage_is_judged_as_zlib_does_alone_and_in_pairs),
        cmocka_unit_test(bombs_stop),
        cmocka_unit_test(a_wrong_checksum_is_refused_and_that_of_old_libraries_taken),
        cmocka_unit_test(bitshuffle_decodes_all_sizes_blocks_and_compressors),
        cmocka_unit_test(bitshuffle_refuses_damage),
        cmocka_unit_test(filters_that_cannot_be_undone_are_told_with_the_reason),
        cmocka_unit_test(a_failed_allocation_is_reported_and_the_decoder_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
