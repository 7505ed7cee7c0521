#!/usr/bin/env python3
"""stoker convert: round trips between all readers and writers that can carry the content, and repair. test_convert.py BUILD_DIR

Files are compared by what they hold: as NDJSON, which carries everything.
"""
import collections
import cProfile
import csv
import gzip
import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys

import runlib

NAMES = ["aten::add", "Iterator::Prefetch", "a \"quoted\" \\ name", "comma, and\nnew line", "caf\u00e9 \U0001f600", "\u0007bell",
         "", "=cmd|x", "<b>&amp;"]


class Stoker:
    def __init__(self, program, directory):
        self.program, self.directory, self.serial = program, directory, 0
        self.env = dict(os.environ, XDG_CACHE_HOME=os.path.join(directory, "cache"))

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        return self.path(name)

    def run(self, *arguments, code=0, data=None):
        done = subprocess.run([self.program] + list(arguments), input=data, capture_output=True, env=self.env,
                              timeout=100)
        assert done.returncode == code, (arguments, done.returncode, done.stderr.decode("utf-8", "replace")[-2000:])
        self.errors = done.stderr.decode("utf-8", "replace")
        return done.stdout

    def convert(self, source, name, *options):
        """Converts to a new file of this ending; returns its path."""
        self.serial += 1
        output = self.path("%d%s" % (self.serial, name))
        self.run("convert", "--no-cache", *options, source, "-o", output)
        return output

    def rows(self, source):
        """What a file holds, by type."""
        found = collections.defaultdict(list)
        for line in self.run("convert", "--no-cache", "-q", source, "--to", "ndjson", "-o", "-").splitlines():
            row = json.loads(line)
            found[row.pop("type")].append(row)
        return found


def call(test, program, directory):
    test(Stoker(program, directory))


def key(row):
    return json.dumps(row, sort_keys=True)


def same(ours, theirs, *fields):
    """As multisets, of these fields."""
    one = collections.Counter(key({f: row[f] for f in fields}) for row in ours)
    two = collections.Counter(key({f: row[f] for f in fields}) for row in theirs)
    assert one == two, (list((one - two).items())[:3], list((two - one).items())[:3])


SLICE = ("ts", "dur", "name", "category", "pid", "tid", "process", "thread", "depth", "is_instant", "args")
COUNTER = ("ts", "name", "value", "pid", "process")
FLOW = ("ts", "phase", "name", "category", "flow_id", "pid", "tid")


def chrome_events(seed=1, count=300):
    """Nested slices on several threads, with args of all types, counters, flows, async slices and instants."""
    rng = random.Random(seed)
    events = [{"ph": "M", "name": "process_name", "pid": 10, "args": {"name": "python \u00e9"}},
              {"ph": "M", "name": "process_sort_index", "pid": 10, "args": {"sort_index": 4}},
              {"ph": "M", "name": "process_labels", "pid": 10, "args": {"labels": "rank 0"}},
              {"ph": "M", "name": "thread_name", "pid": 10, "tid": 11, "args": {"name": "main"}},
              {"ph": "M", "name": "thread_sort_index", "pid": 10, "tid": 11, "args": {"sort_index": -1}}]
    for i in range(count):
        tid = 11 + i % 3
        ts = i * 100 + rng.randrange(10) + rng.randrange(1000) / 1000
        dur = 50 + rng.randrange(1000) / 1000
        base = {"pid": 10, "tid": tid, "name": NAMES[i % len(NAMES)], "cat": ["op", "kernel,gpu", ""][i % 3]}
        events.append(dict(base, ph="X", ts=round(ts, 3), dur=round(dur, 3), args={
            "int": rng.randrange(-2**63, 2**63), "double": rng.random(), "whole": 5.0, "text": NAMES[(i * 7) % len(NAMES)],
            "yes": True, "none": None, "list": [1, "two", {"three": [3.5]}]}))
        events.append(dict(base, ph="X", ts=round(ts + 1, 3), dur=3, name="inner"))
        if i % 10 == 0:
            events.append(dict(base, ph="i", ts=round(ts + 2, 3), s="t", name="point"))
            events.append({"ph": "C", "pid": 10, "name": "memory", "ts": round(ts, 3), "args": {"value": rng.random() * 1e9}})
            events.append({"ph": "s", "pid": 10, "tid": tid, "name": "arrow", "cat": "flow", "id": i, "ts": round(ts + 1.5, 3)})
            events.append({"ph": "f", "bp": "e", "pid": 10, "tid": tid, "name": "arrow", "cat": "flow", "id": i,
                           "ts": round(ts + 3, 3)})
            for ph, at in (("b", 1), ("e", 40)):
                events.append({"ph": ph, "pid": 10, "cat": "net", "id": hex(i), "name": "request", "ts": round(ts + at, 3)})
    return events


def chrome_file(stoker, name="a.json", **more):
    return stoker.write(name, json.dumps(dict({"traceEvents": chrome_events()}, **more)))


# ---- round trips ----

def test_chrome_to_chrome_is_exact(stoker):
    source = chrome_file(stoker, distributedInfo={"rank": 2, "world_size": 8}, schemaVersion=1)
    before = stoker.rows(source)
    assert len(before["slice"]) == 300 * 2 + 30 + 30 and len(before["counter"]) == 30 and len(before["flow"]) == 60
    once = stoker.convert(source, ".json")
    after = stoker.rows(once)
    same(before["slice"], after["slice"], *SLICE)
    same(before["counter"], after["counter"], *COUNTER)
    same(before["flow"], after["flow"], *FLOW)
    with open(once, "rb") as first, open(stoker.convert(once, ".json"), "rb") as second:
        content = first.read()
        assert content == second.read(), "a second conversion changed something"
    whole = json.loads(content)
    assert whole["distributedInfo"] == {"rank": 2, "world_size": 8} and whole["schemaVersion"] == 1
    metadata = {(e["name"], e.get("tid")): e["args"] for e in whole["traceEvents"] if e["ph"] == "M"}
    assert metadata["process_name", None] == {"name": "python \u00e9"}
    assert metadata["process_sort_index", None] == {"sort_index": 4}
    assert metadata["process_labels", None] == {"labels": "rank 0"}
    assert metadata["thread_name", 11] == {"name": "main"} and metadata["thread_sort_index", 11] == {"sort_index": -1}


def test_values_are_those_that_were_written(stoker):
    """Against the events themselves, not against our own reader."""
    written = {(e["ts"], e["name"]): e for e in chrome_events() if e["ph"] == "X"}
    with open(stoker.convert(chrome_file(stoker), ".json")) as file:
        found = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
    assert len(found) == len(written)
    for event in found:
        wanted = dict(written[event["ts"], event["name"]])
        if not wanted["cat"]:
            del wanted["cat"]
        assert event == wanted, (event, wanted)


def test_compressed_files_hold_the_same(stoker):
    source = chrome_file(stoker)
    with open(stoker.convert(source, ".json"), "rb") as file:
        plain = file.read()
    with gzip.open(stoker.convert(source, ".json.gz")) as file:
        assert file.read() == plain
    zst = stoker.convert(source, ".json.zst")
    assert os.path.getsize(zst) < len(plain) / 2
    same(stoker.rows(source)["slice"], stoker.rows(zst)["slice"], *SLICE)


def test_perfetto_carries_slices_counters_and_flows(stoker):
    source = chrome_file(stoker)
    before = stoker.rows(source)
    for name in (".pftrace", ".pftrace.gz"):
        there = stoker.convert(source, name)
        after = stoker.rows(there)
        same(before["slice"], after["slice"], "ts", "dur", "name", "category", "pid", "tid", "thread", "is_instant")
        same(before["counter"], after["counter"], "ts", "name", "value", "pid")
        assert len(after["flow"]) == len(before["flow"])
    back = stoker.rows(stoker.convert(there, ".json"))
    same(before["slice"], back["slice"], "ts", "dur", "name", "category", "is_instant")
    same(before["counter"], back["counter"], "ts", "name", "value")


def test_csv_is_read_by_python(stoker):
    source = chrome_file(stoker)
    rows = stoker.rows(source)["slice"]
    with open(stoker.convert(source, ".csv"), newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert "left out, for the format csv cannot carry them: 30 counter values, 60 flow points" in stoker.errors
    assert len(table) == len(rows)
    for line, row in zip(table, rows):
        for field in ("ts", "dur", "name", "category", "process", "thread", "track", "depth", "id", "file"):
            assert line[field] == str(row[field]), (field, line, row)
        assert line["tid"] == ("" if row["tid"] is None else str(row["tid"]))
        assert line["is_instant"] == str(int(row["is_instant"]))
        assert json.loads(line["args"] or "{}") == row["args"]


def test_sqlite_has_the_same_rows(stoker):
    source = chrome_file(stoker)
    rows = stoker.rows(source)
    database = sqlite3.connect(stoker.convert(source, ".sqlite"))
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    found = database.execute("SELECT ts, dur, coalesce(name, ''), coalesce(category, ''), pid, tid, depth, is_instant FROM slice "
                             "ORDER BY id").fetchall()
    assert found == [(r["ts"], r["dur"], r["name"], r["category"], r["pid"], r["tid"], r["depth"], int(r["is_instant"]))
                     for r in rows["slice"]]
    args = collections.defaultdict(dict)
    for slice_id, name, kind, value in database.execute(
            "SELECT slice.id, key, value_type, value FROM slice JOIN args USING (arg_set_id)"):
        args[slice_id][name] = json.loads(value) if kind == "json" else bool(value) if kind == "bool" else value
    assert [args[r["id"]] for r in rows["slice"]] == [r["args"] for r in rows["slice"]]
    assert [v for v, in database.execute("SELECT value FROM counter ORDER BY id")] == [r["value"] for r in rows["counter"]]
    database.close()


def test_sqlite_columns_are_those_of_stoker_sql(stoker):
    source = chrome_file(stoker)
    database = sqlite3.connect(stoker.convert(source, ".sqlite"))
    for table, in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        ours = json.loads(stoker.run("sql", "-q", "SELECT * FROM \"%s\"" % table, "--format", "json", "--no-cache", source))
        cursor = database.execute("SELECT * FROM \"%s\"" % table)
        names = [column[0] for column in cursor.description]
        theirs = [dict(zip(names, row)) for row in cursor]
        assert len(ours) == len(theirs), table
        if theirs:
            assert ours == theirs, (table, ours[0], theirs[0])
    database.close()


FOLDED = {"main;run;decode jpeg": 7, "main;run": 3, "main;idle [k]": 11, "caf\u00e9;\"x\"": 2}


def folded_of(path):
    """Weights by stack. A track that has got a name on the way comes first; these stacks had none."""
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n").rsplit(" ", 1) for line in file if line.strip()]
    tracks = {stack.split(";")[0] for stack, _ in lines} - {stack.split(";")[0] for stack in FOLDED}
    assert len(tracks) <= 1, tracks
    return {stack.partition(";")[2] if tracks else stack: int(weight) for stack, weight in lines}


def test_stacks_pass_through_every_format_of_stacks(stoker):
    source = stoker.write("a.collapsed", "".join("%s %d\n" % item for item in FOLDED.items()))
    for endings in ([".collapsed"], [".speedscope.json", ".collapsed"], [".speedscope.json.gz", ".speedscope.json", ".collapsed"],
                    [".json", ".collapsed"]):
        path = source
        for ending in endings:
            path = stoker.convert(path, ending)
        assert folded_of(path) == FOLDED, (endings, folded_of(path))


def test_weights_with_a_fraction_come_back(stoker):
    source = stoker.write("f.collapsed", "main;f 1\nmain;g -0.005\nmain;h 1.5\n")
    path = stoker.convert(source, ".collapsed")
    assert "noted 1" in stoker.errors and "first at byte 16" in stoker.errors, stoker.errors
    with open(source, encoding="utf-8") as ours, open(path, encoding="utf-8") as theirs:
        assert ours.read() == theirs.read()


def flow_events(seed, flows=200):
    """Random points of flows over slices on six threads: fans, chains, reused ids, ends without starts, equal times."""
    draw = random.Random(seed)
    events = [{"ph": "X", "pid": 1, "tid": tid, "ts": 10 * i + tid % 3, "dur": 7, "name": "%d.%d" % (tid, i)}
              for tid in range(1, 7) for i in range(50)]
    for number in range(flows):
        times = sorted(10 * draw.randint(0, 49) + draw.randint(2, 7) for _ in range(draw.randint(1, 6)))
        times += [times[0]] * (number % 4 == 0)
        phases = draw.choice("sssf") + "".join(draw.choice("stff") for _ in times)
        points = [{"ph": phase, "bp": "e", "pid": 1, "tid": draw.randint(1, 6), "cat": "c", "name": "x", "ts": ts, "id": number}
                  for phase, ts in zip(phases, times)]
        draw.shuffle(points)
        events += points
    return events


def arrows_of(events):
    """Perfetto's FlowTracker (Begin, Step, End of src/trace_processor/importers/common/flow_tracker.cc), with the two
    differences that docs/internals/trace-model.md tells."""
    slices = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            slices[e["tid"]].append((e["ts"], e["ts"] + e["dur"], e["name"]))
    def around(e):
        found = [s for s in slices[e["tid"]] if s[0] <= e["ts"] <= s[1]]
        return max(found) if found else None
    flows = collections.defaultdict(list)
    for e in events:
        if e["ph"] != "X":
            flows[e["id"]].append(e)
    arrows = collections.Counter()
    for points in flows.values():
        points.sort(key=lambda e: e["ts"])
        source, ended = None, False
        for e in points:
            here = around(e)
            if source is None:  # a start of the same time may stand behind its end
                source = next((s for s in (around(o) for o in points if o["ph"] == "s" and o["ts"] == e["ts"]) if s), None)
            if here is None:
                continue
            if e["ph"] == "s":
                if source is None or ended:
                    source, ended = here, False
            elif source is not None:
                arrows[(source[2], here[2]) if source[0] <= here[0] else (here[2], source[2])] += 1
                if e["ph"] == "t":
                    source = here
                else:
                    ended = True
    return arrows


def test_arrows_are_those_of_perfetto_and_survive_all_formats_that_have_them(stoker):
    query = ("SELECT a.name AS a, b.name AS b, count(*) AS n FROM flow JOIN slice a ON a.id = slice_out "
             "JOIN slice b ON b.id = slice_in GROUP BY 1, 2")
    for seed in range(3):
        events = flow_events(seed)
        wanted = arrows_of(events)
        assert sum(wanted.values()) > 200
        source = stoker.write("flows%d.json" % seed, json.dumps(events))
        paths = [source, stoker.convert(source, ".json"), stoker.convert(source, ".pftrace")]
        paths.append(stoker.convert(paths[2], ".json"))
        for path in paths:
            rows = json.loads(stoker.run("sql", "-q", query, "--format", "json", "--no-cache", path))
            assert {(r["a"], r["b"]): r["n"] for r in rows} == wanted, path
        with sqlite3.connect(stoker.convert(source, ".sqlite")) as database:
            assert {(a, b): n for a, b, n in database.execute(query)} == wanted


def test_sqlite_says_which_flow_points_it_leaves_out(stoker):
    def point(phase, tid, ts, number):
        return {"ph": phase, "pid": 1, "tid": tid, "ts": ts, "id": number, "name": "x", "cat": "c", "bp": "e"}
    events = [{"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 10, "name": "a"},
              {"ph": "X", "pid": 1, "tid": 2, "ts": 20, "dur": 10, "name": "b"},
              point("s", 1, 1, 1), point("f", 2, 21, 1),  # an arrow
              point("s", 1, 2, 2), point("f", 2, 22, 3), point("f", 9, 22, 4)]  # alone, alone, without a slice
    stoker.convert(stoker.write("flows.json", json.dumps(events)), ".sqlite")
    assert "2 flow points as sqlite" in stoker.errors, stoker.errors
    assert "cannot carry them: 3 flow points" in stoker.errors, stoker.errors


def test_sqlite_names_the_file_that_it_cannot_write(stoker):
    source, target = chrome_file(stoker), stoker.path("full.sqlite")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))
    done = subprocess.run([stoker.program, "convert", "--no-cache", source, "-o", target], capture_output=True,
                          env=stoker.env, preexec_fn=limit, timeout=100)
    errors = done.stderr.decode()
    assert done.returncode and target + ": SQLite cannot write" in errors, errors
    assert not os.path.exists(target)


def test_profile_of_python_becomes_csv_and_ndjson(stoker):
    profile = cProfile.Profile()
    profile.runcall(sorted, [3, 1, 2], key=lambda x: -x)
    profile.dump_stats(stoker.path("a.pstats"))
    functions = stoker.rows(stoker.path("a.pstats"))["function"]
    assert {f["name"]: f["calls"] for f in functions}["<lambda>"] == 3
    with open(stoker.convert(stoker.path("a.pstats"), ".csv"), newline="") as file:
        assert [r["name"] for r in csv.DictReader(file)] == [f["name"] for f in functions]
    command = [stoker.program, "convert", "--no-cache", stoker.path("a.pstats"), "-o", stoker.path("a.json")]
    done = subprocess.run(command, capture_output=True, env=stoker.env, timeout=100)
    assert done.returncode == 1 and b"has no place for functions" in done.stderr, done.stderr


def test_files_with_the_same_pids_stay_apart(stoker):
    one, two = chrome_file(stoker, "one.json"), chrome_file(stoker, "two \"x\".json")
    joined = stoker.path("joined.json")
    stoker.run("convert", "--no-cache", one, two, "-o", joined)
    with open(joined) as file:
        events = json.load(file)["traceEvents"]
    pids = {e["pid"] for e in events if e["ph"] == "X"}
    assert len(pids) == 2 and 10 in pids, pids
    fresh = (pids - {10}).pop()
    labels = [e["args"]["labels"] for e in events if e["name"] == "process_labels" and e["pid"] == fresh]
    assert labels == ["rank 0, pid 10 of " + two], labels
    assert len(stoker.rows(joined)["slice"]) == 2 * len(stoker.rows(one)["slice"])


# ---- repair ----

def repaired(stoker, content, name="broken.json"):
    """The file after repair, as Python reads it."""
    output = stoker.path("repaired.json")
    stoker.run("convert", "--no-cache", "--repair", stoker.write(name, content), "-o", output)

    def refuse(word):
        raise ValueError("not strict JSON: " + word)

    with open(output, encoding="utf-8", errors="strict") as file:
        return json.load(file, parse_constant=refuse)


def events_of(trace):
    return [e for e in trace["traceEvents"] if e["ph"] != "M"]


def test_repair_of_a_whole_file_says_so(stoker):
    trace = repaired(stoker, json.dumps({"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}))
    assert len(events_of(trace)) == 1
    assert "there was nothing to repair" in stoker.errors, stoker.errors


def test_repair_of_values_that_are_no_json(stoker):
    event = ('{"ph":"X","name":"a","ts":1,"dur":2,"pid":1,"tid":1,"args":{"a":NaN,"b":inf,"c":N/A,"d":-Infinity,'
             '"e":123456789012345678901234567890,"f":"\\ud83d\\ude00"}}')
    trace = repaired(stoker, '{"traceEvents":[' + event + "," + event + "]}")
    assert len(events_of(trace)) == 2
    args = events_of(trace)[0]["args"]
    assert args["a"] == "NaN" and args["b"] == "Infinity" and args["d"] == "-Infinity" and args["c"] == "N/A", args
    assert args["e"] == 123456789012345678901234567890 and args["f"] == "\U0001f600"


def test_repair_keeps_the_events_around_a_broken_one(stoker):
    good = '{"ph":"X","name":"good","ts":1,"dur":2,"pid":1,"tid":1}'
    for bad in ('{"ph":"X","name":"un"quoted","ts":1,"dur":2,"pid":1,"tid":1}', '{"ph":"X","name":"\x01raw","ts":1,"pid":1}',
                '{"ph":"X","na', '{"ph":"Q"}', '{"ph":"X","name":"neg","ts":1,"dur":-5,"pid":"p","tid":1}'):
        trace = repaired(stoker, "[%s,\n%s,\n%s]" % (good, bad, good))
        names = [e["name"] for e in events_of(trace)]
        assert names.count("good") == 2, (bad, names)
        assert "nothing to repair" not in stoker.errors


def test_repair_of_bytes_that_are_no_text(stoker):
    trace = repaired(stoker, b'[{"ph":"X","name":"a\xff\xfeb","ts":1,"dur":2,"pid":1,"tid":1}]')
    assert events_of(trace)[0]["name"] == "a\ufffd\ufffdb"


def test_repair_of_a_file_cut_off_anywhere(stoker):
    whole = json.dumps({"schemaVersion": 1, "traceEvents": chrome_events(count=12), "traceName": "x"}).encode()
    first = whole.index(b"}, {", whole.index(b'"X"')) + 1  # before it nothing is whole
    output = stoker.path("none.json")
    for cut in (40, first - 1):
        stoker.run("convert", "--no-cache", "--repair", stoker.write("none", whole[:cut]), "-o", output, code=1)
        assert "no event of it can be used" in stoker.errors and not os.path.exists(output), stoker.errors
    last = 0
    for cut in sorted(random.Random(5).sample(range(first, len(whole)), 60)) + [len(whole)]:
        count = len(events_of(repaired(stoker, whole[:cut])))
        assert count >= last, (cut, count, last)
        last = count
    assert last == len([e for e in chrome_events(count=12) if e["ph"] != "M"]), last


def test_repair_of_a_cut_gzip(stoker):
    whole = gzip.compress(json.dumps({"traceEvents": chrome_events()}).encode())
    trace = repaired(stoker, whole[:len(whole) * 2 // 3], "cut.json.gz")
    assert len(events_of(trace)) > 100
    assert "compressed data is damaged or cut off" in stoker.errors


def test_hostile_times_stay_valid(stoker):
    events = [{"ph": "X", "name": "a", "ts": ts, "dur": dur, "pid": 1, "tid": 1}
              for ts in (-9.2e18, -9223372036854775.808, 0, 9223372036854775.807, 9.2e18, 1e300)
              for dur in (-1, 0, 9223372036854775.807, 1e300)]
    content = json.dumps(events)
    assert len(events_of(repaired(stoker, content))) <= len(events)
    source = stoker.write("hostile.json", content)
    for name in (".csv", ".ndjson", ".sqlite", ".pftrace"):
        stoker.convert(source, name)


# ---- the command ----

def test_standard_input_and_output(stoker):
    source = chrome_file(stoker)
    with open(source, "rb") as file:
        data = file.read()
    piped = stoker.run("convert", "-q", "-", "--to", "chrome", "-o", "-", data=data)
    with open(stoker.convert(source, ".json"), "rb") as file:
        assert piped == file.read()
    assert stoker.run("convert", "-q", "--repair", "-", "-o", "-", data=data) == piped


def test_repair_keeps_the_format_that_was_read(stoker):
    source = stoker.write("a.collapsed", "main;run 3\n")
    speedscope = stoker.convert(source, ".speedscope.json")
    output = stoker.path("fixed.json")
    stoker.run("convert", "--no-cache", "--repair", speedscope, "-o", output)
    with open(output) as file:
        assert "speedscope" in json.load(file)["$schema"]


def test_input_is_never_overwritten(stoker):
    source = chrome_file(stoker)
    link = stoker.path("link.json")
    os.symlink(source, link)
    with open(source, "rb") as file:
        before = file.read()
    for output in (source, link, os.path.join(stoker.directory, ".", "a.json")):
        stoker.run("convert", source, "-o", output, code=2)
        assert "would be overwritten" in stoker.errors
        stoker.run("convert", stoker.path("*.json"), "-o", output, code=2)
    with open(source, "rb") as file:
        assert file.read() == before


def test_mistakes_are_told(stoker):
    source = chrome_file(stoker)
    for arguments, wanted in (([source], "no output"), ([source, "-o", "x.unknown"], "cannot tell the format"),
                              ([source, "-o", "-"], "needs --to"), ([source, "-o", "x", "--to", "chrom"], "did you mean 'chrome'"),
                              ([source, "-o", "-", "--to", "sqlite"], "needs a file"), (["-o", "x.json"], "no trace"),
                              ([source, "-o", stoker.path("x.sqlite.gz")], "not written compressed")):
        stoker.run("convert", *arguments, code=2)
        assert wanted in stoker.errors, (arguments, stoker.errors)
    stoker.run("convert", source, "-o", stoker.path("no/such/dir/x.json"), code=1)
    assert sorted(os.listdir(stoker.directory)) in (["a.json"], ["a.json", "cache"])


def test_reader_that_goes_away_is_no_error(stoker):
    source = stoker.write("a.json", json.dumps(chrome_events(count=6000)))
    child = subprocess.Popen([stoker.program, "convert", "-q", "--no-cache", source, "--to", "ndjson", "-o", "-"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=stoker.env)
    child.stdout.read(10)
    child.stdout.close()
    errors = child.stderr.read()
    assert child.wait(timeout=60) == 141 and errors == b"", errors


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), call))
