"""Routines that are written once for both of the CPU's code generators, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe.codegen.cpu import join, routines
from pyframe.core.op import REGISTRY
from pyframe.nn.quantized import BITS, _ints, _pack


@pytest.fixture(params=["wasm", "llvm on 1 thread", "llvm on 5 threads"])
def computed(request: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., np.ndarray]:
    """The result of an op's routine, whose work is shared however little it is."""
    if request.param == "wasm":
        from tests.backend import test_wasm_routines

        return test_wasm_routines.computed
    from pyframe.codegen.llvm import gemm
    from tests.backend import test_cpu_native

    monkeypatch.setattr(routines, "MIN_CHUNK_ELEMENTS", 10)
    monkeypatch.setattr(gemm, "MIN_UNIT_WORK", 100)
    return lambda *args, **attrs: test_cpu_native.computed(int(request.param[8]), *args, **attrs)


@pytest.fixture
def as_numpy(computed: Any) -> Callable[..., None]:
    """The routine gives what the op's NumPy function does, up to rounding."""

    def compare(name: str, *inputs: np.ndarray, attrs: tuple[Any, ...] = ()) -> None:
        expected = REGISTRY[name].numpy(*inputs, *attrs)  # type: ignore[misc]
        got = computed(name, *inputs, attrs=attrs)
        np.testing.assert_allclose(got, expected, 1e-5 if got.dtype.kind == "f" else 0, 1e-6)

    return compare


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("width", [1, 2, 3, 16, 35, 130])
def test_rows(as_numpy: Any, dtype: str, width: int) -> None:
    rng = np.random.default_rng(width)
    x = (9 * rng.standard_normal((7, width))).astype(dtype)
    index = rng.integers(0, 7, 20)
    source = (9 * rng.standard_normal((20, width))).astype(dtype)
    for at, from_ in (
        (index, source),
        (index.astype("i4")[::-2], source[::2]),
        (index[:0], source[:0]),
    ):
        as_numpy("take_rows", x, at)
        as_numpy("take_rows", x[::-1], at)
        as_numpy("take_rows", np.pad(x, ((0, 0), (1, 2)))[:, 1:-2], at)
        as_numpy("put_rows", x, at, from_)
        as_numpy("add_rows", at, from_, attrs=(7,))
        order, bounds = np.argsort(at, kind="stable"), np.searchsorted(np.sort(at), np.arange(8))
        as_numpy("add_segments", bounds, order, from_)


@pytest.mark.parametrize("bad", [-1, 4, 2**32, -(2**33)])
def test_an_index_out_of_range_is_a_fault(computed: Any, bad: int) -> None:
    """An error, or a trap; NumPy's function says what is wrong."""
    x = np.ones((4, 3), "f4")
    index = np.array([0, bad, 1])
    inputs = {
        "take_rows": (x, index), "put_rows": (x, index, x[:3]), "add_rows": (index, x[:3]),
        "take_along": (x, index[None]),
    }  # fmt: skip
    for name, given in inputs.items():
        attrs = {"add_rows": (4,), "take_along": (0,)}.get(name, ())
        with pytest.raises(Exception, match="unreachable|out of bounds"):
            computed(name, *given, attrs=attrs)
        with pytest.raises(IndexError, match="out of bounds"):
            REGISTRY[name].numpy(*given, *attrs)  # type: ignore[misc]


@pytest.mark.parametrize("dtype", ["?", "f2", "c8"])
def test_rows_of_any_dtype_move(as_numpy: Any, dtype: str) -> None:
    x = np.arange(12).reshape(4, 3).astype(dtype)
    index = np.array([3, 0, 3])
    as_numpy("take_rows", x, index)
    as_numpy("put_rows", x, index, x[:3])


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_elements_along_a_dim(as_numpy: Any, dim: int, dtype: str) -> None:
    rng = np.random.default_rng(dim)
    x = (9 * rng.standard_normal((3, 4, 5))).astype(dtype)
    shape = tuple(6 if d == dim else n for d, n in enumerate(x.shape))
    index = rng.integers(0, x.shape[dim], shape)
    source = (9 * rng.standard_normal(shape)).astype(dtype)
    for at in (index, index.astype(np.int32), index[..., ::-1] if dim == 2 else index[::-1]):
        as_numpy("take_along", x, at, attrs=(dim,))
        as_numpy("put_along", x, at, source, attrs=(dim,))
        for how in ("sum", "prod", *(("amax", "amin") if dtype[0] == "f" else ())):
            as_numpy("reduce_along", x, at, source, attrs=(dim, how))
    as_numpy("take_along", x, index[:2] if dim else index[:, :2], attrs=(dim,))
    as_numpy("reorder", x[0], index[0, :4] % 5)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_scans(as_numpy: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = (3 * rng.standard_normal((2, 9, 5))).astype(dtype)
    for y in (x, x[:, ::-1], x.transpose(2, 0, 1), x[:, :1], x[:, :0], x[:1, :, :1]):
        for name in ("cumsum", "cumprod", "cummax"):
            as_numpy(name, y)
    if dtype[0] == "f":
        x[0, 3, 1], x[1, 2, 2] = np.nan, np.inf
        as_numpy("cummax", x)
        as_numpy("cumsum", x)


def test_long_sums_stay_exact(computed: Any) -> None:
    x = np.full((1, 1 << 20, 1), 0.1, "f4")
    assert computed("cumsum", x)[0, -1, 0] == np.float32((1 << 20) * np.float64(np.float32(0.1)))


@pytest.mark.parametrize("dtype", ["i4", "i8"])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 300, 1000])
def test_order(as_numpy: Any, dtype: str, n: int) -> None:
    rng = np.random.default_rng(n)
    ends = np.iinfo(dtype)
    wide = rng.integers(ends.min, ends.max, (3, n), dtype, endpoint=True)
    for key in (wide, wide % 5 - 2, wide[:, ::-1] >> 16, np.zeros_like(wide), np.sort(wide)[:1]):
        as_numpy("argsort", key, attrs=(n,))
        as_numpy("argsort", key, attrs=(n // 3,))
        if n:
            as_numpy("kth_index", key % 1000, attrs=(n // 2 + 1,))
            as_numpy("searchsorted", np.sort(key), key[:, :7])
        if n and n % 4 == 0:
            quarter = n // 4
            runs = key.reshape(-1, quarter).argsort(1, kind="stable").reshape(-1, 4, quarter)
            order = runs + quarter * np.arange(4)[:, None]
            as_numpy("sort_runs", key)
            as_numpy("merge_runs", key, order.reshape(-1, 2 * quarter))
    as_numpy("searchsorted", wide[:, :0], wide)


def test_cat(as_numpy: Any) -> None:
    xs = [np.arange(n * 6, dtype="f4").reshape(2, n, 3) for n in (1, 0, 4)]
    pf.cat([pf.empty(2, 1, 3)] * 3)  # an op of its own for each number of tensors
    as_numpy("cat3", *xs, attrs=(1, (0, 1, 1, 5)))
    as_numpy("cat3", *[x.astype("i8")[::-1] for x in xs], attrs=(1, (0, 1, 1, 5)))
    as_numpy("cat3", *[xs[2]] * 3, attrs=(3, ()))
    as_numpy("cat3", *[xs[2] > 5] * 3, attrs=(0, ()))
    assert join.cat([xs[2][..., ::2]] * 3, (0, ()), np.empty((3, 2, 4, 2))) is None


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("ints", [False, True])
def test_packed_weights(computed: Any, mode: str, symmetric: bool, ints: bool) -> None:
    """Few rows and many, edges of tiles, panels and blocks; sums of ints are NumPy's."""
    op, rng = REGISTRY["packed_linear"], np.random.default_rng(0)
    for m, k, n, group in ((1, 64, 33, 64), (4, 96, 3, 96), (7, 480, 70, 32), (9, 1056, 1, 96),
                           (67, 160, 150, 160), (300, 32, 5, 64)):  # fmt: skip
        weight = pf.tensor(rng.standard_normal((n, k), np.float32) + 0.3)
        bits = BITS[mode]
        packed, scale, *offset = [x.numpy() for x in _pack("", weight, bits, group, symmetric)]
        x = rng.standard_normal((1, m, packed.shape[1] * packed.shape[2] * 32 // bits), np.float32)
        if ints:
            x = np.clip(60 * x, -127, 127).astype(np.int8)
        given, attrs = (x, packed, scale, (offset or [scale])[0]), (bits, symmetric)
        expected = op.numpy(*given, *attrs)  # type: ignore[misc]
        got = computed("packed_linear", *given, attrs=attrs)
        np.testing.assert_allclose(got, expected, 1e-5, 1e-5 * np.abs(expected).max())
        if ints and symmetric and scale.shape[1] == 1:  # one group: nothing but its scale is float
            sums = x[0].astype(np.int32) @ _ints(packed, bits)[:, 0].T.astype(np.int32)
            assert np.array_equal(got[0], sums.astype(np.float32) * scale[:, 0])
