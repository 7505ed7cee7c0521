#!/usr/bin/env python3
"""Commands on traces: hostile files, and answers found in slow and plain ways. test_trace_hostile.py BUILD_DIR

SQL is compared with SQLite on a plain copy of the tables, top, gaps and overlap with a few lines of Python. Seeds are
fixed.
"""
import glob
import gzip
import json
import os
import random
import re
import sqlite3
import subprocess
import sys

import runlib
import tracelib

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["a", "A", "b", "5", "05", "1.5", "", "\u00e4", "op", "OP", "a%", "a_", "NULL", "-3", "5 ", "it's", " a",
         "z" * 40]
EVIL = ["\x1b[31mred\x1b[0m", "line\nbreak", "\u202eturned\u2066", "\x07bell", "\x9bC1", "tab\t", "cr\rx", "\u2028",
        "nul\0x", "\x7f", "quote\"comma,", "=cmd", "\x1b]0;title\x07", "a;b 5", "</script>"]
INTEGERS = ["id", "ts", "dur", "track_id", "depth", "parent_id", "arg_set_id", "utid", "upid", "tid", "pid",
            "is_instant"]
TEXTS = ["name", "category", "thread_name", "process_name"]


class Stoker:
    def __init__(self, program, directory):
        self.program, self.directory = program, directory
        self.env = dict(os.environ, XDG_CACHE_HOME=os.path.join(directory, "cache"))

    def path(self, name):
        return os.path.join(self.directory, name)

    def events(self, name, events):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(events, file)
        return self.path(name)

    def try_(self, *arguments):
        return subprocess.run([self.program] + list(arguments), stdin=subprocess.DEVNULL, capture_output=True,
                              env=self.env, timeout=100)

    def run(self, *arguments):
        done = self.try_(*arguments)
        assert done.returncode == 0, (arguments, done.returncode, done.stderr.decode("utf-8", "replace")[-2000:])
        return done.stdout.decode("utf-8")

    def ask(self, path, *queries, options=("--no-cache",)):
        """Rows of each query, as lists of values."""
        text = self.run("sql", "--quiet", "--format", "json", path, *options, *[x for q in queries for x in ("-q", q)])
        return [[list(row.values()) for row in rows] for rows in json_values(text)]


def json_values(text):
    decoder, at, found = json.JSONDecoder(), 0, []
    while text[at:].strip():
        while text[at].isspace():
            at += 1
        value, at = decoder.raw_decode(text, at)
        found.append(value)
    return found


def call(test, program, directory):
    test(Stoker(program, directory))


# ---- answers ----

def random_events(rng, count):
    events = []
    for _ in range(count):
        phase = rng.choice("XXXXXXBEiCbe")
        event = {"ph": phase, "ts": rng.randint(-2, 60) * rng.choice([1, 1, 0.5]), "pid": rng.choice([1, 2, "p", -1]),
                 "tid": rng.choice([1, 2, "t"]), "name": rng.choice(NAMES)}
        if rng.random() < 0.7:
            event["cat"] = rng.choice(["", "c", "C", "kernel", "5"])
        if phase == "X":
            event["dur"] = rng.choice([0, 0, 1, 2, rng.randint(0, 30)])
        elif phase in "be":
            event["id"] = rng.randint(1, 2)
        if phase == "C":
            event["args"] = {rng.choice(["value", "v"]): rng.choice([1, 2.5, -1])}
        elif rng.random() < 0.4:
            event["args"] = {key: rng.choice([1, "5", None, True, 1.5, [1, 2]]) for key in rng.sample("kjl", 2)}
        events.append(event)
    return events


def random_condition(rng, values, depth=0):
    if depth < 3 and rng.random() < 0.3:
        a, b = random_condition(rng, values, depth + 1), random_condition(rng, values, depth + 1)
        return rng.choice(["(%s AND %s)", "(%s OR %s)", "(%s AND NOT %s)"]) % (a, b)
    text = rng.random() < 0.4
    column = rng.choice(TEXTS if text else INTEGERS)

    def literal():
        if text:
            return rng.choice(["'%s'" % rng.choice(NAMES).replace("'", "''"), "5", "1.5", "NULL", "x'61'", "'c'"])
        value = rng.choice(values[column] or [0])
        return rng.choice(["%d" % value, "%d" % (value + rng.choice([-1, 1])), "'%d'" % value, "%d.5" % value, "NULL",
                           "'abc'", "9223372036854775807", "9223372036854775808", "-1e30", "' 5'", "4294967295", "-1"])
    compare = rng.choice(["=", "<", "<=", ">", ">=", "!=", "IS", "IS NOT", "=", "="])
    forms = ["%s %s %s" % (column, compare, literal()), "%s BETWEEN %s AND %s" % (column, literal(), literal()),
             "%s IN (%s, %s)" % (column, literal(), literal()), "%s IS NULL" % column, "%s IS NOT NULL" % column,
             "%s NOT IN (%s, %s)" % (column, literal(), literal())]
    if text:
        forms += ["%s COLLATE NOCASE %s %s" % (column, compare, literal()),
                  "%s LIKE '%s'" % (column, rng.choice(["a%", "_", "%5%"])),
                  "%s GLOB '%s'" % (column, rng.choice(["a*", "[aA]", "?"])),
                  "%s = %s COLLATE NOCASE" % (column, literal())]
    return rng.choice(forms)


def random_query(rng, values):
    """A query, and whether the order of its rows is given."""
    where = " AND ".join(random_condition(rng, values) for _ in range(rng.choice([1, 1, 2, 3])))
    columns = ", ".join(rng.sample(INTEGERS + TEXTS, 3))
    order = ", ".join(c + rng.choice(["", " DESC", " NULLS LAST"]) for c in rng.sample(INTEGERS + TEXTS, 2))
    limit = rng.choice(["", " LIMIT 7", " LIMIT 5 OFFSET 3"])
    group = rng.choice(["name", "category", "track_id", "name, track_id", "ts", "thread_name", "parent_id",
                        "upid, name"])
    on = rng.choice(["b.parent_id = a.id", "a.parent_id = b.id", "a.track_id = b.track_id AND b.ts > a.ts",
                     "a.ts = b.ts", "a.name = b.name COLLATE NOCASE", "a.category IS b.category",
                     "b.ts BETWEEN a.ts AND a.ts + a.dur"])
    table, key = rng.choice([("args", "arg_set_id"), ("thread", "utid"), ("process", "upid")])
    return rng.choice([
        ("SELECT %s, id FROM slice WHERE %s ORDER BY %s, id%s" % (columns, where, order, limit), True),
        ("SELECT %s FROM slice WHERE %s" % (columns, where), False),
        ("SELECT %s, count(*), sum(dur), min(ts), max(dur), avg(dur) FROM slice WHERE %s GROUP BY %s" %
         (group, where, group), False),
        ("SELECT count(*), count(category), sum(ts), min(name), max(name), count(DISTINCT name) FROM slice WHERE " +
         where, False),
        ("SELECT a.id x, b.id y FROM slice a %s slice b ON %s" % (rng.choice(["JOIN", "LEFT JOIN"]), on), False),
        ("SELECT slice.id x, t.id y FROM slice LEFT JOIN %s t USING (%s)" % (table, key), False),
        ("SELECT id, lag(ts) OVER (PARTITION BY track_id ORDER BY ts, id) FROM slice WHERE " + where, False),
        ("SELECT name FROM slice WHERE %s %s SELECT name FROM slice" % (where, rng.choice(["UNION", "EXCEPT"])),
         False)])


def comparable(rows, in_order):
    rows = [[float("%.9g" % x) if isinstance(x, float) else x.hex() if isinstance(x, bytes) else x for x in row]
            for row in rows]
    return rows if in_order else sorted(rows, key=repr)


def test_queries_give_what_sqlite_gives_on_a_plain_copy(s):
    rng = random.Random(5)
    for count in (1, 60, 300):
        path, copy = s.events("t.json", random_events(rng, count)), s.path("%d.sqlite" % count)
        s.run("convert", "--no-cache", "-q", path, "-o", copy)
        database = sqlite3.connect(copy)
        values = {c: [row[0] for row in database.execute("SELECT %s FROM slice WHERE %s IS NOT NULL" % (c, c))]
                  for c in INTEGERS}
        queries = [random_query(rng, values) for _ in range(100)]
        found = s.ask(path, *["SELECT * FROM (%s)" % q for q, _ in queries])
        for (query, in_order), rows in zip(queries, found):
            cursor = database.execute("SELECT * FROM (%s)" % query)
            assert len({c[0] for c in cursor.description}) == len(cursor.description), query
            wanted = comparable([list(row) for row in cursor], in_order)
            assert comparable(rows, in_order) == wanted, (query, rows[:5], wanted[:5])


def test_top_gaps_and_overlap_give_what_counting_gives(s):
    rng = random.Random(6)
    for span in (40, 2000, 10 ** 9):
        events = [{"ph": "X", "pid": 1, "tid": rng.randint(1, 3), "ts": rng.randint(0, span) / 1000,
                   "dur": rng.choice([0, 1, rng.randint(0, span // 5)]) / 1000, "name": rng.choice(["a", "b", "ab"])}
                  for _ in range(1500)]
        path = s.events("t.json", events + [{"ph": "X", "pid": 9, "tid": 9, "ts": 0.001, "dur": 0.001, "name": "z"}])
        slices, gaps, (overlap,), lanes = s.ask(
            path, "SELECT id, ts, dur, name, track_id, parent_id FROM slice", "SELECT track_id, ts, dur FROM gaps()",
            "SELECT * FROM overlap('a*', '*b')", "SELECT id, parent_id, lane FROM track")
        assert sorted((x[1], x[2], x[3]) for x in slices if x[3] != "z") == sorted(
            (round(e["ts"] * 1000), round(e["dur"] * 1000), e["name"]) for e in events)
        inside, root = {}, {track: parent if lane else track for track, parent, lane in lanes}
        for x in slices:
            inside[x[5]] = inside.get(x[5], 0) + x[2]
        by_id = {x[0]: x for x in slices}
        def is_outermost(x):
            around = by_id.get(x[5])
            while around and around[3] != x[3]:
                around = by_id.get(around[5])
            if root[x[4]] != x[4]:  # a lane: what overlaps on a track lies there
                around = around or next((y for y in slices if y[4] == root[x[4]] and y[3] == x[3] and
                                         y[1] <= x[1] < y[1] + y[2] >= x[1] + x[2]), None)
            return around is None
        run = max(x[1] + x[2] for x in slices) - min(x[1] for x in slices)
        for row in json.loads(s.run("top", "--no-cache", "-q", "--limit", "0", "--format", "json", path)):
            durations = sorted(x[2] for x in slices if x[3] == row["name"])
            count = len(durations)
            total = sum(x[2] for x in slices if x[3] == row["name"] and is_outermost(x))
            assert row["count"] == count and row["total_ns"] == total
            assert abs(row["mean_ns"] * count - sum(durations)) < 1 and abs(row["percent"] - 100 * total / run) < 1e-9
            assert row["p50_ns"] == durations[(count * 50 + 99) // 100 - 1]
            assert row["p95_ns"] == durations[(count * 95 + 99) // 100 - 1]
            # what sticks out by rounding makes no time negative
            assert row["self_ns"] == sum(max(0, x[2] - inside.get(x[0], 0)) for x in slices if x[3] == row["name"])
        assert sorted(map(tuple, gaps)) == sorted(find_gaps(slices, root))
        a, b = [union(x for x in slices if test(x[3])) for test in (lambda n: n[0] == "a", lambda n: n[-1] == "b")]
        total = [sum(end - start for start, end in u) for u in (a, b, join(a + b))]
        assert overlap == [total[0], total[1], total[0] + total[1] - total[2]]


def join(spans):
    joined = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        elif end > start:
            joined.append((start, end))
    return joined


def union(slices):
    return join([(x[1], x[1] + x[2]) for x in slices if x[2]])


def find_gaps(slices, root):
    for track in set(root.values()):
        spans = sorted((x[1], x[1] + x[2]) for x in slices if root[x[4]] == track)
        end = spans[0][1] if spans else 0
        for start, until in spans[1:]:
            if start > end:
                yield (track, end, start - end)
            end = max(end, until)


# ---- what goes in comes out, or is counted ----

def test_args_of_begin_and_end_are_there_once(s):
    path = s.events("t.json", [
        {"ph": "B", "pid": 1, "tid": 1, "ts": 1, "name": "a", "args": {"x": 1, "y": 2}},
        {"ph": "E", "pid": 1, "tid": 1, "ts": 2, "name": "a", "args": {"x": 9, "z": 3}},
        {"ph": "E", "pid": 1, "tid": 1, "ts": 3, "name": "a", "args": {"lost": 1}},
        {"ph": "X", "pid": 1, "tid": 1, "ts": 4, "dur": 1, "name": "b", "id": "of the event",
         "args": {"id": "of the args"}}])
    args, notes, sets = s.ask(path, "SELECT key, value FROM args", "SELECT reason, count FROM note",
                              "SELECT count(*) FROM args WHERE arg_set_id NOT IN (SELECT arg_set_id FROM slice)")
    assert sorted(map(repr, args)) == sorted(map(repr, [["x", 9], ["y", 2], ["z", 3], ["id", "of the args"],
                                                        ["event_id", "of the event"]])), args
    assert sorted(notes) == [["duplicate_key", 1], ["end_without_begin", 1]] and sets == [[0]]


def test_what_has_no_place_in_the_model_is_counted(s):
    at = {"pid": 1, "tid": 1}
    path = s.events("t.json", [
        dict(at, ph="X", ts=1, dur=10, name="a"), dict(at, ph="s", ts=2, name="f", id=7, args={"gone": 1}, beside=2),
        dict(at, ph="f", ts=3, name="f", id=7, bp="e"), dict(at, ph="P", ts=4, name="p", stack=["f"], args={"gone": 1}),
        dict(at, ph="C", ts=5, name="c", args={"v": 1}, beside=2), dict(at, ph="N", ts=6, name="object", id=1)])
    notes, = s.ask(path, "SELECT reason, count FROM note")
    assert sorted(notes) == [["no_place", 4], ["unknown_kind", 1]], notes


def test_local_ids_of_flows_hold_in_their_process(s):
    events = [{"ph": "X", "pid": pid, "tid": 1, "ts": pid, "dur": 1, "name": "p%d" % pid} for pid in (1, 2)]
    events += [{"ph": "s", "pid": 1, "tid": 1, "ts": 1, "name": "f", "id2": {"local": "0x9"}},
               {"ph": "f", "pid": 2, "tid": 1, "ts": 2, "name": "f", "id2": {"local": "0x9"}, "bp": "e"}]
    flows, = s.ask(s.events("t.json", events), "SELECT * FROM flow")
    assert flows == []


def test_overlaps_of_rounding_do_not_chain(s):
    events = [{"ph": "X", "pid": 1, "tid": 1, "ts": i, "dur": 1000, "name": "a"} for i in range(900)]
    path = s.events("t.json", events + [{"ph": "X", "pid": 1, "tid": 1, "ts": 1500, "dur": 1, "name": "behind"}])
    s.run("convert", "--no-cache", "-q", path, "-o", s.path("t.pftrace"))
    (before,), = s.ask(path, "SELECT count(*), sum(dur) FROM slice")
    (after,), = s.ask(s.path("t.pftrace"), "SELECT count(*), sum(dur) FROM slice")
    assert before == [901, 900001000] and after[0] == 901
    assert before[1] - after[1] <= 901 * 1000, after  # each is cut by the rounding at most
    outside, = s.ask(path, "SELECT max(a.ts + a.dur - b.ts - b.dur) FROM slice a JOIN slice b ON a.parent_id = b.id")
    assert outside[0][0] <= 1000


def test_values_that_are_no_numbers_survive_a_round_trip(s):
    path = s.path("t.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write('[{"ph":"C","pid":1,"ts":1,"name":"c","args":{"a":NaN,"b":Infinity,"c":-inf,"d":1}}]')
    s.run("convert", "--no-cache", "-q", path, "-o", s.path("again.json"))
    for name in ("t.json", "again.json"):
        (found,), = s.ask(s.path(name),
                          "SELECT count(*), count(value), max(value) > 1e308, min(value) < -1e308 FROM counter")
        assert found == [4, 3, 1, 1], (name, found)


# ---- hostile files ----

def mutated(rng, data, others):
    data = bytearray(data)
    for _ in range(rng.choice([0, 1, 2, 4])):
        data = data or bytearray(b"{}")
        at, kind = rng.randrange(len(data)), rng.randrange(6)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at:at + rng.choice([1, 10, 200])]
        elif kind == 3:
            data[at:at] = rng.choice([b"9223372036854775807", b"-1e308", b"NaN", b'"', b"[", b"]}", b"\x1b[31m",
                                      b"\xff\xff\xff\xff\x0f"])
        elif kind == 4:
            other = others[rng.randrange(len(others))]
            data[at:at] = other[:rng.randint(1, 1000)]
        else:
            numbers = list(re.finditer(rb"\d+", bytes(data[:50000])))
            if numbers:
                found = rng.choice(numbers)
                data[found.start():found.end()] = rng.choice([b"4611686018427387903", b"-9e18", b"0", b"1e15"])
    if rng.random() < 0.1:
        data = bytearray(gzip.compress(bytes(data)))
        data[rng.randrange(len(data))] ^= 1
    return bytes(data)


def commands(rng, one, two, output):
    query = rng.choice(["SELECT * FROM slice", "SELECT * FROM gaps()", "SELECT * FROM stacks()", "SELECT * FROM args",
                        "SELECT * FROM track", "SELECT * FROM steps()", "SELECT * FROM sample",
                        "SELECT max(ts), min(ts), total(dur) FROM slice"])
    by = rng.choice(["name", "thread", "cat", "step", "process"])
    return rng.choice([["top", "--limit", "0", "--format", "json", "--by", by, one],
                       ["sql", "--format", "json", one, "-q", query], ["diagnose", "--json", one], ["diagnose", one],
                       ["diff", "--format", "json", one, two], ["merge", "--json", one, two, "-o", output],
                       ["convert", one, "-o", output]])


def test_damaged_files_end_cleanly(s):
    rng = random.Random(7)
    s.events("tf.json", tracelib.tensorflow(0.3, 6))
    s.events("torch.json", tracelib.kineto(0.3, 6))
    for name in ("tf.pftrace", "torch.collapsed", "tf.speedscope.json", "torch.json.gz", "tf.json.zst"):
        s.run("convert", "--no-cache", "-q", s.path(name.split(".")[0] + ".json"), "-o", s.path(name))
    paths = sorted(glob.glob(s.path("t*"))) + sorted(glob.glob(os.path.join(HERE, "..", "data", "traces", "*", "*")))
    seeds = [open(path, "rb").read() for path in paths if os.path.getsize(path) < 100000]
    for turn in range(250):
        for name in ("one", "two"):
            with open(s.path(name), "wb") as file:
                file.write(mutated(rng, rng.choice(seeds), seeds))
        ending = rng.choice([".json", ".pftrace", ".collapsed", ".speedscope.json", ".csv", ".sqlite"])
        output = s.path("out%d%s" % (turn, ending))
        arguments = commands(rng, s.path("one"), s.path("two"), output)
        arguments += ["--no-cache"] + rng.choice([[], ["--memory", "1M"]])
        done = s.try_(*arguments)
        said = (turn, arguments, done.returncode, done.stderr[-1000:])
        assert done.returncode in (0, 1, 2), said
        assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", done.stderr), said
        text = done.stdout.decode("utf-8")
        if "json" in arguments or "--json" in arguments:
            json_values(text)
        assert os.path.exists(output) == (done.returncode == 0 and output in arguments), said
        if os.path.exists(output) and output.endswith(".json"):
            with open(output, encoding="utf-8") as file:
                json.load(file)


def test_depth_and_number_cost_no_more_than_their_size(s):
    """Each of these ends at once, or never when something looks at all pairs."""
    count, at = 100000, '"pid":1,"tid":1'
    shapes = {
        "flows behind a deep nest": ['{"ph":"B","ts":%d,%s,"name":"a"}' % (i, at) for i in range(count)] +
                                    ['{"ph":"E","ts":%d,%s}' % (count + i, at) for i in range(count)] +
                                    ['{"ph":"s","ts":%d,%s,"name":"f","id":%d}' % (2 * count + i, at, i)
                                     for i in range(count)],
        "begins without ends": ['{"ph":"B","ts":%d,%s,"name":"b%d"}' % (i, at, i) for i in range(count)],
        "all overlap": ['{"ph":"X","ts":%d,"dur":%d,%s,"name":"a"}' % (3 * i, 10 * count, at) for i in range(count)],
        "many processes": ['{"ph":"X","ts":%d,"dur":1,"pid":%d,"name":"a"}' % (i, i) for i in range(count)],
        "ends of other names": ['{"ph":"%s","ts":%d,%s,"name":"%s%d"}' % (p, i, at, p, i)
                                for p in "BE" for i in range(count // 2)],
        "many args": ['{"ph":"X","ts":1,"dur":1,%s,"name":"a","args":{%s}}' %
                      (at, ",".join('"k%d":%d' % (i, i) for i in range(count)))]}
    for name, lines in shapes.items():
        with open(s.path("t.json"), "w", encoding="ascii") as file:
            file.write("[" + ",\n".join(lines) + "]")
        events, = s.ask(s.path("t.json"), "SELECT events FROM file")
        assert events == [[len(lines)]], name
        for command in (["top"], ["diagnose"], ["convert", "-o", s.path("x.pftrace")],
                        ["convert", "-o", s.path("x.json")]):
            s.run(*command, s.path("t.json"), "--no-cache", "-q")


def test_names_and_paths_are_shown_but_steer_nothing(s):
    events = []
    for i, name in enumerate(EVIL):
        at = {"pid": i, "tid": i}
        events += [dict(at, ph="X", ts=i * 100, dur=50 + i, name=name, cat=name, args={name: name}),
                   dict(at, ph="M", name="thread_name", args={"name": name}),
                   dict(at, ph="M", name="process_name", args={"name": name}),
                   dict(at, ph="C", ts=i, name=name, args={name: 1}), dict(at, ph="M", name=name, args={name: name}),
                   dict(at, ph="X", ts=i * 100, dur=99, name="ProfilerStep#%d" % i)]
    os.mkdir(s.path("d\x1b[31m\u202e\n"))
    path = s.events("d\x1b[31m\u202e\n/t\x1b.json", events)
    turned = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
    asked = [["top", "--by", by, path] for by in ("name", "thread", "cat", "file", "process", "step")]
    asked += [["sql", path, "-q", "SELECT * FROM " + table]
              for table in ("slice", "track", "args", "file", "fact", "counter", "stacks()")]
    asked += [["sql", path, "-q", "SELECT 1 AS '\x1b[31m\n'"], ["sql", path, "-q", "SELECT \x1b[31m"],
              ["diagnose", path], ["diff", path, path], ["top", path + "\x1b[1m"], ["top", "--by", "\x1b[31m", path],
              ["convert", path, "-o", "x.\x1b[31m"], ["convert", path, "-o", s.path("no\x1b[31m/x.json")]]
    for arguments in asked:
        done = s.try_(*arguments, "--no-cache")
        for text in (done.stdout.decode("utf-8"), done.stderr.decode("utf-8")):
            assert not turned.search(text), (arguments, text[max(0, turned.search(text).start() - 80):][:160])


# ---- the cache ----

def test_cache_is_not_believed_blindly(s):
    path, options = s.path("t.json"), ("--cache-dir", s.path("kept"))

    def write(name):
        lines = ['{"ph":"X","ts":%d,"dur":1,"pid":1,"tid":1,"name":"%s%06d"}' % (i, name, i) for i in range(30000)]
        with open(path, "w", encoding="ascii") as file:
            file.write("[" + ",\n".join(lines) + "]")
        os.utime(path, ns=(10 ** 18, 10 ** 18))

    def answer():
        return s.ask(path, "SELECT count(*), sum(ts), min(name) FROM slice", options=options)[0][0]
    write("a")
    assert answer() == answer() == [30000, 449985000000, "a000000"]
    write("b")  # the same size and time
    assert answer() == [30000, 449985000000, "b000000"]
    kept = max(glob.glob(s.path("kept/traces/*")), key=os.path.getmtime)
    whole = open(kept, "rb").read()
    for at in list(range(0, 400, 40)) + list(range(4096, len(whole), len(whole) // 12)):
        with open(kept, "wb") as file:
            file.write(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1:])
        assert answer() == [30000, 449985000000, "b000000"], at
    for size in (0, 10, 5000, len(whole) - 1):
        with open(kept, "wb") as file:
            file.write(whole[:size])
        assert answer() == [30000, 449985000000, "b000000"], size


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), call))
