"""In the shape of torchvision's references/classification: a metric logger over the loader, samples counted."""

import sys
import warnings

import torch
import torch.distributed as dist
from common import leave, numbers_of, pictures


class MetricLogger:
    def log_every(self, iterable, print_freq, header):
        width = len(str(len(iterable)))
        for i, batch in enumerate(iterable):
            yield batch
            if i % print_freq == 0:
                print(f"{header} [{i:{width}d}/{len(iterable)}]")


def reduce_across_processes(value):
    total = torch.tensor(value)
    dist.barrier()
    dist.all_reduce(total)
    return total


def train_one_epoch(model, criterion, optimizer, data_loader, epoch):
    model.train()
    seen = []
    for image, target in MetricLogger().log_every(data_loader, 10, f"Epoch: [{epoch}]"):
        loss = criterion(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += numbers_of(image)
    return seen


def evaluate(model, criterion, data_loader):
    model.eval()
    num_processed_samples = 0
    with torch.inference_mode():
        for image, target in MetricLogger().log_every(data_loader, 10, "Test:"):
            criterion(model(image), target)
            num_processed_samples += image.shape[0]
    num_processed_samples = reduce_across_processes(num_processed_samples)
    if (
        hasattr(data_loader.dataset, "__len__")
        and len(data_loader.dataset) != num_processed_samples
        and dist.get_rank() == 0
    ):
        warnings.warn(
            f"It looks like the dataset has {len(data_loader.dataset)} samples, but {num_processed_samples} "
            "samples were used for the validation, which might bias the results."
        )
    return int(num_processed_samples)


warnings.simplefilter("error")
dist.init_process_group("gloo")
data_loader = pictures(sys.argv[1], 8, train=True).loader("image", "label", format="torch")
data_loader_test = pictures(sys.argv[1], 8, train=False).loader("image", "label", format="torch")
dataset = data_loader.dataset
num_classes = len(dataset.classes)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, num_classes))
model = torch.nn.parallel.DistributedDataParallel(model)
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
epochs, counts = [], []
for epoch in range(2):
    data_loader.sampler.set_epoch(epoch)
    epochs.append(train_one_epoch(model, criterion, optimizer, data_loader, epoch))
    counts.append(evaluate(model, criterion, data_loader_test))
leave({"epochs": epochs, "counts": counts, "class_to_idx": dataset.class_to_idx})
dist.destroy_process_group()
