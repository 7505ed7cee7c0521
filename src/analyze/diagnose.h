/* The verdict: is training input-bound, by how much, where, and what would help. */
#ifndef STK_ANALYZE_DIAGNOSE_H
#define STK_ANALYZE_DIAGNOSE_H

#include "analyze/classify.h"
#include "analyze/intervals.h"
#include "analyze/steps.h"

typedef enum stk__verdict {
    STK__VERDICT_UNKNOWN,
    STK__VERDICT_HIGHLY,      /* >= 20 % */
    STK__VERDICT_MODERATELY,  /* >= 5 % */
    STK__VERDICT_NOT,
} stk__verdict;

typedef struct stk__diagnosis stk__diagnosis;

typedef struct stk__diagnose_options {
    int64_t gap_min_ns;  /* shortest idle gap told; 0: 1 % of the median step */
    size_t gap_limit;    /* 0: 5 */
    double speedup;      /* of the what-if; 0: 2 */
    stk__told told;      /* patterns of waits and steps */
    bool one_rank;       /* only the steps of `rank` */
    int64_t rank;
} stk__diagnose_options;

stk_status stk__diagnose(const stk__trace *t, const stk__diagnose_options *options, stk__diagnosis **out, stk_error *err);
void stk__diagnosis_free(stk__diagnosis *d);
stk__verdict stk__diagnosis_verdict(const stk__diagnosis *d);
/* For people, and as one JSON object. */
void stk__diagnosis_text(const stk__diagnosis *d, stk__text *out);
void stk__diagnosis_json(const stk__diagnosis *d, stk__text *out);

#endif
