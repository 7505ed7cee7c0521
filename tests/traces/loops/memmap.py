"""get_batch() from a memory-mapped file of tokens, as nanoGPT has it, on storage that is slow or packed."""
import os
import time
import zlib

import numpy as np
import torch

import trainer
from meter import Meter, part

BLOCK = trainer.FEATURES


def write_tokens(path, size):
    rng = np.random.default_rng(1)
    rng.integers(0, 256, 1 << 22, dtype=np.uint16).tofile(path)
    return zlib.compress(rng.integers(0, 16, size, dtype=np.uint8).tobytes(), 1)


def main():
    parser = trainer.options()
    parser.add_argument("--packed", action="store_true", help="the slow part is a decompression, not a sleep")
    args = parser.parse_args()
    job, meter = trainer.Trainer(), Meter()
    packed = write_tokens("train.bin", 1 << 19 if args.share > 0.05 else 1 << 15)
    data = np.memmap("train.bin", dtype=np.uint16, mode="r")
    factor = part(args.share)

    def get_batch():
        places = torch.randint(len(data) - BLOCK, (trainer.BATCH,))
        seconds = factor * meter.work.value
        if args.packed:
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                zlib.decompress(packed)
        else:
            time.sleep(seconds)
        x = torch.stack([torch.from_numpy(data[i:i + BLOCK].astype(np.float32) / 256) for i in places.tolist()])
        y = torch.zeros(trainer.BATCH, dtype=torch.int64)
        return x, y

    def step():
        meter.start()
        x, y = get_batch()
        meter.fetched()
        job.step(x, y)
        meter.stop()

    trainer.train(args, meter, step)
    os.remove("train.bin")


if __name__ == "__main__":
    main()
