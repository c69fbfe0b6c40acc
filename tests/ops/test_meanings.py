"""What every elementwise op and reduction means in Scalars is what its NumPy computes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from pyframe.codegen.lanes.lower import register
from pyframe.core import dtypes as dt
from pyframe.core.op import ELEMENTWISE, REDUCTION, REGISTRY, Op
from pyframe.graph.scalar import FUNCTIONS, Scalar, inlined, meaning_of, nodes_of
from pyframe.ops.math.promotion import Elementwise
from tests.interpreted import REGISTERS, evaluate

# Why an op has no meaning
NONE = {"const": "a number, which kernels read from memory"}
# Why a function has no definition
_LOOP, _RARE = "it takes a loop", "few programs ask for it, and never for much"
EXTERNAL = {
    **dict.fromkeys("int_pow gcd zeta".split(), _LOOP),
    **dict.fromkeys("lgamma digamma erfcx erfinv ndtri i0e i1e".split(), _RARE),
    "nextafter": "a float16 lies in a register as a float32, whose neighbours are others",
}
# Ops that are for these dtypes only
_FLOATS = {dt.float16, dt.bfloat16, dt.float32, dt.float64}
ONLY = {
    "exponent_of": _FLOATS,
    "hypot": _FLOATS,
    "nextafter": _FLOATS,
    "uniform_from_bits": {dt.uint32},
    "normal_from_bits": {dt.uint32},
    "bfloat16_from_bits": {dt.uint16},
    "bits_from_bfloat16": {dt.bfloat16},
    "gcd": {*dt.ALL} - {dt.bool_},
}
DTYPES = [d for d in dt.ALL if d.category != dt.COMPLEX]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 7.25, -100.0, 1e-3, 6e-8, 65504.0, 3e9,
          -3e9, 1e19, 1e-39, 3e38, -3e38, np.inf, -np.inf, np.nan]  # fmt: skip
MEANT = [op for op in REGISTRY.values() if isinstance(op, Elementwise) and op.scalar is not None]


def values(d: dt.dtype) -> np.ndarray:
    """Numbers at and near the ends of a dtype, and between."""
    if d is dt.bool_:
        return np.array([False, True])
    if d.category == dt.FLOAT:
        with np.errstate(over="ignore"):
            x = np.array(FLOATS, d.numpy)
        return x if d.narrow is None else d.narrow(x)
    least, most = np.iinfo(d.numpy).min, np.iinfo(d.numpy).max
    bits = d.itemsize * 8
    some = {0, 1, 2, 3, 7, bits - 1, bits, bits + 1, 100, most - 1, most, most // 2 + 1}
    if least < 0:
        some |= {-1, -2, -3, -7, -100, least, least + 1}
    return np.array(sorted(some), d.numpy)


def grid(*arrays: np.ndarray) -> list[np.ndarray]:
    """Each of one with each of the others."""
    return [a.reshape(-1).copy() for a in np.meshgrid(*arrays, indexing="ij")]


def meant(meaning: Scalar, arrays: list[np.ndarray], d: dt.dtype) -> np.ndarray:
    """The value of a meaning whose result is of dtype `d`."""
    types = [n for n in nodes_of(meaning) if n.op == "arg"]
    held = [a.astype(np.float32) if a.dtype == np.float16 else a for a in arrays]
    assert all(held[n.value].dtype == REGISTERS[n.type] for n in types)
    return rounded(np.broadcast_to(evaluate(meaning, held), arrays[0].shape), d)


@np.errstate(all="ignore")
def rounded(x: Any, d: dt.dtype) -> np.ndarray:
    x = np.asarray(x).astype(d.numpy)
    return x if d.narrow is None else d.narrow(x)


def same(
    got: np.ndarray, want: np.ndarray, near: bool = False, zeros_have_signs: bool = True
) -> None:
    """Equal; where they are `near` within some roundings."""
    assert got.dtype == want.dtype
    if near:
        eps = max(float(np.finfo(want.dtype).eps), 1e-7)
        np.testing.assert_allclose(got, want, rtol=16 * eps, atol=1e-37)
    else:
        np.testing.assert_array_equal(got, want)
        if want.dtype.kind == "f" and zeros_have_signs:
            zero = want == 0
            np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


class Spec(NamedTuple):
    """What ops infer from."""

    dtype: dt.dtype
    shape: tuple[int, ...] = (1,)


def result_dtype(op: Any, d: dt.dtype) -> dt.dtype:
    return op.infer(*[Spec(d)] * len(op.inputs))[1]  # type: ignore[no-any-return]


ATTRIBUTES = {"cast", "iota", "random_bits"}  # what takes attributes too is tried apart
CASES = [
    (op.name, d) for op in MEANT for d in DTYPES
    if op.name not in ATTRIBUTES and d in op.plain and d in ONLY.get(op.name, DTYPES)
]  # fmt: skip


def test_every_elementwise_op_means_something() -> None:
    silent = {n for n, op in REGISTRY.items() if op.kind == ELEMENTWISE and op.scalar is None}
    assert silent == set(NONE)
    assert {n for n, known in FUNCTIONS.items() if known.definition is None} == set(EXTERNAL)


@pytest.mark.parametrize(("name", "d"), CASES, ids=lambda x: getattr(x, "name", x))
def test_meanings(name: str, d: dt.dtype) -> None:
    op: Any = REGISTRY[name]
    dtypes = [dt.bool_] * op.promoted_from + [d] * (len(op.inputs) - op.promoted_from)
    out = result_dtype(op, d)
    meaning = meaning_of(op.scalar, tuple(map(register, dtypes)), register(out))
    assert meaning.type == register(out)
    arrays = grid(*[values(k) for k in dtypes])
    if op.of_ints is not None and d.category == dt.INTEGER:
        keep = arrays[1] > 0 if name == "pow" else arrays[1] != 0
        arrays = [a[keep] for a in arrays]
    with np.errstate(all="ignore"):
        want = rounded(op.numpy(*arrays), out)
    calls = {n for n in nodes_of(meaning) if n.op == "call"}
    if any(inlined(n) is None for n in calls):
        assert all(n.value in EXTERNAL or n.type == "f64" for n in calls)
        return
    got = meant(meaning, arrays, out)
    parts = {n.op for n in nodes_of(meaning)}
    near = bool(calls) and out.category == dt.FLOAT
    same(got, want, near, zeros_have_signs=not parts & {"min", "max"})


OF_COMPLEX = [op.name for op in MEANT if dt.complex64 in op.plain and op.name not in ATTRIBUTES
              and op.name != "sort_key" and "_from_b" not in op.name]  # fmt: skip
OF_PARTS = ["complex", "polar", "conj", "real", "imag"]


@pytest.mark.parametrize("name", OF_COMPLEX + OF_PARTS)
def test_meanings_of_complex_numbers(name: str) -> None:
    """Within roundings of |result|: parts that cancel out are as wrong as large ones."""
    op: Any = REGISTRY[name]
    rng = np.random.default_rng(0)
    parts = np.concatenate([rng.normal(size=40), [0.0, 1.0, -1.0, 3e-4, -2e-3, 30.0]])
    x = (parts[:, None] + 1j * parts[rng.permutation(46)][:, None]).astype(np.complex64)
    x = np.concatenate([x, np.conj(x), parts[:, None] + 0j], dtype=np.complex64)[:, 0]
    reals = name in ("complex", "polar")
    kinds = [dt.bool_] * getattr(op, "promoted_from", 0)
    kinds += [dt.float32 if reals else dt.complex64] * (len(op.inputs) - len(kinds))
    draws = {dt.complex64: lambda: rng.permutation(x), dt.float32: lambda: rng.permutation(x).real,
             dt.bool_: lambda: rng.permutation(x).real > 0}  # fmt: skip
    xs = [np.ascontiguousarray(draws[k]()) for k in kinds]
    out = op.infer(*[Spec(k) for k in kinds])[1]
    names = [d.compute or "" for d in (*kinds, out)]
    meaning = meaning_of(op.scalar, tuple(names[:-1]), names[-1])
    assert meaning.type == names[-1]
    assert all(inlined(n) is not None for n in nodes_of(meaning) if n.op == "call")
    got = evaluate(meaning, xs)
    wide = [a if a.dtype == bool else a.astype(f"{a.dtype.kind}{2 * a.itemsize}") for a in xs]
    with np.errstate(all="ignore"):
        want = np.asarray(op.numpy(*wide))
    assert got.dtype == out.numpy
    fine = np.isfinite(want) & (np.abs(want) < 3e38)
    got, want = np.float64(1) * got[fine], np.float64(1) * want[fine]
    np.testing.assert_array_less(np.abs(got - want), 1e-5 * np.abs(want) + 1e-35)
    assert fine.mean() > 0.8


@pytest.mark.parametrize("d", DTYPES, ids=lambda d: d.name)
def test_casts(d: dt.dtype) -> None:
    cast: Any = REGISTRY["cast"]
    for to in DTYPES:
        meaning = meaning_of(cast.scalar, (register(d),), register(to))
        x = values(d)
        with np.errstate(all="ignore"):
            want = rounded(cast.numpy(x, to), to)
        same(meant(meaning, [x], to), want)


def test_values_from_the_index() -> None:
    at = np.arange(1001, dtype=np.int64)
    iota: Any = REGISTRY["iota"]
    meaning = meaning_of(iota.scalar, ("i32",), "i32", "i64")
    zero = np.zeros(at.shape, np.int32)
    same(meant(meaning, [zero, at], dt.int32), iota.numpy(zero, at.shape))
    bits: Any = REGISTRY["random_bits"]
    for key in ((0, 0, 0), (1, 2, 3), (2**32 - 1, 2**31, 12345678)):
        words = [np.full(at.shape, k, np.uint32) for k in key]
        meaning = meaning_of(bits.scalar, ("u32",) * 3, "u32", "i64")
        same(meant(meaning, [*words, at], dt.uint32), bits.numpy(*np.array(key), at.shape))


def test_normal_numbers_are_the_same_bits() -> None:
    x = np.random.default_rng(0).integers(0, 2**32, 50_000, np.uint32)
    x[:4] = 0, 2**32 - 1, 2**31, 2**31 - 1
    normal: Any = REGISTRY["normal_from_bits"]
    same(meant(meaning_of(normal.scalar, ("u32",), "f32"), [x], dt.float32), normal.numpy(x))


REDUCTIONS = [op for op in REGISTRY.values() if op.kind == REDUCTION and op.combine is not None]


@pytest.mark.parametrize("d", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("op", REDUCTIONS, ids=lambda op: op.name)
def test_reductions(op: Op, d: dt.dtype) -> None:
    """One value after the other into what the reduction has so far."""
    how: Any = op.combine
    t = register(d)
    meaning = meaning_of(how.scalar, (t, t), "bool" if how.arg else t)
    some = values(d)
    if how.sums and d.category == dt.FLOAT:
        some = np.array([1.5, -0.25, 3.0, 8.0], d.numpy)
    for x in (some, some[::-1].copy(), some[:1], np.concatenate([some, some])):
        best: Any = np.array(how.start(t), REGISTERS[t])
        won = 0
        for k, v in enumerate(x.astype(REGISTERS[t])):
            new = evaluate(meaning, [best, v])
            won = k if how.arg and new else won
            best = np.where(new, v, best) if how.arg else new
        with np.errstate(all="ignore"):
            want = op.numpy(x, (0,), False)  # type: ignore[misc]
        if how.arg:
            assert won == want
        else:
            want = rounded(want, d)
            np.testing.assert_array_equal(rounded(best, d), want)
