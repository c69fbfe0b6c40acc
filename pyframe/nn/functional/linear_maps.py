"""Linear maps."""

from __future__ import annotations

import math

from pyframe.ops.api import check
from pyframe.ops.api.autocast import autocast
from pyframe.ops.linalg.matmul import linear as _linear, matmul
from pyframe.ops.reduce import reductions as rd
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor

__all__ = ["bilinear", "linear"]
TOPLEVEL = "bilinear"  # functions of pyframe too


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias: (*, in) and (out, in) -> (*, out)."""
    if input.ndim and weight.ndim == 2 and input.shape[-1] != weight.shape[1]:
        raise RuntimeError(
            f"linear: input of shape {list(input.shape)} has {input.shape[-1]} features, but "
            f"weight of shape {list(weight.shape)} expects {weight.shape[1]}; an "
            f"nn.Linear for this input has in_features={input.shape[-1]}"
        )
    if weight.ndim > 2:
        raise RuntimeError(
            f"linear: expected a weight (out, in) or (in,), got {list(weight.shape)}"
        )
    dtype = input.dtype
    if dtype is not weight.dtype or (bias is not None and bias.dtype is not dtype):
        check.weight_dtype("linear", input, weight, bias)
    if bias is not None and bias.ndim > 2:
        raise RuntimeError(f"linear: expected a bias of shape (out,), got {list(bias.shape)}")
    if input.ndim and weight.ndim == 2:
        out = _linear(input, weight)
    else:
        out = matmul(input, weight.mT if weight.ndim > 1 else weight)
    return out if bias is None else out + bias


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[o] @ input2 + bias[o]: (*, a), (*, b), (out, a, b) -> (*, out)."""
    check.same_dtype("bilinear", *[x for x in (input1, input2, weight, bias) if x is not None])
    lead = input1.shape[:-1]
    if lead != input2.shape[:-1]:
        raise RuntimeError(
            "bilinear: input batch dimensions do not match: got input1 "
            f"{list(input1.shape)} and input2 {list(input2.shape)}"
        )
    if weight.ndim != 3 or weight.shape[1:] != (input1.shape[-1], input2.shape[-1]):
        raise RuntimeError(
            f"bilinear: expected weight (out, {input1.shape[-1]}, {input2.shape[-1]}), got "
            f"{list(weight.shape)}"
        )
    o, a, b = weight.shape
    if bias is not None and bias.shape != (o,):
        raise RuntimeError(f"bilinear: expected bias ({o},), got {list(bias.shape)}")
    n = math.prod(lead)
    left = matmul(input1.reshape(n, a), mv.permute(weight, 1, 0, 2).reshape(a, o * b))
    out = rd.sum(left.reshape(n, o, b) * input2.reshape(n, 1, b), -1).reshape(*lead, o)
    return out if bias is None else out + bias


autocast(globals(), lower="linear", gpu_widest="bilinear")
