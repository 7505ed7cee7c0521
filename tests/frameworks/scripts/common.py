"""What the scripts share: a pipeline of pictures, and a place to leave what was seen."""

import json
import os
import pathlib

import stoker

RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))


def pictures(path, batch_size, train, uneven="auto"):
    """uneven: what a shard of the pipeline's own does with samples that ranks cannot share evenly."""
    pipe = stoker.image_folder(path)
    if train:
        pipe = pipe.shuffle(seed=5)
    if uneven != "auto":
        pipe = pipe.shard(uneven=uneven)
    pipe = pipe.decode_image("image").center_crop("image", 8, 8).cast(image="float32").layout("image", "CHW")
    return pipe.batch(batch_size)


def numbers_of(images):
    """Which pictures these are."""
    return images[:, 0, 0, 0].int().tolist()


def leave(seen):
    pathlib.Path(f"seen-{RANK}.json").write_text(json.dumps(seen))
