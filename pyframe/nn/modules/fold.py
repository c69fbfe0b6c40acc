"""Windows as columns and back, as torch.nn.modules.fold."""

from __future__ import annotations

from typing import Any

from pyframe.nn import functional as F
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import shown
from pyframe.tensor import Tensor

__all__ = ["Fold", "Unfold"]


class Fold(Module):
    """Columns added up where their windows lie: (N, C * kh * kw, positions) -> (N, C, H, W)."""

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
        stride: Any = 1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """(N, C * kh * kw, positions) or without N -> (N, C, *output_size)."""
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        return shown(self, "output_size", "kernel_size", "dilation", "padding", "stride")


class Unfold(Module):
    """Windows as columns: (N, C, H, W) -> (N, C * kh * kw, positions)."""

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.kernel_size, self.dilation = kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) or (C, H, W) -> (N, C * kh * kw, positions)."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return shown(self, "kernel_size", "dilation", "padding", "stride")
