#!/usr/bin/env python3
"""Every option of `stoker bench` and of its subcommands does what it says.

Usage: python3 tests/python/test_bench_options.py BUILD_DIR
The options are taken from `stoker help`; one without a case here fails the test, and so does a case whose option is gone.
A case runs once for each spelling ("--rounds", "-r") and looks at the effect, not only at the exit code. Prints
"N passed, N failed"; the exit status is 1 when a test failed.
"""
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

import runlib

REPOSITORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
OPTION = re.compile(r"^  (?:(-\w), |    )(--[a-z0-9-]+)(?: |$)", re.M)

CASES = {}


def case(commands, option):
    """The function shows the effect of that option of these commands; it gets a Call and the option as it is spelt."""
    def register(function):
        for command in [commands] if isinstance(commands, str) else commands:
            assert (command, option) not in CASES, (command, option)
            CASES[command, option] = function
        return function
    return register


class Call:
    """Runs one command of the program in a directory of its own."""

    def __init__(self, program, command, directory):
        self.program, self.command, self.directory = program, command, directory

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return name

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def lines(self, name):
        return self.read(name).splitlines() if os.path.exists(self.path(name)) else []

    def run(self, *arguments, status=0, command=None):
        words = [self.program, *(command or self.command).split(), *arguments]
        environment = dict(os.environ, XDG_CACHE_HOME=self.path("cache"), LC_ALL="C.UTF-8")
        done = subprocess.run(words, cwd=self.directory, stdin=subprocess.DEVNULL, capture_output=True, timeout=150, text=True, env=environment,
                              check=False)
        assert done.returncode == status, "exit status %d of %s: %s%s" % (done.returncode, words[1:], done.stdout, done.stderr)
        return done

    def few(self, *arguments, status=0):
        """As few rounds as the command takes, of `true` unless there is another command."""
        given = list(arguments) or ["true"]
        return self.run("--rounds", "12" if "calibrate" in self.command else "6", *given, status=status)

    def result(self, *arguments):
        return json.loads(self.run("--json", *arguments).stdout)


def says(number, unit="x"):
    return "echo '{\"%s\": %s}'" % (unit, number)


def verdicts(result):
    return [item["verdict"] for item in result["comparisons"]]


def saved(call, a=1.0, b=1.1):
    """A result with two variants, as `bench --export stoker=` writes it; figures without noise."""
    variants = [{"name": name, "command": name, "group": 0, "measures": {"wall": [value] * 8}} for name, value in (("old", a), ("new", b))]
    metric = {"name": "wall", "unit": "s", "higher_is_better": False}
    return call.write("saved.json", json.dumps({"stoker": "bench", "version": 1, "seed": 1, "paired": True, "metric": metric,
                                                "metrics": [metric], "variants": variants, "notes": []}))


def two(call, a=1.0, b=1.1):
    """What to compare: two commands, or a file."""
    if call.command == "bench compare":
        return [saved(call, a, b)]
    return ["--rounds", "8", "--metric", "x", says(a), says(b)]


def git(call, *arguments):
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *arguments], cwd=call.directory, check=True, capture_output=True)


def repository(call):
    """Two commits in which ./work prints 2 and 1."""
    git(call, "init", "-q")
    for value in (2, 1):
        call.write("work.in", "#!/bin/sh\n" + says(value) + "\n")
        git(call, "add", "-A")
        git(call, "commit", "-qm", "prints %d" % value)
    return ["--rounds", "6", "--metric", "x"]


BOTH = ("bench", "bench calibrate")
JUDGING = ("bench", "bench compare")

# ---- commands ----


@case("bench", "--name")
def _(call, option):
    found = call.result("--rounds", "1", option, "old", option, "new", "true", "true")
    assert [v["name"] for v in found["variants"]] == ["old", "new"]
    again = call.result("--rounds", "1", option, "x", option, "x", "true", "true")
    assert [v["name"] for v in again["variants"]] == ["x", "x (2)"]


@case("bench", "--param")
def _(call, option):
    found = call.result("--rounds", "1", option, "n=0.1:0.3:0.1", option, "m=a,b", "--metric", "x", "echo '{\"x\": {n}}' {m}; " + says("{n}"))
    assert [(v["parameters"], v["times"]) for v in found["variants"]] == [
        ({"n": n, "m": m}, [float(n)]) for n in ("0.1", "0.2", "0.3") for m in ("a", "b")]
    told = call.run("--rounds", "1", option, "threads=1", "echo {threads} {thread} ${x} {} | awk '{print}'").stderr
    assert told.count("is no --param") == 1 and "{thread} in" in told and "did you mean {threads}?" in told, told


@case(BOTH, "--input")
def _(call, option):
    call.few(option, call.write("in.txt", "from the file"), "cat > out.txt")
    assert call.read("out.txt") == "from the file"


@case("bench", "--show-output")
def _(call, option):
    assert call.run("--rounds", "2", option, "echo seen").stdout.count("seen\n") >= 3
    assert "seen\n" not in call.run("--rounds", "2", "echo seen").stdout.replace("echo seen\n", "")


@case("bench", "--keep-output")
def _(call, option):
    call.run("--rounds", "2", option, "kept", "echo one", "echo two")
    assert [call.read("kept/" + name) for name in ("A-0001.out", "B-0002.out")] == ["one\n", "two\n"]


@case("bench", "--same-output")
def _(call, option):
    words = ["--rounds", "6", "echo one", "echo two"]
    assert "output differs" in call.result(option, *words)["variants"][1]["withheld"]
    assert call.result(*words)["variants"][1]["withheld"] is None


@case(BOTH, "--ignore-failure")
def _(call, option):
    assert "exit code 3" in call.few("exit 3", status=1).stderr
    call.few(option, "exit 3")


# ---- commits ----


@case("bench", "--against")
def _(call, option):
    found = call.result(*repository(call), option, "HEAD~1", "sh work.in")
    assert [v["times"][0] for v in found["variants"]] == [2, 1] and verdicts(found) == ["faster"]


@case("bench", "--build")
def _(call, option):
    found = call.result(*repository(call), "--against", "HEAD~1", option, "cp work.in built", "sh built")
    assert [v["times"][0] for v in found["variants"]] == [2, 1] and not os.path.exists(call.path("built"))


@case("bench", "--commits")
def _(call, option):
    found = call.result(*repository(call), option, "HEAD~1..", "sh work.in")
    assert [c["subject"] for c in found["commits"]] == ["prints 2", "prints 1"]
    assert [c["benchmarks"][0]["verdict"] for c in found["commits"]] == [None, "faster"]


@case("bench", "--rebuild")
def _(call, option):
    words = [*repository(call), "--commits", "HEAD~1..", "--build", "echo x >> '%s'" % call.path("built"), "sh work.in"]
    for extra, count in (([], 2), ([], 2), ([option], 4)):
        call.result(*words, *extra)
        assert len(call.lines("built")) == count


@case("bench", "--every")
def _(call, option):
    words = repository(call)
    for i in range(3):
        git(call, "commit", "--allow-empty", "-qm", "more %d" % i)
    found = call.result(*words, "--commits", "HEAD~4..", option, "2", "sh work.in")
    assert [c["subject"] for c in found["commits"]] == ["prints 2", "more 0", "more 2"]


@case("bench", "--candidate")
def _(call, option):
    words = repository(call)
    call.write("work.in", says(7))
    git(call, "commit", "-qam", "prints 7")
    found = call.result(*words, "--against", "HEAD~2", option, "HEAD~1", "sh work.in")
    assert [v["times"][0] for v in found["variants"]] == [2, 1]


# ---- files ----


@case("bench", "--ladder")
def _(call, option):
    steps = "metric = 'x'\nrounds = 6\n" + "".join("[[step]]\nname = 's%d'\ncommand = '''%s'''\n" % (n, says(n)) for n in (4, 2, 1))
    found = call.result(option, call.write("steps.toml", steps))
    assert [v["times"][0] for v in found["variants"]] == [4, 2, 1]
    assert [(c["a"], c["b"], round(c["ratio"], 9)) for c in found["comparisons"][:2]] == [("s4", "s2", 0.5), ("s2", "s1", 0.5)]


@case("bench", "--suite")
def _(call, option):
    suite = "[[compare]]\nname = 'c'\na = '''%s'''\nb = '''%s'''\nmetric = 'x'\nrounds = 6\nat_least = 2\n" % (says(1), says(3))
    (row,) = json.loads(call.run("--json", option, call.write("suite.toml", suite)).stdout)["rows"]
    assert (row["name"], round(row["value"], 9), row["met"]) == ("c", 3, True)


@case("bench", "--log")
def _(call, option):
    call.run(*two(call), option, "PERF.md")
    call.run(*two(call), option, "PERF.md")
    assert len(call.lines("PERF.csv")) == 3 and call.read("PERF.md").count(", n=8 |") == 4


@case("bench", "--message")
def _(call, option):
    call.run(*two(call), "--log", "PERF.md", option, "what | changed")
    assert "what | changed" in call.read("PERF.csv") and "what \\| changed" in call.read("PERF.md")


# ---- design ----


@case("bench", "--rounds")
def _(call, option):
    assert [v["n"] for v in call.result(option, "7", "true", "true")["variants"]] == [7, 7]


@case("bench calibrate", "--rounds")
def _(call, option):
    counts = []
    for rounds in ("12", "24"):
        call.run(option, rounds, "echo . >> runs")
        counts.append(len(call.lines("runs")) - sum(counts))
    assert counts[1] >= counts[0] + 24 and counts[0] >= 24, counts


@case("bench", "--width")
def _(call, option):
    constant = call.result(option, "5%", "--metric", "x", says(1), says(2))
    assert 6 <= constant["variants"][0]["n"] < 20, constant["variants"][0]["n"]


@case("bench", "--max-rounds")
def _(call, option):
    noisy = "od -An -N2 -tu2 /dev/urandom | while read n; do %s; done" % says("'$((n + 9))'")
    found = call.result(option, "9", "--width", "0.01%", "--metric", "x", noisy, noisy)
    assert [v["n"] for v in found["variants"]] == [9, 9]


@case("bench", "--warmup")
def _(call, option):
    found = call.result(option, "4", "--rounds", "2", "echo . >> runs")
    assert found["warmup"] == 4 and len(call.lines("runs")) == 6


@case("bench calibrate", "--warmup")
def _(call, option):
    counts = []
    for warmup in ("0", "5"):
        call.few(option, warmup, "echo . >> runs")
        counts.append(len(call.lines("runs")) - sum(counts))
    assert counts[1] >= counts[0] + 5, counts


@case("bench", "--seed")
def _(call, option):
    orders = []
    for seed in ("7", "7", "8"):
        found = call.result(option, seed, "--warmup", "0", "--rounds", "20", *["echo %s >> order%d" % (x, len(orders)) for x in "abc"])
        assert found["seed"] == int(seed)
        orders.append(call.lines("order%d" % len(orders)))
    assert orders[0] == orders[1] != orders[2] and len(orders[0]) == 60


@case("bench calibrate", "--seed")
def _(call, option):
    found = [call.result("--rounds", "40", option, seed, "true") for seed in ("7", "7", "8")]
    orders = [one["series"][0]["sides"] for one in found]
    assert orders[0] == orders[1] != orders[2] and [one["seed"] for one in found] == [7, 7, 8]


@case("bench calibrate", "--time")
def _(call, option):
    found = call.result(option, "1s", "true")
    assert found["runs"] >= 12 and "wanted at least" in call.run(option, "10ms", "sleep 0.1", status=2).stderr


@case("bench calibrate", "--slower")
def _(call, option):
    found = call.result("--rounds", "12", "--metric", "x", says(2), option, says(3), option, says(5))
    assert [effect["truth"] for effect in found["effects"]] == [1, 1.5, 2.5]


@case("bench calibrate", "--hyperfine")
def _(call, option):
    if shutil.which("hyperfine"):
        found = call.result("--rounds", "12", option, "sleep 0.02")
        assert found["hyperfine"].startswith("hyperfine") and found["series"][-1]["kind"] == "hyperfine"
    else:
        assert "install hyperfine" in call.few(option, status=1).stderr


@case("bench calibrate", "--svg")
def _(call, option):
    call.few(option, "luck.svg", "true")
    assert xml.etree.ElementTree.parse(call.path("luck.svg")).getroot().tag.endswith("svg")


@case(BOTH, "--setup")
def _(call, option):
    call.few(option, "echo . >> setups", "cat setups >> runs")
    assert 1 <= len(call.lines("setups")) <= 4 and len(call.lines("runs")) >= 6


@case(BOTH, "--prepare")
def _(call, option):
    call.few(option, "echo ready > state", "grep -q ready state && echo . >> runs && echo used > state")
    assert len(call.lines("runs")) >= 7


@case(BOTH, "--conclude")
def _(call, option):
    call.few(option, "echo . >> after; rm busy", "echo . >> runs; test ! -e busy && touch busy")
    assert len(call.lines("after")) == len(call.lines("runs")) >= 7


@case(BOTH, "--cleanup")
def _(call, option):
    call.few(option, "cp runs seen; echo . >> cleanups", "echo . >> runs")
    assert call.lines("seen") == call.lines("runs") and 1 <= len(call.lines("cleanups")) <= 4
    call.few(option, "echo failed > after", "false", status=1)
    assert call.lines("after") == ["failed"]


@case("bench", "--quiet-machine")
def _(call, option):
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count())]
    try:
        found = call.result(option, "1%", "--rounds", "2", "sleep 0.1")
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert found["retaken"] > 0, found["retaken"]


# ---- measure, limits ----


@case("bench", "--count")
def _(call, option):
    found = call.result("--rounds", "2", option, "true")
    names = [m["name"] for m in found["metrics"]]
    assert "instructions" in names, names
    told = any("instructions were not counted" in note for note in found["notes"])
    assert told != any(found["variants"][0]["measures"]["instructions"]), found


@case("bench", "--count-runs")
def _(call, option):
    found = call.result("--rounds", "3", "--count-with", "valgrind", option, "2", "true")
    counts = [x for x in found["variants"][0]["measures"]["instructions"] if x]
    assert len(counts) == 2 or any("no valgrind" in note for note in found["notes"]), found


@case("bench", "--count-with")
def _(call, option):
    found = call.result("--rounds", "1", option, "valgrind", "true")
    assert found.get("counted", "").startswith("cachegrind") or any("no valgrind" in note for note in found["notes"]), found


@case("bench", "--metric")
def _(call, option):
    found = call.result("--rounds", "2", option, "a.b", "echo noise; echo '{\"a\": {\"b\": 7}}'")
    assert found["metric"]["name"] == "a.b" and found["variants"][0]["times"] == [7, 7]


@case("bench calibrate", "--metric")
def _(call, option):
    noisy = "od -An -N2 -tu2 /dev/urandom | while read n; do %s; done" % says("'$((n + 9))'")
    call.few(option, "x", noisy)
    assert "no JSON object with a number 'x'" in call.few(option, "x", "true", status=1).stderr


@case("bench", "--unit")
def _(call, option):
    assert "1 points" in call.run("--rounds", "2", "--metric", "x", option, "points", says(1)).stdout
    assert "less is better" in call.run(option, "points", "true", status=2).stderr


@case("bench", "--higher-is-better")
def _(call, option):
    assert verdicts(call.result(option, *two(call))) == ["faster"] and verdicts(call.result(*two(call))) == ["slower"]
    assert "less is better" in call.run(option, "--metric", "rss", "true", status=2).stderr


@case(BOTH, "--cpus")
def _(call, option):
    call.few(option, "1", "nproc > cores")
    assert call.lines("cores") == ["1"]


@case(BOTH, "--memory")
def _(call, option):
    big = "%s -c 'len(bytearray(400000000))'" % sys.executable
    assert "memory" in call.few(option, "64M", big, status=1).stderr.lower()
    call.few(option, "2G", "true")


@case(BOTH, "--timeout")
def _(call, option):
    began = time.monotonic()
    assert "longer than" in call.few(option, "100ms", "sleep 100", status=1).stderr
    assert time.monotonic() - began < 60


# ---- verdict ----


@case(JUDGING, "--confidence")
def _(call, option):
    found = call.result(option, "99%", *two(call))
    assert found["confidence"] == 0.99 and call.result(*two(call))["confidence"] == 0.95
    assert "99 % CI" in call.run(option, "99%", *two(call)).stdout


@case(JUDGING, "--min-effect")
def _(call, option):
    assert verdicts(call.result(*two(call))) == ["slower"]
    assert verdicts(call.result(option, "20%", *two(call))) == ["equivalent"]


@case(JUDGING, "--margin")
def _(call, option):
    near = two(call, 1.0, 1.01)
    assert verdicts(call.result(option, "0.5%", *near)) != ["equivalent"] == verdicts(call.result(option, "5%", *near))


@case(JUDGING, "--fail-over")
def _(call, option):
    assert "slower by 10 %" in call.run(option, "5%", *two(call), status=3).stderr
    call.run(option, "15%", *two(call))


# ---- output ----


@case(JUDGING, "--json")
def _(call, option):
    found = json.loads(call.run(option, *two(call)).stdout)
    assert found["stoker"] == "bench" and len(found["variants"]) == 2 and verdicts(found) == ["slower"]


@case(JUDGING, "--svg")
def _(call, option):
    call.run(option, "chart.svg", *two(call))
    assert xml.etree.ElementTree.parse(call.path("chart.svg")).getroot().tag.endswith("svg")
    assert "<svg" in call.run(option, "-", *two(call)).stdout


def formats(call, command, option):
    """The words that the help of an option lists."""
    text = re.sub(r"\s+", " ", call.run(command, command="help").stdout if " " not in command else call.run(*command.split(), command="help").stdout)
    return re.search(option + r" \S+ [^;(]*?one of: ([a-z0-9]+(?:, [a-z0-9]+)+)", text).group(1).split(", ")


# How each format begins.
BEGINS = {"stoker": '{"stoker":"bench"', "hyperfine": '{\n  "results"', "hyperfine2": '{\n  "schema_version": 2', "pyperf": '{"benchmarks"',
          "google": '{\n  "context"', "go": "Unit ", "csv": "variant,command,round", "markdown": "| | variant |", "github": '[\n  {"name"',
          "bencher": '{\n  "'}


@case(JUDGING, "--export")
def _(call, option):
    words = formats(call, call.command, option)
    assert set(words) == set(BEGINS), words
    call.run(*[part for word in words for part in (option, word + "=out." + word)], *two(call))
    for word in words:
        text = call.read("out." + word)
        assert text.startswith(BEGINS[word]) or word in ("pyperf", "google", "go"), (word, text[:100])
        assert ("old" if call.command == "bench compare" else "1.1") in text, word
        if word not in ("csv", "markdown", "go"):
            json.loads(text)


@case(JUDGING, "--into")
def _(call, option):
    call.write("page.md", "before\n<!-- bench -->\nold text\n<!-- end bench -->\nafter\n")
    call.run(option, "page.md", *two(call))
    text = call.read("page.md")
    assert text.startswith("before\n<!-- bench -->\n") and text.endswith("<!-- end bench -->\nafter\n")
    assert "| B/A |" in text and "old text" not in text


@case(JUDGING, "--section")
def _(call, option):
    call.write("page.md", "<!-- bench -->\nkept\n<!-- end bench -->\n<!-- speed -->\n<!-- end speed -->\n")
    call.run("--into", "page.md", option, "speed", *two(call))
    assert "kept\n" in call.read("page.md") and call.read("page.md").index("<!-- speed -->") < call.read("page.md").index("| B/A |")


def on_terminal(call, *arguments):
    """What appears on standard error when that is a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([call.program, *call.command.split(), *arguments], cwd=call.directory, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=theirs, env=dict(os.environ, XDG_CACHE_HOME=call.path("cache"), TERM="xterm"))
    os.close(theirs)
    seen = b""
    while True:
        ready, _, _ = select.select([ours], [], [], 60)
        try:
            piece = os.read(ours, 4096) if ready else b""
        except OSError:  # the other end has closed
            piece = b""
        if not piece:
            break
        seen += piece
    os.close(ours)
    assert process.wait() == 0, seen
    return seen.decode(errors="replace")


@case(JUDGING + ("bench calibrate",), "--quiet")
def _(call, option):
    words = two(call) if call.command == "bench compare" else ["--rounds", "12", "sleep 0.02"]
    word = "calibrate: " if call.command == "bench calibrate" else "round"
    assert word in on_terminal(call, *words) or call.command == "bench compare"
    assert word not in on_terminal(call, option, *words)


@case("bench calibrate", "--json")
def _(call, option):
    assert "machine" in json.loads(call.few(option, "true").stdout)


# ---- reading ----


@case("bench compare", "--read-as")
def _(call, option):
    words = formats(call, call.command, option)
    assert len(words) >= 7 and "go" in words and "pytest" in words
    call.run(option, "stoker", saved(call))
    assert "no values of single runs" in call.run(option, "go", saved(call), status=2).stderr
    for word in set(words) - {"stoker", "go"}:
        assert "is not there, wanted" in call.run(option, word, saved(call), status=1).stderr, word


@case("bench convert", "--read-as")
def _(call, option):
    call.run(option, "stoker", "--to", "go", saved(call))
    assert "results is not there" in call.run(option, "hyperfine", "--to", "go", saved(call), status=1).stderr


@case("bench convert", "--to")
def _(call, option):
    words = formats(call, call.command, option)
    assert set(words) == set(BEGINS), words
    texts = {call.run(option, word, saved(call)).stdout for word in words}
    assert len(texts) == len(words) and all("new" in text for text in texts)


@case("bench convert", "--output")
def _(call, option):
    assert call.run("--to", "csv", option, "out.csv", saved(call)).stdout == ""
    assert len(call.lines("out.csv")) == 17


# ---- history ----


def logged(call):
    for x in (2, 1):
        call.run("--rounds", "6", "--metric", "seconds", "-n", "work", "--log", "PERF.md", says(x, "seconds"), command="bench")


@case("bench history", "--json")
def _(call, option):
    logged(call)
    rows = json.loads(call.run(option).stdout)["rows"]
    assert [row["benchmarks"]["work"]["mean"] for row in rows] == [2, 1]


@case("bench history", "--svg")
def _(call, option):
    logged(call)
    call.run(option, "chart.svg")
    assert xml.etree.ElementTree.parse(call.path("chart.svg")).getroot().tag.endswith("svg")


def series(call):
    """Twenty rows, of which `parse` is 10 % slower in the last eight, and `size` never changes."""
    rows = ["2026-01-%02d,c%d,%g,%g" % (i + 1, i, (100 if i < 12 else 110) + (0, 0.4, -0.3)[i % 3], 50 + (0, 0.1)[i % 2]) for i in range(20)]
    return call.write("numbers.csv", "time,commit,parse,size\n" + "\n".join(rows) + "\n")


def changes(call, *arguments):
    return json.loads(call.run("--json", series(call), *arguments).stdout)["changes"]


@case("bench history", "--benchmark")
def _(call, option):
    assert [item["benchmark"] for item in changes(call)] == ["parse"]
    assert changes(call, option, "size") == []


@case("bench history", "--since")
def _(call, option):
    assert [item["commit"] for item in changes(call, option, "2026-01-05")] == ["c12"]
    assert changes(call, option, "2026-01-15") == []


@case("bench history", "--last")
def _(call, option):
    found = json.loads(call.run("--json", series(call), option, "3").stdout)
    assert [row["commit"] for row in found["rows"]] == ["c17", "c18", "c19"] and found["changes"] == []


@case("bench history", "--min-effect")
def _(call, option):
    assert len(changes(call, option, "5%")) == 1 and changes(call, option, "20%") == []


@case("bench history", "--fail-over")
def _(call, option):
    call.run(series(call), option, "20%")
    call.run(series(call), option, "5%", status=3)


@case("bench history", "--higher-is-better")
def _(call, option):
    assert changes(call)[0]["worse"] is True
    assert changes(call, option)[0]["worse"] is False


# ---- all of them ----


def show_help(call, option):
    assert call.run(option).stdout == call.run(*call.command.split(), command="help").stdout != ""


def all_options(program):
    """(command, option) to its spellings, as the help lists them."""
    listed = subprocess.run([program, "help"], capture_output=True, text=True, check=True).stdout
    found = {}
    for command in re.findall(r"^  (bench(?: [a-z]+)?)  ", listed, re.M):
        text = subprocess.run([program, "help", *command.split()], capture_output=True, text=True, check=True).stdout
        for letter, option in OPTION.findall(text):
            found[command, option] = [option] + ([letter] if letter else [])
            if option == "--help":
                CASES.setdefault((command, option), show_help)
    return found


def test_every_option_has_a_case(program, directory):
    options = all_options(program)
    assert len({command for command, _ in options}) >= 5 and len(options) > 70, options
    assert not set(options) - set(CASES), "no case for %s" % sorted(set(options) - set(CASES))
    assert not set(CASES) - set(options), "there is no %s" % sorted(set(CASES) - set(options))


def test_every_option_has_its_effect(program, directory):
    failed = []
    for (command, option), spellings in sorted(all_options(program).items()):
        for spelling in spellings if (command, option) in CASES else []:
            with tempfile.TemporaryDirectory(dir=directory) as own:
                try:
                    CASES[command, option](Call(program, command, own), spelling)
                except Exception as error:  # all are to be run
                    failed.append("%s %s: %s: %s" % (command, spelling, type(error).__name__, error))
    assert not failed, "\n".join(failed)


def test_man_page_and_completion_know_every_option(program, directory):
    man = subprocess.run([program, "help", "--man"], capture_output=True, text=True, check=True).stdout.replace("\\-", "-")
    bash = subprocess.run([program, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    for _, option in all_options(program):
        assert option in man and option in bash, option


def test_guide_has_every_format(program, directory):
    with open(os.path.join(REPOSITORY, "docs", "guide", "benchmarks.md"), encoding="utf-8") as file:
        rows = re.findall(r"^\| `([a-z0-9]+)`[^|\n]*\|([^|\n]*)\|[^|\n]*\|([^|\n]*)\|[^|\n]*\|$", file.read(), re.M)
    call = Call(program, "bench compare", directory)
    assert {name for name, written, _ in rows if written.strip() != "-"} == set(formats(call, "bench compare", "--export"))
    assert {name for name, _, read in rows if read.strip() != "-"} == set(formats(call, "bench compare", "--read-as"))


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, program, directory: test(program, directory)))
