/* Reads what hyperfine 2 writes (schema 2): an object for each run, with a value and a unit for each metric. */
#include <math.h>
#include <string.h>

#include "bench/hyperfine2.h"
#include "bench/import.h"

#include "base/banned.h"

const stk__hyperfine2_name stk__hyperfine2_names[STK__HYPERFINE2_NAMES] = {
    {"time_wall_clock", "second", "wall", "s"},
    {"time_cpu", "second", "cpu", "s"},
    {"time_user", "second", "user", "s"},
    {"time_system", "second", "system", "s"},
    {"memory_peak_resident", "byte", "rss", "bytes"},
};

static const stk__hyperfine2_name *name_of(const char *theirs)
{
    for (size_t i = 0; i < STK__HYPERFINE2_NAMES; i++) {
        if (strcmp(stk__hyperfine2_names[i].theirs, theirs) == 0)
            return &stk__hyperfine2_names[i];
    }
    return NULL;
}

const stk__hyperfine2_name *stk__hyperfine2_ours(const char *ours)
{
    for (size_t i = 0; i < STK__HYPERFINE2_NAMES; i++) {
        if (strcmp(stk__hyperfine2_names[i].ours, ours) == 0)
            return &stk__hyperfine2_names[i];
    }
    return NULL;
}

/* The metric of one of their keys, which is added when it is new. */
static stk_status add_metric(stk__import *in, const char *key, const json_t *value, size_t *out)
{
    const stk__hyperfine2_name *known = name_of(key);
    if (known)
        return stk__import_counter(in, known->ours, known->unit, false, out);
    const char *unit = stk__import_string(value, "unit");
    unit = !unit ? "count" : strcmp(unit, "second") == 0 ? "s" : strcmp(unit, "byte") == 0 ? "bytes" : unit;
    return stk__import_counter(in, key, unit, false, out);
}

/* All metrics before the first variant, as a result wants them. */
static stk_status add_metrics(stk__import *in, const json_t *list)
{
    size_t metric;
    STK_TRY(stk__import_counter(in, "wall", "s", false, &metric));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *runs = json_object_get(json_array_get(list, i), "measurements");
        for (size_t k = 0; k < json_array_size(runs); k++) {
            json_t *run = json_array_get(runs, k);
            for (void *at = json_object_iter(run); at; at = json_object_iter_next(run, at)) {
                if (json_is_object(json_object_iter_value(at)))
                    STK_TRY(add_metric(in, json_object_iter_key(at), json_object_iter_value(at), &metric));
            }
        }
    }
    return STK_OK;
}

static stk_status read_run(stk__import *in, json_t *run, size_t index, size_t k, size_t variant)
{
    double values[STK__IMPORT_METRICS];
    int code = 0;
    if (!json_is_object(run))
        return stk__import_bad(in, run, "an object", "results[%zu].measurements[%zu]", index, k);
    for (size_t m = 0; m < in->out->metric_count; m++)
        values[m] = NAN;
    for (void *at = json_object_iter(run); at; at = json_object_iter_next(run, at)) {
        const json_t *item = json_object_iter_value(at), *value = json_object_get(item, "value");
        size_t metric;
        if (!json_is_object(item))
            continue;
        STK_TRY(add_metric(in, json_object_iter_key(at), item, &metric));
        if (!json_is_null(value) && !stk__import_value(value, &values[metric]))
            return stk__import_bad(in, value, "a number of at least 0", "results[%zu].measurements[%zu].%.60s.value",
                                   index, k, json_object_iter_key(at));
    }
    const json_t *exit_code = json_object_get(run, "exit_code");
    if (exit_code && !stk__import_exit_code(exit_code, &code))
        return stk__import_bad(in, exit_code, "an exit code or null", "results[%zu].measurements[%zu].exit_code", index,
                               k);
    return stk__import_run(in, variant, values, code);
}

static stk_status read_item(stk__import *in, size_t index, const json_t *item)
{
    const json_t *runs = json_object_get(item, "measurements");
    const char *command = stk__import_string(item, "command"), *name = stk__import_string(item, "name");
    size_t variant;
    if (!command)
        return stk__import_bad(in, json_object_get(item, "command"), "a string", "results[%zu].command", index);
    if (!json_is_array(runs))
        return stk__import_bad(in, runs, "a list", "results[%zu].measurements", index);
    STK_TRY(stk__import_variant(in, name ? name : command, command, 0, &variant));
    STK_TRY(stk__import_parameters(in, variant, json_object_get(item, "parameters"), "results"));
    for (size_t i = 0; i < json_array_size(runs); i++)
        STK_TRY(read_run(in, json_array_get(runs, i), index, i, variant));
    return STK_OK;
}

static void read_primary(stk__import *in, const json_t *root)
{
    const char *primary = stk__import_string(root, "primary_metric");
    const stk__hyperfine2_name *known = primary ? name_of(primary) : NULL;
    const size_t metric = primary ? stk__result_metric(in->out, known ? known->ours : primary) : SIZE_MAX;
    in->out->primary = metric == SIZE_MAX ? 0 : metric;
}

stk_status stk__read_hyperfine2(stk__import *in, const json_t *root)
{
    const json_t *list = json_object_get(root, "results");
    if (!json_is_array(list))
        return stk__import_bad(in, list, "hyperfine's list", "results");
    STK_TRY(add_metrics(in, list));
    for (size_t i = 0; i < json_array_size(list); i++)
        STK_TRY(read_item(in, i, json_array_get(list, i)));
    read_primary(in, root);
    in->out->time_s = stk__import_time(stk__import_string(json_object_get(root, "metadata"), "start_time"));
    return stk__import_note_failures(in);
}
