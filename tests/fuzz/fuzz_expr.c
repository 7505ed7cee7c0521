/* Fuzz target: any text as a filter expression, compiled and evaluated on hard values. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/expr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const stk__expr_value values[] = {
    {.type = STK__EXPR_INT, .integer = INT64_MIN},
    {.type = STK__EXPR_INT, .integer = -1},
    {.type = STK__EXPR_FLOAT, .number = NAN},
    {.type = STK__EXPR_FLOAT, .number = 0x1p63},
    {.type = STK__EXPR_BOOL, .integer = 1},
    {.type = STK__EXPR_BYTES, .bytes = {NULL, 0}},
    {.type = STK__EXPR_BYTES, .bytes = {(const uint8_t *)"cat", 3}},
};

/* Names go by their first letter, from a on. */
static stk_status lookup(void *arg, const char *name, stk__expr_type *out_type, int *out_slot, stk_error *err)
{
    (void)arg;
    const size_t i = (size_t)(unsigned char)name[0] - 'a';
    if (i >= STK_COUNT(values))
        return stk_error_set(err, STK_INVALID, "no field '%s'", name);
    *out_type = values[i].type;
    *out_slot = (int)i;
    return STK_OK;
}

static void fetch(void *arg, int slot, stk__expr_value *out)
{
    (void)arg;
    *out = values[slot];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = stk__strndup((const char *)data, size);
    if (!text)
        return 0;
    stk_error err;
    stk_error_clear(&err);
    stk__expr *e = NULL;
    if (stk__expr_compile(text, lookup, NULL, &e, &err) == STK_OK) {
        bool out;
        const stk_status status = stk__expr_eval(e, fetch, NULL, &out, &err);
        if (status != STK_OK && (status != STK_CORRUPT || err.column < 1))
            abort();
        stk__expr_free(e);
    } else if (!err.message[0] || (err.column < 1 && size <= 65536)) {
        abort();
    }
    stk__free(text);
    return 0;
}
