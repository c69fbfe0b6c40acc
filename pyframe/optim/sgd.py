"""SGD, with momentum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pyframe as pf
from pyframe.optim.optimizer import USUAL_RANGES, Optimizer, nonzero, options, scalar
from pyframe.tensor import Tensor


class SGD(Optimizer):
    """v = momentum * v + (1 - dampening) * g; p -= lr * v (or lr * (g + momentum * v), nesterov).

    https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html
    """

    _ranges: ClassVar = USUAL_RANGES | {"momentum": "[0, inf]", "dampening": "[-inf, inf]"}

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3, momentum: float = 0,
        dampening: float = 0, weight_decay: float | Tensor = 0, nesterov: bool = False, *,
        maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, options(locals()))

    def _check_options(self, options: Mapping[str, Any]) -> None:
        super()._check_options(options)
        momentum, dampening = options["momentum"], options["dampening"]
        if options["nesterov"] and (momentum <= 0 or dampening != 0):
            raise ValueError(
                "SGD: Nesterov momentum requires a momentum and zero dampening; expected momentum "
                f"above 0 and dampening=0, got {momentum} and {dampening}"
            )

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, momentum, nesterov = scalar(group["lr"]), group["momentum"], group["nesterov"]
        undamped, moves = 1 - group["dampening"], nonzero(momentum)
        dampens = undamped != 1 or pf.is_grad_enabled()
        for p, g, own in self._each(group, params):
            if moves:
                if dampens and not self._has(own.of, "momentum_buffer"):
                    # the first is not damped, and nobody differentiates for it
                    v = own.put("momentum_buffer", g.detach().clone())
                else:
                    v = own.sum_up("momentum_buffer", g, momentum, undamped if dampens else None)
                g = g + v * momentum if nesterov else v
            p.sub_(g * lr)
