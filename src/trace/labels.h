/* One text per row of a table, worked out once and kept one behind the other. */
#ifndef STK_TRACE_LABELS_H
#define STK_TRACE_LABELS_H

#include "base/str.h"

typedef struct stk__labels {
    stk__text bytes;
    size_t *at; /* count + 1 */
    size_t count;
} stk__labels;

typedef void stk__label_function(const void *arg, uint32_t row, stk__text *out);

/* False when memory is out; clear in any case. */
bool stk__labels_make(stk__labels *l, size_t count, stk__label_function *label, const void *arg);
void stk__labels_clear(stk__labels *l);

/* "" for a row that there is not. */
static inline const char *stk__labels_get(const stk__labels *l, size_t row, size_t *out_size)
{
    if (row >= l->count || !l->bytes.data) {
        *out_size = 0;
        return "";
    }
    *out_size = l->at[row + 1] - l->at[row];
    return l->bytes.data + l->at[row];
}

#endif
