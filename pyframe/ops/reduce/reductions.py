"""Reductions over dims, and what is composed of them."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from pyframe.codegen.numpy import routines, sums
from pyframe.codegen.numpy.sums import ALONE, BLOCK, FEW_SUMS, ONES, TERMS, sum_calls
from pyframe.core import dtypes as dt, op as _op
from pyframe.core.dispatch import apply, dispatch, is_materialized, peek_array
from pyframe.core.modes import mode
from pyframe.core.op import EXTERN, REDUCTION, Op, Reducer
from pyframe.core.sizes import size_hint
from pyframe.graph import functions as f, scalar as s
from pyframe.ops.api import check
from pyframe.ops.api.batching_rules import along_dim
from pyframe.ops.api.public import public
from pyframe.ops.math import complex as cx, elementwise as el
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, from_numpy, normalize_dim


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    if keepdim:
        return tuple(1 if d in axes else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def _infer(x: Any, axes: tuple[int, ...], keepdim: bool) -> tuple[tuple[int, ...], dt.dtype]:
    return reduced_shape(x.shape, axes, keepdim), x.dtype


def _wide(x: np.ndarray) -> Any:
    """The dtype in which numbers are added up and multiplied: ints and bools take int64."""
    return np.int64 if x.dtype.kind in "biu" and x.itemsize < 8 else x.dtype


def _reduced_by(
    fn: np.ufunc, x: np.ndarray, axes: tuple[int, ...], keepdim: bool, acc: Any = None
) -> Any:
    """fn.reduce in the dtype `acc`, but few elements for each of many results as a sum of slices:
    NumPy takes the reduced dims one result at a time."""
    acc = acc or x.dtype
    if x.size < 2048:
        return fn.reduce(x, axes, acc, None, keepdim)
    shape = reduced_shape(x.shape, axes, keepdim)
    size = math.prod(shape)
    if size >= 1024 and x.size // size > 20 and x.shape[axes[-1]] <= 20 and len(axes) > 1:
        x, axes = _reduced_by(fn, x, axes[-1:], True, acc), axes[:-1]
        return _reduced_by(fn, x, axes, True, acc).reshape(shape)
    if size < 1024 or not 1 < x.size // size <= 20:
        return fn.reduce(x, axes, acc, None, keepdim)
    x = np.moveaxis(x, axes, range(len(axes)))
    first, second, *rest = np.ndindex(x.shape[: len(axes)])
    out = np.empty(x.shape[len(axes) :], acc)
    fn(x[first], x[second], out=out, dtype=acc)
    for at in rest:
        fn(out, x[at], out=out)
    return out.reshape(shape)


def sum_numpy(x: np.ndarray, axes: tuple[int, ...], keepdim: bool) -> Any:
    """The sum over axes, of float16 in float32; see `sum_calls`, but few numbers need no plan."""
    ones = ONES.get(x.dtype)
    whole = x.flags.c_contiguous
    blas = sums.PRODUCTS
    if ones is not None and whole and blas and x.ndim == 2 and 128 < x.size <= ALONE:
        n, m = x.shape
        blocks = n // BLOCK
        if axes == (0,) and (n <= 2 * BLOCK or (blocks * BLOCK == n and blocks <= FEW_SUMS)):
            if n > 2 * BLOCK:
                x = np.matmul(ones[:BLOCK], x.reshape(blocks, BLOCK, m))
            out = np.matmul(ones[: len(x)], x)
            return out[None] if keepdim else out
        if axes == (1,) and m <= TERMS:
            out = np.matmul(x, ones[:m])
            return out[:, None] if keepdim else out
    acc = np.float32 if x.dtype == np.float16 else _wide(x)
    last = whole and axes[:1] == (x.ndim - len(axes),)
    if x.size < 2048 and (last or x.size <= 128 or x.size <= BLOCK * x.shape[-1]):
        return np.add.reduce(x, axes, acc, None, keepdim)
    shape = reduced_shape(x.shape, axes, True)
    n = x.size // math.prod(shape)
    if x.dtype.kind not in "fc" or (n <= (4 if blas else BLOCK) and acc is x.dtype):
        return _reduced_by(np.add, x, axes, keepdim, acc)
    if last and (n > TERMS or ones is None):
        return np.add.reduce(x, axes, acc, None, keepdim)  # NumPy adds these up by halves
    out = np.empty(shape, acc)
    for call, args in sum_calls(x, axes, out, np.empty):
        call(*args)
    return out if keepdim else out.reshape(reduced_shape(x.shape, axes, False))


def _prod_numpy(x: np.ndarray, axes: tuple[int, ...], keepdim: bool) -> Any:
    acc = _wide(x)
    if axes == (x.ndim - 1,) and acc is x.dtype:  # by halves: NumPy takes elements one by one
        while x.shape[-1] > 32:
            half, odd = divmod(x.shape[-1], 2)
            last = x[..., -1:]
            x = x[..., :half] * x[..., half : 2 * half]
            if odd:
                x[..., :1] *= last
    return _reduced_by(np.multiply, x, axes, keepdim, acc)


def _kept(x: Tensor, x_spec: Any, axes: tuple[int, ...]) -> Tensor:
    """A result with its reduced dims back as 1."""
    return mv.reshape(x, reduced_shape(x_spec.shape, axes, True))


sum_op = Op(
    "sum", REDUCTION, "x", "axes keepdim", infer=_infer, numpy=sum_numpy,
    combine=Reducer(lambda type: 0, lambda a, x: a + x, np.add, sums=True),
    x=lambda g, x_spec, axes: mv.expand(_kept(g, x_spec, axes), x_spec.shape),
)  # fmt: skip
prod_op = Op(
    "prod", REDUCTION, "x", "axes keepdim", infer=_infer, numpy=_prod_numpy,
    combine=Reducer(lambda type: 1, lambda a, x: a * x, np.multiply),
    x=lambda g, y, x, axes: _prod_grad(g, y, x, axes),
)  # fmt: skip


def _extreme_op(name: str, fn: np.ufunc, start: Any, scalar: Any, x: Any) -> Op:
    return Op(
        name, REDUCTION, "x", "axes keepdim", infer=_infer,
        numpy=lambda x, axes, keepdim: _reduced_by(fn, x, axes, keepdim),
        combine=Reducer(start, scalar, fn), x=x,
    )  # fmt: skip


def _shared_grad(g: Tensor, y: Tensor, x: Tensor, axes: tuple[int, ...], nans: bool) -> Tensor:
    hit = el.eq(x, _kept(y, x, axes))
    if nans:  # which NaN is not equal to
        hit = el.logical_or(hit, el.isnan(x))
    hit = hit.to(x.dtype)
    return _kept(g, x, axes) * hit / sum(hit, axes, True)


def _extremum_grad(g: Tensor, y: Tensor, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    return _shared_grad(g, y, x, axes, False)


def _whole_grad(g: Tensor, y: Tensor, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    return _shared_grad(g, y, x, axes, True)


amax_op = _extreme_op("amax", np.maximum, f.lowest, s.maximum, _extremum_grad)
amin_op = _extreme_op("amin", np.minimum, f.highest, s.minimum, _extremum_grad)
# What `max()` and `min()` are: as in PyTorch, where the result is NaN the gradient goes to the NaNs
# alone, where amax's and amin's is NaN
max_op = _extreme_op("max", np.maximum, f.lowest, s.maximum, _whole_grad)
min_op = _extreme_op("min", np.minimum, f.highest, s.minimum, _whole_grad)
# The largest number, NaN aside: it takes one instruction where amax takes three, and softmax, which
# subtracts it from all elements, has NaN again.
max_number_op = _extreme_op(
    "max_number", np.fmax, f.lowest, lambda a, x: s.select(a < x, x, a), _extremum_grad
)


def _arg_op(name: str, fn: Any, start: Any, scalar: Any) -> Op:
    op = Op(
        name, REDUCTION, "x", "axes keepdim",
        infer=lambda x, axes, keepdim: (reduced_shape(x.shape, axes, keepdim), dt.int64),
        numpy=lambda x, axes, keepdim: fn(x, axis=axes[0], keepdims=keepdim).astype(np.int64),
        combine=Reducer(start, scalar, arg=True),
    )  # fmt: skip
    op.lowering = lambda limits, x, axes, keepdim: _in_parts(op, x, axes, keepdim)
    return op


# Elements of which few indices are asked for, and how many are few
LONG_SCAN, INDICES = 1 << 17, 64
SCAN_PARTS = 256  # that are looked through side by side then

argmax_op = _arg_op("argmax", np.argmax, f.lowest, lambda a, x: f.wins(x, a))
argmin_op = _arg_op("argmin", np.argmin, f.highest, lambda a, x: f.loses(x, a))


def _prod_grad(g: Tensor, y: Tensor, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The product of all others, also where one element (and no other) is 0."""
    zero = el.eq(x, 0)
    zeros = sum(zero.to(dt.int32), axes, True)
    others = apply(prod_op, (el.where(zero, 1.0, x),), (axes, True))
    whole = el.where(el.eq(zeros, 0), _kept(y, x, axes), 0.0) / el.where(zero, 1.0, x)
    at_zero = el.where(el.eq(zeros, 1), others, 0.0)
    return _kept(g, x, axes) * el.conj(el.where(zero, at_zero, whole))


def axes_of(name: str, x: Tensor, dim: Any) -> tuple[int, ...]:
    """The dims to reduce, in order: all for None and for an empty sequence."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(x.ndim))
    dims = list(dim) if isinstance(dim, (tuple, list)) else [dim]
    for d in dims:
        if not isinstance(d, int):
            raise TypeError(
                f"{name}(): dim must be an int or a tuple of ints, got {type(d).__name__}"
            )
    out = sorted(normalize_dim(d, x.ndim) for d in dims)
    if len(set(out)) != len(out):
        raise RuntimeError(f"{name}: dim {dims} appears multiple times; name each dim once")
    return tuple(out) if x.ndim else ()


def one_dim(name: str, x: Tensor, dim: Any) -> int:
    """A dim of `x` counted from the front; TypeError unless it is an int."""
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise TypeError(f"{name}(): argument 'dim' must be int, not {type(dim).__name__}")
    return normalize_dim(dim, x.ndim)


def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: dt.dtype | None = None
) -> Tensor:
    """The sum over dims (all by default); ints and bools give int64."""
    dtype = dtype or wide(input)
    attrs = axes_of("sum", input, dim), keepdim
    if dtype.category == dt.FLOAT > input.dtype.category and is_materialized(input):
        return widening(sum_op, input, dt.int64, attrs).to(dtype)  # exact, and no copy of floats
    return widening(sum_op, input, dtype, attrs)


def widening(op: Op, x: Tensor, dtype: dt.dtype, attrs: tuple[Any, ...] = ()) -> Tensor:
    """A sum or product of x.to(dtype). Where NumPy computes it now, there is no copy of all of x:
    ints become wide as they are added."""
    if x.dtype.category < dt.FLOAT:
        free = dtype is dt.int64 and x.dtype.numpy.itemsize < 8
    else:
        free = x.dtype in HALVES and dtype is dt.float32 and not (mode.grad and x.requires_grad)
    if not free or not is_materialized(x):
        return apply(op, (x.to(dtype),), attrs)
    node = x._value()
    shape, _ = op.infer(node, *attrs)  # type: ignore[misc]
    return dispatch(op, (x,), attrs, (node,), shape, dtype, x.device)


def wide(input: Tensor) -> dt.dtype:
    """The dtype of a sum: floats keep theirs, ints and bools take int64."""
    return input.dtype if input.dtype.category >= dt.FLOAT else dt.int64


def nansum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: dt.dtype | None = None
) -> Tensor:
    """The sum over dims with NaN counted as 0. RuntimeError for complex."""
    check.real("nansum", input)
    x = input if input.dtype.category < dt.FLOAT else el.where(el.isnan(input), 0, input)
    return sum(x, dim, keepdim, dtype=dtype)


def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Summed over the dims in which `size` is smaller, as a gradient of broadcasting."""
    shape = mv.as_ints("sum_to_size", size)
    old = input.shape
    extra = len(old) - len(shape)
    axes = tuple(d for d, n in enumerate(old) if d < extra or (shape[d - extra] == 1 and n != 1))
    if axes or not shape:
        input = apply(sum_op, (input.to(wide(input)),), (axes, True))
    if input.shape[extra:] != shape:
        raise RuntimeError(f"size {list(shape)} is not expandable to size {list(old)}.")
    return mv.reshape(input, shape)


def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: dt.dtype | None = None
) -> Tensor:
    """The mean over dims. RuntimeError for ints, which have no mean of their dtype."""
    to = dtype or input.dtype
    if to.category < dt.FLOAT:
        check.floats_or_complex("mean", input.to(to))
    axes = axes_of("mean", input, dim)
    n = count(input, axes)
    total = sum(input, axes, keepdim, dtype=dt.float32 if to in HALVES else to)
    return (total / n if n else total * math.nan).to(to)


HALVES = (dt.float16, dt.bfloat16)


def widened(x: Tensor) -> Tensor:
    """float16 and bfloat16 as float32: a sum (of squares) overflows where what is made of it
    does not."""
    return x.to(dt.float32) if x.dtype in HALVES else x


def count(x: Tensor, axes: tuple[int, ...]) -> int:
    """The number of elements over dims."""
    return math.prod(x.shape[d] for d in axes)


def nanmean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: dt.dtype | None = None
) -> Tensor:
    """The mean over dims of what is not NaN."""
    check.floats_or_complex("nanmean", input)
    there = sum(el.logical_not(el.isnan(input)), dim, keepdim)
    return sum(el.where(el.isnan(input), 0, input), dim, keepdim, dtype=dtype) / there


def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """The int64 number of nonzero elements over dims."""
    return sum(_nonzero(input), dim)


def _nonzero(x: Tensor) -> Tensor:
    return x if x.dtype is dt.bool_ else el.ne(x, 0)


def prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: dt.dtype | None = None
) -> Tensor:
    """The product over one dim, or of all elements; ints and bools give int64."""
    axes = tuple(range(input.ndim)) if dim is None else (one_dim("prod", input, dim),)
    return widening(prod_op, input, dtype or wide(input), (axes[: input.ndim], keepdim))


def no_empty(name: str, x: Tensor, axes: tuple[int, ...], whole: bool = False) -> None:
    """IndexError where a dim to reduce has no elements (RuntimeError for `whole` tensors)."""
    if 0 in [x.shape[d] for d in axes]:
        raise (RuntimeError if whole else IndexError)(
            f"{name}(): Expected reduction dim to have non-zero size, got shape {list(x.shape)}: "
            "an empty reduction has no identity"
        )


def limit_of(x: Tensor, sign: int) -> Any:
    """The largest (sign 1) or smallest (-1) value of the dtype of `x`, inf for floats; for bools
    int32's, in which their extremes are computed. RuntimeError for complex."""
    check.real("limit", x)
    if x.dtype.category == dt.FLOAT:
        return sign * math.inf
    narrow = x.dtype is dt.bool_ or (x.dtype is dt.int64 and not x.device.wide)
    info = np.iinfo(np.int32 if narrow else x.dtype.numpy)
    return int(info.max if sign > 0 else info.min)


def extreme(op: Op, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    check.real(op.name, input)
    axes = axes_of(op.name, input, dim)
    no_empty(op.name, input, axes, dim is None or dim == ())
    if input.dtype is dt.bool_:
        return apply(op, (input.to(dt.int32),), (axes, keepdim)).to(dt.bool_)
    return apply(op, (input,), (axes, keepdim))


def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The largest element over dims; ties share the gradient."""
    return extreme(amax_op, input, dim, keepdim)


def amin(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The smallest element over dims; ties share the gradient."""
    return extreme(amin_op, input, dim, keepdim)


def arg_extreme(op: Op, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if input.dtype is dt.bool_:
        raise RuntimeError(f"{op.name}: not implemented for bool; use .int() first")
    check.real(op.name, input)
    if dim is None:
        no_empty(op.name, input, tuple(range(input.ndim)))
        flat = arg_extreme(op, mv.reshape(input, (-1,)), 0, False)
        return mv.reshape(flat, (1,) * input.ndim) if keepdim else flat
    d = one_dim(op.name, input, dim)
    if input.ndim == 0:
        return arg_extreme(op, input, None, keepdim)
    no_empty(op.name, input, (d,))
    if input.shape[d] == 1:
        return input.new_zeros(reduced_shape(input.shape, (d,), keepdim), dtype=dt.int64)
    return apply(op, (input,), ((d,), keepdim))


def _in_parts(op: Op, x: Tensor, axes: tuple[int, ...], keepdim: bool) -> Tensor | None:
    """Few indices of many elements: those of parts side by side, then the part that wins, the first
    of equals."""
    (d,), shape = axes, x.shape
    if size_hint(shape[d]) < max(LONG_SCAN, size_hint(x.numel()) / INDICES):
        return None
    each = -(-shape[d] // SCAN_PARTS)
    widths = tuple((0, SCAN_PARTS * each - n if i == d else 0) for i, n in enumerate(shape))
    assert op.combine is not None
    x = mv.pad(x, widths, op.combine.start(x.dtype.compute or "f32"))
    x = x.reshape(*shape[:d], SCAN_PARTS, each, *shape[d + 1 :])
    index = apply(op, (x,), ((d + 1,), False))
    best = apply(amax_op if op is argmax_op else amin_op, (x,), ((d + 1,), False))
    part = el.dim_indices(SCAN_PARTS, index.ndim - 1 - d, x.device).to(dt.int64)
    wins = el.eq(part, apply(op, (best,), ((d,), True)))
    return sum(el.where(wins, index + part * each, 0), d, keepdim)


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The int64 index of the largest element, the first of equals; NaN counts as largest."""
    return arg_extreme(argmax_op, input, dim, keepdim)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The int64 index of the smallest element, the first of equals; NaN counts as smallest."""
    return arg_extreme(argmin_op, input, dim, keepdim)


def _hits(name: str, hit: Tensor, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """The number of hits over dims; unlike other reductions, dim=() reduces nothing."""
    axes = () if isinstance(dim, (tuple, list)) and not dim else axes_of(name, input, dim)
    dtype = dt.int64 if is_materialized(hit) else dt.int32
    return widening(sum_op, hit, dtype, (axes, keepdim))


def any(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether any element over dims is nonzero; bool, of uint8 uint8."""
    out = el.gt(_hits("any", _nonzero(input), input, dim, keepdim), 0)
    return out.to(dt.uint8) if input.dtype is dt.uint8 else out


def all(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether all elements over dims are nonzero; bool, of uint8 uint8."""
    out = el.eq(_hits("all", el.logical_not(input), input, dim, keepdim), 0)
    return out.to(dt.uint8) if input.dtype is dt.uint8 else out


# --- moments


def absolute_square(x: Tensor) -> Tensor:
    """x * x, of complex numbers |x|^2."""
    return _op.REAL(x * x.conj()) if x.dtype.category == dt.COMPLEX else x * x


def root(x: Tensor) -> Tensor:
    """sqrt(x) whose gradient at 0 is 0, as that of PyTorch's norms and deviations."""
    if not (mode.grad and x.requires_grad):
        return el.sqrt(x)
    zero = el.eq(x, 0)
    return el.where(zero, 0.0, el.sqrt(el.where(zero, 1.0, x)))


def _moments(
    name: str, input: Tensor, dim: Any, unbiased: bool | None, keepdim: bool, correction: Any
) -> tuple[Tensor, Tensor]:
    """(variance, mean), the dims of the mean kept as 1: squares divided by n - correction."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    check.floats_or_complex(name, input)
    if correction is None:
        correction = 0 if unbiased is False else 1
    axes = axes_of(name, input, dim)
    x = widened(input)
    n = count(x, axes)
    middle = apply(sum_op, (x,), (axes, True)) / n if n else mean(x, axes, True)
    total = squares(x - middle, axes, keepdim, n)
    return total / builtins.max(n - correction, 0), middle


def _deviation(
    name: str, input: Tensor, dim: Any, unbiased: bool | None, keepdim: bool, correction: Any
) -> tuple[Tensor, Tensor]:
    """(standard deviation, mean), the dims of the mean kept as 1. Where squares are too large or
    too small for float32, of the values divided by the largest."""
    variance, middle = _moments(name, input, dim, unbiased, keepdim, correction)
    if input.dtype not in (dt.float32, dt.bfloat16, dt.complex64) or not input.numel():
        return root(variance), middle
    if (value := peek_array(variance)) is not None and ((value > 1e-28) & (value < 1e38)).all():
        return root(variance), middle
    x = widened(input)
    axes = axes_of(name, input, None if isinstance(dim, bool) else dim)
    largest = amax(el.abs(x.detach()), axes, True)
    fits = el.logical_or(el.logical_and(largest > 1e-13, largest < 1e18), largest == 0)
    scale = el.where(el.logical_or(fits, el.logical_not(largest < math.inf)), 1.0, largest)
    variance, middle = _moments(name, x / scale, dim, unbiased, keepdim, correction)
    out = root(variance)
    return out * mv.reshape(scale, out.shape), middle * scale


def squares(centered: Tensor, axes: tuple[int, ...], keepdim: bool, n: int) -> Tensor:
    """The sum of |x - mean|^2 over dims of n elements, given x - mean: what the rounding of a
    large mean adds to it is n times the square of what is left of the mean."""
    total = apply(sum_op, (absolute_square(centered),), (axes, keepdim))
    left = absolute_square(apply(sum_op, (centered.detach(),), (axes, keepdim))) / n
    left = el.clamp(left, max=dt.finfo(left.dtype).max)  # inf - inf would be NaN
    return total - el.minimum(left, total.detach())


def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """The variance over dims, divided by n - correction (1 unless `unbiased=False`)."""
    return _moments("var", input, dim, unbiased, keepdim, correction)[0].to(input.dtype.to_real())


def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """The standard deviation over dims: sqrt(var), with gradient 0 where it is 0."""
    out = _deviation("std", input, dim, unbiased, keepdim, correction)[0]
    return out.to(input.dtype.to_real())


def var_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(var, mean) over dims."""
    variance, middle = _moments("var_mean", input, dim, unbiased, keepdim, correction)
    middle = middle if keepdim else mv.reshape(middle, variance.shape)
    return variance.to(input.dtype.to_real()), middle.to(input.dtype)


def std_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(std, mean) over dims."""
    out, middle = _deviation("std_mean", input, dim, unbiased, keepdim, correction)
    middle = middle if keepdim else mv.reshape(middle, out.shape)
    return out.to(input.dtype.to_real()), middle.to(input.dtype)


def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The covariance matrix of the rows of (variables, observations), or the variance of a vector.

    `fweights` (int) says how often an observation counts, `aweights` how much. Negative weights
    are an error (of a lazy device at the next read).
    """
    if input.ndim > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dims, got {input.ndim}")
    if input.dtype is dt.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input; use .float() first")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    x = el.floated(x)
    observations = x.shape[1]
    weights = None
    for name, w, kind in (("fweights", fweights, dt.INTEGER), ("aweights", aweights, dt.FLOAT)):
        if w is None:
            continue
        if w.ndim > 1 or w.numel() != observations:
            raise RuntimeError(
                f"cov(): expected {name} to have one dim of {observations}, got {list(w.shape)}"
            )
        if w.dtype.category != kind:
            expected = "integral" if kind == dt.INTEGER else "floating point"
            raise RuntimeError(f"cov(): expected {name} of an {expected} dtype, got {w.dtype.name}")
        check.assert_not(el.lt(w, 0), f"cov(): {name} cannot be negative")
        weights = w if weights is None else weights * w
    if observations == 0:
        return mv.squeeze(x @ x.conj().mT * math.nan)
    total: Any = observations if weights is None else sum(weights)

    def middle(y: Tensor) -> Tensor:
        return mean(y, 1, True) if weights is None else sum(y * weights, 1, True) / total

    centered = x - middle(x).detach()  # rounded if it is large: what is left of it
    centered = centered - middle(centered)  # goes next
    if weights is None:
        return mv.squeeze(centered @ centered.conj().mT / builtins.max(total - correction, 0))
    if aweights is not None:
        correction = correction * sum(weights * aweights) / total
    left = el.maximum(total - correction, 0)
    return mv.squeeze((centered * weights) @ centered.conj().mT / left)


def corrcoef(input: Tensor) -> Tensor:
    """The matrix of correlation coefficients of the rows of (variables, observations)."""
    if input.ndim > 2:
        raise RuntimeError(f"corrcoef(): expected two or fewer dims, got {input.ndim}")
    c = cov(input)
    if c.ndim == 0:
        return c / c
    diagonal = c.reshape(-1)[:: len(c) + 1]
    deviation = el.sqrt(diagonal if c.dtype.category < dt.COMPLEX else diagonal.real)
    c = c / deviation.unsqueeze(1) / deviation
    if c.dtype.category == dt.COMPLEX:
        return cx.complex(el.clamp(c.real, -1, 1), el.clamp(c.imag, -1, 1))
    return el.clamp(c, -1, 1)


def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over dims, without overflow; ints give floats."""
    input = el.floated(input)
    axes = axes_of("logsumexp", input, dim)
    if not count(input, axes):
        return el.log(sum(el.exp(input), axes, keepdim))
    x = input.detach()
    top = amax(_op.REAL(x) if x.dtype.category == dt.COMPLEX else x, axes, True)
    top = el.where(el.isinf(top), 0.0, top)
    out = el.log(sum(el.exp(input - top), axes, True)) + top
    return out if keepdim else mv.reshape(out, reduced_shape(input.shape, axes, False))


def hash_tensor(input: Tensor, dim: Any = None, *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """uint64: xor of the bits of all elements, as int64 or float64, over dims; on the host."""
    if mode:
        raise RuntimeError(f"hash_tensor: Unknown hash_tensor mode {mode}; expected 0")
    check.real("hash_tensor", input)
    x = input._host()
    bits = x.astype(np.float64 if x.dtype.kind == "f" else np.int64).view(np.uint64)
    axes = axes_of("hash_tensor", input, dim)
    return from_numpy(np.array(np.bitwise_xor.reduce(bits, axes, None, None, keepdim)))


# --- softmax: one NumPy pass each, a fused composition elsewhere


def _softmax_numpy(x: np.ndarray, dim: int) -> np.ndarray:
    x = x.astype(np.float32) if x.dtype == np.float16 else x
    y = np.exp(x - np.maximum.reduce(x, dim, None, None, True))
    y /= sum_numpy(y, (dim,), True)
    return y


def _log_softmax_numpy(x: np.ndarray, dim: int) -> np.ndarray:
    x = x.astype(np.float32) if x.dtype == np.float16 else x
    y = x - np.maximum.reduce(x, dim, None, None, True)
    y -= np.log(sum_numpy(np.exp(y), (dim,), True))
    return y


def _softmax_by_ops(x: Tensor, dim: int) -> Tensor:
    e = el.exp(x - apply(max_number_op, (x,), ((dim,), True)))
    return e * el.reciprocal(sum(e, dim, True))  # one quotient a row; its sum is 1 or more


def _log_softmax_by_ops(x: Tensor, dim: int) -> Tensor:
    centered = x - apply(max_number_op, (x,), ((dim,), True))
    return centered - el.log(sum(el.exp(centered), dim, True))


def _softmax_flops(shapes: Any, out: Any) -> int:
    return 5 * math.prod(out)  # largest, difference, exp, sum, quotient


softmax_op = Op(
    "softmax", EXTERN, "x", "dim", infer=lambda x, dim: (x.shape, x.dtype),
    batch=along_dim, flops=_softmax_flops,
    numpy=_softmax_numpy, fallback=_softmax_by_ops, lower_extern=routines.softmax,
    prefers_decomposition=True,
    x=lambda g, y, dim: (g - sum(g * y, dim, True)) * y,
)  # fmt: skip
log_softmax_op = Op(
    "log_softmax", EXTERN, "x", "dim", infer=lambda x, dim: (x.shape, x.dtype),
    batch=along_dim, flops=_softmax_flops,
    numpy=_log_softmax_numpy, fallback=_log_softmax_by_ops,
    lower_extern=routines.log_softmax, prefers_decomposition=True,
    x=lambda g, y, dim: g - el.exp(y) * sum(g, dim, True),
)  # fmt: skip


def _softmax(op: Op, input: Tensor, dim: int | None, dtype: dt.dtype | None) -> Tensor:
    if dim is None:
        dim = 0 if input.ndim in (0, 1, 3) else 1  # PyTorch's legacy choice
    if dtype is not None:
        input = input.to(dtype)
    check.floats(op.name, input)
    d = one_dim(op.name, input, dim)
    if input.ndim == 0:
        return _softmax(op, mv.reshape(input, (1,)), 0, None).reshape(())
    return input.clone() if input.numel() == 0 else apply(op, (input,), (d,))


def softmax(input: Tensor, dim: int | None = None, dtype: dt.dtype | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) over a dim."""
    return _softmax(softmax_op, input, dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, dtype: dt.dtype | None = None) -> Tensor:
    """log(softmax(x)) over a dim, without overflow."""
    return _softmax(log_softmax_op, input, dim, dtype)


public(
    globals(), both="""sum nansum mean nanmean count_nonzero prod amax amin argmax argmin any all
    var std logsumexp softmax log_softmax cov corrcoef hash_tensor""", methods="sum_to_size",
    functions="var_mean std_mean", out_exact="argmax argmin log_softmax softmax",
    rows="softmax log_softmax", lower="cov corrcoef", float32="prod",
    gpu_float32="sum softmax log_softmax logsumexp",
)  # fmt: skip
