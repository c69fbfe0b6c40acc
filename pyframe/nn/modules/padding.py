"""Padding, as torch.nn.modules.padding: of (N, C, *spatial) or (C, *spatial)."""

from __future__ import annotations

from typing import Any, ClassVar

from pyframe.nn import functional as F
from pyframe.nn.modules.fields import Kind, Layer, layer
from pyframe.nn.modules.utils import each, shown
from pyframe.tensor import Tensor

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


@layer()
class _PadNd(Layer, Kind):
    """Elements added at both ends of the last `_k` dims: an int, or (left, right, top, bottom, …).
    Negative numbers cut."""

    padding: Any
    _mode: ClassVar[str]

    def _check_fields(self) -> None:
        self.padding = each(self, "padding", self.padding, 2 * self._k)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *spatial) or (C, *spatial)."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


@layer()
class _ConstantPadNd(_PadNd):
    value: float

    def forward(self, input: Tensor) -> Tensor:
        """(*, *spatial)."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return shown(self, "padding", "value")


class ConstantPad1d(_ConstantPadNd, k=1):
    """Padding of the last dim with `value`."""


class ConstantPad2d(_ConstantPadNd, k=2):
    """Padding of the last two dims with `value`."""


class ConstantPad3d(_ConstantPadNd, k=3):
    """Padding of the last three dims with `value`."""


class _Zero(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_Zero, ConstantPad1d):
    """Padding of the last dim with zeros."""


class ZeroPad2d(_Zero, ConstantPad2d):
    """Padding of the last two dims with zeros."""


class ZeroPad3d(_Zero, ConstantPad3d):
    """Padding of the last three dims with zeros."""


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd, k=1):
    """Padding of the last dim with its mirror image, whose first element is not repeated."""


class ReflectionPad2d(_ReflectionPadNd, k=2):
    """Padding of the last two dims with their mirror images."""


class ReflectionPad3d(_ReflectionPadNd, k=3):
    """Padding of the last three dims with their mirror images."""


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd, k=1):
    """Padding of the last dim with the element at its edge."""


class ReplicationPad2d(_ReplicationPadNd, k=2):
    """Padding of the last two dims with the elements at their edges."""


class ReplicationPad3d(_ReplicationPadNd, k=3):
    """Padding of the last three dims with the elements at their edges."""


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *spatial) or (C, *spatial). ValueError for another number of dims."""
        if input.ndim not in (self._k + 1, self._k + 2):
            raise ValueError(
                f"{type(self).__name__}: expected {self._k + 1}D or {self._k + 2}D input (got "
                f"{input.ndim}D input)"
            )
        return super().forward(input)


class CircularPad1d(_CircularPadNd, k=1):
    """Padding of the last dim with what stands at its other end."""


class CircularPad2d(_CircularPadNd, k=2):
    """Padding of the last two dims with what stands at their other ends."""


class CircularPad3d(_CircularPadNd, k=3):
    """Padding of the last three dims with what stands at their other ends."""
