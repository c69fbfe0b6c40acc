"""Distributions with PyTorch's names: samples, densities, entropies and divergences.

Transforms make distributions of others.
"""

from __future__ import annotations

import copy
import math
import re
import sys
from inspect import signature
from numbers import Number
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

import pyframe as pf
from pyframe.core.dispatch import can_read_value
from pyframe.nn import functional as F
from pyframe.ops.api import check
from pyframe.tensor import Size, Tensor

EULER = float(np.euler_gamma)
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
inf, nan, pi = math.inf, math.nan, math.pi

# --- constraints


def missing(name: str) -> Any:
    """A method of a class that does not have it."""

    def refuse(self: Any, *given: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no {name}")

    return refuse


class Constraint:
    """A set of values, the last `event_dim` dims of which are one.

    >>> pf.distributions.constraints.positive.check(pf.tensor([1.0, -1.0]))
    tensor([ True, False])
    """

    is_discrete: Any = False
    event_dim: Any = 0

    check: Any = missing("check")  # whether each value is in the set

    def __repr__(self) -> str:
        bounds = ", ".join(f"{k}={v}" for k, v in vars(self).items() if "bound" in k)
        return f"{type(self).__name__.lstrip('_')}({bounds})"


class _Dependent(Constraint):
    def __init__(self, **told: Any) -> None:
        self._told = told

    def _known(self, name: str) -> Any:
        if name not in self._told:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return self._told[name]

    is_discrete = property(lambda self: self._known("is_discrete"))
    event_dim = property(lambda self: self._known("event_dim"))

    def __call__(self, **told: Any) -> Any:
        return _Dependent(**{**self._told, **told})


class _DependentProperty(property, _Dependent):
    def __init__(self, fn: Any = None, **told: Any) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, **told)

    def __call__(self, input: Any) -> Any:  # type: ignore[override]
        return _DependentProperty(input, **self._told)


def is_dependent(constraint: Any) -> bool:
    """Whether other values decide what is in `constraint`."""
    return isinstance(constraint, _Dependent)


def _all(good: Any, dims: int, value: Any) -> Any:
    if min(good.ndim - dims, dims) < 0:
        raise ValueError(f"Expected value.dim() >= {dims}, got {value.dim()}")
    return good.reshape(*good.shape[: good.ndim - dims], -1).all(-1) if dims else good


class MixtureSameFamilyConstraint(Constraint):
    """What components of a mixture may give."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim)

    def check(self, value: Any) -> Any:
        good = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return _all(good, good.ndim - value.ndim + self.event_dim, value)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint})"


class _IndependentConstraint(MixtureSameFamilyConstraint):
    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        super().__init__(base_constraint)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    event_dim = property(lambda s: s.base_constraint.event_dim + s.reinterpreted_batch_ndims)

    def check(self, value: Any) -> Any:
        return _all(self.base_constraint.check(value), self.reinterpreted_batch_ndims, value)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint}, {self.reinterpreted_batch_ndims})"


class _Real(Constraint):
    check = lambda self, value: value == value


class _Boolean(Constraint):
    is_discrete = True
    check = lambda self, value: (value == 0) | (value == 1)


class _OneHot(_Boolean):
    event_dim = 1
    check = lambda self, value: super().check(value).all(-1) & (value.sum(-1) == 1)


class _Above(Constraint):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _Below(Constraint):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _GreaterThan(_Above):
    check = lambda self, value: value > self.lower_bound


class _GreaterThanEq(_Above):
    check = lambda self, value: value >= self.lower_bound


class _LessThan(_Below):
    check = lambda self, value: value < self.upper_bound


class _Interval(Constraint):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    check = lambda self, value: (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    check = lambda self, value: (value >= self.lower_bound) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    is_discrete = True
    check = lambda self, value: (value % 1 == 0) & super().check(value)


class _IntegerGreaterThan(_GreaterThanEq):
    is_discrete = True
    check = lambda self, value: (value % 1 == 0) & super().check(value)


class _Multinomial(_Below):
    is_discrete = True
    event_dim = 1
    check = lambda self, value: (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1
    check = lambda self, value: (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _LowerTriangular(Constraint):
    event_dim = 2
    check = lambda self, value: (value.tril() == value).all(-1).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Any) -> Any:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Any) -> Any:
        near = 10 * value.shape[-1] * pf.finfo(value.dtype).eps
        return super().check(value) & ((value.norm(dim=-1) - 1).abs() <= near).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        same = value.shape[-2] == value.shape[-1]
        return pf.full(value.shape[:-2], same, dtype=pf.bool, device=value.device)


class _Symmetric(_Square):
    def check(self, value: Any) -> Any:
        good = super().check(value)
        return pf.isclose(value, value.mT, atol=1e-6).all(-1).all(-1) if good.all() else good


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        good = super().check(value)
        return (pf.linalg.eigvalsh(value) >= 0).all(-1) if good.all() else good


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        good = super().check(value)
        return pf.linalg.cholesky_ex(value).info == 0 if good.all() else good


class _Stack(Constraint):
    def __init__(self, cseq: Any, dim: int = 0) -> None:
        self.cseq, self.dim = [*cseq], dim

    is_discrete = property(lambda self: any(c.is_discrete for c in self.cseq))
    _dims = property(lambda self: max(c.event_dim for c in self.cseq))
    event_dim = property(lambda self: self._dims + (self.dim + self._dims < 0))

    lengths: Any = None

    def check(self, value: Any) -> Any:
        parts = zip(self.cseq, _split(self, value), strict=True)
        return _join(self, [c.check(v) for c, v in parts])


def _split(self: Any, x: Any) -> Any:
    return x.unbind(self.dim) if self.lengths is None else x.split(self.lengths, self.dim)


def _join(self: Any, parts: Any) -> Any:
    return (pf.stack if self.lengths is None else pf.cat)(parts, self.dim)


class _Cat(_Stack):
    def __init__(self, cseq: Any, dim: int = 0, lengths: Any = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = lengths or [1] * len(self.cseq)

    event_dim = _Stack._dims


dependent, dependent_property, independent = (
    _Dependent(),
    _DependentProperty,
    _IndependentConstraint,
)
real, boolean, one_hot, simplex = _Real(), _Boolean(), _OneHot(), _Simplex()
positive, nonnegative = _GreaterThan(0.0), _GreaterThanEq(0.0)
positive_integer, nonnegative_integer = _IntegerGreaterThan(1), _IntegerGreaterThan(0)
real_vector, unit_interval = independent(real, 1), _Interval(0.0, 1.0)
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
multinomial, cat, stack = _Multinomial, _Cat, _Stack
lower_triangular, lower_cholesky = _LowerTriangular(), _LowerCholesky()
corr_cholesky, square, symmetric = _CorrCholesky(), _Square(), _Symmetric()
positive_definite, positive_semidefinite = _PositiveDefinite(), _PositiveSemidefinite()
# parameters of distributions alone
_any = _Dependent(event_dim=0)
_matrix = independent(real, 2)
_positives = independent(positive, 1)
_odds = _HalfOpenInterval(0.0, 1.0)

_constraints = [
    n for n, v in vars().items() if getattr(v, "__module__", "") == __name__ and n[0] != "_"
][1:]
constraints: Any

# --- tools


ARGUMENTS = {
    "cache_size": "1 keeps the last values.",
    "dim": "Along which dim.",
    "reinterpreted_batch_ndims": "How many dims.",
    "temperature": "How soft samples are.",
    "tseq": "The transforms.",
    "validate_args": "Whether values are checked.",
}


def tell(cls: Any, names: Any, **kinds: Any) -> None:
    """Tell of arguments in the text of a class."""
    said, _, example = (cls.__doc__ or "").partition("\n\n    >>> ")
    if example:
        known = {**ARGUMENTS, **{n: f"{kind}." for n, kind in kinds.items()}}
        new = "".join(f"\n        {n}: {known[n]}" for n in names if f" {n}: " not in said)
        head = "" if "Args:" in said or not new else "\n\n    Args:"
        cls.__doc__ = f"{said}{head}{new}\n\n    >>> {example}"


def broadcast_all(*values: Any) -> Any:
    """Numbers and tensors as tensors of one shape."""
    if not all(isinstance(v, Tensor | Number) for v in values):
        raise ValueError(f"expected Numbers and Tensors, got {values}")
    like = next((v for v in values if isinstance(v, Tensor)), pf.zeros(()))
    return pf.broadcast_tensors(*(as_like(v, like) for v in values))


def as_like(value: Any, like: Tensor) -> Tensor:
    """A number as a tensor like another."""
    if isinstance(value, Tensor):
        return value
    return pf.tensor(value, dtype=like.dtype, device=like.device)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities between 0 and 1."""
    eps = pf.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logarithms of probabilities, or of odds."""
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logarithms."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


class lazy_property:  # noqa: N801
    """A property that is computed when it is first read."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with pf.enable_grad():
            value = vars(instance)[self.name] = self.wrapped(instance)
        return value


def _lower(n: int, diag: int, like: Tensor) -> Tensor:
    return pf.ones(n, n, dtype=pf.bool, device=like.device).tril(diag).reshape(-1)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of matrices, row by row."""
    n = mat.shape[-1]
    if mat.shape[-2] != n:
        raise ValueError(f"{mat.shape} is not square")
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) is outside [{-n}, {n - 1}]")
    return mat.flatten(-2)[..., _lower(n, diag, mat)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Matrices of their lower triangle."""
    size, b, c = vec.shape[-1], 1 + 2 * diag, abs(diag) * (diag + 1)
    n = round((math.sqrt(b * b + 8 * size + 4 * c) - b) / 2)
    if n * (n + b) != 2 * size + c:
        raise ValueError(f"{size} numbers are no triangle")
    places = _lower(n, diag, vec)
    order = (places.long().cumsum(0) - 1).clamp(min=0)
    return pf.where(places, F.pad(vec, (0, 1))[..., order], 0.0).unflatten(-1, (n, n))


def sum_rightmost(value: Any, dims: int) -> Any:
    """The sum over the last dims."""
    return value.sum([*range(-dims, 0)]) if dims else value


_dependent = dependent_property


def _reals(dims: int) -> Any:
    return _IndependentConstraint(real, dims) if dims else real


class Transform:
    """A function from `domain` to `codomain`, of the inverse `inv`.

    One's own has `_call`, `_inverse` and `log_abs_det_jacobian`; `cache_size` is 0 or 1.

    >>> pf.distributions.ExpTransform().inv(pf.tensor(1.0))
    tensor(0.)
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    bijective: Any = False
    domain: Any = property(missing("domain"), doc="What it takes.")
    codomain: Any = property(missing("codomain"), doc="What it gives.")
    sign: Any = property(missing("sign"), doc="1 if it grows, -1 if it falls.")
    _call: Any = missing("_call")
    _inverse: Any = missing("_inverse")

    def __init_subclass__(cls) -> None:
        tell(cls, [n for n in signature(cls).parameters if n in ARGUMENTS])

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached_x_y: Any = None, None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_inv": None, "_cached_x_y": (None, None)}

    @property
    def event_dim(self) -> Any:
        """How many dims are one value."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("domain and codomain have other event_dims")

    @property
    def inv(self) -> Any:
        """The inverse."""
        self._inv = self._inv or _InverseTransform(self)
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same with another `cache_size`."""
        if self._cache_size == cache_size:
            return self
        new = copy.copy(self)
        Transform.__init__(new, cache_size)
        for name, value in vars(self).items() if cache_size else ():
            if isinstance(value, Transform) and name != "_inv":
                vars(new)[name] = value.with_cache()
            elif isinstance(value, list):
                vars(new)[name] = [v.with_cache() if isinstance(v, Transform) else v for v in value]
        return new

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        given = [n for n in vars(self) if n not in ("_inv", "_cached_x_y", "_cache_size")]
        pairs = ((vars(self)[n], vars(other)[n]) for n in given)
        return all(bool(pf.as_tensor(a is b or a == b).all()) for a, b in pairs)

    __hash__ = object.__hash__

    def __call__(self, x: Any) -> Any:
        return self._kept(0, x, self._call)

    def _inv_call(self, y: Any) -> Any:
        return self._kept(1, y, self._inverse)

    def _kept(self, side: int, value: Any, fn: Any) -> Any:
        if self._cache_size and value is self._cached_x_y[side]:
            return self._cached_x_y[1 - side]
        found = fn(value)
        if self._cache_size:
            self._cached_x_y = (found, value) if side else (value, found)
        return found

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |det dy/dx|, of `x` and `y`."""
        return missing("log_abs_det_jacobian")(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Any) -> Any:
        """What `shape` becomes."""
        return self._shaped(shape, 1)

    def inverse_shape(self, shape: Any) -> Any:
        """What becomes `shape`."""
        return self._shaped(shape, -1)

    _shaped: Any = lambda self, shape, way: shape


def _enough(shape: Any, least: int) -> Any:
    if len(shape) < least:
        raise ValueError(f"Too few dimensions on input: {tuple(shape)}")
    return shape


class _InverseTransform(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._of = transform

    domain = _dependent(lambda self: self._of.codomain, is_discrete=False)
    codomain = _dependent(lambda self: self._of.domain, is_discrete=False)
    bijective = property(lambda self: self._of.bijective)
    sign = property(lambda self: self._of.sign)
    inv = property(lambda self: self._of)

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._of.with_cache(cache_size).inv

    def __call__(self, x: Any) -> Any:
        return self._of._inv_call(x)

    log_abs_det_jacobian = lambda self, x, y: -self._of.log_abs_det_jacobian(y, x)

    _shaped = lambda self, shape, way: self._of._shaped(shape, -way)


def _outer(parts: Any, into: str, out: str) -> Any:
    if not parts:
        return real
    dims, found = getattr(parts[-1], out).event_dim, getattr(parts[0], into)
    for part in parts[::-1]:
        own = getattr(part, into).event_dim
        dims = max(dims + own - getattr(part, out).event_dim, own)
    more = dims - found.event_dim
    return _IndependentConstraint(found, more) if more else found


class ComposeTransform(Transform):
    """Of `x` one transform after another.

    Args:
        parts: The transforms, the first first.

    >>> D = pf.distributions
    >>> D.ComposeTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0)])(pf.tensor(0.0))
    tensor(3.)
    """

    def __init__(self, parts: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache() if cache_size else part for part in parts]

    domain = _dependent(lambda s: _outer(s.parts, "domain", "codomain"), is_discrete=False)
    codomain = _dependent(lambda s: _outer(s.parts[::-1], "codomain", "domain"), is_discrete=False)
    bijective = property(lambda self: all(p.bijective for p in self.parts))
    sign = property(lambda self: math.prod(p.sign for p in self.parts))

    @property
    def inv(self) -> Any:
        if self._inv is None:
            self._inv = ComposeTransform([p.inv for p in self.parts[::-1]])
            self._inv._inv = self
        return self._inv

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        dims = self.domain.event_dim
        total = sum_rightmost(pf.zeros_like(x), dims)
        for part in self.parts:
            after = y if part is self.parts[-1] else part(x)
            found = part.log_abs_det_jacobian(x, after)
            total = total + sum_rightmost(found, dims - part.domain.event_dim)
            dims, x = dims + part.codomain.event_dim - part.domain.event_dim, after
        return total

    def _shaped(self, shape: Any, way: int) -> Any:
        for part in self.parts[::way]:
            shape = part._shaped(shape, way)
        return shape

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts})"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Another transform, more dims of which are one value.

    Args:
        base_transform: That other one.

    >>> D = pf.distributions
    >>> D.IndependentTransform(D.ExpTransform(), 1).log_abs_det_jacobian(pf.ones(3), pf.ones(3))
    tensor(3.)
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    _more = lambda self, constraint: _IndependentConstraint(
        constraint, self.reinterpreted_batch_ndims
    )
    domain = _dependent(lambda self: self._more(self.base_transform.domain), is_discrete=False)
    codomain = _dependent(lambda self: self._more(self.base_transform.codomain), is_discrete=False)
    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)

    _call = lambda self, x: self.base_transform(x)
    _inverse = lambda self, y: self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        found = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(found, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform}, {self.reinterpreted_batch_ndims})"

    _shaped = lambda self, shape, way: self.base_transform._shaped(shape, way)


class ReshapeTransform(Transform):
    """The last dims in another shape.

    Args:
        in_shape, out_shape: The shapes, of as many elements.

    >>> pf.distributions.ReshapeTransform((6,), (2, 3))(pf.zeros(4, 6)).shape
    pyframe.Size([4, 2, 3])
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(in_shape) != math.prod(out_shape):
            raise ValueError(f"{in_shape} and {out_shape} differ in size")
        super().__init__(cache_size)

    domain = _dependent(lambda self: _reals(len(self.in_shape)))
    codomain = _dependent(lambda self: _reals(len(self.out_shape)))
    _call = lambda self, x: x.reshape(self.forward_shape(x.shape))
    _inverse = lambda self, y: y.reshape(self.inverse_shape(y.shape))
    log_abs_det_jacobian = lambda self, x, y: x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def _shaped(self, shape: Any, way: int) -> Any:
        old, new = (self.in_shape, self.out_shape)[::way]
        cut = len(_enough(shape, len(old))) - len(old)
        if shape[cut:] != old:
            raise ValueError(f"expected {old}, got {shape[cut:]}")
        return shape[:cut] + new


class _Growing(Transform):
    bijective = True
    sign: Any = 1
    domain: Any = real
    codomain: Any = positive


class ExpTransform(_Growing):
    """y = exp(x).

    >>> pf.distributions.ExpTransform()(pf.tensor(0.0))
    tensor(1.)
    """

    _call = lambda self, x: x.exp()
    _inverse = lambda self, y: y.log()
    log_abs_det_jacobian = lambda self, x, y: x


class PowerTransform(_Growing):
    """y = x to the power of `exponent`, for x above 0.

    Args:
        exponent: A number or a tensor.

    >>> pf.distributions.PowerTransform(2.0)(pf.tensor(3.0))
    tensor(9.)
    """

    domain = positive
    sign = property(lambda self: self.exponent.sign())

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    _call = lambda self, x: x.pow(self.exponent)
    _inverse = lambda self, y: y.pow(1 / self.exponent)
    log_abs_det_jacobian = lambda self, x, y: (self.exponent * y / x).abs().log()

    _shaped = lambda self, shape, way: pf.broadcast_shapes(shape, self.exponent.shape)


class SigmoidTransform(_Growing):
    """y = 1 / (1 + exp(-x)), kept between 0 and 1.

    >>> pf.distributions.SigmoidTransform()(pf.tensor(0.0))
    tensor(0.5000)
    """

    codomain = unit_interval
    _call = lambda self, x: _within(x.sigmoid())

    def _inverse(self, y: Any) -> Any:
        y = _within(y)
        return y.log() - (-y).log1p()

    log_abs_det_jacobian = lambda self, x, y: -F.softplus(-x) - F.softplus(x)


def _within(y: Tensor) -> Tensor:
    info = pf.finfo(y.dtype)
    return y.clamp(info.tiny, 1 - info.eps)


class SoftplusTransform(_Growing):
    """y = log(1 + exp(x)).

    >>> pf.distributions.SoftplusTransform()(pf.tensor(0.0))
    tensor(0.6931)
    """

    _call = lambda self, x: F.softplus(x)
    _inverse = lambda self, y: (-(-y).expm1()).log() + y
    log_abs_det_jacobian = lambda self, x, y: -F.softplus(-x)


class TanhTransform(_Growing):
    """y = tanh(x).

    >>> pf.distributions.TanhTransform()(pf.tensor(1.0))
    tensor(0.7616)
    """

    codomain = interval(-1.0, 1.0)
    _call = lambda self, x: x.tanh()
    _inverse = lambda self, y: y.atanh()
    log_abs_det_jacobian = lambda self, x, y: 2 * (math.log(2) - x - F.softplus(-2 * x))


class AbsTransform(Transform):
    """y = |x|, of which the inverse is y.

    >>> pf.distributions.AbsTransform()(pf.tensor(-1.0))
    tensor(1.)
    """

    domain = real
    codomain = positive
    _call = lambda self, x: x.abs()
    _inverse = lambda self, y: y


class AffineTransform(Transform):
    """y = loc + scale x.

    Args:
        loc, scale: Numbers or tensors.
        event_dim: How many last dims are one value.

    >>> pf.distributions.AffineTransform(1.0, 2.0)(pf.tensor(3.0))
    tensor(7.)
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._dims = loc, scale, event_dim

    event_dim = property(lambda self: self._dims)
    domain = codomain = _dependent(lambda self: _reals(self._dims), is_discrete=False)

    @property
    def sign(self) -> Any:
        s = self.scale
        return s.sign() if isinstance(s, Tensor) else (s > 0) - (s < 0)

    _call = lambda self, x: self.loc + self.scale * x
    _inverse = lambda self, y: (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return sum_rightmost((pf.zeros_like(x) + self.scale).abs().log(), self._dims)

    def _shaped(self, shape: Any, way: int) -> Any:
        both = (getattr(v, "shape", ()) for v in (self.loc, self.scale))
        return pf.broadcast_shapes(shape, *both)


class _Vectors(Transform):
    bijective = True
    domain: Any = real_vector
    codomain: Any = simplex
    _shaped = lambda self, shape, way: _enough(shape, 1)


class CorrCholeskyTransform(_Vectors):
    """Cholesky factors of correlation matrices, row by row.

    >>> pf.distributions.CorrCholeskyTransform()(pf.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    codomain = corr_cholesky

    def _call(self, x: Any) -> Any:
        eps = pf.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(eps - 1, 1 - eps), -1)
        left = (1 - r * r).sqrt().cumprod(-1)
        return (r + pf.eye(r.shape[-1]).to(r)) * F.pad(left[..., :-1], (1, 0), value=1)

    def _inverse(self, y: Any) -> Any:
        left = F.pad(1 - (y * y).cumsum(-1)[..., :-1], (1, 0), value=1)
        return (tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(left, -1).sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), -2)
        return left.log().sum(-1) / 2 + TanhTransform().log_abs_det_jacobian(x, y).sum(-1)

    def _shaped(self, shape: Any, way: int) -> Any:
        made = vec_to_tril_matrix if way > 0 else tril_matrix_to_vec
        return made(pf.zeros(_enough(shape, 1)), -1).shape


class SoftmaxTransform(_Vectors):
    """Weights of sum 1.

    >>> pf.distributions.SoftmaxTransform()(pf.zeros(2))
    tensor([0.5000, 0.5000])
    """

    bijective = False
    _call = lambda self, x: x.softmax(-1)
    _inverse = lambda self, y: y.log()


class StickBreakingTransform(_Vectors):
    """One weight more than numbers, of sum 1.

    >>> pf.distributions.StickBreakingTransform()(pf.zeros(1))
    tensor([0.5000, 0.5000])
    """

    _shift = lambda self, x: pf.arange(x.shape[-1], 0, -1).to(x).log()

    def _call(self, x: Any) -> Any:
        z = _within((x - self._shift(x)).sigmoid())
        return F.pad(z, (0, 1), value=1) * F.pad((1 - z).cumprod(-1), (1, 0), value=1)

    def _inverse(self, y: Any) -> Any:
        y = y[..., :-1]
        left = (1 - y.cumsum(-1)).clamp(min=pf.finfo(y.dtype).tiny)
        return y.log() - left.log() + self._shift(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._shift(x)
        return (F.logsigmoid(x) - x + y[..., :-1].log()).sum(-1)

    _shaped = lambda self, shape, way: Size((*_enough(shape, 1)[:-1], shape[-1] + way))


class LowerCholeskyTransform(Transform):
    """Lower triangles of positive diagonals.

    >>> pf.distributions.LowerCholeskyTransform()(pf.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = _IndependentConstraint(real, 2)
    codomain: Any = lower_cholesky

    _call = lambda self, x: x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()
    _inverse = lambda self, y: y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(LowerCholeskyTransform):
    """Positive definite matrices.

    >>> pf.distributions.PositiveDefiniteTransform()(pf.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    codomain = positive_definite

    def _call(self, x: Any) -> Any:
        lower = super()._call(x)
        return lower @ lower.mT

    _inverse = lambda self, y: super()._inverse(pf.linalg.cholesky(y))


class StackTransform(Transform):
    """A transform for each place of a dim.

    >>> D = pf.distributions
    >>> D.StackTransform([D.ExpTransform(), D.AbsTransform()])(pf.tensor([0.0, -2.0]))
    tensor([1., 2.])
    """

    def __init__(self, tseq: Any, dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = [t.with_cache() if cache_size else t for t in tseq]
        self.dim = dim

    bijective = property(lambda self: all(t.bijective for t in self.transforms))
    domain = _dependent(lambda self: self._constraint([t.domain for t in self.transforms]))
    codomain = _dependent(lambda self: self._constraint([t.codomain for t in self.transforms]))
    lengths: Any = None

    def _constraint(self, parts: Any) -> Any:
        return (
            stack(parts, self.dim) if self.lengths is None else cat(parts, self.dim, self.lengths)
        )

    def _parts(self, *values: Any) -> Any:
        return zip(self.transforms, *(_split(self, v) for v in values), strict=True)

    _call = lambda self, x: _join(self, [t(v) for t, v in self._parts(x)])
    _inverse = lambda self, y: _join(self, [t.inv(v) for t, v in self._parts(y)])

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return _join(self, [t.log_abs_det_jacobian(a, b) for t, a, b in self._parts(x, y)])


class CatTransform(StackTransform):
    """A transform for each part of a dim.

    Args:
        lengths: How long each part is; None for 1.

    >>> D = pf.distributions
    >>> D.CatTransform([D.ExpTransform(), D.AbsTransform()], 0, [2, 1])(pf.tensor([0.0, 0, -2]))
    tensor([1., 1., 2.])
    """

    def __init__(self, tseq: Any, dim: int = 0, lengths: Any = None, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = lengths or [1] * len(tseq)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"{self.lengths} for {len(tseq)}")

    event_dim = property(lambda self: max(t.event_dim for t in self.transforms))
    length = property(lambda self: sum(self.lengths), doc="How long all parts are together.")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        dims = self.event_dim
        found = [
            sum_rightmost(t.log_abs_det_jacobian(a, b), dims - t.event_dim)
            for t, a, b in self._parts(x, y)
        ]
        dim = self.dim - x.ndim * (self.dim >= 0) + dims
        return pf.cat(found, dim) if dim < 0 else sum(found)


class CumulativeDistributionTransform(Transform):
    """The probability of at most x.

    Args:
        distribution: The distribution whose `cdf` that is.

    >>> D = pf.distributions
    >>> D.CumulativeDistributionTransform(D.Normal(0.0, 1.0))(pf.tensor(0.0))
    tensor(0.5000)
    """

    bijective = True
    sign = 1
    codomain = unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)
    _call = lambda self, x: self.distribution.cdf(x)
    _inverse = lambda self, y: self.distribution.icdf(y)
    log_abs_det_jacobian = lambda self, x, y: self.distribution.log_prob(x)


class ConstraintRegistry:
    """Transforms to what a `constraint` allows.

    >>> pf.distributions.transform_to(pf.distributions.simplex)
    SoftmaxTransform()
    """

    def __init__(self) -> None:
        self._registry: dict[type, Any] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Have `factory` make the transform for constraints of a class; or a decorator.

        Args:
            constraint: The class, or an instance.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, Constraint)):
            raise TypeError(f"{constraint} is no constraint")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        name = type(constraint)
        if name not in self._registry:
            raise NotImplementedError(f"Cannot transform {name.__name__} constraints")
        return self._registry[name](constraint)


def _interval(c: Any) -> Transform:
    if isinstance(c.lower_bound, int | float) and (c.lower_bound, c.upper_bound) == (0, 1):
        return SigmoidTransform()
    width = c.upper_bound - c.lower_bound
    return ComposeTransform([SigmoidTransform(), AffineTransform(c.lower_bound, width)])


def _above(c: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(c.lower_bound, 1)])


def _below(c: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(c.upper_bound, -1)])


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()
for _to in (biject_to, transform_to):
    for _kind, _factory in {
        real: lambda c: identity_transform,
        independent: lambda c, to=_to: IndependentTransform(
            to(c.base_constraint), c.reinterpreted_batch_ndims
        ),
        greater_than: _above,
        greater_than_eq: _above,
        less_than: _below,
        interval: _interval,
        half_open_interval: _interval,
        corr_cholesky: lambda c: CorrCholeskyTransform(),
        cat: lambda c, to=_to: CatTransform([to(x) for x in c.cseq], c.dim, c.lengths),
        stack: lambda c, to=_to: StackTransform([to(x) for x in c.cseq], c.dim),
    }.items():
        _to.register(_kind, _factory)
biject_to.register(simplex, lambda c: StickBreakingTransform())
transform_to.register(simplex, lambda c: SoftmaxTransform())
transform_to.register(lower_cholesky, lambda c: LowerCholeskyTransform())
for _kind in (positive_definite, positive_semidefinite):
    transform_to.register(_kind, lambda c: PositiveDefiniteTransform())

# --- distributions


class Distribution:
    """What all have: samples of sample_shape + batch_shape + event_shape.

    One's own has `arg_constraints`, `support`, `log_prob` and `rsample`.

    Args:
        batch_shape, event_shape: The shapes of the batch and of one sample.
        validate_args: Whether values are checked.

    >>> pf.distributions.Normal(pf.zeros(3), 1.0).sample((2,)).shape
    pyframe.Size([2, 3])
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__
    # formulas, which the methods below call
    _draw: Any = missing("samples")
    _log_prob: Any = missing("log_prob")
    _cdf: Any = missing("cdf")
    _icdf: Any = missing("icdf")
    _entropy: Any = missing("entropy")
    _all_values: Any
    arg_constraints: Any = property(missing("arg_constraints"), doc="What parameters must be.")
    support: Any = property(missing("support"), doc="What samples are.")
    mean: Any = property(missing("mean"), doc="The mean.")
    mode: Any = property(missing("mode"), doc="The most probable value.")
    variance: Any = property(missing("variance"), doc="The variance.")
    stddev: Any = property(lambda self: self.variance.sqrt(), doc="The standard deviation.")
    batch_shape: Any = property(lambda self: self._batch_shape, doc="The shape of the batch.")
    event_shape: Any = property(lambda self: self._event_shape, doc="The shape of one sample.")
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(cls, takes: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if takes:
            _take(cls, takes)
        elif "__init__" in vars(cls) and cls.__module__ == __name__:
            tell(cls, [n for n in signature(cls).parameters if n in ARGUMENTS])

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if not self._validate_args:
            return
        for name, constraint in _or_none(self, "arg_constraints", {}).items():
            lazy = isinstance(getattr(type(self), name, None), lazy_property)
            if is_dependent(constraint) or (lazy and name not in vars(self)):
                continue
            value = getattr(self, name)
            said = f"parameter {name} ({_told(value)}) of distribution"
            rule = f"to satisfy the constraint {constraint}"
            _expect(constraint.check(value), value, said, self, rule)

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Have `value` say whether values are checked."""
        Distribution._validate_args = value

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same for a larger `batch_shape`, in `_instance`."""
        return missing("expand")(self)

    def _new(self, instance: Any) -> Any:
        return type(self).__new__(type(self)) if instance is None else instance

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """`sample_shape` samples of each, with a gradient."""
        if not self.has_rsample:
            missing("rsample: samples have no gradient")(self)
        return self._draw(self._extended_shape(sample_shape))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """`sample_shape` samples of each."""
        with pf.no_grad():
            if type(self)._draw is Distribution._draw or (
                type(self).rsample is not Distribution.rsample
            ):
                return self.rsample(sample_shape)
            return self._draw(self._extended_shape(sample_shape))

    def sample_n(self, n: int) -> Tensor:
        """`n` samples."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density at each `value`, or of its probability."""
        if self._validate_args:
            self._validate_sample(value)
        return self._log_prob(value)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return self._cdf(value)

    def icdf(self, value: Tensor) -> Tensor:
        """What samples are at most with the probability `value`."""
        return self._icdf(value)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values, along dim 0; `expand` repeats them for the batch."""
        if not self.has_enumerate_support:
            missing("enumerate_support")(self)
        values = self._all_values()
        values = values.reshape(-1, *(1 for _ in self._batch_shape), *values.shape[1:])
        return values.expand(-1, *self._batch_shape, *self._event_shape) if expand else values

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        return self._entropy()

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError(f"{value!r} is no Tensor")
        shape, whole = value.shape, self._batch_shape + self._event_shape
        n = len(self._event_shape)
        if shape[len(shape) - n :] != self._event_shape or not _fit(shape, whole):
            raise ValueError(f"{shape} does not fit batch_shape + event_shape, {whole}")
        support = _or_none(self, "support", None)
        if support:
            said = f"value argument ({_told(value)}) to be within the support ({support}) of"
            _expect(support.check(value), value, f"{said} the distribution", self, "")

    def __repr__(self) -> str:
        found = ((n, vars(self)[n]) for n in self.arg_constraints if n in vars(self))
        said = ", ".join(f"{n}: {v if v.numel() == 1 else v.shape}" for n, v in found)
        return f"{type(self).__name__}({said})"


def _expect(good: Any, value: Any, what: str, of: Any, rule: str) -> None:
    """ValueError if `good` is not true everywhere: at once where values are at hand, else by the
    next read, so that a compiled step and a GPU read nothing."""
    if not can_read_value(good):
        said = f"Expected {what} {type(of).__name__} {rule}".rstrip()
        check.assert_not(good.logical_not(), f"{said}, but found invalid values", ValueError)
    elif not good.all():
        said = f"Expected {what} {of} {rule}".rstrip()
        raise ValueError(f"{said}, but found invalid values:\n{value}")


def _or_none(self: Any, name: str, default: Any) -> Any:
    try:
        return getattr(self, name)
    except NotImplementedError:
        return default


def _told(value: Any) -> str:
    return f"{type(value).__name__} of shape {tuple(value.shape)}"


def _fit(a: Any, b: Any) -> bool:
    return all(1 in (i, j) or i == j for i, j in zip(a[::-1], b[::-1], strict=False))


class ExponentialFamily(Distribution):
    """Densities exp(θ·t(x) - F(θ) + k(x)).

    One's own has `_natural_params`, θ, `_log_normalizer`, F, and `_mean_carrier_measure`, of k.

    Args:
        batch_shape, event_shape: The shapes of the batch and of one sample.
        validate_args: Whether values are checked.

    >>> pf.distributions.ExponentialFamily((2,)).batch_shape
    pyframe.Size([2])
    """

    def _bregman(self, others: Any) -> Tensor:
        """F(θ) + (others - θ) · ∇F(θ)."""
        with pf.enable_grad():
            given = self._natural_params
            theta = [x if x.requires_grad else x.detach().requires_grad_() for x in given]
            found = self._log_normalizer(*theta)
            for x, o, m in zip(theta, others, pf.autograd.grad(found.sum(), theta,
                               create_graph=True), strict=True):  # fmt: skip
                term = (o - x) * m
                found = found + term.reshape(*term.shape[: found.ndim], -1).sum(-1)
            return found

    def _entropy(self) -> Any:
        zeros = (0 * x for x in self._natural_params)
        return self._bregman(zeros) - self._mean_carrier_measure


def _take(cls: Any, takes: str) -> None:
    """Give a class an `__init__`; behind colons are constraints."""
    cls._kinds = {n: globals()[kind] for n, kind in re.findall(r"(\w+):(\w+)", takes)}
    cls._either = re.findall(r"(\w+):\w+=None", takes)
    cls._event_dim = cls.support.event_dim
    if "arg_constraints" not in vars(cls):
        cls.arg_constraints = cls._kinds
    made: dict[str, Any] = {}
    arguments = re.sub(r":\w+", "", takes).replace(" ", ", ")
    text = f"def __init__(self, {arguments}, validate_args=None): self._begin(locals())"
    exec(compile(text, __file__, "exec"), made)
    cls.__init__ = made["__init__"]
    tell(cls, signature(cls).parameters, **cls._kinds)


def _grown(value: Tensor, batch: Any, dims: int) -> Tensor:
    shape = Size(batch) + value.shape[value.ndim - dims :]
    return value if value.shape == shape else value.expand(shape)


class _Family(Distribution):
    _dims: Any = {}  # noqa: RUF012  # event dims of what is given; a program's class may skip __init__

    if TYPE_CHECKING:

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def _begin(self, given: Any) -> None:
        """Make tensors of parameters, that broadcast."""
        given = {n: v for n, v in given.items() if v is not None and n != "self"}
        validate, either, event = given.pop("validate_args", None), self._either, self._event_dim
        if either and len({*either} & {*given}) != 1:
            names = " or ".join(f"`{n}`" for n in either)
            raise ValueError(f"Either {names} must be specified, but not both.")
        dims = {n: kind.event_dim for n, kind in self._kinds.items() if n in given}
        tensors = [given[n] for n in dims if isinstance(given[n], Tensor)]
        floats = [t for t in tensors if t.is_floating_point()]
        like = (floats or [t.to(pf.get_default_dtype()) for t in tensors] or [pf.zeros(())])[0]
        shapes = []
        for n, dim in dims.items():
            if not isinstance(given[n], Tensor | Number):
                raise ValueError(f"{n}, {given[n]!r}, is no Number or Tensor")
            value = as_like(given[n], like)
            given[n] = value if value.is_floating_point() else value.to(like.dtype)
            if value.ndim < dim:
                raise ValueError(f"`{n}` needs {dim} dims, got {tuple(value.shape)}")
            shapes.append(value.shape[: value.ndim - dim])
        batch = pf.broadcast_shapes(*shapes)
        given = {n: _grown(v, batch, dims[n]) if n in dims else v for n, v in given.items()}
        whole = next((given[n].shape for n, dim in dims.items() if dim >= event), batch)
        vars(self).update(given, _dims=dims)
        batch, event = self._prepare(batch, whole[len(whole) - event :])
        Distribution.__init__(self, batch, event, validate)

    def _prepare(self, *shapes: Any) -> Any:
        return shapes

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._new(_instance)
        for name, value in vars(self).items():
            if name in self._dims:
                value = _grown(value, batch_shape, self._dims[name])
            elif isinstance(getattr(type(self), name, None), lazy_property):
                continue
            vars(new)[name] = value
        new._batch_shape = Size(batch_shape)
        return new


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

    arg_constraints = property(lambda self: {})
    has_rsample = property(lambda self: self.base_dist.has_rsample)
    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)
    has_enumerate_support = property(
        lambda self: not self.reinterpreted_batch_ndims and self.base_dist.has_enumerate_support
    )
    _all_values = lambda self: self.base_dist._all_values()

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        base, n = base_distribution, reinterpreted_batch_ndims
        cut = len(base.batch_shape) - n
        if n < 0 or cut < 0:
            raise ValueError(f"reinterpreted_batch_ndims: {n} of {n + cut} dims")
        self.base_dist, self.reinterpreted_batch_ndims = base, n
        event_shape = base.batch_shape[cut:] + base.event_shape
        super().__init__(base.batch_shape[:cut], event_shape, validate_args)

    @_dependent
    def support(self) -> Any:
        found, n = self.base_dist.support, self.reinterpreted_batch_ndims
        return _IndependentConstraint(found, n) if n else found

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        n, new = self.reinterpreted_batch_ndims, self._new(_instance)
        base = self.base_dist.expand((*batch_shape, *self.event_shape[:n]))
        Independent.__init__(new, base, n, self._validate_args)
        return new

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    _sum = lambda self, x: sum_rightmost(x, self.reinterpreted_batch_ndims)
    _log_prob = lambda self, x: self._sum(self.base_dist.log_prob(x))
    _entropy = lambda self: self._sum(self.base_dist.entropy())

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """What transforms make of another distribution.

    Args:
        base_distribution: That other one.
        transforms: A transform, or a list, the first first.

    >>> D = pf.distributions
    >>> D.TransformedDistribution(D.Normal(0.0, 1.0), D.ExpTransform()).log_prob(pf.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints = property(lambda self: {})
    has_rsample = property(lambda self: self.base_dist.has_rsample)
    base_dist: Any
    transforms: Any

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        found = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(found, list) or not all(isinstance(t, Transform) for t in found):
            raise ValueError(f"{found} is no list of Transforms")
        base, chain = base_distribution, ComposeTransform(found)
        shape, dims = base.batch_shape + base.event_shape, len(base.event_shape)
        into, out = chain.domain.event_dim, chain.codomain.event_dim
        if len(shape) < into:
            raise ValueError(f"transforms take {into} dims, got {shape}")
        forward = chain.forward_shape(shape)
        back = chain.inverse_shape(forward)
        if back != shape:
            base = base.expand(back[: len(back) - dims])
        self.base_dist = Independent(base, into - dims) if into > dims else base
        self.transforms = found
        cut = len(forward) - max(out, dims + out - into)
        super().__init__(forward[:cut], forward[cut:], validate_args)

    @_dependent(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        more = len(self.event_shape) - found.event_dim
        return _IndependentConstraint(found, more) if more > 0 else found

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new, shape = self._new(_instance), Size(batch_shape) + self.event_shape
        shape = ComposeTransform(self.transforms).inverse_shape(shape)
        base = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        TransformedDistribution.__init__(new, base, self.transforms, self._validate_args)
        return new

    def _transformed(self, x: Tensor) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with pf.no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _log_prob(self, x: Any) -> Any:
        dims, total = len(self.event_shape), 0
        for t in self.transforms[::-1]:
            x, y = t.inv(x), x
            dims += t.domain.event_dim - t.codomain.event_dim
            found = t.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(found, dims - t.domain.event_dim)
        base = self.base_dist
        return total + sum_rightmost(base.log_prob(x), dims - len(base.event_shape))

    def _sides(self, p: Any) -> Any:
        sign = math.prod(t.sign for t in self.transforms)
        return sign * (p - 0.5) + 0.5

    def _cdf(self, x: Any) -> Any:
        for transform in self.transforms[::-1]:
            x = transform.inv(x)
        return self._sides(self.base_dist.cdf(x))

    _icdf = lambda self, p: self._transformed(self.base_dist.icdf(self._sides(p)))


class MixtureSameFamily(Distribution):
    """Components of one kind, of which a Categorical draws one.

    Args:
        mixture_distribution: The Categorical.
        component_distribution: The components, along the last dim of its batch.

    >>> D = pf.distributions
    >>> parts = D.Normal(pf.tensor([-1.0, 1.0]), pf.tensor([1.0, 1.0]))
    >>> D.MixtureSameFamily(D.Categorical(pf.ones(2)), parts).variance
    tensor(2.)
    """

    arg_constraints = property(lambda self: {})

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        mixture, parts = mixture_distribution, component_distribution
        if not (isinstance(mixture, Categorical) and isinstance(parts, Distribution)):
            raise ValueError(f"{mixture} is no Categorical, or {parts} no Distribution")
        batch, counts = parts.batch_shape, mixture.param_shape
        if counts[-1] != batch[-1] or not _fit(counts, batch):
            raise ValueError(f"a mixture of {counts} does not fit {batch}")
        self.mixture_distribution, self.component_distribution = mixture, parts
        super().__init__(batch[:-1], parts.event_shape, validate_args)

    @_dependent
    def support(self) -> Any:
        return MixtureSameFamilyConstraint(self.component_distribution.support)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new, mixture = self._new(_instance), self.mixture_distribution.expand(batch_shape)
        parts = self.component_distribution
        parts = parts.expand((*batch_shape, parts.batch_shape[-1]))
        MixtureSameFamily.__init__(new, mixture, parts, self._validate_args)
        return new

    def _average(self, x: Any) -> Any:
        weights, n = self.mixture_distribution.probs, len(self.event_shape)
        return (weights.reshape(weights.shape + (1,) * n) * x).sum(-1 - n)

    _pad = lambda self, x: x.unsqueeze(-1 - len(self.event_shape))
    mean = property(lambda self: self._average(self.component_distribution.mean))

    @property
    def variance(self) -> Any:
        parts = self.component_distribution
        return self._average(parts.variance + (parts.mean - self._pad(self.mean)) ** 2)

    def _cdf(self, value: Any) -> Any:
        found = self.component_distribution.cdf(self._pad(value))
        return (found * self.mixture_distribution.probs).sum(-1)

    def _log_prob(self, value: Any) -> Any:
        found = self.component_distribution.log_prob(self._pad(value))
        return (found + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with pf.no_grad():
            parts = self.component_distribution.sample(sample_shape)
            at = self.mixture_distribution.sample(sample_shape)
            at = at.expand(parts.shape[: len(sample_shape) + len(self.batch_shape)])
            dim = at.ndim
            for _ in range(parts.ndim - dim):
                at = at.unsqueeze(-1)
            return parts.gather(dim, at.expand(*parts.shape[:dim], 1, *self.event_shape)).squeeze(
                dim
            )


# --- of numbers


class _Inverted(_Family):
    has_rsample = True
    _draw = lambda self, shape: self._icdf(_uniform(getattr(self, min(self._dims)), shape))


class Normal(_Family, ExponentialFamily, takes="loc:real scale:positive"):
    """The normal distribution of mean `loc` and standard deviation `scale`.

    >>> pf.distributions.Normal(0.0, 1.0).log_prob(pf.tensor(0.0))
    tensor(-0.9189)
    """

    support = real
    has_rsample = True
    mean = mode = property(lambda self: self.loc)
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale**2)
    _z = lambda self, x: (x - self.loc) / self.scale
    _draw = lambda self, shape: self.loc + _normal(self.loc, shape) * self.scale
    _log_prob = lambda self, x: -0.5 * self._z(x) ** 2 - self.scale.log() - HALF_LOG_2PI
    _cdf = lambda self, x: 0.5 * (1 + pf.erf(self._z(x) / math.sqrt(2)))
    _icdf = lambda self, p: self.loc + self.scale * math.sqrt(2) * pf.erfinv(2 * p - 1)
    _entropy = lambda self: 0.5 + HALF_LOG_2PI + self.scale.log()


class Uniform(_Inverted, takes="low:_any high:_any"):
    """The uniform distribution on [low, high).

    >>> pf.distributions.Uniform(0.0, 4.0).mean
    tensor(2.)
    """

    @property
    def arg_constraints(self) -> Any:
        less, more = less_than(self.high), greater_than(self.low)
        return {"low": less, "high": more}

    support = _dependent(lambda self: interval(self.low, self.high), is_discrete=False, event_dim=0)
    _width = property(lambda self: self.high - self.low)
    mean = property(lambda self: (self.low + self.high) / 2)
    mode = property(lambda self: pf.full_like(self.high, nan))
    variance = property(lambda self: self._width**2 / 12)
    _cdf = lambda self, x: ((x - self.low) / self._width).clamp(0, 1)
    _icdf = lambda self, p: self.low + p * self._width
    _entropy = lambda self: self._width.log()

    def _log_prob(self, x: Any) -> Any:
        return ((x >= self.low) & (x < self.high)).to(self.low.dtype).log() - self._entropy()


class Laplace(_Inverted, takes="loc:real scale:positive"):
    """Two exponential distributions back to back, of mean `loc`.

    >>> pf.distributions.Laplace(2.0, 1.0).mean
    tensor(2.)
    """

    support = real
    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale**2)
    _z = Normal._z
    _log_prob = lambda self, x: -(2 * self.scale).log() - self._z(x).abs()
    _cdf = lambda self, x: 0.5 - 0.5 * self._z(x).sign() * (-self._z(x).abs()).expm1()
    _entropy = lambda self: 1 + (2 * self.scale).log()

    def _icdf(self, p: Any) -> Any:
        u = p - 0.5
        return self.loc - self.scale * u.sign() * (-2 * u.abs()).log1p()


class Cauchy(_Inverted, takes="loc:real scale:positive"):
    """The ratio of normal numbers, of median `loc`.

    >>> pf.distributions.Cauchy(2.0, 1.0).mode
    tensor(2.)
    """

    support = real
    mean = property(lambda self: pf.full_like(self.loc, nan))
    mode = property(lambda self: self.loc)
    variance = property(lambda self: pf.full_like(self.loc, inf))
    _z = Normal._z
    _log_prob = lambda self, x: -(pi * self.scale).log() - (self._z(x) ** 2).log1p()
    _cdf = lambda self, x: self._z(x).atan() / pi + 0.5
    _icdf = lambda self, p: self.loc + self.scale * (pi * (p - 0.5)).tan()
    _entropy = lambda self: (4 * pi * self.scale).log()


class Exponential(_Inverted, ExponentialFamily, takes="rate:positive"):
    """The time to the next event.

    >>> pf.distributions.Exponential(0.5).mean
    tensor(2.)
    """

    support = nonnegative
    mean = stddev = property(lambda self: 1 / self.rate)
    mode = property(lambda self: 0 * self.rate)
    variance = property(lambda self: self.rate**-2)
    _log_prob = lambda self, x: self.rate.log() - self.rate * x
    _cdf = lambda self, x: -(-self.rate * x).expm1()
    _icdf = lambda self, p: -(-p).log1p() / self.rate
    _entropy = lambda self: 1 - self.rate.log()


class GeneralizedPareto(_Inverted, takes="loc:real scale:positive concentration:real"):
    """What exceeds a threshold `loc`.

    Args:
        concentration: How heavy its tail is; 0 makes it exponential.

    >>> pf.distributions.GeneralizedPareto(0.0, 1.0, 0.5).mean
    tensor(2.)
    """

    mode = property(lambda self: self.loc)
    _z = Normal._z

    @_dependent(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        k = self.concentration
        return interval(self.loc, pf.where(k < 0, self.loc - self.scale / k, inf))

    def _split(self, many: Any, few: Any) -> Any:
        """`many` of the concentration, or `few` where that is 0."""
        zero = self.concentration.abs() < 1e-8
        return pf.where(zero, few, many(pf.where(zero, 1.0, self.concentration)))

    def _log_prob(self, x: Any) -> Any:
        z = self._z(x)
        return -self.scale.log() - self._split(lambda k: (1 / k + 1) * (k * z).log1p(), z)

    def log_survival_function(self, value: Tensor) -> Any:
        """log(1 - cdf), at `value`."""
        z = self._z(value)
        return -self._split(lambda k: (k * z).log1p() / k, z)

    def log_cdf(self, value: Tensor) -> Any:
        """log(cdf), at `value`."""
        return self._cdf(value).log()

    _cdf = lambda self, x: -self.log_survival_function(x).expm1()

    def _icdf(self, p: Any) -> Any:
        left = (-p).log1p()
        return self.loc + self.scale * self._split(lambda k: (-k * left).expm1() / k, -left)

    @property
    def mean(self) -> Any:
        k = self.concentration
        return pf.where(k < 1, self.loc + self.scale / (1 - k), nan)

    @property
    def variance(self) -> Any:
        k = self.concentration
        return pf.where(k < 0.5, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)), nan)

    _entropy = lambda self: self.scale.log() + self.concentration + 1


class VonMises(_Family, takes="loc:real concentration:positive"):
    """Angles around `loc`, from -π to π; mean and variance are those on the circle.

    >>> pf.distributions.VonMises(2.0, 1.0).mean
    tensor(2.)
    """

    support = real
    mean = mode = property(lambda self: self.loc)
    _i0e = property(lambda self: pf.special.i0e(self.concentration))
    variance = property(lambda self: 1 - pf.special.i1e(self.concentration) / self._i0e)

    def _log_prob(self, x: Any) -> Any:
        return self.concentration * ((x - self.loc).cos() - 1) - (2 * pi * self._i0e).log()

    def _draw(self, shape: Any) -> Any:
        """By Best and Fisher (1979)."""
        k = self.concentration
        tau = 1 + (1 + 4 * k * k).sqrt()
        rho = 2 * k / (tau + (2 * tau).sqrt())
        r = (1 / rho + rho) / 2
        u = _uniform(k, (3, 16, *shape))
        z = (pi * u[0]).cos()
        f = ((1 + r * z) / (r + z)).clamp(-1, 1)
        c = k * (r - f)
        angle = _first(c.log() + 1 - c >= u[1].log(), (u[2] - 0.5).sign() * f.acos())
        return (angle + pi + self.loc) % (2 * pi) - pi


def _first(good: Tensor, tries: Tensor) -> Tensor:
    """Along dim 0, a try that is good."""
    return tries.gather(0, good.to(tries.dtype).argmax(0, keepdim=True)).squeeze(0)


# --- of gamma numbers


class _LogGamma(pf.autograd.Function):
    """By Marsaglia and Tsang (2000), for shapes from 1 on."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Any:
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


def _slope(a: Tensor, log: Tensor) -> Any:
    """d log x / d a at a quantile: ∫ (t / x)^a e^(x - t) (ψ(a) - log t) d log t over a tail."""
    x = log.exp()
    d, w = (x - a).abs(), x * (2 + (x > a)) / 6  # it falls by d s + w s²
    end = 80 / (d + (d * d + 160 * w).sqrt())
    end = pf.where((end > 1) & (x <= a), 1 + 64 / a, end).unsqueeze(-1)
    side = pf.where(x > a, 1.0, -1.0).unsqueeze(-1)
    points, weights = (pf.tensor(v).to(a) for v in np.polynomial.legendre.leggauss(32))
    s = side * end * (points + 1) / 2
    a, x, rest = a.unsqueeze(-1), x.unsqueeze(-1), (log - a.digamma()).unsqueeze(-1)
    return ((a * s - x * s.expm1()).exp() * (rest + s) * weights * side * end / 2).sum(-1)


def _log_gamma(a: Tensor, shape: Any) -> Any:
    """Logarithms of gamma numbers, by those of shapes above 1."""
    a = a.expand(shape)
    less = _uniform(a, shape).log() / a
    return _LogGamma.apply(a + (a < 1).to(a.dtype)) + pf.where(a < 1, less, 0.0)


def _exp(log: Tensor) -> Any:
    return log.exp().clamp(min=pf.finfo(log.dtype).tiny)


class Gamma(_Family, ExponentialFamily, takes="concentration:positive rate:positive"):
    """The gamma distribution.

    >>> pf.distributions.Gamma(2.0, 1.0).mean
    tensor(2.)
    """

    support = nonnegative
    has_rsample = True
    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: (self.concentration - 1).clamp(min=0) / self.rate)
    variance = property(lambda self: self.mean / self.rate)
    _draw = lambda self, shape: _exp(_log_gamma(self.concentration, shape) - self.rate.log())
    _cdf = lambda self, x: pf.special.gammainc(self.concentration, self.rate * x)

    def _log_prob(self, x: Any) -> Any:
        a, rate = self.concentration, self.rate
        return pf.xlogy(a, rate) + pf.xlogy(a - 1, x) - rate * x - a.lgamma()

    def _entropy(self) -> Any:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()


class Chi2(Gamma, takes="df:positive"):
    """Sums of the squares of `df` normal numbers.

    >>> pf.distributions.Chi2(2.0).mean
    tensor(2.)
    """

    concentration = property(lambda self: 0.5 * self.df, doc="Half of `df`.")
    rate = property(lambda self: pf.full_like(self.df, 0.5), doc="A half.")


class StudentT(_Family, takes="df:positive loc:real=0.0 scale:positive=1.0"):
    """Student's t distribution.

    >>> pf.distributions.StudentT(3.0, 2.0).mean
    tensor(2.)
    """

    support = real
    has_rsample = True
    mode = property(lambda self: self.loc)
    mean = property(lambda self: pf.where(self.df > 1, self.loc, nan))
    _z = Normal._z

    @property
    def variance(self) -> Any:
        df = self.df
        found = pf.where(df > 2, self.scale**2 * df / (df - 2), inf)
        return pf.where(df > 1, found, nan)

    def _draw(self, shape: Any) -> Any:
        half = self.df / 2
        wide = (0.5 * (half.log() - _log_gamma(half, shape))).exp()
        return self.loc + self.scale * _normal(half, shape) * wide

    def _log_norm(self) -> Any:
        half = self.df / 2
        gammas = half.lgamma() - (half + 0.5).lgamma()
        return gammas + 0.5 * (pi * self.df).log() + self.scale.log()

    def _log_prob(self, x: Any) -> Any:
        return -0.5 * (self.df + 1) * (self._z(x) ** 2 / self.df).log1p() - self._log_norm()

    def _entropy(self) -> Any:
        half = self.df / 2
        return (half + 0.5) * ((half + 0.5).digamma() - half.digamma()) + self._log_norm()


class FisherSnedecor(_Family, takes="df1:positive df2:positive"):
    """The ratio of the means of `df1` and of `df2` squares.

    >>> pf.distributions.FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    support = positive
    has_rsample = True
    mean = property(lambda self: pf.where(self.df2 > 2, self.df2 / (self.df2 - 2), nan))

    @property
    def mode(self) -> Any:
        m, n = self.df1, self.df2
        return pf.where(m > 2, (m - 2) / m * n / (n + 2), nan)

    @property
    def variance(self) -> Any:
        m, n = self.df1, self.df2
        return pf.where(n > 4, 2 * n**2 * (m + n - 2) / (m * (n - 2) ** 2 * (n - 4)), nan)

    def _draw(self, shape: Any) -> Any:
        above, below = (_log_gamma(df / 2, shape) - df.log() for df in (self.df1, self.df2))
        return _exp(above - below)

    def _log_prob(self, x: Any) -> Any:
        m, n, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        powers = m * ratio.log() + (m - 1) * x.log() - (m + n) * (ratio * x).log1p()
        return powers + (m + n).lgamma() - m.lgamma() - n.lgamma()


class Dirichlet(_Family, ExponentialFamily, takes="concentration:_positives"):
    """Numbers of the last dim that sum to 1.

    >>> pf.distributions.Dirichlet(pf.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    support = simplex
    has_rsample = True
    _total = property(lambda self: self.concentration.sum(-1, keepdim=True))
    mean = property(lambda self: self.concentration / self._total)
    variance = property(lambda self: self.mean * (1 - self.mean) / (self._total + 1))
    _draw = lambda self, shape: _log_gamma(self.concentration, shape).softmax(-1)
    _mean_log = lambda self: self.concentration.digamma() - self._total.digamma()
    _log_prob = lambda self, x: self._cross(x.log())
    _entropy = lambda self: -self._cross(self._mean_log())

    @property
    def mode(self) -> Any:
        a = self.concentration
        more = (a - 1).clamp(min=0)
        corner = F.one_hot(a.argmax(-1), a.shape[-1]).to(a.dtype)
        none = (a <= 1).all(-1, keepdim=True)
        return pf.where(none, corner, more / more.sum(-1, keepdim=True))

    def _cross(self, log: Any) -> Any:
        """The log density, of logarithms."""
        a = self.concentration
        norm = a.lgamma().sum(-1) - a.sum(-1).lgamma()
        return pf.where((a == 1) & (log == -inf), 0.0, (a - 1) * log).sum(-1) - norm


class Beta(_Family, ExponentialFamily, takes="concentration1:positive concentration0:positive"):
    """The beta distribution, of numbers from 0 to 1.

    >>> pf.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """

    support = unit_interval
    has_rsample = True
    _pair = property(lambda self: pf.stack([self.concentration1, self.concentration0], -1))
    _dirichlet = lazy_property(lambda self: Dirichlet(self._pair, validate_args=False))
    mean = property(lambda self: self._dirichlet.mean[..., 0])
    mode = property(lambda self: self._dirichlet.mode[..., 0])
    variance = property(lambda self: self._dirichlet.variance[..., 0])
    _log_prob = lambda self, x: self._dirichlet._log_prob(pf.stack([x, 1 - x], -1))
    _entropy = lambda self: self._dirichlet._entropy()

    def _draw(self, shape: Any) -> Any:
        logs = _log_gamma(self._pair, (*shape, 2))
        return SigmoidTransform()(logs[..., 0] - logs[..., 1])


# --- transformed


class _Derived(_Family, TransformedDistribution):
    base_dist: Any


class LogNormal(_Derived, takes="loc:real scale:positive"):
    """Numbers whose logarithms are normal ones.

    >>> pf.distributions.LogNormal(0.0, 1.0).mode
    tensor(0.3679)
    """

    support = positive
    base_dist = lazy_property(lambda self: Normal(self.loc, self.scale, False))
    transforms = lazy_property(lambda self: [ExpTransform()])
    mean = property(lambda self: (self.loc + self.scale**2 / 2).exp())
    mode = property(lambda self: (self.loc - self.scale**2).exp())
    variance = property(lambda self: (self.scale**2).expm1() * self.mean**2)
    _entropy = lambda self: self.base_dist.entropy() + self.loc


class LogisticNormal(_Derived, takes="loc:real scale:positive"):
    """Numbers of sum 1, of normal ones.

    >>> pf.distributions.LogisticNormal(pf.zeros(2), pf.ones(2)).sample().shape
    pyframe.Size([3])
    """

    support = simplex
    base_dist = lazy_property(lambda s: Independent(Normal(s.loc, s.scale, False), 1))
    transforms = lazy_property(lambda self: [StickBreakingTransform()])

    def _prepare(self, batch: Any, event: Any) -> Any:
        shape = batch or (1,)
        self.loc, self.scale = self.loc.expand(shape), self.scale.expand(shape)
        self._dims = {"loc": 1, "scale": 1}
        return shape[:-1], (shape[-1] + 1,)


class Gumbel(_Derived, takes="loc:real scale:positive"):
    """The largest of many numbers.

    >>> pf.distributions.Gumbel(2.0, 1.0).mode
    tensor(2.)
    """

    support = real
    mean = property(lambda self: self.loc + self.scale * EULER)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: pi / math.sqrt(6) * self.scale)
    variance = property(lambda self: self.stddev**2)
    _z = Normal._z
    _log_prob = lambda self, x: -self._z(x) - (-self._z(x)).exp() - self.scale.log()
    _entropy = lambda self: self.scale.log() + 1 + EULER
    base_dist = lazy_property(lambda self: Uniform(0 * self.loc, 1.0, False))

    @lazy_property
    def transforms(self) -> Any:
        log, scale = ExpTransform().inv, AffineTransform(self.loc, -self.scale)
        return [log, AffineTransform(0, -1.0), log, scale]


class Pareto(_Derived, takes="scale:positive alpha:positive"):
    """Numbers from `scale` on.

    >>> pf.distributions.Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    base_dist = lazy_property(lambda self: Exponential(self.alpha, False))
    transforms = lazy_property(lambda self: [ExpTransform(), AffineTransform(0, self.scale)])
    support = _dependent(lambda self: greater_than_eq(self.scale), is_discrete=False, event_dim=0)
    mode = property(lambda self: self.scale)
    _entropy = lambda self: (self.scale / self.alpha).log() + 1 + 1 / self.alpha

    @property
    def mean(self) -> Any:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def variance(self) -> Any:
        a = self.alpha.clamp(min=2)
        return self.scale**2 * a / ((a - 1) ** 2 * (a - 2))


class Weibull(_Derived, takes="scale:positive concentration:positive"):
    """Powers of exponential numbers.

    >>> pf.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    support = positive
    base_dist = lazy_property(lambda self: Exponential(pf.ones_like(self.scale), False))
    mean = property(lambda self: self.scale * self._moment(1))
    variance = property(lambda self: self.scale**2 * (self._moment(2) - self._moment(1) ** 2))
    _moment = lambda self, n: (1 + n / self.concentration).lgamma().exp()

    @lazy_property
    def transforms(self) -> Any:
        return [PowerTransform(1 / self.concentration), AffineTransform(0, self.scale)]

    @property
    def mode(self) -> Any:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** (1 / k)

    def _entropy(self) -> Any:
        k = self.concentration
        return EULER * (1 - 1 / k) + (self.scale / k).log() + 1


class Kumaraswamy(_Derived, takes="concentration1:positive concentration0:positive"):
    """Numbers from 0 to 1.

    >>> pf.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    support = unit_interval
    base_dist = lazy_property(lambda self: Uniform(0 * self.concentration0, 1.0, False))
    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - self._moment(1) ** 2)

    @lazy_property
    def transforms(self) -> Any:
        outer, inner = (PowerTransform(1 / k) for k in (self.concentration1, self.concentration0))
        return [inner, AffineTransform(1.0, -1.0), outer]

    def _moment(self, n: int) -> Any:
        more, b = 1 + n / self.concentration1, self.concentration0
        return b * (more.lgamma() + b.lgamma() - (more + b).lgamma()).exp()

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        return pf.where((a < 1) | (b < 1), nan, ((a - 1) / (a * b - 1)) ** (1 / a))

    def _entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        return 1 - 1 / b + (1 - 1 / a) * ((b + 1).digamma() + EULER) - (a * b).log()


class InverseGamma(_Derived, takes="concentration:positive rate:positive"):
    """Reciprocals of gamma numbers.

    >>> pf.distributions.InverseGamma(2.0, 2.0).mean
    tensor(2.)
    """

    support = positive
    base_dist = lazy_property(lambda self: Gamma(self.concentration, self.rate, False))
    transforms = lazy_property(lambda self: [PowerTransform(-pf.ones_like(self.rate))])
    mode = property(lambda self: self.rate / (self.concentration + 1))

    @property
    def mean(self) -> Any:
        a = self.concentration
        return pf.where(a > 1, self.rate / (a - 1), inf)

    @property
    def variance(self) -> Any:
        a = self.concentration
        return pf.where(a > 2, self.rate**2 / ((a - 1) ** 2 * (a - 2)), inf)

    def _entropy(self) -> Any:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class _Half(_Derived):
    support: Any = nonnegative
    transforms = lazy_property(lambda self: [AbsTransform()])
    mode = property(lambda self: 0 * self.scale)
    _cdf = lambda self, x: 2 * self.base_dist.cdf(x) - 1
    _icdf = lambda self, p: self.base_dist.icdf((p + 1) / 2)
    _entropy = lambda self: self.base_dist.entropy() - math.log(2)
    _log_prob = lambda self, x: pf.where(x >= 0, self.base_dist._log_prob(x) + math.log(2), -inf)


class HalfNormal(_Half, takes="scale:positive"):
    """Absolute values of normal numbers.

    >>> pf.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    base_dist = lazy_property(lambda self: Normal(0.0, self.scale, False))
    mean = property(lambda self: self.scale * math.sqrt(2 / pi))
    variance = property(lambda self: self.scale**2 * (1 - 2 / pi))


class HalfCauchy(_Half, takes="scale:positive"):
    """Absolute values of Cauchy's.

    >>> pf.distributions.HalfCauchy(1.0).mode
    tensor(0.)
    """

    base_dist = lazy_property(lambda self: Cauchy(0.0, self.scale, False))
    mean = variance = property(lambda self: pf.full_like(self.scale, inf))


# --- discrete


_ONE = "probs:unit_interval=None logits:real=None"
_PROBABILITIES = "probs:simplex=None logits:real_vector=None"
_COVARIANCE = """covariance_matrix:positive_definite=None precision_matrix:positive_definite=None
scale_tril:lower_cholesky=None""".replace("\n", " ")


class _Odds(_Family):
    _binary = True
    logits = lazy_property(lambda self: probs_to_logits(self.probs, self._binary))
    probs = lazy_property(lambda self: logits_to_probs(self.logits, self._binary))
    _param = property(lambda self: self.probs if "probs" in self._dims else self.logits)
    param_shape = property(lambda self: self._param.shape, doc="The shape of the parameter.")
    _bits = lambda self: F.softplus(self.logits) - self.probs * self.logits


class Bernoulli(_Odds, ExponentialFamily, takes=_ONE):
    """0 or 1, which has probability `probs`.

    >>> pf.distributions.Bernoulli(0.25).log_prob(pf.tensor(1.0))
    tensor(-1.3863)
    """

    support = boolean
    has_enumerate_support = True
    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))
    _draw = lambda self, shape: self.probs.expand(shape).bernoulli()
    _log_prob = lambda self, x: x * self.logits - F.softplus(self.logits)
    _entropy = _Odds._bits
    _all_values = lambda self: pf.arange(2).to(self._param)

    @property
    def mode(self) -> Any:
        p = self.probs
        return pf.where(p == 0.5, nan, (p > 0.5).to(p.dtype))


class Geometric(_Odds, takes=_ONE):
    """How many failures there are before the first success.

    >>> pf.distributions.Geometric(0.25).mean
    tensor(3.)
    """

    support = nonnegative_integer
    mean = property(lambda self: 1 / self.probs - 1)
    mode = property(lambda self: 0 * self.probs)
    variance = property(lambda self: self.mean / self.probs)
    _log_prob = lambda self, x: pf.special.xlog1py(x, -self.probs) + self.probs.log()
    _entropy = lambda self: self._bits() / self.probs
    _draw = lambda self, shape: (_uniform(self.probs, shape).log() / (-self.probs).log1p()).floor()


class Binomial(_Odds, takes=f"total_count:nonnegative_integer=1 {_ONE}"):
    """How many of `total_count` trials succeed.

    >>> pf.distributions.Binomial(4, pf.tensor(0.5)).mean
    tensor(2.)
    """

    has_enumerate_support = True
    support = _dependent(
        lambda s: integer_interval(0, s.total_count), is_discrete=True, event_dim=0
    )
    mean = property(lambda self: self.total_count * self.probs)
    mode = property(lambda s: ((s.total_count + 1) * s.probs).floor().clamp(max=s.total_count))
    variance = property(lambda self: self.mean * (1 - self.probs))
    _draw = lambda s, shape: pf.binomial(s.total_count.expand(shape), s.probs.expand(shape))

    def _log_prob(self, x: Any) -> Any:
        n = self.total_count
        ways = (n + 1).lgamma() - (x + 1).lgamma() - (n - x + 1).lgamma()
        return ways + x * self.logits - n * F.softplus(self.logits)

    def _entropy(self) -> Any:
        found = self._log_prob(self.enumerate_support(False))
        return -(found.exp() * found).sum(0)

    def _all_values(self) -> Any:
        n = int(self.total_count.max())
        if int(self.total_count.min()) != n:
            raise NotImplementedError("total_count differs within the batch")
        return pf.arange(1 + n).to(self._param)


class NegativeBinomial(_Odds, takes="total_count:nonnegative probs:_odds=None logits:real=None"):
    """How many successes there are before `total_count` failures.

    >>> pf.distributions.NegativeBinomial(2.0, 0.5).mean
    tensor(2.)
    """

    support = nonnegative_integer
    mean = property(lambda self: self.total_count * self.logits.exp())
    mode = property(lambda s: ((s.total_count - 1) * s.logits.exp()).floor().clamp(min=0))
    variance = property(lambda self: self.mean / (-self.logits).sigmoid())

    def _draw(self, shape: Any) -> Any:
        n = self.total_count
        rate = _exp(_log_gamma(pf.where(n > 0, n, 1.0), shape) + self.logits)
        return pf.poisson(pf.where(n > 0, rate, 0.0))

    def _log_prob(self, x: Any) -> Any:
        n = self.total_count
        ways = pf.where(n + x == 0, 0.0, (n + x).lgamma() - (1 + x).lgamma() - n.lgamma())
        return ways + n * F.logsigmoid(-self.logits) + x * F.logsigmoid(self.logits)


class Poisson(_Family, ExponentialFamily, takes="rate:nonnegative"):
    """How many events there are.

    Args:
        rate: The mean.

    >>> pf.distributions.Poisson(2.0).mean
    tensor(2.)
    """

    support = nonnegative_integer
    mean = variance = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())
    _draw = lambda self, shape: pf.poisson(self.rate.expand(shape))
    _log_prob = lambda self, x: pf.xlogy(x, self.rate) - self.rate - (x + 1).lgamma()


class ContinuousBernoulli(_Odds, _Inverted, ExponentialFamily, takes=f"{_ONE} lims=(0.499,0.501)"):
    """Numbers from 0 to 1, of an exponential density.

    Args:
        lims: Between these `probs` there is a series.

    >>> pf.distributions.ContinuousBernoulli(0.5).mean
    tensor(0.5000)
    """

    support = unit_interval
    probs = lazy_property(lambda self: clamp_probs(self.logits.sigmoid()))

    def _split(self, many: Any, few: Any) -> Any:
        """`many` of the logits, or `few` where `probs` is within `lims`."""
        eta = probs_to_logits(self.probs, True)
        near = (self.probs > self.lims[0]) & (self.probs <= self.lims[1])
        return pf.where(near, few(eta), many(pf.where(near, 1.0, eta)))

    _log_norm = lambda self: self._split(
        lambda t: (t / (t / 2).tanh()).log(), lambda t: math.log(2) + t**2 / 12 - 7 * t**4 / 1440
    )
    mean = property(
        lambda self: self._split(
            lambda t: -1 / (-t).expm1() - 1 / t, lambda t: 0.5 + t / 12 - t**3 / 720
        )
    )
    variance = property(
        lambda self: self._split(
            lambda t: t**-2 - 0.25 / (t / 2).sinh() ** 2,
            lambda t: 1 / 12 - t**2 / 240 + t**4 / 6048,
        )
    )
    _log_prob = lambda self, x: Bernoulli._log_prob(self, x) + self._log_norm()
    _cdf = lambda self, x: self._split(lambda t: (t * x).expm1() / t.expm1(), lambda t: x).clamp(
        0, 1
    )
    _icdf = lambda self, p: self._split(lambda t: (p * t.expm1()).log1p() / t, lambda t: p)
    _entropy = lambda self: -self._log_prob(self.mean)


class _Choice(_Odds):
    _binary = False

    def _prepare(self, batch: Any, event: Any) -> Any:
        if "probs" in self._dims:
            self.probs = self.probs / self.probs.sum(-1, keepdim=True)
        else:
            self.logits = self.logits - self.logits.logsumexp(-1, keepdim=True)
        self._num_events = self.param_shape[-1]
        return batch, event

    def _indices(self, shape: Any) -> Any:
        rows = self.probs.detach().reshape(-1, self._num_events)
        return rows.multinomial(math.prod(shape) // len(rows), True).t().reshape(shape)

    _hot = lambda self, index: F.one_hot(index, self._num_events).to(self._param.dtype)

    def _surprise(self) -> Any:
        return -(self.logits.clamp(min=pf.finfo(self.logits.dtype).min) * self.probs).sum(-1)


class Categorical(_Choice, takes=_PROBABILITIES):
    """A class of the last dim's; `probs` are scaled to sum to 1.

    >>> pf.distributions.Categorical(pf.tensor([1.0, 3.0])).log_prob(pf.tensor(1))
    tensor(-0.2877)
    """

    has_enumerate_support = True
    support = _dependent(
        lambda self: integer_interval(0, self._num_events - 1),
        is_discrete=True, event_dim=0,
    )  # fmt: skip
    mean = variance = property(lambda self: pf.full_like(self._param[..., 0], nan))
    mode = property(lambda self: self.probs.argmax(-1))
    _entropy = _Choice._surprise
    _all_values = lambda self: pf.arange(self._num_events, device=self._param.device)

    _draw = _Choice._indices

    def _log_prob(self, x: Any) -> Any:
        shape = pf.broadcast_shapes(x.shape, self.batch_shape)
        logits = self.logits.expand(*shape, self._num_events)
        return logits.gather(-1, x.long().expand(shape).unsqueeze(-1)).squeeze(-1)


class OneHotCategorical(_Choice, takes=_PROBABILITIES):
    """A vector with one 1, the others 0.

    >>> pf.distributions.OneHotCategorical(pf.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    support = one_hot
    has_enumerate_support = True
    mean = property(lambda self: self.probs)
    mode = property(lambda self: self._hot(self.probs.argmax(-1)))
    variance = property(lambda self: self.probs * (1 - self.probs))
    _log_prob = lambda self, x: pf.where(x == 1, self.logits, 0.0).sum(-1)
    _entropy = _Choice._surprise
    _all_values = lambda self: pf.eye(self._num_events).to(self._param)

    _draw = lambda self, shape: self._hot(self._indices(shape[:-1]))


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical with the gradient of `probs`.

    >>> p = pf.tensor([1.0, 3.0], requires_grad=True)
    >>> pf.distributions.OneHotCategoricalStraightThrough(p).rsample().requires_grad
    True
    """

    has_rsample = True

    _draw = lambda self, shape: super()._draw(shape) + (self.probs - self.probs.detach())


class Multinomial(_Choice, takes=f"total_count=1 {_PROBABILITIES}"):
    """How often each class comes.

    Args:
        total_count: Of how many draws.

    >>> pf.distributions.Multinomial(4, pf.tensor([1.0, 3.0])).mean
    tensor([1., 3.])
    """

    support = _dependent(lambda self: _Multinomial(self.total_count), is_discrete=True, event_dim=1)
    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.mean * (1 - self.probs))

    def _prepare(self, batch: Any, event: Any) -> Any:
        if not isinstance(self.total_count, int):
            raise NotImplementedError("total_count must be an int")
        return super()._prepare(batch, event)

    _draw = lambda self, shape: self._hot(self._indices((self.total_count, *shape[:-1]))).sum(0)

    def _log_prob(self, x: Any) -> Any:
        powers = pf.where(x == 0, 0.0, self.logits * x)
        return (x.sum(-1) + 1).lgamma() + (powers - (x + 1).lgamma()).sum(-1)

    def _entropy(self) -> Any:
        n = self.total_count
        counts = Binomial(n, self.probs, validate_args=False)
        x = counts.enumerate_support(False)
        means = (counts._log_prob(x).exp() * (x + 1).lgamma()).sum((0, -1))
        return n * self._surprise() - math.lgamma(n + 1) + means


class LogitRelaxedBernoulli(_Odds, takes=f"temperature {_ONE}"):
    """The logits of what RelaxedBernoulli draws.

    >>> pf.distributions.relaxed_bernoulli.LogitRelaxedBernoulli(1.0, 0.5).has_rsample
    True
    """

    support = real
    has_rsample = True

    def _prepare(self, batch: Any, event: Any) -> Any:
        self.temperature = as_like(self.temperature, self._param)
        return batch, event

    def _draw(self, shape: Any) -> Any:
        noise, probs = _uniform(self._param, shape), self.probs
        return (probs_to_logits(noise, True) + probs_to_logits(probs, True)) / self.temperature

    def _log_prob(self, x: Any) -> Any:
        z = self.logits - x * self.temperature
        return self.temperature.log() + z - 2 * F.softplus(z)


class RelaxedBernoulli(_Derived, _Odds, takes=f"temperature {_ONE}"):
    """Numbers near 0 or 1.

    >>> pf.distributions.RelaxedBernoulli(pf.tensor(1.0), 0.5).log_prob(pf.tensor(0.5))
    tensor(0.)
    """

    support = unit_interval
    transforms = lazy_property(lambda self: [SigmoidTransform()])
    base_dist = lazy_property(
        lambda self: LogitRelaxedBernoulli(self.temperature, None, self.logits, False)
    )


class ExpRelaxedCategorical(_Choice, takes=f"temperature {_PROBABILITIES}"):
    """The logarithms of what RelaxedOneHotCategorical draws.

    >>> D = pf.distributions.relaxed_categorical
    >>> D.ExpRelaxedCategorical(1.0, pf.ones(3)).sample().shape
    pyframe.Size([3])
    """

    support = real_vector
    has_rsample = True

    def _prepare(self, batch: Any, event: Any) -> Any:
        self.temperature = as_like(self.temperature, self._param)
        return super()._prepare(batch, event)

    def _draw(self, shape: Any) -> Any:
        noise = -(-_uniform(self._param, shape).log()).log()
        return ((self.logits + noise) / self.temperature).log_softmax(-1)

    def _log_prob(self, x: Any) -> Any:
        n = self._num_events
        scores = (self.logits - x * self.temperature).log_softmax(-1)
        return scores.sum(-1) + math.lgamma(n) + (n - 1) * self.temperature.log()


class RelaxedOneHotCategorical(_Derived, _Choice, takes=f"temperature {_PROBABILITIES}"):
    """Numbers of sum 1, near one 1.

    >>> D = pf.distributions
    >>> D.RelaxedOneHotCategorical(pf.tensor(1.0), pf.ones(3)).sample().shape
    pyframe.Size([3])
    """

    support = simplex
    transforms = lazy_property(lambda self: [ExpTransform()])
    base_dist = lazy_property(
        lambda self: ExpRelaxedCategorical(self.temperature, None, self.logits, False)
    )


# --- of vectors


def _inverse(lower: Tensor) -> Tensor:
    return pf.linalg.solve_triangular(lower, pf.eye(lower.shape[-1]).to(lower), upper=False)


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _log_diagonal(lower: Tensor) -> Tensor:
    return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class _Rooted(_Family):
    covariance_matrix = lazy_property(lambda self: self.scale_tril @ self.scale_tril.mT)
    precision_matrix = lazy_property(lambda self: pf.cholesky_inverse(self.scale_tril))
    _half_log_det = lambda self: _log_diagonal(self.scale_tril)

    @lazy_property
    def scale_tril(self) -> Any:
        if "precision_matrix" not in self._dims:
            return pf.linalg.cholesky(self.covariance_matrix)
        lower = pf.linalg.cholesky(self.precision_matrix.flip((-2, -1)))
        return _inverse(lower.flip((-2, -1)).mT)


class MultivariateNormal(_Rooted, takes=f"loc:real_vector {_COVARIANCE}"):
    """Normal vectors of mean `loc`, with a covariance.

    >>> pf.distributions.MultivariateNormal(pf.zeros(2), pf.eye(2)).log_prob(pf.zeros(2))
    tensor(-1.8379)
    """

    support = real_vector
    has_rsample = True
    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: (self._root**2).sum(-1))
    _root = property(lambda self: self.scale_tril)
    _squares = lambda self, x: (_times(_inverse(self.scale_tril), x) ** 2).sum(-1)
    _log_prob = lambda self, x: (
        0.5 * (self._event_shape[0] - self._squares(x - self.loc)) - (self._entropy())
    )

    _entropy = lambda self: self._event_shape[0] * (0.5 + HALF_LOG_2PI) + self._half_log_det()

    def _draw(self, shape: Any) -> Any:
        noise = _normal(self.loc, (*shape[:-1], self._root.shape[-1]))
        return self.loc + _times(self._root, noise)


class LowRankMultivariateNormal(
    _Rooted, takes="loc:real_vector cov_factor:_matrix cov_diag:_positives"
):
    """Normal vectors of covariance W Wᵀ + D, of `cov_factor` and `cov_diag`.

    >>> D = pf.distributions
    >>> D.LowRankMultivariateNormal(pf.zeros(3), pf.ones(3, 1), pf.ones(3)).variance
    tensor([2., 2., 2.])
    """

    support = real_vector
    has_rsample = True
    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: (self.cov_factor**2).sum(-1) + self.cov_diag)
    covariance_matrix = lazy_property(lambda self: self._root @ self._root.mT)
    _root = property(lambda self: pf.cat([self.cov_factor, self.cov_diag.sqrt().diag_embed()], -1))
    _squares = MultivariateNormal._squares
    _log_prob = MultivariateNormal._log_prob
    _entropy = MultivariateNormal._entropy
    _draw = MultivariateNormal._draw


class Wishart(_Rooted, ExponentialFamily, takes=f"df:positive {_COVARIANCE}"):
    """Sums of x xᵀ of `df` normal vectors x.

    >>> pf.distributions.Wishart(pf.tensor(3.0), pf.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = positive_definite
    has_rsample = True
    _n = property(lambda self: self._event_shape[-1])
    _wide = property(lambda self: self.df[..., None, None])
    mean = property(lambda self: self._wide * self.covariance_matrix)

    def _prepare(self, batch: Any, event: Any) -> Any:
        least = event[-1] - 1
        if (self.df <= least).any():
            raise ValueError(f"df={self.df} must be greater than {least}")
        return batch, event

    @property
    def mode(self) -> Any:
        left = self._wide - self._n - 1
        return pf.where(left > 0, left, nan) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        v = self.covariance_matrix
        d = v.diagonal(dim1=-2, dim2=-1)
        return self._wide * (v**2 + d.unsqueeze(-1) * d.unsqueeze(-2))

    _halves = property(lambda self: (self.df.unsqueeze(-1) - pf.arange(self._n).to(self.df)) / 2)

    def _draw(self, shape: Any) -> Any:
        """By Bartlett's decomposition."""
        chi = (0.5 * (_log_gamma(self._halves, shape[:-1]) + math.log(2))).exp()
        lower = self.scale_tril @ (_normal(self.df, shape).tril(-1) + chi.diag_embed())
        return lower @ lower.mT

    def _cross(self, log_det: Any, mean: Any) -> Any:
        """The log density, of log |x| and x."""
        log = self._half_log_det() + self._n * math.log(2) / 2
        norm = self.df * log + pf.mvlgamma(self.df / 2, self._n)
        trace = (self.precision_matrix * mean).sum((-2, -1))
        return ((self.df - self._n - 1) * log_det - trace) / 2 - norm

    def _mean_log_det(self) -> Any:
        half = self._half_log_det()
        return self._halves.digamma().sum(-1) + self._n * math.log(2) + 2 * half

    _log_prob = lambda self, x: self._cross(pf.linalg.slogdet(x)[1], x)
    _entropy = lambda self: -self._cross(self._mean_log_det(), self.mean)


class LKJCholesky(_Family, takes="dim concentration:positive=1.0"):
    """Cholesky factors of correlation matrices.

    Args:
        dim: The number of rows, at least 2.

    >>> pf.distributions.LKJCholesky(3).sample().shape
    pyframe.Size([3, 3])
    """

    support = corr_cholesky

    def _prepare(self, batch: Any, event: Any) -> Any:
        if self.dim < 2:
            raise ValueError(f"dim={self.dim} must be at least 2")
        return batch, (self.dim, self.dim)

    def _draw(self, shape: Any) -> Any:
        """Row by row a direction, and how far."""
        c = self.concentration.unsqueeze(-1)
        row = pf.arange(1, self.dim).to(c) / 2
        far = Beta(row, c + (self.dim - 1) / 2 - row, False)._draw((*shape[:-2], self.dim - 1))
        way = _normal(c, shape)[..., 1:, :].tril()
        w = F.pad(way / way.norm(dim=-1, keepdim=True) * far.sqrt().unsqueeze(-1), (0, 0, 1, 0))
        left = (1 - (w**2).sum(-1)).clamp(min=pf.finfo(w.dtype).tiny)
        return w + left.sqrt().diag_embed()

    def _log_prob(self, x: Any) -> Any:
        n, c = self.dim - 1, self.concentration
        order = pf.arange(n - 1, -1, -1).to(c) + 2 * (c - 1).unsqueeze(-1)
        powers = (order * x.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1)
        top = c + n / 2
        return powers + n * (top.lgamma() - math.log(pi) / 2) - pf.mvlgamma(top - 0.5, n)


_RULES: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Any:
    """Have a function of p and q compute the divergence; a decorator.

    Args:
        type_p, type_q: The classes of p and q.

    >>> D = pf.distributions
    >>> rule = D.register_kl(D.Cauchy, D.Normal)(lambda p, q: float("inf"))
    """

    def register(rule: Any) -> Any:
        _RULES[type_p, type_q] = rule
        return rule

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p ‖ q): the mean under p of log p - log q, by the formula for their classes, or bases.

    Args:
        p, q: The distributions.

    >>> p, q = pf.distributions.Normal(0.0, 1.0), pf.distributions.Normal(1.0, 1.0)
    >>> pf.distributions.kl_divergence(p, q)
    tensor(0.5000)
    """
    for pair in ((a, b) for a in type(p).__mro__ for b in type(q).__mro__):
        if pair in _RULES:
            return _RULES[pair](p, q)
    return _none(p, q)


def _none(p: Any, q: Any) -> Any:
    raise NotImplementedError(
        f"kl_divergence: none of {type(p).__name__} and {type(q).__name__}: register_kl one"
    )


# The mean of -log q under p, minus p's entropy, is the divergence: few means of p make it.

_REAL: Any = lambda p: (-inf, inf)
_POSITIVE: Any = lambda p: (0.0, inf)
_UNIT: Any = lambda p: (0.0, 1.0)


def _mean_log(low: Any, high: Any) -> Any:
    return (pf.xlogy(high, high) - pf.xlogy(low, low)) / (high - low) - 1


def _exp_uniform(p: Any, t: Any) -> Any:
    return ((-p.low * t).exp() - (-p.high * t).exp()) / ((p.high - p.low) * t)


def _abs_normal(p: Any, m: Any) -> Any:
    d, s = p.loc - m, p.scale
    z = d / (s * math.sqrt(2))
    return s * math.sqrt(2 / math.pi) * (-z * z).exp() + d * pf.erf(z)


# p: its ends; the means of log x, log (1 - x), exp(-t x) and |x - m|
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
    Pareto: (lambda p: (p.scale, inf), {"log": lambda p: p.scale.log() + 1 / p.alpha}),
    Uniform: (lambda p: (p.low, p.high), {
        "log": lambda p: _mean_log(p.low, p.high),
        "log1m": lambda p: _mean_log(1 - p.high, 1 - p.low),
        "exp": _exp_uniform,
    }),
}  # fmt: skip
# q: which means it needs; the mean of -log q
_CROSS: dict[type, tuple[str, Any]] = {
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
    return pf.full_like(p.mean, inf).expand(shape)


def _register(kind_p: type, kind_q: type) -> None:
    (ends_p, has), ends_q, (needs, cross) = _MEANS[kind_p], _MEANS[kind_q][0], _CROSS[kind_q]

    @register_kl(kind_p, kind_q)
    def rule(p: Any, q: Any) -> Tensor:
        (a, b), (c, d), found = ends_p(p), ends_q(q), _inf(p, q)
        outside = pf.as_tensor((a < c) | (b > d), device=found.device)
        if {*needs.split()} <= {*has}:
            means = ((lambda *given, n=n: has[n](p, *given)) for n in needs.split())
            found = cross(q, p, *means) - p.entropy()
        elif not outside.all():
            _none(p, q)
        return pf.where(outside, inf, found)


for _p in _MEANS:
    for _q in _CROSS:
        _register(_p, _q)


def _same(p: Any, q: Any, what: str) -> None:
    if getattr(p, what) != getattr(q, what):
        _none(p, q)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    never = (q.probs == 0) & (p.probs > 0) | (q.probs == 1) & (p.probs < 1)
    return pf.where(never, inf, -q._log_prob(p.probs) - p.entropy())


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    if (p.total_count < q.total_count).any():
        _none(p, q)
    one, other = (Bernoulli(x.probs, validate_args=False) for x in (p, q))
    more = p.total_count > q.total_count
    return pf.where(more, inf, p.total_count * _bernoulli(one, other))


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = pf.where(q.probs == 0, inf, p.probs * (p.logits - q.logits))
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
    _same(p, q, "event_shape")
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


# --- names

__all__ = [
    n for n, v in vars().items()
    if getattr(v, "__module__", "") == __name__ and n[0].isupper() and n not in _constraints
]  # fmt: skip
_names = {n: v for n, v in vars().items() if n[0] != "_"}
_names |= {"_InverseTransform": _InverseTransform, "_sum_rightmost": sum_rightmost}
# PyTorch has a module for each class.
_modules = {re.sub("(?!^)(?=[A-Z][a-z])", "_", n).lower() for n in __all__ if "Tr" not in n}
_others = """constraints exp_family fishersnedecor kl lowrank_multivariate_normal
relaxed_categorical studentT transforms transformed_distribution utils"""
for _name in {*_others.split()} | _modules:
    _module = sys.modules[f"{__name__}.{_name}"] = ModuleType(f"{__name__}.{_name}", __doc__)
    vars(_module).update(_names, __spec__=__spec__)
    globals()[_name] = _module
vars(sys.modules[f"{__name__}.constraints"])["__all__"] = _constraints
__all__ += ["biject_to", "identity_transform", "kl_divergence", "register_kl", "transform_to"]
