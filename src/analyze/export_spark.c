/* Export for Spark: NDJSON and a PySpark script with the schema and the totals. */
#include "analyze/export_impl.h"

#include <string.h>

#include "base/banned.h"

static const stk__json_style style = {.text_doubles = true, .args = STK__ARGS_TEXTS};

static const char script_head[] =
    "#!/usr/bin/env python3\n"
    "\"\"\"Loads the trace that lies beside this file into Spark, and prints what takes the time.\n"
    "\n"
    "Usage: spark-submit top.py [ROWS]    (or python3 top.py [ROWS], with PySpark from PyPI)\n"
    "\n"
    "From another program or a notebook:\n"
    "    import top\n"
    "    slices = top.load(spark, \"slice\")\n"
    "    top.by_name(slices).show()\n"
    "\"\"\"\n"
    "import os\n"
    "import re\n"
    "import sys\n"
    "\n"
    "from pyspark.sql import SparkSession\n"
    "from pyspark.sql import functions as F\n"
    "from pyspark.sql import types as T\n"
    "\n"
    "DIRECTORY = os.path.dirname(os.path.abspath(__file__))\n"
    "\n"
    "# Given, so that Spark does not read everything once more to guess it. Times are nanoseconds.\n"
    "SCHEMAS = {\n";

static const char script_tail[] =
    "}\n"
    "\n"
    "\n"
    "def load(spark, table=\"slice\", directory=DIRECTORY):\n"
    "    \"\"\"All shards of a table as a DataFrame. A line that does not fit the schema ends the job.\"\"\"\n"
    "    if \"://\" not in directory:  # of this machine; Spark takes *, ?, [ and { in it as a pattern\n"
    "        directory = \"file://\" + re.sub(r\"([*?\\[\\]{}\\\\])\", r\"\\\\\\1\", os.path.abspath(directory))\n"
    "    path = directory + \"/\" + table + \"-*.ndjson\"\n"
    "    return spark.read.schema(SCHEMAS[table]).option(\"mode\", \"FAILFAST\").json(path)\n"
    "\n"
    "\n"
    "def by_name(slices):\n"
    "    \"\"\"Totals per name; `stoker top` counts recursion once; the percentiles are exact, by nearest rank.\"\"\"\n"
    "    return (slices.groupBy(\"name\")\n"
    "            .agg(F.count(F.lit(1)).alias(\"count\"), F.sum(\"dur\").alias(\"total_ns\"),\n"
    "                 F.avg(\"dur\").alias(\"mean_ns\"), F.min(\"dur\").alias(\"min_ns\"),\n"
    "                 F.max(\"dur\").alias(\"max_ns\"),\n"
    "                 F.expr(\"percentile_disc(0.5) WITHIN GROUP (ORDER BY dur)\").cast(\"long\").alias(\"p50_ns\"),\n"
    "                 F.expr(\"percentile_disc(0.95) WITHIN GROUP (ORDER BY dur)\").cast(\"long\").alias(\"p95_ns\"))\n"
    "            .orderBy(F.desc(\"total_ns\"), \"name\"))\n"
    "\n"
    "\n"
    "def by_arg(slices):\n"
    "    \"\"\"Args flattened: what the slices with each value of each arg take.\"\"\"\n"
    "    flat = slices.select(\"name\", \"dur\", F.explode(\"args\").alias(\"key\", \"value\"))\n"
    "    return (flat.groupBy(\"name\", \"key\", \"value\")\n"
    "            .agg(F.count(F.lit(1)).alias(\"count\"), F.sum(\"dur\").alias(\"total_ns\"))\n"
    "            .orderBy(F.desc(\"total_ns\")))\n"
    "\n"
    "\n"
    "def main():\n"
    "    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 20\n"
    "    spark = SparkSession.builder.appName(\"stoker top\").getOrCreate()\n"
    "    if \"slice\" in SCHEMAS:\n"
    "        slices = load(spark).cache()\n"
    "        by_name(slices).show(rows, truncate=60)\n"
    "        by_arg(slices).show(rows, truncate=60)\n"
    "    if \"function\" in SCHEMAS:\n"
    "        load(spark, \"function\").orderBy(F.desc(\"self_ns\")).show(rows, truncate=60)\n"
    "    if \"sample\" in SCHEMAS:\n"
    "        samples = load(spark, \"sample\")\n"
    "        (samples.groupBy(F.element_at(\"stack\", -1).alias(\"frame\"), \"unit\")\n"
    "         .agg(F.count(F.lit(1)).alias(\"samples\"), F.sum(\"weight\").alias(\"self\"))\n"
    "         .orderBy(F.desc(\"self\")).show(rows, truncate=60))\n"
    "    spark.stop()\n"
    "\n"
    "\n"
    "if __name__ == \"__main__\":\n"
    "    main()\n";

static void put_schema(stk__text *out, const stk__flat_table *table)
{
    static const char *const types[] = {"T.LongType()",
                                        "T.DoubleType()",
                                        "T.BooleanType()",
                                        "T.StringType()",
                                        "T.MapType(T.StringType(), T.StringType())",
                                        "T.ArrayType(T.StringType())"};
    stk__text_printf(out, "    \"%s\": T.StructType([\n", table->name);
    for (size_t i = 0; i < table->column_count; i++)
        stk__text_printf(out, "        T.StructField(\"%s\", %s, True),  # %s\n", table->columns[i].name,
                         types[table->columns[i].type], table->columns[i].about);
    stk__text_puts(out, "    ]),\n");
}

static stk_status spark_beside(stk__exporter *e, stk_error *err)
{
    const stk__flat_table *tables[STK__EXPORT_TABLES];
    const size_t count = stk__export_tables(e->t, tables);
    stk__text out = STK__TEXT_INIT;
    stk__text_puts(&out, script_head);
    for (size_t i = 0; i < count; i++)
        put_schema(&out, tables[i]);
    stk__text_puts(&out, script_tail);
    STK_TRY(stk__export_text(e, "top.py", &out, true, err));
    stk__text_puts(
        &out,
        "# A trace for Spark\n\n"
        "```\n"
        "spark-submit top.py        # or: pip install pyspark, then python3 top.py\n"
        "```\n\n"
        "Files: `TABLE-NNNNN.ndjson` are the rows, one JSON object per line; `top.py` has their schema, loads them\n"
        "and prints totals per name and per arg. On a cluster, copy the directory to storage that all workers\n"
        "see, and give its path to `load`. `args` is a map from texts to texts. Times are nanoseconds.\n");
    stk__export_columns(e, &out);
    return stk__export_text(e, "README.md", &out, false, err);
}

const stk__export_target stk__export_spark = {
    .name = "spark",
    .summary = "NDJSON shards and a PySpark script with their schema",
    .json = &style,
    .beside = spark_beside,
};
