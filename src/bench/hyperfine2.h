/* Schema 2 of hyperfine's JSON, which its version 2 writes: what metrics are called there. */
#ifndef STK_BENCH_HYPERFINE2_H
#define STK_BENCH_HYPERFINE2_H

#include <stddef.h>

typedef struct stk__hyperfine2_name {
    const char *theirs, *their_unit;
    const char *ours, *unit;
} stk__hyperfine2_name;

/* The wall time is the first. */
enum { STK__HYPERFINE2_NAMES = 5 };
extern const stk__hyperfine2_name stk__hyperfine2_names[STK__HYPERFINE2_NAMES];

/* NULL: there is none such. */
const stk__hyperfine2_name *stk__hyperfine2_ours(const char *ours);

#endif
