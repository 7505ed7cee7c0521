/* The plan: the pipeline after checking and rewriting. Const once made. */
#ifndef STK_ENGINE_PLAN_H
#define STK_ENGINE_PLAN_H

#include <stoker/pipeline.h>

#include "base/str.h"
#include "engine/op.h"
#include "engine/order.h"
#include "engine/text.h"

#define STK__MAX_RELAYS 4

enum { STK__APPROXIMATE_SHARD = 1, STK__APPROXIMATE_FUSED = 2 };

/* Adds a place in the text to a failure that has none yet. */
static inline stk_status stk__at(stk_error *err, int line, int column, stk_status status)
{
    if (status != STK_OK && err && err->line == 0) {
        err->line = line;
        err->column = column;
    }
    return status;
}

/* One op of the pipeline with its options. */
typedef struct stk__step {
    const stk_op *op;
    void *state;
    void *memory; /* lists that options point to; a chain of blocks */
    int number;   /* in the text, from 0 */
    int draws;    /* its number among the ops that draw random numbers, which others, a cache say, do not change */
    int line, column;
    const stk_named_arg *args;
    size_t arg_count;
    int *reads;
    size_t read_count, read_capacity;
    int *writes;
    size_t write_count, write_capacity;
    bool unused; /* nothing needs what it makes */
    bool opened;
    stk_call call; /* for calls outside of workers */
    int *group;    /* the steps of the segment that run as one in place of this one, which is the last; NULL: itself alone */
    int group_count;
    bool absorbed; /* runs in the group of a later step */
    char *label;   /* what it is called in place of its name: its own label, or the names of the group; may be NULL */
    bool closed;

    /* what the op says of its data; guarded by the run's `look` lock */
    bool looked;
    uint64_t fingerprint, stamp;
    int64_t newest_ns;
} stk__step;

/* One version of a field: what one op wrote under one name. */
typedef struct stk__var {
    char *name;
    stk_dtype dtype;
    int32_t ndim;
    int64_t shape[STK_MAX_DIMS];
    bool fixed;       /* every sample has the same shape */
    int64_t elements; /* when fixed */
    size_t element_bytes, row_bytes; /* of one element; of a whole value when fixed */
    int step;         /* who writes it */
    bool needed;
    bool read; /* by an op behind the one that writes it */
    int column; /* of the batch; -1: none */
    bool classes; /* its numbers name classes */
} stk__var;

/* An order op behind a filter: it counts what passes. */
typedef struct stk__relay {
    const stk__step *step;
    int segment_at; /* counts samples that came past this many steps of the segment */
    int chain_at;   /* its counter starts anew when the epoch seen by this node of the chain changes */
} stk__relay;

typedef struct stk__plan {
    const stk_registry *registry;
    stk_config config;
    stk__pipeline_text text, automatic_text;
    stk__step *steps; /* in text order; then the automatic one */
    int step_count;
    stk__step *automatic; /* the shard that the planner puts in; NULL: none */
    stk__var *vars;
    int var_count;
    size_t var_capacity;

    int *visible; /* vars by visible name, in order; what a batch holds in the end */
    int visible_count;
    size_t visible_capacity;

    stk__step **segment; /* source first, then what runs on each sample, in order */
    int segment_count;
    stk__step *source, *sink, *batch, *prefetch, *cache;
    int cache_at;          /* place in the segment: samples are stored after this many steps; -1: none */
    int *cache_vars;       /* what is stored */
    int cache_var_count;
    stk__batch_state batching;
    bool implicit_batch;

    stk__step *order_steps[STK__CHAIN_MAX]; /* the chain's, in order */
    stk__chain chain;
    stk__relay relays[STK__MAX_RELAYS];
    int relay_count;
    bool stream;    /* the source cannot be indexed */
    bool may_drop;  /* samples can fall out, so batches are not known beforehand */

    uint64_t fingerprint; /* of the pipeline without shard's numbers */
    int64_t approximations; /* rewrites that no_approximate forbids: bits of STK__APPROXIMATE_ */
    uint64_t prefix_fingerprint; /* of what comes before the cache */
    const void *description; /* what the source says of its fields; the source's */
    stk__text rewrites;   /* "exact\tmessage\n" each */
    stk__text explain, explain_json;
} stk__plan;

/* Reads, checks and rewrites; touches no sample. On failure the plan is left for stk__plan_clear. */
stk_status stk__plan_make(stk__plan *plan, const char *text, const stk_config *config, stk_error *err);
/* Whether there is a repeat of more than one round. */
bool stk__plan_repeats(const stk__plan *plan);
/* Opens the ops, learns the source's count, completes the chain. */
stk_status stk__plan_open(stk__plan *plan, void *impl, stk_error *err);
/* The plan as text and as JSON; fails when there is no memory for all of it. */
stk_status stk__plan_explain(stk__plan *plan, int threads, int64_t memory_bytes, stk_error *err);
/* Closes the ops; what the plan says of them stays. */
void stk__plan_close(stk__plan *plan);
/* Closes them too, and frees the plan. */
void stk__plan_clear(stk__plan *plan);

/* A rewrite, as `plan` prints it. */
void stk__plan_note(stk__plan *plan, const char *tag, const char *format, ...) STK_PRINTF(3, 4);

/* Reads the arguments of a step into its state, by its option table. */
stk_status stk__options_bind(stk__step *step, stk_error *err);
void stk__options_clear(stk__step *step);
/* Appends `name(option=value, ...)` with all options as they were given, but for the first `skip` of the op's table. */
void stk__step_print(stk__text *t, const stk__step *step, int skip);

/* Functions of the host that serve `schema`: see stk_host. */
stk_status stk__schema_read(stk_plan *plan, const char *name, int *out_id, stk_field *out_field, stk_error *err);
stk_status stk__schema_write(stk_plan *plan, const stk_field *field, int *out_id, stk_error *err);
stk_status stk__schema_remove(stk_plan *plan, const char *name, stk_error *err);
stk_status stk__schema_rename(stk_plan *plan, const char *from, const char *to, stk_error *err);
void stk__schema_describe(stk_plan *plan, const void *description);
const void *stk__schema_description(const stk_plan *plan);
void stk__schema_set_classes(stk_plan *plan, int id);
bool stk__schema_has_classes(const stk_plan *plan, int id);
int stk__schema_count(const stk_plan *plan);
void stk__schema_field(const stk_plan *plan, int i, stk_field *out);

/* Runs `schema` of the segment's steps in order. */
stk_status stk__plan_schema(stk__plan *plan, stk_error *err);
/* Leaves the fields that the configuration asks for, in its order. */
stk_status stk__plan_select(stk__plan *plan, stk_error *err);
/* Marks what is needed, assigns columns. */
void stk__plan_liveness(stk__plan *plan);
/* Finds ops that run as one. */
stk_status stk__plan_fuse(stk__plan *plan, stk_error *err);
/* Asks ops for their labels, after `schema`. */
stk_status stk__plan_label(stk__plan *plan, stk_error *err);
/* The name under which a step of the segment is timed. */
const char *stk__step_label(const stk__step *step);
/* The one host table (host.c). */
extern const stk_host stk__host;

#endif
