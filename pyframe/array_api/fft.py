"""The standard's Fourier transforms: those of pyframe.fft, with `axis` for `dim`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyframe as pf
from pyframe.core.dtypes import dtype as _DType
from pyframe.tensor import Tensor

_ALONG = "fft ifft rfft irfft hfft ihfft".split()
_OVER = "fftn ifftn rfftn irfftn".split()
__all__ = [*_ALONG, *_OVER, "fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _along(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(
        x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
    ) -> Tensor:
        return fn(x, n, axis, norm)

    return _as(fn, run)


def _over(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(
        x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
        norm: str = "backward",
    ) -> Tensor:  # fmt: skip
        return fn(x, s, axes, norm)

    return _as(fn, run)


def _as(fn: Callable[..., Tensor], run: Any) -> Any:
    run.__name__ = run.__qualname__ = fn.__name__
    run.__doc__ = (fn.__doc__ or "").partition("\n\nArgs:")[0]
    return run


globals().update({name: _along(getattr(pf.fft, name)) for name in _ALONG})
globals().update({name: _over(getattr(pf.fft, name)) for name in _OVER})


def fftfreq(
    n: int, /, *, d: float = 1.0, dtype: _DType | None = None, device: Any = None
) -> Tensor:
    """The frequencies of `fft` for samples `d` apart."""
    return pf.fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: _DType | None = None, device: Any = None
) -> Tensor:
    """The frequencies of `rfft` for samples `d` apart."""
    return pf.fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Moves frequency zero to the middle."""
    return pf.fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Takes `fftshift` back."""
    return pf.fft.ifftshift(x, axes)
