/* Tests of inflating; zlib is the judge. */
#include "image_decoder.h"

#include <zlib.h>

#include "formats/image_png_inflate.h"
#include "kernels/simd.h"

/* What streams are made of: noise, few values, short codes, one value, near and
 * far matches. */
static uint8_t *content(dice *d, size_t size)
{
    uint8_t *out = malloc(size + 1);
    assert_non_null(out);
    const uint32_t kind = roll(d, 6), values = 1 + roll(d, 256), far = 1 + roll(d, 30000);
    for (size_t i = 0; i < size; i++) {
        const uint32_t x = roll(d, 1u << 20);
        out[i] = kind == 0                        ? (uint8_t)x
                 : kind == 1                      ? (uint8_t)(x % values)
                 : kind == 2                      ? (uint8_t)(37 * __builtin_ctz(x | 1u << 20))
                 : kind == 3                      ? 5
                 : kind == 4 && i > 20 && x % 8   ? out[i - 1 - x % 20]
                 : kind == 5 && i > far && x % 40 ? out[i - far]
                                                  : (uint8_t)(x % values);
    }
    return out;
}

/* Literals with matches of 3 to 8 bytes in between, as in the low bytes of numbers: from far or near, few or many. */
static uint8_t *noisy_numbers(dice *d, size_t size)
{
    uint8_t *out = malloc(size + 8);
    assert_non_null(out);
    const uint32_t values = 2 + roll(d, 200), rare = 1 + roll(d, 40), far = 20 + roll(d, 32000);
    for (size_t i = 0; i < size;) {
        const size_t distance = 1 + roll(d, far), length = 3 + roll(d, 6);
        if (distance <= i && roll(d, rare) == 0) {
            for (size_t k = 0; k < length; k++, i++)
                out[i] = out[i - distance];
        } else {
            out[i++] = (uint8_t)(roll(d, values) * 41);
        }
    }
    return out;
}

/* To be freed. */
static uint8_t *deflated(dice *d, const uint8_t *data, size_t size, size_t *out_size)
{
    z_stream z = {0};
    const int level = (int)roll(d, 10), window = 9 + (int)roll(d, 7), memory = 1 + (int)roll(d, 9),
              strategy = (int)roll(d, 5);
    assert_int_equal(deflateInit2(&z, level, Z_DEFLATED, window, memory, strategy), Z_OK);
    const size_t bound = 2 * size + 1000; /* deflateBound says too little for some settings */
    uint8_t *out = malloc(bound);
    assert_non_null(out);
    z.next_in = (z_const Bytef *)data;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = (uInt)bound;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    *out_size = z.total_out;
    deflateEnd(&z);
    uint8_t *exact = realloc(out, *out_size);
    assert_non_null(exact);
    return exact;
}

/* Room of exactly the size that is promised to be enough. To be freed. */
static uint8_t *room_for(size_t stop)
{
    uint8_t *out = malloc(stop + STK__INFLATE_OUT_AIR);
    assert_non_null(out);
    return out;
}

static stk__inflate_result inflate_alone(stk__inflate *s, const uint8_t *in, size_t in_size, uint8_t *out, size_t stop,
                                         size_t *out_size)
{
    stk__inflate_job job = {.tables = s, .in = in, .in_size = in_size, .out = out, .stop = stop};
    stk__inflate_zlib(&job);
    *out_size = job.out_size;
    return job.result;
}

static void check_stream(stk__inflate *s, dice *d, const uint8_t *data, size_t size, const uint8_t *z, size_t z_size)
{
    size_t found;
    uint8_t *out = room_for(size + 1);
    assert_int_equal(inflate_alone(s, z, z_size, out, size + 1, &found), STK__INFLATE_DONE);
    assert_int_equal(found, size);
    assert_memory_equal(out, data, size);
    free(out);
    const size_t stop = 1 + roll(d, (uint32_t)size);
    out = room_for(stop);
    const stk__inflate_result result = inflate_alone(s, z, z_size, out, stop, &found);
    assert_int_equal(result, STK__INFLATE_STOPPED);
    assert_true(found >= stop && found <= stop + STK__INFLATE_OUT_AIR);
    assert_memory_equal(out, data, stop);
    free(out);
}

static void every_stream_inflates_and_stops_where_wanted(void **state)
{
    (void)state;
    stk__inflate *s = malloc(sizeof *s);
    assert_non_null(s);
    dice d = {0};
    for (int i = 0; i < 300; i++) {
        stk__simd_limit((stk__simd)(i % STK__SIMD_COUNT));
        const size_t size = 1 + roll(&d, i % 8 ? 3000 : 100000);
        size_t z_size;
        uint8_t *data = content(&d, size), *z = deflated(&d, data, size, &z_size);
        check_stream(s, &d, data, size, z, z_size);
        free(z);
        free(data);
    }
    stk__simd_limit(STK__SIMD_AVX512);
    free(s);
}

static void streams_that_are_cut_off_are_told_apart_from_damaged_ones(void **state)
{
    (void)state;
    stk__inflate *s = malloc(sizeof *s);
    assert_non_null(s);
    dice d = {100000000};
    for (int i = 0; i < 100; i++) {
        const size_t size = 1 + roll(&d, 500);
        size_t z_size, found;
        uint8_t *data = content(&d, size), *z = deflated(&d, data, size, &z_size), *out = room_for(size + 1);
        for (size_t cut = i < 3 ? 0 : roll(&d, (uint32_t)z_size); cut < z_size; cut += i < 3 ? 1 : z_size) {
            uint8_t *exact = malloc(cut ? cut : 1);
            assert_non_null(exact);
            memcpy(exact, z, cut);
            assert_int_equal(inflate_alone(s, exact, cut, out, size + 1, &found), STK__INFLATE_CUT_OFF);
            free(exact);
        }
        free(out);
        free(z);
        free(data);
    }
    free(s);
}

/* One bit is flipped: it must be taken or refused as zlib does, and be the same
 * where it is taken. */
static void damage_is_noticed_where_zlib_notices_it(void **state)
{
    (void)state;
    stk__inflate *s = malloc(sizeof *s);
    assert_non_null(s);
    dice d = {200000000};
    for (int i = 0; i < 400; i++) {
        stk__simd_limit((stk__simd)(i % STK__SIMD_COUNT));
        const size_t size = 1 + roll(&d, 3000);
        size_t z_size, found;
        uint8_t *data = content(&d, size), *z = deflated(&d, data, size, &z_size);
        uint8_t *out = room_for(size + 1), *judge = malloc(size);
        assert_non_null(judge);
        for (int k = 0; k < 10; k++) {
            /* Half of them in the tables at the start of the first block. */
            const size_t at = roll(&d, (uint32_t)(k % 2 && z_size > 60 ? 60 : z_size));
            const uint8_t bit = (uint8_t)(1u << roll(&d, 8));
            z[at] ^= bit;
            uLongf wanted = (uLongf)size;
            const bool good = uncompress(judge, &wanted, z, (uLong)z_size) == Z_OK;
            const bool taken = inflate_alone(s, z, z_size, out, size + 1, &found) == STK__INFLATE_DONE && found <= size;
            assert_int_equal(taken, good);
            if (good) {
                assert_int_equal(found, wanted);
                assert_memory_equal(out, judge, wanted);
            }
            z[at] ^= bit;
        }
        free(judge);
        free(out);
        free(z);
        free(data);
    }
    stk__simd_limit(STK__SIMD_AVX512);
    free(s);
}

/* A stream by itself, in memory of its exact size. */
typedef struct sample {
    uint8_t *z;
    size_t z_size;
    size_t stop;
} sample;

/* Small or large, whole or cut off or damaged, wanted as a whole or in part. */
static sample make_sample(dice *d)
{
    const size_t size = 1 + roll(d, roll(d, 4) ? 4000 : 60000);
    sample out;
    uint8_t *data = roll(d, 3) ? content(d, size) : noisy_numbers(d, size);
    out.z = deflated(d, data, size, &out.z_size);
    free(data);
    const uint32_t harm = roll(d, 6);
    if (harm == 0) {
        out.z_size = roll(d, (uint32_t)out.z_size);
        uint8_t *exact = malloc(out.z_size + 1);
        assert_non_null(exact);
        memcpy(exact, out.z, out.z_size);
        free(out.z);
        out.z = realloc(exact, out.z_size ? out.z_size : 1);
        assert_non_null(out.z);
    } else if (harm <= 2) {
        out.z[roll(d, (uint32_t)out.z_size)] ^= (uint8_t)(1u << roll(d, 8));
    }
    out.stop = roll(d, 3) ? size + 1 : 1 + roll(d, (uint32_t)size);
    return out;
}

static void check_same(const stk__inflate_job *found, const sample *in, stk__inflate *s)
{
    size_t size;
    uint8_t *wanted = room_for(in->stop);
    assert_int_equal(found->result, inflate_alone(s, in->z, in->z_size, wanted, in->stop, &size));
    if (found->result == STK__INFLATE_STOPPED) {
        assert_true(found->out_size >= in->stop && found->out_size <= in->stop + STK__INFLATE_OUT_AIR);
        size = in->stop;
    } else {
        assert_int_equal(found->out_size, size);
    }
    assert_memory_equal(found->out, wanted, size);
    free(wanted);
}

static void two_streams_at_once_inflate_as_each_by_itself(void **state)
{
    (void)state;
    stk__inflate *s = malloc(2 * sizeof *s);
    assert_non_null(s);
    dice d = {300000000};
    for (int i = 0; i < 800; i++) {
        stk__simd_limit((stk__simd)(i % STK__SIMD_COUNT));
        const sample x = make_sample(&d), y = make_sample(&d);
        stk__inflate_job a = {.tables = s, .in = x.z, .in_size = x.z_size, .out = room_for(x.stop), .stop = x.stop};
        stk__inflate_job b = {.tables = s + 1, .in = y.z, .in_size = y.z_size, .out = room_for(y.stop), .stop = y.stop};
        stk__inflate_zlib_pair(&a, &b);
        check_same(&a, &x, s);
        check_same(&b, &y, s);
        free(a.out);
        free(b.out);
        free(x.z);
        free(y.z);
    }
    stk__simd_limit(STK__SIMD_AVX512);
    free(s);
}

static void short_matches_between_literals_inflate_as_by_zlib(void **state)
{
    (void)state;
    stk__inflate *s = malloc(2 * sizeof *s);
    assert_non_null(s);
    dice d = {500000000};
    for (int i = 0; i < 60; i++) {
        stk__simd_limit((stk__simd)(i % STK__SIMD_COUNT));
        uint8_t *data[2], *z[2];
        stk__inflate_job jobs[2];
        for (int k = 0; k < 2; k++) {
            const size_t size = 20000 + roll(&d, 120000);
            data[k] = noisy_numbers(&d, size);
            size_t z_size;
            z[k] = deflated(&d, data[k], size, &z_size);
            check_stream(s, &d, data[k], size, z[k], z_size);
            jobs[k] = (stk__inflate_job){.tables = s + k, .in = z[k], .in_size = z_size, .stop = size + 1};
            jobs[k].out = room_for(jobs[k].stop);
        }
        stk__inflate_zlib_pair(&jobs[0], &jobs[1]);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(jobs[k].result, STK__INFLATE_DONE);
            assert_int_equal(jobs[k].out_size, jobs[k].stop - 1);
            assert_memory_equal(jobs[k].out, data[k], jobs[k].out_size);
            free(jobs[k].out);
            free(data[k]);
            free(z[k]);
        }
    }
    stk__simd_limit(STK__SIMD_AVX512);
    free(s);
}

/* The data that a dictionary stands for is missing, and the matches lead before the start of the output. */
static void short_matches_before_the_start_are_refused(void **state)
{
    (void)state;
    enum { SIZE = 60000, DICTIONARY = 30000 };
    stk__inflate *s = malloc(2 * sizeof *s);
    assert_non_null(s);
    dice d = {600000000};
    for (int i = 0; i < 20; i++) {
        stk__simd_limit((stk__simd)(i % STK__SIMD_COUNT));
        uint8_t *data = noisy_numbers(&d, SIZE), *z = malloc(2 * SIZE);
        assert_non_null(z);
        z_stream stream = {.next_in = data + DICTIONARY, .avail_in = SIZE - DICTIONARY, .avail_out = 2 * SIZE - 2};
        assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
        assert_int_equal(deflateSetDictionary(&stream, data, DICTIONARY), Z_OK);
        z[0] = 0x78;
        z[1] = 0x9c;
        stream.next_out = z + 2;
        assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
        const size_t z_size = 2 + stream.total_out;
        deflateEnd(&stream);
        uint8_t *out[2] = {room_for(SIZE), room_for(SIZE)};
        stk__inflate_job jobs[2];
        for (int k = 0; k < 2; k++)
            jobs[k] = (stk__inflate_job){.tables = s + k, .in = z, .in_size = z_size, .out = out[k], .stop = SIZE};
        stk__inflate_zlib_pair(&jobs[0], &jobs[1]);
        size_t found;
        for (int k = 0; k < 2; k++) {
            assert_int_equal(jobs[k].result, STK__INFLATE_DAMAGED);
            assert_int_equal(inflate_alone(s, z, z_size, out[k], SIZE, &found), STK__INFLATE_DAMAGED);
            assert_int_equal(found, jobs[k].out_size);
            free(out[k]);
        }
        free(z);
        free(data);
    }
    stk__simd_limit(STK__SIMD_AVX512);
    free(s);
}

/* Two bytes more than wanted, and a checksum that is wrong: neither is looked
 * at. */
static void what_comes_behind_the_wanted_bytes_is_of_no_interest(void **state)
{
    (void)state;
    stk__inflate *s = malloc(sizeof *s);
    assert_non_null(s);
    dice d = {400000000};
    for (int i = 0; i < 50; i++) {
        const size_t size = 3 + roll(&d, 3000);
        size_t z_size, found;
        uint8_t *data = content(&d, size), *z = deflated(&d, data, size, &z_size), *out = room_for(size - 2);
        z[z_size - 1] ^= 1;
        assert_int_equal(inflate_alone(s, z, z_size, out, size - 2, &found), STK__INFLATE_STOPPED);
        assert_memory_equal(out, data, size - 2);
        free(out);
        free(z);
        free(data);
    }
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stream_inflates_and_stops_where_wanted),
        cmocka_unit_test(streams_that_are_cut_off_are_told_apart_from_damaged_ones),
        cmocka_unit_test(damage_is_noticed_where_zlib_notices_it),
        cmocka_unit_test(two_streams_at_once_inflate_as_each_by_itself),
        cmocka_unit_test(short_matches_between_literals_inflate_as_by_zlib),
        cmocka_unit_test(short_matches_before_the_start_are_refused),
        cmocka_unit_test(what_comes_behind_the_wanted_bytes_is_of_no_interest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
