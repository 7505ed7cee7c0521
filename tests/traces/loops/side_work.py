"""Half of each step goes into something on the host that is not input: metrics, a log, checkpoints."""
import json
import os
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

import trainer
from meter import Meter


def step_b(outputs, rounds):
    """Rank statistics of predictions, in NumPy."""
    total = 0.0
    for _ in range(rounds):
        order = np.argsort(outputs, axis=0)
        total += float(np.corrcoef(order, rowvar=False).sum())
    return total


def report(file, values, rounds):
    for i in range(rounds):
        file.write(json.dumps({"step": i, "values": values}) + "\n")
        file.flush()


def save(model, optimizer, rounds):
    for _ in range(rounds):
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")


def rounds_for(seconds, once):
    began = time.perf_counter()
    once()
    return max(1, round(seconds / (time.perf_counter() - began)))


def make_work(kind, job):
    outputs = np.random.default_rng(1).random((8000, 30))
    file = open("log.ndjson", "w", encoding="utf-8")
    values = outputs[:, 0].tolist()
    work = {"metrics": lambda n: step_b(outputs, n), "log": lambda n: report(file, values, n),
            "checkpoint": lambda n: save(job.model, job.optimizer, n)}[kind]
    work(1)
    rounds = rounds_for(0.06, lambda: work(1))
    return lambda: work(rounds)


def main():
    parser = trainer.options()
    parser.add_argument("--kind", choices=["metrics", "log", "checkpoint"], required=True)
    parser.add_argument("--loader", action="store_true", help="batches come from a DataLoader")
    args = parser.parse_args()
    job, meter = trainer.Trainer(), Meter()
    work = make_work(args.kind, job)
    data = torch.rand(20 * trainer.BATCH, trainer.FEATURES)
    labels = torch.zeros(len(data), dtype=torch.int64)
    loader = iter(DataLoader(TensorDataset(data, labels), batch_size=trainer.BATCH)) if args.loader else None

    def pick():
        places = torch.randint(len(data), (trainer.BATCH,))
        return data[places], labels[places]

    def step():
        meter.start()
        x, y = next(loader) if loader else pick()
        meter.fetched()
        job.step(x, y)
        work()
        meter.stop()

    trainer.train(args, meter, step)
    for name in ("log.ndjson", "last.pt"):
        if os.path.exists(name):
            os.remove(name)


if __name__ == "__main__":
    main()
