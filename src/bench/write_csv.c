/* Writes a result as CSV, one line for each run: what a data frame or a spreadsheet wants. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/export.h"
#include "bench/log_impl.h"

#include "base/banned.h"

/* Names and commands may be anybody's. Returns whether a spreadsheet would have taken it for a formula. */
static bool put_text(stk__text *out, const char *text)
{
    return stk__text_csv_safe(out, text, strlen(text));
}

static const char *parameter_of(const stk__variant *v, const char *name)
{
    for (size_t i = 0; i < v->parameter_count; i++) {
        if (strcmp(v->parameters[i].name, name) == 0)
            return v->parameters[i].value;
    }
    return "";
}

/* The parameters of all variants, each once. */
static stk_status all_parameters(const stk__export *ex, stk__name_table *out)
{
    for (size_t i = 0; i < ex->r->variant_count; i++) {
        const stk__variant *v = &ex->r->variants[i];
        for (size_t k = 0; k < v->parameter_count; k++) {
            if (stk__names_add(out, v->parameters[k].name, strlen(v->parameters[k].name)) == SIZE_MAX)
                return stk__nomem(strlen(v->parameters[k].name), ex->err);
        }
    }
    return STK_OK;
}

static void put_header(const stk__export *ex, const stk__name_table *parameters, const bool *known)
{
    stk__text name = STK__TEXT_INIT;
    stk__text_puts(ex->out, "variant,command,round,exit_code");
    for (size_t i = 0; i < parameters->count; i++) {
        stk__text_reset(&name);
        stk__text_printf(&name, "parameter_%s", parameters->items[i]);
        stk__text_putc(ex->out, ',');
        stk__log_csv_field(ex->out, name.failed ? "" : name.data);
    }
    for (size_t m = 0; m < ex->r->metric_count; m++) {
        if (known[m]) {
            stk__text_putc(ex->out, ',');
            put_text(ex->out, ex->r->metrics[m].name);
        }
    }
    ex->out->failed |= name.failed;
    stk__text_clear(&name);
    stk__text_putc(ex->out, '\n');
}

/* Returns how many fields got an apostrophe. */
static size_t put_variant(const stk__export *ex, const stk__variant *v, const stk__name_table *parameters,
                          const bool *known)
{
    size_t marked = 0;
    for (size_t i = 0; i < v->runs; i++) {
        const int code = stk__bench_export_exit_code(v, i);
        marked += put_text(ex->out, v->name);
        stk__text_putc(ex->out, ',');
        marked += put_text(ex->out, v->command);
        stk__text_printf(ex->out, ",%zu,", i + 1);
        if (code >= 0)
            stk__text_printf(ex->out, "%d", code);
        for (size_t k = 0; k < parameters->count; k++) {
            stk__text_putc(ex->out, ',');
            marked += put_text(ex->out, parameter_of(v, parameters->items[k]));
        }
        for (size_t m = 0; m < ex->r->metric_count; m++) {
            if (!known[m])
                continue;
            stk__text_putc(ex->out, ',');
            if (isfinite(v->values[m][i]))
                stk__text_json_double(ex->out, v->values[m][i]);
        }
        stk__text_putc(ex->out, '\n');
    }
    return marked;
}

static stk_status write_all(const stk__export *ex, const stk__name_table *parameters)
{
    size_t marked = 0;
    bool *known = stk__calloc(ex->r->metric_count + 1, sizeof *known);
    if (!known)
        return stk__nomem(ex->r->metric_count, ex->err);
    for (size_t m = 0; m < ex->r->metric_count; m++)
        known[m] = stk__bench_export_any(ex, m);
    put_header(ex, parameters, known);
    for (size_t i = 0; i < ex->r->variant_count; i++)
        marked += put_variant(ex, &ex->r->variants[i], parameters, known);
    stk__free(known);
    if (marked)
        stk__bench_export_note(
            ex, "%zu fields of the CSV file got an apostrophe: spreadsheets would run them as formulas", marked);
    return STK_OK;
}

stk_status stk__write_csv(const stk__export *ex)
{
    stk__name_table parameters = {0};
    stk_status status = all_parameters(ex, &parameters);
    if (status == STK_OK)
        status = write_all(ex, &parameters);
    stk__names_clear(&parameters);
    return status;
}
