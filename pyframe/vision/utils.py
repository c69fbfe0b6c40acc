"""Pictures of many images, as torchvision.utils."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

import pyframe.nn.functional as F
from pyframe import cat, no_grad, stack
from pyframe.core import dtypes
from pyframe.io.files import replacing
from pyframe.tensor import Tensor
from pyframe.vision.io import encode_png, pillow


@no_grad()
def make_grid(
    tensor: Tensor | list[Tensor], nrow: int = 8, padding: int = 2, normalize: bool = False,
    value_range: tuple[float, float] | None = None, scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:  # fmt: skip
    """One picture (C, H', W') of the images (B, C, H, W), or of a list of them, `nrow` in a row.

    Gray images get three channels. `normalize` maps `value_range`, or what the images span (with
    `scale_each` each one for itself), to 0..1; the frame `padding` wide has `pad_value`.

    Args:
        tensor: The images.
    """
    images = _batch(tensor)
    if normalize:
        images = _normalized(images, value_range, scale_each)
    n, c, h, w = images.shape
    if n == 1:
        return images.squeeze(0)
    columns = min(nrow, n)
    rows = -(-n // columns)
    h, w = h + padding, w + padding
    images = F.pad(images, (padding, 0, padding, 0), value=pad_value)
    if rows * columns > n:
        images = cat((images, images.new_full((rows * columns - n, c, h, w), pad_value)))
    grid = images.reshape(rows, columns, c, h, w).permute(2, 0, 3, 1, 4)
    return F.pad(grid.reshape(c, rows * h, columns * w), (0, padding, 0, padding), value=pad_value)


def _batch(tensor: Any) -> Tensor:
    """Images (B, C, H, W) with at least three channels."""
    if isinstance(tensor, list) and all(isinstance(t, Tensor) for t in tensor):
        tensor = stack(tensor)
    if not isinstance(tensor, Tensor):
        seen = {type(t).__name__ for t in tensor} if isinstance(tensor, list) else type(tensor)
        raise TypeError(f"make_grid: tensor or list of tensors expected, got {seen}")
    while tensor.ndim < 4:
        tensor = tensor.unsqueeze(0)
    return tensor.expand(-1, 3, -1, -1) if tensor.shape[1] == 1 else tensor


def _normalized(images: Tensor, value_range: Any, scale_each: bool) -> Tensor:
    if value_range is not None:
        if not isinstance(value_range, tuple):
            raise TypeError(
                "make_grid: value_range has to be a tuple (min, max) if specified, got "
                f"{type(value_range).__name__}"
            )
        low, high = value_range
        return (images.clamp(low, high) - low) / max(high - low, 1e-5)
    dims = (1, 2, 3) if scale_each else (0, 1, 2, 3)
    least, most = images.amin(dims, keepdim=True), images.amax(dims, keepdim=True)
    return (images - least) / (most - least).clamp(min=1e-5)


def save_image(
    tensor: Tensor | list[Tensor], fp: str | os.PathLike[str] | BinaryIO,
    format: str | None = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Write images of floats from 0 to 1, as a picture of `make_grid(tensor, **kwargs)`.

    The name's suffix or `format` says the file's format; PNG needs no Pillow, the others do.

    Args:
        tensor: The images.
        fp: A path, or what has `write`.
        kwargs: Options of `make_grid`.
    """
    target: Any = fp
    stream = hasattr(target, "write")
    kind = format or Path(getattr(target, "name", "") if stream else target).suffix[1:]
    if not kind:
        raise ValueError(f"save_image: no suffix of {fp} tells the format; give format='png'")
    grid = make_grid(tensor, **kwargs)
    pixels = (grid * 255 + 0.5).clamp(0, 255).to("cpu", dtypes.uint8)
    if stream:
        _save(pixels, target, kind)
        return
    with replacing(target) as file:
        _save(pixels, file, kind)


def _save(pixels: Tensor, file: BinaryIO, kind: str) -> None:
    if kind.lower() == "png":
        file.write(encode_png(pixels).numpy().tobytes())
        return
    image = pillow(f"save_image: {kind}")
    kind = image.registered_extensions().get(f".{kind.lower()}", kind)
    image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy()).save(file, kind)
