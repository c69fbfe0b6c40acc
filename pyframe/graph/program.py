"""Program and Kernel: a scheduled piece of work as plain data.

A Program has four readers: the native replayer, the browser's, the exporter and people. Nothing in
it belongs to WGSL: `pyframe.wgsl` makes text of it, `pyframe.graph.interpret` runs it with NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyframe.dtypes import dtype as DType
from pyframe.graph.view import Tracker

Shape = tuple[int, ...]


class Load(NamedTuple):
    """The element of input buffer `binding` where `tracker` sends the index; 0 where invalid."""

    binding: int
    tracker: Tracker
    dtype: DType


class Param(NamedTuple):
    """A scalar of the params buffer: 32-bit word `word`, or the low half of it for float16."""

    word: int
    dtype: DType


class Valid(NamedTuple):
    """Whether `tracker` sends the index to a real element (False in padding)."""

    tracker: Tracker


class Apply(NamedTuple):
    """An elementwise op on earlier instructions; `index` is where its own flat index comes from."""

    op: str
    args: tuple[int, ...]
    attrs: tuple[Any, ...]
    dtype: DType
    index: Tracker | None = None  # type: ignore[assignment]  # hides tuple.index, unused here


class Expr(NamedTuple):
    """A value at each index of `shape`: instructions in order, the last one is the value."""

    shape: Shape
    code: tuple[Load | Param | Valid | Apply, ...]
    dtype: DType


@dataclass(frozen=True)
class Kernel:
    """One dispatch. `body` is 'map' (an Expr stored as it is), or the name of a reduction or a
    routine, whose operands are Exprs, so that what feeds it is computed as it is loaded."""

    body: str
    operands: tuple[Expr, ...]
    attrs: tuple[Any, ...]
    shape: Shape  # of the result
    dtype: DType
    inputs: int  # bindings 0 .. inputs-1 are read, binding `inputs` is written
    params: int  # 32-bit words of scalars


class Step(NamedTuple):
    """A kernel and what it runs on: `slots[i]` is the buffer of binding i, the last is written."""

    kernel: int
    slots: tuple[int, ...]
    param_offset: int  # in bytes, into the program's params


@dataclass
class Program:
    """Steps over numbered buffers (slots): first the inputs, then the outputs, then temporaries."""

    kernels: list[Kernel]
    steps: list[Step]
    slot_bytes: list[int]
    inputs: int
    outputs: int
    params: list[tuple[int, DType]]  # (byte offset, dtype) of each scalar, in recording order
    param_bytes: int
    executable: dict[str, Any] = field(default_factory=dict)  # what backends keep beside it

    @property
    def peak_bytes(self) -> int:
        """Bytes of all buffers that a run needs at once."""
        return sum(self.slot_bytes)
