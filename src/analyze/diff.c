/* Compares two traces: groups their slices under one numbering, tests the durations of each group, decides. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/diff_impl.h"
#include "analyze/select.h"
#include "analyze/top.h"
#include "base/mem.h"
#include "base/rng.h"

#include "base/banned.h"

#define ALPHA 0.05
#define SAMPLE_LIMIT 100000
#define SAMPLES_IN_ALL (8u << 20) /* durations held for the tests, 64 MiB */
#define CALLS_CHANGE 0.1          /* counts per step that differ by less may come from the cut at both ends */
#define TRIM_ROWS ((size_t)1 << 20)

/* One group of one trace while it is added up. */
typedef struct group {
    int64_t count, total, self;
    int64_t step_count, step_total, step_self;
    uint64_t durations, seen; /* that can be tested; of these, how many the draw has passed */
    size_t first, taken;      /* drawn ones, in `samples` */
    bool stage;
} group;

typedef struct side {
    const stk__trace *t;
    stk__diff_steps steps;
    uint32_t *key_of; /* by string or by track; STK__NONE: not used */
    size_t key_of_count;
    bool *ours;         /* by file: written by our recorder */
    stk__chosen chosen; /* all but what the profiler writes about itself */
    group *groups;
    int64_t *samples;
    int64_t busy;
} side;

typedef struct comparison {
    stk__diff *d;
    stk__diff_keys keys;
    side sides[2]; /* before, after */
} comparison;

static const struct {
    const char *name, *text;
} verdicts[] = {
#define VERDICT(name, word, text) {word, text},
    STK__DIFF_VERDICTS(VERDICT)
#undef VERDICT
};

const char *stk__diff_verdict_name(stk__diff_verdict v)
{
    return verdicts[v].name;
}

const char *stk__diff_verdict_text(stk__diff_verdict v)
{
    return verdicts[v].text;
}

/* ---- steps ---- */

static stk_status load_steps(side *s, stk_error *err)
{
    stk__diff_steps *steps = &s->steps;
    STK_TRY(stk__steps_find(s->t, &steps->steps, err));
    const size_t files = s->t->file_count;
    steps->from = stk__calloc(files, sizeof *steps->from);
    steps->to = stk__calloc(files, sizeof *steps->to);
    s->ours = stk__calloc(files, sizeof *s->ours);
    if (!steps->from || !steps->to || !s->ours)
        return stk__nomem(files * 2 * sizeof(int64_t), err);
    for (size_t i = 0; i < files; i++) {
        steps->from[i] = INT64_MAX; /* no steps yet */
        steps->to[i] = INT64_MIN;
    }
    for (size_t i = 0; i < steps->steps.count; i++) {
        const stk__step *step = &steps->steps.rows[i];
        if (step->file >= files)
            continue;
        steps->from[step->file] = STK_MIN(steps->from[step->file], step->ts);
        steps->to[step->file] = STK_MAX(steps->to[step->file], stk__saturating_add(step->ts, step->dur));
    }
    for (size_t i = 0; i < files; i++) {
        if (steps->from[i] > steps->to[i]) { /* a worker's file: all of it serves the steps of the others */
            steps->from[i] = INT64_MIN;
            steps->to[i] = INT64_MAX;
        }
    }
    for (size_t i = 0; i < s->t->total_count; i++) {
        if (s->t->totals[i].file < files)
            s->ours[s->t->totals[i].file] = true;
    }
    return STK_OK;
}

/* Steps that were inferred from different names may be halves or multiples of each other. */
static const char *why_not_per_step(const stk__steps *a, const stk__steps *b)
{
    if (!a->count && !b->count)
        return "neither trace has steps";
    if (!a->count || !b->count)
        return a->count ? "only the trace before has steps" : "only the trace after has steps";
    if (a->from != b->from)
        return "one trace has step markers, the other only something that repeats";
    if (a->from == STK__STEPS_INFERRED && strcmp(a->marker, b->marker) != 0)
        return "the steps are inferred, and from different names";
    return NULL;
}

static stk__median no_median(void)
{
    return (stk__median){.value = NAN};
}

static stk_status sum_up_steps(const side *s, stk__diff_totals *out, int64_t **out_durations, stk_error *err)
{
    const stk__steps *steps = &s->steps.steps;
    out->steps = steps->count;
    out->from = steps->from;
    out->confidence = steps->confidence;
    memcpy(out->marker, steps->marker, sizeof out->marker);
    out->marker[sizeof out->marker - 1] = 0;
    out->step = no_median();
    out->step_mean = NAN;
    int64_t *durations = stk__calloc(steps->count, sizeof *durations);
    if (!durations)
        return stk__nomem(steps->count * sizeof *durations, err);
    double sum = 0;
    for (size_t i = 0; i < steps->count; i++) {
        durations[i] = steps->rows[i].dur;
        sum += (double)durations[i];
    }
    stk__sort_int64(durations, steps->count);
    if (steps->count) {
        out->step = stk__median_of(durations, steps->count);
        out->step_mean = sum / (double)steps->count;
    }
    *out_durations = durations;
    return STK_OK;
}

static double change_of(double before, double after)
{
    return before > 0 && after >= 0 ? after / before - 1 : NAN;
}

/* The same where what grew from nothing is a change, and an infinite one. */
static double growth_of(double before, double after)
{
    return before == 0 && after > 0 ? INFINITY : change_of(before, after);
}

static void judge_steps(stk__diff *d, const int64_t *before, const int64_t *after)
{
    const size_t na = d->before.steps, nb = d->after.steps;
    d->step_change = NAN;
    d->step_test = (stk__mwu){.p = NAN};
    d->step_verdict = STK__DIFF_NO_TEST;
    if (d->basis != STK__DIFF_PER_STEP)
        return;
    d->step_change = growth_of(d->before.step.value, d->after.step.value);
    stk__mwu_test(before, na, after, nb, &d->step_test);
    if (stk__mwu_smallest_p(na, nb) > ALPHA)
        d->step_verdict = STK__DIFF_TOO_FEW;
    else if (!(d->step_test.p < ALPHA))
        d->step_verdict = STK__DIFF_SAME;
    else if (!(fabs(d->step_change) >= d->options.min_change))
        d->step_verdict = STK__DIFF_NEGLIGIBLE;
    else
        d->step_verdict = d->step_change > 0 ? STK__DIFF_SLOWER : STK__DIFF_FASTER;
}

static stk_status compare_steps(comparison *c, stk_error *err)
{
    stk__diff *d = c->d;
    STK_TRY(load_steps(&c->sides[0], err));
    STK_TRY(load_steps(&c->sides[1], err));
    d->basis_reason = why_not_per_step(&c->sides[0].steps.steps, &c->sides[1].steps.steps);
    d->basis = d->basis_reason ? STK__DIFF_PER_CALL : STK__DIFF_PER_STEP;
    for (int i = 0; i < 2 && d->basis == STK__DIFF_PER_STEP; i++)
        c->sides[i].steps.per = (double)c->sides[i].steps.steps.count;
    int64_t *before = NULL, *after = NULL;
    stk_status status = sum_up_steps(&c->sides[0], &d->before, &before, err);
    if (status == STK_OK)
        status = sum_up_steps(&c->sides[1], &d->after, &after, err);
    if (status == STK_OK)
        judge_steps(d, before, after);
    stk__free(before);
    stk__free(after);
    return status;
}

/* ---- grouping slices ---- */

static uint32_t outer_track(const stk__trace *t, uint32_t track)
{
    const stk__trace_track *row = &t->tracks[track];
    return row->lane && row->parent < t->track_count ? row->parent : track;
}

static uint32_t label_key(comparison *c, const side *s, uint32_t track)
{
    stk__text label = STK__TEXT_INIT;
    const stk__trace *t = s->t;
    track = outer_track(t, track);
    const uint32_t process = t->tracks[track].process;
    if (c->d->options.by == STK__DIFF_THREAD)
        stk__trace_track_label(t, track, &label);
    else if (process >= t->process_count)
        stk__text_puts(&label, "(no process)");
    else if (t->processes[process].name)
        stk__text_puts(&label, stk__trace_str(t, t->processes[process].name));
    else if (t->processes[process].pid_text)
        stk__text_puts(&label, stk__trace_str(t, t->processes[process].pid_text));
    else
        stk__text_printf(&label, "process %lld", (long long)t->processes[process].pid);
    const uint32_t key = label.failed ? STK__NONE : stk__diff_key(&c->keys, label.data ? label.data : "", label.length);
    c->keys.failed |= label.failed;
    stk__text_clear(&label);
    return key;
}

static uint32_t new_key(comparison *c, const side *s, uint32_t at)
{
    size_t size;
    const char *text;
    switch (c->d->options.by) {
    case STK__DIFF_NAME:
        text = stk__trace_text(s->t, at, &size);
        return stk__diff_name_key(&c->keys, s->steps.steps.marker, text, size);
    case STK__DIFF_CATEGORY:
        text = stk__trace_text(s->t, at, &size);
        return size ? stk__diff_key(&c->keys, text, size) : stk__diff_key(&c->keys, "(no category)", 13);
    default:
        return label_key(c, s, at);
    }
}

static const uint32_t *grouping_column(const comparison *c, const side *s)
{
    switch (c->d->options.by) {
    case STK__DIFF_NAME:
        return s->t->slices.name;
    case STK__DIFF_CATEGORY:
        return s->t->slices.category;
    default:
        return s->t->slices.track;
    }
}

static bool counts(const side *s, size_t i)
{
    return !(s->t->slices.flags[i] & STK__SLICE_INSTANT) && !stk__chosen_profiler(&s->chosen, i);
}

/* Gives every group that has slices its number; the numbers are those of `keys`. */
static stk_status number_groups(comparison *c, side *s, stk_error *err)
{
    static const stk__selection all = {.leave_out = true};
    STK_TRY(stk__chosen_init(&s->chosen, s->t, &all, err));
    const stk__slices *slices = &s->t->slices;
    const bool by_track = c->d->options.by == STK__DIFF_THREAD || c->d->options.by == STK__DIFF_PROCESS;
    s->key_of_count = by_track ? s->t->track_count : s->t->string_count;
    s->key_of = stk__alloc(s->key_of_count * sizeof *s->key_of + 1);
    if (!s->key_of)
        return stk__nomem(s->key_of_count * sizeof *s->key_of, err);
    memset(s->key_of, 0xff, s->key_of_count * sizeof *s->key_of);
    const uint32_t *column = grouping_column(c, s);
    for (size_t i = 0; i < slices->count; i++) {
        if (!counts(s, i))
            continue;
        if (column[i] < s->key_of_count && s->key_of[column[i]] == STK__NONE)
            s->key_of[column[i]] = new_key(c, s, column[i]);
        if (i % TRIM_ROWS == TRIM_ROWS - 1)
            stk__trace_trim(s->t);
    }
    return c->keys.failed ? stk__nomem(c->keys.used, err) : STK_OK;
}

static bool is_stage_name(const char *name)
{
    static const char *const starts[] = {"Iterator::", "IteratorGetNext", "enumerate(DataLoader)#",
                                         "enumerate(DataPipe)#"};
    for (size_t i = 0; i < STK_COUNT(starts); i++) {
        if (strncmp(name, starts[i], strlen(starts[i])) == 0)
            return true;
    }
    return false;
}

static bool is_stage_category(const char *category)
{
    return strcmp(category, "op") == 0 || strcmp(category, "wait") == 0;
}

/* Durations that mean what they say. */
static bool can_be_tested(uint8_t flags)
{
    return !(flags & (STK__SLICE_INSTANT | STK__SLICE_UNFINISHED | STK__SLICE_CLAMPED));
}

static void add_slice(const side *s, const uint32_t *column, size_t i)
{
    const stk__slices *slices = &s->t->slices;
    const uint32_t file = s->t->tracks[slices->track[i]].file;
    const bool known = file < s->t->file_count;
    const int64_t from = known ? s->steps.from[file] : INT64_MIN, to = known ? s->steps.to[file] : INT64_MAX;
    const int64_t dur = slices->dur[i];
    group *g = &s->groups[s->key_of[column[i]]];
    g->count++;
    g->total = stk__saturating_add(g->total, dur);
    g->self = stk__saturating_add(g->self, dur);
    g->durations += can_be_tested(slices->flags[i]);
    if (slices->ts[i] >= from && slices->ts[i] < to) {
        g->step_count++;
        g->step_total = stk__saturating_add(g->step_total, dur);
        g->step_self = stk__saturating_add(g->step_self, dur);
    }
    if (known && s->ours[file] && !g->stage)
        g->stage = is_stage_category(stk__trace_str(s->t, slices->category[i]));
    const uint32_t parent = slices->parent[i];
    if (parent >= i || column[parent] >= s->key_of_count || s->key_of[column[parent]] == STK__NONE ||
        !counts(s, parent))
        return;
    group *around = &s->groups[s->key_of[column[parent]]];
    around->self = stk__saturating_sub(around->self, dur);
    if (slices->ts[parent] >= from && slices->ts[parent] < to)
        around->step_self = stk__saturating_sub(around->step_self, dur);
}

static stk_status add_up(comparison *c, side *s, stk_error *err)
{
    s->groups = stk__calloc(c->keys.count, sizeof *s->groups);
    if (!s->groups)
        return stk__nomem(c->keys.count * sizeof *s->groups, err);
    const uint32_t *column = grouping_column(c, s);
    for (size_t i = 0; i < s->t->slices.count; i++) {
        if (counts(s, i) && column[i] < s->key_of_count)
            add_slice(s, column, i);
        c->d->left_out += stk__chosen_profiler(&s->chosen, i);
        if (i % TRIM_ROWS == TRIM_ROWS - 1)
            stk__trace_trim(s->t);
    }
    for (size_t k = 0; k < c->keys.count; k++) {
        s->groups[k].self = STK_MAX(s->groups[k].self, 0); /* children may stick out by the rounding of times */
        s->groups[k].step_self = STK_MAX(s->groups[k].step_self, 0);
        s->busy = stk__saturating_add(s->busy, s->groups[k].self);
    }
    return STK_OK;
}

/* ---- drawing the durations to test ---- */

static uint64_t sample_count(const comparison *c, uint64_t limit)
{
    uint64_t sum = 0;
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < c->keys.count; k++)
            sum += STK_MIN(c->sides[i].groups[k].durations, limit);
    }
    return sum;
}

static size_t choose_limit(const comparison *c)
{
    size_t limit = c->d->options.sample_limit ? c->d->options.sample_limit : SAMPLE_LIMIT;
    while (limit > 1000 && sample_count(c, limit) > SAMPLES_IN_ALL)
        limit /= 2;
    return limit;
}

/*
 * Knuth's algorithm S: each duration has the same chance, and exactly `want` of them are taken. The same draw each
 * time.
 */
static bool draw(group *g, uint64_t want, uint64_t seed)
{
    const uint64_t left = g->durations - g->seen++;
    const double random = (double)(stk__mix(seed, g->seen) >> 11) * 0x1p-53;
    return random * (double)left < (double)(want - g->taken);
}

static stk_status draw_samples(comparison *c, side *s, size_t limit, stk_error *err)
{
    size_t size = 0;
    for (size_t k = 0; k < c->keys.count; k++) {
        s->groups[k].first = size;
        size += (size_t)STK_MIN(s->groups[k].durations, limit);
        c->d->sampled |= s->groups[k].durations > limit;
    }
    s->samples = stk__calloc(size, sizeof *s->samples);
    if (!s->samples)
        return stk__nomem(size * sizeof *s->samples, err);
    const stk__slices *slices = &s->t->slices;
    const uint32_t *column = grouping_column(c, s);
    for (size_t i = 0; i < slices->count; i++) {
        if (can_be_tested(slices->flags[i]) && counts(s, i) && column[i] < s->key_of_count) {
            group *g = &s->groups[s->key_of[column[i]]];
            if (g->durations <= limit || draw(g, limit, s->key_of[column[i]]))
                s->samples[g->first + g->taken++] = slices->dur[i];
        }
        if (i % TRIM_ROWS == TRIM_ROWS - 1)
            stk__trace_trim(s->t);
    }
    for (size_t k = 0; k < c->keys.count; k++)
        stk__sort_int64(s->samples + s->groups[k].first, s->groups[k].taken);
    return STK_OK;
}

/* ---- rows ---- */

static stk__diff_side side_of(const side *s, const group *g)
{
    stk__diff_side out = {.count = g->count,
                          .total = g->total,
                          .self = g->self,
                          .mean = g->count ? (double)g->total / (double)g->count : NAN,
                          .self_share = s->busy > 0 ? (double)g->self / (double)s->busy : NAN,
                          .median = no_median(),
                          .per_step = NAN,
                          .self_per_step = NAN,
                          .calls_per_step = NAN,
                          .tested = g->taken};
    if (g->taken)
        out.median = stk__median_of(s->samples + g->first, g->taken);
    if (s->steps.per > 0) {
        out.per_step = (double)g->step_total / s->steps.per;
        out.self_per_step = (double)g->step_self / s->steps.per;
        out.calls_per_step = (double)g->step_count / s->steps.per;
    }
    return out;
}

static double self_per_call(const stk__diff_side *s)
{
    return s->count ? (double)s->self / (double)s->count : 0;
}

static double impact_of(const stk__diff_row *r, stk__diff_basis basis)
{
    if (basis == STK__DIFF_PER_STEP)
        return r->after.self_per_step - r->before.self_per_step;
    if (!r->before.count || !r->after.count)
        return (double)r->after.self - (double)r->before.self;
    return (self_per_call(&r->after) - self_per_call(&r->before)) * (double)r->before.count;
}

static bool is_small(const comparison *c, const group *before, const group *after)
{
    const double share = c->d->options.min_share;
    return (double)before->total < share * (double)c->sides[0].busy &&
           (double)after->total < share * (double)c->sides[1].busy;
}

/* What can be said before the correction; tests where there is something to test, and leaves SAME then. */
static void make_row(comparison *c, size_t key, stk__diff_row *r)
{
    const stk__diff *d = c->d;
    const group *before = &c->sides[0].groups[key], *after = &c->sides[1].groups[key];
    *r = (stk__diff_row){.label = stk__diff_key_text(&c->keys, (uint32_t)key, NULL), .unit = STK__UNIT_NS};
    r->before = side_of(&c->sides[0], before);
    r->after = side_of(&c->sides[1], after);
    r->stage = d->options.by == STK__DIFF_NAME && (before->stage || after->stage || is_stage_name(r->label));
    r->median_change = growth_of(r->before.median.value, r->after.median.value);
    r->load_change = d->basis == STK__DIFF_PER_STEP ? change_of(r->before.per_step, r->after.per_step) : NAN;
    if (isnan(r->load_change))
        r->load_change = growth_of(r->before.mean, r->after.mean);
    r->calls_change = d->basis == STK__DIFF_PER_STEP ? change_of(r->before.calls_per_step, r->after.calls_per_step)
                                                     : change_of((double)r->before.count, (double)r->after.count);
    r->impact = impact_of(r, d->basis);
    r->p = r->p_holm = NAN;
    if (!before->count || !after->count)
        r->verdict = before->count ? STK__DIFF_VANISHED : STK__DIFF_APPEARED;
    else if (is_small(c, before, after))
        r->verdict = STK__DIFF_SMALL;
    else if (stk__mwu_smallest_p(before->taken, after->taken) > ALPHA)
        r->verdict = STK__DIFF_TOO_FEW;
    else {
        stk__mwu_test(c->sides[0].samples + before->first, before->taken, c->sides[1].samples + after->first,
                      after->taken, &r->test);
        r->p = r->test.p;
        r->verdict = STK__DIFF_SAME;
    }
}

static bool moved(double change, double direction, double least)
{
    return change * direction >= least;
}

/*
 * Names whose calls take longer or shorter. Per step, the time in a step must have moved the same way; where it moved
 * the other way, it decides: what is called ten times as often costs more, though each call is faster.
 */
static stk__diff_verdict judge_durations(const stk__diff *d, const stk__diff_row *r, stk__diff_verdict by_calls)
{
    const double least = d->options.min_change, direction = r->test.superiority > 0.5 ? 1 : -1;
    const bool per_step = d->basis == STK__DIFF_PER_STEP;
    if (moved(r->load_change, -direction, least))
        return by_calls != STK__DIFF_NEGLIGIBLE ? by_calls
               : direction > 0                  ? STK__DIFF_COSTS_LESS
                                                : STK__DIFF_COSTS_MORE;
    if (moved(r->load_change, direction, least) || (!per_step && moved(r->median_change, direction, least)))
        return direction > 0 ? STK__DIFF_SLOWER : STK__DIFF_FASTER;
    return STK__DIFF_NEGLIGIBLE;
}

static stk__diff_verdict judge(const stk__diff *d, const stk__diff_row *r)
{
    const bool differs = r->verdict == STK__DIFF_SAME && r->p_holm < ALPHA;
    stk__diff_verdict verdict = differs ? STK__DIFF_NEGLIGIBLE : r->verdict;
    if (d->basis == STK__DIFF_PER_STEP && r->verdict >= STK__DIFF_SAME && fabs(r->calls_change) >= CALLS_CHANGE &&
        moved(r->load_change, r->calls_change > 0 ? 1 : -1, d->options.min_change))
        verdict = r->calls_change > 0 ? STK__DIFF_MORE_CALLS : STK__DIFF_FEWER_CALLS;
    return differs ? judge_durations(d, r, verdict) : verdict;
}

static stk_status correct_and_judge(stk__diff *d, stk_error *err)
{
    double *p = stk__calloc(d->count, sizeof *p);
    if (!p)
        return stk__nomem(d->count * sizeof *p, err);
    for (size_t i = 0; i < d->count; i++) {
        if (!isnan(d->rows[i].p))
            p[d->tested++] = d->rows[i].p;
    }
    const stk_status status = stk__holm(p, d->tested, p, err);
    if (status == STK_OK) {
        size_t at = 0;
        for (size_t i = 0; i < d->count; i++) {
            stk__diff_row *r = &d->rows[i];
            if (!isnan(r->p))
                r->p_holm = p[at++];
            r->verdict = judge(d, r);
            d->changed += r->verdict <= STK__DIFF_VANISHED;
        }
    }
    stk__free(p);
    return status;
}

static int compare_rows(const void *a, const void *b)
{
    const stk__diff_row *x = a, *y = b;
    const bool x_changed = x->verdict <= STK__DIFF_VANISHED, y_changed = y->verdict <= STK__DIFF_VANISHED;
    if (x_changed != y_changed)
        return x_changed ? -1 : 1;
    const double dx = fabs(x->impact), dy = fabs(y->impact);
    if (dx != dy)
        return dx > dy ? -1 : 1;
    return strcmp(x->label, y->label);
}

static stk_status make_rows(comparison *c, stk_error *err)
{
    stk__diff *d = c->d;
    d->rows = stk__calloc(c->keys.count, sizeof *d->rows);
    if (!d->rows)
        return stk__nomem(c->keys.count * sizeof *d->rows, err);
    for (size_t k = 0; k < c->keys.count; k++)
        make_row(c, k, &d->rows[d->count++]);
    STK_TRY(correct_and_judge(d, err));
    if (d->count > 1)
        qsort(d->rows, d->count, sizeof *d->rows, compare_rows);
    return STK_OK;
}

static stk_status compare_slices(comparison *c, stk_error *err)
{
    for (int i = 0; i < 2; i++)
        STK_TRY(number_groups(c, &c->sides[i], err));
    for (int i = 0; i < 2; i++)
        STK_TRY(add_up(c, &c->sides[i], err));
    c->d->before.busy = c->sides[0].busy;
    c->d->after.busy = c->sides[1].busy;
    const size_t limit = choose_limit(c);
    for (int i = 0; i < 2; i++)
        STK_TRY(draw_samples(c, &c->sides[i], limit, err));
    return make_rows(c, err);
}

/* ---- profiles ---- */

typedef struct profile {
    stk__top top;
    int64_t self;
} profile;

static void add_profile_row(const stk__top_row *from, int64_t all, bool is_after, stk__diff_row *r)
{
    stk__diff_side *s = is_after ? &r->after : &r->before;
    r->unit = from->unit;
    s->count = stk__saturating_add(s->count, from->count);
    s->total = stk__saturating_add(s->total, from->total);
    s->self = stk__saturating_add(s->self, from->self);
    s->self_share = all > 0 ? (double)s->self / (double)all : NAN;
    s->mean = s->count ? (double)s->total / (double)s->count : NAN;
}

static void finish_profile_row(stk__diff_row *r, const char *label)
{
    r->label = label;
    r->median_change = r->calls_change = r->p = r->p_holm = NAN;
    r->load_change = change_of(r->before.self_share, r->after.self_share);
    r->impact = (isnan(r->after.self_share) ? 0 : r->after.self_share) -
                (isnan(r->before.self_share) ? 0 : r->before.self_share);
    const bool in_before = r->before.count || r->before.total, in_after = r->after.count || r->after.total;
    r->verdict = in_before && in_after ? STK__DIFF_NO_TEST : in_before ? STK__DIFF_VANISHED : STK__DIFF_APPEARED;
}

static void clear_side(stk__diff_side *s)
{
    *s = (stk__diff_side){.mean = NAN, .self_share = NAN, .per_step = NAN, .self_per_step = NAN, .calls_per_step = NAN};
    s->median = no_median();
}

static stk_status join_profiles(comparison *c, const profile profiles[2], stk_error *err)
{
    stk__diff *d = c->d;
    const size_t most = profiles[0].top.count + profiles[1].top.count;
    d->rows = stk__calloc(most, sizeof *d->rows);
    if (!d->rows)
        return stk__nomem(most * sizeof *d->rows, err);
    for (int i = 0; i < 2; i++) {
        const stk__top *top = &profiles[i].top;
        for (size_t k = 0; k < top->count; k++) {
            if (top->rows[k].unit != d->unit)
                continue;
            const char *label = stk__top_label(c->sides[i].t, top, &top->rows[k]);
            const uint32_t key = stk__diff_key(&c->keys, label, strlen(label));
            if (key == STK__NONE)
                return stk__nomem(c->keys.used, err);
            for (; d->count <= key; d->count++) {
                clear_side(&d->rows[d->count].before);
                clear_side(&d->rows[d->count].after);
            }
            add_profile_row(&top->rows[k], profiles[i].self, i == 1, &d->rows[key]);
        }
    }
    for (size_t k = 0; k < d->count; k++) {
        finish_profile_row(&d->rows[k], stk__diff_key_text(&c->keys, (uint32_t)k, NULL));
        d->changed += d->rows[k].verdict <= STK__DIFF_VANISHED;
    }
    return STK_OK;
}

static int compare_impact(const void *a, const void *b)
{
    const stk__diff_row *x = a, *y = b;
    const double dx = fabs(x->impact), dy = fabs(y->impact);
    return dx != dy ? (dx > dy ? -1 : 1) : strcmp(x->label, y->label);
}

/* Samples of different units are not added up: the first that both have is compared, else the first that one has. */
static uint32_t choose_unit(const profile profiles[2])
{
    for (int both = 1; both >= 0; both--)
        for (uint32_t unit = 0; unit <= STK__UNIT_NONE; unit++) {
            const bool before = profiles[0].top.totals[unit] > 0, after = profiles[1].top.totals[unit] > 0;
            if (both ? before && after : before || after)
                return unit;
        }
    return STK__UNIT_NS;
}

static stk_status compare_profiles(comparison *c, stk__top_source source, stk_error *err)
{
    const stk__top_options options = {.by = STK__TOP_NAME};
    profile profiles[2] = {{.self = 0}, {.self = 0}};
    stk_status status = STK_OK;
    for (int i = 0; i < 2 && status == STK_OK; i++) {
        status = stk__top_make(c->sides[i].t, source, &options, &profiles[i].top, err);
    }
    if (status == STK_OK)
        c->d->unit = choose_unit(profiles);
    for (int i = 0; i < 2 && status == STK_OK; i++)
        for (size_t k = 0; k < profiles[i].top.count; k++)
            if (profiles[i].top.rows[k].unit == c->d->unit)
                profiles[i].self = stk__saturating_add(profiles[i].self, profiles[i].top.rows[k].self);
    if (status == STK_OK)
        status = join_profiles(c, profiles, err);
    c->d->before.busy = profiles[0].self;
    c->d->after.busy = profiles[1].self;
    if (status == STK_OK && c->d->count > 1)
        qsort(c->d->rows, c->d->count, sizeof *c->d->rows, compare_impact);
    stk__top_clear(&profiles[0].top);
    stk__top_clear(&profiles[1].top);
    return status;
}

/* ---- the rule of --fail-over ---- */

/*
 * What appeared has no time before to be compared with, so all names are judged together then: those that changed,
 * appeared and vanished move the busy time of the trace before.
 */
static void apply_busy_rule(stk__diff *d)
{
    const bool per_step = d->basis == STK__DIFF_PER_STEP;
    double before = 0, appeared = 0, vanished = 0, common = 0, common_as_before = 0;
    for (size_t i = 0; i < d->count; i++) {
        const stk__diff_row *r = &d->rows[i];
        const double was = per_step ? r->before.self_per_step : (double)r->before.self;
        const double is = per_step ? r->after.self_per_step : (double)r->after.self;
        before += was;
        if (r->verdict == STK__DIFF_APPEARED) {
            appeared += is;
        } else if (r->verdict == STK__DIFF_VANISHED) {
            vanished += was;
        } else {
            common += (double)r->after.self;
            common_as_before += self_per_call(&r->after) * (double)r->before.count;
        }
    }
    if (!per_step && common > 0) /* the traces need not be of one length */
        appeared *= common_as_before / common;
    if (appeared <= 0)
        return;
    d->rule = STK__DIFF_BUSY_TIME;
    d->rule_after += before - d->rule_before + appeared - vanished;
    d->rule_before = before;
    d->rule_change = growth_of(before, STK_MAX(d->rule_after, 0.0));
    d->regression = d->rule_change > d->options.fail_over;
}

static void apply_names_rule(stk__diff *d)
{
    bool any = false;
    for (size_t i = 0; i < d->count; i++) {
        const stk__diff_row *r = &d->rows[i];
        any |= !isnan(r->p);
        if (!(r->p_holm < ALPHA) || r->verdict >= STK__DIFF_APPEARED)
            continue;
        const bool per_step = d->basis == STK__DIFF_PER_STEP;
        d->rule_before += per_step ? r->before.self_per_step : (double)r->before.self;
        d->rule_after += per_step ? r->after.self_per_step : self_per_call(&r->after) * (double)r->before.count;
    }
    d->rule = any ? STK__DIFF_NAMES_TIME : STK__DIFF_NO_RULE;
    d->rule_change = growth_of(d->rule_before, d->rule_after);
    if (isnan(d->rule_change))
        d->rule_change = 0;
    d->regression = d->rule_change > d->options.fail_over;
    if (!d->regression)
        apply_busy_rule(d);
}

/* Steps that were inferred are good enough to divide by, not to fail a build. */
static bool steps_can_decide(const stk__diff *d)
{
    return d->basis == STK__DIFF_PER_STEP && d->step_verdict != STK__DIFF_TOO_FEW &&
           d->before.from == STK__STEPS_MARKERS && d->after.from == STK__STEPS_MARKERS;
}

static void apply_rule(stk__diff *d)
{
    if (d->options.fail_over < 0 || d->basis == STK__DIFF_PER_SHARE)
        return;
    if (!steps_can_decide(d)) {
        apply_names_rule(d);
        return;
    }
    d->rule = STK__DIFF_STEP_TIME;
    d->rule_before = d->before.step.value;
    d->rule_after = d->after.step.value;
    d->rule_change = d->step_change;
    d->regression = d->step_test.p < ALPHA && d->rule_change > d->options.fail_over;
}

/* ---- all together ---- */

static const char *source_name(const stk__top_source *sources, size_t count)
{
    static const char *const names[] = {
        [STK__TOP_SLICES] = "slices", [STK__TOP_SAMPLES] = "samples", [STK__TOP_FUNCTIONS] = "functions"};
    return count ? names[sources[0]] : "nothing to compare";
}

/* The most telling source that both have. */
static stk_status common_source(const stk__trace *before, const stk__trace *after, stk__top_source *out, stk_error *err)
{
    stk__top_source a[3], b[3];
    const size_t na = stk__top_sources(before, a), nb = stk__top_sources(after, b);
    /* Slices of a snapshot of memory are remarks beside the samples. */
    if (stk__files_are(before, "snapshot") && stk__files_are(after, "snapshot") && before->samples.count &&
        after->samples.count) {
        *out = STK__TOP_SAMPLES;
        return STK_OK;
    }
    for (size_t i = 0; i < na; i++) {
        for (size_t j = 0; j < nb; j++) {
            if (a[i] == b[j]) {
                *out = a[i];
                return STK_OK;
            }
        }
    }
    return stk_error_set(err, STK_UNSUPPORTED,
                         "the trace before has %s, the trace after has %s: wanted the same in both", source_name(a, na),
                         source_name(b, nb));
}

static void describe(const stk__trace *t, stk__diff_totals *out)
{
    out->files = t->file_count;
    out->slices = t->slices.count;
    out->wall_ns = stk__saturating_sub(t->end_ns, t->start_ns);
    out->step = no_median();
    out->step_mean = NAN;
}

static void clear_side_of(side *s)
{
    stk__steps_clear(&s->steps.steps);
    stk__free(s->steps.from);
    stk__free(s->steps.to);
    stk__chosen_clear(&s->chosen);
    stk__free(s->key_of);
    stk__free(s->ours);
    stk__free(s->groups);
    stk__free(s->samples);
}

static stk_status compare(comparison *c, stk_error *err)
{
    const stk__trace *before = c->sides[0].t, *after = c->sides[1].t;
    stk__top_source source = STK__TOP_SLICES;
    STK_TRY(common_source(before, after, &source, err));
    if (source == STK__TOP_SLICES) {
        STK_TRY(compare_steps(c, err));
        STK_TRY(compare_slices(c, err));
    } else {
        c->d->basis = STK__DIFF_PER_SHARE;
        STK_TRY(compare_profiles(c, source, err));
    }
    apply_rule(c->d);
    if (source == STK__TOP_FUNCTIONS)
        return STK_OK; /* pstats knows no stacks */
    const stk__diff_steps steps[2] = {c->sides[0].steps, c->sides[1].steps};
    return stk__diff_stacks(c->d, before, after, steps, err);
}

stk_status stk__diff_make(const stk__trace *before, const stk__trace *after, const stk__diff_options *options,
                          stk__diff *out, stk_error *err)
{
    *out = (stk__diff){.options = *options, .step_change = NAN, .rule_change = NAN};
    out->step_verdict = STK__DIFF_NO_TEST;
    out->step_test.p = NAN;
    describe(before, &out->before);
    describe(after, &out->after);
    comparison c = {.d = out, .sides = {{.t = before}, {.t = after}}};
    const stk_status status = compare(&c, err);
    out->label_bytes = c.keys.bytes; /* the labels of the rows live in it */
    c.keys.bytes = NULL;
    stk__diff_keys_clear(&c.keys);
    clear_side_of(&c.sides[0]);
    clear_side_of(&c.sides[1]);
    if (status != STK_OK)
        stk__diff_clear(out);
    return status;
}

void stk__diff_clear(stk__diff *d)
{
    for (size_t i = 0; i < d->stack_count; i++)
        stk__free(d->stacks[i].path);
    stk__free(d->stacks);
    stk__free(d->rows);
    stk__free(d->label_bytes);
    *d = (stk__diff){0};
}
