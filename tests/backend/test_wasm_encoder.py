"""The encoder of WebAssembly modules, against wasmtime's assembler and its runtime."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from pyframe.codegen.wasm.encoder import OP, WasmModule, f32, f64, i32, i64, if_, load, uleb

wasmtime = pytest.importorskip("wasmtime")


def evaluate(result: str, *codes: bytes) -> list[Any]:
    """What pieces of code give, each as a function."""
    module = WasmModule()
    for n, code in enumerate(codes):
        module.function(f"f{n}", "", result, export=True).code += code
    engine = wasmtime.Engine()
    held = wasmtime.Store(engine)
    memory = wasmtime.Memory(held, wasmtime.MemoryType(wasmtime.Limits(1, None)))
    exports = wasmtime.Instance(held, wasmtime.Module(engine, module.encode()), [memory]).exports
    return [exports(held)[f"f{n}"](held) for n in range(len(codes))]


def offset(n: int) -> bytes:
    """A piece that holds `n` as an offset, in code that never runs, and gives 0."""
    return if_(i32(0), load("i32.load", i32(0), n) + OP["drop"]) + i32(0)


def test_integers() -> None:
    ends = {sign * 2**bits + more for bits in range(65) for more in (-1, 0, 1) for sign in (-1, 1)}
    long = [n for n in ends if -(2**63) <= n < 2**64]
    assert evaluate("i64", *map(i64, long)) == [(n + 2**63) % 2**64 - 2**63 for n in long]
    short = [n for n in ends if -(2**31) <= n < 2**32]
    assert evaluate("i32", *map(i32, short)) == [(n + 2**31) % 2**32 - 2**31 for n in short]
    assert {*evaluate("i32", *[offset(n) for n in ends if 0 <= n < 2**32])} == {0}


def test_uleb() -> None:
    assert [uleb(n).hex() for n in (0, 127, 128, 624485)] == ["00", "7f", "8001", "e58e26"]


def test_floats() -> None:
    some = [0.0, -0.0, 1.5, float("inf"), float("nan"), 0.1]
    assert struct.pack("<6d", *evaluate("f64", *map(f64, some))) == struct.pack("<6d", *some)
    found = evaluate("f32", *map(f32, (0.1, 1e40, -1e40)))
    assert found == [struct.unpack("f", struct.pack("f", 0.1))[0], float("inf"), -float("inf")]


def test_what_is_imported_comes_first() -> None:
    module = WasmModule()
    module.function("f", "", "i32", export=True)
    with pytest.raises(ValueError, match="imported before"):
        module.imported("env", "late", "")
