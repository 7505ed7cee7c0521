#!/usr/bin/env python3
"""HDF5 files that are damaged, cut, changed while they are read, or made to do harm: errors that tell where, nothing worse.

Usage: test_hdf5_hostile.py BUILD_DIR [PART_OF_A_NAME...] [--mutations=N] [--seed=N]
--mutations: how many randomly changed files are read (600 when not given), --seed: of their changes.
Needs h5py (tests/python/requirements.txt); without it the test is skipped. Prints "N passed, N failed".
"""
import collections
import faulthandler
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

try:
    import h5py
    import numpy
except ImportError as missing:
    print("skipped: %s; scripts/deps.sh test installs it" % missing)
    sys.exit(77)

import hdf5lib
import pipelib
from hdf5lib import Maker, Pipeline, made, plugin

STATUS = ["OK", "END", "DROP", "INVALID", "IO", "CORRUPT", "NOMEM", "BUDGET", "CANCELLED", "UNSUPPORTED", "MISMATCH", "LIMIT"]
STOP, SKIP, QUARANTINE = range(3)
LONGEST = 80  # seconds that one file may take: the helper's time limit and some air
MUTATIONS = 600


# ---- failing ----

def failure(session, text, **config):
    """The status and the text of the error with which a pipeline ends."""
    try:
        with Pipeline(session.stoker, text, threads=2, **config) as pipeline:
            count = len(list(pipeline))
    except pipelib.PipelineError as error:
        return STATUS[error.error.status], str(error).rsplit("\nin ", 1)[0]
    raise AssertionError("no error in %d batches of %s" % (count, text))


def fails(session, text, status, *words, **config):
    """Asserts that a pipeline fails with one of some statuses and that the message has all these words."""
    found, message = failure(session, text, **config)
    lacking = [w for w in words if w not in message]
    assert found in status.split() and not lacking, "%s: %s\n  wanted %s and the words %s" % (found, message, status, lacking)
    return message


def flip(path, at, bits=0x55):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ bits]))


def chunk_place(path, dataset, start):
    with h5py.File(path, "r") as file:
        return file[dataset].id.get_chunk_info_by_coord(start)


def sample_file(session, name="x.h5", libver=hdf5lib.OLD, filters=("shuffle", ("gzip", 4)), rows=61, **options):
    with Maker(session.path(name), libver, rows) as m:
        m.add("x", m.numbers("<i4", 13, small=True), (8, 13), filters=list(filters), **options)
        m.add("y", m.numbers("<f4"), (16,))
    return m.path


# ---- chunks ----

def test_corrupt_chunk_names_file_dataset_and_chunk(session):
    for label, filters in (("gzip", [("gzip", 4)]), ("sum", ["fletcher32"]), ("both", ["shuffle", ("gzip", 4), "fletcher32"])):
        for form, libver in hdf5lib.FORMATS.items():
            path = sample_file(session, "%s-%s.h5" % (label, form), libver, filters)
            place = chunk_place(path, "x", (24, 0))
            flip(path, place.byte_offset + place.size // 2)
            fails(session, 'hdf5("%s") | batch(7)' % path, "CORRUPT", path, "/x", "chunk", "24")
            fails(session, 'hdf5("%s", features="/x") | batch(7)' % path, "CORRUPT", path, "/x", "chunk")
            # What does not need the bad chunk is not in its way.
            rows = hdf5lib.run(session.stoker, 'hdf5("%s", row="/row", y="/y")' % path, "batch(7)", 2)["row"]
            assert rows.tolist() == list(range(61))
            rows = hdf5lib.run(session.stoker, 'hdf5("%s")' % path, "take(24) | batch(7)", 2)["row"]
            assert rows.tolist() == list(range(24))


def test_wrong_checksum_is_told(session):
    path = sample_file(session, filters=["fletcher32"])
    place = chunk_place(path, "x", (8, 0))
    flip(path, place.byte_offset + place.size - 1)
    fails(session, 'hdf5("%s") | batch(7)' % path, "CORRUPT", path, "/x", "fletcher32", "checksum")


def test_skip_keeps_the_good_rows(session):
    path = sample_file(session, filters=[("gzip", 4)])
    wanted = {f: c for fields in hdf5lib.contents(path).values() for f, c in fields.items()}
    for start in (8, 56):
        place = chunk_place(path, "x", (start, 0))
        flip(path, place.byte_offset + place.size // 2)
    bad = list(range(8, 16)) + list(range(56, 61))
    good = [r for r in range(61) if r not in bad]
    for ops in ("batch(7)", "batch(64)", "shuffle(seed=3) | batch(8)", "shuffle(seed=3, window=2) | batch(8)"):
        for threads in (1, 4):
            with Pipeline(session.stoker, 'hdf5("%s") | %s' % (path, ops), threads=threads, on_error=SKIP) as pipeline:
                found = hdf5lib.joined(list(pipeline))
                skipped = pipeline.stats().skipped
            rows = found["row"].tolist()
            assert sorted(rows) == good and skipped == len(bad), (ops, sorted(rows), skipped)
            complaints = hdf5lib.compare(found, {name: hdf5lib.pick(c, rows) for name, c in wanted.items()})
            assert not complaints, (ops, threads, complaints)
    message = fails(session, 'hdf5("%s") | batch(7)' % path, "LIMIT CORRUPT", path, on_error=SKIP, max_errors=3)
    assert "3" in message, message


def test_quarantine_lists_the_bad_rows(session):
    path = sample_file(session, filters=[("gzip", 4)])
    place = chunk_place(path, "x", (8, 0))
    flip(path, place.byte_offset + place.size // 2)
    listed = session.path("bad.jsonl")
    command = [session.program, "run", "-e", 'hdf5("%s") | batch(7)' % path, "--json", "--quiet", "--on-error",
               "quarantine=" + listed]
    result = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout.decode().splitlines()[-1])
    assert figures["quarantined"] == 8 and figures["samples"] == 53, figures
    with open(listed, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    assert len(lines) == 8 and all(path in str(line) and "/x" in str(line) for line in lines), lines
    assert sorted(line["record"] for line in lines) == list(range(8, 16)), lines


def listed_failures(session, pipeline, threads):
    """Figures of a run, and the lines of its list of bad records by record."""
    listed = session.path("bad-%d.jsonl" % threads)
    command = [session.program, "run", "-e", pipeline, "--json", "--quiet", "--threads", str(threads), "--on-error",
               "quarantine=" + listed]
    result = subprocess.run(command, capture_output=True, timeout=LONGEST, check=False)
    assert result.returncode == 0, result.stderr
    with open(listed, encoding="utf-8") as file:
        lines = sorted((json.loads(line) for line in file), key=lambda line: line["record"])
    return json.loads(result.stdout.decode().splitlines()[-1]), lines


def check_tried_once(session, pipeline, read_bytes, rows):
    """Every row fails, each chunk was read once however its rows are spread, and any number of threads tells the same."""
    told = []
    for threads in (1, 2, 5):
        figures, lines = listed_failures(session, pipeline, threads)
        assert figures["quarantined"] == rows and [line["record"] for line in lines] == list(range(rows)), figures
        assert figures["bytes_read"] == read_bytes, (threads, figures["bytes_read"], read_bytes)
        told.append(lines)
    assert told[0] == told[1] == told[2]


def test_a_chunk_that_cannot_be_decoded_is_tried_once(session):
    path, rows = session.path("all-bad.h5"), 120
    with Maker(path, rows=rows) as m:
        m.add("x", m.numbers("<i4", 13, small=True), (12, 13), filters=[("gzip", 4)])
    places = [chunk_place(path, "x", (start, 0)) for start in range(0, rows, 12)]
    for place in places:
        flip(path, place.byte_offset, 0xff)  # the head of a zlib stream
    # In little memory: a chunk has to go before the next can come.
    for ops in ("batch(7)", "shuffle(seed=3) | batch(7)", "shuffle(seed=3) | batch(1)"):
        pipeline = 'hdf5("%s", x="/x", cache_bytes=1500) | %s' % (path, ops)
        check_tried_once(session, pipeline, sum(place.size for place in places), rows)


def test_a_chunk_that_libhdf5_cannot_find_is_tried_once(session):
    """An index that points past the end of the file: such a dataset is libhdf5's, which was asked again for every row."""
    path, rows = session.path("bad-index.h5"), 120
    with Maker(path, hdf5lib.OLD, rows) as m:
        m.add("x", m.numbers("<i4", small=True), (12,))
    places = [chunk_place(path, "x", (start,)).byte_offset for start in range(0, rows, 12)]
    with open(path, "r+b") as file:
        data = file.read()
        for place in places:
            at = data.index(place.to_bytes(8, "little"))
            file.seek(at)
            file.write((place + (1 << 40)).to_bytes(8, "little"))
    for ops in ("batch(7)", "shuffle(seed=3) | batch(7)", "shuffle(seed=3) | batch(1)"):
        pipeline = 'hdf5("%s", x="/x", cache_bytes=500) | %s' % (path, ops)
        check_tried_once(session, pipeline, rows * 4, rows)


def test_every_codec_stands_noise_in_chunks(session):
    """Chunks of every filter overwritten with noise: an error or any values, never worse, and all other rows as they were."""
    generator = numpy.random.default_rng(6)
    counts = collections.Counter()
    for subject in (hdf5lib.filters, hdf5lib.coders, hdf5lib.plugins, hdf5lib.types):
        m = made(session.directory, subject, "old")
        wanted = hdf5lib.contents(m.path, m.wanted)
        bad = damage_chunks(m.path, generator)
        for name, start, rows in bad:
            source = 'hdf5("%s", row="/row", x="/%s")' % (m.path, name)
            with Pipeline(session.stoker, source + " | batch(16)", threads=2, on_error=SKIP) as pipeline:
                found = hdf5lib.joined(list(pipeline))
                skipped = pipeline.stats().skipped
            counts["told" if skipped else "not noticed"] += 1
            kept = found["row"].tolist() if found else []
            assert len(kept) + skipped == m.rows, (name, kept, skipped)
            good = [i for i, r in enumerate(kept) if not start <= r < start + rows]
            for field, column in wanted[name].items():
                mine = found["x" + field[len(hdf5lib.plain(name)):]] if kept else column[:0]
                difference = hdf5lib.same(hdf5lib.pick(mine, good), hdf5lib.pick(column, [kept[i] for i in good]))
                assert not difference, (name, field, difference)
    print("noise in chunks: %s" % dict(counts))
    assert counts["told"] > 50, counts


def damage_chunks(path, generator):
    """Overwrites part of one chunk of each chunked dataset; where they are."""
    found = []
    with h5py.File(path, "r") as file:
        for name in hdf5lib.datasets(file):
            dataset = file[name]
            if dataset.chunks and dataset.id.get_num_chunks() and hdf5lib.h5py.check_vlen_dtype(dataset.dtype) is None:
                info = dataset.id.get_chunk_info(int(generator.integers(0, dataset.id.get_num_chunks())))
                found.append((name, info.chunk_offset[0], dataset.chunks[0], info.byte_offset, info.size))
    with open(path, "r+b") as file:
        for _, _, _, place, size in found:
            length = int(generator.integers(1, size + 1))
            file.seek(place + int(generator.integers(0, size - length + 1)))
            file.write(generator.bytes(length))
    return [f[:3] for f in found]


def test_streams_of_other_sizes(session):
    """Chunks that hold more or less than they should: cut or filled up with zeros, or an error; never anything else."""
    codecs = {"gzip": [("gzip", 4)], "lzf": ["lzf"], "shuffle_gzip": ["shuffle", ("gzip", 4)], "sum": ["fletcher32"]}
    if hdf5lib.hdf5plugin:
        codecs.update({"lz4": [plugin("LZ4")], "zstd": [plugin("Zstd")], "blosc": [plugin("Blosc")],
                       "bitshuffle": [plugin("Bitshuffle")], "bitshuffle_zstd": [plugin("Bitshuffle", cname="zstd")]})
    if hdf5lib.can_write("szip"):
        codecs["szip"] = [("szip", "nn", 8)]
    codecs["scaleoffset"], codecs["nbit"] = [("scaleoffset", "int", 0)], ["nbit"]
    for label, filters in codecs.items():
        for rows in (4, 100000):
            check_other_size(session, "%s-%d" % (label, rows), filters, rows)


def check_other_size(session, label, filters, rows):
    """Puts a chunk of other rows into a dataset whose chunks have 16."""
    with Maker(session.path(label + ".h5"), rows=32) as m:
        source = m.make("source", "<i4", (rows, 13), (rows, 13), filters=filters)
        source[...] = 7 + numpy.arange(rows)[:, None] % 3
        m.file.flush()
        mask, stored = source.id.read_direct_chunk((0, 0))
        data = m.add("x", m.numbers("<i4", 13, small=True), (16, 13), filters=filters)
        data.id.write_direct_chunk((16, 0), stored, mask)
        good = data[:16]
        whole = source[:16]
    started = time.monotonic()
    with Pipeline(session.stoker, 'hdf5("%s", row="/row", x="/x") | batch(16)' % m.path, threads=1, on_error=SKIP,
                  memory_bytes=64 << 20) as pipeline:
        found = hdf5lib.joined(list(pipeline))
        skipped = pipeline.stats().skipped
    assert time.monotonic() - started < LONGEST, label
    assert (found["x"][:16] == good).all() and skipped in (0, 16), (label, skipped)
    if not skipped and not any("shuffle" in str(f) for f in filters):
        have = min(rows, 16)
        assert (found["x"][16:16 + have] == whole[:have]).all(), label


def test_bombs_stop_at_the_chunk(session):
    """A small chunk that would unpack to a gigabyte takes neither the memory nor the time."""
    coder = zlib.compressobj(9)
    bomb = b"".join(coder.compress(bytes(1 << 24)) for _ in range(64)) + coder.flush()
    twice = zlib.compress(bomb, 9)
    with Maker(session.path("bomb.h5"), rows=32) as m:
        for name, filters, stored in (("once", [("gzip", 9)], bomb), ("twice", [("gzip", 9)] * 2, twice)):
            dataset = m.make(name, "<i4", (32, 13), (16, 13), filters=filters)
            dataset.id.write_direct_chunk((0, 0), stored)
            dataset.id.write_direct_chunk((16, 0), bomb, 0)
    before = peak_memory()
    for name in ("once", "twice"):
        with Pipeline(session.stoker, 'hdf5("%s", row="/row", x="/%s") | batch(16)' % (m.path, name), threads=2,
                      on_error=SKIP, memory_bytes=64 << 20) as pipeline:
            found = hdf5lib.joined(list(pipeline))
            assert pipeline.stats().skipped + len(found.get("row", ())) == 32
        assert not found or not found["x"].any()
    assert peak_memory() - before < 256 << 20, "it took %d MiB" % ((peak_memory() - before) >> 20)


def peak_memory():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


# ---- files ----

def test_no_hdf5_file(session):
    for name, data in (("text.h5", b"just text\n" * 100), ("empty.h5", b""), ("short.h5", b"\x89HDF"),
                       ("signature.h5", b"\x89HDF\r\n\x1a\n"), ("zeros.h5", bytes(5000)),
                       ("later.h5", bytes(512) + b"\x89HDF\r\n\x1a\n" + bytes(100))):
        path = session.path(name)
        with open(path, "wb") as file:
            file.write(data)
        fails(session, 'hdf5("%s") | batch(7)' % path, "CORRUPT IO INVALID UNSUPPORTED", path)
        fails(session, 'hdf5("%s", x="/x") | batch(7)' % path, "CORRUPT IO INVALID UNSUPPORTED", path)


def test_unreadable_files(session):
    good = sample_file(session)
    fails(session, 'hdf5("%s") | batch(7)' % session.path("none.h5"), "IO INVALID", session.path("none.h5"))
    fails(session, 'hdf5("%s") | batch(7)' % session.path("none-*.h5"), "IO INVALID", "none-*.h5")
    fails(session, 'hdf5("%s") | batch(7)' % session.directory, "IO INVALID CORRUPT UNSUPPORTED", session.directory)
    os.mkfifo(session.path("pipe.h5"))
    fails(session, 'hdf5("%s") | batch(7)' % session.path("pipe.h5"), "IO INVALID CORRUPT UNSUPPORTED", "pipe.h5")
    fails(session, 'hdf5("%s", "%s") | batch(7)' % (good, session.path("none.h5")), "IO INVALID", "none.h5")
    if os.geteuid():
        os.chmod(good, 0)
        fails(session, 'hdf5("%s") | batch(7)' % good, "IO", good)


def test_truncated_file(session):
    for form, libver in hdf5lib.FORMATS.items():
        path = sample_file(session, form + ".h5", libver)
        size = os.path.getsize(path)
        whole = open(path, "rb").read()
        for keep in (size - 1, size - 100, size // 2, 2000, 600, 96, 48, 8):
            cut = session.path("cut.h5")
            with open(cut, "wb") as file:
                file.write(whole[:keep])
            fails(session, 'hdf5("%s", x="/x") | batch(7)' % cut, "CORRUPT IO INVALID UNSUPPORTED", cut)


def test_one_bad_file_among_good_ones(session):
    """Stopped by default; left out and counted when bad ones are skipped."""
    good = [sample_file(session, "%d.h5" % i) for i in range(2)]
    bad = session.path("bad.h5")
    with open(good[0], "rb") as file, open(bad, "wb") as out:
        out.write(file.read()[:3000])
    text = 'hdf5("%s", "%s", "%s", row="/row", x="/x") | batch(7)' % (good[0], bad, good[1])
    fails(session, text, "CORRUPT IO", bad)
    with Pipeline(session.stoker, text, threads=2, on_error=SKIP) as pipeline:
        rows = hdf5lib.joined(list(pipeline))["row"].tolist()
        skipped = pipeline.stats().skipped
    assert rows == list(range(61)) * 2 and skipped >= 1, (len(rows), skipped)


def test_chunk_table_points_past_the_end(session):
    """Addresses and sizes in the chunk table that do not lie in the file."""
    for address in (None, 2 ** 40, 2 ** 63 - 1, 2 ** 64 - 2):
        path = sample_file(session)
        place = chunk_place(path, "x", (16, 0))
        data = bytearray(open(path, "rb").read())
        entry = data.index(place.byte_offset.to_bytes(8, "little"))
        wanted = len(data) - 3 if address is None else address
        data[entry:entry + 8] = wanted.to_bytes(8, "little")
        with open(path, "wb") as file:
            file.write(data)
        fails(session, 'hdf5("%s", row="/row", x="/x") | batch(7)' % path, "CORRUPT", path, "/x")
    path = sample_file(session)
    place = chunk_place(path, "x", (16, 0))
    data = bytearray(open(path, "rb").read())
    # Before an address in a v1 B-tree stand size, mask and the coordinates of the chunk.
    entry = data.index(place.byte_offset.to_bytes(8, "little")) - 4 - 4 - 3 * 8
    assert int.from_bytes(data[entry:entry + 4], "little") == place.size
    data[entry:entry + 4] = (2 ** 31).to_bytes(4, "little")
    with open(path, "wb") as file:
        file.write(data)
    fails(session, 'hdf5("%s", row="/row", x="/x") | batch(7)' % path, "CORRUPT", path, "/x")


def test_addresses_in_heaps(session):
    """Variable-length values whose heap is damaged: an error that names file and dataset."""
    with Maker(session.path("text.h5")) as m:
        texts = numpy.array([b"text %d" % i for i in range(61)], object)
        m.add("text", texts, dtype=h5py.string_dtype())
        place = m.file["text"].id.get_offset()
        m.file.flush()
        place = place or m.file["text"].id.get_offset()
    for change in (b"\xff" * 8, (2 ** 40).to_bytes(8, "little"), (8).to_bytes(8, "little")):
        path = session.path("changed.h5")
        shutil.copy(m.path, path)
        with open(path, "r+b") as file:
            file.seek(place + 16 * 20 + 4)
            file.write(change)
        fails(session, 'hdf5("%s") | batch(7)' % path, "CORRUPT", path, "/text")
        with Pipeline(session.stoker, 'hdf5("%s") | batch(7)' % path, threads=2, on_error=SKIP) as pipeline:
            rows = hdf5lib.joined(list(pipeline))["row"].tolist()
            assert rows == [r for r in range(61) if r != 20] and pipeline.stats().skipped == 1, (rows, change)


# ---- files that change ----

def changing_file(session, rows=20000):
    with Maker(session.path("moving.h5"), rows=rows) as m:
        m.make("x", "<i4", (rows, 500), (20, 500), maxshape=(None, 500), filters=[("gzip", 1)])[:, 0] = numpy.arange(rows)
    return m.path


def after_change(session, path, change, epochs=1):
    """Reads two batches, changes the file, reads on: the error, or None when all rows came as they were."""
    text = 'hdf5("%s", row="/row", x="/x") | repeat(%d) | batch(10)' % (path, epochs)
    with Pipeline(session.stoker, text, threads=2, memory_bytes=64 << 20) as pipeline:
        for _ in range(2):
            pipeline.next()
        change()
        try:
            for batch in pipeline:
                assert (batch["x"][:, 0] == batch["row"]).all(), "rows of a changed file came without an error"
        except pipelib.PipelineError as error:
            return str(error)
    return None


def test_file_that_grows_is_noticed(session):
    path = changing_file(session)

    def append():
        with h5py.File(path, "r+") as file:
            file["x"].resize((21000, 500))
            file["x"][20000:] = -1
            file["x"][10000:10010] = -1
    message = after_change(session, path, append)
    assert message and path in message and "changed" in message, message


def test_file_written_over_is_noticed(session):
    path = changing_file(session)
    size = os.path.getsize(path)

    def overwrite():
        with open(path, "r+b") as file:
            file.seek(size // 2)
            file.write(bytes(size // 4))
    message = after_change(session, path, overwrite)
    assert message and path in message and "changed" in message, message


def test_file_that_shrinks_is_noticed(session):
    path = changing_file(session)
    message = after_change(session, path, lambda: os.truncate(path, os.path.getsize(path) // 2))
    assert message and path in message, message


def test_replaced_file(session):
    """Another file in its place: the old rows or an error, never rows of the new one."""
    path = changing_file(session)

    def replace():
        with Maker(session.path("other.h5"), rows=20000) as m:
            m.make("x", "<i4", (20000, 500), (20, 500), filters=[("gzip", 1)])[:, 0] = -1
        os.replace(session.path("other.h5"), path)
    message = after_change(session, path, replace)
    assert message is None or path in message and "changed" in message, message


def test_file_that_vanishes(session):
    path = changing_file(session)
    message = after_change(session, path, lambda: os.remove(path))
    assert message is None or path in message, message


# ---- what does not fit together ----

def test_missing_dataset_names_the_nearest(session):
    with Maker(session.path("x.h5")) as m:
        m.add("group/features", m.numbers("<i4", 3))
        m.add("table", numpy.zeros(m.rows, [("alpha", "<i4"), ("beta", "<f4")]))
    for name, near in (("/group/featurs", "/group/features"), ("group/feature", "/group/features"), ("/rwo", "/row")):
        fails(session, 'hdf5("%s", x="%s") | batch(7)' % (m.path, name), "INVALID UNSUPPORTED", m.path, name.strip("/"), near)
    fails(session, 'hdf5("%s", x="/group") | batch(7)' % m.path, "INVALID UNSUPPORTED", m.path, "group")
    fails(session, 'hdf5("%s", x="/table/alfa") | batch(7)' % m.path, "INVALID UNSUPPORTED", m.path, "/table", "alfa", "alpha")
    fails(session, 'hdf5("%s", x="/row/none") | batch(7)' % m.path, "INVALID UNSUPPORTED", m.path, "/row")
    fails(session, 'hdf5("%s", x="") | batch(7)' % m.path, "INVALID UNSUPPORTED")
    fails(session, 'hdf5("%s", x="/") | batch(7)' % m.path, "INVALID UNSUPPORTED")


def test_numbers_of_rows_that_differ(session):
    with Maker(session.path("x.h5")) as m:
        m.add("short", hdf5lib.numbers("<i4", (60, 3)))
    for source in ('hdf5("%s")' % m.path, 'hdf5("%s", a="/row", b="/short")' % m.path):
        fails(session, source + " | batch(7)", "INVALID", m.path, "/row", "61", "/short", "60")


def test_files_that_differ(session):
    for i, (name, data) in enumerate((("x", numpy.zeros((61, 3), "<i4")), ("x", numpy.zeros((61, 3), "<f4")),
                                      ("x", numpy.zeros((61, 4), "<i4")), ("z", numpy.zeros((61, 3), "<i4")),
                                      ("x", numpy.zeros((60, 3), "<i4")), ("x", numpy.zeros((61, 3), "<i8")))):
        with Maker(session.path("%d.h5" % i)) as m:
            m.add(name, data)
    for i in range(1, 6):
        other = session.path("%d.h5" % i)
        source = 'hdf5("%s", "%s", row="/row", x="/x")' % (session.path("0.h5"), other)
        fails(session, source + " | batch(7)", "INVALID", other, "/x", *(["60", "61"] if i == 4 else []))


def test_what_cannot_be_a_field(session):
    with Maker(session.path("x.h5")) as m:
        m.add("ranks", numpy.zeros((61, 1, 2, 1, 2, 1, 1, 2), "<i4"))
        m.make("lists", h5py.vlen_dtype(h5py.vlen_dtype("<i4")), (61,))
        m.make("pairs", h5py.vlen_dtype("<i4"), (61, 2))
        m.make("regions", h5py.regionref_dtype, (61,))
        m.file["nothing"] = h5py.Empty("<f4")
    for name in ("ranks", "lists", "pairs", "regions", "nothing"):
        fails(session, 'hdf5("%s", row="/row", x="/%s") | batch(7)' % (m.path, name), "UNSUPPORTED INVALID", m.path, "/" + name)
    rows = hdf5lib.run(session.stoker, 'hdf5("%s", row="/row")' % m.path, "batch(7)", 2)["row"]
    assert rows.tolist() == list(range(61))


def test_names_that_collide(session):
    with Maker(session.path("x.h5")) as m:
        m.add("a/b", m.numbers("<i4"))
        m.add("a_b", m.numbers("<i4"))
    fails(session, 'hdf5("%s") | batch(7)' % m.path, "INVALID", "a_b", "a/b")


# ---- big claims ----

def test_huge_and_sparse(session):
    """A huge shape with two chunks takes no time and no memory."""
    for form, libver in hdf5lib.FORMATS.items():
        for limits in (None, (None,)):
            # The arrays of the new format have an entry for each chunk that could be, and libhdf5 looks at all.
            rows = 10 ** 15 if form == "old" else 10 ** 9
            with h5py.File(session.path("huge-%s-%s.h5" % (form, bool(limits))), "w", libver=libver) as file:
                data = file.create_dataset("x", (rows,), "<i4", chunks=(1000,), maxshape=limits, fillvalue=3)
                data[5:8] = [1, 2, 9]
                data[rows // 2] = 4
                path = file.filename
            check_huge(session, path)


def check_huge(session, path):
    started = time.monotonic()
    try:
        with Pipeline(session.stoker, 'hdf5("%s") | batch(10)' % path, threads=2, memory_bytes=256 << 20) as pipeline:
            assert pipeline.next()["x"].tolist() == [3, 3, 3, 3, 3, 1, 2, 9, 3, 3]
    except pipelib.PipelineError as error:
        assert path in str(error), error
        print("huge and sparse: %s" % str(error).splitlines()[0])
    assert time.monotonic() - started < LONGEST


def test_chunks_beyond_the_budget(session):
    with Maker(session.path("wide.h5"), rows=61) as m:
        m.make("x", "|u1", (61, 1 << 30), (1, 1 << 30), filters=[("gzip", 1)])[3, 5] = 7
    fails(session, 'hdf5("%s") | batch(7)' % m.path, "BUDGET", "bytes", memory_bytes=64 << 20)


def test_loops_of_links(session):
    with Maker(session.path("x.h5")) as m:
        m.add("group/x", m.numbers("<i4"))
        m.file["group/self"] = m.file["group"]
        m.file["group/root"] = m.file["/"]
        m.file["round"] = h5py.SoftLink("/round")
        m.file["group/same"] = m.file["group/x"]
    source = 'hdf5("%s", row="/row", x="/group/self/self/root/group/x")' % m.path
    assert hdf5lib.run(session.stoker, source, "batch(7)", 2)["row"].tolist() == list(range(61))
    fails(session, 'hdf5("%s", x="/round") | batch(7)' % m.path, "INVALID UNSUPPORTED CORRUPT IO", m.path)
    found = hdf5lib.run(session.stoker, 'hdf5("%s")' % m.path, "batch(7)", 2)
    assert found["row"].tolist() == list(range(61)), sorted(found)


# ---- mutations ----

def small_files(directory):
    """A few datasets of each file of the matrix, copied as they are stored into a small file."""
    generator = numpy.random.default_rng(11)
    found = []
    for subject, form in hdf5lib.matrix():
        try:
            m = made(directory, subject, form)
        except hdf5lib.Skip:
            continue
        path = os.path.join(directory, "small-%s-%s.h5" % (subject.__name__, form))
        with h5py.File(m.path, "r") as source, h5py.File(path, "w", libver=m.libver) as file:
            names = [n for n in hdf5lib.datasets(source) if n != "row" and "long" not in n]
            for name in ["row"] + list(generator.permutation(names)[:5]):
                source.copy(name, file, name=hdf5lib.plain(name))
        if subject is not hdf5lib.library and subject is not hdf5lib.virtual:
            os.remove(m.path)
        found.append(path)
    return found


def mutated(data, generator):
    """A copy of a file with one or a few changes."""
    data = bytearray(data)
    kind = generator.choice(["flip", "flip", "flip", "number", "zero", "noise", "cut", "copy"])
    # Half of them hit the start, where most of the metadata is.
    end = len(data) if generator.integers(0, 2) else min(len(data), 4096)
    at = int(generator.integers(0, end))
    length = int(generator.integers(1, 65))
    if kind == "flip":
        for _ in range(int(generator.integers(1, 9))):
            data[int(generator.integers(0, end))] ^= 1 << int(generator.integers(0, 8))
    elif kind == "number":
        value = int(generator.choice([0, 1, 255, 65535, 2 ** 31 - 1, 2 ** 32 - 1, 2 ** 63 - 1, len(data), len(data) - 1]))
        size = int(generator.choice([1, 2, 4, 8]))
        data[at:at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    elif kind == "zero":
        data[at:at + length] = bytes(len(data[at:at + length]))
    elif kind == "noise":
        data[at:at + length] = generator.bytes(len(data[at:at + length]))
    elif kind == "cut":
        del data[at:]
    else:
        other = int(generator.integers(0, len(data)))
        part = data[other:other + length]
        data[at:at + len(part)] = part
    return bytes(data), str(kind)


def read_mutation(stoker, path, names, generator):
    """Reads a file to its end (or for a while: its rows may be without number): how that went."""
    choice = list(names) if generator.integers(0, 2) else list(generator.permutation(names)[:2])
    arguments = "" if generator.integers(0, 3) == 0 else ", " + hdf5lib.arguments(choice)
    ops = str(generator.choice(["batch(16)", "shuffle(seed=1) | batch(16)", "shuffle(seed=1, window=2) | batch(5)"]))
    config = {"threads": int(generator.integers(1, 4)), "on_error": int(generator.integers(0, 2)), "memory_bytes": 64 << 20}
    stage = "refused"
    try:
        with Pipeline(stoker, 'hdf5("%s"%s) | %s' % (path, arguments, ops), **config) as pipeline:
            stage = "failed"
            started = time.monotonic()
            for number, _ in enumerate(pipeline):
                if number > 100 or time.monotonic() - started > 2:
                    return "endless"
            return "skipped some" if pipeline.stats().skipped else "read"
    except pipelib.PipelineError as error:
        assert str(error).strip() and error.error.status, "an error without a message"
        return stage


def mutate(build, directory, count, seed):
    """Reads `count` changed files in this process, which must survive; prints what happened as JSON."""
    faulthandler.enable()
    stoker = pipelib.Stoker(build)
    sources = {}
    for path in small_files(directory):
        with h5py.File(path, "r") as file:
            sources[path] = open(path, "rb").read(), hdf5lib.datasets(file)
    paths, target = sorted(sources), os.path.join(directory, "mutation.h5")
    outcomes, slowest = collections.Counter(), (0, "")
    descriptors = None
    for number in range(count):
        generator = numpy.random.default_rng([seed, number])
        source = paths[number % len(paths)]
        data, kind = mutated(sources[source][0], generator)
        with open(target, "wb") as file:
            file.write(data)
        with open(os.path.join(directory, "which"), "w", encoding="utf-8") as file:
            file.write("mutation %d of seed %d: %s of %s" % (number, seed, kind, os.path.basename(source)))
        started = time.monotonic()
        outcomes[read_mutation(stoker, target, sources[source][1], generator)] += 1
        took = time.monotonic() - started
        slowest = max(slowest, (took, "mutation %d, %s of %s" % (number, kind, os.path.basename(source))))
        if number == 10:
            descriptors = len(os.listdir("/proc/self/fd"))
    result = {"outcomes": outcomes, "slowest": slowest, "files": len(paths), "children": children(),
              "descriptors": [descriptors, len(os.listdir("/proc/self/fd"))]}
    print(json.dumps(result))


def children():
    """How many child processes there are, dead ones that nobody asked after included."""
    try:
        return 1 + (os.waitpid(-1, os.WNOHANG)[0] > 0)
    except ChildProcessError:
        return 0


def option(name, default):
    return next((int(a.split("=")[1]) for a in sys.argv if a.startswith("--%s=" % name)), default)


def test_mutations(session):
    """Changed files of the whole matrix, read in one process: it never crashes, hangs, or leaves anything behind."""
    count, seed = option("mutations", MUTATIONS), option("seed", 1)
    command = [sys.executable, os.path.abspath(__file__), "--mutate", session.build, session.directory, str(count), str(seed)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=120 + count * 2)
    if result.returncode:
        keep_evidence(session, result)
    found = json.loads(result.stdout.decode().splitlines()[-1])
    outcomes = found["outcomes"]
    kinds = ", ".join("%d %s" % (n, k) for k, n in sorted(outcomes.items()))
    done = sum(outcomes.values())
    print("%d mutations of %d files: %s; slowest %.1f s (%s)" % (done, found["files"], kinds, *found["slowest"]))
    assert found["slowest"][0] < LONGEST, found["slowest"]
    assert found["children"] == 0, "%d child processes are left" % found["children"]
    assert count < 50 or outcomes.get("read") and outcomes.get("refused") and outcomes.get("failed"), outcomes
    assert found["descriptors"][0] is None or found["descriptors"][1] <= found["descriptors"][0], found["descriptors"]


def keep_evidence(session, result):
    kept = os.path.join(tempfile.gettempdir(), "stoker-hdf5-mutation.h5")
    if os.path.exists(session.path("mutation.h5")):
        shutil.copy(session.path("mutation.h5"), kept)
        with open(session.path("which"), encoding="utf-8") as file:
            print("%s, kept as %s" % (file.read(), kept))
    raise AssertionError("exit status %d: %s" % (result.returncode, result.stderr.decode("utf-8", "replace")[-3000:]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--mutate"]:
        mutate(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
        sys.exit(0)
    sys.exit(hdf5lib.main([(test.__name__, test) for test in hdf5lib.tests_of(sys.modules[__name__])]))
