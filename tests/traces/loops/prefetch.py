"""A thread of one's own fills a queue, from which the loop takes batches."""
import queue
import threading
import time

import torch

import trainer
from meter import Meter


def fill(batches, work, factor):
    while True:
        time.sleep(factor * work.value)
        batches.put((torch.rand(trainer.BATCH, trainer.FEATURES), torch.zeros(trainer.BATCH, dtype=torch.int64)))


def main():
    args = trainer.options().parse_args()
    job, meter = trainer.Trainer(), Meter()
    batches = queue.Queue(maxsize=2)
    # A thread that keeps up is busy for most of a step all the same.
    factor = 1 / (1 - args.share) if args.share > 0.05 else 0.6
    threading.Thread(target=fill, args=(batches, meter.work, factor), daemon=True).start()

    def step():
        meter.start()
        x, y = batches.get()
        meter.fetched()
        job.step(x, y)
        meter.stop()

    trainer.train(args, meter, step)


if __name__ == "__main__":
    main()
