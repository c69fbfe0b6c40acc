"""What is measured: training steps and single ops, written once for PyTorch and for pyframe.

`fw` is the framework's module, torch or pyframe, and `wrap` what makes a function of the fast kind
of it (`pf.compile`) or leaves it as it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import pyframe as pf

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
BATCHES = 4  # taken in turns


class Workload:
    """The work, ready to be done again and again; a call gives a tensor that tells its result."""

    def __init__(
        self, fw: Any, step: Callable[..., Any], args: list[tuple[Any, ...]], result: Any = None
    ) -> None:
        self.fw, self.step, self.result = fw, step, result
        self.args: Iterator[tuple[Any, ...]] = itertools.cycle(args)

    def __call__(self) -> Any:
        """Do it once; on a GPU the work is given out and may not be finished."""
        out = self.step(*next(self.args))
        if self.fw is pf:
            pf.flush()  # while the result lives: what nobody needs is never computed
        return out if self.result is None else self.result


def value(x: Any) -> np.ndarray:
    """A tensor on the host: waits until it is computed."""
    return np.asarray(x.detach().cpu().numpy())


def wait(x: Any) -> None:
    """Wait for a tensor; moves only one element of it."""
    while x.ndim:
        x = x[0]
    x.item()


# --- training steps


def mlp_net(fw: Any, widths: tuple[int, ...]) -> Any:
    """Linear layers with ReLU between them."""
    layers: list[Any] = []
    for a, b in itertools.pairwise(widths):
        layers += [fw.nn.Linear(a, b), fw.nn.ReLU()]
    return fw.nn.Sequential(*layers[:-1])


def cnn_net(fw: Any, channels: int, hidden: int) -> Any:
    """Two convolutions with pooling and two linear layers, for images of 1 x 28 x 28."""
    nn = fw.nn
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(2 * channels * 7 * 7, hidden), nn.ReLU(), nn.Linear(hidden, 10),
    )  # fmt: skip


def gpt_net(fw: Any, vocabulary: int, tokens: int, width: int, layers: int, heads: int) -> Any:
    """A decoder-only transformer: pre-norm, exact GELU, learned positions."""
    F = fw.nn.functional
    nn: Any = fw.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, future: Any) -> Any:
            b, t, c = x.shape
            q, k, v = (
                part.reshape(b, t, heads, c // heads).transpose(1, 2)
                for part in self.qkv(self.norm1(x)).split(c, 2)
            )
            scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(c // heads))
            weights = F.softmax(scores.masked_fill(future, -math.inf), dim=-1)
            x = x + self.mix((weights @ v).transpose(1, 2).reshape(b, t, c))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)
            self.register_buffer("future", fw.triu(fw.ones(tokens, tokens), 1).bool())
            self.register_buffer("places", fw.arange(tokens))

        def forward(self, x: Any) -> Any:
            x = self.token(x) + self.position(self.places)
            for block in self.blocks:
                x = block(x, self.future)
            return self.head(self.norm(x)).flatten(0, 1)

    return GPT()


def trainer(
    fw: Any, device: str, wrap: Wrap, net: Callable[[Any], Any], optimizer: str,
    batches: list[tuple[np.ndarray, np.ndarray]],
) -> Workload:  # fmt: skip
    """Training steps on a few batches; every framework starts from the same weights."""
    pf.manual_seed(0)
    start = net(pf).state_dict()
    model = net(fw)
    model.load_state_dict({k: fw.from_numpy(v.numpy().copy()) for k, v in start.items()})
    model.to(device)
    opt = getattr(fw.optim, optimizer)(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = fw.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    data = [tuple(fw.from_numpy(a).to(device) for a in batch) for batch in batches]
    return Workload(fw, wrap(step), data)


def labelled(seed: int, shape: tuple[int, ...], classes: int) -> list[Any]:
    """Batches of noise, each with a class for each of its rows."""
    rng = np.random.default_rng(seed)
    return [
        (rng.random(shape, np.float32), rng.integers(0, classes, shape[0])) for _ in range(BATCHES)
    ]


def mlp(fw: Any, device: str, wrap: Wrap, batch: int, widths: tuple[int, ...]) -> Workload:
    """W1."""
    batches = labelled(1, (batch, widths[0]), widths[-1])
    return trainer(fw, device, wrap, lambda f: mlp_net(f, widths), "Adam", batches)


def cnn(fw: Any, device: str, wrap: Wrap, batch: int, channels: int, hidden: int) -> Workload:
    """W2."""
    batches = labelled(2, (batch, 1, 28, 28), 10)
    return trainer(fw, device, wrap, lambda f: cnn_net(f, channels, hidden), "Adam", batches)


def gpt(fw: Any, device: str, wrap: Wrap, batch: int, vocabulary: int, tokens: int,
        **shape: int) -> Workload:  # fmt: skip
    """W3."""
    rng = np.random.default_rng(3)
    texts = [rng.integers(0, vocabulary, (batch, tokens + 1)) for _ in range(BATCHES)]
    batches = [(t[:, :-1].copy(), t[:, 1:].reshape(-1)) for t in texts]
    net = lambda f: gpt_net(f, vocabulary, tokens, **shape)  # noqa: E731
    return trainer(fw, device, wrap, net, "AdamW", batches)


# --- single ops


def op(function: Callable[[Any], Callable[..., Any]], inputs: int) -> Callable[..., Workload]:
    """The maker of one op, `function(fw)`, on so many tensors of n elements, in rows of `row`, or
    of side x side."""

    def make(fw: Any, device: str, wrap: Wrap, **size: int) -> Workload:
        rng = np.random.default_rng(4)
        shape = (size["side"],) * 2 if "side" in size else (size["n"],)
        if "row" in size:
            shape = (size["n"] // size["row"], size["row"])
        args = [rng.standard_normal(shape, np.float32) for _ in range(inputs)]
        tensors = tuple(fw.from_numpy(a).to(device) for a in args)
        return Workload(fw, wrap(function(fw)), [tensors])

    return make


def tiny(fw: Any, device: str, wrap: Wrap, n: int, ops: int) -> Workload:
    """Ops on a few elements, each on the result of the one before."""

    def chain(y: Any) -> Any:
        for _ in range(ops // 2):
            y = y * 1.001 + 0.001
        return y

    return Workload(fw, wrap(chain), [(fw.ones(n, device=device),)])


def adamw(fw: Any, device: str, wrap: Wrap, n: int) -> Workload:
    """One optimizer step, gradients given."""
    rng = np.random.default_rng(5)
    weights, grad = (fw.from_numpy(rng.standard_normal(n, np.float32)) for _ in range(2))
    p = fw.nn.Parameter(weights.to(device))
    opt = fw.optim.AdamW([p], lr=1e-3)

    def step(g: Any) -> None:
        p.grad = g
        opt.step()

    return Workload(fw, wrap(step), [(grad.to(device),)], result=p)


class Case(NamedTuple):
    """A line of the table."""

    key: str
    name: str
    make: Callable[..., Workload]
    sizes: dict[str, Any]
    quick: dict[str, Any]  # sizes for a look at whether it works
    target: float | None = None  # for the ratio of the compiled side to PyTorch, on the CPU
    dispatches: int | None = None  # the most that a compiled step may take
    work: Callable[[dict[str, Any]], float] | None = None  # flops, or bytes moved at least
    roof: str = ""  # the field of Roofline that `work` is limited by


def _gemm(n: int) -> Case:
    return Case(
        "W4", f"GEMM {n}", op(lambda fw: fw.matmul, 2), {"side": n}, {"side": 16}, 0.7,
        work=lambda s: 2 * s["side"] ** 3, roof="fma_rate",
    )  # fmt: skip


def _moving(
    name: str, make: Callable[..., Workload], times: int, target: float, **size: int
) -> Case:
    """Limited by memory: `times` float32 values are read or written for each element."""
    return Case(
        "W4", f"{name}, 4M", make, {"n": 1 << 22, **size}, {"n": 1024, **size}, target,
        work=lambda s: 4 * times * s["n"], roof="copy_bandwidth",
    )  # fmt: skip


CASES = [
    Case(
        "W1", "mlp", mlp, {"batch": 64, "widths": (784, 256, 128, 10)},
        {"batch": 4, "widths": (784, 8, 10)}, 0.6, 20,
    ),
    Case(
        "W2", "cnn", cnn, {"batch": 64, "channels": 32, "hidden": 128},
        {"batch": 2, "channels": 2, "hidden": 8}, 1.0, 30,
    ),
    Case(
        "W3", "gpt", gpt,
        {"batch": 16, "vocabulary": 65, "tokens": 64, "width": 128, "layers": 4, "heads": 4},
        {"batch": 2, "vocabulary": 9, "tokens": 6, "width": 8, "layers": 1, "heads": 2}, 0.7, 150,
    ),
    _gemm(512),
    _gemm(1024),
    _gemm(2048),
    _moving("add", op(lambda fw: fw.add, 2), 3, 1.1),
    _moving("GELU", op(lambda fw: fw.nn.functional.gelu, 1), 2, 0.7),
    _moving("softmax", op(lambda fw: lambda x: x.softmax(-1), 1), 2, 0.7, row=64),
    _moving(
        "layer norm", op(lambda fw: lambda x: fw.nn.functional.layer_norm(x, x.shape[1:]), 1),
        2, 0.7, row=512,
    ),
    Case("W4", "1000 tiny ops", tiny, {"n": 4, "ops": 1000}, {"n": 4, "ops": 10}, 0.5),
    _moving("AdamW", adamw, 7, 0.7),
]  # fmt: skip
