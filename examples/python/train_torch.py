#!/usr/bin/env python3
"""A whole training with PyTorch: made-up pictures, a small network, checkpoints, resume, and a trace of it all.

    python3 train_torch.py --epochs 3 --record run.pftrace
    python3 train_torch.py --epochs 3 --checkpoint c.pt     # Ctrl-C, then the same again: goes on at the next batch

The losses are the same with any number of threads, and with stops in between.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
from typing import Any

import numpy as np
import stoker
import torch
from torch import nn

CLASSES = 10


def make_pictures(path: pathlib.Path, count: int = 1024) -> None:
    """Pictures of stripes, one direction and width for each class, as JPEGs in TFRecords."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[0:40, 0:40]
    labels = np.arange(count, dtype=np.int64) % CLASSES
    angles = labels * (np.pi / CLASSES)
    waves = np.cos(angles)[:, None, None] * x + np.sin(angles)[:, None, None] * y
    gray = 128 + 60 * np.sin(waves * 0.8 + rng.uniform(0, 6, (count, 1, 1)))
    images = (gray[..., None] + rng.normal(0, 20, (count, 40, 40, 3))).clip(0, 255).astype(np.uint8)
    rows = stoker.source({"image": images, "label": labels})
    rows.encode_jpeg("image").write_tfrecord(path / "train-%05d.tfrecord", shards=4).run()


def make_pipeline(path: pathlib.Path) -> stoker.Pipeline:
    return (
        stoker.tfrecord(path / "train-*.tfrecord")
        .shuffle(seed=42)
        .parse(image="bytes", label="int64")
        .decode_image("image")
        .random_crop("image", 32, 32)
        .normalize("image", mean=128, std=64)
        .layout("image", "CHW")
        .batch(64, drop_last=True)
    )


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 5, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, CLASSES),
    )  # fmt: skip


def save(path: pathlib.Path, step: int, **parts: Any) -> None:
    """Weights and the place in the data go into one file, which appears whole or not at all."""
    torch.save({"step": step, **{name: part.state_dict() for name, part in parts.items()}}, path.with_suffix(".tmp"))
    path.with_suffix(".tmp").replace(path)


def train(args: argparse.Namespace) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = make_model().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loader = make_pipeline(args.data).loader(
        "image", "label", format="torch", epochs=args.epochs, pin_memory=device == "cuda"
    )
    step = 0
    if args.checkpoint.exists():
        state = torch.load(args.checkpoint, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        step = state["step"]

    last = step + args.stop_after if args.stop_after else -1
    try:
        for image, label in loader:
            step += 1
            stoker.step(step)
            with stoker.span("forward"):
                logits = model(image.to(device, non_blocking=True))
                loss = nn.functional.cross_entropy(logits, label.to(device, non_blocking=True))
            with stoker.span("backward"):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            stoker.counter("loss", loss.item())
            print(f"epoch {loader.epoch} step {step} loss {loss.item():.6f}", flush=True)
            if step == last:
                break
    except KeyboardInterrupt:
        print("interrupted")
    save(args.checkpoint, step, model=model, optimizer=optimizer, loader=loader)
    stats = loader.stats()
    print(f"{stats['samples']:,} samples, {stats['peak_buffer_bytes'] / 2**20:.1f} MiB of buffers at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("stripes"), help="made when it is not there")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--checkpoint", type=pathlib.Path, default=pathlib.Path("train.pt"))
    parser.add_argument("--stop-after", type=int, default=0, metavar="STEPS")
    parser.add_argument("--record", metavar="FILE", help="trace to write: .pftrace, .json or .json.gz")
    args = parser.parse_args()
    if not args.data.exists():
        make_pictures(args.data)
    with stoker.record(args.record) if args.record else contextlib.nullcontext():
        train(args)


if __name__ == "__main__":
    main()
