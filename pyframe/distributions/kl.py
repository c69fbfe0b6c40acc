"""The Kullback-Leibler divergence, by the classes of both distributions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pyframe as pf
from pyframe.distributions.families import (
    EULER, Bernoulli, Beta, Binomial, Categorical, Cauchy, ContinuousBernoulli, Dirichlet,
    Distribution, Exponential, ExponentialFamily, Gamma, HALF_LOG_2PI, Geometric, Gumbel, HalfNormal, Independent, Laplace,
    LowRankMultivariateNormal, MultivariateNormal, Normal, OneHotCategorical, Pareto, Poisson,
    TransformedDistribution, Uniform, Wishart,
)  # fmt: skip
from pyframe.distributions.transforms import sum_rightmost
from pyframe.tensor import Tensor

__all__ = ["kl_divergence", "register_kl"]
_RULES: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Have a function of p and q compute the divergence between two classes; a decorator.

    Args:
        type_p, type_q: The classes of p and q; those derived from them have it too.

    >>> @pf.distributions.register_kl(pf.distributions.Cauchy, pf.distributions.Normal)
    ... def infinite(p, q):
    ...     return pf.full(p.batch_shape, float("inf"))
    >>> D = pf.distributions
    >>> D.kl_divergence(D.Cauchy(0.0, 1.0), D.Normal(0.0, 1.0))
    tensor(inf)
    """
    for kind in (type_p, type_q):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"register_kl: expected a Distribution subclass, got {kind}")

    def register(rule: Any) -> Any:
        _RULES[type_p, type_q] = rule
        return rule

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p ‖ q): the mean under p of log p - log q.

    NotImplementedError unless there is a formula for both classes, or for classes that they are
    derived from.

    Args:
        p, q: The distributions.

    >>> p, q = pf.distributions.Normal(0.0, 1.0), pf.distributions.Normal(1.0, 1.0)
    >>> pf.distributions.kl_divergence(p, q)
    tensor(0.5000)
    """
    above, below = type(p).__mro__, type(q).__mro__
    found = [(above.index(a), below.index(b), a, b) for a, b in _RULES if a in above and b in below]
    if not found:
        raise NotImplementedError(
            f"kl_divergence: there is none of {type(p).__name__} and {type(q).__name__}; average "
            "p.log_prob(x) - q.log_prob(x) over samples of p, or register_kl a formula"
        )
    first = min(found)
    other = min(found, key=lambda f: (f[1], f[0]))
    if _RULES[first[2:]] is not _RULES[other[2:]]:
        names = f"{type(p).__name__}, {type(q).__name__}"
        warnings.warn(
            f"Ambiguous kl_divergence({names}): register_kl({names}) decides it", RuntimeWarning,
            stacklevel=2,
        )  # fmt: skip
    return _RULES[first[2:]](p, q)


# The mean of -log q under p, minus p's entropy, is the divergence. For these -log q is made of few
# means of p, each a function of p and what it depends on.

_REAL, _POSITIVE, _UNIT = (-math.inf, math.inf), (0.0, math.inf), (0.0, 1.0)


def _mean_log(low: Any, high: Any) -> Any:
    return (pf.xlogy(high, high) - pf.xlogy(low, low)) / (high - low) - 1


def _exp_uniform(p: Any, t: Any) -> Any:
    return ((-p.low * t).exp() - (-p.high * t).exp()) / ((p.high - p.low) * t)


def _abs_normal(p: Any, m: Any) -> Any:
    d, s = p.loc - m, p.scale
    z = d / (s * math.sqrt(2))
    return s * math.sqrt(2 / math.pi) * (-z * z).exp() + d * pf.erf(z)


# p: the ends of its support; the means of log x, log (1 - x), exp(-t x) and |x - m|
_MEANS: dict[type, tuple[Any, dict[str, Any]]] = {
    Beta: (_UNIT, {
        "log": lambda p: p._dirichlet._mean_log()[..., 0],
        "log1m": lambda p: p._dirichlet._mean_log()[..., 1],
    }),
    ContinuousBernoulli: (_UNIT, {}),
    Exponential: (_POSITIVE, {
        "log": lambda p: -EULER - p.rate.log(),
        "exp": lambda p, t: p.rate / (p.rate + t),
    }),
    Gamma: (_POSITIVE, {
        "log": lambda p: p.concentration.digamma() - p.rate.log(),
        "exp": lambda p, t: (1 + t / p.rate) ** -p.concentration,
    }),
    Gumbel: (_REAL, {"exp": lambda p, t: ((1 + p.scale * t).lgamma() - p.loc * t).exp()}),
    Laplace: (_REAL, {
        "abs": lambda p, m: (p.loc - m).abs() + p.scale * (-(p.loc - m).abs() / p.scale).exp()
    }),
    Normal: (_REAL, {
        "exp": lambda p, t: ((p.scale * t) ** 2 / 2 - p.loc * t).exp(),
        "abs": _abs_normal,
    }),
    Pareto: (lambda p: (p.scale, math.inf), {"log": lambda p: p.scale.log() + 1 / p.alpha}),
    Uniform: (lambda p: (p.low, p.high), {
        "log": lambda p: _mean_log(p.low, p.high),
        "log1m": lambda p: _mean_log(1 - p.high, 1 - p.low),
        "exp": _exp_uniform,
    }),
}  # fmt: skip
# q: the mean of -log q, of q, p's mean and p's other means
_CROSS: dict[type, tuple[str, Callable[..., Any]]] = {
    Beta: ("log log1m", lambda q, p, log, log1m: (
        -q._dirichlet._cross(pf.stack([log(), log1m()], -1))
    )),
    ContinuousBernoulli: ("", lambda q, p: -q._log_prob(p.mean)),
    Exponential: ("", lambda q, p: q.rate * p.mean - q.rate.log()),
    Gamma: ("log", lambda q, p, log: (
        q.rate * p.mean - (q.concentration - 1) * log()
        + q.concentration.lgamma() - q.concentration * q.rate.log()
    )),
    Gumbel: ("exp", lambda q, p, exp: (
        q.scale.log() + (p.mean - q.loc) / q.scale + (q.loc / q.scale).exp() * exp(1 / q.scale)
    )),
    Laplace: ("abs", lambda q, p, abs_: (2 * q.scale).log() + abs_(q.loc) / q.scale),
    Normal: ("", lambda q, p: (
        HALF_LOG_2PI + q.scale.log() + (p.variance + (p.mean - q.loc) ** 2) / (2 * q.scale**2)
    )),
    Pareto: ("log", lambda q, p, log: (
        (q.alpha + 1) * log() - q.alpha.log() - q.alpha * q.scale.log()
    )),
    Uniform: ("", lambda q, p: q.entropy()),
}  # fmt: skip


def _inf(p: Any, q: Any) -> Tensor:
    shape = pf.broadcast_shapes(p.batch_shape, q.batch_shape)
    return pf.full_like(p.mean, math.inf).expand(shape)


def _register(kind_p: type, kind_q: type) -> None:
    (ends_p, has), ends_q, (needs, cross) = _MEANS[kind_p], _MEANS[kind_q][0], _CROSS[kind_q]
    (a, b), (c, d) = (
        {Pareto: (1.0, math.inf), Uniform: _UNIT}.get(k, e)
        for k, e in ((kind_p, ends_p), (kind_q, ends_q))
    )  # fmt: skip
    known = {*needs.split()} <= {*has}
    if not known and a >= c and b <= d:
        return  # what is missing would be needed

    def rule(p: Any, q: Any) -> Tensor:
        (a, b), (c, d) = (e(x) if callable(e) else e for x, e in ((p, ends_p), (q, ends_q)))
        outside = (a < c) | (b > d)
        if outside is True or not known:
            return _inf(p, q)
        means = ((lambda *given, n=n: has[n](p, *given)) for n in needs.split())
        found = cross(q, p, *means) - p.entropy()
        return found if outside is False else pf.where(outside, math.inf, found)

    register_kl(kind_p, kind_q)(rule)


for _p in _MEANS:
    for _q in _CROSS:
        _register(_p, _q)


def _same(p: Any, q: Any, what: str) -> None:
    if getattr(p, what) != getattr(q, what):
        raise NotImplementedError(f"kl_divergence: expected one {what}, got {p} and {q}")


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    never = (q.probs == 0) & (p.probs > 0) | (q.probs == 1) & (p.probs < 1)
    return pf.where(never, math.inf, -q._log_prob(p.probs) - p.entropy())


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    one, other = (Bernoulli(x.probs, validate_args=False) for x in (p, q))
    more = p.total_count > q.total_count
    return pf.where(more, math.inf, p.total_count * _bernoulli(one, other))


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = pf.where(q.probs == 0, math.inf, p.probs * (p.logits - q.logits))
    return pf.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    away = (p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2
    return (away / (4 * p.scale * q.scale)).log()


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    return -q._cross(p._mean_log()) - p.entropy()


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -q._log_prob(p.mean) - p.entropy()


@register_kl(HalfNormal, HalfNormal)
def _half(p: Any, q: Any) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return pf.xlogy(p.rate, p.rate / q.rate) - p.rate + q.rate


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()


register_kl(Poisson, Bernoulli)(_inf)
register_kl(Poisson, Binomial)(_inf)


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _gaussian(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(f"kl_divergence: {p.event_shape} and {q.event_shape} do not fit")
    root = p._root.movedim(-1, 0)
    squares = q._squares(root).sum(0) + q._squares(p.loc - q.loc) - p.event_shape[0]
    return squares / 2 + q._half_log_det() - p._half_log_det()


@register_kl(Wishart, Wishart)
def _wishart(p: Any, q: Any) -> Tensor:
    return -q._cross(p._mean_log_det(), p.mean) - p.entropy()


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    _same(p, q, "reinterpreted_batch_ndims")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    _same(p, q, "transforms")
    _same(p, q, "event_shape")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _family(p: Any, q: Any) -> Tensor:
    _same(p, q, "__class__")
    others = q._natural_params
    return q._log_normalizer(*others) - p._bregman(others)
