"""Batches of a generator of one's own, with or without a span around the fetch."""
import contextlib
import time

import torch
from torch.profiler import record_function

import trainer
from meter import Meter, part


def make_batches(work, factor):
    while True:
        time.sleep(factor * work.value)
        yield torch.rand(trainer.BATCH, trainer.FEATURES), torch.zeros(trainer.BATCH, dtype=torch.int64)


def main():
    parser = trainer.options()
    parser.add_argument("--span", help="name of the span around the fetch")
    args = parser.parse_args()
    job, meter = trainer.Trainer(), Meter()
    batches = make_batches(meter.work, part(args.share))

    def step():
        meter.start()
        with record_function(args.span) if args.span else contextlib.nullcontext():
            x, y = next(batches)
        meter.fetched()
        with record_function("train_step") if args.span else contextlib.nullcontext():
            job.step(x, y)
        meter.stop()

    trainer.train(args, meter, step)


if __name__ == "__main__":
    main()
