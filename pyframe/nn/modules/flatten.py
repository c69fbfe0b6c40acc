"""Dims joined and split, as torch.nn.modules.flatten."""

from __future__ import annotations

from typing import Any

import pyframe as pf
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import shown
from pyframe.tensor import Tensor

__all__ = ["Flatten", "Unflatten"]


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
        return shown(self, "start_dim", "end_dim")


class Unflatten(Module):
    """A dim split into several: Flatten undone."""

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                "Unflatten: unflattened_size must be a tuple of ints, but found type "
                f"{type(unflattened_size).__name__}"
            )
        for i, n in enumerate(unflattened_size):
            if not isinstance(n, int):
                raise TypeError(
                    "Unflatten: unflattened_size must be a tuple of ints, but found element of "
                    f"type {type(n).__name__} at pos {i}"
                )
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """(*, prod(unflattened_size), *) -> (*, *unflattened_size, *)."""
        return pf.unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return shown(self, "dim", "unflattened_size")
