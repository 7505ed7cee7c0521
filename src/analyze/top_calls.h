/* Who calls what: the edges around the functions or slices of some names. */
#ifndef STK_ANALYZE_TOP_CALLS_H
#define STK_ANALYZE_TOP_CALLS_H

#include "analyze/diff_impl.h"
#include "analyze/top.h"

/* What the callee did when this caller called it. */
typedef struct stk__top_edge {
    uint32_t caller, callee; /* numbers of `names`; STK__NONE: nothing called it */
    uint32_t unit;           /* stk__unit */
    int64_t count;           /* calls, slices or samples */
    int64_t self, total;
} stk__top_edge;

typedef struct stk__top_edges {
    stk__top_source source;
    stk__top_edge *rows; /* by the name that was asked for, then most total first */
    size_t count;
    stk__diff_keys names;
} stk__top_edges;

/*
 * The edges to what is like one of the names (callers), or from it (callees): of pstats as the file has them, else from
 * the tree of nested slices or of stacks of what is selected. The first source of the trace that has any.
 */
stk_status stk__top_edges_make(const stk__trace *t, const stk__selection *select, const char *const *like,
                               size_t like_count, bool callees, stk__top_edges *out, stk_error *err);
const char *stk__top_edge_name(const stk__top_edges *edges, uint32_t name);
void stk__top_edges_clear(stk__top_edges *edges);

#endif
