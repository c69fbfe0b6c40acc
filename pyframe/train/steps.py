"""What fit and evaluate do with one batch, captured by pf.compile, and the means of what it gives.

A `Steps` belongs to one user at a time, so that an evaluation beside a fit has sums and metrics of
its own. All it counts stays on the device until `begin` asks for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import pyframe as pf
from pyframe.metrics import Metric, get as get_metric
from pyframe.metrics.base import Sums
from pyframe.nn.parameter import is_lazy
from pyframe.tensor import gather_begin
from pyframe.train import check, data
from pyframe.train.callbacks import Callback

if TYPE_CHECKING:
    from pyframe.train.model import Model
    from pyframe.train.processes import Processes

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


PLAIN = StepOptions()


class Steps:
    """A captured step, and what it sums up over the steps of an epoch.

    `key` tells of what it is made: it is kept for as long as it is of the same things.
    """

    def __init__(
        self, model: Model, kind: str, key: tuple[Any, ...], options: StepOptions, own: bool
    ) -> None:
        """`own`: it counts with the metrics that the user has, and not with copies of them."""
        self.model, self.kind, self.key, self.options = model, kind, key, options
        self.count = 0  # samples in the sums; the caller counts them, as the step is captured
        self.sums = {name: pf.zeros((), device=model.device) for name in model._sum_names(kind)}
        self.totals = Sums(self.sums, model.device)
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
        self, batch: Any, share: float | None = None, first: bool = True,
        scale: float | None = 1.0, whole: int | None = None,
    ) -> None:  # fmt: skip
        """A training step. Of a group of batches that make one update, `share` is the weight of
        this one's loss, `first` begins it, and `scale`, which its last one has, ends it. `whole`
        is how many samples a batch has of which this is one process's part (see Processes)."""
        model, count = self.model, data.count("fit", batch)
        processes = self.options.processes
        if whole and processes is not None:
            part = count * processes.size / whole
            share = share if part == 1 else part * (1.0 if share is None else share)
        apart = contextlib.nullcontext() if processes is None else processes.drawing()
        with apart, model._within(self, share, scale, whole), self._cast():
            if first:
                for optimizer in model.optimizers:
                    optimizer.zero_grad()
            found = check.logs("training_step", model.training_step(batch))
            if not model._now.minimized:
                model.minimize(check.minimized(found))
            if scale is not None and model.scaler is not None:
                model.scaler.update()
        if whole != 0:
            self._add(found, count)

    def _test(self, batch: Any, whole: int | None = None) -> None:
        """A step of an evaluation."""
        with self.model._within(self, whole=whole), self._cast():
            found = check.logs("validation_step", self.model.validation_step(batch))
        if whole != 0:
            self._add(found, data.count("evaluate", batch))

    def _apply(self, scale: float) -> None:
        """The update of a group of batches that ended early."""
        model = self.model
        with model._within(self, None, scale):
            for optimizer in model.optimizers:
                model._update(optimizer)
            if model.scaler is not None:
                model.scaler.update()

    def _cast(self) -> Any:
        """What lets the ops of a step compute in the precision that was asked for."""
        precision = self.options.precision
        if precision is None:
            return contextlib.nullcontext()
        return pf.autocast(self.model.device.type, precision)

    def _add(self, values: Mapping[str, Any], size: int) -> None:
        """Add what a step found, weighted by its samples."""
        with pf.no_grad():
            for name, v in values.items():
                total = self.totals[name]
                try:
                    one = pf.as_tensor(v, device=total.device).detach()
                    total.add_((one.reshape(()) if one.ndim else one).float() * size)
                except Exception:
                    check.scalar("the loss" if name == "loss" else f"{name!r}", v)
                    raise

    # --- what is read

    def tensors(self) -> dict[str, pf.Tensor]:
        """All that it counts with: sums, and the state of metrics."""
        out = {f"sum:{name}": x for name, x in self.sums.items()}
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
            for total in self.sums.values():
                total.zero_()
            for metric in self.metrics.values():
                metric.reset()
            first = self.options.processes is None or self.options.processes.rank == 0
            for key, value in (state or {}).items():
                if not first and key.startswith("sum:"):
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
        """Ask for the means and metrics so far; what it returns waits for them. `keep` gets them,
        by name the values of `tensors`, and those of `more` tensors."""
        count, names = self.count, list(self.sums)
        state = self.tensors() if keep is not None else {}
        with pf.no_grad():
            seen = {name: m for name, m in self.metrics.items() if counted(m)}
            values = {name: pf.as_tensor(m.compute()) for name, m in seen.items()}
            sums, processes = [self.sums[name] for name in names], self.options.processes
            if processes is not None:
                sums = processes.sums(sums)
                state |= {f"sum:{name}": x for name, x in zip(names, sums, strict=True) if state}
        finish = gather_begin([*sums, *values.values(), *state.values(), *more])

        async def means() -> Logs:
            arrays = iter(await finish())
            found: Logs = {name: float(next(arrays)) / count for name in names}
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
