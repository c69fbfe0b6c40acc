"""Scalars as WGSL: what a GPU computes of an expression is what NumPy does."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe.codegen.wgsl import generate, printer, scalars
from pyframe.core.dispatch import apply
from pyframe.core.limits import Limits
from pyframe.core.op import REGISTRY, const
from pyframe.graph import scalar as s
from pyframe.graph.scalar import Scalar
from pyframe.ops.math.promotion import op
from tests.backend.cases import limited
from tests.graph.plans import plan, value
from tests.interpreted import evaluate

A = np.array([0, 1, -1, 5, -7, 31, 1000, -(2**31), 2**31 - 1, 123456789], np.int32)
B = np.array([3, -1, 2, 7, 5, 2**31 - 1, -1000, 2, -3, 9], np.int32)


@pytest.fixture
def declared() -> Iterator[Callable[..., Any]]:
    """Declares ops for one test."""
    names: list[str] = []

    def declare(name: str, inputs: str, scalar: Any) -> Any:
        def numpy(*arrays: np.ndarray) -> np.ndarray:
            types = tuple([f"{x.dtype.kind}{x.dtype.itemsize * 8}" for x in arrays])
            return evaluate(s.meaning_of(scalar, types, types[-1]), arrays)

        names.append(name)
        return op(name, inputs, numpy, scalar)

    yield declare
    for name in names:
        del REGISTRY[name]


def some_int(rng: random.Random, known: list[Scalar], depth: int) -> Scalar:
    """A random expression of i32; parts come in it more than once."""
    if not depth or rng.random() < 0.1:
        return rng.choice(known)
    a = some_int(rng, known, depth - 1)
    kind = rng.choice("unary binary binary binary number shift select cast".split())
    if kind == "unary":
        out = rng.choice([lambda: -a, lambda: ~a, lambda: s.bitcast(s.bitcast(a, "u32"), "i32")])()
    elif kind == "number":
        out = a + rng.choice([-(2**31), -5, 3, 2**31 - 1])
    elif kind == "shift":
        out = rng.choice([lambda: a << 3, lambda: a >> 5, lambda: a >> (known[0] & 31)])()
    elif kind == "cast":
        high = s.cast(a, "u32") / 3 % 1000
        out = s.cast(high - rng.choice([1, 2]) * high, "i32")
    else:
        b = some_int(rng, known, depth - 1)
        if kind == "select":
            order = rng.choice([lambda: a < b, lambda: (a <= b) & s.ne(a, 5) | s.eq(b, 1)])()
            out = s.select(order ^ (a > 0) if rng.random() < 0.5 else ~order, a, b)
        else:
            name = rng.choice("add sub mul and or xor min max div rem".split())
            if name in ("div", "rem"):
                b = (b & 15) + 1
            out = Scalar(name, (a, b), "i32")
    known.append(out)
    return out


@pytest.mark.parametrize("seed", range(6))
def test_random_expressions(gpu: str, declared: Any, seed: int) -> None:
    """Whatever is within whatever: parentheses stand where WGSL needs them."""

    def scalar(a: Scalar, b: Scalar) -> Scalar:
        rng = random.Random(seed)
        known = [a, b]
        return some_int(rng, known, 5) ^ some_int(rng, known, 5)

    random_op = declared(f"random_expression_{seed}", "a b", scalar)
    on = [pf.tensor(x, device=gpu) for x in (A, B)]
    got = apply(random_op, tuple(on)).cpu().numpy()
    np.testing.assert_array_equal(got, random_op.numpy(A, B))


def test_a_function_without_text_of_its_own(gpu: str, declared: Any) -> None:
    """It is printed from its definition, once, and those that it calls."""

    def inner(x: Scalar) -> Scalar:
        y = x * x + 1.0
        return y * y - s.sqrt(y) + s.abs(x) * y

    def outer(x: Scalar, y: Scalar) -> Scalar:
        z = inner_call(x) + inner_call(y) * 0.5
        return s.select(z > 3.0, z - x * y, z + inner_call(z))

    try:
        inner.__name__, outer.__name__ = "inner_for_a_test", "outer_for_a_test"
        inner_call, outer_call = s.function(inner), s.function(outer)
        made = declared("calls_functions", "x y", lambda x, y: outer_call(x, y) * outer_call(y, x))
        x, y = np.linspace(-2, 2, 9, dtype=np.float32), np.linspace(1, 0.5, 9, dtype=np.float32)
        got = apply(made, (pf.tensor(x, device=gpu), pf.tensor(y, device=gpu))).cpu().numpy()
        np.testing.assert_allclose(got, made.numpy(x, y), rtol=1e-5)
        text = scalars.definition("pf_outer_for_a_test_f32")
        assert text.startswith("fn pf_outer_for_a_test_f32(x0: f32, x1: f32) -> f32 {")
        assert text.count("pf_inner_for_a_test_f32(") == 3
    finally:
        for name in ("inner_for_a_test", "outer_for_a_test"):
            s.FUNCTIONS.pop(name, None)


def test_a_function_that_is_nowhere() -> None:
    with pytest.raises(RuntimeError, match="no function pf_nothing_f32 in shaders/lib"):
        scalars.definition("pf_nothing_f32")


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [(True, "bool", "true"), (0, "f32", "0.0"), (1e39, "f32", "pf_inf_f32()"),
     (-np.inf, "f32", "pf_ninf_f32()"), (np.nan, "f32", "pf_nan_f32()"), (7, "i32", "7"),
     (2.0**-24, "f32", "5.960464477539063e-08"), (-1, "u32", "4294967295u"),
     (-(2**31), "i32", "(-2147483647 - 1)")],
)  # fmt: skip
def test_literals(value: Any, type: str, text: str) -> None:
    assert scalars.literal(value, type) == text


def test_only_logic_is_chained() -> None:
    """Chromium refuses `a >> b >> c` and `a == b == c`, which Mesa's way takes."""
    a, b = (Scalar("arg", (), "i32", n) for n in (0, 1))
    texts = [scalars.text_of(x, ["a", "b"], str) for x in ((a >> 3) >> 2, (a | b) | 1, (a & b) ^ b)]
    assert texts == ["(a >> 3u) >> 2u", "a | b | 1", "(a & b) ^ b"]


def test_every_primitive_has_text() -> None:
    """`narrow` is text of its own for each dtype that a GPU has in a wider register."""
    known = {name for name, _ in scalars.CALLS} | scalars.OPERATORS.keys() | {"neg", "not"}
    assert s.PRIMITIVES - known == {"narrow"}
    assert ("narrow to bfloat16", "f32") in scalars.CALLS


# --- rows and columns, by threads that share a result and by one alone


@pytest.fixture(params=["", "software"], ids=["together", "alone"])
def form(gpu: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The GPU, whose threads share results, or each has its own as on a software adapter."""
    with limited(dataclasses.replace(pf.device(gpu).backend.limits, kind=request.param)):
        yield gpu


def _hard(*shape: int) -> Any:
    """Numbers whose exponentials overflow, with a row of -inf and one that has inf in it."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x[0] *= 1e4
    x[1, 1:] = -np.inf
    return x


ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "softmax": lambda F, x: F.softmax(x, -1),
    "log_softmax": lambda F, x: F.log_softmax(x, -1),
    "layer_norm": lambda F, x: F.layer_norm(
        x.clamp(-9, 9) * pf.arange(x.shape[1], device=x.device).cos(), x.shape[1:]
    ),
    "cross_entropy": lambda F, x: F.cross_entropy(x, (x[:, 0] * 0).long(), reduction="none"),
    "columns": lambda F, x: x.clamp(-9, 9).sum(0),
    "argmax": lambda F, x: x.gather(1, x.argmax(-1, True)).clamp(-9, 9),
    "cumsum": lambda F, x: x.clamp(-9, 9).cumsum(-1) / x.shape[1],
    "cumsum of columns": lambda F, x: x.clamp(-9, 9).cumsum(0) / x.shape[0],
    "logcumsumexp": lambda F, x: x.clamp(-9, 9).logcumsumexp(-1),
    "whole": lambda F, x: x.clamp(-9, 9).softmax(-1).square().sum(),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize(
    "shape", [(3, 1), (4, 10), (5, 33), (7, 300), (70, 65), (2, 1025), (4, 5000)]
)
def test_rows(form: str, name: str, shape: tuple[int, int]) -> None:
    found = []
    for device in ("cpu", form):
        x = pf.tensor(_hard(*shape), device=device, requires_grad=True)
        y = ROWS[name](pf.nn.functional, x)
        (g,) = pf.autograd.grad((y * y.detach().cos()).sum(), x)
        found.append([y.detach().cpu().numpy(), g.cpu().numpy()])
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(want, got, 1e-4, 1e-5)


@pytest.mark.parametrize(("n", "each", "groups"), [(10, 10, 1), (100, 4, 8), (1000, 4, 64)])
def test_a_short_row_is_read_once(lazy: Any, n: int, each: int, groups: int) -> None:
    """Each element is one read and one exponential of a thread; a workgroup has several rows."""
    x = value(lazy, 64, n)
    (kernel,) = plan(x.softmax(-1))[0].kernels
    shader = generate(kernel)
    assert shader.grid == (groups, 1, 1)
    body = shader.code[shader.code.index("fn main") :]
    assert body.count("= b0[") == body.count("pf_exp_f32(") == each
    assert "for (var r" not in body


def test_sums_of_a_row_are_shared_at_once(lazy: Any) -> None:
    x = value(lazy, 64, 128)
    (kernel,) = plan(pf.var_mean(x, -1)[0] + x.amax(-1) + x.amin(-1))[0].kernels
    assert generate(kernel).code.count("for (var half") == 2  # the variance waits for the mean


# --- four elements a thread

MAPS: dict[str, Callable[[Any, Any], Any]] = {
    "contiguous": lambda x, y: x * 2 + y.exp(),
    "rows and columns": lambda x, y: (x + y[:1]) * y[:, :1] - y[0, 0],
    "parts": lambda x, y: x.flatten()[8:-8] * y.flatten()[16:],
    "parts at odd places": lambda x, y: x.flatten()[9:-7] * y.flatten()[16:],
    "turned": lambda x, y: x.T + y.reshape(12, 6),
    "repeated": lambda x, y: x.expand(3, 6, 12) * y,
    "bools and ints": lambda x, y: ((x > 0) & (y < 1)).int() * (x * 9).int() + (y > 2),
    "half": lambda x, y: x.half() * y.half(),
    "bfloat16": lambda x, y: x.bfloat16() * y.bfloat16(),
    "stored bfloat16": lambda x, y: pf.cat([x.bfloat16(), y.bfloat16()]) * 2,
    "bytes": lambda x, y: pf.cat([(x * 50).to(pf.int8), (y * 50).to(pf.int8)]) + 1,
    "two in a word": lambda x, y: pf.stack([(x * 50).to(pf.int16), (y * 9).to(pf.int16)]) - 1,
    "stored bools": lambda x, y: ~pf.cat([x > 0, y > 0], 1),
    "several": lambda x, y: pf.stack([x + y, (x - y).sin()]).unbind()[1] + x,
    "padded": lambda x, y: pf.nn.functional.pad(x, (0, 4)) + 1,
    "numbered": lambda x, y: x + pf.arange(12, device=x.device),
}


@pytest.mark.parametrize("name", MAPS)
def test_maps_of_fours(gpu: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if name == "half" and not pf.device(gpu).backend.limits.float16:
        pytest.skip("this GPU has no float16")
    monkeypatch.setattr(printer, "VEC4_MIN_ELEMENTS", 0)
    generate.cache_clear()
    pf.device(gpu).executor.forget_programs()
    rng = np.random.default_rng(0)
    x, y = [rng.standard_normal((6, 12)).astype(np.float32) for _ in "xy"]
    found = [MAPS[name](pf.tensor(x, device=d), pf.tensor(y, device=d)) for d in ("cpu", gpu)]
    np.testing.assert_allclose(found[1].cpu().float(), found[0].float(), 2e-3, 1e-6)
    z = pf.tensor(x, device=gpu)
    z.mul_(pf.tensor(y, device=gpu)).add_(1)
    np.testing.assert_allclose(z.cpu().numpy(), x * y + 1, 1e-6)
    generate.cache_clear()
    pf.device(gpu).executor.forget_programs()


# --- several elements in a word

PACKED = [pf.bfloat16, pf.int8, pf.uint8, pf.int16, pf.uint16, pf.bool]


def packed(d: Any, device: str, *shape: int) -> Any:
    x = np.random.default_rng(math.prod(shape)).integers(0, 100, shape)
    return pf.tensor(x % 3 == 0 if d is pf.bool else x).to(d).to(device)


def written(x: Any, y: Any) -> Any:
    """Parts of `x` in place, from odd places on."""
    flat = x.reshape(-1)[1:]
    flat[::3] = y[0, 0]
    flat[4:9].copy_(y[1, 2])
    x[1:4, 1] = y[:3, 0]
    x[-1] = y[5]
    x.index_put_((pf.tensor([6, 2], device=x.device),), y[3:5])
    return x


SHARED: dict[str, Callable[[Any, Any], Any]] = {
    "a view at an odd place": lambda x, y: x[1:, 1:],
    "a part at an odd place": lambda x, y: x.reshape(-1)[1:].clone()[2:],
    "joined": lambda x, y: pf.cat([x[1:], y, x[:1]]),
    "rows": lambda x, y: x[pf.tensor([5, 0, 5, 3], device=x.device)],
    "written to": lambda x, y: written(x.clone(), y),
}


@pytest.mark.parametrize("d", PACKED, ids=lambda d: d.name)
@pytest.mark.parametrize("name", SHARED)
def test_elements_that_share_words(gpu: str, name: str, d: Any) -> None:
    """They are read and written one by one, wherever they lie."""
    for rows in (7, 9):
        found = [SHARED[name](packed(d, on, rows, 3), packed(d, on, 7, 3)) for on in ("cpu", gpu)]
        want, got = [f if isinstance(f, tuple) else (f,) for f in found]
        for a, b in zip(want, got, strict=True):
            assert a.dtype is b.dtype
            np.testing.assert_array_equal(b.cpu().float(), a.float())


def _put(x: Any, y: Any) -> Any:
    """Rows by few indices, by many, and one over what nobody else reads."""
    index = (pf.arange(5, device=x.device) * 3 % max(x.shape[0], 1))[: x.shape[0]]
    few = x.index_copy(0, index, y[: len(index)])
    with pf.no_grad():
        over = x.clone()
        over[-1:] = y[:1]
        over[:, 1:2] = 1
    return few, over


SMALL_INTS: dict[str, Callable[[Any, Any, Any], Any]] = {  # x and y: small whole floats
    "rows": lambda x, y, d: (x - x.sum(1, True)).to(d),
    "rows and columns": lambda x, y, d: ((x - x.amax(1, True)).to(d), (x + x.sum(1, True)) > 0),
    "of rows": lambda x, y, d: (x.amax(1).to(d), x.sum(1) > 0, x.amin(1)),
    "of columns": lambda x, y, d: (x.sum(0).to(d), x.amax(0) > 1),
    "of all": lambda x, y, d: (x.sum().to(d), x.sum() > 0),
    "twice": lambda x, y, d: ((x.sum(1) > 0) & (x.sum(1).amax() > 3), x.sum(1).sum().to(d)),
    "in place": lambda x, y, d: x.to(d).clone().add_(x.sum(1, True).to(d)),
    "products": lambda x, y, d: ((x @ y.T).to(d), (x.T @ y) > 1),
    "batches": lambda x, y, d: (pf.stack([x, y]) @ pf.stack([y, x]).mT).to(d),
    "a row": lambda x, y, d: ((x[:1] @ y.T).to(d), (x @ y[:1].T > 0), (x.T @ y[:, :1]).to(d)),
    "scans": lambda x, y, d: (x.cumsum(1).to(d), x.cumsum(0) > 0),
    "taken": lambda x, y, d: x.to(d)[pf.tensor([0, 0], device=x.device)[: len(x)]],
    "looked for": lambda x, y, d: pf.searchsorted(x.sort(1)[0], y).to(d),
    "put": lambda x, y, d: _put(x.to(d), y.to(d)),
    "added": lambda x, y, d: pf.zeros(9, x.shape[1], device=x.device).index_add(
        0, pf.arange(x.shape[0], device=x.device) % 9, x).to(d),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("d", [pf.bfloat16, pf.int8, pf.bool], ids=lambda d: d.name)
@pytest.mark.parametrize("name", SMALL_INTS)
def test_words_of_odd_shapes(form: str, monkeypatch: pytest.MonkeyPatch, name: str, d: Any) -> None:
    """Whole words, and those that threads share, are the same, whatever lies at their ends."""
    shapes = [(1, 1), (7, 1), (1, 70), (6, 8), (9, 68), (66, 33), (3, 4100)]
    if name in ("rows", "products", "scans"):
        shapes += [(0, 4), (4, 0)]
    at = list(SMALL_INTS).index(name) + len(d.name)  # three of each four, other ones for each
    for shape in (shape for n, shape in enumerate(shapes) if (n + at) % 4):
        rng = np.random.default_rng(0)
        x, y = [rng.integers(-2, 3, shape).astype(np.float32) for _ in "xy"]
        found = [
            SMALL_INTS[name](*(pf.tensor(v, device=on) for v in (x, y)), d) for on in ("cpu", form)
        ]
        want, got = [f if isinstance(f, tuple) else (f,) for f in found]
        for a, b in zip(want, got, strict=True):
            assert a.dtype is b.dtype
            np.testing.assert_array_equal(b.cpu().float(), a.float(), str(shape))


@pytest.mark.parametrize("d", PACKED, ids=lambda d: d.name)
def test_what_packed_elements_take(gpu: str, d: Any) -> None:
    """As many bytes as on the CPU: in memory, on the way there, and in what a kernel moves."""
    x, stats = packed(d, "cpu", 4096, 4), pf.device(gpu).executor.stats
    before = stats.bytes_uploaded
    y = x.to(gpu)
    assert stats.bytes_uploaded - before == x.nbytes == y.nbytes
    assert y._storage.node.data.nbytes == x.nbytes
    program, *_ = plan(pf.where(y == y[:1], y, y[0, 0]))
    assert [program.slots[s].nbytes for s in program.outputs] == [x.nbytes]


def test_numbers_that_are_none_stay_none(gpu: str) -> None:
    """In bfloat16 too, whose half has none of a NaN's lower bits."""
    bits = np.array([0x7F800001, 0xFF80FFFF, 0x7FC00000, 0x7F800000], np.uint32)
    x = pf.tensor(bits.view(np.float32))
    for y in (x.bfloat16().to(gpu), x.to(gpu).bfloat16()):
        assert y.isnan().tolist() == [True, True, True, False]
        assert y.cpu().isnan().tolist() == [True, True, True, False]


@pytest.mark.parametrize("shape", [(8, 512), (3, 5)])
def test_four_random_words_are_drawn_at_once(gpu: str, shape: tuple[int, ...]) -> None:
    """Where a thread has four elements; the numbers are the same in any case."""
    x = pf.rand(*shape, device=gpu, generator=pf.Generator(gpu).manual_seed(7))
    want = pf.rand(*shape, generator=pf.Generator().manual_seed(7))
    np.testing.assert_array_equal(x.cpu().numpy(), want.numpy())


def test_how_often_random_words_are_drawn(lazy: Any) -> None:
    """Once for four elements of a map, once for each where rows are not of fours."""
    key = [const(n, pf.uint32, lazy) for n in (1, 2, 3)]
    for shape, calls in (((8, 512), 1), ((3, 5), 0)):
        bits = apply(REGISTRY["random_bits"], (*key,), (shape,))
        (kernel,) = plan(value(lazy, *shape) * (bits > 99))[0].kernels
        code = generate(kernel).code
        assert code.count("= pf_philox_four(") == calls
        assert ("= pf_philox_u32" in code) == (not calls)


def test_which_maps_are_of_fours(lazy: Any) -> None:
    """Those of many elements whose neighbours lie side by side, everywhere from a fourth place on;
    others read as they did."""
    x, row = value(lazy, 1024, 256), value(lazy, 256)
    for y, fours in (
        (x * row, True), (x[:, 4:] + 1, True), (x[:, 2:] + 1, False), (x.T + 1, True),
        (x.T + x.reshape(256, 1024), False), (x[:256] + 1, False), (x.flip(1), False),
        (x.half() * 2, True), (x[:, :1] * row, True),
    ):  # fmt: skip
        (kernel,) = plan(y)[0].kernels
        shader = generate(kernel)
        assert ("array<vec4<f" in shader.code) == fours, shader.code
        assert math.prod(shader.grid) == -(-math.prod(kernel.space) // (1024 if fours else 256))
        assert "array<vec4<f" not in generate(kernel, Limits(kind="software")).code
