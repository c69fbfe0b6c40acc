"""All ops, and how they become functions of `pyframe` and methods of `Tensor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe import dtypes as dt, random as _random
from pyframe.ops import conv as conv, creation, elementwise as el, index, matmul, movement, reduce
from pyframe.ops.op import REGISTRY, Op, apply, mode
from pyframe.tensor import Tensor

__all__ = ["FUNCTIONS", "METHODS", "REGISTRY", "Op", "apply"]

# Functions of pyframe whose first argument is a tensor: each is a method of Tensor too.
METHODS: dict[str, Callable[..., Any]] = {
    **{
        name: REGISTRY[name]
        for name in """neg abs sign square reciprocal maximum minimum sqrt rsqrt exp exp2 expm1 log
        log2 log10 log1p sin cos tan atan tanh sigmoid erf floor ceil trunc round relu eq ne lt le
        gt ge isnan isinf logical_and logical_or logical_not bitwise_and bitwise_or bitwise_xor
        bitwise_not remainder fmod pow mul floor_divide""".split()
    },
    "add": el.add_scaled, "sub": el.sub_scaled, "div": el.div, "true_divide": el.true_divide,
    "subtract": el.sub_scaled, "multiply": el.mul, "divide": el.div, "negative": el.neg,
    "greater": el.gt, "less": el.lt, "absolute": el.abs, "clip": el.clamp,
    "clamp": el.clamp, "addcmul": el.addcmul, "addcdiv": el.addcdiv, "lerp": el.lerp,
    "isfinite": el.isfinite, "logical_xor": el.logical_xor, "clone": el.clone, "gelu": el.gelu,
    "reshape": movement.reshape, "permute": movement.permute, "transpose": movement.transpose,
    "swapaxes": movement.transpose, "t": movement.t, "movedim": movement.movedim,
    "broadcast_to": movement.broadcast_to, "flip": movement.flip, "squeeze": movement.squeeze,
    "unsqueeze": movement.unsqueeze, "flatten": movement.flatten, "unflatten": movement.unflatten,
    "narrow": movement.narrow, "select": movement.select, "split": movement.split,
    "chunk": movement.chunk, "unbind": movement.unbind,
    "sum": reduce.sum, "mean": reduce.mean, "prod": reduce.prod, "amax": reduce.amax,
    "amin": reduce.amin, "argmax": reduce.argmax, "argmin": reduce.argmin, "max": reduce.max,
    "min": reduce.min, "any": reduce.any, "all": reduce.all, "var": reduce.var, "std": reduce.std,
    "logsumexp": reduce.logsumexp, "norm": reduce.norm, "softmax": reduce.softmax,
    "log_softmax": reduce.log_softmax,
    "matmul": matmul.matmul, "mm": matmul.mm, "bmm": matmul.bmm, "mv": matmul.mv_,
    "dot": matmul.dot, "outer": matmul.outer, "addmm": matmul.addmm,
    "index_select": index.index_select, "gather": index.gather, "scatter_add": index.scatter_add,
    "index_add": index.index_add, "nonzero": index.nonzero, "masked_fill": index.masked_fill,
    "masked_select": index.masked_select, "tril": index.tril, "triu": index.triu,
    "index_put": index.index_put, "bernoulli": creation.bernoulli,
}  # fmt: skip

# Methods that are no functions of pyframe
ONLY_METHODS: dict[str, Callable[..., Any]] = {
    "view": movement.view, "view_as": movement.view_as, "expand": movement.expand,
    "expand_as": movement.expand_as, "repeat": movement.repeat,
    "contiguous": movement.contiguous, "sum_to_size": reduce.sum_to_size,
    "uniform_": _random.uniform_, "normal_": _random.normal_,
    "new_zeros": lambda self, *size, **kw: creation.zeros(*size, **_of(self, kw)),
    "new_ones": lambda self, *size, **kw: creation.ones(*size, **_of(self, kw)),
    "new_full": lambda self, size, value, **kw: creation.full(size, value, **_of(self, kw)),
}  # fmt: skip

# Functions that are no methods
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(creation, name)
        for name in """full zeros ones empty zeros_like ones_like full_like empty_like arange
        linspace eye rand randn rand_like randn_like randint randperm""".split()
    },
    "cat": movement.cat, "concat": movement.cat, "concatenate": movement.cat,
    "stack": movement.stack, "where": el.where, "broadcast_tensors": movement.broadcast_tensors,
    "result_type": el.result_type,
}  # fmt: skip

# Methods with an in-place twin, `name_`
INPLACE = """add sub mul div subtract multiply divide true_divide floor_divide remainder fmod pow
neg abs sign square reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan atan tanh
sigmoid erf floor ceil trunc round relu clamp clip addcmul addcdiv lerp eq ne lt le gt ge
logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not
masked_fill tril triu scatter_add index_add index_put bernoulli""".split()


def _of(x: Tensor, kw: dict[str, Any]) -> dict[str, Any]:
    return {"dtype": x.dtype, "device": x.device, **kw}


def _inplace(name: str, fn: Callable[..., Any]) -> Callable[..., Tensor]:
    op = fn if isinstance(fn, el.Elementwise) else REGISTRY.get(name)
    to_bool = isinstance(op, el.Elementwise) and op.rule is el.TO_BOOL
    ufunc = op.numpy if op is not None and isinstance(op.numpy, np.ufunc) and not to_bool else None

    def run(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if ufunc is not None and not kwargs and _written_directly(ufunc, self, args):
            return self
        out = fn(self, *args, **kwargs)
        return self._write(out.to(self.dtype) if to_bool else out)

    run.__name__ = run.__qualname__ = f"{name}_"
    run.__doc__ = f"In-place version of `{name}`; returns self."
    return run


@np.errstate(all="ignore")
def _written_directly(ufunc: np.ufunc, x: Tensor, args: tuple[Any, ...]) -> bool:
    """Let NumPy write over a float CPU tensor, without a temporary, where nothing is recorded and
    no dtype or shape needs a word; False where the usual way must be taken."""
    node = x._node
    if mode.capture is not None or node.device.always_lazy:
        return False
    if node.dtype.category != dt.FLOAT or (mode.grad and x.requires_grad):
        return False
    operands = [node.data]
    for a in args:
        if isinstance(a, Tensor):
            n = a._node
            if n.dtype is not node.dtype or n.device is not node.device or n.shape != node.shape:
                return False
            if mode.grad and a.requires_grad:
                return False
            operands.append(n.data)
        elif isinstance(a, (int, float)):
            operands.append(a)
        else:
            return False
    if not node.data.flags.c_contiguous or not node.data.flags.writeable:
        return False
    ufunc(*operands, out=node.data)
    x._storage.version += 1
    return True


def _copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Fill with the elements of `src`, broadcast and converted."""
    if not isinstance(src, Tensor):
        raise TypeError(f"copy_: expected a Tensor, got {type(src).__name__}")
    return self._overwrite(src if src.device is self.device else src.to(self.device))


def _fill_(self: Tensor, value: Any) -> Tensor:
    """Fill with one number."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{value.ndim} dimensions."
            )
        return self._overwrite(value.to(self.device))
    return self._overwrite(creation.full((), value, dtype=self.dtype, device=self.device))


def _zero_(self: Tensor) -> Tensor:
    """Fill with zeros."""
    return _fill_(self, 0)


def _reflected(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: fn(other, self)


def _guarded(fn: Callable[..., Any]) -> Callable[..., Any]:
    """An operator leaves operands that it does not know to the other side."""

    def run(self: Tensor, other: Any) -> Any:
        if not isinstance(other, _KNOWN):
            return NotImplemented
        return fn(self, other)

    if not isinstance(fn, el.Elementwise):
        return run
    op = fn

    def short(self: Tensor, other: Any) -> Any:
        return el.binary(op, self, other) if isinstance(other, _KNOWN) else NotImplemented

    return short


_KNOWN = (Tensor, bool, int, float, np.generic)


def _compare(fn: Callable[..., Any], otherwise: bool) -> Callable[..., Any]:
    def run(self: Tensor, other: Any) -> Any:
        if other is None or isinstance(other, (str, list, tuple, dict)):
            return otherwise
        return fn(self, other)

    return run


def _dtype_method(name: str, d: dt.dtype) -> None:
    def run(self: Tensor) -> Tensor:
        return self.to(d)

    run.__doc__ = f"Converted to {d.name}."
    run.__name__ = name
    setattr(Tensor, name, run)


def _attach() -> None:
    for name, fn in {**METHODS, **ONLY_METHODS}.items():
        setattr(Tensor, name, fn)
    for name in INPLACE:
        setattr(Tensor, f"{name}_", _inplace(name, METHODS[name]))
    t: Any = Tensor
    t.copy_, t.fill_, t.zero_ = _copy_, _fill_, _zero_
    t.__getitem__, t.__setitem__ = index.getitem, index.setitem
    operators = {
        "add": el.add, "sub": el.sub, "mul": el.mul, "truediv": el.true_divide,
        "floordiv": el.floor_divide, "mod": el.remainder, "pow": el.pow,
        "and": el.bitwise_and, "or": el.bitwise_or, "xor": el.bitwise_xor,
    }  # fmt: skip
    for name, op in operators.items():
        setattr(t, f"__{name}__", _guarded(op))
        setattr(t, f"__r{name}__", _guarded(_reflected(op)))
        setattr(t, f"__i{name}__", _inplace(f"__i{name}__", op))
    t.__matmul__ = matmul.matmul
    t.__rmatmul__ = _reflected(matmul.matmul)
    t.__neg__, t.__abs__, t.__invert__ = el.neg, el.abs, el.bitwise_not
    t.__pos__ = lambda self: self
    t.__eq__, t.__ne__ = _compare(el.eq, False), _compare(el.ne, True)
    t.__lt__, t.__le__ = _guarded(el.lt), _guarded(el.le)
    t.__gt__, t.__ge__ = _guarded(el.gt), _guarded(el.ge)
    for name, d in {
        "float": dt.float32, "double": dt.float64, "half": dt.float16, "long": dt.int64,
        "int": dt.int32, "short": dt.int16, "char": dt.int8, "byte": dt.uint8, "bool": dt.bool_,
    }.items():  # fmt: skip
        _dtype_method(name, d)
    t.T = property(lambda self: movement.permute(self, *reversed(range(self.ndim))))
    t.mT = property(lambda self: movement.transpose(self, -1, -2))
    t.type_as = lambda self, other: self.to(other.dtype)


_attach()
