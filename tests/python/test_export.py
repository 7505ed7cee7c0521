#!/usr/bin/env python3
"""stoker export: what is written is valid, complete and within limits. test_export.py BUILD_DIR

check_export.py goes further: it loads the files into Spark and ClickHouse.
"""
import csv
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys

import exportlib
import runlib

TARGETS = ("bigquery", "clickhouse", "spark", "sqlite", "csv")


def call(test, program, directory):
    test(program, directory, exportlib.write_trace(os.path.join(directory, "a.json")))


def export(program, directory, target, *more, source):
    """Into a directory whose name asks for trouble."""
    out = os.path.join(directory, "out 'put\" $(x) " + target)
    exportlib.run(program, "export", "--no-cache", source, "--to", target, out, *more)
    return out


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def test_totals_of_every_target_equal_stoker_top(program, directory, trace):
    wanted = exportlib.top(program, trace)
    assert sum(row[0] for row in wanted.values()) == 2000 + len([i for i in range(2000) if i % 7 == 0])
    for target in ("bigquery", "clickhouse", "spark"):
        rows = list(exportlib.lines(export(program, directory, target, source=trace), "slice"))
        found = exportlib.totals((row["name"], int(row["dur"])) for row in rows)
        assert found == wanted, target
    out = export(program, directory, "csv", source=trace)
    with open(os.path.join(out, "slice.csv"), newline="", encoding="utf-8") as file:
        assert exportlib.totals((row["name"], int(row["dur"])) for row in csv.DictReader(file)) == wanted
    out = export(program, directory, "sqlite", source=trace)
    database = sqlite3.connect(os.path.join(out, "trace.sqlite"))
    assert exportlib.totals(database.execute("SELECT coalesce(name, ''), dur FROM slice")) == wanted
    database.executescript(read(out, "queries.sql"))
    database.close()


def bigquery_value(value, field):
    """What BigQuery's loader takes for a field."""
    kind = field["type"]
    if field["mode"] == "REPEATED":
        assert isinstance(value, list)
        for item in value:
            bigquery_value(item, dict(field, mode="REQUIRED"))
    elif kind == "INTEGER":
        assert isinstance(value, str) and re.fullmatch(r"-?\d+", value) and -2**63 <= int(value) < 2**63, value
    elif kind == "FLOAT":
        assert isinstance(value, (int, float)) or value in ("NaN", "Infinity", "-Infinity"), value
    elif kind == "BOOLEAN":
        assert isinstance(value, bool)
    elif kind == "STRING":
        assert isinstance(value, str)
    else:
        assert kind == "RECORD"
        bigquery_row(value, field["fields"])


def bigquery_row(row, schema):
    fields = {field["name"]: field for field in schema}
    assert set(row) <= set(fields), set(row) - set(fields)
    for name, field in fields.items():
        assert name in row or field["mode"] != "REQUIRED", (name, row)
    for name, value in row.items():
        bigquery_value(value, fields[name])


def test_bigquery_rows_fit_their_schema(program, directory, trace):
    out = export(program, directory, "bigquery", source=trace)
    for table, name in (("slice", "schema.json"), ("counter", "schema-counter.json"), ("flow", "schema-flow.json")):
        schema = json.loads(read(out, name))
        rows = list(exportlib.lines(out, table))
        assert rows
        for row in rows:
            bigquery_row(row, schema)
    rows = list(exportlib.lines(out, "slice"))
    args = {arg["key"]: arg for arg in next(row for row in rows if row["args"])["args"]}
    assert args["Size"] == {"key": "Size", "double_value": 2.5}
    assert args["flag"] == {"key": "flag", "string_value": "true"} and args["none"] == {"key": "none"}
    assert args["shape"]["string_value"] == '[64,[3,"x"]]' and args["big"]["string_value"] == str(2**80)
    load = read(out, "load.sh")
    assert "bq load --source_format=NEWLINE_DELIMITED_JSON" in load and "load slice schema.json" in load
    assert "UNNEST(args)" in read(out, "queries.sql")


def view_in_sqlite(out, trace):
    """The tables of an export for BigQuery and its view, in SQLite; only what the two write differently is changed."""
    database = sqlite3.connect(":memory:")
    for table, name in (("slice", "schema.json"), ("counter", "schema-counter.json")):
        types = {"INTEGER": int, "BOOLEAN": int}
        fields = [(f["name"], types.get(f["type"], str) if f["type"] != "FLOAT" else float) for f in json.loads(read(out, name))]
        database.execute("CREATE TABLE %s(%s)" % (table, ", ".join(field for field, _ in fields)))
        for row in exportlib.lines(out, table):
            row = dict(row, args=json.dumps(row["args"])) if "args" in row else row
            values = [kind(row[field]) if field in row else None for field, kind in fields]
            database.execute("INSERT INTO %s VALUES (%s)" % (table, ", ".join("?" * len(values))), values)
    fields = ", ".join("json_extract(value, '$.%s') AS %s" % (f, f) for f in ("key", "string_value", "int_value", "double_value"))
    view = read(out, "view.sql").replace("@DATASET@.", "").replace("OR REPLACE ", "").replace("UNNEST(args)", (
        "(SELECT %s FROM json_each(args))" % fields)).replace("AS STRING", "AS TEXT").replace("id AS index", 'id AS "index"')
    database.executescript(view)
    return database


def test_view_of_bigquery_answers_queries_for_chrome_traces(program, directory, trace):
    out = export(program, directory, "bigquery", source=trace)
    database = view_in_sqlite(out, trace)
    events = list(exportlib.events(1, 2000))
    slices = [e for e in events if e["ph"] == "X"]
    query = ("SELECT sum(dur) as total_dur, avg(dur) as avg_dur, min(dur) as min_dur, max(dur) as max_dur, arg_text "
             "FROM `trace_events` WHERE ph = 'X' group by arg_text order by 1 desc limit 20")
    wanted = {}
    for event in slices:
        wanted.setdefault(event["args"].get("text"), []).append(event["dur"])
    rows = database.execute(query).fetchall()
    assert len(rows) == len(wanted)
    for total, mean, low, high, text in rows:
        durations = wanted[text]
        assert abs(total - sum(durations)) < 1e-3 and (low, high) == (min(durations), max(durations)), text
        assert abs(mean - sum(durations) / len(durations)) < 1e-3, text
    columns = [column[0] for column in database.execute("SELECT * FROM trace_events LIMIT 1").description]
    assert columns[:9] == ["index", "ph", "cat", "name", "pid", "tid", "ts", "dur", "value"], columns
    # size or Size, which BigQuery takes for one column; args of one type keep it
    assert sorted(column.lower() for column in columns[9:]) == ["arg_" + key for key in (
        "big", "flag", "none", "shape", "size", "text")], columns
    counts = dict(database.execute("SELECT ph, count(*) FROM trace_events GROUP BY ph"))
    assert counts == {ph: sum(1 for e in events if e["ph"] == ph) for ph in "XiC"}, counts
    assert database.execute("SELECT count(*) FROM trace_events WHERE ph = 'i' AND dur IS NOT NULL").fetchone() == (0,)
    # a query of queries.sql that SQLite can run too
    part = next(part for part in read(out, "queries.sql").split(";") if "FROM trace_events" in part)
    assert len(database.execute(part).fetchall()) == len({e["name"] for e in slices})
    database.close()


def test_integers_of_clickhouse_are_those_of_the_trace(program, directory, trace):
    out = export(program, directory, "clickhouse", source=trace)
    wanted = [e["args"]["size"] for e in exportlib.events(1, 2000) if e["ph"] == "X" and e["args"]]
    rows = [row for row in exportlib.lines(out, "slice") if row["args"]]
    assert sorted(int(row["args"]["size"]) for row in rows) == sorted(wanted)
    assert all(isinstance(value, str) for row in rows for value in row["args"].values())
    schema = read(out, "schema.sql")
    columns = re.findall(r"^    `(\w+)` ", schema.split(";")[0], re.M)
    assert columns == list(rows[0]), (columns, list(rows[0]))


def test_scripts_run_and_quote_names(program, directory, trace):
    """With stand-ins for bq and clickhouse-client that note what they are called with."""
    tools = os.path.join(directory, "tools")
    os.mkdir(tools)
    for tool in ("bq", "clickhouse-client", "gcloud"):
        with open(os.path.join(tools, tool), "w") as file:
            file.write("#!/bin/sh\nfor a in \"$0\" \"$@\"; do printf '%s\\n' \"$a\"; done >> \"$LOG\"\ncat > /dev/null\n")
        os.chmod(os.path.join(tools, tool), 0o755)
    log = os.path.join(directory, "log")
    env = dict(os.environ, PATH=tools + ":" + os.environ["PATH"], LOG=log)
    for target, arguments in (("bigquery", ["my-data"]), ("bigquery", ["my-data", "gs://b/a b"]), ("clickhouse", ["--host", "a b"])):
        out = os.path.join(directory, "out 'put\" $(x) " + target)
        shutil.rmtree(out, ignore_errors=True)
        export(program, directory, target, "--shard-size", "200K", source=trace)
        subprocess.run([os.path.join(out, "load.sh")] + arguments, env=env, check=True, stdin=subprocess.DEVNULL, timeout=60)
        calls = read(log).splitlines()
        os.unlink(log)
        if target == "clickhouse":
            assert calls.count("--queries-file") == 1 and calls.count("a b") == calls.count("--host") > 5
            assert "INSERT INTO `slice` FORMAT JSONEachRow" in calls
        elif len(arguments) == 1:
            assert calls.count("my-data.slice") > 3 and "slice-00001.ndjson" in calls
            assert calls[-2:] == ["query", "--use_legacy_sql=false"], calls[-3:]
        else:
            assert calls.count("my-data.slice") == 1 and "gs://b/a b/slice-*.ndjson" in calls
    assert subprocess.run([os.path.join(directory, "out 'put\" $(x) bigquery", "load.sh")], env=env,
                          stderr=subprocess.DEVNULL, timeout=60).returncode == 2
    assert not os.path.exists(os.path.join(directory, "hacked"))


def test_pyspark_script_compiles(program, directory, trace):
    out = export(program, directory, "spark", source=trace)
    compile(read(out, "top.py"), "top.py", "exec")


def test_shards_have_at_most_their_size(program, directory, trace):
    out = export(program, directory, "spark", "--shard-size", "64K", source=trace)
    sizes = [os.path.getsize(os.path.join(out, name)) for name in os.listdir(out) if name.startswith("slice-")]
    assert len(sizes) > 5 and max(sizes) <= 65536 and sorted(sizes)[1] > 32768, sizes
    rows = list(exportlib.lines(out, "slice"))
    assert [row["id"] for row in rows] == list(range(len(rows)))


def test_readme_says_what_to_run(program, directory, trace):
    for target in TARGETS:
        assert "```" in read(export(program, directory, target, source=trace), "README.md")


def test_directory_is_new_or_empty_or_forced(program, directory, trace):
    out = export(program, directory, "spark", "--shard-size", "64K", source=trace)
    _, errors = exportlib.run(program, "export", trace, "--to", "spark", out, code=2)
    assert "not empty" in errors
    _, errors = exportlib.run(program, "export", trace + ".missing", "--to", "spark", out, code=2)
    assert "not empty" in errors, errors  # before anything is read
    exportlib.run(program, "export", trace, "--to", "spark", "--force", out)
    assert [name for name in sorted(os.listdir(out)) if name.startswith("slice-")] == ["slice-00000.ndjson"]
    assert len(list(exportlib.lines(out, "slice"))) == 2286


def test_one_row_is_told_as_one(program, directory, trace):
    path = os.path.join(directory, "one.folded")
    with open(path, "w", encoding="utf-8") as file:
        file.write("main;f 3\n")
    _, errors = exportlib.run(program, "export", path, "--to", "csv", os.path.join(directory, "one"))
    assert "wrote 1 sample for csv" in errors, errors


def test_mistakes_are_told(program, directory, trace):
    out = os.path.join(directory, "out")
    for arguments, wanted in (([trace, out], "no target"), ([trace, "--to", "bigquerry", out], "did you mean 'bigquery'"),
                              (["--to", "csv", out], "wanted one or more traces"), (["--to", "csv", trace, trace], "is a file"),
                              ([trace, "--to", "spark", "--shard-size", "4G", out], "4000000000"),
                              ([trace, "--to", "spark", "--shard-size", "1", out], "4096")):
        _, errors = exportlib.run(program, "export", *arguments, code=2)
        assert wanted in errors, (arguments, errors)
    exportlib.run(program, "export", os.path.join(directory, "missing"), "--to", "csv", out, code=1)
    assert not os.path.exists(out)


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), call))
