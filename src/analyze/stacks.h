/* The tree of stacks with weights: nested slices by name, or samples. */
#ifndef STK_ANALYZE_STACKS_H
#define STK_ANALYZE_STACKS_H

#include "analyze/select.h"

typedef struct stk__stack {
    uint32_t parent;  /* lower number; STK__NONE */
    stk__string name; /* of slices; for samples the frame's name */
    uint32_t frame;   /* of samples; STK__NONE */
    uint32_t depth;
    uint32_t group;   /* process of its root when by_process, else STK__NONE */
    uint32_t unit;    /* stk__unit */
    int64_t count, total, self;
} stk__stack;

typedef struct stk__stacks {
    stk__stack *rows;
    size_t count;
} stk__stacks;

/* Slices when the trace has any, else samples. Equal paths of different tracks are one, unless by_process. */
stk_status stk__stacks_make(const stk__trace *t, const stk__selection *select, bool by_process, stk__stacks *out,
                            stk_error *err);
/* "a;b;c", with ';' in names as ':' */
void stk__stacks_path(const stk__trace *t, const stk__stacks *stacks, uint32_t row, stk__text *out);
void stk__stacks_clear(stk__stacks *stacks);

#endif
