#!/usr/bin/env python3
"""Write tests/unit/hdf5_codec_cases.h: chunks as libhdf5 and its plug-ins store them, and what libhdf5 reads from them.

The output is committed; run this again only to change it. Needs h5py, hdf5plugin and numpy from PyPI. The numbers come
from formulas, so running it twice with the same versions gives the same bytes.
"""
import os
import tempfile
import textwrap

import h5py
import hdf5plugin
import numpy as np
from h5py import h5d, h5p, h5s, h5t, h5z

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(os.path.dirname(HERE), "unit", "hdf5_codec_cases.h")
LINE = 96
HEAD = """/* Chunks as libhdf5 and its plug-ins store them; made by tests/data/make_hdf5_codec_cases.py. */
#ifndef STK_TESTS_HDF5_CODEC_CASES_H
#define STK_TESTS_HDF5_CODEC_CASES_H

#include <stddef.h>
#include <stdint.h>

/* One chunk: the client values of its filter, and its bytes in hexadecimal as stored and as read. */
typedef struct codec_case {
    const char *name;
    uint32_t id;
    size_t value_count, chunk_bytes;
    uint32_t values[64];
    const char *stored, *decoded;
} codec_case;

/* clang-format off */
static const codec_case cases[] = {"""


def numbers(dtype, count):
    """Small steps with a few jumps."""
    i = np.arange(count)
    x = i * 3 % 17 + (i % 11 == 7) * 40
    return (x / 8 if np.dtype(dtype).kind == "f" else x).astype(dtype)


def noise(count):
    """Bytes that look random."""
    state, out = 12345, bytearray()
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        out.append(state >> 16 & 255)
    return bytes(out)


class Cases:
    def __init__(self, file):
        self.file, self.lines, self.count = file, [], 0

    def dataset(self, type_id, chunk, prepare):
        plist = h5p.create(h5p.DATASET_CREATE)
        plist.set_chunk(chunk)
        prepare(plist)
        self.count += 1
        return h5d.create(self.file.id, b"d%d" % self.count, type_id, h5s.create_simple(chunk), plist)

    def add(self, name, type_id, chunk, raw, prepare):
        """One chunk whose bytes, as the type has them, are `raw`."""
        d = self.dataset(type_id, chunk, prepare)
        size = d.get_type().get_size()
        data = np.frombuffer(raw, "V%d" % size).reshape(chunk).copy()
        d.write(h5s.ALL, h5s.ALL, data, d.get_type())
        code, _, values, _ = d.get_create_plist().get_filter(0)
        mask, stored = d.read_direct_chunk((0,) * len(chunk))
        assert mask == 0, name
        back = np.zeros(chunk, "V%d" % size)
        d.read(h5s.ALL, h5s.ALL, back, d.get_type())
        self.lines += ['    {"%s", %d, %d, %d,' % (name, code, len(values), back.nbytes), "     {"]
        self.lines += textwrap.wrap(", ".join("%d" % v for v in values) or "0", LINE, initial_indent=" " * 6,
                                    subsequent_indent=" " * 6)
        self.lines += ["     },"]
        self.lines += self.text(stored, ",") + self.text(back.tobytes(), "},")

    @staticmethod
    def text(data, end):
        hexes = data.hex()
        parts = ['     "%s"' % hexes[i:i + LINE] for i in range(0, len(hexes), LINE)]
        return parts[:-1] + [parts[-1] + end]

    def numbers(self, name, dtype, chunk, prepare):
        raw = numbers(dtype, int(np.prod(chunk))).tobytes()
        self.add("%s %s" % (name, dtype), h5t.py_create(np.dtype(dtype)), chunk, raw, prepare)


def szip(cases):
    for dtype, chunk, mask, block in (("<i1", (48,), 32, 8), ("<u2", (4, 10), 4, 8), (">i2", (32,), 32, 16),
                                      ("<i4", (24,), 32, 8), (">f4", (3, 10), 4, 4), ("<f8", (3, 9), 32, 8),
                                      (">u8", (32,), 4, 32)):
        cases.numbers("szip", dtype, chunk, lambda p: p.set_szip(mask, block))
    t = precise(h5t.STD_I16LE, 12, 0)
    raw = (numbers("<i2", 40) * 3).astype("<i2").tobytes()
    cases.add("szip of 12 bits", t, (40,), raw, lambda p: p.set_szip(32, 8))


def precise(base, precision, offset, size=0, big=False):
    t = base.copy()
    if size:
        t.set_size(size)
    if big:
        t.set_order(h5t.ORDER_BE)
    t.set_precision(precision)
    t.set_offset(offset)
    return t


def compound(size, *members):
    t = h5t.create(h5t.COMPOUND, size)
    for i, (offset, member) in enumerate(members):
        t.insert(b"m%d" % i, offset, member)
    return t


def nbit(cases):
    i17, u5 = precise(h5t.STD_I32LE, 17, 3), precise(h5t.STD_U8LE, 5, 0)
    text = h5t.C_S1.copy()
    text.set_size(7)
    enum = h5t.enum_create(h5t.STD_I16LE)
    enum.enum_insert(b"a", 1)
    flat = compound(20, (0, i17), (5, u5), (8, precise(h5t.STD_U64BE, 40, 11)), (16, enum))
    mixed = compound(32, (0, text), (8, i17), (12, h5t.array_create(u5, (5,))), (20, h5t.IEEE_F64BE))
    for name, t in (("i17", i17), ("u5", u5), ("big u9", precise(h5t.STD_U16BE, 9, 3)),
                    ("big u59", precise(h5t.STD_U64BE, 59, 3)), ("3 bytes", precise(h5t.STD_I64LE, 19, 2, 3)),
                    ("big 16 bytes", precise(h5t.STD_I64LE, 100, 9, 16, True)),
                    ("array", h5t.array_create(i17, (3, 2))),
                    ("array of arrays", h5t.array_create(h5t.array_create(u5, (3,)), (4,))),
                    ("array of texts", compound(22, (0, h5t.array_create(text, (3,))), (21, u5))), ("compound", flat),
                    ("mixed compound", mixed), ("array of compounds", h5t.array_create(flat, (2,))),
                    ("nested compound", compound(60, (0, flat), (20, u5), (24, mixed))),
                    ("array of compounds last", compound(44, (0, u5), (4, h5t.array_create(flat, (2,))))),
                    ("nothing to pack", h5t.STD_I32BE)):
        cases.add("nbit " + name, t, (5,), noise(5 * t.get_size()), lambda p: p.set_filter(5, 0, ()))


def scaleoffset(cases):
    def prepare(dtype, factor, fill):
        def inner(p):
            p.set_scaleoffset(h5z.SO_FLOAT_DSCALE if np.dtype(dtype).kind == "f" else h5z.SO_INT, factor)
            if fill is not None:
                p.set_fill_value(np.array(fill, dtype))
        return inner

    for dtype, factor, fill in (("<i1", 0, None), ("<u2", 0, 3), (">i4", 0, 12), ("<u8", 0, None), (">i8", 0, 0),
                                ("<i2", 7, 3), ("<u4", 32, None), ("<f4", 2, None), (">f4", 1, 0.375),
                                ("<f8", 3, 1.5), (">f8", 0, None)):
        cases.numbers("scaleoffset %d fill %s" % (factor, fill), dtype, (20,), prepare(dtype, factor, fill))
    for dtype in ("<u1", ">i2", "<f4", ">f8"):
        t = h5t.py_create(np.dtype(dtype))
        factor = 9 if "f" in dtype else 0
        cases.add("scaleoffset noise " + dtype, t, (16,), noise(16 * t.get_size()), prepare(dtype, factor, None))


def plugins(cases):
    def use(options):
        return lambda p: p.set_filter(options["compression"], h5z.FLAG_OPTIONAL, options["compression_opts"])

    cases.numbers("lzf", "<i4", (40,), lambda p: p.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL, ()))
    cases.numbers("lzf", ">f8", (3, 20), lambda p: p.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL, ()))
    cases.numbers("lz4", "<i4", (40,), use(hdf5plugin.LZ4()))
    cases.numbers("lz4 blocks", ">i2", (75,), use(hdf5plugin.LZ4(nbytes=64)))
    cases.add("lz4 noise", h5t.STD_U8LE, (50,), noise(50), use(hdf5plugin.LZ4(nbytes=16)))
    cases.numbers("zstd", "<i4", (40,), use(hdf5plugin.Zstd()))
    cases.add("zstd noise", h5t.STD_U8LE, (50,), noise(50), use(hdf5plugin.Zstd(clevel=19)))
    for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        cases.numbers("blosc " + name, "<i4", (70,), use(hdf5plugin.Blosc(name, 5, hdf5plugin.Blosc.SHUFFLE)))
    cases.numbers("blosc plain", ">i8", (40,), use(hdf5plugin.Blosc("lz4", 5, hdf5plugin.Blosc.NOSHUFFLE)))
    cases.numbers("blosc bits", "<f8", (40,), use(hdf5plugin.Blosc("zstd", 5, hdf5plugin.Blosc.BITSHUFFLE)))


def main():
    with tempfile.TemporaryDirectory() as folder, h5py.File(os.path.join(folder, "cases.h5"), "w") as file:
        cases = Cases(file)
        for part in (szip, nbit, scaleoffset, plugins):
            part(cases)
    with open(OUT, "w", encoding="ascii") as out:
        print(HEAD, file=out)
        print("\n".join(cases.lines), file=out)
        print("};\n/* clang-format on */\n\n#endif", file=out)


if __name__ == "__main__":
    main()
