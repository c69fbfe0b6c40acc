"""Scalars as WGSL: what each primitive is for each type, and functions that have no text of theirs.

WGSL's compilers may take it that no number is NaN and may reorder: comparisons, least and largest
of floats are functions of shaders/lib, and signs are turned in the bits.
"""

from __future__ import annotations

import functools
import inspect
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

from pyframe.codegen.wgsl import library
from pyframe.core.dtypes import dtype as DType
from pyframe.core.op import Op
from pyframe.core.sizes import SymbolicSize, is_symbolic_size
from pyframe.graph import scalar as s
from pyframe.graph.scalar import FUNCTIONS, Scalar, inlined, nodes_of

# How tightly text holds together: a name or call; -x; a * b; a + b; all else that has operands,
# which WGSL mixes with nothing else without parentheses.
NAME, UNARY, PRODUCT, SUM, OTHER = range(5)

# (sign, how tightly it holds, what its operands may be at most without parentheses)
OPERATORS = {
    "mul": ("*", PRODUCT, PRODUCT, UNARY), "div": ("/", PRODUCT, PRODUCT, UNARY),
    "rem": ("%", PRODUCT, PRODUCT, UNARY), "add": ("+", SUM, SUM, PRODUCT),
    "sub": ("-", SUM, SUM, PRODUCT), "eq": ("==", OTHER, SUM, SUM), "ne": ("!=", OTHER, SUM, SUM),
    "lt": ("<", OTHER, SUM, SUM), "le": ("<=", OTHER, SUM, SUM), "and": ("&", OTHER, UNARY, UNARY),
    "or": ("|", OTHER, UNARY, UNARY), "xor": ("^", OTHER, UNARY, UNARY),
    "shl": ("<<", OTHER, UNARY, UNARY), "shr": (">>", OTHER, UNARY, UNARY),
}  # fmt: skip

CHAINED = ("and", "or", "xor")  # may follow one another without parentheses

# What is a function of WGSL's or of shaders/lib: by the type of its (first) operand, or of any
CALLS = {
    ("neg", "f32"): "pf_neg({0})",
    ("eq", "f32"): "pf_eq({0}, {1})",
    ("ne", "f32"): "pf_ne({0}, {1})",
    ("lt", "f32"): "pf_lt({0}, {1})",
    ("le", "f32"): "pf_le({0}, {1})",
    ("min", "f32"): "pf_min_f32({0}, {1})",
    ("max", "f32"): "pf_max_f32({0}, {1})",
    ("min", ""): "min({0}, {1})",
    ("max", ""): "max({0}, {1})",
    ("abs", ""): "abs({0})",
    ("floor", ""): "floor({0})",
    ("ceil", ""): "ceil({0})",
    ("trunc", ""): "trunc({0})",
    ("round", ""): "round({0})",
    ("sqrt", ""): "sqrt({0})",
    ("muladd", ""): "fma({0}, {1}, {2})",
    ("select", ""): "select({2}, {1}, {0})",
    ("bitcast", ""): "bitcast<{type}>({0})",
    ("re", ""): "({0}).x",
    ("im", ""): "({0}).y",
    ("complex", ""): "c64({0}, {1})",
    ("cast", ""): "{type}({0})",
    ("sign", "i32"): "sign({0})",
    ("rsqrt", "f32"): "inverseSqrt({0})",
    # what compilers may not reorder: Mesa joins `fma(n, a, fma(n, b, x))`
    ("plus_part", "f32"): "({0} - {1} * -({2}))",
    ("whole", "f32"): "round(({0}) * {1})",
    ("whole_bits", "f32"): "bitcast<u32>(i32(round(({0}) * {1})) + i32({2}))",
    # ints are taken modulo 2^32
    ("cast to i32", "f32"): "pf_i32({0})",
    ("cast to u32", "f32"): "pf_u32({0})",
    ("cast to bool", "f32"): "pf_bool({0})",
    ("narrow to bfloat16", "f32"): "pf_bfloat16({0})",
}

# What brings a computed value back into the range of a dtype that is narrower than its register
_WRAPPED: dict[str, Callable[[Scalar], Scalar]] = {
    "int8": lambda x: (x << 24) >> 24,
    "int16": lambda x: (x << 16) >> 16,
    "uint8": lambda x: x & 255,
    "uint16": lambda x: x & 65535,
    "bfloat16": lambda x: s.narrow(x, "bfloat16"),
}

INLINE_MAX_PARTS = 6  # parts of a definition that is printed where it is called


@functools.lru_cache(4096)
def computed(op: Op, types: tuple[str, ...], dtype: DType) -> Scalar:
    """An elementwise op's meaning for operands of these types; its result is one of `dtype`."""
    assert op.scalar is not None
    assert dtype.compute is not None
    return _wrapped(s.meaning_of(op.scalar, types, dtype.compute, "i32"), dtype)


@functools.cache
def wrapped(dtype: DType) -> Scalar:
    """Operand 0, a value computed in the register's type, as one of `dtype`."""
    return _wrapped(Scalar("arg", (), dtype.compute or "f32", 0), dtype)


def _wrapped(x: Scalar, dtype: DType) -> Scalar:
    return _WRAPPED[dtype.name](x) if dtype.name in _WRAPPED else x


class SizeUniforms(threading.local):
    """The sizes that the kernel which a thread prints reads, and their numbers."""

    def __init__(self) -> None:
        self.sizes: dict[SymbolicSize, int] = {}


printed = SizeUniforms()


def literal(value: Any, type: str) -> str:
    """A number as WGSL writes it; a size that changes is the result of a function, see `reads`."""
    if is_symbolic_size(value):
        text = f"size{printed.sizes.setdefault(value, len(printed.sizes))}()"
        return text if type in ("i32", "index") else f"{type}({text})"
    if type == "bool":
        return "true" if value else "false"
    if type == "c64":
        value = complex(value)
        return f"c64({literal(value.real, 'f32')}, {literal(value.imag, 'f32')})"
    if type == "f32":
        value = float(value)
        if abs(value) < 3.4028235677973366e38:  # what is beyond is rounded to infinity
            return repr(value)
        return (
            "pf_nan_f32()" if value != value else "pf_inf_f32()" if value > 0 else "pf_ninf_f32()"
        )
    value = int(value)
    if type == "u32":
        return f"{value % 2**32}u"
    value = (value + 2**31) % 2**32 - 2**31
    return str(value) if value > -(2**31) else "(-2147483647 - 1)"


def count(n: Any) -> str:
    """A number of elements."""
    return literal(n, "i32")


def reads(first: int, sizes: int) -> str:
    """The functions that read the sizes of the kernel, which lie among its scalars from that word
    on."""
    return "".join(
        f"fn size{n}() -> i32 {{ return i32(params[{word // 4}][{word % 4}]); }}\n"
        for n, word in enumerate(range(first, first + sizes))
    )


def text_of(x: Scalar, args: Sequence[str], let: Callable[[str], str]) -> str:
    """An expression whose operands are the names `args`. What it needs several times becomes a
    line of its own: `let(text)` gives its name."""
    return _Printer(x, [(a, NAME) for a in args], let).text(x)[0]


@functools.lru_cache(4096)
def axes_of(x: Scalar) -> frozenset[int]:
    """The axes whose indices an expression asks for."""
    return frozenset([n.value for n in nodes_of(x) if n.op == "index"])


@functools.lru_cache(4096)
def _uses(x: Scalar) -> dict[Scalar | int, int]:
    """How often the parts of an expression are taken; operands by their number."""
    out: dict[Scalar | int, int] = {}
    for node in nodes_of(x):
        for a in node.args:
            part = a.value if a.op == "arg" else a
            out[part] = out.get(part, 0) + 1
    return out


class _Printer:
    def __init__(
        self, root: Scalar, args: Sequence[tuple[str, int]], let: Callable[[str], str]
    ) -> None:
        self.args, self.let, self.uses = args, let, _uses(root)
        self.names: dict[Scalar, str] = {}

    def text(self, x: Scalar) -> tuple[str, int]:
        """The text of a part, and how tightly it holds together."""
        if x.op == "arg":
            return self.args[x.value]
        if x.op == "const":
            text = literal(x.value, x.type)
            return text, UNARY if text[0] == "-" else NAME
        if x.op == "index":
            return f"i{x.value}", NAME
        if x in self.names:
            return self.names[x], NAME
        found, tight = self.call(x) if x.op == "call" else self.primitive(x)
        if self.uses.get(x, 0) > 1:
            self.names[x] = found = self.let(found)
            tight = NAME
        return found, tight

    def within(self, x: Scalar, most: int) -> str:
        found, tight = self.text(x)
        return found if tight <= most else f"({found})"

    def primitive(self, x: Scalar) -> tuple[str, int]:
        op, of = x.op, x.args[0].type
        if op == "select":
            of = x.type
        form = None
        if op in ("cast", "narrow"):
            form = CALLS.get((f"{op} to {x.value or x.type}", of))
        form = form or CALLS.get((op, of)) or CALLS.get((op, ""))
        if form is not None:
            return form.format(*[self.text(a)[0] for a in x.args], type=x.type), NAME
        if op == "not":
            return ("!" if of == "bool" else "~") + self.within(x.args[0], NAME), UNARY
        if op == "neg":
            if of == "u32":
                return f"0u - {self.within(x.args[0], PRODUCT)}", SUM
            return f"-{self.within(x.args[0], NAME)}", UNARY
        sign, tight, left, right = OPERATORS[op]
        a, b = x.args
        first = self.within(a, OTHER if a.op == op and op in CHAINED else left)
        if op == "sub" and of == "f32":
            return f"{first} + pf_neg({self.text(b)[0]})", tight
        if op in ("shl", "shr"):
            return f"{first} {sign} {self.count(b)}", tight
        return f"{first} {sign} {self.within(b, right)}", tight

    def count(self, x: Scalar) -> str:
        """By how many bits to shift: an u32."""
        if x.op == "const":
            return literal(x.value, "u32")
        return self.within(x, UNARY) if x.type == "u32" else f"u32({self.text(x)[0]})"

    def call(self, x: Scalar) -> tuple[str, int]:
        types = [a.type for a in x.args]
        form, name = CALLS.get((x.value, types[0])), _name(x.value, types)
        args = [self.text(a) for a in x.args]
        texts = [text for text, _ in args]
        if form is not None:
            return form.format(*texts), NAME
        body = None if name in library.functions() else inlined(x)
        if body is None or len([*nodes_of(body)]) > INLINE_MAX_PARTS:
            return f"{name}({', '.join(texts)})", NAME
        uses = _uses(body)
        named = [
            (self.let(text), NAME) if tight != NAME and uses.get(n, 0) > 1 else (text, tight)
            for n, (text, tight) in enumerate(args)
        ]
        return _Printer(body, named, self.let).text(body)


def _name(function: str, types: Sequence[str]) -> str:
    """What a function of operands of these types is called: as in shaders/lib if it is there."""
    known = library.functions()
    for name in (f"pf_{function}_{types[0]}", f"pf_{function}"):
        if name in known:
            return name
    return "_".join(["pf", function, *(types[:1] if len({*types}) == 1 else types)])


def definition(name: str) -> str:
    """The text of the function that `_name` calls so, from its definition."""
    found = re.fullmatch(r"pf_(\w+?)((?:_(?:f32|i32|u32|bool|c64))+)", name)
    known = FUNCTIONS.get(found[1]) if found else None
    if found is None or known is None or known.definition is None:
        raise RuntimeError(f"WGSL: no function {name} in shaders/lib")
    types = found[2].split("_")[1:]
    if len(types) == 1:  # of all operands
        types *= len(inspect.signature(known.definition).parameters)
    args = [Scalar("arg", (), t, n) for n, t in enumerate(types)]
    body = inlined(Scalar("call", tuple(args), "", found[1]))
    assert body is not None
    lines: list[str] = []
    names = [f"x{n}" for n in range(len(types))]
    lines.append(f"return {text_of(body, names, naming(lines))};")
    head = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    return f"fn {name}({head}) -> {body.type} {{ {' '.join(lines)} }}"


def naming(lines: list[str], tag: str = "t") -> Callable[[str], str]:
    """`let(text)`, which gives the name of a value: the text itself where that is a name, else that
    of a new line."""

    def let(text: str) -> str:
        if text.isidentifier():
            return text
        name = f"{tag}{len(lines)}"
        lines.append(f"let {name} = {text};")
        return name

    return let
