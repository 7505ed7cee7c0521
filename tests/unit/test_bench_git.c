/* Commits and checkouts: what git says, and that nothing of the user's is touched or left behind. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "bench/git.h"
#include "git_group.h"

static char dir[64];

static int group_setup(void **state)
{
    setenv("GIT_AUTHOR_DATE", "2026-08-14T10:00:00Z", 1);
    setenv("GIT_COMMITTER_DATE", "2026-08-14T10:00:00Z", 1);
    return git_group_setup(state);
}

/* An empty directory, in which the test stands. */
static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/stoker-test-git-XXXXXX");
    return mkdtemp(dir) ? chdir(dir) : -1;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return fchdir(home) || system(command);
}

#define COMMIT "git -c user.name=t -c user.email=t@t commit -q "

/* Two commits: "value" holds 1, then 2; "sub" is there in both, "late" in the second only. */
static void make_repository(void)
{
    shell("git init -q . && mkdir sub && echo 1 > value && echo s > sub/file && echo same > other && "
          "git add . && " COMMIT "-m first");
    shell("mkdir late && echo 2 > value && echo l > late/file && git add . && " COMMIT "-m \"the 'second' one\"");
}

static char *slurp(const char *path)
{
    char *data = NULL;
    size_t size = 0;
    if (stk__read_file(path, 1 << 20, &data, &size, NULL) != STK_OK)
        fail_msg("cannot read %s", path);
    return data;
}

static void assert_content(const char *directory, const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    char *data = slurp(path);
    assert_string_equal(data, text);
    stk__free(data);
}

/* All that a user could miss: index, branches, working tree, worktrees, stashes. */
static char *everything(void)
{
    shell("{ cksum .git/index; git for-each-ref; git worktree list --porcelain; git stash list; "
          "git --no-optional-locks status --porcelain; "
          "cat .git/HEAD .git/config; ls -R . ; ls .git; ls .git/worktrees 2>/dev/null; } > ../all-$$ 2>&1; "
          "mv ../all-$$ .git/all");
    char *text = slurp(".git/all");
    unlink(".git/all");
    return text;
}

static void checkouts_ok(const char *against, const char *candidate, stk__checkouts *out)
{
    stk_error err = {0};
    *out = (stk__checkouts){0};
    if (stk__git_checkouts(launcher, against, candidate, out, &err) != STK_OK)
        fail_msg("%s", err.message);
}

/* ---- the commit at hand ---- */

static void here_without_repository_has_no_hash(void **state)
{
    (void)state;
    stk__commit c = {.hash = "x"};
    stk_error err = {0};
    assert_int_equal(stk__git_here(launcher, NULL, &c, &err), STK_OK);
    assert_string_equal(c.hash, "");
    assert_false(c.dirty);
    assert_int_equal(err.status, STK_OK);
    assert_string_equal(err.message, "");
    shell("git init -q .");
    assert_int_equal(stk__git_here(launcher, NULL, &c, &err), STK_OK);
    assert_string_equal(c.hash, "");
}

static void here_tells_the_commit(void **state)
{
    (void)state;
    make_repository();
    shell("git rev-parse HEAD HEAD~1 > .git/hashes");
    char *hashes = slurp(".git/hashes");
    stk__commit c;
    assert_int_equal(stk__git_here(launcher, NULL, &c, NULL), STK_OK);
    assert_memory_equal(c.hash, hashes, 40);
    assert_int_equal(strlen(c.hash), 40);
    assert_memory_equal(c.parent, hashes + 41, 40);
    assert_int_equal(strlen(c.parent), 40);
    assert_true(strlen(c.brief) >= 4 && strncmp(c.brief, c.hash, strlen(c.brief)) == 0);
    assert_false(c.dirty);
    assert_int_equal(c.time_s, 1786701600);
    assert_string_equal(c.subject, "the 'second' one");
    stk__free(hashes);
    assert_int_equal(stk__git_here(launcher, "sub", &c, NULL), STK_OK);
    assert_int_equal(strlen(c.hash), 40);
}

static void here_is_dirty_only_through_tracked_files(void **state)
{
    (void)state;
    make_repository();
    stk__commit c;
    shell("echo new > untracked && touch value");
    assert_int_equal(stk__git_here(launcher, NULL, &c, NULL), STK_OK);
    assert_false(c.dirty);
    shell("echo 3 > value");
    assert_int_equal(stk__git_here(launcher, NULL, &c, NULL), STK_OK);
    assert_true(c.dirty);
    shell("git checkout -q value && echo x > staged && git add staged");
    assert_int_equal(stk__git_here(launcher, NULL, &c, NULL), STK_OK);
    assert_true(c.dirty);
}

static void the_change_log_itself_makes_nothing_dirty(void **state)
{
    (void)state;
    make_repository();
    shell("cd sub && printf '# Log\\n\\n<!-- stoker bench log 1 -->\\n' > PERF.md && echo x > PERF.csv && "
          "echo y > o.md && "
          "echo z > o.csv && git add . && " COMMIT "-m logs && echo more >> PERF.md && echo more >> PERF.csv");
    stk__commit c;
    assert_int_equal(stk__git_here(launcher, NULL, &c, NULL), STK_OK);
    assert_int_equal(strlen(c.hash), 40);
    assert_false(c.dirty);
    assert_int_equal(stk__git_here(launcher, "late", &c, NULL), STK_OK);
    assert_false(c.dirty);
    shell("echo more >> sub/o.csv");
    assert_int_equal(stk__git_here(launcher, NULL, &c, NULL), STK_OK);
    assert_true(c.dirty);
    shell("git checkout -q sub/o.csv && echo more >> sub/o.md");
    assert_int_equal(stk__git_here(launcher, "sub", &c, NULL), STK_OK);
    assert_true(c.dirty);
}

static void first_commit_has_no_parent_and_a_long_subject_is_cut(void **state)
{
    (void)state;
    shell("git init -q . && echo 1 > a && git add a && " COMMIT "-m \"$(printf '\\303\\244%.0s' $(seq 150))\"");
    stk__commit c;
    assert_int_equal(stk__git_here(launcher, NULL, &c, NULL), STK_OK);
    assert_string_equal(c.parent, "");
    /* 199 bytes would end in half a character */
    assert_int_equal(strlen(c.subject), 198);
}

static void merge_has_its_first_parent(void **state)
{
    (void)state;
    make_repository();
    shell("git checkout -q -b side HEAD~1 && echo x > x && git add x && " COMMIT "-m side && git checkout -q - && "
          "git -c user.name=t -c user.email=t@t merge -q -m merged side && git rev-parse HEAD^1 > .git/first");
    char *first = slurp(".git/first");
    stk__commit c;
    assert_int_equal(stk__git_here(launcher, NULL, &c, NULL), STK_OK);
    assert_memory_equal(c.parent, first, 40);
    assert_int_equal(strlen(c.parent), 40);
    stk__free(first);
}

static void resolve_knows_every_kind_of_name(void **state)
{
    (void)state;
    make_repository();
    shell("git -c user.name=t -c user.email=t@t tag -m note v1 HEAD~1 && git branch \"it's\" HEAD~1");
    static const char *const names[] = {"HEAD~1", "v1", "it's", "HEAD^", ":/first"};
    stk__commit head, c;
    assert_int_equal(stk__git_here(launcher, NULL, &head, NULL), STK_OK);
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        stk_error err = {0};
        if (stk__git_resolve(launcher, names[i], &c, &err) != STK_OK)
            fail_msg("%s: %s", names[i], err.message);
        assert_string_equal(c.hash, head.parent);
        assert_string_equal(c.subject, "first");
        assert_false(c.dirty);
    }
}

static void resolve_refuses_what_is_no_commit(void **state)
{
    (void)state;
    make_repository();
    static const char *const names[] = {
        "nope",
        "",
        "-x",
        "--all",
        "--output=owned",
        "HEAD:value",
        "HEAD~1..HEAD",
        "$(touch owned)",
        "'; touch owned; '",
        "a\nb",
        "HEAD; touch owned",
        "^HEAD",
    };
    for (size_t i = 0; i < STK_COUNT(names); i++) {
        stk__commit c = {.hash = "before"};
        stk_error err = {0};
        assert_int_equal(stk__git_resolve(launcher, names[i], &c, &err), STK_INVALID);
        assert_true(strlen(err.message) > 0);
        assert_string_equal(c.hash, "before");
    }
    assert_int_equal(access("owned", F_OK), -1);
    stk_error err = {0};
    stk__commit c;
    stk__git_resolve(launcher, "nope", &c, &err);
    assert_non_null(strstr(err.message, "'nope'"));
    assert_non_null(strstr(err.message, "fatal: "));
}

/* ---- ranges ---- */

static void range_ok(const char *range, size_t every, stk__commits *out)
{
    stk_error err = {0};
    if (stk__git_range(launcher, range, every, out, &err) != STK_OK)
        fail_msg("%s: %s", range, err.message);
}

static void assert_subjects(const char *range, size_t every, const char *wanted)
{
    stk__commits c = {0};
    char text[400] = "";
    stk__text t;
    stk__text_fixed(&t, text, sizeof text);
    range_ok(range, every, &c);
    for (size_t i = 0; i < c.count; i++)
        stk__text_printf(&t, "%s%s", i ? " " : "", c.items[i].subject);
    stk__commits_clear(&c);
    assert_string_equal(text, wanted);
}

/* 1 to 6 in a line; "side" leaves it at 2 with s1 and s2, and 5 is the merge of that. */
static void make_line(void)
{
    shell("git init -q . && git checkout -q -b main && for i in 1 2 3; do echo $i > v && git add v && " COMMIT
          "-m $i; done");
    shell("git checkout -q -b side HEAD~1 && for i in s1 s2; do echo $i > s && git add s && " COMMIT "-m $i; done");
    shell("git checkout -q main && echo 4 > v && " COMMIT "-a -m 4 && "
          "git -c user.name=t -c user.email=t@t merge -q -m 5 side && echo 6 > v && " COMMIT "-a -m 6");
}

static void range_is_the_line_of_first_parents(void **state)
{
    (void)state;
    make_line();
    assert_subjects("main~4..main", 1, "2 3 4 5 6");
    assert_subjects("main~2..", 0, "4 5 6");
    shell("git checkout -q main~3");
    assert_subjects("..main", 1, "3 4 5 6");
    assert_subjects("main~5..main", 2, "1 2 4 6");
    assert_subjects("main~5..main", 100, "1 6");
}

static void range_from_a_side_branch_begins_where_it_left(void **state)
{
    (void)state;
    make_line();
    stk__commits c = {0};
    range_ok("main~1..main", 1, &c);
    assert_false(c.elsewhere);
    stk__commits_clear(&c);
    /* 2 is in side: the line goes on after it. */
    assert_subjects("side..main", 1, "2 3 4 5 6");
    range_ok("side..main", 1, &c);
    assert_true(c.elsewhere);
    stk__commits_clear(&c);
    assert_subjects("main~3..side", 1, "2 s1 s2");
    /* Another history altogether: its first commit is what the others are compared with. */
    shell("git checkout -q --orphan other && for i in o1 o2 o3; do echo $i > v && git add v && " COMMIT "-m $i; done");
    assert_subjects("main..other", 1, "o1 o2 o3");
}

static void wrong_ranges_are_told(void **state)
{
    (void)state;
    make_line();
    static const struct {
        const char *range, *words;
    } wrong[] = {
        {"main", "wanted two commits"},
        {"..", "wanted two commits"},
        {"", "wanted two commits"},
        {"main~2...main", "three dots"},
        {"nope..main", "'nope'"},
        {"main..nope", "'nope'"},
        {"main..main", "both ends are"},
        {"main..main~2", "the older end first"},
        {"main..side", "the older end first"},
        {"--all..main", "--all"},
        {"$(touch owned)..main", "touch owned"},
    };
    for (size_t i = 0; i < STK_COUNT(wrong); i++) {
        stk__commits c = {0};
        stk_error err = {0};
        assert_int_equal(stk__git_range(launcher, wrong[i].range, 1, &c, &err), STK_INVALID);
        if (!strstr(err.message, wrong[i].words))
            fail_msg("%s: %s", wrong[i].range, err.message);
        assert_null(c.items);
    }
    assert_int_equal(access("owned", F_OK), -1);
}

static void shallow_clones_are_told(void **state)
{
    (void)state;
    make_line();
    shell("git clone -q --depth 3 --branch main \"file://$PWD\" shallow");
    assert_int_equal(chdir("shallow"), 0);
    assert_subjects("main~2..main", 1, "4 5 6");
    stk__commits c = {0};
    stk_error err = {0};
    assert_int_equal(stk__git_range(launcher, "main~5..main", 1, &c, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "git fetch --unshallow"));
}

static void long_ranges_are_read_whole(void **state)
{
    (void)state;
    /* Subjects of 200 bytes: more than is kept of what a command prints. */
    shell("git init -q . && git checkout -q -b main && s=$(printf 'x%.0s' $(seq 190)) && for i in $(seq 0 400); do "
          "printf 'commit refs/heads/main\\ncommitter t <t@t> %d +0000\\ndata <<E\\n%d %s\\nE\\n' $i $i $s; done | "
          "git fast-import --quiet");
    stk__commits c = {0};
    range_ok("main~400..main", 1, &c);
    assert_int_equal(c.count, 401);
    assert_int_equal(strncmp(c.items[0].subject, "0 x", 3), 0);
    assert_int_equal(strncmp(c.items[400].subject, "400 x", 5), 0);
    for (size_t i = 1; i < c.count; i++)
        assert_string_equal(c.items[i].parent, c.items[i - 1].hash);
    stk__commits_clear(&c);
    shell("for i in $(seq 700); do printf 'commit refs/heads/more\\ncommitter t <t@t> 5 +0000\\ndata <<E\\n%d\\nE\\n' "
          "$i; test $i = 1 && echo 'from refs/heads/main'; done | sed '/^$/d' | git fast-import --quiet");
    stk_error err = {0};
    assert_int_equal(stk__git_range(launcher, "main~400..more", 1, &c, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "more than 1000 commits"));
}

/* ---- checkouts ---- */

static void checkouts_hold_both_commits_and_leave_nothing(void **state)
{
    (void)state;
    make_repository();
    char *before = everything();
    stk__checkouts c;
    checkouts_ok("HEAD~1", NULL, &c);
    /* The repository knows nothing of them: what ends at any moment leaves nothing there. */
    char *meanwhile = everything();
    assert_string_equal(before, meanwhile);
    stk__free(meanwhile);
    assert_int_equal(strlen(c.directories[0]), strlen(c.directories[1]));
    assert_string_not_equal(c.directories[0], c.directories[1]);
    assert_content(c.directories[0], "value", "1\n");
    assert_content(c.directories[1], "value", "2\n");
    assert_string_equal(c.commits[0].subject, "first");
    assert_string_equal(c.commits[0].hash, c.commits[1].parent);
    assert_false(c.commits[1].dirty);
    char root[64];
    snprintf(root, sizeof root, "%s", c.root);
    /* Files that builds leave, also such as cannot be removed at once; what links lead to stays. */
    char command[400];
    snprintf(command, sizeof command,
             "mkdir -p %s/made/deep && echo x > %s/made/deep/x && chmod 500 %s/made/deep && ln -s %s/sub %s/made/link",
             c.directories[0], c.directories[0], c.directories[0], dir, c.directories[0]);
    shell(command);
    stk__checkouts_clear(&c);
    assert_null(c.root);
    assert_int_equal(access(root, F_OK), -1);
    assert_content("sub", "file", "s\n");
    char *after = everything();
    assert_string_equal(before, after);
    stk__free(before);
    stk__free(after);
}

static void checkouts_take_changes_of_tracked_files(void **state)
{
    (void)state;
    make_repository();
    shell("echo 3 > value && echo staged > staged && git add staged && echo 4 > staged && rm other && "
          "echo no > untracked");
    char *before = everything();
    stk__checkouts c;
    checkouts_ok("HEAD", NULL, &c);
    assert_true(c.commits[1].dirty);
    assert_false(c.commits[0].dirty);
    assert_string_equal(c.commits[0].hash, c.commits[1].hash);
    assert_content(c.directories[0], "value", "2\n");
    assert_content(c.directories[1], "value", "3\n");
    assert_content(c.directories[1], "staged", "4\n");
    char path[300];
    snprintf(path, sizeof path, "%s/other", c.directories[1]);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof path, "%s/untracked", c.directories[1]);
    assert_int_equal(access(path, F_OK), -1);
    stk__checkouts_clear(&c);
    char *after = everything();
    assert_string_equal(before, after);
    stk__free(before);
    stk__free(after);
    assert_content(".", "value", "3\n");
}

static void a_named_candidate_is_taken_without_changes(void **state)
{
    (void)state;
    make_repository();
    shell("echo 3 > value");
    stk__checkouts c;
    checkouts_ok("HEAD~1", "HEAD", &c);
    assert_content(c.directories[1], "value", "2\n");
    assert_false(c.commits[1].dirty);
    stk__checkouts_clear(&c);
}

static void checkouts_start_in_the_same_directory(void **state)
{
    (void)state;
    make_repository();
    assert_int_equal(chdir("sub"), 0);
    stk__checkouts c;
    checkouts_ok("HEAD~1", NULL, &c);
    assert_content(c.directories[0], "file", "s\n");
    assert_content(c.directories[1], "../value", "2\n");
    stk__checkouts_clear(&c);
    assert_int_equal(chdir("../late"), 0);
    stk_error err = {0};
    assert_int_equal(stk__git_checkouts(launcher, "HEAD~1", NULL, &c, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "has no directory 'late/'"));
    shell("test $(git worktree list | wc -l) = 1");
}

static void checkouts_refuse_with_reason_and_leave_nothing(void **state)
{
    (void)state;
    stk__checkouts c = {0};
    stk_error err = {0};
    assert_int_equal(stk__git_checkouts(launcher, "HEAD", NULL, &c, &err), STK_INVALID);
    assert_non_null(strstr(err.message, "not a git repository"));
    make_repository();
    char *before = everything();
    assert_int_equal(stk__git_checkouts(launcher, "nope", NULL, &c, &err), STK_INVALID);
    assert_int_equal(stk__git_checkouts(launcher, "HEAD", "nope", &c, &err), STK_INVALID);
    assert_int_equal(stk__git_checkouts(launcher, "--force", NULL, &c, &err), STK_INVALID);
    assert_null(c.root);
    char *after = everything();
    assert_string_equal(before, after);
    stk__free(before);
    stk__free(after);
}

static void hooks_do_not_run(void **state)
{
    (void)state;
    make_repository();
    shell("mkdir -p .git/hooks && printf '#!/bin/sh\\ntouch %s/ran\\n' \"$PWD\" > .git/hooks/post-checkout && "
          "chmod +x .git/hooks/post-checkout");
    stk__checkouts c;
    checkouts_ok("HEAD~1", NULL, &c);
    stk__checkouts_clear(&c);
    assert_int_equal(access("ran", F_OK), -1);
}

static void submodules_are_there_or_the_reason(void **state)
{
    (void)state;
    shell("git init -q lib && cd lib && echo code > code && git add code && " COMMIT "-m lib");
    shell("git init -q main && cd main && git -c protocol.file.allow=always submodule --quiet add ../lib lib && " COMMIT
          "-m one && echo 2 > value && git add value && " COMMIT "-m two");
    assert_int_equal(chdir("main"), 0);
    stk__checkouts c = {0};
    stk_error err = {0};
    /* git itself refuses submodules from files unless told otherwise. */
    assert_int_equal(stk__git_checkouts(launcher, "HEAD~1", NULL, &c, &err), STK_IO);
    assert_non_null(strstr(err.message, "cannot get the submodules"));
    assert_non_null(strstr(err.message, "file"));
    shell("test $(git worktree list | wc -l) = 1");
    shell("printf '[protocol \"file\"]\\n\\tallow = always\\n' > ../config");
    char config[128];
    snprintf(config, sizeof config, "%s/config", dir);
    setenv("GIT_CONFIG_GLOBAL", config, 1);
    stk__launcher *fresh = NULL; /* its environment is that of its start */
    assert_int_equal(stk__launcher_start(&fresh, NULL), STK_OK);
    const stk_status status = stk__git_checkouts(fresh, "HEAD~1", NULL, &c, &err);
    setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
    if (status != STK_OK)
        fail_msg("%s", err.message);
    assert_content(c.directories[0], "lib/code", "code\n");
    assert_content(c.directories[1], "lib/code", "code\n");
    stk__checkouts_clear(&c);
    stk__launcher_stop(fresh);
    shell("test $(git worktree list | wc -l) = 1 && test ! -e .git/worktrees/a");
}

/* Builds ask git for a version. */
static void git_works_in_checkouts(void **state)
{
    (void)state;
    make_repository();
    shell("git tag v1 HEAD~1");
    stk__checkouts c;
    checkouts_ok("HEAD~1", NULL, &c);
    stk_error err = {0};
    if (stk__git_build(
            launcher, &c,
            "git describe --tags > described && git rev-parse HEAD > head && test -z \"$(git status -s -uno)\"", 0,
            &err) != STK_OK)
        fail_msg("%s", err.message);
    assert_content(c.directories[0], "described", "v1\n");
    char hash[80];
    snprintf(hash, sizeof hash, "%s\n", c.commits[1].hash);
    assert_content(c.directories[1], "head", hash);
    stk__checkouts_clear(&c);
}

static void clear_takes_half_made_ones(void **state)
{
    (void)state;
    make_repository();
    stk__checkouts none = {0};
    stk__checkouts_clear(&none);
    stk__checkouts c;
    checkouts_ok("HEAD~1", NULL, &c);
    char root[64], command[300];
    snprintf(root, sizeof root, "%s", c.root);
    snprintf(command, sizeof command, "rm -rf %s/a %s/b.git", root, root);
    shell(command);
    stk__checkouts_clear(&c);
    assert_int_equal(access(root, F_OK), -1);
    shell("test $(git worktree list | wc -l) = 1");
}

/* ---- building ---- */

static void build_runs_in_both(void **state)
{
    (void)state;
    make_repository();
    stk__checkouts c;
    checkouts_ok("HEAD~1", NULL, &c);
    stk_error err = {0};
    assert_int_equal(stk__git_build(launcher, &c, "cat value value > built", 0, &err), STK_OK);
    assert_content(c.directories[0], "built", "1\n1\n");
    assert_content(c.directories[1], "built", "2\n2\n");
    stk__checkouts_clear(&c);
}

static void build_that_fails_tells_which_and_why(void **state)
{
    (void)state;
    make_repository();
    stk__checkouts c;
    checkouts_ok("HEAD~1", NULL, &c);
    stk_error err = {0};
    assert_int_equal(stk__git_build(launcher, &c, "echo line one >&2; echo broken here >&2; exit 7", 0, &err), STK_IO);
    assert_non_null(strstr(err.message, c.commits[0].brief));
    assert_non_null(strstr(err.message, "exit code 7"));
    assert_non_null(strstr(err.message, "line one; broken here"));
    assert_int_equal(stk__git_build(launcher, &c, "echo only on stdout; test $(cat value) = 1", 0, &err), STK_IO);
    assert_non_null(strstr(err.message, c.commits[1].brief));
    assert_non_null(strstr(err.message, "only on stdout"));
    assert_int_equal(stk__git_build(launcher, &c, "false", 0, &err), STK_IO);
    assert_non_null(strstr(err.message, "printed nothing"));
    assert_int_equal(stk__git_build(launcher, &c, "seq 100000 >&2; exit 1", 0, &err), STK_IO);
    assert_non_null(strstr(err.message, "99999; 100000"));
    stk__checkouts_clear(&c);
}

static void allocations_that_fail_leave_nothing(void **state)
{
    (void)state;
    make_repository();
    shell("echo 3 > value");
    char *before = everything();
    stk_status status = STK_NOMEM;
    /* Not each one: every try runs git several times. */
    for (uint64_t n = 1; status != STK_OK; n += 13) {
        assert_true(n < 1000);
        stk__checkouts c = {0};
        stk__alloc_fail_at(n, false);
        status = stk__git_checkouts(launcher, "HEAD~1", NULL, &c, NULL);
        stk__alloc_fail_at(0, false);
        if (status == STK_OK)
            stk__checkouts_clear(&c);
        else
            assert_null(c.root);
    }
    char *after = everything();
    assert_string_equal(before, after);
    stk__free(before);
    stk__free(after);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(here_without_repository_has_no_hash),
        TEST(here_tells_the_commit),
        TEST(here_is_dirty_only_through_tracked_files),
        TEST(the_change_log_itself_makes_nothing_dirty),
        TEST(first_commit_has_no_parent_and_a_long_subject_is_cut),
        TEST(merge_has_its_first_parent),
        TEST(resolve_knows_every_kind_of_name),
        TEST(resolve_refuses_what_is_no_commit),
        TEST(range_is_the_line_of_first_parents),
        TEST(range_from_a_side_branch_begins_where_it_left),
        TEST(wrong_ranges_are_told),
        TEST(shallow_clones_are_told),
        TEST(long_ranges_are_read_whole),
        TEST(checkouts_hold_both_commits_and_leave_nothing),
        TEST(checkouts_take_changes_of_tracked_files),
        TEST(a_named_candidate_is_taken_without_changes),
        TEST(checkouts_start_in_the_same_directory),
        TEST(checkouts_refuse_with_reason_and_leave_nothing),
        TEST(hooks_do_not_run),
        TEST(submodules_are_there_or_the_reason),
        TEST(git_works_in_checkouts),
        TEST(clear_takes_half_made_ones),
        TEST(build_runs_in_both),
        TEST(build_that_fails_tells_which_and_why),
        TEST(allocations_that_fail_leave_nothing),
    };
    return cmocka_run_group_tests(tests, group_setup, git_group_teardown);
}
