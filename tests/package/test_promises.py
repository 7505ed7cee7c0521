"""What README promises of ranks and epochs, kept by a script as people write it, in processes as a launcher starts them.

Nothing is said of ranks in the script, and nothing of epochs: what it sees must be right by default.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import Any

import pytest

import stoker

np = pytest.importorskip("numpy")

TIMEOUT_S = 120
SAMPLES, TRAIN = 1003, 801

SCRIPT = f"""
import json
import warnings

import numpy as np
import stoker

warnings.simplefilter("error")
rows = stoker.source({{"x": np.zeros(({SAMPLES}, 4, 4, 1), np.uint8) + 100, "id": np.arange({SAMPLES})}})
mixed = rows.shuffle(seed=7, reshuffle=False)
train = mixed.take({TRAIN}).shuffle(seed=1).color_jitter("x", brightness=0.5).batch(16)
valid = mixed.skip({TRAIN}).batch(16)

def groups():
    for group in range(12):
        for _ in range(4):
            yield {{"group": group}}

seen = {{"epochs": [], "valid": [], "groups": []}}
for epoch in range(2):
    batches = [(x[:, 0, 0, 0].tolist(), i.tolist()) for x, i in train.numpy("x", "id")]
    seen["epochs"].append(batches)
    seen["valid"].append([i.tolist() for i, in valid.numpy("id")])
seen["groups"] = [group.tolist() for group, in stoker.source(groups).batch(8).numpy("group")]
print(json.dumps(seen))
"""


def launch(world: int) -> list[dict[str, Any]]:
    """What the script saw in each of the processes."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            env={**env, "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    texts = [process.communicate(timeout=TIMEOUT_S)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0] * world
    return [json.loads(text) for text in texts]


@pytest.fixture(scope="module", params=[1, 2, 3])
def ranks(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return launch(request.param)


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return launch(1)[0]


def ids(rank: dict[str, Any], epoch: int) -> list[int]:
    return [i for _, batch in rank["epochs"][epoch] for i in batch]


def test_training_and_validation_share_nothing_and_lose_nothing(ranks: list[dict[str, Any]]) -> None:
    for epoch in range(2):
        training = [i for rank in ranks for i in ids(rank, epoch)]
        validation = [i for rank in ranks for batch in rank["valid"][epoch] for i in batch]
        assert len(set(training)) == TRAIN
        assert len(training) == -(-TRAIN // len(ranks)) * len(ranks)  # filled up, so that all have as many
        assert sorted(set(training) | set(validation)) == list(range(SAMPLES))
        assert len(validation) == SAMPLES - TRAIN  # each once


def test_the_split_is_that_of_one_process(ranks: list[dict[str, Any]], alone: dict[str, Any]) -> None:
    assert {i for rank in ranks for i in ids(rank, 0)} == set(ids(alone, 0))


def test_all_ranks_have_as_many_batches(ranks: list[dict[str, Any]]) -> None:
    for epoch in range(2):
        assert len({len(rank["epochs"][epoch]) for rank in ranks}) == 1
        assert len({len(rank["valid"][epoch]) for rank in ranks}) == 1
    assert len({len(rank["groups"]) for rank in ranks}) == 1


def test_each_epoch_has_another_order_and_other_augmentation(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert ids(rank, 0) != ids(rank, 1)
        values = [dict(zip(ids(rank, e), (v for x, _ in rank["epochs"][e] for v in x), strict=True)) for e in range(2)]
        both = values[0].keys() & values[1].keys()
        assert sum(values[0][i] != values[1][i] for i in both) > len(both) * 0.8
        assert rank["valid"][0] == rank["valid"][1]  # nothing is drawn there


def test_groups_of_a_generator_stay_together(ranks: list[dict[str, Any]]) -> None:
    batches = [batch for rank in ranks for batch in rank["groups"]]
    assert sorted(group for batch in batches for group in batch) == [i // 4 for i in range(48)]
    assert all(batch.count(group) == 4 for batch in batches for group in batch)


# ---- seeds ----


def add_noise(sample: dict[str, Any], rng: Any) -> dict[str, Any]:
    return {"noise": rng.random()}


def drawn(run_seed: int, **shuffle: Any) -> dict[str, list[Any]]:
    """The order, and what an op and a function drew, by sample."""
    rows = stoker.source({"x": np.full((64, 4, 4, 1), 100, np.uint8), "id": np.arange(64)})
    pipe = rows.shuffle(**shuffle).color_jitter("x", brightness=0.5).map(add_noise, noise="float64").batch(64)
    batch = pipe.first(seed=run_seed)
    place = np.argsort(batch["id"])
    x, noise = batch["x"][place, 0, 0, 0], batch["noise"][place]
    return {"order": batch["id"].tolist(), "x": x.tolist(), "noise": noise.tolist()}


def test_seeds_of_other_libraries_change_nothing() -> None:
    first = drawn(5, seed=1)
    random.seed(99)
    np.random.seed(99)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(99)
    assert drawn(5, seed=1) == first


@pytest.mark.parametrize("reshuffle", [True, False])
def test_the_seed_of_the_run_changes_all_but_orders_that_stay(reshuffle: bool) -> None:
    one, two = drawn(5, seed=1, reshuffle=reshuffle), drawn(6, seed=1, reshuffle=reshuffle)
    assert one["x"] != two["x"] and one["noise"] != two["noise"]
    assert (one["order"] == two["order"]) == (not reshuffle)
    assert drawn(5, seed=2, reshuffle=reshuffle)["order"] != one["order"]
