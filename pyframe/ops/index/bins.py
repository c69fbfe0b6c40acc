"""Numbers and their bins: search among boundaries, counts, histograms, reductions of segments."""

from __future__ import annotations

import math
from typing import Any

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, can_read_value
from pyframe.ops.api import check
from pyframe.ops.api.public import public
from pyframe.ops.api.results import HistogramddResult, HistogramResult
from pyframe.ops.index.along import gather, neutral_of, reduced_into
from pyframe.ops.index.order import search_op, sort_key
from pyframe.ops.index.rows import add_rows, take_rows
from pyframe.ops.index.sort import sort
from pyframe.ops.math import elementwise as el, promotion
from pyframe.ops.reduce.reductions import amax, amin, sum as sum_
from pyframe.ops.reduce.scan import cumsum, diff
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, normalize_dim, tensor


def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where `input` belongs in the sorted last dim: how many elements are < (right: <=) it.

    A 1-d sequence serves values of any shape, (*, n) values (*, m).
    """
    name = "searchsorted"
    if side not in (None, "left", "right"):
        raise RuntimeError(f"{name}(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(f"{name}(): side and right can't be set to opposites, got side of left")
    right = right or side == "right"
    sequence = sorted_sequence
    if not isinstance(input, Tensor):
        check.one_value(name, input)
        if sequence.ndim != 1:
            raise RuntimeError(
                f"{name}(): input value can be a scalar only when boundaries tensor dimension is "
                f"1, got {sequence.ndim}"
            )
        input = tensor(input, device=sequence.device)
        common = promotion.result_type(sequence, input)
        sequence, input = sequence.to(common), input.to(common)
    if sequence.ndim == 0:
        raise RuntimeError(f"{name}(): boundaries tensor should have positive dimension")
    if sequence.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}(): boundary tensor should have same dtype as the input value tensor, got "
            f"{sequence.dtype.name} and {input.dtype.name}"
        )
    check.real(name, sequence)
    if sequence.ndim > 1 and sequence.shape[:-1] != input.shape[:-1]:
        raise RuntimeError(
            f"{name}(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            f"boundaries tensor and input value tensor must match, got {list(sequence.shape)} and "
            f"{list(input.shape)}"
        )
    if sorter is not None:
        if sorter.shape != sequence.shape:
            raise RuntimeError(
                f"{name}(): boundary and sorter must have the same size, got "
                f"{list(sequence.shape)} and {list(sorter.shape)}"
            )
        if sorter.dtype is not dt.int64:
            raise RuntimeError(f"{name}(): sorter must be int64, got {sorter.dtype.name}")
        sequence = gather(sequence, -1, sorter)
    n = sequence.shape[-1]
    if not n or not input.numel():
        return input.new_zeros(input.shape, dtype=dt.int32 if out_int32 else dt.int64)
    keys = sort_key(sequence).reshape(-1, n)
    values = sort_key(input).reshape(len(keys), -1)
    if right:  # all but those that are larger, which are smaller in the opposite order
        out = n - apply(search_op, (el.bitwise_not(mv.flip(keys, 1)), el.bitwise_not(values)))
    else:
        out = apply(search_op, (keys, values))
    out = out.reshape(input.shape)
    return out.to(dt.int32) if out_int32 else out


def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """Which bucket between the sorted 1-d `boundaries` each element falls into."""
    if boundaries.ndim != 1:
        raise RuntimeError(
            f"bucketize: boundaries tensor must be 1 dimension, got {boundaries.ndim}"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each element is one of `test_elements`."""
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError("isin(): expected elements or test_elements to be a Tensor")
    device = (elements if isinstance(elements, Tensor) else test_elements).device
    common = promotion.result_type(elements, test_elements)
    x, test = (
        (v if isinstance(v, Tensor) else tensor(v, device=device)).detach().to(common)
        for v in (elements, test_elements)
    )
    check.real("isin", x)
    if not test.numel():
        found = x.new_zeros(x.shape, dtype=dt.bool_)
    else:
        ordered = sort(test.reshape(-1)).values
        index = el.minimum(searchsorted(ordered, x), test.numel() - 1)
        found = el.eq(_taken(ordered, index), x)
    return el.logical_not(found) if invert else found


def _taken(x: Tensor, index: Tensor) -> Tensor:
    """x[index] of a vector, for indices that are known to be right."""
    return apply(take_rows, (x.reshape(-1, 1), index.reshape(-1))).reshape(index.shape)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often (or with which weight) each of 0..max occurs in a vector of ints. Reads them."""
    if input.ndim != 1 or input.dtype.category == dt.FLOAT or input.dtype.category == dt.COMPLEX:
        raise RuntimeError(
            f"bincount only supports 1-d non-negative integral inputs, got {list(input.shape)} of "
            f"{input.dtype.name}"
        )
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0, got {minlength}")
    data = input._host()
    if data.size and data.min() < 0:
        raise RuntimeError(f"bincount only supports non-negative values, got {data.min()}")
    if weights is not None and weights.shape != input.shape:
        raise RuntimeError(
            f"weights should be 1-d and have the same length as input: {list(input.shape)}, got "
            f"{list(weights.shape)}"
        )
    size = max(int(data.max()) + 1 if data.size else 0, minlength)
    if weights is None:
        source = input.new_ones(input.shape, dtype=dt.int64)
    else:
        wide = dt.float64 if input.device.wide else dt.float32
        source = weights.detach() if weights.dtype is dt.float32 else weights.detach().to(wide)
    if not data.size:
        return source.new_zeros(size, dtype=dt.int64)
    return apply(add_rows, (input, source.reshape(-1, 1)), (size,)).reshape(size)


def _bounds(name: str, x: Tensor, low: Any, high: Any, widen: float) -> tuple[Tensor, Tensor]:
    """The range of a histogram: that of the values where none is given, never empty."""
    if low is not None:
        for v in (low, high):
            if not math.isfinite(v):
                raise RuntimeError(f"{name}: range of [{low}, {high}] is not finite")
        if low > high:
            raise RuntimeError(f"{name}: max must be larger than min, got {low} and {high}")
    if low is None or low == high:
        if not x.numel():
            low, high = (0.0, 1.0) if low is None else (low - widen, high + widen)
        elif can_read_value(x):
            low, high = amin(x).item(), amax(x).item()
            if not (math.isfinite(low) and math.isfinite(high)):
                raise RuntimeError(f"{name}: range of [{low}, {high}] is not finite")
        else:
            low, high = amin(x), amax(x)
            check.defer_assert(
                el.logical_not(el.logical_and(el.isfinite(low), el.isfinite(high))),
                f"{name}: the range of the values is not finite",
                RuntimeError,
            )
            same = el.eq(low, high)
            return el.where(same, low - widen, low), el.where(same, high + widen, high)
    if low == high:
        low, high = low - widen, high + widen
    return x.new_full((), low), x.new_full((), high)


def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements fall into each of `bins` equal parts of [min, max].

    Equal min and max stand for those of the values. Elements outside count nowhere.
    """
    check.floats("histc", input)
    if bins <= 0:
        raise RuntimeError(f"histc: bins must be > 0, got {bins}")
    x = input.detach().reshape(-1)
    x = x.to(dt.float32) if x.itemsize == 2 else x
    low, high = _bounds("histc", x, min, max, 1.0)
    inside = el.logical_and(el.ge(x, low), el.le(x, high))
    bucket = el.minimum(el.floor((x - low) / (high - low) * bins), bins - 1)
    index = el.where(inside, bucket, bins).to(dt.int64)
    return _counts(index, el.where(inside, 1.0, 0.0).to(x.dtype), bins).to(input.dtype)


def _counts(index: Tensor, weight: Tensor, bins: int) -> Tensor:
    """Sums of weights by index; `bins` itself is where those go that count nowhere."""
    if not index.numel():
        return weight.new_zeros(bins)
    return apply(add_rows, (index, weight.reshape(-1, 1)), (bins + 1,)).reshape(-1)[:bins]


def _linspace(low: Tensor, high: Tensor, n: int) -> Tensor:
    """n + 1 numbers, computed from the nearer end, as PyTorch's linspace."""
    i = el.iota((n + 1,), low.device)
    step = (high - low) / n
    return el.where(el.lt(i, (n + 1) // 2), low + step * i, high - step * (n - i))


def _histogram(
    name: str, x: Tensor, edges: list[Tensor], weight: Tensor | None, density: bool
) -> Tensor:
    """The histogram of points (n, D)."""
    sizes = [len(e) - 1 for e in edges]
    total = math.prod(sizes)
    index: Any = 0
    inside: Any = None
    for i, e in enumerate(edges):
        column = x[:, i].contiguous()
        there = el.logical_and(el.ge(column, e[0]), el.le(column, e[-1]))
        inside = there if inside is None else el.logical_and(inside, there)
        bucket = el.minimum(searchsorted(e.to(x.dtype), column, right=True) - 1, sizes[i] - 1)
        index = index * sizes[i] + bucket
    index = el.where(inside, index, total)
    ones = x.new_ones(len(x)) if weight is None else weight.detach().reshape(-1)
    if weight is not None and weight.dtype is not x.dtype:
        raise RuntimeError(
            f"{name}: weight should have the dtype of input, {x.dtype.name}, got "
            f"{weight.dtype.name}"
        )
    if len(ones) != len(x):
        raise RuntimeError(
            f"{name}: expected a weight for each of {len(x)} points, got {len(ones)}"
        )
    hist = _counts(index, el.where(inside, ones, 0.0), total).reshape(sizes)
    if density:
        hist = hist / sum_(hist)
        for i, e in enumerate(edges):
            hist = hist / (e[1:] - e[:-1]).reshape((-1,) + (1,) * (len(edges) - 1 - i))
    return hist


def _edges(name: str, x: Tensor, bins: Any, bounds: Any) -> Tensor:
    """The edges of one dim: given ones, or those of equal parts."""
    if isinstance(bins, Tensor):
        if bins.ndim != 1 or not bins.numel():
            raise RuntimeError(
                f"{name}: bins tensor should have one dim with elements, got {list(bins.shape)}"
            )
        if bins.dtype is not x.dtype:
            raise RuntimeError(
                f"{name}: input and bins must have one dtype, got {x.dtype.name} and "
                f"{bins.dtype.name}"
            )
        return bins.detach()
    if bins <= 0:
        raise RuntimeError(f"{name}: bins must be > 0, got {bins}")
    low, high = (None, None) if bounds is None else bounds
    return _linspace(*_bounds(name, x, low, high, 0.5), bins)


def histogram(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None,
    density: bool = False,
) -> HistogramResult:  # fmt: skip
    """(hist, bin_edges): counts between edges, which are given or cut `range` into `bins` parts."""
    check.floats("histogram", input)
    if range is not None and len(range) != 2:
        raise RuntimeError(f"histogram: range should have 2 elements, got {len(range)}")
    if weight is not None and weight.shape != input.shape:
        raise RuntimeError(
            f"histogram: weight should have the shape of input, {list(input.shape)}, got "
            f"{list(weight.shape)}"
        )
    x = input.detach().reshape(-1)
    edges = _edges("histogram", x, bins, range)
    hist = _histogram("histogram", x.reshape(-1, 1), [edges], weight, density)
    return HistogramResult(hist, edges)


def histogramdd(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None,
    density: bool = False,
) -> HistogramddResult:  # fmt: skip
    """(hist, bin_edges) of points (*, D); bins for each of D dims, range 2 D numbers."""
    if input.ndim < 2:
        raise RuntimeError(
            f"histogramdd: input tensor should have at least 2 dims, got {input.ndim}"
        )
    x = input.detach().reshape(-1, input.shape[-1])
    dims = x.shape[1]
    each = [bins] * dims if isinstance(bins, int) else list(bins)
    if len(each) != dims:
        raise RuntimeError(f"histogramdd: expected {dims} sequences of bin edges, got {len(each)}")
    if range is not None and len(range) != 2 * dims:
        raise RuntimeError(f"histogramdd: range should have {2 * dims} elements, got {len(range)}")
    edges = [
        _edges("histogramdd", x[:, i], b, None if range is None else range[2 * i : 2 * i + 2])
        for i, b in enumerate(each)
    ]
    hist = _histogram("histogramdd", x, edges, weight, density)
    return HistogramddResult(hist, tuple(edges))


_SEGMENTS = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin",
             "amax": "amax", "amin": "amin"}  # fmt: skip


def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Tensor:  # fmt: skip
    """Each run of elements along an axis joined into one, of the `lengths` (*, S) given, or from
    each of `offsets` (*, S + 1) to the next; reduce: 'sum', 'mean', 'prod', 'max' or 'min'.
    `axis` must be the last dim of either. An empty run gives `initial`, or what changes nothing
    (of a mean NaN). RuntimeError where lengths don't sum to the size, unless `unsafe`."""
    name = "segment_reduce"
    d = normalize_dim(axis, data.ndim)
    if reduce not in _SEGMENTS:
        raise RuntimeError(f"{name}: unsupported reduction {reduce!r}; expected {list(_SEGMENTS)}")
    if indices is not None:
        raise RuntimeError(f"{name}(): indices based reduction is not supported yet.")
    given = offsets if lengths is None else lengths
    if given is None:
        raise RuntimeError(f"{name}(): Either lengths or offsets must be defined.")
    check.floats(name, data)
    if given.dtype not in (dt.int32, dt.int64):
        raise NotImplementedError(f"{name}: lengths and offsets are ints, got {given.dtype.name}")
    if given.ndim != d + 1 or given.shape[:d] != data.shape[:d] or not given.numel():
        raise RuntimeError(
            f"{name}(): Expected axis to be the last dimension of lengths or offsets, after the "
            f"dims of data before it, but got axis {axis}, {list(given.shape)} and data "
            f"{list(data.shape)}"
        )
    n = data.shape[d]
    counts = diff(given) if lengths is None else given
    if not unsafe and lengths is not None:
        check.assert_not(el.lt(lengths, 0), f"{name}(): lengths contains negative value!")
        message = f"{name}(): Expected all rows of lengths along axis to sum to {n} when !unsafe."
        check.assert_not(el.ne(sum_(lengths, -1), n), message)
    whole = lengths is not None
    ends = cumsum(given, -1) if whole else mv.narrow(given, d, 1, given.shape[d] - 1)
    runs = ends.shape[d]
    positions = mv.expand(el.iota((n,), data.device).to(ends.dtype), (*ends.shape[:d], n))
    of = searchsorted(ends, positions.contiguous(), right=True)  # those that no run has: `runs`
    if lengths is None:
        of = el.where(el.lt(positions, mv.narrow(given, d, 0, 1)), runs, of)
    rest = data.shape[d + 1 :]
    of = mv.expand(mv.reshape(of, (*of.shape, *(1,) * len(rest))), data.shape)
    shape = (*data.shape[:d], runs + 1, *rest)
    how = _SEGMENTS[reduce]
    start = data.new_full(shape, neutral_of(how, data))
    out = mv.narrow(reduced_into(name, start, d, of, data, how), d, 0, runs)
    if reduce == "mean":
        counts = mv.reshape(counts, (*counts.shape, *(1,) * len(rest)))
        if initial is None:
            return out / counts.to(data.dtype)
        return (out + initial) / el.maximum(counts, 1).to(data.dtype)
    if initial is None:
        return out
    if how in ("amax", "amin"):
        return el.where((el.lt if how == "amax" else el.gt)(out, initial), initial, out)
    return out + initial if how == "sum" else out * initial


public(
    globals(), both="bincount histc histogram",
    functions="searchsorted bucketize isin histogramdd segment_reduce",
    out_exact="bucketize histc isin searchsorted",
)  # fmt: skip
