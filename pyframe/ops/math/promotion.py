"""Elementwise, the class of such ops, and the dtype and shape that operands have together."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt, op as _op, symbolic
from pyframe.core.devices import get_default_device
from pyframe.core.dispatch import apply, handler_on, run_eager, run_in_order
from pyframe.core.modes import mode
from pyframe.core.op import ELEMENTWISE, Op, PermutedLayout, const, const_for_ufunc
from pyframe.core.sizes import is_symbolic_size
from pyframe.ops.api.arguments import no_tensor
from pyframe.ops.api.autocast import casted
from pyframe.ops.api.public import INSTEAD, NOBODY, may_take, public
from pyframe.tensor import Tensor

# What an op does to the promoted dtype of its operands
SAME, FLOAT, TO_BOOL, BITS, NUMBER = "same", "float", "to_bool", "bits", "number"
COUNT = "count"  # bools count as int64

# Where PyTorch's function takes a Python number: for all operands, for either, for the second, for
# none. Within pyframe a number is fine wherever another operand is a tensor.
ALL, EITHER, SECOND, NONE = "all", "either", "second", "none"


class _Signature:
    """What help() and editors show of an elementwise op; made when it is asked for."""

    def __get__(self, op: Any, owner: Any = None) -> inspect.Signature:
        if op is None:
            raise AttributeError("__signature__")
        return op.signature


class Elementwise(Op):
    """An op on each element: operands are promoted to one dtype and broadcast to one shape."""

    def __init__(
        self, name: str, inputs: str, numpy: Any, scalar: Any, rule: str, **kw: Any
    ) -> None:
        self.rule = rule
        self.promoted_from = kw.pop("promoted_from", 0)
        self.uses_index = kw.pop("uses_index", False)  # its meaning takes `i`, the flat index
        self.preserves_order = kw.pop("preserves_order", not self.uses_index)
        self.numbers = kw.pop("numbers", EITHER)
        self.real = kw.pop("real", False)  # complex operands are refused
        self.refuses_bool = kw.pop("refuses_bool", NotImplementedError)  # what bools alone raise
        self.no_bool = kw.pop("no_bool", "")  # why no operand may be a bool
        self.of_ints = kw.pop("of_ints", None)  # checks (op, operands as given) of ints
        self.names = tuple(kw.pop("names", "input other").split())  # PyTorch's, of the arguments
        # operands of these dtypes stay as they are, and need no check
        self.plain = frozenset(d for d in dt.ALL if self._is_plain(d))
        super().__init__(
            name, ELEMENTWISE, inputs, kw.pop("attrs", ""), infer=kw.pop("infer", self._infer),
            numpy=numpy, scalar=scalar, **kw,
        )  # fmt: skip

    def _is_plain(self, d: dt.dtype) -> bool:
        if (self.real and d.category == dt.COMPLEX) or (self.of_ints and d.category == dt.INTEGER):
            return False
        if self.rule is FLOAT:
            return d.category >= dt.FLOAT
        return not (
            (self.rule is BITS and d.category >= dt.FLOAT)
            or (self.rule in (NUMBER, COUNT) and d is dt.bool_)
        )

    def _infer(self, *nodes: Any) -> tuple[tuple[int, ...], dt.dtype]:
        shape = nodes[0].shape
        for n in nodes:
            if len(n.shape) != len(shape) or n.shape != shape:
                shape = broadcast(self.name, *[n.shape for n in nodes])
                break
        return shape, dt.bool_ if self.rule is TO_BOOL else nodes[-1].dtype

    __signature__ = _Signature()

    @property
    def signature(self) -> inspect.Signature:
        """PyTorch's names of the operands, and which of them may be numbers."""
        names = self.names[: len(self.inputs)]
        tensors = {SECOND: names[:1], NONE: names}.get(self.numbers, ())
        if len(names) == 1:
            tensors = names
        parameters = [
            inspect.Parameter(
                n, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                annotation="Tensor" if n in tensors else "Tensor | complex",
            )
            for n in names
        ]  # fmt: skip
        return inspect.Signature(parameters, return_annotation="Tensor")

    def __call__(self, *operands: Any, **named: Any) -> Tensor:
        try:
            if named:
                operands = self._bound(operands, named)
            if len(operands) == 2 == len(self.inputs):
                return binary(self, *operands)
            if len(operands) == 1 == len(self.inputs):
                x = operands[0]
                if isinstance(x, Tensor) and x.dtype in self.plain:
                    return apply(self, operands)
            return self.promoted(*operands)
        except TypeError:
            if any(map(may_take, operands)):
                taken: Any = INSTEAD[0](self, "", operands, {})
                if taken is not NOBODY:
                    return taken
            raise

    def _bound(self, operands: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The operands, those given by PyTorch's names among them; TypeError for other names."""
        rest = self.names[len(operands) : len(self.inputs)]
        if set(named) != set(rest):
            raise TypeError(
                f"{self.name}() takes {', '.join(self.names[: len(self.inputs)])}; got "
                f"{len(operands)} operands and {', '.join(named)}"
            )
        return (*operands, *[named[n] for n in rest])

    @functools.cached_property
    def public(self) -> Callable[..., Tensor]:
        """PyTorch's function: TypeError for a number where PyTorch takes tensors only."""
        if self.numbers not in (SECOND, NONE) or len(self.inputs) != 2:
            return self
        checked = 1 if self.numbers is SECOND else 2

        def run(*operands: Any, **named: Any) -> Tensor:
            if named:
                operands = self._bound(operands, named)
            for name, x in zip(self.names, operands[:checked], strict=False):
                if not isinstance(x, Tensor):
                    raise TypeError(
                        f"{self.name}(): argument '{name}' must be Tensor, not {type(x).__name__}"
                        f"{no_tensor(x)}"
                    )
            return self(*operands)

        run.__name__, run.__doc__ = self.name, self.__doc__
        run.op = run.__wrapped__ = self  # type: ignore[attr-defined]
        return run

    def promoted(self, *operands: Any) -> Tensor:
        """Call it on operands that may need another dtype or device."""
        xs = list(operands)
        if len(xs) != len(self.inputs):
            raise TypeError(f"{self.name}() takes {len(self.inputs)} operands, got {len(xs)}")
        if self.autocast is not None and mode.autocast is not None:
            cast = casted(self.autocast, xs, {})
            xs = list(cast[0]) if cast else xs
        start = self.promoted_from
        common, device, same = None, None, True
        for x in xs[start:]:
            if isinstance(x, Tensor):
                n = x._node
                if common is None:
                    common, device = n.dtype, n.device
                elif n.dtype is not common or n.device is not device:
                    same = False
            else:
                same = False
        if common is None and self.numbers is not ALL:
            seen = " and ".join(type(x).__name__ for x in xs)
            raise TypeError(f"{self.name}(): expected a Tensor, got {seen}; see pf.tensor")
        if not same or common is None:
            device = device_of(self.name, xs)
            common = result_type(*xs[start:])
            if self.no_bool and any(own_type(x) is dt.bool_ for x in xs):
                raise RuntimeError(self.no_bool)
        if self.rule is FLOAT and common.category < dt.FLOAT:
            common = dt.get_default_dtype()
            same = False
        elif common.category >= dt.FLOAT:
            if self.rule is BITS or (self.real and common.category == dt.COMPLEX):
                raise NotImplementedError(
                    f"{self.name}: not implemented for {common.name}; use "
                    + ("ints or bool" if self.rule is BITS else "real numbers, such as x.real")
                )
        elif self.rule is COUNT and common is dt.bool_:
            common, same = dt.int64, False
        elif self.rule is NUMBER and common is dt.bool_:
            raise self.refuses_bool(
                f"{self.name}: not supported for bool tensors; use ~, ^ or logical_* instead"
            )
        if not same:
            for i in range(start, len(xs)):
                xs[i] = operand_as(self.name, xs[i], common, device)
        for i in range(start):
            xs[i] = operand_as(self.name, xs[i], own_type(xs[i]), device)
        if self.of_ints is not None and common.category == dt.INTEGER:
            self.of_ints(self, *operands)
        return apply(self, tuple(xs))


def binary(op: Elementwise, a: Any, b: Any) -> Tensor:
    """op(a, b): the short way where neither operand needs another dtype or device."""
    if isinstance(a, Tensor):
        x, y = a, b
    elif isinstance(b, Tensor):
        x, y = b, a
    else:
        return op.promoted(a, b)
    m = x._node
    dtype, device = m.dtype, m.device
    if dtype not in op.plain:
        return op.promoted(a, b)
    way = handler_on(device)
    turned = x._view_chain and type(x._view_chain) is PermutedLayout
    if isinstance(y, Tensor):
        n = y._node
        if n.dtype is not dtype or n.device is not device:
            return op.promoted(a, b)
        if way is not run_eager:
            m, n = x._value(), y._value()
            alike = len(m.shape) == len(n.shape) and m.shape == n.shape
        else:
            alike = m.shape == n.shape
        shape = m.shape if alike else broadcast(op.name, m.shape, n.shape)
        if y._view_chain and type(y._view_chain) is PermutedLayout:
            turned = True
    else:
        kind = type(y)
        if kind is int:
            fits = dtype.category != dt.BOOL
        else:
            fits = kind is float and dtype.category == dt.FLOAT
        if not fits:
            return op.promoted(a, b)
        if way is not run_eager:
            m = x._value()
        if kind is int and dtype.category == dt.INTEGER and dtype.itemsize < 8:
            y = int(dt.wrapped(y, dtype))
        y = n = const_for_ufunc(y, dtype, device)
        shape = m.shape
        if x is b:
            a, m, n = n, n, m
        else:
            b = n
    if op.rule is TO_BOOL:
        dtype = dt.bool_
    if turned:
        return run_in_order(op, (a, b), (), (m, n), shape, dtype, device)
    return way(op, (a, b), (), (m, n), shape, dtype, device)


def own_type(x: Any) -> dt.dtype:
    return x.dtype if isinstance(x, Tensor) else dt.of_scalar(x)


def operand_as(name: str, x: Any, dtype: dt.dtype, device: Any) -> Any:
    if isinstance(x, Tensor):
        if x.dtype is not dtype:
            x = _op.CAST(x, dtype)
        if x.device is not device and x.ndim == 0 and x.device.kind == "cpu":
            x = x.to(device)
        return x
    if isinstance(x, int) and dtype.category == dt.INTEGER and dtype.itemsize < 8:
        limits = np.iinfo(dtype.numpy)
        if not is_symbolic_size(x) or not limits.min <= x <= limits.max:
            x = symbolic.apply_symbolic(lambda n: int(dt.wrapped(n, dtype)), x)
    return const(x, dtype, device)


def device_of(name: str, xs: Any) -> Any:
    """The device of the operands: a 0-d CPU tensor goes wherever the others are."""
    found = None
    for x in xs:
        if isinstance(x, Tensor):
            if (
                found is None
                or (found.ndim == 0 and x.ndim > 0)
                or (found.ndim == x.ndim == 0 and x.device.kind != "cpu")
            ):
                found = x
        elif not isinstance(x, (bool, int, float, complex, np.generic)):
            raise TypeError(
                f"{name}: expected a Tensor or a number, got {type(x).__name__}{no_tensor(x)}"
            )
    return found.device if found is not None else get_default_device()


def result_type(*operands: Any) -> dt.dtype:
    """The dtype of an operation on tensors and numbers, as torch.result_type."""
    best: list[dt.dtype | None] = [None, None, None]  # of tensors, 0-d tensors, Python numbers
    for x in operands:
        if isinstance(x, Tensor):
            level, d = (0 if x.shape else 1), x.dtype
        else:
            level, d = 2, dt.of_scalar(x)
        old = best[level]
        best[level] = d if old is None else dt.promote_types(old, d)
    if best[2] is not None and best[2].category >= dt.FLOAT:  # Python floats have no precision
        default = dt.get_default_dtype()
        best[2] = default if best[2].category == dt.FLOAT else default.to_complex()
    return _higher(best[0], _higher(best[1], best[2]))  # type: ignore[return-value]


def _higher(a: dt.dtype | None, b: dt.dtype | None) -> dt.dtype | None:
    """`a`, unless `b` is of a higher category (see c10's combine_categories)."""
    if a is None or b is None:
        return a or b
    if b.category <= a.category:
        return a
    return a.to_complex() if a.category == dt.FLOAT else b


@functools.lru_cache(4096)
def broadcast(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape; RuntimeError that names `name` where there is none."""
    ndim = max(len(s) for s in shapes)
    out = [1] * ndim
    for s in shapes:
        for d, n in enumerate(s, ndim - len(s)):
            if n != 1:
                if out[d] not in (1, n):
                    sizes = " and ".join(str(list(s)) for s in shapes)
                    raise RuntimeError(
                        f"{name}: shapes {sizes} don't broadcast: sizes {out[d]} and {n} differ at "
                        f"dim {d}; expected equal sizes or 1"
                    )
                out[d] = n
    return tuple(out)


def op(name: str, inputs: str, numpy: Any, scalar: Any, rule: str = SAME, **kw: Any) -> Elementwise:
    """Declare an elementwise op: see `Elementwise` and the top of core/op.py."""
    return Elementwise(name, inputs, numpy, scalar, rule, **kw)


public(globals(), functions="result_type")
