"""Linear maps, as torch.nn.modules.linear."""

from __future__ import annotations

import math
from typing import Any

from pyframe.nn import functional as F, init
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import bias_bound, check_sizes
from pyframe.nn.parameter import Parameter
from pyframe.ops.creation import empty
from pyframe.tensor import Tensor

__all__ = ["Identity", "Linear"]


class Identity(Module):
    """Its input, whatever the arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """The input."""
        return input


class Linear(Module):
    """x @ weight.T + bias: (*, in_features) -> (*, out_features)."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        dtype = check_sizes(self, dtype, in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """PyTorch's start: U(-1/sqrt(in_features), 1/sqrt(in_features)) for both."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = bias_bound(self.weight)
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """(*, in_features) -> (*, out_features)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
