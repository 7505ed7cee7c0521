/* Tests of reading and writing tf.train.Example and SequenceExample. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "formats/example.h"

#define RECORD(...) ((stk_bytes){(const uint8_t[]){__VA_ARGS__}, (int64_t)sizeof((const uint8_t[]){__VA_ARGS__})})
#define TEXT(s) ((stk_bytes){(const uint8_t *)(s), (int64_t)sizeof(s) - 1})
#define MAX_NAMES 8

/* A find of up to MAX_NAMES names, given as "a,b" with '@' before sequence names. */
typedef struct lookup {
    char names[128];
    stk__wanted wanted[MAX_NAMES];
    size_t count;
    stk__example_layout *layout;
    stk__example_guess guess;
    stk__found found[MAX_NAMES];
    stk_error err;
} lookup;

static void lookup_open(lookup *l, const char *names)
{
    memset(l, 0, sizeof *l);
    memset(l->found, 0xa5, sizeof l->found);
    stk_error_clear(&l->err);
    assert_true(strlen(names) < sizeof l->names);
    memcpy(l->names, names, strlen(names) + 1);
    for (char *p = l->names, *comma; p; p = comma) {
        comma = strchr(p, ',');
        if (comma)
            *comma++ = 0;
        l->wanted[l->count++] = (stk__wanted){*p == '@' ? p + 1 : p, *p == '@'};
    }
    assert_int_equal(stk__example_layout_new(l->wanted, l->count, &l->layout, &l->err), STK_OK);
}

static void lookup_close(lookup *l)
{
    stk__example_layout_free(l->layout);
}

/* Reads a copy that ends where its heap block ends, so that address sanitizers see any read past it. */
static stk_status lookup_find(lookup *l, stk_bytes record, uint8_t **copy)
{
    *copy = malloc(record.size > 0 ? (size_t)record.size : 1);
    assert_non_null(*copy);
    if (record.size > 0)
        memcpy(*copy, record.data, (size_t)record.size);
    return stk__example_find(l->layout, &l->guess, (stk_bytes){*copy, record.size}, false, l->found, &l->err);
}

static stk_status find_status(const char *names, stk_bytes record)
{
    lookup l;
    uint8_t *copy;
    lookup_open(&l, names);
    const stk_status status = lookup_find(&l, record, &copy);
    free(copy);
    lookup_close(&l);
    return status;
}

static void expect_find_error(const char *names, stk_bytes record, const char *message)
{
    lookup l;
    uint8_t *copy;
    lookup_open(&l, names);
    assert_int_equal(lookup_find(&l, record, &copy), STK_CORRUPT);
    assert_string_equal(l.err.message, message);
    free(copy);
    lookup_close(&l);
}

static stk_bytes bytes_of(const stk__text *t)
{
    return (stk_bytes){(const uint8_t *)t->data, (int64_t)t->length};
}

static stk__feature feature_of(stk__feature_kind kind, stk_bytes list)
{
    return (stk__feature){.list = {list.data, list.data + list.size}, .kind = kind, .present = true};
}

/* x = [1.5, -2], n = [1, -1, 300], s = ["ab", ""] */
static void write_sample(stk__text *out)
{
    stk__example_writer w = {0};
    stk__example_begin(&w);
    stk__example_add_floats(&w, "x", (const float[]){1.5f, -2.0f}, 2);
    stk__example_add_ints(&w, "n", (const int64_t[]){1, -1, 300}, 3);
    stk__example_add_bytes(&w, "s", (const stk_bytes[]){TEXT("ab"), TEXT("")}, 2);
    assert_int_equal(stk__example_end(&w, out, NULL), STK_OK);
    stk__example_writer_clear(&w);
}

static void example_write_gives_the_bytes_that_tensorflow_gives(void **state)
{
    /* printed by TensorFlow 2.21 for the same Example */
    static const uint8_t want[] = {
        0x0a, 0x3a, 0x0a, 0x11, 0x0a, 0x01, 'x',  0x12, 0x0c, 0x12, 0x0a, 0x0a, 0x08, 0x00, 0x00,
        0xc0, 0x3f, 0x00, 0x00, 0x00, 0xc0, 0x0a, 0x16, 0x0a, 0x01, 'n',  0x12, 0x11, 0x1a, 0x0f,
        0x0a, 0x0d, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0xac, 0x02,
        0x0a, 0x0d, 0x0a, 0x01, 's',  0x12, 0x08, 0x0a, 0x06, 0x0a, 0x02, 'a',  'b',  0x0a, 0x00,
    };
    stk__text out = STK__TEXT_INIT;
    write_sample(&out);
    assert_int_equal(out.length, sizeof want);
    assert_memory_equal(out.data, want, sizeof want);
    stk__text_clear(&out);
}

static void example_find_reads_what_the_writer_wrote(void **state)
{
    lookup l;
    stk__text out = STK__TEXT_INIT;
    uint8_t *copy;
    lookup_open(&l, "s,missing,n,x");
    write_sample(&out);
    for (int round = 0; round < 3; round++) { /* the guess is right from the second round on */
        assert_int_equal(lookup_find(&l, bytes_of(&out), &copy), STK_OK);
        float x[2];
        int64_t n[3];
        stk_bytes s[2];
        assert_int_equal(stk__feature_floats(&l.found[3].feature, x, 2, NULL), STK_OK);
        assert_int_equal(stk__feature_ints(&l.found[2].feature, n, 3, NULL), STK_OK);
        assert_int_equal(stk__feature_bytes(&l.found[0].feature, s, 2, NULL), STK_OK);
        assert_false(l.found[1].feature.present);
        assert_int_equal(l.found[1].feature.kind, STK__FEATURE_NONE);
        assert_true(x[0] == 1.5f && x[1] == -2.0f);
        assert_true(n[0] == 1 && n[1] == -1 && n[2] == 300);
        assert_int_equal(s[0].size, 2);
        assert_memory_equal(s[0].data, "ab", 2);
        assert_int_equal(s[1].size, 0);
        free(copy);
    }
    stk__text_clear(&out);
    lookup_close(&l);
}

static void example_find_follows_records_whose_order_changes(void **state)
{
    lookup l;
    stk__example_writer w = {0};
    stk__text out = STK__TEXT_INIT;
    uint8_t *copy;
    lookup_open(&l, "a,bb,a_rather_long_feature_name,x/y/zz,x/y/zy");
    for (size_t round = 0; round < 20; round++) {
        stk__example_begin(&w);
        for (size_t i = 0; i < l.count; i++) {
            const size_t j = (i * (round % 4 + 1) + round) % l.count; /* 5 is prime: an order, each name once */
            const int64_t value = (int64_t)(j + round * 10);
            if (round % 3 == 0)
                stk__example_add_ints(&w, "unwanted", &value, 1);
            stk__example_add_ints(&w, l.wanted[j].name, &value, 1);
        }
        stk__text_reset(&out);
        assert_int_equal(stk__example_end(&w, &out, NULL), STK_OK);
        assert_int_equal(lookup_find(&l, bytes_of(&out), &copy), STK_OK);
        for (size_t j = 0; j < l.count; j++) {
            int64_t value;
            assert_int_equal(stk__feature_ints(&l.found[j].feature, &value, 1, NULL), STK_OK);
            assert_int_equal(value, j + round * 10);
        }
        free(copy);
    }
    stk__example_writer_clear(&w);
    stk__text_clear(&out);
    lookup_close(&l);
}

static void example_find_with_the_guess_of_another_layout_is_right(void **state)
{
    lookup l;
    stk__text out = STK__TEXT_INIT;
    uint8_t *copy;
    int64_t n[3];
    lookup_open(&l, "n,zz");
    write_sample(&out);
    for (size_t i = 0; i < 256; i++)
        l.guess.order[i] = (uint16_t)(i % 3 == 0 ? 65535 : i % 3);
    assert_int_equal(lookup_find(&l, bytes_of(&out), &copy), STK_OK);
    assert_int_equal(stk__feature_ints(&l.found[0].feature, n, 3, NULL), STK_OK);
    assert_false(l.found[1].feature.present);
    free(copy);
    stk__text_clear(&out);
    lookup_close(&l);
}

static void example_find_takes_more_names_than_the_guess_holds(void **state)
{
    enum { COUNT = 1000 };
    static char names[COUNT][8];
    static stk__wanted wanted[COUNT];
    static stk__found found[COUNT];
    stk__example_guess guess = {0};
    stk__example_layout *layout;
    stk__example_writer w = {0};
    stk__text out = STK__TEXT_INIT;
    for (int i = 0; i < COUNT; i++) {
        stk__text name;
        stk__text_fixed(&name, names[i], sizeof names[i]);
        stk__text_printf(&name, "f%d", i);
        wanted[i].name = names[i];
    }
    assert_int_equal(stk__example_layout_new(wanted, COUNT, &layout, NULL), STK_OK);
    for (int64_t i = COUNT; i-- > 0;)
        stk__example_add_ints(&w, names[i], &i, 1);
    assert_int_equal(stk__example_end(&w, &out, NULL), STK_OK);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(stk__example_find(layout, &guess, bytes_of(&out), false, found, NULL), STK_OK);
        for (int64_t i = 0; i < COUNT; i++) {
            int64_t value = -1;
            assert_int_equal(stk__feature_ints(&found[i].feature, &value, 1, NULL), STK_OK);
            assert_int_equal(value, i);
        }
    }
    stk__example_layout_free(layout);
    stk__example_writer_clear(&w);
    stk__text_clear(&out);
}

static void example_layout_takes_65535_names_and_refuses_more(void **state)
{
    enum { COUNT = 65535 };
    static char names[COUNT][8];
    static stk__wanted wanted[COUNT + 1];
    static stk__found found[COUNT];
    stk__example_guess guess = {0};
    stk__example_layout *layout = NULL;
    stk_error err;
    stk_error_clear(&err);
    for (int i = 0; i < COUNT; i++) {
        stk__text name;
        stk__text_fixed(&name, names[i], sizeof names[i]);
        stk__text_printf(&name, "%x", i);
        wanted[i].name = names[i];
    }
    wanted[COUNT].name = "one more";
    assert_int_equal(stk__example_layout_new(wanted, COUNT + 1, &layout, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "65536"));
    assert_null(layout);
    assert_int_equal(stk__example_layout_new(wanted, COUNT, &layout, NULL), STK_OK);
    const stk_bytes record = RECORD(0x0a, 10, 0x0a, 8, 0x0a, 4, 'f', 'f', 'f', 'e', 0x12, 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(stk__example_find(layout, &guess, record, false, found, NULL), STK_OK);
        assert_true(found[COUNT - 1].feature.present);
        assert_false(found[0].feature.present);
    }
    assert_int_equal(guess.order[0], 65535);
    stk__example_layout_free(layout);
}

static void example_find_fills_equal_wanted_names_alike(void **state)
{
    lookup l;
    stk__text out = STK__TEXT_INIT;
    uint8_t *copy;
    lookup_open(&l, "n,x,n");
    write_sample(&out);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(lookup_find(&l, bytes_of(&out), &copy), STK_OK);
        assert_true(l.found[0].feature.present && l.found[2].feature.present);
        assert_ptr_equal(l.found[0].feature.list.p, l.found[2].feature.list.p);
        free(copy);
    }
    stk__text_clear(&out);
    lookup_close(&l);
}

static void example_find_without_names_passes_the_record(void **state)
{
    stk__example_layout *layout;
    stk__example_guess guess = {0};
    stk__text out = STK__TEXT_INIT;
    write_sample(&out);
    assert_int_equal(stk__example_layout_new(NULL, 0, &layout, NULL), STK_OK);
    assert_int_equal(stk__example_find(layout, &guess, bytes_of(&out), false, NULL, NULL), STK_OK);
    assert_int_equal(stk__example_find(layout, &guess, (stk_bytes){NULL, 0}, false, NULL, NULL), STK_OK);
    assert_int_equal(stk__example_find(layout, &guess, RECORD(0x0a, 5), false, NULL, NULL), STK_CORRUPT);
    stk__example_layout_free(layout);
    stk__text_clear(&out);
}

/* Finds `a` in the record and expects these int64 values. */
static void expect_ints(stk_bytes record, const int64_t *want, int64_t count)
{
    lookup l;
    uint8_t *copy;
    int64_t values[8], found;
    lookup_open(&l, "a");
    for (int round = 0; round < 2; round++) {
        assert_int_equal(lookup_find(&l, record, &copy), STK_OK);
        assert_true(l.found[0].feature.present);
        assert_int_equal(stk__feature_count(&l.found[0].feature, &found, NULL), STK_OK);
        assert_int_equal(found, count);
        assert_int_equal(stk__feature_ints(&l.found[0].feature, values, count, &l.err), STK_OK);
        assert_memory_equal(values, want, (size_t)count * sizeof *values);
        free(copy);
    }
    lookup_close(&l);
}

/* One map entry a = [v], 11 bytes. */
#define ENTRY_A(v) 0x0a, 10, 0x0a, 1, 'a', 0x12, 5, 0x1a, 3, 0x0a, 1, v

static void example_find_takes_the_last_of_equal_names(void **state)
{
    expect_ints(RECORD(0x0a, 24, ENTRY_A(5), ENTRY_A(6)), (const int64_t[]){6}, 1);
}

static void example_find_scans_every_features_field(void **state)
{
    expect_ints(RECORD(0x0a, 12, ENTRY_A(5), 0x0a, 0), (const int64_t[]){5}, 1);
    expect_ints(RECORD(0x0a, 0, 0x0a, 12, ENTRY_A(5)), (const int64_t[]){5}, 1);
    expect_ints(RECORD(0x0a, 12, ENTRY_A(5), 0x0a, 12, ENTRY_A(7)), (const int64_t[]){7}, 1);
}

static void example_find_steps_over_unknown_fields_at_every_level(void **state)
{
    /* varint 15, fixed64 15, bytes 15 and fixed32 15 around the known fields */
    expect_ints(RECORD(0x78, 0x96, 1, 0x0a, 12, ENTRY_A(5), 0x7a, 2, 9, 9), (const int64_t[]){5}, 1);
    expect_ints(RECORD(0x0a, 21, 0x79, 1, 2, 3, 4, 5, 6, 7, 8, ENTRY_A(5)), (const int64_t[]){5}, 1);
    expect_ints(RECORD(0x0a, 17, ENTRY_A(5), 0x7d, 1, 2, 3, 4), (const int64_t[]){5}, 1);
    expect_ints(RECORD(0x0a, 14, 0x0a, 12, 0x78, 3, 0x0a, 1, 'a', 0x12, 5, 0x1a, 3, 0x0a, 1, 5), (const int64_t[]){5},
                1);
    expect_ints(RECORD(0x0a, 14, 0x0a, 12, 0x0a, 1, 'a', 0x12, 7, 0x7a, 0, 0x1a, 3, 0x0a, 1, 5), (const int64_t[]){5},
                1);
    expect_ints(RECORD(0x0a, 14, 0x0a, 12, 0x0a, 1, 'a', 0x12, 7, 0x1a, 5, 0x78, 1, 0x0a, 1, 5), (const int64_t[]){5},
                1);
}

static void example_find_takes_the_value_before_the_key(void **state)
{
    expect_ints(RECORD(0x0a, 12, 0x0a, 10, 0x12, 5, 0x1a, 3, 0x0a, 1, 5, 0x0a, 1, 'a'), (const int64_t[]){5}, 1);
}

static void example_find_takes_lengths_that_are_not_minimal(void **state)
{
    expect_ints(RECORD(0x8a, 0, 0x8d, 0x80, 0, 0x0a, 0x8a, 0, 0x0a, 1, 'a', 0x12, 5, 0x1a, 3, 0x0a, 1, 5),
                (const int64_t[]){5}, 1);
}

static void example_find_takes_an_entry_without_key_as_the_empty_name(void **state)
{
    lookup l;
    uint8_t *copy;
    lookup_open(&l, ",a");
    assert_int_equal(lookup_find(&l, RECORD(0x0a, 9, 0x0a, 7, 0x12, 5, 0x1a, 3, 0x0a, 1, 5), &copy), STK_OK);
    assert_true(l.found[0].feature.present);
    assert_int_equal(l.found[0].feature.kind, STK__FEATURE_INT64);
    assert_false(l.found[1].feature.present);
    free(copy);
    lookup_close(&l);
}

static void example_find_takes_an_entry_without_value_as_no_list(void **state)
{
    static const uint8_t forms[][9] = {
        {0x0a, 5, 0x0a, 3, 0x0a, 1, 'a'},          /* no value */
        {0x0a, 7, 0x0a, 5, 0x0a, 1, 'a', 0x12, 0}, /* an empty Feature */
    };
    for (size_t i = 0; i < 2; i++) {
        lookup l;
        uint8_t *copy;
        int64_t count = -1;
        lookup_open(&l, "a");
        assert_int_equal(lookup_find(&l, (stk_bytes){forms[i], i ? 9 : 7}, &copy), STK_OK);
        assert_true(l.found[0].feature.present);
        assert_int_equal(l.found[0].feature.kind, STK__FEATURE_NONE);
        assert_int_equal(stk__feature_count(&l.found[0].feature, &count, NULL), STK_OK);
        assert_int_equal(count, 0);
        free(copy);
        lookup_close(&l);
    }
}

static void example_find_takes_the_last_kind_of_a_feature(void **state)
{
    /* float_list {} then int64_list {5}; and an empty int64_list after it, which merges to the same */
    expect_ints(RECORD(0x0a, 14, 0x0a, 12, 0x0a, 1, 'a', 0x12, 7, 0x12, 0, 0x1a, 3, 0x0a, 1, 5), (const int64_t[]){5},
                1);
    expect_ints(RECORD(0x0a, 14, 0x0a, 12, 0x0a, 1, 'a', 0x12, 7, 0x1a, 3, 0x0a, 1, 5, 0x1a, 0), (const int64_t[]){5},
                1);
    lookup l;
    uint8_t *copy;
    lookup_open(&l, "a");
    assert_int_equal(
        lookup_find(&l, RECORD(0x0a, 14, 0x0a, 12, 0x0a, 1, 'a', 0x12, 7, 0x1a, 3, 0x0a, 1, 5, 0x12, 0), &copy),
        STK_OK);
    assert_int_equal(l.found[0].feature.kind, STK__FEATURE_FLOAT);
    free(copy);
    lookup_close(&l);
}

static void example_find_refuses_two_lists_of_one_kind(void **state)
{
    lookup l;
    uint8_t *copy;
    lookup_open(&l, "a");
    const stk_bytes record =
        RECORD(0x0a, 17, 0x0a, 15, 0x0a, 1, 'a', 0x12, 10, 0x1a, 3, 0x0a, 1, 5, 0x1a, 3, 0x0a, 1, 6);
    assert_int_equal(lookup_find(&l, record, &copy), STK_CORRUPT);
    assert_string_equal(l.err.message, "Feature has two lists of kind int64, the second one at byte 16, wanted one");
    assert_string_equal(l.err.field, "a");
    free(copy);
    lookup_close(&l);
}

static void example_find_tells_a_length_past_the_record(void **state)
{
    uint8_t record[120] = {0x0a, 118, 0x0a, 33, 0x0a, 31};
    /* the first entry is a name of 31 bytes; the second one claims 912 bytes */
    record[37] = 0x0a;
    record[38] = 0x90;
    record[39] = 0x07;
    expect_find_error("a", (stk_bytes){record, sizeof record},
                      "feature map entry at byte 37: length 912 passes the end of the record (120 bytes)");
}

static void example_find_tells_a_length_past_the_enclosing_message(void **state)
{
    expect_find_error("a", RECORD(0x0a, 4, 0x0a, 4, 0x0a, 2, 'a', 'b', 'c'),
                      "feature map entry at byte 2: length 4 passes the end of the enclosing message at byte 6");
}

static void example_find_tells_wrong_wire_types(void **state)
{
    expect_find_error("a", RECORD(0x08, 1), "Example: features at byte 0 has wire type 0, wanted 2");
    expect_find_error("a", RECORD(0x0a, 2, 0x08, 1), "Features: feature map entry at byte 2 has wire type 0, wanted 2");
    expect_find_error("a", RECORD(0x0a, 4, 0x0a, 2, 0x08, 1), "map entry: key at byte 4 has wire type 0, wanted 2");
    expect_find_error("a", RECORD(0x0a, 9, 0x0a, 7, 0x0a, 1, 'a', 0x12, 2, 0x18, 1),
                      "Feature: int64_list at byte 9 has wire type 0, wanted 2");
}

static void example_find_refuses_groups_and_bad_tags(void **state)
{
    expect_find_error("a", RECORD(0x7b, 0x7c),
                      "Example: field 15 at byte 0 has wire type 3 (a group), wanted 0, 1, 2 or 5");
    expect_find_error("a", RECORD(0x0a, 1, 0x7e),
                      "Features: field 15 at byte 2 has wire type 6 (undefined), wanted 0, 1, 2 or 5");
    expect_find_error("a", RECORD(0x02, 1),
                      "Example: the field tag at byte 0 (first byte 0x02) is cut off or out of range");
    expect_find_error("a", RECORD(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
                      "Example: the field tag at byte 0 (first byte 0xff) is cut off or out of range");
    expect_find_error("a", RECORD(0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
                      "features at byte 0: its length is cut off or longer than 10 bytes");
    expect_find_error("a", RECORD(0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
                      "features at byte 0: length 18446744073709551615 passes the end of the record (11 bytes)");
    expect_find_error("a", RECORD(0x7d, 1, 2), "Example: unknown field 15 at byte 0 is cut off");
}

static void example_find_names_the_feature_that_is_broken(void **state)
{
    lookup l;
    uint8_t *copy;
    lookup_open(&l, "x");
    assert_int_equal(lookup_find(&l, RECORD(0x0a, 9, 0x0a, 7, 0x0a, 1, 'a', 0x12, 2, 0x1a, 9), &copy), STK_CORRUPT);
    assert_string_equal(l.err.field, "a");
    assert_string_equal(l.err.message, "int64_list at byte 9: length 9 passes the end of the record (11 bytes)");
    free(copy);
    lookup_close(&l);
}

static void example_find_of_any_cut_record_stays_inside_it(void **state)
{
    stk__text out = STK__TEXT_INIT;
    write_sample(&out);
    assert_int_equal(find_status("n,x", (stk_bytes){(const uint8_t *)out.data, 0}), STK_OK);
    for (int64_t size = 1; size < (int64_t)out.length; size++)
        assert_int_equal(find_status("n,x", (stk_bytes){(const uint8_t *)out.data, size}), STK_CORRUPT);
    /* and with the outer length made to fit, so that the cut falls into the entries */
    for (int64_t size = 2; size < (int64_t)out.length; size++) {
        lookup l;
        uint8_t *copy;
        out.data[1] = (char)(size - 2);
        lookup_open(&l, "n,x,s");
        const bool whole = size == 2 || size == 2 + 19 || size == 2 + 19 + 24;
        assert_int_equal(lookup_find(&l, (stk_bytes){(const uint8_t *)out.data, size}, &copy),
                         whole ? STK_OK : STK_CORRUPT);
        free(copy);
        lookup_close(&l);
    }
    stk__text_clear(&out);
}

static void example_find_of_any_flipped_bit_stays_inside_the_record(void **state)
{
    stk__text out = STK__TEXT_INIT;
    write_sample(&out);
    for (size_t bit = 0; bit < out.length * 8; bit++) {
        lookup l;
        uint8_t *copy;
        float x[2];
        int64_t n[3], count;
        stk_bytes s[2];
        lookup_open(&l, "x,n,s");
        out.data[bit / 8] = (char)(out.data[bit / 8] ^ 1 << bit % 8);
        const stk_status status = lookup_find(&l, bytes_of(&out), &copy);
        assert_true(status == STK_OK || status == STK_CORRUPT);
        for (size_t i = 0; status == STK_OK && i < l.count; i++) {
            const stk__feature *f = &l.found[i].feature;
            count = 0;
            stk__feature_count(f, &count, NULL);
            stk__feature_floats(f, x, 2, NULL);
            stk__feature_ints(f, n, 3, NULL);
            if (stk__feature_bytes(f, s, 2, NULL) == STK_OK)
                assert_true(f->kind == STK__FEATURE_BYTES && count == 2);
        }
        out.data[bit / 8] = (char)(out.data[bit / 8] ^ 1 << bit % 8);
        free(copy);
        lookup_close(&l);
    }
    stk__text_clear(&out);
}

static void feature_floats_reads_unpacked_and_mixed_lists(void **state)
{
    /* 1 alone, [2, -1] packed, an unknown field, 3 alone */
    const stk__feature f = feature_of(STK__FEATURE_FLOAT, RECORD(0x0d, 0, 0, 0x80, 0x3f, 0x0a, 8, 0, 0, 0, 0x40, 0, 0,
                                                                 0x80, 0xbf, 0x78, 1, 0x0d, 0, 0, 0x40, 0x40));
    float x[4];
    int64_t count;
    assert_int_equal(stk__feature_count(&f, &count, NULL), STK_OK);
    assert_int_equal(count, 4);
    assert_int_equal(stk__feature_floats(&f, x, 4, NULL), STK_OK);
    assert_true(x[0] == 1 && x[1] == 2 && x[2] == -1 && x[3] == 3);
    assert_int_equal(stk__feature_floats(&f, x, 3, NULL), STK_CORRUPT);
    assert_int_equal(stk__feature_floats(&f, x, 2, NULL), STK_CORRUPT);
}

static void feature_ints_reads_unpacked_and_mixed_lists(void **state)
{
    const stk__feature f =
        feature_of(STK__FEATURE_INT64, RECORD(0x08, 0xac, 2, 0x0a, 2, 7, 8, 0x0a, 0, 0x7a, 1, 0xff, 0x08, 1));
    int64_t n[4], count;
    assert_int_equal(stk__feature_count(&f, &count, NULL), STK_OK);
    assert_int_equal(count, 4);
    assert_int_equal(stk__feature_ints(&f, n, 4, NULL), STK_OK);
    assert_true(n[0] == 300 && n[1] == 7 && n[2] == 8 && n[3] == 1);
    assert_int_equal(stk__feature_ints(&f, n, 3, NULL), STK_CORRUPT);
    assert_int_equal(stk__feature_ints(&f, n, 1, NULL), STK_CORRUPT);
}

/* Values of every varint length, in lists of every length up to 40, so that all decoding loops meet all sizes. */
static void feature_ints_reads_back_every_size_of_number(void **state)
{
    int64_t values[40], back[40], count;
    stk__example_writer w = {0};
    stk__text out = STK__TEXT_INIT;
    uint64_t seed = 1;
    for (int round = 0; round < 400; round++) {
        const int64_t n = round % 41;
        for (int64_t i = 0; i < n; i++) {
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            const int bits = round < 80 ? 7 : (int)(seed >> 58); /* short ones only at first: the 8-at-once loop */
            values[i] = (int64_t)(seed >> (63 - bits) >> (round < 80));
        }
        if (n > 1) {
            values[0] = round % 2 ? INT64_MIN : 127;
            values[n - 1] = round % 2 ? INT64_MAX : -1;
        }
        lookup l;
        uint8_t *copy;
        lookup_open(&l, "a");
        stk__example_begin(&w);
        stk__example_add_ints(&w, "a", values, n);
        stk__text_reset(&out);
        assert_int_equal(stk__example_end(&w, &out, NULL), STK_OK);
        assert_int_equal(lookup_find(&l, bytes_of(&out), &copy), STK_OK);
        assert_int_equal(stk__feature_count(&l.found[0].feature, &count, NULL), STK_OK);
        assert_int_equal(count, n);
        assert_int_equal(stk__feature_ints(&l.found[0].feature, back, n, NULL), STK_OK);
        assert_memory_equal(back, values, (size_t)n * sizeof *back);
        assert_int_equal(stk__feature_ints(&l.found[0].feature, back, n + 1, NULL), STK_CORRUPT);
        if (n)
            assert_int_equal(stk__feature_ints(&l.found[0].feature, back, n - 1, NULL), STK_CORRUPT);
        free(copy);
        lookup_close(&l);
    }
    stk__example_writer_clear(&w);
    stk__text_clear(&out);
}

static void feature_ints_refuses_cut_and_overlong_varints(void **state)
{
    stk_error err;
    int64_t n[2], count;
    const stk__feature cut = feature_of(STK__FEATURE_INT64, RECORD(0x0a, 2, 7, 0x80));
    stk_error_clear(&err);
    assert_int_equal(stk__feature_ints(&cut, n, 2, &err), STK_CORRUPT);
    assert_non_null(strstr(err.message, "varint"));
    assert_int_equal(stk__feature_count(&cut, &count, &err), STK_CORRUPT);
    assert_non_null(strstr(err.message, "cut off"));
    const stk__feature eleven =
        feature_of(STK__FEATURE_INT64, RECORD(0x0a, 11, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0));
    assert_int_equal(stk__feature_ints(&eleven, n, 1, NULL), STK_CORRUPT);
    const stk__feature past_64_bits =
        feature_of(STK__FEATURE_INT64, RECORD(0x0a, 10, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2));
    assert_int_equal(stk__feature_ints(&past_64_bits, n, 1, NULL), STK_CORRUPT);
    const stk__feature padded =
        feature_of(STK__FEATURE_INT64, RECORD(0x0a, 10, 0x85, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0));
    assert_int_equal(stk__feature_ints(&padded, n, 1, NULL), STK_OK);
    assert_int_equal(n[0], 5);
}

static void feature_lists_refuse_wrong_wire_types(void **state)
{
    float x[1];
    int64_t n[1];
    stk_bytes s[1];
    stk_error err;
    stk_error_clear(&err);
    const stk__feature varint = feature_of(STK__FEATURE_FLOAT, RECORD(0x08, 1));
    assert_int_equal(stk__feature_floats(&varint, x, 1, &err), STK_CORRUPT);
    assert_string_equal(err.message, "FloatList: value at byte 0 has wire type 0, wanted 2 or 5");
    const stk__feature fixed = feature_of(STK__FEATURE_INT64, RECORD(0x0d, 1, 2, 3, 4));
    assert_int_equal(stk__feature_ints(&fixed, n, 1, &err), STK_CORRUPT);
    assert_string_equal(err.message, "Int64List: value at byte 0 has wire type 5, wanted 2 or 0");
    const stk__feature number = feature_of(STK__FEATURE_BYTES, RECORD(0x08, 1));
    assert_int_equal(stk__feature_bytes(&number, s, 1, &err), STK_CORRUPT);
    assert_string_equal(err.message, "BytesList: value at byte 0 has wire type 0, wanted 2");
}

static void feature_floats_refuses_a_length_that_is_no_multiple_of_four(void **state)
{
    float x[2];
    stk_error err;
    stk_error_clear(&err);
    const stk__feature f = feature_of(STK__FEATURE_FLOAT, RECORD(0x0a, 6, 0, 0, 0x80, 0x3f, 0, 0));
    assert_int_equal(stk__feature_floats(&f, x, 1, &err), STK_CORRUPT);
    assert_string_equal(err.message, "float_list: packed values at byte 2 take 6 bytes, wanted a multiple of 4");
}

static void feature_of_another_kind_or_count_tells_both(void **state)
{
    float x[8];
    int64_t n[8];
    stk_bytes s[2];
    stk_error err;
    stk_error_clear(&err);
    const stk__feature ints = feature_of(STK__FEATURE_INT64, RECORD(0x0a, 7, 1, 2, 3, 4, 5, 6, 7));
    assert_int_equal(stk__feature_floats(&ints, x, 7, &err), STK_CORRUPT);
    assert_string_equal(err.message, "is int64, wanted float");
    assert_int_equal(stk__feature_bytes(&ints, s, 1, &err), STK_CORRUPT);
    assert_string_equal(err.message, "is int64, wanted bytes");
    assert_int_equal(stk__feature_ints(&ints, n, 8, &err), STK_CORRUPT);
    assert_string_equal(err.message, "has 7 values, wanted 8");
    assert_int_equal(stk__feature_ints(&ints, n, 0, &err), STK_CORRUPT);
    assert_string_equal(err.message, "has 7 values, wanted 0");
    const stk__feature bytes = feature_of(STK__FEATURE_BYTES, RECORD(0x0a, 1, 'a'));
    assert_int_equal(stk__feature_ints(&bytes, n, 1, &err), STK_CORRUPT);
    assert_string_equal(err.message, "is bytes, wanted int64");
    assert_int_equal(stk__feature_bytes(&bytes, s, 2, &err), STK_CORRUPT);
    assert_string_equal(err.message, "has 1 value, wanted 2");
    const stk__feature missing = {0};
    assert_int_equal(stk__feature_floats(&missing, x, 4, &err), STK_CORRUPT);
    assert_string_equal(err.message, "is missing, wanted 4 float values");
    const stk__feature empty = {.present = true};
    assert_int_equal(stk__feature_ints(&empty, n, 1, &err), STK_CORRUPT);
    assert_string_equal(err.message, "has no list of values, wanted 1 int64 value");
}

static void feature_of_no_values_decodes_into_nothing(void **state)
{
    const stk__feature missing = {0};
    assert_int_equal(stk__feature_floats(&missing, NULL, 0, NULL), STK_OK);
    assert_int_equal(stk__feature_ints(&missing, NULL, 0, NULL), STK_OK);
    assert_int_equal(stk__feature_bytes(&missing, NULL, 0, NULL), STK_OK);
    for (int kind = STK__FEATURE_BYTES; kind <= STK__FEATURE_INT64; kind++) {
        const stk_bytes forms[] = {RECORD(0x0a, 0), TEXT("")};
        for (size_t i = kind == STK__FEATURE_BYTES ? 1 : 0; i < 2; i++) {
            const stk__feature f = feature_of((stk__feature_kind)kind, forms[i]);
            int64_t count = -1;
            assert_int_equal(stk__feature_count(&f, &count, NULL), STK_OK);
            assert_int_equal(count, 0);
            assert_int_equal(stk__feature_floats(&f, NULL, 0, NULL), kind == STK__FEATURE_FLOAT ? STK_OK : STK_CORRUPT);
            assert_int_equal(stk__feature_ints(&f, NULL, 0, NULL), kind == STK__FEATURE_INT64 ? STK_OK : STK_CORRUPT);
            assert_int_equal(stk__feature_bytes(&f, NULL, 0, NULL), kind == STK__FEATURE_BYTES ? STK_OK : STK_CORRUPT);
        }
    }
}

/* context {a = [5]}, feature_lists {a: [ [1], [], [2, 3] ]; b: unwanted} */
static const uint8_t sequence_record[] = {
    0x0a, 12, ENTRY_A(5),                                        /* context */
    0x12, 36,                                                    /* feature_lists */
    0x0a, 23, 0x0a,       1, 'a',  0x12, 18,                     /* entry a */
    0x0a, 5,  0x1a,       3, 0x0a, 1,    1,                      /* [1] */
    0x0a, 0,                                                     /* a Feature without a list */
    0x0a, 7,  0x1a,       5, 0x08, 2,    0x0a, 1,    3,          /* [2, 3], half unpacked */
    0x0a, 9,  0x0a,       1, 'b',  0x12, 4,    0x0a, 2, 0x12, 0, /* entry b: [empty float_list] */
};

static void example_find_reads_sequence_examples(void **state)
{
    lookup l;
    uint8_t *copy;
    int64_t n[2], count;
    stk__feature f;
    lookup_open(&l, "a,@a,@b,@c,b");
    for (int round = 0; round < 2; round++) {
        assert_int_equal(lookup_find(&l, (stk_bytes){sequence_record, sizeof sequence_record}, &copy), STK_OK);
        assert_int_equal(stk__feature_ints(&l.found[0].feature, n, 1, NULL), STK_OK);
        assert_int_equal(n[0], 5);
        assert_false(l.found[3].list.present);
        assert_false(l.found[4].feature.present);
        stk__feature_list list = l.found[1].list;
        assert_true(list.present);
        assert_int_equal(stk__feature_list_count(&list, &count, NULL), STK_OK);
        assert_int_equal(count, 3);
        assert_int_equal(stk__feature_list_next(&list, &f, NULL), STK_OK);
        assert_int_equal(stk__feature_ints(&f, n, 1, NULL), STK_OK);
        assert_int_equal(n[0], 1);
        assert_int_equal(stk__feature_list_next(&list, &f, NULL), STK_OK);
        assert_true(f.present);
        assert_int_equal(f.kind, STK__FEATURE_NONE);
        assert_int_equal(stk__feature_list_next(&list, &f, NULL), STK_OK);
        assert_int_equal(stk__feature_ints(&f, n, 2, NULL), STK_OK);
        assert_true(n[0] == 2 && n[1] == 3);
        assert_int_equal(stk__feature_list_next(&list, &f, NULL), STK_END);
        assert_int_equal(stk__feature_list_next(&list, &f, NULL), STK_END);
        assert_int_equal(stk__feature_list_count(&l.found[2].list, &count, NULL), STK_OK);
        assert_int_equal(count, 1);
        free(copy);
    }
    lookup_close(&l);
}

static void example_find_of_context_names_alone_steps_over_the_lists(void **state)
{
    stk__wanted wanted = {"a", false};
    stk__example_layout *layout;
    stk__example_guess guess = {0};
    stk__found found;
    /* the feature_lists field is nonsense inside */
    const stk_bytes record = RECORD(0x0a, 12, ENTRY_A(5), 0x12, 2, 0x07, 0x07);
    assert_int_equal(stk__example_layout_new(&wanted, 1, &layout, NULL), STK_OK);
    assert_int_equal(stk__example_find(layout, &guess, record, true, &found, NULL), STK_OK);
    assert_true(found.feature.present);
    assert_int_equal(stk__example_find(layout, &guess, record, false, &found, NULL), STK_OK);
    assert_int_equal(stk__example_find(layout, &guess, RECORD(0x10, 1), true, &found, NULL), STK_CORRUPT);
    assert_int_equal(stk__example_find(layout, &guess, RECORD(0x10, 1), false, &found, NULL), STK_OK);
    stk__example_layout_free(layout);
}

static void feature_list_of_broken_features_is_refused(void **state)
{
    stk_error err;
    stk__feature f;
    int64_t count;
    stk_error_clear(&err);
    const stk_bytes bytes = RECORD(0x0a, 2, 0x1a, 5, 0x0a, 9);
    stk__feature_list list = {.features = {bytes.data, bytes.data + bytes.size}, .present = true};
    assert_int_equal(stk__feature_list_count(&list, &count, &err), STK_CORRUPT);
    assert_string_equal(err.message, "feature at byte 4: length 9 passes the end of the feature list (6 bytes)");
    assert_int_equal(stk__feature_list_next(&list, &f, &err), STK_CORRUPT);
    assert_string_equal(err.message,
                        "int64_list at byte 2: length 5 passes the end of the rest of the feature list (6 bytes)");
}

typedef struct visits {
    char names[64];
    int count, stop_at;
} visits;

static bool visit_note(void *arg, stk_bytes name, bool sequence, const stk__found *found)
{
    visits *v = arg;
    stk__text t = {.data = v->names, .length = strlen(v->names), .capacity = sizeof v->names, .fixed = true};
    assert_true(sequence ? found->list.present : found->feature.present);
    stk__text_puts(&t, sequence ? "@" : "");
    stk__text_write(&t, name.data, (size_t)name.size);
    stk__text_puts(&t, ";");
    return ++v->count != v->stop_at;
}

static void example_each_visits_in_order_and_stops_when_told(void **state)
{
    const stk_bytes record = {sequence_record, sizeof sequence_record};
    visits v = {.stop_at = -1};
    assert_int_equal(stk__example_each(record, true, visit_note, &v, NULL), STK_OK);
    assert_string_equal(v.names, "a;@a;@b;");
    v = (visits){.stop_at = 2};
    assert_int_equal(stk__example_each(record, true, visit_note, &v, NULL), STK_OK);
    assert_string_equal(v.names, "a;@a;");
    v = (visits){.stop_at = -1};
    assert_int_equal(stk__example_each(record, false, visit_note, &v, NULL), STK_OK);
    assert_string_equal(v.names, "a;");
    assert_int_equal(stk__example_each(RECORD(0x0a, 9), false, visit_note, &v, NULL), STK_CORRUPT);
}

static void example_guess_kind_tells_the_three_apart(void **state)
{
    stk__text out = STK__TEXT_INIT;
    write_sample(&out);
    assert_int_equal(stk__example_guess_kind(bytes_of(&out)), 0);
    assert_int_equal(stk__example_guess_kind((stk_bytes){NULL, 0}), 0);
    assert_int_equal(stk__example_guess_kind((stk_bytes){sequence_record, sizeof sequence_record}), 1);
    assert_int_equal(stk__example_guess_kind(TEXT("a line of text")), -1);
    assert_int_equal(stk__example_guess_kind(RECORD(0x1a, 1, 0)), -1);
    assert_int_equal(stk__example_guess_kind(RECORD(0x0a, 1)), -1);
    /* well formed down to a list of which the only value is cut off */
    assert_int_equal(stk__example_guess_kind(RECORD(0x0a, 12, ENTRY_A(0x85))), -1);
    stk__text_clear(&out);
}

static void example_writer_and_find_allocate_nothing_after_warm_up(void **state)
{
    enum { COUNT = 100 };
    static int64_t ints[COUNT];
    lookup l;
    stk__example_writer w = {0};
    stk__text out = STK__TEXT_INIT;
    uint64_t before = 0;
    lookup_open(&l, "n,x");
    memset(ints, 0xff, sizeof ints);
    for (int round = 0; round < 10; round++) {
        if (round == 1)
            before = stk__alloc_count();
        stk__example_begin(&w);
        stk__example_add_ints(&w, "n", ints, COUNT);
        stk__example_add_floats(&w, "x", NULL, 0);
        stk__text_reset(&out);
        assert_int_equal(stk__example_end(&w, &out, NULL), STK_OK);
        assert_int_equal(stk__example_find(l.layout, &l.guess, bytes_of(&out), false, l.found, NULL), STK_OK);
        int64_t back[COUNT];
        assert_int_equal(stk__feature_ints(&l.found[0].feature, back, COUNT, NULL), STK_OK);
        assert_memory_equal(back, ints, sizeof back);
        assert_int_equal(l.found[1].feature.kind, STK__FEATURE_FLOAT);
    }
    assert_int_equal(stk__alloc_count(), before);
    stk__example_writer_clear(&w);
    stk__text_clear(&out);
    lookup_close(&l);
}

static void example_writer_out_of_memory_is_reported_and_heals(void **state)
{
    const int64_t value = 7;
    for (uint64_t n = 1; n <= 2; n++) { /* the features text, then the output */
        stk__example_writer w = {0};
        stk__text out = STK__TEXT_INIT;
        stk__alloc_fail_at(n, false);
        stk__example_add_ints(&w, "a", &value, 1);
        assert_int_equal(stk__example_end(&w, &out, NULL), STK_NOMEM);
        stk__alloc_fail_at(0, false);
        stk__text_clear(&out);
        stk__example_begin(&w);
        stk__example_add_ints(&w, "a", &value, 1);
        assert_int_equal(stk__example_end(&w, &out, NULL), STK_OK);
        expect_ints(bytes_of(&out), &value, 1);
        stk__text_clear(&out);
        stk__example_writer_clear(&w);
    }
}

/* Lists with other bytes behind them are decoded without looking at their end: it must make no difference. */
static void feature_ints_are_the_same_wherever_the_list_stands(void **state)
{
    static const int64_t values[] = {0, 127, 128, 16383, 16384, 2097152, INT64_C(1) << 34, INT64_C(1) << 41, (INT64_C(1) << 49) + 5,
                                     (INT64_C(1) << 56) - 1, INT64_C(1) << 56, INT64_MAX, INT64_MIN, -1, 99999};
    static const char padding[400];
    for (size_t from = 0; from < STK_COUNT(values); from++) {
        for (size_t count = 1; from + count <= STK_COUNT(values); count++) {
            for (int behind = 0; behind < 2; behind++) {
                lookup l;
                stk__text out = STK__TEXT_INIT;
                stk__example_writer w = {0};
                uint8_t *copy;
                int64_t got[STK_COUNT(values) + 1];
                lookup_open(&l, "n");
                stk__example_begin(&w);
                stk__example_add_ints(&w, "n", values + from, (int64_t)count);
                if (behind)
                    stk__example_add_bytes(&w, "padding", &(stk_bytes){(const uint8_t *)padding, sizeof padding}, 1);
                assert_int_equal(stk__example_end(&w, &out, NULL), STK_OK);
                assert_int_equal(lookup_find(&l, bytes_of(&out), &copy), STK_OK);
                assert_int_equal(stk__feature_ints(&l.found[0].feature, got, (int64_t)count, NULL), STK_OK);
                assert_memory_equal(got, values + from, count * sizeof *got);
                assert_int_equal(stk__feature_ints(&l.found[0].feature, got, (int64_t)count + 1, NULL), STK_CORRUPT);
                if (count > 1)
                    assert_int_equal(stk__feature_ints(&l.found[0].feature, got, (int64_t)count - 1, NULL), STK_CORRUPT);
                stk__free(copy);
                stk__example_writer_clear(&w);
                stk__text_clear(&out);
                lookup_close(&l);
            }
        }
    }
}

static void example_layout_out_of_memory_leaves_nothing_behind(void **state)
{
    const stk__wanted wanted[] = {{"a", false}, {"b", true}};
    for (uint64_t n = 1; n <= 3; n++) {
        stk__example_layout *layout = NULL;
        stk__alloc_fail_at(n, false);
        assert_int_equal(stk__example_layout_new(wanted, 2, &layout, NULL), STK_NOMEM);
        assert_null(layout);
    }
    stk__alloc_fail_at(0, false);
    stk__example_layout_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example_write_gives_the_bytes_that_tensorflow_gives),
        cmocka_unit_test(example_find_reads_what_the_writer_wrote),
        cmocka_unit_test(example_find_follows_records_whose_order_changes),
        cmocka_unit_test(example_find_with_the_guess_of_another_layout_is_right),
        cmocka_unit_test(example_find_takes_more_names_than_the_guess_holds),
        cmocka_unit_test(example_layout_takes_65535_names_and_refuses_more),
        cmocka_unit_test(example_find_fills_equal_wanted_names_alike),
        cmocka_unit_test(example_find_without_names_passes_the_record),
        cmocka_unit_test(example_find_takes_the_last_of_equal_names),
        cmocka_unit_test(example_find_scans_every_features_field),
        cmocka_unit_test(example_find_steps_over_unknown_fields_at_every_level),
        cmocka_unit_test(example_find_takes_the_value_before_the_key),
        cmocka_unit_test(example_find_takes_lengths_that_are_not_minimal),
        cmocka_unit_test(example_find_takes_an_entry_without_key_as_the_empty_name),
        cmocka_unit_test(example_find_takes_an_entry_without_value_as_no_list),
        cmocka_unit_test(example_find_takes_the_last_kind_of_a_feature),
        cmocka_unit_test(example_find_refuses_two_lists_of_one_kind),
        cmocka_unit_test(example_find_tells_a_length_past_the_record),
        cmocka_unit_test(example_find_tells_a_length_past_the_enclosing_message),
        cmocka_unit_test(example_find_tells_wrong_wire_types),
        cmocka_unit_test(example_find_refuses_groups_and_bad_tags),
        cmocka_unit_test(example_find_names_the_feature_that_is_broken),
        cmocka_unit_test(example_find_of_any_cut_record_stays_inside_it),
        cmocka_unit_test(example_find_of_any_flipped_bit_stays_inside_the_record),
        cmocka_unit_test(feature_floats_reads_unpacked_and_mixed_lists),
        cmocka_unit_test(feature_ints_reads_unpacked_and_mixed_lists),
        cmocka_unit_test(feature_ints_reads_back_every_size_of_number),
        cmocka_unit_test(feature_ints_refuses_cut_and_overlong_varints),
        cmocka_unit_test(feature_lists_refuse_wrong_wire_types),
        cmocka_unit_test(feature_floats_refuses_a_length_that_is_no_multiple_of_four),
        cmocka_unit_test(feature_of_another_kind_or_count_tells_both),
        cmocka_unit_test(feature_of_no_values_decodes_into_nothing),
        cmocka_unit_test(example_find_reads_sequence_examples),
        cmocka_unit_test(example_find_of_context_names_alone_steps_over_the_lists),
        cmocka_unit_test(feature_list_of_broken_features_is_refused),
        cmocka_unit_test(example_each_visits_in_order_and_stops_when_told),
        cmocka_unit_test(example_guess_kind_tells_the_three_apart),
        cmocka_unit_test(example_writer_and_find_allocate_nothing_after_warm_up),
        cmocka_unit_test(example_writer_out_of_memory_is_reported_and_heals),
        cmocka_unit_test(feature_ints_are_the_same_wherever_the_list_stands),
        cmocka_unit_test(example_layout_out_of_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
