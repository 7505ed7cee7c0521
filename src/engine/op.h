/* What built-in ops see of the engine: the public descriptor, and the contracts of order, batch, cache and prefetch ops. */
#ifndef STK_ENGINE_OP_H
#define STK_ENGINE_OP_H

#include <stoker/op.h>

#include "base/compiler.h"

/* A length without end. */
#define STK__ENDLESS INT64_MAX

/* A place in a sequence: which element, of which round of the repeats that come after it in the pipeline. */
typedef struct stk__position {
    int64_t index;
    int64_t epoch;
} stk__position;

/* No run comes this far: positions that would overflow stop here, and the planner refuses a run that starts there. */
#define STK__POSITION_MAX ((int64_t)1 << 62)

/* index * factor + offset, all of them >= 0. */
static inline int64_t stk__position_scale(int64_t index, int64_t factor, int64_t offset)
{
    int64_t product, sum;
    if (__builtin_mul_overflow(index, factor, &product) || __builtin_add_overflow(product, offset, &sum))
        return STK__POSITION_MAX;
    return sum < STK__POSITION_MAX ? sum : STK__POSITION_MAX;
}

/* The epoch seen behind a repeat of `times` rounds that is in round `round` of the epoch `outer`. */
static inline int64_t stk__epoch_join(int64_t outer, int64_t times, int64_t round)
{
    const uint64_t rounds = times == STK__ENDLESS ? (uint64_t)1 << 32 : (uint64_t)times;
    return (int64_t)(((uint64_t)outer * rounds + (uint64_t)round) & INT64_MAX);
}

/* Gives an error the place of an argument's value in the text. */
static inline stk_status stk__at_value(const stk_named_arg *arg, stk_status status, stk_error *err)
{
    if (err) {
        err->line = arg->value.line;
        err->column = arg->value.column;
    }
    return status;
}

typedef enum stk__pass { STK__PASS_KEEP, STK__PASS_DROP, STK__PASS_END } stk__pass;

typedef enum stk__order_kind {
    STK__ORDER_SELECT, /* keeps some elements, in order: take, skip, shard */
    STK__ORDER_SHUFFLE,
    STK__ORDER_REPEAT,
    STK__ORDER_INTERLEAVE
} stk__order_kind;

/*
 * An order op is arithmetic: over n elements it makes a sequence of length(n), whose element p is element map(p) of what
 * came before. Where elements cannot be counted (streams, after a filter), SELECT ops decide by `pass` instead, from how many
 * elements they have seen in this epoch. All callbacks are pure.
 */
typedef struct stk__order {
    stk__order_kind kind;
    int64_t (*length)(const void *state, int64_t n); /* n and the result may be STK__ENDLESS */
    void (*map)(const void *state, int64_t n, stk__position *position);
    stk__pass (*pass)(const void *state, int64_t seen); /* SELECT */
    int64_t (*buffer)(const void *state);               /* SHUFFLE: samples held back over a stream */
    uint64_t (*seed)(const void *state, int64_t epoch); /* SHUFFLE */
    void (*set_run_seed)(void *state, uint64_t seed);   /* SHUFFLE: of the run; what draws anew in each epoch follows it */
    int64_t (*times)(const void *state);                /* REPEAT */
    /* INTERLEAVE: firsts[0..groups] are the numbers of the groups' first samples, then the count. Called once, before map. */
    stk_status (*prepare)(void *state, const int64_t *firsts, int64_t groups, stk_error *err);
    void (*cycle)(const void *state, int64_t *out_cycle, int64_t *out_block); /* INTERLEAVE over a stream */
    /* SHUFFLE that wants to know which samples are read together. prepare_blocks: firsts[0..blocks] are their first positions,
       then the count. Called once, before map. *out_note is what the plan tells people, to be freed; NULL: nothing.
       *out_bytes is how much memory its blocks take at a time. */
    bool (*wants_blocks)(const void *state);
    stk_status (*prepare_blocks)(void *state, const int64_t *firsts, int64_t blocks, int64_t block_bytes,
                                 char **out_note, int64_t *out_bytes, stk_error *err);
    /* SELECT by rank: filled in by the planner when the user named no rank; lets a run go on with another world. */
    void (*set_shard)(void *state, int64_t count, int64_t index);
    void (*get_shard)(const void *state, int64_t *out_count, int64_t *out_index);
    void (*set_block)(void *state, int64_t block);       /* goes with set_shard: how many neighbours stay together */
    int64_t (*get_block)(const void *state);
    const char *(*inelastic)(const void *state);         /* goes with set_shard: why it cannot go on with another world, or NULL */
    bool (*needs_count)(const void *state); /* optional: it cannot decide by `pass` */
} stk__order;

/*
 * Neighbours that hand one field on can run as one, so that a sample goes through all of them while it is in the cache, and
 * the first can look at what the others will want of it. A group has one such table. Whether they run as one changes no random
 * number; what else it may change, `approximates` says.
 */
typedef struct stk__fuse {
    /* Whether `next` can run behind these ops, which are in order. Every group starts with an op that has a worker_open. */
    bool (*joins)(const void *const *states, size_t count, const void *next);
    /* All of them for one sample: the fields that the first reads are there, the field that the last writes is to be made. On
       failure *out_at tells which of them was at work. */
    stk_status (*process)(const stk_call *const *calls, size_t count, stk_sample *sample, size_t *out_at,
                          stk_error *err);
    /* Optional: process comes next for `a`, then for `b`. Work on both at once may take less time. It changes no result. */
    void (*pair)(const stk_call *const *calls, size_t count, const stk_sample *a, const stk_sample *b);
    /* What comes out other than from the ops one by one, for the plan; NULL: nothing. */
    const char *(*approximates)(const void *const *states, size_t count, bool exact);
} stk__fuse;

/* States that the engine reads itself. */
typedef struct stk__batch_state {
    int64_t size;
    bool drop_last;
    bool pad;
    double pad_value;
} stk__batch_state;

typedef struct stk__prefetch_state {
    int64_t batches; /* 0: as many as the budget allows */
} stk__prefetch_state;

typedef struct stk__cache_state {
    const char *path; /* NULL: in memory */
    int64_t memory;   /* at most this many bytes in memory; 0: half the budget */
} stk__cache_state;

#endif
