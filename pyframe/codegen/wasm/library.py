"""The library: one module of all routines written by hand, which other modules import as `lib`."""

from __future__ import annotations

import functools

from pyframe.codegen.wasm import conv, gemm, index, join, scan, sort
from pyframe.codegen.wasm.encoder import Module


@functools.cache
def library(relaxed: bool) -> bytes:
    """The module. `relaxed`: it uses relaxed SIMD, which may round a product and a sum at once."""
    module = Module()
    conv.build(module, gemm.build(module, relaxed))
    for part in (index, join, scan, sort):
        part.build(module)
    return module.encode()
