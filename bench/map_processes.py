#!/usr/bin/env python3
"""torchvision's detection transforms in processes: Stoker's map, a DataLoader, and the bare limit, side by side.

    python3 bench/map_processes.py [--processes 1,2,4] [--rounds 7] [--images 256] [--json FILE]

Needs stoker, numpy, torch, torchvision and Pillow. Pictures are JPEG files in memory, with boxes. The DataLoader has
persistent workers, a collate that stacks pictures, and PIL as the decoder, as people have it. The bare limit is as many
plain processes, each of which decodes its share with PIL and calls the same function, and hands nothing over.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import statistics
import sys
import time
import warnings
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2

import stoker

BATCH = 16
TYPES = {"image": "uint8[3,300,300]", "boxes": "float32[?,4]", "classes": "int64[]"}
TRANSFORMS = v2.Compose(
    [
        v2.RandomIoUCrop(),
        v2.RandomHorizontalFlip(),
        v2.Resize((300, 300)),
        v2.SanitizeBoundingBoxes(labels_getter=lambda d: d["classes"]),
    ]
)


def make_records(count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    records = []
    for _ in range(count):
        small = Image.fromarray(rng.integers(0, 255, (40, 50, 3)).astype(np.uint8))
        file = io.BytesIO()
        small.resize((500, 375), Image.BICUBIC).save(file, "JPEG", quality=90)
        x, y = np.sort(rng.random((3, 2)), 1) * 500, np.sort(rng.random((3, 2)), 1) * 375
        boxes = np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], 1).astype(np.float32)
        records.append({"image": file.getvalue(), "boxes": boxes, "classes": np.arange(3)})
    return records


def augment(sample: dict[str, Any]) -> dict[str, Any]:
    """The function: a picture as an array, and its boxes."""
    image = torch.from_numpy(sample["image"]).permute(2, 0, 1)
    out = TRANSFORMS(
        {
            "image": tv_tensors.Image(image),
            "boxes": tv_tensors.BoundingBoxes(
                torch.from_numpy(sample["boxes"]), format="XYXY", canvas_size=image.shape[-2:]
            ),
            "classes": torch.from_numpy(sample["classes"]),
        }
    )
    return {name: out[name] for name in TYPES}


def read(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "image": np.array(Image.open(io.BytesIO(record["image"])).convert("RGB"))}


class Pictures(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __init__(self, records: list[dict[str, Any]]) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return augment(read(self.records[index]))


def collate(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Pictures are of one size and are stacked; boxes are not."""
    return {
        "image": torch.stack([s["image"] for s in samples]),
        "boxes": [torch.as_tensor(s["boxes"]) for s in samples],
        "classes": [s["classes"] for s in samples],
    }


def one_thread(worker: int) -> None:
    torch.set_num_threads(1)


# ---- the contestants: a function for one pass over all pictures ----


def count_rows(loader: Any) -> int:
    return sum(len(batch["image"]) for batch in loader)


def bare_worker(connection: Any, records: list[dict[str, Any]]) -> None:
    torch.set_num_threads(1)
    while connection.recv():
        for record in records:
            augment(read(record))
        connection.send(len(records))


class Bare:
    """As many plain processes, each with its share."""

    def __init__(self, records: list[dict[str, Any]], processes: int) -> None:
        context = multiprocessing.get_context("fork")
        self.ends = []
        for i in range(processes):
            here, there = context.Pipe()
            context.Process(target=bare_worker, args=(there, records[i::processes]), daemon=True).start()
            self.ends.append(here)

    def __call__(self) -> int:
        for end in self.ends:
            end.send(True)
        return sum(end.recv() for end in self.ends)

    def close(self) -> None:
        for end in self.ends:
            end.send(False)


class OfStoker:
    """A loader that makes nothing ahead of the next pass, which would take time of the others; its processes stay."""

    def __init__(self, records: list[dict[str, Any]], processes: int) -> None:
        source = stoker.source(records, image="bytes", boxes="float32[?,4]", classes="int64[]").decode_image("image")
        self.loader = source.map(augment, processes=processes, **TYPES).batch(BATCH).torch()

    def __call__(self) -> int:
        return count_rows(self.loader)

    def close(self) -> None:
        self.loader.close()


class OfDataLoader:
    def __init__(self, records: list[dict[str, Any]], processes: int) -> None:
        self.loader: Any = torch.utils.data.DataLoader(
            Pictures(records),
            batch_size=BATCH,
            num_workers=processes,
            persistent_workers=True,
            collate_fn=collate,
            worker_init_fn=one_thread,
        )

    def __call__(self) -> int:
        return count_rows(self.loader)

    def close(self) -> None:
        self.loader = None


CONTESTANTS = {"stoker": OfStoker, "dataloader": OfDataLoader, "bare": Bare}


# ---- rounds ----


def cpu_s() -> float:
    """Processor time of this process and its children so far; that of other programs does not change it."""
    ticks = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(name) == os.getpid() or int(fields[1]) == os.getpid():
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(
    records: list[dict[str, Any]], processes: int, rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Images per second of each, and milliseconds of processor time for one, in rounds that take turns."""
    running = {name: make(records, processes) for name, make in CONTESTANTS.items()}
    speeds: dict[str, list[float]] = {name: [] for name in running}
    costs: dict[str, list[float]] = {name: [] for name in running}
    for each in running.values():
        each()  # processes start, and memory is touched for the first time
    for number in range(rounds):
        names = list(running)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            began, spent = time.perf_counter(), cpu_s()
            count = running[name]()
            speeds[name].append(count / (time.perf_counter() - began))
            costs[name].append((cpu_s() - spent) / count * 1e3)
            if count != len(records):
                raise SystemExit(f"{name}: found {count} pictures, wanted {len(records)}")
    for each in running.values():
        each.close()
    return speeds, costs


def ratio(above: list[float], below: list[float]) -> dict[str, float]:
    """Of rounds side by side: their median, and the smallest and largest."""
    ratios = [a / b for a, b in zip(above, below)]
    return {"median": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}


def say(processes: int, result: dict[str, Any], first: dict[str, Any] | None) -> None:
    speeds = {name: statistics.median(values) for name, values in result["images_per_s"].items()}
    costs = {name: statistics.median(values) for name, values in result["cpu_ms_per_image"].items()}
    texts = [f"{name} {speed:.1f} ({costs[name]:.2f} ms CPU)" for name, speed in speeds.items()]
    for other in ("dataloader", "bare"):
        r = result[f"stoker/{other}"]
        texts.append(f"stoker/{other} {r['median']:.2f} ({r['least']:.2f} to {r['most']:.2f})")
    if first is not None:
        one = statistics.median(first["images_per_s"]["stoker"])
        texts.append(f"of linear {speeds['stoker'] * first['processes'] / one / processes:.2f}")
    print(f"{processes:3d} processes: images/s " + ", ".join(texts), flush=True)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", default="1,2", help="numbers of processes, with commas")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--images", type=int, default=256, help="pictures in a round, for each process")
    parser.add_argument("--json", help="file for all figures")
    args = parser.parse_args()
    torch.set_num_threads(1)
    results: list[dict[str, Any]] = []
    for processes in map(int, args.processes.split(",")):
        # So many pictures for each process, so that a round takes as long whatever their number.
        speeds, costs = measure(make_records(64) * max(1, args.images * processes // 64), processes, args.rounds)
        result: dict[str, Any] = {"processes": processes, "images_per_s": speeds, "cpu_ms_per_image": costs}
        for other in ("dataloader", "bare"):
            result[f"stoker/{other}"] = ratio(speeds["stoker"], speeds[other])
        say(processes, result, results[0] if results else None)
        results.append(result)
    out = {"cores": os.cpu_count(), "torch": torch.__version__, "python": sys.version.split()[0], "results": results}
    if args.json:
        with open(args.json, "w") as file:
            json.dump(out, file, indent=1)


if __name__ == "__main__":
    main()
