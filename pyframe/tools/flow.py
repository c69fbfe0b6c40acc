"""How tensors flow through a net: which call of a module, or of a function between, takes what.

`trace` runs the net once. Its modules tell by hooks when they begin and end; its ops are seen where
vmap sees them (see ops/api/vmap.py), so that data is followed through views, writes in place, code
without gradients and any control flow.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

import pyframe as pf
from pyframe.capture.compile import CompiledFunction
from pyframe.core import module_of
from pyframe.core.modes import mode
from pyframe.core.node import Node
from pyframe.core.op import MOVEMENT, Op, no_flops
from pyframe.nn.modules.module import Evaluation, Module
from pyframe.ops.api.vmap import VmapLevel
from pyframe.tensor import Tensor
from pyframe.tensor.tree import leaves, map_parts, named, tree_map

MODULE, OP, INPUT, OUTPUT = "module", "op", "input", "output"
_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep
# where functions are made of ops: what calls into these is a net's own forward
_FUNCTIONS = tuple(
    os.path.join(_HERE, folder, "")
    for folder in ("core", "tensor", "ops", "autograd", "graph", "runtime", "tools",
                   os.path.join("nn", "functional"))
)  # fmt: skip


class CallTreeNode:
    """A call of a module or of a function, an input of the net or an output."""

    def __init__(
        self, kind: str, name: str, parent: CallTreeNode | None, module: Any = None
    ) -> None:
        self.kind, self.name, self.parent, self.module = kind, name, parent, module
        self.calls: list[CallTreeNode] = []  # within it, in order; none: it is a box of its own
        self.sources: list[CallTreeNode] = []  # whose results it takes; only boxes have some
        self.shapes: list[tuple[int, ...]] = []  # of its results
        self.inside: CallTreeNode | None = None  # the box that it turned out to be a part of
        self.count, self.last = 1, name  # calls that it stands for, and the name of the last

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name or type(self.module).__name__}>"

    @property
    def type(self) -> str:
        """The class of the module, or the name of the function."""
        return self.name if self.module is None else type(self.module).__name__

    @property
    def parameters(self) -> int:
        """How many numbers the module and all below it learn."""
        return 0 if self.module is None else sum(p.numel() for p in self.module.parameters())

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the modules down to this call."""
        if self.kind == MODULE:
            return tuple(self.name.split(".")) if self.name else ()
        if self.kind == OP and self.parent is not None:
            return (*self.parent.path, self.name)
        return (OUTPUT,) if self.name == OUTPUT == self.kind else (self.kind, self.name)

    def boxes(self) -> Iterator[CallTreeNode]:
        """The calls that nothing lies in, in their order."""
        for call in self.calls:
            if call.calls:
                yield from call.boxes()
            else:
                yield call

    def users(self) -> dict[CallTreeNode, list[CallTreeNode]]:
        """The boxes in it that take the results of a call."""
        found: dict[CallTreeNode, list[CallTreeNode]] = {}
        for box in self.boxes():
            for source in box.sources:
                found.setdefault(source, []).append(box)
        return found

    def take(self, source: CallTreeNode) -> None:
        """Note where something that it reads comes from."""
        while source.inside is not None:
            source = source.inside
        if source is not self and source not in self.sources:
            self.sources.append(source)


class Watch(VmapLevel):
    """Sees every op of a thread and every write, and lets them run as they would: calls
    `tracer.op(op, inputs, out)` and `tracer.write(x, value)`."""

    def __init__(self, tracer: Any) -> None:
        super().__init__(1, "same")
        self.tracer = tracer

    def run(self, op: Any, inputs: tuple[Any, ...], *args: Any) -> Tensor:
        """As vmap's."""
        out = super().run(op, inputs, *args)
        self.tracer.op(op, [x for x in inputs if type(x) is not Node], out)
        return out

    def write(self, x: Tensor, value: Tensor, temporary: bool, records: bool) -> None:
        """As vmap's."""
        self.tracer.write(x, value)
        super().write(x, value, temporary, records)

    def follow(self, call: Any, args: Any, kwargs: Any, out: Any) -> None:
        """There is no example whose history could be followed."""

    def accumulate(self, leaf: Tensor) -> None:
        """A backward pass may run."""


class _Tracer:
    def __init__(self, root: CallTreeNode, names: dict[int, str]) -> None:
        self.names = names
        self.stack = [root]
        # where the values of a memory come from, and of tensors that are a view of it or it again
        self.memory: WeakKeyDictionary[Any, tuple[CallTreeNode, ...]] = WeakKeyDictionary()
        self.views: dict[int, tuple[Tensor, int, tuple[CallTreeNode, ...]]] = {}
        self.function: tuple[Any, CallTreeNode] | None = None  # that runs, by its frame

    # --- where values come from

    def of(self, x: Tensor) -> tuple[CallTreeNode, ...]:
        view = self.views.get(id(x))
        if view is not None and view[1] == x._storage.writes:
            return view[2]
        return self.memory.get(x._storage, ())

    def give(self, x: Tensor, sources: tuple[CallTreeNode, ...]) -> None:
        if x._view_chain or x._storage in self.memory:
            self.views[id(x)] = x, x._storage.writes, sources
        else:
            self.memory[x._storage] = sources

    # --- what happens

    def op(self, op: Any, inputs: Sequence[Tensor], out: Tensor) -> None:
        found = dict.fromkeys(s for x in inputs for s in self.of(x))
        if not found:
            return
        frame = _function()
        moves = op.kind == MOVEMENT or op.flops is no_flops
        if moves and not _module(frame).startswith("pyframe.nn.functional"):
            self.give(out, tuple(found))  # views, slices and copies are no boxes
            return
        if self.function is None or self.function[0] is not frame:
            call = CallTreeNode(OP, _name(frame, op.name), self.stack[-1])
            self.stack[-1].calls.append(call)
            self.function = frame, call
        call = self.function[1]
        for source in found:
            call.take(source)
        call.shapes = [tuple(out.shape)]
        if moves:
            self.give(out, (call,))
        else:
            self.memory[out._storage] = (call,)

    def write(self, x: Tensor, value: Tensor) -> None:
        new, old = self.of(value), self.of(x)
        whole = not x._view_chain
        self.memory[x._storage] = new if whole else tuple(dict.fromkeys((*old, *new)))
        if self.function is not None and new == (self.function[1],):
            self.function[1].shapes = [tuple(x.shape)]

    def begin(self, module: Module, args: Any, kwargs: Any) -> None:
        call = CallTreeNode(MODULE, self.names[id(module)], self.stack[-1], module)
        self.stack[-1].calls.append(call)
        self.stack.append(call)
        for x in leaves((args, kwargs)):
            for source in self.of(x):
                call.take(source)

    def end(self, module: Module, args: Any, kwargs: Any, out: Any) -> Any:
        call = self.stack.pop()
        self.function = None
        call.shapes = [tuple(x.shape) for x in leaves(out)]
        if any(c.kind == MODULE for c in call.calls):
            call.sources.clear()
            _join(call)
            return None
        for c in call.calls:  # its ops are what it does
            c.inside = call
        for c in call.calls:
            for source in c.sources:
                call.take(source)
        call.calls.clear()
        given = {id(x) for x in leaves((args, kwargs))}
        if isinstance(out, Tensor) and id(out) in given:  # passed on: the argument stays what it is
            out = out.detach()
        for x in leaves(out):
            if self.of(x) and self.of(x)[0].inside is call:
                self.memory[x._storage] = (call,)
            self.give(x, (call,))
        return out if isinstance(out, Tensor) else None


def _join(call: CallTreeNode) -> None:
    """Let functions that hand their result to one function alone be one call with it."""
    users = call.users()
    for c in reversed([c for c in call.calls if c.kind == OP]):
        if len(users.get(c, ())) != 1:
            continue
        (user,) = users[c]
        if user.kind == OP and user.parent is call:
            user.name = f"{c.name}, {user.name}"
            user.sources.remove(c)
            c.inside = user
            for s in c.sources:
                user.take(s)
                users[s] = list(dict.fromkeys(user if u is c else u for u in users[s]))
            call.calls.remove(c)


def _function() -> Any:
    """The frame of the function that a forward called and that an op is a part of."""
    frame: Any = sys._getframe(2)
    found = frame
    while frame is not None:
        name = frame.f_code.co_filename
        if not (name.startswith(_FUNCTIONS) or os.path.dirname(name) + os.sep == _HERE
                or name == __file__):  # fmt: skip
            break
        found, frame = frame, frame.f_back
    return found


def _module(frame: Any) -> str:
    """The module of a function by its frame, which may be that of a wrapper around it."""
    fn = frame.f_locals.get("fn")
    return module_of(fn) or str(frame.f_globals.get("__name__"))


def _name(frame: Any, op: str) -> str:
    """The public name of a function by its frame, which may be that of a wrapper around it."""
    code, names = frame.f_code, frame.f_locals
    found = code.co_name
    if isinstance(names.get("self"), Op):
        found = names["self"].name
    elif "<locals>" in code.co_qualname:
        fn = names.get("fn", names.get("op"))
        found = names.get("name") or getattr(fn, "__name__", "")
    if not isinstance(found, str) or "<" in found:
        found = ""
    name = found.strip("_")
    if found.startswith("__") and name[0] in "ir" and hasattr(Tensor, f"__{name[1:]}__"):
        name = name[1:]  # in place, or reflected
    return name or op


# --- the net and its inputs


def net_of(what: str, model: Any) -> Module:
    """The net of a Model or of a compiled function; TypeError for what is none."""
    net = model if isinstance(model, Module | CompiledFunction) else getattr(model, "net", model)
    net = net.fn if isinstance(net, CompiledFunction) else net
    if not isinstance(net, Module):
        raise TypeError(f"{what}: expected a Module or a Model, got {type(model).__name__}")
    return net


def placed(net: Module, x: Tensor) -> Tensor:
    """An input where the parameters of a net are, a float one in their dtype."""
    p = next(net.parameters(), None)
    if p is None:
        return x
    return x.to(p.device, p.dtype) if x.is_floating_point() else x.to(p.device)


def _arguments(net: Module, inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """How forward takes the inputs: the shape of one sample, a tensor, or a tuple or dict."""
    if isinstance(inputs, tuple | list) and inputs and all(isinstance(n, int) for n in inputs):
        inputs = pf.zeros(1, *inputs)
    inputs = map_parts(inputs, lambda x: pf.as_tensor(x) if isinstance(x, np.ndarray) else x)
    inputs = tree_map(inputs, lambda x: placed(net, x))
    signature = inspect.signature(net.forward)
    if isinstance(inputs, dict) and _binds(signature, (), inputs):
        return (), inputs
    if isinstance(inputs, tuple | list) and _binds(signature, tuple(inputs), {}):
        return tuple(inputs), {}
    return (inputs,), {}


def _binds(signature: inspect.Signature, args: Any, kwargs: Any) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _labelled(tree: Any) -> Iterator[tuple[str, Tensor]]:
    return ((name, x) for name, x in named(tree) if isinstance(x, Tensor))


def trace(model: Any, inputs: Any, what: str = "trace") -> CallTreeNode:
    """The call of a net (or of a Model's) on inputs, with all calls that lie in it.

    `inputs` is a tensor or array, a tuple of them, a dict by names, or the shape of one sample.
    The net runs once, in evaluation mode and without gradients, and stays as it is.
    """
    net = net_of(what, model)
    args, kwargs = _arguments(net, inputs)
    names = {id(m): n for n, m in net.named_modules()}
    whole = CallTreeNode(MODULE, "", None, net)
    tracer = _Tracer(whole, names)
    given = inspect.signature(net.forward).bind(*args, **kwargs).arguments
    for name, x in _labelled(dict(given)):
        call = CallTreeNode(INPUT, name, whole)
        call.shapes.append(tuple(x.shape))
        whole.calls.append(call)
        tracer.views[id(x)] = x, x._storage.writes, (call,)
    out = watched(tracer, net, net, *args, **kwargs)
    outer, whole.calls = whole.calls.pop(), whole.calls
    if outer.calls:  # the net's own call is the whole
        for c in outer.calls:
            c.parent = whole
        whole.calls += outer.calls
    else:
        outer.name = outer.name or type(net).__name__
        whole.calls.append(outer)
    for name, x in _labelled(out):
        call = CallTreeNode(OUTPUT, name or OUTPUT, whole)
        call.shapes.append(tuple(x.shape))
        for source in tracer.of(x):
            call.take(source)
        whole.calls.append(call)
    _prune(whole)
    return whole


def _prune(whole: CallTreeNode) -> None:
    """Leave out functions whose results go nowhere: what they gave was looked at."""
    used: set[CallTreeNode] = set()
    for box in reversed(list(whole.boxes())):
        if box.kind == OP and box not in used:
            box.parent.calls.remove(box)  # type: ignore[union-attr]
        else:
            used.update(box.sources)


def watched(tracer: Any, net: Module, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """What `fn` gives, which runs a net, in evaluation mode and without gradients. `tracer` is told
    when modules `begin` and `end`, and of ops and writes as by Watch."""

    def run() -> Any:
        mode.capture, before = Watch(tracer), mode.capture
        try:
            return fn(*args, **kwargs)
        finally:
            mode.capture = before

    with ExitStack() as hooks:
        hooks.enter_context(pf.fork_rng())
        for m in net.modules():
            before = m.register_forward_pre_hook(tracer.begin, with_kwargs=True)
            after = m.register_forward_hook(tracer.end, with_kwargs=True)
            hooks.callback(before.remove)
            hooks.callback(after.remove)
        return Evaluation(net)(run)
