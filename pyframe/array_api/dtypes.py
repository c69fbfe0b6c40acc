"""Dtypes of the array API standard: their kinds, how they promote, and what they hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.core import dtypes as dt
from pyframe.core.dtypes import (
    bool_,
    complex64,
    complex128,
    dtype as _DType,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from pyframe.tensor import Tensor

_SIGNED, UNSIGNED = (int8, int16, int32, int64), (uint8, uint16, uint32, uint64)
_REAL, _COMPLEX = (float32, float64), (complex64, complex128)
_KINDS = {
    "bool": (bool_,), "signed integer": _SIGNED, "unsigned integer": UNSIGNED,
    "integral": _SIGNED + UNSIGNED, "real floating": _REAL, "complex floating": _COMPLEX,
    "numeric": _SIGNED + UNSIGNED + _REAL + _COMPLEX,
}  # fmt: skip
ALL = (bool_, *_KINDS["numeric"])


def result_type(*arrays_and_dtypes: Tensor | _DType | complex) -> _DType:
    """The dtype that all promote to; a Python number widens the kind alone."""
    found: _DType | None = None
    numbers = []
    for x in arrays_and_dtypes:
        if isinstance(x, (bool, int, float, complex)):
            numbers.append(x)
            continue
        d = x.dtype if isinstance(x, Tensor) else x
        found = d if found is None else _promoted(found, d)
    if found is None:
        raise ValueError("result_type: at least one array or dtype is required")
    for number in numbers:
        d = dt.of_scalar(number)
        if d.category > found.category:
            found = d if d.category < dt.COMPLEX else found.to_complex()
    return found


def _promoted(a: _DType, b: _DType) -> _DType:
    low, high = sorted((a, b), key=lambda d: d.category)
    if low.category == high.category == dt.INTEGER:  # unsigned ones too, which PyTorch refuses
        wide = np.promote_types(a.numpy, b.numpy)
        if wide.kind == "f":
            raise TypeError(f"result_type: no int dtype holds both {a.name} and {b.name}")
        return dt.dtype.from_numpy(wide)
    if low.category == high.category or low.category == dt.FLOAT:
        return dt.promote_types(a, b)
    return high


def can_cast(from_: _DType | Tensor, to: _DType, /) -> bool:
    """Whether no value is lost by the kind or size of the dtypes."""
    start = from_.dtype if isinstance(from_, Tensor) else from_
    return np.can_cast(start.numpy, to.numpy)


def isdtype(dtype: _DType, kind: Any) -> bool:
    """Whether a dtype is of a kind ("integral", "real floating" …), a dtype, or one of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: unknown kind {kind!r}; expected one of {[*_KINDS]}")
        return dtype in _KINDS[kind] or (
            kind in ("real floating", "numeric") and dtype.is_floating_point
        )
    return dtype is kind


def _limits(made: Any, names: str, d: _DType) -> SimpleNamespace:
    return SimpleNamespace(**{n: getattr(made, n) for n in names.split()}, dtype=d)


def finfo(type: _DType | Tensor, /) -> SimpleNamespace:
    """What a float dtype holds: bits, eps, max, min, smallest_normal, and `dtype` of real parts."""
    d = (type.dtype if isinstance(type, Tensor) else type).to_real()
    return _limits(dt.finfo(d), "bits eps max min smallest_normal", d)


def iinfo(type: _DType | Tensor, /) -> SimpleNamespace:
    """What an int dtype holds: bits, max, min, dtype."""
    d = type.dtype if isinstance(type, Tensor) else type
    return _limits(dt.iinfo(d), "bits max min", d)


def astype(x: Tensor, dtype: _DType, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """`x` as another dtype; `copy=False` gives `x` itself where it has it."""
    if x.is_complex() and not dtype.is_complex and dtype is not bool_:
        raise TypeError(
            f"astype: {x.dtype.name} to {dtype.name} loses the imaginary part; use real"
        )
    return x.to(device if device is not None else x.device, dtype, copy=copy)


def as_dtype(x: Tensor, dtype: _DType) -> Tensor:
    return x if x.dtype is dtype else x.to(dtype)


def common(*xs: Any) -> list[Tensor]:
    """Tensors and numbers as tensors of their common dtype, on one device."""
    d = result_type(*xs)
    device = next(x.device for x in xs if isinstance(x, Tensor))
    return [
        as_dtype(x, d) if isinstance(x, Tensor) else pf.full((), x, dtype=d, device=device)
        for x in xs
    ]


def dtype_of_sums(x: Tensor) -> _DType:
    """The dtype that elements of `x` sum up in: bools and ints become ints of 64 bits, unsigned
    ones on a GPU of 32."""
    if x.dtype.category > dt.INTEGER:
        return x.dtype
    return int64 if x.dtype not in UNSIGNED else uint32 if x.device.is_lazy else uint64
