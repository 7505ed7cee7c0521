/* The inside of the builder, for builder.c and the files that finish a trace. */
#ifndef STK_TRACE_BUILDER_IMPL_H
#define STK_TRACE_BUILDER_IMPL_H

#include "trace/builder.h"
#include "trace/keymap.h"
#include "trace/store.h"

/* Bits of slices.flags until the trace is finished. Rows of both kinds have the offset in the file in place of a duration. */
enum { STK__RAW_BEGIN = 0x40, STK__RAW_END = 0x80 };

/* Tables whose rows are found again by a key. */
enum {
    STK__KEY_PROCESS,
    STK__KEY_THREAD,
    STK__KEY_TRACK,
    STK__KEY_FLOW,
    STK__KEY_FRAME,
    STK__KEY_CALLSITE,
    STK__KEY_NOTE,
    STK__KEYS
};

/* Columns that grow together, row by row. */
enum { STK__GROW_SLICES, STK__GROW_ARGS, STK__GROW_COUNTERS, STK__GROW_POINTS, STK__GROW_SAMPLES, STK__GROW_GROUPS };

typedef struct stk__string_slot {
    uint32_t hash, string; /* string 0: free, since the empty string is never looked up */
} stk__string_slot;

struct stk__builder {
    stk__trace *trace; /* with its store; counts grow as rows come */
    stk_status status; /* the first failure */
    stk_error error;
    stk__trace_options options;
    char *path;         /* of the current file, for progress */
    uint32_t file;      /* current */
    int64_t offset;     /* of the event being read */
    uint32_t first_arg; /* of the args that wait for their event */
    bool loose_args;    /* some sets of args belong to no slice any more */
    uint64_t since_trim;
    size_t room[STK__GROW_GROUPS]; /* rows that all columns of the group have room for; 0 after a failure */

    stk__string_slot *slots;
    size_t slot_count; /* a power of two */
    uint32_t *key_row; /* per string: the last arg row with this key; only valid when that row is a waiting one */
    size_t key_rows;
    stk__rowmap maps[STK__KEYS]; /* rows by what they are known by */
    uint8_t *track_raw;          /* per track: has begins and ends */
    size_t track_raw_capacity;
};

/* Keeps the first failure. */
void stk__builder_fail(stk__builder *b, const stk_error *err);
/* Room for `rows` rows in a column; false after keeping the failure. */
bool stk__builder_room(stk__builder *b, int column, size_t rows);
/* The same as stk__builder_notes, for any file. */
void stk__builder_note_file(stk__builder *b, uint32_t file, stk__trace_reason reason, uint64_t count, int64_t offset);
/*
 * A set of args with those of both; the second one's count where a key is in both, which is noted where it changes the value. Either
 * may be 0.
 */
uint32_t stk__builder_join_args(stk__builder *b, uint32_t first, uint32_t second, uint32_t file, int64_t offset);
/* A lane beside `track`. */
uint32_t stk__builder_lane(stk__builder *b, uint32_t track, uint32_t lane);

/* The steps of stk__builder_finish; each keeps failures in the builder. */
void stk__finish_join(stk__builder *b);   /* finish_join.c: processes of several files that are one */
void stk__finish_slices(stk__builder *b); /* finish_slices.c */
void stk__finish_clocks(stk__builder *b); /* finish_clocks.c: files whose times are plainly those of the day */
void stk__finish_args(stk__builder *b);   /* finish_args.c: takes out sets that no slice has */
void stk__finish_points(stk__builder *b); /* finish_flows.c: counters and samples */
void stk__finish_flows(stk__builder *b);  /* finish_flows.c */

/* ---- order of rows: row_order.c ---- */

typedef struct stk__row_keys {
    const int64_t *ts;
    const int64_t *dur; /* longer first at equal ts; NULL: order of the file */
} stk__row_keys;

/* Sorts row numbers by ts, then dur, then number; fast when they nearly are. scratch has room for `count`. */
void stk__rows_sort(uint32_t *rows, size_t count, stk__row_keys keys, uint32_t *scratch);
/*
 * Row numbers 0 to count - 1 by track, else in order. out_first[track] is where a track's rows start; it has track_count + 1 places.
 */
void stk__rows_group(const uint32_t *track, size_t count, size_t track_count, uint32_t *out_rows, uint32_t *out_first);
/* Puts a column's rows in the order of `rows`. */
bool stk__rows_apply(stk__builder *b, int column, const uint32_t *rows, size_t count);

#endif
