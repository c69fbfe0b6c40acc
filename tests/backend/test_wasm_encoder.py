"""The encoder of WebAssembly modules, against wasmtime's assembler and its runtime."""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest

from pyframe.codegen.wasm.encoder import (
    CALL,
    GET,
    OP,
    SET,
    TEE,
    Module,
    access_lane,
    block,
    br_if,
    call_indirect,
    f32,
    f64,
    i32,
    i64,
    if_,
    lane,
    load,
    loop,
    shuffle,
    store,
    uleb,
    v128,
)

wasmtime = pytest.importorskip("wasmtime")


def instance(module: Module) -> tuple[Any, Any, Any]:
    engine = wasmtime.Engine()
    held = wasmtime.Store(engine)
    memory = wasmtime.Memory(held, wasmtime.MemoryType(wasmtime.Limits(1, None)))
    made = wasmtime.Instance(held, wasmtime.Module(engine, module.encode()), [memory])
    return held, memory, made.exports(held)


def evaluate(code: bytes, result: str) -> Any:
    module = Module()
    module.function("it", "", result, export=True).code += code
    store, _, exports = instance(module)
    return exports["it"](store)


def assembled(*lines: str) -> list[bytes]:
    """What wasmtime's assembler makes of each line, as the body of a function."""
    text = "".join(f"(func {line})" for line in lines)
    binary = wasmtime.wat2wasm(f"(module (memory 1) (func) {text})")
    at, bodies = binary.index(b"\x0a", binary.index(b"\x05\x03\x01\x00\x01") + 5) + 1, []

    def number() -> int:
        nonlocal at
        out = shift = 0
        while True:
            byte = binary[at]
            at += 1
            out |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return out

    number()
    for _ in range(number()):
        size = number()
        bodies.append(binary[at + 1 : at + size - 1])  # without its locals (none) and its end
        at += size
    return bodies[1:]


def test_opcodes() -> None:
    written, expected = [], []
    for name, code in OP.items():
        line, here = name, code
        if re.search(r"(load|store)\w*lane$", name):
            last = 128 // int(re.sub(r"\D", "", name.split(".")[1])) - 1
            line, here = f"{name} align=1 {last}", access_lane(name, b"", b"", last)
        elif re.search(r"\.(load|store)", name):
            line, here = f"{name} offset=300 align=1", load(name, b"", 300)
        elif name.endswith(("extract_lane", "extract_lane_s", "extract_lane_u", "replace_lane")):
            line, here = f"{name} 1", lane(name, 1)
        elif name == "i8x16.shuffle":
            line, here = name + " 0" * 15 + " 31", shuffle([0] * 15 + [31])
        elif name == "v128.const":
            line, here = name + " i8x16" + " 7" * 16, v128(b"\7" * 16)
        written.append(here)
        expected.append(line)
    for line, here, there in zip(expected, written, assembled(*expected), strict=True):
        assert here == there, line
    assert len(OP) > 400


def offset(n: int) -> bytes:
    """A piece that holds `n` as an offset, in code that never runs, and gives 0."""
    return if_(i32(0), load("i32.load", i32(0), n) + OP["drop"]) + i32(0)


@pytest.mark.parametrize("bits", range(64))
def test_integers(bits: int) -> None:
    for n in {2**bits - 1, 2**bits, 2**bits + 1, -(2**bits), -(2**bits) - 1, -(2**bits) + 1}:
        if -(2**63) <= n < 2**64:
            assert evaluate(i64(n), "i64") == (n + 2**63) % 2**64 - 2**63
        if -(2**31) <= n < 2**32:
            assert evaluate(i32(n), "i32") == (n + 2**31) % 2**32 - 2**31
        if 0 <= n < 2**32:
            assert evaluate(offset(n), "i32") == 0


def test_uleb() -> None:
    assert [uleb(n).hex() for n in (0, 127, 128, 624485)] == ["00", "7f", "8001", "e58e26"]


def test_floats() -> None:
    for x in (0.0, -0.0, 1.5, float("inf"), float("nan"), 0.1):
        assert struct.pack("<d", evaluate(f64(x), "f64")) == struct.pack("<d", x)
    assert evaluate(f32(0.1), "f32") == struct.unpack("f", struct.pack("f", 0.1))[0]
    assert evaluate(f32(1e40), "f32") == float("inf")
    assert evaluate(f32(-1e40), "f32") == -float("inf")


def test_loops_and_locals() -> None:
    module = Module()
    f = module.function("sum", "i32 i32", "f64", export=True)
    address, n = f.params
    i, total, unused, zero = f.local("i32"), f.local("f64"), f.local("v128"), f.local("f64")
    at = GET[address] + GET[i] + i32(4) + OP["i32.mul"] + OP["i32.add"]
    added = GET[total] + load("f32.load", at) + OP["f64.promote_f32"] + OP["f64.add"] + SET[total]
    step = GET[i] + i32(1) + OP["i32.add"] + TEE[i] + GET[n] + OP["i32.ge_s"]
    again = loop(added + br_if(0, step + OP["i32.eqz"]))
    f.code += block(br_if(0, GET[n] + i32(1) + OP["i32.lt_s"]) + again)
    f.code += GET[total] + GET[zero] + OP["f64.add"]
    assert unused == 4
    store, memory, exports = instance(module)
    memory.write(store, struct.pack("5f", 1, 2, 3, 4, 5), 16)
    assert exports["sum"](store, 16, 5) == 15
    assert exports["sum"](store, 16, 0) == 0
    assert exports["sum"](store, 16, -3) == 0


def test_control() -> None:
    module = Module()
    f = module.function("f", "i32", "i32", export=True)
    (n,) = f.params
    inner = br_if(1, GET[n] + i32(0) + OP["i32.lt_s"]) + br_if(0, GET[n]) + i32(10) + OP["return"]
    one = block(block(inner) + br_if(0, GET[n] + i32(1) + OP["i32.ne"]) + i32(20) + OP["return"])
    f.code += one + if_(GET[n] + i32(5) + OP["i32.eq"], i32(30), i32(40), "i32")
    g = module.function("g", "i32", "i32", export=True)
    (n,) = g.params
    down = GET[n] + i32(1) + OP["i32.sub"] + SET[n]
    until = block(loop(br_if(1, GET[n] + i32(3) + OP["i32.le_s"]) + down + br_if(0, i32(1))))
    g.code += until + GET[n] + CALL[f.index]
    h = module.function("h", "i32 i32", "i32", export=True)
    slots = [module.table_slot(x.index) for x in (f, g)]
    assert slots == [0, 1]
    h.code += GET[1] + call_indirect(module.type("i32", "i32"), GET[0])
    store, _, exports = instance(module)
    assert [exports["f"](store, n) for n in (0, 1, 2, 5, -1)] == [10, 20, 40, 30, 40]
    assert [exports["g"](store, n) for n in (1, 7)] == [20, 40]
    assert [exports["h"](store, slot, 5) for slot in slots] == [30, 40]


def test_memory_and_imports() -> None:
    module = Module()
    twice = module.imported("env", "twice", "i32", "i32")
    f = module.function("f", "", "i32", export=True)
    with pytest.raises(ValueError, match="imported before"):
        module.imported("env", "late", "")
    f.code += i32(0) + i32(7) + i32(64) + OP["memory.fill"]
    f.code += store("i32.store", i32(0), i32(21) + CALL[twice], 4)
    f.code += i32(100) + i32(4) + i32(4) + OP["memory.copy"] + load("i32.load", i32(100))
    engine = wasmtime.Engine()
    held = wasmtime.Store(engine)
    memory = wasmtime.Memory(held, wasmtime.MemoryType(wasmtime.Limits(2, 10)))
    i32_type = wasmtime.ValType.i32()
    host = wasmtime.Func(
        held, wasmtime.FuncType([i32_type], [i32_type]), lambda n: int(memory.data_ptr(held)[8] * n)
    )
    made = wasmtime.Instance(held, wasmtime.Module(engine, module.encode()), [memory, host])
    assert made.exports(held)["f"](held) == 7 * 21
    assert bytes(memory.read(held, 0, 9)) == bytes([7, 7, 7, 7, 147, 0, 0, 0, 7])
