"""Benchmarks in tests: the fixture, its options, the file for the program, and two commits in turns."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from stoker import bench

pytest_plugins = ["pytester"]

# Where the package is not installed but lies on the path, nobody tells pytest of the plugin.
INSTALLED = any(point.name == "stoker" for point in importlib.metadata.entry_points(group="pytest11"))
PLUGIN = () if INSTALLED else ("-p", "pytest_stoker")
MUCH = 20  # times as much work: no machine is so uneven
TIMEOUT_S = 120

FUNCTIONS = f"""
    import pytest

    def little():
        return sum(range(200))

    def much():
        return sum(sum(range(200)) for _ in range({MUCH}))
"""


@pytest.fixture(autouse=True)
def _no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of whoever runs these tests."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(*PLUGIN, *arguments, timeout=TIMEOUT_S)


def lines(*parts: str) -> str:
    import textwrap

    return "\n".join(textwrap.dedent(part) for part in parts)


# ---- without --stoker ----


def test_functions_are_called_once_and_give_what_they_return(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        calls = []

        def work(number, more=0):
            calls.append(number)
            return number + more

        def test_call(stoker_bench):
            assert stoker_bench(work, 3, more=4) == 7
            assert calls == [3] and not stoker_bench.enabled and stoker_bench.times == []

        def test_pedantic(stoker_bench):
            calls.clear()
            assert stoker_bench.pedantic(work, args=[5], rounds=10, iterations=3, warmup_rounds=9) == 5
            assert calls == [5]

        def test_compare(stoker_bench):
            calls.clear()
            found = stoker_bench.compare(work, work, args=[1], names=["a", "b"])
            assert calls == [1, 1] and "not measured" in repr(found)
        """
    )
    result = run(pytester)
    result.assert_outcomes(passed=3)
    result.stdout.no_fnmatch_line("*stoker: benchmarks*")


@pytest.mark.parametrize("asks", ["found.not_slower(by=0.05)", "found.verdict == 'faster'", "found.ratio < 1.1"])
def test_whoever_asks_for_a_figure_that_is_not_there_skips_the_test(pytester: pytest.Pytester, asks: str) -> None:
    test = f"def test_it(stoker_bench):\n    found = stoker_bench.compare(little, much)\n    assert {asks}\n"
    pytester.makepyfile(lines(FUNCTIONS, test))
    result = run(pytester, "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*called once: pytest --stoker"])


def test_the_start_of_pytest_costs_nothing(pytester: pytest.Pytester) -> None:
    """Neither the package nor its extension module is imported by the plugin, nor by a run without benchmarks."""
    pytester.makeconftest(
        """
        import sys

        def pytest_sessionfinish():
            found = [name for name in sys.modules if name.split(".")[0] in ("stoker", "numpy")]
            assert "pytest_stoker" in sys.modules and not found, found
        """
    )
    pytester.makepyfile("def test_nothing(): pass")
    assert run(pytester).ret == 0


def test_exceptions_are_shown_where_the_test_calls(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def fails(text):
            raise KeyError(text)

        def test_it(stoker_bench):
            stoker_bench(fails, "gone")
        """
    )
    for options in ([], ["--stoker"]):
        result = run(pytester, *options)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines([">*stoker_bench(fails, *gone*", "E*KeyError: *gone*"])
        result.stdout.no_fnmatch_line("*_pytest_bench.py*")
        result.stdout.no_fnmatch_line("*stoker: benchmarks*")


@pytest.mark.parametrize(
    "call, words",
    [
        ("stoker_bench(7)", "TypeError: stoker_bench: wanted a function, found 7"),
        ("stoker_bench(later)", "TypeError: *async function*asyncio.run*"),
        ("stoker_bench.pedantic(len, rounds=-1)", "ValueError: pedantic: rounds: found -1*"),
        ("stoker_bench.pedantic(len, setup=dict, iterations=2)", "ValueError: pedantic: iterations: found 2*"),
        ("stoker_bench.compare(len, 7)", "TypeError: *found 7"),
    ],
)
def test_what_cannot_be_measured_is_refused(pytester: pytest.Pytester, call: str, words: str) -> None:
    pytester.makepyfile(f"async def later(): pass\ndef test_it(stoker_bench):\n    {call}\n")
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E*{words}"])


# ---- measuring ----


def test_what_is_measured_is_shown_and_written(pytester: pytest.Pytester, build: pathlib.Path) -> None:
    pytester.makepyfile(
        test_b=lines(
            FUNCTIONS,
            """
            @pytest.mark.parametrize("n", [10, 20])
            def test_many(stoker_bench, n):
                stoker_bench.extra_info["size"] = n
                assert stoker_bench(sum, range(n)) == n * (n - 1) // 2
                assert len(stoker_bench.times) == 6 and min(stoker_bench.times) > 0

            class TestBoth:
                def test_twice(self, stoker_bench):
                    stoker_bench(little)
                    stoker_bench(much)

                def test_compare(self, stoker_bench):
                    assert stoker_bench.compare(much, little).verdict == "faster"
            """,
        )
    )
    result = run(pytester, "--stoker-rounds", "6", "--stoker-json", "runs.json")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "*stoker: benchmarks*",
            "benchmark*median*runs*ratio*verdict",
            "test_many?10? * 6",
            "test_many?20? * 6",
            "TestBoth::test_twice * 6",
            "TestBoth::test_twice #2 * 6",
            "TestBoth::test_compare: much * 6",
            "TestBoth::test_compare: little * 6 * 0.0* to 0.* faster",
            "runs: *runs.json",
        ]
    )
    found = json.loads((pytester.path / "runs.json").read_text())
    variants = {variant["name"]: variant for variant in found["variants"]}
    first = variants["test_b.py::test_many[10]"]
    assert first["parameters"] == {"size": "10"} and len(first["times"]) == 6
    assert [pair["b"].rpartition(": ")[2] for pair in found["comparisons"]] == ["little"] and found["machine"]
    command = [str(build / "stoker"), "bench", "compare"]
    once = subprocess.run([*command, "runs.json"], capture_output=True, text=True, check=True)
    assert once.stdout.count("verdict: F is faster") == 1 and "test_many[20]" in once.stdout
    twice = subprocess.run([*command, "runs.json", "runs.json"], capture_output=True, text=True, check=True)
    assert "unpaired" in twice.stdout


def test_groups_may_have_different_numbers_of_rounds(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        lines(
            FUNCTIONS,
            """
            def test_few(stoker_bench):
                stoker_bench.compare(little, much, rounds=3)

            def test_more(stoker_bench):
                assert stoker_bench.compare(little, much, rounds=9).verdict == "slower"

            def test_alone(stoker_bench):
                stoker_bench.pedantic(little, rounds=4)
            """,
        )
    )
    result = run(pytester, "--stoker")
    result.assert_outcomes(passed=3)
    wanted = ["test_few: much * inconclusive: 3 rounds are too few", "test_more: much * 9 * slower", "test_alone * 4"]
    result.stdout.fnmatch_lines(wanted)


def test_pedantic_calls_as_often_as_it_says(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_setup(stoker_bench):
            order = []

            def setup():
                order.append("setup")
                return ([len(order)], {"more": 1})

            def work(number, more):
                order.append("work")
                assert number == len(order) - 1 and more == 1
                return "done"

            def teardown(number, more):
                order.append("teardown")

            assert stoker_bench.pedantic(work, setup=setup, teardown=teardown, rounds=5) == "done"
            assert order == ["setup", "work", "teardown"] * 7  # a call, a warm-up, and the rounds

        def test_iterations(stoker_bench):
            calls = []
            stoker_bench.pedantic(calls.append, args=[1], rounds=5, iterations=3, warmup_rounds=2)
            assert len(calls) == 1 + 1 + 3 + 5 * 3

        def test_decorator(stoker_bench):
            @stoker_bench
            def answer():
                return 42

            assert answer == 42 and len(stoker_bench.times) >= 12
        """
    )
    run(pytester, "--stoker").assert_outcomes(passed=3)


def test_a_slower_function_fails_with_ratio_interval_and_verdict(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        lines(
            FUNCTIONS,
            """
            def test_slower(stoker_bench):
                found = stoker_bench.compare(little, much, rounds=8)
                assert found.not_slower(by=0.05)

            def test_faster(stoker_bench):
                assert stoker_bench.compare(much, little, rounds=8).not_slower(by=0.05, strict=True)
            """,
        )
    )
    result = run(pytester, "--stoker")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.re_match_lines(
        [r"E +assert <no: much / little = \d+\.\d+ \(\d+\.\d+ to \d+\.\d+\): slower, allowed are 5 %>"]
    )


def test_inconclusive_passes_with_a_note_unless_strict(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        lines(
            FUNCTIONS,
            """
            def test_few(stoker_bench):
                assert stoker_bench.compare(little, much, rounds=2).not_slower()
            """,
        )
    )
    result = run(pytester, "--stoker")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["test_few: much * inconclusive: 2 rounds are too few", "note: 1 of 1 comparisons inconclusive,*"]
    )
    result = run(pytester, "--stoker", "--stoker-strict")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*<no: *inconclusive; strict wants less than 1.02 for the whole interval>"])


def test_ctrl_c_leaves_what_was_measured(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        lines(
            FUNCTIONS,
            """
            def test_first(stoker_bench):
                stoker_bench(little)

            def test_second(stoker_bench):
                calls = []

                def interrupted():
                    calls.append(1)
                    if len(calls) == 30:
                        raise KeyboardInterrupt

                stoker_bench(interrupted)
            """,
        )
    )
    result = run(pytester, "--stoker-rounds", "6", "--stoker-json", "runs.json")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["test_first * 6"])
    found = json.loads((pytester.path / "runs.json").read_text())
    assert found["interrupted"] and [variant["n"] for variant in found["variants"]] == [6]


def test_only_benchmarks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def through(stoker_bench):
            return stoker_bench

        def test_one(stoker_bench): stoker_bench(int)
        def test_two(through): through(int)
        def test_three(): pass
        """
    )
    run(pytester, "--stoker-only").assert_outcomes(passed=2, deselected=1)


def test_tracers_are_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it(stoker_bench):
            sys.settrace(lambda *_: None)
            try:
                stoker_bench(int)
            finally:
                sys.settrace(None)
        """
    )
    run(pytester, "--stoker-rounds", "2").stdout.fnmatch_lines(["note: a tracer was on*"])


def test_names_cannot_move_the_cursor(pytester: pytest.Pytester) -> None:
    test = "def test_it(stoker_bench): stoker_bench.compare(little, much, rounds=2, names=['a\\x1b[2J', 'b'])\n"
    pytester.makepyfile(lines(FUNCTIONS, test))
    result = run(pytester, "--stoker")
    result.assert_outcomes(passed=1)
    assert "\x1b" not in result.stdout.str() and "test_it: a?[2J" in result.stdout.str()


def test_the_tests_of_the_guide_pass(pytester: pytest.Pytester) -> None:
    guide = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide" / "benchmarks.md"
    section = re.split(r"^## ", guide.read_text(encoding="utf-8").split("## From a test\n")[1], flags=re.M)[0]
    code, conftest = re.findall(r"^```python\n(.*?)^```$", section, re.M | re.S)
    pytester.makepyfile(code)
    pytester.makeconftest(conftest)
    run(pytester, "--stoker-rounds", "6").assert_outcomes(passed=2)


# ---- wrong calls, and other plugins ----


@pytest.mark.parametrize(
    "options, words",
    [
        (["--stoker-fail-over", "5%"], "--stoker-fail-over needs --stoker-against*"),
        (["--stoker-build", "make"], "--stoker-build needs --stoker-against*"),
        (["--stoker-against", "HEAD", "--stoker-fail-over", "five"], "*found 'five', wanted a share*"),
        (["--stoker-rounds", "0"], "*found '0', wanted 1 to 100000"),
        (["--stoker-rounds", "1" * 5000], "*wanted 1 to 100000"),
        (["--stoker-json", "no/such/place.json"], "*cannot write the file*no/such/place.json"),
    ],
)
def test_wrong_options_are_refused(pytester: pytest.Pytester, options: list[str], words: str) -> None:
    pytester.makepyfile("def test_it(stoker_bench): stoker_bench(int)")
    result = run(pytester, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{words}"])


def test_workers_in_parallel_do_not_measure(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile("def test_it(stoker_bench): stoker_bench(int)")
    run(pytester, "-n", "2").assert_outcomes(passed=1)
    run(pytester, "-n", "0", "--stoker-rounds", "2").assert_outcomes(passed=1)
    result = run(pytester, "-n", "2", "--stoker")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*pytest-xdist*leave -n out, or add -n 0"])


def test_it_lives_beside_pytest_benchmark(pytester: pytest.Pytester) -> None:
    pytest.importorskip("pytest_benchmark")
    pytester.makepyfile(
        """
        def test_both(benchmark, stoker_bench):
            assert benchmark(sum, [1, 2]) == stoker_bench(sum, [1, 2]) == 3
        """
    )
    result = run(pytester, "--stoker-rounds", "2", "--benchmark-min-rounds=1", "--benchmark-max-time=0.01")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*stoker: benchmarks*", "test_both * 2"])


def test_its_tests_run_with_a_fixture_of_that_name(pytester: pytest.Pytester) -> None:
    """Tests for pytest-benchmark, as they stand, where that is not loaded."""
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def benchmark(stoker_bench):
            return stoker_bench
        """
    )
    pytester.makepyfile(
        """
        def test_call(benchmark):
            benchmark.extra_info["k"] = "v"
            assert benchmark(sum, [1, 2]) == 3

        def test_pedantic(benchmark):
            assert benchmark.pedantic(sum, args=([1, 2],), kwargs={"start": 1}, iterations=2, rounds=3) == 4
        """
    )
    run(pytester, "--stoker", "-p", "no:benchmark").assert_outcomes(passed=2)


# ---- answers ----


def pair(verdict: str, ratio: float | None, low: float | None, high: float | None, **more: Any) -> bench.Pair:
    figures = {"a": "old", "b": "new", "verdict": verdict, "ratio": ratio, "ci_low": low, "ci_high": high, "p": 0.01}
    return bench.Pair({**figures, **more}, min_effect=0.02)


@pytest.mark.parametrize(
    "found, by, usual, strict",
    [
        (pair("slower", 1.2, 1.1, 1.3), 0.05, False, False),
        (pair("slower", 1.04, 1.03, 1.045), 0.05, True, True),  # slower, but not by so much
        (pair("slower", 1.04, 1.03, 1.045), 0, False, False),
        (pair("slower", 1.04, 1.03, 1.08), 0.05, True, False),  # it may be by so much
        (pair("slower-tail", 1.0, 0.99, 1.01), 0.05, False, False),
        (pair("faster", 0.5, 0.4, 0.6), 0, True, True),
        (pair("faster-tail", 1.0, 0.99, 1.01), 0, True, True),
        (pair("equivalent", 1.0, 0.99, 1.015), 0, True, True),
        (pair("inconclusive", 1.0, 0.9, 1.1), 0.05, True, False),
        (pair("inconclusive", 1.01, 0.99, 1.04), 0.05, True, True),  # whatever it is, it is not that
        (pair("inconclusive", None, None, None), 0.05, False, False),
        (pair("inconclusive", 1.0, 0.9, 1.1, withheld="its output differs"), 0.05, False, False),
    ],
)
def test_not_slower(found: bench.Pair, by: float, usual: bool, strict: bool) -> None:
    assert bool(found.not_slower(by)) is usual
    assert bool(found.not_slower(by, strict=True)) is strict
    assert repr(found.not_slower(by)).startswith("<yes: new / old = " if usual else "<no: new / old = ")


def test_a_yes_for_lack_of_evidence_is_not_sure() -> None:
    assert not pair("inconclusive", 1.0, 0.9, 1.1).not_slower(0.05).sure
    assert pair("equivalent", 1.0, 0.99, 1.01).not_slower(0.05).sure


@pytest.mark.parametrize("by", [-0.1, 0.01, 50, float("nan")])
def test_not_slower_by_what_was_not_looked_for(by: float) -> None:
    with pytest.raises(ValueError, match="by is .*min_effect"):
        pair("equivalent", 1.0, 0.99, 1.01).not_slower(by)


def test_not_slower_of_many_is_the_worst() -> None:
    def work(times: int) -> Any:
        return lambda: sum(sum(range(100)) for _ in range(times))

    found = bench.compare(work(MUCH), work(1), work(MUCH * MUCH), names=["a", "b", "c"], rounds=8)
    assert not found.not_slower() and "c / a" in found.not_slower().reason
    assert found.pairs[0].not_slower()


def test_bench_time() -> None:
    from stoker import _core

    seconds, calls = _core.bench_time(lambda: sum(range(100)))
    assert seconds > 0 and calls * seconds > 0.001
    assert _core.bench_time(int, 7)[1] == 7
    with pytest.raises(ValueError, match="calls: found -1"):
        _core.bench_time(int, -1)
    with pytest.raises(ZeroDivisionError):
        _core.bench_time(lambda: 1 // 0)


# ---- two commits ----


class Repository:
    """A project with a package in src/ and a benchmark of it."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        for name in ("src/toy", "tests"):
            (self.path / name).mkdir(parents=True)
        self.write("pyproject.toml", "[tool.pytest.ini_options]\npythonpath = ['src']\n")
        self.write("tests/conftest.py", "import pytest\n@pytest.fixture\ndef data(): return list(range(300))\n")
        test = "import toy\ndef test_decode(stoker_bench, data): stoker_bench(toy.decode, data)\n"
        self.write("tests/test_toy.py", test)
        self.write("src/toy/__init__.py", "def decode(data):\n    return sum(data)\n")
        self.git("init", "--quiet")
        self.commit()

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=toy", "-c", "user.email=toy@localhost")
        done = subprocess.run(["git", *identity, *words], cwd=self.path, capture_output=True, text=True, check=True)
        return done.stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", "toy")

    def run(self, *options: str) -> pytest.RunResult:
        result = run(self.pytester, "-p", "no:cacheprovider", *options)
        assert self.git("worktree", "list").count("\n") == 1, "the checkout is gone"
        return result


@pytest.fixture
def repository(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return Repository(pytester)


def test_a_commit_in_turns_with_this_tree(repository: Repository) -> None:
    repository.write("src/toy/__init__.py", f"def decode(data):\n    return [sum(data) for _ in range({MUCH})][0]\n")
    before = repository.git("status", "--porcelain", "--untracked-files=no")
    result = repository.run("--stoker-against", "HEAD", "--stoker-rounds", "6", "--stoker-fail-over", "5%",
                            "--stoker-json", "runs.json")  # fmt: skip
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [
            r"stoker: 1 test with benchmarks in turns with HEAD, 6 rounds of two processes",
            r"stoker: this tree / HEAD = \d+\.\d+ \(.* to .*\): slower, allowed are 5 %",
            r"benchmark +HEAD +this tree +ratio +95 % interval +verdict",
            r"test_decode .* slower",
        ]
    )
    found = json.loads((repository.path / "runs.json").read_text())
    (repository.path / "runs.json").unlink()
    assert repository.git("status", "--porcelain", "--untracked-files=no") == before
    assert [variant["name"] for variant in found["variants"]] == [
        "tests/test_toy.py::test_decode @HEAD",
        "tests/test_toy.py::test_decode",
    ]
    (comparison,) = found["comparisons"]
    assert comparison["paired"] and comparison["n"] == 6 and comparison["ci_low"] > 2


def test_the_tests_of_this_tree_are_asked_of_both(repository: Repository) -> None:
    """Where the commit cannot answer, that is told, and is no failure."""
    repository.write(
        "tests/test_toy.py",
        lines(
            """
            import pytest
            import toy

            def test_decode(stoker_bench, data):
                stoker_bench(toy.decode, data)
                stoker_bench(toy.decode, data[:10])

            def test_later(stoker_bench):
                stoker_bench(toy.later)

            def test_wrong(stoker_bench, data):
                assert stoker_bench(toy.decode, data) == toy.later()

            def test_compare(stoker_bench, data):
                assert stoker_bench.compare(toy.decode, toy.decode, args=[data], rounds=2).ratio > 0

            def test_no_benchmark():
                assert toy.later()
            """
        ),
    )
    repository.write("src/toy/__init__.py", "def decode(data):\n    return sum(data)\ndef later():\n    return 44850\n")
    result = repository.run("--stoker-against", "HEAD", "--stoker-rounds", "2", "--stoker-fail-over", "5%")
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(
        [
            "test_decode * inconclusive: 2 rounds are too few",
            "test_decode #2 * inconclusive*",
            "test_wrong * inconclusive*",
            "test_compare: decode * 2",
            "note: 4 of 4 comparisons inconclusive*",
            "note: *test_wrong: it fails at HEAD: AttributeError: *later*",
            "note: test_later: not compared: it fails at HEAD: AttributeError: *later*",
        ]
    )
    assert "test_compare: not compared" not in result.stdout.str()


def test_strict_fails_where_the_commit_leaves_it_open(repository: Repository) -> None:
    options = ("--stoker-against", "HEAD", "--stoker-rounds", "1", "--stoker-fail-over", "5%")
    repository.run(*options).assert_outcomes(passed=1)
    repository.write("src/toy/__init__.py", f"def decode(data):\n    return [sum(data) for _ in range({MUCH})][0]\n")
    repository.run(*options, "--stoker-strict").assert_outcomes(failed=1)


def test_a_test_that_the_commit_cannot_import(repository: Repository) -> None:
    repository.write("src/toy/new.py", "def new(): pass\n")
    repository.write("tests/test_new.py", "from toy.new import new\ndef test_new(stoker_bench): stoker_bench(new)\n")
    result = repository.run("--stoker-against", "HEAD", "--stoker-rounds", "1")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["note: test_new: not compared: it cannot be collected at HEAD: *toy.new*"])
    result = repository.run("--stoker-against", "HEAD", "--stoker-rounds", "1", "tests/test_new.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no benchmark ran in both: *cannot be collected at HEAD*"])


def test_code_of_this_tree_on_the_other_side_is_an_error(repository: Repository) -> None:
    repository.write("tests/conftest.py", f"import sys\nsys.path.insert(0, {str(repository.path / 'src')!r})\n"
                     "import pytest\n@pytest.fixture\ndef data(): return [1]\n")  # fmt: skip
    result = repository.run("--stoker-against", "HEAD", "--stoker-rounds", "3")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*HEAD imported files of this tree (src/toy/__init__.py)*"])


def test_code_that_is_neither_here_nor_there_is_told(repository: Repository) -> None:
    repository.write("tests/test_toy.py", "def test_decode(stoker_bench): stoker_bench(sum, [1, 2])\n")
    result = repository.run("--stoker-against", "HEAD", "--stoker-rounds", "1")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["note: nothing but tests was imported from the checkout of HEAD*"])


def test_a_build_comes_first(repository: Repository) -> None:
    test = "from toy.made import made\ndef test_made(stoker_bench): stoker_bench(made)\n"
    repository.write("tests/test_toy.py", test)
    repository.write(".gitignore", "made.py\n")
    repository.write("src/toy/made.py", "def made(): pass\n")
    build = "echo 'def made(): pass' > src/toy/made.py"
    result = repository.run("--stoker-against", "HEAD", "--stoker-rounds", "1", "--stoker-build", build)
    result.assert_outcomes(passed=1)
    result = repository.run("--stoker-against", "HEAD", "--stoker-rounds", "1", "--stoker-build", "exit 5")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--stoker-build: 'exit 5' ended with 5 at HEAD"])


@pytest.mark.parametrize("revision", ["nowhere", "-x", ""])
def test_commits_that_are_not_there(repository: Repository, revision: str) -> None:
    result = repository.run(f"--stoker-against={revision}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{revision!r}*"])


def test_without_a_repository(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(stoker_bench): stoker_bench(int)")
    result = run(pytester, "--stoker-against", "HEAD")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*not a git repository*"])


def test_a_side_that_dies_is_told(repository: Repository) -> None:
    repository.write("src/toy/__init__.py", "import os\ndef decode(data):\n    os._exit(9)\n")
    repository.commit()
    repository.write("src/toy/__init__.py", "def decode(data):\n    return sum(data)\n")
    result = repository.run("--stoker-against", "HEAD", "--stoker-rounds", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*pytest ended with 9*"])


def test_ctrl_c_ends_both_sides_and_removes_the_checkout(repository: Repository) -> None:
    repository.write(
        "tests/test_toy.py",
        lines(
            """
            import os, time, toy

            def work():
                with open(os.environ["MARK"], "a") as file:
                    file.write(f"{os.getpid()}\\n")
                time.sleep(60)

            def test_it(stoker_bench):
                stoker_bench(work)
            """
        ),
    )
    mark = repository.path.parent / "mark"
    env = dict(os.environ, MARK=str(mark))
    command = [sys.executable, "-m", "pytest", *PLUGIN, "--stoker-against", "HEAD"]
    process = subprocess.Popen(command, cwd=repository.path, env=env, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + TIMEOUT_S
    while not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert repository.git("worktree", "list").count("\n") == 1
    for number in mark.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(number), 0)
