/* Lengths and mappings of chains of order ops. */
#include "engine/order.h"

#include <assert.h>

static int64_t batches_of(const stk__chain *chain, int64_t samples)
{
    if (samples == STK__ENDLESS)
        return STK__ENDLESS;
    const int64_t whole = samples / chain->batch_size;
    return whole + (!chain->drop_last && samples % chain->batch_size != 0);
}

/* Lengths of the largest and the smallest part of n elements, in a world of that size. */
static void parts_of(const stk__chain_node *shard, int64_t world, int64_t n, int64_t *out_most, int64_t *out_least)
{
    void *state = (void *)(uintptr_t)shard->state;
    int64_t count, index;
    shard->order->get_shard(state, &count, &index);
    shard->order->set_shard(state, world, 0);
    *out_most = shard->order->length(state, n);
    shard->order->set_shard(state, world, world - 1);
    *out_least = shard->order->length(state, n);
    shard->order->set_shard(state, count, index);
}

static void part_lengths(const stk__chain *chain, int64_t world, int64_t n, int64_t *out_most, int64_t *out_least)
{
    parts_of(&chain->nodes[chain->shard_at], world, n, out_most, out_least);
}

/*
 * Batches of a part of `own` samples out of n. Parts differ by one sample at most; where one rank needs a batch more for it,
 * others make as many by taking a sample out of their last full batch: ranks that wait for each other in every step would hang.
 */
static int64_t part_batches(const stk__chain *chain, int64_t world, int64_t n, int64_t own)
{
    if (!chain->even_batches || n == STK__ENDLESS)
        return batches_of(chain, own);
    int64_t most, least;
    part_lengths(chain, world, n, &most, &least);
    if (chain->drop_last)
        return batches_of(chain, least);
    const int64_t wanted = batches_of(chain, most);
    return own >= wanted ? wanted : batches_of(chain, own);
}

static int64_t own_batches(const stk__chain *chain, int64_t base, int64_t own)
{
    if (!chain->even_batches)
        return batches_of(chain, own);
    const stk__chain_node *shard = &chain->nodes[chain->shard_at];
    int64_t count, index;
    shard->order->get_shard(shard->state, &count, &index);
    return part_batches(chain, count, shard->in == STK__ENDLESS ? shard->in : shard->in - base, own);
}

static int64_t repeat_times(const stk__chain *chain, int at)
{
    return at < 0 ? 1 : chain->nodes[at].order->times(chain->nodes[at].state);
}

static bool is_first(const stk__chain *chain, int64_t epoch)
{
    return chain->elastic && epoch == chain->elastic_seen;
}

static int64_t remaining_rounds(const stk__chain *chain, int64_t times)
{
    return times == STK__ENDLESS ? STK__ENDLESS : times - chain->elastic_epoch - 1;
}

/* first + rounds * each, ENDLESS when it does not fit. */
static int64_t add_rounds(int64_t first, int64_t rounds, int64_t each)
{
    if (first == STK__ENDLESS || (rounds > 0 && each == STK__ENDLESS))
        return STK__ENDLESS;
    int64_t product, sum;
    if (rounds <= 0 || each == 0)
        return first;
    if (rounds == STK__ENDLESS || __builtin_mul_overflow(rounds, each, &product) ||
        __builtin_add_overflow(product, first, &sum))
        return STK__ENDLESS;
    return sum;
}

static int64_t node_length(const stk__chain *chain, int i, int64_t n, int64_t *first)
{
    const stk__chain_node *node = &chain->nodes[i];
    if (!chain->elastic)
        return node->order->length(node->state, n);
    if (i == chain->shard_at) {
        *first = node->order->length(node->state, n == STK__ENDLESS ? n : n - chain->elastic_base);
        return node->order->length(node->state, n);
    }
    if (i == chain->repeat_at)
        return add_rounds(*first, remaining_rounds(chain, node->order->times(node->state)), n);
    return node->order->length(node->state, n);
}

void stk__chain_measure(stk__chain *chain)
{
    int64_t n = chain->source_count, first = 0;
    for (int i = 0; i < chain->batch_at; i++) {
        chain->nodes[i].in = n;
        chain->nodes[i].out = n = node_length(chain, i, n, &first);
    }
    const bool repeat_before = chain->repeat_at >= 0 && chain->repeat_at < chain->batch_at;
    chain->samples = n;
    chain->first_samples = first;
    /* Without a repeat behind the shard, or with it before the batch, the resumed part is all there is. */
    const bool shard_before = chain->shard_at >= 0 && chain->shard_at < chain->batch_at;
    const bool all_first = chain->elastic && chain->repeat_at < 0 && shard_before;
    if (all_first)
        chain->samples = n = first;
    n = chain->batches = own_batches(chain, all_first ? chain->elastic_base : 0, n);
    int64_t first_batches = repeat_before || !chain->elastic ? n : own_batches(chain, chain->elastic_base, first);
    for (int i = chain->batch_at; i < chain->count; i++) {
        chain->nodes[i].in = n;
        chain->nodes[i].out = n = node_length(chain, i, n, &first_batches);
    }
    chain->first_batches = first_batches;
    chain->total = chain->elastic && chain->repeat_at < 0 && !shard_before ? first_batches : n;
}

/* Undoes node i: from a position behind it to one before it. */
static void node_map(const stk__chain *chain, int i, int64_t first, stk__position *p)
{
    const stk__chain_node *node = &chain->nodes[i];
    if (chain->elastic && i == chain->repeat_at) {
        int64_t round = chain->elastic_epoch;
        if (p->index >= first && node->in != 0) {
            round += 1 + (p->index - first) / node->in;
            p->index = (p->index - first) % node->in;
        }
        p->epoch = stk__epoch_join(p->epoch, repeat_times(chain, i), round);
        return;
    }
    const int64_t base = i == chain->shard_at && is_first(chain, p->epoch) ? chain->elastic_base : 0;
    node->order->map(node->state, node->in - base, p);
    p->index += base;
}

/* The last two of `batches` where they are more than the samples need: one sample of the last but one is the last. */
static void even_out(const stk__chain *chain, int64_t batches, int64_t samples, stk__position *first, int64_t *rows)
{
    if (batches <= batches_of(chain, samples) || samples == STK__ENDLESS)
        return;
    const int64_t b = first->index / chain->batch_size;
    if (b == batches - 2)
        --*rows;
    if (b == batches - 1) {
        first->index = samples - 1;
        *rows = 1;
    }
}

void stk__chain_batch(const stk__chain *chain, int64_t b, stk__position *out_first, int64_t *out_rows)
{
    stk__position p = {b, chain->outer_epoch};
    for (int i = chain->count - 1; i >= chain->batch_at; i--)
        node_map(chain, i, chain->first_batches, &p);
    const bool partial_epoch = is_first(chain, p.epoch) && chain->repeat_at >= chain->batch_at &&
                               chain->shard_at < chain->batch_at;
    const int64_t samples = partial_epoch ? chain->first_samples : chain->samples;
    p.index = stk__position_scale(p.index, chain->batch_size, 0);
    *out_first = p;
    *out_rows = samples == STK__ENDLESS ? chain->batch_size : STK_MIN(chain->batch_size, samples - p.index);
    if (chain->even_batches)
        even_out(chain, partial_epoch ? chain->first_batches : chain->batches, samples, out_first, out_rows);
}

void stk__chain_sample(const stk__chain *chain, stk__position *position, int64_t *epochs_at)
{
    for (int i = chain->batch_at - 1; i >= 0; i--) {
        if (epochs_at)
            epochs_at[i + 1] = position->epoch;
        node_map(chain, i, chain->first_samples, position);
    }
    if (epochs_at)
        epochs_at[0] = position->epoch;
}

static int repeat_behind_batch(const stk__chain *chain)
{
    for (int i = chain->batch_at; i < chain->count; i++)
        if (chain->nodes[i].order->kind == STK__ORDER_REPEAT)
            return i;
    return -1;
}

bool stk__chain_ends_in_repeat(const stk__chain *chain)
{
    return chain->count > chain->batch_at && chain->nodes[chain->count - 1].order->kind == STK__ORDER_REPEAT;
}

int64_t stk__chain_round_epoch(const stk__chain *chain, int64_t round)
{
    return stk__epoch_join(chain->outer_epoch, repeat_times(chain, repeat_behind_batch(chain)), round);
}

void stk__chain_ticket(const stk__chain *chain, int64_t t, stk__position *out)
{
    const bool rounds = repeat_behind_batch(chain) >= 0 && chain->samples != STK__ENDLESS && chain->samples > 0;
    out->index = rounds ? t % chain->samples : t;
    out->epoch = stk__chain_round_epoch(chain, rounds ? t / chain->samples : 0);
}

int64_t stk__chain_tickets(const stk__chain *chain)
{
    const int repeat = repeat_behind_batch(chain);
    return repeat >= 0 ? add_rounds(0, repeat_times(chain, repeat), chain->samples) : chain->samples;
}

/* Whether this shard gives some elements twice, so that all parts are as long. */
static bool repeats_elements(const stk__chain_node *node)
{
    int64_t count, index, most, least, elements;
    if (!node->order->get_shard || node->in == STK__ENDLESS)
        return false;
    node->order->get_shard(node->state, &count, &index);
    parts_of(node, count, node->in, &most, &least);
    return __builtin_mul_overflow(least, count, &elements) || elements > node->in;
}

bool stk__chain_flow_place(const stk__chain *chain, int64_t batches, int64_t *out_ticket, int64_t *out_round_batches,
                           int64_t batch_seen[STK__CHAIN_MAX])
{
    *out_ticket = *out_round_batches = 0;
    for (int i = chain->batch_at; i < chain->count; i++)
        if (repeats_elements(&chain->nodes[i]))
            return false;
    if (batches == 0)
        return true;
    /* Right behind the last batch: what order ops leave out after it is left out by the flow in its turn. */
    stk__position p = {batches - 1, chain->outer_epoch}, first;
    for (int i = chain->count - 1; i >= chain->batch_at; i--) {
        node_map(chain, i, chain->first_batches, &p);
        if (chain->nodes[i].order->kind == STK__ORDER_SELECT)
            batch_seen[i] = p.index + 1;
    }
    int64_t rows;
    stk__chain_batch(chain, batches - 1, &first, &rows);
    const int64_t round = first.epoch - stk__chain_round_epoch(chain, 0);
    *out_ticket = round > 0 ? stk__position_scale(round, chain->samples, first.index + rows) : first.index + rows;
    const int64_t each = stk__chain_ends_in_repeat(chain) ? chain->nodes[chain->count - 1].in : 0;
    *out_round_batches = each > 0 ? (batches - 1) % each + 1 : batches;
    return true;
}

/* Batches of the first epoch, and of all. */
typedef struct pace {
    int64_t first, each, total;
} pace;

static pace measured_pace(stk__chain *chain)
{
    stk__chain_measure(chain);
    const int repeat = repeat_behind_batch(chain);
    pace out = {chain->total, chain->total, chain->total};
    if (repeat >= 0) {
        out.each = chain->nodes[repeat].in;
        out.first = chain->elastic ? chain->first_batches : out.each;
    }
    return out;
}

bool stk__chain_same_pace(stk__chain *chain, int64_t rank, int64_t batches)
{
    int64_t count, index;
    if (chain->shard_at < 0)
        return true; /* all ranks have the same samples */
    const stk__chain_node *shard = &chain->nodes[chain->shard_at];
    void *state = (void *)(uintptr_t)shard->state;
    shard->order->get_shard(state, &count, &index);
    if (rank >= count)
        return false;
    shard->order->set_shard(state, count, rank);
    const pace other = measured_pace(chain);
    shard->order->set_shard(state, count, index);
    const pace own = measured_pace(chain);
    if (own.first == other.first && own.each == other.each && own.total == other.total)
        return true;
    /* One of them comes to the end of its epoch before the other: from there on a number of batches is no place of both. */
    return batches < STK_MIN(own.first, other.first) && batches < STK_MIN(own.total, other.total);
}

static const char *find_shard(const stk__chain *chain, int *shard_at, int *repeat_at)
{
    *shard_at = *repeat_at = -1;
    for (int i = 0; i < chain->count; i++) {
        const stk__order *order = chain->nodes[i].order;
        if (order->get_shard) {
            if (*shard_at >= 0)
                return "the pipeline has more than one shard";
            *shard_at = i;
            const char *why = order->inelastic(chain->nodes[i].state);
            if (why)
                return why;
            continue;
        }
        if (*shard_at < 0)
            continue;
        if (order->kind != STK__ORDER_REPEAT)
            return "shard must come after shuffle, take and skip to be changed in the middle of an epoch";
        if (*repeat_at >= 0)
            return "there is more than one repeat behind shard";
        *repeat_at = i;
    }
    return *shard_at < 0 ? "the pipeline has no shard" : NULL;
}

const char *stk__chain_inelastic(stk__chain *chain)
{
    int shard_at, repeat_at;
    const char *why = find_shard(chain, &shard_at, &repeat_at);
    /* A checkpoint asks while workers read the chain; the planner asked before them, so that nothing changes then. */
    if (shard_at != chain->shard_at || repeat_at != chain->repeat_at) {
        chain->shard_at = shard_at;
        chain->repeat_at = repeat_at;
    }
    return why;
}

/* The epoch that the shard sees in round `round` of the repeat behind it. */
static int64_t elastic_seen(const stk__chain *chain, int64_t round)
{
    return stk__epoch_join(chain->outer_epoch, repeat_times(chain, chain->repeat_at), round);
}

void stk__chain_progress(const stk__chain *chain, int64_t batches, int64_t *out_epoch, int64_t *out_consumed)
{
    assert(chain->shard_at >= 0);
    const stk__chain_node *shard = &chain->nodes[chain->shard_at];
    const bool shard_after_batch = chain->shard_at >= chain->batch_at;
    const bool repeat_after_batch = chain->repeat_at >= chain->batch_at;
    stk__position p = {batches, chain->outer_epoch};
    if (chain->repeat_at >= 0 && repeat_after_batch)
        node_map(chain, chain->repeat_at, chain->first_batches, &p);
    if (!shard_after_batch) {
        p.index = stk__position_scale(p.index, chain->batch_size, 0);
        if (chain->repeat_at >= 0 && !repeat_after_batch)
            node_map(chain, chain->repeat_at, chain->first_samples, &p);
    }
    const int64_t round = p.epoch - elastic_seen(chain, 0);
    if (chain->repeat_at >= 0 && round >= repeat_times(chain, chain->repeat_at)) {
        *out_epoch = round - 1; /* all is done: the end of the last epoch, not the start of one that never comes */
        *out_consumed = shard->in;
        return;
    }
    int64_t count, index;
    shard->order->get_shard(shard->state, &count, &index);
    int64_t consumed;
    if (__builtin_mul_overflow(p.index, count, &consumed))
        consumed = shard->in;
    if (is_first(chain, p.epoch))
        consumed += chain->elastic_base;
    *out_epoch = round;
    *out_consumed = STK_MIN(consumed, shard->in);
}

/* Whether the first and the last rank of a world get different numbers of batches out of n elements. */
static bool ranks_differ(const stk__chain *chain, int64_t world, int64_t n)
{
    int64_t most, least;
    part_lengths(chain, world, n, &most, &least);
    /* A repeat before the batch joins the epochs' samples, so that there even one sample matters. */
    const bool whole_batches = chain->shard_at < chain->batch_at && chain->repeat_at >= chain->batch_at;
    if (!whole_batches)
        return most != least;
    return part_batches(chain, world, n, most) != part_batches(chain, world, n, least);
}

bool stk__chain_ranks_differ(const stk__chain *chain, int64_t world)
{
    const int64_t n = chain->nodes[chain->shard_at].in;
    int64_t most, least;
    if (n == STK__ENDLESS)
        return false;
    part_lengths(chain, world, n, &most, &least);
    if (chain->shard_at >= chain->batch_at)
        return most != least;
    return part_batches(chain, world, n, most) != part_batches(chain, world, n, least);
}

bool stk__chain_evens_out(const stk__chain *chain, int64_t world, int64_t base, int64_t consumed)
{
    const int64_t n = chain->nodes[chain->shard_at].in - base, each = n / world;
    return chain->even_batches && !chain->drop_last && n % world != 0 && each > 0 && chain->batch_size > 1 &&
           each % chain->batch_size == 0 && consumed - base == each * world;
}

bool stk__chain_out_of_step(const stk__chain *chain, int64_t world, int64_t start_epoch, int64_t start_base, int64_t epoch)
{
    const int64_t n = chain->nodes[chain->shard_at].in;
    if (epoch <= start_epoch || n == STK__ENDLESS)
        return false;
    return ranks_differ(chain, world, n - start_base) || (epoch > start_epoch + 1 && ranks_differ(chain, world, n));
}

void stk__chain_go_on(stk__chain *chain, int64_t epoch, int64_t consumed)
{
    chain->elastic = true;
    chain->elastic_epoch = epoch;
    chain->elastic_base = consumed;
    chain->elastic_seen = elastic_seen(chain, epoch);
    stk__chain_measure(chain);
}
