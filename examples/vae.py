"""A variational autoencoder (arXiv 1312.6114) that lays handwritten digits out on a plane.

The same file runs on a GPU, on a CPU, and inside a web page, where the mouse moves over the plane.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import Tensor, nn, optim
from pyframe.data import TensorDataset
from pyframe.vision.datasets import MNIST
from pyframe.web import Demo, Picture, Position, Slider

DATA = Path(__file__).parent / "data" / "mnist10k"
EPOCHS = 40
BATCH_SIZE = 64


class VAE(nn.Module):
    """An image as a small normal distribution on the plane, and an image of each point of it."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(),  # (N, 16, 14, 14)
            nn.Conv2d(16, 16, 4, 2, 1), nn.ReLU(),  # (N, 16, 7, 7)
            nn.Flatten(), nn.Linear(16 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 2 * 2),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(2, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
            nn.Linear(128, 16 * 7 * 7), nn.ReLU(), nn.Unflatten(1, (16, 7, 7)),
            nn.ConvTranspose2d(16, 16, 4, 2, 1), nn.ReLU(),  # (N, 16, 14, 14)
            nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Sigmoid(),  # (N, 1, 28, 28)
        )  # fmt: skip

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(N, 1, 28, 28) -> the same drawn again, and the means and log variances (N, 2)."""
        mean, log_variance = self.encoder(x).chunk(2, 1)
        z = mean + (log_variance / 2).exp() * pf.randn_like(mean)
        return self.decoder(z), mean, log_variance


def loss(output: tuple[Tensor, Tensor, Tensor], x: Tensor) -> Tensor:
    """What the drawing misses, and how far the distribution is from N(0, 1); per image."""
    drawn, mean, log_variance = output
    missed = F.binary_cross_entropy(drawn, x, reduction="sum")
    distance = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
    return (missed + distance) / len(x)


def make_model() -> pf.Model:
    """A network of 227,781 weights, always with the same start."""
    pf.manual_seed(0)
    net = VAE()
    return pf.Model(net, loss, optim.Adam(net.parameters(), lr=2e-3))


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """Digits that are to be drawn again, to learn from and to test with."""
    train, test = (MNIST(DATA, train=kind).images for kind in (True, False))
    return TensorDataset(train, train), TensorDataset(test, test)


def draw(model: pf.Model, places: Tensor) -> Tensor:
    """(N, 2) on the plane -> (N, 1, 28, 28)."""
    return model.net.decoder(places)


demo = Demo(
    make_model,
    Position(-2, 2),
    Picture(28, 28),
    data=load_data,
    predict=draw,
    epochs=5,
    batch_size=BATCH_SIZE,
    controls=(Slider("lr", 1e-4, 1e-2, 2e-3, log=True, label="Learning rate"),),
    title="A plane of handwriting",
    description="Each point of the plane is a digit that nobody wrote. Move over it, and the "
    "network draws what lies there.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--images", type=int, default=9000, help="to learn from")
    parser.add_argument("--device", default="auto", help="cpu, gpu or auto (default: auto)")
    args = parser.parse_args()

    model = make_model()
    train, _ = load_data()
    x, y = train[: args.images]
    history = model.fit(x, y, epochs=args.epochs, batch_size=BATCH_SIZE, device=args.device)
    print("loss of each epoch:", " ".join(f"{loss:.1f}" for loss in history["loss"]))

    from pyframe.vision.utils import save_image  # a page does without

    side = pf.linspace(-2, 2, 20, device=model.device)
    rows = pf.stack(pf.meshgrid(side, -side, indexing="xy"), -1)  # (20, 20, 2), y upwards
    with pf.no_grad():
        drawn = pf.cat([draw(model, row) for row in rows])
    save_image(drawn, "vae.png", nrow=20, padding=0)
    print("vae.png shows the plane")
    model.net.half()  # half the bytes
    model.save("vae.safetensors")


if __name__ == "__main__":
    main()
