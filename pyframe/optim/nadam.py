"""NAdam: Adam with Nesterov's momentum."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pyframe as pf
from pyframe.optim.optimizer import USUAL_RANGES, Optimizer, one_minus_power, options, scalar
from pyframe.tensor import Tensor


class NAdam(Optimizer):
    """Adam's m and v, with mu(t) = b1 (1 - 0.96^(t * momentum_decay) / 2) and M its product so far:
    m^ = mu(t + 1) m / (1 - M mu(t + 1)) + (1 - mu(t)) g / (1 - M).

    Dozat 2016, Incorporating Nesterov Momentum into Adam.
    """

    _ranges: ClassVar = USUAL_RANGES | {"momentum_decay": "[0, inf]"}
    _counters = ("step", "mu_product")

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, options(locals(), "foreach capturable differentiable"))

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, eps, (b1, b2) = scalar(group["lr"]), group["eps"], group["betas"]
        rest1, rest2, half = 1 - b1, 1 - b2, b1 * 0.5
        log = group["momentum_decay"] * math.log(0.96)
        for t, product, together in self._steps(params, mu_product=1):
            mu, after = b1 - pf.exp(t * log) * half, b1 - pf.exp((t + 1) * log) * half
            product.mul_(mu)
            of_g, of_m = (1 - mu) / (1 - product) * lr, after / (1 - product * after) * lr
            correction = one_minus_power(b2, t)
            for p, g, own in self._each(group, together):
                m = own.follow("exp_avg", g, rest1)
                v = own.squares("exp_avg_sq", g, b2, rest2)
                p.sub_((g * of_g + m * of_m) / ((v / correction).sqrt() + eps))
