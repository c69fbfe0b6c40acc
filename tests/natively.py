"""The page's WebAssembly modules on a native CPU: wasmtime runs them, in a memory of their own."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from pyframe.backend import wasm
from pyframe.web.cpu import NUMBER, PARAMS, SHARED, TABLE

PAGE, LINE = 1 << 16, 64  # bytes


class Copied(NamedTuple):
    """An array and where its copy lies."""

    array: np.ndarray  # all bytes of it
    at: int
    held: Any  # so that nothing else comes to lie there


class Machine:
    """A memory in which NumPy's arrays have copies, and modules that work on it."""

    def __init__(self) -> None:
        import wasmtime

        self.store = wasmtime.Store(_engine())
        self.memory = wasmtime.Memory(self.store, wasmtime.MemoryType(wasmtime.Limits(1, None)))
        self.copies: dict[int, Copied] = {}  # by the arrays' addresses
        self.end = LINE  # an address of 0 means none

    def address(self, array: np.ndarray) -> int:
        """Where the copy of an array lies; all that the array is a view of is copied."""
        whole: Any = array
        while hasattr(base := whole.base, "base"):  # an array, or what as_strided puts between
            whole = base
        start, end = byte_bounds(whole)
        found = self.copies.get(start)
        if found is None:
            flat = np.frombuffer((ctypes.c_uint8 * (end - start)).from_address(start), np.uint8)
            found = self.copies[start] = Copied(flat, self.take(flat.nbytes), whole)
        return found.at + _start(array) - start

    def take(self, nbytes: int) -> int:
        """New memory: its address."""
        at = self.end
        self.end += -(-nbytes // LINE) * LINE
        missing = -(-self.end // PAGE) - self.memory.size(self.store)
        if missing > 0:
            self.memory.grow(self.store, missing)
        return at

    def functions(self, code: bytes, library: dict[str, Any]) -> dict[str, Any]:
        """The functions of a module, which imports the memory and functions of `library`."""
        import wasmtime

        module = _module(code)
        given = [self.memory if i.module == "env" else library[str(i.name)] for i in module.imports]
        made = wasmtime.Instance(self.store, module, given).exports(self.store)
        return {str(e.name): made[str(e.name)] for e in module.exports}

    def call(self, function: Any, *numbers: int) -> None:
        """Call a function on the arrays as they are, and give them what it has written."""
        before = []
        for array, at, _ in self.copies.values():
            before.append(array.tobytes())
            self.memory.write(self.store, before[-1], at)
        function(self.store, *numbers)
        for (array, at, _), old in zip(self.copies.values(), before, strict=True):
            new = bytes(self.memory.read(self.store, at, at + array.nbytes))
            if new != old:
                array[:] = np.frombuffer(new, np.uint8)


class Exports:
    """The functions of a module as attributes, as JavaScript has them."""

    def __init__(self, machine: Machine, functions: dict[str, Any]) -> None:
        self.functions = functions
        for name, function in functions.items():
            setattr(self, name, functools.partial(machine.call, function))


class Natively(wasm.WasmCompiler):
    """The page's compiler, with a Machine for the page."""

    def __init__(self, relaxed: bool) -> None:
        self.machine = Machine()
        super().__init__(relaxed)

    def address(self, array: np.ndarray) -> int:
        return self.machine.address(array)

    def instance(self, code: bytes, libraries: Any = MappingProxyType({})) -> Exports:
        known = {n: f for lib in libraries.values() for n, f in lib.functions.items()}
        return Exports(self.machine, self.machine.functions(code, known))


class Part(NamedTuple):
    """Memory of an exported program."""

    handle: int  # its address


class Exported:
    """The module of an exported program in the place of a GPU: what web/cpu.js makes of it."""

    def __init__(self, code: bytes) -> None:
        self.backend, self.machine = self, Machine()
        self.code = self.machine.functions(code, {})["run"]
        own = sections(code)
        self.words = np.frombuffer(own["words"], np.int32).reshape(-1, 2)
        self.addresses = self.alloc(4 * len(self.words))
        self.tables = self.alloc(len(own["tables"]))
        self.write(self.tables, np.frombuffer(own["tables"], np.uint8))

    def alloc(self, nbytes: int) -> Part:
        return Part(self.machine.take(nbytes))

    def slice(self, whole: Part, offset: int, nbytes: int) -> Part:
        return Part(whole.handle + offset)

    def write(self, part: Part, data: np.ndarray) -> None:
        self.machine.memory.write(self.machine.store, data.tobytes(), part.handle)

    def read(self, items: Sequence[tuple[Part, int]]) -> list[bytes]:
        memory, store = self.machine.memory, self.machine.store
        return [bytes(memory.read(store, part.handle, part.handle + n)) for part, n in items]

    def copy(self, target: Part, source: Part, nbytes: int) -> None:
        (raw,) = self.read([(source, nbytes)])
        self.write(target, np.frombuffer(raw, np.uint8))

    def run(self, cpu: Any, handles: Sequence[int], params: bytes) -> None:
        """Run a program, of which program.json says `cpu`."""
        at = np.array([offset for offset, *_ in cpu["params"]], np.int64)
        scalars = self.alloc(8 * len(at))
        words = np.zeros((len(at), 2), np.uint32)
        words[:, 0] = np.frombuffer(params, np.uint32)[at // 4]
        self.write(scalars, words)
        bases = {
            **dict(enumerate(handles)), SHARED: self.alloc(cpu["shared"]).handle,
            TABLE: self.tables.handle, PARAMS: scalars.handle, NUMBER: 0,
        }  # fmt: skip
        begin, end = cpu["words"]
        found = [bases[base] + more for base, more in self.words[begin:end].tolist()]
        at = self.addresses.handle
        self.write(Part(at + 4 * begin), np.array(found, np.int64).astype(np.uint32))
        import wasmtime

        try:
            self.code(self.machine.store, at, *cpu["launches"])
        except wasmtime.Trap as e:
            raise RuntimeError(f"A step failed ({e}): maybe an index is out of range.") from None
        finally:
            self.machine.end = bases[SHARED]  # what was taken for this run alone


def sections(code: bytes) -> dict[str, bytes]:
    """The sections of a module that engines don't read, by their names."""
    found, at = {}, 8
    while at < len(code):
        kind, (size, at) = code[at], _uleb(code, at + 1)
        if kind == 0:
            length, start = _uleb(code, at)
            found[code[start : start + length].decode()] = code[start + length : at + size]
        at += size
    return found


def _uleb(code: bytes, at: int) -> tuple[int, int]:
    """The unsigned number there, and where it ends."""
    value = shift = 0
    while True:
        value |= (code[at] & 0x7F) << shift
        if code[at] < 0x80:
            return value, at + 1
        at, shift = at + 1, shift + 7


def _start(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


@functools.cache
def _engine() -> Any:
    import wasmtime

    return wasmtime.Engine()


@functools.lru_cache(maxsize=64)
def _module(code: bytes) -> Any:
    import wasmtime

    return wasmtime.Module(_engine(), code)
