"""Products, normalization, losses and attention."""

from __future__ import annotations

import math
from typing import Any

import pyframe as pf
from pyframe.nn import functional as F
from pyframe.onnx import values
from pyframe.onnx.graph import RunContext
from pyframe.onnx.table import op
from pyframe.onnx.values import State
from pyframe.tensor import Tensor


@op("Gemm")
def gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, *, alpha: float, beta: float, transA: int,
    transB: int,
) -> Tensor:  # fmt: skip
    a = a.T if transA else a
    if transB and alpha == beta == 1 and c is not None and c.ndim == 1:
        return F.linear(a, b, c)
    product = F.linear(a, b) if transB else a @ b
    product = product if alpha == 1 else alpha * product
    if c is None or beta == 0:
        return product
    return (product + (c if beta == 1 else beta * c)).to(product.dtype)


@op("Einsum")
def einsum(*xs: Tensor, equation: str) -> Tensor:
    return pf.einsum(equation, *xs)


@op("BatchNormalization")
def batch_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, mean: State, var: State, *, epsilon: float,
    momentum: float, training_mode: int = 0, is_test: int = 0, run: RunContext, outputs: int,
    version: int,
) -> Any:  # fmt: skip
    """Where the module trains, running statistics that the file has are moved in place."""
    if not training_mode and not run.training:
        return F.batch_norm(x, mean, var, scale, bias, False, 0.0, epsilon)
    dims = [0, *range(2, x.ndim)]
    now, spread = x.mean(dims), x.var(dims, unbiased=False)
    means = momentum * mean + (1 - momentum) * now
    variances = momentum * var + (1 - momentum) * spread
    if run.training and any(mean is c for c in run.constants):
        with pf.no_grad():
            mean.copy_(means)
            var.copy_(variances)
    y = F.batch_norm(x, None, None, scale, bias, True, 0.0, epsilon)
    return (y, means, variances)[:outputs]


@op("InstanceNormalization")
def instance_normalization(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float) -> Tensor:
    if math.prod(x.shape[2:]) == 1:  # which PyTorch refuses; each is its own mean
        return (x * 0) + bias.reshape(-1, *[1] * (x.ndim - 2))
    return F.instance_norm(x, None, None, scale, bias, eps=epsilon)


@op("GroupNormalization")
def group_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float, num_groups: int,
    stash_type: int = 1, version: int,
) -> Tensor:  # fmt: skip
    if version < 21:  # there they are of groups
        each = x.shape[1] // num_groups
        scale, bias = scale.repeat_interleave(each), bias.repeat_interleave(each)
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@op("LayerNormalization")
def layer_normalization(
    x: Tensor, scale: Tensor, bias: Tensor | None = None, *, axis: int, epsilon: float,
    stash_type: int, outputs: int,
) -> Any:  # fmt: skip
    axis = axis % x.ndim
    shape = tuple(x.shape[axis:])
    if outputs == 1 and tuple(scale.shape) == shape and (bias is None or bias.shape == shape):
        return F.layer_norm(x, shape, scale, bias, epsilon)
    wide, dims = x.to(values.DTYPES[stash_type]), [*range(axis, x.ndim)]
    mean = wide.mean(dims, keepdim=True)
    inverse = pf.rsqrt(wide.var(dims, unbiased=False, keepdim=True) + epsilon)
    y = ((wide - mean) * inverse).to(x.dtype) * scale
    return (y if bias is None else y + bias, mean, inverse)[:outputs]


@op("RMSNormalization")
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int, epsilon: float, stash_type: int
) -> Tensor:
    shape = tuple(x.shape[axis % x.ndim :])
    if tuple(scale.shape) == shape:
        return F.rms_norm(x, shape, scale, epsilon)
    return F.rms_norm(x, shape, None, epsilon) * scale


@op("LRN")
def lrn(x: Tensor, *, alpha: float, beta: float, bias: float, size: int) -> Tensor:
    squares = (x * x).movedim(1, -1)
    room = F.pad(squares, ((size - 1) // 2, size // 2))
    total = room.unfold(room.ndim - 1, size, 1).sum(-1).movedim(-1, 1)
    return x / (bias + alpha / size * total) ** beta


@op("NegativeLogLikelihoodLoss")
def nll_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -100,
    reduction: str,
) -> Tensor:  # fmt: skip
    return F.nll_loss(x, target.long(), weight, ignore_index=ignore_index, reduction=reduction)


@op("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -100,
    reduction: str, outputs: int,
) -> Any:  # fmt: skip
    logs = F.log_softmax(x, 1)
    found = F.nll_loss(logs, target.long(), weight, ignore_index=ignore_index, reduction=reduction)
    return (found, logs)[:outputs]
