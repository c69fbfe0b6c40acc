"""Reductions and normalizations of the elements that a mask names, as torch.masked.

Each function takes `mask=` (bool, broadcast to `input`; None: all elements count) and `dtype=` (of
the result). Elements outside the mask are replaced by what changes no result: 0 in a sum, 1 in a
product, -inf for the largest. What is fully masked out gives that value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pyframe.core import dtypes as dt
from pyframe.ops.api.public import publish
from pyframe.ops.index import sort
from pyframe.ops.math import elementwise as el, special
from pyframe.ops.reduce import norms, reductions as rd, scan
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum",
    "var",
]  # fmt: skip


def _fill(input: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    """`input` with `value` outside the mask; IndexError for a mask of more dims."""
    return input if mask is None else el.where(_as_mask(input, mask), input, value).to(input.dtype)


def _as_mask(input: Tensor, mask: Tensor) -> Tensor:
    if mask.ndim > input.ndim:
        raise IndexError(
            f"masked: expected a mask that broadcasts to input of shape {list(input.shape)}, got "
            f"{list(mask.shape)}"
        )
    if mask.shape != input.shape:  # a copy: the user may write to theirs
        mask = mv.expand(mask.clone(), input.shape)
    return mask.to(dt.bool_)


def sum(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False,
    dtype: dt.dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The sum over dims; ints give int64."""
    return rd.sum(_fill(input, mask, 0), dim, bool(keepdim), dtype=dtype)


def prod(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False,
    dtype: dt.dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The product over dims; ints give int64."""
    x = _fill(input, mask, 1)
    for d in reversed(rd.axes_of("prod", x, dim)):
        x = rd.prod(x, d, bool(keepdim), dtype=dtype)
    return x.to(dtype or rd.wide(input))


def cumsum(
    input: Tensor, dim: int, *, dtype: dt.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Running sums along a dim, in the dtype of the input."""
    return scan.cumsum(_fill(input, mask, 0), dim, dtype=dtype or input.dtype)


def cumprod(
    input: Tensor, dim: int, *, dtype: dt.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Running products along a dim, in the dtype of the input."""
    return scan.cumprod(_fill(input, mask, 1), dim, dtype=dtype or input.dtype)


def _extreme(fn: Callable[..., Tensor], sign: int) -> Callable[..., Tensor]:
    def run(
        input: Tensor, dim: Any = None, *, keepdim: bool | None = False,
        dtype: dt.dtype | None = None, mask: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        x = _fill(input, mask, rd.limit_of(input, sign))
        return fn(x, dim, bool(keepdim)).to(dtype or input.dtype)

    run.__name__ = run.__qualname__ = fn.__name__
    run.__doc__ = f"`{fn.__name__}` over dims (one for the index), in the dtype of the input."
    return run


amax, amin = _extreme(rd.amax, -1), _extreme(rd.amin, 1)
argmax, argmin = _extreme(rd.argmax, -1), _extreme(rd.argmin, 1)


def _counted(input: Tensor, dim: Any, mask: Tensor | None, keepdim: Any) -> Tensor:
    """How many elements over dims the mask names."""
    there = input.new_ones(input.shape, dtype=dt.bool_)
    return rd.sum(there if mask is None else _as_mask(input, mask), dim, bool(keepdim))


def mean(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False,
    dtype: dt.dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean over dims. ValueError for ints without a float `dtype`."""
    if (dtype or input.dtype).category < dt.FLOAT:
        raise ValueError(
            f"mean(): Could not infer output dtype: expected a floating point or complex dtype, "
            f"got {(dtype or input.dtype).name}"
        )
    total = sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return total / _counted(input, dim, mask, keepdim)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: dt.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The lower median along a dim. ValueError where ints are fully masked out."""
    exact = input.dtype.category == dt.FLOAT
    x = input if exact else input.to(dt.float32)
    out: Tensor = sort.nanmedian(_fill(x, mask, math.nan), dim, bool(keepdim)).values
    if exact:
        return out
    if mask is not None and bool(el.isnan(out).any()):
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    return out.to(dtype or input.dtype)


def _moment(
    input: Tensor, dim: Any, unbiased: bool | None, correction: Any, keepdim: Any, dtype: Any,
    mask: Tensor | None,
) -> Tensor:  # fmt: skip
    if unbiased is not None and correction is not None:
        raise ValueError("masked: only one of unbiased and correction may be given")
    if correction is None:
        correction = 0 if unbiased is False else 1
    x = input.to(dtype if dtype is not None and dtype.category >= dt.FLOAT else _float_of(input))
    middle = sum(x, dim, keepdim=True, mask=mask) / _counted(x, dim, mask, True)
    total = sum(rd.absolute_square(x - middle), dim, keepdim=keepdim, mask=mask)
    left = _counted(x, dim, mask, keepdim) - correction
    return (total / el.maximum(left, 0)).to(dtype or x.dtype)


def _float_of(x: Tensor) -> dt.dtype:
    return x.dtype if x.dtype.category >= dt.FLOAT else dt.float32


def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool | None = False, dtype: dt.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The variance over dims, divided by n - correction (1 unless `unbiased=False`)."""
    return _moment(input, dim, unbiased, correction, keepdim, dtype, mask)


def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool | None = False, dtype: dt.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The standard deviation over dims: sqrt(var)."""
    wide = dtype if dtype is not None and dtype.category >= dt.FLOAT else _float_of(input)
    out = el.sqrt(_moment(input, dim, unbiased, correction, keepdim, wide, mask))
    return out.to(dtype or out.dtype)


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Any = None, *, keepdim: bool | None = False,
    dtype: dt.dtype | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The vector norm over dims."""
    x = _fill(input, mask, math.inf if ord == -math.inf else 0)
    return norms.vector_norm(x, 2.0 if ord is None else ord, dim, bool(keepdim), dtype=dtype)


def normalize(
    input: Tensor, ord: float, dim: Any, *, eps: float = 1e-12, dtype: dt.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """`input` divided by its norm over dims, or by `eps` where that is larger."""
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _fill(input, mask, 0) / el.maximum(size, eps)


def logsumexp(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: dt.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """log(sum(exp(x))) over dims, in the dtype of the input."""
    low = -math.inf if input.dtype.category == dt.COMPLEX else rd.limit_of(input, -1)
    return rd.logsumexp(_fill(input, mask, low), dim, bool(keepdim)).to(dtype or input.dtype)


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: dt.dtype | None = None,
    input_mask: Tensor | None = None, other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """log(exp(x) + exp(y)) of what each mask names."""
    x = _fill(input, input_mask, rd.limit_of(input, -1))
    y = _fill(other, other_mask, rd.limit_of(other, -1))
    return special.logaddexp(x, y).to(dtype or input.dtype)


def softmax(
    input: Tensor, dim: int, *, dtype: dt.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """exp(x) / sum(exp(x)) along a dim, 0 outside the mask."""
    return rd.softmax(_fill(input, mask, rd.limit_of(input, -1)), dim, dtype or input.dtype)


def log_softmax(
    input: Tensor, dim: int, *, dtype: dt.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """log(softmax(x)) along a dim, -inf outside the mask."""
    return rd.log_softmax(_fill(input, mask, rd.limit_of(input, -1)), dim, dtype or input.dtype)


def softmin(
    input: Tensor, dim: int, *, dtype: dt.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """softmax(-x) along a dim, 0 outside the mask."""
    return rd.softmax(-_fill(input, mask, rd.limit_of(input, 1)), dim, dtype or input.dtype)


publish(globals(), __all__)
