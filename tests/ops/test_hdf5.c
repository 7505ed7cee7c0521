/* hdf5: rows of datasets, several files, orders, errors. Files are made by write_hdf5; tests/python has the matrix of formats. */
#include "harness.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

static void run_text(const char *text)
{
    seen s;
    run_all(text, NULL, &s);
    seen_clear(&s);
}

/* 1,000 rows in chunks of 16, gzip and shuffle; half of them in each of two files. */
static void make_files(void)
{
    run_text("range(1000) | write_hdf5(\"$D/all.h5\", chunk=16, gzip=4, shuffle=true)");
    run_text("range(500) | write_hdf5(\"$D/half-0.h5\", chunk=16, gzip=1)");
    run_text("range(1000) | skip(500) | write_hdf5(\"$D/half-1.h5\", chunk=7, lzf=true)");
}

static void assert_counts_up(const char *text, int64_t from, int64_t to)
{
    seen s;
    run_all(text, NULL, &s);
    assert_int_equal(s.value_count, to - from);
    for (size_t i = 0; i < s.value_count; i++)
        assert_int_equal(s.values[i], from + (int64_t)i);
    seen_clear(&s);
}

static void rows_come_in_order(void **state)
{
    make_files();
    assert_counts_up("hdf5(\"$D/all.h5\", value=\"/value\") | batch(33)", 0, 1000);
    assert_counts_up("hdf5(\"$D/all.h5\") | batch(1)", 0, 1000);
    assert_counts_up("hdf5(\"$D/all.h5\", value=\"/value\") | skip(990) | batch(4)", 990, 1000);
}

static void files_are_one_set(void **state)
{
    make_files();
    assert_counts_up("hdf5(\"$D/half-*.h5\", value=\"/value\") | batch(33)", 0, 1000);
    assert_counts_up("hdf5(\"$D/half-0.h5\", \"$D/half-1.h5\") | batch(64)", 0, 1000);
    ASSERT_VALUES("hdf5(\"$D/half-*.h5\") | interleave(cycle=2, block=2) | take(6)", 0, 1, 500, 501, 2, 3);
}

/* All rows, each once; returns how many of neighbours in the order are neighbours in the file. */
static int assert_permutation(const char *text, const stk_config *config)
{
    int times[1000] = {0}, near = 0;
    seen s;
    run_all(text, config, &s);
    assert_int_equal(s.value_count, 1000);
    for (size_t i = 0; i < s.value_count; i++) {
        assert_in_range(s.values[i], 0, 999);
        times[s.values[i]]++;
        near += i > 0 && s.values[i] / 16 == s.values[i - 1] / 16;
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(times[i], 1);
    seen_clear(&s);
    return near;
}

static void shuffles_visit_every_row_once(void **state)
{
    make_files();
    assert_in_range(assert_permutation("hdf5(\"$D/all.h5\") | shuffle(seed=1) | batch(50)", NULL), 0, 60);
    assert_in_range(assert_permutation("hdf5(\"$D/all.h5\") | shuffle(seed=1, window=4) | batch(50)", NULL), 150, 350);
    assert_in_range(assert_permutation("hdf5(\"$D/all.h5\") | shuffle(seed=1, window=1) | batch(50)", NULL), 900, 999);
    assert_permutation("hdf5(\"$D/half-*.h5\") | shuffle(seed=2, window=3) | batch(50)", NULL);
    assert_permutation("hdf5(\"$D/all.h5\") | shuffle(window=auto) | batch(50)", NULL);
}

static void a_window_gives_the_same_with_any_number_of_threads(void **state)
{
    make_files();
    const char *text = "hdf5(\"$D/half-*.h5\") | shuffle(seed=5, window=2) | repeat(3) | batch(7)";
    stk_config config = harness_config();
    seen one, many;
    config.threads = 1;
    run_all(text, &config, &one);
    config.threads = 8;
    run_all(text, &config, &many);
    assert_int_equal(one.value_count, 3000);
    assert_int_equal(many.value_count, 3000);
    assert_memory_equal(one.values, many.values, 3000 * sizeof *one.values);
    assert_memory_not_equal(one.values, one.values + 1000, 1000 * sizeof *one.values); /* epochs differ */
    seen_clear(&one);
    seen_clear(&many);
}

static void shards_with_windows_are_all_rows(void **state)
{
    make_files();
    int times[1000] = {0};
    for (int rank = 0; rank < 3; rank++) {
        char text[160];
        seen s;
        snprintf(
            text, sizeof text,
            "hdf5(\"$D/all.h5\") | shard(count=3, index=%d, contiguous=true) | shuffle(seed=4, window=3) | batch(9)",
            rank);
        run_all(text, NULL, &s);
        for (size_t i = 0; i < s.value_count; i++)
            times[s.values[i]]++;
        seen_clear(&s);
        snprintf(text, sizeof text,
                 "hdf5(\"$D/all.h5\") | skip(7) | shard(3, %d) | shuffle(seed=4, window=3) | batch(9)", rank);
        run_all(text, NULL, &s);
        for (size_t i = 0; i < s.value_count; i++)
            times[s.values[i]]++;
        seen_clear(&s);
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(times[i], i < 7 ? 1 : 2);
}

static void little_memory_is_enough(void **state)
{
    make_files();
    stk_config config = harness_config();
    config.threads = 8;
    assert_permutation("hdf5(\"$D/all.h5\", cache_bytes=512) | shuffle(seed=1) | batch(50)", &config);
    assert_permutation("hdf5(\"$D/all.h5\", cache_bytes=512) | shuffle(seed=1, window=30) | batch(50)", &config);
    assert_refused("hdf5(\"$D/all.h5\", cache_bytes=100) | batch(50)", NULL, STK_BUDGET, "a chunk takes", 1, 1);
}

static void the_plan_tells_how_far_a_window_is_from_a_full_shuffle(void **state)
{
    make_files();
    assert_explains("hdf5(\"$D/all.h5\") | shuffle(seed=1, window=4)", "shuffle mixes 4 of 63 chunks at a time");
    assert_explains("range(10) | shuffle(seed=1, window=4)", "the window of shuffle has no effect");
}

static void what_cannot_be_read_is_refused(void **state)
{
    make_files();
    write_file("no.h5", "this is no HDF5 file", 20);
    assert_fails("hdf5(\"$D/no.h5\") | batch(5)", NULL, STK_CORRUPT, "");
    assert_fails("hdf5(\"$D/gone.h5\") | batch(5)", NULL, STK_IO, "");
    assert_refused("hdf5(\"$D/all.h5\", x=\"/valu\") | batch(5)", NULL, STK_INVALID, "/value", 1, 1);
    assert_fails("hdf5(\"$D/all.h5\", x=5) | batch(5)", NULL, STK_INVALID, "path of a dataset");
    assert_fails("hdf5(\"$D/all.h5\") | shuffle(seed=1) | shuffle(seed=1, window=2)", NULL, STK_INVALID,
                 "put it before shuffle");
}

/* Bytes in the middle of the file are chunks. */
static void damage(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    const uint8_t junk[64] = {0};
    assert_int_equal(pwrite(fd, junk, sizeof junk, st.st_size - 300), sizeof junk);
    close(fd);
}

static void a_damaged_chunk_is_named_and_left_out_by_policy(void **state)
{
    run_text("range(1000) | write_hdf5(\"$D/bad.h5\", chunk=16, gzip=4, fletcher32=true)");
    damage(in_dir("bad.h5"));
    assert_fails("hdf5(\"$D/bad.h5\") | batch(50)", NULL, STK_CORRUPT, "dataset '/value', chunk (");
    stk_config config = harness_config();
    config.on_error = STK_ON_ERROR_SKIP;
    seen s;
    run_all("hdf5(\"$D/bad.h5\") | batch(50)", &config, &s);
    assert_true(s.value_count < 1000 && s.value_count >= 900);
    assert_true(s.value_count % 16 == 1000 % 16 || s.value_count % 16 == 0); /* whole chunks fell out */
    seen_clear(&s);
}

/* Not each one as in test_registry.c, since every run starts a program. */
static void failed_allocations_are_told(void **state)
{
    static const char *const texts[] = {
        "hdf5(\"$D/data.h5\", \"$D/data.h5\") | shuffle(window=2) | batch(3)",
        "hdf5(\"$D/data.h5\", value=\"/value\", name=\"/name\") | batch(3) | write_hdf5(\"$D/o.h5\", gzip=1)",
    };
    stk_config config = harness_config();
    seen s;
    write_data();
    run_all(texts[0], &config, &s);
    seen_clear(&s);
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        int failed = 0;
        for (uint64_t n = 1; n < 1000; n += 1 + n / 6) {
            stk_pipeline *p = NULL;
            stk_error error;
            stk_error_clear(&error);
            config.threads = 1 + (int)n % 3;
            stk__alloc_fail_at(n, n % 2);
            stk_status status = try_open(texts[i], &config, &p, &error);
            while (status == STK_OK) {
                const stk_batch *batch;
                status = stk_pipeline_next(p, &batch, &error);
                if (status == STK_OK) {
                    status = stk_pipeline_consume(p, batch, &error);
                    stk_batch_release(p, batch);
                }
            }
            if (status == STK_END)
                status = stk_pipeline_finish(p, &error) == STK_OK ? STK_END : error.status;
            stk_pipeline_close(p);
            stk__alloc_fail_at(0, false);
            if (status != STK_END && status != STK_NOMEM && status != STK_BUDGET && status != STK_IO &&
                status != STK_INVALID)
                fail_msg("'%s', allocation %llu failed: %s: %s", texts[i], (unsigned long long)n,
                         stk_status_name(status), error.message);
            failed += status != STK_END;
        }
        assert_true(failed > 10);
        run_all(texts[i], &config, &s);
        seen_clear(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(rows_come_in_order),
        OP_TEST(files_are_one_set),
        OP_TEST(shuffles_visit_every_row_once),
        OP_TEST(a_window_gives_the_same_with_any_number_of_threads),
        OP_TEST(shards_with_windows_are_all_rows),
        OP_TEST(little_memory_is_enough),
        OP_TEST(the_plan_tells_how_far_a_window_is_from_a_full_shuffle),
        OP_TEST(what_cannot_be_read_is_refused),
        OP_TEST(a_damaged_chunk_is_named_and_left_out_by_policy),
        OP_TEST(failed_allocations_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
