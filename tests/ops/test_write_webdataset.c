/* write_webdataset: what is written reads back the same and is the same each time; files appear whole or not at all. */
#include "harness.h"

#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static void write_reads_back(void **state)
{
    static const char read_all[] = "webdataset(\"$D/%s\", image=bytes(from=\"bin;jpg\"), label=int64) | batch(4)";
    char text[160];
    seen wanted, s;
    write_data();
    snprintf(text, sizeof text, read_all, "t-*.tar");
    run_all(text, NULL, &wanted);
    run_all("webdataset(\"$D/t-*.tar\") | batch(3) | write_webdataset(\"$D/out.tar\", image=\"bin\", label=\"cls\")",
            NULL, &s);
    seen_clear(&s);
    snprintf(text, sizeof text, read_all, "out.tar");
    run_all(text, NULL, &s);
    assert_seen_equal(&wanted, 0, &s, "copy");
    seen_clear(&wanted);
    seen_clear(&s);
}

static bool same_files(const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;
    assert_int_equal(stk__read_file(in_dir(a), 1 << 20, &x, &n, NULL), STK_OK);
    assert_int_equal(stk__read_file(in_dir(b), 1 << 20, &y, &m, NULL), STK_OK);
    const bool same = n == m && memcmp(x, y, n) == 0;
    stk__free(x);
    stk__free(y);
    return same;
}

static void write_gives_the_same_bytes_each_time(void **state)
{
    stk_config config = harness_config();
    seen s;
    write_data();
    run_all("webdataset(\"$D/t-*.tar\") | write_webdataset(\"$D/x.tar\", image=\"jpg\", label=\"cls\")", &config, &s);
    seen_clear(&s);
    config.threads = 3;
    run_all("webdataset(\"$D/t-*.tar\") | batch(5) | write_webdataset(\"$D/y.tar\", image=\"jpg\", label=\"cls\")",
            &config, &s);
    seen_clear(&s);
    assert_true(same_files("x.tar", "y.tar"));
    /* Our own archives are what we write. */
    write_tar("t.tar", false, 0, 9);
    run_all("webdataset(\"$D/t.tar\", jpg=bytes, cls=bytes) | write_webdataset(\"$D/z.tar\")", NULL, &s);
    seen_clear(&s);
    assert_true(same_files("t.tar", "z.tar"));
}

static void write_numbers_samples_and_deals_them_to_shards(void **state)
{
    seen s;
    run_all("range(7) | batch(2) | write_webdataset(\"$D/deep/er/part-%03d-of-%d.tar\", shards=3)", NULL, &s);
    seen_clear(&s);
    assert_prints("webdataset(\"$D/deep/er/part-000-of-3.tar\", value=int64)",
                  "{\"value\":0, \"key\":\"000000000\"}\n{\"value\":3, \"key\":\"000000003\"}\n"
                  "{\"value\":6, \"key\":\"000000006\"}\n");
    ASSERT_VALUES("webdataset(\"$D/deep/er/part-*\", value=int64) | interleave", 0, 1, 2, 3, 4, 5, 6);
}

static void write_takes_keys_from_a_field(void **state)
{
    seen s;
    write_examples("in", STK__PLAIN, 0, 3);
    run_all("tfrecord(\"$D/in\") | parse(name=bytes, half=float32, value=int64) | "
            "write_webdataset(\"$D/o.tar\", key=name, half=\"x\", value=\"a.b\")",
            NULL, &s);
    seen_clear(&s);
    assert_prints(
        "webdataset(\"$D/o.tar\", x=float32, v=int64(from=\"a.b\"))",
        "{\"x\":0, \"v\":0, \"key\":\"n0\"}\n{\"x\":0.5, \"v\":1, \"key\":\"n1\"}\n{\"x\":1, \"v\":2, \"key\":\"n2\"}\n");
    run_all("range(2) | write_webdataset(\"$D/n.tar\", key=value, value=\"txt\")", NULL, &s);
    seen_clear(&s);
    assert_prints("webdataset(\"$D/n.tar\", txt=int64)", "{\"txt\":0, \"key\":\"0\"}\n{\"txt\":1, \"key\":\"1\"}\n");
}

/* Every kind of number comes back as it was. */
static void write_turns_numbers_into_text(void **state)
{
    static const char *const types[] = {"bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64"};
    static const char *const reals[] = {"float16", "bfloat16", "float32", "float64"};
    char text[160];
    seen s;
    for (size_t i = 0; i < STK_COUNT(types); i++) {
        snprintf(text, sizeof text, "range(2) | cast(value=%s) | write_webdataset(\"$D/out\", value=\"n\")", types[i]);
        run_all(text, NULL, &s);
        seen_clear(&s);
        ASSERT_VALUES("webdataset(\"$D/out\", value=int64(from=\"n\"))", 0, 1);
    }
    for (size_t i = 0; i < STK_COUNT(reals); i++) {
        snprintf(text, sizeof text, "range(2) | cast(value=%s) | write_webdataset(\"$D/out\", value=\"n\")", reals[i]);
        run_all(text, NULL, &s);
        seen_clear(&s);
        assert_prints("webdataset(\"$D/out\", x=float32(from=\"n\")) | drop(key)", "{\"x\":0}\n{\"x\":1}\n");
    }
}

static void write_names_pictures_by_what_they_are(void **state)
{
    seen s;
    write_folder("f", 2, 2);
    run_all("image_folder(\"$D/f\") | write_webdataset(\"$D/o.tar\")", NULL, &s);
    seen_clear(&s);
    assert_prints("webdataset(\"$D/o.tar\", jpg=bytes, label=int64, path=bytes) | select(label, path)",
                  "{\"label\":0, \"path\":\"class0/00.jpg\"}\n{\"label\":0, \"path\":\"class0/more/01.jpg\"}\n"
                  "{\"label\":1, \"path\":\"class1/00.jpg\"}\n{\"label\":1, \"path\":\"class1/01.jpg\"}\n");
    write_lines("t", false, 0, 2);
    assert_fails("text(\"$D/t\") | rename(image=text) | write_webdataset(\"$D/o.tar\")", NULL, STK_INVALID,
                 "field 'image' of sample 0 begins like no picture");
}

static void write_leaves_nothing_without_finish(void **state)
{
    seen s;
    run_some("range(100) | batch(3) | write_webdataset(\"$D/out-%d\", shards=2)", NULL, 5, NULL, &s);
    assert_int_equal(s.status, STK_OK);
    seen_clear(&s);
    assert_int_equal(count_files(""), 0);
}

static void write_refuses_keys_that_would_not_read_back(void **state)
{
    static const struct {
        const char *lines, *message;
    } cases[] = {
        {"a.b\n", "is 'a.b': a dot would end it"},    {"a\na\n", "is 'a', as that of the sample before it"},
        {"\n", "cannot be the name of a file"},       {"/x\n", "cannot be the name of a file"},
        {"x/../y\n", "cannot be the name of a file"}, {"x/\n", "cannot be the name of a file"},
        {"a\tb\n", "cannot be the name of a file"},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        write_file("t", cases[i].lines, strlen(cases[i].lines));
        assert_fails("text(\"$D/t\") | write_webdataset(\"$D/o.tar\", key=text, text=\"txt\")", NULL, STK_INVALID,
                     cases[i].message);
        assert_int_equal(count_files(""), 1);
    }
    write_file("t", "x.y/a\n", 6); /* a dot before the last slash is none */
    seen s;
    run_all("text(\"$D/t\") | write_webdataset(\"$D/o.tar\", key=text, text=\"txt\")", NULL, &s);
    seen_clear(&s);
    assert_prints("webdataset(\"$D/o.tar\", txt=bytes)", "{\"txt\":\"x.y/a\", \"key\":\"x.y/a\"}\n");
}

static void write_refuses_bad_options(void **state)
{
    assert_refused("tfrecord(\"x\") | parse(\"image/encoded\"=bytes) | write_webdataset(\"x\")", NULL, STK_INVALID,
                   "field 'image/encoded' has a name that cannot be an extension", 1, 48);
    assert_refused("range(3) | write_webdataset()", NULL, STK_INVALID, "path is missing", 1, 12);
    assert_refused("range(3) | write_webdataset(\"$D/x\", shards=2)", NULL, STK_INVALID,
                   "needs %05d for the numbers of 2 shards", 1, 12);
    assert_refused("range(3) | write_webdataset(\"x\", value=txt)", NULL, STK_INVALID,
                   "must be the extension for a field", 1, 40);
    assert_refused("range(3) | write_webdataset(\"x\", value=\"a/b\")", NULL, STK_INVALID, "must be the extension", 1,
                   40);
    assert_refused("range(3) | write_webdataset(\"x\", other=\"txt\")", NULL, STK_INVALID, "no field 'other'", 1, 12);
    assert_refused("range(3) | rename(key=value) | write_webdataset(\"x\")", NULL, STK_INVALID,
                   "no field to write but the key", 1, 32);
    assert_refused("tfrecord(\"x\") | parse(a=float32[3]) | write_webdataset(\"x\")", NULL, STK_INVALID,
                   "field 'a' is an array of float32", 1, 39);
    assert_refused("tfrecord(\"x\") | parse(a=int64, b=int64) | write_webdataset(\"x\", a=\"t\", b=\"t\")", NULL,
                   STK_INVALID, "both get the extension 't'", 1, 43);
    assert_int_equal(count_files(""), 0);
}

/* Two samples of one key in a row would become one, also where a run was stopped between them. */
static void write_knows_the_last_keys_after_a_stop(void **state)
{
    static const char text[] = "tfrecord(\"$D/a-0.tfrecord\") | parse(name=bytes, value=int64) | take(1) | batch(1) | repeat(2) | "
                               "write_webdataset(\"$D/out.tar\", key=name, value=\"txt\")";
    stk_config config = harness_config();
    stk_pipeline *p;
    const stk_batch *batch;
    stk_error err;
    write_data();
    config.checkpoints = true;
    assert_int_equal(try_open(text, &config, &p, &err), STK_OK);
    assert_int_equal(stk_pipeline_next(p, &batch, &err), STK_OK);
    assert_int_equal(stk_pipeline_consume(p, batch, &err), STK_OK);
    assert_int_equal(stk_pipeline_checkpoint(p, in_dir("c"), &err), STK_OK);
    stk_pipeline_close(p);
    config.resume_path = in_dir("c");
    assert_int_equal(try_open(text, &config, &p, &err), STK_OK);
    assert_int_equal(stk_pipeline_next(p, &batch, &err), STK_OK);
    assert_int_equal(stk_pipeline_consume(p, batch, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "as that of the sample before it"));
    stk_pipeline_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(write_reads_back),
        OP_TEST(write_gives_the_same_bytes_each_time),
        OP_TEST(write_numbers_samples_and_deals_them_to_shards),
        OP_TEST(write_takes_keys_from_a_field),
        OP_TEST(write_turns_numbers_into_text),
        OP_TEST(write_names_pictures_by_what_they_are),
        OP_TEST(write_leaves_nothing_without_finish),
        OP_TEST(write_refuses_keys_that_would_not_read_back),
        OP_TEST(write_refuses_bad_options),
        OP_TEST(write_knows_the_last_keys_after_a_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
