/* Stacks for profiles that have none: a tree of calls, estimated from who called whom and for how long. */
#ifndef STK_TRACE_CALL_TREE_H
#define STK_TRACE_CALL_TREE_H

#include "trace/model.h"

/* The name of what stands around all that is in none of the stacks. */
#define STK__CALL_TREE_REST "(other stacks)"

/* A stack: the function with the stack of `parent` around it. */
typedef struct stk__call_node {
    uint32_t parent;   /* a lower number; STK__NONE: outermost */
    uint32_t function; /* STK__NONE: stands around all that is in none of the stacks */
    int64_t self_ns;
} stk__call_node;

typedef struct stk__call_tree {
    stk__call_node *nodes;
    size_t count;
    bool estimated; /* false: no calls are known, or each function has one caller at most */
} stk__call_tree;

/*
 * The self times of a function's nodes add up to exactly that of the function, whatever was estimated. At most about
 * 32,768 stacks, the largest ones; what is in none of them is below one node, each function once.
 */
stk_status stk__call_tree_make(const stk__trace *t, stk__call_tree *out, stk_error *err);
void stk__call_tree_clear(stk__call_tree *tree);

#endif
