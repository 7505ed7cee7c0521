#!/usr/bin/env python3
"""Asks stoker-hdf5 where the data of many files lies, reads it there, and compares with what h5py reads.

Usage: python3 tests/python/test_hdf5_helper.py BUILD_DIR
Needs numpy and h5py; exit status 77 without them. Prints "N passed, N failed"; the exit status is 1 when a test failed.
"""
import ctypes
import itertools
import os
import struct
import subprocess
import sys
import tempfile
import zlib

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

DESCRIBE, INDEX, READ = 1, 2, 3
OK, INVALID = 0, 3
PATH, DIM, ELEMENT, LAYOUT, WHY, LEAF = 1, 3, 5, 6, 7, 8
CHUNK_DIM, FILTER, FILL, RAW_EDGES, ADDRESS, COMPACT, CHUNKS, INDEX_NAME = 9, 10, 11, 12, 13, 14, 17, 19
LETTER = dict(zip(range(1, 8), "iufuuVV"))  # of kinds, from KIND_INT to KIND_OPAQUE


# ---- the protocol ----

def varint(x):
    out = bytearray()
    while x >= 0x80:
        out.append(x & 0x7f | 0x80)
        x >>= 7
    return bytes(out) + bytes([x])


def put(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def parse(data):
    """Field number -> list of numbers and bytes."""
    at, out = 0, {}

    def number():
        nonlocal at
        x = shift = 0
        while True:
            byte = data[at]
            at += 1
            x |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return x

    while at < len(data):
        tag = number()
        value = number()
        if tag & 7 == 2:
            value, at = data[at:at + value], at + value
        out.setdefault(tag >> 3, []).append(value)
    return out


class Helper:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, kind, path, datasets=(), first=0, rows=0):
        names = b"".join(put(3, name) for name in datasets)
        message = put(1, kind) + put(2, path) + names + put(4, first) + put(5, rows)
        self.process.stdin.write(struct.pack("<Q", len(message)) + message)
        self.process.stdin.flush()
        size, = struct.unpack("<Q", self.process.stdout.read(8))
        return parse(self.process.stdout.read(size))

    def datasets(self, kind, path, names=()):
        answer = self.ask(kind, path, names)
        assert answer[1] == [OK], answer
        return [parse(d) for d in parse(answer[3][0])[6]]


# ---- chunks ----

def undo(raw, filters, mask, size):
    for i, f in reversed(list(enumerate(filters))):
        if mask >> i & 1:
            continue
        if f[1] == [1]:
            raw = zlib.decompress(raw)
        elif f[1] == [2]:
            width = f[3][0]
            whole = len(raw) // width * width
            raw = np.frombuffer(raw[:whole], "u1").reshape(width, -1).T.tobytes() + raw[whole:]
        elif f[1] == [3]:
            raw = raw[:-4]
    assert len(raw) == size, (len(raw), size)
    return raw


def load(path, d):
    """All data of a dataset as bytes of its elements, found by what the helper said alone."""
    element, shape = d[ELEMENT][0], d.get(DIM, [])
    out = np.empty(shape, f"V{element}")
    out[...] = np.frombuffer(d.get(FILL, [bytes(element)])[0], out.dtype)[0]
    with open(path, "rb") as f:
        if d[LAYOUT] == [0]:
            return d[COMPACT][0]
        if d[LAYOUT] == [1]:
            if ADDRESS in d:
                f.seek(d[ADDRESS][0])
                return f.read(out.nbytes)
            return out.tobytes()
        chunk = d[CHUNK_DIM]
        grid = [-(-n // c) for n, c in zip(shape, chunk)]
        filters = [parse(x) for x in d.get(FILTER, [])]
        table = np.frombuffer(d[CHUNKS][0], "<u8").reshape(-1, 4)
        assert np.all(np.diff(table[:, 0].astype("i8")) > 0)
        for number, address, size, mask in table.tolist():
            at = [i * c for i, c in zip(np.unravel_index(number, grid), chunk)]
            edge = any(a + c > n for a, c, n in zip(at, chunk, shape))
            f.seek(address)
            raw = f.read(size)
            whole = int(np.prod(chunk)) * element
            if not (edge and d.get(RAW_EDGES)):
                raw = undo(raw, filters, mask, whole)
            values = np.frombuffer(raw, out.dtype).reshape(chunk)
            clip = tuple(slice(0, min(c, n - a)) for a, c, n in zip(at, chunk, shape))
            out[tuple(slice(a, a + c) for a, c in zip(at, chunk))] = values[clip]
    return out.tobytes()


# ---- files ----

def no_filter_at_edges(creation):
    """h5py does not offer H5Pset_chunk_opts."""
    library = next(line.split()[-1] for line in open("/proc/self/maps") if "libhdf5" in line and "_hl" not in line)
    call = ctypes.CDLL(library).H5Pset_chunk_opts
    call.argtypes = [ctypes.c_int64, ctypes.c_uint]
    assert call(creation.id, 2) >= 0


def make(group, name, shape, limit, chunk, filters, state, early=False, edges=False):
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_chunk(chunk)
    creation.set_fill_value(np.array(-7, "f4"))
    if "shuffle" in filters:
        creation.set_shuffle()
    for _ in range(filters.count("gzip")):
        creation.set_deflate(3)
    if "fletcher32" in filters:
        creation.set_fletcher32()
    if early:
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    if edges:
        no_filter_at_edges(creation)
    space = h5py.h5s.create_simple(shape, tuple(h5py.h5s.UNLIMITED if n is None else n for n in limit))
    d = h5py.Dataset(h5py.h5d.create(group.id, name.encode(), h5py.h5t.IEEE_F32LE, space, creation))
    values = np.random.default_rng(len(name)).integers(0, 50, shape).astype("f4")
    if state == "sparse":
        for at in itertools.islice(np.ndindex(*(-(-n // c) for n, c in zip(shape, chunk))), 1, None, 3):
            place = tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, chunk))
            d[place] = values[place]
    elif state != "empty":
        d[...] = values
    if state == "shrunk":
        d.resize(tuple(max(1, n * 2 // 3) if m is None else n for n, m in zip(shape, limit)))
    if state == "grown":
        d.resize(tuple(n + 5 if m is None else n for n, m in zip(shape, limit)))


SHAPES = {1: ((37,), (5,)), 2: ((23, 14), (4, 3)), 3: ((9, 8, 7), (2, 3, 7)), 4: ((5, 4, 6, 3), (2, 4, 5, 1))}


def make_matrix(path, libver, block):
    with h5py.File(path, "w", libver=libver, userblock_size=block) as f:
        for rank, (shape, chunk) in SHAPES.items():
            limits = [shape, tuple(n + 9 for n in shape), (None,) * rank] + [
                tuple(None if i == d else n for i, n in enumerate(shape)) for d in range(rank)]
            filters = ["", "gzip", "shuffle gzip", "gzip gzip fletcher32"]
            states = ["full", "sparse", "empty", "shrunk", "grown"]
            for i, (limit, kind, state) in enumerate(itertools.product(limits, filters, states)):
                if libver[1] == "v110" or rank < 3:
                    make(f, f"r{rank}-{i}", shape, limit, chunk, kind, state, edges=libver[1] == "v110" and i % 2 == 0)
            make(f, f"one-{rank}", shape, shape, shape, "shuffle gzip", "full")
            make(f, f"early-{rank}", shape, shape, chunk, "", "full", early=True)
        make(f, "paged", (5000,), (5000,), (2,), "gzip", "sparse")
        make(f, "many", (6, 3000), (6, None), (2, 3), "gzip", "sparse")


def matrix_of_chunk_indexes_agrees_with_h5py(helper, folder):
    kinds = set()
    for libver, block in itertools.product([("earliest", "v108"), ("v110", "v110")], [0, 4096]):
        path = os.path.join(folder, f"{libver[1]}-{block}.h5")
        make_matrix(path, libver, block)
        with h5py.File(path) as f:
            for d in helper.datasets(INDEX, path):
                name = d[PATH][0].decode()
                assert WHY not in d, (name, d[WHY])
                assert load(path, d) == f[name][()].tobytes(), (path, name)
                kinds.add(d[INDEX_NAME][0])
    wanted = {b"v1 B-tree", b"single chunk", b"implicit", b"fixed array", b"extensible array", b"v2 B-tree"}
    assert kinds == wanted, kinds


def few_chunks_of_a_huge_shape_are_found(helper, folder):
    path = os.path.join(folder, "huge.h5")
    with h5py.File(path, "w", libver=("earliest", "v108")) as f:
        d = f.create_dataset("x", (1 << 40,), "u1", chunks=(1 << 10,), compression="gzip")
        for i in (0, 5, 1 << 29, (1 << 30) - 1):
            d[i << 10] = i % 250 + 1
    d, = helper.datasets(INDEX, path)
    assert np.frombuffer(d[CHUNKS][0], "<u8").reshape(-1, 4)[:, 0].tolist() == [0, 5, 1 << 29, (1 << 30) - 1]


# ---- types ----

def leaf_values(data, element, leaf, rows):
    """The values of a leaf, as numpy would have them."""
    kind, shape = leaf[2][0], leaf.get(7, [])
    order = ">" if leaf.get(5) else "<"
    dtype = f"{order}{LETTER[kind]}{leaf[3][0]}" if LETTER[kind] != "V" else f"V{leaf[3][0]}"
    return np.ndarray([rows] + shape, dtype, data, leaf[4][0], [element] + leaf.get(8, []))


def types_agree_with_h5py(helper, folder):
    path = os.path.join(folder, "types.h5")
    rng = np.random.default_rng(1)
    inner = np.dtype([("c", "u1"), ("d", ">f8", (2,))])
    nested = np.dtype([("a", ">i4"), ("b", "<f2", (2, 3)), ("s", "S5"), ("in", inner, (3,))], align=True)
    kinds = [o + k for o in "<>" for k in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8")]
    with h5py.File(path, "w") as f:
        for i, dtype in enumerate(kinds + ["S3", "V7", "?", nested]):
            dtype = np.dtype(dtype)
            raw = rng.integers(0, 2, 11 * dtype.itemsize, "u1")
            f.create_dataset(f"t{i:02}", data=raw.view(dtype), chunks=(4,) if i % 2 else None)
    with h5py.File(path) as f:
        for d in helper.datasets(INDEX, path):
            data = load(path, d)
            for leaf in map(parse, d[LEAF]):
                wanted = f[d[PATH][0].decode()][()]
                for name in filter(None, leaf[1][0].decode().split("/")):
                    wanted = wanted[name] if wanted.dtype.names else {"r": wanted.real, "i": wanted.imag}[name]
                found = leaf_values(data, d[ELEMENT][0], leaf, 11)
                assert found.shape == wanted.shape and found.tobytes() == wanted.tobytes(), (d[PATH], leaf)


def rows_read_by_the_library_agree_with_h5py(helper, folder):
    path = os.path.join(folder, "library.h5")
    words = ["", "a", "stoker", "\u00e4"] * 5
    odd = h5py.h5t.STD_I32BE.copy()
    odd.set_precision(20)
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=np.arange(60).reshape(20, 3))
        layout = h5py.VirtualLayout((20, 3), "i8")
        layout[...] = h5py.VirtualSource(f["x"])
        f.create_virtual_dataset("virtual", layout)
        f.create_dataset("external", data=np.arange(20.), external=[(os.path.join(folder, "raw.bin"), 0, 160)])
        d = h5py.h5d.create(f.id, b"odd", odd, h5py.h5s.create_simple((20,)))
        d.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(-10, 10, dtype="i4"))
        f.create_dataset("long", data=np.arange(20, dtype=np.longdouble) / 8)
        f.create_dataset("words", data=words, dtype=h5py.string_dtype(), chunks=(3,), compression="gzip")
    wanted = {"/virtual": np.arange(60).reshape(20, 3), "/external": np.arange(20.),
              "/odd": np.arange(-10, 10, dtype="i4"), "/long": np.arange(20) / 8.}
    for d in helper.datasets(DESCRIBE, path, wanted):
        name = d[PATH][0].decode()
        assert d[WHY], name
        leaf, = map(parse, d[LEAF])
        assert leaf[3] == [wanted[name].itemsize] and not leaf.get(5), (name, leaf)
        answer = helper.ask(READ, path, [name], 4, 11)
        assert answer[4][0] == wanted[name][4:15].tobytes(), (name, answer)
    answer = helper.ask(READ, path, ["/words"], 1, 19)
    found = [answer[5][0][at:at + n].decode() for n, at, _ in struct.iter_unpack("<IQI", answer[4][0])]
    assert found == words[1:], found
    assert helper.ask(READ, path, ["/words"], 1, 20)[1] == [INVALID]
    assert helper.ask(DESCRIBE, path, ["/nothing"])[1] == [INVALID]


TESTS = [matrix_of_chunk_indexes_agrees_with_h5py, few_chunks_of_a_huge_shape_are_found, types_agree_with_h5py,
         rows_read_by_the_library_agree_with_h5py]


def main():
    failed = 0
    for test in TESTS:
        with tempfile.TemporaryDirectory() as folder:
            helper = Helper(os.path.join(sys.argv[1], "libexec", "stoker-hdf5"))
            try:
                test(helper, folder)
            except Exception as problem:
                failed += 1
                print(f"FAILED {test.__name__}: {type(problem).__name__}: {problem}")
            helper.process.stdin.close()
            helper.process.wait(20)
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
