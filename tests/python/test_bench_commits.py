#!/usr/bin/env python3
"""stoker bench --commits: the right commits found in a toy repository, each built once, whatever ends in between.

Called with the build directory. Nothing here asserts how long something takes: the toy programs print their figures.
"""
import csv
import json
import math
import os
import random
import signal
import subprocess
import sys
import time

import runlib
from test_bench import count_lines, git, needs, path_in, read, write
from test_bench import environment as plain_environment

# What commit i takes, in units of 1e-6 s: two of the changes between eight commits are real.
COSTS = [100000, 100000, 100000, 109000, 109000, 109000, 98000, 98000]
CHANGES = {3: "slower", 6: "faster"}

# The k-th run of a series takes what the commit takes, by the k-th factor of the series: no process but the shell.
TOY = """read k < "$TOY/count"
read factor < "$TOY/$k"
echo $((k + 1)) > "$TOY/count"
echo "{\\"seconds\\": $((%d * factor / 1000))e-6}"
"""


def environment(path, **more):
    """Builds are kept beside the repository of a test."""
    env = plain_environment(path)
    while os.path.basename(path) and not os.path.basename(path).startswith("stoker-test-"):
        path = os.path.dirname(path)
    env.update(XDG_CACHE_HOME=path_in(path, "cache"))
    env.update(more)
    return env


def bench(program, path, *args, code=0, **more):
    """Runs stoker bench there; fails unless it ends with `code`."""
    done = subprocess.run([program, "bench", "--quiet", *args], cwd=path, env=environment(path, **more),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", timeout=120,
                          check=False)
    assert done.returncode == code, "exit code %d, wanted %d\n%s%s" % (done.returncode, code, done.stdout, done.stderr)
    return done


def repository(directory, name="repo"):
    """An empty one."""
    path = path_in(directory, name)
    git(directory, "init", "-q", "-b", "main", path)
    git(path, "config", "user.name", "A")
    git(path, "config", "user.email", "a@example.com")
    return path


def commit(path, subject, **files):
    for name, text in files.items():
        write(path, name, text)
    git(path, "add", "-A")
    git(path, "commit", "-qm", subject, "--allow-empty")
    return git(path, "rev-parse", "HEAD").strip()


def factors(seed, count):
    """Noise as machines have it, in thousandths: drift, runs that resemble the last one, one in ten three times as long."""
    rng = random.Random(seed)
    level, out = 0.0, []
    phase = rng.uniform(0, 2 * math.pi)
    for k in range(count):
        level = 0.6 * level + rng.gauss(0, 0.02 * math.sqrt(1 - 0.6 ** 2))
        drift = 0.1 * math.sin(phase + 9 * k / count) + 0.05 * k / count
        spike = math.log(3) if rng.random() < 0.1 else 0
        out.append(round(1000 * math.exp(level + drift + spike)))
    return out


def toy_repository(directory):
    """Eight commits; "app" is a script that prints its figure."""
    path = repository(directory)
    for i, cost in enumerate(COSTS):
        commit(path, "commit %d" % i, app="# %d\n%s" % (i, TOY % cost))
    return path


def toy_series(directory, seed, count):
    toy = path_in(directory, "toy-%d" % seed)
    os.mkdir(toy)
    for k, factor in enumerate(factors(seed, count)):
        write(toy, str(k), "%d\n" % factor)
    write(toy, "count", "0\n")
    return toy


def commits(program, path, *args, **more):
    """The JSON of stoker bench --commits."""
    return json.loads(bench(program, path, "--json", "--metric", "seconds", *args, **more).stdout)


def verdicts(result):
    """By commit, of the only benchmark."""
    return [c["benchmarks"][0]["verdict"] if c["benchmarks"] else c["state"] for c in result["commits"]]


def builds(directory):
    return read(directory, "built").split() if os.path.exists(path_in(directory, "built")) else []


def counting(directory):
    """A build that writes down which commit was built."""
    return "git rev-parse HEAD >> '%s'" % path_in(directory, "built")


# ---- what it is for ----

def test_two_changes_of_eight_are_found_and_none_invented(program, directory):
    if not needs("git"):
        return
    path = toy_repository(directory)
    rounds = 70
    for seed in range(20):
        toy = toy_series(directory, seed, (rounds + 1) * len(COSTS))
        result = commits(program, path, "--commits", "main~7..main", "--build", counting(directory), "sh app", "--rounds",
                         str(rounds), "--seed", str(seed), TOY=toy)
        found = {i: v for i, v in enumerate(verdicts(result)) if v in ("slower", "faster")}
        assert found == CHANGES, (seed, [(b["verdict"], b["ratio"], b["ci_low"], b["ci_high"], b["p"])
                                         for c in result["commits"] for b in c["benchmarks"]])
        assert [c["subject"] for c in result["commits"]] == ["commit %d" % i for i in range(8)]
    # Twenty runs, eight builds.
    assert len(builds(directory)) == 8 and len(set(builds(directory))) == 8, builds(directory)
    assert git(path, "status", "--porcelain", "--ignored") == ""
    assert len(git(path, "worktree", "list").splitlines()) == 1


def plain_repository(directory, count=6, name="repo"):
    """Commits whose figure does not change, but for the fourth and after: half as much again."""
    path = repository(directory, name)
    hashes = [commit(path, "commit %d" % i, app="# %d\necho '{\"seconds\": %s}'\n" % (i, 1.5 if i >= 3 else 1))
              for i in range(count)]
    return path, hashes


FEW = ["--rounds", "16", "--warmup", "0"]


def test_table_json_page_and_gate(program, directory):
    path, hashes = plain_repository(directory)
    args = ["--commits", "main~5..", "--metric", "seconds", "sh app", *FEW]
    done = bench(program, path, *args)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0][:3] == ["commit", "subject", "seconds"], done.stdout
    assert [line[0] for line in lines[1:7]] == [h[:7] for h in hashes], done.stdout
    assert lines[1][-1] == "baseline" and lines[4][-1] == "slower" and lines[5][-1] == "equivalent", done.stdout
    assert "changed: 1 of 5 commits: %s slower 1.500" % hashes[3][:7] in done.stdout, done.stdout
    write(path, "page.md", "<!-- bench -->\n<!-- end bench -->\n")
    done = bench(program, path, *args, "--fail-over", "5%", "--into", "page.md", code=3)
    assert "commit %s is slower by 50 %%" % hashes[3][:7] in done.stderr, done.stderr
    assert done.stderr.count("slower") == 1, done.stderr
    assert "| %s | commit 3 | 1.50 s +- 0 | 1.500 | 1.500..1.500 | slower |" % hashes[3][:7] in read(path, "page.md")
    bench(program, path, *args, "--fail-over", "60%")
    result = commits(program, path, *args)
    assert result["stoker"] == "commits" and result["range"] == "main~5..", result
    assert [c["commit"] for c in result["commits"]] == hashes
    assert [c["against"] for c in result["commits"]] == [None] + hashes[:-1]
    third = result["commits"][3]["benchmarks"][0]
    assert third["n"] == 16 and third["ratio"] == 1.5 and third["mean"] == third["median"] == 1.5, third


def test_blocks_join(program, directory):
    """More commits than are measured at once: each is still compared with its parent, and built once."""
    path, hashes = plain_repository(directory, 20)
    result = commits(program, path, "--commits", "main~19..", "sh app", *FEW, "--build", counting(directory), "--log",
                     "../PERF.md")
    assert verdicts(result) == [None] + ["slower" if i == 3 else "equivalent" for i in range(1, 20)], verdicts(result)
    assert [c["against"] for c in result["commits"]] == [None] + hashes[:-1]
    assert sorted(builds(directory)) == sorted(hashes)
    with open(path_in(directory, "PERF.csv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["commit"] for row in rows] == hashes
    done = subprocess.run([program, "bench", "history", "PERF.md"], cwd=directory, env=environment(directory),
                          capture_output=True, text=True, check=True)
    assert "commit 19" in done.stdout, done.stdout


def test_several_benchmarks(program, directory):
    path = repository(directory)
    for i in range(4):
        commit(path, "commit %d" % i, app="# %d\necho \"{\\\"seconds\\\": %s}\"\n" % (i, "$1" if i < 2 else "$((2 * $1))"))
    result = commits(program, path, "--commits", "main~3..", "-n", "one", "sh app 1", "-n", "two", "sh app 2", *FEW,
                     "--log", "../PERF.md")
    for c, wanted in zip(result["commits"], (None, "equivalent", "slower", "equivalent")):
        assert [(b["name"], b["verdict"]) for b in c["benchmarks"]] == [("one", wanted), ("two", wanted)], c
    result = commits(program, path, "--commits", "main~3..", "sh app {n}", "-P", "n=1,2", *FEW)
    assert [b["name"] for b in result["commits"][1]["benchmarks"]] == ["sh app {n} n=1", "sh app {n} n=2"], result


def test_suite(program, directory):
    path = repository(directory)
    for i in range(4):
        commit(path, "commit %d" % i, app="# %d\necho '{\"seconds\": %d, \"bytes\": 7}'\n" % (i, 1 + (i > 1)))
    write(directory, "perf.toml", """metric = "seconds"
rounds = 16
warmup = 0
[[measure]]
name = "app"
command = "sh app"
[[measure]]
name = "memory"
command = "sh app"
metric = "bytes"
unit = "bytes"
[[compare]]
name = "both"
a = "sh app"
b = "sh app x"
""")
    done = bench(program, path, "--commits", "main~3..", "--suite", "../perf.toml", "--log", "../PERF.md", "--json")
    result = json.loads(done.stdout)
    assert [b["name"] for b in result["commits"][0]["benchmarks"]] == ["app", "memory", "both a", "both b"], result
    assert [b["verdict"] for b in result["commits"][2]["benchmarks"]] == ["slower", "equivalent", "slower", "slower"]
    result = json.loads(bench(program, path, "--commits", "main~3..", "--suite", "../perf.toml", "--log", "../PERF.md",
                              "--json").stdout)
    assert [c["state"] for c in result["commits"]] == 4 * ["in the log"], result
    assert [b["verdict"] for b in result["commits"][2]["benchmarks"]] == ["slower", "equivalent", "slower", "slower"]


# ---- each commit once ----

def test_second_run_builds_nothing_and_logs_nothing(program, directory):
    path, hashes = plain_repository(directory)
    args = ["--commits", "main~5..", "sh app", *FEW, "--build", counting(directory), "--log", "../PERF.md"]
    commits(program, path, *args)
    rows = read(directory, "PERF.csv")
    assert sorted(builds(directory)) == sorted(hashes)
    done = bench(program, path, "--metric", "seconds", *args, "--fail-over", "5%", code=3)
    assert "5 of 5 commits are in ../PERF.md already" in done.stderr, done.stderr
    # What was measured before still counts for the gate.
    assert "commit %s is slower by 50 %%" % hashes[3][:7] in done.stderr, done.stderr
    assert read(directory, "PERF.csv") == rows and len(builds(directory)) == 6
    # One commit more: only that one, with its parent beside it.
    hashes.append(commit(path, "one more", app="echo '{\"seconds\": 3}'\n"))
    result = commits(program, path, "--commits", "main~6..", *args[2:])
    assert [c["state"] for c in result["commits"]] == 6 * ["in the log"] + ["measured"], result
    assert verdicts(result)[6] == "slower" and result["commits"][6]["against"] == hashes[5], result
    assert builds(directory)[6:] == [hashes[6]], builds(directory)
    assert len(read(directory, "PERF.csv").splitlines()) == 1 + 7


def test_rows_that_skip_commits_do_not_stand_for_them(program, directory):
    path, hashes = plain_repository(directory, 7)
    args = ["sh app", *FEW, "--build", counting(directory), "--log", "../PERF.md"]
    result = commits(program, path, "--commits", "main~6..", "--every", "3", *args)
    assert [c["commit"] for c in result["commits"]] == hashes[::3], result
    assert verdicts(result) == [None, "slower", "equivalent"], result
    result = commits(program, path, "--commits", "main~6..", *args)
    assert [c["against"] for c in result["commits"]] == [None] + hashes[:-1], result
    assert [c["state"] for c in result["commits"]] == ["in the log"] + 6 * ["measured"], result
    assert sorted(builds(directory)) == sorted(hashes)
    # Now each has a row that does; asked for less, these do not skip enough.
    result = commits(program, path, "--commits", "main~6..", *args)
    assert [c["state"] for c in result["commits"]] == 7 * ["in the log"], result
    result = commits(program, path, "--commits", "main~6..", "--every", "3", *args)
    assert [c["state"] for c in result["commits"]] == 3 * ["in the log"], result
    # The baseline of a later range is not compared, whatever its row says.
    result = commits(program, path, "--commits", "main~3..", *args)
    assert verdicts(result) == [None] + 3 * ["equivalent"], result


def test_without_a_log_everything_is_measured_again_but_not_built(program, directory):
    path, hashes = plain_repository(directory)
    args = ["--commits", "main~5..", "sh app", *FEW, "--build", counting(directory)]
    for _ in range(2):
        result = commits(program, path, *args)
        assert [c["state"] for c in result["commits"]] == 6 * ["measured"], result
    assert sorted(builds(directory)) == sorted(hashes) and result["builds"] == 0 and result["builds_kept"] == 6, result
    commits(program, path, *args, "--rebuild")
    assert len(builds(directory)) == 12
    # Another build command is another build.
    commits(program, path, *args[:-1], counting(directory) + " # again")
    assert len(builds(directory)) == 18


def test_commits_that_do_not_build_or_run_are_told_and_skipped(program, directory):
    path = repository(directory)
    apps = ["1", "broken", "1", "exit 3", "2", "2"]
    hashes = [commit(path, "commit %d" % i, app="%s\n" % (a if a.startswith("exit") else "echo '{\"seconds\": %s}'" % a))
              for i, a in enumerate(apps)]
    build = counting(directory) + "; ! grep broken app"
    done = bench(program, path, "--json", "--metric", "seconds", "--commits", "main~5..", "--build", build, "sh app", *FEW,
                 "--log", "../PERF.md")
    result = json.loads(done.stdout)
    assert "commit %s did not build: exit code 1" % hashes[1][:7] in done.stderr, done.stderr
    assert "commit %s does not run: failed in three rounds in a row: exit code 3" % hashes[3][:7] in done.stderr
    assert [c["state"] for c in result["commits"]] == ["measured", "broken", "measured", "broken", "measured", "measured"]
    assert [c["against"] for c in result["commits"]] == [None, None, hashes[0], None, hashes[2], hashes[4]], result
    assert verdicts(result) == [None, "broken", "equivalent", "broken", "slower", "equivalent"], verdicts(result)
    done = bench(program, path, "--metric", "seconds", "--commits", "main~5..", "--build", build, "sh app", *FEW)
    assert "did not build before (--rebuild tries again): exit code 1" in done.stdout, done.stdout
    assert "slower, against %s" % hashes[2][:7] in done.stdout, done.stdout
    assert sorted(builds(directory)) == sorted(hashes), builds(directory)
    # The log has the others, and asks for no build of them; those without a row are tried again.
    result = commits(program, path, "--commits", "main~5..", "--build", build, "sh app", *FEW, "--log", "../PERF.md")
    assert [c["state"] for c in result["commits"]][2:] == ["in the log", "broken", "in the log", "in the log"], result


def test_baseline_that_does_not_run(program, directory):
    path = repository(directory)
    apps = ["exit 1", "exit 1", "1", "1", "2"]
    hashes = [commit(path, "commit %d" % i, app="# %d\n%s\n" % (i, a if a.startswith("exit") else
                                                                 "echo '{\"seconds\": %s}'" % a))
              for i, a in enumerate(apps)]
    result = commits(program, path, "--commits", "main~4..", "sh app", *FEW)
    assert [c["state"] for c in result["commits"]] == ["broken", "broken", "measured", "measured", "measured"], result
    assert [c["against"] for c in result["commits"]] == [None, None, None, hashes[2], hashes[3]], result
    assert verdicts(result)[2:] == [None, "equivalent", "slower"], result


def test_nothing_that_builds(program, directory):
    path, _ = plain_repository(directory)
    done = bench(program, path, "--commits", "main~5..", "--build", "echo no luck >&2; exit 9", "sh app", *FEW, code=1)
    assert "nothing could be measured" in done.stderr and done.stderr.count("no luck") == 6, done.stderr
    # In CI silence would pass: the newest was not measured.
    newest = commit(path, "broken", app="exit 1\n")
    done = bench(program, path, "--commits", "main~6..", "--metric", "seconds", "sh app", *FEW, "--fail-over", "100%",
                 code=1)
    assert "commit %s, the newest, was not measured" % newest[:7] in done.stderr, done.stderr


# ---- interrupted ----

def start(program, path, *args):
    return subprocess.Popen([program, "bench", "--quiet", *args], cwd=path, env=environment(path),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(process, ready):
    deadline = time.monotonic() + 30
    while not ready() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()
    assert ready()


def ended(program, directory, number):
    """Sends a signal while the third commit is built, then runs again."""
    path, hashes = plain_repository(directory)
    held = path_in(directory, "held")
    build = counting(directory) + "; test $(wc -l < '%s') != 3 || test -e '%s' || sleep 30" % (
        path_in(directory, "built"), held)
    args = ["--commits", "main~5..", "--metric", "seconds", "sh app", *FEW, "--build", build, "--log", "../PERF.md"]
    process = start(program, path, *args)
    try:
        wait_until(process, lambda: len(builds(directory)) == 3)
        process.send_signal(number)
        process.communicate(timeout=20)
    finally:
        process.kill()
    # The repository knows nothing of it.
    assert git(path, "status", "--porcelain", "--ignored") == ""
    assert len(git(path, "worktree", "list").splitlines()) == 1
    assert not os.path.exists(path_in(path, ".git/worktrees"))
    write(directory, "held", "")
    result = commits(program, path, *args)
    assert verdicts(result) == [None, "equivalent", "equivalent", "slower", "equivalent", "equivalent"], result
    # The one that was not finished is built again, no other.
    assert builds(directory) == hashes[:3] + hashes[2:], builds(directory)
    return process.returncode


def test_killed_while_building(program, directory):
    assert ended(program, directory, signal.SIGKILL) == -signal.SIGKILL


def test_interrupted_while_building(program, directory):
    assert ended(program, directory, signal.SIGINT) == 130


def rows_of(directory):
    if not os.path.exists(path_in(directory, "PERF.csv")):
        return []
    with open(path_in(directory, "PERF.csv"), encoding="utf-8") as file:
        return [row["commit"] for row in csv.DictReader(file)]


def test_killed_in_the_second_block(program, directory):
    path, hashes = plain_repository(directory, 13)
    # The last commits wait, so that the first block is whole when the second is at it.
    commands = "sh app; test -e '{0}/held' || case $(git rev-parse HEAD) in {1}*) touch '{0}/runs'; sleep 30;; esac".format(
        directory, hashes[12])
    args = ["--commits", "main~12..", "--metric", "seconds", "-n", "app", "(%s) 2>&1" % commands, *FEW, "--build",
            counting(directory), "--log", "../PERF.md"]
    process = start(program, path, *args)
    try:
        wait_until(process, lambda: os.path.exists(path_in(directory, "runs")))
        process.kill()
        process.communicate(timeout=20)
    finally:
        process.kill()
    assert rows_of(directory) == hashes[:9]
    write(directory, "held", "")
    result = commits(program, path, *args)
    assert [c["state"] for c in result["commits"]] == 9 * ["in the log"] + 4 * ["measured"], result
    assert rows_of(directory) == hashes and sorted(builds(directory)) == sorted(hashes)


def test_interrupted_rounds_are_told_but_not_logged(program, directory):
    path, hashes = plain_repository(directory, 4)
    # The tenth run waits: two whole rounds have been.
    command = "echo x >> '{0}/n'; sh app; test $(wc -l < '{0}/n') -lt 10 || test -e '{0}/held' || sleep 30".format(directory)
    args = ["--commits", "main~3..", "--metric", "seconds", "-n", "app", command, *FEW, "--log", "../PERF.md"]
    process = start(program, path, *args, "--json")
    try:
        wait_until(process, lambda: count_lines(directory, "n") == 10)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130, (process.returncode, err)
    result = json.loads(out)
    assert result["interrupted"] and [c["interrupted"] for c in result["commits"]] == 4 * [True], result
    assert result["commits"][3]["benchmarks"][0]["n"] == 2, result
    assert "the same command goes on" in err, err
    assert rows_of(directory) == []
    write(directory, "held", "")
    commits(program, path, *args)
    assert rows_of(directory) == hashes


# ---- repositories as people have them ----

def test_merges_count_once(program, directory):
    path = repository(directory)
    app = "# %s\necho '{\"seconds\": %s}'\n"
    commit(path, "one", app=app % ("one", 1))
    git(path, "checkout", "-q", "-b", "side")
    for i in range(3):
        commit(path, "side %d" % i, other=str(i), app=app % ("side %d" % i, 4))
    git(path, "checkout", "-q", "main")
    commit(path, "two", more="x")
    git(path, "merge", "-q", "--no-ff", "-m", "merged", "side")
    commit(path, "three", app=app % ("three", 4))
    result = commits(program, path, "--commits", ":/one..main", "sh app", *FEW)
    assert [c["subject"] for c in result["commits"]] == ["one", "two", "merged", "three"], result
    assert verdicts(result) == [None, "equivalent", "slower", "equivalent"], result
    done = bench(program, path, "--json", "--metric", "seconds", "--commits", "side..main", "sh app", *FEW)
    assert [c["subject"] for c in json.loads(done.stdout)["commits"]] == ["one", "two", "merged", "three"], done.stdout
    assert "begin after %s" % result["commits"][0]["commit"][:7] in done.stderr, done.stderr


def test_dirty_tree_is_left_alone(program, directory):
    path, _ = plain_repository(directory)
    write(path, "app", "exit 1\n")
    write(path, "new", "x\n")
    git(path, "add", "new")
    git(path, "stash", "push", "-q", "--", "app")
    write(path, "app", "exit 2\n")
    state = [git(path, *words) for words in (["status", "--porcelain"], ["stash", "list"], ["for-each-ref"],
                                             ["diff"], ["diff", "--cached"], ["config", "--list", "--local"])]
    done = bench(program, path, "--json", "--metric", "seconds", "--commits", "main~5..", "sh app", *FEW)
    assert "not committed are not measured" in done.stderr, done.stderr
    assert verdicts(json.loads(done.stdout))[3] == "slower"
    assert state == [git(path, *words) for words in (["status", "--porcelain"], ["stash", "list"], ["for-each-ref"],
                                                     ["diff"], ["diff", "--cached"], ["config", "--list", "--local"])]


def test_shallow_clone(program, directory):
    path, hashes = plain_repository(directory)
    git(directory, "clone", "-q", "--depth", "4", "file://" + path, "shallow")
    result = commits(program, path_in(directory, "shallow"), "--commits", "HEAD~3..", "sh app", *FEW)
    assert [c["commit"] for c in result["commits"]] == hashes[2:], result
    assert verdicts(result) == [None, "slower", "equivalent", "equivalent"], result
    done = bench(program, path_in(directory, "shallow"), "--commits", "HEAD~5..", "sh app", code=2)
    assert "this clone is shallow" in done.stderr, done.stderr


def test_submodules(program, directory):
    library = repository(directory, "library")
    path = repository(directory)
    allow = ["-c", "protocol.file.allow=always"]
    for i, cost in enumerate((1, 1, 2)):
        commit(library, "library %d" % i, cost="%d\n# %d\n" % (cost, i))
        if i == 0:
            git(path, *allow, "submodule", "--quiet", "add", library, "lib")
        git(path, *allow, "submodule", "--quiet", "update", "--remote", "lib")
        commit(path, "commit %d" % i, app="read c < lib/cost; echo \"{\\\"seconds\\\": $c}\"\n")
    extra = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}
    args = ["--commits", "main~2..", "sh app", *FEW, "--build", counting(directory)]
    result = commits(program, path, *args, **extra)
    assert verdicts(result) == [None, "equivalent", "slower"], result
    commits(program, path, *args, **extra)
    assert len(builds(directory)) == 3
    # Which of them the user has is part of what a build is.
    git(path, "submodule", "--quiet", "deinit", "-f", "lib")
    done = bench(program, path, "--metric", "seconds", *args, code=1, **extra)
    assert "does not run" in done.stderr and len(builds(directory)) == 6, done.stderr


def test_blanks_in_paths_and_directories_below(program, directory):
    path = repository(directory, "a repo with 'quotes' in it")
    for i in range(3):
        os.makedirs(path_in(path, "sub dir"), exist_ok=True)
        commit(path, "commit %d" % i, **{"sub dir/app": "# %d\necho '{\"seconds\": %d}'\n" % (i, 1 + (i == 2))})
    cache = path_in(directory, "a cache")
    args = ["--commits", "main~2..", "sh app", *FEW, "--build", "test -f app && pwd >> '%s'" % path_in(directory, "pwd")]
    for _ in range(2):
        result = commits(program, path_in(path, "sub dir"), *args, XDG_CACHE_HOME=cache)
        assert verdicts(result) == [None, "equivalent", "slower"], result
    places = read(directory, "pwd").splitlines()
    assert len(places) == 3 and len({len(place) for place in places}) == 1, places
    assert all(place.startswith(cache) and place.endswith("/sub dir") for place in places), places
    # A commit without that directory is told.
    git(path, "checkout", "-q", "--orphan", "other")
    git(path, "rm", "-rqf", ".")
    commit(path, "elsewhere", app="true\n")
    os.makedirs(path_in(path, "sub dir"), exist_ok=True)
    commit(path, "back", **{"sub dir/app": "echo '{\"seconds\": 1}'\n"})
    commit(path, "more", **{"sub dir/app": "echo '{\"seconds\": 2}'\n"})
    done = bench(program, path_in(path, "sub dir"), "--metric", "seconds", "--commits", "other~2..other", "sh app", *FEW,
                 XDG_CACHE_HOME=cache)
    assert "has no directory 'sub dir/'" in done.stderr, done.stderr


def test_subjects_reach_neither_terminal_nor_page(program, directory):
    path = repository(directory)
    for i in range(2):
        commit(path, "\x1b[31mred\x1b[0m | <b>%d</b> `x`" % i, app="# %d\necho '{\"seconds\": 1}'\n" % i)
    commit(path, "\x1b]0;owned\x07 broken", app="exit 1\n")
    write(path, "page.md", "<!-- bench -->\n<!-- end bench -->\n")
    done = bench(program, path, "--metric", "seconds", "--commits", "main~2..", "sh app", *FEW, "--into", "page.md",
                 "--log", "../PERF.md", "--fail-over", "1%", code=1)
    for text in (done.stdout, done.stderr, read(path, "page.md"), read(directory, "PERF.md")):
        assert "\x1b" not in text and "\x07" not in text, text
    assert "<b>" not in read(path, "page.md") and "<b>" not in read(directory, "PERF.md")


def test_two_at_once_build_each_commit_once(program, directory):
    path, hashes = plain_repository(directory)
    build = counting(directory) + "; sleep 0.1"
    args = ["--commits", "main~5..", "--metric", "seconds", "sh app", *FEW, "--build", build, "--json"]
    both = [start(program, path, *args) for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert verdicts(json.loads(out))[3] == "slower", out
    assert sorted(builds(directory)) == sorted(hashes), builds(directory)


if __name__ == "__main__":
    sys.exit(runlib.main(dict(globals()), lambda test, program, directory: test(program, directory)))
