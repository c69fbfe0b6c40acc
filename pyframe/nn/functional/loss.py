"""Losses."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, peek_array
from pyframe.core.op import EXTERN, Op
from pyframe.nn.functional.activation import logsigmoid
from pyframe.nn.functional.linear_maps import at_least, linear, pairwise_distance
from pyframe.ops.api import check
from pyframe.ops.api.autocast import autocast
from pyframe.ops.api.batching_rules import aligned
from pyframe.ops.api.layouts import declare_layout
from pyframe.ops.index import along, select as _index
from pyframe.ops.index.rows import checked_classes
from pyframe.ops.math import elementwise as el, promotion
from pyframe.ops.math.elementwise import softplus as _softplus
from pyframe.ops.math.special import xlogy
from pyframe.ops.reduce import reductions as rd
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss",
    "cross_entropy", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss",
    "kl_div", "l1_loss", "linear_cross_entropy", "margin_ranking_loss", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss",
    "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip


def reduction_of(size_average: Any, reduce: Any, stacklevel: int) -> str | None:
    """What the deprecated arguments say, with a warning; None where none is given."""
    if size_average is None and reduce is None:
        return None
    summed = "mean" if size_average is None or size_average else "sum"
    reduction = summed if reduce is None or reduce else "none"
    warnings.warn(
        "size_average and reduce args will be deprecated, please use "
        f"reduction='{reduction}' instead.",
        stacklevel=stacklevel + 1,
    )
    return reduction


def checked_reduction(size_average: Any, reduce: Any, reduction: str) -> str:
    """What the deprecated arguments say where one is given, else `reduction`, checked."""
    old = reduction_of(size_average, reduce, 4)
    if old is not None:
        return old
    if reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
            stacklevel=4,
        )
        reduction = "mean"
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(
            f"{reduction} is not a valid value for reduction; use 'mean', 'sum' or 'none'"
        )
    return reduction


def reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return rd.mean(loss)
    return rd.sum(loss) if reduction == "sum" else loss


# --- classes


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-input[target] per sample: input (N, C, *) or (C,) log-probabilities, target (N, *) or ().

    'mean' divides by the sum of the weights of the targets that are not ignored. IndexError for
    a target outside 0..C-1; on the GPU when a value is next read.

    See nn.NLLLoss for shapes and arguments.
    """
    reduction = checked_reduction(size_average, reduce, reduction)
    picked, w = _picked("nll_loss", input, target, weight, ignore_index)
    return _weighted(-picked, w, reduction)


def _picked(
    name: str, input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int
) -> tuple[Tensor, Tensor | None]:
    """(input at each target, the weight of each target or None where all count 1)."""
    check.floats(name, input)
    if input.ndim == 1 and target.shape == (1,):
        target = mv.reshape(target, ())
    if input.ndim == 0 or target.ndim != max(input.ndim - 1, 0):
        raise _mismatch(input, target)(
            f"{name}: expected target with one dim less than input (N, C, *), got input "
            f"{list(input.shape)} and target {list(target.shape)}"
            + ("; take .squeeze(1) of the target" if target.shape[1:2] == (1,) else "")
        )
    c = 1 if input.ndim > 1 else 0
    n = input.shape[c]
    want = input.shape[:c] + input.shape[c + 1 :]
    if target.shape != want:
        raise _mismatch(input, target)(
            f"{name}: Expected input batch_size ({list(input.shape)}) to match target batch_size "
            f"({list(target.shape)}): target must be {list(want)}"
        )
    if target.dtype.category != dt.INTEGER:
        raise RuntimeError(
            f"{name}: expected target of dtype int64, got {target.dtype.name}; class "
            "indices are ints (use .long()), class probabilities have the shape of input"
        )
    if target.dtype is dt.uint8:
        target = target.to(dt.int64)
    if weight is not None and weight.shape != (n,):
        raise RuntimeError(
            f"{name}: weight tensor should be defined either for all {n} classes or no classes but "
            f"got weight tensor of shape: {list(weight.shape)}"
        )
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}: expected a weight of the input's dtype {input.dtype.name}, but got "
            f"{weight.dtype.name}; convert it with .to(input.dtype)"
        )
    of = f"; input has {n} {'class' if n == 1 else 'classes'}"
    target = checked_classes(f"{name}: target", target, n, ignore_index, of=of)
    # ignore_index is -100 in nearly all programs, and then no valid class is ever ignored unless
    # a target says so; only the CPU can look without waiting
    if (data := peek_array(target)) is not None and not (data == ignore_index).any():
        kept, safe = None, target
    else:
        kept = el.ne(target, ignore_index)
        safe = el.where(kept, target, 0)
    picked = mv.squeeze(along.gather(input, c, mv.unsqueeze(safe, c)), c)
    if weight is None:
        return picked, None if kept is None else kept.to(input.dtype)
    w = _index.index_select(weight, 0, safe.reshape(-1)).reshape(target.shape)
    return picked, w if kept is None else el.where(kept, w, 0.0)


def _mismatch(input: Tensor, target: Tensor) -> type[Exception]:
    """What PyTorch raises where shapes don't fit: ValueError if the batch doesn't."""
    as_many = input.ndim > 1 and target.shape[:1] == input.shape[:1]
    return RuntimeError if as_many else ValueError


def _weighted(loss: Tensor, w: Tensor | None, reduction: str) -> Tensor:
    if w is None:
        return reduced(loss, reduction)
    loss = el.where(el.eq(w, 0), 0.0, loss * w)
    return rd.sum(loss) / rd.sum(w) if reduction == "mean" else reduced(loss, reduction)


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """-log_softmax(input)[target]: input (N, C, *) or (C,), target class ints or probabilities.

    IndexError for a target outside 0..C-1; on the GPU when a value is next read.

    See nn.CrossEntropyLoss for shapes and arguments.
    """
    reduction = checked_reduction(size_average, reduce, reduction)
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    check.floats("cross_entropy", input)
    c = 1 if input.ndim > 1 else 0
    if target.shape == input.shape and target.dtype.category != dt.FLOAT:
        raise RuntimeError(
            "cross_entropy: Expected floating point type for target with class probabilities, got "
            f"{target.dtype.name}; class indices have the shape of input without its class dim, "
            "one-hot targets are floats (use .argmax(1), or .float())"
        )
    logp = rd.log_softmax(input, c)
    shape = (-1,) + (1,) * (input.ndim - 1 - c)
    if target.dtype.category == dt.FLOAT:
        if target.shape != input.shape:
            raise (_mismatch(input, target) if input.ndim > 1 else RuntimeError)(
                f"cross_entropy: class probabilities must have the shape of input "
                f"{list(input.shape)}, got {target.dtype.name} {list(target.shape)}; class indices "
                "are ints (use .long())"
            )
        if ignore_index >= 0:
            raise RuntimeError("cross_entropy: ignore_index is not supported for floating targets")
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / input.shape[c]
        loss = -logp * target
        if weight is not None:
            loss = loss * mv.reshape(weight, shape)
        return reduced(rd.sum(loss, c), reduction)
    picked, w = _picked("cross_entropy", logp, target, weight, ignore_index)
    loss = _weighted(-picked, w, reduction)
    if not label_smoothing:
        return loss
    smooth = -logp if weight is None else -logp * mv.reshape(weight, shape)
    smooth = rd.sum(smooth, c)
    kept = el.ne(target, ignore_index)
    smooth = el.where(kept, smooth, 0.0)
    if reduction == "mean":
        smooth = rd.sum(smooth) / (rd.sum(kept.to(smooth.dtype)) if w is None else rd.sum(w))
    else:
        smooth = reduced(smooth, reduction)
    return loss * (1 - label_smoothing) + smooth * (label_smoothing / input.shape[c])


_POLICIES = ("auto", "accurate", "balanced", "compact")


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """PyTorch's hints on how linear_cross_entropy saves memory; here they change nothing.

    Args:
        chunking_method: 'auto', 'aspect_ratio', 'aspect_ratio:N' or None.
        batch_chunk_size: an int above 0, or None.
        acc_policy: 'auto', 'accurate', 'balanced' or 'compact'.
        allow_retain_graph: whether a second backward is meant.
        acc_dtype: a dtype to sum up in, or None.

    Raises:
        ValueError: one of them is something else.

    >>> nn.LinearCrossEntropyOptions(acc_policy="compact").acc_policy
    'compact'
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: dt.dtype | None = None

    def __post_init__(self) -> None:
        chunks, method = self.batch_chunk_size, str(self.chunking_method)
        for what, fits, expected in (
            ("acc_policy", self.acc_policy in _POLICIES, f"one of {_POLICIES}"),
            ("chunking_method", re.fullmatch(r"None|auto|aspect_ratio(:0*[1-9]\d*)?", method),
             "'auto', 'aspect_ratio', 'aspect_ratio:N' or None"),
            ("batch_chunk_size", chunks is None or (isinstance(chunks, int) and chunks > 0),
             "a positive int or None"),
        ):  # fmt: skip
            if not fits:
                raise ValueError(
                    f"LinearCrossEntropyOptions: invalid {what} {getattr(self, what)!r}, expected "
                    f"{expected}"
                )


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: Any = None,
) -> Tensor:  # fmt: skip
    """cross_entropy(linear(input, linear_weight, linear_bias), target): input (N, F) or (F,),
    linear_weight (C, *, F), linear_bias (C, *). `options` is a hint on memory; it changes nothing.

    See nn.LinearCrossEntropyLoss for shapes and arguments.
    """
    name = "linear_cross_entropy"
    shape = linear_weight.shape
    if input.ndim not in (1, 2):
        raise RuntimeError(f"{name}: expected input (N, F) or (F,), got {list(input.shape)}")
    if len(shape) < 2:
        raise RuntimeError(f"{name}: expected linear_weight (C, *, F), got {list(shape)}")
    if shape[-1] != input.shape[-1]:
        raise RuntimeError(
            f"{name}: expected equal last dims (in_features) of input and linear_weight, got "
            f"{list(input.shape)} and {list(shape)}"
        )
    if linear_bias is not None and linear_bias.shape != shape[:-1]:
        raise RuntimeError(
            f"{name}: expected linear_bias of shape {list(shape[:-1])}, got "
            f"{list(linear_bias.shape)}"
        )
    if len(shape) > 2 and input.ndim == 1:
        raise RuntimeError(
            f"{name}: linear_weight of shape {list(shape)} requires batched input (N, {shape[-1]}),"
            f" got {list(input.shape)}"
        )
    out = (*input.shape[:-1], *shape[:-1])
    if target.shape == out and ignore_index is not None:
        raise RuntimeError(f"{name}: ignore_index needs class indices, not probabilities")
    flat_bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight.reshape(-1, shape[-1]), flat_bias).reshape(out)
    return cross_entropy(
        logits, target, weight, reduction=reduction, label_smoothing=label_smoothing,
        ignore_index=-100 if ignore_index is None else ignore_index,
    )  # fmt: skip


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: Any = None, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """sum over i != y of max(0, margin - x[y] + x[i])^p / C: input (N, C) or (C,), target (N,) or
    (). IndexError for a target outside 0..C-1; on the GPU when a value is next read.

    See nn.MultiMarginLoss for shapes and arguments.
    """
    reduction = checked_reduction(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: only p == 1 and p == 2 supported, got {p}")
    if weight is not None and weight.ndim != 1:
        raise ValueError(f"multi_margin_loss: weight must be one-dimensional, got {weight.ndim}-d")
    check.floats("multi_margin_loss", input)
    check.params_like("multi_margin_loss", input, weight=weight)
    if input.ndim > 2 or 0 in input.shape[-1:]:
        raise RuntimeError(
            "multi_margin_loss: Expected non-empty vector or matrix with optional 0-dim batch "
            f"size, but got: {list(input.shape)}"
        )
    n, c = (*(1, 1), *input.shape)[-2:]
    if target.ndim > 1 or target.numel() != n:
        raise RuntimeError(
            f"multi_margin_loss: inconsistent target size, expected {n} but got "
            f"{list(target.shape)}"
        )
    if target.dtype is not dt.int64:
        raise RuntimeError(
            f"multi_margin_loss: expected target of dtype int64, got {target.dtype.name}"
        )
    if weight is not None and weight.numel() != c:
        raise RuntimeError(
            f"multi_margin_loss: inconsistent weight size, expected {c} but got "
            f"{list(weight.shape)}"
        )
    x, y = input.reshape(n, c), target.reshape(n, 1)
    y = checked_classes("multi_margin_loss: target", y, c, error=RuntimeError)
    z = el.clamp(margin - along.gather(x, 1, y) + x, min=0)
    z = z if p == 1 else z * z
    if weight is not None:
        z = z * _index.index_select(weight, 0, y.reshape(-1)).reshape(n, 1)
    mine = el.eq(y, el.iota((c,), input.device))
    loss = rd.sum(el.where(mine, 0.0, z), 1) / c
    return reduced(loss if target.ndim else loss.reshape(()), reduction)


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """sum over classes j in the target, i not in it, of max(0, 1 - x[j] + x[i]) / C: input and
    target (N, C) or (C,), where a target lists its classes and ends at the first -1.

    See nn.MultiLabelMarginLoss for shapes and arguments.
    """
    reduction = checked_reduction(size_average, reduce, reduction)
    check.floats("multilabel_margin_loss", input)
    shape = input.shape
    if len(shape) > 2 or (len(shape) == 2 and shape[1] == 0) or shape == (0,):
        raise RuntimeError(
            "multilabel_margin_loss: Expected non-empty vector or matrix with optional 0-dim batch "
            f"size, but got: {list(shape)}"
        )
    c = shape[-1] if shape else 1
    if target.numel() != input.numel() or (len(shape) == 2 and target.shape != shape):
        raise RuntimeError(
            f"multilabel_margin_loss: inconsistent target size: {list(target.shape)} for input of "
            f"size: {list(shape)}"
        )
    if target.dtype is not dt.int64:
        raise RuntimeError(
            f"multilabel_margin_loss: expected target of dtype int64, got {target.dtype.name}"
        )
    x, y = input.reshape(-1, c), target.reshape(-1, c)
    y = checked_classes("multilabel_margin_loss: target", y, c, -1, RuntimeError)
    indices = el.iota((c,), input.device)
    end = rd.amin(el.where(el.lt(y, 0), indices, c), 1, True)
    listed = el.lt(indices, end)
    label = el.where(listed, y, 0)
    count = along.scatter_add((y * 0).to(dt.int32), 1, label, listed.to(dt.int32))
    wanted = mv.unsqueeze(el.gt(count, 0), 1)
    picked = along.gather(x, 1, label)
    z = el.clamp(1 - mv.unsqueeze(picked, 2) + mv.unsqueeze(x, 1), min=0)
    counts = el.logical_and(mv.unsqueeze(listed, 2), el.logical_not(wanted))
    loss = rd.sum(el.where(counts, z, 0.0), (1, 2)) / c
    return reduced(loss if len(shape) == 2 else loss.reshape(()), reduction)


# --- probabilities


def _bce_by_ops(x: Tensor, t: Tensor) -> Tensor:
    yes, no = el.clamp(el.log(x), min=-100.0), el.clamp(el.log1p(-x), min=-100.0)
    return (t - 1) * no - t * yes


# Its gradient stays finite where a probability is 0 or 1, which that of its logarithms would not
bce_op = Op(
    "binary_cross_entropy", EXTERN, "x t",
    infer=lambda x, t: (promotion.broadcast("binary_cross_entropy", x.shape, t.shape), x.dtype),
    fallback=_bce_by_ops, batch=aligned,
    x=lambda g, x, t: g * (x - t) / el.clamp((1 - x) * x, min=1e-12),
    t=lambda g, x: g * (el.log1p(-x) - el.log(x)),
)  # fmt: skip


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-(t * log(x) + (1 - t) * log(1 - x)), logarithms no less than -100; equal shapes.

    RuntimeError for an input or target outside 0..1 (on the GPU when a value is next read).

    See nn.BCELoss for shapes and arguments.
    """
    reduction = checked_reduction(size_average, reduce, reduction)
    check.floats("binary_cross_entropy", input)
    _equal_sizes("binary_cross_entropy", input, target)
    check.same_dtype("binary_cross_entropy", input, target)
    for what, x in (("input", input.detach()), ("target", target.detach())):
        inside = el.logical_and(el.ge(x, 0), el.le(x, 1))  # NaN is not
        message = f"binary_cross_entropy: all elements of {what} should be between 0 and 1"
        if what == "input":
            message += "; of scores take binary_cross_entropy_with_logits (nn.BCEWithLogitsLoss)"
        check.assert_not(el.logical_not(inside), message)
    loss = apply(bce_op, (input, target))
    return reduced(_in_place("binary_cross_entropy", loss, weight), reduction)


def _equal_sizes(name: str, input: Tensor, target: Tensor) -> None:
    if target.shape != input.shape:
        raise ValueError(
            f"{name}: Target size ({list(target.shape)}) must be the same as input size "
            f"({list(input.shape)})"
        )


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """binary_cross_entropy(sigmoid(x), t) without overflow; `pos_weight` multiplies the loss of
    t = 1.

    See nn.BCEWithLogitsLoss for shapes and arguments.
    """
    reduction = checked_reduction(size_average, reduce, reduction)
    _equal_sizes("binary_cross_entropy_with_logits", input, target)
    name = "binary_cross_entropy_with_logits"
    check.floats(name, input)
    minus_log = _softplus(-input)
    if pos_weight is not None:
        minus_log = _in_place(name, minus_log, (pos_weight - 1) * target + 1)
    loss = _of_dtype(name, (1 - target) * input + minus_log, target, "target")
    return reduced(_in_place(name, loss, weight), reduction)


def _of_dtype(name: str, loss: Tensor, like: Tensor, what: str) -> Tensor:
    """The loss in the dtype of `like`, as PyTorch computes it; RuntimeError if it does not fit."""
    if not dt.can_cast(loss.dtype, like.dtype):
        raise RuntimeError(
            f"{name}: the loss, of {loss.dtype.name}, can't be cast to the dtype of the {what}, "
            f"{like.dtype.name}; use {what}.float()"
        )
    return loss.to(like.dtype)


def _in_place(name: str, loss: Tensor, weight: Tensor | None) -> Tensor:
    """loss * weight; RuntimeError where that has another shape, or does not fit its dtype."""
    if weight is None:
        return loss
    out = loss * weight
    if out.shape != loss.shape or not dt.can_cast(out.dtype, loss.dtype):
        raise RuntimeError(
            f"{name}: expected a weight that broadcasts to the loss, {loss.dtype.name} "
            f"{list(loss.shape)}, but got {weight.dtype.name} {list(weight.shape)}"
        )
    return out.to(loss.dtype)


def kl_div(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """target * (log(target) - input): input log-probabilities, target probabilities, or their
    logarithms with `log_target`. 'batchmean' divides the sum by the size of dim 0.

    See nn.KLDivLoss for shapes and arguments.
    """
    for x in (input, target):
        if x.dtype.category != dt.FLOAT:
            raise RuntimeError(
                f"kl_div: expected input and target of a float dtype, got {x.dtype.name}; use "
                ".float() first"
            )
    by_batch = reduction == "batchmean" and size_average is None and reduce is None
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn(
            "kl_div: reduction 'mean' divides by the number of elements; the divergence divides by "
            "the batch size only, as 'batchmean' does",
            stacklevel=3,
        )
    reduction = checked_reduction(size_average, reduce, "sum" if by_batch else reduction)
    if log_target:
        loss = el.exp(target) * (target - input)
    else:
        loss = xlogy(target, target) - target * input
    loss = reduced(loss, reduction)
    return loss / input.shape[0] if by_batch and input.ndim else loss


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
    size_average: Any = None, eps: float = 1e-8, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """exp(x) - t * x, or x - t * log(x + eps) unless `log_input`; `full` adds Stirling's
    approximation of log(t!) where t > 1.

    See nn.PoissonNLLLoss for shapes and arguments.
    """
    reduction = checked_reduction(size_average, reduce, reduction)
    loss = (
        el.exp(input) - target * input
        if log_input
        else input - target * el.log(input + eps)
    )  # fmt: skip
    if full:
        safe = el.where(el.gt(target, 1), target, 1)
        stirling = target * el.log(safe) - target + 0.5 * el.log(2 * math.pi * safe)
        loss = loss + el.where(el.gt(target, 1), stirling, 0.0)
    return reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """(log(var) + (x - t)^2 / var) / 2, var no less than eps; `full` adds log(2 pi) / 2.

    `var` is a float, or a tensor of input's shape, without its last dim or with one dim of 1.
    ValueError for another shape or a negative variance (on the GPU when read).

    See nn.GaussianNLLLoss for shapes and arguments.
    """
    shape = input.shape
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError("gaussian_nll_loss: var has negative entry/entries")
        var = mv.expand(tensor(var, dtype=input.dtype, device=input.device), shape)
    else:
        if var.dtype.category < dt.FLOAT:
            raise RuntimeError(
                f"gaussian_nll_loss: expected var of a float dtype, got {var.dtype.name}; use "
                "var.float()"
            )
        bad = el.lt(var.detach(), 0)
        check.assert_not(bad, "gaussian_nll_loss: var has negative entry/entries", ValueError)
    seen = var.shape
    if seen != shape:
        if shape[:-1] == seen:
            var = mv.unsqueeze(var, -1)
        elif len(seen) != len(shape) or [
            n for m, n in zip(shape, seen, strict=True) if m != n
        ] != [1]:  # fmt: skip
            raise ValueError(
                f"gaussian_nll_loss: var is of incorrect size {list(seen)} for input {list(shape)}"
            )
    reduction = checked_reduction(None, None, reduction)
    var = at_least(var, eps)
    loss = 0.5 * (el.log(var) + el.square(input - target) / var)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


# --- differences


def _same_shape(name: str, input: Tensor, target: Tensor) -> None:
    if input.shape != target.shape:
        promotion.broadcast(name, input.shape, target.shape)
        fix = ": target.view_as(input)" if target.numel() == input.numel() else ""
        warnings.warn(
            f"Using a target size ({list(target.shape)}) that is different to the input size "
            f"({list(input.shape)}) in {name}. This will likely lead to incorrect results due to "
            f"broadcasting. Please ensure they have the same size{fix}.",
            stacklevel=4,
        )


def _times_weight(
    name: str, loss: Tensor, input: Tensor, weight: Tensor | None, reduction: str,
    by_weight: bool = True,
) -> Tensor:  # fmt: skip
    """The loss reduced, each element times its weight; the mean divides by the weights' sum."""
    if weight is None:
        return reduced(loss, reduction)
    if weight.shape != input.shape:
        raise ValueError(
            f"{name}: Weights and input must have the same size, got {list(weight.shape)} and "
            f"{list(input.shape)}"
        )
    loss = loss * weight
    if reduction == "mean" and by_weight:
        return rd.sum(loss) / rd.sum(weight)
    return reduced(loss, reduction)


def mse_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """(input - target)^2; with `weight` the mean divides by its sum; see nn.MSELoss."""
    _same_shape("mse_loss", input, target)
    reduction = checked_reduction(size_average, reduce, reduction)
    for x in (input, target):
        check.real("mse_loss", x)
    d = _difference(input, target)
    return _times_weight("mse_loss", el.square(d), input, weight, reduction)


def _difference(input: Tensor, target: Tensor) -> Tensor:
    """input - target, where bools count beside floats."""
    if input.dtype is dt.bool_ and target.dtype.category >= dt.FLOAT:
        input = input.to(target.dtype)
    if target.dtype is dt.bool_ and input.dtype.category >= dt.FLOAT:
        target = target.to(input.dtype)
    return input - target


def l1_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """|input - target|; with `weight` the mean divides by its sum; see nn.L1Loss."""
    _same_shape("l1_loss", input, target)
    reduction = checked_reduction(size_average, reduce, reduction)
    return _times_weight("l1_loss", el.abs(input - target), input, weight, reduction)


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """d^2 / (2 beta) where d = |input - target| < beta, else d - beta / 2 (arXiv 1504.08083).

    See nn.SmoothL1Loss for shapes and arguments.
    """
    _same_shape("smooth_l1_loss", input, target)
    reduction = checked_reduction(size_average, reduce, reduction)
    check.floats("smooth_l1_loss", target if input.dtype.category < dt.FLOAT else input)
    if not beta >= 0:
        raise RuntimeError(f"smooth_l1_loss: does not support negative values for beta, got {beta}")
    check.real("smooth_l1_loss", target)
    d = el.abs(_difference(input, target))
    if beta:
        d = _huber(d, beta)
        d = d if beta == 1 else d / beta
    return reduced(d, reduction)


def _huber(d: Tensor, delta: float) -> Tensor:
    """d^2 / 2 below delta, else delta * (d - delta / 2)."""
    low = el.clamp(d, max=delta)
    return low * (d - low * 0.5)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """d^2 / 2 where d = |input - target| < delta, else delta * (d - delta / 2).

    See nn.HuberLoss for shapes and arguments.
    """
    _same_shape("huber_loss", input, target)
    reduction = checked_reduction(None, None, reduction)
    check.floats("huber_loss", input)
    if not delta > 0:
        raise RuntimeError(
            f"huber_loss: does not support non-positive values for delta, got {delta}"
        )
    check.real("huber_loss", target)
    loss = _huber(el.abs(_difference(input, target)), delta).to(input.dtype)
    return _times_weight("huber_loss", loss, input, weight, reduction, by_weight=False)


# --- margins; a target is 1 or -1


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """log(1 + exp(-target * input)); see nn.SoftMarginLoss."""
    reduction = checked_reduction(size_average, reduce, reduction)
    loss = _of_dtype("soft_margin_loss", _softplus(el.neg(input) * target), input, "input")
    if loss.shape != input.shape:
        raise RuntimeError(
            f"soft_margin_loss: target {list(target.shape)} doesn't broadcast to input "
            f"{list(input.shape)}"
        )
    return reduced(loss, reduction)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean over the classes (the last dim) of binary_cross_entropy_with_logits.

    See nn.MultiLabelSoftMarginLoss for shapes and arguments.
    """
    reduction = checked_reduction(size_average, reduce, reduction)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    loss = loss if weight is None else loss * weight
    return reduced(rd.sum(loss, -1) / input.shape[-1], reduction)


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """input where the target is 1, max(0, margin - input) where it is -1 (and both elsewhere).

    See nn.HingeEmbeddingLoss for shapes and arguments.
    """
    reduction = checked_reduction(size_average, reduce, reduction)
    if reduction == "mean" and input.dtype.category < dt.FLOAT:
        raise RuntimeError(
            f"hinge_embedding_loss: expected input of a float dtype, got {input.dtype.name}; use "
            "input.float()"
        )
    below = el.where(el.ne(target, 1), el.clamp(margin - input, min=0), 0.0)
    return reduced(below + el.where(el.ne(target, -1), input, 0.0), reduction)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin - target * (input1 - input2)). RuntimeError for unequal numbers of dims.

    See nn.MarginRankingLoss for shapes and arguments.
    """
    reduction = checked_reduction(size_average, reduce, reduction)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            "margin_ranking_loss: All input tensors should have same dimension but got sizes: "
            f"input1: {list(input1.shape)}, input2: {list(input2.shape)}, target: "
            f"{list(target.shape)}"
        )
    return reduced(el.clamp(-target * (input1 - input2) + margin, min=0), reduction)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """1 - cos(input1, input2) where the target is 1, max(0, cos - margin) where it is -1: inputs
    (N, D) or (D,), target (N,) or ().

    See nn.CosineEmbeddingLoss for shapes and arguments.
    """
    reduction = checked_reduction(size_average, reduce, reduction)
    if target.ndim > 1 or not input1.ndim == input2.ndim == target.ndim + 1:
        raise RuntimeError(
            "cosine_embedding_loss: expects inputs (N, D) with a 1D target (N,), or (D,) with a "
            f"0D target, but got {list(input1.shape)}, {list(input2.shape)} and "
            f"{list(target.shape)}"
        )
    tiny = 1e-12
    squares = (rd.sum(input1 * input1, -1) + tiny) * (rd.sum(input2 * input2, -1) + tiny)
    cos = rd.sum(input1 * input2, -1) / el.sqrt(squares)
    loss = el.where(el.eq(target, 1), 1 - cos, 0.0)
    loss = loss + el.where(el.eq(target, -1), el.clamp(cos - margin, min=0), 0.0)
    return reduced(loss, reduction)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin + d(anchor, positive) - d(anchor, negative)), d the p-norm of the difference
    over the last dim; `swap` takes d(positive, negative) where it is smaller.

    See nn.TripletMarginLoss for shapes and arguments.
    """
    reduction = checked_reduction(size_average, reduce, reduction)
    return _triplet(
        "triplet_margin_loss", anchor, positive, negative,
        lambda a, b: pairwise_distance(a, b, p, eps), margin, swap, reduction,
    )  # fmt: skip


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """triplet_margin_loss of any distance (pairwise_distance by default).

    See nn.TripletMarginWithDistanceLoss for shapes and arguments.
    """
    return _triplet(
        "triplet_margin_with_distance_loss", anchor, positive, negative,
        distance_function or pairwise_distance, margin, swap,
        checked_reduction(None, None, reduction),
    )  # fmt: skip


def _triplet(
    name: str, anchor: Tensor, positive: Tensor, negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor], margin: float, swap: bool, reduction: str,
) -> Tensor:  # fmt: skip
    if margin <= 0:
        raise ValueError(f"{name}: margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            f"{name}: The anchor, positive, and negative tensors are expected to have the same "
            f"number of dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and "
            f"negative {negative.ndim}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = el.minimum(far, distance(positive, negative))
    return reduced(el.clamp(margin + near - far, min=0), reduction)


declare_layout(globals(), rows="nll_loss multi_margin_loss")
autocast(
    globals(),
    float32="""cosine_embedding_loss cross_entropy hinge_embedding_loss huber_loss kl_div
    l1_loss linear_cross_entropy margin_ranking_loss mse_loss multi_margin_loss
    multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss
    triplet_margin_loss binary_cross_entropy_with_logits""",
    cpu_float32="binary_cross_entropy",
    gpu_float32="gaussian_nll_loss triplet_margin_with_distance_loss",
    gpu_refused="binary_cross_entropy",
)
