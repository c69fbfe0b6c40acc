"""A GPT that learns to write, character by character, from the plays of Shakespeare.

The same file runs on a GPU, on a CPU, and inside a web page, where it goes on with your text.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import Tensor, nn, optim
from pyframe.data import TensorDataset
from pyframe.web import Demo, Slider, Text

TEXT = Path(__file__).parent / "data" / "tinyshakespeare.txt.gz"
LETTERS = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
CONTEXT = 96  # characters that the network sees
WIDTH, HEADS, LAYERS = 64, 4, 4
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

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(LETTERS), WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)], nn.LayerNorm(WIDTH))
        self.head = nn.Linear(WIDTH, len(LETTERS))
        for embedding in (self.embed, self.place):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T) of characters' numbers -> (B, T, characters)."""
        places = pf.arange(x.shape[1], device=x.device)
        return self.head(self.blocks(self.embed(x) + self.place(places)))

    @pf.no_grad()
    def draw(self, seen: list[int], temperature: float = 0.8) -> Tensor:
        """(1,): the number of a character that may come next."""
        last = min(len(seen), CONTEXT) - 1
        x = pf.tensor([(seen[-CONTEXT:] + [0] * CONTEXT)[:CONTEXT]], device=self.head.weight.device)
        return pf.multinomial((self(x)[0, last] / temperature).softmax(-1), 1)


def loss(scores: Tensor, target: Tensor) -> Tensor:
    """How surprising the characters that came are, on average."""
    return F.cross_entropy(scores.flatten(0, 1), target.flatten())


def make_model() -> pf.Model:
    """A network of 214,593 weights, always with the same start."""
    pf.manual_seed(0)
    net = GPT()
    return pf.Model(net, loss, optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.1))


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """The plays in pieces of CONTEXT characters, and those that come next; a tenth to test."""
    number = {ord(c): i for i, c in enumerate(LETTERS)}
    text = gzip.decompress(TEXT.read_bytes()).decode().translate(number)
    data = pf.tensor([*text.encode()])  # (1,115,394,)
    count = (len(data) - 1) // CONTEXT
    x = data[: count * CONTEXT].view(count, CONTEXT)
    y = data[1 : count * CONTEXT + 1].view(count, CONTEXT)
    cut = count * 9 // 10
    return TensorDataset(x[:cut], y[:cut]), TensorDataset(x[cut:], y[cut:])


async def write(model: pf.Model, text: str, count: int = 400) -> AsyncIterator[str]:
    """Goes on with `text`, a character at a time."""
    seen = [LETTERS.index(c) for c in "\n" + text if c in LETTERS]
    for _ in range(count):
        (number,) = await model.net.draw(seen).tolist_async()
        seen.append(number)
        yield LETTERS[number]


demo = Demo(
    make_model,
    Text(placeholder="ROMEO:"),
    Text(),
    data=load_data,
    predict=write,
    epochs=3,
    batch_size=BATCH_SIZE,
    # What has read it all goes on in small steps; a network that starts over wants 3e-3.
    controls=(Slider("lr", 1e-4, 1e-2, 5e-4, log=True, label="Learning rate"),),
    title="A GPT that writes plays",
    description="It has read 1,000,000 characters of Shakespeare, one after the other, and writes "
    "on from whatever you begin with.",
)


async def show(model: pf.Model, count: int) -> None:
    """Print what it writes as it comes."""
    async for character in write(model, "", count):
        print(character, end="", flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--pieces", type=int, default=None, help="of the plays to learn from")
    parser.add_argument("--characters", type=int, default=400, help="to write in the end")
    parser.add_argument("--device", default="auto", help="cpu, gpu or auto (default: auto)")
    args = parser.parse_args()

    model = make_model()
    train, _ = load_data()
    x, y = train[: args.pieces]
    model.lr_scheduler = optim.lr_scheduler.CosineAnnealingLR(model.optimizer, args.epochs)
    print(model.fit(x, y, epochs=args.epochs, batch_size=BATCH_SIZE, device=args.device))
    asyncio.run(show(model, args.characters))
    model.net.half()  # half the bytes
    model.save("gpt.safetensors")


if __name__ == "__main__":
    main()
