/* Training steps: from markers of TensorFlow, PyTorch, JAX or ours, else inferred from what repeats. */
#ifndef STK_ANALYZE_STEPS_H
#define STK_ANALYZE_STEPS_H

#include "trace/model.h"

typedef struct stk__step {
    uint32_t file, process;
    int64_t number; /* as the marker says, else counted from 0 */
    int64_t ts, dur;
    uint32_t slice; /* the marker; STK__NONE: inferred */
    uint32_t kind;  /* stk__step_kind of steps_impl.h */
} stk__step;

typedef enum stk__steps_from { STK__STEPS_NONE, STK__STEPS_MARKERS, STK__STEPS_INFERRED } stk__steps_from;

typedef struct stk__steps {
    stk__step *rows; /* by file, process, time; those of one process do not overlap */
    size_t count;
    stk__steps_from from;
    double confidence;   /* 0 to 1: of markers 1; inferred: how regular the period is */
    char marker[128];    /* "ProfilerStep#", "train", "step"; or the name that repeats */
} stk__steps;

struct stk__told;
/* `told` may name the slices that start a step; NULL: what the trace says itself. */
stk_status stk__steps_find_told(const stk__trace *t, const struct stk__told *told, stk__steps *out, stk_error *err);
stk_status stk__steps_find(const stk__trace *t, stk__steps *out, stk_error *err);
void stk__steps_clear(stk__steps *steps);

#endif
