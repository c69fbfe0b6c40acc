"""Lane programs as functions of a WebAssembly module.

A function takes the address of its words (those of its bindings' memory, then that of its params),
and the units to run. A value that is used once, in the block where it is computed, is computed on
the stack where it is used; other values have a local each, of which engines make registers. Nothing
moves over a write of what it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pyframe.codegen.lanes import program as lanes
from pyframe.codegen.lanes.program import MEMORY
from pyframe.codegen.wasm import forms
from pyframe.codegen.wasm.encoder import (
    GET,
    OP,
    SET,
    TEE,
    WasmFunction,
    access_lane,
    block,
    br_if,
    i32,
    if_,
    load,
    loop,
    shuffle,
    store,
    v128,
)
from pyframe.codegen.wasm.forms import LANES, Code, Pieces, Selector, registers
from pyframe.codegen.wasm.liveness import BUFFERS, UNITS, Liveness

PARAMS = "i32 i32 i32"  # the address of the words, the first unit, the one after the last
_WORDS, _BEGIN, _END = range(3)
_MOST_OFFSET = 1 << 30  # bytes

# How a scalar of a memory form is read and written, and a vector of 4 lanes: the load with what
# follows it, and what precedes the store.
_LOADS = {
    "f16": "i32.load16_u", "f32": "f32.load", "f64": "f64.load", "bool": "i32.load8_u",
    "i8": "i32.load8_s", "u8": "i32.load8_u", "i16": "i32.load16_s", "u16": "i32.load16_u",
    "i32": "i32.load", "u32": "i32.load", "i64": "i64.load", "u64": "i64.load",
}  # fmt: skip
_STORES = {
    memory: name.replace("load", "store").removesuffix("_s").removesuffix("_u")
    for memory, name in _LOADS.items()
}
_FROM_BYTES = {
    "u8": OP["i16x8.extend_low_i8x16_u"] + OP["i32x4.extend_low_i16x8_u"],
    "i8": OP["i16x8.extend_low_i8x16_s"] + OP["i32x4.extend_low_i16x8_s"],
}
_VECTOR_LOADS = {
    **dict.fromkeys(("f32", "f64", "i32", "u32", "i64", "u64"), ("v128.load", b"")),
    "i16": ("v128.load16x4_s", b""),
    "u16": ("v128.load16x4_u", b""),
    "f16": ("v128.load16x4_u", b""),
    "i8": ("v128.load32_zero", _FROM_BYTES["i8"]),
    "u8": ("v128.load32_zero", _FROM_BYTES["u8"]),
    "bool": ("v128.load32_zero", _FROM_BYTES["u8"] + OP["i32x4.neg"]),
}
_SCALES = {1: OP["i32.add"], **{1 << n: i32(n) + OP["i32.shl"] + OP["i32.add"] for n in (1, 2, 3)}}
_ZEROS = v128(bytes(16))
_NARROW_STORES = {
    1: ("v128.store32_lane", shuffle([0, 4, 8, 12] * 4)),
    2: ("v128.store64_lane", shuffle([0, 1, 4, 5, 8, 9, 12, 13] * 2)),
}


class _Value:
    """What leaves a value on the stack: a piece for each register. `reads` are the variables (or
    BUFFERS) that must not be written before it."""

    __slots__ = ("pieces", "reads", "type")

    def __init__(self, type: str, pieces: Pieces, reads: Iterable[int] = ()) -> None:
        self.type, self.pieces, self.reads = type, pieces, frozenset(reads)


class WasmPrinter:
    """Prints one lane program into `function`, whose first locals are the three of PARAMS."""

    def __init__(self, function: WasmFunction, program: lanes.LaneProgram, relaxed: bool) -> None:
        self.function, self.forms = function, Selector(relaxed)
        self.bindings = program.bindings
        self.liveness = Liveness(program.body)
        self.left = dict(self.liveness.uses)  # how often a value is still read
        self.values: dict[int, _Value] = {}
        self.pending: dict[int, _Value] = {}  # what is computed where it is used
        self.variables: dict[int, list[int]] = {}  # the locals of each
        self.aliases: dict[int, list[int]] = {}  # values that are what a variable holds now
        self.compares: dict[int, tuple[int, ...]] = {}  # a and b of a < b of floats
        self.heads = [bytearray()]  # what is run just before a block
        self.pointers: list[dict[Any, int]] = [{}]  # addresses that are computed there
        self.constants: dict[Code, int] = {}  # vectors that are known
        self.bases: dict[int, int] = {}  # addresses of bindings
        self.code = bytearray()

    def run(self) -> None:
        """Append the code."""
        for s in self.liveness.fixed:
            _PRINT[type(s)](self, s)
        body, head = self._block(self.liveness.body, self.liveness.writes[UNITS])
        for binding, local in self.bases.items():
            self.function.code += load("i32.load", GET[_WORDS], 4 * binding) + SET[local]
        for piece, local in self.constants.items():
            self.function.code += piece + SET[local]
        none = br_if(0, GET[_BEGIN] + GET[_END] + OP["i32.ge_s"])
        again = GET[_BEGIN] + i32(1) + OP["i32.add"] + TEE[_BEGIN] + GET[_END] + OP["i32.lt_s"]
        self.function.code += self.code + block(none + head + loop(body + br_if(0, again)))

    # values and locals

    def _take(self, value: int, held: bool = False) -> _Value:
        """A value for one of its uses; with `held` its pieces may be repeated."""
        found = self.pending.pop(value, None)
        if found is None:
            found = self.values[value]
        elif held:
            found = self._hold(value, found)
        self.left[value] -= 1
        return found

    def _finish(self, value: int, found: _Value) -> None:
        """A value was printed: it waits for the one who uses it, or is computed now."""
        uses = self.left.get(value, 0)
        if uses == 1 and value not in self.liveness.deep:
            self.pending[value] = found
        elif uses:
            self._hold(value, found)

    def _hold(self, value: int, found: _Value) -> _Value:
        """Compute a value, into locals."""
        locals = self._in_locals(found.pieces, found.type)
        found = self.values[value] = _Value(found.type, [GET[n] for n in locals])
        return found

    def _in_locals(self, pieces: Pieces, type: str) -> list[int]:
        """Compute pieces, into locals."""
        self.code += b"".join(pieces)
        locals = [self.function.local(type) for _ in pieces]
        for local in reversed(locals):
            self.code += SET[local]
        return locals

    def _keep(self, writes: set[int]) -> None:
        """Compute what reads what is about to be written."""
        for value in [v for v, found in self.pending.items() if not writes.isdisjoint(found.reads)]:
            self._hold(value, self.pending.pop(value))
        for variable in writes:
            for value in self.aliases.pop(variable, ()):
                if self.left.get(value):
                    self._hold(value, self.values[value])

    def _block(self, body: Sequence[Any], writes: set[int]) -> tuple[bytes, bytes]:
        """A deeper block, and what is to be run before it."""
        self._keep(writes)
        before, self.code = self.code, bytearray()
        self.heads.append(bytearray())
        self.pointers.append({})
        for s in body:
            _PRINT[type(s)](self, s)
        code, self.code = bytes(self.code), before
        self.pointers.pop()
        return code, bytes(self.heads.pop())

    # statements

    def _const(self, s: lanes.LaneConst) -> None:
        self._number(s, s.value)

    def _number(self, s: lanes.LaneConst | lanes.Splat, number: Any) -> None:
        pieces = forms.constant(number, s.type, s.lanes)
        if s.lanes > 1 and pieces[0] != _ZEROS:
            shortest = forms.splat(forms.constant(number, s.type, 1)[0], s.type)
            pieces = [self._constant(shortest)] * len(pieces)
        self.values[s.out] = _Value(_type(s.type, s.lanes), pieces)

    def _iota(self, s: lanes.Iota) -> None:
        pieces = forms.iota(s.type, s.lanes)
        if s.lanes > 1:
            pieces = [self._constant(piece) for piece in pieces]
        self.values[s.out] = _Value(_type(s.type, s.lanes), pieces)

    def _constant(self, piece: Code) -> Code:
        """A vector that is known, held from the beginning: engines make it anew where it stands,
        in several instructions."""
        if piece not in self.constants:
            self.constants[piece] = self.function.local("v128")
        return GET[self.constants[piece]]

    def _unit(self, s: lanes.Unit) -> None:
        self.values[s.out] = _Value("i32", [GET[_BEGIN]])

    def _param(self, s: lanes.LaneParam) -> None:
        address = load("i32.load", GET[_WORDS], 4 * self.bindings)
        found = _Value(forms.scalar_type(s.type), [load(_LOADS[s.memory], address, 8 * s.word)])
        self._finish(s.out, self._from_memory(found, s.memory, 1))

    def _splat(self, s: lanes.Splat) -> None:
        if s.arg in self.liveness.known:
            self._number(s, self.liveness.known[s.arg])
            return
        x = self._take(s.arg, held=True)
        pieces = x.pieces
        if s.lanes > 1:
            pieces = [forms.splat(pieces[0], s.type)] * registers(s.type, s.lanes)
        self._finish(s.out, _Value(_type(s.type, s.lanes), pieces, x.reads))

    def _rotate(self, s: lanes.Rotate) -> None:
        x = self._take(s.arg, held=True)
        pieces = forms.rotate(x.pieces, s.by, s.type) if s.lanes > 1 else x.pieces
        self._finish(s.out, _Value(x.type, pieces, x.reads))

    def _lane(self, s: lanes.Lane) -> None:
        x = self._take(s.arg, held=True)
        piece = forms.extract(x.pieces, s.at, s.type) if s.lanes > 1 else x.pieces[0]
        self._finish(s.out, _Value(forms.scalar_type(s.type), [piece], x.reads))

    def _op(self, s: lanes.LaneOp) -> None:
        known = [self.liveness.known.get(a) for a in s.args]
        result = self._bound(s)
        args = [self._take(a, self.forms.repeats(s, known)) for a in s.args]
        if result is None:
            result = self.forms.op(s, [a.pieces for a in args], known)
        if s.op == "lt" and s.from_ in ("f32", "f64"):
            self.compares[s.out] = s.args
        reads = [read for a in args for read in a.reads]
        self._finish(s.out, _Value(_type(s.type, s.lanes), result, reads))

    def _bound(self, s: lanes.LaneOp) -> Pieces | None:
        """`select(x < y, y, x)` and `select(x < y, x, y)` of floats as one instruction."""
        less = self.compares.get(s.args[0]) if s.op == "select" and s.lanes > 1 else None
        if less is None or s.args[0] not in self.pending or sorted(less) != sorted(s.args[1:]):
            return None
        first, second = self.values[s.args[2]].pieces, self.values[s.args[1]].pieces
        return forms.bound(first, second, s.type, less[0] == s.args[2])

    def _var(self, s: lanes.Var) -> None:
        start = self._take(s.start)
        self.variables[s.out] = self._in_locals(start.pieces, start.type)

    def _get(self, s: lanes.Get) -> None:
        pieces = [GET[local] for local in self.variables[s.var]]
        self.values[s.out] = _Value(_type(s.type, s.lanes), pieces, (s.var,))
        self.aliases.setdefault(s.var, []).append(s.out)

    def _set(self, s: lanes.Set) -> None:
        found = self._take(s.arg)
        self._keep({s.var})
        self.code += b"".join(found.pieces)
        for local in reversed(self.variables[s.var]):
            self.code += SET[local]

    def _for(self, s: lanes.For) -> None:
        start, known = self._take(s.start), self.liveness.known
        runs = s.times or (s.start in known and s.stop in known and known[s.start] < known[s.stop])
        (at,) = self._in_locals(start.pieces, "i32")
        self.values[s.out] = _Value("i32", [GET[at]])
        body, head = self._block(s.body, self.liveness.writes[s.out])
        stop = self.values[s.stop]
        if s.times == 1:
            self.code += head + body
            return
        less = stop.pieces[0] + OP["i32.lt_s"]
        again = GET[at] + i32(s.step) + OP["i32.add"] + TEE[at] + less
        turns = head + loop(body + br_if(0, again))
        self.code += turns if runs else block(br_if(0, GET[at] + less + OP["i32.eqz"]) + turns)

    # memory

    def _base(self, binding: int) -> Code:
        if binding not in self.bases:
            self.bases[binding] = self.function.local("i32")
        return GET[self.bases[binding]]

    def _address(self, s: lanes.LaneLoad | lanes.LaneStore) -> tuple[Code, int]:
        """Where a load or store begins: a piece, and the bytes beyond it."""
        terms, size = self.liveness.terms[id(s)], MEMORY[s.memory]
        offset, scale = terms.constant * size, _SCALES[size]
        apart = self.liveness.may_offset(terms) and offset < _MOST_OFFSET
        outer = [self._take(value) for value in terms.outer]
        piece = self._base(s.binding)
        if outer or not apart:
            key = s.binding, size, terms.outer, None if apart else offset
            if key not in self.pointers[-1]:
                for value in outer:
                    piece += value.pieces[0] + scale
                if not apart:
                    piece += i32(offset) + OP["i32.add"]
                local = self.pointers[-1][key] = self.function.local("i32")
                self.heads[-1] += piece + SET[local]
            piece = GET[self.pointers[-1][key]]
        for term in terms.inner:
            piece += self._take(term).pieces[0] + scale
        return piece, offset if apart else 0

    def _held_address(self, s: lanes.LaneLoad | lanes.LaneStore) -> tuple[Code, int]:
        """The same of a piece that may be repeated."""
        piece, offset = self._address(s)
        (local,) = self._in_locals([piece], "i32")
        return GET[local], offset

    def _vector_addresses(self, s: lanes.LaneLoad | lanes.LaneStore) -> Pieces:
        """The addresses of all lanes as vectors."""
        if s.stride is not None:
            start, offset = self._held_address(s)
            return _stepped(start, offset, s)
        at, shift = self._take(s.at), MEMORY[s.memory].bit_length() - 1
        scaled = i32(shift) + OP["i32x4.shl"] if shift else b""
        base = self._base(s.binding) + OP["i32x4.splat"] + OP["i32x4.add"]
        return [x + scaled + base for x in at.pieces]

    def _lane_addresses(self, s: lanes.LaneLoad | lanes.LaneStore) -> list[tuple[Code, int]]:
        """An address and an offset for each lane, of pieces that may be repeated."""
        if s.stride is None:
            where = [GET[local] for local in self._in_locals(self._vector_addresses(s), "v128")]
            return [(forms.extract(where, n, "i32"), 0) for n in range(s.lanes)]
        start, offset = self._held_address(s)
        steps = [offset + n * s.stride * MEMORY[s.memory] for n in range(s.lanes)]
        return [
            (start, step) if step >= offset else (start + i32(step) + OP["i32.add"], 0)
            for step in steps
        ]

    def _load(self, s: lanes.LaneLoad) -> None:
        valid = self.liveness.scalars.get(s.valid, s.valid if s.lanes == 1 else -1)
        if s.valid >= 0 and valid < 0:
            found = self._load_masked(s)
        elif s.lanes == 1 or s.stride == 0:
            address, offset = self._address(s)
            narrow = s.type == lanes.INDEX  # of a size, which is an i64
            piece = load("i32.load" if narrow else _LOADS[s.memory], address, offset)
            if s.lanes > 1:
                piece = forms.splat(piece, _raw(s))
            found = _Value("", [piece] * registers(s.type, s.lanes))
        elif s.stride == 1:
            found = _Value("", self._contiguous(s, *self._held_address(s)))
        else:
            scalars = [load(_LOADS[s.memory], *address) for address in self._lane_addresses(s)]
            found = _Value("", forms.joined(scalars, _raw(s)))
        if valid >= 0:
            exists, zero = self._take(valid, held=True), forms.constant(0, _raw(s), s.lanes)[0]
            type = _type(_raw(s), s.lanes)
            found.pieces = [if_(exists.pieces[0], x, zero, type) for x in found.pieces]
            found.reads |= exists.reads
        found.reads |= {BUFFERS}
        found.type = _type(s.type, s.lanes)
        self._finish(s.out, self._from_memory(found, s.memory, s.lanes))

    def _from_memory(self, found: _Value, memory: str, lanes: int) -> _Value:
        """What was loaded as it is in registers."""
        if memory != "f16":
            return found
        held = self._in_locals(found.pieces, _type("u16", lanes))
        return _Value(found.type, [forms.from_half(GET[local], lanes) for local in held])

    def _contiguous(self, s: lanes.LaneLoad, address: Code, offset: int) -> Pieces:
        """Whole registers from an address on."""
        name, then = _VECTOR_LOADS[s.memory]
        count = registers(s.type, s.lanes)
        size = s.lanes * MEMORY[s.memory] // count
        return [load(name, address, offset + n * size) + then for n in range(count)]

    def _load_masked(self, s: lanes.LaneLoad) -> _Value:
        """Lane by lane: one that is not valid is read from address 0, which is always there, and
        cleared. Where all are valid, as they mostly are, a contiguous load."""
        valid = self._take(s.valid, held=True)
        whole, quick = b"", []
        if s.stride == 1:
            start, offset = self._held_address(s)
            quick = self._contiguous(s, start, offset)
            whole = valid.pieces[0] + b"".join(m + OP["v128.and"] for m in valid.pieces[1:])
            whole += OP["i32x4.all_true"]
            vectors = _stepped(start, offset, s)
        else:
            vectors = self._vector_addresses(s)
        held = [self.function.local("v128") for _ in vectors]
        there = [
            vector + m + OP["v128.and"] + SET[local]
            for vector, m, local in zip(vectors, valid.pieces, held, strict=True)
        ]
        where = [GET[local] for local in held]
        each = [load(_LOADS[s.memory], forms.extract(where, n, "i32")) for n in range(s.lanes)]
        found = forms.joined(each, _raw(s))
        per = len(found) // len(held)
        for n, m in enumerate(forms.mask(valid.pieces, _raw(s))):
            found[n] = there[n // per] + found[n] + m + OP["v128.and"]
            if quick:
                found[n] = if_(whole, quick[n], found[n], "v128")
        return _Value("", found, valid.reads)

    def _store(self, s: lanes.LaneStore) -> None:
        size, form, type = MEMORY[s.memory], _STORES[s.memory], s.type
        contiguous = s.stride == 1 or s.lanes == 1
        x = self._take(s.arg, held=not contiguous or s.memory == "f16")
        pieces = x.pieces
        if len(pieces) > 1 and BUFFERS in x.reads:  # all is read before a part is written
            pieces = [GET[local] for local in self._in_locals(pieces, x.type)]
        if s.memory == "f16":
            narrow = lanes.LaneOp(-1, "narrow", (), "f32", "f32", s.lanes, "float16")
            held, type = self._in_locals(self.forms.op(narrow, [pieces], [None]), x.type), "u16"
            pieces = [forms.to_half(GET[local], s.lanes) for local in held]
        elif type != s.memory:
            widened = lanes.LaneOp(-1, "cast", (), type, s.memory, s.lanes)
            pieces, type = self.forms.op(widened, [pieces], [None]), s.memory
        if s.lanes == 1:
            address, offset = self._address(s)
            code = store(form, address, pieces[0], offset)
        elif contiguous and size >= 4:
            address, offset = self._held_address(s)
            code = b"".join(
                store("v128.store", address, piece, offset + 16 * n)
                for n, piece in enumerate(pieces)
            )
        elif contiguous:
            if type == "bool":
                pieces = [piece + OP["i32x4.neg"] for piece in pieces]
            held = self._in_locals(pieces, "v128")
            address, offset = self._held_address(s)
            name, narrowed = _NARROW_STORES[size]
            code = b"".join(
                access_lane(name, address, GET[local] * 2 + narrowed, 0, offset + LANES * size * n)
                for n, local in enumerate(held)
            )
        else:
            code = b"".join(
                store(form, address, forms.extract(pieces, n, type), offset)
                for n, (address, offset) in enumerate(self._lane_addresses(s))
            )
        self._keep({BUFFERS})
        self.code += code


def _type(type: str, lanes: int) -> str:
    return "v128" if lanes > 1 else forms.scalar_type(type)


def _raw(s: lanes.LaneLoad) -> str:
    """The type of what is loaded, before it is converted."""
    return "u16" if s.memory == "f16" else s.type


def _stepped(start: Code, offset: int, s: lanes.LaneLoad | lanes.LaneStore) -> Pieces:
    """The addresses of strided lanes, as vectors."""
    step = (s.stride or 0) * MEMORY[s.memory]
    found = []
    for first in range(0, s.lanes, LANES):
        each = [offset + n * step & 0xFFFFFFFF for n in range(first, first + LANES)]
        steps = v128(b"".join(n.to_bytes(4, "little") for n in each))
        found.append(start + OP["i32x4.splat"] + steps + OP["i32x4.add"])
    return found


_PRINT = lanes.methods(WasmPrinter, "_")


class WasmKernel(NamedTuple):
    """A function of PARAMS, which runs as many units."""

    bindings: int
    units: Any
    body: bytes
    sizes: tuple[Any, ...] = ()  # of a kernel whose sizes change: what its last binding holds


def printed(program: lanes.LaneProgram, relaxed: bool) -> WasmKernel:
    """A lane program as WebAssembly; `relaxed`: the engine has relaxed SIMD."""
    function = WasmFunction(0, PARAMS.split())
    WasmPrinter(function, program, relaxed).run()
    return WasmKernel(program.bindings, program.units, function.encode(), program.sizes)
