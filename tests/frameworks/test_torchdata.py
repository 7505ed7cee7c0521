"""torchdata's StatefulDataLoader goes on where it was, with finished batches and with samples."""

from __future__ import annotations

import itertools
import json

import pytest

stateful = pytest.importorskip("torchdata.stateful_dataloader")

import stoker  # noqa: E402


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("samples", [False, True])
def test_the_rest_after_a_state(workers: int, samples: bool) -> None:
    def make() -> stateful.StatefulDataLoader:
        dataset = stoker.range(70).shuffle(seed=1).batch(4).dataset("value", samples=samples)
        return stateful.StatefulDataLoader(dataset, batch_size=6 if samples else None, num_workers=workers)

    loader = make()
    next_epoch = [[value.tolist() for (value,) in loader] for _ in range(2)][1]
    loader = make()
    for _ in loader:
        pass
    loop = iter(loader)
    first = [value.tolist() for (value,) in itertools.islice(loop, 5)]
    state = loader.state_dict()
    again = make()
    again.load_state_dict(json.loads(json.dumps(state)) if not workers else state)
    rest = [value.tolist() for (value,) in again]
    assert first + rest == next_epoch
    assert [value.tolist() for (value,) in loop] == rest
