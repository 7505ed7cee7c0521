/* Paired comparisons of functions, with the statistics of `stoker bench`. */
#ifndef STOKER_BENCH_H
#define STOKER_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One measured run of a variant: its time goes to *out_seconds. Any status but OK ends the comparison with that error. */
typedef stk_status stk_bench_fn(void *arg, size_t variant, double *out_seconds, stk_error *err);

/* Zero it, set struct_size, then what matters. */
typedef struct stk_bench_options {
    size_t struct_size;
    size_t rounds, warmup; /* 0: chosen from the time that the warm-up took, and 1 */
    double min_effect;     /* smaller differences do not count, 0.02: 2 %; 0: as `stoker bench` */
    uint64_t seed;         /* of the order; 0: of the clock */
    const char *unit;      /* what out_seconds is in; NULL: "s" */
    bool (*progress)(void *arg, size_t round, size_t rounds, double left_s); /* false ends it early; may be NULL */
    void *progress_arg;
} stk_bench_options;

/*
 * Runs the variants in turns, in random order, in this process, and compares each with the first. out_text is the report for
 * people, out_json one object with variants, values and comparisons, as `stoker bench --json` has it. Each may be NULL.
 * Freed by stk_free. Since 0.1.
 */
STK_API stk_status stk_bench_compare(const char *const *names, size_t count, stk_bench_fn *run, void *arg,
                                     const stk_bench_options *options, char **out_text, char **out_json, stk_error *err);

#ifdef __cplusplus
}
#endif
#endif
