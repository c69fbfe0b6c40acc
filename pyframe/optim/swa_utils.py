"""Averages of a model's weights over training, as torch.optim.swa_utils.

SWA is their plain mean (arXiv 1803.05407), EMA one that forgets. No value is read for an update, so
that it can be part of a compiled step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

import pyframe as pf
from pyframe import nn
from pyframe.core.modes import no_grad
from pyframe.optim.lr_scheduler import LRScheduler, Rate
from pyframe.optim.optimizer import Optimizer
from pyframe.tensor import Tensor

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip

Average = Callable[[Tensor, Tensor, Any], Tensor]
Averages = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The `avg_fn` of an AveragedModel that forgets: average, new, n -> decay * average +
    (1 - decay) * new.

    Args:
        decay: How much of the average stays at each update.

    Raises:
        ValueError: unless 0 <= decay <= 1.

    >>> optim.swa_utils.get_ema_avg_fn(0.75)(pf.tensor(1.0), pf.tensor(3.0), 1)
    tensor(1.5000)
    """
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"get_ema_avg_fn: invalid decay value {decay}; expected one in [0, 1]")

    @no_grad()
    def ema_update(average: Tensor, new: Tensor, n: Any) -> Tensor:
        return decay * average + (1 - decay) * new

    return ema_update


def get_swa_avg_fn() -> Average:
    """The `avg_fn` of an AveragedModel that is a mean: average, new, n -> average + (new - average)
    / (n + 1).

    >>> optim.swa_utils.get_swa_avg_fn()(pf.tensor(1.0), pf.tensor(3.0), 1)
    tensor(2.)
    """

    @no_grad()
    def swa_update(average: Tensor, new: Tensor, n: Any) -> Tensor:
        return average + (new - average) / (n + 1)

    return swa_update


def _in_place(update: Average) -> Averages:
    """An update of many averages where they lie; what is whole is rounded towards 0."""

    @no_grad()
    def updates(averages: Sequence[Tensor], news: Sequence[Tensor], n: Any) -> None:
        for average, new in zip(averages, news, strict=True):
            average.copy_(update(average, new, n))

    return updates


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """`get_ema_avg_fn` for lists of tensors, in place: a `multi_avg_fn`.

    Args:
        decay: How much of the average stays at each update.

    >>> average = pf.tensor(1.0)
    >>> optim.swa_utils.get_ema_multi_avg_fn(0.75)([average], [pf.tensor(3.0)], 1)
    >>> average
    tensor(1.5000)
    """
    return _in_place(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Averages:
    """`get_swa_avg_fn` for lists of tensors, in place: a `multi_avg_fn`.

    >>> average = pf.tensor(1.0)
    >>> optim.swa_utils.get_swa_multi_avg_fn()([average], [pf.tensor(3.0)], 1)
    >>> average
    tensor(2.)
    """
    return _in_place(get_swa_avg_fn())


class AveragedModel(nn.Module):
    """A copy of `model` whose parameters become averages, by `update_parameters(model)`. Called, it
    computes with them.

    Args:
        device: where the copy is; None for where the model is.
        avg_fn: a function (average, new, n) that gives the new average of a parameter, n being a
            tensor, how many were averaged before. It is called for the first model too, and then
            its parameters are taken as they are. None for the mean of all (arXiv 1803.05407).
        multi_avg_fn: one that changes lists of averages in place instead.
        use_buffers: whether buffers are averaged too, rather than copied.

    Raises:
        AssertionError: both functions are given.

    >>> net = nn.Linear(2, 3)
    >>> averaged = optim.swa_utils.AveragedModel(net)
    >>> averaged.update_parameters(net)
    >>> averaged.n_averaged, averaged(pf.randn(4, 2)).shape
    (tensor(1), pyframe.Size([4, 3]))
    """

    n_averaged: Tensor

    def __init__(
        self, model: nn.Module, device: Any = None, avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None, use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("AveragedModel: give only one of avg_fn and multi_avg_fn")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        beside = next(self.module.parameters(), pf.tensor(0, device=device))  # no copy in a step
        self.register_buffer("n_averaged", pf.tensor(0, dtype=pf.int64, device=beside.device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged module computes."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Take a model's parameters into the averages."""
        averages, news = _tensors(self.module, self.use_buffers), _tensors(model, self.use_buffers)
        pairs: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
        for average, new in zip(averages, news, strict=False):
            kept, given = pairs.setdefault((average.device, average.dtype), ([], []))
            kept.append(average.detach())
            given.append(new.detach().to(average.device))
        update = self.multi_avg_fn or _in_place(self.avg_fn or get_swa_avg_fn())
        for (device, _), (kept, given) in pairs.items():
            n = self.n_averaged.to(device)
            update(kept, given, n)
            for average, new in zip(kept, given, strict=True):
                average.copy_(pf.where(n == 0, new.to(average.dtype), average))
        if not self.use_buffers:
            for own, new in zip(self.module.buffers(), model.buffers(), strict=True):
                own.detach().copy_(new.detach())
        self.n_averaged.add_(1)


def _tensors(model: nn.Module, use_buffers: bool) -> Iterable[Tensor]:
    return itertools.chain(model.parameters(), model.buffers() if use_buffers else ())


@no_grad()
def update_bn(loader: Iterable[Any], model: nn.Module, device: Any = None) -> None:
    """Sets the running statistics of a model's BatchNorm layers to those of the data: after
    averaging weights they are of other ones.

    Args:
        loader: batches, of tuples or lists of which the model gets what stands first.
        model: The model; it is run in training mode.
        device: where batches are moved to; None for nowhere.

    >>> net = nn.BatchNorm1d(2)
    >>> optim.swa_utils.update_bn([pf.ones(4, 2), pf.ones(4, 2) * 3], net)
    >>> net.running_mean
    tensor([2., 2.])
    """
    from pyframe.nn.modules.normalization import _BatchNorm

    momenta = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for m in momenta:
        m.reset_running_stats()
        m.momentum = None  # the mean of all batches
    for batch in loader:
        x = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(x if device is None else x.to(device))
    for m, momentum in momenta.items():
        m.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """lr goes to swa_lr within anneal_epochs and stays there.

    The last lr tells where it began, so that schedulers can be chained.

    Args:
        optimizer: whose groups' rates are set.
        swa_lr: the lr to go to, or a list with one for each group.
        anneal_strategy: 'cos' or 'linear', the form of the way.
        last_epoch: the epoch to go on after; -1 begins anew.
        anneal_epochs: in how many steps; 0 goes there at once.

    Raises:
        ValueError: an option is out of range.

    >>> optimizer = optim.SGD([pf.zeros(1)], lr=1.0)
    >>> scheduler = optim.swa_utils.SWALR(optimizer, 0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> for epoch in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(round(scheduler.get_last_lr()[0], 3), end=" ")
    0.75 0.5 0.5
    """

    def __init__(
        self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: int = 10,
        anneal_strategy: str = "cos", last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self._take(optimizer)
        for lr, group in zip(self._each("swa_lr", swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = lr
        self._check_strategy(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: expected an int anneal_epochs >= 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _done(self, step: int) -> float:
        """How much of the way to swa_lr is done after a step, from 0 to 1."""
        t = max(0, min(1, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def _rates(self, t: int) -> list[Rate]:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, after = self._done(step - 1), self._done(step)

        def moved(lr: Any, goal: Any) -> Any:
            start = goal if before == 1 else (lr - before * goal) / (1 - before)
            return goal * after + start * (1 - after)

        return [moved(g["lr"], g["swa_lr"]) for g in self.optimizer.param_groups]
