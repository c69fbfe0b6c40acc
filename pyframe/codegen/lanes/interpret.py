"""Runs a lane program with NumPy: the slow, obvious reading of what it means.

Each value is an array of as many elements as it has lanes, in the NumPy type of its register.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from pyframe.codegen.lanes import program as lanes
from pyframe.codegen.lanes.program import INDEX
from pyframe.graph.interpret import PRIMITIVES, REGISTERS as SCALARS

Array: TypeAlias = np.ndarray

# the NumPy types of registers and of memory
REGISTERS = SCALARS | {INDEX: np.dtype(np.int64)}
STORED = REGISTERS | {"f16": np.dtype(np.float16)}


@np.errstate(all="ignore")
def run(
    function: lanes.LaneProgram, buffers: Sequence[Array], params: bytes, begin: int = 0,
    end: int = -1,
) -> None:  # fmt: skip
    """Run the units from `begin` to `end` (-1: all) on byte arrays, one a binding."""
    for unit in range(begin, function.units if end < 0 else end):
        _UnitInterpreter(buffers, params, unit).block(function.body)


class _UnitInterpreter:
    """The values of one unit."""

    def __init__(self, buffers: Sequence[Array], params: bytes, unit: int) -> None:
        self.buffers, self.params, self.unit = buffers, params, unit
        self.values: dict[int, Array] = {}

    def block(self, body: Sequence[Any]) -> None:
        for i in body:
            out = _RUN[type(i)](self, i)
            if out is not None:
                self.values[i.out] = out

    def _const(self, i: lanes.LaneConst) -> Array:
        return np.full(i.lanes, i.value, REGISTERS[i.type])

    def _param(self, i: lanes.LaneParam) -> Array:
        found = np.frombuffer(self.params, STORED[i.memory], 1, 8 * i.word)
        return found.astype(REGISTERS[i.type])

    def _unit(self, i: lanes.Unit) -> Array:
        return np.full(1, self.unit, REGISTERS[INDEX])

    def _iota(self, i: lanes.Iota) -> Array:
        return np.arange(i.lanes, dtype=REGISTERS[i.type])

    def _splat(self, i: lanes.Splat) -> Array:
        return self.values[i.arg].repeat(i.lanes)

    def _rotate(self, i: lanes.Rotate) -> Array:
        return np.roll(self.values[i.arg], -i.by)

    def _lane(self, i: lanes.Lane) -> Array:
        return self.values[i.arg][i.at : i.at + 1]

    def _op(self, i: lanes.LaneOp) -> Array:
        i = i._replace(type="i64") if i.type == INDEX else i
        out = PRIMITIVES[i.op](i, *[self.values[a] for a in i.args])
        return np.asarray(out).astype(REGISTERS[i.type], copy=False)

    def _places(self, i: lanes.LaneLoad | lanes.LaneStore) -> Array:
        at = self.values[i.at]
        return at if i.stride is None else at + i.stride * np.arange(i.lanes)

    def _load(self, i: lanes.LaneLoad) -> Array:
        valid = self.values[i.valid] if i.valid >= 0 else np.ones(i.lanes, np.bool_)
        memory = self.buffers[i.binding].view(STORED[i.memory])
        places = self._places(i)[valid]
        assert (places >= 0).all(), "a load before the buffer"
        out = np.zeros(i.lanes, REGISTERS[i.type])
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
            self.values[i.out] = np.full(1, at, REGISTERS[INDEX])
            self.block(i.body)


_RUN = lanes.methods(_UnitInterpreter, "_")
