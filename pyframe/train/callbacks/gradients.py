"""GradientWatch: which layer had the first nan or inf."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import pyframe as pf
from pyframe import nn
from pyframe.tensor import gather_async
from pyframe.train.callbacks.base import Callback, Logs

if TYPE_CHECKING:
    from pyframe.train.model import Model

ADVICE = {
    "inputs": "clean or scale the data; no learning rate mends it",
    "output": "a lower learning rate, clip_norm=1.0 in fit, a norm layer before it or a smaller "
    "eps that divides often helps",
    "gradient": "the outputs of all layers were finite, so it arose in the backward pass of the "
    "loss or of what follows this layer: look for sqrt, log, division and norms at 0, and try "
    "clip_norm=1.0 in fit",
}


class Found(NamedTuple):
    """Where the first value that is not finite was: `kind` is "inputs", "output" or "gradient"."""

    step: int
    kind: str
    name: str


class GradientWatch(Callback):
    """Stops a fit whose values are nan or inf, and warns with the name of the first layer.

    Each step is looked at, in the order in which it computes: what the net is given, the outputs of
    its layers, and the gradients of its parameters from the last layer to the first (but with a
    scaler, which leaves out steps whose gradients overflow). What is found is kept on the device
    and read when the loss is not finite, and after each epoch; then `found` is (step, kind, name),
    where `step` counts those of the optimizer. A compiled step has two reductions more.
    """

    def __init__(self) -> None:
        self.found: Found | None = None
        self._numbers: dict[tuple[str, str], int] = {}  # in the order of the computation
        self._outputs: list[tuple[int, pf.Tensor]] = []  # of the forward pass that runs
        self._depth = 0  # modules that it is in
        self._handles: list[Any] = []

    def on_fit_begin(self, model: Model) -> None:
        """Look at all layers from now on."""
        self.on_fit_end(model)  # one that failed when it began had no end
        self.found = None
        device = model.device
        self._step = pf.zeros((), device=device)  # counted on the device: the step is captured
        self._least = pf.full((), math.inf, device=device)  # number of the first in this step
        self._first = pf.zeros((), device=device)  # step that had the first one; 0: none so far
        self._which = pf.zeros((), device=device)  # its number
        for name, layer in model.net.named_modules():
            self._watch(name, layer)

    def _watch(self, name: str, layer: nn.Module) -> None:
        text = f"{name or 'net'} ({type(layer).__name__})"
        holds = next(layer.children(), None) is not None and not list(layer.parameters(False))

        def enter(layer: nn.Module, args: Any, kwargs: Any) -> None:
            if pf.is_grad_enabled():
                if not self._depth:
                    self._note(("inputs", f"what {text} was given"), [args, kwargs])
                self._depth += 1

        def leave(layer: nn.Module, args: Any, output: Any) -> None:
            if pf.is_grad_enabled():
                if not holds:  # what only holds other layers gives what one of them gave
                    self._note(("output", text), output)
                self._depth -= 1
                if not self._depth:
                    self._fold(self._outputs)

        self._handles += [
            layer.register_forward_pre_hook(enter, with_kwargs=True),
            layer.register_forward_hook(leave),
        ]

    def _note(self, key: tuple[str, str], value: Any) -> None:
        """Remember what a layer gave."""
        if isinstance(value, pf.Tensor):
            if value.is_floating_point():
                self._outputs.append((self._number(key), value.detach()))
        elif isinstance(value, tuple | list):
            for v in value:
                self._note(key, v)
        elif isinstance(value, dict):
            self._note(key, list(value.values()))

    def _number(self, key: tuple[str, str]) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    @pf.no_grad()
    def _fold(self, seen: list[tuple[int, pf.Tensor]]) -> None:
        """Keep the least number of what is not finite; the list is then as before the step."""
        if seen:
            marks = [pf.where(pf.isfinite(x), math.inf, float(n)).reshape(-1) for n, x in seen]
            self._least.copy_(pf.minimum(self._least, pf.cat(marks).amin()))
            seen.clear()

    @pf.no_grad()
    def on_gradients(self, model: Model) -> None:
        """Keep which step and number were first."""
        if getattr(model, "scaler", None) is None:
            named = reversed(list(model.net.named_parameters()))
            self._fold([
                (self._number(("gradient", name)), p.grad) for name, p in named
                if p.grad is not None
            ])  # fmt: skip
        self._step += 1
        new = (self._first == 0) & (self._least < math.inf)
        self._which.copy_(pf.where(new, self._least, self._which))
        self._first.copy_(pf.where(new, self._step, self._first))
        self._least.fill_(math.inf)

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
        first, which = await gather_async([self._first, self._which])
        if not first:
            return
        kind, name = list(self._numbers)[int(which)]
        self.found = Found(int(first), kind, name)
        model.stop_training = True
        of = "" if kind == "inputs" else f"the {kind} of "
        warnings.warn(
            f"GradientWatch: at step {int(first)} {of}{name} held nan or inf first; {ADVICE[kind]}",
            RuntimeWarning,
            stacklevel=2,
        )

    def on_fit_end(self, model: Model) -> None:
        """Look no more."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._outputs.clear()
        self._numbers.clear()
        self._depth = 0
