"""Where the time goes: kernels on the GPU and ops on the CPU, timed. Names as torch.profiler's.

`with pf.profiler.profile() as prof: …`, then `print(prof)`.
"""

from __future__ import annotations

import contextlib
import enum
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from pyframe.core import dispatch as _dispatch, op as _op
from pyframe.core.devices import device as Device, flush, opened_gpus
from pyframe.core.op import MOVEMENT, REGISTRY
from pyframe.core.trace import lazy_policy
from pyframe.core.words import columns
from pyframe.graph.program import Program
from pyframe.io.files import replacing
from pyframe.runtime.opening import gpu_backend
from pyframe.tools.cost import KernelCost, op_flops, si, table

__all__ = ["Average", "Averages", "Event", "ProfilerActivity", "profile", "record_function"]


class ProfilerActivity(enum.Enum):
    """What PyTorch's programs ask to be timed; here all that runs is."""

    CPU, XPU, MTIA, CUDA, HPU, PrivateUse1 = range(6)


class Event(NamedTuple):
    """Something that ran, or a range named by `record_function`; times are in nanoseconds.

    Args:
        name: The kernel's, the op's or the range's.
        kind: 'kernel', 'op', 'program' (where the device has no clock) or 'user_annotation'.
        device: Where it ran.
        start, duration: On the clock of time.perf_counter_ns.
        bytes, flops: What it read and wrote, and computed; 0 where that is not known.
        thread: That of the host.
    """

    name: str
    kind: str
    device: str
    start: int
    duration: int
    bytes: int = 0
    flops: int = 0
    thread: int = 0


class Average(NamedTuple):
    """All calls of one name on one device; times are in microseconds.

    Args:
        key, device: The name, and where the calls ran.
        count, time_total: How many, and how long they took together.
        bytes, flops: What they read and wrote, and computed, together.
    """

    key: str
    device: str
    count: int  # type: ignore[assignment]  # hides tuple.count, unused here
    time_total: float
    bytes: int
    flops: int

    @property
    def time(self) -> float:
        """The mean of a call."""
        return self.time_total / self.count

    @property
    def cpu_time_total(self) -> float:
        return self.time_total if self.device == "cpu" else 0.0

    @property
    def device_time_total(self) -> float:
        return 0.0 if self.device == "cpu" else self.time_total


_SORTS: dict[str, Callable[[Average], Any]] = {
    "time": lambda a: -a.time_total,
    "mean": lambda a: -a.time,
    "count": lambda a: -a.count,
    "bytes": lambda a: -a.bytes,
    "flops": lambda a: -a.flops,
    "name": lambda a: a.key,
    "cpu_time_total": lambda a: -a.cpu_time_total,
    "device_time_total": lambda a: -a.device_time_total,
    "cuda_time_total": lambda a: -a.device_time_total,
}


class Averages(list[Average]):
    """What `key_averages` gives; str() is the table.

    Args:
        iterable: The Averages.
    """

    def table(self, sort_by: str = "time", row_limit: int = 20) -> str:
        """Text with the `row_limit` first rows (-1: all). ValueError for an unknown order.

        Args:
            sort_by: "time" (together), "mean", "count", "bytes", "flops", "name",
                "cpu_time_total" or "device_time_total".
        """
        if sort_by not in _SORTS:
            raise ValueError(f"sort_by: unknown {sort_by!r}; expected one of {', '.join(_SORTS)}")
        total = sum(a.time_total for a in self)
        rows = sorted(self, key=_SORTS[sort_by])
        shown = rows if row_limit < 0 else rows[:row_limit]
        lines = [("name", "device", "calls", "total", "mean", "share", "bytes/s", "FLOP/s")]
        for a in shown:
            seconds = a.time_total * 1e-6
            lines.append((
                a.key, a.device, str(a.count), _time(a.time_total), _time(a.time),
                f"{100 * a.time_total / total:.1f} %" if total else "-",
                si(a.bytes / seconds, "B/s") if seconds and a.bytes else "-",
                si(a.flops / seconds) if seconds and a.flops else "-",
            ))  # fmt: skip
        left = f"{len(rows)} names" if len(shown) == len(rows) else f"{len(shown)} of {len(rows)}"
        lines.append((left, "", str(sum(a.count for a in self)), _time(total), "", "", "", ""))
        return columns(lines, rules=(1, len(lines) - 1))

    def __str__(self) -> str:
        return self.table()


def _time(us: float) -> str:
    if us < 1000:
        return f"{us:.2f} µs" if us < 100 else f"{us:.0f} µs"
    return f"{us / 1e3:.2f} ms" if us < 1e6 else f"{us / 1e6:.2f} s"


class profile:  # noqa: N801  (PyTorch's name)
    """Times what runs within it: on the GPU every kernel by the device's clock (a whole Program by
    the host's where the device has none), on the CPU every op, and every kernel of pf.compile.

    Runs then wait for their end, so the program takes longer; its results are the same. In a trace
    the kernels of a Program follow each other from where the host began to run it.
    RuntimeError if another one is active.

    Args:
        on_trace_ready: a function that is called with this object at the end.
        activities, record_shapes, profile_memory, with_stack, with_flops, with_modules: PyTorch's;
            they change nothing.
    """

    _active: profile | None = None

    def __init__(
        self, *, activities: Iterable[ProfilerActivity] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None, record_shapes: bool = False,
        profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
        with_modules: bool = False,
    ) -> None:  # fmt: skip
        self._at_end = on_trace_ready
        self.events: list[Event] = []
        self.began = 0
        self._patched = contextlib.ExitStack()
        self._rows: dict[int, tuple[Program, list[KernelCost]]] = {}
        self._names: dict[Any, _op.Op] = {}

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin, as the context does."""
        if profile._active is not None:
            raise RuntimeError("profiler: another profile is active; stop it first")
        flush()
        profile._active = self
        self.began = time.perf_counter_ns()
        self._patch(lazy_policy, "least", math.inf)  # each op of the CPU by itself
        self._patch(_dispatch, "_quiet", _Timed(self, _dispatch._quiet))
        from pyframe.codegen.numpy.plan import CpuPlan

        run = CpuPlan.run
        self._patch(CpuPlan, "run", lambda plan, values=(): self._plan(run, plan, values))
        gpu = gpu_backend()
        replay = gpu.run
        self._patch(gpu, "run", lambda backend, *args: self._gpu(replay, backend, *args))

    def stop(self) -> None:
        """End: what was recorded within it runs first."""
        if profile._active is self:
            try:
                flush()
            finally:
                self._patched.close()
                profile._active = None
                self._rows = {}
            if self._at_end is not None:
                self._at_end(self)

    def _patch(self, of: Any, name: str, new: Any) -> None:
        self._patched.callback(setattr, of, name, getattr(of, name))
        setattr(of, name, new)

    # --- what runs

    def _gpu(
        self, run: Any, backend: Any, loaded: Any, handles: Any, params: Any, grids: Any = ()
    ) -> None:
        d = next((d for d in opened_gpus() if d.backend is backend), None)
        program = None if d is None else d.executor.programs.get(id(loaded))
        if program is None or program.loaded.get(backend.name) is not loaded:
            return run(backend, loaded, handles, params, grids)  # not a Program's
        where = str(d)
        rows = [r for r in self._table(program) if r.grid and 0 not in r.grid]
        if not rows:
            return run(backend, loaded, handles, params, grids)
        start = time.perf_counter_ns()
        times = backend.profile(loaded, handles, params, grids)
        if times is not None:
            for row, took in zip(rows, times, strict=True):
                self.events.append(
                    Event(row.kernel, "kernel", where, start, took, row.bytes, row.flops)
                )
                start += took
            return None
        backend.read([(handles[0], 4)])  # what came before ends first
        start = time.perf_counter_ns()
        run(backend, loaded, handles, params, grids)
        backend.read([(handles[0], 4)])
        took = time.perf_counter_ns() - start
        name = f"{rows[0].kernel}, …: {len(rows)} kernels" if len(rows) > 1 else rows[0].kernel
        moved, flops = sum(r.bytes for r in rows), sum(r.flops for r in rows)
        self.events.append(Event(name, "program", where, start, took, moved, flops))
        return None

    def _plan(self, run: Any, plan: Any, values: Any) -> None:
        """A plan of pf.compile on the CPU, step by step."""
        if not plan.arrays:
            run(plan, values)
            return
        whole = plan.calls
        try:
            for row, calls in zip(self._table(plan.program), plan.steps, strict=True):
                plan.calls = calls
                start = time.perf_counter_ns()
                run(plan, values)
                took = time.perf_counter_ns() - start
                self.events.append(
                    Event(row.kernel, "kernel", "cpu", start, took, row.bytes, row.flops, _thread())
                )
        finally:
            plan.calls = whole

    def _table(self, program: Program) -> list[KernelCost]:
        found = self._rows.get(id(program))
        if found is None:
            found = self._rows[id(program)] = program, table(program)
        return found[1]

    def _op(self, fn: Any, args: tuple[Any, ...], out: Any, start: int, end: int) -> None:
        """An op that ran on the CPU as NumPy's `fn`."""
        if fn not in self._names:
            self._names = {op.numpy: op for op in REGISTRY.values() if op.numpy is not None}
        op = self._names.get(fn)
        if op is None:
            return
        moved = flops = 0
        if op.kind != MOVEMENT:
            operands = args[: len(op.inputs)]
            moved = sum(np.asarray(a).nbytes for a in operands) + np.asarray(out).nbytes
            flops = op_flops(op, [np.shape(a) for a in operands], np.shape(out))
        self.events.append(Event(op.name, "op", "cpu", start, end - start, moved, flops, _thread()))

    # --- what was found

    def key_averages(self) -> Averages:
        """The events gathered by name and device, the longest first."""
        found: dict[tuple[str, str], list[Event]] = {}
        for e in self.events:
            if e.kind != "user_annotation":
                found.setdefault((e.name, e.device), []).append(e)
        rows = [
            Average(
                *key, len(some), sum(e.duration for e in some) / 1e3,
                sum(e.bytes for e in some), sum(e.flops for e in some),
            )
            for key, some in found.items()
        ]  # fmt: skip
        return Averages(sorted(rows, key=_SORTS["time"]))

    def table(self, sort_by: str = "time", row_limit: int = 20) -> str:
        """See Averages.table.

        Args:
            sort_by, row_limit: As there.
        """
        return self.key_averages().table(sort_by, row_limit)

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: Any) -> None:
        """Write the events as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing.

        Args:
            path: The file, of JSON.
        """
        with replacing(path) as file:
            file.write(json.dumps({"traceEvents": list(self._trace())}).encode())

    def _trace(self) -> Iterator[dict[str, Any]]:
        devices = list(dict.fromkeys(["cpu", *[e.device for e in self.events]]))
        for pid, d in enumerate(devices):
            name = str(Device(d).backend.adapter)
            yield _meta("process_name", pid, 0, f"{d}: {name}")
        threads: dict[tuple[str, int], int] = {}
        for e in self.events:
            pid, key = devices.index(e.device), (e.device, e.thread)
            if key not in threads:
                threads[key] = len(threads)
                name = "queue" if e.device != "cpu" else f"thread {e.thread}"
                yield _meta("thread_name", pid, threads[key], name)
            cost = {"bytes": e.bytes, "flops": e.flops} if e.kind != "user_annotation" else {}
            yield {
                "ph": "X", "name": e.name, "cat": e.kind, "ts": (e.start - self.began) / 1e3,
                "dur": e.duration / 1e3, "pid": pid, "tid": threads[key], "args": cost,
            }  # fmt: skip


class record_function(contextlib.ContextDecorator):  # noqa: N801  (PyTorch's name)
    """Names a range of host time in the trace; costs next to nothing where no profile is active.

    Args:
        name: What the trace calls it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.starts: list[int] = []

    def __enter__(self) -> record_function:
        self.starts.append(time.perf_counter_ns())
        return self

    def __exit__(self, *error: object) -> None:
        start, active = self.starts.pop(), profile._active
        if active is not None:
            took = time.perf_counter_ns() - start
            active.events.append(
                Event(self.name, "user_annotation", "cpu", start, took, thread=_thread())
            )


class _Timed:
    """Stands where `core/dispatch.py` calls NumPy."""

    def __init__(self, prof: profile, inner: Any) -> None:
        self.prof, self.inner = prof, inner
        self.entered = inner.entered

    def run(self, fn: Any, *args: Any) -> Any:
        start = time.perf_counter_ns()
        out = self.inner.run(fn, *args)
        self.prof._op(fn, args, out, start, time.perf_counter_ns())
        return out


def _thread() -> int:
    return threading.get_native_id()  # which a page has not, and does not ask for


def _meta(name: str, pid: int, tid: int, value: str) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": {"name": value}}
