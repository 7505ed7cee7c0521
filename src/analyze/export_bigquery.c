/* Export for BigQuery: NDJSON with integers as text, schemas, the lines of bq, queries. */
#include "analyze/export_impl.h"

#include <string.h>

#include "base/banned.h"

/*
 * Args are a repeated record of key and typed value, as in Google's own exports of events: any key loads, also two that
 * differ in case only, which columns of BigQuery may not. A JSON column would refuse numbers past 64 bits.
 */
static const stk__json_style style = {
    .text_integers = true, .skip_nulls = true, .text_doubles = true, .args = STK__ARGS_RECORDS};

static void put_field(stk__text *out, const stk__flat_column *column)
{
    static const char *const types[] = {"INTEGER", "FLOAT", "BOOLEAN", "STRING", "RECORD", "STRING"};
    const bool repeated = column->type == STK__FLAT_ARGS || column->type == STK__FLAT_STACK;
    stk__text_printf(out, "  {\"name\": \"%s\", \"type\": \"%s\", \"mode\": \"%s\", \"description\": \"%s\"",
                     column->name, types[column->type],
                     repeated           ? "REPEATED"
                     : column->nullable ? "NULLABLE"
                                        : "REQUIRED",
                     column->about);
    if (column->type == STK__FLAT_ARGS)
        stk__text_puts(out, ", \"fields\": [\n"
                            "    {\"name\": \"key\", \"type\": \"STRING\", \"mode\": \"REQUIRED\"},\n"
                            "    {\"name\": \"string_value\", \"type\": \"STRING\", \"mode\": \"NULLABLE\"},\n"
                            "    {\"name\": \"int_value\", \"type\": \"INTEGER\", \"mode\": \"NULLABLE\"},\n"
                            "    {\"name\": \"double_value\", \"type\": \"FLOAT\", \"mode\": \"NULLABLE\"}\n"
                            "  ]");
    stk__text_putc(out, '}');
}

/* schema.json is that of the slices; other tables say their name. */
static void schema_name(const stk__flat_table *table, stk__text *out)
{
    if (table == &stk__flat_slice)
        stk__text_puts(out, "schema.json");
    else
        stk__text_printf(out, "schema-%s.json", table->name);
}

static stk_status write_schema(stk__exporter *e, const stk__flat_table *table, stk_error *err)
{
    char buffer[64];
    stk__text name, out = STK__TEXT_INIT;
    stk__text_fixed(&name, buffer, sizeof buffer);
    schema_name(table, &name);
    stk__text_puts(&out, "[\n");
    for (size_t i = 0; i < table->column_count; i++) {
        put_field(&out, &table->columns[i]);
        stk__text_puts(&out, i + 1 < table->column_count ? ",\n" : "\n");
    }
    stk__text_puts(&out, "]\n");
    return stk__export_text(e, buffer, &out, false, err);
}

static const char load_head[] =
    "#!/bin/sh\n"
    "# Loads the files of this directory into BigQuery: load.sh DATASET [gs://BUCKET/FOLDER]\n"
    "#\n"
    "# DATASET is made before with: bq mk DATASET. With a bucket, shards are copied there and loaded in one job per\n"
    "# table, which is the way for much data; without one, each shard is sent from this machine.\n"
    "set -eu\n"
    "cd \"$(dirname \"$0\")\"\n"
    "if [ $# -lt 1 ] || [ $# -gt 2 ]; then\n"
    "    echo \"usage: load.sh DATASET [gs://BUCKET/FOLDER]\" >&2\n"
    "    exit 2\n"
    "fi\n"
    "dataset=$1\n"
    "bucket=${2:-}\n"
    "\n"
    "load() { # TABLE SCHEMA\n"
    "    if [ -n \"$bucket\" ]; then\n"
    "        gcloud storage cp \"$1\"-*.ndjson \"$bucket/\"\n"
    "        bq load --source_format=NEWLINE_DELIMITED_JSON \"$dataset.$1\" \"$bucket/$1-*.ndjson\" \"$2\"\n"
    "        return\n"
    "    fi\n"
    "    for shard in \"$1\"-*.ndjson; do\n"
    "        bq load --source_format=NEWLINE_DELIMITED_JSON \"$dataset.$1\" \"$shard\" \"$2\"\n"
    "    done\n"
    "}\n"
    "\n";

static stk_status write_load(stk__exporter *e, stk_error *err)
{
    const stk__flat_table *tables[STK__EXPORT_TABLES];
    const size_t count = stk__export_tables(e->t, tables);
    stk__text out = STK__TEXT_INIT;
    stk__text_puts(&out, load_head);
    for (size_t i = 0; i < count; i++) {
        stk__text_printf(&out, "load %s ", tables[i]->name);
        schema_name(tables[i], &out);
        stk__text_putc(&out, '\n');
    }
    return stk__export_text(e, "load.sh", &out, true, err);
}

static const char slice_queries[] =
    "-- What takes the time: per name; `stoker top` counts recursion once.\n"
    "SELECT name, COUNT(*) AS count, SUM(dur) AS total_ns, AVG(dur) AS mean_ns,\n"
    "  MIN(dur) AS min_ns, MAX(dur) AS max_ns,\n"
    "  APPROX_QUANTILES(dur, 100)[OFFSET(50)] AS p50_ns, APPROX_QUANTILES(dur, 100)[OFFSET(95)] AS p95_ns\n"
    "FROM slice GROUP BY name ORDER BY total_ns DESC LIMIT 20;\n"
    "\n"
    "-- The same for each process and thread.\n"
    "SELECT process, pid, thread, tid, name, COUNT(*) AS count, SUM(dur) AS total_ns\n"
    "FROM slice GROUP BY process, pid, thread, tid, name ORDER BY total_ns DESC LIMIT 20;\n"
    "\n"
    "-- Args flattened: one row for each slice and arg, and what their values take.\n"
    "SELECT name, arg.key,\n"
    "  COALESCE(arg.string_value, CAST(arg.int_value AS STRING), CAST(arg.double_value AS STRING)) AS value,\n"
    "  COUNT(*) AS count, SUM(dur) AS total_ns, MIN(dur) AS min_ns, MAX(dur) AS max_ns\n"
    "FROM slice, UNNEST(args) AS arg GROUP BY name, arg.key, value ORDER BY total_ns DESC LIMIT 20;\n";

static const char counter_queries[] =
    "-- Counters: how many values, and between what.\n"
    "SELECT name, unit, COUNT(*) AS count, MIN(value) AS min, AVG(value) AS mean, MAX(value) AS max\n"
    "FROM counter GROUP BY name, unit ORDER BY name;\n";

static const char sample_queries[] =
    "-- Self time of functions: the innermost frame of each stack.\n"
    "SELECT stack[SAFE_ORDINAL(ARRAY_LENGTH(stack))] AS frame, unit, COUNT(*) AS samples, SUM(weight) AS self\n"
    "FROM sample GROUP BY frame, unit ORDER BY self DESC LIMIT 20;\n";

static stk_status write_queries(stk__exporter *e, stk_error *err)
{
    const stk__export_queries queries = {slice_queries, counter_queries, sample_queries, stk__export_function_queries};
    return stk__export_write_queries(
        e, "-- Run with: bq query --use_legacy_sql=false --dataset_id=DATASET < queries.sql\n", &queries, err);
}

static stk_status write_readme(stk__exporter *e, stk_error *err)
{
    stk__text out = STK__TEXT_INIT;
    stk__text_puts(
        &out,
        "# A trace for BigQuery\n\n"
        "```\n"
        "bq mk DATASET\n"
        "./load.sh DATASET                      # from this machine\n"
        "./load.sh DATASET gs://BUCKET/FOLDER   # or through a bucket, for much data\n"
        "bq query --use_legacy_sql=false --dataset_id=DATASET < queries.sql\n"
        "```\n\n"
        "Files: `TABLE-NNNNN.ndjson` are the rows, one JSON object per line, each file below 4 GB. 64-bit integers\n"
        "are in quotes, as BigQuery wants them. `schema.json` is the schema of `slice`, `schema-TABLE.json` those of\n"
        "others.\n"
        "`args` is a repeated record of `key` and one of `string_value`, `int_value` and `double_value`; nested\n"
        "values, true and false are in `string_value`. Times are nanoseconds. Loading twice adds the rows twice.\n");
    stk__export_columns(e, &out);
    return stk__export_text(e, "README.md", &out, false, err);
}

static stk_status bigquery_beside(stk__exporter *e, stk_error *err)
{
    const stk__flat_table *tables[STK__EXPORT_TABLES];
    const size_t count = stk__export_tables(e->t, tables);
    for (size_t i = 0; i < count; i++)
        STK_TRY(write_schema(e, tables[i], err));
    STK_TRY(write_load(e, err));
    STK_TRY(write_queries(e, err));
    return write_readme(e, err);
}

const stk__export_target stk__export_bigquery = {
    .name = "bigquery",
    .summary = "NDJSON shards, schemas, the lines of bq, queries",
    .json = &style,
    .beside = bigquery_beside,
};
