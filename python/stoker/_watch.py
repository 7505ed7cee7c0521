"""What loops tell: messages of the engine, and a Python function that the loop waits for."""

from __future__ import annotations

import sys
import time
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from . import _core
    from ._batch_maps import BatchMap
    from ._runs import Runs

_WAIT_SHARE = 0.2  # of the loop's time, above which it is slow,
_BUSY_SHARE = 0.5  # and of the workers' time that functions take then
_SECONDS = 2.0  # before which nothing is said in the middle of a pass,
_SECONDS_AT_END = 0.5  # and at its end
_TEXTS_MOST = 100


class StokerWarning(UserWarning):
    """Something that is no error, but worth to know: what was seen, why, and what to do."""


def warn(text: str, stacklevel: int = 2) -> None:
    warnings.warn(text, StokerWarning, stacklevel=stacklevel + 1)


def tell(messages: Sequence[tuple[str, str]]) -> None:
    """What the engine has to say while a loop waits; called by the extension module, from `Run.next`."""
    for level, text in messages:
        if level == "warning":
            warn(text, stacklevel=4)


# Loops that began with epoch 0: text, options and the line of code.
_BEGAN: set[tuple[str, str, str, int]] = set()


def _draws(runs: Runs) -> bool:
    """Whether another epoch would be another: the order, or what ops draw."""
    import json

    from . import _core

    random = {op["name"] for op in json.loads(_core.ops_json()) if "random" in op["flags"]}
    return any(
        name in random or name == "shuffle" and "reshuffle=false" not in text for name, _, text in runs.ops
    ) or any(getattr(f, "random", False) for f in (*runs.functions, *runs.batch_maps))


def warn_if_again(runs: Runs) -> None:
    """Where a line of code begins the same pipeline with epoch 0 again, it is most likely a loop over epochs."""
    frame = sys._getframe(1)
    inside = (__package__, "torch", "torchdata")  # whose loaders may be between
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        frame = frame.f_back
    options = {name: value for name, value in runs.options.items() if name != "progress"}
    place = (runs.text(), repr(options), frame.f_code.co_filename, frame.f_lineno)
    if place not in _BEGAN:
        if len(_BEGAN) < _TEXTS_MOST:
            _BEGAN.add(place)
    elif _draws(runs):
        warnings.warn_explicit(
            "this loop begins with epoch 0 once more, and gives the order and the augmentation of the last time: make "
            "the loader once, before the loop over epochs, and loop over it again; or say loader.set_epoch(epoch)",
            StokerWarning,
            frame.f_code.co_filename,
            frame.f_lineno,
            registry=frame.f_globals.setdefault("__warningregistry__", {}),
        )


class Watch:
    """Looks at a run now and then, seldom enough to cost nothing."""

    __slots__ = ("look_at", "_kinds", "_maps", "_processes", "_began", "_wait", "_busy", "_first", "_texts", "_said")

    def __init__(self, functions: Sequence[Any], maps: Sequence[BatchMap]) -> None:
        self.look_at = 0  # number of batches of the pass at which to look again
        # What Python does, by the name that statistics have for it.
        self._kinds = {str(getattr(f, "name", "")): "source" if hasattr(f, "items") else "map" for f in functions}
        self._kinds.update((m.name, "map") for m in maps)
        self._maps = maps
        self._processes = {f.name: f.processes for f in functions if getattr(f, "processes", 0)}
        self._began = 0.0
        self._wait = 0
        self._busy: dict[str, int] = {}
        self._first = 0
        self._texts: set[str] = set()
        self._said = False

    def begin(self, run: _core.Run, given: int) -> None:
        """A pass begins, or goes on after `given` batches."""
        self.look_at = given + 1
        self._first = given
        self._wait = run.stats()["consumer_wait_ns"]
        self._busy = self.busy_ns(run)
        self._began = time.monotonic()

    def wait_share(self, run: _core.Run) -> float:
        """Share of the time since the pass began that the loop waited for batches."""
        seconds = time.monotonic() - self._began
        return (run.stats()["consumer_wait_ns"] - self._wait) / 1e9 / seconds if seconds > 0 else 0.0

    def look(self, run: _core.Run, given: int) -> None:
        """Called at `look_at`: after one batch, then after twice as many as before, later about once a second."""
        count = given - self._first
        seconds = time.monotonic() - self._began
        self.look_at = given + max(1, min(count, int(count / max(seconds, 1e-3))))
        self._tell_messages(run)
        if seconds >= _SECONDS:
            self._tell_bottleneck(run)

    def end(self, run: _core.Run) -> None:
        self._tell_messages(run)
        if time.monotonic() - self._began >= _SECONDS_AT_END:
            self._tell_bottleneck(run)

    def _tell_messages(self, run: _core.Run) -> None:
        for level, text in run.messages():
            if level == "warning" and text not in self._texts and len(self._texts) < _TEXTS_MOST:
                self._texts.add(text)
                warn(text, stacklevel=5)

    def busy_ns(self, run: _core.Run) -> dict[str, int]:
        """Time that was spent in each op and function."""
        busy: dict[str, int] = {}
        for label, ns, _ in run.op_stats():
            busy[label] = busy.get(label, 0) + ns
        for m in self._maps:
            busy[m.name] = busy.get(m.name, 0) + m.busy_ns
        return busy

    def _tell_bottleneck(self, run: _core.Run) -> None:
        if self._said or not self._kinds:
            return
        seconds = time.monotonic() - self._began
        busy = {label: ns - self._busy.get(label, 0) for label, ns in self.busy_ns(run).items()}
        total = sum(busy.values())
        python = {label: ns for label, ns in busy.items() if label in self._kinds}
        # A function behind `batch` runs in the loop: all of its time is waited for.
        waits = self.wait_share(run) + sum(busy[m.name] for m in self._maps) / 1e9 / seconds
        if waits <= _WAIT_SHARE or total <= 0 or sum(python.values()) <= _BUSY_SHARE * total:
            return
        self._said = True
        name = max(python, key=lambda label: python[label])
        warn(
            f"{self._kinds[name]} {name!r} is the bottleneck: it takes {100 * python[name] / total:.0f} % of the time "
            f"of the workers, while the loop waits {100 * waits:.0f} % of the time; {self._advice(name)}",
            stacklevel=5,
        )

    def _advice(self, name: str) -> str:
        if any(m.name == name for m in self._maps):
            return "it runs in the loop itself: use ops in its place, or put it before .batch(), where workers call it"
        count = self._processes.get(name, 0)
        if count:
            return (
                f"it has {count} process{'es' if count > 1 else ''}: give it more where there are cores for them "
                '(processes="auto"), use ops in its place where there are any, or keep what it gives by .cache()'
            )
        ahead = "call it in several: map(fn, processes=n); or " if self._kinds[name] == "map" else ""
        return (
            f"Python runs in one worker at a time: {ahead}use ops in its place where there are any, let it work on "
            "whole batches (behind .batch), or keep what it gives by .cache()"
        )
