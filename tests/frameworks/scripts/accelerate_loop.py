"""A loop by accelerate: accelerate_loop.py KIND DISPATCH WORKERS. Two epochs; what each process got and gathered."""

import sys

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from common import RANK, leave
from torch.utils.data import DataLoader

import stoker

kind, dispatch, workers = sys.argv[1], {"None": None, "True": True, "False": False}[sys.argv[2]], int(sys.argv[3])
accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=dispatch))
pipe = stoker.range(70).shuffle(seed=1).batch(4)
if kind == "loader":
    loader = pipe.loader("value", format="torch")
elif kind == "batches":
    loader = DataLoader(pipe.dataset("value"), batch_size=None, num_workers=workers)
elif kind == "samples":
    loader = DataLoader(pipe.dataset("value", samples=True), batch_size=4, num_workers=workers)
elif kind == "unsharded":
    loader = DataLoader(pipe.dataset("value", shard=False), batch_size=None)
elif kind == "own-rank":
    loader = DataLoader(pipe.dataset("value", rank=RANK, world=2), batch_size=None)
elif kind == "stacked":
    loader = DataLoader(pipe.dataset("value"), batch_size=4)
model = torch.nn.Linear(1, 1)
model, loader = accelerator.prepare(model, loader)

epochs = []
for _ in range(2):
    seen, gathered, length = [], [], len(loader)
    for (value,) in loader:
        accelerator.backward(model(value[:, None].float()).mean())
        seen.append(value.tolist())
        gathered += accelerator.gather_for_metrics(value).tolist()
    epochs.append({"seen": seen, "gathered": gathered, "length": length})
skipped = [value.tolist() for (value,) in accelerator.skip_first_batches(loader, 3)]
leave({"epochs": epochs, "skipped": skipped, "type": type(loader).__name__})
accelerator.end_training()
