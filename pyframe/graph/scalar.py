"""Scalar IR: what an elementwise op means for one element, written once for all code generators.

The meaning of an op is a function of Scalars that stands beside the op:

    sigmoid = op("sigmoid", "x", …, lambda x: 1.0 / (1.0 + m.exp(-x)), …)

`meaning_of` traces it for operands of some types. What comes out is an expression over a few
primitives, which each printer knows (`PRIMITIVES`), and over named functions such as `exp`
(functions.py, mathematics.py): a printer has text of its own for these, or takes their definition,
which is written in Scalars too.

Types are named as in registers: f32, f64, i8 … i64, u8 … u64, bool and c64. Ints wrap around, their
`/` and `%` cut towards zero; a NaN is unequal to all and passes through `minimum` and `maximum`.
Bools know no arithmetic: what is asked of them as of numbers is logic, as in NumPy. Nor does c64,
which is two f32: what is asked of it becomes expressions of its parts (complexes.py).
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

# By what they take: floats, signed and unsigned ints, bools, c64. Comparisons give bool. `cast`
# converts as C does in PyTorch: floats to ints modulo 2^bits, what has no int becomes 0. `narrow`
# rounds f32 to the dtype `value`. `muladd` is a * b + c, rounded once or twice, as is faster.
_TAKES = {
    "fiub": "cast bitcast eq ne",
    "fiubc": "select",
    "fiu": "neg add sub mul div min max lt le",
    "fi": "abs",
    "f": "floor ceil trunc round sqrt narrow muladd complex",
    "c": "re im",
    "iub": "not and or xor",
    "iu": "rem shl shr",
}
_KINDS = {name: kinds for kinds, names in _TAKES.items() for name in names.split()}
PRIMITIVES = frozenset(_KINDS)
FLOATS = ("f32", "f64")
BITS = {"bool": 1, "f32": 32, "f64": 64, "c64": 64} | {
    f"{k}{n}": n for k in "iu" for n in (8, 16, 32, 64)
}


def _operator(op: str, type: str = "", turned: bool = False) -> Callable[[Scalar, Any], Scalar]:
    """The method that makes a primitive of a Scalar and another, or a number; `turned`, of what is
    on its right."""
    if turned:
        return lambda self, other: _binary(op, other, self, type)
    return lambda self, other: _binary(op, self, other, type)


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
        return _made("neg", (self,))

    def __invert__(self) -> Scalar:
        return _made("not", (self,))

    __add__, __radd__ = _operator("add"), _operator("add", turned=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", turned=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", turned=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", turned=True)
    __mod__ = _operator("rem")
    __and__, __or__, __xor__ = _operator("and"), _operator("or"), _operator("xor")
    __lshift__, __rshift__ = _operator("shl"), _operator("shr")
    __lt__, __gt__ = _operator("lt", "bool"), _operator("lt", "bool", turned=True)
    __le__, __ge__ = _operator("le", "bool"), _operator("le", "bool", turned=True)

    @property
    def is_float(self) -> bool:
        """Whether it is a float."""
        return self.type in FLOATS


def const(value: Any, type: str) -> Scalar:
    """The number `value`, which is known when the kernel is printed."""
    return Scalar("const", (), type, value)


def _made(op: str, args: tuple[Scalar, ...], type: str = "", value: Any = None) -> Scalar:
    """A primitive of operands, which is of the type of the last one unless `type` is given."""
    of = args[-1].type
    if of == "c64" and op in COMPLEX:
        return COMPLEX[op](*args)
    if of[0] not in _KINDS[op]:
        raise TypeError(f"{op} takes no {of}")
    return Scalar(op, args, type or of, value)


# What primitives and functions are of c64: complexes.py fills it
COMPLEX: dict[str, Callable[..., Scalar]] = {}


def re(x: Scalar) -> Scalar:
    """The real part of a c64."""
    return x.args[0] if x.op == "complex" else _part("re", x)


def im(x: Scalar) -> Scalar:
    """The imaginary part of a c64."""
    return x.args[1] if x.op == "complex" else _part("im", x)


def _part(op: str, x: Scalar) -> Scalar:
    if x.op == "const":
        value = builtins.complex(x.value)
        return const(value.real if op == "re" else value.imag, "f32")
    return _made(op, (x,), "f32")


def complex(re: Any, im: Any) -> Scalar:
    """The c64 of two f32."""
    return _made("complex", _alike("complex", re, im), "c64")


def _alike(op: str, *operands: Any) -> tuple[Scalar, ...]:
    """The operands, of one type; numbers among them become constants of it."""
    types = {x.type for x in operands if isinstance(x, Scalar)}
    if len(types) != 1:
        raise TypeError(f"{op} of {' and '.join(sorted(types)) or 'numbers'}: cast one of them")
    (type,) = types
    return tuple([x if isinstance(x, Scalar) else const(x, type) for x in operands])


def _binary(op: str, a: Any, b: Any, type: str = "") -> Scalar:
    a, b = _alike(op, a, b)
    if a.type == "bool" and op in _OF_BOOLS:
        return _OF_BOOLS[op](a, b)
    return _made(op, (a, b), type)


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
    """a * b + c of floats, rounded once or twice."""
    return _made("muladd", _alike("muladd", a, b, c))


def select(condition: Scalar, a: Any, b: Any) -> Scalar:
    """`a` where the condition holds, else `b`; both are computed."""
    if condition.type != "bool":
        raise TypeError(f"select by {condition.type}: cast it to bool")
    return _made("select", (condition, *_alike("select", a, b)))


def cast(x: Scalar, type: str) -> Scalar:
    """`x` converted; a number to bool is whether it is not 0, a complex one loses its imaginary
    part to all else."""
    if type == "c64" != x.type:
        return complex(cast(x, "f32"), 0.0)
    if x.type == "c64" != type:
        return ne(x, 0) if type == "bool" else cast(re(x), type)
    return x if x.type == type else _made("cast", (x,), type)


def bitcast(x: Scalar, type: str) -> Scalar:
    """The bits of `x` taken as another type of the same size."""
    if BITS[x.type] != BITS[type]:
        raise TypeError(f"bitcast of {x.type} to {type}")
    return x if x.type == type else _made("bitcast", (x,), type)


def narrow(x: Scalar, dtype: str) -> Scalar:
    """f32 rounded to what `dtype` (float16 or bfloat16) holds, ties to even."""
    return _made("narrow", (x,), value=dtype)


def _rounding(op: str) -> Callable[[Scalar], Scalar]:
    def run(x: Scalar) -> Scalar:
        return _made(op, (x,)) if x.is_float else x

    run.__name__, run.__doc__ = op, f"{op}(x); ints stay as they are."
    return run


floor, ceil, trunc = _rounding("floor"), _rounding("ceil"), _rounding("trunc")
round = _rounding("round")  # halves to even


def abs(x: Scalar) -> Scalar:
    """|x|."""
    return x if x.type[0] == "u" else _made("abs", (x,))


def sqrt(x: Scalar) -> Scalar:
    """The square root, rounded correctly."""
    return _made("sqrt", (x,))


# --- functions: what printers may have text of their own for


class NamedFunction(NamedTuple):
    """What is known of a function by its name."""

    definition: Callable[..., Scalar] | None
    type: str = ""  # of the result, where the definition doesn't say; "": the first operand's
    only: str = ""  # the one type that the definition is for
    loops: bool = False  # whether the printer's text is a loop


FUNCTIONS: dict[str, NamedFunction] = {}


def function(
    definition: Callable[..., Scalar], only: str = "", loops: bool = False
) -> Callable[..., Scalar]:
    """A function of Scalars that stays one call in an expression: see `inlined`. If its definition
    is one for the type `only`, it gives that type, and is external for others."""
    name = definition.__name__.rstrip("_")
    return _named(name, definition.__doc__, NamedFunction(definition, only=only, loops=loops))


def external(name: str, type: str = "", loops: bool = False) -> Callable[..., Scalar]:
    """A function that only printers with text of their own know, such as WGSL's, which may be a
    loop; its result has the first operand's type or `type`. What needs it runs through NumPy
    elsewhere."""
    return _named(name, f"{name} of the printer's library.", NamedFunction(None, type, loops=loops))


def _named(name: str, doc: str | None, known: NamedFunction) -> Callable[..., Scalar]:
    if name in FUNCTIONS:
        raise ValueError(f"the scalar function {name} is defined twice")
    FUNCTIONS[name] = known

    def call(*operands: Any) -> Scalar:
        like = next(x for x in operands if isinstance(x, Scalar))
        args = tuple([x if isinstance(x, Scalar) else const(x, like.type) for x in operands])
        if like.type == "c64" and name in COMPLEX:
            return COMPLEX[name](*args)
        made = Scalar("call", args, known.type or like.type, name)
        body = None if known.only else inlined(made)
        return made if body is None else Scalar("call", args, body.type, name)

    call.__name__, call.__doc__ = name, doc
    return call


def inlined(call: Scalar) -> Scalar | None:
    """A call as its definition, in which 'arg' n is the call's argument n; None if it has none for
    arguments of these types."""
    return _body(call.value, tuple([a.type for a in call.args]))


@functools.cache
def _body(name: str, types: tuple[str, ...]) -> Scalar | None:
    known = FUNCTIONS[name]
    if known.definition is None or (known.only and {*types} != {known.only}):
        return None
    return known.definition(*[Scalar("arg", (), t, n) for n, t in enumerate(types)])


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
def primitives(scalar: Callable[..., Scalar], types: tuple[str, ...], out: str) -> int:
    """How many an op of operands of these types takes, with those of functions."""
    return _count(meaning_of(scalar, types, out, "i32"))


def _count(x: Scalar) -> int:
    bodies = [inlined(part) if part.op == "call" else None for part in nodes_of(x)]
    return sum(1 if body is None else _count(body) for body in bodies)


@functools.lru_cache(4096)
def loops(scalar: Callable[..., Scalar], types: tuple[str, ...], out: str) -> bool:
    """Whether an op of operands of these types is computed by a loop."""
    parts = nodes_of(meaning_of(scalar, types, out, "i32"))
    return any(x.op == "call" and FUNCTIONS[x.value].loops for x in parts)
