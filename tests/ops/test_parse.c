/* parse: types and shapes, defaults, other names, sequences, what is not needed, bad records, bad specifications. */
#include "harness.h"

#include "base/mem.h"
#include "base/wire.h"
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

static void assert_bad(const char *text, const char *field, int64_t record, const char *part)
{
    seen s;
    run_some(text, NULL, -1, NULL, &s);
    if (s.status != STK_CORRUPT || !strstr(s.error.message, part))
        fail_msg("'%s' gave %s (%s), wanted '%s'", text, stk_status_name(s.status), s.error.message, part);
    assert_string_equal(s.error.field, field);
    assert_string_equal(s.error.op, "parse");
    assert_int_equal(s.error.record, record);
    assert_non_null(strstr(s.error.file, "-0.tfrecord"));
    seen_clear(&s);
}

static void parse_names_record_and_feature_of_what_is_wrong(void **state)
{
    write_data();
    assert_bad(A "parse(rare=int64)", "rare", 1, "is missing, wanted 1 value");
    assert_bad(B "parse(rare=int64)", "rare", 1, "is missing, wanted 1 value");
    assert_bad(A "skip(2) | parse(x=float32[2](from=\"half\"))", "half", 2, "");
    assert_bad(A "parse(half=int64)", "half", 0, "");
    assert_bad(A "skip(1) | parse(many=int64[, 2])", "many", 1, "has 1 values, wanted a multiple of 2");
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
        {"parse(x=int8)", "must be float32, int64 or bytes", 9},
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
        OP_TEST(parse_names_record_and_feature_of_what_is_wrong),
        OP_TEST(parse_follows_the_policy_of_errors),
        OP_TEST(parse_refuses_bad_specifications),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
