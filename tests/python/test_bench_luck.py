#!/usr/bin/env python3
"""stoker bench calibrate with real commands: its figures are worked out again from the runs in its JSON.

Called with the build directory. Nothing here asserts how long something takes, nor what the machine can tell apart.
"""
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
import xml.etree.ElementTree

import runlib

try:
    from scipy import stats
except ImportError:
    stats = None

RULES = ["mann_whitney", "welch", "means"]


def environment(directory):
    return dict(os.environ, XDG_CACHE_HOME=os.path.join(directory, ".cache"), HOME=directory, LC_ALL="C")


def calibrate(program, directory, *args, code=0):
    done = subprocess.run([program, "bench", "calibrate", "--quiet", *args], cwd=directory, env=environment(directory),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          encoding="utf-8", timeout=120, check=False)
    assert done.returncode == code, "exit code %d, wanted %d\n%s%s" % (done.returncode, code, done.stdout, done.stderr)
    return done


def figures(program, directory, *args):
    return json.loads(calibrate(program, directory, "--json", *args).stdout)


def path_in(directory, name):
    return os.path.join(directory, name)


def ran(directory):
    try:
        with open(path_in(directory, "ran"), encoding="utf-8") as file:
            return file.read().split()
    except FileNotFoundError:
        return []


def kept(directory):
    return [os.path.join(root, name) for root, _, names in os.walk(path_in(directory, ".cache")) for name in names]


# ---- the figures, worked out again ----

def order_windows(found, effect, n, kind):
    """Runs of A and of B of each window of n around a change of command."""
    for series in found["series"]:
        if series["kind"] == kind and series["effect"] == effect:
            values, sides = series["values"], series["sides"]
            for at in range(n, len(values) - n + 1):
                before, after = sides[at - n:at], sides[at:at + n]
                if len(set(before)) == len(set(after)) == 1 and before != after:
                    pair = values[at - n:at], values[at:at + n]
                    yield pair if before[0] == "A" else pair[::-1]


def same_windows(found, n, windows):
    """The first and the next n runs of each window of one command."""
    for stride in range(n, 0, -1):
        starts = [(series["values"], 2 * at) for series in found["series"] if series["kind"] == "same"
                  for at in range(0, len(series["values"]) // 2 - n + 1, stride)]
        if len(starts) >= windows:
            break
    assert len(starts) == windows, (len(starts), windows)
    return [(values[at:at + n], values[at + n:at + 2 * n]) for values, at in starts]


def called(a, b, rule):
    if rule == "means":
        means = sorted([statistics.fmean(a), statistics.fmean(b)])
        return means[1] / means[0] > 1.05
    if rule == "welch":  # as scripts/welch_ttest.py of hyperfine
        return stats.ttest_ind(a, b, equal_var=False).pvalue < 0.05
    method = "exact" if len(a) + len(b) <= 20 else "asymptotic"
    return stats.mannwhitneyu(a, b, alternative="two-sided", method=method).pvalue < 0.05


def check_order(windows, shares, equals):
    assert len(windows) == shares["windows"], (len(windows), shares)
    for rule in RULES if stats else ["means"]:
        hits = [(a, b) for a, b in windows if called(a, b, rule)]
        assert abs(shares[rule]["called"] - len(hits) / len(windows)) < 1e-9, (rule, len(hits), shares)
        if equals:
            assert shares[rule]["right"] is None
        elif rule != "mann_whitney":
            right = sum(statistics.fmean(b) > statistics.fmean(a) for a, b in hits)
            assert abs(shares[rule]["right"] - right / len(windows)) < 1e-9, (rule, right, shares)


def test_shares_are_those_of_the_runs(program, directory):
    found = figures(program, directory, "--rounds", "60", "--seed", "1", "sleep 0.001", "--slower", "sleep 0.003")
    assert [effect["truth"] > 1 for effect in found["effects"]] == [False, True], found["effects"]
    assert found["effects"][1]["truth_rounds"] == 60 and found["effects"][1]["more"] is None
    assert found["runs"] == 120 and found["all_runs"] == 360 == sum(len(s["values"]) for s in found["series"])
    for index, effect in enumerate(found["effects"]):
        assert effect["sizes"]
        for size in effect["sizes"]:
            if size["order"] and index == 0:
                check_order(same_windows(found, size["runs"], size["order"]["windows"]), size["order"], True)
            elif size["order"]:
                check_order(list(order_windows(found, index, size["runs"], "order")), size["order"], False)
            assert size["hyperfine"] is None
            assert 0 <= size["turns"]["verdict"]["called"] <= 1 and 0 <= size["turns"]["covered"] <= 1


def test_turns_are_judged_as_stoker_bench_compares(program, directory):
    """Each window of 12 rounds as a file of `stoker bench`: as many changes, and the same intervals around 1."""
    found = figures(program, directory, "--rounds", "60", "--seed", "2", "sleep 0.001", "--slower", "sleep 0.0015")
    metric = {"name": "wall", "unit": "s", "higher_is_better": False}
    for index, kind in enumerate(["same", "turns"]):
        size = next(size["turns"] for size in found["effects"][index]["sizes"] if size["runs"] == 12)
        series = next(one for one in found["series"] if one["kind"] == kind)
        stride = next(stride for stride in range(12, 0, -1) if (60 - 12) // stride + 1 >= size["windows"])
        seen, right, covered = 0, 0, 0
        for first in range(0, 60 - 12 + 1, stride):
            runs = list(zip(series["sides"], series["values"]))[2 * first:2 * (first + 12)]
            sides = [[value for side, value in runs if side == name] for name in "AB"]
            result = {"stoker": "bench", "version": 1, "seed": 1, "paired": True, "metric": metric, "metrics": [metric],
                      "variants": [{"name": name, "command": name, "group": 0, "measures": {"wall": values}}
                                   for name, values in zip("AB", sides)], "notes": []}
            with open(path_in(directory, "window.json"), "w", encoding="utf-8") as file:
                json.dump(result, file)
            done = subprocess.run([program, "bench", "compare", "--json", "--min-effect", "0", "--margin", "0",
                                   "window.json"], cwd=directory, stdout=subprocess.PIPE, check=True)
            judged = json.loads(done.stdout)["comparisons"][0]
            seen += judged["verdict"].startswith(("faster", "slower"))
            right += judged["verdict"].startswith("slower" if found["effects"][index]["truth"] > 1 else "faster")
            covered += judged["ci_low"] <= found["effects"][index]["truth"] <= judged["ci_high"]
        assert round(size["verdict"]["called"] * size["windows"]) == seen, (size, seen)
        assert round(size["covered"] * size["windows"]) == covered, (size, covered)
        assert index == 0 or round(size["verdict"]["right"] * size["windows"]) == right, (size, right)


def test_runs_take_turns_and_then_follow_each_other(program, directory):
    args = ["--rounds", "12", "--warmup", "0", "echo A >>ran", "--slower", "echo B >>ran"]
    found = figures(program, directory, *args)
    wanted = "".join(s["sides"] if s["kind"] != "same" else "A" * len(s["sides"]) for s in found["series"])
    first = len(ran(directory)) - len(wanted)  # to see how long it takes
    assert 1 <= first <= 9 and "".join(ran(directory))[first:] == wanted, (ran(directory), wanted)
    assert [s["kind"] for s in found["series"]] == ["same", "turns", "order"]
    assert found["series"][2]["sides"] == "AAAAAABBBBBB" * 2
    for series in found["series"][:2]:
        for at in range(0, 24, 2):
            assert series["sides"][at:at + 2] in ("AB", "BA"), series


def test_a_command_alone_stands_for_slower_ones(program, directory):
    found = figures(program, directory, "--rounds", "40", "true")
    assert [(e["more"], e["scaled"], e["truth"]) for e in found["effects"]] == \
        [(0, False, 1), (0.05, True, 1.05), (0.1, True, 1.1)]
    assert len(found["series"]) == 1 and found["runs"] == 80
    for one, same in zip(found["effects"][1]["sizes"], found["effects"][0]["sizes"]):
        # Longer by a factor: the error of the ratio stays what it is.
        assert abs(one["turns"]["error"] - same["turns"]["error"]) < 1e-9
        assert one["turns"]["windows"] == one["order"]["windows"] == same["turns"]["windows"]


def test_the_built_in_command_has_5_and_10_percent_more_work(program, directory):
    found = figures(program, directory, "--rounds", "12", "--svg", "luck.svg")
    counts = [int(effect["command"].split("-lt ")[1].split()[0]) for effect in found["effects"]]
    assert [count / counts[0] for count in counts] == [1, 1.05, 1.1], counts
    assert found["stoker"] == "calibrate" and found["version"] == 1 and found["metric"] == "wall"
    assert not found["interrupted"] and found["hyperfine"] is None and found["notes"] == []
    root = xml.etree.ElementTree.parse(path_in(directory, "luck.svg")).getroot()
    text = " ".join(root.itertext())
    assert root.tag.endswith("svg") and "One program against itself" in text and "10 % more work" in text, text


def test_what_the_machine_can_tell_is_kept(program, directory):
    done = calibrate(program, directory, "--rounds", "40", "--json", "true")
    found = json.loads(done.stdout)
    files = kept(directory)
    assert len(files) == 1 and found["fingerprint"] in files[0] and files[0] in done.stderr, (files, done.stderr)
    with open(files[0], encoding="utf-8") as file:
        stored = json.load(file)
    assert stored["stoker_calibration"] == 1 and stored["runs"] == 80
    assert [size["n"] for size in stored["sizes"]] == [size["rounds"] for size in found["sizes"]]


def test_another_metric_is_not_kept_for_wall_time(program, directory):
    found = figures(program, directory, "--rounds", "12", "--metric", "units", "echo '{\"units\": 3}'")
    assert found["metric"] == "units" and found["median_s"] == 3 and kept(directory) == []
    assert all(size["turns"]["verdict"]["called"] == 0 for size in found["effects"][0]["sizes"])


def test_text_says_how_many(program, directory):
    done = calibrate(program, directory, "--rounds", "12", "true", "--slower", "sleep 0.01")
    for words in ("A against itself", "In short: ", "B is 'sleep 0.01', and takes ", "(by all 12 rounds in turns)"):
        assert words in done.stdout, done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) < 130, done.stdout


def test_wrong_calls_run_nothing(program, directory):
    touch = "echo x >>ran"
    for args, words in ([["--rounds", "5", touch], "--rounds wants at least 6"],
                        [["--rounds", "11", touch, "--slower", touch], "at least 12"],
                        [["--rounds", "20", "--time", "1s", touch], "do not go together"],
                        [["--slower", touch], "wants a COMMAND"],
                        [["--time", "never", touch], "--time wants"],
                        [["--hyperfine", "--metric", "cpu", touch], "--metric cpu"],
                        [["--metric", "instructions", touch], "no luck"],
                        [["--hyperfine", "--conclude", "true", touch], "--conclude"],
                        [[touch] + 8 * ["--slower", touch], "at most 7"]):
        done = calibrate(program, directory, *args, code=2)
        assert words in done.stderr, (args, done.stderr)
    done = calibrate(program, directory, "--rounds", "6", "--svg", "not/there.svg", touch, code=1)
    assert "there.svg" in done.stderr and ran(directory) == [] and os.listdir(directory) == [], done.stderr


def test_a_command_that_fails_ends_it_with_the_figures_so_far(program, directory):
    failing = "echo x >>ran; test $(wc -l <ran) -lt 40"
    done = calibrate(program, directory, "--rounds", "50", failing, code=1)
    assert "failed: exit code 1" in done.stderr and "A against itself" in done.stdout, (done.stderr, done.stdout)
    done = calibrate(program, directory, "--rounds", "50", "no-such-program-here", code=1)
    assert "no-such-program-here" in done.stderr and done.stdout == "", (done.stderr, done.stdout)


def test_too_little_time_is_told_with_what_would_do(program, directory):
    done = calibrate(program, directory, "--time", "500ms", "sleep 0.1", code=2)
    assert "--time" in done.stderr and "wanted at least" in done.stderr, done.stderr


def test_the_page_has_the_figures_of_its_file(program, directory):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/luck_page.py")
    done = subprocess.run([sys.executable, script, "--check"], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_time_ends_it(program, directory):
    found = figures(program, directory, "--time", "1500ms", "true")
    assert found["runs"] >= 12 and not found["interrupted"]


def test_ctrl_c_gives_the_figures_so_far(program, directory):
    with subprocess.Popen([program, "bench", "calibrate", "--json", "echo x >>ran"], cwd=directory,
                          env=environment(directory), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        deadline = time.monotonic() + 60
        while len(ran(directory)) < 60 and time.monotonic() < deadline:
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        out, said = run.communicate(timeout=60)
    found = json.loads(out)
    assert run.returncode == 130 and found["interrupted"] and found["runs"] >= 12, (run.returncode, said)


def test_hyperfine_itself_is_a_witness(program, directory):
    if not shutil.which("hyperfine"):
        done = calibrate(program, directory, "--hyperfine", "--rounds", "12", code=1)
        assert "install hyperfine" in done.stderr, done.stderr
        return
    found = figures(program, directory, "--hyperfine", "--rounds", "24", "--svg", "luck.svg", "sleep 0.02",
                    "--slower", "sleep 0.03 # it's 'quoted'")
    assert found["hyperfine"].startswith("hyperfine "), found["hyperfine"]
    assert [(s["kind"], s["effect"], s["sides"]) for s in found["series"]][-2:] == \
        [("hyperfine", effect, 12 * "A" + 12 * "B") for effect in (0, 1)]
    for index, effect in enumerate(found["effects"]):
        for size in effect["sizes"]:
            if size["hyperfine"]:
                check_order(list(order_windows(found, index, size["runs"], "hyperfine")), size["hyperfine"], index == 0)
    with open(path_in(directory, "luck.svg"), encoding="utf-8") as file:
        assert "hyperfine itself" in file.read()


def test_hyperfine_that_times_nothing_is_told(program, directory):
    os.mkdir(path_in(directory, "bin"))
    tool = path_in(directory, "bin/hyperfine")
    runs = {"results": [{"command": name, "times": 6 * [0]} for name in "AB"]}
    with open(tool, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\ntest $1 = --version && echo hyperfine 9 && exit\n"
                   "while [ $1 != --export-json ]; do shift; done\necho '%s' >$2\n" % json.dumps(runs))
    os.chmod(tool, 0o755)
    env = dict(environment(directory), PATH=path_in(directory, "bin") + ":" + os.environ["PATH"])
    done = subprocess.run([program, "bench", "calibrate", "-q", "--hyperfine", "--rounds", "12", "true"], cwd=directory,
                          env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "too fast for it" in done.stderr and "A against itself" in done.stdout, done


def test_without_hyperfine_it_says_how_to_get_it(program, directory):
    env = dict(environment(directory), PATH=directory)
    done = subprocess.run([program, "bench", "calibrate", "-q", "--hyperfine", "--rounds", "12"], cwd=directory, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "apt install hyperfine" in done.stderr and not done.stdout, done.stderr


if __name__ == "__main__":
    sys.exit(runlib.main(dict(globals()), lambda test, program, directory: test(program, directory)))
