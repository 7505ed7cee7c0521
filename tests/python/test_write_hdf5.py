#!/usr/bin/env python3
"""write_hdf5 and h5py: it reads what we write, with the types, shapes, chunks and filters that were asked for.

Usage: python3 tests/python/test_write_hdf5.py BUILD_DIR
Needs h5py; exit status 77 without it. Prints "N passed, N failed"; the exit status is 1 when a test failed.
"""
import os
import resource
import struct
import subprocess
import sys

import runlib

try:
    import h5py
    import numpy
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)
try:
    import hdf5plugin
except ImportError:
    hdf5plugin = None

# How each type looks to h5py, which has no bfloat16 and makes float32 of it.
DTYPES = {"bool": "bool", "uint8": "<u1", "int8": "<i1", "uint16": "<u2", "int16": "<i2", "uint32": "<u4",
          "int32": "<i4", "uint64": "<u8", "int64": "<i8", "float16": "<f2",
          "bfloat16": "<f4", "float32": "<f4", "float64": "<f8"}
SHAPES = [(), (3,), (2, 3), (2, 1, 3), (2, 2, 1, 2), (1, 2, 1, 2, 3)]


# ---- TFRecords to start from ----

def crc_table():
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    return table


CRC_TABLE = crc_table()


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def varint(x):
    out = bytearray()
    while x >= 0x80:
        out.append(x & 0x7F | 0x80)
        x >>= 7
    out.append(x)
    return bytes(out)


def block(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(values):
    """A tf.train.Feature of a list of bytes, or of an array of floats or integers."""
    if isinstance(values, list):
        return block(1, b"".join(block(1, v) for v in values))
    if values.dtype.kind == "f":
        return block(2, block(1, values.astype("<f4").tobytes()))
    return block(3, block(1, b"".join(varint(int(v) & 0xFFFFFFFFFFFFFFFF) for v in values.ravel())))


def write_records(path, rows):
    with open(path, "wb") as out:
        for row in rows:
            features = b"".join(block(1, block(1, k.encode()) + block(2, feature(v))) for k, v in row.items())
            record = block(1, features)
            head = struct.pack("<Q", len(record))
            out.write(head + masked_crc(head) + record + masked_crc(record))


# ---- running ----

class Place:
    def __init__(self, program, directory):
        self.program, self.directory = program, directory

    def path(self, name):
        return os.path.join(self.directory, name)

    def run(self, pipeline, status=0, threads=2, before=None):
        command = [self.program, "run", "--quiet", "--threads", str(threads), "-e", pipeline]
        done = subprocess.run(command, cwd=self.directory, stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
                              check=False, preexec_fn=before)
        told = done.stderr.decode()
        assert done.returncode == status, "exit status %d for %s: %s" % (done.returncode, pipeline, told)
        return told

    def open(self, name="out.h5"):
        return h5py.File(self.path(name), "r")

    def bytes(self, name):
        with open(self.path(name), "rb") as data:
            return data.read()

    def files(self):
        return sorted(os.listdir(self.directory))


def dims(shape):
    return "[%s]" % ", ".join(map(str, shape)) if shape else ""


def rows_of(array, name="x"):
    return [{name: row} for row in array.reshape((len(array), -1) if array.ndim > 1 else (-1, 1))]


def equal(found, wanted):
    assert found.shape == wanted.shape, "shape %s, wanted %s" % (found.shape, wanted.shape)
    assert found.dtype == wanted.dtype, "dtype %s, wanted %s" % (found.dtype, wanted.dtype)
    numpy.testing.assert_array_equal(found, wanted)


def floats(rows=300, columns=50, seed=1):
    return numpy.cumsum(numpy.random.default_rng(seed).integers(-3, 4, (rows, columns)), axis=1).astype("<f4") / 8


# ---- tests ----

def test_every_type_in_every_rank(place):
    for shape in SHAPES:
        wanted = numpy.arange(11 * int(numpy.prod(shape, dtype=int))).reshape((11,) + shape) % 2**7
        write_records(place.path("in"), rows_of(wanted))
        for name, dtype in DTYPES.items():
            place.run('tfrecord("in") | parse(x=int64%s) | cast(x=%s) | batch(4) | '
                      'write_hdf5("out.h5", chunk=3, gzip=1)' % (dims(shape), name))
            with place.open() as f:
                equal(f["x"][()], wanted.astype(dtype))
                assert f["x"].chunks == (3,) + shape and f["x"].maxshape == (None,) + shape
                assert f["x"].id.get_type().get_size() == (2 if name == "bfloat16" else numpy.dtype(dtype).itemsize)


def test_extreme_values(place):
    ints = numpy.array([0, -1, 1, 2**63 - 1, -2**63, 2**31])
    reals = numpy.array([0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 1e-45, 3.4e38], "<f4")
    write_records(place.path("in"), [{"x": ints, "y": reals}] * 3)
    place.run('tfrecord("in") | parse(x=int64[6], y=float32[7]) | write_hdf5("out.h5")')
    with place.open() as f:
        assert f["x"][()].tobytes() == numpy.array([ints] * 3).tobytes()
        assert f["y"][()].tobytes() == numpy.array([reals] * 3).tobytes()


def test_chunks_are_as_asked_for(place):
    data = floats(200, 20)
    write_records(place.path("in"), rows_of(data))
    for chunk, batch in ((1, 7), (7, 1), (64, 64), (199, 1000), (200, 3), (201, 64), (5000, 10), (0, 16)):
        for options in ("", ", gzip=4"):
            place.run('tfrecord("in") | parse(x=float32[20]) | batch(%d) | write_hdf5("out.h5", chunk=%d%s)'
                      % (batch, chunk, options))
            with place.open() as f:
                equal(f["x"][()], data)
                assert f["x"].chunks == (chunk or 200, 20)


def test_chunks_of_about_a_mebibyte(place):
    place.run('range(300000) | batch(10000) | write_hdf5("out.h5", gzip=1)')
    with place.open() as f:
        assert f["value"].chunks == (65536,)
        equal(f["value"][()], numpy.arange(300000))


def filters_of(dataset):
    plist = dataset.id.get_create_plist()
    return [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]


def test_every_compressor(place):
    noise = numpy.random.default_rng(2).integers(0, 2**62, (300, 50))
    write_records(place.path("in"), [{"x": a, "n": b} for a, b in zip(floats(), noise)])
    number = {"gzip=1": 1, "gzip=4": 1, "gzip=9": 1, "lzf=true": 32000, "zstd=1": 32015, "zstd=19": 32015}
    for option, compressor in number.items():
        for shuffle in ("true", "false"):
            for checksum in ("true", "false"):
                place.run('tfrecord("in") | parse(x=float32[50], n=int64[50]) | '
                          'write_hdf5("out.h5", chunk=64, %s, shuffle=%s, fletcher32=%s)' % (option, shuffle, checksum))
                with place.open() as f:
                    wanted = [2] * (shuffle == "true") + [compressor] + [3] * (checksum == "true")
                    assert filters_of(f["x"]) == wanted and filters_of(f["n"]) == wanted
                    stored = f["x"].id.get_storage_size()
                    assert stored < 384 * 50 * 4 * 0.9, "%d bytes with %s" % (stored, option)
                    if compressor != 32015 or hdf5plugin:
                        equal(f["x"][()], floats())
                        equal(f["n"][()], noise)


def test_without_compressor_there_is_no_shuffle(place):
    place.run('range(10) | write_hdf5("a.h5") ')
    place.run('range(10) | write_hdf5("b.h5", fletcher32=true)')
    with place.open("a.h5") as a, place.open("b.h5") as b:
        assert filters_of(a["value"]) == [] and filters_of(b["value"]) == [3]
        equal(b["value"][()], numpy.arange(10))


def test_bytes_are_not_shuffled(place):
    place.run('range(10) | cast(value=uint8) | write_hdf5("out.h5", gzip=4)')
    with place.open() as f:
        assert filters_of(f["value"]) == [1]
        equal(f["value"][()], numpy.arange(10, dtype="u1"))


def test_file_depends_on_neither_threads_nor_batches(place):
    rows = [{"x": row, "many": numpy.arange(i % 5), "s": [b"text %d" % i * (i % 300)]}
            for i, row in enumerate(floats(2000, 40))]
    write_records(place.path("in"), rows)
    found = set()
    for threads, batch in ((1, 10), (8, 10), (8, 1), (2, 333), (3, 5000)):
        place.run('tfrecord("in") | parse(x=float32[40], many=int64[], s=bytes) | batch(%d) | '
                  'write_hdf5("out.h5", chunk=16, gzip=4)' % batch, threads=threads)
        found.add(place.bytes("out.h5"))
    assert len(found) == 1
    with place.open() as f:
        equal(f["x"][()], floats(2000, 40))
        assert [list(r) for r in f["many"]] == [list(range(i % 5)) for i in range(2000)]
        assert [s.decode() for s in f["s"]] == ["text %d" % i * (i % 300) for i in range(2000)]


def test_sequences(place):
    rows = [{"i": numpy.arange(k * 7 % 23), "f": numpy.arange(k % 3, dtype="<f4") / 2} for k in range(500)]
    write_records(place.path("in"), rows)
    for name in ("int64", "uint8", "bool", "float16", "float64"):
        place.run('tfrecord("in") | parse(i=int64[], f=float32[]) | cast(i=%s) | batch(13) | '
                  'write_hdf5("out.h5", chunk=50)' % name)
        with place.open() as f:
            assert f["i"].chunks == (50,) and f["i"].shape == (500,)
            for k in range(500):
                equal(f["i"][k].astype(DTYPES[name]), rows[k]["i"].astype(DTYPES[name]))
                equal(f["f"][k], rows[k]["f"])


def test_sequences_of_bfloat16(place):
    write_records(place.path("in"), [{"x": numpy.arange(k)} for k in range(9)])
    place.run('tfrecord("in") | parse(x=int64[]) | cast(x=bfloat16) | write_hdf5("out.h5")')
    with place.open() as f:
        for k in range(9):
            assert list(f["x"][k]) == list(range(k))


def test_padded_batches_are_dense(place):
    write_records(place.path("in"), [{"x": numpy.arange(k % 4), "s": [b"ab"] * (k % 3)} for k in range(12)])
    place.run('tfrecord("in") | parse(x=int64[], s=bytes[]) | batch(12, pad=true, pad_value=0) | write_hdf5("out.h5")')
    with place.open() as f:
        equal(f["x"][()], numpy.array([list(range(k % 4)) + [0] * (3 - k % 4) for k in range(12)]))
        assert f["s"].shape == (12, 2)
        assert [[s for s in row] for row in f["s"]] == [[b"ab"] * (k % 3) + [b""] * (2 - k % 3) for k in range(12)]
    message = place.run('tfrecord("in") | parse(x=int64[]) | batch(1, pad=true) | write_hdf5("two.h5")', status=2)
    assert "field 'x'" in message and "a dataset has one shape" in message, message
    assert place.files() == ["in", "out.h5"]


def test_ragged_lists_of_bytes_are_refused(place):
    write_records(place.path("in"), [{"s": [b"ab"] * k} for k in range(3)])
    message = place.run('tfrecord("in") | parse(s=bytes[]) | batch(3) | write_hdf5("out.h5")', status=2)
    assert "field 's'" in message and "pad=true" in message, message
    assert place.files() == ["in"]


def test_strings(place):
    words = ["", "a", "größer", "日本語", "x" * 5000] * 40
    write_records(place.path("in"), [{"s": [w.encode()], "t": [b"p%d" % i, b"q"]} for i, w in enumerate(words)])
    place.run('tfrecord("in") | parse(s=bytes, t=bytes[2]) | batch(7) | write_hdf5("out.h5", gzip=4)')
    with place.open() as f:
        assert list(f["s"].asstr()[()]) == words
        assert f["s"].id.get_type().get_cset() == h5py.h5t.CSET_UTF8
        assert f["t"].shape == (200, 2)
        assert [list(r) for r in f["t"].asstr()[()]] == [["p%d" % i, "q"] for i in range(200)]


def test_bytes_that_are_no_text(place):
    blobs = [b"plain", b"with\0nul", bytes(range(256)) * 20, b""]
    write_records(place.path("in"), [{"b": [x]} for x in blobs])
    message = place.run('tfrecord("in") | parse(b=bytes) | batch(4) | write_hdf5("out.h5")', status=2)
    for part in ("out.h5: record 1:", "field 'b'", "NUL at byte 4", "binary=["):
        assert part in message, message
    write_records(place.path("latin"), [{"b": [b"gr\xf6\xdfer"]}])
    message = place.run('tfrecord("latin") | parse(b=bytes) | batch(4) | write_hdf5("out.h5")', status=2)
    assert "not UTF-8" in message and "binary=[" in message, message
    assert place.files() == ["in", "latin"]
    place.run('tfrecord("in") | parse(b=bytes) | batch(4) | write_hdf5("out.h5", binary=[b])')
    with place.open() as f:
        assert [x.tobytes() for x in f["b"]] == blobs and f["b"][0].dtype == "u1"


def test_no_rows(place):
    write_records(place.path("in"), [])
    place.run('tfrecord("in") | parse(x=float32[2, 3], y=int64, many=int64[], s=bytes, t=bytes[]) | '
              'write_hdf5("out.h5", gzip=4)')
    with place.open() as f:
        assert f["x"].shape == (0, 2, 3) and f["y"].shape == (0,) and f["many"].shape == (0,) and f["s"].shape == (0,)
        assert f["t"].shape == (0, 0)
        assert f["x"].dtype == "<f4" and h5py.check_vlen_dtype(f["many"].dtype) == numpy.dtype("<i8")


def test_rows_without_values(place):
    write_records(place.path("in"), [{"x": numpy.arange(0)}] * 5)
    place.run('tfrecord("in") | parse(x=int64[0]) | write_hdf5("out.h5", gzip=4)')
    with place.open() as f:
        assert f["x"].shape == (5, 0)


def test_many_small_chunks(place):
    place.run('range(20000) | batch(100) | write_hdf5("out.h5", chunk=1, gzip=1)')
    with place.open() as f:
        equal(f["value"][()], numpy.arange(20000))


def test_every_reader_can_open_it(place):
    place.run('range(5) | write_hdf5("out.h5")')
    data = place.bytes("out.h5")
    assert data[:9] == b"\x89HDF\r\n\x1a\n\x00", "superblock of version %d" % data[8]


def test_file_is_replaced_at_the_end(place):
    place.run('range(5) | write_hdf5("deep/er/out.h5")')
    place.run('range(7) | write_hdf5("deep/er/out.h5")')
    with place.open("deep/er/out.h5") as f:
        equal(f["value"][()], numpy.arange(7))
    assert os.listdir(place.path("deep/er")) == ["out.h5"]


def test_file_that_cannot_be_made(place):
    open(place.path("plain"), "w").close()
    for path in ("plain/out.h5", "/proc/no/out.h5", "."):
        message = place.run('range(5) | write_hdf5("%s")' % path, status=1)
        assert path.split("/out")[0] in message, message
    assert place.files() == ["plain"]


def test_disk_that_is_full(place):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000))
    noise = numpy.random.default_rng(3).integers(0, 2**62, (200, 300))
    write_records(place.path("in"), rows_of(noise))
    # Once while chunks are written, once when all else is.
    for rows, options in ((200, "chunk=4, gzip=1"), (125, "chunk=1")):
        message = place.run('tfrecord("in") | take(%d) | parse(x=int64[300]) | batch(4) | write_hdf5("out.h5", %s)'
                            % (rows, options), status=1, before=limit)
        assert "out.h5" in message and "File too large" in message, message
        assert place.files() == ["in"]


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, *where: test(Place(*where))))
