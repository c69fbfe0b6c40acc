"""What compiles the CPU's work."""

from __future__ import annotations

import functools
import os
import sys

from pyframe.codegen.lanes.compiler import Compiler


@functools.cache
def compiler() -> Compiler | None:
    """Who makes lane programs run here: LLVM where its extra is installed, WebAssembly in a page;
    None where NumPy does all of the work, as PYFRAME_CPU=numpy asks for."""
    wanted = os.environ.get("PYFRAME_CPU", "")
    if wanted == "numpy":
        return None
    if sys.platform == "emscripten":
        from pyframe.backend import wasm

        return wasm.compiler()
    from pyframe.backend import cpu  # which takes a while to import

    return cpu.compiler()
