/* Flat tables as text: rows as JSON objects and as CSV. */
#include <string.h>

#include "trace/emit.h"
#include "trace/flat_impl.h"

#include "base/banned.h"

/* A chain of a million frames, seen by a million samples, is no more use than this many of its innermost frames. */
enum { STACK_MAX = 1024 };

/* ---- JSON ---- */

static void put_int(stk__text *out, int64_t n, bool quoted)
{
    if (quoted)
        stk__emit_char(out, '"');
    stk__emit_int(out, n);
    if (quoted)
        stk__emit_char(out, '"');
}

/* Innermost first into `out`; returns how many. `*out_more` frames further out are left away. */
static size_t collect_stack(const stk__trace *t, int64_t callsite, uint32_t *out, size_t *out_more)
{
    size_t count = 0;
    *out_more = 0;
    for (uint32_t c = (uint32_t)callsite; c < t->callsite_count;) {
        if (count < STACK_MAX)
            out[count++] = t->callsites[c].frame;
        else
            ++*out_more;
        const uint32_t parent = t->callsites[c].parent;
        if (parent >= c) /* parents have lower numbers: also the end, STK__NONE */
            break;
        c = parent;
    }
    return count;
}

static void put_stack(stk__text *out, const stk__flat *r, int64_t callsite)
{
    uint32_t frames[STACK_MAX];
    size_t more, size;
    size_t count = collect_stack(r->t, callsite, frames, &more);
    stk__emit_char(out, '[');
    if (more)
        stk__text_printf(out, "\"(%zu more frames)\",", more);
    while (count--) {
        const char *label = stk__labels_get(&r->frames, frames[count], &size);
        stk__emit_json(out, label, size);
        if (count)
            stk__emit_char(out, ',');
    }
    stk__emit_char(out, ']');
}

/* The value as a JSON string, whatever its type. */
static void put_arg_text(stk__text *out, const stk__trace *t, size_t row)
{
    const unsigned type = t->args.type[row] & STK__ARG_TYPE;
    size_t size;
    if (type == STK__ARG_JSON) {
        const char *json = stk__trace_text(t, (stk__string)t->args.value[row].string, &size);
        stk__emit_json(out, json, size);
    } else if (type == STK__ARG_STRING || (type == STK__ARG_DOUBLE && !isfinite(t->args.value[row].real))) {
        stk__emit_arg_value(out, t, row); /* in quotes already */
    } else {
        stk__emit_char(out, '"');
        stk__emit_arg_value(out, t, row);
        stk__emit_char(out, '"');
    }
}

static void put_arg_record(stk__text *out, const stk__trace *t, size_t row)
{
    STK__EMIT(out, "{\"key\":");
    stk__emit_json_string(out, t, t->args.key[row]);
    switch (t->args.type[row] & STK__ARG_TYPE) {
    case STK__ARG_NULL:
        break;
    case STK__ARG_INT:
        STK__EMIT(out, ",\"int_value\":");
        put_arg_text(out, t, row);
        break;
    case STK__ARG_DOUBLE:
        STK__EMIT(out, ",\"double_value\":");
        stk__emit_arg_value(out, t, row);
        break;
    default:
        STK__EMIT(out, ",\"string_value\":");
        put_arg_text(out, t, row);
    }
    stk__emit_char(out, '}');
}

static void put_args(stk__text *out, const stk__trace *t, uint32_t first, stk__args_style style)
{
    if (style == STK__ARGS_OBJECT) {
        stk__emit_args(out, t, first);
        return;
    }
    const size_t end = stk__args_end(t, first);
    stk__emit_char(out, style == STK__ARGS_TEXTS ? '{' : '[');
    for (size_t row = first; row < end; row++) {
        if (row != first)
            stk__emit_char(out, ',');
        if (style == STK__ARGS_RECORDS) {
            put_arg_record(out, t, row);
            continue;
        }
        stk__emit_json_string(out, t, t->args.key[row]);
        stk__emit_char(out, ':');
        put_arg_text(out, t, row);
    }
    stk__emit_char(out, style == STK__ARGS_TEXTS ? '}' : ']');
}

static void put_json_cell(stk__text *out, const stk__flat *r, stk__flat_type type, const stk__flat_cell *cell,
                          const stk__json_style *style)
{
    if (cell->null) {
        STK__EMIT(out, "null");
        return;
    }
    switch (type) {
    case STK__FLAT_INT:
        put_int(out, cell->integer, style->text_integers);
        break;
    case STK__FLAT_DOUBLE:
        if (isfinite(cell->real) || style->text_doubles)
            stk__emit_json_double(out, cell->real);
        else
            STK__EMIT(out, "null");
        break;
    case STK__FLAT_BOOL:
        stk__emit_bytes(out, cell->integer ? "true" : "false", cell->integer ? 4 : 5);
        break;
    case STK__FLAT_TEXT:
        stk__emit_json(out, cell->text, cell->size);
        break;
    case STK__FLAT_ARGS:
        put_args(out, r->t, (uint32_t)cell->integer, style->args);
        break;
    case STK__FLAT_STACK:
        put_stack(out, r, cell->integer);
        break;
    }
}

void stk__flat_json(const stk__flat *rows, const stk__flat_table *table, size_t row, const stk__json_style *style,
                    stk__text *out)
{
    stk__flat_cell cells[STK__FLAT_COLUMNS_MAX];
    table->fill(rows, row, cells);
    stk__emit_char(out, '{');
    if (style->type) {
        STK__EMIT(out, "\"type\":\"");
        stk__emit_bytes(out, style->type, strlen(style->type));
        stk__emit_char(out, '"');
    }
    bool any = style->type != NULL;
    for (size_t i = 0; i < table->column_count; i++) {
        if (cells[i].null && style->skip_nulls)
            continue;
        const char *name = table->columns[i].name;
        stk__emit_bytes(out, any ? ",\"" : "\"", any ? 2 : 1);
        stk__emit_bytes(out, name, strlen(name));
        STK__EMIT(out, "\":");
        put_json_cell(out, rows, table->columns[i].type, &cells[i], style);
        any = true;
    }
    STK__EMIT(out, "}\n");
}

/* ---- CSV ---- */

/* "main;run;step": as folded stacks are, with what would part frames or lines made a blank. */
static void put_csv_stack(stk__flat *r, int64_t callsite)
{
    uint32_t frames[STACK_MAX];
    size_t more, size;
    size_t count = collect_stack(r->t, callsite, frames, &more);
    if (more)
        stk__text_printf(&r->scratch, "(%zu more frames);", more);
    while (count--) {
        const size_t from = r->scratch.length;
        const char *label = stk__labels_get(&r->frames, frames[count], &size);
        stk__text_write(&r->scratch, label, size);
        for (size_t i = from; i < r->scratch.length; i++) {
            if (r->scratch.data[i] == ';' || r->scratch.data[i] == '\n')
                r->scratch.data[i] = ' ';
        }
        if (count)
            stk__text_putc(&r->scratch, ';');
    }
}

static void put_csv_cell(stk__flat *r, stk__flat_type type, const stk__flat_cell *cell, stk__text *out)
{
    if (cell->null)
        return;
    switch (type) {
    case STK__FLAT_INT:
    case STK__FLAT_BOOL:
        stk__emit_int(out, cell->integer);
        return;
    case STK__FLAT_DOUBLE:
        if (isfinite(cell->real))
            stk__emit_double(out, cell->real);
        else
            stk__text_puts(out, isnan(cell->real) ? "NaN" : cell->real > 0 ? "Infinity" : "-Infinity");
        return;
    case STK__FLAT_TEXT:
        stk__text_csv(out, cell->text, cell->size);
        return;
    case STK__FLAT_ARGS:
        if (cell->integer == 0)
            return;
        stk__text_reset(&r->scratch);
        stk__emit_args(&r->scratch, r->t, (uint32_t)cell->integer);
        break;
    case STK__FLAT_STACK:
        stk__text_reset(&r->scratch);
        put_csv_stack(r, cell->integer);
        break;
    }
    if (r->scratch.failed)
        out->failed = true;
    else
        stk__text_csv(out, r->scratch.data ? r->scratch.data : "", r->scratch.length);
}

void stk__flat_csv_head(const stk__flat_table *table, stk__text *out)
{
    for (size_t i = 0; i < table->column_count; i++) {
        if (i)
            stk__emit_char(out, ',');
        stk__emit_bytes(out, table->columns[i].name, strlen(table->columns[i].name));
    }
    STK__EMIT(out, "\r\n");
}

void stk__flat_csv(stk__flat *rows, const stk__flat_table *table, size_t row, stk__text *out)
{
    stk__flat_cell cells[STK__FLAT_COLUMNS_MAX];
    table->fill(rows, row, cells);
    for (size_t i = 0; i < table->column_count; i++) {
        if (i)
            stk__emit_char(out, ',');
        put_csv_cell(rows, table->columns[i].type, &cells[i], out);
    }
    STK__EMIT(out, "\r\n");
}
