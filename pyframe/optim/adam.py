"""Adam and AdamW."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pyframe as pf
from pyframe.graph.fed import apply
from pyframe.optim.optimizer import Optimizer
from pyframe.tensor import Tensor


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr * m^ / (sqrt(v^) + eps).

    m^ and v^ are m / (1 - b1^t) and v / (1 - b2^t) (Kingma & Ba 2015, arXiv 1412.6980). Weight
    decay is added to the gradient.
    """

    decoupled = False

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        options = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize,
        }  # fmt: skip
        self._check_options(options)
        super().__init__(params, options)

    def _check_options(self, options: Mapping[str, Any]) -> None:
        betas = options["betas"]
        self._check("learning rate", options["lr"])
        self._check("epsilon value", options["eps"])
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise (ValueError if isinstance(betas, (tuple, list)) else TypeError)(
                f"{type(self).__name__}: Invalid betas: expected two numbers below 1, such as "
                f"(0.9, 0.999), got {betas!r}"
            )
        for i, beta in enumerate(betas):
            self._check(f"beta parameter at index {i}", beta, below=1)
        self._check("weight_decay value", options["weight_decay"])

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, eps, decay, (b1, b2) = group["lr"], group["eps"], group["weight_decay"], group["betas"]
        shrink, rest1, rest2 = 1 - lr * decay, 1 - b1, 1 - b2
        log1, log2 = apply(_log, b1), apply(_log, b2)
        decays, maximize, amsgrad = decay != 0, group["maximize"], group["amsgrad"]
        moves = lr != 0
        for step, together in self._steps(params):
            # with c = sqrt(1 - b2^t): lr m^ / (sqrt(v^) + eps) = m / ((sqrt(v) + eps c) / rate)
            c = (-pf.expm1(step * log2)).sqrt()
            rate, eps_c = c / -pf.expm1(step * log1) * lr, c * eps
            for p in together:
                assert p.grad is not None
                g = -p.grad if maximize else p.grad
                if decays:
                    if self.decoupled:
                        p.mul_(shrink)
                    else:
                        g = g + p * decay
                m = self._zeros(p, "exp_avg")
                v = self._zeros(p, "exp_avg_sq")
                m.mul_(b1).add_(g * rest1)
                v.mul_(b2).add_(g * g * rest2)
                if amsgrad:
                    top = self._zeros(p, "max_exp_avg_sq")
                    v = top.copy_(pf.maximum(top, v))
                if moves:
                    p.sub_(m / ((v.sqrt() + eps_c) / rate))


def _log(beta: float) -> float:
    """log(beta), for 1 - beta^t as -expm1(t log(beta)): the difference would lose most digits."""
    return math.log(beta) if beta else -math.inf


class AdamW(Adam):
    """Adam whose weight decay acts on the parameters themselves (arXiv 1711.05101)."""

    decoupled = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
