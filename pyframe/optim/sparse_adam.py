"""SparseAdam: Adam for the rows that have a gradient."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pyframe as pf
from pyframe.optim.optimizer import Optimizer, one_minus_power, options, scalar
from pyframe.tensor import Tensor


class SparseAdam(Optimizer):
    """Adam that leaves alone the rows of a parameter, and their moments, that have no gradient.

    There are no sparse tensors here: a row, of a vector an element, has no gradient where all of
    it is 0, as those of an embedding's table that no index has named. (A sparse gradient of
    PyTorch's may name a row and give it zeros; then its moments decay there.)
    """

    _ranges: ClassVar = {"lr": "(0, inf]", "eps": "(0, inf]", "betas": "[0, 1)"}

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, options(locals()))
        if any(p.is_complex() for group in self.param_groups for p in group["params"]):
            raise ValueError("SparseAdam does not support complex parameters; use Adam for them")

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, eps, (b1, b2) = scalar(group["lr"]), group["eps"], group["betas"]
        rest1, rest2 = 1 - b1, 1 - b2
        for t, together in self._steps(params):
            rate = one_minus_power(b2, t).sqrt() / one_minus_power(b1, t) * lr
            for p, g, own in self._each(group, together):
                named = (
                    (g != 0).any(tuple(range(1, g.ndim)), keepdim=True) if g.ndim > 1 else g != 0
                )
                m, v = own.zeros("exp_avg"), own.zeros("exp_avg_sq")
                m = own.put("exp_avg", pf.where(named, m * b1 + g * rest1, m))
                v = own.put("exp_avg_sq", pf.where(named, v * b2 + g * g * rest2, v))
                p.sub_(pf.where(named, m / (v.sqrt() + eps) * rate, 0.0))
