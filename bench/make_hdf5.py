#!/usr/bin/env python3
"""Make the HDF5 files of the benchmarks: make_hdf5.py DIRECTORY [--quick]. Beside each lies a list of its chunks.

Pictures are smooth random fields with noise, as scientific images are: what gzip makes of them is like what it makes of those.
"""
import argparse
import json
import os
import sys

import h5py
import numpy

DISTINCT = 16  # chunks that differ; then they come again, which no compressor notices across chunks


def fields(rng, count, size):
    """Smooth random pictures in 0..1: coarse noise, enlarged."""
    coarse = rng.random((count, 9, 9), dtype=numpy.float32)
    at = numpy.linspace(0, 8, size, endpoint=False, dtype=numpy.float32)
    low, part = at.astype(int), (at - at.astype(int))[None, :, None]
    rows = coarse[:, low] * (1 - part) + coarse[:, low + 1] * part
    part = part.reshape(1, 1, size)
    return rows[:, :, low] * (1 - part) + rows[:, :, low + 1] * part


def noisy(rng, count, size, contrast, sigma):
    """The same as numbers in 0..255, with noise."""
    values = fields(rng, count, size) * contrast + 60 + rng.normal(0, sigma, (count, size, size))
    return numpy.clip(numpy.rint(values), 0, 255)


def floats(rng, rows):
    return (noisy(rng, rows, 64, 90, 4) / 255).astype(numpy.float32)


def coarse_floats(rng, rows):
    """Five bits of depth, and most of the picture masked."""
    values = fields(rng, rows, 64)
    return (numpy.where(values > 0.745, numpy.rint(values * 31), 0) / 31).astype(numpy.float32)


def colours(rng, rows):
    return numpy.stack([noisy(rng, rows, 64, 140, 6) for _ in range(3)], axis=-1).astype(numpy.uint8)


# Name: maker, rows of a chunk, chunks, options of the dataset.
SETS = {
    "float32": (floats, 64, 256, {"compression": "gzip", "compression_opts": 4, "shuffle": True}),
    "coarse": (coarse_floats, 64, 256, {"compression": "gzip", "compression_opts": 4, "shuffle": True}),
    "uint8": (colours, 64, 1024, {"compression": "gzip", "compression_opts": 4}),
    "rows": (colours, 1, 16384, {"compression": "gzip", "compression_opts": 4}),
}


def make_set(folder, name, quick):
    maker, chunk_rows, chunks, options = SETS[name]
    chunks //= 8 if quick else 1
    rng = numpy.random.default_rng(1)
    data = [maker(rng, 64) for _ in range(DISTINCT)]
    data = numpy.concatenate(data)
    rows = chunks * chunk_rows
    path = os.path.join(folder, name + ".h5")
    with h5py.File(path, "w") as f:
        d = f.create_dataset("x", (rows, *data.shape[1:]), data.dtype, chunks=(chunk_rows, *data.shape[1:]), **options)
        for at in range(0, rows, len(data)):
            d[at:at + len(data)] = data[:rows - at]
        f.create_dataset("y", data=numpy.arange(rows, dtype=numpy.int64))
        places = [d.id.get_chunk_info(i) for i in range(min(d.id.get_num_chunks(), 2048))]
        stored = d.id.get_storage_size()
    with open(os.path.join(folder, name + ".chunks"), "w", encoding="ascii") as f:
        f.writelines(f"{p.byte_offset} {p.size}\n" for p in places)
    row_bytes = data.nbytes // len(data)
    return {"rows": rows, "row_bytes": row_bytes, "chunk_rows": chunk_rows, "element": data.dtype.itemsize,
            "shuffled": bool(options.get("shuffle")), "ratio": rows * row_bytes / stored}


def make_many(folder, quick):
    """A file with very many small chunks, for the index."""
    chunks = 8704 if quick else 87040
    with h5py.File(os.path.join(folder, "many.h5"), "w") as f:
        f.create_dataset("x", data=numpy.arange(chunks * 4, dtype=numpy.int32), chunks=(4,), compression="gzip")
    return {"chunks": chunks}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--quick", action="store_true", help="an eighth of the chunks")
    args = parser.parse_args()
    part = args.folder + ".part"
    os.makedirs(part, exist_ok=True)
    about = {"h5py": h5py.version.version, "hdf5": h5py.version.hdf5_version,
             "sets": {name: make_set(part, name, args.quick) for name in SETS}, "many": make_many(part, args.quick)}
    with open(os.path.join(part, "sets.json"), "w", encoding="utf-8") as f:
        json.dump(about, f, indent=1)
    os.rename(part, args.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
