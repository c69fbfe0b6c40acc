"""Discrete Fourier transforms under the names of torch.fft; see `pyframe.ops.linalg.fft`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyframe.ops.api.public import as_functions as _as_functions
from pyframe.ops.linalg import fft as _fft

if TYPE_CHECKING:
    from pyframe._stubs.fft import *

globals().update(
    _as_functions(
        {
            name: getattr(_fft, name)
            for name in """fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn hfftn ihfftn fft2
            ifft2 rfft2 irfft2 hfft2 ihfft2 fftfreq rfftfreq fftshift ifftshift""".split()
        }
    )
)
