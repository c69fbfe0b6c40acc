"""Definitions of mathematical functions in f32: over numbers of all sizes their errors stay within
bounds, whether a product and a sum are rounded once or twice, and their edges are C's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyframe.graph import mathematics
from pyframe.graph.scalar import Scalar, inlined
from tests import interpreted

Array = np.ndarray

EDGES = np.array(
    [0, 1e-45, 1e-40, 1.17549435e-38, 1e-20, 1e-4, 0.5, 1, 1.5, 2, 3, 87.5, 88.722839, 89, 104,
     16777215, 33554432, 1e20, 3.4028235e38, np.inf], np.float32,
)  # fmt: skip
ENDS = np.concatenate([EDGES, -EDGES, [np.float32(np.nan)]])


def numbers(step: int) -> Array:
    """Every so many floats, of both signs and all exponents, and the edges."""
    bits = np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32)
    return np.concatenate([bits.view(np.float32), ENDS])


def pairs() -> tuple[Array, Array]:
    """Pairs of any floats, of near ones, and of all edges."""
    rng = np.random.default_rng(0)
    found = numbers(200003)
    near = rng.standard_normal((2, 40000)).astype(np.float32) * np.float32([[1], [3]])
    a, b = np.meshgrid(ENDS, ENDS)
    return (
        np.concatenate([rng.permutation(found), near[0], abs(near[0]), a.ravel()]),
        np.concatenate([rng.permutation(found), near[1], near[1], b.ravel()]),
    )


# the function in float64, and how many units in the last place its error has at most
BOUNDS: dict[str, tuple[Callable[..., Any], float]] = {
    "exp": (np.exp, 2), "exp2": (np.exp2, 2), "expm1": (np.expm1, 1.5), "log": (np.log, 0.9),
    "log2": (np.log2, 1.9), "log10": (np.log10, 2.1), "log1p": (np.log1p, 1.5),
    "sin": (np.sin, 2.3), "cos": (np.cos, 2.3), "tan": (np.tan, 3.5), "asin": (np.arcsin, 2.4),
    "acos": (np.arccos, 1.3), "atan": (np.arctan, 2), "sinh": (np.sinh, 2.7), "cosh": (np.cosh, 2),
    "tanh": (np.tanh, 2), "asinh": (np.arcsinh, 1.8), "acosh": (np.arccosh, 1.9),
    "atanh": (np.arctanh, 2.1), "erf": (np.vectorize(math.erf, [float]), 6.6),
    "erfc": (np.vectorize(math.erfc, [float]), 5.4), "atan2": (np.arctan2, 1.9),
    "hypot": (np.hypot, 1.3), "pow": (np.power, 2.1),
}  # fmt: skip
TURNS = {"sin", "cos", "tan"}  # what is left of a large angle is rounded more often
FAR, OFF, MORE = 8192, 4e-9, 2


def once(x: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c as a processor's fma."""
    return (a.astype(np.float64) * b + c).astype(a.dtype)


@pytest.fixture(params=["rounded once", "rounded twice"])
def rounded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "rounded once":
        monkeypatch.setitem(interpreted.PRIMITIVES, "muladd", once)


def definition(name: str, operands: int, type: str = "f32") -> Scalar | None:
    """Of a call with the operands 0, 1, …"""
    return inlined(
        getattr(mathematics, name)(*[Scalar("arg", (), type, n) for n in range(operands)])
    )


@np.errstate(all="ignore")
def errors(name: str, *operands: Array) -> tuple[Array, Array, Array]:
    """What the definition gives, what is right, and the error in units in the last place."""
    body = definition(name, len(operands))
    assert body is not None
    found = interpreted.evaluate(body, operands)
    exact = BOUNDS[name][0](*[x.astype(np.float64) for x in operands])
    right = exact.astype(np.float32)
    unit = np.maximum(2.0 ** (np.floor(np.log2(abs(exact))) - 23), 2.0**-149)
    error = abs(found - exact)
    if name in TURNS:
        slope = 1 + exact * exact if name == "tan" else 1.0
        more = np.where(abs(operands[0]) > FAR, OFF * slope + MORE * unit, 0)
        error = np.maximum(error - more, 0)
    same = (found == right) | (np.isnan(found) & np.isnan(right))
    whole = ~np.isfinite(right) | (exact == 0)
    error = np.where(same & whole, 0, error / unit)
    return found, exact, np.where(np.isnan(error), np.inf, error)


@pytest.mark.usefixtures("rounded")
@pytest.mark.parametrize("name", BOUNDS)
def test_errors_stay_within_their_bound(name: str) -> None:
    operands = pairs() if name in ("atan2", "hypot", "pow") else (numbers(40009),)
    found, exact, error = errors(name, *operands)
    worst = int(error.argmax())
    assert error[worst] <= BOUNDS[name][1], [x[worst] for x in (*operands, found, exact)]
    signs = np.signbit(found) == np.signbit(exact)
    assert signs[~np.isnan(exact)].all(), [x[~signs & ~np.isnan(exact)] for x in operands]


@pytest.mark.usefixtures("rounded")
@np.errstate(all="ignore")
def test_what_is_exact() -> None:
    """Ends are reached, and nothing is beyond them."""
    x = numbers(40009)
    for name in ("tanh", "erf", "sin", "cos"):
        found, *_ = errors(name, x)
        assert np.nanmax(abs(found)) == 1, name
        assert name in TURNS or (abs(found[abs(x) > 9.1]) == 1).all()
    whole = np.arange(-149, 128).astype(np.float32)
    np.testing.assert_array_equal(errors("exp2", whole)[0], np.float32(2) ** whole)
    half = x[np.isfinite(x)]
    np.testing.assert_array_equal(errors("pow", half, np.full_like(half, 2))[0], half * half)
    whole = np.arange(-37, 39)
    powers = np.array([float(f"1e{k}") for k in whole], np.float32)
    np.testing.assert_array_equal(errors("log10", powers)[0], whole)


@np.errstate(all="ignore")
def test_rests_of_divisions_have_no_error() -> None:
    a, b = pairs()
    x, y = Scalar("arg", (), "f32", 0), Scalar("arg", (), "f32", 1)
    found = interpreted.evaluate(mathematics.fmod(x, y), [a, b])
    np.testing.assert_array_equal(found, np.fmod(a, b))
    signs = np.signbit(found) == np.signbit(a)
    assert signs[~np.isnan(found)].all()
    found = interpreted.evaluate(mathematics.floordiv(x, y), [a, b])
    right = np.where(b == 0, a / b, np.floor_divide(a, b, dtype=np.float64))
    small = ~(abs(right) >= 1 << 28)
    np.testing.assert_array_equal(found[small], right[small].astype(np.float32))
    np.testing.assert_allclose(found[~small], right[~small].astype(np.float32), rtol=2e-7)


@pytest.mark.parametrize("name", BOUNDS)
def test_there_is_no_definition_in_other_types(name: str) -> None:
    """Bits and coefficients are those of f32: elsewhere a printer needs text of its own."""
    operands = 2 if name in ("atan2", "hypot", "pow") else 1
    assert definition(name, operands, "f64") is None
    call = getattr(mathematics, name)(*[Scalar("arg", (), "f64", n) for n in range(operands)])
    with pytest.raises(LookupError, match=f"{name} of f64 has no definition"):
        interpreted.evaluate(call, [np.zeros(1)] * operands)
