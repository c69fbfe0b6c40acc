"""Dims joined and split, as torch.nn.modules.flatten."""

from __future__ import annotations

import pyframe as pf
from pyframe.nn.modules.module import Module
from pyframe.tensor import Tensor

__all__ = ["Flatten"]


class Flatten(Module):
    """Dims start_dim..end_dim joined into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """(N, *) -> (N, prod(*)) by default."""
        if not isinstance(input, Tensor):  # an array has a method of this name too
            pf.flatten(input)
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
