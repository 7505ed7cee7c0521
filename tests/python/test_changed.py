#!/usr/bin/env python3
"""Changes files in place while the program reads them, and takes its descriptors away.

What is handed over must be as it was before the change, or must not be handed over; what is left out is counted.

Usage: python3 tests/python/test_changed.py BUILD_DIR
Needs h5py for HDF5. STOKER_TORTURE=1: many more runs.
"""
import gzip
import io
import json
import os
import random
import re
import resource
import subprocess
import sys
import tarfile
import time

import runlib
from test_bad_input import record

try:
    import h5py
    import numpy
except ImportError:
    h5py = None

RUNS = 40 if os.environ.get("STOKER_TORTURE") else 2
TIMEOUT = 120
LINES = 100000


def start(program, directory, pipeline, *options):
    out = open(os.path.join(directory, "out"), "wb")
    return subprocess.Popen([program, "run", "-q", "-e", pipeline, "--no-index-cache", *options], cwd=directory, stdout=out,
                            stderr=subprocess.PIPE)


def change(path, data):
    """Writes over the whole file with one call."""
    fd = os.open(path, os.O_WRONLY)
    assert os.pwrite(fd, data, 0) == len(data)
    os.close(fd)


def race(program, directory, pipeline, after, policy):
    """Runs, changes the files (path: new bytes) once some output is there, and returns exit status, lines and messages."""
    process = start(program, directory, pipeline, "--on-error", policy)
    out = os.path.join(directory, "out")
    while os.path.getsize(out) < 1000 and process.poll() is None:
        time.sleep(0.0005)
    time.sleep(random.uniform(0, 0.02))
    for path, data in after.items():
        change(path, data)
    messages = process.communicate(timeout=TIMEOUT)[1].decode()
    with open(out) as stream:
        return process.returncode, stream.read().split("\n")[:-1], messages


def races(program, directory, pipeline, before, after, whole):
    """whole(line): it is a record of one version. Both policies, each RUNS times."""
    before = {os.path.join(directory, name): data for name, data in before.items()}
    after = {os.path.join(directory, name): data for name, data in after.items()}
    for path, data in before.items():
        assert len(after.get(path, data)) == len(data)
    for policy in ("stop", "skip") * RUNS:
        for path, data in before.items():
            with open(path, "wb") as stream:
                stream.write(data)
        code, lines, messages = race(program, directory, pipeline, after, policy)
        assert code == 0 or (code == 1 and "changed" in messages), (code, messages)
        torn = [line for line in lines if not whole(line)]
        assert not torn, "%s, %s: %d of %d are torn, such as %s" % (pipeline, policy, len(torn), len(lines), torn[0][:200])


def old(pattern):
    return lambda line: re.fullmatch(pattern, line) is not None


# ---- changes ----

def test_lines(program, directory):
    a = "".join("line-%07d-A\n" % i for i in range(LINES)).encode()
    b = "".join("L%d-%s\n" % (i, "B" * (i % 17)) for i in range(2 * LINES)).encode()[:len(a) - 1] + b"\n"
    for order in ("", "shuffle(seed=1) | "):
        races(program, directory, 'text("t") | %sbatch(8) | print' % order, {"t": a}, {"t": b},
              old(r'\{"text":"line-\d{7}-A"\}'))


def test_lines_of_many_files(program, directory):
    a = "".join("line-%07d-A\n" % i for i in range(2000)).encode()
    b = a.replace(b"-", b"\n").replace(b"A", b"B")
    names = ["t%02d" % i for i in range(32)]
    races(program, directory, 'text("t??") | shuffle(seed=1) | batch(8) | print', dict.fromkeys(names, a),
          dict.fromkeys(names[::3], b), old(r'\{"text":"line-\d{7}-A"\}'))


def test_streams(program, directory):
    """A compressed file makes a stream of all of them."""
    a = "".join("line-%07d-A\n" % i for i in range(LINES)).encode()
    b = a.replace(b"-", b"\n").replace(b"A", b"B")
    races(program, directory, 'text("t", "z.gz") | batch(8) | print', {"t": a, "z.gz": gzip.compress(b"line-0000000-A\n")},
          {"t": b}, old(r'\{"text":"line-\d{7}-A"\}'))
    packed = gzip.compress(a, 1)
    races(program, directory, 'text("p.gz") | batch(8) | print', {"p.gz": packed},
          {"p.gz": gzip.compress(b, 1)[:len(packed)].ljust(len(packed), b"x")}, old(r'\{"text":"line-\d{7}-A"\}'))


def test_records(program, directory):
    """Without a check of the data; with it, records that are whole by their CRC are told apart by that."""
    frames = [record(b"%06d-" % i + b"A" * (i % 37)) for i in range(20000)]
    a = b"".join(frames)
    b = a.replace(b"A", b"B")
    for verify in ("false", "true"):
        races(program, directory, 'tfrecord("r", verify=%s) | shuffle(seed=1) | batch(8) | print' % verify, {"r": a}, {"r": b},
              old(r'\{"record":"\d{6}-A*"\}'))


def archive(letter, count):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(count):
            info = tarfile.TarInfo("%06d.txt" % i)
            info.size = 600
            tar.addfile(info, io.BytesIO(letter * 600))
    return out.getvalue()


def test_archives(program, directory):
    races(program, directory, 'webdataset("w.tar", t=bytes(from="txt")) | shuffle(seed=1) | batch(8) | print',
          {"w.tar": archive(b"A", 6000)}, {"w.tar": archive(b"B", 6000)}, old(r'\{"t":"A{600}", "key":"\d{6}"\}'))


def test_pictures(program, directory):
    """A picture has no index: before the change and after it are both whole, half and half is not."""
    os.makedirs(os.path.join(directory, "p", "c"))
    names = ["p/c/%02d.png" % i for i in range(20)]
    races(program, directory, 'image_folder("p") | repeat(3) | batch(2) | print', dict.fromkeys(names, b"A" * 300000),
          dict.fromkeys(names, b"B" * 300000), old(r'\{"image":"(A+|B+)", "label":0, "path":"c/\d\d.png"\}'))


def test_hdf5(program, directory):
    """Rows where they lie, chunks that we decode, and rows that libhdf5 reads."""
    if not h5py:
        return
    path = os.path.join(directory, "h.h5")
    rows = 20000

    def make(letter):
        data = numpy.full((rows, 40), ord(letter), "u1")
        with h5py.File(path, "w", track_order=False) as file:
            file["plain"] = data
            file.create_dataset("chunks", data=data, chunks=(50, 20), fletcher32=False)
            layout = h5py.VirtualLayout(shape=data.shape, dtype="u1")
            layout[:] = h5py.VirtualSource(".", "plain", shape=data.shape)
            file.create_virtual_dataset("virtual", layout)
        with open(path, "rb") as stream:
            return stream.read()

    a, b = make("A"), make("B")
    for dataset in ("plain", "chunks", "virtual"):
        races(program, directory, 'hdf5("h.h5", x="/%s") | shuffle(seed=1, window=8) | batch(8) | print' % dataset,
              {"h.h5": a}, {"h.h5": b}, old(r'\{"x":\[65(, ?65){39}\]\}'))


# ---- no descriptors ----

def limited(program, directory, pipeline, limit, cache):
    def lower():
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    result = subprocess.run([program, "run", "-q", "--digest", "-e", pipeline, "--on-error", "skip", "--cache-dir", cache],
                            cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT,
                            preexec_fn=lower)
    return result.returncode, result.stdout, result.stderr


def test_few_descriptors(program, directory):
    """The right output, or a run that ends: no sample is bad since there was no descriptor."""
    for i in range(24):
        lines = "".join("%d\n" % n for n in range(i * 50, i * 50 + 50)).encode()
        with open(os.path.join(directory, "t-%02d" % i), "wb") as stream:
            stream.write(lines)
        with open(os.path.join(directory, "z-%02d.gz" % i), "wb") as stream:
            stream.write(gzip.compress(lines))
        with open(os.path.join(directory, "r-%02d" % i), "wb") as stream:
            stream.write(b"".join(record(line) for line in lines.split()))
        with open(os.path.join(directory, "w-%02d.tar" % i), "wb") as stream:
            stream.write(archive(b"%c" % (65 + i), 20))
        os.makedirs(os.path.join(directory, "p", "c%d" % (i % 3)), exist_ok=True)
        with open(os.path.join(directory, "p", "c%d" % (i % 3), "%d.png" % i), "wb") as stream:
            stream.write(lines)
        if h5py:
            with h5py.File(os.path.join(directory, "h-%02d.h5" % i), "w") as file:
                file.create_dataset("x", data=numpy.arange(i, i + 100), chunks=(10,), compression="gzip")
                file["s"] = numpy.array(["s%d" % n for n in range(100)], dtype=object)
    pipelines = ['tfrecord("r-*") | shuffle(seed=1) | batch(16)', 'text("t-*") | shuffle(seed=1) | batch(16)',
                 'text("z-*") | batch(16)', 'text("z-*") | interleave(cycle=12) | batch(16)',
                 'webdataset("w-*.tar", t=bytes(from="txt")) | shuffle(seed=1) | batch(16)',
                 'image_folder("p") | shuffle(seed=1) | batch(4)']
    if h5py:
        pipelines.append('hdf5("h-*.h5") | shuffle(seed=1) | batch(16)')
    for pipeline in pipelines:
        code, digest, messages = limited(program, directory, pipeline, 1024, "index")
        assert code == 0 and "digest" in digest, messages
        refused = 0
        for limit in (6, 8, 10, 13, 40):
            for cache in ("index", "index-%d" % limit):
                code, out, messages = limited(program, directory, pipeline, limit, cache)
                if code == 0:
                    assert out == digest, (pipeline, limit, out, messages)
                else:
                    refused += 1
                    assert code == 1 and "oo many open files" in messages, (pipeline, limit, code, messages)
        # Streams hold theirs for long, and the program that reads HDF5 has a few of its own.
        assert refused == 0 or "interleave" in pipeline or "hdf5" in pipeline, (pipeline, refused, messages)


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, program, directory: test(program, directory)))
