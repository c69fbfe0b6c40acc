"""Adadelta."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pyframe.optim.optimizer import USUAL_RANGES, Optimizer, options, scalar
from pyframe.tensor import Tensor


class Adadelta(Optimizer):
    """v = rho v + (1 - rho) g^2; d = sqrt((u + eps) / (v + eps)) g; u = rho u + (1 - rho) d^2;
    p -= lr * d (arXiv 1212.5701).
    """

    _ranges: ClassVar = USUAL_RANGES | {"rho": "[0, 1]"}

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6,
        weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, options(locals(), "capturable foreach differentiable"))

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, rho, eps = scalar(group["lr"]), group["rho"], group["eps"]
        rest = 1 - rho
        for _, together in self._steps(params):
            for p, g, own in self._each(group, together):
                v = own.squares("square_avg", g, rho, rest)
                d = (own.zeros("acc_delta") + eps).sqrt() / (v + eps).sqrt() * g
                own.squares("acc_delta", d, rho, rest)
                p.sub_(d * lr)
