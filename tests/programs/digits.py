"""A classifier as PyTorch's users write it: arguments, transforms, loaders, a schedule, a file."""

import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


class Stripes(Dataset):
    """16 x 16 images (H, W) of uint8: bars whose width tells the class."""

    def __init__(self, n, transform=None):
        self.n, self.transform = n, transform

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        label = index % 4
        places = torch.arange(16) + index // 4
        row = (places // (label + 1) % 2 * 255).to(torch.uint8)
        image = row.expand(16, 16).contiguous().numpy()[:, :, None]
        return (image if self.transform is None else self.transform(image)), label


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 1)
        self.bn = nn.BatchNorm2d(16)
        self.dropout = nn.Dropout(0.0)
        self.fc1 = nn.Linear(16 * 36, 32)
        self.fc2 = nn.Linear(32, 4)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.bn(self.conv2(x))), 2)
        x = self.dropout(torch.flatten(x, 1))
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def train(args, model, device, train_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            done = batch_idx * len(data)
            print(f"epoch {epoch} [{done}/{len(train_loader.dataset)}] loss {loss.item():.5f}")


def test(model, device, loader):
    model.eval()
    total, correct = 0, 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            total += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    print(f"test loss {total / len(loader.dataset):.4f}, {correct}/{len(loader.dataset)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--log-interval", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    use_accel = torch.accelerator.is_available()
    torch.manual_seed(1)
    device = torch.accelerator.current_accelerator() if use_accel else torch.device("cpu")

    transform = transforms.Compose([
        transforms.ToTensor(),
        transforms.Normalize((0.5,), (0.5,)),
    ])  # fmt: skip
    kwargs = {"batch_size": 16, "num_workers": args.workers, "pin_memory": use_accel}
    train_loader = DataLoader(Stripes(96, transform), **kwargs)
    test_loader = torch.utils.data.DataLoader(Stripes(32, transform), **kwargs)

    model = Net()
    for i, p in enumerate(model.parameters()):
        p.data = torch.sin(torch.arange(p.numel()) + i).view_as(p) / 5
    model = model.to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, args.epochs + 1):
        train(args, model, device, train_loader, optimizer, epoch)
        test(model, device, test_loader)
        scheduler.step()
    torch.save(model.state_dict(), "digits.pt")
    other = Net()
    other.load_state_dict(torch.load("digits.pt", map_location="cpu", weights_only=True))
    test(other, torch.device("cpu"), test_loader)
    os.remove("digits.pt")


if __name__ == "__main__":
    main()
