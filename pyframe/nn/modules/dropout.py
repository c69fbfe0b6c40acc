"""Dropout, as torch.nn.modules.dropout."""

from __future__ import annotations

from pyframe.nn import functional as F
from pyframe.nn.modules.module import Module
from pyframe.tensor import Tensor

__all__ = ["Dropout"]


class Dropout(Module):
    """In training, zeros each element with probability p and scales the rest by 1 / (1 - p)."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        try:
            fits = 0 <= p <= 1
        except TypeError:
            raise TypeError(f"Dropout: p must be a number from 0 to 1, got {p!r}") from None
        if not fits:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
