/* One command against itself: how often each design calls that a change, and what the machine can tell apart. */
#include "bench/calibrate.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#include "base/banned.h"

enum { MOST_FILE = 64 << 10 };

/* ---- from runs ---- */

/* All runs of A against itself in the order of their running, and the log-ratios of its rounds. */
typedef struct all_runs {
    double *values, *logs;
    size_t runs, rounds;
} all_runs;

static stk_status collect(const stk__luck *l, all_runs *out, stk_error *err)
{
    const size_t rounds = stk__luck_rounds(l);
    *out = (all_runs){.values = stk__calloc(2 * rounds, sizeof(double)), .logs = stk__calloc(rounds, sizeof(double))};
    if (!out->values || !out->logs)
        return stk__nomem(2 * rounds * sizeof(double), err);
    for (size_t i = 0; i < l->series_count; i++) {
        const stk__luck_series *s = &l->series[i];
        for (size_t k = 0; k < s->count / 2 && s->kind == STK__LUCK_SAME; k++) {
            const double *round = s->values + 2 * k;
            out->values[out->runs++] = round[0];
            out->values[out->runs++] = round[1];
            out->logs[out->rounds++] = s->sides[2 * k] ? log(round[0] / round[1]) : log(round[1] / round[0]);
        }
    }
    return STK_OK;
}

static stk_status describe_runs(const stk__luck *l, stk__calibration *c, stk_error *err)
{
    all_runs all;
    stk__summary times, logs;
    stk_status status = collect(l, &all, err);
    if (status == STK_OK)
        status = stk__describe(all.values, all.runs, &times, err);
    if (status == STK_OK)
        status = stk__describe(all.logs, all.rounds, &logs, err);
    if (status == STK_OK) {
        c->runs = all.runs;
        c->median_s = times.median;
        c->cv = times.sd / times.mean;
        c->autocorrelation = stk__autocorrelation(all.values, all.runs);
        c->sd_log = logs.sd;
    }
    stk__free(all.values);
    stk__free(all.logs);
    return status;
}

/* The noise of normal log-ratios of which so much would be found: for plans with other numbers of rounds. */
static double noise_of(double detectable, size_t n, double confidence)
{
    const stk__rule rule = {.confidence = confidence};
    return log1p(detectable) / stk__detectable(1, n, stk__rule_confidence(&rule, 1), 0.8);
}

stk_status stk__calibration_from(const stk__luck *l, double confidence, stk__calibration *out, stk_error *err)
{
    if (stk__luck_rounds(l) < STK__LEAST_ROUNDS)
        return stk_error_set(err, STK_INVALID, "found %zu rounds of one command, wanted at least %d",
                             stk__luck_rounds(l), STK__LEAST_ROUNDS);
    stk__calibration c = {.floor_s = NAN};
    STK_TRY(describe_runs(l, &c, err));
    const stk__rule rule = {.confidence = confidence};
    const stk__luck_effect *e = &l->effects[0];
    c.noise = c.sd_log;
    for (size_t i = 0; i < e->row_count && e->rows[i].turns.windows; i++) {
        const stk__luck_row *row = &e->rows[i];
        c.sizes[i].n = row->n;
        c.sizes[i].windows = row->turns.windows;
        c.sizes[i].stride = row->turns.stride;
        c.sizes[i].paired = row->turns.rules[STK__LUCK_VERDICT].called;
        c.sizes[i].sequential = row->order.rules[STK__LUCK_MANN_WHITNEY].called;
        c.sizes[i].detectable = row->detectable;
        if (isfinite(row->detectable))
            c.noise = noise_of(row->detectable, row->n, confidence);
        else
            c.sizes[i].detectable = expm1(stk__detectable(c.sd_log, row->n, stk__rule_confidence(&rule, 1), 0.8));
    }
    *out = c;
    return STK_OK;
}

/* ---- files ---- */

static void put_number(stk__text *t, const char *name, double value)
{
    stk__text_printf(t, ",\n  \"%s\": ", name);
    stk__text_json_double(t, value);
}

static void put_size(stk__text *t, const stk__calibration *c, size_t i)
{
    stk__text_printf(t, "%s\n    {\"n\": %zu, \"windows\": %zu, \"stride\": %zu, \"paired\": ", i ? "," : "",
                     c->sizes[i].n, c->sizes[i].windows, c->sizes[i].stride);
    stk__text_json_double(t, c->sizes[i].paired);
    stk__text_puts(t, ", \"sequential\": ");
    stk__text_json_double(t, c->sizes[i].sequential);
    stk__text_puts(t, ", \"detectable\": ");
    stk__text_json_double(t, c->sizes[i].detectable);
    stk__text_putc(t, '}');
}

stk_status stk__calibration_save(const stk__calibration *c, const char *path, stk_error *err)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "{\n  \"stoker_calibration\": 1,\n  \"machine\": ");
    stk__text_json_str(&t, c->machine);
    stk__text_printf(&t, ",\n  \"time_s\": %" PRId64 ",\n  \"runs\": %zu", c->time_s, c->runs);
    put_number(&t, "median_s", c->median_s);
    put_number(&t, "cv", c->cv);
    put_number(&t, "autocorrelation", c->autocorrelation);
    put_number(&t, "sd_log", c->sd_log);
    put_number(&t, "noise", c->noise);
    put_number(&t, "floor_s", c->floor_s);
    stk__text_puts(&t, ",\n  \"sizes\": [");
    for (size_t i = 0; i < STK__CALIBRATE_SIZES && c->sizes[i].n; i++)
        put_size(&t, c, i);
    stk__text_puts(&t, "\n  ]\n}\n");
    stk_status status = t.failed ? stk__nomem(t.length, err) : stk__make_parents(path, err);
    if (status == STK_OK)
        status = stk__write_file(path, t.data, t.length, err);
    stk__text_clear(&t);
    return status;
}

static stk_status refuse(stk_error *err, const char *path, const char *key, const char *wanted)
{
    stk_error_set(err, STK_CORRUPT, "no calibration: '%s' is missing or out of range, wanted %s", key, wanted);
    if (err)
        snprintf(err->file, sizeof err->file, "%s", path);
    return STK_CORRUPT;
}

static bool take_count(const json_t *object, const char *key, int64_t least, int64_t most, int64_t *out)
{
    const json_t *value = json_object_get(object, key);
    const int64_t x = json_integer_value(value);
    if (!json_is_integer(value) || x < least || x > most)
        return false;
    *out = x;
    return true;
}

static bool take_size(const json_t *object, const char *key, int64_t least, int64_t most, size_t *out)
{
    int64_t x;
    if (!take_count(object, key, least, most, &x))
        return false;
    *out = (size_t)x;
    return true;
}

static bool take_double(const json_t *object, const char *key, double least, double most, double *out)
{
    const json_t *value = json_object_get(object, key);
    const double x = json_number_value(value);
    if (!json_is_number(value) || !(x >= least && x <= most))
        return false;
    *out = x;
    return true;
}

/* Eight hexadecimal digits, or nothing. */
static bool take_machine(const json_t *root, char out[9])
{
    const json_t *value = json_object_get(root, "machine");
    const char *text = json_string_value(value);
    const size_t length = json_string_length(value);
    if (!text || (length != 0 && length != 8) || strspn(text, "0123456789abcdef") != length)
        return false;
    memcpy(out, text, length + 1);
    return true;
}

static stk_status read_sizes(const json_t *root, const char *path, stk__calibration *c, stk_error *err)
{
    const json_t *sizes = json_object_get(root, "sizes");
    const size_t count = json_array_size(sizes);
    if (!json_is_array(sizes) || count > STK__CALIBRATE_SIZES)
        return refuse(err, path, "sizes", "an array of at most 4 objects");
    for (size_t i = 0; i < count; i++) {
        const json_t *size = json_array_get(sizes, i);
        if (!take_size(size, "n", STK__LEAST_ROUNDS, INT32_MAX, &c->sizes[i].n) ||
            !take_size(size, "windows", 1, INT32_MAX, &c->sizes[i].windows) ||
            !take_size(size, "stride", 1, INT32_MAX, &c->sizes[i].stride) ||
            !take_double(size, "paired", 0, 1, &c->sizes[i].paired) ||
            !take_double(size, "sequential", 0, 1, &c->sizes[i].sequential) ||
            !take_double(size, "detectable", 0, 1e300, &c->sizes[i].detectable))
            return refuse(err, path, "sizes",
                          "n from 6, windows, stride, paired and sequential from 0 to 1, detectable");
    }
    return STK_OK;
}

static stk_status read_root(const json_t *root, const char *path, stk__calibration *c, stk_error *err)
{
    int64_t version;
    if (!take_count(root, "stoker_calibration", 1, 1, &version))
        return refuse(err, path, "stoker_calibration", "1");
    if (!take_machine(root, c->machine))
        return refuse(err, path, "machine", "8 hexadecimal digits");
    if (!take_count(root, "time_s", 0, INT64_C(1) << 40, &c->time_s))
        return refuse(err, path, "time_s", "seconds since 1970");
    if (!take_size(root, "runs", 2 * STK__LEAST_ROUNDS, INT32_MAX, &c->runs))
        return refuse(err, path, "runs", "a whole number from 12");
    if (!take_double(root, "median_s", 0, 1e300, &c->median_s))
        return refuse(err, path, "median_s", "a time");
    if (!take_double(root, "cv", 0, 1e300, &c->cv) || !take_double(root, "sd_log", 0, 1e300, &c->sd_log))
        return refuse(err, path, "cv, sd_log", "numbers from 0");
    c->noise = c->sd_log; /* as before there was a better one */
    if (json_object_get(root, "noise") && !take_double(root, "noise", 0, 1e300, &c->noise))
        return refuse(err, path, "noise", "a number from 0");
    /* Its formula stays within these; a little is left for rounding. */
    if (!take_double(root, "autocorrelation", -1.001, 1.001, &c->autocorrelation))
        return refuse(err, path, "autocorrelation", "a number from -1 to 1");
    c->floor_s = NAN;
    if (!json_is_null(json_object_get(root, "floor_s")) && !take_double(root, "floor_s", 0, 1e300, &c->floor_s))
        return refuse(err, path, "floor_s", "a time or null");
    return read_sizes(root, path, c, err);
}

stk_status stk__calibration_load(const char *path, stk__calibration *out, stk_error *err)
{
    char *text;
    size_t size;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return STK_END;
    STK_TRY(stk__read_file(path, MOST_FILE, &text, &size, err));
    json_error_t why;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    stk__free(text);
    if (!root) {
        stk_error_set(err, STK_CORRUPT, "no calibration: found no JSON (%s), wanted an object", why.text);
        if (err) {
            snprintf(err->file, sizeof err->file, "%s", path);
            err->line = why.line;
            err->column = why.column;
        }
        return STK_CORRUPT;
    }
    stk__calibration c = {0};
    const stk_status status = read_root(root, path, &c, err);
    json_decref(root);
    if (status == STK_OK)
        *out = c;
    return status;
}
