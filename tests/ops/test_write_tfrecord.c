/* write_tfrecord: what is written reads back the same; files appear whole or not at all. */
#include "harness.h"

#include "base/file.h"
#include "base/mem.h"
#include "formats/example.h"
#include "formats/tfrecord.h"

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

/* Records hold int64 and float32 alone: other numbers become the wider of the two, where it holds them. */
static void write_turns_numbers_into_what_records_hold(void **state)
{
    static const char *const types[] = {"bool", "uint8", "int8", "uint16", "int16", "uint32", "int32"};
    static const char *const reals[] = {"float16", "bfloat16"};
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

/* Neither int64 nor float32 holds all of these, so they are raw bytes. */
static void write_of_wide_numbers_loses_nothing(void **state)
{
    static const char in[] = "parse(a=float64[2], b=uint64, none=float64[], image=uint8[2, 3])";
    static const double doubles[] = {0.1, 1e-300};
    static const uint64_t most = UINT64_MAX;
    stk__example_writer w = {0};
    stk__text record = STK__TEXT_INIT;
    char text[400];
    seen s;
    stk__example_begin(&w);
    stk__example_add_raw(&w, "a", STK_FLOAT64, doubles, 2);
    stk__example_add_raw(&w, "b", STK_UINT64, &most, 1);
    stk__example_add_bytes(&w, "image", &(stk_bytes){(const uint8_t *)"\0\1\2\3\4\5", 6}, 1);
    assert_int_equal(stk__example_end(&w, &record, NULL), STK_OK);
    stk__tfrecord_writer *file;
    assert_int_equal(stk__tfrecord_writer_open(in_dir("in"), STK__PLAIN, 6, &file, NULL), STK_OK);
    assert_int_equal(stk__tfrecord_writer_add(file, record.data, record.length, NULL), STK_OK);
    assert_int_equal(stk__tfrecord_writer_commit(file, NULL), STK_OK);
    snprintf(text, sizeof text, "tfrecord(\"$D/in\") | %s | write_tfrecord(\"$D/out\")", in);
    run_all(text, NULL, &s);
    seen_clear(&s);
    assert_prints("tfrecord(\"$D/out\") | parse(schema=\"$D/out.schema.json\")",
                  "{\"a\":[0.1, 1e-300], \"b\":18446744073709551615, \"none\":[], \"image\":[[0, 1, 2], [3, 4, 5]]}\n");
    stk__example_writer_clear(&w);
    stk__text_clear(&record);
}

/* Every type comes back as it was, without being told. */
static void write_leaves_a_schema_that_parse_reads(void **state)
{
    static const char *const types[] = {"bool",   "uint8", "int8",    "uint16",   "int16",   "uint32", "int32",
                                        "uint64", "int64", "float16", "bfloat16", "float32", "float64"};
    char text[200];
    seen s, wanted;
    for (size_t i = 0; i < STK_COUNT(types); i++) {
        snprintf(text, sizeof text, "range(5) | cast(value=%s) | write_tfrecord(\"$D/part-%%d\", shards=2)", types[i]);
        run_all(text, NULL, &s);
        seen_clear(&s);
        snprintf(text, sizeof text, "range(5) | cast(value=%s) | batch(2)", types[i]);
        run_all(text, NULL, &wanted);
        run_all("tfrecord(\"$D/part-*\") | interleave | parse(schema=\"$D/part.schema.json\") | batch(2)", NULL, &s);
        assert_seen_equal(&wanted, 0, &s, types[i]); /* digests cover the dtype */
        seen_clear(&wanted);
        seen_clear(&s);
    }
}

static void assert_text_of(const char *name, const char *wanted)
{
    char *text;
    size_t size;
    assert_int_equal(stk__read_file(in_dir(name), 1 << 20, &text, &size, NULL), STK_OK);
    assert_string_equal(text, wanted);
    stk__free(text);
}

static void write_tells_rows_types_and_shapes(void **state)
{
    seen s;
    write_data();
    run_all(
        "tfrecord(\"$D/a-0*\") | parse(pair=float32[2], many=int64[], name=bytes) | write_tfrecord(\"$D/deep/x.rec\")",
        NULL, &s);
    seen_clear(&s);
    assert_text_of("deep/x.schema.json", "{\"stoker_schema\": 1,\n \"rows\": 7,\n \"fields\": [\n"
                                         "  {\"name\": \"pair\", \"dtype\": \"float32\", \"shape\": [2]},\n"
                                         "  {\"name\": \"many\", \"dtype\": \"int64\", \"shape\": [-1]},\n"
                                         "  {\"name\": \"name\", \"dtype\": \"bytes\", \"shape\": []}],\n"
                                         " \"attributes\": []}\n");
}

/* What one schema knows of its fields goes into the next, as far as they stay what they are. */
static void write_passes_on_what_a_schema_knows(void **state)
{
    static const char schema[] =
        "{\"stoker_schema\": 1, \"rows\": 3, \"fields\": ["
        "{\"name\": \"value\", \"dtype\": \"int64\", \"shape\": [], \"dataset\": \"/g/v\", \"fill\": -1, \"big_endian\": true,"
        " \"attributes\": [{\"name\": \"unit\", \"dtype\": \"string\", \"shape\": [], \"values\": [\"m\"]}]},"
        "{\"name\": \"half\", \"dtype\": \"float32\", \"shape\": [], \"fill\": 0.5, \"dataset\": \"/h\"}],"
        "\"attributes\": [{\"name\": \"made\", \"dtype\": \"int16\", \"shape\": [2], \"values\": [1, 2]}]}";
    seen s;
    write_data();
    write_file("s.schema.json", schema, strlen(schema));
    run_all(
        "tfrecord(\"$D/a-0*\") | parse(schema=\"$D/s.schema.json\") | cast(half=float64) | write_tfrecord(\"$D/x\")",
        NULL, &s);
    seen_clear(&s);
    assert_text_of(
        "x.schema.json",
        "{\"stoker_schema\": 1,\n \"rows\": 7,\n \"fields\": [\n"
        "  {\"name\": \"value\", \"dtype\": \"int64\", \"shape\": [], \"dataset\": \"/g/v\", \"big_endian\": true, "
        "\"fill\": -1,\n   \"attributes\": [\n"
        "    {\"name\": \"unit\", \"dtype\": \"string\", \"shape\": [], \"values\": [\"m\"]}]},\n"
        "  {\"name\": \"half\", \"dtype\": \"float64\", \"shape\": [], \"dataset\": \"/h\"}],\n"
        " \"attributes\": [\n"
        "  {\"name\": \"made\", \"dtype\": \"int16\", \"shape\": [2], \"values\": [1, 2]}]}\n");
}

static void write_makes_no_schema_when_told_or_for_raw_records(void **state)
{
    seen s;
    run_all("range(3) | write_tfrecord(\"$D/out-%d\", schema=false)", NULL, &s);
    seen_clear(&s);
    assert_true(file_exists("out-0"));
    assert_false(file_exists("out.schema.json"));
    run_all("tfrecord(\"$D/out-0\") | write_tfrecord(\"$D/copy\")", NULL, &s);
    seen_clear(&s);
    assert_true(file_exists("copy"));
    assert_false(file_exists("copy.schema.json"));
}

/* A pattern takes the records and leaves the schema. */
static void tfrecord_pattern_leaves_schemas_out(void **state)
{
    seen s;
    run_all("range(4) | write_tfrecord(\"$D/d/part-%d\", shards=2)", NULL, &s);
    seen_clear(&s);
    assert_true(file_exists("d/part.schema.json"));
    ASSERT_VALUES("tfrecord(\"$D/d/*\") | interleave | parse(value=int64)", 0, 1, 2, 3);
    assert_fails("tfrecord(\"$D/d/*.json\")", NULL, STK_IO, "no file matches");
    assert_fails("tfrecord(\"$D/d/part.schema.json\")", NULL, STK_CORRUPT, "");
}

static void write_leaves_nothing_without_finish(void **state)
{
    seen s;
    run_some("range(100) | batch(3) | write_tfrecord(\"$D/out-%d\", shards=2)", NULL, 5, NULL, &s);
    assert_int_equal(s.status, STK_OK);
    seen_clear(&s);
    assert_int_equal(count_files(""), 0);
}

static void write_leaves_nothing_after_an_error(void **state)
{
    stk_error error;
    stk_pipeline *p;
    write_examples("in", STK__PLAIN, 0, 20);
    const int before = count_files("");
    assert_fails("tfrecord(\"$D/in\") | parse(rare=int64) | batch(1) | write_tfrecord(\"$D/out\")", NULL, STK_UNFIT,
                 "is missing");
    assert_int_equal(count_files(""), before);
    assert_int_equal(try_open("range(3) | write_tfrecord(\"/proc/no/such\")", NULL, &p, &error), STK_IO);
    assert_string_equal(error.op, "write_tfrecord");
}

static void write_of_no_samples_makes_an_empty_file(void **state)
{
    seen s;
    run_all("range(0) | write_tfrecord(\"$D/out\")", NULL, &s);
    seen_clear(&s);
    assert_true(file_exists("out"));
    assert_true(file_exists("out.schema.json"));
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
    assert_int_equal(count_files(""), 0);
}

/* What a checkpoint cannot keep is not passed over in silence. */
static void write_takes_checkpoints_only_where_it_can_go_on(void **state)
{
    stk_config config = harness_config();
    stk_pipeline *p;
    const stk_batch *batch;
    stk_error err;
    assert_int_equal(try_open("range(6) | batch(2) | write_tfrecord(\"$D/out\")", &config, &p, &err), STK_OK);
    assert_false(stk_pipeline_keeps_output(p));
    assert_int_equal(stk_pipeline_checkpoint(p, in_dir("c"), &err), STK_INVALID); /* it said nothing before */
    stk_pipeline_close(p);
    config.checkpoints = true;
    assert_int_equal(try_open("range(6) | batch(2) | write_tfrecord(\"$D/out\")", &config, &p, &err), STK_OK);
    assert_true(stk_pipeline_keeps_output(p));
    assert_int_equal(stk_pipeline_next(p, &batch, &err), STK_OK);
    assert_int_equal(stk_pipeline_checkpoint(p, in_dir("c"), &err), STK_INVALID); /* the batch is not written yet */
    assert_int_equal(stk_pipeline_consume(p, batch, &err), STK_OK);
    assert_int_equal(stk_pipeline_checkpoint(p, in_dir("c"), &err), STK_OK);
    stk_batch_release(p, batch);
    stk_pipeline_stop(p);
    char *text;
    assert_int_equal(stk_pipeline_state(p, &text, &err), STK_CANCELLED);
    stk_pipeline_close(p);
    assert_refused("range(6) | write_tfrecord(\"$D/out\", compression=gzip)", &config, STK_INVALID, "compressed", 1, 12);
    assert_fails("range(6) | write_hdf5(\"$D/out.h5\")", &config, STK_INVALID, "takes no checkpoints");
    config.checkpoints = false;
    config.resume_path = in_dir("c");
    seen s;
    run_all("range(6) | batch(2) | write_tfrecord(\"$D/out\")", &config, &s);
    seen_clear(&s);
    ASSERT_VALUES("tfrecord(\"$D/out\") | parse(value=int64)", 0, 1, 2, 3, 4, 5);
}

static void write_wants_names_that_hide_nothing(void **state)
{
    static const char *const names[] = {"g-*", "g?", "g[0]", "g{a,b}", "g}", "new-*/g"};
    char text[128];
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        snprintf(text, sizeof text, "range(6) | write_tfrecord(\"$D/%s\")", names[i]);
        assert_refused(text, NULL, STK_INVALID, "wildcard", 1, 12);
    }
    assert_refused("range(6) | write_tfrecord(\"$D/%d/g\")", NULL, STK_INVALID, "name of a directory", 1, 12);
    assert_refused("range(6) | write_tfrecord(\"$D/g/\")", NULL, STK_INVALID, "slash", 1, 12);
    assert_int_equal(count_files(""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(write_reads_back),
        OP_TEST(write_of_raw_records_copies_them),
        OP_TEST(write_deals_samples_to_shards),
        OP_TEST(write_turns_numbers_into_what_records_hold),
        OP_TEST(write_of_wide_numbers_loses_nothing),
        OP_TEST(write_leaves_a_schema_that_parse_reads),
        OP_TEST(write_tells_rows_types_and_shapes),
        OP_TEST(write_passes_on_what_a_schema_knows),
        OP_TEST(write_makes_no_schema_when_told_or_for_raw_records),
        OP_TEST(tfrecord_pattern_leaves_schemas_out),
        OP_TEST(write_leaves_nothing_without_finish),
        OP_TEST(write_leaves_nothing_after_an_error),
        OP_TEST(write_of_no_samples_makes_an_empty_file),
        OP_TEST(write_refuses_bad_options),
        OP_TEST(write_takes_checkpoints_only_where_it_can_go_on),
        OP_TEST(write_wants_names_that_hide_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
