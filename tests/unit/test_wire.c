/* Protobuf wire format: varints at every length, tags, skipping, bounds, writing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/wire.h"

static stk__wire window(const void *data, size_t size)
{
    return (stk__wire){data, (const uint8_t *)data + size};
}

static void varint_of_every_length_reads_back(void **state)
{
    (void)state;
    for (int bit = 0; bit < 64; bit++) {
        for (int delta = -1; delta <= 1; delta++) {
            const uint64_t want = ((uint64_t)1 << bit) + (uint64_t)delta;
            stk__text t = STK__TEXT_INIT;
            stk__wire_put_varint(&t, want);
            assert_int_equal(t.length, stk__wire_varint_size(want));
            stk__wire w = window(t.data, t.length);
            uint64_t found = ~want;
            assert_true(stk__wire_varint(&w, &found));
            assert_true(found == want);
            assert_ptr_equal(w.p, w.end);
            for (size_t cut = 0; cut < t.length; cut++) {
                w = window(t.data, cut);
                assert_false(stk__wire_varint(&w, &found));
            }
            stk__text_clear(&t);
        }
    }
}

static void varint_past_64_bits_is_refused(void **state)
{
    (void)state;
    uint64_t x;
    stk__wire w = window("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10);
    assert_false(stk__wire_varint(&w, &x));
    w = window("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11);
    assert_false(stk__wire_varint(&w, &x));
    w = window("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10);
    assert_true(stk__wire_varint(&w, &x));
    assert_true(x == UINT64_MAX);
    w = window("\x81\x80\x00", 3); /* padded, but within 10 bytes: allowed by the format */
    assert_true(stk__wire_varint(&w, &x));
    assert_int_equal(x, 1);
}

static void tag_refuses_field_zero_and_too_large(void **state)
{
    (void)state;
    uint32_t field, type;
    stk__wire w = window("\x0a", 1);
    assert_true(stk__wire_tag(&w, &field, &type));
    assert_int_equal(field, 1);
    assert_int_equal(type, STK__WIRE_BYTES);
    w = window("\x02", 1);
    assert_false(stk__wire_tag(&w, &field, &type));
    w = window("\xff\xff\xff\xff\x0f", 5);
    assert_true(stk__wire_tag(&w, &field, &type));
    assert_int_equal(field, (1 << 29) - 1);
    w = window("\x80\x80\x80\x80\x10", 5);
    assert_false(stk__wire_tag(&w, &field, &type));
    w = window("", 0);
    assert_false(stk__wire_tag(&w, &field, &type));
}

static void bytes_never_pass_the_end(void **state)
{
    (void)state;
    stk__wire sub, w = window("\x03"
                              "abcd",
                              5);
    assert_true(stk__wire_bytes(&w, &sub));
    assert_memory_equal(sub.p, "abc", 3);
    assert_int_equal(sub.end - sub.p, 3);
    assert_int_equal(w.end - w.p, 1);
    w = window("\x05"
               "abcd",
               5);
    assert_false(stk__wire_bytes(&w, &sub));
    w = window("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
               "abcd",
               14);
    assert_false(stk__wire_bytes(&w, &sub));
    w = window("\x00", 1);
    assert_true(stk__wire_bytes(&w, &sub));
    assert_ptr_equal(sub.p, sub.end);
}

static void skip_steps_over_every_type_but_groups(void **state)
{
    (void)state;
    stk__wire w = window("\x80\x01", 2);
    assert_true(stk__wire_skip(&w, STK__WIRE_VARINT));
    assert_ptr_equal(w.p, w.end);
    for (size_t size = 0; size <= 8; size++) {
        w = window("12345678", size);
        assert_int_equal(stk__wire_skip(&w, STK__WIRE_FIXED64), size == 8);
        w = window("12345678", size);
        assert_int_equal(stk__wire_skip(&w, STK__WIRE_FIXED32), size >= 4);
    }
    w = window("\x02"
               "ab",
               3);
    assert_true(stk__wire_skip(&w, STK__WIRE_BYTES));
    assert_ptr_equal(w.p, w.end);
    static const uint32_t refused[] = {3, 4, 6, 7};
    for (size_t i = 0; i < STK_COUNT(refused); i++) {
        w = window("\x00\x00\x00\x00\x00\x00\x00\x00", 8);
        assert_false(stk__wire_skip(&w, refused[i]));
    }
}

static void put_writes_tag_and_value(void **state)
{
    (void)state;
    stk__text t = STK__TEXT_INIT;
    stk__wire_put_uint(&t, 1, 150);
    stk__wire_put_bytes(&t, 2, "testing", 7);
    assert_int_equal(t.length, 12);
    assert_memory_equal(t.data, "\x08\x96\x01\x12\x07testing", 12);
    stk__text_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(varint_of_every_length_reads_back),     cmocka_unit_test(varint_past_64_bits_is_refused),
        cmocka_unit_test(tag_refuses_field_zero_and_too_large),  cmocka_unit_test(bytes_never_pass_the_end),
        cmocka_unit_test(skip_steps_over_every_type_but_groups), cmocka_unit_test(put_writes_tag_and_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
