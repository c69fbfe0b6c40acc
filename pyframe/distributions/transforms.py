"""Functions that have an inverse and log |det J|, and those that lead to what a constraint says."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import pyframe as pf
from pyframe.distributions import constraints
from pyframe.distributions.distribution import (
    Distribution, broadcast_all, lazy_property, sum_rightmost, tell, tril_matrix_to_vec,
    vec_to_tril_matrix,
)  # fmt: skip
from pyframe.nn import functional as F
from pyframe.tensor import Size, Tensor

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform",
    "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip
_dependent = constraints.dependent_property


def _few(shape: Any, least: int = 1) -> None:
    if len(shape) < least:
        raise ValueError(f"Too few dimensions on input: expected {least}, got {tuple(shape)}")


class Transform:
    """A function of tensors, from `domain` to `codomain`, with an inverse, `inv`.

    A class of one's own writes `_call`, `_inverse` and, if it is `bijective`,
    `log_abs_det_jacobian`.

    >>> pf.distributions.ExpTransform().inv(pf.tensor(1.0))
    tensor(0.)
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init_subclass__(cls) -> None:
        tell(cls, ["cache_size"])

    def __init__(self, cache_size: int = 0) -> None:
        self._keep(cache_size)

    def _keep(self, cache_size: int) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Transform | None = None
        self._cached_x_y: tuple[Any, Any] = None, None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_inv": None, "_cached_x_y": (None, None)}

    @property
    def event_dim(self) -> int:
        """How many last dims are one value."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse, whose own inverse is this one."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    @property
    def sign(self) -> Any:
        """1 if it grows, -1 if it falls."""
        raise NotImplementedError(f"{type(self).__name__}.sign")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same with a cache, or without.

        Args:
            cache_size: 1 or 0.
        """
        if self._cache_size == cache_size:
            return self
        new = copy.copy(self)
        new._keep(cache_size)
        if cache_size:
            for name, value in vars(self).items():
                if isinstance(value, Transform) and name != "_inv":
                    vars(new)[name] = value.with_cache(cache_size)
                elif isinstance(value, list) and value and isinstance(value[0], Transform):
                    vars(new)[name] = [part.with_cache(cache_size) for part in value]
        return new

    def _fields(self) -> dict[str, Any]:
        hidden = ("_inv", "_cache_size", "_cached_x_y")
        return {n: v for n, v in vars(self).items() if n not in hidden}

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        pairs = zip(self._fields().values(), other._fields().values(), strict=False)
        return all(
            a is b or (bool((a == b).all()) if isinstance(a == b, Tensor) else a == b)
            for a, b in pairs
        )

    __hash__ = object.__hash__

    def __call__(self, x: Any) -> Any:
        """y of x."""
        if self._cache_size and x is self._cached_x_y[0]:
            return self._cached_x_y[1]
        y = self._call(x)
        if self._cache_size:
            self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        if self._cache_size and y is self._cached_x_y[1]:
            return self._cached_x_y[0]
        x = self._inverse(y)
        if self._cache_size:
            self._cached_x_y = x, y
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._call")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._inverse")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of |det dy/dx|.

        Args:
            x, y: A value, and what it becomes.
        """
        raise NotImplementedError(f"{type(self).__name__}.log_abs_det_jacobian")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Any) -> Any:
        """The shape of what a value of `shape` becomes."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of what becomes a value of `shape`."""
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

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._of.with_cache(cache_size).inv

    def __call__(self, x: Any) -> Any:
        return self._of._inv_call(x)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._of.log_abs_det_jacobian(y, x)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._of!r})"

    def forward_shape(self, shape: Any) -> Any:
        return self._of.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._of.forward_shape(shape)


def _outer(parts: list[Transform], into: str, out: str) -> Any:
    """The set that a chain begins with, with the dims that the parts behind it take together."""
    if not parts:
        return constraints.real
    found = getattr(parts[0], into)
    dims = getattr(parts[-1], out).event_dim
    for part in reversed(parts):
        own = getattr(part, into).event_dim
        dims = max(dims + own - getattr(part, out).event_dim, own)
    more = dims - found.event_dim
    return constraints.independent(found, more) if more else found


class ComposeTransform(Transform):
    """One transform after another.

    Args:
        parts: The transforms, the first first.

    >>> D = pf.distributions
    >>> D.ComposeTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0)])(pf.tensor(0.0))
    tensor(3.)
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) if cache_size else part for part in parts]

    domain = _dependent(lambda s: _outer(s.parts, "domain", "codomain"), is_discrete=False)
    codomain = _dependent(lambda s: _outer(s.parts[::-1], "codomain", "domain"), is_discrete=False)
    bijective = property(lambda self: all(p.bijective for p in self.parts))
    sign = property(lambda self: math.prod(p.sign for p in self.parts))

    @property
    def inv(self) -> Transform:
        if self._inv is None:
            self._inv = ComposeTransform([p.inv for p in self.parts[::-1]])
            self._inv._inv = self
        return self._inv

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return pf.zeros_like(x)
        xs = [x]
        for part in self.parts[:-1]:
            xs.append(part(xs[-1]))
        dims = self.domain.event_dim
        total: Any = 0
        for part, a, b in zip(self.parts, xs, [*xs[1:], y], strict=True):
            found = part.log_abs_det_jacobian(a, b)
            total = total + sum_rightmost(found, dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in self.parts[::-1]:
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        parts = ",\n    ".join(map(repr, self.parts))
        return f"ComposeTransform(\n    {parts}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Another transform, more dims of which are one value.

    Args:
        base_transform: That other one.

    >>> D = pf.distributions
    >>> x = pf.zeros(3)
    >>> D.IndependentTransform(D.ExpTransform(), 1).log_abs_det_jacobian(x, x.exp())
    tensor(0.)
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def _more(self, constraint: Any) -> Any:
        return constraints.independent(constraint, self.reinterpreted_batch_ndims)

    domain = _dependent(lambda self: self._more(self.base_transform.domain), is_discrete=False)
    codomain = _dependent(lambda self: self._more(self.base_transform.codomain), is_discrete=False)
    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)

    def _call(self, x: Any) -> Any:
        _few(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        _few(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        found = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(found, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)


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
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)

    domain = _dependent(lambda s: constraints.independent(constraints.real, len(s.in_shape)))
    codomain = _dependent(lambda s: constraints.independent(constraints.real, len(s.out_shape)))

    def _call(self, x: Any) -> Any:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return _reshaped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _reshaped(shape, self.out_shape, self.in_shape)


def _reshaped(shape: Any, old: Any, new: Any) -> Any:
    _few(shape, len(old))
    cut = len(shape) - len(old)
    if shape[cut:] != old:
        raise ValueError(f"Shape mismatch: expected {old} but got {shape[cut:]}")
    return shape[:cut] + new


class _Growing(Transform):
    bijective = True
    sign = 1
    domain = constraints.real
    codomain = constraints.positive


class ExpTransform(_Growing):
    """y = exp(x).

    >>> pf.distributions.ExpTransform()(pf.tensor(0.0))
    tensor(1.)
    """

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(_Growing):
    """y = x to the power of `exponent`, for x above 0.

    Args:
        exponent: A number or a tensor.

    >>> pf.distributions.PowerTransform(2.0)(pf.tensor(3.0))
    tensor(9.)
    """

    domain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    sign = lazy_property(lambda self: self.exponent.sign())

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return pf.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


class SigmoidTransform(_Growing):
    """y = 1 / (1 + exp(-x)), kept between 0 and 1.

    >>> pf.distributions.SigmoidTransform()(pf.tensor(0.0))
    tensor(0.5000)
    """

    codomain = constraints.unit_interval

    def _call(self, x: Any) -> Any:
        return _within(x.sigmoid())

    def _inverse(self, y: Any) -> Any:
        y = _within(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -F.softplus(-x) - F.softplus(x)


def _within(y: Tensor) -> Tensor:
    info = pf.finfo(y.dtype)
    return y.clamp(info.tiny, 1 - info.eps)


class SoftplusTransform(_Growing):
    """y = log(1 + exp(x)).

    >>> pf.distributions.SoftplusTransform()(pf.tensor(0.0))
    tensor(0.6931)
    """

    def _call(self, x: Any) -> Any:
        return F.softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -F.softplus(-x)


class TanhTransform(_Growing):
    """y = tanh(x); `cache_size=1` inverts values that are rounded to 1, too.

    >>> pf.distributions.TanhTransform()(pf.tensor(1.0))
    tensor(0.7616)
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return 2 * (math.log(2) - x - F.softplus(-2 * x))


class AbsTransform(Transform):
    """y = |x|, of which the inverse is y.

    >>> pf.distributions.AbsTransform()(pf.tensor(-1.0))
    tensor(1.)
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


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
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    def _real(self) -> Any:
        dims = self._event_dim
        return constraints.independent(constraints.real, dims) if dims else constraints.real

    event_dim = property(lambda self: self._event_dim)
    domain = codomain = _dependent(_real, is_discrete=False)

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        scale = self.scale
        found = scale.abs().log() if isinstance(scale, Tensor) else math.log(abs(scale))
        return sum_rightmost(pf.zeros_like(x) + found, self._event_dim)

    def forward_shape(self, shape: Any) -> Any:
        both = (getattr(v, "shape", ()) for v in (self.loc, self.scale))
        return pf.broadcast_shapes(shape, *both)

    inverse_shape = forward_shape


class _Vectors(Transform):
    bijective = True
    domain = constraints.real_vector
    codomain = constraints.simplex

    def forward_shape(self, shape: Any) -> Any:
        _few(shape)
        return shape

    inverse_shape = forward_shape


class CorrCholeskyTransform(_Vectors):
    """Cholesky factors of correlation matrices of D(D - 1)/2 numbers, row by row.

    >>> pf.distributions.CorrCholeskyTransform()(pf.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    codomain = constraints.corr_cholesky

    def _call(self, x: Any) -> Any:
        eps = pf.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(eps - 1, 1 - eps), -1)
        left = (1 - r.square()).sqrt().cumprod(-1)
        one = pf.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return (r + one) * F.pad(left[..., :-1], (1, 0), value=1)

    def _inverse(self, y: Any) -> Any:
        left = F.pad(1 - y.square().cumsum(-1)[..., :-1], (1, 0), value=1)
        return (tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(left, -1).sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        left = tril_matrix_to_vec(1 - y.square().cumsum(-1), -2)
        tanh = 2 * (math.log(2) - x - F.softplus(-2 * x))
        return left.log().sum(-1) / 2 + tanh.sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        _few(shape)
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (n, n)

    def inverse_shape(self, shape: Any) -> Any:
        _few(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)


class SoftmaxTransform(_Vectors):
    """Weights that sum to 1 of vectors; many vectors have the same.

    >>> pf.distributions.SoftmaxTransform()(pf.zeros(2))
    tensor([0.5000, 0.5000])
    """

    bijective = False

    def _call(self, x: Any) -> Any:
        return x.softmax(-1)

    def _inverse(self, y: Any) -> Any:
        return y.log()


class StickBreakingTransform(_Vectors):
    """Weights that sum to 1, one more than there are numbers: each takes a part of what is left.

    >>> pf.distributions.StickBreakingTransform()(pf.zeros(1))
    tensor([0.5000, 0.5000])
    """

    def _shifted(self, x: Any) -> Any:
        return x - pf.arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Any) -> Any:
        z = _within(self._shifted(x).sigmoid())
        return F.pad(z, (0, 1), value=1) * F.pad((1 - z).cumprod(-1), (1, 0), value=1)

    def _inverse(self, y: Any) -> Any:
        y = y[..., :-1]
        left = (1 - y.cumsum(-1)).clamp(min=pf.finfo(y.dtype).tiny)
        x = y.log() - left.log()
        return 2 * x - self._shifted(x)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = self._shifted(x)
        return (F.logsigmoid(x) - x + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        return super().forward_shape(shape)[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Any) -> Any:
        return super().forward_shape(shape)[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(Transform):
    """Lower triangles with a diagonal above 0, of which it is the exponential.

    >>> pf.distributions.LowerCholeskyTransform()(pf.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(LowerCholeskyTransform):
    """Positive definite matrices L Lᵀ, L as LowerCholeskyTransform's.

    >>> pf.distributions.PositiveDefiniteTransform()(pf.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        lower = super()._call(x)
        return lower @ lower.mT

    def _inverse(self, y: Any) -> Any:
        return super()._inverse(pf.linalg.cholesky(y))


class StackTransform(Transform):
    """A transform for each place of a dim.

    >>> D = pf.distributions
    >>> D.StackTransform([D.ExpTransform(), D.AbsTransform()])(pf.tensor([0.0, -2.0]))
    tensor([1., 2.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("expected each of tseq to be a Transform")
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.dim = dim

    bijective = property(lambda self: all(t.bijective for t in self.transforms))

    def _constraint(self, name: str) -> Any:
        return constraints.stack([getattr(t, name) for t in self.transforms], self.dim)

    domain = _dependent(lambda self: self._constraint("domain"))
    codomain = _dependent(lambda self: self._constraint("codomain"))

    def _parts(self, x: Any) -> Any:
        if x.shape[self.dim] != len(self.transforms):
            raise AssertionError(
                f"expected {len(self.transforms)} along dim {self.dim}, got {tuple(x.shape)}"
            )
        return x.unbind(self.dim)

    def _join(self, parts: Any) -> Any:
        return pf.stack(parts, self.dim)

    def _call(self, x: Any) -> Any:
        return self._join([t(v) for t, v in zip(self.transforms, self._parts(x), strict=True)])

    def _inverse(self, y: Any) -> Any:
        return self._join([t.inv(v) for t, v in zip(self.transforms, self._parts(y), strict=True)])

    def _jacobians(self, x: Any, y: Any) -> list[Any]:
        both = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return [t.log_abs_det_jacobian(a, b) for t, a, b in both]

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self._join(self._jacobians(x, y))


class CatTransform(StackTransform):
    """A transform for each part of a dim.

    Args:
        lengths: How long each part is; None for 1.

    >>> D = pf.distributions
    >>> D.CatTransform([D.ExpTransform(), D.AbsTransform()], 0, [2, 1])(pf.tensor([0.0, 0, -2]))
    tensor([1., 1., 2.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else [*lengths]
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"expected {len(self.transforms)} lengths, got {self.lengths}")

    event_dim = property(lambda self: max(t.event_dim for t in self.transforms))
    length = property(lambda self: sum(self.lengths), doc="How long all parts are together.")

    def _constraint(self, name: str) -> Any:
        parts = [getattr(t, name) for t in self.transforms]
        return constraints.cat(parts, self.dim, self.lengths)

    def _parts(self, x: Any) -> Any:
        if x.shape[self.dim] != self.length:
            raise AssertionError(
                f"expected {self.length} along dim {self.dim}, got {tuple(x.shape)}"
            )
        return x.split(self.lengths, self.dim)

    def _join(self, parts: Any) -> Any:
        return pf.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        dims = self.event_dim
        found = [
            sum_rightmost(j, dims - t.event_dim)
            for t, j in zip(self.transforms, self._jacobians(x, y), strict=True)
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
    codomain = constraints.unit_interval

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)


class ConstraintRegistry:
    """Transforms from all numbers to what a constraint allows, by the class of the constraint.

    >>> pf.distributions.biject_to(pf.distributions.constraints.positive)
    ExpTransform()
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Say what makes the transform for constraints of a class; without it, a decorator.

        Args:
            constraint: The class, or an instance.
            factory: A function of the constraint.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform for a constraint."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints: register() adds one"
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _interval(c: Any) -> Transform:
    low, high = c.lower_bound, c.upper_bound
    if isinstance(low, Number) and isinstance(high, Number) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


def _above(c: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(c.lower_bound, 1)])


for _to in (biject_to, transform_to):
    for _kind, _factory in {
        constraints.real: lambda c: identity_transform,
        constraints.independent: lambda c, to=_to: IndependentTransform(
            to(c.base_constraint), c.reinterpreted_batch_ndims
        ),
        constraints.greater_than: _above,
        constraints.greater_than_eq: _above,
        constraints.less_than: lambda c: ComposeTransform(
            [ExpTransform(), AffineTransform(c.upper_bound, -1)]
        ),
        constraints.interval: _interval,
        constraints.half_open_interval: _interval,
        constraints.corr_cholesky: lambda c: CorrCholeskyTransform(),
        constraints.cat: lambda c, to=_to: CatTransform([to(x) for x in c.cseq], c.dim, c.lengths),
        constraints.stack: lambda c, to=_to: StackTransform([to(x) for x in c.cseq], c.dim),
    }.items():
        _to.register(_kind, _factory)
biject_to.register(constraints.simplex, lambda c: StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda c: LowerCholeskyTransform())
for _kind in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_kind, lambda c: PositiveDefiniteTransform())
