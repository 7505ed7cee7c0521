/* write_tfrecord: what is written reads back the same; files appear whole or not at all. */
#include "harness.h"

#include <dirent.h>

static void write_reads_back(void **state)
{
    static const char fields[] =
        "parse(value=int64, half=float32, pair=float32[2], words=bytes[], many=int64[], name=bytes)";
    static const char *const compressions[] = {"none", "gzip", "zlib"};
    char text[256];
    seen wanted, s;
    write_data();
    snprintf(text, sizeof text, "tfrecord(\"$D/a-*\") | %s | batch(4)", fields);
    run_all(text, NULL, &wanted);
    for (size_t i = 0; i < STK_COUNT(compressions); i++) {
        snprintf(text, sizeof text,
                 "tfrecord(\"$D/a-*\") | %s | batch(3) | write_tfrecord(\"$D/out\", compression=%s, level=1)", fields,
                 compressions[i]);
        run_all(text, NULL, &s);
        seen_clear(&s);
        snprintf(text, sizeof text, "tfrecord(\"$D/out\") | %s | batch(4)", fields);
        run_all(text, NULL, &s);
        assert_seen_equal(&wanted, 0, &s, compressions[i]);
        seen_clear(&s);
    }
    seen_clear(&wanted);
}

/* Records that were not parsed are written as they are. */
static void write_of_raw_records_copies_them(void **state)
{
    seen wanted, s;
    write_data();
    run_all("tfrecord(\"$D/b-*\") | write_tfrecord(\"$D/out\")", NULL, &s);
    seen_clear(&s);
    run_all("tfrecord(\"$D/a-*\")", NULL, &wanted);
    run_all("tfrecord(\"$D/out\")", NULL, &s);
    assert_seen_equal(&wanted, 0, &s, "copy");
    seen_clear(&wanted);
    seen_clear(&s);
}

static void write_deals_samples_to_shards(void **state)
{
    seen s;
    run_all("range(7) | batch(2) | write_tfrecord(\"$D/deep/er/part-%03d-of-%d\", shards=3)", NULL, &s);
    seen_clear(&s);
    ASSERT_VALUES("tfrecord(\"$D/deep/er/part-000-of-3\") | parse(value=int64)", 0, 3, 6);
    ASSERT_VALUES("tfrecord(\"$D/deep/er/part-002-of-3\") | parse(value=int64)", 2, 5);
    ASSERT_VALUES("tfrecord(\"$D/deep/er/part-*\") | interleave | parse(value=int64)", 0, 1, 2, 3, 4, 5, 6);
}

/* Records hold int64 and float32 alone: other numbers become the wider of the two. */
static void write_turns_numbers_into_what_records_hold(void **state)
{
    static const char *const types[] = {"bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64"};
    static const char *const reals[] = {"float16", "bfloat16", "float64"};
    char text[160];
    seen s;
    for (size_t i = 0; i < STK_COUNT(types); i++) {
        snprintf(text, sizeof text, "range(2) | cast(value=%s) | write_tfrecord(\"$D/out\")", types[i]);
        run_all(text, NULL, &s);
        seen_clear(&s);
        ASSERT_VALUES("tfrecord(\"$D/out\") | parse(value=int64)", 0, 1);
    }
    for (size_t i = 0; i < STK_COUNT(reals); i++) {
        snprintf(text, sizeof text, "range(2) | cast(value=%s) | write_tfrecord(\"$D/out\")", reals[i]);
        run_all(text, NULL, &s);
        seen_clear(&s);
        assert_prints("tfrecord(\"$D/out\") | parse(value=float32)", "{\"value\":0}\n{\"value\":1}\n");
    }
}

static int files_here(void)
{
    int n = 0;
    DIR *dir = opendir(in_dir(""));
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void write_leaves_nothing_without_finish(void **state)
{
    seen s;
    run_some("range(100) | batch(3) | write_tfrecord(\"$D/out-%d\", shards=2)", NULL, 5, NULL, &s);
    assert_int_equal(s.status, STK_OK);
    seen_clear(&s);
    assert_int_equal(files_here(), 0);
}

static void write_leaves_nothing_after_an_error(void **state)
{
    stk_error error;
    stk_pipeline *p;
    write_examples("in", STK__PLAIN, 0, 20);
    const int before = files_here();
    assert_fails("tfrecord(\"$D/in\") | parse(rare=int64) | batch(1) | write_tfrecord(\"$D/out\")", NULL, STK_CORRUPT,
                 "is missing");
    assert_int_equal(files_here(), before);
    assert_int_equal(try_open("range(3) | write_tfrecord(\"/proc/no/such\")", NULL, &p, &error), STK_IO);
    assert_string_equal(error.op, "write_tfrecord");
}

static void write_of_no_samples_makes_an_empty_file(void **state)
{
    seen s;
    run_all("range(0) | write_tfrecord(\"$D/out\")", NULL, &s);
    seen_clear(&s);
    assert_true(file_exists("out"));
    assert_prints("tfrecord(\"$D/out\")", "");
}

static void write_refuses_bad_options(void **state)
{
    assert_refused("range(3) | write_tfrecord()", NULL, STK_INVALID, "path is missing", 1, 12);
    assert_refused("range(3) | write_tfrecord(\"$D/x\", shards=2)", NULL, STK_INVALID,
                   "needs %05d for the numbers of 2 shards", 1, 12);
    assert_refused("range(3) | write_tfrecord(\"$D/%s\")", NULL, STK_INVALID, "must have %d or %05d", 1, 12);
    assert_refused("range(3) | write_tfrecord(\"$D/%d-%d-%d\", shards=2)", NULL, STK_INVALID, "must have %d or %05d", 1,
                   12);
    assert_refused("range(3) | write_tfrecord(\"x\", shards=0)", NULL, STK_INVALID, "shards must be in 1..65536", 1,
                   39);
    assert_refused("range(3) | write_tfrecord(\"x\", compression=lzma)", NULL, STK_INVALID,
                   "compression must be one of none, gzip, zlib, got a name lzma", 1, 44);
    assert_refused("range(3) | write_tfrecord(\"x\", level=10)", NULL, STK_INVALID, "level must be in 1..9", 1, 38);
    assert_int_equal(files_here(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(write_reads_back),
        OP_TEST(write_of_raw_records_copies_them),
        OP_TEST(write_deals_samples_to_shards),
        OP_TEST(write_turns_numbers_into_what_records_hold),
        OP_TEST(write_leaves_nothing_without_finish),
        OP_TEST(write_leaves_nothing_after_an_error),
        OP_TEST(write_of_no_samples_makes_an_empty_file),
        OP_TEST(write_refuses_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
