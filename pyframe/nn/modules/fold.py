"""Windows as columns and back, as torch.nn.modules.fold."""

from __future__ import annotations

from typing import Any

from pyframe.nn import functional as F
from pyframe.nn.modules.fields import Layer, layer
from pyframe.tensor import Tensor

__all__ = ["Fold", "Unfold"]


@layer()
class Fold(Layer):
    """Columns added up where their windows lie: (N, C * kh * kw, positions) -> (N, C, H, W)."""

    output_size: Any
    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1

    def forward(self, input: Tensor) -> Tensor:
        """(N, C * kh * kw, positions) or without N -> (N, C, *output_size)."""
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )


@layer()
class Unfold(Layer):
    """Windows as columns: (N, C, H, W) -> (N, C * kh * kw, positions)."""

    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) or (C, H, W) -> (N, C * kh * kw, positions)."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)
