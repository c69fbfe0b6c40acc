"""Complex numbers and Fourier transforms on each device, compared with PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from compared import alike

import pyframe as pf

TRANSFORMS = [  # long ones of those that have kernels of their own
    *((name, n) for name in ("fft", "irfft", "rfft") for n in (1, 2, 3, 7, 12, 97, 128, 1000)),
    *((name, n) for name in ("ifft", "hfft", "ihfft") for n in (1, 2, 7, 12)), ("fft", 1009),
]  # fmt: skip
NORMS = ["backward", "ortho", "forward"]


def numbers(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    parts = [rng.standard_normal(shape).astype(np.float32) for _ in range(2)]
    return np.asarray(parts[0] + 1j * parts[1], np.complex64)


def both(call: Callable[..., Any], device: str, *arrays: np.ndarray, grad: bool = False) -> None:
    """`call` gives the same with both libraries, and so do the gradients of its weighted sum."""
    found = []
    for t in (pf, torch):
        xs: Any = [t.from_numpy(a) for a in arrays]
        xs = [x.to(device) if t is pf else x for x in xs]
        xs = [x.requires_grad_() if grad else x for x in xs]
        out = call(t, *xs)
        out = list(out) if isinstance(out, tuple) else [out]
        if grad:
            seed: Any = t.from_numpy(np.cos(np.arange(out[0].numel(), dtype=np.float32)))
            seed = seed.reshape(out[0].shape).to(out[0].device, out[0].dtype)
            out += t.autograd.grad(out[0], xs, seed * (1 + 0.5j if seed.is_complex() else 1))
        found.append(out)
    assert all(str(x.device) == device for x in found[0])
    for got, want in zip(*found, strict=True):
        want = want.resolve_conj()
        size = float(want.detach().abs().max()) if want.numel() else 0.0
        alike(got, want, 1e-5, 2e-6 * max(size, 1.0))


PROGRAMS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda t, x, y: (x * y + (1 - 2j)) / (y.conj() - 3) - x**2 + 2.5**y,
    "parts": lambda t, x, y: x.real * y.imag + x.angle() - (x * y).abs(),
    "chosen": lambda t, x, y: t.where(x.real > y.imag, x, y * 1j)[1:, ::2].flip(0).mT,
    "reduced": lambda t, x, y: (
        x.sum() + y.mean(0) * (x * y).sum(1, keepdim=True) + x.prod(-1).sum()
    ),
    "scanned": lambda t, x, y: x.cumsum(0) * y.cumprod(1),
    "rows": lambda t, x, y: t.cat([x, y])[t.tensor([5, 0, 0, 3], device=x.device)],
    "product": lambda t, x, y: x @ y.mH @ x,
    "products": lambda t, x, y: t.einsum("ij,kj,il->jkl", x, y, y) @ t.outer(x[0], y[1]),
    "polar": lambda t, x, y: t.polar(x.abs(), y.angle()) + t.complex(y.imag, x.real),
    "views": lambda t, x, y: t.view_as_complex(t.view_as_real(x * y).flip(0) * 2).imag,
    "norm": lambda t, x, y: t.linalg.vector_norm(x * y, dim=0) + x.std() + y.sgn().real,
    "padded": lambda t, x, y: t.nn.functional.pad(x * y, (1, 2), value=1.5) * 1j,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, device: str) -> None:
    both(PROGRAMS[name], device, numbers(4, 5), numbers(5, 4).T.copy(), grad=True)


def test_writes_through_parts(device: str) -> None:
    def program(t: Any, x: Any, y: Any) -> Any:
        z = x.clone()
        real, pairs = z.real, t.view_as_real(z)
        z.imag[1:] = y.imag[:-1]
        real.mul_(2)
        pairs[0, :, 1] = 7
        z[2] = 1j
        z.view(-1)[:3] += y.reshape(-1)[:3]
        whole = t.view_as_real(y).clone()
        joined = t.view_as_complex(whole)
        joined[1] *= 2j
        assert (joined[1:].stride(), joined[1:].storage_offset()) == ((y.shape[1], 1), y.shape[1])
        assert (real.stride(), real.storage_offset()) == ((2 * z.shape[1], 2), 0)
        assert (z.imag.storage_offset(), pairs.stride()) == (1, (2 * z.shape[1], 2, 1))
        assert real.view(-1).shape == (z.numel(),)
        return z, real + 0, pairs.sum(-1), whole

    both(program, device, numbers(4, 5), numbers(4, 5))


def test_parts_of_examples(device: str) -> None:
    def example(t: Any, z: Any) -> Any:
        z = z.clone()
        real = z.real
        z.mul_(2j)
        return real + t.view_as_real(t.fft.fft(z)).sum(-1) * z.imag.sum()

    both(lambda t, x: t.vmap(lambda z: example(t, z))(x), device, numbers(3, 4), grad=True)


@pytest.mark.parametrize(("name", "n"), TRANSFORMS)
def test_transforms(name: str, n: int, device: str) -> None:
    def call(t: Any, x: Any) -> Any:
        norm = NORMS[(n + len(name)) % 3]
        x = x.real if name in ("rfft", "ihfft") else x
        return getattr(t.fft, name)(x, n if name in ("irfft", "hfft") else None, norm=norm)

    both(call, device, numbers(2, n), grad=n < 20)


@pytest.mark.parametrize("name", ["fft2", "irfft2", "ihfft2", "rfftn", "hfftn"])
def test_transforms_of_dims(name: str, device: str) -> None:
    def call(t: Any, x: Any) -> Any:
        x = x.real if name in ("rfftn", "ihfft2") else x
        return getattr(t.fft, name)(x, s=(5, 8), dim=(2, 0), norm="ortho")

    both(call, device, numbers(4, 2, 5), grad=True)


def test_no_numbers(device: str) -> None:
    none = pf.from_numpy(numbers(0, 3)).to(device)
    shapes = [t.shape for t in (pf.fft.fft(none), pf.fft.rfft(none.real), pf.fft.irfft(none, 4))]
    assert shapes == [(0, 3), (0, 2), (0, 4)]
    both(lambda t, x: (x.sum(), x @ x.mT, t.view_as_real(x), x * 2), device, numbers(2, 0))


def test_a_spectrogram(device: str) -> None:
    def call(t: Any, x: Any) -> Any:
        window = t.hann_window(400, device=x.device)
        z = t.stft(x.real, 400, 160, window=window, return_complex=True)
        return z.abs().square(), t.istft(z * 2, 400, 160, window=window)

    both(call, device, numbers(2, 1200), grad=True)
    both(lambda t, x: t.istft(x, 10, window=x.real.new_ones(10)), device, numbers(10, 3), grad=True)


@pytest.mark.parametrize("align", [None, False, True])
def test_frames_begin_where_they_should(align: bool | None, device: str) -> None:
    def call(t: Any, x: Any) -> Any:
        window = t.hann_window(40, device=x.device)
        return t.stft(
            x.real, 100, 30, 40, window, center=False, align_to_window=align, return_complex=True
        )

    both(call, device, numbers(2, 300))


def test_compiled_as_eager(gpu: str) -> None:
    def step(x: pf.Tensor, y: pf.Tensor) -> tuple[pf.Tensor, ...]:
        z = pf.fft.irfft(pf.fft.rfft(y) * (x[0] * 1j), 12) + y
        (g,) = pf.autograd.grad(z.square().sum(), y)
        x.imag.add_(0.5)
        return z, g, x @ x.mH, x.real

    compiled = pf.compile(step)
    x, y = (pf.from_numpy(numbers(3, 7)).to(gpu), pf.from_numpy(numbers(3, 12).real.copy()).to(gpu))
    y.requires_grad_()
    other = x.clone()
    for _ in range(3):
        for got, want in zip(compiled(other, y), step(x, y), strict=True):
            alike(got, want, 1e-6, 1e-6)
        alike(other, x, 0, 0)
    assert (compiled.captured, compiled.replayed) == (1, 2)


def test_parts_of_arguments(gpu: str) -> None:
    """A replay reads the part that it is given, wherever that lies."""
    twice = pf.compile(lambda x: x * 2)
    z = pf.from_numpy(numbers(3, 4)).to(gpu)
    for part in (z.real, z.imag, z[1:].imag, pf.view_as_real(z)[0], z.imag, z.real):
        alike(twice(part), part.clone() * 2, 0, 0)


def test_dispatches(gpu: str) -> None:
    """Two kernels for each factor of the length, and the products that a convolution takes."""
    stats = pf.device(gpu).backend.stats
    for n, most in ((64, 2), (1024, 4), (1009, 9)):
        x = pf.from_numpy(numbers(2, n)).to(gpu)
        x.real.sum().item()
        before = stats.dispatches
        pf.fft.fft(x).cpu()
        assert stats.dispatches - before <= most
