#!/usr/bin/env python3
"""Make the picture sets of the image benchmarks from real photographs: make_images.py FOLDER [--quick]

The photographs come from Debian's wallpaper packages (fetched with apt-get download, not installed) and from the
samples of scikit-image and scikit-learn. Every picture is a crop of one of them at its own place and scale, drawn
with a fixed seed. FOLDER gets

    cifar-*.tfrecord     32x32 PNGs (as Pillow writes them), Examples {image: bytes, label: int64}, in 8 shards
    jpeg500-*.tfrecord   500x375 JPEGs, quality 95, 4:2:0; and jpeg500/CLASS/*.jpg, the same pictures as files
    jpeg2000-*.tfrecord  2000x1500 JPEGs, the same way
    png500-*.tfrecord    500x375 PNGs
    *.tfrecord.idx       what DALI's reader wants: offset and size of each record
    sets.json            how many pictures each set has, their mean size in bytes, the photographs used

It is written beside FOLDER and moved there when it is complete.
"""
import argparse
import glob
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

import google_crc32c
import numpy as np
from PIL import Image

SEED = 20240607
PACKAGES = ["mate-backgrounds", "plasma-workspace-wallpapers"]
# Those of their pictures that are photographs.
PHOTOGRAPHS = [f"backgrounds/mate/nature/{name}.jpg" for name in
               ("Blinds", "Dune", "FreshFlower", "Garden", "GreenMeadow", "LadyBird", "RainDrops", "Storm", "TwoWings",
                "Wood", "YellowFlower")]
PHOTOGRAPHS += [f"wallpapers/{name}/contents/images/2560x1600.jpg" for name in
                ("Autumn", "BytheWater", "ColdRipple", "ColorfulCups", "EveningGlow", "FallenLeaf", "Kite",
                 "OneStandsOut", "Path")]
SAMPLES = [("skimage", "data/coffee.png"), ("skimage", "data/astronaut.png"), ("skimage", "data/motorcycle_left.png"),
           ("skimage", "data/chelsea.png"), ("skimage", "data/rocket.jpg"), ("skimage", "data/ihc.png"),
           ("sklearn", "datasets/images/flower.jpg"), ("sklearn", "datasets/images/china.jpg")]
CLASSES = 10
# Name: width, height, shards, pictures, and pictures with --quick. `least` is the smallest crop, as a share of the
# picture's own size: below 1 a photograph is enlarged, which makes it smooth. Crops with less detail than `detail` (the
# mean difference of neighbouring pixels) are drawn again: nobody keeps pictures of plain sky.
SETS = {
    "cifar": {"size": (32, 32), "shards": 8, "count": (50000, 4096), "least": 2.0, "detail": 7.0, "format": "PNG"},
    "jpeg500": {"size": (500, 375), "shards": 4, "count": (2000, 256), "least": 1.0, "detail": 5.0, "format": "JPEG"},
    "jpeg2000": {"size": (2000, 1500), "shards": 2, "count": (150, 16), "least": 0.6, "detail": 1.5, "format": "JPEG"},
    "png500": {"size": (500, 375), "shards": 2, "count": (300, 64), "least": 1.0, "detail": 5.0, "format": "PNG"},
}
QUALITY = 95


# ---- photographs ----

def fetch_packages(folder):
    """Unpacks the wallpaper packages below folder; what cannot be had is told and left out."""
    for package in PACKAGES:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                subprocess.run(["apt-get", "download", "-q", package], cwd=scratch, check=True, capture_output=True)
                subprocess.run(["dpkg-deb", "-x", *glob.glob(os.path.join(scratch, "*.deb")), folder], check=True)
            except (OSError, subprocess.CalledProcessError) as e:
                print(f"make_images.py: no photographs from {package}: {e}", file=sys.stderr)


def sample_path(module, path):
    for folder in sys.path:
        full = os.path.join(folder, module, path)
        if os.path.isfile(full):
            return full
    return None


def photograph_paths(folder):
    paths = [os.path.join(folder, "usr/share", path) for path in PHOTOGRAPHS]
    paths += [sample_path(module, path) for module, path in SAMPLES]
    return [path for path in paths if path and os.path.isfile(path)]


class Photograph:
    """A picture and its halves, so that a small picture of a large crop costs little."""

    def __init__(self, path):
        self.name = os.path.basename(path) if "contents" not in path else path.split(os.sep)[-4] + ".jpg"
        self.levels = [Image.open(path).convert("RGB")]
        # Else Pillow would put the colour profile into each small PNG.
        self.levels[0].info = {}
        while min(self.levels[-1].size) >= 128:
            self.levels.append(self.levels[-1].reduce(2))

    @property
    def size(self):
        return self.levels[0].size

    def crop(self, box, size):
        """The part `box` of the full picture in `size` pixels."""
        level = 0
        while level + 1 < len(self.levels) and (box[2] - box[0]) / 2 ** (level + 1) >= size[0] * 1.5:
            level += 1
        image = self.levels[level]
        scale = image.size[0] / self.size[0], image.size[1] / self.size[1]
        part = tuple(min(v * scale[i % 2], image.size[i % 2]) for i, v in enumerate(box))
        return image.resize(size, Image.Resampling.BICUBIC, box=part)


def draw_box(rng, photograph, size, least):
    """A crop of the wanted shape, any scale from `least` up to all of the photograph."""
    width, height = photograph.size
    most = min(width / size[0], height / size[1])
    scale = np.exp(rng.uniform(np.log(min(least, most)), np.log(most)))
    w, h = size[0] * scale, size[1] * scale
    x, y = rng.uniform(0, width - w), rng.uniform(0, height - h)
    return (x, y, x + w, y + h)


def detail(image):
    pixels = np.asarray(image.convert("L") if image.size[0] <= 64 else image.reduce(2).convert("L"), np.int16)
    return (np.abs(np.diff(pixels, axis=0)).mean() + np.abs(np.diff(pixels, axis=1)).mean()) / 2


def draw_picture(rng, photographs, spec):
    """One picture and the number of its photograph."""
    for _ in range(50):
        which = int(rng.integers(len(photographs)))
        photograph = photographs[which]
        # One that would have to be enlarged more than the set allows is left out.
        if min(photograph.size[0] / spec["size"][0], photograph.size[1] / spec["size"][1]) < spec["least"]:
            continue
        image = photograph.crop(draw_box(rng, photograph, spec["size"], spec["least"]), spec["size"])
        if rng.integers(2):
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if detail(image) >= spec["detail"]:
            break
    return image, which


def encode(image, kind):
    out = io.BytesIO()
    if kind == "JPEG":
        image.save(out, kind, quality=QUALITY, subsampling="4:2:0")
    else:
        image.save(out, kind)
    return out.getvalue()


# ---- records ----

def varint(x):
    out = bytearray()
    while x >= 128:
        out.append(x & 127 | 128)
        x >>= 7
    out.append(x)
    return bytes(out)


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def example(image, label):
    """A tf.train.Example {image: bytes, label: int64}."""
    def entry(key, feature):
        return field(1, field(1, key) + field(2, feature))
    features = entry(b"image", field(1, field(1, image))) + entry(b"label", field(3, field(1, varint(label))))
    return field(1, features)


def masked_crc(data):
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)


class Shards:
    """TFRecord files that take records in turn, each with its index beside it."""

    def __init__(self, folder, name, count):
        paths = [os.path.join(folder, f"{name}-{i:05}-of-{count:05}.tfrecord") for i in range(count)]
        self.files = [open(path, "wb") for path in paths]
        self.indexes = [open(path + ".idx", "w", encoding="ascii") for path in paths]
        self.records = 0

    def write(self, record):
        which = self.records % len(self.files)
        length = struct.pack("<Q", len(record))
        f = self.files[which]
        self.indexes[which].write(f"{f.tell()} {len(record) + 16}\n")
        f.write(length + masked_crc(length) + record + masked_crc(record))
        self.records += 1

    def close(self):
        for f in self.files + self.indexes:
            f.close()


# ---- sets ----

def make_set(folder, name, photographs, quick):
    spec = SETS[name]
    rng = np.random.default_rng([SEED, list(SETS).index(name)])
    shards = Shards(folder, name, spec["shards"])
    count = spec["count"][quick]
    total = 0
    for i in range(count):
        image, which = draw_picture(rng, photographs, spec)
        data = encode(image, spec["format"])
        total += len(data)
        label = which % CLASSES
        shards.write(example(data, label))
        if spec["format"] == "JPEG":
            parent = os.path.join(folder, name, f"class_{label}")
            os.makedirs(parent, exist_ok=True)
            with open(os.path.join(parent, f"{i:05}.jpg"), "wb") as f:
                f.write(data)
    shards.close()
    print(f"{name}: {count} pictures, {total / count:,.0f} bytes each", flush=True)
    return {"count": count, "mean_bytes": round(total / count), "width": spec["size"][0], "height": spec["size"][1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--quick", action="store_true", help="small sets")
    parser.add_argument("--photographs", metavar="DIR", help="where the wallpaper packages are unpacked already")
    args = parser.parse_args()
    part = args.folder.rstrip("/") + ".part"
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    with tempfile.TemporaryDirectory() as scratch:
        where = args.photographs or scratch
        if not args.photographs:
            fetch_packages(where)
        photographs = [Photograph(path) for path in photograph_paths(where)]
    if not photographs:
        print("make_images.py: found no photograph at all", file=sys.stderr)
        return 1
    print(f"{len(photographs)} photographs", flush=True)
    sets = {name: make_set(part, name, photographs, args.quick) for name in SETS}
    with open(os.path.join(part, "sets.json"), "w", encoding="utf-8") as f:
        json.dump({"sets": sets, "photographs": [p.name for p in photographs]}, f, indent=1)
    shutil.rmtree(args.folder, ignore_errors=True)
    os.rename(part, args.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
