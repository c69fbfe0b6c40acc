"""What several layers share."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from pyframe.core.dtypes import of_argument
from pyframe.nn import init
from pyframe.nn.modules.module import Module
from pyframe.nn.parameter import Parameter
from pyframe.ops.random.creation import empty


def as_int(layer: Module, what: str, value: Any) -> int:
    try:
        return operator.index(value)
    except (TypeError, RuntimeError):
        name = type(layer).__name__
        raise TypeError(f"{name}: {what} must be an int, got {value!r}") from None


def check_sizes(layer: Module, dtype: Any, **sizes: Any) -> Any:
    """`dtype` as a dtype. TypeError if it isn't one, or for a size that isn't an int, RuntimeError
    for a negative one: PyTorch's types, with the name of the layer and of the argument."""
    for what, given in sizes.items():
        for n in given if isinstance(given, tuple) else (given,):
            if as_int(layer, what, n) < 0:
                name = type(layer).__name__
                raise RuntimeError(f"{name}: {what} must not be negative, got {n}")
    return of_argument(type(layer).__name__, dtype)


class Weighted(Module):
    """A linear map: its weight and, unless that is None, its bias."""

    weight: Parameter
    bias: Parameter

    def reset_parameters(self) -> None:
        """PyTorch's start: U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for both."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan = init.fans(self.weight)[0]
            bound = 1 / math.sqrt(fan) if fan > 0 else 0
            init.uniform_(self.bias, -bound, bound)


_COUNTS = {1: "one in a tuple", 2: "two", 3: "three", 4: "four", 6: "six"}


def each(layer: Module, what: str, v: Any, k: int, kind: Any = as_int) -> tuple[Any, ...]:
    """An int or k of them, as k ints."""
    if isinstance(v, (str, bytes)) or not hasattr(v, "__iter__"):
        return (kind(layer, what, v),) * k
    found = tuple(v)
    if len(found) != k:
        name = type(layer).__name__
        raise TypeError(f"{name}: {what} must be an int or {_COUNTS[k]}, got {v!r}")
    return tuple(kind(layer, what, n) for n in found)


def _ntuple(n: int) -> Callable[[Any], tuple[Any, ...]]:
    """A function that repeats one value n times and leaves many as they are."""
    return lambda x: tuple(x) if hasattr(x, "__iter__") else (x,) * n


# Layers of other packages import these from here
_single, _pair, _triple, _quadruple = map(_ntuple, (1, 2, 3, 4))


def add_parameters(layer: Module, device: Any, dtype: Any, **shapes: Any) -> None:
    """A parameter of each shape, whose elements are still to be written; None where that is."""
    for name, shape in shapes.items():
        made = None if shape is None else Parameter(empty(shape, device=device, dtype=dtype))
        layer.register_parameter(name, made)


class Affine(Module):
    """What ends with * weight + bias, unless they are None."""

    def _add_affine(self, shape: Any, affine: bool, bias: bool, device: Any, dtype: Any) -> None:
        weight = shape if affine else None
        add_parameters(self, device, dtype, weight=weight, bias=weight if bias else None)

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


def unusual(layer: Module, **usual: Any) -> str:
    """Fields that have other values than usual, as they follow others in a repr: ', groups=2'."""
    fields = {name: getattr(layer, name) for name in usual}
    return "".join(f", {name}={v}" for name, v in fields.items() if v != usual[name])


def shown(layer: Module, *names: str) -> str:
    """Fields as in a repr: 'stride=1, padding=0'; of the parameter `bias` whether there is one."""
    fields = {name: getattr(layer, name) for name in names}
    if "bias" in fields:
        fields["bias"] = fields["bias"] is not None
    return ", ".join(f"{name}={value}" for name, value in fields.items())
