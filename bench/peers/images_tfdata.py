#!/usr/bin/env python3
"""tf.data for the image benchmarks; images_common.py tells the arguments.

Follows https://www.tensorflow.org/guide/data_performance: parallel interleave, map and prefetch with AUTOTUNE, order
left free, cheap steps on whole batches. JPEG follows the ResNet of TensorFlow's benchmarks (tf_cnn_benchmarks):
sample_distorted_bounding_box, decode_and_crop_jpeg with the fast DCT and plain upsampling, bilinear resize.

sample: every step on one picture, then batch. vector: decode (and crop, for JPEG) on one picture, the rest on batches.
batch: batches from the start, with map_fn around the decoder, so that tf.data handles few and large elements; one file
after another, which is faster than interleave for files in memory.
"""
import math
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf  # noqa: E402

import images_common as common  # noqa: E402

AUTOTUNE = tf.data.AUTOTUNE
SPEC = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
VARIANTS = {work: ["batch", "vector", "sample"] for work in common.BATCH}


def records(args):
    files = common.shards(args)
    if args.variant == "batch":
        ds = tf.data.TFRecordDataset(files)
    else:
        ds = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files)).interleave(
            tf.data.TFRecordDataset, cycle_length=AUTOTUNE, num_parallel_calls=AUTOTUNE, deterministic=False)
    return ds.shuffle(10000).repeat() if args.work == "cifar" else ds.repeat()


# ---- CIFAR ----

def decode_png(data):
    return tf.ensure_shape(tf.io.decode_png(data, channels=3), [32, 32, 3])


def project(images, rows, method):
    """Output pixel (x, y) is input pixel (a x + b y + c, d x + e y + f); rows holds a to f for each picture."""
    zeros = tf.zeros([tf.shape(rows)[0], 2])
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=images, transforms=tf.concat([rows, zeros], 1), output_shape=[32, 32], fill_value=0.0,
        interpolation=method, fill_mode="CONSTANT")


def crop_and_flip(padded):
    """32x32 pixels at a random place of each 40x40 picture, mirrored or not; one gather for columns, one for rows."""
    n = tf.shape(padded)[0]
    at = tf.random.uniform([2, n, 1], 0, 9, tf.int32)
    line = tf.range(32)[tf.newaxis]
    flip = tf.random.uniform([n, 1], 0, 2, tf.int32)
    columns = at[1] + tf.where(flip == 1, 31 - line, line)
    rows = tf.gather(padded, at[0] + line, axis=1, batch_dims=1)
    return tf.gather(rows, columns, axis=2, batch_dims=1)


def rotate(images):
    n = tf.shape(images)[0]
    angle = tf.random.uniform([n], -10, 10) * (math.pi / 180)
    c, s = tf.cos(angle), tf.sin(angle)
    # About the middle of the picture, (15.5, 15.5) when pixels are counted from 0.
    rows = tf.stack([c, -s, 15.5 * (1 - c + s), s, c, 15.5 * (1 - s - c)], 1)
    return project(images, rows, "BILINEAR")


def cutout(images):
    """8x8 zeros around a random pixel, cut off at the edges."""
    n = tf.shape(images)[0]
    centre = tf.random.uniform([2, n, 1], 0, 32, tf.int32)
    line = tf.range(32)[tf.newaxis]
    inside = lambda at: (line >= at - 4) & (line < at + 4)
    hole = inside(centre[0])[:, :, tf.newaxis] & inside(centre[1])[:, tf.newaxis, :]
    return tf.where(hole[..., tf.newaxis], 0.0, images)


def augment_cifar(images):
    padded = tf.pad(images, [[0, 0], [4, 4], [4, 4], [0, 0]], "REFLECT")
    images = rotate(crop_and_flip(padded))
    images = (tf.cast(images, tf.float32) - common.CIFAR_MEAN) * [1 / x for x in common.CIFAR_STD]
    return cutout(images)


def augment_one_cifar(image):
    """The same with the functions of tf.image, as people write it."""
    image = tf.pad(image, [[4, 4], [4, 4], [0, 0]], "REFLECT")
    image = tf.image.random_flip_left_right(tf.image.random_crop(image, [32, 32, 3]))
    image = (tf.cast(rotate(image[tf.newaxis])[0], tf.float32) - common.CIFAR_MEAN) * [1 / x for x in common.CIFAR_STD]
    return cutout(image[tf.newaxis])[0]


# ---- JPEG ----

def decode_jpeg(data):
    """A random part of the picture, 224x224."""
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.image.extract_jpeg_shape(data), tf.zeros([1, 0, 4]), min_object_covered=0.1,
        aspect_ratio_range=[3 / 4, 4 / 3], area_range=[0.08, 1.0], max_attempts=10, use_image_if_no_bounding_boxes=True)
    window = tf.stack([begin[0], begin[1], size[0], size[1]])
    image = tf.io.decode_and_crop_jpeg(data, window, channels=3, dct_method="INTEGER_FAST", fancy_upscaling=False)
    return tf.image.resize(image, [224, 224])


def finish_one(image):
    image = tf.image.random_flip_left_right(image)
    return tf.transpose((image - common.MEAN) * [1 / x for x in common.STD], [2, 0, 1])


def finish(images):
    flip = tf.random.uniform([tf.shape(images)[0], 1, 1, 1]) < 0.5
    images = tf.where(flip, tf.reverse(images, [2]), images)
    return tf.transpose((images - common.MEAN) * [1 / x for x in common.STD], [0, 3, 1, 2])


# ---- the pipeline ----

def dataset(args, decode, dtype, one, many):
    """decode: bytes to a picture; one, many: the steps behind it for a picture and for a batch."""
    ds = records(args)
    if args.variant == "batch":
        def whole(records):
            example = tf.io.parse_example(records, SPEC)
            return many(tf.map_fn(decode, example["image"], fn_output_signature=dtype)), example["label"]
        return ds.batch(args.batch).map(whole, num_parallel_calls=AUTOTUNE)

    def decoded(record):
        example = tf.io.parse_single_example(record, SPEC)
        image = decode(example["image"])
        return image if args.variant == "vector" else one(image), example["label"]
    ds = ds.map(decoded, num_parallel_calls=AUTOTUNE).batch(args.batch)
    if args.variant == "vector":
        ds = ds.map(lambda images, labels: (many(images), labels), num_parallel_calls=AUTOTUNE)
    return ds


def main():
    args = common.arguments(VARIANTS)
    options = tf.data.Options()
    options.deterministic = False
    options.autotune.enabled = True
    if args.work == "cifar":
        ds = dataset(args, decode_png, tf.uint8, augment_one_cifar, augment_cifar)
    else:
        ds = dataset(args, decode_jpeg, tf.float32, finish_one, finish)
    common.report(args, "tensorflow " + tf.__version__, lambda: ds.prefetch(AUTOTUNE).with_options(options))


if __name__ == "__main__":
    main()
