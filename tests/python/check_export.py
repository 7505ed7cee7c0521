#!/usr/bin/env python3
"""Loads exports into the engines that they are for: PySpark in local mode, and chDB, which is ClickHouse in a library.

Usage: check_export.py BUILD_DIR. Needs the packages of bench/requirements-export.txt and Java; scripts/export_check.sh has them.
Totals per name must equal those of `stoker top`, the queries and scripts that lie beside the data must run.
"""
import importlib.util
import json
import os
import re
import subprocess
import sys

import chdb.session
from pyspark.sql import SparkSession

import exportlib
import runlib

spark = SparkSession.builder.master("local[2]").appName("check_export").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def call(test, program, directory):
    paths = [exportlib.write_trace(os.path.join(directory, name), seed, 20000) for name, seed in (("a.json", 1), ("b.json", 2))]
    test(program, directory, paths)


def export(program, directory, target, paths):
    """In many shards, in a directory whose name has what globs and shells take apart."""
    out = os.path.join(directory, "out [x] {a,b} " + target)
    exportlib.run(program, "export", "--no-cache", *paths, "--to", target, "--shard-size", "700K", out)
    return out


def load_module(out):
    spec = importlib.util.spec_from_file_location("top", os.path.join(out, "top.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_spark_gives_the_totals_of_stoker_top(program, directory, paths):
    out = export(program, directory, "spark", paths)
    top = load_module(out)
    slices = top.load(spark)
    rows = top.by_name(slices).collect()
    found = {r["name"]: (r["count"], r["total_ns"], r["min_ns"], r["max_ns"], r["p50_ns"], r["p95_ns"]) for r in rows}
    wanted = exportlib.top(program, *paths)
    assert found == wanted, (len(found), len(wanted))
    print("spark: %d rows, %d names" % (slices.count(), len(found)))
    sizes = {r["value"] for r in top.by_arg(slices).where("key = 'size'").select("value").collect()}
    assert sizes == {row["args"]["size"] for row in exportlib.lines(out, "slice") if row["args"]}
    counters = top.load(spark, "counter")
    assert counters.count() == sum(1 for _ in exportlib.lines(out, "counter"))
    assert counters.where("value is null or isnan(value)").count() == 0


def test_spark_script_runs_by_itself(program, directory, paths):
    out = export(program, directory, "spark", paths)
    done = subprocess.run([sys.executable, os.path.join(out, "top.py"), "3"], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert b"total_ns" in done.stdout


def statements(text):
    return [part for part in re.sub(r"(?m)^--.*$", "", text).split(";") if part.strip()]


def chdb_rows(session, query):
    result = session.query(query, "JSONEachRow").data()
    return [json.loads(line) for line in result.splitlines()]


def test_clickhouse_gives_the_totals_of_stoker_top(program, directory, paths):
    out = export(program, directory, "clickhouse", paths)
    session = chdb.session.Session(os.path.join(directory, "chdb"))
    session.query("CREATE DATABASE d ENGINE = Atomic")
    session.query("USE d")
    with open(os.path.join(out, "schema.sql")) as file:
        for statement in statements(file.read()):
            session.query(statement)
    link = os.path.join(directory, "shards")  # file() takes a glob, so the directory's name must not be one
    os.symlink(out, link)
    for table in ("slice", "counter", "flow"):
        session.query("INSERT INTO `%s` SELECT * FROM file('%s/%s-*.ndjson', JSONEachRow)" % (table, link, table))
    rows = chdb_rows(session, "SELECT name, toString(count()) AS c, toString(sum(dur)) AS s, toString(min(dur)) AS l, "
                              "toString(max(dur)) AS h, toString(quantileExactLow(0.5)(dur)) AS a FROM slice GROUP BY name")
    found = {r["name"]: tuple(int(r[x]) for x in "cslh") for r in rows}
    wanted = {name: row[:4] for name, row in exportlib.top(program, *paths).items()}
    assert found == wanted, (len(found), len(wanted))
    print("clickhouse: %d rows, %d names" % (sum(row[0] for row in found.values()), len(found)))
    sizes = {r["v"] for r in chdb_rows(session, "SELECT DISTINCT args['size'] AS v FROM slice WHERE mapContains(args, 'size')")}
    assert sizes == {row["args"]["size"] for row in exportlib.lines(out, "slice") if row["args"]}
    with open(os.path.join(out, "queries.sql")) as file:
        for statement in statements(file.read()):
            assert chdb_rows(session, statement), statement
    session.close()


if __name__ == "__main__":
    status = runlib.main(globals(), call)
    spark.stop()
    sys.exit(status)
