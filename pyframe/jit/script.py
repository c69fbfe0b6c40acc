"""jit.script: a subset of Python as a graph, translated from its syntax tree.

A variable is a Ref that nodes give a value to, again and again; `if`, `for` and `while` are nodes
with blocks, which the host runs. What is known beforehand (constants, a module's plain attributes,
functions, submodules) is a StaticValue while it is translated: a branch on it is no branch, and a
loop over modules is unrolled. Layers of pyframe.nn stay what they are.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import operator
import textwrap
from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

import pyframe as pf
from pyframe.core import module_of
from pyframe.core.modes import mode, no_grad
from pyframe.jit import calls as _calls
from pyframe.jit.calls import functions
from pyframe.jit.graph import ERRORS, CallNode, Graph, Ref, SubBlock
from pyframe.jit.modules import (
    ScriptFunction,
    ScriptModule,
    as_script,
    is_layer,
    shell,
    with_constants,
)
from pyframe.jit.record import names_of
from pyframe.nn.modules.module import Module
from pyframe.tensor import Tensor

T = TypeVar("T")
DEEPEST = 50  # functions that call each other


class NotSupportedError(RuntimeError):
    """What a scripted function says is not in the subset; the message has the file and the line."""


class StaticValue:
    """A value that is known while a function is translated; of a module with its path."""

    __slots__ = ("path", "value")

    def __init__(self, value: Any, path: str | None = None) -> None:
        self.value, self.path = value, path


class StarredArgs:
    """`*value` in a call, where how many there are is known when it runs."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.LShift: "lshift", ast.RShift: "rshift", ast.MatMult: "matmul", ast.USub: "neg",
    ast.UAdd: "pos", ast.Invert: "invert", ast.Not: "not_", ast.Eq: "eq", ast.NotEq: "ne",
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Is: "is_", ast.IsNot: "is_not",
}  # fmt: skip


class Translator:
    """Translates one function, with those that it calls, to nodes."""

    def __init__(self, module: Module | None) -> None:
        self.module = module
        self.constants: dict[str, Tensor] = {}
        self.graph = Graph()
        self.nodes: list[CallNode] = self.graph.nodes
        self.count = 0
        self.grad = True
        self.frames: list[_TranslationFrame] = []

    @property
    def frame(self) -> _TranslationFrame:
        return self.frames[-1]

    def fail(self, at: Any, why: str) -> NoReturn:
        frame = self.frame
        line = frame.first + getattr(at, "lineno", 1) - 1
        text = frame.lines[getattr(at, "lineno", 1) - 1].strip() if frame.lines else ""
        raise NotSupportedError(f"{frame.file}:{line}: {why}\n    {text}")

    def fresh(self, base: str = "t") -> Ref:
        self.count += 1
        return Ref(f"{base}_{self.count}")

    def emit(self, name: str, *args: Any, out: Any = "", **kwargs: Any) -> Any:
        """A node; the name of its result, which is static where its operands are."""
        if any(isinstance(a, StarredArgs) for a in args):
            return self.emit("code.apply", name, self.joined(args), out=out, **kwargs)
        given, named = list(map(self.arg, args)), {k: self.arg(v) for k, v in kwargs.items()}
        out = self.fresh(name.rpartition(".")[2].strip("_")) if out == "" else out
        where = self.frame.path if self.frames else ""
        self.nodes.append(CallNode(name, tuple(given), named, out, {}, where, self.grad))
        return out

    def joined(self, args: Any) -> Any:
        """Arguments as one list, with all that a `*` gives."""
        parts = [self.emit("code.list", a.value) if isinstance(a, StarredArgs)
                 else self.emit("code.list_", a) for a in args]  # fmt: skip
        return functools.reduce(lambda a, b: self.emit("code.add", a, b), parts)

    def arg(self, x: Any) -> Any:
        """A value as an argument of a node."""
        if isinstance(x, StaticValue):
            if isinstance(x.value, Module):
                return self.state(x.path or "")
            return self.arg(x.value)
        if isinstance(x, (list, tuple)) and type(x) in (list, tuple):
            return type(x)([self.arg(v) for v in x])
        if isinstance(x, Tensor):
            return self.constant(x)
        return x

    def state(self, name: str) -> Ref:
        """A parameter, a buffer, a submodule or the mode of a module."""
        if name not in self.graph.state:
            self.graph.state[name] = Ref(f"self.{name}")
        return self.graph.state[name]

    def constant(self, x: Tensor) -> Ref:
        for name, held in self.constants.items():
            if held is x:
                return self.state(name)
        name = f"_constant{len(self.constants)}"
        self.constants[name] = x
        return self.state(name)

    def block(self, body: Callable[[], Any]) -> SubBlock:
        """What `body` translates, as a block; what it gives is the block's."""
        outer, self.nodes = self.nodes, []
        try:
            out = self.arg(body())
            return SubBlock(self.nodes, out)
        finally:
            self.nodes = outer

    def control(self, kind: str, args: tuple[Any, ...], out: Any, *blocks: SubBlock) -> None:
        args = tuple(map(self.arg, args))
        self.nodes.append(CallNode(f"control.{kind}", args, {}, out, {}, "", True, blocks))

    # --- functions

    def function(self, fn: Any, args: list[Any], kwargs: dict[str, Any], path: str, at: Any) -> Any:
        """The call of a Python function, which becomes part of the graph."""
        if len(self.frames) >= DEEPEST:
            self.fail(at, f"calls are nested more than {DEEPEST} deep, or a function calls itself")
        frame = _TranslationFrame(fn, path, self.module)
        self.count += bool(self.frames)
        prefix = f"{fn.__name__}_{self.count}." if self.frames else ""
        rest = frame.tree.args.vararg
        many = next((i for i, a in enumerate(args) if isinstance(a, StarredArgs)), None)
        if many is not None:
            args = [*args[:many], *self.unpacked(frame, args[many:], many, at)]
        try:
            bound = inspect.signature(fn).bind(*args, **kwargs)
        except TypeError as error:
            self.fail(at, f"{fn.__name__}: {error}")
        bound.apply_defaults()
        frame.prefix = prefix
        for name, value in bound.arguments.items():
            if rest is not None and name == rest.arg:
                value = value[0].value if value and isinstance(value[0], StarredArgs) else value
                if name not in frame.assigned:
                    frame.names[name] = value
                    continue
            known = isinstance(value, StaticValue) or not isinstance(value, Ref)
            value = value if isinstance(value, (StaticValue, Ref)) else StaticValue(value)
            if known and name not in frame.assigned:
                frame.names[name] = value
            else:
                frame.names[name] = ref = Ref(prefix + name)
                if ref != value:
                    self.nodes.append(CallNode("code.value", (self.arg(value),), {}, ref))
        self.frames.append(frame)
        try:
            return self.body(frame)
        finally:
            self.frames.pop()

    def unpacked(self, frame: _TranslationFrame, args: Any, given: int, at: Any) -> list[Any]:
        """Arguments from a `*` on for a function's parameters, and for its own `*rest`."""
        a = frame.tree.args
        if a.vararg is None and a.defaults:
            self.fail(at, f"how many arguments of {frame.tree.name} a * gives has to be known")
        wanted = len(a.posonlyargs) + len(a.args) - given
        parts: list[Any] = [self.fresh("part") for _ in range(wanted)]
        whole = args[0].value if len(args) == 1 else self.joined(args)
        if a.vararg is None:
            self.nodes.append(CallNode("code.value", (self.arg(whole),), {}, tuple(parts)))
            return parts
        for i, part in enumerate(parts):
            self.emit("code.getitem", whole, i, out=part)
        return [*parts, StarredArgs(self.emit("code.getitem", whole, slice(wanted, None)))]

    def body(self, frame: _TranslationFrame) -> Any:
        *first, last = frame.tree.body
        returns = [n for n in ast.walk(frame.tree) if isinstance(n, ast.Return)]
        if not returns or (len(returns) == 1 and returns[0] is last):
            if self.statements(first if returns else frame.tree.body) == "ends":
                return StaticValue(None)
            value = returns[0].value if returns else None
            return StaticValue(None) if value is None else self.expr(value)
        out = self.fresh(frame.tree.name)
        self.control("call", (), out, self.block(lambda: self.statements(frame.tree.body)))
        return out

    def statements(self, body: list[ast.stmt]) -> str | None:
        """Translate them; "ends" if nothing behind them runs."""
        for s in body:
            method = getattr(self, f"do_{type(s).__name__.lower()}", None)
            if method is None:
                self.fail(s, f"{type(s).__name__} statements are not in the subset")
            if method(s) == "ends":
                return "ends"
        return None

    # --- statements

    def do_expr(self, s: ast.Expr) -> None:
        if not isinstance(s.value, ast.Constant):
            self.expr(s.value)

    def do_pass(self, s: ast.Pass) -> None:
        pass

    def do_assign(self, s: ast.Assign) -> None:
        value = self.expr(s.value)
        for target in s.targets:
            self.assign(target, value)

    def do_annassign(self, s: ast.AnnAssign) -> None:
        if s.value is not None:
            self.assign(s.target, self.expr(s.value))

    def do_augassign(self, s: ast.AugAssign) -> None:
        target: Any = s.target
        value = self.expr(ast.copy_location(_loaded(target), target))
        out = self.emit(f"code.i{_BINARY[type(s.op)].rstrip('_')}", value, self.expr(s.value))
        if not isinstance(target, ast.Attribute) or self.changed(self.expr(target.value), target):
            self.assign(target, out)  # else it is a buffer, which is written in place

    def assign(self, target: Any, value: Any) -> None:
        if isinstance(target, ast.Name):
            ref = Ref(self.frame.prefix + target.id)
            self.frame.names[target.id] = ref
            self.nodes.append(CallNode("code.value", (self.arg(value),), {}, ref))
        elif isinstance(target, (ast.Tuple, ast.List)):
            if any(isinstance(t, ast.Starred) for t in target.elts):
                self.fail(target, "a starred target is not in the subset")
            parts = [self.fresh("part") for _ in target.elts]
            self.nodes.append(CallNode("code.value", (self.arg(value),), {}, tuple(parts)))
            for t, part in zip(target.elts, parts, strict=True):
                self.assign(t, part)
        elif isinstance(target, ast.Subscript):
            self.emit(
                "code.setitem", self.expr(target.value), self.index(target.slice), value, out=None
            )
        elif isinstance(target, ast.Attribute):
            owner = self.expr(target.value)
            if not self.changed(owner, target):
                self.fail(target, "attributes are assigned of modules alone that have them")
            self.emit("code.setattr_", owner, target.attr, value, out=None)
        else:
            self.fail(target, "only names, parts and attributes are assigned in the subset")

    def changed(self, owner: Any, e: ast.Attribute) -> bool:
        """Whether the methods of a module assign this attribute, which it has."""
        known = isinstance(owner, StaticValue) and owner.path is not None
        return known and e.attr in assigned(owner.value) and hasattr(owner.value, e.attr)

    def do_delete(self, s: ast.Delete) -> None:
        for t in s.targets:
            if isinstance(t, ast.Subscript):
                self.emit("code.delitem", self.expr(t.value), self.index(t.slice), out=None)

    def do_if(self, s: ast.If) -> str | None:
        test = self.expr(s.test)
        if isinstance(test, StaticValue):
            return self.statements(s.body if test.value else s.orelse)
        before = dict(self.frame.names)
        yes = self.block(lambda: self.statements(s.body))
        then, self.frame.names = self.frame.names, dict(before)
        no = self.block(lambda: self.statements(s.orelse))
        self.frame.names = {**then, **self.frame.names}
        self.control("branch", (test,), None, yes, no)
        return None

    def do_for(self, s: ast.For) -> None:
        over = self.expr(s.iter)
        if s.orelse:
            self.fail(s, "else of a loop is not in the subset")
        items = (
            over.value if isinstance(over, StaticValue) else over if type(over) is list else None
        )
        if isinstance(items, Module):
            items = self.children(over, s)
        if items is not None and any(_has_module(i) for i in items):
            if any(isinstance(n, (ast.Break, ast.Continue)) for n in ast.walk(s)):
                self.fail(s, "break and continue in a loop over modules are not in the subset")
            for item in items:
                self.unrolled(s.target, item)
                self.statements(s.body)
            return
        item = self.fresh("item")

        def body() -> None:
            self.assign(s.target, item)
            self.statements(s.body)

        self.control("loop", (over,), item, self.block(body))

    def unrolled(self, target: Any, item: Any) -> None:
        """A loop's variable in one of its rounds."""
        if isinstance(target, ast.Tuple):
            for t, part in zip(target.elts, item, strict=True):
                self.unrolled(t, part)
        elif _has_module(item):
            self.frame.names[target.id] = item
        else:
            self.assign(target, item)

    def do_while(self, s: ast.While) -> None:
        if s.orelse:
            self.fail(s, "else of a loop is not in the subset")
        test = self.block(lambda: self.expr(s.test))
        body = self.block(lambda: self.statements(s.body))
        self.control("loop", (), None, test, body)

    def do_break(self, s: ast.Break) -> str:
        self.control("stop", ("break",), None)
        return "ends"

    def do_continue(self, s: ast.Continue) -> str:
        self.control("stop", ("continue",), None)
        return "ends"

    def do_return(self, s: ast.Return) -> str:
        value = StaticValue(None) if s.value is None else self.expr(s.value)
        self.control("stop", ("return", value), None)
        return "ends"

    def do_raise(self, s: ast.Raise) -> str:
        call = s.exc
        kind = call.func if isinstance(call, ast.Call) else call
        name = getattr(kind, "id", "")
        if name not in ERRORS:
            self.fail(s, f"expected one of {', '.join(ERRORS)} to be raised")
        given = [self.expr(a) for a in call.args] if isinstance(call, ast.Call) else []
        self.control("fail", (name, tuple(given)), None)
        return "ends"

    def do_assert(self, s: ast.Assert) -> None:
        def raises() -> None:
            given = () if s.msg is None else (self.expr(s.msg),)
            self.control("fail", ("AssertionError", given), None)

        test = self.expr(s.test)
        if not (isinstance(test, StaticValue) and test.value):
            self.control("branch", (test,), None, SubBlock([], None), self.block(raises))

    def do_with(self, s: ast.With) -> str | None:
        for item in s.items:
            made = item.context_expr
            found = self.expr(made.func) if isinstance(made, ast.Call) else None
            if (
                not isinstance(found, StaticValue)
                or found.value is not no_grad
                or item.optional_vars
            ):
                self.fail(s, "expected `with torch.no_grad():`; others are not in the subset")
        before, self.grad = self.grad, False
        ends = self.statements(s.body)
        self.grad = before
        return ends

    # --- expressions

    def expr(self, e: Any) -> Any:
        method = getattr(self, f"of_{type(e).__name__.lower()}", None)
        if method is None:
            self.fail(e, f"{type(e).__name__} expressions are not in the subset")
        return method(e)

    def of_constant(self, e: ast.Constant) -> Any:
        return StaticValue(e.value)

    def of_name(self, e: ast.Name) -> Any:
        frame = self.frame
        if e.id in frame.names:
            return frame.names[e.id]
        if e.id in frame.assigned:
            self.fail(e, f"{e.id} has no value here")
        if e.id in frame.outside:
            return StaticValue(frame.outside[e.id])
        return self.fail(e, f"the name {e.id} is not defined")

    def of_attribute(self, e: ast.Attribute) -> Any:
        x = self.expr(e.value)
        if not isinstance(x, StaticValue):
            if e.attr not in _calls.ATTRIBUTES:
                outside = self.frame.outside.values()
                if any(e.attr in getattr(v, "_fields", ()) for v in outside):
                    return self.emit("code.field", x, e.attr)
                self.fail(e, f"the attribute {e.attr} of a value is not in the subset")
            return self.emit(f"attr.{e.attr}", x)
        if x.path is None:
            try:
                return StaticValue(getattr(x.value, e.attr))
            except AttributeError as error:
                self.fail(e, str(error))
        if self.changed(x, e):
            return self.emit("code.getattr_", x, e.attr)
        module = x.value
        name = f"{x.path}.{e.attr}" if x.path else e.attr
        if e.attr == "training":
            return self.state(name)
        for held in (module._parameters, module._buffers):
            if e.attr in held:
                return StaticValue(None) if held[e.attr] is None else self.state(name)
        if e.attr in module._modules:
            child = module._modules[e.attr]
            return StaticValue(child, None if child is None else name)
        try:
            return StaticValue(getattr(module, e.attr))
        except AttributeError as error:
            self.fail(e, str(error))

    def of_tuple(self, e: ast.Tuple) -> Any:
        items = tuple([self.expr(v) for v in e.elts])
        if all(isinstance(i, StaticValue) and i.path is None for i in items):
            return StaticValue(tuple([i.value for i in items]))
        return items if any(map(_has_module, items)) else self.emit("code.tuple_", *items)

    def of_list(self, e: ast.List) -> Any:
        items = self.items(e.elts, e)
        if any(isinstance(i, StarredArgs) for i in items):
            return self.joined(items)
        return self.emit("code.list_", *items)

    def of_dict(self, e: ast.Dict) -> Any:
        if None in e.keys:
            self.fail(e, "** in a dict is not in the subset")
        keys = [self.expr(k) for k in e.keys]
        return self.emit("code.dict_", keys, [self.expr(v) for v in e.values])

    def of_listcomp(self, e: ast.ListComp) -> Any:
        return self.comprehended(e, self.emit("code.list_"), e.elt)

    def of_dictcomp(self, e: ast.DictComp) -> Any:
        return self.comprehended(e, self.emit("code.dict_", [], []), e.value, e.key)

    def comprehended(self, e: Any, out: Ref, value: ast.expr, key: ast.expr | None = None) -> Any:
        """A comprehension as loops, which put each value into a list or a dict."""
        hidden = f"_made{self.count}"
        self.frame.names[hidden] = out
        made = ast.Name(hidden, ast.Load())
        body: list[ast.stmt] = [ast.Expr(ast.Call(ast.Attribute(made, "append", ast.Load()),
                                                  [value], []))]  # fmt: skip
        if key is not None:
            body = [ast.Assign([ast.Subscript(made, key, ast.Store())], value)]
        for g in reversed(e.generators):
            for test in reversed(g.ifs):
                body = [ast.If(test, body, [])]
            body = [ast.For(g.target, g.iter, body, [])]
        loop: Any = ast.fix_missing_locations(ast.copy_location(body[0], e))
        before = dict(self.frame.names)
        self.do_for(loop)
        self.frame.names = before
        return out

    def of_joinedstr(self, e: ast.JoinedStr) -> Any:
        parts = []
        for v in e.values:
            part = self.expr(v.value if isinstance(v, ast.FormattedValue) else v)
            if isinstance(v, ast.FormattedValue) and v.conversion != -1:
                part = self.emit("code.repr", part)
            if isinstance(v, ast.FormattedValue) and v.format_spec is not None:
                part = self.emit("code.formatted", part, self.expr(v.format_spec))
            parts.append(part)
        return self.emit("code.format", *parts)

    def of_binop(self, e: ast.BinOp) -> Any:
        return self.operator(e, self.expr(e.left), self.expr(e.right), e.op)

    def of_unaryop(self, e: ast.UnaryOp) -> Any:
        return self.operator(e, self.expr(e.operand), None, e.op)

    def operator(self, e: Any, a: Any, b: Any, op: Any) -> Any:
        name = _BINARY[type(op)]
        given = [a] if b is None else [a, b]
        plain = [x.value for x in given if isinstance(x, StaticValue)]
        if len(plain) == len(given) and not any(isinstance(x, Tensor) for x in plain):
            return self.computed(e, getattr(operator, name), plain)
        return self.emit(f"code.{name}", *given)

    def computed(self, e: Any, fn: Any, args: Any, kwargs: Any = None) -> Any:
        """What a function gives for what is known."""
        try:
            return StaticValue(fn(*args, **(kwargs or {})))
        except Exception as error:
            self.fail(e, f"{type(error).__name__}: {error}")

    def of_compare(self, e: ast.Compare) -> Any:
        if len(e.ops) > 1:
            pairs = zip([e.left, *e.comparators], e.ops, e.comparators, strict=False)
            parts: list[ast.expr] = [ast.Compare(a, [op], [b]) for a, op, b in pairs]
            both = ast.copy_location(ast.BoolOp(ast.And(), parts), e)
            return self.expr(ast.fix_missing_locations(both))
        (op,), left, right = e.ops, self.expr(e.left), self.expr(e.comparators[0])
        if isinstance(op, (ast.In, ast.NotIn)):
            found = self.emit("code.contains", right, left)
            return found if isinstance(op, ast.In) else self.emit("code.not_", found)
        if isinstance(op, (ast.Is, ast.IsNot)) and isinstance(left, tuple):
            return StaticValue(isinstance(op, ast.IsNot))
        return self.operator(e, left, right, op)

    def of_boolop(self, e: ast.BoolOp) -> Any:
        stops = isinstance(e.op, ast.Or)  # at the first true one, or the first false one
        first, *rest = e.values
        value = self.expr(first)
        if isinstance(value, StaticValue):
            if bool(value.value) is stops or not rest:
                return value
            return self.expr(rest[0] if len(rest) == 1 else ast.copy_location(
                ast.BoolOp(e.op, rest), e))  # fmt: skip
        if not rest:
            return value
        more = rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(e.op, rest), e)
        return self.chosen(value, value if stops else more, more if stops else value)

    def of_ifexp(self, e: ast.IfExp) -> Any:
        test = self.expr(e.test)
        if isinstance(test, StaticValue):
            return self.expr(e.body if test.value else e.orelse)
        return self.chosen(test, e.body, e.orelse)

    def chosen(self, test: Any, yes: Any, no: Any) -> Ref:
        out = self.fresh("chosen")

        def of(x: Any) -> SubBlock:
            return self.block(lambda: self.expr(x) if isinstance(x, ast.AST) else x)

        self.control("branch", (test,), out, of(yes), of(no))
        return out

    def of_subscript(self, e: ast.Subscript) -> Any:
        x = self.expr(e.value)
        if isinstance(x, StaticValue) and isinstance(x.value, Module):
            at = self.expr(e.slice)
            if not isinstance(at, StaticValue):
                self.fail(e, "a module is found by a constant in the subset")
            key = range(len(x.value._modules))[at.value] if type(at.value) is int else at.value
            child = x.value._modules[str(key)]
            return StaticValue(child, f"{x.path}.{key}" if x.path else str(key))
        at = self.index(e.slice)
        if isinstance(x, tuple) and isinstance(at, (StaticValue, slice)):
            place = at.value if isinstance(at, StaticValue) else at
            try:
                return x[place]
            except IndexError as error:
                self.fail(e, f"IndexError: {error}")
        if (
            isinstance(x, StaticValue)
            and isinstance(at, StaticValue)
            and not isinstance(x.value, Tensor)
        ):
            try:
                return StaticValue(x.value[at.value])
            except (LookupError, TypeError) as error:
                self.fail(e, f"{type(error).__name__}: {error}")
        return self.emit("code.getitem", x, at)

    def index(self, e: Any) -> Any:
        if isinstance(e, ast.Tuple):
            return tuple([self.index(v) for v in e.elts])
        if isinstance(e, ast.Slice):
            ends = [None if v is None else self.expr(v) for v in (e.lower, e.upper, e.step)]
            return slice(*map(self.arg, ends))
        return self.expr(e)

    # --- calls

    def children(self, x: StaticValue, at: Any) -> list[StaticValue]:
        """The modules in a container, in order."""
        if not hasattr(x.value, "__iter__"):
            self.fail(at, f"a {type(x.value).__name__} is not iterated over in the subset")
        prefix = f"{x.path}." if x.path else ""
        return [StaticValue(m, prefix + k) for k, m in x.value._modules.items()]

    def of_call(self, e: ast.Call) -> Any:
        owner = self.expr(e.func.value) if isinstance(e.func, ast.Attribute) else None
        if owner is not None and not isinstance(owner, StaticValue):
            name = e.func.attr  # type: ignore[attr-defined]
            args, kwargs = self.arguments(e)
            if name == "wait" and not args:
                return owner  # what a fork gave
            if not _calls.has_method(name):
                self.fail(e, f"the method {name} of a value is not in the subset")
            return self.emit(f"method.{name}", owner, *args, **kwargs)
        fn = self.expr(e.func)
        if not isinstance(fn, StaticValue):
            self.fail(e, "what is called has to be known beforehand")
        return self.called(fn, owner, *self.arguments(e), e)

    def items(self, elements: list[ast.expr], e: Any) -> list[Any]:
        """Values of expressions, and all that each `*` gives, or a StarredArgs."""
        found: list[Any] = []
        for a in elements:
            value = self.expr(a.value if isinstance(a, ast.Starred) else a)
            if not isinstance(a, ast.Starred):
                found.append(value)
            elif isinstance(value, StaticValue) and isinstance(value.value, Module):
                found += self.children(value, e)
            elif isinstance(value, StaticValue):
                found += map(StaticValue, value.value)
            else:
                found += value if isinstance(value, (tuple, list)) else [StarredArgs(value)]
        return found

    def arguments(self, e: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        if any(k.arg is None for k in e.keywords):
            self.fail(e, "** in a call is not in the subset")
        args = self.items(e.args, e)
        return args, {str(k.arg): self.expr(k.value) for k in e.keywords}

    def called(self, fn: StaticValue, owner: Any, args: Any, kwargs: Any, e: Any) -> Any:
        f = fn.value
        if isinstance(f, Module):
            return self.emit("code.module_", fn, *args, **kwargs)
        if f in (enumerate, zip, reversed) and any(_has_module(a) for a in args):
            lists = [self.children(a, e) if isinstance(a, StaticValue) and isinstance(a.value,
            Module)
                     else list(a.value) for a in args]  # fmt: skip
            if f is enumerate:
                return [(StaticValue(i), m) for i, m in enumerate(lists[0])]
            return lists[0][::-1] if f is reversed else list(zip(*lists, strict=False))
        if (
            isinstance(owner, StaticValue)
            and isinstance(owner.value, Module)
            and owner.path is not None
        ):
            if f.__name__ in ("items", "values", "keys", "named_children", "children"):
                found = self.children(owner, e)
                if f.__name__ in ("values", "children"):
                    return found
                named = [(StaticValue(str(m.path).rpartition(".")[2]), m) for m in found]
                return [k for k, _ in named] if f.__name__ == "keys" else named
            inner = getattr(f, "__func__", None)
            if inner is not None and not is_layer(owner.value):
                if getattr(inner, "_jit_unused", False):
                    self.control("fail", ("RuntimeError", (f"{f.__name__} is unused",)), None)
                    return StaticValue(None)
                if getattr(inner, "_jit_ignored", False):
                    return self.emit("code.python_", StaticValue(f), *args, **kwargs)
                return self.function(inner, [owner, *args], kwargs, owner.path, e)
        if f is isinstance and len(args) == 2 and isinstance(args[1], StaticValue):
            asked = args[1].value if isinstance(args[1].value, tuple) else (args[1].value,)
            if not set(asked) <= set(_calls.KINDS.values()):
                self.fail(e, f"isinstance asks for {', '.join(_calls.KINDS)} in the subset")
            return self.emit("code.isinstance_", args[0], [k.__name__ for k in asked])
        if isinstance(owner, StaticValue) and isinstance(owner.value, (str, list, tuple, dict)):
            if not _calls.has_method(f.__name__):
                self.fail(e, f"the method {f.__name__} of a value is not in the subset")
            return self.emit(f"method.{f.__name__}", owner, *args, **kwargs)
        special = getattr(f, "_jit_special", None)
        if special is not None:
            return special(self, e, *args, **kwargs)
        if f is len and isinstance(args[0], StaticValue) and args[0].path is not None:
            return StaticValue(len(args[0].value))
        if f is len and isinstance(args[0], tuple):
            return StaticValue(len(args[0]))
        if isinstance(f, ScriptFunction):
            f = getattr(f, "_function", None) or self.fail(e, "a loaded function is not called")
        name = _NAMES.get(f) if _hashable(f) else None
        if name is not None:
            plain = [a.value for a in args if isinstance(a, StaticValue)]
            told = {k: a.value for k, a in kwargs.items() if isinstance(a, StaticValue)}
            ours = name.startswith("code.")
            if ours and not kwargs.keys() <= {*_calls.KEYWORDS.get(name[5:], ())}:
                self.fail(e, f"{', '.join(kwargs)} of {f.__name__} is not in the subset")
            known = len(plain) == len(args) and len(told) == len(kwargs)
            if ours and known and f not in (print, range):
                found = self.computed(e, f, plain, told)
                return StaticValue(tuple(found.value)) if f in (enumerate, zip, reversed) else found
            return self.emit(name, *args, **kwargs)
        if inspect.isclass(f) and issubclass(f, tuple) and hasattr(f, "_fields"):
            given = inspect.signature(f).bind(*args, **kwargs)
            given.apply_defaults()
            return self.emit("code.record", f.__name__, f._fields, *given.arguments.values())
        f = inspect.unwrap(f)
        inner = f"{module_of(f)}.".startswith("pyframe.")
        inner = inner and not module_of(f).startswith("pyframe.vision.")  # programs themselves
        if not inspect.isfunction(f) or inner:
            called, why = getattr(f, "__qualname__", repr(f)), "no graph may call it"
            if inspect.isclass(f):
                why = "of classes of one's own NamedTuples alone are"
            self.fail(e, f"{called} is not in the subset: {why}")
        if getattr(f, "_jit_ignored", False):
            return self.emit("code.python_", StaticValue(f), *args, **kwargs)
        return self.function(f, args, kwargs, self.frame.path, e)


class _FunctionNames(dict[Any, str]):
    """The names of functions, made when the first one is asked for."""

    def get(self, fn: Any, default: Any = None) -> Any:
        if not self:
            self.update({fn: name for name, fn in functions().items() if _hashable(fn)})
            self.update(names_of())
            self.update(_calls.NAMES)
            self.update({pf.tensor: "tensor", pf.as_tensor: "as_tensor"})
        return super().get(fn, default)


_NAMES = _FunctionNames()


def _hashable(x: Any) -> bool:
    return getattr(type(x), "__hash__", None) is not None


def _has_module(x: Any) -> bool:
    if isinstance(x, (tuple, list)):
        return any(map(_has_module, x))
    return isinstance(x, StaticValue) and isinstance(x.value, Module)


def _loaded(target: Any) -> Any:
    """What an augmented assignment reads."""
    again = ast.parse(ast.unparse(target), mode="eval").body
    for node in ast.walk(again):
        ast.copy_location(node, target)
    return again


class _TranslationFrame:
    """A function that is being translated."""

    def __init__(self, fn: Any, path: str, module: Module | None) -> None:
        self.path, self.prefix = path, ""
        self.file, self.lines, self.first = "", [], 1
        try:
            lines, self.first = inspect.getsourcelines(fn)
        except (OSError, TypeError):
            raise NotSupportedError(f"{fn}: there is no source to translate") from None
        self.file = inspect.getsourcefile(fn) or "?"
        text = textwrap.dedent("".join(lines))
        self.lines = text.splitlines()
        try:
            tree = ast.parse(text).body[0]
        except SyntaxError:
            tree = ast.Pass()
        if not isinstance(tree, ast.FunctionDef):
            raise NotSupportedError(f"{self.file}:{self.first}: expected a function, got {fn}")
        self.tree = tree
        if tree.args.kwarg:
            raise NotSupportedError(
                f"{self.file}:{self.first}: {tree.name} takes **, which is not in the subset"
            )
        self.names: dict[str, Any] = {}
        self.assigned = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)
                         and isinstance(n.ctx, ast.Store)}  # fmt: skip
        space = inspect.getclosurevars(fn)
        self.outside = {**vars(builtins), **fn.__globals__, **space.nonlocals}


def assigned(module: Module) -> set[str]:
    """The attributes that a module assigns when it is called; tensors that are written in place, as
    by `+=`, are not among them."""
    if is_layer(module) or isinstance(module, ScriptModule):
        return set()
    kind: Any = type(module)
    fresh, again = _assigned(kind, tuple(exported(module)))
    return fresh | {name for name in again if not isinstance(getattr(module, name, None), Tensor)}


def exported(module: Module) -> list[str]:
    """The methods that are translated."""
    marked = inspect.getmembers(type(module), lambda f: getattr(f, "_jit_export", False))
    return list(dict.fromkeys(["forward", *[name for name, _ in marked]]))


@functools.cache
def _assigned(kind: Any, methods: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """By `=`, and by operators such as `+=`: in these methods and in those that they call."""
    fresh: set[str] = set()
    again: set[str] = set()
    todo, seen = list(methods), set(methods)
    while todo:
        name = todo.pop()
        fn = inspect.unwrap(getattr(kind, name, None))  # type: ignore[arg-type]
        if not inspect.isfunction(fn) or fn is getattr(Module, name, None):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
        except (OSError, SyntaxError):
            continue
        targets = [n.target for n in ast.walk(tree) if isinstance(n, ast.AugAssign)]
        for n in ast.walk(tree):
            if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store):
                (again if n in targets else fresh).add(n.attr)
            elif isinstance(n, ast.Attribute) and n.attr not in seen:
                seen.add(n.attr)
                todo.append(n.attr)
    return fresh, again


def translated(fn: Any, module: Module | None) -> tuple[Graph, dict[str, Tensor]]:
    """The graph of a function, or of a module's method, and the tensors that it names."""
    t = Translator(module)
    parameters = list(inspect.signature(fn).parameters.values())
    given: list[Any] = []
    if module is not None:
        given.append(StaticValue(module, ""))
        parameters = parameters[1:]
    graph = t.graph
    refs = _interface(graph, parameters)
    given += [StarredArgs(r) if r == graph.rest else r for r in refs]
    out = t.function(fn, given, graph.inputs[1], "", None)
    graph.outputs = t.arg(out)
    return graph, t.constants


def _interface(graph: Graph, parameters: list[inspect.Parameter]) -> tuple[Ref, ...]:
    """Give a graph the parameters of a function."""
    named = {p.name: Ref(p.name) for p in parameters if p.kind is p.KEYWORD_ONLY}
    refs = tuple([Ref(p.name) for p in parameters if p.name not in named])
    graph.inputs, graph.names = (refs, named), list(map(str, refs))
    graph.defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    graph.rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")
    return refs


def _of_one_call(fn: Any, name: str, layer: Any = None) -> Graph:
    """The graph of a public function, or of a layer."""
    graph = Graph()
    kinds = inspect.Parameter
    places = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    given = _interface(graph, [p for p in inspect.signature(fn).parameters.values()
                               if p.kind in places])  # fmt: skip
    graph.outputs = Ref("out")
    if layer is not None:
        graph.state[""] = Ref("self")
        given = (Ref("self"), *given)
    graph.nodes.append(CallNode(name, given, {}, graph.outputs))
    return graph


def script(
    obj: Any = None, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:  # fmt: skip
    """A function or a Module as a graph with its branches and loops, from its source.

    The subset: assignments, `if`, `for`, `while`, `break`, `continue`, `return`, `assert`, `raise`,
    `with torch.no_grad()`, numbers, strings, lists, tuples and dicts with their methods,
    comprehensions of lists and dicts, `*` in calls, lists and parameters, and calls of the public
    API, of Python's and math's functions of numbers, of modules, and of other functions in the
    subset. NotSupportedError says the file, the line and why.

    Args:
        obj: What is translated; a class stays as it is.
        optimize, _frames_up, _rcb, example_inputs: Nothing is done with them.
    """
    if isinstance(obj, (ScriptModule, ScriptFunction)) or inspect.isclass(obj):
        return obj
    if isinstance(obj, Module):
        out = shell(obj, "", script=True)
        _fill(out, obj)
        if not isinstance(out, ScriptModule):
            out = as_script(out)
            out._graphs["forward"] = _of_one_call(obj.forward, "code.module_", out)
        return out
    if not callable(obj):
        raise TypeError(f"jit.script: expected a Module or a function, got {type(obj).__name__}")
    name = _NAMES.get(obj) if _hashable(obj) else None
    graph, constants = translated(obj, None) if name is None else (_of_one_call(obj, name), {})
    made = ScriptModule(obj.__name__)
    with_constants(made, graph, "forward", constants)
    found = ScriptFunction(made, obj.__doc__)
    found._function = obj
    return found


def _fill(out: Any, module: Module) -> None:
    """Translate the methods of a module, and of those in it."""
    for key, child in module._modules.items():
        if child is not None:
            _fill(out._modules[key], child)
    if is_layer(module) or isinstance(module, ScriptModule):
        return
    for name in assigned(module):
        held = getattr(module, name, None)
        if isinstance(held, Tensor) and name not in {**module._parameters, **module._buffers}:
            out.register_buffer(name, held, persistent=False)
    for name in exported(module):
        fn = inspect.unwrap(getattr(type(module), name))
        if fn is not Module.forward and not getattr(fn, "_jit_unused", False):
            graph, constants = translated(fn, module)
            with_constants(out, graph, name, constants)


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose branches and loops stay what they are in a trace.

    Args:
        fn: A function in the subset of `script`.
    """

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        return (fn if mode.tracer is None else script(fn))(*args, **kwargs)

    return run


def _mark(name: str) -> Callable[[Any], Any]:
    def mark(fn: Any) -> Any:
        setattr(fn, name, True)
        return fn

    return mark


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Leave a function to Python: it is called as it is, and can't be saved; with drop=True, it
    raises an error in a graph.

    Args:
        drop: Whether it raises an error; or the function itself.
        kwargs: Nothing is done with them.
    """
    if callable(drop):
        return _mark("_jit_ignored")(drop)
    return _mark("_jit_unused" if drop else "_jit_ignored")


unused = _mark("_jit_unused")
export = _mark("_jit_export")
unused.__doc__ = "Mark a function `fn` that no graph calls: there it raises an error."
export.__doc__ = "Mark a method `fn` that is translated besides `forward`."


def is_scripting() -> bool:
    """False; in a scripted function True."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; its type is for readers.

    Args:
        the_type: A type.
        the_value: What is returned.
    """
    return the_value


class Future(Generic[T]):
    """What a function gives that `fork` has run.

    Args:
        value: What `wait` gives.
    """

    def __init__(self, value: T) -> None:
        self._value = value

    def wait(self) -> T:
        """The value."""
        return self._value

    value = wait

    def done(self) -> bool:
        """True."""
        return True


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """A Future of what the function gives; it runs at once.

    Args:
        func: The function.
        args, kwargs: Its arguments.
    """
    return Future(func(*args, **kwargs))


def wait(future: Future[T]) -> T:
    """What a forked function gave.

    Args:
        future: What `fork` gave.
    """
    return future.wait()


def _forked(t: Translator, e: Any, fn: StaticValue, *args: Any, **kwargs: Any) -> Any:
    owner = getattr(fn.value, "__self__", None)
    paths = {id(m): name for name, m in (t.module.named_modules() if t.module else ())}
    known = StaticValue(owner, paths[id(owner)]) if id(owner) in paths else None
    return t.called(fn, known, args, kwargs, e)


for _fn, _special in {
    is_scripting: lambda t, e: StaticValue(True), annotate: lambda t, e, kind, value: value,
    fork: _forked, wait: lambda t, e, future: future,
}.items():  # fmt: skip
    _fn._jit_special = _special  # type: ignore[attr-defined]
