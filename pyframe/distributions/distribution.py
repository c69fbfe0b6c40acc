"""What all distributions have, and what they are written with."""

from __future__ import annotations

import ast
import math
import warnings
from inspect import Parameter, Signature
from numbers import Number
from typing import TYPE_CHECKING, Any

import pyframe as pf
from pyframe.distributions import constraints
from pyframe.nn import functional as F
from pyframe.tensor import Size, Tensor

_ARGUMENTS = {  # what an argument is in each class that takes it and tells nothing else of it
    "alpha": "The exponent of the tail, above 0.",
    "base_distribution": "The distribution that samples come from.",
    "cache_size": "1 keeps the last pair of values, so that inverting a result gives what it was "
    "made from; 0 keeps none.",
    "component_distribution": "The components, the last dim of whose batch counts them.",
    "concentration": "The shape parameter, above 0.",
    "concentration0": "The exponent of 1 - x, plus one; above 0.",
    "concentration1": "The exponent of x, plus one; above 0.",
    "cov_diag": "What is added to the variances, (…, n), above 0.",
    "cov_factor": "A matrix W, (…, n, r), of which W Wᵀ is part of the covariance.",
    "covariance_matrix": "The covariance, (…, n, n); or one of the two that follow.",
    "df": "The degrees of freedom, above 0.",
    "df1": "The degrees of freedom above the fraction line, above 0.",
    "df2": "Those below it.",
    "dim": "Along which dim they lie.",
    "high": "Where it ends.",
    "lims": "Between these probabilities a Taylor series is taken, for precision.",
    "loc": "Where it lies: a number or a tensor.",
    "logits": "The logarithms of odds, or of weights along the last dim; or else `probs`.",
    "low": "Where it begins, below `high`.",
    "mixture_distribution": "A Categorical that draws which component it is.",
    "precision_matrix": "The inverse of the covariance.",
    "probs": "Probabilities, or weights along the last dim; or else `logits`.",
    "rate": "What values are divided by, above 0; of counts their mean.",
    "reinterpreted_batch_ndims": "How many dims.",
    "scale": "How wide it is, above 0: a number or a tensor.",
    "scale_tril": "The lower Cholesky factor of the covariance.",
    "temperature": "How far samples are from being discrete, above 0.",
    "total_count": "How many trials there are.",
    "tseq": "The transforms.",
    "validate_args": "Whether to check parameters and values; None as is set for all.",
}


def tell(cls: type, names: Any) -> None:
    """Put what arguments are into the text of a class, before its example."""
    said, _, example = (cls.__doc__ or "").partition("\n\n    >>> ")
    new = "".join(f"        {n}: {_ARGUMENTS[n]}\n" for n in names if f" {n}: " not in said)
    if example and new:
        list_ = "\n" if "    Args:\n" in said else "\n\n    Args:\n"
        cls.__doc__ = f"{said.rstrip()}{list_}{new}\n    >>> {example}"


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers are of the first tensor's dtype."""
    if not all(isinstance(v, Tensor | Number) for v in values):
        raise ValueError("Input arguments must all be instances of Number or Tensor")
    like = next((v for v in values if isinstance(v, Tensor)), pf.zeros(()))
    made = (
        v if isinstance(v, Tensor) else pf.tensor(v, dtype=like.dtype, device=like.device)
        for v in values
    )  # fmt: skip
    return (*pf.broadcast_tensors(*made),)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by the dtype's precision."""
    eps = pf.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logarithms of probabilities, or of their odds."""
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The probabilities of log odds, or of logarithms of weights along the last dim."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


class lazy_property:  # noqa: N801
    """A property that is computed when it is first read."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__
        self.__name__ = wrapped.__name__

    def __set_name__(self, owner: type, name: str) -> None:
        self.__name__ = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with pf.enable_grad():
            value = instance.__dict__[self.__name__] = self.wrapped(instance)
        return value


def _lower(n: int, diag: int, like: Tensor) -> Tensor:
    return pf.ones(n, n, dtype=pf.bool, device=like.device).tril(diag).reshape(-1)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of matrices, up to a diagonal, as vectors, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat.flatten(-2)[..., _lower(n, diag, mat)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Matrices whose lower triangle, up to a diagonal, has the numbers of vectors, row by row."""
    size = vec.shape[-1]
    b = 1 + 2 * diag
    n = round((math.sqrt(b * b + 8 * size + 4 * abs(diag) * (diag + 1)) - b) / 2)
    if n * (n + b) != 2 * size + abs(diag) * (diag + 1):
        raise ValueError(
            f"The size of last dimension is {size} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    places = _lower(n, diag, vec)
    order = (places.long().cumsum(0) - 1).clamp(min=0)
    filled = pf.where(places, F.pad(vec, (0, 1))[..., order], 0.0)
    return filled.unflatten(-1, (n, n))


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """The sum over the last dims."""
    return value.sum([*range(-dims, 0)]) if dims else value


class Distribution:
    """What all have: samples of shape sample_shape + batch_shape + event_shape.

    A class of one's own sets `arg_constraints` and `support`, and writes `rsample` (or `sample`)
    and `log_prob`.

    Args:
        batch_shape, event_shape: How many distributions there are, and the shape of one sample.

    >>> pf.distributions.Normal(pf.zeros(3), 1.0).sample((2,)).shape
    pyframe.Size([2, 3])
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    arg_constraints: Any = property(lambda self: self._missing("arg_constraints"))
    _validate_args: bool = __debug__
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Check parameters and values from now on, or do not.

        Args:
            value: Whether to.
        """
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name, constraint in self._arg_constraints().items():
                lazy = isinstance(getattr(type(self), name, None), lazy_property)
                if constraints.is_dependent(constraint) or (lazy and name not in vars(self)):
                    continue
                value = getattr(self, name)
                if not constraint.check(value).all():
                    raise ValueError(
                        f"Expected parameter {name} ({type(value).__name__} of shape "
                        f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                        f"{constraint!r}, but found invalid values:\n{value}"
                    )

    def _missing(self, name: str) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no {name}")

    def _arg_constraints(self) -> dict[str, Any]:
        try:
            return self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`: set it to {{}}, or make the "
                "distribution with validate_args=False",
                stacklevel=4,
            )
            return {}

    def __init_subclass__(cls, takes: str = "", **kwargs: Any) -> None:
        """`takes` has the arguments of a class whose parameters broadcast against each other."""
        super().__init_subclass__(**kwargs)
        if takes:
            _take(cls, takes)
            tell(cls, [*cls.__init__.__signature__.parameters][1:])  # type: ignore[attr-defined]
        elif "__init__" in vars(cls) and cls.__module__.startswith("pyframe."):
            tell(cls, ["validate_args"])

    batch_shape = property(lambda self: self._batch_shape, doc="How many distributions there are.")
    event_shape = property(lambda self: self._event_shape, doc="The shape of one sample.")

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions for a larger batch.

        Args:
            batch_shape: The shape of the batch.
            _instance: An object to fill.

        >>> pf.distributions.Normal(0.0, 1.0).expand((2, 3)).sample().shape
        pyframe.Size([2, 3])
        """
        raise NotImplementedError(f"{type(self).__name__}.expand")

    @property
    def support(self) -> Any:
        """What samples are."""
        raise NotImplementedError(f"{type(self).__name__}.support")

    @property
    def mean(self) -> Tensor:
        """The mean of each distribution."""
        raise NotImplementedError(f"{type(self).__name__}.mean")

    @property
    def mode(self) -> Tensor:
        """The most probable value of each distribution."""
        raise NotImplementedError(f"{type(self).__name__}.mode")

    @property
    def variance(self) -> Tensor:
        """The variance of each distribution."""
        raise NotImplementedError(f"{type(self).__name__}.variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation of each distribution: √variance."""
        return self.variance.sqrt()

    def _draw(self, shape: Any) -> Tensor:
        """Samples of a whole shape, with a gradient where `has_rsample`."""
        raise NotImplementedError(f"{type(self).__name__}.rsample")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples with a gradient for the parameters.

        Args:
            sample_shape: How many of each.

        >>> loc = pf.tensor(1.0, requires_grad=True)
        >>> pf.distributions.Normal(loc, 1.0).rsample().requires_grad
        True
        """
        if not self.has_rsample:
            raise NotImplementedError(
                f"{type(self).__name__}.rsample: samples have no gradient; sample() draws some"
            )
        return self._draw(self._extended_shape(sample_shape))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Samples without a gradient.

        Args:
            sample_shape: How many of each.

        >>> pf.distributions.Normal(0.0, 1.0).sample((3,)).shape
        pyframe.Size([3])
        """
        with pf.no_grad():
            drawn = type(self)._draw is not Distribution._draw
            if drawn and type(self).rsample is Distribution.rsample:
                return self._draw(self._extended_shape(sample_shape))
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Tensor:
        """`n` samples; an older name of `sample((n,))`."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, of each sample.

        Args:
            value: Samples.

        >>> pf.distributions.Bernoulli(0.5).log_prob(pf.tensor(1.0))
        tensor(-0.6931)
        """
        if self._validate_args:
            self._validate_sample(value)
        return self._log_prob(value)

    def _log_prob(self, value: Any) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}.log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`.

        >>> pf.distributions.Normal(0.0, 1.0).cdf(pf.tensor(0.0))
        tensor(0.5000)
        """
        if self._validate_args:
            self._validate_sample(value)
        return self._cdf(value)

    def _cdf(self, value: Any) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}.cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """What samples are at most with the probability `value`.

        >>> pf.distributions.Uniform(0.0, 4.0).icdf(pf.tensor(0.5))
        tensor(2.)
        """
        raise NotImplementedError(f"{type(self).__name__}.icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values that samples have, along dim 0.

        Args:
            expand: Whether for each distribution of the batch, or for all.

        >>> pf.distributions.Bernoulli(0.5).enumerate_support()
        tensor([0., 1.])
        """
        raise NotImplementedError(f"{type(self).__name__}.enumerate_support")

    def _values(self, values: Tensor, expand: bool) -> Tensor:
        values = values.reshape(
            -1, *(1 for _ in self._batch_shape), *values.shape[1:]
        )
        return values.expand(-1, *self._batch_shape, *self._event_shape) if expand else values

    def entropy(self) -> Tensor:
        """Of each distribution of the batch, in nats.

        >>> pf.distributions.Normal(0.0, 1.0).entropy()
        tensor(1.4189)
        """
        raise NotImplementedError(f"{type(self).__name__}.entropy")

    def perplexity(self) -> Tensor:
        """The exponential of the entropy: of how many equal values it could be.

        >>> pf.distributions.Categorical(pf.ones(4)).perplexity()
        tensor(4.)
        """
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, n = value.shape, len(self._event_shape)
        if shape[len(shape) - n :] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{shape} vs {self._event_shape}."
            )
        whole = self._batch_shape + self._event_shape
        if any(
            1 not in (i, j) and i != j for i, j in zip(shape[::-1], whole[::-1], strict=False)
        ):
            raise ValueError(
                f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {whole}."
            )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support`: make it with validate_args=False to "
                "check no values",
                stacklevel=3,
            )
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be "
                f"within the support ({support!r}) of the distribution {self!r}, but found invalid "
                f"values:\n{value}"
            )

    def __repr__(self) -> str:
        found = {n: vars(self)[n] for n in self.arg_constraints if n in vars(self)}
        return f"{type(self).__name__}({', '.join(_shown(n, v) for n, v in found.items())})"


def _shown(name: str, value: Tensor) -> str:
    return f"{name}: {value if value.numel() == 1 else value.shape}"


class ExponentialFamily(Distribution):
    """Distributions of the density exp(θ·t(x) - F(θ) + k(x)).

    A class of one's own gives θ as `_natural_params`, F as `_log_normalizer(*θ)` and the mean of
    k(x) as `_mean_carrier_measure`: the entropy and the divergence between two follow from them.

    Args:
        batch_shape, event_shape: As Distribution's.

    >>> isinstance(pf.distributions.Gamma(2.0, 1.0), pf.distributions.ExponentialFamily)
    True
    """

    def _bregman(self) -> tuple[list[Tensor], Tensor, Any]:
        """θ, F(θ) and its gradient, which is the mean of t(x)."""
        with pf.enable_grad():
            given = self._natural_params
            theta = [x if x.requires_grad else x.detach().requires_grad_() for x in given]
            value = self._log_normalizer(*theta)
            return theta, value, pf.autograd.grad(value.sum(), theta, create_graph=True)

    def entropy(self) -> Tensor:
        theta, value, means = self._bregman()
        lost = (per_distribution(x * m, value) for x, m in zip(theta, means, strict=True))
        return value - self._mean_carrier_measure - sum(lost)


def per_distribution(term: Tensor, value: Tensor) -> Tensor:
    """The sum over the dims that `value`, one of each distribution, does not have."""
    return term.reshape(*term.shape[: value.ndim], -1).sum(-1)


def _take(cls: Any, takes: str) -> None:
    """Give a class an `__init__` of these arguments: of those with a default of None one is given.

    Behind a colon is the constraint of what is a parameter: a tensor, of which the last `event_dim`
    dims are one value, and the others are the batch's.
    """
    parameters = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    kinds = {}
    for word in f"{takes} validate_args=None".split():
        told, _, default = word.partition("=")
        name, _, kind = told.partition(":")
        value = ast.literal_eval(default) if default else Parameter.empty
        parameters.append(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=value))
        if kind:
            kinds[name] = getattr(constraints, kind)
    signature = Signature(parameters)
    either = [p.name for p in parameters if p.default is None][:-1]
    if "arg_constraints" not in vars(cls):
        cls.arg_constraints = kinds
    event = cls.support.event_dim

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        _, *options, last = bound.arguments.items()
        given = {n: v for n, v in options if v is not None}
        if either and len([n for n in either if n in given]) != 1:
            names = " or ".join(f"`{n}`" for n in either)
            raise ValueError(f"Either {names} must be specified, but not both.")
        dims = {n: kind.event_dim for n, kind in kinds.items() if n in given}
        tensors = [given[n] for n in dims if isinstance(given[n], Tensor)]
        like = next((t for t in tensors if t.is_floating_point()), None)
        dtype = pf.get_default_dtype() if like is None else like.dtype
        for n, dim in dims.items():
            value = given[n]
            if not isinstance(value, Tensor | Number):
                raise ValueError(f"expected {n} to be a number or a Tensor, got {value!r}")
            if not isinstance(value, Tensor):
                device = tensors[0].device if tensors else None
                given[n] = pf.tensor(value, dtype=dtype, device=device)
            elif not value.is_floating_point():
                given[n] = value.to(dtype)
            if given[n].ndim < dim:
                raise ValueError(f"`{n}` parameter must be at least {('one', 'two')[dim - 1]}-dimensional.")
        cut = {n: given[n].ndim - dim for n, dim in dims.items()}
        batch = pf.broadcast_shapes(*(given[n].shape[:c] for n, c in cut.items()))
        for n, c in cut.items():
            shape = batch + given[n].shape[c:]
            if given[n].shape != shape:
                given[n] = given[n].expand(shape)
        whole = next((given[n].shape for n, dim in dims.items() if dim >= event), batch)
        vars(self).update(given, _dims=dims)
        shapes = self._prepare(batch, whole[len(whole) - event :])
        Distribution.__init__(self, *shapes, validate_args=last[1])

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    cls.__init__ = __init__


class Family(Distribution):
    """A distribution whose class says what it `takes`."""

    def _prepare(self, batch_shape: Any, event_shape: Any) -> tuple[Any, Any]:
        """The shapes; what else there is to be done with parameters before they are checked."""
        return batch_shape, event_shape

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = type(self).__new__(type(self)) if _instance is None else _instance
        for name, value in vars(self).items():
            if name in self._dims:
                value = value.expand(*batch_shape, *value.shape[value.ndim - self._dims[name] :])
            elif isinstance(getattr(type(self), name, None), lazy_property):
                continue
            vars(new)[name] = value
        new._batch_shape = Size(batch_shape)
        return new


HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
