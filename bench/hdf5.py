#!/usr/bin/env python3
"""Run the HDF5 benchmarks: Stoker against h5py and a bare C loop; bench/hdf5.sh builds what they need.

Writes build/bench/hdf5.toml, which `stoker bench` measures. A complete run also writes the tables into
docs/performance.md.
"""
import json
import os
import subprocess
import sys

import suitelib as lib

VENV = ".venv-peers-hdf5"
TITLES = {"direct": "h5py, 1 thread", "threads": "h5py, 2 threads", "loop": "h5py, d[i] row by row",
          "list": "h5py, d[sorted list]"}
# Work: title, file, Stoker's order op, the least ratio for each contestant (None: shown without a target).
WORKS = {
    "float32": ("float32 images, shuffle + gzip 4, in order", "float32", "",
                {"direct": 4, "threads": 4, "limit": 0.9, "one": None}),
    "coarse": ("low-entropy float32, shuffle + gzip 4, in order", "coarse", "",
               {"direct": 12, "threads": 12, "limit": 0.9, "one": None}),
    "uint8": ("uint8 images, gzip 4, in order", "uint8", "", {"direct": 2.9, "threads": 2.9, "limit": 0.9, "one": None}),
    "rows": ("random rows, 1 row per chunk, batches of 256", "rows", "shuffle(seed=1) | ", {"loop": 3.5, "list": 50}),
    "window": ("shuffled epoch, 64 rows per chunk, window=auto", "uint8", "shuffle(seed=1, window=auto) | ", {"loop": 20}),
}


def data_folder(args):
    folder = os.path.join(lib.DATA, "hdf5-quick" if args.quick else "hdf5")
    if not os.path.isdir(folder):
        subprocess.check_call([lib.python_of(VENV), "bench/make_hdf5.py", folder] + (["--quick"] if args.quick else []))
    with open(os.path.join(folder, "sets.json"), encoding="utf-8") as f:
        return folder, json.load(f)


def seconds_of(args):
    return 1 if args.quick else 3


# ---- contestants ----

def stoker(title, path, rows, order, args, threads=lib.THREADS):
    def reads_all(out, times):
        stored = os.path.getsize(path)
        if not args.quick and out["bytes_read"] < 0.9 * stored * times:
            raise lib.Failed(f"read {out['bytes_read']} bytes in {times} epochs of {stored}: chunks were kept between them")

    # Memory for few chunks, so that no epoch finds what the one before decoded; a window needs the default.
    cache = "" if "window" in order else ', cache_bytes="48M"'
    text = f'hdf5("{path}", x="/x"{cache}) | {order}repeat({{times}}) | batch(256)'
    return lib.stoker_for(title, text, threads, rows, seconds_of(args), reads_all)


def h5py(way, path, args, suite):
    def command(way, cache):
        return lib.peer(VENV, "hdf5_h5py.py", path, "--way", way, "--cache", cache, "--seconds", seconds_of(args))

    choices = {(way, 64 << 20): command(way, 64 << 20)}
    if way == "direct":
        # The faster of the two ways to read a slice, and of two sizes of the chunk cache.
        choices = {(w, cache): command(w, cache) for w in ("direct", "slices") for cache in (8 << 20, 64 << 20)}
    best, found = lib.fastest(choices, tries=1)
    if way == "direct":
        suite.note("h5py in order, rows/s: " + ", ".join(f"{w}, cache {c >> 20} MiB: {out['samples_per_s']:,.0f}"
                                                         for (w, c), out in found.items()))
    return lib.Side(f"{TITLES[way]} ({found[best]['version']})", choices[best])


def limit(path, about, args):
    """Twice what one thread does: what two could do at best."""
    command = [os.path.join(lib.TOOLS, "hdf5_loop"), path, path.replace(".h5", ".chunks"),
               about["row_bytes"] * about["chunk_rows"], about["element"] if about["shuffled"] else 1, seconds_of(args),
               about["chunk_rows"], lib.THREADS]
    return lib.Side(f"{lib.THREADS} x bare libdeflate + unshuffle on one thread", [str(word) for word in command])


# ---- works ----

def compare(name, suite, args):
    title, data, order, targets = WORKS[name]
    folder, about = data_folder(args)
    about, path = about["sets"][data], os.path.join(folder, data + ".h5")
    suite.note(f"{title}: {about['rows']:,} rows of {about['row_bytes']:,} bytes, {about['chunk_rows']} per chunk, "
               f"compressed {about['ratio']:.2f} to 1")
    mine = stoker("Stoker, 2 threads", path, about["rows"], order, args)
    for other, target in targets.items():
        if other == "limit":
            side = limit(path, about, args)
        elif other == "one":
            side = stoker("Stoker, 1 thread", path, about["rows"], order, args, 1)
        else:
            side = h5py(other, path, args, suite)
        suite.compare(f"{title} / {side.title}", mine, side, target)


def formats(suite, args):
    """the same rows kept as HDF5 and as TFRecord, both read by Stoker: which to keep"""
    folder, about = data_folder(args)
    for name in ("float32", "coarse"):
        path = os.path.join(folder, name + ".h5")

        def make(part, path=path):
            text = f'hdf5("{path}", x="/x") | write_tfrecord("{part}/%05d", shards=4)'
            lib.checked(lib.stoker_command(text, lib.THREADS), lib.THREADS)
        records, rows = lib.made(os.path.join(folder, name + "-tfrecord"), make), about["sets"][name]["rows"]
        text = f'tfrecord("{records}/*") | repeat({{times}}) | parse(x=float32[64, 64]) | batch(256)'
        title = WORKS[name][0].split(",")[0]
        suite.compare(f"{title}: HDF5 with shuffle + gzip 4 / plain TFRecord, both read by Stoker, 2 threads",
                      stoker("Stoker, 2 threads, HDF5", path, rows, "", args),
                      lib.stoker_for("Stoker, 2 threads, TFRecord", text, lib.THREADS, rows, seconds_of(args)))
        sizes = os.path.getsize(path), sum(e.stat().st_size for e in os.scandir(records))
        suite.note(f"{title}: {sizes[0] / 1e6:,.0f} MB as HDF5, {sizes[1] / 1e6:,.0f} MB as TFRecord")


def index(suite, args):
    """the index of very many chunks: made, and taken from the cache"""
    folder, about = data_folder(args)
    text = f'hdf5("{folder}/many.h5", x="/x") | take(1) | batch(1)'
    cache = os.path.join(lib.DATA, "hdf5-index")
    for kind, where, target in (("made", ["--no-index-cache"], ("at_most", 1)),
                                ("from the cache", ["--cache-dir", cache], None)):
        command = [lib.STOKER, "run", "-e", text, "--json", "--quiet", *where]
        lib.run_json(command)
        suite.measure(f"index of {about['many']['chunks']:,} chunks, {kind}: start to first sample", command, "wall", target)


def main():
    works = {name: lambda suite, args, name=name: compare(name, suite, args) for name in WORKS}
    works |= {"formats": formats, "index": index}
    args = lib.arguments(__doc__, works, rounds=6)
    return lib.main(lib.Suite("hdf5", "HDF5", args.rounds), works, args)


if __name__ == "__main__":
    sys.exit(main())
