"""Normalization over features and channels, as torch.nn.modules.normalization."""

from __future__ import annotations

from typing import Any

import pyframe as pf
from pyframe.nn import functional as F, init
from pyframe.nn.modules.fields import OneInput, layer
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import Affine, add_parameters, as_int, check_sizes, shown
from pyframe.tensor import Tensor

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


def _shape(normalized_shape: Any) -> tuple[int, ...]:
    many = hasattr(normalized_shape, "__iter__")
    return tuple(normalized_shape) if many else (normalized_shape,)


class LayerNorm(Affine):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dims (arXiv 1607.06450)."""

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        dtype = check_sizes(self, dtype, normalized_shape=self.normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._add_affine(self.normalized_shape, elementwise_affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, " + shown(self, "eps", "elementwise_affine", "bias")


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last dims (arXiv 1910.07467); eps is the
    dtype's machine epsilon by default."""

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        dtype = check_sizes(self, dtype, normalized_shape=self.normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        weight = self.normalized_shape if elementwise_affine else None
        add_parameters(self, device, dtype, weight=weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, " + shown(self, "eps", "elementwise_affine")


class GroupNorm(Affine):
    """(x - mean) / sqrt(var + eps) over each of `num_groups` groups of the channels of (N, C, *),
    then * weight + bias for each channel (arXiv 1803.08494)."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        dtype = check_sizes(self, dtype, num_channels=num_channels)
        if as_int(self, "num_groups", num_groups) <= 0 or num_channels % num_groups:
            raise (ValueError if num_groups else ZeroDivisionError)(
                f"GroupNorm: num_channels ({num_channels}) must be divisible by num_groups "
                f"({num_groups})"
            )
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        self._add_affine(num_channels, affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, " + shown(self, "eps", "affine", "bias")


@layer()
class _LRN(OneInput):
    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def extra_repr(self) -> str:
        return f"{self.size}, " + shown(self, "alpha", "beta", "k")


@layer(F.local_response_norm)
class LocalResponseNorm(_LRN):
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta: (N, C, *)."""


@layer()
class CrossMapLRN2d(_LRN):
    """LocalResponseNorm as PyTorch's first layer of this kind has it: (N, C, H, W).

    Its windows reach (size - 1) // 2 channels to both sides, and those that begin behind the first
    channel contain that one too; the gradient is that of the result.
    """

    k: float = 1

    def forward(self, input: Tensor) -> Tensor:
        """The same shape. ValueError unless it has 4 dims."""
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead")
        n, c, h, w = input.shape
        reach = (self.size - 1) // 2
        squares = input * input
        padded = F.pad(squares.reshape(n, 1, c, h * w), (0, 0, reach, reach))
        width = 2 * reach + 1
        near = F.avg_pool2d(padded, (width, 1), 1).reshape(n, c, h, w) * width
        if c > reach + 1:
            behind = near[:, reach + 1 :] + squares[:, :1]
            near = pf.cat([near[:, : reach + 1], behind], 1)
        return input / (self.k + near * (self.alpha / self.size)) ** self.beta
