"""Handwritten digits: a small convolutional network that learns to read them in seconds.

The same file runs on a GPU, on a CPU, and inside a web page (`python -m pyframe serve`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyframe as pf
from pyframe import nn, optim
from pyframe.vision.datasets import MNIST
from pyframe.web import Bars, Demo, Pad, Slider

SEED = 0
BATCH_SIZE = 64
EPOCHS = 6
DATA = Path(__file__).parent / "data" / "mnist10k"


def make_model() -> pf.Model:
    """A network of 8,882 weights, always with the same start; it takes pixels from 0 to 1."""
    pf.manual_seed(SEED)
    net = nn.Sequential(
        nn.LayerNorm((1, 28, 28), elementwise_affine=False),  # faint and bold ink alike
        nn.Conv2d(1, 8, 5),  # (N, 8, 24, 24)
        nn.ReLU(),
        nn.MaxPool2d(2),  # (N, 8, 12, 12)
        nn.Conv2d(8, 24, 5),  # (N, 24, 8, 8)
        nn.ReLU(),
        nn.MaxPool2d(2),  # (N, 24, 4, 4)
        nn.Flatten(),  # (N, 384)
        nn.Dropout(0.25),
        nn.Linear(384, 10),  # (N, 10): a score for each digit
    )
    optimizer = optim.Adam(net.parameters(), lr=3e-3)
    return pf.Model(net, loss=nn.CrossEntropyLoss(), optimizer=optimizer, metrics=["accuracy"])


def load_data(root: Path = DATA) -> tuple[MNIST, MNIST]:
    """The digits to train on and those to test with: images (1, 28, 28) from 0 to 1, and labels."""
    return MNIST(root, train=True), MNIST(root, train=False)


demo = Demo(  # what a web page shows; natively it means nothing
    make_model,
    Pad(28, 28),
    Bars("0123456789"),
    data=load_data,
    epochs=EPOCHS,
    batch_size=BATCH_SIZE,
    controls=(Slider("lr", 1e-4, 1e-2, 3e-3, log=True, label="Learning rate"),),
    title="Read handwriting",
    description="Press Train, and the network learns to read digits. Draw one: it says what it "
    "sees.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--device", default="auto", help="cpu, gpu or auto (default: auto)")
    args = parser.parse_args()

    model = make_model()
    train, test = load_data()
    model.fit(
        train,
        epochs=args.epochs,
        batch_size=BATCH_SIZE,
        validation_data=test,
        device=args.device,
    )
    accuracy = model.evaluate(test)["accuracy"]
    model.save("digits.safetensors")
    print(f"{accuracy:.1%} of the test digits are read correctly; saved digits.safetensors")


if __name__ == "__main__":
    main()
