"""accelerate divides what it iterates among the processes, and a rank's part must not be divided again."""

from __future__ import annotations

import itertools

import pytest
from helpers import Launch, needs

needs("accelerate")

WAYS = [
    ("loader", None, 0, "Loader"),
    ("batches", None, 0, "DataLoaderDispatcher"),
    ("batches", True, 0, "DataLoaderDispatcher"),
    ("batches", None, 2, "DataLoaderDispatcher"),
    ("batches", False, 0, "DataLoaderShard"),
    ("batches", False, 2, "DataLoaderShard"),
    ("samples", None, 0, "DataLoaderDispatcher"),
    ("samples", False, 0, "DataLoaderShard"),
    ("samples", False, 2, "DataLoaderShard"),
    ("unsharded", None, 0, "DataLoaderDispatcher"),
    ("own-rank", False, 0, "DataLoaderShard"),
]


@pytest.mark.parametrize("kind, dispatch, workers, made", WAYS)
def test_each_sample_comes_once_in_an_epoch(
    launch: Launch, kind: str, dispatch: bool | None, workers: int, made: str
) -> None:
    ranks = launch("accelerate_loop.py", kind, dispatch, workers, processes=2)
    assert {rank["type"] for rank in ranks} == {made}
    for epoch in range(2):
        parts = [rank["epochs"][epoch] for rank in ranks]
        seen = [list(itertools.chain(*part["seen"])) for part in parts]
        assert len(seen[0]) == len(seen[1])
        assert set(seen[0] + seen[1]) == set(range(70))
        # Workers have a part each, which is filled up like that of a rank.
        assert len(seen[0] + seen[1]) == (72 if workers and not dispatch and made == "DataLoaderShard" else 70)
        assert set(parts[0]["gathered"]) == set(range(70))
        if not workers:
            assert [part["length"] for part in parts] == [9, 9]
            assert sorted(parts[0]["gathered"]) == list(range(70))
    assert ranks[0]["epochs"][0]["seen"] != ranks[0]["epochs"][1]["seen"]


def test_dispatching_is_told_to_read_in_one_process(launch: Launch) -> None:
    launch("accelerate_loop.py", "batches", None, 0, processes=2, says="reads this dataset in process 0 alone")


def test_a_rank_of_its_own_cannot_be_dispatched(launch: Launch) -> None:
    says = "part of the samples there"
    launch("accelerate_loop.py", "own-rank", True, 0, processes=2, fails=True, says=says)


def test_batches_are_not_made_of_batches(launch: Launch) -> None:
    launch("accelerate_loop.py", "stacked", None, 0, fails=True, says="samples=True")


@pytest.mark.parametrize("kind", ["loader", "batches", "samples"])
def test_first_batches_are_skipped(launch: Launch, kind: str) -> None:
    """The third loop is epoch 2; of a loader that was made by us, that is what comes next."""
    import stoker

    (rank,) = launch("accelerate_loop.py", kind, None, 0)
    whole = stoker.range(70).shuffle(seed=1).batch(4).loader("value")
    whole.set_epoch(2)
    assert rank["skipped"] == [value.tolist() for (value,) in whole][3:]


def test_checkpoints_hold_the_place_of_a_loader(launch: Launch) -> None:
    (rank,) = launch("accelerate_state.py")
    assert len(rank["rest"]) == 13
    assert rank["again"] == rank["rest"]
