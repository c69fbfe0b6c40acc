"""Windows as columns and back, as torch.nn.modules.fold."""

from __future__ import annotations

from typing import Any

from pyframe.nn import functional as F
from pyframe.nn.modules.fields import OneInput, layer

__all__ = ["Fold", "Unfold"]


@layer(F.fold, "(N, C * kh * kw, positions) or without N -> (N, C, *output_size).")
class Fold(OneInput):
    """Columns added up where their windows lie: (N, C * kh * kw, positions) -> (N, C, H, W)."""

    output_size: Any
    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1


@layer(F.unfold, "(N, C, H, W) or (C, H, W) -> (N, C * kh * kw, positions).")
class Unfold(OneInput):
    """Windows as columns: (N, C, H, W) -> (N, C * kh * kw, positions)."""

    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1
