#!/usr/bin/env python3
"""Makes docs/img/augment.png with the program: a picture, and what each image op makes of it.

make_sheet.py [BUILD_DIR] [OUTPUT]
"""
import math
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH, HEIGHT, COLUMNS = 126, 94, 8
FIT = f"resize(image, {HEIGHT}, {WIDTH})"
# Caption, then what follows decode_image. Pictures have twice the size of the tiles. Some draw no random numbers.
FIXED = ("the picture", "pad constant", "pad reflect", "center_crop", "resize nearest", "resize bicubic", "random_flip",
         "random_flip vertical", "grayscale", "normalize", "JPEG quality 5")
OPS = [
    ("the picture", FIT),
    ("pad constant", f"pad(image, 24, fill=90) | {FIT}"),
    ("pad reflect", f"pad(image, 48, mode=reflect) | {FIT}"),
    ("random_crop", f"random_crop(image, {HEIGHT}, {WIDTH})"),
    ("center_crop", f"center_crop(image, {HEIGHT}, {WIDTH})"),
    ("random_resized_crop", f"random_resized_crop(image, {HEIGHT}, {WIDTH})"),
    ("resize nearest", f"resize(image, 24, 32) | resize(image, {HEIGHT}, {WIDTH}, filter=nearest)"),
    ("resize bicubic", f"resize(image, 24, 32) | resize(image, {HEIGHT}, {WIDTH}, filter=bicubic)"),
    ("random_flip", f"{FIT} | random_flip(image, p=1)"),
    ("random_flip vertical", f"{FIT} | random_flip(image, vertical, p=1)"),
    ("random_rotate 30", f"{FIT} | random_rotate(image, degrees=30)"),
    ("cutout 32", f"{FIT} | cutout(image, 32)"),
    ("random_erasing", f"{FIT} | random_erasing(image, p=1, fill=128)"),
    ("brightness", f"{FIT} | color_jitter(image, brightness=0.8)"),
    ("contrast", f"{FIT} | color_jitter(image, contrast=0.9)"),
    ("saturation", f"{FIT} | color_jitter(image, saturation=1)"),
    ("hue", f"{FIT} | color_jitter(image, hue=0.5)"),
    ("color_jitter", f"{FIT} | color_jitter(image, brightness=0.5, contrast=0.5, saturation=0.5, hue=0.2)"),
    ("grayscale", f"{FIT} | grayscale(image)"),
    ("gaussian_blur", f"{FIT} | gaussian_blur(image, 9, sigma=[0.5, 4])"),
    ("trivial_augment", f"{FIT} | trivial_augment(image)"),
    ("rand_augment", f"{FIT} | rand_augment(image, ops=3, magnitude=14)"),
    ("normalize", f"{FIT} | normalize(image, mean=[125, 123, 114], std=[63, 62, 67])"),
    ("mixup", f"{FIT} | one_hot(label, 2) | batch(2) | mixup(image, label)"),
    ("cutmix", f"{FIT} | one_hot(label, 2) | batch(2) | cutmix(image, label)"),
    ("JPEG quality 5", f"{FIT} | encode_jpeg(image, quality=5) | decode_image(image)"),
    ("jitter+rrc+flip", f"random_resized_crop(image, {HEIGHT}, {WIDTH}, scale=[0.3, 1]) | random_flip(image) | "
                        "color_jitter(image, 0.3, 0.3, 0.3, 0.1)"),
]


def landscape(x, y):
    """A scene where up and down, left and right, and colours can be told apart; x and y in 0 to 1."""
    if (x - 0.78) ** 2 + ((y - 0.22) * 0.75) ** 2 < 0.008:
        return 255, 214, 80
    hill = 0.62 + 0.1 * math.sin(5 * x + 0.6) + 0.03 * math.sin(17 * x)
    if 0.18 < x < 0.42 and 0.5 < y < 0.82:
        if 0.27 < x < 0.33 and y > 0.66:
            return 92, 58, 40
        if (0.20 < x < 0.25 or 0.35 < x < 0.40) and 0.56 < y < 0.64:
            return 150, 200, 235
        return 214, 196, 168
    if 0.28 <= y < 0.5 and abs(x - 0.3) < (y - 0.28) * 0.75:
        return 178, 58, 48
    if abs(x - 0.62) < 0.016 and 0.5 < y < 0.8:
        return 100, 68, 40
    if (x - 0.62) ** 2 + ((y - 0.42) * 0.8) ** 2 < 0.012 + 0.002 * math.sin(40 * x) * math.sin(35 * y):
        return 52, 120 + int(40 * math.sin(60 * x + 40 * y) ** 2), 60
    if y > hill:
        shade = int(26 * math.sin(90 * x + 3 * math.sin(60 * y)) ** 2)
        return 96 + shade, 150 + shade - int(60 * (y - hill)), 70
    return int(90 + 120 * y), int(150 + 80 * y), 235


def rings(x, y):
    d = math.hypot(x - 0.5, (y - 0.5) * 0.75)
    wave = math.sin(60 * d) ** 2
    return int(240 * wave), int(60 + 120 * x), int(200 * (1 - wave) + 40 * y)


def write_png(path, picture, width, height):
    rows = b"".join(b"\0" + bytes(v for x in range(width) for v in picture(x / width, y / height)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    path.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def run(build, text):
    subprocess.run([str(build / "stoker"), "run", "--quiet", "--threads", "1", "--seed", "11", "-e", text], check=True)


def make_tiles(build, work):
    """A sheet of one image for each draw, all of them in a tar file, since its keys become the captions."""
    with tarfile.open(work / "tiles.tar", "w") as tar:
        for caption, ops in OPS:
            batch = "" if "batch(" in ops else " | batch(1)"
            pictures = 2 if "batch(" in ops else 1
            for draw in range(1 if caption in FIXED else 2):
                run(build, f'image_folder("{work}/pictures") | take({pictures}) | decode_image(image) | {ops}{batch} | repeat | '
                           f'skip({draw}) | take(1) | write_sheet("{work}/tile.png", count=1)')
                tar.add(work / "tile.png", f"{caption}{'' if draw == 0 else f' {draw + 1}'}.png")


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build")
    output = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs/img/augment.png")
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        write_png(work / "pictures/0/landscape.png", landscape, 2 * WIDTH, 2 * HEIGHT)
        write_png(work / "pictures/1/rings.png", rings, 2 * WIDTH, 2 * HEIGHT)
        make_tiles(build, work)
        # A sheet has a margin of 4 pixels, which the crop takes off.
        run(build, f'webdataset("{work}/tiles.tar", image=bytes(from="png")) | decode_image(image) | '
                   f'center_crop(image, {HEIGHT}, {WIDTH}) | write_sheet("{output}", caption="key", columns={COLUMNS}, count=999)')
    print(f"{output}: {len(OPS)} ops, {output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
