"""A custom training loop over tf.data under tf.profiler.experimental, with step marks."""
import argparse
import glob
import os
import shutil
import time
import zlib

import numpy as np
import tensorflow as tf

from meter import Meter, part, run_until_stopped

WARMUP, BATCH, FEATURES = 4, 8, 1024
PACKED = zlib.compress(bytes(range(256)) * 4096, 1)


class Job:
    """A model and its training step, one call of a tf.function."""

    def __init__(self, rounds):
        rng = np.random.default_rng(1)
        self.weights = [tf.Variable(rng.normal(0, 0.03, shape), dtype=tf.float32)
                        for shape in ((FEATURES, 2048), (2048, 2048), (2048, 10))]
        self.rounds = rounds

    @tf.function
    def step(self, x):
        for _ in range(self.rounds):
            with tf.GradientTape() as tape:
                h = x
                for w in self.weights:
                    h = tf.nn.relu(tf.matmul(h, w))
                loss = tf.reduce_mean(tf.square(h - 1))
            for w, g in zip(self.weights, tape.gradient(loss, self.weights)):
                w.assign_sub(0.001 * g)
        return loss


class Slow:
    """Something that takes a multiple of the work of a step, as a Python function that tf.data calls."""

    def __init__(self, meter, factor, busy):
        self.meter, self.factor, self.busy = meter, factor, busy

    def wait(self, batches=1.0):
        seconds = batches * self.factor * self.meter.work.value
        if not self.busy:
            time.sleep(seconds)
            return
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            zlib.decompress(PACKED)

    def decode(self, x):
        self.wait(1 / BATCH)
        return x


def samples():
    return tf.data.Dataset.range(1 << 40).map(lambda i: tf.fill([FEATURES], tf.cast(i % 7, tf.float32)))


def slow_map(slow):
    def decode(x):
        x = tf.py_function(slow.decode, [x], tf.float32)
        return tf.ensure_shape(x, [FEATURES])
    return samples().map(decode).batch(BATCH)


def parallel_map(slow):
    def decode(x):
        x = tf.py_function(slow.decode, [x], tf.float32)
        return tf.ensure_shape(x, [FEATURES])
    return samples().map(decode, num_parallel_calls=2).batch(BATCH).prefetch(1)


def heavy_map(slow):
    def decode(x):
        # The work of one sample is fixed; how often it is done follows the factor.
        big = tf.random.stateless_uniform([400, 400], [1, 2]) + x[0]
        for _ in range(round(10 * slow.factor)):
            big = tf.linalg.matmul(big, big) / 400
        return x + tf.reduce_mean(big)
    return samples().map(decode).batch(BATCH)


def from_generator(slow):
    def rows():
        while True:
            slow.wait(1 / BATCH)
            yield np.ones(FEATURES, np.float32)
    return tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec([FEATURES], tf.float32)).batch(BATCH)


def write_records(name, count, size):
    """Records of numbers that gzip has to work for."""
    rng = np.random.default_rng(1)
    with tf.io.TFRecordWriter(name, tf.io.TFRecordOptions(compression_type="GZIP", compression_level=1)) as writer:
        for _ in range(count):
            writer.write((rng.integers(0, 4, size, dtype=np.uint8)).tobytes())


def slow_read(slow):
    name = "part.tfrecord.gz"
    if not os.path.exists(name):
        write_records(name, 10, round(2000000 * slow.factor))
    records = tf.data.TFRecordDataset(name, compression_type="GZIP").repeat()
    return records.map(lambda r: tf.cast(tf.io.decode_raw(r, tf.uint8)[:FEATURES], tf.float32)).batch(BATCH)


def interleave(slow):
    def shard(i):
        def rows():
            while True:
                slow.wait(1 / BATCH)
                yield np.ones(FEATURES, np.float32)
        return tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec([FEATURES], tf.float32))
    return tf.data.Dataset.range(4).interleave(shard, cycle_length=2).batch(BATCH)


def shuffle(slow):
    """The buffer of each epoch is filled anew from a slow source; epochs are short."""
    def rows():
        for _ in range(2 * BATCH):
            slow.wait(1 / BATCH)
            yield np.ones(FEATURES, np.float32)
    data = tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec([FEATURES], tf.float32))
    return data.shuffle(2 * BATCH).repeat().batch(BATCH)


def slow_batch(slow):
    """Large samples, which the batch copies into one tensor; the step looks at a part of them."""
    big = tf.ones([round(2000000 * slow.factor)])
    return tf.data.Dataset.from_tensors(big).repeat().batch(BATCH)


def ahead(slow):
    """A prefetch that keeps up: its thread works for most of a step, and nobody waits for it."""
    return slow_map(slow).prefetch(4)


PIPELINES = {f.__name__: f for f in (slow_map, parallel_map, heavy_map, from_generator, slow_read, interleave, shuffle,
                                      slow_batch, ahead)}


def factor_for(args):
    """How many times the work of a step its batch takes to make."""
    if args.pipeline == "ahead":
        return 0.6
    if args.pipeline == "parallel_map":
        return 2 / (1 - args.share) if args.share > 0.05 else 0.8
    return part(args.share)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", help="without it, train until told to stop: for a profiler that looks on from outside")
    parser.add_argument("--pipeline", choices=PIPELINES, required=True)
    parser.add_argument("--share", type=float, required=True)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=4, help="how much a step computes")
    parser.add_argument("--busy", action="store_true", help="slow parts compute, they do not sleep")
    parser.add_argument("--no-marks", action="store_true")
    parser.add_argument("--python", action="store_true", help="with the Python tracer")
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    job, meter = Job(args.rounds), Meter()
    batches = iter(PIPELINES[args.pipeline](Slow(meter, factor_for(args), args.busy)))

    def step():
        meter.start()
        x = next(batches)
        meter.fetched()
        job.step(x[:, :FEATURES]).numpy()
        meter.stop()

    for _ in range(WARMUP):
        step()
    if not args.out:
        run_until_stopped(meter, step)
        return
    options = tf.profiler.experimental.ProfilerOptions(python_tracer_level=1 if args.python else 0)
    tf.profiler.experimental.start("logs", options=options)
    for i in range(args.steps):
        if args.no_marks:
            step()
        else:
            with tf.profiler.experimental.Trace("train", step_num=i, _r=1):
                step()
    tf.profiler.experimental.stop()
    shutil.copy(glob.glob("logs/plugins/profile/*/*.xplane.pb")[0], args.out)
    shutil.rmtree("logs")
    meter.write(WARMUP, args.steps)


if __name__ == "__main__":
    main()
