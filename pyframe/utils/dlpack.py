"""DLPack under the names of torch.utils.dlpack."""

from __future__ import annotations

from typing import Any

from pyframe.tensor import Tensor, from_dlpack as from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """The capsule of a tensor, as DLPack had it before version 1.0; see `Tensor.__dlpack__`."""
    return tensor.__dlpack__()
