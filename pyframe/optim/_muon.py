"""Muon: momentum made orthogonal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pyframe.optim.optimizer import Optimizer, options, scalar
from pyframe.tensor import Tensor


class Muon(Optimizer):
    """b = momentum b + (1 - momentum) g; p -= rate * (the nearest orthogonal matrix to b, or to
    the mean of g and b, nesterov); weight decay is decoupled.

    For the matrices of hidden layers (https://kellerjordan.github.io/posts/muon). The rate for a
    matrix of (n, m) is lr * sqrt(max(1, n / m)), or, as adjust_lr_fn="match_rms_adamw" has it,
    lr * 0.2 * sqrt(max(n, m)) (arXiv 2502.16982). Products are taken in float32; PyTorch rounds
    them to bfloat16, which moves its steps by some hundredths of their size.
    """

    _ranges: ClassVar = {"lr": "[0, inf]", "weight_decay": "[0, inf]", "momentum": "[0, inf]"}
    _decays = False

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3, weight_decay: float = 0.1,
        momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, options(locals()))
        for p in (p for group in self.param_groups for p in group["params"]):
            if p.ndim != 2:
                raise ValueError(
                    f"Muon: expected matrices as parameters, got one of shape {list(p.shape)}; "
                    "give the others to another optimizer, such as AdamW"
                )

    def _check_options(self, options: Mapping[str, Any]) -> None:
        super()._check_options(options)
        if options["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
            raise ValueError(
                "Muon: adjust_lr_fn: expected 'original', 'match_rms_adamw' or None, got "
                f"{options['adjust_lr_fn']!r}"
            )

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, momentum = scalar(group["lr"]), group["momentum"]
        adamw = group["adjust_lr_fn"] == "match_rms_adamw"
        shrink, rest = 1 - lr * group["weight_decay"], 1 - momentum
        numbers = group["ns_coefficients"], group["ns_steps"], group["eps"]
        for p, g, own in self._each(group, params):
            if own.of.is_complex():
                raise RuntimeError("Muon does not support complex parameters")
            b = own.follow("momentum_buffer", g, rest)
            u = _orthogonal(g * rest + b * momentum if group["nesterov"] else b, *numbers)
            n, m = p.shape
            ratio = 0.2 * math.sqrt(max(n, m)) if adamw else math.sqrt(max(1, n / m))
            p.mul_(shrink).sub_(u.to(p.dtype) * (lr * ratio))


def _orthogonal(x: Tensor, coefficients: Any, steps: int, eps: float) -> Tensor:
    """U V^T of x = U S V^T, nearly: each Newton-Schulz step maps the singular values by
    a s + b s^3 + c s^5. ValueError for 100 steps or more, or not three coefficients."""
    if steps >= 100 or len(coefficients) != 3:
        raise ValueError(
            "Muon: expected ns_steps below 100 and three ns_coefficients, got "
            f"ns_steps={steps} and {len(coefficients)} coefficients"
        )
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    x = x.float()
    x = x.T if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = (gram * b + gram @ gram * c) @ x + x * a
    return x.T if tall else x
