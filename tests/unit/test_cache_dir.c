/* Bounds of cache directories: what goes first, and what is never touched. */
#define _GNU_SOURCE
#include "record_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cache_dir.h"
#include "formats/index_cache.h"
#include "formats/records.h"

enum { PAGE = 4096 };

/* HASH is `number` as 32 digits. Last used so many seconds ago. */
static const char *put(int number, const char *ending, size_t size, int64_t age_s)
{
    char name[80], *data = stk__calloc(1, size);
    snprintf(name, sizeof name, "%032x%s", (unsigned)number, ending);
    const char *path = write_bytes(name, data, size);
    stk__free(data);
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - age_s}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    return path;
}

static bool has(int number, const char *ending)
{
    char name[80];
    snprintf(name, sizeof name, "%032x%s", (unsigned)number, ending);
    return exists(in_dir(name));
}

static const char *const endings[] = {".aa", ".bb", NULL};

static void what_was_not_used_for_longest_goes_first(void **state)
{
    for (int i = 0; i < 10; i++)
        put(i, i % 2 ? ".aa" : ".bb", PAGE, 1000 - 100 * ((i * 3) % 10)); /* the youngest: 3, then 6, 9, 2, ... */
    const stk__cache_bounds bounds = {.endings = endings, .most_bytes = 4 * PAGE, .used_since_s = INT64_MAX};
    stk__cache_dir_trim(test_dir, &bounds);
    for (int i = 0; i < 10; i++)
        assert_int_equal(has(i, i % 2 ? ".aa" : ".bb"), (i * 3) % 10 >= 6);
    stk__cache_dir_trim(test_dir, &bounds); /* nothing more to do */
    assert_true(has(3, ".aa") && has(2, ".bb"));
}

static void what_is_used_now_stays(void **state)
{
    put(1, ".aa", PAGE, 5000);
    put(2, ".aa", PAGE, 50);
    put(3, ".aa", PAGE, 10);
    stk__cache_dir_trim(test_dir,
                        &(stk__cache_bounds){.endings = endings, .most_bytes = 0, .used_since_s = time(NULL) - 100});
    assert_false(has(1, ".aa"));
    assert_true(has(2, ".aa") && has(3, ".aa"));
    /* Age counts below the bound too. */
    stk__cache_dir_trim(
        test_dir,
        &(stk__cache_bounds){.endings = endings, .most_bytes = 1 << 20, .most_age_s = 30, .used_since_s = INT64_MAX});
    assert_true(!has(2, ".aa") && has(3, ".aa"));
    /* Being used makes young; said again too soon it costs nothing. */
    const char *path = put(4, ".aa", PAGE, 100000);
    struct stat st;
    stk__cache_dir_used(path);
    assert_int_equal(stat(path, &st), 0);
    assert_true(time(NULL) - st.st_mtim.tv_sec < 1000);
}

static void not_too_many_go_at_a_time(void **state)
{
    for (int i = 0; i < 10; i++)
        put(i, ".aa", PAGE, 1000 - i);
    const stk__cache_bounds bounds = {.endings = endings, .most_removed = 4, .used_since_s = INT64_MAX};
    stk__cache_dir_trim(test_dir, &bounds);
    for (int i = 0; i < 10; i++)
        assert_int_equal(has(i, ".aa"), i >= 4);
}

/* A directory that somebody named by mistake loses nothing of theirs. */
static void other_files_are_not_touched(void **state)
{
    static const char *const names[] = {"photo.aa",
                                        "0123456789abcdef0123456789abcdef",
                                        "0123456789abcdef0123456789abcdef.cc",
                                        "0123456789ABCDEF0123456789ABCDEF.aa",
                                        "0123456789abcdef0123456789abcdef.aa.old",
                                        "0123456789abcdef0123456789abcdef.aa.tmp-1-0"};
    for (size_t i = 0; i < STK_COUNT(names); i++)
        write_text(names[i], "x");
    mkdir(in_dir("fedcba9876543210fedcba9876543210.aa"), 0777);
    assert_int_equal(symlink("photo.aa", in_dir("fedcba9876543210fedcba9876543211.aa")), 0);
    stk__cache_dir_trim(test_dir, &(stk__cache_bounds){.endings = endings, .used_since_s = INT64_MAX});
    for (size_t i = 0; i < STK_COUNT(names); i++)
        assert_true(exists(in_dir(names[i])));
    assert_true(exists(in_dir("fedcba9876543210fedcba9876543210.aa")));
    assert_true(exists(in_dir("fedcba9876543210fedcba9876543211.aa")));
    /* Halves of writers that were killed long ago. */
    const char *half = put(7, ".aa.tmp-12-0", 10, 100000);
    stk__cache_dir_trim(test_dir, &(stk__cache_bounds){.endings = endings, .used_since_s = INT64_MAX});
    assert_false(exists(half));
}

static int indexes(void)
{
    char command[160];
    snprintf(command, sizeof command, "ls %s/index | grep -c '\\.stkidx$'", test_dir);
    FILE *f = popen(command, "r");
    int count = -1;
    assert_int_equal(fscanf(f, "%d", &count), 1);
    pclose(f);
    return count;
}

static void open_set(const char *prefix, int count, uint64_t cache_bytes, int cached)
{
    stk__paths paths = {0};
    char cache[100];
    snprintf(cache, sizeof cache, "%s/index", test_dir);
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%d", prefix, i);
        if (!exists(in_dir(name)))
            write_text(name, "a line\n");
        assert_int_equal(stk__paths_glob(&paths, in_dir(name), NULL), STK_OK);
    }
    const stk__records_config config = {
        .framing = STK__FRAMING_LINES, .threads = 2, .cache_dir = cache, .cache_bytes = cache_bytes};
    stk__records *r = NULL;
    assert_int_equal(stk__records_open(&paths, &config, &r, NULL), STK_OK);
    assert_int_equal(stk__records_cached(r), cached);
    stk__records_close(r);
    stk__paths_clear(&paths);
}

/* Makes all indexes look unused for a day. */
static void age_indexes(void)
{
    char command[160];
    snprintf(command, sizeof command, "touch -d '1 day ago' %s/index/*.stkidx", test_dir);
    assert_int_equal(system(command), 0);
}

static void indexes_of_a_set_push_out_older_ones_only(void **state)
{
    const uint64_t most = 12 * PAGE;
    open_set("a", 20, most, 0);
    assert_int_equal(indexes(), 20); /* all of its own stay, be they more than the bound */
    open_set("a", 20, most, 20);
    age_indexes();
    open_set("a", 3, most, 3); /* used: young again, and nothing was written */
    assert_int_equal(indexes(), 20);
    open_set("b", 5, most, 0);
    assert_int_equal(indexes(), 12);
    open_set("a", 3, most, 3);
    open_set("b", 5, most, 5);
}

static int fresh_dir(void **state)
{
    return make_test_dir(state);
}

#define DIR_TEST(f) cmocka_unit_test_setup_teardown(f, fresh_dir, remove_test_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DIR_TEST(what_was_not_used_for_longest_goes_first),
        DIR_TEST(what_is_used_now_stays),
        DIR_TEST(not_too_many_go_at_a_time),
        DIR_TEST(other_files_are_not_touched),
        DIR_TEST(indexes_of_a_set_push_out_older_ones_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
