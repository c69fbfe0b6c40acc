"""Convolutions, as torch.nn.modules.conv."""

from __future__ import annotations

import math
from typing import Any

from pyframe.nn import functional as F, init
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.utils import as_int, bias_bound, check_sizes, pair
from pyframe.nn.parameter import Parameter
from pyframe.ops.creation import empty
from pyframe.tensor import Tensor

__all__ = ["Conv2d"]


class Conv2d(Module):
    """Convolution: (N, in_channels, H, W) -> (N, out_channels, H', W')."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        kernel = pair(self, "kernel_size", kernel_size)
        dtype = check_sizes(
            self, dtype, in_channels=in_channels, out_channels=out_channels, kernel_size=kernel
        )
        if as_int(self, "groups", groups) <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups or out_channels % groups:
            which = "in_channels" if in_channels % groups else "out_channels"
            raise ValueError(f"{which} must be divisible by groups")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {padding!r}, should be one of 'same', 'valid'"
            )
        if padding_mode != "zeros":
            raise NotImplementedError(
                f"Conv2d: padding_mode={padding_mode!r} is not supported; use 'zeros'"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = kernel, pair(self, "stride", stride)
        self.dilation = pair(self, "dilation", dilation)
        self.padding = padding if isinstance(padding, str) else pair(self, "padding", padding)
        if padding == "same" and self.stride != (1, 1):
            raise ValueError("padding='same' is not supported for strided convolutions")
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """PyTorch's start: U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for both."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = bias_bound(self.weight)
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """(N, in_channels, H, W) or (in_channels, H, W) -> the same with out_channels."""
        return F.conv2d(
            input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if self.padding != (0, 0):
            text += f", padding={self.padding}"
        if self.dilation != (1, 1):
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text + (", bias=False" if self.bias is None else "")
