"""Python's operators on tensors (`x + 1`, `x @ y`, `x[0]`, `x < y`), and what is computed where an
attribute is asked for: `x.T`, `x.real`."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.modes import mode
from pyframe.ops.api.inplace import inplace_variant
from pyframe.ops.api.public import INSTEAD, NOBODY, may_take
from pyframe.ops.index import subscript
from pyframe.ops.linalg import matmul
from pyframe.ops.math import complex, elementwise as el, promotion
from pyframe.ops.shape import arrange, movement
from pyframe.tensor import Tensor, as_tensor


def _matmul(self: Tensor, other: Tensor) -> Tensor:
    if mode.autocast is None:
        return matmul.matmul(self, other)
    return Tensor.matmul(self, other)


def _divided_into(self: Tensor, other: Any) -> Tensor:
    """other / self; as PyTorch does, by `reciprocal`, which has a rule of autocast and keeps its
    result for the backward pass, not what may be written to."""
    if mode.autocast is None and not (mode.grad and self.requires_grad):
        return el.true_divide(other, self)
    return el.reciprocal(self) * other


def _reflected(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Tensor, other: Any) -> Tensor:
        result: Tensor = fn(other, self)
        return result

    run.__name__ = fn.__name__  # as drawings call it
    return run


def _inverted(self: Tensor) -> Tensor:
    if self.dtype.category not in (dt.BOOL, dt.INTEGER):
        raise TypeError(
            f"~ (operator.invert) is only implemented on integer and Boolean-type tensors, got "
            f"{self.dtype.name}; use logical_not"
        )
    return el.bitwise_not(self)


def _guarded(fn: Callable[..., Any]) -> Callable[..., Any]:
    """An operator leaves operands that it does not know to the other side."""

    def run(self: Tensor, other: Any) -> Tensor:
        if isinstance(other, np.ndarray):
            other = as_tensor(other, device=self.device)
        elif not isinstance(other, _TYPES):
            if may_take(other):
                taken = INSTEAD[0](fn, "", (self, other), {})
                return NotImplemented if taken is NOBODY else taken
            return NotImplemented
        found: Tensor = fn(self, other)
        return found

    if type(fn) is not promotion.Elementwise:
        return run
    op = fn

    def short(self: Tensor, other: Any) -> Tensor:
        return promotion.binary(op, self, other) if isinstance(other, _TYPES) else run(self, other)

    return short


_TYPES = (Tensor, bool, int, float, builtins.complex, np.generic)
_ARITHMETIC = {
    "add": el.add, "sub": el.sub, "mul": el.mul, "truediv": el.true_divide,
    "floordiv": el.floor_divide, "mod": el.remainder, "pow": el.pow,
    "and": el.bitwise_and, "or": el.bitwise_or, "xor": el.bitwise_xor,
    "lshift": el.bitwise_left_shift, "rshift": el.bitwise_right_shift,
}  # fmt: skip


def _operators() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, op in _ARITHMETIC.items():
        yield f"__{name}__", _guarded(op)
        yield f"__r{name}__", _guarded(_reflected(op))
        yield f"__i{name}__", inplace_variant(f"__i{name}__", op)
    yield "__rtruediv__", _guarded(_divided_into)
    yield "__matmul__", _matmul
    yield "__rmatmul__", _reflected(_matmul)
    yield "__neg__", el.neg
    yield "__pos__", arrange.positive
    yield "__abs__", el.abs
    yield "__invert__", _inverted
    for compare in (el.eq, el.ne, el.lt, el.le, el.gt, el.ge):
        yield f"__{compare.name}__", _guarded(compare)
    yield "__getitem__", subscript.getitem
    yield "__setitem__", subscript.setitem


OPERATORS = dict(_operators())
for _name in ("__truediv__", "__rtruediv__", "__itruediv__"):  # their names in Python 2
    OPERATORS[_name.replace("true", "")] = OPERATORS[_name]


def mT(self: Tensor) -> Tensor:  # noqa: N802  (PyTorch's name)
    """The matrices transposed; a 0-d tensor itself; RuntimeError of one dim."""
    if not self.ndim:
        return self
    if self.ndim < 2:
        raise RuntimeError(
            "tensor.mT is only supported on matrices or batches of matrices. Got "
            f"{self.ndim}-D tensor."
        )
    return movement.transpose(self, -1, -2)


def _set_real(self: Tensor, value: Any) -> None:
    complex.real(self).copy_(value)


def _set_imag(self: Tensor, value: Any) -> None:
    complex.imag(self).copy_(value)


PROPERTIES = {
    "T": property(
        lambda self: movement.permute(self, *reversed(range(self.ndim))), doc="All dims reversed."
    ),
    "mT": property(mT),
    "H": property(
        lambda self: complex.adjoint(self) if self.ndim else self, doc="A matrix's adjoint."
    ),
    "mH": property(complex.adjoint),
    "real": property(complex.real, _set_real),
    "imag": property(complex.imag, _set_imag),
}
