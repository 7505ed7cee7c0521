/*
 * Windows over runs, labelled as each design would have had them. Nothing here measures: it takes what ran, and in which
 * order. judge() is the only place that decides on a change.
 */
#include "bench/luck.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "bench/compare.h"
#include "stats/ranks.h"

#include "base/banned.h"

/* As many windows as a share needs at least, and past which more would only take time. */
enum { ENOUGH_WINDOWS = 20, MOST_WINDOWS = 500 };

static const size_t window_sizes[] = {6, 8, 12, 20, 30, 50};

/* Means that differ by more are a change to those who look at nothing else. */
#define MEANS_APART 0.05

#define WANTED_POWER 0.8

const char *stk__luck_rule_name(stk__luck_rule rule)
{
    static const char *const names[] = {"verdict", "mann_whitney", "welch", "means"};
    return (size_t)rule < STK_COUNT(names) ? names[rule] : "";
}

void stk__luck_clear(stk__luck *l)
{
    for (size_t i = 0; i < l->series_count; i++) {
        stk__free(l->series[i].values);
        stk__free(l->series[i].sides);
    }
    stk__free(l->series);
    *l = (stk__luck){0};
}

stk_status stk__luck_add_effect(stk__luck *l, double more, bool scaled, stk_error *err)
{
    if (l->effect_count == STK__LUCK_EFFECTS)
        return stk_error_set(err, STK_INVALID, "more than %d commands to compare with", STK__LUCK_EFFECTS - 1);
    l->effects[l->effect_count++] = (stk__luck_effect){.more = more, .scaled = scaled, .truth = NAN};
    return STK_OK;
}

stk_status stk__luck_begin(stk__luck *l, stk__luck_kind kind, size_t effect, stk_error *err)
{
    if (!stk__grow((void **)&l->series, &l->series_capacity, l->series_count + 1, sizeof *l->series))
        return stk__nomem(l->series_count * sizeof *l->series, err);
    l->series[l->series_count++] = (stk__luck_series){.kind = kind, .effect = effect};
    return STK_OK;
}

static stk_status grow(stk__luck_series *s, stk_error *err)
{
    const size_t capacity = s->capacity ? 2 * s->capacity : 256;
    double *values = stk__realloc(s->values, capacity * sizeof *values);
    if (!values)
        return stk__nomem(capacity * sizeof *values, err);
    s->values = values;
    uint8_t *sides = stk__realloc(s->sides, capacity * sizeof *sides);
    if (!sides)
        return stk__nomem(capacity * sizeof *sides, err);
    s->sides = sides;
    s->capacity = capacity;
    return STK_OK;
}

stk_status stk__luck_add(stk__luck *l, bool b, double value, stk_error *err)
{
    stk__luck_series *s = &l->series[l->series_count - 1];
    /* The ratio of two values within these bounds is a number. */
    if (!(value > 1e-100 && value < 1e100))
        return stk_error_set(err, STK_INVALID, "run %zu: %s took %g s, wanted a time above 0", s->count + 1,
                             b ? "B" : "A", value);
    if (s->count == s->capacity)
        STK_TRY(grow(s, err));
    s->values[s->count] = value;
    s->sides[s->count++] = b;
    return STK_OK;
}

size_t stk__luck_rounds(const stk__luck *l)
{
    size_t sum = 0;
    for (size_t i = 0; i < l->series_count; i++)
        sum += l->series[i].kind == STK__LUCK_SAME ? l->series[i].count / 2 : 0;
    return sum;
}

/* ---- one window ---- */

typedef struct judgement {
    bool called[STK__LUCK_RULES], slower[STK__LUCK_RULES];
    double ratio, low, high;
} judgement;

static double mean_of(const double *values, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum / (double)n;
}

/*
 * As stk__compare judges the only comparison of a set: rounds, and two heaps of runs. Not by it, since it also plans how
 * many rounds more would tell, which takes a hundred times as long as all else.
 */
static stk_status judge(const double *a, const double *b, size_t n, bool paired, double confidence, uint64_t seed,
                        judgement *out, stk_error *err)
{
    const stk__rule rule = {.confidence = confidence};
    const double alpha = 1 - confidence, means = mean_of(b, n) / mean_of(a, n);
    if (paired) {
        stk__paired p;
        STK_TRY(stk__paired_test(a, b, n, stk__rule_confidence(&rule, 1), seed, &p, err));
        const stk__evidence e = {p.ratio, p.low, p.high, p.covered, p.p / STK__RANK_SHARE, p.rest, p.means};
        const stk__verdict verdict = stk__decide(&rule, &e);
        *out = (judgement){.ratio = p.ratio, .low = p.low, .high = p.high};
        out->slower[STK__LUCK_VERDICT] = stk__verdict_worse(verdict);
        out->called[STK__LUCK_VERDICT] = stk__verdict_worse(verdict) || stk__verdict_better(verdict);
    } else {
        stk__unpaired u;
        STK_TRY(stk__unpaired_test(a, n, b, n, stk__rule_confidence(&rule, 1), &u, err));
        *out = (judgement){.ratio = means, .low = u.low, .high = u.high};
        out->called[STK__LUCK_MANN_WHITNEY] = u.p_mann_whitney < alpha;
        out->slower[STK__LUCK_MANN_WHITNEY] = u.ratio > 1;
        out->called[STK__LUCK_WELCH] = u.p_welch < alpha;
        out->slower[STK__LUCK_WELCH] = out->slower[STK__LUCK_MEANS] = means > 1;
        out->called[STK__LUCK_MEANS] = fmax(means, 1 / means) > 1 + MEANS_APART;
    }
    return STK_OK;
}

/* ---- which runs a window has ---- */

/* Room for the samples of a window, and where windows begin. */
typedef struct workbench {
    const stk__luck *l;
    double confidence;
    uint64_t seed;
    double *a, *b;  /* of the window at hand */
    double *errors; /* of the windows so far */
    double *needed; /* in turns: what B must count longer for the interval of each to exclude 1 */
    size_t *starts; /* of the windows of the series at hand */
} workbench;

/* How many windows of n rounds begin `stride` rounds from each other in a series of so many. */
static size_t windows_of(size_t rounds, size_t n, size_t stride)
{
    return rounds < n ? 0 : (rounds - n) / stride + 1;
}

static size_t windows_in_all(const stk__luck *l, stk__luck_kind kind, size_t effect, size_t n, size_t stride)
{
    size_t sum = 0;
    for (size_t i = 0; i < l->series_count; i++) {
        const stk__luck_series *s = &l->series[i];
        sum += s->kind == kind && s->effect == effect ? windows_of(s->count / 2, n, stride) : 0;
    }
    return sum;
}

/* Windows that share more than three quarters of their runs would tell the same thing again. */
static size_t least_stride(size_t n)
{
    return (n + 3) / 4;
}

static size_t choose_stride(const stk__luck *l, stk__luck_kind kind, size_t effect, size_t n)
{
    size_t stride = n;
    while (stride > least_stride(n) && windows_in_all(l, kind, effect, n, stride) < ENOUGH_WINDOWS)
        stride--;
    while (windows_in_all(l, kind, effect, n, stride) > MOST_WINDOWS)
        stride += n;
    return stride;
}

/* The largest four sizes with enough windows, else the smallest; in ascending order from the one returned. */
static size_t choose_first_size(const stk__luck *l)
{
    size_t first = STK_COUNT(window_sizes) - STK__LUCK_SIZES;
    while (first > 0) {
        const size_t n = window_sizes[first + STK__LUCK_SIZES - 1];
        if (windows_in_all(l, STK__LUCK_SAME, 0, n, least_stride(n)) >= ENOUGH_WINDOWS)
            break;
        first--;
    }
    return first;
}

/* Rounds from `from` on, each with the side that it had. */
static void take_turns(workbench *t, const stk__luck_series *s, size_t from, size_t n, double factor)
{
    for (size_t i = 0; i < n; i++) {
        const double *round = s->values + 2 * (from + i);
        const bool swapped = s->sides[2 * (from + i)];
        t->a[i] = round[swapped];
        t->b[i] = round[!swapped] * factor;
    }
}

/* n runs before run number `at`, and n from there on; B is what `b_first` says. */
static void take_order(workbench *t, const stk__luck_series *s, size_t at, size_t n, bool b_first, double factor)
{
    const double *first = s->values + at - n, *second = s->values + at;
    for (size_t i = 0; i < n; i++) {
        t->a[i] = b_first ? second[i] : first[i];
        t->b[i] = (b_first ? first[i] : second[i]) * factor;
    }
}

/* Where one command ends and the other begins, with n runs of each around it. */
static size_t find_changes(const stk__luck_series *s, size_t n, size_t *starts)
{
    size_t count = 0, run = 1;
    for (size_t i = 1; i < s->count; i++) {
        const bool change = s->sides[i] != s->sides[i - 1];
        if (change && run >= n) {
            size_t after = 1;
            while (i + after < s->count && after < n && s->sides[i + after] == s->sides[i])
                after++;
            if (after >= n)
                starts[count++] = i;
        }
        run = change ? 1 : run + 1;
    }
    return count;
}

/* ---- shares ---- */

static void count_in(const judgement *j, double truth, bool equals, stk__luck_shares *shares, double *errors)
{
    for (size_t k = 0; k < STK__LUCK_RULES; k++) {
        shares->rules[k].called += j->called[k];
        shares->rules[k].right += !equals && j->called[k] && j->slower[k] == (truth > 1);
    }
    shares->covered += j->low <= truth && truth <= j->high;
    errors[shares->windows++] = fabs(j->ratio / truth - 1);
}

static void shares_finish(stk__luck_shares *s, bool turns, bool equals, double *errors)
{
    const double n = s->windows ? (double)s->windows : NAN;
    for (size_t k = 0; k < STK__LUCK_RULES; k++) {
        const bool known = (k == STK__LUCK_VERDICT) == turns;
        s->rules[k].called = known ? s->rules[k].called / n : NAN;
        s->rules[k].right = known && !equals ? s->rules[k].right / n : NAN;
    }
    s->covered /= n;
    s->error = s->windows ? stk__median_double(errors, s->windows) : NAN;
}

static stk_status window_turns(workbench *t, const stk__luck_effect *e, const stk__luck_series *s, size_t from,
                               size_t n, stk__luck_shares *out, stk_error *err)
{
    judgement j;
    take_turns(t, s, from, n, e->scaled ? e->truth : 1);
    STK_TRY(judge(t->a, t->b, n, true, t->confidence, stk__mix(t->seed, from), &j, err));
    t->needed[out->windows] = 1 / j.low;
    count_in(&j, e->truth, e->more == 0, out, t->errors);
    return STK_OK;
}

static stk_status window_order(workbench *t, const stk__luck_effect *e, const stk__luck_series *s, size_t at, size_t n,
                               bool b_first, stk__luck_shares *out, stk_error *err)
{
    judgement j;
    take_order(t, s, at, n, b_first, e->scaled ? e->truth : 1);
    STK_TRY(judge(t->a, t->b, n, false, t->confidence, t->seed, &j, err));
    count_in(&j, e->truth, e->more == 0, out, t->errors);
    return STK_OK;
}

/* Windows of rounds: of B that ran in turns, or of one command whose runs are labelled. The latter also for the order. */
static stk_status by_rounds(workbench *t, size_t effect, size_t n, bool turns, stk__luck_shares *out, stk_error *err)
{
    const stk__luck_effect *e = &t->l->effects[effect];
    const bool labelled = effect == 0 || e->scaled;
    const stk__luck_kind kind = labelled ? STK__LUCK_SAME : STK__LUCK_TURNS;
    const size_t of = labelled ? 0 : effect, stride = choose_stride(t->l, kind, of, n);
    out->stride = stride;
    for (size_t i = 0; i < t->l->series_count; i++) {
        const stk__luck_series *s = &t->l->series[i];
        if (s->kind != kind || s->effect != of)
            continue;
        const size_t windows = windows_of(s->count / 2, n, stride);
        for (size_t k = 0; k < windows; k++) {
            const size_t from = k * stride;
            /* People name the new command second, or first: each by turns, so that a drift has no side. */
            STK_TRY(turns ? window_turns(t, e, s, from, n, out, err)
                          : window_order(t, e, s, 2 * from + n, n, k % 2, out, err));
        }
        out->apart += STK_MIN(windows, windows_of(s->count / 2, n, n));
    }
    shares_finish(out, turns, e->more == 0, t->errors);
    return STK_OK;
}

/* Windows around each change from one command to the other; neighbours may share the runs between them. */
static stk_status by_changes(workbench *t, size_t effect, stk__luck_kind kind, size_t n, stk__luck_shares *out,
                             stk_error *err)
{
    const stk__luck_effect *e = &t->l->effects[effect];
    for (size_t i = 0; i < t->l->series_count; i++) {
        const stk__luck_series *s = &t->l->series[i];
        if (s->kind != kind || s->effect != effect)
            continue;
        const size_t count = find_changes(s, n, t->starts);
        for (size_t k = 0, end = 0; k < count; k++) {
            const size_t at = t->starts[k];
            STK_TRY(window_order(t, e, s, at, n, s->sides[at - 1], out, err));
            if (at - n >= end) {
                out->apart++;
                end = at + n;
            }
        }
    }
    shares_finish(out, false, e->more == 0, t->errors);
    return STK_OK;
}

/* ---- all of it ---- */

/* What the two programs really differ by, from all rounds in which they took turns. */
static stk_status find_truth(workbench *t, size_t effect, stk__luck_effect *e, stk_error *err)
{
    e->truth = 1 + e->more;
    e->truth_rounds = 0;
    if (effect == 0 || e->scaled)
        return STK_OK;
    size_t n = 0;
    for (size_t i = 0; i < t->l->series_count; i++) {
        const stk__luck_series *s = &t->l->series[i];
        for (size_t k = 0; k < s->count / 2 && s->kind == STK__LUCK_TURNS && s->effect == effect; k++) {
            const bool swapped = s->sides[2 * k];
            t->a[n] = s->values[2 * k + swapped];
            t->b[n++] = s->values[2 * k + !swapped];
        }
    }
    judgement j = {.ratio = NAN};
    if (n)
        STK_TRY(judge(t->a, t->b, n, true, t->confidence, t->seed, &j, err));
    e->truth = j.ratio;
    e->truth_rounds = n;
    return STK_OK;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/*
 * Times of B that count longer by a factor move ratio and interval by the same factor, so each window of A against
 * itself tells from which factor on it is found. Real runs know better than a formula for normal ones: a machine has
 * quiet and busy hours.
 */
static double detectable_of(const workbench *t, size_t windows)
{
    if (!windows)
        return NAN;
    qsort(t->needed, windows, sizeof *t->needed, compare_doubles);
    return fmax(0, t->needed[(size_t)ceil(WANTED_POWER * (double)windows) - 1] - 1);
}

static stk_status judge_effect(workbench *t, size_t effect, stk__luck_effect *e, stk_error *err)
{
    const size_t first = choose_first_size(t->l);
    STK_TRY(find_truth(t, effect, e, err));
    e->row_count = 0;
    for (size_t i = 0; i < STK__LUCK_SIZES; i++) {
        stk__luck_row row = {.n = window_sizes[first + i]};
        STK_TRY(by_rounds(t, effect, row.n, true, &row.turns, err));
        row.detectable = effect == 0 ? detectable_of(t, row.turns.windows) : NAN;
        if (effect == 0 || e->scaled)
            STK_TRY(by_rounds(t, effect, row.n, false, &row.order, err));
        else
            STK_TRY(by_changes(t, effect, STK__LUCK_ORDER, row.n, &row.order, err));
        STK_TRY(by_changes(t, effect, STK__LUCK_HYPERFINE, row.n, &row.hyperfine, err));
        if (row.turns.windows || row.order.windows || row.hyperfine.windows)
            e->rows[e->row_count++] = row;
    }
    return STK_OK;
}

static stk_status judge_all(workbench *t, stk__luck *l, stk_error *err)
{
    for (size_t i = 0; i < l->effect_count; i++)
        STK_TRY(judge_effect(t, i, &l->effects[i], err));
    return STK_OK;
}

stk_status stk__luck_judge(stk__luck *l, double confidence, uint64_t seed, stk_error *err)
{
    if (stk__luck_rounds(l) < STK__LEAST_ROUNDS)
        return stk_error_set(err, STK_INVALID, "found %zu rounds of one command, wanted at least %d",
                             stk__luck_rounds(l), STK__LEAST_ROUNDS);
    if (!(confidence > 0 && confidence < 1))
        return stk_error_set(err, STK_INVALID, "found a confidence of %g, wanted one between 0 and 1", confidence);
    size_t runs = 0;
    for (size_t i = 0; i < l->series_count; i++)
        runs += l->series[i].count;
    workbench t = {.l = l, .confidence = confidence, .seed = seed};
    t.a = stk__calloc(runs, sizeof *t.a);
    t.b = stk__calloc(runs, sizeof *t.b);
    t.errors = stk__calloc(runs, sizeof *t.errors);
    t.needed = stk__calloc(runs, sizeof *t.needed);
    t.starts = stk__calloc(runs, sizeof *t.starts);
    const bool got = t.a && t.b && t.errors && t.needed && t.starts;
    const stk_status status = got ? judge_all(&t, l, err) : stk__nomem(runs * sizeof *t.a, err);
    stk__free(t.a);
    stk__free(t.b);
    stk__free(t.errors);
    stk__free(t.needed);
    stk__free(t.starts);
    return status;
}

void stk__luck_interval(double share, size_t n, double *out_low, double *out_high)
{
    *out_low = 0;
    *out_high = 1;
    if (!n || !isfinite(share))
        return;
    const double z = 1.959963984540054, count = (double)n, zz = z * z / count;
    const double middle = (share + zz / 2) / (1 + zz);
    const double half = z / (1 + zz) * sqrt(share * (1 - share) / count + zz / (4 * count));
    *out_low = fmax(0, middle - half);
    *out_high = fmin(1, middle + half);
}
