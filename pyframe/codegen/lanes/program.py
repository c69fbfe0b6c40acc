"""Lane programs: a kernel as structured loops over explicit SIMD lanes, for printers of the CPU.

A `LaneProgram` is one kernel. Its work is cut into `units`, which may run in any order and at the
same time; the function runs those from `begin` to `end`. Everything in it is a statement on
numbered values; a value of `lanes` 1 is a scalar, one of more is a vector. Types are those of
graph/scalar.py, and `index`: a signed int as wide as an address. Printers need to know nothing else
of a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

INDEX = "index"


class UnsupportedKernelError(Exception):
    """Why a kernel can't be a lane program; it runs through NumPy then."""


class LaneConst(NamedTuple):
    """The number `value` in every lane; a bool of type bool."""

    out: int
    value: Any
    type: str
    lanes: int = 1


class LaneParam(NamedTuple):
    """Scalar number `word` of the kernel: it lies at byte 8 * word of the params, in the memory
    form of its dtype (see MEMORY)."""

    out: int
    word: int
    memory: str
    type: str


class Unit(NamedTuple):
    """The number of the unit at hand, of type index; it stands in the outermost loop."""

    out: int


class Iota(NamedTuple):
    """0, 1, 2, … along the lanes, of type index or an int type."""

    out: int
    type: str
    lanes: int


class Splat(NamedTuple):
    """A scalar in every lane."""

    out: int
    arg: int
    type: str
    lanes: int


class Rotate(NamedTuple):
    """Lane i is lane (i + by) % lanes of the vector `arg`."""

    out: int
    arg: int
    by: int
    type: str
    lanes: int


class Lane(NamedTuple):
    """Lane `at` of the vector `arg`, a scalar."""

    out: int
    arg: int
    at: int
    type: str
    lanes: int  # of arg


class LaneOp(NamedTuple):
    """A primitive of graph/scalar.py on operands of the same lanes. `from_` is the first operand's
    type (the second's for `select`), `type` that of the result; `value` is what `narrow` rounds to.
    Of `shl` and `shr` the count is within the type's bits; `rem` is of ints alone. On index: add
    sub mul div rem lt le eq min max, and casts to and from ints."""

    out: int
    op: str
    args: tuple[int, ...]
    from_: str
    type: str
    lanes: int
    value: Any = None


class LaneLoad(NamedTuple):
    """The elements of buffer `binding` at `at`, `at + stride`, … one a lane, where `valid` (bools,
    -1: everywhere) holds, else 0: nothing is read there. `at` is a scalar index in elements. With
    `stride` None `at` is a vector of indices. `memory` is the form there, see MEMORY."""

    out: int
    binding: int
    at: int
    stride: int | None
    valid: int
    memory: str
    type: str
    lanes: int


class LaneStore(NamedTuple):
    """The value `arg` written likewise; there is no `valid`."""

    binding: int
    at: int
    stride: int | None
    arg: int
    memory: str
    type: str
    lanes: int


class Var(NamedTuple):
    """A variable that begins as the value `start`. Statements that follow, in loops too, read it by
    Get and write it by Set; loops keep it in a register."""

    out: int
    start: int
    type: str
    lanes: int


class Get(NamedTuple):
    """What a variable holds now."""

    out: int
    var: int
    type: str
    lanes: int


class Set(NamedTuple):
    """Write a variable."""

    var: int
    arg: int


class For(NamedTuple):
    """`body` for `out` (of type index) = start, start + step, … while it is less than `stop`.
    `start` and `stop` are values of type index; `step` is a positive number. `times` is how often
    it runs where that is known, else 0."""

    out: int
    start: int
    stop: int
    step: int
    body: tuple[Any, ...]
    times: int = 0


STATEMENTS = (
    LaneConst, LaneParam, Unit, Iota, Splat, Rotate, Lane, LaneOp, LaneLoad, LaneStore, Var, Get,
    Set, For,
)  # fmt: skip


def _short(kind: type) -> str:
    """The name of a statement's class, without what tells it from another module's class."""
    return (kind.__name__.removeprefix("Lane") or "Lane").lower()


def methods(of: type, prefix: str) -> dict[type, Callable[[Any, Any], Any]]:
    """The method of a class for each kind of statement, which is named after it."""
    return {kind: getattr(of, prefix + _short(kind)) for kind in STATEMENTS}


# How a register type lies in memory: the name of the form and its bytes. float16 is f32 in
# registers, bool one byte that is 0 or 1.
MEMORY = {
    "f16": 2, "f32": 4, "f64": 8, "bool": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1,
    "u16": 2, "u32": 4, "u64": 8,
}  # fmt: skip


class LaneProgram(NamedTuple):
    """One kernel: pointers to `bindings` buffers and to the params, and the units to run. Where
    `sizes` of it change, a last binding holds them, as ints of 64 bits."""

    label: str
    bindings: int
    units: int
    work: int  # elements times operations of all units, for who shares them out
    body: tuple[Any, ...]  # of one unit
    sizes: tuple[Any, ...] = ()  # SymbolicSizes: what they are in a launch, its caller knows
    width: int = 0  # lanes of a vector; wider values are several
