"""A small network to play with: it learns to separate points of two colours.

The same file runs on a GPU, on a CPU, and inside a web page, which shows what the network makes of
each point of the plane while it learns.
"""

from __future__ import annotations

import argparse
from math import pi

import pyframe as pf
from pyframe import Tensor, nn, optim
from pyframe.data import TensorDataset
from pyframe.web import Choice, Demo, Plane, Points, Slider

EPOCHS = 60
BATCH_SIZE = 40


class Sine(nn.Module):
    """Waves instead of slopes."""

    def forward(self, x: Tensor) -> Tensor:
        """Of any shape."""
        return x.sin()


ACTIVATIONS = {"tanh": nn.Tanh, "ReLU": nn.ReLU, "GELU": nn.GELU, "sine": Sine}


def make_model(layers: int = 3, width: int = 16, activation: str = "tanh") -> pf.Model:
    """A network from a point (x, y) to the scores of its two colours."""
    pf.manual_seed(0)
    hidden: list[nn.Module] = []
    for before in [2, *[width] * (layers - 1)]:
        hidden += [nn.Linear(before, width), ACTIVATIONS[activation]()]
    net = nn.Sequential(*hidden, nn.Linear(width, 2))
    optimizer = optim.Adam(net.parameters(), lr=0.03)
    return pf.Model(net, nn.CrossEntropyLoss(), optimizer, metrics=["accuracy"])


# Each takes random numbers u and v from 0 to 1 and the side, -1 or 1, that a point is on.


def moons(u: Tensor, v: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
    """Two half circles that reach into each other."""
    return 0.6 * side * ((pi * u).cos() - 0.5), 0.6 * side * ((pi * u).sin() - 0.25)


def circles(u: Tensor, v: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
    """One circle around another."""
    radius = 0.55 + 0.25 * side
    return radius * (2 * pi * u).cos(), radius * (2 * pi * u).sin()


def spirals(u: Tensor, v: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
    """Two arms that wind around each other."""
    radius, angle = 0.9 * u.sqrt(), 3 * pi * u.sqrt()
    return side * radius * angle.cos(), side * radius * angle.sin()


def xor(u: Tensor, v: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
    """Opposite corners of a square belong together."""
    x = 1.8 * u - 0.9
    return x, 0.9 * v * side * x.sign()


def blobs(u: Tensor, v: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
    """Two discs, which a straight line parts."""
    radius = 0.4 * v.sqrt()
    return 0.4 * side + radius * (2 * pi * u).cos(), 0.4 * side + radius * (2 * pi * u).sin()


SHAPES = {shape.__name__: shape for shape in (spirals, moons, circles, xor, blobs)}


def load_data(shape: str = "spirals", noise: float = 0.03) -> tuple[TensorDataset, TensorDataset]:
    """400 points to learn from and 200 to test with: (x, y), and which colour, 0 or 1."""
    pf.manual_seed(1)
    colour = pf.arange(600) % 2
    u, v = pf.rand(2, 600)
    points = pf.stack(SHAPES[shape](u, v, 2 * colour - 1), 1) + noise * pf.randn(600, 2)
    return TensorDataset(points[:400], colour[:400]), TensorDataset(points[400:], colour[400:])


demo = Demo(
    make_model,
    Points(classes=2),
    Plane(),
    data=load_data,
    epochs=EPOCHS,
    batch_size=BATCH_SIZE,
    controls=(
        Choice("shape", tuple(SHAPES), label="Points"),
        Slider("noise", 0, 0.2, 0.03, step=0.01, label="Noise"),
        Choice("layers", (1, 2, 3, 4), 3, label="Layers"),
        Choice("width", (2, 4, 8, 16, 32), 16, label="Width"),
        Choice("activation", tuple(ACTIVATIONS), label="Activation"),
        Slider("lr", 1e-4, 0.1, 0.03, log=True, label="Learning rate"),
    ),
    title="A network to play with",
    description="Press Train and see how the network parts the plane. Or put points of your own.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shape", default="spirals", choices=SHAPES)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--device", default="auto", help="cpu, gpu or auto (default: auto)")
    args = parser.parse_args()

    model = make_model()
    train, test = load_data(args.shape)
    model.fit(train, epochs=args.epochs, batch_size=BATCH_SIZE, device=args.device)
    print(f"{model.evaluate(test)['accuracy']:.1%} of the test points are told apart")


if __name__ == "__main__":
    main()
