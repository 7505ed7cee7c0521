/* Exact percentiles of many groups at once: ranges that become narrower with every pass over the values. */
#include <string.h>

#include "analyze/top_impl.h"
#include "base/mem.h"

/* Values kept in one pass (64 MiB of them), ranges counted in one pass, and buckets of such a range. */
enum { MAX_VALUES = 1 << 23, MAX_COUNTED = 4096, RANGE_BITS = 11, RANGE_BUCKETS = 1 << RANGE_BITS };

/* Looked at for every value: whether it lies in a range of its group. */
typedef struct stk__rank_bounds {
    int64_t low[STK__RANKS];
    uint64_t span[STK__RANKS];
} stk__rank_bounds;

/* What is done with a value in the range: counted, or else kept. */
struct stk__rank_watch {
    int64_t *values;
    uint32_t *buckets;
    size_t count;
    int shift;
};

stk_status stk__ranks_init(stk__ranks *r, size_t groups, stk_error *err)
{
    *r = (stk__ranks){.groups = groups};
    r->ranges = stk__calloc(groups + 1, sizeof *r->ranges);
    r->bounds = stk__calloc(groups + 1, sizeof *r->bounds);
    r->watches = stk__calloc(groups + 1, STK__RANKS * sizeof *r->watches);
    if (r->ranges && r->bounds && r->watches)
        return STK_OK;
    stk__ranks_clear(r);
    return stk__nomem((groups + 1) * sizeof *r->ranges, err);
}

void stk__ranks_clear(stk__ranks *r)
{
    stk__free(r->ranges);
    stk__free(r->bounds);
    stk__free(r->watches);
    stk__free(r->values);
    stk__free(r->buckets);
    *r = (stk__ranks){0};
}

void stk__ranks_want(stk__ranks *r, size_t group, uint64_t count, int64_t min, int64_t max)
{
    static const uint64_t percent[STK__RANKS] = {50, 95};
    for (size_t k = 0; k < STK__RANKS; k++)
        r->ranges[group][k] = (stk__rank_range){min, max, count ? (count * percent[k] + 99) / 100 - 1 : 0, count};
}

/* The bucket that holds the range's rank; makes rank and count those within the bucket. */
static size_t find_bucket(stk__rank_range *range, const uint32_t *buckets, size_t first, size_t last)
{
    size_t b = first;
    while (b < last && range->rank >= buckets[b])
        range->rank -= buckets[b++];
    range->count = buckets[b];
    return b;
}

void stk__ranks_narrow(stk__ranks *r, size_t group, const uint32_t *buckets)
{
    for (size_t k = 0; k < STK__RANKS; k++) {
        stk__rank_range *range = &r->ranges[group][k];
        const uint32_t first = stk__rank_bucket((uint64_t)range->low), last = stk__rank_bucket((uint64_t)range->high);
        const size_t b = find_bucket(range, buckets, first, last);
        /* The inverse of stk__rank_bucket: buckets below 32 hold one value each. */
        const int octave = b < 32 ? 0 : (int)(b >> 4) - 1;
        const int64_t low = (int64_t)(b - ((size_t)octave << 4)) << octave;
        const int64_t high = low + (((int64_t)1 << octave) - 1);
        range->low = STK_MAX(range->low, low);
        range->high = STK_MIN(range->high, high);
    }
}

/* ---- passes ---- */

static bool is_open(const stk__rank_range *range)
{
    return range->low < range->high;
}

/* Two ranks of a group may still share their range; then the first one's watch serves both. */
static bool is_shared(const stk__rank_range *ranges, size_t k)
{
    return k > 0 && is_open(&ranges[0]) && ranges[k].low == ranges[0].low && ranges[k].high == ranges[0].high;
}

typedef struct rank_plan {
    size_t values, counted;
    bool open;
} rank_plan;

/* Decides what becomes of one range in the pass; it may have to wait for a later one. */
static void plan_range(stk__ranks *r, size_t group, size_t k, rank_plan *plan)
{
    const stk__rank_range *range = &r->ranges[group][k];
    stk__rank_watch *watch = &r->watches[group * STK__RANKS + k];
    stk__rank_bounds *bounds = &r->bounds[group];
    /* No value is -1. */
    bounds->low[k] = -1;
    bounds->span[k] = 0;
    *watch = (stk__rank_watch){.shift = -1};
    if (!is_open(range))
        return;
    plan->open = true;
    if (is_shared(r->ranges[group], k))
        return;
    const uint64_t span = (uint64_t)range->high - (uint64_t)range->low;
    if (range->count <= MAX_VALUES - plan->values) {
        plan->values += range->count;
        watch->count = range->count;
    } else if (plan->counted < MAX_COUNTED) {
        plan->counted++;
        const int bits = 64 - __builtin_clzll(span);
        watch->shift = STK_MAX(bits - RANGE_BITS, 0);
    } else {
        return;
    }
    bounds->low[k] = range->low;
    bounds->span[k] = span;
}

/* Hands out the memory that the plan asks for. */
static void share_memory(stk__ranks *r)
{
    int64_t *values = r->values;
    uint32_t *buckets = r->buckets;
    for (size_t i = 0; i < r->groups * STK__RANKS; i++) {
        stk__rank_watch *watch = &r->watches[i];
        if (watch->shift >= 0) {
            watch->buckets = buckets;
            buckets += RANGE_BUCKETS;
        } else if (watch->count) {
            watch->values = values;
            values += watch->count;
            watch->count = 0;
        }
    }
}

stk_status stk__ranks_plan(stk__ranks *r, bool *out_more, stk_error *err)
{
    rank_plan plan = {0};
    for (size_t g = 0; g < r->groups; g++) {
        for (size_t k = 0; k < STK__RANKS; k++)
            plan_range(r, g, k, &plan);
    }
    *out_more = plan.open;
    if (!plan.open)
        return STK_OK;
    r->values = stk__alloc(plan.values * sizeof *r->values);
    r->buckets = stk__calloc(plan.counted, RANGE_BUCKETS * sizeof *r->buckets);
    if (!r->values || !r->buckets)
        return stk__nomem(plan.values * sizeof *r->values, err);
    share_memory(r);
    return STK_OK;
}

static void take_value(stk__rank_watch *watch, uint64_t above_low, int64_t value, bool parallel)
{
    if (watch->shift >= 0 && parallel)
        __atomic_fetch_add(&watch->buckets[above_low >> watch->shift], 1, __ATOMIC_RELAXED);
    else if (watch->shift >= 0)
        watch->buckets[above_low >> watch->shift]++;
    else if (parallel)
        watch->values[__atomic_fetch_add(&watch->count, 1, __ATOMIC_RELAXED)] = value;
    else
        watch->values[watch->count++] = value;
}

void stk__ranks_take(stk__ranks *r, const uint32_t *group, const int64_t *values, size_t count)
{
    const stk__rank_bounds *bounds = r->bounds;
    for (size_t i = 0; i < count; i++) {
        const stk__rank_bounds *b = &bounds[group[i]];
        const uint64_t value = (uint64_t)values[i];
        const bool in_first = value - (uint64_t)b->low[0] <= b->span[0];
        const bool in_second = value - (uint64_t)b->low[1] <= b->span[1];
        if (STK_UNLIKELY(in_first | in_second)) {
            const size_t k = in_first ? 0 : 1;
            take_value(&r->watches[group[i] * (size_t)STK__RANKS + k], value - (uint64_t)b->low[k], values[i],
                       r->parallel);
        }
    }
}

/* Makes the range that of its bucket, of 2^shift values. */
static void enter_bucket(stk__rank_range *range, uint64_t bucket, int shift)
{
    range->low = (int64_t)((uint64_t)range->low + (bucket << shift));
    const uint64_t left = (uint64_t)range->high - (uint64_t)range->low, width = ((uint64_t)1 << shift) - 1;
    range->high = (int64_t)((uint64_t)range->low + STK_MIN(left, width));
}

/*
 * Number `rank` of the values, which all lie in the range: a digit at a time, so that no order of them is a slow one.
 */
static int64_t select_value(int64_t *values, size_t count, stk__rank_range range)
{
    while (is_open(&range) && count > 1) {
        const uint64_t span = (uint64_t)range.high - (uint64_t)range.low;
        const int shift = STK_MAX(64 - __builtin_clzll(span) - 8, 0);
        uint32_t buckets[256] = {0};
        for (size_t i = 0; i < count; i++)
            buckets[((uint64_t)values[i] - (uint64_t)range.low) >> shift]++;
        const uint64_t bucket = find_bucket(&range, buckets, 0, 255);
        size_t kept = 0;
        for (size_t i = 0; i < count; i++) {
            /* Swapped, not overwritten: the group's other rank may need the rest. */
            const int64_t value = values[i];
            values[i] = values[kept];
            values[kept] = value;
            kept += ((uint64_t)value - (uint64_t)range.low) >> shift == bucket;
        }
        enter_bucket(&range, bucket, shift);
        count = kept;
    }
    return count == 1 && is_open(&range) ? values[0] : range.low;
}

static void settle_range(stk__rank_range *range, const stk__rank_watch *watch)
{
    if (watch->shift >= 0) {
        const uint64_t bucket = find_bucket(range, watch->buckets, 0, RANGE_BUCKETS - 1);
        enter_bucket(range, bucket, watch->shift);
    } else if (watch->values) {
        range->low = range->high = select_value(watch->values, watch->count, *range);
        range->count = 1;
        range->rank = 0;
    }
}

void stk__ranks_settle(stk__ranks *r)
{
    for (size_t g = 0; g < r->groups; g++) {
        stk__rank_watch *watches = &r->watches[g * STK__RANKS];
        /* The second one first: whether it shares shows in the first one's range. */
        for (size_t k = STK__RANKS; k-- > 0;) {
            const bool shared = is_shared(r->ranges[g], k);
            if (is_open(&r->ranges[g][k]))
                settle_range(&r->ranges[g][k], shared ? &watches[0] : &watches[k]);
        }
    }
    stk__free(r->values);
    stk__free(r->buckets);
    r->values = NULL;
    r->buckets = NULL;
}
