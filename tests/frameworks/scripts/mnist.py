"""In the shape of pytorch/examples mnist: progress and averages by len(loader.dataset)."""

import sys

import torch
import torch.nn.functional as F
from common import leave, numbers_of, pictures


def train(model, train_loader, optimizer, epoch, seen):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        seen.append(numbers_of(data))
        print(
            "Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}".format(
                epoch,
                batch_idx * len(data),
                len(train_loader.dataset),
                100.0 * batch_idx / len(train_loader),
                loss.item(),
            )
        )


def test(model, test_loader):
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for data, target in test_loader:
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    test_loss /= len(test_loader.dataset)
    return test_loss, correct, len(test_loader.dataset)


torch.manual_seed(1)
train_loader = pictures(sys.argv[1], 16, train=True).loader("image", "label", format="torch")
test_loader = pictures(sys.argv[1], 32, train=False).loader("image", "label", format="torch")
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3), torch.nn.LogSoftmax(dim=1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
epochs, results = [], []
for epoch in range(1, 3):
    seen = []
    train(model, train_loader, optimizer, epoch, seen)
    epochs.append(seen)
    results.append(test(model, test_loader))
leave({"epochs": epochs, "results": results})
