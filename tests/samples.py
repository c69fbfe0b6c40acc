"""One row per op: inputs, and the same call on pyframe and on PyTorch (`t` is either module).

A row's name is that of the op in the registry, so that an op without a row fails the suite;
further rows of an op add a colon and a word. `F` is nn.functional of the same module.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """`call(t, F, *inputs)`; inputs are made from `specs` (see `make`)."""

    name: str
    call: Callable[..., Any]
    specs: tuple[Any, ...]
    grad: bool = True  # compare gradients with PyTorch's
    second: bool = True  # check second derivatives too
    tol: float = 1.0

    @property
    def size(self) -> int:
        """The number of elements of all inputs."""
        return sum(math.prod(s[1]) for s in self.specs)


def normal(*shape: int) -> Any:
    return ("normal", shape)


def positive(*shape: int) -> Any:
    return ("positive", shape)


def distinct(*shape: int) -> Any:
    """Floats with gaps between them, for max and sort."""
    return ("distinct", shape)


def ints(low: int, high: int, *shape: int, dtype: str = "int64") -> Any:
    return ("ints", shape, low, high, dtype)


def bools(*shape: int) -> Any:
    return ("bools", shape)


def make(spec: Any, rng: np.random.Generator, dtype: Any = np.float32) -> np.ndarray:
    kind, shape = spec[0], spec[1]
    if kind == "normal":
        return rng.standard_normal(shape).astype(dtype)
    if kind == "positive":
        return (rng.random(shape) * 2 + 0.3).astype(dtype)
    if kind == "distinct":
        n = math.prod(shape)
        return (rng.permutation(n).reshape(shape) * 0.1 - n * 0.04).astype(dtype)
    if kind == "bools":
        return rng.random(shape) > 0.5
    return rng.integers(spec[2], spec[3], shape).astype(spec[4])


def unary(name: str, spec: Any = None, **kw: Any) -> Row:
    return Row(name, lambda t, F, x: getattr(t, name)(x), (spec or normal(4, 5),), **kw)


def binary(name: str, a: Any = None, b: Any = None, **kw: Any) -> Row:
    specs = (a or normal(4, 5), b or normal(5))
    return Row(name, lambda t, F, x, y: getattr(t, name)(x, y), specs, **kw)


def compare(name: str) -> Row:
    return binary(name, ints(0, 3, 4, 5), ints(0, 3, 5), grad=False)


ROWS: tuple[Row, ...] = (
    # arithmetic
    binary("add"), binary("sub"), binary("mul", normal(4, 1), normal(5)),
    Row("add:alpha", lambda t, F, x, y: t.add(x, y, alpha=2.5), (normal(3, 4), normal(3, 4))),
    Row("add:scalar", lambda t, F, x: 2 + x + 1.5, (normal(3, 4),)),
    Row("add:int", lambda t, F, x, y: x + y, (ints(-9, 9, 4, 5), ints(-9, 9, 5, dtype="int32")),
        grad=False),
    Row("add:bool", lambda t, F, x, y: x + y, (bools(4, 5), bools(4, 5)), grad=False),
    binary("div", normal(4, 5), positive(5)),
    Row("div:ints", lambda t, F, x, y: x / y, (ints(-9, 9, 4, 5), ints(1, 9, 5)), grad=False),
    Row("div:trunc", lambda t, F, x, y: t.div(x, y, rounding_mode="trunc"),
        (ints(-20, 20, 4, 5), ints(1, 9, 5)), grad=False),
    Row("floor_divide", lambda t, F, x, y: x // y,
        (ints(-20, 20, 4, 5), ints(1, 9, 5)), grad=False),
    Row("floor_divide:float", lambda t, F, x, y: x // y, (normal(4, 5), positive(5)), grad=False),
    Row("remainder", lambda t, F, x, y: x % y, (ints(-20, 20, 4, 5), ints(1, 9, 5)), grad=False),
    Row("remainder:float", lambda t, F, x: x % 0.7, (normal(4, 5),)),
    Row("fmod", lambda t, F, x: t.fmod(x, 0.7), (normal(4, 5),)),
    binary("pow", positive(4, 5), normal(5)),
    Row("pow:square", lambda t, F, x: x**2, (normal(4, 5),)),
    Row("pow:cube", lambda t, F, x: x**3, (normal(4, 5),)),
    Row("pow:base", lambda t, F, x: 2.0**x, (normal(4, 5),)),
    Row("pow:int", lambda t, F, x: x**3, (ints(-4, 5, 4, 5),), grad=False),
    unary("neg"), unary("abs"), unary("sign"), unary("square"),
    unary("reciprocal", positive(4, 5)), unary("sqrt", positive(4, 5)),
    unary("rsqrt", positive(4, 5)), unary("exp"), unary("exp2"), unary("expm1"),
    unary("log", positive(4, 5)), unary("log2", positive(4, 5)), unary("log10", positive(4, 5)),
    unary("log1p", positive(4, 5)), unary("sin"), unary("cos"), unary("tan", tol=10),
    unary("atan"), unary("tanh"), unary("sigmoid"), unary("erf"), unary("floor"), unary("ceil"),
    unary("trunc"), unary("round"), unary("relu"),
    Row("exp:int", lambda t, F, x: t.exp(x), (ints(-3, 3, 4),), grad=False),
    Row("tanh:large", lambda t, F, x: t.tanh(x * 100), (normal(4, 5),), second=False),
    binary("maximum", distinct(4, 5), normal(4, 5)),
    binary("minimum", distinct(4, 5), normal(4, 5)),
    Row("maximum:nan", lambda t, F, x: t.maximum(x * math.nan, x), (normal(3),), grad=False),
    Row("clamp", lambda t, F, x: t.clamp(x, -0.5, 0.5), (normal(4, 5),)),
    Row("clamp:min", lambda t, F, x: x.clamp(min=0.1), (normal(4, 5),)),
    Row("lerp", lambda t, F, x, y: t.lerp(x, y, 0.3), (normal(4, 5), normal(4, 5))),
    Row("addcmul", lambda t, F, x, y, z: t.addcmul(x, y, z, value=0.5), (normal(4),) * 3),
    Row("addcdiv", lambda t, F, x, y, z: t.addcdiv(x, y, z, value=0.5),
        (normal(4), normal(4), positive(4))),
    Row("gelu", lambda t, F, x: F.gelu(x), (normal(4, 5),)),
    Row("gelu:tanh", lambda t, F, x: F.gelu(x, approximate="tanh"), (normal(4, 5),)),
    Row("silu", lambda t, F, x: F.silu(x), (normal(4, 5),)),
    Row("softplus", lambda t, F, x: F.softplus(x), (normal(4, 5),)),
    # comparison and logic
    *[compare(n) for n in ("eq", "ne", "lt", "le", "gt", "ge")],
    *[compare(n) for n in ("logical_and", "logical_or", "bitwise_and", "bitwise_or")],
    compare("bitwise_xor"),
    Row("logical_not", lambda t, F, x: t.logical_not(x), (bools(4, 5),), grad=False),
    Row("bitwise_not", lambda t, F, x: ~x, (ints(-5, 5, 4, 5),), grad=False),
    Row("bitwise_not:bool", lambda t, F, x: ~x, (bools(4, 5),), grad=False),
    Row("bitwise_xor:bool", lambda t, F, x, y: x ^ y, (bools(4, 5), bools(4, 5)), grad=False),
    Row("isnan", lambda t, F, x: t.isnan(t.log(x)), (normal(4, 5),), grad=False),
    Row("isinf", lambda t, F, x: t.isinf(1 / t.floor(x)), (normal(4, 5),), grad=False),
    Row("isfinite", lambda t, F, x: t.isfinite(1 / t.floor(x)), (normal(4, 5),), grad=False),
    Row("where", lambda t, F, c, x, y: t.where(c, x, y), (bools(4, 5), normal(4, 5), normal(5))),
    Row("where:scalar", lambda t, F, c, x: t.where(c, x, 2.0), (bools(4, 5), normal(5))),
    Row("cast", lambda t, F, x: x.to(t.int32), (normal(4, 5),), grad=False),
    Row("cast:bool", lambda t, F, x: t.floor(x).to(t.bool), (normal(4, 5),), grad=False),
    Row("cast:uint8", lambda t, F, x: x.to(t.uint8) + 250, (ints(0, 200, 9),), grad=False),
    Row("cast:int8", lambda t, F, x: x.to(t.int8) * 3, (ints(-120, 120, 9),), grad=False),
    Row("cast:half", lambda t, F, x: (x.half() * 2).float(),
        (normal(4, 5),), tol=100, second=False),
    Row("copy", lambda t, F, x: x.clone(), (normal(4, 5),)),
    # movement
    Row("reshape", lambda t, F, x: x.reshape(2, -1).reshape(5, 4), (normal(4, 5),)),
    Row("reshape:transposed", lambda t, F, x: x.T.reshape(2, 10) * 2, (normal(4, 5),)),
    Row("permute", lambda t, F, x: x.permute(2, 0, 1), (normal(2, 3, 4),)),
    Row("transpose", lambda t, F, x: x.transpose(-1, 0).exp(), (normal(2, 3, 4),)),
    Row("expand", lambda t, F, x: x.expand(3, 4, 5) * 2, (normal(4, 1),)),
    Row("slice", lambda t, F, x: x[1:, ::2, 3], (normal(4, 5, 6),)),
    Row("slice:none", lambda t, F, x: x[..., None, -1], (normal(4, 5),)),
    Row("flip", lambda t, F, x: x.flip(0, -1), (normal(3, 4, 5),)),
    Row("pad", lambda t, F, x: F.pad(x, (1, 2, 0, 3)), (normal(3, 4),)),
    Row("pad:value", lambda t, F, x: F.pad(x.exp(), (1, 2), value=1.5) * 2, (normal(3, 4),)),
    Row("pad:negative", lambda t, F, x: F.pad(x, (-1, 2)), (normal(3, 4),)),
    Row("pad:slice", lambda t, F, x: F.pad(x * 2, (2, 2))[:, 1:-1].T, (normal(3, 4),)),
    Row("windows", lambda t, F, x: F.avg_pool2d(x, 3, 2, 1), (normal(2, 3, 7, 8),)),
    Row("windows:ceil", lambda t, F, x: F.avg_pool2d(x, 3, 2, 1, True, False),
        (normal(2, 3, 8, 8),)),
    Row("fold", lambda t, F, x: F.avg_pool1d(x, 3, 2), (normal(2, 3, 9),)),
    Row("cat", lambda t, F, x, y, z: t.cat([x, y, z], 1),
        (normal(2, 3), normal(2, 1), normal(2, 2))),
    Row("stack", lambda t, F, x, y: t.stack([x, y], -1), (normal(2, 3), normal(2, 3))),
    Row("squeeze", lambda t, F, x: x.squeeze().unsqueeze(1).squeeze(1), (normal(1, 3, 1, 2),)),
    Row("flatten", lambda t, F, x: x.flatten(1), (normal(2, 3, 4),)),
    Row("unflatten", lambda t, F, x: x.unflatten(1, (2, -1)), (normal(2, 6),)),
    Row("split", lambda t, F, x: t.cat([p * (i + 1) for i, p in enumerate(x.split(2, 1))], 1),
        (normal(2, 5),)),
    Row("chunk", lambda t, F, x: x.chunk(3, 1)[1] * 2, (normal(2, 7),)),
    Row("movedim", lambda t, F, x: x.movedim(0, 2), (normal(2, 3, 4),)),
    Row("repeat", lambda t, F, x: x.repeat(2, 1, 3), (normal(2, 3),)),
    Row("tril", lambda t, F, x: x.tril(1), (normal(4, 5),)),
    Row("triu", lambda t, F, x: t.triu(x, -1), (normal(4, 5),)),
    # reductions
    Row("sum", lambda t, F, x: x.sum(1), (normal(4, 5, 3),)),
    Row("sum:all", lambda t, F, x: (x * 2).sum(), (normal(70, 33),), second=False),
    Row("sum:outer", lambda t, F, x: (x.exp() + 1).sum((0, 2), keepdim=True), (normal(40, 3, 30),),
        second=False, tol=3),
    Row("sum:int", lambda t, F, x: x.sum(0), (ints(0, 9, 4, 5, dtype="int32"),), grad=False),
    Row("sum:empty", lambda t, F, x: x[:0].sum(0), (normal(4, 5),), second=False),
    Row("mean", lambda t, F, x: x.mean((0, -1)), (normal(4, 5, 3),)),
    Row("prod", lambda t, F, x: x.prod(1), (positive(4, 5),)),
    Row("prod:zero", lambda t, F, x, z: (x * z).prod(1), (positive(5, 4), ints(0, 3, 5, 4)),
        second=False),
    Row("amax", lambda t, F, x: x.amax((0, 2)), (distinct(4, 5, 3),)),
    Row("amax:ties", lambda t, F, x: x.floor().amax(1) + x.sum(1), (normal(4, 50),), second=False),
    Row("amin", lambda t, F, x: t.amin(x, 1, keepdim=True), (distinct(4, 5),)),
    Row("argmax", lambda t, F, x: x.argmax(1), (ints(0, 4, 5, 300),), grad=False),
    Row("argmax:all", lambda t, F, x: t.argmax(x), (normal(9, 33),), grad=False),
    Row("argmin", lambda t, F, x: x.argmin(0, keepdim=True), (normal(9, 4),), grad=False),
    Row("max", lambda t, F, x: t.max(x, 1).values * 2, (distinct(4, 5),)),
    Row("max:all", lambda t, F, x: x.max(), (distinct(4, 5),)),
    Row("max:index", lambda t, F, x: x.max(0)[1], (distinct(4, 5),), grad=False),
    Row("min", lambda t, F, x: x.min(0).values, (distinct(4, 5),)),
    Row("any", lambda t, F, x: t.any(x, 0), (bools(2, 5),), grad=False),
    Row("all", lambda t, F, x: x.all(), (bools(2, 5),), grad=False),
    Row("var", lambda t, F, x: x.var(1), (normal(4, 5),)),
    Row("var:biased", lambda t, F, x: t.var(x, (0, 1), unbiased=False), (normal(4, 5),)),
    Row("std", lambda t, F, x: x.std(), (normal(4, 5),)),
    Row("logsumexp", lambda t, F, x: t.logsumexp(x, 1), (normal(4, 5),)),
    Row("norm", lambda t, F, x: x.norm(dim=1), (normal(4, 5),)),
    Row("softmax", lambda t, F, x: F.softmax(x, 1), (normal(4, 5),)),
    Row("softmax:outer", lambda t, F, x: x.softmax(0), (normal(80, 3),), second=False),
    Row("log_softmax", lambda t, F, x: F.log_softmax(x * 30, -1), (normal(4, 5),), tol=5),
    # products
    Row("matmul", lambda t, F, x, y: x @ y, (normal(3, 4), normal(4, 5))),
    Row("matmul:large", lambda t, F, x, y: x @ y, (normal(70, 90), normal(90, 40)), second=False,
        tol=10),
    Row("matmul:batch", lambda t, F, x, y: x @ y, (normal(2, 1, 3, 4), normal(3, 4, 5))),
    Row("matmul:flat", lambda t, F, x, y: x @ y.T, (normal(2, 3, 4), normal(5, 4))),
    Row("matmul:vector", lambda t, F, x, y: (x @ y) * (y @ y), (normal(3, 4), normal(4))),
    Row("matmul:fused", lambda t, F, x, y: (x.relu() * 2) @ (y.T + 1), (normal(3, 4), normal(5, 4)),
        second=False),
    Row("bmm", lambda t, F, x, y: t.bmm(x, y), (normal(2, 3, 4), normal(2, 4, 5))),
    Row("addmm", lambda t, F, b, x, y: t.addmm(b, x, y, beta=0.5, alpha=2),
        (normal(5), normal(3, 4), normal(4, 5))),
    Row("outer", lambda t, F, x, y: t.outer(x, y) + t.dot(x, x), (normal(3), normal(4))),
    Row("linear", lambda t, F, x, w, b: F.linear(x, w, b),
        (normal(2, 3, 4), normal(5, 4), normal(5))),
    # convolution and pooling
    Row("conv", lambda t, F, x, w, b: F.conv2d(x, w, b, padding=1),
        (normal(2, 3, 6, 5), normal(4, 3, 3, 3), normal(4)), tol=3),
    Row("conv:stride", lambda t, F, x, w: F.conv2d(x, w, stride=(2, 3), padding=(2, 1), dilation=2),
        (normal(2, 2, 9, 8), normal(3, 2, 3, 2)), tol=3),
    Row("conv:groups", lambda t, F, x, w: F.conv2d(x, w, stride=2, groups=2),
        (normal(2, 4, 7, 7), normal(6, 2, 3, 3)), tol=3),
    Row("conv:same", lambda t, F, x, w: F.conv2d(x, w, padding="same"),
        (normal(1, 2, 5, 6), normal(3, 2, 3, 5)), tol=3),
    Row("conv:1d", lambda t, F, x, w: F.conv1d(x, w, padding=1),
        (normal(2, 3, 8), normal(4, 3, 3))),
    Row("conv:3d", lambda t, F, x, w: F.conv3d(x, w),
        (normal(1, 2, 4, 4, 4), normal(2, 2, 2, 2, 2))),
    Row("conv_input", lambda t, F, x, w: F.conv2d(x, w, padding=2).square(),
        (normal(1, 2, 4, 4), normal(2, 2, 2, 2)), tol=5),
    Row("conv_weight", lambda t, F, x, w: F.conv2d(x.relu(), w * 2, stride=2).tanh(),
        (normal(1, 2, 6, 6), normal(2, 2, 3, 3)), second=False, tol=5),
    Row("max_pool", lambda t, F, x: F.max_pool2d(x, 2), (distinct(2, 3, 6, 7),)),
    Row("max_pool:overlap", lambda t, F, x: F.max_pool2d(x, 3, 2, 1), (distinct(2, 2, 7, 8),)),
    Row("max_pool:ties", lambda t, F, x: F.max_pool2d(x.relu(), 2), (normal(2, 3, 6, 6),),
        second=False),
    Row("max_pool_input", lambda t, F, x: F.max_pool2d(x, 3, 1, 1, dilation=1, ceil_mode=True) ** 2,
        (distinct(1, 2, 5, 5),)),
    Row("max_pool:1d", lambda t, F, x: F.max_pool1d(x, 3, 2, dilation=2), (distinct(2, 3, 12),)),
    # indexing
    Row("take_rows", lambda t, F, w, i: F.embedding(i, w), (normal(7, 3), ints(0, 7, 4, 5))),
    Row("add_rows", lambda t, F, x, i, s: x.index_add(0, i, s),
        (normal(4, 3), ints(0, 4, 600), normal(600, 3)), second=False, tol=30),
    Row("put_rows", lambda t, F, x, s: x.index_put((t.tensor([5, 0, 3]).to(x.device),), s),
        (normal(7, 2), normal(3, 2))),
    Row("put_rows:one", lambda t, F, x, s: x.index_put((t.tensor([-2]).to(x.device),), s) * x,
        (normal(3, 2), normal(1, 2))),
    Row("index_select", lambda t, F, x, i: t.index_select(x, 1, i),
        (normal(3, 5, 2), ints(0, 5, 4))),
    Row("index:two", lambda t, F, x, i, j: x[i, :, j],
        (normal(4, 3, 5), ints(-4, 4, 6), ints(0, 5, 6))),
    Row("index:adjacent", lambda t, F, x, i, j: x[:, i, j],
        (normal(2, 4, 5), ints(0, 4, 6), ints(0, 5, 3, 1))),
    Row("index:mask", lambda t, F, x, m: x[m] * 2, (normal(4, 5), bools(4, 5))),
    Row("index:list", lambda t, F, x: x[[0, 2, 2], 1:], (normal(4, 5),)),
    Row("gather", lambda t, F, x, i: x.gather(1, i), (normal(4, 5), ints(0, 5, 4, 3))),
    Row("gather:one", lambda t, F, x, i: t.gather(x, 1, i), (normal(4, 5), ints(0, 5, 4, 1))),
    Row("scatter_add", lambda t, F, x, i, s: x.scatter_add(1, i, s),
        (normal(4, 5), ints(0, 5, 4, 3), normal(4, 3))),
    Row("masked_fill", lambda t, F, x, m: x.masked_fill(m, 2.0), (normal(4, 5), bools(5))),
    Row("one_hot", lambda t, F, i: F.one_hot(i, 6), (ints(0, 6, 4, 2),), grad=False),
    Row("nonzero", lambda t, F, m: m.nonzero(), (bools(4, 5),), grad=False),
    # layers and losses as functions
    Row("layer_norm", lambda t, F, x, w, b: F.layer_norm(x, (5,), w, b),
        (normal(4, 5), normal(5), normal(5)), tol=5),
    Row("cross_entropy", lambda t, F, x, y: F.cross_entropy(x, y), (normal(6, 5), ints(0, 5, 6))),
    Row("cross_entropy:weight",
        lambda t, F, x, y: F.cross_entropy(
            x, y, t.arange(1.0, 6.0).to(x.device, x.dtype), ignore_index=2),
        (normal(6, 5), ints(0, 5, 6)), second=False),
    Row("cross_entropy:smooth", lambda t, F, x, y: F.cross_entropy(x, y, label_smoothing=0.1),
        (normal(6, 5, 2), ints(0, 5, 6, 2))),
    Row("cross_entropy:soft", lambda t, F, x, y: F.cross_entropy(x, y.softmax(1), reduction="sum"),
        (normal(6, 5), normal(6, 5))),
    Row("nll_loss", lambda t, F, x, y: F.nll_loss(x, y, reduction="none"),
        (normal(6, 5), ints(0, 5, 6))),
    Row("mse_loss", lambda t, F, x, y: F.mse_loss(x, y), (normal(6, 5), normal(6, 5))),
    Row("l1_loss", lambda t, F, x, y: F.l1_loss(x, y, reduction="sum"),
        (normal(6, 5), normal(6, 5))),
    Row("attention", lambda t, F, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (normal(2, 2, 5, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 4)), second=False, tol=5),
    Row("normalize", lambda t, F, x: F.normalize(x), (normal(4, 5),)),
)  # fmt: skip
