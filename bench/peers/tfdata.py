#!/usr/bin/env python3
"""Parse Examples of 20 features with tf.data, as its performance guide recommends, and tell how fast it was.

tfdata.py [--variant NAME] [--epochs N] [--batch N] [--sums] FILE...

Prints one JSON object: variant, samples, batches, seconds (from the end of the first epoch, which warms up, to the end
of the last), samples_per_s, cpu_per_1000, tensorflow; with --sums also the sums of two features over one epoch.
"""
import argparse
import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf  # noqa: E402

AUTOTUNE = tf.data.AUTOTUNE
# As in make_set.c.
FLOAT_COUNTS = [1, 1, 2, 3, 4, 6, 8, 10, 13, 16]
INT_COUNTS = [1, 1, 1, 2, 2, 3, 4, 4]
VARIANTS = ["plain", "parallel_reads", "interleave", "parse_dataset"]


def features():
    shape = lambda n: [] if n == 1 else [n]
    spec = {f"float_{i:02}": tf.io.FixedLenFeature(shape(n), tf.float32) for i, n in enumerate(FLOAT_COUNTS)}
    spec |= {f"int_{i:02}": tf.io.FixedLenFeature(shape(n), tf.int64) for i, n in enumerate(INT_COUNTS)}
    spec |= {f"bytes_{i:02}": tf.io.FixedLenFeature([], tf.string) for i in range(2)}
    return spec


def records(variant, files):
    if variant == "parallel_reads":
        return tf.data.TFRecordDataset(files, num_parallel_reads=AUTOTUNE)
    if variant == "interleave":
        return tf.data.Dataset.from_tensor_slices(files).interleave(
            tf.data.TFRecordDataset, cycle_length=AUTOTUNE, num_parallel_calls=AUTOTUNE, deterministic=False)
    return tf.data.TFRecordDataset(files)


def dataset(variant, files, batch):
    spec = features()
    batches = records(variant, files).batch(batch)
    if variant == "parse_dataset":
        parsed = batches.apply(tf.data.experimental.parse_example_dataset(spec, num_parallel_calls=AUTOTUNE))
    else:
        parsed = batches.map(lambda b: tf.io.parse_example(b, spec), num_parallel_calls=AUTOTUNE)
    return parsed


def with_options(ds, variant):
    options = tf.data.Options()
    options.deterministic = variant in ("plain", "parse_dataset")
    options.autotune.enabled = True
    return ds.prefetch(AUTOTUNE).with_options(options)


def measure(variant, files, batch, epochs):
    one = dataset(variant, files, batch)
    per_epoch = sum(1 for _ in records("plain", files).batch(batch))
    # One iterator over all epochs, so that what AUTOTUNE learnt in the first one stays.
    start, cpu, batches, samples = None, None, 0, 0
    for i, b in enumerate(with_options(one.repeat(epochs + 1), variant)):
        if i == per_epoch - 1:
            start, cpu = time.perf_counter(), time.process_time()
        elif i >= per_epoch:
            batches += 1
            samples += b["float_00"].shape[0]
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"seconds": seconds, "samples": samples, "samples_per_s": samples / seconds, "cpu_per_1000": 1000 * cpu / samples,
            "batches": batches}


def sums(files, batch):
    f = i = 0
    for b in with_options(dataset("plain", files, batch), "plain"):
        f += float(tf.reduce_sum(tf.cast(b["float_09"], tf.float64)))
        i += int(tf.reduce_sum(b["int_07"]))
    return {"float_09": f, "int_07": i}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--variant", choices=VARIANTS, default="plain")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--sums", action="store_true")
    args = parser.parse_args()
    out = {"variant": args.variant, "tensorflow": tf.__version__}
    out |= {"sums": sums(args.files, args.batch)} if args.sums else measure(args.variant, args.files, args.batch,
                                                                           args.epochs)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
