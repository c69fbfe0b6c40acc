"""pf.autotune: which variants of products, attention and convolutions are the fastest on a GPU."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pyframe.backend.base import ProgramCode, RefusedError
from pyframe.capture import compile as compiling
from pyframe.codegen.wgsl.printer import Shader, generate, key, label, variants
from pyframe.core.dtypes import storage_dtype
from pyframe.core.modes import mode
from pyframe.core.words import columns
from pyframe.graph.program import Dispatch, Kernel, Load, Program
from pyframe.runtime import tuned
from pyframe.runtime.tuned import Times
from pyframe.tools.draw_graph import programs

MAX_VARIANTS = 6  # variants of a kernel that are timed
TURN = 5e6  # nanoseconds that the fastest variant runs in a turn, about
TURNS = 3
REPEATS = 32  # of a kernel in a turn, at most
HOPELESS = 4  # times as slow as the fastest: not timed again


class Tuning(list[Times]):
    """What `autotune` found, one a kernel: its `kernel` (a name), its `times` (milliseconds by
    variant, None of what the driver refuses) and its `winner`. str() is the table. `kept_in` is
    where it is kept, "" where it can't be."""

    def __init__(self, adapter: str, kept_in: str, rows: list[Times]) -> None:
        super().__init__(rows)
        self.adapter, self.kept_in = adapter, kept_in

    def __repr__(self) -> str:
        head = f"{self.adapter}, kept in {self.kept_in or 'this process alone'}"
        if not self:
            return f"{head}\nnothing to tune: no product, attention or convolution runs there"
        lines = [("kernel", "variant", "ms", "")]
        for row in self:
            for i, (name, ms) in enumerate(row.times.items()):
                shown = "refused" if ms is None else f"{ms:.4g}"
                first = "" if i else row.kernel
                lines.append((first, name, shown, "taken" if name == row.winner else ""))
        return f"{head}\n{columns(lines, rules=(1,), left=2)}"

    __str__ = __repr__


def autotune(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Tuning:
    """Time variants of each distinct product, attention and convolution that `step(*args,
    **kwargs)` runs on a GPU, six at most, and take the fastest ones from now on. The step is
    recorded and not computed: nothing changes but the speed.

    The winners are kept by adapter and driver in pyframe's cache folder (PYFRAME_CACHE), in a page
    in its IndexedDB, where other processes find them, and so does the next call, which times only
    what is new. They come before the tables of vendors, and these before the cost model. All
    compiled functions are captured again on that GPU; recorded work is planned again. Kernels for
    sizes that change are not tuned. RuntimeError if the step computes nothing on a GPU, reads a
    value, or is called in a compiled function; TypeError for what can't be called.

    Args:
        step: The function.
        *args, **kwargs: What it is called with.

    >>> x = pf.zeros(64, 64, device="auto")
    >>> tuned = pf.autotune(pf.mm, x, x) if x.is_cuda else None
    """
    if not callable(step):
        raise TypeError(f"autotune: expected a function, got {type(step).__name__}")
    if mode.capture is not None:
        raise RuntimeError("autotune: a compiled function can't call it; call it before that one")
    planned = programs("autotune", step, args, kwargs)
    gpus = list(dict.fromkeys(d for d, _ in planned if d.kind == "gpu"))
    if len(gpus) != 1:
        where = ", ".join(sorted({str(d) for d, _ in planned})) or "no device"
        raise RuntimeError(
            f"autotune: the step computes on {where}, and kernels of one GPU have variants to "
            "choose from; move the network and the arguments to device='gpu'"
        )
    device = gpus[0]
    executor, backend = device.executor, device.backend
    rows: dict[str, Times] = {}
    with compiling._CAPTURING, executor.lock:
        found = tuned.kept(backend)
        for k, program, s in _tunable(planned, backend.limits):
            if k not in found:
                found[k] = _timed(executor, program, s, k)
            rows[k] = found[k]
        kept_in = tuned.keep(backend, found)
        tuned.apply_tuning(backend, found)
        executor.forget_programs()
        compiling._forget(device)
    return Tuning(backend.adapter, kept_in, list(rows.values()))


def _tunable(planned: Any, limits: Any) -> Iterator[tuple[str, Program, Dispatch]]:
    """The steps whose kernels have variants, by their keys; of equal kernels the first one."""
    met = set()
    for d, program in planned:
        for s in program.steps:
            kernel = program.kernels[s.kernel]
            if d.kind == "cpu" or not math.prod(kernel.space) or not variants(kernel, limits):
                continue
            if (k := key(kernel)) not in met:
                met.add(k)
                yield k, program, s


def _timed(executor: Any, program: Program, s: Dispatch, k: str) -> Times:
    """Time the variants of the kernel of a step, on buffers as large as its own."""
    kernel, limits = program.kernels[s.kernel], executor.backend.limits
    made: dict[str, Shader] = {}
    for name in variants(kernel, limits):
        shader = generate(kernel, replace(limits, tuned=frozenset({(k, name)})))
        if shader not in made.values():
            made[name] = shader
    bench = _Bench(executor, kernel, [program.slots[i].nbytes for i in s.slots])
    times: dict[str, float | None] = {}
    for name in [*made][:MAX_VARIANTS]:
        try:
            bench.run(made[name], 1)  # the first run is slower than others
            times[name] = bench.run(made[name], 1)
        except RefusedError:
            times[name] = None
    best = min([ns for ns in times.values() if ns is not None], default=0.0)
    again = [name for name, ns in times.items() if ns is not None and ns <= HOPELESS * best]
    repeats = max(1, min(REPEATS, int(TURN / max(best, 1.0))))
    turns = [[bench.run(made[name], repeats) for name in again] for _ in range(TURNS)]
    times.update(zip(again, map(min, zip(*turns, strict=True)), strict=True))
    shown = {name: None if ns is None else round(ns / 1e6, 6) for name, ns in times.items()}
    sizes = " with ".join("x".join(map(str, e.shape)) for e in _routine(kernel).operands[:2])
    return Times(f"{label(kernel)} of {sizes}", shown)


def _routine(kernel: Kernel) -> Any:
    return kernel.routine


class _Bench:
    """Runs a kernel on buffers of its own, which hold ordinary numbers."""

    def __init__(self, executor: Any, kernel: Kernel, sizes: list[int]) -> None:
        self.backend = executor.backend
        self.buffers = [executor.alloc(n) for n in sizes]
        self.handles = [b.handle for b in self.buffers]
        self.words = -(-kernel.params // 4) * 4
        codes = [kernel.code, *[e.code for e in _routine(kernel).operands]]
        kinds = {i.binding: i.dtype for code in codes for i in code if isinstance(i, Load)}
        rng = np.random.default_rng(0)
        for binding, d in kinds.items():
            kind = storage_dtype(d)
            some = (
                rng.standard_normal(1 << 12) if kind.kind in "fc" else rng.integers(0, 2, 1 << 12)
            )
            data = np.resize(some.astype(kind), -(-sizes[binding] // kind.itemsize))
            whole = data.view(np.uint8)[: sizes[binding] // 4 * 4]
            self.backend.write(self.handles[binding], memoryview(whole))

    def run(self, shader: Shader, n: int) -> float:
        """Run it n times: the nanoseconds of each."""
        handles, params = self.handles, bytes(4 * self.words)
        numbers = [0, *shader.grid, 0 if params else -1, len(params), len(handles)]
        steps = array("i", [*numbers, *range(len(handles))] * n)
        code = ProgramCode([shader.code], [shader.label], steps, len(handles), len(params))
        loaded = self.backend.load(code)
        try:
            times = self.backend.profile(loaded, handles, params)
            if times is not None:
                return sum(times) / n
            self.backend.read([(handles[0], 4)])  # what came before ends first
            start = time.perf_counter_ns()
            self.backend.run(loaded, handles, params)
            self.backend.read([(handles[0], 4)])
            return (time.perf_counter_ns() - start) / n
        finally:
            self.backend.unload(loaded)
