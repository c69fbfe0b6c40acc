"""Scalars: expressions as they are traced, what is refused, and functions that stay calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pyframe.graph import scalar as s
from pyframe.graph.scalar import Scalar, cast, const, meaning_of, muladd, nodes_of, select
from tests.interpreted import PRIMITIVES, REGISTERS, evaluate


def arg(type: str, n: int = 0) -> Scalar:
    return Scalar("arg", (), type, n)


X, Y = arg("f32"), arg("f32", 1)
I, J = arg("i32"), arg("i32", 1)
B, C = arg("bool"), arg("bool", 1)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (X + 1, "add:f32(arg(0: f32), const(1: f32))"),
        (1 - X, "sub:f32(const(1: f32), arg(0: f32))"),
        (2 * X / Y, "div:f32(mul:f32(const(2: f32), arg(0: f32)), arg(1: f32))"),
        (-I % 3, "rem:i32(neg:i32(arg(0: i32)), const(3: i32))"),
        (X < Y, "lt:bool(arg(0: f32), arg(1: f32))"),
        (X > 0, "lt:bool(const(0: f32), arg(0: f32))"),
        (X >= Y, "le:bool(arg(1: f32), arg(0: f32))"),
        (s.eq(0, X), "eq:bool(const(0: f32), arg(0: f32))"),
        (~(I & 1) ^ J, "xor:i32(not:i32(and:i32(arg(0: i32), const(1: i32))), arg(1: i32))"),
        (select(B, 1.0, Y), "select:f32(arg(0: bool), const(1.0: f32), arg(1: f32))"),
        (muladd(X, 2.0, Y), "muladd:f32(arg(0: f32), const(2.0: f32), arg(1: f32))"),
        (cast(I, "f64"), "cast:f64(arg(0: i32))"),
        (s.bitcast(X, "u32"), "bitcast:u32(arg(0: f32))"),
        (s.floor(X), "floor:f32(arg(0: f32))"),
    ],
)
def test_expressions(made: Scalar, text: str) -> None:
    assert repr(made) == text


@pytest.mark.parametrize(
    "same", [cast(X, "f32"), s.bitcast(X, "f32"), s.floor(I), s.round(I), s.abs(arg("u8"))]
)
def test_what_changes_nothing_is_not_there(same: Scalar) -> None:
    assert same.op == "arg"


@pytest.mark.parametrize("made", [B + C, B * C, s.minimum(B, C), s.maximum(B, C), B < C, B <= C])
def test_arithmetic_of_bools_is_logic(made: Scalar) -> None:
    """No printer sees an addition of bools; 0 and 1 give what they give as numbers."""
    assert {n.op for n in nodes_of(made)} <= {"arg", "and", "or", "not", "ne"}
    assert made.type == "bool"


def test_bools_as_numbers() -> None:
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    for made, want in (
        (B + C, a + b), (B * C, a * b), (B < C, a < b), (B <= C, a <= b), (B ^ C, a ^ b),
        (s.minimum(B, C), np.minimum(a, b)), (s.maximum(B, C), np.maximum(a, b)),
    ):  # fmt: skip
        np.testing.assert_array_equal(evaluate(made, [a, b]), want)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: X + I, "add of f32 and i32: cast one of them"),
    (lambda: select(B, X, I), "select of f32 and i32: cast one of them"),
    (lambda: select(B, 1, 0), "select of numbers: cast one of them"),
    (lambda: select(X, X, Y), "select by f32: cast it to bool"),
    (lambda: muladd(X, arg("f64"), 1.0), "muladd of f32 and f64: cast one of them"),
    (lambda: muladd(I, I, 1), "muladd takes no i32"),
    (lambda: X & 1, "and takes no f32"),
    (lambda: X % 2.0, "rem takes no f32"),
    (lambda: B << 1, "shl takes no bool"),
    (lambda: ~X, "not takes no f32"),
    (lambda: -B, "neg takes no bool"),
    (lambda: B / C, "div takes no bool"),
    (lambda: s.sqrt(I), "sqrt takes no i32"),
    (lambda: s.bitcast(X, "i64"), "bitcast of f32 to i64"),
    (lambda: s.bitcast(B, "u8"), "bitcast of bool to u8"),
    (lambda: 1 if X < Y else 0, "a Scalar has no value yet; choose with select"),
]


@pytest.mark.parametrize(("made", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_is_refused(made: Callable[[], Any], why: str) -> None:
    with pytest.raises(TypeError, match=why):
        made()


def test_each_primitive_has_a_numpy() -> None:
    assert PRIMITIVES.keys() == s.PRIMITIVES
    assert REGISTERS.keys() == s.BITS.keys()


def test_parts_come_once_and_before_what_takes_them() -> None:
    twice = X * X
    parts = [*nodes_of(select(twice < 1, twice, Y))]
    assert len(parts) == len({*parts}) == 6
    for n, part in enumerate(parts):
        assert {*part.args} <= {*parts[:n]}
    deep = X
    for _ in range(5000):  # deeper than Python calls itself
        deep = deep + 1
    assert evaluate(deep, [np.zeros(1, np.float32)])[0] == 5000


# --- functions


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A table of functions of this test's own."""
    monkeypatch.setattr(s, "FUNCTIONS", {})
    s._body.cache_clear()
    yield
    s._body.cache_clear()


@pytest.mark.usefixtures("functions")
def test_a_function_stays_a_call_that_can_be_inlined() -> None:
    @s.function
    def halved_(x: Scalar) -> Scalar:
        """x / 2."""
        return cast(x, "f64") * 0.5

    made = halved_(X + 1)
    assert (made.op, made.value, made.type) == ("call", "halved", "f64")
    assert halved_.__doc__ == "x / 2."
    body = s.inlined(made)
    assert repr(body) == "mul:f64(cast:f64(arg(0: f32)), const(0.5: f64))"
    assert s.inlined(halved_(Y)) is body  # traced once for each types of operands
    assert s.inlined(halved_(I)) is not body
    assert evaluate(made * 4, [np.array([2.0], np.float32)]).tolist() == [6.0]


@pytest.mark.usefixtures("functions")
def test_functions_without_a_definition() -> None:
    gamma, count = s.external("gamma"), s.external("count", "i32", loops=True)
    assert gamma(X).type == "f32"
    assert count(X).type == "i32"
    assert s.inlined(gamma(X)) is None
    with pytest.raises(LookupError, match="gamma of f32 has no definition"):
        evaluate(gamma(X), [np.ones(1, np.float32)])
    assert s.loops(lambda x: count(x) + 1, ("f32",), "i32")
    assert not s.loops(lambda x: gamma(x) + 1, ("f32",), "f32")
    with pytest.raises(ValueError, match="gamma is defined twice"):
        s.external("gamma")


@pytest.mark.usefixtures("functions")
def test_a_definition_for_one_type() -> None:
    def bits_of(x: Scalar) -> Scalar:
        return s.bitcast(s.bitcast(x, "u32") & 0x7FFFFFFF, "f32")

    size = s.function(bits_of, only="f32")
    assert evaluate(size(X), [np.array([-2], np.float32)]).tolist() == [2.0]
    wide = size(arg("f64"))
    assert wide.type == "f64"
    assert s.inlined(wide) is None


# --- meanings


def test_a_meaning_is_traced_once_for_each_types() -> None:
    def scaled(a: Scalar, b: Scalar) -> Scalar:
        return a * b

    made = meaning_of(scaled, ("f32", "f32"), "f32")
    assert repr(made) == "mul:f32(arg(0: f32), arg(1: f32))"
    assert meaning_of(scaled, ("f32", "f32"), "f32") is made
    assert meaning_of(scaled, ("i8", "i8"), "i8").type == "i8"


def test_a_meaning_may_ask_for_the_results_type_and_the_index() -> None:
    converted = meaning_of(lambda x, out: cast(x, out), ("i32",), "f32")
    assert repr(converted) == "cast:f32(arg(0: i32))"
    counted = meaning_of(lambda x, i: x + cast(i, x.type), ("i32",), "i32", "i64")
    at = np.arange(3)
    assert evaluate(counted, [np.full(3, 10, np.int32), at]).tolist() == [10, 11, 12]


def test_indices_and_constants() -> None:
    rows, columns = Scalar("index", (), "i64", 0), Scalar("index", (), "i64", 1)
    at = np.indices((2, 3))
    assert evaluate(rows * 3 + columns, [], at).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert evaluate(const(1 / 3, "f32"), []) == np.float32(1 / 3)
    assert evaluate(const(200, "u8") + 100, []) == 44
