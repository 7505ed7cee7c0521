#!/usr/bin/env python3
"""FFCV with 2 workers for the JPEG benchmarks; images_common.py tells the arguments.

Follows https://docs.ffcv.io/ffcv_examples/imagenet.html with everything on the CPU: RandomResizedCropRGBImageDecoder,
RandomHorizontalFlip, NormalizeImage, ToTensor, ToTorchImage; files in the page cache. FFCV reads its own format only:
the pictures are converted once, beside the others, as JPEGs of the same quality.
"""
import os

import ffcv
import numpy as np
import torchvision
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.reader import Reader
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter

import images_common as common

VARIANTS = {"jpeg500": ["jpg"], "jpeg2000": ["jpg"]}
# As in make_images.py.
QUALITY = 95


def convert(args):
    path = os.path.join(args.data, args.work + ".beton")
    if not os.path.exists(path):
        fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=QUALITY), "label": IntField()}
        folder = torchvision.datasets.ImageFolder(os.path.join(args.data, args.work))
        DatasetWriter(path + ".part", fields, num_workers=common.WORKERS).from_indexed_dataset(folder)
        os.rename(path + ".part", path)
    return path


def batches(args):
    path = convert(args)
    pipelines = {
        "image": [RandomResizedCropRGBImageDecoder((224, 224)), RandomHorizontalFlip(),
                  NormalizeImage(np.array(common.MEAN), np.array(common.STD), np.float32), ToTensor(),
                  ToTorchImage(channels_last=False)],
        "label": [IntDecoder(), ToTensor(), Squeeze()],
    }
    options = {"batch_size": args.batch, "num_workers": common.WORKERS, "order": OrderOption.RANDOM, "os_cache": True,
               "drop_last": True, "pipelines": pipelines}
    count = int(Reader(path).num_samples)
    # Long epochs: FFCV pauses between them, which a large set hardly notices.
    loader = Loader(path, indices=np.tile(np.arange(count), max(1, 100000 // count)), **options)
    while True:
        yield from loader


def version():
    # ffcv.__version__ is wrong in the released package.
    from importlib.metadata import version as installed
    return installed(ffcv.__name__)


def main():
    args = common.arguments(VARIANTS)
    common.report(args, "ffcv " + version(), lambda: batches(args))
    # Its threads cannot be ended: without this the program would end with an abort.
    os._exit(0)


if __name__ == "__main__":
    main()
