"""A trace for tests of exports, and totals per name worked out in Python."""
import collections
import json
import os
import random
import subprocess

NAMES = ["MatchingFiles", "Iterator::Prefetch", "it's \"quoted\" \\ `name`", "a, b\nc\ttab", "caf\u00e9 \U0001f600", "", "x" * 300,
         "; DROP TABLE slice; --", "$(touch hacked) `id`"]


def events(seed, count):
    """Slices that nest and overlap, instants, counters (also NaN), flows, and args of all types."""
    rng = random.Random(seed)
    for i in range(count):
        base = {"pid": ["worker", 7, 8][i % 3], "tid": i % 5, "name": rng.choice(NAMES), "cat": rng.choice(["op", "gpu,kernel"])}
        ts = i * 10 + rng.randrange(1000) / 1000
        yield dict(base, ph="X", ts=ts, dur=rng.choice([0, 0.001, 5.5, 12, 1e6 + 0.123]), args={
            "size": rng.randrange(-2**63, 2**63), "Size": 2.5, "text": rng.choice(NAMES), "flag": True, "none": None,
            "shape": [64, [3, "x"]], "big": 2**80} if i % 2 else {})
        if i % 7 == 0:
            yield dict(base, ph="i", ts=ts, s="t")
            yield {"ph": "C", "pid": 7, "name": "queue \"depth\"", "ts": ts, "args": {"value": i / 3}}
            yield dict(base, ph="s", ts=ts, id=i)


def write_trace(path, seed=1, count=2000):
    with open(path, "w") as file:
        json.dump({"traceEvents": list(events(seed, count))}, file)
    return path


def run(program, *arguments, code=0):
    done = subprocess.run([program] + list(arguments), capture_output=True, timeout=170,
                          env=dict(os.environ, XDG_CACHE_HOME="/nonexistent"))
    assert done.returncode == code, (arguments, done.returncode, done.stderr.decode("utf-8", "replace")[-2000:])
    return done.stdout, done.stderr.decode("utf-8", "replace")


def top(program, *paths):
    """What stoker top says: (count, sum, min, max, p50, p95) by name. Its total has slices inside their own name once."""
    output, _ = run(program, "top", "--no-cache", "-q", "--format", "json", "--limit", "0", *paths)
    fields = ("min_ns", "max_ns", "p50_ns", "p95_ns")
    return {row["name"]: (row["count"], round(row["mean_ns"] * row["count"]), *(row[field] for field in fields))
            for row in json.loads(output)}


def totals(slices):
    """The same from (name, dur) pairs; percentiles by nearest rank."""
    durations = collections.defaultdict(list)
    for name, dur in slices:
        durations[name].append(dur)
    found = {}
    for name, values in durations.items():
        values.sort()
        rank = [values[max(0, -(-len(values) * percent // 100) - 1)] for percent in (50, 95)]
        found[name] = (len(values), sum(values), values[0], values[-1], rank[0], rank[1])
    return found


def lines(directory, table):
    """Rows of all shards of a table, in order."""
    for name in sorted(os.listdir(directory)):
        if name.startswith(table + "-") and name.endswith(".ndjson"):
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                for line in file:
                    yield json.loads(line)
