"""LearningRateFinder: a short training whose learning rate grows, to see which one is good.

The test is Smith's (2017, https://arxiv.org/abs/1506.01186); smoothing and the rate that is
suggested, where the loss falls most steeply, are fastai's.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.core import devices
from pyframe.ops.random.draws import fork_rng
from pyframe.train import check, data as _data
from pyframe.train.callbacks.base import Callback, Model
from pyframe.train.recovery import Streams, modules_of, options_back, tensors_of
from pyframe.train.steps import trained

SMOOTH = 0.9  # of the mean of losses that the one before has
SKIPPED = 0.1  # of the steps, at the beginning, before the mean says much
WINDOW = 0.05  # of the steps on either side, over which a slope is taken: losses are noisy
RATES = "lr", "initial_lr", "max_lr", "min_lr"  # of an optimizer's groups, and what schedulers add


class Rates:
    """What a learning-rate finder found: `rates` that were tried, the smoothed `losses` at these,
    and the one that it suggests, None where no loss fell."""

    def __init__(self, rates: list[float], losses: list[float], steps: int) -> None:
        self.rates, self.losses = rates, losses
        self.suggestion = _steepest(rates, losses, steps)

    def plot(self, ax: Any = None) -> Any:
        """Draw the losses over the rates: `pf.plot.lr_find`."""
        from pyframe import plot

        return plot.lr_find(self.rates, self.losses, self.suggestion, ax)

    def __repr__(self) -> str:
        found = "no rate is" if self.suggestion is None else f"{self.suggestion:.3g} is"
        first, last = (f"{r:.3g}" for r in (self.rates[0], self.rates[-1]))
        return f"{found} suggested, of {len(self.rates)} learning rates from {first} to {last}"


class LearningRateFinder(Callback):
    """Trains on some batches with a learning rate that grows from `low` to `high`, by the same
    factor each of `steps` times, until the loss is `diverged` times the best one
    (arXiv 1506.01186).

    `finder.find(model, data)` gives the Rates, whose `plot()` shows them; among the callbacks of a
    fit, its data is taken before the first step, the rate that is suggested is set, and `found` has
    the Rates. All else is put back to what it was before: weights, optimizer and random numbers.

    Groups of parameters keep the ratios of their rates. With OneCycleLR the largest rate is set.

    Args:
        batch_size: of the data that `find` is given as tensors.

    Attributes:
        found: the Rates, with `rates`, `losses` and `suggestion`; None before.

    Raises:
        ValueError: unless 0 < low < high, and where the data can be gone through only once.

    >>> x, net = pf.randn(32, 2), nn.Linear(2, 1)
    >>> model = pf.Model(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.1))
    >>> found = pf.train.LearningRateFinder(steps=10).find(model, (x, x[:, :1]))
    >>> found.rates[0], len(found.rates) == len(found.losses)
    (1e-07, True)
    """

    def __init__(
        self, low: float = 1e-7, high: float = 10.0, steps: int = 100, *, diverged: float = 4.0,
        batch_size: int = 64,
    ) -> None:  # fmt: skip
        if not 0 < low < high:
            raise ValueError(
                f"LearningRateFinder: expected 0 < low < high, got low={low} and high={high}"
            )
        self.low, self.high, self.diverged = low, high, diverged
        self.steps = check.count("LearningRateFinder", "steps", steps, 2)
        self.batch_size = batch_size
        self.found: Rates | None = None

    def find(self, model: Model, data: Any) -> Rates:
        """Try the rates on data as `fit` takes it.

        Args:
            data: as of `fit`.
        """
        twin = "finder.find_async(…)"
        return devices.wait(self.find_async(model, data), model.device, twin)

    async def find_async(self, model: Model, data: Any) -> Rates:
        """`find` that gives the thread back while it waits."""
        loader = _data.as_loader(
            "LearningRateFinder", data, batch_size=self.batch_size, shuffle=True,
            labelled=model._is_default("training_step"),
        )  # fmt: skip
        if iter(loader) is loader:
            raise ValueError(
                "LearningRateFinder: the data can be gone through only once, and the batches would "
                "be missing in the fit; give a DataLoader or tensors"
            )
        factor = (self.high / self.low) ** (1 / (self.steps - 1))
        rates, losses = list[float](), list[float]()
        mean, best = 0.0, math.inf
        back = _puts_back(model)
        try:
            with fork_rng():
                set_rate = _setter(model)
                for i, batch in enumerate(_endless(loader, self.steps)):
                    rate = self.low * factor**i
                    set_rate(rate)
                    loss = (await model.train_on_batch_async(batch)).get("loss")
                    if loss is None:
                        raise ValueError("LearningRateFinder: the training_step gives no 'loss'")
                    mean = SMOOTH * mean + (1 - SMOOTH) * loss
                    smooth = mean / (1 - SMOOTH ** (i + 1))
                    if not math.isfinite(smooth) or smooth > self.diverged * best:
                        break
                    best = min(best, smooth)
                    rates.append(rate)
                    losses.append(smooth)
        finally:
            back()
        if not rates:
            raise ValueError(
                "LearningRateFinder: the first loss is not finite, so no rate can be told"
            )
        return Rates(rates, losses, self.steps)

    async def on_fit_begin(self, model: Model) -> None:
        """Find the rate and set it, but where a fit is resumed, which has it already."""
        if model.step:
            return
        assert model._loop is not None
        self.found = await self.find_async(model, model._loop.loader)
        if self.found.suggestion is None:
            check.warn(
                "LearningRateFinder: the loss fell at no rate, so the optimizer keeps its own"
            )
        else:
            set_rate(model, self.found.suggestion)


def set_rate(model: Model, rate: float) -> None:
    """Let `rate` be the learning rate of the first group of parameters, and that of the others as
    much more or less as it was, for the schedulers too."""
    groups = _groups(model)
    top = _top(groups[0])
    for group in groups:
        for name in RATES:
            if name in group:
                _set(group, name, float(group[name]) * rate / top if top else rate)
    for scheduler in model.schedulers:
        if hasattr(scheduler, "base_lrs"):
            scheduler.base_lrs = [r * rate / top if top else rate for r in scheduler.base_lrs]


def _groups(model: Model) -> list[dict[str, Any]]:
    return [group for optimizer in model.optimizers for group in optimizer.param_groups]


def _top(group: dict[str, Any]) -> float:
    """The rate that a group was made with, before schedulers."""
    return float(group.get("max_lr", group.get("initial_lr", group["lr"])))


def _set(group: dict[str, Any], name: str, rate: float) -> None:
    if isinstance(group[name], pf.Tensor):
        with pf.no_grad():
            group[name].fill_(rate)
    else:
        group[name] = rate


def _setter(model: Model) -> Callable[[float], None]:
    """What sets the rates for a step."""
    groups = _groups(model)
    tops = [_top(group) for group in groups]
    ratios = [top / tops[0] if tops[0] else 1.0 for top in tops]

    def put(rate: float) -> None:
        for group, ratio in zip(groups, ratios, strict=True):
            _set(group, "lr", rate * ratio)

    return put


def _endless(loader: Any, steps: int) -> Iterator[Any]:
    """So many batches, from the beginning again where there are fewer."""
    given = 0
    while given < steps:
        before = given
        for batch in loader:
            yield batch
            given += 1
            if given == steps:
                return
        if given == before:
            raise ValueError("LearningRateFinder: the data gave no batch")


@pf.no_grad()
def _puts_back(model: Model) -> Callable[[], None]:
    """What puts a model back to how it is now; its tensors are written to where they lie."""
    modes = [(m, m.training) for m in modules_of(model)]
    grads = [(p, p.grad) for p in trained(model)]
    put_options = options_back(model)
    copies = [(x, x.detach().clone()) for x in tensors_of(model)]
    scaler = None if model.scaler is None else copy.deepcopy(model.scaler.state_dict())
    streams = Streams()

    @pf.no_grad()
    def back() -> None:
        for x, value in copies:
            x.copy_(value)
        for p, grad in grads:
            p.grad = grad
        put_options()
        if scaler is not None:
            model.scaler.load_state_dict(scaler)
        for module, mode in modes:
            module.training = mode
        streams.back()
        pf.flush()

    return back


def _steepest(rates: list[float], losses: list[float], steps: int) -> float | None:
    """The rate at which the loss falls most, per factor of the rate, before its minimum."""
    skipped, width = int(SKIPPED * steps), max(int(WINDOW * steps), 1)
    end = int(np.argmin(losses)) + 1
    x, y = np.log(rates[skipped:end]), np.array(losses[skipped:end])
    if len(x) <= 2 * width:
        return None
    slopes = (y[2 * width :] - y[: -2 * width]) / (x[2 * width :] - x[: -2 * width])
    i = int(slopes.argmin())
    return rates[skipped + width + i] if slopes[i] < 0 else None
