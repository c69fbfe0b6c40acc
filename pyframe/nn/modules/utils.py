"""What several layers share."""

from __future__ import annotations

import math
import operator
from typing import Any

from pyframe.dtypes import of_argument
from pyframe.nn import init
from pyframe.nn.modules.module import Module
from pyframe.tensor import Tensor


def as_int(layer: Module, what: str, value: Any) -> int:
    try:
        return operator.index(value)
    except (TypeError, RuntimeError):
        name = type(layer).__name__
        raise TypeError(f"{name}: {what} must be an int, got {value!r}") from None


def check_sizes(layer: Module, dtype: Any, **sizes: Any) -> Any:
    """`dtype` as a dtype. TypeError for what is none and for a size that is no int, RuntimeError
    for a negative one: PyTorch's types, with the name of the layer and of the argument."""
    for what, given in sizes.items():
        for n in given if isinstance(given, tuple) else (given,):
            if as_int(layer, what, n) < 0:
                name = type(layer).__name__
                raise RuntimeError(f"{name}: {what} must not be negative, got {n}")
    return of_argument(type(layer).__name__, dtype)


def bias_bound(weight: Tensor) -> float:
    fan = init.fans(weight)[0]
    return 1 / math.sqrt(fan) if fan > 0 else 0


def pair(layer: Module, what: str, v: Any) -> tuple[int, int]:
    if isinstance(v, (tuple, list)) and len(v) != 2:
        raise TypeError(f"{type(layer).__name__}: {what} must be an int or two, got {v!r}")
    a, b = v if isinstance(v, (tuple, list)) else (v, v)
    return as_int(layer, what, a), as_int(layer, what, b)
