"""timm wraps a loader: PrefetchLoader asks it for its sampler, dataset, batch_sampler and collate_fn."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
timm_loader = pytest.importorskip("timm.data.loader")

import stoker  # noqa: E402


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_prefetch_loader(photos: Any, device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA here: its streams are not exercised")
    pipe = stoker.image_folder(photos("train", 70)).shuffle(seed=5).decode_image("image").center_crop("image", 8, 8)
    inner = pipe.layout("image", "CHW").batch(16).loader("image", "label", format="torch")
    loader = timm_loader.PrefetchLoader(inner, mean=(0.0,), std=(1 / 255,), channels=3, device=torch.device(device))
    assert len(loader) == 5
    assert len(loader.dataset) == 70 and loader.dataset.class_to_idx == {"ant": 0, "bee": 1, "cow": 2}
    assert loader.mixup_enabled is False
    loader.mixup_enabled = False  # timm's train script turns it off after some epochs
    epochs = []
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        epochs.append([int(i) for images, labels in loader for i in images[:, 0, 0, 0].cpu()])
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(70))
    assert epochs[0] != epochs[1]
