"""Lightning: fit with validation, a resume within an epoch, ddp in two processes, a few batches alone."""

from __future__ import annotations

import itertools

import pytest
from helpers import Launch, needs

needs("lightning")


def test_fit_and_validate(launch: Launch) -> None:
    (run,) = launch("lightning_fit.py", 1, 0, "new", 0)
    first, second = (list(itertools.chain(*run["seen"][part])) for part in (slice(18), slice(18, 36)))
    assert sorted(first) == sorted(second) == list(range(70))
    assert first != second
    assert list(itertools.chain(*run["validated"])) == list(range(20)) * 2


@pytest.mark.parametrize("stop", [5, 25])
def test_a_resumed_run_sees_just_the_rest(launch: Launch, stop: int) -> None:
    (whole,) = launch("lightning_fit.py", 1, 0, "new", 0)
    (first,) = launch("lightning_fit.py", 1, stop, "new", 0)
    (rest,) = launch("lightning_fit.py", 1, 0, "resume", 0)
    assert first["seen"] == whole["seen"][:stop]
    assert rest["seen"] == whole["seen"][stop:]


def test_ddp_in_two_processes(launch: Launch) -> None:
    ranks = launch("lightning_fit.py", 2, 0, "new", 0, processes=2)
    for epoch in range(2):
        seen = [itertools.chain(*rank["seen"][9 * epoch : 9 * epoch + 9]) for rank in ranks]
        assert sorted(itertools.chain(*seen)) == list(range(70))
        validated = [itertools.chain(*rank["validated"][3 * epoch : 3 * epoch + 3]) for rank in ranks]
        assert sorted(itertools.chain(*validated)) == list(range(20))


def test_overfit_batches(launch: Launch) -> None:
    (run,) = launch("lightning_fit.py", 1, 0, "new", 3)
    assert len(run["seen"]) == 6
