"""Batch norm folded into the layer before it, for inference, as torch.nn.utils.fusion."""

from __future__ import annotations

import copy
from typing import Any

import pyframe as pf
from pyframe.nn.parameter import Parameter
from pyframe.tensor import Tensor

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
]  # fmt: skip


def _check(name: str, layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError(f"{name}: fusion is only for eval mode; call eval() on both layers")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError(
            f"{name}: bn.running_mean and bn.running_var must not be None; make it with "
            "track_running_stats=True"
        )


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of a convolution (`transpose`: a transposed one) that does what bn(conv(x)) does.

    AssertionError in training mode, or without running statistics."""
    _check("fuse_conv_bn_eval", conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of a Linear that does what bn(linear(x)) does. AssertionError in training mode,
    without running statistics, or if their features differ."""
    _check("fuse_linear_bn_eval", linear, bn)
    if bn.num_features not in (1, linear.out_features):
        raise AssertionError(
            "fuse_linear_bn_eval: expected bn.num_features to be linear.out_features or 1, got "
            f"{bn.num_features} and linear.out_features={linear.out_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def _fused(
    w: Tensor, b: Tensor | None, mean: Tensor, var: Tensor, eps: float, bn_w: Tensor | None,
    bn_b: Tensor | None, shape: list[int],
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """(W x + b - mean) * s + bn_b with s = bn_w / sqrt(var + eps), as s W and (b - mean) s + bn_b;
    `shape` is that of s against W."""
    scale = pf.rsqrt(var + eps)
    if bn_w is not None:
        scale = scale * bn_w
    bias = (-mean if b is None else b - mean) * scale
    if bn_b is not None:
        bias = bias + bn_b
    return (
        Parameter((w * scale.reshape(shape)).to(w.dtype), w.requires_grad),
        Parameter(bias.to(w.dtype if b is None else b.dtype), b is not None and b.requires_grad),
    )


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """The weight and the bias of the convolution that does what both layers do."""
    ones = [1] * (conv_w.ndim - 2)
    shape = [1, -1, *ones] if transpose else [-1, 1, *ones]
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor, bn_b: Tensor,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """The weight and the bias of the Linear that does what both layers do."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])
