/* write_image_folder: what is written reads back the same; the directory appears whole or not at all. */
#include "harness.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_reads_back(void **state)
{
    seen wanted, s;
    write_folder("f", 12, 3);
    run_all("image_folder(\"$D/f\") | drop(path) | batch(4)", NULL, &wanted);
    run_all("image_folder(\"$D/f\") | batch(5) | write_image_folder(\"$D/deep/out\")", NULL, &s);
    seen_clear(&s);
    run_all("image_folder(\"$D/deep/out\") | drop(path) | batch(4)", NULL, &s);
    assert_seen_equal(&wanted, 0, &s, "copy");
    assert_true(file_exists("deep/out/0011/000000035.jpg"));
    assert_int_equal(count_files("deep"), 1);
    seen_clear(&wanted);
    seen_clear(&s);
}

static void write_takes_names_from_fields(void **state)
{
    seen s;
    write_examples("in", STK__PLAIN, 0, 3);
    run_all(
        "tfrecord(\"$D/in\") | parse(name=bytes, value=int64) | write_image_folder(\"$D/a\", name, value, key=name, "
        "ext=\"dat\", digits=1)",
        NULL, &s);
    seen_clear(&s);
    assert_true(file_exists("a/0/n0.dat") && file_exists("a/2/n2.dat"));
    run_all(
        "tfrecord(\"$D/in\") | parse(name=bytes, value=int64) | write_image_folder(\"$D/b\", name, value, ext=\"dat\", "
        "classes=[\"cat\", \"dog\", \"x/y\"])",
        NULL, &s);
    seen_clear(&s);
    assert_true(file_exists("b/cat/000000000.dat") && file_exists("b/dog/000000001.dat") &&
                file_exists("b/x/y/000000002.dat"));
    run_all("tfrecord(\"$D/in\") | parse(name=bytes) | write_image_folder(\"$D/c/\", name, label=name, ext=\"dat\")",
            NULL, &s);
    seen_clear(&s);
    assert_true(file_exists("c/n1/000000001.dat"));
}

static void write_leaves_nothing_without_finish(void **state)
{
    seen s;
    write_folder("f", 3, 9);
    run_some("image_folder(\"$D/f\") | batch(3) | write_image_folder(\"$D/out\")", NULL, 5, NULL, &s);
    assert_int_equal(s.status, STK_OK);
    seen_clear(&s);
    assert_int_equal(count_files(""), 1);
}

static void write_leaves_nothing_after_an_error(void **state)
{
    write_lines("t", false, 0, 3);
    assert_fails("text(\"$D/t\") | write_image_folder(\"$D/out\", text, text)", NULL, STK_INVALID,
                 "field 'text' of sample 0 begins like no picture");
    assert_int_equal(count_files(""), 1);
}

/* More directories below each other than may be open at a time. */
static void write_removes_what_deep_keys_made(void **state)
{
    enum { LINE = 1300 };
    char lines[2 * LINE];
    struct rlimit limit, few = {64, 64};
    for (int i = 0; i < 2 * LINE; i++)
        lines[i] = i % LINE == LINE - 1 ? '\n' : i % LINE % 2 ? '/' : 'd';
    write_file("t", lines, sizeof lines);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few.rlim_max = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_fails("text(\"$D/t\") | write_image_folder(\"$D/out\", text, text, key=text, ext=\"x\")", NULL, STK_IO,
                 "two samples get this name");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(count_files(""), 1);
}

static void write_refuses_names_that_are_none(void **state)
{
    write_file("t", "../x\n", 5);
    assert_fails("text(\"$D/t\") | write_image_folder(\"$D/out\", text, text, ext=\"x\")", NULL, STK_INVALID,
                 "the label of sample 0 is '../x', which cannot be the name of a file");
    write_examples("in", STK__PLAIN, 0, 3);
    assert_fails("tfrecord(\"$D/in\") | parse(name=bytes, value=int64) | write_image_folder(\"$D/out\", name, value, "
                 "ext=\"x\", classes=[\"a\", \"b\"])",
                 NULL, STK_INVALID, "the label of sample 2 is 2, wanted the number of a class in the list");
    assert_fails("tfrecord(\"$D/in\") | parse(name=bytes, half=float32) | write_image_folder(\"$D/out\", name, half, "
                 "ext=\"x\")",
                 NULL, STK_INVALID, "the label of sample 1 is 0.5, wanted the number of a class");
    assert_fails(
        "tfrecord(\"$D/in\") | parse(name=bytes, one=int64(default=1)) | write_image_folder(\"$D/out\", name, one, "
        "key=one, ext=\"x\")",
        NULL, STK_IO, "two samples get this name");
    assert_int_equal(count_files(""), 2);
}

static void write_goes_only_where_nothing_is(void **state)
{
    seen s;
    write_folder("f", 2, 2);
    assert_fails("image_folder(\"$D/f\") | write_image_folder(\"$D/f\")", NULL, STK_IO,
                 "is there already and has 'class");
    assert_int_equal(mkdir(in_dir("empty"), 0777), 0);
    run_all("image_folder(\"$D/f\") | write_image_folder(\"$D/empty\")", NULL, &s);
    seen_clear(&s);
    assert_int_equal(count_files("empty"), 2);
    write_file("file", "x", 1);
    assert_fails("image_folder(\"$D/f\") | write_image_folder(\"$D/file\")", NULL, STK_IO, "Not a directory");
    assert_int_equal(count_files(""), 3);
}

static void write_refuses_bad_options(void **state)
{
    assert_refused("range(3) | write_image_folder()", NULL, STK_INVALID, "path is missing", 1, 12);
    assert_refused("range(3) | write_image_folder(\"\")", NULL, STK_INVALID, "path is empty", 1, 12);
    assert_refused("range(3) | write_image_folder(\"x\")", NULL, STK_INVALID, "no field 'image'", 1, 12);
    assert_refused("range(3) | write_image_folder(\"x\", value, value)", NULL, STK_INVALID,
                   "field 'value' is a single value of int64, wanted the bytes of a picture", 1, 12);
    assert_refused("range(3) | write_image_folder(\"x\", ext=\"a/b\")", NULL, STK_INVALID, "ext is 'a/b'", 1, 12);
    assert_int_equal(count_files(""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(write_reads_back),
        OP_TEST(write_takes_names_from_fields),
        OP_TEST(write_leaves_nothing_without_finish),
        OP_TEST(write_leaves_nothing_after_an_error),
        OP_TEST(write_removes_what_deep_keys_made),
        OP_TEST(write_refuses_names_that_are_none),
        OP_TEST(write_goes_only_where_nothing_is),
        OP_TEST(write_refuses_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
