"""Batches as arrays: values, zero copy, and memory that lives as long as anything that looks at it."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from typing import Any

import pytest

import stoker
from stoker import _core
from stoker._convert import converter
from stoker._runs import Runs

np = pytest.importorskip("numpy")

NUMBERS = "uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64".split()
DTYPES = ["bool", "bfloat16", *NUMBERS]


def first(text: str, **options: Any) -> tuple[_core.Run, _core.Batch]:
    run = _core.Run(text, **options)
    batch = run.next()
    assert batch is not None
    return run, batch


def ragged_batch() -> tuple[_core.Run, _core.Batch]:
    rows = [
        {
            "matrix": np.arange(2 * n, dtype="float32").reshape(n, 2),
            "tokens": np.arange(n, dtype="int64"),
            "word": b"x" * n,
            "words": [b"y" * n] * n,
        }
        for n in (0, 3, 1)
    ]
    pipe = stoker.source(rows, matrix="float32[?,2]", tokens="int64[?]", word="bytes", words="bytes[?]").batch(3)
    run = Runs(pipe, {}).open()
    batch = run.next()
    assert batch is not None
    return run, batch


def expected(dtype: str, rows: int) -> list[Any]:
    return [bool(i) for i in range(rows)] if dtype == "bool" else [float(i) for i in range(rows)]


# ---- batches and columns ----


def test_a_batch_tells_its_fields_rows_and_place() -> None:
    run = _core.Run("range(10) | batch(4) | repeat(2)")
    places = []
    while (batch := run.next()) is not None:
        assert batch.names == ("value",) and len(batch) == 1
        places.append((batch.index, batch.epoch, batch.rows))
    assert places == [(0, 0, 4), (1, 0, 4), (2, 0, 2), (3, 1, 4), (4, 1, 4), (5, 1, 2)]


def test_columns_are_found_by_number_and_name() -> None:
    _, batch = first("range(4) | batch(4)")
    assert batch.column(0).name == batch.column(-1).name == batch.column("value").name == "value"
    with pytest.raises(IndexError, match="column 1 of a batch that has 1"):
        batch.column(1)
    with pytest.raises(KeyError, match="no field 'other'"):
        batch.column("other")
    with pytest.raises(TypeError):
        batch.column(1.5)  # type: ignore[arg-type]


def test_neither_batches_nor_columns_can_be_made_by_hand() -> None:
    for kind in (_core.Batch, _core.Column):
        with pytest.raises(TypeError):
            kind()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_column_has_the_values_of_its_dtype(dtype: str) -> None:
    _, batch = first(f"range(5) | cast(value={dtype}) | batch(5)")
    column = batch.column(0)
    assert (column.dtype, column.shape, column.rows) == (dtype, (5,), 5)
    assert column.nbytes == 5 * column.itemsize
    assert column.tolist() == expected(dtype, 5)
    view = memoryview(column)
    assert (view.shape, view.strides, view.itemsize) == ((5,), (column.itemsize,), column.itemsize)
    assert view.contiguous and not view.readonly
    if dtype != "bfloat16":
        assert np.asarray(column).dtype == np.dtype(dtype)
        assert np.asarray(column).tolist() == expected(dtype, 5)


def test_floats_of_sixteen_bits_become_python_floats() -> None:
    values = np.array([0.0, -0.0, 1.5, 65504.0, 6e-8, np.inf, -np.inf, -2.5e-5], dtype="float16")
    pipe = stoker.source({"x": values}).batch(8)
    batch = Runs(pipe, {}).open().next()
    assert batch is not None
    assert batch.column("x").tolist() == values.tolist()


def test_arrays_are_the_memory_of_the_batch() -> None:
    _, batch = first("range(100) | batch(50)")
    column = batch.column(0)
    array = np.asarray(column)
    assert array.ctypes.data == column.pointer
    assert column.pointer % 64 == 0
    assert np.from_dlpack(column).ctypes.data == column.pointer
    array[3] = -7
    assert column.tolist()[3] == -7


def test_small_columns_are_copies_that_let_the_batch_go() -> None:
    x = np.arange(64 * 1000, dtype="float32").reshape(64, 1000)
    rows = [list(range(i % 3)) for i in range(64)]
    pipe = stoker.source({"x": x, "y": np.arange(64), "r": rows}, r="int64[]", x="float32[1000]", y="int64").batch(32)
    run = Runs(pipe, {}).open()
    batch = run.next()
    assert batch is not None
    large, small, ragged = batch.loose_columns()
    assert large.pointer == batch.column(0).pointer
    assert small.pointer not in (0, batch.column(1).pointer) and small.pointer % 64 == 0
    assert batch.loose_column(1).pointer == small.pointer
    labels, lists = np.asarray(small), converter("numpy")(batch)["r"]
    assert ragged.values.pointer != batch.column(2).values.pointer
    del large, small, ragged, batch
    assert run.held == 0
    run.close()
    assert labels.tolist() == list(range(32))
    assert lists.to_list() == rows[:32]


def test_a_buffer_is_given_as_it_is_asked_for() -> None:
    pipe = stoker.source({"x": np.arange(12, dtype="int32").reshape(2, 3, 2)}).batch(2)
    batch = Runs(pipe, {}).open().next()
    assert batch is not None
    column = batch.column("x")
    view = memoryview(column)
    assert (view.shape, view.strides, view.format) == ((2, 3, 2), (24, 8, 4), "i")
    assert view.tolist() == np.arange(12).reshape(2, 3, 2).tolist() == column.tolist()
    assert bytes(column) == np.arange(12, dtype="int32").tobytes()
    assert bytearray(column)[4] == 1
    assert ctypes.c_char.from_buffer(column).value == b"\0"


def test_a_batch_without_elements_is_an_array_too() -> None:
    pipe = stoker.source({"x": np.zeros((4, 0, 3), "float32")}).batch(2)
    batch = Runs(pipe, {}).open().next()
    assert batch is not None
    column = batch.column("x")
    assert np.asarray(column).shape == np.from_dlpack(column).shape == (2, 0, 3)
    assert column.tolist() == [[], []] and column.nbytes == 0
    assert column.pointer != 0


# ---- ragged columns and bytes ----


def test_ragged_columns_are_values_offsets_and_shapes() -> None:
    _, batch = ragged_batch()
    tokens, matrix = batch.column("tokens"), batch.column("matrix")
    assert tokens.ragged and not tokens.padded and tokens.shape == (3, -1)
    assert tokens.offsets is not None and tokens.offsets.tolist() == [0, 0, 3, 4]
    assert tokens.values.tolist() == [0, 1, 2, 0]
    assert tokens.row_shapes is None
    assert matrix.shape == (3, -1, 2)
    assert matrix.row_shapes is not None and matrix.row_shapes.tolist() == [[0, 2], [3, 2], [1, 2]]
    assert tokens.tolist() == [[], [0, 1, 2], [0]]
    assert matrix.tolist() == [[], [[0, 1], [2, 3], [4, 5]], [[0, 1]]]
    assert np.asarray(tokens.values).ctypes.data == tokens.pointer


def test_what_is_no_array_says_what_to_take() -> None:
    _, batch = ragged_batch()
    for name, hint in (("tokens", "values, offsets"), ("word", "tolist"), ("words", "tolist")):
        with pytest.raises(BufferError, match=hint):
            memoryview(batch.column(name))
        with pytest.raises(BufferError, match=f"'{name}'"):
            batch.column(name).__dlpack__()


def test_bytes_are_python_bytes() -> None:
    _, batch = ragged_batch()
    assert batch.column("word").tolist() == [b"", b"xxx", b"x"]
    assert batch.column("words").tolist() == [[], [b"yyy"] * 3, [b"y"]]
    assert batch.column("word").nbytes == 4


def test_padded_columns_are_dense_and_know_their_shapes() -> None:
    rows = [{"x": np.arange(n)} for n in (1, 3)]
    run = Runs(stoker.source(rows, x="int64[?]").batch(2, pad=True, pad_value=-1), {}).open()
    batch = run.next()
    assert batch is not None
    column = batch.column("x")
    assert column.padded and not column.ragged and column.offsets is None
    assert column.tolist() == [[0, -1, -1], [0, 1, 2]]
    assert column.row_shapes is not None and column.row_shapes.tolist() == [[1], [3]]
    assert not column.row_shapes.padded and column.row_shapes.row_shapes is None


def test_ragged_rows_can_be_taken_listed_and_padded() -> None:
    _, batch = ragged_batch()
    made = converter("numpy")(batch)
    tokens, matrix = made["tokens"], made["matrix"]
    assert isinstance(tokens, stoker.Ragged) and len(tokens) == 3
    assert [row.tolist() for row in tokens] == tokens.to_list() == [[], [0, 1, 2], [0]]
    assert tokens[-1].tolist() == [0] and [r.tolist() for r in tokens[1:]] == [[0, 1, 2], [0]]
    assert matrix[1].shape == (3, 2) and matrix.shapes() == [(0, 2), (3, 2), (1, 2)]
    assert np.shares_memory(matrix[1], matrix.values)
    assert tokens.to_padded(9).tolist() == [[9, 9, 9], [0, 1, 2], [0, 9, 9]]
    assert matrix.to_padded().shape == (3, 3, 2)
    with pytest.raises(IndexError, match="row 3 of 3 rows"):
        tokens[3]
    assert "3 rows, 4 values" in repr(tokens)


# ---- formats ----


def test_a_batch_is_a_dict_or_a_tuple_of_the_fields_asked_for() -> None:
    _, batch = ragged_batch()
    made = converter("numpy")(batch)
    assert list(made) == ["matrix", "tokens", "word", "words"]
    word, tokens = converter("numpy", ("word", "tokens"))(batch)
    assert word.dtype == object and word.tolist() == [b"", b"xxx", b"x"]
    assert tokens.to_list() == made["tokens"].to_list()
    with pytest.raises(KeyError, match="no field 'nothing'; the pipeline gives matrix, tokens"):
        converter("numpy", ("nothing",))(batch)
    with pytest.raises(ValueError, match="numpy, torch, jax, tensorflow, dlpack, not 'cupy'"):
        converter("cupy")


def test_the_dlpack_format_needs_no_library() -> None:
    _, batch = ragged_batch()
    made = converter("dlpack")(batch)
    assert isinstance(made["tokens"].values, _core.Column)
    assert made["tokens"].to_list() == [[], [0, 1, 2], [0]]
    assert made["matrix"][1].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert made["words"] == [[], [b"yyy"] * 3, [b"y"]]


def test_bfloat16_is_that_of_ml_dtypes_where_it_is_there() -> None:
    _, batch = first("range(4) | cast(value=bfloat16) | batch(4)")
    array = converter("numpy")(batch)["value"]
    try:
        import ml_dtypes
    except ImportError:
        assert array.dtype == np.uint16 and array.tolist() == [0, 0x3F80, 0x4000, 0x4040]
    else:
        assert array.dtype == ml_dtypes.bfloat16 and array.astype("float32").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_tensors_are_the_memory_of_the_batch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    _, batch = first(f"range(5) | repeat(1000) | cast(value={dtype}) | batch(5000)")
    tensor = converter("torch")(batch)["value"]
    assert str(tensor.dtype) == f"torch.{dtype}" and tensor.shape == (5000,)
    assert tensor.data_ptr() == batch.column(0).pointer
    assert tensor.tolist() == expected(dtype, 5) * 1000
    assert torch.from_dlpack(batch.column(0)).data_ptr() == tensor.data_ptr()
    tensor[2] = 1
    assert batch.column(0).tolist()[2] == 1


def test_torch_takes_ragged_fields_and_bytes() -> None:
    pytest.importorskip("torch")
    _, batch = ragged_batch()
    made = converter("torch")(batch)
    assert made["tokens"].to_list() == [[], [0, 1, 2], [0]]
    assert made["matrix"][1].shape == (3, 2)
    assert made["matrix"].to_padded(-1).shape == (3, 3, 2)
    assert made["word"] == [b"", b"xxx", b"x"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_jax_arrays_are_the_memory_of_the_batch(dtype: str) -> None:
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)  # else JAX makes 32 bits of 64
    try:
        _, batch = first(f"range(5) | repeat(1000) | cast(value={dtype}) | batch(5000)")
        array = converter("jax")(batch)["value"]
        assert str(array.dtype) == dtype and array.tolist() == expected(dtype, 5) * 1000
        assert array.unsafe_buffer_pointer() == batch.column(0).pointer
    finally:
        jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensorflow_tensors_have_the_values(dtype: str) -> None:
    pytest.importorskip("tensorflow")
    _, batch = first(f"range(5) | repeat(1000) | cast(value={dtype}) | batch(5000)")
    tensor = converter("tensorflow")(batch)["value"]
    assert tensor.dtype.name == dtype and tensor.numpy().astype("float64").tolist() == expected(dtype, 5) * 1000
    if dtype in ("float32", "int64", "uint8"):
        assert np.from_dlpack(tensor).ctypes.data == batch.column(0).pointer


def test_tensorflow_takes_ragged_fields_and_bytes() -> None:
    pytest.importorskip("tensorflow")
    _, batch = ragged_batch()
    made = converter("tensorflow")(batch)
    assert made["tokens"].to_list() == [[], [0, 1, 2], [0]]
    assert made["matrix"][1].shape == (3, 2)
    assert made["tokens"].to_padded(9).numpy().tolist() == [[9, 9, 9], [0, 1, 2], [0, 9, 9]]
    assert made["word"] == [b"", b"xxx", b"x"]


# ---- DLPack ----


def capsule_name(capsule: object) -> str:
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return str(name(capsule).decode())


def test_capsules_come_in_the_version_asked_for() -> None:
    _, batch = first("range(4) | batch(4)")
    column = batch.column(0)
    assert column.__dlpack_device__() == (1, 0)
    assert capsule_name(column.__dlpack__()) == "dltensor"
    assert capsule_name(column.__dlpack__(max_version=(0, 8))) == "dltensor"
    assert capsule_name(column.__dlpack__(max_version=(1, 0))) == "dltensor_versioned"
    assert capsule_name(column.__dlpack__(max_version=(2, 3), dl_device=(1, 0), stream=None)) == "dltensor_versioned"


def test_a_copy_by_dlpack_is_memory_of_its_own() -> None:
    class Copied:
        def __init__(self, column: _core.Column) -> None:
            self.column = column

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.column.__dlpack_device__()

        def __dlpack__(self, **arguments: Any) -> Any:
            return self.column.__dlpack__(**{**arguments, "copy": True})

    run, batch = first("range(4) | batch(4)")
    copy = np.from_dlpack(Copied(batch.column(0)))
    assert copy.ctypes.data != batch.column(0).pointer and copy.ctypes.data % 64 == 0
    del batch
    assert run.held == 0
    assert copy.tolist() == [0, 1, 2, 3]


def test_dlpack_refuses_what_it_cannot_do() -> None:
    _, batch = first("range(4) | batch(4)")
    column = batch.column(0)
    with pytest.raises(BufferError, match=r"not of device \(2, 0\)"):
        column.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="stream must be None"):
        column.__dlpack__(stream=1)
    with pytest.raises(TypeError, match="max_version must be a tuple"):
        column.__dlpack__(max_version=1)  # type: ignore[arg-type]


# ---- lifetimes ----


@pytest.mark.parametrize("take", ["view", "dlpack", "numpy", "column", "capsule", "versioned"])
def test_a_batch_goes_back_when_the_last_thing_on_it_is_gone(take: str) -> None:
    run, batch = first("range(4) | batch(4)")
    column = batch.column(0)
    ways: dict[str, Any] = {
        "view": lambda: memoryview(column)[1:],
        "dlpack": lambda: np.from_dlpack(column)[1:],
        "numpy": lambda: np.asarray(column)[1:],
        "column": lambda: column.values,
        "capsule": column.__dlpack__,
        "versioned": lambda: column.__dlpack__(max_version=(1, 0)),
    }
    thing = ways.pop(take)()
    ways.clear()
    del batch, column
    gc.collect()
    assert run.held == 1
    del thing
    gc.collect()
    assert run.held == 0


def test_arrays_outlive_batch_run_and_loader() -> None:
    arrays = [batch["value"] for batch in stoker.range(100).batch(10).numpy(threads=2)]
    run, batch = first("range(1000) | batch(1000)")
    kept = np.asarray(batch.column(0))
    del batch
    run.close()
    assert run.held == 1
    del run
    gc.collect()
    other = _core.Run("range(5000) | cast(value=float64) | batch(1000)")  # would take the memory if it were free
    while other.next() is not None:
        pass
    assert kept.tolist() == list(range(1000))
    assert [a.tolist() for a in arrays] == [list(range(i, i + 10)) for i in range(0, 100, 10)]


def test_arrays_may_be_dropped_in_other_threads() -> None:
    run = _core.Run("range(20000) | batch(10)", threads=2)
    heap: list[Any] = []
    done = threading.Event()

    def drop() -> None:
        while not (done.is_set() and not heap):
            if heap:
                heap.pop()

    threads = [threading.Thread(target=drop) for _ in range(3)]
    for thread in threads:
        thread.start()
    total = 0
    while (batch := run.next()) is not None:
        array = np.asarray(batch.column(0)) if batch.index % 2 else np.from_dlpack(batch.column(0))
        total += int(array.sum())
        heap.append(array)
        del array, batch
        while len(heap) > 50:
            time.sleep(0)
    done.set()
    for thread in threads:
        thread.join()
    assert total == sum(range(20000))
    assert run.held == 0


def test_the_last_array_may_go_in_another_thread_after_the_run() -> None:
    for _ in range(50):
        run, batch = first("range(64) | batch(8)", threads=2)
        kept = [np.from_dlpack(batch.column(0))]
        del batch, run
        thread = threading.Thread(target=kept.clear)
        thread.start()
        thread.join()
        assert kept == []


def test_torch_frees_batches_from_threads_of_its_own() -> None:
    torch = pytest.importorskip("torch")
    run = _core.Run("range(4000) | cast(value=float32) | batch(10)", threads=2)
    convert = converter("torch")
    weight = torch.ones((), requires_grad=True)
    while (batch := run.next()) is not None:
        (convert(batch)["value"] * weight).sum().backward()  # the graph holds the batch until it was walked
        del batch
    assert weight.grad.item() == sum(range(4000))
    assert run.held == 0


def test_whole_numbers_are_those_that_numpy_calls_int64() -> None:
    np = pytest.importorskip("numpy")
    for name in ("int64", "uint64", "int32", "uint8", "float32"):
        array = stoker.range(4).cast(value=name).batch(4).first()["value"]
        assert array.dtype.type is np.dtype(name).type
        assert isinstance(array[0], np.dtype(name).type)


def test_bytes_go_straight_into_arrays_of_objects() -> None:
    np = pytest.importorskip("numpy")
    run, batch = ragged_batch()
    word, numbers = batch.column("word"), batch.column("tokens").values
    array = np.empty(word.shape, object)
    array[0] = "something else"
    assert word._put_into(array) is array
    assert array.tolist() == word.tolist()
    for wrong in (np.empty(2, object), np.empty(3, "S8"), np.empty(6, object)[::2]):
        with pytest.raises((TypeError, ValueError)):
            word._put_into(wrong)
    with pytest.raises(TypeError, match="wanted, for a column of bytes"):
        numbers._put_into(np.empty(numbers.shape, object))
    run.close()


def test_names_of_fields_may_hold_any_byte() -> None:
    for name in ("größe", "raw\udcff"):
        batch = next(iter(stoker.source({name: np.arange(4)}).batch(2).numpy()))
        assert list(batch) == [name] and batch[name].tolist() == [0, 1]
