#!/usr/bin/env python3
"""Benchmark files and the tools they belong to: they read what we write, we read what they write.

Usage: python3 tests/python/test_bench_formats.py BUILD_DIR
Each test needs one tool (hyperfine, pyperf, pytest-benchmark, Google Benchmark's compare.py with SciPy, benchstat, pandas,
markdown-it) and is passed over with the reason where that is missing. Of hyperfine 2, which few systems have yet, a file that it
wrote is kept in the fuzzing corpus. Prints "N passed, N failed"; the exit status is 1 when a test failed.
"""
import collections
import csv
import gzip
import importlib.util
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys

import runlib

GOOGLE = "/usr/share/benchmark"
CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fuzz", "corpus", "fuzz_bench_formats")
METRICS = [("wall", "s", False), ("user", "s", False), ("system", "s", False), ("cpu", "s", False), ("rss", "bytes", False),
           ("minor_faults", "count", False), ("rate", "samples/s", True)]


class Skip(Exception):
    pass


def need(there, what):
    if not there:
        raise Skip(what)


def need_module(name):
    need(importlib.util.find_spec(name), "no Python module " + name)


def need_program(name):
    need(shutil.which(name), "no " + name)


def call(command, directory, status=0):
    done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, text=True, check=False)
    assert done.returncode == status, "exit status %d of %s: %s%s" % (done.returncode, command, done.stdout, done.stderr)
    return done


def compare(program, directory, *files):
    return json.loads(call([program, "bench", "compare", "--json", *files], directory).stdout)


def convert(program, directory, source, target, output):
    """Returns what it said about things that the format cannot carry."""
    return call([program, "bench", "convert", "--to", target, "-o", output, source], directory).stderr


def make_result(directory, name, factor=1.0, runs=12):
    """A result of `stoker bench --json` with two variants; the second is 10 % slower."""
    rng = random.Random(name)
    variants = []
    for i, variant in enumerate(("lazy", "stored")):
        wall = [factor * (1 + 0.1 * i) * math.exp(rng.gauss(0, 0.01)) for _ in range(runs)]
        measures = {"wall": wall, "user": [0.7 * x for x in wall], "system": [0.1 * x for x in wall], "cpu": [0.8 * x for x in wall],
                    "rss": [1048576 + 4096 * rng.randrange(9) for _ in wall], "minor_faults": [17] * runs,
                    "rate": [100 / x for x in wall]}
        variants.append({"name": variant, "command": "python t.py --" + variant, "group": 0, "measures": measures})
    metrics = [{"name": n, "unit": u, "higher_is_better": h} for n, u, h in METRICS]
    result = {"stoker": "bench", "version": 1, "time": "2026-11-15T16:00:00Z", "seed": 42, "paired": True, "metric": metrics[0],
              "metrics": metrics, "machine": "Some CPU, 2 cores, Linux 6.18", "variants": variants, "notes": []}
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        json.dump(result, file)
    return result


def load(directory, name):
    with open(os.path.join(directory, name), encoding="utf-8") as file:
        return json.load(file)


def times(result):
    return {v["name"]: v["times"] for v in result["variants"]}


def close(found, wanted, relative=1e-12):
    return len(found) == len(wanted) and all(math.isclose(a, b, rel_tol=relative) for a, b in zip(found, wanted))


def hodges_lehmann(a, b):
    return math.exp(statistics.median(math.log(y) - math.log(x) for x in a for y in b))


def test_every_format_comes_back(program, directory):
    made = make_result(directory, "in.json")
    for target in ("stoker", "hyperfine", "hyperfine2", "pyperf", "google", "go"):
        convert(program, directory, "in.json", target, "out")
        back = compare(program, directory, "out")
        assert [v["name"] for v in back["variants"]] == ["lazy", "stored"], target
        assert back["paired"] == (target == "stoker"), target
        for variant in made["variants"]:
            assert close(times(back)[variant["name"]], variant["measures"]["wall"]), target
        (item,) = back["comparisons"]
        assert (item["a"], item["b"], item["verdict"]) == ("lazy", "stored", "slower"), (target, item)
        assert item["paired"] == (target == "stoker") and item["p"] < 0.01 and 1.05 < item["ci_low"] < item["ci_high"] < 1.15, item


def test_files_are_compared_by_name_across_formats(program, directory):
    a, b = make_result(directory, "a.json"), make_result(directory, "b.json", 1.2)
    convert(program, directory, "a.json", "hyperfine", "a.hf")
    convert(program, directory, "b.json", "go", "b.txt")
    found = compare(program, directory, "a.hf", "b.txt")
    assert [(c["a"], c["b"]) for c in found["comparisons"]] == [("lazy", "lazy @b.txt"), ("stored", "stored @b.txt")]
    for item, x, y in zip(found["comparisons"], a["variants"], b["variants"]):
        assert item["verdict"] == "slower" and not item["paired"] and item["test"] == "Mann-Whitney"
        assert math.isclose(item["ratio"], hodges_lehmann(x["measures"]["wall"], y["measures"]["wall"]), rel_tol=1e-9)


def test_loss_is_told(program, directory):
    make_result(directory, "in.json")
    assert "name was written" in convert(program, directory, "in.json", "hyperfine", "out")
    for target in ("hyperfine", "hyperfine2", "pyperf", "google", "go"):
        assert "pairs" in convert(program, directory, "in.json", target, "out"), target


def test_github_entries(program, directory):
    made = make_result(directory, "in.json")
    convert(program, directory, "in.json", "github", "out.json")
    for entry, variant in zip(load(directory, "out.json"), made["variants"]):
        assert entry["name"] == variant["name"] and entry["unit"] == "s"
        assert math.isclose(entry["value"], statistics.median(variant["measures"]["wall"]))
        assert entry["range"].startswith("\u00b1 ") and entry["extra"].startswith("n=12\n")
    assert "verdict: slower against lazy" in entry["extra"]


def hyperfine_times(result):
    """Of both schemas."""
    return result["times"] if "times" in result else [run["time_wall_clock"]["value"] for run in result["measurements"]]


def test_reads_hyperfine(program, directory):
    need_program("hyperfine")
    call(["hyperfine", "-N", "-r", "6", "--export-json", "h.json", "-L", "n", "1,2", "sleep 0.00{n}"], directory)
    wanted = load(directory, "h.json")["results"]
    found = compare(program, directory, "h.json")
    assert times(found) == {r["command"]: hyperfine_times(r) for r in wanted}
    assert [v["parameters"] for v in found["variants"]] == [{"n": "1"}, {"n": "2"}]
    for variant, result in zip(found["variants"], wanted):
        summary = result.get("summary", {}).get("time_wall_clock", result)
        assert math.isclose(variant["mean"], summary["mean"]) and math.isclose(variant["sd"], summary["stddev"])
    (item,) = found["comparisons"]
    assert math.isclose(item["ratio"], hodges_lehmann(*map(hyperfine_times, wanted)), rel_tol=1e-9)
    assert any("keeps only their means" in note for note in found["notes"]) == ("times" in wanted[0])


def test_reads_hyperfine_scans_failures_and_single_runs(program, directory):
    need_program("hyperfine")
    call(["hyperfine", "--shell=sh", "-r", "2", "-i", "--export-json", "h.json", "-P", "n", "3", "4", "exit {n}"], directory)
    found = compare(program, directory, "h.json")
    assert [v["exit_codes"] for v in found["variants"]] == [[3, 3], [4, 4]], found
    assert any("4 runs ended with an exit code other than 0" in note for note in found["notes"])
    call(["hyperfine", "-r", "1", "--export-json", "one.json", "-n", "wait", "sleep 0.001"], directory)
    assert [v["n"] for v in compare(program, directory, "one.json")["variants"]] == [1]


def test_reads_a_file_of_hyperfine_2(program, directory):
    path = os.path.join(CORPUS, "hyperfine2")
    wanted = load(CORPUS, "hyperfine2")
    found = compare(program, directory, path)
    assert wanted["schema_version"] == 2 and times(found) == {r["command"]: hyperfine_times(r) for r in wanted["results"]}
    names = {"wall": "time_wall_clock", "cpu": "time_cpu", "user": "time_user", "system": "time_system", "rss": "memory_peak_resident"}
    for variant, result in zip(found["variants"], wanted["results"]):
        assert variant["parameters"] == {key: value["value"] for key, value in result["parameters"].items()}
        for ours, theirs in names.items():
            assert variant["measures"][ours] == [run[theirs]["value"] for run in result["measurements"]], ours


def test_written_for_hyperfine_2_is_what_it_wrote(program, directory):
    convert(program, directory, os.path.join(CORPUS, "hyperfine2"), "hyperfine2", "out.json")
    ours, theirs = load(directory, "out.json"), load(CORPUS, "hyperfine2")
    assert (ours["schema_version"], ours["primary_metric"]) == (theirs["schema_version"], theirs["primary_metric"])
    for mine, other in zip(ours["results"], theirs["results"]):
        assert [mine[key] for key in ("command", "measurements", "parameters")] == \
            [other[key] for key in ("command", "measurements", "parameters")]
        assert set(mine["summary"]) == set(other["summary"])
        for metric, summary in other["summary"].items():
            for key, value in summary.items():
                same = value == mine["summary"][metric][key]
                assert same or math.isclose(value, mine["summary"][metric][key], rel_tol=1e-9), (metric, key)


def test_written_for_hyperfine_has_its_keys(program, directory):
    need_program("hyperfine")
    call(["hyperfine", "-N", "-r", "2", "--export-json", "h.json", "true"], directory)
    make_result(directory, "in.json")
    (theirs,) = load(directory, "h.json")["results"]
    convert(program, directory, "in.json", "hyperfine" if "times" in theirs else "hyperfine2", "out.json")
    for ours in load(directory, "out.json")["results"]:
        missing = set(theirs) - set(ours)
        assert not missing, missing
        assert all(isinstance(ours[key], type(value)) for key, value in theirs.items()), ours


PYTEST_FILE = """
import pytest

def work(n):
    return sum(range(n))

def test_sum(benchmark):
    benchmark.pedantic(work, args=(1000,), rounds=9)

@pytest.mark.parametrize("n", [10, 100])
@pytest.mark.benchmark(group="sizes")
def test_sizes(benchmark, n):
    benchmark.extra_info["rows"] = n
    benchmark.pedantic(work, args=(n,), rounds=8, iterations=5)

@pytest.mark.parametrize("pair", [(1, None)], ids=["pair"])
def test_pair(benchmark, pair):
    benchmark.pedantic(work, args=(10,), rounds=7)

class TestMore:
    def test_sum(self, benchmark):
        benchmark.pedantic(work, args=(10,), rounds=7)
"""


def run_pytest(directory, *options):
    with open(os.path.join(directory, "test_it.py"), "w", encoding="utf-8") as file:
        file.write(PYTEST_FILE)
    call([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", directory, *options, "test_it.py"], directory)


def test_reads_pytest_benchmark(program, directory):
    need_module("pytest_benchmark")
    run_pytest(directory, "--benchmark-json=p.json")
    wanted = load(directory, "p.json")["benchmarks"]
    found = compare(program, directory, "p.json")
    assert times(found) == {b["fullname"]: b["stats"]["data"] for b in wanted} and len(wanted) == 5
    for variant in found["variants"]:
        stats = next(b["stats"] for b in wanted if b["fullname"] == variant["name"])
        assert math.isclose(variant["mean"], stats["mean"]) and math.isclose(variant["median"], stats["median"])
        assert variant["n"] == stats["rounds"]
    by_name = {v["name"].split("::", 1)[1]: v for v in found["variants"]}
    assert by_name["test_sizes[10]"]["group"] == by_name["test_sizes[100]"]["group"] != by_name["test_sum"]["group"]
    assert by_name["test_sizes[10]"]["parameters"] == {"n": "10"}
    assert by_name["test_pair[pair]"]["parameters"] == {"pair": "[1.0,null]"}
    assert any("not independent" in note for note in found["notes"])
    assert "CPython" in found["machine"] and found["time"]


def test_pytest_benchmark_without_rounds_is_refused_with_a_way_out(program, directory):
    need_module("pytest_benchmark")
    run_pytest(directory, "--benchmark-storage=store", "--benchmark-save=bare")
    run_pytest(directory, "--benchmark-storage=store", "--benchmark-save=full", "--benchmark-save-data")
    paths = {name.rsplit("_", 1)[1]: os.path.join(top, name) for top, _, files in os.walk(directory) for name in files
             if name.startswith("000")}
    assert "--benchmark-save-data" in call([program, "bench", "compare", paths["bare.json"]], directory, 2).stderr
    assert len(compare(program, directory, paths["full.json"])["variants"]) == 5


def test_csv_has_every_run(program, directory):
    made = make_result(directory, "in.json")
    convert(program, directory, "in.json", "csv", "out.csv")
    with open(os.path.join(directory, "out.csv"), newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24
    for variant in made["variants"]:
        mine = [row for row in rows if row["variant"] == variant["name"]]
        assert [int(row["round"]) for row in mine] == list(range(1, 13)) and {row["command"] for row in mine} == {variant["command"]}
        for metric, values in variant["measures"].items():
            assert [float(row[metric]) for row in mine] == values, metric


def test_pandas_pairs_the_rounds_of_the_csv(program, directory):
    need_module("pandas")
    import pandas  # pylint: disable=import-outside-toplevel

    made = make_result(directory, "in.json")
    made["variants"][0]["name"], made["variants"][1]["command"] = "=1+1", 'a "quoted", one\nmore'
    with open(os.path.join(directory, "in.json"), "w", encoding="utf-8") as file:
        json.dump(made, file)
    assert "apostrophe" in convert(program, directory, "in.json", "csv", "out.csv")
    frame = pandas.read_csv(os.path.join(directory, "out.csv"))
    wide = frame.pivot(index="round", columns="variant", values="wall")
    assert list(wide.columns) == ["'=1+1", "stored"] and close(list(wide["stored"]), made["variants"][1]["measures"]["wall"])
    assert set(frame[frame.variant == "stored"].command) == {made["variants"][1]["command"]}


def test_markdown_is_two_tables(program, directory):
    need_module("markdown_it")
    import markdown_it  # pylint: disable=import-outside-toplevel

    made = make_result(directory, "in.json")
    made["variants"][0]["name"] = "a|b `c` <i>"
    with open(os.path.join(directory, "in.json"), "w", encoding="utf-8") as file:
        json.dump(made, file)
    convert(program, directory, "in.json", "markdown", "out.md")
    with open(os.path.join(directory, "out.md"), encoding="utf-8") as file:
        tokens = markdown_it.MarkdownIt("commonmark").enable("table").parse(file.read())
    texts = ["".join(child.content for child in t.children) for t in tokens if t.type == "inline"]
    assert sum(t.type == "table_open" for t in tokens) == 2
    assert "a|b `c` <i>" in texts and "B/A" in texts and "B is slower" in texts, texts


def test_bencher_is_what_its_schema_wants(program, directory):
    made = make_result(directory, "in.json")
    convert(program, directory, "in.json", "bencher", "out.json")
    found = load(directory, "out.json")
    assert list(found) == ["lazy", "stored"]
    for variant in made["variants"]:
        measures = found[variant["name"]]
        assert list(measures) == ["latency", "cpu", "rss"]
        for name, factor in (("wall", 1e9), ("cpu", 1e9), ("rss", 1)):
            metric = measures["latency" if name == "wall" else name]
            assert set(metric) == {"value", "lower_value", "upper_value"} and all(isinstance(x, (int, float)) for x in metric.values())
            assert math.isclose(metric["value"], factor * statistics.median(variant["measures"][name]))
            assert metric["lower_value"] <= metric["value"] <= metric["upper_value"]


def pyperf(directory, *arguments):
    return call([sys.executable, "-m", "pyperf", *arguments], directory).stdout


def test_pyperf_reads_what_we_write(program, directory):
    need_module("pyperf")
    import pyperf as module  # pylint: disable=import-outside-toplevel

    made = make_result(directory, "in.json")
    make_result(directory, "in2.json", 1.2)
    convert(program, directory, "in.json", "pyperf", "a.json")
    convert(program, directory, "in2.json", "pyperf", "b.json")
    suite = module.BenchmarkSuite.load(os.path.join(directory, "a.json"))
    assert suite.get_benchmark_names() == ["lazy", "stored"]
    for variant in made["variants"]:
        bench = suite.get_benchmark(variant["name"])
        assert list(bench.get_values()) == variant["measures"]["wall"] and bench.get_nrun() == 12
        assert [run.get_metadata()["mem_max_rss"] for run in bench.get_runs()] == variant["measures"]["rss"]
        assert bench.get_metadata()["command"] == variant["command"]
    assert "Number of run with values: 12" in pyperf(directory, "stats", "a.json")
    pyperf(directory, "check", "a.json")
    words = pyperf(directory, "compare_to", "a.json", "b.json")
    assert "lazy: Mean" in words and "slower" in words, words


def process_means(module, path):
    bench = module.Benchmark.load(path)
    return [statistics.mean(run.values) for run in bench.get_runs() if run.values]


def test_reads_pyperf_timeit(program, directory):
    need_module("pyperf")
    import pyperf as module  # pylint: disable=import-outside-toplevel

    pyperf(directory, "timeit", "-q", "-p", "3", "-n", "4", "-w", "1", "--min-time", "0.001", "-o", "t.json", "--name", "lists", "[1] * 99")
    found = compare(program, directory, "t.json")
    assert close(times(found)["lists"], process_means(module, os.path.join(directory, "t.json")))
    assert any("12 values of 3 processes became one mean" in note for note in found["notes"]), found["notes"]
    assert any("(calibration)" in note for note in found["notes"])
    assert all(rss > 1e6 for rss in found["variants"][0]["measures"]["rss"])


def test_reads_pyperf_command_gzipped(program, directory):
    need_module("pyperf")
    import pyperf as module  # pylint: disable=import-outside-toplevel

    pyperf(directory, "command", "-q", "-p", "3", "-n", "1", "-w", "0", "-l", "1", "-o", "c.json.gz", "--", "true")
    with gzip.open(os.path.join(directory, "c.json.gz")) as file:
        assert file.read(1) == b"{"
    found = compare(program, directory, "c.json.gz")
    assert close(times(found)["command"], process_means(module, os.path.join(directory, "c.json.gz")))
    assert found["variants"][0]["command"] == "true"


def test_compare_py_makes_its_test(program, directory):
    script = os.path.join(GOOGLE, "compare.py")
    need(os.path.exists(script), "no " + script)
    need_module("scipy")
    for name, factor in (("a", 1.0), ("b", 1.2)):
        make_result(directory, name + ".in", factor)
        convert(program, directory, name + ".in", "google", name + ".json")
    words = call([sys.executable, script, "--no-color", "benchmarks", "a.json", "b.json"], directory).stdout
    lines = {line.split()[0]: line.split() for line in words.splitlines() if line.split()}
    for name in ("lazy", "stored"):
        line = lines[name + "_pvalue"]
        assert float(line[1]) < 0.01 and "U Test, Repetitions: 12 vs 12" in " ".join(line), line
        assert sum(row.startswith(name + " ") for row in words.splitlines()) == 12, words
    assert math.isclose(float(lines["OVERALL_GEOMEAN"][1]), 0.2, abs_tol=0.02), lines


def google_times(path):
    found = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for row in json.load(file)["benchmarks"]:
            if row.get("run_type") != "aggregate":
                found[row["name"]].append(row["real_time"] / {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1}[row["time_unit"]])
    return found


def test_reads_files_of_google_benchmark(program, directory):
    inputs = os.path.join(GOOGLE, "gbench", "Inputs")
    need(os.path.isdir(inputs), "no " + inputs)
    for name in ("test1_run1", "test1_run2", "test2_run", "test3_run0", "test3_run1"):
        path = os.path.join(inputs, name + ".json")
        found, wanted = times(compare(program, directory, path)), google_times(path)
        assert list(found) == list(wanted), name
        assert all(close(found[key], wanted[key]) for key in wanted), name
    pair = [os.path.join(inputs, name) for name in ("test1_run1.json", "test1_run2.json")]
    ratios = {c["a"]: c["ratio"] for c in compare(program, directory, *pair)["comparisons"]}
    assert math.isclose(ratios["BM_2xFaster"], 0.5) and math.isclose(ratios["BM_100xSlower"], 100), ratios
    rows = call([program, "bench", "compare", os.path.join(inputs, "test4_run.json")], directory, 1).stderr
    assert "benchmarks[0].real_time is not there" in rows, rows
    rows = call([program, "bench", "compare", os.path.join(inputs, "test4_run0.json")], directory, 2).stderr
    assert "no values of single runs: 1 rows of aggregates" in rows, rows


def test_benchstat_reads_what_we_write(program, directory):
    need_program("benchstat")
    make_result(directory, "in.json")
    convert(program, directory, "in.json", "go", "out.txt")
    done = call(["benchstat", "-format", "csv", "-col", "/variant", "out.txt"], directory)
    assert not [line for line in done.stderr.splitlines() if "out.txt" in line], done.stderr
    rows = [line.split(",") for line in done.stdout.splitlines()]
    units = {row[1] for row in rows if len(row) > 2 and not row[0]}
    assert {"sec/op", "user-sec", "rss-bytes", "rate-samples/s"} <= units, units
    at = next(i for i, row in enumerate(rows) if len(row) > 1 and row[1] == "sec/op")
    row = rows[at + 1]
    found = compare(program, directory, "in.json")
    assert row[0] == "Stoker" and math.isclose(float(row[1]), found["variants"][0]["median"], rel_tol=1e-3), row
    assert math.isclose(float(row[3]), found["variants"][1]["median"], rel_tol=1e-3), row


def run_test(test, program, directory):
    try:
        test(program, directory)
    except Skip as reason:
        print("%s: passed over: %s" % (test.__name__, reason))


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), run_test))
