/* A plain table of SQL: what its rows and columns are. One file for each group of them, sql_tables.c for all. */
#ifndef STK_ANALYZE_SQL_TABLE_H
#define STK_ANALYZE_SQL_TABLE_H

#include "analyze/sql_impl.h"

enum { STK__TABLE_KEYS = 2 };

/* Rows that were found: rows[first..end), or the numbers themselves. */
typedef struct stk__sql_found {
    const uint32_t *rows;
    size_t first, end;
} stk__sql_found;

typedef struct stk__sql_cursor stk__sql_cursor;

typedef struct stk__sql_plain {
    const char *name;
    const char *columns; /* the declaration between the brackets */
    size_t (*count)(const stk__sql *s);
    void (*value)(stk__sql_cursor *c, sqlite3_context *out, int column, size_t row);
    /* Columns that are looked up without reading all rows. `find` returns false when memory is out. */
    struct {
        int column;
        bool (*find)(stk__sql *s, int64_t value, stk__sql_found *out);
    } keys[STK__TABLE_KEYS];
    stk_status (*open)(stk__sql *s, stk_error *err); /* makes the rows before they are read; NULL: they are there */
    size_t first_row;                                /* args: row 0 is none */
    bool no_id;                                      /* column 0 is not the number of the row */
} stk__sql_plain;

struct stk__sql_cursor {
    sqlite3_vtab_cursor base;
    stk__sql *sql;
    const stk__trace *trace;
    const stk__sql_plain *table;
    const uint32_t *rows;
    size_t at, end;
    bool reverse;
    size_t mirror;                 /* reverse: first + end - 1 */
    size_t known_row, known_value; /* args: a row, and the first one of its set */
};

/* The groups; each ends with a name of NULL. */
extern const stk__sql_plain stk__sql_tables_of_tracks[], stk__sql_tables_of_events[], stk__sql_tables_of_files[],
    stk__sql_tables_of_stacks[];

/* "ns", "samples", "bytes", "bytes allocated", or NULL. The text is constant. */
void stk__sql_unit(sqlite3_context *out, uint32_t unit);
/* A constant text. */
void stk__sql_constant(sqlite3_context *out, const char *text);

#endif
