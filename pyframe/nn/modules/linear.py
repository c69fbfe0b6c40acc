"""Linear maps, as torch.nn.modules.linear."""

from __future__ import annotations

import math
from typing import Any

from pyframe.nn import functional as F, init
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import LazyLayer, Weighted, add_parameters, check_sizes, shown
from pyframe.tensor import Tensor

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Its input, whatever the arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The input."""
        return input


class Linear(Weighted):
    """x @ weight.T + bias: (*, in_features) -> (*, out_features)."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        dtype = check_sizes(self, dtype, in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        rows = out_features if bias else None
        add_parameters(self, device, dtype, weight=(out_features, in_features), bias=rows)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """(*, in_features) -> (*, out_features)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return shown(self, "in_features", "out_features", "bias")


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear under the name that attention's projection has in PyTorch's reprs."""


class LazyLinear(LazyLayer, Linear):
    """A Linear that learns in_features from its first input."""

    cls_to_become, _learned = Linear, "in_features"

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        dtype = check_sizes(self, dtype, out_features=out_features)
        self.out_features = out_features
        self._wait(device, dtype, bias)

    def initialize_parameters(self, input: Tensor) -> None:
        """Shapes for inputs (*, in_features)."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self._materialize((self.out_features, self.in_features), self.out_features)
        if self.in_features == 0:  # the weight was loaded
            expected, self.in_features = self.weight.shape[-1], input.shape[-1]
            if self.in_features != expected:
                raise AssertionError(
                    f"LazyLinear: the in_features inferred from input: {self.in_features} is not "
                    f"equal to in_features from self.weight: {expected}"
                )


class Bilinear(Weighted):
    """x1 @ weight[o] @ x2 + bias[o]: (*, in1_features), (*, in2_features) -> (*, out_features)."""

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        dtype = check_sizes(
            self, dtype, in1_features=in1_features, in2_features=in2_features,
            out_features=out_features,
        )  # fmt: skip
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        add_parameters(self, device, dtype, weight=shape, bias=out_features if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """U(-1/sqrt(in1_features), 1/sqrt(in1_features)) for both. ValueError without features."""
        if self.in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be > 0, got {self.in1_features}")
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """(*, in1_features), (*, in2_features) -> (*, out_features)."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return shown(self, "in1_features", "in2_features", "out_features", "bias")
