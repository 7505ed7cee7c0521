/* What git knows: the commit at hand, and clean checkouts of commits side by side. */
#ifndef STK_BENCH_GIT_H
#define STK_BENCH_GIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "bench/launch.h"

typedef struct stk__commit {
    char hash[65];   /* empty: no git, or no commit yet */
    char brief[16];  /* first characters that git finds unique */
    char parent[65]; /* first parent; empty: none */
    bool dirty;      /* tracked files differ from the commit; the change log's own files do not count */
    int64_t time_s;  /* of the commit */
    char subject[200];
} stk__commit;

/* The commit of `directory` (NULL: ours). OK with an empty hash when there is no repository, commit or git; err is left alone. */
stk_status stk__git_here(stk__launcher *l, const char *directory, stk__commit *out, stk_error *err);
/* A revision by any name; INVALID with git's words when there is none. */
stk_status stk__git_resolve(stk__launcher *l, const char *revision, stk__commit *out, stk_error *err);

/* A line of commits, oldest first. items[0] is what the others are compared with: the first parent of the first commit. */
typedef struct stk__commits {
    stk__commit *items;
    size_t count;   /* at least 2 */
    bool elsewhere; /* A of "A..B" is not items[0]: it is not on the line of first parents of B */
} stk__commits;

enum { STK__COMMITS_MOST = 1000 };

/*
 * "A..B" as git understands it (an empty side is HEAD), along first parents, so that a merge counts once. every > 1:
 * only each so-manieth commit, counted from the newest. INVALID with git's words or our own.
 */
stk_status stk__git_range(stk__launcher *l, const char *range, size_t every, stk__commits *out, stk_error *err);
void stk__commits_clear(stk__commits *c);

/* Two checkouts in temporary directories whose paths have the same length, since the length of paths changes timings. */
typedef struct stk__checkouts {
    stk__commit commits[2];
    char *directories[2]; /* where commands start: the checkout, or the directory in it that matches ours */
    char *root;           /* the temporary directory */
} stk__checkouts;

/*
 * [0]: `against`; [1]: `candidate` ("HEAD" by default; where tracked files were changed and candidate is NULL, those
 * changes are in: commits[1].dirty). Nothing of the user's working tree, index or branches is touched, and git keeps no record
 * of the checkouts. Files that are not tracked are not there; submodules are initialised. INVALID: no repository, no such revision.
 */
stk_status stk__git_checkouts(stk__launcher *l, const char *against, const char *candidate, stk__checkouts *out,
                              stk_error *err);
/* Runs `build` in both; an error tells which, and the end of what it printed. */
stk_status stk__git_build(stk__launcher *l, const stk__checkouts *c, const char *build, int64_t timeout_ns,
                          stk_error *err);
/* Removes the directories; also half-made ones. */
void stk__checkouts_clear(stk__checkouts *c);

#endif
