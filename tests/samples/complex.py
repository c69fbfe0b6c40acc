"""Rows of complex tensors and Fourier transforms; their results are real, so that all compares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .row import Row, normal


def row(name: str, call: Callable[..., Any], *specs: Any, **kw: Any) -> Row:
    return Row(name, call, specs or (normal(4, 5), normal(4, 5)), **kw)


def fourier(name: str, **kw: Any) -> Row:
    """A transform of a complex or real input; its parts are told apart by their weights."""

    def call(t: Any, F: Any, x: Any, y: Any) -> Any:
        real = name.removeprefix("i").startswith(("rfft", "hfft")) and name[0] == "r"
        real = real or name.startswith("ih")
        z = getattr(t.fft, name)(x if real else t.complex(x, y), **kw)
        return t.view_as_real(z.resolve_conj()) if z.is_complex() else z

    tag = "_".join(f"{k}{v}".replace(" ", "") for k, v in kw.items())
    return row(f"fft:{name}:{tag}", call)


ROWS: tuple[Row, ...] = (
    row("complex", lambda t, F, x, y: t.view_as_real(t.complex(x, y) * t.complex(y, x))),
    row("real", lambda t, F, x, y: t.real(t.complex(x, y).square())),
    row("imag", lambda t, F, x, y: t.complex(x, y).square().imag),
    row("conj", lambda t, F, x, y: (t.complex(x, y).conj() * t.complex(y, x)).imag * 2),
    row("view_as_real", lambda t, F, x, y: t.view_as_real(t.complex(x, y) * x)),
    row("view_as_complex", lambda t, F, x, y: t.view_as_complex(t.stack([x, y], -1)).imag * y),
    row("polar", lambda t, F, x, y: t.polar(x.exp(), y).imag),
    row("adjoint", lambda t, F, x, y: t.complex(x, y).mH.imag * 2),
    row("fft_c2c", lambda t, F, x, y: t.view_as_real(t.fft.fft(t.complex(x, y), 7, 0))),
    row("fft_r2c", lambda t, F, x, y: t.view_as_real(t.fft.rfft2(x, norm="ortho")) * 2),
    row("fft_c2r", lambda t, F, x, y: t.fft.irfft(t.complex(x, y), 9)),
    *[fourier(n) for n in "ifft rfft irfft hfft ihfft fft2".split()],
    *[fourier(n, norm="ortho") for n in "rfftn irfftn hfft2".split()],
    *[fourier(n, n=4) for n in "fft irfft".split()],
    fourier("irfft", n=7, dim=0, norm="forward"), fourier("ihfft2", norm="forward"),
    row("fftshift", lambda t, F, x: t.fft.ifftshift(t.fft.fftshift(x), 1), normal(4, 5)),
    row("fftfreq", lambda t, F, x, y: t.fft.fftfreq(7, 0.5, device=x.device)
        + t.fft.rfftfreq(13, device=x.device),
        grad=False),
    row("stft", lambda t, F, x, w: t.view_as_real(
        t.stft(x, 8, 3, window=w.abs() + 0.1, center=False, return_complex=True)),
        normal(2, 30), normal(8)),
    row("istft", lambda t, F, x, y: t.istft(
        t.complex(x, y), 8, 2, window=t.ones(8, dtype=x.dtype, device=x.device), length=20),
        normal(2, 5, 12), normal(2, 5, 12), tol=10),
)  # fmt: skip

REFUSED = r"""
t.fft.fft(t.ones(3), 0) -> data points
t.fft.fft(t.ones(3), norm="no") -> normalization mode
t.fft.rfft(t.ones(3) * 1j) -> real input
t.fft.fftn(t.ones(3, 3), dim=(0, 0)) -> unique
t.fft.fftn(t.ones(3), s=(1, 2)) -> only has 1
t.fft.fft(t.ones(3).half()) -> unsupported dtype
t.stft(t.ones(9), 20, center=False, return_complex=True) -> n_fft
t.stft(t.ones(9), 4) -> return_complex
t.stft(t.ones(9), 4, align_to_window=True, return_complex=True) -> align_to_window
t.istft(t.ones(5, 4), 8) -> complex
t.imag(t.ones(2)) -> only supported for complex
t.view_as_complex(t.ones(3)) -> size 2
"""
