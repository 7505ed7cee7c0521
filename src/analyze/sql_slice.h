/* The table of slices, inside: its columns, and how a plan is told to the cursor. */
#ifndef STK_ANALYZE_SQL_SLICE_H
#define STK_ANALYZE_SQL_SLICE_H

#include "analyze/sql_impl.h"

/* One list gives the numbers and the declaration. Columns of args follow, one for each of stk__sql_pasted. */
#define STK__SLICE_COLUMNS(X)      \
    X(id, "INTEGER")               \
    X(ts, "INTEGER")               \
    X(dur, "INTEGER")              \
    X(track_id, "INTEGER")         \
    X(category, "TEXT")            \
    X(name, "TEXT")                \
    X(depth, "INTEGER")            \
    X(parent_id, "INTEGER")        \
    X(arg_set_id, "INTEGER")       \
    X(utid, "INTEGER")             \
    X(upid, "INTEGER")             \
    X(tid, "INTEGER")              \
    X(pid, "INTEGER")              \
    X(thread_name, "TEXT")         \
    X(process_name, "TEXT")        \
    X(file_id, "INTEGER")          \
    X(is_instant, "INTEGER")       \
    X(is_unfinished, "INTEGER")    \
    X(cat, "TEXT HIDDEN")          \
    X(slice_id, "INTEGER HIDDEN")  \
    X(thread_ts, "INTEGER HIDDEN") \
    X(thread_dur, "INTEGER HIDDEN")

enum {
#define STK__SLICE_ENUM(name, type) STK__SLICE_##name,
    STK__SLICE_COLUMNS(STK__SLICE_ENUM)
#undef STK__SLICE_ENUM
        STK__SLICE_COLUMN_COUNT
};

/* What the table itself checks. Their values come to xFilter in this order; bits of idxNum. */
enum {
    STK__TERM_ID,
    STK__TERM_ID_LOW,
    STK__TERM_ID_HIGH,
    STK__TERM_TRACK,
    STK__TERM_PARENT,
    STK__TERM_ARGS,
    STK__TERM_NAME,
    STK__TERM_NAME_IN, /* all values at once */
    STK__TERM_NAME_LIKE,
    STK__TERM_NAME_GLOB,
    STK__TERM_CATEGORY,
    STK__TERM_TS_LOW,
    STK__TERM_TS_HIGH,
    STK__TERM_COUNT,
};

/* Which rows are looked at, and in which order; idxNum above the terms. */
enum {
    STK__PATH_ROWS,   /* all, by id */
    STK__PATH_TRACK,  /* of one track */
    STK__PATH_PARENT, /* inside one slice */
    STK__PATH_ARGS,   /* with one set of args */
    STK__PATH_NAME,   /* of one name */
    STK__PATH_TRACKS, /* all, track by track; of each the part between two times */
    STK__PATH_SORTED, /* all, sorted by the columns that idxStr has as letters from 'a'; 'A': largest first */
    STK__PATH_SHIFT = 16,
    STK__PATH_REVERSE = 1 << 23,  /* from the end */
    STK__PATH_DISTINCT = 1 << 24, /* SORTED: one row of equal ones is enough */
};

/*
 * xBestIndex. idxStr is "LETTERS/HEX": the order, and which columns are read: bits of STK__COPY_..., with ROW standing
 * for all that are never copied.
 */
int stk__slice_plan(const stk__trace *t, sqlite3_index_info *info);

/* On a column to sort by: largest first. */
enum { STK__KEY_FLIPPED = 0x80 };

/* Whether rows can be sorted by this column. */
bool stk__slice_sortable(int column);
/* The order of rows by these columns, made when it is not there; the caller gives it back by lowering `users`. */
stk__sql_order *stk__slice_order(stk__sql *s, const uint8_t *columns, size_t count);
/*
 * A column in this order. NULL when memory is out, or when the copies of all orders would become too large, which only
 * happens to columns other than ROW.
 */
const void *stk__slice_copy(stk__sql *s, stk__sql_order *order, int copy);
/* Totals of each group; the order must have groups. NULL when memory is out. */
const stk__sql_run *stk__slice_runs(stk__sql *s, stk__sql_order *order);
/* The value that rows of a group have in the key with this number: a string, or a track. */
uint32_t stk__slice_group_value(const stk__sql *s, const stk__sql_order *order, size_t group, size_t key);
/* A column that is told by a string or by a track, for stk__slice_group_value and the like. */
void stk__slice_put(const stk__trace *t, sqlite3_context *out, int column, uint32_t value);
/* Declares the table; `args`: with these columns after its own, NULL: without any. */
int stk__slice_declare(sqlite3 *db, const stk__sql_args *args);
/* Ranks of one column's values; NULL when memory is out. */
const stk__sql_map *stk__slice_map(stk__sql *s, int column);
void stk__slice_orders_clear(stk__sql *s);

/* The process that a track belongs to; STK__NONE. */
uint32_t stk__sql_track_process(const stk__trace *t, uint32_t track);

#endif
