"""Activations."""

from __future__ import annotations

from pyframe import dtypes as dt
from pyframe.ops import (
    METHODS,
    elementwise as el,
    reduce as rd,
)
from pyframe.ops.elementwise import gelu as gelu, silu as silu, softplus as _softplus
from pyframe.ops.index import one_hot as one_hot
from pyframe.tensor import Tensor

__all__ = ["gelu", "log_softmax", "relu", "sigmoid", "silu", "softmax", "softplus", "tanh"]

relu, tanh, sigmoid = METHODS["relu"], METHODS["tanh"], METHODS["sigmoid"]


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dt.dtype | None = None
) -> Tensor:
    """exp(x) / sum(exp(x)) over a dim."""
    return rd.softmax(input, dim, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dt.dtype | None = None
) -> Tensor:
    """log(softmax(x)) over a dim, without overflow."""
    return rd.log_softmax(input, dim, dtype)


def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself above `threshold`."""
    scaled = input * beta
    return el.where(el.gt(scaled, threshold), input, _softplus(scaled) / beta)
