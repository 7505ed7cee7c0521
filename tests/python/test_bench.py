#!/usr/bin/env python3
"""stoker bench with real commands: verdicts, failures, limits, commits, logs, formats, Ctrl-C.

Called with the build directory. Nothing here asserts how long something takes; verdicts are asked for only where one
side takes several times as long.
"""
import itertools
import json
import math
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
import xml.etree.ElementTree

import runlib

SHORT, LONG = "sleep 0.01", "sleep 0.05"
# With 10 rounds one that was disturbed does not spoil the verdict; with 6 to 8 it would.
ROUNDS = ["--rounds", "10"]
FORMATS = ["stoker", "hyperfine", "hyperfine2", "pyperf", "google", "go"]


def environment(directory, **more):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "STOKER_"))}
    env.update(XDG_CACHE_HOME=os.path.join(directory, ".cache"), HOME=directory, LC_ALL="C", GIT_CONFIG_NOSYSTEM="1",
               GIT_CONFIG_GLOBAL=os.devnull, **more)
    return env


def call(program, directory, *args, code=0, **more):
    """Runs stoker in the directory; fails unless it ends with `code`."""
    done = subprocess.run([program, *args], cwd=directory, env=environment(directory, **more), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", timeout=60,
                          check=False)
    assert done.returncode == code, "exit code %d, wanted %d\n%s%s" % (done.returncode, code, done.stdout, done.stderr)
    return done


def bench(program, directory, *args, **more):
    return call(program, directory, "bench", "--quiet", *args, **more)


def bench_json(program, directory, *args, **more):
    return json.loads(bench(program, directory, "--json", *args, **more).stdout)


def path_in(directory, name):
    return os.path.join(directory, name)


def write(directory, name, text):
    with open(path_in(directory, name), "w", encoding="utf-8") as file:
        file.write(text)


def read(directory, name):
    with open(path_in(directory, name), encoding="utf-8", newline="") as file:
        return file.read()


def count_lines(directory, name):
    try:
        return read(directory, name).count("\n")
    except FileNotFoundError:
        return 0


def python(code):
    return "%s -c %s" % (shlex.quote(sys.executable), shlex.quote(code))


def values(result, variant, measure):
    return result["variants"][variant]["measures"][measure]


# ---- verdicts ----

def test_slower_and_faster(program, directory):
    done = bench(program, directory, SHORT, LONG, *ROUNDS, "--seed", "7")
    assert "B is slower" in done.stdout, done.stdout
    assert "seed 7" in done.stdout, done.stdout
    assert re.search(r"^ *A  0\.01 .*\n *B  0\.05 ", done.stdout, re.M), done.stdout
    assert re.search(r"B/A \d", done.stdout) and "Wilcoxon" in done.stdout, done.stdout
    assert re.search(r"\bCI \d", done.stdout), done.stdout
    assert done.stderr == "", done.stderr
    result = bench_json(program, directory, LONG, SHORT, *ROUNDS)
    assert result["comparisons"][0]["verdict"] == "faster", result["comparisons"]
    assert result["comparisons"][0]["ratio"] < 0.8, result["comparisons"]


def test_same_command_is_no_change(program, directory):
    # Far past the noise of a sleep; a change of half as much again would need a machine that stands still.
    result = bench_json(program, directory, "sleep 0.02", "sleep 0.02", "--rounds", "8", "--min-effect", "50%")
    assert [v["name"] for v in result["variants"]] == ["sleep 0.02", "sleep 0.02 (2)"], result["variants"]
    assert result["comparisons"][0]["verdict"] in ("equivalent", "inconclusive"), result["comparisons"]


WORK = """#include <stdio.h>
enum { N = 160 };
static double a[N][N], b[N][N], c[N][N];
int main(int argc, char **argv)
{
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            a[i][j] = (i * 7 + j * argc) % 11;
            b[i][j] = (i + j * 3) % 13;
        }
    }
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < N; k++) {
            for (int j = 0; j < N; j++)
                c[i][j] += a[i][k] * b[k][j];
        }
    }
    printf("%g\\n", c[1][2] + c[N - 1][N - 2]);
    return 0;
}
"""


def test_two_builds_of_a_program(program, directory):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        print("two builds: no C compiler here")
        return
    write(directory, "work.c", WORK)
    for level in ("-O0", "-O2"):
        subprocess.run([compiler, level, "work.c", "-o", "work" + level], cwd=directory, check=True)
    result = bench_json(program, directory, "./work-O0", "./work-O2", "--same-output", *ROUNDS)
    comparison = result["comparisons"][0]
    assert comparison["withheld"] is None, comparison
    assert comparison["verdict"] == "faster" and comparison["ratio"] < 0.8, comparison
    # It is the CPU that works, and it is counted.
    assert statistics.median(values(result, 0, "cpu")) > statistics.median(values(result, 1, "cpu")) > 0


def test_few_rounds_give_no_verdict(program, directory):
    done = bench(program, directory, SHORT, LONG, "--rounds", "3", "--warmup", "0", "--fail-over", "5%")
    assert "inconclusive" in done.stdout and "6 rounds" in done.stdout, done.stdout
    assert not re.search(r"\b(inf|nan)\b", done.stdout + done.stderr), done.stdout
    result = bench_json(program, directory, SHORT, LONG, "--rounds", "3", "--warmup", "0")
    assert result["comparisons"][0]["verdict"] == "inconclusive"


def test_too_fast_to_time(program, directory):
    done = bench(program, directory, "true", "--rounds", "6")
    assert "too fast to time" in done.stdout, done.stdout


def test_width(program, directory):
    result = bench_json(program, directory, SHORT, "sleep 0.02", "--width", "300%", "--max-rounds", "40")
    n = result["variants"][0]["n"]
    comparison = result["comparisons"][0]
    assert n >= 6 and n % 2 == 0, n
    assert n == 40 or comparison["ci_high"] / comparison["ci_low"] - 1 <= 3, comparison
    done = bench(program, directory, "true", "true", "--width", "0.00001%", "--max-rounds", "7")
    assert "wider than" in done.stdout and "7 rounds" in done.stdout, done.stdout


# ---- JSON ----

def signed_rank(logs):
    """Wilcoxon's p by trying all signs of the ranks; no ties."""
    ranks = [rank + 1 for rank, _ in enumerate(logs)]
    ordered = sorted(logs, key=abs)
    total = sum(ranks)
    seen = sum(rank for rank, x in zip(ranks, ordered) if x > 0)
    least = min(seen, total - seen)
    sums = [sum(rank for rank, up in zip(ranks, signs) if up) for signs in itertools.product((0, 1), repeat=len(logs))]
    return min(1, 2 * sum(s <= least for s in sums) / len(sums))


def test_json_shape_and_figures(program, directory):
    result = bench_json(program, directory, SHORT, "sleep 0.02", "sleep 0.015", "--rounds", "8", "--seed", "5")
    assert result["seed"] == 5 and result["paired"] is True and result["interrupted"] is False
    assert [v["name"] for v in result["variants"]] == ["0.01", "0.02", "0.015"]
    for variant in result["variants"]:
        times = variant["times"]
        assert variant["n"] == len(times) == 8 and all(t > 0 for t in times)
        for key, wanted in [("mean", statistics.fmean(times)), ("sd", statistics.stdev(times)),
                            ("median", statistics.median(times)), ("min", min(times)), ("max", max(times))]:
            assert math.isclose(variant[key], wanted, rel_tol=1e-9), (key, variant[key], wanted)
    raw = []
    for comparison, b in zip(result["comparisons"], (1, 2)):
        assert (comparison["a"], comparison["b"]) == ("0.01", result["variants"][b]["name"])
        logs = [math.log(y / x) for x, y in zip(result["variants"][0]["times"], result["variants"][b]["times"])]
        means = [(x + y) / 2 for i, x in enumerate(logs) for y in logs[i:]]
        assert math.isclose(comparison["ratio"], math.exp(statistics.median(means)), rel_tol=1e-9)
        assert math.isclose(comparison["median_ratio"], math.exp(statistics.median(logs)), rel_tol=1e-9)
        # Two comparisons at 98 % each: the second mean from either end (4/256 of all signs are as extreme).
        assert math.isclose(comparison["ci_low"], math.exp(sorted(means)[1]), rel_tol=1e-9), comparison
        assert math.isclose(comparison["ci_high"], math.exp(sorted(means)[-2]), rel_tol=1e-9), comparison
        raw.append(signed_rank(logs))
        assert math.isclose(comparison["p_raw"], raw[-1], rel_tol=1e-9), (comparison, raw[-1])
        assert comparison["verdict"] in ("faster", "slower", "faster-tail", "slower-tail", "equivalent", "inconclusive")
    low, high = sorted(p / 0.8 for p in raw)  # the tail has a fifth of the 5 %
    holm = {low: min(1, 2 * low), high: min(1, max(2 * low, high))}
    for comparison, p in zip(result["comparisons"], [p / 0.8 for p in raw]):
        assert math.isclose(comparison["p"], holm[p], rel_tol=1e-9), (comparison["p"], raw)
    try:
        from scipy import stats
    except ImportError:
        return
    logs = [math.log(y / x) for x, y in zip(result["variants"][0]["times"], result["variants"][1]["times"])]
    found = stats.wilcoxon(logs, method="exact").pvalue
    assert math.isclose(result["comparisons"][0]["p_raw"], found, rel_tol=1e-6), found


def test_single_command_has_no_comparison(program, directory):
    result = bench_json(program, directory, SHORT, "--rounds", "2")
    assert len(result["variants"]) == 1 and result["comparisons"] == []
    assert result["variants"][0]["name"] == SHORT


def test_same_seed_gives_the_same_order(program, directory):
    for name in ("x", "y"):
        bench(program, directory, "echo a >>" + name, "echo b >>" + name, "echo c >>" + name, "--rounds", "9", "--seed",
              "99")
    assert read(directory, "x") == read(directory, "y")
    blocks = read(directory, "x").split()
    assert len(blocks) == 30  # and a warm-up run of each
    for start in range(0, 30, 3):
        assert sorted(blocks[start:start + 3]) == ["a", "b", "c"], blocks


# ---- what stands around the runs ----

def test_parameters(program, directory):
    write(directory, "count.sh", "echo $1 $2 >>seen\n")
    result = bench_json(program, directory, "sh count.sh {n} {k}", "--param", "n=1,2", "-P", "k=x", "--rounds", "3",
                        "--warmup", "0")
    assert sorted(read(directory, "seen").split("\n")) == [""] + ["1 x"] * 3 + ["2 x"] * 3
    assert [v["name"] for v in result["variants"]] == ["n=1 k=x", "n=2 k=x"]
    assert result["variants"][1]["parameters"] == {"n": "2", "k": "x"}
    assert [(c["a"], c["b"]) for c in result["comparisons"]] == [("n=1 k=x", "n=2 k=x")]
    # Several commands: compared with each other for each value.
    result = bench_json(program, directory, "true {n}", "sleep 0.00{n}", "-P", "n=1,2", "--rounds", "1", "--warmup",
                        "0")
    assert len(result["variants"]) == 4
    for comparison in result["comparisons"]:
        assert comparison["a"].split()[-1] == comparison["b"].split()[-1], comparison
    assert len(result["comparisons"]) == 2


HOOKS = ["--setup", "echo s >>log", "--prepare", "echo p >>log", "--conclude", "echo c >>log", "--cleanup",
         "echo e >>log"]


def test_hooks_run_as_often_as_told(program, directory):
    bench(program, directory, "echo a >>log", "echo b >>log", "--rounds", "3", "--warmup", "1", *HOOKS)
    log = "".join(read(directory, "log").split())
    assert log[:2] == "ss" and log[-2:] == "ee", log
    assert re.fullmatch("ss(p[ab]c){8}ee", log), log
    assert log.count("a") == log.count("b") == 4, log


def test_cleanup_runs_after_a_failure(program, directory):
    done = bench(program, directory, "false", "--rounds", "3", *HOOKS, code=1)
    assert "exit code 1" in done.stderr, done.stderr
    assert "".join(read(directory, "log").split()) in ("spce", "spe"), read(directory, "log")
    os.remove(path_in(directory, "log"))
    done = bench(program, directory, "true", "true", "--rounds", "3", "--setup", "echo s >>log; exit 3", "--cleanup",
                 "echo e >>log", code=1)
    assert "setup" in done.stderr and "exit code 3" in done.stderr, done.stderr
    assert "".join(read(directory, "log").split()) == "se", read(directory, "log")


def test_prepare_that_fails_is_named(program, directory):
    done = bench(program, directory, "true", "--rounds", "3", "--prepare", "echo broken >&2; exit 4", code=1)
    assert "prepare" in done.stderr and "exit code 4" in done.stderr and "broken" in done.stderr, done.stderr


def test_same_output(program, directory):
    done = bench(program, directory, "echo one", "echo three", "--same-output", "--rounds", "6")
    assert "output differs" in done.stdout and "(6 bytes against 4)" in done.stdout, done.stdout
    assert "is faster" not in done.stdout and "is slower" not in done.stdout and "equivalent" not in done.stdout
    result = bench_json(program, directory, "echo one; sleep 0.05", "echo two", "--same-output", "--rounds", "8")
    assert result["comparisons"][0]["verdict"] == "inconclusive", result["comparisons"]
    assert "output" in result["comparisons"][0]["withheld"]
    done = bench(program, directory, "echo one", "date +%N; echo $$", "--same-output", "--rounds", "2")
    assert "its output" in done.stdout and "inconclusive" in done.stdout, done.stdout
    result = bench_json(program, directory, "echo same", "printf 'same\\n'", "--same-output", "--rounds", "2")
    assert result["comparisons"][0]["withheld"] is None
    # What the first prints changes: there is nothing to check the others against.
    result = bench_json(program, directory, "echo x >>n; wc -l <n", "echo 1", "--same-output", "--rounds", "2")
    assert "changes" in result["comparisons"][0]["withheld"], result["comparisons"]


def test_output_is_thrown_away_or_shown(program, directory):
    done = bench(program, directory, "echo hello", "--rounds", "2")
    assert "hello\n" not in done.stdout.replace("echo hello", ""), done.stdout
    done = bench(program, directory, "echo hello", "--rounds", "2", "--show-output")
    assert done.stdout.count("\nhello") + done.stdout.startswith("hello") == 3, done.stdout  # warm-up and two rounds


def test_output_is_kept(program, directory):
    bench(program, directory, "echo $STOKER_BENCH_ROUND", "echo b", "--rounds", "2", "--keep-output", "out/runs")
    names = sorted(os.listdir(os.path.join(directory, "out/runs")))
    assert names == ["A-0001.out", "A-0002.out", "B-0001.out", "B-0002.out"], names
    assert read(directory, "out/runs/A-0002.out") == "1\n" and read(directory, "out/runs/B-0001.out") == "b\n"


def test_input(program, directory):
    write(directory, "in.txt", "12345")
    bench(program, directory, "cat >>copy", "--input", "in.txt", "--rounds", "2", "--warmup", "0")
    assert read(directory, "copy") == "1234512345"


def test_metric_from_json(program, directory):
    script = "echo x >>n%d; echo '{\"a\": {\"speed_per_s\": %d}}'"
    result = bench_json(program, directory, script % (1, 50), script % (2, 100), "--metric", "a.speed_per_s",
                        "--rounds", "6", "--warmup", "0")
    assert result["metric"]["name"] == "a.speed_per_s" and result["metric"]["higher_is_better"] is True
    assert result["variants"][0]["times"] == [50] * 6
    assert result["comparisons"][0]["ratio"] == 2 and result["comparisons"][0]["verdict"] == "faster"
    done = bench(program, directory, "echo '{\"x\": 1}'", "--metric", "y", "--rounds", "2", code=1)
    assert "'y'" in done.stderr, done.stderr


# ---- commands that fail ----

def test_failure_in_the_warm_up(program, directory):
    done = bench(program, directory, "true", "echo wrong >&2; exit 7", "--rounds", "6", code=1)
    assert "warm-up" in done.stderr and "exit code 7" in done.stderr and "wrong" in done.stderr, done.stderr
    assert done.stdout == ""


def test_failure_now_and_then(program, directory):
    # Every fifth run fails: its round is left out, the others count.
    flaky = "echo x >>n; test $(( $(wc -l <n) % 5 )) != 0"
    result = bench_json(program, directory, "true", flaky, "--rounds", "12")
    assert result["dropped"] == 3, result["dropped"]
    assert [v["n"] for v in result["variants"]] == [12, 12]
    done = bench(program, directory, "true", flaky, "--rounds", "12")
    assert re.search(r"12 rounds \([23] dropped\)", done.stdout), done.stdout


def test_failure_always_after_the_warm_up(program, directory):
    done = bench(program, directory, "true", "echo x >>n; test $(wc -l <n) -lt 5", "--rounds", "12", "--export",
                 "stoker=kept.json", code=1)
    assert "three rounds in a row" in done.stderr and "exit code 1" in done.stderr, done.stderr
    kept = json.loads(read(directory, "kept.json"))
    assert [v["n"] for v in kept["variants"]] == [3, 3] and kept["dropped"] == 3
    assert "n=3" in done.stdout, done.stdout


def test_exit_codes_may_be_ignored(program, directory):
    result = bench_json(program, directory, "exit 3", "--ignore-failure", "--rounds", "3")
    assert result["variants"][0]["n"] == 3
    assert result["variants"][0].get("exit_codes", [3, 3, 3]) == [3, 3, 3]


def test_command_that_is_not_there(program, directory):
    done = bench(program, directory, "no-such-command-here --x", "true", code=1)
    assert "no-such-command-here" in done.stderr and "No such file" in done.stderr, done.stderr


def test_timeout(program, directory):
    os.symlink(shutil.which("sleep"), path_in(directory, "marker-sleep"))
    done = bench(program, directory, "true", path_in(directory, "marker-sleep") + " 30", "--timeout", "300ms", code=1)
    assert "longer than" in done.stderr and "--timeout" in done.stderr, done.stderr
    assert not marked(directory)


def test_killed_by_a_signal(program, directory):
    done = bench(program, directory, "kill -SEGV $$", code=1)
    assert "signal 11" in done.stderr, done.stderr


# ---- limits and measures ----

def test_memory_limit(program, directory):
    done = bench(program, directory, python("x = b'x' * 500000000"), "--memory", "96M", "--rounds", "2", code=1)
    assert "memory" in done.stderr and "96" in done.stderr, done.stderr
    result = bench_json(program, directory, "true", "--memory", "96M", "--rounds", "1")
    assert "96" in result["limits"], result["limits"]


def test_cpu_limit(program, directory):
    allowed = len(os.sched_getaffinity(0))
    result = bench_json(program, directory, "nproc >>n", "--cpus", "1", "--rounds", "2")
    assert set(read(directory, "n").split()) == {"1"}
    assert "1 CPU" in result["limits"], result["limits"]
    done = bench(program, directory, "true", "--cpus", str(allowed + 1), code=2)
    assert str(allowed + 1) in done.stderr and str(allowed) in done.stderr, done.stderr


def test_peak_memory(program, directory):
    result = bench_json(program, directory, python("x = b'x' * 100000000"), "sleep 0.001", "--rounds", "2")
    assert 100e6 < min(values(result, 0, "rss")) <= max(values(result, 0, "rss")) < 160e6, values(result, 0, "rss")
    # Not that of the launcher, and not that of the run before.
    assert max(values(result, 1, "rss")) < 40e6, values(result, 1, "rss")


# ---- Ctrl-C ----

def marked(directory):
    """Processes whose command line names a file marker-... of the directory."""
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if words[0].startswith(os.fsencode(path_in(directory, "marker-"))):
                found.append(int(pid))
    return found


def interrupt_when(program, directory, ready, *args):
    """Starts stoker bench, sends SIGINT when ready() holds, and returns it with its output."""
    process = subprocess.Popen([program, "bench", "--quiet", *args], cwd=directory, env=environment(directory),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 30
        while not ready() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    return process.returncode, out, err


def test_interrupt_reports_and_saves_finished_rounds(program, directory):
    os.symlink(shutil.which("sleep"), path_in(directory, "marker-sleep"))
    # The 12th run waits: a warm-up of two, four whole rounds, and one run of the fifth have been.
    command = "echo x >>n; test $(wc -l <n) -lt 12 || exec %s 30" % path_in(directory, "marker-sleep")
    code, out, err = interrupt_when(program, directory, lambda: marked(directory), command, command + " ", "--rounds",
                                    "50", "--json", "--export", "hyperfine=h.json", "--cleanup", "echo e >>cleaned")
    assert code == 130, (code, out, err)
    result = json.loads(out)
    assert result["interrupted"] is True
    assert [v["n"] for v in result["variants"]] == [4, 4], [v["n"] for v in result["variants"]]
    assert [len(r["times"]) for r in json.loads(read(directory, "h.json"))["results"]] == [4, 4]
    assert not marked(directory), "a command was left behind"
    assert count_lines(directory, "cleaned") == 2


def test_interrupt_while_cleaning_up(program, directory):
    os.symlink(shutil.which("sleep"), path_in(directory, "marker-sleep"))
    code, out, err = interrupt_when(program, directory, lambda: marked(directory), "true", "--rounds", "2", "--json",
                                    "--cleanup", path_in(directory, "marker-sleep") + " 30")
    assert code == 130, (code, out, err)
    result = json.loads(out)
    assert result["variants"][0]["n"] == 2 and result["interrupted"] is True, result
    assert not marked(directory), "a command was left behind"


def test_interrupt_before_the_first_round(program, directory):
    os.symlink(shutil.which("sleep"), path_in(directory, "marker-sleep"))
    code, out, err = interrupt_when(program, directory, lambda: marked(directory),
                                    path_in(directory, "marker-sleep") + " 30", "true")
    assert code == 130 and out == "", (code, out, err)
    assert "interrupted" in err and "nothing to report" in err, err
    assert not marked(directory), "a command was left behind"


# ---- commits ----

MAKEFILE = "app: app.in\n\tcp app.in app\n\tchmod +x app\n"


def git(directory, *args):
    return subprocess.run(["git", *args], cwd=directory, env=environment(directory), check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True).stdout


def make_repository(directory):
    """Two commits; in the second the program takes a third of the time."""
    repository = path_in(directory, "repository")
    os.mkdir(repository)
    git(repository, "init", "-q")
    git(repository, "config", "user.name", "A")
    git(repository, "config", "user.email", "a@example.com")
    for seconds, subject in [("0.06", "first"), ("0.02", "less sleep")]:
        write(repository, "app.in", "#!/bin/sh\nexec sleep %s\n" % seconds)
        write(repository, "Makefile", MAKEFILE)
        git(repository, "add", "-A")
        git(repository, "commit", "-qm", subject)
    return repository


def needs(*programs):
    missing = [p for p in programs if not shutil.which(p)]
    if missing:
        print("no %s here" % ", ".join(missing))
    return not missing


def test_against_another_commit(program, directory):
    if not needs("git", "make"):
        return
    repository = make_repository(directory)
    before = git(repository, "status", "--porcelain", "--ignored")
    done = bench(program, repository, "--against", "HEAD~1", "--build", "make", "./app", *ROUNDS, "--log", "../PERF.md")
    assert "B is faster" in done.stdout, done.stdout
    brief = git(repository, "rev-parse", "--short", "HEAD").strip()
    assert brief in done.stdout, done.stdout
    # Nothing of the user's was touched, and nothing is left.
    assert git(repository, "status", "--porcelain", "--ignored") == before
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    page = read(directory, "PERF.md")
    assert "less sleep" in page and "faster" in page, page
    # The working tree with changes, against the commit that it began with.
    write(repository, "app.in", "#!/bin/sh\nexec sleep 0.08\n")
    result = bench_json(program, repository, "--against", "HEAD", "--build", "make", "./app", *ROUNDS)
    assert result["comparisons"][0]["verdict"] == "slower", result["comparisons"]
    assert result["variants"][1]["name"].endswith("+"), result["variants"][1]["name"]
    assert read(repository, "app.in").endswith("0.08\n")


def test_against_what_is_not_there(program, directory):
    if not needs("git", "make"):
        return
    repository = make_repository(directory)
    done = bench(program, repository, "--against", "no-such-branch", "./app", code=2)
    assert "no-such-branch" in done.stderr, done.stderr
    done = bench(program, repository, "--against", "HEAD", "./app", code=2)
    assert "nothing to compare" in done.stderr, done.stderr
    done = bench(program, repository, "--against", "HEAD~1", "--build", "echo broken >&2; exit 9", "./app", code=1)
    assert "build" in done.stderr and "broken" in done.stderr and "9" in done.stderr, done.stderr
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    outside = path_in(directory, "outside")
    os.mkdir(outside)
    done = bench(program, outside, "--against", "HEAD", "./app", code=2, GIT_CEILING_DIRECTORIES=directory)
    assert "repository" in done.stderr, done.stderr
    tools = path_in(directory, "tools")
    os.mkdir(tools)
    for tool in ("sh", "sleep", "true"):
        os.symlink(shutil.which(tool), path_in(tools, tool))
    done = subprocess.run([program, "bench", "-q", "--against", "HEAD~1", "./app"], cwd=repository,
                          env=dict(environment(directory), PATH=tools), stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode in (1, 2) and "git" in done.stderr, (done.returncode, done.stderr)


# ---- the log ----

def test_log_and_history(program, directory):
    for message in ("first | row", "second"):
        bench(program, directory, SHORT, LONG, "--rounds", "6", "--log", "PERF.md", "-m", message,
              GIT_CEILING_DIRECTORIES=os.path.dirname(directory))
    page = read(directory, "PERF.md")
    assert "second" in page and "0.01" in page and "0.05" in page, page
    rows = json.loads(call(program, directory, "bench", "history", "--json").stdout)["rows"]
    assert [row["description"] for row in rows] == ["first | row", "second"], rows
    assert rows[0]["commit"] == "" and rows[0]["benchmarks"]["0.05"]["n"] == 6, rows
    beside = rows[1]["comparisons"]["0.05/0.01"]
    assert beside["ratio"] > 1.5 or beside["verdict"] == "inconclusive", rows
    text = call(program, directory, "bench", "history", "PERF.md", "--svg", "chart.svg").stdout
    assert "0.01" in text and "second" in text, text
    assert xml.etree.ElementTree.parse(path_in(directory, "chart.svg")).getroot().tag.endswith("svg")


def test_log_of_something_else_is_refused_before_any_run(program, directory):
    for name, text in [("PERF.md", "# My notes\n\nnothing here is a table\n"),
                       ("OTHER.md", "| a | b |\n|---|---|\n| 1 | 2 |\n")]:
        write(directory, name, text)
        done = bench(program, directory, "echo x >>ran", "--log", name, code=1)
        assert name in done.stderr, done.stderr
        assert read(directory, name) == text
    assert count_lines(directory, "ran") == 0


# ---- formats ----

def test_exports_are_read_again(program, directory):
    arguments = ["--svg", "chart.svg"]
    for form in FORMATS + ["github"]:
        arguments += ["--export", "%s=%s.out" % (form, form)]
    result = bench_json(program, directory, SHORT, LONG, "--rounds", "10", *arguments)
    xml.etree.ElementTree.parse(path_in(directory, "chart.svg"))
    assert json.loads(read(directory, "stoker.out"))["variants"] == result["variants"]
    assert isinstance(json.loads(read(directory, "github.out")), list)
    for form in FORMATS:
        done = call(program, directory, "bench", "compare", form + ".out", "--json")
        again = json.loads(done.stdout)
        for before, after in zip(result["variants"], again["variants"]):
            assert after["n"] == 10, (form, after)
            for x, y in zip(before["times"], after["times"]):
                assert math.isclose(x, y, rel_tol=1e-6), (form, x, y)
        assert again["paired"] is (form == "stoker"), form
        assert again["comparisons"][0]["verdict"] == "slower", (form, again["comparisons"])
        text = call(program, directory, "bench", "compare", form + ".out").stdout
        assert ("unpaired: order not controlled" in text) is (form != "stoker"), (form, text)
        for to in FORMATS + ["github"]:
            name = "%s-%s.out" % (form, to)
            call(program, directory, "bench", "convert", form + ".out", "--to", to, "-o", name)
            if to != "github":
                back = json.loads(call(program, directory, "bench", "compare", name, "--json").stdout)
                assert [v["n"] for v in back["variants"]] == [10, 10], (name, back)


def test_export_to_an_unknown_format_is_refused_before_any_run(program, directory):
    for wrong in ("xml=out", "hyperfine", "hyperfine="):
        done = bench(program, directory, "echo x >>ran", "--export", wrong, code=2)
        assert "--export" in done.stderr and "found '%s'" % wrong.replace("=out", "") in done.stderr, done.stderr
        assert count_lines(directory, "ran") == 0, "it ran before it looked"


def test_gate(program, directory):
    done = bench(program, directory, SHORT, LONG, *ROUNDS, "--fail-over", "5%", code=3)
    assert "--fail-over" in done.stderr, done.stderr
    assert not re.search(r"\de\+", done.stderr), "a figure that people cannot read: " + done.stderr
    bench(program, directory, LONG, SHORT, *ROUNDS, "--fail-over", "5%", "--export", "hyperfine=h.json")
    call(program, directory, "bench", "compare", "h.json", "--fail-over", "5%")
    bench(program, directory, SHORT, LONG, *ROUNDS, "--fail-over", "100000%")
    # A gate that cannot tell says so.
    done = bench(program, directory, "echo a", "echo b; sleep 0.05", "--same-output", "--fail-over", "5%",
                 "--rounds", "6", code=1)
    assert "--fail-over" in done.stderr, done.stderr


def test_gate_below_the_usual_minimum_effect(program, directory):
    slow = "echo '{\"x\": 1.015}'"
    done = bench(program, directory, "echo '{\"x\": 1}'", slow, "--metric", "x", "--rounds", "6", "--fail-over", "1%", code=3)
    assert "slower by 1.5 %" in done.stderr, done.stderr


# ---- files ----

LADDER = """title = "Sleeping less"
rounds = 8
warmup = 0
[[step]]
name = "baseline"
command = "sleep 0.08"
[[step]]
name = "half <&>"
command = "sleep 0.04"
[[step]]
name = "little"
command = "sleep 0.01"
"""


def test_ladder(program, directory):
    write(directory, "steps.toml", LADDER)
    done = bench(program, directory, "--ladder", "steps.toml", "--json", "--svg", "chart.svg")
    result = json.loads(done.stdout)
    assert [v["name"] for v in result["variants"]] == ["baseline", "half <&>", "little"]
    pairs = [(c["a"], c["b"]) for c in result["comparisons"]]
    assert pairs == [("baseline", "half <&>"), ("half <&>", "little"), ("baseline", "little")], pairs
    assert all(c["n"] == 8 for c in result["comparisons"])
    text = "".join(xml.etree.ElementTree.parse(path_in(directory, "chart.svg")).getroot().itertext())
    assert "half <&>" in text and "Sleeping less" in text, text
    done = bench(program, directory, "--ladder", "steps.toml", "--rounds", "1")
    assert "baseline" in done.stdout and "little" in done.stdout, done.stdout


SUITE = """title = "Suite"
rounds = 6
notes = ["measured | here"]
[[compare]]
name = "sleep"
a = "sleep 0.01"
b = "sleep 0.05"
a_name = "ours"
b_name = "theirs"
at_least = 1.2
[[measure]]
name = "memory"
command = "true"
metric = "rss"
at_most = "512M"
[[measure]]
name = "missed"
command = "sleep 0.01"
at_most = "1ms"
"""
PAGE = "# Page\r\n\nbefore\n<!-- speed -->\nold\n<!-- end speed -->\nafter, without a line end"


def test_suite(program, directory):
    write(directory, "suite.toml", SUITE)
    with open(path_in(directory, "page.md"), "w", encoding="utf-8", newline="") as file:
        file.write(PAGE)
    done = bench(program, directory, "--suite", "suite.toml", "--into", "page.md", "--section", "speed")
    assert re.search(r"^sleep: .*ok", done.stdout, re.M), done.stdout
    assert re.search(r"^missed: .*MISSED", done.stdout, re.M), done.stdout
    page = read(directory, "page.md")
    start, end = PAGE.index("old"), PAGE.index("<!-- end")
    assert page.startswith(PAGE[:start]) and page.endswith(PAGE[end:]), page
    assert "ours" in page and "theirs" in page and "old" not in page, page
    result = bench_json(program, directory, "--suite", "suite.toml", "--fail-over", "5%", code=3)
    rows = result["rows"]
    assert [row["name"] for row in rows] == ["sleep", "memory", "missed"]
    assert [row["kind"] for row in rows] == ["compare", "measure", "measure"]
    assert [row["met"] for row in rows] == [True, True, False], rows
    assert rows[0]["value"] > 1.2 and rows[0]["low"] <= rows[0]["value"] <= rows[0]["high"]


def test_suite_goes_on_after_a_failure(program, directory):
    write(directory, "suite.toml", '[[measure]]\nname = "bad"\ncommand = "false"\n[[measure]]\nname = "good"\n'
          'command = "true"\nrounds = 2\n')
    result = bench_json(program, directory, "--suite", "suite.toml", code=1)
    assert "failure" in result["rows"][0] and result["rows"][1]["n"] == 2, result


def test_suite_withholds_what_computes_something_else(program, directory):
    write(directory, "suite.toml", '[[compare]]\nname = "differs"\na = "echo 1"\nb = "echo 2; sleep 0.05"\nrounds = 6\n'
          'at_least = 1.1\n')
    done = bench(program, directory, "--suite", "suite.toml", "--same-output")
    assert "output differs" in done.stdout and "ok" not in done.stdout, done.stdout


def test_page_without_marks_is_refused_before_any_run(program, directory):
    write(directory, "page.md", "no marks\n")
    done = bench(program, directory, "echo x >>ran", "--into", "page.md", code=2)
    assert "page.md" in done.stderr and "<!-- bench -->" in done.stderr, done.stderr
    assert read(directory, "page.md") == "no marks\n"
    assert count_lines(directory, "ran") == 0, "it ran before it looked"


# ---- pipelines ----

def test_pipelines(program, directory):
    write(directory, "a.stoker", "range(2000) | batch(100)\n")
    write(directory, "b c.stoker", "range(20000) | batch(100)\n")
    result = bench_json(program, directory, "a.stoker", "b c.stoker", "--rounds", "2")
    for variant in result["variants"]:
        for measure in ("samples_per_s", "cpu_per_1000", "consumer_wait_s"):
            assert all(x is not None and x >= 0 for x in variant["measures"][measure]), (measure, variant)
    per_1000 = values(result, 0, "cpu_per_1000")
    assert all(math.isclose(x, y / 2, rel_tol=1e-6) for x, y in zip(per_1000, values(result, 0, "cpu")))
    done = bench(program, directory, "a.stoker --threads 1", "true", "--rounds", "2")
    assert "samples_per_s" in done.stdout and "cpu_per_1000" in done.stdout, done.stdout
    result = bench_json(program, directory, "a.stoker --threads {t}", "-P", "t=1,2", "--metric", "samples_per_s",
                        "--rounds", "2")
    assert result["metric"]["name"] == "samples_per_s" and result["metric"]["higher_is_better"] is True


def test_pipelines_are_compared_by_their_batches(program, directory):
    write(directory, "one.stoker", "range(2000) | shuffle(seed=1) | batch(100)\n")
    write(directory, "two.stoker", "range(2000) | shuffle(seed=2) | batch(100)\n")
    result = bench_json(program, directory, "one.stoker", "two.stoker", "--same-output", "--rounds", "2")
    assert "batches differ" in result["comparisons"][0]["withheld"], result["comparisons"]
    result = bench_json(program, directory, "one.stoker --threads 1", "one.stoker --threads 2", "--same-output",
                        "--rounds", "2")
    assert result["comparisons"][0]["withheld"] is None, result["comparisons"]
    assert [v["name"] for v in result["variants"]] == ["threads 1", "threads 2"]
    result = bench_json(program, directory, "one.stoker", "echo 1", "--same-output", "--rounds", "2")
    assert "cannot be checked" in result["comparisons"][0]["withheld"], result["comparisons"]


if __name__ == "__main__":
    sys.exit(runlib.main(dict(globals()), lambda test, program, directory: test(program, directory)))
