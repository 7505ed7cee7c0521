/* CRC-32C: known values, every way against plain C, splitting, masking. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kernels/crc32c.h"

/* Bit by bit, straight from the definition. */
static uint32_t crc_by_bits(const uint8_t *p, size_t size)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
    }
    return ~crc;
}

static uint8_t *random_bytes(size_t size)
{
    uint8_t *p = stk__alloc(size);
    assert_non_null(p);
    for (size_t i = 0; i < size; i++)
        p[i] = (uint8_t)stk__mix(i, 77);
    return p;
}

static void crc32c_of_known_texts_is_as_published(void **state)
{
    uint8_t bytes[32];
    size_t count;
    const stk__crc32c_kind *kinds = stk__crc32c_kinds(&count);
    for (size_t k = 0; k < count; k++) {
        assert_int_equal(kinds[k].extend(0, "123456789", 9), 0xe3069283);
        assert_int_equal(kinds[k].extend(0, "", 0), 0);
        memset(bytes, 0, 32); /* these three: RFC 3720, B.4 */
        assert_int_equal(kinds[k].extend(0, bytes, 32), 0x8a9136aa);
        memset(bytes, 0xff, 32);
        assert_int_equal(kinds[k].extend(0, bytes, 32), 0x62a8ab43);
        for (int i = 0; i < 32; i++)
            bytes[i] = (uint8_t)i;
        assert_int_equal(kinds[k].extend(0, bytes, 32), 0x46dd794e);
    }
}

static void crc32c_of_every_small_size_and_alignment_fits_the_definition(void **state)
{
    enum { MAX = 700 };
    uint8_t *p = random_bytes(MAX + 16);
    size_t count;
    const stk__crc32c_kind *kinds = stk__crc32c_kinds(&count);
    for (size_t size = 0; size <= MAX; size++) {
        const size_t shift = size % 16;
        const uint32_t want = crc_by_bits(p + shift, size);
        for (size_t k = 0; k < count; k++)
            assert_int_equal(kinds[k].extend(0, p + shift, size), want);
        assert_int_equal(stk__crc32c(p + shift, size), want);
    }
    stk__free(p);
}

static void crc32c_of_large_blocks_is_the_same_by_every_way(void **state)
{
    enum { MAX = 300000 };
    uint8_t *p = random_bytes(MAX);
    size_t count;
    const stk__crc32c_kind *kinds = stk__crc32c_kinds(&count);
    for (size_t size = 700; size <= MAX; size += size / 7 + 13) {
        const uint32_t want = crc_by_bits(p, size);
        for (size_t k = 0; k < count; k++)
            assert_int_equal(kinds[k].extend(0, p, size), want);
    }
    stk__free(p);
}

static void crc32c_extended_piece_by_piece_equals_the_whole(void **state)
{
    enum { MAX = 9000 };
    uint8_t *p = random_bytes(MAX);
    const uint32_t want = crc_by_bits(p, MAX);
    size_t count;
    const stk__crc32c_kind *kinds = stk__crc32c_kinds(&count);
    for (size_t k = 0; k < count; k++) {
        for (size_t cut = 0; cut <= MAX; cut += 97) {
            uint32_t crc = kinds[k].extend(0, p, cut);
            crc = kinds[k].extend(crc, p + cut, MAX - cut);
            assert_int_equal(crc, want);
        }
    }
    stk__free(p);
}

static void crc32c_mask_is_tfrecords(void **state)
{
    /* The header of a TFRecord of 0 bytes, and the CRC of its empty data. */
    const uint8_t zeros[8] = {0};
    assert_int_equal(stk__crc32c_mask(stk__crc32c(zeros, 8)), 0x07980329);
    assert_int_equal(stk__crc32c_mask(0), 0xa282ead8);
}

static void crc32c_way_is_the_first_kind_and_c_is_the_last(void **state)
{
    size_t count;
    const stk__crc32c_kind *kinds = stk__crc32c_kinds(&count);
    assert_true(count >= 1);
    assert_string_equal(stk__crc32c_way(), kinds[0].name);
    assert_string_equal(kinds[count - 1].name, "c");
    assert_ptr_equal((void *)(uintptr_t)kinds[count - 1].extend, (void *)(uintptr_t)stk__crc32c_extend_c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_of_known_texts_is_as_published),
        cmocka_unit_test(crc32c_of_every_small_size_and_alignment_fits_the_definition),
        cmocka_unit_test(crc32c_of_large_blocks_is_the_same_by_every_way),
        cmocka_unit_test(crc32c_extended_piece_by_piece_equals_the_whole),
        cmocka_unit_test(crc32c_mask_is_tfrecords),
        cmocka_unit_test(crc32c_way_is_the_first_kind_and_c_is_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
