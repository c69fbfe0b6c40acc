"""Parameters and their gradients, and what convolutions and batch norm become for inference.

Clipping reads no value (but for `error_if_nonfinite`), so that it is a part of a compiled step.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
import types
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import pyframe as pf
from pyframe.core.modes import no_grad
from pyframe.nn.modules import conv
from pyframe.nn.modules.module import Module
from pyframe.nn.parameter import Parameter
from pyframe.tensor import Tensor

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
    "get_total_norm", "parameters_to_vector", "skip_init", "vector_to_parameters",
]  # fmt: skip


Tensors = Tensor | Iterable[Tensor]


def _listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _grads(parameters: Tensors) -> list[Tensor]:
    return [p.grad for p in _listed(parameters) if p.grad is not None]


def _norm(xs: list[Tensor], p: float) -> Tensor:
    """The p-norm of all elements; as a sum it is a part of kernels that there are anyhow."""
    device = xs[0].device
    if p in (0, math.inf, -math.inf):
        return pf.linalg.vector_norm(
            pf.stack([pf.linalg.vector_norm(x, p).to(device) for x in xs]), p
        )
    sizes = [(x.float() if x.dtype.itemsize < 4 else x).abs() for x in xs]
    first, *rest = [(a * a if p == 2 else a**p).sum().to(device) for a in sizes]
    dtype = functools.reduce(pf.promote_types, {x.dtype for x in xs})
    return (sum(rest, first) ** (1 / p)).to(dtype.to_real())


@no_grad()
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """The norm of all elements of some tensors, as if they were one vector.

    `foreach` makes no difference here. RuntimeError with `error_if_nonfinite`, which reads it.

    Args:
        tensors: The tensors, or one of them.
        norm_type: The order p of the norm; inf is the largest absolute value.
    """
    xs = _listed(tensors)
    if not xs:
        return pf.tensor(0.0)
    total = _norm(xs, float(norm_type) if isinstance(norm_type, str) else norm_type)  # "inf"
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {norm_type} is non-finite ({total.item()}), so it cannot be "
            "clipped; look for inf and nan in the gradients, or scale them by it anyway with "
            "error_if_nonfinite=False"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients by max_norm / total_norm, in place, where that makes them smaller.

    Args:
        parameters: Tensors with gradients, or one of them; those without are left out.
        max_norm: The largest norm.
        total_norm: The norm now, as `get_total_norm` gives it.
        foreach: Allowed, and not needed.
    """
    scale = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
    for g in _grads(parameters):
        g.mul_(scale.to(g.device))


@no_grad()
def clip_grad_norm_(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scale the gradients so that the norm of all together is at most max_norm, in place.

    Returns that norm before. RuntimeError with `error_if_nonfinite` where it is inf or nan.

    Args:
        parameters: Tensors with gradients, or one of them; those without are left out.
        max_norm: The largest norm.
        norm_type: The order p of the norm; inf is the largest absolute value.
        error_if_nonfinite: Whether to refuse a norm that is inf or nan.
        foreach: Allowed, and not needed.
    """
    params = _listed(parameters)
    if not params and isinstance(parameters, types.GeneratorType):
        warnings.warn(
            "clip_grad_norm_: `parameters` is an empty generator, so that nothing is clipped; one "
            "can be gone through once only",
            stacklevel=3,
        )
    total = get_total_norm(_grads(params), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(params, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """The former name of `clip_grad_norm_`; warns.

    Args:
        parameters: Tensors with gradients, or one of them; those without are left out.
        max_norm, norm_type, error_if_nonfinite, foreach: As `clip_grad_norm_` takes them.
    """
    warnings.warn(
        "nn.utils.clip_grad_norm is deprecated in favor of nn.utils.clip_grad_norm_",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: Any, foreach: bool | None = None) -> None:
    """Clamp each element of the gradients to [-clip_value, clip_value], in place.

    Args:
        parameters: Tensors with gradients, or one of them; those without are left out.
        clip_value: The bound.
        foreach: Allowed, and not needed.
    """
    for g in _grads(parameters):
        g.clamp_(-clip_value, clip_value)


def _of_one_device(name: str, parameters: Iterable[Tensor]) -> Iterator[Tensor]:
    device = None
    for p in parameters:
        device = p.device if device is None else device
        if p.device != device:
            raise TypeError(
                f"{name}: found two parameters on different devices, {device} and {p.device}; "
                "expected all on one"
            )
        yield p


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements, one parameter after the other. TypeError for parameters on two devices.

    Args:
        parameters: The tensors, in order.
    """
    return pf.cat([p.view(-1) for p in _of_one_device("parameters_to_vector", parameters)])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let the parameters be the parts of a vector. TypeError for anything else, or two devices.

    Args:
        vec: The vector: as many elements as all parameters have.
        parameters: The parameters, in the order of the parts.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: expected a Tensor, got {type(vec).__name__}")
    start = 0
    for p in _of_one_device("vector_to_parameters", parameters):
        p.data = vec[start : start + p.numel()].view_as(p).data
        start += p.numel()


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """`module_cls`, called with `*args` and `**kwargs`, without initial values: it is made on
    device 'meta', then its tensors get memory. RuntimeError for a class that takes no `device`."""
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"skip_init: expected a Module's class, got {module_cls.__name__}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(
            f"skip_init: {module_cls.__name__} must support a 'device' arg to skip initialization"
        )
    device = kwargs.pop("device", None) or pf.get_default_device()
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)


M = TypeVar("M", bound=Module)


def _convert(module: M, memory_format: Any, kinds: tuple[type, ...]) -> M:
    for m in module.modules():
        if isinstance(m, kinds):
            m.weight.data = m.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Keep the weights of all Conv2d and ConvTranspose2d in a memory format.

    Args:
        module: The module whose layers, at any depth, are meant.
        memory_format: A memory format, such as `pf.channels_last`.
    """
    return _convert(module, memory_format, (conv.Conv2d, conv.ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Keep the weights of all Conv3d and ConvTranspose3d in a memory format.

    Args:
        module: The module whose layers, at any depth, are meant.
        memory_format: A memory format, such as `pf.channels_last_3d`.
    """
    return _convert(module, memory_format, (conv.Conv3d, conv.ConvTranspose3d))


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

    AssertionError in training mode, or without running statistics.

    Args:
        conv: The convolution.
        bn: The BatchNorm that follows it.
    """
    _check("fuse_conv_bn_eval", conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of a Linear that does what bn(linear(x)) does. AssertionError in training mode,
    without running statistics, or if their features differ.

    Args:
        linear: The Linear.
        bn: The BatchNorm that follows it.
    """
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
    """The weight and the bias of the convolution that does what both layers do.

    Args:
        conv_w: The convolution's weight.
        conv_b: Its bias; zeros if None.
        bn_rm: The running mean of the norm.
        bn_rv: Its running variance.
        bn_eps: What it adds to the variance.
        bn_w: Its weight; ones if None.
        bn_b: Its bias; zeros if None.
        transpose: Whether the convolution is a transposed one.
    """
    ones = [1] * (conv_w.ndim - 2)
    shape = [1, -1, *ones] if transpose else [-1, 1, *ones]
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor, bn_b: Tensor,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """The weight and the bias of the Linear that does what both layers do.

    Args:
        linear_w: The Linear's weight.
        linear_b: Its bias; zeros if None.
        bn_rm: The running mean of the norm.
        bn_rv: Its running variance.
        bn_eps: What it adds to the variance.
        bn_w: Its weight; ones if None.
        bn_b: Its bias; zeros if None.
    """
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])
