"""LLVM IR written by hand in Python: the text of what codegen/cpu/assembler.py describes.

    f = Assembler("scale", "ptr i64 float")
    x, n, factor = f.params
    with f.count(0, n * 4, 4) as at:
        f.store(x + at, f.load("float", x + at) * factor)

Types are LLVM's own names of them, or those of codegen/cpu. An operator writes its instruction at
once; what changes is kept in a `LlvmVariable`. Addresses count bytes.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from pyframe.codegen.cpu import assembler as cpu
from pyframe.codegen.cpu.assembler import Operand

Condition: TypeAlias = Callable[[], "LlvmValue"]

_TYPES = {"f32": "float", "f64": "double", "word": "i64", "bool": "i1"}
# instructions of floats and of ints, and how these are compared
_OPS = {
    "add": "fadd add", "sub": "fsub sub", "mul": "fmul mul", "div": "fdiv udiv", "rem": "- urem",
    "div_s": "- sdiv", "rem_s": "- srem", "and": "- and", "or": "- or", "xor": "- xor",
    "shl": "- shl", "shr_u": "- lshr", "shr_s": "- ashr",
}  # fmt: skip
_COMPARES = {
    "eq": "oeq eq", "ne": "une ne", "lt": "olt slt", "le": "ole sle", "gt": "ogt sgt",
    "ge": "oge sge", "lt_u": "- ult", "le_u": "- ule", "ge_u": "- uge",
}  # fmt: skip


def _type(name: str) -> str:
    """LLVM's name of a type."""
    base, cross, lanes = name.partition("x")
    if cross and lanes.isdigit():
        return f"<{lanes} x {_TYPES.get(base, base)}>"
    return _TYPES.get(name, name)


@functools.cache
def vector_of(base: str, lanes: int) -> str:
    """The type of so many lanes; of one, the type itself."""
    return base if lanes == 1 else f"<{lanes} x {base}>"


@functools.cache
def _apart(type: str) -> tuple[str, int]:
    """The type of an element, and the lanes."""
    lanes, cross, base = type.strip("<>").partition(" x ")
    return (base, int(lanes)) if cross else (type, 1)


class LlvmValue(cpu.AsmValue):
    """A value of `type`, by the name that LLVM's text has for it."""

    __slots__ = ("_name", "f")

    def __init__(self, f: LlvmAssembler, type: str, name: str) -> None:
        self.f, self.type, self._name = f, type, name

    @property
    def name(self) -> str:
        """What stands for it in an instruction."""
        return self._name

    @property
    def is_float(self) -> bool:
        """Whether it is a float, or a vector of them."""
        return "float" in self.type or "double" in self.type

    def op(self, name: str, *others: Operand) -> LlvmValue:
        """The instruction `name` of this value and another of its type."""
        (other,) = others
        if self.type == "ptr" and name == "add":
            return self.f.element("i8", self, self.f.value(other, "i64"))
        left, right = self.name, self.f.value(other, self.type).name
        of = 0 if self.is_float else 1
        if name in _COMPARES:
            word, kind = ("fcmp", "icmp")[of], vector_of("i1", _apart(self.type)[1])
            how = _COMPARES[name].split()[of]
            return self.f.new(kind, f"{word} {how} {self.type} {left}, {right}")
        if name in ("min", "max"):  # of floats: a NaN stays
            a = LlvmValue(self.f, self.type, left)
            first = a < other if name == "min" else a > other
            return a.where(first | a.differs(a), other)
        full = _OPS[name].split()[of]
        return self.f.new(self.type, f"{full} {self.type} {left}, {right}")

    def where(self, condition: LlvmValue, other: Operand) -> LlvmValue:
        """This where the condition holds, else the other."""
        right = self.f.value(other, self.type).name
        return self.f.new(
            self.type,
            f"select {condition.type} {condition.name}, {self.type} {self.name}, "
            f"{self.type} {right}",
        )

    def cast(self, type: str) -> LlvmValue:
        """The same number as another type, an int with its sign."""
        type = _type(type)
        if self.is_float:
            return self.to("fpext" if type == "double" else "fptrunc", type)
        return self.to("sext" if _bytes(type) > _bytes(self.type) else "trunc", type)

    def to(self, word: str, base: str) -> LlvmValue:
        """A conversion by the instruction `word`, of each lane; none if the type is the same."""
        type = vector_of(base, _apart(self.type)[1])
        if type == self.type:
            return self
        return self.f.new(type, f"{word} {self.type} {self.name} to {type}")

    def bits(self, type: str) -> LlvmValue:
        """The same bits as another type, in each lane of a vector."""
        return self.to("bitcast", _type(type))

    def splat(self, lanes: int) -> LlvmValue:
        """A vector with it in every lane."""
        name, kind = self.name, vector_of(self.type, lanes)
        if lanes == 1:
            return self
        if name[0] != "%":
            return LlvmValue(self.f, kind, f"splat ({self.type} {name})")
        one = self.f.new(kind, f"insertelement {kind} poison, {self.type} {name}, i64 0")
        return one.shuffle([0] * lanes)

    def shuffle(self, lanes: Sequence[int], other: LlvmValue | None = None) -> LlvmValue:
        """Lanes of this vector, and after its own those of another."""
        (base, count), more = _apart(self.type), other.name if other else "poison"
        if count == 1:
            return self
        mask = self.f.numbers(lanes, "i32")
        return self.f.new(
            vector_of(base, len(lanes)),
            f"shufflevector {self.type} {self.name}, {self.type} {more}, {mask.type} {mask.name}",
        )

    def total(self) -> LlvmValue:
        """The sum of the lanes, of halves and halves of these."""
        x, lanes = self, _apart(self.type)[1]
        while lanes > 2:
            lanes //= 2
            x = x.shuffle(range(lanes)) + x.shuffle(range(lanes, 2 * lanes))
        return x.lane(0) + x.lane(1) if lanes > 1 else x

    def reversed(self) -> LlvmValue:
        """The vector with its last lane first."""
        return self.shuffle(range(_apart(self.type)[1])[::-1])

    def lane(self, at: int) -> LlvmValue:
        """A lane of a vector."""
        base, lanes = _apart(self.type)
        if lanes == 1:
            return self
        return self.f.new(base, f"extractelement {self.type} {self.name}, i64 {at}")

    def with_lane(self, at: int, x: LlvmValue) -> LlvmValue:
        """The vector with another lane."""
        text = f"insertelement {self.type} {self.name}, {x.type} {x.name}, i64 {at}"
        return self.f.new(self.type, text)

    def fma(self, factor: LlvmValue, total: LlvmValue) -> LlvmValue:
        """This times a factor and a total more, rounded once."""
        return self.f.call_intrinsic("fma", self, factor, total)


class LlvmVariable(LlvmValue, cpu.AsmVariable):
    """A value that changes."""

    __slots__ = ("_at",)

    def __init__(self, f: LlvmAssembler, type: str, at: str) -> None:
        super().__init__(f, type, "")
        self._at = at

    @property
    def name(self) -> str:
        return self.f.new(self.type, f"load {self.type}, ptr {self._at}").name

    def set(self, value: Operand) -> None:
        """Let it be a value from now on."""
        self.f.line(f"store {self.type} {self.f.value(value, self.type).name}, ptr {self._at}")

    def now(self) -> LlvmValue:
        """What it is now, whatever it becomes."""
        return LlvmValue(self.f, self.type, self.name)


class LlvmAssembler(cpu.Assembler):
    """A function without a result, written statement by statement; a processor's vectors have so
    many `bits`, and `fault` is where it notes one."""

    below = "lt"
    dots = ""  # how the processor sums products of ints, see `dot`

    def __init__(self, name: str, params: str, linkage: str = "internal ", bits: int = 128) -> None:
        self.bits, self.fault = bits, "null"
        types = [_type(type) for type in params.split()]
        self._labels: list[list[str]] = []  # of what follows a `when`: its other part, and its end
        self.head = f"define {linkage}void @{name}(" + ", ".join(
            f"{type} %p{i}" for i, type in enumerate(types)
        )
        self.name = name
        self.params = [LlvmValue(self, type, f"%p{i}") for i, type in enumerate(types)]
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

    def new(self, type: str, text: str) -> LlvmValue:
        """The value that an instruction gives."""
        self.names += 1
        self.lines.append(f"%t{self.names} = {text}")
        return LlvmValue(self, type, f"%t{self.names}")

    def value(self, x: Operand, type: str) -> LlvmValue:
        """A Python number as a constant, in each lane of a vector."""
        if isinstance(x, LlvmValue):
            return x
        base, lanes = _apart(_type(type))
        return LlvmValue(self, base, _number(x, base)).splat(lanes)

    def numbers(self, values: Sequence[int], type: str = "i64") -> LlvmValue:
        """A constant vector; a number if it is one."""
        listed = ", ".join([f"{type} {x}" for x in values])
        kind = vector_of(type, len(values))
        return LlvmValue(self, kind, f"<{listed}>" if len(values) > 1 else str(values[0]))

    def local(self, start: Operand | None = None, type: str = "") -> LlvmVariable:
        """A new variable, of an i64 if nothing says otherwise."""
        type = _type(type) or (start.type if isinstance(start, LlvmValue) else "i64")
        self.names += 1
        self.variables.append(f"%v{self.names} = alloca {type}")
        made = LlvmVariable(self, type, f"%v{self.names}")
        if start is not None:
            made.set(start)
        return made

    def load(self, type: str, at: LlvmValue, offset: int = 0, *, align: int = 0) -> LlvmValue:
        """A value in memory, which lies at a multiple of the bytes of an element or `align`."""
        type, at = _type(type), at + offset if offset else at
        return self.new(type, f"load {type}, ptr {at.name}, align {align or _bytes(type)}")

    def load_fixed(self, type: str, at: LlvmValue) -> LlvmValue:
        """A value in memory that nothing writes to."""
        type = _type(type)
        return self.new(type, f"load {type}, ptr {at.name}, !invariant.load !0")

    def element(self, type: str, at: LlvmValue, index: LlvmValue) -> LlvmValue:
        """The address of element number `index` from `at` on; of a vector of numbers, of each."""
        kind = vector_of("ptr", _apart(index.type)[1])
        return self.new(kind, f"getelementptr {type}, ptr {at.name}, {index.type} {index.name}")

    def store(self, at: LlvmValue, value: LlvmValue, offset: int = 0, *, align: int = 0) -> None:
        """Write a value to memory."""
        at, align = at + offset if offset else at, align or _bytes(value.type)
        self.line(f"store {value.type} {value.name}, ptr {at.name}, align {align}")

    def move(self, to: LlvmValue, source: LlvmValue, type: str, count: int) -> None:
        """Write so many elements that lie elsewhere, all at once."""
        self.store(to, self.load(f"{type}x{count}", source))

    def transposed(self, rows: Sequence[LlvmValue]) -> list[LlvmValue]:
        """The columns of as many vectors as each has lanes."""
        found, lanes, apart = list(rows), len(rows), 1
        while apart < lanes:
            low = [x if not x & apart else lanes + x - apart for x in range(lanes)]
            high = [x + apart if not x & apart else lanes + x for x in range(lanes)]
            for i in range(lanes):
                if not i & apart:
                    a, b = found[i], found[i + apart]
                    found[i], found[i + apart] = a.shuffle(low, b), a.shuffle(high, b)
            apart *= 2
        return found

    def lanes(self, type: str) -> int:
        """How many lanes the processor's vectors have."""
        return self.bits // (8 * _bytes(_type(type)))

    def load_first(self, type: str, at: LlvmValue, count: LlvmValue) -> LlvmValue:
        lanes = _apart(_type(type))[1]
        return self.load_some(type, at, self.lanes_below(count, lanes), 4)

    def splat_at(self, type: str, at: LlvmValue) -> LlvmValue:
        base, lanes = _apart(_type(type))
        return self.load(base, at).splat(lanes)

    def bytes_at(self, at: LlvmValue, lanes: int, offset: int = 0) -> LlvmValue:
        return self.load(f"i8x{lanes}", at, offset).to("sext", "i32")

    def floats(self, x: LlvmValue, real: str) -> LlvmValue:
        return x.to("sitofp", _type(real))

    def multiply_add(self, x: LlvmValue, y: LlvmValue, total: LlvmValue) -> LlvmValue:
        return x.fma(y, total)

    @property
    def parts(self) -> int:  # type: ignore[override]
        return 1 if self.dots == "bytes" else 2

    @property
    def bias(self) -> int:  # type: ignore[override]
        return 128 if self.dots == "bytes" else 0

    def factors(self, words: LlvmValue, bias: int = 0) -> list[LlvmValue]:
        """Bytes as they are, or pairs of ints of 16 bits."""
        if self.dots == "bytes":
            return [words.op("xor", -0x7F7F7F80)] if bias else [words]
        half = _bitcast(words, "i16")
        pairs = half.op("shl", 8).op("shr_s", 8), half.op("shr_s", 8)
        return [_bitcast(x, "i32") for x in pairs]

    def dot(self, total: LlvmValue, x: LlvmValue, y: LlvmValue) -> LlvmValue:
        lanes = _apart(total.type)[1]
        if self.dots == "bytes":
            x, y = _bitcast(x, "i8"), _bitcast(y, "i8")
            name = f"x86.avx512.vpdpbusd.{32 * lanes}"
            return self.new(total.type, self._called(name, total.type, total, x, y))
        if self.dots == "pairs":
            x, y = _bitcast(x, "i16"), _bitcast(y, "i16")
            name = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}[lanes]
            return total + self.new(total.type, self._called(f"x86.{name}", total.type, x, y))
        low, high = [
            a.op("shr_s", 16) * b.op("shr_s", 16)
            for a, b in ((x.op("shl", 16), y.op("shl", 16)), (x, y))
        ]
        return total + low + high

    def copy(self, to: LlvmValue, source: LlvmValue, nbytes: LlvmValue) -> None:
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

    def lanes_below(self, count: LlvmValue, lanes: int) -> LlvmValue:
        """Which lanes have a number below `count`."""
        return self.numbers(range(lanes), count.type) < count.splat(lanes)

    def load_some(self, type: str, at: LlvmValue, lanes: LlvmValue, align: int) -> LlvmValue:
        """A vector in memory, of which only these lanes are read; the others are 0."""
        type = _type(type)
        name, zero = f"masked.load.{_suffix(type)}.p0", self.value(0, type)
        if not self._branches(type):
            return self.new(type, self._called(name, type, at, self._int(align), lanes, zero))
        found = self.local(type=type)
        with self.when(self._all(lanes)):
            found.set(self.load(type, at, align=align))
            self.otherwise()
            found.set(self.new(type, self._called(name, type, at, self._int(align), lanes, zero)))
        return found.now()

    def store_some(self, at: LlvmValue, value: LlvmValue, lanes: LlvmValue, align: int) -> None:
        """Write these lanes of a vector to memory."""
        name = f"masked.store.{_suffix(value.type)}.p0"
        call = self._called(name, "void", value, at, self._int(align), lanes)
        if not self._branches(value.type):
            return self.line(call)
        with self.when(self._all(lanes)):
            self.store(at, value, align=align)
            self.otherwise()
            self.line(call)
        return None

    def _branches(self, type: str) -> bool:
        """Whether vectors are ARM's: it has no instruction for some of their lanes, so that LLVM
        makes a branch for each lane, and one for all of them comes first."""
        base, lanes = _apart(type)
        return self.bits == 128 and lanes * _bytes(base) == 16 and _bytes(base) in (4, 8)

    def _all(self, lanes: LlvmValue) -> LlvmValue:
        """Whether each of these lanes is true."""
        name = f"vector.reduce.and.{_suffix(lanes.type)}"
        return self.new("i1", self._called(name, "i1", lanes))

    def gather(self, type: str, places: LlvmValue, lanes: LlvmValue, align: int) -> LlvmValue:
        """A vector of what lies at these addresses, of which only these lanes are read; the others
        are 0."""
        type = _type(type)
        name = f"masked.gather.{_suffix(type)}.{_suffix(places.type)}"
        zero = self.value(0, type)
        return self.new(type, self._called(name, type, places, self._int(align), lanes, zero))

    def scatter(self, places: LlvmValue, value: LlvmValue, lanes: LlvmValue, align: int) -> None:
        """Write these lanes of a vector, each to its address."""
        name = f"masked.scatter.{_suffix(value.type)}.{_suffix(places.type)}"
        self.line(self._called(name, "void", value, places, self._int(align), lanes))

    def fill(self, at: LlvmValue, nbytes: Operand) -> None:
        """Write zeros to a multiple of 4 bytes."""
        nbytes = self.value(nbytes, "i64")
        whole = nbytes - nbytes % 64
        with self.count(0, whole, 64) as x:
            self.store(at + x, self.value(0, "<16 x i32>"))
        with self.count(whole, nbytes, 4) as x:
            self.store(at + x, self.value(0, "i32"))

    def prefetch(self, at: LlvmValue, write: int = 1) -> None:
        """Say that what lies there will be written soon, or read."""
        self.line(self._called("prefetch.p0", "void", at, *[self._int(n) for n in (write, 3, 1)]))

    def call(self, function: LlvmAssembler, *arguments: Operand) -> None:
        """Call a function."""
        given = [self.value(x, p.type) for x, p in zip(arguments, function.params, strict=True)]
        listed = ", ".join(f"{x.type} {x.name}" for x in given)
        self.line(f"call void @{function.name}({listed})")

    def call_intrinsic(self, name: str, *arguments: LlvmValue, fast: str = "") -> LlvmValue:
        """What a function of LLVM gives whose result has the type of its first operand; `fast` are
        flags of fast arithmetic."""
        type = arguments[0].type
        return self.new(type, self._called(f"{name}.{_suffix(type)}", type, *arguments, fast=fast))

    def _called(self, name: str, result: str, *arguments: LlvmValue, fast: str = "") -> str:
        """The call of a function of LLVM."""
        types = ", ".join([x.type for x in arguments])
        self.declared.add(f"declare {result} @llvm.{name}({types})")
        listed = ", ".join([f"{x.type} {x.name}" for x in arguments])
        return f"call {fast}{result} @llvm.{name}({listed})"

    def _int(self, number: int) -> LlvmValue:
        return LlvmValue(self, "i32", str(number))

    def _label(self) -> str:
        self.names += 1
        return f"l{self.names}"

    @contextmanager
    def when(self, condition: LlvmValue) -> Iterator[None]:
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


def _bitcast(x: LlvmValue, base: str) -> LlvmValue:
    """The bits of a vector as one of other lanes."""
    of, lanes = _apart(x.type)
    type = vector_of(base, lanes * _bytes(of) // _bytes(base))
    return x if type == x.type else x.f.new(type, f"bitcast {x.type} {x.name} to {type}")


def launched(
    words: str, bits: int = 128
) -> tuple[LlvmAssembler, dict[str, LlvmValue], LlvmValue, LlvmValue]:
    """A function that is launched, its words by their names (those with an @ are addresses), and
    which units it runs: from one on, before another."""
    f = LlvmAssembler("kernel", "ptr ptr i64 i64", linkage="", bits=bits)
    at, _, begin, end = f.params
    found = {
        word.lstrip("@"): f.load("ptr" if word[0] == "@" else "i64", at + 8 * i, align=8)
        for i, word in enumerate(words.split())
    }
    return f, found, begin, end


def cut(
    size: LlvmValue, part: LlvmValue, parts: LlvmValue, whole: int = 1
) -> tuple[LlvmValue, LlvmValue]:
    """Where one of equal parts begins and ends, at multiples of `whole`."""
    count = (size + (whole - 1)) // whole
    return (
        (count * part // parts * whole).min(size),
        (count * (part + 1) // parts * whole).min(size),
    )


def module(functions: Sequence[LlvmAssembler], bits: int) -> str:
    """The text of a module, for a processor with vectors of so many bits."""
    attributes = 'nounwind "no-builtins"'
    for width in ("prefer-vector-width", "min-legal-vector-width"):
        attributes += f' "{width}"="{bits}"'
    declared = sorted(set().union(*[f.declared for f in functions]))
    texts = [f.text() for f in functions]
    return "\n".join([*texts, *declared, f"attributes #0 = {{ {attributes} }}", "!0 = !{}", ""])


def _number(value: Operand, base: str) -> str:
    """A constant as LLVM writes it: floats by the bits of a double."""
    if base in ("float", "double"):
        if base == "float":
            value = _rounded(value)
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if base == "i1":
        return "true" if value else "false"
    return "null" if base == "ptr" else str(int(value))


def _rounded(value: float) -> float:
    """A number as float32 holds it."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


_SHORT = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}
_SIZES = {"float": 4, "double": 8, "half": 2, "ptr": 8}


@functools.cache
def _bytes(type: str) -> int:
    """Of an element."""
    base, _ = _apart(type)
    return _SIZES.get(base) or int(base[1:]) // 8


@functools.cache
def _suffix(type: str) -> str:
    """A type in the name of an intrinsic."""
    base, lanes = _apart(type)
    return ("" if lanes == 1 else f"v{lanes}") + _SHORT.get(base, base)
