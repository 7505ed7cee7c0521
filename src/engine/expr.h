/* Expressions on scalar fields, for `filter`: label < 5 and name == "cat". */
#ifndef STK_ENGINE_EXPR_H
#define STK_ENGINE_EXPR_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/types.h>

typedef enum stk__expr_type { STK__EXPR_BOOL, STK__EXPR_INT, STK__EXPR_FLOAT, STK__EXPR_BYTES } stk__expr_type;

typedef struct stk__expr_value {
    stk__expr_type type;
    int64_t integer; /* BOOL (0 or 1) and INT */
    double number;   /* FLOAT */
    stk_bytes bytes;
} stk__expr_value;

typedef struct stk__expr stk__expr;

/* Looks a name up while compiling: its type and a number by which eval asks for it. Sets err when there is none. */
typedef stk_status (*stk__expr_lookup)(void *arg, const char *name, stk__expr_type *out_type, int *out_slot,
                                       stk_error *err);
/* Fetches the value of a slot; fills by its type. */
typedef void (*stk__expr_fetch)(void *arg, int slot, stk__expr_value *out);

/*
 * Compiles and type-checks; the result must be a bool. Operators by rising strength: or, and, not, comparisons
 * (== != < <= > >= and `in [a, b, ...]`, `not in [...]`), + -, * / %, unary -; numbers, "strings" or 'strings', true, false,
 * parentheses, names; backquotes around a name that holds other characters: `image/height` > 32.
 * `/` always gives a float; `%` is for ints and takes the sign of the divisor, as in Python. Comparing int with float compares values. Errors: column from 1 within `text` in err->column.
 * Untrusted input: depth at most 64, size at most 64 KiB.
 */
stk_status stk__expr_compile(const char *text, stk__expr_lookup lookup, void *arg, stk__expr **out, stk_error *err);
/* No allocation; any thread. CORRUPT on int division by zero in % or on overflow. */
stk_status stk__expr_eval(const stk__expr *expr, stk__expr_fetch fetch, void *arg, bool *out, stk_error *err);
void stk__expr_free(stk__expr *expr);

#endif
