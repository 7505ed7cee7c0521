"""A state goes on exactly where it was taken, whatever the policy for bad records was and is; or it is refused."""

import itertools
import json
import struct

import pytest

import stoker

POLICIES = ["stop", "skip", "quarantine"]


def values(batches):
    return [batch["value"].tolist() for batch in batches]


def flat(batches):
    return list(itertools.chain(*values(batches)))


def options_of(policy, tmp_path, **more):
    out = {"on_error": policy, **more}
    if policy == "quarantine":
        out["quarantine"] = tmp_path / "bad.jsonl"
    return out


def state_after(pipe, count, **options):
    """The state behind so many batches, as it is saved."""
    loader = pipe.loader(**options)
    loop = iter(loader)
    values(itertools.islice(loop, count))
    state = json.loads(json.dumps(loader.state_dict()))
    loader.close()
    return state


def loader_at(state, pipe, **options):
    loader = pipe.loader(**options)
    loader.load_state_dict(state)
    return loader


def damage(path, wanted):
    """Damages the data of these records."""
    data, at, i = bytearray(path.read_bytes()), 0, 0
    while at < len(data):
        size = struct.unpack_from("<Q", data, at)[0]
        if i in wanted:
            data[at + 12 + size // 2] ^= 0x55
        at, i = at + 12 + size + 4, i + 1
    path.write_bytes(data)


def damaged(tmp_path, bad):
    path = tmp_path / "a.tfrecord"
    stoker.range(40).write_tfrecord(path).run()
    damage(path, bad)
    return stoker.tfrecord(path).parse(value="int64")


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("reader", POLICIES)
@pytest.mark.parametrize("writer", POLICIES)
def test_another_policy_goes_on_at_the_next_sample(writer, reader, epochs, persistent, tmp_path):
    pipe = stoker.range(20).shuffle(seed=3).batch(3)
    whole = values(pipe.loader(epochs=epochs))
    after = values(pipe.loader(epochs=epochs + 1))[len(whole) :]
    for count in (1, 2, 7, 8, len(whole)):
        if count > len(whole):
            continue
        state = state_after(pipe, count, **options_of(writer, tmp_path, epochs=epochs, persistent=persistent))
        loader = loader_at(state, pipe, **options_of(reader, tmp_path, epochs=epochs, persistent=persistent))
        assert values(loader) == whole[count:]
        assert values(itertools.islice(loader, len(after))) == after


def test_a_loop_that_a_bad_record_ended_goes_on_without_it(tmp_path):
    """As the error's own words say: with on_error="skip"."""
    pipe = damaged(tmp_path, {11, 30}).batch(5)
    loader = pipe.loader()
    seen = []
    with pytest.raises(stoker.Error):
        for batch in loader:
            seen += batch["value"].tolist()
    assert seen == list(range(10))
    again = loader_at(loader.state_dict(), pipe, on_error="skip")
    seen += flat(again)
    assert seen == [i for i in range(40) if i not in (11, 30)]
    assert again.stats()["skipped"] == 2


def test_what_was_skipped_stays_so_and_the_next_bad_record_ends_the_loop(tmp_path):
    pipe = damaged(tmp_path, {1, 2, 11, 30}).batch(5)
    state = state_after(pipe, 2, on_error="skip")
    loader, seen = loader_at(state, pipe), []
    with pytest.raises(stoker.Error) as caught:
        for batch in loader:
            seen += batch["value"].tolist()
    assert caught.value.record == 30
    assert seen == [*range(13, 28)]
    assert flat(loader_at(loader.state_dict(), pipe, on_error="skip")) == [28, 29, *range(31, 40)]


def test_another_rank_s_state_is_refused_where_ranks_go_at_different_paces(tmp_path):
    filtered = stoker.range(100).shard().filter("value % 3 == 0 or value < 20").batch(4)
    for pipe, options in ((filtered, {}), (stoker.range(40).batch(4), {"on_error": "skip"})):
        state = state_after(pipe, 3, rank=0, world=2, **options)
        with pytest.raises(stoker.MismatchError, match="of rank 0, this is rank 1.*its own"):
            values(loader_at(state, pipe, rank=1, world=2, **options))
        whole = values(pipe.loader(rank=0, world=2, **options))
        assert values(loader_at(state, pipe, rank=0, world=2, **options)) == whole[3:]


@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_another_rank_s_state_will_do_where_ranks_go_at_one_pace(policy):
    pipe = stoker.range(40).shuffle(seed=1).batch(4)
    state = state_after(pipe, 2, rank=0, world=2)
    whole = values(pipe.loader(rank=1, world=2))
    assert values(loader_at(state, pipe, rank=1, world=2, on_error=policy)) == whole[2:]


@pytest.mark.parametrize("persistent", [True, False])
def test_another_rank_s_state_does_not_change_where_the_epoch_ends(persistent):
    pipe = stoker.range(41).shard().batch(4)  # 6 and 5 batches
    state = state_after(pipe, 2, rank=0, world=2, persistent=persistent)
    whole = values(pipe.loader(rank=1, world=2))
    loader = loader_at(state, pipe, rank=1, world=2, persistent=persistent)
    assert values(loader) == whole[2:]
    assert values(loader) == whole


def test_exact_is_refused_where_it_changes_the_samples():
    pipe = stoker.range(40).filter("value % 3 == 0").shard(2, 0).batch(3)
    state = state_after(pipe, 1)
    with pytest.raises(stoker.MismatchError, match="--exact"):
        values(loader_at(state, pipe, exact=True))
    pipe = stoker.range(20).shuffle(seed=1).batch(3)
    assert values(loader_at(state_after(pipe, 2), pipe, exact=True)) == values(pipe.loader())[2:]


def test_a_list_has_each_bad_record_once(tmp_path):
    bad = {i for i in range(40) if i % 3 == 1}
    pipe = damaged(tmp_path, bad).batch(2)
    path = tmp_path / "bad.jsonl"
    options = options_of("quarantine", tmp_path)
    loader = pipe.loader(**options)
    for _ in range(4):
        values(itertools.islice(iter(loader), 3))
        loader.close()
        loader = loader_at(loader.state_dict(), pipe, **options)
    values(loader)
    listed = [json.loads(line)["record"] for line in path.read_text().splitlines()]
    assert listed == sorted(bad)
    assert loader.stats()["quarantined"] == len(bad)


def test_a_look_does_not_begin_the_list_anew(tmp_path):
    pipe = damaged(tmp_path, {1, 5, 30}).batch(2)
    options = options_of("quarantine", tmp_path)
    state = state_after(pipe, 4, **options)
    loader = loader_at(state, pipe, **options)
    with pytest.raises(TypeError, match="left out"):
        len(loader)
    pipe.options(**options).first()
    values(loader)
    listed = [json.loads(line)["record"] for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert listed == [1, 5, 30]


def test_a_list_that_is_not_that_of_the_state_is_not_touched(tmp_path):
    pipe = damaged(tmp_path, {1, 5, 30}).batch(2)
    path = tmp_path / "bad.jsonl"
    options = options_of("quarantine", tmp_path)
    state = state_after(pipe, 4, **options)
    path.write_text("mine\n")
    with pytest.raises(stoker.MismatchError, match="not the list that the run left"):
        values(loader_at(state, pipe, **options))
    assert path.read_text() == "mine\n"


@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_data_loaders_go_on_with_another_policy(workers):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    pipe = stoker.range(40).shuffle(seed=3).batch(4)

    def make(policy):
        return stateful(pipe.options(on_error=policy).dataset(), batch_size=None, num_workers=workers)

    loader = make("stop")
    loop = iter(loader)
    values(itertools.islice(loop, 3))
    state = loader.state_dict()
    rest = values(loop)
    again = make("skip")
    again.load_state_dict(state)
    assert values(again) == rest
