"""Program and Kernel: a scheduled piece of work as plain data.

A Program is read by code generators (`pyframe.codegen`), by executors, by exports and by people.
Nothing in it belongs to a language or a device; `pyframe.graph.interpret` says what it means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyframe.core import view as views
from pyframe.core.dtypes import bool_, dtype as DType
from pyframe.core.op import REGISTRY, Reducer
from pyframe.core.sizes import size_hints
from pyframe.core.view import IndexMap

Shape = tuple[int, ...]

INPUT, OUTPUT, TEMP = "input", "output", "temp"


# --- instructions: each gives a value at every index of the kernel's space, by its position


class Load(NamedTuple):
    """The element of buffer `binding` where `index_map` sends the index; 0 where invalid."""

    binding: int
    index_map: IndexMap
    dtype: DType


class ScalarParam(NamedTuple):
    """A scalar of the params buffer: 32-bit word `word`, or the low half of it for float16."""

    word: int
    dtype: DType


class InBounds(NamedTuple):
    """Whether `index_map` sends the index to a real element (False in padding)."""

    index_map: IndexMap


class Apply(NamedTuple):
    """An elementwise op on earlier instructions; `index` is where its own flat index comes from."""

    op: str
    args: tuple[int, ...]
    attrs: tuple[Any, ...]
    dtype: DType
    index: IndexMap | None = None  # type: ignore[assignment]  # hides tuple.index, unused here


class Reduce(NamedTuple):
    """Instruction `arg` reduced over axes of the space by reduction `op`: the same value at all
    indices along them."""

    op: str
    arg: int
    axes: tuple[int, ...]
    dtype: DType


class ExternResult(NamedTuple):
    """The routine's own result at the index: where its epilogue begins."""

    dtype: DType


class RowSum(NamedTuple):
    """Of a product the sum of an operand, the left one, along the shared dim, in the row of the
    index. Such a value is stored as it is."""

    operand: int
    dtype: DType


class Expr(NamedTuple):
    """A value at each index of `shape`: instructions in order, the last one is the value."""

    shape: Shape
    code: tuple[Load | ScalarParam | InBounds | Apply, ...]
    dtype: DType


class Store(NamedTuple):
    """Instruction `value` written to buffer `binding` where `index_map` (one unmasked View, or
    several after a routine) sends the index; a stride is 0 along axes over which the value was
    reduced."""

    binding: int
    value: int
    index_map: IndexMap
    dtype: DType

    @property
    def shape(self) -> Shape:
        """Of what is written."""
        view = self.index_map[-1]
        return tuple(n if s else 1 for n, s in zip(view.shape, view.strides, strict=True))


class ExternKernel(NamedTuple):
    """A kernel written by hand: op `name` on operands, each an Expr over its own index."""

    name: str
    attrs: tuple[Any, ...]
    operands: tuple[Expr, ...]
    dtype: DType


def dtype_of(i: Any) -> DType:
    """The dtype of an instruction's value; an InBounds is a bool."""
    found: DType = getattr(i, "dtype", bool_)
    return found


def operands(i: Any) -> tuple[int, ...]:
    """The instructions that an instruction takes."""
    return i.args if isinstance(i, Apply) else (i.arg,) if isinstance(i, Reduce) else ()


def combine_of(i: Reduce) -> Reducer:
    """How a Reduce combines two values."""
    found = REGISTRY[i.op].combine
    assert found is not None
    return found


def index_map_of(i: Any) -> Any:
    """The index map in an instruction, or None."""
    return i.index if isinstance(i, Apply) else getattr(i, "index_map", None)


def with_index_maps(code: Iterable[Any], index_maps: Iterable[IndexMap]) -> list[Any]:
    """The instructions with these index maps, one after the other, instead of theirs."""
    it = iter(index_maps)
    return [
        i if index_map_of(i) is None
        else i._replace(index=next(it)) if isinstance(i, Apply)
        else i._replace(index_map=next(it))
        for i in code
    ]  # fmt: skip


def collapsed(
    code: Sequence[Any], space: Shape, stores: Sequence[Store]
) -> tuple[list[Any], Shape, list[Store]]:
    """The same over as few axes as the index maps allow, so that indices are cheap."""
    index_maps = [m for m in map(index_map_of, code) if m is not None]
    moved = len(index_maps)
    index_maps += [s.index_map for s in stores]
    sets = [
        tuple(n for n, i in enumerate(code) if isinstance(i, Reduce) and d in i.axes)
        for d in range(len(space))
    ]
    kinds = [sets.index(s) for s in sets]
    new, short, found = views.collapse(index_maps, space, kinds)
    out = with_index_maps(code, new)
    for n, i in enumerate(out):
        if isinstance(i, Reduce):
            axes = tuple(d for d, kind in enumerate(found) if n in sets[kind])
            out[n] = i._replace(axes=axes)
    placed = zip(stores, new[moved:], strict=True)
    return out, short, [s._replace(index_map=m) for s, m in placed]


@dataclass(frozen=True)
class Kernel:
    """One dispatch: `code` over the index `space`, and what it stores.

    Axes that a Reduce names are walked inside the kernel, the others side by side. With a
    `routine`, `space` is the shape of its result and `code` its epilogue.
    """

    space: Shape
    code: tuple[Load | ScalarParam | InBounds | Apply | Reduce | ExternResult | RowSum, ...]
    stores: tuple[Store, ...]
    bindings: int  # buffers 0 .. bindings-1; one that a Store names is written
    params: int  # 32-bit words of scalars
    routine: ExternKernel | None = None

    @property
    def written(self) -> set[int]:
        """The bindings that it writes."""
        return {s.binding for s in self.stores}

    def has_elements(self) -> bool:
        """Whether there is something to compute."""
        return math.prod(self.space) != 0 or any(math.prod(s.shape) for s in self.stores)


class Slot(NamedTuple):
    """A buffer of a Program. Slots of one `region` lie in one allocation, at their offsets."""

    nbytes: int
    kind: str  # INPUT, OUTPUT (allocated for the run, kept by its caller) or TEMP
    region: int = -1  # -1: a buffer of its own
    offset: int = 0


class Dispatch(NamedTuple):
    """A kernel and what it runs on: `slots[i]` is the buffer of binding i."""

    kernel: int
    slots: tuple[int, ...]
    param_offset: int  # in bytes, into the program's params; -1: it takes none


@dataclass
class Program:
    """Steps over numbered buffers (slots): first the inputs, then the outputs, then temporaries."""

    kernels: Sequence[Kernel]
    steps: list[Dispatch]
    slots: list[Slot]
    regions: list[int]  # bytes of each region
    outputs: list[int]  # the slot of each result; an input's where it is written in place
    params: list[tuple[int, DType]]  # (byte offset, dtype) of each scalar, in recording order
    param_bytes: int
    loaded: dict[str, Any] = field(default_factory=dict)  # what backends made of it, by their names
    host: bool = False  # for the CPU, where dtypes have their own sizes
    texts: dict[str, list[Any]] = field(default_factory=dict)  # of its kernels, by language

    @property
    def inputs(self) -> int:
        """How many slots are inputs: the first ones."""
        return sum(s.kind == INPUT for s in self.slots)

    @property
    def peak_bytes(self) -> int:
        """Bytes of all buffers that a run needs at once."""
        return sum(self.regions) + sum(s.nbytes for s in self.slots if s.region < 0)

    def __str__(self) -> str:
        bytes_ = f"{self.peak_bytes} bytes"
        return f"Program({len(self.kernels)} kernels, {len(self.steps)} steps, {bytes_} at once)"


def kernel_at_present(k: Kernel) -> Kernel:
    """A kernel with numbers for the sizes that change."""
    routine = None if k.routine is None else ExternKernel(*map(size_hints, k.routine))
    parts = size_hints(k.space), size_hints(k.code), size_hints(k.stores)
    return Kernel(*parts, k.bindings, k.params, routine)
