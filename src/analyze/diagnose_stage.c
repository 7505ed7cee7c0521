/* Which stage of the input takes the time: iterators, our ops, worker processes, or what runs inside the wait. */
#include <stdlib.h>
#include <string.h>

#include "analyze/diagnose_impl.h"
#include "stats/ranks.h"
#include "base/mem.h"

#include "base/banned.h"

enum { MAX_NODES = 4096, MAX_LEVEL = 100 };

static const char ITERATOR[] = "Iterator::";

typedef struct finder {
    stk__diagnosis *d;
    const stk__classifier *c;
    const uint32_t *owners;
    uint32_t rank;
    int64_t start, end; /* of the rank's steps */
    double *sums;       /* per string */
    uint32_t *calls;    /* per string */
    bool failed;        /* out of memory */
} finder;

const char *stk__stage_label(const stk__diagnosis *d, stk__string name, size_t *out_size)
{
    const char *text = stk__trace_text(d->trace, name, out_size);
    size_t size = *out_size;
    if (strncmp(text, ITERATOR, strlen(ITERATOR)) != 0)
        return text;
    size_t start = size;
    while (start > 0 && text[start - 1] != ':')
        start--;
    const char *bracket = memchr(text + start, '[', size - start);
    *out_size = bracket ? (size_t)(bracket - text) - start : size - start;
    return text + start;
}

/* ---- sums by name into rows ---- */

static void row_offer(stk__stage *stage, stk__string name, double ns, uint64_t calls)
{
    size_t at = stage->count;
    while (at && stage->rows[at - 1].ns < ns)
        at--;
    if (at == STK__STAGE_ROWS)
        return;
    if (stage->count == STK__STAGE_ROWS)
        stage->count--;
    memmove(&stage->rows[at + 1], &stage->rows[at], (stage->count - at) * sizeof stage->rows[0]);
    stage->rows[at] = (stk__stage_row){.name = name, .ns = ns, .calls = calls};
    stage->count++;
}

/* Takes what has been summed, and clears the sums. */
static void rows_take(finder *f, stk__stage *stage)
{
    for (uint32_t s = 0; s < f->d->trace->string_count; s++) {
        if (f->sums[s] > 0) {
            row_offer(stage, s, f->sums[s], f->calls[s]);
            stage->total_ns += f->sums[s];
        }
        f->sums[s] = 0;
        f->calls[s] = 0;
    }
    for (size_t i = 0; i < stage->count; i++)
        stage->rows[i].share = stage->total_ns > 0 ? stage->rows[i].ns / stage->total_ns : 0;
}

static double clipped(const finder *f, size_t i)
{
    const stk__slices *s = &f->d->trace->slices;
    const int64_t from = STK_MAX(s->ts[i], f->start), to = STK_MIN(s->ts[i] + s->dur[i], f->end);
    return from < to ? (double)stk__time_between(from, to) : 0;
}

/* Self time: a slice's goes off its parent's. */
static void sum_slice(finder *f, size_t i, double ns)
{
    const stk__slices *s = &f->d->trace->slices;
    f->sums[s->name[i]] += ns;
    f->calls[s->name[i]]++;
    if (s->parent[i] != STK__NONE)
        f->sums[s->name[s->parent[i]]] -= ns;
}

/* ---- our ops ---- */

static bool is_room_wait(const stk__trace *t, size_t i)
{
    return strcmp(stk__trace_str(t, t->slices.name[i]), "wait: batches ahead are full") == 0;
}

static void sum_worker(finder *f, uint32_t track, stk__stage *stage, double *waited)
{
    const stk__trace *t = f->d->trace;
    const stk__trace_track *k = &t->tracks[track];
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++) {
        const double ns = clipped(f, i);
        stk__trim_at(t, i);
        if (ns <= 0 || stk__slice_is_instant(t, i))
            continue;
        if (!stk__is_wait(f->c, i)) {
            sum_slice(f, i, ns);
            continue;
        }
        if (t->slices.parent[i] != STK__NONE)
            f->sums[t->slices.name[t->slices.parent[i]]] -= ns;
        if (is_room_wait(t, i))
            *waited += ns;
    }
    stage->workers += !k->lane;
}

static bool is_worker(const finder *f, size_t track, uint32_t owner)
{
    return f->c->roles[track] == STK__ROLE_WORKER && f->owners[track] == owner &&
           f->d->trace->tracks[track].slice_count;
}

/* What the recorder added up of some workers, beside what their slices show. */
typedef struct tally {
    uint8_t *rows, *files; /* by name of the row and by file: whether a worker is there */
    double *missing;       /* per string: time in the totals that no slice shows */
    uint32_t *calls;       /* per string: in the totals */
} tally;

static bool tally_init(tally *y, const stk__trace *t)
{
    y->rows = stk__calloc((size_t)t->string_count + 1, 1);
    y->files = stk__calloc(t->file_count + 1, 1);
    y->missing = stk__calloc((size_t)t->string_count + 1, sizeof *y->missing);
    y->calls = stk__calloc((size_t)t->string_count + 1, sizeof *y->calls);
    return y->rows && y->files && y->missing && y->calls;
}

static void tally_clear(tally *y)
{
    stk__free(y->rows);
    stk__free(y->files);
    stk__free(y->missing);
    stk__free(y->calls);
}

static void tally_track(tally *y, const finder *f, size_t track)
{
    const stk__trace *t = f->d->trace;
    const stk__trace_track *k = &t->tracks[track];
    y->rows[k->thread < t->thread_count ? t->threads[k->thread].name : k->name] = 1;
    y->files[k->file < t->file_count ? k->file : t->file_count] = 1;
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++) {
        stk__trim_at(t, i);
        if (!stk__slice_is_instant(t, i) && !stk__is_wait(f->c, i))
            y->missing[t->slices.name[i]] -= (double)t->slices.dur[i];
    }
}

static bool tally_totals(tally *y, const stk__trace *t)
{
    bool any = false;
    for (size_t i = 0; i < t->total_count; i++) {
        const stk__trace_total *total = &t->totals[i];
        if (!y->files[total->file] || !y->rows[total->track] ||
            strncmp(stk__trace_str(t, total->name), "wait", strlen("wait")) == 0)
            continue;
        y->missing[total->name] += (double)total->total_ns;
        y->calls[total->name] =
            (uint32_t)STK_MIN((uint64_t)y->calls[total->name] + STK_MIN(total->count, UINT32_MAX), UINT32_MAX);
        any = true;
    }
    return any;
}

/*
 * Our recorder's totals are exact and of the whole run, as is what the run itself says at its end: they have what came
 * before the first step, spans that were lost, and spans that are too short to be shown. What the slices do not show
 * of ops lay inside units, so that a unit's own time is less by it.
 */
static void sum_totals(finder *f, const tally *y)
{
    const stk__trace *t = f->d->trace;
    stk__string unit = 0;
    double inside = 0;
    for (uint32_t s = 0; s < t->string_count; s++) {
        if (!y->calls[s])
            continue;
        f->calls[s] = STK_MAX(f->calls[s], y->calls[s]);
        f->sums[s] += STK_MAX(0.0, y->missing[s]);
        if (strcmp(stk__trace_str(t, s), "unit") == 0)
            unit = s;
        else
            inside += STK_MAX(0.0, y->missing[s]);
    }
    f->sums[unit] -= inside;
}

/* Puts exact sums in place of those within the steps, where the trace has them. */
static void make_exact(finder *f, uint32_t owner)
{
    const stk__trace *t = f->d->trace;
    tally y = {0};
    if (!t->total_count)
        return;
    f->failed = !tally_init(&y, t);
    for (size_t k = 0; !f->failed && k < t->track_count; k++)
        if (is_worker(f, k, owner))
            tally_track(&y, f, k);
    if (!f->failed && tally_totals(&y, t)) {
        finder whole = *f;
        stk__stage unused = {0};
        double room = 0;
        whole.start = t->start_ns;
        whole.end = t->end_ns;
        memset(f->sums, 0, t->string_count * sizeof *f->sums);
        memset(f->calls, 0, t->string_count * sizeof *f->calls);
        for (size_t k = 0; k < t->track_count; k++)
            if (is_worker(f, k, owner))
                sum_worker(&whole, (uint32_t)k, &unused, &room);
        sum_totals(f, &y);
    }
    tally_clear(&y);
}

static bool find_ops(finder *f, stk__stage *stage, uint32_t owner)
{
    const stk__trace *t = f->d->trace;
    double room = 0, busy = 0;
    for (size_t k = 0; k < t->track_count; k++)
        if (is_worker(f, k, owner))
            sum_worker(f, (uint32_t)k, stage, &room);
    for (uint32_t s = 0; s < t->string_count; s++)
        busy += STK_MAX(0.0, f->sums[s]);
    if (busy > 0)
        make_exact(f, owner);
    rows_take(f, stage);
    if (!stage->count) {
        stage->workers = 0;
        return false;
    }
    const double time = (double)stk__time_between(f->start, f->end) * (double)STK_MAX(stage->workers, 1u);
    stage->kind = STK__STAGE_OPS;
    stage->utilisation = time > 0 ? STK_MIN(1.0, busy / time) : 0;
    stage->room_share = time > 0 ? STK_MIN(1.0, room / time) : 0;
    return true;
}

/* ---- tf.data ---- */

typedef struct node {
    stk__string name;
    const char *text; /* of the name */
    size_t size;
    uint32_t parent; /* node; STK__NONE: a root */
    uint32_t level;
    uint64_t calls;
    stk__spans runs;    /* when it runs, on any thread */
    stk__spans blocked; /* when a root is blocked in it */
    double self_ns;
} node;

typedef struct tree {
    node *nodes;
    size_t count, capacity;
    uint32_t *of_string; /* node + 1 */
} tree;

static uint32_t count_level(const char *s)
{
    uint32_t level = 0;
    while ((s = strstr(s, "::"))) {
        level++;
        s += 2;
    }
    return level;
}

/* The node of a name, made when it is new; NULL: too many, or no memory. */
static node *tree_node(finder *f, tree *tr, stk__string name)
{
    if (tr->of_string[name])
        return &tr->nodes[tr->of_string[name] - 1];
    size_t size;
    const char *text = stk__trace_text(f->d->trace, name, &size);
    const uint32_t level = count_level(text);
    if (tr->count == MAX_NODES || level > MAX_LEVEL ||
        !stk__grow((void **)&tr->nodes, &tr->capacity, tr->count + 1, sizeof *tr->nodes))
        return NULL;
    tr->nodes[tr->count] = (node){.name = name, .text = text, .size = size, .parent = STK__NONE, .level = level};
    tr->of_string[name] = (uint32_t)++tr->count;
    return &tr->nodes[tr->count - 1];
}

static bool tree_collect(finder *f, tree *tr)
{
    const stk__trace *t = f->d->trace;
    for (size_t k = 0; k < t->track_count; k++) {
        if (f->owners[k] != f->rank || f->c->roles[k] != STK__ROLE_HOST)
            continue;
        for (size_t i = t->tracks[k].first_slice, end = i + t->tracks[k].slice_count; i < end; i++) {
            stk__trim_at(t, i);
            const char *name = stk__trace_str(t, t->slices.name[i]);
            if (name[0] != 'I' || strncmp(name, ITERATOR, strlen(ITERATOR)) != 0 || stk__slice_is_instant(t, i))
                continue;
            node *n = tree_node(f, tr, t->slices.name[i]);
            if (!n)
                continue;
            n->calls++;
            if (!stk__spans_add(&n->runs, t->slices.ts[i], t->slices.ts[i] + t->slices.dur[i]))
                return false;
        }
    }
    return true;
}

static int by_level(const void *a, const void *b)
{
    const node *x = a, *y = b;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    const int order = memcmp(x->text, y->text, STK_MIN(x->size, y->size));
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

/*
 * "Iterator::Root::Prefetch::Map" is asked by "Iterator::Root::Prefetch"; where that has no slices, by the next one
 * outwards.
 */
static void tree_link(tree *tr)
{
    qsort(tr->nodes, tr->count, sizeof *tr->nodes, by_level);
    for (size_t i = 0; i < tr->count; i++) {
        node key = tr->nodes[i];
        while (key.level > 1 && tr->nodes[i].parent == STK__NONE) {
            while (key.size > 2 && !(key.text[key.size - 2] == ':' && key.text[key.size - 1] == ':'))
                key.size--;
            key.size -= 2;
            key.level--;
            const node *up = bsearch(&key, tr->nodes, tr->count, sizeof key, by_level);
            if (up)
                tr->nodes[i].parent = (uint32_t)(up - tr->nodes);
        }
    }
}

static bool intersect(const stk__spans *a, const stk__spans *b, stk__spans *out)
{
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        const int64_t from = STK_MAX(a->rows[i].start, b->rows[j].start);
        const int64_t to = STK_MIN(a->rows[i].end, b->rows[j].end);
        if (from < to && !stk__spans_add(out, from, to))
            return false;
        if (a->rows[i].end < b->rows[j].end)
            i++;
        else
            j++;
    }
    stk__spans_normalize(out);
    return true;
}

/*
 * XProf walks from a root's call into the children that overlap it, in the slowest call alone. Here for all calls at
 * once: a root is blocked while it runs; a child blocks while it runs and its parent blocks, on whatever thread; what
 * of a parent's blocking time no child explains is its own. The own times add up to the time that roots were blocked.
 */
static bool tree_block(tree *tr)
{
    bool ok = true;
    for (size_t i = 0; ok && i < tr->count; i++) {
        node *n = &tr->nodes[i];
        stk__spans_normalize(&n->runs);
        const stk__spans *outer = n->parent == STK__NONE ? &n->runs : &tr->nodes[n->parent].blocked;
        ok = intersect(&n->runs, outer, &n->blocked);
        n->self_ns = (double)stk__spans_total(&n->blocked);
    }
    /* Children of one parent may run at once (interleave), so it is their union that goes off. */
    for (size_t i = 0; ok && i < tr->count; i++) {
        stk__spans inner = {0};
        for (size_t j = i + 1; ok && j < tr->count; j++)
            for (size_t k = 0; ok && tr->nodes[j].parent == i && k < tr->nodes[j].blocked.count; k++)
                ok = stk__spans_add(&inner, tr->nodes[j].blocked.rows[k].start, tr->nodes[j].blocked.rows[k].end);
        stk__spans_normalize(&inner);
        tr->nodes[i].self_ns -= (double)stk__spans_total(&inner);
        stk__spans_clear(&inner);
    }
    return ok;
}

static bool find_iterators(finder *f, stk__stage *stage)
{
    tree tr = {.of_string = stk__calloc((size_t)f->d->trace->string_count + 1, sizeof *tr.of_string)};
    bool ok = tr.of_string && tree_collect(f, &tr);
    if (ok && tr.count) {
        tree_link(&tr);
        ok = tree_block(&tr);
        for (size_t i = 0; ok && i < tr.count; i++) {
            f->sums[tr.nodes[i].name] = tr.nodes[i].self_ns;
            f->calls[tr.nodes[i].name] = (uint32_t)STK_MIN(tr.nodes[i].calls, UINT32_MAX);
        }
        rows_take(f, stage);
        stage->kind = stage->count ? STK__STAGE_TF_DATA : STK__STAGE_NONE;
    }
    for (size_t i = 0; i < tr.count; i++) {
        stk__spans_clear(&tr.nodes[i].runs);
        stk__spans_clear(&tr.nodes[i].blocked);
    }
    stk__free(tr.nodes);
    stk__free(tr.of_string);
    return ok;
}

/* ---- processes that do not train ---- */

static bool is_helper(const finder *f, uint32_t track)
{
    const stk__trace *t = f->d->trace;
    const uint32_t process = stk__track_process(t, track);
    return f->owners[track] == STK__NONE && f->c->roles[track] == STK__ROLE_HOST && t->tracks[track].slice_count &&
           process < t->process_count && !stk__process_is_plane(t, process) &&
           !stk__is_device_work(f->c, t->tracks[track].first_slice) && !stk__tells_nothing(f->c, t->tracks[track].first_slice);
}

/* A worker that waits for its next order is not at work. */
static bool sounds_idle(const char *name)
{
    static const char *const words[] = {"wait", "queue", "poll", "select", "recv", "acquire", "sleep", "idle"};
    for (size_t i = 0; i < STK_COUNT(words); i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

/* Helpers of other files may have another clock: then all of their time counts. */
static void helper_range(finder *f)
{
    const stk__trace *t = f->d->trace;
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t k = 0; k < t->track_count; k++) {
        if (!is_helper(f, (uint32_t)k))
            continue;
        const size_t begin = t->tracks[k].first_slice, end = begin + t->tracks[k].slice_count;
        first = STK_MIN(first, t->slices.ts[begin]);
        for (size_t i = begin; i < end; i++)
            if (!t->slices.depth[i])
                last = STK_MAX(last, t->slices.ts[i] + t->slices.dur[i]);
    }
    if (first >= last || (STK_MAX(first, f->start) < STK_MIN(last, f->end)))
        return;
    f->start = first;
    f->end = last;
}

static bool find_helpers(finder *f, stk__stage *stage)
{
    const stk__trace *t = f->d->trace;
    helper_range(f);
    for (size_t k = 0; k < t->track_count; k++) {
        if (!is_helper(f, (uint32_t)k))
            continue;
        stage->workers += !t->tracks[k].lane;
        for (size_t i = t->tracks[k].first_slice, end = i + t->tracks[k].slice_count; i < end; i++) {
            const double ns = clipped(f, i);
            stk__trim_at(t, i);
            if (ns > 0 && !stk__slice_is_instant(t, i))
                sum_slice(f, i, ns);
        }
    }
    for (uint32_t s = 0; s < t->string_count; s++)
        if (f->sums[s] > 0 && sounds_idle(stk__trace_str(t, s)))
            f->sums[s] = 0;
    rows_take(f, stage);
    if (!stage->count) {
        stage->workers = 0;
        return false;
    }
    const double time = (double)stk__time_between(f->start, f->end) * (double)STK_MAX(stage->workers, 1u);
    stage->kind = STK__STAGE_WORKERS;
    stage->utilisation = time > 0 ? STK_MIN(1.0, stage->total_ns / time) : 0;
    return true;
}

/* ---- what runs inside the waits ---- */

static void sum_inside(finder *f, uint32_t track)
{
    const stk__trace *t = f->d->trace;
    const stk__trace_track *k = &t->tracks[track];
    int64_t until = INT64_MIN;
    for (size_t i = k->first_slice, end = i + k->slice_count; i < end; i++) {
        const double ns = clipped(f, i);
        stk__trim_at(t, i);
        if (ns <= 0 || stk__slice_is_instant(t, i))
            continue;
        if (t->slices.ts[i] < until) {
            sum_slice(f, i, ns);
        } else if (stk__classify(f->c, i, f->d->ranks[f->rank].waits) == STK__HOST_WAIT_INPUT) {
            until = t->slices.ts[i] + t->slices.dur[i];
            f->sums[t->slices.name[i]] += ns;
            f->calls[t->slices.name[i]]++;
        }
    }
}

static void find_inside(finder *f, stk__stage *stage)
{
    const stk__trace *t = f->d->trace;
    for (size_t k = 0; k < t->track_count; k++)
        if (stk__track_root(t, (uint32_t)k) == f->d->ranks[f->rank].main_track)
            sum_inside(f, (uint32_t)k);
    rows_take(f, stage);
    for (size_t i = 0; i < stage->count; i++)
        stage->rows[i].is_wait = f->c->wait[stage->rows[i].name] != STK__WAIT_NONE;
    stage->kind = stage->count ? STK__STAGE_INSIDE : STK__STAGE_NONE;
}

/* ---- one call's time ---- */

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Nearest rank. */
static int64_t quantile(const int64_t *sorted, size_t count, double q)
{
    size_t rank = (size_t)(q * (double)count);
    if ((double)rank < q * (double)count)
        rank++;
    return sorted[STK_MIN(rank ? rank - 1 : 0, count - 1)];
}

static bool belongs(const finder *f, const stk__stage *stage, uint32_t track)
{
    switch (stage->kind) {
    case STK__STAGE_OPS:
        return f->c->roles[track] == STK__ROLE_WORKER;
    case STK__STAGE_WORKERS:
        return is_helper(f, track);
    case STK__STAGE_INSIDE:
        return stk__track_root(f->d->trace, track) == f->d->ranks[f->rank].main_track;
    default:
        return f->owners[track] == f->rank && f->c->roles[track] == STK__ROLE_HOST;
    }
}

/* Median, p95 and maximum of the calls of the first row, which the report is about. */
static bool measure_calls(finder *f, stk__stage *stage)
{
    const stk__trace *t = f->d->trace;
    int64_t *durs = NULL;
    size_t count = 0, capacity = 0;
    for (size_t k = 0; k < t->track_count; k++) {
        if (!belongs(f, stage, (uint32_t)k))
            continue;
        for (size_t i = t->tracks[k].first_slice, end = i + t->tracks[k].slice_count; i < end; i++) {
            stk__trim_at(t, i);
            if (t->slices.name[i] != stage->rows[0].name || stk__slice_is_instant(t, i))
                continue;
            if (!stk__grow((void **)&durs, &capacity, count + 1, sizeof *durs)) {
                stk__free(durs);
                return false;
            }
            durs[count++] = t->slices.dur[i];
        }
    }
    if (count) {
        qsort(durs, count, sizeof *durs, by_value);
        stage->rows[0].p50 = (int64_t)stk__median_of(durs, count).value;
        stage->rows[0].p95 = quantile(durs, count, 0.95);
        stage->rows[0].max = durs[count - 1];
    }
    stk__free(durs);
    return true;
}

stk_status stk__stage_find(stk__diagnosis *d, const stk__classifier *c, const uint32_t *owners, stk_error *err)
{
    const size_t strings = (size_t)d->trace->string_count + 1;
    const stk__rank *rank = &d->ranks[d->worst];
    const stk__step *first = &d->steps.rows[rank->first_step], *last = first + rank->step_count - 1;
    finder f = {.d = d, .c = c, .owners = owners, .rank = (uint32_t)d->worst, .start = first->ts};
    stk__stage *stage = &d->stage;
    f.end = last->ts + last->dur;
    f.sums = stk__calloc(strings, sizeof *f.sums);
    f.calls = stk__calloc(strings, sizeof *f.calls);
    bool ok = f.sums && f.calls;
    if (ok && !find_ops(&f, stage, f.rank) && !f.failed && !find_ops(&f, stage, STK__NONE) && !f.failed) {
        ok = find_iterators(&f, stage);
        if (ok && stage->kind == STK__STAGE_NONE && !find_helpers(&f, stage))
            find_inside(&f, stage);
    }
    ok = ok && !f.failed;
    if (ok && stage->count)
        ok = measure_calls(&f, stage);
    stk__free(f.sums);
    stk__free(f.calls);
    return ok ? STK_OK : stk__nomem(strings * 12, err);
}
