"""Opening runs: the text as it runs, with rank, cache directory and recorder."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager

from . import _core, _record
from ._batch_maps import make_converter
from ._options import DEFAULTS, ProgressLine, cache_dir, local_world, progress_call, rank_and_world
from ._processes import Pools, cores
from ._watch import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ._pipeline import Op, Pipeline


def type_text(dtype: str, shape: Sequence[int]) -> str:
    """float32[?, 4]"""
    dims = ", ".join("?" if n < 0 else str(n) for n in shape)
    return f"{dtype}[{dims}]" if shape else dtype


def _is_file(path: str) -> bool:
    """False for pipes and devices, and for what is not there."""
    return any(c in path for c in "*?[") or os.path.isfile(path) or os.path.isdir(path)


class Runs:
    """A pipeline with all options of its runs."""

    def __init__(self, pipeline: Pipeline, options: Mapping[str, Any]) -> None:
        self.pipeline = pipeline
        self.ops = pipeline._ops
        self.functions = pipeline._functions
        self.pools = Pools(pipeline._functions)
        self.batch_maps = tuple(m.again() for m in pipeline._batch_maps)
        self.options: dict[str, Any] = {**DEFAULTS, **pipeline._options, **options}
        self.share = "auto"  # how ranks share samples where the pipeline does not say; "keep": each sample comes once
        if (self.options["on_error"] == "quarantine") != (self.options["quarantine"] is not None):
            raise ValueError('on_error="quarantine" and quarantine=PATH go together')

    def rank_and_world(self) -> tuple[int, int]:
        return rank_and_world(self.options["rank"], self.options["world"])

    def check_batched(self) -> None:
        """Raises when a loop has no batches to go over."""
        last, role, _ = self.ops[-1]
        if role == "sink":
            raise ValueError(f"the pipeline ends in {last}, which takes the batches: use .run()")
        if not any(role == "batch" for _, role, _ in self.ops):
            raise ValueError("the pipeline makes single samples: put .batch(n) at the end")

    def may_count(self) -> bool:
        """Whether batches can be counted, as it looks, and opening the source to see does no harm, as with pipes."""
        name, _, text = self.ops[0]
        if self.options["on_error"] != "stop" or any(op[0] == "filter" for op in self.ops):
            return False
        if name == "python_source":
            return "__count=-1" not in text
        if "\\" in text or "'" in text:
            return False
        return all(_is_file(path) for path in text.split('"')[1::2])

    def take_repeat(self) -> tuple[int | None, str]:
        """Takes a `repeat` away that stands behind all other ops: its count (0: endless), or None; and its text."""
        place = max(i for i, (_, role, _) in enumerate(self.ops) if role != "prefetch")
        name, _, text = self.ops[place]
        if name != "repeat":
            return None, ""
        self.ops = (*self.ops[:place], *self.ops[place + 1 :])
        return int("".join(c for c in text if c.isdigit()) or "0"), text

    def text(self, tail: str = "") -> str:
        """What the engine reads: the ops, and a tail such as `repeat()`."""
        texts = [text for _, _, text in self.ops]
        return "\n| ".join(texts + [tail] if tail else texts)

    def check_fields(self, fields: Sequence[str]) -> None:
        """KeyError when the pipeline has no such field, as far as that is known before it is opened."""
        if not fields or self.batch_maps:  # these may add any
            return
        try:
            names = [name for name, _, _ in _core.text_fields(self.text(), self.functions)]
        except (_core.Error, OSError):
            return  # opening tells it, with all that is known then
        from ._convert import no_field

        for field in fields:
            if field not in names:
                raise KeyError(no_field(field, names))

    def _threads(self) -> int:
        """Unless it is said how many: enough to wait for all processes of a function, and to make the next samples."""
        threads: int = self.options["threads"]
        most = self.pools.most()
        return threads or (max(2 * most, cores()) if most else 0)

    def open(
        self,
        tail: str = "",
        *,
        shard: bool = True,
        recorder: _core.Recorder | None = None,
        resume: str | None = None,
        first_epoch: int = 0,
        pinned: bool = False,
        on_demand: bool = False,
        fields: Sequence[str] = (),
        calls: bool = True,
    ) -> _core.Run:
        """`calls`: functions will be called, by processes where they want some."""
        options = self.options
        if on_demand and options["quarantine"] is not None:  # a look must not begin the list of a run anew
            options = {**options, "on_error": "skip", "quarantine": None}
        rank, world = self.rank_and_world()
        progress = progress_call(options["progress"])
        try:
            return _core.Run(
                self.text(tail),
                threads=self._threads(),
                memory=options["memory"],
                seed=options["seed"],
                rank=rank,
                world=world,
                cache_dir=cache_dir(options["cache_dir"]),
                on_error=options["on_error"],
                max_errors=options["max_errors"],
                quarantine=options["quarantine"],
                exact=options["exact"],
                recorder=recorder,
                functions=self.pools.functions() if calls else self.functions,
                resume=resume,
                first_epoch=first_epoch,
                pinned=pinned,
                on_demand=on_demand,
                progress=progress,
                shard=self.share if shard and options["shard"] else "written",
                local_world=local_world(world),
                # Functions on batches may look at all fields.
                fields=fields if fields and not self.batch_maps else None,
            )
        finally:
            if isinstance(progress, ProgressLine):
                progress.wipe()

    @contextmanager
    def looking(
        self, tail: str = "", *, batched: bool = False, fields: Sequence[str] = (), calls: bool = False
    ) -> Iterator[_core.Run]:
        """A short run that makes no more than what is asked for; sinks publish nothing. `calls`: as in `open`."""
        if batched:
            self.check_batched()
        from ._functions import peeking

        with peeking(self.pipeline):
            run = self.open(tail, on_demand=True, fields=fields, calls=calls)
            try:
                yield run
            finally:
                run.close()
                if calls:
                    self.pools.close()


def next_after_collect(run: _core.Run) -> _core.Batch | None:
    """Batches in reference cycles go away only when the garbage is collected."""
    import gc

    gc.collect()
    try:
        return run.next()
    except _core.BudgetError as e:
        held = run.stats()["held_batches"]
        if not held:
            raise
        raise _core.BudgetError(
            f"the loop keeps arrays of {held} batches, and the budget of {size_text(run.stats()['budget_bytes'])} has no "
            "room for another: keep copies of them (x.clone() in PyTorch, x.copy() in NumPy), which let the batch go, "
            'or give more: memory="4G"'
        ) from e


def size_text(size: int) -> str:
    """1.5 GiB"""
    number, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if number < 1024:
            break
        number, unit = number / 1024, larger
    return f"{number:.1f} {unit}" if unit != "B" else f"{size} B"


def can_pin() -> bool:
    from importlib import import_module

    if import_module("torch").cuda.is_available():
        return True
    warn("pin_memory=True: torch finds no CUDA here; batches are in ordinary memory", stacklevel=6)
    return False


def is_stream(run: _core.Run) -> bool:
    import json

    return bool(json.loads(run.explain_json())["stream"])


def run_to_end(pipeline: Pipeline, options: Mapping[str, Any]) -> dict[str, Any]:
    """Feeds the sink with all batches, then lets it publish what it wrote."""
    runs = Runs(pipeline, options)
    tell = progress_call(runs.options["progress"])
    convert = make_converter(runs, "numpy", (), False) if runs.batch_maps else None
    began = time.perf_counter()
    run = runs.open(shard=False, recorder=_record.active())
    try:
        total, done = run.stats()["total_batches"], 0
        batch = run.next()
        while batch is not None:
            run.consume(batch)
            if convert is not None:
                convert(batch, done)
            batch = None  # its memory can be used again while the next one is waited for
            done += 1
            if tell is not None and not tell("batches", done, total):
                raise _core.CancelledError(f"stopped by progress after {done} batches")
            batch = run.next()
        run.finish()
        for level, message in run.messages():
            if level == "warning":
                warn(message, stacklevel=4)
        return {**run.stats(), "seconds": time.perf_counter() - began}
    finally:
        run.close()
        runs.pools.close()
        if isinstance(tell, ProgressLine):
            tell.wipe()
