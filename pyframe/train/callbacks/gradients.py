"""GradientWatch: which layer had the first nan or inf."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pyframe as pf
from pyframe import nn
from pyframe.tensor import gather_async
from pyframe.train import check, data
from pyframe.train.callbacks.base import Callback, Logs, Model

ADVICE = {
    "inputs": "clean or scale the data; no learning rate mends it",
    "output": "a lower learning rate, clip_norm=1.0 in fit, a norm layer before it or a smaller "
    "eps that divides often helps",
    "gradient": "the outputs of all layers were finite, so it arose in the backward pass of the "
    "loss or of what follows this layer: look for sqrt, log, division and norms at 0, and try "
    "clip_norm=1.0 in fit",
}
NONE = 2**31 - 1  # where all values are finite
# What is counted lies on the device, as a step is captured: the optimizer's steps, the code of what
# was first in this step, and which step (0: none) had the very first one, with its code.
BEGIN = {"_watch_step": 0, "_watch_code": NONE, "_watch_first": 0, "_watch_which": 0}


class NonFiniteValue(NamedTuple):
    """Where the first value that is not finite was: `kind` is "inputs", "output" or "gradient"."""

    step: int
    kind: str
    name: str


class GradientWatch(Callback):
    """Stops a fit whose values are nan or inf, and warns with the name of the first layer.

    Each step is looked at, in the order in which it computes: what the net is given, the outputs of
    its layers, and the gradients of its parameters from the last layer to the first (but with a
    scaler, which leaves out steps whose gradients overflow). What is found is kept on the device
    and read when the loss is not finite, and after each epoch. A compiled step has two reductions
    more.

    Attributes:
        found: (step, kind, name) of the first one, None if there is none: `step` counts those of
            the optimizer, `kind` is "inputs", "output" or "gradient".

    >>> x, net = pf.randn(32, 2), nn.Linear(2, 1)
    >>> model = pf.Model(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.1))
    >>> watch = pf.train.GradientWatch()
    >>> history = model.fit((x, x[:, :1]), callbacks=[watch], verbose=0)
    >>> watch.found is None
    True
    """

    def __init__(self) -> None:
        self.found: NonFiniteValue | None = None
        self._keys: list[tuple[str, str]] = []  # (kind, name) of all that is looked at
        self._outputs: list[tuple[int, pf.Tensor]] = []  # key and value, of the pass that runs
        self._depth = 0  # modules that it is in
        self._handles: list[Any] = []

    def on_fit_begin(self, model: Model) -> None:
        """Look at all layers from now on."""
        self.on_fit_end(model)  # one that failed when it began had no end
        self.found = None
        self._keys = []
        # As buffers of the net they move with it, and come back with it when a GPU is lost.
        for name, value in BEGIN.items():
            first = pf.tensor(value, dtype=pf.int32, device=model.device)
            model.net.register_buffer(name, first, persistent=False)
        # A pass and its gradients are looked at together where each pass has some.
        loop, whole = model._loop, model._is_default("training_step")
        self._at_once = whole and (loop is None or loop.options.accumulate == 1)
        for name, layer in model.net.named_modules():
            self._watch(model, name, layer)
        self._parameters = [
            (self._key("gradient", name), p)
            for name, p in reversed(list(model.net.named_parameters()))
        ]

    def _key(self, kind: str, name: str) -> int:
        self._keys.append((kind, name))
        return len(self._keys) - 1

    def _watch(self, model: Model, name: str, layer: nn.Module) -> None:
        text = f"{name or 'net'} ({type(layer).__name__})"
        given = self._key("inputs", f"what {text} was given")
        gave = self._key("output", text)
        holds = next(layer.children(), None) is not None and not list(layer.parameters(False))

        def enter(layer: nn.Module, args: Any, kwargs: Any) -> None:
            if self._looks(model):
                if layer is model.net:  # an error may have left the pass before unfinished
                    self._depth = 0
                    self._outputs.clear()
                if not self._depth:
                    self._note(given, [args, kwargs])
                self._depth += 1

        def leave(layer: nn.Module, args: Any, output: Any) -> None:
            if self._looks(model):
                if not holds:  # what only holds other layers gives what one of them gave
                    self._note(gave, output)
                self._depth -= 1
                if not self._depth and not self._at_once:
                    self._fold(model.net, self._outputs)

        self._handles += [
            layer.register_forward_pre_hook(enter, with_kwargs=True),
            layer.register_forward_hook(leave),
        ]

    def _looks(self, model: Model) -> bool:
        """Whether this is a training step of the fit, and no other use of the net meanwhile."""
        steps = model._now.steps
        return steps is not None and self in steps.options.watchers and pf.is_grad_enabled()

    def _note(self, key: int, value: Any) -> None:
        """Remember what a layer was given or gave."""
        floats = (x for x in data.tensors(value) if x.is_floating_point())
        self._outputs += [(key, x.detach()) for x in floats]

    @pf.no_grad()
    def _fold(self, net: Any, seen: list[tuple[int, pf.Tensor]]) -> None:
        """Keep which of these is the first that is not finite, where none before was: its index
        among them, and its key. The list is empty again, as it was before the step."""
        if not seen:
            return
        count = len(self._keys)
        marks = [
            pf.where(pf.isfinite(x), NONE, index * count + key).reshape(-1)
            for index, (key, x) in enumerate(seen)
        ]
        seen.clear()
        least, code = pf.cat(marks).amin(), net._watch_code
        code.copy_(pf.where(code == NONE, least, code))

    @pf.no_grad()
    def on_gradients(self, model: Model) -> None:
        """Keep which step was the first with a value that is not finite, and which value it was."""
        seen, net = self._outputs, model.net
        if model.scaler is None:
            seen += [(key, p.grad) for key, p in self._parameters if p.grad is not None]
        self._fold(net, seen)
        step, code = net._watch_step, net._watch_code
        first, which = net._watch_first, net._watch_which
        step += 1
        new = (first == 0) & (code != NONE)
        which.copy_(pf.where(new, code, which))
        first.copy_(pf.where(new, step, first))
        code.fill_(NONE)

    async def on_step(self, model: Model, step: int, logs: Logs) -> None:
        """Look at what was found, if the loss is not finite."""
        if not math.isfinite(logs.get("loss", 0.0)):
            await self._look(model)

    async def on_epoch(self, model: Model, epoch: int, logs: Logs) -> None:
        """Look at what was found."""
        await self._look(model)

    async def _look(self, model: Model) -> None:
        if self.found is not None:
            return
        net: Any = model.net
        first, which = await gather_async([net._watch_first, net._watch_which])
        if not first:
            return
        kind, name = self._keys[int(which) % len(self._keys)]
        self.found = NonFiniteValue(int(first), kind, name)
        model.stop_training = True
        of = "" if kind == "inputs" else f"the {kind} of "
        check.warn(
            f"GradientWatch: at step {int(first)} {of}{name} held nan or inf first; {ADVICE[kind]}"
        )

    def on_fit_end(self, model: Model) -> None:
        """Look no more."""
        for handle in self._handles:
            handle.remove()
        for name in BEGIN:
            model.net._buffers.pop(name, None)
        self._handles.clear()
        self._outputs.clear()
        self._depth = 0
