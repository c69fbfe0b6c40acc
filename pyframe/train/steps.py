"""What fit and evaluate do with one batch, captured by pf.compile, and the means of what it gives.

A `CompiledSteps` belongs to one user at a time, so that an evaluation beside a fit has sums and
metrics of its own. All it counts stays on the device until `begin` asks for it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

import pyframe as pf
from pyframe.metrics import Metric, get as get_metric
from pyframe.metrics.base import Sums
from pyframe.nn.modules.normalization import shared_statistics
from pyframe.nn.parameter import is_lazy
from pyframe.tensor import gather_begin
from pyframe.train import check, data
from pyframe.train.callbacks import Callback
from pyframe.train.losses import Divisor

if TYPE_CHECKING:
    from pyframe.train.model import Model
    from pyframe.train.processes import Processes, Replicas

Logs = dict[str, Any]


@dataclass(frozen=True)
class StepOptions:
    """How a step updates the parameters; it belongs to what is captured."""

    clip_norm: float | None = None
    clip_value: float | None = None
    accumulate: int = 1
    precision: pf.dtype | None = None  # of autocast
    class_weight: tuple[float, ...] | None = None
    watchers: tuple[Callback, ...] = ()  # with on_gradients
    processes: Processes | None = None  # that share each batch
    replicas: Replicas | None = None  # that DistributedDataParallel averages gradients with
    sync_batch_norm: bool = True


PLAIN = StepOptions()


class CompiledSteps:
    """A captured step, and what it sums up over the steps of an epoch.

    `key` tells of what it is made: it is kept for as long as it is of the same things.
    """

    def __init__(
        self, model: Model, kind: str, key: tuple[Any, ...], options: StepOptions, own: bool
    ) -> None:
        """`own`: it counts with the metrics that the user has, and not with copies of them."""
        self.model, self.kind, self.key, self.options = model, kind, key, options
        self.count = 0  # samples it saw; the caller counts them, as the step is captured
        names = model._sum_names(kind)
        # The sums of what divides to means, and what it is divided by (see losses.py).
        self.sums = {name: pf.zeros((), device=model.device) for name in names}
        self.divisors = {name: pf.zeros((), device=model.device) for name in names}
        self.totals = Sums(self.sums, model.device)
        self.total_divisors = Sums(self.divisors, model.device)
        # Of each optimizer what its gradients, which are of sums, are to be divided by, and their
        # unit: about as much, so that float16 holds them, and the same in all processes.
        self.defers = options.accumulate > 1 or options.processes is not None
        device = model.device
        self.waiting = [
            (pf.zeros((), device=device), pf.ones((), device=device)) for _ in model.optimizers
        ]
        self.parts = model._parts(kind)
        self.metrics: dict[str, Metric] = {}
        for name, metric in model.metrics.items():
            mine = get_metric(metric) if own else model._new_metric(metric)
            self.metrics[name] = mine.to(model.device)
        self.parameters = [(o, parameters_of(o)) for o in model.optimizers]
        self.weights: pf.Tensor | None = None
        if options.class_weight is not None:
            self.weights = pf.tensor(options.class_weight, device=model.device)
        self.step: Callable[..., None] = self._train if kind == "train" else self._test
        self.compiled: Callable[..., None] = pf.compile(self.step)
        self.apply: Callable[..., None] = pf.compile(self._apply)

    # --- what is captured

    def _train(
        self, batch: Any, first: bool = True, last: bool = True, whole: int | None = None
    ) -> None:
        """A training step. Of a group of batches that make one update `first` begins it and `last`
        ends it. `whole` is how many samples a batch has of which this is one process's part (see
        Processes)."""
        model, count = self.model, data.count("fit", batch)
        with self._within(count, first, last, whole) as now:
            if first:
                for optimizer in model.optimizers:
                    optimizer.zero_grad()
            found = check.logs("training_step", model.training_step(batch))
            if not now.minimized:
                model.minimize(check.minimized(found))
            if last and model.scaler is not None:
                model.scaler.update()
            if whole != 0:
                self._add(found, now.divisors, count)

    def _test(self, batch: Any, whole: int | None = None) -> None:
        """A step of an evaluation."""
        count = data.count("evaluate", batch)
        with self._within(count, whole=whole) as now:
            found = check.logs("validation_step", self.model.validation_step(batch))
            if whole != 0:
                self._add(found, now.divisors, count)

    def _apply(self) -> None:
        """The update of a group of batches that ended early."""
        model = self.model
        with self._within(0):
            for optimizer in model.optimizers:
                model._update(optimizer)
            if model.scaler is not None:
                model.scaler.update()

    @contextlib.contextmanager
    def _within(
        self, count: int, first: bool = True, last: bool = True, whole: int | None = None
    ) -> Iterator[Any]:
        """Within it the Model's methods are of this step."""
        options, training = self.options, self.kind == "train"
        with contextlib.ExitStack() as stack:
            if options.processes is not None and training:
                stack.enter_context(options.processes.drawing())
                if options.sync_batch_norm and whole:
                    stack.enter_context(shared_statistics())
            now = stack.enter_context(
                self.model._within(steps=self, count=count, first=first, last=last, whole=whole)
            )
            if options.precision is not None and count:
                stack.enter_context(pf.autocast(self.model.device.kind, options.precision))
            yield now

    def _add(self, values: Mapping[str, Any], divisors: Mapping[str, Divisor], size: int) -> None:
        """Add what a step found, times what it was divided by: of other numbers, the samples."""
        with pf.no_grad():
            for name, v in values.items():
                total, divisor = self.totals[name], self.total_divisors[name]
                by = divisors.get(name.removeprefix("val_"), size)
                try:
                    one = pf.as_tensor(v, device=total.device).detach()
                    one = (one.reshape(()) if one.ndim else one).float()
                    total.add_(one if by is None else one * by)
                except Exception:
                    check.scalar("the loss" if name == "loss" else f"{name!r}", v)
                    raise
                self.add_divisor(divisor, by)

    def add_divisor(self, total: pf.Tensor, by: Divisor) -> None:
        """Add to a sum of divisors; that of what is a sum is 1, over all processes too."""
        if by is None:
            processes = self.options.processes
            total.fill_(1.0 if processes is None or processes.rank == 0 else 0.0)
        else:
            total.add_(by)

    # --- what is read

    def tensors(self) -> dict[str, pf.Tensor]:
        """All that it counts with: sums, and the state of metrics."""
        out = {f"sum:{name}": x for name, x in self.sums.items()}
        out |= {f"divisor:{name}": x for name, x in self.divisors.items()}
        out |= {f"waiting:{i}": x for i, x in enumerate(chain(*self.waiting))}
        for name, metric in self.metrics.items():
            buffers = metric.named_buffers()
            out |= {f"metric:{name}.{k}": x for k, x in buffers if not is_lazy(x)}
        return out

    def start(self, state: Mapping[str, Any] | None = None, count: int = 0) -> None:
        """Begin again, or go on from what `tensors` were; where they count no samples they are only
        made, as a step that finds them there computes the same bits each time."""
        with pf.no_grad():
            if self.weights is not None:  # they may have been on a GPU that was lost
                self.weights.copy_(pf.tensor(self.options.class_weight))
            for total in (*self.sums.values(), *self.divisors.values(), *chain(*self.waiting)):
                total.zero_()
            for metric in self.metrics.values():
                metric.reset()
            first = self.options.processes is None or self.options.processes.rank == 0
            for key, value in (state or {}).items():
                if not first and key.startswith(("sum:", "divisor:")):
                    continue  # they are of all processes, and the first one's from now on
                mine = self._made(key, value.shape)
                if count and mine is not None:
                    mine.copy_(pf.as_tensor(value, dtype=mine.dtype, device=mine.device))
        self.count = count

    def _made(self, key: str, shape: Any) -> pf.Tensor | None:
        """One of `tensors`, made if it is not there; None of a metric that is no more."""
        kind, _, name = key.partition(":")
        if kind == "sum":
            return self.totals[name]
        if kind == "divisor":
            return self.total_divisors[name]
        if kind == "waiting":
            return list(chain(*self.waiting))[int(name)]
        name, _, buffer = name.partition(".")
        if name not in self.metrics:
            return None
        found: Any = self.metrics[name].get_buffer(buffer)
        if is_lazy(found):
            found.materialize(shape, device=self.model.device)
            found.zero_()
        return found

    def begin(
        self, more: Sequence[pf.Tensor] = (), keep: Callable[..., None] | None = None
    ) -> Callable[[], Coroutine[Any, Any, Logs]]:
        """Start to read the means and metrics so far; the coroutine function that it returns waits
        for them. `keep` gets them, by name the values of `tensors`, and those of `more` tensors."""
        names = list(self.sums)
        state = self.tensors() if keep is not None else {}
        with pf.no_grad():
            seen = {name: m for name, m in self.metrics.items() if counted(m)}
            values = {name: pf.as_tensor(m.compute()) for name, m in seen.items()}
            sums = [*self.sums.values(), *[self.divisors[name] for name in names]]
            processes = self.options.processes
            if processes is not None:
                sums = processes.sums(sums)
                keys = [f"{kind}:{name}" for kind in ("sum", "divisor") for name in names]
                state |= {key: x for key, x in zip(keys, sums, strict=True) if state}
        finish = gather_begin([*sums, *values.values(), *state.values(), *more])
        nothing = 0.0 if self.kind == "train" else math.nan  # the mean of it

        async def means() -> Logs:
            arrays = iter(await finish())
            totals = [float(next(arrays)) for _ in names]
            by = [float(next(arrays)) for _ in names]
            found: Logs = {
                name: total / n if n else total if total != total else nothing
                for name, total, n in zip(names, totals, by, strict=True)
            }
            if self.parts:  # of which each has a divisor of its own
                found["loss"] = sum(factor * found[name] for name, factor in self.parts.items())
            for name in values:
                value = next(arrays)
                found[name] = value.item() if value.size == 1 else np.array(value)
            if keep is not None:
                kept = {name: next(arrays) for name in state}
                keep(found, kept, list(arrays))
            return found

        return means


def counted(metric: Metric) -> bool:
    """Whether a metric has seen a batch: a step of one's own may leave them out."""
    return not (lazy := [is_lazy(b) for b in metric.buffers()]) or not all(lazy)


def parameters_of(optimizer: Any) -> list[pf.Tensor]:
    """All parameters of an optimizer."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def trained(model: Model) -> list[pf.Tensor]:
    """All parameters of a model's optimizers."""
    return [p for optimizer in model.optimizers for p in parameters_of(optimizer)]


def numbers(logs: Mapping[str, Any]) -> dict[str, float]:
    """The logs that are one number each: a matrix of confusions is for `evaluate` alone."""
    return {name: v for name, v in logs.items() if not isinstance(v, np.ndarray)}
