"""SGD, with momentum."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pyframe.optim.optimizer import Optimizer
from pyframe.tensor import Tensor


class SGD(Optimizer):
    """v = momentum * v + (1 - dampening) * g; p -= lr * v (or lr * (g + momentum * v), nesterov).

    https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        options = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize,
        }  # fmt: skip
        self._check_options(options)
        super().__init__(params, options)

    def _check_options(self, options: Mapping[str, Any]) -> None:
        momentum, dampening = options["momentum"], options["dampening"]
        self._check("learning rate", options["lr"])
        self._check("momentum value", momentum)
        self._check("dampening value", dampening, low=-math.inf)
        self._check("weight_decay value", options["weight_decay"])
        if options["nesterov"] and (momentum <= 0 or dampening != 0):
            raise ValueError(
                "SGD: Nesterov momentum requires a momentum and zero dampening; expected momentum "
                f"above 0 and dampening=0, got {momentum} and {dampening}"
            )

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, momentum, decay = group["lr"], group["momentum"], group["weight_decay"]
        undamped = 1 - group["dampening"]
        decays, moves, dampens = decay != 0, momentum != 0, undamped != 1
        nesterov, maximize = group["nesterov"], group["maximize"]
        for p in params:
            assert p.grad is not None
            g = -p.grad if maximize else p.grad
            if decays:
                g = g + p * decay
            if moves:
                state = self.state[p]
                if dampens and not self._has(p, "momentum_buffer"):  # the first is not damped
                    v = state["momentum_buffer"] = g.clone()
                else:
                    v = self._zeros(p, "momentum_buffer")
                    v.mul_(momentum).add_(g * undamped if dampens else g)
                g = g + v * momentum if nesterov else v
            p.sub_(g * lr)
