/* Where the time of the steps goes: each instant to the type of event with the highest priority, as XProf does. */
#include <string.h>

#include "analyze/diagnose_impl.h"
#include "base/mem.h"

#include "base/banned.h"

#define BIT(type) (1u << (type))

static const unsigned DEVICE_COMPUTES = BIT(STK__DEVICE_COMPUTE_32) | BIT(STK__DEVICE_COMPUTE_16);
/* Copies to the device are input; while only those run, it computes nothing. */
static const unsigned DEVICE_WORKS = BIT(STK__DEVICE_COMPUTE_32) | BIT(STK__DEVICE_COMPUTE_16) |
                                     BIT(STK__DEVICE_COLLECTIVES) | BIT(STK__DEVICE_TO_DEVICE) |
                                     BIT(STK__DEVICE_TO_HOST);

typedef struct sweep {
    stk__diagnosis *d;
    const stk__classifier *c;
    stk__rank *rank;
    stk__spans spans[STK__EVENT_TYPES];
    int64_t start, end; /* from the first step's start to the last one's end */

    /* steps */
    const stk__step *steps;
    size_t step; /* the first that is not over */
    double step_types[STK__EVENT_TYPES];
    bool computes;
    stk__rank idle; /* sums of the steps in which the device computes nothing */
    size_t first_figure;

    /* idle gaps, longest first */
    stk__idle_gap *gaps;
    size_t gap_count, gap_room;
    int64_t gap_min, idle_since;
    bool is_idle;

    size_t host_at; /* the first span of the host's functions that is not over */
} sweep;

/* ---- spans per type ---- */

/* Slices of a track come by time, so neighbours of one type are joined before they are kept. */
static bool collect_track(sweep *s, uint32_t track)
{
    const stk__trace *t = s->c->trace;
    const stk__trace_track *k = &t->tracks[track];
    stk__span open[STK__EVENT_TYPES];
    unsigned is_open = 0;
    const bool other = stk__track_root(t, track) != s->rank->main_track;
    const bool foreign = s->rank->own_waits_only && other, elsewhere = s->rank->own_hints_only && other;
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++) {
        stk__trim_at(t, i);
        const unsigned type = stk__classify(s->c, i, s->rank->waits);
        if (type >= STK__EVENT_TYPES || (foreign && type == STK__HOST_WAIT_INPUT))
            continue;
        if (elsewhere && type == STK__HOST_WAIT_INPUT && stk__slice_wait(s->c, i) == STK__WAIT_HINT)
            continue;
        const int64_t from = STK_MAX(t->slices.ts[i], s->start);
        const int64_t to = STK_MIN(t->slices.ts[i] + t->slices.dur[i], s->end);
        if (stk__is_device_work(s->c, i))
            s->rank->has_device = true;
        if (from >= to)
            continue;
        if (is_open & BIT(type) && from <= open[type].end) {
            open[type].end = STK_MAX(open[type].end, to);
            continue;
        }
        if (is_open & BIT(type) && !stk__spans_add(&s->spans[type], open[type].start, open[type].end))
            return false;
        open[type] = (stk__span){from, to};
        is_open |= BIT(type);
    }
    for (unsigned type = 0; type < STK__EVENT_TYPES; type++)
        if (is_open & BIT(type) && !stk__spans_add(&s->spans[type], open[type].start, open[type].end))
            return false;
    return true;
}

/* ---- what the host does on its own ---- */

/* Steps in which a slice shows the wait; what lies before a step is its own fetch. */
static size_t steps_with_waits(const sweep *s)
{
    const stk__spans *waits = &s->spans[STK__HOST_WAIT_INPUT];
    int64_t from = s->start;
    size_t with = 0;
    for (size_t i = 0, at = 0; i < s->rank->step_count; i++) {
        const int64_t to = s->steps[i].ts + s->steps[i].dur;
        while (at < waits->count && waits->rows[at].end <= from)
            at++;
        with += at < waits->count && waits->rows[at].start < to;
        from = to;
    }
    return with;
}

static bool collect_host(sweep *s)
{
    stk__rank *r = s->rank;
    stk__spans_normalize(&s->spans[STK__HOST_WAIT_INPUT]);
    r->visible = r->kind == STK__STEP_RECORDER || r->waits_seen & 1u << STK__WAIT_TOLD ||
                 s->spans[STK__DEVICE_WAIT_HOST].count || 2 * steps_with_waits(s) >= r->step_count;
    if (r->main_track == STK__NONE || r->kind == STK__STEP_RECORDER)
        return true;
    bool ok = stk__host_find(s->c, r->main_track, s->steps, r->step_count, &r->host);
    for (size_t i = 0; ok && i < r->host.span_count; i++) {
        const stk__host_span *span = &r->host.spans[i];
        const unsigned type = stk__host_type(&r->host.functions[span->function], !r->visible);
        ok = stk__spans_add(&s->spans[type], span->start, span->end);
    }
    return ok;
}

/* Gives [from, to), in which no device runs, to the functions that the host was in. */
static void give_to_host(sweep *s, int64_t from, int64_t to)
{
    const stk__host *h = &s->rank->host;
    while (s->host_at < h->span_count && h->spans[s->host_at].end <= from)
        s->host_at++;
    for (size_t i = s->host_at; i < h->span_count && h->spans[i].start < to; i++) {
        const int64_t start = STK_MAX(from, h->spans[i].start), end = STK_MIN(to, h->spans[i].end);
        if (start < end)
            h->functions[h->spans[i].function].ns += (double)stk__time_between(start, end);
    }
}

/* ---- steps ---- */

static double step_end_of(const stk__step *step)
{
    return (double)step->ts + (double)step->dur;
}

/* Ends the current step: what no event covers is unknown time, or work where every wait is written down. */
static void step_close(sweep *s)
{
    stk__rank *r = s->rank;
    const stk__step *step = &s->steps[s->step];
    double covered = 0;
    for (int type = 1; type < STK__EVENT_TYPES; type++)
        covered += s->step_types[type];
    const double rest = STK_MAX(0.0, (double)step->dur - covered);
    s->step_types[r->fills ? STK__HOST_COMPUTE : STK__UNKNOWN_TIME] += rest;
    const bool like_xprof = r->kind == STK__STEP_XPROF || r->kind == STK__STEP_DEVICE;
    const bool idle = like_xprof && r->has_device && !s->computes;
    if (step->dur > 0) {
        stk__rank *sums = idle ? &s->idle : r;
        const double input = s->step_types[STK__HOST_WAIT_INPUT] + s->step_types[STK__HOST_TO_DEVICE] +
                             s->step_types[STK__DEVICE_WAIT_HOST];
        for (int type = 0; type < STK__EVENT_TYPES; type++)
            sums->type_ns[type] += s->step_types[type];
        sums->step_ns += (double)step->dur;
        sums->input_ns += input;
        r->idle_steps += idle;
        s->d->figures[s->d->figure_count++] = (stk__step_figures){
            .number = step->number,
            .ts = step->ts,
            .dur = step->dur,
            .rank = (uint32_t)(r - s->d->ranks),
            .input_ns = input,
            .idle = idle,
        };
    } else {
        r->left_out++;
    }
    memset(s->step_types, 0, sizeof s->step_types);
    s->computes = false;
    s->step++;
}

/*
 * XProf leaves steps without device work out. Where that would leave less than half, the device starves, which is what
 * to find out: then all of them count.
 */
static void settle_idle_steps(sweep *s)
{
    stk__rank *r = s->rank;
    stk__diagnosis *d = s->d;
    const size_t all = d->figure_count - s->first_figure;
    if ((all - r->idle_steps) * 2 < all) {
        for (int type = 0; type < STK__EVENT_TYPES; type++)
            r->type_ns[type] += s->idle.type_ns[type];
        r->step_ns += s->idle.step_ns;
        r->input_ns += s->idle.input_ns;
        return;
    }
    size_t kept = s->first_figure;
    for (size_t i = s->first_figure; i < d->figure_count; i++)
        if (!d->figures[i].idle)
            d->figures[kept++] = d->figures[i];
    d->figure_count = kept;
    r->left_out += r->idle_steps;
    r->idle_steps = 0;
}

/* Gives [from, to), in which `active` types run, to the steps that it lies in. */
static void give_to_steps(sweep *s, int64_t from, int64_t to, unsigned winner, unsigned active)
{
    while (from < to) {
        while (s->step < s->rank->step_count && s->steps[s->step].ts + s->steps[s->step].dur <= from)
            step_close(s);
        const stk__step *step = s->step < s->rank->step_count ? &s->steps[s->step] : NULL;
        int64_t until = to;
        if (step && from >= step->ts) {
            until = STK_MIN(to, step->ts + step->dur);
            if (winner)
                s->step_types[winner] += (double)stk__time_between(from, until);
            s->computes = s->computes || active & DEVICE_COMPUTES;
            if (winner <= STK__HOST_WAIT_INPUT)
                give_to_host(s, from, until);
        } else {
            until = step ? STK_MIN(to, step->ts) : to;
            s->rank->between_ns += (double)stk__time_between(from, until);
            if (winner == STK__HOST_WAIT_INPUT)
                s->rank->between_wait_ns += (double)stk__time_between(from, until);
        }
        from = until;
    }
}

/* ---- gaps ---- */

static void gap_offer(sweep *s, int64_t from, int64_t to)
{
    const int64_t dur = stk__time_between(from, to);
    size_t at = s->gap_count;
    if (dur < s->gap_min || dur <= 0 || !s->gap_room)
        return;
    while (at && s->gaps[at - 1].dur < dur)
        at--;
    if (at == s->gap_room)
        return;
    if (s->gap_count == s->gap_room)
        s->gap_count--;
    memmove(&s->gaps[at + 1], &s->gaps[at], (s->gap_count - at) * sizeof *s->gaps);
    s->gaps[at] = (stk__idle_gap){.ts = from, .dur = dur, .step = STK__NO_NUMBER};
    s->gap_count++;
}

static void watch_idle(sweep *s, int64_t at, unsigned winner, unsigned active)
{
    const bool idle = s->rank->has_device
                          ? !(active & DEVICE_WORKS)
                          : winner == STK__HOST_WAIT_INPUT || winner == STK__HOST_PYTHON ||
                                winner == STK__HOST_BETWEEN || (winner == STK__UNKNOWN_TIME && !s->rank->fills);
    if (idle && !s->is_idle)
        s->idle_since = at;
    if (!idle && s->is_idle)
        gap_offer(s, s->idle_since, at);
    s->is_idle = idle;
}

/* ---- the sweep ---- */

/*
 * From boundary to boundary of the spans of all types. Spans are half-open, so of an end and a start at one time the
 * end comes first.
 */
static void run(sweep *s)
{
    size_t at[STK__EVENT_TYPES] = {0};
    int64_t now = s->start;
    while (now < s->end) {
        int64_t next = s->end;
        unsigned active = 0, winner = STK__UNKNOWN_TIME;
        for (unsigned type = 1; type < STK__EVENT_TYPES; type++) {
            const stk__spans *spans = &s->spans[type];
            while (at[type] < spans->count && spans->rows[at[type]].end <= now)
                at[type]++;
            if (at[type] == spans->count)
                continue;
            const stk__span *span = &spans->rows[at[type]];
            if (span->start <= now) {
                active |= BIT(type);
                winner = type;
                next = STK_MIN(next, span->end);
            } else {
                next = STK_MIN(next, span->start);
            }
        }
        give_to_steps(s, now, next, winner, active);
        watch_idle(s, now, winner, active);
        now = next;
    }
    if (s->is_idle)
        gap_offer(s, s->idle_since, s->end);
    while (s->step < s->rank->step_count)
        step_close(s);
    settle_idle_steps(s);
}

static double gap_in_step(const stk__idle_gap *gap, const stk__step *step)
{
    const double from = STK_MAX((double)gap->ts, (double)step->ts);
    return STK_MIN((double)gap->ts + (double)gap->dur, step_end_of(step)) - from;
}

/* The step that holds most of each gap, the first of several; both are few. */
static void place_gaps(sweep *s)
{
    for (size_t g = 0; g < s->gap_count; g++) {
        stk__idle_gap *gap = &s->gaps[g];
        size_t low = 0, high = s->rank->step_count;
        while (low < high) {
            const size_t middle = low + (high - low) / 2;
            if (s->steps[middle].ts <= gap->ts)
                low = middle + 1;
            else
                high = middle;
        }
        double most = 0;
        for (size_t i = low ? low - 1 : 0; i < s->rank->step_count && s->steps[i].ts < gap->ts + gap->dur; i++) {
            const double held = gap_in_step(gap, &s->steps[i]);
            if (held > most) {
                most = held;
                gap->step = s->steps[i].number;
            }
        }
    }
}

stk_status stk__rank_sweep(stk__diagnosis *d, const stk__classifier *c, const uint32_t *tracks, size_t track_count,
                           stk__rank *rank, stk__idle_gap *gaps, size_t *gap_count, size_t gap_room, stk_error *err)
{
    const stk__step *steps = &d->steps.rows[rank->first_step];
    const stk__step *last = &steps[rank->step_count - 1];
    sweep s = {.d = d, .c = c, .rank = rank, .steps = steps, .gaps = gaps, .gap_room = gap_room};
    s.first_figure = d->figure_count;
    s.start = steps[0].ts;
    s.end = last->ts + last->dur;
    s.gap_min = d->options.gap_min_ns > 0 ? d->options.gap_min_ns : d->median_ns / 100;
    bool ok = true;
    for (size_t i = 0; ok && i < track_count; i++)
        ok = collect_track(&s, tracks[i]);
    ok = ok && collect_host(&s);
    rank->fills = rank->kind == STK__STEP_RECORDER && !rank->has_device;
    for (int type = 0; ok && type < STK__EVENT_TYPES; type++)
        stk__spans_normalize(&s.spans[type]);
    if (ok) {
        run(&s);
        place_gaps(&s);
        rank->input_percent = stk__percent_of(rank->input_ns, rank->step_ns);
        if (!rank->visible)
            rank->open_ns =
                rank->type_ns[STK__UNKNOWN_TIME] + rank->type_ns[STK__HOST_BETWEEN] + rank->type_ns[STK__HOST_PYTHON];
        *gap_count = s.gap_count;
    }
    for (int type = 0; type < STK__EVENT_TYPES; type++)
        stk__spans_clear(&s.spans[type]);
    return ok ? STK_OK : stk__nomem(c->trace->slices.count, err);
}

/* ---- what ran in a gap ---- */

/*
 * The slices of a track that touch a gap, one after the other: `up` goes through those around its start, `at` through
 * the rest.
 */
typedef struct touching {
    uint32_t up;
    size_t at, end;
    int64_t until;
} touching;

static touching touching_start(const stk__trace *t, uint32_t track, const stk__idle_gap *gap)
{
    const stk__trace_track *k = &t->tracks[track];
    /* Slices around the gap's start are the one before the first behind it, and its parents. */
    const size_t after = stk__first_from(t, k, gap->ts + 1);
    return (touching){
        .up = after > k->first_slice ? (uint32_t)(after - 1) : STK__NONE,
        .at = after,
        .end = (size_t)k->first_slice + k->slice_count,
        .until = gap->ts + gap->dur,
    };
}

static bool touching_next(const stk__trace *t, touching *x, size_t *out)
{
    if (x->up != STK__NONE) {
        *out = x->up;
        x->up = t->slices.parent[x->up];
        return true;
    }
    if (x->at == x->end || t->slices.ts[x->at] >= x->until)
        return false;
    *out = x->at++;
    return true;
}

static double overlap(const stk__trace *t, size_t i, const stk__idle_gap *gap)
{
    const int64_t from = STK_MAX(t->slices.ts[i], gap->ts);
    const int64_t to = STK_MIN(t->slices.ts[i] + t->slices.dur[i], gap->ts + gap->dur);
    return from < to ? (double)stk__time_between(from, to) : 0;
}

/* Markers of steps and of the profiler stand around everything, and Python's functions say more than they. */
static bool is_marker(const stk__classifier *c, size_t slice)
{
    const stk__string name = c->trace->slices.name[slice];
    return c->host[name] == STK__NO_EVENT && stk__trace_str(c->trace, name)[0] != '$';
}

/*
 * The name with the most self time within the gap: what a slice has goes off its parent's. What the main thread waits in
 * is told; that others sleep is not.
 */
static double longest_name(const stk__classifier *c, uint32_t track, bool is_main, const stk__idle_gap *gap,
                           double *sums, stk__string *out_name)
{
    const stk__trace *t = c->trace;
    size_t i;
    double best = 0;
    for (touching x = touching_start(t, track, gap); touching_next(t, &x, &i);) {
        const double ns = overlap(t, i, gap);
        const uint32_t parent = t->slices.parent[i];
        if (stk__slice_is_instant(t, i) || ns <= 0 || (!is_main && stk__is_ignored(c, i)))
            continue;
        sums[t->slices.name[i]] += ns;
        if (parent != STK__NONE)
            sums[t->slices.name[parent]] -= ns;
    }
    for (touching x = touching_start(t, track, gap); touching_next(t, &x, &i);) {
        double *sum = &sums[t->slices.name[i]];
        if (*sum > best && !is_marker(c, i)) {
            best = *sum;
            *out_name = t->slices.name[i];
        }
        *sum = 0;
    }
    return best;
}

static double waited_in(const stk__classifier *c, uint32_t track, const stk__rank *rank, const stk__idle_gap *gap)
{
    const stk__trace *t = c->trace;
    double ns = 0;
    size_t i;
    for (touching x = touching_start(t, track, gap); touching_next(t, &x, &i);) {
        const uint32_t parent = t->slices.parent[i];
        /* Waits within waits count once; two levels are what tracers write. */
        if (stk__classify(c, i, rank->waits) == STK__HOST_WAIT_INPUT &&
            (parent == STK__NONE || stk__classify(c, parent, rank->waits) != STK__HOST_WAIT_INPUT))
            ns += overlap(t, i, gap);
    }
    return ns;
}

/* Time of the gap in functions that load data, where these count as waits. */
static double loaded_in(const stk__rank *rank, const stk__idle_gap *gap)
{
    double ns = 0;
    for (size_t i = 0; !rank->visible && i < rank->host.span_count; i++) {
        const stk__host_span *span = &rank->host.spans[i];
        const int64_t from = STK_MAX(span->start, gap->ts), to = STK_MIN(span->end, gap->ts + gap->dur);
        if (from < to && rank->host.functions[span->function].meaning == STK__HOST_INPUT)
            ns += (double)stk__time_between(from, to);
    }
    return ns;
}

void stk__gap_explain(const stk__classifier *c, const uint32_t *tracks, size_t track_count, const stk__rank *rank,
                      double *sums, stk__idle_gap *gap)
{
    double waited = 0;
    for (size_t i = 0; i < track_count; i++) {
        const unsigned role = c->roles[tracks[i]];
        if (role != STK__ROLE_HOST && role != STK__ROLE_WORKER)
            continue;
        stk__string name = 0;
        const bool is_main = stk__track_root(c->trace, tracks[i]) == rank->main_track;
        const double ns = longest_name(c, tracks[i], is_main, gap, sums, &name);
        waited = STK_MAX(waited, waited_in(c, tracks[i], rank, gap));
        if (is_main) {
            if (ns > (double)gap->main_ns) {
                gap->main = name;
                gap->main_ns = (int64_t)ns;
            }
        } else if (ns > (double)gap->other_ns) {
            gap->other = name;
            gap->other_ns = (int64_t)ns;
            gap->other_track = tracks[i];
        }
    }
    waited = STK_MAX(waited, loaded_in(rank, gap));
    gap->wait_share = gap->dur > 0 ? STK_MIN(1.0, waited / (double)gap->dur) : 0;
}
