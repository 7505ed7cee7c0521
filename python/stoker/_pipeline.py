"""Pipelines: ops put one behind the other, as text that the engine reads."""

from __future__ import annotations

import os

from . import _core
from ._count import Count
from ._ops import PipelineOps
from ._options import check_options
from ._text import call_text, nearest, options_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, Literal, SupportsIndex, TypeAlias, overload

    import jax as _jax
    import tensorflow as _tensorflow
    import torch as _torch
    from numpy.typing import NDArray as _NDArray
    from typing_extensions import Unpack

    from ._batch_maps import BatchMap
    from ._loader import Loader
    from ._options import Format, RunOptions
    from ._sheet import Rows, Sheet
    from ._text import Option
    from .torch import Dataset

    # Fields of batches. `Any`, because those that vary in shape are Ragged, and bytes in lists.
    NDArray: TypeAlias = "_NDArray[Any] | Any"
    Tensor: TypeAlias = "_torch.Tensor | Any"
    JaxArray: TypeAlias = "_jax.Array | Any"
    TfTensor: TypeAlias = "_tensorflow.Tensor | Any"
    Column: TypeAlias = "_core.Column | Any"

    # Name, role ("source", "order", "sample", "batch", "rows", "cache", "prefetch", "sink") and text of an op.
    Op = tuple[str, str, str]
else:

    def overload(function):  # typing takes a while to import
        return function


_TEXT_MAX = 1 << 20
_PYTHON_OPS = ("python_map", "python_source")


def read_ops(text: str) -> tuple[Op, ...]:
    """The ops of a text; InvalidError with line and column when it cannot be read."""
    return tuple((name, role, text[begin:end]) for name, role, begin, end in _core.text_ops(text))


def _read_call(name: str, call: str) -> Op:
    """The one op that a call is: whatever its options hold, nothing else may come of it."""
    ops = read_ops(call)
    if len(ops) != 1 or ops[0][0] != name or ops[0][2] != call:
        raise ValueError(f"{name}: wanted options of one op, found the text {call!r}")
    return ops[0]


class Pipeline(PipelineOps):
    """Where samples come from and what is done to them; nothing runs before a loop or `run` asks for it.

    Every method gives a new pipeline, so that one can be the start of several::

        records = stoker.tfrecord("d/*.tfrecord").parse(image="bytes", label="int64").decode_image("image")
        train = records.shuffle(seed=1).random_flip("image").batch(256, drop_last=True)
        test = records.batch(256)
        for batch in train.torch():
            ...
    """

    __slots__ = ("_ops", "_functions", "_options", "_batch_maps", "_count")

    _ops: tuple[Op, ...]
    _functions: tuple[object, ...]  # that ops call, by number
    _options: dict[str, Any]  # of runs; those left out have their defaults
    _batch_maps: tuple[BatchMap, ...]  # functions that the loop calls on batches
    _count: Count  # of passes

    def __init__(
        self,
        ops: Sequence[Op],
        functions: Sequence[object] = (),
        options: Mapping[str, Any] | None = None,
        batch_maps: Sequence[BatchMap] = (),
    ) -> None:
        self._ops = tuple(ops)
        self._functions = tuple(functions)
        self._options = dict(options or {})
        self._batch_maps = tuple(batch_maps)
        self._count = Count()

    @classmethod
    def _source(cls, name: str, options: Sequence[Option], functions: Sequence[object] = ()) -> Pipeline:
        return cls([_read_call(name, call_text(name, options))], functions)

    def _op(self, name: str, options: Sequence[Option], functions: Sequence[object] = ()) -> Pipeline:
        last = self._ops[-1]
        if last[1] == "sink":
            raise ValueError(f"{name} cannot stand behind {last[0]}, which ends the pipeline")
        op = _read_call(name, call_text(name, options))
        if self._batch_maps and op[1] not in ("order", "prefetch"):
            raise ValueError(
                f"{name} cannot stand behind map {self._batch_maps[-1].name!r}, which the loop calls on finished "
                "batches: put it before the map"
            )
        return Pipeline((*self._ops, op), (*self._functions, *functions), self._options, self._batch_maps)

    def _with_batch_map(self, name: str, fn: Callable[..., Any]) -> Pipeline:
        """With a function that the loop calls on each batch."""
        from ._batch_maps import BatchMap
        from ._functions import takes_random

        maps = (*self._batch_maps, BatchMap(name, fn, takes_random(fn)))
        return Pipeline(self._ops, self._functions, self._options, maps)

    def op(self, name: str, /, **options: object) -> Pipeline:
        """Any op by its name, those of plug-ins too: `pipe.op("blur", radius=2)`."""
        table = _table(name)
        if table["role"] == "source":
            raise ValueError(f"{name} is a source, and stands at the start: stoker.pipeline('{name}(...)')")
        return self._op(name, options_of(name, table["options"], options))

    def map(
        self,
        fn: Callable[..., Any],
        /,
        *,
        name: str | None = None,
        processes: int | Literal["auto"] | None = None,
        **outputs: str,
    ) -> Pipeline:
        """Call a Python function on every sample, or behind `batch` on every batch.

        It gets a dict of fields (NumPy arrays and scalars, bytes) that are its own to change, and returns a dict of
        those to change or add; the others stay. With a second parameter it also gets a NumPy Generator, whose numbers
        are the same whatever the number of threads. Functions that keep state see samples in no fixed order.

        Args:
            fn: the function.
            name: what traces and messages call it; else its own name.
            processes: call it in so many processes at a time, forked when a loop begins; "auto": one for each core.
                Without them Python runs in one worker at a time. What comes out is the same with any number. There,
                `random`, `np.random` and `torch` are seeded anew for each sample, so that their numbers are too.
            **outputs: types of the fields it returns, as in `parse`: `image="float32[224,224,3]"`, `ids="int64[]"` for
                a dimension that varies. Without them fn is called once, on the first sample, to see.

        Example::

            pipe.map(lambda s: {"label": s["label"] % 10})
        """
        from ._functions import make_map

        return make_map(self, fn, name, outputs, processes)

    def options(self, **options: Unpack[RunOptions]) -> Pipeline:
        """The same pipeline with options for its runs; those of `loader` and the formats win over them.

        Args:
            threads: workers; 0: as many as the machine gives.
            memory: budget of all buffers, in bytes or as "512M"; 0: a quarter of the memory, at most 1 GiB.
            seed: of ops that draw random numbers.
            rank, world: which part of the samples this process takes; None: of RANK and WORLD_SIZE (torchrun), or of
                torch.distributed. With a world above 1 ranks share the samples behind the last shuffle, take, skip
                or interleave, unless the pipeline has a shard: all ranks get as many where the order is another in
                each epoch, else each sample comes exactly once.
            shard: False: ranks share nothing.
            cache_dir: where indexes are kept; "auto": ~/.cache/stoker; None: nowhere.
            on_error: what a bad record does: "stop", "skip", or "quarantine".
            max_errors: stop after more bad records than this; 0: no limit.
            quarantine: file that lists bad records.
            exact: leave out rewrites that change the last bits.
            progress: called as progress(what, done, total) during long work; True: a line on standard error.
        """
        return Pipeline(self._ops, self._functions, {**self._options, **check_options(options)}, self._batch_maps)

    # ---- loops ----

    @overload
    def loader(
        self,
        *,
        epochs: int = 1,
        format: Format = "numpy",
        persistent: bool = True,
        pin_memory: bool = False,
        **options: Unpack[RunOptions],
    ) -> Loader[dict[str, Any]]: ...
    @overload
    def loader(
        self,
        field: str,
        /,
        *fields: str,
        epochs: int = 1,
        format: Format = "numpy",
        persistent: bool = True,
        pin_memory: bool = False,
        **options: Unpack[RunOptions],
    ) -> Loader[tuple[Any, ...]]: ...
    def loader(
        self,
        *fields: str,
        epochs: int = 1,
        format: Format = "numpy",
        persistent: bool = True,
        pin_memory: bool = False,
        **options: Unpack[RunOptions],
    ) -> Loader[Any]:
        """An object to loop over again and again, each time with the epoch after.

        A new loader begins with epoch 0: make it once, before the loop over epochs.

        Args:
            *fields: give tuples of these, in this order; without them, dicts of all fields. What nobody asks for is
                not decoded.
            epochs: epochs in one loop.
            format: "numpy", "torch", "jax", "tensorflow" or "dlpack".
            persistent: stay open between loops, and make the next epoch ready while this one ends.
            pin_memory: "torch": batches in pinned memory, for copies to the GPU by non_blocking=True.
            **options: as those of `Pipeline.options`.

        Example::

            loader = pipe.loader("image", "label", format="torch")
            for epoch in range(10):
                for x, y in loader:
                    ...
        """
        from ._loader import Loader

        return Loader(
            self,
            fields,
            epochs=epochs,
            format=format,
            persistent=persistent,
            pin_memory=pin_memory,
            options=check_options(options),
        )

    def _counted(
        self, format: Format, fields: tuple[str, ...], epochs: int, options: RunOptions, pin_memory: bool = False
    ) -> Loader[Any]:
        """A loader for loops that are written `for x, y in pipe.torch("x", "y")`: each goes on with the next epoch."""
        loader = self.loader(
            *fields, epochs=epochs, format=format, persistent=False, pin_memory=pin_memory, **options
        )
        loader._passes.counted = True
        return loader

    @overload
    def numpy(self, *, epochs: int = 1, **options: Unpack[RunOptions]) -> Loader[dict[str, NDArray]]: ...
    @overload
    def numpy(
        self, field: str, /, *fields: str, epochs: int = 1, **options: Unpack[RunOptions]
    ) -> Loader[tuple[NDArray, ...]]: ...
    def numpy(self, *fields: str, epochs: int = 1, **options: Unpack[RunOptions]) -> Loader[Any]:
        """Loop over batches as NumPy arrays that share the memory of the batch, but for small ones.

        Each loop is the next epoch, in another order; `epochs` of them in one loop.
        """
        return self._counted("numpy", fields, epochs, options)

    @overload
    def torch(self, *, epochs: int = 1, pin_memory: bool = False, **options: Unpack[RunOptions]) -> Loader[dict[str, Tensor]]: ...
    @overload
    def torch(
        self, field: str, /, *fields: str, epochs: int = 1, pin_memory: bool = False, **options: Unpack[RunOptions]
    ) -> Loader[tuple[Tensor, ...]]: ...
    def torch(self, *fields: str, epochs: int = 1, pin_memory: bool = False, **options: Unpack[RunOptions]) -> Loader[Any]:
        """Loop over batches as PyTorch tensors that share the memory of the batch, but for small ones.

        Each loop is the next epoch, in another order; `epochs` of them in one loop.
        """
        return self._counted("torch", fields, epochs, options, pin_memory)

    @overload
    def jax(self, *, epochs: int = 1, **options: Unpack[RunOptions]) -> Loader[dict[str, JaxArray]]: ...
    @overload
    def jax(
        self, field: str, /, *fields: str, epochs: int = 1, **options: Unpack[RunOptions]
    ) -> Loader[tuple[JaxArray, ...]]: ...
    def jax(self, *fields: str, epochs: int = 1, **options: Unpack[RunOptions]) -> Loader[Any]:
        """Loop over batches as JAX arrays."""
        return self._counted("jax", fields, epochs, options)

    @overload
    def tensorflow(self, *, epochs: int = 1, **options: Unpack[RunOptions]) -> Loader[dict[str, TfTensor]]: ...
    @overload
    def tensorflow(
        self, field: str, /, *fields: str, epochs: int = 1, **options: Unpack[RunOptions]
    ) -> Loader[tuple[TfTensor, ...]]: ...
    def tensorflow(self, *fields: str, epochs: int = 1, **options: Unpack[RunOptions]) -> Loader[Any]:
        """Loop over batches as TensorFlow tensors."""
        return self._counted("tensorflow", fields, epochs, options)

    def keras(self, *fields: str, epochs: int = 1, **options: Unpack[RunOptions]) -> Loader[Any]:
        """A loader for Keras: `model.fit(pipe.keras("image", "label"), epochs=10)`, each epoch in another order.

        Once Keras is imported, every loader is one of these.
        """
        from ._keras import loader_class

        return loader_class()(self, fields, epochs=epochs, options=check_options(options))

    @overload
    def dlpack(self, *, epochs: int = 1, **options: Unpack[RunOptions]) -> Loader[dict[str, Column]]: ...
    @overload
    def dlpack(
        self, field: str, /, *fields: str, epochs: int = 1, **options: Unpack[RunOptions]
    ) -> Loader[tuple[Column, ...]]: ...
    def dlpack(self, *fields: str, epochs: int = 1, **options: Unpack[RunOptions]) -> Loader[Any]:
        """Loop over batches as columns with `__dlpack__` and the buffer protocol, for any other library."""
        return self._counted("dlpack", fields, epochs, options)

    def dataset(
        self, *fields: str, format: Format = "torch", samples: bool = False, **options: Unpack[RunOptions]
    ) -> Dataset:
        """A torch.utils.data.IterableDataset of finished batches: `DataLoader(pipe.dataset(), batch_size=None)`.

        With samples=True, of single samples, for what makes the batches itself: `Trainer(train_dataset=...)`.
        """
        from .torch import Dataset

        return Dataset(self, *fields, format=format, samples=samples, **options)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.numpy())

    # ---- looking and running ----

    def first(self, *fields: str, **options: Unpack[RunOptions]) -> Any:
        """The first batch as NumPy arrays, by a short run of its own."""
        from ._batch_maps import make_converter
        from ._runs import Runs

        runs = Runs(self, check_options(options))
        convert = make_converter(runs, "numpy", fields, False)
        with runs.looking(batched=True, fields=fields, calls=True) as run:
            batch = run.next()
            if batch is None:
                raise ValueError("the pipeline gives no batch: there is no first one")
            return convert(batch, 0) if self._batch_maps else convert(batch)

    def count(self, **options: Unpack[RunOptions]) -> int:
        """Samples of one epoch, before batching, of all ranks together; TypeError says why where nobody can know."""
        from ._samples import ALL_RANKS, count_samples

        return count_samples(self, {**check_options(options), **ALL_RANKS})

    def __getitem__(self, index: SupportsIndex) -> dict[str, Any]:
        """Sample `index` of epoch 0, before batching, as NumPy values, by a short run of its own.

        Negative numbers count from the end. For a part of a pipeline: `.skip(n).take(m)`.
        """
        from ._samples import sample_at

        sample: dict[str, Any] = sample_at(self, index, "numpy", (), {})
        return sample

    @property
    def classes(self) -> list[str]:
        """Names of the classes of `image_folder`, by label; AttributeError where the source has none."""
        from ._samples import classes_of

        return classes_of(self)

    def show(self, n: int = 16, *, columns: int = 8, zoom: int = 1, **options: Unpack[RunOptions]) -> Sheet | Rows:
        """The first samples to look at: pictures with their labels in a notebook, or a table of what has no pictures.

        Args:
            n: samples.
            columns: pictures in a row.
            zoom: how large a pixel is drawn.
            **options: as those of `Pipeline.options`.

        Example::

            pipe.show().save("sheet.png")
        """
        from ._sheet import show

        return show(self, n, columns, zoom, check_options(options))

    def fields(self, **options: Unpack[RunOptions]) -> dict[str, str]:
        """Names and types of the fields of a sample: {"image": "uint8[?, ?, 3]", "label": "int64"}."""
        from ._runs import Runs, type_text

        with Runs(self, check_options(options)).looking() as run:
            import json

            rows = json.loads(run.explain_json())["fields"]
        return {row["name"]: type_text(row["dtype"], row["shape"]) for row in rows}

    def explain(self, **options: Unpack[RunOptions]) -> str:
        """The plan: what will run, what was rewritten and why."""
        from ._runs import Runs

        with Runs(self, check_options(options)).looking() as run:
            return run.explain()

    def run(self, **options: Unpack[RunOptions]) -> dict[str, Any]:
        """Run to the end, and give the statistics.

        What a sink (`write_...`) writes appears when all went well, and not at all otherwise. Ranks share the samples
        only where the pipeline says so, by `shard`.
        """
        from ._runs import run_to_end

        return run_to_end(self, check_options(options))

    # ---- text ----

    def __str__(self) -> str:
        return "\n| ".join(text for _, _, text in self._ops)

    def __repr__(self) -> str:
        count = len(self._ops)
        names = [name for name, _, _ in self._ops] + [f"map {m.name}" for m in self._batch_maps]
        return f"<stoker.Pipeline: {count} op{'s' if count > 1 else ''}: {' | '.join(names)}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Pipeline, (self._ops, self._functions, self._options, self._batch_maps)


def _table(name: str) -> dict[str, Any]:
    """What the registry says about an op."""
    import json

    ops = {op["name"]: op for op in json.loads(_core.ops_json())}
    if name in ops and name not in _PYTHON_OPS:
        table: dict[str, Any] = ops[name]
        return table
    near = nearest(name, (op for op in ops if op not in _PYTHON_OPS))
    raise ValueError(f"there is no op {name!r}" + (f"; did you mean {near!r}?" if near else ""))


def pipeline(text: str) -> Pipeline:
    """A pipeline from its text: `stoker.pipeline("range(10) | shuffle(seed=1) | batch(4)")`."""
    if not isinstance(text, str):
        raise TypeError(f"wanted the text of a pipeline, found {text!r}")
    ops = read_ops(text)
    for name, _, _ in ops:
        if name in _PYTHON_OPS:
            raise ValueError(f"{name} cannot be written in a text: it is made by Pipeline.map and stoker.source")
    return Pipeline(ops)


def load(path: str | os.PathLike[str]) -> Pipeline:
    """A pipeline from a file, as `stoker run FILE` takes it."""
    with open(path, "rb") as file:
        data = file.read(_TEXT_MAX + 1)
    if len(data) > _TEXT_MAX:
        raise ValueError(f"{os.fspath(path)}: wanted the text of a pipeline, found more than {_TEXT_MAX} bytes")
    try:
        return pipeline(data.decode())
    except UnicodeDecodeError as e:
        raise ValueError(
            f"{os.fspath(path)}: wanted text in UTF-8, found byte {data[e.start]:#x} at {e.start}"
        ) from None


def load_plugin(path: str | os.PathLike[str]) -> list[str]:
    """Load a plug-in; its ops go by `Pipeline.op` and `stoker.pipeline`. Returns their names."""
    return _core.load_plugin(os.fspath(path))
