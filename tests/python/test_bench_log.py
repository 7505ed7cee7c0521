#!/usr/bin/env python3
"""The change log of `stoker bench --log`: rows by commit, read back by the csv module and by Apache Otava.

Usage: test_bench_log.py BUILD_DIR. Needs git; exits with 77 without it. What Otava says is judged where the package
apache-otava is installed beside the Python that runs this.
"""
import csv
import json
import os
import shutil
import subprocess
import sys

import runlib

OTAVA = os.path.join(os.path.dirname(sys.executable), "otava")
FIXED = ["time", "commit", "parent", "dirty", "machine", "limits", "description", "confidence"]
OF_BENCHMARK = ["", "_sd", "_n", "_metric", "_unit", "_direction", "_limits", "_against", "_ratio", "_low", "_high", "_p",
                "_paired", "_verdict"]
OF_PAIR = ["", "_low", "_high", "_p", "_paired", "_verdict"]
HERE = os.path.dirname(os.path.abspath(__file__))
OLD_LOG = os.path.join(HERE, "..", "data", "bench_log")
EXAMPLE = os.path.join(HERE, "..", "..", "examples", "perf.toml")
ROWS, STEP = 40, 20  # the second half is 20 % slower

OTAVA_YAML = """\
tests:
  perf:
    type: csv
    file: PERF.csv
    time_column: time
    attributes: [commit, description]
    metrics:
"""
# One that runs always, one that a commit can make slower, a rate, and a single run.
SUITE = """\
rounds = 8
warmup = 0

[[measure]]
name = "decode"
command = "cat decode"
metric = "cost"
unit = "s"

[[measure]]
name = "rate"
command = "cat rate"
metric = "samples_per_s"

[[measure]]
name = "training"
command = "cat training"
metric = "train_s"
rounds = 1
"""
COMPARE = """
[[compare]]
name = "sort"
a = "echo '{\\"t\\": 2}'"
b = "echo '{\\"t\\": 3}'"
a_name = "ours"
b_name = "theirs"
metric = "t"
unit = "s"
at_least = 1.4
"""


class Scratch:
    """A repository of its own, and the program in it."""

    def __init__(self, program, directory):
        self.program, self.directory = program, directory
        # Nothing of the user's settings; who commits is said in the scratch repository alone.
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        self.env.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1",
                        GIT_CEILING_DIRECTORIES=os.path.dirname(directory), HOME=directory,
                        XDG_CACHE_HOME=directory, LC_ALL="C.UTF-8")

    def run(self, *command, code=0):
        done = subprocess.run(command, cwd=self.directory, env=self.env, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
        return done

    def start(self):
        self.run("git", "init", "-q", ".")
        self.run("git", "config", "user.name", "Test")
        self.run("git", "config", "user.email", "test@localhost")

    def commit(self, text):
        with open(os.path.join(self.directory, "source"), "w", encoding="utf-8") as file:
            file.write(text)
        self.run("git", "add", "source")
        self.run("git", "commit", "-q", "-m", text)
        return self.run("git", "rev-parse", "HEAD").stdout.strip()

    def bench(self, lazy, stored, *more, code=0):
        """One row, of what two commands say that they cost."""
        commands = ["echo '{\"cost\": %r}'" % x for x in (lazy, stored)]
        return self.run(self.program, "bench", *commands, "--name", "lazy", "--name", "stored", "--rounds", "6",
                        "--warmup", "0", "--quiet", "--metric", "cost", "--unit", "s", "--log", "PERF.md",
                        *more, code=code)

    def write(self, name, text):
        with open(os.path.join(self.directory, name), "w", encoding="utf-8", newline="") as file:
            file.write(text)

    def costs(self, text, decode=1.0, rate=100, training=15.0):
        """A commit whose benchmarks cost that much."""
        self.write("decode", json.dumps({"cost": decode}))
        self.write("rate", json.dumps({"samples_per_s": rate}))
        self.write("training", json.dumps({"train_s": training}))
        self.run("git", "add", ".")
        return self.commit(text)

    def suite(self, *more, code=0):
        return self.run(self.program, "bench", "--quiet", "--suite", "perf.toml", *more, code=code)

    def otava(self, **directions):
        self.write("otava.yaml", OTAVA_YAML + "".join("      %s:\n        direction: %d\n" % item
                                                     for item in directions.items()))
        done = self.run(OTAVA, "analyze", "perf", "--config-file", "otava.yaml", "--output", "json")
        return json.loads(done.stdout)["perf"]

    def text(self, name):
        with open(os.path.join(self.directory, name), encoding="utf-8", newline="") as file:
            return file.read()

    def rows(self):
        return list(csv.DictReader(self.text("PERF.csv").splitlines()))

    def table(self):
        return [line for line in self.text("PERF.md").splitlines() if line.startswith("| 2")]


def test_rows_by_commit(s):
    s.start()
    first = s.commit("one")
    s.bench(1.0, 0.9, "-m", "a | b, \"c\"\nd")
    second = s.commit("two")
    before = s.text("PERF.md"), s.text("PERF.csv")
    s.bench(2.0, 1.8)
    assert s.text("PERF.md").startswith(before[0]) and s.text("PERF.csv").startswith(before[1])
    with open(os.path.join(s.directory, "source"), "a", encoding="utf-8") as file:
        file.write("more")
    s.bench(2.0, 1.0, "-m", "changed")
    rows, table = s.rows(), s.table()
    assert list(rows[0]) == FIXED + ["lazy" + x for x in OF_BENCHMARK] + ["stored" + x for x in OF_BENCHMARK] + [
        "stored/lazy" + x for x in OF_PAIR]
    places = [(r["commit"], r["parent"], r["dirty"]) for r in rows]
    assert places == [(first, "", "0"), (second, first, "0"), (second, first, "1")]
    assert [r["description"] for r in rows] == ["a | b, \"c\" d", "two", "changed"]
    assert [float(r["lazy"]) for r in rows] == [1, 2, 2] and rows[0]["lazy_n"] == "6" and float(rows[0]["lazy_sd"]) == 0
    assert rows[0]["stored/lazy_verdict"] == "faster" and rows[0]["stored/lazy_paired"] == "1"
    assert abs(float(rows[0]["stored/lazy"]) - 0.9) < 1e-9
    assert rows[0]["lazy_metric"] == "cost" and rows[0]["lazy_unit"] == "s" and rows[0]["lazy_direction"] == "-1"
    assert rows[1]["lazy_ratio"] == "2" and rows[1]["lazy_paired"] == "0" and rows[1]["lazy_verdict"] == ""
    assert rows[1]["lazy_against"] == first[:7] and rows[2]["lazy_against"] == second[:7]
    assert len(table) == 3 and "; ratio 2.00 |" in table[1] and first[:7] + ", unpaired" in table[1], table[1]
    assert all(row.count("|") - row.count("\\|") == 9 for row in table), table


def test_without_git_and_with_another_log(s):
    done = s.bench(1.0, 0.9, "-m", "no commit")
    assert s.rows()[0]["commit"] == "" and "| - |" in s.table()[0], done.stderr
    # Other benchmarks get columns; another metric of one that is there is refused.
    s.run(s.program, "bench", "true", "--name", "a", "--rounds", "6", "--quiet", "--log", "PERF.md")
    rows = s.rows()
    assert len(rows) == 2 and rows[0]["a"] == "" and rows[1]["lazy"] == "" and float(rows[1]["a"]) > 0
    done = s.run(s.program, "bench", "echo ran >ran", "--name", "lazy", "--rounds", "6", "--quiet", "--log", "PERF.md",
                 code=2)
    assert "'lazy' by 'cost'" in done.stderr and not os.path.exists(os.path.join(s.directory, "ran")), done.stderr
    assert len(s.rows()) == 2


def test_damage_is_refused(s):
    s.bench(1.0, 0.9, "-m", "first")
    page = s.text("PERF.md")
    s.write("PERF.md", page.replace("| first |", "first"))
    done = s.bench(1.0, 0.9, code=1)
    assert "PERF.md" in done.stderr and "line 9" in done.stderr, done.stderr
    assert len(s.rows()) == 1


def test_suite_has_a_column_for_every_benchmark(s):
    s.start()
    s.write("perf.toml", SUITE)
    first = s.costs("one")
    s.suite("--log", "PERF.md", "-m", "first row")
    s.write("perf.toml", SUITE + COMPARE)
    second = s.costs("two", decode=1.5, rate=50, training=12.0)
    done = s.suite("--log", "PERF.md")
    assert "ours is 1.500 times as fast as theirs" in done.stdout and "B/A 1.500" in done.stdout, done.stdout
    rows = s.rows()
    assert [r["commit"] for r in rows] == [first, second] and rows[0]["description"] == "first row"
    assert list(rows[0]) == FIXED + [
        b + x for b in ("decode", "rate", "training", "sort ours", "sort theirs") for x in OF_BENCHMARK] + [
            "sort theirs/ours" + x for x in OF_PAIR]
    now = rows[1]
    assert (now["decode_unit"], now["rate_unit"], now["training_unit"]) == ("s", "samples/s", "s")
    assert (now["decode_metric"], now["rate_metric"], now["training_metric"]) == ("cost", "samples_per_s", "train_s")
    assert (now["decode_direction"], now["rate_direction"]) == ("-1", "1")
    assert (now["decode_n"], now["training_n"], now["training_sd"]) == ("8", "1", "")
    # Each against its own past, and the neighbour only where the file asks for it.
    assert (now["decode_ratio"], now["rate_ratio"], now["training_ratio"]) == ("1.5", "0.5", "0.8")
    assert (now["training_low"], now["training_p"], now["training_verdict"]) == ("", "", "")
    assert now["sort theirs/ours"] == "1.5" and now["sort ours_ratio"] == "" and rows[0]["sort ours"] == ""
    table = s.table()
    assert "| 12.0 s, n=1; ratio 0.800 |" in table[1], table
    assert table[1].count("ratio 1.500") == 1 and table[1].count("| 1.500 (") == 1, table  # each ratio stands once
    for line in done.stdout.splitlines():
        if line.split()[:1] == ["training"]:
            assert "a single run has no interval" in line, line
    # One that is lost leaves its cell empty, and its past stays.
    s.write("perf.toml", SUITE.replace("decode", "other").replace("cat other", "cat decode"))
    third = s.costs("three")
    s.suite("--log", "PERF.md")
    last = s.rows()[2]
    assert last["decode"] == "" and last["other"] == "1" and last["rate_against"] == second[:7], last
    assert last["commit"] == third and "| - |" in s.table()[2]
    found = json.loads(s.run(s.program, "bench", "history", "--json").stdout)
    names = {b["name"]: b for b in found["benchmarks"]}
    assert names["rate"]["higher_is_better"] is True and names["training"]["unit"] == "s"
    assert found["rows"][1]["benchmarks"]["rate"]["ratio"] == 0.5
    assert "decode" not in found["rows"][2]["benchmarks"]
    assert found["rows"][1]["comparisons"]["sort theirs/ours"]["verdict"] == "slower"


def test_suite_that_fails_in_part_is_logged_in_part(s):
    s.start()
    s.write("perf.toml", SUITE.replace("cat rate", "false"))
    s.costs("one")
    done = s.suite("--log", "PERF.md", code=1)
    assert "rate: did not run" in done.stdout and "added a row" in done.stderr, done
    rows = s.rows()
    assert rows[0]["decode"] == "1" and "rate" not in rows[0]


def test_suite_against_a_commit(s):
    s.start()
    s.write("perf.toml", SUITE + COMPARE)
    first = s.costs("one")
    second = s.costs("two", decode=1.5, rate=200)
    done = s.suite("--against", "HEAD~1", "--build", "test -f decode", "--log", "PERF.md", "--fail-over", "5%", code=3)
    assert "decode is slower by 50 %" in done.stderr and "rate is slower" not in done.stderr, done.stderr
    assert "hold for all 4 together (Holm)" in done.stdout, done.stdout
    row = s.rows()[0]
    assert row["commit"] == second and row["parent"] == first
    verdicts = [row[b + "_verdict"] for b in ("decode", "rate", "training", "sort ours", "sort theirs")]
    assert verdicts == ["slower", "faster", "inconclusive", "equivalent", "equivalent"], verdicts
    assert row["decode_against"] == first[:7] and row["decode_paired"] == "1"
    assert row["training_ratio"] == "1" and row["training_low"] == ""
    assert first[:7] + ", paired" in s.table()[0] and s.table()[0].count("paired") == 1
    # Holm over four that can have a verdict: the smallest p of 8 rounds, 2/256, four times.
    assert abs(float(row["decode_p"]) - 4 * 2 / 256 / 0.8) < 1e-9, row["decode_p"]
    result = json.loads(s.suite("--against", "HEAD~1", "--json").stdout)
    assert result["against"] == first[:7] and result["candidate"] == second[:7]
    decode = result["rows"][0]["result"]
    assert [v["times"] for v in decode["variants"]] == [[1.0] * 8, [1.5] * 8]
    assert decode["comparisons"][0]["verdict"] == "slower" and decode["comparisons"][0]["metric"] == "cost"
    assert [len(r["result"]["comparisons"]) for r in result["rows"]] == [1, 1, 1, 3]
    assert s.run("git", "worktree", "list").stdout.count("\n") == 1
    # Nothing is slower: the gate is open, and says what it cannot tell.
    done = s.suite("--against", "HEAD", "--candidate", "HEAD~1", "--fail-over", "60%", code=3)
    assert "rate is slower by 100 %" in done.stderr, done.stderr
    done = s.suite("--against", "HEAD~1", "--fail-over", "60%")
    assert "1 benchmark is inconclusive" in done.stderr, done.stderr
    done = s.suite("--against", "HEAD", code=2)
    assert "nothing to compare" in done.stderr


def test_suite_is_one_result_for_other_tools(s):
    s.start()
    s.write("perf.toml", SUITE + COMPARE)
    s.costs("one")
    done = s.suite("--export", "stoker=all.json", "--export", "github=github.json", "--export", "pyperf=pyperf.json",
                   "--export", "hyperfine=hyperfine.json", "--export", "go=go.txt", "--export", "google=google.json")
    assert "have another metric than wall" in done.stderr, done.stderr
    names = ["decode", "rate", "training", "sort ours", "sort theirs"]
    whole = json.loads(s.text("all.json"))
    assert [v["name"] for v in whole["variants"]] == names and [v["n"] for v in whole["variants"]] == [8, 8, 1, 8, 8]
    assert whole["variants"][1]["measures"]["samples_per_s"] == [100] * 8 and whole["paired"] is True
    github = json.loads(s.text("github.json"))
    assert [(g["name"], g["unit"], g["value"]) for g in github[:3]] == [
        ("decode", "s", 1), ("rate", "samples/s", 100), ("training", "s", 15)], github
    assert "one direction for a file" in done.stderr
    pyperf = json.loads(s.text("pyperf.json"))["benchmarks"]
    assert [b["metadata"]["name"] for b in pyperf] == names and pyperf[1]["runs"][0]["values"] == [100]
    assert len(json.loads(s.text("hyperfine.json"))["results"]) == 5
    assert len({b["name"] for b in json.loads(s.text("google.json"))["benchmarks"]}) == 5
    again = json.loads(s.run(s.program, "bench", "compare", "--json", "all.json").stdout)
    assert [(c["b"], c["a"]) for c in again["comparisons"]] == [("sort theirs", "sort ours")]


def test_example_runs_as_it_stands(s):
    s.start()
    os.mkdir(os.path.join(s.directory, "examples"))
    shutil.copy(EXAMPLE, os.path.join(s.directory, "examples"))
    s.run("git", "add", "examples")
    s.commit("one")
    s.run(s.program, "bench", "-q", "--suite", "examples/perf.toml", "--log", "PERF.md")
    row = s.rows()[0]
    assert row["training"] == "15.25" and row["training_n"] == "1" and row["training_sd"] == ""
    assert row["sort_n"] == "12" and row["sort memory_unit"] == "bytes" and row["loader_unit"] == "samples/s"
    assert row["reverse sort -r/tac_verdict"]


def test_page_that_lacks_a_row_is_mended(s):
    """What a kill between both files leaves behind."""
    s.start()
    s.write("perf.toml", SUITE)
    s.costs("one")
    s.suite("--log", "PERF.md")
    one = s.text("PERF.md")
    s.write("perf.toml", SUITE + COMPARE)
    s.costs("two")
    s.suite("--log", "PERF.md")
    two = s.text("PERF.md")
    s.write("PERF.md", one)
    done = s.run(s.program, "bench", "history")
    assert "PERF.md lacked 1 row of PERF.csv" in done.stderr and s.text("PERF.md") == two, done.stderr
    assert "lacked" not in s.run(s.program, "bench", "history").stderr
    s.write("PERF.md", one)
    done = s.suite("--log", "PERF.md")
    assert "lacked 1 row" in done.stderr and len(s.table()) == 3 and s.text("PERF.md").startswith(two), done.stderr
    os.unlink(os.path.join(s.directory, "PERF.md"))
    done = s.run(s.program, "bench", "history")
    assert "lacked 3 rows" in done.stderr and len(s.table()) == 3, done.stderr


def test_log_of_version_1(s):
    for name in ("PERF.md", "PERF.csv"):
        shutil.copy(os.path.join(OLD_LOG, name), s.directory)
    old = s.text("PERF.md"), s.text("PERF.csv")
    found = json.loads(s.run(s.program, "bench", "history", "--json").stdout)
    assert (s.text("PERF.md"), s.text("PERF.csv")) == old
    rows = found["rows"]
    assert [b["name"] for b in found["benchmarks"]] == ["lazy", "stored"] and len(rows) == 4
    assert rows[0]["comparisons"]["stored/lazy"]["verdict"] == "faster"
    assert rows[2]["benchmarks"]["lazy"]["against"] == "HEAD~1" and rows[2]["benchmarks"]["lazy"]["paired"] is True
    assert rows[3]["comparisons"]["lazy/stored"]["verdict"] == "slower" and rows[3]["dirty"] is True
    done = s.bench(1.0, 0.9, "-m", "new")
    assert "version 2" in done.stderr, done.stderr
    assert (s.text("PERF.v1.md"), s.text("PERF.v1.csv")) == old
    rows = s.rows()
    was = list(csv.DictReader(old[1].splitlines()))
    assert len(rows) == 5 and len(s.table()) == 5
    for before, after in zip(was, rows):
        for column in ("time", "commit", "parent", "dirty", "machine", "description", "lazy", "lazy_n", "stored"):
            assert before[column] == after[column], (column, before, after)
    assert json.loads(s.run(s.program, "bench", "history", "PERF.v1.md", "--json").stdout)["rows"] == found["rows"]


def test_two_runs_at_once(s):
    s.start()
    s.costs("one")
    s.write("perf.toml", SUITE)
    s.write("other.toml", SUITE.replace('"rate"', '"speed"'))
    command = [s.program, "bench", "--quiet", "--log", "PERF.md", "--suite"]
    runs = [subprocess.Popen(command + [name], cwd=s.directory, env=s.env, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)
            for name in ("perf.toml", "other.toml") * 4]
    for run in runs:
        error = run.communicate(timeout=120)[1]
        assert run.returncode == 0, error
    rows = s.rows()
    assert len(rows) == 8 and len(s.table()) == 8
    assert sorted((r["rate"], r["speed"]) for r in rows) == [("", "100")] * 4 + [("100", "")] * 4
    assert len(json.loads(s.run(s.program, "bench", "history", "--json").stdout)["rows"]) == 8


def test_otava_finds_the_step(s):
    s.start()
    commits = []
    for i in range(ROWS):
        noise = 1 + 0.01 * ((i * 7) % 5 - 2)  # of 2 % at most
        commits.append(s.commit("change %d" % i))
        s.bench(0.5 * noise * (1.2 if i >= STEP else 1), 0.4 * noise)
    assert [r["commit"] for r in s.rows()] == commits and len(s.table()) == ROWS
    points = s.otava(lazy=-1, stored=-1)
    assert len(points) == 1, points
    assert points[0]["attributes"]["commit"] == commits[STEP], points
    changes = points[0]["changes"]
    assert len(changes) == 1 and changes[0]["metric"] == "lazy", changes
    assert abs(float(changes[0]["forward_change_percent"]) - 20) < 2, changes


def test_otava_reads_a_suite(s):
    """Benchmarks of different units, one of which is of single runs; another came later."""
    s.start()
    s.write("perf.toml", SUITE)
    commits = []
    for i in range(ROWS):
        noise = 1 + 0.01 * ((i * 7) % 5 - 2)
        commits.append(s.costs("change %d" % i, decode=noise, rate=100 * noise * (1 if i < STEP else 1.5),
                               training=15 * noise * (1 if i < STEP + 5 else 0.5)))
        if i == 10:
            s.write("perf.toml", SUITE + COMPARE)
        s.suite("--log", "PERF.md")
    points = {p["attributes"]["commit"]: p["changes"] for p in s.otava(decode=-1, rate=1, training=-1)}
    assert set(points) == {commits[STEP], commits[STEP + 5]}, points
    assert [c["metric"] for c in points[commits[STEP]]] == ["rate"]
    assert [c["metric"] for c in points[commits[STEP + 5]]] == ["training"]


def call(test, program, directory):
    test(Scratch(program, directory))


if __name__ == "__main__":
    if not shutil.which("git"):
        print("skipped: no git\n0 passed, 0 failed, 1 skipped")
        sys.exit(77)
    stoker = os.path.join(os.path.abspath(sys.argv[1]), "stoker")
    if subprocess.run([stoker, "bench", "--help"], capture_output=True, timeout=60).returncode:
        print("skipped: the program has no command 'bench'\n0 passed, 0 failed, 1 skipped")
        sys.exit(77)
    tests = dict(globals())
    if not os.access(OTAVA, os.X_OK):
        print("without Otava: no %s (wanted the PyPI package apache-otava)" % OTAVA)
        tests = {name: test for name, test in tests.items() if not name.startswith("test_otava")}
    sys.exit(runlib.main(tests, call))
