"""Lane programs printed as WebAssembly: the table of tests/lane_programs.py, run by wasmtime."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pyframe.codegen.lanes.compiler import Launch
from pyframe.codegen.lanes.lower import lower
from pyframe.codegen.lanes.program import INDEX, LaneProgram, UnsupportedKernelError
from pyframe.codegen.wasm.assembler import WasmAssembler
from pyframe.codegen.wasm.encoder import WasmModule
from pyframe.codegen.wasm.forms import LANES
from pyframe.codegen.wasm.module import module, starts
from pyframe.codegen.wasm.printer import printed
from tests.backend import test_lanes
from tests.backend.test_lanes import CASES, kernels, memory, numbers
from tests.interpreted import LANE_TYPES
from tests.lane_programs import (
    INDEXED,
    Body,
    Case,
    cases,
    compare,
    elementwise,
    numbers as numbers_of,
)

wasmtime = pytest.importorskip("wasmtime")
small = test_lanes.small  # a fixture
PAGE = 1 << 16


@functools.cache
def engine() -> Any:
    config = wasmtime.Config()
    config.wasm_relaxed_simd = True
    return wasmtime.Engine(config)


class Memory:
    """Memory with arrays in it, the last one at its very end: who reads on traps."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.store = wasmtime.Store(engine())
        sizes = [-(-max(x.nbytes, 1) // 16) * 16 for x in arrays]
        pages = 2 + sum(sizes) // PAGE
        limits = wasmtime.Limits(pages, None)
        self.memory = wasmtime.Memory(self.store, wasmtime.MemoryType(limits))
        self.arrays, self.addresses, end = arrays, [0] * len(arrays), pages * PAGE
        for n, x in enumerate(arrays):
            end = (end - x.nbytes) // x.itemsize * x.itemsize
            self.addresses[n] = end
            self.memory.write(self.store, x.tobytes(), end)

    def run(self, code: bytes, *args: int) -> list[np.ndarray]:
        """What the arrays hold after `run` of the module."""
        made = wasmtime.Module(engine(), code)
        given = [self.memory if i.module == "env" else self.lib[i.name] for i in made.imports]
        exports = wasmtime.Instance(self.store, made, given).exports(self.store)
        exports["run"](self.store, *args)
        found = []
        for x, at in zip(self.arrays, self.addresses, strict=True):
            data = bytes(self.memory.read(self.store, at, at + x.nbytes))
            found.append(np.frombuffer(data, x.dtype).reshape(x.shape))
        return found

    def library(self, code: bytes) -> None:
        made = wasmtime.Module(engine(), code)
        self.lib = wasmtime.Instance(self.store, made, [self.memory]).exports(self.store)

    def write(self, n: int, values: np.ndarray) -> None:
        self.memory.write(self.store, values.tobytes(), self.addresses[n])


def check(case: Case, relaxed: bool = False) -> None:
    """That a program does here what the interpreter does."""
    code = module([printed(case.function, relaxed)], [Launch(0)])
    words = np.zeros(len(case.buffers) + 1, np.uint32)
    memory = Memory([*case.buffers, np.frombuffer(case.params or b"\0", np.uint8), words])
    memory.write(-1, np.array(memory.addresses[:-1], np.uint32))
    compare(case, memory.run(code, memory.addresses[-1], 0, 1)[: len(case.buffers)])


def fits(case: Case) -> bool:
    """Whether no index needs more bits than an address has here."""
    return case.name.split("-")[1:2] != [INDEX]


TABLE = [c for c in cases(1) if fits(c)]  # and of those of several lanes either form
TABLE += [c for n, c in enumerate(cases(4)) if fits(c) and n % 2]
TABLE += [c for n, c in enumerate(cases(16)) if fits(c) and not n % 2]
RELAXED = [c for c in cases(4) if fits(c) and c.name.startswith(("select", "muladd", "min"))]


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.name)
def test_table(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", RELAXED, ids=lambda case: case.name)
def test_relaxed(case: Case) -> None:
    check(case, relaxed=True)


def both(function: LaneProgram, *buffers: np.ndarray) -> None:
    """That a function does here what the interpreter does."""
    check(Case(function.label, function, list(buffers), list(range(len(buffers)))))


@pytest.mark.parametrize("op", INDEXED)
@pytest.mark.parametrize("lanes", [1, 4])
def test_index(op: str, lanes: int) -> None:
    some = np.array([0, 1, -1, 5, -7, 1000, 2**20, -(2**20), 3, 2], np.int64)
    columns = [np.repeat(some, some.size), np.tile(some, some.size)]
    if op == "mul":
        columns[0] //= 1000
    case = elementwise(
        op, ["i64", "i64"], lanes, columns,
        lambda b, x: b.op(op, *[b.op("cast", y, type=INDEX) for y in x]),
    )  # fmt: skip
    check(case)


@pytest.mark.parametrize("type", ["i8", "u8", "i16", "u16", "i32"])
@pytest.mark.parametrize("op", ["div", "rem"])
def test_division_by_a_constant(op: str, type: str) -> None:
    """Which vectors do by a product."""
    top = int(np.iinfo(LANE_TYPES[type]).max)
    some = [1, 2, 3, 5, 7, 10, 32, 48, 100, 125, 127, 625, 641, 1 << 14, 25000, 1 << 30, top]
    column = np.concatenate([numbers_of(type, 64), np.arange(-60, 60).astype(LANE_TYPES[type])])
    for by in [n for n in some if n <= top]:
        case = elementwise(
            f"{op}-{type}-{by}", [type], 4, [column],
            lambda b, x, by=by: b.op(op, x[0], b.const(by, type, 4)),
        )  # fmt: skip
        check(case)


@pytest.mark.parametrize("memory", ["f32", "f64", "f16", "bool", "u8"])
@pytest.mark.parametrize("stride", [1, 0, 3, None])
def test_loads_where_a_scalar_says_so(memory: str, stride: int | None) -> None:
    b = Body()
    lanes, out = 8, 0
    for exists in (True, False):
        n = b.load(1, b.index(int(exists)), "i32", 1)
        valid = b.splat(b.op("eq", n, b.const(1, "i32")), lanes)
        at = b.index(0 if exists else 1 << 28) if stride is not None else b.op(
            "mul", b.iota(INDEX, lanes), b.const(2 if exists else 1 << 26, INDEX, lanes)
        )  # fmt: skip
        x = b.load(0, at, memory, lanes, stride, valid)
        b.store(2, b.index(out), b.op("select", valid, x, b.const(1, b.kinds[x][0], lanes)))
        b.store(2, b.index(out + lanes), x)
        out += 2 * lanes
    data = numbers_of(memory, 22)
    result = np.zeros(out, LANE_TYPES["f32" if memory == "f16" else memory])
    both(b.function(3), data, np.array([0, 1], np.int32), result)


def test_wide_indices_have_no_form() -> None:
    b = Body()
    b.store(0, b.index(2**31), b.const(1, "i32"))
    with pytest.raises(UnsupportedKernelError, match="32 bits"):
        printed(b.function(1), False)


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_what_is_read_before_it_is_written(lanes: int) -> None:
    """Values that wait for their use keep what was there when they were computed."""
    b = Body()
    zero, one = b.index(0), b.index(lanes)
    x = b.load(0, zero, "f32", lanes)
    sum = b.op("add", x, b.load(0, one, "f32", lanes))
    b.store(0, zero, b.op("neg", b.load(0, one, "f32", lanes)))
    b.store(0, one, sum)
    a, c = b.var(b.const(2, "i32", lanes)), b.var(b.const(3, "i32", lanes))
    old, other = b.get(a), b.op("mul", b.get(c), b.get(a))
    b.get(a)  # which nothing needs
    b.set(a, b.get(c))
    b.set(c, old)  # exchanged
    with b.loop(zero, b.index(3)):
        b.set(a, b.op("add", b.get(a), b.op("mul", old, other)))
        b.set(c, b.op("sub", b.get(c), b.get(a)))
    b.store(1, zero, b.op("add", b.op("mul", b.get(a), b.const(100, "i32", lanes)), b.get(c)))
    b.store(2, zero, b.op("sub", other, old))
    ints = np.zeros(lanes, np.int32)
    both(b.function(3), np.arange(2 * lanes, dtype=np.float32) + 1, ints, ints)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("type", ["f32", "f64", "u8"])
def test_what_is_stored_where_it_is_read(lanes: int, type: str) -> None:
    """All of a vector is computed before any of it is written."""
    b = Body()
    b.store(0, b.index(3), b.op("add", *[b.load(0, b.index(n), type, lanes) for n in (0, 1)]))
    both(b.function(1), np.arange(lanes + 4).astype(LANE_TYPES[type]))


class Random:
    """A program by chance: values are read at once or late, once or often, in loops and variables
    that write what others have read."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = Body()
        self.scope: list[list[int]] = [[]]  # the values of each block, 4 lanes or 1 of i32
        self.indices = [self.b.index(n) for n in (0, 1, 4, 7)]
        self.vars: list[list[int]] = [[]]

    def function(self) -> LaneProgram:
        self.indices.append(self.b.unit())
        for n in (0, 3):
            self.scope[0] += [self.b.const(n, "i32", 4), self.b.const(n + 2, "i32")]
        self.block(25)
        return self.b.function(2, 2, "by chance")

    def one(self, lanes: int) -> int:
        known = [x for block in self.scope for x in block if self.b.kinds[x][1] == lanes]
        recent = known[-3:] if self.rng.random() < 0.5 else known
        return int(self.rng.choice(recent))

    def at(self) -> int:
        a, c, d = (int(self.rng.choice(self.indices)) for _ in range(3))
        return self.b.op("add", self.b.op("add", a, c), d) if self.rng.random() < 0.7 else a

    def block(self, size: int, depth: int = 0) -> None:
        for _ in range(size):
            lanes = int(self.rng.choice([1, 4]))
            kind = self.rng.integers(0, 11)
            made = -1
            if kind < 3:
                op = str(self.rng.choice(["add", "sub", "xor", "min"]))
                made = self.b.op(op, self.one(lanes), self.one(lanes))
            elif kind < 5:
                made = self.b.load(int(self.rng.integers(0, 2)), self.at(), "i32", lanes)
            elif kind < 6:
                self.b.store(int(self.rng.integers(0, 2)), self.at(), self.one(lanes))
            elif kind < 7:
                self.vars[-1].append(self.b.var(self.one(lanes)))
            elif kind < 9 and any(self.vars):
                var = int(self.rng.choice([v for block in self.vars for v in block]))
                lanes = self.b.kinds[var][1]
                if self.rng.random() < 0.5:
                    self.b.set(var, self.one(lanes))
                else:
                    made = self.b.get(var)
            elif kind == 9:
                lane = self.b.lane(self.one(4), int(self.rng.integers(0, 4)))
                made = self.b.splat(lane, 4) if lanes == 4 else lane
            elif depth < 2:
                stop = int(self.rng.integers(0, 4))
                with self.b.loop(self.indices[0], self.b.index(stop), times=stop) as i:
                    self.scope.append([])
                    self.vars.append([])
                    self.indices.append(i)
                    self.block(8, depth + 1)
                    self.indices.pop()
                    self.vars.pop()
                    self.scope.pop()
            if made >= 0:
                self.scope[-1].append(made)


@pytest.mark.parametrize("seed", range(30))
def test_programs_by_chance(seed: int) -> None:
    memory = np.arange(40, dtype=np.int32)
    both(Random(seed).function(), memory * 3, memory + 1000)


def test_addresses_are_computed_before_loops() -> None:
    """Rows that are turned around, with what lies before and behind a place, which may be
    negative in between."""
    rows, columns = 3, 6
    b = Body()
    row = b.unit()
    first = b.op("mul", row, b.index(columns))
    last = b.op("add", first, b.index(columns - 1))
    with b.loop(b.index(1), b.index(columns)) as i:
        back = b.op("mul", i, b.index(-1))
        x = b.load(0, b.op("add", b.op("add", first, i), b.index(-1)), "f32", 1)
        y = b.load(0, b.op("add", b.op("add", back, b.index(1)), last), "f32", 1)
        b.store(1, b.op("add", first, i), b.op("sub", x, y))
        b.store(2, b.op("add", b.op("add", i, b.index(2)), first), y)
    x = np.arange(rows * columns, dtype=np.float32) ** 2
    b_function = b.function(3, rows)
    both(b_function, x, np.zeros_like(x), np.zeros(x.size + 2, np.float32))
    f32_load = b"\x2a\0"
    assert printed(b_function, False).body.count(f32_load) == 2


def test_more_locals_than_a_byte_numbers() -> None:
    b = Body()
    x = b.load(0, b.index(0), "f32", 4)
    for _ in range(150):  # each is needed twice, and so has a local
        x = b.op("mul", x, b.op("add", x, x))
        x = b.op("min", x, b.op("sqrt", x))
    b.store(0, b.index(0), x)
    both(b.function(1), np.array([0.5, 1, 2, 3], np.float32))


def test_module_runs_launches() -> None:
    """Launches from one to another, with routines between them; equal functions are one."""

    def adds(number: float) -> LaneProgram:
        b = Body()
        x = b.load(0, b.unit(), "f32", 1)
        b.store(1, b.unit(), b.op("add", x, b.const(number, "f32")))
        return b.function(2, 4)

    functions = [printed(adds(n), False) for n in (1, 10, 1)]
    launches = [Launch(0), Launch(1), Launch(routine="twice", words=2), Launch(2)]
    code = module(functions, launches)
    assert code.count(functions[0].body) == 1
    assert starts(functions, launches) == [0, 3, 6, 8, 11]
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    memory = Memory([x, y, np.zeros(11, np.uint32)])
    a, c, table = memory.addresses
    words = [a, c, 0, c, c, 0, c, 4, c, a, 0]
    memory.write(2, np.array(words, np.uint32))

    lib = WasmModule()
    f = WasmAssembler(lib, "twice", "i32 i32", export=True)
    address, n = f.params
    with f.count(address, address + n * 4, 4) as at:
        f.store(at, f.load("f32", at) * 2)
    memory.library(lib.encode())

    assert memory.run(code, table, 0, 1)[1].tolist() == [1, 2, 3, 4]
    assert memory.run(code, table, 1, 3)[1].tolist() == [22, 24, 26, 28]
    assert memory.run(code, table, 3, 3)[0].tolist() == [0, 1, 2, 3]
    assert memory.run(code, table, 3, 4)[0].tolist() == [23, 25, 27, 29]
    assert memory.run(code, table, 0, 4)[0].tolist() == [69, 73, 77, 81]


@pytest.mark.parametrize("name", CASES)
def test_kernels(name: str, lazy: Any, small: None) -> None:
    """What kernels are lowered to, with each kind of loop, does what it says."""
    for kernel in kernels(name, lazy):
        function = lower(kernel, lambda types: LANES)
        arrays, _ = memory(kernel)
        params = numbers(kernel, 8, lambda d: d.numpy)
        check(Case(name, function, arrays, list(range(len(arrays))), params, loose_zeros=True))
