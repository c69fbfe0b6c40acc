"""Functions with an inverse and log |det J|, those that lead to what constraints say, and tools."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from numbers import Number
from typing import Any

import pyframe as pf
from pyframe.distributions import constraints
from pyframe.nn import functional as F
from pyframe.tensor import Size, Tensor

_ARGUMENTS = {  # what each is in all classes, but those that tell themselves
    "alpha": "How fast the tail falls, above 0.",
    "cache_size": "1 keeps the last pair of values, so that `inv` of a result is exact; or 0.",
    "concentration": "The shape, above 0.",
    "concentration0": "The power of 1 - x, plus 1.",
    "concentration1": "The power of x, plus 1.",
    "cov_diag": "Variances, (…, n), above 0.",
    "cov_factor": "W, (…, n, r).",
    "covariance_matrix": "(…, n, n); or one of the next two.",
    "df": "Degrees of freedom.",
    "df1": "Degrees of freedom.",
    "df2": "Those of the divisor.",
    "dim": "Along which dim.",
    "high": "Its end.",
    "lims": "Between these `probs` series are used.",
    "loc": "Where it lies.",
    "logits": "Log odds, or logarithms of weights along the last dim.",
    "low": "Its start.",
    "precision_matrix": "The inverse of the covariance.",
    "probs": "Probabilities, or weights along the last dim; or else `logits`.",
    "rate": "One over the scale, above 0.",
    "reinterpreted_batch_ndims": "How many dims.",
    "scale": "How wide it is, above 0.",
    "scale_tril": "The Cholesky factor of the covariance.",
    "temperature": "How far from discrete samples are, above 0.",
    "total_count": "How many trials.",
    "validate_args": "Whether to check parameters and values.",
}


def tell(cls: Any, names: Any) -> None:
    """Put what arguments are into the text of a class, before its example."""
    said, _, example = (cls.__doc__ or "").partition("\n\n    >>> ")
    new = "".join(f"\n        {n}: {_ARGUMENTS[n]}" for n in names if f" {n}: " not in said)
    if example and new:
        head = "" if "Args:" in said else "\n\n    Args:"
        cls.__doc__ = f"{said}{head}{new}\n\n    >>> {example}"


def broadcast_all(*values: Any) -> Any:
    """Numbers and tensors as tensors of one shape; numbers are of the first tensor's dtype."""
    if not all(isinstance(v, Tensor | Number) for v in values):
        raise ValueError(f"Input arguments must all be instances of Number or Tensor, got {values}")
    like = next((v for v in values if isinstance(v, Tensor)), pf.zeros(()))
    return pf.broadcast_tensors(*(as_like(v, like) for v in values))


def as_like(value: Any, like: Tensor) -> Tensor:
    """A number as a tensor of the dtype and on the device of another."""
    if isinstance(value, Tensor):
        return value
    return pf.tensor(value, dtype=like.dtype, device=like.device)


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
    """The lower triangle of matrices, up to a diagonal, as vectors, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat.flatten(-2)[..., _lower(n, diag, mat)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Matrices whose lower triangle, up to a diagonal, has the numbers of vectors, row by row."""
    size, b, c = vec.shape[-1], 1 + 2 * diag, abs(diag) * (diag + 1)
    n = round((math.sqrt(b * b + 8 * size + 4 * c) - b) / 2)
    if n * (n + b) != 2 * size + c:
        raise ValueError(f"expected the lower triangle of a matrix, got {size} numbers")
    places = _lower(n, diag, vec)
    order = (places.long().cumsum(0) - 1).clamp(min=0)
    return pf.where(places, F.pad(vec, (0, 1))[..., order], 0.0).unflatten(-1, (n, n))


def sum_rightmost(value: Any, dims: int) -> Any:
    """The sum over the last dims."""
    return value.sum([*range(-dims, 0)]) if dims else value


_dependent = constraints.dependent_property
_real, _positive = constraints.real, constraints.positive


def _reals(dims: int) -> Any:
    return constraints.independent(_real, dims) if dims else _real


def missing(name: str) -> Any:
    """A method of a class that does not have it."""
    def refuse(self: Any, *given: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no {name}")

    return refuse


class Transform:
    """A function of tensors, from `domain` to `codomain`, with an inverse, `inv`.

    A class of one's own writes `_call`, `_inverse` and, if `bijective`, `log_abs_det_jacobian`.

    >>> pf.distributions.ExpTransform().inv(pf.tensor(1.0))
    tensor(0.)
    """

    bijective: Any = False
    domain: Any = property(missing("domain"), doc="What it takes.")
    codomain: Any = property(missing("codomain"), doc="What it gives.")
    sign: Any = property(missing("sign"), doc="1 if it grows, -1 if it falls.")
    _call: Any = missing("_call")
    _inverse: Any = missing("_inverse")
    _few = 0  # how many dims shapes must have

    def __init_subclass__(cls) -> None:
        tell(cls, ["cache_size"])

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
        """How many last dims are one value."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Any:
        """The inverse, whose own inverse is this one."""
        self._inv = self._inv or _InverseTransform(self)
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same with a cache, or without.

        Args:
            cache_size: 1 or 0.
        """
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
        mine, theirs = ({**vars(t), "_inv": 0, "_cached_x_y": 0, "_cache_size": 0}
                        for t in (self, other))  # fmt: skip
        same = (v is theirs.get(n) or v == theirs.get(n) for n, v in mine.items())
        return all(bool(s.all()) if isinstance(s, Tensor) else s for s in same)

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
        """The logarithm of |det dy/dx|.

        Args:
            x, y: A value, and what it becomes.
        """
        raise NotImplementedError(f"{type(self).__name__}.log_abs_det_jacobian")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Any) -> Any:
        """The shape of what a value of `shape` becomes."""
        return _enough(shape, self._few)

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of what becomes a value of `shape`."""
        return _enough(shape, self._few)


def _enough(shape: Any, least: int) -> Any:
    if len(shape) < least:
        raise ValueError(f"Too few dimensions on input: expected {least}, got {tuple(shape)}")
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

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._of.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._of.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._of.forward_shape(shape)


def _outer(parts: Any, into: str, out: str) -> Any:
    """What a chain begins with, with the dims that are one value to any part."""
    if not parts:
        return _real
    dims, found = getattr(parts[-1], out).event_dim, getattr(parts[0], into)
    for part in parts[::-1]:
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
        total, dims = pf.zeros_like(x), self.domain.event_dim
        total = sum_rightmost(total, dims)
        for i, part in enumerate(self.parts):
            after = part(x) if i < len(self.parts) - 1 else y
            found = part.log_abs_det_jacobian(x, after)
            total = total + sum_rightmost(found, dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
            x = after
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

    def _more(self, constraint: Any) -> Any:
        return constraints.independent(constraint, self.reinterpreted_batch_ndims)

    domain = _dependent(lambda self: self._more(self.base_transform.domain), is_discrete=False)
    codomain = _dependent(lambda self: self._more(self.base_transform.codomain), is_discrete=False)
    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)

    def _call(self, x: Any) -> Any:
        _enough(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        _enough(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        found = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(found, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform}, {self.reinterpreted_batch_ndims})"

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
        if math.prod(in_shape) != math.prod(out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)

    domain = _dependent(lambda self: _reals(len(self.in_shape)))
    codomain = _dependent(lambda self: _reals(len(self.out_shape)))

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
    cut = len(_enough(shape, len(old))) - len(old)
    if shape[cut:] != old:
        raise ValueError(f"Shape mismatch: expected {old} but got {shape[cut:]}")
    return shape[:cut] + new


class _Growing(Transform):
    bijective = True
    sign: Any = 1
    domain: Any = _real
    codomain: Any = _positive


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

    domain = _positive
    sign = property(lambda self: self.exponent.sign())

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

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

    domain = _real
    codomain = _positive

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
        self.loc, self.scale, self._dims = loc, scale, event_dim

    event_dim = property(lambda self: self._dims)
    domain = codomain = _dependent(lambda self: _reals(self._dims), is_discrete=False)

    @property
    def sign(self) -> Any:
        s = self.scale
        return s.sign() if isinstance(s, Tensor) else (s > 0) - (s < 0)

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return sum_rightmost((pf.zeros_like(x) + self.scale).abs().log(), self._dims)

    def forward_shape(self, shape: Any) -> Any:
        both = (getattr(v, "shape", ()) for v in (self.loc, self.scale))
        return pf.broadcast_shapes(shape, *both)

    inverse_shape = forward_shape


class _Vectors(Transform):
    bijective = True
    domain: Any = constraints.real_vector
    codomain: Any = constraints.simplex
    _few = 1


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
        left = (1 - r * r).sqrt().cumprod(-1)
        return (r + pf.eye(r.shape[-1]).to(r)) * F.pad(left[..., :-1], (1, 0), value=1)

    def _inverse(self, y: Any) -> Any:
        left = F.pad(1 - (y * y).cumsum(-1)[..., :-1], (1, 0), value=1)
        return (tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(left, -1).sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), -2)
        return left.log().sum(-1) / 2 + TanhTransform().log_abs_det_jacobian(x, y).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        n = vec_to_tril_matrix(pf.zeros(_enough(shape, 1)[-1]), -1).shape[-1]
        return shape[:-1] + (n, n)

    def inverse_shape(self, shape: Any) -> Any:
        n = _enough(shape, 2)[-1]
        if shape[-2] != n:
            raise ValueError("Input is not square")
        return shape[:-2] + (n * (n - 1) // 2,)


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

    def _shift(self, x: Any) -> Any:
        return pf.arange(x.shape[-1], 0, -1).to(x).log()

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

    def forward_shape(self, shape: Any) -> Any:
        return _enough(shape, 1)[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Any) -> Any:
        return _enough(shape, 1)[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(Transform):
    """Lower triangles with a diagonal above 0, of which it is the exponential.

    >>> pf.distributions.LowerCholeskyTransform()(pf.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(_real, 2)
    codomain: Any = constraints.lower_cholesky

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

    Args:
        tseq: The transforms.

    >>> D = pf.distributions
    >>> D.StackTransform([D.ExpTransform(), D.AbsTransform()])(pf.tensor([0.0, -2.0]))
    tensor([1., 2.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = [t.with_cache() if cache_size else t for t in tseq]
        self.dim = dim

    bijective = property(lambda self: all(t.bijective for t in self.transforms))
    domain = _dependent(lambda self: self._constraint([t.domain for t in self.transforms]))
    codomain = _dependent(lambda self: self._constraint([t.codomain for t in self.transforms]))

    def _constraint(self, parts: Any) -> Any:
        return constraints.stack(parts, self.dim)

    def _parts(self, *values: Any) -> Any:
        return zip(self.transforms, *(v.unbind(self.dim) for v in values), strict=True)

    def _join(self, parts: Any) -> Any:
        return pf.stack(parts, self.dim)

    def _call(self, x: Any) -> Any:
        return self._join([t(v) for t, v in self._parts(x)])

    def _inverse(self, y: Any) -> Any:
        return self._join([t.inv(v) for t, v in self._parts(y)])

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self._join([t.log_abs_det_jacobian(a, b) for t, a, b in self._parts(x, y)])


class CatTransform(StackTransform):
    """A transform for each part of a dim.

    Args:
        tseq: The transforms.
        lengths: How long each part is; None for 1.

    >>> D = pf.distributions
    >>> D.CatTransform([D.ExpTransform(), D.AbsTransform()], 0, [2, 1])(pf.tensor([0.0, 0, -2]))
    tensor([1., 1., 2.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Any = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else [*lengths]
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"expected {len(self.transforms)} lengths, got {self.lengths}")

    event_dim = property(lambda self: max(t.event_dim for t in self.transforms))
    length = property(lambda self: sum(self.lengths), doc="How long all parts are together.")

    def _constraint(self, parts: Any) -> Any:
        return constraints.cat(parts, self.dim, self.lengths)

    def _parts(self, *values: Any) -> Any:
        return zip(self.transforms, *(v.split(self.lengths, self.dim) for v in values), strict=True)

    def _join(self, parts: Any) -> Any:
        return pf.cat(parts, self.dim)

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
    codomain = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
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

    >>> pf.distributions.transform_to(pf.distributions.constraints.simplex)
    SoftmaxTransform()
    """

    def __init__(self) -> None:
        self._registry: dict[type, Any] = {}

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
            raise TypeError(f"register: expected a Constraint or its class, got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        name = type(constraint)
        if name not in self._registry:
            raise NotImplementedError(f"Cannot transform {name.__name__} constraints")
        return self._registry[name](constraint)


def _interval(c: Any) -> Transform:
    if isinstance(c.lower_bound, Number) and (c.lower_bound, c.upper_bound) == (0, 1):
        return SigmoidTransform()
    width = c.upper_bound - c.lower_bound
    return ComposeTransform([SigmoidTransform(), AffineTransform(c.lower_bound, width)])


def _above(c: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(c.lower_bound, 1)])


def _below(c: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(c.upper_bound, -1)])


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()
for _to in (biject_to, transform_to):
    for _names, _factory in {
        "real": lambda c: identity_transform,
        "independent": lambda c, to=_to: IndependentTransform(
            to(c.base_constraint), c.reinterpreted_batch_ndims
        ),
        "greater_than greater_than_eq": _above,
        "less_than": _below,
        "interval half_open_interval": _interval,
        "corr_cholesky": lambda c: CorrCholeskyTransform(),
        "cat": lambda c, to=_to: CatTransform([to(x) for x in c.cseq], c.dim, c.lengths),
        "stack": lambda c, to=_to: StackTransform([to(x) for x in c.cseq], c.dim),
        "simplex": lambda c, to=_to: (
            StickBreakingTransform() if to is biject_to else SoftmaxTransform()
        ),
    }.items():
        for _name in _names.split():
            _to.register(getattr(constraints, _name), _factory)
transform_to.register(constraints.lower_cholesky, lambda c: LowerCholeskyTransform())
for _kind in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_kind, lambda c: PositiveDefiniteTransform())

__all__ = [n for n, v in vars().items() if n[0] != "_" and getattr(v, "__module__", "") == __name__]
