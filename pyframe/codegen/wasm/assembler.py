"""WebAssembly written by hand in Python: the bytes of what codegen/cpu/assembler.py describes.

    f = Assembler(module, "scale", "i32 i32 f32")
    x, n, factor = f.params
    with f.count(0, n * 4, 16) as at:
        f.store(x + at, f.load(F32X4, x + at) * factor.splat(F32X4))

A `WasmValue` is a piece of code that leaves a number or a vector on the stack: what is used twice
is computed twice, unless it is kept in a variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyframe.codegen.cpu import assembler as cpu
from pyframe.codegen.cpu.assembler import BOOL, F32, F64, I32, I64, PTR, WORD, Operand
from pyframe.codegen.wasm import encoder as wasm
from pyframe.codegen.wasm.encoder import GET, OP, SET, WasmFunction, WasmModule

F32X4 = "f32x4"


class WasmValue(cpu.AsmValue):
    """Code that gives a value of `type`: i32, i64, f32, f64, or a vector, as f32x4."""

    __slots__ = ("code",)

    def __init__(self, type: str, code: bytes) -> None:
        self.type, self.code = type, code

    def op(self, name: str, *others: Operand, type: str = "") -> WasmValue:
        """The instruction `name` of this type on this value and others; it gives a `type`."""
        if self.type[0] == "i" and name in _SIGNED:
            name += "_s"
        vector = "x" in self.type
        type = type or (I32 if name[:2] in _COMPARES and not vector else self.type)
        of = I32 if vector and name[:2] == "sh" else self.type  # by how much to shift
        operands = b"".join([as_value(x, of).code for x in others])
        family = "v128" if vector and name in _BITWISE else self.type
        return WasmValue(type, self.code + operands + OP[f"{family}.{name}"])

    def cast(self, type: str) -> WasmValue:
        """The same number as another type, an int with its sign."""
        name = _CASTS.get((self.type, _type(type)))
        return self.to(name) if name else self

    def to(self, name: str) -> WasmValue:
        """A conversion by its full name, `f64.promote_f32`."""
        return WasmValue(name.partition(".")[0], self.code + OP[name])

    def bits(self, type: str) -> WasmValue:
        """The same bits as another type, in each lane of a vector."""
        base, _, lanes = self.type.partition("x")
        if lanes:
            return WasmValue(f"{type}x{lanes}", self.code)
        return self if base == type else self.to(f"{type}.reinterpret_{base}")

    def splat(self, type: str) -> WasmValue:
        return WasmValue(type, self.code + OP[type + ".splat"])

    def shuffle(self, other: WasmValue, *lanes: int) -> WasmValue:
        """The 32-bit lanes of this vector (0 to 3) and another (4 to 7)."""
        places = [4 * lane + byte for lane in lanes for byte in range(4)]
        return WasmValue(self.type, self.code + other.code + wasm.shuffle(places))

    def total(self) -> WasmValue:
        """The sum of four lanes of a variable."""
        one, get = self.type[:3], OP[f"{self.type}.extract_lane"]
        a, b, c, d = [WasmValue(one, self.code + get + bytes([lane])) for lane in range(4)]
        return a + c + (b + d)

    def where(self, condition: WasmValue, other: Operand) -> WasmValue:
        """This where the i32 isn't 0, or in the lanes of a mask, else the other."""
        select = OP["v128.bitselect" if "x" in condition.type else "select"]
        code = self.code + as_value(other, self.type).code + condition.code + select
        return WasmValue(self.type, code)


_SIGNED = ("div", "rem", "lt", "le", "gt", "ge")
_COMPARES = ("lt", "le", "gt", "ge", "eq", "ne")
_BITWISE = ("and", "or", "xor")
_CASTS = {
    (I32, I64): "i64.extend_i32_s", (I64, I32): "i32.wrap_i64", (F32, F64): "f64.promote_f32",
    (F64, F32): "f32.demote_f64",
}  # fmt: skip


def _type(name: str) -> str:
    """WebAssembly's name of a type."""
    return I32 if name in (WORD, PTR, BOOL) else name


_CONSTANTS: dict[str, Callable[[Any], bytes]] = {
    I32: wasm.i32, I64: wasm.i64, F32: wasm.f32, F64: wasm.f64,
}  # fmt: skip


def as_value(x: Operand, type: str) -> WasmValue:
    """A Python number as a constant, in every lane if the type is a vector's."""
    if isinstance(x, WasmValue):
        return x
    if "x" in type:
        scalar = {"8": I32, "16": I32, "32": type[0] + "32", "64": type[0] + "64"}
        return as_value(x, scalar[type[1:].partition("x")[0]]).splat(type)
    return WasmValue(type, _CONSTANTS[type](x))


class WasmLocal(WasmValue, cpu.AsmVariable):
    """A local of a function."""

    __slots__ = ("_f", "_local")

    def __init__(self, f: WasmAssembler, local: int, type: str) -> None:
        super().__init__(type, GET[local])
        self._f, self._local = f, local

    def set(self, value: Operand) -> None:
        self._f.code += as_value(value, self.type).code + SET[self._local]


_LOADS = {"i32": "i32.load", "i64": "i64.load", "f32": "f32.load", "f64": "f64.load"}
_STORES = {"i32": "i32.store", "i64": "i64.store", "f32": "f32.store", "f64": "f64.store"}


class WasmAssembler(cpu.Assembler):
    """A function of a module, written statement by statement."""

    below = "lt_u"  # what is counted may be an address
    relaxed = False  # whether a product and a sum are one instruction
    parts, bias = 2, 0

    def __init__(self, module: WasmModule, name: str, params: str, export: bool = False) -> None:
        types = [_type(type) for type in params.split()]
        self.module = module
        self.function: WasmFunction = module.function(name, " ".join(types), "", export)
        self.code = self.function.code
        self.params = [WasmLocal(self, i, type) for i, type in enumerate(types)]

    def value(self, x: Operand, type: str) -> WasmValue:
        return as_value(x, _type(type))

    def local(self, start: Operand | None = None, type: str = "") -> WasmLocal:
        """A new variable; without a start it holds what it did (zero at first)."""
        type = _type(type) or (start.type if isinstance(start, WasmValue) else I32)
        number = self.function.local("v128" if "x" in type else type)
        made = WasmLocal(self, number, type)
        if start is not None:
            made.set(start)
        return made

    def load(
        self, type: str, at: WasmValue, offset: int = 0, how: str = "", *, align: int = 0
    ) -> WasmValue:
        """A value of `type` at an address; `how` is another instruction than that type's own."""
        type = _type(type)
        return WasmValue(type, wasm.load(how or _LOADS.get(type, "v128.load"), at.code, offset))

    def load_lane(self, vector: WasmValue, at: WasmValue, lane: int) -> WasmValue:
        """`vector` with a 32-bit lane read from memory."""
        code = wasm.access_lane("v128.load32_lane", at.code, vector.code, lane, 0)
        return WasmValue(vector.type, code)

    def store(
        self, at: WasmValue, value: WasmValue, offset: int = 0, how: str = "", *, align: int = 0
    ) -> None:
        name = how or _STORES.get(value.type, "v128.store")
        self.code += wasm.store(name, at.code, value.code, offset)

    def call(self, function: WasmAssembler, *arguments: Operand) -> None:
        """Call a function without a result, of i32 arguments."""
        self.code += b"".join([as_value(x, I32).code for x in arguments])
        self.code += wasm.CALL[function.function.index]

    def call_slot(self, type: int, slot: WasmValue, *arguments: Operand) -> None:
        """The same by the function's slot in the table."""
        self.code += b"".join([as_value(x, I32).code for x in arguments])
        self.code += wasm.call_indirect(type, slot.code)

    def move(self, to: WasmValue, source: WasmValue, type: str, count: int) -> None:
        at, nbytes = 0, count * int(type[1:]) // 8
        for kind, size in ((F32X4, 16), (I64, 8), (I32, 4)):
            while nbytes - at >= size:
                self.store(to, self.load(kind, source, at), at)
                at += size

    def load_first(self, type: str, at: WasmValue, count: WasmValue) -> WasmValue:
        """All of it: what is read this way has a multiple of four elements."""
        return self.load(type, at)

    def splat_at(self, type: str, at: WasmValue) -> WasmValue:
        return self.load(type, at, how="v128.load32_splat")

    def bytes_at(self, at: WasmValue, lanes: int, offset: int = 0) -> WasmValue:
        four = self.load("i8x16", at, offset, "v128.load32_zero")
        return four.to("i16x8.extend_low_i8x16_s").to("i32x4.extend_low_i16x8_s")

    def floats(self, x: WasmValue, real: str) -> WasmValue:
        return x.to("f32x4.convert_i32x4_s")

    def multiply_add(self, x: WasmValue, y: WasmValue, total: WasmValue) -> WasmValue:
        return x.op("relaxed_madd", y, total) if self.relaxed else total + x * y

    def factors(self, words: WasmValue, bias: int = 0) -> list[WasmValue]:
        """Pairs of ints of 16 bits."""
        half = WasmValue("i16x8", words.code)
        pairs = half.op("shl", 8).op("shr_s", 8), half.op("shr_s", 8)
        return [WasmValue(words.type, x.code) for x in pairs]

    def dot(self, total: WasmValue, x: WasmValue, y: WasmValue) -> WasmValue:
        return total + WasmValue(total.type, x.code + y.code + OP["i32x4.dot_i16x8_s"])

    def copy(self, to: WasmValue, source: WasmValue, nbytes: Operand) -> None:
        self.code += to.code + source.code + as_value(nbytes, I32).code + OP["memory.copy"]

    def fill(self, to: WasmValue, nbytes: Operand) -> None:
        parts = (to, as_value(0, I32), as_value(nbytes, I32))
        self.code += b"".join([x.code for x in parts]) + OP["memory.fill"]

    def transposed(self, rows: Sequence[WasmValue]) -> list[WasmValue]:
        """The columns of four rows of four 32-bit lanes."""
        a, b, c, d = rows
        low, high = (0, 4, 1, 5), (2, 6, 3, 7)
        pairs = [x.shuffle(y, *lanes) for x, y in ((a, b), (c, d)) for lanes in (low, high)]
        ab_low, ab_high, cd_low, cd_high = pairs
        first, last = (0, 1, 4, 5), (2, 3, 6, 7)
        return [
            x.shuffle(y, *lanes)
            for x, y in ((ab_low, cd_low), (ab_high, cd_high))
            for lanes in (first, last)
        ]

    def lanes(self, type: str) -> int:
        """As many as 16 bytes hold."""
        return 16 * 8 // int(type[1:])

    def fail(self) -> None:
        """It traps."""
        self.code += OP["unreachable"]

    @contextmanager
    def when(self, condition: WasmValue) -> Iterator[None]:
        """What follows runs if the i32 isn't 0."""
        self.code += condition.code + b"\x04\x40"
        yield
        self.code += b"\x0b"

    def otherwise(self) -> None:
        """Within `when`: what follows runs if it doesn't."""
        self.code += b"\x05"

    @contextmanager
    def during(self, condition: Callable[[], WasmValue]) -> Iterator[None]:
        """What follows runs again and again while the condition, asked before each time, holds."""
        asked = condition()
        self.code += b"\x02\x40" + wasm.br_if(0, asked.op("eqz").code) + b"\x03\x40"
        yield
        self.code += wasm.br_if(0, asked.code) + b"\x0b\x0b"
