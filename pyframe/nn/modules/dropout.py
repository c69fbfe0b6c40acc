"""Dropout, as torch.nn.modules.dropout."""

from __future__ import annotations

from pyframe.nn import functional as F
from pyframe.nn.modules.fields import OneInput, layer
from pyframe.tensor import Tensor

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


@layer()
class _DropoutNd(OneInput):
    """What drops with probability p in training. ValueError unless 0 <= p <= 1."""

    p: float = 0.5
    inplace: bool = False

    def _check_fields(self) -> None:
        name, p = type(self).__name__, self.p
        try:
            fits = 0 <= p <= 1
        except TypeError:
            raise TypeError(f"{name}: p must be a number from 0 to 1, got {p!r}") from None
        if not fits:
            raise ValueError(f"{name}: dropout probability has to be between 0 and 1, but got {p}")


@layer(F.dropout)
class Dropout(_DropoutNd):
    """In training, zeros each element with probability p and scales the rest by 1 / (1 - p)."""


@layer(F.dropout1d)
class Dropout1d(_DropoutNd):
    """Dropout of whole channels: (N, C, L) or (C, L) (arXiv 1411.4280)."""


@layer(F.dropout2d)
class Dropout2d(_DropoutNd):
    """Dropout of whole channels: (N, C, H, W)."""


@layer(F.dropout3d)
class Dropout3d(_DropoutNd):
    """Dropout of whole channels: (N, C, D, H, W) or (C, D, H, W)."""


class AlphaDropout(_DropoutNd):
    """Dropout to the value that SELU saturates at, keeping mean 0 and variance 1 (1706.02515)."""

    def forward(self, input: Tensor) -> Tensor:
        """The same shape; never in place, as in PyTorch."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels: (N, C, *)."""

    def forward(self, input: Tensor) -> Tensor:
        """The same shape; never in place, as in PyTorch."""
        return F.feature_alpha_dropout(input, self.p, self.training)
