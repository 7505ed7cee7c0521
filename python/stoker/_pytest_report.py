"""What benchmarks in tests have measured: the table at the end, and the file. The program does the statistics."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

METRIC = {"name": "wall", "unit": "s", "higher_is_better": False}


class Report:
    """All runs of a session, as a table and as a file; the program does the statistics."""

    def __init__(self, config: pytest.Config) -> None:
        self.path: str | None = config.option.stoker_json
        self.variants: list[dict[str, Any]] = []
        self.decided: dict[str, dict[str, Any]] = {}  # comparisons by which tests have passed or failed already
        self.notes: list[str] = []
        self.min_effect: float | None = None  # None: that of the program
        self.seed = 0
        self.commit = ""  # the other one, as it was called
        self.groups_there = 0  # the first ones: a benchmark at that commit, and here
        self.groups = 0
        self._result: dict[str, Any] | None = None
        self._error: str | None = None
        if self.path is not None:
            self.path = os.path.abspath(self.path)
            if os.path.isdir(self.path) or not os.path.isdir(os.path.dirname(self.path)):
                raise pytest.UsageError(f"--stoker-json: cannot write the file {self.path}")

    def add(self, names: Sequence[str], times: Sequence[Sequence[float | None]], info: Mapping[str, Any]) -> None:
        """Variants that took turns: compared with the first of them. A run that is None is missing."""
        parameters = {str(key): str(value) for key, value in info.items()}
        for name, values in zip(names, times, strict=True):
            self.variants.append(
                {"name": name, "group": self.groups, "times": list(values), "parameters": parameters}
            )
        self.groups += 1
        self._result = None

    def watch_tracers(self) -> None:
        import sys

        note = "a tracer was on (coverage, a debugger): the figures are those of traced code; --no-cov"
        traced = sys.gettrace() is not None
        if sys.version_info >= (3, 12):
            traced = traced or sys.monitoring.get_tool(sys.monitoring.COVERAGE_ID) is not None
        if traced and note not in self.notes:
            self.notes.append(note)

    def result(self, interrupted: bool = False) -> dict[str, Any]:
        """As `stoker bench --json` prints it. A comparison that a test has made stays as the test saw it."""
        if self._result is None:
            found = judged(self._raw(interrupted), self.min_effect)
            found["comparisons"] = [self.decided.get(pair["b"], pair) for pair in found["comparisons"]]
            self._result = found
        return self._result

    def _raw(self, interrupted: bool) -> dict[str, Any]:
        import time

        return {
            "stoker": "bench", "version": 1, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "seed": self.seed, "paired": True, "interrupted": interrupted, "machine": machine(), "warmup": 1,
            "metric": METRIC, "metrics": [METRIC], "variants": self.variants, "notes": self.notes,
        }  # fmt: skip

    def write(self, interrupted: bool) -> None:
        """The file, whole or not at all."""
        if self.path is None or not self.variants:
            return
        temporary = f"{self.path}.{os.getpid()}.tmp"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(json.dumps(self.result(interrupted), ensure_ascii=False, separators=(",", ":")) + "\n")
            os.replace(temporary, self.path)
        except OSError as error:
            self._error = f"--stoker-json: {error}"
            if os.path.exists(temporary):
                os.unlink(temporary)

    def show(self, terminal: pytest.TerminalReporter) -> None:
        if not self.variants:
            return
        result = self.result()
        terminal.section("stoker: benchmarks", sep="-")
        for line in self._lines(result):
            terminal.line(line)
        for note in [*unsure(result), *self.notes]:
            terminal.line(f"note: {note}")
        if self._error:
            terminal.line(self._error, red=True)
        elif self.path:
            terminal.line(f"runs: {self.path}")


    def _lines(self, result: Mapping[str, Any]) -> list[str]:
        there = [variant for variant in result["variants"] if variant["group"] < self.groups_there]
        here = result["variants"][len(there) :]
        names = {variant["name"] for variant in there}
        pairs = [pair for pair in result["comparisons"] if pair["b"] in names]
        out = beside(there, pairs, self.commit) if there else []
        return [*out, *(table(here, result["comparisons"]) if here else [])]


def machine() -> str | None:
    """What the program calls this machine."""
    from . import _core

    found = json.loads(_core.bench_compare([lambda: None], ["none"], rounds=1, calls=[1])[1])["machine"]
    return found if isinstance(found, str) else None


def judged(raw: dict[str, Any], min_effect: float | None) -> dict[str, Any]:
    """With means, medians and comparisons, which are the program's."""
    import subprocess
    import tempfile

    from ._program import program_path

    with tempfile.TemporaryDirectory(prefix="stoker-") as place:
        path = os.path.join(place, "runs.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(raw, file)
        more = [] if min_effect is None else ["--min-effect", f"{100 * min_effect:g}%"]
        command = [program_path(), "bench", "compare", "--json", *more, path]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return result


# ---- the table ----


def table(variants: Sequence[Mapping[str, Any]], comparisons: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each variant in a row, and its comparison with the first of its group."""
    from .bench import _seconds

    pairs = {pair["b"]: pair for pair in comparisons}
    short = short_names([variant["name"] for variant in variants])
    rows = [("benchmark", "median", "sd", "runs", "ratio", "95 % interval", "verdict")]
    for name, variant in zip(short, variants, strict=True):
        cells = (_seconds(variant["median"]), _seconds(variant["sd"]), str(variant["n"]))
        rows.append((name, *cells, *figures(pairs.get(variant["name"]))))
    return aligned(rows)


def beside(variants: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]], label: str) -> list[str]:
    """Each benchmark in a row: its medians at the commit and here."""
    from .bench import _seconds

    medians = {variant["name"]: _seconds(variant["median"]) for variant in variants}
    rows = [("benchmark", label, "this tree", "ratio", "95 % interval", "verdict")]
    for name, pair in zip(short_names([pair["b"] for pair in pairs]), pairs, strict=True):
        rows.append((name, medians[pair["a"]], medians[pair["b"]], *figures(pair)))
    return aligned(rows)


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The first and the last column hold words, the others numbers."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    out = []
    for first, *numbers, last in rows:
        middle = (cell.rjust(width) for cell, width in zip(numbers, widths[1:-1], strict=True))
        out.append("  ".join([first.ljust(widths[0]), *middle, last]).rstrip())
    return out


def figures(pair: Mapping[str, Any] | None) -> tuple[str, str, str]:
    from .bench import _ratio

    if pair is None:
        return "", "", ""
    if pair["ratio"] is None:
        return "", "", verdict(pair)
    return _ratio(pair["ratio"]), f"{_ratio(pair['ci_low'])} to {_ratio(pair['ci_high'])}", verdict(pair)


def verdict(pair: Mapping[str, Any]) -> str:
    """The word, and what would help where there is none."""
    word, more = str(pair["verdict"]), pair["more_rounds"]
    if word != "inconclusive":
        return word
    plan = f"about {more:,} more rounds would tell" if more else "more rounds may tell"
    if not pair["covered"]:
        plan = f"{pair['n']} rounds are too few"
    return f"{word}: {pair['withheld'] or plan}"


def short_names(names: Sequence[str]) -> list[str]:
    """Without the file, where that leaves all of them different; nothing that moves a terminal's cursor."""
    clean = ["".join(c if c.isprintable() else "?" for c in name) for name in names]
    cut = [name.split("::", 1)[-1] for name in clean]
    return cut if len(set(cut)) == len(cut) else clean


def unsure(result: Mapping[str, Any]) -> list[str]:
    pairs = result["comparisons"]
    count = sum(pair["verdict"] == "inconclusive" for pair in pairs)
    words = "which does not mean that nothing changed; --stoker-strict makes them fail"
    return [f"{count} of {len(pairs)} comparisons inconclusive, {words}"] if count else []


NAMED = 3  # in a note, before the others are counted


def gathered(reasons: Mapping[str, str]) -> list[str]:
    """One line for each reason, with the names that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in zip(short_names(list(reasons)), reasons.values(), strict=True):
        by_reason.setdefault(reason, []).append(name)
    out = []
    for reason, names in by_reason.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        out.append(f"{', '.join(names[:NAMED])}{more}: {reason}")
    return out
