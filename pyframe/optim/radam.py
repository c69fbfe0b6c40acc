"""RAdam: Adam that waits until its second moments can be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pyframe as pf
from pyframe.core.symbolic import calculate, log
from pyframe.optim.optimizer import USUAL_RANGES, Optimizer, one_minus_power, options, scalar
from pyframe.tensor import Tensor


class RAdam(Optimizer):
    """p -= lr * m^ * r / (sqrt(v^) + eps), and p -= lr * m^ while rho(t) <= 5 (arXiv 1908.03265).

    With rho = 2 / (1 - b2) - 1 and rho(t) = rho - 2 t b2^t / (1 - b2^t), the variance is rectified
    by r^2 = (rho(t) - 4) (rho(t) - 2) rho / ((rho - 4) (rho - 2) rho(t)).
    """

    _ranges: ClassVar = USUAL_RANGES

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            params, options(locals(), "foreach capturable decoupled_weight_decay differentiable")
        )

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, eps, (b1, b2) = scalar(group["lr"]), group["eps"], group["betas"]
        rest1, rest2 = 1 - b1, 1 - b2
        rho = 2 / rest2 - 1
        longer = calculate(max, rho, 5.0)  # of a shorter one nothing is ever trusted
        scale = longer / ((longer - 4) * (longer - 2))  # what the rectification has of rho alone
        for t, together in self._steps(params):
            now = _length(t, b2, rho)
            trusted = now > 5
            r = ((now - 4) * (now - 2) / now * scale).clamp(min=0).sqrt()
            plain = lr / one_minus_power(b1, t)
            rate = plain * r * one_minus_power(b2, t).sqrt()
            for p, g, own in self._each(group, together):
                m = own.follow("exp_avg", g, rest1)
                v = own.squares("exp_avg_sq", g, b2, rest2)
                p.sub_(m * pf.where(trusted, rate / (v.sqrt() + eps), plain))


def _length(t: Tensor, beta: Any, rho: Any) -> Tensor:
    """rho(t) of RAdam without its difference of large numbers.

    With x = -log(beta) and L(z) = coth(z) - 1/z it is t + L(x/2) - t L(t x/2)."""
    x = -calculate(log, beta)
    z = t * (x * 0.5)
    squared = z * z
    small = z * (1 / 3 - squared * (1 / 45 - squared * (2 / 945 - squared * (1 / 4725))))
    rest = pf.where(z < 0.5, 1 - small, 1 / z - 2 / pf.expm1(z * 2))
    return t * rest + (rho - 2 / x)
