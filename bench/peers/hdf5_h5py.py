#!/usr/bin/env python3
"""Read rows of an HDF5 file with h5py and print the rate: hdf5_h5py.py FILE --way WAY --seconds S [--cache BYTES]."""
import argparse
import json
import resource
import threading
import time

import h5py
import numpy

BATCH = 256


def in_order(d, start, step):
    """Batches in order into one array, which h5py's guide calls the fastest way."""
    out = numpy.empty((BATCH, *d.shape[1:]), d.dtype)
    for at in range(start * BATCH, len(d) - BATCH + 1, step * BATCH):
        d.read_direct(out, numpy.s_[at:at + BATCH])
        yield BATCH


def slices(d, start, step):
    for at in range(start * BATCH, len(d) - BATCH + 1, step * BATCH):
        yield len(d[at:at + BATCH])


def one_by_one(d, order):
    """A batch of random rows, row by row."""
    out = numpy.empty((BATCH, *d.shape[1:]), d.dtype)
    for at in range(0, len(order) - BATCH + 1, BATCH):
        for k, i in enumerate(order[at:at + BATCH]):
            out[k] = d[i]
        yield BATCH


def by_list(d, order):
    """A batch of random rows, by a sorted list, as h5py wants it."""
    for at in range(0, len(order) - BATCH + 1, BATCH):
        yield len(d[numpy.sort(order[at:at + BATCH])])


def pump(make, seconds, done):
    """Epochs until the time is up; `done` gets rows."""
    end = time.monotonic() + seconds
    while True:
        for rows in make():
            done.append(rows)
            if time.monotonic() > end:
                return


def threads(d, seconds, done):
    workers = [threading.Thread(target=pump, args=(lambda i=i: in_order(d, i, 2), seconds, done)) for i in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--way", choices=("direct", "slices", "threads", "loop", "list"), required=True)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--cache", type=int, default=64 << 20, help="bytes of the chunk cache")
    args = parser.parse_args()
    done = []
    with h5py.File(args.file, "r", rdcc_nbytes=args.cache, rdcc_nslots=10007) as f:
        d = f["x"]
        order = numpy.random.default_rng(1).permutation(len(d))
        ways = {"direct": lambda: in_order(d, 0, 1), "slices": lambda: slices(d, 0, 1),
                "loop": lambda: one_by_one(d, order), "list": lambda: by_list(d, order)}
        for _ in zip(range(2), ways.get(args.way, ways["direct"])()):
            pass  # opens what is opened once
        before, start = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        if args.way == "threads":
            threads(d, args.seconds, done)
        else:
            pump(ways[args.way], args.seconds, done)
        seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"rows": sum(done), "seconds": seconds, "rows_per_s": sum(done) / seconds, "samples": sum(done),
                      "samples_per_s": sum(done) / seconds,
                      "cpu_per_1000": 1000 * cpu / sum(done),
                      "version": f"h5py {h5py.version.version}, HDF5 {h5py.version.hdf5_version}"}))


if __name__ == "__main__":
    main()
