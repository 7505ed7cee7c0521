/* The verdict: steps, where their time goes, XProf's thresholds, and then the reasons. */
#include "analyze/diagnose.h"

#include <string.h>

#include "analyze/diagnose_impl.h"
#include "stats/ranks.h"
#include "base/mem.h"

#include "base/banned.h"

double stk__percent_of(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

void stk__text_duration(stk__text *t, double ns)
{
    static const struct {
        double ns;
        const char *unit;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};
    for (size_t i = 0; i < STK_COUNT(units); i++) {
        const double x = ns / units[i].ns;
        if (x >= 0.9995) {
            stk__text_printf(t, "%.*f %s", x < 10 ? 2 : x < 100 ? 1 : 0, x, units[i].unit);
            return;
        }
    }
    stk__text_printf(t, "%.0f ns", ns);
}

/* ---- figures of all steps ---- */

static stk_status measure_steps(stk__diagnosis *d, stk_error *err)
{
    const size_t count = d->steps.count;
    int64_t *durs = stk__alloc((count + 1) * sizeof *durs);
    if (!durs)
        return stk__nomem(count * sizeof *durs, err);
    for (size_t i = 0; i < count; i++)
        durs[i] = d->steps.rows[i].dur;
    stk__sort_int64(durs, count);
    d->median_ns = (int64_t)stk__median_of(durs, count).value;
    d->p95_ns = durs[(count * 95 + 99) / 100 - 1];
    stk__free(durs);
    return STK_OK;
}

static void find_slowest(stk__diagnosis *d)
{
    for (size_t i = 0; i < d->figure_count; i++) {
        size_t at = d->slowest_count;
        while (at && d->slowest[at - 1].dur < d->figures[i].dur)
            at--;
        if (at == STK__SLOWEST)
            continue;
        if (d->slowest_count == STK__SLOWEST)
            d->slowest_count--;
        memmove(&d->slowest[at + 1], &d->slowest[at], (d->slowest_count - at) * sizeof d->slowest[0]);
        d->slowest[at] = d->figures[i];
        d->slowest_count++;
    }
}

static void add_up(stk__diagnosis *d)
{
    unsigned counting = 0;
    bool visible = true;
    double input = 0, open = 0;
    for (size_t r = 0; r < d->rank_count; r++) {
        const stk__rank *rank = &d->ranks[r];
        for (int type = 0; type < STK__EVENT_TYPES; type++)
            d->type_ns[type] += rank->type_ns[type];
        d->step_ns += rank->step_ns;
        d->between_ns += rank->between_ns;
        d->between_wait_ns += rank->between_wait_ns;
        input += rank->input_ns;
        d->has_device = d->has_device || rank->has_device;
        open += rank->open_ns;
        visible = visible && rank->visible;
        counting |= rank->waits & rank->waits_seen;
    }
    d->input_percent = stk__percent_of(input, d->step_ns);
    d->other_percent = stk__percent_of(d->type_ns[STK__UNKNOWN_TIME], d->step_ns);
    d->open_percent = stk__percent_of(open, d->step_ns);
    d->visible = visible;
    d->hints_only = visible && counting == 1u << STK__WAIT_HINT;
}

/*
 * XProf's order. Where no slice shows the wait, and more time than is missing to the threshold may be one, nothing is
 * known: "not input-bound" would be a guess.
 */
static void judge(stk__diagnosis *d)
{
    if (d->step_ns <= 0)
        d->verdict = STK__VERDICT_UNKNOWN;
    else if (d->input_percent >= STK__HIGHLY_PERCENT)
        d->verdict = STK__VERDICT_HIGHLY;
    else if (d->input_percent >= STK__MODERATELY_PERCENT)
        d->verdict = STK__VERDICT_MODERATELY;
    else if (d->input_percent + d->open_percent >= STK__MODERATELY_PERCENT)
        d->verdict = STK__VERDICT_UNKNOWN;
    else
        d->verdict = STK__VERDICT_NOT;
    d->confidence = d->verdict == STK__VERDICT_UNKNOWN ? 0 : d->steps.confidence;
    if (d->hints_only)
        d->confidence *= 0.6;
    else if (!d->visible)
        d->confidence *= 0.7; /* functions are known by what they call, or by their names */
    if (d->figure_count < 10) /* one step more may change much */
        d->confidence *= d->figure_count < 3 ? 0.7 : 0.9;
}

/* ---- ranks ---- */

typedef struct rank_tracks {
    uint32_t *tracks; /* of all ranks, rank by rank */
    size_t *first;    /* rank_count + 1 */
} rank_tracks;

static void rank_tracks_clear(rank_tracks *rt)
{
    stk__free(rt->tracks);
    stk__free(rt->first);
}

/* A counting sort of the tracks by their rank. */
static bool rank_tracks_make(const stk__diagnosis *d, const uint32_t *owners, rank_tracks *rt)
{
    const size_t tracks = d->trace->track_count;
    rt->tracks = stk__alloc((tracks + 1) * sizeof *rt->tracks);
    rt->first = stk__calloc(d->rank_count + 2, sizeof *rt->first);
    if (!rt->tracks || !rt->first)
        return false;
    for (size_t k = 0; k < tracks; k++)
        if (owners[k] < d->rank_count)
            rt->first[owners[k] + 2]++;
    for (size_t r = 2; r < d->rank_count + 2; r++)
        rt->first[r] += rt->first[r - 1];
    for (size_t k = 0; k < tracks; k++)
        if (owners[k] < d->rank_count)
            rt->tracks[rt->first[owners[k] + 1]++] = (uint32_t)k;
    return true;
}

/* Sweeps all ranks; gaps of the worst one stay. */
static stk_status sweep_ranks(stk__diagnosis *d, const stk__classifier *c, const rank_tracks *rt, stk_error *err)
{
    const size_t room = d->options.gap_limit;
    stk__idle_gap *spare = stk__calloc(room + 1, sizeof *spare);
    stk_status status = STK_OK;
    d->gaps = stk__calloc(room + 1, sizeof *d->gaps);
    d->figures = stk__calloc(d->steps.count + 1, sizeof *d->figures);
    if (!spare || !d->gaps || !d->figures)
        status = stk__nomem(d->steps.count * sizeof *d->figures, err);
    for (size_t r = 0; status == STK_OK && r < d->rank_count; r++) {
        size_t found = 0;
        status = stk__rank_sweep(d, c, rt->tracks + rt->first[r], rt->first[r + 1] - rt->first[r], &d->ranks[r], spare,
                                 &found, room, err);
        if (status == STK_OK && (r == 0 || d->ranks[r].input_percent > d->ranks[d->worst].input_percent)) {
            stk__idle_gap *swap = d->gaps;
            d->gaps = spare;
            spare = swap;
            d->gap_count = found;
            d->worst = r;
        }
    }
    stk__free(spare);
    return status;
}

static stk_status explain_gaps(stk__diagnosis *d, const stk__classifier *c, const rank_tracks *rt, stk_error *err)
{
    const size_t strings = (size_t)d->trace->string_count + 1;
    double *sums = stk__calloc(strings, sizeof *sums);
    if (!sums)
        return stk__nomem(strings * sizeof *sums, err);
    for (size_t g = 0; g < d->gap_count; g++)
        stk__gap_explain(c, rt->tracks + rt->first[d->worst], rt->first[d->worst + 1] - rt->first[d->worst],
                         &d->ranks[d->worst], sums, &d->gaps[g]);
    stk__free(sums);
    return STK_OK;
}

/* ---- one rank of several ---- */

/* As the file says; where none does, trainers are counted from 0. */
static int64_t rank_number(const stk__diagnosis *d, size_t rank)
{
    const stk__trace *t = d->trace;
    bool said = false;
    for (size_t r = 0; r < d->rank_count; r++)
        said = said || (d->ranks[r].file < t->file_count && t->files[d->ranks[r].file].rank >= 0);
    if (!said)
        return (int64_t)rank;
    return d->ranks[rank].file < t->file_count ? t->files[d->ranks[rank].file].rank : -1;
}

/* Leaves one rank. What the others own stays theirs: it is neither this one's nor nobody's. */
static stk_status keep_rank(stk__diagnosis *d, uint32_t *owners, stk_error *err)
{
    size_t kept = 0;
    if (!d->options.one_rank)
        return STK_OK;
    while (kept < d->rank_count && rank_number(d, kept) != d->options.rank)
        kept++;
    if (kept == d->rank_count)
        return stk_error_set(err, STK_INVALID,
                             "no steps of rank %lld among those of %zu trainer%s; ranks are those that "
                             "the files say, else counted from 0",
                             (long long)d->options.rank, d->rank_count, d->rank_count == 1 ? "" : "s");
    for (size_t k = 0; k < d->trace->track_count; k++)
        if (owners[k] != STK__NONE)
            owners[k] = owners[k] == kept ? 0 : STK__NONE - 1;
    d->ranks[0] = d->ranks[kept];
    d->rank_count = 1;
    d->steps.count = d->ranks[0].step_count;
    memmove(d->steps.rows, d->steps.rows + d->ranks[0].first_step, d->steps.count * sizeof *d->steps.rows);
    d->ranks[0].first_step = 0;
    return STK_OK;
}

static stk_status analyse(stk__diagnosis *d, const stk__classifier *c, stk_error *err)
{
    uint32_t *owners = NULL;
    rank_tracks rt = {0};
    if (!d->steps.count)
        return STK_OK;
    STK_TRY(stk__ranks_make(d, c, &owners, err));
    stk_status status = keep_rank(d, owners, err);
    if (status == STK_OK)
        status = measure_steps(d, err);
    if (status == STK_OK)
        status = rank_tracks_make(d, owners, &rt) ? STK_OK : stk__nomem(d->trace->track_count * 4, err);
    if (status == STK_OK)
        status = sweep_ranks(d, c, &rt, err);
    if (status == STK_OK)
        status = explain_gaps(d, c, &rt, err);
    if (status == STK_OK)
        status = stk__stage_find(d, c, owners, err);
    if (status == STK_OK) {
        stk__host_name(d);
        add_up(d);
        find_slowest(d);
    }
    rank_tracks_clear(&rt);
    stk__free(owners);
    return status;
}

stk_status stk__diagnose(const stk__trace *t, const stk__diagnose_options *options, stk__diagnosis **out,
                         stk_error *err)
{
    stk__diagnosis *d = stk__calloc(1, sizeof *d);
    if (!d)
        return stk__nomem(sizeof *d, err);
    d->trace = t;
    if (options)
        d->options = *options;
    if (!d->options.gap_limit)
        d->options.gap_limit = 5;
    if (!(d->options.speedup > 0))
        d->options.speedup = 2;
    stk__classifier c;
    stk_status status = stk__classifier_init(&c, t, &d->options.told, err);
    if (status == STK_OK) {
        status = stk__steps_find_told(t, &d->options.told, &d->steps, err);
        if (status == STK_OK && !stk__steps_close_gaps(&d->steps))
            status = stk__nomem(d->steps.count * sizeof(int64_t), err);
        if (status == STK_OK)
            status = analyse(d, &c, err);
        if (status == STK_OK) {
            judge(d);
            if (!stk__diagnosis_explain(d, &c))
                status = stk__nomem(4096, err);
        }
        stk__classifier_clear(&c);
    }
    if (status != STK_OK) {
        stk__diagnosis_free(d);
        return status;
    }
    *out = d;
    return STK_OK;
}

void stk__diagnosis_free(stk__diagnosis *d)
{
    if (!d)
        return;
    stk__steps_clear(&d->steps);
    for (size_t r = 0; r < d->rank_count; r++)
        stk__host_clear(&d->ranks[r].host);
    stk__free(d->ranks);
    stk__free(d->figures);
    stk__free(d->gaps);
    stk__free(d->reason);
    for (size_t i = 0; i < d->what_if_count; i++) {
        stk__free(d->what_ifs[i].what);
        stk__free(d->what_ifs[i].assumption);
    }
    for (size_t i = 0; i < d->advice_count; i++)
        stk__free(d->advice[i]);
    for (size_t i = 0; i < d->evidence_count; i++)
        stk__free(d->evidence[i]);
    stk__free(d->evidence);
    stk__free(d);
}

stk__verdict stk__diagnosis_verdict(const stk__diagnosis *d)
{
    return d->verdict;
}
