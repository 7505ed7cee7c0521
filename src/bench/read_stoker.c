/* Reads what `stoker bench --json` prints; comparisons are made again from the values. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/import.h"

#include "base/banned.h"

#define WHOLE_MAX 9007199254740992.0 /* 2^53: past it not every whole number is a double */

static stk_status read_metric(stk__import *in, const json_t *json, const char *place, size_t *out_index)
{
    const char *name = stk__import_string(json, "name"), *unit = stk__import_string(json, "unit");
    const json_t *higher = json_object_get(json, "higher_is_better");
    if (!name || !unit || !json_is_boolean(higher))
        return stk__import_bad(in, json, "an object with name, unit and higher_is_better", "%s", place);
    return stk__import_metric(in, name, unit, json_is_true(higher), out_index);
}

static stk_status read_metrics(stk__import *in, const json_t *root)
{
    const json_t *list = json_object_get(root, "metrics");
    if (list && !json_is_array(list))
        return stk__import_bad(in, list, "a list", "metrics");
    for (size_t i = 0; i < json_array_size(list); i++) {
        char place[40];
        size_t index;
        stk__text t;
        stk__text_fixed(&t, place, sizeof place);
        stk__text_printf(&t, "metrics[%zu]", i);
        STK_TRY(read_metric(in, json_array_get(list, i), place, &index));
        if (index != i)
            return stk__import_bad(in, json_array_get(list, i), "a metric that is not there yet", "%s", place);
    }
    return read_metric(in, json_object_get(root, "metric"), "metric", &in->out->primary);
}

static stk_status read_count(stk__import *in, const json_t *object, const char *key, size_t *out)
{
    const json_t *json = json_object_get(object, key);
    double x = 0;
    if (json && !json_is_null(json) && !stk__import_count(json, 1e9, &x))
        return stk__import_bad(in, json, "a whole number of at least 0", "%s", key);
    *out = (size_t)x;
    return STK_OK;
}

static stk_status read_bool(stk__import *in, const json_t *object, const char *key, bool *out)
{
    const json_t *json = json_object_get(object, key);
    if (json && !json_is_boolean(json))
        return stk__import_bad(in, json, "true or false", "%s", key);
    *out = json_is_true(json);
    return STK_OK;
}

static stk_status read_text(stk__import *in, const json_t *object, const char *key, char **out)
{
    const json_t *json = json_object_get(object, key);
    if (!json || json_is_null(json))
        return STK_OK;
    if (!json_is_string(json))
        return stk__import_bad(in, json, "a string or null", "%s", key);
    *out = stk__strdup(json_string_value(json));
    return *out ? STK_OK : stk__nomem(json_string_length(json), in->err);
}

/* A number, or a string of digits when it is past 2^53. */
static stk_status read_seed(stk__import *in, const json_t *root)
{
    const json_t *json = json_object_get(root, "seed");
    const char *digits = json_string_value(json);
    double x = 0;
    bool good = !json || json_is_null(json) || stk__import_count(json, WHOLE_MAX, &x);
    uint64_t seed = (uint64_t)x;
    if (digits) {
        good = *digits != 0;
        for (; *digits && good; digits++)
            good = *digits >= '0' && *digits <= '9' && !__builtin_mul_overflow(seed, (uint64_t)10, &seed) &&
                   !__builtin_add_overflow(seed, (uint64_t)(*digits - '0'), &seed);
    }
    in->out->seed = seed;
    return good ? STK_OK : stk__import_bad(in, json, "a whole number below 2^64", "seed");
}

static stk_status read_head(stk__import *in, const json_t *root)
{
    stk__result *r = in->out;
    const json_t *floor_s = json_object_get(root, "floor_s");
    r->floor_s = NAN;
    if (floor_s && !json_is_null(floor_s) && !stk__import_value(floor_s, &r->floor_s))
        return stk__import_bad(in, floor_s, "a time of at least 0 or null", "floor_s");
    r->time_s = stk__import_time(stk__import_string(root, "time"));
    STK_TRY(read_seed(in, root));
    STK_TRY(read_bool(in, root, "paired", &r->paired));
    STK_TRY(read_bool(in, root, "interrupted", &r->interrupted));
    STK_TRY(read_count(in, root, "dropped", &r->dropped));
    STK_TRY(read_count(in, root, "retaken", &r->retaken));
    STK_TRY(read_count(in, root, "warmup", &r->warmup));
    STK_TRY(read_text(in, root, "machine", &r->machine));
    STK_TRY(read_text(in, root, "counted", &r->counted));
    return read_text(in, root, "limits", &r->limits);
}

/* The values of one metric: `times` for the primary when the measures do not have it. NULL: not known. */
static const json_t *values_of(const stk__import *in, const json_t *item, size_t metric)
{
    const json_t *list = json_object_get(json_object_get(item, "measures"), in->out->metrics[metric].name);
    return list || metric != in->out->primary ? list : json_object_get(item, "times");
}

static stk_status check_lists(stk__import *in, const json_t *item, size_t index, size_t *out_runs)
{
    const json_t *codes = json_object_get(item, "exit_codes"), *primary = values_of(in, item, in->out->primary);
    if (!json_is_array(primary))
        return stk__import_bad(in, primary, "a list of numbers", "variants[%zu].times", index);
    const size_t runs = json_array_size(primary);
    for (size_t m = 0; m < in->out->metric_count; m++) {
        const json_t *list = values_of(in, item, m);
        if (list && (!json_is_array(list) || json_array_size(list) != runs))
            return stk__import_bad(in, list, "a list as long as that of the times", "variants[%zu].measures.%.60s",
                                   index, in->out->metrics[m].name);
    }
    if (codes && !json_is_null(codes) && (!json_is_array(codes) || json_array_size(codes) != runs))
        return stk__import_bad(in, codes, "a list as long as that of the times", "variants[%zu].exit_codes", index);
    *out_runs = runs;
    return STK_OK;
}

/* Times and sizes are never negative; what commands print about themselves may be. */
static bool read_cell(const json_t *json, const stk__metric *metric, double *out)
{
    if (!json || json_is_null(json)) {
        *out = NAN;
        return true;
    }
    if (strcmp(metric->unit, "s") == 0 || strcmp(metric->unit, "bytes") == 0)
        return stk__import_value(json, out);
    *out = json_number_value(json);
    return json_is_number(json) && isfinite(*out);
}

static stk_status read_runs(stk__import *in, const json_t *item, size_t index, size_t variant)
{
    const json_t *codes = json_object_get(item, "exit_codes");
    size_t runs = 0;
    STK_TRY(check_lists(in, item, index, &runs));
    for (size_t i = 0; i < runs; i++) {
        double values[STK__IMPORT_METRICS];
        int code = 0;
        for (size_t m = 0; m < in->out->metric_count; m++) {
            const json_t *cell = json_array_get(values_of(in, item, m), i);
            if (!read_cell(cell, &in->out->metrics[m], &values[m]))
                return stk__import_bad(in, cell, "a finite number, not negative for times and sizes, or null",
                                       "variants[%zu].measures.%.60s[%zu]", index, in->out->metrics[m].name, i);
        }
        if (json_is_array(codes) && !stk__import_exit_code(json_array_get(codes, i), &code))
            return stk__import_bad(in, json_array_get(codes, i), "an exit code", "variants[%zu].exit_codes[%zu]", index,
                                   i);
        STK_TRY(stk__import_run(in, variant, values, code));
    }
    return STK_OK;
}

static stk_status read_variant(stk__import *in, const json_t *item, size_t index)
{
    const char *name = stk__import_string(item, "name"), *command = stk__import_string(item, "command");
    const json_t *group = json_object_get(item, "group"), *withheld = json_object_get(item, "withheld");
    double number = 0;
    size_t variant;
    if (!name)
        return stk__import_bad(in, json_object_get(item, "name"), "a string", "variants[%zu].name", index);
    if (stk__names_find(&in->names, name, strlen(name)) != SIZE_MAX)
        return stk__import_bad(in, json_object_get(item, "name"), "a name that no other has", "variants[%zu].name",
                               index);
    if (group && !stk__import_count(group, 1e9, &number))
        return stk__import_bad(in, group, "a whole number", "variants[%zu].group", index);
    if (withheld && !json_is_null(withheld) && !json_is_string(withheld))
        return stk__import_bad(in, withheld, "a string or null", "variants[%zu].withheld", index);
    STK_TRY(stk__import_variant(in, name, command ? command : name, (size_t)number, &variant));
    STK_TRY(stk__import_parameters(in, variant, json_object_get(item, "parameters"), "variants"));
    STK_TRY(read_text(in, item, "withheld", &in->out->variants[variant].withheld));
    return read_runs(in, item, index, variant);
}

static stk_status read_notes(stk__import *in, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *note = json_string_value(json_array_get(list, i));
        if (!note)
            return stk__import_bad(in, json_array_get(list, i), "a string", "notes[%zu]", i);
        STK_TRY(stk__result_note(in->out, in->err, "%s", note));
    }
    return STK_OK;
}

/* Pairing needs every round whole, for those that are compared. */
static stk_status check_pairs(const stk__import *in)
{
    const stk__result *r = in->out;
    size_t first = 0; /* of the group; groups mostly stand together */
    for (size_t v = 1; r->paired && v < r->variant_count; v++) {
        if (r->variants[first].group != r->variants[v].group)
            for (first = 0; r->variants[first].group != r->variants[v].group;)
                first++;
        if (r->variants[v].runs != r->variants[first].runs)
            return stk_error_set(in->err, STK_CORRUPT, "paired, but '%.80s' has %zu runs and '%.80s' has %zu",
                                 r->variants[first].name, r->variants[first].runs, r->variants[v].name,
                                 r->variants[v].runs);
    }
    return STK_OK;
}

stk_status stk__read_stoker(stk__import *in, const json_t *root)
{
    const json_t *version = json_object_get(root, "version"), *list = json_object_get(root, "variants");
    const char *kind = stk__import_string(root, "stoker");
    if (!kind || strcmp(kind, "bench") != 0)
        return stk__import_bad(in, json_object_get(root, "stoker"), "\"bench\"", "stoker");
    if (!json_is_number(version) || json_number_value(version) != 1)
        return json_is_number(version) ? stk_error_set(in->err, STK_UNSUPPORTED, "the result has version %g, wanted 1",
                                                       json_number_value(version))
                                       : stk__import_bad(in, version, "1", "version");
    if (!json_is_array(list))
        return stk__import_bad(in, list, "a list", "variants");
    STK_TRY(read_head(in, root));
    STK_TRY(read_metrics(in, root));
    for (size_t i = 0; i < json_array_size(list); i++)
        STK_TRY(read_variant(in, json_array_get(list, i), i));
    STK_TRY(check_pairs(in));
    return read_notes(in, json_object_get(root, "notes"));
}
