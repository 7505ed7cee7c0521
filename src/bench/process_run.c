/* One run of a command with what stands around it. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/rng.h"
#include "bench/command.h"
#include "bench/grind.h"
#include "bench/process_run.h"
#include "bench/quantity.h"
#include "stats/describe.h"

#include "base/banned.h"

enum {
    FLOOR_RUNS = 9,
    PADDING = 4096,
    FIXED_PADDING = 2048, /* with round and variant, which are shorter */
    TOO_FAST = 5,         /* times the floor */
    ERROR_SHOWN = 300
};

struct stk__process_runs {
    const stk__experiment *e;
    stk__launcher *l;
    stk__result *r;
    uint64_t *hashes, *sizes; /* of the first output of each trial */
    bool *seen, *changes, *set_up;
    size_t count;       /* of all runs: seeds the padding */
    double hooks_s;     /* CPU time of hooks */
    size_t left_behind; /* processes that outlived the runs that started them */
    bool counts;        /* each run counts its instructions, by hardware */
    bool grinds;        /* valgrind counts them, in runs after the rounds */
    stk__grind_tool tool;
    bool tool_changed;
    char grind_version[32];
    size_t uncounted; /* runs whose counter failed, the last for this reason */
    int count_error;
    double least_share; /* of the time in which the counter counted */
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

/* What a process costs that does nothing; and can its instructions be counted? */
static stk_status measure_floor(stk__process_runs *p, stk_error *err)
{
    double least = INFINITY;
    for (int i = 0; i < FLOOR_RUNS; i++) {
        const stk__launch launch = {.command = "true",
                                    .limits = p->e->launch.limits,
                                    .count = p->e->count && p->e->count_with != STK__COUNT_VALGRIND
                                                 ? STK__COUNT_INSTRUCTIONS
                                                 : STK__COUNT_NOTHING};
        stk__outcome o;
        STK_TRY(stk__launcher_run(p->l, &launch, &o, err));
        if (went_well(&o, false))
            least = fmin(least, o.measures[STK__WALL]);
        p->counts = p->e->count && isfinite(o.count.value);
        p->count_error = o.count.error;
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

/* ---- how instructions are counted ---- */

static stk_status say_counted(stk__process_runs *p, const char *how, const char *version, stk_error *err)
{
    stk__text t = STK__TEXT_INIT;
    stk__text_printf(&t, "%s%s%s", how, *version ? " " : "", version);
    stk__free(p->r->counted);
    p->r->counted = t.failed ? NULL : t.data;
    return t.failed ? stk__nomem(64, err) : STK_OK;
}

/* "3.19.0" of "valgrind-3.19.0"; empty: it cannot be run. */
static stk_status find_valgrind(stk__process_runs *p, stk_error *err)
{
    const stk__launch launch = {.command = "valgrind --version", .output = STK__OUTPUT_KEEP};
    static const char prefix[] = "valgrind-";
    stk__outcome o;
    STK_TRY(stk__launcher_run(p->l, &launch, &o, err));
    if (went_well(&o, false) && o.output_end && strncmp(o.output_end, prefix, sizeof prefix - 1) == 0) {
        const char *version = o.output_end + sizeof prefix - 1;
        snprintf(p->grind_version, sizeof p->grind_version, "%.*s", (int)strspn(version, "0123456789."), version);
        p->grinds = true;
    }
    stk__outcome_clear(&o);
    return STK_OK;
}

/* A shell starts what it runs as further processes. */
static stk_status choose_tool(stk__process_runs *p, stk_error *err)
{
    for (size_t t = 0; t < p->e->trial_count; t++) {
        stk__command command;
        STK_TRY(stk__command_split(p->e->trials[t].command, &command, err));
        if (command.shell)
            p->tool = STK__CALLGRIND;
        stk__command_clear(&command);
    }
    return STK_OK;
}

/* An error only where they decide. */
static stk_status do_without(stk__process_runs *p, const char *reason, stk_error *err)
{
    if (p->r->primary == STK__INSTRUCTIONS)
        return stk_error_set(err, STK_UNSUPPORTED, "instructions cannot be counted: %s", reason);
    return stk__result_note(p->r, err, "instructions were not counted: %s", reason);
}

/* In hardware in every run; else by valgrind in a few; else not. */
static stk_status choose_counter(stk__process_runs *p, stk_error *err)
{
    static const char slow[] =
        "valgrind counts the instructions, in runs of their own after the rounds that take 10 to "
        "100 times as long";
    static const char missing[] = "there is no valgrind (sudo apt install valgrind)";
    p->least_share = 1;
    if (p->counts)
        return say_counted(p, "hardware counter", "", err);
    char reason[512];
    stk__text why;
    stk__text_fixed(&why, reason, sizeof reason);
    const bool tried = p->e->count_with != STK__COUNT_VALGRIND;
    if (tried)
        stk__counter_explain(p->count_error, stk__counter_paranoid(), &why);
    if (p->e->count_with == STK__COUNT_HARDWARE)
        return do_without(p, reason, err);
    STK_TRY(find_valgrind(p, err));
    stk__text_printf(&why, "%s%s", !tried ? "" : p->grinds ? ": " : ", and ", p->grinds ? slow : missing);
    if (!p->grinds)
        return do_without(p, reason, err);
    STK_TRY(choose_tool(p, err));
    return stk__result_note(p->r, err, "%s", reason);
}

static stk_status set_up(stk__process_runs *p, stk_error *err)
{
    STK_TRY(describe_limits(p, err));
    STK_TRY(measure_floor(p, err));
    if (p->e->count)
        STK_TRY(choose_counter(p, err));
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

/* The first metric that commands tell themselves: those before it are measured. */
static size_t first_printed(const stk__process_runs *p)
{
    return p->e->count ? STK__NAMED_MEASURES : STK__MEASURES;
}

static void read_json(const stk__process_runs *p, const stk__outcome *o, double *values)
{
    const stk__result *r = p->r;
    for (size_t m = first_printed(p); m < r->metric_count; m++)
        values[m] = NAN;
    json_t *object = r->metric_count > first_printed(p) ? printed_object(o) : NULL;
    if (!object)
        return;
    for (size_t m = first_printed(p); m < r->metric_count; m++) {
        values[m] = json_number(object, r->metrics[m].name);
        /* A command that leaves its start out of the count tells it itself. */
        if (isnan(values[m]) && strcmp(r->metrics[m].name, "cpu_per_1000") == 0)
            values[m] = 1000 * values[STK__CPU] / json_number(object, "samples");
    }
    json_decref(object);
}

/* ---- a run ---- */

/* What a command finds in its environment. */
typedef struct surroundings {
    char padding[32 + PADDING], number[48], name[300];
    const char *words[4];
} surroundings;

/*
 * The size of the environment moves the stack and with it the alignment of data: it is varied, so that no variant
 * profits. For counts that is noise: there all have the same size.
 */
static void surround(stk__process_runs *p, size_t trial, size_t round, bool fixed, surroundings *out)
{
    const int number = snprintf(out->number, sizeof out->number, "STOKER_BENCH_ROUND=%zu", round);
    const int name = snprintf(out->name, sizeof out->name, "STOKER_BENCH_VARIANT=%.250s", p->e->trials[trial].name);
    const size_t drawn = (size_t)(stk__mix(p->e->seed, p->count++) % PADDING);
    const size_t size = fixed ? FIXED_PADDING - (size_t)(number + name) : drawn;
    const int start = snprintf(out->padding, sizeof out->padding, "STOKER_BENCH_PADDING=");
    memset(out->padding + start, 'x', size);
    out->padding[(size_t)start + size] = 0;
    memcpy(out->words, (const char *[]){out->padding, out->number, out->name, NULL}, sizeof out->words);
}

/* Counts that decide are those of rounds that differ in nothing. */
static bool is_fixed(const stk__process_runs *p)
{
    return p->counts && p->r->primary == STK__INSTRUCTIONS;
}

static stk_status launch_padded(stk__process_runs *p, size_t trial, size_t round, stk__outcome *out, stk_error *err)
{
    const stk__trial *t = &p->e->trials[trial];
    surroundings around;
    stk__launch launch = p->e->launch;
    surround(p, trial, round, is_fixed(p), &around);
    launch.command = t->command;
    launch.directory = t->directory;
    launch.environment = around.words;
    launch.fixed = is_fixed(p);
    launch.count = p->counts ? STK__COUNT_INSTRUCTIONS : STK__COUNT_NOTHING;
    if (launch.output == STK__OUTPUT_DISCARD &&
        (p->e->same_output || p->e->keep_directory || p->r->metric_count > first_printed(p)))
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

static void note_count(stk__process_runs *p, const stk__outcome *o)
{
    if (!p->counts)
        return;
    if (!isfinite(o->count.value)) {
        p->uncounted++;
        p->count_error = o->count.error;
    } else {
        p->least_share = fmin(p->least_share, o->count.share);
    }
}

static stk_status judge(stk__process_runs *p, size_t trial, const stk__outcome *o, double *values, int *out_exit_code,
                        bool *out_failed, stk__text *why, stk_error *err)
{
    stk__launch launch = p->e->launch;
    launch.command = p->e->trials[trial].command;
    memcpy(values, o->measures, first_printed(p) * sizeof *values);
    read_json(p, o, values);
    note_count(p, o);
    p->left_behind += o->left_behind;
    *out_exit_code = o->exit_code;
    if (!went_well(o, p->e->ignore_failure)) {
        *out_failed = true;
        explain(o, &launch, why);
        return STK_OK;
    }
    if (!isfinite(values[p->r->primary]) && !(p->grinds && p->r->primary == STK__INSTRUCTIONS)) {
        *out_failed = true;
        if (p->counts && p->r->primary == STK__INSTRUCTIONS) {
            stk__counter_explain(o->count.error, stk__counter_paranoid(), why);
            return STK_OK;
        }
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

/* ---- counting by valgrind ---- */

bool stk__process_counts_apart(const stk__process_runs *p)
{
    return p->grinds;
}

bool stk__process_counts_anew(stk__process_runs *p)
{
    const bool changed = p->tool_changed;
    p->tool_changed = false;
    return changed;
}

/* What it says itself is in its log, and its own last words are on the standard error of the command. */
static void explain_grind(const stk__outcome *o, const stk__launch *launch, const char *name, stk__text *why)
{
    stk__text_printf(why, "%s under valgrind: ", name);
    explain(o, launch, why);
    if (o->timed_out)
        stk__text_puts(why, "; counting takes 10 to 100 times as long: give --timeout more, or a run less work");
    else if (o->out_of_memory)
        stk__text_puts(why, "; valgrind needs memory of its own: give --memory more");
    else if (o->exit_code == 126)
        stk__text_puts(why, "; it does not run setuid programs");
    else
        stk__text_puts(why, "; in the rounds it went well: valgrind may not be able to run it");
}

/* With blanks between the words, as valgrind writes it. */
static stk_status joined_words(const char *text, stk__text *out, stk_error *err)
{
    stk__command command;
    STK_TRY(stk__command_split(text, &command, err));
    const char *word = command.words.data;
    for (size_t i = 0; i < command.count; i++, word += strlen(word) + 1)
        stk__text_printf(out, "%s%s", i ? " " : "", word);
    stk__command_clear(&command);
    return out->failed ? stk__nomem(strlen(text), err) : STK_OK;
}

static stk_status sum_grind(stk__process_runs *p, const stk__trial *t, const stk__grind *g, double *out,
                            bool *out_failed, stk__text *why, stk_error *err)
{
    stk__grind_total total;
    stk_error reason = {0};
    stk__text words = STK__TEXT_INIT;
    stk_status status = joined_words(t->command, &words, err);
    if (status == STK_OK && stk__grind_sum(g->directory, words.data ? words.data : "", &total, &reason) != STK_OK) {
        *out_failed = true;
        stk__text_printf(why, "%s: what valgrind wrote: %s", t->name, reason.message);
    } else if (status == STK_OK) {
        *out = (double)total.instructions;
        if (p->tool == STK__CACHEGRIND && !total.alone) {
            p->tool = STK__CALLGRIND;
            p->tool_changed = true;
        }
    }
    stk__text_clear(&words);
    return status;
}

static stk_status launch_grind(stk__process_runs *p, size_t trial, size_t round, double *out, bool *out_failed,
                               stk__text *why, stk_error *err)
{
    const stk__trial *t = &p->e->trials[trial];
    surroundings around;
    stk__grind grind;
    stk__launch launch = p->e->launch;
    stk__outcome o = {0};
    STK_TRY(stk__grind_open(&grind, p->tool, err));
    surround(p, trial, round, true, &around);
    launch.command = t->command;
    launch.directory = t->directory;
    launch.environment = around.words;
    launch.wrapper = grind.words;
    launch.output = STK__OUTPUT_DISCARD;
    launch.fixed = true;
    stk_status status = stk__launcher_run(p->l, &launch, &o, err);
    if (status == STK_OK && !went_well(&o, p->e->ignore_failure)) {
        *out_failed = true;
        explain_grind(&o, &launch, t->name, why);
    } else if (status == STK_OK) {
        status = sum_grind(p, t, &grind, out, out_failed, why, err);
    }
    stk__outcome_clear(&o);
    stk__grind_close(&grind);
    return status;
}

stk_status stk__process_count(stk__process_runs *p, size_t trial, size_t round, double *out, bool *out_failed,
                              stk__text *why, stk_error *err)
{
    const stk__trial *t = &p->e->trials[trial];
    *out_failed = false;
    STK_TRY(hook(p, trial, t->prepare, "prepare", err));
    STK_TRY(launch_grind(p, trial, round, out, out_failed, why, err));
    STK_TRY(say_counted(p, stk__grind_name(p->tool), p->grind_version, err));
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

static stk_status note_counts(const stk__process_runs *p, stk_error *err)
{
    if (p->counts && p->least_share < 1)
        STK_TRY(stk__result_note(p->r, err,
                                 "the hardware counter counted in only %.0f %% of the time, since others use it too: "
                                 "instructions are scaled",
                                 100 * p->least_share));
    if (!p->uncounted)
        return STK_OK;
    char reason[256];
    stk__text why;
    stk__text_fixed(&why, reason, sizeof reason);
    stk__counter_explain(p->count_error, stk__counter_paranoid(), &why);
    return stk__result_note(p->r, err, "the instructions of %zu runs were not counted: %s", p->uncounted, reason);
}

stk_status stk__process_runs_close(stk__process_runs *p, stk_error *err)
{
    if (!p)
        return STK_OK;
    stk_status status = note_too_fast(p, err);
    if (status == STK_OK)
        status = note_counts(p, err);
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
