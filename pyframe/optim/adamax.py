"""Adamax: Adam with the infinity norm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pyframe as pf
from pyframe.optim.optimizer import USUAL_RANGES, Optimizer, one_minus_power, options, scalar
from pyframe.tensor import Tensor


class Adamax(Optimizer):
    """m = b1 m + (1 - b1) g; u = max(b2 u, |g| + eps); p -= lr / (1 - b1^t) * m / u.

    Kingma & Ba 2015, arXiv 1412.6980, section 7.
    """

    _ranges: ClassVar = USUAL_RANGES

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, options(locals()))

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, eps, (b1, b2) = scalar(group["lr"]), group["eps"], group["betas"]
        rest1 = 1 - b1
        for t, together in self._steps(params):
            rate = lr / one_minus_power(b1, t)
            for p, g, own in self._each(group, together):
                m = own.follow("exp_avg", g, rest1)
                u = own.put("exp_inf", pf.maximum(own.zeros("exp_inf") * b2, g.abs() + eps))
                p.sub_(m / u * rate)
