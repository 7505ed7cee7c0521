"""model.fit() over tf.data, profiled by Keras' TensorBoard callback."""
import argparse
import glob
import shutil
import time

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops.iterator_ops import OwnedIterator

from meter import Meter, part

FIRST, BATCH, FEATURES = 6, 8, 1024
tf.config.threading.set_intra_op_parallelism_threads(1)  # before the first variable
waited = tf.Variable(0.0, dtype=tf.float64, trainable=False)


def time_fetches():
    """fit() fetches inside of its tf.function, so the clock has to be read in there: tf.timestamp()."""
    fetch = OwnedIterator.get_next

    def get_next(self):
        began = tf.timestamp()
        with tf.control_dependencies([began]):
            batch = fetch(self)
        with tf.control_dependencies(tf.nest.flatten(batch)):
            waited.assign_add(tf.timestamp() - began)
        return batch

    OwnedIterator.get_next = get_next


class Times(keras.callbacks.Callback):
    def __init__(self, meter):
        super().__init__()
        self.meter = meter

    def on_train_batch_begin(self, batch, logs=None):
        self.before = float(waited.numpy())
        self.meter.start()

    def on_train_batch_end(self, batch, logs=None):
        wait = float(waited.numpy()) - self.before
        self.meter.steps[-1][1] = wait
        self.meter.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--share", type=float, required=True)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    time_fetches()
    meter, factor = Meter(), part(args.share)

    def decode(x):
        time.sleep(factor * meter.work.value / BATCH)
        return x

    def slow(i):
        x = tf.py_function(decode, [tf.ones([FEATURES])], tf.float32)
        return tf.ensure_shape(x, [FEATURES]), i % 10

    data = tf.data.Dataset.range(1 << 40).map(slow).batch(BATCH)
    model = keras.Sequential([keras.layers.Dense(4096, "relu"), keras.layers.Dense(4096, "relu"), keras.layers.Dense(10)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    profiler = keras.callbacks.TensorBoard("logs", profile_batch=(FIRST, FIRST + args.steps - 1), write_graph=False)
    model.fit(data, steps_per_epoch=FIRST + args.steps + 4, verbose=0, callbacks=[profiler, Times(meter)])
    shutil.copy(glob.glob("logs/**/*.xplane.pb", recursive=True)[0], args.out)
    shutil.rmtree("logs")
    meter.write(FIRST, args.steps)


if __name__ == "__main__":
    main()
