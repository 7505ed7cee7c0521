"""Keras: keras_fit.py BACKEND FORMAT. fit, evaluate and predict; what the layers saw."""

import os
import sys

os.environ.update(KERAS_BACKEND=sys.argv[1], TF_CPP_MIN_LOG_LEVEL="3", JAX_PLATFORMS="cpu")

import numpy as np  # noqa: E402

import stoker  # noqa: E402

rows = stoker.source({"x": np.arange(70, dtype=np.float32)[:, None], "y": np.arange(70) % 3})
early = rows.batch(8).loader("x", "y")

import keras  # noqa: E402
from common import leave  # noqa: E402


class Seen(keras.callbacks.Callback):
    """The mean of a batch of numbers shows which they are; the loss is that mean."""

    def __init__(self):
        super().__init__()
        self.losses, self.epochs = [], []

    def on_epoch_begin(self, epoch, logs=None):
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(self.losses)


def identity_loss(y_true, y_pred):
    return y_pred


inputs = keras.Input((1,))
outputs = keras.layers.Dense(1, kernel_initializer="ones", bias_initializer="zeros")(inputs)
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.SGD(0.0), identity_loss)
train = rows.shuffle(seed=1).batch(8)
loader = train.keras("x", "y") if sys.argv[2] == "keras" else train.loader("x", "y", format=sys.argv[2])
seen = Seen()
history = model.fit(loader, epochs=3, verbose=0, callbacks=[seen], validation_data=rows.batch(8).keras("x", "y"))
predicted = model.predict(rows.batch(8).loader("x"), verbose=0)
error = ""
try:
    model.fit(early, verbose=0)
except ValueError as e:
    error = str(e)
leave(
    {
        "epochs": seen.epochs,
        "val_loss": history.history["val_loss"],
        "iterations": int(model.optimizer.iterations),
        "evaluated": float(model.evaluate(rows.batch(8).loader("x", "y"), verbose=0)),
        "predicted": np.asarray(predicted)[:, 0].tolist(),
        "filtered": len(model.fit(rows.filter("y < 2").batch(8).keras("x", "y"), epochs=2, verbose=0).epoch),
        "error": error,
    }
)
