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
FIXED = ["time", "commit", "parent", "dirty", "machine", "limits", "description"]
TAIL = ["compared", "ratio", "ci_low", "ci_high", "p", "paired", "verdict", "metric", "unit"]
ROWS, STEP = 40, 20  # the second half is 20 % slower

OTAVA_YAML = """\
tests:
  perf:
    type: csv
    file: PERF.csv
    time_column: time
    attributes: [commit, description]
    metrics:
      lazy:
        direction: -1
      stored:
        direction: -1
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
    assert list(rows[0]) == FIXED + ["lazy", "lazy_sd", "lazy_n", "stored", "stored_sd", "stored_n"] + TAIL
    places = [(r["commit"], r["parent"], r["dirty"]) for r in rows]
    assert places == [(first, "", "0"), (second, first, "0"), (second, first, "1")]
    assert [r["description"] for r in rows] == ["a | b, \"c\" d", "two", "changed"]
    assert [float(r["lazy"]) for r in rows] == [1, 2, 2] and rows[0]["lazy_n"] == "6" and float(rows[0]["lazy_sd"]) == 0
    assert rows[0]["compared"] == "stored/lazy" and rows[0]["verdict"] == "faster"
    assert abs(float(rows[0]["ratio"]) - 0.9) < 1e-9
    assert rows[0]["paired"] == "1" and rows[0]["metric"] == "cost" and rows[0]["unit"] == "s"
    assert len(table) == 3 and "2.00 unpaired" in table[1], table[1]
    assert all(row.count("|") - row.count("\\|") == 11 for row in table), table


def test_without_git_and_with_another_log(s):
    done = s.bench(1.0, 0.9, "-m", "no commit")
    assert s.rows()[0]["commit"] == "" and "| - |" in s.table()[0], done.stderr
    done = s.run(s.program, "bench", "true", "echo", "--name", "a", "--name", "b", "--rounds", "6", "--quiet",
                 "--log", "PERF.md", code=2)
    assert "lazy, stored" in done.stderr, done.stderr
    assert len(s.rows()) == 1


def test_damage_is_refused(s):
    s.bench(1.0, 0.9, "-m", "first")
    page = s.text("PERF.md")
    with open(os.path.join(s.directory, "PERF.md"), "w", encoding="utf-8") as file:
        file.write(page.replace("| first |", "first"))
    done = s.bench(1.0, 0.9, code=1)
    assert "PERF.md" in done.stderr and "line 9" in done.stderr, done.stderr
    assert len(s.rows()) == 1


def test_otava_finds_the_step(s):
    s.start()
    commits = []
    for i in range(ROWS):
        noise = 1 + 0.01 * ((i * 7) % 5 - 2)  # of 2 % at most
        commits.append(s.commit("change %d" % i))
        s.bench(0.5 * noise * (1.2 if i >= STEP else 1), 0.4 * noise)
    assert [r["commit"] for r in s.rows()] == commits and len(s.table()) == ROWS
    with open(os.path.join(s.directory, "otava.yaml"), "w", encoding="utf-8") as file:
        file.write(OTAVA_YAML)
    done = s.run(OTAVA, "analyze", "perf", "--config-file", "otava.yaml", "--output", "json")
    points = json.loads(done.stdout)["perf"]
    assert len(points) == 1, done.stdout
    assert points[0]["attributes"]["commit"] == commits[STEP], points
    changes = points[0]["changes"]
    assert len(changes) == 1 and changes[0]["metric"] == "lazy", changes
    assert abs(float(changes[0]["forward_change_percent"]) - 20) < 2, changes


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
        del tests["test_otava_finds_the_step"]
    sys.exit(runlib.main(tests, call))
