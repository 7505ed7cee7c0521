#!/usr/bin/env python3
"""stoker diff and stoker merge on made-up traces: test_diff_merge.py BUILD_DIR

SciPy, where it is installed, is the judge of the statistics; test_stats.c has tables from the literature besides.
"""
import csv
import io
import json
import math
import os
import random
import subprocess
import sys

import runlib

try:
    from scipy import stats
except ImportError:
    stats = None


def stoker(program, *arguments, code=0):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (arguments, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


def write_json(directory, name, events, **more):
    path = os.path.join(directory, name)
    with open(path, "w") as file:
        json.dump({"traceEvents": events, **more}, file)
    return path


def ops(seed, rounds=60, names=12, slow=None, factor=1.0, steps=False, whole=False):
    """Rounds of ops with log-normal durations; op number `slow` takes `factor` times as long."""
    rng = random.Random(seed)
    events, now = [], 1000.0
    for n in range(rounds):
        begun = now
        for k in range(names):
            dur = math.exp(rng.gauss(math.log(50 + 10 * k), 0.1)) * (factor if k == slow else 1)
            dur = round(dur) if whole else round(dur, 3)
            events.append({"ph": "X", "name": f"op{k}", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": round(now, 3),
                           "dur": dur})
            now += dur + 1
        if steps:
            events.append({"ph": "X", "name": f"ProfilerStep#{n}", "cat": "user_annotation", "pid": 1, "tid": 1,
                           "ts": round(begun - 0.5, 3), "dur": round(now - begun, 3)})
            now += 2
    return events


def durations(events, name):
    return [round(e["dur"] * 1000) for e in events if e["name"] == name]


def diff_json(program, *arguments, code=0):
    return json.loads(stoker(program, "diff", *arguments, "--no-cache", "--format", "json", code=code).stdout)


def test_statistics_agree_with_scipy(program, directory):
    if not stats:
        print("test_statistics_agree_with_scipy: skipped, SciPy is not installed")
        return
    cases = ((60, 80, False), (60, 80, True), (7, 9, False), (7, 9, True), (300, 12, False))
    for rounds_before, rounds_after, whole in cases:
        before = ops(1, rounds_before, slow=3, factor=1.1, whole=whole)
        after = ops(2, rounds_after, slow=5, factor=1.2, whole=whole)
        a, b = write_json(directory, "a.json", before), write_json(directory, "b.json", after)
        rows = {row["name"]: row for row in diff_json(program, a, b, "--min-share", "0")["rows"]}
        expected = {}
        for name, row in rows.items():
            x, y = durations(before, name), durations(after, name)
            small = len(x) + len(y) <= 20
            method = stats.PermutationMethod(n_resamples=100000) if small else "asymptotic"
            wanted = stats.mannwhitneyu(y, x, method=method)
            expected[name] = wanted.pvalue
            assert row["exact"] == small
            assert math.isclose(row["p"], wanted.pvalue, rel_tol=1e-9, abs_tol=1e-300), (name, row["p"], wanted.pvalue)
            assert math.isclose(row["superiority"] * len(x) * len(y), wanted.statistic, rel_tol=1e-12), name
            assert row["before"]["count"] == len(x) and row["after"]["total"] == sum(y)
        order = sorted(expected, key=expected.get)
        largest = 0
        for i, name in enumerate(order):
            largest = max(largest, min(1, (len(order) - i) * expected[name]))
            assert math.isclose(rows[name]["p_corrected"], largest, rel_tol=1e-9), name


def test_diff_names_the_slow_op_and_exits_with_3(program, directory):
    a = write_json(directory, "a.json", ops(1, steps=True))
    b = write_json(directory, "b.json", ops(2, rounds=90, slow=7, factor=2, steps=True))
    report = diff_json(program, a, b, "--fail-over", "5%", code=3)
    assert report["basis"] == "step" and report["before"]["steps"] == 60 and report["after"]["steps"] == 90
    assert report["regression"]["found"] and report["regression"]["rule"] == "step_time"
    assert report["step"]["verdict"] == "slower" and 0.05 < report["step"]["change"] < 0.5
    slower = {row["name"] for row in report["rows"] if row["verdict"] == "slower"}
    assert slower == {"op7", "ProfilerStep#*"}, slower
    assert report["stacks"][0]["stack"] == "ProfilerStep#*;op7"
    stoker(program, "diff", a, b, "--no-cache")
    stoker(program, "diff", a, b, "--no-cache", "--fail-over", "90%")
    stoker(program, "diff", b, a, "--no-cache", "--fail-over", "0%")
    text = stoker(program, "diff", a, b, "--no-cache", "--fail-over=5%", code=3).stdout
    assert "REGRESSION: median step time" in text and "not independent" in text and "per step" in text


def test_diff_without_markers_uses_the_names(program, directory):
    a = write_json(directory, "a.json", ops(1, rounds=80))
    b = write_json(directory, "b.json", ops(2, rounds=80, slow=4, factor=1.1))
    report = diff_json(program, a, b, "--fail-over", "5", code=3)
    assert report["regression"]["rule"] == "names_time" and 0.05 < report["regression"]["change"] < 0.15
    assert {row["name"] for row in report["rows"] if row["verdict"] in ("slower", "faster")} == {"op4"}
    stoker(program, "diff", a, b, "--no-cache", "--fail-over", "20%")


def test_diff_takes_several_files_and_other_groups(program, directory):
    files = [write_json(directory, f"{n}.json", ops(n)) for n in range(4)]
    report = diff_json(program, files[0] + "," + files[1], files[2] + "," + files[3])
    assert report["before"]["files"] == 2 and report["after"]["files"] == 2
    same = diff_json(program, "--before", files[0], "--before", files[1], "--after", files[2], "--after", files[3])
    assert same["rows"] == report["rows"]
    for by in ("category", "thread", "process"):
        assert len(diff_json(program, files[0], files[1], "--by", by)["rows"]) == 1
    only = diff_json(program, files[0], files[1], "--by", "stack", "--limit", "3")
    assert len(only["stacks"]) == 3 and "rows" not in only


def test_diff_csv_has_one_shape(program, directory):
    odd = {"ph": "X", "name": 'a,"b"\n', "pid": 1, "tid": 2, "ts": 1, "dur": 9e5}
    a = write_json(directory, "a.json", ops(1, steps=True) + [odd])
    b = write_json(directory, "b.json", ops(2, steps=True))
    text = stoker(program, "diff", a, b, "--no-cache", "--format", "csv").stdout
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert {len(row) for row in rows} == {len(rows[0])}
    assert {row[0] for row in rows[1:]} >= {"step", "name", "stack"}
    assert [row[2] for row in rows if row[1] == 'a,"b"\n' and row[0] == "name"] == ["vanished"]


def test_diff_of_profiles_has_no_test(program, directory):
    paths = []
    for name, weights in (("a.folded", (90, 10)), ("b.folded", (60, 40))):
        paths.append(os.path.join(directory, name))
        with open(paths[-1], "w") as file:
            file.write("main;work %d\nmain;wait %d\n" % weights)
    report = diff_json(program, *paths)
    assert report["basis"] == "share"
    rows = {row["name"]: row for row in report["rows"]}
    assert math.isclose(rows["wait"]["after"]["self_share"], 0.4) and rows["wait"]["p"] is None
    assert "no durations to test" in stoker(program, "diff", *paths, "--no-cache").stdout
    assert "--fail-over" in stoker(program, "diff", *paths, "--no-cache", "--fail-over", "5%", code=2).stderr


def test_diff_says_what_is_wrong(program, directory):
    a = write_json(directory, "a.json", ops(1, rounds=3))
    assert "did you mean 'stack'" in stoker(program, "diff", a, a, "--by", "stak", code=2).stderr
    assert "percentage" in stoker(program, "diff", a, a, "--fail-over", "x", code=2).stderr
    assert "no trace after" in stoker(program, "diff", a, code=2).stderr
    assert "missing.json" in stoker(program, "diff", a, os.path.join(directory, "missing.json"), code=1).stderr


def rank(offset_us, drift=0.0, seed=0, steps=True, collectives=True, rounds=120, pid=7):
    """A rank whose clock reads true time + offset; collectives end at the same true time on all ranks."""
    shared, own = random.Random(99), random.Random(1000 + seed)
    events, now = [], 5e6

    def add(name, start, end, tid, cat):
        start, end = (t + offset_us + drift * (t - 5e6) for t in (start, end))
        events.append({"ph": "X", "name": name, "cat": cat, "pid": pid, "tid": tid, "ts": round(start, 3),
                       "dur": round(end - start, 3)})

    for n in range(rounds):
        length = 50e3 + shared.random() * 8e3
        end = now + 30e3 + shared.random() * 5e3
        if steps:
            add(f"ProfilerStep#{n}", now + own.random() * 200, now + length, 1, "user_annotation")
        else:
            add("work", now + own.random() * 200, now + length / 3, 1, "cpu_op")
        if collectives:
            add("ncclDevKernel_AllReduce_Sum_f32", end - 2e3 - own.random() * 3e3, end + own.random() * 8, 2, "kernel")
        now += length
    return events


def merge_json(program, *arguments, code=0):
    return json.loads(stoker(program, "merge", *arguments, "--no-cache", "--json", code=code).stdout)


def ends(path, name):
    with open(path) as file:
        trace = json.load(file)
    found = {}
    for e in trace["traceEvents"] if isinstance(trace, dict) else trace:
        if e.get("name") == name and e.get("ph") == "X":
            found.setdefault(e["pid"], []).append(float(e["ts"]) + float(e["dur"]))
    return {pid: sorted(times) for pid, times in found.items()}


def test_merge_aligns_ranks_and_keeps_their_pids_apart(program, directory):
    truth = [0, 11561600, -333, 42e6]
    drifts = [0, 0, 0, 20e-6]
    files = [write_json(directory, f"rank{i}.json", rank(truth[i], drifts[i], seed=i)) for i in range(4)]
    out = os.path.join(directory, "all.json")
    report = merge_json(program, *files, "-o", out)
    assert [f["aligned_by"] for f in report] == ["reference"] + 3 * ["collectives"]
    for i, f in enumerate(report[1:], 1):
        assert f["matched"] >= 115 and f["error_ns"] < 50e3
        if i < 3:
            assert abs(f["shift_ns"] + truth[i] * 1000) < f["error_ns"], f
    assert abs(report[3]["drift_ppm"] + 20) < 0.5 and report[1]["drift_ppm"] == 0
    by_pid = ends(out, "ncclDevKernel_AllReduce_Sum_f32")
    assert len(by_pid) == 4, sorted(by_pid)
    for times in zip(*by_pid.values()):
        assert max(times) - min(times) < 20, times  # us; the clocks were 42 s apart
    said = stoker(program, "merge", *files, "-o", out, "--no-cache").stderr
    assert "events matched" in said and "error at most" in said and "ppm taken out" in said


def test_merge_result_can_be_read_again(program, directory):
    files = [write_json(directory, f"rank{i}.json", rank(5e6 * i, seed=i)) for i in range(2)]
    for name in ("all.pftrace", "all.json.gz"):
        out = os.path.join(directory, name)
        merge_json(program, *files, "-o", out)
        report = diff_json(program, out, out)
        assert report["before"]["slices"] == 2 * 240, report["before"]


def test_merge_falls_back_to_steps_and_does_not_guess(program, directory):
    a = write_json(directory, "a.json", rank(0))
    b = write_json(directory, "b.json", rank(3e6, seed=1, collectives=False))
    c = write_json(directory, "c.json", rank(3e6, seed=2, collectives=False, steps=False))
    out = os.path.join(directory, "all.json")
    report = merge_json(program, a, b, c, "-o", out)
    assert [f["aligned_by"] for f in report] == ["reference", "steps", "not_aligned"]
    assert abs(report[1]["shift_ns"] + 3e9) < report[1]["error_ns"]
    assert report[2]["shift_ns"] == 0 and report[2]["why"]
    assert "NOT aligned" in stoker(program, "merge", a, b, c, "-o", out, "--no-cache").stderr
    forced = stoker(program, "merge", a, b, "-o", out, "--no-cache", "--align", "collectives", code=1)
    assert "cannot be aligned so" in forced.stderr
    given = merge_json(program, a, b, c, "-o", out, "--offset", "c.json=-3s")
    assert given[2]["aligned_by"] == "given" and given[2]["shift_ns"] == -3_000_000_000
    kept = merge_json(program, a, b, c, "-o", out, "--align", "none")
    assert {f["aligned_by"] for f in kept} == {"kept"} and {f["shift_ns"] for f in kept} == {0}


def test_merge_says_what_is_wrong(program, directory):
    a = write_json(directory, "a.json", rank(0, rounds=3))
    link = os.path.join(directory, "link.json")
    os.symlink(a, link)
    out = os.path.join(directory, "out.json")
    said = stoker(program, "merge", a, link, "-o", out, code=2).stderr
    assert a in said and link in said and "same file" in said
    assert "one of the files" in stoker(program, "merge", a, "-o", a, code=2).stderr
    assert "-o" in stoker(program, "merge", a, code=2).stderr
    assert "FILE=DURATION" in stoker(program, "merge", a, "-o", out, "--offset", "a.json", code=2).stderr
    assert "no such file among" in stoker(program, "merge", a, "-o", out, "--offset", "b.json=1s", code=2).stderr
    assert "did you mean 'steps'" in stoker(program, "merge", a, "-o", out, "--align", "step", code=2).stderr
    assert "format" in stoker(program, "merge", a, "-o", os.path.join(directory, "out.xyz"), code=2).stderr
    assert not os.path.exists(out)


# ---- files of one process ----

TIMELINES = os.environ.get("STOKER_TIMELINES", os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared", "data", "repro", "traces", "tf1_timelines"))
DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


def timeline(seed, start):
    """A step as TensorFlow's timeline.py writes it when it cannot parse the labels of ops."""
    rng = random.Random(seed)
    events = [{"name": "process_name", "ph": "M", "pid": pid, "args": {"name": DEVICE + kind}}
              for pid, kind in ((1, " Compute"), (2, " Tensors"))]
    now = start
    for k in range(40):
        dur = rng.randrange(1, 500)
        events.append({"ph": "X", "cat": "Op", "name": "unknown", "pid": 1, "tid": k % 3, "ts": now, "dur": dur,
                       "args": {"name": "node%d:Op%d" % (k, k % 7), "op": "unknown"}})
        now += dur + 1
    return events, now


def joined_by_hand(paths):
    """What the authors of such files do: all events in one list."""
    events = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            events += json.load(file)["traceEvents"]
    return events


def slices_by_thread(events):
    names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    return sorted((names[e["pid"]], e["tid"], e["ts"], e["dur"], e["args"]["name"]) for e in events if e["ph"] == "X")


def check_joined(program, directory, paths):
    wanted = joined_by_hand(paths)
    for command in ("convert", "merge"):
        out = os.path.join(directory, command + ".json")
        stoker(program, command, "--no-cache", "-q", *paths, "-o", out)
        with open(out, encoding="utf-8") as file:
            found = json.load(file)["traceEvents"]
        assert slices_by_thread(found) == slices_by_thread(wanted), command
        processes = {e["pid"] for e in found if e["ph"] == "M" and e["name"] == "process_name"}
        assert processes == {1, 2}, (command, processes)
    totals = {}
    for e in wanted:
        if e["ph"] == "X":
            totals[e["args"]["name"]] = totals.get(e["args"]["name"], 0) + e["dur"] * 1000
    done = stoker(program, "top", "--no-cache", "-q", *paths, "--format", "json", "--limit", "1000")
    assert {row["name"]: row["total_ns"] for row in json.loads(done.stdout)} == totals


def test_timelines_join_as_by_hand(program, directory):
    paths, now = [], 1584128411446459
    for seed in (3, 1, 2, 4):
        events, now = timeline(seed, now + 1000)
        paths.append(write_json(directory, "timeline-%d.json" % seed, events))
    check_joined(program, directory, paths)


def test_timelines_of_others_join_as_by_hand(program, directory):
    if not os.path.isdir(TIMELINES):
        print("test_timelines_of_others_join_as_by_hand: skipped, %s is not there (STOKER_TIMELINES)" % TIMELINES)
        return
    check_joined(program, directory, sorted(os.path.join(TIMELINES, name) for name in os.listdir(TIMELINES)))


def test_one_step_in_one_file_is_told_from_many(program, directory):
    events, now = timeline(1, 1584128411446459)
    one = write_json(directory, "one.json", events)
    many = write_json(directory, "many.json", events + timeline(2, now)[0])
    for path, value in ((one, "tensorflow1"), (many, "tensorflow1_joined")):
        done = stoker(program, "sql", "--no-cache", "--quiet", path, "--format", "csv", "-q",
                      "SELECT value FROM fact WHERE key = 'timeline'")
        assert done.stdout.split() == ["value", value], done.stdout


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, program, directory: test(program, directory)))
