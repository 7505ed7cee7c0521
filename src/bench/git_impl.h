/* What the parts that ask git share: scripts for the shell, and one checkout. */
#ifndef STK_BENCH_GIT_IMPL_H
#define STK_BENCH_GIT_IMPL_H

#include "bench/command.h"
#include "bench/git.h"

/* hash, brief hash, parents, time, subject: a line each */
#define STK__GIT_LOG "git log --no-show-signature --no-color --encoding=UTF-8 --format=%H%n%h%n%P%n%ct%n%s "

enum { STK__GIT_WORDS = 300 };

/* Reads the lines of one commit, and moves *at behind them. Not `dirty`. */
bool stk__git_parse(const char **at, stk__commit *out);

/* The end of what a command said, on one line. */
void stk__git_words(stk__text *t, const char *text, size_t most);
/* Runs what `script` holds with sh; frees it. output_path: a file for what it prints, or NULL. The outcome tells how it went. */
stk_status stk__git_script(stk__launcher *l, const char *directory, stk__text *script, const char *output_path,
                           stk__outcome *out, stk_error *err);
/* `status` with `what` and git's own words. */
stk_status stk__git_failed(const stk__outcome *o, stk_status status, const char *what, stk_error *err);
/*
 * A script that must go well, else `failure` with `what` and git's own words. *out_text (may be NULL): the last 64 KiB
 * of its output at most, without the last line end.
 */
stk_status stk__git_checked(stk__launcher *l, const char *directory, stk__text *script, stk_status failure,
                            const char *what, char **out_text, stk_error *err);
bool stk__git_is_hash(const char *text);

/*
 * One commit in the directory `tree`, which is made; submodules that the user has are there. git's own files about it are in
 * the directory `git`: it is a worktree that the repository does not know of, so that nothing of it is left there
 * whatever happens. `hash`: the commit at hand where it is not the commit's own.
 */
stk_status stk__git_check_out(stk__launcher *l, const stk__commit *commit, const char *hash, const char *tree,
                              const char *git, stk_error *err);
/* Where commands start in a checkout: at `prefix` in it. INVALID when the commit has no such directory. Freed by stk__free. */
stk_status stk__git_enter(const char *tree, const char *prefix, const stk__commit *commit, char **out, stk_error *err);
/* Our directory in the repository: "" or "sub/". */
stk_status stk__git_prefix(stk__launcher *l, char **out, stk_error *err);
/* OK also when the build fails: then out_failure has its exit code and the end of what it printed. */
stk_status stk__git_build_one(stk__launcher *l, const char *directory, const char *build, int64_t timeout_ns,
                              stk__text *out_failure, stk_error *err);

#endif
