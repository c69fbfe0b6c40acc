"""Losses."""

from __future__ import annotations

from typing import Any

from pyframe import dtypes as dt
from pyframe.ops import (
    elementwise as el,
    index as _index,
    movement as mv,
    reduce as rd,
)
from pyframe.ops.elementwise import gelu as gelu, silu as silu
from pyframe.ops.index import one_hot as one_hot
from pyframe.tensor import Tensor

__all__ = ["cross_entropy", "l1_loss", "mse_loss", "nll_loss"]


def _reduce(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return rd.mean(loss)
    if reduction == "sum":
        return rd.sum(loss)
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction; use 'mean', 'sum' or 'none'")


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-input[target] per sample: input (N, C, *) or (C,) log-probabilities, target (N, *) or ().

    'mean' divides by the sum of the weights of the targets that are not ignored. IndexError for
    a target outside 0..C-1; on the GPU when a value is next read.
    """
    picked, w = _picked("nll_loss", input, target, weight, ignore_index)
    return _weighted(-picked, w, reduction)


def _picked(
    name: str, input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int
) -> tuple[Tensor, Tensor | None]:
    """(input at each target, the weight of each target or None where all count 1)."""
    if input.ndim == 0 or target.ndim != max(input.ndim - 1, 0):
        raise ValueError(
            f"{name}: expected target with one dim less than input (N, C, *), got input "
            f"{list(input.shape)} and target {list(target.shape)}"
        )
    c = 1 if input.ndim > 1 else 0
    n = input._node.shape[c]
    want = input._node.shape[:c] + input._node.shape[c + 1 :]
    if target._node.shape != want:
        raise ValueError(
            f"{name}: Expected input batch_size ({list(input.shape)}) to match target batch_size "
            f"({list(target.shape)}): target must be {list(want)}"
        )
    if target.dtype.category != dt.INTEGER:
        raise RuntimeError(
            f"{name}: expected target of dtype int64, got {target.dtype.name}; class indices are "
            "ints (use .long()), class probabilities have the shape of input"
        )
    if weight is not None and weight._node.shape != (n,):
        raise RuntimeError(
            f"{name}: weight tensor should be defined either for all {n} classes or no classes but "
            f"got weight tensor of shape: {list(weight.shape)}"
        )
    target = _index.checked_classes(f"{name}: target", target, n, ignore_index)
    # ignore_index is -100 in nearly all programs, and then no valid class is ever ignored unless
    # a target says so; only the CPU can look without waiting
    if not target.device.lazy and not (target._node.data == ignore_index).any():
        kept, safe = None, target
    else:
        kept = el.ne(target, ignore_index)
        safe = el.where(kept, target, 0)
    picked = mv.squeeze(_index.gather(input, c, mv.unsqueeze(safe, c)), c)
    if weight is None:
        return picked, None if kept is None else kept.to(input.dtype)
    w = _index.index_select(weight, 0, safe.reshape(-1)).reshape(target._node.shape)
    return picked, w if kept is None else el.where(kept, w, 0.0)


def _weighted(loss: Tensor, w: Tensor | None, reduction: str) -> Tensor:
    if w is None:
        return _reduce(loss, reduction)
    loss = el.where(el.eq(w, 0), 0.0, loss * w)
    return rd.sum(loss) / rd.sum(w) if reduction == "mean" else _reduce(loss, reduction)


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """-log_softmax(input)[target]: input (N, C, *) or (C,), target class ints or probabilities.

    See https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html. IndexError
    for a target outside 0..C-1; on the GPU when a value is next read.
    """
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    c = 1 if input.ndim > 1 else 0
    logp = rd.log_softmax(input, c)
    shape = (-1,) + (1,) * (input.ndim - 1 - c)
    if target.dtype.category == dt.FLOAT:
        if target._node.shape != input._node.shape:
            raise RuntimeError(
                f"cross_entropy: class probabilities must have the shape of input "
                f"{list(input.shape)}, got {list(target.shape)}"
            )
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / input._node.shape[c]
        loss = -logp * target
        if weight is not None:
            loss = loss * mv.reshape(weight, shape)
        loss = rd.sum(loss, c)
        if reduction == "mean":
            return rd.sum(loss) / (loss.numel())
        return _reduce(loss, reduction)
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
        smooth = _reduce(smooth, reduction)
    return loss * (1 - label_smoothing) + smooth * (label_smoothing / input._node.shape[c])


def _same_shape(name: str, input: Tensor, target: Tensor) -> None:
    if input._node.shape != target._node.shape:
        el.broadcast(name, input._node.shape, target._node.shape)
        import warnings

        warnings.warn(
            f"Using a target size ({list(target.shape)}) that is different to the input size "
            f"({list(input.shape)}) in {name}. This will likely lead to incorrect results due to "
            "broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )


def mse_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
             reduction: str = "mean") -> Tensor:  # fmt: skip
    """(input - target)^2."""
    _same_shape("mse_loss", input, target)
    return _reduce(el.square(input - target), reduction)


def l1_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
            reduction: str = "mean") -> Tensor:  # fmt: skip
    """|input - target|."""
    _same_shape("l1_loss", input, target)
    return _reduce(el.abs(input - target), reduction)
