"""Loaders: passes and epochs, places that are saved and gone back to, and what happens when loops are left or fail."""

import gc
import itertools
import json
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
import weakref

import numpy as np
import pytest

import stoker

PIPE = stoker.range(20).shuffle(seed=3).batch(4)
EPOCH = 5  # batches of PIPE


def values(batches):
    return [batch["value"].tolist() for batch in batches]


def epoch_of(pipe, epoch, **options):
    """The batches of one epoch, by a loader of its own."""
    loader = pipe.loader(**options)
    loader.set_epoch(epoch)
    return values(loader)


def child(code, **env):
    """Runs code in a new interpreter; gives what it printed, as JSON."""
    paths = os.pathsep.join(p for p in sys.path if p)
    out = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


# ---- passes and epochs ----


@pytest.mark.parametrize("persistent", [True, False])
def test_each_loop_is_the_next_epoch_with_its_own_order(persistent):
    loader = PIPE.loader(persistent=persistent)
    passes = [values(loader) for _ in range(4)]
    assert all(sorted(itertools.chain(*p)) == list(range(20)) for p in passes)
    assert len({str(p) for p in passes}) == 4
    whole = values(PIPE.loader(epochs=4))
    assert list(itertools.chain(*passes)) == whole


@pytest.mark.parametrize("persistent", [True, False])
def test_a_loop_may_be_of_several_epochs(persistent):
    loader = PIPE.loader(epochs=2, persistent=persistent)
    assert len(loader) == 10
    first, second = values(loader), values(loader)
    assert first + second == values(PIPE.loader(epochs=4))
    assert loader.epoch == 3


def test_a_persistent_run_stays_open_between_loops():
    loader = PIPE.loader()
    values(loader)
    run = loader._passes.run
    assert run is not None and not run.closed
    values(loader)
    values(loader)
    assert loader._passes.run is run
    loader.close()
    assert run.closed
    loader = PIPE.numpy()
    values(loader)
    assert loader._passes.run is None


@pytest.mark.parametrize("persistent", [True, False])
def test_leaving_a_loop_begins_the_next_epoch(persistent):
    loader = PIPE.loader(persistent=persistent)
    for _ in range(2):
        values(loader)
    for _ in loader:
        break
    assert values(loader) == epoch_of(PIPE, 3)
    for i, _ in enumerate(loader):
        if i == 4:
            break  # at the last batch
    assert values(loader) == epoch_of(PIPE, 5)


def test_leaving_a_loop_of_several_epochs_goes_on_with_the_epoch_after():
    loader = PIPE.loader(epochs=3)
    for i, _ in enumerate(loader):
        if i == EPOCH:  # the first batch of epoch 1
            break
    assert next(iter(loader))["value"].tolist() == epoch_of(PIPE, 2)[0]


def test_a_loop_without_a_batch_does_not_count():
    loader = PIPE.loader()
    for _ in range(3):
        iter(loader)
    assert values(loader) == epoch_of(PIPE, 0)


def test_set_epoch_says_what_the_next_loop_is():
    loader = PIPE.loader()
    for epoch in (0, 1, 7, 7, 2):
        loader.set_epoch(epoch)
        assert values(loader) == epoch_of(PIPE, epoch)
        assert loader.epoch == epoch
    assert values(loader) == epoch_of(PIPE, 3)
    with pytest.raises(ValueError):
        loader.set_epoch(-1)
    with pytest.raises(TypeError):
        loader.set_epoch("1")


def test_set_epoch_to_what_comes_anyway_keeps_the_run():
    loader = PIPE.loader()
    runs = []
    for epoch in range(4):
        loader.set_epoch(epoch)
        values(loader)
        runs.append(loader._passes.run)
    assert runs[0] is runs[1] is runs[2] is runs[3] is not None


def test_a_pipeline_with_its_own_repeat_says_what_a_loop_is():
    pipe = PIPE.repeat(3)
    loader = pipe.loader()
    assert len(loader) == 3 * EPOCH
    assert values(loader) + values(loader) == values(PIPE.loader(epochs=6))
    with pytest.raises(ValueError, match=r"ends in its own repeat\(count=3\): wanted epochs=1, found 2"):
        pipe.loader(epochs=2)


def test_an_endless_loop_goes_on_until_it_is_left():
    loader = PIPE.repeat().loader()
    with pytest.raises(TypeError, match="repeats without an end"):
        len(loader)
    assert values(itertools.islice(loader, 12)) == values(PIPE.loader(epochs=3))[:12]
    assert loader.epoch == 2
    assert next(iter(loader))["value"].tolist() == epoch_of(PIPE, 3)[0]


def test_repeats_before_batch_are_part_of_the_epoch():
    pipe = stoker.range(6).shuffle(seed=1).repeat(2).batch(4)
    loader = pipe.loader()
    one, two = values(loader), values(loader)
    assert (len(loader), len(one), len(two)) == (3, 3, 3)
    assert sorted(itertools.chain(*one)) == sorted(itertools.chain(*two)) == sorted(list(range(6)) * 2)
    assert one != two
    for _ in loader:
        break
    assert values(loader) == epoch_of(pipe, 3)


def write_numbers(path, **options):
    stoker.range(20).write_tfrecord(path, **options).run()
    return stoker.tfrecord(path).parse(value="int64").batch(4)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_files_are_looped_over_again_whether_they_can_be_counted_or_not(tmp_path, compression):
    pipe = write_numbers(tmp_path / "a.tfrecord", compression=compression)
    loader = pipe.loader()
    for _ in range(3):
        assert list(itertools.chain(*values(loader))) == list(range(20))
    assert (loader._passes.run is not None) == (compression == "none")
    if compression == "none":
        assert len(loader) == 5
    else:
        with pytest.raises(TypeError, match="stream"):
            len(loader)


def test_a_pipe_is_read_once_from_its_start(tmp_path):
    write_numbers(tmp_path / "a.tfrecord")
    reader, writer = os.pipe()
    os.write(writer, (tmp_path / "a.tfrecord").read_bytes())
    os.close(writer)
    loader = stoker.tfrecord(f"/dev/fd/{reader}").parse(value="int64").batch(4).loader()
    assert list(itertools.chain(*values(loader))) == list(range(20))
    os.close(reader)


def test_an_empty_pipeline_gives_empty_loops():
    loader = stoker.range(0).batch(4).loader(epochs=2)
    assert (len(loader), values(loader), values(loader), values(loader)) == (0, [], [], [])


@pytest.mark.parametrize("persistent", [True, False])
def test_a_filter_makes_the_length_unknown_and_loops_work(persistent):
    pipe = stoker.range(50).shuffle(seed=1).filter("value % 3 == 0").batch(4)
    loader = pipe.loader(persistent=persistent)
    with pytest.raises(TypeError, match="not known: how many samples pass the filter"):
        len(loader)
    one, two = values(loader), values(loader)
    assert one != two
    assert sorted(itertools.chain(*one)) == sorted(itertools.chain(*two)) == list(range(0, 50, 3))
    assert one + two == values(pipe.loader(epochs=2))
    for _ in loader:
        break
    assert values(loader) == epoch_of(pipe, 3)
    assert bool(loader)


def test_lengths_are_those_of_a_loop():
    assert len(PIPE.loader()) == len(PIPE.numpy()) == EPOCH
    assert len(PIPE.loader(epochs=3)) == 3 * EPOCH
    loader = PIPE.loader()
    values(loader)
    values(loader)
    assert len(loader) == EPOCH


def test_fields_are_tuples_in_their_order():
    pipe = stoker.range(4).map(lambda s: {"b": s["value"] * 2}).batch(4)
    ((b, v),) = pipe.numpy("b", "value")
    assert (b.tolist(), v.tolist()) == ([0, 2, 4, 6], [0, 1, 2, 3])
    ((only,),) = pipe.numpy("b")
    assert only.tolist() == b.tolist()
    with pytest.raises(KeyError, match="nothing"):
        list(pipe.numpy("nothing"))
    with pytest.raises(ValueError, match="format: wanted one of numpy"):
        pipe.loader(format="tensor")
    with pytest.raises(ValueError, match="pin_memory goes with"):
        pipe.loader(pin_memory=True)
    for epochs, error in ((0, ValueError), (True, TypeError), ("2", TypeError)):
        with pytest.raises(error, match="epochs: wanted"):
            pipe.loader(epochs=epochs)


# ---- one loop at a time ----


def test_a_second_loop_ends_the_first():
    loader = PIPE.loader()
    first = iter(loader)
    next(first)
    assert values(loader) == epoch_of(PIPE, 1)
    with pytest.raises(RuntimeError, match="another one over the same loader began"):
        next(first)
    assert values(loader) == epoch_of(PIPE, 2)


def test_dropping_an_ended_loop_leaves_the_new_one_alone():
    loader = PIPE.loader()
    first = iter(loader)
    next(first)
    second = iter(loader)
    one = next(second)
    first.close()
    del first
    assert values([one, *second]) == epoch_of(PIPE, 1)


def test_the_iterator_works_in_another_thread():
    loader = PIPE.loader()
    for epoch in range(3):
        batches, got = iter(loader), []
        thread = threading.Thread(target=lambda: got.extend(values(batches)))
        thread.start()
        thread.join()
        assert got == epoch_of(PIPE, epoch)


def test_closing_ends_the_loop_and_batches_stay():
    loader = PIPE.loader()
    loop = iter(loader)
    batch = next(loop)
    with loader:
        pass
    assert batch["value"].tolist() == epoch_of(PIPE, 0)[0]
    with pytest.raises(RuntimeError, match="was ended"):
        next(loop)
    assert values(loader) == epoch_of(PIPE, 1)


def test_a_dropped_loader_closes_its_run():
    loader = stoker.range(1 << 40).batch(64).loader()
    loop = iter(loader)
    batch = next(loop)
    seen = weakref.ref(loader)
    before = threading.active_count()
    del loader, loop
    gc.collect()
    assert seen() is None
    assert batch["value"].tolist() == list(range(64))
    assert threading.active_count() == before


def test_an_error_ends_the_loop_and_the_next_one_opens_anew(tmp_path):
    path = tmp_path / "a.tfrecord"
    stoker.range(64).write_tfrecord(path).run()
    data = bytearray(path.read_bytes())
    pipe = stoker.tfrecord(path).parse(value="int64").batch(4)
    loader = pipe.loader()
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(stoker.CorruptError) as caught:
        values(loader)
    assert caught.value.file.endswith("a.tfrecord") and caught.value.record is not None
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert len(values(loader)) == 16


def test_bad_records_can_be_skipped_and_listed(tmp_path):
    path, listed = tmp_path / "a.tfrecord", tmp_path / "bad.jsonl"
    stoker.range(64).write_tfrecord(path).run()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    loader = stoker.tfrecord(path).parse(value="int64").batch(4).loader(quarantine=listed)
    assert sum(map(len, values(loader))) == 63
    assert loader.stats()["quarantined"] == 1
    assert len(listed.read_text().splitlines()) == 1
    with pytest.raises(TypeError, match="bad records are left out"):
        len(loader)


# ---- places ----


def rest_of(state, pipe=PIPE, **options):
    """What a new loader gives from a state on: the rest of its pass, and the pass after."""
    loader = pipe.loader(**options)
    loader.load_state_dict(json.loads(json.dumps(state)))
    return values(loader), values(loader)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("taken", range(EPOCH + 1))
def test_a_place_in_a_loop_is_gone_back_to_exactly(persistent, before, taken):
    loader = PIPE.loader(persistent=persistent)
    for _ in range(before):
        values(loader)
    loop = iter(loader)
    got = values(itertools.islice(loop, taken))
    state = loader.state_dict()
    assert len(json.dumps(state)) < 4096
    assert (state["stoker"], state["epoch"], state["batches"]) == (1, before, taken)
    rest = values(loop)
    assert got + rest == epoch_of(PIPE, before)
    after = values(loader)
    for options in ({}, {"persistent": False}, {"threads": 1}, {"threads": 5, "memory": "64M"}):
        assert rest_of(state, **options) == (rest, after)


def test_the_end_of_a_loop_is_the_start_of_the_next():
    loader = PIPE.loader()
    values(loader)
    state = loader.state_dict()
    assert state == {"stoker": 1, "state": None, "epoch": 1, "batches": 0}
    assert rest_of(state) == (epoch_of(PIPE, 1), epoch_of(PIPE, 2))


def test_a_place_is_known_after_the_loop_was_left():
    loader = PIPE.loader()
    for i, _ in enumerate(loader):
        if i == 1:
            break
    state = loader.state_dict()
    assert state["batches"] == 2
    assert rest_of(state) == (epoch_of(PIPE, 0)[2:], epoch_of(PIPE, 1))
    assert values(loader) == epoch_of(PIPE, 1)
    loop = iter(loader)
    next(loop)
    loader.close()
    assert rest_of(loader.state_dict())[0] == epoch_of(PIPE, 2)[1:]


def test_a_place_in_several_epochs_and_a_place_after_a_resume():
    whole = values(PIPE.loader(epochs=3))
    loader = PIPE.loader(epochs=3)
    for stop in (2, 7, 11, 14, 15):
        loop = iter(loader)
        done = loader.state_dict()["batches"]
        got = values(itertools.islice(loop, stop - done))
        assert got == whole[done:stop]
        state = loader.state_dict()
        loader = PIPE.loader(epochs=3, persistent=stop % 2 == 0)
        loader.load_state_dict(state)
        assert loader.state_dict() == state
    assert values(loader) == []
    assert loader.state_dict()["epoch"] == 3


@pytest.mark.parametrize(
    "pipe",
    [
        stoker.range(50).shuffle(seed=1).filter("value % 3 == 0").batch(4),
        stoker.range(6).shuffle(seed=1).repeat(2).batch(4),
        stoker.range(20).shuffle(seed=1).batch(4).repeat(2),
        stoker.range(20).batch(4).shuffle(seed=2).take(3),
    ],
    ids=["filter", "inner repeat", "own repeat", "order of batches"],
)
def test_places_hold_for_other_kinds_of_pipelines(pipe):
    reference = pipe.loader()
    passes = [values(reference) for _ in range(3)]
    for before, taken in ((0, 1), (1, 2), (1, 0)):
        loader = pipe.loader()
        for _ in range(before):
            values(loader)
        loop = iter(loader)
        values(itertools.islice(loop, taken))
        state = loader.state_dict()
        assert rest_of(state, pipe) == (passes[before][taken:], passes[before + 1])


def test_an_endless_loop_has_places_too():
    pipe = PIPE.repeat()
    loop = iter(loader := pipe.loader())
    values(itertools.islice(loop, 7))
    state = loader.state_dict()
    again = pipe.loader()
    again.load_state_dict(state)
    assert values(itertools.islice(again, 6)) == values(itertools.islice(loop, 6))


def test_set_epoch_to_that_of_a_loaded_place_keeps_the_place():
    loader = PIPE.loader()
    values(loader)
    values(itertools.islice(loop := iter(loader), 2))
    state = loader.state_dict()
    rest = values(loop)
    again = PIPE.loader()
    again.load_state_dict(state)
    again.set_epoch(1)
    assert values(again) == rest
    again.load_state_dict(state)
    again.set_epoch(4)
    assert values(again) == epoch_of(PIPE, 4)


def test_a_place_works_in_another_process():
    loader = PIPE.loader()
    values(loader)
    values(itertools.islice(loop := iter(loader), 2))
    state = loader.state_dict()
    code = f"""if 1:
        import json, stoker
        loader = stoker.range(20).shuffle(seed=3).batch(4).loader(threads=3)
        loader.load_state_dict(json.loads({json.dumps(json.dumps(state))}))
        print(json.dumps([b["value"].tolist() for _ in range(2) for b in loader]))
    """
    assert child(code) == values(loop) + values(loader)


def test_a_place_of_something_else_is_refused():
    loader = PIPE.loader()
    values(itertools.islice(loop := iter(loader), 2))
    state = loader.state_dict()
    del loop
    other = stoker.range(20).shuffle(seed=4).batch(4).loader()
    other.load_state_dict(state)
    with pytest.raises(stoker.MismatchError):
        next(iter(other))
    for bad in ({}, {"stoker": 2}, {**state, "epoch": -1}, {**state, "batches": "2"}, {**state, "state": 5}):
        with pytest.raises(stoker.MismatchError):
            loader.load_state_dict(bad)
    with pytest.raises(TypeError):
        loader.load_state_dict(5)
    loader.load_state_dict({**state, "state": "stoker-checkpoint 1\nnothing\n"})
    with pytest.raises(stoker.MismatchError):
        next(iter(loader))


def test_a_refused_place_stays_refused_until_another_is_set():
    loader = PIPE.loader()
    values(itertools.islice(loop := iter(loader), 2))
    state = loader.state_dict()
    del loop
    other = stoker.range(20).shuffle(seed=4).batch(4).loader()
    other.load_state_dict(state)
    for _ in range(2):
        with pytest.raises(stoker.MismatchError):
            next(iter(other))
    other.set_epoch(5)
    assert values(other) == epoch_of(other.pipeline, 5)


def test_loaders_pickle_with_their_place():
    loader = PIPE.loader(epochs=2, threads=2)
    values(itertools.islice(loop := iter(loader), 3))
    again = pickle.loads(pickle.dumps(loader))
    assert (again.epochs, again._options) == (2, {"threads": 2})
    assert values(again) == values(loop)
    fresh = pickle.loads(pickle.dumps(PIPE.loader()))
    assert values(fresh) == epoch_of(PIPE, 0)


# ---- ranks ----


def ranks(pipe, world, **options):
    return [list(itertools.chain(*values(pipe.loader(rank=r, world=world, **options)))) for r in range(world)]


def test_ranks_share_the_samples():
    pipe = stoker.range(22).shuffle(seed=1).batch(4)
    parts = ranks(pipe, 4)
    assert [len(p) for p in parts] == [6, 6, 6, 6]
    everything = list(itertools.chain(*parts))
    assert sorted(set(everything)) == list(range(22))
    assert len(everything) == 24  # two come twice, so that all ranks have as many
    assert ranks(pipe, 4, shard=False)[0] == ranks(pipe, 4, shard=False)[3]
    own = stoker.range(22).shuffle(seed=1).shard(count=2, index=1).batch(4)
    assert ranks(own, 4)[0] == ranks(own, 4)[3]
    assert len(pipe.loader(rank=0, world=4)) == 2


@pytest.mark.parametrize(
    "text, place",
    [
        ("range(9) | batch(2)", "shard(uneven=keep) behind range"),
        ("range(9) | shuffle | batch(2)", "shard(uneven=pad) behind shuffle"),
        ("range(9) | shuffle(reshuffle=false) | batch(2)", "shard(uneven=keep) behind shuffle"),
        ("range(9) | shuffle | filter('value > 1') | take(4) | batch(2)", "shard(uneven=pad) behind take"),
        ("range(9) | skip(3) | batch(2) | repeat", "shard(uneven=keep) behind skip"),
        ("range(9) | batch(2) | take(3)", "shard(uneven=keep) behind take"),
    ],
)
def test_the_shard_goes_behind_the_last_op_that_says_which_samples_come(text, place):
    assert place in stoker.pipeline(text).explain(rank=0, world=2)
    assert "shard" not in stoker.pipeline(text).explain()
    assert "shard" not in stoker.pipeline(text).explain(rank=0, world=2, shard=False)


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
def test_a_split_is_the_same_on_any_number_of_ranks(world):
    def over_ranks(pipe):
        return sorted(v for rank in range(world) for b in pipe.loader("value", rank=rank, world=world) for v in b[0].tolist())

    rows = stoker.range(1000)
    assert over_ranks(rows.skip(400).batch(50)) == list(range(400, 1000))
    fixed = rows.shuffle(seed=7, reshuffle=False)
    train, valid = over_ranks(fixed.take(800).batch(50)), over_ranks(fixed.skip(800).batch(50))
    assert len(train) == 800 and len(valid) == 200 and sorted(train + valid) == list(range(1000))
    training = over_ranks(rows.take(401).shuffle(seed=1).batch(50))
    assert set(training) == set(range(401)) and len(training) == -(-401 // world) * world
    assert len(over_ranks(rows.shuffle(seed=1).take(50).batch(8))) == -(-50 // world) * world


@pytest.mark.parametrize("world", [2, 3, 8])
def test_evaluation_sees_each_sample_once_with_as_many_batches(world):
    parts = [[v.tolist() for (v,) in stoker.range(1001).batch(10).loader("value", rank=r, world=world)] for r in range(world)]
    assert sorted(v for part in parts for batch in part for v in batch) == list(range(1001))
    assert len({len(part) for part in parts}) == 1


def test_groups_of_a_generator_stay_together_on_ranks():
    def groups():
        for g in range(10):
            yield from ({"g": g, "i": i} for i in range(4))

    pipe = stoker.source(groups).batch(8)
    ranks = [[g.tolist() for (g,) in pipe.loader("g", rank=r, world=2)] for r in range(2)]
    assert ranks[0] == [[0] * 4 + [1] * 4, [4] * 4 + [5] * 4, [8] * 2 + [9] * 2]  # what is left is shared
    assert ranks[1] == [[2] * 4 + [3] * 4, [6] * 4 + [7] * 4, [8] * 2 + [9] * 2]


def test_ranks_of_a_host_share_its_cores(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1000000")
    alone = PIPE.loader(rank=0, world=1)
    next(iter(alone))
    shared = PIPE.loader()
    next(iter(shared))
    assert shared.stats()["threads"] == max(1, alone.stats()["threads"] // 4)  # no more than the world
    assert shared.stats()["budget_bytes"] <= alone.stats()["budget_bytes"]


def test_ranks_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    pipe = stoker.range(8).batch(4)
    assert values(pipe.loader()) == [[1, 3, 5, 7]]
    assert values(pipe.loader(rank=0, world=2)) == [[0, 2, 4, 6]]
    assert len(pipe.loader()) == 1
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(ValueError, match="RANK and WORLD_SIZE: wanted a rank in 0..1, found 2"):
        values(pipe.loader())
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(ValueError, match="RANK: wanted a whole number, found 'one'"):
        values(pipe.loader())


def test_processes_of_a_launcher_share_the_set():
    code = """if 1:
        import json, stoker
        loader = stoker.range(21).shuffle(seed=5).batch(3).loader()
        print(json.dumps([[b["value"].tolist() for b in loader] for _ in range(2)]))
    """
    parts = [child(code, RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    for epoch in range(2):
        a, b = (list(itertools.chain(*part[epoch])) for part in parts)
        assert len(a) == len(b) == 11
        assert sorted(set(a) | set(b)) == list(range(21))
        assert len(set(a) & set(b)) == 1  # the one that pads
    assert parts[0][0] != parts[0][1]


@pytest.mark.parametrize("before", [0, 1])
def test_a_place_goes_on_with_another_number_of_ranks(before):
    pipe = stoker.range(48).shuffle(seed=1).batch(4)
    loader = pipe.loader(rank=0, world=2)
    for _ in range(before):
        values(loader)
    loop = iter(loader)
    values(itertools.islice(loop, 2))
    state = loader.state_dict()  # 2 ranks, 2 batches of 4: 16 samples are done
    rests, afters = [], []
    for rank in range(4):
        again = pipe.loader(rank=rank, world=4)
        again.load_state_dict(state)
        rests += itertools.chain(*values(again))
        afters += itertools.chain(*values(again))
    done = [v for r in range(2) for v in itertools.chain(*epoch_of(pipe, before, rank=r, world=2)[:2])]
    assert sorted(done + rests) == list(range(48))
    assert sorted(afters) == list(range(48))


# ---- batches, memory, warnings ----


def test_batches_are_not_held_by_the_loop():
    pipe = stoker.range(1 << 20).batch(1024)
    for loader in (pipe.loader(), pipe.numpy()):
        loop = iter(loader)
        for _ in range(20):
            batch = next(loop)
            del batch
            assert loader._passes.run.held == 0


def test_hoarding_is_an_error_and_garbage_is_collected_first():
    pipe = stoker.range(1 << 40).batch(1 << 16)  # 512 KiB
    kept = []
    with pytest.raises(stoker.BudgetError):
        for batch in pipe.numpy(memory="16M"):
            kept.append(batch)
    assert len(kept) > 3
    del kept[:]
    gc.disable()
    try:
        for i, batch in enumerate(pipe.numpy(memory="16M")):
            cycle = [batch["value"]]
            cycle.append(cycle)
            del cycle, batch
            if i == 300:
                break
    finally:
        gc.enable()


def slow(sample):
    time.sleep(0.02)
    return {"value": sample["value"]}


def test_a_slow_function_is_named_once():
    loader = stoker.range(60).map(slow).batch(4).loader()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values(loader)
        values(loader)
    texts = [str(w.message) for w in caught if issubclass(w.category, stoker.StokerWarning)]
    assert len(texts) == 1 and texts[0].startswith("map 'slow' is the bottleneck: it takes ")
    assert caught[0].filename == __file__


def test_a_fast_loop_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values(stoker.range(2000).map(lambda s: {}).batch(4).loader())


def test_functions_behind_batch_get_whole_batches():
    def double(batch):
        assert batch["value"].shape == (4,)
        return {"double": batch["value"] * 2}

    pipe = stoker.range(8).batch(4).map(double).map(lambda b: {"value": b["double"] + 1}, name="plus")
    assert repr(pipe) == "<stoker.Pipeline: 2 ops: range | batch | map double | map plus>"
    batches = list(pipe)
    assert list(batches[0]) == ["value", "double"]
    assert [b["value"].tolist() for b in batches] == [[1, 3, 5, 7], [9, 11, 13, 15]]
    assert [x.tolist() for x in pipe.first("double")] == [[0, 2, 4, 6]]
    assert [[x.tolist() for x in t] for t in pipe.repeat(1).numpy("double")] == [[[0, 2, 4, 6]], [[8, 10, 12, 14]]]
    with pytest.raises(ValueError, match="cast cannot stand behind map 'plus'"):
        pipe.cast(value="int32")
    with pytest.raises(TypeError, match="map 'f': returned NoneType, wanted a dict"):
        list(stoker.range(8).batch(4).map(lambda b: None, name="f"))
    loader = pickle.loads(pickle.dumps(stoker.range(8).batch(4).map(negate))).loader()
    assert values(loader) == [[0, -1, -2, -3], [-4, -5, -6, -7]]
    assert "negate" in loader.stats()["busy_seconds"]


def negate(batch):
    return {"value": -batch["value"]}


def test_random_functions_behind_batch_draw_the_same_for_the_same_batch():
    pipe = stoker.range(40).batch(4).map(lambda b, rng: {"noise": rng.random()}, name="noise")

    def noise(batches):
        return [b["noise"] for b in batches]

    loader = pipe.loader(seed=1)
    passes = [noise(loader) for _ in range(3)]
    assert len(set(itertools.chain(*passes))) == 30
    assert noise(pipe.loader(epochs=3, seed=1, threads=1)) == list(itertools.chain(*passes))
    assert noise(pipe.loader(seed=2)) != passes[0]
    other = pipe.loader(seed=1)
    noise(other)
    noise(itertools.islice(loop := iter(other), 4))
    again = pipe.loader(seed=1, persistent=False)
    again.load_state_dict(other.state_dict())
    assert noise(again) == noise(loop) == passes[1][4:]


def test_stats_tell_of_the_run():
    loader = PIPE.loader()
    assert loader.stats() == {}
    values(loader)
    stats = loader.stats()
    assert (stats["samples"], stats["batches"]) == (20, EPOCH)
    assert 0 <= stats["wait_share"] <= 1 and "batch" in stats["busy_seconds"]


def test_a_map_error_carries_the_cause():
    def fail(sample):
        raise KeyError("missing")

    loader = stoker.range(8).map(fail, value="int64").batch(2).loader()
    with pytest.raises(stoker.Error) as caught:
        values(loader)
    assert isinstance(caught.value.__cause__, KeyError)


# ---- recordings ----


def test_a_recording_in_the_middle_of_a_loop_changes_nothing(tmp_path):
    loader = PIPE.loader()
    got = []
    for i, batch in enumerate(loader):
        got += values([batch])
        if i == 1:
            recording = stoker.record(tmp_path / "a.json").start()
        if i == 3:
            recording.stop()
    assert got == epoch_of(PIPE, 0)
    text = (tmp_path / "a.json").read_text()
    assert "batch" in text
    with stoker.record(tmp_path / "b.json"):
        assert values(loader) == epoch_of(PIPE, 1)
    assert values(loader) == epoch_of(PIPE, 2)


def test_functions_behind_batch_show_in_the_recording(tmp_path):
    with stoker.record(tmp_path / "a.json"):
        list(stoker.range(8).batch(4).map(negate))
    assert "negate" in (tmp_path / "a.json").read_text()


def test_a_stream_is_not_opened_again_for_a_recording(tmp_path):
    def items():
        made.append(1)
        yield from range(40)

    made = []
    pipe = stoker.source(items, value="int64").batch(4)
    got = []
    with pytest.warns(stoker.StokerWarning, match="they read a stream"):
        for i, batch in enumerate(pipe.numpy()):
            got += values([batch])
            if i == 1:
                recording = stoker.record(tmp_path / "a.json").start()
    recording.stop()
    assert list(itertools.chain(*got)) == list(range(40))
    assert len(made) == 1


def test_an_iterator_is_gone_through_once():
    made = iter(range(10))
    pipe = stoker.source(made, value="int64").batch(4)
    assert pipe.fields() == {"value": "int64"}
    assert pipe.first()["value"].tolist() == [0, 1, 2, 3]
    loader = pipe.loader()
    with pytest.raises(TypeError, match="stream"):
        len(loader)
    assert list(itertools.chain(*values(loader))) == list(range(10))
    with pytest.raises(Exception, match="once only"):
        values(loader)


# ---- forks ----


def in_fork(work):
    """Calls work in a forked child; gives the text that it returned."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            text = str(work())
        except BaseException as e:
            text = f"{type(e).__name__}: {e}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    deadline = time.monotonic() + 30
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    with os.fdopen(reader) as file:
        return file.read()


@pytest.mark.forks
def test_a_loader_that_was_opened_before_a_fork_says_so_in_the_child():
    loader = PIPE.loader()
    loop = iter(loader)
    first = next(loop)
    assert in_fork(lambda: next(loop)).startswith(f"ForkError: opened before a fork, in process {os.getpid()}")
    assert in_fork(lambda: values(loader)).startswith("ForkError: opened before a fork")
    assert values([first, *loop]) == epoch_of(PIPE, 0)


@pytest.mark.forks
def test_pipelines_and_closed_loaders_work_in_children():
    loader = PIPE.loader()
    values(loader)
    loader.close()
    assert in_fork(lambda: values(loader)) == str(epoch_of(PIPE, 1))
    assert in_fork(lambda: values(PIPE.loader())) == str(epoch_of(PIPE, 0))
    assert values(loader) == epoch_of(PIPE, 1)


@pytest.mark.forks
def test_dropping_what_was_inherited_is_harmless():
    holder = [PIPE.loader()]
    loop = iter(holder[0])
    holder.append(next(loop))

    def drop():
        nonlocal loop
        holder.clear()
        loop = None
        gc.collect()
        return values(PIPE.loader())

    assert in_fork(drop) == str(epoch_of(PIPE, 0))
    assert values([holder[1], *loop]) == epoch_of(PIPE, 0)


def test_ctrl_c_ends_a_loop_in_the_middle_of_a_wait():
    code = """if 1:
        import json, os, signal, threading, time, stoker
        def items():
            yield 1
            threading.Event().wait(20)
            yield 2
        loader = stoker.source(items, value="int64").batch(1).loader()
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        got = []
        try:
            for batch in loader:
                got.append(batch["value"].tolist())
        except KeyboardInterrupt:
            got.append("interrupted")
        print(json.dumps(got), flush=True)
        os._exit(0)
    """
    assert child(code) in ([[1], "interrupted"], ["interrupted"])


@pytest.mark.memory
def test_memory_stays_flat_over_many_batches():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    loader = stoker.range(64 * 1000).shuffle(seed=1).batch(64).loader("value")
    for _ in range(3):
        for (value,) in loader:
            value += 1
    before = resident()
    for _ in range(20):
        for (value,) in loader:
            value += 1
    assert resident() - before < 8 << 20
    assert isinstance(value, np.ndarray)


def test_a_place_is_whole_while_another_thread_loops():
    pipe = stoker.range(8000).shuffle(seed=1).batch(4)
    loader, states, done = pipe.loader(), [], threading.Event()

    def loop():
        for _ in range(3):
            for _ in loader:
                pass
        done.set()

    thread = threading.Thread(target=loop)
    thread.start()
    while not done.is_set():
        states.append(loader.state_dict())
    thread.join()
    reference = pipe.loader()
    epochs = [values_of(reference) for _ in range(4)]
    for state in states[:: len(states) // 5 or 1]:
        again = pipe.loader()
        again.load_state_dict(state)
        assert values_of(again) == epochs[state["epoch"]][state["batches"] :]


def values_of(loader):
    """As `values`, for loops with more batches than can be held."""
    out = []
    for batch in loader:
        out.append(batch["value"].tolist())
        del batch
    return out


def test_epochs_may_be_numbers_of_numpy():
    loader = PIPE.loader(epochs=np.int64(2))
    assert len(loader) == 2 * EPOCH and type(loader.epochs) is int
    loader.set_epoch(np.int32(3))
    assert next(iter(loader))["value"].tolist() == epoch_of(PIPE, 3)[0]
    json.dumps(loader.state_dict())


def test_a_world_without_a_rank_is_told(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.warns(stoker.StokerWarning, match="WORLD_SIZE is 2, but RANK is not set"):
        assert len(values(PIPE.numpy())) == EPOCH
    monkeypatch.setenv("WORLD_SIZE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values(PIPE.numpy())


@pytest.mark.parametrize("persistent", [True, False])
def test_a_state_of_several_ranks_goes_on_with_one_and_is_saved_again(persistent):
    loaders = [PIPE.loader(rank=rank, world=2, persistent=persistent) for rank in range(2)]
    seen = [next(iter(loader))["value"].tolist() for loader in loaders]
    one = PIPE.loader(persistent=persistent)
    one.load_state_dict(json.loads(json.dumps(loaders[0].state_dict())))
    seen.append(next(iter(one))["value"].tolist())
    again = PIPE.loader(persistent=not persistent, threads=2)
    again.load_state_dict(json.loads(json.dumps(one.state_dict())))
    seen += values(again)
    assert sorted(itertools.chain(*seen)) == list(range(20))
    assert values(again) == epoch_of(PIPE, 1)


def test_a_state_of_other_ranks_can_be_saved_again():
    loader = PIPE.loader(rank=0, world=2)
    next(iter(loader))
    parts = []
    for rank in range(4):
        other = PIPE.loader(rank=rank, world=4)
        other.load_state_dict(loader.state_dict())
        copy = PIPE.loader(rank=rank, world=4)
        copy.load_state_dict(other.state_dict())
        parts += values(copy)
    assert len(set(itertools.chain(*parts))) == 12


def test_a_state_of_one_rank_goes_on_with_several():
    loader = PIPE.loader()
    first = next(iter(loader))["value"].tolist()
    rest = []
    for rank in range(2):
        two = PIPE.loader(rank=rank, world=2)
        two.load_state_dict(loader.state_dict())
        rest += [v for batch in values(two) for v in batch]
    assert sorted(first + rest) == list(range(20))


# ---- passes over a pipeline ----


def test_each_loop_over_a_pipeline_is_the_next_epoch():
    pipe = stoker.range(20).shuffle(seed=1).batch(4)
    wanted = [epoch_of(pipe, e) for e in range(6)]
    assert wanted[0] != wanted[1]
    assert values(pipe) == wanted[0]
    assert values(pipe.numpy()) == wanted[1]
    loader = pipe.numpy()
    assert values(loader) == wanted[2] and values(loader) == wanted[3]
    for _ in pipe.numpy():
        break
    assert values(pipe) == wanted[5]
    parts = [v for rank in range(2) for batch in values(pipe.numpy(rank=rank, world=2)) for v in batch]
    assert sorted(parts) == list(range(20))  # both of epoch 0
    assert pipe.first()["value"].tolist() == wanted[0][0]


def test_a_loop_over_a_loader_made_anew_is_told(recwarn):
    pipe = stoker.range(20).shuffle(seed=1).batch(4)
    for _ in range(2):
        values(pipe.loader())
    texts = [str(w.message) for w in recwarn if issubclass(w.category, stoker.StokerWarning)]
    assert len(texts) == 1 and "begins with epoch 0 once more" in texts[0]
    recwarn.clear()
    for _ in range(2):
        values(stoker.range(20).batch(4).loader())  # nothing would be another
        values(pipe.loader(threads=1 + _))  # the same on purpose
    assert not [w for w in recwarn if issubclass(w.category, stoker.StokerWarning)]


def test_an_evaluation_loop_may_keep_its_labels():
    pipe = stoker.source({"x": np.zeros((4000, 4096), "float32"), "y": np.arange(4000)}).batch(100)
    labels = [y for _, y in pipe.loader("x", "y", memory="8M")]
    assert np.concatenate(labels).tolist() == list(range(4000))
    with pytest.raises(stoker.BudgetError, match=r"the loop keeps arrays of \d batches.*x.clone\(\).*memory=\"4G\"") as e:
        list(pipe.loader("x", memory="8M"))
    assert "--memory" not in str(e.value)


def test_fields_that_nobody_takes_are_not_made():
    def fail(sample):
        raise AssertionError("not wanted")

    pipe = stoker.source({"x": np.arange(6), "y": np.arange(6) * 2}).map(fail, x="int64").batch(3)
    assert [y.tolist() for (y,) in pipe.loader("y")] == [[0, 2, 4], [6, 8, 10]]
    assert pipe.first("y")[0].tolist() == [0, 2, 4]
    with pytest.raises(stoker.FunctionError, match="not wanted"):
        list(pipe.loader("x", "y"))


def test_a_wrong_name_is_told_when_the_loader_is_made():
    pipe = stoker.range(4).batch(2)
    with pytest.raises(KeyError, match="no field 'valeu'.*did you mean 'value'"):
        pipe.loader("valeu")
    assert stoker.tfrecord("not/there").parse(x="int64").batch(2).loader("x")  # the files are looked for later
    with pytest.raises(KeyError, match="no field 'y'"):
        stoker.tfrecord("not/there").parse(x="int64").batch(2).torch("x", "y")
