"""What the peers of the image benchmarks share: arguments, TFRecords in memory, the clock, the CPU time, the report.

python images_PEER.py --data DIR --work cifar|jpeg500|jpeg2000 [--seconds N] [--warm N] [--variant NAME] [--check]

DIR is what bench/make_images.py made. Prints one JSON object: samples_per_s, cpu_per_1000 (of the process and its
workers), values_per_sample, samples, seconds, batch, variant, version. With --check it prints shape, mean, std, least
and greatest of one batch instead, to see that the work is the same everywhere.
"""
import argparse
import glob
import json
import math
import os
import struct
import time

# As in the pipelines of images.py.
CIFAR_MEAN, CIFAR_STD = [125.3, 123.0, 113.9], [63.0, 62.1, 66.7]
MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
BATCH = {"cifar": 512, "jpeg500": 256, "jpeg2000": 32}
SIDE = {"cifar": 32, "jpeg500": 224, "jpeg2000": 224}
WORKERS = 2


def arguments(variants):
    """The common arguments; variants: {work: names, the first is the default}."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", choices=list(variants), required=True)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--warm", type=float, default=3.0, help="seconds that are not counted")
    parser.add_argument("--variant", help="unless told the first of the work's")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    names = variants[args.work]
    args.variant = args.variant or names[0]
    if args.variant not in names:
        parser.error(f"no variant '{args.variant}' of {args.work}: wanted one of {', '.join(names)}")
    args.batch = BATCH[args.work]
    return args


def shards(args):
    pattern = os.path.join(args.data, args.work + "-*.tfrecord")
    files = sorted(glob.glob(pattern))
    if not files:
        raise SystemExit(f"found no file {pattern}: bench/make_images.py makes them")
    return files


def fields(data):
    """Number and content of the length-delimited fields of a protobuf message; of the others number and value."""
    at = 0

    def varint():
        nonlocal at
        x = shift = 0
        while True:
            byte = data[at]
            at += 1
            x |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return x

    while at < len(data):
        tag = varint()
        value = varint()
        if tag & 7 == 2:
            yield tag >> 3, data[at:at + value]
            at += value
        else:
            yield tag >> 3, value


def read_examples(path):
    """Pairs of image bytes and label, for peers without a reader of their own."""
    with open(path, "rb") as f:
        while head := f.read(12):
            record = f.read(struct.unpack("<Q", head[:8])[0])
            f.read(4)
            values = {}
            for _, entry in fields(dict(fields(record))[1]):
                parts = dict(fields(entry))
                (_, value_list), = fields(parts[2])
                values[parts[1]] = dict(fields(value_list))[1]
            label = values[b"label"]
            yield values[b"image"], label[0] if isinstance(label, bytes) else label


def cpu_seconds():
    """User and system time of this process and all below it, whether they have ended or not."""
    tick = os.sysconf("SC_CLK_TCK")
    parents, times = {}, {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                text = f.read()
        except OSError:
            continue
        values = text[text.rindex(")") + 2:].split()
        pid = int(path.split("/")[2])
        parents[pid] = int(values[1])
        times[pid] = sum(map(int, values[11:15])) / tick
    total, wanted = 0.0, [os.getpid()]
    while wanted:
        pid = wanted.pop()
        total += times.get(pid, 0.0)
        wanted += [child for child, parent in parents.items() if parent == pid]
    return total


def measure(batches, args):
    """Takes batches for args.warm seconds, then counts them for args.seconds; batches never ends and gives shapes.

    Workers finish batches in pairs, so pairs are counted, and at least four of them.
    """
    begin = time.perf_counter()
    start = cpu = None
    samples = count = 0
    for i, shape in enumerate(batches):
        now = time.perf_counter()
        if start is not None:
            samples += shape[0]
            count += 1
        if i % WORKERS != WORKERS - 1:
            continue
        if start is None:
            if now - begin >= args.warm:
                start, cpu = time.perf_counter(), cpu_seconds()
        elif now - start >= args.seconds and count >= 4 * WORKERS:
            break
    seconds = now - start
    cpu = cpu_seconds() - cpu
    return {"samples_per_s": samples / seconds, "cpu_per_1000": 1000 * cpu / samples, "samples": samples,
            "seconds": seconds, "batch": args.batch, "values_per_sample": math.prod(shape[1:])}


def report(args, version, make):
    """Runs one round or one check. make() gives an endless iterator over (images, labels) that numpy understands."""
    import numpy as np

    if args.check:
        images = np.asarray(next(iter(make()))[0])
        flat = images.astype(np.float64)
        out = {"shape": list(images.shape), "dtype": str(images.dtype), "mean": flat.mean(), "std": flat.std(),
               "min": flat.min(), "max": flat.max(), "zeros": float((images == 0).mean())}
    else:
        out = measure((tuple(batch[0].shape) for batch in make()), args)
    print(json.dumps(out | {"variant": args.variant, "version": version}), flush=True)
