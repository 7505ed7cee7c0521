/* From text to a plan: structure, order ops lifted to the index plane, batch and sink found. */
#include "engine/plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"

#include "base/banned.h"

#define IMPLICIT_BATCH 256

void stk__plan_note(stk__plan *plan, const char *tag, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    stk__text_printf(&plan->rewrites, "%s\t%s\n", tag, message);
}

static stk_status at_step(const stk__step *step, stk_status status, stk_error *err)
{
    if (status != STK_OK && err && !err->op[0])
        snprintf(err->op, sizeof err->op, "%s", step->op->name);
    return stk__at(err, step->line, step->column, status);
}

static stk_status make_step(stk__plan *plan, int i, const stk__op_text *text, stk_error *err)
{
    stk__step *step = &plan->steps[i];
    const stk_op *op = stk_registry_find(plan->registry, text->name);
    if (!op) {
        const char *nearest = stk_registry_nearest(plan->registry, text->name);
        if (nearest)
            stk_error_set(err, STK_INVALID, "unknown op '%s'; did you mean '%s'?", text->name, nearest);
        else
            stk_error_set(err, STK_INVALID, "unknown op '%s'; 'stoker ops' lists them", text->name);
        return stk__at(err, text->line, text->column, STK_INVALID);
    }
    *step = (stk__step){.op = op,
                        .number = i,
                        .line = text->line,
                        .column = text->column,
                        .args = text->args,
                        .arg_count = text->arg_count};
    /* An op that draws without saying so gets a number of its own too. */
    step->draws = 0x10000 + i;
    if (op->flags & STK_OP_RANDOM) {
        step->draws = 0;
        for (int k = 0; k < i; k++)
            step->draws += (plan->steps[k].op->flags & STK_OP_RANDOM) != 0;
    }
    plan->step_count = i + 1;
    STK_TRY(at_step(step, stk__options_bind(step, err), err));
    if (op->order && op->order->set_run_seed)
        op->order->set_run_seed(step->state, plan->config.seed);
    return STK_OK;
}

/* State of the walk over the text. */
typedef struct walk {
    bool after_batch;
    bool after_drop;  /* a sample op that may drop came before */
    bool after_relay; /* an order op that counts data came before */
    bool after_sample_op;
    const stk__step *after_rows; /* an op that works on finished batches came before */
} walk;

static stk_status add_chain(stk__plan *plan, stk__step *step, stk_error *err)
{
    stk__chain *chain = &plan->chain;
    if (chain->count == STK__CHAIN_MAX)
        return stk_error_set(err, STK_INVALID, "more than %d order ops", STK__CHAIN_MAX);
    plan->order_steps[chain->count] = step;
    chain->nodes[chain->count++] = (stk__chain_node){.order = step->op->order, .state = step->state};
    return STK_OK;
}

static stk_status add_relay(stk__plan *plan, stk__step *step, stk_error *err)
{
    if (plan->relay_count == STK__MAX_RELAYS)
        return stk_error_set(err, STK_UNSUPPORTED, "more than %d takes, skips and shards behind a filter",
                             STK__MAX_RELAYS);
    plan->relays[plan->relay_count++] =
        (stk__relay){.step = step, .segment_at = plan->segment_count, .chain_at = plan->chain.count};
    return STK_OK;
}

static stk_status place_order(stk__plan *plan, stk__step *step, walk *w, stk_error *err)
{
    const stk__order *order = step->op->order;
    const char *name = step->op->name;
    if (order->kind == STK__ORDER_INTERLEAVE && plan->chain.count > 0)
        return stk_error_set(err, STK_INVALID,
                             "works on the files of the source: put it before shuffle, take, skip, "
                             "shard and repeat");
    if (order->kind == STK__ORDER_INTERLEAVE && !plan->source->op->group_count)
        return stk_error_set(err, STK_INVALID, "%s has no files to interleave", plan->source->op->name);
    if (w->after_batch)
        return add_chain(plan, step, err);
    const bool is_shard = order->get_shard != NULL;
    if (w->after_drop && order->kind == STK__ORDER_SHUFFLE && w->after_relay)
        return stk_error_set(err, STK_UNSUPPORTED,
                             "cannot follow take, skip or shard behind a filter: how many samples "
                             "pass is not known; put it before the filter");
    if (w->after_drop && order->kind == STK__ORDER_SELECT) {
        if (!is_shard || w->after_relay || plan->config.no_approximate) {
            w->after_relay = true;
            return add_relay(plan, step, err);
        }
        plan->approximations |= STK__APPROXIMATE_SHARD;
        stk__plan_note(plan, "approximate",
                       "shard moved before the filter: each rank filters its own part; parts may "
                       "differ in size");
    } else if (w->after_sample_op) {
        stk__plan_note(plan, "exact", "%s lifted to the index plane: it only says which sample comes when", name);
    }
    return add_chain(plan, step, err);
}

static stk_status place_sample(stk__plan *plan, stk__step *step, walk *w, stk_error *err)
{
    if (w->after_rows)
        return stk_error_set(err, STK_INVALID, "works on single samples: put it before %s", w->after_rows->op->name);
    if (w->after_batch) {
        if (!(step->op->flags & STK_OP_ELEMENTWISE))
            return stk_error_set(err, STK_INVALID, "works on single samples: put it before batch");
        stk__plan_note(plan, "exact", "%s moved before batch: it gives the same on single samples", step->op->name);
    }
    w->after_sample_op = true;
    w->after_drop = w->after_drop || (step->op->flags & STK_OP_DROPS);
    plan->segment[plan->segment_count++] = step;
    return STK_OK;
}

/* At most one op of these roles. */
static stk_status place_single(stk__step **place, stk__step *step, stk_error *err)
{
    if (*place)
        return stk_error_set(err, STK_INVALID, "a pipeline has one %s, and there is one at line %d, column %d already",
                             step->op->name, (*place)->line, (*place)->column);
    *place = step;
    return STK_OK;
}

static stk_status place_step(stk__plan *plan, stk__step *step, walk *w, stk_error *err)
{
    switch (step->op->role) {
    case STK_ROLE_SOURCE:
        return stk_error_set(err, STK_INVALID, "is a source: it can only come first");
    case STK_ROLE_SAMPLE:
        return place_sample(plan, step, w, err);
    case STK_ROLE_ORDER:
        return place_order(plan, step, w, err);
    case STK_ROLE_BATCH:
        plan->chain.batch_at = plan->chain.count;
        w->after_batch = true;
        return place_single(&plan->batch, step, err);
    case STK_ROLE_CACHE:
        if (w->after_rows)
            return stk_error_set(err, STK_INVALID, "stores single samples: put it before %s", w->after_rows->op->name);
        if (w->after_batch)
            stk__plan_note(plan, "exact", "cache stores single samples, before batch");
        plan->cache_at = plan->segment_count;
        return place_single(&plan->cache, step, err);
    case STK_ROLE_PREFETCH:
        return place_single(&plan->prefetch, step, err);
    case STK_ROLE_ROWS:
        if (!w->after_batch)
            return stk_error_set(err, STK_INVALID, "mixes the samples of a batch: put it after batch");
        w->after_rows = step;
        plan->segment[plan->segment_count++] = step;
        return STK_OK;
    case STK_ROLE_SINK:
        if (step->number != (int)plan->text.op_count - 1)
            return stk_error_set(err, STK_INVALID, "is a sink: it can only come last");
        if (w->after_rows && step->op->process)
            return stk_error_set(err, STK_INVALID, "encodes single samples: it cannot write what %s makes of batches",
                                 w->after_rows->op->name);
        plan->sink = step;
        /* What a sink does to single samples (encoding them, say) runs in the workers; what it consumes comes in order. */
        if (step->op->process || step->op->schema)
            plan->segment[plan->segment_count++] = step;
        return STK_OK;
    }
    return STK_OK;
}

static stk__order_kind kind_of(const stk__step *step)
{
    return step->op->order->kind;
}

/* Whether the order is another one in each epoch, as in training: all ranks are to have as many samples then. */
static bool pads(const stk__plan *plan)
{
    for (int i = 1; i < (int)plan->text.op_count; i++) {
        const stk__step *step = &plan->steps[i];
        if (step->op->role == STK_ROLE_ORDER && kind_of(step) == STK__ORDER_SHUFFLE &&
            step->op->order->seed(step->state, 0) != step->op->order->seed(step->state, 1))
            return plan->config.auto_shard == STK_SHARD_AUTO;
    }
    return false;
}

/*
 * The step behind which ranks are to share samples: the last that says which samples there are, and in what order. A repeat
 * behind that goes over the part of a rank, which is as long in each epoch where the shard pads; where it keeps, what is
 * repeated before the batch is shared as a whole.
 */
static int automatic_place(const stk__plan *plan)
{
    const bool keeps = !pads(plan);
    bool after_batch = false;
    int place = 0;
    for (int i = 1; i < (int)plan->text.op_count; i++) {
        const stk__step *step = &plan->steps[i];
        after_batch = after_batch || step->op->role == STK_ROLE_BATCH;
        if (step->op->role == STK_ROLE_ORDER && (kind_of(step) != STK__ORDER_REPEAT || (keeps && !after_batch)))
            place = i;
    }
    return place;
}

/* Whether the planner may put in a shard: there is none, and no files are written, which ranks would do one over the other. */
static bool wants_automatic(const stk__plan *plan)
{
    for (size_t i = 0; i < plan->text.op_count; i++) {
        const stk_op *op = plan->steps[i].op;
        if ((op->role == STK_ROLE_ORDER && op->order->get_shard) || (op->role == STK_ROLE_SINK && op->finish))
            return false;
    }
    return plan->config.auto_shard != STK_SHARD_WRITTEN;
}

static stk_status make_automatic(stk__plan *plan, stk_error *err)
{
    if (!wants_automatic(plan) || plan->steps[0].op->role != STK_ROLE_SOURCE)
        return STK_OK;
    const char *text = pads(plan) ? "shard(uneven=pad)" : "shard(uneven=keep)";
    STK_TRY(stk__pipeline_parse(text, strlen(text), &plan->automatic_text, err));
    const int last = plan->step_count;
    STK_TRY(make_step(plan, last, &plan->automatic_text.ops[0], err));
    plan->automatic = &plan->steps[last];
    plan->automatic->line = plan->automatic->column = 0; /* nobody wrote it */
    return STK_OK;
}

/* With one rank it changes nothing, but lets the run go on with several. */
static stk_status place_automatic(stk__plan *plan, const walk *w, stk_error *err)
{
    stk__chain *chain = &plan->chain;
    const bool several = plan->config.world > 1;
    if (!several && (w->after_drop || chain->count == STK__CHAIN_MAX))
        return STK_OK;
    if (several)
        stk__plan_note(plan, "ranks", "%s behind %s: %lld ranks share the %s",
                       pads(plan) ? "shard(uneven=pad)" : "shard(uneven=keep)",
                       plan->steps[automatic_place(plan)].op->name, (long long)plan->config.world,
                       w->after_batch ? "batches" : "samples");
    if (w->after_drop && !w->after_batch && (w->after_relay || plan->config.no_approximate))
        return add_relay(plan, plan->automatic, err);
    if (w->after_drop && !w->after_batch)
        plan->approximations |= STK__APPROXIMATE_SHARD;
    chain->shard_at = chain->count;
    return add_chain(plan, plan->automatic, err);
}

/* Samples are kept once each, without a repeat that lets batches reach over the end of an epoch. */
static void choose_even_batches(stk__plan *plan)
{
    stk__chain *chain = &plan->chain;
    chain->even_batches = plan->config.auto_shard == STK_SHARD_AUTO && chain->shard_at >= 0 &&
                          chain->shard_at == chain->batch_at - 1 && !pads(plan);
}

static stk_status place_all(stk__plan *plan, stk_error *err)
{
    stk__step *first = &plan->steps[0];
    if (first->op->role != STK_ROLE_SOURCE)
        return at_step(
            first, stk_error_set(err, STK_INVALID, "a pipeline starts with a source such as tfrecord or range"), err);
    plan->source = first;
    plan->segment[plan->segment_count++] = first;
    plan->cache_at = -1;
    plan->chain.shard_at = plan->chain.repeat_at = -1;
    walk w = {0};
    const int automatic_at = plan->automatic ? automatic_place(plan) : -1;
    for (int i = 0; i < (int)plan->text.op_count; i++) {
        if (i > 0)
            STK_TRY(at_step(&plan->steps[i], place_step(plan, &plan->steps[i], &w, err), err));
        if (i == automatic_at)
            STK_TRY(at_step(plan->automatic, place_automatic(plan, &w, err), err));
    }
    if (!plan->batch)
        plan->chain.batch_at = plan->chain.count;
    choose_even_batches(plan);
    plan->may_drop = w.after_drop || plan->config.on_error != STK_ON_ERROR_STOP;
    return STK_OK;
}

static void set_batching(stk__plan *plan)
{
    if (plan->batch) {
        plan->batching = *(const stk__batch_state *)plan->batch->state;
    } else {
        plan->implicit_batch = true;
        plan->batching = (stk__batch_state){.size = IMPLICIT_BATCH};
    }
    plan->chain.batch_size = plan->batching.size;
    plan->chain.drop_last = plan->batching.drop_last;
}

static stk_status check_after_batch(const stk__plan *plan, stk_error *err)
{
    if (!plan->may_drop && !plan->stream)
        return STK_OK;
    int repeats = 0;
    for (int i = plan->chain.batch_at; i < plan->chain.count; i++) {
        const stk__step *step = plan->order_steps[i];
        if (step->op->order->kind == STK__ORDER_SHUFFLE)
            return at_step(step,
                           stk_error_set(err, STK_UNSUPPORTED,
                                         "batches can only be shuffled when their number is known: there is a "
                                         "filter, a stream or an --on-error policy before; shuffle samples instead"),
                           err);
        repeats += step->op->order->kind == STK__ORDER_REPEAT;
    }
    if (repeats > 1)
        return stk_error_set(err, STK_UNSUPPORTED, "more than one repeat behind batch needs a known number of batches");
    return STK_OK;
}

/* The op that all others stand before. */
static int last_op(const stk__plan *plan)
{
    int last = (int)plan->text.op_count - 1;
    while (last > 0 && (plan->steps[last].op->role == STK_ROLE_PREFETCH || plan->steps[last].op->role == STK_ROLE_SINK))
        last--;
    return last;
}

/* How many options at the start of an op's table do not say which samples come, up to where a run may come. */
static int free_options(const stk__plan *plan, int i)
{
    const stk__step *step = &plan->steps[i];
    if (step->op->role != STK_ROLE_ORDER)
        return 0;
    if (step->op->order->get_shard)
        return 2; /* count and index, which are compared for themselves */
    /* Rounds of whole batches at the end follow each other: more or fewer of them change nothing in those that were. */
    return plan->batch && i == last_op(plan) && step->op->order->kind == STK__ORDER_REPEAT ? 1 : 0;
}

/* The identity of the pipeline: all ops and options that say which samples come; not prefetch and sink. */
static void take_fingerprints(stk__plan *plan)
{
    stk__text t = STK__TEXT_INIT;
    for (int i = 0; i < (int)plan->text.op_count; i++) {
        const stk__step *step = &plan->steps[i];
        if (step == plan->cache)
            plan->prefix_fingerprint = XXH3_64bits(t.data ? t.data : "", t.length);
        if (step->op->role == STK_ROLE_PREFETCH || step->op->role == STK_ROLE_SINK)
            continue;
        stk__step_print(&t, step, free_options(plan, i));
        stk__text_putc(&t, '|');
    }
    stk__text_printf(&t, "%llu", (unsigned long long)plan->config.seed);
    plan->fingerprint = XXH3_64bits(t.data ? t.data : "", t.length);
    stk__text_clear(&t);
}

/* What a cache must keep: made before it, and used behind it. */
static stk_status choose_cache_vars(stk__plan *plan, stk_error *err)
{
    plan->cache_vars = stk__calloc((size_t)plan->var_count, sizeof *plan->cache_vars);
    if (!plan->cache_vars)
        return stk__nomem((size_t)plan->var_count * sizeof *plan->cache_vars, err);
    for (int id = 0; id < plan->var_count; id++) {
        const stk__var *var = &plan->vars[id];
        if (var->step >= plan->cache_at || !var->needed)
            continue;
        bool used = var->column >= 0;
        for (int i = plan->cache_at; i < plan->segment_count && !used; i++) {
            const stk__step *step = plan->segment[i];
            for (size_t k = 0; k < step->read_count && !step->unused; k++)
                used = used || step->reads[k] == id;
        }
        if (used)
            plan->cache_vars[plan->cache_var_count++] = id;
    }
    return STK_OK;
}

/* Whether padding of this type can be `value` as it is written; half floats know 0 alone. */
static bool pad_fits(stk_dtype dtype, double value)
{
    static const struct {
        double low, high; /* high: the first that is too large */
    } ranges[STK_DTYPE_COUNT] = {
        [STK_BOOL] = {0, 2},
        [STK_UINT8] = {0, 0x1p8},
        [STK_INT8] = {-0x1p7, 0x1p7},
        [STK_UINT16] = {0, 0x1p16},
        [STK_INT16] = {-0x1p15, 0x1p15},
        [STK_UINT32] = {0, 0x1p32},
        [STK_INT32] = {-0x1p31, 0x1p31},
        [STK_UINT64] = {0, 0x1p64},
        [STK_INT64] = {-0x1p63, 0x1p63},
    };
    if (value == 0 || dtype == STK_BYTES || dtype == STK_FLOAT64)
        return true;
    if (dtype == STK_FLOAT32)
        return value >= -0x1.fffffep127 && value <= 0x1.fffffep127;
    return value >= ranges[dtype].low && value < ranges[dtype].high && value == floor(value);
}

static stk_status check_padding(const stk__plan *plan, stk_error *err)
{
    for (int i = 0; plan->batching.pad && i < plan->visible_count; i++) {
        const stk__var *var = &plan->vars[plan->visible[i]];
        if (!var->fixed && !pad_fits(var->dtype, plan->batching.pad_value))
            return at_step(plan->batch,
                           stk_error_set(err, STK_INVALID, "field '%s' of type %s cannot be padded with %g", var->name,
                                         stk_dtype_name(var->dtype), plan->batching.pad_value),
                           err);
    }
    return STK_OK;
}

stk_status stk__plan_make(stk__plan *plan, const char *text, const stk_config *config, stk_error *err)
{
    plan->config = *config;
    plan->registry = config->registry;
    STK_TRY(stk__pipeline_parse(text, strlen(text), &plan->text, err));
    const size_t n = plan->text.op_count;
    plan->steps = stk__calloc(n + 1, sizeof *plan->steps); /* one more for the automatic one */
    plan->segment = stk__calloc(n + 1, sizeof *plan->segment);
    if (!plan->steps || !plan->segment)
        return stk__nomem(n * sizeof *plan->steps, err);
    for (size_t i = 0; i < n; i++)
        STK_TRY(make_step(plan, (int)i, &plan->text.ops[i], err));
    STK_TRY(make_automatic(plan, err));
    STK_TRY(place_all(plan, err));
    set_batching(plan);
    STK_TRY(stk__plan_schema(plan, err));
    STK_TRY(stk__plan_select(plan, err));
    STK_TRY(stk__plan_label(plan, err));
    stk__plan_liveness(plan);
    STK_TRY(check_padding(plan, err));
    if (plan->cache)
        STK_TRY(choose_cache_vars(plan, err));
    STK_TRY(stk__plan_fuse(plan, err));
    take_fingerprints(plan);
    return STK_OK;
}

static stk_status open_step(stk__step *step, void *impl, stk_error *err)
{
    step->call = (stk_call){.host = &stk__host, .state = step->state, .impl = impl};
    step->opened = !step->unused;
    if (step->op->open && !step->unused)
        return at_step(step, step->op->open(&step->call, err), err);
    return STK_OK;
}

static stk_status prepare_interleave(stk__plan *plan, stk__step *step, stk_error *err)
{
    const stk_op *source = plan->source->op;
    const stk_call *call = &plan->source->call;
    const stk__order *order = step->op->order;
    if (plan->stream) {
        int64_t cycle, block;
        order->cycle(step->state, &cycle, &block);
        if (!source->set_interleave)
            return stk_error_set(err, STK_UNSUPPORTED, "%s has no files to interleave", source->name);
        source->set_interleave(call, cycle, block);
        return STK_OK;
    }
    if (!source->group_count)
        return stk_error_set(err, STK_UNSUPPORTED, "%s has no files to interleave", source->name);
    const int64_t groups = source->group_count(call);
    int64_t *firsts = stk__calloc((size_t)groups + 1, sizeof *firsts);
    if (!firsts)
        return stk__nomem((size_t)groups * sizeof *firsts, err);
    for (int64_t g = 0; g <= groups; g++)
        firsts[g] = source->group_first(call, g);
    const stk_status status = order->prepare(step->state, firsts, groups, err);
    stk__free(firsts);
    return status;
}

/* The first position of node `at` whose sample comes at or behind sample `wanted` of the source; maps rise up to `end`. */
static int64_t position_of(const stk__chain *chain, int at, int64_t wanted, int64_t end)
{
    int64_t low = 0, high = end;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        stk__position p = {middle, 0};
        for (int i = at - 1; i >= 0; i--)
            chain->nodes[i].order->map(chain->nodes[i].state, chain->nodes[i].in, &p);
        if (p.index < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Where the source's blocks begin in the sequence that node `at` sees. */
static stk_status find_blocks(const stk__plan *plan, int at, int64_t **out, int64_t *out_count, stk_error *err)
{
    const stk_op *source = plan->source->op;
    const stk_call *call = &plan->source->call;
    const int64_t blocks = source->block_count(call), end = plan->chain.nodes[at].in;
    int64_t *firsts = stk__calloc((size_t)blocks + 1, sizeof *firsts);
    if (!firsts)
        return stk__nomem((size_t)blocks * sizeof *firsts, err);
    int64_t count = 0;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t first = source->block_first(call, b);
        const int64_t position = at == 0 ? first : position_of(&plan->chain, at, first, end);
        if (count > 0 && firsts[count - 1] == position)
            count--; /* the one before has no sample here */
        if (position < end)
            firsts[count++] = position;
    }
    firsts[count] = end;
    *out = firsts;
    *out_count = count;
    return STK_OK;
}

static void warn(const stk__plan *plan, const char *text)
{
    if (plan->config.log)
        plan->config.log(plan->config.log_arg, STK_LOG_WARNING, text);
}

/* A shuffle that mixes more than there is memory for still gives the right rows, but reads most of them again and again. */
static void check_room(stk__plan *plan, int64_t bytes)
{
    const int64_t room = plan->source->op->block_room(&plan->source->call);
    if (bytes <= room / 2)
        return;
    stk__text t = STK__TEXT_INIT;
    stk__text_puts(&t, "the chunks that shuffle mixes take ");
    stk__text_bytes(&t, (uint64_t)bytes);
    stk__text_puts(&t, ", twice that while one window follows the other, and there is room for ");
    stk__text_bytes(&t, (uint64_t)room);
    stk__text_puts(&t, ": they will be decoded again and again; raise the memory budget or take a smaller window");
    stk__plan_note(plan, "slow", "%s", t.data ? t.data : "");
    if (t.data)
        warn(plan, t.data);
    stk__text_clear(&t);
}

static stk_status prepare_shuffle(stk__plan *plan, int at, stk_error *err)
{
    const stk__step *step = plan->order_steps[at];
    const stk_op *source = plan->source->op;
    const stk__order *order = step->op->order;
    if (!source->block_count || source->block_count(&plan->source->call) == 0) {
        stk__plan_note(plan, "exact", "the window of shuffle has no effect: %s reads every sample on its own",
                       source->name);
        return STK_OK;
    }
    if (at >= plan->chain.batch_at)
        return stk_error_set(err, STK_INVALID,
                             "a shuffle with a window mixes samples, not batches: put it before batch");
    for (int i = 0; i < at; i++)
        if (plan->chain.nodes[i].order->kind != STK__ORDER_SELECT)
            return stk_error_set(
                err, STK_INVALID,
                "a shuffle with a window must see the samples in the order of the files: put it before %s",
                plan->order_steps[i]->op->name);
    int64_t *firsts = NULL, blocks = 0;
    char *note = NULL;
    STK_TRY(find_blocks(plan, at, &firsts, &blocks, err));
    int64_t bytes = 0;
    const stk_status status = order->prepare_blocks(step->state, firsts, blocks,
                                                    source->block_bytes(&plan->source->call), &note, &bytes, err);
    if (note)
        stk__plan_note(plan, "as asked", "%s", note);
    check_room(plan, bytes);
    stk__free(note);
    stk__free(firsts);
    return status;
}

/* Ranks that the user did not write come from the configuration. */
static void fill_shard(stk__plan *plan, stk__step *step)
{
    int64_t count, index;
    step->op->order->get_shard(step->state, &count, &index);
    if (count == 0)
        step->op->order->set_shard(step->state, plan->config.world > 0 ? plan->config.world : 1,
                                   plan->config.world > 0 ? plan->config.rank : 0);
    /* Who makes samples one after the other may well make groups of them. */
    if (step == plan->automatic && plan->config.world > 1 && plan->stream && plan->chain.shard_at < plan->chain.batch_at)
        step->op->order->set_block(step->state, plan->batching.size);
}

/* Loops whose ranks wait for each other in every step hang when one of them ends before the others. */
static void warn_of_ranks(const stk__plan *plan)
{
    bool filters = false;
    for (int i = 0; i < plan->segment_count; i++)
        filters = filters || (plan->segment[i]->op->flags & STK_OP_DROPS);
    if (!plan->automatic || plan->config.world < 2 || plan->config.auto_shard != STK_SHARD_AUTO)
        return;
    if (filters)
        warn(plan, "ranks may get different numbers of batches, since each filters its own samples: a loop that waits for "
                   "the other ranks in every step must stop after a number of steps that all can make");
    else if (!plan->stream && !plan->may_drop && stk__chain_ranks_differ(&plan->chain, plan->config.world))
        warn(plan, "ranks get different numbers of batches, as each sample comes once: a loop that waits for the other ranks "
                   "in every step must not run over all of them; shard(uneven=pad) or shard(uneven=drop) gives all as many");
}

/* What arithmetic on positions cannot do. */
static stk_status check_reach(const stk__plan *plan, stk_error *err)
{
    const stk__chain *chain = &plan->chain;
    for (int i = 0; i < chain->count; i++) {
        if (chain->nodes[i].order->kind == STK__ORDER_SHUFFLE && chain->nodes[i].in == STK__ENDLESS)
            return at_step(plan->order_steps[i],
                           stk_error_set(err, STK_INVALID, "cannot shuffle what has no end: put it before repeat"),
                           err);
    }
    /* A run that starts so far out would not get anywhere; one that starts nearer never comes there. */
    if (chain->total == 0)
        return STK_OK;
    stk__position first;
    int64_t rows;
    stk__chain_batch(chain, 0, &first, &rows);
    for (int i = chain->batch_at - 1; i >= 0 && first.index < STK__POSITION_MAX; i--)
        chain->nodes[i].order->map(chain->nodes[i].state, chain->nodes[i].in, &first);
    if (first.index >= STK__POSITION_MAX)
        return stk_error_set(err, STK_INVALID, "the first batch would start behind sample 2^62");
    return STK_OK;
}

static bool needs_count(const stk__step *step)
{
    const stk__order *order = step->op->order;
    return order->needs_count && order->needs_count(step->state);
}

/* Ops that must know how many elements there are, where that cannot be told. */
static stk_status check_counts(const stk__plan *plan, stk_error *err)
{
    const stk__step *bad = NULL;
    for (int i = 0; i < plan->relay_count; i++)
        bad = needs_count(plan->relays[i].step) ? plan->relays[i].step : bad;
    for (int i = 0; i < plan->chain.count; i++) {
        const bool dropped = i >= plan->chain.batch_at && plan->may_drop;
        const bool unknown = plan->stream || dropped || plan->chain.nodes[i].in == STK__ENDLESS;
        bad = unknown && needs_count(plan->order_steps[i]) ? plan->order_steps[i] : bad;
    }
    if (!bad)
        return STK_OK;
    return at_step(bad,
                   stk_error_set(err, STK_UNSUPPORTED,
                                 "one stretch for each part needs a known number of samples: there is a "
                                 "stream, a filter or an endless repeat before"),
                   err);
}

static stk_status complete_order(stk__plan *plan, stk_error *err)
{
    for (int i = 0; i < plan->step_count; i++) {
        stk__step *step = &plan->steps[i];
        if (step->op->role != STK_ROLE_ORDER)
            continue;
        if (step->op->order->get_shard)
            fill_shard(plan, step);
        if (step->op->order->kind == STK__ORDER_INTERLEAVE)
            STK_TRY(at_step(step, prepare_interleave(plan, step, err), err));
    }
    STK_TRY(check_after_batch(plan, err));
    if (plan->stream) {
        warn_of_ranks(plan);
        return check_counts(plan, err);
    }
    stk__chain_measure(&plan->chain);
    warn_of_ranks(plan);
    STK_TRY(check_counts(plan, err));
    stk__chain_inelastic(&plan->chain); /* finds the shard, while nobody else looks at the chain */
    for (int i = 0; i < plan->chain.count; i++) {
        const stk__order *order = plan->chain.nodes[i].order;
        if (order->wants_blocks && order->wants_blocks(plan->chain.nodes[i].state))
            STK_TRY(at_step(plan->order_steps[i], prepare_shuffle(plan, i, err), err));
    }
    return check_reach(plan, err);
}

bool stk__plan_repeats(const stk__plan *plan)
{
    bool repeats = false;
    for (int i = 0; i < plan->step_count; i++) {
        const stk__step *step = &plan->steps[i];
        if (step->op->role == STK_ROLE_ORDER && step->op->order->kind == STK__ORDER_REPEAT)
            repeats = repeats || step->op->order->times(step->state) > 1;
    }
    return repeats;
}

stk_status stk__plan_open(stk__plan *plan, void *impl, stk_error *err)
{
    STK_TRY(open_step(plan->source, impl, err));
    plan->chain.source_count = plan->source->op->count(&plan->source->call);
    plan->stream = plan->chain.source_count < 0;
    for (int i = 1; i < plan->step_count; i++)
        STK_TRY(open_step(&plan->steps[i], impl, err));
    return complete_order(plan, err);
}

static void close_step(stk__step *step)
{
    /* Tables made while planning are the state's too, so close runs whether or not open did. */
    if (step->op->close && step->state && !step->closed)
        step->op->close(step->state);
    step->closed = true;
}

/* But for ops that have a long look at their data: the state of a stopped run may still ask for it. */
void stk__plan_close(stk__plan *plan)
{
    for (int i = plan->step_count - 1; i >= 0; i--)
        if (!(plan->steps[i].op->flags & STK_OP_LOOKS_LONG))
            close_step(&plan->steps[i]);
}

void stk__plan_clear(stk__plan *plan)
{
    for (int i = plan->step_count - 1; i >= 0; i--)
        close_step(&plan->steps[i]);
    for (int i = plan->step_count - 1; i >= 0; i--) {
        stk__step *step = &plan->steps[i];
        stk__options_clear(step);
        stk__free(step->reads);
        stk__free(step->writes);
        stk__free(step->group);
        stk__free(step->label);
    }
    for (int i = 0; i < plan->var_count; i++)
        stk__free(plan->vars[i].name);
    stk__free(plan->steps);
    stk__free(plan->vars);
    stk__free(plan->visible);
    stk__free(plan->segment);
    stk__free(plan->cache_vars);
    stk__text_clear(&plan->rewrites);
    stk__text_clear(&plan->explain);
    stk__text_clear(&plan->explain_json);
    stk__pipeline_text_clear(&plan->text);
    stk__pipeline_text_clear(&plan->automatic_text);
}
