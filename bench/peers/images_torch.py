#!/usr/bin/env python3
"""PyTorch DataLoader with 2 workers and torchvision's v2 transforms; images_common.py tells the arguments.

Follows https://docs.pytorch.org/vision/stable/transforms.html ("Performance considerations"): v2, uint8 tensors until
the end, bilinear, several workers; and the loader's own notes: persistent workers, no work in the main process.
CIFAR's PNGs are read from the TFRecords into memory beforehand, which is the best case; JPEGs come from ImageFolder.

tensor: torchvision.io.decode_image, then tensors. pil: Pillow decodes and augments, tensors at the end.
"""
import io
import os

import torch
import torchvision
from PIL import Image
from torchvision.transforms import v2

import images_common as common

VARIANTS = {work: ["tensor", "pil"] for work in common.BATCH}
UNIT = 1 / 255


class Records(torch.utils.data.Dataset):
    """Pictures of TFRecord files, all in one block of memory, so that workers share it and copy nothing."""

    def __init__(self, files, decode, transform):
        pairs = [pair for path in files for pair in common.read_examples(path)]
        ends = torch.tensor([len(data) for data, _ in pairs]).cumsum(0)
        self.ends, self.labels = ends, torch.tensor([label for _, label in pairs])
        self.data = torch.frombuffer(bytearray(b"".join(data for data, _ in pairs)), dtype=torch.uint8)
        self.decode, self.transform = decode, transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        begin = int(self.ends[i - 1]) if i else 0
        return self.transform(self.decode(self.data[begin:int(self.ends[i])])), int(self.labels[i])


def decode_tensor(data):
    return torchvision.io.decode_image(data, torchvision.io.ImageReadMode.RGB)


def decode_pil(data):
    return Image.open(io.BytesIO(data.numpy())).convert("RGB")


def load_tensor(path):
    return torchvision.io.decode_image(torchvision.io.read_file(path), torchvision.io.ImageReadMode.RGB)


def load_pil(path):
    with open(path, "rb") as f:
        return Image.open(f).convert("RGB")


def normalize(pil, mean, std):
    steps = [v2.PILToTensor()] if pil else []
    return steps + [v2.ToDtype(torch.float32, scale=True),
                    v2.Normalize([x * UNIT for x in mean], [x * UNIT for x in std], inplace=True)]


def cifar(args):
    pil = args.variant == "pil"
    share = 64 / 1024
    transform = v2.Compose([
        v2.Pad(4, padding_mode="reflect"), v2.RandomCrop(32), v2.RandomHorizontalFlip(),
        v2.RandomRotation(10, interpolation=v2.InterpolationMode.BILINEAR),
        *normalize(pil, common.CIFAR_MEAN, common.CIFAR_STD),
        # The nearest to cutout that there is: one square of 8x8, inside the picture.
        v2.RandomErasing(p=1, scale=(share, share), ratio=(1, 1), value=0, inplace=True)])
    return Records(common.shards(args), decode_pil if pil else decode_tensor, transform)


def jpeg(args):
    pil = args.variant == "pil"
    transform = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(),
                            *normalize(pil, common.MEAN, common.STD)])
    folder = os.path.join(args.data, args.work)
    return torchvision.datasets.ImageFolder(folder, transform, loader=load_pil if pil else load_tensor)


class Endless(torch.utils.data.Sampler):
    """All indices in random order, again and again: no pause between epochs."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        while True:
            yield from torch.randperm(self.count).tolist()


def main():
    args = common.arguments(VARIANTS)
    dataset = cifar(args) if args.work == "cifar" else jpeg(args)
    loader = torch.utils.data.DataLoader(dataset, args.batch, sampler=Endless(len(dataset)), drop_last=True,
                                         num_workers=common.WORKERS, persistent_workers=True, prefetch_factor=2)
    common.report(args, f"torch {torch.__version__}, torchvision {torchvision.__version__}", lambda: loader)


if __name__ == "__main__":
    main()
