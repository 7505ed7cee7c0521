#!/usr/bin/env python3
"""Run the benchmarks of the trace workbench: Stoker against Python's json, DuckDB and SQLite; bench/traces.sh builds
what they need.

Writes build/bench/traces.toml, which `stoker bench` measures. A complete run also writes the tables into
docs/performance.md.
"""
import gzip
import os
import shutil
import subprocess
import sys

import suitelib as lib

VENV = ".venv-peers-traces"
QUERIES = os.path.join(lib.TOOLS, "trace_queries")
SQL = os.path.join(lib.TOOLS, "trace_sql")
# Files: events, and those with --quick; an event of this kind has 323 bytes.
FILES = {"small": (108_000, 31_000), "kineto": (1_084_000, 93_000), "large": (6_200_000, 310_000)}
SLICES = (10_000_000, 1_000_000)
# Slices of the queries beyond the one that has a target, and how many queries there are.
SQL_SLICES = (2_000_000, 200_000)
SQL_QUERIES = 5


def pinned(command):
    return ["taskset", "-c", str(max(os.sched_getaffinity(0))), *command]


# ---- data ----

def folder(args):
    path = os.path.join(lib.DATA, "traces-quick" if args.quick else "traces")
    os.makedirs(path, exist_ok=True)
    return path


def trace_file(name, args):
    """Path, number of events, megabytes."""
    events = FILES[name][args.quick]

    def make(path):
        with open(path, "wb") as f:
            subprocess.check_call([os.path.join(lib.TOOLS, "make_trace"), "--events", str(events)], stdout=f)
    path = lib.made(os.path.join(folder(args), name + ".json"), make)
    return path, events, os.path.getsize(path) / 1e6


def packed_file(name, args):
    def make(path):
        with open(trace_file(name, args)[0], "rb") as f, gzip.open(path, "wb", 6) as g:
            shutil.copyfileobj(f, g, lib.MIB)
    return lib.made(os.path.join(folder(args), name + ".json.gz"), make)


def columns(args):
    """The synthetic slices as raw numbers, for the peers."""
    slices = SLICES[args.quick]

    def make(path):
        os.makedirs(path)
        lib.run_json([QUERIES, "--rows", str(slices), "--repeat", "0", "--dump", path])
    return lib.made(os.path.join(folder(args), f"slices-{slices}"), make)


# ---- contestants ----

def load_command(path, *options):
    return [QUERIES, "--repeat", "0", *options, path]


def load_side(title, path, events, *options, pin=True):
    """Stoker reads a file; the first time sees to the page cache."""
    command = load_command(path, *options)
    command = pinned(command) if pin else command
    lib.same(f"{path}: events", lib.run_json(command)["events"], events)
    return lib.Side(title, command)


def json_side(title, path, events, *options):
    command = pinned(lib.peer(VENV, "trace_json.py", path, *options))
    out = lib.run_json(command)
    lib.same("json.loads: events", events, out["events"])
    return lib.Side(f"{title} ({out['version']})", command)


def question(title, name, args, times):
    """Stoker answers a question a few times after it has made the slices; the median counts. The side and the answer."""
    command = [QUERIES, "--rows", str(SLICES[args.quick]), "--ask", name, "--repeat", str(times)]
    return lib.Side(title, command), lib.run_json(command)["answer"]


class DuckDB:
    """The fastest of several ways, or one of them."""

    def __init__(self, work, path, suite, way=None, without=(), times=3, one_core=False):
        self.command = lib.peer(VENV, "trace_duckdb.py", work, path, "--times", times)
        if one_core:
            self.command = pinned([*self.command, "--threads", "1"])
        # Noise must not choose a slower way for a peer.
        tried = [lib.run_json([*self.command, *(["--ways", way] if way else [])]) for _ in range(1 if way else 2)]
        found = {w: f for w, f in tried[0]["ways"].items() if w not in without}
        good = {w: min(min(t["ways"][w]["seconds"]) for t in tried) for w, f in found.items() if "seconds" in f}
        if not good:
            raise lib.Failed(f"DuckDB: {found}")
        self.version, self.way = tried[0]["version"], min(good, key=good.get)
        self.answer = found[self.way]["answer"]
        if not way:
            suite.note(f"{work}, {self.version}, seconds by way: " + "; ".join(
                f"{w} {good[w]:.3f}" if w in good else f"{w} fails: {f['failed']}" for w, f in found.items()))

    def side(self, title):
        return lib.Side(f"{title} ({self.version})", [*self.command, "--ways", self.way])


# ---- works ----

def load(suite, args):
    """Chrome JSON to columns"""
    path, events, megabytes = trace_file("kineto", args)
    mine = load_side("Stoker, 1 core", path, events)
    title = f"load: Kineto-like JSON of {megabytes:,.0f} MB, 1 core"
    suite.measure(title, mine.command, "mb_per_s", ("at_least", 300))
    for other, options, target in (("json.loads", [], 5), ("json.loads with the garbage collector off", ["--no-gc"], None)):
        side = json_side(other, path, events, *options)
        suite.compare(f"{title} / {side.title}", mine, side, target)
    load_duckdb(suite, args)
    load_packed(suite, args, path, events, megabytes)


def load_duckdb(suite, args):
    path, events, megabytes = trace_file("small", args)
    best = DuckDB("load", path, suite, times=1)
    lib.same("load: events", events, best.answer)
    sides = [DuckDB("load", path, suite, "columns", times=1, one_core=True).side("DuckDB's read_json with explicit columns, 1 core"),
             DuckDB("load", path, suite, "columns", times=1).side("DuckDB's read_json with explicit columns, 2 threads")]
    if best.way != "columns":
        sides.append(best.side(f"DuckDB's fastest way, '{best.way}', 2 threads"))
    mine = load_side("Stoker, 1 core", path, events)
    for side in sides:
        suite.compare(f"load: the same kind, {megabytes:,.0f} MB, 1 core / {side.title}", mine, side, 20)


def load_packed(suite, args, path, events, megabytes):
    packed = packed_file("kineto", args)
    mine = load_side("Stoker, .json.gz", packed, events, pin=False)
    title = f"load: the same {megabytes:,.0f} MB as .json.gz of {os.path.getsize(packed) / 1e6:,.0f} MB"
    zcat = lib.Side("zcat, which inflates only", f"zcat {packed} >/dev/null")
    suite.compare(f"{title} / {zcat.title}", mine, zcat, metric="wall")
    plain = load_side("Stoker, .json", path, events, pin=False)
    suite.compare(f"{title} / {plain.title}", mine, plain)


def memory(suite, args):
    """memory beyond the columns"""
    path, events, megabytes = trace_file("large", args)
    free, capped = load_command(path), load_command(path, "--memory", "256M")
    first, second = lib.run_json(free), lib.run_json(capped)
    lib.same("memory: events", first["events"], events)
    title = f"memory: {megabytes / 1000:.1f} GB of JSON"
    suite.measure(f"{title}: columns", free, "bytes")
    suite.measure(f"{title}: RSS at its peak, beyond the columns", free, "beyond_bytes", ("at_most", 256 * lib.MIB))
    suite.measure(f"{title}, --memory 256M: RSS at its peak", capped, "peak_bytes", ("at_most", 512 * lib.MIB))
    suite.measure(f"{title}, --memory 256M: RSS at its peak, after top over them",
                  [QUERIES, "--ask", "top", "--repeat", "1", "--memory", "256M", path], "peak_bytes",
                  ("at_most", 512 * lib.MIB))
    suite.note(f"{title}, {events:,} events: loaded in {first['seconds']:.1f} s, with --memory 256M in {second['seconds']:.1f} s, "
               f"{'to a temporary file' if second['spilled'] else 'without a need to spill'}")


def top(suite, args):
    """totals per name"""
    slices, path = SLICES[args.quick], columns(args)
    mine, answer = question("Stoker, 2 threads", "top", args, 5)
    other = DuckDB("top", path, suite, times=5)
    if other.answer is not None:
        lib.same("top: percentiles and self times", answer, other.answer)
    suite.measure(f"top: {slices:,} slices, 1,000 names, after the load", mine.command, "seconds", ("at_most", 0.25))
    side = other.side(f"DuckDB's GROUP BY, '{other.way}', 2 threads")
    suite.compare(f"top: {slices:,} slices / {side.title}", mine, side, 5)
    suite.note("top: count, total, mean, least, greatest, median and 95th percentile, both exact; Stoker's also has the self "
               "times, for which DuckDB has nothing, so it does not do that part")


def gaps(suite, args):
    """idle time per thread"""
    path, lag = columns(args), "lag() of outermost slices"
    mine, answer = question("Stoker", "gaps", args, 5)
    other, given = DuckDB("gaps", path, suite, without=(lag,)), DuckDB("gaps", path, suite, lag)
    lib.same("gaps: number and sum", answer, other.answer)
    lib.same("gaps: number and sum", answer, given.answer)
    title = f"gaps of 1 us and more: {SLICES[args.quick]:,} slices on 64 threads"
    for side, target in ((other.side(f"DuckDB's window query, '{other.way}', 2 threads"), 5),
                         (given.side("DuckDB's lag() over the outermost slices, which Stoker's depth column tells it"), None)):
        suite.compare(f"{title} / {side.title}", mine, side, target)


def sql(suite, args):
    """the GROUP BY of the guide through SQLite"""
    slices = SLICES[args.quick]
    command = lib.peer(VENV, "trace_sqlite.py", columns(args), os.path.join(folder(args), f"slices-{slices}.sqlite"))
    out = lib.run_json(command)
    other = lib.Side(f"plain table in memory, no index ({out['version']})", command)
    for name, words, target in (("sql", "", 5), ("sql_rows", ", row by row", None)):
        mine, answer = question(f"Stoker{words}", name, args, 3)
        lib.same("sql: sums, minima and maxima", answer, out["answer"])
        suite.compare(f"sql: GROUP BY name, {slices:,} slices{words} / {other.title}", mine, other, target)
    suite.note("sql: each query is the first one of a new connection; totals per group of all slices are seen as such and made "
               "group by group, 'row by row' is the same table read as SQLite reads others, which a WHERE would bring about")


def queries(suite, args):
    """other questions in SQL"""
    slices = SQL_SLICES[args.quick]
    for number in range(SQL_QUERIES):
        command = lambda way: [SQL, str(slices), way, str(number), "3"]
        out = lib.run_json(command("plain"))
        other = lib.Side(f"plain table in memory, no index ({out['version']})", command("plain"))
        for way, words in (("stoker", ""), ("rows", ", row by row")):
            lib.same(out["query"], lib.run_json(command(way))["answer"], out["answer"])
            suite.compare(f"sql: {out['query']}, {slices:,} slices{words} / {other.title}",
                          lib.Side(f"Stoker{words}", command(way)), other)


def reopen(suite, args):
    """a file that was read before"""
    path, events, megabytes = trace_file("kineto", args)
    cache = os.path.join(folder(args), "cache")
    for kind in ("kept", "new"):
        shutil.rmtree(f"{cache}-{kind}", ignore_errors=True)
    again = load_side("from the cache", path, events, "--cache-dir", cache + "-kept", pin=False)
    first = load_side("first time, which also writes the cache", path, events, "--cache-dir", cache + "-new", pin=False)
    title, empty = f"reopen: {megabytes:,.0f} MB", f"rm -rf {cache}-new"
    suite.compare(f"{title}, from the cache / {first.title}", again, first, prepare=empty)
    suite.measure(f"{title}, {first.title}", first.command, "seconds", prepare=empty)
    suite.measure(f"{title}, {again.title}", again.command, "seconds")


WORKS = {"load": load, "memory": memory, "top": top, "gaps": gaps, "sql": sql, "queries": queries, "reopen": reopen}


if __name__ == "__main__":
    ARGS = lib.arguments(__doc__, WORKS, rounds=6)
    sys.exit(lib.main(lib.Suite("traces", "Traces", ARGS.rounds, metric="seconds"), WORKS, ARGS))
