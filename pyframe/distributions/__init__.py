"""Distributions with PyTorch's names: samples, densities, entropies and divergences.

Those that policies and variational models take; `log_prob` and `rsample` have gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyframe as pf
from pyframe.nn import functional as F
from pyframe.tensor import Size, Tensor

__all__ = [
    "Bernoulli", "Categorical", "Distribution", "Independent", "Normal", "Uniform",
    "kl_divergence",
]  # fmt: skip


class Distribution:
    """What all have: samples of shape sample_shape + batch_shape + event_shape.

    Parameters are checked unless `validate_args` is False: ValueError for one that is out of range.

    Args:
        batch_shape, event_shape: How many distributions there are, and the shape of one sample.

    >>> pf.distributions.Normal(pf.zeros(3), 1.0).sample((2,)).shape
    pyframe.Size([2, 3])
    """

    has_rsample = False

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self.batch_shape, self.event_shape = Size(batch_shape), Size(event_shape)
        self.validate_args = validate_args is not False

    def _check(self, name: str, good: Tensor, expected: str) -> None:
        if self.validate_args and not good.all().item():
            raise ValueError(f"{type(self).__name__}: expected {name} to be {expected}")

    def _extended(self, sample_shape: Any) -> tuple[int, ...]:
        return (*sample_shape, *self.batch_shape, *self.event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples with a gradient for the parameters.

        Args:
            sample_shape: How many of each.

        >>> loc = pf.tensor(1.0, requires_grad=True)
        >>> pf.distributions.Normal(loc, 1.0).rsample().requires_grad
        True
        """
        raise NotImplementedError(f"{type(self).__name__}.rsample: samples have no gradient")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Samples without a gradient.

        Args:
            sample_shape: How many of each.

        >>> pf.distributions.Normal(0.0, 1.0).sample((3,)).shape
        pyframe.Size([3])
        """
        with pf.no_grad():
            return self.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, of each sample.

        Args:
            value: Samples.

        >>> pf.distributions.Bernoulli(0.5).log_prob(pf.tensor(1.0))
        tensor(-0.6931)
        """
        raise NotImplementedError(f"{type(self).__name__}.log_prob")

    def entropy(self) -> Tensor:
        """Of each distribution of the batch, in nats.

        >>> pf.distributions.Normal(0.0, 1.0).entropy()
        tensor(1.4189)
        """
        raise NotImplementedError(f"{type(self).__name__}.entropy")

    @property
    def mean(self) -> Tensor:
        """The mean of each distribution."""
        raise NotImplementedError(f"{type(self).__name__}.mean")

    @property
    def variance(self) -> Tensor:
        """The variance of each distribution."""
        raise NotImplementedError(f"{type(self).__name__}.variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation of each distribution: √variance."""
        return self.variance.sqrt()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_shape={tuple(self.batch_shape)})"


def _tensors(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    like = next((v for v in (a, b) if isinstance(v, Tensor)), pf.zeros(()))
    a, b = (
        v if isinstance(v, Tensor) else pf.full((), v, dtype=like.dtype, device=like.device)
        for v in (a, b)
    )
    a, b = pf.broadcast_tensors(a, b)
    return a, b


class Normal(Distribution):
    """The normal distribution of mean `loc` and standard deviation `scale`.

    Args:
        loc: A number or a tensor.
        scale: One above 0.
        validate_args: Whether to check them.

    >>> pf.distributions.Normal(0.0, 1.0).log_prob(pf.tensor(0.0))
    tensor(-0.9189)
    """

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = _tensors(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)
        self._check("scale", self.scale > 0, "greater than 0")
        self._check("loc", self.loc == self.loc, "a number")

    mean = property(lambda self: self.loc, doc="`loc`, which is the mode too.")
    mode = mean
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale**2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended(sample_shape)
        noise = pf.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        z = (value - self.loc) / self.scale
        return -0.5 * z * z - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`.

        >>> pf.distributions.Normal(0.0, 1.0).cdf(pf.tensor(0.0))
        tensor(0.5000)
        """
        return 0.5 * (1 + pf.erf((value - self.loc) / (self.scale * math.sqrt(2))))

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """The uniform distribution on [low, high).

    Args:
        low, high: Numbers or tensors.
        validate_args: Whether to check them.

    >>> pf.distributions.Uniform(0.0, 4.0).entropy()
    tensor(1.3863)
    """

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = _tensors(low, high)
        super().__init__(self.low.shape, (), validate_args)
        self._check("high", self.low < self.high, "greater than low")

    mean = property(lambda self: (self.low + self.high) / 2)
    variance = property(lambda self: (self.high - self.low) ** 2 / 12)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended(sample_shape)
        u = pf.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        within = (value >= self.low) & (value < self.high)
        return within.to(self.low.dtype).log() - (self.high - self.low).log()

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class Bernoulli(Distribution):
    """0 or 1, which has probability `probs`, or the log odds `logits`: one of them.

    Args:
        validate_args: Whether to check them.

    >>> pf.distributions.Bernoulli(0.25).log_prob(pf.tensor(1.0))
    tensor(-1.3863)
    """

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given = _one_of(self, probs, logits)
        given = given if isinstance(given, Tensor) else pf.tensor(float(given))
        super().__init__(given.shape, (), validate_args)
        if probs is not None:
            self._check("probs", (given >= 0) & (given <= 1), "from 0 to 1")
            eps = pf.finfo(given.dtype).eps
            kept = given.clamp(eps, 1 - eps)
            self.probs, self.logits = given, kept.log() - pf.log1p(-kept)
        else:
            self._check("logits", given == given, "numbers")
            self.probs, self.logits = given.sigmoid(), given

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.probs.detach().expand(self._extended(sample_shape)).bernoulli()

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = pf.broadcast_tensors(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")


class Categorical(Distribution):
    """A class of the last dim's, by `probs`, which are scaled to sum to 1, or `logits`.

    Args:
        validate_args: Whether to check them.

    >>> pf.distributions.Categorical(pf.tensor([1.0, 3.0])).log_prob(pf.tensor(1))
    tensor(-0.2877)
    """

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        given = _one_of(self, probs, logits)
        if given.ndim < 1:
            raise ValueError("Categorical: expected parameters of at least one dim, got a scalar")
        super().__init__(given.shape[:-1], (), validate_args)
        if probs is not None:
            self._check("probs", given >= 0, "at least 0")
            self.probs = given / given.sum(-1, keepdim=True)
            eps = pf.finfo(given.dtype).eps
            self.logits = self.probs.clamp(eps, 1 - eps).log()
        else:
            self._check("logits", given == given, "numbers")
            self.logits = given - given.logsumexp(-1, keepdim=True)
            self.probs = self.logits.softmax(-1)

    @property
    def mode(self) -> Tensor:
        """The most probable class."""
        return self.probs.argmax(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        count = math.prod(sample_shape)
        rows = self.probs.detach().reshape(-1, self.probs.shape[-1])
        drawn = rows.multinomial(count, True).t()
        return drawn.reshape(self._extended(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        shape = pf.broadcast_shapes(value.shape, self.batch_shape)
        logits = self.logits.expand(*shape, self.logits.shape[-1])
        return logits.gather(-1, value.long().expand(shape).unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        return -(self.logits.clamp(min=pf.finfo(self.logits.dtype).min) * self.probs).sum(-1)


def _one_of(self: Distribution, probs: Any, logits: Any) -> Any:
    if (probs is None) == (logits is None):
        raise ValueError(
            f"{type(self).__name__}: Either `probs` or `logits` must be specified, but not both."
        )
    return logits if probs is None else probs


class Independent(Distribution):
    """Another distribution, the last dims of whose batch are one event.

    Args:
        base_distribution: That other one.
        reinterpreted_batch_ndims: How many dims.
        validate_args: Allowed, and not needed.

    >>> normals = pf.distributions.Normal(pf.zeros(3), pf.ones(3))
    >>> pf.distributions.Independent(normals, 1).log_prob(pf.zeros(3))
    tensor(-2.7568)
    """

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
        super().__init__(base.batch_shape[:cut], base.batch_shape[cut:] + base.event_shape, False)
        self.base_dist, self.reinterpreted_batch_ndims = base, n
        self.has_rsample = base.has_rsample

    mean = property(lambda self: self.base_dist.mean)
    variance = property(lambda self: self.base_dist.variance)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def _summed(self, x: Tensor) -> Tensor:
        dims = tuple(range(-self.reinterpreted_batch_ndims, 0))
        return x.sum(dims) if dims else x

    def log_prob(self, value: Tensor) -> Tensor:
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self) -> Tensor:
        return self._summed(self.base_dist.entropy())


def _normals(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


def _bernoullis(p: Bernoulli, q: Bernoulli) -> Tensor:
    return F.binary_cross_entropy_with_logits(q.logits, p.probs, reduction="none") - p.entropy()


def _categoricals(p: Categorical, q: Categorical) -> Tensor:
    terms = pf.where(p.probs == 0, 0.0, p.probs * (p.logits - q.logits))
    return terms.sum(-1)


_DIVERGENCES: dict[type, Callable[[Any, Any], Tensor]] = {
    Normal: _normals, Bernoulli: _bernoullis, Categorical: _categoricals,
    Independent: lambda p, q: p._summed(kl_divergence(p.base_dist, q.base_dist)),
}  # fmt: skip


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p ‖ q). NotImplementedError unless both are of one type that has a formula.

    Args:
        p, q: the distributions, of one type.

    >>> p, q = pf.distributions.Normal(0.0, 1.0), pf.distributions.Normal(1.0, 1.0)
    >>> pf.distributions.kl_divergence(p, q)
    tensor(0.5000)
    """
    rule = _DIVERGENCES.get(type(p))
    if rule is None or type(q) is not type(p):
        raise NotImplementedError(
            f"kl_divergence: there is none of {type(p).__name__} and {type(q).__name__}; average "
            "p.log_prob(x) - q.log_prob(x) over samples of p"
        )
    return rule(p, q)
