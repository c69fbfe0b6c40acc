"""Sets of values: what parameters must be, and what samples are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyframe as pf


class Constraint:
    """A set of values, whose last `event_dim` dims are one value; `is_discrete` if it is countable.

    >>> pf.distributions.constraints.positive.check(pf.tensor([1.0, -1.0]))
    tensor([ True, False])
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Whether each value is in the set."""
        raise NotImplementedError(f"{type(self).__name__}.check")

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

    def check(self, value: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property that on the class itself stands for a set that is not known yet."""

    def __init__(self, fn: Any = None, **told: Any) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, **told)

    def __call__(self, fn: Any) -> Any:  # type: ignore[override]
        return _DependentProperty(fn, **self._told)


def is_dependent(constraint: Any) -> bool:
    """Whether other values decide what is in `constraint`."""
    return isinstance(constraint, _Dependent)


def _all(good: Any, dims: int, value: Any) -> Any:
    if min(good.ndim - dims, dims) < 0:
        raise ValueError(f"Expected value.dim() >= {dims} but got {value.dim()}")
    return good.reshape(*good.shape[: good.ndim - dims], -1).all(-1) if dims else good


class MixtureSameFamilyConstraint(Constraint):
    """What each component of a mixture may give, the set `base_constraint`."""

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
    def check(self, value: Any) -> Any:
        return value == value


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _OneHot(_Boolean):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return super().check(value).all(-1) & (value.sum(-1) == 1)


class _Above(Constraint):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _Below(Constraint):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _GreaterThan(_Above):
    def check(self, value: Any) -> Any:
        return value > self.lower_bound


class _GreaterThanEq(_Above):
    def check(self, value: Any) -> Any:
        return value >= self.lower_bound


class _LessThan(_Below):
    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _Interval(Constraint):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Any) -> Any:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    def check(self, value: Any) -> Any:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & super().check(value)


class _IntegerGreaterThan(_GreaterThanEq):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & super().check(value)


class _Multinomial(_Below):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return (value.tril() == value).all(-1).all(-1)


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
    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = [*cseq], dim

    is_discrete = property(lambda self: any(c.is_discrete for c in self.cseq))
    _dims = property(lambda self: max(c.event_dim for c in self.cseq))
    event_dim = property(lambda self: self._dims + (self.dim + self._dims < 0))

    def check(self, value: Any) -> Any:
        parts = zip(self.cseq, value.unbind(self.dim), strict=True)
        return pf.stack([c.check(v) for c, v in parts], self.dim)


class _Cat(_Stack):
    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Any = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else [*lengths]

    event_dim = _Stack._dims

    def check(self, value: Any) -> Any:
        parts = zip(self.cseq, value.split(self.lengths, self.dim), strict=True)
        return pf.cat([c.check(v) for c, v in parts], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
# parameters of distributions alone
_any = _Dependent(event_dim=0)
_matrix = independent(real, 2)
_positives = independent(positive, 1)
_odds = _HalfOpenInterval(0.0, 1.0)

__all__ = [n for n, v in vars().items() if n[0] != "_" and getattr(v, "__module__", "") == __name__]
