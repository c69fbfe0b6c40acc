"""The optimizers' formulas, but for LBFGS's."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pyframe as pf
from pyframe.core.symbolic import apply_symbolic, log
from pyframe.optim.optimizer import (
    USUAL_RANGES,
    Optimizer,
    State,
    nonzero,
    one_minus_power,
    options,
    scalar,
)
from pyframe.tensor import Tensor

__all__ = [
    "ASGD", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam",
    "RAdam", "RMSprop", "Rprop", "SparseAdam",
]  # fmt: skip


class SGD(Optimizer):
    """Gradient descent, with momentum: v = momentum * v + (1 - dampening) * g, then p -= lr * v, or
    p -= lr * (g + momentum * v) with `nesterov`. The first v is g.

    Args:
        momentum: how much of v stays, at least 0; at 0 the step is lr * g.
        dampening: how much of g is left out of v.
        nesterov: whether a step looks ahead; it needs a momentum, and dampening 0.

    >>> w = nn.Parameter(pf.tensor([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> optim.SGD([w], lr=0.1).step()
    >>> w.data
    tensor([0.8000, 1.6000])
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


class ASGD(Optimizer):
    """Averaged gradient descent: p = p (1 - lambd eta) - eta g; ax += mu (p - ax), with eta = lr /
    (1 + lambd lr t)^alpha and mu = 1 / max(1, t - t0) of the step before (Polyak & Juditsky 1992).
    The averages ax are in the state.

    Args:
        lambd: how fast parameters shrink, and eta falls.
        alpha: the power with which eta falls.
        t0: the step at which averaging begins.

    >>> w = nn.Parameter(pf.tensor([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> optim.ASGD([w], lr=0.1).step()
    >>> w.data
    tensor([0.8000, 1.6000])
    """

    _ranges: ClassVar = USUAL_RANGES
    _counters = ("step", "eta", "mu")

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, lambd: float = 1e-4,
        alpha: float = 0.75, t0: float = 1e6, weight_decay: float = 0, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, options(locals()))

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, lambd, alpha, t0 = scalar(group["lr"]), group["lambd"], group["alpha"], group["t0"]
        for t, next_eta, next_mu, together in self._steps(params, eta=lr, mu=1):
            eta, mu = next_eta.clone().to(t.dtype), next_mu.clone().to(t.dtype)
            next_eta.copy_(lr / (1 + t * (lambd * lr)) ** alpha)
            next_mu.copy_(1 / (t - t0).clamp(min=1))
            shrink = 1 - eta * lambd
            for p, g, own in self._each(group, together):
                p.mul_(shrink).sub_(g * eta)
                ax = own.zeros("ax")
                own.put("ax", ax + (p - ax) * mu)


class Adagrad(Optimizer):
    """A rate for each element, which falls with its gradients: s = s + g²; p -= lr / (1 + (t - 1)
    lr_decay) * g / (√s + eps) (Duchi et al. 2011, https://jmlr.org/papers/v12/duchi11a.html). The
    state is made at once.

    Args:
        lr_decay: how fast the rate falls by itself.
        initial_accumulator_value: what s begins with.

    >>> w = nn.Parameter(pf.tensor([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> optim.Adagrad([w], lr=0.1).step()
    >>> w.data
    tensor([0.9000, 1.9000])
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


class Adadelta(Optimizer):
    """Steps in the unit of the parameters: v = rho v + (1 - rho) g²; d = √((u + eps) / (v + eps))
    g; u = rho u + (1 - rho) d²; p -= lr * d (arXiv 1212.5701).

    Args:
        rho: how much of the means of squares v and u stays, from 0 to 1.
        eps: what keeps divisors above 0, and makes the first steps.

    >>> w = nn.Parameter(pf.tensor([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> optim.Adadelta([w]).step()
    >>> w.data
    tensor([0.9968, 1.9968])
    """

    _ranges: ClassVar = USUAL_RANGES | {"rho": "[0, 1]"}

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6,
        weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, options(locals(), "capturable foreach differentiable"))

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, rho, eps = scalar(group["lr"]), group["rho"], group["eps"]
        rest = 1 - rho
        for _, together in self._steps(params):
            for p, g, own in self._each(group, together):
                v = own.squares("square_avg", g, rho, rest)
                d = (own.zeros("acc_delta") + eps).sqrt() / (v + eps).sqrt() * g
                own.squares("acc_delta", d, rho, rest)
                p.sub_(d * lr)


class RMSprop(Optimizer):
    """Gradients divided by the root of their mean square: v = alpha v + (1 - alpha) g²; b =
    momentum b + g / (√v + eps); p -= lr * b (Hinton's lecture 6 of 2012).

    Args:
        alpha: how much of the mean square v stays.
        momentum: how much of b stays; at 0 there is no b.
        centered: whether the square of the mean gradient is taken from v (arXiv 1308.0850).

    >>> w = nn.Parameter(pf.tensor([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> optim.RMSprop([w]).step()
    >>> w.data
    tensor([0.9000, 1.9000])
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


class Rprop(Optimizer):
    """Steps by the signs of gradients alone: p -= sign(g) * size, where size grows by etas[1] while
    g keeps its sign; where g has changed its sign it shrinks by etas[0], and p stays
    (Riedmiller & Braun 1993). It is for whole data sets, not for batches.

    Args:
        lr: the size that steps begin with.
        etas: the two factors, between 0 and 1 and above 1.
        step_sizes: the least and the largest size.

    >>> w = nn.Parameter(pf.tensor([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> optim.Rprop([w]).step()
    >>> w.data
    tensor([0.9900, 1.9900])
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
                factor = pf.where(agrees > 0, up, pf.where(agrees < 0, down, 1.0 - agrees))
                size = own.put("step_size", (own.full("step_size", lr) * factor).clamp(low, high))
                g = own.put("prev", pf.where(agrees < 0, 0.0, g))
                p.sub_(g.sign() * size)


class Adam(Optimizer):
    """A mean of gradients divided by the root of their mean square: m = b1 m + (1 - b1) g; v = b2 v
    + (1 - b2) g²; p -= lr * m̂ / (√v̂ + eps), where m̂ = m / (1 - b1^t) and v̂ = v / (1 - b2^t)
    (Kingma & Ba 2015, arXiv 1412.6980).

    >>> w = nn.Parameter(pf.tensor([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> optim.Adam([w], lr=0.1).step()
    >>> w.data
    tensor([0.9000, 1.9000])
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
    """Adam whose weight decay acts on the parameters themselves: p shrinks by lr * weight_decay,
    and then takes Adam's step (arXiv 1711.05101).

    Args:
        weight_decay: parameters shrink by lr times this in each step, apart from the gradient.

    >>> w = nn.Parameter(pf.tensor([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> optim.AdamW([w], lr=0.1).step()
    >>> w.data
    tensor([0.8990, 1.8980])
    """

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


class Adamax(Optimizer):
    """Adam with the largest gradient instead of the mean square: m = b1 m + (1 - b1) g; u =
    max(b2 u, |g| + eps); p -= lr / (1 - b1^t) * m / u (Kingma & Ba 2015, arXiv 1412.6980, section
    7).

    >>> w = nn.Parameter(pf.tensor([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> optim.Adamax([w], lr=0.1).step()
    >>> w.data
    tensor([0.9000, 1.9000])
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


class NAdam(Optimizer):
    """Adam's m and v, with Nesterov's momentum: p -= lr * m̂ / (√v̂ + eps). With mu(t) = b1 (1 -
    0.96^(t * momentum_decay) / 2) and M its product so far, m̂ = mu(t + 1) m / (1 - M mu(t + 1)) +
    (1 - mu(t)) g / (1 - M).

    Dozat 2016, Incorporating Nesterov Momentum into Adam.

    Args:
        momentum_decay: how fast mu(t) comes near to b1.

    >>> w = nn.Parameter(pf.tensor([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> optim.NAdam([w], lr=0.1).step()
    >>> w.data
    tensor([0.8944, 1.8944])
    """

    _ranges: ClassVar = USUAL_RANGES | {"momentum_decay": "[0, inf]"}
    _counters = ("step", "mu_product")

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, options(locals(), "foreach capturable differentiable"))

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, eps, (b1, b2) = scalar(group["lr"]), group["eps"], group["betas"]
        rest1, rest2, half = 1 - b1, 1 - b2, b1 * 0.5
        log = group["momentum_decay"] * math.log(0.96)
        for t, product, together in self._steps(params, mu_product=1):
            mu, after = b1 - pf.exp(t * log) * half, b1 - pf.exp((t + 1) * log) * half
            product = product.mul_(mu.to(product.dtype)).to(t.dtype)
            of_g, of_m = (1 - mu) / (1 - product) * lr, after / (1 - product * after) * lr
            correction = one_minus_power(b2, t)
            for p, g, own in self._each(group, together):
                m = own.follow("exp_avg", g, rest1)
                v = own.squares("exp_avg_sq", g, b2, rest2)
                p.sub_((g * of_g + m * of_m) / ((v / correction).sqrt() + eps))


class RAdam(Optimizer):
    """Adam that trusts v only after some steps: p -= lr * m̂ * r / (√v̂ + eps), and p -= lr * m̂
    while rho(t) <= 5 (arXiv 1908.03265).

    With rho = 2 / (1 - b2) - 1 and rho(t) = rho - 2 t b2^t / (1 - b2^t), the variance is rectified
    by r² = (rho(t) - 4) (rho(t) - 2) rho / ((rho - 4) (rho - 2) rho(t)).

    >>> w = nn.Parameter(pf.tensor([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> optim.RAdam([w], lr=0.1).step()
    >>> w.data
    tensor([0.8000, 1.6000])
    """

    _ranges: ClassVar = USUAL_RANGES

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            params, options(locals(), "foreach capturable decoupled_weight_decay differentiable")
        )

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, eps, (b1, b2) = scalar(group["lr"]), group["eps"], group["betas"]
        rest1, rest2 = 1 - b1, 1 - b2
        rho = 2 / rest2 - 1
        longer = apply_symbolic(max, rho, 5.0)  # of a shorter one nothing is ever trusted
        scale = longer / ((longer - 4) * (longer - 2))  # what the rectification has of rho alone
        for t, together in self._steps(params):
            now = _length(t, b2, rho)
            trusted = now > 5
            r = ((now - 4) * (now - 2) / now * scale).clamp(min=0).sqrt()
            plain = lr / one_minus_power(b1, t)
            rate = plain * r * one_minus_power(b2, t).sqrt()
            for p, g, own in self._each(group, together):
                m = own.follow("exp_avg", g, rest1)
                v = own.squares("exp_avg_sq", g, b2, rest2)
                p.sub_(m * pf.where(trusted, rate / (v.sqrt() + eps), plain))


def _length(t: Tensor, beta: Any, rho: Any) -> Tensor:
    """rho(t) of RAdam without its difference of large numbers.

    With x = -log(beta) and L(z) = coth(z) - 1/z it is t + L(x/2) - t L(t x/2)."""
    x = -apply_symbolic(log, beta)
    z = t * (x * 0.5)
    squared = z * z
    small = z * (1 / 3 - squared * (1 / 45 - squared * (2 / 945 - squared * (1 / 4725))))
    rest = pf.where(z < 0.5, 1 - small, 1 / z - 2 / pf.expm1(z * 2))
    return t * rest + (rho - 2 / x)


class SparseAdam(Optimizer):
    """Adam that leaves alone the rows of a parameter, and their moments, that have no gradient.

    There are no sparse tensors here: a row, of a vector an element, has no gradient where all of it
    is 0, as those of an embedding's table that no index has named. (A sparse gradient of PyTorch's
    may name a row and give it zeros; then its moments decay there.)

    Args:
        lr: the learning rate, above 0; a number, or a tensor of one element.
        eps: what keeps divisors above 0; above 0 itself.

    Raises:
        ValueError: an option is out of range, there are no parameters, or a complex one.

    >>> w = nn.Parameter(pf.ones(2))
    >>> w[0].backward()
    >>> optim.SparseAdam([w], lr=0.1).step()
    >>> w.data
    tensor([0.9000, 1.0000])
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


class Adafactor(Optimizer):
    """Adam's divisor in less memory: u = g / √v, no longer than d in the root mean square; p -=
    alpha * u.

    Of a matrix v is the outer product of mean squares of its rows and columns, with b2 = 1 -
    t^beta2_decay; alpha = max(eps[1], rms(p)) * min(lr, 1 / √t) (Shazeer & Stern 2018,
    arXiv 1804.04235).

    Args:
        lr: the largest relative step.
        beta2_decay: the power of t, at most 0.
        eps: the least v, as a root, None for the machine's epsilon of the dtype; and the least size
            of parameters.
        d: the largest root mean square of u, at least 1.
        weight_decay: parameters shrink by lr times this in each step, apart from the gradient.

    >>> w = nn.Parameter(pf.tensor([1.0, 2.0]))
    >>> (w * w).sum().backward()
    >>> optim.Adafactor([w], lr=0.1).step()
    >>> w.data
    tensor([0.8419, 1.8419])
    """

    _ranges: ClassVar = {
        "lr": "[0, inf]", "beta2_decay": "[-inf, 0]", "d": "[1, inf]", "weight_decay": "[0, inf]",
    }  # fmt: skip
    _decays = False

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0,
        *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, options(locals()))

    def _check_options(self, options: Mapping[str, Any]) -> None:
        super()._check_options(options)
        first, second = options["eps"]
        if first is not None:
            self._check("epsilon1", first, "[0, inf]")
        self._check("epsilon2", second, "[0, inf]")

    def _update(self, group: Mapping[str, Any], params: list[Tensor]) -> None:
        lr, decay, d = scalar(group["lr"]), group["weight_decay"], group["d"]
        first, least = group["eps"]
        shrink = 1 - lr * decay if nonzero(decay) else None
        for t, together in self._steps(params):
            rest = t ** group["beta2_decay"]
            rate = t.rsqrt().clamp(max=lr)
            for p, g, own in self._each(group, together):
                if p.is_complex() or own.of.is_complex():
                    raise RuntimeError("Adafactor does not support complex parameters")
                eps = pf.finfo(p.dtype).eps if first is None else first
                alpha = _rms(p).clamp(min=least) * rate
                if shrink is not None:
                    p.mul_(shrink)
                u = g * _variance(own, g, eps, rest).clamp(min=eps * eps).rsqrt()
                p.sub_(u * (alpha / (_rms(u) / d).clamp(min=1)))


def _rms(x: Tensor) -> Tensor:
    return x.norm() / math.sqrt(x.numel())


def _like(x: Tensor, of: Tensor) -> Tensor:
    return pf.zeros(x.shape, dtype=of.dtype, device=of.device)


def _variance(own: State, g: Tensor, eps: Any, rest: Tensor) -> Tensor:
    """The mean square of the gradient, of a matrix from those of its rows and columns."""
    squared = g * g
    if g.ndim < 2:
        return own.follow("variance", squared, rest)
    for name, dim in (("row_var", -1), ("col_var", -2)):
        mean = squared.mean(dim, keepdim=True)
        own.get(name, functools.partial(_like, mean))
        own.follow(name, mean, rest)
    rows, columns = own.zeros("row_var"), own.zeros("col_var")
    return rows * columns / rows.mean(-2, keepdim=True).clamp(min=eps)


class Muon(Optimizer):
    """Steps that change all directions of a matrix alike: b = momentum b + (1 - momentum) g; p -=
    rate * (the nearest orthogonal matrix to b, or to the mean of g and b, nesterov).

    For the matrices of hidden layers (https://kellerjordan.github.io/posts/muon). The rate for a
    matrix of (n, m) is lr * √max(1, n / m). Products are taken in float32; PyTorch rounds them to
    bfloat16, which moves its steps by some hundredths of their size.

    Args:
        params: matrices, or dicts {"params": …, "lr": …} of groups with options of their own.
        weight_decay: parameters shrink by lr times this in each step, apart from the gradient.
        momentum: how much of b stays.
        nesterov: whether a step looks ahead.
        ns_coefficients: a, b and c of the iteration that makes a matrix orthogonal, whose steps map
            singular values by a s + b s³ + c s⁵.
        eps: the least norm that the matrix is divided by first.
        ns_steps: how many steps it takes, below 100.
        adjust_lr_fn: None or "original" for the rate above, "match_rms_adamw" for lr * 0.2 *
            √max(n, m) (arXiv 2502.16982).

    Raises:
        ValueError: a parameter is no matrix, or an option is out of range.

    >>> w = nn.Parameter(pf.eye(3))
    >>> (w * w).sum().backward()
    >>> optim.Muon([w], lr=0.1).step()
    >>> w.shape
    pyframe.Size([3, 3])
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
