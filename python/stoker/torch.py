"""PyTorch: a pipeline as an IterableDataset, for code that wants a DataLoader."""

from __future__ import annotations

import os
from importlib import import_module

from torch.utils.data import IterableDataset, SequentialSampler, get_worker_info

from ._loader import Loader, number_of
from ._options import check_options, rank_and_world
from ._runs import Runs
from ._samples import ALL_RANKS, LoaderSampler, before_batching, check_no_batch_work, only_row
from ._watch import warn, warn_if_again
from ._within import look, take_over

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from typing_extensions import Unpack

    from ._options import Format, RunOptions
    from ._pipeline import Pipeline

_WORKERS_MOST = 1024


def _itself(value: Any) -> Any:
    return value


class Sampler(LoaderSampler, SequentialSampler):  # type: ignore[misc, type-arg, unused-ignore]
    """A loader's sampler as one of PyTorch's; sequential, so that nobody replaces it to turn a shuffle off."""


class Dataset(IterableDataset):  # type: ignore[misc, type-arg, unused-ignore]
    """Finished batches of a pipeline: `DataLoader(pipe.dataset("image", "label"), batch_size=None)`.

    With samples=True, single samples from before `batch`, for whoever wants to make the batches:
    `Trainer(train_dataset=pipe.dataset(samples=True))`.

    Stoker works in threads of its own, so num_workers=0 is as fast as it gets. In workers of a DataLoader each takes
    its share of the samples, and of threads and memory. Each loop is the next epoch, also with workers, persistent or
    not. Under accelerate, which would divide a rank's share once more, each sample still comes once.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *fields: str,
        format: Format = "torch",
        samples: bool = False,
        **options: Unpack[RunOptions],
    ) -> None:
        super().__init__()
        if samples:
            check_no_batch_work(pipeline)
            pipeline = before_batching(pipeline).batch(1)
        self._pipeline = pipeline
        self._fields = fields
        self._format: Format = format
        self._samples = samples
        self._options = check_options(options)
        Loader(pipeline, fields, format=format, options=self._options)  # raises what is wrong with them, here
        self._around: dict[str, Any] = {}  # options by which the share fits those who iterate it; see _within
        self._idle = False  # process 0 reads for this one
        # The next epoch of each worker. Shared, as workers live for one loop, or hold a copy of the dataset for many.
        torch = import_module("torch")  # by this way type checkers do not take this file for it
        self._epochs = torch.zeros(_WORKERS_MOST, dtype=torch.int64).share_memory_()
        self._loader: Loader[Any] | None = None  # each worker makes its own
        self._whose: tuple[Any, ...] = (0, 0, 1)  # process, number of the worker, workers; and what is around it
        self._state: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        self._fit_in(begins=True, in_worker=info is not None)
        if self._idle:
            return iter(())
        batches = self._batches(*((0, 1) if info is None else (info.id, info.num_workers)))
        return (only_row(batch, _itself) for batch in batches) if self._samples else batches

    def _fit_in(self, begins: bool = False, in_worker: bool = False) -> None:
        """Takes the share that is right for those who iterate this; in workers, the parent has seen them."""
        within = look()
        if begins and within.stacks and not self._samples:
            raise TypeError(
                "a DataLoader with a batch_size would make batches of finished batches: write "
                "DataLoader(pipe.dataset(...), batch_size=None), or pipe.dataset(..., samples=True) for single samples"
            )
        given = Runs(self._pipeline, self._options).options
        if not given["shard"]:
            return  # whoever turns it off wants others to share out
        if within.shard is not None:
            self._fit_shard(within.shard, given["rank"], begins)
        elif within.dispatcher is not None:
            self._fit_dispatcher(given["rank"])
        elif begins and not in_worker:
            self._around, self._idle = {}, False

    def _fit_shard(self, shard: Any, own_rank: int | None, begins: bool) -> None:
        rank, world = take_over(shard)
        if world == 1:
            return
        if begins:  # it has divided by now
            raise RuntimeError(
                f"{type(shard).__name__} takes a part of this rank's part of the samples, and has begun already: "
                "loop over pipe.loader(format='torch'), or give pipe.dataset(shard=False)"
            )
        self._around = {"rank": rank, "world": world} if own_rank is None else {}

    def _fit_dispatcher(self, own_rank: int | None) -> None:
        rank, world = rank_and_world(None, None)
        if world <= 1:
            return
        own = [text for name, _, text in self._pipeline._ops if name == "shard" and any(map(str.isdigit, text))]
        own += [f"rank={own_rank}"] if own_rank is not None else []
        if own:
            raise ValueError(
                f"accelerate reads in process 0 alone and sends parts of that to the others, and {own[0]} leaves a "
                "part of the samples there: loop over pipe.loader(format='torch'), or leave that out"
            )
        if not self._around and rank == 0:
            warn(
                "accelerate reads this dataset in process 0 alone, for all processes; each reads its own part with "
                "pipe.loader(format='torch') in place of the DataLoader, or with "
                "Accelerator(dataloader_config=DataLoaderConfiguration(dispatch_batches=False))",
                stacklevel=6,
            )
        self._around, self._idle = dict(ALL_RANKS), rank != 0

    def _batches(self, worker: int, workers: int) -> Iterator[Any]:
        loader = self._loader
        whose = (os.getpid(), worker, workers, *self._around.values())
        if loader is None or whose != self._whose:  # forked workers inherit that of the parent
            loader = self._loader = self._open(worker, workers)
            self._whose = whose
        if self._state is not None:
            loader.load_state_dict(self._state)
            self._state = None
        else:
            epoch = int(self._epochs[worker])
            if epoch == 0 and workers == 1:
                warn_if_again(loader._passes.runs)
            loader.set_epoch(epoch)
        first = loader.state_dict()["epoch"]
        batches = iter(loader)
        self._epochs[worker] = first + (loader._passes.epochs or 1)
        return batches

    def _open(self, worker: int, workers: int) -> Loader[Any]:
        options = {**self._options, **self._around}
        if workers > 1:
            options.update(self._share(worker, workers, options))
        loader: Loader[Any] = Loader(
            self._pipeline, self._fields, format=self._format, persistent=False, options=options
        )
        if options.get("world") == workers:
            loader._passes.runs.share = "keep"  # one rank: nobody waits for a worker that has less
        return loader

    def _share(self, worker: int, workers: int, options: Mapping[str, Any]) -> dict[str, Any]:
        """Rank, threads and memory of one of several workers."""
        runs = Runs(self._pipeline, options)
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
        self._fit_in()
        options = {**self._options, **self._around}
        return len(Loader(self._pipeline, self._fields, format=self._format, options=options))

    def set_epoch(self, epoch: int) -> None:
        """Let the next loop be this epoch, in workers too."""
        epoch = number_of("set_epoch", epoch, 0)
        self._fit_in()
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
