"""Graph: what a function did with tensors, as data: calls of public functions, in their order.

One form serves `pf.jit`, `pf.export` and the ONNX exporter. A node names a function of the public
API ("nn.functional.conv2d", "Tensor.view") or an op of the registry ("op.add"), and its arguments:
Refs to values, Dims (sizes as formulas of the inputs' sizes) and plain values. A run of it calls
these functions: it is differentiable, draws random numbers and writes in place as the code did,
on any device, and under `pf.compile`. `branches` and `loops` have blocks of nodes.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyframe as pf
from pyframe.core import dtypes as dt
from pyframe.core.devices import device as Device
from pyframe.core.modes import mode, no_grad
from pyframe.core.node import Size
from pyframe.core.op import const
from pyframe.core.sizes import SymbolicSize
from pyframe.core.symbolic import NoWordError, formula
from pyframe.jit.calls import HOOKS, GraphError, check_call, check_values, function, may_call
from pyframe.tensor import Tensor
from pyframe.tensor.memory_format import memory_format

VERSION = 1


class Ref(str):
    """The name of a value in a graph."""

    __slots__ = ()


class ConstArg(NamedTuple):
    """A number that is an operand of an op, in the dtype in which that computes."""

    value: Any
    dtype: dt.dtype


class GraphDevice:
    """Stands for the device that a graph runs on."""

    def __repr__(self) -> str:
        return "device"


HERE = GraphDevice()


# --- sizes as formulas


class SizeExpr:
    """A size as a formula: an int, the name of an input's size, or a word and its operands."""

    __slots__ = ("formula",)

    def __init__(self, formula: Any) -> None:
        self.formula = formula

    def __repr__(self) -> str:
        return _text(self.formula)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizeExpr) and other.formula == self.formula

    def __hash__(self) -> int:
        return hash(self.formula)

    def at(self, sizes: dict[str, Any]) -> Any:
        """Its value, where the inputs' sizes are these."""
        return value_of(self.formula, sizes)


WORDS: dict[str, Callable[..., Any]] = {
    "+": operator.add, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "/": operator.truediv, "-": operator.sub, "max": max, "int": math.trunc, "round": round,
    "floor": math.floor, "ceil": math.ceil, "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_,
}  # fmt: skip
_WORD_OF = {fn: word for word, fn in WORDS.items()}


def value_of(formula: Any, sizes: dict[str, Any]) -> Any:
    """A formula's value, where the inputs' sizes are these."""
    if isinstance(formula, SizeExpr):
        formula = formula.formula
    if isinstance(formula, str):
        return sizes[formula]
    if not isinstance(formula, tuple):
        return formula
    word, *args = formula
    found = [value_of(a, sizes) for a in args]
    if word == "<<" and not -1 < found[1] < 64:
        raise GraphError(f"a size is shifted by {found[1]}: expected 0 to 63")
    try:
        return WORDS[word](*found)
    except ArithmeticError as error:
        raise GraphError(f"the size {_text(formula)} is not to be had: {error}") from None


def _text(formula: Any) -> str:
    if not isinstance(formula, tuple):
        return str(formula)
    word, *args = formula
    if word.isalpha():
        return f"{word}({', '.join(map(_text, args))})"
    return "(" + f" {word} ".join(map(_text, args)) + ")"


def formula_of(x: Any, names: list[str]) -> Any:
    """A size of a capture as a formula of sizes with these names."""
    try:
        return formula(x, names.__getitem__, _WORD_OF)
    except NoWordError as error:
        raise GraphError(f"a size is calculated by {error.name}, which has no word") from None


def dim_of(x: Any, names: list[str]) -> Any:
    """A size as a Dim; a number is its own."""
    return SizeExpr(formula_of(x, names)) if type(x) is SymbolicSize else x


# --- trees of arguments


def mapped(x: Any, leaf: Callable[[Any], Any]) -> Any:
    """`x` with all that is no list, tuple, dict or slice replaced by what `leaf` gives."""
    if isinstance(x, tuple) and not isinstance(x, ConstArg):
        items = [mapped(v, leaf) for v in x]
        if hasattr(x, "_fields"):
            return type(x)(*items)
        return tuple(items) if type(x) in (tuple, Size) else _again(type(x), items)
    if type(x) is list:
        return [mapped(v, leaf) for v in x]
    if isinstance(x, dict):
        return {k: mapped(v, leaf) for k, v in x.items()}
    if isinstance(x, slice):
        return slice(*[mapped(v, leaf) for v in (x.start, x.stop, x.step)])
    return leaf(x)


def _again(kind: Any, items: list[Any]) -> Any:
    try:
        return kind(items)
    except TypeError:
        return tuple(items)


def refs(x: Any) -> list[Ref]:
    """The Refs in a tree."""
    found: list[Ref] = []
    mapped(x, lambda v: found.append(v) if isinstance(v, Ref) else None)
    return found


# --- graphs


class SymbolicTensorMeta(NamedTuple):
    """What is known of a value: sizes may be Dims."""

    shape: tuple[Any, ...]
    dtype: dt.dtype


class CallNode:
    """A call: `function(*args, **kwargs)`, whose tensors get the names in the tree `out`."""

    __slots__ = ("args", "blocks", "function", "grad", "kwargs", "module", "out", "specs")

    def __init__(
        self, function: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any,
        specs: dict[Ref, SymbolicTensorMeta] | None = None, module: str = "", grad: bool = True,
        blocks: tuple[SubBlock, ...] = (),
    ) -> None:  # fmt: skip
        self.function, self.args, self.kwargs, self.out = function, args, kwargs, out
        self.specs = specs or {}
        self.module = module  # the path of the module whose forward calls
        self.grad = grad  # False: called where no gradients are recorded
        self.blocks = blocks


class SubBlock(NamedTuple):
    """Nodes that run in a branch or a loop, and what they give."""

    nodes: list[CallNode]
    outputs: Any


class Graph:
    """Nodes in order; `inputs` and `outputs` are trees of Refs. `state` are the Refs that are
    parameters, buffers and constants, by their names there. `sizes` says which size of which input
    a name in a Dim is; `guards` what has to hold of them: (formula, whether it is more than 0, or
    is 0, the answer)."""

    def __init__(self) -> None:
        self.inputs: Any = ((), {})
        self.outputs: Any = None
        self.names: list[str] = []  # of positional parameters
        self.defaults: dict[str, Any] = {}  # of those that a call need not give
        self.rest = ""  # the last parameter, if it is `*rest`
        self.nodes: list[CallNode] = []
        self.state: dict[str, Ref] = {}
        self.specs: dict[Ref, SymbolicTensorMeta] = {}  # of inputs and state
        self.sizes: dict[str, tuple[Ref, int]] = {}
        self.guards: list[tuple[Any, str, bool]] = []
        self.ranges: dict[str, tuple[int, int | None]] = {}
        self.counts = False  # what it makes, before it makes it: it is a file's

    def run(self, args: Any, kwargs: Any, state: Callable[[str], Any]) -> Any:
        """What the function gives for other arguments; `state(name)` gives parameters."""
        values: dict[Any, Any] = {}
        bind(self.inputs, self.placed(args, kwargs), values)
        values |= {ref: state(name) for name, ref in self.state.items()}
        tensors = (v for v in values.values() if isinstance(v, Tensor))
        device = next((v.device for v in tensors), None)
        run = _GraphInterpreter(values, device)
        for name, (ref, d) in self.sizes.items():
            x = values[ref]
            if not isinstance(x, Tensor) or d >= x.ndim:
                got = f"{x.ndim} dims" if isinstance(x, Tensor) else type(x).__name__
                raise RuntimeError(f"expected a tensor of more than {d} dims as {ref}, got {got}")
            run.sizes[name] = x.shape[d]
        outer, mode.counts = mode.counts, self.counts or mode.counts
        try:
            run.nodes(self.nodes)
            run.at = None
            return run.value(self.outputs)
        except Exception as error:
            told = self._told(error, run)
            if told is error:
                raise
            raise told from error
        finally:
            mode.counts = outer

    def _told(self, error: Exception, run: _GraphInterpreter) -> Exception:
        """An error that tells at which node it was raised."""
        if run.at is None:
            return error
        at = next((i for i, n in enumerate(self.all_nodes()) if n is run.at), 0)
        where = f"at node {at} of a graph, {run.at.function}"
        if type(error) is GraphError:
            return GraphError(f"{where}: {error}")
        if isinstance(error, RecursionError):
            return GraphError(f"{where}: calls are nested without end")
        if where not in getattr(error, "__notes__", ()):
            error.add_note(where)
        return error

    def placed(self, args: Any, kwargs: Any) -> Any:
        """Arguments as they were when the graph was recorded, by place or by name."""
        positional, named = self.inputs
        args, kwargs = list(args), dict(kwargs)
        if self.rest:
            args[len(positional) - 1 :] = [tuple(args[len(positional) - 1 :])]
        for name, default in zip(self.names[len(args) :], positional[len(args) :], strict=False):
            if name in kwargs:
                args.append(kwargs.pop(name))
            elif not refs(default):
                args.append(default)
            elif name in self.defaults:
                args.append(self.defaults[name])
            else:
                raise TypeError(f"missing a required argument: {name!r}")
        while len(args) > len(positional) and self.names[len(args) - 1 : len(args)]:
            kwargs.setdefault(self.names[len(args) - 1], args[-1])
            del args[-1]
        for name, default in named.items():
            if name not in kwargs and (name in self.defaults or not refs(default)):
                kwargs[name] = self.defaults.get(name, default)
        return tuple(args), kwargs

    def __str__(self) -> str:
        return str(Listing(self))

    def all_nodes(self) -> Iterator[CallNode]:
        """The nodes, with those in blocks."""
        todo = list(reversed(self.nodes))
        while todo:
            node = todo.pop()
            yield node
            todo += [n for block in reversed(node.blocks) for n in reversed(block.nodes)]


def bind(tree: Any, value: Any, values: dict[Any, Any]) -> None:
    """Give the Refs of a tree what stands at their places in `value`."""
    if isinstance(tree, Ref):
        values[tree] = value
    elif isinstance(tree, (list, tuple)):
        if not isinstance(value, (list, tuple)) or len(value) != len(tree):
            raise TypeError(f"expected {len(tree)} values, got {_kind(value)}")
        for part, v in zip(tree, value, strict=True):
            bind(part, v, values)
    elif isinstance(tree, dict):
        if not isinstance(value, dict) or value.keys() != tree.keys():
            raise TypeError(f"expected the names {sorted(tree)}, got {_kind(value)}")
        for k, part in tree.items():
            bind(part, value[k], values)


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return f"{sorted(value)}"
    return f"{len(value)}" if isinstance(value, (list, tuple)) else type(value).__name__


class Stop(Exception):  # noqa: N818  (no error)
    """A `break`, `continue` or `return` of a scripted function is on its way."""

    def __init__(self, kind: str, value: Any = None) -> None:
        self.kind, self.value = kind, value


class _GraphInterpreter:
    """One run of a graph."""

    def __init__(self, values: dict[Any, Any], device: Device | None) -> None:
        self.values, self.device = values, device
        self.sizes: dict[str, Any] = {}
        self.at: CallNode | None = None  # that runs

    def value(self, tree: Any) -> Any:
        return mapped(tree, self._leaf)

    def _leaf(self, x: Any) -> Any:
        kind = type(x)
        if kind is Ref:
            try:
                return self.values[x]
            except KeyError:
                raise UnboundLocalError(f"{x} is used where it has no value") from None
        if kind is SizeExpr:
            return x.at(self.sizes)
        if kind is GraphDevice:
            return self.device
        if kind is ConstArg:
            value = self.value(x.value)
            return const(value, x.dtype, self.device or pf.get_default_device())
        return x

    def nodes(self, nodes: list[CallNode]) -> None:
        for node in nodes:
            self.at = node
            if node.function.startswith("control."):
                getattr(self, node.function[8:])(node)
                continue
            args, kwargs = self.value(node.args), self.value(node.kwargs)
            check_values(node.function, args, kwargs)
            fn = function(node.function)
            if mode.tracer is not None:  # it is recorded as a part of another graph
                fn = HOOKS.get(fn, fn)
            if node.grad:
                out = fn(*args, **kwargs)
            else:
                with no_grad():
                    out = fn(*args, **kwargs)
            self.give(node.out, out)

    def give(self, tree: Any, value: Any) -> None:
        """Give names to a result, in parts as Python does it."""
        if isinstance(tree, Ref):
            self.values[tree] = value
        elif isinstance(tree, (list, tuple)):
            parts = list(value)
            if len(parts) != len(tree):
                raise ValueError(f"expected {len(tree)} values, got {len(parts)}")
            for part, v in zip(tree, parts, strict=True):
                self.give(part, v)

    def branch(self, node: CallNode) -> None:
        """The one of two blocks that the condition says."""
        block = node.blocks[0 if self.value(node.args[0]) else 1]
        self.nodes(block.nodes)
        self.give(node.out, self.value(block.outputs))

    def loop(self, node: CallNode) -> None:
        """A `for` (over a value) or a `while` (as long as the first block gives true)."""
        *test, body = node.blocks
        over = iter(()) if test else iter(self.value(node.args[0]))
        while True:
            if test:
                self.nodes(test[0].nodes)
                if not self.value(test[0].outputs):
                    return
            else:
                try:
                    item = next(over)
                except StopIteration:
                    return
                self.give(node.out, item)
            try:
                self.nodes(body.nodes)
            except Stop as stop:
                if stop.kind == "break":
                    return
                if stop.kind != "continue":
                    raise

    def stop(self, node: CallNode) -> None:
        """A jump out of blocks."""
        raise Stop(node.args[0], self.value(node.args[1]) if len(node.args) > 1 else None)

    def fail(self, node: CallNode) -> None:
        """What a `raise` or an `assert` of a scripted function does."""
        raise ERRORS[node.args[0]](*self.value(node.args[1]))

    def call(self, node: CallNode) -> None:
        """A block as a function: what its `return` gives."""
        try:
            self.nodes(node.blocks[0].nodes)
        except Stop as stop:
            if stop.kind != "return":
                raise
            self.give(node.out, stop.value)
        else:
            self.give(node.out, None)


ERRORS: dict[str, type[Exception]] = {
    e.__name__: e
    for e in (ValueError, RuntimeError, TypeError, AssertionError, IndexError, KeyError,
              NotImplementedError, Exception)
}  # fmt: skip
CONTROL = {f"control.{name}" for name in "branch loop stop fail call".split()}


# --- for people, and for programs that read graphs


class GraphValue(NamedTuple):
    """A value of a graph, as TorchScript's programs ask for it."""

    name: str
    maker: Shown | None = None
    spec: SymbolicTensorMeta | None = None

    def debugName(self) -> str:  # noqa: N802
        """Its name."""
        return self.name

    def node(self) -> Shown | None:
        """What makes it; None for what the graph is given."""
        return self.maker

    def type(self) -> str:
        """Its dtype and its sizes, as far as they are known."""
        return _of(self.spec, True)


class Shown:
    """A node, as programs read it: torch.fx's by `op`, `target`, `args` and `users`, TorchScript's
    by `kind()`, `inputs()` and `outputs()`."""

    def __init__(
        self, node: CallNode, made: dict[Any, Shown], script: bool, op: str = "call_function"
    ) -> None:
        self.node, self.op, self.script = node, op, script
        self.target = node.function if op in ("call_function", "output") else node.args[0]
        self.name = next(map(str, refs(node.out)), op)
        called = (() if op in ("placeholder", "get_attr") else node.args), node.kwargs
        self.args, self.kwargs = mapped(called, lambda x: made.get(x, x)
                                        if isinstance(x, Ref) else x)  # fmt: skip
        self.meta = {"val": spec} if (spec := next(iter(node.specs.values()), None)) else {}
        self.users: dict[Shown, None] = {}
        given = refs((node.args, node.kwargs))
        self._inputs = [GraphValue(r, made.get(r), made[r].node.specs.get(r) if r in made else None)
                        for r in given]  # fmt: skip
        self.all_input_nodes = list(dict.fromkeys(made[r] for r in given if r in made))
        for one in self.all_input_nodes:
            one.users[self] = None
        made.update(dict.fromkeys(refs(node.out), self))
        self._blocks = [Nodes(Shown(n, made, script) for n in b.nodes) for b in node.blocks]

    def kind(self) -> str:
        """What TorchScript calls it."""
        space, _, name = self.node.function.rpartition(".")
        if name in _KINDS or space == "control":
            return f"prim::{_KINDS.get(name, name)}"
        known = space != "code" or hasattr(operator, name) or name in vars(builtins)
        return f"{'aten' if known else 'prim'}::{name.strip('_')}"

    def inputs(self) -> list[GraphValue]:
        """The values among its arguments."""
        return [GraphValue("self")] if self.op == "get_attr" else self._inputs

    def outputs(self) -> list[GraphValue]:
        """Its results."""
        return [GraphValue(r, self, self.node.specs.get(r)) for r in refs(self.node.out)]

    def blocks(self) -> list[Nodes]:
        """Those of a branch, or of a loop."""
        return self._blocks

    def scopeName(self) -> str:  # noqa: N802
        """The path of the module that calls it."""
        return self.node.module

    def __repr__(self) -> str:
        return self.line("script") if self.script else self.name

    def line(self, style: str) -> str:
        """A line of a graph's text."""
        node, given = self.node, ""
        scope = f"  # {node.module}" if node.module else ""
        if self.op == "output":
            return f"return {_arg(node.args[0])}"
        script = style == "script"
        users = f" [num_users={len(self.users)}]" * (not script)
        left = [f"%{r} : {_of(node.specs.get(r), script)}{users}" for r in refs(node.out)]
        if self.op == "call_function":
            given = ", ".join([*map(_arg, node.args),
                               *[f"{k}={_arg(v)}" for k, v in node.kwargs.items()]])  # fmt: skip
        if style == "code":
            left, right = list(refs(node.out)), f"{node.function}({given})"
        elif script:
            name = f'[name="{self.target}"]' if self.op == "get_attr" else ""
            right = f"{self.kind()}{name}({'%self' if name else given}){scope}"
        elif self.op == "call_function":
            given = f"args = {_arg(node.args)}, kwargs = {_arg(node.kwargs)}"
            right = f"call_function[target={node.function}]({given}){scope}"
        else:
            right = f"{self.op}[target={self.target}]"
        return f"{', '.join(left)}{' = ' * bool(left)}{right}"


_KINDS = {"branch": "If", "loop": "Loop", "get_attr": "GetAttr", "module_": "CallMethod",
          "list_": "ListConstruct", "tuple_": "TupleConstruct", "dict_": "DictConstruct",
          "setattr_": "SetAttr", "getattr_": "GetAttr"}  # fmt: skip


class Nodes(list[Shown]):
    """The nodes of a graph or of a block; TorchScript's programs call it, torch.fx's do not."""

    def __call__(self) -> Nodes:
        return self

    nodes = __call__

    def all(self) -> Iterator[Shown]:
        """With those in blocks."""
        for one in self:
            yield one
            for block in one.blocks():
                yield from block.all()

    def lines(self, style: str, indent: str) -> Iterator[str]:
        """Their text."""
        for one in self:
            yield indent + one.line(style)
            for i, (block, inner) in enumerate(zip(one.node.blocks, one.blocks(), strict=True)):
                yield f"{indent}  block{i}():"
                yield from inner.lines(style, f"{indent}    ")
                yield f"{indent}    -> ({'' if block.outputs is None else _arg(block.outputs)})"


class Listing:
    """A graph for people and programs that read it, in the style of torch.fx; with the name of a
    class in that of TorchScript."""

    def __init__(self, graph: Graph, script: str = "") -> None:
        self.of, self.script = graph, script

    @functools.cached_property
    def nodes(self) -> Nodes:
        """What it takes of a module, its calls; for torch.fx its inputs and its output, too."""
        graph, script = self.of, bool(self.script)
        made: dict[Any, Shown] = {}

        def entry(op: str, target: str, ref: Ref) -> Shown:
            specs = {ref: graph.specs[ref]} if ref in graph.specs else {}
            return Shown(CallNode(op, (str(target),), {}, ref, specs), made, script, op)

        found = Nodes() if script else Nodes(entry("placeholder", r, r) for r in self._given())
        found += [entry("get_attr", name, ref) for name, ref in graph.state.items()]
        found += [Shown(node, made, script) for node in graph.nodes]
        if not script:
            found.append(
                Shown(CallNode("output", (graph.outputs,), {}, None), made, script, "output")
            )
        return found

    def _given(self) -> list[Ref]:
        return refs(self.of.inputs)

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Shown]:
        """Those of a kind, as torch.fx finds them."""
        return [n for n in self.nodes if n.op == op and target in (None, n.target)]

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Shown]:  # noqa: N802
        """Those of a kind, as TorchScript finds them."""
        return [n for n in (self.nodes.all() if recurse else self.nodes) if n.kind() == kind]

    def __str__(self) -> str:
        if not self.script:
            return "\n".join(["graph():", *self.nodes.lines("fx", "    ")])
        of = [f",\n      %{v.name} : {v.type()}" for v in self.inputs()[1:]]
        lines = self.nodes.lines("script", "    ")
        end = f"    return ({_arg(self.of.outputs)})"
        return "\n".join([f"graph(%self : __torch__.{self.script}{''.join(of)}):", *lines, end])

    __repr__ = __str__

    def __getattr__(self, name: str) -> Any:
        if name in ("inputs", "outputs") and self.__dict__.get("script"):
            given = ["self", *self._given()] if name == "inputs" else refs(self.of.outputs)
            makers = {v.name: v for n in self.nodes for v in n.outputs()}
            specs = self.of.specs
            return lambda: [makers.get(r) or GraphValue(r, None, specs.get(Ref(r))) for r in given]
        return getattr(self.of, name)


def code_of(graph: Graph, name: str = "forward") -> str:
    """A graph as Python."""
    calls = Nodes(n for n in Listing(graph, name).nodes if n.op == "call_function")
    lines = [f"  {ref} = self.{at}" for at, ref in graph.state.items()]
    lines += [*calls.lines("code", "  "), f"  return {_arg(graph.outputs)}", ""]
    head = f"def {name}({', '.join(['self', *refs(graph.inputs)])}):"
    return "\n".join([head, *lines]).replace("%", "")


_TYPES = {"float32": "Float", "float64": "Double", "int64": "Long", "int32": "Int", "bool": "Bool",
          "float16": "Half", "bfloat16": "BFloat16", "uint8": "Byte", "int16": "Short",
          "int8": "Char", "complex64": "ComplexFloat", "complex128": "ComplexDouble"}  # fmt: skip


def _of(spec: SymbolicTensorMeta | None, script: bool) -> str:
    if spec is None:
        return "Tensor" if script else "Any"
    sizes = ", ".join(map(str, spec.shape))
    name = spec.dtype.name
    return f"{_TYPES.get(name, name)}({sizes})" if script else f"{name}[{sizes}]"


def _arg(x: Any) -> str:
    if isinstance(x, Ref):
        return f"%{x}"
    if isinstance(x, tuple) and not isinstance(x, ConstArg):
        return f"({', '.join(map(_arg, x))}{',' * (len(x) == 1)})"
    if isinstance(x, list):
        return f"[{', '.join(map(_arg, x))}]"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k!r}: {_arg(v)}" for k, v in x.items()) + "}"
    return repr(x)


# --- as JSON


def encoded(graph: Graph) -> dict[str, Any]:
    """A graph as what JSON can say."""
    return {
        "version": VERSION,
        "names": graph.names, "defaults": encode(graph.defaults), "rest": graph.rest,
        "inputs": encode(graph.inputs), "outputs": encode(graph.outputs),
        "state": dict(graph.state), "ranges": graph.ranges,
        "sizes": {k: list(at) for k, at in graph.sizes.items()},
        "guards": [[f, kind, answer] for f, kind, answer in graph.guards],
        "specs": {r: _encode_spec(s) for r, s in graph.specs.items()},
        "nodes": list(map(_encode_node, graph.nodes)),
    }  # fmt: skip


def _encode_spec(spec: SymbolicTensorMeta) -> Any:
    return [[d.formula if isinstance(d, SizeExpr) else d for d in spec.shape], spec.dtype.name]


def _encode_node(node: CallNode) -> dict[str, Any]:
    if node.function.startswith("op.") and not may_call(node.function):
        raise GraphError(
            f"a file can't hold {node.function!r}, which reads memory wherever it is told to; it "
            "comes of gradients that the function takes itself: take them outside"
        )
    try:
        out = {"call": node.function, "args": encode(list(node.args)), "out": encode(node.out)}
        if node.kwargs:
            out["kwargs"] = {k: encode(v) for k, v in node.kwargs.items()}
    except GraphError as error:
        raise GraphError(f"{node.function} in {node.module or 'the function'}: {error}") from None
    if node.module:
        out["module"] = node.module
    if node.specs:
        out["specs"] = {r: _encode_spec(s) for r, s in node.specs.items()}
    if not node.grad:
        out["grad"] = False
    if node.blocks:
        out["blocks"] = [[list(map(_encode_node, b.nodes)), encode(b.outputs)] for b in node.blocks]
    return out


def encode(x: Any) -> Any:
    """An argument as what JSON can say; GraphError for what is no plain value."""
    if isinstance(x, Ref):
        return {"ref": str(x)}
    if x is None or type(x) in (bool, int, str):
        return x
    if isinstance(x, float):
        return x if math.isfinite(x) else {"float": str(x)}
    if isinstance(x, complex):
        return {"complex": [str(x.real), str(x.imag)]}
    if type(x) is ConstArg:
        return {"const": [encode(x.value), x.dtype.name]}
    if isinstance(x, SizeExpr):
        return {"size": x.formula}
    if isinstance(x, GraphDevice):
        return {"device": None}
    if isinstance(x, Device):
        return {"device": str(x)}
    if isinstance(x, dt.dtype):
        return {"dtype": x.name}
    if isinstance(x, memory_format):
        return {"format": str(x).rpartition(".")[2]}
    if x is Ellipsis:
        return {"ellipsis": None}
    if isinstance(x, slice):
        return {"slice": [encode(v) for v in (x.start, x.stop, x.step)]}
    if isinstance(x, tuple):
        return {"tuple": [encode(v) for v in x]}
    if isinstance(x, list):
        return [encode(v) for v in x]
    if isinstance(x, dict):
        return {"dict": [[encode(k), encode(v)] for k, v in x.items()]}
    raise GraphError(f"an argument is a {type(x).__name__}, which a file can't hold")


DEEPEST = 100  # nested lists and blocks of a file
MAX_FILE_NODES = 1_000_000  # names and nodes of a file


class _Reader:
    """Reads a graph: what is not as it should be is a GraphError, which names the node."""

    def __init__(self, device: Any = None) -> None:
        self.device = device  # in the place of those that are named
        self.count = 0  # of nodes
        self.at = ""  # the node that is read
        self.sizes: set[str] | None = None  # the names in formulas

    def fail(self, what: str, x: Any) -> Any:
        at = f", {self.at}" if self.at else ""
        raise GraphError(f"the graph is damaged{at}: expected {what}, got {_short(x)}")

    def the(self, kind: Any, x: Any, what: str) -> Any:
        return x if isinstance(x, kind) and type(x) is not bool else self.fail(what, x)

    def name(self, x: Any) -> Ref:
        return Ref(self.the(str, x, "the name of a value"))

    def dtype(self, x: Any) -> dt.dtype:
        found = _DTYPES.get(x) if isinstance(x, str) else None
        return found or self.fail("a dtype", x)

    def formula(self, x: Any, deep: int = 0) -> Any:
        if type(x) is str:
            known = self.sizes is None or x in self.sizes
            return x if known else self.fail("the name of a size", x)
        if type(x) in (int, float):
            return x if abs(x) < 1 << 63 else self.fail("a size", x)
        if type(x) not in (list, tuple) or not 2 <= len(x) <= 3 or deep > DEEPEST:
            return self.fail("a size", x)
        if not isinstance(x[0], str) or len(x) != 2 + (x[0] not in _OF_ONE) or x[0] not in WORDS:
            return self.fail("a size", x)
        return (x[0], *[self.formula(a, deep + 1) for a in x[1:]])

    def value(self, x: Any, deep: int = 0) -> Any:
        if deep > DEEPEST:
            self.fail(f"no more than {DEEPEST} nested values", "more")
        if type(x) is list:
            return [self.value(v, deep + 1) for v in x]
        if type(x) is not dict:
            return x
        if len(x) != 1:
            self.fail("a value", x)
        ((kind, v),) = x.items()
        if kind == "ref":
            return self.name(v)
        if kind == "size":
            return SizeExpr(self.formula(v))
        if kind == "device":
            return HERE if v is None else self.device or self.place(v)
        if kind == "dtype":
            return self.dtype(v)
        if kind == "ellipsis":
            return ...
        if kind == "float":
            return float(v) if v in ("nan", "inf", "-inf") else self.fail("a float", v)
        if kind == "format":
            return next((f for f in _FORMATS if str(f).endswith(f".{v}")), None) or self.fail(
                "a format", v
            )
        items = self.the(list, v, "a value")
        if kind == "tuple":
            return tuple([self.value(i, deep + 1) for i in items])
        if kind == "slice" and len(items) == 3:
            return slice(*[self.value(i, deep + 1) for i in items])
        if kind == "complex" and len(items) == 2:
            return complex(*[self.number(i) for i in items])
        if kind == "const" and len(items) == 2:
            value = self.value(items[0])
            fits = isinstance(value, (bool, int, float, complex, SizeExpr))
            return (
                ConstArg(value, self.dtype(items[1])) if fits else self.fail("a number", items[0])
            )
        if kind == "dict" and all(type(i) is list and len(i) == 2 for i in items):
            pairs = [(self.value(k, deep + 1), self.value(i, deep + 1)) for k, i in items]
            if all(isinstance(k, (str, int, float)) for k, _ in pairs):
                return dict(pairs)
        return self.fail("a value", x)

    def number(self, x: Any) -> float:
        try:
            return float(self.the(str, x, "a number"))
        except ValueError:
            return self.fail("a number", x)

    def place(self, x: Any) -> Device:
        try:
            return Device(self.the(str, x, "a device"))
        except RuntimeError:
            return self.fail("a device", x)

    def specs(self, x: Any) -> dict[Ref, SymbolicTensorMeta]:
        found = {}
        for name, spec in self.the(dict, x, "shapes").items():
            if type(spec) is not list or len(spec) != 2 or type(spec[0]) is not list:
                self.fail("a shape and a dtype", spec)
            shape = [self.formula(d) for d in spec[0]]
            sizes = tuple([d if type(d) is int else SizeExpr(d) for d in shape])
            found[Ref(name)] = SymbolicTensorMeta(sizes, self.dtype(spec[1]))
        return found

    def node(self, x: Any, deep: int = 0) -> CallNode:
        name: Any = x.get("call") if isinstance(x, dict) else None
        self.at, at = f"node {self.count} ({_short(name)})", self.count
        self.count += 1
        x = self.the(dict, x, "a node")
        self.the(str, name, "a function")
        if deep > DEEPEST:
            self.fail(f"no more than {DEEPEST} nested blocks", "more")
        args = tuple(self.value(self.the(list, x.get("args"), "arguments")))
        kwargs = self.the(dict, x.get("kwargs", {}), "arguments").items()
        named = {k: self.value(v) for k, v in kwargs}
        if name not in CONTROL:
            try:
                check_call(name, args, named)
            except GraphError as error:
                raise GraphError(
                    f"the graph is damaged, {self.at}: it calls {name[:80]!r}, {error}"
                ) from None
        out = self.value(x.get("out"))
        if not _is_target(out):
            self.fail("the names of results", x.get("out"))
        specs = self.specs(x.get("specs", {}))
        module = self.the(str, x.get("module", ""), "a module's name")
        blocks = []
        for b in self.the(list, x.get("blocks", []), "blocks"):
            if type(b) is not list or len(b) != 2:
                self.fail("a block", b)
            nodes = [self.node(n, deep + 1) for n in self.the(list, b[0], "nodes")]
            blocks.append(SubBlock(nodes, self.value(b[1])))
        self.at = f"node {at} ({_short(name)})"
        counts = {"branch": ((1,), (2,)), "loop": ((0, 1), (2 - len(args),)), "call": ((0,), (1,)),
                  "stop": ((1, 2), (0,)), "fail": ((2,), (0,))}  # fmt: skip
        given, inner = counts.get(name[8:] if name in CONTROL else "", ((len(args),), (0,)))
        if len(args) not in given or len(blocks) not in inner or (name in CONTROL and named):
            self.fail("the arguments and the blocks of a node", x)
        if name == "control.fail" and (args[0] not in ERRORS or not isinstance(args[1], tuple)):
            self.fail("an error", args)
        if name == "control.stop" and args[0] not in ("break", "continue", "return"):
            self.fail("break, continue or return", args)
        grad = x.get("grad", True) is not False
        return CallNode(name, args, named, out, specs, module, grad, tuple(blocks))


_DTYPES = {d.name: d for d in dt.ALL}
_FORMATS = [f for f in vars(pf).values() if isinstance(f, memory_format)]
_OF_ONE = ("int", "round", "floor", "ceil")


def _short(x: Any) -> str:
    """What a file has, to be shown in an error."""
    if isinstance(x, (str, int, float, type(None))):
        return repr(x if isinstance(x, str) else str(x)[:60])[:80]
    return f"a {type(x).__name__} of {len(x)}" if hasattr(x, "__len__") else type(x).__name__


def _is_target(x: Any) -> bool:
    if isinstance(x, (list, tuple)) and not isinstance(x, ConstArg):
        return all(map(_is_target, x))
    return x is None or isinstance(x, Ref)


def decode(x: Any) -> Any:
    """The argument that `encode` has written."""
    return _Reader().value(x)


def decoded(x: Any, device: Any = None) -> Graph:
    """The graph that `encoded` has written; GraphError where it is damaged, of another version, or
    calls what there is not."""
    read = _Reader(device)
    x = read.the(dict, x, "a graph")
    if x.get("version") != VERSION:
        raise GraphError(
            f"the graph is of version {str(x.get('version'))[:20]}; this pyframe reads {VERSION}"
        )
    graph = Graph()
    graph.counts = True
    try:
        sizes = read.the(dict, x.get("sizes"), "sizes")
        read.sizes = {*sizes}
        graph.inputs, graph.outputs = read.value(x.get("inputs")), read.value(x.get("outputs"))
        if not (
            isinstance(graph.inputs, tuple)
            and list(map(type, graph.inputs)) == [tuple, dict]
            and all(type(k) is str for k in graph.inputs[1])
        ):
            read.fail("the inputs", x.get("inputs"))
        graph.names = list(map(read.name, read.the(list, x.get("names"), "names")))
        graph.defaults = read.the(dict, read.value(x.get("defaults")), "defaults")
        graph.rest = read.the(str, x.get("rest", ""), "a name")
        if graph.rest and (
            graph.rest not in graph.names[-1:] or len(graph.names) != len(graph.inputs[0])
        ):
            read.fail("the last of the inputs", graph.rest)
        state = read.the(dict, x.get("state"), "names").items()
        graph.state = {k: read.name(v) for k, v in state}
        graph.specs = read.specs(x.get("specs"))
        known = {*refs(graph.inputs), *graph.state.values()}
        for name, at in sizes.items():
            if type(at) is not list or len(at) != 2 or type(at[1]) is not int or at[1] < 0:
                read.fail("a size of an input", at)
            if at[0] not in known:
                read.fail("the size of an input", at[0])
            graph.sizes[name] = read.name(at[0]), at[1]
        for name, ends in read.the(dict, x.get("ranges"), "ranges").items():
            if type(ends) is not list or len(ends) != 2 or type(ends[0]) is not int:
                read.fail("the least and the largest of a size", ends)
            high = ends[1] if ends[1] is None else read.the(int, ends[1], "a size")
            graph.ranges[name] = ends[0], high
        for guard in read.the(list, x.get("guards"), "guards"):
            if type(guard) is not list or len(guard) != 3 or guard[1] not in (">", "=="):
                read.fail("a guard", guard)
            graph.guards.append((read.formula(guard[0]), guard[1], bool(guard[2])))
        graph.nodes = [read.node(n) for n in read.the(list, x.get("nodes"), "nodes")]
        _check_names(graph, known)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        if isinstance(error, GraphError):
            raise
        where = f", {read.at}" if read.at else ""
        raise GraphError(
            f"the graph is damaged{where}: {type(error).__name__} {str(error)[:80]}"
        ) from None
    return graph


def _check_names(graph: Graph, known: set[Ref]) -> None:
    """GraphError for a name that nothing before has given a value, and for a `break` outside of a
    loop. A loop may read what a later part of it has given in the round before."""
    count = iter(range(MAX_FILE_NODES))

    def look(nodes: list[CallNode], loop: bool, call: bool) -> None:
        for node in nodes:
            where = f"the graph is damaged, node {next(count)} ({node.function})"
            kind = node.function[8:] if node.function in CONTROL else ""
            if kind == "loop" and not loop:
                known.update(given(node))
            for ref in refs((node.args, node.kwargs)):
                if ref not in known:
                    raise GraphError(f"{where}: {_short(ref)} has no value")
            if kind == "stop" and not (call if node.args[0] == "return" else loop):
                raise GraphError(f"{where}: there is nothing to {node.args[0]}")
            if kind == "loop":
                known.update(refs(node.out))
            for block in node.blocks:
                look(
                    block.nodes, kind == "loop" or (loop and kind != "call"), call or kind == "call"
                )
                for ref in refs(block.outputs):
                    if ref not in known:
                        raise GraphError(f"{where}: {_short(ref)} has no value")
            known.update(refs(node.out))

    def given(node: CallNode) -> Iterator[Ref]:
        for block in node.blocks:
            for n in block.nodes:
                yield from refs(n.out)
                yield from given(n)

    look(graph.nodes, False, False)
    for ref in refs(graph.outputs):
        if ref not in known:
            raise GraphError(f"the graph is damaged: its result {_short(ref)} has no value")
