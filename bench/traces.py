#!/usr/bin/env python3
"""Run the benchmarks of the trace workbench: Stoker, Python's json, DuckDB and SQLite by turns; bench/traces.sh builds
what they need.

In each round every contestant of a work runs once, in random order. The figures are ratios within a round: their
median, with the least and the greatest. A complete run writes its tables into docs/performance.md.
"""
import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import images
import run

PYTHON = os.path.join(run.ROOT, ".venv-peers-traces", "bin", "python")
QUERIES = os.path.join(run.TOOLS, "trace_queries")
BEGIN, END = "<!-- traces -->", "<!-- end traces -->"
# Files: events, and those with --quick; an event of this kind has 323 bytes.
FILES = {"small": (108_000, 31_000), "kineto": (1_084_000, 93_000), "large": (6_200_000, 310_000)}
SLICES = (10_000_000, 1_000_000)
# Slices of the queries beyond the one that has a target.
SQL_SLICES = (2_000_000, 200_000)


def peer(name):
    return [PYTHON, os.path.join(run.ROOT, "bench", "peers", f"trace_{name}.py")]


def pinned(command):
    return ["taskset", "-c", str(max(os.sched_getaffinity(0))), *command]


# ---- data ----

def folder(quick):
    path = os.path.join(run.DATA, "traces-quick" if quick else "traces")
    os.makedirs(path, exist_ok=True)
    return path


def made(path, make):
    """The path, made when it is missing; half of it never stays."""
    if not os.path.exists(path):
        make(path + ".part")
        os.rename(path + ".part", path)
    return path


def trace_file(name, quick):
    def make(path):
        with open(path, "wb") as f:
            subprocess.check_call([os.path.join(run.TOOLS, "make_trace"), "--events", str(FILES[name][quick])], stdout=f)
    return made(os.path.join(folder(quick), name + ".json"), make)


def packed_file(name, quick):
    def make(path):
        with open(trace_file(name, quick), "rb") as f, gzip.open(path, "wb", 6) as g:
            shutil.copyfileobj(f, g, run.MIB)
    return made(os.path.join(folder(quick), name + ".json.gz"), make)


def columns(quick):
    """The synthetic slices as raw numbers, for the peers."""
    def make(path):
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        stoker(["--rows", str(SLICES[quick]), "--dump", path])
    return made(os.path.join(folder(quick), f"slices-{SLICES[quick]}"), make)


# ---- contestants ----

def stoker(options, questions=(), prefix=()):
    """What the loading says, and the answers to the questions."""
    command = [*prefix, QUERIES, "--repeat", "0", *options]
    done = subprocess.run(command, input="".join(q + "\n" for q in questions), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise run.Failed(f"{' '.join(command)[:200]}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    head, *answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(questions):
        raise run.Failed(f"{len(questions)} questions, {len(answers)} answers")
    return head, answers


def rate(count, seconds, cpu):
    out = images.Rate(count / seconds, 1000 * cpu / count)
    out.seconds = seconds
    return out


class Load:
    """Stoker reads a file; the first time is not counted, and sees to the page cache."""

    def __init__(self, path, events, options=(), pin=True):
        self.path, self.events, self.options, self.prefix = path, events, options, pinned([]) if pin else []
        self.once()

    def once(self):
        head, _ = stoker([*self.options, self.path], prefix=self.prefix)
        if head["events"] != self.events:
            raise run.Failed(f"{self.path} has {head['events']} events, wanted {self.events}")
        return rate(self.events, head["load"], head["cpu_s"])


class FirstLoad(Load):
    """With an empty cache, which it fills."""

    def once(self):
        shutil.rmtree(self.options[1], ignore_errors=True)
        return super().once()


class Json:
    def __init__(self, path, events, *options):
        self.command, self.events = pinned([*peer("json"), path, *options]), events
        self.version = run.run_json(self.command)["version"]

    def once(self):
        out = run.run_json(self.command)
        if out["events"] != self.events:
            raise run.Failed(f"json.loads found {out['events']} events, wanted {self.events}")
        return rate(self.events, out["seconds"], out["cpu_s"])


class Zcat:
    """Inflates only."""

    def __init__(self, path, events):
        self.path, self.events = path, events

    def once(self):
        before, start = images.resource.getrusage(images.resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(["zcat", self.path], stdout=subprocess.DEVNULL, check=True)
        seconds, after = time.monotonic() - start, images.resource.getrusage(images.resource.RUSAGE_CHILDREN)
        return rate(self.events, seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


class Question:
    """Stoker answers a question a few times after it has made the slices; the median counts, not the first one."""

    def __init__(self, name, slices, times):
        self.name, self.slices, self.times = name, slices, times
        self.answer = self.ask()[0]["answer"]

    def ask(self):
        return stoker(["--rows", str(self.slices)], [self.name] * (self.times + 1))[1]

    def once(self):
        answers = self.ask()[1:]
        seconds = statistics.median(a[self.name][0] for a in answers)
        return rate(self.slices, seconds, statistics.mean(a["cpu_s"] for a in answers))


class DuckDB:
    """The fastest of several ways, or one of them."""

    def __init__(self, work, path, count, bench, way=None, without=(), times=3, one_core=False):
        self.work, self.path, self.count, self.times, self.one_core = work, path, count, times, one_core
        tried = self.trial(way)
        self.version, found = tried[0]["version"], {w: f for w, f in tried[0]["ways"].items() if w not in without}
        good = {w: min(min(t["ways"][w]["seconds"]) for t in tried) for w, f in found.items() if "seconds" in f}
        if not good:
            raise run.Failed(f"DuckDB: {found}")
        self.way = min(good, key=good.get)
        self.answer = found[self.way]["answer"]
        if not way:
            bench.note(f"{work}, {self.version}, seconds by way: " + "; ".join(
                f"{w} {good[w]:.3f}" if w in good else f"{w} fails: {f['failed']}" for w, f in found.items()))

    def trial(self, way):
        """One run of all ways, up to three when it was not quiet: noise must not choose a slower way for a peer."""
        tried = []
        while len(tried) < (1 if way else 3):
            others = run.Others()
            tried.append(self.measure(way, max(self.times, 2)))
            if others.share() <= run.QUIET:
                break
        return tried

    def measure(self, way, times):
        ways = ["--ways", way] if way else []
        command = [*peer("duckdb"), self.work, self.path, "--times", str(times), *ways]
        return run.run_json(pinned([*command, "--threads", "1"]) if self.one_core else command)

    def once(self):
        out = self.measure(self.way, self.times)["ways"][self.way]
        return rate(self.count, statistics.median(out["seconds"]), out["cpu_s"])


class SQLite:
    def __init__(self, path, table, slices):
        self.command, self.slices = [*peer("sqlite"), path, table], slices
        out = run.run_json(self.command)
        self.version, self.answer = out["version"], out["answer"]

    def once(self):
        out = run.run_json(self.command)
        return rate(self.slices, out["seconds"], out["cpu_s"])


def same(what, mine, theirs):
    if mine != theirs:
        raise run.Failed(f"{what}: the answers differ: Stoker has {mine}, the other {theirs}")


# ---- works ----

class Traces(images.Images):
    def amount_row(self, work, values, unit, target="", ok=None, digits=0):
        show = lambda x: f"{x:,.{digits}f}"
        self.row(work, f"{show(statistics.median(values))} {unit}", f"{show(min(values))} to {show(max(values))}", target, ok)

    def against(self, title, mine, rates, titles, targets):
        for other, target in targets.items():
            self.ratio_row(f"{title} / {titles[other]}", [x.per_s / y.per_s for x, y in zip(rates[mine], rates[other])], target)

    def figures_of(self, title, rates, titles):
        for name, found in rates.items():
            self.figure(title, titles[name], found)

    def load(self):
        """Chrome JSON to columns"""
        path, events = trace_file("kineto", self.quick), FILES["kineto"][self.quick]
        megabytes = os.path.getsize(path) / 1e6
        contestants = {"stoker": Load(path, events), "json": Json(path, events), "no gc": Json(path, events, "--no-gc")}
        version = contestants["json"].version
        titles = {"stoker": "Stoker, 1 core", "json": f"json.loads ({version})",
                  "no gc": f"json.loads with the garbage collector off ({version})"}
        rates = self.by_turns(contestants)
        speeds = [megabytes / r.seconds for r in rates["stoker"]]
        title = f"load: Kineto-like JSON of {megabytes:,.0f} MB, 1 core"
        self.amount_row(title, speeds, "MB/s", "at least 300", statistics.median(speeds) >= 300)
        self.against(title, "stoker", rates, titles, {"json": 5, "no gc": None})
        self.figures_of("load", rates, titles)
        self.load_duckdb()
        self.load_packed(path, events, megabytes)

    def load_duckdb(self):
        path, events = trace_file("small", self.quick), FILES["small"][self.quick]
        best = DuckDB("load", path, events, self, times=1)
        usual = DuckDB("load", path, events, self, "columns", times=1)
        alone = DuckDB("load", path, events, self, "columns", times=1, one_core=True)
        contestants = {"stoker": Load(path, events), "alone": alone, "columns": usual, "best": best}
        titles = {"stoker": "Stoker, 1 core",
                  "alone": f"DuckDB's read_json with explicit columns, 1 core ({best.version})",
                  "columns": f"DuckDB's read_json with explicit columns, 2 threads ({best.version})",
                  "best": f"DuckDB's fastest way, '{best.way}', 2 threads ({best.version})"}
        if best.way == "columns":
            del contestants["best"]
        same("load: events", events, best.answer)
        rates = self.by_turns(contestants)
        title = f"load: the same kind, {os.path.getsize(path) / 1e6:,.0f} MB, 1 core"
        self.against(title, "stoker", rates, titles, {name: 20 for name in contestants if name != "stoker"})
        self.figures_of("load, small", rates, titles)

    def load_packed(self, path, events, megabytes):
        packed = packed_file("kineto", self.quick)
        contestants = {"stoker": Load(packed, events, pin=False), "plain": Load(path, events, pin=False),
                       "zcat": Zcat(packed, events)}
        titles = {"stoker": "Stoker, .json.gz", "plain": "Stoker, .json", "zcat": "zcat, which inflates only"}
        rates = self.by_turns(contestants)
        title = f"load: the same {megabytes:,.0f} MB as .json.gz of {os.path.getsize(packed) / 1e6:,.0f} MB"
        self.against(title, "stoker", rates, titles, {"zcat": None, "plain": None})
        self.figures_of("load, gzip", rates, titles)

    def memory(self):
        """memory beyond the columns"""
        path, events = trace_file("large", self.quick), FILES["large"][self.quick]
        size, mib = os.path.getsize(path) / 1e9, lambda values: [v / run.MIB for v in values]
        Load(path, events)
        free, capped = [], []
        for _ in range(min(self.rounds, 3)):
            free.append(stoker([path])[0])
            capped.append(stoker(["--memory", "256M", path], ["top"]))
        title = f"memory: {size:.1f} GB of JSON"
        self.amount_row(f"{title}: columns", mib(h["bytes"] for h in free), "MiB")
        beyond = mib(h["peak_bytes"] - h["bytes"] for h in free)
        self.amount_row(f"{title}: RSS at its peak, beyond the columns", beyond, "MiB", "at most 256 MiB", max(beyond) <= 256)
        peaks = mib(head["peak_bytes"] for head, _ in capped)
        self.amount_row(f"{title}, --memory 256M: RSS at its peak", peaks, "MiB", "at most 512 MiB", max(peaks) <= 512)
        peaks = mib(answers[0]["peak_bytes"] for _, answers in capped)
        self.amount_row("the same, after `top` over them", peaks, "MiB", "at most 512 MiB", max(peaks) <= 512)
        self.note(f"{title}, {events:,} events: loaded in {statistics.median(h['load'] for h in free):.1f} s, with --memory 256M "
                  f"in {statistics.median(h['load'] for h, _ in capped):.1f} s, "
                  f"{'to a temporary file' if capped[0][0]['spilled'] else 'without a need to spill'}")

    def top(self):
        """totals per name"""
        slices, path = SLICES[self.quick], columns(self.quick)
        mine, other = Question("top", slices, 5), DuckDB("top", path, slices, self, times=5)
        if other.answer is not None:
            same("top: percentiles and self times", mine.answer, other.answer)
        titles = {"stoker": "Stoker, 2 threads", "duckdb": f"DuckDB's GROUP BY, '{other.way}', 2 threads ({other.version})"}
        rates = self.by_turns({"stoker": mine, "duckdb": other})
        title = f"top: {slices:,} slices"
        seconds = [r.seconds for r in rates["stoker"]]
        self.amount_row(f"{title}, 1,000 names, after the load", seconds, "s", "under 0.25 s", statistics.median(seconds) < 0.25, 3)
        self.against(title, "stoker", rates, titles, {"duckdb": 5})
        self.figures_of("top", rates, titles)
        self.note("top: count, total, mean, least, greatest, median and 95th percentile, both exact; Stoker's also has the self "
                  "times, for which DuckDB has nothing, so it does not do that part")

    def gaps(self):
        """idle time per thread"""
        slices, path = SLICES[self.quick], columns(self.quick)
        lag = "lag() of outermost slices"
        mine, other = Question("gaps", slices, 5), DuckDB("gaps", path, slices, self, without=(lag,))
        given = DuckDB("gaps", path, slices, self, lag)
        same("gaps: number and sum", mine.answer, other.answer)
        same("gaps: number and sum", mine.answer, given.answer)
        titles = {"stoker": "Stoker", "duckdb": f"DuckDB's window query, '{other.way}', 2 threads ({other.version})",
                  "given": "DuckDB's lag() over the outermost slices, which Stoker's depth column tells it"}
        rates = self.by_turns({"stoker": mine, "duckdb": other, "given": given})
        title = f"gaps of 1 us and more: {slices:,} slices on 64 threads"
        self.against(title, "stoker", rates, titles, {"duckdb": 5, "given": None})
        self.figures_of("gaps", rates, titles)

    def sql(self):
        """the GROUP BY of the guide through SQLite"""
        slices, path = SLICES[self.quick], columns(self.quick)
        other = SQLite(path, os.path.join(folder(self.quick), f"slices-{slices}.sqlite"), slices)
        mine = {"stoker": Question("sql", slices, 3), "rows": Question("sql_rows", slices, 3)}
        for question in mine.values():
            same("sql: sums, minima and maxima", question.answer, other.answer)
        titles = {"stoker": "Stoker", "rows": "Stoker, row by row",
                  "sqlite": f"plain table in memory, no index ({other.version})"}
        rates = self.by_turns({**mine, "sqlite": other})
        title = f"sql: GROUP BY name, {slices:,} slices"
        self.against(title, "stoker", rates, titles, {"sqlite": 5})
        self.against(f"{title}, row by row", "rows", rates, titles, {"sqlite": None})
        self.figures_of("sql", rates, titles)
        self.note("sql: each query is the first one of a new connection; totals per group of all slices are seen as such and made "
                  "group by group, 'row by row' is the same table read as SQLite reads others, which a WHERE would bring about")

    def queries(self):
        """other questions in SQL; the driver takes turns by itself"""
        command = [os.path.join(run.TOOLS, "trace_sql"), str(SQL_SLICES[self.quick]), str(min(self.rounds, 3)),
                   os.path.join(folder(self.quick), "trace_sql.db")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise run.Failed(f"trace_sql: exit code {done.returncode}\n{done.stderr[-2000:]}")
        out = json.loads(done.stdout)
        for query in out["queries"]:
            self.row(f"`{query['query']}`, {out['slices']:,} slices / plain table in memory, no index (SQLite {out['sqlite']})",
                     f"{query['memory_ratio']:.1f}", f"row by row {query['rows_memory_ratio']:.1f}")

    def reopen(self):
        """a file that was read before"""
        path, events = trace_file("kineto", self.quick), FILES["kineto"][self.quick]
        cache = os.path.join(folder(self.quick), "cache")
        contestants = {"again": Load(path, events, ("--cache-dir", cache + "-kept"), pin=False),
                       "first": FirstLoad(path, events, ("--cache-dir", cache + "-new"), pin=False)}
        rates = self.by_turns(contestants)
        for kind in ("kept", "new"):
            shutil.rmtree(f"{cache}-{kind}", ignore_errors=True)
        title = f"reopen: {os.path.getsize(path) / 1e6:,.0f} MB"
        titles = {"again": "from the cache", "first": "first time, which also writes the cache"}
        self.against(f"{title}, from the cache", "again", rates, titles, {"first": None})
        for name in ("first", "again"):
            self.amount_row(f"{title}, {titles[name]}", [1000 * r.seconds for r in rates[name]], "ms", digits=1)
        self.figures_of("reopen", rates, titles)


WORKS = ("load", "memory", "top", "gaps", "sql", "queries", "reopen")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(WORKS)}; all unless told")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each contestant (7)")
    parser.add_argument("--quick", action="store_true", help="small files and 3 rounds: to see that it works")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in WORKS]
    if unknown or args.rounds < 1:
        parser.error(f"no work '{unknown[0]}'" if unknown else "wants 1 or more rounds")
    bench = Traces(min(args.rounds, 3) if args.quick else args.rounds, args.quick, False)
    before = run.load()
    print(f"{run.machine()}; load {before}", flush=True)
    try:
        for name in args.names or WORKS:
            print(f"{name}: {getattr(bench, name).__doc__}", flush=True)
            getattr(bench, name)()
    except run.Failed as e:
        print(f"traces.py: {e}", file=sys.stderr)
        return 1
    bench.note("a sample is an event of the file (load, reopen) or a slice (top, gaps, sql)")
    bench.finish(before, BEGIN, END, "Traces", write=not args.names and not args.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
