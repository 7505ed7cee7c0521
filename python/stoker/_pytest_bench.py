"""Benchmarks in tests: the fixture of the pytest plugin, and what it measures.

A mode is chosen once, when pytest starts, and decides what a benchmark does:

    Once      calls the function once; without --stoker
    Here      measures it in this process; --stoker
    Against   calls it once: it was measured before the tests, in other processes; --stoker-against
    Serve     is one of these processes, and measures when it is told to
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

from ._pytest_report import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from . import bench

    Setup = Callable[[], "tuple[Iterable[Any], Mapping[str, Any]] | None"]

T = TypeVar("T")

# As stoker.bench.compare has them: short runs are taken so many times, of which the median counts.
BURSTS = 5
SHORT_S = 0.02
# Rounds of a function that is not compared, unless told: as many as fit.
LEAST_ROUNDS, MOST_ROUNDS, USUAL_S = 12, 50, 5.0


class Timer:
    """A function with its arguments, on its way through the rounds."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        setup: Setup | None = None,
        teardown: Callable[..., object] | None = None,
        calls: int = 0,
    ) -> None:
        check_function(function)
        self._function = function
        self._given = (tuple(args), dict(kwargs or {}))
        self._setup = setup
        self._teardown = teardown
        self._calls = 1 if setup or teardown else calls
        self.bursts = 0 if self._calls == 0 else 1  # 0: not known before the first run

    def _prepared(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = self._setup() if self._setup else None
        if given is None:
            return self._given
        args, kwargs = given
        return tuple(args), dict(kwargs)

    def call(self) -> Any:
        """Once, untimed; what it returns is what the test goes on with."""
        __tracebackhide__ = True  # an exception of the function is shown where the test calls it
        args, kwargs = self._prepared()
        given = self._function(*args, **kwargs)
        if self._teardown:
            self._teardown(*args, **kwargs)
        return given

    def burst(self) -> float:
        """Seconds of one call, from so many that they take a while."""
        __tracebackhide__ = True
        from functools import partial

        from . import _core

        args, kwargs = self._prepared()
        bound = partial(self._function, *args, **kwargs) if args or kwargs else self._function
        seconds, self._calls = _core.bench_time(bound, self._calls)
        if not self.bursts:
            self.bursts = BURSTS if seconds * self._calls < SHORT_S else 1
        if self._teardown:
            self._teardown(*args, **kwargs)
        return seconds

    def run(self) -> float:
        """One measured run: the median of its bursts."""
        __tracebackhide__ = True
        times = [self.burst()]
        while len(times) < self.bursts:
            times.append(self.burst())
        return statistics.median(times)


def check_function(function: object) -> None:
    import inspect

    if not callable(function):
        raise TypeError(f"stoker_bench: wanted a function, found {function!r}")
    if inspect.iscoroutinefunction(function):
        raise TypeError(
            "stoker_bench: calling an async function only makes a coroutine; measure what runs it, "
            "as in stoker_bench(lambda: asyncio.run(f()))"
        )


# ---- modes ----


class Mode:
    """What a benchmark does. `name` tells it from all others of the session."""

    enabled = True

    def measure(self, bench: Bench, name: str, timer: Timer, rounds: int | None) -> Any:
        """What the function returned."""
        raise NotImplementedError

    def compare(self, name: str, functions: Sequence[Timer], options: dict[str, Any]) -> bench.Comparison:
        return call_each(functions)


class Once(Mode):
    """Without --stoker: normal test runs stay fast, and see that benchmarks still work."""

    enabled = False

    def measure(self, bench: Bench, name: str, timer: Timer, rounds: int | None) -> Any:
        __tracebackhide__ = True
        return timer.call()


class NotMeasured:
    """In the place of a comparison: whoever asks for a figure skips the test."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        pytest.skip("nothing was measured, each function was called once: pytest --stoker")

    def __repr__(self) -> str:
        return "<not measured: pytest --stoker>"


def call_each(functions: Sequence[Timer]) -> bench.Comparison:
    __tracebackhide__ = True
    for timer in functions:
        timer.call()
    return cast("bench.Comparison", NotMeasured())


class Here(Mode):
    """In this process, when the test comes to it."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.rounds: int | None = config.option.stoker_rounds
        self.strict: bool = config.option.stoker_strict
        self.report = Report(config)

    def measure(self, bench: Bench, name: str, timer: Timer, rounds: int | None) -> Any:
        __tracebackhide__ = True
        self.report.watch_tracers()
        given = timer.call()
        first = timer.run()  # of the warm-up
        wanted = rounds or self.rounds or fitting(first * timer.bursts)
        bench.times = [timer.run() for _ in range(wanted)]
        self.report.add([name], [bench.times], bench.extra_info)
        return given

    def compare(self, name: str, functions: Sequence[Timer], options: dict[str, Any]) -> bench.Comparison:
        from . import bench as module

        class Found(module.Comparison):
            """With the strictness of the command line, unless told."""

            __slots__ = ()
            usual = self.strict

            def not_slower(self, by: float = 0, strict: bool | None = None) -> module.Answer:
                return super().not_slower(by, self.usual if strict is None else strict)

        self.report.watch_tracers()
        chosen = {key: value for key, value in options.items() if value is not None}
        if self.rounds:
            chosen.setdefault("rounds", self.rounds)
        plain = [timer._function for timer in functions]
        found = module.compare(plain[0], plain[1], *plain[2:], **chosen)
        variants = found.json["variants"]
        names = {variant["name"]: f"{name}: {variant['name']}" for variant in variants}
        self.report.add(list(names.values()), [variant["times"] for variant in variants], {})
        for pair in found.json["comparisons"]:
            self.report.decided[names[pair["b"]]] = {**pair, "a": names[pair["a"]], "b": names[pair["b"]]}
        return Found(str(found), found._json)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self.report.show(terminalreporter)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        self.report.write(interrupted=exitstatus == pytest.ExitCode.INTERRUPTED)


def fitting(seconds: float) -> int:
    """So many rounds as fit into the usual time, when one takes so long."""
    return max(LEAST_ROUNDS, min(MOST_ROUNDS, int(USUAL_S / max(seconds, 1e-9))))


# ---- the fixture ----


class Bench:
    """`stoker_bench` of one test.

    stoker_bench(f, *args, **kwargs) measures a function, and gives what it returned; compare takes several in turns.
    Without --stoker each function is called once.
    """

    times: list[float]  # seconds of one call, round by round; empty when nothing was measured in this process
    extra_info: dict[str, Any]  # goes into the file of --stoker-json

    def __init__(self, item: pytest.Item, mode: Mode) -> None:
        self.times = []
        self.extra_info = {}
        self._nodeid = item.nodeid
        self._mode = mode
        self._used = 0

    @property
    def enabled(self) -> bool:
        """Whether functions are measured, and not just called once."""
        return self._mode.enabled

    def _name(self) -> str:
        self._used += 1
        return self._nodeid if self._used == 1 else f"{self._nodeid} #{self._used}"

    def __call__(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        """Measure function(*args, **kwargs), and return what it returned."""
        __tracebackhide__ = True
        timer = Timer(function, args, kwargs)
        return cast(T, self._mode.measure(self, self._name(), timer, None))

    def pedantic(
        self,
        target: Callable[..., T],
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        setup: Setup | None = None,
        teardown: Callable[..., object] | None = None,
        rounds: int = 0,
        warmup_rounds: int = 0,
        iterations: int = 0,
    ) -> T:
        """As that of pytest-benchmark: `iterations` calls are one run, and `setup` comes before each call, untimed.

        setup may return (args, kwargs) for the call. 0: as without pedantic. One run always warms up.
        """
        __tracebackhide__ = True
        for name, value in (("rounds", rounds), ("warmup_rounds", warmup_rounds), ("iterations", iterations)):
            if value < 0:
                raise ValueError(f"pedantic: {name}: found {value}, wanted at least 0")
        if (setup or teardown) and iterations > 1:
            raise ValueError(f"pedantic: iterations: found {iterations}, wanted 1 with setup or teardown")
        timer = Timer(target, args, kwargs, setup, teardown, iterations)
        if self.enabled:
            for _ in range(warmup_rounds - 1):
                timer.call()
        return cast(T, self._mode.measure(self, self._name(), timer, rounds or None))

    def compare(
        self,
        function: Callable[..., object],
        other: Callable[..., object],
        *more: Callable[..., object],
        args: Iterable[Any] = (),
        names: Sequence[str] | None = None,
        rounds: int | None = None,
        warmup: int | None = None,
        min_effect: float | None = None,
        seed: int | None = None,
        calls: int | Sequence[int] | None = None,
    ) -> bench.Comparison:
        """Run functions in turns, and compare each with the first: see stoker.bench.compare.

        Without --stoker each is called once, and whoever asks the result for a figure skips the test.
        """
        __tracebackhide__ = True
        bound = tuple(args)
        timers = [Timer(each, bound) for each in (function, other, *more)]
        options = {
            "args": bound, "names": names, "rounds": rounds, "warmup": warmup, "min_effect": min_effect,
            "seed": seed, "calls": calls,
        }  # fmt: skip
        return self._mode.compare(self._name(), timers, options)
