"""torch.fft: discrete Fourier transforms.

Three ops, each linear, so that their gradients are one another: complex to complex, real to the
non-redundant half, and that half to real. NumPy computes them on the CPU; on the GPU they are
products with matrices of roots of unity, one for each factor of the length (Bailey's four steps,
1990), or a convolution where it has none (Bluestein 1970).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.devices import resolve
from pyframe.core.dispatch import apply, can_read_value
from pyframe.core.op import EXTERN, Op
from pyframe.ops.api.batching_rules import along_dims
from pyframe.ops.api.public import public
from pyframe.ops.linalg.matmul import matmul
from pyframe.ops.math import complex as cx, elementwise as el
from pyframe.ops.random.creation import ones
from pyframe.ops.shape import arrange, join, movement as mv
from pyframe.ops.spatial import sliding
from pyframe.ops.spatial.resample import pad
from pyframe.tensor import Tensor, normalize_dim, upload

Axes = tuple[int, ...]

# Forward and backward transforms share one scale where one is the other's adjoint.
_SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


ONE_PRODUCT_LENGTH = 64  # so many numbers are transformed by one product
LARGE_PRIME = 256  # and so many where they are a prime


def _half(shape: tuple[int, ...], d: int, n: int) -> tuple[int, ...]:
    return (*shape[:d], n, *shape[d + 1 :])


def _c2c_numpy(x: np.ndarray, axes: Axes, norm: str, inverse: bool) -> np.ndarray:
    transform = np.fft.ifftn if inverse else np.fft.fftn
    return transform(x, axes=axes, norm=norm) if axes else x.copy()


# --- by products, on the GPU


def _roots(rows: int, columns: int, n: int, sign: int) -> np.ndarray:
    """exp(sign * 2 pi i j k / n) of row j and column k."""
    turns = np.outer(np.arange(rows), np.arange(columns)) % n
    return np.exp(turns * (sign * 2j * np.pi / n))


def _times(x: Tensor, matrix: np.ndarray, turned: int = 0) -> Tensor:
    """x @ matrix, of a real or complex x (…, n), as a product of real numbers, which writes its
    last `turned` dims in the opposite order."""
    table = np.stack([matrix.real, matrix.imag], -1)
    if x.dtype.category == dt.COMPLEX:
        table = np.stack([table, np.stack([-matrix.imag, matrix.real], -1)], 1)
        x = cx.view_as_real(x).reshape((*x.shape[:-1], 2 * x.shape[-1]))
    n = matrix.shape[1]
    out = matmul(x, _constant(table.reshape(-1, 2 * n), x)).reshape((*x.shape[:-1], n, 2))
    return cx.view_as_complex(el.copy(_turned(out, turned, 1)) if turned else out)


def _turned(x: Tensor, dims: int, behind: int = 0) -> Tensor:
    """The last dims, but for those `behind` them, in the opposite order."""
    end = x.ndim - behind
    order = (*range(end - dims), *range(end - 1, end - dims - 1, -1), *range(end, x.ndim))
    return mv.permute(x, order)


def _constant(array: np.ndarray, x: Tensor) -> Tensor:
    """An array beside `x`, in its precision."""
    d = x.dtype.to_complex() if array.dtype.kind == "c" else x.dtype.to_real()
    return upload(array.astype(d.numpy), x.device)


def _along_last(x: Tensor, sign: int, scale: float, kept: int | None = None) -> Tensor:
    """scale * the transform along the last dim, of which the first `kept` are given."""
    n, lead = int(x.shape[-1]), x.shape[:-1]
    kept = n if kept is None else kept
    rest, factors = n, 0  # what is to be transformed, and into how many others it is cut
    while True:
        first = min(
            (k for k in range(1, ONE_PRODUCT_LENGTH + 1) if rest % k == 0),
            key=lambda k: max(k, rest // k),
        )
        if rest <= ONE_PRODUCT_LENGTH or first == 1:
            break
        rest //= first
        x = mv.transpose(x.reshape((*x.shape[:-1], first, rest)), -1, -2)
        x = _times(x, scale * _roots(first, first, first, sign))
        x = mv.transpose(x * _constant(_roots(rest, first, rest * first, sign), x), -1, -2)
        factors, scale = factors + 1, 1.0
    turned = factors + 1 if factors else 0
    if rest <= LARGE_PRIME:
        out = _times(x, scale * _roots(rest, rest if factors else kept, rest, sign), turned)
    else:
        out = _turned(_by_convolution(x, sign, scale), turned)
    out = out.reshape((*lead, math.prod(out.shape[len(lead) :])))
    return out if out.shape[-1] == kept else out[..., :kept]


def _by_convolution(x: Tensor, sign: int, scale: float) -> Tensor:
    """The same where nothing divides n: as 2 j k = j^2 + k^2 - (k - j)^2, it is a convolution,
    which is done by transforms of a length that has small factors."""
    n = x.shape[-1]
    size = next(m for m in itertools.count(2 * n - 1) if 30**30 % m == 0)
    chirp = np.exp(np.arange(n) ** 2 % (2 * n) * (sign * 1j * np.pi / n))
    other = np.zeros(size, complex)
    other[:n] = chirp.conj()
    other[1 - n :] = other[n - 1 : 0 : -1]
    turn = _constant(chirp, x)
    out = _along_last(_resized(x * turn, x.ndim - 1, size), -1, 1.0)
    out = _along_last(out * _constant(np.fft.fft(other) * (scale / size), x), 1, 1.0, n)
    return out * turn


def _along(x: Tensor, d: int, norm: str, inverse: bool, kept: int | None = None) -> Tensor:
    """The transform of dim d, which `norm` scales."""
    n = x.shape[d]
    scaled = norm == ("backward" if inverse else "forward")
    scale = 1 / n if scaled else n**-0.5 if norm == "ortho" else 1.0
    out = _along_last(mv.transpose(x, d, -1), 1 if inverse else -1, scale, kept)
    return mv.transpose(out, d, -1)


def _c2c(x: Tensor, axes: Axes, norm: str, inverse: bool) -> Tensor:
    for d in axes:
        x = _along(x, d, norm, inverse)
    return x


def _r2c(x: Tensor, axes: Axes, norm: str) -> Tensor:
    half = _along(x, axes[-1], norm, False, x.shape[axes[-1]] // 2 + 1)
    return _c2c(half, axes[:-1], norm, False)


def _c2r(x: Tensor, axes: Axes, norm: str, n: int) -> Tensor:
    x = mv.transpose(_c2c(x, axes[:-1], norm, True), axes[-1], -1)
    rest = cx.conj(mv.flip(x[..., 1 : n - x.shape[-1] + 1], -1))  # of what is Hermitian
    x = mv.transpose(join.cat([x, rest], -1), axes[-1], -1)
    return cx.real(_along(x, axes[-1], norm, True))


# --- the ops

c2c_op: Op = Op(
    "fft_c2c", EXTERN, "x", "axes norm inverse", infer=lambda x, *a: (x.shape, x.dtype),
    numpy=_c2c_numpy, fallback=_c2c, batch=along_dims,
    x=lambda g, axes, norm, inverse: apply(c2c_op, (g,), (axes, _SWAPPED[norm], not inverse)),
)  # fmt: skip
r2c_op: Op = Op(
    "fft_r2c", EXTERN, "x", "axes norm", batch=along_dims,
    infer=lambda x, axes, norm: (
        _half(x.shape, axes[-1], x.shape[axes[-1]] // 2 + 1), x.dtype.to_complex()),
    numpy=lambda x, axes, norm: np.fft.rfftn(x, axes=axes, norm=norm), fallback=_r2c,
    x=lambda g, x_spec, axes, norm: cx.real(
        apply(c2c_op, (_resized(g, axes[-1], x_spec.shape[axes[-1]]),),
              (axes, _SWAPPED[norm], True))),
)  # fmt: skip
c2r_op: Op = Op(
    "fft_c2r", EXTERN, "x", "axes norm n", batch=along_dims,
    infer=lambda x, axes, norm, n: (_half(x.shape, axes[-1], n), x.dtype.to_real()),
    numpy=lambda x, axes, norm, n: np.fft.irfftn(
        x, [*[x.shape[d] for d in axes[:-1]], n], axes=axes, norm=norm),
    fallback=_c2r,
    x=lambda g, axes, norm: _doubled(
        apply(r2c_op, (g,), (axes, _SWAPPED[norm])), axes[-1], g.shape[axes[-1]]),
)  # fmt: skip
c2c_op.decomposes_when_called = True
r2c_op.decomposes_when_called = c2r_op.decomposes_when_called = True


def _doubled(half: Tensor, d: int, n: int) -> Tensor:
    """Frequencies that stand for two (all but 0 and n / 2) count twice."""
    twice = n - half.shape[d]
    weights = np.ones(half.shape[d])
    weights[1 : 1 + twice] = 2
    shape = [1] * half.ndim
    shape[d] = -1
    weight = upload(weights.astype(half.dtype.to_real().numpy), half.device)
    return half * weight.reshape(shape)


def _resized(x: Tensor, d: int, n: int) -> Tensor:
    """`x` cut or filled with zeros at the end of a dim."""
    have = x.shape[d]
    if have == n:
        return x
    return mv.pad(x, tuple((0, n - have) if i == d else (0, 0) for i in range(x.ndim)))


def _input(name: str, x: Tensor, kind: str) -> Tensor:
    """The input as a float ('real') or as complex."""
    d = x.dtype
    if kind == "real" and d.category == dt.COMPLEX:
        raise RuntimeError(f"{name} expects a real input tensor, but got {d.name}")
    if d.category < dt.FLOAT:
        d = dt.get_default_dtype()
    if d.itemsize == 2:
        raise RuntimeError(f"{name}: unsupported dtype {d.name}; use float32 or float64")
    return x.to(d if kind == "real" else d.to_complex())


def _norm(name: str, norm: Any) -> str:
    if norm is None:
        return "backward"
    if norm not in _SWAPPED:
        raise RuntimeError(
            f"{name}: Invalid normalization mode: {norm!r}; use 'backward', 'ortho' or 'forward'"
        )
    return str(norm)


def _size(name: str, n: int) -> int:
    if n < 1:
        raise RuntimeError(f"{name}: Invalid number of data points ({n}) specified")
    return n


def _one(name: str, x: Tensor, dim: int) -> int:
    if x.ndim == 0:
        raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    return normalize_dim(dim, x.ndim)


def _many(name: str, x: Tensor, s: Any, dim: Any) -> tuple[Axes, list[int | None]]:
    """The dims to transform and the size of each (None: as it is)."""
    if s is not None:
        s = [s] if isinstance(s, int) else list(s)
    if dim is not None:
        dims = [dim] if isinstance(dim, int) else list(dim)
    elif s is None:
        dims = list(range(x.ndim))
    else:
        if len(s) > x.ndim:
            raise RuntimeError(
                f"{name}: Got shape with {len(s)} values but input tensor only has {x.ndim} "
                "dimensions."
            )
        dims = list(range(x.ndim - len(s), x.ndim))
    axes = tuple(normalize_dim(d, x.ndim) for d in dims)
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"{name}: FFT dims must be unique, got {dims}")
    if s is not None and len(s) != len(axes):
        raise RuntimeError(
            f"{name}: When given, dim and shape arguments must have the same length, got "
            f"{len(axes)} and {len(s)}"
        )
    sizes = [
        None if n == -1 else _size(name, n) for n in (s if s is not None else [-1] * len(axes))
    ]
    for d, n in zip(axes, sizes, strict=True):
        if n is None:
            _size(name, x.shape[d])
    return axes, sizes


def _transform(name: str, x: Tensor, s: Any, dim: Any, norm: Any) -> Tensor:
    """What torch.fft.`name` gives for the dims `dim` of sizes `s`."""
    how = name.removesuffix("n")
    to_half, from_half = how in ("rfft", "ihfft"), how in ("irfft", "hfft")
    if "hfft" in how:  # the other direction, conjugated
        norm = _SWAPPED[_norm(name, norm)]
    x = _input(name, x, "real" if to_half else "complex")
    x = cx.conj(x) if how == "hfft" else x
    axes, sizes = _many(name, x, s, dim)
    if not axes and (to_half or from_half):
        raise RuntimeError(f"{name} must transform at least one axis")
    n = sizes[-1] if from_half else None
    if from_half:
        n = _size(name, 2 * (x.shape[axes[-1]] - 1)) if n is None else n
        sizes[-1] = n // 2 + 1
    for d, m in zip(axes, sizes, strict=True):
        x = x if m is None else _resized(x, d, m)
    norm = _norm(name, norm)
    if from_half:
        return apply(c2r_op, (x,), (axes, norm, n))
    if to_half:
        half = apply(r2c_op, (x,), (axes, norm))
        return cx.conj(half) if how == "ihfft" else half
    return apply(c2c_op, (x,), (axes, norm, how == "ifft"))


def _of_dim(name: str) -> Callable[..., Tensor]:
    def run(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
        s = None if n is None else [_size("fft", n)]
        return _transform(name, input, s, _one(name, input, dim), norm)

    run.__name__ = name
    return run


def _of_dims(name: str, dims: Any = None) -> Callable[..., Tensor]:
    def run(input: Tensor, s: Any = None, dim: Any = dims, norm: str | None = None) -> Tensor:
        return _transform(name, input, s, dim, norm)

    run.__name__ = f"{name[:-1]}2" if dims else name
    return run


fft, ifft, rfft, irfft, hfft, ihfft = map(_of_dim, "fft ifft rfft irfft hfft ihfft".split())
fftn, ifftn, rfftn, irfftn, hfftn, ihfftn = (
    _of_dims(name) for name in "fftn ifftn rfftn irfftn hfftn ihfftn".split()
)
fft2, ifft2, rfft2, irfft2, hfft2, ihfft2 = (
    _of_dims(name, (-2, -1)) for name in "fftn ifftn rfftn irfftn hfftn ihfftn".split()
)


def fftfreq(n: int, d: float = 1.0, *, dtype: dt.dtype | None = None, device: Any = None,
            requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The frequencies of `fft`'s n results, in cycles per unit of the sample spacing d."""
    array = np.fft.fftfreq(_size("fftfreq", n), d).astype((dtype or dt.get_default_dtype()).numpy)
    return upload(array, resolve(device)).requires_grad_(requires_grad)


def rfftfreq(n: int, d: float = 1.0, *, dtype: dt.dtype | None = None, device: Any = None,
             requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The frequencies of `rfft`'s n // 2 + 1 results."""
    array = np.fft.rfftfreq(_size("rfftfreq", n), d).astype((dtype or dt.get_default_dtype()).numpy)
    return upload(array, resolve(device)).requires_grad_(requires_grad)


def _shift(input: Tensor, dim: Any, sign: int) -> Tensor:
    dims = list(range(input.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    by = [sign * (input.shape[d] // 2) for d in dims]
    return arrange.roll(input, by, dims) if dims else input


def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Dims rolled so that frequency 0 lies in the middle."""
    return _shift(input, dim, 1)


def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _shift(input, dim, -1)


# --- short-time transforms


def _window(name: str, window: Tensor | None, n: int, n_fft: int, x: Tensor) -> Tensor:
    """The window, filled with zeros on both sides to n_fft."""
    if window is None:
        window = ones(n, dtype=x.dtype.to_real(), device=x.device)
    elif window.ndim != 1 or window.shape[0] != n:
        raise RuntimeError(
            f"{name}: expected a window of shape [{n}], its win_length, got {list(window.shape)}"
        )
    left = (n_fft - n) // 2
    return mv.pad(window, ((left, n_fft - n - left),))


def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect",
    normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """The short-time Fourier transform: which frequencies a signal has, and when. It is cut into
    frames that overlap, and each is multiplied by the window w and transformed:

        X[f, t] = Σₖ w[k] x[t * hop_length + k] exp(-2πi f k / n_fft), 0 <= k < n_fft

    (B?, time) -> (B?, F, T): F is n_fft // 2 + 1 if it is onesided, else n_fft; T is 1 + (time -
    n_fft) // hop_length, where centred frames add 2 * (n_fft // 2) to time. `istft` is the inverse.

    Args:
        input: The signal, or a batch of signals, real or complex.
        n_fft: The length of a frame, and of its transform.
        hop_length: How far a frame begins after the one before; n_fft // 4 by default.
        win_length: The length of the window, which zeros on both sides fill up to n_fft; n_fft by
            default.
        window: The window (win_length,), such as `hann_window`; ones by default.
        center: Whether to pad the signal by n_fft // 2 on both sides, so that frame t is centred at
            t * hop_length, instead of beginning there.
        pad_mode: How to pad: "reflect", "constant", "replicate" or "circular".
        onesided: Whether to leave out the frequencies above n_fft / 2, which a real signal has
            mirrored; by default so for a real signal and window.
        return_complex: Whether the result is complex; else its last dim holds real and imaginary
            parts. A real signal requires it to be said.
        normalized: Whether to divide by √n_fft.
        align_to_window: Whether the window of frame t, not the frame, begins at t * hop_length; for
            frames that are not centred alone.

    Raises:
        RuntimeError: a shape, a dtype or a length doesn't fit.
    """
    if return_complex is None and input.dtype.category != dt.COMPLEX:
        raise RuntimeError("stft: expected return_complex=True for real inputs, got None")
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if input.ndim not in (1, 2) or input.dtype.category < dt.FLOAT:
        raise RuntimeError(
            "stft: expected a tensor of floats of 1 or 2 dims, got "
            f"{list(input.shape)} of {input.dtype.name}"
        )
    x = input if input.ndim == 2 else mv.unsqueeze(input, 0)
    if center and align_to_window is not None:
        raise RuntimeError("stft: expected center=False with align_to_window, got True")
    if center:
        x = pad(mv.unsqueeze(x, 1), (n_fft // 2, n_fft // 2), pad_mode, None).squeeze(1)
    elif align_to_window:
        left = (n_fft - length) // 2
        x = mv.pad(x, ((0, 0), (left, n_fft - length - left)))
    if hop <= 0 or not 0 < length <= n_fft <= x.shape[1]:
        raise RuntimeError(
            f"stft: expected 0 < hop_length, 0 < win_length <= n_fft <= {x.shape[1]}, got {hop}, "
            f"{length} and {n_fft}"
        )
    frames = sliding.sliding_windows(x, (n_fft,), (hop,), (1,))
    if window is not None or length < n_fft:
        frames = frames * _window("stft", window, length, n_fft, x)
    real = frames.dtype.category != dt.COMPLEX
    if onesided and not real:
        raise RuntimeError("stft: expected onesided=False for complex inputs or windows, got True")
    norm = "ortho" if normalized else None
    halved = real if onesided is None else onesided
    out = rfft(frames, norm=norm) if halved else fft(frames, norm=norm)
    out = mv.transpose(out, 1, 2)
    out = out if input.ndim == 2 else mv.squeeze(out, 0)
    return out if return_complex is not False else cx.view_as_real(out)


def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The inverse of `stft`: the signal whose transform is nearest to the input, by least squares.
    Frames y, which are transformed back, are added where they overlap:

        x[n] = Σₜ w[n - t * hop_length] y[t, n - t * hop_length] / Σₜ w[n - t * hop_length]²

    (B?, F, T) -> (B?, time): F is n_fft // 2 + 1 if it is onesided, else n_fft; time is `length`,
    by default n_fft + hop_length * (T - 1), of centred frames 2 * (n_fft // 2) less.

    Args:
        input: The frequencies of each frame, complex, as `stft` gives them.
        n_fft, hop_length, win_length, window: As `stft` was given them.
        center: Whether `stft` padded the signal; the padding is cut off.
        normalized: Whether `stft` divided by √n_fft, which is undone.
        onesided: Whether frequencies end at n_fft / 2; by default the shape tells.
        length: How long the signal was; what no frame covers is filled with zeros.
        return_complex: Whether the signal is complex.

    Raises:
        RuntimeError: a shape, a dtype or a length doesn't fit, or the windows' squares add up to 0
            somewhere.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    if input.dtype.category != dt.COMPLEX or input.ndim not in (2, 3) or not input.numel():
        raise RuntimeError(
            "istft: expected a complex tensor of 2 or 3 dims, none empty, got "
            f"{list(input.shape)} of {input.dtype.name}"
        )
    x = mv.transpose(input if input.ndim == 3 else mv.unsqueeze(input, 0), 1, 2)
    halved = x.shape[2] != n_fft if onesided is None else onesided
    if x.shape[2] != (n_fft // 2 + 1 if halved else n_fft):
        raise RuntimeError(
            f"istft: expected {n_fft // 2 + 1 if halved else n_fft} frequencies for n_fft={n_fft} "
            f"and onesided={halved}, got {x.shape[2]}"
        )
    if not 0 < hop <= size or not 0 < size <= n_fft:
        raise RuntimeError(
            f"istft: expected 0 < hop_length <= win_length <= n_fft, got {hop}, {size} and {n_fft}"
        )
    w = _window("istft", window, size, n_fft, x)
    norm = "ortho" if normalized else None
    if return_complex:
        frames = ifft(x, norm=norm)
    else:  # of all frequencies, too, the first half counts
        frames = irfft(x[..., : n_fft // 2 + 1], n_fft, norm=norm)
    count = frames.shape[1]
    total = n_fft + hop * (count - 1)
    signal = sliding.fold(frames * w, (total,), (hop,), (1,))
    weight = sliding.fold(
        mv.expand(el.square(w), (1, count, n_fft)).clone(), (total,), (hop,), (1,)
    )
    start = n_fft // 2 if center else 0
    end = min(start + length, total) if length is not None else total - (n_fft // 2) * center
    signal, weight = signal[:, start:end], weight[:, start:end]
    if can_read_value(weight) and weight.numel() and weight.abs().min().item() < 1e-11:
        raise RuntimeError(f"istft: window overlap add min: 1, {weight.abs().min().item():g} is 0")
    out = signal / weight
    if length is not None and length > out.shape[1]:
        out = mv.pad(out, ((0, 0), (0, length - out.shape[1])))
    return out if input.ndim == 3 else mv.squeeze(out, 0)


public(
    globals(), both="stft istft", float32="""fft ifft rfft irfft hfft ihfft fftn ifftn rfftn
    irfftn hfftn ihfftn fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 stft""",
)  # fmt: skip
