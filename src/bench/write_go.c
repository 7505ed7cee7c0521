/* Writes a result as Go's benchmark text: a line for each run, variants as /variant=NAME for benchstat -col. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/export.h"
#include "bench/go_units.h"

#include "base/banned.h"

enum { MAX_UNIT = 100 };

typedef struct writer {
    const stk__export *ex;
    stk__name_table names, units;
    stk__name_table meanings; /* the metrics that a reader makes of the units */
    size_t *unit_of;          /* of each metric: index in units, or SIZE_MAX: left out */
    double *factors;          /* of each metric */
    bool groups;              /* more than one */
    size_t renamed, left_out;
} writer;

static void write_machine(const stk__export *ex)
{
    const char *machine = ex->r->machine;
    if (!machine)
        return;
    if (strstr(machine, "Linux")) {
        stk__text_puts(ex->out, "goos: linux\n");
#if defined(__x86_64__)
        stk__text_puts(ex->out, "goarch: amd64\n");
#elif defined(__aarch64__)
        stk__text_puts(ex->out, "goarch: arm64\n");
#endif
    }
    stk__text line = STK__TEXT_INIT;
    for (const char *s = machine; *s; s++)
        stk__text_putc(&line, (unsigned char)*s < ' ' || *s == 0x7f ? ' ' : *s);
    stk__text_printf(ex->out, "cpu: %s\n", line.data && !line.failed ? line.data : "");
    stk__text_clear(&line);
}

/* Whether a reader can tell the unit, and the metric that it makes of it, from the others. */
static bool is_usable(const writer *w, const stk__text *unit, const char *meaning)
{
    return unit->length > 0 && unit->length <= MAX_UNIT &&
           stk__names_find(&w->units, unit->data, unit->length) == SIZE_MAX &&
           stk__names_find(&w->meanings, meaning, strlen(meaning)) == SIZE_MAX;
}

static stk_status make_unit(writer *w, size_t m)
{
    const stk__export *ex = w->ex;
    const stk__metric *metric = &ex->r->metrics[m];
    stk__text t = STK__TEXT_INIT;
    stk__go_unit parsed = {.name = ""};
    stk__go_unit_print(metric, &t, &w->factors[m]);
    if (t.failed) {
        stk__text_clear(&t);
        return stk__nomem(strlen(metric->name), ex->err);
    }
    if (t.length && t.length <= MAX_UNIT)
        stk__go_unit_parse(t.data, &parsed);
    w->unit_of[m] = SIZE_MAX;
    const bool usable = is_usable(w, &t, parsed.name);
    if (usable && stk__names_add(&w->meanings, parsed.name, strlen(parsed.name)) != SIZE_MAX)
        w->unit_of[m] = stk__names_add(&w->units, t.data, t.length);
    stk__text_clear(&t);
    if (!usable)
        stk__bench_export_note(ex, "the metric '%.80s' was left out: its name as a unit is too long or taken",
                               metric->name);
    else if (w->unit_of[m] == SIZE_MAX)
        return stk__nomem(strlen(metric->name), ex->err);
    return STK_OK;
}

static stk_status make_units(writer *w)
{
    for (size_t m = 0; m < w->ex->r->metric_count; m++) {
        STK_TRY(make_unit(w, m));
        if (w->unit_of[m] == SIZE_MAX)
            continue;
        const bool higher = w->ex->r->metrics[m].higher_is_better;
        const char *unit = w->units.items[w->unit_of[m]];
        if (!stk__go_unit_tells(unit, higher))
            stk__text_printf(w->ex->out, "Unit %s better=%s\n", unit, higher ? "higher" : "lower");
    }
    return STK_OK;
}

/* Benchmarks that were read from Go's text keep their names. */
static bool is_go_name(const char *text)
{
    if (strncmp(text, "Benchmark", 9) != 0 || (text[9] >= 'a' && text[9] <= 'z'))
        return false;
    stk__text t = STK__TEXT_INIT;
    stk__go_safe(&t, text, "");
    const bool same = t.data && !t.failed && strcmp(t.data, text) == 0;
    stk__text_clear(&t);
    return same;
}

/* "-2" at the end would be read as the number of processors. */
static bool hide_number(stk__text *t)
{
    size_t i = t->length;
    while (i && t->data[i - 1] >= '0' && t->data[i - 1] <= '9')
        i--;
    if (!i || i == t->length || t->data[i - 1] != '-')
        return false;
    t->data[i - 1] = '_';
    return true;
}

static void put_part(stk__text *t, const char *key, const char *value)
{
    stk__text_putc(t, '/');
    stk__go_safe(t, key, "/=");
    stk__text_putc(t, '=');
    stk__go_safe(t, *value ? value : "_", "/");
}

/* The name of a variant's lines, the table's; NULL when memory is out. */
static const char *make_name(writer *w, const stk__variant *v)
{
    if (is_go_name(v->command) && stk__names_find(&w->names, v->command, strlen(v->command)) == SIZE_MAX) {
        const size_t index = stk__names_add(&w->names, v->command, strlen(v->command));
        return index == SIZE_MAX ? NULL : w->names.items[index];
    }
    stk__text t = STK__TEXT_INIT, safe = STK__TEXT_INIT;
    stk__text_puts(&t, "BenchmarkStoker");
    for (size_t i = 0; i < v->parameter_count; i++)
        put_part(&t, v->parameters[i].name, v->parameters[i].value);
    if (w->groups)
        stk__text_printf(&t, "/group=%zu", v->group);
    put_part(&t, "variant", v->name);
    stk__go_safe(&safe, v->name, "/");
    const bool hidden = !t.failed && hide_number(&t);
    w->renamed += hidden || !safe.data || strcmp(safe.data, v->name) != 0;
    const char *name = t.failed ? NULL : stk__names_unique(&w->names, t.data, "#", 2);
    stk__text_clear(&t);
    stk__text_clear(&safe);
    return name;
}

static void write_line(writer *w, const stk__variant *v, const char *name, size_t run)
{
    stk__text *t = w->ex->out;
    bool any = false;
    for (size_t m = 0; m < w->ex->r->metric_count; m++)
        any |= w->unit_of[m] != SIZE_MAX && isfinite(v->values[m][run]);
    if (!any) {
        w->left_out++;
        return;
    }
    stk__text_printf(t, "%s 1", name);
    for (size_t m = 0; m < w->ex->r->metric_count; m++) {
        const double x = v->values[m][run];
        if (w->unit_of[m] == SIZE_MAX || !isfinite(x))
            continue;
        stk__text_putc(t, ' ');
        stk__text_json_double(t, fmax(fmin(x * w->factors[m], DBL_MAX), -DBL_MAX));
        stk__text_printf(t, " %s", w->units.items[w->unit_of[m]]);
    }
    stk__text_putc(t, '\n');
}

static stk_status write_text(writer *w)
{
    const stk__result *r = w->ex->r;
    write_machine(w->ex);
    STK_TRY(make_units(w));
    for (size_t i = 1; i < r->variant_count; i++)
        w->groups |= r->variants[i].group != r->variants[0].group;
    for (size_t i = 0; i < r->variant_count; i++) {
        const char *name = make_name(w, &r->variants[i]);
        if (!name)
            return stk__nomem(strlen(r->variants[i].name), w->ex->err);
        for (size_t k = 0; k < r->variants[i].runs; k++)
            write_line(w, &r->variants[i], name, k);
    }
    if (w->renamed)
        stk__bench_export_note(
            w->ex, "%zu names hold blanks, '/' or a number at the end that Go's text cannot: '_' was written",
            w->renamed);
    if (w->left_out)
        stk__bench_export_note(w->ex, "%zu runs without any known value were left out", w->left_out);
    if (r->paired)
        stk__bench_export_note(w->ex, "Go's text has no word for pairs: a reader takes the runs as unpaired");
    return STK_OK;
}

stk_status stk__write_go(const stk__export *ex)
{
    writer w = {.ex = ex};
    w.unit_of = stk__calloc(ex->r->metric_count, sizeof *w.unit_of);
    w.factors = stk__calloc(ex->r->metric_count, sizeof *w.factors);
    const stk_status status =
        w.unit_of && w.factors ? write_text(&w) : stk__nomem(ex->r->metric_count * sizeof *w.factors, ex->err);
    stk__free(w.unit_of);
    stk__free(w.factors);
    stk__names_clear(&w.names);
    stk__names_clear(&w.units);
    stk__names_clear(&w.meanings);
    return status;
}
