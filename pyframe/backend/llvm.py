"""The only calls to llvmlite: text of codegen/llvm becomes functions of machine code.

llvmlite is an extra (`jit`). What was compiled is kept in the user's cache
folder, by content: a program that ran once finds its kernels there.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import struct
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyframe.backend.cache import DiskCache, cache_folder
from pyframe.codegen.lanes.program import LaneProgram
from pyframe.codegen.llvm import printer
from pyframe.codegen.numpy.threads import default_threads
from pyframe.core.extras import install
from pyframe.core.locks import lock

SUPPORTED = "llvmlite>=0.45,<0.51"  # as in pyproject.toml; before, LLVM reads another text
_MIN_VERSION, _BELOW = (0, 45), (0, 51)
# The text holds vectors already, and each value is computed in the loop where it belongs.
_PASSES = ("sroa", "instruction_combine")
_FORMAT = 1  # of what the cache keeps; change it when functions are compiled in another way
# By processors: float16, and roundings in one instruction. Those of 64-bit ARM have both, and LLVM
# finds no features on macOS.
_NEEDED: dict[str, tuple[str, ...]] = {
    "x86_64": ("avx2", "fma", "f16c"), "aarch64": (), "arm64": (),
}  # fmt: skip
_WIDE = ("avx512f", "avx512bw", "avx512dq", "avx512vl")

_COMPILING = lock()


class MachineCode:
    """A function of machine code: its `address`, and itself for Python to call. It lives as long
    as this object."""

    __slots__ = ("__weakref__", "_engine", "address")

    def __init__(self, address: int, engine: Any) -> None:
        self.address, self._engine = address, engine

    @property
    def function(self) -> Any:
        """kernel(bindings, params, begin, end), as codegen/llvm/printer.py says."""
        return _PROTOTYPE(self.address)


_PROTOTYPE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


@functools.cache
def jit() -> JIT | None:
    """What compiles for this processor; None where llvmlite is not installed or can't be used,
    which is told once unless it is for lack of instructions."""
    if struct.calcsize("P") != 8:
        return None
    try:
        import llvmlite
    except ImportError:
        return None
    version = tuple(int(n) for n in llvmlite.__version__.split(".")[:2] if n.isdigit())
    if not _MIN_VERSION <= version < _BELOW:
        _notice(f"it works with {SUPPORTED} and finds {llvmlite.__version__}")
        return None
    try:
        import llvmlite.binding as binding

        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        binding.check_jit_execution()
        found = JIT(binding, llvmlite.__version__)
        with _COMPILING:
            _LOCKS[1:] = [binding.ffi.lib._lock]  # it is taken to free LLVM's objects too
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        _notice(f"llvmlite {llvmlite.__version__} can't be used: {error}")
        return None
    return found if found.bits else None


def _notice(why: str) -> None:
    warnings.warn(
        f"pyframe does not compile for the CPU, NumPy computes: {why} ({install('jit')})",
        stacklevel=3,
    )


class JIT:
    """LLVM for the processor of this machine."""

    def __init__(self, binding: Any, version: str) -> None:
        self.llvm = binding
        triple = binding.get_process_triple()
        cpu, features = binding.get_host_cpu_name(), binding.get_host_cpu_features()
        if os.name == "nt":
            triple += "-elf"  # the form of objects that LLVM can load everywhere
        self.target = binding.Target.from_triple(triple)
        self.machine_of = {
            "cpu": cpu, "features": features.flatten(), "opt": 2, "reloc": "pic",
            "codemodel": "small", "jit": True,
        }  # fmt: skip
        arch = triple.partition("-")[0]
        self.bits = _vector_bits(arch, features)
        self.dots = "pairs" if arch == "x86_64" else ""  # see `Assembler.dot`
        if self.bits == 512 and features.get("avx512vnni"):
            self.dots = "bytes"
        made_by = (_FORMAT, version, binding.llvm_version_info, triple, self.machine_of, _PASSES)
        self.made_by = repr(made_by).encode()
        self.emit = _unlocked(binding)
        self.cache = DiskCache(cache_folder())
        self.local = threading.local()
        self.loaded: weakref.WeakValueDictionary[str, MachineCode] = weakref.WeakValueDictionary()
        self.counts = {"compiled": 0, "read": 0}  # functions, for tests and profiles

    def lanes(self, types: set[str]) -> int:
        """How many lanes vectors of values of these types should have."""
        sizes = [int(t[1:]) // 8 for t in types if t != "bool"] or [1]
        return self.bits // (8 * max(min(sizes), min(max(sizes), 4)))

    def load(self, functions: Sequence[LaneProgram]) -> list[MachineCode]:
        """Lane programs as functions of machine code, equal ones once."""
        return self.load_texts([printer.generate(f, self.bits) for f in functions], printer.NAME)

    def load_texts(self, texts: Sequence[str], name: str) -> list[MachineCode]:
        """The function `name` of each module, which is given as text."""
        keys = [self.key(text) for text in texts]
        given = {k: functools.partial(str, t) for k, t in zip(keys, texts, strict=True)}
        found = self.load_keyed(given, name)
        return [found[key] for key in keys]

    def load_keyed(
        self, texts: Mapping[str, Callable[[], str]], name: str
    ) -> dict[str, MachineCode]:
        """The function `name` of modules by their keys; what makes a module's text is called only
        if its machine code is not kept."""
        with _COMPILING:
            found = {key: one for key in texts if (one := self.loaded.get(key)) is not None}
            missing = {key: text for key, text in texts.items() if key not in found}
            if missing:
                linked = self._linked(missing, name)
                self.loaded.update(linked)
                found |= linked
        return found

    def key(self, what: str) -> str:
        """What a text, or that from which one is made, is kept by."""
        return hashlib.sha256(self.made_by + what.encode()).hexdigest()

    def _linked(self, texts: dict[str, Callable[[], str]], name: str) -> dict[str, MachineCode]:
        """Modules by key, from the cache or compiled, in memory that can be run."""
        objects = self.cache.read(texts)
        new = [key for key in texts if key not in objects]
        self.counts["read"] += len(objects)
        self.counts["compiled"] += len(new)
        named = [texts[k]().replace(f"@{name}(", f"@{_symbol(name, k)}(") for k in new]
        made = dict(zip(new, self._in_parallel(named), strict=True))
        self.cache.write(made)
        objects |= made
        engine = self.llvm.create_mcjit_compiler(
            self.llvm.parse_assembly(""), self._machine(), use_lmm=True
        )
        for code in objects.values():
            engine.add_object_file(self.llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return {
            key: MachineCode(engine.get_function_address(_symbol(name, key)), engine)
            for key in texts
        }

    def _in_parallel(self, texts: list[str]) -> list[bytes]:
        threads = min(default_threads(), len(texts))
        if threads < 2:
            return [self._compiled(text) for text in texts]
        with ThreadPoolExecutor(threads, "pyframe-llvm") as pool:
            return list(pool.map(self._compiled, texts))

    def _compiled(self, text: str) -> bytes:
        """A module as an object file."""
        llvm, machine = self.llvm, self._machine()
        with llvm.parse_assembly(text, llvm.create_context()) as module:
            module.verify()
            passes = llvm.create_new_function_pass_manager()
            for name in _PASSES:
                getattr(passes, f"add_{name}_pass")()
            builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
            for function in module.functions:
                if not function.is_declaration:
                    passes.run(function, builder)
            return self.emit(machine, module)

    def _machine(self) -> Any:
        return self.target.create_target_machine(**self.machine_of)


def _symbol(name: str, key: str) -> str:
    return f"{name}_{key[:32]}"


def _vector_bits(arch: str, features: dict[str, bool]) -> int:
    """The size of vectors that are best; 0 on a processor that lacks what they need."""
    needed = _NEEDED.get(arch)
    if needed is None or not all(features.get(f) for f in needed):
        return 0
    if arch != "x86_64":
        return 128
    return 512 if all(features.get(f) for f in _WIDE) else 256


def _unlocked(binding: Any) -> Any:
    """`emit_object` of a machine and a module, without the lock under which llvmlite lets one
    thread at a time compile. LLVM needs none between modules of several contexts. It is found in
    llvmlite's internals: where they are others, what is public takes its place."""
    try:
        ffi: Any = binding.ffi
        locked, raw = ffi.lib.LLVMPY_TargetMachineEmitToMemory, ctypes.CDLL(ffi.lib._name)
        emit = raw.LLVMPY_TargetMachineEmitToMemory
        emit.argtypes, emit.restype = locked.argtypes, locked.restype
    except (AttributeError, OSError):
        return lambda machine, module: machine.emit_object(module)

    def object_of(machine: Any, module: Any) -> bytes:
        with ffi.OutputString() as error:
            buffer = emit(machine, module, 1, error)
            if not buffer:
                raise RuntimeError(str(error))
        start, size = ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer)
        try:
            return ctypes.string_at(start, size)
        finally:
            ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)

    return object_of


# --- forks: they wait for what is being compiled, else a lock that another thread holds, of LLVM or
# of llvmlite, would never be free in the child

_LOCKS: list[Any] = [_COMPILING]


def _hold() -> None:
    for one in _LOCKS:
        one.__enter__()


def _leave() -> None:
    for one in reversed(_LOCKS):
        one.__exit__(None, None, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_leave, after_in_child=_leave)
