/* Tests of inflating; zlib is the judge. */
#include "image_decoder.h"

#include <zlib.h>

#include "formats/image_png_inflate.h"
#include "kernels/simd.h"

/* What streams are made of: noise, few values, short codes, one value, near and far matches. */
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

static void check_stream(stk__inflate *s, dice *d, const uint8_t *data, size_t size, const uint8_t *z, size_t z_size)
{
    size_t found;
    uint8_t *out = room_for(size + 1);
    assert_int_equal(stk__inflate_zlib(s, z, z_size, out, size + 1, &found), STK__INFLATE_DONE);
    assert_int_equal(found, size);
    assert_memory_equal(out, data, size);
    free(out);
    const size_t stop = 1 + roll(d, (uint32_t)size);
    out = room_for(stop);
    const stk__inflate_result result = stk__inflate_zlib(s, z, z_size, out, stop, &found);
    assert_true(result == STK__INFLATE_STOPPED || (result == STK__INFLATE_DONE && found == size));
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
        stk__simd_limit(i % 2 ? STK__SIMD_C : stk__simd_highest());
        const size_t size = 1 + roll(&d, i % 8 ? 3000 : 100000);
        size_t z_size;
        uint8_t *data = content(&d, size), *z = deflated(&d, data, size, &z_size);
        check_stream(s, &d, data, size, z, z_size);
        free(z);
        free(data);
    }
    stk__simd_limit(stk__simd_highest());
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
            assert_int_equal(stk__inflate_zlib(s, exact, cut, out, size + 1, &found), STK__INFLATE_CUT_OFF);
            free(exact);
        }
        free(out);
        free(z);
        free(data);
    }
    free(s);
}

/* One bit is flipped: it must be taken or refused as zlib does, and be the same where it is taken. */
static void damage_is_noticed_where_zlib_notices_it(void **state)
{
    (void)state;
    stk__inflate *s = malloc(sizeof *s);
    assert_non_null(s);
    dice d = {200000000};
    for (int i = 0; i < 400; i++) {
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
            const bool taken =
                stk__inflate_zlib(s, z, z_size, out, size + 1, &found) == STK__INFLATE_DONE && found <= size;
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
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stream_inflates_and_stops_where_wanted),
        cmocka_unit_test(streams_that_are_cut_off_are_told_apart_from_damaged_ones),
        cmocka_unit_test(damage_is_noticed_where_zlib_notices_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
