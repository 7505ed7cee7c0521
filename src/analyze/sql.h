/* SQL over a trace: SQLite with virtual tables on the columns; nothing is copied. */
#ifndef STK_ANALYZE_SQL_H
#define STK_ANALYZE_SQL_H

#include "trace/model.h"

typedef struct sqlite3 sqlite3;

/*
 * The trace must outlive the connection, which belongs to one thread at a time. Close with sqlite3_close. Queries can
 * make views and tables in memory, but can neither change the trace nor read or write files.
 */
stk_status stk__sql_open(const stk__trace *t, sqlite3 **out, stk_error *err);

typedef struct sqlite3_stmt sqlite3_stmt;

/*
 * The same as sqlite3_prepare_v2 for a connection of stk__sql_open, and for most statements nothing else. What is
 * written for BigQuery or Perfetto is made into what SQLite knows: tables in backquotes, UNNEST(t.traceEvents), columns
 * arg_KEY of slice, INCLUDE PERFETTO MODULE. Messages and places of mistakes are those of stk__sql_message. Totals per
 * group of all slices ("SELECT name, sum(dur) FROM slice GROUP BY name") are made ready to read each group as one row,
 * with the same result; their statement belongs to a second connection, so errors while it runs are those of
 * sqlite3_db_handle(*out). Finalize before the close.
 */
int stk__sql_prepare(sqlite3 *db, const char *text, sqlite3_stmt **out, const char **out_rest);

/*
 * What the last call on `db` found wrong, with what to write instead where that is known, and where in `text`,
 * which is that given to stk__sql_prepare; -1: not known. `db` may be that of a statement. The message stays until the
 * next call.
 */
const char *stk__sql_message(sqlite3 *db, const char *text, int *out_offset);

/* The first byte that is neither space nor in a comment. */
const char *stk__sql_skip_space(const char *text);

/* A table, view or table-valued function, as people see it. */
typedef struct stk__sql_table {
    const char *name, *kind; /* kind: "table", "view" or "function" */
    const char *summary;
    const char *usage; /* functions: how it is called, "top([pattern [, by]])"; NULL */
} stk__sql_table;

/* All of them; ends with a name of NULL. Columns are told by PRAGMA table_xinfo(NAME). */
extern const stk__sql_table stk__sql_tables[];

typedef struct stk__sql_example {
    const char *what, *query; /* ends with NULL */
} stk__sql_example;

extern const stk__sql_example stk__sql_examples[];

#endif
