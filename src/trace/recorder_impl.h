/* The inside of the recorder, for the files of this directory. */
#ifndef STK_TRACE_RECORDER_IMPL_H
#define STK_TRACE_RECORDER_IMPL_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "trace/nest.h"
#include "trace/recorder.h"
#include "trace/ring.h"
#include "trace/recorder_format.h"

enum {
    STK__TRACKS_MAX = 256,
    STK__RING_MIN = 256,  /* events; hold_from() in drain.c must not fill it */
    STK__LANES = 3,       /* rows that a track may spread over when its slices do not nest */
    STK__SPAN_DEPTH = 64, /* open spans of one thread */
};

/* Exact totals of one name on one track, kept even when events are lost. Written by the producer only. */
typedef struct stk__tally {
    atomic_uint_fast64_t count, total_ns, lost;
} stk__tally;

struct stk__track {
    /* the producer's */
    stk__ring ring;
    stk__tally *tallies; /* by name */
    int64_t tid;         /* of the thread that recorded first; 0 before. Published by the first event. */

    /* set before use, then const */
    stk_recorder *recorder;
    char *name;
    stk__track *home; /* the track of the thread that this one belongs to, or NULL */

    /* the writer thread's */
    uint64_t seen; /* head of the ring at the last drain */
    stk__row rows[STK__LANES];
    stk__nest nests[STK__LANES];
};

typedef struct stk__open_span {
    int32_t name;
    int64_t start_ns;
} stk__open_span;

typedef struct stk__known_name {
    const char *pointer;
    const char *category; /* a literal of marks.c */
    int32_t name;
} stk__known_name;

/* What the public calls of one thread need. Used by that thread, and by stop; who set `busy`. */
typedef struct stk__marks {
    struct stk__marks *next;
    atomic_bool busy; /* a call of the thread is under way, or stop ends what is open; a lock that is hardly ever waited for */
    uint64_t thread; /* serial number of the thread, never used twice */
    stk__track *spans;
    stk__track *steps; /* made by the first step */
    bool steps_asked, step_open;
    int64_t step, step_start_ns;
    int64_t last_end_ns; /* of the spans */
    uint32_t depth, too_deep;
    stk__open_span stack[STK__SPAN_DEPTH];
    stk__known_name known[64]; /* where names were last found, by hash of the pointer */
} stk__marks;

struct stk_recorder {
    /* set before the writer starts, then const */
    uint64_t generation; /* differs for every recorder of the process */
    size_t memory_cap, ring_max, names_max, index_size;
    uint64_t limit_bytes, last_bytes; /* as in the options; one of them counts */
    int32_t name_other, name_step, arg_step;
    atomic_bool stopped; /* the one change: from then on events are not taken */

    atomic_size_t memory_used;
    atomic_uint_fast64_t refused; /* events of threads that got no track */

    pthread_mutex_t lock;
    /* guarded by lock; entries never move, and are const once published */
    stk__name *names;
    int32_t *index; /* open addressing: number of a name, 0 for free */
    int32_t names_count;
    stk__track *tracks[STK__TRACKS_MAX];
    atomic_size_t tracks_count; /* grows under lock; the writer reads it without */
    stk__marks *marks;

    /* how producers wake the writer */
    sem_t wake;
    atomic_bool wake_sent, end_writer;

    /* the writer thread's; stop has them after it has joined the thread */
    pthread_t thread;
    stk__writer writer;
    stk__output output;
    const stk__event **batch; /* ring_max pointers */
    uint64_t *unplaced;       /* by name: slices that fit on no row */
    uint32_t rows_count;
    uint64_t events_written, events_unwritten;
    bool full;                                /* limit_bytes was reached: events are counted only */
    uint64_t events_past_limit;               /* those */
    uint64_t segment_events[STK__SEGMENTS];   /* of last_bytes: that went to the segments which have ended, oldest first */
    uint64_t segment_first;                   /* events_written when the current one began */
    uint64_t events_rolled;                   /* of events_written: in segments that are gone */

    /* stop's and close's */
    bool finished;
    stk_recorder_stats stats; /* once it is finished */
};

/* Memory within the cap; NULL when it would be passed or when memory is out. Freed by stk__free after the last use. */
void *stk__recorder_alloc(stk_recorder *recorder, size_t size);

/* A track with at most `ring_max` events; `home` as in stk__track. */
stk__track *stk__track_new(stk_recorder *recorder, const char *name, size_t ring_max, stk__track *home);

void stk__track_free(stk__track *track);

/* The largest power of two that is at most n; 1 for 0. */
size_t stk__power_of_two_below(size_t n);

/* An event that could not be recorded: counted, with its time. */
void stk__track_lose(stk__track *track, int32_t name, int64_t ns);

/* The writer thread; its argument is the recorder. */
void *stk__recorder_main(void *recorder);
/* Writes what the rings hold; all of it when `final`. For the writer thread, and for stop once it has ended. */
void stk__recorder_drain(stk_recorder *recorder, bool final);

/* Ends the open spans and steps of all threads. */
void stk__marks_finish(stk_recorder *recorder, int64_t now_ns);

#endif
