"""How a tensor prints: as PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pyframe import dtypes as dt

if TYPE_CHECKING:
    from pyframe.tensor import Tensor


class _Options:
    precision, threshold, edgeitems, linewidth = 4, 1000, 3, 80
    sci_mode: bool | None = None


_options = _Options()


def set_printoptions(
    precision: int | None = None, threshold: float | None = None, edgeitems: int | None = None,
    linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None,
) -> None:  # fmt: skip
    """How tensors print: digits after the point, from how many elements on they are shortened (and
    to how many at each edge), columns, and whether numbers have exponents (None: as needed).

    `profile` is 'default', 'short' (2 digits, 2 at each edge) or 'full' (never shortened).
    """
    if profile not in (None, "default", "short", "full"):
        raise ValueError(
            f"set_printoptions: profile must be 'default', 'short' or 'full', got {profile!r}"
        )
    if profile is not None:
        short = profile == "short"
        _options.precision, _options.edgeitems, _options.linewidth = (2, 2, 80) if short else (
            4, 3, 80
        )  # fmt: skip
        _options.threshold = 1 << 62 if profile == "full" else 1000
    if precision is not None:
        _options.precision = precision
    if threshold is not None:
        _options.threshold = int(min(threshold, 1 << 62))
    if edgeitems is not None:
        _options.edgeitems = edgeitems
    if linewidth is not None:
        _options.linewidth = linewidth
    _options.sci_mode = sci_mode


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
        array, separator=", ", prefix="tensor(", formatter=formatter,
        threshold=_options.threshold, edgeitems=_options.edgeitems,
        max_line_width=_options.linewidth,
    )  # fmt: skip


def _float_format(array: np.ndarray) -> Callable[[Any], str]:
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    nonzero = finite[finite != 0]
    digits = _options.precision
    if _options.sci_mode is not None:
        spec = f".{digits}e" if _options.sci_mode else f".{digits}f"
    elif np.all(finite == np.floor(finite)) and (not nonzero.size or finite.max() < 1e8):
        spec = "whole"
    elif nonzero.size and (
        nonzero.max() / nonzero.min() > 1000 or nonzero.max() > 1e8 or nonzero.min() < 1e-4
    ):
        spec = f".{digits}e"
    else:
        spec = f".{digits}f"

    def text(v: float) -> str:
        if spec != "whole":
            return f"{v:{spec}}"
        return f"{v:.0f}." if np.isfinite(v) else str(v)

    shown = array if array.size <= 1000 else np.r_[array.ravel()[:50], array.ravel()[-50:]]
    width = max((len(text(float(v))) for v in shown.ravel() if np.isfinite(v)), default=1)
    return lambda v: text(float(v)).rjust(width)
