/* Codecs of HDF5 chunks against what libhdf5 reads, against packers written here, and against damaged data. */
#include "hdf5_codec_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <blosc.h>
#include <zstd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "formats/hdf5_codec.h"

typedef struct codec {
    uint32_t id;
    stk__h5_undo *undo;
    stk__h5_values_ok *ok;
} codec;

static const codec codecs[] = {
    {STK__H5_SZIP, stk__h5_undo_szip, stk__h5_szip_ok},
    {STK__H5_NBIT, stk__h5_undo_nbit, stk__h5_nbit_ok},
    {STK__H5_SCALEOFFSET, stk__h5_undo_scaleoffset, stk__h5_scaleoffset_ok},
    {STK__H5_LZF, stk__h5_undo_lzf, stk__h5_lzf_ok},
    {STK__H5_LZ4, stk__h5_undo_lz4, NULL},
    {STK__H5_ZSTD, stk__h5_undo_zstd, NULL},
    {STK__H5_BLOSC, stk__h5_undo_blosc, stk__h5_blosc_ok},
};

/* A stored chunk in memory of exactly its size, so that the address sanitizer sees a byte too far. */
typedef struct chunk {
    stk__h5_filter filter;
    uint32_t *values;
    uint8_t *in;
    size_t in_size, out_size;
} chunk;

/* What came out. */
typedef struct result {
    stk_status status;
    uint8_t *data;
    size_t size;
    stk_error error;
} result;

static const codec *find_codec(uint32_t id)
{
    for (size_t i = 0; i < STK_COUNT(codecs); i++)
        if (codecs[i].id == id)
            return &codecs[i];
    fail_msg("no codec %u", id);
    return NULL;
}

static uint8_t *copy(const void *data, size_t size)
{
    uint8_t *p = malloc(size ? size : 1);
    assert_non_null(p);
    if (size)
        memcpy(p, data, size);
    return p;
}

static uint8_t *from_hex(const char *text, size_t *out_size)
{
    *out_size = strlen(text) / 2;
    uint8_t *p = copy(text, *out_size);
    for (size_t i = 0; i < *out_size; i++) {
        const char digits[3] = {text[2 * i], text[2 * i + 1], 0};
        p[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return p;
}

static chunk make_chunk(uint32_t id, const uint32_t *values, size_t value_count, const void *in, size_t in_size,
                        size_t out_size)
{
    chunk c = {.in_size = in_size, .out_size = out_size};
    c.in = copy(in, in_size);
    c.values = (uint32_t *)(void *)copy(values, value_count * sizeof *values);
    c.filter = (stk__h5_filter){.id = id, .values = c.values, .value_count = value_count};
    return c;
}

static chunk chunk_of_case(const codec_case *t)
{
    size_t size;
    uint8_t *stored = from_hex(t->stored, &size);
    chunk c = make_chunk(t->id, t->values, t->value_count, stored, size, t->chunk_bytes);
    free(stored);
    return c;
}

static void free_chunk(chunk *c)
{
    free(c->in);
    free(c->values);
}

static bool is_ok(const chunk *c)
{
    const codec *how = find_codec(c->filter.id);
    char why[200] = "";
    if (!how->ok || how->ok(&c->filter, c->out_size, why, sizeof why))
        return true;
    assert_true(why[0]);
    return false;
}

static result undo(const chunk *c)
{
    result r = {.size = SIZE_MAX};
    stk__h5_scratch scratch = {0};
    r.data = malloc(c->out_size + STK__H5_AIR);
    assert_non_null(r.data);
    memset(r.data, 0xee, c->out_size + STK__H5_AIR);
    r.status =
        find_codec(c->filter.id)->undo(&c->filter, &scratch, c->in, c->in_size, r.data, c->out_size, &r.size, &r.error);
    stk__free(scratch.data);
    stk__h5_zstd_free(scratch.zstd);
    if (r.status == STK_OK) {
        assert_true(r.size <= c->out_size);
    } else {
        assert_int_equal(r.status, STK_CORRUPT);
        assert_true(r.error.message[0]);
    }
    return r;
}

/* Fails the test unless the chunk gives exactly these bytes. */
static void check(const char *name, const chunk *c, const void *wanted, size_t size)
{
    if (!is_ok(c))
        fail_msg("%s: client values are refused", name);
    result r = undo(c);
    if (r.status != STK_OK)
        fail_msg("%s: %s", name, r.error.message);
    if (r.size != size || memcmp(r.data, wanted, size))
        fail_msg("%s: %zu bytes, wanted %zu others", name, r.size, size);
    free(r.data);
}

static void check_corrupt(const char *name, const chunk *c)
{
    result r = undo(c);
    if (r.status != STK_CORRUPT)
        fail_msg("%s: not taken as corrupt", name);
    free(r.data);
}

/* ---- what libhdf5 wrote ---- */

static void codecs_give_what_libhdf5_reads(void **state)
{
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        chunk c = chunk_of_case(&cases[i]);
        size_t size;
        uint8_t *wanted = from_hex(cases[i].decoded, &size);
        assert_int_equal(size, cases[i].chunk_bytes);
        check(cases[i].name, &c, wanted, size);
        free(wanted);
        free_chunk(&c);
    }
}

static bool is_raw(const codec_case *t)
{
    return strlen(t->stored) == 2 * t->chunk_bytes && (t->id == STK__H5_NBIT || t->id == STK__H5_SCALEOFFSET);
}

static void codecs_find_cut_data_corrupt(void **state)
{
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        chunk c = chunk_of_case(&cases[i]);
        const size_t whole = c.in_size;
        uint8_t *in = c.in;
        for (size_t size = 0; size < whole; size++) {
            c.in = copy(in, size);
            c.in_size = size;
            result r = undo(&c);
            /* LZF has no end: a cut between two tokens only gives less. */
            if (size <= whole / 2 && r.status == STK_OK && !is_raw(&cases[i]) &&
                (c.filter.id != STK__H5_LZF || r.size >= c.out_size))
                fail_msg("%s: the first %zu of %zu bytes are taken", cases[i].name, size, whole);
            free(r.data);
            free(c.in);
        }
        c.in = in;
        free_chunk(&c);
    }
}

static void damage(uint8_t *data, size_t size, uint64_t key)
{
    for (uint64_t i = 0; i <= key % 4; i++) {
        const uint64_t r = stk__mix(key, i);
        const size_t at = (size_t)((r >> 16) % (r & 1 ? size : STK_MIN(size, (size_t)24)));
        data[at] = r & 2 ? (uint8_t)(r >> 8) : r & 4 ? 0xff : (uint8_t)(data[at] ^ 1u << (r >> 8) % 8);
    }
}

static void codecs_survive_damaged_data_and_values(void **state)
{
    for (size_t i = 0; i < STK_COUNT(cases); i++)
        for (uint64_t key = 0; key < 300; key++) {
            chunk c = chunk_of_case(&cases[i]);
            damage(c.in, c.in_size, stk__mix(i, key));
            if (key % 4 == 0 && c.filter.value_count) {
                const uint64_t r = stk__mix(key, 99);
                c.values[r % c.filter.value_count] = (uint32_t)(r & 256 ? r >> 32 : (r >> 32) % 70);
            }
            if (is_ok(&c))
                free(undo(&c).data);
            free_chunk(&c);
        }
}

/* ---- packed numbers ---- */

static void put_bits(uint8_t *out, size_t *at, uint64_t value, unsigned count)
{
    while (count-- > 0) {
        out[*at / 8] |= (uint8_t)((value >> count & 1) << (7 - *at % 8));
        ++*at;
    }
}

static void store(uint8_t *out, uint64_t value, size_t size, bool big)
{
    for (size_t i = 0; i < size; i++)
        out[big ? size - 1 - i : i] = (uint8_t)(value >> 8 * i);
}

enum { NUMBERS = 301 };

static void check_scaleoffset(size_t size, unsigned width, bool big, bool has_fill)
{
    const uint64_t minimum = stk__mix(size, width), fill = stk__mix(width, 7);
    const uint32_t values[20] = {
        2, 0, NUMBERS, 0, (uint32_t)size, 1, big, has_fill, (uint32_t)fill, (uint32_t)(fill >> 32)};
    uint8_t in[21 + 8 * NUMBERS + 1] = {(uint8_t)width, 0, 0, 0, 8}, wanted[8 * NUMBERS];
    store(in + 5, minimum, 8, false);
    size_t at = 21 * 8;
    for (size_t i = 0; i < NUMBERS; i++) {
        const uint64_t ones = ((uint64_t)1 << width) - 1;
        const uint64_t number = i % 5 == 4 ? ones : stk__mix(i, width) & ones;
        put_bits(in, &at, number, width);
        store(wanted + i * size, has_fill && number == ones ? fill : number + minimum, size, big);
    }
    chunk c = make_chunk(STK__H5_SCALEOFFSET, values, 20, in, (at + 7) / 8, NUMBERS * size);
    check("scaleoffset", &c, wanted, NUMBERS * size);
    /* What does not fit is left out. */
    c.out_size = 10 * size;
    result r = undo(&c);
    assert_int_equal(r.size, 10 * size);
    assert_memory_equal(r.data, wanted, 10 * size);
    free(r.data);
    c.out_size = NUMBERS * size;
    if (width) {
        c.in_size--;
        check_corrupt("scaleoffset", &c);
    }
    free_chunk(&c);
}

static void scaleoffset_restores_every_width_size_and_order(void **state)
{
    for (size_t size = 1; size <= 8; size *= 2)
        for (unsigned width = 0; width < 8 * size; width++)
            for (int kind = 0; kind < 4; kind++)
                check_scaleoffset(size, width, kind & 1, kind & 2);
}

static void check_nbit(size_t size, unsigned precision, unsigned offset, bool big)
{
    const uint32_t values[8] = {8, 0, NUMBERS, 1, (uint32_t)size, big, precision, offset};
    uint8_t in[8 * NUMBERS + 1] = {0}, wanted[8 * NUMBERS];
    size_t at = 0;
    for (size_t i = 0; i < NUMBERS; i++) {
        const uint64_t x = stk__mix(i, precision) >> (64 - precision);
        put_bits(in, &at, x, precision);
        store(wanted + i * size, x << offset, size, big);
    }
    chunk c = make_chunk(STK__H5_NBIT, values, 8, in, (at + 7) / 8, NUMBERS * size);
    check("nbit", &c, wanted, NUMBERS * size);
    c.in_size--;
    check_corrupt("nbit", &c);
    free_chunk(&c);
}

static void nbit_restores_every_precision_and_offset(void **state)
{
    for (size_t size = 1; size <= 8; size++)
        for (unsigned precision = 1; precision <= 8 * size; precision++)
            for (unsigned offset = 0; offset + precision <= 8 * size; offset += 1 + offset % 3)
                check_nbit(size, precision, offset, (precision + offset) % 2);
}

/* ---- client values ---- */

static bool values_ok(uint32_t id, const uint32_t *values, size_t count, size_t chunk_bytes)
{
    chunk c = make_chunk(id, values, count, "", 0, chunk_bytes);
    const bool ok = is_ok(&c);
    free_chunk(&c);
    return ok;
}

static void nbit_refuses_types_that_do_not_fit(void **state)
{
    const uint32_t good[] = {8, 0, 10, 1, 4, 0, 17, 3};
    assert_true(values_ok(STK__H5_NBIT, good, 8, 40));
    assert_false(values_ok(STK__H5_NBIT, good, 8, 41));
    for (size_t count = 0; count < 8; count++) {
        uint32_t cut[8];
        memcpy(cut, good, sizeof cut);
        cut[0] = (uint32_t)count;
        assert_false(values_ok(STK__H5_NBIT, cut, count, 40));
    }
    static const struct {
        uint32_t values[22];
        size_t bytes;
    } bad[] = {
        {{8, 0, 10, 1, 4, 2, 17, 3}, 40},                                 /* byte order */
        {{8, 0, 10, 1, 4, 0, 30, 3}, 40},                                 /* 33 bits of 32 */
        {{8, 0, 10, 1, 4, 0, 0, 3}, 40},                                  /* no bits */
        {{8, 0, 10, 1, 4, 0, UINT32_MAX, 3}, 40},                         /* precision + offset wraps round */
        {{8, 0, 10, 1, 0, 0, 0, 0}, 0},                                   /* no bytes */
        {{5, 0, 10, 4, 4}, 40},                                           /* nothing to pack */
        {{8, 0, 10, 5, 4, 0, 17, 3}, 40},                                 /* no such class */
        {{10, 0, 10, 2, 8, 1, 0, 0, 17, 3}, 80},                          /* array of nothing */
        {{12, 0, 10, 3, 4, 1, 2, 1, 4, 0, 17, 3}, 40},                    /* member of 4 at 2 in 4 */
        {{18, 0, 10, 3, 4, 2, 0, 1, 4, 0, 17, 3, 0, 1, 4, 0, 17, 3}, 40}, /* two members in one place */
        {{12, 0, 10, 3, 4, 2, 0, 1, 4, 0, 17, 3}, 40},                    /* second member missing */
        {{22, 0, 10, 3, 9, 2, 0, 2, 8, 2, 4, 1, 1, 0, 5, 0, 8, 1, 1, 0, 5, 0},
         90}, /* a member after an array of arrays */
    };
    const uint32_t array_first[] = {20, 0, 10, 3, 9, 2, 0, 2, 8, 1, 1, 0, 5, 0, 8, 1, 1, 0, 5, 0};
    assert_true(values_ok(STK__H5_NBIT, array_first, 20, 90));
    for (size_t i = 0; i < STK_COUNT(bad); i++)
        if (values_ok(STK__H5_NBIT, bad[i].values, bad[i].values[0], bad[i].bytes))
            fail_msg("bad type %zu is taken", i);
}

static void nbit_refuses_types_nested_without_end(void **state)
{
    enum { DEPTH = 1000 };
    static uint32_t values[3 + 2 * DEPTH + 5];
    values[0] = (uint32_t)STK_COUNT(values);
    values[2] = 10;
    for (size_t i = 0; i < DEPTH; i++) {
        values[3 + 2 * i] = 2;
        values[4 + 2 * i] = 4;
    }
    uint32_t *last = values + 3 + 2 * DEPTH;
    last[0] = 1;
    last[1] = 4;
    last[3] = 17;
    assert_false(values_ok(STK__H5_NBIT, values, STK_COUNT(values), 40));
}

static void scaleoffset_refuses_values_that_do_not_fit(void **state)
{
    const uint32_t good[20] = {2, 0, 10, 0, 4, 1, 0, 0};
    assert_true(values_ok(STK__H5_SCALEOFFSET, good, 20, 40));
    assert_false(values_ok(STK__H5_SCALEOFFSET, good, 19, 40));
    assert_false(values_ok(STK__H5_SCALEOFFSET, good, 20, 44));
    static const uint32_t bad[][2] = {{0, 0}, {0, 1}, {1, 33}, {2, 11}, {3, 1}, {3, 2}, {4, 3}, {4, 0}, {5, 2}, {6, 2}};
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        uint32_t values[20];
        memcpy(values, good, sizeof values);
        values[bad[i][0]] = bad[i][1];
        if (values_ok(STK__H5_SCALEOFFSET, values, 20, 40))
            fail_msg("client value %u may be %u", bad[i][0], bad[i][1]);
    }
}

static void szip_refuses_values_that_do_not_fit(void **state)
{
    const uint32_t good[4] = {32, 8, 16, 40};
    assert_true(values_ok(STK__H5_SZIP, good, 4, 80));
    assert_false(values_ok(STK__H5_SZIP, good, 3, 80));
    static const uint32_t bad[][2] = {{0, UINT32_MAX}, {1, 0},  {1, 7}, {1, 34}, {2, 0},
                                      {2, 33},         {2, 65}, {3, 0}, {3, 6},  {3, 5000}};
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        uint32_t values[4];
        memcpy(values, good, sizeof values);
        values[bad[i][0]] = bad[i][1];
        if (values_ok(STK__H5_SZIP, values, 4, 80))
            fail_msg("client value %u may be %u", bad[i][0], bad[i][1]);
    }
}

static void blosc_refuses_a_compressor_that_is_not_there(void **state)
{
    const uint32_t values[7] = {2, 2, 4, 40, 5, 1, 77};
    assert_false(values_ok(STK__H5_BLOSC, values, 7, 40));
    assert_true(values_ok(STK__H5_BLOSC, values, 4, 40));
}

/* ---- compressors ---- */

static void fill(uint8_t *data, size_t size, uint64_t key)
{
    for (size_t i = 0; i < size; i++) {
        const uint64_t r = stk__mix(key, i);
        data[i] = (uint8_t)(key % 3 == 0 ? r : key % 3 == 1 ? r % 3 + i / 50 : i / 9 * 7);
    }
}

static size_t compress(uint32_t id, const uint8_t *in, size_t in_size, uint8_t *out, size_t capacity)
{
    switch (id) {
    case STK__H5_LZF:
        return stk__h5_lzf_compress(in, in_size, out, capacity);
    case STK__H5_LZ4:
        return stk__h5_lz4_compress(in, in_size, out, capacity);
    default:
        return stk__h5_zstd_compress(in, in_size, out, capacity, 3);
    }
}

static const uint32_t compressors[] = {STK__H5_LZF, STK__H5_LZ4, STK__H5_ZSTD};

static void compressed_chunks_come_back_and_never_pass_their_room(void **state)
{
    static const size_t sizes[] = {1, 2, 15, 100, 4096, 70000};
    for (size_t c = 0; c < STK_COUNT(compressors); c++)
        for (size_t i = 0; i < STK_COUNT(sizes) * 3; i++) {
            const size_t size = sizes[i / 3];
            uint8_t *in = malloc(size);
            fill(in, size, i);
            size_t fits = 0;
            for (size_t capacity = 2 * size + 100; capacity > 0; capacity = capacity * 2 / 3) {
                uint8_t *out = malloc(capacity);
                const size_t stored = compress(compressors[c], in, size, out, capacity);
                assert_true(stored <= capacity);
                if (stored) {
                    chunk k = make_chunk(compressors[c], NULL, 0, out, stored, size);
                    check("compressed", &k, in, size);
                    free_chunk(&k);
                    fits++;
                }
                free(out);
            }
            assert_true(fits > 0 || compressors[c] == STK__H5_LZF);
            free(in);
        }
}

static void compressing_a_buffer_again_gives_the_same_bytes(void **state)
{
    enum { SIZE = 30000 };
    static uint8_t in[SIZE], other[SIZE], first[2 * SIZE], again[2 * SIZE];
    for (size_t c = 0; c < STK_COUNT(compressors); c++) {
        fill(in, SIZE, 1);
        memcpy(other, in, SIZE);
        for (size_t i = 0; i < SIZE; i += 91)
            other[i] ^= 1;
        const size_t size = compress(compressors[c], in, SIZE, first, sizeof first);
        compress(compressors[c], other, SIZE, again, sizeof again);
        assert_int_equal(compress(compressors[c], in, SIZE, again, sizeof again), size);
        assert_memory_equal(first, again, size);
    }
}

/* ---- more data than wanted ---- */

static void longer_data_is_cut(void **state)
{
    enum { SIZE = 5000 };
    static uint8_t in[SIZE], out[2 * SIZE];
    static const size_t wanted[] = {1, 7, 4096, SIZE - 1};
    for (size_t c = 0; c < STK_COUNT(compressors); c++) {
        fill(in, SIZE, c % 2 + 1);
        const size_t stored = compress(compressors[c], in, SIZE, out, sizeof out);
        assert_true(stored > 0);
        for (size_t i = 0; i < STK_COUNT(wanted); i++) {
            chunk k = make_chunk(compressors[c], NULL, 0, out, stored, wanted[i]);
            check("cut", &k, in, wanted[i]);
            free_chunk(&k);
        }
    }
}

/* Whatever of these is decoded at once is twice as long as wanted at most. */
static void longer_szip_and_blosc_data_is_cut_within_reason(void **state)
{
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        if (cases[i].id != STK__H5_SZIP && cases[i].id != STK__H5_BLOSC)
            continue;
        chunk c = chunk_of_case(&cases[i]);
        size_t size;
        uint8_t *wanted = from_hex(cases[i].decoded, &size);
        c.out_size = size - 8;
        check(cases[i].name, &c, wanted, c.out_size);
        c.out_size = size / 2 - 8;
        check_corrupt(cases[i].name, &c);
        free(wanted);
        free_chunk(&c);
    }
}

/* A frame without the size of its content, as streaming writers make them. */
static size_t add_zstd_frame(uint8_t *out, size_t capacity, const uint8_t *in, size_t size)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
    ZSTD_inBuffer from = {in, size, 0};
    ZSTD_outBuffer to = {out, capacity, 0};
    assert_int_equal(ZSTD_compressStream2(context, &to, &from, ZSTD_e_end), 0);
    ZSTD_freeCCtx(context);
    return to.pos;
}

static void zstd_takes_several_frames_without_sizes(void **state)
{
    enum { SIZE = 3000 };
    static uint8_t in[SIZE], out[2 * SIZE];
    fill(in, SIZE, 1);
    size_t stored = add_zstd_frame(out, sizeof out, in, 1000);
    stored += add_zstd_frame(out + stored, sizeof out - stored, in + 1000, SIZE - 1000);
    static const size_t wanted[] = {500, 1000, 1001, SIZE};
    for (size_t i = 0; i < STK_COUNT(wanted); i++) {
        chunk c = make_chunk(STK__H5_ZSTD, NULL, 0, out, stored, wanted[i]);
        check("frames", &c, in, wanted[i]);
        free_chunk(&c);
    }
    chunk c = make_chunk(STK__H5_ZSTD, NULL, 0, out, stored, SIZE + 50);
    check("shorter", &c, in, SIZE);
    free_chunk(&c);
}

static void headers_that_promise_too_much_are_corrupt(void **state)
{
    static const uint32_t szip[4] = {32, 8, 16, 40};
    static const uint8_t lz4_no_blocks[] = {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t lz4_huge_block[] = {0x10, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0};
    static const uint8_t lz4_huge_stored[] = {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0, 0};
    static const uint8_t lz4_short[] = {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 6, 0x50, 1, 2, 3, 4, 5};
    static const uint8_t szip_huge[] = {0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4};
    static const uint8_t blosc_huge[] = {2, 1, 1, 4, 0xff, 0xff, 0xff, 0x7f, 0, 1, 0, 0, 16, 0, 0, 0};
    static const uint8_t blosc_long[] = {2, 1, 1, 4, 64, 0, 0, 0, 64, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f};
    static const uint8_t blosc_later[] = {3, 1, 1, 4, 64, 0, 0, 0, 64, 0, 0, 0, 16, 0, 0, 0};
    const struct {
        const char *name;
        uint32_t id;
        const uint8_t *data;
        size_t size;
    } bad[] = {
        {"lz4 with blocks of 0", STK__H5_LZ4, lz4_no_blocks, sizeof lz4_no_blocks},
        {"lz4 with blocks of 4 GiB", STK__H5_LZ4, lz4_huge_block, sizeof lz4_huge_block},
        {"lz4 with 4 GiB stored", STK__H5_LZ4, lz4_huge_stored, sizeof lz4_huge_stored},
        {"lz4 with a block of 5 bytes", STK__H5_LZ4, lz4_short, sizeof lz4_short},
        {"szip of 4 GiB", STK__H5_SZIP, szip_huge, sizeof szip_huge},
        {"blosc of 2 GiB", STK__H5_BLOSC, blosc_huge, sizeof blosc_huge},
        {"blosc with 2 GiB stored", STK__H5_BLOSC, blosc_long, sizeof blosc_long},
        {"blosc of the next version", STK__H5_BLOSC, blosc_later, sizeof blosc_later},
    };
    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        chunk c = make_chunk(bad[i].id, szip, bad[i].id == STK__H5_SZIP ? 4 : 0, bad[i].data, bad[i].size, 256);
        check_corrupt(bad[i].name, &c);
        free_chunk(&c);
    }
}

static void blosc_takes_every_compressor_and_shuffle(void **state)
{
    enum { SIZE = 40000 };
    static uint8_t in[SIZE], out[SIZE + BLOSC_MAX_OVERHEAD];
    static const char *const names[] = {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};
    for (size_t i = 0; i < STK_COUNT(names) * 9; i++) {
        const char *name = names[i / 9];
        if (blosc_compname_to_compcode(name) < 0)
            continue;
        fill(in, SIZE, i);
        const int stored =
            blosc_compress_ctx(i % 2 ? 5 : 1, (int)(i % 3), i % 5 ? 4 : 7, SIZE, in, out, sizeof out, name, 0, 1);
        assert_true(stored > 0);
        chunk c = make_chunk(STK__H5_BLOSC, NULL, 0, out, (size_t)stored, SIZE);
        check(name, &c, in, SIZE);
        free_chunk(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codecs_give_what_libhdf5_reads),
        cmocka_unit_test(codecs_find_cut_data_corrupt),
        cmocka_unit_test(codecs_survive_damaged_data_and_values),
        cmocka_unit_test(scaleoffset_restores_every_width_size_and_order),
        cmocka_unit_test(nbit_restores_every_precision_and_offset),
        cmocka_unit_test(nbit_refuses_types_that_do_not_fit),
        cmocka_unit_test(nbit_refuses_types_nested_without_end),
        cmocka_unit_test(scaleoffset_refuses_values_that_do_not_fit),
        cmocka_unit_test(szip_refuses_values_that_do_not_fit),
        cmocka_unit_test(blosc_refuses_a_compressor_that_is_not_there),
        cmocka_unit_test(compressed_chunks_come_back_and_never_pass_their_room),
        cmocka_unit_test(compressing_a_buffer_again_gives_the_same_bytes),
        cmocka_unit_test(longer_data_is_cut),
        cmocka_unit_test(longer_szip_and_blosc_data_is_cut_within_reason),
        cmocka_unit_test(zstd_takes_several_frames_without_sizes),
        cmocka_unit_test(headers_that_promise_too_much_are_corrupt),
        cmocka_unit_test(blosc_takes_every_compressor_and_shuffle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
