"""Windows of `M` points for spectra, computed by the host in float64 (torch.signal.windows)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypedDict, Unpack

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.devices import device as Device, resolve
from pyframe.core.dispatch import check_dtype
from pyframe.ops.api.public import public
from pyframe.ops.math import mathfn
from pyframe.tensor import Tensor, upload


class WindowOptions(TypedDict, total=False):
    """What all functions here take by name."""

    dtype: dt.dtype | None
    layout: Any
    device: Device | str | None
    requires_grad: bool


class _OldOptions(WindowOptions, total=False):
    pin_memory: bool | None


def _window(
    name: str, M: int, values: Callable[[np.ndarray, float], Any], sym: bool, *,
    dtype: dt.dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, one: bool = True,
) -> Tensor:  # fmt: skip
    """values(0..M-1, length of the period) as a tensor; a single point is 1 if `one`."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and "strided" not in str(layout):
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    d = dtype or dt.get_default_dtype()
    if d not in (dt.float32, dt.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {d}")
    target = resolve(device)
    check_dtype(name, d, target)
    dt.check_room(M)
    k = np.arange(M, dtype=np.float64)
    if M == 1 and one:
        data = np.ones(1)
    else:
        data = values(k, float(M - 1 if sym or M == 1 else M)) if M else k
    out = upload(data.astype(d.numpy), target)
    return out.requires_grad_() if requires_grad else out


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, **kw: Unpack[WindowOptions]
) -> Tensor:
    """sum of (-1)^i a[i] cos(2 pi i k / period)."""
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    terms = list(a)
    if not terms:
        raise ValueError("Coefficients cannot be empty")

    def values(k: np.ndarray, period: float) -> Any:
        if not all(isinstance(c, (int, float, np.number)) for c in terms):
            raise TypeError(f"general_cosine: the coefficients must be numbers, got {a!r}")
        turn = 2 * np.pi * k / period
        return sum((-1) ** i * c * np.cos(i * turn) for i, c in enumerate(terms))

    return _window("general_cosine", M, values, sym, **kw)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, **kw: Unpack[WindowOptions]
) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi k / period)."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **kw)


def _cosines(name: str, doc: str, *a: float) -> Callable[..., Tensor]:
    def run(M: int, *, sym: bool = True, **kw: Unpack[WindowOptions]) -> Tensor:
        return general_cosine(M, a=a, sym=sym, **kw)

    run.__name__, run.__doc__ = name, doc
    return run


hamming = _cosines(
    "hamming", "The Hamming window: general_hamming with alpha 0.54.", 0.54, 1 - 0.54
)
hann = _cosines("hann", "The Hann window: general_hamming with alpha 0.5.", 0.5, 0.5)
blackman = _cosines("blackman", "The Blackman window.", 0.42, 0.5, 0.08)
nuttall = _cosines(
    "nuttall", "Nuttall's minimal 4-term Blackman-Harris window.",
    0.3635819, 0.4891775, 0.1365995, 0.0106411,
)  # fmt: skip


def bartlett(M: int, *, sym: bool = True, **kw: Unpack[WindowOptions]) -> Tensor:
    """The triangle 1 - |2 k / period - 1|."""
    return _window("bartlett", M, lambda k, n: 1 - np.abs(2 * k / n - 1), sym, **kw)


def cosine(M: int, *, sym: bool = True, **kw: Unpack[WindowOptions]) -> Tensor:
    """sin(pi (k + 1/2) / (period + 1))."""
    return _window(
        "cosine", M, lambda k, n: np.sin(np.pi * (k + 0.5) / (n + 1)), sym, one=False, **kw
    )


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True,
    **kw: Unpack[WindowOptions],
) -> Tensor:  # fmt: skip
    """exp(-|k - center| / tau), whose center is the middle unless `sym=False` says another."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def values(k: np.ndarray, period: float) -> Any:
        return np.exp(-np.abs(k - (period / 2 if center is None else center)) / tau)

    return _window("exponential", M, values, sym, one=False, **kw)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **kw: Unpack[WindowOptions]) -> Tensor:
    """exp(-((k - period / 2) / std)^2 / 2)."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _window(
        "gaussian", M, lambda k, n: np.exp(-0.5 * ((k - n / 2) / std) ** 2), sym, one=False, **kw
    )


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **kw: Unpack[WindowOptions]) -> Tensor:
    """i0(beta sqrt(1 - (2 k / period - 1)^2)) / i0(beta)."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def values(k: np.ndarray, period: float) -> Any:
        x = beta * np.sqrt(np.maximum(1 - (2 * k / period - 1) ** 2, 0))
        return mathfn.i0e(x) / mathfn.i0e(beta) * np.exp(x - beta)

    return _window("kaiser", M, values, sym, **kw)


# --- torch's older names: of one period unless periodic=False


def _older(
    name: str, new: Callable[..., Tensor], window_length: int, periodic: bool, kw: Any
) -> Tensor:
    """pf.`name` by the `new` function; float16 and bfloat16 come by conversion."""
    kw.pop("pin_memory", None)
    want = kw.get("dtype")
    d = want or dt.get_default_dtype()
    if d.category != dt.FLOAT:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {d}")
    if window_length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got {window_length}")
    kw["dtype"] = d if d is dt.float64 else dt.float32
    out = new(window_length, sym=not periodic, **kw)
    return out if want is None else out.to(want)


def _old(name: str, new: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(window_length: int, periodic: bool = True, **kw: Unpack[_OldOptions]) -> Tensor:
        return _older(name, new, window_length, periodic, kw)

    run.__name__ = name
    return run


hann_window = _old("hann_window", hann)
blackman_window = _old("blackman_window", blackman)
bartlett_window = _old("bartlett_window", bartlett)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46,
    **kw: Unpack[_OldOptions],
) -> Tensor:  # fmt: skip
    """alpha - beta cos(2 pi k / period), of one period unless `periodic=False`."""
    new = functools.partial(general_cosine, a=[alpha, beta])
    return _older("hamming_window", new, window_length, periodic, kw)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, **kw: Unpack[_OldOptions]
) -> Tensor:
    """signal.windows.kaiser, of one period unless `periodic=False`."""
    new = functools.partial(kaiser, beta=beta)
    return _older("kaiser_window", new, window_length, periodic, kw)


public(
    globals(), functions="hann_window hamming_window blackman_window bartlett_window kaiser_window",
)  # fmt: skip
