"""Images at another size, as torch.nn.modules.upsampling."""

from __future__ import annotations

from typing import Any

from pyframe.nn import functional as F
from pyframe.nn.modules.fields import OneInput, layer

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


@layer(F.interpolate, "(N, C, *spatial) -> (N, C, *size).")
class Upsample(OneInput):
    """(N, C, *spatial) at another `size`, or `scale_factor` times as large; mode: nearest,
    nearest-exact, linear, bilinear, bicubic, trilinear or area."""

    size: Any = None
    scale_factor: Any = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None

    def _check_fields(self) -> None:
        self.name = type(self).__name__
        if isinstance(self.scale_factor, tuple):
            self.scale_factor = tuple(map(float, self.scale_factor))
        else:
            self.scale_factor = float(self.scale_factor) if self.scale_factor else None

    def extra_repr(self) -> str:
        which = "size" if self.scale_factor is None else "scale_factor"
        return f"{which}={getattr(self, which)!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample in mode 'nearest': (N, C, H, W)."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor)


class UpsamplingBilinear2d(Upsample):
    """Upsample in mode 'bilinear' with align_corners: (N, C, H, W)."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)
