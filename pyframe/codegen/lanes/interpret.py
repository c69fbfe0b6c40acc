"""Runs a lane program with NumPy: the slow, obvious reading of what it means.

Each value is an array of as many elements as it has lanes, in the NumPy type of its register.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from pyframe.codegen.lanes.program import (
    INDEX,
    MEMORY,
    Const,
    For,
    Function,
    Get,
    Iota,
    Lane,
    Load,
    Op,
    Param,
    Rotate,
    Set,
    Splat,
    Store,
    Unit,
    Var,
)
from pyframe.core import dtypes as dt

Array: TypeAlias = np.ndarray

# the NumPy types of registers and of memory
REGISTERS = {INDEX: np.dtype(np.int64)} | {
    name: np.dtype(name if name == "bool" else f"{name[0]}{int(name[1:]) // 8}")
    for name in MEMORY
    if name != "f16"
}
STORED = REGISTERS | {"f16": np.dtype(np.float16)}


def _of_kind(floats: Any, others: Any) -> Callable[[Op, Array, Array], Any]:
    return lambda op, a, b: (floats if a.dtype.kind == "f" else others)(a, b)


def _div(a: Array, b: Array) -> Any:
    """Of ints, cut towards zero; 0 where b is."""
    quotient = np.where(b == 0, 0, np.floor_divide(a, b))
    return quotient + ((np.fmod(a, b) != 0) & ((a < 0) != (b < 0)) & (b != 0))


def _cast(op: Op, a: Array) -> Any:
    to = REGISTERS[op.type]
    if a.dtype.kind == "f" and to.kind in "iu":
        return np.where(np.abs(a) < 2.0**63, a, -(2.0**63)).astype(np.int64).astype(to)
    return a.astype(to)


def _narrow(op: Op, a: Array) -> Any:
    narrow = dt.bfloat16.narrow if op.value == "bfloat16" else None
    return narrow(a) if narrow is not None else a.astype(op.value).astype(np.float32)


OPS: dict[str, Callable[..., Any]] = {
    "neg": lambda op, a: np.negative(a), "abs": lambda op, a: np.abs(a),
    "floor": lambda op, a: np.floor(a), "ceil": lambda op, a: np.ceil(a),
    "trunc": lambda op, a: np.trunc(a), "round": lambda op, a: np.rint(a),
    "sqrt": lambda op, a: np.sqrt(a), "not": lambda op, a: np.invert(a),
    "cast": _cast, "bitcast": lambda op, a: a.view(REGISTERS[op.type]), "narrow": _narrow,
    "add": lambda op, a, b: a + b, "sub": lambda op, a, b: a - b,
    "mul": lambda op, a, b: a * b,
    "div": _of_kind(np.true_divide, _div), "rem": lambda op, a, b: np.fmod(a, b),
    "min": lambda op, a, b: np.minimum(a, b), "max": lambda op, a, b: np.maximum(a, b),
    "eq": lambda op, a, b: a == b, "ne": lambda op, a, b: a != b,
    "lt": lambda op, a, b: a < b, "le": lambda op, a, b: a <= b,
    "and": lambda op, a, b: a & b, "or": lambda op, a, b: a | b, "xor": lambda op, a, b: a ^ b,
    "shl": lambda op, a, b: a << b, "shr": lambda op, a, b: a >> b,
    "select": lambda op, c, a, b: np.where(c, a, b),
}  # fmt: skip


@np.errstate(all="ignore")
def run(
    function: Function, buffers: Sequence[Array], params: bytes, begin: int = 0, end: int = -1
) -> None:
    """Run the units from `begin` to `end` (-1: all) on byte arrays, one a binding."""
    for unit in range(begin, function.units if end < 0 else end):
        _Run(buffers, params, unit).block(function.body)


class _Run:
    """The values of one unit."""

    def __init__(self, buffers: Sequence[Array], params: bytes, unit: int) -> None:
        self.buffers, self.params, self.unit = buffers, params, unit
        self.values: dict[int, Array] = {}

    def block(self, body: Sequence[Any]) -> None:
        for i in body:
            out = getattr(self, f"_{type(i).__name__.lower()}")(i)
            if out is not None:
                self.values[i.out] = out

    def _const(self, i: Const) -> Array:
        return np.full(i.lanes, i.value, REGISTERS[i.type])

    def _param(self, i: Param) -> Array:
        found = np.frombuffer(self.params, STORED[i.memory], 1, 8 * i.word)
        return found.astype(REGISTERS[i.type])

    def _unit(self, i: Unit) -> Array:
        return np.full(1, self.unit, REGISTERS[INDEX])

    def _iota(self, i: Iota) -> Array:
        return np.arange(i.lanes, dtype=REGISTERS[i.type])

    def _splat(self, i: Splat) -> Array:
        return self.values[i.arg].repeat(i.lanes)

    def _rotate(self, i: Rotate) -> Array:
        return np.roll(self.values[i.arg], -i.by)

    def _lane(self, i: Lane) -> Array:
        return self.values[i.arg][i.at : i.at + 1]

    def _op(self, i: Op) -> Array:
        out = OPS[i.op](i, *[self.values[a] for a in i.args])
        return np.asarray(out).astype(REGISTERS[i.type], copy=False)

    def _places(self, i: Load | Store) -> Array:
        at = self.values[i.at]
        return at if i.stride is None else at + i.stride * np.arange(i.lanes)

    def _load(self, i: Load) -> Array:
        valid = self.values[i.valid] if i.valid >= 0 else np.ones(i.lanes, np.bool_)
        memory = self.buffers[i.binding].view(STORED[i.memory])
        places = self._places(i)[valid]
        assert (places >= 0).all(), "a load before the buffer"
        out = np.zeros(i.lanes, REGISTERS[i.type])
        out[valid] = memory[places]
        return out

    def _store(self, i: Store) -> None:
        places = self._places(i)
        assert (places >= 0).all(), "a store before the buffer"
        self.buffers[i.binding].view(STORED[i.memory])[places] = self.values[i.arg]

    def _var(self, i: Var) -> Array:
        return self.values[i.start]

    def _get(self, i: Get) -> Array:
        return self.values[i.var]

    def _set(self, i: Set) -> None:
        self.values[i.var] = self.values[i.arg]

    def _for(self, i: For) -> None:
        start, stop = (int(self.values[n][0]) for n in (i.start, i.stop))
        for at in range(start, stop, i.step):
            self.values[i.out] = np.full(1, at, REGISTERS[INDEX])
            self.block(i.body)
