"""Channels that become pixels and back, as torch.nn.modules.pixelshuffle."""

from __future__ import annotations

from pyframe.nn import functional as F
from pyframe.nn.modules.fields import Layer, layer
from pyframe.tensor import Tensor

__all__ = ["PixelShuffle", "PixelUnshuffle"]


@layer()
class PixelShuffle(Layer):
    """(*, C * r^2, H, W) -> (*, C, H * r, W * r) (arXiv 1609.05158)."""

    upscale_factor: int

    def forward(self, input: Tensor) -> Tensor:
        """(*, C * r^2, H, W) -> (*, C, H * r, W * r)."""
        return F.pixel_shuffle(input, self.upscale_factor)


@layer()
class PixelUnshuffle(Layer):
    """(*, C, H * r, W * r) -> (*, C * r^2, H, W): PixelShuffle undone."""

    downscale_factor: int

    def forward(self, input: Tensor) -> Tensor:
        """(*, C, H * r, W * r) -> (*, C * r^2, H, W)."""
        return F.pixel_unshuffle(input, self.downscale_factor)
