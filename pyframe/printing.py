"""How a tensor prints: as PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pyframe import dtypes as dt

if TYPE_CHECKING:
    from pyframe.tensor import Tensor


def tensor_repr(x: Tensor) -> str:
    """tensor([...], dtype=…, device=…, grad_fn=…), long ones shortened."""
    array = x._host()
    if x.numel():
        body = _body(array)
    else:
        body = "[]" if x.ndim == 1 else f"[], size={tuple(x.shape)}"
    parts = [body]
    default = (dt.get_default_dtype(), dt.int64, dt.bool_)
    if x.dtype not in default or (not x.numel() and x.dtype is not default[0]):
        parts.append(f"dtype={x.dtype!r}")
    if x.device.lazy:
        parts.append(f"device='{x.device}'")
    if x.grad_fn is not None:
        parts.append(f"grad_fn=<{x.grad_fn.name()}>")
    elif x.requires_grad:
        parts.append("requires_grad=True")
    return f"tensor({', '.join(parts)})"


def _body(array: np.ndarray) -> str:
    if array.dtype.kind == "b":
        formatter = {"bool": lambda v: str(bool(v)).rjust(5)}
    elif array.dtype.kind == "f":
        formatter = {"float_kind": _float_format(array)}
    else:
        width = max(len(str(array.max())), len(str(array.min())))
        formatter = {"int": lambda v: str(v).rjust(width)}
    if array.ndim == 0:
        return next(iter(formatter.values()))(array[()]).strip()
    return np.array2string(
        array, separator=", ", prefix="tensor(", threshold=1000, edgeitems=3, formatter=formatter
    )


def _float_format(array: np.ndarray) -> Callable[[Any], str]:
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    nonzero = finite[finite != 0]
    if np.all(finite == np.floor(finite)) and (not nonzero.size or finite.max() < 1e8):
        spec = "whole"
    elif nonzero.size and (
        nonzero.max() / nonzero.min() > 1000 or nonzero.max() > 1e8 or nonzero.min() < 1e-4
    ):
        spec = ".4e"
    else:
        spec = ".4f"

    def text(v: float) -> str:
        if spec != "whole":
            return f"{v:{spec}}"
        return f"{v:.0f}." if np.isfinite(v) else str(v)

    shown = array if array.size <= 1000 else np.r_[array.ravel()[:50], array.ravel()[-50:]]
    width = max((len(text(float(v))) for v in shown.ravel() if np.isfinite(v)), default=1)
    return lambda v: text(float(v)).rjust(width)
