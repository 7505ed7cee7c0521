/* cache: the same output with or without it, in memory and on disk; limits, publishing, damage, random ops before it. */
#include "harness.h"

#include <dirent.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

#define FIELDS "parse(value=int64, pair=float32[2], words=bytes[], many=int64[], name=bytes)"

/* `format` with %s where the cache stands: all three must give the same. */
static void assert_same_with_cache(const char *format)
{
    static const char *const caches[] = {"| cache ", "| cache(\"$D/cache\") ", "| cache(\"$D/cache\") ",
                                         "| cache(memory=50000) "};
    char text[512];
    seen plain;
    snprintf(text, sizeof text, format, "");
    run_all(text, NULL, &plain);
    for (size_t i = 0; i < STK_COUNT(caches); i++) {
        seen s;
        snprintf(text, sizeof text, format, caches[i]);
        run_all(text, NULL, &s);
        assert_seen_equal(&plain, 0, &s, text);
        assert_true(s.stats.cache_hits > 0);
        seen_clear(&s);
    }
    seen_clear(&plain);
}

static void cache_never_changes_the_output(void **state)
{
    write_data();
    assert_same_with_cache("tfrecord(\"$D/a-*\") | " FIELDS " %s | batch(4) | repeat(3)");
    remove(in_dir("cache"));
    assert_same_with_cache("tfrecord(\"$D/a-*\") | " FIELDS " %s | shuffle(seed=3) | batch(4) | repeat(3)");
    remove(in_dir("cache"));
    assert_same_with_cache("tfrecord(\"$D/a-*\") | " FIELDS " | filter(\"value %% 3 != 1\") %s | repeat(3) | batch(4)");
    remove(in_dir("cache"));
    assert_same_with_cache("tfrecord(\"$D/a-*\") | " FIELDS " %s | filter(\"value %% 3 != 1\") | batch(4) | repeat(3)");
    remove(in_dir("cache"));
    assert_same_with_cache("tfrecord(\"$D/b-*\") | " FIELDS " %s | batch(4) | repeat(3)");
    remove(in_dir("cache"));
    assert_same_with_cache("tfrecord(\"$D/b-*\") | " FIELDS
                           " | filter(\"value %% 3 != 1\") %s | shuffle(buffer=5) | batch(4) | repeat(3)");
    remove(in_dir("cache"));
    assert_same_with_cache("tfrecord(\"$D/a-*\") %s | batch(4) | repeat(3)");
    remove(in_dir("cache"));
    assert_same_with_cache("tfrecord(\"$D/a-*\") | " FIELDS " | batch(4) %s | repeat(3)");
    remove(in_dir("cache"));
    assert_same_with_cache("tfrecord(\"$D/a-*\") | " FIELDS " | take(9) | batch(4) %s | repeat(3)");
}

static void cache_spares_reading(void **state)
{
    seen s;
    write_data();
    run_all("tfrecord(\"$D/a-*\") | parse(value=int64) | cache | batch(23) | repeat(5)", NULL, &s);
    assert_int_equal(s.stats.cache_hits + s.stats.cache_misses, 115);
    assert_true(s.stats.cache_hits >= 92 - 23); /* workers that run ahead may miss once more */
    seen_clear(&s);
}

/* Random numbers before the cache are those of the first epoch, in any epoch; behind it they are new. */
static void cache_keeps_random_numbers(void **state)
{
    seen once, s;
    run_all("range(20) | test_noise | batch(5)", NULL, &once);
    static const char *const texts[] = {"range(20) | test_noise | cache | batch(5) | repeat(3)",
                                        "range(20) | test_noise | cache(memory=1) | batch(5) | repeat(3)",
                                        "range(20) | test_noise | cache(\"$D/c\") | batch(5) | repeat(3)"};
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        run_all(texts[i], NULL, &s);
        for (size_t k = 0; k < s.count; k++)
            assert_string_equal(s.batches[k].digest, once.batches[k % 4].digest);
        seen_clear(&s);
    }
    run_all("range(20) | cache | test_noise | batch(5) | repeat(3)", NULL, &s);
    assert_string_not_equal(s.batches[0].digest, s.batches[4].digest);
    seen_clear(&s);
    seen_clear(&once);
}

static int temp_files(void)
{
    int n = 0;
    DIR *dir = opendir(in_dir(""));
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += strstr(entry->d_name, "tmp") != NULL;
    closedir(dir);
    return n;
}

static void cache_file_appears_only_when_complete(void **state)
{
    static const char text[] = "range(100) | cache(\"$D/c\") | batch(10) | prefetch(1)";
    seen s;
    run_some(text, NULL, 3, NULL, &s);
    seen_clear(&s);
    assert_false(file_exists("c"));
    assert_int_equal(temp_files(), 0);
    run_all(text, NULL, &s);
    assert_int_equal(s.stats.cache_hits, 0);
    seen_clear(&s);
    assert_true(file_exists("c"));
    assert_int_equal(temp_files(), 0);
    run_all(text, NULL, &s);
    assert_int_equal(s.stats.cache_hits, 100);
    assert_int_equal(s.stats.cache_misses, 0);
    seen_clear(&s);
}

/* What never comes to pass by is not waited for: a take behind the cache leaves it unpublished or whole. */
static void cache_file_of_a_stream_is_published_at_the_end(void **state)
{
    static const char text[] = "tfrecord(\"$D/b-*\") | parse(value=int64) | cache(\"$D/c\") | batch(4)";
    seen s;
    write_data();
    run_some(text, NULL, 2, NULL, &s);
    seen_clear(&s);
    assert_false(file_exists("c"));
    run_all(text, NULL, &s);
    seen_clear(&s);
    assert_true(file_exists("c"));
    run_all(text, NULL, &s);
    assert_int_equal(s.stats.cache_hits, 23);
    assert_int_equal(s.value_count, 23);
    seen_clear(&s);
}

static void cache_file_is_made_anew_when_what_comes_before_changed(void **state)
{
    seen s;
    write_data();
    run_all("tfrecord(\"$D/a-*\") | parse(value=int64) | cache(\"$D/c\") | batch(4)", NULL, &s);
    seen_clear(&s);
    /* Behind it anything may change. */
    run_all("tfrecord(\"$D/a-*\") | parse(value=int64) | cache(\"$D/c\") | cast(value=int32) | batch(7)", NULL, &s);
    assert_int_equal(s.stats.cache_hits, 23);
    seen_clear(&s);
    run_all("tfrecord(\"$D/a-*\") | parse(value=int64, half=float32) | cache(\"$D/c\") | batch(4)", NULL, &s);
    assert_int_equal(s.stats.cache_hits, 0);
    seen_clear(&s);
    run_all("tfrecord(\"$D/a-*\") | parse(value=int64, half=float32) | cache(\"$D/c\") | batch(4)", NULL, &s);
    assert_int_equal(s.stats.cache_hits, 23);
    seen_clear(&s);
    write_examples("a-0.tfrecord", STK__PLAIN, 100, 7); /* other data of the same size in bytes or not */
    run_all("tfrecord(\"$D/a-*\") | parse(value=int64, half=float32) | cache(\"$D/c\") | batch(4)", NULL, &s);
    assert_int_equal(s.values[0], 100);
    seen_clear(&s);
    stk_config config = harness_config();
    config.seed++;
    run_all("tfrecord(\"$D/a-*\") | parse(value=int64, half=float32) | cache(\"$D/c\") | batch(4)", &config, &s);
    assert_int_equal(s.stats.cache_hits, 0);
    seen_clear(&s);
}

static void cache_files_of_ranks_are_apart(void **state)
{
    seen s;
    run_all("range(20) | shard(count=2, index=1) | cache(\"$D/c\") | batch(4)", NULL, &s);
    seen_clear(&s);
    assert_true(file_exists("c.shard-1-of-2"));
    assert_false(file_exists("c"));
}

static void flip(const char *name, size_t from_start, size_t from_end)
{
    char *data;
    size_t size;
    assert_int_equal(stk__read_file(in_dir(name), 1 << 20, &data, &size, NULL), STK_OK);
    data[from_end ? size - from_end : from_start] ^= 16;
    write_file(name, data, size);
    stk__free(data);
}

/* No byte of the file can change what comes out: its sample is made again, or the file is made anew. */
static void cache_file_that_is_damaged_is_noticed(void **state)
{
    static const char text[] = "range(5) | cache(\"$D/c\") | batch(5)";
    char *good;
    size_t size;
    seen s;
    run_all(text, NULL, &s);
    seen_clear(&s);
    assert_int_equal(stk__read_file(in_dir("c"), 1 << 20, &good, &size, NULL), STK_OK);
    int noticed = 0, made_anew = 0;
    for (size_t i = 16; i < size; i++) {
        write_file("c", good, size);
        flip("c", i, 0);
        run_all(text, NULL, &s);
        noticed += s.stats.cache_damaged == 1 && s.stats.cache_hits == 4;
        made_anew += s.stats.cache_hits == 0;
        for (int k = 0; k < 5; k++)
            assert_int_equal(s.values[k], k);
        seen_clear(&s);
    }
    assert_true(noticed >= 5 * 8);
    assert_true(made_anew >= 5 * 32);
    stk__free(good);
}

static void cache_file_that_is_cut_off_is_made_anew(void **state)
{
    static const char text[] = "range(50) | cache(\"$D/c\") | batch(5)";
    char *good;
    size_t size;
    seen s;
    run_all(text, NULL, &s);
    seen_clear(&s);
    assert_int_equal(stk__read_file(in_dir("c"), 1 << 20, &good, &size, NULL), STK_OK);
    for (size_t cut = 16; cut < size; cut += 97) {
        write_file("c", good, cut);
        run_all(text, NULL, &s);
        assert_int_equal(s.value_count, 50);
        assert_int_equal(s.stats.cache_hits, 0);
        seen_clear(&s);
    }
    stk__free(good);
}

static void cache_refuses_a_file_that_is_none(void **state)
{
    write_file("mine", "my only copy of something", 25);
    write_file("short", "x", 1);
    assert_fails("range(5) | cache(\"$D/mine\")", NULL, STK_INVALID, "exists and is no cache file");
    assert_fails("range(5) | cache(\"$D/short\")", NULL, STK_INVALID, "exists and is no cache file");
    assert_fails("range(5) | cache(\"$D\")", NULL, STK_INVALID, "");
    char *data;
    size_t size;
    assert_int_equal(stk__read_file(in_dir("mine"), 100, &data, &size, NULL), STK_OK);
    assert_int_equal(size, 25);
    stk__free(data);
}

/* More than fits: some samples are made again each time, the output is right and the budget holds. */
static void cache_that_does_not_fit_in_memory_is_still_right(void **state)
{
    stk_config config = harness_config();
    seen plain, s;
    write_examples("many", STK__PLAIN, 0, 20000);
    run_all("tfrecord(\"$D/many\") | batch(100) | repeat(2)", &config, &plain);
    config.memory_bytes = (uint64_t)2 << 20;
    run_all("tfrecord(\"$D/many\") | cache | batch(100) | repeat(2)", &config, &s);
    assert_seen_equal(&plain, 0, &s, "cache over 2 MiB");
    assert_true(s.stats.cache_hits > 0);
    assert_true(s.stats.cache_misses > 20000);
    assert_true(s.stats.peak_buffer_bytes <= 2 << 20);
    seen_clear(&s);
    seen_clear(&plain);
}

static void cache_resumes(void **state)
{
    static const char text[] = "range(30) | test_noise | cache(\"$D/c\") | shuffle(seed=1) | batch(4) | repeat(3)";
    seen all, head, tail;
    run_all(text, NULL, &all);
    for (size_t k = 1; k < all.count; k += 3) {
        stk_config config = harness_config();
        remove(in_dir("c"));
        run_some(text, &config, (int64_t)k, in_dir("point"), &head);
        config.resume_path = in_dir("point");
        run_all(text, &config, &tail);
        assert_seen_equal(&all, k, &tail, text);
        seen_clear(&head);
        seen_clear(&tail);
    }
    seen_clear(&all);
}

static void cache_does_not_keep_bad_records(void **state)
{
    stk_config config = harness_config();
    seen s;
    write_data();
    config.on_error = STK_ON_ERROR_SKIP;
    run_all("tfrecord(\"$D/a-*\") | parse(value=int64, rare=int64) | cache | batch(4) | repeat(3)", &config, &s);
    assert_int_equal(s.value_count, 36);
    assert_int_equal(s.stats.skipped, 33);
    seen_clear(&s);
}

static void cache_refuses_bad_options(void **state)
{
    assert_refused("range(5) | cache(memory=\"lots\")", NULL, STK_INVALID,
                   "memory must be a size like 256M, got a string \"lots\"", 1, 25);
    assert_refused("range(5) | cache | cache", NULL, STK_INVALID, "there is one at line 1, column 12 already", 1, 20);
    assert_refused("range(5) | cache(3)", NULL, STK_INVALID, "path must be a string, got an integer 3", 1, 18);
    assert_fails("range(5) | cache(\"/proc/no/such\")", NULL, STK_IO, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(cache_never_changes_the_output),
        OP_TEST(cache_spares_reading),
        OP_TEST(cache_keeps_random_numbers),
        OP_TEST(cache_file_appears_only_when_complete),
        OP_TEST(cache_file_of_a_stream_is_published_at_the_end),
        OP_TEST(cache_file_is_made_anew_when_what_comes_before_changed),
        OP_TEST(cache_files_of_ranks_are_apart),
        OP_TEST(cache_file_that_is_damaged_is_noticed),
        OP_TEST(cache_file_that_is_cut_off_is_made_anew),
        OP_TEST(cache_refuses_a_file_that_is_none),
        OP_TEST(cache_that_does_not_fit_in_memory_is_still_right),
        OP_TEST(cache_resumes),
        OP_TEST(cache_does_not_keep_bad_records),
        OP_TEST(cache_refuses_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
