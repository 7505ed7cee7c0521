/* Orientation in EXIF data: both byte orders, every value, and data that is damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "formats/image_impl.h"

/* A TIFF header and a directory of two entries, of which the second is the orientation. */
static void make_tiff(uint8_t out[38], bool big, uint16_t orientation)
{
    static const uint16_t words[] = {42, 0, 8, 2, 0x0100, 4, 0, 1, 0, 640, 0x0112, 3, 0, 1};
    memset(out, 0, 38);
    out[0] = out[1] = big ? 'M' : 'I';
    for (size_t i = 0; i < 15; i++) {
        const uint16_t word = i < 14 ? words[i] : orientation;
        out[2 + 2 * i] = (uint8_t)(big ? word >> 8 : word);
        out[3 + 2 * i] = (uint8_t)(big ? word : word >> 8);
    }
    if (big)
        return;
    /* The two halves of 32-bit numbers stand the other way round. */
    static const int numbers[] = {4, 14, 18, 26};
    for (size_t i = 0; i < 4; i++) {
        uint8_t half[2];
        memcpy(half, out + numbers[i], 2);
        memcpy(out + numbers[i], out + numbers[i] + 2, 2);
        memcpy(out + numbers[i] + 2, half, 2);
    }
}

static void exif_orientation_in_both_byte_orders(void **state)
{
    uint8_t tiff[38];
    for (int big = 0; big < 2; big++) {
        for (uint16_t i = 1; i <= 8; i++) {
            make_tiff(tiff, big, i);
            assert_int_equal(stk__exif_orientation(tiff, sizeof tiff), i);
        }
    }
}

static void exif_orientation_out_of_range_is_1(void **state)
{
    uint8_t tiff[38];
    for (int big = 0; big < 2; big++) {
        make_tiff(tiff, big, 0);
        assert_int_equal(stk__exif_orientation(tiff, sizeof tiff), 1);
        make_tiff(tiff, big, 9);
        assert_int_equal(stk__exif_orientation(tiff, sizeof tiff), 1);
    }
}

static void exif_of_another_type_or_count_is_1(void **state)
{
    uint8_t tiff[38];
    make_tiff(tiff, true, 6);
    tiff[25] = 4; /* a number of 32 bits */
    assert_int_equal(stk__exif_orientation(tiff, sizeof tiff), 1);
    make_tiff(tiff, true, 6);
    tiff[29] = 2; /* two of them */
    assert_int_equal(stk__exif_orientation(tiff, sizeof tiff), 1);
}

/* The entry ends at byte 34; each cut is tested in memory that ends there. */
static void exif_cut_off_is_1(void **state)
{
    uint8_t tiff[38];
    make_tiff(tiff, false, 8);
    for (size_t size = 0; size < 34; size++) {
        uint8_t *cut = test_malloc(size + 1);
        memcpy(cut, tiff, size);
        assert_int_equal(stk__exif_orientation(cut, size), 1);
        test_free(cut);
    }
    assert_int_equal(stk__exif_orientation(tiff, 34), 8);
}

static void exif_with_a_wrong_header_is_1(void **state)
{
    static const struct {
        int at;
        uint8_t value;
    } damage[] = {{0, 'X'}, {1, 'M'}, {2, 43}, {4, 255}, {7, 255}};
    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        uint8_t tiff[38];
        make_tiff(tiff, false, 8);
        tiff[damage[i].at] = damage[i].value;
        assert_int_equal(stk__exif_orientation(tiff, sizeof tiff), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exif_orientation_in_both_byte_orders), cmocka_unit_test(exif_orientation_out_of_range_is_1),
        cmocka_unit_test(exif_of_another_type_or_count_is_1),   cmocka_unit_test(exif_cut_off_is_1),
        cmocka_unit_test(exif_with_a_wrong_header_is_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
