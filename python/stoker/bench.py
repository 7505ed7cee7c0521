"""Which function is faster, by how much, and is that so or was it luck? With the statistics of `stoker bench`."""

from __future__ import annotations

import os

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    Progress = Callable[[int, int, float], "bool | None"]

__all__ = ["Answer", "Comparison", "Pair", "compare"]


class Answer:
    """Yes or no, and why: a failing `assert found.not_slower()` shows the reason."""

    __slots__ = ("yes", "sure", "reason")

    yes: bool
    sure: bool  # False: the runs leave it open, and yes is the benefit of the doubt
    reason: str

    def __init__(self, yes: bool, sure: bool, reason: str) -> None:
        self.yes = yes
        self.sure = sure
        self.reason = reason

    def __bool__(self) -> bool:
        return self.yes

    def __repr__(self) -> str:
        return f"<{'yes' if self.yes else 'no'}: {self.reason}>"


class Pair:
    """One function against the first."""

    __slots__ = ("a", "b", "ratio", "low", "high", "p", "verdict", "withheld", "min_effect")

    a: str  # name of the first function
    b: str
    ratio: float  # how many times as long b takes: the median over the rounds; nan when there are no figures
    low: float  # the interval that covers it with 95 %
    high: float
    p: float  # how likely ratios so far from 1 are when both are the same
    verdict: str  # of b: "faster", "slower", "equivalent", "inconclusive", or "faster-tail", "slower-tail" (by the mean)

    withheld: str | None  # why there is no verdict, when it is not for noise
    min_effect: float  # smaller differences were not called such

    def __init__(self, figures: dict[str, Any], min_effect: float = 0.02) -> None:
        self.a = figures["a"]
        self.b = figures["b"]
        self.verdict = figures["verdict"]
        self.withheld = figures.get("withheld")
        self.min_effect = min_effect
        self.ratio, self.low, self.high, self.p = (_number(figures[key]) for key in ("ratio", "ci_low", "ci_high", "p"))

    @property
    def faster(self) -> str | None:
        """The name of the faster one by the verdict, or None."""
        return {"faster": self.b, "slower": self.a}.get(self.verdict.removesuffix("-tail"))

    def not_slower(self, by: float = 0, strict: bool = False) -> Answer:
        """Whether b is not slower than a: by verdict, and by more than `by` (0.05 is 5 %).

        An inconclusive result is a yes that is not sure. With `strict` it is a no, unless the whole interval is below
        1 + `by`. No is also: slower in a share of the runs, whatever the median says, and no figures at all.
        """
        if not 0 <= by < 10 or 0 < by < self.min_effect:
            least = f"the min_effect of the comparison ({self.min_effect:g})"
            raise ValueError(f"not_slower: by is {by:g}, wanted 0, or {least} and more")
        limit = 1 + max(by, self.min_effect)
        ratio, low, high = (_ratio(value) for value in (self.ratio, self.low, self.high))
        text = f"{self.b} / {self.a} = {ratio} ({low} to {high}): {self.verdict}"
        allowed = f", allowed are {100 * by:g} %" if by else ""
        if self.ratio != self.ratio or self.withheld:
            return Answer(False, True, f"{text}: {self.withheld or 'there are no figures'}")
        if self.verdict.startswith("slower") and (self.verdict != "slower" or self.ratio > 1 + by):
            return Answer(False, True, text + allowed)
        sure = self.high <= limit or self.verdict != "inconclusive"
        if strict and self.high > limit:
            return Answer(False, False, f"{text}; strict wants less than {limit:.3g} for the whole interval")
        return Answer(True, sure, text + allowed)

    def __repr__(self) -> str:
        figures = f"{self.ratio:.3f}, {self.low:.3f} to {self.high:.3f}"
        return f"<stoker.bench.Pair: {self.b} / {self.a} = {figures}: {self.verdict}>"


class Comparison:
    """What `compare` found; printed, it is the report of `stoker bench`.

    ratio, low, high, p and verdict are those of the second function against the first; `pairs` has all of them.
    """

    __slots__ = ("_text", "_json", "_parsed", "pairs")

    pairs: list[Pair]

    def __init__(self, text: str, json: str) -> None:
        self._text = text
        self._json = json
        self._parsed: dict[str, Any] | None = None
        self.pairs = [Pair(figures, self.json["min_effect"]) for figures in self.json["comparisons"]]

    @property
    def json(self) -> dict[str, Any]:
        """All of it, as `stoker bench --json` prints it: variants with every run, comparisons, circumstances."""
        parsed = self._parsed
        if parsed is None:
            import json

            parsed = self._parsed = json.loads(self._json)
            assert parsed is not None
        return parsed

    @property
    def ratio(self) -> float:
        return self.pairs[0].ratio

    @property
    def low(self) -> float:
        return self.pairs[0].low

    @property
    def high(self) -> float:
        return self.pairs[0].high

    @property
    def p(self) -> float:
        return self.pairs[0].p

    @property
    def verdict(self) -> str:
        return self.pairs[0].verdict

    @property
    def faster(self) -> str | None:
        """The name of the faster function by the verdict, or None.

        Of more than two: the one with the least ratio among those that are faster than the first; the first when all
        others are slower.
        """
        better = [pair for pair in self.pairs if pair.faster == pair.b]
        if better:
            return min(better, key=lambda pair: pair.ratio).b
        return self.pairs[0].a if all(pair.faster == pair.a for pair in self.pairs) else None

    def not_slower(self, by: float = 0, strict: bool = False) -> Answer:
        """Whether no function is slower than the first: the answer of `Pair.not_slower` that is the worst."""
        answers = [pair.not_slower(by, strict) for pair in self.pairs]
        return min(answers, key=lambda answer: (answer.yes, answer.sure))

    @property
    def seconds(self) -> dict[str, float]:
        """Median time of one call, by name."""
        return {variant["name"]: _number(variant["median"]) for variant in self.json["variants"]}

    @property
    def interrupted(self) -> bool:
        """Whether `progress` ended it before all rounds were done."""
        return bool(self.json["interrupted"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON, which `stoker bench compare` and `stoker bench convert` read."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._json)

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    def __repr__(self) -> str:
        return f"<stoker.bench.Comparison\n{self}\n>"

    def _repr_html_(self) -> str:
        from html import escape

        pairs = {pair.b: pair for pair in self.pairs}
        rows = []
        for variant in self.json["variants"]:
            pair = pairs.get(variant["name"])
            cells = [escape(variant["name"]), _seconds(variant["median"]), _seconds(variant["sd"]), str(variant["n"])]
            cells += [f"{pair.ratio:.3f}", f"{pair.low:.3f} to {pair.high:.3f}", _chance(pair.p)] if pair else [""] * 3
            cells.append(f"<b>{escape(pair.verdict)}</b>" if pair else "")
            rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        heads = ("function", "median", "sd", "runs", "ratio", "95 % interval", "p", "verdict")
        head = "".join(f"<th>{name}</th>" for name in heads)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.json["notes"])
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{notes}"


def compare(
    function: Callable[..., object],
    other: Callable[..., object],
    *more: Callable[..., object],
    names: Sequence[str] | None = None,
    args: Iterable[Any] = (),
    rounds: int = 0,
    warmup: int = 0,
    min_effect: float = 0,
    seed: int = 0,
    calls: int | Sequence[int] | None = None,
    progress: Progress | bool | None = None,
) -> Comparison:
    """Run functions in turns, in random order, and compare each with the first.

    Every function runs once in each round, and the ratios within the rounds are what counts: drift of the machine hits
    both sides of a ratio alike. Such a run is as many calls as take 2 ms or more, five times, of which the median
    counts; just once, if that takes longer than 20 ms. Times are for one call; calling takes some 50 ns of it. The
    garbage collector is off meanwhile, as in timeit, and what runs leave behind is collected between them.

    names: of the functions (default: their own)
    args: what each function is called with
    rounds: 0: 12 to 50, as many as fit in about 10 s; 6 are needed for a verdict
    warmup: runs of each function before the first round (0: one)
    min_effect: smaller differences are not called such: 0.05 is 5 % (0: 2 %)
    seed: of the order (0: a new one)
    calls: so many in a run, for all functions or for each, once (default: as above)
    progress: True: a line on stderr; or it is called with round, rounds (0: still warming up) and the seconds left
    (nan: not known yet), and ends the comparison by returning False

        >>> words = [f"word{i}" for i in range(1000)]
        >>> print(stoker.bench.compare(set, sorted, args=[words]))
    """
    functions = [function, other, *more]
    for found in functions:
        if not callable(found):
            raise TypeError(f"compare: wanted functions, found {found!r}")
    given = _names(functions) if names is None else list(names)
    if isinstance(names, str):
        raise TypeError(f"compare: names: wanted a list of names, found the str {names!r}")
    bound = tuple(args)
    if bound:
        from functools import partial

        functions = [partial(found, *bound) for found in functions]
    line = _Line() if progress is True else None
    tell = line or (progress if progress and progress is not True else None)
    try:
        text, json = _core.bench_compare(
            functions,
            given,
            rounds=rounds,
            warmup=warmup,
            min_effect=min_effect,
            seed=seed,
            calls=[calls] * len(functions) if isinstance(calls, int) else calls,
            progress=tell,  # type: ignore[arg-type]
        )
    finally:
        if line:
            line.clear()
    return Comparison(text, json)


def _names(functions: Sequence[Any]) -> list[str]:
    """Their own names, each once: "f", "f #2"."""
    out: list[str] = []
    for function in functions:
        inner = getattr(function, "func", function)  # of functools.partial
        name = getattr(inner, "__name__", None)
        if not isinstance(name, str) or not name:
            name = type(inner).__name__
        out.append(next(text for text in _numbered(name) if text not in out))
    return out


def _numbered(name: str) -> Iterator[str]:
    from itertools import count

    yield name
    for number in count(2):
        yield f"{name} #{number}"


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _ratio(value: float) -> str:
    return f"{value:.3g}" if value < 0.1 else f"{value:.3f}"


def _chance(p: float) -> str:
    return "&lt; 0.001" if p < 0.001 else f"{p:.3f}"


def _seconds(value: Any) -> str:
    if value is None:
        return ""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


class _Line:
    """A line of progress on a terminal."""

    def __init__(self) -> None:
        self._width = 0
        self._shown = -1.0

    def __call__(self, at: int, rounds: int, left: float) -> bool:
        import sys
        from time import monotonic

        now = monotonic()
        if now - self._shown < 0.1 or not sys.stderr.isatty():
            return True
        self._shown = now
        text = f"bench: round {at + 1} of {rounds}" if rounds else "bench: warm-up"
        if left == left:  # not nan
            text += f", about {left:.0f} s left"
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)
        return True

    def clear(self) -> None:
        if self._width:
            import sys

            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
