/* Samples of a stream in order: the source from front to back, and order ops as they go by. */
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/run.h"

/* Running state of one order op. */
typedef struct node_state {
    int64_t seen;         /* SELECT */
    int64_t round;        /* REPEAT */
    stk__item **held;     /* SHUFFLE and SELECT by blocks: samples held back */
    size_t held_capacity;
    int64_t held_count, held_max, given;
    bool drained;         /* what comes before has ended */
    int64_t dealt;        /* SELECT by blocks: of the held ones, those that were handed on */
} node_state;

typedef struct stk__feeder {
    stk__worker worker; /* gives the source a call object, scratch and a row to write to */
    stk__part *part;
    node_state nodes[STK__CHAIN_MAX];
    int64_t next_index;   /* of the source, in this pass */
    _Atomic int64_t source_count; /* known after a whole pass; -1 */
    int64_t round, rounds;        /* of the repeat behind the batch: this one, and how many there are */
    bool rewound, source_ended;
    pthread_mutex_t lock;
    stk__item *spare; /* guarded by lock */
} stk__feeder;

static stk__item *item_take(stk__feeder *f, stk_error *err)
{
    pthread_mutex_lock(&f->lock);
    stk__item *item = f->spare;
    if (item)
        f->spare = item->next;
    pthread_mutex_unlock(&f->lock);
    if (!item)
        item = stk__calloc(1, sizeof *item);
    if (!item)
        stk__nomem(sizeof *item, err);
    else
        item->packed.size = 0;
    return item;
}

static void item_give(stk__feeder *f, stk__item *item)
{
    if (!item)
        return;
    stk__free(item->bad);
    item->bad = NULL;
    pthread_mutex_lock(&f->lock);
    item->next = f->spare;
    f->spare = item;
    pthread_mutex_unlock(&f->lock);
}

void stk__feeder_return(stk_pipeline *p, stk__part *part)
{
    for (int64_t i = 0; i < part->rows; i++) {
        item_give(p->feeder, part->items[i]);
        part->items[i] = NULL;
    }
}

/* Epochs as the order ops stand now, the same sums as over an indexed source. */
static void set_epochs(const stk_pipeline *p, const stk__feeder *f, stk__item *item)
{
    const stk__chain *chain = &p->plan.chain;
    int64_t epoch = item->epoch_behind_batch = stk__chain_round_epoch(chain, f->round);
    for (int i = chain->batch_at; i >= 0; i--) {
        for (int k = 0; k < p->plan.relay_count; k++)
            if (p->plan.relays[k].chain_at == i)
                item->epochs[k] = epoch;
        if (i > 0 && chain->nodes[i - 1].order->kind == STK__ORDER_REPEAT)
            epoch = stk__epoch_join(epoch, chain->nodes[i - 1].order->times(chain->nodes[i - 1].state),
                                    f->nodes[i - 1].round);
    }
    item->epoch = epoch;
}

/* The epoch that order op `at` sees: that of the repeats behind it. */
static int64_t epoch_behind(const stk_pipeline *p, const stk__feeder *f, int at)
{
    const stk__chain *chain = &p->plan.chain;
    int64_t epoch = stk__chain_round_epoch(chain, f->round);
    for (int i = chain->batch_at - 1; i > at; i--)
        if (chain->nodes[i].order->kind == STK__ORDER_REPEAT)
            epoch = stk__epoch_join(epoch, chain->nodes[i].order->times(chain->nodes[i].state), f->nodes[i].round);
    return epoch;
}

static stk_status bad_item(stk_pipeline *p, stk__item *item, const stk_sample *sample, const stk_error *error, stk_error *err)
{
    item->bad = stk__calloc(1, sizeof *item->bad);
    if (!item->bad)
        return stk__nomem(sizeof *item->bad, err);
    item->bad->error = *error;
    item->bad->origin = sample->origin;
    stk__error_origin(&item->bad->error, &sample->origin, p->plan.source->op->name);
    return STK_OK;
}

/* The source need not be read once the cache holds all of it. */
static bool source_from_cache(const stk_pipeline *p, const stk__feeder *f)
{
    return p->cache && f->source_count >= 0 && stk__cache_complete(p);
}

/* Waits for memory where there is too little: what was pulled cannot be pulled again. */
static stk_status pack_item(stk_pipeline *p, const stk_sample *sample, stk__item *item, stk_error *err)
{
    const stk__step *source = p->plan.source;
    const int count = (int)source->write_count;
    stk_status status = stk__pack(&p->plan, source->writes, count, sample->values, &item->packed, &p->budget, err);
    if (STK_LIKELY(status != STK_BUDGET) || !stk__room_enter(p, NULL, p->last_serial))
        return status;
    do {
        stk_error_clear(err);
        status = stk__pack(&p->plan, source->writes, count, sample->values, &item->packed, &p->budget, err);
    } while (status == STK_BUDGET && stk__room_await(p, p->last_serial));
    stk__room_leave(p);
    return status;
}

static stk_status pull_source(stk_pipeline *p, stk__feeder *f, stk__item *item, stk_error *err)
{
    const stk__step *source = p->plan.source;
    const stk_call *call = &f->worker.calls[0].call;
    stk_sample *sample = &f->worker.tile[0].sample;
    if (!f->rewound) {
        STK_TRY(source->op->rewind(call, err));
        f->rewound = true;
    }
    sample->index = f->next_index;
    sample->origin = (stk_origin){NULL, -1, -1, -1};
    stk_error error;
    stk_error_clear(&error);
    const stk_status status = source->op->pull(call, sample, &error);
    stk_status result = STK_OK;
    if (status == STK_OK)
        result = pack_item(p, sample, item, err);
    else if (status == STK_CORRUPT || status == STK_UNFIT || status == STK_IO)
        result = bad_item(p, item, sample, &error, err);
    else if (status == STK_END)
        result = STK_END;
    else {
        if (err)
            *err = error;
        result = status;
    }
    item->origin = sample->origin;
    stk__arena_reset(&f->worker.scratch, p->chunks);
    stk__arena_reset(&f->part->arena, p->chunks);
    return result;
}

static stk_status next_of_source(stk_pipeline *p, stk__feeder *f, stk__item **out, stk_error *err)
{
    if (f->source_ended)
        return STK_END;
    stk__item *item = item_take(f, err);
    if (!item)
        return STK_NOMEM;
    stk_status status = STK_OK;
    item->from_cache = source_from_cache(p, f);
    if (item->from_cache)
        status = f->next_index < f->source_count ? STK_OK : STK_END;
    else
        status = pull_source(p, f, item, err);
    if (status != STK_OK) {
        item_give(f, item);
        if (status == STK_END) {
            f->source_count = f->next_index;
            f->source_ended = true;
        }
        return status;
    }
    item->index = f->next_index++;
    set_epochs(p, f, item);
    *out = item;
    return STK_OK;
}

static void rewind_before(stk__feeder *f, int at)
{
    for (int i = 0; i < at; i++) {
        node_state *n = &f->nodes[i];
        n->seen = n->round = n->given = 0;
        n->drained = false;
        for (; n->held_count > n->dealt; n->held_count--)
            item_give(f, n->held[n->held_count - 1]);
        n->held_count = n->dealt = 0;
    }
    f->next_index = 0;
    f->rewound = f->source_ended = false;
}

static stk_status next_of_node(stk_pipeline *p, stk__feeder *f, int at, stk__item **out, stk_error *err);

static stk_status next_selected(stk_pipeline *p, stk__feeder *f, int at, stk__item **out, stk_error *err)
{
    const stk__chain_node *node = &p->plan.chain.nodes[at];
    for (;;) {
        const stk__pass pass = node->order->pass(node->state, f->nodes[at].seen);
        if (pass == STK__PASS_END)
            return STK_END;
        stk__item *item;
        STK_TRY(next_of_node(p, f, at - 1, &item, err));
        f->nodes[at].seen++;
        if (pass == STK__PASS_KEEP) {
            *out = item;
            return STK_OK;
        }
        item_give(f, item);
        if (atomic_load(&p->cancelled))
            return stk_error_set(err, STK_CANCELLED, "the run was cancelled");
    }
}

/* The next item of what comes before node `at`; NULL: it has ended. */
static stk_status next_before(stk_pipeline *p, stk__feeder *f, int at, stk__item **out, stk_error *err)
{
    const stk_status status = next_of_node(p, f, at - 1, out, err);
    if (status != STK_END)
        return status;
    f->nodes[at].drained = true;
    *out = NULL;
    return STK_OK;
}

/* Grows with what arrives, whatever size was asked for. */
static stk_status hold_item(stk__feeder *f, node_state *n, stk__item *item, stk_error *err)
{
    if (!stk__grow((void **)&n->held, &n->held_capacity, (size_t)n->held_count + 1, sizeof *n->held)) {
        item_give(f, item);
        return stk__nomem((size_t)n->held_count * sizeof *n->held, err);
    }
    n->held[n->held_count++] = item;
    return STK_OK;
}

/*
 * A round is a block for each rank. One that the stream's end cuts off is dealt out sample by sample, so that all ranks make as
 * many batches of it: what may become ours in either way is held until the round is known to be whole.
 */
static stk_status fill_round(stk_pipeline *p, stk__feeder *f, int at, int64_t *out_size, stk_error *err)
{
    node_state *n = &f->nodes[at];
    const stk__chain_node *node = &p->plan.chain.nodes[at];
    int64_t count, index, size = 0;
    node->order->get_shard(node->state, &count, &index);
    const int64_t block = node->order->get_block(node->state);
    n->held_count = n->dealt = 0;
    for (; size < count * block; size++) {
        stk__item *item;
        STK_TRY(next_before(p, f, at, &item, err));
        if (!item)
            break;
        item->place = size;
        if (size / block == index || size % count == index || size == 0)
            STK_TRY(hold_item(f, n, item, err));
        else
            item_give(f, item);
        if (atomic_load(&p->cancelled))
            return stk_error_set(err, STK_CANCELLED, "the run was cancelled");
    }
    *out_size = size;
    return STK_OK;
}

/* Leaves those of the held ones that are this rank's, in order. */
static void keep_own(const stk__chain_node *node, stk__feeder *f, node_state *n, int64_t size)
{
    int64_t count, index, kept = 0;
    node->order->get_shard(node->state, &count, &index);
    const int64_t block = node->order->get_block(node->state);
    const bool whole = size == count * block;
    /* Where it pads, the first sample once more makes up for the one that other ranks have. Of a single sample, a rank that is not
       the first gets something only if it pads. */
    const bool short_of_one = !whole && size % count != 0 && index >= size % count;
    const bool pads = short_of_one && node->order->length(node->state, 1) > 0;
    stk__item *first = NULL;
    for (int64_t i = 0; i < n->held_count; i++) {
        stk__item *item = n->held[i];
        if ((whole ? item->place / block : item->place % count) == index)
            n->held[kept++] = item;
        else if (pads && item->place == 0)
            first = item;
        else
            item_give(f, item);
    }
    if (first)
        n->held[kept++] = first; /* it was one of them: there is room */
    n->held_count = kept;
}

static stk_status next_dealt(stk_pipeline *p, stk__feeder *f, int at, stk__item **out, stk_error *err)
{
    node_state *n = &f->nodes[at];
    while (n->dealt == n->held_count) {
        int64_t size = 0;
        if (n->drained)
            return STK_END;
        STK_TRY(fill_round(p, f, at, &size, err));
        keep_own(&p->plan.chain.nodes[at], f, n, size);
    }
    *out = n->held[n->dealt++];
    return STK_OK;
}

static stk_status fill_shuffle(stk_pipeline *p, stk__feeder *f, int at, stk_error *err)
{
    node_state *n = &f->nodes[at];
    while (!n->drained && n->held_count < n->held_max) {
        stk__item *item;
        STK_TRY(next_before(p, f, at, &item, err));
        if (item)
            STK_TRY(hold_item(f, n, item, err));
    }
    return STK_OK;
}

static stk_status next_shuffled(stk_pipeline *p, stk__feeder *f, int at, stk__item **out, stk_error *err)
{
    node_state *n = &f->nodes[at];
    const stk__chain_node *node = &p->plan.chain.nodes[at];
    n->held_max = node->order->buffer(node->state);
    STK_TRY(fill_shuffle(p, f, at, err));
    if (n->held_count == 0)
        return STK_END;
    const uint64_t seed = node->order->seed(node->state, epoch_behind(p, f, at));
    const uint64_t draw = stk__mix(seed, (uint64_t)n->given++);
    /* The high half of a product is an even enough choice for any buffer that fits in memory. */
    const int64_t pick = (int64_t)(((__uint128_t)draw * (uint64_t)n->held_count) >> 64);
    *out = n->held[pick];
    n->held[pick] = n->held[--n->held_count];
    return STK_OK;
}

static stk_status next_repeated(stk_pipeline *p, stk__feeder *f, int at, stk__item **out, stk_error *err)
{
    const stk__chain_node *node = &p->plan.chain.nodes[at];
    for (int empty = 0; empty < 2; empty++) {
        const stk_status status = next_of_node(p, f, at - 1, out, err);
        if (status != STK_END)
            return status;
        if (f->nodes[at].round + 1 >= node->order->times(node->state))
            return STK_END;
        f->nodes[at].round++;
        rewind_before(f, at);
    }
    return STK_END; /* two empty rounds: there is nothing to repeat */
}

static bool deals_blocks(const stk__chain_node *node)
{
    return node->order->get_block && node->order->get_block(node->state) > 1;
}

static stk_status next_of_node(stk_pipeline *p, stk__feeder *f, int at, stk__item **out, stk_error *err)
{
    if (at < 0)
        return next_of_source(p, f, out, err);
    switch (p->plan.chain.nodes[at].order->kind) {
    case STK__ORDER_SELECT:
        return deals_blocks(&p->plan.chain.nodes[at]) ? next_dealt(p, f, at, out, err)
                                                       : next_selected(p, f, at, out, err);
    case STK__ORDER_SHUFFLE:
        return next_shuffled(p, f, at, out, err);
    case STK__ORDER_REPEAT:
        return next_repeated(p, f, at, out, err);
    case STK__ORDER_INTERLEAVE:
        return next_of_node(p, f, at - 1, out, err); /* the source does it */
    }
    return STK_END;
}

static int64_t rounds_behind_batch(const stk_pipeline *p)
{
    const stk__chain *chain = &p->plan.chain;
    for (int i = chain->batch_at; i < chain->count; i++)
        if (chain->nodes[i].order->kind == STK__ORDER_REPEAT)
            return chain->nodes[i].order->times(chain->nodes[i].state);
    return 1;
}

static stk_status next_item(stk_pipeline *p, stk__item **out, stk_error *err)
{
    stk__feeder *f = p->feeder;
    const int last = p->plan.chain.batch_at - 1;
    for (int empty = 0; empty < 2 && f->round < f->rounds; empty++) {
        const stk_status status = next_of_node(p, f, last, out, err);
        if (status != STK_END)
            return status;
        if (f->round + 1 >= f->rounds)
            return STK_END;
        f->round++;
        rewind_before(f, last + 1);
    }
    return STK_END;
}

stk_status stk__feeder_pull(stk_pipeline *p, stk__worker *worker, stk__part *part, int64_t rows, stk_error *err)
{
    p->feeder->worker.track = worker->track; /* waits of the source show where they happen */
    part->rows = 0;
    /* All parts together get a quarter of the budget. */
    const size_t most = (size_t)p->budget.limit / 4 / (size_t)(p->threads + 2);
    size_t bytes = 0;
    while (part->rows < rows && bytes < most) {
        stk__item *item;
        const stk_status status = next_item(p, &item, err);
        if (status == STK_END)
            return STK_END;
        STK_TRY(status);
        part->items[part->rows++] = item;
        bytes += item->packed.capacity;
        if (atomic_load(&p->cancelled))
            break;
    }
    return STK_OK;
}

void stk__feeder_begin(stk_pipeline *p, int64_t round)
{
    p->feeder->round = round;
}

stk_status stk__feeder_skip(stk_pipeline *p, int64_t count, stk_error *err)
{
    for (int64_t i = 0; i < count; i++) {
        stk__item *item;
        const stk_status status = next_item(p, &item, err);
        if (status == STK_END)
            return stk_error_set(err, STK_MISMATCH, "the checkpoint stands at sample %lld, but the stream has only %lld",
                                 (long long)count, (long long)i);
        STK_TRY(status);
        p->last_epoch_behind_batch = item->epoch_behind_batch; /* else the first batch would seem to start a new round */
        item_give(p->feeder, item);
        if (i % 4096 == 0 && p->plan.config.progress &&
            !p->plan.config.progress(p->plan.config.progress_arg, "going to the checkpoint", i, count))
            return stk_error_set(err, STK_CANCELLED, "the run was cancelled");
    }
    return STK_OK;
}

stk_status stk__feeder_open(stk_pipeline *p, stk_error *err)
{
    stk__feeder *f = stk__calloc(1, sizeof *f);
    if (!f)
        return stk__nomem(sizeof *f, err);
    pthread_mutex_init(&f->lock, NULL);
    f->source_count = -1;
    f->rounds = rounds_behind_batch(p);
    p->feeder = f;
    STK_TRY(stk__worker_open(p, &f->worker, -1, err));
    f->part = stk__part_new(p, err);
    if (!f->part)
        return err && err->status ? err->status : STK_NOMEM;
    f->worker.part = f->part;
    return STK_OK;
}

void stk__feeder_close(stk_pipeline *p)
{
    stk__feeder *f = p->feeder;
    if (!f)
        return;
    rewind_before(f, STK__CHAIN_MAX);
    for (int i = 0; i < STK__CHAIN_MAX; i++)
        stk__free(f->nodes[i].held);
    while (f->spare) {
        stk__item *next = f->spare->next;
        stk__buffer_clear(&f->spare->packed, &p->budget);
        stk__free(f->spare);
        f->spare = next;
    }
    stk__part_free(p, f->part);
    stk__worker_close(p, &f->worker);
    stk__worker_clear(&f->worker);
    pthread_mutex_destroy(&f->lock);
    stk__free(f);
    p->feeder = NULL;
}

int64_t stk__feeder_bytes_read(const stk_pipeline *p)
{
    return p->feeder ? atomic_load(&p->feeder->worker.bytes_read) : 0;
}

int64_t stk__feeder_source_count(const stk_pipeline *p)
{
    return p->feeder ? p->feeder->source_count : -1;
}
