"""A map-style dataset behind torch.utils.data.DataLoader."""
import time

import torch
from torch.utils.data import DataLoader, Dataset

import trainer
from meter import Meter, part


class Samples(Dataset):
    def __init__(self, work, factor, busy):
        self.work, self.factor, self.busy = work, factor, busy

    def __len__(self):
        return 100000

    def __getitem__(self, index):
        return self.decode(index), index % 10

    def decode(self, index):
        seconds = self.factor * self.work.value
        if self.busy:
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                torch.rand(100000).sort()
        elif seconds:
            time.sleep(seconds)
        return torch.rand(trainer.FEATURES)


def make_loader(args, meter, share):
    """Workers share the work and run ahead; the loop waits for what is left."""
    factor = part(share) if share > 0.05 else 0
    if args.workers:
        factor = args.workers / (1 - share) if share > 0.05 else 0.1
    return DataLoader(Samples(meter.work, factor / args.batch, args.busy), batch_size=args.batch,
                      num_workers=args.workers)


def evaluate(model, batches, meter, count=2):
    model.eval()
    with torch.no_grad():
        for _ in range(count):
            meter.fetching()
            x, y = next(batches)
            meter.fetched()
            model(x).argmax(1).eq(y).sum().item()
    model.train()


def main():
    parser = trainer.options()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batch", type=int, default=trainer.BATCH)
    parser.add_argument("--busy", action="store_true", help="samples are computed, not slept for")
    parser.add_argument("--evaluate", action="store_true", help="every third step")
    args = parser.parse_args()
    job, meter = trainer.Trainer(), Meter()
    batches = iter(make_loader(args, meter, args.share))
    held_out = iter(make_loader(args, meter, args.share / 3)) if args.evaluate else None

    def step():
        meter.start()
        x, y = next(batches)
        meter.fetched()
        job.step(x, y)
        if held_out and len(meter.steps) % 3 == 0:
            evaluate(job.model, held_out, meter)
        meter.stop()

    trainer.train(args, meter, step)


if __name__ == "__main__":
    main()
