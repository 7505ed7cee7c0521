#!/usr/bin/env python3
"""Feeds the program damaged data, failing disks and wrong pipelines: every record is accounted for, every error has its place.

Usage: python3 tests/python/test_bad_input.py BUILD_DIR
Standard library only. Prints "N passed, N failed"; the exit status is 1 when a test failed.
"""
import concurrent.futures
import ctypes
import gzip
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib

TIMEOUT = 60  # a hang is a failure; sanitizers are slow


# ---- files ----

def crc_table():
    table = []
    for i in range(256):
        crc = i
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
        table.append(crc)
    return table


CRC_TABLE = crc_table()


def masked_crc(data):
    crc = 0xffffffff
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xff] ^ crc >> 8
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def record(data, length=None):
    head = struct.pack("<Q", len(data) if length is None else length)
    return head + struct.pack("<I", masked_crc(head)) + data + struct.pack("<I", masked_crc(data))


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def delimited(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def ints(*values):
    return delimited(3, delimited(1, b"".join(varint(v) for v in values)))


def floats(*values):
    return delimited(2, delimited(1, struct.pack("<%df" % len(values), *values)))


def strings(*values):
    return delimited(1, b"".join(delimited(1, v) for v in values))


def feature(name, data):
    return delimited(1, delimited(1, name) + delimited(2, data))


def example(**features):
    return delimited(1, b"".join(feature(k.encode(), v) for k, v in features.items()))


def numbered(n, start=0):
    """Examples whose feature x is their number."""
    return [example(x=ints(start + i)) for i in range(n)]


def write(path, data):
    with open(path, "wb") as stream:
        stream.write(data)


def write_records(path, records):
    write(path, b"".join(record(r) for r in records))


# ---- running ----

class Result:
    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout.decode("utf-8", "replace")
        self.err = done.stderr.decode("utf-8", "replace")
        lines = self.out.splitlines()
        self.json = json.loads(lines.pop()) if lines and lines[-1].startswith('{"end":') else None
        self.samples = lines

    def values(self, name="x"):
        return [json.loads(line)[name] for line in self.samples]


def run(program, pipeline, *options, expect=None, cwd=None, limit=None, command="run"):
    """Runs a pipeline. A crash, a hang or a report of a sanitizer fails the test whatever was expected."""
    text = [pipeline] if os.path.isabs(pipeline) and os.path.exists(pipeline) else ["-e", pipeline]
    more = ["--quiet", "--no-index-cache"] if command == "run" else []
    if "--cache-dir" in options:
        more.remove("--no-index-cache")
    done = subprocess.run([program, command] + text + more + list(options), cwd=cwd, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=TIMEOUT, preexec_fn=limit, check=False)
    result = Result(done)
    what = "%s %s: exit %d: %s" % (pipeline[:300], " ".join(options), result.code, result.err[-2000:])
    assert result.code >= 0 and "Sanitizer" not in result.err and "runtime error" not in result.err, what
    if expect is not None:
        assert result.code == expect, what
    return result


def wanted(result, *words):
    for word in words:
        assert word in result.err, "wanted %r in %r" % (word, result.err)


def skipped(program, pipeline, *options, **more):
    return run(program, pipeline, "--json", "--on-error", "skip", *options, expect=0, **more)


def parallel(jobs):
    """Runs functions four at a time; the first failure is raised."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(job) for job in jobs]:
            future.result()


class Folder:
    """A directory of its own for a test; `path` names a file in it."""

    def __enter__(self):
        self.name = tempfile.mkdtemp(prefix="stoker-bad-")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.name, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.name, name)


def literal(value):
    return json.dumps(value, ensure_ascii=False)


def source(*paths, **options):
    more = "".join(", %s=%s" % (k, literal(v)) for k, v in options.items())
    return "tfrecord([%s]%s)" % (", ".join(literal(p) for p in paths), more)


def parse(*paths, **options):
    return source(*paths, **options) + " | parse(x=int64) | print"


# ---- framing ----

SMALL = numbered(3)


def check_cut(program, folder, size, whole):
    path = folder.path("cut-%d" % size)
    frames = [record(r) for r in SMALL]
    complete = sum(sum(map(len, frames[:k + 1])) <= size for k in range(3))
    rest = size - sum(map(len, frames[:complete]))
    write(path, whole[:size])
    result = skipped(program, parse(path))
    assert result.values() == list(range(complete)), (size, result.values())
    assert (result.json["skipped"], result.json["lost_bytes"]) == (int(rest > 0), rest), (size, result.json)
    stopped = run(program, parse(path))
    assert stopped.code == int(rest > 0), (size, stopped.code)
    if rest:
        wanted(stopped, path, "record %d at offset %d" % (complete, size - rest),
               "file ends inside a record" + (" header: %d bytes are left, wanted 12" % rest if rest < 12 else ""))


def test_file_cut_at_every_byte(program):
    whole = b"".join(record(r) for r in SMALL)
    with Folder() as folder:
        parallel([lambda n=n: check_cut(program, folder, n, whole) for n in range(len(whole) + 1)])


def check_flip(program, folder, bit, frames):
    whole = bytearray(b"".join(frames))
    whole[bit // 8] ^= 1 << bit % 8
    size = len(frames[0])
    at, inside = divmod(bit // 8, size)
    path = folder.path("flip-%d" % bit)
    write(path, whole)
    good = [i for i in range(3) if i != at]
    result = skipped(program, parse(path))
    assert result.values() == good, (bit, result.values())
    lost = size if inside < 12 else 0
    assert (result.json["skipped"], result.json["lost_bytes"]) == (1, lost), (bit, result.json)
    if bit % 5 == 0:
        stopped = run(program, parse(path), expect=1)
        wanted(stopped, path, "record %d at offset %d: tfrecord: " % (at, at * size), ", wanted 0x",
               "length CRC is 0x" if lost else "data CRC of %d bytes is 0x" % (size - 16))


def test_every_bit_of_a_plain_file(program):
    frames = [record(r) for r in SMALL]
    assert len({len(f) for f in frames}) == 1
    with Folder() as folder:
        parallel([lambda b=b: check_flip(program, folder, b, frames) for b in range(8 * sum(map(len, frames)))])


def check_packed(program, path, where):
    """What comes out of a damaged compressed file is true and in order, and what is missing was counted."""
    result = run(program, parse(path), "--json", "--on-error", "skip")
    if result.code == 1:
        wanted(result, path, "is no TFRecord file")
        return None
    assert result.code == 0, (where, result.err)
    found, bad = result.values(), result.json["skipped"]
    assert found == sorted(set(found)) and set(found) <= {0, 1, 2}, (where, found)
    assert len(found) == 3 or bad > 0 or os.path.getsize(path) == 0, (where, found, bad)
    return len(found), bad


def check_packed_flip(program, folder, bit, packed, name):
    damaged = bytearray(packed)
    damaged[bit // 8] ^= 1 << bit % 8
    path = folder.path("%s-flip-%d" % (name, bit))
    write(path, damaged)
    check_packed(program, path, (name, "bit", bit))


def check_packed_cut(program, folder, size, packed, name):
    path = folder.path("%s-cut-%d" % (name, size))
    write(path, packed[:size])
    found = check_packed(program, path, (name, "cut", size))
    assert size == 0 or found is None or found[1] == 1, (name, size, found)
    if size > 2 and found:
        stopped = run(program, parse(path), expect=1)
        wanted(stopped, path, "record %d at offset " % found[0], "data ends early: the file has only %d bytes" % size)


def test_every_bit_and_cut_of_compressed_files(program):
    whole = b"".join(record(r) for r in SMALL)
    kinds = {"gzip": gzip.compress(whole, mtime=0), "zlib": zlib.compress(whole)}
    with Folder() as folder:
        parallel([lambda n=n, k=k, p=p: check_packed_cut(program, folder, n, p, k)
                  for k, p in kinds.items() for n in range(len(p))])
        parallel([lambda b=b: check_packed_flip(program, folder, b, kinds["gzip"], "gzip")
                  for b in range(8 * len(kinds["gzip"]))])
        parallel([lambda b=b: check_packed_flip(program, folder, b, kinds["zlib"], "zlib")
                  for b in range(0, 8 * len(kinds["zlib"]), 3)])


def test_gzip_members(program):
    frames = [record(r) for r in SMALL]
    with Folder() as folder:
        path = folder.path("two.gz")
        cut = len(frames[0]) + 5  # a record may reach from one member into the next
        whole = b"".join(frames)
        write(path, gzip.compress(whole[:cut]) + gzip.compress(whole[cut:]))
        assert run(program, parse(path), expect=0).values() == [0, 1, 2]
        first = gzip.compress(whole)
        cases = {
            b"garbage": ("garbage after the gzip data, from stored byte %d: found 0x67" % len(first), 3),
            b"\x1f\x8b\x07\x00\x00\x00\x00\x00\x00\x00": ("unknown compression method", 3),
            b"\x1f": ("gzip data ends early", 3),
        }
        for tail, (message, count) in cases.items():
            write(path, first + tail)
            wanted(run(program, parse(path), expect=1), path, "record 3 at offset %d" % len(whole), message)
            result = skipped(program, parse(path))
            assert result.values() == list(range(count)) and result.json["skipped"] == 1, result.out
        bad = bytearray(first)
        bad[-5] ^= 1  # the CRC of the member
        write(path, bad)
        wanted(run(program, parse(path), expect=1), path, "incorrect data check")
        result = skipped(program, parse(path))
        assert len(result.values()) == 3 and result.json["skipped"] == 1, result.out


def test_absurd_lengths(program):
    good = numbered(4)
    for length in (2**63, 2**64 - 1, 2**63 - 1, 2**62, 2**32):
        with Folder() as folder:
            for packed in (False, True):
                path = folder.path("long")
                data = record(good[0]) + record(good[1], length=length) + record(good[2]) + record(good[3])
                write(path, gzip.compress(data) if packed else data)
                stopped = run(program, parse(path), "--memory", "64M", expect=1)
                wanted(stopped, path, "record 1 at offset %d" % len(record(good[0])))
                assert str(length) in stopped.err or str(length + 4) in stopped.err, stopped.err
                result = skipped(program, parse(path), "--memory", "64M")
                if packed:  # the rest of the file is the record's data
                    assert result.values() == [0] and result.json["skipped"] == 1, result.out
                else:
                    assert result.values() == [0, 2, 3] and result.json["skipped"] == 1, result.out
                    assert result.json["lost_bytes"] == len(record(good[1])), result.json


def test_empty_files_hold_nothing(program):
    with Folder() as folder:
        names = [folder.path(n) for n in ("a", "b.gz", "c")]
        write(names[0], b"")
        write(names[1], gzip.compress(b""))
        write_records(names[2], SMALL)
        for files, count in ((names[:1], 0), (names[1:2], 0), (names, 3), (names[:1] + names[2:], 3)):
            result = run(program, parse(*files), "--json", expect=0)
            assert len(result.values()) == count and result.json["skipped"] == 0, result.out
        result = run(program, "text(%s) | print" % literal(names[0]), "--json", expect=0)
        assert result.json["samples"] == 0


def test_files_that_are_no_tfrecord(program):
    contents = {"text": b"label,weight\n" * 50, "png": b"\x89PNG\r\n\x1a\n" + bytes(100), "zeros": bytes(4096),
                "json": b'{"a": 1}' * 20, "ones": b"\xff" * 64}
    with Folder() as folder:
        good = folder.path("good")
        write_records(good, SMALL)
        for name, data in contents.items():
            path = folder.path(name)
            write(path, data)
            stopped = run(program, parse(path), expect=1)
            wanted(stopped, path, "offset 0", "is no TFRecord file: it begins with " + data[:8].hex(" "))
            wanted(run(program, parse(good, path), expect=1), path, "is no TFRecord file")
            listed = folder.path("list")
            result = run(program, parse(good, path), "--json", "--on-error", "quarantine=" + listed, expect=0)
            assert result.values() == [0, 1, 2] and result.json["quarantined"] == 1, result.out
            assert entries(listed)[0]["file"] == path
        for name in ("", "1", "eleven bytes"[:11]):  # too short to look like anything
            write(folder.path("short"), name.encode())
            result = run(program, parse(folder.path("short")), "--on-error", "skip", "--json", expect=0)
            assert result.json["skipped"] == int(bool(name)) and result.json["lost_bytes"] == len(name)


# ---- records ----

def entries(path):
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    assert not text or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


BAD_EXAMPLES = [
    # what, record, feature named, words of the message
    ("missing", example(y=ints(1)), "x", "is missing, wanted 1 value"),
    ("no features", b"", "x", "is missing"),
    ("float", example(x=floats(1.5)), "x", "is float, wanted int64"),
    ("bytes", example(x=strings(b"1")), "x", "is bytes, 1 of them, wanted int64 values, or 8 bytes that hold them raw"),
    ("two values", example(x=ints(1, 2)), "x", "has 2 values, wanted 1"),
    ("no value", example(x=ints()), "x", "has 0 values, wanted 1"),
    ("cut length", b"\x0a\xff", "", "length"),
    ("cut message", delimited(1, feature(b"x", ints(1)))[:-3], "", ""),
    ("overlong tag", b"\xff" * 11 + b"\x01", "", ""),
    ("overlong value", example(x=delimited(3, delimited(1, b"\xff" * 10 + b"\x01"))), "x", ""),
    ("open varint", example(x=delimited(3, delimited(1, b"\xff\xff"))), "x", ""),
    ("wire type 7", b"\x0f", "", ""),
    ("group", b"\x0b\x0c", "", ""),
    ("features as varint", b"\x08\x01", "", ""),
    ("feature as fixed64", delimited(1, delimited(1, delimited(1, b"x") + b"\x11" + bytes(8))), "", ""),
    ("list as varint", delimited(1, feature(b"x", b"\x18\x05")), "", ""),
    ("values as fixed32", example(x=delimited(3, b"\x0d" + bytes(4))), "x", ""),
    ("length past the end", b"\x0a\x7f\x0a", "", ""),
    ("length of 2^63", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "", ""),
    ("deep", b"\x0a\x02" * 400, "", ""),
    ("field 0", b"\x02\x00", "", ""),
    ("random", bytes((i * 37 + 11) & 255 for i in range(200)), "", ""),
]


def test_bad_examples(program):
    with Folder() as folder:
        for packed in (False, True):
            path, listed = folder.path("bad.gz" if packed else "bad"), folder.path("list")
            records = []
            for i, (_, data, _, _) in enumerate(BAD_EXAMPLES):
                records += [example(x=ints(i)), data]
            whole = b"".join(record(r) for r in records)
            write(path, gzip.compress(whole) if packed else whole)
            result = run(program, parse(path), "--json", "--on-error", "quarantine=" + listed, expect=0)
            count = len(BAD_EXAMPLES)
            assert result.values() == list(range(count)), result.values()
            assert result.json["skipped"] == result.json["quarantined"] == count, result.json
            offset = 0
            found = entries(listed)
            assert len(found) == count
            for i, (what, data, name, message) in enumerate(BAD_EXAMPLES):
                offset += len(record(records[2 * i]))
                entry = found[i]
                assert (entry["file"], entry["record"], entry["offset"], entry["bytes"], entry["op"]) == \
                    (path, 2 * i + 1, offset, len(data), "parse"), (what, entry)
                assert name in ("", entry["field"]) and message in entry["error"] and entry["error"], (what, entry)
                offset += len(record(data))


def test_bad_examples_stop_with_their_place(program):
    with Folder() as folder:
        jobs = []
        for i, (what, data, name, message) in enumerate(BAD_EXAMPLES):
            path = folder.path("%d" % i)
            write_records(path, SMALL + [data])

            def job(path=path, name=name, message=message, offset=sum(len(record(r)) for r in SMALL)):
                stopped = run(program, parse(path), expect=1)
                wanted(stopped, path + ": record 3 at offset %d: parse: " % offset, message,
                       "field '%s'" % name if name else "")
            jobs.append(job)
        parallel(jobs)


def test_shapes_counts_and_sequences(program):
    records = [example(f=floats(1, 2, 3, 4), i=ints(7), b=strings(b"a", b"bc"))]
    cases = [
        ("f=float32[3]", "field 'f': has 4 values, wanted 3"),
        ("f=float32[2,3]", "field 'f': has 4 values, wanted 6"),
        ("f=float32[,3]", "field 'f': has 4 values, wanted a multiple of 3"),
        ("f=int64[4]", "field 'f': is float, wanted int64"),
        ("b=bytes", "field 'b': has 2 values, wanted 1"),
        ("b=float32[2]", "field 'b': is bytes, 2 values, wanted float32 values"),
        ("z=bytes[2]", "field 'z': is missing, wanted 2 values"),
        ('z=int64(from="i/j")', "field 'i/j': is missing"),
        ("f=float32[4], i=int64, s=int64(sequence=true), q=float32", "field 'q': is missing"),
    ]
    with Folder() as folder:
        path = folder.path("r")
        write_records(path, records)
        for fields, message in cases:
            stopped = run(program, "%s | parse(%s)" % (source(path), fields), expect=1)
            wanted(stopped, path + ": record 0 at offset 0: parse: " + message)


def test_max_errors(program):
    with Folder() as folder:
        path = folder.path("r")
        write_records(path, [d for i in range(6) for d in (example(x=ints(i)), example(y=ints(i)))])
        for limit, code in ((5, 1), (6, 0), (7, 0), (0, 0)):
            result = run(program, parse(path), "--json", "--on-error", "skip", "--max-errors", str(limit), expect=code)
            if code:
                wanted(result, path, "record 11 at offset", "more than 5 bad records; the last: is missing, wanted 1 value")
            else:
                assert result.json["skipped"] == 6 and result.values() == list(range(6)), result.out
        run(program, parse(path), "--max-errors", "3", expect=2)
        run(program, parse(path), "--on-error", "quarantine=", expect=2)
        run(program, parse(path), "--on-error", "ignore", expect=2)


# ---- quarantine and back ----

def test_quarantine_list_feeds_back(program):
    with Folder() as folder:
        names = [folder.path(n) for n in ('plain "quoted" \u00fc.tfrecord', "second\\tab", "third.gz")]
        bad = {0: (2, 9), 1: (0, 5), 2: (1, 7, 8)}
        for f, path in enumerate(names):
            records = [example(y=ints(i)) if i in bad[f] else example(x=ints(100 * f + i)) for i in range(10)]
            whole = b"".join(record(r) for r in records)
            write(path, gzip.compress(whole) if path.endswith(".gz") else whole)
        for files, epochs in ((names[:2], 1), (names[:2], 3), (names[2:], 2), (names, 1)):
            listed = folder.path("list")
            pipeline = source(*files) + " | parse(x=int64) | batch(4) | repeat(%d)" % epochs
            result = run(program, pipeline, "--json", "--on-error", "quarantine=" + listed, expect=0)
            expected = [(names.index(p), i) for p in files for i in bad[names.index(p)]]
            assert result.json["skipped"] == result.json["quarantined"] == epochs * len(expected), result.json
            assert result.json["samples"] + result.json["skipped"] == epochs * 10 * len(files), result.json
            found = [(names.index(e["file"]), e["record"]) for e in entries(listed)]
            assert sorted(found) == sorted(epochs * expected), found
            again = run(program, source(*files, only=listed) + " | parse(y=int64, x=int64[]) | print", expect=0)
            assert again.values("y") == [i for _, i in expected], again.values("y")
            assert all(x == [] for x in again.values("x")), again.out


def test_quarantine_of_data_errors(program):
    with Folder() as folder:
        path, listed = folder.path("r"), folder.path("list")
        frames = [bytearray(record(r)) for r in numbered(8)]
        frames[2][20] ^= 4  # data
        frames[5][3] ^= 4  # length
        write(path, b"".join(frames))
        result = run(program, parse(path), "--json", "--on-error", "quarantine=" + listed, expect=0)
        assert result.values() == [0, 1, 3, 4, 6, 7] and result.json["skipped"] == 2, result.out
        assert result.json["lost_bytes"] == len(frames[5]), result.json
        found = entries(listed)
        assert [(e["record"], e["offset"], e["bytes"]) for e in found] == \
            [(5, 5 * len(frames[0]), -1), (2, 2 * len(frames[0]), len(frames[0]) - 16)], found
        wanted(run(program, source(path, only=listed), expect=1), "record 2 at offset", "data CRC")
        again = run(program, source(path, only=listed, verify=False) + " | print", "--json", expect=0)
        assert again.json["samples"] == 1, again.out


def test_odd_lists(program):
    with Folder() as folder:
        path, listed = folder.path("r"), folder.path("list")
        write_records(path, SMALL)
        line = json.dumps({"file": path, "offset": 0, "record": 1, "bytes": 9}, separators=(",", ":"))
        write(listed, b"")
        assert run(program, parse(path, only=listed), "--json", expect=0).json["samples"] == 0
        write(listed, (line + "\n" + line).encode())
        assert run(program, parse(path, only=listed), expect=0).values() == [1]
        write(listed, line.replace(":1,", ":3,").encode())
        wanted(run(program, parse(path, only=listed), expect=2), "names record 3", path, "which has 3 records")
        write(listed, line.replace(path, "elsewhere").encode())
        wanted(run(program, parse(path, only=listed), expect=2), listed, "lists no record of these files", "elsewhere")
        for text in (b"no json\n", b"{}\n", b"\x00\x01\x02", b'{"file":"x"}\n', b"\xff\xfe"):
            write(listed, text)
            result = run(program, parse(path, only=listed))
            assert result.code == 2 or (result.code == 0 and text[0] == 0), (text, result.err)
        wanted(run(program, parse(path, only=folder.path("none")), expect=1), folder.path("none"), "No such file")


# ---- files that are not there, or not the same ----

def test_unreadable_files(program):
    with Folder() as folder:
        good, missing, secret = (folder.path(n) for n in ("good", "missing", "secret"))
        write_records(good, SMALL)
        write_records(secret, SMALL)
        os.chmod(secret, 0)
        cases = {missing: "No such file or directory", folder.name: "Is a directory"}
        if os.geteuid() != 0:
            cases[secret] = "Permission denied"
        for path, why in cases.items():
            wanted(run(program, parse(path), expect=1), path, why)
            wanted(run(program, parse(good, path), expect=1), path, why)
            listed = folder.path("list")
            result = run(program, parse(good, path), "--json", "--on-error", "quarantine=" + listed, expect=0)
            assert result.values() == [0, 1, 2] and result.json["skipped"] == 1, result.out
            assert entries(listed)[0]["file"] == path and why in entries(listed)[0]["error"]
        wanted(run(program, parse(folder.path("*.none")), expect=1), "no file matches", "*.none")
        long = folder.path("d" * 300)
        wanted(run(program, parse(long), expect=1), "File name too long")
        os.symlink(folder.path("loop"), folder.path("loop"))
        wanted(run(program, parse(folder.path("loop")), expect=1), "symbolic links")
        write_records(folder.path("[odd].tfrecord"), SMALL)
        assert run(program, parse(folder.path("[odd].tfrecord")), expect=0).values() == [0, 1, 2]


class Running:
    """A run that is held up after its first batches by a consumer with slow steps."""

    def __init__(self, program, pipeline, folder, *options, batches=2):
        self.marker = folder.path("progress.ck")
        command = [program, "run", "-e", pipeline, "--json", "--quiet", "--no-index-cache", "--step-time", "30ms",
                   "--checkpoint", self.marker, "--checkpoint-every", "1", "--threads", "1"] + list(options)
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + TIMEOUT
        while not self.reached(batches):
            assert time.monotonic() < deadline and self.process.poll() is None, self.process.communicate()
            time.sleep(0.005)

    def reached(self, batches):
        try:
            with open(self.marker, encoding="utf-8") as stream:
                found = re.search(r"^batches (\d+)$", stream.read(), re.M)
        except OSError:
            return False
        return found is not None and int(found.group(1)) >= batches

    def end(self):
        out, err = self.process.communicate(timeout=TIMEOUT)
        done = subprocess.CompletedProcess([], self.process.returncode, out, err)
        result = Result(done)
        assert result.code >= 0, (result.code, result.err)
        return result


# Few batches are made ahead, so that most of the file is read after it was changed.
HELD = " | parse(x=int64) | prefetch(1) | batch(100)"


BIG = b"".join(record(r) for r in numbered(3000, start=10000))


def big_file(path):
    write(path, BIG)


def change_file(path, how):
    if how == "rewritten":
        with open(path, "r+b") as stream:  # in place, same size, sound records with other values
            stream.write(BIG[len(BIG) // 2:] + BIG[:len(BIG) // 2])
    elif how == "damaged":
        with open(path, "r+b") as stream:
            stream.write(b"\xaa" * os.path.getsize(path))
    elif how == "appended":
        with open(path, "ab") as stream:
            stream.write(record(example(x=ints(1))))
    elif how == "truncated":
        os.truncate(path, os.path.getsize(path) // 2)
    elif how == "vanished":
        os.rename(path, path + ".away")


def check_change(program, folder, how):
    path = folder.path("run-" + how)
    os.mkdir(path)
    place = Folder()
    place.name = path
    data, second = os.path.join(path, "a"), os.path.join(path, "b")
    big_file(data)
    big_file(second)
    listed = os.path.join(path, "list")
    held = Running(program, source(data, second) + HELD, place, "--on-error", "quarantine=" + listed)
    changed = second if how == "vanished" else data
    change_file(changed, how)
    result = held.end()
    assert result.code == 0, (how, result.err)
    assert result.json["samples"] + result.json["skipped"] == 6000, (how, result.json)
    assert result.json["skipped"] >= 1000, (how, result.json)
    found = entries(listed)
    assert len(found) == result.json["skipped"] and {e["file"] for e in found} == {changed}, (how, found[:3])
    why = "No such file" if how == "vanished" else "changed since it was indexed"
    assert all(why in e["error"] for e in found), (how, [e["error"] for e in found if why not in e["error"]][:3])
    assert [e["record"] for e in found] == list(range(3000 - len(found), 3000)), (how, found[:3])


def test_shards_that_change_while_they_are_read(program):
    with Folder() as folder:
        parallel([lambda h=h: check_change(program, folder, h)
                  for h in ("rewritten", "damaged", "appended", "truncated", "vanished")])


def test_shard_that_changes_stops_the_run(program):
    with Folder() as folder:
        path = folder.path("a")
        big_file(path)
        held = Running(program, source(path) + HELD, folder)
        change_file(path, "rewritten")
        result = held.end()
        assert result.code == 1, result.err
        wanted(result, path + ": record ", "changed since it was indexed: same size, modified ")


def check_stream_change(program, folder, how):
    path = folder.path(how + ".gz")
    second = folder.path(how + "-2.gz")
    frames = [record(r) for r in numbered(600)]
    for name in (path, second):
        write(name, gzip.compress(b"".join(frames)))
    place = Folder()
    place.name = folder.path("of-" + how)
    os.mkdir(place.name)
    held = Running(program, source(path, second) + HELD + " | repeat(2)", place, "--on-error", "skip")
    if how == "vanished":
        os.unlink(second)
    else:
        write(second, b"\x1f\x8b" + b"\xaa" * 100)
    result = held.end()
    assert result.code == 0, (how, result.err)
    # Blocks are decoded ahead, so the first epoch may have been read before the file changed.
    assert result.json["skipped"] in (1, 2) and result.json["samples"] == 600 * (4 - result.json["skipped"]), result.json


def test_streams_that_change_between_epochs(program):
    with Folder() as folder:
        parallel([lambda h=h: check_stream_change(program, folder, h) for h in ("vanished", "replaced")])


def test_stale_index_cache(program):
    with Folder() as folder:
        path, cache = folder.path("a"), folder.path("index")
        frames = numbered(300, start=1000)
        write_records(path, frames)
        old = os.stat(path)
        options = ("--cache-dir", cache, "--json")
        assert run(program, parse(path), *options, expect=0).json["samples"] == 300
        kept = [os.path.join(cache, n) for n in os.listdir(cache)]
        assert kept, "no index was kept"
        write_records(path, frames + frames[:5])  # appended
        assert run(program, parse(path), *options, expect=0).json["samples"] == 305
        write_records(path, frames[:100])  # truncated
        assert run(program, parse(path), *options, expect=0).json["samples"] == 100
        write_records(path, list(reversed(frames)))  # same size as at first
        assert run(program, parse(path), *options, expect=0).values()[0] == 1299
        write_records(path, frames[:1] + [example(x=ints(7), y=strings(b"longer than before"))] + frames[2:])
        os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
        assert run(program, parse(path), *options, expect=0).json["samples"] == 300
        for name in kept:  # an index is untrusted input as well
            with open(name, "rb") as stream:
                data = stream.read()
            for damaged in (b"", data[:40], data[:-1], bytes(len(data)), data[:60] + b"\xff" * (len(data) - 60)):
                write(name, damaged)
                assert run(program, parse(path), *options, expect=0).json["samples"] == 300
        os.chmod(cache, 0o500)
        assert run(program, parse(path), *options, expect=0).json["samples"] == 300


def test_checkpoint_of_other_data_is_refused(program):
    with Folder() as folder:
        for packed in (False, True):
            path, mark = folder.path("a.gz" if packed else "a"), folder.path("mark")
            pipeline = source(path) + " | parse(x=int64) | batch(2)"

            def fill(records):
                whole = b"".join(record(r) for r in records)
                write(path, zlib.compress(whole, 0) if packed else whole)

            fill(numbered(20))
            run(program, pipeline, "--steps", "3", "--checkpoint", mark, expect=0)
            assert run(program, pipeline, "--resume", mark, "--json", expect=0).json["samples"] == 14
            fill(numbered(20, start=50))  # same size
            wanted(run(program, pipeline, "--resume", mark, expect=4), mark, "the checkpoint is of other data")
            fill(numbered(21))
            wanted(run(program, pipeline, "--resume", mark, expect=4), mark, "other data")
            fill(numbered(20))
            wanted(run(program, pipeline + " | repeat(2)", "--resume", mark, expect=4), mark, "another pipeline")
            with open(mark, "rb") as stream:
                good = stream.read()
            for damaged in (b"", good[:-1], good[:50], good.replace(b"batches 3", b"batches 4"), bytes(100),
                            good + good, b"\xff" * 70000):
                write(mark, damaged)
                refused = run(program, pipeline, "--resume", mark)
                assert refused.code in (2, 4), refused.err
                wanted(refused, mark)
            wanted(run(program, pipeline, "--resume", folder.path("none"), expect=1), folder.path("none"), "No such file")


def test_cache_files_that_are_damaged(program):
    with Folder() as folder:
        path, cache = folder.path("a"), folder.path("cache")
        write_records(path, numbered(50))
        pipeline = "%s | parse(x=int64) | cache(%s) | print" % (source(path), literal(cache))
        assert len(run(program, pipeline, expect=0).values()) == 50
        with open(cache, "rb") as stream:
            good = stream.read()
        result = run(program, pipeline, "--json", expect=0)
        assert result.json["cache_hits"] == 50, result.json
        jobs = []
        for n, at in enumerate(list(range(0, len(good), 97)) + list(range(len(good) - 60, len(good)))):
            def job(n=n, at=at):
                name = folder.path("cache-%d" % n)
                damaged = bytearray(good)
                damaged[at] ^= 1 << n % 8
                write(name, damaged if n % 2 else good[:at])
                result = run(program, pipeline.replace(cache, name))
                if result.code == 0:
                    assert result.values() == list(range(50)), (n, at)
                else:
                    wanted(result, name, "is no cache file" if result.code == 2 else "fails its check")
            jobs.append(job)
        parallel(jobs)
        write(cache, b"precious data of somebody else")
        wanted(run(program, pipeline, expect=2), cache, "is no cache file")
        with open(cache, "rb") as stream:
            assert stream.read() == b"precious data of somebody else"
        write(cache, good)
        write_records(path, numbered(50, start=60))  # other data of the same size
        assert run(program, pipeline, expect=0).values() == list(range(60, 110))


# ---- full disks ----

class SmallDisk:
    """A file system of 64 KiB where one can be mounted, else a limit on the size of files."""

    def __init__(self, folder, size=65536):
        self.size = size
        self.place = folder.path("disk")
        os.mkdir(self.place)
        self.mounted = False
        if os.geteuid() == 0:
            libc = ctypes.CDLL(None, use_errno=True)
            self.mounted = libc.mount(b"tmpfs", self.place.encode(), b"tmpfs", 0, b"size=%d" % size) == 0

    def limit(self):
        if not self.mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, self.size))

    def words(self):
        return "No space left on device" if self.mounted else "File too large"

    def close(self):
        if self.mounted:
            subprocess.run(["umount", self.place], timeout=TIMEOUT, check=True)


def check_full_disk(program, folder, disk):
    def path(name):
        return os.path.join(disk.place, name)

    def full(pipeline, *options, named):
        result = run(program, pipeline, *options, expect=1, limit=disk.limit)
        wanted(result, named, disk.words())
        return result

    def left():
        return sorted(os.listdir(disk.place))

    full("range(50000) | write_tfrecord(%s)" % literal(path("out")), named=path("out"))
    assert left() == [], left()
    full("range(2000) | write_tfrecord(%s, shards=4)" % literal(path("o-%d")), named=path("o-"))
    assert left() == [], left()
    full("range(50000) | write_tfrecord(%s, shards=3, compression=gzip)" % literal(path("z-%d")), named=path("z-"))
    assert left() == [], left()
    for policy in ("stop", "skip"):
        result = full("range(50000) | cache(%s) | batch(10)" % literal(path("cache")), "--on-error", policy, "--json",
                      named=path("cache"))
        assert result.json["skipped"] == 0 and "cannot write the cache" in result.err, result.err
        assert "--memory" not in result.err, "a full disk is no matter of the budget: " + result.err
        assert left() == [], left()
    bad = folder.path("bad")
    write_records(bad, [example(y=ints(i)) for i in range(2000)])
    full(source(bad) + " | parse(x=int64)", "--on-error", "quarantine=" + path("list"), named=path("list"))
    os.unlink(path("list"))
    for kind in ("t.pftrace", "t.json"):
        full("range(200000) | batch(10)", "--trace", path(kind), named=path(kind))
        for name in left():
            os.unlink(path(name))
    if disk.mounted:
        write(path("ballast"), bytes(disk.size))
        full("range(100) | batch(10)", "--checkpoint", path("mark"), "--checkpoint-every", "1", named=path("mark"))
        assert left() == ["ballast"], left()


def test_full_disk(program):
    with Folder() as folder:
        disk = SmallDisk(folder)
        try:
            check_full_disk(program, folder, disk)
        finally:
            disk.close()


def test_limit_on_file_sizes(program):
    with Folder() as folder:
        disk = SmallDisk.__new__(SmallDisk)
        disk.size, disk.place, disk.mounted = 8192, folder.path("limited"), False
        os.mkdir(disk.place)
        check_full_disk(program, folder, disk)


def test_outputs_that_cannot_be_written(program):
    with Folder() as folder:
        nowhere = folder.path("no/such/place")
        for options in (("--checkpoint", nowhere), ("--trace", nowhere + ".json"), ("--on-error", "quarantine=" + nowhere)):
            wanted(run(program, "range(10) | batch(2)", *options, expect=1), "no/such/place", "No such file or directory")
        wanted(run(program, 'range(10) | write_tfrecord("/dev/full")', expect=1), "/dev/full", "not a regular file")
        wanted(run(program, "range(10) | write_tfrecord(%s)" % literal(folder.name), expect=1), folder.name)
        wanted(run(program, "range(10) | cache(%s)" % literal(folder.name)), folder.name)
        write(folder.path("file"), b"")
        wanted(run(program, "range(10) | write_tfrecord(%s)" % literal(folder.path("file/x")), expect=1), "file")
        bad = folder.path("bad")
        write_records(bad, [example(y=ints(1))])
        wanted(run(program, parse(bad), "--on-error", "quarantine=/dev/full", expect=1), "/dev/full", "No space left")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([program, "run", "-e", "range(100000) | print", "--quiet"], stdout=full,
                                  stderr=subprocess.PIPE, timeout=TIMEOUT, check=False)
        assert done.returncode == 1 and b"standard output" in done.stderr, (done.returncode, done.stderr)


def test_interrupted_sinks_leave_nothing(program):
    with Folder() as folder:
        target = folder.path("deep/out")
        process = subprocess.Popen([program, "run", "-e", "range(10) | repeat | write_tfrecord(%s)" % literal(target),
                                    "--quiet", "--step-time", "1ms"], stderr=subprocess.PIPE)
        deadline = time.monotonic() + TIMEOUT
        while not os.listdir(folder.name):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT)
        assert process.returncode == 130 and os.listdir(folder.name) == [], (process.returncode, os.listdir(folder.name))


# ---- wrong pipelines ----

# text, line, column, words; exit code 2 where nothing else is said
WRONG = [
    ("", 1, 1, "found the end of the text, wanted an op"),
    ("|", 1, 1, "found '|', wanted an op"),
    ("range(10) |", 1, 12, "wanted an op after '|'"),
    ("range(10) || batch(2)", 1, 12, "found '|'"),
    ("rang(10)", 1, 1, "unknown op 'rang'; did you mean 'range'?"),
    ("xyzzy(10)", 1, 1, "unknown op 'xyzzy'; 'stoker ops' lists them"),
    ("range(10)\n\n  | shufle(seed=1)", 3, 5, "did you mean 'shuffle'?"),
    ("range()", 1, 1, "stop is missing: the first number that is not reached"),
    ('range("10")', 1, 7, 'stop must be an integer, got a string "10"'),
    ("range(1.5)", 1, 7, "stop must be an integer, got a number 1.5"),
    ("range(10, 0, 1, 2)", 1, 17, "too many arguments: number 4 is not expected"),
    ("range(10, stop=3)", 1, 11, "stop is given twice"),
    ("range(10, stp=3)", 1, 11, "no option 'stp'; did you mean 'stop'?"),
    ("range(10, step=0)", 1, 1, "step must not be 0"),
    ("range(10, start=20)", 1, 1, "stop 10 cannot be reached from start 20"),
    ("range(99999999999999999999)", 1, 7, "is too large, wanted an integer of 64 bits"),
    ("range(10) | batch", 1, 13, "size is missing: samples in a batch"),
    ("range(10) | batch(0)", 1, 19, "size must be in 1..16777216, got an integer 0"),
    ("range(10) | batch(16777217)", 1, 19, "size must be in 1..16777216"),
    ("range(10) | batch(2, dropp_last=true)", 1, 22, "did you mean 'drop_last'?"),
    ("range(10) | batch(2, drop_last=1)", 1, 32, "drop_last must be true or false, got an integer 1"),
    ("range(10) | batch(2, pad_value=1)", 1, 13, "pad_value is 1, but pad is false"),
    ("range(10) | batch(2) | batch(3)", 1, 24, "a pipeline has one batch, and there is one at line 1, column 13"),
    ("range(10) | range(10)", 1, 13, "is a source: it can only come first"),
    ("batch(2)", 1, 1, "a pipeline starts with a source"),
    ("range(10) | print | batch(2)", 1, 13, "is a sink: it can only come last"),
    ("range(10) | cache | cache", 1, 21, "a pipeline has one cache"),
    ('range(10) | cache(memory="lots")', 1, 26, 'memory must be a size like 256M, got a string "lots"'),
    ("range(10) | prefetch(-1)", 1, 22, "batches must be in 0.."),
    ("range(10) | cast(value=float99)", 1, 24, "field 'value' must be cast to a number type such as float32"),
    ("range(10) | cast(valeu=float32)", 1, 13, "no field 'valeu' here; did you mean 'value'?"),
    ("range(10) | cast(value=bytes)", 1, 24, "cannot be cast to bytes"),
    ("range(10) | cast()", 1, 13, "fields is missing"),
    ("range(10) | select(nothing)", 1, 13, "no field 'nothing' here; there is value"),
    ("range(10) | drop(value)", 0, 0, "the pipeline ends with no field"),
    ("range(10) | rename(a=b)", 1, 13, "no field 'b' here; there is value"),
    ("range(10) | rename(a=1)", 1, 13, "'a' must be the name of a field, as in rename(new=old)"),
    ('range(10) | filter("value <")', 1, 13, "at 8 of the expression: found the end of the expression, wanted a value"),
    ('range(10) | filter("valeu < 3")', 1, 13, "at 1 of the expression: no field 'valeu' here"),
    ('range(10) | filter("value and true")', 1, 13, "wanted a bool"),
    ("range(10) | filter(3)", 1, 20, "where must be a string, got an integer 3"),
    ('range(10) | batch(2) | filter("value < 3")', 1, 24, "works on single samples: put it before batch"),
    ("range(10) | interleave(2)", 1, 13, "range has no files to interleave"),
    ("range(10) | shuffle(seed=1) | interleave(2)", 1, 31, "put it before shuffle"),
    ("range(10) | repeat | shuffle(seed=1)", 1, 22, "cannot shuffle what has no end: put it before repeat"),
    ("range(10) | shard(count=2, index=2)", 1, 13, "index must be below count 2, got 2"),
    ("range(10) | shard(index=1)", 1, 13, "index is 1, but count is not given"),
    ("range(10) | shard(uneven=odd)", 1, 26, "uneven must be one of keep, pad, drop, got a name odd"),
    ("range(10) | repeat(9999999999)", 1, 20, "count must be in 0..2147483648"),
    ("range(10) | take(-1)", 1, 18, "count must be at least 0, got an integer -1"),
    ('range(10) | skip("3")', 1, 18, 'count must be an integer, got a string "3"'),
    ("range(10) | parse(x=int64)", 1, 13, "no field 'record' here; there is value"),
    ('tfrecord("none") | parse(x=integer)', 1, 28, "must be of a type such as"),
    ('tfrecord("none") | parse(x=int64[2,])', 1, 28, "whose first dimension alone is open"),
    ('tfrecord("none") | parse(x=int64[99999,99999])', 1, 28, "of fewer than 2^31 values"),
    ('tfrecord("none") | parse(x=int64[1,1,1,1,1,1])', 1, 28, "of at most 5 dimensions"),
    ('tfrecord("none") | parse(x=int64(default="a"))', 1, 28, "given a default of its own type"),
    ('tfrecord("none") | parse(x=int64[2](default=[1,2,3]))', 1, 28, "given one default, or as many as it has values"),
    ('tfrecord("none") | parse(x=int64[](default=1))', 1, 28, "of a fixed shape to have a default"),
    ('tfrecord("none") | parse(x=int64(form="y"))', 1, 28, 'followed by from="NAME", default=VALUE or sequence=true'),
    ('tfrecord("none") | parse(x=int64, x=int64)', 1, 35, "'x' is given twice"),
    ('tfrecord("none") | parse(x=int64) | parse(y=int64)', 1, 37, "no field 'record' here; there is x"),
    ('tfrecord("none") | shard(count=3, index=7)', 1, 20, "index must be below count 3"),
    ("tfrecord(3)", 1, 10, "paths must be strings, got an integer 3"),
    ('tfrecord("x"', 1, 13, "found the end of the text, wanted ',' or ')'"),
    ('tfrecord("x', 1, 10, "string without closing quote"),
    ('range(10) | write_tfrecord("x-%s")', 1, 13, "must have %d or %05d"),
    ('range(10) | write_tfrecord("x", shards=2)', 1, 13, "needs %05d for the numbers of 2 shards"),
    ('range(10) | write_tfrecord("x", compression=lzma)', 1, 45, "one of none, gzip, zlib, got a name lzma"),
    ('range(10) | filter("value > 1") | take(2) | shuffle(seed=1)', 1, 45, "cannot follow take, skip or shard"),
    ('range(10) | filter("value > 1") | batch(2) | shuffle(seed=1)', 1, 46, "when their number is known"),
    ("range(10) | $batch(2)", 1, 13, "found '$', wanted an op after '|'"),
    ("range(10 batch(2)", 1, 10, "found 'batch', wanted ',' or ')'"),
    ("range(10) batch(2)", 1, 11, "found 'batch', wanted '|' before the next op"),
    ("range(10) | print(color=true)", 1, 19, "no option 'color'"),
    ('range(10) | filter("value < 0") | repeat | batch(2)', 0, 0, "were all left out by filters or as bad records"),
    ('range(10) | filter("value < 0") | batch(2) | repeat', 0, 0, "repeat without end would never come to one"),
    ("range(10) | repeat | batch(2)" + " | skip(1152921504606846976)" * 4, 0, 0, "would start behind sample 2^62"),
    ("range(10) | repeat" + " | shard(count=16777216, index=16777215)" * 3, 0, 0, "would start behind sample 2^62"),
    ("range(10)" + " | take(9)" * 33, 1, 333, "more than 32 order ops"),
    ("range(%s1%s)" % ("[" * 500, "]" * 500), 1, None, ""),
    ("range(10) | filter(\"%svalue%s > 1\")" % ("(" * 3000, ")" * 3000), 1, 13, "of the expression"),
    ("range(10) | filter(\"%strue\")" % ("not " * 5000), 1, 13, "of the expression"),
]


def check_wrong(program, text, line, column, words):
    result = run(program, text, expect=2)
    if line:
        wanted(result, "line %d, column " % line + ("%d: " % column if column else ""))
        assert "^" in result.err or not text, result.err
    else:
        assert not re.search(r"\bline \d", result.err), result.err
    wanted(result, words)
    assert not result.out, result.out


def test_wrong_pipelines(program):
    assert len(WRONG) >= 60
    parallel([lambda w=w: check_wrong(program, *w) for w in WRONG])


def test_extreme_numbers_run(program):
    far = "range(9223372036854775807, start=-9223372036854775807"
    cases = [
        (far + ") | print", [-9223372036854775807 + i for i in range(3)]),
        (far + ", step=9223372036854775807) | print", [-9223372036854775807, 0]),
        ("range(-9223372036854775807, start=9223372036854775807, step=-9223372036854775807) | print",
         [9223372036854775807, 0]),
        (far + ") | repeat(2147483648) | repeat(2147483648) | take(3) | print", [-9223372036854775807 + i for i in range(3)]),
        ("range(3) | repeat(2147483648) | repeat(2147483648) | repeat(2147483648) | take(9223372036854775807) | print",
         [0, 1, 2]),
        ("range(3) | repeat | skip(1152921504606846975) | print", [0, 1, 2]),
        ("range(3) | shard(count=16777216, index=16777215) | repeat | print", []),
        ("range(3) | shard(count=7, index=6, uneven=pad) | print", [0]),
        ("range(0) | repeat | shuffle(seed=1) | print", []),
        ("range(10) | take(0) | repeat | print", []),
    ]
    for text, values in cases:
        result = run(program, text, "--steps", "1", "--memory", "16M", expect=0)
        found = result.values("value")[:3]
        assert found == values, (text, found, values)
    for text in ("range(10) | batch(16777216)", far + ") | shuffle(seed=1) | batch(16777216)",
                 'tfrecord("%s") | parse(x=float32[1000000](default=0)) | batch(16777216)' % os.devnull):
        result = run(program, text, "--memory", "16M", "--steps", "2")
        assert result.code in (0, 1), result.err
        if result.code:
            wanted(result, "of the budget of 16.0 MiB")


def test_endless_input_meets_the_budget(program):
    result = run(program, 'text("/dev/zero") | batch(1)', "--memory", "16M", expect=1)
    wanted(result, "/dev/zero", "of the budget of")
    with Folder() as folder:
        path = folder.path("bomb.gz")
        head = struct.pack("<Q", 1 << 33)
        with gzip.open(path, "wb", compresslevel=1) as stream:
            stream.write(record(SMALL[0]) + head + struct.pack("<I", masked_crc(head)))
            for _ in range(64):
                stream.write(bytes(1 << 20))
        wanted(run(program, parse(path), "--memory", "16M", expect=1), path, "record 1 at offset", "budget")
        path = folder.path("large")
        write_records(path, [SMALL[0], bytes(20 << 20)])
        wanted(run(program, source(path), "--memory", "16M", expect=1), path, "record 1 at offset", "budget of 16.0 MiB")
    assert run(program, 'text("/proc/self/status") | take(1) | print', expect=0).values("text")[0].startswith("Name:")


def test_texts_that_are_no_text(program):
    with Folder() as folder:
        path = folder.path("p.stoker")

        def texts():
            yield b"range(10) \x00| batch(2)", 2, "byte 10 is NUL"
            yield b"range(10) | \xff\xfe(2)", 2, "line 1, column 13"
            yield b'range(10) | filter("\xc3\x28 > 1")', 2, "line 1, column "
            yield b"range(10) | \xe2\x80\xaebatch(2)", 2, "line 1, column 13"
            yield b"\xef\xbb\xbfrange(10) | nothing", 2, "line 1"
            yield b"range(10)" + b" | skip(0)" * 20000, 2, "more than 1024 ops"
            yield b"# " + b"x" * 1000000 + b"\nrange(10)", 0, ""
            yield b"range(10)" + b" " * 1000000 + b"| nothing", 2, "line 1, column 1000012: unknown op 'nothing'"
            yield b"x" * 1000000, 2, "line 1, column 1"
            yield b"(" * 1000000, 2, "line 1, column 1"
            yield b"range(" + b"[" * 900000, 2, "line 1, column "
            yield b'text("' + b"y" * 900000 + b'")', 1, "File name too long"
            yield b'range(10) | filter("' + b"value+" * 150000 + b'1 > 0")', 2, "expression"
            yield b"range(10) | select(" + b"value," * 60000 + b"value)", 0, ""
            yield b"range(10) | select(" + b"value," * 100000 + b"value)", 2, "more than 65536 arguments"
            yield b"range(10)\n" * 100000, 2, "line 2, column 1"
            yield b"y" * (1 << 21), 2, "larger than"
            yield b"range(10)\r\n| batch(2)\r\n", 0, ""

        for text, code, words in texts():
            write(path, text)
            result = run(program, path)
            assert result.code == code, (text[:60], result.code, result.err[-500:])
            assert words in result.err and len(result.err) < 4000, (text[:60], result.err[-500:])
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]", result.err), result.err
            run(program, path, command="plan", expect=2 if code == 2 else None)


def test_bad_plugins(program):
    with Folder() as folder:
        path = folder.path("plugin.so")
        library = os.path.join(os.path.dirname(program), "src", "libstoker.so")
        cases = [(path, None, "No such file"), (path, b"", "plugin.so"), (path, b"\x7fELF" + bytes(100), "plugin.so"),
                 (path, b"#!/bin/sh\n", "plugin.so"), (folder.name, None, "directory")]
        if os.path.exists(library):
            cases.append((library, None, "stk_plugin_ops"))
        for name, data, words in cases:
            if data is not None:
                write(name, data)
            result = run(program, "range(10)", "--plugin", name)
            assert result.code in (1, 2), result.err
            wanted(result, words)


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 2
    program = os.path.realpath(os.path.join(sys.argv[1], "stoker"))
    only = sys.argv[2] if len(sys.argv) == 3 else ""
    passed = failed = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_") or only not in name:
            continue
        start = time.monotonic()
        try:
            test(program)
            passed += 1
        except (AssertionError, OSError, ValueError, KeyError, IndexError, TypeError,
                subprocess.SubprocessError) as error:
            failed += 1
            print("FAILED %s: %s %s" % (name, type(error).__name__, error))
        if only:
            print("%s: %.1f s" % (name, time.monotonic() - start))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
