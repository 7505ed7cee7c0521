/* Shuffles, byte order and Fletcher's checksum at every CPU level, against their definitions; buffers of the exact size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kernels/fletcher32.h"
#include "kernels/shuffle.h"
#include "kernels/simd.h"

static const size_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 17, 20, 24, 31, 32, 100, 3000};
static const size_t counts[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 100, 127, 200, 515};

/* To be freed; never NULL, as large as asked for to the byte. */
static uint8_t *room(size_t size)
{
    uint8_t *p = malloc(size);
    assert_true(p || !size);
    return p;
}

static uint8_t *random_bytes(size_t size, uint64_t key)
{
    uint8_t *p = room(size);
    for (size_t i = 0; i < size; i++)
        p[i] = (uint8_t)stk__mix(key, i);
    return p;
}

static void assert_equal(const uint8_t *found, const uint8_t *wanted, size_t bytes, size_t count, size_t size)
{
    if (bytes && memcmp(found, wanted, bytes) != 0)
        fail_msg("%zu elements of %zu bytes, level %s", count, size, stk__simd_name(stk__simd_level()));
}

static void check_shuffle(size_t count, size_t size, uint64_t key)
{
    uint8_t *in = random_bytes(count * size, key), *planes = room(count * size), *wanted = room(count * size);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < size; j++)
            wanted[j * count + i] = in[i * size + j];
    stk__shuffle(planes, in, count, size);
    assert_equal(planes, wanted, count * size, count, size);
    for (int k = 0; k < 4; k++) {
        const size_t first = k && count ? stk__mix(key, 1000 + (uint64_t)k) % count : 0;
        const size_t part = k && count ? stk__mix(key, 2000 + (uint64_t)k) % (count - first + 1) : count;
        uint8_t *out = room(part * size);
        stk__unshuffle(out, planes, count, first, part, size);
        assert_equal(out, in + (first * size), part * size, part, size);
        free(out);
    }
    free(in);
    free(planes);
    free(wanted);
}

static void shuffle_and_unshuffle_follow_their_definition_at_every_level(void **state)
{
    uint64_t key = 1;
    for (int level = 0; level < STK__SIMD_COUNT; level++) {
        stk__simd_limit((stk__simd)level);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                check_shuffle(counts[c], sizes[s], key++);
        check_shuffle(20011, 4, key++);
        check_shuffle(7001, 12, key++); /* more than one part */
    }
    stk__simd_limit(STK__SIMD_AVX512);
}

static void check_swap(size_t count, size_t size, uint64_t key)
{
    uint8_t *in = random_bytes(count * size, key), *out = room(count * size), *wanted = room(count * size);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < size; j++)
            wanted[i * size + j] = in[i * size + size - 1 - j];
    stk__swap_bytes(out, in, count, size);
    assert_equal(out, wanted, count * size, count, size);
    stk__swap_bytes(in, in, count, size);
    assert_equal(in, wanted, count * size, count, size);
    free(in);
    free(out);
    free(wanted);
}

static void swap_bytes_turns_every_element_round_even_in_place(void **state)
{
    uint64_t key = 1;
    for (int level = 0; level < STK__SIMD_COUNT; level++) {
        stk__simd_limit((stk__simd)level);
        for (size_t size = 2; size <= 8; size *= 2)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                check_swap(counts[c], size, key++);
    }
    stk__simd_limit(STK__SIMD_AVX512);
}

static void check_bits(size_t count, size_t size, uint64_t key)
{
    const size_t bytes = count * size;
    uint8_t *wanted = random_bytes(bytes, key), *in = room(bytes), *out = room(bytes), *scratch = room(bytes);
    if (bytes)
        memset(in, 0, bytes);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < size; j++)
            for (size_t k = 0; k < 8; k++)
                in[(j * 8 + k) * count / 8 + i / 8] |=
                    (uint8_t)((wanted[i * size + j] >> k & 1) << (i % 8)); /* as the header words it */
    stk__bit_unshuffle(out, in, count, size, scratch);
    assert_equal(out, wanted, bytes, count, size);
    free(wanted);
    free(in);
    free(out);
    free(scratch);
}

static void bit_unshuffle_follows_its_definition_at_every_level(void **state)
{
    uint64_t key = 1;
    for (int level = 0; level < STK__SIMD_COUNT; level++) {
        stk__simd_limit((stk__simd)level);
        for (size_t s = 0; s + 2 < sizeof sizes / sizeof *sizes; s++) {
            for (size_t count = 0; count <= 160; count += 8)
                check_bits(count, sizes[s], key++);
            check_bits(264, sizes[s], key++);
            check_bits(2048, sizes[s], key++);
        }
    }
    stk__simd_limit(STK__SIMD_AVX512);
}

/* As libhdf5 has it. */
static uint32_t fletcher_of_library(const uint8_t *p, size_t size)
{
    uint32_t sum1 = 0, sum2 = 0;
    for (size_t words = size / 2; words;) {
        size_t n = words > 360 ? 360 : words;
        words -= n;
        do {
            sum1 += (uint32_t)p[0] << 8 | p[1];
            p += 2;
            sum2 += sum1;
        } while (--n);
        sum1 = (sum1 & 0xffff) + (sum1 >> 16);
        sum2 = (sum2 & 0xffff) + (sum2 >> 16);
    }
    if (size % 2) {
        sum1 += (uint32_t)*p << 8;
        sum2 += sum1;
        sum1 = (sum1 & 0xffff) + (sum1 >> 16);
        sum2 = (sum2 & 0xffff) + (sum2 >> 16);
    }
    sum1 = (sum1 & 0xffff) + (sum1 >> 16);
    sum2 = (sum2 & 0xffff) + (sum2 >> 16);
    return sum2 << 16 | sum1;
}

static void check_fletcher(size_t size, uint64_t key)
{
    uint8_t *p = random_bytes(size, key);
    for (size_t i = 0; i < size && key % 4; i++)
        p[i] = key % 4 == 1 ? 255 : key % 4 == 2 ? 0 : i + 1 == size; /* sums that are 0 modulo 65535 */
    const uint32_t found = stk__fletcher32(p, size), wanted = fletcher_of_library(p, size);
    if (found != wanted)
        fail_msg("%zu bytes: %08x, wanted %08x", size, found, wanted);
    free(p);
}

static void fletcher32_is_that_of_the_library_at_every_level(void **state)
{
    uint64_t key = 0;
    for (int level = 0; level < STK__SIMD_COUNT; level++) {
        stk__simd_limit((stk__simd)level);
        for (size_t size = 0; size < 400; size++)
            check_fletcher(size, key++);
        for (size_t size = 11000; size < 200000; size += 4999)
            for (int i = 0; i < 4; i++)
                check_fletcher(size, key++);
    }
    stk__simd_limit(STK__SIMD_AVX512);
}

static void past_the_caches_comes_the_same(void **state)
{
    enum { COUNT = 5000, SIZE_MAX_ = 16 };
    uint8_t *planes = stk__alloc(COUNT * SIZE_MAX_), *wanted = stk__alloc(COUNT * SIZE_MAX_), *found = stk__alloc(COUNT * SIZE_MAX_ + 64);
    for (size_t i = 0; i < COUNT * SIZE_MAX_; i++)
        planes[i] = (uint8_t)(stk__mix(i, 3));
    for (stk__simd level = STK__SIMD_C; level <= stk__simd_highest(); level++) {
        stk__simd_limit(level);
        for (size_t size = 1; size <= SIZE_MAX_; size++) {
            const size_t first = size * 7, count = COUNT - first - size % 3, at = size % 40;
            stk__unshuffle(wanted, planes, COUNT, first, count, size);
            stk__unshuffle_past(found + at, planes, COUNT, first, count, size);
            assert_memory_equal(found + at, wanted, count * size);
            stk__copy_past(found + at, planes, count * size);
            assert_memory_equal(found + at, planes, count * size);
        }
    }
    stk__simd_limit(stk__simd_highest());
    stk__free(planes);
    stk__free(wanted);
    stk__free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(past_the_caches_comes_the_same),
        cmocka_unit_test(shuffle_and_unshuffle_follow_their_definition_at_every_level),
        cmocka_unit_test(swap_bytes_turns_every_element_round_even_in_place),
        cmocka_unit_test(bit_unshuffle_follows_its_definition_at_every_level),
        cmocka_unit_test(fletcher32_is_that_of_the_library_at_every_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
