"""Python functions on samples and batches: values, types, failures, random numbers, threads, and the end."""

from __future__ import annotations

import functools
import gc
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import warnings
import weakref
from typing import Any, Literal

import pytest

import stoker
from stoker._runs import Runs

np = pytest.importorskip("numpy")

DTYPES = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64".split()


def together(pipe: stoker.Pipeline, **options: Any) -> dict[str, Any]:
    """All batches as one."""
    batches = list(pipe.loader(persistent=False, **options))
    return {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}


def numbers(n: int = 10) -> stoker.Pipeline:
    return stoker.range(n)


# ---- values ----


def test_a_function_adds_and_changes_fields_and_the_others_stay() -> None:
    def double(s: dict[str, Any]) -> dict[str, Any]:
        return {"value": s["value"] * 2, "half": np.float32(s["value"] / 2)}

    out = together(numbers().map(lambda s: {"kept": s["value"]}).map(double).batch(4))
    assert list(out) == ["value", "kept", "half"]
    assert out["kept"].tolist() == list(range(10))
    assert out["value"].tolist() == [2 * i for i in range(10)]
    assert out["half"].tolist() == [i / 2 for i in range(10)] and out["half"].dtype == np.float32


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_goes_in_and_comes_out_as_it_is(dtype: str) -> None:
    data = (np.arange(24) % 2 if dtype == "bool" else np.arange(24)).astype(dtype).reshape(4, 2, 3)
    seen = []

    def look(s: dict[str, Any]) -> dict[str, Any]:
        seen.append((s["a"].dtype, s["a"].shape, s["b"].dtype, np.ndim(s["b"])))
        return {"c": s["a"], "d": s["b"]}

    out = together(stoker.source({"a": data, "b": data[:, 0, 0].copy()}).map(look).batch(3))
    assert set(seen) == {(np.dtype(dtype), (2, 3), np.dtype(dtype), 0)}
    assert out["c"].dtype == dtype and np.array_equal(out["c"], data)
    assert out["d"].dtype == dtype and np.array_equal(out["d"], data[:, 0, 0])


def test_bfloat16_goes_through_as_its_bits() -> None:
    bits = np.arange(12, dtype=np.uint16).reshape(4, 3)
    pipe = stoker.source({"u": bits}).map(lambda s: {"b": s["u"], "one": s["u"][0]}, b="bfloat16[3]", one="bfloat16")
    again = pipe.map(lambda s: {"back": s["b"].view(np.uint16), "one": s["one"]}, back="uint16[3]", one="bfloat16")
    out = together(again.batch(4))
    assert np.array_equal(out["back"], bits)
    assert np.array_equal(out["b"].view(np.uint16), bits) and np.array_equal(out["one"].view(np.uint16), bits[:, 0])


def test_bfloat16_is_cast_with_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    pipe = numbers(4).map(lambda s: {"b": np.full(2, s["value"], np.float32)}, b="bfloat16[2]")
    kinds = []
    pipe = pipe.map(lambda s: kinds.append(s["b"].dtype) or {"f": s["b"].astype(np.float32)}, f="float32[2]")
    assert together(pipe.batch(4))["f"].tolist() == [[i, i] for i in range(4)]
    assert set(kinds) == {np.dtype(ml_dtypes.bfloat16)}


def test_python_numbers_are_taken_for_scalars() -> None:
    pipe = numbers(5).map(lambda s: {"i": int(s["value"]), "f": float(s["value"]) / 4, "b": bool(s["value"] % 2)})
    assert [pipe.fields()[k] for k in "ifb"] == ["int64", "float64", "bool"]
    out = together(pipe.batch(5))
    assert out["i"].tolist() == list(range(5)) and out["f"].tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert out["b"].tolist() == [False, True, False, True, False]


def test_python_numbers_take_the_declared_type() -> None:
    pipe = numbers(3).map(
        lambda s: {"a": 0.1, "b": 200, "c": True, "d": 7, "e": [0.1, 0.2], "g": 0.5, "h": 2**64 - 1},
        a="float32",
        b="uint8",
        c="int8",
        d="float32",
        e="float32[2]",
        g="float16",
        h="uint64",
    )
    out = together(pipe.batch(3))
    assert out["a"].tolist() == [np.float32(0.1)] * 3 and out["b"].tolist() == [200] * 3
    assert out["c"].tolist() == [1] * 3 and out["d"].tolist() == [7] * 3 and out["g"].tolist() == [0.5] * 3
    assert np.array_equal(out["e"], np.array([[0.1, 0.2]] * 3, np.float32)) and out["h"].tolist() == [2**64 - 1] * 3


def test_bytes_and_text_go_in_as_bytes_and_come_out() -> None:
    kinds = set()

    def shout(s: dict[str, Any]) -> dict[str, Any]:
        kinds.add((type(s["word"]), type(s["parts"]), type(s["parts"][0])))
        return {"word": s["word"].upper(), "text": "ä" * int(s["n"]), "empty": b"", "parts": s["parts"] + [b"!"]}

    rows = [{"word": f"w{i}", "parts": [b"a", b"bc" * i], "n": i} for i in range(6)]
    pipe = stoker.source(rows, parts="bytes[]").map(shout, word="bytes", text="bytes", empty="bytes", parts="bytes[]")
    batch = next(iter(pipe.batch(6).numpy()))
    assert kinds == {(bytes, list, bytes)}
    assert batch["word"].tolist() == [f"W{i}".encode() for i in range(6)]
    assert batch["text"].tolist() == [("ä" * i).encode() for i in range(6)] and batch["empty"].tolist() == [b""] * 6
    assert [list(row) for row in batch["parts"]] == [[b"a", b"bc" * i, b"!"] for i in range(6)]


def test_arrays_of_bytes_keep_their_shape() -> None:
    pipe = numbers(3).map(lambda s: {"b": [["a", b"b", "cc"], ["d", "", f"{s['value']}"]]})
    assert pipe.fields()["b"].replace(" ", "") == "bytes[2,3]"
    got: list[Any] = []
    list(pipe.map(lambda s: got.append(s["b"]) or {}).batch(3))
    assert sorted(x for x in got[-3:]) == [[[b"a", b"b", b"cc"], [b"d", b"", b"%d" % i]] for i in range(3)]
    assert next(iter(pipe.batch(3).numpy()))["b"].shape == (3, 2, 3)


def test_shapes_that_vary_are_declared_and_come_as_ragged() -> None:
    pipe = numbers(5).map(lambda s: {"x": np.arange(s["value"], dtype=np.int32)}, x="int32[]")
    seen: list[Any] = []
    pipe = pipe.map(lambda s: seen.append(s["x"]) or {"n": len(s["x"])}, n="int64")
    batch = next(iter(pipe.batch(5).numpy()))
    assert [row.tolist() for row in batch["x"]] == [list(range(i)) for i in range(5)]
    assert batch["n"].tolist() == [0, 1, 2, 3, 4] and all(x.dtype == np.int32 for x in seen)
    padded = next(iter(pipe.batch(5, pad=True).numpy()))["x"]
    assert np.asarray(padded).shape == (5, 4)


def test_two_open_dimensions_go_through() -> None:
    pipe = numbers(4).map(lambda s: {"x": np.ones((s["value"], s["value"] + 1, 3), np.uint8)}, x="uint8[?,?,3]")
    shapes: list[Any] = []
    pipe = pipe.map(lambda s: shapes.append(s["x"].shape) or {"y": 1}, y="int64")
    list(pipe.batch(4))
    assert sorted(shapes) == [(i, i + 1, 3) for i in range(4)]


def test_dimensions_are_taken_as_fixed_unless_an_input_varies() -> None:
    fixed = numbers(4).map(lambda s: {"x": np.zeros((2, 3), np.float32)})
    assert fixed.fields()["x"].replace(" ", "") == "float32[2,3]"
    ragged = numbers(4).map(lambda s: {"r": np.zeros(s["value"])}, r="float64[]")
    assert ragged.map(lambda s: {"x": s["r"] * 2}).fields()["x"].replace(" ", "") == "float64[?]"


def test_arrays_belong_to_the_function() -> None:
    kept: list[Any] = []

    def change(s: dict[str, Any]) -> dict[str, Any]:
        assert s["x"].flags.writeable and s["x"].flags.owndata and s["x"].flags.c_contiguous
        s["x"][:] = -1
        kept.append(s["x"])
        return {"y": s["value"]}

    data = np.arange(12.0).reshape(4, 3)
    out = together(stoker.source({"x": data, "value": np.arange(4)}).map(change, y="int64").batch(2))
    assert np.array_equal(out["x"], data)  # the field was not returned: it stays as it was
    assert all((x == -1).all() for x in kept)


def test_arrays_in_any_layout_are_taken() -> None:
    def strange(s: dict[str, Any]) -> dict[str, Any]:
        x = np.arange(6, dtype=np.int16).reshape(2, 3)
        return {"f": np.asfortranarray(x), "t": x.T, "r": x[:, ::-1], "big": x.astype(">i2"), "view": memoryview(x)}

    out = next(iter(numbers(2).map(strange).batch(2).numpy()))
    x = np.arange(6).reshape(2, 3)
    for name, want in {"f": x, "t": x.T, "r": x[:, ::-1], "big": x}.items():
        assert np.array_equal(out[name], [want, want]), name
        assert out[name].dtype == np.int16


def test_a_function_that_returns_nothing_new_only_looks() -> None:
    seen = []
    out = together(numbers(7).map(lambda s: seen.append(int(s["value"])) or {}).batch(3))
    assert list(out) == ["value"] and sorted(seen[1:]) == list(range(7)) and seen[0] == 0


def test_fields_of_any_name_can_be_made() -> None:
    names = ["index", "name", "outputs", "a/b", "with space", "class"]
    out = together(numbers(3).map(lambda s: {k: i + s["value"] for i, k in enumerate(names)}).batch(3))
    assert list(out) == ["value", *names] and [out[k][0] for k in names] == list(range(6))


def test_what_nothing_uses_is_not_made() -> None:
    pipe = numbers(4).map(lambda s: {"x": 1, "y": 2}, x="int64", y="int64").select("y")
    assert together(pipe.batch(4))["y"].tolist() == [2] * 4


# ---- what it costs, and what it is called ----


def test_the_name_stands_in_plans_statistics_and_text() -> None:
    def augment(s: dict[str, Any]) -> dict[str, Any]:
        return {}

    pipe = numbers(8).map(augment).map(functools.partial(augment)).map(augment, name="third one").map(lambda s: {})
    assert str(pipe).count('"augment"') == 2 and '"third one"' in str(pipe) and '"lambda"' in str(pipe)
    assert "augment" in pipe.batch(2).explain()
    run = stoker._core.Run(str(pipe.batch(2)), functions=pipe._functions)
    while run.next() is not None:
        pass
    names = [name for name, _, _ in run.op_stats()]
    assert names == ["range", "augment", "augment", "third one", "lambda", "batch"]
    run.close()


def test_the_name_stands_in_the_trace(tmp_path: pathlib.Path) -> None:
    def very_special_work(s: dict[str, Any]) -> dict[str, Any]:
        return {"x": sum(range(2000))}

    path = tmp_path / "t.pftrace"
    recorder = stoker._core.Recorder(str(path))
    pipe = numbers(500).map(very_special_work).batch(10)
    run = stoker._core.Run(str(pipe), functions=pipe._functions, recorder=recorder)
    while run.next() is not None:
        pass
    run.close()
    recorder.stop()
    assert b"very_special_work" in path.read_bytes()


# ---- wrong returns ----


@pytest.mark.parametrize("result, found", [(None, "None"), ([1], "list"), (np.zeros(2), "ndarray"), ((1, 2), "tuple")])
def test_anything_but_a_dict_is_a_type_error(result: Any, found: str) -> None:
    with pytest.raises(TypeError, match=rf"map 'lambda': returned .*{found}.*wanted a dict"):
        numbers().map(lambda s: result)
    kind = "NoneType" if result is None else found
    with pytest.raises(stoker.Error, match=rf"returned .*{kind}.*wanted a dict") as e:
        list(numbers().map(lambda s: result, x="int64").batch(2))
    assert isinstance(e.value.__cause__, TypeError) and e.value.op == "lambda"


@pytest.mark.parametrize(
    "declared, value, error, text",
    [
        ("float32[3]", np.zeros(4, np.float32), ValueError, r"shape \(4,\), wanted \(3,\).*: x='float32\[\?\]'"),
        ("float32[3]", np.zeros((3, 1), np.float32), ValueError, r"shape \(3, 1\), wanted \(3,\).*x='float32\[3,1\]'"),
        ("float32[?,3]", np.zeros((2, 4), np.float32), ValueError, r"shape \(2, 4\), wanted \(\?, 3\)"),
        ("float32", np.zeros(1, np.float32), ValueError, r"shape \(1,\), wanted \(\)"),
        ("float32[2]", np.full(2, 0.1), ValueError, r"found float64 with .*0\.1.*, which float32 cannot hold"),
        ("float32", 1e300, ValueError, r"1e\+300.*float32 cannot hold"),
        ("int32[2]", np.array([1, 2**40]), ValueError, r"1099511627776, which int32 cannot hold"),
        ("uint8", -1, ValueError, r"-1, which uint8 cannot hold"),
        ("uint64[1]", np.array([-5]), ValueError, r"-5, which uint64 cannot hold"),
        ("int64", 2**63, ValueError, r"9223372036854775808, which int64 cannot hold"),
        ("float32", 2**24 + 1, ValueError, r"16777217, which float32 cannot hold"),
        ("int64", 1.5, TypeError, r"found float64, wanted int64.*astype"),
        ("int64[2]", np.zeros(2), TypeError, r"found float64, wanted int64"),
        ("bool", 1, TypeError, r"found int64, wanted bool"),
        ("float32", 1j, TypeError, r"complex128"),
        ("float32", "1.5", TypeError, r"found a str, wanted float32"),
        ("float32", b"1.5", TypeError, r"found a bytes, wanted float32"),
        ("float32[2]", ["a", "b"], TypeError, r"text in a list, wanted float32\[2\]"),
        ("float32", None, TypeError, r"found None"),
        ("float32", object(), TypeError, r"found an object"),
        ("float32[2,2]", [[1, 2], [3]], ValueError, r"rows of different lengths"),
        ("bytes", 5, TypeError, r"found an int, wanted bytes or str"),
        ("bytes[2]", b"ab", TypeError, r"found a bytes, wanted a list of bytes"),
        ("bytes[2]", [b"a"], ValueError, r"shape \(1,\), wanted \(2,\)"),
        ("bytes[2]", [b"a", 7], TypeError, r"found an int, wanted bytes or str"),
        ("bytes[?,?]", [[b"a"], [b"b", b"c"]], ValueError, r"lists of different lengths"),
        ("bytes", "\udc80", UnicodeEncodeError, r"surrogates not allowed"),
    ],
)
def test_a_value_that_does_not_fit_says_why(declared: str, value: Any, error: type, text: str) -> None:
    with pytest.raises(stoker.FunctionError, match=text) as e:
        list(numbers(3).map(lambda s: {"x": value}, name="fit", x=declared).batch(1))
    assert isinstance(e.value.__cause__, error)
    assert e.value.field == "x" and e.value.op == "fit"


@pytest.mark.parametrize(
    "declared, value, want",
    [
        ("int32[2]", np.array([1, -2]), [1, -2]),
        ("float64[2]", np.array([0.5, np.nan], np.float32), [0.5, np.nan]),
        ("float32[3]", np.array([0.5, np.inf, np.nan]), [0.5, np.inf, np.nan]),
        ("float32[2]", np.array([1, 2**24]), [1, 2**24]),
        ("uint8[2]", np.array([True, False]), [1, 0]),
        ("int64", np.uint8(200), 200),
        ("uint8[3]", bytearray(b"abc"), [97, 98, 99]),
        ("float64[0]", [], []),
        ("int64[2]", range(2), [0, 1]),
    ],
)
def test_a_value_that_loses_nothing_is_cast(declared: str, value: Any, want: Any) -> None:
    x = together(numbers(2).map(lambda s: {"x": value}, x=declared).batch(2))["x"]
    assert x.dtype == declared.partition("[")[0]
    assert np.array_equal(x, [want, want], equal_nan=x.dtype.kind == "f")


def test_missing_and_new_fields_are_type_errors() -> None:
    def sometimes(s: dict[str, Any]) -> dict[str, Any]:
        return {"x": 1} if s["value"] < 5 else {"y": 1}

    with pytest.raises(stoker.Error, match="returned no field 'x'") as e:
        list(numbers().map(sometimes).batch(1))
    assert e.value.op == "sometimes"
    with pytest.raises(stoker.Error, match="returned a field 'y' that was not declared.*y="):
        list(numbers().map(lambda s: {"x": 1, "y": 2}, x="int64").batch(1))
    with pytest.raises(TypeError, match="field 3"):
        numbers().map(lambda s: {3: 1})


def test_a_sample_unlike_the_first_says_how_to_declare_it() -> None:
    with pytest.raises(stoker.Error, match=r"shape \(2,\), wanted \(1,\).*x='float64\[\?\]'"):
        list(numbers().map(lambda s: {"x": np.ones(s["value"] + 1)}).batch(1))


def test_types_and_functions_that_are_none_are_refused() -> None:
    with pytest.raises(TypeError, match="wanted a function, found 5"):
        numbers().map(5)  # type: ignore[arg-type]
    for wrong in ("float33", 'int64(from="a")', "int64[3", "int64[-1]", "int64[a]", "", "int64) | repeat("):
        with pytest.raises(ValueError, match="map 'lambda': x: wanted .*, found "):
            numbers().map(lambda s: {"x": 1}, x=wrong)
    with pytest.raises(TypeError, match="map 'lambda': x: wanted a type.*found 3"):
        numbers().map(lambda s: {"x": 1}, x=3)  # type: ignore[arg-type]
    with pytest.raises(stoker.Error, match="7 dimensions, wanted at most 6"):
        list(numbers().map(lambda s: {"x": 1}, x="int64[1,1,1,1,1,1,1]").batch(1))
    with pytest.raises(ValueError, match="no sample to learn the types from"):
        stoker.range(0).map(lambda s: {"x": 1})


def test_a_text_with_functions_runs_only_with_them() -> None:
    pipe = numbers().map(lambda s: {"x": 1}).batch(2)
    with pytest.raises(stoker.InvalidError, match="there is no function 0"):
        stoker._core.Run(str(pipe))


# ---- exceptions ----


class Special(stoker.CorruptError):
    """What a function raises for a record that is bad."""


def picky(s: dict[str, Any]) -> dict[str, Any]:
    if s["value"] % 4 == 3:
        raise Special(f"not {s['value']}")
    return {"x": s["value"]}


def test_an_exception_of_the_first_sample_comes_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        numbers().map(lambda s: 1 / 0)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_exception_ends_the_run_with_cause_traceback_and_origin(tmp_path: pathlib.Path, threads: int) -> None:
    (tmp_path / "lines.txt").write_text("".join(f"{i}\n" for i in range(20)))
    pipe = stoker.text(tmp_path / "lines.txt").map(lambda s: {"value": int(s["text"])}).map(picky).batch(2)
    got = []
    with pytest.raises(stoker.Error, match="record 3 .*picky: Special: not 3") as e:
        for batch in pipe.numpy(threads=threads):
            got.extend(batch["x"].tolist())
    assert got == [0, 1]
    error = e.value
    assert error.op == "picky" and error.record == 3 and (error.file or "").endswith("lines.txt")
    assert isinstance(error.__cause__, Special) and str(error.__cause__) == "not 3"
    lines = "".join(traceback.format_exception(error))
    assert 'raise Special(f"not' in lines and "in picky" in lines


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_exceptions_are_counted_and_left_out_when_bad_records_are_skipped(threads: int) -> None:
    pipe = numbers(40).map(picky).batch(4)
    loader = pipe.loader(on_error="skip", threads=threads)
    got = [v for batch in loader for v in batch["x"].tolist()]
    assert got == [i for i in range(40) if i % 4 != 3]
    pipe = numbers(40).map(picky, x="int64").batch(4)
    run = stoker._core.Run(str(pipe), functions=pipe._functions, on_error="skip", threads=threads)
    while run.next() is not None:
        pass
    assert run.stats()["skipped"] == 10
    run.close()


def test_too_many_exceptions_are_an_error_with_a_cause() -> None:
    with pytest.raises(stoker.LimitError, match="more than 3 bad records.*Special") as e:
        list(numbers(100).map(picky).batch(4).numpy(on_error="skip", max_errors=3))
    assert isinstance(e.value.__cause__, Special)


def test_a_quarantine_lists_them(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "bad.jsonl"
    list(numbers(20).map(picky).batch(4).numpy(on_error="quarantine", quarantine=path))
    lines = path.read_text().splitlines()
    assert len(lines) == 5 and all("Special: not " in line and '"picky"' in line for line in lines)


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_mistake_in_a_function_is_neither_damage_nor_skipped(on_error: Literal["stop", "skip"]) -> None:
    def wrong(s: dict[str, Any]) -> dict[str, Any]:
        return {"x": s["valeu"] if s["value"] == 5 else 0}

    with pytest.raises(stoker.FunctionError, match="wrong: KeyError: 'valeu'") as e:
        list(numbers(20).map(wrong, x="int64").batch(2).numpy(on_error=on_error))
    assert not isinstance(e.value, stoker.CorruptError) and isinstance(e.value.__cause__, KeyError)


def test_a_file_that_cannot_be_read_is_a_bad_record() -> None:
    def load(s: dict[str, Any]) -> dict[str, Any]:
        if s["value"] == 5:
            open("not/there").close()
        return {"x": 1}

    with pytest.raises(stoker.ReadError, match="FileNotFoundError"):
        list(numbers(20).map(load, x="int64").batch(2))
    assert len(together(numbers(20).map(load, x="int64").batch(2), on_error="skip")["x"]) == 19


def test_exit_and_its_like_end_the_run_whatever_the_policy() -> None:
    def leave(s: dict[str, Any]) -> dict[str, Any]:
        if s["value"] == 7:
            raise SystemExit(3)
        return {}

    with pytest.raises(SystemExit) as e:
        list(numbers(20).map(leave).batch(2).numpy(on_error="skip"))
    assert e.value.code == 3


# ---- the same for any number of threads ----


def jitter(s: dict[str, Any], rng: Any) -> dict[str, Any]:
    return {"x": s["value"] + rng.random(3), "i": rng.integers(1000), "p": rng.permutation(4)}


def test_random_numbers_are_the_same_for_any_number_of_threads() -> None:
    pipe = numbers(300).shuffle(seed=3).map(jitter).batch(7)
    runs = [together(pipe, threads=n, seed=5, epochs=2) for n in (1, 2, 5)]
    for other in runs[1:]:
        assert all(np.array_equal(runs[0][k], other[k]) for k in runs[0])
    fraction = runs[0]["x"] - runs[0]["value"][:, None]
    assert len(np.unique(fraction)) == fraction.size  # every sample and epoch has its own
    assert 0.45 < fraction.mean() < 0.55
    assert not np.array_equal(together(pipe, seed=6)["i"], runs[0]["i"][:300])


def test_two_functions_draw_different_numbers() -> None:
    pipe = numbers(50).map(lambda s, rng: {"a": rng.random()}).map(lambda s, rng: {"b": rng.random()}).batch(50)
    out = together(pipe)
    assert not np.intersect1d(out["a"], out["b"]).size


def test_a_generator_is_given_to_a_second_parameter_only() -> None:
    def plain(s: dict[str, Any], scale: int = 3) -> dict[str, Any]:
        return {"x": s["value"] * scale}

    def optional(s: dict[str, Any], rng: Any = None) -> dict[str, Any]:
        return {"r": rng is not None}

    class Callable:
        def __call__(self, s: dict[str, Any], generator: Any) -> dict[str, Any]:
            return {"g": generator.random() < 2}

    out = together(numbers(3).map(plain).map(optional).map(Callable()).map(dict).batch(3))
    assert out["x"].tolist() == [0, 3, 6] and out["r"].all() and out["g"].all()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_slow_and_uneven_function_keeps_the_order(threads: int) -> None:
    def uneven(s: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.001 * (int(s["value"]) % 3))
        return {"x": s["value"]}

    assert together(numbers(60).map(uneven).batch(4), threads=threads)["x"].tolist() == list(range(60))


def test_a_resumed_run_goes_on_with_the_same_bytes() -> None:
    pipe = numbers(100).shuffle(seed=1).map(jitter).batch(8)
    whole = [b for b in pipe.loader(epochs=2, seed=9)]
    loader = pipe.loader(epochs=2, seed=9, threads=2)
    places = []
    for i, _ in enumerate(loader):
        if i in (0, 5, 12, 20):
            places.append((i, pickle.loads(pickle.dumps(loader.state_dict()))))
    for i, state in places:
        other = pipe.loader(epochs=2, seed=9, threads=1)
        other.load_state_dict(state)
        rest = list(other)
        assert len(rest) == len(whole) - i - 1
        for a, b in zip(rest, whole[i + 1 :]):
            assert all(np.array_equal(a[k], b[k]) for k in a)


def test_a_map_before_shuffle_filter_and_take_is_one_behind_them() -> None:
    pipe = numbers(50).map(lambda s: {"x": s["value"] * 3}).shuffle(seed=2).filter("x % 2 == 0").take(10).batch(5)
    x = together(pipe)["x"]
    assert len(x) == 10 and len(set(x.tolist())) == 10 and (x % 6 == 0).all()


def test_a_map_on_a_stream() -> None:
    pipe = stoker.source(lambda: iter(range(30))).map(jitter_value).batch(4)
    a, b = together(pipe, threads=1, epochs=2), together(pipe, threads=3, epochs=2)
    assert a["value"].tolist() == list(range(30)) * 2 and np.array_equal(a["x"], b["x"])


def jitter_value(s: dict[str, Any], rng: Any) -> dict[str, Any]:
    return {"x": rng.random()}


def test_a_function_may_run_a_pipeline_itself() -> None:
    def inner(s: dict[str, Any]) -> dict[str, Any]:
        return {"x": sum(int(b["value"].sum()) for b in numbers(5).map(picky_free).batch(2))}

    assert together(numbers(4).map(inner).batch(2), threads=2)["x"].tolist() == [10] * 4


def picky_free(s: dict[str, Any]) -> dict[str, Any]:
    return {"value": s["value"]}


# ---- batches ----


def test_behind_batch_a_function_gets_batches() -> None:
    sizes = []

    def scale(b: dict[str, Any]) -> dict[str, Any]:
        sizes.append(len(b["value"]))
        return {"x": b["value"] / 2}

    pipe = numbers(10).batch(4).map(scale)
    assert [b["x"].tolist() for b in pipe] == [[0, 0.5, 1, 1.5], [2, 2.5, 3, 3.5], [4, 4.5]]
    assert sizes == [4, 4, 2]
    with pytest.raises(TypeError, match="declares no types"):
        numbers(10).batch(4).map(scale, x="float64")


# ---- pickles, fork, memory, the end ----


def test_a_pipeline_with_functions_pickles() -> None:
    pipe = numbers(20).map(picky_free).map(jitter).batch(5)
    again = pickle.loads(pickle.dumps(pipe))
    assert str(again) == str(pipe)
    a, b = together(pipe), together(again)
    assert all(np.array_equal(a[k], b[k]) for k in a)


@pytest.mark.forks
def test_a_forked_child_can_run_it() -> None:
    pipe = numbers(50).map(picky_free).batch(5)
    list(pipe.numpy(threads=2))
    kept = iter(pipe.numpy(threads=2))
    next(kept)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if together(pipe, threads=2)["value"].tolist() == list(range(50)) else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert len(list(kept)) == 9


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.memory
@pytest.mark.filterwarnings("ignore:map:UserWarning")
def test_memory_stays_flat() -> None:
    words = [b"a" * 100, b"b" * 2000]

    def work(s: dict[str, Any], rng: Any) -> dict[str, Any]:
        return {"x": s["x"] + 1, "b": words[int(s["i"]) % 2], "l": [b"x", b"y" * 50], "n": 3.5, "c": [1.0, 2.0]}

    data = {"x": np.zeros((1000, 64), np.float32), "i": np.arange(1000)}
    pipe = stoker.source(data).map(work).repeat(20).batch(50)
    list(map(len, pipe.numpy(threads=2)))
    gc.collect()
    before = resident()
    for _ in range(3):
        list(map(len, pipe.numpy(threads=2)))
    gc.collect()
    assert resident() - before < 32 << 20  # 60,000 samples of more than 2 KB


def test_exceptions_that_are_skipped_do_not_gather() -> None:
    class Local:
        pass

    alive: weakref.WeakSet[Local] = weakref.WeakSet()
    counts = []

    def fail(s: dict[str, Any]) -> dict[str, Any]:
        local = Local()  # lives as long as the traceback
        alive.add(local)
        counts.append(len(alive))
        if s["value"]:
            raise stoker.CorruptError("no")
        return {}

    list(numbers(2000).map(fail).batch(10).numpy(on_error="skip"))
    assert len(counts) == 2001 and max(counts) < 100


def test_references_are_given_back() -> None:
    class Thing:
        def __call__(self, s: dict[str, Any], rng: Any) -> dict[str, Any]:
            return {"x": np.ones(3)}

    thing = Thing()
    before = sys.getrefcount(thing)
    pipe = numbers(20).map(thing).batch(4)
    list(pipe.numpy(threads=2))
    with pytest.raises(stoker.InvalidError):
        list(pipe.drop("nothing"))
    del pipe
    gc.collect()
    assert sys.getrefcount(thing) == before


def test_threads_of_the_engine_leave_no_state_behind() -> None:
    """Each kept state would hold a stack of its own."""
    pipe = numbers(20).map(picky_free).batch(4)
    list(pipe.numpy(threads=4))
    before = len(sys._current_frames())
    for _ in range(20):
        list(pipe.numpy(threads=4))
    deadline = time.monotonic() + 10
    while len(sys._current_frames()) > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(sys._current_frames()) <= before


def python(code: str, **options: Any) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        **options,
    )


SLEEPER = """
    import sys, time, stoker
    def nap(s):
        if s["value"] == 8:
            print("asleep", flush=True)
        time.sleep(0.2 if s["value"] >= 8 else 0)
        return {"x": s["value"]}
    pipe = stoker.range(100000).map(nap, x="int64").batch(4)
"""


def test_ctrl_c_gets_through_while_a_function_sleeps() -> None:
    child = python(SLEEPER + """
    try:
        for batch in pipe.numpy(threads=2):
            pass
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """)
    assert child.stdout is not None and child.stdout.readline() == "asleep\n"
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert out.splitlines()[-1] == "interrupted"


def test_a_run_that_is_closed_calls_no_function_any_more() -> None:
    """The rows that a worker has taken are many, and may take any time."""
    begun, go_on, calls = threading.Event(), threading.Event(), []

    def wait(s: dict[str, Any]) -> dict[str, Any]:
        calls.append(s["value"])
        begun.set()
        go_on.wait(30)
        return {"x": 1}

    pipe = numbers(1000).map(wait, x="int64").batch(100)
    run = stoker._core.Run(str(pipe), functions=pipe._functions, threads=2)
    begun.wait()
    closing = threading.Thread(target=run.close)
    closing.start()
    while not run.closed:
        time.sleep(0.001)
    begun_by_then = len(calls)
    go_on.set()
    closing.join()
    assert begun_by_then <= len(calls) <= 2


@pytest.mark.parametrize("how", ["sys.exit(5)", "raise RuntimeError('out')", "pass"])
def test_the_interpreter_exits_while_a_function_runs(how: str) -> None:
    child = python(SLEEPER + f"""
    it = iter(pipe.numpy(threads=2))
    next(it)
    time.sleep(0.05)
    {how}
    """)
    out, err = child.communicate(timeout=60)
    assert child.returncode == {"sys.exit(5)": 5, "pass": 0}.get(how, 1), err
    assert "Fatal" not in err and ("RuntimeError: out" in err) == how.startswith("raise")


def test_the_interpreter_exits_while_a_function_never_returns() -> None:
    child = python("""
    import threading, stoker, time
    inside = threading.Event()
    def stuck(s):
        if s["value"]:
            inside.set()
            threading.Event().wait()
        return {"x": s["value"]}
    pipe = stoker.range(1000).map(stuck).batch(1)
    it = iter(pipe.numpy(threads=2))
    threading.Thread(target=lambda: next(it), daemon=True).start()
    inside.wait()
    """)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert "Fatal" not in err


def test_many_threads_of_python_and_of_the_engine_share_the_lock() -> None:
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(1000))

    others = [threading.Thread(target=spin) for _ in range(2)]
    for thread in others:
        thread.start()
    try:
        got = together(numbers(300).map(picky_free).batch(10), threads=3)["value"]
    finally:
        stop.set()
        for thread in others:
            thread.join()
    assert got.tolist() == list(range(300))


def test_functions_may_all_return_the_same_dict() -> None:
    shared: dict[str, bytes] = {}

    def write(sample: dict[str, Any]) -> dict[str, bytes]:
        shared["content"] = bytes([int(sample["value"]) % 256]) * 300_000  # so long that it is copied without the lock
        return shared

    pipe = numbers(300).map(write, content="bytes").batch(10)
    for batch in pipe.numpy(threads=8):
        for content in batch["content"]:
            assert len(content) == 300_000 and len(set(content)) == 1


@pytest.mark.parametrize("kind", ["map", "items", "stream"])
def test_an_object_goes_away_whose_open_loader_calls_it(kind: str) -> None:
    class Training:
        def __init__(self) -> None:
            if kind == "map":
                pipe = numbers(1000).map(self.change, value="int64")
            else:
                pipe = stoker.source(self if kind == "items" else self.items, value="int64")
            self.loader = pipe.batch(4).loader()
            self.loop = iter(self.loader)
            next(self.loop)

        def change(self, sample: dict[str, Any]) -> dict[str, int]:
            return {"value": 1}

        def items(self) -> Any:
            yield from ({"value": i} for i in range(1000))

        def __len__(self) -> int:
            return 1000

        def __getitem__(self, i: int) -> dict[str, int]:
            return {"value": i}

    training = Training()
    gone = weakref.ref(training)
    del training
    end = time.monotonic() + 60
    while gone() is not None and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    assert gone() is None


@pytest.mark.parametrize("threads", [1, 3])
def test_a_function_may_close_its_own_run(threads: int) -> None:
    done = threading.Event()

    def close(sample: dict[str, Any]) -> dict[str, int]:
        if sample["value"] == 50:
            loader.close()
            done.set()
        return {"y": 1}

    loader = numbers(100_000).map(close, y="int64").batch(4).loader(threads=threads)
    with pytest.raises((RuntimeError, stoker.CancelledError)):
        for _ in loader:
            pass
    assert done.wait(60)
    loader.close()


def test_a_function_that_waits_for_its_own_batches_is_told() -> None:
    loops: list[Any] = []
    opened = threading.Event()

    def wait(sample: dict[str, Any]) -> dict[str, int]:
        if opened.wait(60) and sample["value"] == 50:
            loops[0].next()
        return {"y": 1}

    run = Runs(numbers(100).map(wait, y="int64").batch(4), {"threads": 1}).open()
    loops.append(run)
    opened.set()
    with pytest.raises(stoker.Error, match="a batch that it has to make itself"):
        while run.next() is not None:
            pass
    run.close()


def test_a_function_that_hangs_is_named_while_the_loop_waits() -> None:
    free = threading.Event()

    def stuck(sample: dict[str, Any]) -> dict[str, Any]:
        free.wait(60)
        return sample

    pipe = stoker.range(4).map(stuck, value="int64").batch(4)
    run = stoker._core.Run(str(pipe), functions=pipe._functions, threads=1, stall_ns=100_000_000)
    # The message comes in the middle of the wait: it is what lets the function go on.
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        said: list[str] = []
        warnings.showwarning = lambda message, *rest: (said.append(str(message)), free.set())  # type: ignore[assignment]
        assert run.next() is not None
    assert "worker 0 has been in stuck for" in said[0]
