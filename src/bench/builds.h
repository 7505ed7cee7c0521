/*
 * Builds of commits that are kept from run to run, each a checkout with what the build command made of it, in a
 * directory of its own below one folder:
 *
 *     KEY/tree    the checkout, KEY a hash of repository, place in it, commit, submodules and build command
 *     KEY/git     git's files about it
 *     KEY/build   written last: what this is, and whether it was built; without it the entry is half-made
 *
 * All keys are of one length, so that all paths are, since the length of paths changes timings. An entry in use is
 * locked (flock on its directory), so that no other run removes it or builds in it.
 */
#ifndef STK_BENCH_BUILDS_H
#define STK_BENCH_BUILDS_H

#include "bench/git.h"

typedef struct stk__builds {
    char *folder;     /* of all entries */
    char *repository; /* its git directory */
    char *prefix;     /* our directory in it: "" or "sub/" */
    char *submodules; /* which of them the user has */
    char *command;    /* NULL: nothing is built */
    /* Asked while another run builds the same commit; false: give up. May be NULL. */
    bool (*wait)(void *context);
    void *context;
} stk__builds;

/* One commit ready to run, or why it is not. */
typedef struct stk__build {
    char *directory; /* where commands start; NULL: it did not build */
    char *failure;   /* "exit code 2: ..." then */
    bool made;       /* by this call; else it was there */
    int lock;        /* -1: none */
} stk__build;

/* The repository that we are in; `folder` is made when there is something to put there. */
stk_status stk__builds_open(stk__launcher *l, const char *folder, const char *command, stk__builds *out,
                            stk_error *err);
void stk__builds_close(stk__builds *b);

/*
 * Checks out and builds a commit, unless that was done before (`again`: also then). OK also when it does not build, which is remembered as
 * well. CANCELLED: interrupted; any other status: it could not be tried (no such submodule any more, no room).
 */
stk_status stk__build_take(stk__launcher *l, const stk__builds *b, const stk__commit *commit, bool again,
                           stk__build *out, stk_error *err);
/* The entry stays, and may be removed from here on. */
void stk__build_release(stk__build *build);

/* Removes half-made entries and then the ones that were used longest ago until at most `most` of `bytes` in all are left. Those in use stay. */
void stk__builds_trim(const char *folder, size_t most, uint64_t bytes);

#endif
