"""Two processes with DistributedDataParallel: one has slow input, and the other waits for it in the all-reduce."""
import multiprocessing
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import trainer
from meter import Meter, part

RANKS, PORT = 2, "29511"


class Samples(Dataset):
    def __init__(self, work, factor):
        self.work, self.factor = work, factor

    def __len__(self):
        return 100000

    def __getitem__(self, index):
        if self.factor:
            time.sleep(self.factor * self.work.value)
        return torch.rand(trainer.FEATURES), index % 10


def rank_main(rank, args, meter):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=PORT)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    job = trainer.Trainer(DistributedDataParallel)
    share = args.share if rank == 1 else 0
    batches = iter(DataLoader(Samples(meter.work, part(share) / trainer.BATCH), batch_size=trainer.BATCH))
    args.out = args.out.replace("RANK", str(rank))

    def step():
        meter.start()
        x, y = next(batches)
        meter.fetched()
        job.step(x, y)
        meter.stop()

    trainer.train(args, meter, step)
    dist.destroy_process_group()


def main():
    args = trainer.options().parse_args()
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=rank_main, args=(rank, args, Meter())) for rank in range(RANKS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
