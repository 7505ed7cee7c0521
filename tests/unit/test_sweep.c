/* Hidden names of what is being written; leftovers of killed writers go, living ones stay. */
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"

static char dir[64];

static const char *in_dir(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/stoker-test-sweep-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return stk__remove_tree(dir) ? 0 : -1;
}

/* Entries whose name ends so. */
static int count(const char *suffix)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    int n = 0;
    for (const struct dirent *e; (e = readdir(d));) {
        const size_t length = strlen(e->d_name), tail = strlen(suffix);
        n += length >= tail && strcmp(e->d_name + length - tail, suffix) == 0;
    }
    closedir(d);
    return n;
}

/* Runs in a process of its own, which has swept nothing yet; true: it ended with 0. */
static bool in_child(void (*body)(void))
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void begin_and_die(void)
{
    stk__new_file f;
    stk__new_dir d;
    if (stk__new_file_open(&f, in_dir("part-00000"), NULL) != STK_OK ||
        stk__new_file_write(&f, "x", 1, NULL) != STK_OK || fflush(f.stream) ||
        stk__new_dir_open(&d, in_dir("tree"), NULL) != STK_OK)
        _exit(1);
    char inner[600];
    snprintf(inner, sizeof inner, "%s/a/b/c", d.temp);
    if (stk__make_parents(inner, NULL) != STK_OK || stk__write_file(inner, "y", 1, NULL) != STK_OK)
        _exit(1);
    kill(getpid(), SIGKILL);
}

static void write_one(void)
{
    if (stk__write_file(in_dir("next"), "z", 1, NULL) != STK_OK)
        _exit(1);
}

static void what_a_killed_writer_left_goes_with_the_next_write(void **state)
{
    (void)state;
    assert_false(in_child(begin_and_die));
    assert_int_equal(count(STK__TEMP_SUFFIX), 2);
    assert_true(in_child(write_one));
    assert_int_equal(count(STK__TEMP_SUFFIX), 0);
    assert_int_equal(count("next"), 1);
}

/* Opens, tells so, waits for a word, commits. */
static void hold_and_commit(int tell, int wait)
{
    stk__new_file f;
    stk__new_dir d;
    char word = 'x';
    const bool opened = stk__new_file_open(&f, in_dir("file"), NULL) == STK_OK &&
                        stk__new_dir_open(&d, in_dir("tree//"), NULL) == STK_OK;
    if (!opened || write(tell, &word, 1) != 1 || read(wait, &word, 1) != 1)
        _exit(1);
    _exit(stk__new_file_commit(&f, NULL) == STK_OK && stk__new_dir_commit(&d, NULL) == STK_OK ? 0 : 1);
}

static void what_is_being_written_stays(void **state)
{
    (void)state;
    int told[2], go[2], status;
    char word;
    assert_int_equal(pipe(told) + pipe(go), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(go[1]); /* so that it ends when we do */
        hold_and_commit(told[1], go[0]);
    }
    assert_int_equal(read(told[0], &word, 1), 1);
    assert_true(in_child(write_one));
    assert_int_equal(count(STK__TEMP_SUFFIX), 2);
    assert_int_equal(write(go[1], &word, 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(count(STK__TEMP_SUFFIX), 0);
    assert_int_equal(count("file") + count("tree"), 2);
    for (int i = 0; i < 2; i++)
        close(told[i]), close(go[i]);
}

static void links_and_pipes_of_such_a_name_are_left_alone(void **state)
{
    (void)state;
    char target[600], planted[600];
    snprintf(target, sizeof target, "%s/victim", dir);
    const int fd = open(target, O_WRONLY | O_CREAT, 0600); /* not by us, or the directory were swept already */
    assert_int_equal(write(fd, "precious", 8), 8);
    close(fd);
    snprintf(planted, sizeof planted, "%s/.file.0123456789abcdef%s", dir, STK__TEMP_SUFFIX);
    assert_int_equal(symlink(target, planted), 0);
    snprintf(planted, sizeof planted, "%s/.pipe.0123456789abcdef%s", dir, STK__TEMP_SUFFIX);
    assert_int_equal(mkfifo(planted, 0600), 0);
    assert_true(in_child(write_one));
    assert_int_equal(count(STK__TEMP_SUFFIX), 2);
    char *text;
    size_t size;
    assert_int_equal(stk__read_file(target, 100, &text, &size, NULL), STK_OK);
    assert_string_equal(text, "precious");
    stk__free(text);
}

static void kept_and_published_things_are_no_leftovers(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_dir(".part.0123456789abcdef" STK__KEPT_SUFFIX), 0700), 0);
    assert_int_equal(mkdir(in_dir(".part" STK__PUBLISH_SUFFIX), 0700), 0);
    assert_true(in_child(write_one));
    assert_int_equal(count(STK__KEPT_SUFFIX) + count(STK__PUBLISH_SUFFIX), 2);
}

static void temporary_names_are_known(void **state)
{
    (void)state;
    char *name = stk__hidden_name("out/part-00000", STK__TEMP_SUFFIX);
    assert_int_equal(strncmp(name, "out/.part-00000.", 16), 0);
    assert_true(stk__is_temporary(name + 4));
    char *other = stk__hidden_name("out/part-00000", STK__TEMP_SUFFIX);
    assert_string_not_equal(name, other);
    stk__free(name);
    stk__free(other);
    assert_true(stk__is_temporary(".part" STK__PUBLISH_SUFFIX));
    assert_false(stk__is_temporary("part" STK__TEMP_SUFFIX));
    assert_false(stk__is_temporary(STK__TEMP_SUFFIX));
    assert_false(stk__is_temporary(".part"));
}

static void names_as_long_as_can_be_are_shortened(void **state)
{
    (void)state;
    char path[512], name[256];
    memset(name, 'n', sizeof name - 1);
    name[255] = 0;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(stk__write_file(path, "1", 1, NULL), STK_OK);
    assert_int_equal(count(name), 1);
    assert_int_equal(count(STK__TEMP_SUFFIX), 0);
}

static void a_directory_takes_the_place_of_an_empty_one_only(void **state)
{
    (void)state;
    stk__new_dir d;
    stk_error err;
    assert_int_equal(mkdir(in_dir("tree"), 0777), 0);
    assert_int_equal(stk__new_dir_open(&d, in_dir("tree"), NULL), STK_OK);
    assert_int_equal(stk__new_dir_commit(&d, NULL), STK_OK);
    assert_int_equal(stk__write_file(in_dir("tree/x"), "1", 1, NULL), STK_OK);
    assert_int_equal(stk__new_dir_open(&d, in_dir("tree"), NULL), STK_OK);
    stk_error_clear(&err);
    assert_int_equal(stk__new_dir_commit(&d, &err), STK_IO);
    assert_non_null(strstr(err.message, "cannot rename into place"));
    stk__new_dir_abort(&d);
    stk__new_dir_abort(&d);
    assert_int_equal(count(STK__TEMP_SUFFIX), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_a_killed_writer_left_goes_with_the_next_write),
        TEST(what_is_being_written_stays),
        TEST(links_and_pipes_of_such_a_name_are_left_alone),
        TEST(kept_and_published_things_are_no_leftovers),
        TEST(temporary_names_are_known),
        TEST(names_as_long_as_can_be_are_shortened),
        TEST(a_directory_takes_the_place_of_an_empty_one_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
