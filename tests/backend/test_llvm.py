"""Lane programs as LLVM makes them: against the interpreter; and what is kept on disk."""

from __future__ import annotations

import ctypes
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from lane_programs import Body, Case, cases, compare, loops
from together import together

from pyframe.backend import llvm
from pyframe.backend.cache import DiskCache
from pyframe.codegen.lanes.program import LaneProgram, UnsupportedKernelError
from pyframe.codegen.llvm.printer import generate

binding = pytest.importorskip("llvmlite.binding", reason="llvmlite, the extra `jit`, is missing")
TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent


def made(folder: Path | None = None, cpu: str = "") -> llvm.JIT:
    """A compiler of its own for this processor, or for an older one that this one is like."""
    llvm.jit()
    out = llvm.JIT(binding, "tests")
    out.cache = DiskCache(folder)
    if not out.bits:
        pytest.skip("this processor lacks what compiled kernels need")
    if cpu:
        out.machine_of |= {"cpu": cpu, "features": ""}
        out.bits = 256
    return out


def run(case: Case, compiled: llvm.MachineCode, begin: int = 0, end: int = -1) -> list[np.ndarray]:
    """The buffers after a run."""
    buffers = [x.copy() for x in case.buffers]
    bindings = (ctypes.c_void_p * len(buffers))(*[x.ctypes.data for x in buffers])
    params = ctypes.create_string_buffer(case.params, max(len(case.params), 8))
    end = case.function.units if end < 0 else end
    compiled.function(bindings, params, begin, end)
    return buffers


def undefined(code: bytes) -> set[str]:
    """The symbols that an ELF object needs of others."""
    (at,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, at + n * size) for n in range(count)]
    found = set()
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind == 2:  # the symbol table
            for symbol in range(offset + entry, offset + length, entry):
                name, _, _, section = struct.unpack_from("<IBBH", code, symbol)
                if section == 0:
                    begin = sections[link][4] + name
                    found.add(code[begin : code.index(b"\0", begin)].decode())
    return found


X86 = binding.get_process_triple().startswith("x86_64")
X86_ALONE = pytest.mark.skipif(not X86, reason="x86-64 alone")


@pytest.mark.parametrize(
    ("lanes", "cpu"),
    [(1, ""), (16, ""), pytest.param(8, "haswell", marks=X86_ALONE)],
)
def test_every_program_gives_what_the_interpreter_gives(
    lanes: int, cpu: str, tmp_path: Path
) -> None:
    """And needs no symbol of any library. Vectors of 16 take all, the others half each."""
    some = cases(lanes)[int(lanes == 8) :: 1 if lanes == 16 else 2]
    compiled = made(tmp_path, cpu).load([c.function for c in some])
    for case, one in zip(some, compiled, strict=True):
        compare(case, run(case, one))
    if sys.platform == "linux":
        files = kept(tmp_path)
        assert len(files) > 150
        needed = set().union(*[undefined(f.read_bytes()[32:]) for f in files])
        assert needed <= {"_GLOBAL_OFFSET_TABLE_"}


def test_vectors_of_many_registers() -> None:
    some = [*loops(64)]
    for case, compiled in zip(some, made().load([c.function for c in some]), strict=True):
        compare(case, run(case, compiled))


@X86_ALONE
def test_wide_vectors_are_cut() -> None:
    """Into those that a processor has. What rotates lanes is never wide."""
    some = [c for c in cases(16) if "Rotate(" not in repr(c.function.body)][::3]
    assert len(some) > 80
    compiled = made(cpu="haswell").load([c.function._replace(width=4) for c in some])
    for case, one in zip(some, compiled, strict=True):
        compare(case, run(case, one))
        assert "<16 x" not in generate(case.function._replace(width=4), 256)


def test_units_run_in_any_order() -> None:
    rows = next(loops(4))
    (compiled,) = made().load([rows.function])
    out = np.zeros_like(rows.buffers[1])
    for begin, end in ((3, 5), (0, 1), (1, 3), (2, 2)):
        out += run(rows, compiled, begin, end)[1]
    compare(rows, [rows.buffers[0], out])


def test_the_remainder_of_floats_has_no_form() -> None:
    b = Body()
    b.op("rem", b.param(0, "f32"), b.param(1, "f32"))
    with pytest.raises(UnsupportedKernelError, match="remainder of floats"):
        generate(b.function(0), 256)


# --- what is compiled once


def constant(value: float) -> LaneProgram:
    """A kernel that stores a number."""
    b = Body()
    b.store(0, b.index(0), b.const(value, "f32"))
    return b.function(1)


def result(compiled: llvm.MachineCode) -> float:
    out = np.zeros(1, np.float32)
    case = Case("", constant(0), [out], [0])
    return float(run(case, compiled)[0][0])


def test_equal_functions_are_compiled_once(tmp_path: Path) -> None:
    c = made(tmp_path)
    one, two, again = c.load([constant(1), constant(2), constant(1)])
    assert one is again
    assert (result(one), result(two)) == (1, 2)
    assert c.load([constant(2)._replace(label="another name", work=7)]) == [two]
    assert c.counts == {"compiled": 2, "read": 0}
    other = made(tmp_path)
    assert [result(x) for x in other.load([constant(2), constant(1), constant(3)])] == [2, 1, 3]
    assert other.counts == {"compiled": 1, "read": 2}


def test_code_lives_as_long_as_its_object() -> None:
    c = made()
    one, two = c.load([constant(1), constant(2)])
    del one
    assert result(two) == 2
    assert len(c.loaded) == 1
    del two
    assert not c.loaded


def test_another_processor_has_code_of_its_own(tmp_path: Path) -> None:
    made(tmp_path).load([constant(1)])
    c = made(tmp_path)
    c.made_by += b"!"
    c.load([constant(1)])
    assert c.counts == {"compiled": 1, "read": 0}


def test_text_of_another_module() -> None:
    text = "define i64 @twice(i64 %x) {\n%y = shl i64 %x, 1\nret i64 %y\n}\n"
    (compiled,) = made().load_texts([text], "twice")
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(compiled.address)(21) == 42


def kept(folder: Path) -> list[Path]:
    """The files of kernels; beside them is the secret."""
    return [f for f in folder.iterdir() if f.name != "secret"]


def test_threads_compile_at_the_same_time() -> None:
    c = made()
    some = cases(4)[:60]

    def work(part: int) -> None:
        mine = some[part::3] + some[:10]
        for case, compiled in zip(mine, c.load([x.function for x in mine]), strict=True):
            compare(case, run(case, compiled))

    together(work, 3)


FORK = """
import os, sys, threading
sys.path[:0] = sys.argv[1:]
from lane_programs import cases, compare
from test_llvm import constant, made, result
compiler, some = made(), [c.function for c in cases(4)[:60]]
(before,) = compiler.load([constant(1)])
busy = threading.Thread(target=compiler.load, args=(some,))
busy.start()
child = os.fork()
if not child:
    (after,) = compiler.load([constant(2)])
    os._exit(0 if (result(before), result(after)) == (1, 2) else 1)
busy.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_compiles() -> None:
    """Also where another thread was compiling when it began."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK]
    subprocess.run([*command, str(TESTS), str(TESTS / "backend")], check=True, timeout=600)


# --- which llvmlite


@pytest.fixture
def asked_anew() -> Iterator[None]:
    llvm.jit.cache_clear()
    yield
    llvm.jit.cache_clear()


def test_another_version_is_told_once(monkeypatch: pytest.MonkeyPatch, asked_anew: None) -> None:
    import llvmlite

    for version in ("0.44.0", "0.51.0", "1.0.0"):
        llvm.jit.cache_clear()
        monkeypatch.setattr(llvmlite, "__version__", version)
        with pytest.warns(UserWarning, match=re.escape(llvm.SUPPORTED)) as told:
            assert llvm.jit() is None
        assert version in str(told[0].message)
        assert llvm.jit() is None


def test_a_broken_llvmlite_is_told_once(monkeypatch: pytest.MonkeyPatch, asked_anew: None) -> None:
    def forbidden() -> None:
        raise OSError(1, "cannot allocate executable memory")

    monkeypatch.setattr(binding, "check_jit_execution", forbidden)
    with pytest.warns(UserWarning, match="cannot allocate executable memory"):
        assert llvm.jit() is None


def test_without_llvmlite_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, asked_anew: None
) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    assert llvm.jit() is None


def test_older_processors_keep_numpy() -> None:
    assert llvm._vector_bits("x86_64", {"avx2": True, "fma": True}) == 0
    assert llvm._vector_bits("x86_64", {"avx2": True, "fma": True, "f16c": True}) == 256
    assert llvm._vector_bits("aarch64", {"neon": True}) == 128
    assert llvm._vector_bits("arm64", {}) == 128  # as LLVM sees Apple's
    assert llvm._vector_bits("i686", {}) == 0


def test_lanes_fill_a_vector() -> None:
    c = made()
    c.bits = 256
    found = {t: c.lanes({t}) for t in ("f32", "f64", "u8", "i16", "bool")}
    assert found == {"f32": 8, "f64": 4, "u8": 32, "i16": 16, "bool": 32}
    assert [c.lanes({"f32", t}) for t in ("bool", "u8", "i64", "f64")] == [8] * 4


def test_the_extra_names_the_same_range() -> None:
    assert f'jit = ["{llvm.SUPPORTED}"]' in (ROOT / "pyproject.toml").read_text("utf-8")
