"""Activations that are methods of Tensor too; the others stand in nn.functional."""

from __future__ import annotations

from typing import Any

from pyframe.ops.api import check
from pyframe.ops.api.autocast import autocast
from pyframe.ops.api.public import public
from pyframe.ops.math import elementwise as el
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor


def hardshrink(input: Tensor, lambd: Any = 0.5) -> Tensor:
    """0 where |x| <= lambd, else x."""
    check.floats("hardshrink", input)
    small = el.logical_and(el.ge(input, -lambd), el.le(input, lambd))
    return el.where(small, 0.0, input)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where x > 0, else weight * x; weight () or (1,), or (C,) for the channels of dim 1
    (arXiv 1502.01852). RuntimeError for other sizes or dtypes."""
    check.floats("prelu", input, weight)
    check.same_dtype("prelu", input, weight)
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got {weight.ndim}-d"
        )
    n = weight.numel()
    if n == 1:
        slope = mv.reshape(weight, ())
    else:
        channels = input._node.shape[1] if input.ndim > 1 else 1
        if input.ndim == 0 or n != channels:
            raise RuntimeError(
                f"prelu: Mismatch of parameter numbers and input channel size. Found parameter "
                f"numbers = {n} and channel size = {channels}; use one parameter, or one a channel"
            )
        slope = mv.reshape(weight, (n, *(1,) * (input.ndim - 2)))
    return el.where(el.gt(input, 0), input, slope * input)


public(globals(), both="hardshrink prelu")
autocast(globals(), lower="prelu")
