#!/usr/bin/env python3
"""Names in files that steer terminals or turn text around, through every command that prints them.

Usage: test_hostile_text.py BUILD_DIR. What is printed for people has none of those characters, on a terminal and in a pipe;
JSON has them as \\u escapes, CSV and lists as they are.
"""
import io
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest

try:
    import h5py
    import numpy
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

EVIL = "a\x1b[31m\u009b5m\u202eb\u2066c\u200b\u2028d\ufeff\U000e0041e"
EVIL_LINE = EVIL + "\nf\x7fg"
FORBIDDEN = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u061c", "\u180e", "\u200b", "\u200e", "\u200f", "\ufeff",
             *map(chr, range(0x2028, 0x202F)), *map(chr, range(0x2060, 0x2070)), *map(chr, range(0xE0000, 0xE0080))} - {"\n"}


def masked_crc(data):
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def field(number, data):
    assert len(data) < 2**14
    size = bytes([len(data)]) if len(data) < 128 else bytes([len(data) & 127 | 128, len(data) >> 7])
    return bytes([number << 3 | 2]) + size + data


def write_tfrecord(path):
    """One Example whose features have such names."""
    entries = b"".join(field(1, field(1, name.encode()) + field(2, field(3, field(1, b"\x05"))))
                       for name in (EVIL, EVIL_LINE, "good"))
    record = field(1, entries)
    with open(path, "wb") as out:
        for _ in range(3):
            head = struct.pack("<Q", len(record))
            out.write(head + masked_crc(head) + record + masked_crc(record))


def write_tar(path):
    with tarfile.open(path, "w") as out:
        for key in ("one", "two", EVIL):
            for ending in ("txt", "x" + EVIL):
                member = tarfile.TarInfo(f"{key}.{ending}")
                member.size = 4
                out.addfile(member, io.BytesIO(b"data"))


def write_hdf5(path):
    with h5py.File(path, "w") as out:
        for name in (EVIL, EVIL_LINE, "good"):
            data = out.create_dataset(name, data=numpy.arange(8))
            data.attrs[EVIL] = EVIL_LINE
            data.attrs["units"] = EVIL


def write_trace(path, factor):
    events = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": EVIL_LINE}},
              {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": EVIL}}]
    for i in range(60):
        events.append({"ph": "X", "name": f"ProfilerStep#{i}", "cat": EVIL, "pid": 1, "tid": 1, "ts": 1000 * i, "dur": 900})
        events.append({"ph": "X", "name": EVIL_LINE, "cat": EVIL, "pid": 1, "tid": 1, "ts": 1000 * i + 10,
                       "dur": 300 * factor, "args": {EVIL: EVIL}})
        events.append({"ph": "X", "name": EVIL + " DataLoader.__next__", "cat": EVIL, "pid": 1, "tid": 1, "ts": 1000 * i + 700,
                       "dur": 100})
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"traceEvents": events}, out)


def write_bench(path, factor):
    result = {"command": EVIL_LINE, "mean": factor, "stddev": 0.1, "median": factor, "user": 1, "system": 0, "min": factor,
              "max": factor, "times": [factor + 0.01 * i for i in range(20)], "exit_codes": [0] * 20,
              "parameters": {EVIL: EVIL}}
    other = {**result, "command": "b" + EVIL, "times": [2 * t for t in result["times"]]}
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"results": [result, other]}, out)


class HostileText(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stoker = os.path.join(BUILD, "stoker")
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        write_tfrecord(cls.at("a.tfrecord"))
        write_tar(cls.at("a.tar"))
        write_hdf5(cls.at("a.h5"))
        write_trace(cls.at("a.json"), 1)
        write_trace(cls.at("b.json"), 1.5)
        write_bench(cls.at("x.json"), 1)
        write_bench(cls.at("y.json"), 2)
        with open(cls.at("a.txt"), "w", encoding="utf-8") as out:
            out.write(f"{EVIL}\n" * 5)
        shutil.copy(cls.at("a.tfrecord"), cls.at(EVIL + ".tfrecord"))
        with open(cls.at("bad.stoker"), "w", encoding="utf-8") as out:
            out.write(f'range(10) | {EVIL}(1) | batch(2)')
        with open(cls.at("text.stoker"), "w", encoding="utf-8") as out:
            out.write(f'text("{cls.at("a.txt")}") | rename(a{EVIL}=text)')
        os.mkdir(cls.at("pictures"))
        os.mkdir(cls.at("pictures/" + EVIL))
        with open(cls.at("pictures/" + EVIL + "/a.png"), "wb") as out:
            out.write(b"no picture")

    @classmethod
    def at(cls, name):
        return os.path.join(cls.folder, name)

    def commands(self):
        """Arguments of what prints for people."""
        at = self.at
        trace, other, sql = at("a.json"), at("b.json"), "select name, category, ts from slice limit 5"
        yield from (["inspect", at(name)] for name in ("a.tfrecord", "a.tar", "a.h5", "a.txt", EVIL + ".tfrecord", "pictures"))
        yield from (["inspect", "--verify", at(name)] for name in ("a.tfrecord", "a.tar", "a.h5", "pictures"))
        yield from (["top", trace, "--no-cache", "--by", by] for by in ("name", "category", "thread", "process", "step"))
        yield ["top", trace, "--no-cache", "--callers", EVIL_LINE]
        yield ["sql", trace, "--no-cache", "-q", sql]
        yield ["sql", trace, "--no-cache", "-q", f"select '{EVIL}' as \"{EVIL}\""]
        yield ["sql", trace, "--no-cache", "-q", f"select {EVIL} from slice"]
        yield ["diagnose", trace, "--no-cache"]
        yield ["diff", trace, other, "--no-cache"]
        yield ["diff", trace, other, "--no-cache", "--by", "category"]
        yield ["merge", trace, other, "--no-cache", "-o", at("merged.json"), "--force"]
        yield ["convert", trace, "--no-cache", "-o", at("out.pftrace"), "--force"]
        yield ["export", trace, "--no-cache", "--to", "csv", at("exported"), "--force"]
        yield ["bench", "compare", at("x.json"), at("y.json")]
        yield ["bench", "compare", at("x.json")]
        yield ["bench", "history", at(EVIL)]
        yield ["plan", at("bad.stoker")]
        yield ["plan", at("text.stoker")]
        yield ["plan", "-e", f'tfrecord("{at(EVIL)}.tfrecord") | batch(2)']
        yield ["plan", "-e", f'hdf5("{at("a.h5")}", fields="{EVIL}") | batch(2)']
        yield ["run", "-e", f'tfrecord("{at("a.tfrecord")}") | parse(none=int64[]) | batch(2)']
        yield ["run", "-e", f'image_folder("{at("pictures")}") | decode_image | batch(2)', "--no-index-cache"]
        yield ["run", "-e", f'webdataset("{at("a.tar")}") | decode_image("{EVIL}") | batch(2)', "--no-index-cache"]
        yield ["run", "-e", f'text("{at(EVIL)}") | batch(2)']
        yield ["run", "-e", "range(3)", f"--{EVIL}"]
        yield ["ops", EVIL]
        yield [EVIL]
        yield ["help", EVIL]

    def check(self, text, arguments, allowed=""):
        found = {hex(ord(c)) for c in text.decode("utf-8", "surrogateescape")
                 if (c in FORBIDDEN or "\udc80" <= c <= "\udcff") and c not in allowed}
        self.assertEqual(found, set(), (arguments, text[-2000:]))

    def test_pipes(self):
        shown = 0
        for arguments in self.commands():
            with self.subTest(arguments):
                done = subprocess.run([self.stoker, *arguments], capture_output=True, stdin=subprocess.DEVNULL)
                self.assertIn(done.returncode, (0, 1, 2), done)
                self.check(done.stdout, arguments)
                self.check(done.stderr, arguments)
                shown += b"\\xc2\\x9b" in done.stdout + done.stderr
        self.assertGreater(shown, 30)  # most of them do have something to tell

    def test_terminals(self):
        for arguments in self.commands():
            with self.subTest(arguments):
                main, side = pty.openpty()
                run = subprocess.Popen([self.stoker, *arguments], stdout=side, stderr=side, stdin=subprocess.DEVNULL)
                os.close(side)
                text = b""
                try:
                    while True:
                        text += os.read(main, 65536)
                except OSError:  # the other side is closed
                    pass
                os.close(main)
                run.wait()
                # The live line, which is our own.
                self.check(text.replace(b"\r\n", b"\n").replace(b"\r\x1b[K", b"").replace(b"\x1b[K", b""), arguments, "\r")

    def test_json_has_them_escaped(self):
        at = self.at
        for arguments in (["top", at("a.json"), "--no-cache", "--json"], ["diagnose", at("a.json"), "--no-cache", "--json"],
                          ["sql", at("a.json"), "--no-cache", "--json", "-q", "select name, category from slice"],
                          ["diff", at("a.json"), at("b.json"), "--no-cache", "--json"],
                          ["inspect", "--json", at("a.tfrecord")], ["inspect", "--json", at("a.h5")],
                          ["inspect", "--json", at("a.tar")], ["bench", "compare", "--json", at("x.json"), at("y.json")],
                          ["run", "-q", "-e", f'text("{at("a.txt")}") | print', "--no-index-cache"],
                          ["plan", "--json", "-e", f'tfrecord("{at(EVIL)}.tfrecord") | batch(2)']):
            with self.subTest(arguments):
                done = subprocess.run([self.stoker, *arguments], capture_output=True)
                self.check(done.stdout, arguments)
                self.assertIn(EVIL[-1], done.stdout.decode())
                if arguments[0] == "run":
                    self.assertEqual(json.loads(done.stdout.splitlines()[0])["text"], EVIL)
                elif arguments[0] == "sql":
                    self.assertIn(EVIL_LINE, {row["name"] for row in json.loads(done.stdout)})


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
