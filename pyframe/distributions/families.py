"""The distributions: of each the formulas, and an example."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.distributions import constraints
from pyframe.distributions.distribution import (
    HALF_LOG_2PI, Distribution, ExponentialFamily, Family, broadcast_all, clamp_probs,
    lazy_property, logits_to_probs, probs_to_logits, sum_rightmost,
)  # fmt: skip
from pyframe.distributions.transforms import (
    AbsTransform, AffineTransform, ComposeTransform, ExpTransform, PowerTransform,
    SigmoidTransform, StickBreakingTransform, Transform,
)  # fmt: skip
from pyframe.nn import functional as F
from pyframe.tensor import Size, Tensor

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli",
    "Dirichlet", "Exponential", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric",
    "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy",
    "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal", "LowRankMultivariateNormal",
    "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson",
    "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT", "TransformedDistribution",
    "Uniform", "VonMises", "Weibull", "Wishart",
]  # fmt: skip
EULER = float(np.euler_gamma)
_dependent = constraints.dependent_property


def _normal(like: Tensor, shape: Any) -> Tensor:
    return pf.randn(shape, dtype=like.dtype, device=like.device)


def _uniform(like: Tensor, shape: Any) -> Tensor:
    return clamp_probs(pf.rand(shape, dtype=like.dtype, device=like.device))


# --- made of others


class Independent(Distribution):
    """Another distribution, the last dims of whose batch are one event.

    Args:
        base_distribution: That other one.

    >>> normals = pf.distributions.Normal(pf.zeros(3), pf.ones(3))
    >>> pf.distributions.Independent(normals, 1).log_prob(pf.zeros(3))
    tensor(-2.7568)
    """

    arg_constraints: Any = property(lambda self: {})

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        base, n = base_distribution, reinterpreted_batch_ndims
        if not 0 <= n <= len(base.batch_shape):
            raise ValueError(
                f"Independent: expected 0 to {len(base.batch_shape)} dims to reinterpret, got {n}"
            )
        cut = len(base.batch_shape) - n
        self.base_dist, self.reinterpreted_batch_ndims = base, n
        event_shape = base.batch_shape[cut:] + base.event_shape
        super().__init__(base.batch_shape[:cut], event_shape, validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)
    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    @property
    def has_enumerate_support(self) -> Any:
        """Whether `enumerate_support` has all values."""
        return not self.reinterpreted_batch_ndims and self.base_dist.has_enumerate_support

    @_dependent
    def support(self) -> Any:
        found, n = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(found, n) if n else found

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        more = self.event_shape[: self.reinterpreted_batch_ndims]
        base = self.base_dist.expand((*batch_shape, *more))
        new = type(self).__new__(type(self)) if _instance is None else _instance
        Independent.__init__(new, base, self.reinterpreted_batch_ndims, self._validate_args)
        return new

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def _log_prob(self, value: Any) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Independent.enumerate_support: there are too many values")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """What transforms make of another distribution.

    Args:
        transforms: A transform, or a list, the first first.

    >>> D = pf.distributions
    >>> D.TransformedDistribution(D.Normal(0.0, 1.0), D.ExpTransform()).log_prob(pf.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: Any = property(lambda self: {})
    base_dist: Any
    transforms: Any

    def __init__(
        self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None
    ) -> None:
        found = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(found, list) or not all(isinstance(t, Transform) for t in found):
            raise ValueError(
                f"transforms must be a Transform or a list of Transforms, but was {transforms}"
            )
        base, chain = base_distribution, ComposeTransform(found)
        shape, dims = base.batch_shape + base.event_shape, len(base.event_shape)
        into, out = chain.domain.event_dim, chain.codomain.event_dim
        if len(shape) < into:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {into}, but got {shape}."
            )
        forward = chain.forward_shape(shape)
        back = chain.inverse_shape(forward)
        if back != shape:
            base = base.expand(back[: len(back) - dims])
        self.base_dist = Independent(base, into - dims) if into > dims else base
        self.transforms = found
        cut = len(forward) - max(out, dims + out - into)
        super().__init__(forward[:cut], forward[cut:], validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    @_dependent(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        more = len(self.event_shape) - found.event_dim
        return constraints.independent(found, more) if more > 0 else found

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        shape = Size(batch_shape) + self.event_shape
        for t in self.transforms[::-1]:
            shape = t.inverse_shape(shape)
        base = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new = type(self).__new__(type(self)) if _instance is None else _instance
        TransformedDistribution.__init__(new, base, self.transforms, self._validate_args)
        return new

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with pf.no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _log_prob(self, value: Any) -> Tensor:
        dims, total = len(self.event_shape), 0
        for t in self.transforms[::-1]:
            x = t.inv(value)
            dims += t.domain.event_dim - t.codomain.event_dim
            found = t.log_abs_det_jacobian(x, value)
            total = total - sum_rightmost(found, dims - t.domain.event_dim)
            value = x
        base = self.base_dist
        return total + sum_rightmost(base.log_prob(value), dims - len(base.event_shape))

    def _sides(self, p: Any) -> Any:
        """A probability, or 1 minus it where what grows becomes what falls."""
        sign = math.prod(t.sign for t in self.transforms)
        return p if isinstance(sign, int) and sign == 1 else sign * (p - 0.5) + 0.5

    def _cdf(self, value: Any) -> Tensor:
        for transform in self.transforms[::-1]:
            value = transform.inv(value)
        return self._sides(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._transformed(self.base_dist.icdf(self._sides(value)))


class MixtureSameFamily(Distribution):
    """Components of one kind, of which a Categorical draws one.

    >>> D = pf.distributions
    >>> parts = D.Normal(pf.tensor([-1.0, 1.0]), pf.tensor([1.0, 1.0]))
    >>> D.MixtureSameFamily(D.Categorical(pf.ones(2)), parts).variance
    tensor(2.)
    """

    arg_constraints: Any = property(lambda self: {})

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        mixture, parts = mixture_distribution, component_distribution
        if not isinstance(mixture, Categorical) or not isinstance(parts, Distribution):
            raise ValueError(
                "MixtureSameFamily: expected a Categorical and a Distribution, got "
                f"{mixture} and {parts}"
            )
        batch, counts = parts.batch_shape, mixture.param_shape
        short = zip(counts[::-1], batch[::-1], strict=False)
        if counts[-1] != batch[-1] or any(i != j and 1 not in (i, j) for i, j in short):
            raise ValueError(
                f"`mixture_distribution` has the shape {counts}, which does not fit "
                f"`component_distribution.batch_shape` ({batch})"
            )
        self.mixture_distribution, self.component_distribution = mixture, parts
        super().__init__(batch[:-1], parts.event_shape, validate_args)

    @_dependent
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = type(self).__new__(type(self)) if _instance is None else _instance
        mixture, parts = self.mixture_distribution, self.component_distribution
        grown = parts.expand((*batch_shape, parts.batch_shape[-1]))
        MixtureSameFamily.__init__(new, mixture.expand(batch_shape), grown, self._validate_args)
        return new

    def _average(self, x: Tensor) -> Tensor:
        dims = len(self.event_shape)
        weights = self.mixture_distribution.probs
        return (weights.reshape(*weights.shape, *(1 for _ in range(dims))) * x).sum(-1 - dims)

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - len(self.event_shape))

    @property
    def mean(self) -> Tensor:
        return self._average(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        parts = self.component_distribution
        away = parts.mean - self._pad(self.mean)
        return self._average(parts.variance + away.square())

    def _cdf(self, value: Any) -> Tensor:
        found = self.component_distribution.cdf(self._pad(value))
        return (found * self.mixture_distribution.probs).sum(-1)

    def _log_prob(self, value: Any) -> Tensor:
        found = self.component_distribution.log_prob(self._pad(value))
        return (found + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with pf.no_grad():
            dim = len(sample_shape) + len(self.batch_shape)
            parts = self.component_distribution.sample(sample_shape)
            index = self.mixture_distribution.sample(sample_shape)
            index = index.reshape(*index.shape, *(1 for _ in range(parts.ndim - index.ndim)))
            shape = (*parts.shape[:dim], 1, *self.event_shape)
            return parts.gather(dim, index.expand(shape)).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily({self.mixture_distribution}, {self.component_distribution})"


# --- of numbers


class _Inverted(Family):
    """What has an `icdf`, which makes its samples of uniform ones."""

    has_rsample = True

    def _draw(self, shape: Any) -> Tensor:
        like = getattr(self, next(iter(self._dims)))
        return self.icdf(_uniform(like, shape))


class Normal(Family, ExponentialFamily, takes="loc:real scale:positive"):
    """The normal distribution of mean `loc` and standard deviation `scale`.

    >>> pf.distributions.Normal(0.0, 1.0).log_prob(pf.tensor(0.0))
    tensor(-0.9189)
    """

    support = constraints.real
    has_rsample = True
    mean = mode = property(lambda self: self.loc)
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale**2)

    def _draw(self, shape: Any) -> Tensor:
        return self.loc + _normal(self.loc, shape) * self.scale

    def _log_prob(self, value: Any) -> Tensor:
        z = (value - self.loc) / self.scale
        return -0.5 * z * z - self.scale.log() - HALF_LOG_2PI

    def _cdf(self, value: Any) -> Tensor:
        return 0.5 * (1 + pf.erf((value - self.loc) / (self.scale * math.sqrt(2))))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * math.sqrt(2) * pf.erfinv(2 * value - 1)

    def entropy(self) -> Tensor:
        return 0.5 + HALF_LOG_2PI + self.scale.log()


class Uniform(_Inverted, takes="low:parameter high:parameter"):
    """The uniform distribution on [low, high).

    >>> pf.distributions.Uniform(0.0, 4.0).entropy()
    tensor(1.3863)
    """

    @property
    def arg_constraints(self) -> Any:
        """What each parameter must be."""
        less, more = constraints.less_than(self.high), constraints.greater_than(self.low)
        return {"low": less, "high": more}

    @_dependent(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    mean = property(lambda self: (self.low + self.high) / 2)
    mode = property(lambda self: pf.full_like(self.high, math.nan))
    variance = property(lambda self: (self.high - self.low) ** 2 / 12)

    def _log_prob(self, value: Any) -> Tensor:
        within = (value >= self.low) & (value < self.high)
        return within.to(self.low.dtype).log() - self.entropy()

    def _cdf(self, value: Any) -> Tensor:
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return self.low + value * (self.high - self.low)

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class Laplace(_Inverted, takes="loc:real scale:positive"):
    """Two exponential distributions back to back, of mean `loc`.

    >>> pf.distributions.Laplace(0.0, 1.0).variance
    tensor(2.)
    """

    support = constraints.real
    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale**2)

    def _log_prob(self, value: Any) -> Tensor:
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def _cdf(self, value: Any) -> Tensor:
        z = (value - self.loc) / self.scale
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        u = value - 0.5
        return self.loc - self.scale * u.sign() * (-2 * u.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_Inverted, takes="loc:real scale:positive"):
    """The ratio of two normal numbers, which has no mean; `loc` is its median.

    >>> pf.distributions.Cauchy(0.0, 1.0).cdf(pf.tensor(1.0))
    tensor(0.7500)
    """

    support = constraints.real
    mean = property(lambda self: pf.full_like(self.loc, math.nan))
    mode = property(lambda self: self.loc)
    variance = property(lambda self: pf.full_like(self.loc, math.inf))

    def _log_prob(self, value: Any) -> Tensor:
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - z.square().log1p()

    def _cdf(self, value: Any) -> Tensor:
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (math.pi * (value - 0.5)).tan()

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Exponential(_Inverted, ExponentialFamily, takes="rate:positive"):
    """The time to the next event of those that come at a rate.

    >>> pf.distributions.Exponential(2.0).mean
    tensor(0.5000)
    """

    support = constraints.nonnegative
    mean = stddev = property(lambda self: 1 / self.rate)
    mode = property(lambda self: pf.zeros_like(self.rate))
    variance = property(lambda self: self.rate**-2)

    def _log_prob(self, value: Any) -> Tensor:
        return self.rate.log() - self.rate * value

    def _cdf(self, value: Any) -> Tensor:
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()


class GeneralizedPareto(_Inverted, takes="loc:real scale:positive concentration:real"):
    """What exceeds a threshold `loc`; its tail is the heavier, the larger `concentration` is.

    Args:
        concentration: A number or a tensor; 0 makes it exponential.

    >>> pf.distributions.GeneralizedPareto(0.0, 1.0, 0.0).cdf(pf.tensor(1.0))
    tensor(0.6321)
    """

    mode = property(lambda self: self.loc)

    @_dependent(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        k = self.concentration
        end = pf.where(k < 0, self.loc - self.scale / k, math.inf)
        return constraints.interval(self.loc, end)

    def _split(self, many: Any, few: Any) -> Tensor:
        """`many` of the concentration, or `few` where that is 0."""
        zero = self.concentration.abs() < 1e-8
        return pf.where(zero, few, many(pf.where(zero, 1.0, self.concentration)))

    def _log_prob(self, value: Any) -> Tensor:
        z = (value - self.loc) / self.scale
        return -self.scale.log() - self._split(lambda k: (1 / k + 1) * (k * z).log1p(), z)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of more than `value`."""
        z = (value - self.loc) / self.scale
        return -self._split(lambda k: (k * z).log1p() / k, z)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of `cdf`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def _cdf(self, value: Any) -> Tensor:
        return -self.log_survival_function(value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        left = (-value).log1p()
        return self.loc + self.scale * self._split(lambda k: (-k * left).expm1() / k, -left)

    @property
    def mean(self) -> Tensor:
        k = self.concentration
        return pf.where(k < 1, self.loc + self.scale / (1 - k), math.nan)

    @property
    def variance(self) -> Tensor:
        k = self.concentration
        return pf.where(k < 0.5, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)), math.nan)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1


class VonMises(Family, takes="loc:real concentration:positive"):
    """Angles around `loc`, in radians, from -π to π; mean and variance are those on the circle.

    >>> pf.distributions.VonMises(0.0, 1.0).log_prob(pf.tensor(0.0))
    tensor(-1.0739)
    """

    support = constraints.real
    mean = mode = property(lambda self: self.loc)

    @property
    def variance(self) -> Tensor:
        k = self.concentration
        return 1 - pf.special.i1e(k) / pf.special.i0e(k)

    def _log_prob(self, value: Any) -> Tensor:
        k = self.concentration
        away = (value - self.loc).cos() - 1
        return k * away - math.log(2 * math.pi) - pf.special.i0e(k).log()

    def _draw(self, shape: Any) -> Tensor:
        """By Best and Fisher (1979): of 16 tries one that is taken."""
        k = self.concentration
        tau = 1 + (1 + 4 * k * k).sqrt()
        rho = 2 * k / (tau + (2 * tau).sqrt())
        r = (1 + rho * rho) / (2 * rho)
        u = _uniform(k, (3, 16, *shape))
        z = (math.pi * u[0]).cos()
        f = ((1 + r * z) / (r + z)).clamp(-1, 1)
        c = k * (r - f)
        angle = _first(c.log() + 1 - c >= u[1].log(), (u[2] - 0.5).sign() * f.acos())
        return (angle + math.pi + self.loc) % (2 * math.pi) - math.pi


def _first(good: Tensor, tries: Tensor) -> Tensor:
    """Along dim 0, a try that is good: no look at the values is needed."""
    at = good.to(tries.dtype).argmax(0, keepdim=True)
    return tries.gather(0, at).squeeze(0)


# --- gamma numbers, and what is made of them


class _LogGamma(pf.autograd.Function):
    """Logarithms of gamma numbers, of shapes from 1 on (Marsaglia and Tsang, 2000)."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        d = a - 1 / 3
        z, u = _normal(a, (6, *a.shape)), _uniform(a, (6, *a.shape))
        v = 1 + z / (3 * d.sqrt())
        log = 3 * v.clamp(min=pf.finfo(a.dtype).tiny).log()
        good = (v > 0) & (u.log() < z * z / 2 + d * (1 + log - v**3))
        found = d.log() + _first(good, log)
        ctx.save_for_backward(a, found)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * _slope(*ctx.saved_tensors)


def _slope(a: Tensor, log: Tensor) -> Tensor:
    """d log x / d a where x stays at the same place of its distribution.

    It is ∫ (t / x)^a e^(x - t) (ψ(a) - log t) d log t below x, or minus that above x, whichever
    is the smaller tail: by 32 points of Gauss and Legendre, up to where nothing is left.
    """
    x = log.exp()
    side = pf.where(x > a, 1.0, -1.0).unsqueeze(-1)
    d, w = (x - a).abs(), x * (2 + (x > a)) / 6  # it falls by d s + w s² at least, for s up to 1
    near = 80 / (d + (d * d + 160 * w).sqrt())
    end = pf.where((near > 1) & (x <= a), 1 + 64 / a, near).unsqueeze(-1)
    points, weights = (
        pf.tensor(v, dtype=a.dtype, device=a.device) for v in np.polynomial.legendre.leggauss(32)
    )
    s = end * (points + 1) / 2
    a, x, rest = a.unsqueeze(-1), x.unsqueeze(-1), (log - a.digamma()).unsqueeze(-1)
    tail = (a * side * s - x * (side * s).expm1()).exp()
    return (tail * (side * rest + s) * weights * end / 2).sum(-1)


def _log_gamma(a: Tensor, shape: Any) -> Tensor:
    """Logarithms of gamma numbers: below 1 the shape is one more, and less is made of the number."""
    a = a.expand(shape)
    small = a < 1
    less = _uniform(a, shape).log() / a
    return _LogGamma.apply(a + small.to(a.dtype)) + pf.where(small, less, 0.0)


def _positive(log: Tensor) -> Tensor:
    return log.exp().clamp(min=pf.finfo(log.dtype).tiny)


class Gamma(Family, ExponentialFamily, takes="concentration:positive rate:positive"):
    """The gamma distribution; of an integer shape, sums of exponential numbers.

    >>> pf.distributions.Gamma(3.0, 2.0).mean
    tensor(1.5000)
    """

    support = constraints.nonnegative
    has_rsample = True
    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: (self.concentration - 1).clamp(min=0) / self.rate)
    variance = property(lambda self: self.concentration / self.rate**2)

    def _draw(self, shape: Any) -> Tensor:
        return _positive(_log_gamma(self.concentration, shape) - self.rate.log())

    def _log_prob(self, value: Any) -> Tensor:
        a, rate = self.concentration, self.rate
        powers = pf.xlogy(a, rate) + pf.xlogy(a - 1, value)
        return powers - rate * value - a.lgamma()

    def _cdf(self, value: Any) -> Tensor:
        return pf.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()


class Chi2(Gamma, takes="df:positive"):
    """Sums of the squares of `df` normal numbers.

    >>> pf.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    concentration = property(lambda self: 0.5 * self.df)
    rate = property(lambda self: pf.full_like(self.df, 0.5))


class StudentT(Family, takes="df:positive loc:real=0.0 scale:positive=1.0"):
    """Student's t distribution, moved by `loc` and widened by `scale`.

    >>> pf.distributions.StudentT(4.0).variance
    tensor(2.)
    """

    support = constraints.real
    has_rsample = True
    mode = property(lambda self: self.loc)
    mean = property(lambda self: pf.where(self.df > 1, self.loc, math.nan))

    @property
    def variance(self) -> Tensor:
        df = self.df
        found = pf.where(df > 2, self.scale**2 * df / (df - 2), math.inf)
        return pf.where(df > 1, found, math.nan)

    def _draw(self, shape: Any) -> Tensor:
        half = self.df / 2
        wide = (0.5 * (half.log() - _log_gamma(half, shape))).exp()
        return self.loc + self.scale * _normal(half, shape) * wide

    def _log_beta(self) -> Tensor:
        half = self.df / 2
        return half.lgamma() + 0.5 * math.log(math.pi) - (half + 0.5).lgamma()

    def _log_prob(self, value: Any) -> Tensor:
        z = (value - self.loc) / self.scale
        scale = self.scale.log() + 0.5 * self.df.log()
        return -0.5 * (self.df + 1) * (z * z / self.df).log1p() - scale - self._log_beta()

    def entropy(self) -> Tensor:
        half = self.df / 2
        spread = (half + 0.5) * ((half + 0.5).digamma() - half.digamma())
        return self.scale.log() + spread + 0.5 * self.df.log() + self._log_beta()


class FisherSnedecor(Family, takes="df1:positive df2:positive"):
    """The ratio of the means of `df1` and of `df2` squares of normal numbers.

    >>> pf.distributions.FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    support = constraints.positive
    has_rsample = True
    mean = property(lambda self: pf.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan))

    @property
    def mode(self) -> Tensor:
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return pf.where(self.df1 > 2, found, math.nan)

    @property
    def variance(self) -> Tensor:
        m, n = self.df1, self.df2
        found = 2 * n**2 * (m + n - 2) / (m * (n - 2) ** 2 * (n - 4))
        return pf.where(n > 4, found, math.nan)

    def _draw(self, shape: Any) -> Tensor:
        above, below = (_log_gamma(df / 2, shape) - df.log() for df in (self.df1, self.df2))
        return _positive(above - below)

    def _log_prob(self, value: Any) -> Tensor:
        m, n, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        powers = m * ratio.log() + (m - 1) * value.log() - (m + n) * (ratio * value).log1p()
        return powers + (m + n).lgamma() - m.lgamma() - n.lgamma()


class Beta(Family, ExponentialFamily, takes="concentration1:positive concentration0:positive"):
    """The beta distribution, of numbers from 0 to 1.

    >>> pf.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    support = constraints.unit_interval
    has_rsample = True
    _both = property(lambda self: pf.stack([self.concentration1, self.concentration0], -1))
    _total = property(lambda self: self.concentration1 + self.concentration0)
    _dirichlet = property(lambda self: Dirichlet(self._both, validate_args=False))
    mean = property(lambda self: self.concentration1 / self._total)
    mode = property(lambda self: self._dirichlet.mode[..., 0])
    variance = property(lambda self: self.mean * (1 - self.mean) / (self._total + 1))

    def _draw(self, shape: Any) -> Tensor:
        a, b = _log_gamma(self.concentration1, shape), _log_gamma(self.concentration0, shape)
        return SigmoidTransform()(a - b)

    def _log_prob(self, value: Any) -> Tensor:
        return self._dirichlet.log_prob(pf.stack([value, 1 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()


class Dirichlet(Family, ExponentialFamily, takes="concentration:positive_vector"):
    """Numbers of the last dim that sum to 1.

    >>> pf.distributions.Dirichlet(pf.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    support = constraints.simplex
    has_rsample = True
    _total = property(lambda self: self.concentration.sum(-1, keepdim=True))
    mean = property(lambda self: self.concentration / self._total)
    variance = property(lambda self: self.mean * (1 - self.mean) / (self._total + 1))

    @property
    def mode(self) -> Tensor:
        a = self.concentration
        more = (a - 1).clamp(min=0)
        corner = F.one_hot(a.argmax(-1), a.shape[-1]).to(a.dtype)
        none = (a <= 1).all(-1, keepdim=True)
        return pf.where(none, corner, more / more.sum(-1, keepdim=True))

    def _draw(self, shape: Any) -> Tensor:
        return _log_gamma(self.concentration, shape).softmax(-1)

    def _log_norm(self) -> Tensor:
        return self.concentration.lgamma().sum(-1) - self.concentration.sum(-1).lgamma()

    def _log_prob(self, value: Any) -> Tensor:
        return pf.xlogy(self.concentration - 1, value).sum(-1) - self._log_norm()

    def _mean_log(self) -> Tensor:
        return self.concentration.digamma() - self._total.digamma()

    def entropy(self) -> Tensor:
        return self._log_norm() - ((self.concentration - 1) * self._mean_log()).sum(-1)


# --- transformed


class _Derived(Family, TransformedDistribution):
    """What has parameters of its own, of which `base_dist` and `transforms` are made."""

    transforms = property(lambda self: [ExpTransform()])
    has_rsample = property(lambda self: self.base_dist.has_rsample)


class LogNormal(_Derived, takes="loc:real scale:positive"):
    """Numbers whose logarithms are normal ones.

    >>> pf.distributions.LogNormal(0.0, 1.0).mode
    tensor(0.3679)
    """

    support = constraints.positive
    base_dist = lazy_property(lambda self: Normal(self.loc, self.scale, False))
    mean = property(lambda self: (self.loc + self.scale**2 / 2).exp())
    mode = property(lambda self: (self.loc - self.scale**2).exp())
    variance = property(lambda self: (self.scale**2).expm1() * self.mean**2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(_Derived, takes="loc:real scale:positive"):
    """Numbers that sum to 1, of normal ones by StickBreakingTransform: one more than those.

    >>> pf.distributions.LogisticNormal(pf.zeros(2), pf.ones(2)).sample().shape
    pyframe.Size([3])
    """

    support = constraints.simplex
    base_dist = lazy_property(lambda s: Independent(Normal(s.loc, s.scale, False), 1))
    transforms = lazy_property(lambda self: [StickBreakingTransform()])

    def _prepare(self, batch_shape: Any, event_shape: Any) -> tuple[Any, Any]:
        shape = batch_shape or (1,)
        self.loc, self.scale = self.loc.expand(shape), self.scale.expand(shape)
        self._dims = {"loc": 1, "scale": 1}
        return shape[:-1], (shape[-1] + 1,)


class Gumbel(_Derived, takes="loc:real scale:positive"):
    """The largest of many numbers.

    >>> pf.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    support = constraints.real
    mean = property(lambda self: self.loc + self.scale * EULER)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: math.pi / math.sqrt(6) * self.scale)
    variance = property(lambda self: self.stddev**2)

    @lazy_property
    def base_dist(self) -> Any:
        info = pf.finfo(self.loc.dtype)
        low, high = (pf.full_like(self.loc, v) for v in (info.tiny, 1 - info.eps))
        return Uniform(low, high, False)

    @lazy_property
    def transforms(self) -> Any:
        log = ExpTransform().inv
        return [log, AffineTransform(0, -pf.ones_like(self.scale)), log,
                AffineTransform(self.loc, -self.scale)]  # fmt: skip

    def _log_prob(self, value: Any) -> Tensor:
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def entropy(self) -> Tensor:
        return self.scale.log() + 1 + EULER


class Pareto(_Derived, takes="scale:positive alpha:positive"):
    """Numbers from `scale` on, larger ones the rarer by a power.

    >>> pf.distributions.Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    base_dist = lazy_property(lambda self: Exponential(self.alpha, False))
    transforms = lazy_property(lambda self: [ExpTransform(), AffineTransform(0, self.scale)])
    support = _dependent(
        lambda self: constraints.greater_than_eq(self.scale), is_discrete=False, event_dim=0
    )
    mode = property(lambda self: self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale**2 * a / ((a - 1) ** 2 * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + 1 / self.alpha


class Weibull(_Derived, takes="scale:positive concentration:positive"):
    """Powers of exponential numbers: how long things last.

    >>> pf.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    support = constraints.positive
    base_dist = lazy_property(lambda self: Exponential(pf.ones_like(self.scale), False))
    mean = property(lambda self: self.scale * self._moment(1))
    variance = property(lambda self: self.scale**2 * (self._moment(2) - self._moment(1) ** 2))

    @lazy_property
    def transforms(self) -> Any:
        return [PowerTransform(1 / self.concentration), AffineTransform(0, self.scale)]

    def _moment(self, n: int) -> Tensor:
        return (1 + n / self.concentration).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** (1 / k)

    def entropy(self) -> Tensor:
        k = self.concentration
        return EULER * (1 - 1 / k) + (self.scale / k).log() + 1


class Kumaraswamy(_Derived, takes="concentration1:positive concentration0:positive"):
    """Numbers from 0 to 1, much as Beta's, with a simple `cdf`.

    >>> pf.distributions.Kumaraswamy(1.0, 1.0).cdf(pf.tensor(0.5))
    tensor(0.5000)
    """

    support = constraints.unit_interval
    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - self._moment(1) ** 2)

    @lazy_property
    def base_dist(self) -> Any:
        b = self.concentration0
        return Uniform(pf.zeros_like(b), pf.ones_like(b), False)

    @lazy_property
    def transforms(self) -> Any:
        return [PowerTransform(1 / self.concentration0), AffineTransform(1.0, -1.0),
                PowerTransform(1 / self.concentration1)]  # fmt: skip

    def _moment(self, n: int) -> Tensor:
        more, b = 1 + n / self.concentration1, self.concentration0
        return b * (more.lgamma() + b.lgamma() - (more + b).lgamma()).exp()

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return pf.where((a < 1) | (b < 1), math.nan, ((a - 1) / (a * b - 1)) ** (1 / a))

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return 1 - 1 / b + (1 - 1 / a) * ((b + 1).digamma() + EULER) - a.log() - b.log()


class InverseGamma(_Derived, takes="concentration:positive rate:positive"):
    """Numbers whose reciprocals have the gamma distribution.

    >>> pf.distributions.InverseGamma(3.0, 4.0).mean
    tensor(2.)
    """

    support = constraints.positive
    base_dist = lazy_property(lambda self: Gamma(self.concentration, self.rate, False))
    transforms = lazy_property(lambda self: [PowerTransform(-self.rate.new_ones(()))])
    mode = property(lambda self: self.rate / (self.concentration + 1))

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return pf.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return pf.where(a > 2, self.rate**2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class _Half(_Derived):
    """Absolute values of what lies around 0."""

    support = constraints.nonnegative
    transforms = lazy_property(lambda self: [AbsTransform()])
    mode = property(lambda self: pf.zeros_like(self.scale))

    def _log_prob(self, value: Any) -> Tensor:
        found = self.base_dist._log_prob(value) + math.log(2)
        return pf.where(value >= 0, found, -math.inf)

    def _cdf(self, value: Any) -> Tensor:
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half, takes="scale:positive"):
    """Absolute values of normal numbers.

    >>> pf.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    base_dist = lazy_property(lambda self: Normal(0 * self.scale, self.scale, False))
    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = property(lambda self: self.scale**2 * (1 - 2 / math.pi))


class HalfCauchy(_Half, takes="scale:positive"):
    """Absolute values of what Cauchy draws around 0.

    >>> pf.distributions.HalfCauchy(1.0).cdf(pf.tensor(1.0))
    tensor(0.5000)
    """

    base_dist = lazy_property(lambda self: Cauchy(0 * self.scale, self.scale, False))
    mean = variance = property(lambda self: pf.full_like(self.scale, math.inf))


# --- discrete, and what comes near


class _Odds(Family):
    """What has `probs` or `logits`: of one thing, or along the last dim of one among several."""

    _binary = True
    logits = lazy_property(lambda self: probs_to_logits(self.probs, self._binary))
    probs = lazy_property(lambda self: logits_to_probs(self.logits, self._binary))
    _param = property(lambda self: self.probs if "probs" in self._dims else self.logits)
    param_shape = property(lambda self: self._param.shape, doc="The shape of the parameter.")

    def _bits(self) -> Tensor:
        """The entropy of a thing that happens or does not."""
        return F.softplus(self.logits) - self.probs * self.logits


class Bernoulli(_Odds, ExponentialFamily, takes="probs:unit_interval=None logits:real=None"):
    """0 or 1, which has probability `probs`.

    >>> pf.distributions.Bernoulli(0.25).log_prob(pf.tensor(1.0))
    tensor(-1.3863)
    """

    support = constraints.boolean
    has_enumerate_support = True
    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))
    entropy = _Odds._bits

    @property
    def mode(self) -> Tensor:
        p = self.probs
        return pf.where(p == 0.5, math.nan, (p > 0.5).to(p.dtype))

    def _draw(self, shape: Any) -> Tensor:
        return self.probs.expand(shape).bernoulli()

    def _log_prob(self, value: Any) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._values(pf.arange(2).to(self._param), expand)


class Geometric(_Odds, takes="probs:unit_interval=None logits:real=None"):
    """How often it fails before the first success, which has probability `probs`.

    >>> pf.distributions.Geometric(0.25).mean
    tensor(3.)
    """

    support = constraints.nonnegative_integer
    mean = property(lambda self: 1 / self.probs - 1)
    mode = property(lambda self: pf.zeros_like(self.probs))
    variance = property(lambda self: self.mean / self.probs)

    def _draw(self, shape: Any) -> Tensor:
        return (_uniform(self.probs, shape).log() / (-self.probs).log1p()).floor()

    def _log_prob(self, value: Any) -> Tensor:
        return pf.special.xlog1py(value, -self.probs) + self.probs.log()

    def entropy(self) -> Tensor:
        return self._bits() / self.probs


class Binomial(
    _Odds, takes="total_count:nonnegative_integer=1 probs:unit_interval=None logits:real=None"
):
    """How many of `total_count` trials succeed.

    >>> pf.distributions.Binomial(10, pf.tensor(0.5)).mean
    tensor(5.)
    """

    has_enumerate_support = True
    support = _dependent(
        lambda s: constraints.integer_interval(0, s.total_count), is_discrete=True, event_dim=0
    )
    mean = property(lambda self: self.total_count * self.probs)
    variance = property(lambda self: self.mean * (1 - self.probs))

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    def _draw(self, shape: Any) -> Tensor:
        return pf.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def _log_prob(self, value: Any) -> Tensor:
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * self.logits - n * F.softplus(self.logits)

    def entropy(self) -> Tensor:
        found = self._log_prob(self.enumerate_support(False))
        return -(found.exp() * found).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = int(self.total_count.max())
        if int(self.total_count.min()) != n:
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `enumerate_support`."
            )
        return self._values(pf.arange(1 + n).to(self._param), expand)


class NegativeBinomial(
    _Odds, takes="total_count:nonnegative probs:half_open_unit=None logits:real=None"
):
    """How many successes there are before `total_count` failures.

    >>> pf.distributions.NegativeBinomial(3.0, 0.5).mean
    tensor(3.)
    """

    support = constraints.nonnegative_integer
    mean = property(lambda self: self.total_count * self.logits.exp())
    mode = property(lambda s: ((s.total_count - 1) * s.logits.exp()).floor().clamp(min=0))
    variance = property(lambda self: self.mean / (-self.logits).sigmoid())

    def _draw(self, shape: Any) -> Tensor:
        n = self.total_count
        rate = _positive(_log_gamma(pf.where(n > 0, n, 1.0), shape) + self.logits)
        return pf.poisson(pf.where(n > 0, rate, 0.0))

    def _log_prob(self, value: Any) -> Tensor:
        n = self.total_count
        ways = (n + value).lgamma() - (1 + value).lgamma() - n.lgamma()
        ways = pf.where(n + value == 0, 0.0, ways)
        return ways + n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)


class Poisson(Family, ExponentialFamily, takes="rate:nonnegative"):
    """How many events there are, of a mean of `rate`.

    >>> pf.distributions.Poisson(3.0).variance
    tensor(3.)
    """

    support = constraints.nonnegative_integer
    mean = variance = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())

    def _draw(self, shape: Any) -> Tensor:
        return pf.poisson(self.rate.expand(shape))

    def _log_prob(self, value: Any) -> Tensor:
        return pf.xlogy(value, self.rate) - self.rate - (value + 1).lgamma()


class ContinuousBernoulli(
    _Odds, _Inverted, ExponentialFamily,
    takes="probs:unit_interval=None logits:real=None lims=(0.499,0.501)",
):  # fmt: skip
    """Numbers from 0 to 1 of the density that grows as `probs` to the power of x.

    >>> pf.distributions.ContinuousBernoulli(0.5).mean
    tensor(0.5000)
    """

    support = constraints.unit_interval
    probs = lazy_property(lambda self: clamp_probs(self.logits.sigmoid()))

    def _split(self, many: Any, few: Any) -> Tensor:
        """`many` of the logits η, or `few` of them, a series, where `probs` is within `lims`."""
        eta = probs_to_logits(self.probs, True)
        near = (self.probs > self.lims[0]) & (self.probs <= self.lims[1])
        return pf.where(near, few(eta), many(pf.where(near, 1.0, eta)))

    def _log_norm(self) -> Tensor:
        return self._split(
            lambda t: (t / (t / 2).tanh()).log(),
            lambda t: math.log(2) + t**2 / 12 - 7 * t**4 / 1440,
        )

    @property
    def mean(self) -> Tensor:
        return self._split(
            lambda t: -1 / (-t).expm1() - 1 / t, lambda t: 0.5 + t / 12 - t**3 / 720
        )

    @property
    def variance(self) -> Tensor:
        return self._split(
            lambda t: t**-2 - 0.25 * (t / 2).sinh() ** -2,
            lambda t: 1 / 12 - t**2 / 240 + t**4 / 6048,
        )

    def _log_prob(self, value: Any) -> Tensor:
        return value * self.logits - F.softplus(self.logits) + self._log_norm()

    def _cdf(self, value: Any) -> Tensor:
        found = self._split(lambda t: (t * value).expm1() / t.expm1(), lambda t: value)
        return found.clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return self._split(lambda t: (value * t.expm1()).log1p() / t, lambda t: value)

    def entropy(self) -> Tensor:
        return -self._log_prob(self.mean)


class _Several(_Odds):
    """One of several, by weights along the last dim, which are made to sum to 1."""

    _binary = False

    def _prepare(self, batch_shape: Any, event_shape: Any) -> tuple[Any, Any]:
        if "probs" in self._dims:
            self.probs = self.probs / self.probs.sum(-1, keepdim=True)
        else:
            self.logits = self.logits - self.logits.logsumexp(-1, keepdim=True)
        self._num_events = self.param_shape[-1]
        return batch_shape, event_shape

    def _indices(self, sample_shape: Any) -> Tensor:
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = rows.multinomial(math.prod(sample_shape), True).t()
        return drawn.reshape(*sample_shape, *self._batch_shape)

    def _surprise(self) -> Tensor:
        return -(self.logits.clamp(min=pf.finfo(self.logits.dtype).min) * self.probs).sum(-1)


class Categorical(_Several, takes="probs:simplex=None logits:real_vector=None"):
    """A class of the last dim's, by `probs`, which are scaled to sum to 1, or `logits`.

    >>> pf.distributions.Categorical(pf.tensor([1.0, 3.0])).log_prob(pf.tensor(1))
    tensor(-0.2877)
    """

    has_enumerate_support = True
    support = _dependent(
        lambda self: constraints.integer_interval(0, self._num_events - 1),
        is_discrete=True, event_dim=0,
    )  # fmt: skip
    mean = variance = property(lambda self: pf.full_like(self._param[..., 0], math.nan))
    mode = property(lambda self: self.probs.argmax(-1))
    entropy = _Several._surprise

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._indices(sample_shape)

    def _log_prob(self, value: Any) -> Tensor:
        shape = pf.broadcast_shapes(value.shape, self.batch_shape)
        logits = self.logits.expand(*shape, self._num_events)
        return logits.gather(-1, value.long().expand(shape).unsqueeze(-1)).squeeze(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._values(pf.arange(self._num_events, device=self._param.device), expand)


class OneHotCategorical(_Several, takes="probs:simplex=None logits:real_vector=None"):
    """A vector with one 1, the others 0.

    >>> pf.distributions.OneHotCategorical(pf.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    support = constraints.one_hot
    entropy = _Several._surprise
    has_enumerate_support = True
    mean = property(lambda self: self.probs)
    mode = property(lambda self: self._hot(self.probs.argmax(-1)))
    variance = property(lambda self: self.probs * (1 - self.probs))

    def _hot(self, index: Tensor) -> Tensor:
        return F.one_hot(index, self._num_events).to(self._param.dtype)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._hot(self._indices(sample_shape))

    def _log_prob(self, value: Any) -> Tensor:
        return pf.where(value == 1, self.logits, 0.0).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._values(pf.eye(self._num_events).to(self._param), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical, whose samples have the gradient of `probs`.

    >>> p = pf.tensor([1.0, 3.0], requires_grad=True)
    >>> pf.distributions.OneHotCategoricalStraightThrough(p).rsample().requires_grad
    True
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(_Several, takes="total_count=1 probs:simplex=None logits:real_vector=None"):
    """How often each class comes, of `total_count` draws.

    >>> pf.distributions.Multinomial(4, pf.tensor([1.0, 3.0])).mean
    tensor([1., 3.])
    """

    support = _dependent(
        lambda self: constraints.multinomial(self.total_count), is_discrete=True, event_dim=1
    )
    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.mean * (1 - self.probs))

    def _prepare(self, batch_shape: Any, event_shape: Any) -> tuple[Any, Any]:
        if not isinstance(self.total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported: give an int")
        return super()._prepare(batch_shape, event_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._indices((self.total_count, *sample_shape))
        return F.one_hot(drawn, self._num_events).sum(0).to(self._param.dtype)

    def _log_prob(self, value: Any) -> Tensor:
        powers = pf.where(value == 0, 0.0, self.logits * value)
        return (value.sum(-1) + 1).lgamma() + (powers - (value + 1).lgamma()).sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        counts = Binomial(n, self.probs, validate_args=False)
        values = counts.enumerate_support(False)
        means = (counts._log_prob(values).exp() * (values + 1).lgamma()).sum((0, -1))
        return n * self._surprise() - math.lgamma(n + 1) + means


def _as(value: Any, like: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value
    return pf.tensor(value, dtype=like.dtype, device=like.device)


class LogitRelaxedBernoulli(
    _Odds, takes="temperature probs:unit_interval=None logits:real=None"
):
    """The logits of what RelaxedBernoulli draws.

    >>> pf.distributions.relaxed_bernoulli.LogitRelaxedBernoulli(1.0, 0.5).has_rsample
    True
    """

    support = constraints.real
    has_rsample = True

    def _prepare(self, batch_shape: Any, event_shape: Any) -> tuple[Any, Any]:
        self.temperature = _as(self.temperature, self._param)
        return batch_shape, event_shape

    def _draw(self, shape: Any) -> Tensor:
        noise = probs_to_logits(_uniform(self._param, shape), True)
        return (noise + probs_to_logits(self.probs, True)) / self.temperature

    def _log_prob(self, value: Any) -> Tensor:
        z = self.logits - value * self.temperature
        return self.temperature.log() + z - 2 * F.softplus(z)


class RelaxedBernoulli(_Derived, _Odds, takes="temperature probs:unit_interval=None logits:real=None"):
    """Numbers between 0 and 1, the nearer to either the lower `temperature` is.

    >>> pf.distributions.RelaxedBernoulli(pf.tensor(1.0), 0.5).log_prob(pf.tensor(0.5))
    tensor(0.)
    """

    support = constraints.unit_interval
    transforms = lazy_property(lambda self: [SigmoidTransform()])

    @lazy_property
    def base_dist(self) -> Any:
        return LogitRelaxedBernoulli(self.temperature, logits=self.logits, validate_args=False)


class ExpRelaxedCategorical(
    _Several, takes="temperature probs:simplex=None logits:real_vector=None"
):
    """The logarithms of what RelaxedOneHotCategorical draws.

    >>> D = pf.distributions.relaxed_categorical
    >>> D.ExpRelaxedCategorical(1.0, pf.ones(3)).sample().shape
    pyframe.Size([3])
    """

    support = constraints.real_vector
    has_rsample = True

    def _prepare(self, batch_shape: Any, event_shape: Any) -> tuple[Any, Any]:
        self.temperature = _as(self.temperature, self._param)
        return super()._prepare(batch_shape, event_shape)

    def _draw(self, shape: Any) -> Tensor:
        noise = -(-_uniform(self._param, shape).log()).log()
        return ((self.logits + noise) / self.temperature).log_softmax(-1)

    def _log_prob(self, value: Any) -> Tensor:
        n = self._num_events
        scores = (self.logits - value * self.temperature).log_softmax(-1)
        return scores.sum(-1) + math.lgamma(n) + (n - 1) * self.temperature.log()


class RelaxedOneHotCategorical(
    _Derived, _Several, takes="temperature probs:simplex=None logits:real_vector=None"
):
    """Numbers that sum to 1, the nearer to one 1 the lower `temperature` is.

    >>> D = pf.distributions
    >>> D.RelaxedOneHotCategorical(pf.tensor(1.0), pf.ones(3)).sample().shape
    pyframe.Size([3])
    """

    support = constraints.simplex

    @lazy_property
    def base_dist(self) -> Any:
        return ExpRelaxedCategorical(self.temperature, logits=self.logits, validate_args=False)


# --- of vectors and matrices


class _Rooted(Family):
    """What has a covariance, which is given in one of three ways."""

    @lazy_property
    def scale_tril(self) -> Tensor:
        if "covariance_matrix" in self._dims:
            return pf.linalg.cholesky(self.covariance_matrix)
        lower = pf.linalg.cholesky(self.precision_matrix.flip((-2, -1)))
        return _inverse(lower.flip((-2, -1)).mT)

    covariance_matrix = lazy_property(lambda self: self.scale_tril @ self.scale_tril.mT)
    precision_matrix = lazy_property(lambda self: pf.cholesky_inverse(self.scale_tril))

    def _half_log_det(self) -> Tensor:
        return self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _inverse(lower: Tensor) -> Tensor:
    one = pf.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    return pf.linalg.solve_triangular(lower, one, upper=False)


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


class _Gaussian(Family):
    support = constraints.real_vector
    has_rsample = True
    mean = mode = property(lambda self: self.loc)

    def _log_prob(self, value: Any) -> Tensor:
        away = self._squares(value - self.loc)
        return -0.5 * away - self._event_shape[0] * HALF_LOG_2PI - self._half_log_det()

    def entropy(self) -> Tensor:
        return self._event_shape[0] * (0.5 + HALF_LOG_2PI) + self._half_log_det()


class MultivariateNormal(
    _Gaussian, _Rooted,
    takes="loc:real_vector covariance_matrix:positive_definite=None "
    "precision_matrix:positive_definite=None scale_tril:lower_cholesky=None",
):  # fmt: skip
    """Normal vectors of mean `loc`, with a covariance.

    >>> pf.distributions.MultivariateNormal(pf.zeros(2), pf.eye(2)).log_prob(pf.zeros(2))
    tensor(-1.8379)
    """

    variance = property(lambda self: self.scale_tril.square().sum(-1))
    _root = property(lambda self: self.scale_tril)

    def _draw(self, shape: Any) -> Tensor:
        return self.loc + _times(self.scale_tril, _normal(self.loc, shape))

    def _squares(self, x: Tensor) -> Tensor:
        return _times(_inverse(self.scale_tril), x).square().sum(-1)


class LowRankMultivariateNormal(
    _Gaussian, _Rooted, takes="loc:real_vector cov_factor:real_matrix cov_diag:positive_vector"
):
    """Normal vectors of a covariance W Wᵀ + D with few columns W, which no n × n matrix is made of.

    >>> D = pf.distributions
    >>> D.LowRankMultivariateNormal(pf.zeros(3), pf.ones(3, 1), pf.ones(3)).variance
    tensor([2., 2., 2.])
    """

    variance = property(lambda self: self.cov_factor.square().sum(-1) + self.cov_diag)
    scale_tril = lazy_property(lambda self: pf.linalg.cholesky(self.covariance_matrix))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def _root(self) -> Tensor:
        return pf.cat([self.cov_factor, self.cov_diag.sqrt().diag_embed()], -1)

    def _inner(self) -> tuple[Tensor, Tensor]:
        """Wᵀ D⁻¹, and the Cholesky factor of I + Wᵀ D⁻¹ W."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        small = scaled @ self.cov_factor
        one = pf.eye(small.shape[-1], dtype=small.dtype, device=small.device)
        return scaled, pf.linalg.cholesky(small + one)

    def _half_log_det(self) -> Tensor:
        inner = self._inner()[1].diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return inner + 0.5 * self.cov_diag.log().sum(-1)

    def _draw(self, shape: Any) -> Tensor:
        few = _normal(self.loc, (*shape[:-1], self.cov_factor.shape[-1]))
        more = self.cov_diag.sqrt() * _normal(self.loc, shape)
        return self.loc + _times(self.cov_factor, few) + more

    def _squares(self, x: Tensor) -> Tensor:
        scaled, lower = self._inner()
        inner = _times(_inverse(lower) @ scaled, x)
        return (x.square() / self.cov_diag).sum(-1) - inner.square().sum(-1)


class Wishart(
    _Rooted, ExponentialFamily,
    takes="df:positive covariance_matrix:positive_definite=None "
    "precision_matrix:positive_definite=None scale_tril:lower_cholesky=None",
):  # fmt: skip
    """Sums of x xᵀ of `df` normal vectors x; `df` is above n - 1, and need not be an integer.

    >>> pf.distributions.Wishart(pf.tensor(3.0), pf.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _wide = property(lambda self: self.df[..., None, None])
    mean = property(lambda self: self._wide * self.covariance_matrix)

    def _prepare(self, batch_shape: Any, event_shape: Any) -> tuple[Any, Any]:
        if (self.df <= event_shape[-1] - 1).any():
            raise ValueError(
                f"Value of df={self.df} expected to be greater than ndim - 1 = "
                f"{event_shape[-1] - 1}."
            )
        return batch_shape, event_shape

    @property
    def mode(self) -> Tensor:
        left = self._wide - self._event_shape[-1] - 1
        return pf.where(left > 0, left, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        d = v.diagonal(dim1=-2, dim2=-1)
        return self._wide * (v.square() + d.unsqueeze(-1) * d.unsqueeze(-2))

    def _halves(self) -> Tensor:
        n = self._event_shape[-1]
        steps = pf.arange(n, dtype=self.df.dtype, device=self.df.device)
        return (self.df.unsqueeze(-1) - steps) / 2

    def _draw(self, shape: Any) -> Tensor:
        """By Bartlett's decomposition."""
        chi = (0.5 * (_log_gamma(self._halves(), shape[:-1]) + math.log(2))).exp()
        lower = self.scale_tril @ (_normal(self.df, shape).tril(-1) + chi.diag_embed())
        return lower @ lower.mT

    def _log_norm(self) -> Tensor:
        n = self._event_shape[-1]
        half = self._half_log_det() + n * math.log(2) / 2
        return self.df * half + pf.mvlgamma(self.df / 2, n)

    def _log_prob(self, value: Any) -> Tensor:
        powers = (self.df - self._event_shape[-1] - 1) / 2 * pf.linalg.slogdet(value)[1]
        return powers - (self.precision_matrix * value).sum((-2, -1)) / 2 - self._log_norm()

    def _mean_log_det(self) -> Tensor:
        n = self._event_shape[-1]
        return self._halves().digamma().sum(-1) + n * math.log(2) + 2 * self._half_log_det()

    def entropy(self) -> Tensor:
        n = self._event_shape[-1]
        return self._log_norm() - (self.df - n - 1) / 2 * self._mean_log_det() + self.df * n / 2


class LKJCholesky(Family, takes="dim concentration:positive=1.0"):
    """Cholesky factors of correlation matrices of density |C| to the power of concentration - 1.

    Args:
        dim: The number of rows, at least 2.

    >>> pf.distributions.LKJCholesky(3).sample().shape
    pyframe.Size([3, 3])
    """

    support = constraints.corr_cholesky

    def _prepare(self, batch_shape: Any, event_shape: Any) -> tuple[Any, Any]:
        if self.dim < 2:
            raise ValueError(
                "Expected dim to be an integer greater than or equal to 2. "
                f"Found dim={self.dim}."
            )
        return batch_shape, (self.dim, self.dim)

    def _draw(self, shape: Any) -> Tensor:
        """Row by row a direction, and how far it is from the diagonal."""
        c = self.concentration.unsqueeze(-1)
        row = pf.arange(1, self.dim).to(c) / 2
        far = Beta(row, c + (self.dim - 1) / 2 - row, False).sample(shape[: len(shape) - 1 - c.ndim])
        way = _normal(c, shape)[..., 1:, :].tril()
        way = way / way.norm(dim=-1, keepdim=True) * far.sqrt().unsqueeze(-1)
        w = F.pad(way, (0, 0, 1, 0))
        left = (1 - w.square().sum(-1)).clamp(min=pf.finfo(w.dtype).tiny)
        return w + left.sqrt().diag_embed()

    def _log_prob(self, value: Any) -> Tensor:
        n = self.dim - 1
        c = self.concentration
        order = pf.arange(n - 1, -1, -1).to(c) + 2 * (c - 1).unsqueeze(-1)
        powers = (order * value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1)
        top = c + n / 2
        norm = pf.mvlgamma(top - 0.5, n) - n * top.lgamma() + n * math.log(math.pi) / 2
        return powers - norm
