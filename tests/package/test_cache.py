"""Cache files from Python: loaders that share one, functions and objects that changed, damage."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import stoker

np = pytest.importorskip("numpy")

ROWS = 400


def counting(log):
    """A function that writes down each call in a file; a list of its own would make it another function each time."""

    def twice(sample):
        fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, b"%d\n" % int(sample["value"]))
        os.close(fd)
        return {"value": sample["value"] * 2}

    return twice


def values_of(batches):
    return [int(v) for b in batches for v in b["value"]]


def cached(fn, path, epochs=1):
    return stoker.range(ROWS).map(fn, value="int64").cache(str(path)).batch(10).repeat(epochs)


def test_two_loaders_in_turns_call_the_function_once_for_each_sample(tmp_path):
    fn = counting(str(tmp_path / "calls"))
    loaders = [iter(cached(fn, tmp_path / "c", 2).loader()) for _ in range(2)]
    got = [[], []]
    over = [False, False]
    while not all(over):
        for k, it in enumerate(loaders):
            if over[k]:
                continue
            try:
                got[k].append(next(it))
            except StopIteration:
                over[k] = True
    wanted = [2 * i for i in range(ROWS)] * 2
    assert values_of(got[0]) == wanted
    assert values_of(got[1]) == wanted
    assert sorted(int(line) for line in (tmp_path / "calls").read_text().split()) == list(range(ROWS))
    again = cached(fn, tmp_path / "c", 2).loader()
    assert values_of(again) == wanted
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["c", "calls"]


def loader_that_triples(path, factor):
    def change(sample):
        return {"value": sample["value"] * factor}

    return cached(change, path).loader()


def test_a_function_that_changed_makes_the_file_anew(tmp_path):
    assert values_of(loader_that_triples(tmp_path / "c", 3)) == [3 * i for i in range(ROWS)]
    assert values_of(loader_that_triples(tmp_path / "c", 5)) == [5 * i for i in range(ROWS)]

    def change(sample):
        return {"value": sample["value"] + 1}

    assert values_of(cached(change, tmp_path / "c").loader()) == [i + 1 for i in range(ROWS)]


SCRIPT = """
import sys, stoker
FACTOR = {factor}
def helper(v): return v * FACTOR
def change(sample): return {{"value": helper(sample["value"])}}
l = stoker.range(100).map(change, value="int64").cache(sys.argv[1]).batch(10).loader()
total = sum(int(b["value"].sum()) for b in l)
s = l.stats()
print(total, s["cache_misses"])
"""


def run_script(path, factor):
    env = dict(os.environ)
    out = subprocess.run([sys.executable, "-c", SCRIPT.format(factor=factor), str(path)], env=env, check=True, capture_output=True, text=True)
    return tuple(int(w) for w in out.stdout.split())


def test_another_process_uses_the_file_while_function_and_globals_are_the_same(tmp_path):
    assert run_script(tmp_path / "c", 2) == (9900, 100)
    assert run_script(tmp_path / "c", 2) == (9900, 0)
    assert run_script(tmp_path / "c", 3) == (14850, 100)


def test_an_array_that_changed_anywhere_makes_the_file_anew(tmp_path):
    x = np.arange(50000, dtype="int64")

    def total():
        loader = stoker.source({"value": x}).cache(str(tmp_path / "c")).batch(100).loader()
        got = sum(int(b["value"].sum()) for b in loader)
        return got, loader.stats()["cache_misses"]

    assert total() == (int(x.sum()), 50000)
    assert total() == (int(x.sum()), 0)
    x[31337] += 1
    assert total() == (int(x.sum()), 50000)


def test_items_that_changed_make_the_file_anew(tmp_path):
    items = [{"value": i} for i in range(100)]

    def values():
        loader = stoker.source(items).cache(str(tmp_path / "c")).batch(10).loader()
        got = values_of(loader)
        return got, loader.stats()["cache_misses"]

    assert values() == (list(range(100)), 100)
    assert values() == (list(range(100)), 0)
    items[50] = {"value": -1}
    assert values()[0][50] == -1


def test_damage_is_made_good_and_counted(tmp_path):
    path = tmp_path / "c"
    wanted = values_of(stoker.range(ROWS).cache(str(path)).batch(10).loader())
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    data[5000] ^= 1
    path.write_bytes(data)
    loader = stoker.range(ROWS).cache(str(path)).batch(10).loader(on_error="skip")
    assert values_of(loader) == wanted
    assert loader.stats()["cache_damaged"] == 2
    assert loader.stats()["skipped"] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_was_forked_makes_its_own(tmp_path):
    loader = iter(stoker.range(ROWS).cache(str(tmp_path / "c")).batch(10).loader())
    next(loader)
    pid = os.fork()
    if pid == 0:
        try:
            got = values_of(stoker.range(ROWS).cache(str(tmp_path / "c")).batch(10).loader())
            os._exit(0 if got == list(range(ROWS)) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert values_of(loader) == list(range(10, ROWS))
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["c"]
