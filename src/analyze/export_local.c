/* Exports for one machine: CSV files, and a SQLite database. */
#include "analyze/export_impl.h"

#include <sys/stat.h>

#include "base/mem.h"
#include "trace/writer.h"

#include "base/banned.h"

/* ---- CSV ---- */

static stk_status csv_beside(stk__exporter *e, stk_error *err)
{
    stk__text out = STK__TEXT_INIT;
    stk__text_puts(
        &out,
        "# A trace as CSV\n\n"
        "One file per table, with a heading, as RFC 4180 has it: for spreadsheets, pandas, DuckDB, R.\n\n"
        "```\n"
        "duckdb -c \"SELECT name, count(*), sum(dur), min(dur), max(dur) FROM 'slice.csv'\n"
        "           GROUP BY name ORDER BY 3 DESC LIMIT 20\"\n"
        "```\n\n"
        "Times are nanoseconds. `args` is a JSON object; a stack is its frames, outermost first, with `;` between\n"
        "them. An empty field is an empty text or no value. Spreadsheets run cells that start with `=`, `+`, `-`\n"
        "or `@` as formulas: import names of a trace that you do not trust as text.\n");
    stk__export_columns(e, &out);
    return stk__export_text(e, "README.md", &out, false, err);
}

const stk__export_target stk__export_csv = {
    .name = "csv",
    .summary = "one CSV file per table",
    .csv = true,
    .beside = csv_beside,
};

/* ---- SQLite ---- */

static stk_status sqlite_data(stk__exporter *e, stk_error *err)
{
    stk__write_report written;
    char *path = stk__export_path(e, "trace.sqlite", err);
    if (!path)
        return STK_NOMEM;
    const stk_status status = stk__trace_write(e->t, path, &stk__writer_sqlite, &written, err);
    struct stat st;
    if (status == STK_OK && stat(path, &st) == 0)
        e->report->data_bytes = (uint64_t)st.st_size;
    stk__free(path);
    e->report->slices = written.slices;
    e->report->counters = written.counters;
    e->report->flows = written.flows;
    e->report->samples = written.samples;
    e->report->functions = written.functions;
    e->report->data_files = 1;
    return status;
}

static const char sqlite_queries[] =
    "-- Run with: sqlite3 -box trace.sqlite < queries.sql\n"
    "\n"
    "-- What takes the time: per name.\n"
    "SELECT name, count(*) AS count, sum(dur) AS total_ns, avg(dur) AS mean_ns,\n"
    "  min(dur) AS min_ns, max(dur) AS max_ns\n"
    "FROM slice GROUP BY name ORDER BY total_ns DESC LIMIT 20;\n"
    "\n"
    "-- The same for each process and thread.\n"
    "SELECT process_name, pid, thread_name, tid, name, count(*) AS count, sum(dur) AS total_ns\n"
    "FROM slice GROUP BY upid, utid, name ORDER BY total_ns DESC LIMIT 20;\n"
    "\n"
    "-- Args flattened.\n"
    "SELECT slice.name, args.key, args.value, count(*) AS count, sum(dur) AS total_ns\n"
    "FROM slice JOIN args USING (arg_set_id) GROUP BY 1, 2, 3 ORDER BY total_ns DESC LIMIT 20;\n";

static stk_status sqlite_beside(stk__exporter *e, stk_error *err)
{
    stk__text out = STK__TEXT_INIT;
    stk__text_puts(&out, sqlite_queries);
    STK_TRY(stk__export_text(e, "queries.sql", &out, false, err));
    stk__text_puts(&out,
                   "# A trace as a SQLite database\n\n"
                   "```\n"
                   "sqlite3 -box trace.sqlite < queries.sql\n"
                   "```\n\n"
                   "The tables and columns are those of `stoker sql`, as real tables; `.schema` lists them. Times are\n"
                   "nanoseconds.\n");
    return stk__export_text(e, "README.md", &out, false, err);
}

const stk__export_target stk__export_sqlite = {
    .name = "sqlite",
    .summary = "one SQLite database with the tables of stoker sql",
    .data = sqlite_data,
    .beside = sqlite_beside,
};
