#!/usr/bin/env python3
"""HDF5 to TFRecord and back: h5py finds the same arrays, types, attributes and fill values in both files.

Usage: python3 tests/python/test_convert_hdf5.py BUILD_DIR
Needs h5py (exit status 77 without). Prints "N passed, N failed"; the exit status is 1 when a test failed.
"""
import json
import os
import subprocess
import sys

import runlib

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)

ROWS = 23
NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
BACK = 'tfrecord("out/part-*") | interleave | parse(schema="out/part.schema.json") | write_hdf5("back.h5", schema="out/part.schema.json"%s)'


def run(program, directory, pipeline, status=0):
    command = [program, "run", "-e", pipeline, "--quiet"]
    result = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    assert result.returncode == status, "exit status %d for %s: %s" % (result.returncode, pipeline, result.stderr.decode())
    return result.stdout.decode(), result.stderr.decode()


def bits(dtype, shape, seed):
    """All bit patterns: limits, NaNs with payloads, infinities, negative zeros."""
    dtype = np.dtype(dtype)
    data = np.random.default_rng(seed).integers(0, 256, int(np.prod(shape)) * dtype.itemsize, dtype=np.uint8)
    values = np.frombuffer(data.tobytes(), dtype).reshape(shape).copy()
    flat = values.reshape(-1)
    if dtype.kind == "f":
        flat[:5] = [0.1, -0.0, np.inf, np.nan, np.finfo(dtype).max]
    else:
        flat[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    return values


def add_attributes(where):
    where.attrs["unit"] = "mètre"
    where.attrs["names"] = ["a", "bc", ""]
    where.attrs["fixed"] = np.array([b"xy", b"z"], "S2")
    where.attrs["limits"] = np.array([-1.5, np.nan, np.inf, 1e300])
    where.attrs["most"] = np.uint64(2**64 - 1)
    where.attrs["flag"] = True
    where.attrs["grid"] = np.arange(6, dtype="i2").reshape(2, 3)
    where.attrs["big"] = np.array([1, 2], ">i4")
    where.attrs["many"] = np.arange(500, dtype="f4")
    where.attrs["half"] = np.float16(0.5)
    where.attrs["none"] = np.zeros((0,), "f4")


def compare_attributes(a, b, what):
    assert list(a.attrs) == list(b.attrs), (what, list(a.attrs), list(b.attrs))
    for key in a.attrs:
        x, y = a.attrs[key], b.attrs[key]
        assert np.shape(x) == np.shape(y), (what, key, x, y)
        if isinstance(x, np.ndarray) or isinstance(x, np.generic):
            text = x.dtype.kind in "SO"
            assert text or x.dtype == y.dtype, (what, key, x.dtype, y.dtype)
            same = [as_bytes(v) for v in np.ravel(x)] == [as_bytes(v) for v in np.ravel(y)] if text else x.tobytes() == y.tobytes()
            assert same, (what, key, x, y)
        else:
            assert as_bytes(x) == as_bytes(y), (what, key, x, y)


def as_bytes(value):
    return value.encode() if isinstance(value, str) else bytes(value)


def values_of(data):
    """Bytes that tell every value: NaNs with other payloads differ."""
    if data.dtype.kind == "O":
        return [v.tobytes() if isinstance(v, np.ndarray) else as_bytes(v) for v in data.ravel()]
    return data.tobytes()


def compare_datasets(a, b, storage=True):
    assert a.dtype == b.dtype, (a.name, a.dtype, b.dtype)
    assert a.shape == b.shape, (a.name, a.shape, b.shape)
    assert values_of(a[()]) == values_of(b[()]), (a.name, a[()], b[()])
    assert np.array(a.fillvalue).tobytes() == np.array(b.fillvalue).tobytes(), (a.name, a.fillvalue, b.fillvalue)
    text = h5py.check_string_dtype(a.dtype)
    if text:
        assert h5py.check_string_dtype(b.dtype).length == text.length, (a.name, text)
    if storage and a.chunks and not h5py.check_vlen_dtype(a.dtype) and not (text and text.length is None):
        assert (a.chunks, a.compression, a.shuffle, a.fletcher32) == (b.chunks, b.compression, b.shuffle, b.fletcher32), a.name
        assert a.compression_opts == b.compression_opts, a.name
    compare_attributes(a, b, a.name)


def datasets(file):
    found = {}
    file.visititems(lambda name, item: found.__setitem__(name, item) if isinstance(item, h5py.Dataset) else None)
    return found


def compare_files(directory, storage=True):
    with h5py.File(os.path.join(directory, "in.h5"), "r") as a, h5py.File(os.path.join(directory, "back.h5"), "r") as b:
        x, y = datasets(a), datasets(b)
        assert list(x) == list(y), (list(x), list(y))
        for name, dataset in x.items():
            compare_datasets(dataset, y[name], storage)
        compare_attributes(a, b, "/")


def there_and_back(program, directory, options=""):
    run(program, directory, 'hdf5("in.h5") | write_tfrecord("out/part-%05d", shards=3)')
    run(program, directory, BACK % options)


def test_numbers_of_every_type(program, directory):
    with h5py.File(os.path.join(directory, "in.h5"), "w") as file:
        for i, code in enumerate(NUMBERS):
            for order in "<>":
                name = "little" if order == "<" else "big"
                file["%s/%s" % (name, code)] = bits(order + code, (ROWS, 2, 3), i)
                file["%s/%s_scalar" % (name, code)] = bits(order + code, (ROWS,), i + 100)
        file["bool"] = np.arange(ROWS) % 3 == 0
        file["bools"] = np.arange(ROWS * 4).reshape(ROWS, 4) % 3 == 0
    there_and_back(program, directory)
    compare_files(directory)


def test_strings(program, directory):
    words = [b"", b"a", b"longer", "käse".encode(), b"12345678"]
    column = [words[i % 5] for i in range(ROWS)]
    with h5py.File(os.path.join(directory, "in.h5"), "w") as file:
        file["fixed"] = np.array(column, "S8")
        file["grid"] = np.array(column * 2, "S8").reshape(ROWS, 2)
        file.create_dataset("variable", data=[w.decode() for w in column], dtype=h5py.string_dtype())
        space = h5py.h5t.C_S1.copy()
        space.set_size(8)
        space.set_strpad(h5py.h5t.STR_SPACEPAD)
        rows = h5py.h5s.create_simple((ROWS,))
        padded = h5py.h5d.create(file.id, b"padded", space, rows)
        padded.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([w.ljust(8) for w in column], "S8"), space)
    there_and_back(program, directory)
    compare_files(directory)
    with h5py.File(os.path.join(directory, "back.h5"), "r") as file:
        assert file["padded"].id.get_type().get_strpad() == h5py.h5t.STR_SPACEPAD


def test_sequences_and_opaque_values(program, directory):
    with h5py.File(os.path.join(directory, "in.h5"), "w") as file:
        ragged = file.create_dataset("ragged", (ROWS,), dtype=h5py.vlen_dtype(np.dtype("f8")))
        small = file.create_dataset("small", (ROWS,), dtype=h5py.vlen_dtype(np.dtype("i2")))
        for i in range(ROWS):
            ragged[i] = np.arange(i % 4) / 3
            small[i] = np.arange(i % 3) - 1
        file["opaque"] = np.frombuffer(bytes(range(ROWS * 5 % 256)) * 5, "V5")[:ROWS]
    there_and_back(program, directory)
    compare_files(directory)


def test_attributes_fill_values_and_groups(program, directory):
    with h5py.File(os.path.join(directory, "in.h5"), "w") as file:
        add_attributes(file)
        for i, code in enumerate(["<f4", ">f8", "<i2", "<u8", "<f2"]):
            fill = -1.5 if "f" in code else 7
            d = file.create_dataset("a/b%d/x" % i, (ROWS, 3), code, chunks=(4, 3), fillvalue=fill)
            d[3:9] = bits(code, (6, 3), i)
            add_attributes(d)
        nan = file.create_dataset("nan", (ROWS,), "f4", chunks=(8,), fillvalue=np.nan)
        nan[:2] = 1
        file.create_dataset("flags", data=np.ones(ROWS, bool), fillvalue=True)
        file.create_dataset("fixed", data=np.array([b"ab"] * ROWS, "S4"), fillvalue=b"zz")
        file.create_dataset("top", (ROWS,), "u8", chunks=(8,), fillvalue=2**64 - 1)
    there_and_back(program, directory)
    compare_files(directory)


def test_chunks_and_filters_are_kept_unless_told(program, directory):
    data = np.arange(ROWS * 5, dtype="f4").reshape(ROWS, 5)
    with h5py.File(os.path.join(directory, "in.h5"), "w") as file:
        file.create_dataset("plain", data=data, chunks=(6, 5))
        file.create_dataset("gzip", data=data, chunks=(7, 5), compression="gzip", compression_opts=7, shuffle=True)
        file.create_dataset("lzf", data=data, chunks=(8, 5), compression="lzf", fletcher32=True)
        file.create_dataset("narrow", data=data, chunks=(10, 1), compression="gzip")
    there_and_back(program, directory)
    with h5py.File(os.path.join(directory, "back.h5"), "r") as file:
        assert file["plain"].chunks == (6, 5) and file["plain"].compression is None
        assert (file["gzip"].chunks, file["gzip"].compression_opts, file["gzip"].shuffle) == ((7, 5), 7, True)
        assert (file["lzf"].compression, file["lzf"].fletcher32) == ("lzf", True)
        assert file["narrow"].chunks == (2, 5)  # whole rows, about as many bytes
    compare_files(directory, storage=False)
    there_and_back(program, directory, ", chunk=5, gzip=1, shuffle=false")
    with h5py.File(os.path.join(directory, "back.h5"), "r") as file:
        for dataset in file.values():
            assert (dataset.chunks, dataset.compression_opts, dataset.shuffle) == ((5, 5), 1, False), dataset.name
    compare_files(directory, storage=False)


def test_fields_by_name_and_compounds(program, directory):
    table = np.zeros(ROWS, [("a", "i4"), ("b", "f8", (2,))])
    table["a"], table["b"] = np.arange(ROWS), np.arange(ROWS * 2).reshape(ROWS, 2) / 3
    with h5py.File(os.path.join(directory, "in.h5"), "w") as file:
        file["deep/table"] = table
        file["deep/x"] = np.arange(ROWS, dtype="u2")
    run(program, directory, 'hdf5("in.h5", y="/deep/x", t="/deep/table") | write_tfrecord("out/part-%d", shards=2)')
    run(program, directory, BACK % "")
    with h5py.File(os.path.join(directory, "back.h5"), "r") as file:
        assert file["deep/x"].dtype == "u2" and (file["deep/x"][()] == np.arange(ROWS)).all()
        assert file["deep/table/a"].dtype == "i4" and (file["deep/table/a"][()] == table["a"]).all()
        assert file["deep/table/b"].dtype == "f8" and (file["deep/table/b"][()] == table["b"]).all()


def test_types_come_back_without_the_schema_in_parse(program, directory):
    with h5py.File(os.path.join(directory, "in.h5"), "w") as file:
        file["small"] = bits("i2", (ROWS, 2, 2), 1)
        file["half"] = bits("f2", (ROWS,), 2)
        file["half"][:] = np.arange(ROWS) / 4
        file["flag"] = np.arange(ROWS) % 2 == 0
    run(program, directory, 'hdf5("in.h5") | write_tfrecord("out/part-%d", shards=2)')
    run(program, directory, 'tfrecord("out/part-*") | interleave | parse(flag=int64, half=float32, small=int64[4]) | '
                            'write_hdf5("back.h5", schema="out/part.schema.json")')
    compare_files(directory)
    _, errors = run(program, directory, 'range(3) | cast(value=int64) | rename(flag=value) | write_hdf5("no.h5", '
                                        'schema="out/part.schema.json")', 1)
    assert "has 2 as value 0, which does not fit the bool of the schema" in errors, errors
    assert not os.path.exists(os.path.join(directory, "no.h5"))
    _, errors = run(program, directory, 'range(3) | rename(small=value) | write_hdf5("no.h5", schema="out/part.schema.json")', 2)
    assert "field 'small' is int64 here and int16[2, 2] in the schema" in errors, errors


def test_schema_tells_what_the_file_holds(program, directory):
    with h5py.File(os.path.join(directory, "in.h5"), "w") as file:
        x = file.create_dataset("g/x", data=np.zeros((ROWS, 3), ">f8"), chunks=(4, 3), compression="gzip", fillvalue=2.5)
        x.attrs["unit"] = "m"
    run(program, directory, 'hdf5("in.h5", x="/g/x") | write_tfrecord("out/part-%05d", shards=2)')
    with open(os.path.join(directory, "out/part.schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    field = schema["fields"][0]
    assert schema["stoker_schema"] == 1 and schema["rows"] == ROWS
    assert (field["name"], field["dtype"], field["shape"], field["dataset"]) == ("x", "float64", [3], "/g/x"), field
    assert field["big_endian"] is True and field["fill"] == 2.5 and field["chunk"] == [4, 3], field
    assert [f["id"] for f in field["filters"]] == [1] and field["attributes"][0]["values"] == ["m"], field


def test_file_without_rows(program, directory):
    with h5py.File(os.path.join(directory, "in.h5"), "w") as file:
        file.create_dataset("x", (0, 3), "f8", chunks=(4, 3), maxshape=(None, 3))
        file.create_dataset("y", (0,), "u1", chunks=(4,), maxshape=(None,))
    there_and_back(program, directory)
    compare_files(directory)


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, *where: test(*where)))
