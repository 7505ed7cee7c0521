/* Builds that are kept: each commit once, whatever ends in between; locked ones stay; the oldest go. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench/builds.h"
#include "bench/tree.h"
#include "git_group.h"

static char dir[64], folder[96], count_command[160];

#define COMMIT "git -c user.name=t -c user.email=t@t commit -q "

/* A repository of three commits, in which the test stands; "value" holds 1, 2, 3. */
static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/stoker test-builds-XXXXXX");
    if (!mkdtemp(dir) || chdir(dir))
        return -1;
    snprintf(folder, sizeof folder, "%s/cache/builds", dir);
    snprintf(count_command, sizeof count_command, "cat value >> '%s/count' && cp value built", dir);
    shell("git init -q repo && cd repo && mkdir sub && for i in 1 2 3; do echo $i > value && echo $i > sub/file && "
          "git add . && " COMMIT "-m c$i; done && git tag v1 HEAD~2");
    return chdir("repo");
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return fchdir(home) || system(command);
}

static stk__builds builds_open(const char *command)
{
    stk__builds b;
    stk_error err = {0};
    if (stk__builds_open(launcher, folder, command, &b, &err) != STK_OK)
        fail_msg("%s", err.message);
    return b;
}

static stk__commit commit_of(const char *revision)
{
    stk__commit c;
    assert_int_equal(stk__git_resolve(launcher, revision, &c, NULL), STK_OK);
    return c;
}

static stk__build take(const stk__builds *b, const char *revision, bool again)
{
    stk__build build = {.lock = -1};
    stk_error err = {0};
    const stk__commit c = commit_of(revision);
    if (stk__build_take(launcher, b, &c, again, &build, &err) != STK_OK)
        fail_msg("%s", err.message);
    return build;
}

static void assert_content(const char *directory, const char *name, const char *text)
{
    char path[400], *data = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (stk__read_file(path, 1 << 20, &data, &size, NULL) != STK_OK)
        fail_msg("cannot read %s", path);
    assert_string_equal(data, text);
    stk__free(data);
}

static void builds_are_made_once(void **state)
{
    (void)state;
    stk__builds b = builds_open(count_command);
    stk__build first = take(&b, "v1", false), second = take(&b, "HEAD", false);
    assert_true(first.made && second.made);
    assert_int_equal(strlen(first.directory), strlen(second.directory));
    assert_content(first.directory, "built", "1\n");
    assert_content(second.directory, "built", "3\n");
    stk__build_release(&first);
    stk__build_release(&second);
    first = take(&b, "HEAD~2", false);
    assert_false(first.made);
    assert_content(first.directory, "built", "1\n");
    stk__build_release(&first);
    assert_content(dir, "count", "1\n3\n");
    first = take(&b, "v1", true);
    assert_true(first.made);
    stk__build_release(&first);
    assert_content(dir, "count", "1\n3\n1\n");
    stk__builds_close(&b);
    /* The repository knows nothing of it. */
    shell("test $(git worktree list | wc -l) = 1 && test ! -e .git/worktrees && test -z \"$(git status -s)\"");
}

static void another_command_or_place_is_another_build(void **state)
{
    (void)state;
    stk__builds b = builds_open("echo one > built"), other = builds_open("echo two > built"), none = builds_open(NULL);
    stk__build x = take(&b, "HEAD", false), y = take(&other, "HEAD", false), z = take(&none, "HEAD", false);
    assert_content(x.directory, "built", "one\n");
    assert_content(y.directory, "built", "two\n");
    assert_content(z.directory, "value", "3\n");
    assert_int_equal(chdir("sub"), 0);
    stk__builds below = builds_open("echo one > built");
    stk__build w = take(&below, "HEAD", false);
    assert_true(w.made);
    assert_content(w.directory, "file", "3\n");
    assert_content(w.directory, "built", "one\n");
    stk__build *all[] = {&x, &y, &z, &w};
    for (size_t i = 0; i < STK_COUNT(all); i++)
        stk__build_release(all[i]);
    stk__builds *open[] = {&b, &other, &none, &below};
    for (size_t i = 0; i < STK_COUNT(open); i++)
        stk__builds_close(open[i]);
}

static void failed_builds_are_remembered(void **state)
{
    (void)state;
    char command[200];
    snprintf(command, sizeof command, "cat value >> '%s/count'; echo 'no \033[31mluck' >&2; exit 7", dir);
    stk__builds b = builds_open(command);
    for (int i = 0; i < 2; i++) {
        stk__build build = take(&b, "HEAD", false);
        assert_null(build.directory);
        assert_non_null(strstr(build.failure, "exit code 7"));
        assert_non_null(strstr(build.failure, "luck"));
        assert_int_equal(build.made, i == 0);
        stk__build_release(&build);
    }
    assert_content(dir, "count", "3\n");
    stk__builds_close(&b);
}

static void half_made_builds_are_made_again(void **state)
{
    (void)state;
    stk__builds b = builds_open(count_command);
    stk__build build = take(&b, "HEAD", false);
    char command[300];
    stk__build_release(&build);
    snprintf(command, sizeof command, "rm '%s'/*/build && touch '%s'/x", folder, folder);
    shell(command);
    build = take(&b, "HEAD", false);
    assert_true(build.made);
    stk__build_release(&build);
    /* What stands in the file is not trusted. */
    static const char *const notes[] = {"",
                                        "stoker build 1\n",
                                        "stoker build 2\nbuilt 4\n",
                                        "stoker build 1\nbuilt -4\n",
                                        "stoker build 1\nbuilt 1x\n",
                                        "stoker build 1\nmaybe\n"};
    for (size_t i = 0; i < STK_COUNT(notes); i++) {
        snprintf(command, sizeof command, "printf '%s' > \"$(echo '%s'/*/build)\"", notes[i], folder);
        shell(command);
        build = take(&b, "HEAD", false);
        assert_true(build.made);
        stk__build_release(&build);
    }
    stk__builds_close(&b);
}

static size_t entries(void)
{
    char command[300];
    snprintf(command, sizeof command, "ls '%s' | wc -l > ../entries", folder);
    shell(command);
    char *data = NULL;
    size_t size = 0;
    assert_int_equal(stk__read_file("../entries", 100, &data, &size, NULL), STK_OK);
    const size_t n = (size_t)atoi(data);
    stk__free(data);
    return n;
}

static void trimming_takes_the_oldest_and_none_in_use(void **state)
{
    (void)state;
    stk__builds b = builds_open(count_command);
    static const char *const names[] = {"HEAD~2", "HEAD~1", "HEAD"};
    stk__build held = {.lock = -1};
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        stk__build build = take(&b, names[i], false);
        if (i == 0)
            held = build;
        else
            stk__build_release(&build);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    stk__builds_trim(folder, 10, UINT64_MAX);
    assert_int_equal(entries(), 3);
    stk__builds_trim(folder, 1, UINT64_MAX);
    assert_int_equal(entries(), 2); /* the newest, and the oldest, which is in use */
    assert_content(held.directory, "built", "1\n");
    stk__build_release(&held);
    stk__builds_trim(folder, 10, 1);
    assert_int_equal(entries(), 0);
    stk__build build = take(&b, "HEAD", false);
    assert_true(build.made);
    stk__build_release(&build);
    /* Half-made ones go, other files stay. */
    char command[400];
    snprintf(command, sizeof command, "rm '%s'/*/build && touch '%s'/mine", folder, folder);
    shell(command);
    stk__builds_trim(folder, 10, UINT64_MAX);
    assert_int_equal(entries(), 1);
    stk__builds_trim("/nowhere/at/all", 0, 0);
    stk__builds_close(&b);
}

static bool give_up(void *context)
{
    return --*(int *)context > 0;
}

static void who_builds_is_waited_for(void **state)
{
    (void)state;
    stk__builds b = builds_open(count_command);
    stk__build held = take(&b, "HEAD", false), second = take(&b, "HEAD", false);
    assert_string_equal(held.directory, second.directory); /* many may use it */
    char path[200];
    snprintf(path, sizeof path, "%s/..", held.directory);
    stk__build_release(&held);
    stk__build_release(&second);
    int left = 3;
    b.wait = give_up;
    b.context = &left;
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0); /* as one that builds it has it */
    const stk__commit c = commit_of("HEAD");
    stk__build build = {.lock = -1};
    assert_int_equal(stk__build_take(launcher, &b, &c, false, &build, NULL), STK_CANCELLED);
    assert_int_equal(left, 0);
    stk__builds_trim(folder, 0, 0);
    assert_int_equal(entries(), 1);
    close(fd);
    left = 3;
    assert_int_equal(stk__build_take(launcher, &b, &c, false, &build, NULL), STK_OK);
    assert_false(build.made);
    /* Nobody builds where others run. */
    stk__build again = {.lock = -1};
    assert_int_equal(stk__build_take(launcher, &b, &c, true, &again, NULL), STK_CANCELLED);
    stk__build_release(&build);
    stk__builds_close(&b);
}

static void allocations_that_fail_leave_no_wrong_build(void **state)
{
    (void)state;
    stk__builds b = builds_open(count_command);
    const stk__commit c = commit_of("HEAD");
    stk_status status = STK_NOMEM;
    for (uint64_t n = 1; status != STK_OK; n += 3) {
        assert_true(n < 1000);
        stk__build build = {.lock = -1};
        stk__alloc_fail_at(n, false);
        status = stk__build_take(launcher, &b, &c, true, &build, NULL);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK)
            stk__build_release(&build);
    }
    stk__build build = take(&b, "HEAD", false);
    assert_false(build.made);
    assert_content(build.directory, "built", "3\n");
    stk__build_release(&build);
    stk__builds_close(&b);
}

static void trees_have_sizes(void **state)
{
    (void)state;
    shell("mkdir -p ../t/a/b && head -c 100000 /dev/zero > ../t/a/b/x && ln -s / ../t/root");
    const uint64_t bytes = stk__tree_bytes("../t");
    assert_true(bytes >= 100000 && bytes < 1000000);
    assert_int_equal(stk__tree_bytes("../nothing"), 0);
    stk__tree_remove("../t");
    assert_int_equal(access("../t", F_OK), -1);
    stk__tree_remove("../t");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(builds_are_made_once),
        TEST(another_command_or_place_is_another_build),
        TEST(failed_builds_are_remembered),
        TEST(half_made_builds_are_made_again),
        TEST(trimming_takes_the_oldest_and_none_in_use),
        TEST(who_builds_is_waited_for),
        TEST(allocations_that_fail_leave_no_wrong_build),
        TEST(trees_have_sizes),
    };
    return cmocka_run_group_tests(tests, git_group_setup, git_group_teardown);
}
