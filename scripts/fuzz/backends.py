"""Where programs run."""

from __future__ import annotations

import functools
import io
import math
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyframe as pf
from pyframe.codegen.numpy import plan, sized
from pyframe.codegen.wgsl import printer
from pyframe.core import dispatch, trace
from pyframe.graph import fuse, schedule
from pyframe.nn.functional import recurrent
from pyframe.ops.reduce import reductions
from pyframe.runtime import cpu, host

from .program import Outcome, Program, outcome

ROOT = Path(__file__).resolve().parents[2]


# What a model can't say: it has no gradients, and its inputs no layouts
UNSAID = re.compile(r"backward\(|opt\.|retain_grad|register_hook|is_contiguous")


class Backend(NamedTuple):
    """A device, what compiles for it, and how a step is called."""

    name: str
    device: str
    generator: Callable[[], Any] = lambda: None
    wrap: Callable[[Any], Any] = pf.compile
    others: tuple[tuple[str, str], ...] = ()  # dtypes that are others there
    records: bool = False  # whether the CPU records all that is not compiled, and compiles it
    exports: bool = False
    plain: bool = False  # whether it is called once, without gradients
    values: bool = True  # whether results have values, beside shapes and dtypes

    def run(self, program: Program) -> Outcome:
        """What the program gives."""
        if self.name.startswith("page"):
            return _page().run(program, self.device)
        if self.exports:
            return _exports().run(program)
        with compiling(self.generator), recording(program if self.records else None):
            return outcome(pf, program, self.device, self.wrap)

    def suited(self, program: Program) -> Program:
        """The program with dtypes that the device has."""
        for old, new in self.others:
            args = (replace(a, dtype=new if a.dtype == old else a.dtype) for a in program.args)
            body = (line.replace(f"T.{old}", f"T.{new}") for line in program.body)
            program = replace(program, args=tuple(args), body=tuple(body))
        if self.plain:
            body = (line for line in program.body if not UNSAID.search(line))
            program = replace(program, mode="none", calls=1, body=tuple(body))
        if self.wrap is Traced and program.mode != "none":  # a graph takes no gradients itself
            program = replace(program, mode="outside")
        return _exports().suited(program) if self.exports else program


@contextmanager
def compiling(generator: Callable[[], Any]) -> Iterator[None]:
    """Let a compiler make the CPU's kernels meanwhile."""
    made = generator()
    before = cpu.compiler, plan.address
    cpu.compiler = lambda: made  # type: ignore[assignment]
    if made is not None and made.name == "wasm":
        plan.address = sized.address = made.address  # type: ignore[attr-defined]
    try:
        yield
    finally:
        cpu.compiler, plan.address = before  # type: ignore[attr-defined]
        sized.address = plan.address  # type: ignore[attr-defined]
        with suppress(pf.DeviceLostError):
            pf.flush()
        pf.device("cpu").executor._kept.clear()  # another compiler's plans lie in other memory
        while _after:
            _after.pop()()


@contextmanager
def recording(program: Program | None) -> Iterator[None]:
    """Let the CPU record all that a program does, or nothing. When that is computed,
    and whether by NumPy first, the text of the program decides."""
    limit = trace.lazy_policy
    before = limit.least, host.COMPILE_AFTER, dispatch.MAX_NODES
    limit.least = math.inf if program is None else 0
    if program is not None:
        n = zlib.crc32(repr(program).encode())
        host.COMPILE_AFTER, dispatch.MAX_NODES = n % 2, (1, 2, 3, 5, 8, 13, 5000)[n // 2 % 7]  # type: ignore[misc]
    try:
        yield
    finally:
        trace.flush_cpu()
        limit.least, host.COMPILE_AFTER, dispatch.MAX_NODES = before  # type: ignore[misc]


def _llvm() -> Any:
    from pyframe.backend.cpu import compiler

    return compiler()


def _wasm() -> Any:
    """A new one each time: it keeps a copy of every array that it has met."""
    sys.path.insert(0, str(ROOT / "tests"))
    try:
        from natively import Natively
    finally:
        sys.path.remove(str(ROOT / "tests"))
    return Natively(relaxed=True)


# What is done to large values alone on a GPU: (where, what, from how many elements on to try it)
LARGE: tuple[tuple[Any, str, int], ...] = (
    (printer, "VEC4_MIN_ELEMENTS", 4), (fuse, "RECOMPUTE_MIN_ELEMENTS", 4),
    (schedule, "TALL_COLUMN_ROWS", 8), (reductions, "LONG_SCAN", 8),
    (recurrent, "FEW_MULTIPLICATIONS", 0),
)  # fmt: skip
_after: list[Callable[[], None]] = []  # what makes a GPU as it was


def _forms(alone: bool) -> None:
    """Let a software adapter run kernels as they are there, or as real GPUs have them, where small
    values are taken for large ones: what programs draw is small."""
    executor = pf.device("gpu").executor
    backend = executor.backend

    def put(limits: Any, leasts: list[int]) -> None:
        backend.limits = limits
        for (module, name, _), least in zip(LARGE, leasts, strict=True):
            setattr(module, name, least)
        executor.forget_programs()
        printer.generate.cache_clear()

    usual = [getattr(module, name) for module, name, _ in LARGE]
    _after.append(functools.partial(put, backend.limits, usual))
    kind = "software" if alone and backend.software else ""
    put(replace(backend.limits, kind=kind), usual if alone else [least for *_, least in LARGE])


class Traced:
    """In the place of a compiled function: its first call traces it; the graph is written down,
    read again, and run. PyTorch's traces are of the same shapes and kinds of arguments, too."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.graph = function, None

    def __call__(self, *args: Any) -> Any:
        if self.graph is None:
            made = pf.jit.trace(self.function, args, check_trace=False)
            file = io.BytesIO()
            pf.jit.save(made, file)
            file.seek(0)
            self.graph = pf.jit.load(file)
        return self.graph(*args)


def _onnx(reads: bool = False, sizes: bool = False) -> Any:
    from .onnx_models import Exported

    return functools.partial(Exported, reads=reads, sizes=sizes)


@functools.cache
def _page() -> Any:
    from .page import Page

    return Page()


def _exports() -> Any:
    from . import exports

    return exports


WIDE = (("float64", "float32"),)  # a GPU has none, which it says
# NumPy has no bfloat16, and attributes of ONNX are no doubles
ONNX = (("bfloat16", "float32"), ("float64", "float32"))
BACKENDS = {
    b.name: b
    for b in (
        Backend("llvm", "cpu", _llvm),
        Backend("numpy", "cpu"),
        Backend("wasm", "cpu", _wasm),
        Backend("wgsl", "gpu", lambda: _forms(False), others=WIDE),
        Backend("eager", "cpu", wrap=lambda f: f),
        Backend("meta", "meta", wrap=lambda f: f, values=False),
        Backend("recorded", "cpu", _llvm, wrap=lambda f: f, records=True),
        Backend("lazy", "gpu", lambda: _forms(True), wrap=lambda f: f, others=WIDE),
        Backend("traced", "cpu", wrap=Traced),
        Backend("onnx", "cpu", wrap=lambda f: _onnx()(f), others=ONNX, plain=True),
        Backend("onnx-read", "cpu", wrap=lambda f: _onnx(reads=True)(f), others=ONNX, plain=True),
        Backend("onnx-sizes", "cpu", wrap=lambda f: _onnx(sizes=True)(f), others=ONNX, plain=True),
        Backend("page", "cpu"),
        Backend("page-gpu", "gpu", others=WIDE),
        Backend("export", "cpu", wrap=lambda f: _exports().Exported(f), others=WIDE, exports=True),
    )
}
