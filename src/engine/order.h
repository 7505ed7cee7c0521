/* Chains of order ops: from a position at the end of the pipeline to a sample of the source, by arithmetic. */
#ifndef STK_ENGINE_ORDER_H
#define STK_ENGINE_ORDER_H

#include "engine/op.h"

#define STK__CHAIN_MAX 32

typedef struct stk__chain_node {
    const stk__order *order;
    const void *state;
    int64_t in, out; /* lengths before and after, of a whole epoch */
} stk__chain_node;

/*
 * Order ops before (`nodes[0 .. batch_at)`) and after the batch op. `elastic` is a run that goes on in the middle of an
 * epoch with another number of ranks: in epoch `elastic_epoch` the shard starts behind `elastic_base` samples.
 */
typedef struct stk__chain {
    stk__chain_node nodes[STK__CHAIN_MAX];
    int count;
    int batch_at;
    int64_t batch_size;
    bool drop_last;
    int64_t source_count;
    int64_t samples; /* after the order ops before the batch */
    int64_t batches; /* made of them */
    int64_t total;   /* batches of the whole run */
    int64_t outer_epoch; /* that the whole run is in; 0 where a repeat at its end counts epochs itself */

    int shard_at;  /* -1: none */
    bool even_batches; /* the shard keeps each sample once, and yet all ranks are to make as many batches, where they can */
    int repeat_at; /* the one repeat behind the shard; -1: none */
    bool elastic;
    int64_t elastic_epoch, elastic_base; /* elastic_epoch: the round of the repeat */
    int64_t elastic_seen;                /* the same as the shard sees it, in its place in the whole run */
    int64_t first_samples, first_batches; /* of the epoch that is resumed in the middle */
} stk__chain;

/* Whether the last op is a repeat of batches, so that an epoch is a round of it. */
bool stk__chain_ends_in_repeat(const stk__chain *chain);
/* The epoch as it is seen before the batch, in round `round` of a repeat behind the batch; without one it is `outer_epoch`. */
int64_t stk__chain_round_epoch(const stk__chain *chain, int64_t round);

/* Computes all lengths. Nodes, batch_at, batch_size, drop_last and source_count are set. */
void stk__chain_measure(stk__chain *chain);

/* Batch number `b` of the run: the position of its first row before the batch op, the rows, and its epoch. */
void stk__chain_batch(const stk__chain *chain, int64_t b, stk__position *out_first, int64_t *out_rows);
/* From a position before the batch op to a sample of the source. epochs_at[i], where given, gets the epoch as seen by node i. */
void stk__chain_sample(const stk__chain *chain, stk__position *position, int64_t *epochs_at);

/*
 * Samples as a flow, where batches cannot be counted: ticket `t` of the run before the batch op, with the epoch of a repeat
 * behind the batch; and how many tickets there are.
 */
void stk__chain_ticket(const stk__chain *chain, int64_t t, stk__position *out);
int64_t stk__chain_tickets(const stk__chain *chain);

/*
 * Where a flow stands that has handed over the first `batches` batches as they were counted: the next ticket, and what order ops
 * behind the batch have seen. Not for elastic chains. False: a flow gives other batches (a shard behind the batch pads).
 */
bool stk__chain_flow_place(const stk__chain *chain, int64_t batches, int64_t *out_ticket, int64_t *out_round_batches,
                           int64_t batch_seen[STK__CHAIN_MAX]);
/* Whether another rank stands at its own place, and at no other, when this one has handed over `batches` batches. */
bool stk__chain_same_pace(stk__chain *chain, int64_t rank, int64_t batches);

/*
 * Why this chain cannot go on with another world, or NULL when it can: there must be one shard, followed by nothing but the
 * batch and at most one repeat.
 */
const char *stk__chain_inelastic(stk__chain *chain);
/* Epoch (round of the repeat) and samples consumed by all ranks together in it, after `batches` batches of this rank. Only for elastic chains. */
void stk__chain_progress(const stk__chain *chain, int64_t batches, int64_t *out_epoch, int64_t *out_consumed);
/*
 * Whether ranks of a world of that size made different numbers of batches in an epoch that ended before `epoch`, so that
 * equally many batches no longer mean the same place. The run began in `start_epoch`, behind `start_base` samples.
 */
bool stk__chain_out_of_step(const stk__chain *chain, int64_t world, int64_t start_epoch, int64_t start_base, int64_t epoch);
/* Whether ranks get different numbers of batches, in a world of that size. */
bool stk__chain_ranks_differ(const stk__chain *chain, int64_t world);
/*
 * Whether a world of that size, that came `consumed` samples into an epoch which it began behind `base`, had ranks whose last
 * batch was still to come with a sample that lies before these.
 */
bool stk__chain_evens_out(const stk__chain *chain, int64_t world, int64_t base, int64_t consumed);
/* Sets the run to start behind `consumed` samples of `epoch`. */
void stk__chain_go_on(stk__chain *chain, int64_t epoch, int64_t consumed);

#endif
