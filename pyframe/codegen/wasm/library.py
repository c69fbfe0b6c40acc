"""The libraries: modules of routines, which other modules import, and the plans that call them."""

from __future__ import annotations

import functools
from collections.abc import Set
from importlib import import_module
from typing import Any

import numpy as np

from pyframe.codegen.cpu.library import BODIES, planner
from pyframe.codegen.cpu.routines import Arrays, LibraryCall, names_of
from pyframe.codegen.wasm import conv, gemm
from pyframe.codegen.wasm.assembler import I32, WasmAssembler, as_value
from pyframe.codegen.wasm.encoder import WasmModule
from pyframe.core.op import Op

LIBRARIES = "lib", "packed"  # by what modules import them as; the second is rarely wanted


def library_of(routine: str) -> str:
    """Which library has the routine of this name."""
    return LIBRARIES[routine.startswith("packed_")]


@functools.cache
def library(name: str, relaxed: bool) -> bytes:
    """The module of a library. `relaxed`: it uses relaxed SIMD, which may round a product and a sum
    at once."""
    module = WasmModule()
    if name == "lib":
        add_routines(module, relaxed)
    else:
        from pyframe.codegen.cpu.packed import NAMES

        add_routines(module, relaxed, NAMES.keys())
    return module.encode()


def add_routines(module: WasmModule, relaxed: bool, names: Set[str] | None = None) -> None:
    """Make the routines of these names, or all of `lib`, functions of a module."""
    others = BODIES.keys() if names is None else names
    if names is None or not names <= BODIES.keys():
        gemm.build(module, relaxed)  # whose tiles convolutions need too
    if names is None or not names.isdisjoint(conv.NAMES):
        conv.build(module)
    if any(library_of(name) == "packed" for name in names or ()):
        from pyframe.codegen.wasm import packed

        packed.build(module, relaxed, names or set())
    for name, body in BODIES.items():
        if name in others:
            words = names_of(body.words)
            f = WasmAssembler(module, name, "i32 " * len(words), export=True)
            w = dict(zip(words, f.params, strict=True))
            body.write(f, w, as_value(0, I32), w[body.shared], as_value(0, I32))


def routine(op: Op, inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """How WebAssembly computes `op`. Of the arrays shapes, strides and dtypes count, addresses
    don't; the result is C-contiguous. None: it has no routine for these, and NumPy runs it."""
    if op.routine is None:
        return None
    plan = planner(op.routine)
    if plan is None:
        module, _, name = op.routine.partition(".")
        plan = getattr(import_module(f"pyframe.codegen.wasm.{module}"), name)
    return plan(inputs, attrs, out) if out.size else LibraryCall(())
