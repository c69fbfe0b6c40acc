"""RMSprop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pyframe.optim.optimizer import USUAL_RANGES, Optimizer, nonzero, options, scalar
from pyframe.tensor import Tensor


class RMSprop(Optimizer):
    """v = alpha v + (1 - alpha) g^2; b = momentum b + g / (sqrt(v) + eps); p -= lr * b.

    `centered` takes the square of the mean gradient from v. Hinton's lecture 6 of 2012; centered,
    Graves 2013, arXiv 1308.0850.
    """

    _ranges: ClassVar = USUAL_RANGES | {"momentum": "[0, inf]", "alpha": "[0, inf]"}

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, alpha: float = 0.99,
        eps: float = 1e-8, weight_decay: float = 0, momentum: float = 0, centered: bool = False,
        capturable: bool = False, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            params,
            options(
                locals(),
                "alpha eps centered weight_decay capturable foreach maximize differentiable",
            ),
        )

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, alpha, eps, momentum = map(group.__getitem__, ("lr", "alpha", "eps", "momentum"))
        lr, rest, moves, centered = scalar(lr), 1 - alpha, nonzero(momentum), group["centered"]
        for _, together in self._steps(params):
            for p, g, own in self._each(group, together):
                v = own.squares("square_avg", g, alpha, rest)
                if centered:
                    mean = own.follow("grad_avg", g, rest)
                    v = v - mean * mean
                b = g / (v.sqrt() + eps)
                if moves:
                    b = own.sum_up("momentum_buffer", b, momentum)
                p.sub_(b * lr)
