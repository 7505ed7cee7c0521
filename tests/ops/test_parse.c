/* parse: types and shapes, defaults, other names, sequences, schemas, bad records, bad specifications. */
#include "harness.h"

#include "base/mem.h"
#include "base/wire.h"
#include "formats/example.h"
#include "formats/tfrecord.h"

#define A "tfrecord(\"$D/a-0*\") | "
#define B "tfrecord(\"$D/b-0*\") | "

static void parse_takes_features_of_each_kind(void **state)
{
    write_data();
    assert_prints(A "skip(3) | take(1) | parse(value=int64, half=float32, name=bytes)",
                  "{\"value\":3, \"half\":1.5, \"name\":\"n3\"}\n");
    assert_prints(A "skip(3) | take(1) | parse(pair=float32[2], words=bytes[3])",
                  "{\"pair\":[3, -3], \"words\":[\"w0\", \"w1\", \"w2\"]}\n");
    assert_prints(A "skip(3) | take(1) | parse(pair=float32[2, 1], v=int64[1](from=\"value\"))",
                  "{\"pair\":[[3], [-3]], \"v\":[3]}\n");
    assert_prints(A "skip(2) | take(2) | parse(words=bytes[], many=int64[])",
                  "{\"words\":[\"w0\", \"w1\"], \"many\":[2, 3]}\n{\"words\":[\"w0\", \"w1\", \"w2\"], \"many\":[]}\n");
    assert_prints(B "skip(2) | take(1) | parse(words=bytes[], many=int64[])",
                  "{\"words\":[\"w0\", \"w1\"], \"many\":[2, 3]}\n");
}

static void parse_gives_fields_other_names(void **state)
{
    write_data();
    assert_prints(A "take(1) | parse(x=int64(from=\"value\"), y=int64(from=\"value\"))", "{\"x\":0, \"y\":0}\n");
}

static void parse_fills_in_defaults(void **state)
{
    write_data();
    assert_prints(A "take(2) | parse(rare=int64(default=-9))", "{\"rare\":0}\n{\"rare\":-9}\n");
    assert_prints(
        A "take(1) | parse(no=float32[3](default=[1, 2.5, 3]), nil=float32[2](default=7), b=bytes[2](default=\"xy\"))",
        "{\"no\":[1, 2.5, 3], \"nil\":[7, 7], \"b\":[\"xy\", \"xy\"]}\n");
    assert_prints(A "take(1) | parse(no=float32[])", "{\"no\":[]}\n"); /* what varies is empty when missing */
}

static void parse_from_a_field_of_another_name(void **state)
{
    write_data();
    assert_prints(A "take(1) | rename(r=record) | parse(record=\"r\", value=int64)", "{\"value\":0}\n");
}

/* Adds a SequenceExample with context {id: [i]} and feature_lists {s: i steps of [10i+k, k]}, by hand. */
static void put_message(stk__text *t, int field, const stk__text *inner)
{
    stk__text_putc(t, (char)(field << 3 | 2));
    assert_true(inner->length < 128);
    stk__text_putc(t, (char)inner->length);
    stk__text_write(t, inner->data, inner->length);
}

static void put_ints(stk__text *t, const int *values, int count) /* a Feature */
{
    stk__text list = STK__TEXT_INIT, packed = STK__TEXT_INIT;
    for (int i = 0; i < count; i++)
        stk__text_putc(&packed, (char)values[i]);
    put_message(&list, 1, &packed);
    put_message(t, 3, &list);
    stk__text_clear(&list);
    stk__text_clear(&packed);
}

static void put_entry(stk__text *t, const char *name, const stk__text *value) /* of a map */
{
    stk__text entry = STK__TEXT_INIT, key = STK__TEXT_INIT;
    stk__text_puts(&key, name);
    put_message(&entry, 1, &key);
    put_message(&entry, 2, value);
    put_message(t, 1, &entry);
    stk__text_clear(&entry);
    stk__text_clear(&key);
}

static void sequence_record(stk__text *out, int i)
{
    stk__text feature = STK__TEXT_INIT, list = STK__TEXT_INIT, context = STK__TEXT_INIT, lists = STK__TEXT_INIT;
    put_ints(&feature, &i, 1);
    put_entry(&context, "id", &feature);
    for (int k = 0; k < i; k++) {
        stk__text_reset(&feature);
        put_ints(&feature, (const int[]){10 * i + k, k}, 2);
        put_message(&list, 1, &feature);
    }
    if (i > 0)
        put_entry(&lists, "s", &list);
    stk__text_reset(out);
    put_message(out, 1, &context);
    if (i > 0)
        put_message(out, 2, &lists);
    stk__text_clear(&feature);
    stk__text_clear(&list);
    stk__text_clear(&context);
    stk__text_clear(&lists);
}

static void write_sequences(const char *name)
{
    stk__tfrecord_writer *file;
    stk__text record = STK__TEXT_INIT;
    assert_int_equal(stk__tfrecord_writer_open(in_dir(name), STK__PLAIN, 6, &file, NULL), STK_OK);
    for (int i = 0; i < 4; i++) {
        sequence_record(&record, i);
        assert_int_equal(stk__tfrecord_writer_add(file, record.data, record.length, NULL), STK_OK);
    }
    assert_int_equal(stk__tfrecord_writer_commit(file, NULL), STK_OK);
    stk__text_clear(&record);
}

static void parse_reads_sequences(void **state)
{
    write_sequences("seq");
    assert_prints("tfrecord(\"$D/seq\") | parse(id=int64, s=int64[2](sequence=true)) | batch(4)",
                  "{\"id\":0, \"s\":[]}\n{\"id\":1, \"s\":[[10, 0]]}\n{\"id\":2, \"s\":[[20, 0], [21, 1]]}\n"
                  "{\"id\":3, \"s\":[[30, 0], [31, 1], [32, 2]]}\n");
    assert_prints("tfrecord(\"$D/seq\") | take(1) | parse(id=int64, sequence=true)", "{\"id\":0}\n");
    assert_prints(
        "tfrecord(\"$D/seq\") | skip(1) | take(2) | parse(s=int64[2](sequence=true)) | batch(2, pad=true, pad_value=9)",
        "{\"s\":[[10, 0], [9, 9]]}\n{\"s\":[[20, 0], [21, 1]]}\n");
    assert_fails("tfrecord(\"$D/seq\") | parse(s=int64(sequence=true))", NULL, STK_CORRUPT, "");
}

/* One record with numbers in lists and as raw bytes. */
static void write_numbers(const char *name)
{
    static const int64_t ints[] = {0, 1, 127, 255}, wide[] = {-1, 65535, INT64_C(1) << 40}, bits[] = {1, 0};
    static const float floats[] = {0.5f, -65504, 1e30f};
    static const uint64_t unsigned_values[] = {UINT64_MAX, 7};
    static const double doubles[] = {0.1, -1e300};
    static const uint8_t raw[] = {1, 0, 255, 128, 7, 9};
    const stk_bytes two[] = {{raw, 2}, {raw, 2}};
    stk__example_writer w = {0};
    stk__text record = STK__TEXT_INIT;
    stk__tfrecord_writer *file;
    stk__example_begin(&w);
    stk__example_add_ints(&w, "ints", ints, 4);
    stk__example_add_ints(&w, "wide", wide, 3);
    stk__example_add_ints(&w, "bits", bits, 2);
    stk__example_add_floats(&w, "floats", floats, 3);
    stk__example_add_floats(&w, "small", floats, 2);
    stk__example_add_bytes(&w, "raw", &(stk_bytes){raw, sizeof raw}, 1);
    stk__example_add_bytes(&w, "rawbits", &(stk_bytes){raw, 2}, 1);
    stk__example_add_bytes(&w, "two", two, 2);
    stk__example_add_bytes(&w, "empty", two, 0);
    stk__example_add_raw(&w, "unsigned", STK_UINT64, unsigned_values, 2);
    stk__example_add_raw(&w, "double", STK_FLOAT64, doubles, 2);
    assert_int_equal(stk__example_end(&w, &record, NULL), STK_OK);
    assert_int_equal(stk__tfrecord_writer_open(in_dir(name), STK__PLAIN, 6, &file, NULL), STK_OK);
    assert_int_equal(stk__tfrecord_writer_add(file, record.data, record.length, NULL), STK_OK);
    assert_int_equal(stk__tfrecord_writer_commit(file, NULL), STK_OK);
    stk__example_writer_clear(&w);
    stk__text_clear(&record);
}

#define N "tfrecord(\"$D/numbers-0.tfrecord\") | "

static void parse_narrows_numbers_of_lists(void **state)
{
    write_numbers("numbers-0.tfrecord");
    assert_prints(N "parse(ints=uint8[2, 2], b=bool[2](from=\"bits\"), i=int16[4](from=\"ints\"))",
                  "{\"ints\":[[0, 1], [127, 255]], \"b\":[true, false], \"i\":[0, 1, 127, 255]}\n");
    assert_prints(N "parse(ints=uint64[4], i=uint32[](from=\"ints\"), small=float16[2], f=float64[3](from=\"floats\"))",
                  "{\"ints\":[0, 1, 127, 255], \"i\":[0, 1, 127, 255], \"small\":[0.5, -65504], "
                  "\"f\":[0.5, -65504, 1.0000000150474662e+30]}\n");
    assert_prints(N "parse(small=bfloat16[])", "{\"small\":[0.5, -65536]}\n"); /* rounded, but in range */
}

static void parse_takes_raw_bytes(void **state)
{
    write_numbers("numbers-0.tfrecord");
    assert_prints(N
                  "parse(raw=uint8[2, 3], a=int8[](from=\"raw\"), b=uint16[3](from=\"raw\"), c=int16[3](from=\"raw\"))",
                  "{\"raw\":[[1, 0, 255], [128, 7, 9]], \"a\":[1, 0, -1, -128, 7, 9], \"b\":[1, 33023, 2311], "
                  "\"c\":[1, -32513, 2311]}\n");
    assert_prints(N "parse(unsigned=uint64[2], double=float64[2], i=int64[](from=\"unsigned\"))",
                  "{\"unsigned\":[18446744073709551615, 7], \"double\":[0.1, -1e+300], \"i\":[-1, 7]}\n");
    assert_prints(N "parse(rawbits=bool[2], empty=float64[], e=float32[0](from=\"empty\"))",
                  "{\"rawbits\":[true, false], \"empty\":[], \"e\":[]}\n");
}

static void assert_told(const char *text, stk_status status, const char *field, int64_t record, const char *part)
{
    seen s;
    run_some(text, NULL, -1, NULL, &s);
    if (s.status != status || !strstr(s.error.message, part))
        fail_msg("'%s' gave %s (%s), wanted '%s'", text, stk_status_name(s.status), s.error.message, part);
    assert_string_equal(s.error.field, field);
    assert_string_equal(s.error.op, "parse");
    assert_int_equal(s.error.record, record);
    assert_non_null(strstr(s.error.file, "-0.tfrecord"));
    seen_clear(&s);
}

static void assert_bad(const char *text, const char *field, int64_t record, const char *part)
{
    assert_told(text, STK_CORRUPT, field, record, part);
}

static void parse_tells_what_a_record_has(void **state)
{
    write_numbers("numbers-0.tfrecord");
    assert_told(N "parse(int=uint8)", STK_UNFIT, "int", 0,
                "is missing, wanted 1 value; the record has ints (int64), wide (int64)");
    assert_told(N "parse(int=uint8)", STK_UNFIT, "int", 0, ": did you mean 'ints'?");
    assert_told(N "parse(x=uint8[3](from=\"smal\"))", STK_UNFIT, "smal", 0, ": did you mean 'small'?");
    /* What was asked for by its own name was not meant. */
    seen taken;
    run_some(N "parse(ints=uint8[4], int=uint8)", NULL, -1, NULL, &taken);
    assert_int_equal(taken.status, STK_UNFIT);
    assert_null(strstr(taken.error.message, "did you mean"));
    seen_clear(&taken);
    /* Names are what a file has: odd ones are escaped, many are cut. */
    stk__tfrecord_writer *file;
    stk__example_writer writer = {0};
    stk__text record = STK__TEXT_INIT;
    assert_int_equal(stk__tfrecord_writer_open(in_dir("numbers-0.tfrecord"), STK__PLAIN, 6, &file, NULL), STK_OK);
    stk__example_begin(&writer);
    stk__example_add_ints(&writer, "odd\x1b[2J", &(int64_t){1}, 1);
    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "feature/%d", i);
        stk__example_add_ints(&writer, name, &(int64_t){1}, 1);
    }
    assert_int_equal(stk__example_end(&writer, &record, NULL), STK_OK);
    assert_int_equal(stk__tfrecord_writer_add(file, record.data, record.length, NULL), STK_OK);
    assert_int_equal(stk__tfrecord_writer_commit(file, NULL), STK_OK);
    stk__example_writer_clear(&writer);
    stk__text_clear(&record);
    assert_told(N "parse(quite_another=int64)", STK_UNFIT, "quite_another", 0, "the record has odd\\x1b[2J (int64), feature/0 (int64)");
    assert_told(N "parse(quite_another=int64)", STK_UNFIT, "quite_another", 0, "(int64) and 28 more");
    /* A bad record as any other. */
    stk_config config = harness_config();
    config.on_error = STK_ON_ERROR_SKIP;
    seen s;
    run_all(N "parse(quite_another=int64)", &config, &s);
    assert_int_equal(s.stats.skipped, 1);
    seen_clear(&s);
}

static void parse_names_record_and_feature_of_what_is_wrong(void **state)
{
    write_data();
    assert_told(A "parse(rare=int64)", STK_UNFIT, "rare", 1, "is missing, wanted 1 value");
    assert_told(B "parse(rare=int64)", STK_UNFIT, "rare", 1, "is missing, wanted 1 value");
    assert_bad(A "skip(2) | parse(x=float32[2](from=\"half\"))", "half", 2, "");
    assert_bad(A "parse(half=int64)", "half", 0, "");
    assert_bad(A "skip(1) | parse(many=int64[, 2])", "many", 1, "has 1 values, wanted a multiple of 2");
}

static void parse_names_the_number_that_does_not_fit(void **state)
{
    write_numbers("numbers-0.tfrecord");
    assert_bad(N "parse(ints=int8[4])", "ints", 0, "has 255 as value 3, which does not fit int8");
    assert_bad(N "parse(ints=bool[4])", "ints", 0, "has 127 as value 2, which does not fit bool");
    assert_bad(N "parse(wide=uint16[3])", "wide", 0, "has -1 as value 0, which does not fit uint16");
    assert_bad(N "parse(wide=int32[3])", "wide", 0, "has 1099511627776 as value 2, which does not fit int32");
    assert_bad(N "parse(wide=uint64[3])", "wide", 0, "has -1 as value 0, which does not fit uint64");
    assert_bad(N "parse(floats=float16[3])", "floats", 0, "has 1e+30 as value 2, which does not fit float16");
    assert_bad(N "parse(raw=bool[6])", "raw", 0, "has 255 as value 2, which does not fit bool");
    assert_bad(N "parse(ints=uint8[3])", "ints", 0, "has 4 values, wanted 3");
    assert_bad(N "parse(ints=uint8[5])", "ints", 0, "has 4 values, wanted 5");
    assert_bad(N "parse(ints=float16[4])", "ints", 0, "is int64, wanted float or raw bytes to make float16");
    assert_bad(N "parse(small=uint8[2])", "small", 0, "is float, wanted int64 or raw bytes to make uint8");
    assert_told(N "parse(none=uint8)", STK_UNFIT, "none", 0, "is missing, wanted 1 value");
    assert_bad(N "parse(raw=float64[1])", "raw", 0, "is bytes, 6 of them, wanted float64 values, or 8 bytes that hold them raw");
    assert_bad(N "parse(raw=uint8[5])", "raw", 0, "is bytes, 6 of them, wanted uint8 values, or 5 bytes");
    assert_bad(N "parse(raw=float32[])", "raw", 0, "is bytes, 6 of them, wanted float32 values, or a multiple of 4 bytes");
    assert_bad(N "parse(two=uint8[4])", "two", 0, "is bytes, 2 values, wanted uint8 values, or one that holds them raw");
    assert_bad(N "parse(empty=uint8[4])", "empty", 0, "is bytes, 0 of them");
    assert_bad(N "parse(raw=bytes[2])", "raw", 0, "has 1 value, wanted 2");
    assert_bad(N "parse(ints=bytes)", "ints", 0, "is int64, wanted bytes");
}

static void parse_fills_in_defaults_of_every_type(void **state)
{
    write_numbers("numbers-0.tfrecord");
    assert_prints(N "parse(a=uint8(default=255), b=bool[2](default=[true, 0]), c=float16(default=0.5), "
                    "d=float64(default=0.1), e=uint64(default=7), f=int8[2](default=-128))",
                  "{\"a\":255, \"b\":[true, false], \"c\":0.5, \"d\":0.1, \"e\":7, \"f\":[-128, -128]}\n");
}

static void parse_takes_fields_from_a_schema(void **state)
{
    static const char schema[] = "{\"stoker_schema\": 1, \"fields\": [{\"name\": \"ints\", \"dtype\": \"uint8\", "
                                 "\"shape\": [2, 2]}, {\"name\": \"small\", \"dtype\": \"float16\", \"shape\": [-1]}]}";
    write_numbers("numbers-0.tfrecord");
    write_file("s.schema.json", schema, strlen(schema));
    assert_prints(N "parse(schema=\"$D/s.schema.json\")", "{\"ints\":[[0, 1], [127, 255]], \"small\":[0.5, -65504]}\n");
    /* What is written in the pipeline counts more. */
    assert_prints(N "parse(unsigned=uint64[2], ints=int64[4], schema=\"$D/s.schema.json\")",
                  "{\"ints\":[0, 1, 127, 255], \"small\":[0.5, -65504], \"unsigned\":[18446744073709551615, 7]}\n");
    assert_prints(N "parse(schema=\"$D/s.schema.json\") | select(ints)", "{\"ints\":[[0, 1], [127, 255]]}\n");
}

static void parse_refuses_bad_schemas(void **state)
{
    static const char images[] = "{\"stoker_schema\": 1, \"fields\": [{\"name\": \"image\", \"dtype\": \"uint8\", "
                                 "\"shape\": [-1, -1, 3]}]}";
    static const char none[] = "{\"stoker_schema\": 1, \"fields\": []}";
    static const char prefix[] = "text(\"x\") | rename(record=text) |\n";
    char text[256];
    write_file("images.schema.json", images, strlen(images));
    write_file("none.schema.json", none, strlen(none));
    write_file("bad.schema.json", "{", 1);
    snprintf(text, sizeof text, "%sparse(schema=\"$D/images.schema.json\")", prefix);
    assert_refused(text, NULL, STK_INVALID, "field 'image' of the schema has a shape that records cannot tell", 2, 1);
    snprintf(text, sizeof text, "%sparse(schema=\"$D/none.schema.json\")", prefix);
    assert_refused(text, NULL, STK_INVALID, "fields is missing", 2, 1);
    snprintf(text, sizeof text, "%sparse(schema=\"$D/bad.schema.json\")", prefix);
    assert_refused(text, NULL, STK_CORRUPT, "no schema: line 1", 2, 1);
    snprintf(text, sizeof text, "%sparse(schema=\"$D/missing.schema.json\")", prefix);
    assert_refused(text, NULL, STK_IO, "cannot open", 2, 1);
}

static void parse_follows_the_policy_of_errors(void **state)
{
    stk_config config = harness_config();
    seen s;
    write_data();
    config.on_error = STK_ON_ERROR_SKIP;
    run_all("tfrecord(\"$D/a-*\") | parse(value=int64, rare=int64) | batch(4) | repeat(2)", &config, &s);
    assert_int_equal(s.value_count, 24);
    assert_int_equal(s.stats.skipped, 22);
    for (size_t i = 0; i < s.value_count; i++)
        assert_int_equal(s.values[i], (int64_t)(i % 12) * 2);
    seen_clear(&s);
    config.max_errors = 5;
    assert_fails("tfrecord(\"$D/a-*\") | parse(value=int64, rare=int64)", &config, STK_LIMIT,
                 "more than 5 bad records");
}

static void parse_refuses_bad_specifications(void **state)
{
    write_data();
    assert_refused("text(\"$D/lines.txt\") | parse(x=int64)", NULL, STK_INVALID,
                   "no field 'record' here; there is text", 1, (int)strlen(in_dir("lines.txt")) + 12);
    assert_refused("range(3) |\nrename(record=value) |\nparse(x=int64)", NULL, STK_INVALID,
                   "field 'record' is no scalar of bytes", 3, 1);
    static const char prefix[] = "text(\"x\") | rename(record=text) |\n";
    static const struct {
        const char *spec, *message;
        int column;
    } cases[] = {
        {"parse()", "fields is missing", 1},
        {"parse(x=int7)", "must be of a type such as float32", 9},
        {"parse(x=uint8(default=256))", "given a default of its own type", 9},
        {"parse(x=uint8(default=true))", "given a default of its own type", 9},
        {"parse(x=bool(default=2))", "given a default of its own type", 9},
        {"parse(x=uint64(default=-1))", "given a default of its own type", 9},
        {"parse(x=bytes(default=1))", "given a default of its own type", 9},
        {"parse(x=3)", "must be a type such as float32[8]", 9},
        {"parse(x=int64[2, ])", "first dimension alone is open", 9},
        {"parse(x=int64[1, 1, 1, 1, 1, 1])", "of at most 5 dimensions", 9},
        {"parse(x=int64[100000, 100000])", "of fewer than 2^31 values", 9},
        {"parse(x=int64[, 0])", "without a dimension of 0", 9},
        {"parse(x=int64[](default=1))", "of a fixed shape to have a default", 9},
        {"parse(x=int64(default=0.5))", "given a default of its own type", 9},
        {"parse(x=int64[2](default=[1, 2, 3]))", "as many as it has values", 9},
        {"parse(x=int64[](sequence=true))", "of a fixed shape in each step", 9},
        {"parse(x=int64(form=\"y\"))", "followed by from=\"NAME\", default=VALUE or sequence=true alone", 9},
        {"parse(x=int64, x=bytes)", "'x' is given twice", 16},
    };
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        char text[160];
        snprintf(text, sizeof text, "%s%s", prefix, cases[i].spec);
        assert_refused(text, NULL, STK_INVALID, cases[i].message, 2, cases[i].column);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(parse_takes_features_of_each_kind),
        OP_TEST(parse_gives_fields_other_names),
        OP_TEST(parse_fills_in_defaults),
        OP_TEST(parse_from_a_field_of_another_name),
        OP_TEST(parse_reads_sequences),
        OP_TEST(parse_narrows_numbers_of_lists),
        OP_TEST(parse_takes_raw_bytes),
        OP_TEST(parse_names_the_number_that_does_not_fit),
        OP_TEST(parse_fills_in_defaults_of_every_type),
        OP_TEST(parse_takes_fields_from_a_schema),
        OP_TEST(parse_refuses_bad_schemas),
        OP_TEST(parse_tells_what_a_record_has),
        OP_TEST(parse_names_record_and_feature_of_what_is_wrong),
        OP_TEST(parse_follows_the_policy_of_errors),
        OP_TEST(parse_refuses_bad_specifications),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
