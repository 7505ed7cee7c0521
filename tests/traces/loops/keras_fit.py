"""model.fit() over tf.data, profiled and marked by a callback, as Keras' TensorBoard callback does it."""
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


class Profile(keras.callbacks.Callback):
    """Marks steps as keras.callbacks.TensorBoard does, which needs a package of its own to run."""

    def __init__(self, meter, steps):
        super().__init__()
        self.meter, self.steps = meter, steps

    def on_train_batch_begin(self, batch, logs=None):
        if batch == FIRST:
            tf.profiler.experimental.start("logs")
        self.mark = tf.profiler.experimental.Trace("train", step_num=batch, _r=1)
        self.mark.__enter__()
        self.before = float(waited.numpy())
        self.meter.start()

    def on_train_batch_end(self, batch, logs=None):
        self.meter.steps[-1][1] = float(waited.numpy()) - self.before
        self.meter.stop()
        self.mark.__exit__(None, None, None)
        if batch == FIRST + self.steps - 1:
            tf.profiler.experimental.stop()


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
    layers = [keras.layers.Dense(4096, "relu"), keras.layers.Dense(4096, "relu"), keras.layers.Dense(10)]
    model = keras.Sequential(layers)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(data, steps_per_epoch=FIRST + args.steps, verbose=0, callbacks=[Profile(meter, args.steps)])
    shutil.copy(glob.glob("logs/**/*.xplane.pb", recursive=True)[0], args.out)
    shutil.rmtree("logs")
    meter.write(FIRST, args.steps)


if __name__ == "__main__":
    main()
