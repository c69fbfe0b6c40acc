"""Binary WebAssembly modules, without a toolchain.

Code is bytes. A piece of code takes its operands from the stack and leaves its results there, so
pieces are joined by `+`, or appended to a function's `code`:

    module = Module()
    f = module.function("axpy", "i32 i32 f32", export=True)
    x, y, a = f.params
    f.code += GET[y] + load("f32.load", GET[x]) + GET[a] + OP["f32.mul"] + …

Instructions have the names of WebAssembly's text format. Loads and stores state no alignment (it
is a hint that engines don't use).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence


def uleb(number: int) -> bytes:
    """An unsigned number in LEB128."""
    if number < 0x80:
        return _BYTES[number]
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def sleb(number: int) -> bytes:
    """A signed number in LEB128."""
    out = bytearray()
    while not -0x40 <= number < 0x40:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number & 0x7F)
    return bytes(out)


_BYTES = [bytes([byte]) for byte in range(256)]


class _MemoizedOpcode(dict[int, bytes]):
    """What `make` gives for a number, made once."""

    def __init__(self, make: Callable[[int], bytes]) -> None:
        self.make = make

    def __missing__(self, number: int) -> bytes:
        made = self[number] = self.make(number)
        return made


# Read, write, and write and keep a function's local (its params come first); call a function.
GET = _MemoizedOpcode(lambda local: b"\x20" + uleb(local))
SET = _MemoizedOpcode(lambda local: b"\x21" + uleb(local))
TEE = _MemoizedOpcode(lambda local: b"\x22" + uleb(local))
CALL = _MemoizedOpcode(lambda function: b"\x10" + uleb(function))


def _numbered(first: int, names: str, prefix: bytes = b"") -> dict[str, bytes]:
    """Opcodes from `first` on in the order of `names`; `-` is a number that means nothing. What
    follows `type:` has that prefix: `i32: add sub` is i32.add and i32.sub."""
    out, of, number = {}, "", first
    for name in names.split():
        if name.endswith(":"):
            of = name[:-1] + "."
            continue
        if name != "-":
            out[of + name] = prefix + (uleb(number) if prefix else _BYTES[number])
        number += 1
    return out


_INT_COMPARES = "eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u"
_COMPARES = "eq ne lt gt le ge"
_INT = """clz ctz popcnt add sub mul div_s div_u rem_s rem_u and or xor shl shr_s shr_u rotl
    rotr"""
_FLOAT = "abs neg ceil floor trunc nearest sqrt add sub mul div min max copysign"
_EXTMUL = "extmul_low_{0}_s extmul_high_{0}_s extmul_low_{0}_u extmul_high_{0}_u"
_EXTEND = "extend_low_{0}_s extend_high_{0}_s extend_low_{0}_u extend_high_{0}_u"
_ARITHMETIC = "abs neg - sqrt add sub mul div min max pmin pmax"

# The opcode of each instruction by its name. Those of memory, lanes, shuffles and constants have
# immediates, which the functions below write.
OP: dict[str, bytes] = {
    **_numbered(0x00, "unreachable nop"),
    "return": b"\x0f",
    "drop": b"\x1a",
    "select": b"\x1b",
    **_numbered(
        0x28,
        """i32: load i64: load f32: load f64: load
        i32: load8_s load8_u load16_s load16_u
        i64: load8_s load8_u load16_s load16_u load32_s load32_u
        i32: store i64: store f32: store f64: store
        i32: store8 store16 i64: store8 store16 store32""",
    ),
    **_numbered(
        0x45,
        f"""i32: eqz {_INT_COMPARES} i64: eqz {_INT_COMPARES} f32: {_COMPARES} f64: {_COMPARES}
        i32: {_INT} i64: {_INT} f32: {_FLOAT} f64: {_FLOAT}
        i32: wrap_i64 trunc_f32_s trunc_f32_u trunc_f64_s trunc_f64_u
        i64: extend_i32_s extend_i32_u trunc_f32_s trunc_f32_u trunc_f64_s trunc_f64_u
        f32: convert_i32_s convert_i32_u convert_i64_s convert_i64_u demote_f64
        f64: convert_i32_s convert_i32_u convert_i64_s convert_i64_u promote_f32
        i32: reinterpret_f32 i64: reinterpret_f64 f32: reinterpret_i32 f64: reinterpret_i64
        i32: extend8_s extend16_s i64: extend8_s extend16_s extend32_s""",
    ),
    **_numbered(
        0,
        """i32: trunc_sat_f32_s trunc_sat_f32_u trunc_sat_f64_s trunc_sat_f64_u
        i64: trunc_sat_f32_s trunc_sat_f32_u trunc_sat_f64_s trunc_sat_f64_u""",
        b"\xfc",
    ),
    "memory.copy": b"\xfc\x0a\x00\x00",  # of (to, from, bytes); to may overlap from
    "memory.fill": b"\xfc\x0b\x00",  # of (to, byte, bytes)
    **_numbered(
        0,
        f"""v128: load load8x8_s load8x8_u load16x4_s load16x4_u load32x2_s load32x2_u load8_splat
            load16_splat load32_splat load64_splat store const
        i8x16: shuffle swizzle splat i16x8: splat i32x4: splat i64x2: splat f32x4: splat
        f64x2: splat
        i8x16: extract_lane_s extract_lane_u replace_lane
        i16x8: extract_lane_s extract_lane_u replace_lane
        i32x4: extract_lane replace_lane i64x2: extract_lane replace_lane
        f32x4: extract_lane replace_lane f64x2: extract_lane replace_lane
        i8x16: {_INT_COMPARES} i16x8: {_INT_COMPARES} i32x4: {_INT_COMPARES}
        f32x4: {_COMPARES} f64x2: {_COMPARES}
        v128: not and andnot or xor bitselect any_true load8_lane load16_lane load32_lane
            load64_lane store8_lane store16_lane store32_lane store64_lane load32_zero load64_zero
        f32x4: demote_f64x2_zero f64x2: promote_low_f32x4
        i8x16: abs neg popcnt all_true bitmask narrow_i16x8_s narrow_i16x8_u
        f32x4: ceil floor trunc nearest
        i8x16: shl shr_s shr_u add add_sat_s add_sat_u sub sub_sat_s sub_sat_u
        f64x2: ceil floor
        i8x16: min_s min_u max_s max_u f64x2: trunc i8x16: avgr_u
        i16x8: extadd_pairwise_i8x16_s extadd_pairwise_i8x16_u
        i32x4: extadd_pairwise_i16x8_s extadd_pairwise_i16x8_u
        i16x8: abs neg q15mulr_sat_s all_true bitmask narrow_i32x4_s narrow_i32x4_u
            {_EXTEND.format("i8x16")} shl shr_s shr_u add add_sat_s add_sat_u sub sub_sat_s
            sub_sat_u
        f64x2: nearest
        i16x8: mul min_s min_u max_s max_u - avgr_u {_EXTMUL.format("i8x16")}
        i32x4: abs neg - all_true bitmask - - {_EXTEND.format("i16x8")} shl shr_s shr_u add - - sub
            - - - mul min_s min_u max_s max_u dot_i16x8_s - {_EXTMUL.format("i16x8")}
        i64x2: abs neg - all_true bitmask - - {_EXTEND.format("i32x4")} shl shr_s shr_u add - - sub
            - - - mul eq ne lt_s gt_s le_s ge_s {_EXTMUL.format("i32x4")}
        f32x4: {_ARITHMETIC} f64x2: {_ARITHMETIC}
        i32x4: trunc_sat_f32x4_s trunc_sat_f32x4_u f32x4: convert_i32x4_s convert_i32x4_u
        i32x4: trunc_sat_f64x2_s_zero trunc_sat_f64x2_u_zero
        f64x2: convert_low_i32x4_s convert_low_i32x4_u
        i8x16: relaxed_swizzle
        i32x4: relaxed_trunc_f32x4_s relaxed_trunc_f32x4_u relaxed_trunc_f64x2_s_zero
            relaxed_trunc_f64x2_u_zero
        f32x4: relaxed_madd relaxed_nmadd f64x2: relaxed_madd relaxed_nmadd
        i8x16: relaxed_laneselect i16x8: relaxed_laneselect i32x4: relaxed_laneselect
        i64x2: relaxed_laneselect
        f32x4: relaxed_min relaxed_max f64x2: relaxed_min relaxed_max""",
        b"\xfd",
    ),
}

_TYPES = {"": 0x40, "i32": 0x7F, "i64": 0x7E, "f32": 0x7D, "f64": 0x7C, "v128": 0x7B}


def i32(number: int) -> bytes:
    """The constant `number`; from 2**31 on it is the int of the same bits."""
    return b"\x41" + sleb((number + 0x80000000 & 0xFFFFFFFF) - 0x80000000)


def i64(number: int) -> bytes:
    """The constant `number`; from 2**63 on it is the int of the same bits."""
    return b"\x42" + sleb((number + (1 << 63) & (1 << 64) - 1) - (1 << 63))


def f32(number: float) -> bytes:
    """The constant `number`, rounded to float32 (beyond its range: infinity)."""
    try:
        return b"\x43" + struct.pack("<f", number)
    except OverflowError:
        return b"\x43" + struct.pack("<f", float("inf") if number > 0 else float("-inf"))


def f64(number: float) -> bytes:
    """The constant `number`."""
    return b"\x44" + struct.pack("<d", number)


def v128(lanes: bytes) -> bytes:
    """The constant vector of these 16 bytes."""
    return b"\xfd\x0c" + lanes


def load(name: str, address: bytes, offset: int = 0) -> bytes:
    """A load (`f32.load`, `v128.load32_splat`, …) from the piece `address` plus `offset` bytes."""
    return address + OP[name] + b"\0" + uleb(offset)


def store(name: str, address: bytes, value: bytes, offset: int = 0) -> bytes:
    """A store (`f32.store`, …) of `value` there."""
    return address + value + OP[name] + b"\0" + uleb(offset)


def access_lane(name: str, address: bytes, vector: bytes, lane: int, offset: int = 0) -> bytes:
    """`v128.load32_lane` and the like, which give `vector` with one lane read anew, and
    `v128.store32_lane` and the like, which write one lane."""
    return address + vector + OP[name] + b"\0" + uleb(offset) + _BYTES[lane]


def lane(name: str, lane: int) -> bytes:
    """`f32x4.extract_lane`, `f32x4.replace_lane` and the like, of what is on the stack."""
    return OP[name] + _BYTES[lane]


def shuffle(lanes: Iterable[int]) -> bytes:
    """The 16 bytes at `lanes` of the 32 of the two vectors on the stack."""
    return OP["i8x16.shuffle"] + bytes(lanes)


def block(body: bytes, result: str = "") -> bytes:
    """`body`, in which `br_if(0, …)` goes to the end."""
    return b"\x02" + _BYTES[_TYPES[result]] + body + b"\x0b"


def loop(body: bytes, result: str = "") -> bytes:
    """`body`, in which `br_if(0, …)` goes to the start; it runs once unless something does."""
    return b"\x03" + _BYTES[_TYPES[result]] + body + b"\x0b"


def if_(condition: bytes, then: bytes, otherwise: bytes = b"", result: str = "") -> bytes:
    """`then` where the i32 `condition` isn't 0. Within it `br_if(0, …)` goes to the end."""
    start = condition + b"\x04" + _BYTES[_TYPES[result]] + then
    return start + (b"\x05" + otherwise + b"\x0b" if otherwise else b"\x0b")


def br_if(depth: int, condition: bytes) -> bytes:
    """Where the i32 `condition` isn't 0, leave the block or if, or begin the loop, that is `depth`
    of them further out."""
    return condition + b"\x0d" + uleb(depth)


class WasmFunction:
    """A function of a module: its `params` are the numbers of its first locals; what its `code`
    leaves on the stack is its result."""

    def __init__(self, index: int, params: Sequence[str]) -> None:
        self.index = index
        self.params = range(len(params))
        self.code = bytearray()
        self._types = bytearray(_TYPES[type] for type in params)

    def local(self, type: str) -> int:
        """A further local, which is zero at first."""
        self._types.append(_TYPES[type])
        return len(self._types) - 1

    def encode(self) -> bytes:
        """Its runs of locals of one type, and its code."""
        runs: list[list[int]] = []
        for type in self._types[len(self.params) :]:
            if runs and runs[-1][1] == type:
                runs[-1][0] += 1
            else:
                runs.append([1, type])
        declared = _vector([uleb(times) + _BYTES[type] for times, type in runs])
        return uleb(len(declared) + len(self.code) + 1) + declared + bytes(self.code) + b"\x0b"


def _vector(items: Sequence[bytes]) -> bytes:
    return uleb(len(items)) + b"".join(items)


def _named(name: str) -> bytes:
    encoded = name.encode()
    return uleb(len(encoded)) + encoded


class WasmModule:
    """A module that imports its memory, `env.memory`. Functions that it imports are declared before
    its own, since both are numbered together."""

    def __init__(self) -> None:
        self._types: dict[bytes, int] = {}
        self._imports: list[bytes] = []
        self._functions: list[WasmFunction | bytes] = []
        self._signatures: list[int] = []
        self._exports: list[bytes] = []
        self.exported: dict[str, int] = {}  # the numbers of functions that others may call
        self._table: list[bytes] = []

    def type(self, params: str, results: str = "") -> int:
        """The number of a signature: types with spaces between them."""
        kinds = [_vector([_BYTES[_TYPES[t]] for t in part.split()]) for part in (params, results)]
        return self._types.setdefault(b"\x60" + kinds[0] + kinds[1], len(self._types))

    def imported(self, module: str, name: str, params: str, results: str = "") -> int:
        """The number of a function of another module, for CALL."""
        if self._functions:
            raise ValueError("functions are imported before others are made")
        kind = b"\x00" + uleb(self.type(params, results))
        self._imports.append(_named(module) + _named(name) + kind)
        return len(self._imports) - 1

    def function(
        self, name: str, params: str, results: str = "", export: bool = False
    ) -> WasmFunction:
        """A new function, whose code is appended to it."""
        made = WasmFunction(len(self._imports) + len(self._functions), params.split())
        self._signatures.append(self.type(params, results))
        self._functions.append(made)
        if export:
            self._exports.append(_named(name) + b"\x00" + uleb(made.index))
            self.exported[name] = made.index
        return made

    def encoded(self, params: str, body: bytes) -> int:
        """The number of a new function without results, which a Function encoded elsewhere."""
        self._signatures.append(self.type(params))
        self._functions.append(body)
        return len(self._imports) + len(self._functions) - 1

    def table_slot(self, function: int) -> int:
        """Where `function` stands in the module's table, for `call_indirect`."""
        self._table.append(uleb(function))
        return len(self._table) - 1

    def encode(self) -> bytes:
        """The module's bytes."""
        memory = _named("env") + _named("memory") + b"\x02\x00\x01"  # of one page or more
        slots = uleb(len(self._table))
        sections = {
            1: _vector(list(self._types)),
            2: _vector([memory, *self._imports]),
            3: _vector([uleb(signature) for signature in self._signatures]),
            4: b"\x01\x70\x00" + slots if self._table else b"",
            7: _vector(self._exports),
            9: b"\x01\x00\x41\x00\x0b" + _vector(self._table) if self._table else b"",
            10: _vector([f if isinstance(f, bytes) else f.encode() for f in self._functions]),
        }
        parts = [_BYTES[n] + uleb(len(body)) + body for n, body in sections.items() if body]
        return b"\0asm\x01\0\0\0" + b"".join(parts)


def section(name: str, data: bytes) -> bytes:
    """A section of one's own, to follow on a module: engines give it out and run nothing of it."""
    body = _named(name) + data
    return b"\0" + uleb(len(body)) + body


def call_indirect(type: int, slot: bytes) -> bytes:
    """Call the function at `slot` of the table, of the signature `type`."""
    return slot + b"\x11" + uleb(type) + b"\0"
