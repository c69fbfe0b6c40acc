"""Programs that are exported for pages without WebGPU, and played by their WebAssembly."""

from __future__ import annotations

import inspect
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.web import ExportError

from .program import Outcome, Program, outcome

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
try:
    from played import Played
finally:
    del sys.path[0]


class Given(Program):
    """A program whose arguments are what a page gives: no views, and without gradients."""

    def arguments(self) -> str:
        bare = tuple(replace(a, view="", grad=False) for a in self.args)
        return Program(bare, ()).arguments()


def suited(program: Program) -> Program:
    """A program all of which is done in its step, on the device of its arguments."""
    at = f"device={program.args[0].name}.device" if program.args else ""
    body = tuple(line.replace("device=device", at) for line in program.body)
    mode = program.mode
    if mode == "outside" or (mode == "backward" and program.setup):  # where gradients add up
        mode = "inside"
    return replace(program, body=body, mode=mode)


def run(program: Program) -> Outcome:
    """What an exported program gives: its arguments become views, and leaves, within it."""
    views = [f"({a.name}{a.view}).detach()" + ".requires_grad_()" * a.grad for a in program.args]
    ready = eval(f"lambda {', '.join(a.name for a in program.args)}: [{', '.join(views)}]")
    made = Given(**{f.name: getattr(program, f.name) for f in fields(program)})
    return outcome(pf, made, "cpu", lambda step: Exported(lambda *xs: step(*ready(*xs)), step))


class Exported:
    """In the place of a compiled function: its first call exports it, and each one is played.

    It takes and gives tensors in lists, tuples and dicts; state is what `step` finds outside."""

    def __init__(self, function: Callable[..., Any], step: Any = None) -> None:
        self.function, self.step = function, step or function
        self.played: Played | None = None

    def __call__(self, *args: Any) -> Any:
        given = list({id(t): t for t in leaves(args)}.values())
        if self.played is None:
            self.played = self.export(args, given)
        found = self.played.run("step", *map(_numpy, given))
        about = self.played.document["programs"]["step"]["outputs"]
        return nested({o["name"]: _tensor(x, o) for o, x in zip(about, found, strict=True)})

    def export(self, args: Any, given: list[Any]) -> Played:
        """Export it; ExportError where it can't be, or has no form in WebAssembly."""
        places = {id(t): k for k, t in enumerate(given)}

        def step(*xs: Any) -> dict[str, Any]:
            own = [_again(x, t) for x, t in zip(xs, given, strict=True)]
            found = self.function(*mapped(args, lambda t: own[places[id(t)]]))
            return dict(named(mapped(found, lambda t: t.detach())))

        folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        try:
            done = pf.web.export(
                {"step": step}, {"step": tuple(map(_memory, given))}, to=folder, element=False,
                state=_state(self.step), limits=pf.web.Limits(float16=True),
            )  # fmt: skip
            if done.left_out:
                raise ExportError(done.left_out[0])
            return Played(folder, "wasm")
        finally:
            shutil.rmtree(folder)


def leaves(tree: Any) -> Iterator[Any]:
    """The tensors in it."""
    if isinstance(tree, pf.Tensor):
        yield tree
    elif isinstance(tree, list | tuple | dict):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from leaves(part)


def mapped(tree: Any, fn: Callable[[Any], Any]) -> Any:
    """The same of other tensors."""
    if isinstance(tree, pf.Tensor):
        return fn(tree)
    if isinstance(tree, dict):
        return {k: mapped(v, fn) for k, v in tree.items()}
    if isinstance(tree, list | tuple):
        parts = [mapped(v, fn) for v in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return tree


def named(tree: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """What is in it but None, each part with its places: "0/3.1/2." is the first of three, and the
    second of two of that."""
    if isinstance(tree, list | tuple):
        for k, part in enumerate(tree):
            yield from named(part, f"{at}{k}/{len(tree)}.")
    elif tree is not None:
        yield at, tree


def nested(parts: dict[str, Any]) -> Any:
    """The opposite of `named`: None where nothing is named."""
    if not parts or "" in parts:
        return parts.get("")
    count = int(next(iter(parts)).partition(".")[0].partition("/")[2])
    own: list[dict[str, Any]] = [{} for _ in range(count)]
    for at, x in parts.items():
        place, _, rest = at.partition(".")
        own[int(place.partition("/")[0])][rest] = x
    return [nested(some) for some in own]


def _memory(t: Any) -> Any:
    """All that a tensor is a view of, from its first element to its last."""
    t = t.detach()
    if t.is_contiguous() or not t.numel():
        return t
    span = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    return t.as_strided((span,), (1,), t.storage_offset())


def _again(x: Any, t: Any) -> Any:
    """A tensor like t on other memory, a leaf like it."""
    x = x.detach() if x.shape == t.shape else x.as_strided(tuple(t.shape), t.stride(), 0)
    return x.requires_grad_() if t.requires_grad else x


def _numpy(t: Any) -> np.ndarray:
    x = _memory(t)
    found: np.ndarray = (x.float() if x.dtype in (pf.bfloat16, pf.float16) else x).numpy()
    return found


def _tensor(x: np.ndarray, about: dict[str, Any]) -> Any:
    return pf.from_numpy(np.array(x)).to(getattr(pf, about["dtype"]))


def _state(step: Any) -> list[Any]:
    """The modules, the optimizers and, in a module of their own, the tensors that it finds."""
    found = [*inspect.getclosurevars(step).nonlocals.values()]
    held = pf.nn.Module()
    for k, x in enumerate(v for v in found if isinstance(v, pf.Tensor)):
        held.register_buffer(f"b{k}", x)
    state = [v for v in found if isinstance(v, pf.nn.Module | pf.optim.Optimizer)]
    return [*state, held] if held._buffers else state
