/* Reads Google Benchmark's JSON: rows of single runs; aggregates are made from those and are left out. */
#include <math.h>
#include <string.h>

#include "bench/import.h"

#include "base/banned.h"

enum { REAL, CPU }; /* metrics that every row has */

typedef struct counts {
    size_t aggregates, failures, not_numbers;
    bool cpu; /* some CPU time is above 0 */
} counts;

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Files from before run_type tell aggregates by name alone: "BM_x_mean" after rows of "BM_x". */
static bool named_as_aggregate(const stk__import *in, const char *name)
{
    static const char *const ends[] = {"_mean", "_median", "_stddev", "_cv"};
    for (size_t i = 0; i < STK_COUNT(ends); i++) {
        if (ends_with(name, ends[i]) && stk__names_find(&in->names, name, strlen(name) - strlen(ends[i])) != SIZE_MAX)
            return true;
    }
    return false;
}

static bool is_aggregate(const stk__import *in, const json_t *row)
{
    const char *type = stk__import_string(row, "run_type"), *name = stk__import_string(row, "name");
    if (type)
        return strcmp(type, "aggregate") == 0;
    return json_object_get(row, "big_o") || json_object_get(row, "rms") || (name && named_as_aggregate(in, name));
}

static bool is_failure(const json_t *row)
{
    return json_is_true(json_object_get(row, "error_occurred")) || json_is_true(json_object_get(row, "skipped"));
}

/* Numbers of a row that are not what the program counted. */
static bool is_own_key(const char *key)
{
    static const char *const keys[] = {"family_index", "per_family_instance_index",
                                       "repetitions",  "repetition_index",
                                       "threads",      "iterations",
                                       "real_time",    "cpu_time"};
    for (size_t i = 0; i < STK_COUNT(keys); i++) {
        if (strcmp(key, keys[i]) == 0)
            return true;
    }
    return false;
}

static stk_status add_counter(stk__import *in, const char *key, size_t *out_index)
{
    const size_t length = strlen(key), tail = strlen("_per_second");
    if (length <= tail || !ends_with(key, "_per_second"))
        return stk__import_counter(in, key, "count", false, out_index);
    char unit[80];
    stk__text t;
    stk__text_fixed(&t, unit, sizeof unit);
    stk__text_write(&t, key, STK_MIN(length - tail, sizeof unit - 8));
    stk__text_puts(&t, "/s");
    return stk__import_metric(in, key, unit, true, out_index);
}

/* Calls add_counter for every counter of a row; fills `values` when it is not NULL. */
static stk_status walk_counters(stk__import *in, const json_t *row, double *values, counts *c)
{
    json_t *walk = (json_t *)(uintptr_t)row; /* iterators want one that is not const, and leave it alone */
    for (void *i = json_object_iter(walk); i; i = json_object_iter_next(walk, i)) {
        const json_t *value = json_object_iter_value(i);
        const char *key = json_object_iter_key(i);
        size_t metric;
        if ((!json_is_number(value) && !json_is_null(value)) || is_own_key(key))
            continue;
        if (!values) {
            STK_TRY(add_counter(in, key, &metric));
            continue;
        }
        metric = stk__result_metric(in->out, key);
        if (metric <= CPU)
            continue; /* a counter with the name of a time */
        if (json_is_null(value))
            c->not_numbers++;
        else
            values[metric] = json_number_value(value);
    }
    return STK_OK;
}

static bool read_unit(const json_t *row, double *out_divisor)
{
    static const struct {
        const char *name;
        double divisor;
    } units[] = {{"ns", 1e9}, {"us", 1e6}, {"ms", 1e3}, {"s", 1}};
    const json_t *unit = json_object_get(row, "time_unit");
    const char *word = unit ? json_string_value(unit) : "ns";
    for (size_t i = 0; word && i < STK_COUNT(units); i++) {
        if (strcmp(word, units[i].name) == 0) {
            *out_divisor = units[i].divisor;
            return true;
        }
    }
    return false;
}

static stk_status read_row(stk__import *in, const json_t *row, size_t index, counts *c)
{
    const char *name = stk__import_string(row, "name");
    double values[STK__IMPORT_METRICS], divisor;
    if (!name)
        return stk__import_bad(in, json_object_get(row, "name"), "a string", "benchmarks[%zu].name", index);
    for (size_t m = 0; m < in->out->metric_count; m++)
        values[m] = NAN;
    if (!stk__import_value(json_object_get(row, "real_time"), &values[REAL]))
        return stk__import_bad(in, json_object_get(row, "real_time"), "a time of at least 0",
                               "benchmarks[%zu].real_time", index);
    const json_t *cpu = json_object_get(row, "cpu_time");
    if (cpu && !stk__import_value(cpu, &values[CPU]))
        return stk__import_bad(in, cpu, "a time of at least 0", "benchmarks[%zu].cpu_time", index);
    if (!read_unit(row, &divisor))
        return stk__import_bad(in, json_object_get(row, "time_unit"), "ns, us, ms or s", "benchmarks[%zu].time_unit",
                               index);
    c->cpu |= values[CPU] > 0;
    values[REAL] /= divisor;
    values[CPU] /= divisor;
    STK_TRY(walk_counters(in, row, values, c));
    size_t variant = stk__names_find(&in->names, name, strlen(name));
    if (variant == SIZE_MAX)
        STK_TRY(stk__import_variant(in, name, name, 0, &variant));
    return stk__import_run(in, variant, values, 0);
}

/* Writers that do not know the CPU time write 0. */
static void forget_cpu(stk__result *r)
{
    for (size_t v = 0; v < r->variant_count; v++) {
        for (size_t i = 0; i < r->variants[v].runs; i++)
            r->variants[v].values[CPU][i] = NAN;
    }
}

static stk_status add_metrics(stk__import *in, const json_t *list)
{
    size_t index;
    STK_TRY(stk__import_counter(in, "wall", "s", false, &index));
    STK_TRY(stk__import_counter(in, "cpu", "s", false, &index));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        if (!json_is_object(row))
            return stk__import_bad(in, row, "an object", "benchmarks[%zu]", i);
        if (!is_aggregate(in, row) && !is_failure(row))
            STK_TRY(walk_counters(in, row, NULL, NULL));
    }
    return STK_OK;
}

static stk_status add_notes(stk__import *in, const counts *c)
{
    if (c->aggregates)
        STK_TRY(stk__result_note(in->out, in->err, "%zu rows of aggregates (mean, median, ...) were left out",
                                 c->aggregates));
    if (c->failures)
        STK_TRY(stk__result_note(in->out, in->err, "%zu rows that failed or were skipped were left out", c->failures));
    if (c->not_numbers)
        STK_TRY(stk__result_note(in->out, in->err, "%zu values of counters are not finite numbers and were left out",
                                 c->not_numbers));
    return STK_OK;
}

stk_status stk__read_google(stk__import *in, const json_t *root)
{
    const json_t *list = json_object_get(root, "benchmarks"), *context = json_object_get(root, "context");
    counts c = {0};
    if (!json_is_array(list))
        return stk__import_bad(in, list, "Google Benchmark's list", "benchmarks");
    STK_TRY(add_metrics(in, list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        if (is_aggregate(in, row))
            c.aggregates++;
        else if (is_failure(row))
            c.failures++;
        else
            STK_TRY(read_row(in, row, i, &c));
    }
    if (!c.cpu)
        forget_cpu(in->out);
    in->out->time_s = stk__import_time(stk__import_string(context, "date"));
    return add_notes(in, &c);
}
