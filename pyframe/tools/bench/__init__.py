"""What the hardware behind a device can do at most: the scale for every other measurement."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from pyframe.backend.base import ProgramCode
from pyframe.codegen.numpy.threads import default_threads
from pyframe.core.devices import device as Device, in_browser
from pyframe.runtime.executor import Executor

REPEATS = 5  # the best of these is taken
MIN_SECONDS = 0.02  # seconds that a timed piece of work lasts at least
THREADS, LOOPS, CHAINS = 256, 256, 8  # of the FMA kernel

_EMPTY = "@compute @workgroup_size(1) fn main() {}"

_COPY = """
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) { y[id.x] = x[id.x]; }
"""

_FMA = f"""
@group(0) @binding(0) var<storage, read_write> y: array<vec4<f32>>;
@compute @workgroup_size({THREADS})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let a = y[id.x];
  let b = a + 1;
  {"".join(f"var v{k} = b * {k + 1}; " for k in range(CHAINS))}
  for (var i = 0; i < {LOOPS}; i++) {{
    {"".join(f"v{k} = v{k} * a + b; " for k in range(CHAINS))}
  }}
  y[id.x] = {" + ".join(f"v{k}" for k in range(CHAINS))};
}}
"""


class Roofline(NamedTuple):
    """The limits of a device, as measured."""

    adapter: str
    copy_bandwidth: float  # bytes/s, read and written ones together
    fma_rate: float  # float32 operations/s; a multiplication with its addition is two
    dispatch_latency: float  # seconds for one more empty kernel (CPU: for one NumPy call)
    read_latency: float  # seconds until a tiny result is on the host

    def best(self, other: Roofline) -> Roofline:
        """The better figure of two measurements each."""
        rates = map(max, self[1:3], other[1:3])
        return Roofline(self.adapter, *rates, *map(min, self[3:], other[3:]))

    def __repr__(self) -> str:
        return (
            f"Roofline({self.adapter}: copy {self.copy_bandwidth / 1e9:.1f} GB/s, "
            f"FMA {self.fma_rate / 1e9:.1f} GFLOP/s, "
            f"dispatch {self.dispatch_latency * 1e6:.2f} µs, "
            f"read-back {self.read_latency * 1e6:.0f} µs)"
        )


def roofline(device: str | Device = "gpu") -> Roofline:
    """Measure a device: some seconds. In a page it needs a browser where Python can wait (JSPI)."""
    d = Device(device)
    return _cpu(d.backend.adapter) if d.kind == "cpu" else _gpu(d.executor)


def _best(run: Callable[[], Any]) -> float:
    """Seconds of the fastest try, after one that is not counted."""
    times = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return max(min(times[1:]), 1e-9)  # a page's clock may not tick in between


def _cpu(adapter: str) -> Roofline:
    x = np.ones(1 << 24, np.float32)
    y = np.empty_like(x)
    n = 256 if in_browser() else 1024  # a page's NumPy has no BLAS
    a = np.ones((n, n), np.float32)
    c, little = np.empty_like(a), np.zeros(1, np.float32)

    threads = default_threads()
    parts = list(zip(np.array_split(y, threads), np.array_split(x, threads), strict=True))

    def copy() -> float:
        if threads == 1:  # a page has no others
            return _best(lambda: np.copyto(y, x))
        with ThreadPoolExecutor(threads) as pool:
            return _best(lambda: list(pool.map(lambda part: np.copyto(*part), parts)))

    def many() -> None:
        for _ in range(1000):
            np.add(little, little, out=little)

    return Roofline(
        adapter,
        2 * x.nbytes / copy(),
        2 * n**3 / _best(lambda: np.matmul(a, a, out=c)),
        _best(many) / 1000,
        0.0,
    )


def _gpu(executor: Executor) -> Roofline:
    backend = executor.backend
    size = min(16 << 20 if backend.software else 64 << 20, backend.limits.binding_bytes)
    groups = min(size // (16 * THREADS), 512 if backend.software else 16384)
    source, target, small = executor.alloc(size), executor.alloc(size), executor.alloc(16)
    for buffer in (source, target, small):  # no denormal numbers, which CPUs compute slowly
        executor.write(buffer, bytes(buffer.nbytes))

    def seconds(code: str, grid: int, buffers: list[Any], count: int) -> float:
        """From giving out `count` dispatches to the end of a read that waits for them."""
        slots = range(len(buffers))
        steps = array("i", (0, grid, 1, 1, -1, 0, len(slots), *slots) * count)
        program = backend.load(ProgramCode([code], ["roofline"], steps, len(slots), 0))
        handles = [b.handle for b in buffers]

        def run() -> None:
            backend.run(program, handles, b"")
            executor.read([(buffers[-1] if buffers else small, 4)])

        try:
            return _best(run)
        finally:
            backend.unload(program)

    read = _best(lambda: executor.read([(small, 4)]))
    one = seconds(_EMPTY, 1, [], 1)

    def each(code: str, grid: int, buffers: list[Any], count: int = 1) -> float:
        """Seconds of one dispatch: of enough of them that what surrounds them hardly counts."""
        while True:
            took = seconds(code, grid, buffers, count) - one
            if took > max(MIN_SECONDS, 5 * one) or count >= 4096:
                return max(took, 1e-9) / count
            count *= 4

    flops = 2 * 4 * CHAINS * LOOPS * THREADS * groups
    return Roofline(
        backend.adapter,
        2 * size / each(_COPY, size // (16 * THREADS), [source, target]),
        flops / each(_FMA, groups, [target]),
        max(seconds(_EMPTY, 1, [], 1001) - one, 1e-9) / 1000,
        read,
    )
