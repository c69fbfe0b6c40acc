"""Linear maps, embeddings (rows of a table by index, bags of them), and distances of vectors."""

from __future__ import annotations

import math

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply
from pyframe.core.modes import no_grad
from pyframe.ops.api import check
from pyframe.ops.api.autocast import autocast
from pyframe.ops.api.layouts import declare_layout
from pyframe.ops.index import select as _index
from pyframe.ops.index.rows import add_rows, checked_classes, take_rows
from pyframe.ops.linalg.matmul import linear as _linear, matmul
from pyframe.ops.math import elementwise as el, promotion
from pyframe.ops.reduce import extremes, norms, reductions as rd
from pyframe.ops.reduce.scan import cumsum
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, normalize_dim, upload

__all__ = [
    "bilinear", "cosine_similarity", "embedding", "embedding_bag", "linear", "one_hot",
    "pairwise_distance", "pdist",
]  # fmt: skip


TOPLEVEL = "bilinear cosine_similarity pairwise_distance pdist"  # functions of pyframe too


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear map of the last dim, x @ weight.T + bias: (*, in) -> (*, out); see nn.Linear.

    Args:
        weight: (out, in), or (in,) for one number of each vector.
        bias: (out,), or None for none.

    Raises:
        RuntimeError: shapes or dtypes don't fit.

    >>> F.linear(pf.tensor([1.0, 2.0]), pf.tensor([[3.0, 4.0]]))
    tensor([11.])
    """
    if input.ndim and weight.ndim == 2 and input.shape[-1] != weight.shape[1]:
        raise RuntimeError(
            f"linear: input of shape {list(input.shape)} has {input.shape[-1]} features, but "
            f"weight of shape {list(weight.shape)} expects {weight.shape[1]}; an "
            f"nn.Linear for this input has in_features={input.shape[-1]}"
        )
    if weight.ndim > 2:
        raise RuntimeError(
            f"linear: expected a weight (out, in) or (in,), got {list(weight.shape)}"
        )
    dtype = input.dtype
    if dtype is not weight.dtype or (bias is not None and bias.dtype is not dtype):
        check.weight_dtype("linear", input, weight, bias)
    if bias is not None and bias.ndim > 2:
        raise RuntimeError(f"linear: expected a bias of shape (out,), got {list(bias.shape)}")
    if input.ndim and weight.ndim == 2:
        out = _linear(input, weight)
    else:
        out = matmul(input, weight.mT if weight.ndim > 1 else weight)
    return out if bias is None else out + bias


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[o] @ input2 + bias[o] for each o: (*, a), (*, b), (out, a, b) -> (*, out);
    see nn.Bilinear. RuntimeError where shapes or dtypes don't fit.
    """
    check.same_dtype("bilinear", *[x for x in (input1, input2, weight, bias) if x is not None])
    lead = input1.shape[:-1]
    if lead != input2.shape[:-1]:
        raise RuntimeError(
            "bilinear: input batch dimensions do not match: got input1 "
            f"{list(input1.shape)} and input2 {list(input2.shape)}"
        )
    if weight.ndim != 3 or weight.shape[1:] != (input1.shape[-1], input2.shape[-1]):
        raise RuntimeError(
            f"bilinear: expected weight (out, {input1.shape[-1]}, {input2.shape[-1]}), got "
            f"{list(weight.shape)}"
        )
    o, a, b = weight.shape
    if bias is not None and bias.shape != (o,):
        raise RuntimeError(f"bilinear: expected bias ({o},), got {list(bias.shape)}")
    n = math.prod(lead)
    left = matmul(input1.reshape(n, a), mv.permute(weight, 1, 0, 2).reshape(a, o * b))
    out = rd.sum(left.reshape(n, o, b) * input2.reshape(n, 1, b), -1).reshape(*lead, o)
    return out if bias is None else out + bias


autocast(globals(), lower="linear", gpu_widest="bilinear")


def at_least(x: Tensor, low: float) -> Tensor:
    """A copy of x, no less than `low`; the gradient is that of x itself, below `low` too."""
    x = x.clone()
    with no_grad():
        x._overwrite(el.clamp(x, min=low))
    return x


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between two tensors over a dim, norms no less than eps; see
    nn.CosineSimilarity. RuntimeError for ints.
    """
    dtype = promotion.result_type(x1, x2)
    if dtype.category != dt.FLOAT:
        raise RuntimeError(
            "cosine_similarity: expected common dtype to be floating point, yet common dtype is "
            f"{dtype.name}; use .float() first"
        )
    a, b = mv.broadcast_tensors(x1.to(dtype), x2.to(dtype))
    d = normalize_dim(dim, a.ndim)
    unit = [x / at_least(norms.vector_norm(x, 2, d if x.ndim else (), True), eps) for x in (a, b)]
    return rd.sum(unit[0] * unit[1], d if a.ndim else ())


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dim; see nn.PairwiseDistance."""
    return norms.vector_norm(x1 - x2 + eps, p, -1, keepdim)


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The p-norms of the differences of all pairs of rows: (N, M) -> (N * (N - 1) / 2,), the first
    with each later one, then the second, and so on.

    Raises:
        RuntimeError: the input hasn't 2 dims, or p is negative.

    >>> F.pdist(pf.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]), p=1)
    tensor([7., 1., 6.])
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist: only supports 2D tensors, got: {input.ndim}D")
    check.floats("pdist", input)
    if p < 0:
        raise RuntimeError(f"pdist: only supports non-negative p values, got {p}")
    first, second = np.triu_indices(input.shape[0], 1)
    if not first.size:
        return rd.sum(input[:0], 1)
    rows = [
        apply(take_rows, (input, upload(i.astype(np.int64), input.device))) for i in (first, second)
    ]
    return norms.vector_norm(rows[0] - rows[1], p, 1, False)


autocast(globals(), gpu_float32="cosine_similarity pairwise_distance pdist")


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """int64 (*, num_classes) with a 1 at each class of ints (*), else 0.

    Args:
        num_classes: -1 reads the largest class, and is one more.

    Raises:
        RuntimeError: a class is outside 0..num_classes-1 (on the GPU when a value is next read), or
            the ints aren't int64.

    >>> F.one_hot(pf.tensor([0, 2]), 3).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    if input.dtype is not dt.int64:
        raise RuntimeError(f"one_hot: only applicable to int64 tensors, got {input.dtype.name}")
    if num_classes == -1:
        if not input.numel():
            raise RuntimeError("one_hot: can't infer the number of classes of an empty tensor")
        num_classes = int(input.max().item()) + 1
    elif num_classes < 1 and (input.numel() or num_classes < 0):
        raise RuntimeError(f"one_hot: num_classes must be positive, got {num_classes}")
    bad = el.logical_or(el.lt(input, 0), el.ge(input, num_classes))
    check.assert_not(bad, f"one_hot: Class values must be from 0 to {num_classes - 1}")
    hot = el.eq(mv.unsqueeze(input, -1), el.iota((num_classes,), input.device))
    return hot.to(dt.int64)


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Rows of `weight` (V, D) that the ints of `input` (*) name: (*, D); see nn.Embedding.

    Rows longer than `max_norm` are shortened in `weight` itself; that of `padding_idx` gets no
    gradient; with `scale_grad_by_freq` gradients are divided by how often a row is named. `sparse`
    changes nothing: gradients are dense. IndexError for an index outside the table; on the GPU when
    a value is next read.

    >>> F.embedding(pf.tensor([1, 0]), pf.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    if padding_idx is not None:
        rows = len(weight)
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    flat = checked_rows("embedding", input, weight)
    if max_norm is not None:
        renorm_rows(weight, flat, max_norm, norm_type)
    out = _rows(weight, flat, padding_idx, scale_grad_by_freq)
    return out.reshape((*input.shape, weight.shape[1]))


def checked_rows(name: str, input: Tensor, weight: Tensor) -> Tensor:
    """The ints of `input` as a vector; RuntimeError for dtypes or shapes that don't fit, and for a
    row outside the table (V, D); of `embedding` that is an IndexError."""
    if weight.ndim != 2:
        raise RuntimeError(f"{name}: 'weight' must be 2-D, got shape {list(weight.shape)}")
    if input.dtype not in (dt.int32, dt.int64):
        raise RuntimeError(
            f"{name}: Expected tensor for argument #1 'indices' to have dtype int64 or int32, "
            f"but got {input.dtype.name}"
        )
    error = RuntimeError if name == "embedding_bag" else IndexError
    rows = weight.shape[0]
    return checked_classes(f"{name}: index", input.reshape(-1), rows, error=error)


def _rows(weight: Tensor, flat: Tensor, padding_idx: int | None, by_freq: bool) -> Tensor:
    out = apply(take_rows, (weight, flat))
    if not weight.requires_grad:
        return out
    if by_freq:
        once = weight.new_ones(flat.numel(), 1)
        count = apply(add_rows, (flat, once), (weight.shape[0],))
        share = 1 / apply(take_rows, (count, flat))
        out = out.detach() + (out - out.detach()) * share
    if padding_idx is not None:
        out = el.where(mv.unsqueeze(el.eq(flat, padding_idx), -1), out.detach(), out)
    return out


def renorm_rows(weight: Tensor, flat: Tensor, max_norm: float, norm_type: float) -> None:
    """Shorten the rows that `flat` names to `max_norm`, in place."""
    with no_grad():
        once = weight.new_ones(flat.numel(), 1)
        named = apply(add_rows, (flat, once), (weight.shape[0],))
        norm = norms.vector_norm(weight, norm_type, 1, True)
        long = el.logical_and(el.gt(named, 0), el.gt(norm, max_norm))
        weight._overwrite(el.where(long, weight * (max_norm / (norm + 1e-7)), weight))


def _check_bags(
    input: Tensor, weight: Tensor, offsets: Tensor | None, mode: str, by_freq_or_sparse: bool,
    per_sample_weights: Tensor | None,
) -> None:  # fmt: skip
    """ValueError (NotImplementedError for weights in another mode) for what embedding_bag does not
    take."""
    name = "embedding_bag"
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            f"{name}: per_sample_weights {list(per_sample_weights.shape)} must have the same shape "
            f"as the input {list(input.shape)}"
        )
    if weight.ndim != 2:
        raise ValueError(f"{name}: weight has to be a 2D Tensor, got {weight.ndim}-d")
    if weight.dtype.category != dt.FLOAT:
        raise RuntimeError(f"{name}: expected a weight of a float dtype, got {weight.dtype.name}")
    check.params_like(name, weight, per_sample_weights=per_sample_weights)
    if input.ndim not in (1, 2):
        raise ValueError(f"{name}: input has to be 1D or 2D Tensor, got {input.ndim}-d")
    if input.ndim == 2 and offsets is not None:
        raise ValueError(f"{name}: if input is 2D, its rows are the bags: offsets has to be None")
    if input.ndim == 1 and (offsets is None or offsets.ndim != 1):
        seen = "None" if offsets is None else f"{offsets.ndim}-d"
        raise ValueError(f"{name}: offsets has to be a 1D Tensor for a 1D input, got {seen}")
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"{name}: mode has to be one of sum, mean or max, got {mode!r}")
    if mode == "max" and by_freq_or_sparse:
        raise ValueError(f"{name}: max mode supports neither scale_grad_by_freq nor sparse")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"{name}: per_sample_weights is only supported for mode='sum' (got mode='{mode}')"
        )


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean",
    sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or max of `embedding` over bags of ints: (B, L), or (n,) where bag i starts at
    offsets[i] (and ends at the next one); (B, D). An empty bag gives zeros. See nn.EmbeddingBag.

    The ints of `padding_idx` count for nothing; `per_sample_weights` (mode 'sum') multiply. Mode
    'max' with offsets reads them. Otherwise as `embedding`.

    >>> table = pf.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> F.embedding_bag(pf.tensor([1, 0, 1]), table, pf.tensor([0, 2]), mode="sum").tolist()
    [[4.0, 6.0], [3.0, 4.0]]
    """
    _check_bags(input, weight, offsets, mode, scale_grad_by_freq or sparse, per_sample_weights)
    if padding_idx is not None:
        rows = len(weight)
        if not -rows <= padding_idx < rows:
            raise RuntimeError(
                f"embedding_bag: padding_idx must be within {rows} embeddings, got {padding_idx}"
            )
        padding_idx %= rows
    flat = checked_rows("embedding_bag", input, weight)
    if max_norm is not None:
        renorm_rows(weight, flat, max_norm, norm_type)
    picked = _rows(weight, flat, None, scale_grad_by_freq)
    kept = None if padding_idx is None else mv.unsqueeze(el.ne(flat, padding_idx), 1)
    if per_sample_weights is not None:
        picked = picked * per_sample_weights.reshape(-1, 1)
    if mode == "max":
        return _largest(picked, kept, _indices(input, offsets, include_last_offset))
    count = weight.new_ones(flat.numel(), 1)
    if kept is not None:
        picked, count = el.where(kept, picked, 0.0), kept.to(weight.dtype)
    if offsets is None:
        bags, length = input.shape
        total = rd.sum(picked.reshape(bags, length, weight.shape[1]), 1)
        count = rd.sum(count.reshape(bags, length, 1), 1)
    else:
        bags = offsets.numel() - include_last_offset
        bag = _bags(offsets[:bags], flat.numel())
        total, count = [
            apply(add_rows, (bag, x), (bags,)) for x in (picked, count)
        ]  # fmt: skip
    return total / el.clamp(count, min=1) if mode == "mean" else total


def _bags(offsets: Tensor, n: int) -> Tensor:
    """int64 (n,): the bag of each place, the last one that starts at or before it."""
    if n and not offsets.numel():
        raise RuntimeError(f"embedding_bag: offsets are empty, but input has {n} elements")
    first, last = el.ne(offsets[:1], 0), el.gt(offsets, n)
    check.assert_not(first, "embedding_bag: offsets[0] has to be 0, the start of the first bag")
    check.assert_not(last, f"embedding_bag: an offset is greater than input's length {n}")
    one = offsets.new_ones(offsets.numel(), 1, dtype=dt.int32)
    starts = apply(add_rows, (offsets, one), (n + 1,))
    return cumsum(starts.reshape(-1), 0)[:n] - 1


def _indices(input: Tensor, offsets: Tensor | None, include_last: bool) -> np.ndarray:
    """int64 (B, L): the places in the flat input of each bag, -1 behind its end."""
    if offsets is None:
        return np.arange(input.numel()).reshape(input.shape)
    starts = offsets._host().astype(np.int64)
    n = input.numel()
    if n and (not len(starts) or starts[0] or starts.max() > n):
        raise RuntimeError(
            f"embedding_bag: offsets have to start at 0 and not exceed input's length {n}, got "
            f"{starts.tolist()}"
        )
    ends = starts[1:] if include_last else np.append(starts[1:], n)
    starts = starts[: len(ends)]
    positions = starts[:, None] + np.arange(int((ends - starts).max(initial=0)))
    return np.where(positions < ends[:, None], positions, -1)


def _largest(picked: Tensor, kept: Tensor | None, positions: np.ndarray) -> Tensor:
    """The maxima (B, D) over the rows of `picked` at each row of `positions`; 0 where that has
    none."""
    bags, length = positions.shape
    width = picked.shape[1]
    if not positions.size:
        return picked.new_zeros(bags, width)
    at = upload(np.maximum(positions, 0).reshape(-1).astype(np.int64), picked.device)
    inside = upload(positions >= 0, picked.device)
    if kept is not None:
        named = _index.index_select(kept.to(dt.int32), 0, at).reshape(bags, length)
        inside = el.logical_and(inside, el.ne(named, 0))
    rows = apply(take_rows, (picked, at)).reshape(bags, length, width)
    rows = el.where(mv.unsqueeze(inside, 2), rows, -math.inf)
    best = extremes.max(rows, 1).values  # the first of equals takes the gradient
    return el.where(mv.unsqueeze(rd.any(inside, 1), 1), best, 0.0)


declare_layout(globals(), rows="one_hot")
