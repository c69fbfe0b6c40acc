"""Launches on the native CPU: BLAS's products, threads that help, and the plans made of both."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import python
from together import together

import pyframe as pf
from pyframe.codegen.numpy import threads as bounds
from pyframe.codegen.numpy.threads import default_threads
from pyframe.core import processors
from pyframe.runtime import cpu as chosen
from tests.backend.cases import CONVOLUTIONS
from tests.backend.test_cpu_compiled import plan_of, tensor, train
from tests.backend.test_llvm import made

pytest.importorskip("llvmlite")
from pyframe.backend import cpu, llvm
from pyframe.codegen.cpu import routines
from pyframe.codegen.cpu.gemm import Tile
from pyframe.codegen.cpu.library import planner
from pyframe.codegen.lanes import identity
from pyframe.codegen.lanes.compiler import ErrorFlagArg, Launch, ScratchArg
from pyframe.codegen.lanes.identity import identity_of
from pyframe.codegen.llvm import blas, direct, gemm, routines as planned, winograd
from pyframe.codegen.numpy.memory import address
from pyframe.core.dispatch import apply
from pyframe.core.host_memory import aligned
from pyframe.core.op import REGISTRY
from pyframe.graph.program import Apply, Kernel

F = pf.nn.functional
LEAST = gemm.MIN_UNIT_WORK  # which fixtures make smaller
found = llvm.jit()
if found is None:
    pytest.skip("LLVM does not compile for this processor", allow_module_level=True)


@pytest.mark.parametrize(
    ("texts", "threads"),
    [
        (["max 100000"], 8), (["250000 100000"], 3), (["20000 100000\n"], 1),
        (["900000 100000"], 8),
        (["200000", "100000"], 2), (["-1\n", "100000\n"], 8), (["0 0"], 8), ([""], 8), ([], 8),
    ],
)  # fmt: skip
def test_threads_keep_to_the_quota_of_a_container(
    texts: list[str], threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [str(tmp_path / str(n)) for n in range(max(len(texts), 1))]
    for name, text in zip(names, texts, strict=False):
        Path(name).write_text(text, "utf-8")
    monkeypatch.setattr(processors, "QUOTAS", (names,))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.delenv("PYFRAME_THREADS", raising=False)
    assert default_threads() == threads
    monkeypatch.setenv("PYFRAME_THREADS", "5")
    assert default_threads() == 5


def test_threads_bound_numpys_own_products() -> None:
    """Of products that run as they are called NumPy's BLAS has the threads."""
    library = importlib.import_module("threadpoolctl").ThreadpoolController()
    if (own := bounds.blas()) is None:
        pytest.skip("this NumPy's BLAS can't be told")
    before = own.threads
    try:
        for n in (1, 2):
            pf.set_num_threads(n)
            assert pf.get_num_threads() == default_threads() == own.threads == n
            found = [c.num_threads for c in library.lib_controllers if c.dynlib is own.library]
            assert found in ([n], [])
        for wrong in (0, -2, True, "2"):
            error = TypeError if wrong == "2" else RuntimeError
            with pytest.raises(error, match="set_num_threads: expected an int of at least 1"):
                pf.set_num_threads(wrong)  # type: ignore[arg-type]
    finally:
        bounds._chosen.clear()
        own.take(before)
    show = "import pyframe.codegen.numpy.threads as t; print(t.blas().threads)"
    assert python("-c", show, PYFRAME_THREADS="1")[0] == "1\n"
    assert "expected a number" in python("-c", show, status=1, PYFRAME_THREADS="one")[1]


@pytest.fixture(params=[1, 2, 5])
def native(request: Any, monkeypatch: pytest.MonkeyPatch) -> cpu.LlvmCompiler:
    """The compiler with so many threads; small work takes all of them."""
    monkeypatch.setattr(blas, "DOT_CHUNKS", (1, 40, 300, 2000))
    monkeypatch.setattr(routines, "MIN_CHUNK_ELEMENTS", 10)
    monkeypatch.setattr(gemm, "MIN_UNIT_WORK", 100)
    assert found is not None
    made = cpu.LlvmCompiler(found, request.param)
    monkeypatch.setattr(chosen, "compiler", lambda: made)
    return made


def test_the_device_is_named_after_what_computes(
    native: cpu.LlvmCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the extra missing, also how to get it."""
    cores = f"{native.threads} core{'s' * (native.threads > 1)}"
    assert found is not None
    llvm_version = found.llvm.llvm_version_info[0]
    assert chosen.adapter() == f"LLVM {llvm_version} on {cores}, {found.bits}-bit vectors"
    monkeypatch.setenv("PYFRAME_THREADS", str(native.threads))
    monkeypatch.setattr(chosen, "compiler", lambda: None)
    text = f"NumPy {np.__version__} on {cores}"
    assert chosen.adapter() == text
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert chosen.adapter() == f'{text}; pip install -e ".[jit]" compiles kernels'
    chosen.advise.cache_clear()
    with pytest.warns(
        UserWarning, match=r"pip install -e \".\[jit\]\" compiles kernels, about twice"
    ):
        pf.compile(lambda x: x + 1)(pf.ones(3))
    pf.compile(lambda x: x + 2)(pf.ones(3))  # once
    monkeypatch.setenv("PYFRAME_CPU", "numpy")
    assert chosen.adapter() == f"{text}, as PYFRAME_CPU says"


def strided(shape: tuple[int, ...], kind: str, dtype: Any) -> np.ndarray:
    """Numbers that lie so in memory."""
    x = np.random.standard_normal((*shape[:-2], shape[-2] + 3, shape[-1] + 2)).astype(dtype)
    if kind == "transposed":
        x = np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    return x[..., 2:-1, 1:-1]


@pytest.mark.parametrize("native", [1, 5], indirect=True)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((40, 7), (7, 9)), ((3, 50), (50, 33)), ((1, 5), (5, 1)), ((2, 3, 20, 4), (2, 3, 4, 6)),
        ((6, 1, 9, 4), (1, 5, 4, 17)), ((130, 300), (300, 530)), ((9, 2, 11, 40), (2, 40, 66)),
        ((1, 70), (70, 300)), ((2, 3, 2, 40), (2, 1, 40, 67)), ((7, 20), (20, 40)),
    ],
)  # fmt: skip
def test_products(native: cpu.LlvmCompiler, a: Any, b: Any) -> None:
    own = native.machine
    for dtype, first, second in itertools.product(
        (np.float32, np.float64), ("rows", "transposed"), ("rows", "transposed")
    ):
        x, y = strided(a, first, dtype), strided(b, second, dtype)
        want = np.matmul(x, y)
        narrow = {np.dtype(dtype): Tile("f32" if dtype == np.float32 else "f64", 4, 6)}
        for tiles in (own.tiles, narrow, {}):  # without tiles it is BLAS that multiplies
            out = np.full(want.shape, np.nan, dtype)
            native.machine = own._replace(tiles=tiles)
            run(native, pf.ops.matmul.matmul_op, [x, y], (), out)
            np.testing.assert_allclose(out, want, 1e-3, 1e-4, f"{dtype} {first} {second}")


@pytest.mark.skipif(found is None or found.bits < 256, reason="BLAS multiplies")
def test_few_rows_are_multiplied_by_what_lies_in_pieces(native: cpu.LlvmCompiler) -> None:
    """They read it once; BLAS reads what it packs."""
    x = np.ones((5, 16), np.float32)
    for a, b, kind in [(x[:1], x.T, "blas.matmul"), (x[:4], np.ones((16, 9), "f4"), "gemm.few"),
                       (x[:1], np.ones((9, 16), "f4").T, "gemm.few"),
                       (x.T[:1], np.ones((5, 9), "f4"), "blas.matmul"),
                       (x, np.ones((16, 9), "f4"), "gemm.matmul")]:  # fmt: skip
        out = np.empty((len(a), b.shape[1]), np.float32)
        found = native.routine(pf.ops.matmul.matmul_op, [a, b], (), out)
        assert found is not None
        assert found[0][0] == f"{kind}.float32"


@pytest.mark.skipif(found is None or found.bits < 256, reason="BLAS multiplies")
def test_few_rows_are_shared_by_threads(
    native: cpu.LlvmCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait for memory: a row is worth it from an eighth of the work on."""
    monkeypatch.setattr(gemm, "MIN_UNIT_WORK", LEAST)
    native.machine, units = native.machine._replace(threads=2), []
    for rows, size in ((1, 256), (4, 256), (1, 128)):
        x, y = np.ones((rows, size), np.float32), np.ones((size, size), np.float32).T
        found = native.routine(pf.ops.matmul.matmul_op, [x, y], (), np.empty_like(x))
        assert found is not None
        units.append(found[0][1][0])
    assert units == [2, 2, 1]


def run(native: cpu.LlvmCompiler, op: Any, inputs: Any, attrs: Any, out: np.ndarray) -> None:
    """Compute an op by the routines that are there for it."""
    found = native.routine(op, inputs, attrs, out)
    assert found is not None
    launch(native, found)


def launch(native: cpu.LlvmCompiler, found: planned.Launches) -> None:
    """Run launches."""
    code = native.load([], [Launch(-1, name, len(words)) for name, words in found])
    held, fault = [], np.zeros(1, np.int64)
    for (_, words), start in zip(found, code.starts, strict=True):
        for at, word in enumerate(words, start):
            if not isinstance(word, int):
                if isinstance(word, ScratchArg):
                    word = aligned(word.nbytes)
                elif isinstance(word, ErrorFlagArg):
                    word = fault
                held.append(word)
                word = address(word)
            code.table[at] = word
    code.run(0, len(found))
    if fault[0]:
        raise IndexError("out of bounds")


def computed(
    threads: int, name: str, *inputs: np.ndarray, attrs: tuple[Any, ...] = ()
) -> np.ndarray:
    """The result of a routine of codegen/cpu, also of one that NumPy outruns."""
    assert found is not None
    op, native = REGISTRY[name], cpu.LlvmCompiler(found, threads)
    specs = [pf.empty(0).new_empty(x.shape, dtype=getattr(pf, x.dtype.name))._node for x in inputs]
    shape, dtype = op.infer(*specs, *attrs)  # type: ignore[misc]
    out = np.full(shape, 99, dtype.numpy)
    if out.size:
        assert op.routine is not None
        plan = planner(op.routine)
        if plan is None:  # one of LLVM's own
            launches = planned.plan(native.machine, op, inputs, attrs, out)
        else:
            made = plan(inputs, attrs, out)
            launches = made and planned.launches(made, (*inputs, out))
        assert launches is not None
        launch(native, launches)
    return out


def test_products_of_operands_that_lie_anyhow(native: cpu.LlvmCompiler) -> None:
    if native.machine.bits == 128:
        pytest.skip("BLAS multiplies on this processor")
    x = strided((40, 33), "rows", np.float32)
    row = np.broadcast_to(x[:1], (9, 33))
    for a, b in [(x[::2, ::2], x.T[::2, 1:]), (row, x.T), (x, x.T[:, ::3])]:
        out = np.full((len(a), b.shape[1]), np.nan, np.float32)
        run(native, pf.ops.matmul.matmul_op, [a, b], (), out)
        np.testing.assert_allclose(out, a @ b, 1e-3, 1e-4)


@pytest.mark.parametrize(
    ("native", "dtype"), [(5, np.float32), (1, np.float64)], indirect=["native"]
)
@pytest.mark.parametrize(
    ("x", "w", "stride", "padding", "dilation", "groups"),
    CONVOLUTIONS,
)
def test_convolutions(
    native: cpu.LlvmCompiler, x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int,
    dtype: Any,
) -> None:  # fmt: skip
    images, weight = (np.random.standard_normal(shape).astype(dtype) for shape in (x, w))
    attrs = stride, padding, dilation, groups
    narrow = {np.dtype(dtype): Tile("f32" if dtype == np.float32 else "f64", 4, 6)}
    both = native.machine.tiles, narrow  # of float64 one of them, by turns
    for tiles in both if dtype == np.float32 else both[sum(x) % 2 :][:1]:
        native.machine = native.machine._replace(tiles=tiles)
        y = convolved(native, "conv", images, weight, attrs)
        g = np.random.standard_normal(y.shape).astype(dtype)
        convolved(native, "conv_input", g, weight, (images.shape[2:], *attrs))
        convolved(native, "conv_weight", g, images, (weight.shape[2:], *attrs))
    turned = np.ascontiguousarray(images.swapaxes(0, 1)).swapaxes(0, 1)
    convolved(native, "conv", turned, weight[:, :, ::1], attrs)


@pytest.mark.parametrize("native", [5], indirect=True)
@pytest.mark.parametrize(("x", "w", "stride", "padding", "dilation", "groups"), [
    *CONVOLUTIONS[::2],
    ((1, 40, 14, 14), (70, 40, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((1, 600, 9, 9), (18, 300, 1, 1), (1, 1), (0, 0), (1, 1), 2),
    ((6, 20, 7, 7), (33, 20, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((3, 24, 22, 19), (24, 1, 3, 3), (2, 1), (1, 1), (1, 1), 24),
    ((1, 1, 90, 35), (2, 1, 5, 5), (1, 1), (2, 2), (1, 1), 1),
])  # fmt: skip
def test_convolutions_with_what_follows(
    native: cpu.LlvmCompiler, x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> None:
    """Once in their result's memory, whatever is computed by whom."""
    conv = (F.conv1d, F.conv2d, F.conv3d)[len(stride) - 1]
    channel = (-1, *[1] * len(stride))

    def normed(y: pf.Tensor, mean: pf.Tensor, scale: pf.Tensor) -> pf.Tensor:
        return (y - mean.reshape(channel)) * (scale * scale + 1e-5).rsqrt().reshape(channel)

    ways: list[Any] = [
        lambda y, mean, scale, rest: F.hardswish(normed(y, mean, scale)),
        lambda y, mean, scale, rest: rest + normed(y, mean, scale).clamp(-0.5, 0.7),
        lambda y, mean, scale, rest: pf.where(y > mean.reshape(channel), y.sigmoid() * y, rest - 1),
        lambda y, mean, scale, rest: y + mean[0],
        lambda y, mean, scale, rest: y * rest.flip(0),  # which does not lie like the result
    ]
    at = (sum(x) + sum(w)) % len(ways)  # of which each convolution has two
    for way in (ways[at], ways[at - 2]):

        def fn(x: Any, w: Any, *rest: Any, way: Any = way) -> pf.Tensor:
            return way(conv(x, w, None, stride, padding, dilation, groups), *rest)

        args = [tensor(*x), tensor(*w), tensor(w[0]), tensor(w[0])]
        args.append(tensor(*conv(*args[:2], None, stride, padding, dilation, groups).shape))
        with pf.inference_mode():
            f = pf.compile(fn)
            for _ in range(2):
                want = fn(*[a.double() for a in args]).numpy()
                np.testing.assert_allclose(f(*args).numpy(), want, 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("x", "w", "padding", "groups", "name"),
    [
        ((1, 3, 9, 64), (8, 3, 3, 3), (1, 1), 1, "3_3_1_1_1_1_2_1_0_8"),
        ((1, 1, 7, 64), (8, 1, 3, 3), (1, 1), 1, "3_3_1_1_1_1_2_1_0_8"),
        ((1, 5, 14, 14), (5, 1, 3, 3), (1, 1), 5, "3_3_1_1_1_1_7_1_1_1"),
        ((1, 5, 13, 14), (5, 1, 3, 3), (1, 1), 5, "3_3_1_1_1_1_4_1_1_1"),
    ],
)
def test_which_code_a_direct_convolution_is(
    native: cpu.LlvmCompiler, x: Any, w: Any, padding: Any, groups: int, name: str
) -> None:
    if native.machine.bits < 512:
        pytest.skip("fewer registers, and narrower ones, have other code")
    images, weight = np.ones(x, np.float32), np.ones(w, np.float32)
    out = np.empty((x[0], w[0], *x[2:]), np.float32)
    attrs = (1, 1), padding, (1, 1), groups
    found = native.routine(REGISTRY["conv"], [images, weight], attrs, out)
    assert found is not None
    assert found[0][0] == f"conv.direct_{name}.float32"


def test_a_convolution_does_what_follows(native: cpu.LlvmCompiler) -> None:
    """In one launch, after one that computes what channels have."""
    weights = {1: tensor(40, 20, 1, 1), 20: tensor(20, 1, 3, 3)}

    def fn(x: pf.Tensor, groups: int, scale: pf.Tensor) -> pf.Tensor:
        return F.conv2d(x, weights[groups], None, 1, groups > 1, 1, groups) * scale.exp()

    depthwise = "conv.direct_3_3_1_1_1_1_4_1_1_1.float32"
    for groups, name in ((1, "conv.conv.float32"), (20, depthwise)):
        f = pf.compile(functools.partial(fn, groups=groups))
        with pf.inference_mode():
            f(tensor(2, 20, 12, 14), scale=tensor(len(weights[groups]), 1, 1))
        launches = [s.launch for s in plan_of(f).loaded]
        assert [n.routine or "values" for n in launches] == ["values", name]


@pytest.mark.parametrize("native", [1, 5], indirect=True)
@pytest.mark.parametrize(
    ("x", "w", "padding", "groups"),
    [
        ((2, 34, 28, 28), (40, 34, 3, 3), 1, 1), ((1, 2, 2, 2), (2, 2, 3, 3), 1, 1),
        ((5, 8, 7, 9), (6, 4, 3, 3), 1, 2), ((3, 300, 9, 5), (3, 300, 3, 3), 2, 1),
        ((7, 40, 5, 70), (35, 40, 3, 3), 1, 1),
    ],
)  # fmt: skip
def test_fewer_multiplications(
    native: cpu.LlvmCompiler,
    monkeypatch: pytest.MonkeyPatch,
    x: Any,
    w: Any,
    padding: int,
    groups: int,
) -> None:
    monkeypatch.setattr(direct, "MAX_UNROLLED_TAPS", 0)
    monkeypatch.setattr(direct, "POSITIONS", 0)
    monkeypatch.setattr(winograd, "WINOGRAD_MIN_SIZE", 2)
    monkeypatch.setattr(winograd, "GAIN", -(1 << 40))
    images, weight = (np.random.standard_normal(shape).astype(np.float32) for shape in (x, w))
    attrs = (1, 1), (padding, padding), (1, 1), groups
    narrow = {np.dtype(np.float32): Tile("f32", 4, 6)}
    for tiles in (native.machine.tiles, narrow):
        native.machine = native.machine._replace(tiles=tiles)
        y = convolved(native, "conv", images, weight, attrs)
        assert native.routine(REGISTRY["conv"], [images, weight], attrs, y)[-1][0] == (
            "conv.tiles.float32"
        )
        g = np.random.standard_normal(y.shape).astype(np.float32)
        convolved(native, "conv_input", g, weight, (images.shape[2:], *attrs))


def convolved(native: cpu.LlvmCompiler, name: str, a: Any, b: Any, attrs: Any) -> np.ndarray:
    """What the routine of an op gives, which is compared with NumPy's."""
    op = REGISTRY[name]
    assert op.numpy is not None
    want = op.numpy(a.astype(np.float64), b.astype(np.float64), *attrs)
    sizes = op.numpy(np.abs(a).astype(np.float64), np.abs(b).astype(np.float64), *attrs)
    out = np.full(want.shape, np.nan, a.dtype)
    run(native, op, [a, b], attrs, out)
    assert (np.abs(out - want) <= 1e-5 * sizes + 1e-30).all()
    return out


def test_an_index_out_of_range_is_named(native: cpu.LlvmCompiler) -> None:
    take = REGISTRY["take_rows"]
    f = pf.compile(lambda x, at: apply(take, (x, at)) * 2)
    x = tensor(7, 40)
    at = pf.tensor([1, 3, 6])
    for _ in range(3):
        f(x, at)
    for _ in range(2):
        with pytest.raises(IndexError, match="index 7 is out of bounds for size 7"):
            f(x, pf.tensor([1, 7, 6]))
        np.testing.assert_array_equal(f(x, at).numpy(), 2 * x.numpy()[[1, 3, 6]])


def test_products_that_are_left_to_numpy(native: cpu.LlvmCompiler) -> None:
    x = np.ones((4, 6), np.float32)
    cases = [(x[:, ::2], x[:3]), (x.astype(np.float16),) * 2, (x[:, :0], x[:0])]
    for a, b in cases:
        out = np.zeros((a.shape[0], b.shape[1]), a.dtype)
        assert native.routine(pf.ops.matmul.matmul_op, [a, b], (), out) is None


def test_results_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found is not None
    seen = []
    x = tensor(700, 500)
    w = tensor(500, 300)
    for threads in (1, 2, 3, 7):
        native = cpu.LlvmCompiler(found, threads)
        monkeypatch.setattr(chosen, "compiler", lambda native=native: native)
        f = pf.compile(lambda x, w: ((x @ w).exp().sum(), (x * x).sum(0), x.softmax(1)))
        for _ in range(3):
            seen.append([t.numpy().copy() for t in f(x, w)])
    for some in seen[1:]:
        for a, b in zip(seen[0], some, strict=True):
            np.testing.assert_array_equal(a, b)


def test_threads_run_plans_at_the_same_time(native: cpu.LlvmCompiler) -> None:
    fs = [pf.compile(lambda x, n=n: (x * n).exp().sum(1)) for n in range(4)]
    x = tensor(300, 200) / 10
    want = [np.exp(x.numpy() * n).sum(1) for n in range(4)]

    def work(n: int) -> bool:
        return all(np.allclose(fs[n](x).numpy(), want[n], 1e-3) for _ in range(60))

    for f in fs:
        f(x)
    assert together(work, 4) == [True] * 4


def test_threads_sleep_when_there_is_nothing_to_do(native: cpu.LlvmCompiler) -> None:
    f = pf.compile(lambda x: x.exp() + 1)
    f(tensor(1000, 1000))
    workers = cpu.workers(native.threads)
    for _ in range(200):
        if len(workers.asleep) == workers.count:
            break
        time.sleep(0.02)
    assert len(workers.asleep) == workers.count == len(workers.threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_has_threads_of_its_own(native: cpu.LlvmCompiler) -> None:
    x = tensor(1000, 1000)
    f = pf.compile(lambda x: x.exp() + 1)
    want = f(x).numpy().copy()
    pid = os.fork()
    if not pid:
        os._exit(0 if (f(x).numpy() == want).all() else 1)
    assert os.waitpid(pid, 0)[1] == 0


# --- what is known of kernels


def compiled_by(made: llvm.JIT, monkeypatch: pytest.MonkeyPatch) -> tuple[cpu.LlvmCompiler, Any]:
    """A new compiler, and what a step gives with it."""
    native = cpu.LlvmCompiler(made, 1)
    monkeypatch.setattr(chosen, "compiler", lambda: native)
    x = pf.arange(60.0).reshape(5, 12)

    def step(x: Any) -> Any:
        y = (x * 0.1).exp() + 1
        return y.sum(0), pf.cat([y, x]).t() * 2, x[:, [3, 1]]

    f = pf.compile(step)
    return native, [[y.tolist() for y in f(x)] for _ in range(3)]


def test_a_kernel_is_printed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process finds by the kernel what another one printed, and prints it where that is gone."""
    first, expected = compiled_by(made(tmp_path), monkeypatch)
    assert first.known
    assert first.new == {}
    objects = {key.decode().split()[0] for key in first.known.values()}
    assert {*first.known, *objects} < {f.name for f in tmp_path.iterdir()}
    with monkeypatch.context() as patched:
        patched.setattr(cpu, "lower", None)
        patched.setattr(planned, "text", None)
        second, found = compiled_by(made(tmp_path), patched)
        assert found == expected
        assert second.jit.counts["compiled"] == 0
        _, found = compiled_by(second.jit, patched)
        assert found == expected
    for key in objects:
        (tmp_path / key).unlink()
    third, found = compiled_by(made(tmp_path), monkeypatch)
    assert found == expected
    assert third.jit.counts["compiled"] == len(objects)


def test_identities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that differ have others, and what a user's op means has none."""
    kernels: list[Kernel] = []
    printed = cpu.LlvmCompiler.printed

    def noted(self: cpu.LlvmCompiler, kernel: Kernel) -> cpu.KernelSource:
        kernels.append(kernel)
        return printed(self, kernel)

    monkeypatch.setattr(cpu.LlvmCompiler, "printed", noted)
    train(2, pf.compile)
    compiled_by(made(), monkeypatch)
    names = {repr(kernel): identity_of(kernel) for kernel in kernels}
    assert len(names) > 20
    assert None not in names.values()
    assert len({*names.values()}) == len(names)
    exp = next(k for k in kernels if any(isinstance(i, Apply) and i.op == "exp" for i in k.code))
    load = next(i for i in exp.code if isinstance(i, Apply))
    odd = dataclasses.replace(exp, code=(load._replace(attrs=(object(),)), *exp.code))
    assert identity_of(odd) is None
    with monkeypatch.context() as patched:
        meaning = REGISTRY["exp"].scalar
        patched.setattr(REGISTRY["exp"], "scalar", functools.wraps(meaning)(lambda x: meaning(x)))
        assert identity_of(exp) is None
    identity.sources.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(identity, "IMPORT_TIME", 0)
        assert identity_of(exp) is None
    identity.sources.cache_clear()
