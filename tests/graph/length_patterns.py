"""What programs do with lengths that change from call to call.

A row of PATTERNS is the body of a function of the tensors `x`, `y` …, the shapes of these in terms
of the lengths `n` and `m`, and how many captures all lengths may take: two as they are, and one for
many lengths; one more for each way that a comparison in it may go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import pyframe as pf
import pyframe.nn.functional as F

# lengths of one input after the other, and of two; the last ones that a program may see for the
# first time take no capture
ONE = [5, 7, 9, 12, 33, 16, 64, 3, 130, 17, 100, 8, 31]
TWO = [(5, 9), (7, 6), (9, 13), (12, 5), (33, 3), (16, 70), (64, 8), (3, 50), (130, 4), (17, 99)]


class Pattern(NamedTuple):
    """A function of tensors of changing lengths."""

    shapes: str  # of its arguments
    body: str
    captures: int = 3
    lengths: Any = None

    def function(self) -> Callable[..., Any]:
        """The function itself, a new one each time."""
        names = ", ".join("xyzw"[: len(self.arguments(3, 5))])
        lines = self.body if "return" in self.body else f"return {self.body}"
        text = f"def f({names}):\n" + "\n".join(f"    {line}" for line in lines.splitlines())
        space: dict[str, Any] = {"pf": pf, "F": F, "np": np}
        exec(text, space)
        return space["f"]  # type: ignore[no-any-return]

    def arguments(self, n: int, m: int) -> list[Any]:
        """Tensors of these lengths."""
        rng = np.random.default_rng(n * 1000 + m)
        out = []
        for shape in eval(f"[{self.shapes}]", {"n": n, "m": m}):
            if isinstance(shape, list):  # of ints
                out.append(pf.tensor(rng.integers(0, 4, shape)))
            else:
                out.append(pf.tensor(rng.standard_normal(shape).astype(np.float32)))
        return out

    def calls(self) -> list[tuple[int, int]]:
        """The lengths of one call after the other."""
        pairs = self.lengths or (TWO if "m" in self.shapes else ONE)
        return [p if isinstance(p, tuple) else (p, 5) for p in pairs]


def _rows(table: dict[str, Any]) -> dict[str, Pattern]:
    return {k: Pattern(*(row if isinstance(row, tuple) else (row,))) for k, row in table.items()}


PATTERNS = _rows({
    # what is computed for each element, and reductions
    "elementwise": ("(n, 4),", "(x * 2 + 1).relu() * x.sin()"),
    "a vector": ("(n,),", "x * 3 - x.mean()"),
    "a sum of it all": ("(n, 4),", "x.exp().sum()"),
    "sums along it": ("(3, n),", "x.sum(1), x.square().mean(1), x.amax(1), x.argmax(1)"),
    "sums across it": ("(n, 3),", "x.sum(1), x.var(1), x.amin(1)"),
    "a long sum in the middle": ("(2, n, 5),", "x.sum(1) + x.mean((0, 1))"),
    "softmax": ("(3, n),", "F.softmax(x, -1) + F.log_softmax(x, 0)"),
    "a norm": ("(n, 8),", "F.layer_norm(x, (8,)) / x.norm(dim=1, keepdim=True)"),
    "batch norm": ("(n, 3, 4),", "F.batch_norm(x, None, None, training=True)"),
    "all of them changing": ("(n, m),", "F.softmax(x, 1).sum(0)"),
    "scans": ("(3, n),", "x.cumsum(1), x.cumsum(0)"),
    # two lengths
    "equal lengths": ("(n, 4), (n, 4)", "x * y + 1"),
    "lengths side by side": ("(n, 4), (m, 4)", "x @ y.T"),
    "lengths that may be equal": (
        "(n, 4), (m, 4)", "return x * 2 + y.sum() if x.shape != y.shape else x + y", 6,
        [(5, 9), (7, 6), (9, 13), (8, 8), (6, 6), (33, 3), (11, 11), (2, 70), (70, 70)]),
    "one beside many": ("(n, 1), (1, m)", "(x + y).sum(0)"),
    "broadcast from 1": (
        "(n, 4), (m, 4)", "(x + y).sum(0)", 6,
        [(5, 1), (7, 1), (9, 1), (12, 1), (33, 1), (1, 5), (1, 8), (1, 9), (1, 20), (6, 6)]),
    "zero and one": ("(n, 4),", "x.sum(0) * x.shape[0]", 5, [5, 7, 9, 1, 0, 12, 1, 0, 8]),
    # views and shapes
    "reshape with -1": ("(n, 4),", "x.reshape(-1, 2).sum(1), x.view(-1), x.reshape(2, -1)"),
    "flatten": ("(n, 3, 4),", "x.flatten(1) @ x.flatten(1).T"),
    "a transpose": ("(n, m),", "x.T.contiguous().reshape(-1) * 2"),
    "permuted": ("(2, n, 3),", "x.permute(1, 2, 0).reshape(x.shape[1], 6)"),
    "slices": ("(n, 4),", "x[1:] - x[:-1]"),
    "slices by numbers": ("(n, 4),", "x[:x.shape[0] // 2], x[x.shape[0] // 2:]"),
    "the last ones": ("(n, 4),", "x[-1] + x[-2:]"),
    "steps": ("(n, 4),", "x[::2]"),
    "flipped": ("(n, 4),", "x.flip(0) + x"),
    "expanded": ("(n,),", "x.unsqueeze(1).expand(-1, 3) * 2"),
    "repeated": ("(n,),", "x.repeat(3)"),
    "joined": ("(n, 3), (m, 3)", "pf.cat([x, y, x])"),
    "stacked": ("(n, 3),", "pf.stack([x, x * 2], 1)"),
    "split by a size": ("(4, n),", "a, b = x.split([1, 3])\nreturn a * b"),
    "chunks": ("(n, 4),", "a, b = x.chunk(2)\nreturn a.sum(0) + b.sum(0)", 5),
    "parts of a size": ("(n, 4),", "sum([p.sum() for p in x.split(50)])", 6),
    "parts": ("(n, 4),", "a, b = x.tensor_split(2)\nreturn a.sum(0) - b.sum(0)", 5),
    "evenly spaced": ("(n, 4),", "x * pf.linspace(0, 1, x.shape[0]).unsqueeze(1)"),
    "a diagonal": ("(n, n),", "x.diagonal() + x.tril().sum(0)", 3),
    "a roll": ("(n, 3),", "x.roll(1, 0)"),
    "squeezed": ("(1, n, 1),", "x.squeeze() * 2"),
    "unfolded": ("(n, 3),", "x.unfold(0, 2, 1).sum(-1)"),
    "windows of a batch": ("(n, m, 4),", "x.unfold(1, 2, 1).sum(-1)"),
    "pools of a batch": (
        "(n, m, 4),", "F.avg_pool2d(x[:, None], 2, 1), F.avg_pool1d(x.transpose(1, 2), 2, 1, 1)"),
    "places of the largest": (
        "(n, m, 4),", "F.max_pool2d(x[:, None], 2, 1, return_indices=True)[1]"),
    "sums of what is joined": ("(n, m, 4),", "pf.cat([x[:, 1:], x[:, :-1] * 2], 1).sum(1)"),
    "one and two less": ("(n, 4),", "x[1:].unfold(0, 2, 1).sum(-1), x[2:].cumsum(0)"),
    # lengths as numbers
    "a mean over a count": ("(n, 4),", "x.sum() / x.shape[0] + x.numel()"),
    "a scale": ("(n, 4),", "x * x.shape[0] ** -0.5"),
    "a float of it": ("(n, 4),", "x * (1 / x.size(0)) + x.shape[0] / 2"),
    "positions": ("(2, n, 4),", "x + pf.arange(x.shape[1]).unsqueeze(1)"),
    "positions from the end": ("(n, 4),", "x * pf.arange(x.shape[0] - 1, -1, -1).unsqueeze(1)"),
    "a causal mask": (
        "(2, n, n),",
        "i = pf.arange(x.shape[1])\nreturn x.masked_fill(i > i.unsqueeze(1), -1e9).softmax(-1)"),
    "a triangle": ("(n, 4),", "pf.ones(x.shape[0], x.shape[0]).tril() @ x"),
    "made of lengths": (
        "(n, 4),", "x + pf.zeros(x.shape[0], 4) + pf.full((x.shape[0], 1), 2.0)"),
    "full of lengths": (
        "(n, 4),", "x * pf.full((), x.shape[0]) + pf.full((4,), x.shape[0] + 1.0)"),
    "an eye": ("(n, n),", "x + pf.eye(x.shape[0])"),
    "a length returned": ("(n, 4),", "return x * 2, x.shape[0], x.shape[0] // 2 + 1"),
    "a shape returned": ("(n, 4),", "return x.sum(1), tuple(x.shape)"),
    "a branch": (
        "(n, 4),", "return x * 2 if x.shape[0] > 40 else x + 1", 4),
    "an even length": ("(n, 4),", "return x * 2 if x.shape[0] % 2 else x + 1", 4),
    "a clipped length": ("(n, 4),", "return x[:min(x.shape[0], 20)] * 2", 4),
    # padding, sampling, windows
    "padded": ("(3, n),", "F.pad(x, (1, 2))"),
    "padded by a computed amount": ("(3, n),", "F.pad(x, (0, -x.shape[1] % 8))", 4),
    "padded to a length": ("(3, n),", "F.pad(x, (0, 200 - x.shape[1]))"),
    "twice as large": ("(1, 2, n, 6),", "F.interpolate(x, scale_factor=2.0)"),
    "pooled": ("(1, 2, n, m),", "F.max_pool2d(x, 2) + F.avg_pool2d(x, 2)", 4),
    "reflected": ("(2, 3, n, m),", "F.pad(x, (2, 1, 1, 2), mode='reflect')"),
    "replicated": ("(2, 3, n),", "F.pad(x, (3, 1), mode='replicate')"),
    "wrapped around": ("(2, 3, n),", "F.pad(x, (2, 3), mode='circular')"),
    "padded by all of it": (
        "(2, 3, n),", "F.pad(x, (x.shape[2] - 1, 0), mode='reflect')"),
    "cut and reflected": ("(2, 3, n),", "F.pad(x, (-1, 2), mode='reflect')", 13),
    "by a factor": ("(1, 2, n, m),", "F.interpolate(x, scale_factor=1.5)"),
    "linear": ("(1, 2, n),", "F.interpolate(x, scale_factor=2.0, mode='linear')"),
    "bilinear": (
        "(1, 2, n, m),", "F.interpolate(x, scale_factor=(2.0, 0.7), mode='bilinear')"),
    "corners aligned": (
        "(1, 2, n, m),",
        "F.interpolate(x, scale_factor=2.0, mode='bilinear', align_corners=True)"),
    "bicubic": ("(1, 2, n, m),", "F.interpolate(x, size=(9, 7), mode='bicubic')"),
    "as large as another": (
        "(1, 2, n, 3), (1, 2, m, 3)",
        "F.interpolate(x, size=y.shape[2:], mode='bilinear') + y + F.interpolate(x, y.shape[2:])"),
    "of float64": (
        "(1, 2, n),",
        "x = x.double()\nreturn F.adaptive_avg_pool1d(x, 3), F.interpolate(x, 7, mode='linear')"),
    "sampled": (
        "(1, 2, n, m), (1, 4, 5, 2)",
        "F.grid_sample(x, y, padding_mode='border', align_corners=False)"),
    "pooled to a few": ("(2, 3, n, m),", "F.adaptive_avg_pool2d(x, (3, 2))"),
    "the largest of a few": (
        "(2, 3, n, m),", "return F.adaptive_max_pool2d(x.relu(), (2, 3), return_indices=True)"),
    "the largest and where": (
        "(2, 3, n),", "return F.max_pool1d(x.relu(), 3, 2, 1, return_indices=True)"),
    "pooled to one": ("(2, 3, n),", "F.adaptive_avg_pool1d(x, 1)"),
    "a convolution": ("(2, 3, n),", "F.conv1d(x, pf.ones(4, 3, 3), padding=1)"),
    "of images": ("(1, 3, n, m),", "F.conv2d(x, pf.ones(4, 3, 3, 3), stride=2, padding=1)", 4),
    # products and indices
    "a product": ("(n, 4),", "x @ x.T @ x"),
    "of batches": ("(2, n, 4), (2, m, 4)", "pf.bmm(x, y.transpose(1, 2))"),
    "an einsum": ("(2, n, 4), (2, m, 4)", "pf.einsum('bik,bjk->bij', x, y)"),
    "attention": ("(2, 2, n, 4), (2, 2, m, 4)", "F.scaled_dot_product_attention(x, y, y)"),
    "causal attention": (
        "(2, 2, n, 4),", "F.scaled_dot_product_attention(x, x, x, is_causal=True)"),
    "an embedding": ("[2, n], (4, 3)", "F.embedding(x, y)"),
    "gathered": ("(n, 4), [n, 2]", "x.gather(1, y)"),
    "rows by index": ("(n, 4), [m]", "x[y % x.shape[0]] + x.index_select(0, y // 4)", 4),
    "sorted": ("(3, n),", "x.sort(1)[0]"),
    "the first of them": ("(3, n),", "x.topk(2, 1)[0]"),
    "one hot": ("[n],", "F.one_hot(x, 4) * 2.0"),
    # losses
    "a cross entropy": ("(n, 4), [n]", "F.cross_entropy(x, y)"),
    "of sequences": ("(2, n, 4), [2, n]", "F.cross_entropy(x.reshape(-1, 4), y.reshape(-1))"),
    "a loss of counts": ("(n, 4), (n, 4)", "F.mse_loss(x, y) + F.l1_loss(x, y, reduction='sum')"),
    "ignored ones": ("(n, 4), [n]", "F.cross_entropy(x, y, ignore_index=2)"),
})  # fmt: skip
