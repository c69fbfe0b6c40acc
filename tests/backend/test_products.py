"""Products of matrices on a GPU: every variant of the table, whichever a device would choose."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import nn
from pyframe.codegen.wgsl import generate, products
from pyframe.codegen.wgsl.products import GPU, SOFTWARE, GpuTarget, TileConfig
from pyframe.core.dispatch import apply
from pyframe.core.limits import Limits
from pyframe.nn.quantized import BITS, _floats, _pack, packed_linear
from pyframe.runtime.offline import offline_device
from pyframe.tools.cost import totals
from tests.backend.cases import in_rows_of_three, limited

REAL_KERNELS = True

LEAST = Limits()
VARIANTS = {f"{v.form}-{v.threads}-{v.bm}x{v.bn}-{v.rm}x{v.rn}": v for v in (*GPU, *SOFTWARE)}


def only(monkeypatch: pytest.MonkeyPatch, v: TileConfig) -> None:
    """Let all devices have this variant alone; few rows only where it takes them."""
    more = GPU[4:5] if v.form == "vectors" else ()
    monkeypatch.setattr(
        products, "MACHINES", dict.fromkeys(products.MACHINES, GpuTarget(1, (v, *more)))
    )
    generate.cache_clear()


@pytest.fixture(params=VARIANTS)
def variant(request: Any, gpu: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """One of the table, which a GPU with no more than WebGPU promises has alone."""
    has = pf.device(gpu).backend.limits
    only(monkeypatch, VARIANTS[request.param])
    with limited(dataclasses.replace(LEAST, float16=has.float16, kind=has.kind)):
        yield request.param


def ints(*shape: int, seed: int = 0) -> np.ndarray:
    """Small whole numbers as floats: their sums are exact in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def turned(x: np.ndarray, how: str) -> tuple[np.ndarray, Callable[[Any], Any]]:
    """What lies in memory for operand `x`, and the view of it that the operand is."""
    if how == "t":
        return np.ascontiguousarray(np.swapaxes(x, -1, -2)), lambda t: t.transpose(-1, -2)
    if how == "s":  # each second column
        return np.repeat(x, 2, -1), lambda t: t[..., ::2]
    if how == "o":  # from an odd position on
        wide = np.concatenate([x[..., :1, :], x], -2)
        return wide, lambda t: t[..., 1:, :]
    if how == "f":
        return x[..., ::-1].copy(), lambda t: t.flip(-1)
    return x, lambda t: t


# m, n, k, batch, how a and b lie
LAYOUTS = [
    (1, 1, 1, 1, "nn"), (3, 17, 65, 1, "nt"), (65, 130, 36, 1, "tn"), (17, 3, 130, 2, "tt"),
    (64, 64, 64, 1, "tt"), (8, 132, 68, 2, "nn"), (132, 8, 68, 1, "tn"), (5, 200, 96, 1, "nt"),
    (130, 65, 3, 1, "ns"), (20, 12, 100, 2, "of"), (2, 3, 65, 1, "ft"), (128, 128, 32, 1, "nn"),
]  # fmt: skip


def test_layouts(variant: str, gpu: str) -> None:
    """Odd shapes, and operands that lie as they are, turned, apart, from the middle on, flipped;
    a third of the table for each variant, so that each row is tried with several."""
    at = list(VARIANTS).index(variant)
    for i, (m, n, k, batch, how) in enumerate(LAYOUTS):
        if (i + at) % 3:
            continue
        a, b = ints(batch, m, k), ints(batch, k, n, seed=1)
        (xa, of_a), (xb, of_b) = turned(a, how[0]), turned(b, how[1])
        y = of_a(pf.tensor(xa, device=gpu)) @ of_b(pf.tensor(xb, device=gpu))
        np.testing.assert_array_equal(y.cpu(), a @ b, str((m, n, k, batch, how)))


def test_packed_weights(variant: str, gpu: str) -> None:
    """They are unpacked as they are loaded."""
    at = list(VARIANTS).index(variant)
    for i, (m, k, n, group) in enumerate([(1, 160, 70, 32), (9, 64, 33, 64), (40, 320, 3, 64)]):
        layer = nn.Linear(k, n).to(gpu)
        pf.quantize_(layer, ("int8", "int4")[(i + at) % 2], group, symmetric=(i + at) % 4 < 2)
        x = pf.tensor(ints(m, k), device=gpu)
        with pf.no_grad():
            y = layer(pf.relu(x)).cpu().numpy()
            expected = pf.relu(x).cpu() @ layer.weight.cpu().T + layer.bias.cpu()
        np.testing.assert_allclose(y, expected.numpy(), 1e-4, 1e-3)


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("dots", [True, False])
@pytest.mark.parametrize("kind", ["", "software"])
def test_packed_weights_of_ints(
    mode: str, dots: bool, kind: str, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums within a group are NumPy's, with the language's own function for them and without."""
    executor, rng = pf.device(gpu).executor, np.random.default_rng(0)
    limits = dataclasses.replace(executor.backend.limits, dots=dots, kind=kind)
    monkeypatch.setattr(executor.backend, "limits", limits)
    executor.forget_programs()
    for i, (m, k, n, group) in enumerate([(1, 160, 70, 32), (7, 64, 33, 64), (40, 96, 5, 96)]):
        weight, bits = pf.tensor(ints(n, k)), BITS[mode]
        packed, scale, *offset = _pack("", weight, bits, group, i != 1)
        x = pf.tensor(rng.integers(-127, 128, (1, m, k)).astype(np.int8))
        given, attrs = (x, packed, scale, (offset or [scale])[0]), (bits, i != 1)
        expected = packed_linear.numpy(*[a.numpy() for a in given], *attrs)  # type: ignore[misc]
        y = apply(packed_linear, tuple(a.to(gpu) for a in given), attrs)
        np.testing.assert_allclose(y.cpu().numpy(), expected, 1e-6, 1e-5 * np.abs(expected).max())
        if i == 2:  # one group: nothing but its scale is float
            sums = np.rint(expected / scale.numpy().T)
            assert np.array_equal(np.rint(y.cpu().numpy() / scale.numpy().T), sums)
    executor.forget_programs()


@pytest.mark.parametrize(
    ("mode", "activations"), [("int8", None), ("int4", None), ("int4", "int8")]
)
@pytest.mark.parametrize("rows", [1, 300])
def test_a_packed_weight_is_read_as_it_lies(mode: str, activations: Any, rows: int) -> None:
    """On a large GPU nothing holds it as floats."""
    with offline_device(LEAST) as device:
        layer = nn.Linear(1024, 512, bias=False)
        pf.quantize_(layer, mode, 128, activations=activations).to(device)
        run = pf.compile(lambda x: layer(x))
        with pf.no_grad():
            run(pf.zeros(rows, 1024, device=device))
        moved = totals(run.programs).bytes_moved
    weight = 512 * 1024 * BITS[mode] // 8 + 4 * 512 * 8
    given = rows * (1024 * 4 if activations is None else 1024 * (4 + 4 + 1 + 1) + 4 * 4)
    assert weight + rows * 512 * 4 < moved <= weight + given + rows * 512 * 4


def test_what_fuses(variant: str, gpu: str) -> None:
    """What comes before and after a product: numbers of operands, one of them on a batch of the
    other, several results, and an operand that is read again."""
    a, b, c = ints(2, 12, 36), ints(36, 20, seed=1), ints(20, seed=2)
    x, w, bias = [pf.tensor(v, device=gpu) for v in (a, b, c)]
    z = pf.bmm(pf.relu(x), (2.0 * w).expand(2, 36, 20)) + bias
    y = pf.relu(z)
    want = np.maximum(a, 0) @ (2 * b) + c
    np.testing.assert_array_equal(z.cpu(), want)
    np.testing.assert_array_equal(y.cpu(), np.maximum(want, 0))
    heads = ints(2, 3, 5, 8, seed=4)  # beside each other, as those of attention are
    joined = pf.tensor(heads, device=gpu).transpose(1, 2).reshape(10, 24)
    want = heads.transpose(0, 2, 1, 3).reshape(10, 24)
    s = ints(24, 24, seed=3)
    np.testing.assert_array_equal((joined @ pf.tensor(s, device=gpu)).cpu(), want @ s)
    np.testing.assert_array_equal((joined.T @ joined).cpu(), want.T @ want)
    t = pf.tensor(s, device=gpu)
    np.testing.assert_array_equal((t @ t.T + t).cpu(), s @ s.T + s)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("shape", [(1001, 70), (1000, 68)])
def test_sums_of_rows(variant: str, gpu: str, shape: tuple[int, int], wide: bool) -> None:
    """A product that has the sums of what it reads stored too, of rows or columns side by side."""
    g, x = ints(*shape), ints(shape[0], 67, seed=1)
    y, t = (pf.tensor(v, device=gpu) for v in (g, x))
    if wide:
        y = pf.tensor(np.ascontiguousarray(g.T), device=gpu).t().contiguous()
    weight, bias = y.t() @ t, y.sum(0)
    del y  # which then needs no buffer of its own
    np.testing.assert_array_equal(bias.cpu(), g.sum(0))
    np.testing.assert_array_equal(weight.cpu(), g.T @ x)


def test_extremes(variant: str, gpu: str) -> None:
    """What lies at the edges of a matrix, and is read again past them, gets into no other sum."""
    for k in (66, 5):
        a, b = np.zeros((9, k), np.float32), np.ones((k, 70), np.float32)
        a[8] = np.inf
        a[:, k - 1], b[k - 1] = 3e38, 1.0
        a[4, 0], a[5, 1], b[2, 69] = np.nan, -np.inf, 0.5
        y = (pf.tensor(a, device=gpu) @ pf.tensor(b, device=gpu)).cpu()
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(y, a @ b)
        b[k - 1] = np.inf
        y = (pf.tensor(a[:4], device=gpu) @ pf.tensor(b, device=gpu)).cpu()
        np.testing.assert_array_equal(y, np.full((4, 70), np.inf))


def test_other_dtypes(variant: str, gpu: str) -> None:
    """int32 wraps around; bools share words; float16, where the device has it, adds in float32."""
    a, b = ints(9, 68).astype(np.int32) << 28, ints(68, 20, seed=1).astype(np.int32) << 3
    y = pf.tensor(a, device=gpu) @ pf.tensor(b, device=gpu)
    np.testing.assert_array_equal(y.cpu(), a @ b)
    for rows in (1, 6):  # bools, of which four share a word
        a, b = ints(rows, 68), ints(68, 66, seed=1)
        y = (pf.tensor(a, device=gpu) @ pf.tensor(b, device=gpu)) > 0
        np.testing.assert_array_equal(y.cpu(), a @ b > 0)
    if pf.device(gpu).backend.limits.float16:
        h, w = (ints(70, 132) / 8).astype(np.float16), (ints(132, 68) / 8).astype(np.float16)
        y = pf.tensor(h, device=gpu) @ pf.tensor(w, device=gpu)
        want = (h.astype(np.float32) @ w.astype(np.float32)).astype(np.float16)
        np.testing.assert_array_equal(y.cpu(), want)


def test_nothing(variant: str, gpu: str) -> None:
    for m, k, n in [(0, 5, 3), (3, 0, 4), (3, 5, 0), (0, 0, 0), (1, 0, 1)]:
        y = pf.ones(2, m, k, device=gpu) @ pf.ones(2, k, n, device=gpu) + 1.0
        assert y.cpu().tolist() == [[[1.0] * n] * m] * 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("bits", ["", "int4", "int8", "int8 of ints"])
def test_beside_each_other(variant: str, gpu: str, bits: str) -> None:
    """Products of the same few rows are one, of whose columns each takes its own."""
    mode, _, of_ints = bits.partition(" ")
    x = ints(2, 96)
    sizes = 12, 20, 7
    weights = [pf.tensor(ints(n, 96, seed=n)) for n in sizes]
    held: list[tuple[pf.Tensor, ...]] = [(w.to(gpu),) for w in weights]
    if bits:
        packs = [_pack("", w, BITS[mode], 32, True) for w in weights]
        held = [(p.to(gpu), *[s.to(gpu)] * 2) for p, s in packs]

    def each(x: pf.Tensor) -> Any:
        x = x.to(pf.int8) if of_ints else x
        rows = [
            apply(packed_linear, (x.unsqueeze(0), *w), (BITS[mode], True)) if mode
            else x @ w[0].T if k else (x @ w[0].T.contiguous()).relu()
            for k, w in enumerate(held)
        ]  # fmt: skip
        return [y.reshape(2, -1).amax(0) for y in rows]

    run = pf.compile(each)
    found = [y.cpu().numpy() for y in run(pf.tensor(x, device=gpu))]
    names = [k.routine.name for k in run.programs[-1].kernels if k.routine]
    assert names.count("packed_linear3" if mode else "matmul2") == 1, names
    for k, (y, w) in enumerate(zip(found, weights, strict=True)):
        q = w if not bits else _floats(*_pack("", w, BITS[mode], 32, True), None, BITS[mode])
        expected = x @ q.numpy().T
        expected = np.maximum(expected, 0) if not (mode or k) else expected
        np.testing.assert_allclose(y, expected.max(0), rtol=1e-5, atol=1e-4)


def test_more_workgroups_than_a_dim_has(
    variant: str, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last row of them is not full."""
    grids = in_rows_of_three(monkeypatch, products)
    v = VARIANTS[variant]
    tiles = 4 * v.threads + 3 if v.form == "registers" else 7
    n = 64 if v.form == "vectors" else 1
    a, b = ints(tiles, 1, n), ints(tiles, n, n, seed=1)
    y = pf.tensor(a, device=gpu) @ pf.tensor(b, device=gpu)
    np.testing.assert_array_equal(y.cpu(), a @ b)
    assert grids[-1] % 3


# --- what is chosen, without a device


def planned(m: int, n: int, k: int, limits: Limits, batch: int = 1) -> list[Any]:
    """The shaders of a product on a GPU of these limits."""
    with offline_device(limits) as device:
        run = pf.compile(lambda a, b: a @ b)
        run(pf.zeros(batch, m, k, device=device), pf.zeros(batch, k, n, device=device))
        return [generate(x, limits) for p in run.programs for x in p.kernels]


COUNTS = {  # m, n, k, batch: workgroups of each kernel
    (64, 64, 64, 64): [64],  # a tile of 64 x 64 each
    (512, 1024, 256, 1): [64],  # 64 x 128
    (2048, 2048, 256, 1): [256],  # 128 x 128
    (64, 256, 784, 1): [16],
    (64, 64, 65536, 1): [64, 256],  # one tile of 64 x 64, in 64 parts, and their sum
    (1, 30000, 768, 1): [469],
    (1, 64, 64, 300): [1200],  # few rows, a quarter of the columns each
    (3, 2, 9, 70_000): [1094],  # a thread a matrix
}


@pytest.mark.parametrize("shape", COUNTS)
def test_workgroups(shape: tuple[int, int, int, int]) -> None:
    m, n, k, batch = shape
    made = planned(m, n, k, LEAST, batch)
    grids = [math.prod(s.grid) for s in made]
    assert grids == COUNTS[shape]
    assert all(max(s.grid) <= 65535 for s in made)
    assert all(len(s.code) < 12_000 for s in made)


@pytest.mark.parametrize(
    "limits",
    [LEAST, Limits(workgroup_size=128), Limits(workgroup_size=64, workgroup_bytes=8192)],
)
def test_a_device_takes_what_is_chosen(limits: Limits) -> None:
    for m, n, k in [(4096, 4096, 64), (3, 5, 7), (8, 4096, 4096), (4096, 4096, 4096), (64, 64, 9)]:
        v = products.chosen(m, n, k, 1, limits)
        assert v.threads <= limits.workgroup_size
        assert v.nbytes <= limits.workgroup_bytes


def test_a_software_adapter_needs_no_workgroup_memory() -> None:
    for shape in [(64, 64, 64), (1, 999, 64), (999, 1, 5), (130, 7, 65536)]:
        for s in planned(*shape, Limits(kind="software")):
            assert s.label.startswith("sum") or "var<workgroup>" not in s.code


def test_rows_of_a_kind() -> None:
    """A kind of device without a row of its own has that of any GPU."""
    assert products.machine(Limits(kind="unheard of")) is products.MACHINES[""]
    assert products.machine(Limits(kind="software")).variants is SOFTWARE
