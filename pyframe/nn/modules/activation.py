"""Activations, as torch.nn.modules.activation; MultiheadAttention stands in multihead.py."""

from __future__ import annotations

import warnings
from typing import Any

from pyframe.nn import functional as F, init as _init
from pyframe.nn.modules.module import Module
from pyframe.nn.modules.multihead import MultiheadAttention as MultiheadAttention  # PyTorch's place
from pyframe.nn.modules.utils import check_sizes, shown
from pyframe.nn.parameter import Parameter
from pyframe.ops.creation import empty
from pyframe.tensor import Tensor

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU",
    "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign",
    "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip

# --- pieces of lines


class _InPlace(Module):
    """An activation that may overwrite its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return self._fields()

    def _fields(self, *names: str) -> str:
        return shown(self, *names, *(("inplace",) if self.inplace else ()))


class ReLU(_InPlace):
    """max(x, 0)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.relu(input, self.inplace)


class LeakyReLU(_InPlace):
    """x where x > 0, else negative_slope * x."""

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return self._fields("negative_slope")


class RReLU(_InPlace):
    """LeakyReLU whose slope is drawn from [lower, upper) in training, else their mean
    (arXiv 1505.00853)."""

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower, self.upper = lower, upper

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return self._fields("lower", "upper")


class PReLU(Module):
    """x where x > 0, else weight * x with a learnt weight, one or one a channel
    (arXiv 1502.01852)."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        dtype = check_sizes(self, dtype, num_parameters=num_parameters)
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All `init`."""
        _init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """The same shape; channels are dim 1."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return shown(self, "num_parameters")


class Threshold(_InPlace):
    """x where x > threshold, else value."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold, self.value = threshold, value

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return self._fields("threshold", "value")


class Hardtanh(_InPlace):
    """x limited to [min_val, max_val]. AssertionError unless min_val < max_val."""

    def __init__(
        self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False,
        min_value: float | None = None, max_value: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(inplace)
        for old, new, given in (("min_value", "min_val", min_value),
                                ("max_value", "max_val", max_value)):  # fmt: skip
            if given is not None:
                warnings.warn(
                    f"Hardtanh: keyword argument `{old}` is deprecated and renamed to `{new}`",
                    FutureWarning,
                    stacklevel=2,
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        if self.max_val <= self.min_val:
            raise AssertionError(
                f"{type(self).__name__}: max_val ({self.max_val}) must be greater than min_val "
                f"({self.min_val})"
            )

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return self._fields("min_val", "max_val")


class ReLU6(Hardtanh):
    """min(max(x, 0), 6)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return self._fields()


class Hardsigmoid(_InPlace):
    """min(max(x + 3, 0), 6) / 6 (arXiv 1905.02244)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InPlace):
    """x * hardsigmoid(x) (arXiv 1905.02244)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class _Shrink(Module):
    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x, or 0 where |x| <= lambd."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x brought nearer to 0 by lambd, and 0 where |x| <= lambd."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.softshrink(input, self.lambd)


class Softsign(Module):
    """x / (1 + |x|)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.softsign(input)


# --- exponentials


class _Alpha(_InPlace):
    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def extra_repr(self) -> str:
        return self._fields("alpha")


class ELU(_Alpha):
    """x where x > 0, else alpha * (exp(x) - 1) (arXiv 1511.07289)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Alpha):
    """x where x > 0, else alpha * (exp(x / alpha) - 1) (arXiv 1704.07483)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.celu(input, self.alpha, self.inplace)


class SELU(_InPlace):
    """ELU with the constants that keep mean 0 and variance 1 (arXiv 1706.02515)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.selu(input, self.inplace)


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


class SiLU(_InPlace):
    """x * sigmoid(x) (arXiv 1606.08415)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    """x * tanh(softplus(x)) (arXiv 1908.08681)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.mish(input, self.inplace)


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return shown(self, "beta", "threshold")


class Tanh(Module):
    """tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.tanh(input)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.tanhshrink(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.sigmoid(input)


class LogSigmoid(Module):
    """log(sigmoid(x)), without overflow."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.logsigmoid(input)


# --- over a dim


class GLU(Module):
    """a * sigmoid(b) of the two halves of a dim (arXiv 1612.08083)."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Half the size in `dim`."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return shown(self, "dim")


_USERS_LINE = 5  # where a warning about an implicit dim points


class _OverDim(Module):
    """A function over one dim."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return shown(self, "dim")


class Softmax(_OverDim):
    """exp(x) / sum(exp(x)) over a dim."""

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.softmax(input, self.dim, _USERS_LINE)


class Softmin(_OverDim):
    """softmax(-x) over a dim."""

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.softmin(input, self.dim, _USERS_LINE)


class LogSoftmax(_OverDim):
    """log(softmax(x)) over a dim."""

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.log_softmax(input, self.dim, _USERS_LINE)


class Softmax2d(Module):
    """Softmax over the channels of each pixel: (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """The same shape. ValueError for another number of dims."""
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)
