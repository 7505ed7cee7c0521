/* Results of benchmarks that ran one after the other, as one result: what files of other tools hold. */
#ifndef STK_BENCH_MERGE_H
#define STK_BENCH_MERGE_H

#include "bench/compare.h"
#include "bench/result.h"

/* One benchmark of a suite. */
typedef struct stk__merge_part {
    const stk__result *result;
    const stk__comparisons *comparisons; /* of its variants; may be NULL */
    const char *const *names;            /* of its variants in the whole, which must differ there */
    size_t group_size;                   /* so many variants in turn are a group; 0: all of the part */
} stk__merge_part;

/*
 * Fills an empty result with the variants of all parts, in groups of their own, and `out_comparisons` with their comparisons.
 * Metrics are joined by name; one that has another unit or direction in a later part becomes "NAME (UNIT)". Each
 * variant keeps the metric that decides about it (stk__variant_metric); the primary one is what all share, else wall.
 * The pairs stay: the i-th runs of a group belong together. Machine, seed and time are those of the first part.
 */
stk_status stk__result_merge(const stk__merge_part *parts, size_t count, stk__result *out,
                             stk__comparisons *out_comparisons, stk_error *err);

#endif
