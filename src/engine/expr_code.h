/* What the expression compiler hands to the evaluator: code for a small stack machine. Used by expr_*.c alone. */
#ifndef STK_ENGINE_EXPR_CODE_H
#define STK_ENGINE_EXPR_CODE_H

#include <stddef.h>

#include "engine/expr.h"

/* Values that an evaluation may stack; three for each of 64 levels of nesting, and some to spare. */
enum { STK__EXPR_STACK = 256 };

typedef enum stk__expr_op {
    STK__EXPR_CONST, /* push constant `arg` */
    STK__EXPR_FETCH, /* push slot `arg` as type `mask` */
    STK__EXPR_NOT,
    STK__EXPR_NEGATE,
    STK__EXPR_ADD, /* these pop two and push one */
    STK__EXPR_SUB,
    STK__EXPR_MUL,
    STK__EXPR_DIV,
    STK__EXPR_MOD,
    STK__EXPR_COMPARE, /* true when the outcome is in `mask` */
    STK__EXPR_AND,     /* false: jump to `arg`; else pop */
    STK__EXPR_OR,      /* true: jump to `arg`; else pop */
    STK__EXPR_IN,      /* pop an item; equal to the value below: make that true and jump to `arg` */
    STK__EXPR_IN_END   /* no item was equal: make the value false */
} stk__expr_op;

/* Outcomes of a comparison, as bits. UNORDERED: one side is NaN. */
enum { STK__LESS = 1, STK__EQUAL = 2, STK__GREATER = 4, STK__UNORDERED = 8 };

typedef struct stk__expr_step {
    uint8_t op, mask;
    int32_t arg;
    int32_t offset; /* in the text, for errors */
} stk__expr_step;

struct stk__expr {
    stk__expr_step *steps;
    size_t step_count, step_capacity;
    stk__expr_value *constants;
    size_t constant_count, constant_capacity;
    char *strings; /* bytes of all string constants */
    char *text;    /* as compiled */
};

/* The column, in characters from 1, of a byte of the text. */
int stk__expr_column(const char *text, size_t offset);

#endif
