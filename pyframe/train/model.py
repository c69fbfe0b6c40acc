"""Model: fit, evaluate, predict, summary, save, load."""

from __future__ import annotations

import asyncio
import inspect
import math
import warnings
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

import numpy as np

import pyframe as pf
from pyframe import devices, nn
from pyframe.data import DataLoader, Dataset, IterableDataset, TensorDataset
from pyframe.devices import DeviceLostError, in_browser
from pyframe.nn.modules.module import Evaluation
from pyframe.tensor import gather_async, gather_begin
from pyframe.train import check
from pyframe.train.callbacks import Callback, History, ProgressBar
from pyframe.train.recovery import Place, Recovery, puts_back


def accuracy(output: pf.Tensor, target: pf.Tensor) -> pf.Tensor:
    """The share of samples whose largest output is at the target class."""
    shape = output.shape
    if output.ndim < 2 or shape[1] < 2 or target.shape != (*shape[:1], *shape[2:]):
        hint = "for other tasks pass a function of (output, target)"
        if output.ndim > 1 and shape[1] > 1:
            hint = "of one-hot targets" if target.shape == shape else "of another shape"
            hint = f"{hint} make class numbers, by .argmax(1) or .squeeze(1)"
        raise ValueError(
            "accuracy: expected outputs (N, C, *) for C > 1 classes and class numbers (N, *), got "
            f"outputs {[*shape]} and targets {[*target.shape]}; {hint}"
        )
    hit = output.argmax(1) == target
    return hit.float().mean()


METRICS: dict[str, Callable[[pf.Tensor, pf.Tensor], pf.Tensor]] = {"accuracy": accuracy}


def _is_pair(data: Any) -> bool:
    """Whether `data` is (x, y) and no list of batches."""
    if isinstance(data, list):
        return len(data) == 2 and all(isinstance(d, pf.Tensor | np.ndarray) for d in data)
    return isinstance(data, tuple) and len(data) == 2


class _Means:
    """Means over steps, weighted by batch size, summed on the device and read together."""

    def __init__(self, names: Sequence[str], device: pf.device) -> None:
        self.names = names
        self.sums = [pf.zeros((), device=device) for _ in names]
        self.count = 0

    def add(self, values: Sequence[Any], size: int) -> None:
        """Add what a step found; `size` samples are counted by the caller, as this is captured."""
        with pf.no_grad():
            for total, v in zip(self.sums, values, strict=True):
                try:
                    one = pf.as_tensor(v, device=total.device).detach()
                    total.add_((one.reshape(()) if one.ndim else one) * size)
                except Exception:
                    self.refuse(values)
                    raise

    def refuse(self, values: Sequence[Any]) -> None:
        """TypeError that names what is not one number."""
        for name, value in zip(self.names, values, strict=True):
            check.scalar("the loss" if name == "loss" else f"the metric {name!r}", value)

    def start(self, sums: Sequence[float] = (), count: int = 0) -> None:
        """Begin again, or go on from what they were."""
        for total in self.sums:
            total.zero_()
        for total, value in zip(self.sums, sums, strict=False):
            total.fill_(value)
        self.count = count

    def begin(
        self, more: Sequence[pf.Tensor] = (), keep: Callable[..., None] | None = None
    ) -> Callable[[], Coroutine[Any, Any, dict[str, float]]]:
        """Ask for the means so far; what it returns waits for them. `keep` gets them, and the
        values of the sums and of `more` tensors."""
        count = self.count
        finish = gather_begin([*self.sums, *more])

        async def means() -> dict[str, float]:
            arrays = await finish()
            found = {n: float(a) / count for n, a in zip(self.names, arrays, strict=False)}
            if keep is not None:
                keep(found, arrays)
            return found

        return means


class _Steps:
    """What `fit` and `evaluate` do with a batch, captured by pf.compile, and the means of what
    `fn(x, y)` gives. `key` tells of what: it is kept for as long as it is of the same things."""

    def __init__(self, key: tuple[Any, ...], means: _Means, fn: Callable[..., Any]) -> None:
        self.key, self.means = key, means

        def step(x: pf.Tensor, y: pf.Tensor) -> None:
            means.add(fn(x, y), len(x))

        self.eager, self.compiled = step, pf.compile(step)


class Model:
    """A network with what it takes to train it.

    `loss(output, target)` gives a scalar; `metrics` are "accuracy" or functions of (output,
    target) that give one. Batches are (x, y) pairs: a DataLoader, a Dataset, or tensors.
    """

    def __init__(
        self,
        net: nn.Module,
        loss: Callable[..., pf.Tensor] | None = None,
        optimizer: pf.optim.Optimizer | None = None,
        metrics: Sequence[str | Callable[..., pf.Tensor]] = (),
    ) -> None:
        self.net, self.loss, self.optimizer = net, loss, optimizer
        check.parts(net, loss, optimizer)
        self.metrics = check.metrics(metrics, METRICS)
        self.stop_training = False
        self.epoch = 0
        self._lost = False  # whether the loss was not finite
        self._safe: Recovery | None = None  # the copies of the last fit
        self._free: dict[str, list[_Steps]] = {"train": [], "test": []}  # that nobody uses now

    @property
    def device(self) -> pf.device:
        """Where the parameters are."""
        p = next(self.net.parameters(), None)
        return pf.get_default_device() if p is None else p.device

    @property
    def device_name(self) -> str:
        """The hardware that it runs on, for people."""
        return f"{self.device} ({pf.device_name(self.device)})"

    def to(self, device: Any) -> Model:
        """Move the network, the loss's tensors and the optimizer's state."""
        self.net.to(device)
        if isinstance(self.loss, nn.Module):
            self.loss.to(device)
        if self.optimizer is not None:
            for p, state in self.optimizer.state.items():
                for x in state.values():
                    if isinstance(x, pf.Tensor):
                        x.data = x.to(p.device)
        return self

    def __call__(self, *args: Any) -> Any:
        return self.net(*args)

    # --- data

    def _batches(self, data: Any, batch_size: int, shuffle: bool, what: str) -> Any:
        if _is_pair(data):
            x, y = check.tensor(f"{what}: x", data[0]), check.tensor(f"{what}: y", data[1])
            if not x.ndim or not y.ndim or len(x) != len(y):
                n, m = (f"{len(t)} samples" if t.ndim else "no first dim" for t in (x, y))
                raise ValueError(f"{what}: x has {n} and y has {m}; expected as many of both")
            data = TensorDataset(x, y)
        check.batches(what, data)
        if isinstance(data, Dataset) or not hasattr(data, "__iter__"):
            shuffle = shuffle and not isinstance(data, IterableDataset)
            data = DataLoader(data, batch_size=check.batch_size(what, batch_size), shuffle=shuffle)
        return data

    def _pair(self, batch: Any, what: str) -> tuple[pf.Tensor, pf.Tensor, int]:
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            check.pair(what, batch)
        x, y = self._place(batch[0], what), self._place(batch[1], what)
        try:
            return x, y, len(x)
        except TypeError:
            raise ValueError(f"{what}: expected batches of samples, got x without dims") from None

    def _place(self, data: Any, what: str) -> pf.Tensor:
        """`data` where the network is; floats take its dtype, as NumPy's own are float64."""
        x = check.tensor(what, data)
        p = next(self.net.parameters(), None)
        if p is None:
            return x
        return x.to(p.device, p.dtype) if x.is_floating_point() else x.to(p.device)

    def _need(self, name: str, what: str) -> Any:
        found = getattr(self, name)
        if found is None:
            raise RuntimeError(
                f"{what} needs {'an' if name == 'optimizer' else 'a'} {name}: Model(net, {name}=…)"
            )
        return found

    # --- training

    def _take_steps(self, kind: str, fn: Callable[..., Any], names: list[str]) -> _Steps:
        """Steps that nobody else uses until they are given back: what runs beside has others."""
        key = (self.device, self.loss, self.optimizer, *self.metrics.values())
        try:
            steps = self._free[kind].pop()
        except IndexError:
            steps = None
        if steps is None or steps.key != key:
            steps = _Steps(key, _Means(names, self.device), fn)
        steps.means.start()
        return steps

    def _train(self, x: pf.Tensor, y: pf.Tensor) -> list[Any]:
        self.optimizer.zero_grad()  # type: ignore[union-attr]
        output = self.net(x)
        loss = self.loss(output, y)  # type: ignore[misc]
        try:
            loss.backward()
        except Exception:
            self._refuse(loss)
            raise
        with pf.no_grad():
            values = [loss, *[m(output, y) for m in self.metrics.values()]]
        self.optimizer.step()  # type: ignore[union-attr]
        return values

    def _refuse(self, loss: Any) -> None:
        """An error that says what is wrong with a loss that has no backward pass."""
        check.trains(check.scalar("the loss", loss), self.net)

    def _test(self, x: pf.Tensor, y: pf.Tensor) -> list[Any]:
        output = self.net(x)
        values = [m(output, y) for m in self.metrics.values()]
        return [self.loss(output, y), *values] if self.loss else values

    @check.targets_too
    def fit(self, data: Any, epochs: int = 1, **options: Any) -> History:
        """Train for some epochs and return the History; the options are those of `fit_async`.

        `fit(x, y, epochs=3)` is `fit((x, y), epochs=3)`."""
        check.options("fit", self.fit_async, options)
        device = pf.device(options.get("device", "auto") or self.device)
        return devices.wait(self.fit_async(data, epochs, **options), device, "model.fit_async(…)")

    @check.targets_too
    async def fit_async(
        self,
        data: Any,
        epochs: int = 1,
        *,
        batch_size: int = 64,
        shuffle: bool = True,
        validation_data: Any = None,
        device: Any = "auto",
        callbacks: Sequence[Callback] = (),
        verbose: int = 1,
        read_every: int = 16,
        compile: bool = True,
    ) -> History:
        """Train for some epochs: `fit` that gives the thread back while it waits.

        `batch_size` and `shuffle` are for tensors and Datasets; a DataLoader has its own.
        `device` "auto" is a real GPU if there is one; None stays where the network is. Losses and
        metrics stay on the device; every `read_every` steps they are asked for, and callbacks told:
        at once on the CPU, on a GPU while it is busy with the steps after.
        `compile` replays the step (see pf.compile); without it, Python code in the network runs at
        every step.
        If the GPU is lost, a warning says so and training goes on, as if nothing had happened, from
        a copy on the host, which is made now and then, of weights, optimizer, random numbers and
        the place in the data; after the third time on the CPU. Of what is done again callbacks are
        told again.
        Raises RuntimeError without loss or optimizer, ValueError for data that can't be used.
        """
        self._need("loss", "fit")
        optimizer = self._need("optimizer", "fit")
        epochs = check.count("fit", "epochs", epochs, 0)
        read_every = check.count("fit", "read_every", read_every, 1)
        check.flags("fit", shuffle=shuffle, verbose=verbose, compile=compile)
        check.optimizes("fit", optimizer, self.net, self.loss)
        watchers: list[Callback] = check.callbacks(callbacks)
        loader = self._batches(data, batch_size, shuffle, "fit")
        if validation_data is not None:
            validation_data = self._batches(
                validation_data, batch_size, False, "fit: validation_data"
            )
        self._safe = safe = Recovery(self, self._safe)
        if device is not None:
            await safe.move(self, pf.device(device))
        history = History()
        steps = check.length(loader)
        bars = [ProgressBar(epochs, steps)] if verbose and not in_browser() else []
        watchers = [history, *bars, *watchers]
        self.stop_training = False
        self._lost = False

        async def train(taken: _Steps, at: Place) -> None:
            x = y = None

            async def look(means: Callable[[], Any], step: int) -> dict[str, float]:
                return await self._look(means, step, watchers, (loader, x, y))

            means, run = taken.means, taken.compiled if compile else taken.eager
            step, told = at.step, at.told
            for epoch in range(at.epoch, epochs):
                self.epoch = epoch
                self.net.train()
                means.start(at.sums, at.count)
                logs, asked = at.logs, at.asked
                if asked and not at.later:
                    logs, asked = await look(*asked), None
                for batch in safe.batches(loader, at):
                    x, y, size = self._pair(batch, "fit")
                    run(x, y)
                    means.count += size
                    step += 1
                    if step == 1 or step % read_every == 0:
                        told = step
                        if step == 1 or self.device.type == "cpu":
                            logs = await look(await safe.ask(self, means, step), step)
                        else:  # told of when the GPU has more to do already
                            if asked:
                                logs = await look(*asked)
                            asked = await safe.ask(self, means, step, True), step
                    if self.stop_training:
                        break
                if means.count == 0:
                    raise ValueError(
                        f"fit: the data gave no batch in epoch {epoch + 1}; what can be iterated "
                        "over only once does for one epoch, a DataLoader for any number"
                    )
                if asked:
                    logs = await look(*asked)
                if told != step:
                    logs = await look(await safe.ask(self, means, step), step)
                if validation_data is not None and not self.stop_training:
                    found = await self.evaluate_async(validation_data, compile=compile)
                    logs.update({f"val_{k}": v for k, v in found.items()})
                logs["lr"] = float(optimizer.param_groups[0]["lr"])
                await self._tell(watchers, "on_epoch", self, epoch, logs)
                if self.stop_training:
                    break
                at = Place(epoch + 1)

        await self._tell(watchers, "on_fit_begin", self)
        place: Place | None = safe.begin(self, history)
        try:
            while place is not None:
                taken = None
                try:
                    taken = self._take_steps("train", self._train, ["loss", *self.metrics])
                    await train(taken, place)
                    place = None
                except DeviceLostError as error:
                    place = await safe.restore(self, error)
                finally:
                    if taken is not None:
                        self._free["train"].append(taken)
        finally:
            safe.running, safe.live = False, None  # the worker processes of its loader end
            await self._tell(watchers, "on_fit_end", self)
        return history

    async def _look(
        self, means: Callable[[], Any], step: int, watchers: Sequence[Callback], data: Any
    ) -> dict[str, float]:
        """Wait for the epoch's means up to a step, tell the callbacks, and let a page be heard.

        `data`: the loader and the batch at hand, looked at if the loss is lost."""
        logs: dict[str, float] = await means()
        if not math.isfinite(logs["loss"]) and not self._lost:
            self._lost = True
            why = await check.not_finite(*data)
            text = f"the loss became {logs['loss']} by step {step}; {why}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        await self._tell(watchers, "on_step", self, step, logs)
        await asyncio.sleep(0)  # a page delivers its messages now
        return logs

    @staticmethod
    async def _tell(watchers: Sequence[Callback], event: str, *args: Any) -> None:
        for w in watchers:
            answer = getattr(w, event)(*args)
            if inspect.isawaitable(answer):
                await answer

    @check.targets_too
    def evaluate(self, data: Any, **options: Any) -> dict[str, float]:
        """The mean loss and metrics over the data; the options are those of `evaluate_async`."""
        check.options("evaluate", self.evaluate_async, options)
        device = pf.device(options.get("device") or self.device)
        coroutine = self.evaluate_async(data, **options)
        return devices.wait(coroutine, device, "model.evaluate_async(…)")

    @check.targets_too
    @puts_back
    async def evaluate_async(
        self, data: Any, *, batch_size: int = 256, device: Any = None, compile: bool = True
    ) -> dict[str, float]:
        """{"loss": …, "accuracy": …}: `evaluate` that gives the thread back while it waits."""
        if self.loss is None and not self.metrics:
            self._need("loss", "evaluate")
        check.flags("evaluate", compile=compile)
        if device is not None:
            self.to(pf.device(device))
        names = [*(["loss"] if self.loss else []), *self.metrics]
        taken = self._take_steps("test", self._test, names)
        means, run = taken.means, taken.compiled if compile else taken.eager
        try:
            evaluation = Evaluation(self.net)
            for batch in self._batches(data, batch_size, False, "evaluate"):
                x, y, size = self._pair(batch, "evaluate")
                evaluation(run, x, y)
                means.count += size
                pf.flush()
                await asyncio.sleep(0)  # a page delivers its messages now
            if means.count == 0:
                raise ValueError("evaluate: the data gave no batch")
            return await means.begin()()
        finally:
            self._free["test"].append(taken)

    def predict(self, x: Any, **options: Any) -> pf.Tensor:
        """The network's outputs for x, on the CPU; the options are those of `predict_async`."""
        check.options("predict", self.predict_async, options)
        coroutine = self.predict_async(x, **options)
        return devices.wait(coroutine, self.device, "model.predict_async(…)")

    @puts_back
    async def predict_async(self, x: Any, *, batch_size: int = 256) -> pf.Tensor:
        """`predict` that gives the thread back while it waits: (N, …) -> (N, …).

        x may be a Dataset or a DataLoader too; of batches that are tuples or lists, as (x, y) is,
        the network gets what stands first."""
        batch_size = check.batch_size("predict", batch_size)
        outputs, evaluation = [], Evaluation(self.net)
        for part in self._inputs(x, batch_size):
            output = evaluation(self.net, self._place(part, "predict"))
            outputs.append(check.output(self.net, output))
            pf.flush()
            await asyncio.sleep(0)
        arrays = await gather_async(outputs)
        return pf.cat([pf.from_numpy(a) for a in arrays])

    @staticmethod
    def _inputs(x: Any, batch_size: int) -> Iterable[Any]:
        """Batches of inputs."""
        if isinstance(x, Dataset):
            x = DataLoader(x, batch_size)
        if isinstance(x, DataLoader):
            check.batches("predict", x)
            return (b[0] if isinstance(b, tuple | list) else b for b in x)
        return check.inputs(x).split(batch_size)

    # --- looking and keeping

    def summary(
        self, input_size: Sequence[int] | None = None, dtype: pf.dtype | None = None
    ) -> str:
        """Print and return a table of layers, parameters and, for an `input_size` without its
        batch dim, the shapes of their outputs for an input of `dtype` (float32)."""
        leaves = [
            (name, m)
            for name, m in self.net.named_modules()
            if next(m.children(), None) is None
            or next(m.parameters(recurse=False), None) is not None
        ]
        shapes: dict[int, list[int]] = {}

        def note(module: nn.Module, args: Any, out: Any) -> None:
            if isinstance(out, pf.Tensor):
                shapes[id(module)] = list(out.shape)

        if input_size is not None:
            input_size = check.sample_shape("summary", input_size)
            handles = [m.register_forward_hook(note) for _, m in leaves]
            try:
                Evaluation(self.net)(
                    self.net, pf.zeros(1, *input_size, dtype=dtype, device=self.device)
                )
            finally:
                for h in handles:
                    h.remove()
        rows = [("layer", "output", "parameters")]
        for name, m in leaves:
            shape = shapes.get(id(m))
            text = "" if shape is None else str(["N", *shape[1:]]).replace("'", "")
            count = sum(p.numel() for p in m.parameters(recurse=False))
            rows.append((f"{name + ': ' if name else ''}{type(m).__name__}", text, f"{count:,}"))
        widths = [max(len(r[i]) for r in rows) for i in range(3)]
        lines = [
            f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}".rstrip() for a, b, c in rows
        ]
        rule = "-" * max(map(len, lines))
        params = list(self.net.parameters())
        total = sum(p.numel() for p in params)
        trained = sum(p.numel() for p in params if p.requires_grad)
        size = sum(p.nbytes for p in params)
        text = "\n".join([
            lines[0], rule, *lines[1:], rule,
            f"{total:,} parameters ({trained:,} trained), {size / 1024:,.1f} KiB",
        ])  # fmt: skip
        print(text)
        return text

    def save(self, path: Any) -> None:
        """Write the network's weights as a safetensors file."""
        from pyframe.io.safetensors import save_file

        try:
            save_file(self.net.state_dict(), check.path("Model.save", path))
        except DeviceLostError:  # the twin tells what becomes of the model
            devices.wait(self.save_async(path), self.device, "model.save_async(…)")

    @puts_back
    async def save_async(self, path: Any) -> None:
        """`save` that gives the thread back while it waits for the GPU."""
        from pyframe.io.safetensors import save_file_async

        await save_file_async(self.net.state_dict(), check.path("Model.save", path))

    def load(self, path: Any) -> Model:
        """Read weights that `save` wrote. Nothing is loaded if any name or shape differs."""
        from pyframe.io import load

        self.net.load_state_dict(load(check.path("Model.load", path)))
        self._safe = None  # its copies are of other weights
        return self
