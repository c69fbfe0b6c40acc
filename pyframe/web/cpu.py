"""An export's Programs for browsers without WebGPU: one WebAssembly module for all of them.

They are planned of the same Nodes, and share the state, as on a GPU: int64 has 32 bits there and
bfloat16 16, which kernels turn into what the CPU computes with. web/cpu.js loads the module. It has
all launches in a row, and two sections of its own: `words`, what each launch works on, as pairs of
a base and a number of bytes past it, and `tables`, which routines read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pyframe.codegen.cpu.routines import SCRATCH, TABLES, Addr
from pyframe.codegen.lanes.compiler import Launch
from pyframe.codegen.lanes.lower import lower
from pyframe.codegen.lanes.program import UnsupportedKernelError
from pyframe.codegen.numpy.memory import ScratchPool, Shape, address
from pyframe.codegen.numpy.plan import PARAM, CpuPlan
from pyframe.codegen.wasm.encoder import WasmModule, section
from pyframe.codegen.wasm.forms import LANES
from pyframe.codegen.wasm.library import add_routines, routine
from pyframe.codegen.wasm.module import module, starts
from pyframe.codegen.wasm.printer import WasmKernel, printed
from pyframe.core.dtypes import bfloat16, dtype as DType, int32, int64, uint16
from pyframe.core.host_memory import aligned
from pyframe.core.op import Op
from pyframe.graph.program import Apply, Expr, Kernel, Load, Program, Reduce, ScalarParam, Store

# Bases of a word, beside the number of a slot: the memory that all programs share for what holds
# nothing between launches, the tables, the program's params; or none, of a plain number.
SHARED, TABLE, PARAMS, NUMBER = -1, -2, -3, -4
LINE = 64  # bytes to a multiple of which parts of the shared memory are put


class CpuCode:
    """What `add` was given, as one module."""

    def __init__(self) -> None:
        self.functions: list[WasmKernel] = []
        self.numbers: dict[WasmKernel, int] = {}
        self.launches: list[Launch] = []
        self.words: list[tuple[int, int]] = []
        self.tables: list[np.ndarray] = []

    def add(self, program: Program) -> dict[str, Any]:
        """Which launches a program is: JSON data for web/cpu.js. UnsupportedKernelError with the
        reason where it has no form in WebAssembly."""
        compiler, scratch = _Compiler(self), _Scratch()
        kernels = [in_words(k) for k in program.kernels]
        plan = CpuPlan(replace(program, kernels=kernels, loaded={}), 1, compiler)
        plan.registers = scratch
        plan.bind([None] * len(program.slots))
        if any(plan.code is None or f != plan.code.run for f, _ in plan.calls):  # NumPy's
            made = [k.routine for k in kernels if k.routine is not None]
            rounded = [_missing(r.name, [e.dtype for e in r.operands]) for r in made
                       if r.dtype.narrow is not None]  # fmt: skip
            why = [*plan.unsupported.values(), *compiler.missing, *rounded]
            raise UnsupportedKernelError(why[0] if why else "a part of it runs through NumPy alone")
        blocks, shared = _blocks(plan, scratch, compiler.scratch)
        first, begin = len(self.launches), len(self.words)
        for launch, buffers, params, words, _ in plan.loaded:
            for buffer in buffers:
                assert not isinstance(buffer, tuple)
                is_slot = isinstance(buffer, int)
                self.words.append((buffer, 0) if is_slot else _found(blocks, address(buffer)))
            if launch.function >= 0:
                self.words.append((PARAMS, PARAM * params))
                launch = Launch(self.number(plan.functions[launch.function]))
            self.words += [_based(blocks, word) for word in words]
            self.launches.append(launch)
        return {
            "launches": [first, len(self.launches)],
            "words": [begin, len(self.words)],
            "shared": shared,
        }

    def number(self, function: WasmKernel) -> int:
        """The number of a function."""
        found = self.numbers.setdefault(function, len(self.functions))
        if found == len(self.functions):
            self.functions.append(function)
        return found

    def table(self, array: np.ndarray) -> int:
        """Where a table begins among all of them, in bytes."""
        at = 0
        for other in self.tables:
            if other.shape == array.shape and (other == array).all():
                return at
            at += -(-other.nbytes // 16) * 16
        self.tables.append(array)
        return at

    def encode(self) -> bytes:
        """The module's bytes, with its sections."""
        own = WasmModule()
        add_routines(own, False, {n.routine for n in self.launches if n.routine})
        code = module(self.functions, self.launches, own)
        words = np.array(self.words, np.int64).reshape(-1, 2).astype(np.uint32)
        assert starts(self.functions, self.launches)[-1] == len(words)
        tables = b"".join(t.tobytes() + bytes(-t.nbytes % 16) for t in self.tables)
        return code + section("words", words.tobytes()) + section("tables", tables)


class _Address(int):
    """A word of a routine that is an address: `offset` bytes past `base`, or for NUMBER past this
    address of the plan's own."""

    base: int
    offset: int


def _address(base: int, offset: int, number: int = 0) -> _Address:
    made = _Address(number)
    made.base, made.offset = base, offset
    return made


class _MemoryRange(NamedTuple):
    """Memory of a plan, and which memory of a page it stands for: bytes past a base."""

    start: int
    nbytes: int
    base: int
    offset: int


def _blocks(plan: CpuPlan, scratch: _Scratch, before: int) -> tuple[list[_MemoryRange], int]:
    """Where the arrays of a plan lie, and how much shared memory it needs: so many bytes for
    routines, and what the plan has taken of its own."""
    out = [_MemoryRange(address(a), a.nbytes, slot, 0) for slot, a in enumerate(plan.arrays)]
    end = -(-before // LINE) * LINE
    for some in scratch.pieces.values():
        out += [_MemoryRange(address(a), a.nbytes, SHARED, end) for a in some]
        end += -(-max(a.nbytes for a in some) // LINE) * LINE
    return out, end


def _found(blocks: Sequence[_MemoryRange], at: int) -> tuple[int, int]:
    """An address of a plan as a base and the bytes past it."""
    for start, nbytes, base, offset in blocks:
        if start <= at < start + max(nbytes, 1):
            return base, offset + at - start
    raise AssertionError("a routine works on memory that is not the program's")


def _based(blocks: Sequence[_MemoryRange], word: Any) -> tuple[int, int]:
    """A word of a routine in the same form."""
    if not isinstance(word, _Address):
        return NUMBER, word & 0xFFFFFFFF
    base, offset = (word.base, 0) if word.base != NUMBER else _found(blocks, word)
    return base, offset + word.offset


class _Scratch(ScratchPool):
    """Scratch memory, of which each piece that was asked for stays known."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: dict[int, list[np.ndarray]] = {}

    def get(self, worker: int, index: int, shape: Shape, dtype: np.dtype) -> np.ndarray:
        found = aligned(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
        self.pieces.setdefault(index, []).append(found)
        return found.view(dtype).reshape(shape)


class _Compiler:
    """Notes what a plan has compiled (see codegen/lanes/compiler.py), and runs nothing."""

    name = "wasm"
    adapter = "WebAssembly"
    alone = True

    def __init__(self, code: CpuCode) -> None:
        self.code = code
        self.scratch = 0  # bytes that routines need
        self.missing: dict[str, None] = {}  # what it has no routine for

    def routine(
        self, op: Op, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
    ) -> list[tuple[str, list[int]]] | None:
        """The library's functions that compute `op`, and their words."""
        found, text = routine(op, inputs, attrs, out), _missing(op.name, [x.dtype for x in inputs])
        if found is None:
            self.missing[text] = None
            return None
        self.missing.pop(text, None)  # where it now is for operands that lie in line
        self.scratch = max(self.scratch, found.scratch)
        table = 0 if found.tables is None else self.code.table(found.tables)

        def word(argument: int | Addr) -> int:
            if not isinstance(argument, Addr):
                return argument & 0xFFFFFFFF
            if argument.of == SCRATCH:
                return _address(SHARED, argument.offset)
            if argument.of == TABLES:
                return _address(TABLE, table + argument.offset)
            array = (*inputs, out)[argument.of]  # an empty one may lie past the end of its memory
            return _address(NUMBER, argument.offset, address(array)) if array.size else 0

        return [(call.function, [word(a) for a in call.arguments]) for call in found.calls]

    def printed(self, kernel: Kernel) -> WasmKernel:
        """See codegen/lanes/compiler.py."""
        return printed(lower(kernel, lambda types: LANES), False)

    def load(self, functions: Sequence[WasmKernel], launches: Sequence[Launch]) -> Any:
        """Launches that nothing runs."""
        return _Code(functions, launches)


def _missing(name: str, dtypes: Sequence[Any]) -> str:
    return f"{name} of {', '.join([d.name for d in dtypes])} has no routine in WebAssembly"


class _Code:
    def __init__(self, functions: Sequence[WasmKernel], launches: Sequence[Launch]) -> None:
        *self.starts, count = starts(functions, launches)
        self.table = np.zeros(count, np.uint64)

    def run(self, first: int, last: int) -> None:
        raise NotImplementedError


# --- kernels on a GPU's memory


def in_words(kernel: Kernel) -> Kernel:
    """A kernel that finds numbers as they lie in a GPU's memory."""
    code, at = _in_words(kernel.code)
    stores = []
    for s in kernel.stores:
        held, value = _STORED_AS.get(s.dtype, s.dtype), at[s.value]
        if held is not s.dtype:
            code.append(_turned(value, s.dtype, held))
            value = len(code) - 1
        stores.append(Store(s.binding, value, s.index_map, held))
    made = kernel.routine
    if made is not None:
        operands = [Expr(e.shape, tuple(_in_words(e.code)[0]), e.dtype) for e in made.operands]
        made = made._replace(operands=tuple(operands))
    return replace(kernel, code=tuple(code), stores=tuple(stores), routine=made)


def _in_words(code: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Instructions that read what lies there, and which of them each is that was given."""
    out: list[Any] = []
    at: list[int] = []
    for i in code:
        known = isinstance(i, Load) or (isinstance(i, ScalarParam) and i.dtype is int64)
        if known and (held := _STORED_AS.get(i.dtype)):
            out += [i._replace(dtype=held), _turned(len(out), held, i.dtype)]
        elif isinstance(i, Apply):
            out.append(i._replace(args=tuple([at[a] for a in i.args])))
        elif isinstance(i, Reduce):
            out.append(i._replace(arg=at[i.arg]))
        else:
            out.append(i)
        at.append(len(out) - 1)
    return out, at


_STORED_AS = {int64: int32, bfloat16: uint16}  # dtypes that a GPU stores in another


def _turned(value: int, old: DType, new: DType) -> Apply:
    """A value of one of these dtypes as the other."""
    if bfloat16 not in (old, new):
        return Apply("cast", (value,), (new,), new)
    name = "bits_from_bfloat16" if old is bfloat16 else "bfloat16_from_bits"
    return Apply(name, (value,), (), new)
