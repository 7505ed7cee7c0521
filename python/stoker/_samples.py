"""Single samples of a pipeline: their number, the one at a place; and what scripts ask of a loader beside batches."""

from __future__ import annotations

import itertools

from ._convert import converter
from ._text import whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, SupportsIndex

    from ._loader import Loader
    from ._options import Format
    from ._pipeline import Op, Pipeline

ALL_RANKS = {"shard": False, "rank": 0, "world": 1}  # options of a run that sees every sample
_WHOLE = ("batch", "rows", "prefetch", "cache", "sink")  # roles that may stand behind `batch`, and drop no sample
_BATCH_OPTIONS = ("size", "drop_last", "pad")


def before_batching(pipeline: Pipeline) -> Pipeline:
    """The pipeline up to its `batch`, and without a `repeat` at its end: samples of one epoch."""
    ops = list(pipeline._ops)
    place = next((i for i, (_, role, _) in enumerate(ops) if role == "batch"), len(ops))
    for name, role, text in ops[place:]:
        if role not in _WHOLE and name != "repeat":
            raise TypeError(f"{text} stands behind batch, and counts batches: put it before batch to speak of samples")
    batched, ops = place < len(ops), ops[:place]
    while not batched and len(ops) > 1 and (ops[-1][1] in ("sink", "prefetch") or ops[-1][0] == "repeat"):
        ops.pop()
    return type(pipeline)(ops, pipeline._functions, pipeline._options)


def check_no_batch_work(pipeline: Pipeline) -> None:
    """Raises when something is done to finished batches, which samples alone would go without."""
    works = [name for name, role, _ in pipeline._ops if role == "rows"]
    works += [f"map {m.name!r}" for m in pipeline._batch_maps]
    if works:
        raise ValueError(f"{works[0]} works on finished batches, so there are no single samples behind it")


def count_samples(pipeline: Pipeline, options: Mapping[str, Any]) -> int:
    """Samples of one epoch; TypeError says why where nobody can know."""
    from ._loader import Loader

    loader: Loader[Any] = Loader(before_batching(pipeline).batch(1), options=options)
    length = loader._passes.length() if loader._passes.epochs else -1
    if length < 0:
        raise TypeError(f"the number of samples is not known: {loader._why_unknown()}")
    return length


def classes_of(pipeline: Pipeline) -> list[str]:
    """What the labels of the source stand for."""
    from ._runs import Runs

    source = type(pipeline)(pipeline._ops[:1], pipeline._functions, pipeline._options)
    with Runs(source.batch(1), ALL_RANKS).looking() as run:
        names = run.classes()
    if not names:
        raise AttributeError(f"{pipeline._ops[0][0]} has no names of classes; image_folder has them")
    return names


# ---- samples out of batches ----


def _own(value: Any) -> Any:
    """A copy, so that no batch is kept alive for one of its rows."""
    copy = getattr(value, "clone", None) or getattr(value, "copy", None)
    return value if copy is None else copy()


def only_row(batch: Any, keep: Callable[[Any], Any] = _own) -> Any:
    """The sample of a batch of one."""
    if isinstance(batch, dict):
        return {name: keep(column[0]) for name, column in batch.items()}
    return tuple([keep(column[0]) for column in batch])


def _place(index: SupportsIndex, count: Callable[[], int]) -> int:
    try:
        place = whole(index)
    except (TypeError, ValueError):
        raise TypeError(
            f"wanted the number of a sample, found {index!r}; a part of a pipeline is pipe.skip(n).take(m)"
        ) from None
    if place >= 0:
        return place
    total = count()
    if place < -total:
        raise IndexError(f"sample {place} of {total} samples")
    return place + total


def sample_at(
    pipeline: Pipeline, index: SupportsIndex, format: str, fields: Sequence[str], options: Mapping[str, Any]
) -> Any:
    """Sample `index` of epoch 0, by a short run of its own."""
    from ._runs import Runs

    options = {**options, **ALL_RANKS}
    place = _place(index, lambda: count_samples(pipeline, options))
    samples = before_batching(pipeline)
    one = (samples.skip(place) if place else samples).take(1).batch(1)
    with Runs(one, options).looking() as run:
        batch = run.next()
        if batch is None:
            raise IndexError(f"sample {place}: the pipeline has no more than that many samples")
        return only_row(converter(format, fields)(batch))


# ---- what a loader has beside its batches ----


def batch_options(ops: Sequence[Op]) -> dict[str, str]:
    """The options of `batch` as they are written: {"size": "32", "drop_last": "true"}."""
    text = next(text for _, role, text in ops if role == "batch")
    words = [word.strip() for word in text[text.index("(") + 1 : text.rindex(")")].split(",") if word.strip()]
    out = {}
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        out[name.strip() if equals else _BATCH_OPTIONS[place]] = (value if equals else name).strip()
    return out


class BatchPlace:
    """Batch `number` of the loop that begins with `epoch`: what a loader's batch_sampler gives in place of indexes."""

    __slots__ = ("epoch", "number")

    def __init__(self, epoch: int, number: int) -> None:
        self.epoch = epoch
        self.number = number

    def __repr__(self) -> str:
        return f"<batch {self.number} of epoch {self.epoch}>"


class _Whole(list):  # type: ignore[type-arg]
    """A finished batch where a list of samples would be, for `collate`."""


def collate(samples: Any) -> Any:
    """Hands a finished batch through; of single samples it makes one, as PyTorch does."""
    if isinstance(samples, _Whole):
        return samples[0]
    from importlib import import_module

    return import_module("torch.utils.data").default_collate(samples)


class LoaderDataset:
    """The samples behind a loader, of all ranks together: len(), [i] in the order of epoch 0, names of classes."""

    def __init__(self, loader: Loader[Any]) -> None:
        self._loader = loader
        self._loop: tuple[BatchPlace, Iterator[Any]] | None = None  # the place that comes next

    @property
    def pipeline(self) -> Pipeline:
        return self._loader.pipeline

    @property
    def classes(self) -> list[str]:
        """Names by label; AttributeError where the source has none."""
        return self._loader._classes()

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class by its name."""
        return {name: label for label, name in enumerate(self.classes)}

    def __len__(self) -> int:
        return self._loader._count(ALL_RANKS)

    def __bool__(self) -> bool:
        return True  # never a matter of its length, which may be unknown

    def __getitem__(self, index: SupportsIndex) -> Any:
        loader = self._loader
        return sample_at(loader.pipeline, index, self._format(), loader._fields, loader._options)

    def _format(self) -> Format:
        format = self._loader.format
        return "numpy" if format == "dlpack" else format  # its columns have no rows of their own

    def __iter__(self) -> Iterator[Any]:
        loader = self._loader
        from ._loader import Loader

        samples: Loader[Any] = Loader(
            before_batching(loader.pipeline).batch(1),
            loader._fields,
            format=self._format(),
            persistent=False,
            options={**loader._options, **ALL_RANKS},
        )
        for batch in samples:
            yield only_row(batch)

    def __getitems__(self, places: BatchPlace | Sequence[int]) -> list[Any]:
        """What a DataLoader asks for: samples by their indexes, or a whole batch by its place (see BatchPlace)."""
        if not isinstance(places, BatchPlace):
            return [self[place] for place in places]
        loop = self._loop
        if loop is None or (loop[0].epoch, loop[0].number) != (places.epoch, places.number):
            self._loader.set_epoch(places.epoch)
            batches = iter(self._loader)
            for _ in itertools.islice(batches, places.number):
                pass
        else:
            batches = loop[1]
        self._loop = BatchPlace(places.epoch, places.number + 1), batches
        return _Whole([next(batches)])  # StopIteration ends the loop of a DataLoader, too

    def __repr__(self) -> str:
        return f"<samples of {self._loader!r}>"


class LoaderSampler:
    """The order of a loader, for `loader.sampler.set_epoch(epoch)` and `len(loader.sampler)`."""

    def __init__(self, loader: Loader[Any]) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        """Let the next loop be number `epoch`; an endless pipeline goes on by itself."""
        epochs = self._loader._passes.epochs
        if epochs:
            self._loader.set_epoch(whole(epoch) * epochs)

    def __len__(self) -> int:
        """Samples of a rank in an epoch; of the one that has most, where shares are uneven."""
        runs = self._loader._passes.runs
        world = runs.rank_and_world()[1]
        return self._loader._count({"rank": 0, "world": world} if world else {})

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[int]:
        raise TypeError("the order of samples is the pipeline's own: loop over the loader, or over loader.dataset")


class LoaderBatchSampler:
    """The batches of the loop that comes, by number; `accelerate.skip_first_batches` leaves the first ones out."""

    def __init__(self, loader: Loader[Any]) -> None:
        self._loader = loader

    @property
    def batch_size(self) -> int:
        return self._loader.batch_size

    @property
    def drop_last(self) -> bool:
        return self._loader.drop_last

    @property
    def sampler(self) -> LoaderSampler:
        return self._loader.sampler

    def set_epoch(self, epoch: int) -> None:
        self._loader.sampler.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self._loader)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[BatchPlace]:
        epoch = self._loader._passes.next_epoch()
        for number in itertools.count():  # the dataset ends the loop where the batches end
            yield BatchPlace(epoch, number)
