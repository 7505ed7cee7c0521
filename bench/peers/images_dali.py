#!/usr/bin/env python3
"""DALI's CPU pipeline with 2 threads; images_common.py tells the arguments.

JPEG follows DALI's ImageNet example: decoders.image_random_crop, resize, crop_mirror_normalize. CIFAR: DALI has no
reflecting border, so its crop takes zeros there, which is less work; the mirroring is done in the last pass, after the
rotation, which gives the same distribution.

tfrecord: its TFRecord reader with index files. file: pictures in folders.
"""
import os

import nvidia.dali as dali
from nvidia.dali import fn, pipeline_def, tfrecord as tfrec, types

import images_common as common

VARIANTS = {"cifar": ["tfrecord"], "jpeg500": ["tfrecord", "file"], "jpeg2000": ["tfrecord", "file"]}


def read(args):
    """Compressed pictures and labels."""
    shuffle = args.work == "cifar"
    if args.variant == "file":
        return fn.readers.file(file_root=os.path.join(args.data, args.work), random_shuffle=shuffle, name="reader")
    files = common.shards(args)
    out = fn.readers.tfrecord(
        path=files, index_path=[path + ".idx" for path in files], random_shuffle=shuffle, initial_fill=1024,
        name="reader",
        features={"image": tfrec.FixedLenFeature((), tfrec.string, ""),
                  "label": tfrec.FixedLenFeature([1], tfrec.int64, -1)})
    return out["image"], out["label"]


@pipeline_def
def cifar(args):
    images, labels = read(args)
    images = fn.decoders.image(images, device="cpu", output_type=types.RGB)
    corner = fn.random.uniform(values=list(range(-4, 5)), shape=2, dtype=types.INT32)
    images = fn.slice(images, start=corner, shape=[32, 32], axes=[0, 1], out_of_bounds_policy="pad", fill_values=0)
    images = fn.rotate(images, angle=fn.random.uniform(range=[-10.0, 10.0]), keep_size=True, fill_value=0,
                       interp_type=types.INTERP_LINEAR)
    images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), dtype=types.FLOAT, output_layout="HWC",
                                      mean=common.CIFAR_MEAN, std=common.CIFAR_STD)
    hole = fn.random.uniform(range=[-4.0, 28.0], shape=2)
    images = fn.erase(images, anchor=hole, shape=[8.0, 8.0], axis_names="HW", fill_value=0.0)
    return images, labels


@pipeline_def
def jpeg(args):
    images, labels = read(args)
    images = fn.decoders.image_random_crop(images, device="cpu", output_type=types.RGB,
                                           random_aspect_ratio=[0.75, 4 / 3], random_area=[0.08, 1.0], num_attempts=100)
    images = fn.resize(images, resize_x=224, resize_y=224, interp_type=types.INTERP_TRIANGULAR)
    images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), dtype=types.FLOAT, output_layout="CHW",
                                      crop=(224, 224), mean=common.MEAN, std=common.STD)
    return images, labels


def batches(args):
    make = cifar if args.work == "cifar" else jpeg
    pipe = make(args, batch_size=args.batch, num_threads=common.WORKERS, device_id=None, seed=1, prefetch_queue_depth=2)
    pipe.build()
    while True:
        images, labels = pipe.run()
        yield images.as_tensor(), labels


class Sized:
    """The shape that measure() asks for, from DALI's tensor."""

    def __init__(self, tensor):
        self.shape, self.tensor = tensor.shape(), tensor

    def __array__(self, dtype=None, copy=None):
        import numpy as np
        return np.array(self.tensor)


def main():
    args = common.arguments(VARIANTS)
    make = lambda: ((Sized(images), labels) for images, labels in batches(args))
    common.report(args, "dali " + dali.__version__, make)


if __name__ == "__main__":
    main()
