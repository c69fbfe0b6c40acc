"""What compiles the CPU's work."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.codegen.lanes.compiler import CpuCompiler
from pyframe.core.op import REGISTRY, Op

EAGER_KERNEL_MIN_FLOPS = 1 << 20  # FLOPs from which an op that is computed alone is worth a routine
LOADING = 1 << 27  # FLOPs that NumPy computes in a page while the routines are loaded


@functools.cache
def compiler() -> CpuCompiler | None:
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


@functools.cache
def can_record() -> bool:
    """Whether what the CPU records can be compiled, and PYFRAME_EAGER=1 does not ask for each op to
    be computed when it is called."""
    if os.environ.get("PYFRAME_EAGER", "") == "1" or os.environ.get("PYFRAME_CPU", "") == "numpy":
        return False
    if sys.platform == "emscripten":
        return compiler() is not None
    return importlib.util.find_spec("llvmlite") is not None


@functools.cache
def advise() -> None:
    """Say once what would make the CPU's work faster, where it can be had."""
    text = adapter()
    if text.endswith("compiles kernels"):
        advice = text.rpartition("; ")[2]
        warnings.warn(f"NumPy does the CPU's work: {advice}, about twice as fast", stacklevel=2)


def adapter() -> str:
    """What computes on the CPU, for people: also how to have it compile, where it could."""
    if made := compiler():
        return made.adapter
    from pyframe.codegen.numpy.threads import cores
    from pyframe.core.extras import install

    text = f"NumPy {np.__version__} on {cores()}"
    if os.environ.get("PYFRAME_CPU", "") == "numpy":
        return f"{text}, as PYFRAME_CPU says"
    if sys.platform == "emscripten" or importlib.util.find_spec("llvmlite"):
        return text
    return f"{text}; {install('jit')} compiles kernels"


def accelerate() -> None:
    """Let ops that a page computes one by one use the routines of its compiler, where they are
    worth it: from when NumPy has done as much as loading them takes."""
    for op in REGISTRY.values():
        if op.routine is not None and op.flops is not None and len(op.inputs) == 2:
            op.numpy = accelerated(op, op.numpy)  # type: ignore[arg-type]


def accelerated(op: Op, slow: Callable[..., Any]) -> Callable[..., Any]:
    """The NumPy function of an op of two inputs, or its routine for work that is worth it."""

    def run(a: np.ndarray, b: np.ndarray, *attrs: Any) -> Any:
        # All pairs of elements would be too little
        if 2 * a.size * b.size < EAGER_KERNEL_MIN_FLOPS:
            return slow(a, b, *attrs)
        shape, dtype = op.infer(a, b, *attrs)  # type: ignore[misc]
        work = op.flops((a.shape, b.shape), shape)  # type: ignore[misc]
        if work >= EAGER_KERNEL_MIN_FLOPS:
            _done[0] += work
            out = np.empty(shape, dtype)
            if _done[0] >= LOADING and _routine(op, (a, b), attrs, out):
                return out
        return slow(a, b, *attrs)

    return run


_done = [0]  # FLOPs so far


def _routine(op: Op, inputs: tuple[Any, Any], attrs: tuple[Any, ...], out: np.ndarray) -> bool:
    """Whether the page's compiler has computed it."""
    made: Any = compiler()
    try:
        return made is not None and made.compute(op, inputs, attrs, out)
    except Exception:  # a trap: NumPy has an error to raise
        return False
