/* Limits of a run: CPUs by affinity and quota, memory by a cgroup or by RLIMIT_AS. */
#ifndef STK_BENCH_RUN_LIMITS_H
#define STK_BENCH_RUN_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/launch.h"

enum { STK__CGROUP_PATH = 1024, STK__CPU_MASK_WORDS = 128 };

/* A cgroup that we made. Plain data, so that it can lie in shared memory. */
typedef struct stk__cgroup {
    int version; /* 1 or 2; 0: none */
    bool memory, cpu;
    char path[STK__CGROUP_PATH];
    char enabled[32]; /* v2: what was switched on for it in its parent, " +memory"; undone when it goes */
} stk__cgroup;

/* Limits in force: by which means, and how to undo them. Zero: none. Plain data. */
typedef struct stk__limit_set {
    stk__limits limits;
    int cpu_count;                               /* by affinity; 0: not limited */
    unsigned long cpu_mask[STK__CPU_MASK_WORDS]; /* as sched_setaffinity takes it */
    stk__cgroup groups[2];
    bool address_limit; /* RLIMIT_AS stands in for the cgroup ... */
    char reason[256];   /* ... because of this */
} stk__limit_set;

/*
 * Where a controller ("memory", "cpu") is: the directories in which a cgroup could be made, our own first, then those
 * above it. `root` stands before every path that is read ("" for the real system). Returns how many, at most max; 0:
 * there is no such controller.
 */
typedef struct stk__cgroup_place {
    int version;
    char path[STK__CGROUP_PATH];
} stk__cgroup_place;
size_t stk__cgroup_places(const char *root, const char *controller, stk__cgroup_place *out, size_t max);

/*
 * Makes what the limits need; cgroups are called `name`. INVALID: limits that make no sense or more CPUs than there are;
 * UNSUPPORTED: a quota without a cgroup. With `move`, a process is moved into each cgroup to see that it works.
 */
stk_status stk__limits_make(const char *root, const char *name, const stk__limits *limits, bool move,
                            stk__limit_set *out, stk_error *err);
/* Ends processes that are still in the cgroups and removes them. */
void stk__limits_remove(stk__limit_set *set);

/* In the child, last thing before exec. 0, or an errno with *out_what pointing to words for it. */
int stk__limits_enter(const stk__limit_set *set, const char **out_what);

/* Processes killed so far because of the memory limit; -1: cannot be told. */
int64_t stk__limits_kills(const stk__limit_set *set);
/* Times that the memory limit was run into; only for kernels that do not count kills. */
int64_t stk__limits_failures(const stk__limit_set *set);

/* The words of stk__limits_describe. */
void stk__limits_text(const stk__limit_set *set, stk__text *out, stk__text *out_note);

#endif
