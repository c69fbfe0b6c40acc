# Made by scripts/make_stubs; what it says is changed where the function is written.
"""What is in `pyframe.fft` and written nowhere."""

from typing import Any

from pyframe.core.dtypes import dtype
from pyframe.tensor import Tensor

def fft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The discrete Fourier transform of a dim, cut or filled with zeros to n."""

def fft2(
    input: Tensor,
    s: Any = None,
    dim: Any = ...,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`fftn` of the last two dims by default."""

def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: dtype | type | None = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The frequencies of `fft`'s n results, in cycles per unit of the sample spacing d."""

def fftn(
    input: Tensor,
    s: Any = None,
    dim: Any = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`fft` of several dims (all by default), of sizes s."""

def fftshift(input: Tensor, dim: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Dims rolled so that frequency 0 lies in the middle."""

def hfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`fft` of a Hermitian input given by its first half: real."""

def hfft2(
    input: Tensor,
    s: Any = None,
    dim: Any = ...,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`hfftn` of the last two dims by default."""

def hfftn(
    input: Tensor,
    s: Any = None,
    dim: Any = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`fftn` of an input that is Hermitian in the last dim, given by its first half: real."""

def ifft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `fft`."""

def ifft2(
    input: Tensor,
    s: Any = None,
    dim: Any = ...,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`ifftn` of the last two dims by default."""

def ifftn(
    input: Tensor,
    s: Any = None,
    dim: Any = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `fftn`."""

def ifftshift(input: Tensor, dim: Any = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of `fftshift`."""

def ihfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `hfft`: the first half of a Hermitian result."""

def ihfft2(
    input: Tensor,
    s: Any = None,
    dim: Any = ...,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`ihfftn` of the last two dims by default."""

def ihfftn(
    input: Tensor,
    s: Any = None,
    dim: Any = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `hfftn`."""

def irfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `rfft`: real, of length n (2 * (size - 1) by default)."""

def irfft2(
    input: Tensor,
    s: Any = None,
    dim: Any = ...,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`irfftn` of the last two dims by default."""

def irfftn(
    input: Tensor,
    s: Any = None,
    dim: Any = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `rfftn`: real."""

def rfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`fft` of a real input: frequencies 0 .. n / 2 only."""

def rfft2(
    input: Tensor,
    s: Any = None,
    dim: Any = ...,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`rfftn` of the last two dims by default."""

def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: dtype | type | None = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The frequencies of `rfft`'s n // 2 + 1 results."""

def rfftn(
    input: Tensor,
    s: Any = None,
    dim: Any = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`fftn` of a real input: of the last dim only frequencies 0 .. n / 2."""
