"""Adam, with AdamW."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pyframe as pf
from pyframe.optim.optimizer import USUAL_RANGES, Optimizer, one_minus_power, options, scalar
from pyframe.tensor import Tensor


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr * m^ / (sqrt(v^) + eps).

    m^ and v^ are m / (1 - b1^t) and v / (1 - b2^t) (Kingma & Ba 2015, arXiv 1412.6980). Weight
    decay is added to the gradient, or acts on the parameter itself (decoupled_weight_decay).
    """

    _ranges: ClassVar = USUAL_RANGES

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
        fused: bool | None = None, decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        if isinstance(betas, (tuple, list)):
            betas = tuple(map(scalar, betas))
        super().__init__(
            params,
            options(locals(), "foreach capturable differentiable fused decoupled_weight_decay"),
        )

    def _check_options(self, options: Mapping[str, Any]) -> None:
        super()._check_options(options)
        name, betas = type(self).__name__, options["betas"]
        given = [isinstance(x, Tensor) for x in (options["lr"], *betas)]
        if not all(given[1:]) and not all(isinstance(b, float) for b in betas):
            raise ValueError(f"{name}: betas must be either both floats or both Tensors: {betas!r}")
        if any(given) and options["foreach"] and not options["capturable"]:
            raise ValueError(
                f"{name}: lr or betas as a Tensor is not supported for capturable=False and "
                "foreach=True; leave foreach out"
            )

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, eps, (b1, b2) = scalar(group["lr"]), group["eps"], map(scalar, group["betas"])
        rest1, rest2, amsgrad = 1 - b1, 1 - b2, group["amsgrad"]
        for t, together in self._steps(params):
            # with c = sqrt(1 - b2^t): lr m^ / (sqrt(v^) + eps) = m / (sqrt(v) + eps c) * rate
            c = one_minus_power(b2, t).sqrt()
            rate, eps_c = c / one_minus_power(b1, t) * lr, c * eps
            for p, g, own in self._each(group, together):
                m = own.follow("exp_avg", g, rest1)
                v = own.squares("exp_avg_sq", g, b2, rest2)
                if amsgrad:
                    v = own.put("max_exp_avg_sq", pf.maximum(own.zeros("max_exp_avg_sq"), v))
                p.sub_(m / (v.sqrt() + eps_c) * rate)


class AdamW(Adam):
    """Adam whose weight decay acts on the parameters themselves (arXiv 1711.05101)."""

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
        foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, **options(locals()), decoupled_weight_decay=True)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # also where Adam's state was loaded
            group["decoupled_weight_decay"] = True
