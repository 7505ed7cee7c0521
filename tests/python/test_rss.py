#!/usr/bin/env python3
"""Watches the program's memory from outside: over all decoders, sources and sinks its peak stays within

    --memory + 64 MiB + 2 MiB for each thread,

too little memory ends the run with a number that would do, and never changes what a run with --on-error skip gives.

Usage: python3 tests/python/test_rss.py BUILD_DIR
Needs pillow, numpy and h5py. STOKER_TORTURE=1 adds larger pictures, more budgets and more threads.
"""
import gzip
import io
import json
import os
import re
import struct
import subprocess
import sys
import tarfile

import h5py
import numpy
from PIL import Image

import runlib

MIB = 1 << 20
TORTURE = os.environ.get("STOKER_TORTURE") == "1"
TIMEOUT = 600 if TORTURE else 120
BUILD = os.path.abspath(sys.argv[1])
with open(os.path.join(BUILD, "stoker"), "rb") as program_file:
    SANITIZED = re.search(rb"__(asan|tsan|msan)_init", program_file.read()) is not None  # these take memory of their own

# A program's peak counts that of the process it was forked from, so a small one starts it.
LAUNCH = """
import json, os, sys
out, err = (os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for name in sys.argv[1:3])
pid = os.posix_spawn(sys.argv[3], sys.argv[3:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)])
_, status, usage = os.wait4(pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024]))
"""


class Run:
    """One run of a pipeline, with what it printed and the most memory it held."""

    def __init__(self, program, directory, text, memory, threads, *options):
        paths = [os.path.join(directory, name) for name in ("run.out", "run.err")]
        with open(os.path.join(directory, "run.stoker"), "w", encoding="utf-8") as f:
            f.write(text)
        command = [program, "run", "-q", "--digest", "run.stoker", "--memory", "%d" % memory, "--threads", "%d" % threads,
                   "--cache-dir", os.path.join(directory, "indexes"), *options]
        found = subprocess.run([sys.executable, "-S", "-E", "-c", LAUNCH, *paths, *command], stdout=subprocess.PIPE, cwd=directory,
                               check=True, timeout=TIMEOUT)
        self.status, self.peak = json.loads(found.stdout)
        self.out, self.err = (open(path, encoding="utf-8", errors="replace").read() for path in paths)
        self.what = "%s --memory %dM --threads %d %s" % (text[:200], memory // MIB, threads, " ".join(options))
        self.limit = memory + 64 * MIB + 2 * MIB * threads
        assert SANITIZED or self.peak <= self.limit, "%s: peak of %d MiB, wanted at most %d\n%s" % (
            self.what, self.peak // MIB, self.limit // MIB, self.err)
        assert self.status in (0, 1), "%s: exit %d\n%s" % (self.what, self.status, self.err)
        if self.status:
            assert "would do" in self.err and "max_pixels" not in self.err, "%s: %s" % (self.what, self.err)

    @property
    def digest(self):
        return re.search(r"digest ([0-9a-f]+)", self.out).group(1)

    @property
    def would_do(self):
        """Bytes of the budget that the message names."""
        number, unit = re.search(r"(\d+)([KMG])i?B? would do", self.err).groups()
        return int(number) << {"K": 10, "M": 20, "G": 30}[unit]


# ---- pictures ----

def photo(width, height, seed=0):
    """Smooth with some noise, so that files are neither tiny nor as large as their pixels."""
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.float32)
    planes = [numpy.sin(x / (31 + 7 * c) + seed) * 60 + numpy.cos(y / (47 + 5 * c)) * 60 + 128 for c in range(3)]
    noise = numpy.random.default_rng(seed).integers(0, 12, (height, width, 1))
    return (numpy.stack(planes, 2) + noise).clip(0, 255).astype(numpy.uint8)


def encoded(pixels, kind, mode=None, **options):
    image = Image.fromarray(pixels)
    if mode:
        image = image.convert(mode)
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def jpeg_tool(pixels, *words):
    ppm = b"P6\n%d %d\n255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes()
    tool = os.path.join(BUILD, "tests", "jpeg_tool")
    return subprocess.run([tool, "encode", *words], input=ppm, stdout=subprocess.PIPE, check=True).stdout


def interlaced_png(pixels):
    """Adam7, which Pillow does not write: filter 0 in every row."""
    import zlib
    height, width = pixels.shape[:2]
    data = b""
    for x, y, right, down in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        part = pixels[y::down, x::right]
        if part.size:
            rows = numpy.ascontiguousarray(part).reshape(part.shape[0], -1).view(numpy.uint8)
            data += numpy.concatenate([numpy.zeros((part.shape[0], 1), numpy.uint8), rows], 1).tobytes()
    bits = 8 * pixels.dtype.itemsize

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    color = 2 if pixels.ndim == 3 else 0
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 1)) + \
        chunk(b"IDAT", zlib.compress(data, 1)) + chunk(b"IEND", b"")


def animated_webp(pixels):
    out = io.BytesIO()
    frames = [Image.fromarray(pixels), Image.fromarray(pixels[::-1])]
    frames[0].save(out, "WEBP", save_all=True, append_images=frames[1:], lossless=True, method=0)
    return out.getvalue()


def pictures(width, height):
    """(name, bytes, options of decode_image) of every decoder."""
    pixels = photo(width, height)
    wide = (pixels.astype(numpy.uint16) << 8 | pixels[..., ::-1])
    small = Image.fromarray(pixels).quantize(64)
    palette = io.BytesIO()
    small.save(palette, "GIF")
    yield "baseline.jpg", encoded(pixels, "JPEG", quality=90), ""
    yield "exact.jpg", encoded(pixels, "JPEG", quality=90), ", exact=true"
    yield "progressive.jpg", encoded(pixels, "JPEG", quality=90, progressive=True), ""
    yield "progressive444.jpg", encoded(pixels, "JPEG", quality=90, progressive=True, subsampling=0), ", exact=true"
    yield "arithmetic.jpg", jpeg_tool(pixels, "2x2", "90", "arithmetic"), ""
    yield "cmyk.jpg", encoded(pixels, "JPEG", mode="CMYK", quality=90, progressive=True), ""
    yield "gray.jpg", encoded(pixels, "JPEG", mode="L", quality=90, progressive=True), ", channels=1"
    yield "rgb.png", encoded(pixels, "PNG", compress_level=1), ""
    yield "gray.png", encoded(pixels, "PNG", mode="L", compress_level=1), ", channels=1"
    yield "interlaced.png", interlaced_png(pixels), ""
    yield "interlaced16.png", interlaced_png(wide.byteswap()), ", dtype=uint16"
    yield "lossy.webp", encoded(pixels, "WEBP", quality=80, method=0), ""
    yield "lossless.webp", encoded(pixels, "WEBP", lossless=True, method=0, quality=0), ""
    yield "alpha.webp", encoded(numpy.dstack([pixels, pixels[..., 0]]), "WEBP", quality=80, method=0), ", channels=4"
    yield "animated.webp", animated_webp(pixels), ""
    yield "screen.gif", palette.getvalue(), ""
    yield "plain.bmp", encoded(pixels, "BMP"), ""
    yield "palette.bmp", encoded(pixels, "BMP", mode="P"), ""


class Bits:
    """Bits from the lowest of the first byte on."""

    def __init__(self):
        self.bits = []

    def put(self, value, count):
        self.bits += [value >> i & 1 for i in range(count)]

    def code(self, value, count):
        self.bits += [value >> i & 1 for i in reversed(range(count))]

    def one_symbol(self):
        self.put(1, 4)  # simple, one symbol, of one bit: 0

    def all_symbols(self, zeros):
        """256 codes of 8 bits, then `zeros` symbols that have none."""
        self.put(0, 1)
        self.put(12 - 4, 4)
        for i in range(12):
            self.put(i in (2, 11), 3)  # lengths 0 and 8 take a bit each
        self.put(0, 1)
        self.bits += [1] * 256 + [0] * zeros


def webp_of_codes(side, groups):
    """A lossless WebP of one colour whose blocks of 4 x 4 pixels have codes of their own: a bomb of tables."""
    b = Bits()
    for value, count in ((0x2f, 8), (side - 1, 14), (side - 1, 14), (0, 4), (0, 1), (0, 1), (1, 1), (0, 3), (0, 1)):
        b.put(value, count)
    b.all_symbols(24)
    b.all_symbols(0)
    for _ in range(3):
        b.one_symbol()
    for i in range(((side + 3) // 4) ** 2):
        b.code(min(i, groups - 1) & 255, 8)
        b.code(min(i, groups - 1) >> 8, 8)
    for _ in range(5 * groups):
        b.one_symbol()
    data = numpy.packbits(numpy.array(b.bits + [0] * (-len(b.bits) % 16), numpy.uint8), bitorder="little").tobytes()
    chunk = b"VP8L" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


def folder_of(directory, name, data, copies):
    """A directory with one class and `copies` links to one picture."""
    place = os.path.join(directory, "pictures", name, "class")
    os.makedirs(place)
    first = os.path.join(place, "0" + os.path.splitext(name)[1])
    with open(first, "wb") as f:
        f.write(data)
    for i in range(1, copies):
        os.link(first, os.path.join(place, "%d%s" % (i, os.path.splitext(name)[1])))
    return os.path.join("pictures", name)


# Where the file itself is larger than the budget, its picture comes to be refused one step later.
STEPS = 3
ENDS = {"resized": "resize(image, 64, 64) | batch(8)", "cropped": "center_crop(image, 200, 200) | batch(8)",
        "whole": "batch(2)"}


def check_pictures(program, directory, width, height, copies, runs, ends):
    """Every decoder, in every run (memory, threads): one digest, whatever the memory."""
    for name, data, options in pictures(width, height):
        folder = folder_of(directory, name, data, copies)
        for end in ends:
            text = 'image_folder("%s") | decode_image(image%s) | %s' % (folder, options, ENDS[end])
            if "uint16" in options:
                text = text.replace("64, 64", "64, 64, filter=nearest")
            digests = {run.digest for run in (Run(program, directory, text, memory, threads, "--on-error", policy)
                                              for memory, threads, policy in runs) if run.status == 0}
            assert len(digests) == 1, "%s: %s" % (text, digests)


def test_decoders_stay_within_the_budget(program, directory):
    runs = [(64 * MIB, 16, "stop"), (24 * MIB, 4, "skip"), (256 * MIB, 4, "skip")]
    check_pictures(program, directory, 1000, 900, 16, runs, ENDS if TORTURE else ["resized"])


def test_more_threads_than_the_budget_has_room_for(program, directory):
    """Whole pictures in batches: what is made too early is made again rather than in the way."""
    folder = folder_of(directory, "p.jpg", encoded(photo(1000, 900), "JPEG"), 24)
    for text in ('image_folder("%s") | decode_image(image) | batch(2)', 'image_folder("%s") | decode_image(image) | encode_jpeg(image) | batch(2)',
                 'image_folder("%s") | decode_image(image) | cache | repeat(2) | batch(2)'):
        found = set()
        for memory, threads, policy in ((48, 64, "stop"), (48, 16, "skip"), (40, 3, "stop"), (1024, 2, "stop")):
            run = Run(program, directory, text % folder, memory * MIB, threads, "--on-error", policy)
            assert run.status == 0, run.err
            found.add(run.digest)
        assert len(found) == 1, found


def test_pictures_of_many_megapixels(program, directory):
    if not TORTURE:
        return
    runs = [(64 * MIB, 16, "stop"), (64 * MIB, 64, "skip"), (256 * MIB, 16, "skip"), (2048 * MIB, 4, "skip")]
    check_pictures(program, directory, 2300, 2300, 32, runs, ENDS)


def test_progressive_jpegs_wait_for_room(program, directory):
    """Sixteen workers, memory for three pictures at a time: all are decoded, none is refused."""
    data = encoded(photo(2300, 2300), "JPEG", quality=85, progressive=True)
    folder = folder_of(directory, "large.jpg", data, 16)
    text = 'image_folder("%s") | decode_image(image) | resize(image, 64, 64) | batch(8)' % folder
    runs = [Run(program, directory, text, 64 * MIB, threads) for threads in ((1, 4, 16, 64) if TORTURE else (4, 16))]
    assert [run.status for run in runs] == [0] * len(runs), [run.err for run in runs]
    assert len({run.digest for run in runs}) == 1


def test_a_picture_that_never_fits_names_the_budget_that_would_do(program, directory):
    side = 9400 if TORTURE else 4000
    pixels = photo(side, side)
    for name, data in (("huge.jpg", encoded(pixels, "JPEG", quality=60, progressive=True)),
                       ("huge.png", encoded(pixels, "PNG", compress_level=1)),
                       ("huge.webp", encoded(pixels, "WEBP", lossless=True, quality=0, method=0))):
        folder = folder_of(directory, name, data, 2)
        for end in ("resized", "whole"):
            text = 'image_folder("%s") | decode_image(image) | %s' % (folder, ENDS[end])
            run = Run(program, directory, text, 16 * MIB, 4, "--on-error", "skip")
            assert run.status == 1, run.what
            for _ in range(STEPS):
                assert name + "/class/" in run.err, run.err
                run = Run(program, directory, text, run.would_do, 4, "--on-error", "skip")
                if run.status == 0:
                    break
            assert run.status == 0, run.err


def test_tables_of_a_lossless_webp_are_counted(program, directory):
    """295 KB that are 1 megapixel and made libwebp take 340 MB."""
    data = webp_of_codes(1024, 65536)
    assert Image.open(io.BytesIO(data)).convert("RGB").getpixel((1023, 1023)) == (0, 0, 0)  # a sound picture
    folder = folder_of(directory, "codes.webp", data, 4)
    text = 'image_folder("%s") | decode_image(image) | resize(image, 64, 64) | batch(2)' % folder
    run = Run(program, directory, text, 64 * MIB, 4, "--on-error", "skip")
    assert run.status == 1, run.out
    assert Run(program, directory, text, run.would_do, 4, "--on-error", "skip").status == 0


def test_max_pixels_does_not_depend_on_the_budget(program, directory):
    """What the budget has no room for is not a bad record; what is above max_pixels is one under every budget."""
    folder = folder_of(directory, "p.png", encoded(photo(1500, 1500), "PNG", compress_level=1), 4)
    text = 'image_folder("%s") | decode_image(image%s) | resize(image, 8, 8) | batch(2)'
    seen = {}
    for memory in (4, 8, 16, 24, 40, 64, 200):
        run = Run(program, directory, text % (folder, ""), memory * MIB, 2, "--on-error", "skip")
        seen[memory] = run.digest if run.status == 0 else None
    assert seen[4] is None and seen[200], seen
    assert len(set(seen.values()) - {None}) == 1, seen
    few = {Run(program, directory, text % (folder, ", max_pixels=2000000"), memory * MIB, 2, "--on-error", "skip").digest
           for memory in (4, 200)}
    assert len(few) == 1 and few != {seen[200]}, (few, seen)


# ---- sources and sinks ----

def test_many_fields(program, directory):
    """Tables of each worker by field: 1,000 fields took 1 GB with 64 threads, 54,825 took 2 GB before anything ran."""
    Run(program, directory, 'range(2000) | write_tfrecord("r.tfrecord")', 64 * MIB, 2)
    for count, memory, threads in ((1000, 32, 64), (10000, 64, 16)) + (((50000, 64, 2),) if TORTURE else ()):
        fields = ", ".join("f%d=int64(default=1)" % i for i in range(count))
        if count > 20000: # the text of a pipeline has its limit too
            fields = ", ".join("f%d=int64" % i for i in range(count))
        Run(program, directory, 'tfrecord("r.tfrecord") | parse(%s) | batch(4)' % fields, memory * MIB, threads)


def example(data):
    """A tf.train.Example with one bytes feature x."""
    def field(number, body):
        out, n = bytes([number << 3 | 2]), len(body)
        while n > 127:
            out += bytes([n & 127 | 128])
            n >>= 7
        return out + bytes([n]) + body
    entry = field(1, b"x") + field(2, field(1, field(1, data)))
    return field(1, field(1, entry))


def tfrecord_file(path, records, opener=open):
    import test_bad_input
    with opener(path, "wb") as f:
        for data in records:
            f.write(test_bad_input.record(data))


def same_or_refused(program, directory, text, budgets, threads=4):
    """Runs with skip under all budgets: one digest, or the error about the memory."""
    runs = {memory: Run(program, directory, text, memory * MIB, threads, "--on-error", "skip") for memory in budgets}
    digests = {run.digest for run in runs.values() if run.status == 0}
    assert len(digests) == 1, (text, {memory: run.err or run.digest for memory, run in runs.items()})
    assert runs[max(budgets)].status == 0, runs[max(budgets)].err


def test_record_files(program, directory):
    generator = numpy.random.default_rng(1)
    large = [generator.integers(0, 256, 3 * MIB, dtype=numpy.uint8).tobytes() for _ in range(3)]
    lines = [b"a line of text %d" % i for i in range(50000)]
    small = large[0][:300 * 1024]
    for name, opener in (("l.txt", open), ("l.txt.gz", gzip.open)):
        with opener(os.path.join(directory, name), "wb") as f:
            f.write(b"\n".join(lines + [large[1].replace(b"\n", b"x").replace(b"\r", b"x").replace(b"\0", b"x")]) + b"\n")
    # Records with the checksum in Python are slow, so they are small and one of them is large.
    records = [small] * 2 + [small * 8]
    for name, opener in (("r.tfrecord", open), ("r.tfrecord.gz", gzip.open)):
        tfrecord_file(os.path.join(directory, name), [example(r[:200 * 1024]) for r in records], opener)
    with tarfile.open(os.path.join(directory, "t.tar"), "w") as tar:
        for i, data in enumerate(large * 6):
            member = tarfile.TarInfo("%05d.bin" % i)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    with open(os.path.join(directory, "t.tar"), "rb") as f, gzip.open(os.path.join(directory, "t.tar.gz"), "wb", 1) as g:
        g.write(f.read())
    for text in ('text("l.txt")', 'text("l.txt.gz")', 'text("l.txt.gz") | shuffle(buffer=100)', 'tfrecord("r.tfrecord")',
                 'tfrecord("r.tfrecord.gz")', 'tfrecord("r.tfrecord.gz") | parse(x=bytes)', 'webdataset("t.tar", x=bytes(from="bin"))',
                 'webdataset("t.tar.gz", x=bytes(from="bin"))', 'webdataset("t.tar", x=bytes(from="bin")) | cache | repeat(2)'):
        same_or_refused(program, directory, text + " | batch(2)", (2, 8, 16, 64, 256))
        Run(program, directory, text + " | batch(2)", 64 * MIB, 64)


def test_hdf5(program, directory):
    data = numpy.random.default_rng(2).integers(0, 9, (4096, 64, 64)).astype(numpy.float32)
    with h5py.File(os.path.join(directory, "a.h5"), "w") as f:
        f.create_dataset("chunked", data=data[:2048], chunks=(16, 64, 64), compression="gzip", compression_opts=1)
        f.create_dataset("plain", data=data[:2048])
        f.create_dataset("large", data=data[:2048], chunks=(256, 64, 64), compression="lzf")
    for name in ("chunked", "plain", "large"):
        for order in ("", " | shuffle(seed=1)"):
            text = 'hdf5("a.h5", "%s")%s | batch(16)' % (name, order)
            same_or_refused(program, directory, text, (4, 16, 64, 1024))
        Run(program, directory, 'hdf5("a.h5", "%s") | batch(16)' % name, 64 * MIB, 64)


def test_sinks(program, directory):
    with open(os.path.join(directory, "l.txt"), "w", encoding="ascii") as f:
        f.writelines("%d %s\n" % (i, "x" * 2000) for i in range(20000))
    folder = folder_of(directory, "p.jpg", encoded(photo(1200, 1000), "JPEG"), 24)
    decode = 'image_folder("%s") | decode_image(image) | ' % folder
    for text in ('text("l.txt") | write_tfrecord("out/part-%05d", shards=64)', 'text("l.txt") | write_hdf5("out.h5")',
                 'text("l.txt") | write_webdataset("out/w-%05d.tar", shards=16)',
                 decode + 'encode_jpeg(image) | batch(2)', decode + 'resize(image, 200, 200) | encode_png(image, level=11) | batch(2)',
                 decode + 'resize(image, 64, 64) | write_hdf5("p.h5")',
                 decode + 'resize(image, 128, 128) | write_sheet("sheet.png", columns=4)'):
        for memory, threads in ((64, 4), (64, 64)):
            run = Run(program, directory, text, memory * MIB, threads)
            assert run.status == 0 or "shards" in text or threads == 64, run.err


def test_caches(program, directory):
    folder = folder_of(directory, "p.jpg", encoded(photo(1200, 1000), "JPEG"), 48)
    text = 'image_folder("%s") | decode_image(image) | resize(image, 400, 400) | cache%s | repeat(2) | batch(4)'
    for memory in (32, 64):
        assert Run(program, directory, text % (folder, ""), memory * MIB, 4).status == 0
        assert Run(program, directory, text % (folder, '("c%d.bin")' % memory), memory * MIB, 4).status == 0


def test_lexicons(program, directory):
    with open(os.path.join(directory, "words.txt"), "w", encoding="ascii") as f:
        f.write("hello world\n" * 100)
    count = 4000000 if TORTURE else 1200000
    with open(os.path.join(directory, "large.dict"), "w", encoding="ascii") as f:
        for i in range(count):
            f.write("word%dx%d  W ER1 D HH AH0 L OW1 W ER1 D\n" % (i, i * 7919 % 1000003))
    text = 'text("words.txt") | g2p(text, lexicon="large.dict") | batch(8, pad=true)'
    run = Run(program, directory, text, 64 * MIB, 4)
    assert run.status == 1 and "large.dict" in run.err, run.err
    again = Run(program, directory, text, run.would_do, 4)
    assert again.status == 0, again.err


def test_many_records_and_files(program, directory):
    with open(os.path.join(directory, "n.txt"), "w", encoding="ascii") as f:
        f.write("\n".join(map(str, range(1500000))))
    place = os.path.join(directory, "many", "class")
    os.makedirs(place)
    first = os.path.join(place, "0.bmp")
    with open(first, "wb") as f:
        f.write(encoded(photo(8, 8), "BMP"))
    for i in range(1, 10000):
        os.link(first, os.path.join(place, "%d.bmp" % i))
    for text in ('text("n.txt") | shuffle(seed=1) | batch(256)', 'image_folder("many") | shuffle(seed=1) | batch(64)',
                 'range(20000000) | shuffle(seed=1) | batch(4096)'):
        assert Run(program, directory, text, 64 * MIB, 16).status == 0


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, program, directory: test(program, directory)))
