"""LLVM IR written by hand in Python: the text of what codegen/cpu/assembler.py describes.

    f = Assembler("scale", "ptr i64 float")
    x, n, factor = f.params
    with f.count(0, n * 4, 4) as at:
        f.store(x + at, f.load("float", x + at) * factor)

Types are LLVM's own names of them, or those of codegen/cpu. An operator writes its instruction at
once; what changes is kept in a `Variable`. Addresses count bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from pyframe.codegen.cpu import assembler as cpu
from pyframe.codegen.cpu.assembler import Operand

Condition: TypeAlias = Callable[[], "Value"]

_TYPES = {"f32": "float", "f64": "double", "word": "i64"}
# instructions of floats and of ints, and how these are compared
_OPS = {
    "add": "fadd add", "sub": "fsub sub", "mul": "fmul mul", "div": "fdiv udiv", "rem": "- urem",
    "and": "- and", "or": "- or", "xor": "- xor", "shl": "- shl", "shr_u": "- lshr",
    "shr_s": "- ashr",
}  # fmt: skip
_COMPARES = {
    "eq": "oeq eq", "ne": "une ne", "lt": "olt slt", "le": "ole sle", "gt": "ogt sgt",
    "ge": "oge sge", "lt_u": "- ult", "ge_u": "- uge",
}  # fmt: skip


def _type(name: str) -> str:
    """LLVM's name of a type."""
    base, cross, lanes = name.partition("x")
    if cross and lanes.isdigit():
        return f"<{lanes} x {_TYPES.get(base, base)}>"
    return _TYPES.get(name, name)


class Value(cpu.Value):
    """A value of `type`, by the name that LLVM's text has for it."""

    __slots__ = ("_name", "f")

    def __init__(self, f: Assembler, type: str, name: str) -> None:
        self.f, self.type, self._name = f, type, name

    @property
    def name(self) -> str:
        """What stands for it in an instruction."""
        return self._name

    @property
    def is_float(self) -> bool:
        """Whether it is a float, or a vector of them."""
        return "float" in self.type or "double" in self.type

    def op(self, name: str, *others: Operand) -> Value:
        """The instruction `name` of this value and another of its type."""
        left, (other,) = self.name, others
        if self.type == "ptr" and name == "add":
            right = self.f.value(other, "i64").name
            return self.f.new("ptr", f"getelementptr i8, ptr {left}, i64 {right}")
        right = self.f.value(other, self.type).name
        of = 0 if self.is_float else 1
        if name in _COMPARES:
            word = ("fcmp", "icmp")[of]
            lanes, cross, _ = self.type.partition(" x ")
            kind = f"{lanes} x i1>" if cross else "i1"
            how = _COMPARES[name].split()[of]
            return self.f.new(kind, f"{word} {how} {self.type} {left}, {right}")
        if name in ("min", "max"):  # of floats: a NaN stays
            a = Value(self.f, self.type, left)
            first = a < other if name == "min" else a > other
            return a.where(first | a.differs(a), other)
        full = _OPS[name].split()[of]
        return self.f.new(self.type, f"{full} {self.type} {left}, {right}")

    def where(self, condition: Value, other: Operand) -> Value:
        """This where the condition holds, else the other."""
        right = self.f.value(other, self.type).name
        return self.f.new(
            self.type,
            f"select {condition.type} {condition.name}, {self.type} {self.name}, "
            f"{self.type} {right}",
        )

    def cast(self, type: str) -> Value:
        """The same number as another type, an int with its sign."""
        type = _type(type)
        if type == self.type:
            return self
        if self.is_float:
            word = "fpext" if type == "double" else "fptrunc"
        else:
            word = "sext" if int(type[1:]) > int(self.type[1:]) else "trunc"
        return self.f.new(type, f"{word} {self.type} {self.name} to {type}")

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


class Variable(Value, cpu.Variable):
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


class Assembler(cpu.Assembler):
    """A function without a result, written statement by statement; a processor's vectors have so
    many `bits`, and `fault` is where it notes one."""

    below = "lt"

    def __init__(self, name: str, params: str, linkage: str = "internal ", bits: int = 128) -> None:
        self.bits, self.fault = bits, "null"
        self._labels: list[list[str]] = []  # of what follows a `when`: its other part, and its end
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
        type = _type(type) or (start.type if isinstance(start, Value) else "i64")
        self.names += 1
        self.variables.append(f"%v{self.names} = alloca {type}")
        made = Variable(self, type, f"%v{self.names}")
        if start is not None:
            made.set(start)
        return made

    def load(self, type: str, at: Value, offset: int = 0, align: int = 0) -> Value:
        """A value in memory, which lies at a multiple of the bytes of an element or `align`."""
        type, at = _type(type), at + offset if offset else at
        return self.new(type, f"load {type}, ptr {at.name}, align {align or _bytes(type)}")

    def store(self, at: Value, value: Value, offset: int = 0, align: int = 0) -> None:
        """Write a value to memory."""
        at, align = at + offset if offset else at, align or _bytes(value.type)
        self.line(f"store {value.type} {value.name}, ptr {at.name}, align {align}")

    def lanes(self, type: str) -> int:
        """How many lanes the processor's vectors have."""
        return self.bits // (8 * _bytes(_type(type)))

    def copy(self, to: Value, source: Value, nbytes: Value) -> None:
        """Write bytes that lie elsewhere: by vectors, the last of which may be a part, and what is
        less than 4 one by one."""
        lanes, done = self.lanes("i32"), self.local(0)
        vector = f"<{lanes} x i32>"
        with self.during(lambda: done + 4 * lanes <= nbytes):
            self.store(to + done, self.load(vector, source + done))
            done.add(4 * lanes)
        rest = (nbytes - done).op("shr_u", 2)
        with self.when(rest > 0):
            some = self.lanes_below(rest.cast("i32"), lanes)
            self.store_some(to + done, self.load_some(vector, source + done, some, 4), some, 4)
            done.add(rest * 4)
        with self.during(lambda: done < nbytes):
            self.store(to + done, self.load("i8", source + done))
            done.add(1)

    def fail(self) -> None:
        """What the op's NumPy function raises an error for was found."""
        self.line(f"store i64 1, ptr {self.fault}, align 8")

    def zero(self, type: str) -> Value:
        """The number 0, in each lane of a vector."""
        return Value(self, type, "zeroinitializer" if " x " in type else "0")

    def lanes_below(self, count: Value, lanes: int) -> Value:
        """Which lanes have a number below `count`."""
        return self.numbers(lanes, count.type) < count.splat(lanes)

    def numbers(self, lanes: int, type: str = "i64") -> Value:
        """The vector 0, 1, 2, …"""
        listed = ", ".join(f"{type} {x}" for x in range(lanes))
        return Value(self, f"<{lanes} x {type}>", f"<{listed}>")

    def load_words(
        self, at: Value, names: Sequence[str], addresses: Sequence[str]
    ) -> dict[str, Value]:
        """The words of a launch by their names."""
        return {
            name: self.load("ptr" if name in addresses else "i64", at + 8 * i, align=8)
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

    def fill(self, at: Value, nbytes: Operand) -> None:
        """Write zeros to a multiple of 4 bytes."""
        nbytes = self.value(nbytes, "i64")
        whole = nbytes - nbytes % 64
        with self.count(0, whole, 64) as x:
            self.store(at + x, self.zero("<16 x i32>"))
        with self.count(whole, nbytes, 4) as x:
            self.store(at + x, self.zero("i32"))

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
        then, *rest = self._label(), self._label(), self._label()
        self.line(f"br i1 {condition.name}, label %{then}, label %{rest[0]}")
        self.line(f"{then}:")
        self._labels.append(rest)
        yield
        self._end(self._labels.pop()[0], "")

    def otherwise(self) -> None:
        """Within `when`: what follows runs if it doesn't."""
        other = self._labels[-1].pop(0)
        self._end(self._labels[-1][0], other)

    def _end(self, end: str, next: str) -> None:
        """Of a block, which goes on at `end`; what follows is at `next`, or there."""
        self.line(f"br label %{end}")
        self.line(f"{next or end}:")

    @contextmanager
    def during(self, condition: Condition) -> Iterator[None]:
        """What follows runs again and again while the condition, asked before each time, holds."""
        body, end = self._label(), self._label()
        self.line(f"br i1 {condition().name}, label %{body}, label %{end}")
        self.line(f"{body}:")
        yield
        self.line(f"br i1 {condition().name}, label %{body}, label %{end}")
        self.line(f"{end}:")


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


def _bytes(type: str) -> int:
    """Of an element."""
    base = type.strip("<>").rpartition(" x ")[2]
    return {"float": 4, "double": 8, "ptr": 8}.get(base) or int(base[1:]) // 8


def _suffix(type: str) -> str:
    """A type in the name of an intrinsic."""
    lanes, cross, base = type.strip("<>").partition(" x ")
    if not cross:
        lanes, base = "", lanes
    short = {"float": "f32", "double": "f64", "ptr": "p0"}.get(base, base)
    return f"v{lanes}{short}" if cross else short
