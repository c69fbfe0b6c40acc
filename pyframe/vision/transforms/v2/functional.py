"""torchvision.transforms.v2.functional: the functions of the first version, and more of them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.tensor import Tensor
from pyframe.vision.transforms import _functional_tensor as _tensor, functional as _first
from pyframe.vision.transforms._functional_pil import is_pil, pillow
from pyframe.vision.transforms.functional import *  # noqa: F403

horizontal_flip, vertical_flip, elastic = _first.hflip, _first.vflip, _first.elastic_transform
to_grayscale, get_num_channels = _first.rgb_to_grayscale, _first.get_image_num_channels


def get_size(inpt: Any) -> list[int]:
    """[H, W]."""
    return _first.get_dimensions(inpt)[1:]


def to_image(inpt: Any) -> Tensor:
    """A PIL image or an array (H, W, C) as a Tensor (C, H, W) of its own dtype; a Tensor as it
    is.

    Args:
        inpt: What becomes one.
    """
    if isinstance(inpt, Tensor):
        return inpt
    if isinstance(inpt, np.ndarray):
        array = np.atleast_3d(inpt).transpose(2, 0, 1)
        return pf.from_numpy(np.ascontiguousarray(array))
    if is_pil(inpt):
        return _first.pil_to_tensor(inpt)
    raise TypeError(
        "Input can either be a pure Tensor, a numpy array, or a PIL image, but got "
        f"{type(inpt)} instead."
    )


def to_dtype(inpt: Any, dtype: Any = pf.float32, scale: bool = False) -> Tensor:
    """A Tensor in another dtype; `scale` keeps white white: see convert_image_dtype.

    Args:
        dtype: The dtype.
        inpt: A Tensor.
    """
    return _first.convert_image_dtype(inpt, dtype) if scale else inpt.to(dtype)


def rotate(  # type: ignore[no-redef]
    inpt: Any, angle: float, interpolation: Any = _first.InterpolationMode.NEAREST,
    expand: bool = False, center: Any = None, fill: Any = None,
) -> Any:  # fmt: skip
    """As the first version's, but quarter turns of a Tensor only move pixels: there the expanded
    image can be a pixel too large.

    Args:
        angle, interpolation, expand, center, fill: As the first version takes them.
    """
    turns, rest = divmod(angle % 360, 90) if isinstance(angle, (int, float)) else (0, 1)
    if isinstance(inpt, Tensor) and center is None and not rest:
        h, w = get_size(inpt)
        if turns % 2 == 0 or expand or h == w:
            return inpt.rot90(int(turns), (-2, -1))
    return _first.rotate(inpt, angle, interpolation, expand, center, fill)


def posterize(inpt: Any, bits: int) -> Any:  # type: ignore[no-redef]
    """As the first version's, of ints of any size.

    Args:
        bits: How many upper bits are kept, from 0 to 8.
    """
    if isinstance(inpt, Tensor) and 0 <= bits <= 8:
        return _tensor.posterize(inpt, bits)
    return _first.posterize(inpt, bits)


def equalize(inpt: Any) -> Any:  # type: ignore[no-redef]
    """As the first version's, of ints of any size, in 256 levels."""
    return _tensor.equalize(inpt) if isinstance(inpt, Tensor) else _first.equalize(inpt)


def grayscale_to_rgb(inpt: Any) -> Any:
    """Three channels that are alike of one; three as they are."""
    return _first._of(inpt).grayscale_to_rgb(inpt)


def _as_tensor(inpt: Any, compute: Any) -> Any:
    """A PIL image is a Tensor meanwhile."""
    return (
        _first.to_pil_image(compute(_first.pil_to_tensor(inpt))) if is_pil(inpt) else compute(inpt)
    )


def permute_channels(inpt: Any, permutation: Sequence[int]) -> Any:
    """The channels in another order.

    Args:
        permutation: The channels in their new order.
    """
    channels = get_num_channels(inpt)
    order = [int(i) for i in permutation]
    if len(order) != channels:
        raise ValueError(
            f"Length of permutation does not match number of channels: {len(order)} != {channels}"
        )
    return _as_tensor(inpt, lambda x: pf.stack([x.select(-3, i) for i in order], -3))


def gaussian_noise(inpt: Any, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> Tensor:
    """A uint8 or float Tensor and normal noise, white being 1; `clip` keeps it within black and
    white.

    Args:
        mean, sigma: Mean and standard deviation of the noise.
        inpt: A Tensor.
    """
    if sigma < 0:
        raise ValueError(f"sigma shouldn't be negative. Got {sigma}")
    if not isinstance(inpt, Tensor):
        raise ValueError(f"Gaussian Noise is not implemented for {type(inpt)}: pass a Tensor")
    noise = pf.empty(inpt.shape, device="cpu").normal_(mean, sigma).to(inpt.device)
    if inpt.is_floating_point():
        out = inpt + noise.to(inpt.dtype)
        return out.clamp(0, 1) if clip else out
    if inpt.dtype is not pf.uint8:
        raise ValueError(
            f"Input tensor is expected to be in uint8 or float dtype, got dtype={inpt.dtype}"
        )
    out = inpt + (noise * 255).to(pf.int16)
    return (out.clamp(0, 255) if clip else out).to(pf.uint8)


def uniform_temporal_subsample(inpt: Tensor, num_samples: int) -> Tensor:
    """`num_samples` frames of a video (..., T, C, H, W), as evenly spread as can be.

    Args:
        inpt: The video.
    """
    frames = np.linspace(0, inpt.shape[-4] - 1, num_samples, dtype=np.float32)
    return inpt.index_select(-4, pf.tensor(frames.astype(np.int64), device=inpt.device))


def jpeg(image: Any, quality: int) -> Any:
    """A uint8 image as it comes back from a JPEG file of this quality, from 1 to 100.

    Args:
        quality: The higher, the more like the image.
    """
    if isinstance(image, Tensor) and image.ndim > 3:
        rows = image.reshape(-1, *image.shape[-3:])
        return pf.stack([jpeg(row, quality) for row in rows]).reshape(image.shape)
    file = io.BytesIO()
    (image if is_pil(image) else _first.to_pil_image(image)).save(
        file, format="JPEG", quality=quality
    )
    decoded = pillow().Image.open(file, formats=["JPEG"])
    decoded.load()
    return decoded if is_pil(image) else _first.pil_to_tensor(decoded).to(image.device)
