"""The page's WebAssembly modules on a native CPU: wasmtime runs them, in a memory of their own."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from pyframe.backend import wasm

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
            found = self.copies[start] = Copied(flat, self.end, whole)
            self.end += -(-flat.nbytes // LINE) * LINE
            missing = -(-self.end // PAGE) - self.memory.size(self.store)
            if missing > 0:
                self.memory.grow(self.store, missing)
        return found.at + _start(array) - start

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


class Natively(wasm.Compiler):
    """The page's compiler, with a Machine for the page."""

    def __init__(self, relaxed: bool) -> None:
        self.machine = Machine()
        super().__init__(relaxed)

    def address(self, array: np.ndarray) -> int:
        return self.machine.address(array)

    def instance(self, code: bytes, lib: Any = None) -> Exports:
        return Exports(self.machine, self.machine.functions(code, lib.functions if lib else {}))


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
