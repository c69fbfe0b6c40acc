"""The transforms of tensors: (..., C, H, W), or (H, W) where channels do not matter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pyframe as pf
import pyframe.nn.functional as F
from pyframe.tensor import Tensor

LARGEST = {
    pf.uint8: 255, pf.int8: 127, pf.int16: 2**15 - 1, pf.uint16: 2**16 - 1,
    pf.int32: 2**31 - 1, pf.int64: 2**63 - 1,
}  # fmt: skip


def bound(img: Tensor) -> int:
    """What white is in an image's dtype: 1 in floats."""
    return LARGEST.get(img.dtype, 1)


def get_dimensions(img: Tensor) -> list[int]:
    shape = img.shape
    if len(shape) < 2:
        raise TypeError(
            f"Tensor is not a torch image: expected (..., H, W), got the shape {list(shape)}"
        )
    return [shape[-3] if len(shape) > 2 else 1, shape[-2], shape[-1]]


def _check_channels(img: Tensor) -> None:
    if img.ndim < 3:
        raise TypeError(
            f"Input image tensor should have at least 3 dimensions, but found {img.ndim}"
        )


def _check_color(img: Tensor) -> None:
    _check_channels(img)
    if img.shape[-3] not in (1, 3):
        raise TypeError(
            f"Input image tensor permitted channel values are 1 or 3, but found {img.shape[-3]}"
        )


def _as_floats(img: Tensor) -> Tensor:
    return img if img.dtype in (pf.float32, pf.float64) else img.to(pf.float32)


def _cast(x: Tensor, dtype: Any) -> Tensor:
    """Back to the dtype of an image; ints are rounded."""
    if x.dtype is dtype:
        return x
    return (x if dtype.is_floating_point else x.round()).to(dtype)


def _as_batch(img: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """`compute` of the image as floats (N, C, H, W)."""
    get_dimensions(img)
    shape = img.shape
    x = _as_floats(img)
    if x.ndim != 4:
        x = x.reshape(-1, *shape[-3:]) if x.ndim > 2 else x[None, None]
    y = compute(x)
    if img.ndim != 4:
        y = y.reshape(*shape[:-2], *y.shape[-2:])
    return _cast(y, img.dtype)


# --- form


def hflip(img: Tensor) -> Tensor:
    get_dimensions(img)
    return img.flip(-1)


def vflip(img: Tensor) -> Tensor:
    get_dimensions(img)
    return img.flip(-2)


def crop(img: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    _, h, w = get_dimensions(img)
    bottom, right = top + height, left + width
    if top >= 0 and left >= 0 and bottom <= h and right <= w:
        return img[..., top:bottom, left:right]
    inside = img[..., max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    sides = [
        max(min(0, right) - left, 0), max(right - max(w, left), 0),
        max(min(0, bottom) - top, 0), max(bottom - max(h, top), 0),
    ]  # fmt: skip
    return F.pad(inside, sides)


def pad(img: Tensor, padding: list[int], fill: Any, padding_mode: str) -> Tensor:
    get_dimensions(img)
    if padding_mode == "symmetric":
        return _mirror(_mirror(img, -1, *padding[:2]), -2, *padding[2:])
    if padding_mode != "constant":
        mode = "replicate" if padding_mode == "edge" else padding_mode
        if img.ndim == 3 or img.ndim == 4:
            return F.pad(img, padding, mode=mode)
        batch = img.reshape(-1, *img.shape[-2:])
        out = F.pad(batch, padding, mode=mode)
        return out.reshape(*img.shape[:-2], *out.shape[-2:])
    if isinstance(fill, Sequence) and len(fill) > 1:
        _check_fill(img, fill)
        parts = zip(img.unbind(-3), fill, strict=True)
        return pf.stack([F.pad(x, padding, value=float(f)) for x, f in parts], -3)
    value = fill[0] if isinstance(fill, Sequence) else fill or 0
    return F.pad(img, padding, value=float(value))


def _mirror(x: Tensor, dim: int, before: int, after: int) -> Tensor:
    """Padded with what it ends with, the edge included; negative sides are cut off."""
    size = x.shape[dim]
    if before < 0 or after < 0:
        x = x.narrow(dim, max(-before, 0), size + min(before, 0) + min(after, 0))
        before, after, size = max(before, 0), max(after, 0), x.shape[dim]
    if not before and not after:
        return x
    if max(before, after) > size:
        raise IndexError(
            f"pad: symmetric padding of {[before, after]} is more than the size of {size}"
        )
    return pf.cat(
        [x.narrow(dim, 0, before).flip(dim), x, x.narrow(dim, size - after, after).flip(dim)], dim
    )


def resize(img: Tensor, size: list[int], interpolation: str, antialias: bool | None) -> Tensor:
    smooth = interpolation in ("bilinear", "bicubic")
    if not smooth and interpolation not in ("nearest", "nearest-exact"):
        raise ValueError(
            f"Interpolation mode '{interpolation}' is unsupported with Tensor input: nearest, "
            "nearest-exact, bilinear and bicubic are"
        )

    def scaled(x: Tensor) -> Tensor:
        y = F.interpolate(
            x, size=size, mode=interpolation, align_corners=False if smooth else None,
            antialias=bool(antialias) and smooth,
        )  # fmt: skip
        return y.clamp(0, 255) if interpolation == "bicubic" and img.dtype is pf.uint8 else y

    return _as_batch(img, scaled)


# --- sampling on a grid


def _check_fill(img: Tensor, fill: Any) -> None:
    channels = get_dimensions(img)[0]
    if isinstance(fill, Sequence) and len(fill) not in (1, channels):
        raise ValueError(
            "The number of elements in 'fill' cannot broadcast to match the number of channels of "
            f"the image ({len(fill)} != {channels})"
        )


def _sample(img: Tensor, u: Tensor, v: Tensor, interpolation: str, fill: Any) -> Tensor:
    """The image at the points (u, v), from -1 to 1, that broadcast to the result's (H, W); `fill`
    is what lies outside."""
    _check_fill(img, fill)
    values = [float(f) for f in fill] if isinstance(fill, Sequence) else [float(fill or 0)]
    if interpolation == "nearest":
        return _nearest(img, u, v, values)
    if interpolation != "bilinear":
        raise ValueError(
            f"Interpolation mode '{interpolation}' is unsupported with Tensor input: nearest and "
            "bilinear are"
        )

    def sampled(x: Tensor) -> Tensor:
        points = pf.stack(pf.broadcast_tensors(u, v), -1).to(x.dtype)
        points = points.expand(x.shape[0], -1, -1, -1)
        if fill is None:
            return F.grid_sample(x, points, align_corners=False)
        # at the edge, torchvision mixes 0 with what is mixed already
        x = F.grid_sample(pf.cat((x, pf.ones_like(x[:, :1])), 1), points, align_corners=False)
        x, inside = x[:, :-1], x[:, -1:]
        color = pf.tensor(values, dtype=x.dtype, device=x.device).view(-1, 1, 1)
        return x * inside + (1 - inside) * color

    return _as_batch(img, sampled)


def _nearest(img: Tensor, u: Tensor, v: Tensor, values: list[float]) -> Tensor:
    """One index for each pixel of the result, for all channels: no dtype needs another here."""
    _, h, w = get_dimensions(img)
    x, y = ((u + 1) * (0.5 * w) - 0.5).round(), ((v + 1) * (0.5 * h) - 0.5).round()
    inside = (x >= 0) & (x < w) & (y >= 0) & (y < h)
    x, y = (pf.where(inside, pixel, 0).to(pf.int64) for pixel in (x, y))
    index = y * w + x
    found = img.reshape(-1, h * w).index_select(1, index.reshape(-1))
    found = found.reshape(*img.shape[:-2], *index.shape)
    if not img.is_floating_point():
        values = [round(value) for value in values]
    color = pf.tensor(values, dtype=img.dtype, device=img.device).view(-1, 1, 1)
    return pf.where(inside, found, color if img.ndim > 2 else color[0])


def _axes(height: int, width: int, first: tuple[float, float], img: Tensor) -> tuple[Any, Any]:
    """x (1, W) and y (H, 1) of pixels, which start with `first`."""
    kind: Any = {"dtype": img.dtype if img.dtype is pf.float64 else pf.float32}
    x0, y0 = first
    x = pf.linspace(x0, x0 + width - 1, width, device=img.device, **kind)
    y = pf.linspace(y0, y0 + height - 1, height, device=img.device, **kind)
    return x, y[:, None]


def affine(
    img: Tensor, matrix: list[float], interpolation: str, fill: Any, size: Any = None
) -> Tensor:
    """`matrix` maps the output's pixels, from its middle on, to those of the input."""
    _, h, w = get_dimensions(img)
    height, width = size or (h, w)
    x, y = _axes(height, width, (-0.5 * width + 0.5, -0.5 * height + 0.5), img)
    a, b, c, d, e, f = matrix
    u = x * (a / (0.5 * w)) + y * (b / (0.5 * w)) + c / (0.5 * w)
    v = x * (d / (0.5 * h)) + y * (e / (0.5 * h)) + f / (0.5 * h)
    return _sample(img, u, v, interpolation, fill)


def perspective(img: Tensor, coefficients: list[float], interpolation: str, fill: Any) -> Tensor:
    _, h, w = get_dimensions(img)
    x, y = _axes(h, w, (0.5, 0.5), img)
    a, b, c, d, e, f, g, k = coefficients
    below = x * g + y * k + 1.0
    u = (x * (a / (0.5 * w)) + y * (b / (0.5 * w)) + c / (0.5 * w)) / below - 1.0
    v = (x * (d / (0.5 * h)) + y * (e / (0.5 * h)) + f / (0.5 * h)) / below - 1.0
    return _sample(img, u, v, interpolation, fill)


def elastic_transform(img: Tensor, displacement: Tensor, interpolation: str, fill: Any) -> Tensor:
    _, h, w = get_dimensions(img)
    x = pf.linspace((1 - w) / w, (w - 1) / w, w, device=img.device)
    y = pf.linspace((1 - h) / h, (h - 1) / h, h, device=img.device)
    dx, dy = displacement.to(img.device)[0].unbind(-1)
    return _sample(img, x + dx, y[:, None] + dy, interpolation, fill)


# --- neighborhoods


def _convolved(x: Tensor, kernel: Tensor) -> Tensor:
    """Each channel of (N, C, H, W) with one (kh, kw)."""
    y = F.conv2d(x.reshape(-1, 1, *x.shape[-2:]), kernel[None, None])
    return y.reshape(*x.shape[:2], *y.shape[-2:])


def _gaussian(size: int, sigma: float, x: Tensor) -> Tensor:
    """(size,), as `x` is in dtype and device."""
    weights = np.exp(-0.5 * ((np.arange(size) - size // 2) / sigma) ** 2)
    return pf.tensor(weights / weights.sum(), dtype=x.dtype, device=x.device)


def gaussian_blur(img: Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> Tensor:
    if not img.numel():
        return img

    def blurred(x: Tensor) -> Tensor:
        kw, kh = kernel_size
        x = F.pad(x, (kw // 2, kw // 2, kh // 2, kh // 2), mode="reflect")
        rows, columns = _gaussian(kw, sigma[0], x), _gaussian(kh, sigma[1], x)
        return _convolved(_convolved(x, rows[None]), columns[:, None])

    return _as_batch(img, blurred)


def adjust_sharpness(img: Tensor, factor: float) -> Tensor:
    _check_color(img)
    if min(img.shape[-2:]) <= 2:
        return img

    def smoothed(x: Tensor) -> Tensor:
        kernel = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]]) / 13
        return _convolved(x, pf.tensor(kernel, dtype=x.dtype, device=x.device))

    smooth = img.clone()
    smooth[..., 1:-1, 1:-1] = _as_batch(img, smoothed)
    return _blend(img, smooth, factor)


# --- color


def convert_image_dtype(img: Tensor, dtype: Any) -> Tensor:
    if img.dtype is dtype:
        return img
    most = LARGEST.get(dtype, 1)
    if img.is_floating_point():
        if dtype.is_floating_point:
            return img.to(dtype)
        if (img.dtype is pf.float32 and most >= LARGEST[pf.int32]) or most >= LARGEST[pf.int64]:
            raise RuntimeError(f"The cast from {img.dtype} to {dtype} cannot be performed safely.")
        return (img * (most + 1 - 1e-3)).to(dtype)
    if dtype.is_floating_point:
        return img.to(dtype) / bound(img)
    if bound(img) > most:
        return (img // ((bound(img) + 1) // (most + 1))).to(dtype)
    return img.to(dtype) * ((most + 1) // (bound(img) + 1))


def _blend(img: Tensor, other: Any, factor: float) -> Tensor:
    mixed = img * float(factor) + other * (1.0 - factor)
    return mixed.clamp(0, bound(img)).to(img.dtype)


def rgb_to_grayscale(img: Tensor, channels: int) -> Tensor:
    _check_color(img)
    if img.shape[-3] == 1:
        gray = img.clone()
    else:
        r, g, b = img.unbind(-3)
        gray = (0.2989 * r + 0.587 * g + 0.114 * b).to(img.dtype).unsqueeze(-3)
    if channels == 1:
        return gray
    return gray.expand(*img.shape[:-3], channels, *img.shape[-2:])


def grayscale_to_rgb(img: Tensor) -> Tensor:
    return img if img.shape[-3] >= 3 else rgb_to_grayscale(img, 3)


def adjust_brightness(img: Tensor, factor: float) -> Tensor:
    _check_color(img)
    return (img * float(factor)).clamp(0, bound(img)).to(img.dtype)


def adjust_contrast(img: Tensor, factor: float) -> Tensor:
    gray = rgb_to_grayscale(img, 1)
    gray = gray if gray.is_floating_point() else gray.to(pf.float32)
    return _blend(img, gray.mean((-3, -2, -1), keepdim=True), factor)


def adjust_saturation(img: Tensor, factor: float) -> Tensor:
    _check_color(img)
    return img if img.shape[-3] == 1 else _blend(img, rgb_to_grayscale(img, 1), factor)


def adjust_hue(img: Tensor, factor: float) -> Tensor:
    """By way of hue, saturation and value: https://en.wikipedia.org/wiki/HSL_and_HSV."""
    _check_color(img)
    if img.shape[-3] == 1 or not img.numel():
        return img
    x = convert_image_dtype(img, pf.float32)
    r, g, b = x.unbind(-3)
    v = x.amax(-3)
    chroma = v - x.amin(-3)
    gray = chroma == 0
    unit = pf.where(gray, 1.0, chroma)
    s = chroma / pf.where(gray, 1.0, v)
    sector = pf.where(
        v == r, (g - b) / unit, pf.where(v == g, 2 + (b - r) / unit, 4 + (r - g) / unit)
    )
    hue = (sector / 6 + (1 + factor)) % 1.0 * 6
    channels = []
    for start in (5, 3, 1):
        k = (hue + start) % 6
        channels.append(v - v * s * pf.minimum(k, 4 - k).clamp(0, 1))
    return convert_image_dtype(pf.stack(channels, -3), img.dtype)


def adjust_gamma(img: Tensor, gamma: float, gain: float) -> Tensor:
    _check_channels(img)
    x = img if img.is_floating_point() else convert_image_dtype(img, pf.float32)
    return convert_image_dtype((gain * x**gamma).clamp(0, 1), img.dtype)


def invert(img: Tensor) -> Tensor:
    _check_channels(img)
    return bound(img) - img


def posterize(img: Tensor, bits: int) -> Tensor:
    _check_channels(img)
    if img.is_floating_point():
        levels = 1 << bits
        return (img * levels).floor().clamp(0, levels - 1) / levels
    n = bound(img).bit_length()
    return img if bits >= n else img & ((1 << bits) - 1 << (n - bits))


def solarize(img: Tensor, threshold: float) -> Tensor:
    _check_channels(img)
    if threshold > bound(img):
        raise TypeError(
            f"Threshold should be less than bound of img: got {threshold}, and {bound(img)} is "
            f"white in {img.dtype}"
        )
    return pf.where(img >= threshold, invert(img), img)


def autocontrast(img: Tensor) -> Tensor:
    _check_color(img)
    white = bound(img)
    x = img if img.is_floating_point() else img.to(pf.float32)
    low = x.amin((-2, -1), keepdim=True)
    span = x.amax((-2, -1), keepdim=True) - low
    flat = span == 0
    low, scale = pf.where(flat, 0.0, low), white / pf.where(flat, float(white), span)
    return ((x - low) * scale).clamp(0, white).to(img.dtype)


def equalize(img: Tensor) -> Tensor:
    _check_channels(img)
    if img.dtype is not pf.uint8:
        return convert_image_dtype(equalize(convert_image_dtype(img, pf.uint8)), img.dtype)
    x = img.reshape(-1, img.shape[-2] * img.shape[-1]).to(pf.int64)  # a row for each channel
    rows = pf.arange(x.shape[0], device=x.device)[:, None]
    counts = pf.bincount((x + rows * 256).reshape(-1), minlength=256 * x.shape[0]).view(-1, 256)
    brightest = counts.gather(1, x.amax(1, keepdim=True))
    step = (x.shape[1] - brightest) // 255
    table = (counts.cumsum(1)[:, :-1] + step // 2) // step.clamp(min=1)
    levels = F.pad(table.clamp(0, 255), (1, 0)).gather(1, x)
    return pf.where(step == 0, x, levels).to(pf.uint8).reshape(img.shape)


# --- values


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Any, inplace: bool) -> Tensor:
    get_dimensions(img)
    img = img if inplace else img.clone()
    img[..., i : i + h, j : j + w] = v
    return img
