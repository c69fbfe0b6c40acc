"""How `fit` goes on when the GPU is lost: from a copy on the host of all that training changes."""

from __future__ import annotations

import contextlib
import copy
import functools
import random as python_random
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import pyframe as pf
from pyframe import nn
from pyframe.core import devices
from pyframe.core.devices import DeviceLostError
from pyframe.io import raw
from pyframe.nn.parameter import is_lazy
from pyframe.ops.random.draws import Generator, default_generator, go_on, gpu_streams, rewind
from pyframe.tensor import gather_async
from pyframe.train.steps import trained

if TYPE_CHECKING:
    from pyframe.train.callbacks import History
    from pyframe.train.loop import FitLoop
    from pyframe.train.model import Model

LOSSES = 3  # of the GPU in one fit; after the next one it goes on on the CPU
SHARE = 0.01  # of the time that copies may take
CHUNK = 32 << 20  # bytes that are read together
MARK = "pyframe_checkpoint"  # the key of a checkpoint that has its format


def _seconds(tensors: int, nbytes: int) -> float:
    """What a copy takes at most: it is read along with the losses, and taken apart on the host."""
    return 1e-3 + 2e-5 * tensors + 4e-9 * nbytes


@dataclass
class LoopPosition:
    """How far a fit has come."""

    epoch: int = 0  # epochs that are over
    batch: int = 0  # batches of the epoch that are trained on
    step: int = 0
    told: int = 0  # the last step whose losses were asked for
    logs: dict[str, float] = field(default_factory=dict)
    asked: tuple[Any, int] | None = None  # losses on their way, and of which step
    later: bool = True  # callbacks are told of them only after more steps
    sums: dict[str, Any] = field(default_factory=dict)  # what the epoch's means are counted with
    count: int = 0  # samples in them
    samples: int = 0  # of the whole fit
    group: int = 0  # batches that wait for their update


class Streams:
    """Where the host's random numbers are now."""

    def __init__(self, loader: Any = None) -> None:
        self._ours = rewind()
        self.python, self.numpy = python_random.getstate(), np.random.get_state()
        self.states = [g.get_host_state() for g in generators(loader)]

    def back(self) -> None:
        """Let all of them go on from here again."""
        self._ours()
        python_random.setstate(self.python)
        np.random.set_state(self.numpy)


def generators(loader: Any) -> list[Generator]:
    """The default generator, and those of a loader and its samplers, which only a program
    knows."""
    found, sampler = [default_generator, getattr(loader, "generator", None)], loader
    for name in ("batch_sampler", "sampler"):
        inner = getattr(sampler, name, None)
        sampler = getattr(loader, name, None) if inner is None else inner  # one may have no length
        found.append(getattr(sampler, "generator", None))
    return list({id(g): g for g in found if isinstance(g, Generator)}.values())


class _Copy:
    """All that training changes, on the host, but for the values of tensors: those are read."""

    def __init__(self, model: Model, position: LoopPosition, epoch: Streams) -> None:
        self.position, self.epoch, self.streams = position, epoch, Streams()
        self.made = f"after step {position.step}"
        self.earlier = False  # made by the fit before
        self.values: list[tuple[pf.Tensor, Any]] = []
        self.grads: list[tuple[pf.Tensor, Any]] = []  # of batches that wait for their update
        self.draws: list[tuple[Generator, Any]] = []  # of the streams on the GPU
        self.buffers = [(m, k, b) for m in modules_of(model) for k, b in m.named_buffers("", False)]
        self.put_options = options_back(model)
        self.schedulers = [(s, copy.deepcopy(s.state_dict())) for s in model.schedulers]

    def put(self, some: Collection[int], device: Any) -> None:
        """Give tensors, by their ids, their values, on `device` what was on the GPU."""
        with pf.no_grad():
            for x, value in self.values:
                if id(x) in some:
                    x.grad = None
                    if x.is_cuda:
                        x.data = pf.tensor(value, dtype=x.dtype, device=device)
                    else:
                        x.data.copy_(pf.as_tensor(value))

    def put_all(self, model: Model, device: Any) -> None:
        """Let the model be as it was, on `device` what was on the GPU."""
        for m, name, b in self.buffers:
            if getattr(m, name, None) is not b:
                setattr(m, name, b)
        self.put({id(x) for x, _ in self.values}, device)
        for p, value in self.grads:
            p.grad = pf.tensor(value, dtype=p.dtype, device=p.device)
        self.put_options()
        for scheduler, state in self.schedulers:
            scheduler.load_state_dict(copy.deepcopy(state))

    def rewind(self, device: Any) -> None:
        """Let random numbers go on from where they were, those of the GPU on `device`."""
        self.streams.back()
        for generator, words in self.draws:
            go_on(generator, words, device)


def _options(d: Any) -> dict[str, Any]:
    """A copy of a group or a state; its tensors are the same ones."""
    return {
        k: v if isinstance(v, pf.Tensor) else copy.deepcopy(v)
        for k, v in d.items()
        if k != "params"
    }


def options_back(model: Model) -> Callable[[], None]:
    """What puts the options and states of a model's optimizers back to what they are now, but for
    the values of their tensors, which are the same ones."""
    kept = [
        (o, [_options(g) for g in o.param_groups], {p: _options(s) for p, s in o.state.items()})
        for o in model.optimizers
    ]

    def back() -> None:
        for optimizer, groups, state in kept:
            for group, options in zip(optimizer.param_groups, groups, strict=False):
                group.update(_options(options))
            optimizer.state.clear()
            optimizer.state.update({p: _options(s) for p, s in state.items()})

    return back


def modules_of(model: Model) -> list[nn.Module]:
    """The modules that training changes, and all in them."""
    return [m for part in model.modules() for m in part.modules()]


def _held(model: Model) -> list[pf.Tensor]:
    found = [x for m in modules_of(model) for x in (*m.parameters(False), *m.buffers(False))]
    return [x for x in found if not is_lazy(x)]


def tensors_of(model: Model) -> list[pf.Tensor]:
    """The tensors that training changes: parameters, buffers, the optimizer's state and options."""
    own = [d for o in model.optimizers for d in (*o.param_groups, *o.state.values())]
    if model.scaler is not None:
        own.append(vars(model.scaler))
    found = [*_held(model), *[x for d in own for x in d.values() if isinstance(x, pf.Tensor)]]
    return list({id(x): x for x in found}.values())


def _groups(tensors: list[pf.Tensor]) -> list[list[pf.Tensor]]:
    """Tensors to read together."""
    return raw.groups(((x, x.nbytes) for x in tensors), CHUNK)


async def lost(tensors: list[pf.Tensor]) -> set[int]:
    """The ids of those whose values are gone."""
    gone = set()
    try:
        for device in {x.device for x in tensors}:
            await devices.reopen(device)
        for group in _groups(tensors):
            await gather_async(group)
    except DeviceLostError:
        for x in tensors:
            try:
                await gather_async([x])
            except DeviceLostError:
                gone.add(id(x))
    return gone


class Recovery:
    """Takes copies while a fit runs on a GPU, and goes back to the last one when it is lost."""

    def __init__(self, model: Model, earlier: Recovery | None) -> None:
        """Before the model moves to the GPU: what it holds on the CPU is its first copy and costs
        nothing. One that is there already has the last copy of an earlier fit at first."""
        here = model.device.kind == "cpu"
        self.values: list[Any] = [(x, x.detach()) for x in tensors_of(model)] if here else []
        self.copy: _Copy | None = earlier.copy if earlier is not None and not here else None
        self.running = False
        self.losses = 0
        self.due = 0.0  # when the next copy is
        self.resumed = False
        self.live: Any = None  # the data, as it is gone through
        self.batch = 0  # of these

    async def move(self, model: Model, device: Any) -> None:
        """`model.to(device)`, also where that is how a loss comes to light."""
        try:
            model.to(device)
        except DeviceLostError as error:
            gone = await lost(tensors_of(model))
            if gone:
                if self.copy is None:
                    raise
                await self.put_back(model, gone)
                self.tell(model, error)
            model.to(device)

    def begin(self, model: Model, history: History, loader: Any) -> LoopPosition:
        """Where the fit begins; the model is on its device."""
        self.running, self.history, self.loader = True, history, loader
        self.on_gpu = model.device.kind != "cpu"
        values, self.values = self.values, []
        earlier, self.copy = self.copy, None
        if self.on_gpu and (values or earlier):
            self.copy = _Copy(model, LoopPosition(), Streams())
            self.copy.values = values
            if earlier:
                self.copy.values = earlier.values
                self.copy.made, self.copy.earlier = f"{earlier.made} of the fit before", True
        return LoopPosition()

    def resume_epoch(self, begin: Callable[[], None], back: Callable[[], None]) -> None:
        """Let the next `batches` begin with random numbers as `begin` puts them; after those that
        are trained on already, `back` takes them to where they were."""
        self.resumed, self.begin_epoch, self.back = True, begin, back

    def batches(self, loader: Any, at: LoopPosition) -> Iterator[Any]:
        """The batches of an epoch from a position on, the same ones in the same order."""
        self.batch = at.batch
        if not self.resumed:
            self.epoch = Streams(loader)
            self.live = iter(loader)
        else:
            if self.live is not loader:  # what can be gone through only once goes on
                self.begin_epoch()
                self.epoch = Streams(loader)
                self.live = iter(loader)
                for _ in range(at.batch):
                    next(self.live, None)
            self.back()
        self.resumed = False
        for batch in self.live:
            self.batch += 1
            yield batch

    async def ask(self, loop: FitLoop, step: int, later: bool = False) -> Any:
        """`begin()` of the steps that run: what it asks for has a copy with it where one is due.
        `later` says that the callbacks are told of the losses only after more steps."""
        now, means, model = time.monotonic(), loop.taken, loop.model
        assert means is not None
        due = step == 1 or now >= self.due
        if not self.on_gpu or not due:
            return means.begin()
        position = loop.position(logs={}, later=later, step=step)
        new = _Copy(model, position, self.epoch)
        streams, tensors, device = gpu_streams(), tensors_of(model), model.device
        new.values = [(x, x.detach().clone()) for x in tensors if not x.is_cuda]
        tensors = [x for x in tensors if x.device is device]
        grouped = trained(model) if loop.group else []
        waiting = [(p, p.grad) for p in grouped if p.grad is not None]  # for their update
        n, m = len(tensors), len(tensors) + len(waiting)
        drawn = [x for _, x in streams if x.device is device]
        *whole, last = _groups([*tensors, *[g for _, g in waiting], *drawn])
        arrays = []
        for group in whole:
            arrays += await gather_async(group)
        nbytes = sum(x.nbytes for x in tensors)
        self.due = now + _seconds(len(tensors), nbytes) / SHARE

        def keep(logs: dict[str, float], sums: dict[str, Any], found: list[np.ndarray]) -> None:
            async def told() -> dict[str, float]:
                return dict(logs)

            position.logs, position.asked, position.sums = logs, (told, step), sums
            arrays.extend(found)
            new.values += zip(tensors, arrays[:n], strict=True)
            new.grads = [(p, a) for (p, _), a in zip(waiting, arrays[n:m], strict=True)]
            owners = [g for g, x in streams if x.device is device]
            new.draws = list(zip(owners, arrays[m:], strict=True))
            self.copy = new

        return means.begin(last, keep)

    async def restore(self, model: Model, error: DeviceLostError) -> LoopPosition:
        """Go back to the last copy; gives its position. Raises `error` if that won't help."""
        gone = await lost(tensors_of(model))
        if self.copy is None or not gone:
            raise error
        self.losses += 1
        await self.put_back(model, gone if self.copy.earlier else None, self.losses <= LOSSES)
        self.device = model.device
        self.on_gpu = self.device.kind != "cpu"
        self.resume_epoch(self.copy.epoch.back, functools.partial(self.copy.rewind, self.device))
        self.tell(model, error)
        position = self.copy.position
        lists: list[list[Any]] = [self.history.epoch, *self.history.history.values()]
        for kept in lists:
            del kept[position.epoch :]
        return replace(position, logs=dict(position.logs))

    def tell(self, model: Model, error: DeviceLostError) -> None:
        assert self.copy is not None
        warnings.warn(
            f"fit: {error.what}. It goes on from its copy on the host, made {self.copy.made}, on "
            f"device '{model.device}'",
            RuntimeWarning,
            stacklevel=2,
        )

    async def put_back(
        self, model: Model, some: Collection[int] | None, on_gpu: bool = True
    ) -> None:
        """Let tensors, or the whole model, be as in the copy: on the GPU if it is to be had."""
        assert self.copy is not None
        for device in (model.device, devices.cpu) if on_gpu else (devices.cpu,):
            with contextlib.suppress(DeviceLostError):
                await devices.reopen(device)
                if some is None:
                    self.copy.put_all(model, device)
                else:
                    self.copy.put(some, device)
                break


_F = TypeVar("_F", bound=Callable[..., Any])


def puts_back(method: _F) -> _F:
    """Puts a model that is lost back to the last copy that `fit` made, before the error says so."""

    @functools.wraps(method)
    async def wrapped(model: Model, *args: Any, **kwargs: Any) -> Any:
        try:
            return await method(model, *args, **kwargs)
        except DeviceLostError as error:
            safe = model._safe
            if safe is None or safe.running or safe.copy is None:
                raise
            gone = await lost(tensors_of(model))
            if gone.isdisjoint(map(id, _held(model))):
                raise
            await safe.put_back(model, gone)
            again = DeviceLostError(
                f"{error.what}. The model is put back to the copy on the host that fit made "
                f"{safe.copy.made}, on device '{model.device}': call {method.__name__} again for it"
            )
            again.what = error.what
            raise again from error

    return wrapped  # type: ignore[return-value]
