"""The primitives of graph/scalar.py as WebAssembly instructions.

A scalar is one piece of code that leaves it on the stack. A vector is a piece for each of its
registers of 16 bytes: 4 lanes of 32 bits, or 2 of 64. Ints of fewer bits are held in 32 as the
number that they are, so arithmetic is followed by `_WRAP`; a bool is 0 or 1, and in a vector a mask
of 32 bits. What has no instruction for vectors goes lane by lane.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from itertools import chain, product
from typing import Any

from pyframe.codegen.cpu import primitives
from pyframe.codegen.cpu.assembler import F32, I32, I64
from pyframe.codegen.lanes.program import INDEX, LaneOp, UnsupportedKernelError
from pyframe.codegen.wasm.assembler import WasmValue, as_value
from pyframe.codegen.wasm.encoder import OP, f32, f64, i32, i64, lane, shuffle, v128

Code = bytes
Pieces = list[bytes]

LANES = 4  # vectors have as many lanes, or a multiple

_FLOATS = ("f32", "f64")
_LONG = ("i64", "u64")  # two lanes a register, as f64
_WORD = ("i8", "u8", "i16", "u16", "i32", "u32", INDEX)
_SCALARS = {"f32": "f32", "f64": "f64", "i64": "i64", "u64": "i64"}
_SHAPES = {"f32": "f32x4", "f64": "f64x2", "i64": "i64x2", "u64": "i64x2"}
_PACK = {"f32": "<f", "f64": "<d", "i64": "<Q", "u64": "<Q"}


def is_wide(type: str) -> bool:
    """Whether a lane takes 64 bits."""
    return type in ("f64", *_LONG)


def scalar_type(type: str) -> str:
    """What a scalar is to WebAssembly."""
    return _SCALARS.get(type, "i32")


def registers(type: str, lanes: int) -> int:
    """How many pieces a value has."""
    if lanes > 1 and lanes % LANES:
        raise UnsupportedKernelError(f"vectors of {lanes} lanes have no WebAssembly form")
    return max(lanes // (2 if is_wide(type) else 4), 1)


# --- constants


def _packed(value: Any, type: str) -> bytes:
    if type in _FLOATS:
        return (f32(value) if type == "f32" else f64(value))[1:]
    bits = 64 if type in _LONG else 32
    number = -int(value) if type == "bool" else int(value)
    return struct.pack(_PACK.get(type, "<I"), number & (1 << bits) - 1)


def constant(value: Any, type: str, lanes: int) -> Pieces:
    """The number in every lane."""
    if lanes > 1:
        one = _packed(value, type)
        return [v128(one * (16 // len(one)))] * registers(type, lanes)
    if type in _FLOATS:
        return [f32(value) if type == "f32" else f64(value)]
    if type == INDEX and not -(2**31) <= value < 2**31:
        raise UnsupportedKernelError("an index beyond 32 bits")
    return [i64(int(value)) if type in _LONG else i32(int(value))]


def iota(type: str, lanes: int) -> Pieces:
    """0, 1, 2, …"""
    if lanes == 1:
        return constant(0, type, 1)
    each = 2 if is_wide(type) else 4
    packed = [_packed(n, type) for n in range(lanes)]
    return [v128(b"".join(packed[n : n + each])) for n in range(0, lanes, each)]


# --- lanes

_NEGATED = OP["i32.sub"]  # after a 0 and the bool: its mask
_ONE = i32(1) + OP["i32.and"]


def splat(x: Code, type: str) -> Code:
    """A scalar in each lane of a register."""
    if type == "bool":
        return i32(0) + x + _NEGATED + OP["i32x4.splat"]
    return x + OP[_SHAPES.get(type, "i32x4") + ".splat"]


def extract(pieces: Pieces, at: int, type: str) -> Code:
    """The lane `at`."""
    each = 2 if is_wide(type) else 4
    found = pieces[at // each] + lane(_SHAPES.get(type, "i32x4") + ".extract_lane", at % each)
    return found + _ONE if type == "bool" else found


def joined(scalars: Sequence[Code], type: str) -> Pieces:
    """A vector of these lanes."""
    each = 2 if is_wide(type) else 4
    replace = _SHAPES.get(type, "i32x4") + ".replace_lane"
    found = []
    for first in range(0, len(scalars), each):
        piece = splat(scalars[first], type)
        for n in range(1, each):
            x = scalars[first + n]
            piece += (i32(0) + x + _NEGATED if type == "bool" else x) + lane(replace, n)
        found.append(piece)
    return found


def rotate(pieces: Pieces, by: int, type: str) -> Pieces:
    """Each lane is the one `by` lanes on."""
    step, start = divmod(by * (8 if is_wide(type) else 4), 16)
    n = len(pieces)
    if not start:
        return [pieces[(k + step) % n] for k in range(n)]
    taken = shuffle(range(start, start + 16))
    return [pieces[(k + step) % n] + pieces[(k + step + 1) % n] + taken for k in range(n)]


_LOW_WORDS = shuffle([0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27])
_HIGH_TO_LOW = shuffle([8, 9, 10, 11, 12, 13, 14, 15] * 2)


def _halved(pieces: Pieces) -> Pieces:
    """64-bit lanes as their low 32 bits."""
    return [a + b + _LOW_WORDS for a, b in zip(pieces[::2], pieces[1::2], strict=True)]


def _doubled(pieces: Pieces, low: str, high: str) -> Pieces:
    """32-bit lanes as 64-bit ones by two instructions."""
    return list(chain.from_iterable((p + OP[low], p + OP[high]) for p in pieces))


def _spread(pieces: Pieces, convert: str) -> Pieces:
    """32-bit lanes as 64-bit ones by an instruction that takes the two in the low half."""
    high = [p + p + _HIGH_TO_LOW for p in pieces]
    return [p + OP[convert] for p in chain.from_iterable(zip(pieces, high, strict=True))]


def mask(pieces: Pieces, type: str) -> Pieces:
    """A mask for lanes of `type`."""
    if not is_wide(type):
        return pieces
    return _doubled(pieces, "i64x2.extend_low_i32x4_s", "i64x2.extend_high_i32x4_s")


# --- what is one instruction


def _table() -> tuple[dict[tuple[str, str], Code], dict[tuple[str, str], Code]]:
    scalars, vectors = {}, {}
    same = "neg abs floor ceil trunc sqrt add sub mul div min max eq ne lt le"
    for type, op in product(_FLOATS, same.split()):
        scalars[op, type] = OP[f"{type}.{op}"]
        vectors[op, type] = OP[f"{_SHAPES[type]}.{op}"]
    for type in _FLOATS:
        scalars["round", type] = OP[f"{type}.nearest"]
        vectors["round", type] = OP[f"{_SHAPES[type]}.nearest"]
    for type in (*_WORD, *_LONG, "bool"):
        s, v, sign = scalar_type(type), _SHAPES.get(type, "i32x4"), "u" if type[0] in "ub" else "s"
        for op in "add sub mul eq ne and or xor".split():
            scalars[op, type] = OP[f"{s}.{op}"]
            vectors[op, type] = OP[f"{v}.{op}" if f"{v}.{op}" in OP else f"v128.{op}"]
        for op in "lt", "le":
            scalars[op, type] = OP[f"{s}.{op}_{sign}"]
            if type != "u64":
                vectors[op, type] = OP[f"{v}.{op}_{sign}"]
        scalars["shl", type], scalars["shr", type] = OP[f"{s}.shl"], OP[f"{s}.shr_{sign}"]
        vectors["not", type] = OP["v128.not"]
        vectors["neg", type], vectors["abs", type] = OP[f"{v}.neg"], OP[f"{v}.abs"]
        if type not in _LONG:
            for op in "min", "max":
                vectors[op, type] = OP[f"i32x4.{op}_{sign}"]
    return scalars, vectors


_SCALAR, _VECTOR = _table()
_WRAPPING = frozenset("neg abs add sub mul div shl not cast bitcast".split())
_WRAP = {
    "i8": OP["i32.extend8_s"],
    "i16": OP["i32.extend16_s"],
    "u8": i32(0xFF) + OP["i32.and"],
    "u16": i32(0xFFFF) + OP["i32.and"],
}
_WRAP_VECTOR = {
    "i8": i32(24) + OP["i32x4.shl"] + i32(24) + OP["i32x4.shr_s"],
    "i16": i32(16) + OP["i32x4.shl"] + i32(16) + OP["i32x4.shr_s"],
    "u8": v128(b"\xff\0\0\0" * 4) + OP["v128.and"],
    "u16": v128(b"\xff\xff\0\0" * 4) + OP["v128.and"],
}


def value(x: Code, type: str, lanes: int = 1) -> WasmValue:
    """A piece to write a form with; of a vector it is a register."""
    return WasmValue(_SHAPES.get(type, "i32x4") if lanes > 1 else scalar_type(type), x)


def _float16(x: WasmValue) -> WasmValue:
    """f32 rounded to 11 bits, ties to even: adding and taking away 2**13 times its power of two
    leaves no more. Below 2**-14 the last bit stays 2**-24; from 65520 on there is infinity."""
    size, bits = x.op("abs"), x.bits(I32)
    largest = "pmax" if "x" in x.type else "max"
    power = (bits & 0x7F800000).bits(F32).op(largest, 2.0**-14) * 2.0**13
    rounded = size + power - power
    bounded = rounded.where(size < 65520.0, float("inf")).bits(I32)
    return x.where(x.differs(x), (bounded | (bits & 0x80000000)).bits(F32))


_NARROW = {"bfloat16": primitives.bfloat16, "float16": _float16}


def from_half(x: Code, lanes: int) -> Code:
    """16 bits of a float16, in 32, as f32. `x` is a piece that may be repeated."""
    half = value(x, "u32", lanes)
    bits = half & 0x7FFF
    number = (bits.op("shl", 13).bits(F32) * 2.0**112).bits(I32)
    # beyond the largest exponent: infinity or NaN
    top = as_value(0x7F800000, half.type).where(bits.op("ge_u", 0x7C00), 0)
    return (number | top | (half & 0x8000).op("shl", 16)).bits(F32).code


def to_half(x: Code, lanes: int) -> Code:
    """f32 that a float16 holds as its bits, in 32. `x` is a piece that may be repeated."""
    number = value(x, "f32", lanes)
    size = (number.op("abs") * 2.0**-112).bits(I32).op("shr_u", 13) & 0x7FFF
    return (size | (number.bits(I32).op("shr_u", 16) & 0x8000)).code


def bound(first: Pieces, second: Pieces, type: str, larger: bool) -> Pieces:
    """`second` where it is less (or larger) than `first`, else `first`, a NaN too: an instruction
    of all processors, as minimum and maximum are not."""
    code = OP[f"{_SHAPES[type]}.{'pmax' if larger else 'pmin'}"]
    return [a + b + code for a, b in zip(first, second, strict=True)]


_SIGNED = ("i8", "u8", "i16", "u16", "i32", INDEX)  # what is held as the number of an i32
_HIGH_WORDS = shuffle([4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31])


def _quotient(x: Code, by: int) -> Code:
    """`x / by`, cut towards zero, as a product with 2**p / by, rounded up (Hacker's Delight 10-1).
    `x` is a piece that may be repeated."""
    if by == 1:
        return x
    most, p = 2**31 - 1 - 2**31 % by, 32
    while 2**p <= most * (by - 2**p % by):
        p += 1
    factor = 2**p // by + 1
    number = constant(factor, "i32", LANES)[0]
    products = x + number + OP["i64x2.extmul_low_i32x4_s"]
    products += x + number + OP["i64x2.extmul_high_i32x4_s"] + _HIGH_WORDS
    if factor >= 2**31:  # which was taken as the number less by 2**32
        products += x + OP["i32x4.add"]
    shifted = products + i32(p - 32) + OP["i32x4.shr_s"]
    return shifted + x + i32(31) + OP["i32x4.shr_s"] + OP["i32x4.sub"]


# --- primitives


class Selector:
    """`relaxed`: the engine has relaxed SIMD."""

    def __init__(self, relaxed: bool) -> None:
        self.relaxed = relaxed
        self.bitselect = OP["i32x4.relaxed_laneselect" if relaxed else "v128.bitselect"]

    def repeats(self, s: LaneOp, constants: Sequence[Any]) -> bool:
        """Whether operands come several times in its form, and so must be read from locals."""
        if s.lanes > 1:
            once = s.op == "muladd" or (s.op == "select" and not is_wide(s.type))
            return (s.op, s.from_) not in _VECTOR and not once
        if (s.op, s.from_) in _SCALAR:
            return False
        if s.op in ("div", "rem"):
            return constants[1] in (None, 0, -1)
        return s.op in ("abs", "min", "max", "narrow") or (s.op == "cast" and s.from_ in _FLOATS)

    def op(self, s: LaneOp, args: Sequence[Pieces], constants: Sequence[Any]) -> Pieces:
        """The result's pieces; `constants[n]` is the number that operand n is known to be."""
        try:
            if s.lanes == 1:
                return [self._scalar(s, [a[0] for a in args], constants)]
            return self._vector(s, args, constants)
        except KeyError:
            raise UnsupportedKernelError(f"{s.op} of {s.from_} has no WebAssembly form") from None

    # scalars

    def _scalar(self, s: LaneOp, a: Pieces, constants: Sequence[Any]) -> Code:
        code = _SCALAR.get((s.op, s.from_))
        found = b"".join(a) + code if code else self._form(s, a, constants)
        return found + _WRAP.get(s.type, b"") if s.op in _WRAPPING else found

    def _form(self, s: LaneOp, a: Sequence[Code], constants: Sequence[Any]) -> Code:
        """What is no instruction, of scalars or of a register each."""
        types = ["bool" if s.op == "select" and n == 0 else s.from_ for n in range(len(a))]
        first, *others = [value(x, t, s.lanes) for x, t in zip(a, types, strict=True)]
        if s.op == "muladd" and self.relaxed and s.lanes > 1:
            return first.op("relaxed_madd", *others).code
        return _FORMS[s.op](s, constants, first, *others).code

    # vectors

    def _vector(self, s: LaneOp, args: Sequence[Pieces], constants: Sequence[Any]) -> Pieces:
        code = _VECTOR.get((s.op, s.from_))
        if s.op in _OF_REGISTERS:
            return [self._form(s, pieces, constants) for pieces in zip(*args, strict=True)]
        if code is None:
            form = _VECTOR_FORMS.get((s.op, s.from_)) or _VECTOR_FORMS.get((s.op, ""))
            found = form(self, s, args, constants) if form else None
            found = found or self._lane_by_lane(s, args, constants)
        else:
            if s.op in ("min", "max") and s.type in _FLOATS:
                for n, known in enumerate(constants):
                    if known is not None and known == known:  # no NaN
                        return bound(args[1 - n], args[n], s.type, s.op == "max")
            found = [b"".join(a) + code for a in zip(*args, strict=True)]
            if s.type == "bool" and is_wide(s.from_):
                found = _halved(found)
        wrap = _WRAP_VECTOR.get(s.type) if s.op in _WRAPPING else None
        return [x + wrap for x in found] if wrap else found

    def _lane_by_lane(self, s: LaneOp, args: Sequence[Pieces], constants: Sequence[Any]) -> Pieces:
        types = ["bool", s.from_, s.from_] if s.op == "select" else [s.from_] * len(args)
        scalars, one = [], s._replace(lanes=1)
        for n in range(s.lanes):
            a = [
                extract(x, n, type) if known is None else constant(known, type, 1)[0]
                for x, type, known in zip(args, types, constants, strict=True)
            ]
            scalars.append(self._scalar(one, a, constants))
        return joined(scalars, s.type)

    def _shifts(self, s: LaneOp, args: Sequence[Pieces], constants: Sequence[Any]) -> Pieces | None:
        if constants[1] is None:
            return None
        name = "shl" if s.op == "shl" else "shr_u" if s.type[0] == "u" else "shr_s"
        code = i32(int(constants[1])) + OP[f"{_SHAPES.get(s.type, 'i32x4')}.{name}"]
        return [x + code for x in args[0]]

    def _divides(
        self, s: LaneOp, args: Sequence[Pieces], constants: Sequence[Any]
    ) -> Pieces | None:
        """By a positive constant; None: lane by lane."""
        by = constants[1]
        if by is None or by < 1 or s.type not in _SIGNED:
            return None
        quotients = [_quotient(x, int(by)) for x in args[0]]
        if s.op == "div":
            return quotients
        product = constant(by, "i32", LANES)[0] + OP["i32x4.mul"] + OP["i32x4.sub"]
        return [x + q + product for x, q in zip(args[0], quotients, strict=True)]

    def _selects(self, s: LaneOp, args: Sequence[Pieces], constants: Sequence[Any]) -> Pieces:
        which = mask(args[0], s.type)
        chosen = zip(args[1], args[2], which, strict=True)
        return [a + b + m + self.bitselect for a, b, m in chosen]

    def _less(self, s: LaneOp, args: Sequence[Pieces], constants: Sequence[Any]) -> Pieces:
        """Of u64: as i64, once the sign is turned."""
        signed = [[value(x, "u64", LANES).op("xor", 1 << 63) for x in pieces] for pieces in args]
        return _halved([a.op(s.op, b).code for a, b in zip(*signed, strict=True)])

    def _casts(self, s: LaneOp, args: Sequence[Pieces], constants: Sequence[Any]) -> Pieces | None:
        (x,), from_, to = args, s.from_, s.type
        if to == "bool":
            return self._vector(
                LaneOp(s.out, "ne", s.args, from_, "bool", s.lanes),
                [x, constant(0, from_, s.lanes)], (),
            )  # fmt: skip
        if from_ == "bool":
            one = constant(1, to, LANES)[0] + OP["v128.and"]
            return [m + one for m in mask(x, to)]
        sign = "u" if from_[0] == "u" else "s"
        if from_ == "f32":
            if to == "f64":
                return _spread(x, "f64x2.promote_low_f32x4")
            return None if to in _LONG else [self._modulo(p) for p in x]
        if from_ == "f64":
            if to != "f32":
                return None
            return _halved_floats(x)
        if from_ in _LONG:
            if to in _LONG:
                return x
            return None if to in _FLOATS else _halved(x)
        if to == "f32":
            return [p + OP[f"f32x4.convert_i32x4_{sign}"] for p in x]
        if to == "f64":
            return _spread(x, f"f64x2.convert_low_i32x4_{sign}")
        if to in _LONG:
            return _doubled(x, f"i64x2.extend_low_i32x4_{sign}", f"i64x2.extend_high_i32x4_{sign}")
        return x

    def _modulo(self, x: Code) -> Code:
        """f32 cut to an int modulo 2**32; NaN is 0. The rest after the nearest
        multiple of 2**32 is exact, and 2**31 is the one that no i32 holds."""
        number = value(x, "f32", LANES)
        rest = number - (number * 2.0**-32).op("nearest") * 2.0**32
        whole = WasmValue("i32x4", rest.code + OP["i32x4.trunc_sat_f32x4_s"])
        return whole.op("xor", rest.equals(2.0**31)).code


def _halved_floats(x: Pieces) -> Pieces:
    low = OP["f32x4.demote_f64x2_zero"]
    both = shuffle([*range(8), *range(16, 24)])
    return [a + low + b + low + both for a, b in zip(x[::2], x[1::2], strict=True)]


# --- what is no instruction, of the operation, the numbers that operands are known to be, and these


def _least(s: LaneOp, constants: Sequence[Any], a: WasmValue, b: WasmValue) -> WasmValue:
    first, second = (a, b) if s.op == "min" else (b, a)
    return a.where(first.op("lt_u" if s.type[0] in "ub" else "lt", second), b)


def _division(s: LaneOp, constants: Sequence[Any], a: WasmValue, b: WasmValue) -> WasmValue:
    signed = s.type[0] != "u"
    name = s.op if signed else s.op + "_u"
    if constants[1] not in (None, 0, -1):
        return a.op(name, b)
    least = -(1 << (63 if a.type == I64 else 31)) if signed else None
    return primitives.division(name, a, b, functools.partial(as_value, type=a.type), least)


def _cast(s: LaneOp, constants: Sequence[Any], x: WasmValue) -> WasmValue:
    from_, to = x.type, scalar_type(s.type)
    if s.type == "bool":
        return x.differs(0)
    sign = "u" if s.from_[0] in "ub" else "s"
    if s.from_ in _FLOATS:
        if s.type in _FLOATS:
            return x.cast(to)
        # what no i64 holds is its least number
        inside = x.where(x.op("abs") < 2.0**63, -(2.0**63))
        return inside.to(f"i64.trunc_sat_{from_}_s").cast(to)
    if s.type in _FLOATS:
        return x.to(f"{to}.convert_{from_}_{sign}")
    return x.to(f"i64.extend_i32_{sign}") if (from_, to) == (I32, I64) else x.cast(to)


_FORMS: dict[str, Callable[..., WasmValue]] = {
    "not": lambda s, _, x: x.op("eqz") if s.type == "bool" else x.op("xor", -1),
    "neg": lambda s, _, x: as_value(0, x.type) - x,
    "abs": lambda s, _, x: (as_value(0, x.type) - x).where(x < 0, x),
    "min": _least, "max": _least, "div": _division, "rem": _division, "cast": _cast,
    "select": lambda s, _, c, a, b: a.where(c, b),
    "bitcast": lambda s, _, x: x.bits(scalar_type(s.type)),
    "narrow": lambda s, _, x: _NARROW[s.value](x),
    "muladd": lambda s, _, a, b, c: a * b + c,
}  # fmt: skip
_VECTOR_FORMS: dict[tuple[str, str], Callable[..., Pieces | None]] = {
    ("shl", ""): Selector._shifts, ("shr", ""): Selector._shifts, ("select", ""): Selector._selects,
    ("div", ""): Selector._divides, ("rem", ""): Selector._divides,
    ("cast", ""): Selector._casts, ("lt", "u64"): Selector._less, ("le", "u64"): Selector._less,
}  # fmt: skip
_OF_REGISTERS = ("bitcast", "muladd", "narrow")  # scalars' forms that are those of a register too
