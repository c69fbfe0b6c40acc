"""What several layers share, and modules that learn the shapes of their parameters from their first
input.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any, ClassVar

from pyframe.core.dispatch import suspend_capture
from pyframe.core.dtypes import of_argument
from pyframe.core.modes import no_grad
from pyframe.nn import init
from pyframe.nn.modules.module import Module
from pyframe.nn.parameter import Parameter, UninitializedParameter, is_lazy
from pyframe.ops.random.creation import empty

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Stands before a Module among the bases of a lazy layer, whose `__init__` makes
    UninitializedParameters and whose `initialize_parameters` materializes them.

    The first call does so from its arguments; then the layer becomes a `cls_to_become`. What is
    loaded by a state_dict before gives shapes, too.

    Args:
        args, kwargs: what the layer's own `__init__` takes.

    >>> layer = nn.LazyLinear(2)
    >>> isinstance(layer, nn.modules.lazy.LazyModuleMixin), layer.has_uninitialized_params()
    (True, True)
    """

    cls_to_become: type[Any] | None = None
    _initialize_hook: Any
    _load_hook: Any
    _parameters: Any
    _buffers: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        me: Any = self
        self._load_hook = me._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = me.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters for these arguments of forward."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or a buffer has no shape yet."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *_: Any) -> None:
        """What is loaded gives uninitialized parameters their shapes."""
        for name, x in itertools.chain(self._parameters.items(), self._buffers.items()):
            new = state_dict.get(prefix + name)
            if is_lazy(x) and new is not None and not is_lazy(new):
                with no_grad():
                    x.materialize(new.shape)

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        with suspend_capture():  # what is drawn once for the weights is no part of a capture
            module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(
                f"module {type(self).__name__} has not been fully initialized: its "
                "initialize_parameters must materialize every parameter and buffer"
            )
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


class LazyLayer(LazyModuleMixin):
    """A lazy layer whose size `_learned` is 0 until its first input tells it."""

    _learned: ClassVar[str]

    def _wait(self, device: Any, dtype: Any, bias: bool) -> None:
        """Begin with a weight, and a bias if there is one, that have no shape yet."""
        for name in ("weight", "bias") if bias else ("weight",):
            setattr(self, name, UninitializedParameter(device=device, dtype=dtype))

    def _materialize(self, weight: tuple[int, ...], others: int) -> None:
        """Give what has no shape yet its shape, and all of it its start."""
        for name, x in (*self._parameters.items(), *self._buffers.items()):
            if is_lazy(x):
                x.materialize(weight if name == "weight" else (others,))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As the layer's that it becomes, once the shapes are known."""
        if not self.has_uninitialized_params() and getattr(self, self._learned) != 0:
            super().reset_parameters()  # type: ignore[misc]


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
    if len(found) == 1 and what in ("stride", "padding", "dilation"):
        found *= k  # a convolution of PyTorch's takes [1] for 1 there
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
