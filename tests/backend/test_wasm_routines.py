"""Routines of the page's CPU, run natively by wasmtime, against NumPy in float64."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe.backend import wasm
from pyframe.codegen.cpu.routines import SCRATCH, TABLES, Addr, LibraryCall
from pyframe.codegen.wasm.library import LIBRARIES, library, library_of, routine
from pyframe.core.op import REGISTRY
from tests.backend.cases import CONVOLUTIONS

wasmtime = pytest.importorskip("wasmtime")

PAGE = 1 << 16
GUARD = 64  # bytes around each operand that must stay as they are


class Machine:
    """The libraries in wasmtime, with a memory for each run."""

    def __init__(self, relaxed: bool) -> None:
        self.engine = wasmtime.Engine()
        self.modules = {
            name: wasmtime.Module(self.engine, library(name, relaxed)) for name in LIBRARIES
        }

    def run(self, made: LibraryCall, inputs: Sequence[np.ndarray], out: np.ndarray) -> np.ndarray:
        """What the routine writes; inputs are laid out with their strides. Memory ends where the
        last operand does, and nothing but the result and the scratch memory changes."""
        tables = np.zeros(0, np.int32) if made.tables is None else made.tables
        end, at = 0, {}

        def room(name: int, nbytes: int) -> None:
            nonlocal end
            at[name] = end = -(-(end + GUARD) // 16) * 16
            end += nbytes

        room(TABLES, tables.nbytes)
        room(SCRATCH, made.scratch)
        room(len(inputs), out.nbytes)
        spans = [span(x) for x in inputs]
        for i, (low, high) in enumerate(spans):
            room(i, high - low)
        pages = -(-end // PAGE)
        store = wasmtime.Store(self.engine)
        memory = wasmtime.Memory(store, wasmtime.MemoryType(wasmtime.Limits(pages, None)))
        (name,) = {library_of(call.function) for call in made.calls} or {"lib"}
        exports = wasmtime.Instance(store, self.modules[name], [memory]).exports(store)
        held = np.ctypeslib.as_array(memory.data_ptr(store), (pages * PAGE,))
        held[:] = 0xFF  # NaN
        shift = pages * PAGE - end & -16
        at = {name: place + shift for name, place in at.items()}
        held[at[TABLES] : at[TABLES] + tables.nbytes] = (
            np.ascontiguousarray(tables).view("u1").ravel()
        )
        for i, (x, (low, high)) in enumerate(zip(inputs, spans, strict=True)):
            at[i] -= low
            place(held[at[i] + low : at[i] + high], x, low)[...] = x
        before = held.copy()
        for call in made.calls:
            words = [at[w.of] + w.offset if isinstance(w, Addr) else w for w in call.arguments]
            exports[call.function](store, *words)
        first = at[len(inputs)]
        got = held[first : first + out.nbytes].view(out.dtype).reshape(out.shape).copy()
        for name, nbytes in ((len(inputs), out.nbytes), (SCRATCH, made.scratch)):
            for memory in (held, before):
                memory[at[name] : at[name] + nbytes] = 0
        assert np.array_equal(held, before), "it wrote elsewhere"
        return got


def span(x: np.ndarray) -> tuple[int, int]:
    """The bytes that an array covers, from its first element."""
    if not x.size:
        return 0, 0
    ends = [(n - 1) * s for n, s in zip(x.shape, x.strides, strict=True)]
    return sum(min(e, 0) for e in ends), sum(max(e, 0) for e in ends) + x.itemsize


def place(memory: np.ndarray, x: np.ndarray, low: int) -> np.ndarray:
    return np.ndarray(x.shape, x.dtype, memory.data, -low, x.strides) if x.size else x.copy()


@functools.cache
def machine(relaxed: bool) -> Machine:
    return Machine(relaxed)


def computed(name: str, *inputs: np.ndarray, attrs: tuple[Any, ...] = ()) -> np.ndarray:
    """The result of an op's routine, the same with relaxed SIMD and without up to rounding."""
    op = REGISTRY[name]
    specs = [pf.empty(0).new_empty(x.shape, dtype=getattr(pf, x.dtype.name))._node for x in inputs]
    shape, dtype = op.infer(*specs, *attrs)  # type: ignore[misc]
    out = np.empty(shape, dtype.numpy)
    made = routine(op, inputs, attrs, out)
    assert made is not None
    first, second = (machine(relaxed).run(made, inputs, out) for relaxed in (True, False))
    np.testing.assert_allclose(first, second, 1e-3, 1e-3)
    again = machine(True).run(made, inputs, out)
    assert first.tobytes() == again.tobytes()
    return second


def close(got: np.ndarray, expected: np.ndarray, sizes: np.ndarray) -> None:
    """Within some roundings of the sum of the products' sizes."""
    assert (np.abs(got - expected) <= 1e-6 * sizes + 1e-30).all()


def layouts(x: np.ndarray) -> list[np.ndarray]:
    """The same matrices in rows, in columns, and with gaps and backwards."""
    gaps = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)[..., ::-2][..., : x.shape[-1]]
    gaps[...] = x
    return [x, np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2), gaps]


def product(a: np.ndarray, b: np.ndarray) -> None:
    wide = a.astype("f8"), b.astype("f8")
    close(computed("matmul", a, b), wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1]))


@pytest.mark.parametrize("m", [0, 1, 6, 7, 25])
@pytest.mark.parametrize("n", [0, 1, 3, 8, 33])
@pytest.mark.parametrize("k", [0, 1, 7, 40])
def test_products(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(m * 99 + n * 9 + k)
    a, b = rng.standard_normal((m, k), "f4"), rng.standard_normal((k, n), "f4")
    pairs = list(itertools.product(layouts(a), layouts(b)))
    for left, right in pairs[(m + n + k) % 3 :: 2]:  # each pair comes with each of the sizes
        product(left, right)


@pytest.mark.parametrize(("m", "n", "k"), [(200, 40, 700), (30, 1100, 321), (1, 50, 2000)])
def test_blocks_of_products(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), "f4"), rng.standard_normal((k, n), "f4")
    for left, right in zip(layouts(a), layouts(b), strict=True):
        product(left, right)


def test_batches_of_products() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 10, 5), "f4"), rng.standard_normal((3, 5, 12), "f4")
    product(a, b)
    product(a[1:], b[:1])
    product(a.transpose(1, 0, 3, 2), b[0, :, :10].T[None, :, :].copy())
    product(a[:, :, :1], layouts(b)[1])
    qkv = rng.standard_normal((2, 64, 3, 4, 32), "f4").transpose(2, 0, 3, 1, 4)
    product(qkv[0], qkv[1].swapaxes(-1, -2))
    product(np.broadcast_to(a[:, :1], (2, 3, 10, 5)), b)


def test_the_sum_of_a_result_depends_on_the_shapes_alone() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((70, 650), "f4"), rng.standard_normal((650, 41), "f4")
    found = [computed("matmul", x, y) for x in layouts(a) for y in layouts(b)]
    assert all(x.tobytes() == found[0].tobytes() for x in found)


def convolutions(
    x: np.ndarray, w: np.ndarray, stride: Any, padding: Any, dilation: Any, groups: int
) -> None:
    """A convolution and its gradients."""
    rng = np.random.default_rng(1)
    attrs = (stride, padding, dilation, groups)

    def same(name: str, a: np.ndarray, b: np.ndarray, attrs: Any) -> np.ndarray:
        got = computed(name, a, b, attrs=attrs)
        wide = REGISTRY[name].numpy
        assert wide is not None
        sizes = wide(np.abs(a).astype("f8"), np.abs(b).astype("f8"), *attrs)
        close(got, wide(a.astype("f8"), b.astype("f8"), *attrs), sizes)
        return got

    y = same("conv", x, w, attrs)
    g = rng.standard_normal(y.shape, "f4")
    same("conv_input", g, w, (x.shape[2:], *attrs))
    same("conv_weight", g, x, (w.shape[2:], *attrs))


@pytest.mark.parametrize(("x", "w", "stride", "padding", "dilation", "groups"), CONVOLUTIONS)
def test_convolutions(
    x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> None:
    rng = np.random.default_rng(0)
    images, weight = rng.standard_normal(x, "f4"), rng.standard_normal(w, "f4")
    convolutions(images, weight, stride, padding, dilation, groups)


def test_convolutions_of_views() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 8, 4, 10), "f4").transpose(2, 0, 1, 3)[1:]  # (3, 3, 8, 10)
    w = rng.standard_normal((3, 3, 3, 5), "f4").transpose(3, 0, 2, 1)[:, ::-1]  # (5, 3, 3, 3)
    convolutions(x, w, (1, 1), (1, 1), (1, 1), 1)
    convolutions(x[..., ::2], w, (1, 2), (0, 0), (1, 1), 1)
    convolutions(np.broadcast_to(x[:, :1, :1, :1], x.shape), w, (1, 1), (0, 0), (1, 1), 1)


def test_what_convolutions_have_no_routine() -> None:
    x, w = np.ones((1, 1, 4, 9), "f4"), np.ones((1, 1, 1, 1), "f4")
    how = ((1, 1), (1, 1), (1, 1), 1)
    out, g = np.ones((1, 1, 6, 7), "f4"), np.ones((1, 1, 6, 14), "f4")
    assert routine(REGISTRY["conv"], (x[..., ::2], w), how, out) is None
    assert routine(REGISTRY["conv_weight"], (g[..., ::2], x[..., :5]), ((1, 1), *how), w) is None
    assert routine(REGISTRY["conv"], (x.astype("f8"), w.astype("f8")), how, out) is None
    assert routine(REGISTRY["conv"], (x[:0], w), how, out[:0]) == LibraryCall(())


def test_ops_that_run_at_once_use_routines_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    from natively import Natively

    from pyframe.runtime import cpu

    made, used = Natively(True), []

    def compute(op: Any, *args: Any) -> bool:
        used.append(op.name)
        return wasm.WasmCompiler.compute(made, op, *args)

    monkeypatch.setattr(made, "compute", compute)
    monkeypatch.setattr(cpu, "compiler", lambda: made)
    for name in ("matmul", "conv", "add_rows"):
        op = REGISTRY[name]
        monkeypatch.setattr(op, "numpy", cpu.accelerated(op, op.numpy))  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((100, 90), "f4"), rng.standard_normal((90, 70), "f4")
    x, y = pf.from_numpy(a), pf.from_numpy(b)
    np.testing.assert_allclose((x @ y).numpy(), a @ b, 1e-4, 1e-4)
    assert used == []  # so far loading them has not paid
    monkeypatch.setattr(cpu, "_done", [cpu.LOADING])
    np.testing.assert_allclose((x @ y).numpy(), a @ b, 1e-4, 1e-4)
    np.testing.assert_allclose((y.T @ x.T).numpy(), b.T @ a.T, 1e-4, 1e-4)
    assert used == ["matmul"] * 2
    assert (x[:5] @ y).shape == (5, 70)  # too little work
    images, weight = pf.rand(3, 8, 20, 20), pf.rand(9, 8, 3, 3)
    assert pf.nn.functional.conv2d(images, weight).shape == (3, 9, 18, 18)
    assert used == ["matmul"] * 2 + ["conv"]
    wide = (x.double() @ y.double()).numpy()  # which has no routine
    np.testing.assert_allclose(wide, a.astype("f8") @ b.astype("f8"))
    with pytest.raises(IndexError, match="index -3 is out of bounds"):
        REGISTRY["add_rows"].numpy(np.full(1 << 14, -3), np.ones((1 << 14, 70), "f4"), 4)  # type: ignore[misc]
    assert used[-1] == "add_rows"


def test_other_dtypes_have_no_routine() -> None:
    for dtype in (np.float64, np.float16, np.int32, np.complex64):
        a = np.ones((3, 3), dtype)
        assert routine(REGISTRY["matmul"], (a, a), (), np.empty_like(a)) is None
    assert routine(REGISTRY["exp"], (a,), (), a) is None
