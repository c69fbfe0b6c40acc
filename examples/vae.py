"""A variational autoencoder (arXiv 1312.6114) that draws digits which nobody wrote.

The same file runs on a GPU and on a CPU: `python examples/vae.py`; it leaves samples in vae.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import Tensor, nn, optim
from pyframe.data import DataLoader
from pyframe.vision.datasets import MNIST
from pyframe.vision.utils import save_image

DATA = Path(__file__).parent / "data" / "mnist10k"
LATENT = 16


class VAE(nn.Module):
    """An image as a small normal distribution, and an image of each point of it."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(),  # (N, 16, 14, 14)
            nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(),  # (N, 32, 7, 7)
            nn.Flatten(), nn.Linear(32 * 7 * 7, 2 * LATENT),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(LATENT, 32 * 7 * 7), nn.ReLU(), nn.Unflatten(1, (32, 7, 7)),
            nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(),  # (N, 16, 14, 14)
            nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Sigmoid(),  # (N, 1, 28, 28)
        )  # fmt: skip

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(N, 1, 28, 28) -> the same drawn again, and the means and log variances (N, LATENT)."""
        mean, log_variance = self.encoder(x).chunk(2, 1)
        z = mean + (log_variance / 2).exp() * pf.randn_like(mean)
        return self.decoder(z), mean, log_variance

    def loss(self, x: Tensor) -> Tensor:
        """What the drawing misses, and how far the distribution is from N(0, 1); per image."""
        drawn, mean, log_variance = self(x)
        missed = F.binary_cross_entropy(drawn, x, reduction="sum")
        distance = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
        return (missed + distance) / len(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--images", type=int, default=9000, help="to learn from")
    parser.add_argument("--device", default="auto", help="cpu, gpu or auto (default: auto)")
    args = parser.parse_args()

    pf.manual_seed(0)
    images = MNIST(DATA).images[: args.images]  # (N, 1, 28, 28)
    loader = DataLoader(images, batch_size=128, shuffle=True, drop_last=True)
    net = VAE().to(args.device)
    optimizer = optim.Adam(net.parameters(), lr=2e-3)

    @pf.compile
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net.loss(x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for epoch in range(1, args.epochs + 1):
        losses = [step(x.to(args.device)) for x in loader]
        print(f"epoch {epoch}: loss {pf.stack(losses).mean().item():.1f}", flush=True)

    with pf.no_grad():
        samples = net.eval().decoder(pf.randn(64, LATENT, device=pf.device(args.device)))
    save_image(samples, "vae.png", nrow=8)
    print("vae.png shows 64 digits that nobody wrote")


if __name__ == "__main__":
    main()
