"""Reductions over dims, and what is composed of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyframe import dtypes as dt
from pyframe.ops import bound_routines, elementwise as el, movement as mv
from pyframe.ops.op import REDUCTION, ROUTINE, Op, apply
from pyframe.ops.public import public
from pyframe.tensor import Tensor, normalize_dim


class Fold:
    """How WGSL reduces: the start value, the step over accumulator {a} and element {x}.

    `arg` keeps the index of the winner beside it.
    """

    def __init__(self, init: dict[str, str], combine: str, arg: bool = False) -> None:
        self.init, self.combine, self.arg = init, combine, arg


def _reduced(shape: tuple[int, ...], axes: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    if keepdim:
        return tuple(1 if d in axes else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def _infer(x: Any, axes: tuple[int, ...], keepdim: bool) -> tuple[tuple[int, ...], dt.dtype]:
    return _reduced(x.shape, axes, keepdim), x.dtype


def _sum_numpy(x: np.ndarray, axes: tuple[int, ...], keepdim: bool) -> Any:
    acc = np.float32 if x.dtype == np.float16 else x.dtype
    return np.add.reduce(x, axes, acc, None, keepdim)


def _prod_numpy(x: np.ndarray, axes: tuple[int, ...], keepdim: bool) -> Any:
    return np.multiply.reduce(x, axes, x.dtype, None, keepdim)


def _arg_numpy(fn: Any) -> Any:
    def run(x: np.ndarray, axes: tuple[int, ...], keepdim: bool) -> Any:
        return fn(x, axis=axes[0], keepdims=keepdim).astype(np.int64)

    return run


def _kept(x: Tensor, x_spec: Any, axes: tuple[int, ...]) -> Tensor:
    """A result with its reduced dims back as 1."""
    return mv.reshape(x, _reduced(x_spec.shape, axes, True))


LOWEST = {"f32": "pf_ninf_f32()", "i32": "-2147483647 - 1", "u32": "0u"}
HIGHEST = {"f32": "pf_inf_f32()", "i32": "2147483647", "u32": "4294967295u"}
ZERO = dict.fromkeys(("f32", "i32", "u32"), "0")

sum_op = Op(
    "sum", REDUCTION, "x", "axes keepdim", infer=_infer, numpy=_sum_numpy,
    wgsl=Fold(ZERO, "{a} + {x}"),
    x=lambda g, x_spec, axes: mv.expand(_kept(g, x_spec, axes), x_spec.shape),
)  # fmt: skip
prod_op = Op(
    "prod", REDUCTION, "x", "axes keepdim", infer=_infer, numpy=_prod_numpy,
    wgsl=Fold(dict.fromkeys(ZERO, "1"), "{a} * {x}"),
    x=lambda g, y, x, axes: _prod_grad(g, y, x, axes),
)  # fmt: skip
amax_op = Op(
    "amax", REDUCTION, "x", "axes keepdim", infer=_infer,
    numpy=lambda x, axes, keepdim: np.maximum.reduce(x, axes, None, None, keepdim),
    wgsl=Fold(LOWEST, "pf_max_{t}({a}, {x})"),
    x=lambda g, y, x, axes: _extremum_grad(g, y, x, axes),
)  # fmt: skip
amin_op = Op(
    "amin", REDUCTION, "x", "axes keepdim", infer=_infer,
    numpy=lambda x, axes, keepdim: np.minimum.reduce(x, axes, None, None, keepdim),
    wgsl=Fold(HIGHEST, "pf_min_{t}({a}, {x})"),
    x=lambda g, y, x, axes: _extremum_grad(g, y, x, axes),
)  # fmt: skip


def _arg_infer(x: Any, axes: tuple[int, ...], keepdim: bool) -> tuple[tuple[int, ...], dt.dtype]:
    return _reduced(x.shape, axes, keepdim), dt.int64


argmax_op = Op(
    "argmax", REDUCTION, "x", "axes keepdim", infer=_arg_infer, numpy=_arg_numpy(np.argmax),
    wgsl=Fold(LOWEST, "pf_wins_{t}({x}, {a})", arg=True),
)  # fmt: skip
argmin_op = Op(
    "argmin", REDUCTION, "x", "axes keepdim", infer=_arg_infer, numpy=_arg_numpy(np.argmin),
    wgsl=Fold(HIGHEST, "pf_loses_{t}({x}, {a})", arg=True),
)  # fmt: skip


def _prod_grad(g: Tensor, y: Tensor, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The product of all others, also where one element (and no other) is 0."""
    zero = el.eq(x, 0)
    zeros = sum(zero.to(dt.int32), axes, True)
    others = apply(prod_op, (el.where(zero, 1.0, x),), (axes, True))
    whole = el.where(el.eq(zeros, 0), _kept(y, x, axes), 0.0) / el.where(zero, 1.0, x)
    at_zero = el.where(el.eq(zeros, 1), others, 0.0)
    return _kept(g, x, axes) * el.where(zero, at_zero, whole)


def _extremum_grad(g: Tensor, y: Tensor, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    hit = el.eq(x, _kept(y, x, axes)).to(x.dtype)
    return _kept(g, x, axes) * hit / sum(hit, axes, True)


def _axes(name: str, x: Tensor, dim: Any, empty_is_all: bool = True) -> tuple[int, ...]:
    if dim is None or (not isinstance(dim, int) and len(dim) == 0 and empty_is_all):
        return tuple(range(x.ndim))
    dims = [dim] if isinstance(dim, int) else list(dim)
    out = sorted(normalize_dim(d, x.ndim) for d in dims)
    if len(set(out)) != len(out):
        raise RuntimeError(f"{name}: dim {dims} appears more than once; name each dim once")
    return tuple(out) if x.ndim else ()


def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: dt.dtype | None = None
) -> Tensor:
    """The sum over dims (all by default); ints and bools give int64."""
    want = dtype or (input.dtype if input.dtype.category == dt.FLOAT else dt.int64)
    return apply(sum_op, (input.to(want),), (_axes("sum", input, dim), keepdim))


def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Summed over the dims in which `size` is smaller, as a gradient of broadcasting."""
    shape = mv._ints("sum_to_size", size)
    old = input._node.shape
    extra = len(old) - len(shape)
    axes = tuple(d for d, n in enumerate(old) if d < extra or (shape[d - extra] == 1 and n != 1))
    if axes:
        input = apply(sum_op, (input,), (axes, True))
    if input._node.shape[extra:] != shape:
        raise RuntimeError(f"size {list(shape)} is not expandable to size {list(old)}.")
    return mv.reshape(input, shape)


def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: dt.dtype | None = None
) -> Tensor:
    """The mean over dims. RuntimeError for ints, which have no mean of their dtype."""
    if dtype is not None:
        input = input.to(dtype)
    if input.dtype.category != dt.FLOAT:
        raise RuntimeError(
            f"mean(): could not infer output dtype. Input dtype must be a floating point dtype. "
            f"Got: {input.dtype.name}; use .float() first"
        )
    axes = _axes("mean", input, dim)
    n = math.prod(input._node.shape[d] for d in axes)
    return sum(input, axes, keepdim) / n if n else sum(input, axes, keepdim) * math.nan


def prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: dt.dtype | None = None
) -> Tensor:
    """The product over one dim, or of all elements."""
    want = dtype or (input.dtype if input.dtype.category == dt.FLOAT else dt.int64)
    return apply(prod_op, (input.to(want),), (_axes("prod", input, dim), keepdim))


def _no_empty(name: str, x: Tensor, axes: tuple[int, ...]) -> None:
    if 0 in [x._node.shape[d] for d in axes]:
        raise RuntimeError(
            f"{name}(): Expected reduction dim to have non-zero size, got shape {list(x.shape)}: "
            "an empty reduction has no identity"
        )


def _extreme(op: Op, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    axes = _axes(op.name, input, dim)
    _no_empty(op.name, input, axes)
    if input.dtype is dt.bool_:
        return apply(op, (input.to(dt.int32),), (axes, keepdim)).to(dt.bool_)
    return apply(op, (input,), (axes, keepdim))


def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The largest element over dims; ties share the gradient."""
    return _extreme(amax_op, input, dim, keepdim)


def amin(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The smallest element over dims; ties share the gradient."""
    return _extreme(amin_op, input, dim, keepdim)


def _arg(op: Op, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if input.dtype is dt.bool_:
        raise RuntimeError(f"{op.name}: not implemented for bool; use .int() first")
    if dim is None:
        _no_empty(op.name, input, tuple(range(input.ndim)))
        flat = apply(op, (mv.reshape(input, (-1,)),), ((0,), False))
        return mv.reshape(flat, (1,) * input.ndim) if keepdim else flat
    d = normalize_dim(dim, input.ndim)
    if input.ndim == 0:
        return _arg(op, input, None, keepdim)
    _no_empty(op.name, input, (d,))
    return apply(op, (input,), ((d,), keepdim))


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The int64 index of the largest element, the first of equals; NaN counts as largest."""
    return _arg(argmax_op, input, dim, keepdim)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The int64 index of the smallest element, the first of equals; NaN counts as smallest."""
    return _arg(argmin_op, input, dim, keepdim)


def _named(name: str) -> Any:
    from collections import namedtuple

    return namedtuple(name, "values indices")


MaxResult, MinResult = _named("max"), _named("min")


def _with_index(kind: Any, op: Op, pair: Any, input: Tensor, dim: Any, keepdim: bool) -> Any:
    if dim is None:
        return _extreme(kind, input, None, False)
    if isinstance(dim, Tensor):
        return pair(input, dim)
    from pyframe.ops.index import gather

    source = input.to(dt.int32) if input.dtype is dt.bool_ else input
    index = _arg(op, source, dim, True)
    if input.ndim == 0:
        values = input
    else:
        values = gather(input, dim, index)
        if not keepdim:
            values, index = mv.squeeze(values, dim), mv.squeeze(index, dim)
    return (MaxResult if op is argmax_op else MinResult)(values, index)


def max(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The largest element; with `dim`, (values, indices); with a tensor, `maximum`."""
    return _with_index(amax_op, argmax_op, el.maximum, input, dim, keepdim)


def min(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The smallest element; with `dim`, (values, indices); with a tensor, `minimum`."""
    return _with_index(amin_op, argmin_op, el.minimum, input, dim, keepdim)


def any(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether any element over dims is nonzero."""
    hit = el.ne(input, 0).to(dt.int32)
    return el.gt(apply(sum_op, (hit,), (_axes("any", input, dim), keepdim)), 0)


def all(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether all elements over dims are nonzero."""
    miss = el.eq(input, 0).to(dt.int32)
    return el.eq(apply(sum_op, (miss,), (_axes("all", input, dim), keepdim)), 0)


def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """The variance over dims, divided by n - correction (1 unless `unbiased=False`)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if input.dtype.category != dt.FLOAT:
        raise RuntimeError(f"std and var only support floating point, got {input.dtype.name}")
    if correction is None:
        correction = 0 if unbiased is False else 1
    axes = _axes("var", input, dim)
    n = math.prod(input._node.shape[d] for d in axes)
    centered = input - mean(input, axes, True)
    total = sum(centered * centered, axes, keepdim)
    left = n - correction
    return total / left if left > 0 else total * math.nan


def std(input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
        correction: float | None = None) -> Tensor:  # fmt: skip
    """The standard deviation over dims: sqrt(var)."""
    return el.sqrt(var(input, dim, unbiased, keepdim, correction=correction))


def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over dims, without overflow."""
    axes = _axes("logsumexp", input, dim)
    top = amax(input.detach(), axes, True)
    top = el.where(el.isinf(top), 0.0, top)
    out = el.log(sum(el.exp(input - top), axes, True)) + top
    return out if keepdim else mv.reshape(out, _reduced(input._node.shape, axes, False))


def norm(input: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The p-norm over dims."""
    if p in ("fro", 2):
        return el.sqrt(sum(input * input, dim, keepdim))
    if p in (math.inf, -math.inf):
        extreme = amax if p > 0 else amin
        return extreme(el.abs(input), () if dim is None else dim, keepdim)
    if p == 0:
        return sum(el.ne(input, 0).to(input.dtype), dim, keepdim)
    if not isinstance(p, (int, float)):
        raise RuntimeError(f"norm: p must be a number, 'fro', inf or -inf, got {p!r}")
    if p == 1:
        return sum(el.abs(input), dim, keepdim)
    return el.pow(sum(el.pow(el.abs(input), p), dim, keepdim), 1.0 / p)


# --- softmax: one NumPy pass each, a fused composition elsewhere


def _softmax_numpy(x: np.ndarray, dim: int) -> np.ndarray:
    y = np.exp(x - np.maximum.reduce(x, dim, None, None, True))
    y /= np.add.reduce(y, dim, None, None, True)
    return y


def _log_softmax_numpy(x: np.ndarray, dim: int) -> np.ndarray:
    y = x - np.maximum.reduce(x, dim, None, None, True)
    y -= np.log(np.add.reduce(np.exp(y), dim, None, None, True))
    return y


def _softmax_by_ops(x: Tensor, dim: int) -> Tensor:
    e = el.exp(x - amax(x, dim, True))
    return e / sum(e, dim, True)


def _log_softmax_by_ops(x: Tensor, dim: int) -> Tensor:
    centered = x - amax(x, dim, True)
    return centered - el.log(sum(el.exp(centered), dim, True))


softmax_op = Op(
    "softmax", ROUTINE, "x", "dim", infer=lambda x, dim: (x.shape, x.dtype),
    numpy=_softmax_numpy, fallback=_softmax_by_ops, phases=bound_routines.softmax,
    x=lambda g, y, dim: (g - sum(g * y, dim, True)) * y,
)  # fmt: skip
log_softmax_op = Op(
    "log_softmax", ROUTINE, "x", "dim", infer=lambda x, dim: (x.shape, x.dtype),
    numpy=_log_softmax_numpy, fallback=_log_softmax_by_ops,
    phases=bound_routines.log_softmax,
    x=lambda g, y, dim: g - el.exp(y) * sum(g, dim, True),
)  # fmt: skip


def _softmax(op: Op, input: Tensor, dim: int | None, dtype: dt.dtype | None) -> Tensor:
    if dim is None:
        dim = 0 if input.ndim in (0, 1, 3) else 1  # PyTorch's legacy choice
    if dtype is not None:
        input = input.to(dtype)
    if input.dtype.category != dt.FLOAT:
        raise RuntimeError(f"{op.name}: not implemented for {input.dtype.name}; use .float() first")
    d = normalize_dim(dim, input.ndim)
    if input.ndim == 0:
        return _softmax(op, mv.reshape(input, (1,)), 0, None).reshape(())
    return input.clone() if input.numel() == 0 else apply(op, (input,), (d,))


def softmax(input: Tensor, dim: int | None = None, dtype: dt.dtype | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) over a dim."""
    return _softmax(softmax_op, input, dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, dtype: dt.dtype | None = None) -> Tensor:
    """log(softmax(x)) over a dim, without overflow."""
    return _softmax(log_softmax_op, input, dim, dtype)


PUBLIC = public(
    globals(),
    both="""sum mean prod amax amin argmax argmin max min any all var std logsumexp norm softmax
    log_softmax""",
    methods="sum_to_size",
)
