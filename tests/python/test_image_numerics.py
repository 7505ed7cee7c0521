#!/usr/bin/env python3
"""Pixels of the image ops against Pillow, libjpeg-turbo and numpy, on photographs; and how random the random ops are.

Usage: test_image_numerics.py BUILD_DIR [--table] [PART_OF_A_NAME...]
Needs numpy, Pillow and scikit-image's photographs (tests/python/requirements*.txt); without them it is skipped. Prints
"N passed, N failed". scripts/numerics.sh runs this and the same comparisons with torchvision and TensorFlow.
"""
import io
import os
import struct
import subprocess
import sys
import warnings
import zlib

try:
    import numpy
    from PIL import Image, ImageEnhance, ImageFilter, ImageOps
except ImportError as missing:
    print("skipped: %s; scripts/deps.sh test installs it" % missing)
    sys.exit(77)

import numlib
from numlib import Folder, Skip, angles, best, corners, draws, labelled, off, rectangles, run, slopes

# Pillow would rather have palettes with alpha turned to RGBA; we want to see what RGB gives.
warnings.filterwarnings("ignore", message="Palette images with Transparency")
JPEG_TOOL = "tests/jpeg_tool"


# ---- pictures ----

def opened(data):
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def photo(session, name, size=None):
    """A photograph as RGB, cut to a size around its middle."""
    image = opened(session.photo(name)).convert("RGB")
    if size:
        left, top = (image.width - size[0]) // 2, (image.height - size[1]) // 2
        image = image.crop((left, top, left + size[0], top + size[1]))
    return image


def encoded(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def png(image):
    return encoded(image, "PNG", compress_level=1)


def pixels(image, channels=3):
    """What Pillow shows, as our arrays."""
    mode = {1: "L", 3: "RGB", 4: "RGBA"}[channels]
    found = numpy.asarray(image if image.mode == mode else image.convert(mode))
    return found[:, :, None] if channels == 1 else found


def jpeg_tool(session, data, *arguments):
    program = os.path.join(session.build, JPEG_TOOL)
    if not os.path.exists(program):
        raise Skip("%s is not built" % JPEG_TOOL)
    return subprocess.run([program, *arguments], input=data, stdout=subprocess.PIPE, timeout=60, check=True).stdout


def decoded(session, files, ending, more=""):
    """Our pixels of encoded pictures."""
    with Folder() as folder:
        for data in files:
            folder.add(data, ending)
        return session.stoker.rows(folder.source + " | decode_image(image%s) | batch(4)" % more)


def compare(session, op, files, ending, channels=3, most=0, more="", wanted=pixels):
    names, data = list(files), list(files.values())
    found = decoded(session, data, ending, ", channels=%d%s" % (channels, more))
    assert len(found) == len(names)
    for name, ours, file in zip(names, found, data):
        session.close(op, "Pillow", ours, wanted(opened(file), channels), most, what=name)


# ---- decode ----

def jpegs(session):
    """JPEGs of every kind that Pillow writes, with sizes that are no multiples of anything."""
    files = {name: session.photo(name) for name in ("rocket.jpg", "retina.jpg", "hubble_deep_field.jpg")}
    for name, size in (("astronaut.png", (509, 377)), ("coffee.png", (301, 200)), ("chelsea.png", (17, 13)),
                       ("ihc.png", (1, 1)), ("ihc.png", (8, 1)), ("ihc.png", (3, 40))):
        image = photo(session, name, size)
        for sampling in ("4:4:4", "4:2:2", "4:2:0"):
            for quality in (35, 90):
                label = "%s %dx%d %s q%d" % (name, *size, sampling, quality)
                files[label] = encoded(image, "JPEG", quality=quality, subsampling=sampling)
            files[label + " progressive"] = encoded(image, "JPEG", quality=80, subsampling=sampling, progressive=True)
            files[label + " restarts"] = encoded(image, "JPEG", quality=80, subsampling=sampling, restart_marker_blocks=5)
        files["%s %dx%d as RGB" % (name, *size)] = encoded(image, "JPEG", quality=80, keep_rgb=True)
    return files


def gray_jpegs(session):
    files = {}
    for name in numlib.GRAY:
        image = opened(session.photo(name)).convert("L").crop((3, 5, 260, 204))
        files[name] = encoded(image, "JPEG", quality=85)
        files[name + " progressive"] = encoded(image, "JPEG", quality=85, progressive=True)
    return files


def test_jpeg_is_as_pillow_decodes_it(session):
    compare(session, "decode_image, JPEG", {**jpegs(session), **gray_jpegs(session)}, ".jpg")


def test_jpeg_gray(session):
    compare(session, "decode_image, JPEG, channels=1", gray_jpegs(session), ".jpg", channels=1)


def test_jpeg_is_as_libjpeg_decodes_it(session):
    """Every sampling that the format allows, and arithmetic coding, by the library that is installed."""
    files = {}
    for name, size in (("astronaut.png", (253, 189)), ("coffee.png", (40, 33))):
        image = numpy.asarray(photo(session, name, size))
        ppm = b"P6\n%d %d\n255\n" % size + image.tobytes()
        for sampling in ("1x1", "2x1", "1x2", "2x2", "4x1", "1x4", "4x2", "2x4", "3x1", "1x3"):
            for kind in ("", "progressive"):
                files["%s %s %s" % (name, sampling, kind)] = jpeg_tool(session, ppm, "encode", sampling, "85", kind)
        files[name + " arithmetic"] = jpeg_tool(session, ppm, "encode", "2x2", "85", "arithmetic")
    files.update(jpegs(session))
    for channels, space in ((3, "rgb"), (1, "gray")):
        found = decoded(session, files.values(), ".jpg", ", channels=%d" % channels)
        for (name, data), ours in zip(files.items(), found):
            if channels == 1 and "as RGB" in name:
                continue
            wanted = pixels(opened(jpeg_tool(session, data, "decode", space)), channels)
            session.close("decode_image, JPEG", "libjpeg-turbo", ours, wanted, 0, what=name)


def test_jpeg_cmyk(session):
    files = {}
    for name in ("astronaut.png", "coffee.png"):
        image = photo(session, name, (250, 187)).convert("CMYK")
        files[name] = encoded(image, "JPEG", quality=90)
        files[name + " progressive"] = encoded(image, "JPEG", quality=90, progressive=True)
    compare(session, "decode_image, CMYK JPEG", files, ".jpg")


def test_orientation(session):
    image = photo(session, "rocket.jpg", (121, 80))
    for kind, ending in (("JPEG", ".jpg"), ("PNG", ".png"), ("WEBP", ".webp")):
        files = {}
        for orientation in range(1, 9):
            exif = Image.Exif()
            exif[0x112] = orientation
            files["%s orientation %d" % (kind, orientation)] = encoded(image, kind, exif=exif)
        turned = lambda image, channels: pixels(ImageOps.exif_transpose(image), channels)
        compare(session, "decode_image, orient=true", files, ending, more=", orient=true", wanted=turned)
        compare(session, "decode_image, orient=false", files, ending)


def pngs(session):
    """PNGs in every mode that Pillow writes."""
    image, files = photo(session, "astronaut.png", (203, 151)), {}
    alpha = image.convert("L").transpose(Image.Transpose.ROTATE_180).resize(image.size)
    with_alpha = image.copy()
    with_alpha.putalpha(alpha)
    modes = {"RGB": image, "RGBA": with_alpha, "L": image.convert("L"), "LA": with_alpha.convert("LA"),
             "1": image.convert("1"), "I;16": Image.fromarray(numpy.asarray(image.convert("L")).astype(numpy.uint16) * 251 + 77)}
    for mode, picture in modes.items():
        files[mode] = encoded(picture, "PNG")
    for bits in (1, 2, 4, 8):
        palette = image.quantize(2 ** bits)
        files["palette of %d bits" % bits] = encoded(palette, "PNG", bits=bits)
        files["palette of %d bits, transparent" % bits] = encoded(palette, "PNG", bits=bits, transparency=b"\x00\x80")
    files["RGB, one colour transparent"] = encoded(image, "PNG", transparency=image.getpixel((5, 5)))
    files["L, one level transparent"] = encoded(modes["L"], "PNG", transparency=modes["L"].getpixel((5, 5)))
    for name in ("astronaut.png", "coffee.png", "chelsea.png", "camera.png", "horse.png", "page.png", "logo.png", "ihc.png",
                 "motorcycle_left.png", "clock_motion.png", "color.png"):
        files[name] = session.photo(name)
    return files


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png_rows(samples, bits, random):
    """Rows of (height, width, channels) samples, packed and filtered at random."""
    height, width, channels = samples.shape
    if bits == 16:
        rows = samples.astype(">u2").view(numpy.uint8).reshape(height, -1)
    elif bits == 8:
        rows = samples.astype(numpy.uint8).reshape(height, -1)
    else:
        each = (samples.astype(numpy.uint8)[..., None] >> numpy.arange(bits)[::-1]) & 1
        rows = numpy.packbits(each.reshape(height, -1), axis=1)
    step = max(1, bits * channels // 8)
    rows = rows.astype(int)
    left = numpy.pad(rows, ((0, 0), (step, 0)))[:, :-step]
    above = numpy.pad(rows, ((1, 0), (0, 0)))[:-1]
    corner = numpy.pad(left, ((1, 0), (0, 0)))[:-1]
    a, b, c = abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)
    paeth = numpy.where((a <= b) & (a <= c), left, numpy.where(b <= c, above, corner))
    guesses = [numpy.zeros_like(rows), left, above, (left + above) // 2, paeth]
    out = b""
    for y in range(height):
        kind = random.integers(5)
        out += bytes([kind]) + ((rows[y] - guesses[kind][y]) % 256).astype(numpy.uint8).tobytes()
    return out


def png_chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_by_hand(samples, bits, kind, interlaced, palette=b"", transparency=b""):
    """What Pillow does not write: 16 bits, few gray levels, interlacing, every filter."""
    height, width, _ = samples.shape
    random = numpy.random.default_rng(bits * 10 + kind)
    passes = ADAM7 if interlaced else [(0, 0, 1, 1)]
    parts = [samples[y::down, x::across] for x, y, across, down in passes]
    data = b"".join(png_rows(part, bits, random) for part in parts if part.size)
    head = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, interlaced)
    chunks = [(b"IHDR", head)] + [(b"PLTE", palette)] * bool(palette) + [(b"tRNS", transparency)] * bool(transparency)
    chunks += [(b"IDAT", zlib.compress(data, 6)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*chunk) for chunk in chunks)


def rare_pngs(session):
    """(file, samples scaled to 8 bits, samples as stored) of each colour type, depth and order of rows."""
    image = numpy.asarray(photo(session, "coffee.png", (61, 47))).astype(int)
    gray, alpha = image.mean(2, keepdims=True).astype(int), 255 - image[:, :, :1]
    fine = numpy.random.default_rng(1).integers(0, 256, image.shape)
    files = {}
    for interlaced in (0, 1):
        order = "interlaced" if interlaced else "in order"
        for bits in (1, 2, 4, 8, 16):
            level = lambda v, f=fine: v * 257 // 256 * 256 + f[..., :v.shape[2]] if bits == 16 else v >> (8 - bits)
            shown = lambda v: v if bits >= 8 else (v >> (8 - bits)) * 255 // (2 ** bits - 1)
            kinds = {0: gray}
            if bits >= 8:
                kinds.update({2: image, 4: numpy.concatenate([gray, alpha], 2), 6: numpy.concatenate([image, alpha], 2)})
            for kind, values in kinds.items():
                samples = level(values, numpy.concatenate([fine, fine], 2))
                file = png_by_hand(samples, bits, kind, interlaced)
                files["type %d, %d bits, %s" % (kind, bits, order)] = (file, shown(values), samples)
            if bits <= 8:
                colours = numpy.random.default_rng(2).integers(0, 256, (2 ** bits, 3)).astype(numpy.uint8)
                file = png_by_hand(level(gray), bits, 3, interlaced, colours.tobytes(), b"\x00\x40")
                files["palette, %d bits, %s" % (bits, order)] = (file, colours[level(gray)[..., 0]], level(gray))
    return files


def test_png(session):
    files = pngs(session)
    depth = {name: data for name, data in files.items() if name != "I;16"}
    for channels in (1, 3, 4):
        compare(session, "decode_image, PNG", depth, ".png", channels=channels, more=", mode=color")
    sixteen, = decoded(session, [files["I;16"]], ".png", ", channels=1, dtype=uint16")
    wanted = numpy.asarray(opened(files["I;16"]))[:, :, None]
    session.close("decode_image, PNG, dtype=uint16", "Pillow", sixteen, wanted, 0, what="I;16")


def test_numbers_of_masks(session):
    """mode=index: palettes and levels as Pillow has them before it shows them."""
    image = photo(session, "coffee.png", (61, 47))
    files = {"L": encoded(image.convert("L"), "PNG"), "1": encoded(image.convert("1"), "PNG")}
    for bits in (1, 2, 4, 8):
        palette = image.quantize(2 ** bits)
        files["palette of %d bits" % bits] = encoded(palette, "PNG", bits=bits)
        files["palette of %d bits, transparent" % bits] = encoded(palette, "PNG", bits=bits, transparency=b"\x00\x80")
    for ending, data in ((".png", files), (".gif", {"GIF": encoded(image.quantize(16), "GIF")})):
        found = decoded(session, list(data.values()), ending, ", mode=index")
        for (name, file), ours in zip(data.items(), found):
            wanted = numpy.asarray(opened(file)).astype(numpy.uint8)[:, :, None]
            session.close("decode_image, mode=index", "Pillow", ours, wanted, 0, what=name)
    rare = {name: parts for name, parts in rare_pngs(session).items() if "type 0" in name or "palette" in name}
    found = decoded(session, [data for data, _, _ in rare.values()], ".png", ", mode=index, dtype=uint16")
    for (name, (_, _, samples)), ours in zip(rare.items(), found):
        session.close("decode_image, mode=index", "numpy", ours, samples, 0, what=name)


def test_sixteen_bits(session):
    """dtype=uint16: all bits of those that have 16, and 8 bits times 257."""
    files = {name: parts for name, parts in rare_pngs(session).items() if "8 bits" in name or "16 bits" in name}
    found = decoded(session, [data for data, _, _ in files.values()], ".png", ", dtype=uint16")
    for (name, (_, shown, samples)), ours in zip(files.items(), found):
        deep = samples if "16 bits" in name else shown.astype(int) * 257
        wanted = deep[..., :3] if deep.shape[2] >= 3 else numpy.repeat(deep[..., :1], 3, 2)
        session.close("decode_image, PNG, dtype=uint16", "numpy", ours, wanted, 0, what=name)


def test_png_of_rare_kinds(session):
    """16 bits lose their lower byte; the rest is as Pillow shows it."""
    files = rare_pngs(session)
    found = decoded(session, [data for data, _, _ in files.values()], ".png", ", dtype=uint8")
    for (name, (data, samples, _)), ours in zip(files.items(), found):
        wanted = samples[..., :3] if samples.shape[2] >= 3 else numpy.repeat(samples[..., :1], 3, 2)
        session.close("decode_image, 1 to 16 bit and interlaced PNG", "numpy", ours, wanted, 0, what=name)
        if "16 bits" not in name:
            wanted = pixels(opened(data))
            session.close("decode_image, 1 to 16 bit and interlaced PNG", "Pillow", ours, wanted, 0, what=name)


def test_webp(session):
    files = {}
    for name, size in (("chelsea.png", (451, 300)), ("astronaut.png", (33, 17)), ("coffee.png", (1, 1))):
        image = photo(session, name, size)
        with_alpha = image.copy()
        with_alpha.putalpha(image.convert("L"))
        for label, options in (("lossy", {"quality": 80}), ("lossless", {"lossless": True})):
            files["%s %s" % (name, label)] = encoded(image, "WEBP", **options)
            files["%s %s with alpha" % (name, label)] = encoded(with_alpha, "WEBP", exact=True, **options)
    for channels in (3, 4):
        compare(session, "decode_image, WebP", files, ".webp", channels=channels)


def test_gif(session):
    files = {"no_time_for_that_tiny.gif": session.photo("no_time_for_that_tiny.gif")}
    for colours in (2, 16, 256):
        image = photo(session, "rocket.jpg", (107, 83)).quantize(colours)
        for interlace in (0, 1):
            files["%d colours, interlace %d" % (colours, interlace)] = encoded(image, "GIF", interlace=interlace)
    frames = [photo(session, name, (50, 40)).quantize(64) for name in ("coffee.png", "chelsea.png")]
    files["two frames"] = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    compare(session, "decode_image, GIF", files, ".gif")


def bmp_by_hand(image, bits, masks=(), top_down=False):
    """BMPs that Pillow reads but does not write: 16 bits, and rows from the top."""
    height, width, _ = image.shape
    red, green, blue = (image[..., c].astype(int) for c in range(3))
    if bits == 15:
        packed = (red >> 3) << 10 | (green >> 3) << 5 | blue >> 3
    else:
        packed = (red >> 3) << 11 | (green >> 2) << 5 | blue >> 3
    rows = numpy.zeros((height, (width * 2 + 3) // 4 * 4 // 2), "<u2")
    rows[:, :width] = packed
    data = (rows if top_down else rows[::-1]).tobytes()
    extra = struct.pack("<%dI" % len(masks), *masks)
    head = struct.pack("<IiiHHIIiiII", 40, width, -height if top_down else height, 1, 16, 3 if masks else 0, len(data), 0, 0, 0, 0)
    start = 14 + 40 + len(extra)
    return b"BM" + struct.pack("<IHHI", start + len(data), 0, 0, start) + head + extra + data


def test_bmp(session):
    image = photo(session, "astronaut.png", (101, 75))
    with_alpha = image.copy()
    with_alpha.putalpha(image.convert("L"))
    files = {mode: encoded(image.convert(mode), "BMP") for mode in ("RGB", "L", "1")}
    files["palette"] = encoded(image.quantize(200), "BMP")
    files["RGBA"] = encoded(with_alpha, "BMP")
    compare(session, "decode_image, BMP", files, ".bmp")
    array, files = numpy.asarray(image), {}
    for top_down in (False, True):
        files["555, from the top: %s" % top_down] = bmp_by_hand(array, 15, top_down=top_down)
        files["565, from the top: %s" % top_down] = bmp_by_hand(array, 16, (0xf800, 0x7e0, 0x1f), top_down)
    # Pillow cuts off where we round to the nearest level.
    compare(session, "decode_image, BMP of 16 bits", files, ".bmp", most=1)


def test_encode(session):
    """What we write is what Pillow writes of the same pixels: JPEG to the last level, PNG anyway."""
    image = photo(session, "astronaut.png", (203, 151))
    for quality in (30, 75, 95):
        for ours, theirs in ((444, "4:4:4"), (422, "4:2:2"), (420, "4:2:0")):
            found, = run(session, [image], "encode_jpeg(image, quality=%d, subsampling=%d)" % (quality, ours))
            wanted = opened(encoded(image, "JPEG", quality=quality, subsampling=theirs))
            session.close("encode_jpeg", "Pillow", pixels(opened(found)), pixels(wanted), 0, what="%d %s" % (quality, theirs))
    for level in (0, 6, 12):
        found, = run(session, [image], "encode_png(image, level=%d)" % level)
        session.close("encode_png", "Pillow", pixels(opened(found)), pixels(image), 0, what="level %d" % level)


# ---- place and size ----

def test_crops_of_jpegs_are_crops_of_the_whole(session):
    """Only the rectangle is decoded, and it has the pixels of a full decode."""
    files = {name: data for name, data in jpegs(session).items() if opened(data).width > 300}
    crops = ["random_crop(image, 97, 131)", "random_crop(image, 1, 1)", "center_crop(image, 64, 200)",
             "random_crop(image, 8, 150) | random_flip(image, p=1)", "center_crop(image, 33) | random_crop(image, 7, 5)"]
    for name, data in files.items():
        image = opened(data)
        for crop in crops:
            boxes = rectangles(session, image.size, crop.replace(" | random_flip(image, p=1)", ""), times=3, seed=5)
            for box, found in zip(boxes, run(session, [data], crop, times=3, seed=5)):
                wanted = pixels(image.crop(box))
                wanted = wanted[:, ::-1] if "flip" in crop else wanted
                session.close("random_crop, center_crop of a JPEG", "Pillow", found, wanted, 0, what="%s %s" % (name, crop))


def test_crops_of_other_formats(session):
    image = photo(session, "astronaut.png", (203, 151))
    for kind in ("PNG", "WEBP", "GIF", "BMP"):
        data = encoded(image, kind)
        boxes = rectangles(session, image.size, "random_crop(image, 40, 30)", times=8)
        for box, found in zip(boxes, run(session, [data], "random_crop(image, 40, 30)", times=8)):
            wanted = pixels(opened(data).convert("RGB").crop(box))
            session.close("random_crop of PNG, WebP, GIF, BMP", "Pillow", found, wanted, 0, what=kind)


def test_pad_and_flip(session):
    image = photo(session, "coffee.png", (60, 41))
    array = numpy.asarray(image)
    sides = ((2, 4), (1, 3), (0, 0))
    for mode, options in (("constant", {"constant_values": 7}), ("edge", {}), ("reflect", {})):
        found, = run(session, [image], "pad(image, [1, 2, 3, 4], mode=%s, fill=7)" % mode)
        session.close("pad", "numpy", found, numpy.pad(array, sides, mode, **options), 0, what=mode)
    found, = run(session, [image], "pad(image, 100, mode=reflect)")
    session.close("pad", "numpy", found, numpy.pad(array, ((100, 100), (100, 100), (0, 0)), "reflect"), 0, what="far out")
    for direction, wanted in (("horizontal", ImageOps.mirror(image)), ("vertical", ImageOps.flip(image)),
                              ("both", ImageOps.flip(ImageOps.mirror(image)))):
        found, = run(session, [image], "random_flip(image, direction=%s, p=1)" % direction)
        session.close("random_flip", "Pillow", found, wanted, 0, what=direction)
    found, = run(session, [image], "center_crop(image, 80, 30)")
    wanted = numpy.pad(array[:, 15:45], ((19, 20), (0, 0), (0, 0)))
    session.close("center_crop", "numpy", found, wanted, 0, what="larger than the image")


RESAMPLING = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR,
              "bicubic": Image.Resampling.BICUBIC, "area": Image.Resampling.BOX}
SIZES = [(224, 224), (64, 48), (500, 333), (640, 800), (31, 17), (1, 1), (451, 9), (7, 300)]


def test_resize(session):
    for name in ("chelsea.png", "astronaut.png"):
        image = photo(session, name)
        for filter_, resampling in RESAMPLING.items():
            for size in SIZES:
                found, = run(session, [image], "resize(image, %d, %d, filter=%s)" % (size[1], size[0], filter_))
                most, mean = (0, None) if filter_ == "nearest" else (1, 0.3)
                session.close("resize, " + filter_, "Pillow", found, image.resize(size, resampling), most, mean,
                              "%s to %s" % (name, size))


def test_resize_to_the_shorter_side(session):
    for name, size in (("coffee.png", (200, 133)), ("coffee.png", (133, 200))):
        image = photo(session, name, size)
        found, = run(session, [image], "resize(image, 50)")
        wanted = image.resize((75, 50) if size[0] > size[1] else (50, 75), RESAMPLING["bilinear"])
        session.close("resize, bilinear", "Pillow", found, wanted, 1, 0.3, "shorter side")


def cubic(x):
    """Keys' kernel, a = -0.5."""
    x = numpy.abs(x)
    near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return numpy.where(x < 1, near, numpy.where(x < 2, far, 0))


def weights(size, count, filter_, antialias):
    """(count, size) weights of a resize by the filter's definition; what would stand outside is left out."""
    reach, kernel = (1, lambda x: numpy.maximum(0, 1 - abs(x))) if filter_ == "bilinear" else (2, cubic)
    wider = max(1, size / count) if antialias else 1
    middle = (numpy.arange(count)[:, None] + 0.5) * size / count
    pixel = numpy.arange(size)[None, :] + 0.5
    found = kernel((pixel - middle) / wider) * (abs(pixel - middle) < reach * wider + 0.5)
    return found / found.sum(1, keepdims=True)


def test_resize_against_exact_arithmetic(session):
    """Rounded once, at the end."""
    image = photo(session, "chelsea.png")
    array = numpy.asarray(image).astype(float)
    for filter_, antialias in (("bilinear", True), ("bicubic", True), ("bilinear", False), ("bicubic", False)):
        for width, height in SIZES:
            down, across = (weights(n, m, filter_, antialias) for n, m in zip(array.shape, (height, width)))
            first = numpy.clip(numpy.einsum("xw,hwc->hxc", across, array, optimize=True), 0, 255)
            wanted = numpy.clip(numpy.einsum("yh,hxc->yxc", down, first, optimize=True), 0, 255)
            text = "resize(image, %d, %d, filter=%s, antialias=%s)" % (height, width, filter_, str(antialias).lower())
            found, = run(session, [image], text)
            session.close("resize, %s%s" % (filter_, "" if antialias else ", antialias=false"), "exact arithmetic", found,
                          wanted, 0.55, what="to %dx%d" % (width, height))


def test_resize_then_crop(session):
    """A crop and a flip behind a resize are taken into it, and change nothing."""
    image = photo(session, "rocket.jpg", (640, 427))
    for data, exact in ((png(image), ""), (encoded(image, "JPEG", quality=90), ", exact=true")):
        for ops in ("center_crop(image, 224)", "random_crop(image, 100, 200)"):
            small = opened(data).resize((383, 256), RESAMPLING["bilinear"])
            boxes = rectangles(session, small.size, ops, times=4, seed=1)
            with Folder() as folder:
                folder.add(data, ".img.png")
                text = "%s | repeat(4) | decode_image(image%s) | resize(image, 256) | %s | random_flip(image, p=1)" % (
                    folder.source, exact, ops)
                rows = session.stoker.rows(text + " | batch(4)", seed=1)
            for box, found in zip(boxes, rows):
                session.close("resize, then crop and flip", "Pillow", found, ImageOps.mirror(small.crop(box)), 1, 0.3, ops)


def test_usual_training_pipeline(session):
    """pad, random_crop, random_flip, normalize, layout as one, against numpy step by step."""
    image = session.pixels("coffee.png", (32, 32))
    ops = "pad(image, 4, mode=reflect) | random_crop(image, 32) | random_flip(image)"
    positions = numlib.coordinates(32, 32)
    shown = run(session, [positions], ops, times=30, seed=2)
    rows = run(session, [image], ops + " | normalize(image, mean=100, std=50) | layout(image, CHW)", times=30, seed=2)
    assert len({picture.tobytes() for picture in shown}) > 25
    for picture, found in zip(shown, rows):
        x, y = numlib.places(picture)
        wanted = image[y, x].astype(numpy.float32) * numpy.float32(1 / 50) + numpy.float32(-100 / 50)
        session.close("pad, random_crop, random_flip, normalize, layout", "numpy", found, wanted.transpose(2, 0, 1), 0)


def test_other_numbers_of_channels(session):
    """Each channel of 1 or 4 is treated as one of 3; alpha is not multiplied in, and colour ops leave it alone."""
    image = photo(session, "astronaut.png", (160, 120))
    image.putalpha(photo(session, "chelsea.png", (160, 120)).convert("L"))
    data = encoded(image, "PNG")
    everywhere = ["resize(image, 50, 70)", "resize(image, 200, 300, filter=bicubic)", "random_rotate(image, degrees=90)",
                  "gaussian_blur(image, 7, sigma=2)", "pad(image, 5, mode=edge)", "random_flip(image)", "random_crop(image, 40)"]
    colour = ["color_jitter(image, brightness=0.5, contrast=0.5, saturation=0.5, hue=0.2)", "grayscale(image)"]
    for ops in everywhere + colour:
        rows = {}
        for channels in (1, 3, 4):
            with Folder() as folder:
                folder.add(data, ".png")
                text = "%s | repeat(3) | decode_image(image, channels=%d) | %s | batch(1)"
                if channels > 1 or ops in everywhere:
                    rows[channels] = session.stoker.rows(text % (folder.source, channels, ops), seed=3)
        gray = Image.merge("RGB", [image.convert("RGB").convert("L")] * 3)
        alpha = Image.merge("RGB", [image.getchannel("A")] * 3)
        as_gray, as_alpha = (run(session, [picture], ops, times=3, seed=3) for picture in (gray, alpha))
        for i, three in enumerate(rows[3]):
            session.close("1 and 4 channels", "3 channels", rows[4][i][..., :3], three, 0, what=ops)
            if ops in everywhere:
                session.close("1 and 4 channels", "3 channels", rows[1][i][..., 0], as_gray[i][..., 0], 0, what=ops)
                session.close("1 and 4 channels", "3 channels", rows[4][i][..., 3], as_alpha[i][..., 0], 0, what=ops)
            else:
                session.close("1 and 4 channels", "3 channels", rows[4][i][..., 3], numpy.asarray(image)[..., 3], 0, what=ops)


def test_random_resized_crop(session):
    image = photo(session, "rocket.jpg", (400, 300))
    plain = "random_resized_crop(image, 300, 400, filter=nearest, antialias=false)"
    boxes = rectangles(session, image.size, plain, times=40, seed=2)
    for filter_, resampling in RESAMPLING.items():
        ops = "random_resized_crop(image, 96, 128, filter=%s)" % filter_
        for box, found in zip(boxes, run(session, [image], ops, times=40, seed=2)):
            most, mean = (0, None) if filter_ == "nearest" else (1, 0.3)
            session.close("random_resized_crop, " + filter_, "Pillow", found,
                          image.crop(box).resize((128, 96), resampling), most, mean, str(box))


def test_random_resized_crop_of_jpegs(session):
    """With exact=true as above; without, from a smaller decode with simple upsampling of colours."""
    for name, data in (("rocket.jpg", session.photo("rocket.jpg")), ("retina.jpg", session.photo("retina.jpg")),
                       ("astronaut, 4:2:0", encoded(photo(session, "astronaut.png"), "JPEG", quality=90, subsampling="4:2:0"))):
        image = opened(data)
        plain = "random_resized_crop(image, %d, %d, filter=nearest, antialias=false)" % image.size[::-1]
        boxes = rectangles(session, image.size, plain, times=12, seed=3)
        for exact in ("true", "false"):
            with Folder() as folder:
                folder.add(data, ".jpg")
                text = folder.source + " | repeat(12) | decode_image(image, exact=%s) | random_resized_crop(image, 112) | batch(4)" % exact
                rows = session.stoker.rows(text, seed=3)
            for box, found in zip(boxes, rows):
                wanted = image.crop(box).resize((112, 112), RESAMPLING["bilinear"])
                most, mean = (1, 0.3) if exact == "true" else (60, 3)
                session.close("random_resized_crop of a JPEG, exact=" + exact, "Pillow", found, wanted, most, mean,
                              "%s %s" % (name, box))


def smaller(data, box, size):
    """Pillow's own way to a smaller decode: the least of 1/8, 1/4, 1/2 that covers the result."""
    for scale in (8, 4, 2, 1):
        if min((box[2] - box[0]) / size[0], (box[3] - box[1]) / size[1]) >= scale:
            break
    image = Image.open(io.BytesIO(data))
    image.draft("RGB", (image.width // scale, image.height // scale))
    return image.resize(size, RESAMPLING["bilinear"], box=[n / scale for n in box])


def test_random_resized_crop_of_jpegs_is_as_good_as_pillows_draft_mode(session):
    """No further from a full decode than libjpeg-turbo's own smaller decode. Pillow's resize of a box looks at what lies
    around it, so edges are left out."""
    image = photo(session, "astronaut.png")
    plain = "random_resized_crop(image, %d, %d, scale=[0.5, 1], filter=nearest, antialias=false)" % image.size[::-1]
    boxes = rectangles(session, image.size, plain, times=12, seed=3)
    for sampling in ("4:4:4", "4:2:0"):
        data = encoded(image, "JPEG", quality=90, subsampling=sampling)
        full = opened(data)
        for size in (40, 100, 200):
            ours, theirs = [], []
            rows = run(session, [data], "random_resized_crop(image, %d, scale=[0.5, 1])" % size, times=12, seed=3)
            for box, found in zip(boxes, rows):
                drafted = numpy.asarray(smaller(data, box, (size, size)))[3:-3, 3:-3]
                wanted = numpy.asarray(full.crop(box).resize((size, size), RESAMPLING["bilinear"]))[3:-3, 3:-3]
                found = found[3:-3, 3:-3]
                session.close("random_resized_crop of a JPEG, exact=false, inner part", "Pillow's draft mode", found, drafted, 30,
                              1, "%s to %d %s" % (sampling, size, box))
                ours.append(off(found, wanted))
                theirs.append(off(drafted, wanted))
            ratio = float(numpy.mean(ours) / numpy.mean(theirs))
            session.note("random_resized_crop of a JPEG, exact=false: distance from full decode, by that of draft mode",
                         "Pillow's draft mode", ratio, ratio, (1.15, None))
            assert ratio <= 1.15, "%s to %d: %g from a full decode, draft mode %g" % (
                sampling, size, numpy.mean(ours), numpy.mean(theirs))


def test_random_resized_crop_of_turned_jpegs(session):
    """A smaller decode keeps its place in the picture, however that is turned."""
    image = photo(session, "coffee.png", (397, 299))
    ops = "random_resized_crop(image, %d, %d%s)"
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x112] = orientation
        data = encoded(image, "JPEG", quality=95, subsampling="4:4:4", exif=exif)
        seen = ImageOps.exif_transpose(opened(data))
        plain = ops % (*seen.size[::-1], ", scale=[0.6, 1], filter=nearest, antialias=false")
        boxes = rectangles(session, seen.size, plain, times=6, seed=4)
        with Folder() as folder:
            folder.add(data, ".jpg")
            text = folder.source + " | repeat(6) | decode_image(image, orient=true) | " + ops % (32, 32, ", scale=[0.6, 1]")
            rows = session.stoker.rows(text + " | batch(2)", seed=4)
        for box, found in zip(boxes, rows):
            wanted = seen.crop(box).resize((32, 32), RESAMPLING["bilinear"])
            session.close("random_resized_crop of a JPEG, orient=true, exact=false", "Pillow", found, wanted, 60, 3,
                          "orientation %d %s" % (orientation, box))


# ---- values that are found by search ----

def turned(array, angle):
    """Bilinear, in floats, unrounded; what lies outside is black."""
    height, width, _ = array.shape
    y, x = numpy.mgrid[0:height, 0:width]
    u, v = x + 0.5 - width / 2, y + 0.5 - height / 2
    cosine, sine = numpy.cos(numpy.radians(angle)), numpy.sin(numpy.radians(angle))
    x, y = cosine * u - sine * v + width / 2 + 0.5, sine * u + cosine * v + height / 2 + 0.5
    left, top = (numpy.clip(numpy.floor(n).astype(int), 0, size) for n, size in ((x, width), (y, height)))
    right, low = numpy.clip(x - left, 0, 1)[..., None], numpy.clip(y - top, 0, 1)[..., None]
    framed = numpy.pad(array.astype(float), ((1, 1), (1, 1), (0, 0)))
    upper = framed[top, left] * (1 - right) + framed[top, left + 1] * right
    lower = framed[top + 1, left] * (1 - right) + framed[top + 1, left + 1] * right
    outside = (x < 0) | (y < 0) | (x > width + 1) | (y > height + 1)
    return numpy.where(outside[..., None], 0, upper * (1 - low) + lower * low)


def inner_part(size, angle):
    """Where Pillow's result does not come from the edge, where it leaves out what lies outside."""
    inside = numpy.asarray(Image.new("L", size, 255).rotate(angle)).copy()
    inside[0, :] = inside[-1, :] = inside[:, 0] = inside[:, -1] = 0
    return numpy.asarray(Image.fromarray(inside).filter(ImageFilter.MinFilter(5))) > 0


def test_random_rotate(session):
    """Pillow cuts fractions off where we round."""
    image = photo(session, "astronaut.png", (200, 150))
    array, ops = numpy.asarray(image), "random_rotate(image, degrees=180, filter=%s)"
    for angle, found, sharp in zip(angles(session, image.size, ops % "bilinear", 12, 6),
                                   run(session, [image], ops % "bilinear", 12, 6), run(session, [image], ops % "nearest", 12, 6)):
        angle = best(lambda a: float(numpy.abs(found - turned(array, a)).mean()), angle - 0.02, angle + 0.02, rounds=3, steps=12)
        session.close("random_rotate, bilinear", "exact arithmetic", found, turned(array, angle), 1.5, 0.3, "by %.4f" % angle)
        inner = inner_part(image.size, angle)
        wanted = numpy.asarray(image.rotate(angle, Image.Resampling.BILINEAR))
        session.close("random_rotate, bilinear, inner part", "Pillow", found[inner], wanted[inner], 2, 0.6, "by %.4f" % angle)
        wanted = numpy.asarray(image.rotate(angle))
        share = float((sharp[inner] != wanted[inner]).any(-1).mean())
        session.note("random_rotate, nearest: share of pixels that differ", "Pillow", share, share, (0.01, None))
        assert share <= 0.01, "random_rotate, nearest, by %.4f: %g of the pixels differ" % (angle, share)


def test_color_jitter(session):
    enhancers = {"brightness": ImageEnhance.Brightness, "contrast": ImageEnhance.Contrast, "saturation": ImageEnhance.Color}
    for name in ("coffee.png", "rocket.jpg"):
        image = photo(session, name, (120, 90))
        for what, enhancer in enhancers.items():
            enhance = enhancer(image)
            for found in run(session, [image], "color_jitter(image, %s=0.8)" % what, 8, seed=7):
                factor = best(lambda f: off(found, enhance.enhance(f)), 0.2, 1.8)
                session.close("color_jitter, " + what, "Pillow", found, enhance.enhance(factor), 1, 0.3,
                              "%s by %.4f" % (name, factor))


def turn_hue(array, turn):
    """In HSV, in floats, rounded to nearest."""
    rgb = array.astype(float) / 255
    most, least = rgb.max(-1), rgb.min(-1)
    span = numpy.where(most > least, most - least, 1)
    red, green, blue = (rgb[..., c] for c in range(3))
    hue = numpy.select([most == red, most == green], [(green - blue) / span % 6, (blue - red) / span + 2], (red - green) / span + 4)
    hue = (hue / 6 + turn) % 1
    parts = [(n + hue * 6) % 6 for n in (5, 3, 1)]
    out = [most - (most - least) * numpy.clip(numpy.minimum(k, 4 - k), 0, 1) for k in parts]
    return numpy.rint(numpy.stack(out, -1) * 255).astype(numpy.uint8)


def test_color_jitter_hue(session):
    image = photo(session, "astronaut.png", (120, 90))
    array = numpy.asarray(image)
    for found in run(session, [image], "color_jitter(image, hue=0.5)", 8, seed=8):
        turn = best(lambda t: off(found, turn_hue(array, t)), -0.5, 0.5)
        session.close("color_jitter, hue", "numpy", found, turn_hue(array, turn), 2, 0.3, "by %.4f" % turn)


def test_grayscale(session):
    for name in numlib.COLOUR:
        image = photo(session, name, (150, 100))
        gray = numpy.asarray(image.convert("L"))[:, :, None]
        found, = run(session, [image], "grayscale(image)")
        session.close("grayscale", "Pillow", found, numpy.repeat(gray, 3, 2), 0, what=name)
        found, = run(session, [image], "grayscale(image, channels=1)")
        session.close("grayscale", "Pillow", found, gray, 0, what=name)


def test_gaussian_blur(session):
    """By its definition, edges reflected."""
    array = numpy.asarray(photo(session, "chelsea.png", (131, 97)))
    for size, sigma in ((3, 0.5), (5, 1.0), (9, 2.0), (23, 7.0), (61, 20.0)):
        found, = run(session, [Image.fromarray(array)], "gaussian_blur(image, %d, sigma=%g)" % (size, sigma))
        half = size // 2
        kernel = numpy.exp(-0.5 * (numpy.arange(-half, half + 1) / sigma) ** 2)
        kernel /= kernel.sum()
        wanted = numpy.pad(array.astype(float), ((half, half), (half, half), (0, 0)), "reflect")
        for axis in (0, 1):
            wanted = numpy.apply_along_axis(numpy.convolve, axis, wanted, kernel, "valid")
        session.close("gaussian_blur", "exact arithmetic", found, wanted, 0.6, what="%d, sigma %g" % (size, sigma))


# ---- policies ----

def augmented(image, space):
    """What the changes of a policy may make of an image, with Pillow: name and pixels for every bin and sign."""
    affine = lambda *m: image.transform(image.size, Image.Transform.AFFINE, m, Image.Resampling.NEAREST)
    yield "identity", image
    yield "autocontrast", ImageOps.autocontrast(image)
    yield "equalize", ImageOps.equalize(image)
    for part in space["parts"]:
        yield "posterize", ImageOps.posterize(image, int(numpy.rint(8 - part * space["bits"])))
        yield "solarize", ImageOps.solarize(image, 255 * (1 - part))
        for sign in (-1, 1):
            m = sign * part
            yield "shear x", affine(1, m * space["shear"], 0, 0, 1, 0)
            yield "shear y", affine(1, 0, 0, m * space["shear"], 1, 0)
            yield "translate x", affine(1, 0, -int(m * space["translate"][0]), 0, 1, 0)
            yield "translate y", affine(1, 0, 0, 0, 1, -int(m * space["translate"][1]))
            yield "rotate", image.rotate(m * space["degrees"])
            yield "brightness", ImageEnhance.Brightness(image).enhance(1 + m * space["factor"])
            yield "color", ImageEnhance.Color(image).enhance(1 + m * space["factor"])
            yield "contrast", ImageEnhance.Contrast(image).enhance(1 + m * space["factor"])
            yield "sharpness", ImageEnhance.Sharpness(image).enhance(1 + m * space["factor"])


CHANGES = ["identity", "autocontrast", "equalize", "posterize", "solarize", "shear x", "shear y", "translate x", "translate y",
           "rotate", "brightness", "color", "contrast", "sharpness"]


def recognise(found, names, candidates):
    """The candidate that is nearest to an image, and what share of its samples is more than 1 off."""
    errors = numpy.abs(candidates - found.astype(numpy.int16)).reshape(len(names), -1)
    share = (errors > 1).mean(1)
    at = int(share.argmin())
    return names[at], float(share[at])


def recognised(session, op, rows, names, images, least=0.97, most=0.01):
    candidates = numpy.stack([numpy.asarray(image) for image in images]).astype(numpy.int16)
    results = [recognise(row, names, candidates) for row in rows]
    strange = ["%s: %.3f of the samples differ" % result for result in results if result[1] > most]
    share = len(strange) / len(results)
    session.note(op + ": share of pictures that no change explains", "Pillow", share, share, (1 - least, None))
    assert share <= 1 - least, "%s: %d of %d pictures are like no change: %s" % (op, len(strange), len(results), strange)
    return [name for name, _ in results]


def test_trivial_augment(session):
    image = photo(session, "astronaut.png", (96, 80))
    space = {"parts": numpy.arange(31) / 30, "bits": 6, "shear": 0.99, "translate": (32, 32), "degrees": 135, "factor": 0.99}
    names, images = zip(*augmented(image, space))
    rows = run(session, [image], "trivial_augment(image)", 280, seed=9)
    counts = dict.fromkeys(CHANGES, 0)
    for name in recognised(session, "trivial_augment", rows, names, images):
        counts[name] += 1
    # Weak changes look like none, so only what is far from even is wrong: 20 of each are expected.
    assert all(4 <= counts[name] <= 45 for name in CHANGES), counts


def test_rand_augment(session):
    image = photo(session, "coffee.png", (80, 64))
    space = {"parts": [9 / 30], "bits": 4, "shear": 0.3, "translate": tuple(n * 150 / 331 for n in image.size), "degrees": 30,
             "factor": 0.9}
    pairs = [(first, second, result) for first, between in augmented(image, space) for second, result in augmented(between, space)]
    names = [first + ", " + second for first, second, _ in pairs]
    rows = run(session, [image], "rand_augment(image, ops=2, magnitude=9)", 120, seed=10)
    # The second change may enlarge what the first one rounds otherwise than Pillow.
    recognised(session, "rand_augment", rows, names, [result for _, _, result in pairs], most=0.03)


# ---- last steps ----

def test_normalize_cast_layout(session):
    image = photo(session, "rocket.jpg", (99, 70))
    array = numpy.asarray(image)
    mean, std = numpy.array([123.675, 116.28, 103.53]), numpy.array([58.395, 57.12, 57.375])
    ops = "normalize(image, mean=%s, std=%s)" % (mean.tolist(), std.tolist())
    exact = (array - mean) / std
    steps = array.astype(numpy.float32) * (1 / std).astype(numpy.float32) + (-mean / std).astype(numpy.float32)
    found, = run(session, [image], ops)
    assert found.dtype == numpy.float32
    session.close("normalize", "exact arithmetic", found, exact, 5e-7)
    session.close("normalize", "numpy, float32 step by step", found, steps, 0)
    for tail, wanted in ((" | layout(image, CHW)", steps.transpose(2, 0, 1)), (" | cast(image=float16)", steps.astype(numpy.float16)),
                         (" | layout(image, CHW) | cast(image=float16)", steps.astype(numpy.float16).transpose(2, 0, 1))):
        found, = run(session, [image], ops + tail)
        assert found.dtype == wanted.dtype, tail
        session.close("normalize, layout, cast", "numpy", found, wanted, 0, what=tail)
    bits = steps.view(numpy.uint32).astype(numpy.uint64)
    rounded = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16 << 16).astype(numpy.uint32).view(numpy.float32)
    found, = run(session, [image], ops + " | cast(image=bfloat16)")
    session.close("normalize, layout, cast", "numpy", found, rounded, 0, what="bfloat16")
    found, = run(session, [image], "cast(image=float32) | layout(image, CHW)")
    session.close("normalize, layout, cast", "numpy", found, array.transpose(2, 0, 1), 0, what="cast alone")


def test_one_hot(session):
    labels = numpy.concatenate([batch["value"] for batch in session.stoker.batches("range(10) | one_hot(value, 10) | batch(5)")])
    session.close("one_hot", "numpy", labels, numpy.eye(10), 0)
    smooth = next(iter(session.stoker.batches("range(10) | one_hot(value, 10, smoothing=0.1) | batch(10)")))["value"]
    session.close("one_hot", "numpy", smooth, (numpy.eye(10) * 0.9 + 0.01).astype(numpy.float32), 0)


def mixed(array, weight):
    """Each row with the one before it."""
    return weight * array + (1 - weight) * numpy.roll(array, 1, 0)


def test_mixup(session):
    images = [session.pixels(name, (90, 70)) for name in numlib.COLOUR]
    for alpha in (1, 0.2):
        for batch in labelled(session, images, " | mixup(image, label, alpha=%g)" % alpha, times=6, seed=11):
            weight = float(batch["label"][0, 0])
            session.close("mixup", "exact arithmetic", batch["image"], mixed(numpy.stack(images), weight), 0.51)
            session.close("mixup, cutmix: labels", "exact arithmetic", batch["label"], mixed(numpy.eye(len(images)), weight), 1e-6)


def test_cutmix(session):
    images = [session.pixels(name, (90, 70)) for name in numlib.COLOUR]
    levels = [numpy.full((70, 90, 3), 10 * i, numpy.uint8) for i in range(len(images))]
    plain, ops = numpy.stack(images), " | cutmix(image, label, alpha=1)"
    for flat, batch in zip(labelled(session, levels, ops, 12, seed=12), labelled(session, images, ops, 12, seed=12)):
        pasted = flat["image"][1, :, :, 0] == 0
        if pasted.any():
            y, x = numpy.nonzero(pasted)
            assert pasted[y.min():y.max() + 1, x.min():x.max() + 1].all(), "not one rectangle"
        wanted = numpy.where(pasted[None, :, :, None], numpy.roll(plain, 1, 0), plain)
        session.close("cutmix", "numpy", batch["image"], wanted, 0)
        session.close("mixup, cutmix: labels", "exact arithmetic", batch["label"],
                      mixed(numpy.eye(len(images)), 1 - pasted.mean()), 1e-6)


def test_erasing(session):
    image = photo(session, "coffee.png", (90, 70))
    array = numpy.asarray(image)
    white = Image.new("RGB", image.size, (255, 255, 255))
    for ops in ("cutout(image, 20, 30, fill=9)", "random_erasing(image, p=1, fill=9)"):
        for mask, found in zip(run(session, [white], ops, 20, seed=13), run(session, [image], ops, 20, seed=13)):
            session.close("cutout, random_erasing", "numpy", found, numpy.where(mask == 9, 9, array), 0, what=ops)


# ---- distributions ----

DRAWS = 20000
# Kolmogorov-Smirnov distances that one run in a thousand passes by chance: 1.95 / sqrt(n), and times sqrt(2) for two samples.
ONE_SAMPLE, TWO_SAMPLES = 1.95 / DRAWS ** 0.5, 1.95 * (2 / DRAWS) ** 0.5
EVEN = 4  # deviations of a chi-square


def spread(session, op, found, allowed, measure):
    session.note("%s: %s" % (op, measure), "distribution", found, found, (float("%.2g" % allowed), None))
    assert found <= allowed, "%s: %s is %g, at most %g" % (op, measure, found, allowed)


def test_crop_offsets_are_even(session):
    corner = lambda images: numpy.stack(numlib.places(images[:, 0, 0]), -1)
    found = draws(session, numlib.coordinates(29, 23), "random_crop(image, 8, 10)", corner, 20, DRAWS)
    cells = numpy.zeros((16, 20))
    numpy.add.at(cells, (found[:, 1], found[:, 0]), 1)
    spread(session, "random_crop", numlib.unevenness(cells), EVEN, "chi-square of offsets, in deviations")
    # One sample's offset must not tell the next one's.
    pairs = numpy.zeros((20, 20))
    numpy.add.at(pairs, (found[:-1, 0], found[1:, 0]), 1)
    spread(session, "random_crop", numlib.unevenness(pairs), EVEN, "chi-square of neighbours, in deviations")


def part_of(width, height, count, scale=(0.08, 1), ratio=(3 / 4, 4 / 3), seed=1):
    """What torchvision's RandomResizedCrop.get_params does: x, y, width, height of `count` draws."""
    random = numpy.random.default_rng(seed)
    found = []
    for _ in range(count):
        for _ in range(10):
            area = width * height * random.uniform(*scale)
            shape = numpy.exp(random.uniform(*numpy.log(ratio)))
            w, h = round((area * shape) ** 0.5), round((area / shape) ** 0.5)
            if 0 < w <= width and 0 < h <= height:
                found.append((random.integers(0, width - w + 1), random.integers(0, height - h + 1), w, h))
                break
        else:
            at = width / height
            w, h = (width, round(width / ratio[0])) if at < ratio[0] else (
                (round(height * ratio[1]), height) if at > ratio[1] else (width, height))
            found.append(((width - w) // 2, (height - h) // 2, w, h))
    return numpy.array(found)


def compare_parts(session, op, found, wanted):
    for name, measure in (("area", lambda p: p[:, 2] * p[:, 3]), ("ratio", lambda p: p[:, 2] / p[:, 3]),
                          ("x", lambda p: p[:, 0]), ("y", lambda p: p[:, 1]), ("width", lambda p: p[:, 2])):
        spread(session, op, numlib.distance(measure(found), measure(wanted)), TWO_SAMPLES, "distance of " + name)


def test_random_resized_crop_parts(session):
    for width, height in ((100, 75), (48, 90)):
        ops = "random_resized_crop(image, %d, %d, filter=nearest, antialias=false)" % (height // 2 + 1, width // 2 + 1)
        found = draws(session, numlib.coordinates(width, height), ops, corners, 21, DRAWS)
        compare_parts(session, "random_resized_crop", found, part_of(width, height, DRAWS))


def test_flip_rate(session):
    for p in (0.5, 0.2):
        ops = "random_flip(image, direction=both, p=%g) | center_crop(image, 2, 3)" % p
        found = draws(session, numlib.coordinates(3, 2), ops, lambda images: images[:, 0, 0, :2] > 0, 22, DRAWS)
        rates = list(found.mean(0)) + [found.all(1).mean() ** 0.5]
        worst = max(abs(rate - p) for rate in rates) / (p * (1 - p) / DRAWS) ** 0.5
        spread(session, "random_flip", worst, 4, "rate, in deviations")


def test_rotate_angles_are_even(session):
    y, x = numpy.mgrid[0:24, 0:24]
    u, v = x - 11.5, y - 11.5
    inside = numpy.hypot(u, v) < 10
    u, v = u[inside], v[inside]

    def angle(images):
        across, down = (images[:, inside, c] - 127.5 for c in range(2))
        return numpy.degrees(numpy.arctan2(down @ u - across @ v, across @ u + down @ v))

    ops = "random_rotate(image, degrees=90) | center_crop(image, 24)"
    found = draws(session, slopes((24, 24), 7), ops, angle, 23, DRAWS)
    spread(session, "random_rotate", numlib.from_uniform(found, -90, 90), ONE_SAMPLE, "distance of angles from even")


def test_jitter_factors_are_even(session):
    """Brightness, read off one light pixel: the factor times 200, cut off."""
    light = numpy.full((4, 4, 3), 200, numpy.uint8)
    ops = "color_jitter(image, brightness=0.25) | center_crop(image, 1)"
    levels = draws(session, light, ops, lambda images: images[:, 0, 0, 0], 24, DRAWS)
    counts = numpy.bincount(levels, minlength=256)[150:250]
    assert counts.sum() >= len(levels) - 2, "%d of %d levels lie outside" % (len(levels) - counts.sum(), len(levels))
    spread(session, "color_jitter", numlib.unevenness(counts), EVEN, "chi-square of brightness, in deviations")


def test_cutout_places_are_even(session):
    """A painted pixel is all 0; of the others only the first one is."""
    def middle(images):
        painted = (images == 0).all(-1)
        painted[:, 0, 0] = False
        return numpy.argwhere(painted)[:, 1:]

    found = draws(session, numlib.coordinates(16, 12), "cutout(image, 1, 1) | center_crop(image, 12, 16)", middle, 25, DRAWS)
    cells = numpy.zeros((12, 16))
    numpy.add.at(cells, (found[:, 0], found[:, 1]), 1)
    spread(session, "cutout", numlib.unevenness(cells.ravel()[1:]), EVEN, "chi-square of places, in deviations")
    missing = DRAWS - len(found)
    assert abs(missing - DRAWS / 192) < 4 * (DRAWS / 192) ** 0.5, missing


def test_mixup_weights(session):
    random = numpy.random.default_rng(5)
    images = [numpy.full((1, 1, 3), i, numpy.uint8) for i in range(2)]
    for alpha in (1, 0.2, 4):
        batches = labelled(session, images, " | mixup(image, label, alpha=%g)" % alpha, DRAWS, seed=26)
        found = numpy.array([float(batch["label"][0, 0]) for batch in batches])
        wanted = numpy.rint(random.beta(alpha, alpha, DRAWS) * 65536) / 65536
        spread(session, "mixup", numlib.distance(found, wanted), TWO_SAMPLES, "distance of weights from Beta(%g, %g)" % (alpha, alpha))


if __name__ == "__main__":
    sys.exit(numlib.main(numlib.defined(sys.modules[__name__])))
