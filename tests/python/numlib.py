"""What the comparisons of image ops with other libraries share: photographs, folders of pictures, differences, distributions."""
import os
import shutil
import struct
import sys
import tempfile
import traceback
import zlib

import numpy

import pipelib

# Photographs in scikit-image's wheel, which is installed for them and never imported: size and kind, and what they show.
COLOUR = ["astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "hubble_deep_field.jpg", "retina.jpg", "ihc.png"]
GRAY = ["camera.png", "moon.png", "brick.png"]


class Skip(Exception):
    pass


def photographs():
    """The folder that holds them, or Skip."""
    places = [os.environ["STOKER_PICTURES"]] if "STOKER_PICTURES" in os.environ else []
    places += [os.path.join(place, "skimage", "data") for place in sys.path]
    for place in places:
        if os.path.exists(os.path.join(place, COLOUR[0])):
            return place
    raise Skip("scikit-image, which has the photographs, is not installed; scripts/deps.sh test does it")


class Folder:
    """A folder of pictures of one class, as image_folder reads it. Samples come in the order in which they were added."""

    def __init__(self):
        self.root = tempfile.mkdtemp(prefix="stoker-numerics-")
        self.count = 0
        os.mkdir(os.path.join(self.root, "a"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.root, ignore_errors=True)

    def add(self, data, ending):
        path = os.path.join(self.root, "a", "%05d%s" % (self.count, ending))
        with open(path, "wb") as stream:
            stream.write(data)
        self.count += 1
        return path

    @property
    def source(self):
        return 'image_folder("%s")' % self.root


class Session:
    """One run of comparisons: the library, and the table of what was measured."""

    def __init__(self, build):
        self.build = build
        self.stoker = pipelib.Stoker(build)
        self.pictures = photographs()
        self.table = {}

    def photo(self, name):
        with open(os.path.join(self.pictures, name), "rb") as stream:
            return stream.read()

    def pixels(self, name, size=None):
        """A photograph as an RGB array, cut to a size around its middle."""
        with Folder() as folder:
            folder.add(self.photo(name), os.path.splitext(name)[1])
            image, = self.stoker.rows(folder.source + " | decode_image(image)")
        if size:
            left, top = (image.shape[1] - size[0]) // 2, (image.shape[0] - size[1]) // 2
            image = image[top:top + size[1], left:left + size[0]]
        return numpy.ascontiguousarray(image)

    def note(self, op, peer, most, mean, allowed):
        """Keeps the worst of what was measured for a row of the table."""
        row = self.table.setdefault((op, peer), [most, mean, allowed])
        row[0], row[1] = max(row[0], most), max(row[1], mean)
        assert row[2] == allowed, "two tolerances for %s and %s" % (op, peer)

    def close(self, op, peer, found, wanted, most, mean=None, what=""):
        """Found must be as wanted, no level further off than `most`, and by no more than `mean` on average."""
        found, wanted = numpy.asarray(found), numpy.asarray(wanted)
        where = " ".join(part for part in (op, peer, what) if part)
        assert found.shape == wanted.shape, "%s: shape %s, wanted %s" % (where, found.shape, wanted.shape)
        off = numpy.abs(found.astype(numpy.float64) - wanted.astype(numpy.float64))
        worst, average = float(off.max()), float(off.mean())
        self.note(op, peer, worst, average, (most, mean))
        at = numpy.unravel_index(int(off.argmax()), off.shape)
        assert worst <= most, "%s: %g off at %s (found %s, wanted %s), %g on average; at most %g" % (
            where, worst, tuple(int(i) for i in at), found[at], wanted[at], average, most)
        assert mean is None or average <= mean, "%s: %g off on average, at most %g" % (where, average, mean)

    def print_table(self):
        print("| op | peer | largest | on average | tolerance |\n|---|---|---|---|---|")
        for (op, peer), (worst, average, (most, mean)) in self.table.items():
            limit = "same bytes" if most == 0 else "%g" % most if mean is None else "%g, %g on average" % (most, mean)
            print("| %s | %s | %.3g | %.2g | %s |" % (op, peer, worst, average, limit))


def distance(first, second):
    """Kolmogorov-Smirnov: how far the distributions of two samples are apart, 0 to 1."""
    first, second = numpy.sort(first), numpy.sort(second)
    both = numpy.concatenate([first, second])
    below_first = numpy.searchsorted(first, both, side="right") / len(first)
    below_second = numpy.searchsorted(second, both, side="right") / len(second)
    return float(numpy.abs(below_first - below_second).max())


def from_uniform(sample, low, high):
    """The same, between a sample and the even distribution over [low, high]."""
    sample = numpy.sort((numpy.asarray(sample) - low) / (high - low))
    steps = numpy.arange(len(sample) + 1) / len(sample)
    return float(max((steps[1:] - sample).max(), (sample - steps[:-1]).max()))


def unevenness(counts):
    """Chi-square of counts that should all be equal, as deviations from what is expected of it."""
    counts = numpy.asarray(counts, float)
    expected = counts.sum() / counts.size
    chi_square, freedom = ((counts - expected) ** 2 / expected).sum(), counts.size - 1
    return float((chi_square - freedom) / numpy.sqrt(2 * freedom))


def coordinates(width, height):
    """A picture in which each pixel says where it is: red x, green y, blue what they have above 255."""
    y, x = numpy.mgrid[0:height, 0:width]
    return numpy.stack([x & 255, y & 255, (x >> 8) | (y >> 8) << 4], -1).astype(numpy.uint8)


def places(pixels):
    """x and y of pixels of such a picture."""
    red, green, blue = (pixels[..., c].astype(int) for c in range(3))
    return red | (blue & 15) << 8, green | (blue >> 4) << 8


# ---- running ----

def png(array):
    """A plain PNG of a (height, width, 3) array."""
    height, width, _ = array.shape
    rows = numpy.concatenate([numpy.zeros((height, 1), numpy.uint8), array.reshape(height, -1)], 1)
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows.tobytes(), 1)),
             (b"IEND", b"")]
    chunks = [struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def run(session, images, ops, times=1, seed=0):
    """Images, as arrays or encoded, through ops; each of them `times` times, in `times` epochs."""
    with Folder() as folder:
        for image in images:
            folder.add(image if isinstance(image, bytes) else png(numpy.asarray(image)), ".png")
        text = "%s | repeat(%d) | decode_image(image) | %s | batch(4)" % (folder.source, times, ops)
        return session.stoker.rows(text, seed=seed)


def draws(session, image, ops, keep, seed, count):
    """keep(images) for `count` draws of ops on an image: 40 samples, the rest in epochs."""
    with Folder() as folder:
        for _ in range(40):
            folder.add(png(image), ".png")
        text = "%s | repeat(%d) | decode_image(image) | %s | batch(500)" % (folder.source, count // 40, ops)
        parts = [keep(batch["image"]) for batch in session.stoker.batches(text, seed=seed)]
    return numpy.concatenate(parts)


def labelled(session, images, ops, times=1, seed=0):
    """Images of one size, each of a class of its own, through ops: batches."""
    with Folder() as folder:
        os.rmdir(os.path.join(folder.root, "a"))
        for number, image in enumerate(images):
            os.makedirs(os.path.join(folder.root, "a%03d" % number))
            with open(os.path.join(folder.root, "a%03d" % number, "0.png"), "wb") as stream:
                stream.write(png(image))
        text = "%s | repeat(%d) | decode_image(image) | center_crop(image, %d, %d) | one_hot(label, %d) | batch(%d)%s" % (
            folder.source, times, *images[0].shape[:2], len(images), len(images), ops)
        return list(session.stoker.batches(text, seed=seed))


# ---- finding out what was drawn: it does not depend on what is in the image ----

def rectangles(session, size, ops, times=1, seed=0):
    """The rectangles that random crops take from images of a size."""
    found = []
    for picture in run(session, [coordinates(*size)], ops, times, seed):
        x, y = places(picture)
        found.append((x[0, 0], y[0, 0], x[-1, -1] + 1, y[-1, -1] + 1))
    return [tuple(int(n) for n in box) for box in found]


def best(error, low, high, rounds=5, steps=40):
    """Where `error` is least between low and high: a grid around the best of the grid before."""
    for _ in range(rounds):
        grid = numpy.linspace(low, high, steps + 1)
        at = grid[int(numpy.argmin([error(x) for x in grid]))]
        width = (high - low) / steps
        low, high = at - width, at + width
    return float(at)


def off(found, wanted):
    """How far they are apart, on average."""
    return float(numpy.abs(found.astype(int) - numpy.asarray(wanted).astype(int)).mean())


def slopes(size, steep):
    """A picture whose red and green grow evenly to the right and down."""
    y, x = numpy.mgrid[0:size[1], 0:size[0]]
    middle = [(x + 0.5 - size[0] / 2) * steep + 127.5, (y + 0.5 - size[1] / 2) * steep + 127.5, 0 * x]
    return numpy.clip(numpy.rint(numpy.stack(middle, -1)), 0, 255).astype(numpy.uint8)


def angles(session, size, ops, times, seed):
    """The angles by which pictures of a size are turned, in degrees, read off a picture of slopes."""
    steep = 240 / numpy.hypot(*size)
    y, x = numpy.mgrid[0:size[1], 0:size[0]]
    u, v = x + 0.5 - size[0] / 2, y + 0.5 - size[1] / 2
    inside = numpy.hypot(u, v) < min(size) / 2 - 2
    found = []
    for picture in run(session, [slopes(size, steep)], ops, times, seed):
        across, down = ((picture[..., c] - 127.5)[inside] / steep for c in range(2))
        cosine = (across * u[inside] + down * v[inside]).mean()
        sine = (down * u[inside] - across * v[inside]).mean()
        found.append(float(numpy.degrees(numpy.arctan2(sine, cosine))))
    return found


def corners(images):
    """x, y, width, height of what nearest pixels were taken from."""
    x, y = places(images)
    return numpy.stack([x[:, 0, 0], y[:, 0, 0], x[:, 0, -1] - x[:, 0, 0] + 1, y[:, -1, 0] - y[:, 0, 0] + 1], -1)


# ---- the test program ----

def main(tests):
    """Runs functions on a Session of the build directory that the first argument names; `--table` prints what was measured,
    and further arguments choose by parts of names."""
    arguments = [a for a in sys.argv[1:] if a != "--table"]
    try:
        session = Session(arguments[0])
    except Skip as reason:
        print("skipped: %s" % reason)
        return 77
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for test in tests:
        if arguments[1:] and not any(part in test.__name__ for part in arguments[1:]):
            continue
        try:
            test(session)
            counts["passed"] += 1
        except Skip as reason:
            counts["skipped"] += 1
            print("%s: skipped: %s" % (test.__name__, reason))
        except Exception:  # the others are worth running whatever this one met
            counts["failed"] += 1
            print("%s:\n%s" % (test.__name__, traceback.format_exc()))
    if "--table" in sys.argv:
        session.print_table()
    skipped = ", %d skipped" % counts["skipped"] if counts["skipped"] else ""
    print("%d passed, %d failed%s" % (counts["passed"], counts["failed"], skipped))
    return 1 if counts["failed"] else 0


def defined(module):
    """The functions of a module that are tests, in the order in which they are written."""
    found = [value for name, value in vars(module).items() if name.startswith("test_") and callable(value)]
    return sorted(found, key=lambda f: f.__code__.co_firstlineno)
