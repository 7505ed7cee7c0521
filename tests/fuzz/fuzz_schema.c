/* Fuzz target: reads any bytes as a schema; what it takes is written and read again, with the same text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

/* Touches every byte that the schema says it has. */
static void walk(const stk__schema *s)
{
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < s->count; i++) {
        const stk__schema_entry *e = &s->entries[i];
        check(e->name && *e->name && e->ndim >= 0 && e->ndim <= STK_MAX_DIMS && (size_t)e->dtype < STK_DTYPE_COUNT);
        check(e->chunk_ndim <= STK__H5_MAX_RANK && stk__schema_find(s, e->name) == e);
        for (size_t k = 0; k < e->fill_size; k++)
            sum = (uint8_t)(sum + e->fill[k]);
        for (size_t k = 0; k < e->filter_count; k++)
            for (size_t v = 0; v < e->filters[k].value_count; v++)
                sum = (uint8_t)(sum + e->filters[k].values[v]);
    }
    for (size_t i = 0; i < s->attribute_count; i++) {
        const stk__h5_attribute *a = &s->attributes[i];
        for (int64_t k = 0; a->strings && k < a->count; k++)
            check(a->strings[k].data[a->strings[k].size] == 0);
        for (int64_t k = 0; !a->strings && k < a->count * (int64_t)a->size; k++)
            sum = (uint8_t)(sum + a->data[k]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk__schema s, back;
    stk__text text = STK__TEXT_INIT, again = STK__TEXT_INIT;
    stk_error err;
    stk_error_clear(&err);
    if (stk__schema_parse((const char *)data, size, &s, &err) != STK_OK) {
        check(err.status != STK_OK && err.message[0] && s.count == 0);
        return 0;
    }
    walk(&s);
    if (stk__schema_print(&s, &text, &err) == STK_OK) {
        check(stk__schema_parse(text.data, text.length, &back, &err) == STK_OK);
        check(stk__schema_print(&back, &again, &err) == STK_OK);
        check(text.length == again.length && memcmp(text.data, again.data, text.length) == 0);
        stk__schema_clear(&back);
    }
    stk__text_clear(&text);
    stk__text_clear(&again);
    stk__schema_clear(&s);
    return 0;
}
