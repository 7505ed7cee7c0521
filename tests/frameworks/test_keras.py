"""Keras 3 takes loaders in fit, evaluate and predict, with each of its backends."""

from __future__ import annotations

import pytest
from helpers import Launch, needs

import stoker

needs("keras")


@pytest.mark.parametrize("format", ["keras", "numpy", "torch", "tensorflow"])
@pytest.mark.parametrize("backend", ["tensorflow", "torch", "jax"])
def test_fit_evaluate_and_predict(launch: Launch, backend: str, format: str) -> None:
    needs(backend, format)
    (run,) = launch("keras_fit.py", backend, format)
    loader = stoker.range(70).shuffle(seed=1).batch(8).loader("value")
    for epoch in run["epochs"]:  # Keras shows the mean of the loss since the epoch's begin
        numbers = [value for (value,) in loader]
        done = [sum(float(v.sum()) for v in numbers[:n]) / sum(len(v) for v in numbers[:n]) for n in range(1, 10)]
        assert epoch == pytest.approx(done, rel=1e-5)
    assert run["iterations"] == 27
    assert run["val_loss"] == pytest.approx([34.5] * 3)
    assert run["evaluated"] == pytest.approx(34.5)
    assert run["predicted"] == list(range(70))
    assert run["filtered"] == 2
    assert "for Keras: pipe.keras()" in run["error"]
