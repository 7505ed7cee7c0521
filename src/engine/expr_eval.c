/* The evaluator of filter expressions: a stack machine without allocation. */
#include <assert.h>
#include <string.h>

#include "base/compiler.h"
#include "engine/expr_code.h"

#include "base/banned.h"

static int order_ints(int64_t a, int64_t b)
{
    return a < b ? STK__LESS : a > b ? STK__GREATER : STK__EQUAL;
}

static int order_floats(double a, double b)
{
    return a < b ? STK__LESS : a > b ? STK__GREATER : a == b ? STK__EQUAL : STK__UNORDERED;
}

/* By value: turning the int into a double first would make 2^53 + 1 equal to 2^53. */
static int order_int_float(int64_t a, double b)
{
    if (b != b)
        return STK__UNORDERED;
    if (b >= 0x1p63)
        return STK__LESS;
    if (b < -0x1p63)
        return STK__GREATER;
    const int64_t whole = (int64_t)b;
    const double rest = b - (double)whole;
    if (a != whole)
        return order_ints(a, whole);
    return rest > 0 ? STK__LESS : rest < 0 ? STK__GREATER : STK__EQUAL;
}

static int order_bytes(const stk_bytes *a, const stk_bytes *b)
{
    const int64_t n = STK_MIN(a->size, b->size);
    const int c = n > 0 ? memcmp(a->data, b->data, (size_t)n) : 0;
    return c < 0 ? STK__LESS : c > 0 ? STK__GREATER : order_ints(a->size, b->size);
}

static int flip(int order)
{
    return order == STK__LESS ? STK__GREATER : order == STK__GREATER ? STK__LESS : order;
}

/* The compiler has checked that the types go together. */
static int compare(const stk__expr_value *a, const stk__expr_value *b)
{
    if (a->type == STK__EXPR_BYTES)
        return order_bytes(&a->bytes, &b->bytes);
    if (a->type == STK__EXPR_FLOAT)
        return b->type == STK__EXPR_FLOAT ? order_floats(a->number, b->number)
                                          : flip(order_int_float(b->integer, a->number));
    return b->type == STK__EXPR_FLOAT ? order_int_float(a->integer, b->number) : order_ints(a->integer, b->integer);
}

static double as_double(const stk__expr_value *v)
{
    return v->type == STK__EXPR_FLOAT ? v->number : (double)v->integer;
}

static stk_status overflow(char sign, int64_t a, int64_t b, stk_error *err)
{
    return stk_error_set(err, STK_CORRUPT, "%lld %c %lld is outside of 64 bits", (long long)a, sign, (long long)b);
}

static stk_status int_math(stk__expr_op op, int64_t a, int64_t b, int64_t *out, stk_error *err)
{
    switch (op) {
    case STK__EXPR_ADD:
        return __builtin_add_overflow(a, b, out) ? overflow('+', a, b, err) : STK_OK;
    case STK__EXPR_SUB:
        return __builtin_sub_overflow(a, b, out) ? overflow('-', a, b, err) : STK_OK;
    case STK__EXPR_MUL:
        return __builtin_mul_overflow(a, b, out) ? overflow('*', a, b, err) : STK_OK;
    default:
        break;
    }
    if (b == 0)
        return stk_error_set(err, STK_CORRUPT, "%lld %% 0: division by zero", (long long)a);
    const int64_t rest = b == -1 ? 0 : a % b; /* the smallest integer % -1 traps */
    *out = rest && (rest < 0) != (b < 0) ? rest + b : rest;
    return STK_OK;
}

static double float_math(stk__expr_op op, double a, double b)
{
    switch (op) {
    case STK__EXPR_ADD:
        return a + b;
    case STK__EXPR_SUB:
        return a - b;
    case STK__EXPR_MUL:
        return a * b;
    default:
        return a / b;
    }
}

/* a = a op b */
static stk_status math(stk__expr_op op, stk__expr_value *a, const stk__expr_value *b, stk_error *err)
{
    if (a->type == STK__EXPR_INT && b->type == STK__EXPR_INT && op != STK__EXPR_DIV)
        return int_math(op, a->integer, b->integer, &a->integer, err);
    a->number = float_math(op, as_double(a), as_double(b));
    a->type = STK__EXPR_FLOAT;
    return STK_OK;
}

static stk_status negate(stk__expr_value *v, stk_error *err)
{
    if (v->type == STK__EXPR_FLOAT) {
        v->number = -v->number;
        return STK_OK;
    }
    return int_math(STK__EXPR_SUB, 0, v->integer, &v->integer, err);
}

static void load(const stk__expr_step *s, stk__expr_fetch fetch, void *arg, stk__expr_value *out)
{
    *out = (stk__expr_value){.type = (stk__expr_type)s->mask};
    fetch(arg, s->arg, out);
    out->type = (stk__expr_type)s->mask;
    if (out->type == STK__EXPR_BOOL)
        out->integer = out->integer != 0;
}

static void set_bool(stk__expr_value *v, bool x)
{
    v->type = STK__EXPR_BOOL;
    v->integer = x;
}

stk_status stk__expr_eval(const stk__expr *expr, stk__expr_fetch fetch, void *arg, bool *out, stk_error *err)
{
    stk__expr_value stack[STK__EXPR_STACK];
    size_t n = 0; /* values on the stack; the compiler has checked that they fit */
    stk_status status = STK_OK;
    size_t i = 0;
    while (i < expr->step_count && status == STK_OK) {
        const stk__expr_step *s = &expr->steps[i++];
        stk__expr_value *top = n ? &stack[n - 1] : stack, *below = n > 1 ? &stack[n - 2] : stack;
        switch ((stk__expr_op)s->op) {
        case STK__EXPR_CONST:
            stack[n++] = expr->constants[s->arg];
            break;
        case STK__EXPR_FETCH:
            load(s, fetch, arg, &stack[n++]);
            break;
        case STK__EXPR_NOT:
            top->integer = !top->integer;
            break;
        case STK__EXPR_NEGATE:
            status = negate(top, err);
            break;
        case STK__EXPR_ADD:
        case STK__EXPR_SUB:
        case STK__EXPR_MUL:
        case STK__EXPR_DIV:
        case STK__EXPR_MOD:
            status = math((stk__expr_op)s->op, below, top, err);
            n--;
            break;
        case STK__EXPR_COMPARE:
            set_bool(below, compare(below, top) & s->mask);
            n--;
            break;
        case STK__EXPR_AND:
        case STK__EXPR_OR:
            if ((top->integer != 0) == (s->op == STK__EXPR_OR))
                i = (size_t)s->arg;
            else
                n--;
            break;
        case STK__EXPR_IN:
            n--;
            if (compare(below, top) == STK__EQUAL) {
                set_bool(below, true);
                i = (size_t)s->arg;
            }
            break;
        case STK__EXPR_IN_END:
            set_bool(top, false);
            break;
        }
        if (status != STK_OK && err)
            err->column = stk__expr_column(expr->text, (size_t)s->offset);
    }
    if (status != STK_OK)
        return status;
    assert(n == 1);
    *out = stack[0].integer != 0;
    return STK_OK;
}
