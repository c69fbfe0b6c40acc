"""How a tensor prints: as PyTorch's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pyframe.core import dtypes as dt

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

    Args:
        precision: Digits after the point.
        threshold: From how many elements on it is shortened.
        edgeitems: How many are shown at each edge then.
        linewidth: Columns.
        sci_mode: Whether numbers have exponents.

    >>> pf.set_printoptions(precision=2)
    >>> pf.tensor([1 / 3])
    tensor([0.33])
    >>> pf.set_printoptions(profile="default")
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
    most = None if threshold is None else int(min(threshold, 1 << 62))
    given = {"precision": precision, "threshold": most, "edgeitems": edgeitems,
             "linewidth": linewidth}  # fmt: skip
    vars(_options).update({k: v for k, v in given.items() if v is not None}, sci_mode=sci_mode)


def tensor_repr(x: Tensor) -> str:
    """tensor([...], dtype=…, device=…, grad_fn=…), long ones shortened."""
    if x.is_meta:
        parts = ["...", "device='meta'", f"size={tuple(x.shape)}"]
    elif x.numel():
        parts = [_body(x._host())]
    else:
        parts = ["[]"] if x.ndim == 1 else ["[]", f"size={tuple(x.shape)}"]
    floats = dt.get_default_dtype()
    default = (floats, dt.int64, dt.bool_, floats.to_complex())
    empty = not x.numel() and not x.is_meta
    if x.dtype not in default or (empty and x.dtype is not floats):
        parts.append(f"dtype={x.dtype!r}")
    if x.device.lazy and not x.is_meta:
        parts.append(f"device='{x.device}'")
    if x.grad_fn is not None:
        parts.append(f"grad_fn=<{x.grad_fn.name()}>")
    elif x.requires_grad:
        parts.append("requires_grad=True")
    text = "tensor(" + parts[0]
    column = len(text) - text.rfind("\n") + 1
    for part in parts[1:]:
        if column + len(part) + 2 > _options.linewidth:
            text, column = f"{text},\n{' ' * 7}{part}", 7 + len(part)
        else:
            text, column = f"{text}, {part}", column + len(part) + 2
    return text + ")"


def tensor_html(x: Tensor) -> str:
    """For notebooks: shape, dtype and device, what range the values have, and the values."""
    array = np.empty(0) if x.is_meta else x._host()
    said = [str(list(x.shape)), x.dtype.name, str(x.device)]
    if x.grad_fn is not None:
        said.append(f"grad_fn=&lt;{x.grad_fn.name()}&gt;")
    elif x.requires_grad:
        said.append("requires grad")
    if array.size > 1 and array.dtype.kind in "fiu":
        known = array[np.isfinite(array)].astype(np.float64)
        if known.size:
            said.append(f"{known.min():.4g} to {known.max():.4g}, mean {known.mean():.4g}")
        if known.size < array.size:
            said.append(f"<b>{array.size - known.size:,} nan or inf</b>")
    body = _body(array, 0) if array.size else "..." if x.is_meta else "[]"
    return f"<div><b>{type(x).__name__}</b> {' · '.join(said)}<pre>{body}</pre></div>"


def _body(array: np.ndarray, indent: int = 7) -> str:
    short = array.size > _options.threshold
    shown = _edges(array) if short else array
    if array.dtype.kind == "c":
        (real, left), (imag, right) = _float_format(shown.real), _float_format(shown.imag)
        width = left + right + 1

        def both(v: Any) -> str:
            text = imag(v.imag).lstrip()
            return f"{real(v.real)}{text if text[0] in '+-' else '+' + text}j"

        write: Callable[[Any], str] = both
    elif array.dtype.kind == "f":
        write, width = _float_format(shown)
    else:
        width = max(len(str(v)) for v in shown.flat)
        write = functools.partial(_padded, width)
    return _nested(array, indent, short, write, width)


def _padded(width: int, v: Any) -> str:
    return str(v).rjust(width)


def _edges(array: np.ndarray) -> np.ndarray:
    """What a shortened array shows."""
    k = _options.edgeitems
    for d, n in enumerate(array.shape):
        if n > 2 * k:
            array = np.take(array, [*range(k), *range(n - k, n)], d)
    return array


def _nested(
    array: np.ndarray, indent: int, short: bool, write: Callable[[Any], str], width: int
) -> str:
    """The elements in brackets, as many in a line as there is room for; `indent` columns are left
    of it."""
    if not array.ndim:
        return write(array[()])
    k, n = _options.edgeitems, len(array)
    cut = short and n > 2 * k
    rows = [*array[:k], None, *array[n - k :]] if cut else list(array)
    start = "\n" + " " * (indent + 1)  # of a further line
    if array.ndim > 1:
        texts = ["..." if r is None else _nested(r, indent + 1, short, write, width) for r in rows]
        return "[" + ("," + "\n" * (array.ndim - 2) + start).join(texts) + "]"
    texts = [" ..." if v is None else write(v) for v in rows]
    m = max(1, (_options.linewidth - indent) // (width + 2))
    lines = [", ".join(texts[i : i + m]) for i in range(0, len(texts), m)]
    return "[" + ("," + start).join(lines) + "]"


def _float_format(array: np.ndarray) -> tuple[Callable[[Any], str], int]:
    """How each of these floats is written, and in how many columns."""
    size = np.abs(array[np.isfinite(array)].astype(np.float64))
    size = size[size != 0]
    digits, e = _options.precision, _options.sci_mode
    if e is None:
        e = bool(size.size) and bool(
            size.max() / size.min() > 1000 or size.max() > 1e8 or size.min() < 1e-4
        )
    whole = bool(np.all(size == np.floor(size)))

    def text(v: float) -> str:
        if e and size.size:
            return f"{v:.{digits}e}"
        if whole:
            return f"{v:.0f}." if np.isfinite(v) else str(v)
        return f"{v:.{digits}f}"

    used = [float(v) for v in array.flat if np.isfinite(v) and v != 0]
    width = max((len(text(v)) for v in used), default=1)
    return lambda v: text(float(v)).rjust(width), width
