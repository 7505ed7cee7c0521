/* One run of a command with what stands around it. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/rng.h"
#include "bench/process_run.h"
#include "bench/quantity.h"
#include "stats/describe.h"

#include "base/banned.h"

enum { FLOOR_RUNS = 9, PADDING = 4096, TOO_FAST = 5 /* times the floor */, ERROR_SHOWN = 300 };

struct stk__process_runs {
    const stk__experiment *e;
    stk__launcher *l;
    stk__result *r;
    uint64_t *hashes, *sizes; /* of the first output of each trial */
    bool *seen, *changes, *set_up;
    size_t count;       /* of all runs: seeds the padding */
    double hooks_s;     /* CPU time of hooks */
    size_t left_behind; /* processes that outlived the runs that started them */
};

/* The last line that is not empty. */
static const char *last_line(const char *text, size_t size, size_t *out_size)
{
    while (size && strchr("\r\n \t", text[size - 1]))
        size--;
    size_t start = size;
    while (start && text[start - 1] != '\n')
        start--;
    *out_size = size - start;
    return text + start;
}

/* "exit code 3: ValueError: no such file" */
static void explain(const stk__outcome *o, const stk__launch *launch, stk__text *why)
{
    size_t size = 0;
    const char *line = o->error_end ? last_line(o->error_end, strlen(o->error_end), &size) : "";
    stk__outcome_text(o, launch, why);
    if (size)
        stk__text_printf(why, ": %.*s", (int)STK_MIN(size, (size_t)ERROR_SHOWN), line);
}

static bool went_well(const stk__outcome *o, bool ignore_exit_code)
{
    if (o->signal || o->timed_out || o->out_of_memory || o->not_started)
        return false;
    return ignore_exit_code || o->exit_code == 0;
}

/* setup, prepare, conclude, cleanup: not measured, without the limits. */
static stk_status hook(stk__process_runs *p, size_t trial, const char *command, const char *what, stk_error *err)
{
    if (!command)
        return STK_OK;
    const stk__launch launch = {.command = command, .directory = p->e->trials[trial].directory};
    stk__outcome o;
    STK_TRY(stk__launcher_run(p->l, &launch, &o, err));
    p->hooks_s += isfinite(o.measures[STK__CPU]) ? o.measures[STK__CPU] : 0;
    stk_status status = STK_OK;
    if (!went_well(&o, false)) {
        stk__text why = STK__TEXT_INIT;
        explain(&o, &launch, &why);
        if (p->e->out_failed)
            *p->e->out_failed = trial;
        status = stk_error_set(err, STK_IO, "--%s '%.200s' failed: %s", what, command, why.data ? why.data : "");
        stk__text_clear(&why);
    }
    stk__outcome_clear(&o);
    return status;
}

/* What a process costs that does nothing. */
static stk_status measure_floor(stk__process_runs *p, stk_error *err)
{
    double least = INFINITY;
    for (int i = 0; i < FLOOR_RUNS; i++) {
        const stk__launch launch = {.command = "true", .limits = p->e->launch.limits};
        stk__outcome o;
        STK_TRY(stk__launcher_run(p->l, &launch, &o, err));
        if (went_well(&o, false))
            least = fmin(least, o.measures[STK__WALL]);
        stk__outcome_clear(&o);
    }
    p->r->floor_s = isfinite(least) ? least : NAN;
    return STK_OK;
}

static void runs_free(stk__process_runs *p)
{
    stk__free(p->hashes);
    stk__free(p->sizes);
    stk__free(p->seen);
    stk__free(p->changes);
    stk__free(p->set_up);
    stk__free(p);
}

static stk_status describe_limits(stk__process_runs *p, stk_error *err)
{
    stk__text text = STK__TEXT_INIT, note = STK__TEXT_INIT;
    stk_status status = stk__limits_describe(p->l, &p->e->launch.limits, &text, &note, err);
    if (status == STK_OK && text.length && !(p->r->limits = stk__strdup(text.data)))
        status = stk__nomem(text.length, err);
    if (status == STK_OK && note.length)
        status = stk__result_note(p->r, err, "%s", note.data);
    stk__text_clear(&text);
    stk__text_clear(&note);
    return status;
}

static stk_status set_up(stk__process_runs *p, stk_error *err)
{
    STK_TRY(describe_limits(p, err));
    STK_TRY(measure_floor(p, err));
    for (size_t t = 0; t < p->e->trial_count; t++) {
        p->set_up[t] = true; /* before it runs: what a failed one left is cleaned up as well */
        STK_TRY(hook(p, t, p->e->trials[t].setup, "setup", err));
    }
    return STK_OK;
}

stk_status stk__process_runs_open(const stk__experiment *e, stk__launcher *l, stk__result *r, stk__process_runs **out,
                                  stk_error *err)
{
    stk__process_runs *p = stk__calloc(1, sizeof *p);
    if (!p)
        return stk__nomem(sizeof *p, err);
    *p = (stk__process_runs){.e = e, .l = l, .r = r};
    const size_t n = e->trial_count + 1;
    p->hashes = stk__calloc(n, sizeof *p->hashes);
    p->sizes = stk__calloc(n, sizeof *p->sizes);
    p->seen = stk__calloc(n, sizeof *p->seen);
    p->changes = stk__calloc(n, sizeof *p->changes);
    p->set_up = stk__calloc(n, sizeof *p->set_up);
    if (!p->hashes || !p->sizes || !p->seen || !p->changes || !p->set_up) {
        runs_free(p);
        return stk__nomem(n * sizeof *p->hashes, err);
    }
    *out = p; /* the caller closes it, which cleans up */
    return set_up(p, err);
}

/* ---- what a command prints ---- */

/* Not for want of memory: without the reason there would be a verdict. */
static stk_status withhold(stk__variant *v, const char *reason, stk_error *err)
{
    stk__free(v->withheld);
    v->withheld = stk__strdup(reason);
    return v->withheld ? STK_OK : stk__nomem(strlen(reason), err);
}

static void put_difference(stk__text *t, const stk__process_runs *p, size_t first, const stk__trial *trial,
                           uint64_t bytes)
{
    char letters[8];
    stk__variant_letters(first, letters);
    if (trial->digest)
        stk__text_printf(t, "its batches differ from what %s gives", letters);
    else if (bytes == p->sizes[first])
        stk__text_printf(t, "its output differs from that of %s (both %llu bytes)", letters, (unsigned long long)bytes);
    else
        stk__text_printf(t, "its output differs from that of %s (%llu bytes against %llu)", letters,
                         (unsigned long long)bytes, (unsigned long long)p->sizes[first]);
}

/* The first output of each trial stands for it; all in a group must print the same, always. */
static stk_status check_output(stk__process_runs *p, size_t trial, uint64_t hash, uint64_t bytes, stk_error *err)
{
    char reason[256];
    stk__text t;
    stk__variant *v = &p->r->variants[trial];
    /* The better reason of two: what changes by itself differs from the other's as well. */
    if (p->seen[trial] && p->hashes[trial] != hash)
        p->changes[trial] = true;
    if (p->changes[trial])
        return withhold(v, "its output changes from run to run, so it cannot be checked against the other's", err);
    p->seen[trial] = true;
    p->hashes[trial] = hash;
    p->sizes[trial] = bytes;
    size_t first = 0;
    while (p->e->trials[first].group != p->e->trials[trial].group)
        first++;
    if (p->e->trials[first].digest != p->e->trials[trial].digest)
        return withhold(v, "a pipeline's batches cannot be checked against what a command prints", err);
    if (!p->seen[first] || p->hashes[first] == hash)
        return STK_OK;
    stk__text_fixed(&t, reason, sizeof reason);
    put_difference(&t, p, first, &p->e->trials[trial], bytes);
    return withhold(v, reason, err);
}

/* "a.b" in an object; NaN when it is not there or no number. */
static double json_number(const json_t *object, const char *path)
{
    json_t *whole = json_object_get(object, path);
    char key[128];
    for (const char *dot; !whole && (dot = strchr(path, '.')) && (size_t)(dot - path) < sizeof key; path = dot + 1) {
        memcpy(key, path, (size_t)(dot - path));
        key[dot - path] = 0;
        object = json_object_get(object, key);
        if (!object)
            return NAN;
        whole = json_object_get(object, dot + 1);
    }
    return json_is_number(whole) ? json_number_value(whole) : NAN;
}

/* The object that it prints as its last line; NULL when there is none. */
static json_t *printed_object(const stk__outcome *o)
{
    size_t size;
    if (!o->output_end)
        return NULL;
    const char *line = last_line(o->output_end, o->output_end_size, &size);
    json_t *object = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(object))
        return object;
    json_decref(object);
    return NULL;
}

/* Of the digest of a pipeline's batches: the rest of what it prints is about time. */
static uint64_t digest_hash(const stk__outcome *o)
{
    json_t *object = printed_object(o);
    const char *digest = json_string_value(json_object_get(object, "digest"));
    const uint64_t hash = digest ? XXH3_64bits(digest, strlen(digest)) : o->output_hash;
    json_decref(object);
    return hash;
}

static void read_json(const stk__process_runs *p, const stk__outcome *o, double *values)
{
    const stk__result *r = p->r;
    for (size_t m = STK__MEASURES; m < r->metric_count; m++)
        values[m] = NAN;
    json_t *object = r->metric_count > STK__MEASURES ? printed_object(o) : NULL;
    if (!object)
        return;
    for (size_t m = STK__MEASURES; m < r->metric_count; m++) {
        values[m] = json_number(object, r->metrics[m].name);
        /* A command that leaves its start out of the count tells it itself. */
        if (isnan(values[m]) && strcmp(r->metrics[m].name, "cpu_per_1000") == 0)
            values[m] = 1000 * values[STK__CPU] / json_number(object, "samples");
    }
    json_decref(object);
}

/* ---- a run ---- */

/* The size of the environment moves the stack and with it the alignment of data: it is varied, so that no variant profits. */
static stk_status launch_padded(stk__process_runs *p, size_t trial, size_t round, stk__outcome *out, stk_error *err)
{
    const stk__trial *t = &p->e->trials[trial];
    char padding[32 + PADDING], number[48], name[300];
    const size_t size = stk__mix(p->e->seed, p->count++) % PADDING;
    const int start = snprintf(padding, sizeof padding, "STOKER_BENCH_PADDING=");
    memset(padding + start, 'x', size);
    padding[(size_t)start + size] = 0;
    snprintf(number, sizeof number, "STOKER_BENCH_ROUND=%zu", round);
    snprintf(name, sizeof name, "STOKER_BENCH_VARIANT=%.250s", t->name);
    const char *environment[] = {padding, number, name, NULL};
    stk__launch launch = p->e->launch;
    launch.command = t->command;
    launch.directory = t->directory;
    launch.environment = environment;
    if (launch.output == STK__OUTPUT_DISCARD &&
        (p->e->same_output || p->e->keep_directory || p->r->metric_count > STK__MEASURES))
        launch.output = STK__OUTPUT_KEEP;
    stk__text path = STK__TEXT_INIT;
    if (p->e->keep_directory) {
        char letters[8];
        stk__variant_letters(trial, letters);
        stk__text_printf(&path, "%s/%s-%04zu.out", p->e->keep_directory, letters, round + 1);
        if (path.failed) {
            stk__text_clear(&path);
            return stk__nomem(strlen(p->e->keep_directory), err);
        }
        launch.output_path = path.data;
    }
    const stk_status status = stk__launcher_run(p->l, &launch, out, err);
    stk__text_clear(&path);
    return status;
}

static stk_status judge(stk__process_runs *p, size_t trial, const stk__outcome *o, double *values, int *out_exit_code,
                        bool *out_failed, stk__text *why, stk_error *err)
{
    stk__launch launch = p->e->launch;
    launch.command = p->e->trials[trial].command;
    memcpy(values, o->measures, sizeof o->measures);
    read_json(p, o, values);
    p->left_behind += o->left_behind;
    *out_exit_code = o->exit_code;
    if (!went_well(o, p->e->ignore_failure)) {
        *out_failed = true;
        explain(o, &launch, why);
        return STK_OK;
    }
    if (!isfinite(values[p->r->primary])) {
        *out_failed = true;
        stk__text_printf(why, "the last line that it prints is no JSON object with a number '%s'",
                         p->r->metrics[p->r->primary].name);
        return STK_OK;
    }
    if (!p->e->same_output)
        return STK_OK;
    const bool digest = p->e->trials[trial].digest;
    return check_output(p, trial, digest ? digest_hash(o) : o->output_hash, digest ? 0 : o->output_bytes, err);
}

stk_status stk__process_measure(stk__process_runs *p, size_t trial, size_t round, double *values, int *out_exit_code,
                                bool *out_failed, stk__text *why, stk_error *err)
{
    const stk__trial *t = &p->e->trials[trial];
    STK_TRY(hook(p, trial, t->prepare, "prepare", err));
    stk__outcome o;
    STK_TRY(launch_padded(p, trial, round, &o, err));
    const stk_status status = judge(p, trial, &o, values, out_exit_code, out_failed, why, err);
    stk__outcome_clear(&o);
    if (status != STK_OK)
        return status;
    return hook(p, trial, t->conclude, "conclude", err);
}

double stk__process_hooks_s(const stk__process_runs *p)
{
    return p->hooks_s;
}

/* ---- the end ---- */

static stk_status note_too_fast(const stk__process_runs *p, stk_error *err)
{
    if (p->r->primary > STK__CPU)
        return STK_OK; /* not a time of the process */
    for (size_t t = 0; t < p->r->variant_count; t++) {
        const stk__variant *v = &p->r->variants[t];
        stk__summary s;
        if (!v->runs || !(p->r->floor_s > 0))
            continue;
        STK_TRY(stk__describe(v->values[STK__WALL], v->runs, &s, err));
        if (s.median >= TOO_FAST * p->r->floor_s)
            continue;
        char takes[32], least[32];
        stk__text a, b;
        stk__text_fixed(&a, takes, sizeof takes);
        stk__text_fixed(&b, least, sizeof least);
        stk__quantity(&a, s.median, "s");
        stk__quantity(&b, p->r->floor_s, "s");
        STK_TRY(
            stk__result_note(p->r, err,
                             "%s takes %s, of which about %s is starting and ending a process: too fast to time well, "
                             "and ratios come out too near 1; let one run do more work",
                             v->name, takes, least));
    }
    return STK_OK;
}

stk_status stk__process_runs_close(stk__process_runs *p, stk_error *err)
{
    if (!p)
        return STK_OK;
    stk_status status = note_too_fast(p, err);
    if (status == STK_OK && p->left_behind)
        status = stk__result_note(p->r, err,
                                  "%zu processes still ran when the command that had started them had ended; "
                                  "they were ended, and their time is not counted",
                                  p->left_behind);
    for (size_t t = 0; t < p->e->trial_count; t++) {
        if (!p->set_up[t])
            continue;
        const stk_status cleaned = hook(p, t, p->e->trials[t].cleanup, "cleanup", status == STK_OK ? err : NULL);
        status = status == STK_OK ? cleaned : status;
    }
    runs_free(p);
    return status;
}
