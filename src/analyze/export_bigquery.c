/* Export for BigQuery: NDJSON with integers as text, schemas, the lines of bq, queries. */
#include "analyze/export_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

/* Columns arg_KEY of the view, and how long a key may be. */
enum { VIEW_ARGS = 100, NAME_MAX_BYTES = 64 };

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
    "in_sql=$(printf %s \"$dataset\" | tr : .) # bq takes PROJECT:DATASET, SQL PROJECT.DATASET\n"
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

/* ---- the view trace_events ---- */

/* A key of args, and which of the columns of the record its values are in. */
typedef struct arg_key {
    stk__string key;
    uint64_t count;
    bool ints, doubles, texts;
} arg_key;

static void count_type(arg_key *k, unsigned type)
{
    k->count++;
    k->ints |= type == STK__ARG_INT;
    k->doubles |= type == STK__ARG_DOUBLE;
    k->texts |= type == STK__ARG_BOOL || type == STK__ARG_STRING || type == STK__ARG_JSON;
}

/* Letters, digits and underscores: what can follow arg_ in a name, and stand in a string as it is. */
static bool can_be_column(const stk__trace *t, stk__string key)
{
    size_t size;
    const char *text = stk__trace_text(t, key, &size);
    return size > 0 && size <= NAME_MAX_BYTES &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == size;
}

static int most_first(const void *a, const void *b)
{
    const arg_key *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return (x->key > y->key) - (x->key < y->key);
}

static bool same_column(const stk__trace *t, stk__string a, stk__string b)
{
    const char *x = stk__trace_str(t, a), *y = stk__trace_str(t, b);
    for (; *x && (*x | 0x20) == (*y | 0x20); x++)
        y++;
    return *x == *y;
}

/* The keys that most args have, by string; of two that differ in case only, the first. Returns how many. */
static size_t choose_keys(const stk__trace *t, arg_key *keys)
{
    size_t count = 0;
    for (size_t i = 0; i < t->string_count; i++) {
        if (keys[i].count && can_be_column(t, (stk__string)i))
            keys[count++] = keys[i];
    }
    qsort(keys, count, sizeof *keys, most_first);
    size_t chosen = 0;
    for (size_t i = 0; i < count && chosen < VIEW_ARGS; i++) {
        bool known = false;
        for (size_t k = 0; k < chosen; k++)
            known |= same_column(t, keys[k].key, keys[i].key);
        if (!known)
            keys[chosen++] = keys[i];
    }
    return chosen;
}

/* To be freed. NULL when memory is out. */
static arg_key *find_keys(const stk__trace *t, size_t *out_count)
{
    arg_key *keys = stk__calloc(t->string_count + 1, sizeof *keys);
    if (!keys)
        return NULL;
    for (size_t i = 1; i < t->args.count; i++) {
        keys[t->args.key[i]].key = t->args.key[i];
        count_type(&keys[t->args.key[i]], t->args.type[i] & STK__ARG_TYPE);
    }
    *out_count = choose_keys(t, keys);
    return keys;
}

static void put_arg_column(const stk__trace *t, const arg_key *k, stk__text *out)
{
    const char *key = stk__trace_str(t, k->key);
    const char *value = k->texts + k->ints + k->doubles > 1
                            ? "COALESCE(string_value, CAST(int_value AS STRING), CAST(double_value AS STRING))"
                        : k->doubles ? "double_value"
                        : k->ints    ? "int_value"
                                     : "string_value";
    stk__text_printf(out, ",\n  (SELECT %s FROM UNNEST(args) WHERE key = '%s' LIMIT 1) AS arg_%s", value, key, key);
}

static const char view_slices[] =
    "SELECT id AS index, CASE WHEN is_instant THEN 'i' ELSE 'X' END AS ph, category AS cat, name, pid, tid,\n"
    "  ts / 1000.0 AS ts, CASE WHEN NOT is_instant THEN dur / 1000.0 END AS dur, CAST(NULL AS FLOAT64) AS value";
static const char view_counters[] = "SELECT NULL, 'C', NULL, name, pid, tid, ts / 1000.0, NULL, value";

static stk_status write_view(stk__exporter *e, stk_error *err)
{
    const stk__trace *t = e->t;
    size_t count = 0;
    stk__text out = STK__TEXT_INIT;
    arg_key *keys = find_keys(t, &count);
    if (!keys)
        return stk__nomem(t->string_count * sizeof *keys, err);
    stk__text_puts(&out, "-- Events as Chrome's JSON has them: microseconds, args as columns. load.sh makes the view.\n"
                         "CREATE OR REPLACE VIEW `@DATASET@.trace_events` AS\n");
    stk__text_puts(&out, view_slices);
    for (size_t i = 0; i < count; i++)
        put_arg_column(t, &keys[i], &out);
    stk__text_puts(&out, "\nFROM `@DATASET@.slice`");
    if (t->counters.count) {
        stk__text_printf(&out, "\nUNION ALL\n%s", view_counters);
        for (size_t i = 0; i < count; i++)
            stk__text_puts(&out, ", NULL");
        stk__text_puts(&out, "\nFROM `@DATASET@.counter`");
    }
    stk__text_puts(&out, ";\n");
    stk__free(keys);
    return stk__export_text(e, "view.sql", &out, false, err);
}

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
    if (e->t->slices.count)
        stk__text_puts(&out, "sed \"s/@DATASET@/$in_sql/g\" view.sql | bq query --use_legacy_sql=false\n");
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
    "FROM slice, UNNEST(args) AS arg GROUP BY name, arg.key, value ORDER BY total_ns DESC LIMIT 20;\n"
    "\n"
    "-- Events as Chrome's JSON has them, in microseconds. An arg KEY is the column arg_KEY.\n"
    "SELECT SUM(dur) AS total_dur, AVG(dur) AS avg_dur, MIN(dur) AS min_dur, MAX(dur) AS max_dur, name\n"
    "FROM trace_events WHERE ph = 'X' GROUP BY name ORDER BY 1 DESC LIMIT 20;\n";

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
        "values, true and false are in `string_value`. Times are nanoseconds. Loading twice adds the rows twice.\n"
        "\n"
        "`view.sql` makes the view `trace_events` for queries that were written for a trace as it is: `ph`, `cat`,\n"
        "`name`, `pid`, `tid`, `ts` and `dur` in microseconds, `arg_KEY` for the args that most slices have. Slices\n"
        "are of `ph` X, instants of i, counters of C, with their `value`.\n");
    stk__export_columns(e, &out);
    return stk__export_text(e, "README.md", &out, false, err);
}

static stk_status bigquery_beside(stk__exporter *e, stk_error *err)
{
    const stk__flat_table *tables[STK__EXPORT_TABLES];
    const size_t count = stk__export_tables(e->t, tables);
    for (size_t i = 0; i < count; i++)
        STK_TRY(write_schema(e, tables[i], err));
    if (e->t->slices.count)
        STK_TRY(write_view(e, err));
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
