"""Regions of feature maps, brought to one size, as torchvision.ops.roi_align and roi_pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyframe import arange, cat, full_like, no_grad, where
from pyframe.nn.modules.fields import FieldModule, layer
from pyframe.tensor import Tensor

__all__ = ["RoIAlign", "RoIPool", "roi_align", "roi_pool"]


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _regions(boxes: Any, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """(image int64 (K,), start (K, 2), end (K, 2)) of boxes in either form; x before y."""
    if isinstance(boxes, Tensor):
        if boxes.ndim != 2 or boxes.shape[1] != 5:
            raise AssertionError(
                f"{name}: expected boxes (K, 5), which begin with the number of their image, or "
                f"a list of boxes (L, 4) for each image, got {list(boxes.shape)}"
            )
        return boxes[:, 0].long(), boxes[:, 1:3], boxes[:, 3:]
    if not isinstance(boxes, (list, tuple)) or not boxes:
        raise AssertionError(
            f"{name}: expected boxes (K, 5) or a list of boxes (L, 4), got {type(boxes).__name__}"
        )
    wrong = [list(b.shape) for b in boxes if b.ndim != 2 or b.shape[1] != 4]
    if wrong:
        raise AssertionError(
            f"{name}: expected a list of boxes (L, 4), got one of shape {wrong[0]}"
        )
    images = cat([full_like(b[:, 0], i) for i, b in enumerate(boxes)])
    corners = cat(list(boxes))
    return images.long(), corners[:, :2], corners[:, 2:]


def _taps(
    start: Tensor, end: Tensor, bins: int, size: int, ratio: int, aligned: bool
) -> tuple[Tensor, Tensor]:
    """Where the bins of regions read a line of `size` pixels, and how much each one counts.

    A bin has `ratio` samples, or one for each pixel that it spans. A sample lies between two
    pixels; more than one pixel outside it counts nothing. Gives int64 and float (K, bins, T).
    """
    length = end - start
    if not aligned:
        length = length.clamp(min=1.0)
    step = length / bins
    samples = full_like(step, ratio) if ratio > 0 else step.ceil()
    most = ratio if ratio > 0 else int(samples.max().item()) if len(samples) else 1
    sample = arange(max(most, 1), device=start.device, dtype=start.dtype)
    lines = arange(bins, device=start.device, dtype=start.dtype)
    within = step[:, None] / samples.clamp(min=1)[:, None] * (sample + 0.5)
    at = (start[:, None] + lines * step[:, None])[:, :, None] + within[:, None]  # (K, bins, S)
    counts = (at >= -1) & (at <= size) & (sample < samples[:, None])[:, None]
    at = where(counts, at, 0).clamp(0, size - 1)
    low = at.floor()
    part = at - low
    share = counts / samples.clamp(min=1)[:, None, None]
    index = cat((low, (low + 1).clamp(max=size - 1)), -1).long()
    return index, cat(((1 - part) * share, part * share), -1)


def roi_align(
    input: Tensor, boxes: Tensor | Sequence[Tensor], output_size: int | tuple[int, int],
    spatial_scale: float = 1.0, sampling_ratio: int = -1, aligned: bool = False,
) -> Tensor:  # fmt: skip
    """Means of the bins of boxes in maps (N, C, H, W): (K, C, *output_size) (arXiv 1703.06870).

    `boxes` are (K, 5), the number of the image before x1, y1, x2, y2, or a list of (L, 4) for each
    image; `spatial_scale` takes them to the maps. A bin is the mean of `sampling_ratio` squared
    interpolated samples; -1: one for each pixel spanned, for which the boxes are read. `aligned`
    moves by half a pixel, to where pixels have their middle. The boxes get no gradient.
    """
    height, width = input.shape[2:]
    rows, columns = _pair(output_size)
    with no_grad():
        image, start, end = _regions(boxes, "roi_align")
        shift = 0.5 if aligned else 0.0
        start, end = start * spatial_scale - shift, end * spatial_scale - shift
        y, y_share = _taps(start[:, 1], end[:, 1], rows, height, sampling_ratio, aligned)
        x, x_share = _taps(start[:, 0], end[:, 0], columns, width, sampling_ratio, aligned)
        x, x_share = x[:, None], x_share[:, None, :, :, None]  # (K, 1, columns, T, 1)
    maps = input.permute(0, 2, 3, 1)
    image = image[:, None, None, None]
    total: Any = 0
    for t in range(y.shape[-1]):  # one line of taps at a time bounds the memory
        found = maps[image, y[:, :, t, None, None], x]  # (K, rows, columns, T, C)
        total = total + (found * x_share).sum(3) * y_share[:, :, t, None, None]
    return total.permute(0, 3, 1, 2).to(input.dtype)


def _spans(start: Tensor, end: Tensor, bins: int, size: int) -> tuple[Tensor, Tensor]:
    """The pixels of each bin of regions on a line of `size` pixels: int64, bool (K, bins, T)."""
    step = (end - start + 1).clamp(min=1) / bins
    line = arange(bins, device=start.device, dtype=start.dtype)
    first = (start[:, None] + (line * step[:, None]).floor()).clamp(0, size)
    last = (start[:, None] + ((line + 1) * step[:, None]).ceil()).clamp(0, size)
    most = int((last - first).max().item()) if len(step) else 1
    pixel = first[:, :, None] + arange(max(most, 1), device=start.device, dtype=start.dtype)
    return pixel.clamp(max=size - 1).long(), pixel < last[:, :, None]


def roi_pool(
    input: Tensor, boxes: Tensor | Sequence[Tensor], output_size: int | tuple[int, int],
    spatial_scale: float = 1.0,
) -> Tensor:  # fmt: skip
    """The largest pixel of each bin of boxes in maps (N, C, H, W): (K, C, *output_size).

    Boxes are those of `roi_align`, rounded to pixels, ends included (arXiv 1504.08083); they are
    read. A bin without pixels is 0.

    Args:
        boxes, spatial_scale: As of `roi_align`.
    """
    height, width = input.shape[2:]
    rows, columns = _pair(output_size)
    with no_grad():
        image, *corners = _regions(boxes, "roi_pool")
        start, end = (_rounded(corner * spatial_scale) for corner in corners)
        y, y_in = _spans(start[:, 1], end[:, 1], rows, height)
        x, x_in = _spans(start[:, 0], end[:, 0], columns, width)
        y, y_in = y[:, :, None, :, None], y_in[:, :, None, :, None]
        x, x_in = x[:, None, :, None], x_in[:, None, :, None]
        inside = (y_in & x_in)[..., None]  # (K, rows, columns, Ty, Tx, 1)
    found = input.permute(0, 2, 3, 1)[image[:, None, None, None, None], y, x]
    best = where(inside, found, -float("inf")).flatten(3, 4).max(3).values
    empty = ~inside.flatten(3, 4).any(3)
    return where(empty, 0.0, best).permute(0, 3, 1, 2).to(input.dtype)


def _rounded(t: Tensor) -> Tensor:
    """To the nearest whole number, halves away from 0."""
    return t.sign() * (t.abs() + 0.5).floor()


@layer()
class RoIAlign(FieldModule):
    """`roi_align` as a layer."""

    output_size: int | tuple[int, int]
    spatial_scale: float
    sampling_ratio: int
    aligned: bool = False

    def forward(self, input: Tensor, rois: Tensor | Sequence[Tensor]) -> Tensor:
        """(K, C, *output_size) of maps (N, C, H, W).

        Args:
            rois: The boxes.
        """
        return roi_align(
            input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned
        )


@layer()
class RoIPool(FieldModule):
    """`roi_pool` as a layer."""

    output_size: int | tuple[int, int]
    spatial_scale: float

    def forward(self, input: Tensor, rois: Tensor | Sequence[Tensor]) -> Tensor:
        """(K, C, *output_size) of maps (N, C, H, W).

        Args:
            rois: The boxes.
        """
        return roi_pool(input, rois, self.output_size, self.spatial_scale)
