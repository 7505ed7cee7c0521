#!/usr/bin/env python3
"""Run the HDF5 benchmarks: Stoker, h5py and a bare C loop by turns; bench/hdf5.sh builds what they need.

In each round every contestant of a work runs once, in random order. The figures are ratios within a round: their
median, with the least and the greatest. A complete run writes its tables into docs/performance.md.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import images
import run

PYTHON = os.path.join(run.ROOT, ".venv-peers-hdf5", "bin", "python")
PEER = os.path.join(run.ROOT, "bench", "peers", "hdf5_h5py.py")
BEGIN, END = "<!-- hdf5 -->", "<!-- end hdf5 -->"

TITLES = {"direct": "h5py, 1 thread", "threads": "h5py, 2 threads", "loop": "h5py, d[i] row by row",
          "list": "h5py, d[sorted list]", "limit": "2 x bare libdeflate + unshuffle on one thread", "one": "Stoker, 1 thread"}
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


# Methods of Hdf5.
MORE = ("formats", "index")


class Stoker:
    def __init__(self, path, rows, order, seconds, threads=images.THREADS):
        self.path, self.rows, self.order, self.threads, self.times = path, rows, order, threads, 1
        self.once()
        self.times = max(1, round(0.3 * seconds * self.once().per_s / rows))
        self.times = max(1, round(seconds * self.once().per_s / rows))

    def once(self):
        # Memory for few chunks, so that no epoch finds what the one before decoded; a window needs the default.
        cache = "" if "window" in self.order else ', cache_bytes="48M"'
        return self.measure(f'hdf5("{self.path}", x="/x"{cache}) | {self.order}repeat({self.times}) | batch(256)')

    def measure(self, text):
        before = images.resource.getrusage(images.resource.RUSAGE_CHILDREN)
        out = run.stoker(text, self.threads)
        after = images.resource.getrusage(images.resource.RUSAGE_CHILDREN)
        stored = os.path.getsize(self.path) if self.path else 0
        if out["bytes_read"] < 0.9 * stored * self.times:
            raise run.Failed(f"read {out['bytes_read']} bytes in {self.times} epochs of {stored}: chunks were kept between them")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return images.Rate(out["samples_per_s"], 1000 * cpu / out["samples"])


class Records(Stoker):
    """The same rows from TFRecords."""

    def __init__(self, folder, rows, seconds):
        self.folder = folder
        super().__init__(None, rows, "", seconds)

    def once(self):
        text = f'tfrecord("{self.folder}/*") | repeat({self.times}) | parse(x=float32[64, 64]) | batch(256)'
        return self.measure(text)


class H5py:
    def __init__(self, path, way, seconds, bench):
        self.path, self.way, self.seconds = path, way, seconds
        self.version = self.measure()["version"]
        if way == "direct":
            # The faster of the two ways to read a slice, and of two sizes of the chunk cache.
            tried = {(w, cache): self.measure(w, cache)["rows_per_s"] for w in ("direct", "slices") for cache in (8 << 20, 64 << 20)}
            self.way, self.cache = max(tried, key=tried.get)
            bench.note("h5py in order, rows/s: " + ", ".join(f"{w}, cache {c >> 20} MiB: {r:,.0f}" for (w, c), r in tried.items()))

    cache = 64 << 20

    def measure(self, way=None, cache=None):
        return run.run_json([PYTHON, PEER, self.path, "--way", way or self.way, "--cache", str(cache or self.cache),
                             "--seconds", str(self.seconds)])

    def once(self):
        out = self.measure()
        return images.Rate(out["rows_per_s"], out["cpu_s_per_1000"])


class Loop:
    """Twice what one thread does: what two could do at best."""

    def __init__(self, path, about, seconds):
        self.rows = about["chunk_rows"]
        self.command = [os.path.join(run.TOOLS, "hdf5_loop"), path, path.replace(".h5", ".chunks"),
                        str(about["row_bytes"] * self.rows), str(about["element"] if about["shuffled"] else 1), str(seconds)]

    def once(self):
        out = run.run_json(self.command)
        rows = out["chunks"] * self.rows
        return images.Rate(2 * rows / out["seconds"], 1000 * out["cpu_s"] / rows)


def data_folder(quick):
    folder = os.path.join(run.DATA, "hdf5-quick" if quick else "hdf5")
    if not os.path.isdir(folder):
        subprocess.check_call([PYTHON, os.path.join(run.ROOT, "bench", "make_hdf5.py"), folder] + (["--quick"] if quick else []))
    with open(os.path.join(folder, "sets.json"), encoding="utf-8") as f:
        return folder, json.load(f)


class Hdf5(images.Images):
    def compare(self, name):
        title, data, order, targets = WORKS[name]
        folder, about = data_folder(self.quick)
        about, path = about["sets"][data], os.path.join(folder, data + ".h5")
        self.note(f"{title}: {about['rows']:,} rows of {about['row_bytes']:,} bytes, {about['chunk_rows']} per chunk, "
                  f"compressed {about['ratio']:.2f} to 1")
        contestants = {"stoker": Stoker(path, about["rows"], order, self.seconds)}
        titles = {"stoker": "Stoker, 2 threads"}
        for other in targets:
            titles[other] = TITLES[other]
            if other == "limit":
                contestants[other] = Loop(path, about, self.seconds)
            elif other == "one":
                contestants[other] = Stoker(path, about["rows"], order, self.seconds, 1)
            else:
                contestants[other] = H5py(path, other, self.seconds, self)
                titles[other] += f" ({contestants[other].version})"
        rates = self.by_turns(contestants)
        for other, target in targets.items():
            self.ratio_row(f"{title} / {titles[other]}",
                           [x.per_s / y.per_s for x, y in zip(rates["stoker"], rates[other])], target)
        for other, found in rates.items():
            self.figure(title, titles[other], found)

    def formats(self):
        """The same rows kept as HDF5 and as TFRecord, both read by Stoker: which to keep."""
        folder, about = data_folder(self.quick)
        for name in ("float32", "coarse"):
            path, records = os.path.join(folder, name + ".h5"), os.path.join(folder, name + "-tfrecord")
            if not os.path.isdir(records):
                run.stoker(f'hdf5("{path}", x="/x") | write_tfrecord("{records}.part/%05d", shards=4)', images.THREADS)
                os.rename(records + ".part", records)
            rows = about["sets"][name]["rows"]
            contestants = {"HDF5": Stoker(path, rows, "", self.seconds), "TFRecord": Records(records, rows, self.seconds)}
            rates = self.by_turns(contestants)
            sizes = os.path.getsize(path), sum(e.stat().st_size for e in os.scandir(records))
            title = WORKS[name][0].split(",")[0]
            self.ratio_row(f"{title}: HDF5 with shuffle + gzip 4 / plain TFRecord, both read by Stoker, 2 threads",
                           [x.per_s / y.per_s for x, y in zip(rates["HDF5"], rates["TFRecord"])])
            self.note(f"{title}: {sizes[0] / 1e6:,.0f} MB as HDF5, {sizes[1] / 1e6:,.0f} MB as TFRecord")
            for kind, found in rates.items():
                self.figure(title, f"Stoker, 2 threads, {kind}", found)

    def index(self):
        """The index of very many chunks: made, and taken from the cache."""
        folder, about = data_folder(self.quick)
        text = f'hdf5("{folder}/many.h5", x="/x") | take(1) | batch(1)'
        cache = os.path.join(run.DATA, "hdf5-index")
        times = {"made": [], "from the cache": []}
        for i in range(self.rounds + 1):
            for kind, where in (("made", ["--no-index-cache"]), ("from the cache", ["--cache-dir", cache])):
                start = time.monotonic()
                run.run_json([run.STOKER, "run", "-e", text, "--json", "--quiet", *where])
                if i > 0:
                    times[kind].append(time.monotonic() - start)
        for kind, seconds in times.items():
            median = statistics.median(seconds)
            self.row(f"index of {about['many']['chunks']:,} chunks, {kind}: start to first sample, s", f"{median:.2f}",
                     f"{min(seconds):.2f} to {max(seconds):.2f}", "under 1 s" if kind == "made" else "",
                     median < 1 if kind == "made" else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(WORKS)}, {', '.join(MORE)}; all unless told")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each contestant (7)")
    parser.add_argument("--quick", action="store_true", help="small files, short and 3 rounds: to see that it works")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in WORKS and name not in MORE]
    if unknown or args.rounds < 1:
        parser.error(f"no work '{unknown[0]}'" if unknown else "wants 1 or more rounds")
    bench = Hdf5(min(args.rounds, 3) if args.quick else args.rounds, args.quick, False)
    bench.seconds = 1 if args.quick else 3
    before = run.load()
    print(f"{run.machine()}; load {before}", flush=True)
    try:
        for name in args.names or [*WORKS, *MORE]:
            print(name, flush=True)
            if name in MORE:
                getattr(bench, name)()
            else:
                bench.compare(name)
    except run.Failed as e:
        print(f"hdf5.py: {e}", file=sys.stderr)
        return 1
    bench.finish(before, BEGIN, END, "HDF5", write=not args.names and not args.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
