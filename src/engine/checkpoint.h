/* The checkpoint file: numbers by name, and a check sum. */
#ifndef STK_ENGINE_CHECKPOINT_H
#define STK_ENGINE_CHECKPOINT_H

#include "engine/run.h"

/* Room for what a sink tells of itself. */
#define STK__SINK_TEXT 256
#define STK__CHECKPOINT_MAX (64 * 1024)
/* As many as repeat can count. */
#define STK__FIRST_EPOCH_MAX ((int64_t)1 << 31)

/* How a run comes by its batches, and so which of the numbers say where it stands. */
enum {
    STK__MODE_COUNTED, /* batches are numbered beforehand: `position` */
    STK__MODE_FLOW,    /* samples can fall out: `ticket`, and what order ops have counted */
    STK__MODE_STREAM,  /* the same over a source that cannot be indexed */
};

typedef struct stk__checkpoint {
    uint64_t pipeline, data; /* fingerprints */
    uint64_t stamp;          /* of the files' times: another one is only told */
    uint64_t shards;         /* of their numbers, where there are several */
    int64_t mode;
    int64_t exact, approximations; /* no_approximate, and what was approximated */
    int64_t automatic;             /* how samples are shared where the text has no shard */
    int64_t batches, samples, ticket;
    int64_t position; /* batches into the chain as it was measured */
    int64_t skipped, quarantined, dropped, lost_bytes;
    int64_t listed_bytes;  /* of the list of bad records up to here, and their hash */
    uint64_t listed_check;
    int64_t world, rank;
    int64_t epoch, consumed; /* by all ranks together; for another number of ranks */
    int64_t elastic, elastic_epoch, elastic_base;
    int64_t batch_size;
    int64_t has_digest;
    int64_t first_epoch;   /* that the whole run began with */
    int64_t round_batches; /* of `batches`, in this round of a repeat behind the batch; flow runs */
    uint64_t digest_high, digest_low; /* of all batches up to here */
    char sink[STK__SINK_TEXT]; /* what its `save` said; empty: no such sink */
    int64_t relay_seen[STK__MAX_RELAYS], relay_epoch[STK__MAX_RELAYS], batch_seen[STK__CHAIN_MAX];
} stk__checkpoint;

void stk__checkpoint_print(const stk__checkpoint *checkpoint, stk__text *out);
/* Untrusted input, NUL-terminated; the text is changed while reading. */
stk_status stk__checkpoint_parse(char *text, size_t size, stk__checkpoint *out, stk_error *err);

int64_t stk__mode_of(const stk_pipeline *p);
/* Number of ranks and rank by the (last) shard; out_all: a hash of all, 0 where there are not several. */
void stk__shard_numbers(const stk_pipeline *p, int64_t *out_world, int64_t *out_rank, uint64_t *out_all);

/* The value of a digest, to keep and to go on from. */
void stk__digest_get(const stk_digest *digest, uint64_t *out_high, uint64_t *out_low);
void stk__digest_set(stk_digest *digest, uint64_t high, uint64_t low);

/*
 * sink.c: sinks that publish files. check: INVALID where a run is to make or take checkpoints that its sink cannot go on from. save:
 * the line for the checkpoint of a run that stands at `samples`, empty where there is nothing to tell. restore: goes on from one.
 */
stk_status stk__sink_check(const stk_pipeline *p, stk_error *err);
stk_status stk__sink_save(const stk_pipeline *p, int64_t samples, char out[STK__SINK_TEXT], stk_error *err);
stk_status stk__sink_restore(const stk_pipeline *p, const stk__checkpoint *c, stk_error *err);

#endif
