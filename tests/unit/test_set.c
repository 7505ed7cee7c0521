/* Sets: published whole in either way, brought to their end by whoever comes by, kept for checkpoints. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "record_files.h"

#include "formats/set.h"

/* Text i of set `tag` is "TAG-i". */
static void fill_set(stk__set *set, const char *tag, int shards)
{
    for (int i = 0; i < shards; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s-%d", tag, i);
        assert_int_equal(stk__set_file_write(stk__set_shard(set, i), text, strlen(text), NULL), STK_OK);
    }
}

static void write_set(const char *pattern, const char *tag, int shards)
{
    stk__set *set;
    stk_error err;
    stk_error_clear(&err);
    const stk__set_config config = {.pattern = in_dir(pattern), .shards = shards};
    if (stk__set_open(&config, &set, &err) != STK_OK)
        fail_msg("%s: %s", err.file, err.message);
    fill_set(set, tag, shards);
    if (stk__set_publish(set, shards, &err) != STK_OK)
        fail_msg("%s: %s", err.file, err.message);
    stk__set_close(set);
}

static void assert_text(const char *path, const char *wanted)
{
    char *text;
    size_t size;
    if (stk__read_file(path, 1 << 20, &text, &size, NULL) != STK_OK)
        fail_msg("%s is not there", path);
    assert_string_equal(text, wanted);
    stk__free(text);
}

static int count_entries(const char *dir)
{
    DIR *d = opendir(dir);
    int count = -2;
    while (d && readdir(d))
        count++;
    if (d)
        closedir(d);
    return count;
}

/* The shards of the set, its manifest, and so many other files: nothing else. */
static void assert_set(const char *dir, const char *tag, int shards, int others)
{
    char path[128], text[64];
    for (int i = 0; i < shards; i++) {
        snprintf(path, sizeof path, "%s/part-%d", in_dir(dir), i);
        snprintf(text, sizeof text, "%s-%d", tag, i);
        assert_text(path, text);
    }
    assert_int_equal(count_entries(in_dir(dir)), shards + 1 + others);
}

static void make_file(const char *name, const char *text)
{
    assert_int_equal(stk__write_file(in_dir(name), text, strlen(text), NULL), STK_OK);
}

static void set_takes_the_place_of_the_older_one(void **state)
{
    write_set("out/part-%d", "old", 5);
    assert_set("out", "old", 5, 0);
    write_set("out/part-%d", "new", 3);
    assert_set("out", "new", 3, 0);
    assert_int_equal(count_entries(test_dir), 1);
    make_file("out/notes", "mine");
    write_set("out/part-%d", "more", 6);
    assert_set("out", "more", 6, 1);
    write_set("out/part-%d", "few", 2);
    assert_set("out", "few", 2, 1);
    assert_text(in_dir("out/notes"), "mine");
    write_set("here-%d", "x", 2); /* in the directory of the test, where out is */
    assert_int_equal(count_entries(test_dir), 4);
}

static void new_directory_is_like_the_one_before(void **state)
{
    struct stat before, after;
    write_set("out/part-%d", "old", 2);
    assert_int_equal(chmod(in_dir("out"), 02750), 0);
    assert_int_equal(symlink("out", in_dir("link")), 0);
    assert_int_equal(stat(in_dir("out"), &before), 0);
    write_set("link/part-%d", "new", 3);
    assert_set("out", "new", 3, 0);
    assert_int_equal(stat(in_dir("out"), &after), 0);
    assert_int_equal(before.st_mode, after.st_mode);
    assert_true(before.st_ino != after.st_ino); /* else it was not published as a whole */
    assert_int_equal(lstat(in_dir("link"), &after), 0);
    assert_true(S_ISLNK(after.st_mode));
}

static void move(const char *from, const char *to, int number)
{
    char a[160], b[160];
    snprintf(a, sizeof a, "%s/part-%d", in_dir(from), number);
    snprintf(b, sizeof b, "%s/part-%d", in_dir(to), number);
    assert_int_equal(rename(a, b), 0);
}

/* A writer of `new` over `old`, killed behind so many of its steps. */
static void cut_off(int old, int new, int steps)
{
    char path[160];
    write_set("out/part-%d", "old", old);
    make_file("out/notes", "mine");
    write_set("new/part-%d", "new", new);
    assert_int_equal(rename(in_dir("new"), in_dir("out/.part.stk-publish")), 0);
    for (int i = new; i < old &&steps > 0; i++, steps--) {
        snprintf(path, sizeof path, "%s/part-%d", in_dir("out"), i);
        assert_int_equal(unlink(path), 0);
    }
    for (int i = 0; i < new &&steps > 0; i++, steps--)
        move("out/.part.stk-publish", "out", i);
    if (steps > 0)
        assert_int_equal(rename(in_dir("out/.part.stk-publish/part.manifest.json"), in_dir("out/part.manifest.json")),
                         0);
}

static void publication_that_was_cut_off_is_brought_to_its_end(void **state)
{
    static const int counts[][2] = {{3, 5}, {5, 3}, {4, 4}, {1, 1}};
    for (size_t c = 0; c < STK_COUNT(counts); c++) {
        for (int steps = 0; steps <= counts[c][0] + counts[c][1] + 1; steps++) {
            cut_off(counts[c][0], counts[c][1], steps);
            stk_error err;
            stk_error_clear(&err);
            if (steps % 2 && stk__sets_settle(in_dir("out"), &err) != STK_OK)
                fail_msg("%s: %s", err.file, err.message);
            if (!(steps % 2)) { /* a pattern does it as well, with wildcards in it or not */
                char pattern[160];
                snprintf(pattern, sizeof pattern, "%s%s/part-*", test_dir, steps % 4 ? "/out" : "/o*");
                const char *const patterns[] = {pattern};
                assert_int_equal(stk__sets_settle_patterns(patterns, 1, &err), STK_OK);
            }
            assert_set("out", "new", counts[c][1], 1);
            remove_tree(in_dir("out"));
        }
    }
}

/* A writer brings the older set to its end before it looks at what is there. */
static void writer_settles_before_it_writes(void **state)
{
    cut_off(3, 5, 2);
    write_set("out/part-%d", "newer", 2);
    assert_set("out", "newer", 2, 1);
}

static void living_publisher_is_waited_for(void **state)
{
    cut_off(2, 2, 0);
    const int fd = open(in_dir("out/.part.stk-publish"), O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    const pid_t child = fork();
    if (child == 0) { /* has the lock too, until it ends */
        usleep(200000);
        _exit(0);
    }
    close(fd);
    assert_int_equal(stk__sets_settle(in_dir("out"), NULL), STK_OK);
    assert_int_equal(waitpid(child, NULL, WNOHANG), child); /* it had to be over first */
    assert_set("out", "new", 2, 1);
}

/* A manifest that was put there must not name files to be moved or removed that are none of a set. */
static void hostile_publication_moves_nothing_else(void **state)
{
    static const char text[] =
        "{\"stoker_manifest\": 1, \"pattern\": \"part-%d\", \"rows\": 1, \"files\": [{\"name\": \"notes\", "
        "\"bytes\": 4, \"rows\": 1, \"xxh3_128\": \"0123456789abcdef0123456789abcdef\"}]}";
    stk_error err;
    stk_error_clear(&err);
    write_set("out/part-%d", "old", 2);
    make_file("out/notes", "mine");
    assert_int_equal(mkdir(in_dir("out/.part.stk-publish"), 0777), 0);
    make_file("out/.part.stk-publish/notes", "evil");
    make_file("out/.part.stk-publish/part.manifest.json", text);
    assert_int_equal(stk__sets_settle(in_dir("out"), &err), STK_CORRUPT);
    assert_text(in_dir("out/notes"), "mine");
}

static void assert_not_opened(const char *pattern, int shards, const char *part)
{
    stk__set *set;
    stk_error err;
    stk_error_clear(&err);
    const stk__set_config config = {.pattern = in_dir(pattern), .shards = shards};
    assert_true(stk__set_open(&config, &set, &err) != STK_OK);
    if (!strstr(err.message, part))
        fail_msg("%s: %s", err.file, err.message);
}

static void what_would_be_lost_or_mixed_is_refused(void **state)
{
    write_set("out/part-%d", "old", 2);
    make_file("out/part-7", "not of the set");
    assert_not_opened("out/part-%d", 3, "remove it");
    assert_not_opened("out/part-%02d", 3, "of the set 'part-%d'");
    write_set("out/part-%d.tar", "other", 2); /* another ending, another set */
    assert_int_equal(unlink(in_dir("out/part-7")), 0);
    make_file("out/part.manifest.json", "{\"stoker_manifest\": 1, ");
    assert_not_opened("out/part-%d", 3, "cannot be read");
    assert_int_equal(mkfifo(in_dir("pipe"), 0666), 0);
    assert_not_opened("pipe", 1, "not a regular file");
    assert_int_equal(mkdir(in_dir("deep"), 0777), 0);
    assert_not_opened("deep", 1, "directory");
    assert_int_equal(count_entries(test_dir), 3); /* nothing hidden is left */
}

static void unpublished_set_leaves_nothing(void **state)
{
    stk__set *set;
    const stk__set_config config = {.pattern = in_dir("out/part-%d"), .shards = 4};
    write_set("out/part-%d", "old", 2);
    assert_int_equal(stk__set_open(&config, &set, NULL), STK_OK);
    fill_set(set, "new", 4);
    stk__set_close(set);
    assert_set("out", "old", 2, 0);
    assert_int_equal(count_entries(test_dir), 1);
}

/* Saved, written on, dropped; then gone on with from the place that was saved. */
static void kept_set_goes_on_from_its_checkpoint(void **state)
{
    stk__set *set;
    stk__text token = STK__TEXT_INIT, done_token = STK__TEXT_INIT, extra = STK__TEXT_INIT;
    int64_t rows;
    bool done;
    char pattern[128];
    snprintf(pattern, sizeof pattern, "%s", in_dir("out/part-%d"));
    const stk__set_config config = {.pattern = pattern, .shards = 3, .keep = true};
    assert_int_equal(stk__set_open(&config, &set, NULL), STK_OK);
    fill_set(set, "ne", 0);
    assert_int_equal(stk__set_file_write(stk__set_shard(set, 1), "new", 3, NULL), STK_OK);
    assert_int_equal(stk__set_save(set, 1, "a\0b", 3, &token, NULL), STK_OK);
    assert_int_equal(stk__set_file_write(stk__set_shard(set, 1), "lost", 4, NULL), STK_OK);
    assert_int_equal(stk__set_add(set, "part.schema.json", "{}", 2, NULL), STK_OK);
    assert_int_equal(stk__set_resume(&config, token.data, &set, &rows, &done, &extra, NULL), STK_IO); /* it lives */
    stk__set_close(set);
    stk_error err;
    stk_error_clear(&err);
    if (stk__set_resume(&config, token.data, &set, &rows, &done, &extra, &err) != STK_OK)
        fail_msg("%s: %s", err.file, err.message);
    assert_true(rows == 1 && !done && extra.length == 3);
    assert_memory_equal(extra.data, "a\0b", 3);
    assert_int_equal(stk__set_file_write(stk__set_shard(set, 0), "new-0", 5, NULL), STK_OK);
    assert_int_equal(stk__set_file_write(stk__set_shard(set, 1), "-1", 2, NULL), STK_OK);
    assert_int_equal(stk__set_file_write(stk__set_shard(set, 2), "new-2", 5, NULL), STK_OK);
    assert_int_equal(stk__set_publish(set, 3, NULL), STK_OK);
    assert_int_equal(stk__set_save(set, 3, NULL, 0, &done_token, NULL), STK_OK);
    assert_set("out", "new", 3, 0);
    assert_int_equal(count_entries(test_dir), 2); /* killed here, it is known to be done */
    stk__set *again;
    stk__text_reset(&extra);
    assert_int_equal(stk__set_resume(&config, done_token.data, &again, &rows, &done, &extra, NULL), STK_OK);
    assert_true(done && rows == 3);
    stk__set_close(again);
    stk__set_close(set);
    assert_int_equal(count_entries(test_dir), 1);
    assert_int_equal(stk__set_resume(&config, token.data, &set, &rows, &done, &extra, NULL), STK_MISMATCH);
    assert_set("out", "new", 3, 0);
    stk__text_clear(&token);
    stk__text_clear(&done_token);
    stk__text_clear(&extra);
}

static void readers_want_whole_sets(void **state)
{
    write_set("out/part-%d", "old", 3);
    char *items[] = {stk__strdup(in_dir("out/part-0")), stk__strdup(in_dir("out/part-1"))};
    const stk__paths paths = {.items = items, .count = 2, .capacity = 2};
    const bool wild[] = {true, true}, named[] = {false, false};
    assert_int_equal(stk__sets_check(&paths, wild, NULL, NULL),
                     STK_OK); /* a part of it by its pattern, while all of it is there */
    assert_int_equal(unlink(in_dir("out/part-2")), 0);
    assert_int_equal(stk__sets_check(&paths, wild, NULL, NULL), STK_CORRUPT);
    assert_int_equal(stk__sets_check(&paths, named, NULL, NULL), STK_OK);
    make_file("out/part-1", "longer than before");
    assert_int_equal(stk__sets_check(&paths, named, NULL, NULL), STK_CORRUPT);
    make_file("out/part.manifest.json", "{\"name\": \"an app\"}"); /* of another program */
    assert_int_equal(stk__sets_check(&paths, wild, NULL, NULL), STK_OK);
    make_file("out/part.manifest.json", "{\"stoker_manifest\": 1, ");
    assert_int_equal(stk__sets_check(&paths, wild, NULL, NULL), STK_CORRUPT);
    stk__free(items[0]);
    stk__free(items[1]);
}

#define SET_TEST(f) cmocka_unit_test_setup_teardown(f, make_test_dir, remove_test_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SET_TEST(set_takes_the_place_of_the_older_one),
        SET_TEST(new_directory_is_like_the_one_before),
        SET_TEST(publication_that_was_cut_off_is_brought_to_its_end),
        SET_TEST(writer_settles_before_it_writes),
        SET_TEST(living_publisher_is_waited_for),
        SET_TEST(hostile_publication_moves_nothing_else),
        SET_TEST(what_would_be_lost_or_mixed_is_refused),
        SET_TEST(unpublished_set_leaves_nothing),
        SET_TEST(kept_set_goes_on_from_its_checkpoint),
        SET_TEST(readers_want_whole_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
