"""Python data as the source of pipelines: arrays, sequences, iterables."""

from __future__ import annotations

import collections
import gc
import os
import pathlib
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import stoker

np = pytest.importorskip("numpy")

DTYPES = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64".split()


def together(pipe: stoker.Pipeline, **options: Any) -> dict[str, Any]:
    """All batches as one."""
    batches = list(pipe.loader(persistent=False, **options))
    return {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}


# ---- arrays ----


def test_a_table_of_arrow_gives_its_rows() -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"a": [1, 2, 3], "b": [4.0, 5.0, 6.0], "c": ["x", "yy", "z"], "d": [[1], [], [2, 3]]})
    for rows in (table, table.to_batches()[0], pa.concat_tables([table.slice(0, 1), table.slice(1)])):
        out = stoker.source(rows, d="int64[]").batch(3).first()
        assert out["a"].tolist() == [1, 2, 3] and out["b"].tolist() == [4, 5, 6]
        assert out["c"].tolist() == [b"x", b"yy", b"z"] and out["d"].to_list() == [[1], [], [2, 3]]
    square = pa.table({str(i): [3 * i, 3 * i + 1, 3 * i + 2] for i in range(3)})  # as many rows as columns
    assert [b["0"].tolist() + b["2"].tolist() for b in stoker.source(square).batch(1)] == [[0, 6], [1, 7], [2, 8]]
    assert stoker.source(pa.array([1, 2])).batch(2).first()["value"].tolist() == [1, 2]
    with pytest.raises(ValueError, match="column 'a': found 1 nulls"):
        stoker.source(pa.table({"a": [1, None]}))


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_every_dtype(dtype: str) -> None:
    x = (np.arange(60) % 2 if dtype == "bool" else np.arange(60)).astype(dtype).reshape(10, 2, 3)
    out = together(stoker.source({"x": x, "y": x[:, 0, 0]}).batch(4))
    assert out["x"].dtype == dtype and np.array_equal(out["x"], x)
    assert out["y"].dtype == dtype and np.array_equal(out["y"], x[:, 0, 0])


def test_an_array_gives_rows_called_value() -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert np.array_equal(together(stoker.source(x).batch(3))["value"], x)
    assert np.array_equal(together(stoker.source(x, fields=["x"]).batch(3))["x"], x)
    assert stoker.source(x).fields() == {"value": "float32[3]"}


def test_arrays_in_any_layout_are_taken() -> None:
    x = np.arange(24).reshape(4, 6)
    wide = np.arange(48).reshape(4, 12)
    pipe = stoker.source({"f": np.asfortranarray(x), "s": wide[:, ::2], "b": x.astype(">i8"), "l": x.tolist()})
    out = together(pipe.batch(4))
    assert np.array_equal(out["f"], x) and np.array_equal(out["s"], wide[:, ::2])
    assert np.array_equal(out["b"], x) and np.array_equal(out["l"], x)


def test_rows_in_one_piece_are_not_copied_beforehand() -> None:
    x = np.zeros((8, 2))
    pipe = stoker.source({"x": x}).batch(8)
    x[:] = 7
    assert (together(pipe)["x"] == 7).all()


def test_rows_that_lie_apart_or_overlap_are_not_copied_beforehand() -> None:
    base = np.zeros(4096, np.uint16)
    windows = np.lib.stride_tricks.sliding_window_view(base, 65)[::64]
    columns = {
        "window": windows,
        "back": windows[::-1],
        "part": base.reshape(64, 64)[:63, 8:24],
        "same": np.broadcast_to(base[5:9], (63, 4)),
        "one": base[3::65],
    }
    assert {len(column) for column in columns.values()} == {63}
    pipe = stoker.source(columns).shuffle(seed=1, reshuffle=False).batch(7)
    base[:] = np.arange(4096)
    places = together(stoker.range(63).shuffle(seed=1, reshuffle=False).batch(7))["value"]
    out = together(pipe)
    for name, column in columns.items():
        assert np.array_equal(out[name], column[places]), name


def test_read_only_and_mapped_arrays_are_taken(tmp_path: pathlib.Path) -> None:
    x = np.arange(100.0).reshape(50, 2)
    x.flags.writeable = False
    assert np.array_equal(together(stoker.source(x).batch(7))["value"], x)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert np.array_equal(together(stoker.source(mapped).batch(7))["value"], x)


def test_structured_arrays_and_data_frames_are_tables() -> None:
    s = np.zeros(5, dtype=[("a", "i4"), ("b", "f4", 2)])
    s["a"] = range(5)
    out = together(stoker.source(s).batch(5))
    assert out["a"].tolist() == list(range(5)) and out["b"].shape == (5, 2)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"n": [1, 2, 3], "t": ["x", "yy", "zzz"]})
    out = together(stoker.source(frame).batch(3))
    assert out["n"].tolist() == [1, 2, 3] and out["t"].tolist() == [b"x", b"yy", b"zzz"]
    assert together(stoker.source(frame["n"]).batch(3))["value"].tolist() == [1, 2, 3]


def test_columns_of_text_and_of_lists() -> None:
    pipe = stoker.source({"t": ["a", b"bb", "ä"], "x": np.arange(3), "l": [[1, 2], [3, 4], [5, 6]]})
    out = together(pipe.batch(2))
    assert out["t"].tolist() == [b"a", b"bb", "ä".encode()] and out["x"].tolist() == [0, 1, 2]
    assert out["l"].tolist() == [[1, 2], [3, 4], [5, 6]]
    lists = {"l": [[1], [2, 3], []], "m": [[[1, 2]], [], [[3, 4]]]}
    batch = next(iter(stoker.source(lists, l="int64[]", m="int64[?,2]").batch(3).numpy()))
    assert [row.tolist() for row in batch["l"]] == [[1], [2, 3], []]
    assert [row.shape for row in batch["m"]] == [(1, 2), (0, 2), (1, 2)]


def test_bfloat16_rows() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.arange(6, dtype=np.float32).reshape(3, 2).astype(ml_dtypes.bfloat16)
    out = next(iter(stoker.source({"x": x}).batch(3).numpy()))["x"]
    assert out.dtype == ml_dtypes.bfloat16 and np.array_equal(out.astype(np.float32), x.astype(np.float32))


def test_rows_take_the_declared_type_when_nothing_is_lost() -> None:
    out = together(stoker.source({"x": np.arange(4), "y": [1, 2, 3, 4]}, x="uint8", y="float32").batch(4))
    assert out["x"].dtype == np.uint8 and out["y"].dtype == np.float32
    with pytest.raises(ValueError, match="source: field 'x': found 300, which uint8 cannot hold"):
        stoker.source({"x": np.array([1, 300])}, x="uint8")
    with pytest.raises(ValueError, match=r"field 'x': found shape \(2,\), wanted \(3,\)"):
        stoker.source({"x": np.zeros((4, 2))}, x="float64[3]")


def test_the_array_cannot_be_resized_while_it_is_read() -> None:
    x = np.arange(1000)
    loader = stoker.source({"x": x}).batch(10).numpy()
    it = iter(loader)
    next(it)
    with pytest.raises(ValueError, match="cannot resize"):
        x.resize(5)
    del it, loader


# ---- sequences ----


def test_items_are_dicts_tuples_or_values() -> None:
    dicts = together(stoker.source([{"a": i, "b": float(i)} for i in range(5)]).batch(2))
    assert dicts["a"].tolist() == list(range(5)) and dicts["b"].dtype == np.float64
    tuples = together(stoker.source([(i, "x" * i) for i in range(5)]).batch(2))
    assert list(tuples) == ["f0", "f1"] and tuples["f1"].tolist() == [b"x" * i for i in range(5)]
    named = together(stoker.source([(i, True) for i in range(5)], fields=["n", "flag"]).batch(2))
    assert named["flag"].all() and named["flag"].dtype == bool and named["n"].tolist() == list(range(5))
    assert together(stoker.source(range(7)).batch(3))["value"].tolist() == list(range(7))
    Pair = collections.namedtuple("Pair", "left right")
    assert list(together(stoker.source([Pair(1, 2)]).batch(1))) == ["f0", "f1"]


def test_fields_choose_and_order_what_dicts_hold() -> None:
    rows = [{"a": i, "b": i, "c": i} for i in range(3)]
    assert list(together(stoker.source(rows, fields=["c", "a"]).batch(3))) == ["c", "a"]
    assert list(together(stoker.source({"a": np.zeros(2), "b": np.ones(2)}, fields="b").batch(2))) == ["b"]


def test_declared_types_name_the_values_of_tuples() -> None:
    pipe = stoker.source([([1, 2], 5), ([3], 6)], tokens="int64[]", label="int32").batch(2)
    batch = next(iter(pipe.numpy()))
    assert [row.tolist() for row in batch["tokens"]] == [[1, 2], [3]] and batch["label"].tolist() == [5, 6]
    assert together(stoker.source([1, 2], x="float32").batch(2))["x"].dtype == np.float32


def test_mappings_that_are_no_dict_are_taken() -> None:
    rows = [collections.ChainMap({"a": i}, {"b": -i}) for i in range(4)]
    out = together(stoker.source(rows).batch(2))
    assert out["a"].tolist() == [0, 1, 2, 3] and out["b"].tolist() == [0, -1, -2, -3]


class Squares:
    def __init__(self, n: int) -> None:
        self.n = n
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> dict[str, Any]:
        if not 0 <= i < self.n:
            raise IndexError(i)
        self.asked.append(i)
        return {"i": i, "square": i * i}


def test_sequences_shuffle_shard_and_take_without_reading_the_rest() -> None:
    data = Squares(1000)
    pipe = stoker.source(data).shuffle(seed=4).take(20).batch(5)
    data.asked.clear()
    out = together(pipe)
    assert sorted(data.asked) == sorted(out["i"].tolist()) and len(set(data.asked)) == 20
    parts = [together(stoker.source(data).shard(3, i).batch(10))["i"] for i in range(3)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(1000))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_items_come_in_order_whatever_the_number_of_threads(threads: int) -> None:
    out = together(stoker.source(Squares(500)).batch(16), threads=threads)
    assert out["square"].tolist() == [i * i for i in range(500)]


def test_a_resumed_run_goes_on_with_the_same_items() -> None:
    pipe = stoker.source(Squares(200)).shuffle(seed=8).batch(9)
    whole = [b["i"].tolist() for b in pipe.loader(epochs=2)]
    loader = pipe.loader(epochs=2)
    for i, _ in enumerate(loader):
        if i == 30:
            break
    other = pipe.loader(epochs=2)
    other.load_state_dict(loader.state_dict())
    assert [b["i"].tolist() for b in other] == whole[31:]


def test_a_state_is_refused_when_the_data_is_another() -> None:
    x = np.random.default_rng(1).random((100, 3))

    def place(data: Any) -> Any:
        loader = stoker.source(data).batch(10).loader()
        next(iter(loader))
        return loader.state_dict()

    for other in (x[:99], x[::-1], x.astype(np.float32), x + 1):
        with pytest.raises(stoker.MismatchError):
            loader = stoker.source(other).batch(10).loader()
            loader.load_state_dict(place(x))
            next(iter(loader))
    same = stoker.source(x.copy()).batch(10).loader()
    same.load_state_dict(place(x))
    assert np.array_equal(next(iter(same))["value"], x[10:20])


def test_errors_name_the_item() -> None:
    rows: list[Any] = [{"x": [1.0, 2.0]} for _ in range(50)]
    rows[33] = {"x": [1.0, 2.0, 3.0]}
    with pytest.raises(stoker.CorruptError, match=r"shape \(3,\), wanted \(2,\)") as e:
        list(stoker.source(rows, name="train").batch(4))
    assert e.value.record == 33 and e.value.file == "train" and e.value.field == "x"
    rows[33] = {"y": 1}
    with pytest.raises(stoker.CorruptError, match="fields y; there is no 'x'") as e:
        list(stoker.source(rows).batch(4))
    assert e.value.record == 33 and e.value.file == "list"
    with pytest.raises(stoker.CorruptError, match="an item of 3 values, wanted 2: f0, f1"):
        list(stoker.source([(1, 2), (1, 2, 3)]).batch(1))
    with pytest.raises(stoker.CorruptError, match="found an int, wanted a dict or tuple with f0, f1"):
        list(stoker.source([(1, 2), 5]).batch(1))
    with pytest.raises(stoker.CorruptError, match="found None"):
        list(stoker.source([1, None]).batch(1))


class Broken(Squares):
    def __init__(self, n: int, error: Exception) -> None:
        super().__init__(n)
        self.error = error

    def __getitem__(self, i: int) -> dict[str, Any]:
        if i % 10 == 7:
            raise self.error
        return super().__getitem__(i)


@pytest.mark.parametrize("error", [OSError("lost"), EOFError("lost"), stoker.CorruptError("lost")])
def test_an_item_that_cannot_be_read_is_a_bad_record(error: Exception) -> None:
    with pytest.raises((stoker.CorruptError, stoker.ReadError), match="lost") as e:
        list(stoker.source(Broken(30, error)).batch(4))
    assert e.value.__cause__ is error and e.value.record == 7
    out = together(stoker.source(Broken(30, error)).batch(4), on_error="skip")
    assert out["i"].tolist() == [i for i in range(30) if i % 10 != 7]


def test_a_mistake_in_an_item_is_never_skipped() -> None:
    for on_error in ("stop", "skip"):
        with pytest.raises(stoker.FunctionError, match="LookupError: lost") as e:
            list(stoker.source(Broken(30, LookupError("lost"))).batch(4).options(on_error=on_error))
        assert isinstance(e.value.__cause__, LookupError) and e.value.record == 7


def test_a_sequence_that_has_grown_is_refused() -> None:
    rows = [1, 2, 3]
    pipe = stoker.source(rows).batch(1)
    rows.append(4)
    with pytest.raises(stoker.InvalidError, match="has 4 items now, but had 3"):
        list(pipe)


def test_origins_reach_the_ops_behind() -> None:
    pipe = stoker.source([{"image": b"no image"}], name="pictures").decode_image("image").batch(1)
    with pytest.raises(stoker.Error) as e:
        list(pipe)
    assert e.value.file == "pictures" and e.value.record == 0


# ---- streams ----


def test_a_function_gives_a_new_iterator_for_each_epoch() -> None:
    made = []

    def count() -> Iterator[dict[str, Any]]:
        made.append(1)
        for i in range(5):
            yield {"i": i, "t": f"t{i}"}

    out = together(stoker.source(count).batch(2), epochs=3)
    assert out["i"].tolist() == [0, 1, 2, 3, 4] * 3 and out["t"][6] == b"t1"
    assert len(made) == 4  # one to look at the first item


def test_an_iterable_gives_a_new_iterator_for_each_epoch() -> None:
    assert together(stoker.source({3, 4, 5}).batch(2), epochs=2)["value"].tolist() == list({3, 4, 5}) * 2
    loader = stoker.source({"k": 1, "l": 2}.items(), fields=["key", "n"]).batch(2).loader()
    for _ in range(3):
        assert [b["key"].tolist() for b in loader] == [[b"k", b"l"]]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_streams_keep_their_order(threads: int) -> None:
    pipe = stoker.source(lambda: ((i, np.full(3, i)) for i in range(300))).batch(7)
    out = together(pipe, threads=threads)
    assert out["f0"].tolist() == list(range(300)) and (out["f1"] == np.arange(300)[:, None]).all()


def test_streams_shuffle_shard_and_resume() -> None:
    pipe = stoker.source(lambda: iter(range(100))).shuffle(seed=1, buffer=20).batch(5)
    whole = [b["value"].tolist() for b in pipe]
    assert sorted(sum(whole, [])) == list(range(100)) and sum(whole, []) != list(range(100))
    parts = [together(stoker.source(lambda: iter(range(100))).shard(4, i).batch(5))["value"] for i in range(4)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(100))
    loader = pipe.loader()
    for i, _ in enumerate(loader):
        if i == 6:
            break
    other = pipe.loader()
    other.load_state_dict(loader.state_dict())
    assert [b["value"].tolist() for b in other] == whole[7:]


def test_a_one_shot_iterator_gives_all_of_it_once() -> None:
    pipe = stoker.source(iter(range(10))).map(lambda s: {"x": s["value"] + 1}).batch(4)
    assert pipe.first()["value"].tolist() == [0, 1, 2, 3]  # looking takes nothing away
    assert pipe.fields() == {"value": "int64", "x": "int64"}
    assert together(pipe)["x"].tolist() == list(range(1, 11))
    with pytest.raises(stoker.InvalidError, match="can be gone through once only.*give stoker.source a function") as e:
        list(pipe)
    assert isinstance(e.value.__cause__, ValueError)


def test_a_one_shot_iterator_wanted_for_two_epochs_is_an_error() -> None:
    got = []
    with pytest.raises(stoker.InvalidError, match="can be gone through once only"):
        for batch in stoker.source(i for i in range(6)).batch(3).numpy(epochs=2):
            got.extend(batch["value"].tolist())
    assert got == list(range(6))


def test_a_function_that_gives_the_same_iterator_again_is_found_out() -> None:
    once = iter(range(4))
    pipe = stoker.source(lambda: once, value="int64").batch(2)
    assert together(pipe)["value"].tolist() == [0, 1, 2, 3]
    with pytest.raises(stoker.InvalidError, match="can be gone through once only"):
        list(pipe)


def test_a_generator_that_raises_ends_the_run_with_its_exception() -> None:
    def three() -> Iterator[int]:
        yield from (1, 2, 3)
        raise ConnectionError("gone")

    got = []
    with pytest.raises(stoker.Error, match="ConnectionError: gone") as e:
        for batch in stoker.source(three).batch(1).numpy(on_error="skip"):
            got.extend(batch["value"].tolist())
    assert isinstance(e.value.__cause__, ConnectionError) and e.value.record == 3
    assert got == [1, 2, 3]


def test_a_bad_item_of_a_stream_is_skipped() -> None:
    pipe = stoker.source(lambda: iter([1, "x", 3, None, 5])).batch(1)
    assert together(pipe, on_error="skip")["value"].tolist() == [1, 3, 5]
    with pytest.raises(stoker.CorruptError, match="found a str, wanted int64") as e:
        list(pipe)
    assert e.value.record == 1


def test_a_function_that_fails_says_so() -> None:
    def fail() -> Iterator[int]:
        raise RuntimeError("no such host")

    with pytest.raises(RuntimeError, match="no such host"):
        stoker.source(fail)
    with pytest.raises(stoker.InvalidError, match="RuntimeError: no such host") as e:
        list(stoker.source(fail, x="int64").batch(1))
    assert isinstance(e.value.__cause__, RuntimeError)
    with pytest.raises(stoker.InvalidError, match="TypeError: .*not iterable"):
        list(stoker.source(lambda: 5, x="int64").batch(1))  # type: ignore[arg-type, return-value]


def test_endless_streams_stop_when_the_loop_is_left() -> None:
    def endless() -> Iterator[int]:
        i = 0
        while True:
            yield i
            i += 1

    for batch in stoker.source(endless).batch(4):
        if batch["value"][0] > 100:
            break
    assert together(stoker.source(endless).take(50).batch(10))["value"].tolist() == list(range(50))


def test_generators_are_closed_when_the_loop_is_left() -> None:
    closed = threading.Event()

    def watched() -> Iterator[int]:
        try:
            yield from range(1000000)
        finally:
            closed.set()

    loader = stoker.source(watched, value="int64").batch(1).numpy()
    for _ in loader:
        break
    loader.close()
    del loader
    gc.collect()
    assert closed.wait(10)


# ---- what is refused ----


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: stoker.source("text"), TypeError, "found 'text', wanted arrays"),
        (lambda: stoker.source(5), TypeError, "found an int, wanted arrays, a sequence"),
        (lambda: stoker.source(None), TypeError, "found None, wanted arrays"),
        (lambda: stoker.source([]), ValueError, "no item to learn the types from"),
        (lambda: stoker.source(iter([])), ValueError, "no item to learn the types from"),
        (lambda: stoker.source({}), ValueError, "a table without columns"),
        (lambda: stoker.source({"a": 5}), TypeError, "field 'a': found an int, wanted an array"),
        (lambda: stoker.source({"a": [1, 2], "b": [1]}), ValueError, "different lengths: a has 2, b has 1"),
        (lambda: stoker.source({3: [1, 2]}), TypeError, "a column called 3"),
        (lambda: stoker.source(np.array(5)), TypeError, "an array without dimensions"),
        (lambda: stoker.source([object()]), TypeError, "field 'value': found an object"),
        (lambda: stoker.source([1j]), TypeError, "field 'value': found complex128"),
        (lambda: stoker.source([(1, 2)], fields=["a"]), ValueError, "items of 2 values, wanted 1: a"),
        (lambda: stoker.source([{"a": 1}], fields=["b"]), ValueError, "there is no field 'b'; found a"),
        (lambda: stoker.source([{"a": 1}], b="int64"), ValueError, "'b' is declared, but items have a"),
        (lambda: stoker.source({"a": [1]}, b="int64"), ValueError, "there is no field 'b'; found a"),
        (lambda: stoker.source([1], value="int65"), ValueError, "source: value: wanted a type"),
        (lambda: stoker.source([1], fields=["a", "a"]), TypeError, "wanted different names"),
        (lambda: stoker.source([1], name=""), TypeError, "name: wanted a text"),
    ],
)
def test_what_cannot_be_a_source_says_why(make: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_an_empty_sequence_with_types_gives_nothing() -> None:
    assert list(stoker.source([], x="int64").batch(2)) == []
    assert list(stoker.source({"x": np.zeros((0, 3))}).batch(2)) == []
    assert list(stoker.source(lambda: iter(()), x="int64").batch(2)) == []


# ---- other libraries ----


def test_pil_images_are_arrays() -> None:
    Image = pytest.importorskip("PIL.Image")
    images = [Image.fromarray(np.full((4, 5, 3), i, np.uint8)) for i in range(6)]
    out = together(stoker.source([(im, i) for i, im in enumerate(images)], fields=["image", "label"]).batch(3))
    assert out["image"].shape == (6, 4, 5, 3) and (out["image"][:, 0, 0, 0] == np.arange(6)).all()
    sizes = [Image.fromarray(np.zeros((h, 5), np.uint8)) for h in (2, 3, 4)]
    batch = next(iter(stoker.source(sizes, image="uint8[?,?]").batch(3).numpy()))
    assert [row.shape for row in batch["image"]] == [(2, 5), (3, 5), (4, 5)]


def test_torch_tensors_and_datasets_are_taken() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(12, dtype=torch.float32).reshape(4, 3)
    assert np.array_equal(together(stoker.source({"x": x, "t": x.t().t()}).batch(4))["x"], x.numpy())
    assert np.array_equal(together(stoker.source(x).batch(4))["value"], x.numpy())
    data = torch.utils.data.TensorDataset(x, torch.arange(4))
    out = together(stoker.source(data, fields=["x", "y"]).batch(3))
    assert np.array_equal(out["x"], x.numpy()) and out["y"].tolist() == [0, 1, 2, 3]

    class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[Any]:
            yield from (x[i].requires_grad_(False) for i in range(4))

        def __len__(self) -> int:
            return 4

    assert np.array_equal(together(stoker.source(Stream()).batch(4))["value"], x.numpy())
    half = torch.arange(6).reshape(3, 2).to(torch.bfloat16)
    mapped = stoker.source([{"b": row} for row in half], b="bfloat16[2]").batch(3)
    bits = next(iter(mapped.numpy()))["b"]
    assert np.array_equal(bits.view(np.uint16), half.view(torch.int16).numpy().view(np.uint16))
    grad = torch.ones(2, requires_grad=True)
    assert together(stoker.range(2).map(lambda s: {"g": grad * 2}).batch(2))["g"].tolist() == [[2, 2], [2, 2]]


# ---- life ----


def test_a_pipeline_over_data_pickles() -> None:
    pipe = stoker.source({"x": np.arange(6)}).batch(2)
    assert together(pickle.loads(pickle.dumps(pipe)))["x"].tolist() == list(range(6))
    rows = stoker.source(list(range(6))).batch(2)
    assert together(pickle.loads(pickle.dumps(rows)))["value"].tolist() == list(range(6))


def test_the_data_is_let_go_of() -> None:
    rows = [np.zeros(3) for _ in range(5)]
    array = np.zeros((5, 3))
    before = sys.getrefcount(rows), sys.getrefcount(rows[0]), sys.getrefcount(array)
    for obj in (rows, {"x": array}, (lambda: iter(rows))):
        list(stoker.source(obj).batch(2).numpy(epochs=2))
        with pytest.raises(stoker.InvalidError):
            list(stoker.source(obj).drop("nothing").batch(2))
    del obj
    gc.collect()
    assert (sys.getrefcount(rows), sys.getrefcount(rows[0]), sys.getrefcount(array)) == before


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.memory
@pytest.mark.filterwarnings("ignore:source:UserWarning")
@pytest.mark.parametrize("kind", ["rows", "items", "stream"])
def test_memory_stays_flat(kind: str) -> None:
    x = np.zeros((2000, 256), np.float32)
    obj: Any = {"x": x}
    if kind == "items":
        obj = [{"x": row, "b": b"b" * 500, "l": [b"x", b"yy"]} for row in x]
    elif kind == "stream":

        def obj() -> Iterator[dict[str, Any]]:
            for row in x:
                yield {"x": row + 1, "b": "t" * 500}

    pipe = stoker.source(obj).batch(50)
    for _ in pipe.numpy(epochs=5, threads=2):
        pass
    gc.collect()
    before = resident()
    for _ in pipe.numpy(epochs=20, threads=2):
        pass
    gc.collect()
    assert resident() - before < 20 << 20  # of 40 MB and more


def test_the_name_of_the_source_stands_in_statistics() -> None:
    pipe = stoker.source(Squares(10)).batch(5)
    run = stoker._core.Run(str(pipe), functions=pipe._functions)
    while run.next() is not None:
        pass
    assert run.op_stats()[0][0] == "Squares"
    run.close()
    assert 'python_source(__index=0, __name="numbers"' in str(stoker.source([1], name="numbers"))


def test_rows_are_copied_while_another_thread_holds_the_lock() -> None:
    """The workers make batches of arrays although no Python code of theirs can run."""
    code = """
import ctypes, sys, time, numpy as np, stoker
pipe = stoker.source({"x": np.arange(400.0).reshape(100, 4)}).batch(10)
run = stoker._core.Run(str(pipe), functions=pipe._functions, threads=1)
wait = ctypes.PyDLL(None).usleep  # PyDLL keeps the GIL
for _ in range(100):
    wait(50000)
    if run.stats()["ready_batches"] >= 2:
        print("ready")
        break
run.close()
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env)
    assert done.stdout == "ready\n", done.stderr


def test_tables_inside_tables_are_no_columns() -> None:
    with pytest.raises(TypeError, match="field 'a': found a dict, wanted an array whose first dimension is the sample"):
        stoker.source({"a": {"b": [1]}})
