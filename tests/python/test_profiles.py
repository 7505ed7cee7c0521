#!/usr/bin/env python3
"""Profiles of other programs: the folding of FlameGraph, figures of Python's pstats, the files of py-spy.

Usage: python3 tests/python/test_profiles.py BUILD_DIR
Standard library only; py-spy and perf are used when they are there and allowed. Prints "N passed, N failed"; the exit
status is 1 when a test failed.
"""
import cProfile
import glob
import json
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


def check_profile(program, directory, path):
    """The self times of a profile, in ns, by the function as collapsed stacks name it."""
    found = weights(fold(program, directory, path))
    wanted = {}
    for function, (_, _, self_time, _, _) in pstats.Stats(path).stats.items():
        wanted[key_of(function)] = wanted.get(key_of(function), 0) + round(self_time * 1e9)
    assert found.keys() == wanted.keys(), found.keys() ^ wanted.keys()
    for name, ns in wanted.items():
        assert abs(found[name] - ns) <= 1, (name, found[name], ns)


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
