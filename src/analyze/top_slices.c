/* top over slices: one pass for sums and a coarse picture of the durations, one more for the exact percentiles. */
#include <pthread.h>
#include <string.h>

#include "analyze/top_impl.h"
#include "base/cpu.h"
#include "base/mem.h"

enum {
    BLOCK = 2048,          /* rows whose groups are looked up at once */
    PIECE = 1 << 17,       /* rows that a thread takes at once, or a few more */
    TRIM_ROWS = 1 << 20,   /* how often memory is given back */
    COUNTED_GROUPS = 4096, /* groups that the first pass has buckets for */
    MAX_THREADS = 8,
    ROWS_PER_THREAD = 1 << 20, /* below, a thread costs more than it gains */
    ROOT_LEVELS = 64,          /* slices of the track around one of a lane that are looked at */
};

/* One group's sums: what every slice touches, so small that those of a thousand names fit the nearest cache. */
typedef struct tally {
    uint64_t total, self;
    int64_t min, max;
} tally;

/*
 * What few slices touch. Hostile files could make sums pass 64 bits, so what durations have above 32 bits is added up
 * on its own. The count of the groups that have buckets is the sum of these. `inner` slices lie inside one of their own
 * group.
 */
typedef struct tally_rest {
    uint64_t total_high, self_high, count;
    uint64_t inner, inner_high, inner_count;
} tally_rest;

/* The last slice at some depth: its self time is known when the next one comes at that depth. */
typedef struct open_slice {
    uint64_t left; /* of its duration, without its direct children */
    uint32_t group;
} open_slice;

/* Rows of one track, of which the first is an outermost slice: pieces know nothing of each other. */
typedef struct slice_piece {
    uint32_t track;
    size_t first, end;
} slice_piece;

struct slice_pass;

/* What one thread counts. */
typedef struct slice_worker {
    struct slice_pass *pass;
    tally *tallies;
    tally_rest *rests;
    size_t tally_count, tally_capacity, rest_capacity, outer_capacity;
    /*
     * By group: the level of its last slice that lay in no other one of the group. If any slice around the one that is
     * on is of the group, the outermost of these is at that level: what came since then lies inside it.
     */
    uint32_t *outer;
    uint32_t root;     /* by name: the track that the lane which is on belongs to; STK__NONE: it is no lane */
    uint32_t *buckets; /* of the first `counted` groups */
    /* By depth + 1: what lies outermost has a parent, too, which nobody asks about. */
    open_slice *open;
    size_t open_capacity;
    /* Slices whose depth is past what the column can say, innermost last. */
    uint32_t *deep;
    size_t deep_count, deep_capacity;
    bool failed; /* memory ran out */
} slice_worker;

typedef struct slice_pass {
    /* set before the threads start, then const, but for what has locks of its own */
    const stk__trace *trace;
    stk__grouping groups;
    size_t counted;
    slice_piece *pieces;
    size_t piece_count, piece_capacity;
    stk__ranks *ranks; /* NULL: the first pass */
    slice_worker workers[MAX_THREADS];
    size_t worker_count;
    size_t next; /* piece that nobody has taken; atomic */
} slice_pass;

static void worker_clear(slice_worker *w)
{
    stk__free(w->tallies);
    stk__free(w->rests);
    stk__free(w->outer);
    stk__free(w->buckets);
    stk__free(w->open);
    stk__free(w->deep);
}

static void pass_clear(slice_pass *p)
{
    stk__grouping_clear(&p->groups);
    for (size_t i = 0; i < p->worker_count; i++)
        worker_clear(&p->workers[i]);
    stk__free(p->pieces);
}

static bool worker_init(slice_worker *w, slice_pass *p)
{
    w->pass = p;
    w->open_capacity = (size_t)UINT16_MAX + 2;
    w->buckets = stk__calloc(p->counted, STK__RANK_BUCKETS * sizeof *w->buckets);
    w->open = stk__calloc(w->open_capacity, sizeof *w->open);
    return w->buckets && w->open;
}

static bool add_pieces(slice_pass *p, uint32_t track)
{
    const stk__trace_track *row = &p->trace->tracks[track];
    const size_t end = (size_t)row->first_slice + row->slice_count;
    for (size_t first = row->first_slice; first < end;) {
        size_t stop = STK_MIN(first + PIECE, end);
        while (stop < end && p->trace->slices.depth[stop])
            stop++;
        if (!stk__grow((void **)&p->pieces, &p->piece_capacity, p->piece_count + 1, sizeof *p->pieces))
            return false;
        p->pieces[p->piece_count++] = (slice_piece){track, first, stop};
        first = stop;
    }
    return true;
}

static stk_status pass_init(slice_pass *p, const stk__trace *t, const stk__top_options *o, stk_error *err)
{
    p->trace = t;
    STK_TRY(stk__grouping_init(&p->groups, t, o, err));
    const size_t ids = p->groups.with_name ? t->slices.count : p->groups.id_count;
    p->counted = STK_MIN(STK_MIN(ids, t->slices.count) + STK__GROUP_FIRST, COUNTED_GROUPS);
    size_t threads = 1;
    if (stk__grouping_parallel(&p->groups))
        threads = STK_MIN(STK_MIN((size_t)stk__cpu_limit(), MAX_THREADS), 1 + t->slices.count / ROWS_PER_THREAD);
    bool good = true;
    for (; p->worker_count < threads && good; p->worker_count++)
        good = worker_init(&p->workers[p->worker_count], p);
    for (uint32_t k = 0; k < t->track_count && good; k++) {
        if (stk__chosen_track(&p->groups.chosen, k))
            good = add_pieces(p, k);
    }
    return good ? STK_OK : stk__nomem(p->counted * STK__RANK_BUCKETS * sizeof(uint32_t), err);
}

/* ---- the first pass ---- */

static bool tallies_grow(slice_worker *w)
{
    const size_t count = stk__grouping_count(&w->pass->groups);
    if (!stk__grow((void **)&w->tallies, &w->tally_capacity, count, sizeof *w->tallies) ||
        !stk__grow((void **)&w->rests, &w->rest_capacity, count, sizeof *w->rests) ||
        !stk__grow((void **)&w->outer, &w->outer_capacity, count, sizeof *w->outer))
        return false;
    for (; w->tally_count < count; w->tally_count++) {
        w->outer[w->tally_count] = 0; /* the slice there is open, or of another group */
        w->tallies[w->tally_count] = (tally){.min = INT64_MAX, .max = -1};
        w->rests[w->tally_count] = (tally_rest){0};
    }
    return true;
}

/* The true depth of a slice deeper than the column counts. On failure some depth, and the pass is marked. */
static STK_NOINLINE size_t deep_level(slice_worker *w, size_t row)
{
    const uint32_t parent = w->pass->trace->slices.parent[row];
    while (w->deep_count && w->deep[w->deep_count - 1] != parent)
        w->deep_count--;
    if (!stk__grow((void **)&w->deep, &w->deep_capacity, w->deep_count + 1, sizeof *w->deep)) {
        w->failed = true;
        return 0;
    }
    w->deep[w->deep_count] = (uint32_t)row;
    const size_t level = UINT16_MAX + w->deep_count++, before = w->open_capacity;
    if (!stk__grow((void **)&w->open, &w->open_capacity, level + 2, sizeof *w->open)) {
        w->failed = true;
        return 0;
    }
    if (w->open_capacity > before)
        memset(w->open + before, 0, (w->open_capacity - before) * sizeof *w->open);
    return level;
}

static inline void add_ns(uint64_t *low, uint64_t *high, uint64_t ns)
{
    *low += (uint32_t)ns;
    if (STK_UNLIKELY(ns >> 32))
        *high += ns >> 32;
}

/* The slice is over: what its children left is its own time, none when rounding made them longer than itself. */
static inline void close_slice(tally *tallies, tally_rest *rests, const open_slice *o)
{
    add_ns(&tallies[o->group].self, &rests[o->group].self_high, (int64_t)o->left > 0 ? o->left : 0);
}

/*
 * Whether a slice of a lane lies inside one of its name on the track itself: it left that track only because it overlaps
 * something else there.
 */
static STK_NOINLINE bool inside_root(const stk__trace *t, uint32_t root, size_t row)
{
    const stk__slices *s = &t->slices;
    const stk__trace_track *k = &t->tracks[root];
    const size_t low = stk__first_from(t, k, s->ts[row] + 1);
    uint32_t around = low > k->first_slice ? (uint32_t)(low - 1) : STK__NONE;
    for (int i = 0; i < ROOT_LEVELS && around != STK__NONE; i++, around = s->parent[around]) {
        const int64_t end = s->ts[around] + s->dur[around];
        if (s->name[around] == s->name[row] && s->category[around] == s->category[row] && end > s->ts[row] &&
            end >= s->ts[row] + s->dur[row])
            return true;
    }
    return false;
}

/* The slice lies inside another one of its group: its time is already counted. */
static STK_NOINLINE void note_inner(slice_worker *w, uint32_t group, size_t row)
{
    tally_rest *rest = &w->rests[group];
    add_ns(&rest->inner, &rest->inner_high, (uint64_t)w->pass->trace->slices.dur[row]);
    rest->inner_count++;
}

static void tally_block(slice_worker *w, const uint32_t *group, size_t first, size_t count)
{
    const int64_t *durs = w->pass->trace->slices.dur + first;
    const uint16_t *depths = w->pass->trace->slices.depth + first;
    tally *tallies = w->tallies;
    tally_rest *rests = w->rests;
    open_slice *open = w->open;
    uint32_t *buckets = w->buckets, *outer = w->outer;
    const size_t counted = w->pass->counted;
    const bool on_lane = w->root != STK__NONE;
    for (size_t i = 0; i < count; i++) {
        const int64_t dur = durs[i];
        size_t level = depths[i];
        if (STK_UNLIKELY(level == UINT16_MAX)) {
            level = deep_level(w, first + i);
            open = w->open;
        }
        /*
         * Whether the slice lies inside another one of its group. `outer` may be of a slice that is over: then another
         * group is open at that level. No branch but the last: the levels of a group are hard to foretell.
         */
        const size_t around = outer[group[i]];
        const bool inner = (around < level) & (open[around + 1].group == group[i]);
        outer[group[i]] = (uint32_t)(inner ? around : level);
        if (STK_UNLIKELY(inner) || (STK_UNLIKELY(on_lane) && inside_root(w->pass->trace, w->root, first + i)))
            note_inner(w, group[i], first + i);
        open_slice *o = &open[level + 1];
        close_slice(tallies, rests, o);
        *o = (open_slice){(uint64_t)dur, group[i]};
        o[-1].left -= (uint64_t)dur;

        tally *t = &tallies[group[i]];
        add_ns(&t->total, &rests[group[i]].total_high, (uint64_t)dur);
        if (STK_UNLIKELY(dur < t->min))
            t->min = dur;
        if (STK_UNLIKELY(dur > t->max))
            t->max = dur;
        if (STK_LIKELY(group[i] < counted))
            buckets[group[i] * (size_t)STK__RANK_BUCKETS + stk__rank_bucket((uint64_t)dur)]++;
        else
            rests[group[i]].count++;
    }
}

/* ---- all passes ---- */

static void take_piece(slice_worker *w, const slice_piece *piece)
{
    slice_pass *p = w->pass;
    uint32_t group[BLOCK];
    const bool named = p->groups.by == STK__TOP_NAME || p->groups.with_name;
    w->deep_count = 0;
    w->root = named && p->trace->tracks[piece->track].lane ? stk__track_root(p->trace, piece->track) : STK__NONE;
    for (size_t first = piece->first; first < piece->end && !w->failed; first += BLOCK) {
        const size_t count = STK_MIN((size_t)BLOCK, piece->end - first);
        stk__grouping_slices(&p->groups, piece->track, first, count, group);
        if (p->ranks)
            stk__ranks_take(p->ranks, group, p->trace->slices.dur + first, count);
        else if (tallies_grow(w))
            tally_block(w, group, first, count);
        else
            w->failed = true;
        if ((first / BLOCK) % (TRIM_ROWS / BLOCK) == 0)
            stk__trace_trim(p->trace);
    }
}

static void *take_pieces(void *arg)
{
    slice_worker *w = arg;
    slice_pass *p = w->pass;
    for (size_t i; !w->failed && (i = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED)) < p->piece_count;)
        take_piece(w, &p->pieces[i]);
    return NULL;
}

/* All slices of the chosen tracks, by all threads; this one is the first of them. */
static void pass_over(slice_pass *p, stk__ranks *ranks)
{
    pthread_t threads[MAX_THREADS];
    size_t started = 1;
    p->ranks = ranks;
    p->next = 0;
    while (started < p->worker_count && pthread_create(&threads[started], NULL, take_pieces, &p->workers[started]) == 0)
        started++;
    take_pieces(&p->workers[0]);
    for (size_t i = 1; i < started; i++)
        pthread_join(threads[i], NULL);
}

/* Adds what another thread has counted to what the first one has. */
static void merge_worker(slice_worker *to, const slice_worker *from, size_t counted)
{
    for (size_t g = 0; g < from->tally_count; g++) {
        tally *x = &to->tallies[g];
        const tally *y = &from->tallies[g];
        x->total += y->total;
        x->self += y->self;
        to->rests[g].total_high += from->rests[g].total_high;
        to->rests[g].self_high += from->rests[g].self_high;
        to->rests[g].count += from->rests[g].count;
        to->rests[g].inner += from->rests[g].inner;
        to->rests[g].inner_high += from->rests[g].inner_high;
        to->rests[g].inner_count += from->rests[g].inner_count;
        x->min = STK_MIN(x->min, y->min);
        x->max = STK_MAX(x->max, y->max);
        if (g >= counted || y->max < y->min)
            continue;
        const size_t last = stk__rank_bucket((uint64_t)y->max);
        for (size_t b = stk__rank_bucket((uint64_t)y->min); b <= last; b++)
            to->buckets[g * STK__RANK_BUCKETS + b] += from->buckets[g * STK__RANK_BUCKETS + b];
    }
}

/* What the first pass left to do when all slices were seen. False when memory is out. */
static bool finish_tallies(slice_pass *p)
{
    slice_worker *w = &p->workers[0];
    bool good = !p->groups.failed && tallies_grow(w);
    for (size_t i = 0; i < p->worker_count && good; i++) {
        slice_worker *other = &p->workers[i];
        good = !other->failed;
        /* The one around the outermost slices is nobody's. */
        for (size_t level = 1; other->tally_count && level < other->open_capacity; level++)
            close_slice(other->tallies, other->rests, &other->open[level]);
        if (i)
            merge_worker(w, other, p->counted);
    }
    for (size_t g = 0; good && g < STK_MIN(w->tally_count, p->counted); g++) {
        tally *t = &w->tallies[g];
        const uint32_t *buckets = w->buckets + g * STK__RANK_BUCKETS;
        for (size_t b = stk__rank_bucket((uint64_t)t->min); t->min <= t->max && b <= stk__rank_bucket((uint64_t)t->max);
             b++)
            w->rests[g].count += buckets[b];
    }
    return good;
}

static stk_status find_ranks(slice_pass *p, stk__ranks *ranks, stk_error *err)
{
    const slice_worker *w = &p->workers[0];
    STK_TRY(stk__ranks_init(ranks, p->groups.count, err));
    ranks->parallel = p->worker_count > 1;
    for (size_t g = STK__GROUP_FIRST; g < p->groups.count; g++) {
        const tally *t = &w->tallies[g];
        if (!w->rests[g].count)
            continue;
        stk__ranks_want(ranks, g, w->rests[g].count, t->min, t->max);
        if (g < p->counted)
            stk__ranks_narrow(ranks, g, w->buckets + g * STK__RANK_BUCKETS);
    }
    for (;;) {
        bool more;
        STK_TRY(stk__ranks_plan(ranks, &more, err));
        if (!more)
            return STK_OK;
        pass_over(p, ranks);
        stk__ranks_settle(ranks);
    }
}

/* Sums of both halves, each of which has room for 2^32 rows. */
static int64_t saturate(uint64_t low, uint64_t high)
{
    high += low >> 32;
    return high >> 31 ? INT64_MAX : (int64_t)(high << 32 | (uint32_t)low);
}

/* The difference of two such sums, of which the first is not smaller. */
static int64_t without(uint64_t low, uint64_t high, uint64_t less_low, uint64_t less_high)
{
    high += low >> 32;
    less_high += less_low >> 32;
    const uint64_t borrow = (uint32_t)low < (uint32_t)less_low;
    return saturate((uint32_t)((uint32_t)low - (uint32_t)less_low), high - less_high - borrow);
}

static void fill_row(const slice_pass *p, const stk__ranks *ranks, uint32_t group, stk__top_row *row)
{
    const tally *t = &p->workers[0].tallies[group];
    const tally_rest *rest = &p->workers[0].rests[group];
    stk__grouping_row(&p->groups, group, row);
    row->unit = STK__UNIT_NS;
    row->count = (int64_t)rest->count;
    row->primitive = (int64_t)(rest->count - rest->inner_count);
    row->total = without(t->total, rest->total_high, rest->inner, rest->inner_high);
    row->self = saturate(t->self, rest->self_high);
    row->min = t->min;
    row->max = t->max;
    row->mean = ((double)rest->total_high * 0x1p32 + (double)t->total) / (double)rest->count;
    row->p50 = stk__ranks_get(ranks, group, 0);
    row->p95 = stk__ranks_get(ranks, group, 1);
}

static stk_status fill_rows(const slice_pass *p, const stk__ranks *ranks, stk__top *out, stk_error *err)
{
    size_t capacity = 0;
    for (size_t g = 0; g < p->workers[0].tally_count; g++) {
        const tally_rest *rest = &p->workers[0].rests[g];
        if (g == STK__GROUP_PROFILER)
            out->left_out = (int64_t)rest->count;
        if (g < STK__GROUP_FIRST || !rest->count)
            continue;
        stk__top_row *row = stk__top_add(out, &capacity);
        if (!row)
            return stk__nomem(sizeof *row, err);
        fill_row(p, ranks, (uint32_t)g, row);
    }
    return stk__grouping_labelled(&p->groups) ? stk__top_label_groups(out, &p->groups, err) : STK_OK;
}

stk_status stk__top_slices(const stk__trace *t, const stk__top_options *o, stk__top *out, stk_error *err)
{
    slice_pass p = {0};
    stk__ranks ranks = {0};
    stk_status status = pass_init(&p, t, o, err);
    if (status == STK_OK) {
        pass_over(&p, NULL);
        if (!finish_tallies(&p))
            status = stk__nomem(p.workers[0].tally_capacity * sizeof(tally), err);
    }
    if (status == STK_OK)
        status = find_ranks(&p, &ranks, err);
    if (status == STK_OK)
        status = fill_rows(&p, &ranks, out, err);
    if (status == STK_OK)
        status = stk__top_run(t, o, &p.groups.chosen, out, err);
    stk__ranks_clear(&ranks);
    pass_clear(&p);
    return status;
}
