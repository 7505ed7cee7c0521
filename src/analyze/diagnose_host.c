/*
 * What the training thread does on its own: functions of the user that launch no device work, by name, and whether
 * they load data. Python's functions are slices in traces with stacks; they stand around everything, so that a walk from
 * the outside leaves those that hold work on the model, and stops at the first that does not.
 */
#include <stdlib.h>
#include <string.h>

#include "analyze/diagnose_stage.h"
#include "analyze/input_names.h"
#include "base/mem.h"

#include "base/banned.h"

/* What is known of a name, or of a slice. */
enum {
    LOOKED = 1,
    FRAME = 2,     /* a Python function */
    OWN = 4,       /* of the user */
    FRAMEWORK = 8, /* of PyTorch, JAX or TensorFlow, and not of their data parts */
    MODEL = 16,    /* work on the model, and nothing else: layers, optimizers, backward passes */
    LAUNCH = 32,   /* gives work to a device */
    READS = 64,    /* a call that loads data */
    WRITES = 128,  /* a call that does something else */
};

/* What is known of a slice with all that lies in it. */
enum {
    HAS_WORK = 1,
    HAS_OWN = 2,     /* an own function inside */
    HAS_OP = 4,      /* an op of a framework inside */
    HAS_RUNTIME = 8, /* a call into the device's runtime inside */
    SETTLED = 16,    /* it, or a slice around it, has been told what it is */
};

/* Host ops shorter than this are not worth a question. */
static const int64_t SHORT_OP_NS = 50000;

typedef struct walk {
    const stk__classifier *c;
    stk__host *host;
    stk__python_keys keys;
    uint8_t *names;          /* per string: FRAME...; 0: not looked at */
    uint32_t *first;         /* per string: its first function, + 1 */
    uint32_t *seen, *worked; /* per string: functions of that name on the lane, and those that work */
    size_t span_capacity, function_capacity;
    int64_t start, end;
    const stk__step *steps; /* by time; what holds a whole one is a loop */
    size_t step_count;

    /* of the lane at hand, by slice */
    size_t base, count;
    uint8_t *kind, *has;
    int64_t *cursor; /* until where its own calls have been seen */
    uint32_t *owner; /* own function whose lines run between the calls, + 1; 0: none */
    float *reads_ns, *writes_ns;
} walk;

/* ---- names ---- */

/* "torch/nn/modules/module.py", "/usr/lib/python3/dist-packages/torch/nn/..." */
static bool lies_in(const stk__python_frame *f, const char *folder)
{
    const size_t n = strlen(folder);
    if (f->file_size >= n && memcmp(f->file, folder, n) == 0)
        return true;
    for (size_t i = 1; i + n <= f->file_size; i++)
        if ((f->file[i - 1] == '/' || f->file[i - 1] == '\\') && memcmp(f->file + i, folder, n) == 0)
            return true;
    return false;
}

/* Layers, and calls of compiled functions of JAX: the second is where its Python ends. */
static bool is_model_function(const stk__python_frame *f)
{
    static const char *const names[] = {"forward", "backward", "block_until_ready", "cache_miss",
                                        "_python_pjit_helper"};
    for (size_t i = 0; i < STK_COUNT(names); i++)
        if (f->function_size == strlen(names[i]) && memcmp(f->function, names[i], f->function_size) == 0)
            return true;
    return false;
}

static bool is_model_code(const stk__python_frame *f)
{
    if (lies_in(f, "torch/nn/functional.py"))
        return false; /* resizing and blurring of pictures is in it as well */
    return is_model_function(f) || lies_in(f, "tensorflow/python/eager/polymorphic_function/") ||
           lies_in(f, "torch/nn/") || lies_in(f, "torch/autograd/") || lies_in(f, "torch/optim/") ||
           lies_in(f, "torch/amp/") || lies_in(f, "torch/distributed/");
}

static bool is_framework(const stk__python_frame *f, const char *name)
{
    if (f->own || lies_in(f, "torch/utils/data/") || lies_in(f, "torch/multiprocessing/") ||
        stk__contains(f->file, f->file_size, "/data/"))
        return false;
    /* The tracer of JAX and TensorFlow gives no directories. */
    if (name[0] == '$' && f->line > 0)
        return true;
    return lies_in(f, "torch/") || lies_in(f, "jax/") || lies_in(f, "jaxlib/") || lies_in(f, "flax/") ||
           lies_in(f, "optax/") || lies_in(f, "keras/") || lies_in(f, "tensorflow/");
}

static unsigned look_at_frame(const stk__python_frame *f, const char *name)
{
    stk__name_says says = stk__call_says(f->function, f->function_size, f->file, f->file_size);
    unsigned kind = LOOKED | FRAME;
    if (says == STK__SAYS_NOTHING && f->own)
        says = stk__name_says_of(f->function, f->function_size);
    if (says == STK__SAYS_INPUT)
        kind |= READS;
    if (says == STK__SAYS_OTHER)
        kind |= WRITES;
    if (f->own)
        kind |= OWN;
    if (is_model_code(f))
        kind |= MODEL;
    else if (!(kind & READS) && is_framework(f, name))
        kind |= FRAMEWORK;
    return kind;
}

static unsigned look_at(walk *w, size_t slice)
{
    const stk__trace *t = w->c->trace;
    const stk__string s = t->slices.name[slice];
    size_t size;
    const char *name = stk__trace_text(t, s, &size);
    stk__python_frame frame;
    if (!w->names[s]) {
        unsigned kind = LOOKED;
        if (stk__is_model_work(name, size))
            kind |= MODEL;
        if (stk__is_launch(name, size))
            kind |= LAUNCH;
        if (stk__python_frame_parse(name, size, &frame))
            kind |= look_at_frame(&frame, name);
        w->names[s] = (uint8_t)kind;
    }
    if (w->names[s] & FRAME || w->keys.filename == STK__NONE || !t->slices.args[slice])
        return w->names[s];
    return stk__python_frame_of(t, &w->keys, slice, &frame) ? look_at_frame(&frame, name) : w->names[s];
}

/* ---- what lies in what ---- */

/* A function that holds a whole step is the training loop, or around it. */
static bool is_loop(const walk *w, size_t slice)
{
    const stk__slices *s = &w->c->trace->slices;
    const int64_t from = s->ts[slice], to = from + s->dur[slice];
    size_t low = 0, high = w->step_count;
    if (!w->step_count) /* then of what holds most of the trace that may be said */
        return s->dur[slice] / 2 >= stk__time_between(w->start, w->end) / 4;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (w->steps[middle].ts < from)
            low = middle + 1;
        else
            high = middle;
    }
    return low < w->step_count && w->steps[low].ts + w->steps[low].dur <= to;
}

/* From the last slice to the first: children stand behind their parents. */
static void gather_inside(walk *w)
{
    const stk__slices *s = &w->c->trace->slices;
    for (size_t n = w->count; n-- > 0;) {
        const size_t i = w->base + n;
        const unsigned kind = w->kind[n];
        const bool op = !(kind & FRAME) && !stk__is_container(w->c, i);
        stk__trim_at(w->c->trace, i);
        if (kind & (MODEL | LAUNCH) || (kind & FRAME && is_loop(w, i)))
            w->has[n] |= HAS_WORK;
        if (kind & READS)
            w->reads_ns[n] = (float)s->dur[i];
        if (kind & WRITES)
            w->writes_ns[n] = (float)s->dur[i];
        if (s->parent[i] == STK__NONE)
            continue;
        const size_t up = s->parent[i] - w->base;
        w->has[up] |= w->has[n] & (HAS_WORK | HAS_OWN | HAS_OP | HAS_RUNTIME);
        if (kind & OWN)
            w->has[up] |= HAS_OWN;
        if (op)
            w->has[up] |= HAS_OP;
        if (stk__is_runtime(w->c, i))
            w->has[up] |= HAS_RUNTIME;
        w->reads_ns[up] += w->reads_ns[n];
        w->writes_ns[up] += w->writes_ns[n];
    }
}

/*
 * A sampler does not see everything: a function of which at least a quarter of the calls work works in the others, too.
 */
static void spread_work(walk *w)
{
    const stk__string *names = w->c->trace->slices.name + w->base;
    for (size_t n = 0; n < w->count; n++)
        if (w->kind[n] & OWN) {
            w->seen[names[n]]++;
            w->worked[names[n]] += (w->has[n] & HAS_WORK) != 0;
        }
    for (size_t n = 0; n < w->count; n++)
        if (w->kind[n] & OWN && w->worked[names[n]] && 4 * (uint64_t)w->worked[names[n]] >= w->seen[names[n]])
            w->has[n] |= HAS_WORK;
    for (size_t n = 0; n < w->count; n++)
        w->seen[names[n]] = w->worked[names[n]] = 0;
}

/* ---- functions and their times ---- */

static stk__place place_of(const walk *w, size_t slice)
{
    stk__place at = {.name = w->c->trace->slices.name[slice]};
    at.file = stk__python_file_of(w->c->trace, &w->keys, slice, &at.line);
    return at;
}

static bool is_same(const stk__place *a, const stk__place *b)
{
    return a->name == b->name && a->file == b->file;
}

/* The function's row, made when it is new; UINT32_MAX: no memory. */
static uint32_t function_row(walk *w, stk__place place, stk__place around, bool self)
{
    stk__host *h = w->host;
    const stk__string name = place.name;
    for (uint32_t at = w->first[name]; at; at = h->functions[at - 1].next) {
        const stk__host_function *f = &h->functions[at - 1];
        if (f->self == self && is_same(&f->at, &place) && is_same(&f->around, &around))
            return at - 1;
    }
    if (h->function_count == UINT32_MAX - 1 ||
        !stk__grow((void **)&h->functions, &w->function_capacity, h->function_count + 1, sizeof *h->functions))
        return UINT32_MAX;
    h->functions[h->function_count] =
        (stk__host_function){.at = place, .around = around, .self = self, .next = w->first[name]};
    w->first[name] = (uint32_t)++h->function_count;
    return w->first[name] - 1;
}

static bool span_add(walk *w, int64_t from, int64_t to, uint32_t function)
{
    stk__host *h = w->host;
    from = STK_MAX(from, w->start);
    to = STK_MIN(to, w->end);
    if (from >= to)
        return true;
    if (!stk__grow((void **)&h->spans, &w->span_capacity, h->span_count + 1, sizeof *h->spans))
        return false;
    h->spans[h->span_count++] = (stk__host_span){from, to, function};
    return true;
}

/* The longest call within a slice that says what the slice does. */
static stk__place telling_call(const walk *w, size_t n, unsigned flag)
{
    const stk__slices *s = &w->c->trace->slices;
    const int64_t until = s->ts[w->base + n] + s->dur[w->base + n];
    size_t best = SIZE_MAX;
    int64_t longest = -1;
    for (size_t k = n; k < w->count && s->ts[w->base + k] < until && k < n + 4096; k++)
        if (w->kind[k] & flag && s->dur[w->base + k] > longest) {
            longest = s->dur[w->base + k];
            best = w->base + k;
        }
    return best == SIZE_MAX ? (stk__place){0} : place_of(w, best);
}

static bool settle(walk *w, size_t n, stk__place around, unsigned kind)
{
    const stk__slices *s = &w->c->trace->slices;
    const size_t i = w->base + n;
    const uint32_t row = function_row(w, place_of(w, i), around, false);
    if (row == UINT32_MAX)
        return false;
    stk__host_function *f = &w->host->functions[row];
    f->own = kind & OWN;
    f->is_op = !(kind & FRAME);
    if (kind & (MODEL | FRAMEWORK) || (kind & FRAME && !(kind & OWN) && w->has[n] & HAS_OP))
        f->known = true;
    f->calls++;
    f->total_ns += (double)s->dur[i];
    f->reads_ns += w->reads_ns[n];
    f->writes_ns += w->writes_ns[n];
    if (!f->because.name && 2 * w->reads_ns[n] >= (float)s->dur[i])
        f->because = telling_call(w, n, READS);
    else if (!f->because.name && 2 * w->writes_ns[n] >= (float)s->dur[i])
        f->because = telling_call(w, n, WRITES);
    w->has[n] |= SETTLED;
    return span_add(w, s->ts[i], s->ts[i] + s->dur[i], row);
}

/* ---- the walk ---- */

static stk__place owner_place(const walk *w, size_t n)
{
    const uint32_t up = w->c->trace->slices.parent[w->base + n];
    const uint32_t owner = up == STK__NONE ? 0 : w->owner[up - w->base];
    return owner ? place_of(w, w->base + owner - 1) : (stk__place){0};
}

/* Lines of an own function between the calls that it makes. */
static bool lines_between(walk *w, size_t n, int64_t until)
{
    if (!w->owner[n] || w->cursor[n] >= until)
        return true;
    const uint32_t row = function_row(w, place_of(w, w->base + w->owner[n] - 1), (stk__place){0}, true);
    if (row == UINT32_MAX)
        return false;
    w->host->functions[row].own = true;
    return span_add(w, w->cursor[n], until, row);
}

static bool is_question(const walk *w, size_t n, unsigned kind)
{
    const size_t i = w->base + n;
    return !(kind & FRAME) && w->c->has_device && !stk__is_container(w->c, i) && !stk__is_runtime(w->c, i) &&
           !(w->has[n] & (HAS_WORK | HAS_RUNTIME)) && w->c->trace->slices.dur[i] >= SHORT_OP_NS &&
           stk__classify(w->c, i, 0) == STK__HOST_COMPUTE;
}

static bool is_nameless(const walk *w, size_t slice)
{
    size_t size;
    const char *name = stk__trace_text(w->c->trace, w->c->trace->slices.name[slice], &size);
    return stk__contains(name, size, "<lambda>") || stk__contains(name, size, "<genexpr>") ||
           stk__contains(name, size, "comp>");
}

static bool visit(walk *w, size_t n)
{
    const stk__slices *s = &w->c->trace->slices;
    const size_t i = w->base + n;
    const unsigned kind = w->kind[n];
    const uint32_t parent = s->parent[i];
    const size_t up = parent == STK__NONE ? 0 : parent - w->base;
    if (s->flags[i] & STK__SLICE_INSTANT)
        return true;
    if (parent != STK__NONE && w->has[up] & SETTLED) {
        w->has[n] |= SETTLED;
        return true;
    }
    if (parent != STK__NONE) {
        if (!lines_between(w, up, s->ts[i]))
            return false;
        w->cursor[up] = STK_MAX(w->cursor[up], s->ts[i] + s->dur[i]);
    }
    w->cursor[n] = s->ts[i];
    if (is_question(w, n, kind) || kind & MODEL)
        return settle(w, n, (stk__place){0}, kind);
    if (!(kind & FRAME)) {
        if (parent != STK__NONE && stk__is_container(w->c, i))
            w->owner[n] = w->owner[up];
        return true;
    }
    if (w->has[n] & HAS_WORK) {
        w->owner[n] = kind & OWN ? (uint32_t)n + 1 : 0;
        return true;
    }
    /* "<lambda>" and "<genexpr>" are no names: what they call is. */
    const bool nameless = kind & OWN && is_nameless(w, i);
    if (kind & OWN && !(nameless && w->has[n] & HAS_OWN))
        return settle(w, n, (stk__place){0}, kind);
    return w->has[n] & HAS_OWN || settle(w, n, owner_place(w, n), kind);
}

static bool walk_lane(walk *w, uint32_t track)
{
    const stk__trace_track *k = &w->c->trace->tracks[track];
    const stk__slices *s = &w->c->trace->slices;
    unsigned seen = 0;
    bool ok = true;
    w->base = k->first_slice;
    w->count = k->slice_count;
    for (size_t n = 0; n < w->count; n++) {
        stk__trim_at(w->c->trace, w->base + n);
        seen |= w->kind[n] = (uint8_t)look_at(w, w->base + n);
    }
    if (!(seen & FRAME) && !w->c->has_device)
        return true;
    memset(w->has, 0, w->count);
    memset(w->owner, 0, w->count * sizeof *w->owner);
    memset(w->reads_ns, 0, w->count * sizeof *w->reads_ns);
    memset(w->writes_ns, 0, w->count * sizeof *w->writes_ns);
    gather_inside(w);
    spread_work(w);
    w->host->has_frames = w->host->has_frames || seen & FRAME;
    for (size_t n = 0; ok && n < w->count; n++)
        ok = visit(w, n);
    for (size_t n = 0; ok && n < w->count; n++)
        if (!(w->has[n] & SETTLED))
            ok = lines_between(w, n, s->ts[w->base + n] + s->dur[w->base + n]);
    return ok;
}

/* ---- what they mean ---- */

static stk__name_says name_says(const walk *w, stk__string name)
{
    size_t size;
    const char *text = stk__trace_text(w->c->trace, name, &size);
    stk__python_frame f;
    if (stk__python_frame_parse(text, size, &f))
        return stk__name_says_of(f.function, f.function_size);
    return stk__name_says_of(text, size);
}

static stk__host_meaning judge_function(const walk *w, stk__host_function *f)
{
    if (f->known)
        return STK__HOST_KNOWN;
    if (f->total_ns > 0 && 2 * f->reads_ns >= f->total_ns)
        return STK__HOST_INPUT;
    if (f->total_ns > 0 && 2 * f->writes_ns >= f->total_ns)
        return STK__HOST_KNOWN;
    f->because = (stk__place){0};
    const stk__name_says says = name_says(w, f->around.name ? f->around.name : f->at.name);
    if (says == STK__SAYS_INPUT)
        return STK__HOST_INPUT;
    /* Lines between the calls of "evaluate" may be anything. */
    return says == STK__SAYS_OTHER && f->own && !f->self ? STK__HOST_KNOWN : STK__HOST_OPEN;
}

static int by_time(const void *a, const void *b)
{
    const stk__host_span *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static size_t longest_lane(const stk__trace *t, uint32_t main_track)
{
    size_t longest = 0;
    for (size_t k = 0; k < t->track_count; k++)
        if (stk__track_root(t, (uint32_t)k) == main_track)
            longest = STK_MAX(longest, (size_t)t->tracks[k].slice_count);
    return longest;
}

static bool walk_make(walk *w, size_t slices)
{
    const size_t strings = (size_t)w->c->trace->string_count + 1;
    w->names = stk__calloc(strings, 1);
    w->first = stk__calloc(strings, sizeof *w->first);
    w->seen = stk__calloc(strings, sizeof *w->seen);
    w->worked = stk__calloc(strings, sizeof *w->worked);
    w->kind = stk__alloc(slices + 1);
    w->has = stk__alloc(slices + 1);
    w->cursor = stk__alloc((slices + 1) * sizeof *w->cursor);
    w->owner = stk__alloc((slices + 1) * sizeof *w->owner);
    w->reads_ns = stk__alloc((slices + 1) * sizeof *w->reads_ns);
    w->writes_ns = stk__alloc((slices + 1) * sizeof *w->writes_ns);
    return w->names && w->first && w->seen && w->worked && w->kind && w->has && w->cursor && w->owner && w->reads_ns &&
           w->writes_ns;
}

static void walk_clear(walk *w)
{
    stk__free(w->names);
    stk__free(w->first);
    stk__free(w->seen);
    stk__free(w->worked);
    stk__free(w->kind);
    stk__free(w->has);
    stk__free(w->cursor);
    stk__free(w->owner);
    stk__free(w->reads_ns);
    stk__free(w->writes_ns);
}

bool stk__host_find(const stk__classifier *c, uint32_t main_track, const stk__step *steps, size_t step_count,
                    stk__host *out)
{
    const stk__trace *t = c->trace;
    walk w = {.c = c, .host = out, .keys = stk__python_keys_of(t), .steps = steps, .step_count = step_count};
    w.start = step_count ? steps[0].ts : t->start_ns;
    w.end = step_count ? steps[step_count - 1].ts + steps[step_count - 1].dur : t->end_ns;
    bool ok = walk_make(&w, longest_lane(t, main_track));
    for (size_t k = 0; ok && k < t->track_count; k++)
        if (stk__track_root(t, (uint32_t)k) == main_track && t->tracks[k].slice_count)
            ok = walk_lane(&w, (uint32_t)k);
    for (size_t f = 0; ok && f < out->function_count; f++)
        out->functions[f].meaning = judge_function(&w, &out->functions[f]);
    if (ok && out->span_count)
        qsort(out->spans, out->span_count, sizeof *out->spans, by_time);
    walk_clear(&w);
    return ok;
}

unsigned stk__host_type(const stk__host_function *f, bool count_input)
{
    switch (f->meaning) {
    case STK__HOST_INPUT:
        return count_input ? STK__HOST_WAIT_INPUT : STK__HOST_COMPUTE;
    case STK__HOST_KNOWN:
        return STK__HOST_COMPUTE;
    default:
        /* An own function is asked about with all its ops; lines and library calls only where nothing else runs. */
        return (f->own && !f->self) || f->is_op ? STK__HOST_PYTHON : STK__HOST_BETWEEN;
    }
}

void stk__host_clear(stk__host *h)
{
    stk__free(h->functions);
    stk__free(h->spans);
    *h = (stk__host){0};
}

/* ---- as a stage ---- */

void stk__host_name(stk__diagnosis *d)
{
    const stk__rank *rank = &d->ranks[d->worst];
    for (size_t i = 0; !rank->visible && i < rank->host.function_count; i++) {
        const stk__host_function *f = &rank->host.functions[i];
        if (f->meaning != STK__HOST_KNOWN && f->ns > d->host.ns)
            d->host = *f;
    }
    d->host_percent = stk__percent_of(d->host.ns, rank->step_ns);
}

bool stk__stage_host(stk__stage_finder *finder, stk__stage *stage)
{
    const stk__rank *rank = &finder->d->ranks[finder->rank];
    for (size_t i = 0; !rank->visible && i < rank->host.function_count; i++) {
        const stk__host_function *f = &rank->host.functions[i];
        if (f->meaning != STK__HOST_INPUT || f->ns <= 0)
            continue;
        const uint32_t row = stk__stage_sum_named(finder, 0, f->at.name, f->at.file, f->at.line);
        if (row == STK__NONE)
            return false;
        finder->sums[row].ns += f->ns;
        finder->sums[row].calls += f->calls;
    }
    stk__stage_take(finder, stage);
    stage->kind = stage->count ? STK__STAGE_HOST : STK__STAGE_NONE;
    return true;
}
