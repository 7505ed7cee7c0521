/* Files: whole reads, atomic writes, globs, parents. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

static char dir[64];

/* DIR/name; good until four calls later. */
static const char *in_dir(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int entries(const char *path)
{
    DIR *d = opendir(path);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/stoker-test-file-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static void read_file_reads_all_with_a_zero_at_the_end(void **state)
{
    (void)state;
    char *data = NULL;
    size_t size = 0;
    char big[20000];
    memset(big, 'q', sizeof big);
    big[sizeof big - 1] = 0;
    put(in_dir("big"), big);
    assert_int_equal(stk__read_file(in_dir("big"), 1 << 20, &data, &size, NULL), STK_OK);
    assert_int_equal(size, sizeof big - 1);
    assert_string_equal(data, big);
    stk__free(data);
    put(in_dir("empty"), "");
    assert_int_equal(stk__read_file(in_dir("empty"), 10, &data, &size, NULL), STK_OK);
    assert_int_equal(size, 0);
    assert_string_equal(data, "");
    stk__free(data);
}

static void read_file_refuses_too_large_missing_and_directory(void **state)
{
    (void)state;
    stk_error err;
    char *data = NULL;
    size_t size;
    put(in_dir("eleven"), "12345678901");
    stk_error_clear(&err);
    assert_int_equal(stk__read_file(in_dir("eleven"), 10, &data, &size, &err), STK_INVALID);
    assert_string_equal(err.file, in_dir("eleven"));
    stk_error_clear(&err);
    assert_int_equal(stk__read_file(in_dir("missing"), 10, &data, &size, &err), STK_IO);
    assert_string_equal(err.file, in_dir("missing"));
    assert_non_null(strstr(err.message, "No such file"));
    stk_error_clear(&err);
    assert_int_equal(stk__read_file(dir, 10, &data, &size, &err), STK_IO);
    assert_non_null(strstr(err.message, "directory"));
    assert_null(data);
}

static void pread_full_tells_where_the_file_ends(void **state)
{
    (void)state;
    put(in_dir("ten"), "0123456789");
    int fd = -1;
    stk__file_id id;
    assert_int_equal(stk__file_open(in_dir("ten"), &fd, &id, NULL), STK_OK);
    assert_true(id.size_bytes == 10);
    char data[16];
    assert_int_equal(stk__pread_full(fd, data, 4, 6, "ten", NULL), STK_OK);
    assert_memory_equal(data, "6789", 4);
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__pread_full(fd, data, 5, 6, "ten", &err), STK_CORRUPT);
    assert_string_equal(err.file, "ten");
    assert_true(err.offset == 6);
    assert_non_null(strstr(err.message, "ends at byte 10"));
    close(fd);
    stk_error_clear(&err);
    assert_int_equal(stk__pread_full(fd, data, 5, 0, "ten", &err), STK_IO);
}

static void file_id_changes_with_the_content(void **state)
{
    (void)state;
    int fd = -1;
    stk__file_id a, b;
    put(in_dir("id"), "a");
    assert_int_equal(stk__file_open(in_dir("id"), &fd, &a, NULL), STK_OK);
    close(fd);
    put(in_dir("id"), "ab");
    assert_int_equal(stk__file_open(in_dir("id"), &fd, &b, NULL), STK_OK);
    close(fd);
    assert_true(a.size_bytes != b.size_bytes);
    assert_true(a.mtime_ns <= b.mtime_ns);
}

static void new_file_appears_on_commit_only(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_dir("new"), 0777), 0);
    stk__new_file f;
    assert_int_equal(stk__new_file_open(&f, in_dir("new/x"), NULL), STK_OK);
    assert_int_equal(stk__new_file_write(&f, "hello", 5, NULL), STK_OK);
    assert_int_equal(access(in_dir("new/x"), F_OK), -1);
    assert_int_equal(stk__new_file_commit(&f, NULL), STK_OK);
    assert_int_equal(entries(in_dir("new")), 1);
    char *data = NULL;
    size_t size = 0;
    assert_int_equal(stk__read_file(in_dir("new/x"), 100, &data, &size, NULL), STK_OK);
    assert_string_equal(data, "hello");
    stk__free(data);
}

static void new_file_abort_leaves_the_old_one(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_dir("old"), 0777), 0);
    put(in_dir("old/x"), "old");
    stk__new_file f;
    assert_int_equal(stk__new_file_open(&f, in_dir("old/x"), NULL), STK_OK);
    assert_int_equal(stk__new_file_write(&f, "new", 3, NULL), STK_OK);
    stk__new_file_abort(&f);
    stk__new_file_abort(&f); /* a second time does nothing */
    assert_int_equal(entries(in_dir("old")), 1);
    char *data = NULL;
    size_t size = 0;
    assert_int_equal(stk__read_file(in_dir("old/x"), 100, &data, &size, NULL), STK_OK);
    assert_string_equal(data, "old");
    stk__free(data);
}

static void write_file_replaces_whole(void **state)
{
    (void)state;
    assert_int_equal(stk__write_file(in_dir("w"), "first", 5, NULL), STK_OK);
    assert_int_equal(stk__write_file(in_dir("w"), "2", 1, NULL), STK_OK);
    char *data = NULL;
    size_t size = 0;
    assert_int_equal(stk__read_file(in_dir("w"), 100, &data, &size, NULL), STK_OK);
    assert_string_equal(data, "2");
    stk__free(data);
}

static void write_file_on_a_full_disk_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_dir("full"), 0777), 0);
    struct rlimit before, small = {1000, 1000};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    static char big[100000];
    stk_error err;
    stk_error_clear(&err);
    const stk_status status = stk__write_file(in_dir("full/x"), big, sizeof big, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, STK_IO);
    assert_string_equal(err.file, in_dir("full/x"));
    assert_int_equal(entries(in_dir("full")), 0);
}

static void new_file_refuses_what_is_no_regular_file(void **state)
{
    (void)state;
    stk__new_file f;
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__new_file_open(&f, "/dev/null", &err), STK_IO);
    assert_non_null(strstr(err.message, "not a regular file"));
    stk_error_clear(&err);
    assert_int_equal(stk__new_file_open(&f, dir, &err), STK_IO);
    assert_non_null(strstr(err.message, "directory"));
    stk_error_clear(&err);
    assert_int_equal(stk__new_file_open(&f, in_dir("no/such/x"), &err), STK_IO);
    assert_string_equal(err.file, in_dir("no/such/x"));
}

static void make_parents_makes_all_above(void **state)
{
    (void)state;
    assert_int_equal(stk__make_parents(in_dir("p/q/r/file"), NULL), STK_OK);
    assert_int_equal(entries(in_dir("p/q")), 1);
    assert_int_equal(entries(in_dir("p/q/r")), 0);
    assert_int_equal(stk__make_parents(in_dir("p/q/r/file"), NULL), STK_OK);
    assert_int_equal(stk__make_parents("plain", NULL), STK_OK);
    put(in_dir("p/flat"), "");
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__make_parents(in_dir("p/flat/x/y"), &err), STK_IO);
    assert_non_null(strstr(err.file, "p/flat"));
}

static void glob_gives_sorted_paths(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_dir("g"), 0777), 0);
    static const char *const names[] = {"g/b2", "g/a1", "g/B1", "g/a10", "g/x[1]"};
    for (size_t i = 0; i < STK_COUNT(names); i++)
        put(in_dir(names[i]), "");
    stk__paths paths = {0};
    assert_int_equal(stk__paths_glob(&paths, in_dir("g/{b*,a*,B*}"), NULL), STK_OK);
    static const char *const want[] = {"g/B1", "g/a1", "g/a10", "g/b2"};
    assert_int_equal(paths.count, STK_COUNT(want));
    for (size_t i = 0; i < paths.count; i++)
        assert_string_equal(paths.items[i], in_dir(want[i]));
    assert_int_equal(stk__paths_glob(&paths, in_dir("g/x[1]"), NULL), STK_OK); /* a name, not a pattern */
    assert_string_equal(paths.items[4], in_dir("g/x[1]"));
    assert_int_equal(stk__paths_glob(&paths, "plain-and-missing", NULL), STK_OK);
    assert_string_equal(paths.items[5], "plain-and-missing");
    stk__paths_clear(&paths);
    assert_null(paths.items);
}

static void assert_expands(const char *pattern, const char *wanted)
{
    stk__paths paths = {0};
    stk__text t = STK__TEXT_INIT;
    stk_error err;
    stk_error_clear(&err);
    if (stk__paths_glob(&paths, pattern, &err) != STK_OK)
        fail_msg("'%s': %s", pattern, err.message);
    for (size_t i = 0; i < paths.count; i++)
        stk__text_printf(&t, "%s%s", i ? " " : "", paths.items[i]);
    assert_string_equal(t.data, wanted);
    stk__text_clear(&t);
    stk__paths_clear(&paths);
}

static void assert_no_paths(const char *pattern, stk_status status, const char *part)
{
    stk__paths paths = {0};
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__paths_glob(&paths, pattern, &err), status);
    if (!strstr(err.message, part))
        fail_msg("'%s' gave '%s', wanted '%s'", pattern, err.message, part);
    stk__paths_clear(&paths);
}

static void braces_stand_for_names(void **state)
{
    (void)state;
    assert_expands("no/{000..003}.tar", "no/000.tar no/001.tar no/002.tar no/003.tar");
    assert_expands("no/{8..11}", "no/8 no/9 no/10 no/11");
    assert_expands("{08..10}{b,a}", "08b 08a 09b 09a 10b 10a");
    assert_expands("{3..1}-{0..10..4}", "3-0 3-4 3-8 2-0 2-4 2-8 1-0 1-4 1-8");
    assert_expands("{x,y{1..2},}z", "xz y1z y2z z");
    assert_expands("{a}{..}{1..}{1..2..0}{", "{a}{..}{1..}{1..2..0}{"); /* parts of a name */
    assert_expands("}{b,c", "}{b,c");
    /* Names that are written out stay, so that a missing one is told; wildcards take what there is. */
    assert_int_equal(mkdir(in_dir("e"), 0777), 0);
    put(in_dir("e/s1.tar"), "");
    put(in_dir("e/{0..1}"), "");
    stk__paths paths = {0};
    assert_int_equal(stk__paths_glob(&paths, in_dir("e/s{2..0}*"), NULL), STK_OK);
    assert_int_equal(paths.count, 1);
    assert_int_equal(stk__paths_glob(&paths, in_dir("e/{0..1}"), NULL), STK_OK);
    assert_int_equal(paths.count, 2);
    assert_string_equal(paths.items[1], in_dir("e/{0..1}"));
    stk__paths_clear(&paths);
    assert_no_paths(in_dir("e/t{0..9}*"), STK_IO, "no file matches");
    assert_no_paths("{0..999999}{a,b}", STK_INVALID, "stand for more than 1000000 names");
    assert_no_paths("{0..1000000}", STK_INVALID, "stand for more than 1000000 names");
    assert_no_paths("{-999999999999999999..999999999999999999}", STK_INVALID, "stand for more than 1000000 names");
}

static void remote_files_are_named_as_such(void **state)
{
    (void)state;
    assert_no_paths("gs://bucket/{000..003}.tar", STK_UNSUPPORTED,
                    "'gs://bucket/{000..003}.tar': remote files (gs://) are not read; copy or mount them first");
    assert_no_paths("https://host/x", STK_UNSUPPORTED, "remote files (https://) are not read");
    assert_no_paths("s3://b/*", STK_UNSUPPORTED, "(s3://)");
    assert_no_paths("pipe:curl -s x", STK_UNSUPPORTED, "commands are not run");
    assert_no_paths("file:///tmp/x", STK_UNSUPPORTED, "wanted the path without file://");
    assert_expands("a:b", "a:b");
    assert_expands("d/x://y", "d/x://y");
}

static void glob_that_matches_nothing_is_an_error(void **state)
{
    (void)state;
    stk__paths paths = {0};
    stk_error err;
    stk_error_clear(&err);
    assert_int_equal(stk__paths_glob(&paths, in_dir("nothing-*"), &err), STK_IO);
    assert_non_null(strstr(err.message, "nothing-*"));
    stk_error_clear(&err);
    assert_int_equal(stk__paths_glob(&paths, in_dir("no-such-dir/*"), &err), STK_IO);
    assert_non_null(strstr(err.message, "no file matches"));
    stk__paths_clear(&paths);
}

static void glob_does_not_pass_over_an_unreadable_directory(void **state)
{
    (void)state;
    if (geteuid() == 0)
        skip(); /* root reads everything */
    assert_int_equal(stk__make_parents(in_dir("u/1/x"), NULL), STK_OK);
    assert_int_equal(mkdir(in_dir("u/2"), 0), 0);
    put(in_dir("u/1/x"), "");
    stk__paths paths = {0};
    assert_int_equal(stk__paths_glob(&paths, in_dir("u/*/*"), NULL), STK_IO);
    stk__paths_clear(&paths);
    chmod(in_dir("u/2"), 0777);
}

static void file_calls_survive_every_failed_allocation(void **state)
{
    (void)state;
    put(in_dir("oom"), "text");
    for (uint64_t n = 1; n < 40; n++) {
        char *data = NULL;
        size_t size;
        stk__paths paths = {0};
        stk__alloc_fail_at(n, true);
        const stk_status a = stk__read_file(in_dir("oom"), 100, &data, &size, NULL);
        const stk_status b = stk__write_file(in_dir("oom"), "text", 4, NULL);
        const stk_status c = stk__paths_glob(&paths, in_dir("oo*"), NULL);
        const stk_status d = stk__make_parents(in_dir("oom"), NULL);
        stk__alloc_fail_at(0, false);
        assert_true(a == STK_OK || a == STK_NOMEM);
        assert_true(b == STK_OK || b == STK_NOMEM);
        assert_true(c == STK_OK || c == STK_NOMEM);
        assert_true(d == STK_OK || d == STK_NOMEM);
        assert_true(n < 39 || (a == STK_OK && c == STK_OK && d == STK_OK));
        stk__free(data);
        stk__paths_clear(&paths);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_file_reads_all_with_a_zero_at_the_end),
        cmocka_unit_test(read_file_refuses_too_large_missing_and_directory),
        cmocka_unit_test(pread_full_tells_where_the_file_ends),
        cmocka_unit_test(file_id_changes_with_the_content),
        cmocka_unit_test(new_file_appears_on_commit_only),
        cmocka_unit_test(new_file_abort_leaves_the_old_one),
        cmocka_unit_test(write_file_replaces_whole),
        cmocka_unit_test(write_file_on_a_full_disk_leaves_nothing),
        cmocka_unit_test(new_file_refuses_what_is_no_regular_file),
        cmocka_unit_test(make_parents_makes_all_above),
        cmocka_unit_test(glob_gives_sorted_paths),
        cmocka_unit_test(braces_stand_for_names),
        cmocka_unit_test(remote_files_are_named_as_such),
        cmocka_unit_test(glob_that_matches_nothing_is_an_error),
        cmocka_unit_test(glob_does_not_pass_over_an_unreadable_directory),
        cmocka_unit_test(file_calls_survive_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
