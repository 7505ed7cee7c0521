/* Tables of the workbench: their life, their values, and what an export needs besides. */
#include <string.h>

#include "analyze/workbench_impl.h"
#include "base/mem.h"

#include "base/banned.h"

/* Rows between two looks at whether memory of spilled columns can go. */
enum { TRIM_ROWS = 1 << 20 };

/* ---- life ---- */

stk_table *stk__table_new(stk_trace *trace, size_t columns)
{
    stk_table *table = stk__calloc(1, sizeof *table);
    stk__table_column *items = stk__calloc(columns, sizeof *items);
    if (!table || !items) {
        stk__free(table);
        stk__free(items);
        return NULL;
    }
    atomic_init(&table->references, 1);
    pthread_mutex_init(&table->lock, NULL);
    table->trace = trace ? stk__workbench_ref(trace) : NULL;
    table->count = columns;
    table->columns = items;
    return table;
}

stk_table *stk__table_ref(stk_table *table)
{
    atomic_fetch_add_explicit(&table->references, 1, memory_order_relaxed);
    return table;
}

void stk_table_free(stk_table *table)
{
    if (!table || atomic_fetch_sub_explicit(&table->references, 1, memory_order_acq_rel) > 1)
        return;
    for (size_t i = 0; i < table->count; i++) {
        stk__table_column *c = &table->columns[i];
        stk__free(c->name);
        for (size_t k = 0; k < STK_COUNT(c->owned); k++)
            stk__free(c->owned[k]);
        for (size_t k = 0; k < STK_COUNT(c->made); k++)
            stk__free(c->made[k]);
    }
    stk__free(table->columns);
    stk__workbench_unref(table->trace);
    pthread_mutex_destroy(&table->lock);
    stk__free(table);
}

/* ---- values ---- */

size_t stk__layout_bytes(stk__layout layout)
{
    switch (layout) {
    case STK__LAYOUT_INT64:
    case STK__LAYOUT_DOUBLE:
    case STK__LAYOUT_LARGE:
        return 8;
    case STK__LAYOUT_UINT32:
    case STK__LAYOUT_TEXT:
        return 4;
    case STK__LAYOUT_UINT16:
        return 2;
    case STK__LAYOUT_UINT8:
        return 1;
    default:
        return 0;
    }
}

/* The bits of a number, or the number of a text. */
static inline uint64_t bits_at(const stk__table_column *c, size_t row)
{
    const size_t at = c->place ? c->place[row] : row;
    switch (c->layout) {
    case STK__LAYOUT_INT64:
    case STK__LAYOUT_DOUBLE:
        return ((const uint64_t *)c->data)[at];
    case STK__LAYOUT_UINT32:
        return ((const uint32_t *)c->data)[at];
    case STK__LAYOUT_UINT16:
        return ((const uint16_t *)c->data)[at];
    case STK__LAYOUT_UINT8: {
        const uint8_t x = ((const uint8_t *)c->data)[at];
        return c->flag ? (x & c->flag) != 0 : x;
    }
    default:
        return 0;
    }
}

int64_t stk_table_rows(const stk_table *table)
{
    return table->rows;
}

size_t stk_table_columns(const stk_table *table)
{
    return table->count;
}

const char *stk_table_name(const stk_table *table, size_t column)
{
    return table->columns[column].name;
}

stk_column_kind stk_table_kind(const stk_table *table, size_t column)
{
    return table->columns[column].kind;
}

bool stk_table_is_null(const stk_table *table, size_t column, int64_t row)
{
    const stk__table_column *c = &table->columns[column];
    if (c->kind == STK_KIND_NULL)
        return true;
    if (c->has_none)
        return bits_at(c, (size_t)row) == c->none;
    return c->validity && !(c->validity[row / 8] >> (row % 8) & 1);
}

int64_t stk_table_int64(const stk_table *table, size_t column, int64_t row)
{
    return (int64_t)bits_at(&table->columns[column], (size_t)row);
}

double stk_table_double(const stk_table *table, size_t column, int64_t row)
{
    const uint64_t bits = bits_at(&table->columns[column], (size_t)row);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static const char *text_at(const void *offsets, bool large, const char *bytes, size_t at, size_t *out_size)
{
    const uint64_t from = large ? ((const uint64_t *)offsets)[at] : ((const uint32_t *)offsets)[at];
    const uint64_t end = large ? ((const uint64_t *)offsets)[at + 1] : ((const uint32_t *)offsets)[at + 1];
    *out_size = (size_t)(end - from);
    return bytes ? bytes + from : "";
}

const char *stk_table_text(const stk_table *table, size_t column, int64_t row, size_t *out_size)
{
    const stk__table_column *c = &table->columns[column];
    size_t ignored;
    if (!out_size)
        out_size = &ignored;
    *out_size = 0;
    if (stk_table_is_null(table, column, row))
        return "";
    if (c->kind != STK_KIND_DICTIONARY)
        return text_at(c->data, c->layout == STK__LAYOUT_LARGE, c->bytes, (size_t)row, out_size);
    const uint64_t number = bits_at(c, (size_t)row);
    const stk__dictionary *d = c->dictionary;
    return number < (uint64_t)d->count ? text_at(d->offsets, d->large, d->bytes, (size_t)number, out_size) : "";
}

/* ---- ready for export ---- */

/* Values that are not there in a row of their own, for the rows first to end. */
static void pick_values(const stk__table_column *c, size_t first, size_t end, void *out)
{
    if (c->layout == STK__LAYOUT_INT64) {
        for (size_t i = first; i < end; i++)
            ((int64_t *)out)[i] = ((const int64_t *)c->data)[c->place[i]];
    } else if (c->layout == STK__LAYOUT_UINT32) {
        for (size_t i = first; i < end; i++)
            ((uint32_t *)out)[i] = ((const uint32_t *)c->data)[c->place[i]];
    } else {
        for (size_t i = first; i < end; i++)
            ((uint8_t *)out)[i] = (((const uint8_t *)c->data)[i] & c->flag) != 0;
    }
}

/* Sets the bits of rows that are there, and counts the others. */
static size_t mark_valid(const stk__table_column *c, size_t first, size_t end, uint8_t *bits)
{
    size_t nulls = 0;
    for (size_t at = first; at < end; at += 8) { /* first is a multiple of 8 */
        unsigned byte = 0;
        for (size_t i = at; i < STK_MIN(at + 8, end); i++) {
            const uint64_t x = c->layout == STK__LAYOUT_INT64 ? ((const uint64_t *)c->ready_data)[i]
                                                              : ((const uint32_t *)c->ready_data)[i];
            byte |= (unsigned)(x != c->none) << (i - at);
        }
        bits[at / 8] = (uint8_t)byte;
        nulls += STK_MIN(end - at, (size_t)8) - (size_t)__builtin_popcount(byte);
    }
    return nulls;
}

/* Passes over the rows of one column, with memory given back in between. */
static void trim_between(const stk_table *table)
{
    if (table->trace)
        stk__trace_trim(table->trace->model);
}

static bool make_values(const stk_table *table, stk__table_column *c)
{
    const size_t rows = (size_t)table->rows;
    c->ready_data = c->data;
    if (!c->place && !c->flag)
        return true;
    c->made[0] = stk__alloc((rows + 1) * stk__layout_bytes(c->layout));
    if (!c->made[0])
        return false;
    for (size_t at = 0; at < rows; at += TRIM_ROWS) {
        pick_values(c, at, STK_MIN(at + TRIM_ROWS, rows), c->made[0]);
        trim_between(table);
    }
    c->ready_data = c->made[0];
    return true;
}

/* Of results, whose bits are there. */
static int64_t count_zeros(const uint8_t *bits, size_t rows)
{
    int64_t zeros = 0;
    for (size_t i = 0; i < rows; i++)
        zeros += !(bits[i / 8] >> (i % 8) & 1);
    return zeros;
}

static bool make_validity(const stk_table *table, stk__table_column *c)
{
    const size_t rows = (size_t)table->rows;
    c->ready_validity = c->validity;
    c->null_count = c->kind == STK_KIND_NULL ? table->rows : c->validity ? count_zeros(c->validity, rows) : 0;
    if (!c->has_none)
        return true;
    c->made[1] = stk__alloc(rows / 8 + 1);
    if (!c->made[1])
        return false;
    for (size_t at = 0; at < rows; at += TRIM_ROWS) {
        c->null_count += (int64_t)mark_valid(c, at, STK_MIN(at + TRIM_ROWS, rows), c->made[1]);
        trim_between(table);
    }
    if (!c->null_count) { /* then none is needed */
        stk__free(c->made[1]);
        c->made[1] = NULL;
    }
    c->ready_validity = c->made[1];
    return true;
}

bool stk__table_ready(stk_table *table, stk__table_column *c)
{
    pthread_mutex_lock(&table->lock);
    if (!c->ready) {
        c->ready = make_values(table, c) && make_validity(table, c);
        if (!c->ready) {
            stk__free(c->made[0]);
            c->made[0] = NULL;
        }
    }
    const bool ready = c->ready;
    pthread_mutex_unlock(&table->lock);
    return ready;
}
