"""Loops over batches, again and again, from a place that can be saved and gone back to."""

from __future__ import annotations

import sys
from typing import Generic, TypeVar

from . import _core
from ._passes import ENDLESS, Passes
from ._runs import Runs
from ._samples import (
    LoaderBatchSampler,
    LoaderDataset,
    LoaderSampler,
    batch_options,
    classes_of,
    collate,
    count_samples,
)
from ._text import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from ._options import Format
    from ._pipeline import Pipeline

# What a loop gets: a dict of fields, or a tuple.
Item = TypeVar("Item", covariant=True)

_VERSION = 1
KERAS_ADAPTERS = "keras.src.trainers.data_adapters.data_adapter"
_FORMATS = ("numpy", "torch", "jax", "tensorflow", "dlpack")
# What a state holds besides its version, with the smallest value of each number.
_NUMBERS = {
    "epoch": 0,
    "batches": 0,
    "epochs": 0,
    "repeat": -1,
    "last_epoch": 0,
    "in_epoch": 0,
    "world": 0,
    "epoch_batches": -1,
}


def number_of(name: str, value: object, least: int) -> int:
    """A whole number, NumPy's too."""
    try:
        number = whole(value)
    except (TypeError, ValueError) as e:
        raise type(e)(f"{name}: {e}") from None
    if number < least:
        raise ValueError(f"{name}: wanted at least {least}, found {number}")
    return number


def _check(fields: Sequence[str], format: str, pin_memory: bool) -> None:
    for field in fields:
        if not isinstance(field, str):
            raise TypeError(f"wanted names of fields, found {field!r}")
    if format not in _FORMATS:
        raise ValueError(f"format: wanted one of {', '.join(_FORMATS)}, found {format!r}")
    if pin_memory and format != "torch":
        raise ValueError(f'pin_memory goes with format="torch", found {format!r}')


class Loader(Generic[Item]):
    """Batches of a pipeline, to loop over again and again; each loop goes on with the epoch after.

    Made by `Pipeline.loader` and by the formats (`.torch()`, `.numpy()`, ...). Leaving a loop early and starting
    another begins the next epoch. One loop at a time: a new one ends the one before. The iterator may be used in any
    thread, by one at a time. It has what scripts ask of a DataLoader: dataset, sampler, batch_size, drop_last, ...
    """

    __slots__ = (
        "pipeline",
        "epochs",
        "format",
        "persistent",
        "pin_memory",
        "_fields",
        "_options",
        "_passes",
        "_known",
        "__weakref__",
    )

    # As of a DataLoader without workers.
    num_workers = 0
    prefetch_factor = None
    generator = None
    collate_fn = staticmethod(collate)

    def __new__(cls, *args: Any, **settings: Any) -> Loader[Any]:
        """One that Keras knows as its own, in scripts that have imported Keras."""
        kind: type[Loader[Any]] = cls
        if cls is Loader and KERAS_ADAPTERS in sys.modules:
            from ._keras import loader_class

            kind = loader_class()
        return object.__new__(kind)

    def __init__(
        self,
        pipeline: Pipeline,
        fields: Sequence[str] = (),
        *,
        epochs: int = 1,
        format: Format = "numpy",
        persistent: bool = True,
        pin_memory: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        _check(fields, format, pin_memory)
        self.pipeline = pipeline
        self.epochs = epochs = number_of("epochs", epochs, 1)
        self.format: Format = format
        self.persistent = persistent
        self.pin_memory = pin_memory
        self._fields = tuple(fields)
        self._options = dict(options or {})
        runs = Runs(pipeline, self._options)
        runs.check_batched()
        runs.check_fields(self._fields)
        self._passes = Passes(runs, epochs, persistent, (format, self._fields, pin_memory))
        self._known: dict[str, Any] = {}  # what was counted and listed, which need not be done again

    def __iter__(self) -> Iterator[Item]:
        return self._passes.loop()

    def __len__(self) -> int:
        """Batches of one loop; TypeError when nobody can know before it is over."""
        passes = self._passes
        length = passes.length() if passes.epochs else -1
        if length < 0:
            raise TypeError(f"the number of batches is not known: {self._why_unknown()}")
        return length * passes.epochs

    def __bool__(self) -> bool:
        return True  # never a matter of its length, which may be unknown

    def _why_unknown(self) -> str:
        runs = self._passes.runs
        endless = any(name == "repeat" and not any(map(str.isdigit, text)) for name, _, text in runs.ops)
        if not self._passes.epochs or endless:
            return "the pipeline repeats without an end"
        for name, _, _ in runs.ops:
            if name == "filter":
                return "how many samples pass the filter shows only when they were read"
        if runs.options["on_error"] != "stop":
            return f"bad records are left out (on_error={runs.options['on_error']!r})"
        return "the source is a stream, whose samples are not counted"

    # ---- what scripts ask of a DataLoader ----

    @property
    def dataset(self) -> LoaderDataset:
        """The samples of all ranks together: len(), [i], .classes, .class_to_idx, .pipeline."""
        return LoaderDataset(self)

    @property
    def sampler(self) -> LoaderSampler:
        """Has set_epoch(), and a len(): the samples of a rank. Where PyTorch is loaded, one of its samplers."""
        if sys.modules.get("torch.utils.data") is None:
            return LoaderSampler(self)
        from .torch import Sampler

        return Sampler(self)

    @property
    def batch_sampler(self) -> LoaderBatchSampler:
        return LoaderBatchSampler(self)

    @property
    def batch_size(self) -> int:
        """Samples of a full batch."""
        return int(batch_options(self.pipeline._ops)["size"], 0)

    @property
    def drop_last(self) -> bool:
        """Whether a last batch that is not full is left out."""
        return batch_options(self.pipeline._ops).get("drop_last") == "true"

    def _count(self, options: Mapping[str, Any]) -> int:
        """Samples of one epoch."""
        key = f"samples {sorted(options.items())}"
        if key not in self._known:
            self._known[key] = count_samples(self.pipeline, {**self._options, **options})
        count: int = self._known[key]
        return count

    def _classes(self) -> list[str]:
        if "classes" not in self._known:
            self._known["classes"] = classes_of(self.pipeline)
        return list(self._known["classes"])

    # ---- the place ----

    @property
    def epoch(self) -> int:
        """The epoch of the last batch; before the first batch, the epoch that comes."""
        now = self._passes.now
        return now.epoch if now is not None and now.epoch >= 0 else self._passes.next_epoch()

    def set_epoch(self, epoch: int) -> None:
        """Let the next loop begin with this epoch."""
        epoch = number_of("set_epoch", epoch, 0)
        passes = self._passes
        if passes.resume is not None and passes.resume["epoch"] == epoch:
            return  # the loop goes on in the middle of just that epoch
        passes.resume = None
        passes.forced = epoch

    def state_dict(self) -> dict[str, Any]:
        """The place behind the batch that the loop got last: a small dict of plain values.

        After a loop that came to its end, it is the start of the next one.
        """
        passes = self._passes
        if passes.resume is not None:
            return dict(passes.resume)
        now, place, given = passes.mark()
        if now is None or place is None or (passes.forced is not None and not now.active):
            return {"stoker": _VERSION, "state": None, "epoch": passes.next_epoch(), "batches": 0}
        repeat = -1 if not now.tail else 0 if now.tail == ENDLESS else now.start + now.epochs
        return {
            "stoker": _VERSION,
            "state": place,
            "epoch": now.start,
            "batches": given,
            "epochs": now.epochs,
            "repeat": repeat,
            "last_epoch": now.epoch,
            "in_epoch": now.in_epoch,
            "world": now.world,
            "epoch_batches": passes.known_length(now.world),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next loop go on where `state_dict` was taken; loops after it go on as usual.

        The pipeline must be the same; threads, memory, on_error and, where each sample comes once, the number of
        ranks may differ. A state that does not fit makes the loop raise MismatchError.
        """
        state = _check_state(state)
        passes = self._passes
        if state["state"] is None:
            passes.resume, passes.forced = None, state["epoch"]
        else:
            passes.resume, passes.forced = state, None

    # ---- the rest ----

    def stats(self) -> dict[str, Any]:
        """Numbers of the run: samples, batches, wait_share (of the loop's time), busy_seconds of ops, ..."""
        return dict(self._passes.stats())

    def close(self) -> None:
        """Stop the run. Batches stay valid; a loop that is on ends with an error; a new one opens the run again."""
        self._passes.close()

    def __enter__(self) -> Loader[Item]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        names = " | ".join(name for name, _, _ in self._passes.runs.ops)
        # Keras shows what it does not take: a loader that was made before Keras was imported.
        hint = "; for Keras: pipe.keras()" if type(self) is Loader and KERAS_ADAPTERS in sys.modules else ""
        return f"<stoker.Loader: {names}; epochs={self.epochs}, format={self.format!r}{hint}>"

    def __reduce__(self) -> tuple[Any, ...]:
        settings = {
            "epochs": self.epochs,
            "format": self.format,
            "persistent": self.persistent,
            "pin_memory": self.pin_memory,
            "options": self._options,
        }
        return _rebuild, (self.pipeline, self._fields, settings, self.state_dict())


def _rebuild(
    pipeline: Pipeline, fields: Sequence[str], settings: dict[str, Any], state: dict[str, Any]
) -> Loader[Any]:
    loader: Loader[Any] = Loader(pipeline, fields, **settings)
    loader.load_state_dict(state)
    return loader


def _check_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state with all its parts; MismatchError when it is none of ours."""
    try:
        out = dict(state)
    except (TypeError, ValueError):
        raise TypeError(f"wanted what state_dict() gave, found {state!r}") from None
    if out.get("stoker") != _VERSION:
        raise _core.MismatchError(f"wanted a state of version {_VERSION}, found {out.get('stoker')!r}")
    text = out.get("state")
    if text is not None and not isinstance(text, str):
        raise _core.MismatchError(f"state: wanted a text, found {text!r}")
    for name, least in _NUMBERS.items():
        if text is None and name not in ("epoch", "batches"):
            continue
        value = out.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise _core.MismatchError(f"{name}: wanted a whole number of at least {least}, found {value!r}")
    if text is not None and out["repeat"] == 0 and out["epochs"] and out["epoch_batches"] == 0:
        raise _core.MismatchError("epoch_batches: wanted at least 1, or -1 for not known, found 0")
    return out
