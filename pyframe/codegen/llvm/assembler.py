"""LLVM IR written by hand in Python: values with operators, variables, loops.

    f = Assembler("scale", "ptr i64 float")
    x, n, factor = f.params
    with f.count(0, n * 4, 4) as at:
        f.store(x + at, f.load("float", x + at) * factor)

Types are LLVM's own names of them. An operator writes its instruction at once; what changes is kept
in a `Variable`. Addresses count bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias, Union

Operand: TypeAlias = Union["Value", int]
Condition: TypeAlias = Callable[[], "Value"]

_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul"}


class Value:
    """A value of `type`, by the name that LLVM's text has for it."""

    __slots__ = ("_name", "f", "type")

    def __init__(self, f: Assembler, type: str, name: str) -> None:
        self.f, self.type, self._name = f, type, name

    @property
    def name(self) -> str:
        """What stands for it in an instruction."""
        return self._name

    def op(self, name: str, other: Operand) -> Value:
        """The instruction `name` of this value and another of its type."""
        right = self.f.value(other, self.type).name
        return self.f.new(self.type, f"{name} {self.type} {self.name}, {right}")

    def __add__(self, other: Operand) -> Value:
        if self.type == "ptr":
            right = self.f.value(other, "i64").name
            return self.f.new("ptr", f"getelementptr i8, ptr {self.name}, i64 {right}")
        return self._arithmetic("add", other)

    def __sub__(self, other: Operand) -> Value:
        return self._arithmetic("sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self._arithmetic("mul", other)

    def _arithmetic(self, name: str, other: Operand) -> Value:
        is_float = "float" in self.type or "double" in self.type
        return self.op(_FLOAT[name] if is_float else name, other)

    def __floordiv__(self, other: Operand) -> Value:
        return self.op("udiv", other)

    def __mod__(self, other: Operand) -> Value:
        return self.op("urem", other)

    def __and__(self, other: Operand) -> Value:
        return self.op("and", other)

    def __or__(self, other: Operand) -> Value:
        return self.op("or", other)

    def compare(self, name: str, other: Operand) -> Value:
        """The i1 (a vector of them for one of ints) of `icmp name`."""
        right = self.f.value(other, self.type).name
        lanes, cross, _ = self.type.partition(" x ")
        kind = f"{lanes} x i1>" if cross else "i1"
        return self.f.new(kind, f"icmp {name} {self.type} {self.name}, {right}")

    def __lt__(self, other: Operand) -> Value:
        return self.compare("slt", other)

    def __gt__(self, other: Operand) -> Value:
        return self.compare("sgt", other)

    def __ge__(self, other: Operand) -> Value:
        return self.compare("sge", other)

    def equals(self, other: Operand) -> Value:
        """Whether both are the same."""
        return self.compare("eq", other)

    def differs(self, other: Operand) -> Value:
        """Whether they are not the same."""
        return self.compare("ne", other)

    def where(self, condition: Value, other: Operand) -> Value:
        """This where the condition holds, else the other."""
        right = self.f.value(other, self.type).name
        return self.f.new(
            self.type,
            f"select {condition.type} {condition.name}, {self.type} {self.name}, "
            f"{self.type} {right}",
        )

    def extended(self) -> Value:
        """An i64 of the same value."""
        return self.f.new("i64", f"sext {self.type} {self.name} to i64")

    def min(self, other: Operand) -> Value:
        """The less of two ints."""
        return self.where(self < other, other)

    def splat(self, lanes: int) -> Value:
        """A vector with it in every lane."""
        kind = f"<{lanes} x {self.type}>"
        one = self.f.new(kind, f"insertelement {kind} poison, {self.type} {self.name}, i64 0")
        return one.shuffle(one, [0] * lanes)

    def shuffle(self, other: Value, lanes: Sequence[int]) -> Value:
        """Lanes of this vector, and after its own those of another."""
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        kind = f"<{len(lanes)} x {self.type.split(' x ')[1]}"
        return self.f.new(
            kind,
            f"shufflevector {self.type} {self.name}, {other.type} {other.name}, "
            f"<{len(lanes)} x i32> <{mask}>",
        )

    def fma(self, factor: Value, total: Value) -> Value:
        """This times a factor and a total more, rounded once."""
        return self.f.call_intrinsic("llvm.fma", self.type, self, factor, total)


class Variable(Value):
    """A value that changes."""

    __slots__ = ("_at",)

    def __init__(self, f: Assembler, type: str, at: str) -> None:
        super().__init__(f, type, "")
        self._at = at

    @property
    def name(self) -> str:
        return self.f.new(self.type, f"load {self.type}, ptr {self._at}").name

    def set(self, value: Operand) -> None:
        """Let it be a value from now on."""
        self.f.line(f"store {self.type} {self.f.value(value, self.type).name}, ptr {self._at}")

    def add(self, value: Operand) -> None:
        """Let it be so much more."""
        self.set(self + value)


class Assembler:
    """A function without a result, written statement by statement."""

    def __init__(self, name: str, params: str, linkage: str = "internal ") -> None:
        self.head = f"define {linkage}void @{name}(" + ", ".join(
            f"{type} %p{i}" for i, type in enumerate(params.split())
        )
        self.name = name
        self.params = [Value(self, type, f"%p{i}") for i, type in enumerate(params.split())]
        self.lines: list[str] = []
        self.variables: list[str] = []
        self.declared: set[str] = set()
        self.names = 0

    def text(self) -> str:
        """The function."""
        return "\n".join(
            [f"{self.head}) #0 {{", "entry:", *self.variables, *self.lines, "ret void", "}", ""]
        )

    def line(self, text: str) -> None:
        """Write a line."""
        self.lines.append(text)

    def new(self, type: str, text: str) -> Value:
        """The value that an instruction gives."""
        self.names += 1
        self.lines.append(f"%t{self.names} = {text}")
        return Value(self, type, f"%t{self.names}")

    def value(self, x: Operand, type: str) -> Value:
        """A Python int as a constant, in each lane of a vector."""
        if isinstance(x, Value):
            return x
        if " x " in type:
            return Value(self, type, f"splat ({type.partition(' x ')[2][:-1]} {x})")
        return Value(self, type, "null" if type == "ptr" else str(x))

    def local(self, start: Operand | None = None, type: str = "") -> Variable:
        """A new variable, of an i64 if nothing says otherwise."""
        type = type or (start.type if isinstance(start, Value) else "i64")
        self.names += 1
        self.variables.append(f"%v{self.names} = alloca {type}")
        made = Variable(self, type, f"%v{self.names}")
        if start is not None:
            made.set(start)
        return made

    def load(self, type: str, at: Value, align: int) -> Value:
        """A value in memory."""
        return self.new(type, f"load {type}, ptr {at.name}, align {align}")

    def store(self, at: Value, value: Value, align: int) -> None:
        """Write a value to memory."""
        self.line(f"store {value.type} {value.name}, ptr {at.name}, align {align}")

    def zero(self, type: str) -> Value:
        """The number 0, in each lane of a vector."""
        return Value(self, type, "zeroinitializer" if " x " in type else "0")

    def lanes_below(self, count: Value, lanes: int) -> Value:
        """Which lanes have a number below `count`."""
        return self.numbers(lanes).compare("slt", count.splat(lanes))

    def numbers(self, lanes: int) -> Value:
        """The vector 0, 1, 2, …"""
        listed = ", ".join(f"i64 {x}" for x in range(lanes))
        return Value(self, f"<{lanes} x i64>", f"<{listed}>")

    def load_words(
        self, at: Value, names: Sequence[str], addresses: Sequence[str]
    ) -> dict[str, Value]:
        """The words of a launch by their names."""
        return {
            name: self.load("ptr" if name in addresses else "i64", at + 8 * i, 8)
            for i, name in enumerate(names)
        }

    def load_some(self, type: str, at: Value, lanes: Value, align: int) -> Value:
        """A vector in memory, of which only these lanes are read; the others are 0."""
        name = self._masked("load", type, f"{type} @", f"(ptr, i32, {lanes.type}, {type})")
        given = f"ptr {at.name}, i32 {align}, {lanes.type} {lanes.name}, {type} zeroinitializer"
        return self.new(type, f"call {type} @{name}({given})")

    def store_some(self, at: Value, value: Value, lanes: Value, align: int) -> None:
        """Write these lanes of a vector to memory."""
        name = self._masked(
            "store", value.type, "void @", f"({value.type}, ptr, i32, {lanes.type})"
        )
        given = f"{value.type} {value.name}, ptr {at.name}, i32 {align}, {lanes.type} {lanes.name}"
        self.line(f"call void @{name}({given})")

    def gather(self, type: str, at: Value, apart: Value, lanes: Value, align: int) -> Value:
        """A vector of what lies at offsets from an address, of which only these lanes are read; the
        others are 0."""
        count = type.partition(" x ")[0]
        places = self.new(
            f"{count} x ptr>", f"getelementptr i8, ptr {at.name}, {apart.type} {apart.name}"
        )
        name = f"llvm.masked.gather.{_suffix(type)}.{_suffix(places.type)}"
        self.declared.add(f"declare {type} @{name}({places.type}, i32, {lanes.type}, {type})")
        given = f"{places.type} {places.name}, i32 {align}, {lanes.type} {lanes.name}"
        return self.new(type, f"call {type} @{name}({given}, {type} zeroinitializer)")

    def fill(self, at: Value, nbytes: Value) -> None:
        """Write zeros to a multiple of 4 bytes."""
        whole = nbytes - nbytes % 64
        with self.count(0, whole, 64) as x:
            self.store(at + x, self.zero("<16 x i32>"), 4)
        with self.count(whole, nbytes, 4) as x:
            self.store(at + x, self.zero("i32"), 4)

    def _masked(self, kind: str, type: str, before: str, after: str) -> str:
        name = f"llvm.masked.{kind}.{_suffix(type)}.p0"
        self.declared.add(f"declare {before}{name}{after}")
        return name

    def prefetch(self, at: Value) -> None:
        """Say that what lies there will be written soon."""
        self.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.line(f"call void @llvm.prefetch.p0(ptr {at.name}, i32 1, i32 3, i32 1)")

    def call(self, function: Assembler, *arguments: Operand) -> None:
        """Call a function."""
        given = [self.value(x, p.type) for x, p in zip(arguments, function.params, strict=True)]
        listed = ", ".join(f"{x.type} {x.name}" for x in given)
        self.line(f"call void @{function.name}({listed})")

    def call_intrinsic(self, name: str, type: str, *arguments: Value) -> Value:
        """What a function of LLVM gives that has one type of operands and of its result."""
        full = f"{name}.{_suffix(type)}"
        types = ", ".join(x.type for x in arguments)
        self.declared.add(f"declare {type} @{full}({types})")
        listed = ", ".join(f"{x.type} {x.name}" for x in arguments)
        return self.new(type, f"call {type} @{full}({listed})")

    def _label(self) -> str:
        self.names += 1
        return f"l{self.names}"

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """What follows runs if the condition holds."""
        then, end = self._label(), self._label()
        self.line(f"br i1 {condition.name}, label %{then}, label %{end}")
        self.line(f"{then}:")
        yield
        self.line(f"br label %{end}")
        self.line(f"{end}:")

    @contextmanager
    def during(self, condition: Condition) -> Iterator[None]:
        """What follows runs again and again while the condition, asked before each time, holds."""
        body, end = self._label(), self._label()
        self.line(f"br i1 {condition().name}, label %{body}, label %{end}")
        self.line(f"{body}:")
        yield
        self.line(f"br i1 {condition().name}, label %{body}, label %{end}")
        self.line(f"{end}:")

    @contextmanager
    def count(self, start: Operand, stop: Operand, step: Operand = 1) -> Iterator[Variable]:
        """What follows runs for an i64 = start, start + step, … below `stop`."""
        i = self.local(start)
        with self.during(lambda: i < stop):
            yield i
            i.add(step)


def cut(size: Value, part: Value, parts: Value, whole: int = 1) -> tuple[Value, Value]:
    """Where one of equal parts begins and ends, at multiples of `whole`."""
    count = (size + (whole - 1)) // whole
    return (
        (count * part // parts * whole).min(size),
        (count * (part + 1) // parts * whole).min(size),
    )


def module(functions: Sequence[Assembler], bits: int) -> str:
    """The text of a module, for a processor with vectors of so many bits."""
    attributes = 'nounwind "no-builtins"'
    for width in ("prefer-vector-width", "min-legal-vector-width"):
        attributes += f' "{width}"="{bits}"'
    declared = sorted(set().union(*[f.declared for f in functions]))
    texts = [f.text() for f in functions]
    return "\n".join([*texts, *declared, f"attributes #0 = {{ {attributes} }}", ""])


def _suffix(type: str) -> str:
    """A type in the name of an intrinsic."""
    lanes, cross, base = type.strip("<>").partition(" x ")
    if not cross:
        lanes, base = "", lanes
    short = {"float": "f32", "double": "f64", "ptr": "p0"}.get(base, base)
    return f"v{lanes}{short}" if cross else short
