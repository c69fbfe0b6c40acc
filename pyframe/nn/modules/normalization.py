"""Normalization over features, as torch.nn.modules.normalization."""

from __future__ import annotations

from typing import Any

from pyframe.nn import functional as F, init
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import check_sizes
from pyframe.nn.parameter import Parameter
from pyframe.ops.creation import ones, zeros
from pyframe.tensor import Tensor

__all__ = ["LayerNorm"]


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dims (arXiv 1607.06450)."""

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        many = hasattr(normalized_shape, "__iter__")
        self.normalized_shape = tuple(normalized_shape) if many else (normalized_shape,)
        dtype = check_sizes(self, dtype, normalized_shape=self.normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        kw = {"device": device, "dtype": dtype}
        weight = Parameter(ones(self.normalized_shape, **kw)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        has_bias = elementwise_affine and bias
        self.register_parameter(
            "bias", Parameter(zeros(self.normalized_shape, **kw)) if has_bias else None
        )

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )
