"""Modules on Python's own memory, as backend/wasm.py makes them; runs in pages."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np

from pyframe.backend import wasm
from pyframe.codegen.lanes.program import UnsupportedKernelError
from pyframe.codegen.wasm.assembler import F32X4, WasmAssembler
from pyframe.codegen.wasm.encoder import CALL, GET, OP, WasmModule, i32, load


def scale() -> bytes:
    """scale(address, n): n float32 times their number, four at a time."""
    module = WasmModule()
    f = WasmAssembler(module, "scale", "i32 i32", export=True)
    address, n = f.params
    with f.count(address, address + n * 4, 16) as at:
        f.store(at, f.load(F32X4, at) * n.to("f32.convert_i32_s").splat(F32X4))
    return module.encode()


def runner() -> bytes:
    """run(address): scale(address, 8) of the library; wrong(): reads beyond all memory."""
    module = WasmModule()
    called = module.imported("lib", "scale", "i32 i32")
    run = module.function("run", "i32", export=True)
    run.code += GET[run.params[0]] + i32(8) + CALL[called]
    wrong = module.function("wrong", "", export=True)
    wrong.code += load("i32.load", i32(-4)) + OP["drop"]
    return module.encode()


def in_place() -> str:
    """A module changes arrays where they lie, and goes on to when Python's memory has grown."""
    compiler = wasm.compiler()
    made = compiler.instance(runner(), {"lib": compiler.instance(scale())})
    for held in (0, 1 << 27):
        more = np.ones(held, np.uint8)
        x = np.arange(10, dtype=np.float32)
        made.run(compiler.address(x))
        assert x.tolist() == [0, 8, 16, 24, 32, 40, 48, 56, 8, 9]
        del more
    with contextlib.suppress(Exception):  # of JavaScript; Python goes on
        made.wrong()
        raise SystemExit("it read beyond all memory")
    made.run(compiler.address(x))
    assert x[1] == 64
    return "changed"


def refused() -> list[str]:
    """What is said of a module that is none, and of one that imports what is not there."""
    compiler, said = wasm.compiler(), []
    for code in (b"\0asm\1\0\0", runner().replace(b"scale", b"scald")):
        try:
            compiler.instance(code, {"lib": compiler.instance(scale())})
        except UnsupportedKernelError as error:
            said.append(str(error))
    return said


def poorer() -> list[list[str]]:
    """What is told where there is no SIMD, and where Pyodide shows no memory."""
    import js

    told: list[list[str]] = []
    validate, memory = js.WebAssembly.validate, wasm._memory
    js.WebAssembly.validate = js.Boolean.bind(None, False)
    try:
        for missing in ("SIMD", "memory"):
            if missing == "memory":
                wasm._memory = lambda: None
            wasm.compiler.cache_clear()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                assert wasm.compiler() is None
                assert wasm.compiler() is None
            told.append([str(warning.message) for warning in caught])
    finally:
        js.WebAssembly.validate, wasm._memory = validate, memory
        wasm.compiler.cache_clear()
    assert wasm.compiler().relaxed == wasm._has("f32x4.relaxed_madd", 3)
    return told
