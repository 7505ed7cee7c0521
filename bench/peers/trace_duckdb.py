#!/usr/bin/env python3
"""Read a trace with DuckDB, or ask it questions on the columns of one, and print the times as JSON:

trace_duckdb.py load FILE [--ways "WAY;..."] [--times N] [--threads N]
trace_duckdb.py top|gaps FOLDER [--ways "WAY;..."] [--times N]

FOLDER is what trace_queries --dump writes. A way of `top` and `gaps` runs once more before it is timed. `answer` sums up
the rows. When one way is asked for, `seconds` is the median of its times, and `cpu_per_1000` is by rows of the table.
"""
import argparse
import json
import os
import statistics
import time

import duckdb
import numpy

EVENT = "ph VARCHAR, cat VARCHAR, name VARCHAR, pid BIGINT, tid BIGINT, ts DOUBLE, dur DOUBLE, id BIGINT, bp VARCHAR, args JSON"
FIELDS = ", ".join(f"(e->>'{name}')::{kind} AS {name}" for name, kind in (f.split() for f in EVENT.split(", ")[:-1]))
LIST = json.dumps([dict(f.split() for f in EVENT.split(", "))])


def load_ways(path):
    """Way: the query. All give one row for each event, its args as JSON."""
    source = f"'{path}', maximum_object_size={2 * os.path.getsize(path)}"
    spread = "SELECT e.* FROM (SELECT unnest(traceEvents) AS e FROM read_json({}))"
    columns = f"columns={{'traceEvents': 'STRUCT({EVENT})[]'}}"
    whole = f"read_json_objects({source}, format='unstructured')"
    return {
        "auto": spread.format(source),
        "columns": spread.format(f"{source}, {columns}"),
        "columns + format": spread.format(f"{source}, {columns}, format='unstructured', records=true"),
        "from_json": f"SELECT e.* FROM (SELECT unnest(from_json(json->'traceEvents', '{LIST}')) AS e FROM {whole})",
        "->>": f"SELECT {FIELDS}, e->'args' AS args FROM (SELECT unnest((json->'traceEvents')::JSON[]) AS e FROM {whole})",
    }


def measure(work):
    before, start = time.process_time(), time.perf_counter()
    answer = work()
    return time.perf_counter() - start, time.process_time() - before, answer


def load_once(path, way, threads):
    """Into a new database, which is in memory."""
    with duckdb.connect(config={"threads": threads}) as db:
        seconds, cpu, _ = measure(lambda: db.execute("CREATE TABLE event AS " + load_ways(path)[way]))
        return seconds, cpu, db.execute("SELECT count(*) FROM event").fetchone()[0]


def load(path, ways, times, threads):
    out = {}
    for way in ways:
        try:
            out[way] = summary([load_once(path, way, threads) for _ in range(times)])
            out[way]["rows"] = out[way]["answer"]
        except duckdb.Error as e:
            out[way] = {"failed": str(e).strip().splitlines()[0]}
    return out


def summary(done):
    return {"seconds": [d[0] for d in done], "cpu_s": sum(d[1] for d in done) / len(done), "answer": done[0][2]}


# Name of a way of `top`: "how names are kept, how percentiles are asked for".
NAMES = {"ENUM": "name_enum", "VARCHAR": "name_text"}
PERCENTILES = {
    "median() and quantile_cont()": "median(dur), quantile_cont(dur, 0.95)",
    "two quantile_disc()": "quantile_disc(dur, 0.5), quantile_disc(dur, 0.95)",
    "quantile_disc() of a list": "quantile_disc(dur, [0.5, 0.95])",
}
WINDOW = "OVER (PARTITION BY track ORDER BY ts {})"
GAPS = {
    "max() of the rows before": f"""ts - max(ts + dur) {WINDOW.format("ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING")}
        AS gap FROM slice""",
    "lead() and max()": f"""lead(ts) {WINDOW.format("")} - max(ts + dur) {WINDOW.format("ROWS UNBOUNDED PRECEDING")}
        AS gap FROM slice""",
    "lag() of outermost slices": f"ts - lag(ts + dur) {WINDOW.format('')} AS gap FROM slice WHERE depth = 0",
}


def read_columns(folder, db, ways):
    """The table, with the names as the ways want them."""
    def column(name, kind):
        return numpy.fromfile(os.path.join(folder, name), kind)
    numbers = {"ts": column("ts.i64", "<i8"), "dur": column("dur.i64", "<i8"), "track": column("track.u32", "<u4"),
               "name": column("name.u32", "<u4"), "depth": column("depth.u16", "<u2")}
    with open(os.path.join(folder, "strings.nul"), encoding="utf-8") as f:
        texts = f.read().split("\0")[:-1]
    strings = {"name": numpy.arange(len(texts), dtype="<u4"), "text": numpy.array(texts, dtype=object)}
    db.execute("CREATE TABLE string AS SELECT name, text FROM strings")
    kept = {name for way in ways for name in NAMES if way.startswith(name)}
    db.execute("CREATE TYPE names AS ENUM (SELECT DISTINCT text FROM string)")
    more = {"ENUM": ", text::names AS name_enum", "VARCHAR": ", text AS name_text"}
    db.execute(f"CREATE TABLE slice AS SELECT ts, dur, track, depth{''.join(more[name] for name in sorted(kept))} "
               f"FROM numbers {'JOIN string USING (name)' if kept else ''}")


def top(db, way):
    """Rows of the groups; the answer is the sum of all percentiles, as far as they are values of the column."""
    names, percentiles = way.split(", ")
    rows = db.execute(f"SELECT {NAMES[names]}, count(*), sum(dur), min(dur), max(dur), avg(dur), {PERCENTILES[percentiles]} "
                      f"FROM slice GROUP BY {NAMES[names]} ORDER BY 3 DESC").fetchall()
    if "disc" not in percentiles:
        return None
    return sum(sum(row[6]) if "list" in percentiles else row[6] + row[7] for row in rows)


def gaps(db, way):
    count, total = db.execute(f"SELECT count(*), sum(gap)::BIGINT FROM (SELECT {GAPS[way]}) WHERE gap >= 1000").fetchone()
    return count + total


def ask(question, folder, ways, times):
    db, out = duckdb.connect(config={"threads": 2}), {}
    read_columns(folder, db, ways)
    outermost = db.execute("SELECT sum(dur)::BIGINT FROM slice WHERE depth = 0").fetchone()[0]
    rows = db.execute("SELECT count(*) FROM slice").fetchone()[0]
    work = {"top": top, "gaps": gaps}[question]
    for way in ways:
        work(db, way)
        out[way] = summary([measure(lambda w=way: work(db, w)) for _ in range(times)]) | {"rows": rows}
        # As trace_queries sums up: percentiles and self times, of which all together are the outermost slices.
        if question == "top" and out[way]["answer"] is not None:
            out[way]["answer"] += outermost
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", choices=("load", "top", "gaps"))
    parser.add_argument("path")
    parser.add_argument("--ways", help="with ; between; all unless told")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of load")
    args = parser.parse_args()
    known = {"load": lambda: load_ways(args.path), "gaps": lambda: GAPS,
             "top": lambda: [f"{n}, {p}" for n in NAMES for p in PERCENTILES]}[args.work]()
    ways = args.ways.split(";") if args.ways else list(known)
    if args.work == "load":
        found = load(args.path, ways, args.times, args.threads)
    else:
        found = ask(args.work, args.path, ways, args.times)
    out = {"ways": found, "version": f"DuckDB {duckdb.__version__}"}
    if len(ways) == 1:
        times = found[ways[0]].get("seconds")
        if not times:
            raise SystemExit(f"trace_duckdb.py: {ways[0]}: {found[ways[0]]['failed']}")
        rows = found[ways[0]]["rows"]
        out |= {"seconds": statistics.median(times), "cpu_per_1000": 1000 * found[ways[0]]["cpu_s"] / rows}
    print(json.dumps(out))


if __name__ == "__main__":
    main()
