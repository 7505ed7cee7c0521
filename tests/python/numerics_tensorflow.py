#!/usr/bin/env python3
"""Pixels of the image ops against TensorFlow's tf.io and tf.image.

Usage: numerics_tensorflow.py BUILD_DIR [--table] [PART_OF_A_NAME...]; scripts/numerics.sh runs it where TensorFlow is.
"""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy
import tensorflow

import numlib
from numlib import best, off, run

PEER = "TensorFlow"


def test_decode(session):
    """INTEGER_ACCURATE, which is not TensorFlow's default, is what libjpeg-turbo does unless told otherwise."""
    for name in numlib.COLOUR:
        data = session.photo(name)
        if name.endswith(".jpg"):
            wanted = tensorflow.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")
        else:
            wanted = tensorflow.io.decode_png(data, channels=3)
        session.close("decode_image, JPEG and PNG", PEER, session.pixels(name), wanted.numpy(), 0, what=name)


def test_resize(session):
    """tf.image.resize gives unrounded floats; bicubic overshoots between its passes, which we and Pillow clip."""
    for name in ("chelsea.png", "astronaut.png"):
        image = session.pixels(name)
        for width, height in ((224, 224), (64, 48), (500, 333), (640, 800), (31, 17)):
            for filter_, antialias, most in (("bilinear", True, 0.6), ("bicubic", True, 12), ("bilinear", False, 0.6),
                                             ("bicubic", False, 12)):
                text = "resize(image, %d, %d, filter=%s, antialias=%s)" % (height, width, filter_, str(antialias).lower())
                found, = run(session, [image], text)
                wanted = tensorflow.image.resize(image, [height, width], filter_, antialias=antialias).numpy()
                op = "resize, " + filter_ + ("" if antialias else ", antialias=false")
                session.close(op, PEER, found, numpy.clip(wanted, 0, 255), most, 0.4, "%s to %dx%d" % (name, width, height))


def test_resize_area(session):
    image = session.pixels("astronaut.png")
    for width, height in ((256, 128), (64, 64), (32, 16)):
        found, = run(session, [image], "resize(image, %d, %d, filter=area)" % (height, width))
        wanted = tensorflow.image.resize(image, [height, width], "area").numpy()
        session.close("resize, area, by whole factors", PEER, found, wanted, 0.6, 0.4, "to %dx%d" % (width, height))


def test_color_jitter_hue(session):
    """Its saturation is another thing: it multiplies the S of HSV."""
    image = session.pixels("coffee.png", (120, 90))
    for found in run(session, [image], "color_jitter(image, hue=0.5)", 8, seed=7):
        turned = lambda turn: tensorflow.image.adjust_hue(image, turn).numpy()
        turn = best(lambda t: off(found, turned(t)), -0.5, 0.5)
        session.close("color_jitter, hue", PEER, found, turned(turn), 2, 0.3, "by %.4f" % turn)


def test_grayscale(session):
    image = session.pixels("chelsea.png", (131, 97))
    found, = run(session, [image], "grayscale(image, channels=1)")
    session.close("grayscale", PEER, found, tensorflow.image.rgb_to_grayscale(image).numpy(), 1)


def test_last_steps(session):
    image = session.pixels("rocket.jpg", (99, 70))
    for direction, function in (("horizontal", tensorflow.image.flip_left_right), ("vertical", tensorflow.image.flip_up_down)):
        found, = run(session, [image], "random_flip(image, direction=%s, p=1)" % direction)
        session.close("random_flip, center_crop", PEER, found, function(image).numpy(), 0, what=direction)
    found, = run(session, [image], "center_crop(image, 50, 80)")
    wanted = tensorflow.image.resize_with_crop_or_pad(image, 50, 80).numpy()
    session.close("random_flip, center_crop", PEER, found, wanted, 0)
    labels = next(iter(session.stoker.batches("range(7) | one_hot(value, 7) | batch(7)")))["value"]
    session.close("one_hot", PEER, labels, tensorflow.one_hot(range(7), 7).numpy(), 0)
    found, = run(session, [image], "cast(image=bfloat16)")
    wanted = tensorflow.cast(tensorflow.cast(image, tensorflow.bfloat16), tensorflow.float32).numpy()
    session.close("cast", PEER, found, wanted, 0, what="bfloat16")


if __name__ == "__main__":
    sys.exit(numlib.main(numlib.defined(sys.modules[__name__])))
