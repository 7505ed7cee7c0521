/* Runs hyperfine itself, for figures that owe nothing to our own clock and order. */
#ifndef STK_BENCH_HYPERFINE_H
#define STK_BENCH_HYPERFINE_H

#include "bench/launch.h"
#include "bench/result.h"

typedef struct stk__hyperfine {
    const char *program;
    const char *prepare; /* before each run, or NULL */
    const char *input;   /* or NULL */
    size_t runs, warmup; /* of each command */
    bool ignore_failure;
    stk__limits limits; /* of hyperfine and all that it starts */
} stk__hyperfine;

/* "hyperfine 1.18.0", freed by stk__free. UNSUPPORTED, with how to get it, where it cannot be run. */
stk_status stk__hyperfine_version(stk__launcher *l, const char *program, char **out, stk_error *err);

/* All runs of `a`, then all of `b`: two variants with the times that it wrote, read as any of its files. */
stk_status stk__hyperfine_run(stk__launcher *l, const stk__hyperfine *h, const char *a, const char *b, stk__result *out,
                              stk_error *err);

#endif
