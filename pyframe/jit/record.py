"""How a Graph is recorded: the function runs once, with its ops only recorded.

Sizes of inputs are symbols (core/sizes.py), so that what the code calculates of them becomes a
formula. The outermost calls of public functions are the nodes; a function that `keep` does not want
is looked into instead, down to ops. Values are found by the tensor that the code holds, or, where
`pure`, by what it holds at the time, so that writes in place are values of their own.
"""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.capture.capture import Capture, user_line
from pyframe.core import dtypes as dt, op as _op
from pyframe.core.devices import device as Device
from pyframe.core.dispatch import run_lazy, tensor_from_node
from pyframe.core.locks import lock
from pyframe.core.modes import mode
from pyframe.core.node import Node as Value, Size
from pyframe.core.op import CONST, REGISTRY, Op
from pyframe.core.sizes import (
    ShapeEnv,
    ShapeGuards,
    SymbolicSize,
    size_hint,
    size_hints,
    use_shape_guards,
)
from pyframe.jit.calls import HOOKS, GraphError, functions, hooked
from pyframe.jit.graph import (
    HERE,
    CallNode,
    ConstArg,
    Graph,
    Ref,
    SizeExpr,
    SymbolicTensorMeta,
    dim_of,
    formula_of,
    mapped,
    refs,
    value_of,
)
from pyframe.nn import functional
from pyframe.nn.functional import attention, recurrent
from pyframe.nn.modules.module import Module
from pyframe.ops.api import autocast, public
from pyframe.ops.math.promotion import Elementwise
from pyframe.tensor import Tensor
from pyframe.tensor.tree import leaves

Place = tuple[int, int]  # a tensor among the inputs, and one of its dims


class TracerWarning(Warning):
    """What a trace may not say of other inputs."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Nothing is to be ignored: for PyTorch's code."""


class NeedsValueError(GraphError):
    """The code asks for the value of a tensor where there are only shapes."""


_SIZES = ShapeGuards.pin.__code__.co_filename


class _SerializableShapeGuards(ShapeGuards):
    """Guards whose questions are formulas too."""

    formulas: list[tuple[SymbolicSize, str, bool, str]]

    def __init__(self, sizes: ShapeEnv) -> None:
        super().__init__(sizes)
        self.formulas = []

    def pin(self, x: SymbolicSize) -> Any:
        found = super().pin(x)
        frame: Any = sys._getframe(1)
        while frame.f_code.co_filename == _SIZES:
            frame = frame.f_back
        if f"{frame.f_code.co_filename}:{frame.f_lineno}" == user_line():
            self.pinned[-1] = self.pinned[-1][0], user_line()
        else:
            self.pinned.pop()  # the library's own: it asks again when the graph runs
        return found

    def ask(self, kind: str, x: SymbolicSize) -> bool:
        before = len(self.asked)
        found = super().ask(kind, x)
        if len(self.asked) > before:
            self.formulas.append((x, kind, found, user_line()))
        return found


class GraphTracer(Capture):
    """One run of a function, whose calls it notes as a Graph."""

    def __init__(
        self, device: Any, keep: Callable[..., bool], pure: bool = False, values: bool = False
    ) -> None:
        super().__init__()
        self.graph = Graph()
        self.home = device
        self.keep, self.pure = keep, pure
        self.values = values  # whether a value may be looked at, with a warning
        self.names: dict[str, int] = {}
        self.by_id: dict[int, Ref] = {}
        self.by_value: dict[int, tuple[Ref, Any]] = {}  # by a Value: its name, the tensor
        self.held: list[Any] = []  # whatever ids are of
        self.origin: dict[int, str] = {}  # of a Value: the module that computes it
        self.grad = mode.grad
        self.modules: list[str] = [""]
        self.paths: dict[int, str] = {}  # of modules, by their ids
        self.known: dict[int, str] = {}  # tensors of the module, by their names there
        self.constants_of: dict[str, Any] = {}  # tensors, and scripted modules
        self.size_names: list[str] = []

    # --- names

    def name(self, base: str) -> Ref:
        base = base.rpartition(".")[2].strip("_") or "value"
        base = f"_{base}" if base[0].isdigit() else base
        n = self.names.get(base, 0)
        self.names[base] = n + 1
        return self.name(f"{base}_{n}") if n and f"{base}_{n}" in self.names else (
            Ref(f"{base}_{n}") if n else Ref(base))  # fmt: skip

    def give(self, x: Tensor, ref: Ref) -> None:
        """From now on `x` has this name."""
        value = x._value()
        self.held += [x, value]
        self.by_id[id(x)] = ref
        self.by_value[id(value)] = ref, x

    def spec(self, x: Tensor) -> SymbolicTensorMeta:
        return SymbolicTensorMeta(tuple(dim_of(n, self.size_names) for n in x.shape), x.dtype)

    def ref(self, x: Tensor) -> Ref:
        """The name of a tensor: it is a parameter or a constant, or comes of ops that are nodes
        from now on, if it has none."""
        value = x._value()
        known = None if self.pure else self.by_id.get(id(x))
        if known is not None:
            return known
        ref, other = self.by_value.get(id(value)) or (None, None)
        if ref is None:
            if value.data is not None or id(x) in self.known or value.op is CONST:
                return self.state(x)
            ref = self.op(value)
        if not (self.pure or x.requires_grad) and (other is None or other.requires_grad):
            out = self.name("detach")  # as `x.data` is, or pf.detach
            self.add("Tensor.detach", (ref,), {}, out, {out: self.spec(x)})
            ref = out
        self.give(x, ref)
        return ref

    def state(self, x: Tensor) -> Ref:
        """A parameter, a buffer, or a tensor of another place, which is a constant."""
        name = self.known.get(id(x._value() if self.pure else x))
        if name is None:
            if x.requires_grad and self.grad and not self.pure:
                raise RuntimeError(
                    "Cannot insert a Tensor that requires grad as a constant. Consider making it a "
                    f"parameter or input, or detaching the gradient; its shape is {list(x.shape)}"
                )
            name = f"_constant{len(self.constants_of)}"
            if x._value().op is CONST and x._value().data is None:
                mode.capture, before = None, mode.capture
                try:
                    held = pf.full((), size_hint(x._value().attrs[0]), dtype=x.dtype)
                finally:
                    mode.capture = before
            else:
                held = x
            self.constants_of[name] = held
        ref = self.name(name.replace(".", "_"))
        self.graph.state[name] = ref
        self.graph.specs[ref] = self.spec(x)
        self.give(x, ref)
        return ref

    def op(self, value: Value) -> Ref:
        """A recorded value as a node, after those that it is made of."""
        todo = [value]
        while todo:
            v = todo[-1]
            if id(v) in self.by_value or v.op is CONST:
                todo.pop()
                continue
            if v.data is not None:
                x = tensor_from_node(v)
                self.ref(x)
                continue
            if v.op is not None and v.op.lower_view is not None:
                made = v.op.lower_view(*v.inputs)
                v.op, v.inputs, v.attrs = made.op, made.inputs, made.attrs
            more = [i for i in v.inputs if id(i) not in self.by_value and i.op is not CONST]
            if more:
                todo += more
                continue
            todo.pop()
            if REGISTRY.get(v.op.name) is not v.op:  # type: ignore[union-attr]
                raise GraphError(f"{v.op.name} is no op that a graph can name")  # type: ignore[union-attr]
            args: list[Any] = []
            for i in v.inputs:
                if i.op is CONST and id(i) not in self.by_value:
                    args.append(ConstArg(self.plain(i.attrs[0]), i.dtype))
                    continue
                ref, x = self.by_value[id(i)]
                if not self.pure and x._value() is not i:
                    raise GraphError(
                        f"{v.op.name} reads what was written over: a graph can't say that"  # type: ignore[union-attr]
                    )
                args.append(ref)
            out = self.name(v.op.name.replace(":", "_").replace(".", "_"))  # type: ignore[union-attr]
            x = tensor_from_node(v)
            self.add(
                f"op.{v.op.name}", (*args, *map(self.plain, v.attrs)), {}, out,  # type: ignore[union-attr]
                {out: self.spec(x)}, self.origin.get(id(v)),
            )  # fmt: skip
            self.held += [x, v]
            self.by_value[id(v)] = out, x
        return self.by_value[id(value)][0]

    def add(
        self, name: str, args: Any, kwargs: Any, out: Any, specs: Any, module: str | None = None
    ) -> None:
        grad = mode.grad or not self.grad
        module = self.modules[-1] if module is None else module
        self.graph.nodes.append(CallNode(name, args, kwargs, out, specs, module, grad))

    def plain(self, x: Any) -> Any:
        """An argument as data."""
        return mapped(x, self._leaf)

    def _leaf(self, x: Any) -> Any:
        if type(x) is SymbolicSize:
            return SizeExpr(formula_of(x, self.size_names))
        if isinstance(x, Tensor):
            return self.ref(x)
        if isinstance(x, Device):
            return HERE if x == self.home else x
        return x.item() if isinstance(x, np.generic) else x

    # --- calls

    def call(
        self, run: Any, args: tuple[Any, ...], kwargs: dict[str, Any], inner: Any = None
    ) -> Any:
        """A public function is called, or what is hooked: a node, or what it is made of, which is
        `inner` if it is not wrapped."""
        rules = getattr(run, "autocast", None)
        if mode.autocast is not None and rules is not None:
            cast = autocast.casted(rules, args, kwargs)
            if cast is not None:
                casting, mode.autocast = mode.autocast, None
                try:
                    return self.call(run, cast[0], cast[1], inner)
                finally:
                    mode.autocast = casting
        name = names_of().get(run) if mode.capture is self else None  # else within a vmap
        if name is None or not self.keep(name, args, kwargs):
            return (inner or run.__wrapped__)(*args, **kwargs)
        given, named = self.plain(args), self.plain(kwargs)
        if "device" in named and isinstance(named["device"], str):
            named["device"] = self._leaf(Device(named["device"]))
        mode.tracer = None
        try:
            out = self._called(name, run, args, kwargs)
        finally:
            mode.tracer = self
        if out is NotImplemented:
            return out
        if (
            isinstance(out, Tensor)
            and name.startswith("Tensor.to")
            and (not self.pure and self.by_id.get(id(out)) is not None)
        ):
            return out  # it is what it was
        if not (leaves(out) or _is_mutating(name)):
            return out  # what it says is a number that the code goes on with
        self.results(name, given, named, out)
        return out

    def results(self, name: str, args: Any, kwargs: Any, out: Any) -> None:
        """Note a call, whose results have names from now on."""
        specs: dict[Ref, SymbolicTensorMeta] = {}

        def result(x: Any) -> Any:
            if not isinstance(x, Tensor):
                return None
            ref = self.name(name)
            specs[ref] = self.spec(x)
            self.give(x, ref)
            return ref

        self.add(name, args, kwargs, _bare(mapped(out, result)), specs)

    def script(self, module: Module, run: Callable[[], Any], args: Any, kwargs: Any) -> Any:
        """A scripted module with branches is called: a node, in which they stay."""
        if not self.values:
            return run()  # whose branches may be on what is no value of a tensor
        path = self.paths.get(id(module))
        if path is None:
            path = f"_script{len(self.constants_of)}"
            self.constants_of[path], self.paths[id(module)] = module, path
        ref = self.graph.state.setdefault(path, Ref(f"self.{path}"))
        given, named = self.plain(args), self.plain(kwargs)
        before = [(m, m.__dict__.copy(), m._buffers.copy()) for m in module.modules()]
        mode.tracer = None
        try:
            out = run()
        finally:
            mode.tracer = self
            for m, fields, buffers in before:
                m.__dict__.update(fields)
                m._buffers.update(buffers)
        self.results("code.module_", (ref, *given), named, out)
        return out

    def _called(self, name: str, run: Any, args: Any, kwargs: Any) -> Any:
        if name.rpartition(".")[2] in recurrent.__all__ and len(args) == 9:
            x, dim = args[0], 1 if args[8] else 0
            length = x.shape[dim]
            if type(length) is SymbolicSize:  # its steps are as many: one shows all but that
                out, *states = run(x.narrow(dim, 0, 1), *args[1:], **kwargs)
                size = [length if d == dim else -1 for d in range(3)]
                return (out.expand(size) + 0, *states)
        return run(*args, **kwargs)

    # --- what an Interceptor is told

    def run(
        self, op: Op, inputs: tuple[Any, ...], attrs: tuple[Any, ...], nodes: tuple[Value, ...],
        shape: tuple[int, ...], dtype: dt.dtype, device: Device,
    ) -> Tensor:  # fmt: skip
        out = run_lazy(op, inputs, attrs, nodes, shape, dtype, device)
        self.held.append(out._node)
        self.origin[id(out._node)] = self.modules[-1]
        return out

    def write(self, x: Tensor, value: Tensor, temporary: bool, records: bool) -> None:
        told = mode.tracer is self and not self.pure and id(x) in self.by_id
        source = self.ref(value) if told else None
        super().write(x, value, temporary, records)
        if source is not None:
            ref = self.name("copy")
            self.add("Tensor.copy_", (self.by_id[id(x)], source), {}, ref, {ref: self.spec(x)})
            self.give(x, ref)

    def follow(self, call: Callable[..., Any], args: Any, kwargs: dict[str, Any], out: Any) -> None:
        """What a Function of the user's has computed has the gradients of its ops in a graph."""
        for node in reversed(self.graph.nodes):
            if node.grad:
                break
            node.grad = True

    def accumulate(self, leaf: Tensor) -> None:
        """GraphError: nothing in a graph adds to `.grad`."""
        raise GraphError(f"{user_line()} calls backward(), which a graph can't say")

    def check(self, *args: Any, **kwargs: Any) -> None:
        """The functions check again when the graph runs."""

    def on_host_random(self) -> None:
        """They draw again, too."""

    def read(self, x: Tensor, op: str = "") -> None:
        """The value of `x` is needed now."""
        line = user_line()
        if id(x._storage) in self.constants and id(x._storage) not in self.written:
            return
        if not self.values:
            raise NeedsValueError(
                f"{line} asks for the value of a tensor{f' for {op}' if op else ''}: what the code "
                "does then depends on data, and a graph would not say it"
            )
        if mode.tracer is not None:  # else a public function asks, which asks again in each run
            warn(
            line, "converting a tensor to a Python value might cause the trace to be incorrect. "
            "We can't record the data flow of Python values, so this value will be treated as a "
            "constant in the future. This means that the trace might not generalize to other "
            "inputs!",
        )  # fmt: skip
        self.compute(x)

    def compute(self, x: Tensor) -> None:
        """Give the node of `x` its value, without an end of the recording."""
        value = x._value()
        tracer, mode.tracer, mode.capture = mode.tracer, None, None
        try:
            again = _computed(value)
        finally:
            mode.tracer, mode.capture = tracer, self
        value.data = again._value().data
        if x._storage.node is not value and not x._view_chain:
            x._storage.node = value

    def graph_break(self, why: str) -> None:
        raise NeedsValueError(f"{user_line()} {why}, which a graph can't say")

    def undo(self) -> None:
        """Let everything be as before; what has symbolic sizes was made for the recording."""
        outside = {id(s) for s, _ in self.written.values()}
        found = [(ref, ref()) for ref in self.handles]
        self.handles = [r for r, x in found if x is not None and id(x._storage) in outside]
        super().undo()

    # --- modules

    def begin(self, module: Module, args: Any) -> None:
        self.modules.append(self.paths.get(id(module), self.modules[-1]))

    def end(self, module: Module, args: Any, out: Any) -> None:
        self.modules.pop()


def _computed(value: Value) -> Tensor:
    """What a recorded value is, computed anew in other nodes."""
    done: dict[int, Tensor] = {}
    todo = [value]
    while todo:
        v = todo[-1]
        if id(v) in done:
            todo.pop()
        elif v.data is not None:
            done[id(v)] = tensor_from_node(Value(None, (), (), v.shape, v.dtype, v.device, v.data))
        elif more := [i for i in v.inputs if id(i) not in done and i.op is not CONST]:
            todo += more
        else:
            args = [
                _op.const(size_hint(i.attrs[0]), i.dtype, i.device)
                if i.op is CONST
                else done[id(i)]
                for i in v.inputs
            ]
            with pf.no_grad():
                if v.op is CONST:
                    done[id(v)] = pf.full((), size_hint(v.attrs[0]), dtype=v.dtype, device=v.device)
                else:
                    done[id(v)] = _op.Op.run(v.op, tuple(args), size_hints(v.attrs))
    return done[id(value)]


def _is_mutating(name: str) -> bool:
    """Whether a call without a result has a side effect, as in-place ops have."""
    return name.endswith("_") or name == "Tensor.__setitem__"


def _bare(tree: Any) -> Any:
    """A tree of results without the types of tuples with names."""
    if isinstance(tree, tuple):
        return tuple(map(_bare, tree))
    return [_bare(t) for t in tree] if isinstance(tree, list) else tree


def warn(line: str, text: str) -> None:
    """A TracerWarning at a line of the user's."""
    file, _, number = line.rpartition(":")
    text = f"{line}: {text[0].upper()}{text[1:]}"
    where = (file, int(number)) if number.isdigit() else ("pyframe", 1)
    warnings.warn_explicit(text, TracerWarning, *where)


_NAMES: dict[Any, str] = {}


def names_of() -> dict[Any, str]:
    """The names of functions, by what is wrapped in them."""
    if not _NAMES:
        for name, fn in functions().items():
            inner = getattr(fn, "__wrapped__", fn)  # behind `out=`
            if _is_public(fn) or not _is_public(inner):
                inner = fn if _is_public(fn) or name.startswith("Tensor.") else inner
            _NAMES.setdefault(inner, name)
    return _NAMES


def _is_public(fn: Any) -> bool:
    return getattr(fn, "__code__", None) is _CODE


_CODE = public.as_public("code", lambda: None).__code__


# --- hooks on what is not called through `as_public`

lock_of_hooks = lock()
_before: dict[str, Any] = {}


def _hook(name: str, fn: Any) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        tracer = mode.tracer
        return fn(*args, **kwargs) if tracer is None else tracer.call(run, args, kwargs)

    run.__name__ = getattr(fn, "__name__", name)
    run.__wrapped__ = fn  # type: ignore[attr-defined]
    names_of()[run] = f"Tensor.{name}"
    HOOKS[fn] = run
    return run


below = [Elementwise.__call__]  # what stands under a recording: overrides.py may set another one
_INNER = ("linear", "scaled_dot_product_attention")  # what attention of many heads is made of


def _elementwise(self: Elementwise, *args: Any, **kwargs: Any) -> Any:
    if mode.tracer is None:
        return below[0](self, *args, **kwargs)
    return mode.tracer.call(self, args, kwargs, functools.partial(below[0], self))


@contextmanager
def _tracing(recording: GraphTracer) -> Iterator[None]:
    """Within it the thread's calls of public functions go to the recording."""
    with lock_of_hooks:
        if not public.TRACERS:
            for name, fn in functions().items():
                name = name.removeprefix("Tensor.")
                old = vars(Tensor).get(name)
                if name in _before or old is None:
                    continue
                if _is_public(old) or isinstance(old, Elementwise):
                    continue
                if fn is old or name in hooked():
                    _before[name] = old
                    hook = _hook(name, fn)
                    if isinstance(old, property):
                        hook = property(hook, old.fset)
                    setattr(Tensor, name, hook)
            Elementwise.__call__ = _elementwise  # type: ignore[method-assign]
            for name in _INNER:
                _before[name] = vars(attention)[name]
                setattr(attention, name, getattr(functional, name))
        public.TRACERS.append(recording)
    outer, mode.tracer = mode.tracer, recording
    try:
        yield
    finally:
        mode.tracer = outer
        with lock_of_hooks:
            public.TRACERS.remove(recording)
            if not public.TRACERS:
                for name, old in _before.items():
                    setattr(attention if name in _INNER else Tensor, name, old)
                _before.clear()
                Elementwise.__call__ = below[0]  # type: ignore[method-assign]


# --- the whole


def record(
    fn: Callable[..., Any], args: Any, kwargs: Any = None, *, module: Module | None = None,
    dims: dict[Place, Any] | None = None, hints: dict[str, int] | None = None,
    ranges: dict[str, tuple[int, int | None]] | None = None,
    keep: Callable[..., bool] = lambda *args: True, pure: bool = False, values: bool = False,
) -> tuple[Graph, dict[str, Any], _SerializableShapeGuards]:  # fmt: skip
    """The graph of `fn(*args, **kwargs)`, its constants, and what was asked of sizes. `module` has
    the parameters; `dims` names the sizes that may be others, or has a formula of such; `hints` is
    what they are taken for."""
    kwargs = kwargs or {}
    if module is not None and any(hasattr(p, "cls_to_become") for p in module.parameters()):
        with pf.no_grad():
            module(*args, **kwargs)  # lazy parameters get their shapes
    given = leaves((args, kwargs))
    tensors = [*given, *(module.parameters() if module is not None else ())]
    home = tensors[0].device if tensors else pf.get_default_device()
    rec = GraphTracer(home, keep, pure, values)
    dims = dims or {}
    now = {name: given[i].shape[d] for (i, d), name in dims.items() if isinstance(name, str)}
    names, now = list(now), now | (hints or {})
    sizes = ShapeEnv([now[name] for name in names], names)
    sizes.guards = guards = _SerializableShapeGuards(sizes)
    for k, name in enumerate(names):
        low, high = (ranges or {}).get(name, (2, None))
        guards.bounds[k] = max(low, 2), high
    rec.size_names, rec.sizes = names, None
    symbols = dict(zip(names, sizes.symbols(), strict=True))
    count = iter(range(len(given)))
    labels = labels_of(fn, args, kwargs)

    def fresh(x: Tensor) -> Tensor:
        i = next(count)
        shape: list[Any] = [
            value_of(dims[i, d], symbols) if (i, d) in dims else n for d, n in enumerate(x.shape)
        ]
        value = x.detach().contiguous()._value()
        data = value.data
        out = tensor_from_node(Value(None, (), (), Size(shape), x.dtype, x.device, data))
        if x.requires_grad and mode.grad:
            out._needs_grad = True
        return out

    inputs = mapped((tuple(args), dict(kwargs)), lambda x: fresh(x) if isinstance(x, Tensor) else x)
    if module is not None:
        state = [*module.named_parameters(), *module.named_buffers()]
        rec.known = {id(x._value() if pure else x): name for name, x in reversed(state)}
        rec.paths = {id(m): n for n, m in module.named_modules()}
    outer = mode.capture, mode.tracer
    with ExitStack() as stack:
        stack.enter_context(rec)
        for m in module.modules() if module is not None else ():
            stack.callback(m.register_forward_pre_hook(rec.begin).remove)
            stack.callback(m.register_forward_hook(rec.end, always_call=True).remove)
        if names:
            stack.enter_context(use_shape_guards(guards))
        stack.enter_context(pf.fork_rng())
        stack.enter_context(_tracing(rec))
        mode.capture = rec
        try:
            at = iter(range(len(given)))

            def named(x: Any) -> Any:
                if not isinstance(x, Tensor):
                    return x
                i = next(at)
                ref = rec.name(labels[i])
                rec.give(x, ref)
                rec.graph.specs[ref] = rec.spec(x)
                for (k, d), name in dims.items():
                    if k == i and isinstance(name, str):
                        rec.graph.sizes.setdefault(name, (ref, d))
                return ref

            rec.graph.inputs = mapped(inputs, named)
            rec.graph.names = parameters_of(fn)
            out = fn(*inputs[0], **inputs[1])
            mode.tracer = None
            rec.graph.outputs = mapped(out, rec._leaf)
            rec.graph.guards = [
                (formula_of(x, names), kind, answer)
                for x, kind, answer, _ in guards.formulas
                if abs(x.terms.get((), 0)) < 1 << 31  # whether there is room for it
            ]
            rec.graph.ranges = dict(ranges or {})
        finally:
            mode.capture, mode.tracer = outer[0], None
            rec.undo()
            mode.tracer = outer[1]
    if pure:
        _eliminate_dead_nodes(rec.graph)
    return rec.graph, rec.constants_of, guards


def parameters_of(fn: Any) -> list[str]:
    """The names of a function's positional parameters, where they can be told."""
    graph = getattr(fn, "_graphs", {}).get("forward")
    if graph is not None:
        return list(graph.names)
    try:
        found = inspect.signature(fn.forward if isinstance(fn, Module) else fn).parameters
    except (TypeError, ValueError):
        return []
    return [n for n, p in found.items() if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]


def labels_of(fn: Any, args: Any, kwargs: Any) -> list[str]:
    """Names for the tensors among the arguments."""
    names = parameters_of(fn)
    names += [f"input_{i}" for i in range(len(names), len(args))]
    pairs = [*zip(names, args, strict=False), *kwargs.items()]
    return [name for name, value in pairs for _ in leaves(value)]


def _eliminate_dead_nodes(graph: Graph) -> None:
    """Leave out what nobody asks for, in a graph of values."""
    used = set(refs(graph.outputs))
    nodes = []
    for node in reversed(graph.nodes):
        if used & set(refs(node.out)):
            used.update(refs((node.args, node.kwargs)))
            nodes.append(node)
    graph.nodes = nodes[::-1]
    held = used | set(refs(graph.inputs))
    graph.state = {name: ref for name, ref in graph.state.items() if ref in held}
    graph.specs = {ref: s for ref, s in graph.specs.items() if ref in held}
