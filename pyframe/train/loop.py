"""The loop of `fit`: epochs of steps, what is read of them, who is told, and what goes wrong."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyframe as pf
from pyframe import nn
from pyframe.core import devices
from pyframe.core.devices import DeviceLostError
from pyframe.train import check, data, losses
from pyframe.train.callbacks import Callback, History
from pyframe.train.interrupts import interrupts
from pyframe.train.progress import progress
from pyframe.train.recovery import LoopPosition, Recovery
from pyframe.train.steps import CompiledSteps, StepOptions, numbers
from pyframe.train.words import listed

if TYPE_CHECKING:
    from pyframe.train.model import Model


def training_mode(net: nn.Module, before: Sequence[nn.Module] = ()) -> list[nn.Module]:
    """Put a net into training mode, but for the layers of one that is in it already which were set
    to evaluation mode (or were `before`, of a net that was put into another mode since)."""
    kept = [m for m in net.modules() if not m.training] if net.training else list(before)
    net.train()  # which may be the user's own
    for m in kept:
        m.training = False
    return kept


# Schedulers whose numbers are of steps, not of epochs.
_BY_STEP = (pf.optim.lr_scheduler.OneCycleLR, pf.optim.lr_scheduler.CyclicLR)
_PLATEAU = pf.optim.lr_scheduler.ReduceLROnPlateau


class FitLoop:
    """One call of `fit`."""

    def __init__(
        self, model: Model, loader: Any, options: StepOptions, validation: Any,
        callbacks: Sequence[Callback], safe: Recovery, *, monitor: str | None, mode: str,
        patience: int | None, resume: Any, verbose: int, read_every: int, compile: bool,
    ) -> None:  # fmt: skip
        self.model, self.loader, self.options, self.validation = model, loader, options, validation
        self.validated = replace(options, class_weight=None)  # as `evaluate` finds it later
        self.safe, self.read_every, self.compile = safe, read_every, compile
        self.monitor = monitor or ("val_loss" if validation is not None else "loss")
        self.history = History()
        self.group = 0  # batches that wait for their update
        self.taken: CompiledSteps | None = None  # the steps that run
        self.batches: int | None = None  # of the first epoch
        self.ended = False  # whether the epoch did: what is kept now goes on with the next one
        self.lost = False  # whether the loss was not finite
        self.processes = options.processes
        follows = self.processes is not None and self.processes.rank > 0
        verbose = 0 if follows else verbose
        self.stop = False  # whether all processes have agreed to
        self.tells = bool(verbose)
        self.pairs = model._is_default("training_step")
        self.evaluating: list[nn.Module] = []  # layers that stay in evaluation mode
        self.looked = False  # at how the losses are divided
        own: list[Callback] = [self.history]
        if patience is not None or follows:
            from pyframe.train.callbacks.stopping import EarlyStopping
        if patience is not None:
            says = bool(verbose)
            own.append(EarlyStopping(monitor, patience=patience, mode=mode, verbose=says))
        if follows:
            given, callbacks = callbacks, [w for w in callbacks if isinstance(w, EarlyStopping)]
        else:
            given = callbacks
        own += progress(verbose, callbacks)
        # those that write down what the others hold are told last
        self.watchers = sorted([*own, *callbacks], key=lambda w: getattr(w, "keeps", False))
        self.resume = None
        if resume not in (None, False):
            from pyframe.train.checkpoint import Resume

            writes = resume is not True and not follows
            self.resume = Resume(check.folder(resume, given), self, writes)
            self.watchers.append(self.resume)
        self.by_step = [s for s in model.schedulers if self._is_by_step(s)]
        self.by_epoch = [s for s in model.schedulers if not self._is_by_step(s)]
        plateaus = [s for s in self.by_epoch if isinstance(s, _PLATEAU)]
        if plateaus:
            from pyframe.train.callbacks.stopping import higher_is_better

            told = None if mode == "auto" else mode == "max"
            higher = higher_is_better(self.monitor, model) if told is None else told
            check.plateaus(self.monitor, higher, plateaus)

    def _is_by_step(self, scheduler: Any) -> bool:
        interval = self.model.lr_interval
        return interval == "step" if interval else isinstance(scheduler, _BY_STEP)

    async def run(self) -> History:
        """Train, and go on after a GPU was lost."""
        model, safe = self.model, self.safe
        check.free("fit", model)
        try:
            model._loop = self
            model.stop_training, model.history = False, self.history
            model.epoch = model.step = model.samples = 0
            begin = safe.begin(model, self.history, self.loader)
            if self.resume is not None:
                begin = await self.resume.start(begin)
            position: LoopPosition | None = begin
            if self.processes is not None:
                self.processes.begin(model.modules(), self.loader)
            await self.tell("on_fit_begin", model)
            self._agree()
            with interrupts(model):
                while position is not None:
                    try:
                        self.taken = model._take_steps("train", self.options)
                        await self._train(self.taken, position)
                        position = None
                    except DeviceLostError as error:
                        position = await safe.restore(model, error)
                    except IndexError as error:
                        data.where_class(error, self.loader)
                        raise
                    finally:
                        if self.taken is not None:
                            model._free["train"].append(self.taken)
                            self.taken = None
        finally:
            try:
                safe.running, safe.live = False, None  # the worker processes of its loader end
                await self._end()
            finally:
                model._loop = None
        return self.history

    async def _train(self, taken: CompiledSteps, at: LoopPosition) -> None:
        model, safe, loader = self.model, self.safe, self.loader
        x: Any = None
        run = taken.compiled if self.compile else taken.step

        async def look(means: Callable[[], Any], step: int) -> dict[str, float]:
            return await self._look(means, step, x)

        step = model.step = at.step
        model.samples = at.samples
        for epoch in range(at.epoch + 1, model.epochs + 1):
            if self._stops():  # as it begins
                break
            model.epoch, self.ended = epoch, False
            self.evaluating = training_mode(model.net, self.evaluating)
            taken.start(at.sums, at.count)
            self.group = at.group
            logs, asked = at.logs, at.asked
            if not at.batch:
                await self.tell("on_epoch_begin", model, epoch)
            told = at.told
            if asked and not at.later:
                logs, asked = await look(*asked), None
            cut = False
            for batch in safe.batches(loader, at):
                if self.tells:
                    self._say_conversions(batch)
                x, size = model._ready(batch, "fit", self.pairs)
                if not self.looked:
                    self.looked = True
                    await self._look_at_losses(x, size)
                more: dict[str, Any] = {}
                if self.processes is not None:
                    x, more["whole"] = self.processes.share(x, size)
                self._step(run, x, more)
                taken.count += size
                model.samples += size
                step += 1
                model.step = step
                if step == 1 or step % self.read_every == 0:
                    told = step
                    if step == 1 or model.device.kind == "cpu":
                        logs = await look(await safe.ask(self, step), step)
                    else:  # told of when the GPU has more to do already
                        if asked:
                            logs = await look(*asked)
                        asked = await safe.ask(self, step, True), step
                if self._stops():
                    cut = True
                    break
            if taken.count == 0:
                raise ValueError(
                    f"fit: the data gave no batch in epoch {epoch}; what can be iterated "
                    "over only once does for one epoch, a DataLoader for any number"
                )
            if self.group and not cut:  # the update of a group that the epoch's end cut short
                (taken.apply if self.compile else taken._apply)()
                self._updated()
            self._count_batches(epoch, safe.batch)
            if asked:
                logs = await look(*asked)
            if told != step:
                told = step
                logs = await look(await safe.ask(self, step), step)
            await self._end_epoch(epoch, logs, cut)
            if self._stops():
                break
            at = LoopPosition(epoch, step=step, told=told, samples=model.samples)

    async def _end_epoch(self, epoch: int, logs: dict[str, float], cut: bool) -> None:
        """Validate, let schedulers step, and tell. One that is cut short can be gone on with."""
        model = self.model
        if self.processes is not None:  # statistics that each has counted for itself
            self.processes.broadcast(model.net.buffers())
        if self.validation is not None and self._stops():
            cut = True  # its validation is missing
        elif self.validation is not None:
            what = "fit: validation_data"
            found = await model._evaluate(self.validation, self.validated, self.compile, what)
            for name, v in numbers(found).items():  # a validation_step may call them so itself
                own = name.startswith("val_") and name not in logs
                logs[name if own else f"val_{name}"] = v
        logs.update({name: float(o.param_groups[0]["lr"]) for name, o in self._rates()})
        for scheduler in () if cut else self.by_epoch:
            if isinstance(scheduler, _PLATEAU):
                scheduler.step(check.monitored(self.monitor, logs))
            else:
                scheduler.step()
        self.ended, model.cut_short = not cut, cut
        await self.tell("on_epoch", model, epoch, logs)
        self._agree()

    def _stops(self) -> bool:
        """Whether training is to end: where there are several processes, as they have agreed."""
        return self.model.stop_training if self.processes is None else self.stop

    def _agree(self) -> None:
        """Stop if one of the processes is to."""
        if self.processes is not None:
            model = self.model
            found = self.processes.any(model.stop_training, self.history.interrupted)
            self.stop = model.stop_training = found[0]
            self.history.interrupted = found[1]

    def _count_batches(self, epoch: int, batches: int) -> None:
        """Tell of data that gave fewer than in the first epoch, where nobody knew how many."""
        if self.batches is None:
            self.batches = batches
        known = self.model.steps_per_epoch is not None
        if batches < self.batches and not known and not self._stops():
            check.warn(
                f"fit: the data gave {batches} batches in epoch {epoch}, and {self.batches} in the "
                "first; what can be iterated over only once, such as a generator, goes on from "
                "where it was: a Dataset or a DataLoader gives all of it in each epoch",
                UserWarning,
            )

    def _say_conversions(self, batch: Any) -> None:
        """Of the first batch, which inputs become something else."""
        self.tells = False
        _, dtype = self.model._device_and_dtype()
        if self.pairs and dtype is not None and isinstance(batch, list | tuple) and batch:
            data.tell_conversions(batch[0], dtype)

    def _rates(self) -> list[tuple[str, Any]]:
        """What the learning rates are called in the logs."""
        optimizers = self.model.optimizers
        if len(optimizers) == 1:
            return [("lr", optimizers[0])]
        named = self.model.optimizer
        keys = list(named) if isinstance(named, dict) else range(len(optimizers))
        return [(f"lr_{key}", o) for key, o in zip(keys, optimizers, strict=True)]

    def position(self, **more: Any) -> LoopPosition:
        """How far it has come."""
        model, taken = self.model, self.taken
        count = 0 if taken is None else taken.count
        own = {"step": model.step, "told": model.step, "logs": {}, **more}
        return LoopPosition(
            max(model.epoch - 1, 0), self.safe.batch, count=count, samples=model.samples,
            group=self.group, **own,
        )  # fmt: skip

    def states(self) -> list[list[Any]]:
        """What the callbacks keep of themselves, with the names of their types."""
        found: list[tuple[Any, dict[str, Any]]]
        found = [(w, getattr(w, "state_dict", dict)()) for w in self.watchers]
        return [[type(w).__name__, state] for w, state in found if state]

    def load_states(self, states: Sequence[Any]) -> None:
        """Let each callback go on from the state of one of its type, in order."""
        left = list(states)
        for w in self.watchers:
            at = next((i for i, (name, _) in enumerate(left) if name == type(w).__name__), None)
            if at is not None:
                w.load_state_dict(left.pop(at)[1])

    # --- several batches, and processes, to an update

    def _step(self, run: Callable[..., None], batch: Any, more: dict[str, Any]) -> None:
        """A batch, and the update where its group ends with it."""
        first, self.group = self.group == 0, self.group + 1
        last = self.group == self.options.accumulate
        if first and last:
            run(batch, **more)
        else:
            run(batch, first, last, **more)
        if last:
            self._updated()
        else:  # where it ran eagerly, an optimizer's step would have done so
            pf.flush()

    def _updated(self) -> None:
        """A group is over, and with it a step of the optimizer."""
        self.group = 0
        for scheduler in self.by_step:
            scheduler.step()

    async def _look_at_losses(self, batch: Any, size: int) -> None:
        """Warn of losses of which several batches can't make one, as far as the first one shows."""
        options, model = self.options, self.model
        groups = options.processes or options.replicas
        if not self.pairs or (options.accumulate == 1 and groups is None):
            return
        mixed = options.accumulate > 1 and isinstance(model.loss, Mapping | list | tuple)
        if not mixed and all(map(losses.telling, listed(model.loss))):
            return

        from pyframe.train.processes import look_at_losses  # which few programs need

        await look_at_losses(model, options, batch, size)

    # --- telling

    async def _look(self, means: Callable[[], Any], step: int, batch: Any) -> dict[str, float]:
        """Wait for the epoch's means up to a step, tell the callbacks, and let a page be heard.

        `batch`, the one at hand, and the data are looked at if the loss is lost."""
        logs: dict[str, float] = numbers(await means())
        if not math.isfinite(logs.get("loss", 0.0)) and not self.lost:
            self.lost = True
            why = await data.not_finite(self.loader, batch, step)
            check.warn(f"the loss became {logs['loss']} by step {step}; {why}")
        await self.tell("on_step", self.model, step, logs)
        self._agree()
        await devices.pause()  # a page delivers its messages now
        return logs

    async def tell(self, event: str, *args: Any) -> None:
        """Call a method of every callback, and wait for those that are async."""
        for w in self.watchers:
            await _told(w, event, *args)

    async def _end(self) -> None:
        """Tell every callback of the end, though another one fails there."""
        errors = []
        for w in self.watchers:
            try:
                await _told(w, "on_fit_end", self.model)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]


async def _told(watcher: Any, event: str, *args: Any) -> None:
    answer = getattr(watcher, event)(*args)
    if inspect.isawaitable(answer):
        await answer
