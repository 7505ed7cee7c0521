"""PyTorch: a pipeline as an IterableDataset, for code that wants a DataLoader."""

from __future__ import annotations

import os
from importlib import import_module

from torch.utils.data import IterableDataset, get_worker_info

from ._loader import Loader, number_of
from ._options import check_options, rank_and_world
from ._runs import Runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from typing_extensions import Unpack

    from ._options import Format, RunOptions
    from ._pipeline import Pipeline

_WORKERS_MOST = 1024


class Dataset(IterableDataset):  # type: ignore[misc, type-arg, unused-ignore]
    """Finished batches of a pipeline: `DataLoader(pipe.dataset("image", "label"), batch_size=None)`.

    Stoker works in threads of its own, so num_workers=0 is as fast as it gets. In workers of a DataLoader each takes
    its share of the samples, and of threads and memory. Each loop is the next epoch, also with workers, persistent or
    not.
    """

    def __init__(self, pipeline: Pipeline, *fields: str, format: Format = "torch", **options: Unpack[RunOptions]) -> None:
        super().__init__()
        self._pipeline = pipeline
        self._fields = fields
        self._format: Format = format
        self._options = check_options(options)
        Loader(pipeline, fields, format=format, options=self._options)  # raises what is wrong with them, here
        # The next epoch of each worker. Shared, as workers live for one loop, or hold a copy of the dataset for many.
        torch = import_module("torch")  # by this way type checkers do not take this file for it
        count = pipeline._count
        first = 0 if count.shared is None else int(count.shared.max())
        self._epochs = torch.full((_WORKERS_MOST,), first, dtype=torch.int64).share_memory_()
        count.shared = self._epochs
        self._loader: Loader[Any] | None = None  # each worker makes its own
        self._whose = (0, 0, 1)  # process, number of the worker, workers
        self._state: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        loader = self._loader
        whose = os.getpid(), worker, workers
        if loader is None or whose != self._whose:  # forked workers inherit that of the parent
            loader = self._loader = self._open(worker, workers)
            self._whose = whose
        if self._state is not None:
            loader.load_state_dict(self._state)
            self._state = None
        else:
            loader.set_epoch(int(self._epochs[worker]))
        first = loader.state_dict()["epoch"]
        batches = iter(loader)
        self._epochs[worker] = first + (loader._passes.epochs or 1)
        return batches

    def _open(self, worker: int, workers: int) -> Loader[Any]:
        options = dict(self._options)
        if workers > 1:
            options.update(self._share(worker, workers))
        loader: Loader[Any] = Loader(
            self._pipeline, self._fields, format=self._format, persistent=False, options=options
        )
        if options.get("world") == workers:
            loader._passes.runs.share = "keep"  # one rank: nobody waits for a worker that has less
        return loader

    def _share(self, worker: int, workers: int) -> dict[str, Any]:
        """Rank, threads and memory of one of several workers."""
        runs = Runs(self._pipeline, self._options)
        given = runs.options
        for name, _, text in runs.ops:
            if name == "shard" and "count" in text:
                raise ValueError(f"the pipeline's own {text} leaves nothing to share among workers: use num_workers=0")
        rank, world = rank_and_world(given["rank"], given["world"]) if given["shard"] else (0, 1)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return {
            "rank": rank * workers + worker,
            "world": max(world, 1) * workers,
            "threads": given["threads"] or max(1, cores // workers),
            "memory": (given["memory"] or 1 << 30) // workers,
            "shard": True,
        }

    def __len__(self) -> int:
        return len(Loader(self._pipeline, self._fields, format=self._format, options=self._options))

    def set_epoch(self, epoch: int) -> None:
        """Let the next loop be this epoch, in workers too."""
        epoch = number_of("set_epoch", epoch, 0)
        if self._state is not None and self._state["epoch"] != epoch:
            self._state = None
        self._epochs.fill_(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The place of this process's loop; torchdata's StatefulDataLoader asks each worker for its own."""
        if self._state is not None:
            return dict(self._state)
        if self._loader is not None and self._whose[0] == os.getpid():
            return self._loader.state_dict()
        return {"stoker": 1, "state": None, "epoch": int(self._epochs[0]), "batches": 0}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next loop go on where the state was taken."""
        self._state = dict(state)

    def __repr__(self) -> str:
        return f"<stoker.torch.Dataset of {self._pipeline!r}, format={self._format!r}>"

    def __getstate__(self) -> dict[str, Any]:
        out = dict(self.__dict__)
        out["_loader"] = None  # opened by this process
        if self._loader is not None and self._state is None and self._whose[0] == os.getpid():
            out["_state"] = self._loader.state_dict()
        return out
