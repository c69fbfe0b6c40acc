"""A small language model that writes like Shakespeare, and then like whatever text you give it.

Its weights are packed into 8 bits and stay as they are; from your text it learns small matrices
beside them (LoRA). So it can adapt on a GPU, on a CPU, and inside a web page, which shows what it
writes with and without them.
"""

from __future__ import annotations

import argparse
import asyncio
import codecs
import gzip
from collections.abc import AsyncIterator
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING

import pyframe as pf
from pyframe import Tensor, nn, optim
from pyframe.web import Demo, Slider, Text

if TYPE_CHECKING:
    from pyframe.text import CausalLM

DATA = Path(__file__).parent / "data"
WIDTH, LAYERS = 192, 5  # 384 and 8 write better: 14 million weights, for a real GPU to train
CONTEXT = 256  # bytes that it sees: a letter of English is one
PIECE = 128  # bytes of your text that it learns from at once
RECIPES = """\
Pancakes. Whisk two eggs with a cup of milk, add a cup of flour and a pinch of salt, and let the \
batter rest for ten minutes. Melt butter in a hot pan, pour in a ladle of batter, and turn it when \
the edges are brown. Serve them with lemon and sugar.
Tomato soup. Chop an onion and two cloves of garlic, and fry them in olive oil. Add six tomatoes, \
a cup of water and a pinch of salt, and let the soup boil for twenty minutes. Blend it, and serve \
it with bread and basil.
Apple cake. Peel four apples and cut them into slices. Mix two cups of flour with a cup of sugar, \
two eggs and a spoon of butter, pour the batter into a tin, and lay the apples on it. Bake the \
cake for forty minutes, and let it rest before you cut it.
Potato salad. Boil eight potatoes for twenty minutes, peel them, and cut them into slices. Add a \
chopped onion, two spoons of vinegar, oil, pepper and salt, and mix it all while it is hot. Let it \
rest for an hour, and serve it with parsley.
"""


class Writer(nn.Module):
    """The model as it was, and one that learns: the same with matrices beside its weights."""

    def __init__(self, weights: Path) -> None:
        super().__init__()
        self.before = pf.quantize_(new())
        self.before.load_state_dict(pf.load(weights))
        self.after = pf.lora.apply(deepcopy(self.before), rank=16, alpha=32, targets="all-linear")
        self.before.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T) bytes -> (B, T, 256) scores of those that come next."""
        return self.after(x)


def new() -> CausalLM:
    """A Llama of bytes that has read nothing, always with the same start."""
    pf.manual_seed(0)
    sizes = {"vocab_size": 256, "hidden_size": WIDTH, "intermediate_size": 8 * WIDTH // 3,
             "num_hidden_layers": LAYERS, "num_attention_heads": WIDTH // 32,
             "max_position_embeddings": CONTEXT, "tie_word_embeddings": True}  # fmt: skip
    net = pf.text.CausalLM(pf.text.Config.from_dict({"model_type": "llama", **sizes}))
    nn.init.normal_(net.model.embed_tokens.weight, std=0.02)
    return net


def pieces(text: bytes, length: int, step: int) -> Tensor:
    """(pieces, length): a piece of a text every `step` bytes."""
    return pf.tensor([*text]).unfold(0, length, step).contiguous()


def make_model() -> pf.Model:
    """2.3 million weights that stay, and matrices that learn."""
    net = Writer(DATA / "writer.safetensors")
    learns = [p for p in net.parameters() if p.requires_grad]
    return pf.Model(net, pf.text.NextToken(), optim.AdamW(learns, lr=1e-3))


def load_data(text: str = RECIPES) -> tuple[Tensor, Tensor]:
    """A text as what is read, and what is to be told: each next byte of the same."""
    if len(text.encode()) < 2 * PIECE:
        raise ValueError(f"Give it more to learn from: {2 * PIECE} characters or more.")
    x = pieces(text.encode(), PIECE, PIECE // 4)
    return x, x


async def write(
    model: pf.Model, begin: str, temperature: float = 0.7, count: int = 400
) -> AsyncIterator[tuple[str, str]]:
    """Goes on with `begin`, as the model was and as it is now, a byte of each at a time."""
    prompt = [*("\n" + begin).encode()[-CONTEXT // 4 :]]
    count = min(count, CONTEXT - len(prompt))
    how = {"do_sample": True, "temperature": temperature, "top_p": 0.95, "eos_token_id": ()}
    nets = model.net.before, model.net.after
    streams = [aiter(net.stream(prompt, count, **how)) for net in nets]
    letters = [codecs.getincrementaldecoder("utf-8")("replace") for _ in nets]
    yield begin, begin
    for _ in range(count):
        found = [of.decode(bytes(await anext(s))) for of, s in zip(letters, streams, strict=True)]
        yield found[0], found[1]


demo = Demo(
    make_model,
    Text(placeholder="Begin a line"),
    Text(names=("Before", "After")),
    data=load_data,
    predict=write,
    epochs=5,  # more, and it knows a short text by heart
    batch_size=4,
    read_every=1,
    controls=(
        Text(name="text", value=RECIPES, most=20_000, label="What it learns from: your text"),
        Slider("temperature", 0.2, 1.5, 0.7, label="Temperature"),
        Slider("lr", 1e-4, 1e-2, 1e-3, log=True, label="Learning rate"),
    ),
    title="A writer that becomes yours",
    description="It has read Shakespeare. Give it a text of yours, and it learns to write so.",
)


async def show(model: pf.Model, begin: str) -> None:
    """Print what it writes, before and after."""
    written = [pair async for pair in write(model, begin)]
    for name, parts in zip(("Before", "After"), zip(*written, strict=True), strict=True):
        print(f"--- {name}\n{''.join(parts)}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text", nargs="?", type=Path, help="to learn from (default: recipes)")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--begin", default="The ", help="what to write on")
    parser.add_argument("--shakespeare", action="store_true", help="train the model anew instead")
    parser.add_argument("--device", default="auto", help="cpu, gpu or auto (default: auto)")
    args = parser.parse_args()
    if not args.shakespeare:
        model = make_model()
        data = load_data(args.text.read_text("utf-8") if args.text else RECIPES)
        print(model.fit(*data, epochs=args.epochs, batch_size=4, device=args.device))
        asyncio.run(show(model, args.begin))
        return
    net = new()
    text = gzip.decompress((DATA / "tinyshakespeare.txt.gz").read_bytes())
    x = pieces(text, CONTEXT, CONTEXT)
    optimizer = optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.1, betas=(0.9, 0.98))
    steps = args.epochs * -(-len(x) // 8)
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps, pct_start=0.05)
    model = pf.Model(net, pf.text.NextToken(), optimizer, lr_scheduler=schedule)
    how = {"epochs": args.epochs, "batch_size": 8, "clip_norm": 1.0, "device": args.device}
    print(model.fit(x, x, **how))
    pf.save(pf.quantize_(net.cpu()).state_dict(), "writer.safetensors")


if __name__ == "__main__":
    main()
