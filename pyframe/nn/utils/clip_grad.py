"""Gradients that are not too large, as torch.nn.utils.clip_grad.

No value is read (but for `error_if_nonfinite`), so that clipping is a part of a compiled step.
"""

from __future__ import annotations

import functools
import math
import types
import warnings
from collections.abc import Iterable
from typing import Any

import pyframe as pf
from pyframe.core.modes import no_grad
from pyframe.tensor import Tensor

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "get_total_norm",
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

    `foreach` makes no difference here. RuntimeError with `error_if_nonfinite`, which reads it."""
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
    """Scale the gradients by max_norm / total_norm, in place, where that makes them smaller."""
    scale = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
    for g in _grads(parameters):
        g.mul_(scale.to(g.device))


@no_grad()
def clip_grad_norm_(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scale the gradients so that the norm of all together is at most max_norm, in place.

    Returns that norm before. RuntimeError with `error_if_nonfinite` where it is inf or nan."""
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
    """The former name of `clip_grad_norm_`; warns."""
    warnings.warn(
        "nn.utils.clip_grad_norm is deprecated in favor of nn.utils.clip_grad_norm_",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: Any, foreach: bool | None = None) -> None:
    """Clamp each element of the gradients to [-clip_value, clip_value], in place."""
    for g in _grads(parameters):
        g.clamp_(-clip_value, clip_value)
