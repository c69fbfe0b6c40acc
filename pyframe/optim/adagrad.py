"""Adagrad."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pyframe.optim.optimizer import USUAL_RANGES, Optimizer, State, options, scalar
from pyframe.tensor import Tensor


class Adagrad(Optimizer):
    """s = s + g^2; p -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(s) + eps).

    Duchi et al. 2011, https://jmlr.org/papers/v12/duchi11a.html. The state is made at once.
    """

    _ranges: ClassVar = USUAL_RANGES | {
        "lr_decay": "[0, inf]", "initial_accumulator_value": "[0, inf]",
    }  # fmt: skip

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, lr_decay: float = 0,
        weight_decay: float = 0, initial_accumulator_value: float = 0, eps: float = 1e-10,
        foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params,
            options(
                locals(),
                "weight_decay initial_accumulator_value foreach maximize differentiable fused",
            ),
        )
        for group in self.param_groups:
            self._begin(group["params"])
            for p in group["params"]:
                State(self.state[p], p, self._making).full("sum", initial_accumulator_value)

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, lr_decay, eps = scalar(group["lr"]), group["lr_decay"], group["eps"]
        first = self.defaults["initial_accumulator_value"]
        for t, together in self._steps(params):
            rate = lr / (1 + (t - 1) * lr_decay)
            for p, g, own in self._each(group, together):
                s = own.put("sum", own.full("sum", first) + g * g)
                p.sub_(g / (s.sqrt() + eps) * rate)
