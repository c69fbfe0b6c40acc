"""Adafactor: second moments of a matrix from those of its rows and columns."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pyframe as pf
from pyframe.optim.optimizer import Optimizer, State, nonzero, options, scalar
from pyframe.tensor import Tensor


class Adafactor(Optimizer):
    """u = g / sqrt(v), no longer than d in the root mean square; p -= alpha * u.

    Of a matrix v is the outer product of mean squares of its rows and columns, with
    b2 = 1 - t^beta2_decay; alpha = max(eps[1], rms(p)) * min(lr, 1 / sqrt(t)). eps[0] is by default
    the machine's for the dtype (Shazeer & Stern 2018, arXiv 1804.04235). Weight decay is decoupled.
    """

    _ranges: ClassVar = {
        "lr": "[0, inf]", "beta2_decay": "[-inf, 0]", "d": "[1, inf]", "weight_decay": "[0, inf]",
    }  # fmt: skip
    _decays = False

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0,
        *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, options(locals()))

    def _check_options(self, options: Mapping[str, Any]) -> None:
        super()._check_options(options)
        first, second = options["eps"]
        if first is not None:
            self._check("epsilon1", first, "[0, inf]")
        self._check("epsilon2", second, "[0, inf]")

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, decay, d = scalar(group["lr"]), group["weight_decay"], group["d"]
        first, least = group["eps"]
        shrink = 1 - lr * decay if nonzero(decay) else None
        for t, together in self._steps(params):
            rest = t ** group["beta2_decay"]
            rate = t.rsqrt().clamp(max=lr)
            for p, g, own in self._each(group, together):
                if p.is_complex() or own.of.is_complex():
                    raise RuntimeError("Adafactor does not support complex parameters")
                eps = pf.finfo(p.dtype).eps if first is None else first
                alpha = _rms(p).clamp(min=least) * rate
                if shrink is not None:
                    p.mul_(shrink)
                u = g * _variance(own, g, eps, rest).clamp(min=eps * eps).rsqrt()
                p.sub_(u * (alpha / (_rms(u) / d).clamp(min=1)))


def _rms(x: Tensor) -> Tensor:
    return x.norm() / math.sqrt(x.numel())


def _like(x: Tensor, of: Tensor) -> Tensor:
    return pf.zeros(x.shape, dtype=of.dtype, device=of.device)


def _variance(own: State, g: Tensor, eps: Any, rest: Tensor) -> Tensor:
    """The mean square of the gradient, of a matrix from those of its rows and columns."""
    squared = g * g
    if g.ndim < 2:
        return own.follow("variance", squared, rest)
    for name, dim in (("row_var", -1), ("col_var", -2)):
        mean = squared.mean(dim, keepdim=True)
        own.get(name, functools.partial(_like, mean))
        own.follow(name, mean, rest)
    rows, columns = own.zeros("row_var"), own.zeros("col_var")
    return rows * columns / rows.mean(-2, keepdim=True).clamp(min=eps)
