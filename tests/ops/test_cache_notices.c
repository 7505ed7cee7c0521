/* cache files: changed data is noticed, damage is made good, and runs that share one file make each sample once. */
#include "harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* ---- changed data ---- */

/* So many bytes that a change in the middle is seen neither at the start nor at the end. */
enum { LINES = 4000 };

/* Overwrites bytes in place; with `keep_mtime` its time is then set back, so that only ctime tells. */
static void patch_file(const char *name, int64_t at, const char *bytes, bool keep_mtime)
{
    struct stat st;
    const int fd = open(in_dir(name), O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(pwrite(fd, bytes, strlen(bytes), at), (ssize_t)strlen(bytes));
    if (keep_mtime)
        assert_int_equal(futimens(fd, (struct timespec[2]){st.st_atim, st.st_mtim}), 0);
    close(fd);
}

static void digest_of(const char *text, seen *out)
{
    run_all(text, NULL, out);
}

/* The run with the cache must give what the one without it gives, whatever lies in the file. */
static void assert_cached_like_plain(const char *cached, const char *plain, bool from_cache)
{
    seen a, b;
    digest_of(cached, &a);
    digest_of(plain, &b);
    assert_seen_equal(&b, 0, &a, cached);
    assert_int_equal(a.stats.cache_hits > 0, from_cache);
    seen_clear(&a);
    seen_clear(&b);
}

static void change_in_the_middle_of_a_file_is_noticed(void **state)
{
    static const char *const texts[][2] = {
        {"text(\"$D/l.txt\") | cache(\"$D/c\") | batch(100)", "text(\"$D/l.txt\") | batch(100)"},
        {"text(\"$D/l.txt\") | take(2000) | cache(\"$D/c2\") | batch(100)",
         "text(\"$D/l.txt\") | take(2000) | batch(100)"},
    };
    write_lines("l.txt", false, 0, LINES);
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        assert_cached_like_plain(texts[i][0], texts[i][1], false);
        assert_cached_like_plain(texts[i][0], texts[i][1], true);
        patch_file("l.txt", 10000, i ? "A" : "B", false);
        assert_cached_like_plain(texts[i][0], texts[i][1], false);
        assert_cached_like_plain(texts[i][0], texts[i][1], true);
        patch_file("l.txt", 10001, i ? "C" : "D", true);
        assert_cached_like_plain(texts[i][0], texts[i][1], false);
    }
}

static void change_of_a_stream_is_noticed(void **state)
{
    static const char cached[] = "text(\"$D/l.gz\") | cache(\"$D/c\") | batch(100)",
                      plain[] = "text(\"$D/l.gz\") | batch(100)";
    write_lines("l.gz", true, 0, 50);
    assert_cached_like_plain(cached, plain, false);
    assert_cached_like_plain(cached, plain, true);
    struct timespec times[2] = {{0, UTIME_OMIT}, {1000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, in_dir("l.gz"), times, 0), 0);
    assert_cached_like_plain(cached, plain, false);
}

/* One of the pictures that write_folder made, with other bytes of the same number. */
static void change_picture(const char *name, size_t at)
{
    char *data;
    size_t size;
    assert_int_equal(stk__read_file(in_dir(name), 1 << 20, &data, &size, NULL), STK_OK);
    assert_true(at < size);
    data[at] ^= 1;
    write_file(name, data, size);
    stk__free(data);
}

static void find_picture(char *out, size_t room)
{
    stk_pipeline *p;
    const stk_batch *batch;
    stk_error err;
    assert_int_equal(try_open("image_folder(\"$D/f\") | batch(1)", NULL, &p, &err), STK_OK);
    assert_int_equal(stk_pipeline_next(p, &batch, &err), STK_OK);
    for (int32_t c = 0; c < batch->column_count; c++) {
        const stk_bytes *path = batch->columns[c].data;
        if (strcmp(batch->columns[c].name, "path") == 0)
            snprintf(out, room, "f/%.*s", (int)path->size, (const char *)path->data);
    }
    stk_batch_release(p, batch);
    stk_pipeline_close(p);
}

static void picture_under_the_same_name_is_noticed(void **state)
{
    static const char cached[] = "image_folder(\"$D/f\") | cache(\"$D/c\") | batch(4)",
                      plain[] = "image_folder(\"$D/f\") | batch(4)";
    char picture[256];
    write_folder("f", 3, 7);
    find_picture(picture, sizeof picture);
    assert_cached_like_plain(cached, plain, false);
    assert_cached_like_plain(cached, plain, true);
    change_picture(picture, 0);
    assert_cached_like_plain(cached, plain, false);
    assert_cached_like_plain(cached, plain, true);
    /* Where no picture is read, none counts. */
    static const char labels[] = "image_folder(\"$D/f\") | select(label) | cache(\"$D/d\") | batch(4)";
    seen s;
    run_all(labels, NULL, &s);
    seen_clear(&s);
    change_picture(picture, 0);
    run_all(labels, NULL, &s);
    assert_int_equal(s.stats.cache_hits, 21);
    seen_clear(&s);
}

static void resume_refuses_other_pictures_but_not_touched_ones(void **state)
{
    static const char text[] = "image_folder(\"$D/f\") | batch(4)";
    char picture[256];
    stk_config config = harness_config();
    seen s;
    write_folder("f", 3, 7);
    find_picture(picture, sizeof picture);
    run_some(text, &config, 2, in_dir("ck"), &s);
    seen_clear(&s);
    struct timespec times[2] = {{0, UTIME_OMIT}, {1000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, in_dir(picture), times, 0), 0);
    config.resume_path = in_dir("ck");
    run_all(text, &config, &s);
    assert_int_equal(s.count, 4);
    seen_clear(&s);
    change_picture(picture, 0);
    assert_fails(text, &config, STK_MISMATCH, "of other data");
}

/* The state of a run that was stopped still tells what its pictures were. */
static void state_after_stop_tells_of_pictures(void **state)
{
    stk_pipeline *p;
    const stk_batch *batch;
    char *place;
    write_folder("f", 3, 7);
    assert_int_equal(try_open("image_folder(\"$D/f\") | batch(4)", NULL, &p, NULL), STK_OK);
    assert_int_equal(stk_pipeline_next(p, &batch, NULL), STK_OK);
    stk_batch_release(p, batch);
    stk_pipeline_stop(p);
    assert_int_equal(stk_pipeline_state(p, &place, NULL), STK_OK);
    stk_pipeline_close(p);
    stk_config config = harness_config();
    config.resume_state = place;
    seen s;
    run_all("image_folder(\"$D/f\") | batch(4)", &config, &s);
    assert_int_equal(s.count, 5);
    seen_clear(&s);
    stk_free(place);
}

/* ---- damage ---- */

static void flip(const char *name, const char *good, size_t size, size_t at)
{
    char *copy = stk__alloc(size);
    assert_non_null(copy);
    memcpy(copy, good, size);
    copy[at] ^= 16;
    write_file(name, copy, size);
    stk__free(copy);
}

/* Every byte of the samples: what comes out is right, and the file is sound again afterwards. */
static void damaged_sample_is_made_again_and_the_file_mended(void **state)
{
    static const char text[] = "range(9) | filter(\"value != 4\") | cache(\"$D/c\") | batch(3) | repeat(2)";
    char *good;
    size_t size;
    seen plain, s;
    run_all(text, NULL, &plain);
    assert_int_equal(stk__read_file(in_dir("c"), 1 << 20, &good, &size, NULL), STK_OK);
    const size_t samples_end = size - 48 - 9 * 32;
    for (size_t at = 16; at < samples_end; at += 3) {
        flip("c", good, size, at);
        run_all(text, NULL, &s);
        assert_seen_equal(&plain, 0, &s, text);
        assert_int_equal(s.stats.cache_damaged, 1);
        seen_clear(&s);
        run_all(text, NULL, &s);
        assert_seen_equal(&plain, 0, &s, text);
        assert_int_equal(s.stats.cache_damaged, 0);
        assert_int_equal(s.stats.cache_misses, 0);
        seen_clear(&s);
    }
    seen_clear(&plain);
    stk__free(good);
}

static void damage_is_no_bad_record(void **state)
{
    stk_config config = harness_config();
    config.on_error = STK_ON_ERROR_SKIP;
    static const char text[] = "range(50) | cache(\"$D/c\") | batch(5)";
    char *good;
    size_t size;
    seen s;
    run_all(text, &config, &s);
    seen_clear(&s);
    assert_int_equal(stk__read_file(in_dir("c"), 1 << 20, &good, &size, NULL), STK_OK);
    memset(good + 16, 0, size / 4); /* several at once */
    write_file("c", good, size);
    run_all(text, &config, &s);
    assert_int_equal(s.stats.skipped, 0);
    assert_int_equal(s.value_count, 50);
    for (int k = 0; k < 50; k++)
        assert_int_equal(s.values[k], k);
    assert_true(s.stats.cache_damaged > 1);
    seen_clear(&s);
    stk__free(good);
}

static void damaged_file_of_a_stream_is_mended(void **state)
{
    static const char text[] = "tfrecord(\"$D/b-*\") | parse(value=int64) | cache(\"$D/c\") | batch(4) | repeat(2)";
    char *good;
    size_t size;
    seen s;
    write_data();
    run_all(text, NULL, &s);
    seen_clear(&s);
    assert_int_equal(stk__read_file(in_dir("c"), 1 << 20, &good, &size, NULL), STK_OK);
    flip("c", good, size, 40);
    for (int i = 0; i < 2; i++) {
        run_all(text, NULL, &s);
        assert_int_equal(s.value_count, 46);
        assert_int_equal(s.stats.cache_damaged, i ? 0 : 1);
        seen_clear(&s);
    }
    stk__free(good);
}

/* Fewer samples were wanted when it was made: those are taken over, and the rest is added. */
static void file_with_some_samples_is_completed(void **state)
{
    seen s;
    run_all("range(50) | test_noise | cache(\"$D/c\") | take(20) | batch(5)", NULL, &s);
    seen_clear(&s);
    run_all("range(50) | test_noise | cache(\"$D/c\") | batch(5)", NULL, &s);
    assert_int_equal(s.stats.cache_hits, 20);
    assert_int_equal(s.stats.cache_misses, 30);
    seen_clear(&s);
    run_all("range(50) | test_noise | cache(\"$D/c\") | batch(5)", NULL, &s);
    assert_int_equal(s.stats.cache_hits, 50);
    seen_clear(&s);
}

/* ---- runs that share a file ---- */

#define SHARED "range(600) | test_noise | cache(\"$D/c\") | batch(10) | repeat(2)"

/* One batch of a run into its digest; false at the end. */
static bool step(stk_pipeline *p, stk_digest *digest)
{
    const stk_batch *batch;
    stk_error err;
    const stk_status status = stk_pipeline_next(p, &batch, &err);
    if (status == STK_END) {
        assert_int_equal(stk_pipeline_finish(p, &err), STK_OK);
        return false;
    }
    assert_int_equal(status, STK_OK);
    stk_digest_add(digest, batch);
    stk_batch_release(p, batch);
    return true;
}

typedef struct two_runs {
    stk_pipeline *runs[2];
    stk_digest *digests[2];
    char texts[2][33];
    int64_t hits, misses;
} two_runs;

static void begin_two(two_runs *t, const char *a, const char *b, const stk_config *config_b)
{
    const char *texts[2] = {a, b};
    *t = (two_runs){0};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(try_open(texts[i], i ? config_b : NULL, &t->runs[i], NULL), STK_OK);
        assert_int_equal(stk_digest_new(&t->digests[i], NULL), STK_OK);
    }
}

static void end_two(two_runs *t, int first)
{
    for (int k = 0; k < 2; k++) {
        const int i = k ? 1 - first : first;
        stk_stats stats;
        stk_pipeline_stats(t->runs[i], &stats);
        t->hits += stats.cache_hits;
        t->misses += stats.cache_misses;
        stk_digest_hex(t->digests[i], t->texts[i]);
        stk_digest_free(t->digests[i]);
        stk_pipeline_close(t->runs[i]);
    }
}

static void plain_digest(const char *text, const stk_config *config, char out[33])
{
    stk_pipeline *p;
    stk_digest *digest;
    assert_int_equal(try_open(text, config, &p, NULL), STK_OK);
    assert_int_equal(stk_digest_new(&digest, NULL), STK_OK);
    while (step(p, digest))
        continue;
    stk_digest_hex(digest, out);
    stk_digest_free(digest);
    stk_pipeline_close(p);
}

static void two_runs_in_turns_make_each_sample_once(void **state)
{
    char plain[33];
    plain_digest("range(600) | test_noise | cache | batch(10) | repeat(2)", NULL, plain);
    for (int first = 0; first < 2; first++) {
        two_runs t;
        remove(in_dir("c"));
        begin_two(&t, SHARED, SHARED, NULL);
        for (bool a = true, b = true; a || b;) {
            a = a && step(t.runs[0], t.digests[0]);
            b = b && step(t.runs[1], t.digests[1]);
        }
        end_two(&t, first);
        assert_string_equal(t.texts[0], plain);
        assert_string_equal(t.texts[1], plain);
        assert_int_equal(t.misses, 600);
        assert_int_equal(t.hits, 2 * 1200 - 600);
        seen s;
        run_all(SHARED, NULL, &s);
        assert_int_equal(s.stats.cache_hits, 1200);
        assert_int_equal(s.stats.cache_damaged, 0);
        seen_clear(&s);
        assert_int_equal(count_files(""), 1);
    }
}

/* One is left in the middle; the other goes on with what the first one made. */
static void run_that_is_left_leaves_its_samples_to_the_other(void **state)
{
    char plain[33];
    plain_digest("range(600) | test_noise | cache | batch(10) | repeat(2)", NULL, plain);
    two_runs t;
    begin_two(&t, SHARED, SHARED, NULL);
    for (int i = 0; i < 20; i++)
        assert_true(step(t.runs[0], t.digests[0]));
    stk_stats left, stats;
    stk_pipeline_stop(t.runs[0]);
    stk_pipeline_stats(t.runs[0], &left);
    stk_pipeline_close(t.runs[0]);
    stk_digest_free(t.digests[0]);
    while (step(t.runs[1], t.digests[1]))
        continue;
    stk_pipeline_stats(t.runs[1], &stats);
    /* But for what the first one was at when it was stopped. */
    assert_in_range(left.cache_misses + stats.cache_misses, 600, 1000);
    stk_digest_hex(t.digests[1], t.texts[1]);
    assert_string_equal(t.texts[1], plain);
    stk_digest_free(t.digests[1]);
    stk_pipeline_close(t.runs[1]);
    assert_true(file_exists("c"));
}

static void runs_with_other_data_share_nothing_but_the_name(void **state)
{
    stk_config other = harness_config();
    other.seed++;
    char plain[2][33];
    plain_digest("range(600) | test_noise | cache | batch(10) | repeat(2)", NULL, plain[0]);
    plain_digest("range(600) | test_noise | cache | batch(10) | repeat(2)", &other, plain[1]);
    two_runs t;
    begin_two(&t, SHARED, SHARED, &other);
    for (bool a = true, b = true; a || b;) {
        a = a && step(t.runs[0], t.digests[0]);
        b = b && step(t.runs[1], t.digests[1]);
    }
    end_two(&t, 0);
    assert_string_equal(t.texts[0], plain[0]);
    assert_string_equal(t.texts[1], plain[1]);
    /* Who finished last has the file, whole. */
    seen s, r;
    char *data;
    size_t size;
    assert_int_equal(stk__read_file(in_dir("c"), 1 << 20, &data, &size, NULL), STK_OK);
    run_all(SHARED, NULL, &s);
    write_file("c", data, size);
    run_all(SHARED, &other, &r);
    stk__free(data);
    assert_int_equal(s.stats.cache_damaged + r.stats.cache_damaged, 0);
    assert_true(s.stats.cache_hits == 1200 || r.stats.cache_hits == 1200);
    seen_clear(&s);
    seen_clear(&r);
}

typedef struct consumer {
    stk_pipeline *run;
    stk_digest *digest;
} consumer;

static void *consume(void *arg)
{
    const consumer *c = arg;
    while (step(c->run, c->digest))
        continue;
    return NULL;
}

/* Orders differ, so that each waits for the other's samples; one has bad records, which are never stored. */
static void two_runs_at_once_make_each_sample_once(void **state)
{
    static const char *const texts[][2] = {
        {"range(3000) | test_noise | cache(\"$D/c\") | shuffle(seed=1) | batch(10) | repeat(2)",
         "range(3000) | test_noise | cache(\"$D/c\") | shuffle(seed=2) | batch(16)"},
        {"range(3000) | filter(\"value % 3 != 1\") | cache(\"$D/c\") | shuffle(seed=1) | batch(10) | repeat(2)",
         "range(3000) | filter(\"value % 3 != 1\") | cache(\"$D/c\") | batch(16)"},
    };
    for (size_t i = 0; i < STK_COUNT(texts); i++) {
        two_runs t;
        pthread_t threads[2];
        consumer consumers[2];
        remove(in_dir("c"));
        begin_two(&t, texts[i][0], texts[i][1], NULL);
        for (int k = 0; k < 2; k++) {
            consumers[k] = (consumer){t.runs[k], t.digests[k]};
            assert_int_equal(pthread_create(&threads[k], NULL, consume, &consumers[k]), 0);
        }
        for (int k = 0; k < 2; k++)
            pthread_join(threads[k], NULL);
        end_two(&t, 0);
        assert_int_equal(t.misses, 3000);
        assert_int_equal(t.hits, 6000);
    }
}

/* Bad records are never stored: who waits for one makes it in the end, and nobody waits for ever. */
static void runs_that_share_bad_records_come_to_their_end(void **state)
{
    stk_config config = harness_config();
    config.on_error = STK_ON_ERROR_SKIP;
    write_examples("e.tfrecord", STK__PLAIN, 0, 2000);
    static const char text[] = "tfrecord(\"$D/e.tfrecord\") | parse(value=int64, rare=int64) | cache(\"$D/c\") | "
                               "shuffle(seed=3) | batch(10) | repeat(2)";
    two_runs t;
    pthread_t threads[2];
    consumer consumers[2];
    *(&t) = (two_runs){0};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(try_open(text, &config, &t.runs[k], NULL), STK_OK);
        assert_int_equal(stk_digest_new(&t.digests[k], NULL), STK_OK);
        consumers[k] = (consumer){t.runs[k], t.digests[k]};
        assert_int_equal(pthread_create(&threads[k], NULL, consume, &consumers[k]), 0);
    }
    for (int k = 0; k < 2; k++) {
        pthread_join(threads[k], NULL);
        stk_stats stats;
        stk_pipeline_stats(t.runs[k], &stats);
        assert_int_equal(stats.samples, 2000);
        assert_int_equal(stats.skipped, 2000);
    }
    end_two(&t, 1);
    assert_string_equal(t.texts[0], t.texts[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OP_TEST(change_in_the_middle_of_a_file_is_noticed),
        OP_TEST(change_of_a_stream_is_noticed),
        OP_TEST(picture_under_the_same_name_is_noticed),
        OP_TEST(resume_refuses_other_pictures_but_not_touched_ones),
        OP_TEST(state_after_stop_tells_of_pictures),
        OP_TEST(damaged_sample_is_made_again_and_the_file_mended),
        OP_TEST(damage_is_no_bad_record),
        OP_TEST(damaged_file_of_a_stream_is_mended),
        OP_TEST(file_with_some_samples_is_completed),
        OP_TEST(two_runs_in_turns_make_each_sample_once),
        OP_TEST(run_that_is_left_leaves_its_samples_to_the_other),
        OP_TEST(runs_with_other_data_share_nothing_but_the_name),
        OP_TEST(two_runs_at_once_make_each_sample_once),
        OP_TEST(runs_that_share_bad_records_come_to_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
