"""Compiled work on the native CPU: launches of LLVM's functions and of BLAS's products, shared out
over threads that wait by spinning for as long as a step lasts."""

from __future__ import annotations

import atexit
import copy
import ctypes
import functools
import itertools
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pyframe.backend import llvm
from pyframe.codegen.lanes.compiler import Launch
from pyframe.codegen.lanes.identity import identity_of, sources
from pyframe.codegen.lanes.lower import lower
from pyframe.codegen.llvm import after, driver, printer, routines
from pyframe.codegen.llvm.routines import BlasSymbol
from pyframe.codegen.numpy.memory import address
from pyframe.codegen.numpy.threads import blas, cores, default_threads
from pyframe.core.host_memory import aligned
from pyframe.core.sizes import current_shape_guards
from pyframe.graph.program import Kernel

# Seconds that a thread looks for units before it sleeps: a loop's steps are closer
SPIN_SECONDS = 4e-3


class KernelSource(NamedTuple):
    """A function: the key of its text, what a launch of a kernel needs, what gives the text."""

    key: str
    units: int
    bindings: int
    text: Callable[[], str]
    sizes: tuple[Any, ...] = ()  # of a kernel whose sizes change: what its last binding holds


class LlvmCompiler:
    """The compiler of lane programs for this machine."""

    name = "llvm"
    alone = False

    def __init__(self, jit: llvm.JIT, threads: int | None = None) -> None:
        self.jit = jit
        self.threads = threads or default_threads()
        version = jit.llvm.llvm_version_info[0]
        self.adapter = f"LLVM {version} on {cores(self.threads)}, {jit.bits}-bit vectors"
        self.machine = routines.machine(jit.bits, self.threads, _products(), jit.dots)
        self.known: dict[str, bytes] = {}  # what was printed, by the keys of identities
        self.afters: dict[Any, llvm.MachineCode] = {}  # of epilogues, by their code
        self.new: dict[str, bytes] = {}  # the part that the cache does not have yet

    def printed(self, kernel: Kernel) -> KernelSource:
        """What `load` takes of a kernel."""

        def make() -> tuple[str, int, int]:
            function = lower(kernel, self.jit.lanes)
            text = printer.generate(function, self.jit.bits)
            return text, function.units, function.bindings

        if current_shape_guards() is not None:
            function = lower(kernel, self.jit.lanes)
            text = printer.generate(function, self.jit.bits)
            key, given = self.jit.key(text), functools.partial(str, text)
            return KernelSource(key, function.units, function.bindings, given, function.sizes)
        return self.kept(identity_of(kernel), make)

    def library(self, name: str) -> KernelSource:
        """The same of a routine."""
        m, known = self.machine, sources()
        products = [(dtype, blas.real, blas.int_bits) for dtype, blas in m.blas.items()]
        identity = known and f"{known} {name} {m.threads} {m.tiles} {products}"
        return self.kept(identity, lambda: (routines.text(m, name), 0, 0))

    def kept(self, identity: str | None, make: Callable[[], tuple[str, int, int]]) -> KernelSource:
        """What `make` gives, a text and two numbers. What was made for this identity before, by
        any process, is not made again: its text's key and the numbers stand in the cache."""
        key = "" if identity is None else self.jit.key(identity)
        known = key and (self.known.get(key) or self.jit.cache.read([key]).get(key))
        if known:
            self.known[key] = known
            name, units, bindings = known.decode().split()
            return KernelSource(name, int(units), int(bindings), lambda: make()[0])
        text, units_, bindings_ = make()
        made = KernelSource(self.jit.key(text), units_, bindings_, functools.partial(str, text))
        if key:
            self.known[key] = self.new[key] = " ".join(map(str, made[:3])).encode()
        return made

    def routine(
        self, op: Any, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
    ) -> routines.Launches | None:
        """The launches of an op's routine; None if it has none for these arrays."""
        return routines.plan(self.machine, op, inputs, attrs, out)

    def with_epilogue(
        self, op: Any, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray,
        code: tuple[Any, ...], values: np.ndarray, others: Sequence[np.ndarray],
    ) -> routines.Launches | None:  # fmt: skip
        """The launches of a convolution that does `code` to its result, see llvm/after.py;
        None where it does not. `values` are those of channels, `others` the arrays that it
        loads."""

        def made() -> after.CompiledEpilogue:
            function = self.afters.get(code)
            if function is None:
                identity = identity_of(Kernel((), code, (), 0, 0))
                t, bits = self.machine.tiles[out.dtype], self.jit.bits
                one = self.kept(
                    identity and f"after {bits} {identity}",
                    lambda: (after.text(t, code, bits), 0, 0),
                )
                loaded = self.jit.load_keyed({one.key: one.text}, printer.NAME)
                function = self.afters[code] = loaded[one.key]
            shifts = np.array([address(x) - address(out) for x in others], np.int64)
            return after.CompiledEpilogue(function, values, shifts)

        return routines.with_epilogue(self.machine, op, inputs, attrs, out, made)

    def load(self, functions: Sequence[KernelSource], launches: Sequence[Launch]) -> NativeLaunches:
        """Compile the functions that are launched."""
        made = NativeLaunches(self, functions, launches)
        new, self.new = self.new, {}
        self.jit.cache.write(new)
        return made


@functools.cache
def compiler() -> LlvmCompiler | None:
    """The compiler of this machine, if it has one."""
    found = llvm.jit()
    return None if found is None else LlvmCompiler(found)


class NativeLaunches:
    """Launches, ready to run."""

    def __init__(
        self, compiler: LlvmCompiler, functions: Sequence[KernelSource], launches: Sequence[Launch]
    ) -> None:
        used = sorted({launch.function for launch in launches if launch.function >= 0})
        kinds = sorted({launch.routine for launch in launches if launch.function < 0})
        own = [compiler.library(kind) for kind in kinds]
        texts = {one.key: one.text for one in (*own, *[functions[n] for n in used])}
        loaded = compiler.jit.load_keyed(texts, printer.NAME)
        self.compiled = {n: loaded[functions[n].key] for n in used}
        self.routines = {kind: loaded[one.key] for kind, one in zip(kinds, own, strict=True)}
        self.threads = compiler.threads
        sizes = [
            functions[x.function].bindings + 1 if x.function >= 0 else x.words for x in launches
        ]
        *starts, words = itertools.accumulate([0, *sizes])
        self.starts: list[int] = starts
        self.routine = np.array([x.function < 0 for x in launches], bool)
        self._lie(aligned(8 * (words + len(launches) * (1 + driver.ENTRY))), words)
        self.memory[:] = 0
        many = [0] * len(launches)  # units
        counts, first = address(self.units), address(self.table)
        entries = []
        for k, (x, start, size) in enumerate(zip(launches, starts, sizes, strict=True)):
            at = count = first + 8 * start
            if x.function >= 0:
                many[k] = max(functions[x.function].units, 0)
                code, count = self.compiled[x.function], counts + 8 * k
                entries.append((code.address, count, at, size - 1))
            else:
                entries.append((self.routines[x.routine].address, count, at, 0))
        if entries:
            self.entries[:] = entries
        self._take(many)

    def _lie(self, memory: np.ndarray, words: int) -> None:
        """Let the table, of so many words, the units and what the driver reads lie there."""
        n = len(self.routine)
        self.memory, numbers = memory, memory.view(np.uint64)
        self.table, self.units = numbers[:words], numbers[words : words + n]
        self.entries = numbers[words + n :].reshape(n, driver.ENTRY)
        self.first = address(memory) + 8 * (words + n)

    def _take(self, units: Any) -> None:
        self.units[:] = units
        # where no launch of a range has several units, threads need not be woken
        self.several = np.cumsum([0, *(self.routine | (self.units > 1)).tolist()])

    def again(self, units: np.ndarray, words: np.ndarray) -> NativeLaunches:
        """The same launches of so many units, with other words in their table."""
        out = copy.copy(self)
        out._lie(aligned(self.memory.nbytes), len(self.table))
        out.memory[:] = self.memory
        shift = address(out.memory) - address(self.memory)
        out.entries.view(np.int64)[:, 1:3] += shift
        out.table[:] = words.view(np.uint64)
        out._take(units)
        return out

    def run(self, first: int, last: int) -> None:
        """Run the launches from `first` on, before `last`."""
        shared = self.several[last] > self.several[first]
        # asked for each time: threads do not survive a fork
        workers(self.threads).run(self.first, first, last, shared)


# --- threads


class Workers:
    """Threads that take units of what is launched. They spin for a while when there are none, and
    then sleep until `run` wakes them."""

    def __init__(self, threads: int) -> None:
        found: Any = llvm.jit()
        triple = found.llvm.get_process_triple()
        (run,) = found.load_texts([driver.text("run", triple)], "run")
        (work,) = found.load_texts([driver.text("work", triple)], "work")
        self.code = run, work
        self.launch, self.work = _RUN(run.address), _WORK(work.address)
        self.memory = aligned(driver.POOL)
        self.memory[:] = 0
        self.memory.view(np.uint64)[25] = ctypes.cast(_yield(), ctypes.c_void_p).value
        self.pool = address(self.memory)
        self.busy = threading.Lock()
        self.asleep: list[threading.Lock] = []
        self.count = threads - 1
        self.threads: list[threading.Thread] = []
        self.ended = False
        self.looks = 0

    def start(self) -> None:
        """Start the threads; they begin asleep."""
        some = 1 << 12  # looks that are timed: processors take them at very different speeds
        before = time.perf_counter()
        self.work(self.pool, some)
        self.looks = int(SPIN_SECONDS * some / (time.perf_counter() - before))
        for _ in range(self.count):
            wake_lock = threading.Lock()
            wake_lock.acquire()
            self.asleep.append(wake_lock)
            self.threads.append(threading.Thread(target=self.serve, args=(wake_lock,), daemon=True))
            self.threads[-1].start()
        # a thread must not be in code that is about to be freed
        atexit.register(self.end)

    def serve(self, wake_lock: threading.Lock) -> None:
        """What a thread does."""
        while True:
            wake_lock.acquire()
            if self.ended:
                return
            self.work(self.pool, self.looks)
            self.asleep.append(wake_lock)

    def end(self) -> None:
        """Stop the threads, and wait for their end."""
        self.ended = True
        self.memory.view(np.uint64)[24] = 1
        for thread in self.threads:
            while thread.is_alive():
                self.wake()
                thread.join(0.01)
        self.threads, self.count = [], 0

    def wake(self) -> None:
        """Wake the threads that sleep."""
        while self.asleep:
            self.asleep.pop().release()

    def run(self, entries: int, first: int, last: int, shared: bool) -> None:
        """Run launches; with the threads if some have several units and no other thread runs some
        with them."""
        if not shared or not self.count or not self.busy.acquire(False):
            self.launch(entries, first, last, None)
            return
        try:
            if not self.threads:
                self.start()
            if self.asleep:
                self.wake()
            self.launch(entries, first, last, self.pool)
        finally:
            self.busy.release()


def _yield() -> Any:
    """The system's function by which a thread lets others run."""
    if os.name == "nt":
        return ctypes.windll.kernel32.SwitchToThread  # type: ignore[attr-defined]
    return ctypes.CDLL(None).sched_yield


_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


@functools.cache
def workers(threads: int) -> Workers:
    """The threads of plans that take so many, the caller's included."""
    return Workers(threads)


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=workers.cache_clear)


# --- products


@functools.cache
def _products() -> dict[np.dtype, BlasSymbol]:
    """What BLAS has, by dtype; nothing where it can't be found."""
    found = blas()
    out: dict[np.dtype, BlasSymbol] = {}
    for dtype, real, name in ((np.float32, "float", "sgemm"), (np.float64, "double", "dgemm")):
        for symbol, bits in _names_of(f"cblas_{name}"):
            function = None if found is None else getattr(found.library, symbol, None)
            if function is not None:
                at = ctypes.cast(function, ctypes.c_void_p).value or 0
                out[np.dtype(dtype)] = BlasSymbol(at, real, bits)
                break
    return out


def _names_of(name: str) -> list[tuple[str, int]]:
    """What builds of BLAS call a function, and the bits of its ints."""
    return [(f"scipy_{name}64_", 64), (f"{name}64_", 64), (f"scipy_{name}", 32), (name, 32)]
