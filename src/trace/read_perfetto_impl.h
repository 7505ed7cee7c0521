/* The state of the Perfetto reader, shared by its files. */
#ifndef STK_TRACE_READ_PERFETTO_IMPL_H
#define STK_TRACE_READ_PERFETTO_IMPL_H

#include "trace/builder.h"
#include "trace/keymap.h"
#include "trace/perfetto.h"
#include "trace/wire_field.h"

/* Kinds of ids in pf_reader.ids. Interned data has its own field number as kind, below these. */
enum {
    PF_SEQUENCE = 64,
    PF_TRACK,
    PF_CLOCK,
    PF_SOURCE_FUNCTION,
    PF_SOURCE_LINE,
};

#define PF_MISSING UINT32_MAX /* no value for an id */

/* One writer of packets. Interned ids, defaults and clocks 64 to 127 hold within it. */
typedef struct pf_sequence {
    uint32_t id;
    uint32_t epoch; /* a new one each time the state is cleared, so that old ids are not found any more */
    bool valid;     /* the state has been cleared, and no packet was lost since */
    /* defaults */
    bool has_track;
    uint32_t clock_id;
    uint64_t track_uuid;
    uint64_t *extra_int, *extra_double; /* tracks of extra counter values */
    size_t extra_int_count, extra_double_count;
    size_t extra_int_capacity, extra_double_capacity;
    stk__string sample_event;
    int weight_follower; /* which follower count is the weight of a sample; -1: none */
    uint32_t weight_unit;
    /* from before there were tracks */
    uint32_t thread; /* STK__NONE */
    bool has_time;
    int64_t time_ns; /* what timestamp_delta_us is added to */
} pf_sequence;

typedef struct pf_track {
    uint64_t uuid, parent;
    stk__string name, unit;
    uint32_t process, thread; /* of its own descriptor; STK__NONE */
    uint32_t row;             /* track of the model; STK__NONE until an event needs it */
    bool described, has_parent, counter, incremental, totals;
    int64_t multiplier;
    uint32_t epoch; /* in which `last` was made */
    double last;    /* of an incremental counter */
} pf_track;

/* A place where two clocks were read at once: time of the trace = time of the clock + offset. */
typedef struct pf_clock_point {
    int64_t at, offset;
} pf_clock_point;

typedef struct pf_clock {
    uint32_t id;
    bool incremental;
    int64_t multiplier, last;
    pf_clock_point *points;
    size_t count, capacity;
} pf_clock;

/*
 * An event that a flow goes through. Which one starts it is known when all are there: packets are not in order of
 * time.
 */
typedef struct pf_flow {
    uint64_t id;
    int64_t ts;
    uint32_t track, order; /* of the model; as they came */
    bool end;
} pf_flow;

/* The fields of one packet. */
typedef struct pf_packet {
    int64_t offset;
    uint64_t timestamp;
    uint32_t clock_id, sequence_id, flags, data; /* data: field number of what it carries, 0: nothing */
    bool has_timestamp, has_clock_id, cleared, dropped, first;
    stk__wire body; /* of `data` */
    stk__wire interned, defaults, snapshot, descriptor, event;
} pf_packet;

typedef struct pf_reader {
    stk__builder *b;
    uint64_t seed; /* so that a file cannot choose ids that collide */
    bool nomem;
    bool unpacking; /* inside of compressed packets */
    int64_t offset; /* of the packet */
    stk__keymap ids;
    uint32_t epochs;
    pf_sequence *sequences;
    size_t sequence_count, sequence_capacity;
    pf_track *tracks;
    size_t track_count, track_capacity;
    pf_clock *clocks;
    size_t clock_count, clock_capacity;
    pf_flow *flows;
    size_t flow_count, flow_capacity;
    uint32_t trace_clock; /* that the times of the model are in; 0: not known yet */
    uint64_t wasted;      /* bytes of damaged packets, which are searched for whole ones */
    uint64_t lost;        /* by the recorder, since its last summary */
    stk__text json, category;
} pf_reader;

/* read_perfetto.c: the value that an id stands for, or PF_MISSING. */
uint32_t stk__pf_find(const pf_reader *r, uint32_t kind, uint32_t epoch, uint64_t id);
void stk__pf_set(pf_reader *r, uint32_t kind, uint32_t epoch, uint64_t id, uint32_t value);
/* A string from the file, and one that was interned on the sequence: 0 and a note when it was not. */
stk__string stk__pf_text(pf_reader *r, stk__wire text);
stk__string stk__pf_interned(pf_reader *r, const pf_sequence *s, uint32_t kind, uint64_t iid);
void stk__pf_note(pf_reader *r, stk__trace_reason reason);
/* Grows one of the reader's arrays by a row; false after keeping the failure. */
bool stk__pf_room(pf_reader *r, void **items, size_t *capacity, size_t count, size_t item_size);

/* read_perfetto_clock.c */
void stk__pf_snapshot(pf_reader *r, const pf_sequence *s, stk__wire snapshot);
/* A time of the trace; false when the clock's relation to it is not known. Incremental clocks move on. */
bool stk__pf_time(pf_reader *r, const pf_sequence *s, uint32_t clock_id, uint64_t value, int64_t *out);
/* The file's clock, after all packets. */
void stk__pf_clock_finish(pf_reader *r);

/* read_perfetto_tracks.c */
void stk__pf_descriptor(pf_reader *r, stk__wire descriptor);
void stk__pf_process_tree(pf_reader *r, stk__wire tree);
/* Returns the process, or the thread; STK__NONE on damage. */
uint32_t stk__pf_process(pf_reader *r, stk__wire descriptor);
uint32_t stk__pf_thread(pf_reader *r, stk__wire descriptor, int64_t *out_reference_us);
/* The number of a track by its uuid, made when it is new; PF_MISSING when memory is out. */
uint32_t stk__pf_track(pf_reader *r, uint64_t uuid);
/* The model's track for it. */
uint32_t stk__pf_track_row(pf_reader *r, uint32_t track, bool counter);
/* Names and parents of tracks, which may come after their events. */
void stk__pf_tracks_finish(pf_reader *r);

/* read_perfetto_event.c: has_time false: the packet has no time. */
void stk__pf_event(pf_reader *r, pf_sequence *s, stk__wire event, bool has_time, int64_t time);
/* Flow points, after all packets. */
void stk__pf_flows_finish(pf_reader *r);

/* read_perfetto_args.c: debug annotations become args of the next event. */
void stk__pf_arg(pf_reader *r, const pf_sequence *s, stk__wire arg);

/* read_perfetto_interned.c */
void stk__pf_intern(pf_reader *r, const pf_sequence *s, stk__wire interned);
void stk__pf_streaming_profile(pf_reader *r, pf_sequence *s, stk__wire packet, bool has_time, int64_t time);
void stk__pf_perf_sample(pf_reader *r, const pf_sequence *s, stk__wire sample, bool has_time, int64_t time);

#endif
