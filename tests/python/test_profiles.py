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
