"""A program as people write it; test_types.py gives it to mypy and pyright, and nothing runs it."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
from typing_extensions import assert_type

import stoker
from pytest_stoker import Bench

pipe = (
    stoker.tfrecord("data/train-*.tfrecord", pathlib.Path("data/extra.tfrecord"))
    .shuffle(seed=42, window="auto")
    .parse(image="bytes", label="int64", boxes="float32[?, 4]")
    .decode_image("image", channels=3)
    .random_resized_crop("image", 224, 224, filter="bicubic")
    .normalize("image", mean=np.array([125.3, 123.0, 113.9]), std=[63.0, 62.1, 66.7])
    .layout("image", "CHW")
    .map(lambda sample: {"label": sample["label"] % 10})
    .batch(256, drop_last=True)
)
assert_type(pipe, stoker.Pipeline)
assert_type(stoker.range(10).select("value"), stoker.Pipeline)
assert_type(stoker.hdf5("a.h5", x="/features").cache(memory="256M"), stoker.Pipeline)
assert_type(pipe.fields(), dict[str, str])

loader = pipe.loader("image", "label", epochs=3, format="torch", threads=2, memory="1G")
assert_type(len(loader), int)
assert_type(loader.state_dict(), dict[str, Any])
for pair in loader:
    assert_type(pair, tuple[Any, ...])
for row in pipe.numpy():
    print(row["image"].mean())
for one, two in pipe.torch("image", "label"):
    print(one.to("cuda", non_blocking=True), two.long())
for image, label in loader:
    print(image.shape, label)
state = loader.state_dict()
loader.load_state_dict(state)

with stoker.record("run.pftrace") as recording:
    for batch in pipe.numpy(on_error="skip"):
        stoker.step()
        with stoker.span("forward"):
            print(batch["image"])
print(recording.path)


@stoker.span("load")
def load(path: str) -> int:
    return len(path)


assert_type(load("a"), int)
found = stoker.inspect("data/*.tfrecord", pathlib.Path("train.h5"), verify=True)
assert_type(found, stoker.Inspection)
assert_type(found.python, str)
assert_type(found.bad, int)
assert_type(stoker.g2p("aardvark"), list[str])
assert_type(stoker.g2p(["a", "b"]), list[list[str]])
try:
    pipe.run()
except stoker.CorruptError as error:
    assert_type(error.file, str | None)


def test_decode(stoker_bench: Bench) -> None:
    assert_type(stoker_bench(len, "abc"), int)
    assert_type(stoker_bench.pedantic(str, args=[7], rounds=3), str)
    compared = stoker_bench.compare(sorted, list, args=[[3, 1, 2]], rounds=6)
    assert_type(compared.verdict, str)
    assert_type(compared.not_slower(by=0.05, strict=True), stoker.bench.Answer)
    assert compared.not_slower()
