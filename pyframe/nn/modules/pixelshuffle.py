"""Channels that become pixels and back, as torch.nn.modules.pixelshuffle."""

from __future__ import annotations

from pyframe.nn import functional as F
from pyframe.nn.modules.fields import OneInput, layer

__all__ = ["PixelShuffle", "PixelUnshuffle"]


@layer(F.pixel_shuffle, "(*, C * r^2, H, W) -> (*, C, H * r, W * r).")
class PixelShuffle(OneInput):
    """(*, C * r^2, H, W) -> (*, C, H * r, W * r) (arXiv 1609.05158)."""

    upscale_factor: int


@layer(F.pixel_unshuffle, "(*, C, H * r, W * r) -> (*, C * r^2, H, W).")
class PixelUnshuffle(OneInput):
    """(*, C, H * r, W * r) -> (*, C * r^2, H, W): PixelShuffle undone."""

    downscale_factor: int
