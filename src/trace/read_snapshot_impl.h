/* What a memory snapshot says, as rows: read_snapshot.c fills them, read_snapshot_emit.c makes events of them. */
#ifndef STK_TRACE_READ_SNAPSHOT_IMPL_H
#define STK_TRACE_READ_SNAPSHOT_IMPL_H

#include "trace/builder_impl.h"
#include "trace/reader.h"

typedef enum stk__memory_action {
    STK__MEMORY_OTHER, /* shown as an instant: oom, snapshot, annotate, ... */
    STK__MEMORY_ALLOC,
    STK__MEMORY_FREE_REQUESTED, /* the memory is not free yet, so nothing changes */
    STK__MEMORY_FREE,
    STK__MEMORY_RESERVE,
    STK__MEMORY_RELEASE,
    STK__MEMORY_OOM,
} stk__memory_action;

/* One entry of a device's trace. */
typedef struct stk__memory_event {
    uint64_t address; /* OOM: what was free on the device */
    uint64_t size : 58, action : 6;
    int64_t time_us;   /* STK__NO_NUMBER: none */
    uint32_t callsite; /* STK__NONE */
    uint32_t other;    /* ALLOC: the event that ended it, or STK__MEMORY_HELD...; others: the name of its instant */
} stk__memory_event;

/* In the place of an event's number. */
#define STK__MEMORY_HELD (UINT32_MAX - 1) /* there to the end */
#define STK__MEMORY_EVENTS_MAX (UINT32_MAX - 2)

typedef struct stk__memory_block {
    uint64_t address;
    uint64_t size; /* that was asked for */
    uint32_t callsite;
    bool active;
} stk__memory_block;

typedef struct stk__memory_segment {
    int64_t device;
    uint64_t total_size;
    uint32_t first_block, block_count;
} stk__memory_segment;

typedef struct stk__memory_annotation {
    int64_t device, time_us;
    stk__string name;
    bool is_end;
} stk__memory_annotation;

/* Rows of one kind that a list of the file holds. */
typedef struct stk__memory_rows {
    uint32_t first, count;
} stk__memory_rows;

/* A growing table in the store of the trace. */
typedef struct stk__memory_table {
    stk__column column;
    size_t count;
} stk__memory_table;

typedef struct stk__memory_snapshot {
    stk__memory_table events, blocks, segments, annotations; /* rows, in the order of the file */
    stk__memory_table histories;                             /* stk__memory_block */
    stk__memory_table lists;                                 /* stk__memory_rows */
    stk__memory_table traces;                                /* stk__memory_rows of events, by device */
    stk__memory_rows device_traces, host_traces;             /* rows of `traces` */
    stk__memory_rows device_segments, host_segments, external_annotations;
    bool is_list; /* segments alone, as torch.cuda.memory_snapshot() gives them */
} stk__memory_snapshot;

/* Gives pages of tables in temporary files back. */
static inline void stk__memory_trim(const stk__memory_snapshot *s)
{
    stk__column_trim(&s->events.column);
    stk__column_trim(&s->blocks.column);
    stk__column_trim(&s->lists.column);
}

/* Tells the builder all of it. */
stk_status stk__memory_emit(stk__builder *b, stk__input *in, stk__memory_snapshot *s, stk_error *err);

static inline void *stk__memory_row(const stk__memory_table *t, size_t row, size_t bytes)
{
    return (char *)t->column.data + row * bytes;
}
#define STK__MEMORY_ROW(table, type, row) ((type *)stk__memory_row(table, row, sizeof(type)))

#endif
