/* The parts of a running pipeline: slabs (batches), parts (work units), workers, and who may touch what. */
#ifndef STK_ENGINE_RUN_H
#define STK_ENGINE_RUN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "engine/budget.h"
#include "engine/plan.h"
#include "trace/recorder.h"

/* What follows a batch: enough to go on from there. */
typedef struct stk__place {
    int64_t batches, samples; /* handed over up to here */
    int64_t round_batches;    /* of these, in this round of a repeat behind the batch; where batches cannot be counted */
    int64_t ticket;           /* the next one; where batches cannot be counted */
    int64_t relay_seen[STK__MAX_RELAYS], relay_epoch[STK__MAX_RELAYS];
    int64_t batch_seen[STK__CHAIN_MAX]; /* by order ops behind the batch */
    int64_t skipped, quarantined, dropped, lost_bytes;
    int64_t listed_bytes;  /* of the list of bad records, up to here */
    uint64_t listed_check; /* a hash of these */
} stk__place;

/* The memory of one batch. Owned by one of: the free list, the executor, the consumer. */
typedef struct stk__slab {
    stk_batch batch; /* first: the consumer's pointer is ours */
    struct stk__slab *next;
    struct stk__slab *previous; /* among those that the consumer holds */
    stk_column *columns;
    stk__buffer *data;    /* per column: elements (dense, ragged or padded) */
    stk__buffer *offsets; /* per ragged column */
    stk__buffer *shapes;  /* per ragged or padded column: shape of each row */
    stk__chunk **chunks;  /* that hold contents of bytes columns; one reference each */
    size_t chunk_count, chunk_capacity;
    uint64_t held_serial; /* the part whose chunks were taken last */

    /* guarded by the pipeline's lock while in flight */
    stk__position first; /* of its first row, before the batch op */
    int64_t number;      /* by which ops on finished batches draw: see stk__worker_rows */
    int64_t rows, next_row, rows_done;
    struct stk__part *parts; /* finished ones, by row */
    bool ready;
    int64_t error_row;
    stk_error *error; /* the failure of the lowest row; NULL: none */
    stk__place after;
} stk__slab;

/* A bad record on its way to the count. */
typedef struct stk__bad {
    struct stk__bad *next;
    int64_t row;
    stk_error error;
    stk_origin origin;
} stk__bad;

/* A raw sample of a stream, packed. */
typedef struct stk__item {
    struct stk__item *next;
    stk__buffer packed;
    stk_origin origin;
    int64_t index, epoch, epoch_behind_batch;
    int64_t place; /* in the round that is dealt out among ranks */
    int64_t epochs[STK__MAX_RELAYS];
    stk__bad *bad; /* the source could not read it */
    bool from_cache; /* the source was not asked */
} stk__item;

#define STK__ROW_KEPT INT32_MAX
#define STK__THREADS_MAX 256

/* A run of samples that one worker takes through the segment, and what came of it. */
typedef struct stk__part {
    struct stk__part *next;
    uint64_t serial; /* a new one for each use */
    int64_t rows;
    char **dense;         /* per column: where rows go; in the slab, or own memory */
    char *dense_memory;   /* own memory, when batches cannot be counted */
    stk__buffer *ragged;  /* per column that is not dense: elements */
    stk__buffer *shapes;  /* likewise: shape of each row */
    stk__arena arena;     /* contents of bytes columns */
    int64_t row0;         /* first row in the slab */
    int64_t error_row;    /* -1: none */
    stk_error error;

    /* only where batches cannot be counted */
    int64_t sequence;
    int64_t ticket;       /* of the first row */
    int64_t cursor;       /* rows already assembled */
    int32_t *dropped_at;  /* per row: step of the segment that dropped it, or STK__ROW_KEPT */
    int64_t *epoch_behind_batch;
    int64_t *epochs;      /* STK__MAX_RELAYS per row */
    int64_t *row_epoch;
    stk__bad *bad;        /* by row */
    stk__item **items;    /* streams: per row */
    bool ready;
} stk__part;

#define STK__TILE_MAX 256

/* What a part held when a tile began; see stk__tile_undo. */
typedef struct stk__tile_mark {
    stk__arena_mark arena;
    size_t *sizes; /* of the part's ragged buffers and shapes, by column */
    int64_t bytes_read;
    int64_t *samples; /* per slot */
} stk__tile_mark;

struct stk__worker;

/* The call object of one step in one worker. */
typedef struct stk__worker_call {
    stk_call call; /* first */
    struct stk__worker *worker;
    int step; /* in the segment */
    uint32_t key[2];
    bool opened;
    const stk_call **group; /* what runs as one, or NULL */
    size_t group_count;
} stk__worker_call;

/* One sample of the tile. */
typedef struct stk__tile_sample {
    stk_sample sample; /* first */
    uint8_t *placed;   /* per var: contents already lie in the part's arena */
    bool alive;
    bool cached;       /* nothing to do in steps before the cache: it comes from there, was made, or others are at it */
    bool claimed;      /* by us: to be stored */
    bool awaited;      /* others make it */
} stk__tile_sample;

typedef struct stk__worker {
    struct stk_pipeline *pipeline;
    pthread_t thread;
    bool started;
    int number;
    stk__worker_call *calls; /* per step of the segment */
    stk__tile_sample *tile;
    stk_value *values;
    stk_slot *slots; /* per var: where its rows go in the part at hand */
    uint8_t *placed;
    stk__arena scratch;
    stk__buffer cache_buffer;
    stk__part *part; /* being worked on */
    stk__tile_mark mark;
    size_t table_bytes; /* charged for what stands by sample and field; 0: too little to count */
    int64_t idle_ticket, idle_epoch; /* without a part: where the next one will start */
    stk__track *track;
    int64_t *unit_ns; /* per slot, in this unit */
    int64_t *traced_ns; /* per slot, in units that are not in the trace yet */
    int64_t traced_start_ns, traced_end_ns, traced_rows;
    bool traced_open; /* there is something in these */

    /* written by the worker, read by anybody */
    _Atomic int64_t *busy_ns; /* per slot; this and the next stay until the pipeline is closed */
    _Atomic int64_t *samples; /* per slot */
    _Atomic int64_t bytes_read;
    _Atomic int stall_step;   /* what it is on, -1: nothing */
    _Atomic int64_t stall_since_ns, stall_index;
} stk__worker;

struct stk__feeder;
struct stk__cache;

/* Numbers of the names in the trace. */
typedef struct stk__trace_names {
    int32_t *steps;
    int32_t unit, wait_room, wait_input, wait_memory, assemble, wait_batch;
    int32_t arg_rows;
    int32_t memory, ready;
} stk__trace_names;

struct stk_pipeline {
    /* set before start, then const */
    stk__plan plan;
    stk_registry *own_registry;
    stk_open_info open_info;
    stk__budget budget;
    stk__chunk_pool *chunks;
    int threads, columns;
    stk__worker *workers;
    size_t *column_row_bytes; /* per column: bytes of a row, 0 when rows vary */
    int *stored_columns;      /* columns whose values do not lie in their rows already when the steps are through */
    int stored_count;
    int tile_most;            /* samples of a tile at most: fewer where there are many fields */
    int64_t part_rows;        /* rows of a part at most */
    int ahead;                /* batches in flight or ready, see stk__ahead_locked */
    bool ahead_fixed;         /* the user said how many */
    bool direct;              /* batches can be counted: rows are written into their slab at once */
    int64_t total_tickets;    /* where they cannot */
    stk_recorder *recorder;
    stk__trace_names names;
    stk__track *consumer_track;
    struct stk__cache *cache;
    struct stk__feeder *feeder; /* streams only */
    bool has_rows_ops;          /* ops that work on finished batches */
    stk__allocator batch_memory; /* alloc NULL: the usual one */
    int64_t first_epoch;        /* of the whole run, also when it was resumed */
    pthread_mutex_t look;       /* guards what ops said of their data: see look.c */
    struct stk__checkpoint *resumed; /* what the run goes on from; NULL: from the start */

    pthread_mutex_t lock;
    pthread_cond_t work, ready, watch;
    pthread_cond_t quiet; /* next has returned, or stop is done */

    /* guarded by lock */
    stk__slab *free_slabs, *held_slabs; /* held: by the consumer */
    int slab_count, held_count;
    size_t slab_bytes;    /* the most that one slab and its parts took */
    stk__slab *flight[256]; /* ring of batches in order, oldest first */
    int flight_head, flight_count;
    int64_t next_batch;   /* to be started: its number in the chain */
    int64_t index_base;   /* number in the whole run of the chain's batch 0 */
    stk__part *free_parts;
    size_t part_bytes;    /* the most that a part took besides its rows */
    int64_t row_bytes;    /* the most that a row of a part took, on average; 0: not known yet */
    bool slab_known;      /* a batch was finished, so slab_bytes is a measure */
    int unfinished, running; /* batches being made, and parts being worked on */
    uint64_t last_serial;
    int64_t ns_per_sample; /* a running mean, for the size of units */
    bool stopping, failed, supply_ended, ended;
    int waiting;         /* workers */
    bool consumer_waits; /* and wants to be woken */
    int in_next;         /* threads inside of it; stop waits for them */
    bool paused;         /* the last next timed out: the next one goes on with that wait */
    int64_t paused_start_ns, paused_end_ns; /* the wait so far, for the trace */
    bool asked;          /* on demand: next wants a batch */
    int64_t interval_ns, last_batch_ns; /* from one batch taken to the next */
    int64_t counted_ns; /* when counters were last traced */
    bool started;
    bool stopped;        /* workers are gone, and what is released is freed */
    struct stk__room {   /* see room.c */
        pthread_cond_t calm;  /* a worker went idle, the memory is free again, or the consumer came */
        int busy;             /* workers that are not waiting */
        int allowed;          /* may be busy at a time: fewer after memory was short */
        int calm_units;       /* done since then */
        int pressed;          /* workers that wait for the memory, or have it */
        uint64_t waiting[STK__THREADS_MAX]; /* serials of those that wait */
        int waiting_count;
        bool taken;           /* one has it to itself */
        bool stuck;           /* and needs what the consumer holds */
    } room;
    struct {             /* what stop takes over from the parts that it frees */
        bool valid;
        int64_t bytes_read, cache_hits, cache_misses, cache_damaged;
    } kept;

    /* where batches cannot be counted; guarded by lock */
    stk__part *queue[256]; /* ring of parts in order */
    int queue_head, queue_count;
    int64_t next_ticket;
    bool feeding;    /* a worker is pulling from the feeder */
    bool assembling; /* a worker is assembling; it alone touches `filling`, `place` and `last_epoch_behind_batch` */
    stk__worker *assembler; /* that worker */
    stk__slab *filling;
    stk__place place;
    int64_t left_out; /* rows in a row that filters and bad records took */
    int64_t last_epoch_behind_batch;
    bool skip_epoch; /* a take behind batch has had its fill of this epoch */

    pthread_mutex_t list_lock;
    FILE *quarantine; /* guarded by list_lock, which nobody waits for while holding the other */

    atomic_bool cancelled;
    atomic_bool stop_asked;

    stk__place consumed; /* written by next, under the lock */

    /* consumer only */
    stk__place start; /* where a resumed run began */
    int64_t sunk; /* samples that the sink got in this run */
    stk_digest *digest; /* the caller's; checkpoints carry its value along */
    bool resumed_digest;
    uint64_t digest_high, digest_low; /* from the checkpoint */
    stk_error failure;
    bool failure_set;
    _Atomic int64_t consumer_wait_ns, samples_out, batches_out, skipped, quarantined, dropped, lost_bytes;
    _Atomic int64_t scratch_per_sample; /* bytes, a running mean, for the size of tiles */
    pthread_t watchdog;
    bool watchdog_started;
};

/* Times and traces have a slot for each step of the segment, then one for the cache and one for all that makes the batch. */
static inline int stk__slot_cache(const stk_pipeline *p)
{
    return p->plan.segment_count;
}

static inline int stk__slot_batch(const stk_pipeline *p)
{
    return p->plan.segment_count + 1;
}

static inline int stk__slot_count(const stk_pipeline *p)
{
    return p->plan.segment_count + 2;
}

/* slab.c */
stk_status stk__slab_new(stk_pipeline *p, stk__slab **out, stk_error *err);
void stk__slab_free(stk_pipeline *p, stk__slab *slab);
/* Empties it for reuse; gives chunks back. */
void stk__slab_reset(stk_pipeline *p, stk__slab *slab);
stk__part *stk__part_new(stk_pipeline *p, stk_error *err);
void stk__part_free(stk_pipeline *p, stk__part *part);
void stk__part_reset(stk_pipeline *p, stk__part *part);
/* Bytes that came with the samples in it. */
size_t stk__part_bytes(const stk_pipeline *p, const stk__part *part);
/* Takes rows [from, to) of a part, all kept, into the slab behind the rows it has. Dense rows are copied unless they lie there. */
stk_status stk__slab_append(stk_pipeline *p, stk__slab *slab, stk__part *part, int64_t from, int64_t to, stk_error *err);
/* Fills in the public columns. */
stk_status stk__slab_finish(stk_pipeline *p, stk__slab *slab, stk_error *err);
/* Bytes that the slab's buffers take. */
size_t stk__slab_bytes(const stk_pipeline *p, const stk__slab *slab);

/* worker.c: runs the part through the segment. Samples' index and epoch are set by the callback for each row. */
typedef void (*stk__row_position)(stk_pipeline *p, stk__part *part, int64_t row, stk_sample *out);
void stk__worker_run(stk__worker *worker, stk__part *part, stk__row_position position);
/* Samples that are worked on together at most, so that tables by sample and field stay small. */
int stk__tile_most(int vars);
/*
 * Takes a finished batch through the ops that work on its rows. They draw by `number`: that of the batch in its round of a
 * repeat at the end, so that an epoch draws the same wherever the run began; else that in the run.
 */
stk_status stk__worker_rows(stk__worker *w, const stk_batch *batch, int64_t number, stk_error *err);
/* Puts units into the trace that were held back to be shown together. */
void stk__worker_trace(stk__worker *worker);
/* Adds time to them. */
void stk__worker_trace_add(stk__worker *worker, int slot, int64_t start_ns, int64_t end_ns);
stk_status stk__worker_open(stk_pipeline *p, stk__worker *worker, int number, stk_error *err);
/* Frees all but its statistics, which stk__worker_clear frees. */
void stk__worker_close(stk_pipeline *p, stk__worker *worker);
void stk__worker_clear(stk__worker *worker);

/* pack.c: values of some vars as one run of bytes, and back. */
stk_status stk__pack(const stk__plan *plan, const int *vars, int count, const stk_value *values, stk__buffer *out,
                     stk__budget *budget, stk_error *err);
/* Numbers become views on `packed`; arrays of bytes views come from the worker's scratch. Untrusted input. */
stk_status stk__unpack(const stk__plan *plan, const int *vars, int count, const char *packed, size_t size,
                       stk_value *values, stk__arena *scratch, stk__chunk_pool *chunks, stk_error *err);

/* feeder.c: samples of a stream in order. */
stk_status stk__feeder_open(stk_pipeline *p, stk_error *err);
/* Fills the part with up to `rows` items, on behalf of `worker`. END when there are none left. One thread at a time. */
stk_status stk__feeder_pull(stk_pipeline *p, stk__worker *worker, stk__part *part, int64_t rows, stk_error *err);
/* Starts with this round of the repeat behind the batch. Before anything is pulled. */
void stk__feeder_begin(stk_pipeline *p, int64_t round);
/* Goes over `count` items without keeping them. */
stk_status stk__feeder_skip(stk_pipeline *p, int64_t count, stk_error *err);
void stk__feeder_return(stk_pipeline *p, stk__part *part);
void stk__feeder_close(stk_pipeline *p);
int64_t stk__feeder_bytes_read(const stk_pipeline *p);
/* Samples in one pass over the source; -1 before the first is over. */
int64_t stk__feeder_source_count(const stk_pipeline *p);

/* assemble.c: from parts to batches, counting what falls out. */
/* Assembles the oldest part as far as slabs allow. Called with the lock held, by one worker at a time; drops the lock while copying. */
void stk__assemble_locked(stk_pipeline *p, stk__worker *worker);
/* Whether that would get anywhere now. */
bool stk__can_assemble_locked(const stk_pipeline *p);

/* room.c: a worker that finds no memory waits until it has all of it to itself, and tries again. */
/* Waits for that, before all that have a higher serial. False: the run is being stopped. Not from inside an op. */
bool stk__room_enter(stk_pipeline *p, stk__worker *w, uint64_t serial);
bool stk__room_enter_locked(stk_pipeline *p, stk__worker *w, uint64_t serial);
void stk__room_leave(stk_pipeline *p);
void stk__room_leave_locked(stk_pipeline *p);
/* It was too little even so: waits for the consumer to give memory back. False: nothing more will come. */
bool stk__room_await(stk_pipeline *p, uint64_t serial);
bool stk__room_await_locked(stk_pipeline *p, uint64_t serial);
/* A worker begins to wait for work, or goes on. */
void stk__room_idle_locked(stk_pipeline *p);
void stk__room_busy_locked(stk_pipeline *p);
/* Whether a worker may start something new. */
bool stk__room_open_locked(const stk_pipeline *p);
/* A unit was done without trouble; true: another worker may join. */
bool stk__room_done_locked(stk_pipeline *p);
/* The consumer took a batch, gave one back, or waits for one. */
void stk__room_consumer_locked(stk_pipeline *p);
/* Room in a buffer, after waiting for it where need be. Not under the lock, not from inside an op. */
stk_status stk__room_reserve(stk_pipeline *p, stk__buffer *b, size_t extra, uint64_t serial, stk_error *err);

/* exec.c */
stk__slab *stk__take_slab_locked(stk_pipeline *p);
int stk__ahead_locked(const stk_pipeline *p);
/* Throws away what was made last, to be made again, for older work that needs its memory; false when there is none. Nobody may be
   in an op. */
bool stk__drop_newest_locked(stk_pipeline *p);
/* False when none can be had now. */
bool stk__slab_room_locked(const stk_pipeline *p);
void stk__push_ready_locked(stk_pipeline *p, stk__slab *slab);
/* Ends the run with an error, after the batches that are ready. */
void stk__fail_locked(stk_pipeline *p, const stk_error *error);
stk_status stk__exec_start(stk_pipeline *p, stk_error *err);
/* Ends all threads of the run. Waits for a next that is under way, which returns STK_CANCELLED. */
void stk__exec_stop(stk_pipeline *p);

/* cache.c */
stk_status stk__cache_open(stk_pipeline *p, stk_error *err);
/*
 * The stored sample, or STK_END when it is not there. *out_dropped_at: the step that dropped it, or STK__ROW_KEPT. A sample that is
 * not there and could be stored is claimed, so that others wait for it; MINE must be given up by unclaim, after put or without.
 */
typedef enum stk__claim { STK__CLAIM_NONE, STK__CLAIM_MINE, STK__CLAIM_OTHERS } stk__claim;
stk_status stk__cache_get(stk_pipeline *p, stk__worker *worker, int64_t index, stk_value *values, int32_t *out_dropped_at,
                          stk__claim *out_claim, stk_error *err);
stk_status stk__cache_put(stk_pipeline *p, stk__worker *worker, int64_t index, const stk_value *values,
                          int32_t dropped_at, stk_error *err);
void stk__cache_unclaim(stk_pipeline *p, int64_t index);
/* Waits until who makes the sample has stored it or given up, or the run ends. Not with claims of one's own. */
void stk__cache_wait(stk_pipeline *p, int64_t index);
/* Counts a sample that is made although others are at it. */
void stk__cache_missed(stk_pipeline *p);
/* True once every sample is stored, so that the source need not be read. */
bool stk__cache_complete(const stk_pipeline *p);
/* Publishes a disk cache when it is complete. */
stk_status stk__cache_finish(stk_pipeline *p, stk_error *err);
void stk__cache_close(stk_pipeline *p);
/* Makes any bytes a cache file whose magic numbers, fingerprint and check sums fit; so that a fuzzer gets past them. */
void stk__cache_seal(void *bytes, size_t size, uint64_t fingerprint);
/* Damaged: samples whose stored bytes failed their check. */
void stk__cache_counts(const stk_pipeline *p, int64_t *out_hits, int64_t *out_misses, int64_t *out_damaged);

/* look.c: what data is known by; any thread. */
/* Asks the ops whose answers come quickly. */
void stk__look_at_open(stk_pipeline *p);
/* A number that changes when names, sizes or contents of files that the first `steps` ops of the segment read do. */
uint64_t stk__data_fingerprint(stk_pipeline *p, int steps);
/* A number that changes when these files were written to or touched. */
uint64_t stk__data_stamp(stk_pipeline *p, int steps);
/* Waits, some milliseconds, while a file is so new that another write could leave its times as they are. */
void stk__data_settle(stk_pipeline *p, int steps);

/* quarantine.c: the list holds what was met so far, which is ahead of what was handed over; a resume cuts it back. */
/* Starts the list of a new run, or of one that goes on: with the lines up to p->place, which must be there. */
stk_status stk__quarantine_open(stk_pipeline *p, stk_error *err);
/* What was written survives a power cut from here on. */
stk_status stk__quarantine_sync(stk_pipeline *p, stk_error *err);
void stk__quarantine_close(stk_pipeline *p);
/* Counts a bad record by the policy; fails when there are too many. */
stk_status stk__count_bad(stk_pipeline *p, const stk__bad *bad, stk__place *place, stk_error *err);
/* Adds what is known of the place to an error. */
void stk__error_origin(stk_error *err, const stk_origin *origin, const char *op);

/* resume.c */
/* Whether the run goes on from a checkpoint. */
static inline bool stk__resumes(const stk_pipeline *p)
{
    return p->plan.config.resume_path || p->plan.config.resume_state;
}
/* Reads the checkpoint and compares what is known before data is touched. A run that was a flow goes on as one. */
stk_status stk__resume_read(stk_pipeline *p, stk_error *err);
/* Compares the rest and goes there. */
stk_status stk__resume_apply(stk_pipeline *p, stk_error *err);
/* Sets the run to begin with this epoch: see stk_config. Before anything is made. */
stk_status stk__begin_epoch(stk_pipeline *p, int64_t epoch, stk_error *err);

#endif
