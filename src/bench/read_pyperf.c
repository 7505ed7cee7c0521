/* Reads pyperf's JSON: one value for each process, since those within a process are not independent. */
#include <math.h>
#include <string.h>

#include "bench/import.h"

#include "base/banned.h"

typedef struct counts {
    size_t values, processes, calibrations, warmups;
} counts;

/* Metadata may stand at the file, at the benchmark or at the run. */
static const json_t *metadata(const json_t *root, const json_t *bench, const json_t *run, const char *key)
{
    const json_t *const places[] = {run, bench, root};
    for (size_t i = 0; i < STK_COUNT(places); i++) {
        const json_t *found = json_object_get(json_object_get(places[i], "metadata"), key);
        if (found)
            return found;
    }
    return NULL;
}

static const json_t *first_run(const json_t *bench)
{
    return json_array_get(json_object_get(bench, "runs"), 0);
}

/* The metric of a benchmark's unit. */
static stk_status add_unit(stk__import *in, const json_t *root, const json_t *bench, size_t index, size_t *out_metric)
{
    const json_t *unit = metadata(root, bench, first_run(bench), "unit");
    const char *word = unit ? json_string_value(unit) : "second";
    if (word && strcmp(word, "second") == 0)
        return stk__import_counter(in, "wall", "s", false, out_metric);
    if (word && strcmp(word, "byte") == 0)
        return stk__import_metric(in, "memory", "bytes", false, out_metric);
    if (word && strcmp(word, "integer") == 0)
        return stk__import_metric(in, "value", "count", false, out_metric);
    return stk__import_bad(in, unit, "second, byte or integer", "benchmarks[%zu].metadata.unit", index);
}

/* The mean of the values of one process; false when there are none. */
static stk_status read_values(stk__import *in, const json_t *list, size_t bench, size_t run, double *out_mean)
{
    double mean = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        double x;
        if (!stk__import_value(json_array_get(list, i), &x))
            return stk__import_bad(in, json_array_get(list, i), "a finite number of at least 0",
                                   "benchmarks[%zu].runs[%zu].values[%zu]", bench, run, i);
        mean += (x - mean) / (double)(i + 1);
    }
    *out_mean = mean;
    return STK_OK;
}

/* Memory of the command where pyperf ran one, else of the process; metric is SIZE_MAX when no run tells it. */
static void read_memory(const json_t *root, const json_t *bench, const json_t *run, size_t metric, double *values)
{
    if (metric == SIZE_MAX)
        return;
    if (!stk__import_value(metadata(root, bench, run, "command_max_rss"), &values[metric]))
        (void)stk__import_value(metadata(root, bench, run, "mem_max_rss"), &values[metric]);
}

static stk_status read_runs(stk__import *in, const json_t *root, const json_t *bench, size_t index, size_t variant,
                            size_t metric, counts *c)
{
    const json_t *runs = json_object_get(bench, "runs");
    const size_t memory = stk__result_metric(in->out, "rss");
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i), *list = json_object_get(run, "values");
        double values[STK__IMPORT_METRICS];
        if (!json_is_object(run) || (list && !json_is_array(list)))
            return stk__import_bad(in, json_is_object(run) ? list : run, "a run with a list of values",
                                   "benchmarks[%zu].runs[%zu]", index, i);
        c->warmups += json_array_size(json_object_get(run, "warmups"));
        if (!json_array_size(list)) {
            c->calibrations++;
            continue;
        }
        for (size_t m = 0; m < in->out->metric_count; m++)
            values[m] = NAN;
        STK_TRY(read_values(in, list, index, i, &values[metric]));
        read_memory(root, bench, run, memory, values);
        c->values += json_array_size(list);
        c->processes++;
        STK_TRY(stk__import_run(in, variant, values, 0));
    }
    return STK_OK;
}

static stk_status read_bench(stk__import *in, const json_t *root, const json_t *bench, size_t index, counts *c)
{
    const json_t *name = metadata(root, bench, first_run(bench), "name");
    const json_t *command = metadata(root, bench, first_run(bench), "command");
    size_t metric, variant;
    STK_TRY(add_unit(in, root, bench, index, &metric));
    if (name && !json_is_string(name))
        return stk__import_bad(in, name, "a string", "benchmarks[%zu].metadata.name", index);
    const char *word = name ? json_string_value(name) : "benchmark";
    /* Benchmarks in other units cannot be compared with the first: they are groups of their own. */
    STK_TRY(
        stk__import_variant(in, word, json_is_string(command) ? json_string_value(command) : word, metric, &variant));
    return read_runs(in, root, bench, index, variant, metric, c);
}

static stk_status add_metrics(stk__import *in, const json_t *root, const json_t *list)
{
    bool memory = false;
    size_t metric;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *bench = json_array_get(list, i), *runs = json_object_get(bench, "runs");
        if (!json_is_array(runs))
            return stk__import_bad(in, runs, "a list", "benchmarks[%zu].runs", i);
        STK_TRY(add_unit(in, root, bench, i, &metric));
        for (size_t k = 0; k < json_array_size(runs) && !memory; k++) {
            /* Where all runs took the same, pyperf says it once. */
            const json_t *run = json_array_get(runs, k);
            memory = metadata(root, bench, run, "mem_max_rss") || metadata(root, bench, run, "command_max_rss");
        }
    }
    return memory ? stk__import_counter(in, "rss", "bytes", false, &metric) : STK_OK;
}

/* "AMD EPYC, 2 cores, Linux-6.18-x86_64" from what the file tells about the machine. */
static stk_status read_machine(stk__import *in, const json_t *root, const json_t *bench)
{
    stk__text t = STK__TEXT_INIT;
    const char *cpu = json_string_value(metadata(root, bench, NULL, "cpu_model_name"));
    const char *platform = json_string_value(metadata(root, bench, NULL, "platform"));
    double cores;
    if (cpu)
        stk__text_printf(&t, "%.200s", cpu);
    if (stk__import_count(metadata(root, bench, NULL, "cpu_count"), 1e6, &cores))
        stk__text_printf(&t, "%s%.0f core%s", t.length ? ", " : "", cores, cores == 1 ? "" : "s");
    if (platform)
        stk__text_printf(&t, "%s%.200s", t.length ? ", " : "", platform);
    if (t.failed) {
        stk__text_clear(&t);
        return stk_error_set(in->err, STK_NOMEM, "out of memory for the machine's name");
    }
    in->out->machine = t.data;
    return STK_OK;
}

stk_status stk__read_pyperf(stk__import *in, const json_t *root)
{
    const json_t *list = json_object_get(root, "benchmarks");
    counts c = {0};
    if (!json_is_array(list))
        return stk__import_bad(in, list, "pyperf's list", "benchmarks");
    STK_TRY(add_metrics(in, root, list));
    for (size_t i = 0; i < json_array_size(list); i++)
        STK_TRY(read_bench(in, root, json_array_get(list, i), i, &c));
    if (c.values > c.processes)
        STK_TRY(stk__result_note(in->out, in->err,
                                 "%zu values of %zu processes became one mean for each process: values of one process "
                                 "are not independent",
                                 c.values, c.processes));
    if (c.warmups)
        STK_TRY(stk__result_note(in->out, in->err, "%zu warm-up values were left out", c.warmups));
    if (c.calibrations)
        STK_TRY(
            stk__result_note(in->out, in->err, "%zu runs without values (calibration) were left out", c.calibrations));
    return read_machine(in, root, json_array_get(list, 0));
}
