#!/usr/bin/env python3
"""Tar shards and Python's tarfile: it reads what we write, we read what it writes.

Usage: python3 tests/python/test_webdataset.py BUILD_DIR
Standard library only. Prints "N passed, N failed"; the exit status is 1 when a test failed.
"""
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile

import runlib

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def run(program, directory, pipeline, status=0):
    command = [program, "run", "-e", pipeline, "--quiet"]
    result = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    assert result.returncode == status, "exit status %d for %s: %s" % (result.returncode, pipeline, result.stderr)
    return [json.loads(line) for line in result.stdout.decode().splitlines()], result.stderr.decode()


def members():
    """Names and data of 40 samples: long names, odd sizes, empty files."""
    for i in range(40):
        key = "d/" + "deep/" * (i % 30) + "s" * (i * 7 % 200) + str(i)
        yield key, "txt", ("text %d " % i * (i * 37)).encode()
        yield key, "cls", b"%d\n" % (i * 3)
        if i % 4 == 0:
            yield key, "seg.bin", b""


def write_tar(path, format_, mode="w"):
    with tarfile.open(path, mode, format=format_, pax_headers={"comment": "made by a test"}) as tar:
        for name, kind in (("d", tarfile.DIRTYPE), ("d/link.txt", tarfile.SYMTYPE), ("README", tarfile.REGTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "d" if kind == tarfile.SYMTYPE else ""
            tar.addfile(info)
        for key, extension, data in members():
            if format_ == tarfile.USTAR_FORMAT and len(key) > 90:
                continue
            info = tarfile.TarInfo(key + "." + extension)
            info.size, info.mtime, info.uid, info.uname = len(data), 1234567890.5, 1000, "somebody"
            tar.addfile(info, io.BytesIO(data))


def wanted(format_):
    samples = {}
    for key, extension, data in members():
        if format_ != tarfile.USTAR_FORMAT or len(key) <= 90:
            samples.setdefault(key, {})[extension] = data.decode()
    return [{"txt": s["txt"], "label": int(s["cls"]), "key": key} for key, s in samples.items()]


def test_reads_what_tarfile_writes(program, directory):
    for name, format_ in FORMATS.items():
        for ending, mode in ((".tar", "w"), (".tar.gz", "w:gz")):
            write_tar(os.path.join(directory, name + ending), format_, mode)
            found, _ = run(program, directory, 'webdataset("%s", txt=bytes, label=int64) | print' % (name + ending))
            assert found == wanted(format_), name + ending


def test_tarfile_reads_what_we_write(program, directory):
    write_tar(os.path.join(directory, "in.tar"), tarfile.PAX_FORMAT)
    run(program, directory,
        'webdataset("in.tar", txt=bytes, label=int64) | write_webdataset("out-%d.tar", shards=2, txt="txt", label="cls")')
    expected = wanted(tarfile.PAX_FORMAT)
    for shard in range(2):
        with tarfile.open(os.path.join(directory, "out-%d.tar" % shard)) as tar:
            found = [(m.name, tar.extractfile(m).read()) for m in tar]
            assert all(m.isreg() and m.mtime == 0 and m.uid == m.gid == 0 and m.mode == 0o644 for m in tar)
        pairs = []
        for sample in expected[shard::2]:
            pairs.append((sample["key"] + ".txt", sample["txt"].encode()))
            pairs.append((sample["key"] + ".cls", b"%d" % sample["label"]))
        assert found == pairs, "shard %d" % shard


def test_tar_reads_what_we_write(program, directory):
    if not shutil.which("tar"):
        return
    run(program, directory, 'range(50) | write_webdataset("out.tar")')
    result = subprocess.run(["tar", "tf", "out.tar"], cwd=directory, capture_output=True, check=True)
    assert result.stdout.decode().split() == ["%09d.value" % i for i in range(50)]
    assert result.stderr == b"", result.stderr


def test_reads_what_tar_writes(program, directory):
    if not shutil.which("tar"):
        return
    source = os.path.join(directory, "tree")
    below = "x" * 70 + "/" + "y" * 70
    os.makedirs(os.path.join(source, below))
    for i in range(5):
        with open(os.path.join(source, below, "%d.cls" % i), "w", encoding="ascii") as file:
            file.write(str(i))
    for format_ in ("gnu", "pax", "ustar", "oldgnu"):
        command = ["tar", "--format", format_, "--sort=name", "-cf", "../t.tar", "."]
        subprocess.run(command, cwd=source, check=True)
        found, _ = run(program, directory, 'webdataset("t.tar", label=int64) | print')
        assert found == [{"label": i, "key": below + "/%d" % i} for i in range(5)], format_


def test_damage_is_told_with_its_place(program, directory):
    path = os.path.join(directory, "a.tar")
    run(program, directory, 'range(6) | write_webdataset("a.tar", value="cls")')
    with open(path, "r+b") as file:
        file.seek(3 * 1024)
        file.write(b"#")
    _, errors = run(program, directory, 'webdataset("a.tar", label=int64) | print', 1)
    assert "a.tar: record 3 at offset 3072" in errors and "header checksum is" in errors, errors


if __name__ == "__main__":
    sys.exit(runlib.main(globals(), lambda test, *where: test(*where)))
