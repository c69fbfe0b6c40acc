"""A small residual network (arXiv 1512.03385) that reads digits, trained on images altered anew.

The same file runs on a GPU and on a CPU: `python examples/resnet.py --epochs 5`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import Tensor, nn, optim
from pyframe.data import DataLoader, Subset
from pyframe.vision import transforms
from pyframe.vision.datasets import MNIST

DATA = Path(__file__).parent / "data" / "mnist10k"


class Residual(nn.Module):
    """Two convolutions that add to their input: (N, a, H, W) -> (N, b, H / stride, W / stride)."""

    def __init__(self, a: int, b: int, stride: int = 1) -> None:
        super().__init__()
        self.change = nn.Sequential(
            nn.Conv2d(a, b, 3, stride, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
            nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b),
        )  # fmt: skip
        self.keep = nn.Identity() if a == b else nn.Conv2d(a, b, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The input, and what the convolutions found."""
        return F.relu(self.keep(x) + self.change(x))


def make_net() -> nn.Sequential:
    """175,000 weights."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        Residual(16, 16),  # (N, 16, 28, 28)
        Residual(16, 32, stride=2),  # (N, 32, 14, 14)
        Residual(32, 64, stride=2),  # (N, 64, 7, 7)
        Residual(64, 64),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),  # (N, 10)
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--images", type=int, default=9000, help="to learn from")
    parser.add_argument("--device", default="auto", help="cpu, gpu or auto (default: auto)")
    args = parser.parse_args()

    pf.manual_seed(0)
    augment = transforms.Compose([
        transforms.RandomAffine(degrees=10, translate=(0.1, 0.1), scale=(0.9, 1.1)),
        transforms.RandomErasing(p=0.25, scale=(0.02, 0.1)),
        transforms.Normalize(0.13, 0.31),
    ])  # fmt: skip
    train = Subset(MNIST(DATA, train=True, transform=augment), range(args.images))
    test = MNIST(DATA, train=False, transform=transforms.Normalize(0.13, 0.31))
    net = make_net()
    optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    model = pf.Model(net, nn.CrossEntropyLoss(label_smoothing=0.1), optimizer, ["accuracy"])
    model.fit(
        DataLoader(train, batch_size=64, shuffle=True, drop_last=True), epochs=args.epochs,
        validation_data=DataLoader(test, batch_size=250), device=args.device,
    )  # fmt: skip
    print(f"{model.evaluate(test)['accuracy']:.1%} of the test digits are read correctly")


if __name__ == "__main__":
    main()
