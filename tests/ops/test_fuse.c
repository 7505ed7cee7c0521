/* Ops that run as one, ops on finished batches, batches on demand. */
#include "pictures.h"

static void ops_on_other_fields_do_not_part_a_group(void **state)
{
    write_pictures("p", 12, 12, 10);
    assert_explains(PICTURES " | cast(label=int32) | random_crop(image, 8) | one_hot(label, 10) | random_flip(image) | batch(4)",
                    "decode_image+random_crop+random_flip run as one");
}

static void group_runs_behind_a_filter_in_its_midst(void **state)
{
    write_pictures("p", 30, 12, 10);
    static const char text[] = PICTURES " | filter(\"label > 4\") | random_crop(image, 8) | batch(4)";
    assert_explains(text, "decode_image+random_crop run as one");
    assert_same_batches(text, "tfrecord(\"$D/p\") | parse(image=bytes, label=int64) | filter(\"label > 4\") | decode_image(image) | "
                              "random_crop(image, 8) | batch(4)");
}

static void group_ends_at_a_cache(void **state)
{
    write_pictures("p", 10, 12, 10);
    stk_pipeline *p;
    stk_error error;
    assert_int_equal(try_open(PICTURES " | random_crop(image, 8) | cache | random_flip(image) | normalize(image) | batch(4)", NULL, &p, &error),
                     STK_OK);
    assert_non_null(strstr(stk_pipeline_explain(p), "decode_image+random_crop run as one"));
    assert_non_null(strstr(stk_pipeline_explain(p), "random_flip+normalize run as one"));
    stk_pipeline_close(p);
}

/* A sample that cannot be decoded is none of those that a take behind a filter counts. */
static void group_does_not_reach_across_a_take_that_counts(void **state)
{
    write_pictures("p", 10, 12, 10);
    stk_pipeline *p;
    stk_error error;
    assert_int_equal(try_open(PICTURES " | filter(\"label > 1\") | take(3) | random_crop(image, 8) | batch(4)", NULL, &p, &error), STK_OK);
    assert_null(strstr(stk_pipeline_explain(p), "run as one"));
    stk_pipeline_close(p);
}

static void group_is_timed_as_one(void **state)
{
    write_pictures("p", 10, 12, 10);
    stk_pipeline *p;
    stk_error error;
    const char *name;
    int64_t busy, samples;
    bool found = false;
    assert_int_equal(try_open(PICTURES " | random_crop(image, 8) | batch(10)", NULL, &p, &error), STK_OK);
    const stk_batch *batch;
    assert_int_equal(stk_pipeline_next(p, &batch, &error), STK_OK);
    for (size_t i = 0; stk_pipeline_op_stats(p, i, &name, &busy, &samples); i++) {
        assert_string_not_equal(name, "decode_image");
        if (strcmp(name, "decode_image+random_crop") == 0) {
            found = true;
            assert_int_equal(samples, 10);
        }
    }
    assert_true(found);
    stk_batch_release(p, batch);
    stk_pipeline_close(p);
}

static void random_numbers_do_not_depend_on_ops_that_draw_none(void **state)
{
    write_pictures("p", 10, 12, 10);
    assert_same_batches(PICTURES " | random_crop(image, 8) | random_flip(image) | batch(4)",
                        PICTURES " | prefetch(3) | random_crop(image, 8) | cache | layout(image, HWC) | random_flip(image) | batch(4)");
}

static void rows_ops_stand_behind_batch(void **state)
{
    write_pictures("p", 10, 12, 10);
    assert_fails(PICTURES " | resize(image, 8, 8) | one_hot(label, 10) | mixup(image, label) | batch(4)", NULL, STK_INVALID,
                 "put it after batch");
    assert_fails(PICTURES " | resize(image, 8, 8) | one_hot(label, 10) | batch(4) | mixup(image, label) | cast(image=float32)", NULL,
                 STK_INVALID, "put it before mixup");
    assert_fails(PICTURES " | resize(image, 8, 8) | one_hot(label, 10) | batch(4) | mixup(image, label) | cache", NULL, STK_INVALID,
                 "put it before mixup");
}

static void sink_that_encodes_samples_does_not_follow_a_rows_op(void **state)
{
    write_pictures("p", 10, 12, 10);
    assert_fails(PICTURES " | resize(image, 8, 8) | one_hot(label, 10) | batch(4) | mixup(image, label) | write_tfrecord(\"$D/out\")",
                 NULL, STK_INVALID, "it cannot write what mixup makes of batches");
    assert_false(file_exists("out"));
}

/* The batches, and how many were ready when nobody had asked. */
static void batches_on_demand_are_the_same(void **state)
{
    static const char *const texts[] = {
        PICTURES " | random_crop(image, 8) | batch(4) | repeat(3)",
        PICTURES " | filter(\"label > 4\") | random_crop(image, 8) | batch(4) | repeat(3)",
    };
    write_pictures("p", 30, 12, 10);
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        stk_config config = harness_config();
        seen a, b;
        run_all(texts[i], &config, &a);
        config.on_demand = true;
        run_all(texts[i], &config, &b);
        assert_seen_equal(&a, 0, &b, texts[i]);
        stk_pipeline *p;
        stk_error error;
        stk_stats stats;
        const stk_batch *batch;
        assert_int_equal(try_open(texts[i], &config, &p, &error), STK_OK);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(stk_pipeline_next(p, &batch, &error), STK_OK);
            stk_pipeline_stats(p, &stats);
            assert_int_equal(stats.ready_batches, 0);
            stk_batch_release(p, batch);
        }
        stk_pipeline_close(p);
        seen_clear(&a);
        seen_clear(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(ops_on_other_fields_do_not_part_a_group),
        OP_TEST(group_runs_behind_a_filter_in_its_midst),
        OP_TEST(group_ends_at_a_cache),
        OP_TEST(group_does_not_reach_across_a_take_that_counts),
        OP_TEST(group_is_timed_as_one),
        OP_TEST(random_numbers_do_not_depend_on_ops_that_draw_none),
        OP_TEST(rows_ops_stand_behind_batch),
        OP_TEST(sink_that_encodes_samples_does_not_follow_a_rows_op),
        OP_TEST(batches_on_demand_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
