/* Statistics over the pairs of variants of a result. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/compare.h"
#include "bench/count.h"
#include "stats/ranks.h"

#include "base/banned.h"

stk_status stk__compare_groups(const stk__result *r, stk__compare_pair **out, size_t *out_count, stk_error *err)
{
    stk__compare_pair *pairs = stk__calloc(r->variant_count ? r->variant_count : 1, sizeof *pairs);
    if (!pairs)
        return stk__nomem(r->variant_count * sizeof *pairs, err);
    size_t count = 0;
    for (size_t b = 0; b < r->variant_count; b++) {
        size_t a = 0;
        while (r->variants[a].group != r->variants[b].group)
            a++;
        if (a < b)
            pairs[count++] = (stk__compare_pair){a, b};
    }
    *out = pairs;
    *out_count = count;
    return STK_OK;
}

void stk__comparisons_clear(stk__comparisons *c)
{
    for (size_t i = 0; i < c->count; i++)
        stk__free(c->items[i].withheld);
    stk__free(c->items);
    *c = (stk__comparisons){0};
}

static stk_status withhold(stk__comparison *c, const char *reason, stk_error *err)
{
    c->verdict = STK__INCONCLUSIVE;
    if (!c->withheld)
        c->withheld = stk__strdup(reason);
    return c->withheld ? STK_OK : stk__nomem(strlen(reason), err);
}

/* Values that are there on both sides (paired) or on one (unpaired), copied. */
typedef struct sides {
    double *a, *b;
    size_t na, nb;
} sides;

static stk_status sides_take(const stk__variant *a, const stk__variant *b, size_t metric, bool paired, sides *out,
                             stk_error *err)
{
    *out = (sides){stk__calloc(a->runs + 1, sizeof(double)), stk__calloc(b->runs + 1, sizeof(double)), 0, 0};
    if (!out->a || !out->b)
        return stk__nomem((a->runs + b->runs) * sizeof(double), err);
    for (size_t i = 0; paired && i < a->runs && i < b->runs; i++) {
        if (isfinite(a->values[metric][i]) && isfinite(b->values[metric][i])) {
            out->a[out->na++] = a->values[metric][i];
            out->b[out->nb++] = b->values[metric][i];
        }
    }
    for (size_t i = 0; !paired && i < a->runs; i++) {
        if (isfinite(a->values[metric][i]))
            out->a[out->na++] = a->values[metric][i];
    }
    for (size_t i = 0; !paired && i < b->runs; i++) {
        if (isfinite(b->values[metric][i]))
            out->b[out->nb++] = b->values[metric][i];
    }
    return STK_OK;
}

static void sides_clear(sides *s)
{
    stk__free(s->a);
    stk__free(s->b);
}

static bool all_positive(const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!(values[i] > 0))
            return false;
    }
    return n > 0;
}

static stk_status measure(const sides *s, double confidence, uint64_t seed, stk__comparison *c, stk_error *err)
{
    if (c->paired) {
        STK_TRY(stk__paired_test(s->a, s->b, s->na, confidence, seed, &c->pair, err));
        c->ratio = c->pair.ratio;
        c->low = c->pair.low;
        c->high = c->pair.high;
        c->p = c->pair.p;
        c->median = c->pair.median;
        c->rest = c->pair.rest;
        c->means = c->pair.means;
        c->noise = c->pair.noise;
    } else {
        STK_TRY(stk__unpaired_test(s->a, s->na, s->b, s->nb, confidence, &c->free, err));
        c->ratio = c->free.ratio;
        c->low = c->free.low;
        c->high = c->free.high;
        c->p = c->free.p_mann_whitney;
        c->median = c->rest = c->free.median;
        c->means = c->free.means;
        c->noise = c->free.noise;
    }
    c->n = STK_MIN(s->na, s->nb);
    c->valid = true;
    return STK_OK;
}

/* Counts that repeat need no test: what differs, differs. */
static bool measure_exactly(const stk__result *r, stk__comparison *c, const sides *s)
{
    if (!stk__count_exact(r, c->a, c->b, c->metric, &c->ratio, &c->low, &c->high))
        return false;
    c->exact = c->valid = c->pair.covered = c->free.covered = true;
    c->median = c->rest = c->ratio;
    c->means = (stk__means){.ratio = c->ratio, .low = c->low, .high = c->high, .p = NAN};
    c->n = STK_MIN(s->na, s->nb);
    return true;
}

static stk_status compare_one(const stk__result *r, double confidence, stk__comparison *c, stk_error *err)
{
    sides s;
    const stk__variant *a = &r->variants[c->a], *b = &r->variants[c->b];
    c->ratio = c->low = c->high = c->p = c->p_holm = c->median = c->rest = c->noise = NAN;
    c->means = (stk__means){NAN, NAN, NAN, NAN};
    c->cpu = (stk__offer){0};
    stk_status status = sides_take(a, b, c->metric, r->paired, &s, err);
    if (status == STK_OK && (!s.na || !s.nb))
        status = withhold(c, "there are no runs to compare", err);
    else if (status == STK_OK && (!all_positive(s.a, s.na) || !all_positive(s.b, s.nb)))
        status = withhold(c, "some values are 0, which have no ratio", err);
    else if (status == STK_OK && !measure_exactly(r, c, &s))
        status = measure(&s, confidence, r->seed, c, err);
    sides_clear(&s);
    return status;
}

/* Holm over those that have figures, after the share of the tail. */
static stk_status correct(stk__comparisons *c, stk_error *err)
{
    double *p = stk__calloc(c->count ? c->count : 1, sizeof *p);
    if (!p)
        return stk__nomem(c->count * sizeof *p, err);
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (c->items[i].valid && !c->items[i].exact)
            p[n++] = fmin(1, c->items[i].p / STK__RANK_SHARE);
    }
    stk_status status = n ? stk__holm(p, n, p, err) : STK_OK;
    n = 0;
    for (size_t i = 0; i < c->count && status == STK_OK; i++) {
        if (c->items[i].valid && !c->items[i].exact)
            c->items[i].p_holm = p[n++];
    }
    stk__free(p);
    return status;
}

static bool covered(const stk__comparison *c)
{
    return c->paired ? c->pair.covered : c->free.covered;
}

static stk__verdict decide(const stk__rule *rule, const stk__comparison *c, double p)
{
    const stk__evidence e = {.ratio = c->ratio,
                             .low = c->low,
                             .high = c->high,
                             .covered = covered(c),
                             .p = p,
                             .rest = c->rest,
                             .means = c->means};
    return stk__decide(rule, &e);
}

double stk__comparison_far(const stk__comparison *c)
{
    return !c->valid || !c->paired ? 0 : c->means.ratio > 1 ? c->pair.far_above : c->pair.far_below;
}

bool stk__comparison_by_means(const stk__comparison *c, const stk__rule *rule)
{
    if (c->verdict != STK__INCONCLUSIVE || c->withheld || !c->valid || !covered(c))
        return false;
    const stk__means same = {.ratio = 1, .low = 1, .high = 1, .p = 1};
    const stk__evidence e = {c->ratio, c->low, c->high, true, c->p_holm, c->rest, same};
    const bool tail = fabs(log(c->rest)) < stk__rule_effect(rule) && stk__comparison_far(c) > 0 &&
                      fabs(log(c->means.ratio)) >= stk__rule_effect(rule);
    return tail || stk__decide(rule, &e) == STK__EQUIVALENT;
}

/* From the interval that leaves it open. A tail gets a smaller part of alpha. */
static size_t plan_rounds(const stk__rule *rule, const stk__comparison *c, size_t valid)
{
    if (!stk__comparison_by_means(c, rule))
        return stk__more_rounds(rule, c->n, log(c->ratio), c->noise, valid);
    stk__rule tail = *rule;
    tail.confidence = 1 - (1 - rule->confidence) * STK__TAIL_SHARE / STK__RANK_SHARE;
    const double width = log(c->means.high / c->means.low), level = 1 - stk__rule_confidence(rule, valid);
    return stk__more_rounds(&tail, c->n, log(c->means.ratio), stk__noise_of(width, c->n, level), valid);
}

/* Wall time of a computation on a busy machine is far noisier than its CPU time: what that says, where wall cannot. */
static stk_status offer_cpu(const stk__result *r, const stk__rule *rule, size_t valid, stk__comparison *c,
                            stk_error *err)
{
    stk__comparison by = {.a = c->a, .b = c->b, .metric = stk__result_metric(r, "cpu"), .paired = c->paired};
    if (c->verdict != STK__INCONCLUSIVE || !covered(c) || by.metric == SIZE_MAX ||
        strcmp(r->metrics[c->metric].name, "wall") != 0)
        return STK_OK;
    sides s;
    const double confidence = stk__rule_confidence(rule, valid);
    stk_status status = sides_take(&r->variants[c->a], &r->variants[c->b], by.metric, c->paired, &s, err);
    if (status == STK_OK && all_positive(s.a, s.na) && all_positive(s.b, s.nb))
        status = measure(&s, confidence, r->seed, &by, err);
    sides_clear(&s);
    if (status != STK_OK || !by.valid)
        return status;
    const double p = fmin(1, by.p / STK__RANK_SHARE * (double)valid);
    c->cpu = (stk__offer){true, by.ratio, by.low, by.high, p, decide(rule, &by, p)};
    c->cpu.made = c->cpu.verdict != STK__INCONCLUSIVE;
    return STK_OK;
}

static stk_status judge(const stk__result *r, const stk__comparisons *set, size_t valid, stk__comparison *c,
                        stk_error *err)
{
    const char *reason = r->variants[c->b].withheld ? r->variants[c->b].withheld : r->variants[c->a].withheld;
    if (reason)
        return withhold(c, reason, err);
    if (!c->valid)
        return STK_OK;
    stk__rule rule = set->rule;
    rule.higher_is_better = r->metrics[c->metric].higher_is_better;
    c->means.p = fmin(1, c->means.p * (double)valid);
    c->verdict = decide(&rule, c, c->exact ? 0 : c->p_holm);
    if (c->verdict == STK__INCONCLUSIVE && !c->exact)
        c->more_rounds = plan_rounds(&rule, c, valid);
    return offer_cpu(r, &rule, valid, c, err);
}

stk_status stk__compare(const stk__result *r, const stk__rule *rule, const stk__compare_pair *pairs, size_t count,
                        size_t metric, stk__comparisons *out, stk_error *err)
{
    stk__comparisons set = {.rule = *rule, .items = stk__calloc(count ? count : 1, sizeof *set.items)};
    if (!set.items)
        return stk__nomem(count * sizeof *set.items, err);
    set.capacity = set.count = count;
    /* Bonferroni for the intervals: all of them together cover at the confidence that was asked for. */
    const double confidence = stk__rule_confidence(rule, count);
    size_t valid = 0;
    stk_status status = STK_OK;
    for (size_t i = 0; i < count && status == STK_OK; i++) {
        set.items[i] = (stk__comparison){.a = pairs[i].a, .b = pairs[i].b, .metric = metric, .paired = r->paired};
        status = compare_one(r, confidence, &set.items[i], err);
        valid += set.items[i].valid;
    }
    if (status == STK_OK)
        status = correct(&set, err);
    for (size_t i = 0; i < count && status == STK_OK; i++)
        status = judge(r, &set, valid, &set.items[i], err);
    if (status != STK_OK) {
        stk__comparisons_clear(&set);
        return status;
    }
    *out = set;
    return STK_OK;
}

/* Holm over copies; p_holm goes back to where they came from. */
static stk_status correct_together(const stk__compare_set *sets, size_t count, size_t all, stk_error *err)
{
    stk__comparisons joined = {.items = stk__calloc(all ? all : 1, sizeof *joined.items)};
    if (!joined.items)
        return stk__nomem(all * sizeof *joined.items, err);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < sets[i].comparisons->count; k++)
            joined.items[joined.count++] = sets[i].comparisons->items[k];
    }
    const stk_status status = correct(&joined, err);
    size_t next = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < sets[i].comparisons->count; k++)
            sets[i].comparisons->items[k].p_holm = joined.items[next++].p_holm;
    }
    stk__free(joined.items);
    return status;
}

stk_status stk__compare_together(const stk__compare_set *sets, size_t count, stk_error *err)
{
    size_t all = 0, valid = 0;
    for (size_t i = 0; i < count; i++)
        all += sets[i].comparisons->count;
    for (size_t i = 0; i < count; i++) {
        stk__comparisons *set = sets[i].comparisons;
        const double confidence = stk__rule_confidence(&set->rule, all);
        for (size_t k = 0; k < set->count; k++) {
            STK_TRY(compare_one(sets[i].result, confidence, &set->items[k], err));
            valid += set->items[k].valid;
        }
    }
    STK_TRY(correct_together(sets, count, all, err));
    for (size_t i = 0; i < count; i++) {
        stk__comparisons *set = sets[i].comparisons;
        set->family = all;
        for (size_t k = 0; k < set->count; k++) {
            set->items[k].verdict = STK__INCONCLUSIVE;
            set->items[k].more_rounds = 0;
            STK_TRY(judge(sets[i].result, set, valid, &set->items[k], err));
        }
    }
    return STK_OK;
}

double stk__worst_regression(const stk__comparisons *c, const stk__result *r)
{
    double worst = 0;
    for (size_t i = 0; i < c->count; i++) {
        const stk__comparison *x = &c->items[i];
        if (!stk__verdict_worse(x->verdict))
            continue;
        const double ratio = x->verdict == STK__TAIL_SLOWER ? x->means.ratio : x->ratio;
        worst = fmax(worst, (r->metrics[x->metric].higher_is_better ? 1 / ratio : ratio) - 1);
    }
    return worst;
}
