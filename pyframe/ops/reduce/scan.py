"""Scans: running sums, products and extremes along a dim, and what is composed of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, is_materialized
from pyframe.core.modes import mode
from pyframe.core.op import EXTERN, Constants, Grid, KernelSpec, Op, ShaderTemplate, grid_1d
from pyframe.core.sizes import size_hint, statically_equal, tuning_hint
from pyframe.ops.api import check
from pyframe.ops.api.batching_rules import fold_batch_dim
from pyframe.ops.api.public import public
from pyframe.ops.api.results import CummaxResult, CumminResult
from pyframe.ops.index.along import gathered
from pyframe.ops.index.order import sort_key
from pyframe.ops.math import elementwise as el
from pyframe.ops.math.special import logaddexp
from pyframe.ops.reduce.reductions import one_dim, sum as sum_, wide, widening
from pyframe.ops.shape import join, movement as mv
from pyframe.tensor import Tensor

SUM, PRODUCT, MAXIMUM, LOG_SUM = 0, 1, 2, 3  # KIND in scan.wgsl
THREADS = 256  # of a workgroup
FEW_RESULTS = 4  # as in codegen/wgsl/reduction.py
ALONE = 64  # elements that one thread scans: errors of longer sums would grow
BLOCK = 1024  # a longer row is scanned in blocks of this size, side by side


def _plan(kind: int) -> Any:
    def plan(call: KernelSpec) -> tuple[Constants, Grid]:
        """Threads of a workgroup share a row, of four elements each; or each has rows alone."""
        outer, n, inner = call.shape
        rows = outer * inner
        length = tuning_hint(n, BLOCK)
        alone = call.limits.alone and size_hint(rows) >= FEW_RESULTS and length <= ALONE
        width = 1 if alone else min(1 << (max(length, 4) - 1).bit_length() - 2, THREADS)
        consts: Constants = {
            "KIND": kind, "N": n, "INNER": inner, "ROWS": rows, "WIDTH": width, "ALONE": alone,
            "NEIGHBOURS": (n if statically_equal(inner, 1) else 1,),
        }  # fmt: skip
        return consts, grid_1d(-(-rows * width // THREADS))

    return plan


WIDER = {np.dtype(a): np.dtype(b) for a, b in (("f2", "f4"), ("f4", "f8"), ("c8", "c16"))}
CHUNK = 1 << 15  # numbers that are scanned at once: wide, they still lie in cache


def _accumulate(fn: np.ufunc) -> Any:
    def run(x: np.ndarray) -> np.ndarray:
        """The scan of (outer, n, inner) along its middle; floats are scanned as wider ones, and
        sums and products of ints are int64."""
        acc = WIDER.get(x.dtype, x.dtype)
        if x.dtype.kind in "biu" and fn is not np.maximum:
            acc = np.dtype(np.int64)
        kept = acc if x.dtype.kind in "biu" else x.dtype
        outer, n, inner = x.shape
        if inner >= 32 and outer * inner >= 256 and n:
            out = x.astype(kept)  # of many rows all at once, which NumPy does one by one
            total = out[:, 0].astype(acc)
            for i in range(1, n):
                if acc == kept:
                    total = fn(total, out[:, i], out=out[:, i])
                else:
                    out[:, i] = fn(total, out[:, i], out=total)
            return out
        if acc == x.dtype or x.size <= CHUNK:
            return np.asarray(fn.accumulate(x, 1, acc))
        out = np.empty(x.shape, kept)
        columns = max(min(CHUNK // inner, n), 1)
        rows = max(CHUNK // (columns * inner), 1)
        for o in range(0, outer, rows):
            for i in range(0, n, columns):
                here = slice(o, o + rows), slice(i, i + columns)
                part = x[here].astype(acc)
                if i:
                    fn(part[:, 0], total, out=part[:, 0])
                part = fn.accumulate(part, 1)
                total = part[:, -1]
                out[here] = part
        return out

    return run


class Scan(Op):
    """An op on (outer, n, inner) along its middle."""

    join: Any  # gives the value of two parts that follow on each other


def _scan_op(name: str, kind: int, numpy: Any, combine: Any, **more: Any) -> Scan:
    """A scan whose parts `combine` joins."""

    def by_doubling(x: Tensor) -> Tensor:  # each step covers twice as many elements
        step = 1
        while step < x.shape[1]:
            x = join.cat([x[:, :step], combine(x[:, :-step], x[:, step:])], 1)
            step *= 2
        return x

    op = Scan(
        name, EXTERN, "x", infer=lambda x: (x.shape, x.dtype), numpy=numpy, fallback=by_doubling,
        kernel=ShaderTemplate("scan.wgsl", _plan(kind)), batch=fold_batch_dim, **more,
    )  # fmt: skip
    op.join, op.lowering = combine, lambda limits, x: _in_blocks(op, x)
    return op


cumsum_op = _scan_op(
    "cumsum", SUM, _accumulate(np.add), el.add, routine="scan.cumsum",
    x=lambda g: _from_the_end(cumsum_op, g),
)  # fmt: skip
cumprod_op = _scan_op(
    "cumprod", PRODUCT, _accumulate(np.multiply), el.mul, routine="scan.cumprod",
    x=lambda g, y, x: _cumprod_grad(g, y, x),
)  # fmt: skip
cummax_op = _scan_op("cummax", MAXIMUM, _accumulate(np.maximum), el.maximum, routine="scan.cummax")


def _from_the_end(op: Scan, x: Tensor) -> Tensor:
    return mv.flip(apply(op, (mv.flip(x, 1),)), 1)


def _in_blocks(op: Scan, x: Tensor) -> Tensor | None:
    """The scan of (outer, n, inner) in blocks, where few workgroups would scan long rows."""
    outer, n, inner = x.shape
    if n <= BLOCK or outer * inner == 0:
        return None
    blocks = -(-n // BLOCK)
    whole = mv.pad(x, ((0, 0), (0, blocks * BLOCK - n), (0, 0)))
    parts = apply(op, (whole.reshape(outer * blocks, BLOCK, inner),))
    parts = parts.reshape(outer, blocks, BLOCK, inner)
    last = parts[:, :-1, -1]
    before = _in_blocks(op, last)
    before = apply(op, (last,)) if before is None else before
    rest = op.join(before.unsqueeze(2), parts[:, 1:])
    return join.cat([parts[:, :1], rest], 1).reshape(outer, blocks * BLOCK, inner)[:, :n]


def _cumprod_grad(g: Tensor, y: Tensor, x: Tensor, zeros: int = 2) -> Tensor:
    """d/dx_i is the sum over j >= i of g_j times the product of all x_k, k <= j, but x_i.

    Up to the first 0 that is a quotient. At it, it is the sum with a 1 in its place; past it, 0,
    written as the gradient with that 1 times the 0 so that second derivatives hold as well.
    """
    zero = el.eq(x, 0)
    y, x = y.conj(), x.conj()
    if not zeros or (
        is_materialized(x) and mode.subgraph_recorder is None and not zero._node.data.any()
    ):
        return _from_the_end(cumsum_op, g * y) / el.where(zero, 1.0, x)
    seen = apply(cumsum_op, (zero.to(dt.int32),))
    first = el.logical_and(zero, el.eq(seen, 1))
    before = _from_the_end(cumsum_op, g * y) / el.where(zero, 1.0, x)
    other = el.where(first, 1.0, x)
    product = apply(cumprod_op, (other,))
    at = _from_the_end(cumsum_op, g * product)
    past: Any = 0.0
    if mode.grad:  # of which nothing but derivatives is left
        value = sum_(el.where(first, x, 0.0), 1, True)
        past = _cumprod_grad(g, product, other, zeros - 1) * value
    return el.where(el.eq(seen, 0), before, el.where(first, at, past))


def _logcumsumexp_numpy(x: np.ndarray) -> np.ndarray:
    acc = WIDER.get(x.dtype, x.dtype)
    if x.dtype.kind != "c":
        return np.asarray(np.logaddexp.accumulate(x, 1, acc))
    out = x.astype(acc)
    for i in range(1, x.shape[1]):
        a, b = out[:, i - 1], x[:, i]
        first = a.real >= b.real
        top, low = np.where(first, a, b), np.where(first, b, a)
        out[:, i] = np.where(low.real == -np.inf, top, top + np.log1p(np.exp(low - top)))
    return out


logcumsumexp_op = _scan_op(
    "logcumsumexp", LOG_SUM, _logcumsumexp_numpy, logaddexp,
    x=lambda g, y, x: _logcumsumexp_grad(g, y, x),
)  # fmt: skip


def _logcumsumexp_grad(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """exp(x_i) times the sum over j >= i of g_j exp(-y_j), in logarithms."""
    if g.dtype.category == dt.COMPLEX:
        return _from_the_end(cumsum_op, g * el.exp(-y).conj()) * el.exp(x).conj()
    out = None
    for sign in (1, -1):
        part = g if sign == 1 else -g
        there = el.gt(part, 0)
        logs = el.where(there, el.log(el.where(there, part, 1.0)) - y, -math.inf)
        one = el.exp(_from_the_end(logcumsumexp_op, logs) + x)
        out = one if out is None else out - one
    assert out is not None
    return out


def scan_along(op: Scan, x: Tensor, d: int, dtype: dt.dtype | None = None) -> Tensor:
    """The scan of `x` along dim d, as numbers of `dtype`."""
    shape = x.shape
    n = shape[d] if shape else 1
    outer, inner = math.prod(shape[:d]), math.prod(shape[d + 1 :])
    x = x.reshape(outer, n, inner)
    if is_materialized(x):
        return widening(op, x, dtype or x.dtype).reshape(shape)
    return apply(op, (x if dtype is None else x.to(dtype),)).reshape(shape)


def cumsum(input: Tensor, dim: int, *, dtype: dt.dtype | None = None) -> Tensor:
    """y[i] = x[0] + … + x[i] along a dim; ints and bools give int64."""
    return scan_along(cumsum_op, input, one_dim("cumsum", input, dim), dtype or wide(input))


def cumprod(input: Tensor, dim: int, *, dtype: dt.dtype | None = None) -> Tensor:
    """y[i] = x[0] * … * x[i] along a dim; ints and bools give int64."""
    return scan_along(cumprod_op, input, one_dim("cumprod", input, dim), dtype or wide(input))


def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log(exp(x[0]) + … + exp(x[i])) along a dim, without overflow."""
    d = one_dim("logcumsumexp", input, dim)
    check.floats_or_complex("logcumsumexp", input)
    return input.clone() if input.numel() == 0 else scan_along(logcumsumexp_op, input, d)


def _running(kind: Any, input: Tensor, dim: int) -> Any:
    name = kind.__name__
    check.real(name, input)
    d = one_dim(name, input, dim)
    key = sort_key(input)
    if kind is CumminResult:  # NaN, the largest key, wins here too
        lost = el.bitwise_not(key)
        key = lost if input.dtype.category < dt.FLOAT else el.where(el.isnan(input), key, lost)
    n = input.shape[d] if input.ndim else 1
    position = el.dim_indices(n, input.ndim - 1 - d if input.ndim else 0, input.device)
    index = el.where(el.eq(key, scan_along(cummax_op, key, d)), position, 0)
    index = scan_along(cummax_op, mv.expand(index, input.shape or (1,)), d).to(dt.int64)
    index = index.reshape(input.shape)
    return kind(gathered(input, d, index), index)


def cummax(input: Tensor, dim: int) -> CummaxResult:
    """(values, indices) of the largest element so far along a dim, the last of equals."""
    return _running(CummaxResult, input, dim)


def cummin(input: Tensor, dim: int) -> CumminResult:
    """(values, indices) of the smallest element so far along a dim, the last of equals."""
    return _running(CumminResult, input, dim)


# --- differences and integrals


def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The n-th difference x[i + 1] - x[i] along a dim; of bools whether they differ."""
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"diff: order must be non-negative but got {n}")
    d = one_dim("diff", input, dim)
    parts = [p for p in (prepend, input, append) if p is not None]
    for p in parts:
        if p.ndim != input.ndim:
            raise RuntimeError(
                f"diff expects prepend and append of {input.ndim} dims, as input, got {p.ndim}"
            )
        for i, (a, b) in enumerate(zip(p.shape, input.shape, strict=True)):
            if i != d and a != b:
                raise RuntimeError(
                    "diff expects the shapes of prepend and append to match that of input except "
                    f"along dim {d}, got {list(p.shape)} and {list(input.shape)}"
                )
    x = join.cat(parts, d) if len(parts) > 1 else input
    for _ in range(min(n, x.shape[d])):
        size = x.shape[d]
        if size == 0:
            break
        after, before = mv.narrow(x, d, 1, size - 1), mv.narrow(x, d, 0, size - 1)
        x = el.ne(after, before) if x.dtype is dt.bool_ else after - before
    return x if n else input.clone()


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral along a dim by trapezoids, at places `x` or `dx` (1) apart."""
    out = _integral("trapezoid", sum_, y, x, dx, dim)
    return out if y.shape[dim] else out.to(y.dtype)


def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1
) -> Tensor:
    """The running integral along a dim by trapezoids, at places `x` or `dx` (1) apart."""
    return _integral("cumulative_trapezoid", cumsum, y, x, dx, dim)


def _integral(name: str, add: Any, y: Tensor, x: Tensor | None, dx: Any, dim: int) -> Tensor:
    if y.ndim == 0:
        raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    d = one_dim(name, y, dim)
    n = y.shape[d]
    for what, value in (("y", y), ("x", x)):
        if isinstance(value, Tensor) and value.dtype is dt.bool_:
            raise RuntimeError(
                f"{name}: received a bool input for `{what}`, but bool is not supported"
            )
    width: Any = 1 if dx is None else dx
    y = y.to(wide(y))  # two small ints may be more than one is
    if x is not None:
        x = x.to(wide(x))
        if dx is not None:
            raise TypeError(f"{name}: expected x or dx, got both")
        if x.ndim == 1:
            if x.numel() != n:
                raise RuntimeError(
                    f"{name}: There must be one `x` value for each sample point, got "
                    f"{x.numel()} for {n}"
                )
            width = diff(x).reshape((-1,) + (1,) * (y.ndim - 1 - d))
        else:
            x = x.reshape((1,) * (y.ndim - x.ndim) + x.shape)
            width = diff(x, 1, x.ndim - y.ndim + d)
    elif isinstance(width, complex):
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number, got {dx}")
    after, before = (mv.narrow(y, d, min(i, n), max(n - 1, 0)) for i in (1, 0))
    areas = (after + before) * width
    if areas.dtype.category < dt.FLOAT:  # which are added up exactly
        return add(areas, d) / 2.0
    return add(areas / 2.0, d)


def gradient(
    input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1
) -> list[Tensor]:
    """The derivative along dims by second-order differences, one tensor for each dim.

    `spacing` (1) is a number for all dims, or a number or a vector of places for each. At the edges
    the difference is of first or second order (Fornberg 1988).
    """
    if edge_order not in (1, 2):
        raise RuntimeError(f"torch.gradient only supports edge_order=1 and 2, got {edge_order}")
    spacing = 1 if spacing is None else spacing
    if dim is None:
        several = isinstance(spacing, Sequence)
        dims = list(range(len(spacing) if several and spacing else input.ndim))
        if several and len(dims) != input.ndim:
            raise RuntimeError(
                f"torch.gradient expected spacing to be unspecified, a scalar, or a list of "
                f"{input.ndim}, got {len(dims)}"
            )
    else:
        dims = [one_dim("gradient", input, d) for d in ([dim] if isinstance(dim, int) else dim)]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"gradient: dim {dims} appears multiple times; name each dim once")
    steps = list(spacing) if isinstance(spacing, Sequence) else [spacing] * len(dims)
    if len(steps) != len(dims):
        raise RuntimeError(f"gradient: expected {len(dims)} spacings, got {len(steps)}")
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1, got "
                f"{list(input.shape)}"
            )
    return [_slope(input, d, s, edge_order) for d, s in zip(dims, steps, strict=True)]


def _slope(x: Tensor, d: int, spacing: Any, edge_order: int) -> Tensor:
    n = x.shape[d]

    def cut(start: int, length: int) -> Tensor:
        return mv.narrow(x, d, start, length)

    x = el.floated(x)
    if isinstance(spacing, Tensor) and spacing.ndim:
        if spacing.ndim != 1 or spacing.numel() != n:
            raise RuntimeError(
                f"torch.gradient expected each coordinate vector to have {n} elements, got "
                f"{list(spacing.shape)}"
            )
        gaps = diff(spacing.to(wide(spacing))).reshape((-1,) + (1,) * (x.ndim - 1 - d))
    else:
        gaps = x.new_ones((n - 1,) + (1,) * (x.ndim - 1 - d)) * spacing
    slopes = (cut(1, n - 1) - cut(0, n - 1)) / gaps
    ends = []
    for first in (True, False):
        one = mv.narrow(slopes, d, 0 if first else n - 2, 1)
        if edge_order == 2:  # the line through the two nearest slopes
            two = mv.narrow(slopes, d, 1 if first else n - 3, 1)
            a = mv.narrow(gaps, 0, 0 if first else n - 2, 1)
            b = mv.narrow(gaps, 0, 1 if first else n - 3, 1)
            one = one + (one - two) * a / (a + b)
        ends.append(one)
    if n == 2:
        return join.cat(ends, d)
    a, b = mv.narrow(gaps, 0, 0, n - 2), mv.narrow(gaps, 0, 1, n - 2)
    left, right = mv.narrow(slopes, d, 0, n - 2), mv.narrow(slopes, d, 1, n - 2)
    return join.cat([ends[0], (left * b + right * a) / (a + b), ends[1]], d)


public(
    globals(), both="logcumsumexp cummax cummin diff", inplace="cumsum cumprod",
    functions="trapezoid trapz=trapezoid cumulative_trapezoid gradient",
    out_exact="cummax cummin cumsum diff logcumsumexp", gpu_float32="cumsum cumprod",
)  # fmt: skip
