#!/usr/bin/env python3
"""A training with Keras on a compressed matrix in HDF5: made-up rows, shuffled by chunks, in batches.

    python3 train_keras_hdf5.py --epochs 5
"""

from __future__ import annotations

import argparse
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import stoker

CLASSES, WIDTH = 5, 64


def make_rows(path: pathlib.Path, count: int = 8000) -> None:
    """Rows around a point for each class."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, CLASSES, count)
    points = rng.normal(size=(CLASSES, WIDTH))
    rows = (points[labels] + rng.normal(0, 2, (count, WIDTH))).round(2).astype(np.float32)
    stoker.source({"features": rows, "labels": labels}).write_hdf5(path, chunk=64, gzip=4).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("rows.h5"), help="made when it is not there")
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    if not args.data.exists():
        make_rows(args.data)

    rows = stoker.hdf5(args.data, x="/features", y="/labels")
    train = rows.take(7000).shuffle(seed=1, window=16).batch(128, drop_last=True)
    valid = rows.skip(7000).batch(128)

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(CLASSES)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    history = model.fit(train.keras("x", "y"), epochs=args.epochs, validation_data=valid.keras("x", "y"), verbose=0)
    for epoch, (loss, accuracy) in enumerate(zip(history.history["val_loss"], history.history["val_accuracy"])):
        print(f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
