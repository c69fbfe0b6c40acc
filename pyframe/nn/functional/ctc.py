"""The CTC loss: sums over all alignments of a sequence with its labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, can_read_value, runs_kernel
from pyframe.core.modes import mode
from pyframe.core.op import EXTERN, Op
from pyframe.nn.functional.loss import checked_reduction, reduced
from pyframe.ops.api import check
from pyframe.ops.api.autocast import autocast
from pyframe.ops.index import along, select as _index
from pyframe.ops.index.rows import add_few_rows
from pyframe.ops.linalg.matmul import matmul
from pyframe.ops.math import elementwise as el
from pyframe.ops.reduce import reductions as rd
from pyframe.ops.shape import join, movement as mv
from pyframe.tensor import Tensor, tensor, upload

__all__ = ["ctc_loss"]


NEVER = -1e30  # log(0) that stays finite, so that no gradient is inf - inf


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Connectionist temporal classification (https://www.cs.toronto.edu/~graves/icml_2006.pdf).

    log_probs (T, N, C) or (T, C), targets (N, S), or all in a row (sum of target_lengths,); the
    lengths (N,) or () are ints or tensors. 'mean' divides by the target lengths first. As in
    PyTorch the gradient is that of the logits: log_probs must be results of log_softmax.

    See nn.CTCLoss for shapes and arguments.
    """
    reduction = checked_reduction(None, None, reduction)
    check.floats("ctc_loss", log_probs)
    if log_probs.ndim not in (2, 3):
        raise RuntimeError(
            f"ctc_loss: expected log_probs (T, N, C) or (T, C), got {list(log_probs.shape)}"
        )
    if targets.dtype.category != dt.INTEGER:
        raise RuntimeError(f"ctc_loss: expected integer targets, got {targets.dtype.name}")
    batched = log_probs.ndim == 3
    lp = log_probs if batched else mv.unsqueeze(log_probs, 1)
    steps, n, classes = lp.shape
    if not 0 <= blank < classes:
        raise RuntimeError(
            f"ctc_loss: blank must be in label range 0 to {classes - 1}, got {blank}"
        )
    if not steps or not n:
        raise RuntimeError(f"ctc_loss: log_probs must not be empty, got {list(log_probs.shape)}")
    t_len = _lengths("input_lengths", input_lengths, n)
    s_len = _lengths("target_lengths", target_lengths, n)
    if (t_len > steps).any():
        raise RuntimeError(
            f"ctc_loss: Expected input_lengths to have value at most {steps}, but got {t_len.max()}"
        )
    labels = _ctc_labels(targets if batched else targets.reshape(1, -1), s_len, blank)
    bad = el.logical_or(el.lt(labels, 0), el.ge(labels, classes))
    check.assert_not(bad, f"ctc_loss: a target is out of range 0 to {classes - 1}")
    loss = apply(ctc_op, (lp, labels), (tuple(t_len.tolist()), tuple(s_len.tolist()), blank))
    never = el.ge(loss, -0.5 * NEVER)
    loss = el.where(never, 0.0 if zero_infinity else math.inf, loss)
    if reduction == "mean":
        divisor = tensor(np.maximum(s_len, 1), device=lp.device).to(lp.dtype)
        return rd.mean(loss / divisor)
    return reduced(loss if batched else mv.squeeze(loss, 0), reduction)


def _lengths(name: str, lengths: Any, n: int) -> np.ndarray:
    """int64 (n,) on the host, where the shapes of what follows are decided."""
    if isinstance(lengths, Tensor):
        if lengths.dtype.category != dt.INTEGER:
            raise RuntimeError(f"ctc_loss: {name} must be integral, got {lengths.dtype.name}")
        found = lengths._host().astype(np.int64).reshape(-1)
    else:
        found = np.array(mv.as_ints(f"ctc_loss: {name}", (lengths,)), np.int64)
    if len(found) != n:
        raise RuntimeError(f"ctc_loss: {name} must be of size {n}, the batch, got {len(found)}")
    if (found < 0).any():
        raise RuntimeError(f"ctc_loss: {name} must be non-negative, got {found.min()}")
    return found


def _ctc_labels(targets: Tensor, lengths: np.ndarray, blank: int) -> Tensor:
    """The targets as (N, S), blank behind the end of each."""
    longest = int(lengths.max(initial=0))
    inside = np.arange(longest) < lengths[:, None]
    if targets.ndim == 1:
        if targets.numel() != lengths.sum():
            raise RuntimeError(
                f"ctc_loss: expected {lengths.sum()} targets, the sum of target_lengths, got "
                f"{targets.numel()}"
            )
        starts = np.cumsum(lengths) - lengths
        positions = np.where(inside, starts[:, None] + np.arange(longest), 0)
        if not targets.numel():
            return mv.expand(tensor(blank, device=targets.device), positions.shape)
        flat = upload(positions.reshape(-1), targets.device)
        targets = _index.index_select(targets, 0, flat).reshape(positions.shape)
    elif targets.ndim != 2 or targets.shape[0] != len(lengths):
        raise RuntimeError(
            f"ctc_loss: expected targets ({len(lengths)}, S) or a vector of all, got "
            f"{list(targets.shape)}"
        )
    elif longest > targets.shape[1]:
        raise RuntimeError(
            f"ctc_loss: Expected targets to have size at least {longest} at dimension 1, the "
            f"longest of target_lengths, but got size {list(targets.shape)}"
        )
    else:
        targets = targets[:, :longest]
    return el.where(upload(inside, targets.device), targets, blank)


def _ctc_step(a: Tensor, two: Tensor, one: Tensor, may_skip: Tensor) -> Tensor:
    """log(exp(a) + exp(one) + exp(two)), the last only where two places may be passed at once."""
    two = el.where(may_skip, two, NEVER)
    top = el.maximum(el.maximum(a, one), two).detach()
    return el.log(el.exp(a - top) + el.exp(one - top) + el.exp(two - top)) + top


def _ctc_setting(lp: Tensor, labels: Tensor, blank: int) -> tuple[Tensor, Tensor, Tensor]:
    """(the labels with blanks around them (N, 2S + 1), where a path may come from two places
    before, the log-probability of each at each time (T, N, 2S + 1))."""
    n, width = labels.shape[0], 2 * labels.shape[1] + 1
    pairs = mv.pad(mv.unsqueeze(labels, 2), ((0, 0), (0, 0), (1, 0)), blank)
    path = mv.pad(pairs.reshape(n, width - 1), ((0, 0), (0, 1)), blank)
    positions = el.iota((width,), lp.device)
    before = mv.pad(path, ((0, 0), (2, 0)), blank)[:, :width]
    may_skip = el.logical_and(el.gt(positions, 1), el.ne(path, before))  # a blank has one before it
    index = mv.expand(mv.unsqueeze(path, 0), (lp.shape[0], n, width))
    return path, may_skip, el.clamp(along.gather(lp, 2, index), min=NEVER)


def _np_ctc_paths(
    emitted: np.ndarray, may_skip: np.ndarray, starts: np.ndarray, first: Any, end: Any
) -> np.ndarray:
    """The steps of `_ctc_forward` at once: sample n begins at time first[n] where `starts` holds,
    and stays as it is from time end[n] on."""
    out = np.empty_like(emitted)
    first, end = np.asarray(first)[:, None], np.asarray(end)[:, None]
    padded = np.full((emitted.shape[1], emitted.shape[2] + 2), NEVER, emitted.dtype)
    two, one, now = padded[:, :-2], padded[:, 1:-1], padded[:, 2:]
    for t, emit in enumerate(emitted):
        skipped = np.where(may_skip, two, emit.dtype.type(NEVER))
        top = np.maximum(np.maximum(now, one), skipped)
        step = np.exp(now - top) + np.exp(one - top) + np.exp(skipped - top)
        step = np.log(step) + top + emit
        if t <= first.max():
            step = np.where(first == t, np.where(starts, emit, emit.dtype.type(NEVER)), step)
        if t >= end.min():
            step = np.where(end > t, step, now)
        out[t] = now[...] = step
    return out


def _ctc_at_once(emitted: Tensor, paths: Any) -> list[Tensor] | None:
    """The times of paths(array), if it may be computed now: on the CPU and without a gradient."""
    if not can_read_value(emitted) or mode.grad or emitted.itemsize < 4:
        return None
    return [upload(a, emitted.device) for a in paths(emitted._node.data)]


def _ctc_forward(emitted: Tensor, may_skip: Tensor, t_len: tuple[int, ...]) -> list[Tensor]:
    """For each time the log-probability (N, 2S + 1) of all beginnings of a path that are there."""
    width = emitted.shape[2]
    starts, steps = np.arange(width) < 2, max(1, *t_len)
    done = _ctc_at_once(
        emitted, lambda a: _np_ctc_paths(a[:steps], may_skip._node.data, starts, [0], t_len)
    )
    if done is not None:
        return done
    now = el.where(el.lt(el.iota((width,), emitted.device), 2), emitted[0], NEVER)
    all_times = [now]
    for t in range(1, max(t_len)):
        before = mv.pad(now, ((0, 0), (2, 0)), NEVER)
        step = _ctc_step(now, before[:, :width], before[:, 1 : width + 1], may_skip) + emitted[t]
        now = step if min(t_len) > t else el.where(_column(emitted, t_len, t), step, now)
        all_times.append(now)
    return all_times


def _column(like: Tensor, lengths: Any, t: int) -> Tensor:
    """bool (N, 1): which lengths are above t."""
    return upload(np.array(lengths)[:, None] > t, like.device)


def _ctc_backward(
    emitted: Tensor, may_skip: Tensor, ends: Tensor, t_len: tuple[int, ...]
) -> list[Tensor]:
    """For each time the log-probability (N, 2S + 1) of all ends of a path that begin there."""
    width = emitted.shape[2]
    skips = mv.pad(may_skip, ((0, 0), (0, 2)), False)[:, 2:]
    steps = max(1, *t_len)
    done = _ctc_at_once(  # the same with times and places reversed
        emitted, lambda a: _np_ctc_paths(
            a[:steps][::-1, :, ::-1], skips._node.data[:, ::-1], ends._node.data[:, ::-1],
            [steps - n for n in t_len], [steps])[::-1, :, ::-1])  # fmt: skip
    if done is not None:
        return done
    now = el.where(ends, emitted[0], NEVER) * 0.0 + NEVER
    all_times = []
    for t in reversed(range(steps)):
        after = mv.pad(now, ((0, 0), (0, 2)), NEVER)
        step = _ctc_step(now, after[:, 2:], after[:, 1 : width + 1], skips) + emitted[t]
        if t + 1 in t_len:
            last = el.where(ends, emitted[t], NEVER)
            step = el.where(_column(emitted, [-abs(n - t - 1) for n in t_len], -1), last, step)
        now = step
        all_times.append(now)
    return all_times[::-1]


def _ctc_by_ops(
    lp: Tensor, labels: Tensor, t_len: tuple[int, ...], s_len: tuple[int, ...], blank: int
) -> Tensor:
    _, may_skip, emitted = _ctc_setting(lp, labels, blank)
    total = _ctc_forward(emitted, may_skip, t_len)[-1]
    ends = _ctc_ends(lp, labels, s_len)
    loss = -rd.logsumexp(el.where(ends, total, NEVER), 1)
    if min(t_len) == 0:  # no time: nothing but the empty target is possible
        empty = upload(np.array(s_len) == 0, lp.device)
        none = el.where(empty, 0.0, -NEVER)
        loss = el.where(mv.squeeze(_column(lp, t_len, 0), 1), loss, none)
    return loss


def _ctc_ends(lp: Tensor, labels: Tensor, s_len: tuple[int, ...]) -> Tensor:
    """bool (N, 2S + 1): the places where a path may end, the last label and the blank after it."""
    positions = np.arange(2 * labels.shape[1] + 1)
    last = 2 * np.array(s_len)[:, None]
    return upload((positions == last) | (positions == last - 1), lp.device)


def _ctc_grad(
    g: Tensor, y: Tensor, lp: Tensor, labels: Tensor, t_len: tuple[int, ...],
    s_len: tuple[int, ...], blank: int,
) -> Tensor:  # fmt: skip
    """exp(lp) minus how probable each class is at each time, given the target (equation 16)."""
    steps = max(1, *t_len)
    path, may_skip, emitted = _ctc_setting(lp, labels, blank)
    ends = _ctc_ends(lp, labels, s_len)
    here = join.stack(_ctc_forward(emitted, may_skip, t_len))
    here = here + join.stack(_ctc_backward(emitted, may_skip, ends, t_len))
    inside = upload(np.arange(steps)[:, None, None] < np.array(t_len)[:, None], lp.device)
    possible = el.lt(y, -0.5 * NEVER)
    exponent = here - emitted[:steps] + el.where(possible, y, 0.0).reshape(-1, 1)
    counts = el.logical_and(inside, possible.reshape(-1, 1))
    share = el.exp(el.where(counts, exponent, NEVER))
    chances = el.where(inside, el.exp(lp[:steps]), 0.0)
    if runs_kernel(add_few_rows, lp.device):  # one-hot rows: it looks at all of them for each
        hot = el.eq(mv.unsqueeze(path, 2), el.iota((lp.shape[2],), lp.device)).to(lp.dtype)
        chances = chances - mv.transpose(matmul(mv.transpose(share, 0, 1), hot), 0, 1)
    else:
        index = mv.expand(mv.unsqueeze(path, 0), share.shape)
        chances = along.scatter_add(chances, 2, index, -share)
    grad = chances * g.reshape(-1, 1)
    return mv.pad(grad, ((0, lp.shape[0] - steps), (0, 0), (0, 0)), 0)


# Its gradient goes over the times twice, where that of the composition would go over all of it
ctc_op = Op(
    "ctc_loss", EXTERN, "lp labels", "t_len s_len blank",
    infer=lambda lp, labels, *_: ((lp.shape[1],), lp.dtype), fallback=_ctc_by_ops, lp=_ctc_grad,
)  # fmt: skip
ctc_op.decomposes_when_called = True


autocast(globals(), float32="ctc_loss")
