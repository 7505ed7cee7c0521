/* The trace as flat tables: one list of columns behind CSV, NDJSON and all exports. */
#ifndef STK_TRACE_FLAT_H
#define STK_TRACE_FLAT_H

#include "base/str.h"
#include "trace/model.h"

typedef enum stk__flat_type {
    STK__FLAT_INT,
    STK__FLAT_DOUBLE,
    STK__FLAT_BOOL,
    STK__FLAT_TEXT,
    STK__FLAT_ARGS,  /* names and values */
    STK__FLAT_STACK, /* frames, outermost first */
} stk__flat_type;

typedef struct stk__flat_column {
    const char *name;
    stk__flat_type type;
    bool nullable;
    const char *about;
} stk__flat_column;

/* A value; its type is the column's. */
typedef struct stk__flat_cell {
    bool null;
    int64_t integer; /* INT, BOOL; ARGS: first row; STACK: call site */
    double real;
    const char *text; /* TEXT */
    size_t size;
} stk__flat_cell;

enum { STK__FLAT_COLUMNS_MAX = 20 };

/* What rows are made from: the trace, and texts that are worked out once. */
typedef struct stk__flat stk__flat;
stk_status stk__flat_new(const stk__trace *t, stk__flat **out, stk_error *err);
void stk__flat_free(stk__flat *rows);

typedef struct stk__flat_table {
    const char *name; /* "slice" */
    const char *about;
    const stk__flat_column *columns;
    size_t column_count;
    size_t (*count)(const stk__trace *t);
    void (*fill)(const stk__flat *rows, size_t row, stk__flat_cell *cells);
} stk__flat_table;

extern const stk__flat_table stk__flat_slice, stk__flat_counter, stk__flat_flow, stk__flat_sample, stk__flat_function;
/* All of them; ends with NULL. */
extern const stk__flat_table *const stk__flat_tables[];

/* How args and integers look in JSON. */
typedef enum stk__args_style {
    STK__ARGS_OBJECT,  /* {"size":1,"op":"x"}: as they are */
    STK__ARGS_TEXTS,   /* {"size":"1","op":"x"}: for maps of strings */
    STK__ARGS_RECORDS, /* [{"key":"size","int_value":"1"}]: for repeated records */
} stk__args_style;

typedef struct stk__json_style {
    const char *type;   /* a first member "type", or NULL */
    bool text_integers; /* 64-bit integers in quotes */
    bool skip_nulls;
    bool text_doubles; /* NaN and infinities in quotes, else null */
    stk__args_style args;
} stk__json_style;

/* One row as a JSON object, or as a line of CSV (RFC 4180); with the end of the line. */
void stk__flat_json(const stk__flat *rows, const stk__flat_table *table, size_t row, const stk__json_style *style,
                    stk__text *out);
void stk__flat_csv_head(const stk__flat_table *table, stk__text *out);
void stk__flat_csv(stk__flat *rows, const stk__flat_table *table, size_t row, stk__text *out);

const char *stk__unit_name(uint32_t unit); /* "ns", "samples", "bytes", "bytes allocated", "" */

#endif
