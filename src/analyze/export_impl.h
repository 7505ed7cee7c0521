/* What the targets of an export share. */
#ifndef STK_ANALYZE_EXPORT_IMPL_H
#define STK_ANALYZE_EXPORT_IMPL_H

#include "analyze/export.h"
#include "base/file.h"
#include "trace/flat.h"

typedef struct stk__exporter {
    const stk__trace *t;
    const stk__export_target *target;
    stk__export_options options;
    stk__export_report *report;
    stk__flat *rows;
    stk__new_dir dir; /* files are made in its `temp` */
    stk__paths files; /* names of what was made there */
    uint64_t rows_done, rows_total;
} stk__exporter;

struct stk__export_target {
    const char *name, *summary;
    /* Data: shards of NDJSON in this style, CSV, or what `data` writes. */
    const stk__json_style *json;
    bool csv;
    stk_status (*data)(stk__exporter *e, stk_error *err);
    /* Writes schema, scripts, queries and README. */
    stk_status (*beside)(stk__exporter *e, stk_error *err);
};

/* Path of a new file in the directory, noted for publishing. Free with stk__free; NULL when memory is out. */
char *stk__export_path(stk__exporter *e, const char *name, stk_error *err);
/* Writes a small text file and frees the text; `runnable` sets the execute bits. */
stk_status stk__export_text(stk__exporter *e, const char *name, stk__text *text, bool runnable, stk_error *err);
/* Tables that have rows, in the order of stk__flat_tables, which is that of the tables here; returns how many. */
enum { STK__EXPORT_TABLES = 5 };
size_t stk__export_tables(const stk__trace *t, const stk__flat_table *out[STK__EXPORT_TABLES]);
/* "Columns" of the README: one list per table. */
void stk__export_columns(stk__exporter *e, stk__text *out);

/* Queries for each table, in the engine's own SQL. */
typedef struct stk__export_queries {
    const char *slice, *counter, *sample, *function;
} stk__export_queries;

/* The same in all of them. */
extern const char stk__export_function_queries[];

/* queries.sql: `head`, then the queries of those tables that have rows. */
stk_status stk__export_write_queries(stk__exporter *e, const char *head, const stk__export_queries *queries,
                                     stk_error *err);

#endif
