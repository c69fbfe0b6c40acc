"""torch.nn.qat: layers that are trained with weights that are rounded as they will be."""

from __future__ import annotations

from typing import Any

from pyframe import nn
from pyframe.nn import functional as F
from pyframe.tensor import Tensor


class Linear(nn.Linear):
    """A Linear layer whose weight goes through what `qconfig.weight()` makes: a module that rounds,
    with a gradient, and learns the scale. ValueError without one."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        if not qconfig:
            raise ValueError("qat.Linear: expected qconfig=, with a weight() that makes a module")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Tensor) -> Tensor:
        """The input times the rounded weight, plus the bias."""
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)
