"""In the shape of pytorch/examples imagenet: samplers, meters, and the rest that a sampler left out."""

import sys

import torch
import torch.distributed as dist
from common import RANK, WORLD, leave, numbers_of, pictures
from torch.utils.data import DataLoader, Subset


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n):
        self.sum, self.count = self.sum + value * n, self.count + n

    def all_reduce(self):
        total = torch.tensor([self.sum, self.count], dtype=torch.float64)
        dist.all_reduce(total, dist.ReduceOp.SUM)
        self.sum, self.count = total.tolist()


def train(train_loader, model, criterion, optimizer):
    seen = []
    for i, (images, target) in enumerate(train_loader):
        assert i < len(train_loader)
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += numbers_of(images)
    return seen


def validate(val_loader, model, criterion):
    meter, seen, aux = AverageMeter(), [], []

    def run_validate(loader, seen):
        with torch.no_grad():
            for images, target in loader:
                loss = criterion(model(images), target)
                meter.update(loss.item(), images.size(0))
                seen += numbers_of(images)

    run_validate(val_loader, seen)
    meter.all_reduce()
    if len(val_loader.sampler) * WORLD < len(val_loader.dataset):
        aux_val_dataset = Subset(
            val_loader.dataset, range(len(val_loader.sampler) * WORLD, len(val_loader.dataset))
        )
        aux_val_loader = DataLoader(aux_val_dataset, batch_size=4, shuffle=False, num_workers=0, pin_memory=False)
        run_validate(aux_val_loader, aux)
    return {"seen": seen, "aux": aux, "count": meter.count, "dataset": len(val_loader.dataset)}


dist.init_process_group("gloo")
train_loader = pictures(sys.argv[1], 8, train=True).loader("image", "label", format="torch")
val_loader = pictures(sys.argv[2], 8, train=False, uneven=sys.argv[3]).loader("image", "label", format="torch")
train_sampler = train_loader.sampler

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, len(train_loader.dataset.classes)))
model = torch.nn.parallel.DistributedDataParallel(model)
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), 1e-6)
epochs = []
for epoch in range(2):
    train_sampler.set_epoch(epoch)
    epochs.append(train(train_loader, model, criterion, optimizer))
leave({"epochs": epochs, "sampler": len(train_sampler), "validate": validate(val_loader, model, criterion)})
dist.destroy_process_group()
