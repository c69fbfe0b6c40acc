"""All ops, and how they become functions of `pyframe` and methods of `Tensor`."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.core import dispatch as _dispatch, dtypes as dt
from pyframe.core.dispatch import apply
from pyframe.core.grad_node import GradNode, next_seq
from pyframe.core.modes import mode
from pyframe.core.node import Node
from pyframe.core.op import REGISTRY, Op
from pyframe.core.symbolic import hint
from pyframe.ops import (
    activation,
    arrange,
    check,
    complex,
    conv as conv,
    creation,
    elementwise as el,
    factor,
    fft as _fft,
    index,
    linalg,
    matmul,
    movement,
    pointwise,
    pool as pool,
    random as _random,
    reduce,
    resample,
    scan,
    sort,
    special,
    spectral,
    strided,
    windows,
)
from pyframe.ops.public import as_functions as as_functions, as_public
from pyframe.tensor import Tensor, as_tensor

__all__ = ["FUNCTIONS", "METHODS", "REGISTRY", "Op", "apply"]

FAMILIES = (
    el,
    pointwise,
    special,
    movement,
    reduce,
    scan,
    sort,
    matmul,
    factor,
    spectral,
    linalg,
    index,
    creation,
    complex,
    windows,
    resample,
    activation,
    _random,
    _fft,
    arrange,
    strided,
)

# Functions of pyframe whose first argument is a tensor: each is a method of Tensor too.
METHODS: dict[str, Callable[..., Any]] = {}
ONLY_METHODS: dict[str, Callable[..., Any]] = {}  # methods that are no functions of pyframe
FUNCTIONS: dict[str, Callable[..., Any]] = {}  # functions that are no methods
INPLACE: dict[str, Callable[..., Any]] = {}  # what has an in-place variant, `name_`
REBIND: dict[
    str, Callable[..., Any]
] = {}  # whose in-place variant makes the tensor itself the view
for _family in FAMILIES:
    METHODS.update(_family.PUBLIC.both)
    ONLY_METHODS.update(_family.PUBLIC.methods)
    FUNCTIONS.update(_family.PUBLIC.functions)
    INPLACE.update(_family.PUBLIC.inplace)
    REBIND.update(_family.PUBLIC.rebind)


def _inplace(name: str, fn: Callable[..., Any]) -> Callable[..., Tensor]:
    op = getattr(fn, "op", fn)  # what checks its operands first names the op
    op = op if isinstance(op, el.Elementwise) else REGISTRY.get(name)
    to_bool = isinstance(op, el.Elementwise) and op.rule is el.TO_BOOL
    ufunc = op.numpy if op is not None and isinstance(op.numpy, np.ufunc) and not to_bool else None
    fn = as_public(f"{name}_", fn)

    def run(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if ufunc is not None and not kwargs and _written_directly(ufunc, self, args):
            return self
        for a in args:
            if a is not self and isinstance(a, Tensor) and a._storage is self._storage:
                check.no_overlap(f"{name}_", self, a)
        first = next_seq() if mode.grad else 0
        out = fn(self, *args, **kwargs)
        if mode.grad and out._grad_fn is not None:
            _keep_saved(self, out._grad_fn, first)
        return self._write(out.to(self.dtype) if to_bool else out)

    run.__name__ = run.__qualname__ = f"{name}_"
    run.__doc__ = f"In-place version of `{name}`; returns self."
    return run


def _keep_saved(x: Tensor, last: Any, first: int) -> None:
    """Before `x` is written to: the steps up to `last`, recorded since `first`, that saved `x` keep
    what it is now, as PyTorch's in-place ops do."""
    steps = [last]
    while steps:
        step = steps.pop()
        if not isinstance(step, GradNode) or step.seq < first or step.saved is None:
            continue
        steps += step.edges
        for j, entry in enumerate(step.saved):
            if type(entry) is tuple and entry[0]._storage is x._storage:
                z = entry[0]
                node = z._value()
                if node.data is not None and not node.device.always_lazy:
                    kept = Node(None, (), (), node.shape, node.dtype, node.device, node.data.copy())
                else:
                    kept = node  # of a lazy device: nodes don't change
                copy = _dispatch.new(kept)
                copy._grad_fn = z.grad_fn
                step.saved[j] = (copy, copy._storage.version)


def _rebinding(name: str, fn: Callable[..., Any]) -> Callable[..., Tensor]:
    fn = as_public(f"{name}_", fn)

    def run(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self._become(lambda: fn(self, *args, **kwargs))

    run.__name__ = run.__qualname__ = f"{name}_"
    run.__doc__ = f"Make this tensor what `{name}` gives, of the same memory; returns self."
    return run


@np.errstate(all="ignore")
def _written_directly(ufunc: np.ufunc, x: Tensor, args: tuple[Any, ...]) -> bool:
    """Let NumPy write over a float CPU tensor, without a temporary, where nothing is recorded and
    no dtype or shape needs a word; False where the usual way must be taken."""
    node = x._node
    if mode.capture is not None or node.device.always_lazy:
        return False
    if node.dtype.category != dt.FLOAT or (mode.grad and x.requires_grad) or node.dtype.narrow:
        return False
    operands = [node.data]
    for a in args:
        if isinstance(a, Tensor):
            n = a._node
            if a._storage is x._storage and a is not x:
                return False  # see whether they overlap
            if n.dtype is not node.dtype or n.device is not node.device or n.shape != node.shape:
                return False
            if mode.grad and a.requires_grad:
                return False
            operands.append(n.data)
        elif isinstance(a, (int, float)):
            operands.append(a if type(a) is float else hint(a))  # of a capture that has ended
        else:
            return False
    if not node.data.flags.c_contiguous or not node.data.flags.writeable:
        return False
    if x._storage.version < 0 and not mode.inference:
        return False
    ufunc(*operands, out=node.data)
    x._wrote()
    return True


def _mT(self: Tensor) -> Tensor:  # noqa: N802  (PyTorch's name)
    """The matrices transposed; RuntimeError of fewer than two dims."""
    if self.ndim < 2:
        raise RuntimeError(
            "tensor.mT is only supported on matrices or batches of matrices. Got "
            f"{self.ndim}-D tensor."
        )
    return movement.transpose(self, -1, -2)


def _matmul(self: Tensor, other: Tensor) -> Tensor:
    if mode.autocast is None:
        return matmul.matmul(self, other)
    product: Tensor = Tensor.matmul(self, other)  # type: ignore[attr-defined]
    return product


def _divided_into(self: Tensor, other: Any) -> Tensor:
    """other / self; with autocast by `reciprocal`, which has a rule, as PyTorch does."""
    if mode.autocast is None:
        return el.true_divide(other, self)
    return el.reciprocal(self) * other


def _reflected(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: fn(other, self)


def _guarded(fn: Callable[..., Any]) -> Callable[..., Any]:
    """An operator leaves operands that it does not know to the other side."""

    def run(self: Tensor, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            other = as_tensor(other, device=self.device)
        elif not isinstance(other, _KNOWN):
            return NotImplemented
        return fn(self, other)

    if not isinstance(fn, el.Elementwise):
        return run
    op = fn

    def short(self: Tensor, other: Any) -> Any:
        return el.binary(op, self, other) if isinstance(other, _KNOWN) else run(self, other)

    return short


_KNOWN = (Tensor, bool, int, float, builtins.complex, np.generic)


def _dtype_method(name: str, d: dt.dtype) -> None:
    def run(self: Tensor, memory_format: Any = None) -> Tensor:
        return self.to(d, memory_format=memory_format) if memory_format else self.to(d)

    run.__doc__ = f"Converted to {d.name}."
    run.__name__ = name
    setattr(Tensor, name, run)


def _attach() -> None:
    for name, fn in {**METHODS, **ONLY_METHODS}.items():
        setattr(Tensor, name, as_public(name, fn))
    for name, fn in INPLACE.items():
        setattr(Tensor, f"{name}_", _inplace(name, fn))
    for name, fn in REBIND.items():
        setattr(Tensor, f"{name}_", _rebinding(name, fn))
    t: Any = Tensor
    t.__getitem__, t.__setitem__ = index.getitem, index.setitem
    operators = {
        "add": el.add, "sub": el.sub, "mul": el.mul, "truediv": el.true_divide,
        "floordiv": el.floor_divide, "mod": el.remainder, "pow": el.pow,
        "and": el.bitwise_and, "or": el.bitwise_or, "xor": el.bitwise_xor,
        "lshift": el.bitwise_left_shift, "rshift": el.bitwise_right_shift,
    }  # fmt: skip
    for name, op in operators.items():
        setattr(t, f"__{name}__", _guarded(op))
        setattr(t, f"__r{name}__", _guarded(_reflected(op)))
        setattr(t, f"__i{name}__", _inplace(f"__i{name}__", op))
    t.__rtruediv__ = _guarded(_divided_into)
    t.__div__, t.__rdiv__, t.__idiv__ = t.__truediv__, t.__rtruediv__, t.__itruediv__
    t.__matmul__, t.__rmatmul__ = _matmul, _reflected(_matmul)
    t.__neg__, t.__abs__, t.__invert__ = el.neg, el.abs, el.bitwise_not
    t.__pos__ = arrange.positive
    t.__eq__, t.__ne__ = _guarded(el.eq), _guarded(el.ne)
    t.__lt__, t.__le__ = _guarded(el.lt), _guarded(el.le)
    t.__gt__, t.__ge__ = _guarded(el.gt), _guarded(el.ge)
    for name, d in {
        "float": dt.float32, "double": dt.float64, "half": dt.float16, "long": dt.int64,
        "int": dt.int32, "short": dt.int16, "char": dt.int8, "byte": dt.uint8, "bool": dt.bool_,
        "bfloat16": dt.bfloat16, "cfloat": dt.complex64, "cdouble": dt.complex128,
    }.items():  # fmt: skip
        _dtype_method(name, d)
    t.T = property(
        lambda self: movement.permute(self, *reversed(range(self.ndim))), doc="All dims reversed."
    )
    t.mT = property(_mT)
    t.H = property(
        lambda self: complex.adjoint(self) if self.ndim else self, doc="A matrix's adjoint."
    )
    t.mH = property(complex.adjoint)
    t.real = property(complex.real, lambda self, value: complex.real(self).copy_(value))
    t.imag = property(complex.imag, lambda self, value: complex.imag(self).copy_(value))
    t.type_as = lambda self, other: self.to(other.dtype)
    t.type_as.__doc__ = "Converted to the dtype of `other`."


_attach()

FUNCTIONS.update(
    {
        f"{name}_": getattr(Tensor, f"{name}_")
        for family in FAMILIES
        for name in family.PUBLIC.inplace_functions
    }
)
