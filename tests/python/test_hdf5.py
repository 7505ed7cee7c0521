#!/usr/bin/env python3
"""HDF5 files of every layout, index, filter and type, each value equal to what h5py reads of the same file.

Usage: test_hdf5.py BUILD_DIR [PART_OF_A_NAME...]
Needs h5py and hdf5plugin (tests/python/requirements.txt); without h5py it is skipped. Prints "N passed, N failed".
"""
import glob
import os
import sys

try:
    import h5py
    import numpy
except ImportError as missing:
    print("skipped: %s; scripts/deps.sh test installs it" % missing)
    sys.exit(77)

import hdf5lib
from hdf5lib import Maker, Pipeline, Skip, check_file, check_mode, contents, made, numbers

FEW = [hdf5lib.MODES[1], hdf5lib.MODES[4]]
BZIP2 = 307


# ---- the matrix ----

def matrix_test(subject, form):
    def test(session):
        m = made(session.directory, subject, form)
        wanted = contents(m.path, m.wanted)
        if subject is hdf5lib.foreign and not session.helper_has_filter(BZIP2):
            raise Skip("%s does not load the plug-ins of hdf5plugin" % session.helper_library)
        check_file(session.stoker, m.path, wanted)
    return "matrix_%s_%s" % (subject.__name__, form), test


def test_index_kinds_are_all_there(session):
    """The files of the matrix have the chunk indexes that they are made for."""
    seen = set()
    for form in hdf5lib.FORMATS:
        m = made(session.directory, hdf5lib.indexes, form)
        with h5py.File(m.path, "r") as file:
            for name, kind in m.indexes.items():
                found = hdf5lib.index_of(file[name])
                assert found == kind, "%s of %s has the index %s, wanted %s" % (name, m.path, found, kind)
                seen.add(kind)
    assert seen == set(hdf5lib.INDEXES), seen


def test_user_blocks(session):
    for subject in (hdf5lib.layouts, hdf5lib.indexes, hdf5lib.fills, hdf5lib.strings, hdf5lib.sequences):
        for form in hdf5lib.FORMATS:
            for size in (512, 4096):
                m = made(session.directory, subject, form, userblock=size)
                with open(m.path, "r+b") as file:
                    file.write(b"what a user put there" * (size // 21))
                check_file(session.stoker, m.path, contents(m.path, m.wanted), FEW)


def test_large_chunks(session):
    m = made(session.directory, hdf5lib.large, "new")
    check_file(session.stoker, m.path, contents(m.path), FEW)


def test_no_rows(session):
    for form in hdf5lib.FORMATS:
        m = made(session.directory, hdf5lib.empty, form, rows=0)
        check_file(session.stoker, m.path, contents(m.path, m.wanted), FEW)


def test_scalars_are_one_row(session):
    for form in hdf5lib.FORMATS:
        m = made(session.directory, hdf5lib.scalars, form, rows=1)
        check_file(session.stoker, m.path, contents(m.path, m.wanted), FEW)


# ---- names ----

def test_named_fields(session):
    """Fields have the names that were asked for; a dataset may be asked for twice."""
    m = made(session.directory, hdf5lib.names, "old")
    data = contents(m.path)
    deep = "/deep/group" + "/deep" * 11 + "/x"
    source = 'hdf5("%s", row="/row", first="/a b/c-d", second="grüße/ü", third="%s", again="/a b/c-d")' % (m.path, deep)
    first = data["a b/c-d"]["a_b_c_d"]
    wanted = {"row": data["row"]["row"], "first": first, "again": first, "second": first + 1, "third": first + 2}
    for mode in FEW:
        complaints = check_mode(session.stoker, source, wanted, mode)
        assert not complaints, complaints


def test_members_of_compounds(session):
    """A whole compound gives a field for each member, a path into it that member alone."""
    m = made(session.directory, hdf5lib.compounds, "new")
    data = contents(m.path)
    nested, arrays, many = data["nested0_gzip"], data["arrays1"], data["many1_chunked"]
    source = 'hdf5("%s", row="/row", x="/nested0_gzip", q="/nested0_gzip/n/q", r="/nested0/n/r", n="/nested0/n", ' \
             'c="/arrays1/c", p="/many1_chunked/p/r")' % m.path
    wanted = {"row": data["row"]["row"], "c": arrays["arrays1_c"], "p": many["many1_chunked_p_r"],
              "q": nested["nested0_gzip_n_q"], "r": nested["nested0_gzip_n_r"]}
    for name, column in nested.items():
        wanted["x" + name[len("nested0_gzip"):]] = column
        if "_n_" in name:
            wanted["n" + name[len("nested0_gzip_n"):]] = column
    for mode in FEW:
        complaints = check_mode(session.stoker, source, wanted, mode)
        assert not complaints, complaints


# ---- several files ----

def three_files(session):
    """Files of one set, stored in different ways; what they hold together."""
    parts = []
    packed = {"chunks": (7, 2), "filters": ["shuffle", ("gzip", 4)]}
    for i, (rows, options) in enumerate(((20, {}), (1, {"chunks": (1, 5)}), (40, packed))):
        with Maker(session.path("part-%d.h5" % i), list(hdf5lib.FORMATS.values())[i % 2], rows) as m:
            m.file["row"][...] = numpy.arange(rows) + sum(len(p["row"]) for p in parts)
            m.add("x", numbers("<f4", (rows, 5), seed=i), **options)
            m.add("text", numpy.array(hdf5lib.words(rows, seed=i), object), dtype=h5py.string_dtype())
            m.add("table", hdf5lib.random_records(m, numpy.dtype([("a", "<i4"), ("b", ">f8")]), (rows,)))
        parts.append({field: column for fields in contents(m.path).values() for field, column in fields.items()})
    return hdf5lib.joined(parts)


def test_several_files_are_one_set(session):
    wanted = three_files(session)
    lists = ['"%s"' % session.path("part-*.h5"), ", ".join('"%s"' % p for p in sorted(glob.glob(session.path("part-*.h5"))))]
    for files in lists:
        for source in ("hdf5(%s)" % files, 'hdf5(%s, row="/row", x="/x", text="/text", table="/table")' % files):
            for mode in hdf5lib.MODES:
                complaints = check_mode(session.stoker, source, wanted, mode)
                assert not complaints, (source, mode, complaints)


def test_a_file_may_come_twice(session):
    wanted = three_files(session)
    found = hdf5lib.run(session.stoker, 'hdf5("%s", "%s", row="/row")' % ((session.path("part-0.h5"),) * 2), "batch(7)", 2)
    assert found["row"].tolist() == list(range(20)) * 2, found["row"]
    assert len(wanted["row"]) == 61


# ---- orders ----

def big_file(session):
    """Chunks that do not all fit into a small budget."""
    with Maker(session.path("big.h5"), rows=3000) as m:
        data = numpy.cumsum(m.numbers("<i4", 300, small=True), axis=1, dtype="<i4")
        m.add("x", data, (64, 300), filters=["shuffle", ("gzip", 1)])
        m.add("y", m.numbers("<f4", 40, small=True), (100, 17), filters=["lzf"])
    return {field: column for fields in contents(m.path).values() for field, column in fields.items()}


def test_orders_are_the_same_for_any_threads(session):
    wanted = big_file(session)
    source = 'hdf5("%s")' % session.path("big.h5")
    for ops in ("shuffle(seed=5) | batch(32)", "shuffle(seed=5, window=2) | batch(32)",
                "shuffle(seed=5, window=auto) | batch(50)", "shuffle(seed=5, window=100) | batch(50)",
                "shuffle(seed=5, window=1) | repeat(2) | batch(77)"):
        orders = []
        for threads in (1, 3):
            found = hdf5lib.run(session.stoker, source, ops, threads)
            orders.append(found["row"].tolist())
            complaints = hdf5lib.compare(found, {name: hdf5lib.pick(c, orders[-1]) for name, c in wanted.items()})
            assert not complaints, (ops, threads, complaints)
        assert orders[0] == orders[1], "%s: the order depends on threads" % ops
        assert sorted(orders[0]) == sorted(list(range(3000)) * (2 if "repeat" in ops else 1)), ops


def test_epochs_differ_when_shuffled(session):
    big_file(session)
    for window in ("", ", window=3", ", window=auto"):
        found = hdf5lib.run(session.stoker, 'hdf5("%s", row="/row", x="/x")' % session.path("big.h5"),
                            "shuffle(seed=1%s) | repeat(3) | batch(64)" % window, 2)
        epochs = found["row"].reshape(3, -1).tolist()
        assert all(sorted(e) == list(range(3000)) for e in epochs), window
        assert epochs[0] != epochs[1] != epochs[2] != epochs[0], window


def test_window_keeps_neighbours_together(session):
    """With a window of chunks, the rows of a batch come from few chunks; with a full shuffle from nearly all."""
    big_file(session)
    source = 'hdf5("%s", row="/row", x="/x")' % session.path("big.h5")
    chunks = {}
    for label, ops in (("window", "shuffle(seed=1, window=4) | batch(60)"), ("full", "shuffle(seed=1) | batch(60)")):
        parts = [len(set(batch["row"] // 64)) for batch in session.stoker.batches("%s | %s" % (source, ops), threads=2)]
        chunks[label] = float(numpy.mean(parts))
    assert chunks["window"] <= 10 and chunks["full"] >= 20, chunks


def test_small_budget(session):
    """Results do not depend on the memory for decoded chunks, and the budget holds."""
    wanted = big_file(session)
    source = 'hdf5("%s")' % session.path("big.h5")
    for budget in (4 << 20, 16 << 20, 256 << 20):
        for ops in ("shuffle(seed=5) | batch(16)", "batch(100)", "shuffle(seed=5, window=auto) | batch(16)"):
            with Pipeline(session.stoker, "%s | %s" % (source, ops), threads=2, memory_bytes=budget) as pipeline:
                found = hdf5lib.joined(list(pipeline))
                stats = pipeline.stats()
            complaints = hdf5lib.compare(found, {name: hdf5lib.pick(c, found["row"]) for name, c in wanted.items()})
            assert not complaints, (budget, ops, complaints)
            assert sorted(found["row"].tolist()) == list(range(3000))
            assert stats.peak_buffer_bytes <= stats.budget_bytes <= budget, (stats.peak_buffer_bytes, budget)


def test_parts_of_the_rows(session):
    wanted = big_file(session)
    source = 'hdf5("%s")' % session.path("big.h5")
    for before, rows in (("take(10)", range(10)), ("skip(2990)", range(2990, 3000)), ("skip(100) | take(5)", range(100, 105))):
        found = hdf5lib.run(session.stoker, source, before + " | batch(8)", 2)
        assert found["row"].tolist() == list(rows), before
        complaints = hdf5lib.compare(found, {name: hdf5lib.pick(c, list(rows)) for name, c in wanted.items()})
        assert not complaints, (before, complaints)
    ranks = []
    for rank in range(3):
        found = hdf5lib.run(session.stoker, source, "shuffle(seed=2, window=2) | shard(3, %d) | batch(64)" % rank, 2)
        complaints = hdf5lib.compare(found, {name: hdf5lib.pick(c, found["row"]) for name, c in wanted.items()})
        assert not complaints, (rank, complaints)
        ranks += found["row"].tolist()
    assert sorted(ranks) == list(range(3000))


def test_pipelines_side_by_side(session):
    """Several pipelines over one file at once."""
    wanted = big_file(session)
    source = 'hdf5("%s") | batch(500)' % session.path("big.h5")
    pipelines = [session.stoker.batches(source, threads=1 + i % 2) for i in range(4)]
    for number in range(6):
        for pipeline in pipelines:
            rows = next(pipeline)["row"].tolist()
            assert rows == list(range(number * 500, number * 500 + 500))
    assert len(wanted["row"]) == 3000


# ---- the cached index ----

def test_cached_index(session):
    """With an index from the cache, or a damaged one in its place, the same rows come."""
    cache = session.path("cache")
    os.mkdir(cache)
    for subject in (hdf5lib.indexes, hdf5lib.types, hdf5lib.strings, hdf5lib.fills):
        m = made(session.directory, subject, "new")
        wanted = contents(m.path, m.wanted)
        for _ in range(2):
            check_file(session.stoker, m.path, wanted, FEW[:1], cache_dir=cache.encode())
    kept = [os.path.join(at, name) for at, _, names in os.walk(cache) for name in names]
    assert kept, "nothing was kept in the cache directory"
    check_damaged_cache(session, cache, kept)


def check_damaged_cache(session, cache, kept):
    generator = numpy.random.default_rng(4)
    m = made(session.directory, hdf5lib.indexes, "new")
    wanted = contents(m.path, m.wanted)
    before = {path: open(path, "rb").read() for path in kept}
    for damage in ("flip", "cut", "empty", "swap"):
        for path, data in before.items():
            changed = bytearray(data)
            if damage == "flip":
                for _ in range(3):
                    changed[generator.integers(0, len(changed))] ^= 1 << int(generator.integers(0, 8))
            elif damage == "cut":
                del changed[len(changed) // 2:]
            elif damage == "empty":
                changed.clear()
            else:
                changed = bytearray(before[kept[0]])
            with open(path, "wb") as file:
                file.write(changed)
        check_file(session.stoker, m.path, wanted, FEW[:1], cache_dir=cache.encode())


def test_cache_notices_a_new_file(session):
    cache = session.path("cache")
    os.mkdir(cache)
    for step in range(4):
        with Maker(session.path("x.h5"), rows=50 + step % 2) as m:
            m.add("x", m.numbers("<i4", 13, seed=step), (8, 13), filters=["shuffle", ("gzip", 4)])
        check_file(session.stoker, m.path, contents(m.path), FEW[:1], cache_dir=cache.encode())


def tests():
    found = [matrix_test(subject, form) for subject, form in hdf5lib.matrix()]
    return found + [(test.__name__, test) for test in hdf5lib.tests_of(sys.modules[__name__])]


if __name__ == "__main__":
    if hdf5lib.hdf5plugin:
        os.environ["HDF5_PLUGIN_PATH"] = hdf5lib.hdf5plugin.PLUGIN_PATH
    sys.exit(hdf5lib.main(tests()))
