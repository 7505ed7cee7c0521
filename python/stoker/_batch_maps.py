"""Python functions behind `batch`: called in the loop, on batches as it gets them."""

from __future__ import annotations

import time

from . import _record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from . import _core
    from ._runs import Runs

_WORD = (1 << 64) - 1


class BatchMap:
    """A function with its name, and the time that it took."""

    __slots__ = ("name", "fn", "random", "busy_ns")

    def __init__(self, name: str, fn: Callable[..., Any], random: bool) -> None:
        self.name = name
        self.fn = fn
        self.random = random  # takes a generator too
        self.busy_ns = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchMap, (self.name, self.fn, self.random)

    def again(self) -> BatchMap:
        """The same for another loader, which counts its own time."""
        return BatchMap(self.name, self.fn, self.random)

    def __call__(self, batch: dict[str, Any], key: Sequence[int]) -> dict[str, Any]:
        """The batch with what the function changed; `key` is that of its random numbers."""
        recorder = _record.active()
        if recorder is not None:
            recorder.span_begin(self.name)
        began = time.perf_counter_ns()
        try:
            changed = self.fn(batch, _generator(key)) if self.random else self.fn(batch)
        finally:
            self.busy_ns += time.perf_counter_ns() - began
            if recorder is not None:
                recorder.span_end()
        if not isinstance(changed, dict):
            raise TypeError(
                f"map {self.name!r}: returned {type(changed).__name__}, wanted a dict of the fields to change or add, "
                'such as {"x": array}; {} changes none'
            )
        batch.update(changed)
        return batch


def _generator(key: Sequence[int]) -> Any:
    import numpy as np

    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))


class _Mapper:
    """Converts a batch, then lets the functions at it in their order."""

    def __init__(self, runs: Runs, format: str, fields: tuple[str, ...], pin_memory: bool) -> None:
        from ._convert import converter

        self._convert = converter(format, (), pin_memory)
        self._maps = runs.batch_maps
        self._fields = fields
        self._seed = int(runs.options["seed"]) & _WORD

    def __call__(self, batch: _core.Batch, number: int) -> Any:
        """`number`: of the batch in its epoch."""
        epoch = batch.epoch
        out: Any = self._convert(batch)
        del batch
        for i, function in enumerate(self._maps):
            out = function(out, (self._seed, epoch, number, i))
        if not self._fields:
            return out
        for field in self._fields:
            if field not in out:
                from ._convert import no_field

                raise KeyError(no_field(field, out))
        return tuple(out[field] for field in self._fields)


def make_converter(runs: Runs, format: str, fields: tuple[str, ...], pin_memory: bool) -> Any:
    """What makes the loop's items of batches; with functions behind `batch` it also takes the number of the batch."""
    if runs.batch_maps:
        return _Mapper(runs, format, fields, pin_memory)
    from ._convert import converter

    return converter(format, fields, pin_memory)
