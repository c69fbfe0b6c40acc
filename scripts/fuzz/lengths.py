"""Functions of tensors whose lengths change from call to call: what pf.compile gives for each of
them is what eager execution gives, and what a GPU gives without it is what the CPU gives. Other
families compare with PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import pyframe as pf

from .backends import Backend, compiling
from .check import FailureError
from .families import Draw, family

CALLS = 9
LENGTHS = [4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 40, 64, 65, 100, 130]
OFF = 1e-4  # of the largest number: sums are added in another order

# lines for `y`, whose last dim but one may have any length and whose last one has 4; {d} is a dim
SAME = """
y = y.relu() * 0.5 + y  y = y.tanh()  y = y.softmax({d})  y = y - y.mean({d}, keepdim=True)
y = y * y.shape[-2]  y = y / y.numel()  y = y.cumsum(-1)  y = F.layer_norm(y, (4,))
y = y + y.amax({d}, keepdim=True)  y = y.flip(-2)  y = y.roll(1, -2)  y = y.clone()
y = y + T.arange(y.shape[-2]).unsqueeze(1) * 0.02  y = y * T.ones(y.shape[-2], 1)
y = y.masked_fill(T.arange(y.shape[-2]).unsqueeze(1) > 2, 0.5)  y = y @ T.ones(4, 4)
y = y.transpose(-1, -2).contiguous().transpose(-1, -2)  y = y.reshape(y.shape)
y = (y @ y.transpose(-1, -2)).softmax(-1) @ y  y = y.tril() + y
y = F.pad(y, (1, 1))[..., 1:-1]  y = y.reshape(-1, 4).reshape(y.shape)  y.add_(1)
y = F.scaled_dot_product_attention(y, y, y)  y = T.where(y > 0, y, y * 0.1)
y = y.flatten().reshape(y.shape)  y = y if y.shape[-2] > 20 else y * 2
y = y * (y.shape[-2] // 2 + 1)  y = y + T.zeros(y.shape)  y = y * y.shape[-2] ** -0.5
"""
OTHER = """
y = y[..., 1:, :]  y = y[..., :-1, :]  y = y[..., ::2, :]  y = T.cat([y, y], -2)
y = T.cat([y[..., :1, :], y], -2)  y = F.pad(y, (0, 0, 1, 2))  y = y[..., : y.shape[-2] // 2 + 1, :]
y = y.repeat_interleave(2, -2)  y = F.pad(y, (0, 0, 0, -y.shape[-2] % 8))
y = F.avg_pool2d(y.reshape(1, -1, y.shape[-2], 4), (2, 1)).squeeze(0)
y = F.max_pool2d(y.reshape(1, -1, y.shape[-2], 4), (2, 1)).squeeze(0)
y = F.conv1d(y.reshape(-1, y.shape[-2], 4).transpose(1, 2), T.ones(4, 4, 3) * 0.1, padding=1)
y = y[..., y.shape[-2] - 2 :, :] * T.ones(y.shape[-2], 1, 4)[:3].sum()
y = y.unfold(-2, 2, 1).sum(-1)  y = y.unfold(-2, 3, 2).amax(-1)  y = y.unfold(-2, 2, 1).flatten(-2)
y = F.avg_pool2d(y.reshape(1, -1, y.shape[-2], 4), 2, 1).squeeze(0)
y = F.avg_pool1d(y.reshape(-1, y.shape[-2], 4).transpose(1, 2), 2, 1, 1).transpose(1, 2)
y = F.max_pool2d(y.reshape(1, -1, y.shape[-2], 4), 2, 1, return_indices=True)[1].squeeze(0) * 1.0
y = F.max_pool1d(y.reshape(-1, y.shape[-2], 4).transpose(1, 2), 3, 2, 1).transpose(1, 2)
y = T.cat([y[..., 1:, :], y[..., :2, :] * 2], -2).cumsum(-2)  y = y.roll(1, -2)[..., 1:, :]
y = F.pad(y, (0, 0, 2, 0)).unfold(-2, 2, 2).sum(-1)  y = y.diff(dim=-2)  y = y[..., :-2, :].flip(-2)
y = F.unfold(y.reshape(1, -1, y.shape[-2], 4), (2, 2)).transpose(1, 2)[..., :4]
"""
LAST = """
y  y.sum()  y.sum(-2)  y.mean(-2) * 2  y.reshape(-1)  y.amax(-2)  y.flatten(0, -2).T
y.square().mean()  T.cat([y[..., 1:, :], y[..., :-1, :]], -2).sum(-2)
y[..., -1, :]  y.transpose(-1, -2)  y.shape[-2] * y.mean()
"""


@dataclass(frozen=True)
class Lengths:
    """A function as lines, and the lengths that it is called with."""

    lead: tuple[int, ...]  # the dims of `x` before its length; -1: that changes with it
    two: bool  # whether `z` has a length of its own
    lines: tuple[str, ...]
    lengths: tuple[tuple[int, int], ...]
    grad: bool
    dynamic: bool | None

    def check(self, backend: Backend) -> bool:
        """Compare each call."""
        space: dict[str, Any] = {"T": pf, "F": pf.nn.functional}
        exec("\n".join(self.source()), space)
        f = space["f"]
        same = 0
        device = "gpu" if backend.name in ("wgsl", "lazy") else "cpu"
        with compiling(backend.generator), warnings.catch_warnings(), pf.device(device):
            warnings.simplefilter("ignore")
            compiled = pf.compile(f, dynamic=self.dynamic) if backend.wrap is pf.compile else f
            for n, m in self.lengths:
                with pf.device(device if backend.wrap is pf.compile else "cpu"):
                    want = self.outcome(f, n, m)
                got = self.outcome(compiled, n, m)
                if type(want) is not type(got):
                    raise FailureError("other", f"({n}, {m}) gives {got!r}, and eagerly {want!r}")
                if isinstance(want, str):
                    continue
                for a, b in zip(got, want, strict=True):
                    if a.shape != b.shape or a.dtype != b.dtype:
                        raise FailureError("shape", f"({n}, {m}): {a.shape}, eagerly {b.shape}")
                    most = OFF * max(float(np.abs(b).max(initial=0)), 1)
                    if not np.allclose(a, b, 1e-4, most, equal_nan=True):
                        raise FailureError("value", f"({n}, {m}) is off by {np.abs(a - b).max()}")
                same += 1
        return same > 0

    def outcome(self, f: Any, n: int, m: int) -> Any:
        """What a call gives: arrays, or the error."""
        rng = np.random.default_rng(n * 1000 + m)
        lead = [m % 5 + 1 if size < 0 else size for size in self.lead]
        args = [
            pf.tensor(rng.standard_normal((*lead, size, 4)).astype(np.float32))
            for size in (n, m)[: 1 + self.two]
        ]
        try:
            if self.grad:
                args = [x.requires_grad_() for x in args]
            out = f(*args)
            found = [out.detach().cpu().numpy()]
            if self.grad and out.requires_grad:
                found += [
                    g.cpu().numpy()
                    for g in pf.autograd.grad(out.sum(), args, allow_unused=True)
                    if g is not None
                ]
            return [np.array(a) for a in found]
        except (RuntimeError, ValueError, IndexError, ZeroDivisionError) as e:
            return type(e).__name__

    def source(self) -> list[str]:
        """The function."""
        given = "x, z" if self.two else "x"
        return [f"def f({given}):", *[f"    {line}" for line in ("y = x * 1.0", *self.lines)]]

    def smaller(self) -> Iterator[Lengths]:
        for k in range(len(self.lines) - 1):
            yield replace(self, lines=(*self.lines[:k], *self.lines[k + 1 :]))
        for k in range(len(self.lengths)):
            yield replace(self, lengths=(*self.lengths[:k], *self.lengths[k + 1 :]))

    def text(self, backend: Backend) -> str:
        lines = ["import pyframe as T, pyframe.nn.functional as F", *self.source()]
        lines += [f"g = T.compile(f, dynamic={self.dynamic})", f"for n, m in {self.lengths}:"]
        shape = "".join("m % 5 + 1, " if size < 0 else f"{size}, " for size in self.lead)
        given = f"T.randn({shape}n, 4)" + f", T.randn({shape}m, 4)" * self.two
        return "\n".join([*lines, f"    args = [{given}]", "    print(f(*args) - g(*args))"])


@family("lengths")
def lengths(d: Draw) -> Lengths:
    """One or two lengths that change, through views, sums, products and masks."""
    lead = d.pick((), (2,), (2, 3), (-1,))
    two = d.maybe(0.3)
    lines = []
    for _ in range(d.int(1, 5)):
        line = d.one(SAME if d.maybe(0.7) else OTHER)
        lines.append(line.replace("{d}", str(d.pick(-1, -2))))
    if two:
        lines.insert(d.int(0, len(lines)), d.pick(
            "y = T.cat([y, z], -2)", "y = (y @ z.transpose(-1, -2)).softmax(-1) @ z",
            "y = F.scaled_dot_product_attention(y, z, z)", "y = y + z.mean(-2, keepdim=True)",
            "y = y + z if y.shape == z.shape else y * 2",
        ))  # fmt: skip
    lines.append(f"return {d.one(LAST)}")
    some = [(d.pick(*LENGTHS), d.pick(*LENGTHS)) for _ in range(CALLS)]
    if d.maybe(0.2):
        some[d.int(3, CALLS - 1)] = d.pick((1, 5), (0, 4), (2, 1), (3, 3))
    return Lengths(lead, two, tuple(lines), tuple(some), d.maybe(), d.pick(None, None, True))
