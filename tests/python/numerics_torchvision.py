#!/usr/bin/env python3
"""Pixels of the image ops against torchvision's v2 functions on uint8 tensors, and random draws against its transforms.

Usage: numerics_torchvision.py BUILD_DIR [--table] [PART_OF_A_NAME...]; scripts/numerics.sh runs it where torchvision is.
"""
import sys

import numpy
import torch
from torchvision import io
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

import numlib
from numlib import angles, best, corners, draws, labelled, off, run

PEER = "torchvision"
DRAWS = 20000
# Kolmogorov-Smirnov: two samples of one distribution are further apart once in a thousand times.
TWO_SAMPLES = 1.95 * (2 / DRAWS) ** 0.5

torch.set_num_threads(1)


def tensor(array):
    return torch.from_numpy(numpy.ascontiguousarray(array.transpose(2, 0, 1)))


def array(planes):
    return planes.numpy().transpose(1, 2, 0)


def through(image, function, *arguments, **options):
    return array(function(tensor(image), *arguments, **options))


def test_decode(session):
    for name in ("rocket.jpg", "retina.jpg", "hubble_deep_field.jpg", "astronaut.png", "coffee.png", "chelsea.png", "ihc.png"):
        data = torch.frombuffer(bytearray(session.photo(name)), dtype=torch.uint8)
        wanted = array(io.decode_image(data, mode=io.ImageReadMode.RGB))
        session.close("decode_image, JPEG and PNG", PEER, session.pixels(name), wanted, 0, what=name)


def test_resize(session):
    for name in ("chelsea.png", "astronaut.png"):
        image = session.pixels(name)
        for width, height in ((224, 224), (64, 48), (500, 333), (640, 800), (31, 17)):
            for filter_, antialias, limit in (
                    ("bilinear", True, (1, 0.3)), ("bicubic", True, (1, 0.3)),
                    ("bilinear", False, (1, 0.3))):
                text = "resize(image, %d, %d, filter=%s, antialias=%s)" % (height, width, filter_, str(antialias).lower())
                found, = run(session, [image], text)
                wanted = through(image, functional.resize, [height, width], v2.InterpolationMode(filter_), antialias=antialias)
                op = "resize, " + filter_ + ("" if antialias else ", antialias=false")
                session.close(op, PEER, found, wanted, *limit, "%s to %dx%d" % (name, width, height))


def test_resize_nearest(session):
    """Half-way points, which torchvision finds in float32, may go to the other neighbour."""
    image = session.pixels("chelsea.png")
    for width, height in ((224, 224), (64, 48), (500, 333), (640, 800), (31, 17)):
        found, = run(session, [image], "resize(image, %d, %d, filter=nearest)" % (height, width))
        wanted = through(image, functional.resize, [height, width], v2.InterpolationMode.NEAREST_EXACT)
        share = float((found != wanted).any(-1).mean())
        session.note("resize, nearest: share of pixels that differ", PEER, share, share, (0.02, None))
        assert share <= 0.02, "resize, nearest, to %dx%d: %g of the pixels differ" % (width, height, share)


def test_random_rotate(session):
    """Without a fill, with which torchvision darkens what it mixes at the edge twice."""
    image = session.pixels("astronaut.png", (200, 150))
    ops = "random_rotate(image, degrees=180)"
    for angle, found in zip(angles(session, (200, 150), ops, 10, 6), run(session, [image], ops, 10, 6)):
        turn = lambda a: through(image, functional.rotate, a, v2.InterpolationMode.BILINEAR)
        angle = best(lambda a: off(found, turn(a)), angle - 0.02, angle + 0.02, rounds=3, steps=12)
        session.close("random_rotate, bilinear", PEER, found, turn(angle), 3, 0.1, "by %.4f" % angle)


def test_color_jitter(session):
    image = session.pixels("coffee.png", (120, 90))
    for what, low, high, most in (("brightness", 0.2, 1.8, 1), ("contrast", 0.2, 1.8, 2), ("saturation", 0.2, 1.8, 1),
                                  ("hue", -0.5, 0.5, 2)):
        function = getattr(functional, "adjust_" + what)
        for found in run(session, [image], "color_jitter(image, %s=%g)" % (what, high if what == "hue" else 0.8), 8, seed=7):
            factor = best(lambda f: off(found, through(image, function, f)), low, high)
            factor = min(max(factor, low), high)
            session.close("color_jitter, " + what, PEER, found, through(image, function, factor), most, 0.6,
                          "by %.4f" % factor)


def test_grayscale_and_blur(session):
    image = session.pixels("chelsea.png", (131, 97))
    found, = run(session, [image], "grayscale(image)")
    session.close("grayscale", PEER, found, through(image, functional.rgb_to_grayscale, 3), 1)
    for size, sigma in ((3, 0.5), (5, 1.0), (9, 2.0), (23, 7.0)):
        found, = run(session, [image], "gaussian_blur(image, %d, sigma=%g)" % (size, sigma))
        wanted = through(image, functional.gaussian_blur, [size, size], [sigma, sigma])
        session.close("gaussian_blur", PEER, found, wanted, 1, 0.05, "%d, sigma %g" % (size, sigma))


def test_normalize(session):
    image = session.pixels("rocket.jpg", (99, 70))
    mean, std = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
    found, = run(session, [image], "normalize(image, mean=%s, std=%s) | layout(image, CHW)" % (mean, std))
    unit = functional.to_dtype(tensor(image), torch.float32, scale=True)
    wanted = functional.normalize(unit, [m / 255 for m in mean], [s / 255 for s in std]).numpy()
    session.close("normalize, layout", PEER, found, wanted, 1e-6)


def candidates(policy, image, bins, space, only=None):
    """Every result that torchvision's policy may give: names and images."""
    height, width, _ = image.shape
    for name, (magnitudes, signed) in space.items():
        all_ = magnitudes(bins, height, width)
        chosen = [0.0] if all_ is None else [float(m) for m in all_]
        if only is not None and all_ is not None:
            chosen = [float(all_[only])]
        for magnitude in chosen:
            for sign in (1, -1) if signed else (1,):
                result = policy._apply_image_or_video_transform(tensor(image), name, sign * magnitude,
                                                                interpolation=policy.interpolation, fill=policy._fill)
                yield name, array(result)


def recognised(session, op, rows, names, images, most):
    wanted = numpy.stack(images).astype(numpy.int16)
    strange = []
    for row in rows:
        share = (numpy.abs(wanted - row.astype(numpy.int16)) > 1).reshape(len(names), -1).mean(1)
        if share.min() > most:
            strange.append("%s: %.3f of the samples differ" % (names[int(share.argmin())], share.min()))
    for line in strange:
        print("%s: like no change of torchvision's; nearest is %s" % (op, line))
    session.note(op + ": share of pictures that no change explains", PEER, len(strange) / len(rows), len(strange) / len(rows),
                 (0.03, None))
    assert len(strange) <= 0.03 * len(rows), "%s: %d of %d: %s" % (op, len(strange), len(rows), strange)


def test_trivial_augment(session):
    image = session.pixels("astronaut.png", (96, 80))
    policy = v2.TrivialAugmentWide()
    names, images = zip(*candidates(policy, image, 31, policy._AUGMENTATION_SPACE))
    recognised(session, "trivial_augment", run(session, [image], "trivial_augment(image)", 200, seed=9), names, images, 0.01)


def test_rand_augment(session):
    image = session.pixels("coffee.png", (80, 64))
    policy = v2.RandAugment(num_ops=2, magnitude=9)
    space = policy._AUGMENTATION_SPACE
    pairs = [(first + ", " + second, result) for first, between in candidates(policy, image, 31, space, 9)
             for second, result in candidates(policy, between, 31, space, 9)]
    names, images = zip(*pairs)
    rows = run(session, [image], "rand_augment(image, ops=2, magnitude=9)", 120, seed=10)
    recognised(session, "rand_augment", rows, names, images, 0.03)


def test_mixup(session):
    images = [session.pixels(name, (90, 70)) for name in numlib.COLOUR]
    plain = torch.from_numpy(numpy.stack(images)).float()
    for batch in labelled(session, images, " | mixup(image, label, alpha=0.4)", times=6, seed=11):
        weight = float(batch["label"][0, 0])
        mixed = v2.MixUp(alpha=0.4).transform(plain, {"lam": weight, "labels": None, "batch_size": len(images)})
        session.close("mixup", PEER, batch["image"], mixed.numpy(), 0.51)


def spread(session, op, name, found, wanted):
    apart = numlib.distance(found, wanted)
    session.note("%s: distance of %s" % (op, name), PEER, apart, apart, (float("%.2g" % TWO_SAMPLES), None))
    assert apart <= TWO_SAMPLES, "%s: distance of %s is %g, at most %g" % (op, name, apart, TWO_SAMPLES)


def test_random_resized_crop_parts(session):
    torch.manual_seed(1)
    for width, height in ((100, 75), (48, 90)):
        ops = "random_resized_crop(image, %d, %d, filter=nearest, antialias=false)" % (height // 2 + 1, width // 2 + 1)
        found = draws(session, numlib.coordinates(width, height), ops, corners, 21, DRAWS)
        image = [torch.empty(3, height, width, dtype=torch.uint8)]
        transform = v2.RandomResizedCrop(8)
        parameters = [transform.make_params(image) for _ in range(DRAWS)]
        wanted = numpy.array([(p["left"], p["top"], p["width"], p["height"]) for p in parameters])
        for name, measure in (("area", lambda p: p[:, 2] * p[:, 3]), ("ratio", lambda p: p[:, 2] / p[:, 3]),
                              ("x", lambda p: p[:, 0]), ("y", lambda p: p[:, 1])):
            spread(session, "random_resized_crop", name, measure(found), measure(wanted))


def test_random_erasing_parts(session):
    torch.manual_seed(2)
    white = numpy.full((60, 80, 3), 255, numpy.uint8)

    def hole(images):
        painted = (images[..., 0] == 0)
        rows, columns = painted.any(2), painted.any(1)
        return numpy.stack([columns.argmax(1), rows.argmax(1), columns.sum(1), rows.sum(1)], -1)

    found = draws(session, white, "random_erasing(image, p=1) | center_crop(image, 60, 80)", hole, 22, DRAWS)
    image, transform = [torch.empty(3, 60, 80, dtype=torch.uint8)], v2.RandomErasing(p=1)
    parameters = [transform.make_params(image) for _ in range(DRAWS)]
    wanted = numpy.array([(p["j"], p["i"], p["w"], p["h"]) for p in parameters if p["v"] is not None])
    for number, name in enumerate(("x", "y", "width", "height")):
        spread(session, "random_erasing", name, found[:, number], wanted[:, number])


if __name__ == "__main__":
    sys.exit(numlib.main(numlib.defined(sys.modules[__name__])))
