"""A GPT that learns to write, character by character, from the plays of Shakespeare.

The same file runs on a GPU and on a CPU: `python examples/gpt.py --steps 1000`.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import Tensor, nn, optim

TEXT = Path(__file__).parent / "data" / "tinyshakespeare.txt.gz"
CONTEXT = 64  # characters that the network sees
WIDTH, HEADS, LAYERS = 128, 4, 4
BATCH_SIZE = 32


class Block(nn.Module):
    """Attention to the characters before, then a small network; each adds to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, WIDTH) -> the same."""
        b, t, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # 3 x (B, heads, T, WIDTH / heads)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """The scores of each next character."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(characters, WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)], nn.LayerNorm(WIDTH))
        self.head = nn.Linear(WIDTH, characters)
        for embedding in (self.embed, self.place):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T) of characters' numbers -> (B, T, characters)."""
        places = pf.arange(x.shape[1], device=x.device)
        return self.head(self.blocks(self.embed(x) + self.place(places)))

    @pf.no_grad()
    def write(self, x: Tensor, count: int, temperature: float = 0.8) -> Tensor:
        """(1, T) -> (1, T + count): characters drawn one after the other."""
        for _ in range(count):
            scores = self(x[:, -CONTEXT:])[:, -1] / temperature  # (1, characters)
            x = pf.cat([x, pf.multinomial(scores.softmax(-1), 1)], 1)
        return x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--characters", type=int, default=300, help="to write in the end")
    parser.add_argument("--device", default="auto", help="cpu, gpu or auto (default: auto)")
    args = parser.parse_args()

    pf.manual_seed(0)
    text = gzip.decompress(TEXT.read_bytes()).decode()
    letters = sorted(set(text))
    number = {c: i for i, c in enumerate(letters)}
    data = pf.tensor([number[c] for c in text])  # (1,115,394,)
    device = pf.device(args.device)
    net = GPT(len(letters)).to(device)
    optimizer = optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.1)
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, args.steps)

    @pf.compile
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss

    window = pf.arange(CONTEXT + 1)
    for i in range(1, args.steps + 1):
        starts = pf.randint(0, len(data) - CONTEXT, (BATCH_SIZE, 1))
        batch = data[starts + window].to(device)  # (BATCH_SIZE, CONTEXT + 1)
        loss = step(batch[:, :-1], batch[:, 1:])
        schedule.step()
        if i % 100 == 0 or i == args.steps:
            print(f"step {i}: loss {loss.item():.3f}", flush=True)

    written = net.eval().write(pf.tensor([[number["\n"]]], device=device), args.characters)
    print("".join(letters[i] for i in written[0].tolist()))


if __name__ == "__main__":
    main()
