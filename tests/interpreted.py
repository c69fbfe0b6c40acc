"""What Scalars and lane programs mean in NumPy, the slow and obvious reading that code generators
are compared with; and a compiler for the CPU's plans that interprets lane programs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from pyframe.codegen.lanes import program as lanes
from pyframe.codegen.lanes.compiler import Launch
from pyframe.codegen.lanes.lower import lower
from pyframe.codegen.lanes.program import INDEX, LaneProgram
from pyframe.core import dtypes as dt
from pyframe.graph.program import Kernel
from pyframe.graph.scalar import Scalar, inlined, nodes_of

Array: TypeAlias = np.ndarray

# --- Scalars

# NumPy's types of theirs
REGISTERS = {"bool": np.dtype(np.bool_), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
REGISTERS |= {"c64": np.dtype(np.complex64)} | {
    f"{k}{n}": np.dtype(f"{k}{n // 8}") for k in "iu" for n in (8, 16, 32, 64)
}


def _of_kind(floats: Any, others: Any) -> Callable[..., Any]:
    return lambda x, a, b: (floats if a.dtype.kind == "f" else others)(a, b)


def _div(a: np.ndarray, b: np.ndarray) -> Any:
    """Of ints, cut towards zero; 0 where b is."""
    quotient = np.where(b == 0, 0, np.floor_divide(a, b))
    return quotient + ((np.fmod(a, b) != 0) & ((a < 0) != (b < 0)) & (b != 0))


def _cast(x: Any, a: np.ndarray) -> Any:
    to = REGISTERS[x.type]
    if a.dtype.kind == "f" and to.kind in "iu":
        return np.where(np.abs(a) < 2.0**63, a, -(2.0**63)).astype(np.int64).astype(to)
    return a.astype(to)


def _narrow(x: Any, a: np.ndarray) -> Any:
    narrow = dt.bfloat16.narrow if x.value == "bfloat16" else None
    return narrow(a) if narrow is not None else a.astype(x.value).astype(np.float32)


def _complex(x: Any, a: Any, b: Any) -> np.ndarray:
    return np.stack(np.broadcast_arrays(a, b), -1).view(np.complex64)[..., 0]


# the primitives of scalar.py: (what asks, with the result's `type` and its `value`; operands)
PRIMITIVES: dict[str, Callable[..., Any]] = {
    "neg": lambda x, a: np.negative(a), "abs": lambda x, a: np.abs(a),
    "floor": lambda x, a: np.floor(a), "ceil": lambda x, a: np.ceil(a),
    "trunc": lambda x, a: np.trunc(a), "round": lambda x, a: np.rint(a),
    "sqrt": lambda x, a: np.sqrt(a), "not": lambda x, a: np.invert(a),
    "cast": _cast, "bitcast": lambda x, a: a.view(REGISTERS[x.type]), "narrow": _narrow,
    "add": lambda x, a, b: a + b, "sub": lambda x, a, b: a - b,
    "mul": lambda x, a, b: a * b,
    "div": _of_kind(np.true_divide, _div), "rem": lambda x, a, b: np.fmod(a, b),
    "min": lambda x, a, b: np.minimum(a, b), "max": lambda x, a, b: np.maximum(a, b),
    "eq": lambda x, a, b: a == b, "ne": lambda x, a, b: a != b,
    "lt": lambda x, a, b: a < b, "le": lambda x, a, b: a <= b,
    "and": lambda x, a, b: a & b, "or": lambda x, a, b: a | b, "xor": lambda x, a, b: a ^ b,
    "shl": lambda x, a, b: a << b, "shr": lambda x, a, b: a >> b,
    "muladd": lambda x, a, b, c: a * b + c, "select": lambda x, c, a, b: np.where(c, a, b),
    "re": lambda x, a: a.real, "im": lambda x, a: a.imag, "complex": _complex,
}  # fmt: skip


@np.errstate(all="ignore")
def evaluate(
    x: Scalar, operands: Sequence[np.ndarray], index: Sequence[np.ndarray] = ()
) -> np.ndarray:
    """A Scalar's value for arrays as the operands 'arg' 0, 1, …, and as the index along each axis.
    LookupError if it calls a function without a definition."""
    values: dict[Scalar, np.ndarray] = {}
    for node in nodes_of(x):
        args = [values[a] for a in node.args]
        if node.op == "arg":
            out = operands[node.value]
        elif node.op == "index":
            out = index[node.value]
        elif node.op == "const":
            out = np.array(node.value, REGISTERS[node.type])
        elif node.op == "call":
            body = inlined(node)
            if body is None:
                raise LookupError(f"{node.value} of {node.args[0].type} has no definition")
            out = evaluate(body, args)
        else:
            out = np.asarray(PRIMITIVES[node.op](node, *args))
        values[node] = out.astype(REGISTERS[node.type], copy=False)
    return values[x]


# --- lane programs

# the NumPy types of lanes' registers and of memory
LANE_TYPES = REGISTERS | {INDEX: np.dtype(np.int64)}
STORED = LANE_TYPES | {"f16": np.dtype(np.float16)}


@np.errstate(all="ignore")
def run(
    function: lanes.LaneProgram, buffers: Sequence[Array], params: bytes, begin: int = 0,
    end: int = -1,
) -> None:  # fmt: skip
    """Run the units from `begin` to `end` (-1: all) on byte arrays, one a binding."""
    for unit in range(begin, function.units if end < 0 else end):
        UnitInterpreter(buffers, params, unit).block(function.body)


class UnitInterpreter:
    """The values of one unit: of each an array of as many elements as it has lanes."""

    def __init__(self, buffers: Sequence[Array], params: bytes, unit: int) -> None:
        self.buffers, self.params, self.unit = buffers, params, unit
        self.values: dict[int, Array] = {}

    def block(self, body: Sequence[Any]) -> None:
        for i in body:
            out = _RUN[type(i)](self, i)
            if out is not None:
                self.values[i.out] = out

    def _const(self, i: lanes.LaneConst) -> Array:
        return np.full(i.lanes, i.value, LANE_TYPES[i.type])

    def _param(self, i: lanes.LaneParam) -> Array:
        found = np.frombuffer(self.params, STORED[i.memory], 1, 8 * i.word)
        return found.astype(LANE_TYPES[i.type])

    def _unit(self, i: lanes.Unit) -> Array:
        return np.full(1, self.unit, LANE_TYPES[INDEX])

    def _iota(self, i: lanes.Iota) -> Array:
        return np.arange(i.lanes, dtype=LANE_TYPES[i.type])

    def _splat(self, i: lanes.Splat) -> Array:
        return self.values[i.arg].repeat(i.lanes)

    def _rotate(self, i: lanes.Rotate) -> Array:
        return np.roll(self.values[i.arg], -i.by)

    def _lane(self, i: lanes.Lane) -> Array:
        return self.values[i.arg][i.at : i.at + 1]

    def _op(self, i: lanes.LaneOp) -> Array:
        i = i._replace(type="i64") if i.type == INDEX else i
        out = PRIMITIVES[i.op](i, *[self.values[a] for a in i.args])
        return np.asarray(out).astype(LANE_TYPES[i.type], copy=False)

    def _places(self, i: lanes.LaneLoad | lanes.LaneStore) -> Array:
        at = self.values[i.at]
        return at if i.stride is None else at + i.stride * np.arange(i.lanes)

    def _load(self, i: lanes.LaneLoad) -> Array:
        valid = self.values[i.valid] if i.valid >= 0 else np.ones(i.lanes, np.bool_)
        memory = self.buffers[i.binding].view(STORED[i.memory])
        places = self._places(i)[valid]
        assert (places >= 0).all(), "a load before the buffer"
        out = np.zeros(i.lanes, LANE_TYPES[i.type])
        out[valid] = memory[places]
        return out

    def _store(self, i: lanes.LaneStore) -> None:
        places = self._places(i)
        assert (places >= 0).all(), "a store before the buffer"
        self.buffers[i.binding].view(STORED[i.memory])[places] = self.values[i.arg]

    def _var(self, i: lanes.Var) -> Array:
        return self.values[i.start]

    def _get(self, i: lanes.Get) -> Array:
        return self.values[i.var]

    def _set(self, i: lanes.Set) -> None:
        self.values[i.var] = self.values[i.arg]

    def _for(self, i: lanes.For) -> None:
        start, stop = (int(self.values[n][0]) for n in (i.start, i.stop))
        for at in range(start, stop, i.step):
            self.values[i.out] = np.full(1, at, LANE_TYPES[INDEX])
            self.block(i.body)


_RUN = lanes.methods(UnitInterpreter, "_")


# --- the compiler


class Interpreted:
    """The compiler; `threads` are so many that take turns at the units."""

    name = "interpreted"
    adapter = "lane programs, interpreted"

    def __init__(self, lanes: int = 4, threads: int = 1) -> None:
        self.width, self.threads = lanes, threads
        self.launches = 0

    def lanes(self, types: set[str]) -> int:
        return self.width

    alone = False

    def routine(self, op: Any, inputs: Any, attrs: Any, out: Any) -> None:
        return None

    def printed(self, kernel: Kernel) -> LaneProgram:
        return lower(kernel, self.lanes)

    def load(self, functions: Sequence[LaneProgram], launches: Sequence[Launch]) -> Code:
        return Code(self, functions, launches)


class Code:
    def __init__(
        self, compiler: Interpreted, functions: Sequence[LaneProgram], launches: Sequence[Launch]
    ) -> None:
        self.compiler = compiler
        self.functions = [functions[launch.function] for launch in launches]
        sizes = [f.bindings + 1 for f in self.functions]
        self.starts = [sum(sizes[:n]) for n in range(len(sizes))]
        self.table = np.zeros(sum(sizes), np.uint64)

    def run(self, first: int, last: int) -> None:
        for k in range(first, last):
            f, start = self.functions[k], self.starts[k]
            *buffers, params = [memory(int(n)) for n in self.table[start:][: f.bindings + 1]]
            threads = self.compiler.threads
            for worker in reversed(range(threads)):
                begin, end = (f.units * w // threads for w in (worker, worker + 1))
                run(f, buffers, params, begin, end)
            self.compiler.launches += 1


def memory(address: int) -> np.ndarray:
    """The bytes at an address and behind it."""
    if not address:
        return np.zeros(0, np.uint8)
    return np.frombuffer((ctypes.c_uint8 * (1 << 30)).from_address(address), np.uint8)
