"""Padding, interpolation and sampling at the points of a grid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.sizes import is_symbolic, size_hint, statically_divides
from pyframe.ops.api.autocast import autocast
from pyframe.ops.api.layouts import declare_layout
from pyframe.ops.index.select import index_select
from pyframe.ops.spatial import pool as _pool, resample as _resample
from pyframe.ops.spatial.conv import each
from pyframe.tensor import Tensor

__all__ = [
    "affine_grid", "grid_sample", "interpolate", "pad", "upsample", "upsample_bilinear",
    "upsample_nearest",
]  # fmt: skip

_NEAREST = ("nearest", "nearest-exact")
_SMOOTH = {"linear": 3, "bilinear": 4, "trilinear": 5, "bicubic": 4}  # and the ndim they take


def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """Elements added at both ends of the last dims.

    Args:
        pad: how many, the last dim first: (left, right, top, bottom, …). Negative numbers cut.
        mode: 'constant' for `value`; 'reflect', 'replicate' or 'circular' for the input's own
            elements, of up to three dims of (N, C, *) or (C, *): see nn.ReflectionPad2d,
            nn.ReplicationPad2d and nn.CircularPad2d.
        value: None for 0.

    Raises:
        RuntimeError: there are more than the mode allows.
        NotImplementedError: the mode is not for so many dims.

    >>> F.pad(pf.tensor([1.0, 2.0, 3.0]), (1, 2), value=9.0)
    tensor([9., 1., 2., 3., 9., 9.])
    """
    return _resample.pad(input, pad, mode, value)


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:  # fmt: skip
    """(N, C, *spatial) at another size; see nn.Upsample for `size`, `scale_factor`, modes and
    errors.

    All modes but the nearest need floats; they are products with a matrix along each dim, in which
    a NaN or inf of the input reaches all results of its row.

    Args:
        antialias: whether 'bilinear' and 'bicubic' take the mean of all pixels that fall into one,
            where an image gets smaller.

    >>> F.interpolate(pf.tensor([[[1.0, 2.0]]]), size=4, mode="linear")
    tensor([[[1.0000, 1.2500, 1.7500, 2.0000]]])
    """
    k = input.ndim - 2
    if mode not in _SMOOTH and align_corners is not None:
        raise ValueError(
            "interpolate: align_corners option can only be set with the interpolating modes: "
            "linear | bilinear | bicubic | trilinear"
        )
    sizes, scales = _sizes(input, size, scale_factor, recompute_scale_factor, mode == "area")
    if antialias and not (mode in ("bilinear", "bicubic") and k == 2):
        raise ValueError(
            "interpolate: Anti-alias option is restricted to bilinear and bicubic modes and "
            f"requires a 4-D tensor as input, got mode {mode!r} and {input.ndim}-D"
        )
    if not 1 <= k <= 3 or mode not in ("area", *_NEAREST, *_SMOOTH):
        raise NotImplementedError(
            "interpolate: Only 3D, 4D and 5D input Tensors supported, in the modes nearest | "
            "linear | bilinear | bicubic | trilinear | area | nearest-exact, got "
            f"{input.ndim}D and mode {mode!r}"
        )
    if _SMOOTH.get(mode, input.ndim) != input.ndim:
        raise NotImplementedError(
            f"interpolate: Got {input.ndim}D input, but {mode} mode needs {_SMOOTH[mode]}D input"
        )
    if mode == "area":
        return _pool.adaptive_avg_pool("interpolate", k, input, sizes)
    spatial = input.shape[2:]
    if 0 in input.shape[1:] or any(n <= 0 for n in sizes):
        raise RuntimeError(
            "interpolate: Input and output sizes should be greater than 0, but got input "
            f"{list(input.shape)} and output size {list(sizes)}"
        )
    kind = np.float64 if input.dtype is dt.float64 else np.float32
    out = input
    if mode not in _SMOOTH and input.dtype is dt.bool_:
        raise RuntimeError("interpolate: not implemented for bool; use .float() first")
    if mode in _SMOOTH and input.dtype.category != dt.FLOAT:
        raise RuntimeError(
            f"interpolate: mode {mode!r} is not implemented for {input.dtype.name}; use .float()"
        )
    # Where sizes come out so many times as large, these modes leave the rest of a factor out
    times = (1, 2) if (mode, k) == ("nearest", 2) else (1,) if mode in _SMOOTH else ()
    times = () if mode == "bicubic" and not antialias else times
    # The dims that shrink most come first: less is left for the others
    for d in sorted(range(k), key=lambda d: size_hint(sizes[d]) / size_hint(spatial[d])):
        n, o, scale = spatial[d], sizes[d], scales[d]
        if scale is not None and times and _even(n, o, scale, times):
            scale = None
        changes = is_symbolic((n, o)) and not antialias
        if changes and mode in _NEAREST and statically_divides(n, o) and scale in (None, o // n):
            out = _resample.repeated(out, d + 2, o // n)
        elif changes and mode in _NEAREST:
            nearest = _resample.nearest_of_sizes(input, n, o, scale, mode == "nearest-exact")
            out = index_select(out, d + 2, nearest)
        elif mode in _NEAREST:
            indices = _resample.nearest_indices(n, o, scale, mode == "nearest-exact", kind)
            out = _resample.take_indices(out, d + 2, indices)
        else:
            what = "cubic" if mode == "bicubic" else "linear"
            corners = bool(align_corners)
            matrix: Any
            if changes:
                matrix = _resample.weights_of_sizes(input, what, n, o, corners, scale)
            else:
                matrix = _resample.weights(what, n, o, corners, scale, antialias, kind)
            out = _resample.along(out, matrix, d + 2)
    return out.clone() if out is input else out.contiguous()


def _even(n: int, o: int, scale: float, times: tuple[int, ...]) -> bool:
    """Whether o, which is n * scale cut to an int, is n times one of `times`."""
    return any(t < scale < t + 1 and o == t * n for t in times)


def _sizes(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool | None, area: bool
) -> tuple[tuple[int, ...], list[float | None]]:
    """The result's spatial sizes, and the factors that the steps are to be computed from."""
    k = input.ndim - 2
    spatial = input.shape[2:]
    if (size is None) == (scale_factor is None):
        one = "only one of" if size is not None else "either"
        raise ValueError(f"interpolate: {one} size or scale_factor should be defined")
    given = size if size is not None else scale_factor
    if isinstance(given, (list, tuple)) and len(given) != k:
        raise ValueError(
            "interpolate: Input and output must have the same number of spatial dimensions, but "
            f"got input with spatial dimensions of {list(spatial)} and size or scale_factor of "
            f"{list(given)}"
        )
    if size is not None:
        if recompute:
            raise ValueError(
                "interpolate: recompute_scale_factor is not meaningful with an explicit size."
            )
        return each(size, max(k, 1), "interpolate: size"), [None] * k
    factors = list(given) if isinstance(given, (list, tuple)) else [given] * k
    whole = [int(f) if math.isfinite(f) and f == int(f) else f for f in factors]
    sizes = tuple(math.trunc(n * f) for n, f in zip(spatial, whole, strict=True))
    return sizes, [None] * k if recompute or area else [float(f) for f in factors]


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """An older name of `interpolate`; see nn.Upsample."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate(mode='nearest'); see nn.UpsamplingNearest2d."""
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate(mode='bilinear', align_corners=True); see nn.UpsamplingBilinear2d."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """An image (N, C, H, W) at the points of a grid (N, H', W', 2): (N, C, H', W'). Of
    (N, C, D, H, W) and (N, D', H', W', 3) likewise.

    Args:
        grid: (x, y) of each point, or (x, y, z), from -1 to 1 within the image.
        mode: 'bilinear', 'nearest' or 'bicubic', the last of images alone.
        padding_mode: what lies outside: 'zeros', the 'border' pixel, or a 'reflection'.
        align_corners: whether -1 and 1 are the centres of the corners' pixels, rather than the
            outer edges; None is False.

    Raises:
        ValueError: a mode is another one.

    >>> image, grid = pf.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), pf.zeros(1, 1, 1, 2)
    >>> F.grid_sample(image, grid).item()
    2.5
    """
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    if mode not in modes:
        raise ValueError(
            "grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: "
            f"{mode!r}"
        )
    if padding_mode not in paddings:
        raise ValueError(
            "grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but "
            f"got: {padding_mode!r}"
        )
    return _resample.grid_sampler(
        input, grid, modes.index(mode), paddings.index(padding_mode), bool(align_corners)
    )


def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The grid (N, H, W, 2) for `grid_sample` that applies an affine map to each point of the
    result.

    Args:
        theta: the maps (N, 2, 3): (x, y) of the image are theta @ (x, y, 1) of the result; or
            (N, 3, 4), of bodies.
        size: (N, C, H, W) of the result, or (N, C, D, H, W).
        align_corners: as of `grid_sample`.

    Raises:
        ValueError, NotImplementedError: theta's shape or dtype, or the size, doesn't fit.

    >>> theta = pf.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> F.affine_grid(theta, (1, 1, 1, 2), align_corners=False).tolist()
    [[[[-0.5, 0.0], [0.5, 0.0]]]]
    """
    if theta.dtype.category != dt.FLOAT:
        raise ValueError(
            f"affine_grid: Expected theta to have floating point type, but got {theta.dtype.name}"
        )
    k = len(size) - 2
    if k not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {tuple(size)}."
        )
    if theta.shape != (size[0], k, k + 1):
        raise ValueError(
            f"affine_grid: Expected a batch of {k}D affine matrices of shape {size[0]}x{k}x{k + 1} "
            f"for size {tuple(size)}. Got {list(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"affine_grid: Expected non-zero, positive output size. Got {tuple(size)}")
    return _resample.affine_grid_generator(theta, size, bool(align_corners))


declare_layout(globals(), last="interpolate upsample upsample_nearest upsample_bilinear pad")
autocast(
    globals(),
    lower="affine_grid",
    cpu_float32="grid_sample",
    gpu_widest="grid_sample",
    gpu_float32="interpolate upsample upsample_nearest upsample_bilinear",
)
