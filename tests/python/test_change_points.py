#!/usr/bin/env python3
"""Change points against Apache Otava: the same series to both. Called with the build directory.

Exits with 77 where the package apache-otava is missing (`make bench-check` has it). Hunter's rule must find the very
places that Otava finds. The rule of `bench history` is stricter: what it tells otherwise is counted and held to bounds.
Where otava-test-data is installed, its series with their known changes are the third judge.
"""
import os
import random
import subprocess
import sys

try:
    from otava.analysis import TTestSignificanceTester, compute_change_points, split
except ImportError:
    print("Apache Otava is not installed")
    sys.exit(77)

import runlib

# The sample that Otava's documentation analyses, and the places that it tells there.
DOCUMENTED = [([154023, 138455, 143112, 149190, 132098, 151344, 155145, 148889, 149466, 148209], []),
              ([10.43, 10.23, 10.29, 10.91, 10.34, 10.69, 9.23, 9.11, 9.13, 9.03], [6])]


def ask(tool, series, rule="hunter", window=50, max_p=0.001, least=0.0):
    """Of each series the changes as (index, p, before, after, ratio, low, high)."""
    lines = ["changes %s %d %r %r %d %s" % (rule, window, max_p, least, len(x), " ".join(repr(float(v)) for v in x))
             for x in series]
    done = subprocess.run([tool], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    answers = [[float(word) for word in line.split()] for line in done.stdout.splitlines()]
    assert len(answers) == len(series)
    return [[tuple(row[i:i + 7]) for i in range(0, len(row), 7)] for row in answers]


def sure(tool, series):
    return ask(tool, series, "default", 50, 0.05)


def places(changes):
    return [int(c[0]) for c in changes]


def make_series(rng):
    """Levels with noise, of any length and any shape that logs have; rounded as clocks round."""
    n = rng.choice([2, 3, 5, 8, 12, 20, 30, 49, 50, 51, 75, 100, 150, 260])
    level, drift, step_share = 100.0, rng.choice([0, 0, 0, 0.02]), rng.choice([0, 0.02, 0.05])
    correlation, tail, digits = rng.choice([0, 0, 0.6]), rng.random() < 0.3, rng.choice([1, 3, 9, 12])
    values, noise = [], 0.0
    for i in range(n):
        if rng.random() < step_share:
            level *= rng.choice([0.8, 0.95, 0.98, 1.03, 1.05, 1.3])
        noise = correlation * noise + rng.gauss(0, 1)
        wild = rng.choice([-30, 30]) if tail and rng.random() < 0.03 else 0
        values.append(round(level + drift * i + noise + wild, digits))
    return values


def otava_recomputed(x, window, max_p, least):
    """Otava's splits and tests; after a point is taken away, all that are left are tested anew.

    Otava 0.8 tests the two points after the one that went, and not the one before it, whose stretch has grown: that
    one is judged by figures of before.
    """
    tester, points = TTestSignificanceTester(max_p), split(list(x), window, 10 * max_p)
    while points:
        weakest = max(points, key=lambda p: p.stats.pvalue)
        if weakest.stats.pvalue < max_p:
            weakest = min(points, key=lambda p: p.stats.change_magnitude())
            if weakest.stats.change_magnitude() > least:
                break
        left = [p for p in points if p.index != weakest.index]
        intervals = tester.get_intervals(left)
        points = [tester.change_point(p.to_candidate(), x, intervals) for p in left]
    return points


def check_figures(mine, points):
    for a, b in zip(mine, points):
        for got, want in zip(a[1:4], (b.stats.pvalue, b.stats.mean_1, b.stats.mean_2)):
            assert abs(got - want) <= 1e-9 * abs(want) + 1e-15, (a, b)


def test_hunter_finds_what_otava_finds(tool):
    rng = random.Random(20261116)
    series = [make_series(rng) for _ in range(400)]
    differ, stale, found = [], 0, 0
    for window, max_p, least in ((50, 0.001, 0.0), (30, 0.01, 0.02), (10, 0.0001, 0.0)):
        ours = ask(tool, series, "hunter", window, max_p, least)
        for x, mine in zip(series, ours):
            points = otava_recomputed(x, window, max_p, least)
            as_is, _ = compute_change_points(list(x), window_len=window, max_pvalue=max_p, min_magnitude=least)
            found += len(points)
            stale += [p.index for p in as_is] != [p.index for p in points]
            if places(mine) != [int(p.index) for p in points]:
                differ.append((window, len(x), places(mine), [int(p.index) for p in points]))
            else:
                check_figures(mine, points)
    print("Hunter's rule: %d changes in %d series; %d series differ; stale figures move %d series of Otava itself" %
          (found, 3 * len(series), len(differ), stale))
    assert found > 1000 and not differ, differ
    assert stale <= 0.15 * 3 * len(series), stale


def test_documented_sample(tool):
    series = [x for x, _ in DOCUMENTED]
    for rule in (ask(tool, series), sure(tool, series)):
        assert [places(c) for c in rule] == [wanted for _, wanted in DOCUMENTED]


def test_clear_steps_are_the_same(tool):
    """Two levels 8 standard deviations apart: both rules and Otava say the same row and about the same size."""
    rng = random.Random(7)
    series = [[rng.gauss(108 if i >= 20 + k % 5 else 100, 1) for i in range(45)] for k in range(60)]
    same = 0
    for k, (x, mine) in enumerate(zip(series, sure(tool, series))):
        theirs = [int(p.index) for p in compute_change_points(list(x))[0]]
        same += places(mine) == theirs
        assert 20 + k % 5 in places(mine), (places(mine), theirs)
    print("clear steps: the same as Otava in %d of %d series" % (same, len(series)))
    assert same >= 50


def test_differences_are_those_that_are_meant(tool):
    """Series without a step: what Otava tells and we do not are wild rows, neighbours alike, and drift."""
    rng = random.Random(11)

    def alike(n):
        values, x = [], 0.0
        for _ in range(n):
            x = 0.6 * x + 0.8 * rng.gauss(0, 1)
            values.append(100 + x)
        return values

    def wild(n):
        values = [rng.gauss(100, 1) for _ in range(n)]
        values[rng.randrange(n)] += 25
        return values

    kinds = {"independent": lambda n: [rng.gauss(100, 1) for _ in range(n)], "one wild row": wild,
             "neighbours alike": alike, "drift": lambda n: [rng.gauss(100 + 4 * i / n, 1) for i in range(n)]}
    bounds = {"independent": 0.05, "one wild row": 0.05, "neighbours alike": 0.2, "drift": 0.25}
    for kind, make in kinds.items():
        series = [make(n) for n in (20, 50) for _ in range(60)]
        ours = sum(bool(c) for c in sure(tool, series)) / len(series)
        theirs = sum(bool(compute_change_points(list(x))[0]) for x in series) / len(series)
        print("no step, %s: told by us in %.1f %%, by Otava in %.1f %% of series" % (kind, 100 * ours, 100 * theirs))
        assert ours <= bounds[kind], (kind, ours)


def score(found, wanted):
    hits = sum(any(abs(f - w) <= 2 for f in found) for w in wanted)
    return hits, sum(all(abs(f - w) > 2 for w in wanted) for f in found), len(wanted)


def test_series_of_otava_test_data(tool):
    try:
        import otava_test_data as data
    except ImportError:
        print("without otava-test-data")
        return
    makers = {
        "constant": lambda s: data.constant(60), "normal": lambda s: data.noise_normal(100, seed=s),
        "uniform": lambda s: data.noise_uniform(100, seed=s),
        "outlier": lambda s: data.outlier(60, sigma=2, seed=s),
        "step": lambda s: data.step_function(80, sigma=4, seed=s),
        "regression and fix": lambda s: data.regression_fix(100, sigma=4, seed=s),
        "banding": lambda s: data.banding(100, sigma=1, seed=s),
        "several steps": lambda s: data.multiple_changes(200, sigma=3, seed=s)}
    for name, make in makers.items():
        mine, theirs = [0, 0, 0], [0, 0, 0]
        for seed in range(12):
            made = make(seed)
            x, wanted = [float(v) for v in made.data], [int(c.index) for c in made.change_points]
            wanted = [] if name == "outlier" else wanted
            otava = [int(p.index) for p in compute_change_points(list(x))[0]]
            assert places(ask(tool, [x])[0]) == [int(p.index) for p in otava_recomputed(x, 50, 0.001, 0)], (name, seed)
            for total, found in ((mine, places(sure(tool, [x])[0])), (theirs, otava)):
                for i, figure in enumerate(score(found, wanted)):
                    total[i] += figure
        print("%-18s of %d changes we find %d and %d false ones, Otava %d and %d" %
              (name, mine[2], mine[0], mine[1], theirs[0], theirs[1]))
        assert mine[1] <= theirs[1] + 1 and mine[0] >= 0.8 * theirs[0], (name, mine, theirs)


if __name__ == "__main__":
    TOOL = os.path.join(os.path.abspath(sys.argv[1]), "tests", "stats_tool")
    sys.exit(runlib.main(dict(globals()), lambda test, program, directory: test(TOOL)))
