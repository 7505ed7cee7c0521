"""Files are read and unpacked by a function whose name says nothing."""
import os
import time
import zlib

import numpy as np
import torch

import trainer
from meter import Meter, part

FILES = 4


def write_files(size):
    rng = np.random.default_rng(1)
    for i in range(FILES):
        with open("part%d.z" % i, "wb") as file:
            file.write(zlib.compress(rng.integers(0, 16, size, dtype=np.uint8).tobytes(), 1))


def unpack(name):
    with open(name, "rb") as file:
        return np.frombuffer(zlib.decompress(file.read()), dtype=np.uint8)


def step_a(index, seconds):
    until = time.perf_counter() + seconds
    values = unpack("part%d.z" % (index % FILES))
    while time.perf_counter() < until:
        values = unpack("part%d.z" % (index % FILES))
    wanted = trainer.BATCH * trainer.FEATURES
    return torch.from_numpy(values[:wanted].astype(np.float32)).view(trainer.BATCH, -1)


def main():
    args = trainer.options().parse_args()
    job, meter = trainer.Trainer(), Meter()
    write_files(1 << 19 if args.share > 0.05 else 1 << 15)
    y = torch.zeros(trainer.BATCH, dtype=torch.int64)
    factor = part(args.share)

    def step():
        meter.start()
        x = step_a(len(meter.steps), factor * meter.work.value)
        meter.fetched()
        job.step(x, y)
        meter.stop()

    trainer.train(args, meter, step)
    for i in range(FILES):
        os.remove("part%d.z" % i)


if __name__ == "__main__":
    main()
