"""A GRU that invents names: it reads 32,000 of them, letter by letter, and goes on by itself.

The same file runs on a GPU and on a CPU: `python examples/names.py --steps 2000`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import Tensor, nn, optim
from pyframe.nn.utils.rnn import pad_sequence

NAMES = Path(__file__).parent / "data" / "names.txt"
LETTERS = ".abcdefghijklmnopqrstuvwxyz"  # the dot begins and ends a name
WIDTH = 128
BATCH_SIZE = 64


class Writer(nn.Module):
    """The scores of each next letter, from all letters before it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(LETTERS), 32)
        self.gru = nn.GRU(32, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, len(LETTERS))

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B, T) of letters' numbers -> (B, T, letters), and the state to go on from."""
        seen, state = self.gru(self.embed(x), state)  # (B, T, WIDTH)
        return self.head(seen), state

    @pf.no_grad()
    def invent(self, count: int, longest: int = 16) -> list[str]:
        """Names, all of them at once: a batch that grows by a letter at a time."""
        letter = pf.zeros(count, 1, dtype=pf.long, device=self.head.weight.device)
        state, drawn = None, []
        for _ in range(longest):
            scores, state = self(letter, state)
            letter = pf.multinomial(scores[:, -1].softmax(-1), 1)  # (count, 1)
            drawn.append(letter)
        rows = pf.cat(drawn, 1).tolist()
        return ["".join(LETTERS[i] for i in row).partition(".")[0] for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--device", default="auto", help="cpu, gpu or auto (default: auto)")
    args = parser.parse_args()

    pf.manual_seed(0)
    names = NAMES.read_text("utf-8").split()
    rows = [pf.tensor([LETTERS.index(c) for c in f".{name}."]) for name in names]
    data = pad_sequence(rows, batch_first=True, padding_value=-1)  # (32,033, 17)
    net = Writer().to(args.device)
    optimizer = optim.Adam(net.parameters(), lr=3e-3)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)

    @pf.compile
    def step(batch: Tensor) -> Tensor:
        optimizer.zero_grad()
        scores, _ = net(batch[:, :-1].clamp(min=0))
        loss = F.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten(), ignore_index=-1)
        loss.backward()
        optimizer.step()
        return loss

    for i in range(1, args.steps + 1):
        loss = step(data[pf.randint(0, len(data), (BATCH_SIZE,))].to(args.device))
        schedule.step()
        if i % 100 == 0 or i == args.steps:
            print(f"step {i}: loss {loss.item():.3f}", flush=True)

    known = set(names)
    for name in net.eval().invent(20):
        print(f"{name}  (is one)" if name in known else name)


if __name__ == "__main__":
    main()
