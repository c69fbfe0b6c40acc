"""Scalar IR: what an elementwise op means for one element, written once for all code generators.

The meaning of an op is a function of Scalars that stands beside the op:

    sigmoid = op("sigmoid", "x", …, lambda x: 1.0 / (1.0 + f.exp(-x)), …)

`meaning_of` traces it for operands of some types. What comes out is an expression over a few
primitives, which each printer knows (`PRIMITIVES`), and over named functions such as `exp`
(functions.py): a printer has text of its own for these, or takes their definition, which is written
in Scalars too.

Types are named as in registers: f32, f64, i8 … i64, u8 … u64 and bool. Ints wrap around, `/` of
ints and `%` cut towards zero, a NaN is unequal to all and passes through `minimum` and `maximum`.
Bools know no arithmetic: what is asked of them as of numbers is logic, as in NumPy.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

# Of one operand, of two, of three; comparisons give bool. `cast` converts as C does in PyTorch:
# floats to ints modulo 2^bits, what has no int becomes 0. `narrow` rounds f32 to the dtype `value`.
# `muladd` of floats is a * b + c, rounded once or twice, as is faster.
PRIMITIVES = frozenset(
    "neg abs floor ceil trunc round sqrt not cast bitcast narrow "
    "add sub mul div rem min max eq ne lt le and or xor shl shr muladd select".split()
)
FLOATS = ("f32", "f64")
BITS = {"bool": 8, "f32": 32, "f64": 64} | {f"{k}{n}": n for k in "iu" for n in (8, 16, 32, 64)}


class Scalar:
    """An expression: `op` is a primitive, 'arg' (operand number `value`), 'const' (the number
    `value`), 'index' (along axis `value` of a kernel) or 'call' (of the function named `value`)."""

    __slots__ = ("args", "op", "type", "value")
    __hash__ = object.__hash__

    def __init__(self, op: str, args: tuple[Scalar, ...], type: str, value: Any = None) -> None:
        self.op, self.args, self.type, self.value = op, args, type, value

    def __repr__(self) -> str:
        if self.op in ("arg", "const", "index"):
            return f"{self.op}({self.value}: {self.type})"
        name = self.value if self.op == "call" else self.op
        return f"{name}:{self.type}({', '.join(map(repr, self.args))})"

    def __bool__(self) -> bool:
        raise TypeError("a Scalar has no value yet; choose with select(condition, a, b)")

    def __neg__(self) -> Scalar:
        return Scalar("neg", (self,), self.type)

    def __invert__(self) -> Scalar:
        return Scalar("not", (self,), self.type)

    def __add__(self, other: Any) -> Scalar:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Scalar:
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> Scalar:
        return _binary("sub", self, other)

    def __rsub__(self, other: Any) -> Scalar:
        return _binary("sub", other, self)

    def __mul__(self, other: Any) -> Scalar:
        return _binary("mul", self, other)

    def __rmul__(self, other: Any) -> Scalar:
        return _binary("mul", other, self)

    def __truediv__(self, other: Any) -> Scalar:
        return _binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Scalar:
        return _binary("div", other, self)

    def __mod__(self, other: Any) -> Scalar:
        return _binary("rem", self, other)

    def __and__(self, other: Any) -> Scalar:
        return _binary("and", self, other)

    def __or__(self, other: Any) -> Scalar:
        return _binary("or", self, other)

    def __xor__(self, other: Any) -> Scalar:
        return _binary("xor", self, other)

    def __lshift__(self, other: Any) -> Scalar:
        return _binary("shl", self, other)

    def __rshift__(self, other: Any) -> Scalar:
        return _binary("shr", self, other)

    def __lt__(self, other: Any) -> Scalar:
        return _binary("lt", self, other, "bool")

    def __le__(self, other: Any) -> Scalar:
        return _binary("le", self, other, "bool")

    def __gt__(self, other: Any) -> Scalar:
        return _binary("lt", other, self, "bool")

    def __ge__(self, other: Any) -> Scalar:
        return _binary("le", other, self, "bool")

    @property
    def is_float(self) -> bool:
        """Whether it is a float."""
        return self.type in FLOATS


def const(value: Any, type: str) -> Scalar:
    """The number `value`, which is known when the kernel is printed."""
    return Scalar("const", (), type, value)


def _operand(x: Any, like: Any) -> Scalar:
    return x if isinstance(x, Scalar) else const(x, like.type)


def _binary(op: str, a: Any, b: Any, type: str = "") -> Scalar:
    a, b = _operand(a, b), _operand(b, a)
    if a.type != b.type:
        raise TypeError(f"{op} of {a.type} and {b.type}: cast one of them")
    if a.type == "bool" and op in _OF_BOOLS:
        return _OF_BOOLS[op](a, b)
    return Scalar(op, (a, b), type or a.type)


# Arithmetic and order of 0 and 1, as logic
_OF_BOOLS: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "add": lambda a, b: a | b,
    "mul": lambda a, b: a & b,
    "min": lambda a, b: a & b,
    "max": lambda a, b: a | b,
    "lt": lambda a, b: ~a & b,
    "le": lambda a, b: ~a | b,
    "xor": lambda a, b: ne(a, b),
}


def eq(a: Any, b: Any) -> Scalar:
    """a == b."""
    return _binary("eq", a, b, "bool")


def ne(a: Any, b: Any) -> Scalar:
    """a != b, which holds of NaN and itself."""
    return _binary("ne", a, b, "bool")


def minimum(a: Any, b: Any) -> Scalar:
    """The lesser; NaN if either is."""
    return _binary("min", a, b)


def maximum(a: Any, b: Any) -> Scalar:
    """The larger; NaN if either is."""
    return _binary("max", a, b)


def muladd(a: Any, b: Any, c: Any) -> Scalar:
    """a * b + c of floats, of which two at least are Scalars; rounded once or twice."""
    like = next(x for x in (a, b, c) if isinstance(x, Scalar))
    args = tuple([_operand(x, like) for x in (a, b, c)])
    if any(x.type != like.type for x in args):
        raise TypeError(f"muladd of {', '.join([x.type for x in args])}: cast them")
    return Scalar("muladd", args, like.type)


def select(condition: Scalar, a: Any, b: Any) -> Scalar:
    """`a` where the condition holds, else `b`; both are computed."""
    a, b = _operand(a, b), _operand(b, a)
    if a.type != b.type:
        raise TypeError(f"select of {a.type} and {b.type}: cast one of them")
    return Scalar("select", (condition, a, b), a.type)


def cast(x: Scalar, type: str) -> Scalar:
    """`x` converted; a number to bool is whether it is not 0."""
    return x if x.type == type else Scalar("cast", (x,), type)


def bitcast(x: Scalar, type: str) -> Scalar:
    """The bits of `x` taken as another type of the same size."""
    return x if x.type == type else Scalar("bitcast", (x,), type)


def narrow(x: Scalar, dtype: str) -> Scalar:
    """f32 rounded to what `dtype` (float16 or bfloat16) holds, ties to even."""
    return Scalar("narrow", (x,), x.type, dtype)


def _rounding(op: str) -> Callable[[Scalar], Scalar]:
    def run(x: Scalar) -> Scalar:
        return Scalar(op, (x,), x.type) if x.is_float else x

    run.__name__, run.__doc__ = op, f"{op}(x); ints stay as they are."
    return run


floor, ceil, trunc = _rounding("floor"), _rounding("ceil"), _rounding("trunc")
round = _rounding("round")  # halves to even


def abs(x: Scalar) -> Scalar:
    """|x|."""
    return x if x.type[0] == "u" else Scalar("abs", (x,), x.type)


def sqrt(x: Scalar) -> Scalar:
    """The square root, rounded correctly."""
    return Scalar("sqrt", (x,), x.type)


# --- functions: what printers may have text of their own for

FUNCTIONS: dict[str, Callable[..., Scalar] | None] = {}


def function(definition: Callable[..., Scalar], only: str = "") -> Callable[..., Scalar]:
    """A function of Scalars that stays one call in an expression: see `inlined`. If its definition
    is one for the type `only`, it gives that type, and is external for others."""
    name = definition.__name__.rstrip("_")
    if only:
        _ONLY[name] = only
    return _named(name, definition, definition.__doc__)


_ONLY: dict[str, str] = {}


def external(name: str, type: str = "", loops: bool = False) -> Callable[..., Scalar]:
    """A function that only printers with text of their own know, such as WGSL's, which may be a
    loop; its result has the first operand's type or `type`. What needs it runs through NumPy
    elsewhere."""
    if loops:
        _LOOPS.add(name)
    return _named(name, None, f"{name} of the printer's library.", type)


_LOOPS: set[str] = set()


def _named(name: str, definition: Any, doc: str | None, type: str = "") -> Callable[..., Scalar]:
    if name in FUNCTIONS:
        raise ValueError(f"the scalar function {name} is defined twice")
    FUNCTIONS[name] = definition

    def call(*operands: Any) -> Scalar:
        like = next(x for x in operands if isinstance(x, Scalar))
        args = tuple([_operand(x, like) for x in operands])
        out = type or like.type
        if definition is not None and name not in _ONLY:
            out = _body(name, tuple([a.type for a in args])).type
        return Scalar("call", args, out, name)

    call.__name__, call.__doc__ = name, doc
    return call


@functools.cache
def _body(name: str, types: tuple[str, ...]) -> Scalar:
    """The definition of a function, traced for operands of these types."""
    definition: Any = FUNCTIONS[name]
    return definition(*[Scalar("arg", (), t, n) for n, t in enumerate(types)])


def inlined(call: Scalar) -> Scalar | None:
    """A call as its definition, in which 'arg' n is the call's argument n; None if it has none."""
    types = tuple([a.type for a in call.args])
    only = _ONLY.get(call.value)
    if FUNCTIONS[call.value] is None or (only and any(t != only for t in types)):
        return None
    return _body(call.value, types)


# --- meanings of ops


@functools.lru_cache(4096)
def meaning_of(
    scalar: Callable[..., Scalar], types: tuple[str, ...], out: str, index: str = ""
) -> Scalar:
    """An op's meaning for operands of these types: they are the Scalars 'arg' 0, 1, …

    A meaning that has a parameter `out` is told the result's type; one with `i` gets the element's
    flat index, of the type `index`, as the last operand.
    """
    operands = [Scalar("arg", (), t, n) for n, t in enumerate(types)]
    names = inspect.signature(scalar).parameters
    named: dict[str, Any] = {"out": out} if "out" in names else {}
    if "i" in names:
        named["i"] = Scalar("arg", (), index, len(types))
    return scalar(*operands, **named)


def nodes_of(x: Scalar) -> Iterator[Scalar]:
    """Each part of an expression once, operands before what takes them."""
    seen: set[Scalar] = set()
    todo = [(x, False)]
    while todo:
        node, ready = todo.pop()
        if ready:
            yield node
        elif node not in seen:
            seen.add(node)
            todo.append((node, True))
            todo += [(a, False) for a in reversed(node.args)]


@functools.lru_cache(4096)
def loops(scalar: Callable[..., Scalar], types: tuple[str, ...], out: str) -> bool:
    """Whether an op of operands of these types is computed by a loop."""
    return any(x.value in _LOOPS for x in nodes_of(meaning_of(scalar, types, out, "i32")))
