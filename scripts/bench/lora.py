"""What memory an adapter's training takes: a Llama of SmolLM2-135M's sizes with weights of 4 bits.

    python scripts/bench/lora.py

Each row is a process of its own, whose peak counts Python and pyframe too; its weights are random,
and packed layer by layer, so that they are never floats all at once. "Planned" is what a step would
hold on a large GPU.
"""

from __future__ import annotations

import subprocess
import sys
import time

import pyframe as pf
from pyframe import nn
from pyframe.nn import init
from pyframe.runtime.offline import offline_device
from pyframe.text import CausalLM, Config, NextToken
from pyframe.tools.bench.measure import table
from pyframe.tools.bench.plans import LARGE_GPU
from pyframe.tools.cost import totals

SIZES = {
    "model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
    "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
    "max_position_embeddings": 2048, "tie_word_embeddings": True,
}  # fmt: skip
SHAPE = 4, 128  # texts, tokens
WAYS = {"plain": "", "losses in parts": "parts", "layers again": "again", "both": "parts again"}


def peak() -> int:
    """The most MB that this process has had."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith("VmHWM"))


def made() -> CausalLM:
    """The model, of which one layer at a time is floats."""
    pf.manual_seed(0)
    init.values.skipped = True
    model = CausalLM(Config.from_dict(SIZES))
    init.values.skipped = False
    for name, layer in model.named_modules():
        if isinstance(layer, (nn.Linear, nn.Embedding)) and layer is not model.lm_head:
            init.normal_(layer.weight, std=0.02)
            if isinstance(layer, nn.Linear):
                pf.quantize_(layer, "int4")
        elif name.endswith("norm"):
            init.ones_(layer.weight)
    return pf.quantize_(model, "int4")  # the table and the head, which share it


def run(way: str, plan: bool) -> None:
    """Train some steps, and print a row; or plan one."""
    at_first, model = peak(), pf.lora.apply(made(), rank=8, targets="all-linear")
    model.model.gradient_checkpointing = "again" in way
    optimizer = pf.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    @pf.compile
    def step(x: pf.Tensor) -> pf.Tensor:
        optimizer.zero_grad()
        scores = model(x, labels=x) if "parts" in way else model(x)
        loss = NextToken()(scores, x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    x = pf.randint(0, SIZES["vocab_size"], SHAPE)
    if plan:
        with offline_device(LARGE_GPU) as device:
            model.to(device)
            step(x.to(device))
            print(totals(step.programs, LARGE_GPU).peak_bytes // 10**6)
        return
    losses, times = [], []
    for _ in range(3):
        start = time.process_time()
        losses.append(step(x).item())
        times.append(time.process_time() - start)
    print(f"{peak()},{peak() - at_first},{times[-1]:.1f},{losses[-1]:.5f}")


def main() -> None:
    """Print the table."""
    if len(sys.argv) > 2:
        run(sys.argv[1], sys.argv[2] == "plan")
        return
    rows = []
    for name, way in WAYS.items():
        cells = [name]
        for what in ("run", "plan"):
            command = [sys.executable, __file__, way, what]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            cells += out.strip().split(",")
        rows.append(cells)
    head = ["step", "peak MB", "of it beyond imports", "CPU s", "third loss", "planned MB"]
    print(*table(head, rows), sep="\n")


if __name__ == "__main__":
    main()
