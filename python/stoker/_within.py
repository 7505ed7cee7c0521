"""Who iterates a dataset: accelerate and transformers put classes around it that share out samples once more.

A rank's dataset gives the rank's share. Two kinds of wrappers divide what they get among the ranks again:

- `IterableDatasetShard` (accelerate with dispatch_batches=False, transformers) takes every n-th batch of samples. It is
  told that there is one process, and so hands on what it gets.
- `DataLoaderDispatcher` (accelerate, by default) reads in process 0 alone and sends parts to the others. There the
  dataset gives the samples of all ranks, and in other processes none.

Nothing of these reaches a dataset by its arguments, so they are looked for among the callers.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DEPTH = 64  # callers to look at
_WANTED = {
    "IterableDatasetShard": ("accelerate", "transformers"),
    "DataLoaderDispatcher": ("accelerate",),
    "_IterableDatasetFetcher": ("torch",),
}


class Within:
    """The objects around the call at hand; None: there is none of that kind."""

    __slots__ = ("shard", "dispatcher", "fetcher")

    def __init__(self, found: dict[str, Any]) -> None:
        self.shard = found.get("IterableDatasetShard")
        self.dispatcher = found.get("DataLoaderDispatcher")
        self.fetcher = found.get("_IterableDatasetFetcher")

    @property
    def stacks(self) -> bool:
        """Whether a DataLoader makes batches of what it gets."""
        return bool(getattr(self.fetcher, "auto_collation", False))


def look() -> Within:
    """Looks at the `self` of all callers. The type counts: accelerate's loaders call themselves DataLoader."""
    found: dict[str, Any] = {}
    frame = sys._getframe(1)
    for _ in range(_DEPTH):
        owner = frame.f_locals.get("self")
        kind = type(owner)
        packages = _WANTED.get(kind.__name__)
        if packages and kind.__module__.partition(".")[0] in packages:
            found.setdefault(kind.__name__, owner)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return Within(found)


def take_over(shard: Any) -> tuple[int, int]:
    """Makes an IterableDatasetShard hand on all that it gets; its rank and world, for the dataset to take."""
    names = ("process_index", "num_processes", "batch_size", "split_batches")
    missing = [name for name in names if not hasattr(shard, name)]
    if missing:
        raise RuntimeError(
            f"{type(shard).__module__}.{type(shard).__name__} has no {missing[0]}: this version is not known, and it "
            "would take a part of this rank's part; use pipe.loader(format='torch'), or pipe.dataset(shard=False)"
        )
    rank, world = shard.process_index, shard.num_processes
    if world > 1:
        shard.process_index, shard.num_processes = 0, 1
        shard.batch_size, shard.split_batches = 1, False
        shard.total_dataset_length = 0  # no rows of the last batch are for filling: gather_for_metrics keeps all
    return rank, world
