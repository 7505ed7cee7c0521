/*
 * Pipelines: from text to batches.
 *
 * Simple use: open, next and release until STK_END, close. examples/train_loop.c is a whole program.
 */
#ifndef STOKER_PIPELINE_H
#define STOKER_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/op.h>
#include <stoker/trace.h>
#include <stoker/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- registry: the ops that exist ---- */

typedef struct stk_registry stk_registry;

/* A registry with all built-in ops. Since 0.1. */
STK_API stk_status stk_registry_new(stk_registry **out, stk_error *err);
/* Adds the ops of a plug-in; a name that is taken is refused. The object stays loaded until the registry is freed. Since 0.1. */
STK_API stk_status stk_registry_load(stk_registry *registry, const char *path, stk_error *err);
/* Adds ops of the program itself, a NULL-terminated list that outlives the registry; a name that is taken is refused. Since 0.1. */
STK_API stk_status stk_registry_add(stk_registry *registry, const stk_op *const *ops, stk_error *err);
STK_API void stk_registry_free(stk_registry *registry);
/* Ops by number in alphabetical order, and by name (NULL: none such). Since 0.1. */
STK_API size_t stk_registry_count(const stk_registry *registry);
STK_API const stk_op *stk_registry_op(const stk_registry *registry, size_t i);
STK_API const stk_op *stk_registry_find(const stk_registry *registry, const char *name);
/* What an op tells of itself, as one JSON object: the source of help, reference pages and the methods of the Python package. Freed by
   stk_free. Since 0.1. */
STK_API stk_status stk_op_json(const stk_op *op, char **out_text, stk_error *err);
/* "sample", "source", ...; "int", "field", ...; NULL for an unknown one. Since 0.1. */
STK_API const char *stk_role_name(stk_role role);
STK_API const char *stk_option_kind_name(stk_option_kind kind);
/* The op whose name is closest to a misspelt one, or NULL. Since 0.1. */
STK_API const char *stk_registry_nearest(const stk_registry *registry, const char *name);

/* ---- configuration ---- */

typedef enum stk_on_error { STK_ON_ERROR_STOP, STK_ON_ERROR_SKIP, STK_ON_ERROR_QUARANTINE } stk_on_error;

/*
 * Whether ranks share the samples where the text has no shard: not at all; behind its last shuffle, take, skip or interleave, so
 * that these mean the same for any world; or so that each sample comes once in any case. With STK_SHARD_AUTO, where a shuffle draws
 * anew in each epoch, the first samples come once more on some ranks so that all have as many. Streams are dealt out by whole
 * batches. None is put in before a sink that writes files.
 */
typedef enum stk_auto_shard { STK_SHARD_WRITTEN, STK_SHARD_AUTO, STK_SHARD_KEEP } stk_auto_shard;

typedef enum stk_log_level { STK_LOG_INFO, STK_LOG_WARNING } stk_log_level;

/* Zero it, set struct_size, then what matters. Strings and callbacks' arguments must outlive the pipeline. */
typedef struct stk_config {
    size_t struct_size;
    const stk_registry *registry; /* NULL: the built-in ops */
    int threads;                  /* workers; 0: as many as affinity and cgroup allow, shared among the ranks of a host */
    uint64_t memory_bytes;        /* budget of all buffers together; 0: a quarter of the memory limit, shared among the ranks
                                     of a host, at most 1 GiB */
    uint64_t seed;                /* of ops that draw random numbers */
    int64_t rank, world;          /* for `shard` without options, and auto_shard; world 0: not distributed */
    const char *cache_dir;        /* for indexes; NULL: keep none */
    stk_on_error on_error;
    int64_t max_errors;           /* skip and quarantine: stop after more bad records than this; 0: no limit */
    const char *quarantine_path;  /* list of bad records, one JSON object per line; for STK_ON_ERROR_QUARANTINE */
    const char *resume_path;      /* checkpoint to go on from; NULL: from the start */
    bool no_approximate;          /* only rewrites that are tagged exact */
    stk_recorder *recorder;       /* where to trace; NULL: nowhere */
    int64_t stall_ns;             /* log a worker that is this long on one op; 0: 30 s, negative: never */
    void (*log)(void *arg, stk_log_level level, const char *text); /* any thread; may be NULL */
    void *log_arg;
    bool (*progress)(void *arg, const char *what, int64_t done, int64_t total); /* long work at open; false cancels; may be NULL */
    void *progress_arg;
    stk_status (*print)(void *arg, const char *text, size_t size, stk_error *err); /* takes what `print` prints; may be NULL */
    void *print_arg;
    bool on_demand;               /* make a batch only when next asks for it, as loops without prefetch do; for comparison */
    const char *resume_state;     /* what stk_pipeline_state gave, to go on from; not together with resume_path */
    int64_t first_epoch;          /* begin with this epoch: with `repeat` as the last op it is the first that is given (of the
                                     ones that it counts, whose batches keep their numbers where these are known), else the
                                     whole run is that epoch. To the bit what a run from the start gives there. 0..2^31. Not
                                     used when the run is resumed. */
    void *(*batch_alloc)(void *arg, size_t size); /* memory of columns: values, offsets and shapes of rows, not the contents
                                                     of STK_BYTES; 64-byte aligned; any thread, locks held: it must not call
                                                     back. NULL: none left. May be NULL: the usual one */
    void (*batch_free)(void *arg, void *p, size_t size); /* set when batch_alloc is; any thread, locks held */
    void *batch_arg;
    stk_auto_shard auto_shard;    /* whether ranks share the samples although the text has no shard */
    int64_t local_world;          /* ranks on this host, which share its cores and memory; 0: one */
    const char *const *fields;    /* what batches are to hold, in this order; nothing else is made. NULL: all fields */
    size_t field_count;
    const char *memory_name;      /* what messages call the option for memory_bytes; NULL: "memory" */
    bool checkpoints;             /* the run makes checkpoints: what a sink writes outlives it, hidden, until a resumed run has published
                                     it. Without this, and with sinks that cannot go on, a checkpoint of a run with a sink that
                                     publishes files is refused. */
} stk_config;

/* ---- the text of a pipeline, op by op, for programs that change it ---- */

typedef struct stk_text_op {
    const stk_op *op;  /* role, flags and the rest; NULL: the registry has no such op */
    size_t begin, end; /* bytes of the text, from the name to behind the closing parenthesis */
} stk_text_op;

/*
 * The ops of a text, in order. It is read, not planned: STK_INVALID with line and column tells what cannot be read, while
 * options, fields and the order of ops are checked at open. Free with stk_text_ops_free. Since 0.1.
 */
STK_API stk_status stk_text_ops(const char *text, const stk_registry *registry, stk_text_op **out, size_t *out_count,
                                stk_error *err);
STK_API void stk_text_ops_free(stk_text_op *ops);

/*
 * The fields of a sample at the end of the text, as it is planned: no file is opened but those that tell their fields
 * themselves, such as HDF5. Names live as long as `out`, which is freed by stk_free. Since 0.1.
 */
STK_API stk_status stk_text_fields(const char *text, const stk_config *config, stk_field **out, size_t *out_count,
                                   stk_error *err);

/* ---- pipelines ---- */

typedef struct stk_pipeline stk_pipeline;

/*
 * Reads the text, checks and plans it (no data is touched before that is done), opens the source and starts the workers.
 * Mistakes in the text give STK_INVALID with line and column. `config` may be NULL. Since 0.1.
 */
STK_API stk_status stk_pipeline_open(const char *text, const stk_config *config, stk_pipeline **out, stk_error *err);
/* Stops the workers, frees everything. Batches still held become invalid. NULL is fine. Since 0.1. */
STK_API void stk_pipeline_close(stk_pipeline *pipeline);

/*
 * The next batch; waits for it. STK_END after the last. The caller holds it until stk_batch_release; holding several is
 * fine while the budget allows (else STK_BUDGET instead of waiting for ever). One thread at a time. Since 0.1.
 */
STK_API stk_status stk_pipeline_next(stk_pipeline *pipeline, const stk_batch **out, stk_error *err);
/* The same, but STK_TIMEOUT when none is ready within that time; 0 or less only looks. A later call goes on waiting: the batch
   is made meanwhile, and calls that follow each other are one wait in traces. Since 0.1. */
STK_API stk_status stk_pipeline_next_within(stk_pipeline *pipeline, int64_t timeout_ns, const stk_batch **out, stk_error *err);
/* Any thread, also while another is in next. The memory of a batch is its holder's, to read and to write. */
STK_API void stk_batch_release(stk_pipeline *pipeline, const stk_batch *batch);
/*
 * Stops the workers and frees everything but the batches that are held: these stay valid until they are released, from any
 * thread. Next gives STK_CANCELLED from here on, as do consume and finish, and sinks publish nothing; state and statistics stay
 * as they are. close must follow, after the last release. Any thread, also while others are in next, release, state or the
 * statistics, but not in consume or finish: stop waits for the next that is under way, which returns STK_CANCELLED, and for the
 * op that each worker is in. A second stop returns when the first is done. Recorder and callbacks of the configuration are not
 * used after it, but for batch_free. Since 0.1.
 */
STK_API void stk_pipeline_stop(stk_pipeline *pipeline);

/*
 * Hands a batch to the sink at the end of the pipeline, where there is one; stk_pipeline_finish publishes what the sink
 * wrote. Without finish nothing of it appears. Both do nothing without a sink. Since 0.1.
 */
STK_API stk_status stk_pipeline_consume(stk_pipeline *pipeline, const stk_batch *batch, stk_error *err);
STK_API stk_status stk_pipeline_finish(stk_pipeline *pipeline, stk_error *err);
STK_API bool stk_pipeline_has_sink(const stk_pipeline *pipeline);
/* Whether what its sink has written so far is kept for the next run when this one ends without finish. Since 0.1. */
STK_API bool stk_pipeline_keeps_output(const stk_pipeline *pipeline);

/* Makes a waiting or later next return STK_CANCELLED. Any thread, also a signal handler. Since 0.1. */
STK_API void stk_pipeline_cancel(stk_pipeline *pipeline);

/*
 * Writes, atomically, the place after the last batch that next returned. Small for any run: numbers only. Since 0.1.
 */
STK_API stk_status stk_pipeline_checkpoint(stk_pipeline *pipeline, const char *path, stk_error *err);

/* The same as a text, for config.resume_state. Freed by stk_free. Since 0.1. */
STK_API stk_status stk_pipeline_state(stk_pipeline *pipeline, char **out_text, stk_error *err);

/* XXH3-128 over every batch fed to it, in order: field names, dtypes, shapes, bytes. */
typedef struct stk_digest stk_digest;
STK_API stk_status stk_digest_new(stk_digest **out, stk_error *err);
STK_API void stk_digest_add(stk_digest *digest, const stk_batch *batch);
/* 32 hex digits and NUL. */
STK_API void stk_digest_hex(const stk_digest *digest, char out[33]);
STK_API void stk_digest_free(stk_digest *digest);
/*
 * From now on checkpoints carry the value of `digest` along. When the run was resumed from a checkpoint that has one, the
 * digest goes on from there, so that in the end it is that of the whole run. Call it before the first next; feed each batch
 * before the next checkpoint. `digest` must outlive the pipeline. False when the run was resumed from a checkpoint without
 * one: then the digest covers what comes from here. Since 0.1.
 */
STK_API bool stk_pipeline_carry_digest(stk_pipeline *pipeline, stk_digest *digest);

/* ---- what is going on ---- */

typedef struct stk_stats {
    int64_t samples, batches; /* handed over by next */
    int64_t bytes_read;       /* from files, as stored */
    int64_t consumer_wait_ns; /* time that next waited */
    int64_t buffer_bytes, peak_buffer_bytes, budget_bytes;
    int64_t skipped;          /* bad records left out, quarantined ones included */
    int64_t quarantined;
    int64_t dropped;          /* left out by filters, takes and skips that run on data */
    int64_t lost_bytes;       /* stretches of input without a readable record */
    int64_t cache_hits, cache_misses;
    int threads;
    int64_t total_batches;    /* of the whole run; -1: unknown or endless */
    int64_t ready_batches;    /* finished, not yet taken */
    int64_t epoch_batches;    /* of one epoch, where `repeat` is the last op; else of the run; -1: not known before it is over */
    int64_t held_batches;     /* taken, not yet released */
    int64_t cache_damaged;    /* samples of a cache file that failed their check and were made again */
} stk_stats;

STK_API void stk_pipeline_stats(const stk_pipeline *pipeline, stk_stats *out);

/* Time that workers spent in op i (in plan order; then cache, where there is one, and batch), and its name; false past the
   last. Since 0.1. */
STK_API bool stk_pipeline_op_stats(const stk_pipeline *pipeline, size_t i, const char **out_name, int64_t *out_busy_ns,
                                   int64_t *out_samples);

/* The plan as text, for people: what will run, what was rewritten and why. Valid until close. Since 0.1. */
STK_API const char *stk_pipeline_explain(const stk_pipeline *pipeline);
/* The same as one JSON object. */
STK_API const char *stk_pipeline_explain_json(const stk_pipeline *pipeline);

/* What label i of the source stands for: a class of `image_folder`. NULL past the last one, and where the source knows no
   names. Valid until close. Since 0.1. */
STK_API const char *stk_pipeline_class_name(const stk_pipeline *pipeline, int64_t i);

/* ---- versions ---- */

STK_API const char *stk_version(void);

#ifdef __cplusplus
}
#endif
#endif
