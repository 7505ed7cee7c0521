"""Training scripts of PyTorch: pytorch/examples mnist and imagenet, and torchvision's classification."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from helpers import Launch, needs

needs("torch")


def joined(parts: list[list[int]]) -> list[int]:
    return sorted(itertools.chain(*parts))


def test_mnist(launch: Launch, photos: Any) -> None:
    (seen,) = launch("mnist.py", photos("train", 70))
    first, second = (list(itertools.chain(*epoch)) for epoch in seen["epochs"])
    assert sorted(first) == sorted(second) == list(range(70))
    assert first != second
    assert [count for _, _, count in seen["results"]] == [70, 70]


@pytest.mark.parametrize("uneven", ["auto", "pad", "keep", "drop"])
def test_imagenet_in_two_processes(launch: Launch, photos: Any, uneven: str) -> None:
    ranks = launch("imagenet.py", photos("train", 70), photos("val", 71), uneven, processes=2)
    for epoch in range(2):
        assert joined([rank["epochs"][epoch] for rank in ranks]) == list(range(70))
    assert ranks[0]["epochs"][0] != ranks[0]["epochs"][1]
    assert [rank["sampler"] for rank in ranks] == [35, 35]
    results = [rank["validate"] for rank in ranks]
    assert {result["dataset"] for result in results} == {71}
    seen = set(joined([result["seen"] + result["aux"] for result in results]))
    assert seen == set(range(71))
    assert all(bool(result["aux"]) == (uneven == "drop") for result in results)
    if uneven == "keep":
        assert [result["count"] for result in results] == [71, 71]


def test_torchvision_classification_in_two_processes(launch: Launch, photos: Any) -> None:
    ranks = launch("classification.py", photos("train", 70), processes=2)
    for epoch in range(2):
        assert joined([rank["epochs"][epoch] for rank in ranks]) == list(range(70))
    assert [rank["counts"] for rank in ranks] == [[70, 70], [70, 70]]
    assert ranks[0]["class_to_idx"] == {"ant": 0, "bee": 1, "cow": 2}
