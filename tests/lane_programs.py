"""Lane programs for the tests of their printers: each is interpreted, and run by what a printer
made of it."""

from __future__ import annotations

import contextlib
import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import interpreted
import numpy as np

from pyframe.codegen.lanes import program
from pyframe.codegen.lanes.program import INDEX, MEMORY, LaneProgram

INTS = [t for t in MEMORY if t[0] in "iu"]
TYPES = ["f32", "f64", "bool", *INTS]
REGISTER = {m: "f32" if m == "f16" else m for m in MEMORY}


class Body:
    """Writes statements down: each method adds one and gives the number of its value."""

    def __init__(self) -> None:
        self.blocks: list[list[Any]] = [[]]
        self.numbers = itertools.count()
        self.kinds: dict[int, tuple[str, int]] = {}

    def add(self, kind: Any, type: str, lanes: int, *fields: Any, **named: Any) -> int:
        out = next(self.numbers)
        self.kinds[out] = type, lanes
        self.blocks[-1].append(kind(out, *fields, **named))
        return out

    def const(self, value: Any, type: str, lanes: int = 1) -> int:
        return self.add(program.LaneConst, type, lanes, value, type, lanes)

    def index(self, value: int) -> int:
        return self.const(value, INDEX)

    def param(self, word: int, memory: str) -> int:
        return self.add(program.LaneParam, REGISTER[memory], 1, word, memory, REGISTER[memory])

    def unit(self) -> int:
        return self.add(program.Unit, INDEX, 1)

    def iota(self, type: str, lanes: int) -> int:
        return self.add(program.Iota, type, lanes, type, lanes)

    def splat(self, arg: int, lanes: int) -> int:
        type, _ = self.kinds[arg]
        return self.add(program.Splat, type, lanes, arg, type, lanes)

    def rotate(self, arg: int, by: int) -> int:
        type, lanes = self.kinds[arg]
        return self.add(program.Rotate, type, lanes, arg, by, type, lanes)

    def lane(self, arg: int, at: int) -> int:
        type, lanes = self.kinds[arg]
        return self.add(program.Lane, type, 1, arg, at, type, lanes)

    def op(self, op: str, *args: int, type: str = "", value: Any = None) -> int:
        from_, lanes = self.kinds[args[op == "select"]]
        compares = op in ("eq", "ne", "lt", "le")
        to = type or ("bool" if compares else from_)
        return self.add(program.LaneOp, to, lanes, op, args, from_, to, lanes, value)

    def load(
        self, binding: int, at: int, memory: str, lanes: int, stride: int | None = 1,
        valid: int = -1,
    ) -> int:  # fmt: skip
        type = REGISTER[memory]
        return self.add(
            program.LaneLoad, type, lanes, binding, at, stride, valid, memory, type, lanes
        )

    def store(
        self, binding: int, at: int, arg: int, memory: str = "", stride: int | None = 1
    ) -> None:
        type, lanes = self.kinds[arg]
        self.blocks[-1].append(
            program.LaneStore(binding, at, stride, arg, memory or type, type, lanes)
        )

    def var(self, start: int) -> int:
        type, lanes = self.kinds[start]
        return self.add(program.Var, type, lanes, start, type, lanes)

    def get(self, var: int) -> int:
        type, lanes = self.kinds[var]
        return self.add(program.Get, type, lanes, var, type, lanes)

    def set(self, var: int, arg: int) -> None:
        self.blocks[-1].append(program.Set(var, arg))

    @contextlib.contextmanager
    def loop(self, start: int, stop: int, step: int = 1, times: int = 0) -> Iterator[int]:
        out = next(self.numbers)
        self.kinds[out] = INDEX, 1
        self.blocks.append([])
        yield out
        body = tuple(self.blocks.pop())
        self.blocks[-1].append(program.For(out, start, stop, step, body, times))

    def function(self, bindings: int, units: int = 1, label: str = "kernel") -> LaneProgram:
        return LaneProgram(label, bindings, units, 1, tuple(self.blocks[0]))


class Case(NamedTuple):
    """A program, what lies in its buffers, and which of them it writes."""

    name: str
    function: LaneProgram
    buffers: list[np.ndarray]
    outputs: list[int]
    params: bytes = b""
    loose_zeros: bool = False  # whether -0.0 may be 0.0


# --- numbers that are hard


def hard(type: str) -> np.ndarray:
    """The ends of a type, and what rounding, wrapping and comparing may do wrongly."""
    kind = interpreted.STORED[type]
    if type == "bool":
        return np.array([False, True])
    if kind.kind == "f":
        info = np.finfo(kind)
        some = [0.0, 0.5, 1, 1.5, 2.5, 3, 7.75, 100, 1e-3, 1e4]
        if type != "f16":
            some += [2.0**31, 2.0**31 - 128, 2.0**32 + 512, 3e9, 2.0**40 * 1.25, 2.0**63, 1e30]
        some += [info.max, info.tiny, info.smallest_subnormal, np.inf]
        return np.array([*some, *[-x for x in some], np.nan], kind)
    limits = np.iinfo(kind)
    some = [0, 1, 2, 3, 7, 100, limits.max, limits.max - 1, limits.min, limits.min + 1]
    if limits.min:
        some += [-1, -2, -7, -100]
    return np.array(some, kind)


def numbers(memory: str, n: int, seed: int = 0) -> np.ndarray:
    """`n` hard numbers in a shuffled order."""
    found = hard(memory)
    order = np.random.default_rng(seed).integers(0, found.size, n)
    return found[order]


def filled(values: np.ndarray, lanes: int) -> np.ndarray:
    """The values repeated until whole vectors of them are full."""
    return np.resize(values, -(-values.size // lanes) * lanes)


# --- programs


def elementwise(
    name: str, memories: Sequence[str], lanes: int, columns: Sequence[np.ndarray], make: Any,
    loose_zeros: bool = False,
) -> Case:  # fmt: skip
    """`make(body, operands)` of each element of the columns, `lanes` at a time."""
    b = Body()
    columns = [filled(c, lanes) for c in columns]
    with b.loop(b.index(0), b.index(columns[0].size), lanes) as i:
        loaded = [b.load(n, i, m, lanes) for n, m in enumerate(memories)]
        made = make(b, loaded)
        type, _ = b.kinds[made]
        b.store(len(columns), i, made, "i64" if type == INDEX else "")
    out = np.zeros(columns[0].size, interpreted.LANE_TYPES[type])
    return Case(
        f"{name}-x{lanes}", b.function(len(columns) + 1), [*columns, out], [len(columns)],
        loose_zeros=loose_zeros,
    )  # fmt: skip


def pairs(type: str) -> list[np.ndarray]:
    found = hard(type)
    return [np.repeat(found, found.size), np.tile(found, found.size)]


FLOATS = ["f32", "f64"]
NUMBERS = [*FLOATS, *INTS]
UNARY = {
    "neg": NUMBERS, "abs": [t for t in NUMBERS if t[0] != "u"], "floor": FLOATS, "ceil": FLOATS,
    "trunc": FLOATS, "round": FLOATS, "sqrt": FLOATS, "not": ["bool", *INTS],
}  # fmt: skip
BINARY = {
    "add": NUMBERS, "sub": NUMBERS, "mul": NUMBERS, "div": NUMBERS, "rem": INTS,
    "min": NUMBERS, "max": NUMBERS, "eq": TYPES, "ne": TYPES, "lt": NUMBERS, "le": NUMBERS,
    "and": ["bool", *INTS], "or": ["bool", *INTS], "xor": ["bool", *INTS],
}  # fmt: skip
BITCASTS = [("f32", "i32"), ("f32", "u32"), ("f64", "i64"), ("f64", "u64")]
INDEXED = ("add", "sub", "mul", "div", "rem", "lt", "le", "eq", "min", "max")


def primitives(lanes: int) -> Iterator[Case]:
    """Each primitive of each type that it has."""

    def case(op: str, types: Sequence[str], columns: Sequence[np.ndarray], **named: Any) -> Case:
        name = "-".join([op, *types, *named.values()])
        loose = op in ("min", "max")
        return elementwise(name, types, lanes, columns, lambda b, x: b.op(op, *x, **named), loose)

    for op, types in UNARY.items():
        for t in types:
            yield case(op, [t], [hard(t)])
    for op, types in BINARY.items():
        for t in types:
            yield case(op, [t, t], pairs(t))
    for t in FLOATS:  # numbers whose products have no error, however often they are rounded
        few = np.array(
            [0, 0.25, 1, 1.5, -3, 7.75, 1000, np.inf, -np.inf, np.nan], interpreted.STORED[t]
        )
        yield case("muladd", [t, t, t], [x.ravel() for x in np.meshgrid(few, few, few)])
    for t in INTS:
        bits = 8 * MEMORY[t]
        for op in ("shl", "shr"):
            x, by = np.meshgrid(hard(t), np.arange(bits, dtype=interpreted.LANE_TYPES[t]))
            yield case(op, [t, t], [x.ravel(), by.ravel()])
    for t in TYPES:
        a, b = pairs(t)
        yield case("select", ["bool", t, t], [numbers("bool", a.size), a, b])
        for to in TYPES:
            if to != t:
                yield case("cast", [t], [hard(t)], type=to)
    for a, b in BITCASTS:
        yield case("bitcast", [a], [hard(a)], type=b)
        yield case("bitcast", [b], [hard(a).view(interpreted.STORED[b])], type=a)
    halves = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 65504, 65520, 1e-7, 3e-8, 2e-8, 1 + 2.0**-8])
    near = np.concatenate([hard("f32"), halves.astype(np.float32), numbers("f32", 9) * 1.001])
    for dtype in ("float16", "bfloat16"):
        yield case("narrow", ["f32"], [near], value=dtype)
    for op in INDEXED:
        yield elementwise(
            f"{op}-index", ["i64", "i64"], lanes, pairs("i64"),
            lambda b, x, op=op: b.op(op, *[b.op("cast", y, type=INDEX) for y in x]),
        )  # fmt: skip
    for t in NUMBERS:  # a printer may know more of a constant
        for op in ("min", "max", "div", "rem")[: 4 if t in INTS else 3]:
            for value in (0, 3):
                yield elementwise(
                    f"{op}-{t}-by-{value}", [t], lanes, [hard(t)],
                    lambda b, x, op=op, value=value, t=t: b.op(
                        op, x[0], b.const(value, t, b.kinds[x[0]][1])
                    ),
                    loose_zeros=True,
                )  # fmt: skip


def memory(lanes: int) -> Iterator[Case]:
    """Loads and stores of each form: strides, gathers, and where nothing is to be read."""
    for m in MEMORY:
        for stride in (1, 0, -1, 2, -2, 3, None):
            for masked in (False, True):
                yield _loads(m, stride, masked, lanes)
            if stride != 0:
                yield _stores(m, stride, lanes)


def _loads(m: str, stride: int | None, masked: bool, lanes: int) -> Case:
    """A buffer that ends with the last lane to be read; those that are not valid lie outside."""
    n = lanes - lanes // 3 if lanes > 1 else 0
    n = n if masked else lanes
    step = 1 if stride is None else abs(stride)
    data = numbers(m, max((n - 1) * step, 0) + 1)
    order = np.random.default_rng(1).permutation(max(n, 1)).astype(np.int64)
    b = Body()
    at = b.index(data.size - 1 if (stride or 0) < 0 else 0)
    valid = -1
    if masked:
        valid = b.op("lt", b.iota("i32", lanes), b.const(n, "i32", lanes))
    if stride is None:
        at = b.op("cast", b.load(1, b.index(0), "i64", lanes, 1, valid), type=INDEX)
        if masked:
            at = b.op("select", valid, at, b.const(1 << 28, INDEX, lanes))
    loaded = b.load(0, at, m, lanes, stride, valid)
    b.store(2, b.index(0), loaded)
    out = np.ones(lanes, interpreted.LANE_TYPES[REGISTER[m]])
    name = f"load-{m}-{stride}-{'masked' if masked else 'all'}-x{lanes}"
    return Case(name, b.function(3, label=name), [data, order, out], [2])


def _stores(m: str, stride: int | None, lanes: int) -> Case:
    t = REGISTER[m]
    size = lanes * (abs(stride) if stride is not None else 1)
    order = np.random.default_rng(1).permutation(lanes).astype(np.int64)
    b = Body()
    x = b.load(0, b.index(0), t, lanes)
    at = b.index(size - 1 if (stride or 0) < 0 else 0)
    if stride is None:
        at = b.op("cast", b.load(1, b.index(0), "i64", lanes), type=INDEX)
    b.store(2, at, x, m, stride)
    # in front of it and behind it nothing changes
    out = numbers(m, size, 7)
    name = f"store-{m}-{stride}-x{lanes}"
    return Case(name, b.function(3, label=name), [numbers(t, lanes, 3), order, out], [2])


def lane_moves(lanes: int) -> Iterator[Case]:
    """Splat, program.Rotate, Lane and Iota of each type."""
    for t in TYPES:
        b = Body()
        x = b.load(0, b.index(0), t, lanes)
        at = b.index(0)
        step = b.index(lanes)
        for by in sorted({0, 1 % lanes, lanes // 2, lanes - 1}):
            b.store(1, at, b.rotate(x, by))
            at = b.op("add", at, step)
            b.store(1, at, b.splat(b.lane(x, by), lanes))
            at = b.op("add", at, step)
        if t in INTS:
            b.store(1, at, b.iota(t, lanes))
        out = np.zeros(9 * lanes, interpreted.LANE_TYPES[t])
        yield Case(f"moves-{t}-x{lanes}", b.function(2), [numbers(t, lanes), out], [1])


def loops(lanes: int) -> Iterator[Case]:
    """Variables that loops carry, loops in loops, loops that don't run, units, params."""
    rows, columns = 5, 3 * lanes + 1
    data = (np.arange(rows * columns) % 23 - 11).astype(np.float32).reshape(rows, columns)

    b = Body()  # each unit is a row: its sum over whole vectors, then over the rest one by one
    row, width = b.unit(), b.index(columns)
    begin = b.op("mul", row, width)
    whole = b.op("add", begin, b.index(columns - columns % lanes))
    total = b.var(b.const(0.0, "f32", lanes))
    with b.loop(begin, whole, lanes, times=columns // lanes) as i:
        b.set(total, b.op("add", b.get(total), b.load(0, i, "f32", lanes)))
    by, folded = lanes // 2, b.get(total)
    while by:
        folded, by = b.op("add", folded, b.rotate(folded, by)), by // 2
    one = b.var(b.lane(folded, 0))
    with b.loop(whole, b.op("add", begin, width)) as i:
        b.set(one, b.op("add", b.get(one), b.load(0, i, "f32", 1)))
    b.store(1, row, b.get(one))
    yield Case(f"rows-x{lanes}", b.function(2, rows), [data, np.zeros(rows, np.float32)], [1])

    b = Body()  # a variable of a variable, in loops that run 0, 1, … times
    limit, zero = b.index(4), b.index(0)
    count = b.var(b.const(0, "i32", lanes))
    with b.loop(zero, limit) as i:
        inner = b.var(b.const(1, "i32", lanes))
        with b.loop(zero, i, 2) as j:
            wide = b.splat(b.op("cast", j, type="i32"), lanes)
            b.set(inner, b.op("add", b.op("mul", b.get(inner), b.const(3, "i32", lanes)), wide))
        b.set(count, b.op("add", b.get(count), b.get(inner)))
        b.store(0, b.op("mul", i, b.index(lanes)), b.get(count))
    with b.loop(limit, zero) as i:
        b.store(0, i, b.get(count))
    yield Case(f"nested-x{lanes}", b.function(1), [np.zeros(4 * lanes, np.int32)], [0])

    b = Body()  # a scalar of each form
    made = [(m, hard(m)[k % 2]) for k, m in enumerate(MEMORY)]
    words = b"".join(value.tobytes().ljust(8, b"\xff") for _, value in made)
    outs = []
    for n, (m, _) in enumerate(made):
        b.store(n, b.index(0), b.splat(b.param(n, m), lanes))
        outs.append(np.zeros(lanes, interpreted.LANE_TYPES[REGISTER[m]]))
    yield Case(f"params-x{lanes}", b.function(len(outs)), outs, [*range(len(outs))], words)

    b = Body()  # a constant of each form
    outs = []
    for n, t in enumerate(TYPES):
        for k, value in enumerate(hard(t)):
            b.store(n, b.index(k * lanes), b.const(value.item(), t, lanes))
        outs.append(np.zeros(hard(t).size * lanes, interpreted.LANE_TYPES[t]))
    yield Case(f"constants-x{lanes}", b.function(len(outs)), outs, [*range(len(outs))])


def cases(lanes: int) -> list[Case]:
    """All of them."""
    return [*primitives(lanes), *memory(lanes), *lane_moves(lanes), *loops(lanes)]


# --- what they give


def expected(case: Case) -> list[np.ndarray]:
    """The buffers after the interpreter's run."""
    buffers = [x.copy() for x in case.buffers]
    interpreted.run(case.function, [x.reshape(-1).view(np.uint8) for x in buffers], case.params)
    return buffers


def compare(case: Case, buffers: Sequence[np.ndarray]) -> None:
    """That a printer's run left `buffers` as the interpreter does, zeros' signs included."""
    for n, (found, right) in enumerate(zip(buffers, expected(case), strict=True)):
        if n not in case.outputs:
            assert zlib.crc32(found.tobytes()) == zlib.crc32(right.tobytes()), case.name
            continue
        np.testing.assert_array_equal(found, right, case.name)
        if right.dtype.kind == "f" and not case.loose_zeros:
            signs = np.signbit(found) == np.signbit(right)
            assert (signs | np.isnan(right)).all(), case.name
