/* Export for ClickHouse: JSONEachRow, DDL, a script that loads it, queries. */
#include "analyze/export_impl.h"

#include <string.h>

#include "base/banned.h"

static const stk__json_style style = {.args = STK__ARGS_TEXTS};

/* What rows are sorted by on disk: what most questions ask for. */
static const char *order_of(const stk__flat_table *table)
{
    if (table == &stk__flat_slice || table == &stk__flat_counter)
        return "(name, ts)";
    if (table == &stk__flat_flow)
        return "(flow, ts)";
    return "tuple()";
}

static void put_type(stk__text *out, const stk__flat_column *column)
{
    static const char *const types[] = {"Int64",
                                        "Float64",
                                        "Bool",
                                        "LowCardinality(String)",
                                        "Map(LowCardinality(String), String)",
                                        "Array(LowCardinality(String))"};
    stk__text_printf(out, column->nullable ? "Nullable(%s)" : "%s", types[column->type]);
}

static stk_status write_schema(stk__exporter *e, stk_error *err)
{
    const stk__flat_table *tables[STK__EXPORT_TABLES];
    const size_t count = stk__export_tables(e->t, tables);
    stk__text out = STK__TEXT_INIT;
    for (size_t i = 0; i < count; i++) {
        stk__text_printf(&out, "%s-- %s\nCREATE TABLE IF NOT EXISTS `%s`\n(\n", i ? "\n" : "", tables[i]->about,
                         tables[i]->name);
        for (size_t k = 0; k < tables[i]->column_count; k++) {
            const stk__flat_column *column = &tables[i]->columns[k];
            stk__text_printf(&out, "    `%s` ", column->name);
            put_type(&out, column);
            stk__text_printf(&out, " COMMENT '%s'%s\n", column->about, k + 1 < tables[i]->column_count ? "," : "");
        }
        stk__text_printf(&out, ")\nENGINE = MergeTree\nORDER BY %s;\n", order_of(tables[i]));
    }
    return stk__export_text(e, "schema.sql", &out, false, err);
}

static const char load_head[] =
    "#!/bin/sh\n"
    "# Loads the files of this directory into ClickHouse: load.sh [OPTION OF clickhouse-client]...\n"
    "# For one machine without a server: CLICKHOUSE='clickhouse local --path DIRECTORY' ./load.sh\n"
    "set -eu\n"
    "cd \"$(dirname \"$0\")\"\n"
    "client=${CLICKHOUSE:-clickhouse-client}\n"
    "\n"
    "load() { # TABLE [OPTION]...\n"
    "    table=$1\n"
    "    shift\n"
    "    for shard in \"$table\"-*.ndjson; do\n"
    "        $client \"$@\" --query \"INSERT INTO \\`$table\\` FORMAT JSONEachRow\" < \"$shard\"\n"
    "    done\n"
    "}\n"
    "\n"
    "$client \"$@\" --queries-file schema.sql\n";

static stk_status write_load(stk__exporter *e, stk_error *err)
{
    const stk__flat_table *tables[STK__EXPORT_TABLES];
    const size_t count = stk__export_tables(e->t, tables);
    stk__text out = STK__TEXT_INIT;
    stk__text_puts(&out, load_head);
    for (size_t i = 0; i < count; i++)
        stk__text_printf(&out, "load %s \"$@\"\n", tables[i]->name);
    return stk__export_text(e, "load.sh", &out, true, err);
}

static const char slice_queries[] =
    "-- What takes the time: per name; `stoker top` counts recursion once; p95 may be one rank above.\n"
    "SELECT name, count() AS count, sum(dur) AS total_ns, avg(dur) AS mean_ns,\n"
    "    min(dur) AS min_ns, max(dur) AS max_ns,\n"
    "    quantileExactLow(0.5)(dur) AS p50_ns, quantileExactLow(0.95)(dur) AS p95_ns\n"
    "FROM slice GROUP BY name ORDER BY total_ns DESC LIMIT 20;\n"
    "\n"
    "-- The same for each process and thread.\n"
    "SELECT process, pid, thread, tid, name, count() AS count, sum(dur) AS total_ns\n"
    "FROM slice GROUP BY process, pid, thread, tid, name ORDER BY total_ns DESC LIMIT 20;\n"
    "\n"
    "-- Args flattened: one row for each slice and arg, and what their values take.\n"
    "SELECT name, arg.1 AS key, arg.2 AS value,\n"
    "    count() AS count, sum(dur) AS total_ns, min(dur) AS min_ns, max(dur) AS max_ns\n"
    "FROM slice ARRAY JOIN CAST(args, 'Array(Tuple(String, String))') AS arg\n"
    "GROUP BY name, key, value ORDER BY total_ns DESC LIMIT 20;\n";

static const char counter_queries[] =
    "-- Counters: how many values, and between what.\n"
    "SELECT name, unit, count() AS count, min(value) AS min, avg(value) AS mean, max(value) AS max\n"
    "FROM counter GROUP BY name, unit ORDER BY name;\n";

static const char sample_queries[] = "-- Self time of functions: the innermost frame of each stack.\n"
                                     "SELECT stack[-1] AS frame, unit, count() AS samples, sum(weight) AS self\n"
                                     "FROM sample GROUP BY frame, unit ORDER BY self DESC LIMIT 20;\n";

static stk_status write_queries(stk__exporter *e, stk_error *err)
{
    const stk__export_queries queries = {slice_queries, counter_queries, sample_queries, stk__export_function_queries};
    return stk__export_write_queries(e, "-- Run with: clickhouse-client --queries-file queries.sql\n", &queries, err);
}

static stk_status write_readme(stk__exporter *e, stk_error *err)
{
    stk__text out = STK__TEXT_INIT;
    stk__text_puts(
        &out,
        "# A trace for ClickHouse\n\n"
        "```\n"
        "./load.sh --host HOST --database DATABASE\n"
        "clickhouse-client --host HOST --database DATABASE --queries-file queries.sql\n"
        "```\n\n"
        "Files: `schema.sql` makes the tables, `TABLE-NNNNN.ndjson` are the rows in ClickHouse's format\n"
        "JSONEachRow. `args` is a map from texts to texts: `toInt64OrNull(args['size'])`. Times are nanoseconds.\n"
        "Loading twice adds the rows twice.\n");
    stk__export_columns(e, &out);
    return stk__export_text(e, "README.md", &out, false, err);
}

static stk_status clickhouse_beside(stk__exporter *e, stk_error *err)
{
    STK_TRY(write_schema(e, err));
    STK_TRY(write_load(e, err));
    STK_TRY(write_queries(e, err));
    return write_readme(e, err);
}

const stk__export_target stk__export_clickhouse = {
    .name = "clickhouse",
    .summary = "JSONEachRow shards, DDL, a script that loads them, queries",
    .json = &style,
    .beside = clickhouse_beside,
};
