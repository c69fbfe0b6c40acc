"""Products with packed weights in WebAssembly (codegen/cpu/packed.py): their tiles, in a library of
their own that is made when the first one is met."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np

from pyframe.codegen.cpu import packed as shared
from pyframe.codegen.cpu.routines import SCRATCH, Addr, Arrays, KernelInvocation, LibraryCall
from pyframe.codegen.wasm.assembler import WasmAssembler
from pyframe.codegen.wasm.encoder import WasmModule
from pyframe.codegen.wasm.gemm import TILE, write_tile


def product(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
    """The routine of `packed_linear`, of float32 and of ints."""
    x, *weight = inputs
    ints, (_, m, k), (n, groups, _) = x.dtype == np.int8, x.shape, weight[0].shape
    lie = all(a.flags.c_contiguous for a in weight) and x.strides[2] == x.itemsize
    if not lie or out.dtype != np.float32 or not (ints or x.dtype == np.float32):
        return None
    arguments = (
        Addr(SCRATCH),
        Addr(4),
        *map(Addr, range(4)),
        0,
        n,
        n,
        m,
        k,
        x.strides[1],
        k // groups,
    )
    call = KernelInvocation(shared.name("ints" if ints else "floats", *attrs), arguments)
    return LibraryCall((call,), shared.scratch(TILE, m, k, groups, ints))


def build(module: WasmModule, relaxed: bool, names: Set[str]) -> None:
    """Add the functions of these names to a module with those of `gemm.build`."""

    def make(name: str, params: str) -> WasmAssembler:
        f = WasmAssembler(module, name, params, export=name in shared.NAMES)
        f.relaxed = relaxed
        return f

    for name in shared.NAMES.keys() & names:
        what, bits, symmetric = shared.NAMES[name]
        if what == "ints":
            shared.ints(make, TILE, bits, symmetric)
        else:
            shared.floats(make, TILE, write_tile, bits, symmetric)
