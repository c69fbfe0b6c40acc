"""The array API standard, version 2024.12 (https://data-apis.org/array-api/2024.12), on tensors.

`x.__array_namespace__()` gives it to libraries that compute with any array. Names, signatures and
dtypes of results are the standard's, values those of pyframe's functions. Two operands take their
common dtype, whatever their shapes, and unsigned ints sum up to unsigned ones. What tensors have
themselves stays PyTorch's: `x.size` is a method, operators promote otherwise, and a slice has no
negative step (`flip` does that).
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyframe as pf
from pyframe.array_api import fft as fft, linalg as linalg
from pyframe.array_api.dtypes import (
    ALL as _DTYPES,
    as_dtype as _as,
    astype as astype,
    can_cast as can_cast,
    common as _common,
    dtype_of_sums as _dtype_of_sums,
    finfo as finfo,
    iinfo as iinfo,
    isdtype as isdtype,
    result_type as result_type,
)
from pyframe.array_api.linalg import (
    matmul as matmul,
    matrix_transpose as matrix_transpose,
    tensordot as tensordot,
    vecdot as vecdot,
)
from pyframe.core import devices as _devices, dtypes as _dt
from pyframe.core.dtypes import (
    bool_ as _bool,
    complex64 as complex64,
    complex128 as complex128,
    dtype as _DType,
    float32 as float32,
    float64 as float64,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from pyframe.ops.api.layouts import texts as _texts
from pyframe.tensor import Tensor

__array_api_version__ = "2024.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
bool = _bool
_Bool = builtins.bool
e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi
_Axes = int | tuple[int, ...] | None  # of the axes of a reduction: None means all

# --- elementwise functions

_UNARY = {  # names of the standard: those of pyframe where they differ
    **{name: name for name in """abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1
    floor imag isfinite isinf isnan log log10 log1p log2 logical_not positive real reciprocal sin
    sinh sqrt square tan tanh trunc signbit""".split()},
    "bitwise_invert": "bitwise_not", "negative": "neg",
}  # fmt: skip
_BINARY = {
    **{name: name for name in """add atan2 bitwise_and bitwise_left_shift bitwise_or
    bitwise_right_shift bitwise_xor copysign divide floor_divide greater greater_equal hypot less
    less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter
    not_equal pow remainder subtract""".split()},
    "equal": "eq",
}  # fmt: skip


def _unary(name: str, fn: Callable[..., Any]) -> Callable[[Tensor], Tensor]:
    def run(x: Tensor, /) -> Tensor:
        return fn(x)

    return _named(run, name, f"Elementwise, as pyframe.{fn.__name__}.")


def _binary(name: str, fn: Callable[..., Any]) -> Callable[[Any, Any], Tensor]:
    def run(x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
        return fn(*_common(x1, x2))

    return _named(run, name, f"Elementwise in the common dtype, as pyframe.{fn.__name__}.")


def _named(run: Any, name: str, doc: str) -> Any:
    run.__name__ = run.__qualname__ = name
    run.__doc__ = doc
    return run


globals().update({name: _unary(name, getattr(pf, of)) for name, of in _UNARY.items()})
globals().update({name: _binary(name, getattr(pf, of)) for name, of in _BINARY.items()})


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1, NaN of NaN; of complex numbers x / abs(x)."""
    return pf.where(pf.isnan(x), x, pf.sgn(x))


def round(x: Tensor, /) -> Tensor:
    """The nearest whole numbers, ties to even; of complex numbers both parts."""
    return pf.complex(pf.round(x.real), pf.round(x.imag)) if x.is_complex() else pf.round(x)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """`x` between bounds, which are numbers or tensors that broadcast; the dtype stays."""
    bounds = [
        b if b is None else _as(b, x.dtype) if isinstance(b, Tensor)
        else pf.full((), b, dtype=x.dtype, device=x.device) for b in (min, max)
    ]  # fmt: skip
    return x.clone() if min is None and max is None else pf.clip(x, *bounds)


# --- creation


def asarray(
    obj: Any, /, *, dtype: _DType | None = None, device: Any = None, copy: _Bool | None = None
) -> Tensor:  # fmt: skip
    """A tensor of a tensor, an array, a buffer or (nested) numbers; see pyframe.asarray."""
    return pf.asarray(obj, dtype=dtype, device=device, copy=copy)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: _DType | None = None,
    device: Any = None,
) -> Tensor:  # fmt: skip
    """Numbers from `start` up to, but without, `stop`; none where the step leads away from it."""
    if stop is None:
        start, stop = 0, start
    count = math.ceil((stop - start) / step)
    if count <= 0:
        kinds = builtins.all(isinstance(v, int) for v in (start, stop, step))
        return pf.empty(0, dtype=dtype or (int64 if kinds else None), device=device)
    return pf.arange(start, stop, step, dtype=dtype, device=device)


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _filled(name: str, what: str) -> Any:
    """A function of a shape, and one of the shape, dtype and device of a tensor."""
    of, like = getattr(pf, name), getattr(pf, f"{name}_like")

    def run(shape: Any, *, dtype: _DType | None = None, device: Any = None) -> Tensor:
        return of(_shape(shape), dtype=dtype, device=device)

    def run_like(x: Tensor, /, *, dtype: _DType | None = None, device: Any = None) -> Tensor:
        return like(x, dtype=dtype, device=device)

    told = f"`{name}` in the shape, dtype and device of `x`."
    return _named(run, name, what), _named(run_like, f"{name}_like", told)


empty, empty_like = _filled("empty", "A tensor whose values are not set.")
zeros, zeros_like = _filled("zeros", "A tensor of zeros.")
ones, ones_like = _filled("ones", "A tensor of ones.")


def full(
    shape: Any, fill_value: complex, *, dtype: _DType | None = None, device: Any = None
) -> Tensor:
    """A tensor of one number, which says the dtype where none is given."""
    return pf.full(_shape(shape), fill_value, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: complex, *, dtype: _DType | None = None, device: Any = None
) -> Tensor:
    """`full` in the shape, dtype and device of `x`."""
    return pf.full_like(x, fill_value, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: _DType | None = None,
    device: Any = None,
) -> Tensor:  # fmt: skip
    """Ones on the `k`-th diagonal, zeros elsewhere."""
    columns = pf.arange(n_rows if n_cols is None else n_cols, device=device)
    rows = pf.arange(n_rows, device=device).unsqueeze(1)
    return (columns - rows == k).to(dtype or _dt.get_default_dtype())


def linspace(
    start: complex, stop: complex, /, num: int, *, dtype: _DType | None = None, device: Any = None,
    endpoint: _Bool = True,
) -> Tensor:  # fmt: skip
    """`num` evenly spaced numbers from `start` to `stop`, without that where not `endpoint`."""
    more = 0 if endpoint else 1
    return pf.linspace(start, stop, num + more, dtype=dtype, device=device)[:num]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinates on a grid, of one coordinate for each axis."""
    return tuple(pf.meshgrid(*arrays, indexing=indexing))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """What lies on the `k`-th diagonal and below; zeros above."""
    return pf.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """What lies on the `k`-th diagonal and above; zeros below."""
    return pf.triu(x, k)


def from_dlpack(x: Any, /, *, device: Any = None, copy: _Bool | None = None) -> Tensor:
    """A tensor of another library's memory; see pyframe.from_dlpack."""
    return pf.from_dlpack(x, device=device, copy=copy)


# --- manipulation


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """All in their common shape."""
    return tuple(pf.broadcast_tensors(*arrays))


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """`x` in a shape to which it broadcasts."""
    return pf.broadcast_to(x, shape)


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Tensors joined along an axis; None flattens them first."""
    xs = _common(*arrays)
    return pf.cat([x.reshape(-1) for x in xs]) if axis is None else pf.cat(xs, axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Tensors joined along a new axis."""
    return pf.stack(_common(*arrays), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of `x` along an axis, without it."""
    return tuple(pf.unbind(x, axis))


def expand_dims(x: Tensor, /, axis: int) -> Tensor:
    """`x` with a new axis of size one."""
    return x.unsqueeze(axis)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """`x` without these axes. ValueError for one whose size is not one."""
    axes = (axis,) if isinstance(axis, int) else axis
    if wrong := [a for a in axes if x.shape[a] != 1]:
        raise ValueError(f"squeeze: axis {wrong[0]} of shape {list(x.shape)} has not size 1")
    return x.squeeze(axes)


def flip(x: Tensor, /, *, axis: _Axes = None) -> Tensor:
    """`x` with the order of its elements along some axes reversed."""
    return x.flip(_axes(x, axis))


def moveaxis(
    x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /
) -> Tensor:
    """`x` with some axes at other places."""
    return pf.movedim(x, source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """`x` with its axes in another order."""
    return x.permute(*axes)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element several times in turn, along an axis or of all, flattened."""
    return pf.repeat_interleave(x, repeats, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: _Bool | None = None) -> Tensor:
    """`x` in another shape. ValueError where `copy=False` can't hold."""
    out = x.reshape(shape)
    if out.untyped_storage() == x.untyped_storage():
        return out.clone() if copy else out
    if copy is False:
        raise ValueError(f"reshape: {list(x.shape)} of strides {x.stride()} needs a copy")
    return out


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: _Axes = None) -> Tensor:
    """Elements moved along axes, those that leave coming in at the other end."""
    if axis is not None and isinstance(shift, int) and not isinstance(axis, int):
        shift = (shift,) * len(axis)
    return pf.roll(x, shift, axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """`x` several times side by side."""
    return pf.tile(x, repetitions)


# --- searching, sets, sorting


def _arg(fn: Any, x: Tensor, axis: int | None, keepdims: _Bool) -> Tensor:
    if axis is None:
        return fn(x.reshape(-1), 0).reshape((1,) * x.ndim if keepdims else ())
    return fn(x, axis, keepdim=keepdims)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: _Bool = False) -> Tensor:
    """Where the largest element is, the first of equal ones."""
    return _arg(pf.argmax, x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: _Bool = False) -> Tensor:
    """Where the smallest element is, the first of equal ones."""
    return _arg(pf.argmin, x, axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The positions of elements that are not zero, for each axis. ValueError for a scalar."""
    if x.ndim == 0:
        raise ValueError("nonzero: expected at least one axis")
    out: Any = pf.nonzero(x, as_tuple=True)
    return out


def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """Where elements of `x2` go into the sorted `x1`."""
    a, b = _common(x1, x2)
    return pf.searchsorted(a, b, side=side, sorter=sorter)


def where(condition: Tensor, x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
    """Elements of `x1` where the condition holds, else of `x2`."""
    a, b = _common(x1, x2)
    return pf.where(condition, a, b)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Elements along an axis, by their positions, which may count from the end."""
    axis = 0 if axis is None and x.ndim == 1 else axis
    if axis is None:
        raise ValueError(f"take: axis is required for {x.ndim} axes")
    return x[(*[slice(None)] * (axis % x.ndim), indices)]


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements along an axis, by positions for each row, which may count from the end."""
    return pf.take_along_dim(x, pf.where(indices < 0, indices + x.shape[axis], indices), axis)


class _UniqueAll(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class _UniqueCounts(NamedTuple):
    values: Tensor
    counts: Tensor


class _UniqueInverse(NamedTuple):
    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> _UniqueAll:
    """Distinct values in order, where each is first, which one each element is, and how often."""
    values, inverse, counts = pf.unique(x, return_inverse=True, return_counts=True)
    place = pf.arange(x.numel(), device=x.device)
    first = pf.full_like(counts, x.numel())
    first = first.scatter_reduce(0, inverse.reshape(-1), place, "amin")
    return _UniqueAll(values, first, inverse.reshape(x.shape), counts)


def unique_counts(x: Tensor, /) -> _UniqueCounts:
    """Distinct values in order, and how often each is there."""
    return _UniqueCounts(*pf.unique(x, return_counts=True))


def unique_inverse(x: Tensor, /) -> _UniqueInverse:
    """Distinct values in order, and which one each element is."""
    values, inverse = pf.unique(x, return_inverse=True)
    return _UniqueInverse(values, inverse.reshape(x.shape))


def unique_values(x: Tensor, /) -> Tensor:
    """Distinct values in order; each NaN is one of its own."""
    return pf.unique(x)


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: _Bool = False, stable: _Bool = True
) -> Tensor:  # fmt: skip
    """The positions by which an axis is sorted."""
    return pf.argsort(x, dim=axis, descending=descending, stable=stable)


def sort(
    x: Tensor, /, *, axis: int = -1, descending: _Bool = False, stable: _Bool = True
) -> Tensor:  # fmt: skip
    """`x` sorted along an axis."""
    return pf.sort(x, dim=axis, descending=descending, stable=stable).values


# --- reductions and scans


def _axes(x: Tensor, axis: Any) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axis is None else _shape(axis)


def _summed(x: Tensor, dtype: _DType | None) -> Tensor:
    return _as(x, dtype or _dtype_of_sums(x))


def _reduced(name: str, fn: Callable[..., Tensor], doc: str) -> Any:
    """A reduction over one axis, some, none or all of them."""

    def run(x: Tensor, /, *, axis: _Axes = None, keepdims: _Bool = False) -> Tensor:
        axes = _axes(x, axis)
        if not axes and x.ndim:  # PyTorch's () means all
            return fn(x.unsqueeze(0), (0,), keepdim=False)
        return fn(x, axes, keepdim=keepdims)

    return _named(run, name, doc)


def _of_bools(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, dim, keepdim: fn(x != 0, dim, keepdim)


all = _reduced("all", _of_bools(pf.all), "Whether no element is zero.")
any = _reduced("any", _of_bools(pf.any), "Whether some element is not zero.")
count_nonzero = _reduced(
    "count_nonzero", _of_bools(pf.sum), "The number of elements that are not zero."
)
max = _reduced("max", pf.amax, "The largest element.")
min = _reduced("min", pf.amin, "The smallest element.")
mean = _reduced("mean", pf.mean, "The mean.")
_sum = _reduced("sum", pf.sum, "The sum.")


def sum(
    x: Tensor, /, *, axis: _Axes = None, dtype: _DType | None = None, keepdims: _Bool = False
) -> Tensor:  # fmt: skip
    """The sum; of ints in 64 bits unless `dtype` says otherwise."""
    y = _summed(x, dtype)
    return _as(_sum(y, axis=axis, keepdims=keepdims), y.dtype)


def prod(
    x: Tensor, /, *, axis: _Axes = None, dtype: _DType | None = None, keepdims: _Bool = False
) -> Tensor:  # fmt: skip
    """The product; of ints in 64 bits unless `dtype` says otherwise."""
    y = _summed(x, dtype)
    out = y
    for a in _axes(x, axis):
        out = pf.prod(out, a, keepdim=True, dtype=y.dtype)
    return out if keepdims else out.squeeze(_axes(x, axis)) if x.ndim else out.clone()


def _spread(fn: Any) -> Any:
    def run(
        x: Tensor, /, *, axis: _Axes = None, correction: float = 0.0, keepdims: _Bool = False
    ) -> Tensor:  # fmt: skip
        axes = _axes(x, axis)
        if not axes:
            return fn(x.unsqueeze(0), (0,), correction=correction)
        return fn(x, axes, correction=correction, keepdim=keepdims)

    return _named(run, fn.__name__, f"As pyframe.{fn.__name__}, of all elements if not corrected.")


std, var = _spread(pf.std), _spread(pf.var)


def _scan(fn: Any, name: str, first: int) -> Any:
    def run(
        x: Tensor, /, *, axis: int | None = None, dtype: _DType | None = None,
        include_initial: _Bool = False,
    ) -> Tensor:  # fmt: skip
        if axis is None:
            if x.ndim != 1:
                raise ValueError(f"{name}: axis is required for {x.ndim} axes")
            axis = 0
        y = _summed(x, dtype)
        out = fn(y, axis, dtype=y.dtype)
        if not include_initial:
            return out
        shape = [*x.shape]
        shape[axis] = 1
        return pf.cat([pf.full(shape, first, dtype=out.dtype, device=out.device), out], axis)

    return _named(run, name, f"As pyframe.{fn.__name__}; `include_initial` begins with {first}.")


cumulative_sum = _scan(pf.cumsum, "cumulative_sum", 0)
cumulative_prod = _scan(pf.cumprod, "cumulative_prod", 1)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Differences of neighbours, `n` times, after joining `prepend` and `append`."""
    parts = [p for p in (prepend, x, append) if p is not None]
    return pf.diff(concat(parts, axis=axis) if len(parts) > 1 else x, n, axis)


# --- inspection


def __array_namespace_info__() -> _Info:  # noqa: N807  (the standard's name)
    """What can be asked of this namespace: dtypes, devices, and what else it is capable of."""
    return _Info()


class _Info:
    """See https://data-apis.org/array-api/2024.12/API_specification/inspection.html."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean masks and shapes that depend on values are there; tensors have up to 64 axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """Where tensors are made."""
        return _devices.get_default_device()

    def devices(self) -> list[Any]:
        """The CPU, and the GPU where one answers."""
        return [_devices.cpu, *([_devices.device("gpu")] if _devices.is_available() else [])]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, _DType]:
        """The dtypes of a device by their names, of a kind or of several."""
        lacks = _devices.resolve(device).is_lazy
        return {
            d.name: d
            for d in _DTYPES
            if (kind is None or isdtype(d, kind)) and not (lacks and d.storage is None)
        }

    def default_dtypes(self, *, device: Any = None) -> dict[str, _DType]:
        """What Python's numbers become, and what positions are counted in."""
        real = _dt.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": real.to_complex(),
            "integral": int64,
            "indexing": int64,
        }


if _texts:
    _texts.complete_docstrings(globals())
    _texts.complete_docstrings(vars(linalg))
    _texts.complete_docstrings(vars(fft))
