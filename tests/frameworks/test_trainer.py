"""Hugging Face Trainer: loaders and datasets, in one and two processes, and the exact rest after a checkpoint."""

from __future__ import annotations

import itertools

import pytest
from helpers import Launch, needs

needs("transformers", "accelerate")

KINDS = ["loader", "prepared", "samples"]


@pytest.mark.parametrize("dispatch", [None, False])
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_see_each_sample_once(launch: Launch, kind: str, dispatch: bool | None) -> None:
    if kind == "loader" and dispatch is False:
        pytest.skip("accelerate does not touch a loader")
    ranks = launch("trainer.py", kind, "out", 0, "new", dispatch, processes=2)
    assert [rank["steps"] for rank in ranks] == [18, 18]
    for epoch in range(2):
        seen = [itertools.chain(*rank["seen"][9 * epoch : 9 * epoch + 9]) for rank in ranks]
        assert sorted(itertools.chain(*seen)) == list(range(70))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", [5, 25])
def test_a_resumed_run_sees_just_the_rest(launch: Launch, kind: str, stop: int) -> None:
    """18 steps an epoch: in the middle of the first, and of the second."""
    (whole,) = launch("trainer.py", kind, "whole", 0, "new", None)
    assert whole["steps"] == 36
    (first,) = launch("trainer.py", kind, "out", stop, "new", None)
    (rest,) = launch("trainer.py", kind, "out", 0, "resume", None)
    assert first["seen"] == whole["seen"][:stop]
    assert rest["seen"] == whole["seen"][stop:]
    assert rest["steps"] == 36


def test_finished_batches_are_not_for_its_collator(launch: Launch) -> None:
    launch("trainer.py", "batches", "out", 0, "new", None, fails=True, says="samples=True) for single samples")
