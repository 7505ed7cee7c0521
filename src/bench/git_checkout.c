/* Checkouts of commits in directories of their own, and what is built in them. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "bench/git_impl.h"
#include "bench/tree.h"

#include "base/banned.h"

#define ROOT_TEMPLATE "/tmp/stoker-bench-XXXXXX"

enum { BUILD_WORDS_MAX = 316 };

/* ---- one checkout ---- */

static stk_status init_submodules(stk__launcher *l, const char *path, stk_error *err)
{
    stk__text modules = STK__TEXT_INIT, script = STK__TEXT_INIT;
    stk__text_printf(&modules, "%s/.gitmodules", path);
    const bool failed = modules.failed, there = !failed && access(modules.data, F_OK) == 0;
    stk__text_clear(&modules);
    if (failed)
        return stk__nomem(strlen(path), err);
    if (!there)
        return STK_OK;
    /* Only those that the user has: --init would write to the configuration that all checkouts share. */
    stk__text_puts(&script, "unset GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE GIT_PREFIX; "
                            "git submodule --quiet update && git submodule --quiet foreach --quiet "
                            "'git submodule --quiet update --init --recursive'");
    return stk__git_checked(l, path, &script, STK_IO, "cannot get the submodules of a checkout", NULL, err);
}

/*
 * A worktree as `git worktree add` makes it, but with its files beside it and not in the repository: "commondir" is
 * documented (gitrepository-layout), and a checkout that the repository does not list cannot be left in its lists.
 * Hooks may do anything, so they do not run.
 */
static void put_worktree(stk__text *script, const char *hash, const char *tree, const char *git)
{
    stk__text_puts(script, "c=$(git rev-parse --git-common-dir) && c=$(CDPATH= cd -- \"$c\" && pwd -P) && "
                           "r=$(git rev-parse --show-ref-format 2>/dev/null || :) && t=");
    stk__command_quote(script, tree);
    stk__text_puts(script, " && g=");
    stk__command_quote(script, git);
    stk__text_printf(script,
                     " && unset GIT_DIR GIT_COMMON_DIR GIT_INDEX_FILE GIT_WORK_TREE GIT_PREFIX && "
                     "mkdir -p \"$t\" \"$g\" && printf '%%s\\n' \"$c\" > \"$g/commondir\" && "
                     "printf '%%s/.git\\n' \"$t\" > \"$g/gitdir\" && printf '%%s\\n' %s > \"$g/HEAD\" && "
                     "if [ \"$r\" = reftable ]; then mkdir -p \"$g/reftable\" \"$g/refs\"; fi && "
                     "printf 'gitdir: %%s\\n' \"$g\" > \"$t/.git\" && cd \"$t\" && "
                     "git -c core.hooksPath=/dev/null -c core.sparseCheckout=false reset --quiet --hard "
                     "--no-recurse-submodules %s --",
                     hash, hash);
}

stk_status stk__git_check_out(stk__launcher *l, const stk__commit *commit, const char *hash, const char *tree,
                              const char *git, stk_error *err)
{
    char what[64];
    stk__text script = STK__TEXT_INIT;
    put_worktree(&script, hash ? hash : commit->hash, tree, git);
    snprintf(what, sizeof what, "cannot check out commit %s", commit->brief);
    STK_TRY(stk__git_checked(l, NULL, &script, STK_IO, what, NULL, err));
    return init_submodules(l, tree, err);
}

stk_status stk__git_enter(const char *tree, const char *prefix, const stk__commit *commit, char **out, stk_error *err)
{
    stk__text directory = STK__TEXT_INIT;
    stk__text_puts(&directory, tree);
    if (prefix[0])
        stk__text_printf(&directory, "/%s", prefix);
    if (directory.failed) {
        stk__text_clear(&directory);
        return stk__nomem(strlen(prefix), err);
    }
    while (directory.data[directory.length - 1] == '/')
        directory.data[--directory.length] = 0;
    struct stat st;
    if (stat(directory.data, &st) || !S_ISDIR(st.st_mode)) {
        stk__text_clear(&directory);
        return stk_error_set(err, STK_INVALID,
                             "commit %s has no directory '%.300s', where you are: start at the top of the repository",
                             commit->brief, prefix);
    }
    *out = directory.data;
    return STK_OK;
}

stk_status stk__git_prefix(stk__launcher *l, char **out, stk_error *err)
{
    stk__text script = STK__TEXT_INIT;
    stk__text_puts(&script, "git rev-parse --show-prefix");
    return stk__git_checked(l, NULL, &script, STK_IO, "cannot tell the place in the repository", out, err);
}

/* ---- two of them side by side ---- */

void stk__checkouts_clear(stk__checkouts *c)
{
    for (size_t i = 0; i < 2; i++)
        stk__free(c->directories[i]);
    if (c->root)
        stk__tree_remove(c->root);
    stk__free(c->root);
    *c = (stk__checkouts){0};
}

/* A commit of the tracked files as they are, made with an index of its own. Nothing refers to it. */
static stk_status commit_changes(stk__launcher *l, const char *root, char **out_hash, stk_error *err)
{
    stk__text script = STK__TEXT_INIT, index = STK__TEXT_INIT;
    stk__text_printf(&index, "%s/index", root);
    stk__text_puts(&script, "i=$(git rev-parse --git-path index) && cp \"$i\" ");
    stk__command_quote(&script, index.failed ? "" : index.data);
    stk__text_puts(&script, " && GIT_INDEX_FILE=");
    stk__command_quote(&script, index.failed ? "" : index.data);
    stk__text_puts(&script, " && export GIT_INDEX_FILE && git add --update && t=$(git write-tree) && "
                            "git -c user.name=stoker -c user.email=stoker@localhost commit-tree -p HEAD -m "
                            "'changes that were benchmarked' \"$t\"");
    script.failed |= index.failed;
    stk__text_clear(&index);
    char *hash = NULL;
    STK_TRY(stk__git_checked(l, NULL, &script, STK_IO, "cannot take the changes of tracked files", &hash, err));
    if (!stk__git_is_hash(hash)) {
        stk__free(hash);
        return stk_error_set(err, STK_INVALID, "cannot take the changes of tracked files: git gave no commit");
    }
    *out_hash = hash;
    return STK_OK;
}

static stk_status make_root(stk__checkouts *c, stk_error *err)
{
    c->root = stk__strdup(ROOT_TEMPLATE);
    if (!c->root)
        return stk__nomem(sizeof ROOT_TEMPLATE, err);
    if (mkdtemp(c->root))
        return STK_OK;
    stk__free(c->root);
    c->root = NULL;
    return stk_error_set(err, STK_IO, "cannot make a directory in /tmp for the checkouts: %s", strerror(errno));
}

static stk_status find_commits(stk__launcher *l, const char *against, const char *candidate, stk__checkouts *c,
                               stk_error *err)
{
    STK_TRY(stk__git_resolve(l, against, &c->commits[0], err));
    if (candidate)
        return stk__git_resolve(l, candidate, &c->commits[1], err);
    STK_TRY(stk__git_here(l, NULL, &c->commits[1], err));
    if (!c->commits[1].hash[0])
        return stk_error_set(err, STK_INVALID, "git knows no commit here, wanted one to compare with %.200s", against);
    return STK_OK;
}

static stk_status check_out(stk__launcher *l, stk__checkouts *c, size_t i, const char *hash, const char *prefix,
                            stk_error *err)
{
    const char name = i ? 'b' : 'a';
    stk__text tree = STK__TEXT_INIT, git = STK__TEXT_INIT;
    stk__text_printf(&tree, "%s/%c", c->root, name);
    stk__text_printf(&git, "%s/%c.git", c->root, name);
    stk_status status = tree.failed || git.failed
                            ? stk__nomem(tree.length, err)
                            : stk__git_check_out(l, &c->commits[i], hash, tree.data, git.data, err);
    if (status == STK_OK)
        status = stk__git_enter(tree.data, prefix, &c->commits[i], &c->directories[i], err);
    stk__text_clear(&tree);
    stk__text_clear(&git);
    return status;
}

static stk_status fill_checkouts(stk__launcher *l, const char *against, const char *candidate, stk__checkouts *c,
                                 stk_error *err)
{
    STK_TRY(find_commits(l, against, candidate, c, err));
    STK_TRY(make_root(c, err));
    char *prefix = NULL, *changes = NULL;
    stk_status status = stk__git_prefix(l, &prefix, err);
    if (status == STK_OK && c->commits[1].dirty)
        status = commit_changes(l, c->root, &changes, err);
    if (status == STK_OK)
        status = check_out(l, c, 0, NULL, prefix, err);
    if (status == STK_OK)
        status = check_out(l, c, 1, changes, prefix, err);
    stk__free(prefix);
    stk__free(changes);
    return status;
}

stk_status stk__git_checkouts(stk__launcher *l, const char *against, const char *candidate, stk__checkouts *out,
                              stk_error *err)
{
    stk__checkouts c = {0};
    const stk_status status = fill_checkouts(l, against, candidate, &c, err);
    if (status == STK_OK)
        *out = c;
    else
        stk__checkouts_clear(&c);
    return status;
}

/* ---- building ---- */

/* "exit code 2: the last that it said" */
static void put_failure(const stk__outcome *o, const stk__launch *launch, stk__text *out)
{
    const char *said = o->error_end && o->error_end[strspn(o->error_end, " \t\r\n")] ? o->error_end : o->output_end;
    stk__outcome_text(o, launch, out);
    stk__text_puts(out, ": ");
    stk__git_words(out, said && said[strspn(said, " \t\r\n")] ? said : "it printed nothing", BUILD_WORDS_MAX);
}

stk_status stk__git_build_one(stk__launcher *l, const char *directory, const char *build, int64_t timeout_ns,
                              stk__text *out_failure, stk_error *err)
{
    const stk__launch launch = {
        .command = build, .directory = directory, .output = STK__OUTPUT_KEEP, .timeout_ns = timeout_ns};
    stk__outcome o = {0};
    STK_TRY(stk__launcher_run(l, &launch, &o, err));
    if (o.exit_code != 0 || o.signal || o.timed_out || o.out_of_memory)
        put_failure(&o, &launch, out_failure);
    stk__outcome_clear(&o);
    return out_failure->failed ? stk__nomem(out_failure->length, err) : STK_OK;
}

stk_status stk__git_build(stk__launcher *l, const stk__checkouts *c, const char *build, int64_t timeout_ns,
                          stk_error *err)
{
    stk_status status = STK_OK;
    for (size_t i = 0; i < 2 && status == STK_OK; i++) {
        stk__text failure = STK__TEXT_INIT;
        status = stk__git_build_one(l, c->directories[i], build, timeout_ns, &failure, err);
        if (status == STK_OK && failure.length)
            status = stk_error_set(err, STK_IO, "the build of commit %s%s failed: %s", c->commits[i].brief,
                                   c->commits[i].dirty ? " with changes" : "", failure.data);
        stk__text_clear(&failure);
    }
    return status;
}
