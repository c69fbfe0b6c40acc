"""Dims joined and split, as torch.nn.modules.flatten."""

from __future__ import annotations

from typing import Any

import pyframe as pf
from pyframe.nn.modules.fields import Layer, layer
from pyframe.tensor import Tensor

__all__ = ["Flatten", "Unflatten"]


@layer()
class Flatten(Layer):
    """Dims start_dim..end_dim joined into one."""

    start_dim: int = 1
    end_dim: int = -1

    def forward(self, input: Tensor) -> Tensor:
        """(N, *) -> (N, prod(*)) by default."""
        if not isinstance(input, Tensor):  # an array has a method of this name too
            pf.flatten(input)
        return input.flatten(self.start_dim, self.end_dim)


@layer()
class Unflatten(Layer):
    """A dim split into several: Flatten undone."""

    dim: int
    unflattened_size: Any

    def _check_fields(self) -> None:
        if not isinstance(self.unflattened_size, (tuple, list)):
            raise TypeError(
                "Unflatten: unflattened_size must be a tuple of ints, but found type "
                f"{type(self.unflattened_size).__name__}"
            )
        for i, n in enumerate(self.unflattened_size):
            if not isinstance(n, int):
                raise TypeError(
                    "Unflatten: unflattened_size must be a tuple of ints, but found element of "
                    f"type {type(n).__name__} at pos {i}"
                )

    def forward(self, input: Tensor) -> Tensor:
        """(*, prod(unflattened_size), *) -> (*, *unflattened_size, *)."""
        return pf.unflatten(input, self.dim, self.unflattened_size)
