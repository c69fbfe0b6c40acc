"""The largest and smallest elements along a dim, with their indices."""

from __future__ import annotations

from typing import Any, overload

from pyframe.core import dtypes as dt
from pyframe.core.op import Op
from pyframe.ops.api.public import public
from pyframe.ops.api.results import AminmaxResult, MaxResult, MinResult
from pyframe.ops.index.along import gathered
from pyframe.ops.math import elementwise as el
from pyframe.ops.reduce import reductions as reduce
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, normalize_dim


def pick(kind: Any, input: Tensor, dim: int, index: Tensor, keepdim: bool) -> Any:
    """kind(values, indices): the elements that `index`, of size 1 in `dim`, names."""
    values = gathered(input, normalize_dim(dim, input.ndim), index)
    if not keepdim and input.ndim:
        values, index = mv.squeeze(values, dim), mv.squeeze(index, dim)
    return kind(values, index)


def _with_index(
    op: Op, arg_op: Op, pair: Any, input: Tensor, dim: Any, keepdim: bool, other: Any
) -> Any:
    other = dim if isinstance(dim, Tensor) else other
    if other is not None:
        return pair(input, other)
    if dim is None:
        return reduce.extreme(op, input, None, False)
    source = input.to(dt.int32) if input.dtype is dt.bool_ else input
    index = reduce.arg_extreme(arg_op, source, dim, True)
    return pick(MaxResult if op is reduce.max_op else MinResult, input, dim, index, keepdim)


@overload
def max(input: Tensor) -> Tensor: ...
@overload
def max(input: Tensor, dim: int, keepdim: bool = False) -> MaxResult: ...
@overload
def max(input: Tensor, dim: Tensor) -> Tensor: ...
@overload
def max(input: Tensor, *, other: Tensor) -> Tensor: ...
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; with `dim`, (values, indices); with a tensor, `maximum`."""
    return _with_index(reduce.max_op, reduce.argmax_op, el.maximum, input, dim, keepdim, other)


@overload
def min(input: Tensor) -> Tensor: ...
@overload
def min(input: Tensor, dim: int, keepdim: bool = False) -> MinResult: ...
@overload
def min(input: Tensor, dim: Tensor) -> Tensor: ...
@overload
def min(input: Tensor, *, other: Tensor) -> Tensor: ...
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element; with `dim`, (values, indices); with a tensor, `minimum`."""
    return _with_index(reduce.min_op, reduce.argmin_op, el.minimum, input, dim, keepdim, other)


def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> AminmaxResult:
    """(min, max) over one dim, or of all elements; ties share the gradient."""
    dims = None if dim is None else reduce.one_dim("aminmax", input, dim)
    return AminmaxResult(
        reduce.extreme(reduce.amin_op, input, dims, keepdim),
        reduce.extreme(reduce.amax_op, input, dims, keepdim),
    )


public(globals(), both="max min aminmax", out_exact="aminmax")
