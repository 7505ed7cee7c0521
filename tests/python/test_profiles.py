#!/usr/bin/env python3
"""Profiles of other programs: the folding of FlameGraph, figures of Python's pstats, the files of py-spy.

Usage: python3 tests/python/test_profiles.py BUILD_DIR
Standard library only; py-spy and perf are used when they are there and allowed. Prints "N passed, N failed"; the exit
status is 1 when a test failed.
"""
import cProfile
import glob
import json
import marshal
import os
import profile
import pstats
import shutil
import subprocess
import sys

import runlib

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "traces")
WORK = """
import hashlib
def digest(n):
    h = hashlib.sha256()
    for i in range(n):
        h.update(b"x" * 4000)
    return h.hexdigest()
for k in range(40):
    digest(1000)
"""


def convert(program, source, target, *options):
    command = [program, "convert", source, "-o", target, "--no-cache", *options]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    assert result.returncode == 0, "%s: %s" % (command, result.stderr.decode())
    return result.stderr.decode()


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def fold(program, directory, source):
    target = os.path.join(directory, "out.collapsed")
    convert(program, source, target)
    return read(target)


def weights(text):
    """{stack: count} of collapsed stacks."""
    stacks = {}
    for line in text.splitlines():
        stack, count = line.rsplit(" ", 1)
        stacks[stack] = stacks.get(stack, 0) + int(count)
    return stacks


def test_perf_folds_as_flamegraph_does(program, directory):
    sources = sorted(glob.glob(os.path.join(DATA, "perf", "*.txt")))
    assert len(sources) >= 4
    for source in sources:
        found, wanted = fold(program, directory, source), read(source[:-len(".txt")] + ".folded")
        assert found == wanted, "%s:\n%s\nwanted\n%s" % (source, found, wanted)


def test_collapsed_comes_back_sorted(program, directory):
    for name in ("folded.txt", "py-spy.raw.txt"):
        source = os.path.join(DATA, "collapsed", name)
        lines = sorted(read(source).splitlines(), key=lambda line: line.rsplit(" ", 1)[0].encode())
        assert fold(program, directory, source).splitlines() == lines


def test_flame_graphs_become_the_stacks_they_show(program, directory):
    source = os.path.join(DATA, "collapsed", "flamegraph.svg")
    wanted = {}
    for stack, count in weights(read(os.path.join(DATA, "collapsed", "folded.txt"))).items():
        for mark in ("_[k]", "_[i]"):  # FlameGraph draws them as colours
            stack = stack.replace(mark, "")
        wanted[stack] = count
    assert weights(fold(program, directory, source)) == wanted
    source = os.path.join(DATA, "collapsed", "py-spy.svg")
    assert fold(program, directory, source) == read(source + ".folded")


def test_speedscope_goes_round(program, directory):
    for source in sorted(glob.glob(os.path.join(DATA, "speedscope", "*.speedscope.json"))):
        first, second = os.path.join(directory, "a.speedscope.json"), os.path.join(directory, "b.speedscope.json")
        convert(program, source, first)
        convert(program, first, second)
        one, two = json.loads(read(first)), json.loads(read(second))
        assert one["profiles"], source
        assert check_speedscope(one) == check_speedscope(two), source


def check_speedscope(data):
    """Checks that a file is what speedscope takes; returns what its profiles hold, by names."""
    names = [frame["name"] for frame in data["shared"]["frames"]]
    held = []
    for p in data["profiles"]:
        assert p["unit"] in ("none", "nanoseconds", "bytes")
        assert p["startValue"] <= p["endValue"]
        if p["type"] == "sampled":
            assert len(p["samples"]) == len(p["weights"])
            held.append((p["name"], p["unit"], [[names[i] for i in s] for s in p["samples"]], p["weights"]))
            continue
        stack, last = [], p["startValue"]
        for e in p["events"]:
            assert e["at"] >= last
            last = e["at"]
            if e["type"] == "O":
                stack.append(e["frame"])
            else:
                assert stack.pop() == e["frame"]
        assert not stack and last <= p["endValue"]
        held.append((p["name"], p["unit"], [(e["type"], names[e["frame"]], e["at"]) for e in p["events"]]))
    return held


def key_of(function):
    file, line, name = function
    if (file, line) == ("~", 0):
        return "{%s}" % name[1:-1] if name.startswith("<") and name.endswith(">") else name
    if not file:
        return name
    return "%s (%s:%d)" % (name, file, line) if line else "%s (%s)" % (name, file)


REST = "(other stacks)"


def leaf_sums(stacks):
    """{innermost function: time} of {(function, ...): time}."""
    sums = {}
    for stack, ns in stacks.items():
        sums[stack[-1]] = sums.get(stack[-1], 0) + ns
    return sums


def speedscope_stacks(program, directory, path):
    target = os.path.join(directory, "out.speedscope.json")
    convert(program, path, target)
    data = json.loads(read(target))
    check_speedscope(data)
    frames = [("%s (%s:%d)" % (f["name"], f["file"], f["line"]) if "line" in f else
               "%s (%s)" % (f["name"], f["file"]) if "file" in f else f["name"]) for f in data["shared"]["frames"]]
    profile_of_functions, = data["profiles"]
    assert profile_of_functions["endValue"] == sum(profile_of_functions["weights"])
    stacks = {}
    for stack, ns in zip(profile_of_functions["samples"], profile_of_functions["weights"]):
        key = tuple(frames[i] for i in stack)
        stacks[key] = stacks.get(key, 0) + ns
    return stacks


def check_profile(program, directory, path):
    """The self times of functions are exact in both formats, and all that is beside each other is a call of the file."""
    stats = pstats.Stats(path).stats
    wanted, calls = {}, set()
    for function, (_, _, self_time, _, callers) in stats.items():
        wanted[key_of(function)] = wanted.get(key_of(function), 0) + round(self_time * 1e9)
        calls |= {(key_of(caller), key_of(function)) for caller in callers}
    wanted = {name: ns for name, ns in wanted.items() if ns}
    folded = {tuple(stack.split(";")): ns for stack, ns in weights(fold(program, directory, path)).items()}
    for stacks in (folded, speedscope_stacks(program, directory, path)):
        assert all(";" not in name for name in wanted)
        assert leaf_sums(stacks) == wanted, path
        assert sum(stacks.values()) == sum(wanted.values())
        for stack in stacks:
            assert len(set(stack)) == len(stack), "recursion is cut: %s" % (stack,)
            for pair in zip(stack, stack[1:]):
                assert pair[0] == REST or pair in calls, (path, pair)
    return folded


def recurse(n):
    return n if n < 2 else recurse(n - 1) + recurse(n - 2)


def test_pstats_figures_equal_those_of_python(program, directory):
    for name, kind in (("cprofile", cProfile), ("profile", profile)):
        path = os.path.join(directory, name + ".pstats")
        p = kind.Profile()
        p.runcall(lambda: (recurse(12), sorted(range(99), key=str), json.dumps([1, {"a": None}])))
        p.dump_stats(path)
        check_profile(program, directory, path)
        merged = os.path.join(directory, name + "-merged.pstats")
        pstats.Stats(path, path).dump_stats(merged)
        check_profile(program, directory, merged)
    for path in sorted(glob.glob(os.path.join(DATA, "pstats", "*.pstats"))):
        check_profile(program, directory, path)


def top(program, *arguments):
    done = subprocess.run([program, "top", "--no-cache", "--limit", "0", "--format", "json", *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, (arguments, done.stderr.decode())
    return json.loads(done.stdout)


def calling_profile(directory):
    """Functions of a folder of one's own that call each other and json's."""
    folder = os.path.join(directory, "src")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "mine.py")
    with open(path, "w", encoding="utf-8") as f:
        f.write("import json\n\n\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n\n\n"
                "def save(n):\n    return json.dumps([fib(n)]) + json.dumps({'a': n})\n\n\n"
                "def main():\n    return [save(k) for k in range(9)]\n")
    space = {}
    with open(path, encoding="utf-8") as f:
        exec(compile(f.read(), path, "exec"), space)
    p = cProfile.Profile()
    p.runcall(space["main"])
    p.dump_stats(os.path.join(directory, "mine.pstats"))
    return os.path.join(directory, "mine.pstats")


def test_own_only_is_what_print_stats_selects(program, directory):
    path = calling_profile(directory)
    stats = pstats.Stats(path).stats
    wanted = {key_of(f): (calls, round(self_time * 1e9), round(total * 1e9))
              for f, (_, calls, self_time, total, _) in stats.items() if "/src/" in f[0]}
    assert len(wanted) >= 3 and len(wanted) < len(stats)
    for options in (["--own", "src", "--own-only"], ["--own", "src/*", "--own-only"], ["--own", "mine.py", "--own-only"],
                    ["--like", "*/src/*"]):
        rows = {r["name"]: (r["count"], r["self_ns"], r["total_ns"]) for r in top(program, path, *options)}
        assert rows.keys() == wanted.keys(), (options, rows.keys() ^ wanted.keys())
        for name, figures in wanted.items():
            assert all(abs(a - b) <= 1 for a, b in zip(rows[name], figures)), (name, rows[name], figures)
    # Folded, the same rows have the time of what they call.
    folded = {r["name"]: r for r in top(program, path, "--own", "src")}
    assert folded.keys() >= wanted.keys() and all(folded[name]["self_ns"] >= wanted[name][1] - 1 for name in wanted)


def test_own_that_matches_nothing_is_told(program, directory):
    path = calling_profile(directory)
    done = subprocess.run([program, "top", "--no-cache", path, "--own", "sr"], capture_output=True, text=True, timeout=60,
                          check=False)
    assert "--own 'sr' is like no file" in done.stderr, done.stderr
    done = subprocess.run([program, "top", "--no-cache", path, "--own", "src"], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.stderr == "", done.stderr


def test_callers_and_callees_are_those_of_pstats(program, directory):
    path = calling_profile(directory)
    edges = {}
    for callee, (_, _, _, _, callers) in pstats.Stats(path).stats.items():
        for caller, (calls, _, self_time, total) in callers.items():
            edges[key_of(caller), key_of(callee)] = (calls, round(self_time * 1e9), round(total * 1e9))
    for option, end, name in (("--callers", 1, "dumps"), ("--callers", 1, "fib"), ("--callees", 0, "save")):
        wanted = {edge: figures for edge, figures in edges.items() if edge[end].startswith(name + " (")}
        found = {(r["caller"], r["callee"]): (r["count"], r["self"], r["total"]) for r in top(program, path, option, name)}
        assert found.keys() == wanted.keys() and found, (option, name, found, wanted)
        for edge, figures in wanted.items():
            assert all(abs(a - b) <= 1 for a, b in zip(found[edge], figures)), (edge, found[edge], figures)


def test_callers_of_slices_and_samples_come_from_their_trees(program, directory):
    path = os.path.join(directory, "nested.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump([{"ph": "X", "pid": 1, "tid": 1, "ts": ts, "dur": dur, "name": name}
                   for ts, dur, name in ((0, 100, "a"), (10, 50, "b"), (20, 10, "c"), (200, 30, "c"), (300, 9, "b"))], f)
    rows = {(r["caller"], r["callee"]): (r["count"], r["self"], r["total"]) for r in top(program, path, "--callers", "[bc]")}
    assert rows == {("a", "b"): (1, 40000, 50000), ("b", "c"): (1, 10000, 10000), (None, "c"): (1, 30000, 30000),
                    (None, "b"): (1, 9000, 9000)}, rows
    path = os.path.join(directory, "stacks.txt")
    with open(path, "w", encoding="utf-8") as f:
        f.write("main;train;read 5\nmain;train 1\nmain;read 2\n")
    rows = {(r["caller"], r["callee"]): (r["self"], r["total"]) for r in top(program, path, "--callees", "main")}
    assert rows == {("main", "train"): (1, 6), ("main", "read"): (2, 2)}, rows


def test_recursion_of_slices_counts_once(program, directory):
    """As samples and pstats do; py-spy's chrometrace is made of slices."""
    path = os.path.join(directory, "recursion.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump([{"ph": "X", "pid": 1, "tid": 1, "ts": i, "dur": 100 - 2 * i, "name": "f"} for i in range(10)], f)
    row, = top(program, path)
    assert (row["count"], row["total_ns"], row["self_ns"], row["percent"], row["primitive"]) == (10, 100000, 100000, 100, 1)


def test_very_long_names_are_cut_for_people_only(program, directory):
    path = os.path.join(directory, "long.json")
    name = "x\u00e9" * 500000
    with open(path, "w", encoding="utf-8") as f:
        json.dump([{"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 5, "name": name}], f)
    assert top(program, path)[0]["name"] == name
    done = subprocess.run([program, "top", "--no-cache", path], capture_output=True, timeout=60, check=False)
    lines = done.stdout.decode().splitlines()
    assert max(len(line) for line in lines) < 320 and lines[-1].endswith("x\u00e9\u2026"), lines[-1][-20:]


def dump(directory, stats):
    path = os.path.join(directory, "made.pstats")
    with open(path, "wb") as f:
        marshal.dump(stats, f)
    return path


def test_pstats_stacks_are_those_of_the_callers(program, directory):
    main, a, b, leaf = (("p.py", i, n) for i, n in enumerate(("main", "a", "b", "leaf"), 1))
    stats = {
        main: (1, 1, 0.1, 2.0, {}),
        a: (1, 1, 0.2, 0.8, {main: (1, 1, 0.2, 0.8)}),
        b: (1, 1, 0.3, 1.1, {main: (1, 1, 0.3, 1.1)}),
        leaf: (4, 4, 1.4, 1.4, {a: (1, 1, 0.6, 0.6), b: (3, 3, 0.8, 0.8)}),
    }
    names = "main (p.py:1)", "a (p.py:2)", "b (p.py:3)", "leaf (p.py:4)"
    assert check_profile(program, directory, dump(directory, stats)) == {
        names[:1]: 100000000, names[:2]: 200000000, (names[0], names[2]): 300000000,
        (names[0], names[1], names[3]): 600000000, (names[0], names[2], names[3]): 800000000}


def test_pstats_of_circles_without_an_entry_keep_their_times(program, directory):
    ping, pong = ("p.py", 1, "ping"), ("p.py", 2, "pong")
    stats = {ping: (1, 5, 1.0, 3.0, {pong: (5, 5, 1.0, 3.0), ping: (2, 1, 0.5, 0.5)}),
             pong: (5, 5, 2.0, 3.0, {ping: (5, 5, 2.0, 3.0)})}
    assert check_profile(program, directory, dump(directory, stats)) == {
        ("ping (p.py:1)",): 1000000000, ("ping (p.py:1)", "pong (p.py:2)"): 2000000000}


def test_pstats_with_endlessly_many_stacks_are_bounded(program, directory):
    """Layers in which each function calls each of the next: 4 to the 14th stacks."""
    layers = [[("p.py", 10 * i + k, "f%d_%d" % (i, k)) for k in range(4)] for i in range(14)]
    stats = {}
    for i, layer in enumerate(layers):
        for f in layer:
            callers = {c: (1, 1, 0.01, 0.01 * 4 ** (14 - i)) for c in layers[i - 1]} if i else {}
            stats[f] = (4, 4, 0.04, 0.04 * 4 ** (14 - i), callers)
    stacks = check_profile(program, directory, dump(directory, stats))
    assert len(stacks) < 40000
    assert any(stack[0] == REST for stack in stacks)
    says = convert(program, os.path.join(directory, "made.pstats"), os.path.join(directory, "x.collapsed"))
    assert "the stacks are an estimate" in says


def test_pstats_of_the_standard_library(program, directory):
    path = os.path.join(directory, "import.pstats")
    script = os.path.join(directory, "imports.py")
    with open(script, "w", encoding="utf-8") as f:
        f.write("import argparse, asyncio, decimal, email.message, http.client, json.tool, unittest, xml.dom.minidom\n")
    subprocess.run([sys.executable, "-m", "cProfile", "-o", path, script], check=True, timeout=120, capture_output=True)
    stacks = check_profile(program, directory, path)
    lost = sum(ns for stack, ns in stacks.items() if stack[0] == REST)
    assert lost < 0.05 * sum(stacks.values()), lost
    assert max(len(stack) for stack in stacks) > 10


def test_pstats_is_refused_by_formats_that_cannot_carry_it(program, directory):
    source = sorted(glob.glob(os.path.join(DATA, "pstats", "*.pstats")))[0]
    for ending in (".json", ".pftrace"):
        target = os.path.join(directory, "x" + ending)
        command = [program, "convert", source, "-o", target, "--no-cache"]
        result = subprocess.run(command, capture_output=True, timeout=120, check=False)
        assert result.returncode == 1 and not os.path.exists(target)
        assert b"write .collapsed, .speedscope.json or .sqlite" in result.stderr, result.stderr


def test_py_spy_files_are_read(program, directory):
    py_spy = shutil.which("py-spy") or os.path.join(os.path.dirname(sys.executable), "py-spy")
    if not os.path.exists(py_spy):
        return
    script = os.path.join(directory, "work.py")
    with open(script, "w", encoding="utf-8") as f:
        f.write(WORK)
    for form in ("raw", "speedscope", "chrometrace", "flamegraph"):
        path = os.path.join(directory, "out." + form)
        command = [py_spy, "record", "-r", "50", "-f", form, "-o", path, "--", sys.executable, script]
        result = subprocess.run(command, capture_output=True, timeout=120, check=False)
        if result.returncode != 0 or not os.path.exists(path):
            return  # no right to look into other processes here
        stacks = fold(program, directory, path)
        if stacks:
            assert "digest" in stacks, (form, stacks)


def test_perf_recordings_fold(program, directory):
    perf = shutil.which("perf")
    data, text = os.path.join(directory, "perf.data"), os.path.join(directory, "perf.txt")
    if not perf:
        return
    command = [perf, "record", "-q", "-e", "cpu-clock", "-g", "-o", data, "--", sys.executable, "-c", WORK]
    if subprocess.run(command, capture_output=True, timeout=120, check=False).returncode != 0:
        return  # no right to record here
    with open(text, "wb") as out:
        subprocess.run([perf, "script", "-i", data], stdout=out, stderr=subprocess.DEVNULL, timeout=120, check=False)
    periods = 0
    for line in read(text).splitlines():
        if line.rstrip().endswith("cpu-clock:"):
            periods += int(line.split()[-2])
    if periods:
        assert sum(weights(fold(program, directory, text)).values()) == periods


if __name__ == "__main__":
    sys.exit(runlib.main(dict(globals()), lambda test, program, directory: test(program, directory)))
