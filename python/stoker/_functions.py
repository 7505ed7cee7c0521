"""Python functions in pipelines, and Python objects as their sources."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from . import _core
    from ._pipeline import Pipeline

    Shape = tuple["int | None", ...]  # None: varies

_NUMBERS = frozenset("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64".split())
_WANTED = "arrays, a sequence, an iterable, or a function that returns one"


# ---- types ----


def type_text(dtype: str, shape: Sequence[int | None]) -> str:
    """float32[3,?]"""
    dims = ",".join("?" if n is None else str(n) for n in shape)
    return f"{dtype}[{dims}]" if shape else dtype


def _read_type(text: object) -> tuple[str, Shape]:
    """The other way round; ValueError when it is no type."""
    if not isinstance(text, str):
        raise TypeError(f'wanted a type such as "float32[8]", found {text!r}')
    name, bracket, rest = text.replace(" ", "").partition("[")
    dims = rest[:-1].split(",") if bracket else []
    if name not in _NUMBERS and name != "bytes" or bracket and not rest.endswith("]"):
        raise ValueError(f'wanted a type such as "float32[8]", "int64" or "uint8[?,?,3]", found {text!r}')
    if not all(n in ("", "?", "*") or n.isascii() and n.isdigit() for n in dims):
        raise ValueError(f"wanted dimensions such as [8] or [?,3], found {text!r}")
    return name, tuple(int(n) if n.isdigit() else None for n in dims)


def _declared(types: Mapping[str, str], where: str) -> dict[str, tuple[str, Shape]]:
    out = {}
    for field, text in types.items():
        try:
            out[field] = _read_type(text)
        except (TypeError, ValueError) as e:
            raise type(e)(f"{where}: {field}: {e}") from None
    return out


def _name_of(dtype: Any) -> str:
    """The engine's name of a numpy.dtype; what it has no name for goes by NumPy's."""
    name = str(dtype.name)
    return {"bool_": "bool", "longlong": "int64", "ulonglong": "uint64"}.get(name, name)


def _bfloat16() -> Any:
    try:
        import ml_dtypes
    except ImportError:
        return None
    import numpy as np

    return np.dtype(ml_dtypes.bfloat16)


def _dtype(name: str) -> tuple[Any, Any]:
    """The numpy.dtype that holds values of this type, and the one to view them as, where that is another."""
    import numpy as np

    if name == "bfloat16":
        return np.dtype("uint16"), _bfloat16()
    return np.dtype(name), None


# ---- values: called for what the extension does not do itself ----


def tools() -> tuple[Any, ...]:
    """What the ops of the extension call; see stkpy_tools."""
    import numpy as np

    try:
        from numpy._core.multiarray import scalar
    except ImportError:  # NumPy 1
        from numpy.core.multiarray import scalar  # type: ignore[no-redef, import-not-found, unused-ignore]
    return np.empty, scalar, _dtype, fit, contents


def _is_text(value: object) -> bool:
    return isinstance(value, (bytes, str, bytearray, memoryview))


def _is_torch_bfloat16(value: Any) -> bool:
    return str(getattr(value, "dtype", "")) == "torch.bfloat16"


def _from_torch(tensor: Any) -> Any:
    tensor = tensor.detach().cpu()
    if not _is_torch_bfloat16(tensor):
        return tensor.numpy()
    import sys

    bits = tensor.contiguous().view(sys.modules["torch"].int16).numpy()  # who has a tensor has imported it
    return bits.view(_bfloat16() or "uint16")


def as_array(value: Any) -> Any:
    """Numbers as a NumPy array, without a copy where it can be."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return value
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        return _from_torch(value)
    if value is None or isinstance(value, (dict, set)):
        raise TypeError(f"found {_kind(value)}, wanted numbers, an array, or bytes")
    try:
        return np.asarray(value)
    except ValueError:
        raise ValueError(f"found a {type(value).__name__} of rows of different lengths, wanted an array") from None


def _kind(value: object) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _check_numbers(array: Any, value: object) -> str:
    """The name of its type, when the engine has it."""
    name = _name_of(array.dtype)
    if name in _NUMBERS:
        return name
    found = _kind(value) if array.dtype == object else f"{name} in {_kind(value)}"
    raise TypeError(f"found {found}, wanted numbers of the types {', '.join(sorted(_NUMBERS))}, or bytes")


def _type_name(array: Any, value: Any) -> str:
    """The same of an array that was made of `value`: bfloat16 of PyTorch may have come as its bits."""
    return "bfloat16" if _is_torch_bfloat16(value) else _check_numbers(array, value)


def _cast_ints(array: Any, want: Any) -> Any:
    import numpy as np

    if array.size:
        least, most = int(array.min()), int(array.max())
        if want.kind in "iu":
            limits = np.iinfo(want)
            low, high = int(limits.min), int(limits.max)
        else:
            high = 2 ** (np.finfo(want).nmant + 1)
            low = -high
        if least < low or most > high:
            raise ValueError(f"found {least if least < low else most}, which {want} cannot hold")
    return array.astype(want)


def _cast_floats(array: Any, want: Any, may_round: bool) -> Any:
    import numpy as np

    with np.errstate(over="ignore"):
        out = array.astype(want)
    same = np.isfinite(out) == np.isfinite(array) if may_round else (out == array) | (array != array)
    if not np.all(same):
        bad = array[~same].flat[0] if array.ndim else array[()]
        raise ValueError(
            f"found {array.dtype} with {bad!r}, which {want} cannot hold; round it yourself: .astype({str(want)!r})"
        )
    return out


def _cast(array: Any, want: str, value: object) -> Any:
    """The array as `want`, where nothing is lost; a Python float has no width, and may be rounded."""
    import numpy as np

    name = _check_numbers(array, value)
    if name == want:
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    if want == "bfloat16" and (name == "uint16" or _bfloat16() is None):
        if name == "uint16":
            return array
        raise TypeError(f"found {name}, wanted bfloat16: as uint16, or with the package ml_dtypes")
    dtype = _bfloat16() if want == "bfloat16" else np.dtype(want)
    kinds = {"b": "biuf", "i": "iuf", "u": "iuf", "f": "f", "V": "f"}  # V: bfloat16
    if ("f" if want == "bfloat16" else dtype.kind) not in kinds[array.dtype.kind]:
        raise TypeError(f"found {name}, wanted {want}; convert it yourself: .astype({want!r})")
    safe = array.dtype.kind in "iu" and array.dtype.itemsize < 8 and np.can_cast(array.dtype, dtype)
    if safe or array.dtype.kind == "b":
        return array.astype(dtype)
    if array.dtype.kind in "iu" and want != "bfloat16":
        return _cast_ints(array, dtype)
    return _cast_floats(array, dtype, isinstance(value, (float, list, tuple)))


def _check_shape(found: Sequence[int], want: Shape, dtype: str, field: str | None) -> None:
    if len(found) == len(want) and all(w is None or w == n for n, w in zip(found, want)):
        return
    advice = ""
    if field is not None:
        if len(found) == len(want):
            want_text = type_text(dtype, [w if w == n else None for n, w in zip(found, want)])
        else:
            want_text = type_text(dtype, list(found))
        advice = f"; where it varies, or is not like the first, declare it: {field}={want_text!r}"
    wanted = "(" + ", ".join("?" if w is None else str(w) for w in want) + (",)" if len(want) == 1 else ")")
    raise ValueError(f"found shape {tuple(found)}, wanted {wanted}{advice}")


def fit(value: Any, dtype: str, shape: Shape, field: str | None = None) -> Any:
    """The value as an array of just this type and shape, in one piece; an error when something would be lost."""
    import numpy as np

    if _is_text(value):
        raise TypeError(f"found {_kind(value)}, wanted {type_text(dtype, shape)}")
    array = as_array(value)
    if array.size == 0 and isinstance(value, (list, tuple)):  # which tells neither type nor further dimensions
        array = np.empty((0, *(n or 0 for n in shape[1:])) if array.ndim == 1 else array.shape, _dtype(dtype)[0])
    if array.dtype.kind in "SU":
        raise TypeError(f"found text in {_kind(value)}, wanted {type_text(dtype, shape)}")
    _check_shape(array.shape, shape, dtype, field)
    out = np.asarray(_cast(array, dtype, value), order="C")
    return out.view("uint16") if dtype == "bfloat16" else out


def _one_content(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return _one_content(value.item())
    raise TypeError(f"found {_kind(value)}, wanted bytes or str")


def _flatten(value: Any, ndim: int, out: list[bytes]) -> Shape:
    if ndim == 0:
        out.append(_one_content(value))
        return ()
    if _is_text(value) or not hasattr(value, "__len__") or not hasattr(value, "__iter__"):
        raise TypeError(f"found {_kind(value)}, wanted a list of bytes")
    shapes = {_flatten(item, ndim - 1, out) for item in value}
    if len(shapes) > 1:
        raise ValueError("found lists of different lengths, wanted an array of bytes")
    return (len(value), *(shapes.pop() if shapes else (0,) * (ndim - 1)))


def contents(value: Any, shape: Shape, field: str | None = None) -> tuple[list[bytes], Shape]:
    """The elements of a value of bytes, and its shape."""
    out: list[bytes] = []
    found = _flatten(value, len(shape), out)
    if not (0 in found and len(found) == len(shape)):
        _check_shape([n or 0 for n in found], shape, "bytes", field)
    elif found[0] == 0:  # nothing in it tells the other dimensions
        found = (0, *(w or 0 for w in shape[1:]))
        _check_shape([n or 0 for n in found], shape, "bytes", field)
    return out, found


def _text_dims(value: Any) -> int:
    """Dimensions of bytes or text in lists; -1: it is something else."""
    if _is_text(value):
        return 0
    if getattr(getattr(value, "dtype", None), "kind", "") in ("S", "U", "O"):
        return int(value.ndim)
    depth = 0
    while isinstance(value, (list, tuple)) and value:
        depth, value = depth + 1, value[0]
    return depth if depth and _is_text(value) else -1


def infer(value: Any) -> tuple[str, Shape]:
    """Type and shape of a value."""
    ndim = _text_dims(value)
    if ndim >= 0:
        return "bytes", _flatten(value, ndim, [])
    array = as_array(value)
    return _type_name(array, value), tuple(array.shape)


def _infer_field(field: str, value: Any, where: str) -> tuple[str, Shape]:
    try:
        return infer(value)
    except (TypeError, ValueError) as e:
        raise type(e)(f"{where}: field {field!r}: {e}") from None


# ---- functions ----


def _make_random() -> tuple[Any, Any, Any, Any]:
    """A generator, its bits, the state to set before each sample, and the key in that."""
    import numpy as np

    bits = np.random.Philox(key=0)
    start: Any = bits.state
    return np.random.Generator(bits), bits, start, start["state"]["key"]


class Mapped:
    """A function as python_map finds it."""

    __slots__ = ("fn", "name", "random", "processes", "pool")

    def __init__(self, fn: Callable[..., Any], name: str, random: bool, processes: int = 0) -> None:
        self.fn = fn
        self.name = name
        self.random = random
        self.processes = processes  # 0: the workers call it
        self.pool: _core.Pool | None = None  # the processes, in a run that has them

    def with_pool(self, pool: _core.Pool) -> Mapped:
        out = Mapped(self.fn, self.name, self.random, self.processes)
        out.pool = pool
        return out

    @property
    def make_random(self) -> Callable[[], Any] | None:
        return _make_random if self.random else None

    def __reduce__(self) -> tuple[Any, ...]:
        return Mapped, (self.fn, self.name, self.random, self.processes)


class _Probe:
    """Takes the first sample that comes by."""

    def __init__(self) -> None:
        self.sample: dict[str, Any] | None = None
        self.state: Any = None

    def __call__(self, sample: dict[str, Any], rng: Any = None) -> dict[str, Any]:
        if self.sample is None:
            self.state = rng.bit_generator.state if rng is not None else None
            self.sample = sample
        return {}

    def call(self, fn: Callable[..., Any]) -> Any:
        """What the function makes of it."""
        if self.state is None:
            return fn(self.sample)
        rng, bits, _, _ = _make_random()
        bits.state = self.state
        return fn(self.sample, rng)


def function_name(fn: Any) -> str:
    """What traces call a function."""
    from functools import partial

    while isinstance(fn, partial):
        fn = fn.func
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return str(name).strip("<>") or "function"


def takes_random(fn: Callable[..., Any]) -> bool:
    """Whether it has a second parameter that must be given, or one called rng."""
    import inspect

    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):  # written in C: it does not say
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 2:
        return False
    return positional[1].default is positional[1].empty or positional[1].name == "rng"


def _check_function(fn: object, name: object) -> str:
    if not callable(fn):
        raise TypeError(f"map: wanted a function, found {fn!r}")
    if name is None:
        return function_name(fn)
    if not isinstance(name, str) or not name:
        raise TypeError(f"map: name: wanted a text, found {name!r}")
    return name


def _with_function(pipeline: Pipeline, mapped: Mapped, outputs: Mapping[str, str]) -> Pipeline:
    return pipeline._op(
        "python_map",
        [
            ("__index", "int", len(pipeline._functions), ...),
            ("__name", "string", mapped.name, ...),
            ("outputs", "args", dict(outputs), None),
        ],
        [mapped],
    )


def _infer_outputs(pipeline: Pipeline, mapped: Mapped) -> dict[str, str]:
    """Calls the function once, on the first sample that it would see, here and now."""
    from ._runs import Runs

    probe = _Probe()
    look = _with_function(pipeline, Mapped(probe, mapped.name, mapped.random), {})
    options: dict[str, Any] = {"threads": 1, "shard": False}
    if pipeline._options.get("on_error") == "quarantine":
        options.update(on_error="skip", quarantine=None)
    with Runs(look, options).looking("batch(1)") as run:
        batch = run.next()
        varies = batch is not None and any(column.ragged for column in batch.columns())
        del batch
    if probe.sample is None:
        raise ValueError(
            f"map {mapped.name!r}: there is no sample to learn the types from: declare what it returns, "
            'such as map(fn, x="float32[8]")'
        )
    result = probe.call(mapped.fn)
    if not isinstance(result, dict):
        raise TypeError(
            f"map {mapped.name!r}: returned {_kind(result)}, wanted a dict of the fields to change or add, "
            'such as {"x": array}; {} changes none'
        )
    outputs = {}
    for field, value in result.items():
        if not isinstance(field, str) or not field:
            raise TypeError(f"map {mapped.name!r}: returned a field {field!r}, wanted names")
        dtype, shape = _infer_field(field, value, f"map {mapped.name!r}")
        outputs[field] = type_text(dtype, [None] * len(shape) if varies else shape)
    return outputs


def make_map(
    pipeline: Pipeline,
    fn: Callable[..., Any],
    name: str | None = None,
    outputs: Mapping[str, str] | None = None,
    processes: int | str | None = None,
) -> Pipeline:
    """Pipeline.map."""
    from ._needs import library
    from ._processes import check_processes

    name = _check_function(fn, name)
    count = check_processes(processes, f"map {name!r}")
    library("numpy", "functions of map get samples as NumPy arrays, and need")
    if any(role == "batch" for _, role, _ in pipeline._ops):
        if count:
            raise ValueError(
                f"map {name!r}: processes={processes!r}: behind batch the loop itself calls it, on finished batches: "
                "put it before .batch(), where processes can call it on samples"
            )
        if outputs:
            found = next(iter(outputs))
            raise TypeError(f"map {name!r}: behind batch it gets whole batches, and declares no types: found {found}=")
        return pipeline._with_batch_map(name, fn)
    types = _declared(outputs or {}, f"map {name!r}")
    mapped = Mapped(fn, name, takes_random(fn), count)
    if not outputs:
        return _with_function(pipeline, mapped, _infer_outputs(pipeline, mapped))
    return _with_function(pipeline, mapped, {field: type_text(*kind) for field, kind in types.items()})


# ---- sources ----


class Source:
    """An object as python_source finds it."""

    __slots__ = ("kind", "name", "arrays", "items", "_made", "_used", "_ahead", "_peeking")

    def __init__(self, kind: str, name: str, items: Any = None, arrays: dict[str, Any] | None = None) -> None:
        self.kind = kind  # "rows": of `arrays`; "items": items[i]; "stream": what `items` gives
        self.name = name
        self.arrays = arrays
        self.items = items
        self._made: Any = None  # the last iterator that was an object of its own
        self._used = False
        self._ahead: list[Any] = []  # of an iterator that can be gone through once: items that were looked at
        self._peeking = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return Source, (self.kind, self.name, self.items, self.arrays)

    def missing(self, item: Any, names: tuple[str, ...], name: str) -> Any:
        """The value of a field in an item that is neither dict nor tuple, or the error."""
        if hasattr(item, "keys") and not isinstance(item, dict):
            if name in item.keys():
                return item[name]
        if hasattr(item, "keys"):
            found = ", ".join(str(k) for k in item.keys()) or "none"
            raise ValueError(f"found an item with the fields {found}; there is no {name!r}")
        if isinstance(item, tuple):
            raise ValueError(f"found an item of {len(item)} values, wanted {len(names)}: {', '.join(names)}")
        raise TypeError(f"found {_kind(item)}, wanted a dict or tuple with {', '.join(names)}")

    # -- streams --

    def begin(self) -> Iterator[Any]:
        """The iterator of an epoch."""
        made = self.items() if _is_maker(self.items) else self.items
        iterator: Iterator[Any] = iter(made)
        if iterator is not made:
            return iterator
        if made is not self._made:
            self._made, self._used, self._ahead = made, False, []
        elif self._used and made is self._made:
            raise ValueError(
                f"{self.name}: this iterator can be gone through once only, and is wanted again (for another epoch or "
                "another run): give stoker.source a function that makes a new one, or an object whose __iter__ does"
            )
        if self._peeking:
            return self._look(iterator)
        self._used = True
        return self._rest(iterator, self._ahead)

    def _look(self, iterator: Iterator[Any]) -> Iterator[Any]:
        """What was looked at stays for the run that comes."""
        ahead = self._ahead
        yield from tuple(ahead)
        for item in iterator:
            ahead.append(item)
            yield item

    @staticmethod
    def _rest(iterator: Iterator[Any], ahead: list[Any]) -> Iterator[Any]:
        ahead.reverse()
        while ahead:
            yield ahead.pop()
        yield from iterator


class peeking:
    """While it lasts, runs of the pipeline take nothing from iterators that can be gone through once only."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._sources = [f for f in pipeline._functions if isinstance(f, Source)]

    def __enter__(self) -> peeking:
        for source in self._sources:
            source._peeking += 1
        return self

    def __exit__(self, *exc: object) -> None:
        for source in self._sources:
            source._peeking -= 1


class _Rows:
    """Columns of which some are no arrays of numbers, as a sequence of dicts."""

    def __init__(self, columns: dict[str, Any], count: int) -> None:
        self.columns = columns
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {name: column[index] for name, column in self.columns.items()}


def _is_maker(obj: Any) -> bool:
    """A function that returns an iterator; an object to iterate over is none, callable or not."""
    return callable(obj) and (isinstance(obj, type) or not hasattr(obj, "__iter__"))


def _is_sequence(obj: Any) -> bool:
    kind = type(obj)
    if any(base.__name__ == "IterableDataset" for base in kind.__mro__):  # of torch: has [i], which raises
        return False
    return hasattr(kind, "__len__") and hasattr(kind, "__getitem__")


def _is_array(obj: Any) -> bool:
    """Memory that can be seen as an array as it is; files such as HDF5 datasets are read item by item."""
    import numpy as np

    return isinstance(obj, np.ndarray) or hasattr(obj, "__dlpack__")


class _ArrowColumn:
    """A column of Arrow whose values are no plain numbers, as Python values."""

    def __init__(self, column: Any) -> None:
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, index: int) -> Any:
        return self.column[index].as_py()


def _arrow_column(name: str, column: Any) -> Any:
    if column.null_count:
        raise ValueError(
            f"source: column {name!r}: found {column.null_count} nulls, wanted values; fill them first, such as "
            "table.set_column(..., column.fill_null(0)), or leave these rows out"
        )
    array = column.to_numpy() if hasattr(column, "chunks") else column.to_numpy(zero_copy_only=False)
    return array if _name_of(array.dtype) in _NUMBERS else _ArrowColumn(column)


def _arrow_columns(obj: Any) -> dict[str, Any] | None:
    """Columns of a Table or RecordBatch of pyarrow: `len` counts their rows, but `[i]` is a column."""
    if type(obj).__module__.partition(".")[0] != "pyarrow":
        return None
    if hasattr(obj, "column_names"):
        return {name: _arrow_column(name, obj.column(i)) for i, name in enumerate(obj.column_names)}
    return {"value": _arrow_column("value", obj)} if hasattr(obj, "null_count") else None


def _columns_of(obj: Any, fields: Sequence[str] | None) -> dict[str, Any] | None:
    """Columns of a table in memory, or None when it is something else."""
    arrow = _arrow_columns(obj)
    if arrow is not None:
        return arrow
    if hasattr(obj, "to_numpy") and hasattr(obj, "columns"):  # a data frame
        return {str(name): obj[name].to_numpy() for name in obj.columns}
    if hasattr(obj, "to_numpy") and hasattr(obj, "index"):  # a series
        obj = obj.to_numpy()
    if _is_array(obj):
        array = as_array(obj)
        if array.ndim == 0:
            raise TypeError("source: found an array without dimensions, wanted one whose first dimension is the sample")
        if array.dtype.names:
            return {name: array[name] for name in array.dtype.names}
        return {fields[0] if fields and len(fields) == 1 else "value": array}
    if not hasattr(obj, "keys"):
        return None
    columns = {name: obj[name] for name in obj.keys()}
    for name, column in columns.items():
        if _is_text(column) or hasattr(column, "keys") and not hasattr(column, "to_numpy") or not _is_sequence(column):
            raise TypeError(
                f"source: field {name!r}: found {_kind(column)}, wanted an array whose first dimension is the sample"
            )
    return columns


def _row_array(column: Any) -> Any:
    """A column as an array of numbers, each row in one piece; None when it is none."""
    if isinstance(column, (list, tuple)):
        if not column or _text_dims(column) >= 0:
            return None
        try:
            column = as_array(column)
        except (TypeError, ValueError):
            return None
    elif hasattr(column, "to_numpy"):
        column = column.to_numpy()
    if not _is_array(column):
        return None
    array = as_array(column)
    if _name_of(array.dtype) not in _NUMBERS or array.ndim == 0:
        return None
    import numpy as np

    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    # Rows may lie apart or overlap, as windows of a mapped file do: these must not be copied as a whole.
    return array if array[:1].flags.c_contiguous else np.ascontiguousarray(array)


def _make_rows(
    columns: dict[str, Any], declared: Mapping[str, tuple[str, Shape]], name: str
) -> tuple[Source, dict[str, str], int]:
    """Rows that are copied without the GIL, where every column is an array of the type that is wanted."""
    counts = {field: len(column) for field, column in columns.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{field} has {n}" for field, n in counts.items())
        raise ValueError(f"source: found columns of different lengths: {found}")
    count = next(iter(counts.values()))
    arrays: dict[str, Any] = {}
    types: dict[str, str] = {}
    for field, column in columns.items():
        array = _row_array(column)
        dtype, shape = declared.get(field, (None, None))
        if array is None or dtype == "bytes" or shape is not None and None in shape:
            rows = _Rows(columns, count)
            return Source("items", name, rows), _item_types(rows[0] if count else None, declared, None), count
        if dtype is not None and shape is not None:
            array = _fit_rows(field, array, column, dtype, shape)
        else:
            dtype, shape = _type_name(array, column), tuple(array.shape[1:])
        types[field] = type_text(dtype, shape)
        arrays[field] = array.view("uint16") if _name_of(array.dtype) == "bfloat16" else array
    return Source("rows", name, None, arrays), types, count


def _fit_rows(field: str, array: Any, column: Any, dtype: str, shape: Shape) -> Any:
    try:
        _check_shape(array.shape[1:], shape, dtype, None)
        return _cast(array, dtype, column)
    except (TypeError, ValueError) as e:
        raise type(e)(f"source: field {field!r}: {e}") from None


def _item_fields(item: Any, fields: Sequence[str] | None) -> dict[str, Any]:
    """The values of an item by name."""
    if hasattr(item, "keys"):
        names = list(fields) if fields else [str(k) for k in item.keys()]
        lost = [name for name in names if name not in item.keys()]
        if lost:
            raise ValueError(f"source: there is no field {lost[0]!r}; found {', '.join(str(k) for k in item.keys())}")
        return {name: item[name] for name in names}
    values = list(item) if isinstance(item, tuple) else [item]
    if fields is None:
        fields = [f"f{i}" for i in range(len(values))] if isinstance(item, tuple) else ["value"]
    if len(fields) != len(values):
        raise ValueError(f"source: found items of {len(values)} values, wanted {len(fields)}: {', '.join(fields)}")
    return dict(zip(fields, values))


def _item_types(item: Any, declared: Mapping[str, tuple[str, Shape]], fields: Sequence[str] | None) -> dict[str, str]:
    """Types by the first item, and as they were declared."""
    if item is None:
        if not declared or fields and any(name not in declared for name in fields):
            raise ValueError('source: there is no item to learn the types from: declare them, such as x="float32[8]"')
        return {name: type_text(*declared[name]) for name in fields or declared}
    if fields is None and not hasattr(item, "keys") and len(declared) == (len(item) if isinstance(item, tuple) else 1):
        fields = list(declared)  # what is declared names the values too
    values = _item_fields(item, fields)
    lost = [name for name in declared if name not in values]
    if lost:
        raise ValueError(f"source: {lost[0]!r} is declared, but items have {', '.join(values) or 'no fields'}")
    types = {}
    for name, value in values.items():
        dtype, shape = declared[name] if name in declared else _infer_field(name, value, "source")
        types[name] = type_text(dtype, shape)
    return types


def _first_of(source: Source) -> Any:
    """The first item of a stream, which stays there."""
    source._peeking += 1
    try:
        iterator = source.begin()
        item = next(iterator, None)
        close = getattr(iterator, "close", None)
        if close is not None:
            close()
        return item
    finally:
        source._peeking -= 1


def _make_items(
    obj: Any, declared: Mapping[str, tuple[str, Shape]], fields: Sequence[str] | None, name: str
) -> tuple[Source, dict[str, str], int]:
    known = bool(declared) and (fields is None or all(field in declared for field in fields))
    if _is_sequence(obj):
        count = len(obj)
        return Source("items", name, obj), _item_types(obj[0] if count else None, declared, fields), count
    if not hasattr(obj, "__iter__") and not callable(obj):
        raise TypeError(f"source: found {_kind(obj)}, wanted {_WANTED}")
    source = Source("stream", name, obj)
    if known:  # nothing need be looked at, which may cost something
        return source, {field: type_text(*declared[field]) for field in fields or declared}, -1
    return source, _item_types(_first_of(source), declared, fields), -1


def _source_name(obj: Any) -> str:
    if _is_maker(obj):
        return function_name(obj)
    return str(getattr(obj, "__name__", None) or type(obj).__name__)


def _check_fields(fields: Iterable[str] | None) -> list[str] | None:
    if fields is None:
        return None
    names = [fields] if isinstance(fields, str) else list(fields)
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
        raise TypeError(f"source: fields: wanted different names, found {fields!r}")
    return names


def source(obj: Any, /, *, fields: Iterable[str] | None = None, name: str | None = None, **types: str) -> Pipeline:
    """A pipeline over Python data: arrays, a sequence, or an iterable.

    A dict of arrays (or a data frame, or a table of Arrow) gives a sample for each row, copied without the GIL; an array gives rows called
    `value`. A sequence with a length and `[i]` gives its items, and can be shuffled, sharded and resumed at any place.
    An iterable gives what its iterator gives, from front to back, with a new iterator for each epoch; so does a
    function that returns one. Items are dicts of fields, tuples, or single values: numbers, arrays, tensors, images,
    bytes or text. `[i]` may be called by several threads, in any order.

    Args:
        obj: where samples come from.
        fields: names of the values of tuples (else `f0`, `f1`, ...), of a single value (else `value`), or the fields
            to take.
        name: what traces and messages call it; else the name of its type.
        **types: types of fields as in `parse`: `x="float32[8]"`, `ids="int64[]"` for a dimension that varies. Without
            them the first item tells.

    Example::

        stoker.source({"x": x_train, "y": y_train}).shuffle(seed=1).batch(256)
        stoker.source(texts, tokens="int64[]", label="int64")
    """
    return make_source(obj, fields, name, types)


def make_source(
    obj: Any, fields: Iterable[str] | None = None, name: str | None = None, types: Mapping[str, str] | None = None
) -> Pipeline:
    """stoker.source."""
    from ._needs import library
    from ._pipeline import Pipeline

    if isinstance(obj, (str, bytes)):
        raise TypeError(f"source: found {obj!r}, wanted {_WANTED}")
    if name is not None and (not isinstance(name, str) or not name):
        raise TypeError(f"source: name: wanted a text, found {name!r}")
    library("numpy", "stoker.source takes Python data by NumPy arrays, and needs")
    names = _check_fields(fields)
    declared = _declared(types or {}, "source")
    label = name or _source_name(obj)
    columns = _columns_of(obj, names)
    if columns is not None:
        source, kinds, count = _make_rows(_choose(columns, names, declared), declared, label)
    else:
        source, kinds, count = _make_items(obj, declared, names, label)
    options = [
        ("__index", "int", 0, ...),
        ("__name", "string", label, ...),
        ("__count", "int", count, ...),
        ("types", "args", kinds, None),
    ]
    return Pipeline._source("python_source", options, [source])


def _choose(columns: dict[str, Any], names: Sequence[str] | None, declared: Mapping[str, object]) -> dict[str, Any]:
    if not columns:
        raise ValueError("source: found a table without columns, wanted at least one")
    for name in (*(names or ()), *declared):
        if name not in columns:
            raise ValueError(f"source: there is no field {name!r}; found {', '.join(map(str, columns))}")
    for name in columns:
        if not isinstance(name, str) or not name:
            raise TypeError(f"source: found a column called {name!r}, wanted names")
    return {name: columns[name] for name in names} if names else columns
