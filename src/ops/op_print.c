/* print: write samples as JSON, one line each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/op.h"
#include "kernels/convert.h"

typedef struct {
    stk__text text; /* of one batch; kept for the next */
} print_state;

static void print_close(void *state)
{
    print_state *s = state;
    stk__text_clear(&s->text);
}

static bool is_utf8(const stk_bytes *b)
{
    for (size_t i = 0, size = (size_t)b->size; i < size;) {
        const size_t n = stk__utf8_length(b->data + i, size - i);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}

static void print_base64(stk__text *t, const stk_bytes *b)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    stk__text_puts(t, "{\"base64\":\"");
    for (int64_t i = 0; i < b->size; i += 3) {
        const int64_t left = b->size - i;
        const uint32_t bits = (uint32_t)b->data[i] << 16 | (left > 1 ? (uint32_t)b->data[i + 1] << 8 : 0) |
                              (left > 2 ? b->data[i + 2] : 0);
        const char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63], left > 1 ? digits[bits >> 6 & 63] : '=',
                              left > 2 ? digits[bits & 63] : '='};
        stk__text_write(t, four, 4);
    }
    stk__text_puts(t, "\"}");
}

/* The fewest digits that read back as the same number; `single` when it came from a float32 or less. */
static void print_real(stk__text *t, double x, bool single)
{
    if (isnan(x)) {
        stk__text_puts(t, "\"NaN\"");
    } else if (isinf(x)) {
        stk__text_puts(t, x > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    } else {
        char digits[40];
        for (int n = 1; n <= 17; n++) {
            snprintf(digits, sizeof digits, "%.*g", n, x);
            if (single ? strtof(digits, NULL) == (float)x : strtod(digits, NULL) == x)
                break;
        }
        stk__text_puts(t, digits);
    }
}

static void print_element(stk__text *t, const stk_column *c, int64_t i)
{
    const size_t size = stk_dtype_size(c->dtype);
    const char *at = (const char *)c->data + (size_t)i * size;
    stk_bytes bytes;
    double number;
    int64_t integer;
    uint64_t natural;
    switch (c->dtype) {
    case STK_BYTES:
        memcpy(&bytes, at, sizeof bytes);
        if (is_utf8(&bytes))
            stk__text_json(t, (const char *)bytes.data, (size_t)bytes.size);
        else
            print_base64(t, &bytes);
        return;
    case STK_BOOL:
        stk__text_puts(t, *at ? "true" : "false");
        return;
    case STK_FLOAT16:
    case STK_BFLOAT16:
    case STK_FLOAT32:
    case STK_FLOAT64:
        stk__convert(&number, STK_FLOAT64, at, c->dtype, 1);
        print_real(t, number, c->dtype != STK_FLOAT64);
        return;
    case STK_UINT64:
        memcpy(&natural, at, sizeof natural);
        stk__text_printf(t, "%llu", (unsigned long long)natural);
        return;
    default:
        stk__convert(&integer, STK_INT64, at, c->dtype, 1);
        stk__text_printf(t, "%lld", (long long)integer);
    }
}

/* Elements from *next on as nested lists of the given shape. */
static void print_nested(stk__text *t, const stk_column *c, const int64_t *shape, int ndim, int64_t *next)
{
    if (ndim == 0) {
        print_element(t, c, (*next)++);
        return;
    }
    stk__text_putc(t, '[');
    for (int64_t i = 0; i < shape[0]; i++) {
        if (i)
            stk__text_puts(t, ", ");
        print_nested(t, c, shape + 1, ndim - 1, next);
    }
    stk__text_putc(t, ']');
}

static void print_field(stk__text *t, const stk_column *c, int64_t row, int64_t rows)
{
    const int ndim = c->ndim - 1;
    int64_t shape[STK_MAX_DIMS], next;
    memcpy(shape, c->shape + 1, sizeof(int64_t) * (size_t)ndim);
    if (c->offsets) {
        next = c->offsets[row];
        if (c->row_shapes)
            memcpy(shape, c->row_shapes + row * ndim, sizeof(int64_t) * (size_t)ndim);
        else
            shape[0] = c->offsets[row + 1] - c->offsets[row];
    } else {
        next = rows ? c->elements / rows * row : 0;
    }
    stk__text_json_str(t, c->name);
    stk__text_putc(t, ':');
    print_nested(t, c, shape, ndim, &next);
}

static stk_status print_consume(const stk_call *call, const stk_batch *batch, stk_error *err)
{
    print_state *s = call->state;
    stk__text_reset(&s->text);
    for (int64_t row = 0; row < batch->rows; row++) {
        stk__text_putc(&s->text, '{');
        for (int32_t i = 0; i < batch->column_count; i++) {
            if (i)
                stk__text_puts(&s->text, ", ");
            print_field(&s->text, &batch->columns[i], row, batch->rows);
        }
        stk__text_puts(&s->text, "}\n");
    }
    if (s->text.failed)
        return stk__nomem(s->text.length, err);
    return call->host->print(call, s->text.data, s->text.length, err);
}

static const stk_option print_options[] = {STK_OPTION_END};

const stk_op stk__op_print = {
    .abi = STK_OP_ABI,
    .name = "print",
    .group = "sink",
    .since = "0.1",
    .summary = "Write each sample as one line of JSON.",
    .example = "range(3) | print",
    .options = print_options,
    .state_size = sizeof(print_state),
    .role = STK_ROLE_SINK,
    .close = print_close,
    .consume = print_consume,
};
