"""Batches as arrays of NumPy, PyTorch, JAX and TensorFlow, on the memory of the batch, without a copy."""

from __future__ import annotations

from importlib import import_module

from ._needs import library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, overload

    from ._core import Batch, Column
else:

    def overload(function):  # typing takes a while to import
        return function


_SMALL = 65536  # bytes of a tensor in pinned memory that becomes one of its own


class Ragged:
    """Rows of different shapes: the elements of all rows in one array, and where each row begins.

    Row i is `values[offsets[i]:offsets[i + 1]]`, in the shape `row_shapes[i]` where rows have more than one dimension;
    `ragged[i]` gives just that.
    """

    __slots__ = ("values", "offsets", "row_shapes", "_bounds", "_shapes")

    def __init__(self, values: Any, offsets: Any, row_shapes: Any = None) -> None:
        self.values = values
        self.offsets = offsets
        self.row_shapes = row_shapes
        self._bounds: list[int] | None = None
        self._shapes: list[tuple[int, ...]] | None = None

    def _offsets(self) -> list[int]:
        bounds = self._bounds
        if bounds is None:
            bounds = self._bounds = list(_plain(self.offsets))
        return bounds

    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of each row."""
        if self._shapes is None:
            if self.row_shapes is not None:
                self._shapes = [tuple(shape) for shape in _plain(self.row_shapes)]
            else:
                bounds = self._offsets()
                self._shapes = [(end - begin,) for begin, end in zip(bounds, bounds[1:])]
        return self._shapes

    def __len__(self) -> int:
        return len(self._offsets()) - 1

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"row {index} of {count} rows")
        index %= count
        bounds = self._offsets()
        row = _cut(self.values, bounds[index], bounds[index + 1])
        return row if self.row_shapes is None else _shaped(row, self.shapes()[index])

    def __iter__(self) -> Iterator[Any]:
        for i in range(len(self)):
            yield self[i]

    def to_list(self) -> list[Any]:
        """A list for each row, nested by its shape."""
        return [_plain(row) for row in self]

    def to_padded(self, value: Any = 0) -> Any:
        """One array with room for the largest row in every dimension; what is left over is `value`."""
        shapes = self.shapes()
        ndim = len(shapes[0]) if shapes else 1
        room = [max((shape[d] for shape in shapes), default=0) for d in range(ndim)]
        kind = _library(self.values)
        if kind == "torch":
            padded = self.values.new_full((len(self), *room), value)
            rows: Any = self
        else:
            numpy = library("numpy", "Ragged.to_padded needs")
            values = numpy.asarray(self.values)
            padded = numpy.full((len(self), *room), value, values.dtype)
            rows = Ragged(values, self.offsets, self.row_shapes)
        for i, shape in enumerate(shapes):
            place = (i, *map(slice, shape))
            padded[place] = rows[i]
        if kind in ("jax", "jaxlib"):
            return import_module("jax.numpy").asarray(padded)
        if kind == "tensorflow":
            return import_module("tensorflow").constant(padded)
        return padded

    def __repr__(self) -> str:
        return f"<stoker.Ragged: {len(self)} rows, {self._offsets()[-1]} values, {_library(self.values)}>"


def _library(array: Any) -> str:
    return type(array).__module__.partition(".")[0]


def _plain(array: Any) -> Any:
    """Lists of Python numbers."""
    if isinstance(array, list):
        return array
    return array.numpy().tolist() if _library(array) == "tensorflow" else array.tolist()


def _cut(values: Any, begin: int, end: int) -> Any:
    return (memoryview(values) if _library(values) == "stoker" else values)[begin:end]


def _shaped(row: Any, shape: tuple[int, ...]) -> Any:
    if isinstance(row, memoryview):
        return row if 0 in shape else row.cast("B").cast(row.format, shape)  # type: ignore[call-overload]
    if _library(row) == "tensorflow":
        return import_module("tensorflow").reshape(row, shape)
    return row.reshape(shape)


# ---- one column in each format: a function for arrays, made for the type of the column ----


def _numpy_array(column: Column) -> Callable[[Column], Any]:
    asarray = import_module("numpy").asarray
    if column.dtype == "bfloat16":
        try:
            bfloat16 = import_module("ml_dtypes").bfloat16
        except ImportError:
            return asarray  # type: ignore[no-any-return]
        return lambda c: asarray(c).view(bfloat16)
    return asarray  # type: ignore[no-any-return]


def _numpy_bytes() -> Callable[[Column], Any]:
    empty = import_module("numpy").empty
    return lambda c: c._put_into(empty(c.shape, object))


def _first_that_works(column: Column, *ways: Callable[[Column], Any]) -> Callable[[Column], Any]:
    """Frameworks differ in the types that they take through DLPack; the last way is the one that always works."""
    for way in ways[:-1]:
        try:
            way(column)
        except (BufferError, RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError, ImportError):
            continue
        return way
    return ways[-1]


def _torch_array(column: Column) -> Callable[[Column], Any]:
    torch = import_module("torch")
    take = getattr(torch._C, "_from_dlpack", None) or import_module("torch.utils.dlpack").from_dlpack

    def by_dlpack(c: Column) -> Any:
        return take(c.__dlpack__())

    def by_numpy(c: Column) -> Any:
        return torch.from_numpy(import_module("numpy").asarray(c))

    return _first_that_works(column, by_dlpack, by_numpy)


def _jax_array(column: Column) -> Callable[[Column], Any]:
    from_dlpack = import_module("jax.dlpack").from_dlpack
    array = import_module("jax.numpy").array

    def by_numpy(c: Column) -> Any:
        return array(_numpy_array(c)(c))

    return _first_that_works(column, from_dlpack, by_numpy)


def _tensorflow_array(column: Column) -> Callable[[Column], Any]:
    tensorflow = import_module("tensorflow")
    from_dlpack = tensorflow.experimental.dlpack.from_dlpack

    def by_dlpack(c: Column) -> Any:
        return from_dlpack(c.__dlpack__())

    def by_numpy(c: Column) -> Any:
        return tensorflow.constant(_numpy_array(c)(c))

    return _first_that_works(column, by_dlpack, by_numpy)


def _itself(column: Column) -> Callable[[Column], Any]:
    return lambda c: c


_ARRAYS: dict[str, Callable[[Column], Callable[[Column], Any]]] = {
    "numpy": _numpy_array,
    "torch": _torch_array,
    "jax": _jax_array,
    "tensorflow": _tensorflow_array,
    "dlpack": _itself,
}


def _ragged(column: Column, format: str) -> Callable[[Column], Ragged]:
    offsets, row_shapes = column.offsets, column.row_shapes
    assert offsets is not None
    to_values: Callable[[Column], Any]
    to_values = _numpy_bytes() if column.dtype == "bytes" else _ARRAYS[format](column.values)
    to_numbers = _ARRAYS[format](offsets)
    if row_shapes is None:
        return lambda c: Ragged(to_values(c.values), to_numbers(c.offsets))  # type: ignore[arg-type]
    return lambda c: Ragged(to_values(c.values), to_numbers(c.offsets), to_numbers(c.row_shapes))  # type: ignore[arg-type]


def _function(column: Column, format: str) -> Callable[[Column], Any]:
    """What makes the value of such a column in that format."""
    if column.dtype == "bytes" and format != "numpy":
        return lambda c: c.tolist()
    if column.ragged:
        return _ragged(column, format)
    if column.dtype == "bytes":
        return _numpy_bytes()
    return _ARRAYS[format](column)


# ---- whole batches ----


def _cuda_fence() -> Any:
    """An event that comes when the work queued on the current stream by now is done: copies that read a batch, say."""
    event = import_module("torch").cuda.Event()
    event.record()
    return event


def _as_dict(batch: Batch, format: str) -> Callable[[Batch], Any]:
    names = batch.names
    functions = [_function(column, format) for column in batch.columns()]
    if functions and functions.count(functions[0]) == len(functions):
        only = functions[0]
        return lambda b: dict(zip(names, map(only, b.loose_columns())))
    return lambda b: {name: function(column) for name, function, column in zip(names, functions, b.loose_columns())}


def no_field(name: str, names: Iterable[str]) -> str:
    """What an error says about a field that is not there."""
    from ._text import nearest

    near = nearest(name, names)
    advice = f" (did you mean {near!r}?)" if near else ""
    return f"no field {name!r}{advice}; the pipeline gives {', '.join(map(str, names))}"


def _as_tuple(batch: Batch, format: str, fields: Sequence[str]) -> Callable[[Batch], Any]:
    for name in fields:
        if name not in batch.names:
            raise KeyError(no_field(name, batch.names))
    places = [(batch.names.index(name), _function(batch.column(name), format)) for name in fields]
    return lambda b: tuple([function(b.loose_column(place)) for place, function in places])


def _own_pinned(value: Any) -> Any:
    """Small tensors on pinned memory of their own, so that who keeps labels does not keep the batch."""
    torch = import_module("torch")
    if not isinstance(value, torch.Tensor) or value.nbytes > _SMALL:
        return value
    return torch.empty_like(value, pin_memory=True).copy_(value)


def _with_own_pinned(convert: Callable[[Batch], Any]) -> Callable[[Batch], Any]:
    def call(batch: Batch) -> Any:
        made = convert(batch)
        if isinstance(made, tuple):
            return tuple([_own_pinned(value) for value in made])
        return {name: _own_pinned(value) for name, value in made.items()}

    return call


class _Converter:
    """Calls what the first batch asked for; all batches of a pipeline have the same fields."""

    def __init__(self, format: str, fields: Sequence[str], pin: bool) -> None:
        self._format = format
        self._fields = fields
        self._pin = pin and import_module("torch").cuda.is_available()
        self._names: tuple[str, ...] | None = None
        self._convert: Callable[[Batch], Any] = self.__call__

    def __call__(self, batch: Batch) -> Any:
        if batch.names is not self._names and batch.names != self._names:
            self._convert = (
                _as_tuple(batch, self._format, self._fields) if self._fields else _as_dict(batch, self._format)
            )
            if self._pin:
                self._convert = _with_own_pinned(self._convert)
            self._names = batch.names
        if self._pin:
            batch._fence(_cuda_fence)
        return self._convert(batch)


# What a batch in each format needs, and who can do without.
_NEEDS = {
    "numpy": ("batches as NumPy arrays need", "pipe.dlpack() gives them without, to all that take DLPack"),
    "torch": ("batches as PyTorch tensors need", ""),
    "jax": ("batches as JAX arrays need", ""),
    "tensorflow": ("batches as TensorFlow tensors need", ""),
}


def converter(format: str, fields: Sequence[str] = (), pin: bool = False) -> Callable[[Batch], Any]:
    """A function that makes of a batch what a loop gets: a dict, or with `fields` a tuple in that order."""
    if format not in _ARRAYS:
        raise ValueError(f"format must be one of {', '.join(_ARRAYS)}, not {format!r}")
    if format in _NEEDS:
        library(format, *_NEEDS[format])
    return _Converter(format, tuple(fields), pin and format == "torch")
