#!/usr/bin/env python3
"""Cache files under attack: data changed in place, two processes, two containers, planted links, kill -9, damage.

Usage: python3 tests/python/test_cache_files.py BUILD_DIR
Needs numpy, h5py and Pillow, which also write and judge the data. Exit status 77 when they are missing.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import runlib

try:
    import h5py
    import numpy
    from PIL import Image
except ImportError:
    print("needs numpy, h5py and Pillow")
    sys.exit(77)

TIMEOUT = 120


class Program:
    def __init__(self, path, directory):
        self.path, self.directory = path, directory

    def command(self, text, *options):
        return [self.path, "run", "--json", "--digest", "--cache-dir", os.path.join(self.directory, ".index"), "-e", text, *options]

    def start(self, text, *options, before=()):
        return subprocess.Popen([*before, *self.command(text, *options)], cwd=self.directory, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def end(self, process, status=0, told=False):
        out, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == status, (process.returncode, out, err)
        if told:
            return err
        return json.loads(out) if status == 0 else err

    def run(self, text, *options, status=0):
        return self.end(self.start(text, *options), status)

    def visible(self):
        return sorted(n for n in os.listdir(self.directory) if not n.startswith("."))

    def hidden(self):
        return [n for n in os.listdir(self.directory) if n.endswith(".stk-tmp")]

    def join(self, *names):
        return os.path.join(self.directory, *names)


def differs(p, cached, plain):
    """Whether the run used a cache file; what it gave must be what the one without a cache gives."""
    a, b = p.run(cached), p.run(plain)
    assert a["digest"] == b["digest"], (cached, a, b)
    return a["cache_hits"] > 0


def test_hdf5_changed_in_place(p):
    with h5py.File(p.join("d.h5"), "w") as f:
        f["x"] = numpy.arange(200000, dtype="float32").reshape(20000, 10)
        f["y"] = numpy.zeros(20000, "int64")
    plain, cached = 'hdf5("d.h5") | batch(64)', 'hdf5("d.h5") | cache("c") | batch(64)'
    assert not differs(p, cached, plain)
    assert differs(p, cached, plain)
    size = os.path.getsize(p.join("d.h5"))
    with h5py.File(p.join("d.h5"), "r+") as f:
        f["y"][4000:6000] = 1
    assert os.path.getsize(p.join("d.h5")) == size
    assert not differs(p, cached, plain)
    assert differs(p, cached, plain)


def test_hdf5_files_behind_a_virtual_dataset(p):
    for k in range(2):
        with h5py.File(p.join("part%d.h5" % k), "w") as f:
            f["x"] = numpy.arange(3000, dtype="int64") + 3000 * k
    layout = h5py.VirtualLayout((6000,), dtype="int64")
    for k in range(2):
        layout[3000 * k:3000 * (k + 1)] = h5py.VirtualSource("part%d.h5" % k, "x", (3000,))
    with h5py.File(p.join("all.h5"), "w") as f:
        f.create_virtual_dataset("x", layout)
        space = numpy.arange(500, dtype="<i8")
        space.tofile(p.join("raw.bin"))
    with h5py.File(p.join("outside.h5"), "w") as f:
        f.create_dataset("x", (500,), "<i8", external=[(p.join("raw.bin"), 0, 4000)])
    for name, change in (("all", lambda: h5py.File(p.join("part1.h5"), "r+")["x"].__setitem__(slice(700, 900), -1)),
                         ("outside", lambda: numpy.full(500, 7, "<i8").tofile(p.join("raw.bin")))):
        plain, cached = 'hdf5("%s.h5") | batch(64)' % name, 'hdf5("%s.h5") | cache("c-%s") | batch(64)' % (name, name)
        assert not differs(p, cached, plain)
        change()
        assert not differs(p, cached, plain), name


def pictures(p, count=12):
    for k in range(count):
        os.makedirs(p.join("pf", "c%d" % (k % 2)), exist_ok=True)
        pixels = numpy.random.default_rng(k).integers(0, 255, (40, 40, 3), dtype="uint8")
        Image.fromarray(pixels).save(p.join("pf", "c%d" % (k % 2), "%04d.png" % k))


def test_picture_replaced_under_its_name(p):
    pictures(p)
    plain = 'image_folder("pf") | decode_image(image) | batch(4)'
    cached = 'image_folder("pf") | decode_image(image) | cache("c") | batch(4)'
    assert not differs(p, cached, plain)
    assert differs(p, cached, plain)
    one = p.join("pf", "c1", "0001.png")
    Image.fromarray(numpy.zeros((40, 40, 3), "uint8")).save(one)
    assert not differs(p, cached, plain)
    # Pixels without compression, so that another colour has as many bytes; and the old time, so that only ctime tells.
    bmp = p.join("pf", "c1", "0100.bmp")
    Image.fromarray(numpy.full((40, 40, 3), 9, "uint8")).save(bmp)
    assert not differs(p, cached, plain)
    assert differs(p, cached, plain)
    before = os.stat(bmp)
    Image.fromarray(numpy.full((40, 40, 3), 10, "uint8")).save(bmp)
    os.utime(bmp, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(bmp).st_size == before.st_size and os.stat(bmp).st_mtime_ns == before.st_mtime_ns
    assert not differs(p, cached, plain)


def test_resume_over_other_pictures_is_refused(p):
    pictures(p)
    text = 'image_folder("pf") | decode_image(image) | batch(2)'
    p.run(text, "--steps", "3", "--checkpoint", "run.ck")
    assert "since the checkpoint" not in p.end(p.start(text, "--resume", "run.ck"), told=True)
    os.utime(p.join("pf", "c1", "0001.png"))
    assert "since the checkpoint" in p.end(p.start(text, "--resume", "run.ck"), told=True)
    shutil.copyfile(p.join("pf", "c0", "0000.png"), p.join("pf", "c1", "0001.png"))
    assert "of other data" in p.run(text, "--resume", "run.ck", status=4)


def test_two_processes_at_once(p):
    text = 'range(200000) | filter("value % 7 != 3") | cache("c") | batch(50)'
    wanted = p.run('range(200000) | filter("value % 7 != 3") | batch(50)')["digest"]
    for _ in range(3):
        if os.path.exists(p.join("c")):
            os.unlink(p.join("c"))
        for process in [p.start(text) for _ in range(3)]:
            assert p.end(process)["digest"] == wanted
        after = p.run(text)
        assert after["digest"] == wanted and after["cache_misses"] == 0 and after["cache_damaged"] == 0
        assert p.visible() == ["c"] and not p.hidden()


def test_process_takes_over_what_another_published(p):
    text = 'range(4000) | cache("c") | batch(10)'
    slow = p.start(text, "--step-time", "10ms", "--threads", "1", "--memory", "1M")
    time.sleep(0.3)
    fast = p.run(text)
    stamp = os.stat(p.join("c")).st_ino
    first = p.end(slow)
    assert first["digest"] == fast["digest"]
    assert first["cache_hits"] > 0, first
    assert os.stat(p.join("c")).st_ino == stamp  # and did not publish its own over it


def containers():
    """How to run a program as process 1 of its own; None where that is not allowed."""
    for before in (["unshare", "--pid", "--fork"], ["unshare", "--user", "--map-root-user", "--pid", "--fork"]):
        if shutil.which("unshare") and subprocess.run([*before, "true"], capture_output=True).returncode == 0:
            return before
    return None


def test_two_containers_at_once(p):
    before = containers()
    if not before:
        print("test_two_containers_at_once: skipped, unshare --pid is not permitted here")
        return
    text = 'range(100000) | cache("c") | batch(50)'
    wanted = p.run('range(100000) | batch(50)')["digest"]
    for _ in range(3):
        if os.path.exists(p.join("c")):
            os.unlink(p.join("c"))
        for process in [p.start(text, before=before) for _ in range(2)]:
            assert p.end(process)["digest"] == wanted
        after = p.run(text)
        assert after["digest"] == wanted and after["cache_misses"] == 0 and after["cache_damaged"] == 0


def test_planted_links_are_not_followed(p):
    before = containers() or []
    with open(p.join("victim.txt"), "w") as f:
        f.write("mine")
    for name in ("c.tmp-1", "c.tmp-1-0", "c.tmp-2", ".c.tmp-1"):
        os.symlink("victim.txt", p.join(name))
    p.end(p.start('range(1000) | cache("c") | batch(10)', before=before))
    assert open(p.join("victim.txt")).read() == "mine"
    assert not os.path.islink(p.join("c"))
    assert p.run('range(1000) | cache("c") | batch(10)')["cache_hits"] == 1000


def test_killed_runs_leave_nothing_and_the_next_sweeps(p):
    text = 'range(2000000) | cache("c") | batch(50)'
    for k in range(6):
        process = p.start(text, "--step-time", "1ms")
        limit = time.time() + 30
        while not p.hidden() and time.time() < limit:
            time.sleep(0.005)
        time.sleep(0.02 * k)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert p.visible() == []
    assert p.hidden()
    p.run('range(1000) | cache("d") | batch(10)')
    assert p.visible() == ["d"] and not p.hidden()


def test_damage_gives_the_right_digest(p):
    text = 'range(20000) | cache("c") | batch(50)'
    wanted = p.run(text)["digest"]
    good = open(p.join("c"), "rb").read()
    for at in (17, 1000, len(good) // 4):
        for policy in ("stop", "skip"):
            data = bytearray(good)
            for k in range(0, 4000, 200):
                data[at + k] ^= 0x40
            with open(p.join("c"), "wb") as f:
                f.write(data)
            got = p.run(text, "--on-error", policy)
            assert got["digest"] == wanted and got["cache_damaged"] > 0 and got["skipped"] == 0, got
            assert p.run(text)["cache_damaged"] == 0  # it was replaced by a sound one


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, program, directory: test(Program(program, directory))))
