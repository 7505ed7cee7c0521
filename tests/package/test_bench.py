"""Comparing Python functions: verdicts, exceptions, Ctrl-C, garbage, and files that the program reads."""

from __future__ import annotations

import functools
import gc
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import threading
import weakref

import pytest

import stoker
from stoker import bench

TIMES = 20  # as much work in `much` as in `little`: no machine is so uneven


def little() -> int:
    return sum(range(200))


def much() -> int:
    return sum(sum(range(200)) for _ in range(TIMES))


def test_the_faster_function_is_named() -> None:
    found = bench.compare(little, much, rounds=8)
    assert found.verdict == "slower" and found.faster == "little"
    assert found.low <= found.ratio <= found.high and found.low > 2 and found.p < 0.05
    assert list(found.seconds) == ["little", "much"]
    assert found.seconds["much"] > 2 * found.seconds["little"] > 0
    assert "B is slower" in str(found) and "much" in str(found)
    other = bench.compare(much, little, rounds=8)
    assert other.verdict == "faster" and other.faster == "little" and other.ratio < 0.5


def test_each_of_many_functions_is_compared_with_the_first() -> None:
    def most() -> None:
        for _ in range(TIMES):
            much()

    found = bench.compare(much, little, most, rounds=10)
    assert [(pair.a, pair.b, pair.verdict) for pair in found.pairs] == [
        ("much", "little", "faster"),
        ("much", "most", "slower"),
    ]
    assert found.faster == "little" and found.ratio == found.pairs[0].ratio
    assert "little / much" in repr(found.pairs[0])
    assert bench.compare(little, much, most, rounds=10).faster == "little"


def test_names_are_those_of_the_functions_each_once() -> None:
    class Thing:
        def __call__(self) -> int:
            return 1

    found = bench.compare(little, little, lambda: 1, functools.partial(little), Thing(), rounds=1, calls=1)
    assert list(found.seconds) == ["little", "little #2", "<lambda>", "little #3", "Thing"]
    assert list(bench.compare(len, repr, args=["x"], rounds=1).seconds) == ["len", "repr"]


def test_arguments_go_to_every_function() -> None:
    seen: set[tuple[str, int, str]] = set()

    def f(number: int, text: str) -> None:
        seen.add(("f", number, text))

    def g(number: int, text: str) -> None:
        seen.add(("g", number, text))

    bench.compare(f, g, args=(7, "x"), rounds=1)
    assert seen == {("f", 7, "x"), ("g", 7, "x")}


def count_calls(**options: object) -> list[str]:
    order: list[str] = []

    def a() -> None:
        order.append("a")

    def b() -> None:
        order.append("b")

    bench.compare(a, b, **options)  # type: ignore[arg-type]
    return order


def test_calls_rounds_and_warmup_are_as_asked() -> None:
    order = count_calls(rounds=6, warmup=2, calls=3, seed=1)
    assert order.count("a") == order.count("b") == 3 * (2 + 6)
    assert all(order[i] == order[i + 1] == order[i + 2] for i in range(0, len(order), 3))
    assert order == count_calls(rounds=6, warmup=2, calls=3, seed=1)
    uneven = count_calls(rounds=4, calls=[1, 5])
    assert (uneven.count("a"), uneven.count("b")) == (5, 25)


def test_the_order_depends_on_the_seed() -> None:
    orders = {tuple(count_calls(rounds=10, calls=1, seed=seed)) for seed in range(1, 9)}
    assert len(orders) > 1


def test_slow_functions_are_called_once_in_a_run() -> None:
    import time

    calls = []

    def slow() -> None:
        calls.append(1)
        time.sleep(0.03)

    found = bench.compare(slow, slow, rounds=2)
    assert len(calls) == 2 * (1 + 2)
    assert all(seconds >= 0.03 for seconds in found.seconds.values())


def test_what_was_found_is_saved_for_the_program(build: pathlib.Path) -> None:
    found = bench.compare(little, much, rounds=8, seed=3)
    found.save("found.json")
    assert json.loads(pathlib.Path("found.json").read_text()) == found.json
    assert found.json["seed"] == 3 and found.json["paired"] is True and len(found.json["variants"][0]["times"]) == 8
    command = [str(build / "stoker"), "bench", "compare", "found.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "B is slower" in done.stdout and "seed 3" in done.stdout
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    again = json.loads(done.stdout)["comparisons"][0]
    assert again["ratio"] == pytest.approx(found.ratio) and again["ci_low"] == pytest.approx(found.low)


def test_exceptions_come_out_as_they_are() -> None:
    class Odd(Exception):
        pass

    calls = 0

    def fails() -> None:
        nonlocal calls
        calls += 1
        if calls == 50:
            raise Odd("at 50")

    before = gc.isenabled()
    with pytest.raises(Odd, match="at 50"):
        bench.compare(fails, little, rounds=200, calls=1)
    assert calls == 50 and gc.isenabled() == before
    with pytest.raises(ZeroDivisionError):
        bench.compare(little, lambda: 1 // 0)


def test_progress_ends_it_with_what_was_measured() -> None:
    told: list[tuple[int, int, float]] = []

    def progress(at: int, rounds: int, left: float) -> bool:
        told.append((at, rounds, left))
        return at < 7

    found = bench.compare(little, much, rounds=1000, progress=progress)
    assert found.interrupted and len(found.json["variants"][0]["times"]) == 7
    assert told[0][:2] == (0, 0) and math.isnan(told[0][2])
    assert told[-1][:2] == (7, 1000) and told[-1][2] > 0
    with pytest.raises(stoker.CancelledError, match="nothing was measured"):
        bench.compare(little, much, progress=lambda *_: False)


def test_progress_that_returns_nothing_goes_on() -> None:
    assert not bench.compare(little, much, rounds=2, progress=lambda *_: None).interrupted


def test_an_exception_of_progress_comes_out() -> None:
    def progress(at: int, rounds: int, left: float) -> bool:
        if at == 3:
            raise KeyError("progress")
        return True

    with pytest.raises(KeyError, match="progress"):
        bench.compare(little, much, rounds=100, progress=progress)


def test_a_line_of_progress_is_for_terminals_only(capsys: pytest.CaptureFixture[str]) -> None:
    bench.compare(little, much, rounds=2, progress=True)
    assert capsys.readouterr().err == ""


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("function", [lambda: sum(range(100)), functools.partial(sum, [1, 2])])
def test_ctrl_c_ends_it(function: object) -> None:
    """Also where a function is written in C, and never looks for signals itself."""
    timer = threading.Timer(0.3, interrupt)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            bench.compare(function, function, names=["a", "b"], rounds=100000, calls=1000)  # type: ignore[arg-type]
    finally:
        timer.join()
    assert gc.isenabled()


def test_the_collector_is_off_in_runs_and_as_before_after() -> None:
    states: set[bool] = set()
    bench.compare(lambda: states.add(gc.isenabled()), little, rounds=2)
    assert states == {False} and gc.isenabled()
    gc.disable()
    try:
        bench.compare(little, much, rounds=2)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_garbage_of_runs_does_not_pile_up() -> None:
    class Node:
        pass

    alive: weakref.WeakSet[Node] = weakref.WeakSet()
    most = 0

    def cycle() -> None:
        nonlocal most
        node = Node()
        node.me = node  # type: ignore[attr-defined]
        alive.add(node)
        most = max(most, len(alive))

    bench.compare(cycle, little, rounds=20, calls=10)
    assert most <= 40  # of 210 that were made


def test_other_threads_run_meanwhile() -> None:
    counted = 0
    done = threading.Event()

    def work() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1

    thread = threading.Thread(target=work)
    thread.start()
    bench.compare(little, much, rounds=4)
    done.set()
    thread.join()
    assert counted > 0


def test_a_comparison_within_a_comparison() -> None:
    def inner() -> None:
        bench.compare(little, little, rounds=1, calls=1)

    found = bench.compare(inner, little, rounds=2, calls=1, names=["a", "b"])
    assert found.seconds["a"] > found.seconds["b"]


def test_nothing_is_left_behind() -> None:
    def f() -> None:
        pass

    counts = [sys.getrefcount(f), sys.getrefcount(None)]
    for _ in range(50):
        bench.compare(f, f, rounds=1, calls=1, progress=lambda *_: True)
    assert sys.getrefcount(f) == counts[0]
    if sys.version_info < (3, 12):  # from then on nobody counts None
        assert abs(sys.getrefcount(None) - counts[1]) < 50
    alive = weakref.ref(f)
    del f
    assert alive() is None


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"names": ["a"]}, ValueError, "names: 1 for 2 functions"),
        ({"names": ["a", "a"]}, stoker.InvalidError, "two functions are called 'a'"),
        ({"names": ["a", ""]}, stoker.InvalidError, "function 1 has no name"),
        ({"names": ["a", "b\0c"]}, ValueError, "NUL"),
        ({"names": ["a", 7]}, TypeError, "found 7"),
        ({"names": "ab"}, TypeError, "list of names"),
        ({"rounds": -1}, ValueError, "rounds: found -1"),
        ({"rounds": 10**7}, stoker.InvalidError, "rounds is 10000000"),
        ({"warmup": -5}, ValueError, "warmup: found -5"),
        ({"min_effect": -0.1}, stoker.InvalidError, "min_effect is -0.1"),
        ({"min_effect": float("nan")}, stoker.InvalidError, "min_effect"),
        ({"seed": -1}, ValueError, "seed: found -1, wanted 0 to"),
        ({"seed": 2**64}, ValueError, "seed: found 18446744073709551616"),
        ({"calls": 0}, ValueError, "calls: found 0"),
        ({"calls": [1]}, ValueError, "calls: 1 for 2 functions"),
        ({"calls": [1, 2.5]}, TypeError, "float"),
        ({"progress": 7}, TypeError, "not callable"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        bench.compare(little, much, **options)  # type: ignore[arg-type]


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="wanted functions, found 7"):
        bench.compare(little, 7)  # type: ignore[arg-type]


def test_html_is_escaped() -> None:
    found = bench.compare(little, much, rounds=6, calls=1, names=["<script>alert(1)</script>", "b & \x1b[31m"])
    html = found._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;" in html and "b &amp; " in html
    assert html.count("<tr>") == 3 and "<b>" in html
    assert "\x1b" not in str(found)


def test_too_few_rounds_give_no_verdict() -> None:
    found = bench.compare(little, much, rounds=2)
    assert found.verdict == "inconclusive" and found.faster is None
    assert "needs at least 6 rounds" in str(found)


def test_figures_that_are_missing_are_nan() -> None:
    figures: dict[str, object] = {"a": "f", "b": "g", "verdict": "inconclusive"}
    pair = bench.Pair(figures | dict.fromkeys(("ratio", "ci_low", "ci_high", "p")))
    assert math.isnan(pair.ratio) and math.isnan(pair.p) and pair.faster is None
