"""The layers: fields, `__init__`, `forward`, and nothing else. Names and defaults are PyTorch's."""

from __future__ import annotations

import math
import operator
from typing import Any

import pyframe as pf
from pyframe.dtypes import of_argument
from pyframe.nn import functional as F, init
from pyframe.nn.module import Module, Parameter
from pyframe.ops.creation import empty, ones, zeros
from pyframe.tensor import Tensor, no_grad

__all__ = [
    "GELU", "AvgPool2d", "Conv2d", "CrossEntropyLoss", "Dropout", "Embedding", "Flatten",
    "Identity", "L1Loss", "LayerNorm", "Linear", "LogSoftmax", "MSELoss", "MaxPool2d", "NLLLoss",
    "PairwiseDistance", "ReLU", "SiLU", "Sigmoid", "Softmax", "Tanh",
]  # fmt: skip


def _int(layer: Module, what: str, value: Any) -> int:
    try:
        return operator.index(value)
    except (TypeError, RuntimeError):
        name = type(layer).__name__
        raise TypeError(f"{name}: {what} must be an int, got {value!r}") from None


def _sizes(layer: Module, dtype: Any, **sizes: Any) -> Any:
    """`dtype` as a dtype. TypeError for what is none and for a size that is no int, RuntimeError
    for a negative one: PyTorch's types, with the name of the layer and of the argument."""
    for what, given in sizes.items():
        for n in given if isinstance(given, tuple) else (given,):
            if _int(layer, what, n) < 0:
                name = type(layer).__name__
                raise RuntimeError(f"{name}: {what} must not be negative, got {n}")
    return of_argument(type(layer).__name__, dtype)


def _bias_bound(weight: Tensor) -> float:
    fan = init.fans(weight)[0]
    return 1 / math.sqrt(fan) if fan > 0 else 0


class Linear(Module):
    """x @ weight.T + bias: (*, in_features) -> (*, out_features)."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        dtype = _sizes(self, dtype, in_features=in_features, out_features=out_features)
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
            bound = _bias_bound(self.weight)
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """(*, in_features) -> (*, out_features)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


def _pair(layer: Module, what: str, v: Any) -> tuple[int, int]:
    if isinstance(v, (tuple, list)) and len(v) != 2:
        raise TypeError(f"{type(layer).__name__}: {what} must be an int or two, got {v!r}")
    a, b = v if isinstance(v, (tuple, list)) else (v, v)
    return _int(layer, what, a), _int(layer, what, b)


class Conv2d(Module):
    """Convolution: (N, in_channels, H, W) -> (N, out_channels, H', W')."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        kernel = _pair(self, "kernel_size", kernel_size)
        dtype = _sizes(
            self, dtype, in_channels=in_channels, out_channels=out_channels, kernel_size=kernel
        )
        if _int(self, "groups", groups) <= 0:
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
        self.kernel_size, self.stride = kernel, _pair(self, "stride", stride)
        self.dilation = _pair(self, "dilation", dilation)
        self.padding = padding if isinstance(padding, str) else _pair(self, "padding", padding)
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
            bound = _bias_bound(self.weight)
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


class MaxPool2d(Module):
    """The largest element of each window: (N, C, H, W) -> (N, C, H', W')."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) or (C, H, W)."""
        return F.max_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
            self.return_indices,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class AvgPool2d(Module):
    """The mean of each window: (N, C, H, W) -> (N, C, H', W')."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) or (C, H, W)."""
        return F.avg_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _InPlace(Module):
    """An activation that may overwrite its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """max(x, 0)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.relu(input, self.inplace)


class SiLU(_InPlace):
    """x * sigmoid(x) (arXiv 1606.08415)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.silu(input, self.inplace)


class GELU(Module):
    """x * Phi(x) (arXiv 1606.08415)."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Tanh(Module):
    """tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.sigmoid(input)


class _OverDim(Module):
    """A function over one dim."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_OverDim):
    """exp(x) / sum(exp(x)) over a dim."""

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.softmax(input, self.dim)


class LogSoftmax(_OverDim):
    """log(softmax(x)) over a dim."""

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.log_softmax(input, self.dim)


class Identity(Module):
    """Its input, whatever the arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """The input."""
        return input


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
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


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


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dims (arXiv 1607.06450)."""

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        many = hasattr(normalized_shape, "__iter__")
        self.normalized_shape = tuple(normalized_shape) if many else (normalized_shape,)
        dtype = _sizes(self, dtype, normalized_shape=self.normalized_shape)
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


class Embedding(Module):
    """A table of vectors looked up by ints: (*) -> (*, embedding_dim)."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, *,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        dtype = _sizes(self, dtype, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(
                    f"Padding_idx must be within num_embeddings: got {padding_idx} for "
                    f"{num_embeddings}"
                )
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """N(0, 1), zeros at padding_idx."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        """ints (*) -> (*, embedding_dim)."""
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"


class _Loss(Module):
    def __init__(self, *args: Any, reduction: str = "mean") -> None:
        super().__init__()
        if args:
            name = type(self).__name__
            raise TypeError(
                f"{name}: got {len(args)} positional argument{'s' if len(args) > 1 else ''}, "
                "expected its options by their names (reduction='sum'); the loss of a prediction "
                f"is nn.{name}()(input, target)"
            )
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(
                f"{reduction} is not a valid value for reduction; use 'mean', 'sum' or 'none'"
            )
        self.reduction = reduction


class MSELoss(_Loss):
    """The mean of (input - target)^2."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Equal shapes -> a scalar, or the same shape for reduction='none'."""
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """The mean of |input - target|."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Equal shapes -> a scalar, or the same shape for reduction='none'."""
        return F.l1_loss(input, target, reduction=self.reduction)


class NLLLoss(_Loss):
    """The mean of -input[target] over samples: log-probabilities (N, C, *), ints (N, *)."""

    def __init__(
        self, weight: Tensor | None = None, *args: Any, ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(*args, reduction=reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar, or (N, *) for reduction='none'."""
        return F.nll_loss(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class CrossEntropyLoss(_Loss):
    """-log_softmax(input)[target]: (N, C, *) with class ints (N, *) or probabilities (N, C, *)."""

    def __init__(
        self, weight: Tensor | None = None, *args: Any, ignore_index: int = -100,
        reduction: str = "mean", label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(*args, reduction=reduction)
        self.register_buffer("weight", weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar, or (N, *) for reduction='none'."""
        return F.cross_entropy(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )  # fmt: skip


class PairwiseDistance(Module):
    """||x1 - x2 + eps||_p over the last dim."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """(*, D) and (*, D) -> (*), or (*, 1) with keepdim."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
