"""ASGD: averaged stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pyframe.optim.optimizer import USUAL_RANGES, Optimizer, options, scalar
from pyframe.tensor import Tensor


class ASGD(Optimizer):
    """p = p (1 - lambd eta) - eta g; ax += mu (p - ax), with eta = lr / (1 + lambd lr t)^alpha and
    mu = 1 / max(1, t - t0) of the step before.

    Polyak & Juditsky 1992, Acceleration of stochastic approximation by averaging.
    """

    _ranges: ClassVar = USUAL_RANGES
    _counters = ("step", "eta", "mu")

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, lambd: float = 1e-4,
        alpha: float = 0.75, t0: float = 1e6, weight_decay: float = 0, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, options(locals()))

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, lambd, alpha, t0 = scalar(group["lr"]), group["lambd"], group["alpha"], group["t0"]
        for t, next_eta, next_mu, together in self._steps(params, eta=lr, mu=1):
            eta, mu = next_eta.clone(), next_mu.clone()
            next_eta.copy_(lr / (1 + t * (lambd * lr)) ** alpha)
            next_mu.copy_(1 / (t - t0).clamp(min=1))
            shrink = 1 - eta * lambd
            for p, g, own in self._each(group, together):
                p.mul_(shrink).sub_(g * eta)
                ax = own.zeros("ax")
                own.put("ax", ax + (p - ax) * mu)
