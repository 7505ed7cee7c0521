/*
 * Clock estimates. Names of collectives repeat hundreds of times, events are missing here and there, and clocks drift,
 * so the n-th one here need not be the n-th one there. Rough shifts are tried (other sources first, then lags in the
 * sequence); from the middle of the trace each is followed in both directions from event to event, which lets the
 * offset drift; the one under which most events meet most closely wins.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/diff_impl.h"
#include "analyze/merge_align.h"
#include "stats/ranks.h"
#include "base/mem.h"

#include "base/banned.h"

#define MAX_DRIFT 1e-3    /* clocks are better than that, by far */
#define TRIAL_EVENTS 1024 /* to each side of the middle, when a rough shift is tried */
#define LAGS 8            /* around the two plain ways to count: from the first event and from the last */
#define TRIAL_KINDS 2
#define LEAST_DRIFT_EVENTS 16
#define FLOOR_NS 100 /* scatter below this tells nothing */
#define LOOSE 0.15   /* scatter past this part of the distance between events is no agreement */

/* An event seen by both: when (by b's clock), and a's time minus b's, as the distance from a base. */
typedef struct pair {
    int64_t at;
    double diff;
} pair;

typedef struct pairs {
    pair *rows;
    size_t count, capacity;
    double *scratch; /* as many */
    int64_t base;
    bool failed;
} pairs;

typedef struct line {
    int64_t origin;
    double offset, slope; /* diff = offset + slope * (at - origin) */
    double spread;
    bool drifts;
} line;

static int compare_events(const void *a, const void *b)
{
    const stk__sync_event *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

void stk__sync_events_sort(stk__sync_events *e)
{
    if (e->count > 1)
        qsort(e->rows, e->count, sizeof *e->rows, compare_events);
}

static void pairs_clear(pairs *p)
{
    stk__free(p->rows);
    stk__free(p->scratch);
    *p = (pairs){0};
}

static bool pairs_reserve(pairs *p, size_t count)
{
    if (count <= p->capacity || p->failed)
        return !p->failed;
    stk__free(p->scratch);
    p->scratch = NULL;
    if (stk__grow((void **)&p->rows, &p->capacity, count, sizeof *p->rows))
        p->scratch = stk__calloc(p->capacity, sizeof *p->scratch);
    p->failed = !p->scratch;
    return !p->failed;
}

static int compare_pairs(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static double at_from(const line *l, const pair *p)
{
    return (double)stk__saturating_sub(p->at, l->origin);
}

static double residual(const line *l, const pair *p)
{
    return p->diff - l->offset - l->slope * at_from(l, p);
}

static double spread_around(pairs *p, const line *l)
{
    for (size_t i = 0; i < p->count; i++)
        p->scratch[i] = fabs(residual(l, &p->rows[i]));
    return 1.4826022185056018 * stk__median_double(p->scratch, p->count);
}

static double median_offset(pairs *p, const line *l)
{
    for (size_t i = 0; i < p->count; i++)
        p->scratch[i] = p->rows[i].diff - l->slope * at_from(l, &p->rows[i]);
    return stk__median_double(p->scratch, p->count);
}

/* Slopes between each event and the one half the trace later: their median bears a quarter of bad events. */
static double median_slope(pairs *p, const line *l)
{
    const size_t half = p->count / 2;
    size_t count = 0;
    for (size_t i = 0; i + half < p->count; i++) {
        const double apart = at_from(l, &p->rows[i + half]) - at_from(l, &p->rows[i]);
        if (apart > 0)
            p->scratch[count++] = (p->rows[i + half].diff - p->rows[i].diff) / apart;
    }
    return count ? stk__median_double(p->scratch, count) : 0;
}

/* Least squares over what lies near the line. */
static void refine(const pairs *p, line *l)
{
    const double near = 4 * fmax(l->spread, 1);
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < p->count; i++) {
        const double r = residual(l, &p->rows[i]), at = at_from(l, &p->rows[i]) * 1e-9;
        if (fabs(r) > near)
            continue;
        n += 1;
        x += at;
        y += r;
        xx += at * at;
        xy += at * r;
    }
    const double denominator = n * xx - x * x;
    if (n >= 3 && denominator > 0)
        l->slope += (n * xy - x * y) / denominator * 1e-9;
}

/* The pairs in order of time. A slope is taken only where it halves the scatter. */
static line fit_line(pairs *p, double floor_ns)
{
    line flat = {.origin = p->rows[p->count / 2].at};
    flat.offset = median_offset(p, &flat);
    flat.spread = spread_around(p, &flat);
    if (p->count < LEAST_DRIFT_EVENTS)
        return flat;
    line sloped = {.origin = flat.origin, .drifts = true};
    sloped.slope = median_slope(p, &sloped);
    for (int i = 0; i < 2; i++) {
        sloped.offset = median_offset(p, &sloped);
        sloped.spread = spread_around(p, &sloped);
        if (!i)
            refine(p, &sloped);
    }
    sloped.offset = median_offset(p, &sloped);
    const bool better = flat.spread > floor_ns && sloped.spread < flat.spread / 2;
    return better && fabs(sloped.slope) < MAX_DRIFT ? sloped : flat;
}

/* ---- following a shift from event to event ---- */

/* The events of one kind in both files. */
typedef struct kind_run {
    const stk__sync_event *a, *b;
    size_t na, nb;
} kind_run;

static double distance(int64_t a, int64_t b, double shift, int64_t base)
{
    return (double)stk__saturating_sub(stk__saturating_sub(a, b), base) - shift;
}

/* First event of a at or after `at`. */
static size_t lower_bound(const stk__sync_event *rows, size_t count, int64_t at)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rows[middle].at < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Moves `i` to the event of a that is nearest to event j of b, from a place nearby; past events at the same time. */
static size_t nearest(const kind_run *k, size_t i, size_t j, double shift, int64_t base)
{
    double off = distance(k->a[i].at, k->b[j].at, shift, base);
    while (off < 0 && i + 1 < k->na) {
        const double next = distance(k->a[i + 1].at, k->b[j].at, shift, base);
        if (fabs(next) > -off)
            break;
        off = next;
        i++;
    }
    while (off > 0 && i > 0) {
        const double next = distance(k->a[i - 1].at, k->b[j].at, shift, base);
        if (fabs(next) > off)
            break;
        off = next;
        i--;
    }
    return i;
}

static bool is_mutual(const kind_run *k, size_t i, size_t j, double shift, int64_t base)
{
    const double own = fabs(distance(k->a[i].at, k->b[j].at, shift, base));
    return (j == 0 || fabs(distance(k->a[i].at, k->b[j - 1].at, shift, base)) >= own) &&
           (j + 1 >= k->nb || fabs(distance(k->a[i].at, k->b[j + 1].at, shift, base)) >= own);
}

/* Half the distance to the neighbours of event i: what is further away is another event. */
static double reach(const kind_run *k, size_t i)
{
    double least = INFINITY;
    if (i > 0)
        least = fmin(least, (double)stk__saturating_sub(k->a[i].at, k->a[i - 1].at));
    if (i + 1 < k->na)
        least = fmin(least, (double)stk__saturating_sub(k->a[i + 1].at, k->a[i].at));
    return least / 2;
}

/* One direction from event `start` of b; the offset follows what it sees, slowly enough to survive a wrong pair. */
static void follow(const kind_run *k, size_t start, int direction, size_t limit, pairs *p)
{
    double shift = 0;
    const int64_t where = stk__saturating_add(k->b[start].at, p->base);
    size_t i = STK_MIN(lower_bound(k->a, k->na, where), k->na - 1);
    size_t j = start;
    for (size_t n = 0; n < limit; n++) {
        i = nearest(k, i, j, shift, p->base);
        const double off = distance(k->a[i].at, k->b[j].at, shift, p->base);
        /* Ends of the other file: there is nothing to meet beyond them. */
        if (is_mutual(k, i, j, shift, p->base) && fabs(off) <= reach(k, i)) {
            if (direction > 0 || j != start)
                p->rows[p->count++] = (pair){k->b[j].at, shift + off};
            shift += 0.2 * off;
        }
        if (direction > 0 ? j + 1 >= k->nb : j == 0)
            break;
        j = direction > 0 ? j + 1 : j - 1;
    }
}

static bool follow_kind(const kind_run *k, size_t limit, pairs *p)
{
    if (!pairs_reserve(p, p->count + k->nb + 1))
        return false;
    follow(k, k->nb / 2, -1, limit, p);
    follow(k, k->nb / 2, 1, limit, p);
    return true;
}

/* ---- rough shifts ---- */

typedef struct trial {
    int64_t base;
    double spread, coverage;
    int64_t shift; /* after the fit, at the middle */
} trial;

static double typical_gap(const kind_run *k, pairs *p)
{
    if (k->na < 2 || !pairs_reserve(p, k->na))
        return INFINITY;
    for (size_t i = 0; i + 1 < k->na; i++)
        p->scratch[i] = (double)stk__saturating_sub(k->a[i + 1].at, k->a[i].at);
    return stk__median_double(p->scratch, k->na - 1);
}

static trial try_shift(const kind_run *kinds, size_t count, int64_t base, double floor_ns, pairs *p)
{
    trial t = {.base = base, .spread = INFINITY, .shift = base};
    for (size_t k = 0; k < count && !p->failed; k++) {
        p->count = 0;
        p->base = base;
        const size_t limit = TRIAL_EVENTS;
        if (!follow_kind(&kinds[k], limit, p) || !p->count)
            continue;
        qsort(p->rows, p->count, sizeof *p->rows, compare_pairs);
        const line l = fit_line(p, floor_ns);
        const double possible = (double)STK_MIN(STK_MIN(kinds[k].na, kinds[k].nb), 2 * limit);
        t.coverage += fmin(1, (double)p->count / possible) / (double)count;
        if (l.spread < t.spread) {
            t.spread = l.spread;
            t.shift = stk__saturating_add(base, (int64_t)fmax(-9e18, fmin(9e18, l.offset)));
        }
    }
    t.spread = fmax(t.spread, floor_ns);
    return t;
}

/* Earlier trials come from better sources, so a later one must be clearly better. */
static bool beats(const trial *t, const trial *best)
{
    if (t->spread < best->spread / 2 && t->coverage >= 0.8 * best->coverage)
        return true;
    return t->coverage > 1.1 * best->coverage + 0.01 && t->spread <= 2 * best->spread;
}

static bool as_good(const trial *t, const trial *best)
{
    return t->spread <= 2 * best->spread && t->coverage >= 0.9 * best->coverage;
}

/* Shift by which event j of b meets event j + lag of a, as the median over the trace. */
static bool lag_shift(const kind_run *k, int64_t lag, pairs *p, int64_t *out)
{
    const int64_t first = lag < 0 ? -lag : 0;
    const int64_t end = STK_MIN((int64_t)k->nb, (int64_t)k->na - lag);
    if (end <= first || !pairs_reserve(p, 2 * TRIAL_EVENTS + 1))
        return false;
    const int64_t stride = (end - first) / (2 * TRIAL_EVENTS) + 1;
    const int64_t base = stk__saturating_sub(k->a[first + lag].at, k->b[first].at);
    size_t count = 0;
    for (int64_t j = first; j < end; j += stride)
        p->scratch[count++] = (double)stk__saturating_sub(stk__saturating_sub(k->a[j + lag].at, k->b[j].at), base);
    *out = stk__saturating_add(base, (int64_t)fmax(-9e18, fmin(9e18, stk__median_double(p->scratch, count))));
    return true;
}

typedef struct search {
    const kind_run *kinds;
    size_t kind_count;
    double floor_ns;
    pairs *p;
    trial best;
    bool any;
    trial tried[TRIAL_KINDS * 4 * (2 * LAGS + 1) + 8];
    size_t tried_count;
} search;

static void consider(search *s, int64_t base)
{
    const trial t = try_shift(s->kinds, s->kind_count, base, s->floor_ns, s->p);
    if (s->tried_count < STK_COUNT(s->tried))
        s->tried[s->tried_count++] = t;
    if (t.coverage > 0 && (!s->any || beats(&t, &s->best))) {
        s->best = t;
        s->any = true;
    }
}

static void consider_lags(search *s, const kind_run *k)
{
    const int64_t ends[2] = {0, (int64_t)k->na - (int64_t)k->nb};
    for (int e = 0; e < (ends[1] ? 2 : 1); e++) {
        for (int64_t n = 0; n <= 2 * LAGS; n++) {
            const int64_t lag = ends[e] + (n % 2 ? (n + 1) / 2 : -(n / 2));
            int64_t base;
            if (lag_shift(k, lag, s->p, &base))
                consider(s, base);
        }
    }
}

static double apart(int64_t a, int64_t b)
{
    return fabs((double)stk__saturating_sub(a, b));
}

/* Is there a shift, half a gap or more away, that does as well, and no other source that speaks for the best one? */
static void find_rival(const search *s, const int64_t *guesses, size_t guess_count, double gap, stk__clock_fit *out)
{
    for (size_t i = 0; i < guess_count; i++) {
        if (apart(guesses[i], s->best.shift) < gap / 2)
            return;
    }
    for (size_t i = 0; i < s->tried_count && !out->ambiguous; i++) {
        const trial *t = &s->tried[i];
        out->ambiguous = t->coverage > 0 && apart(t->shift, s->best.shift) > gap / 2 && as_good(t, &s->best);
        out->other_shift_ns = t->shift;
    }
}

/* ---- kinds ---- */

/* The kinds that both have; most events first. *out is NULL when there are none. */
static size_t common_kinds(const stk__sync_events *a, const stk__sync_events *b, kind_run **out, bool *nomem)
{
    kind_run *kinds = NULL;
    size_t count = 0, capacity = 0, i = 0, j = 0;
    while (i < a->count && j < b->count) {
        const uint64_t x = a->rows[i].kind, y = b->rows[j].kind;
        size_t i_end = i, j_end = j;
        while (x <= y && i_end < a->count && a->rows[i_end].kind == x)
            i_end++;
        while (y <= x && j_end < b->count && b->rows[j_end].kind == y)
            j_end++;
        if (x == y) {
            if (!stk__grow((void **)&kinds, &capacity, count + 1, sizeof *kinds)) {
                *nomem = true;
                break;
            }
            kinds[count++] = (kind_run){&a->rows[i], &b->rows[j], i_end - i, j_end - j};
        }
        i = i_end;
        j = j_end;
    }
    *out = kinds;
    return count;
}

static int compare_kinds(const void *a, const void *b)
{
    const kind_run *x = a, *y = b;
    const size_t nx = STK_MIN(x->na, x->nb), ny = STK_MIN(y->na, y->nb);
    return nx != ny ? (nx > ny ? -1 : 1) : (x->a->kind > y->a->kind) - (x->a->kind < y->a->kind);
}

/* ---- the final estimate ---- */

/* Numbers from the line and the pairs near it. */
static void conclude(const pairs *p, const line *l, int64_t resolution_ns, stk__clock_fit *out)
{
    const double near = fmax(4 * l->spread, FLOOR_NS);
    double low = 0, high = 0;
    out->matched = 0;
    for (size_t i = 0; i < p->count; i++) {
        const double r = residual(l, &p->rows[i]);
        if (fabs(r) > near)
            continue;
        out->matched++;
        low = fmin(low, r);
        high = fmax(high, r);
    }
    const double offset = fmax(-9e18, fmin(9e18, round(l->offset)));
    out->retime = (stk__retime){.shift_ns = stk__saturating_add(p->base, (int64_t)offset),
                                .origin_ns = l->origin,
                                .drift = l->drifts ? l->slope : 0};
    out->low_ns = (int64_t)low;
    out->high_ns = (int64_t)high;
    out->error_ns = stk__saturating_add((int64_t)ceil(fmin(3 * l->spread, 9e18)), resolution_ns);
}

/* With one or two events there is no scatter to measure; all ranks are inside a collective at once, which bounds it. */
static int64_t bound_of_few(const kind_run *kinds, size_t count)
{
    int64_t longest = 0;
    for (size_t k = 0; k < count; k++) {
        for (size_t i = 0; i < kinds[k].na; i++)
            longest = STK_MAX(longest, kinds[k].a[i].dur);
        for (size_t i = 0; i < kinds[k].nb; i++)
            longest = STK_MAX(longest, kinds[k].b[i].dur);
    }
    return longest;
}

/* How closely the events of each kind meet: INFINITY where they do not, or not better than by chance. */
static bool measure_kinds(const kind_run *kinds, size_t count, int64_t base, double floor_ns, double *spreads, pairs *p,
                          double *out_least)
{
    bool judged = false;
    *out_least = INFINITY;
    for (size_t k = 0; k < count; k++) {
        p->count = 0;
        p->base = base;
        spreads[k] = INFINITY;
        if (!follow_kind(&kinds[k], SIZE_MAX, p))
            return false;
        if (!p->count)
            continue;
        qsort(p->rows, p->count, sizeof *p->rows, compare_pairs);
        spreads[k] = fmax(floor_ns, fit_line(p, floor_ns).spread);
        if (p->count < 3)
            continue; /* too few to be judged by */
        judged = true;
        if (spreads[k] > fmax(floor_ns, LOOSE * typical_gap(&kinds[k], p)))
            spreads[k] = INFINITY;
        *out_least = fmin(*out_least, spreads[k]);
    }
    if (!judged)
        *out_least = 1e18;
    return !p->failed && !isinf(*out_least);
}

/*
 * All pairs of the kinds that meet most closely. Launches on the host carry names of collectives too, but end when they
 * like.
 */
static bool gather(const kind_run *kinds, size_t count, int64_t base, double floor_ns, pairs *p, size_t *out_shared)
{
    double least, *spreads = stk__calloc(count, sizeof *spreads);
    p->failed |= !spreads;
    bool ok = spreads && measure_kinds(kinds, count, base, floor_ns, spreads, p, &least);
    p->count = 0;
    p->base = base;
    for (size_t k = 0; ok && k < count; k++) {
        if (spreads[k] > 3 * least)
            continue;
        *out_shared += STK_MIN(kinds[k].na, kinds[k].nb);
        ok = follow_kind(&kinds[k], SIZE_MAX, p);
    }
    stk__free(spreads);
    if (ok && p->count)
        qsort(p->rows, p->count, sizeof *p->rows, compare_pairs);
    return ok && p->count;
}

typedef struct guess_list {
    const int64_t *rows;
    size_t count;
} guess_list;

/* The shift under which the events meet best. */
static bool find_shift(const kind_run *kinds, size_t count, double floor_ns, guess_list guesses, pairs *p,
                       int64_t *out_base, stk__clock_fit *out)
{
    search *s = stk__calloc(1, sizeof *s);
    p->failed |= !s;
    if (!s)
        return false;
    *s = (search){.kinds = kinds, .kind_count = STK_MIN(count, (size_t)TRIAL_KINDS), .floor_ns = floor_ns, .p = p};
    for (size_t i = 0; i < guesses.count; i++)
        consider(s, guesses.rows[i]);
    for (size_t k = 0; k < s->kind_count; k++)
        consider_lags(s, &kinds[k]);
    const bool any = s->any && !p->failed;
    if (any)
        find_rival(s, guesses.rows, guesses.count, typical_gap(&kinds[0], p), out);
    *out_base = s->best.shift;
    stk__free(s);
    return any;
}

static bool fit_kinds(const kind_run *kinds, size_t count, int64_t resolution_ns, guess_list guesses, pairs *p,
                      stk__clock_fit *out)
{
    const double floor_ns = (double)STK_MAX(resolution_ns, (int64_t)FLOOR_NS);
    int64_t base;
    size_t shared = 0;
    if (!find_shift(kinds, count, floor_ns, guesses, p, &base, out) ||
        !gather(kinds, count, base, floor_ns, p, &shared))
        return false;
    const line l = fit_line(p, floor_ns);
    out->shared = shared;
    conclude(p, &l, resolution_ns, out);
    if (p->count < 3)
        out->error_ns = STK_MAX(out->error_ns, bound_of_few(kinds, count));
    return true;
}

bool stk__fit_events(const stk__sync_events *a, const stk__sync_events *b, int64_t resolution_ns,
                     const int64_t *guesses, size_t guess_count, stk__clock_fit *out, bool *out_nomem)
{
    *out = (stk__clock_fit){.error_ns = -1};
    kind_run *kinds = NULL;
    bool nomem = false;
    const size_t count = common_kinds(a, b, &kinds, &nomem);
    pairs p = {0};
    bool ok = false;
    if (!nomem && count) {
        qsort(kinds, count, sizeof *kinds, compare_kinds);
        out->shared = STK_MIN(kinds[0].na, kinds[0].nb);
        ok = fit_kinds(kinds, count, resolution_ns, (guess_list){guesses, guess_count}, &p, out);
    }
    *out_nomem |= nomem || p.failed;
    pairs_clear(&p);
    stk__free(kinds);
    return ok && !*out_nomem;
}

bool stk__fit_steps(const stk__sync_step *a, size_t na, const stk__sync_step *b, size_t nb, int64_t resolution_ns,
                    stk__clock_fit *out, bool *out_nomem)
{
    *out = (stk__clock_fit){.error_ns = -1};
    pairs p = {0};
    *out_nomem |= !pairs_reserve(&p, STK_MIN(na, nb) + 1);
    for (size_t i = 0, j = 0; !p.failed && i < na && j < nb;) {
        if (a[i].number != b[j].number) {
            a[i].number < b[j].number ? i++ : j++;
            continue;
        }
        const int64_t diff = stk__saturating_sub(a[i].ts, b[j].ts);
        if (!p.count)
            p.base = diff;
        p.rows[p.count++] = (pair){b[j].ts, (double)stk__saturating_sub(diff, p.base)};
        i++;
        j++;
    }
    out->shared = p.count;
    if (p.count) {
        qsort(p.rows, p.count, sizeof *p.rows, compare_pairs);
        const line l = fit_line(&p, (double)STK_MAX(resolution_ns, (int64_t)FLOOR_NS));
        conclude(&p, &l, resolution_ns, out);
        if (p.count < 3)
            out->error_ns = -1; /* a step may start late on one rank, and nothing tells by how much */
    }
    const bool ok = p.count > 0;
    pairs_clear(&p);
    return ok;
}
