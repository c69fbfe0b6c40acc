"""WebAssembly in a page, under Pyodide: the only file that makes functions of modules there.

Python in a page is itself a WebAssembly program. A module that imports its memory works on NumPy's
arrays where they lie, and its functions are called with the addresses of these.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from pyframe.codegen.cpu.routines import SCRATCH, TABLES, Addr
from pyframe.codegen.lanes.compiler import Launch
from pyframe.codegen.lanes.lower import lower
from pyframe.codegen.lanes.program import UnsupportedKernelError
from pyframe.codegen.numpy.memory import SlotArray, address_arg
from pyframe.codegen.wasm.encoder import OP, WasmModule, f32
from pyframe.codegen.wasm.forms import LANES
from pyframe.codegen.wasm.library import library, library_of, routine
from pyframe.codegen.wasm.module import module, starts
from pyframe.codegen.wasm.printer import WasmKernel, printed
from pyframe.core.host_memory import aligned
from pyframe.core.op import Op
from pyframe.graph.program import Kernel


@functools.cache
def compiler() -> WasmCompiler | None:
    """Who compiles the CPU's work in a page: None where its Python shows no memory, and, which is
    told, where the browser has no SIMD."""
    if sys.platform != "emscripten" or _memory() is None:
        return None
    if not _has("f32x4.add", 2):
        warnings.warn(
            "this browser has no SIMD in WebAssembly, so that NumPy computes on the CPU what would "
            "be compiled for it; the newest Chrome, Edge, Firefox and Safari have it",
            stacklevel=2,
        )
        return None
    return WasmCompiler(_has("f32x4.relaxed_madd", 3))


class WasmCompiler:
    """Makes lane programs and routines run on Python's memory (codegen/lanes/compiler.py). With
    `relaxed` the browser has relaxed SIMD: a product and a sum as one instruction."""

    name = "wasm"
    alone = False
    adapter = "WebAssembly on 1 core"

    def __init__(self, relaxed: bool) -> None:
        self.relaxed = relaxed
        self._libraries = {"lib": self.instance(library("lib", relaxed))}
        self._scratch = aligned(0)

    def routine(
        self, op: Op, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
    ) -> list[tuple[str, list[int | np.ndarray]]] | None:
        """The library's functions that compute `op` on arrays that stay where they lie, and their
        words; an array stands for its address. None: it has none."""
        found = routine(op, inputs, attrs, out)
        if found is None:
            return None
        if found.scratch > self._scratch.size:  # nothing runs beside it: it is one for all
            self._scratch = aligned(found.scratch)
        tables = aligned(0 if found.tables is None else found.tables.nbytes)
        if found.tables is not None:
            tables.view(found.tables.dtype)[:] = found.tables.reshape(-1)
        own = {SCRATCH: self._scratch, TABLES: tables}

        def word(argument: int | Addr) -> int | np.ndarray:
            if not isinstance(argument, Addr):
                return argument & 0xFFFFFFFF
            if argument.of in own:
                return own[argument.of][argument.offset :]
            x = (*inputs, out)[argument.of]
            return (address_arg(x) if type(x) is SlotArray else self.address(x)) + argument.offset

        return [(call.function, [word(a) for a in call.arguments]) for call in found.calls]

    def compute(
        self, op: Op, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
    ) -> bool:
        """Compute `op` now, if the library has a routine for these arrays."""
        found = self.routine(op, inputs, attrs, out)
        for name, words in found or ():
            numbers = [w if isinstance(w, int) else self.address(w) for w in words]
            getattr(self._library(library_of(name)), name)(*numbers)
        return found is not None

    def printed(self, kernel: Kernel) -> WasmKernel:
        """What `load` takes of a kernel. UnsupportedKernelError if it has no form here."""
        return printed(lower(kernel, lambda types: LANES), self.relaxed)

    def load(self, functions: Sequence[WasmKernel], launches: Sequence[Launch]) -> WasmLaunches:
        """Compile. UnsupportedKernelError where the browser refuses it."""
        names = {library_of(n.routine) for n in launches if n.routine}
        libraries = {name: self._library(name) for name in names}
        made = self.instance(module(functions, launches), libraries)
        *begins, words = starts(functions, launches)
        table = np.zeros(words + len(launches), np.uint32)
        return WasmLaunches(table, begins, made.run, self.address)

    def address(self, array: np.ndarray) -> int:
        """Where its first element lies."""
        return int(array.__array_interface__["data"][0])

    def _library(self, name: str) -> Any:
        """The functions of a library, which is made when one is first asked for."""
        if name not in self._libraries:
            self._libraries[name] = self.instance(library(name, self.relaxed))
        return self._libraries[name]

    def instance(self, code: bytes, libraries: Mapping[str, Any] = MappingProxyType({})) -> Any:
        """The exports of a module. A page compiles it while Python waits, which all browsers allow
        for so few bytes."""
        import js
        from pyodide.ffi import JsException, to_js

        imports = {"env": {"memory": _memory()}, **libraries}
        given = to_js(imports, dict_converter=js.Object.fromEntries)
        try:
            made = js.WebAssembly.Module.new(to_js(code))
            return js.WebAssembly.Instance.new(made, given).exports
        except JsException as error:
            raise UnsupportedKernelError(f"the browser refuses its module: {error}") from None


class WasmLaunches:
    """Launches in a module; `run(first, last)` runs those from `first` on, before `last`, on what
    stands in `table`: of launch k from `starts[k]` on. Behind it are their units, if these
    change."""

    def __init__(
        self, table: np.ndarray, starts: Sequence[int], function: Any, address: Any
    ) -> None:
        self.table, self.starts, self.function, self.address = table, starts, function, address
        self.run = functools.partial(function, address(table))

    def again(self, units: np.ndarray, words: np.ndarray) -> WasmLaunches:
        """The same launches with another table."""
        table = np.concatenate([words, units]).astype(np.uint32)
        return WasmLaunches(table, self.starts, self.function, self.address)


def _memory() -> Any:
    """Pyodide's memory; None in a Pyodide that does not show it."""
    import pyodide_js

    # Its dynamic linker has all that its main module gives to libraries, which is the memory too.
    found = pyodide_js
    for name in ("_module", "LDSO", "loadedLibsByName", "__main__", "exports", "memory"):
        found = getattr(found, name, None)
        if found is None:
            return None
    return found


def _has(instruction: str, operands: int) -> bool:
    """Whether the browser knows an instruction on vectors of float32."""
    import js
    from pyodide.ffi import to_js

    probe = WasmModule()
    probe.function("probe", "").code += (
        (f32(0) + OP["f32x4.splat"]) * operands + OP[instruction] + OP["drop"]
    )
    return bool(js.WebAssembly.validate(to_js(probe.encode())))
