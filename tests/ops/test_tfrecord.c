/* tfrecord: globs and lists, plain, gzip and zlib, order, indexes, checks; what is bad is told with its place. */
#include "harness.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static void tfrecord_is_the_same_from_any_compression(void **state)
{
    static const char *const names[] = {"p", "g", "z"};
    seen first;
    for (int c = STK__PLAIN; c <= STK__ZLIB; c++)
        write_examples(names[c], (stk__compression)c, 0, 50);
    run_all("tfrecord(\"$D/p\") | batch(7) | repeat(2)", NULL, &first);
    for (int c = STK__GZIP; c <= STK__ZLIB; c++) {
        char text[96];
        seen s;
        snprintf(text, sizeof text, "tfrecord(\"$D/%s\") | batch(7) | repeat(2)", names[c]);
        run_all(text, NULL, &s);
        assert_seen_equal(&first, 0, &s, text);
        seen_clear(&s);
    }
    assert_int_equal(first.stats.samples, 100);
    seen_clear(&first);
}

static void tfrecord_takes_patterns_and_lists(void **state)
{
    write_data();
    ASSERT_VALUES("tfrecord(\"$D/a-[12]*\") | parse(value=int64)", 7, 8, 9, 10, 11);
    ASSERT_VALUES("tfrecord(\"$D/a-2.tfrecord\", \"$D/a-0.tfrecord\") | skip(4) | take(2) | parse(value=int64)", 11, 0);
    ASSERT_VALUES("tfrecord([\"$D/b-2*\", \"$D/b-0*\"]) | skip(4) | take(2) | parse(value=int64)", 11, 0);
    ASSERT_VALUES("tfrecord(\"$D/a-2*\", \"$D/b-2*\") | skip(4) | take(2) | parse(value=int64)", 11,
                  7); /* mixed: a stream */
    assert_prints("tfrecord(\"$D/a-1.tfrecord\")", "");
}

static void tfrecord_keeps_its_index(void **state)
{
    stk_config config = harness_config();
    seen s;
    write_data();
    config.cache_dir = in_dir("index");
    for (int i = 0; i < 2; i++) {
        run_all("tfrecord(\"$D/a-*\") | batch(5)", &config, &s);
        assert_int_equal(s.stats.samples, 23);
        seen_clear(&s);
    }
    assert_true(file_exists("index"));
    write_examples("a-0.tfrecord", STK__PLAIN, 0, 9); /* is noticed */
    run_all("tfrecord(\"$D/a-*\") | batch(5)", &config, &s);
    assert_int_equal(s.stats.samples, 25);
    seen_clear(&s);
}

static void flip(const char *name, size_t at)
{
    char *data;
    size_t size;
    assert_int_equal(stk__read_file(in_dir(name), 1 << 20, &data, &size, NULL), STK_OK);
    data[at] ^= 1;
    write_file(name, data, size);
    stk__free(data);
}

static void tfrecord_checks_data_unless_told_not_to(void **state)
{
    seen s;
    write_examples("one", STK__PLAIN, 0, 4);
    flip("one", 20);
    run_some("tfrecord(\"$D/one\") | batch(2)", NULL, -1, NULL, &s);
    assert_int_equal(s.status, STK_CORRUPT);
    assert_string_equal(s.error.file, in_dir("one"));
    assert_string_equal(s.error.op, "tfrecord");
    assert_int_equal(s.error.record, 0);
    assert_int_equal(s.error.offset, 0);
    assert_int_equal(s.count, 0);
    seen_clear(&s);
    run_all("tfrecord(\"$D/one\", verify=false) | batch(2)", NULL, &s);
    assert_int_equal(s.stats.samples, 4);
    seen_clear(&s);
}

/* The batches before the bad record still come. */
static void tfrecord_gives_what_comes_before_a_bad_record(void **state)
{
    struct stat st;
    seen s;
    write_examples("one", STK__PLAIN, 0, 20);
    assert_int_equal(stat(in_dir("one"), &st), 0);
    flip("one", (size_t)st.st_size - 5);
    run_some("tfrecord(\"$D/one\") | parse(value=int64) | batch(6)", NULL, -1, NULL, &s);
    assert_int_equal(s.status, STK_CORRUPT);
    assert_int_equal(s.count, 3);
    assert_int_equal(s.error.record, 19);
    seen_clear(&s);
}

static void tfrecord_visits_only_what_a_quarantine_list_names(void **state)
{
    stk_config config = harness_config();
    seen s;
    write_examples("one", STK__PLAIN, 0, 9);
    flip("one", 20);
    config.on_error = STK_ON_ERROR_QUARANTINE;
    config.quarantine_path = in_dir("list");
    run_all("tfrecord(\"$D/one\") | parse(value=int64)", &config, &s);
    assert_int_equal(s.value_count, 8);
    assert_int_equal(s.stats.quarantined, 1);
    seen_clear(&s);
    flip("one", 20); /* mended */
    ASSERT_VALUES("tfrecord(\"$D/one\", only=\"$D/list\") | parse(value=int64)", 0);
    assert_refused("tfrecord(\"$D/one\", only=\"$D/one\")", NULL, STK_INVALID, "is no quarantine list", 1, 1);
}

/* Odd numbers have no feature `rare`. */
static void tfrecord_feeds_a_quarantine_list_back(void **state)
{
    static const char *const names[] = {"p", "g.gz"};
    for (int i = 0; i < 2; i++) {
        stk_config config = harness_config();
        char text[128];
        seen s;
        write_examples(names[i], i ? STK__GZIP : STK__PLAIN, 0, 7);
        config.on_error = STK_ON_ERROR_QUARANTINE;
        config.quarantine_path = in_dir("list");
        snprintf(text, sizeof text, "tfrecord(\"$D/%s\") | parse(value=int64, rare=int64)", names[i]);
        run_all(text, &config, &s);
        assert_int_equal(s.value_count, 4);
        assert_int_equal(s.stats.skipped, 3);
        seen_clear(&s);
        snprintf(text, sizeof text, "tfrecord(\"$D/%s\", only=\"$D/list\") | parse(value=int64) | repeat(2)", names[i]);
        ASSERT_VALUES(text, 1, 3, 5, 1, 3, 5);
    }
}

static void tfrecord_refuses_missing_files(void **state)
{
    assert_fails("tfrecord(\"$D/nothing\")", NULL, STK_IO, "No such file");
    assert_fails("tfrecord(\"$D/nothing-*\")", NULL, STK_IO, "match");
    assert_refused("tfrecord()", NULL, STK_INVALID, "paths is missing", 1, 1);
    assert_refused("tfrecord(\"x\", verify=1)", NULL, STK_INVALID, "verify must be true or false", 1, 22);
    assert_refused("tfrecord(\"x\", veryfi=true)", NULL, STK_INVALID, "did you mean 'verify'?", 1, 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(tfrecord_is_the_same_from_any_compression),
        OP_TEST(tfrecord_takes_patterns_and_lists),
        OP_TEST(tfrecord_keeps_its_index),
        OP_TEST(tfrecord_checks_data_unless_told_not_to),
        OP_TEST(tfrecord_gives_what_comes_before_a_bad_record),
        OP_TEST(tfrecord_visits_only_what_a_quarantine_list_names),
        OP_TEST(tfrecord_feeds_a_quarantine_list_back),
        OP_TEST(tfrecord_refuses_missing_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
