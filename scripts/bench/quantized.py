"""How far results with quantized weights are off: `python scripts/bench/quantized.py TEXT` trains a
small GPT on a text file and prints the table that stands in docs/models.md."""

from __future__ import annotations

import copy
import itertools
import sys
from pathlib import Path

import numpy as np

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import nn
from pyframe.tools.bench.plans import GPT2

TOKENS, WIDTH, STEPS, HELD = 64, 128, 400, 1 << 13


def trained(text: np.ndarray) -> GPT2:
    """A GPT of characters, trained for some hundred steps."""
    pf.manual_seed(0)
    net, rng = GPT2(int(text.max()) + 1, TOKENS, WIDTH, 2, 4), np.random.default_rng(0)
    for table in (net.token, net.position):
        nn.init.normal_(table.weight, std=0.02)
    optimizer = pf.optim.AdamW(net.parameters(), lr=2e-3)

    @pf.compile
    def step(x: pf.Tensor, y: pf.Tensor) -> pf.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(STEPS):
        at = rng.integers(0, len(text) - TOKENS - 1, (32, 1)) + np.arange(TOKENS + 1)
        step(pf.tensor(text[at[:, :-1]]), pf.tensor(text[at[:, 1:]]))
    return net


def main() -> None:
    """Print the table."""
    codes = np.frombuffer(Path(sys.argv[1]).read_bytes(), np.uint8)
    text = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    net, held = trained(text[:-HELD]), text[-HELD:]
    x, y = (pf.tensor(held[i : HELD - TOKENS + i].reshape(-1, TOKENS)) for i in (0, 1))
    pf.manual_seed(1)
    layer, rows = nn.Linear(1024, 1024, bias=False), pf.randn(64, 1024)
    nn.init.normal_(layer.weight, std=1 / 32)
    with pf.no_grad():
        plain, logits = layer(rows), net(x)
        loss = F.cross_entropy(logits, y.flatten()).item()
        print(f"The loss is {loss:.4f} with float32.\n")
        print("| weights | group | normal weights | logits | loss |")
        print("| --- | --- | --- | --- | --- |")
        for mode, activations in itertools.product(("int8", "int4"), (None, "int8")):
            for symmetric in (True, False):
                for group in (32, 64, 128):
                    one, two = (
                        pf.quantize_(copy.deepcopy(m), mode, group, symmetric, None, activations)
                        for m in (layer, net)
                    )
                    found, off = two(x), F.cross_entropy(two(x), y.flatten()).item() - loss
                    errors = [
                        ((a - b).norm() / b.norm()).item() * 100
                        for a, b in ((one(rows), plain), (found, logits))
                    ]
                    name = f"{mode}{'' if symmetric else ', `symmetric=False`'}"
                    name += ", `activations`" if activations else ""
                    shown = " | ".join(f"{error:.2f} %" for error in errors)
                    print(f"| {name} | {group} | {shown} | {off:+.4f} |", flush=True)


if __name__ == "__main__":
    main()
