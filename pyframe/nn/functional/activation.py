"""Activations. Those with `inplace` overwrite their input where it is true; `name_` always does."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyframe.core import dtypes as dt
from pyframe.core.modes import mode
from pyframe.ops import METHODS
from pyframe.ops.api import check
from pyframe.ops.api.autocast import autocast
from pyframe.ops.api.layouts import declare_layout
from pyframe.ops.math import elementwise as el
from pyframe.ops.math.elementwise import softplus as _softplus
from pyframe.ops.math.pointwise import hardshrink as hardshrink, prelu as prelu
from pyframe.ops.random.draws import fractions, rand
from pyframe.ops.reduce import reductions as rd
from pyframe.ops.shape import arrange
from pyframe.tensor import Tensor, normalize_dim

__all__ = [
    "celu", "celu_", "elu", "elu_", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid",
    "hardswish", "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_", "log_softmax", "logsigmoid",
    "mish", "prelu", "relu", "relu6", "relu_", "rrelu", "rrelu_", "selu", "selu_", "sigmoid",
    "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink",
    "threshold", "threshold_",
]  # fmt: skip
TOPLEVEL = "celu celu_ rrelu rrelu_ selu selu_ threshold threshold_"  # functions of pyframe too

tanh, sigmoid = METHODS["tanh"], METHODS["sigmoid"]


def maybe_inplace(fn: Callable[[Tensor], Tensor], input: Tensor, inplace: bool) -> Tensor:
    """fn(input), written over `input` where `inplace`; its gradients keep the old values then."""
    if not inplace:
        return fn(input)
    return input._write(fn(input.clone() if mode.grad and input.requires_grad else input))


def _without_inplace(fn: Callable[..., Tensor]) -> inspect.Signature:
    known = inspect.signature(fn)
    return known.replace(parameters=[p for n, p in known.parameters.items() if n != "inplace"])


def _overwriting(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return fn(input, *args, inplace=True, **kwargs)

    run.__name__ = run.__qualname__ = f"{fn.__name__}_"
    run.__doc__ = f"In-place version of `{fn.__name__}`; returns input."
    run.__signature__ = _without_inplace(fn)  # type: ignore[attr-defined]
    return run


# --- pieces of lines


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0); see nn.ReLU."""
    if input.dtype is dt.bool_:
        raise RuntimeError("relu: Boolean inputs not supported; use .float() first")
    return input.relu_() if inplace else el.relu(input)


def threshold(input: Tensor, threshold: Any, value: Any, inplace: bool = False) -> Tensor:
    """x where x > threshold, else value; see nn.Threshold."""
    if input.dtype is dt.bool_:
        raise NotImplementedError("threshold: not implemented for bool; use .float() first")
    if input.dtype.category == dt.INTEGER:
        threshold, value = (el.fitted(v, input.dtype) for v in (threshold, value))
    return maybe_inplace(lambda x: el.where(el.le(x, threshold), value, x), input, inplace)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x limited to [min_val, max_val]. ValueError where min_val is above max_val.

    See nn.Hardtanh for shapes and arguments.
    """
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} cannot be greater than max_val {max_val}")
    if input.dtype is dt.bool_:
        raise RuntimeError("hardtanh: Bool inputs not supported; use .float() first")
    if input.dtype.category == dt.INTEGER:
        min_val, max_val = int(min_val), int(max_val)
        if min_val < 0 and not input.dtype.is_signed:
            raise RuntimeError(f"hardtanh: negative limits don't fit {input.dtype.name}")
    return maybe_inplace(lambda x: el.hardtanh(x, min_val, max_val), input, inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6); see nn.ReLU6."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6 (arXiv 1905.02244); see nn.Hardsigmoid."""
    check.floats("hardsigmoid", input)
    return maybe_inplace(lambda x: el.over_six(el.hardtanh(x + 3.0, 0.0, 6.0)), input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x) (arXiv 1905.02244); see nn.Hardswish."""
    check.floats("hardswish", input)
    return maybe_inplace(lambda x: x * (el.hardtanh(x + 3.0, 0.0, 6.0) / 6.0), input, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where x > 0, else negative_slope * x; see nn.LeakyReLU."""
    check.floats("leaky_relu", input)
    return maybe_inplace(lambda x: el.where(el.gt(x, 0), x, x * negative_slope), input, inplace)


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    inplace: bool = False,
) -> Tensor:  # fmt: skip
    """leaky_relu whose slope is drawn from [lower, upper) for each element in training, and their
    mean otherwise (arXiv 1505.00853). RuntimeError unless lower <= upper, both finite.

    See nn.RReLU for shapes and arguments.
    """
    if not lower <= upper or upper - lower == float("inf"):
        raise RuntimeError(
            f"rrelu: expected finite bounds with lower <= upper, got lower {lower} and upper "
            f"{upper}"
        )
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    check.floats("rrelu", input)
    u = rand(input.shape, dtype=input.dtype, device=input.device)
    slope = u * (upper - lower) + lower
    return maybe_inplace(lambda x: el.where(el.le(x, 0), x * slope, x), input, inplace)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x brought nearer to 0 by lambd, and 0 where |x| <= lambd; see nn.Softshrink."""
    check.floats("softshrink", input)
    if not 0 <= lambd < math.inf:
        raise RuntimeError(
            f"softshrink: lambda must be finite and greater or equal to 0, but found to be {lambd}"
        )
    small = el.le(el.abs(input), lambd)  # no slope there, also of an infinite gradient
    return el.where(small, 0.0, input - el.clamp(input, -lambd, lambd))


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|); see nn.Softsign."""
    return input / (el.abs(input) + 1)


# --- exponentials


def _elu(x: Tensor, alpha: float, scale: float, input_scale: float) -> Tensor:
    below = el.le(x, 0)
    low = el.where(below, x, 0.0)  # where x is large, exp must not overflow in the gradient
    bent = el.expm1(low if input_scale == 1 else low * input_scale)
    factor = alpha * scale
    bent = bent if factor == 1 else bent * factor
    return el.where(below, bent, x if scale == 1 else x * scale)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha * (exp(x) - 1) (arXiv 1511.07289); see nn.ELU."""
    check.floats("elu", input)
    return maybe_inplace(lambda x: _elu(x, alpha, 1, 1), input, inplace)


SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu with the two constants that keep mean 0 and variance 1 (arXiv 1706.02515).

    See nn.SELU for shapes and arguments.
    """
    check.floats("selu", input)
    return maybe_inplace(lambda x: _elu(x, SELU_ALPHA, SELU_SCALE, 1), input, inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha * (exp(x / alpha) - 1) (arXiv 1704.07483); see nn.CELU."""
    check.floats("celu", input)
    if alpha == 0:
        raise RuntimeError("celu: ZeroDivisionError: alpha cannot be 0 for CELU")
    return maybe_inplace(lambda x: _elu(x, alpha, 1, 1 / alpha), input, inplace)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x * Phi(x) (arXiv 1606.08415); approximate='tanh' for its approximation; see nn.GELU."""
    check.floats("gelu", input)
    return el.gelu(input, approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x) (arXiv 1606.08415); see nn.SiLU."""
    check.floats("silu", input)
    return maybe_inplace(el.silu, input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)) (arXiv 1908.08681); see nn.Mish."""
    check.floats("mish", input)
    return maybe_inplace(lambda x: x * el.tanh(_softplus(x)), input, inplace)


def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself above `threshold`; see nn.Softplus."""
    check.floats("softplus", input)
    scaled = input * beta
    return el.where(el.gt(scaled, threshold), input, _softplus(scaled) / beta)


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)), without overflow; see nn.LogSigmoid."""
    check.floats("logsigmoid", input)
    return -_softplus(-input)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x); see nn.Tanhshrink."""
    return input - el.tanh(input)


# --- over a dim


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b) of the two halves of a dim (arXiv 1612.08083). RuntimeError if it is odd.

    See nn.GLU for shapes and arguments.
    """
    if input.ndim == 0:
        raise RuntimeError("glu: does not support scalars because halving size must be even")
    check.floats("glu", input)
    d = normalize_dim(dim, input.ndim)
    n = input.shape[d]
    if n % 2:
        raise RuntimeError(
            f"glu: Halving dimension must be even, but dimension {d} is size {n} in "
            f"{list(input.shape)}"
        )
    a, b = arrange.split(input, n // 2, d) if n else (input, input)
    return a * el.sigmoid(b)


def _dim(name: str, dim: int | None, ndim: int, stacklevel: int) -> int:
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel + 1,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dt.dtype | None = None
) -> Tensor:
    """exp(x) / sum(exp(x)) over a dim; see nn.Softmax."""
    return rd.softmax(input, _dim("softmax", dim, input.ndim, _stacklevel), dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dt.dtype | None = None
) -> Tensor:
    """softmax(-x) over a dim; see nn.Softmin."""
    return rd.softmax(-input, _dim("softmin", dim, input.ndim, _stacklevel), dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dt.dtype | None = None
) -> Tensor:
    """log(softmax(x)) over a dim, without overflow; see nn.LogSoftmax."""
    return rd.log_softmax(input, _dim("log_softmax", dim, input.ndim, _stacklevel), dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of the Gumbel-softmax distribution over a dim (arXiv 1611.01144):
    softmax((logits + n) / tau), n being Gumbel noise. The shape stays.

    Args:
        tau: the temperature, above 0; the lower, the nearer to one-hot.
        hard: whether the sample is one-hot, with the gradient of the soft one.
        eps: deprecated; it changes nothing.

    >>> F.gumbel_softmax(pf.zeros(4, 3), hard=True).sum(-1)
    tensor([1., 1., 1., 1.])
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=3)
    check.floats("gumbel_softmax", logits)
    u = fractions(logits, None, True)
    soft = rd.softmax((logits - el.log(-el.log(u)).to(logits.dtype)) / tau, dim)
    if not hard:
        return soft
    d = normalize_dim(dim, logits.ndim)
    indices = el.dim_indices(soft.shape[d], soft.ndim - 1 - d, soft.device)
    hot = el.eq(rd.argmax(soft.detach(), d, True), indices).to(soft.dtype)
    return hot - soft.detach() + soft


if TYPE_CHECKING:
    from pyframe._stubs.activation import *
else:
    relu_, threshold_, hardtanh_ = (_overwriting(fn) for fn in (relu, threshold, hardtanh))
    leaky_relu_, rrelu_ = _overwriting(leaky_relu), _overwriting(rrelu)
    elu_, selu_, celu_ = _overwriting(elu), _overwriting(selu), _overwriting(celu)
declare_layout(globals(), rows="softmax softmin log_softmax")
autocast(globals(), gpu_float32="softmax log_softmax softmin softplus gumbel_softmax")
