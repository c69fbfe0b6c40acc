"""Model: a network with what it takes to train it, and fit, evaluate, predict, save, load."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

import pyframe as pf
from pyframe import metrics as _metrics, nn
from pyframe.core import devices
from pyframe.core.devices import DeviceLostError
from pyframe.nn.modules.module import Evaluation
from pyframe.tensor import gather_async
from pyframe.train import check, data as _data
from pyframe.train.callbacks import Callback, History
from pyframe.train.loop import FitLoop, training_mode
from pyframe.train.losses import Divisor, divided
from pyframe.train.recovery import MARK, Recovery, puts_back
from pyframe.train.steps import PLAIN, CompiledSteps, StepOptions, numbers, parameters_of
from pyframe.train.words import listed, name_of

Loss = Callable[..., pf.Tensor]

SMALLEST_WEIGHT = 1e-20
_ITS_OWN = ("_now", "_loop", "_safe", "_own", "_free")  # which copies don't share


class _Now(threading.local):
    """The step that runs in a thread (see Steps)."""

    def __init__(self) -> None:
        self.begin()

    def begin(
        self, steps: CompiledSteps | None = None, count: int = 1, first: bool = True,
        last: bool = True,
        whole: int | None = None,
    ) -> None:  # fmt: skip
        """Another step of so many samples begins."""
        self.steps, self.count, self.first, self.last = steps, count, first, last
        self.whole = whole  # samples of a batch that several processes share
        self.minimized: tuple[Any, ...] = ()  # the optimizers that stepped
        self.divisors: dict[str, Divisor] = {}  # of the losses that were computed
        self.size: float = count  # about that of the last one


class Model:
    """A network with what it takes to train it.

    Args:
        net: a module. A tuple or list of inputs becomes its positional arguments, a dict of them
            its keywords.
        loss: a module or function of (output, target) that gives one number, the mean over a
            batch. One that is another mean gives (sum, divisor), such as the sum over tokens that
            count and their number, or (sum, None) where nothing shall divide. A dict or list of
            them for a net that gives a dict or tuple of outputs: each gets the output and the
            target of its name or position, and their sum is minimized.
        optimizer: an Optimizer, or a dict or list of them: all of them step.
        metrics: names ("accuracy", "f1", …), Metrics of `pf.metrics`, functions of (output,
            target) that give a batch's mean, or a dict of them by the names that they shall have.
            Where losses are a dict, a dict with the same keys says whose output they are of.
        lr_scheduler: a scheduler of `optim.lr_scheduler`, or a dict or list of them, stepped by
            fit; ReduceLROnPlateau gets what `monitor` names.
        loss_weights: numbers by which several losses are multiplied, as `loss` is arranged.
        lr_interval: when schedulers step, "epoch" or "step" (of the optimizer). By default each
            epoch, and OneCycleLR and CyclicLR each step.

    Batches are (inputs, targets) or (inputs, targets, weights of the samples). Override
    `training_step` and `validation_step` for other ones, or for other ways to train.

    >>> x, net = pf.randn(32, 2), nn.Linear(2, 1)
    >>> model = pf.Model(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.1))
    >>> history = model.fit((x, x[:, :1]), epochs=2, verbose=0)
    >>> model.predict(x).shape
    pyframe.Size([32, 1])
    """

    def __init__(
        self,
        net: nn.Module,
        loss: Loss | Mapping[str, Loss] | Sequence[Loss] | None = None,
        optimizer: Any = None,
        metrics: Sequence[Any] | Mapping[str, Any] = (),
        lr_scheduler: Any = None,
        *,
        loss_weights: Mapping[str, float] | Sequence[float] | None = None,
        lr_interval: str | None = None,
    ) -> None:
        self.net, self.loss, self.optimizer = net, loss, optimizer
        self.lr_scheduler, self.loss_weights = lr_scheduler, loss_weights
        self.lr_interval = lr_interval
        check.parts(net, loss, optimizer)
        check.schedules(lr_scheduler, lr_interval, self.optimizers)
        check.loss_weights(loss, loss_weights)
        # As new: what counts beside an evaluation does with copies, and a GPU may be lost.
        self._new: dict[int, tuple[Any, Any]] = {}
        self._outputs: dict[str, Any] = {}  # of which output a metric is, where there are several
        self.metrics: dict[str, Any] = {}
        for key, given in check.metric_list(metrics, loss):
            metric = _metrics.get(given)
            name = metric.name if key is None else key
            if isinstance(loss, Mapping) and key is not None:
                name = f"{key}_{metric.name}"
                self._outputs[name] = key
            self.metrics[check.metric_name(name, self.metrics)] = metric
            self._new[id(metric)] = metric, copy.deepcopy(metric)
        self.scaler: Any = None  # of mixed precision in float16
        self.history = History()  # of the last fit
        self.stop_training = False
        self.cut_short = False  # whether that ended the last epoch before all of it was done
        self.epoch = self.epochs = self.step = self.samples = 0
        self.steps_per_epoch: int | None = None
        self.log_names: tuple[str, ...] = ()
        self._begin()

    def _begin(self) -> None:
        """What a model has for itself, and a copy of it anew."""
        self._now = _Now()
        self._loop: FitLoop | None = None  # the fit that runs
        self._safe: Recovery | None = None  # the copies of the last fit
        # those that count with the user's metrics
        self._own: weakref.ref[CompiledSteps] | None = None
        # that nobody uses now
        self._free: dict[str, list[CompiledSteps]] = {"train": [], "test": []}

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k not in _ITS_OWN}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._new = {id(metric): (metric, new) for metric, new in self._new.values()}
        self._begin()

    # --- what it is made of

    @property
    def optimizers(self) -> list[Any]:
        """The optimizers, in order."""
        return listed(self.optimizer)

    @property
    def schedulers(self) -> list[Any]:
        """The learning-rate schedulers, in order."""
        return listed(self.lr_scheduler)

    @property
    def device(self) -> pf.device:
        """Where the parameters are."""
        p = next(self.net.parameters(), None)
        return pf.get_default_device() if p is None else p.device

    def _device_and_dtype(self) -> tuple[pf.device, pf.dtype | None]:
        """Where inputs go, and the dtype that floats among them take."""
        p = next(self.net.parameters(), None)
        return (self.device, None) if p is None else (p.device, p.dtype)

    @property
    def device_name(self) -> str:
        """The hardware that it runs on, for people."""
        return f"{self.device} ({pf.device_name(self.device)})"

    @property
    def trainable(self) -> bool:
        """Whether it has what `fit` needs: an optimizer, and a loss or a training_step."""
        has_step = self.loss is not None or not self._is_default("training_step")
        return has_step and self.optimizer is not None

    def modules(self) -> list[nn.Module]:
        """The net, and the losses and metrics that are modules: what moves and is kept with it."""
        metrics = [m for m in self.metrics.values() if isinstance(m, nn.Module)]
        return [self.net, *self.loss_modules(), *metrics]

    def loss_modules(self) -> list[nn.Module]:
        """The losses that are modules."""
        return [m for m in listed(self.loss) if isinstance(m, nn.Module)]

    def to(self, device: Any) -> Model:
        """Move the network, the losses' and metrics' tensors, the optimizers' state and the scale
        of mixed precision.

        Args:
            device: A device or its name.

        >>> pf.Model(nn.Linear(3, 2)).to("cpu").device.type
        'cpu'
        """
        for module in self.modules():
            module.to(device)
        for optimizer in self.optimizers:
            for p, state in optimizer.state.items():
                for x in state.values():
                    if isinstance(x, pf.Tensor):
                        x.data = x.to(p.device)
        for x in () if self.scaler is None else vars(self.scaler).values():
            if isinstance(x, pf.Tensor):
                x.data = x.to(device)
        return self

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check.steps(cls, Model)

    def __getattr__(self, name: str) -> Any:
        raise check.no_member(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.net(*args, **kwargs)

    def _told(self) -> dict[str, str]:
        """What it is made of, besides the net, in words."""
        parts = {
            "loss": _words(self.loss),
            "optimizer": _words(self.optimizer),
            "metrics": ", ".join(self.metrics),
            "lr_scheduler": _words(self.lr_scheduler),
            "device": str(self.device),
        }
        return {name: words for name, words in parts.items() if words}

    def __repr__(self) -> str:
        net = repr(self.net).replace("\n", "\n  ")
        lines = [f"net: {net}", *[f"{name}: {words}" for name, words in self._told().items()]]
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"

    def _repr_html_(self) -> str:
        from html import escape

        words = " · ".join(f"{name}: <b>{escape(w)}</b>" for name, w in self._told().items())
        return f"<div>{type(self).__name__} · {words}</div>{self.net._repr_html_()}"

    def _need(self, name: str, what: str) -> Any:
        found = getattr(self, name)
        if found is None:
            raise RuntimeError(
                f"{what} needs {'an' if name == 'optimizer' else 'a'} {name}: Model(net, {name}=…)"
            )
        return found

    def _evaluates(self) -> bool:
        """Whether an evaluation gives any number."""
        own = not self._is_default("validation_step")
        return own or self.loss is not None or bool(self.metrics)

    def _need_results(self, what: str) -> None:
        """RuntimeError where an evaluation would give no number."""
        if not self._evaluates():
            raise RuntimeError(
                f"{what} needs a loss, metrics or a validation_step of the model's own: "
                "Model(net, loss=…)"
            )

    # --- a step, which a subclass may write anew

    def training_step(self, batch: Any) -> Any:
        """Train on a batch, which lies on the device; gives the loss, or numbers by name to log.

        It is compiled with all that it calls. One of your own returns a loss, which is then
        minimized, or calls `minimize` itself, as often as it likes, and returns a dict.

        Args:
            batch: One, on the device.

        >>> class Twice(pf.Model):
        ...     def training_step(self, batch):
        ...         x, y = batch
        ...         return 2 * self.compute_loss(self.net(x), y)
        >>> net = nn.Linear(1, 1)
        >>> model = Twice(net, loss=nn.MSELoss(), optimizer=pf.optim.SGD(net.parameters(), lr=0.1))
        >>> list(model.train_on_batch((pf.ones(4, 1), pf.ones(4, 1))))
        ['loss']
        """
        inputs, targets, weights = _data.split("fit", batch)
        output = _data.call(self.net, inputs)
        losses = self._losses(output, targets, weights)
        self.minimize(losses["loss"])
        self.update_metrics(output, targets)
        return losses

    def validation_step(self, batch: Any) -> Any:
        """Look at a batch in evaluation mode, without gradients; gives what `training_step` does.

        `update_metrics(output, targets)` lets the metrics count it.

        Args:
            batch: One, on the device.
        """
        inputs, targets, weights = _data.split("evaluate", batch)
        output = _data.call(self.net, inputs)
        self.update_metrics(output, targets)
        return self._losses(output, targets, weights) if self.loss is not None else {}

    def compute_loss(self, output: Any, targets: Any, weights: pf.Tensor | None = None) -> Any:
        """The loss, or the weighted sum of the losses; `weights` (N,) are factors of the samples.

        Args:
            output, targets: What the network gives, and what is wanted.

        >>> model = pf.Model(nn.Identity(), loss=nn.MSELoss())
        >>> model.compute_loss(pf.zeros(2), pf.ones(2))
        tensor(1.)
        """
        return self._losses(output, targets, weights)["loss"]

    def update_metrics(self, output: Any, targets: Any) -> None:
        """Let the metrics count a batch.

        Args:
            output, targets: What the network gives, and what is wanted.
        """
        steps, whole = self._now.steps, self._now.whole
        with pf.no_grad():
            if steps is not None and whole and steps.metrics:
                gather = functools.partial(steps.options.processes.whole, size=whole)  # type: ignore[union-attr]
                output, targets = _data.map_tree(gather, output), _data.map_tree(gather, targets)
            for name, metric in (self.metrics if steps is None else steps.metrics).items():
                key = self._outputs.get(name)
                if key is None:
                    try:
                        metric.update(output, targets)
                    except TypeError as error:
                        check.of_one_output(error, self.loss, name)
                        raise
                else:
                    metric.update(output[key], targets[key])

    def minimize(self, loss: pf.Tensor, optimizer: Any = None) -> None:
        """Take a step of `optimizer`, or of all: gradients, clipping and mixed precision as fit
        was asked for. With one of several, gradients are of its parameters alone.

        Args:
            loss: A 0-d tensor.

        >>> net = nn.Linear(1, 1, bias=False)
        >>> model = pf.Model(net, loss=nn.MSELoss(), optimizer=pf.optim.SGD(net.parameters(), 0.1))
        >>> before = net.weight.item()
        >>> model.minimize(net(pf.ones(1, 1)).sum())
        >>> round(before - net.weight.item(), 4)
        0.1
        """
        now = self._now
        chosen = self.optimizers if optimizer is None else [optimizer]
        by_hand = now.steps is None  # in no step of fit
        options = PLAIN if now.steps is None else now.steps.options
        again = [one for one in chosen if any(one is o for o in now.minimized)]
        for one in chosen if by_hand else again:
            one.zero_grad()
        if again:
            check.minimized_again(options.accumulate)
            if self.scaler is not None:
                self.scaler.update()
        if not by_hand:
            now.minimized += (*chosen,)
            loss = self._weighed(loss, chosen, bool(again))
        with pf.autocast(enabled=False) if options.precision else contextlib.nullcontext():
            try:
                scaled = loss if self.scaler is None else self.scaler.scale(loss)
                if optimizer is None or len(self.optimizers) == 1:
                    scaled.backward()
                else:
                    scaled.backward(inputs=self._parameters(optimizer))
            except Exception as error:
                check.trains(check.scalar("the loss", loss), self.net)
                check.once(error)
                raise
            if now.last:
                for one in chosen:
                    self._update(one)
            if by_hand and self.scaler is not None:
                self.scaler.update()

    def _weighed(self, loss: pf.Tensor, chosen: list[Any], again: bool) -> pf.Tensor:
        """What a step goes back from. Where several batches or processes make a gradient it is the
        sum that the loss is made of, in units of about its divisor, which is added up beside it."""
        now = self._now
        assert now.steps is not None
        steps, options = now.steps, now.steps.options
        by, size = now.divisors.get("loss", now.count), now.size
        if options.replicas is not None:
            loss, by = options.replicas.weighed(loss, by)
            size = 1.0  # as all of them have it: their batches may differ
        if not steps.defers:
            return loss
        if by is not None and now.whole and options.processes is not None:
            size = size * now.whole / (now.count * options.processes.size)
        if by is not None:  # a penalty beside a loss that has nothing to learn counts
            by = (
                by.clamp_min(SMALLEST_WEIGHT)
                if isinstance(by, pf.Tensor)
                else max(by, SMALLEST_WEIGHT)
            )
        factor: Any = 1.0 if by is None else by
        if now.whole == 0:  # the batch is the first process's to count
            factor, by = 0.0, None if by is None else by * 0.0
        i = [any(one is c for c in chosen) for one in self.optimizers]
        with pf.no_grad():
            for divisor, unit in compress(steps.waiting, i):
                if now.first or again:
                    divisor.zero_()
                    unit.fill_(size)
                steps.add_divisor(divisor, by)
        return loss * (factor / next(compress(steps.waiting, i))[1])

    def _update(self, optimizer: Any) -> None:
        """Let an optimizer step with the gradients that there are."""
        now = self._now
        options = PLAIN if now.steps is None else now.steps.options
        divisor: Any = None
        if now.steps is not None and now.steps.defers:
            i = next(i for i, one in enumerate(self.optimizers) if one is optimizer)
            divisor, unit = now.steps.waiting[i]
        if options.processes is not None:
            divisor = options.processes.average(self._parameters(optimizer), divisor)
        if self.scaler is not None:
            if not any(p.requires_grad for p in self._parameters(optimizer)):
                return  # all of it is frozen; a scaler takes no step without gradients
            self.scaler.unscale_(optimizer)
        if divisor is not None:
            with pf.no_grad():
                factor = unit / divisor
                for p in self._parameters(optimizer):
                    if p.grad is not None:
                        p.grad.mul_(factor)
        for watcher in options.watchers:
            watcher.on_gradients(self)
        if options.clip_value is not None:
            nn.utils.clip_grad_value_(self._parameters(optimizer), options.clip_value)
        if options.clip_norm is not None:
            nn.utils.clip_grad_norm_(self._parameters(optimizer), options.clip_norm)
        if self.scaler is not None:
            self.scaler.step(optimizer)
        else:
            optimizer.step()

    def _parameters(self, optimizer: Any) -> list[pf.Tensor]:
        """What an optimizer trains: within a step, which is captured, no group is looked at."""
        steps = self._now.steps
        if steps is not None:
            for own, found in steps.parameters:
                if own is optimizer:
                    return found
        return parameters_of(optimizer)

    @contextlib.contextmanager
    def _within(self, **step: Any) -> Iterator[_Now]:
        """Within it, `minimize` and `update_metrics` are of a step."""
        now = self._now
        before = dict(vars(now))
        now.begin(**step)
        try:
            yield now
        finally:
            vars(now).update(before)

    def _losses(self, output: Any, targets: Any, weights: Any) -> dict[str, pf.Tensor]:
        """The loss, and where there are several, what it is the sum of."""
        now = self._now
        if not isinstance(self.loss, Mapping | list | tuple):
            part, now.divisors["loss"], now.size = self._one_loss(
                self.loss, output, targets, weights
            )
            return {"loss": part}
        keys = check.several(self.loss, output, targets)
        training = now.steps is not None and now.steps.kind == "train"
        processes = now.steps.options.processes if now.steps and training else None
        whole = now.whole or 0  # 0 where all processes have all rows
        parts, total = {}, None
        for key in keys:
            mine = weights[key] if isinstance(weights, Mapping | list | tuple) else weights
            part, by, _ = self._one_loss(self.loss[key], output[key], targets[key], mine, key)
            parts[_part(key)], now.divisors[_part(key)] = part, by
            if processes is not None and whole:
                part = processes.part(part, by, now.count, whole)
            factor = 1.0 if self.loss_weights is None else self.loss_weights[key]
            weighted = part if factor == 1 else part * factor
            total = weighted if total is None else total + weighted
        assert total is not None
        now.size = now.count
        now.divisors["loss"] = whole / processes.size if processes and whole else now.count
        return {"loss": total, **parts}

    def _one_loss(
        self, loss: Any, output: Any, target: Any, weights: Any, key: Any = None
    ) -> tuple[pf.Tensor, Divisor, float]:
        check.labels(loss, output, target, key)
        steps = self._now.steps
        return divided(loss, output, target, weights, None if steps is None else steps.weights)

    def _parts(self, kind: str) -> dict[str, float]:
        """The factors of several losses, by their names in a step of Model's own."""
        if len(self._sum_names(kind)) < 2:
            return {}
        loss, factors = self.loss, self.loss_weights
        keys: Any = loss if isinstance(loss, Mapping) else range(len(listed(loss)))
        return {_part(key): 1.0 if factors is None else factors[key] for key in keys}

    # --- training

    def _new_metric(self, given: Any) -> _metrics.Metric:
        """A metric of the same kind that has seen nothing; `given` may be a function too."""
        found = self._new.get(id(given))
        return copy.deepcopy(_metrics.get(given) if found is None else found[1])

    def _is_default(self, step: str) -> bool:
        """Whether a step is Model's own, which takes (inputs, targets)."""
        return getattr(type(self), step) is getattr(Model, step)

    def _ready(self, batch: Any, what: str, pair: bool = True) -> tuple[Any, int]:
        """A batch on the device, and how many samples it has. Inputs of a `pair` that are images
        of uint8 become floats."""
        device, dtype = self._device_and_dtype()
        if not pair:
            batch = _data.to_device(what, batch, device, dtype)
            return batch, _data.count(what, batch)
        x, y, w = _data.split(what, batch)
        x = _data.to_device(what, x, device, dtype, images=True)
        y = _data.to_device(what, y, device, dtype)
        ready = (x, y) if w is None else (x, y, _data.to_device(what, w, device, dtype))
        return ready, _data.count(what, x)

    def _take_steps(self, kind: str, options: StepOptions = PLAIN) -> CompiledSteps:
        """Steps that nobody else uses until they are given back: what runs beside has others."""
        trained = [[id(p) for p in parameters_of(o)] for o in self.optimizers]
        key: tuple[Any, ...] = (
            self.device, self.loss, self.loss_weights, self.optimizers, trained, self.metrics,
            options, self.scaler,
        )  # fmt: skip
        key = tuple(copy.copy(k) if isinstance(k, dict | list) else k for k in key)
        try:
            steps = self._free[kind].pop()
        except IndexError:
            steps = None
        if steps is None or steps.key != key:
            own = kind == "test" and (self._own is None or self._own() is None)
            steps = CompiledSteps(self, kind, key, options, own)
            if own:  # whoever evaluates beside it counts with copies
                self._own = weakref.ref(steps)
        steps.start()
        return steps

    @check.targets_too
    async def fit_async(
        self,
        data: Any,
        epochs: int = 1,
        *,
        batch_size: int = 64,
        shuffle: bool = True,
        validation_data: Any = None,
        validation_split: float | None = None,
        callbacks: Sequence[Callback] = (),
        monitor: str | None = None,
        mode: str = "auto",
        patience: int | None = None,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        accumulate: int = 1,
        mixed_precision: Any = None,
        class_weight: Any = None,
        sample_weight: Any = None,
        resume: Any = None,
        device: Any = "auto",
        verbose: int = 1,
        read_every: int = 16,
        sync_batch_norm: bool = True,
        compile: bool = True,
    ) -> History:
        """Train for some epochs: `fit` that gives the thread back while it waits.

        Args:
            data: a DataLoader, a Dataset, (x, y) or (x, y, sample weights) of tensors, arrays or
                data frames, or batches; inputs and targets may be tuples or dicts.
            epochs: how often to go through the data.
            batch_size, shuffle: for tensors and Datasets; a DataLoader has its own.
            callbacks: each looks on, in this order.
            validation_data: what is evaluated after each epoch; its numbers are called val_….
            validation_split: the share of the samples, of (x, y) or a Dataset, that is kept from
                training and is the validation data: the last ones, as in Keras.
            monitor: the number that `patience`, the best weights and ReduceLROnPlateau go by:
                "val_loss", or "loss" without validation.
            mode: whether it shall be "min" or "max"; "auto" tells by its name.
            patience: stop after so many epochs without a better one, with the best one's weights.
            clip_norm: the largest norm of all gradients together.
            clip_value: the largest absolute value of each of their elements.
            accumulate: batches whose gradients make one update, as one large batch would.
            mixed_precision: "float16" or "bfloat16", True for the device's own (pf.autocast).
            class_weight: factors of the loss by class, of each sample, pixel or token.
            sample_weight: factors of it by sample, (N,), for tensors. As of class_weight, what the
                loss is divided by stays: factors of 1 change nothing.
            resume: a folder. Training is kept there after each epoch, and every few minutes, and
                goes on from there where it was stopped or killed, with the same numbers. Of a file
                that `save_checkpoint` or ModelCheckpoint wrote it goes on; True is the folder of
                the ModelCheckpoint among the callbacks.
            device: "auto" is a real GPU if there is one; None stays where the network is.
            verbose: 0 tells nothing, 1 shows progress, 2 prints a line an epoch.
            read_every: steps after which losses and metrics, which stay on the device, are asked
                for and callbacks told: at once on the CPU, on a GPU while it is busy with the
                steps after.
            sync_batch_norm: whether in several processes BatchNorm takes the statistics of the
                whole batch, as one process does. False takes those of each process's own rows.
            compile: replay the step (see pf.compile); without it, Python code in the network runs
                at every step.

        Layers that were set to `eval()` in a net that is in training mode stay in evaluation mode.
        Losses, gradients and weights of several batches (epochs, `accumulate`, processes) are
        those of one large batch, by what a loss is divided by: losses of pyframe.nn tell it, one of
        your own may return (sum, divisor), and counts by samples else.

        Ctrl-C ends it cleanly after the step that runs, with the best weights if they are kept; a
        second one at once. If the GPU is lost, a warning says so and training goes on, as if
        nothing had happened, from a copy on the host, which is made now and then, of weights,
        optimizer, random numbers and the position in the data; after the third time on the CPU. Of
        what is done again callbacks are told again.

        Raises RuntimeError without loss or optimizer, ValueError for data that can't be used.
        """
        check.free("fit", self)
        if self._is_default("training_step"):
            self._need("loss", "fit")
        self._need("optimizer", "fit")
        epochs = check.count("fit", "epochs", epochs, 0)
        read_every = check.count("fit", "read_every", read_every, 1)
        check.flags(
            "fit", shuffle=shuffle, verbose=verbose, compile=compile,
            sync_batch_norm=sync_batch_norm,
        )  # fmt: skip
        for optimizer in self.optimizers:
            check.optimizes(optimizer, self.net, self.loss)
        check.replaced(self.optimizers, self.net, self.loss_modules())
        watchers: list[Callback] = check.callbacks(callbacks)
        if validation_split is not None:
            data, validation_data = _data.split_off(
                data, validation_split, validation_data, sample_weight
            )
            sample_weight = None
        loader = _data.as_loader(
            "fit", data, batch_size=batch_size, shuffle=shuffle, sample_weight=sample_weight,
            labelled=self._is_default("training_step"),
        )  # fmt: skip
        if validation_data is not None:
            self._need_results("fit: validation_data")
            validation_data = _data.as_loader(
                "fit: validation_data", validation_data, batch_size=batch_size, shuffle=False,
                labelled=self._is_default("validation_step"),
            )  # fmt: skip
        self.epochs, self.steps_per_epoch = epochs, check.length(loader)
        self.log_names = self._names(validation_data is not None)
        check.fit_options(
            patience=patience, clip_norm=clip_norm, clip_value=clip_value,
            accumulate=accumulate, monitor=monitor, mode=mode, resume=resume, known=self.log_names,
        )  # fmt: skip
        classes = check.class_weight(class_weight)
        self._safe = safe = Recovery(self, self._safe)
        processes = _shared(self.net)
        if device is not None:
            named = pf.device if processes is None else processes.device
            await safe.move(self, named(device))
        precision = self._precision(mixed_precision)
        options = StepOptions(
            clip_norm, clip_value, accumulate, precision,
            None if classes is None else tuple(classes.tolist()),
            tuple(w for w in watchers if _looks_at_gradients(w)), processes,
            _replicas(self.net), bool(sync_batch_norm),
        )  # fmt: skip
        check.one_device("fit", self.net)
        loop = FitLoop(
            self, loader, options, validation_data, watchers, safe,
            monitor=monitor, mode=mode, patience=patience, resume=resume, verbose=verbose,
            read_every=read_every, compile=compile,
        )  # fmt: skip
        return await loop.run()

    @check.waiting(fit_async)
    def fit(self, data: Any, epochs: int = 1, **options: Any) -> History:
        """Train for some epochs and return the History; the options are those of `fit_async`.

        `fit(x, y, epochs=3)` is `fit((x, y), epochs=3)`.

        Args:
            data, batch_size, shuffle: See there, as of all others.

        >>> net = nn.Linear(1, 1)
        >>> model = pf.Model(net, loss=nn.MSELoss(), optimizer=pf.optim.SGD(net.parameters(), 0.1))
        >>> x = pf.linspace(-1, 1, 8).reshape(8, 1)
        >>> history = model.fit(x, 2 * x, epochs=30, verbose=0)
        >>> history["loss"][-1] < history["loss"][0]
        True
        """
        return self._wait("fit", options.get("device", "auto"), data, epochs, **options)

    def _wait(self, method: str, device: Any, /, *args: Any, **options: Any) -> Any:
        """What the `await` twin of a method gives, on `device` (None: its own)."""
        twin = getattr(self, f"{method}_async")
        check.options(method, twin, options)
        device = pf.device(device or self.device)
        return devices.wait(twin(*args, **options), device, f"model.{method}_async(…)")

    def _precision(self, given: Any) -> pf.dtype | None:
        """The dtype of autocast, and the scaler that float16 needs."""
        dtype = check.precision(given, self.device)
        if dtype is not pf.float16:
            self.scaler = None
        elif self.scaler is None:
            self.scaler = pf.GradScaler(self.device.kind)
        return dtype

    def _sum_names(self, kind: str) -> list[str]:
        """What a step gives to sum up, as far as it is known before."""
        default = self._is_default("training_step" if kind == "train" else "validation_step")
        if not default or self.loss is None:
            return []
        if isinstance(self.loss, Mapping):
            return ["loss", *map(_part, self.loss)]
        several = len(self.loss) if isinstance(self.loss, list | tuple) else 0
        return ["loss", *map(_part, range(several))]

    def _names(self, validates: bool) -> tuple[str, ...]:
        """What logs will hold; () where steps of one's own say it."""
        own = self._sum_names("train")
        if not own:
            return ()
        own += list(self.metrics)
        return (*own, *[f"val_{n}" for n in own if validates], "lr")

    @check.targets_too
    @puts_back
    async def train_on_batch_async(self, batch: Any, *, compile: bool = True) -> dict[str, float]:
        """`train_on_batch` that gives the thread back while it waits."""
        self._need("optimizer", "train_on_batch")
        taken = self._take_steps("train")
        try:
            training_mode(self.net)
            pair = self._is_default("training_step")
            batch, size = self._ready(batch, "train_on_batch", pair)
            (taken.compiled if compile else taken.step)(batch)
            taken.count += size
            return numbers(await taken.begin()())
        finally:
            self._free["train"].append(taken)

    @check.waiting(train_on_batch_async)
    def train_on_batch(self, batch: Any, **options: Any) -> dict[str, float]:
        """One training step on a batch (inputs, targets): its loss and metrics.

        Args:
            batch: (inputs, targets), tensors or arrays on any device.
            compile: False computes step by step, as written.

        >>> net = nn.Linear(1, 1)
        >>> model = pf.Model(net, loss=nn.MSELoss(), optimizer=pf.optim.SGD(net.parameters(), 0.1))
        >>> list(model.train_on_batch((pf.ones(4, 1), pf.ones(4, 1))))
        ['loss']
        """
        return self._wait("train_on_batch", None, batch, **options)

    # --- looking

    @check.targets_too
    @puts_back
    async def evaluate_async(
        self, data: Any, *, batch_size: int = 256, sample_weight: Any = None, device: Any = None,
        compile: bool = True,
    ) -> dict[str, float]:  # fmt: skip
        """{"loss": …, "accuracy": …}: `evaluate` that gives the thread back while it waits.

        What is no single number, such as a matrix of confusions, is an array.

        Args:
            data: As of `fit`.
            batch_size: Samples in a batch, of tensors and Datasets.
            sample_weight: How much each sample counts, (N,).
            device: Where it runs; by default where the network is.
            compile: False computes step by step, as written.
        """
        self._need_results("evaluate")
        check.flags("evaluate", compile=compile)
        if device is not None:
            self.to(pf.device(device))
        loader = _data.as_loader(
            "evaluate", data, batch_size=batch_size, shuffle=False, sample_weight=sample_weight,
            labelled=self._is_default("validation_step"),
        )  # fmt: skip
        check.one_device("evaluate", self.net)
        return await self._evaluate(loader, PLAIN, compile)

    @check.waiting(evaluate_async)
    def evaluate(self, data: Any, **options: Any) -> dict[str, float]:
        """The mean loss and metrics over the data; the options are those of `evaluate_async`.

        Args:
            data: As of `fit`.

        >>> model = pf.Model(nn.Identity(), loss=nn.MSELoss())
        >>> model.evaluate((pf.zeros(4, 1), pf.ones(4, 1)))
        {'loss': 1.0}
        """
        return self._wait("evaluate", options.get("device"), data, **options)

    async def _evaluate(
        self, loader: Any, options: StepOptions, compile: bool, what: str = "evaluate"
    ) -> dict[str, Any]:
        taken = self._take_steps("test", options)
        run = taken.compiled if compile else taken.step
        try:
            evaluation, pair = Evaluation(self.net), self._is_default("validation_step")
            for batch in loader:
                ready, size = self._ready(batch, what, pair)
                if options.processes is not None:
                    ready, whole = options.processes.share(ready, size)
                    evaluation(run, ready, whole)
                else:
                    evaluation(run, ready)
                taken.count += size
                pf.flush()
                await devices.pause()  # a page delivers its messages now
            if taken.count == 0:
                raise ValueError(f"{what}: the data gave no batch")
            return await taken.begin()()
        except IndexError as error:
            _data.where_class(error, loader)
            raise
        finally:
            self._free["test"].append(taken)

    def predict(self, x: Any, **options: Any) -> Any:
        """The network's outputs for x, on the CPU; the options are those of `predict_async`.

        Args:
            options: those by name.

        >>> pf.Model(nn.ReLU()).predict(pf.tensor([[-1.0], [2.0]]))
        tensor([[0.],
                [2.]])
        """
        return self._wait("predict", None, x, **options)

    @puts_back
    async def predict_async(self, x: Any, *, batch_size: int = 256) -> Any:
        """`predict` that gives the thread back while it waits: (N, …) -> (N, …), or a tuple or
        dict of such where the network gives one.

        x may be inputs of any nesting, a Dataset or a DataLoader; of batches that are tuples or
        lists, as (x, y) is, the network gets what stands first.

        Args:
            x: inputs (N, …).
            batch_size: Samples that are computed at once.
        """
        outputs, evaluation = [], Evaluation(self.net)
        device, dtype = self._device_and_dtype()
        for part in _data.inputs_of("predict", x, batch_size=batch_size, net=self.net):
            ready = _data.to_device("predict", part, device, dtype, images=True)
            outputs.append(check.output(self.net, evaluation(_data.call, self.net, ready)))
            pf.flush()
            await devices.pause()
        arrays = iter(await gather_async(_data.tensors(outputs)))
        parts = [_data.map_tree(lambda _: pf.from_numpy(next(arrays)), o) for o in outputs]
        return _data.map_tree(lambda *rows: pf.cat(rows), *parts)

    def summary(
        self, input_size: Any = None, dtype: pf.dtype | None = None, *, input_data: Any = None
    ) -> Any:
        """Print (but in a notebook, which shows it) and return a table of the layers: parameters
        and, for an `input_size` without its batch dim (of inputs of `dtype`, float32; several in a
        list or dict) or for `input_data`, output shapes, FLOPs and memory of a forward pass.

        >>> table = pf.Model(nn.Linear(3, 2)).summary((3,))
        layer   output  parameters  FLOPs
        ---------------------------------
        Linear  [N, 2]           8     14
        ---------------------------------
        for a sample: 14 FLOPs, 8 B of outputs
        8 parameters (8 trained), 32 B
        """
        from pyframe.train.progress import in_notebook
        from pyframe.train.summary import summarize

        found = summarize(self.net, input_size, dtype, input_data)
        if not in_notebook():
            print(found)
        return found

    # --- keeping

    def save(self, path: Any) -> None:
        """Write the network's weights: as PyTorch's file where the path ends in .pt or .pth, as
        NumPy's in .npz, else as safetensors.

        Args:
            path: The file.

        >>> pf.Model(nn.Linear(3, 2)).save("net.safetensors")
        >>> model = pf.Model(nn.Linear(3, 2)).load("net.safetensors")
        """
        try:
            _write(self.net.state_dict(), check.path("Model.save", path))
        except DeviceLostError:  # the twin tells what becomes of the model
            self._wait("save", None, path)

    @puts_back
    async def save_async(self, path: Any) -> None:
        """`save` that gives the thread back while it waits for the GPU."""
        check.path("Model.save", path)
        state = self.net.state_dict()
        arrays = await gather_async(list(state.values()))
        on_host = {
            name: pf.from_numpy(a).to(x.dtype)
            for (name, x), a in zip(state.items(), arrays, strict=True)
        }
        _write(on_host, path)

    def load(self, path: Any) -> Model:
        """Read weights that `save` wrote, or a checkpoint's. Nothing is loaded if any name or shape
        differs.

        Args:
            path: The file.

        >>> pf.Model(nn.Linear(3, 2)).save("net.safetensors")
        >>> model = pf.Model(nn.Linear(3, 2)).load("net.safetensors")
        """
        state = weights_of(check.path("Model.load", path))
        return self._take(f"Model.load: {os.fspath(path)}", state)

    def _take(self, what: str, state: Any, strict: bool = True) -> Model:
        """Take over weights; with `strict` those of all names, else those that are there."""
        check.state_dict(what, self.net, state if strict else {**self.net.state_dict(), **state})
        self.net.load_state_dict(state, strict=strict)
        self._safe = None  # its copies are of other weights
        return self

    def save_checkpoint(self, path: Any) -> None:
        """Write all that training needs to go on from here: `fit(…, resume=path)` takes it.

        Args:
            path: The file.

        >>> net = nn.Linear(1, 1)
        >>> model = pf.Model(net, loss=nn.MSELoss(), optimizer=pf.optim.SGD(net.parameters(), 0.1))
        >>> model.save_checkpoint("last.ckpt")
        """
        self._wait("save_checkpoint", None, path)

    @puts_back
    async def save_checkpoint_async(self, path: Any) -> None:
        """`save_checkpoint` that gives the thread back while it waits for the GPU."""
        from pyframe.train.checkpoint import write

        await write(self, check.path("Model.save_checkpoint", path))


def weights_of(path: Any) -> Any:
    """What a file holds as weights, or a checkpoint as those of its net."""
    from pyframe.io import load

    state = load(path, weights_only=True)
    return state["net"] if isinstance(state, Mapping) and MARK in state else state


def _write(state: Mapping[str, pf.Tensor], path: Any) -> None:
    if os.fspath(path).endswith((".pt", ".pth", ".npz")):
        pf.save(dict(state), path)
    else:
        from pyframe.io.safetensors import save_file

        save_file(state, path)


def _words(given: Any) -> str:
    """The kinds of losses, optimizers or schedulers."""
    if isinstance(given, Mapping):
        return ", ".join(f"{key}: {name_of(one)}" for key, one in given.items())
    return ", ".join(map(name_of, listed(given)))


def _shared(net: Any) -> Any:
    """The processes that train a net together, if an mpiexec has started this one."""
    if not any(name.endswith("_RANK") for name in os.environ):
        return None
    from pyframe.train.processes import shared

    return shared(net)


def _replicas(net: Any) -> Any:
    """The processes whose gradients a DistributedDataParallel in the net averages."""
    if "pyframe.nn.distributed" not in sys.modules:
        return None
    from pyframe.train.processes import replicas

    return replicas(net)


def _looks_at_gradients(watcher: Any) -> bool:
    own = getattr(watcher, "on_gradients", None)
    return own is not None and getattr(own, "__func__", None) is not Callback.on_gradients


def _part(key: Any) -> str:
    """What one of several losses is called in the logs."""
    return f"{key}_loss" if isinstance(key, str) else f"loss_{key}"
