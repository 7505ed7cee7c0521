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
#include "base/rng.h"

#include "base/banned.h"

/* As many windows as a share needs at least, and past which more would only take time. */
enum { ENOUGH_WINDOWS = 20, MOST_WINDOWS = 200, MOST_FILE = 64 << 10 };

static const size_t window_sizes[] = {6, 8, 12, 20, 30};

typedef struct {
    const double *a, *b; /* by round */
    double *sequence;    /* 2 x rounds, as they ran */
    size_t rounds;
    double confidence;
    uint64_t seed;
} runs_at_hand;

/* ---- windows ---- */

static size_t windows_of(size_t rounds, size_t n, size_t stride)
{
    return rounds < n ? 0 : (rounds - n) / stride + 1;
}

/* Windows that share more than three quarters of their runs would tell the same thing again. */
static size_t least_stride(size_t n)
{
    return (n + 3) / 4;
}

static size_t choose_stride(size_t rounds, size_t n)
{
    size_t stride = n;
    if (windows_of(rounds, n, n) < ENOUGH_WINDOWS)
        stride = rounds < n ? n : STK_MAX((rounds - n) / (ENOUGH_WINDOWS - 1), least_stride(n));
    else if (windows_of(rounds, n, n) > MOST_WINDOWS)
        stride = (rounds - n) / (MOST_WINDOWS - 1);
    return stride;
}

/* The largest three sizes with enough windows, else the smallest three; in ascending order from the one returned. */
static size_t choose_first_size(size_t rounds)
{
    size_t first = STK_COUNT(window_sizes) - STK__CALIBRATE_SIZES;
    while (first > 0 && windows_of(rounds, window_sizes[first + STK__CALIBRATE_SIZES - 1],
                                   least_stride(window_sizes[first + STK__CALIBRATE_SIZES - 1])) < ENOUGH_WINDOWS)
        first--;
    return first;
}

static stk_status paired_change(const runs_at_hand *r, size_t from, size_t n, bool *out, stk_error *err)
{
    const stk__rule rule = {.confidence = r->confidence};
    stk__paired p;
    STK_TRY(stk__paired_test(r->a + from, r->b + from, n, stk__rule_confidence(&rule, 1), stk__mix(r->seed, from), &p,
                             err));
    const stk__evidence e = {p.ratio, p.low, p.high, p.covered, p.p / STK__RANK_SHARE, p.rest, p.means};
    const stk__verdict verdict = stk__decide(&rule, &e);
    *out = stk__verdict_better(verdict) || stk__verdict_worse(verdict);
    return STK_OK;
}

/* What people do: all runs of one, then all of the other. */
static stk_status sequential_change(const runs_at_hand *r, size_t from, size_t n, bool *out, stk_error *err)
{
    const double *first = r->sequence + 2 * from;
    stk__unpaired u;
    STK_TRY(stk__unpaired_test(first, n, first + n, n, r->confidence, &u, err));
    *out = u.p_mann_whitney < 1 - r->confidence;
    return STK_OK;
}

static stk_status measure_size(const runs_at_hand *r, size_t n, stk__calibration *c, size_t index, stk_error *err)
{
    const size_t stride = choose_stride(r->rounds, n), windows = windows_of(r->rounds, n, stride);
    size_t paired = 0, sequential = 0;
    const stk__rule rule = {.confidence = r->confidence};
    if (windows == 0)
        return STK_OK;
    for (size_t i = 0; i < windows; i++) {
        bool changed;
        STK_TRY(paired_change(r, i * stride, n, &changed, err));
        paired += changed;
        STK_TRY(sequential_change(r, i * stride, n, &changed, err));
        sequential += changed;
    }
    c->sizes[index].n = n;
    c->sizes[index].windows = windows;
    c->sizes[index].stride = stride;
    c->sizes[index].paired = (double)paired / (double)windows;
    c->sizes[index].sequential = (double)sequential / (double)windows;
    c->sizes[index].detectable = expm1(stk__detectable(c->sd_log, n, stk__rule_confidence(&rule, 1), 0.8));
    return STK_OK;
}

/* ---- all runs ---- */

/* Puts the runs in the order of their running, and describes them. */
static stk_status describe_runs(runs_at_hand *r, const uint8_t *b_first, stk__calibration *c, stk_error *err)
{
    double *ratios = stk__calloc(r->rounds, sizeof *ratios);
    if (!ratios)
        return stk__nomem(r->rounds * sizeof *ratios, err);
    for (size_t i = 0; i < r->rounds; i++) {
        const bool swapped = b_first && b_first[i];
        r->sequence[2 * i] = swapped ? r->b[i] : r->a[i];
        r->sequence[2 * i + 1] = swapped ? r->a[i] : r->b[i];
        ratios[i] = log(r->b[i] / r->a[i]);
    }
    stk__summary times, logs;
    stk_status status = stk__describe(r->sequence, 2 * r->rounds, &times, err);
    if (status == STK_OK)
        status = stk__describe(ratios, r->rounds, &logs, err);
    stk__free(ratios);
    if (status != STK_OK)
        return status;
    c->runs = 2 * r->rounds;
    c->median_s = times.median;
    c->cv = times.sd / times.mean;
    c->autocorrelation = stk__autocorrelation(r->sequence, 2 * r->rounds);
    c->sd_log = logs.sd;
    return STK_OK;
}

static stk_status check_times(const double *times, size_t rounds, const char *side, stk_error *err)
{
    /* The ratio of two times within these bounds is a number. */
    for (size_t i = 0; i < rounds; i++)
        if (!(times[i] > 1e-100 && times[i] < 1e100))
            return stk_error_set(err, STK_INVALID, "round %zu: %s took %g s, wanted a time above 0", i + 1, side,
                                 times[i]);
    return STK_OK;
}

stk_status stk__calibration_from(const double *a, const double *b, const uint8_t *b_first, size_t rounds,
                                 double confidence, uint64_t seed, stk__calibration *out, stk_error *err)
{
    if (rounds < STK__LEAST_ROUNDS)
        return stk_error_set(err, STK_INVALID, "found %zu rounds, wanted at least %d", rounds, STK__LEAST_ROUNDS);
    if (!(confidence > 0 && confidence < 1))
        return stk_error_set(err, STK_INVALID, "found a confidence of %g, wanted one between 0 and 1", confidence);
    STK_TRY(check_times(a, rounds, "A", err));
    STK_TRY(check_times(b, rounds, "B", err));
    runs_at_hand r = {.a = a, .b = b, .rounds = rounds, .confidence = confidence, .seed = seed};
    if (rounds > SIZE_MAX / (4 * sizeof *r.sequence) || !(r.sequence = stk__calloc(2 * rounds, sizeof *r.sequence)))
        return stk__nomem(rounds, err);
    stk__calibration c = {.floor_s = NAN};
    stk_status status = describe_runs(&r, b_first, &c, err);
    const size_t first = choose_first_size(rounds);
    for (size_t i = 0; status == STK_OK && i < STK__CALIBRATE_SIZES; i++)
        status = measure_size(&r, window_sizes[first + i], &c, i, err);
    stk__free(r.sequence);
    if (status == STK_OK)
        *out = c;
    return status;
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
        return refuse(err, path, "sizes", "an array of at most 3 objects");
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
