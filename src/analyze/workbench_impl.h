/* The workbench, inside: traces that are counted, tables of columns, and how they are filled. */
#ifndef STK_ANALYZE_WORKBENCH_IMPL_H
#define STK_ANALYZE_WORKBENCH_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include <stoker/workbench.h>

#include "analyze/sql.h"
#include "trace/model.h"

enum { STK__IDLE_CONNECTIONS = 2 };

/* Distinct texts, one after the other, as Arrow has them. */
typedef struct stk__dictionary {
    int64_t count;
    const void *offsets; /* count + 1; of 8 bytes when `large`, else of 4 */
    const char *bytes;
    bool large;
} stk__dictionary;

struct stk_trace {
    stk__trace *model;        /* never changed */
    atomic_size_t references; /* the caller's, and one for each table on it */
    atomic_bool cancelled;
    pthread_mutex_t lock;

    /* guarded by lock; the first two are made once, then const */
    stk__dictionary *strings;
    uint32_t *numbers;                    /* 0, 1, 2, ...: ids of the rows of all tables */
    sqlite3 *idle[STK__IDLE_CONNECTIONS]; /* connections that nobody uses, with the orders that they have made */
    size_t idle_count;
};

stk_trace *stk__workbench_ref(stk_trace *trace);
void stk__workbench_unref(stk_trace *trace);
/* All strings of the trace, with what is not UTF-8 replaced; NULL when memory is out. */
const stk__dictionary *stk__workbench_strings(stk_trace *trace);
/* At least as many as the largest table has rows; NULL when memory is out. */
const uint32_t *stk__workbench_numbers(stk_trace *trace);
/* STK_CANCELLED while questions are to end. */
stk_status stk__workbench_stopped(stk_trace *trace, stk_error *err);

/* ---- tables ---- */

typedef enum stk__layout {
    STK__LAYOUT_NONE, /* of STK_KIND_NULL */
    STK__LAYOUT_INT64,
    STK__LAYOUT_UINT32,
    STK__LAYOUT_UINT16,
    STK__LAYOUT_UINT8,
    STK__LAYOUT_DOUBLE,
    STK__LAYOUT_TEXT,  /* offsets of 4 bytes into `bytes` */
    STK__LAYOUT_LARGE, /* of 8 bytes */
} stk__layout;

typedef struct stk__table_column {
    char *name;
    stk_column_kind kind;
    stk__layout layout;
    const void *data;                  /* values; of text the offsets, rows + 1; of dictionaries numbers of texts */
    const char *bytes;                 /* of text */
    const uint32_t *place;             /* a row's value is data[place[row]]; NULL: data[row] */
    uint8_t flag;                      /* UINT8: the value is whether data[row] has it; 0: the value itself */
    bool has_none;                     /* a value of `none` is missing */
    uint64_t none;                     /* compared with the bits of the value */
    const uint8_t *validity;           /* of results: a bit for each row; NULL: no row is missing, or has_none tells */
    const stk__dictionary *dictionary; /* the trace's, or constant */
    void *owned[3];                    /* freed with the table */

    /* guarded by the table's lock: what the export hands over; made by the first one, then const */
    bool ready;
    const void *ready_data;
    const uint8_t *ready_validity;
    int64_t null_count;
    void *made[2];
} stk__table_column;

struct stk_table {
    atomic_size_t references; /* the caller's, and one for each array that was exported */
    stk_trace *trace;         /* what columns and dictionaries lie in; NULL: nothing */
    int64_t rows;
    size_t count;
    stk__table_column *columns;
    pthread_mutex_t lock;
};

/* A table of so many columns, all zero, that refers to a trace; NULL when memory is out. */
stk_table *stk__table_new(stk_trace *trace, size_t columns);
stk_table *stk__table_ref(stk_table *table);
size_t stk__layout_bytes(stk__layout layout);
/* Makes a column ready for export. False when memory is out. */
bool stk__table_ready(stk_table *table, stk__table_column *column);

/* ---- filling ---- */

typedef struct stk__column_maker {
    unsigned seen;   /* bits of SQLite's types */
    uint8_t *types;  /* of each row: SQLite's */
    int64_t *values; /* numbers, bits of doubles, or where a text starts */
    char *bytes;
    size_t type_capacity, value_capacity, size, capacity;
    stk_column_kind declared; /* for a column without values */
} stk__column_maker;

/* Rows are put cell by cell, as many as there are columns; what fails is remembered until the finish. */
typedef struct stk__table_maker {
    size_t count; /* columns */
    char **names;
    stk__column_maker *columns;
    size_t rows, at; /* whole rows, and cells of the next one */
    bool failed;
} stk__table_maker;

stk_status stk__maker_init(stk__table_maker *m, size_t columns, stk_error *err);
void stk__maker_clear(stk__table_maker *m);
/* A copy, UTF-8, different from those of other columns. */
void stk__maker_name(stk__table_maker *m, size_t column, const char *name);
void stk__maker_null(stk__table_maker *m);
void stk__maker_int(stk__table_maker *m, int64_t x);
void stk__maker_double(stk__table_maker *m, double x);
void stk__maker_text(stk__table_maker *m, const char *text, size_t size);
void stk__maker_str(stk__table_maker *m, const char *text);
void stk__maker_bytes(stk__table_maker *m, const void *data, size_t size);
/* Hands the columns over to a table, and clears the maker in any case. */
stk_status stk__maker_finish(stk__table_maker *m, stk_table **out, stk_error *err);

/* Appends a text with what is not UTF-8 as U+FFFD; false when memory is out. */
bool stk__append_utf8(char **bytes, size_t *size, size_t *capacity, const char *text, size_t length);

/* "SELECT * FROM name", for names that are known to be tables. */
stk_status stk__query_table(stk_trace *trace, const char *name, stk_table **out, stk_error *err);

#endif
