"""The hdf5 source where it is hard: rows that libhdf5 reads, in pieces and in little memory, rows without values, odd orders."""
import os
import random
import signal
import subprocess
import sys
import threading
import time

import h5py
import numpy
from h5py import h5d, h5p, h5s, h5t

import hdf5lib
import pipelib

ROWS = 300


def run(session, source, ops, threads=3, **config):
    return hdf5lib.run(session.stoker, source, ops, threads, **config)


def refused(session, text, part, **config):
    try:
        list(session.stoker.batches(text, **config))
    except pipelib.PipelineError as error:
        assert part in str(error), "%r is not in: %s" % (part, error)
        return
    assert False, "not refused: %s" % text


def add_odd_integers(file, name, data, chunks=None):
    """Integers of 24 bits, which only libhdf5 reads."""
    kind = h5t.STD_I32LE.copy()
    kind.set_precision(24)
    kind.set_size(3)
    plist = h5p.create(h5p.DATASET_CREATE)
    if chunks:
        plist.set_chunk(chunks)
    h5d.create(file.id, name.encode(), kind, h5s.create_simple(data.shape), plist).write(h5s.ALL, h5s.ALL, data)


def add_virtual(file, name, source, dtype, rows):
    layout = h5py.VirtualLayout((rows,), dtype=dtype)
    layout[:] = h5py.VirtualSource(source, name, (rows,))
    file.create_virtual_dataset(name, layout)


def mixed_file(session):
    """Datasets that libhdf5 reads, chunks that split rows and strings among them, beside some that we read ourselves."""
    integers = numpy.arange(ROWS * 24, dtype="i4").reshape(ROWS, 4, 6)
    floats = hdf5lib.numbers("f4", (ROWS, 7), small=True)
    texts = hdf5lib.words(ROWS, 90)
    other, path = session.path("texts.h5"), session.path("mixed.h5")
    with h5py.File(other, "w") as file:
        file.create_dataset("text", data=texts, dtype=h5py.string_dtype())
    with h5py.File(path, "w") as file:
        file.create_dataset("row", data=numpy.arange(ROWS))
        file.create_dataset("floats", data=floats, chunks=(7, 3), compression=1, shuffle=True)
        add_odd_integers(file, "split", integers, (10, 3, 5))
        add_odd_integers(file, "whole", integers)
        add_virtual(file, "text", other, h5py.string_dtype(), ROWS)
    return path, {"row": numpy.arange(ROWS), "floats": floats, "split": integers, "whole": integers, "text": texts}


def check_rows(found, wanted):
    order = found["row"]
    for name in found:
        if name == "text":
            assert list(found[name]) == [wanted[name][i] for i in order], "text differs"
        else:
            assert (found[name] == wanted[name][order]).all(), "%s differs" % name


def test_library_and_own_chunks_together(session):
    path, wanted = mixed_file(session)
    for cache in (0, 30000, 400000):
        for ops in ("batch(7)", "shuffle(seed=1) | batch(31)", "shuffle(seed=1, window=2) | repeat(2) | batch(31)",
                    'filter("row % 3 != 0") | batch(9)', "drop(split) | shuffle(seed=2) | batch(50)"):
            found = run(session, 'hdf5("%s", cache_bytes=%d)' % (path, cache), ops, threads=1 if cache else 6)
            check_rows(found, wanted)
            assert len(found["row"]) == (200 if "filter" in ops else 600 if "repeat" in ops else ROWS)


def test_long_texts_by_the_library(session):
    """Contents are much larger than the rows that point to them."""
    texts = [b"%d" % i * 3000 for i in range(100)]
    with h5py.File(session.path("a.h5"), "w") as file:
        file.create_dataset("text", data=texts, dtype=h5py.string_dtype())
    with h5py.File(session.path("b.h5"), "w") as file:
        add_virtual(file, "text", session.path("a.h5"), h5py.string_dtype(), 100)
    found = run(session, 'hdf5("%s")' % session.path("b.h5"), "batch(7)")
    assert list(found["text"]) == texts


def children(name):
    """Processes of that name that this one started."""
    found = []
    for task in os.listdir("/proc/self/task"):
        with open("/proc/self/task/%s/children" % task, encoding="ascii") as file:
            found += [int(pid) for pid in file.read().split()]
    return [pid for pid in found if command(pid) == name]


def command(pid):
    try:
        with open("/proc/%d/comm" % pid, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


def test_killed_helpers_are_started_again(session):
    """A helper that is killed, as the kernel does where memory is short, costs no row: that says nothing about the file."""
    path, wanted = mixed_file(session)
    rounds = 2
    source = 'hdf5("%s", cache_bytes=30000) | shuffle(seed=1) | batch(20) | repeat(%d)' % (path, rounds)
    stop, killed = threading.Event(), []

    def kill():
        pause = 0.3
        while not stop.wait(pause):
            pause = 2  # a helper takes a while to start, and is not tried for ever
            for pid in children("stoker-hdf5"):
                try:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                except OSError:
                    pass

    pipeline = hdf5lib.Pipeline(session.stoker, source, threads=4, on_error=1)
    killer = threading.Thread(target=kill)
    killer.start()
    rows = 0
    try:
        with pipeline:
            for batch in pipeline:
                check_rows(batch, wanted)
                rows += len(batch["row"])
            skipped = pipeline.stats().skipped
    finally:
        stop.set()
        killer.join()
    assert rows == rounds * ROWS and skipped == 0, "%d rows and %d skipped ones" % (rows, skipped)
    assert killed, "nobody was killed, so nothing was shown"


def test_rows_without_values(session):
    for number, options in enumerate([{}, {"chunks": (4, 1), "compression": 1}, {"chunks": (4, 1)}]):
        for dtype in ("f4", "S5", h5py.string_dtype()):
            path = session.path("empty-%d.h5" % number)
            with h5py.File(path, "w") as file:
                file.create_dataset("nothing", shape=(10, 0), maxshape=(None, None) if options else None, dtype=dtype, **options)
                file.create_dataset("row", data=numpy.arange(10))
            for ops in ("batch(3)", "shuffle(seed=1, window=auto) | batch(4)", 'filter("row != 3") | batch(4)'):
                found = run(session, 'hdf5("%s")' % path, ops)
                assert sorted(found["row"]) == [i for i in range(10) if "filter" not in ops or i != 3]
                assert numpy.size(found["nothing"]) == 0


def test_what_cannot_be(session):
    path = session.path("a.h5")
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=numpy.arange(100), chunks=(4,), compression=1)
    refused(session, 'hdf5([], x="/x") | batch(3)', "at least one file")
    refused(session, 'hdf5("%s") | batch(8) | shuffle(window=2)' % path, "put it before batch")
    many = [session.path("many-%d.h5" % i) for i in range(3)]
    for name in many:
        with h5py.File(name, "w") as file:
            file.create_dataset("x", shape=(2**62,), dtype="u1", chunks=(2**20,), compression=1)
    refused(session, 'hdf5(["%s"]) | take(10) | batch(3)' % '", "'.join(many), "more than 2^63")
    found = run(session, 'hdf5("%s")' % many[0], "skip(%d) | take(10) | batch(3)" % 2**60)
    assert list(found["x"]) == [0] * 10


def test_a_checkpoint_knows_the_chunks(session):
    """Also where none is stored, so that neither size nor addresses tell."""
    path, place = session.path("a.h5"), session.path("place")
    for rows in (10, 20):
        with h5py.File(path, "w") as file:
            file.create_dataset("x", shape=(1000, 5), chunks=(rows, 5), compression=1, dtype="f4")
        text = 'hdf5("%s") | shuffle(seed=1, window=3) | batch(9)' % path
        run_it = [session.program, "run", "-q", "--no-index-cache", "-e", text]
        if rows == 10:
            assert subprocess.run(run_it + ["--steps", "5", "--checkpoint", place], timeout=60, check=False).returncode == 0
            assert subprocess.run(run_it + ["--resume", place], timeout=60, check=False).returncode == 0
        else:
            resumed = subprocess.run(run_it + ["--resume", place], stderr=subprocess.PIPE, timeout=60, check=False)
            assert resumed.returncode != 0 and b"other data" in resumed.stderr, resumed.stderr


def test_bad_chunks_are_not_read_over_and_over(session):
    """Workers that wait for a slow consumer do nothing, whatever lies ahead."""
    path = session.path("a.h5")
    with h5py.File(path, "w") as file:
        data = file.create_dataset("x", data=hdf5lib.numbers("f4", (4000, 50), small=True), chunks=(16, 50), compression=4).id
        places = [data.get_chunk_info(i).byte_offset for i in range(100, 110)]
    with open(path, "r+b") as file:
        for place in places:
            file.seek(place)
            file.write(b"\xff" * 20)
    with hdf5lib.Pipeline(session.stoker, 'hdf5("%s") | batch(16)' % path, threads=1, on_error=1) as pipeline:
        rows = len(pipeline.next()["x"])
        time.sleep(1)  # what is bad lies ahead of the batches that are made meanwhile
        stats = pipeline.stats()
        assert stats.bytes_read < 10 * os.path.getsize(path), "%d bytes were read" % stats.bytes_read
        rows += sum(len(batch["x"]) for batch in pipeline)
        assert rows == 4000 - 160 and pipeline.stats().skipped == 160


def random_dataset(draw, file, name, rows, dtype, trailing):
    """A dataset of any layout; parts of it may never have been written."""
    shape = (rows,) + trailing
    data = hdf5lib.numbers(dtype, shape, seed=draw.getrandbits(20), small=True)
    options = {}
    if draw.random() < 0.7:
        options["chunks"] = tuple(draw.randint(1, max(1, int(n * draw.choice([0.2, 0.6, 1, 1.3])))) for n in shape)
        options["maxshape"] = (None,) * len(shape)
        if draw.random() < 0.8:
            options.update(compression=draw.choice(["gzip", "lzf"]), shuffle=draw.random() < 0.6, fletcher32=draw.random() < 0.2)
    dataset = file.create_dataset(name, shape, dtype=dtype, fillvalue=numpy.array(7, dtype), **options)
    if "chunks" in options and draw.random() < 0.5:
        first = draw.randrange(rows)
        dataset[first:first + rows // 3] = data[first:first + rows // 3]
    else:
        dataset[...] = data
    return dataset[...]


def test_random_files_and_orders(session):
    for round_ in range(25):
        draw = random.Random(round_)
        rows, path = draw.choice([1, 5, 61, 200]), session.path("random.h5")
        wanted = {"row": numpy.arange(rows)}
        with h5py.File(path, "w", libver=draw.choice(list(hdf5lib.FORMATS.values()))) as file:
            file.create_dataset("row", data=wanted["row"])
            for i in range(draw.randint(1, 3)):
                trailing = tuple(draw.randint(1, 9) for _ in range(draw.randint(0, 2)))
                kind = draw.choice(["<f4", ">f4", "|u1", "<i2", ">i8", "<f8"])
                wanted["d%d" % i] = random_dataset(draw, file, "d%d" % i, rows, kind, trailing)
        ops = []
        if draw.random() < 0.7:
            ops.append("shuffle(seed=%d, window=%s)" % (draw.randint(0, 9), draw.choice(["0", "1", "2", "7", "auto"])))
        if draw.random() < 0.4:
            ops.append("repeat(%d)" % draw.choice([2, 7]))
        ops.append("batch(%d)" % draw.choice([1, 8, 256]))
        source = 'hdf5("%s", cache_bytes=%d)' % (path, draw.choice([0, 0, 30000]))
        single, many = (run(session, source, " | ".join(ops), threads) for threads in (1, 8))
        for name in wanted:
            assert (single[name] == wanted[name][single["row"]]).all(), "%s differs in round %d" % (name, round_)
            assert (single[name] == many[name]).all(), "%s differs with threads in round %d" % (name, round_)


if __name__ == "__main__":
    sys.exit(hdf5lib.main([(test.__name__, test) for test in hdf5lib.tests_of(sys.modules[__name__])]))
