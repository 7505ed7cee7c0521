/* What the parts of the SQL layer share: the connection's state, orders of rows, values of constraints. */
#ifndef STK_ANALYZE_SQL_IMPL_H
#define STK_ANALYZE_SQL_IMPL_H

#include <sqlite3.h>

#include "analyze/sql.h"
#include "analyze/steps.h"
#include "base/str.h"

enum { STK__SQL_KEYS = 4, STK__SQL_ORDERS = 16, STK__SQL_MAPS = 20 };

/* Rank of each value of a small set: of strings, or of what tracks say of their slices. */
typedef struct stk__sql_map {
    uint32_t *rank;   /* by string or track; STK__NONE: a string that no row has */
    uint32_t *values; /* by rank: the string, or one of the tracks */
    size_t ranks;     /* number of different values */
} stk__sql_map;

/*
 * Columns of slices that an order may have a copy of, in its own order, since reading them row by row misses the
 * caches.
 */
enum {
    STK__COPY_ROW, /* row numbers */
    STK__COPY_TRACK,
    STK__COPY_NAME,
    STK__COPY_CATEGORY,
    STK__COPY_ARGS,
    STK__COPY_TS,
    STK__COPY_DUR,
    STK__COPY_COUNT,
};

/* Durations of the slices of one group. */
typedef struct stk__sql_run {
    uint64_t count;
    int64_t sum, min, max;
    double total; /* of all, when the sum is past 64 bits */
    bool overflow;
} stk__sql_run;

/* Rows sorted by one or more columns, equal ones by row. */
typedef struct stk__sql_order {
    uint8_t columns[STK__SQL_KEYS]; /* of slice, | STK__KEY_FLIPPED; column_count 0: unused */
    size_t column_count;
    size_t strides[STK__SQL_KEYS]; /* group = sum of rank * stride */
    size_t groups;                 /* combinations of ranks; 0: too many, then there are row numbers only */
    uint32_t *first;               /* by group: where its rows start; one more at the end */
    void *copies[STK__COPY_COUNT]; /* made when first wanted */
    stk__sql_run *runs;            /* likewise, by group */
    size_t users;                  /* cursors that read it now */
    uint64_t last_used;            /* the oldest makes room */
} stk__sql_order;

/* Rows of a table sorted by a column that refers to another table; rows without a reference are left out. */
typedef struct stk__sql_index {
    bool ready;
    uint32_t *rows;
    size_t count;
} stk__sql_index;

/* A column of slice that gives one arg: "arg_bytes". */
typedef struct stk__sql_arg {
    char *column; /* as the statement writes it */
    stk__string key;
} stk__sql_arg;

typedef struct stk__sql_args {
    stk__sql_arg *items;
    size_t count, capacity;
} stk__sql_args;

/* Where a piece of a statement that was rewritten comes from. */
typedef struct stk__sql_piece {
    size_t to, from; /* places in what SQLite reads and in what was given */
    bool same;       /* copied as it is; else all of it stands for what is at `from` */
} stk__sql_piece;

/* What was made of the last statement, and what may be said of its mistakes. */
typedef struct stk__sql_pasted {
    stk__sql_args args; /* columns that slice has now, besides its own */
    size_t kept_args;   /* the first of them are used by views */
    uint32_t *keys;     /* strings that are keys of args; made when first wanted */
    size_t key_count;
    stk__text modules; /* of Perfetto, that were included */
    stk__text message; /* why the statement was refused here, or the last answer of stk__sql_message */
    bool refused;
    size_t refused_at;
    size_t start;           /* of the statement in the text that was given */
    stk__sql_piece *pieces; /* of a statement that was rewritten */
    size_t piece_count, piece_capacity;
} stk__sql_pasted;

/*
 * State of a connection, shared by its modules and freed with the last of them. Everything is made when it is first
 * needed.
 */
typedef struct stk__sql {
    const stk__trace *trace;
    size_t references;
    stk__sql_map maps[STK__SQL_MAPS]; /* by column of slice */
    stk__sql_order orders[STK__SQL_ORDERS];
    uint64_t clock; /* of last_used */
    uint64_t name_lookups, args_lookups;
    stk__sql_index slices_by_args, flows_by_out, flows_by_in;
    uint32_t *callsite_depths;
    sqlite3 *totals; /* the connection for totals per group, opened when first wanted; its modules hold no reference */
    const stk__sql_run *run; /* the row that its only cursor is at */
    stk__steps steps;
    bool have_steps;
    stk__sql_pasted pasted;
} stk__sql;

/* Modules hold references; tables do not outlive them. */
stk__sql *stk__sql_ref(stk__sql *s);
void stk__sql_unref(void *s);

/* Registers the modules of a group of tables. SQLite's code. */
int stk__sql_add_slice(sqlite3 *db, stk__sql *s);
int stk__sql_add_tables(sqlite3 *db, stk__sql *s);
int stk__sql_add_functions(sqlite3 *db, stk__sql *s);
int stk__sql_add_scalars(sqlite3 *db, stk__sql *s);
int stk__sql_add_events(sqlite3 *db, stk__sql *s);

/* Forgets the last statement. Skips lines of comment as BigQuery has them, and what includes modules of Perfetto. */
const char *stk__sql_start(stk__sql *s, const char *text);
/*
 * What people paste, made into what SQLite knows: tables of BigQuery in backquotes, UNNEST, arg_KEY, statements of
 * Perfetto. `as_perfetto`: tables have no columns but those of Perfetto, so that names of others are not ambiguous.
 * *out_text is NULL when there is nothing to rewrite, else the caller's to free, and *out_end is the end of the
 * statement in `text`. SQLITE_ERROR: refused, and stk__sql_message says why.
 */
int stk__sql_rewrite(sqlite3 *db, stk__sql *s, const char *text, bool as_perfetto, char **out_text, size_t *out_end);
/* Reads a statement once: whether anything in it may have to be rewritten. SQLITE_ERROR: refused. */
int stk__sql_look(stk__sql *s, const char *text, bool *out_foreign);
/* SELECT of the events, with these columns of args; the number of an event is called `number`. */
void stk__sql_put_events(const stk__sql *s, const stk__sql_args *args, const char *number, sqlite3_str *out);
void stk__sql_pasted_clear(stk__sql_pasted *p);
/* Notes why a statement is refused, and at which byte. Returns SQLITE_ERROR. */
int stk__sql_refuse(stk__sql *s, size_t at, const char *format, ...) STK_PRINTF(3, 4);

/* Whether some arg has the key that the name of a column stands for, without its arg_. */
bool stk__sql_args_known(stk__sql *s, const char *name);
/* Adds the column for a name that starts with arg_, when some arg has such a key. */
int stk__sql_args_add(stk__sql *s, stk__sql_args *args, const char *column, size_t at);
/* Makes these the columns of slice, beside those that views use; `keep`: a view is about to use them. */
int stk__sql_args_declare(sqlite3 *db, stk__sql *s, const stk__sql_args *args, bool keep);
void stk__sql_args_clear(stk__sql_args *args);
/* The value of a row of args. */
void stk__sql_put_arg(sqlite3_context *out, const stk__trace *t, size_t row);
/* The row of the set that starts at `row` with this key; 0: none. */
size_t stk__sql_find_arg(const stk__trace *t, size_t row, stk__string key);

/* What no query may do, on both connections. */
int stk__sql_restrict(sqlite3 *db);

/* The state of a connection of stk__sql_open; NULL for others. */
stk__sql *stk__sql_of(sqlite3 *db);
/* Whether one statement, up to its ';', is a total per group of all slices. */
bool stk__sql_is_total(const char *text);

/* ---- results ---- */

/* NULL for "none". The text stays where it is. */
static inline void stk__sql_string(sqlite3_context *out, const stk__trace *t, stk__string string)
{
    if (string == 0 || string >= t->string_count)
        return; /* results are NULL unless set */
    const uint64_t from = t->string_offset[string], size = t->string_offset[string + 1] - from - 1;
    sqlite3_result_text64(out, t->string_bytes + from, size, SQLITE_STATIC, SQLITE_UTF8);
}

/* NULL for STK__NONE. */
static inline void stk__sql_row(sqlite3_context *out, uint32_t row)
{
    if (row != STK__NONE)
        sqlite3_result_int64(out, row);
}

/* NULL for STK__NO_NUMBER, which is STK__NO_TIME as well. */
static inline void stk__sql_number(sqlite3_context *out, int64_t number)
{
    if (number != STK__NO_NUMBER)
        sqlite3_result_int64(out, number);
}

/* Tells SQLite the columns of the table that is being connected. */
int stk__sql_declare(sqlite3 *db, const char *columns);
/* Sets the message of a failed call as that of the table; SQLite's code. */
int stk__sql_failed(sqlite3_vtab *vtab, const stk_error *err);

/* ---- values of constraints ---- */

/* What `column = value` means for an integer column: false when no integer is equal. */
bool stk__sql_equal(sqlite3_value *value, int64_t *out);
/* Smallest and largest integers that a comparison leaves, never too narrow: SQLite checks again. `op` is SQLite's. */
void stk__sql_bound(sqlite3_value *value, int op, int64_t *low, int64_t *high);
/* The string that `column = value` means for a text column; STK__NONE: no row has it. */
stk__string stk__sql_text(const stk__sql *s, sqlite3_value *value);

/* ---- orders ---- */

/* Ranks of the strings in a column, in the order of their bytes. */
bool stk__sql_rank_strings(const stk__trace *t, const stk__string *column, size_t count, stk__sql_map *out);
/* Ranks of numbers (STK__NO_NUMBER first), by position. */
bool stk__sql_rank_numbers(const int64_t *values, size_t count, stk__sql_map *out);
/* Ranks of strings by position, 0 first. */
bool stk__sql_rank_texts(const stk__trace *t, const stk__string *values, size_t count, stk__sql_map *out);

/* One column to sort by: rank[value[row]] (or value[row] itself without rank), or `wide` when it is set. */
typedef struct stk__sql_key {
    const uint32_t *value;
    const uint32_t *rank;
    size_t ranks;
    const int64_t *wide;
    bool flipped; /* largest first */
} stk__sql_key;

/* Row numbers sorted by the keys, first one first, equal rows by number. NULL when memory is out. */
uint32_t *stk__sql_sort(const stk__trace *t, const stk__sql_key *keys, size_t key_count, size_t rows);
/* Where the rows of each group start, from the keys and their strides; one more at the end. NULL when memory is out. */
uint32_t *stk__sql_groups(const stk__trace *t, const stk__sql_key *keys, const size_t *strides, size_t key_count,
                          size_t groups, size_t rows);
/* Copies a column of values of 4 or 8 bytes into the order of the groups. column NULL: the row numbers. */
bool stk__sql_scatter(const stk__trace *t, const stk__sql_key *keys, const size_t *strides, size_t key_count,
                      const uint32_t *first, size_t groups, size_t rows, const void *column, size_t item_bytes,
                      void *out);
/* Totals of the durations of each group. NULL when memory is out. */
stk__sql_run *stk__sql_runs(const stk__trace *t, const stk__sql_key *keys, const size_t *strides, size_t key_count,
                            size_t groups, const int64_t *dur, size_t rows);
/* Rows of `column` other than `none`, by value. Values are below `values`. */
bool stk__sql_index_make(const stk__trace *t, stk__sql_index *index, const uint32_t *column, size_t rows, uint32_t none,
                         size_t values);
/* The part of the index with this value. */
void stk__sql_index_find(const stk__sql_index *index, const uint32_t *column, uint32_t value, size_t *first,
                         size_t *end);

#endif
