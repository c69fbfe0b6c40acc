"""Routines of the native CPU: functions written in LLVM IR, and how an op launches them.

An op names its own in its declaration (`routine="gemm.matmul"`). Where a module of this package has
that function, it plans the op from the operands as they lie in memory, and gives launches. A launch
has a routine's name, "module.function.dtype", and its words; the module's `text` gives its code.
Other routines are those of codegen/cpu: a launch has a function's name, and as its words how many
units there are, where it notes a fault, and the function's own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pyframe.codegen.cpu.assembler import F32, F64
from pyframe.codegen.cpu.gemm import Tile
from pyframe.codegen.cpu.library import BODIES, planner
from pyframe.codegen.cpu.routines import SCRATCH, Addr, KernelBody, LibraryCall
from pyframe.codegen.cpu.sort import BINS
from pyframe.codegen.lanes.compiler import ErrorFlagArg, ScratchArg
from pyframe.codegen.llvm.assembler import cut, launched, module as module_of
from pyframe.codegen.numpy.memory import address_arg
from pyframe.core.sizes import statically_equal

MIN_SORT_KEYS = 1 << 12  # keys and bins that a sort is worth of any keys

Words: TypeAlias = "list[int | np.ndarray | ScratchArg | ErrorFlagArg]"
Launches: TypeAlias = "list[tuple[str, Words]]"


class BlasSymbol(NamedTuple):
    """BLAS's product for a dtype: where it lies, LLVM's name of the dtype, the bits of its ints."""

    address: int
    real: str
    int_bits: int


class CpuTarget(NamedTuple):
    """What plans are made for."""

    bits: int  # of a vector
    threads: int
    tiles: dict[np.dtype, Tile]  # of products by our own routines; the others are BLAS's
    blas: dict[np.dtype, BlasSymbol]
    dots: str = ""  # how products of ints are summed, see `Assembler.dot`


def machine(bits: int, threads: int, blas: dict[np.dtype, BlasSymbol], dots: str = "") -> CpuTarget:
    """A processor with vectors of so many bits: of 256 it has 16, which hold tiles of 6 rows, of
    512 and (on ARM) of 128 it has 32, which hold 8."""
    rows = 6 if bits == 256 else 8
    tiles = {
        np.dtype(np.float32): Tile(F32, bits // 32, rows),
        np.dtype(np.float64): Tile(F64, bits // 64, rows),
    }
    return CpuTarget(bits, threads, tiles, blas, dots)


def plan(
    m: CpuTarget, op: Any, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> Launches | None:
    """How LLVM's code computes `op`. The result is C-contiguous. None: it has no routine for these
    arrays, and NumPy runs it."""
    name = op.routine
    if name is None or not out.size:
        return None
    shared = planner(name)
    if shared is not None:
        made = shared(inputs, attrs, out) if _pays(name, inputs, attrs) else None
        return made and launches(made, (*inputs, out))
    if any(s < 0 for x in inputs for s in x.strides):
        return None
    found: Launches | None = _own(name)(m, inputs, attrs, out)
    return found


def with_epilogue(
    m: CpuTarget, op: Any, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray,
    after: Any,
) -> Launches | None:  # fmt: skip
    """The same of an op that does what follows, which `after()` gives; None where it does not."""
    if not out.size or any(s < 0 for x in inputs for s in x.strides):
        return None
    found: Launches | None = _own(op.routine)(m, inputs, attrs, out, after)
    return found


def _pays(name: str, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...]) -> bool:
    """Whether a routine of codegen/cpu is faster than NumPy, which scans many rows side by side,
    and sorts keys of 32 bits and finds the first ones by vectors."""
    shape = inputs[0].shape
    if name.startswith("scan."):
        return shape[2] == 1
    if name in ("sort.argsort", "sort.kth_index"):
        rows, n = shape
        whole = name == "sort.argsort" and 8 * attrs[0] >= n
        return rows * (BINS + n) <= MIN_SORT_KEYS or (whole and inputs[0].itemsize == 8)
    return True


@functools.cache
def _own(name: str) -> Any:
    module, _, function = name.partition(".")
    return getattr(import_module(f"pyframe.codegen.llvm.{module}"), function)


def launches(made: LibraryCall, operands: Sequence[np.ndarray]) -> Launches:
    """Of a routine of codegen/cpu on these operands."""

    def word(x: int | Addr, parts: int) -> int | ScratchArg:
        if not isinstance(x, Addr):
            return x & 0xFFFFFFFFFFFFFFFF
        if x.of == SCRATCH:
            return ScratchArg(made.scratch * parts)
        return address_arg(operands[x.of]) + x.offset

    return [
        (c.function, [c.parts, ErrorFlagArg(), *[word(x, c.parts) for x in c.arguments]])
        for c in made.calls
    ]


def text(m: CpuTarget, name: str) -> str:
    """The module of a routine: `@kernel`, which is launched like any other."""
    if "." not in name:
        return _shared(m, BODIES[name])
    module, function, dtype = name.split(".")
    made: str = import_module(f"pyframe.codegen.llvm.{module}").text(m, function, np.dtype(dtype))
    return made


def _shared(m: CpuTarget, body: KernelBody) -> str:
    """The module of a function of codegen/cpu."""
    f, w, begin, end = launched(f"units @fault {body.words}", m.bits)
    f.fault = w["fault"].name
    with f.count(begin, end) as u:
        first, last = cut(w[body.shared], u, w["units"], body.grain)
        body.write(f, w, first, last, u)
    return module_of([f], m.bits)


def in_two_dims(*arrays: np.ndarray) -> tuple[tuple[int, int], list[int]] | None:
    """The batch of matrices, the last of which are the result, as an outer and an inner dim: their
    sizes, and each array's strides of the outer one, then of the inner one. None if it needs more
    dims."""
    shape = arrays[-1].shape[:-2]
    steps = [_over(x, shape) for x in arrays]
    dims: list[tuple[int, list[int]]] = []
    for d, n in enumerate(shape):
        now = [s[d] for s in steps]
        if n == 1:
            continue
        if dims and all(statically_equal(a, b * n) for a, b in zip(dims[-1][1], now, strict=True)):
            dims[-1] = dims[-1][0] * n, now
        else:
            dims.append((n, now))
    zero = 1, [0] * len(arrays)
    if len(dims) > 2 or any(s < 0 for _, now in dims for s in now):
        return None
    (outer, outer_steps), (inner, inner_steps) = [zero, zero, *dims][-2:]
    assert outer * inner == math.prod(shape)
    return (outer, inner), outer_steps + inner_steps


def _over(x: np.ndarray, shape: Sequence[int]) -> list[int]:
    """The strides of matrices as a batch of this shape."""
    new = len(shape) - len(x.shape) + 2
    return [0] * new + [0 if n == 1 else s for n, s in zip(x.shape, x.strides[:-2], strict=False)]
