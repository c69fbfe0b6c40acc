"""Rprop: resilient backpropagation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pyframe as pf
from pyframe.optim.optimizer import USUAL_RANGES, Optimizer, options, scalar
from pyframe.tensor import Tensor


class Rprop(Optimizer):
    """p -= sign(g) * size, where size grows by etas[1] while g keeps its sign; where g has changed
    its sign it shrinks by etas[0], and p stays.

    Riedmiller & Braun 1993, A Direct Adaptive Method for Faster Backpropagation Learning.
    """

    _ranges: ClassVar = USUAL_RANGES

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2), step_sizes: tuple[float, float] = (1e-6, 50), *,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, options(locals(), "capturable"))

    def _check_options(self, options: Mapping[str, Any]) -> None:
        super()._check_options(options)
        down, up = options["etas"]
        self._check("eta at index 0", down, "(0, 1)")
        self._check("eta at index 1", up, "(1, inf]")

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, (down, up), (low, high) = scalar(group["lr"]), group["etas"], group["step_sizes"]
        for _, together in self._steps(params):
            for p, g, own in self._each(group, together):
                agrees = (g * own.zeros("prev")).sign()
                factor = pf.where(agrees > 0, up, pf.where(agrees < 0, down, 1.0))
                size = own.put("step_size", (own.full("step_size", lr) * factor).clamp(low, high))
                g = own.put("prev", pf.where(agrees < 0, 0.0, g))
                p.sub_(g.sign() * size)
