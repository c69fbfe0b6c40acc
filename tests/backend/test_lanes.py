"""The interpreter of lane programs, the oracle of their printers, against numbers known by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lane_programs import Body, cases, compare, expected, loops, primitives

from pyframe.codegen.lanes import interpret
from pyframe.codegen.lanes.program import INDEX
from pyframe.graph.scalar import PRIMITIVES

NAN, INF = np.nan, np.inf


def applied(op: str, *columns: Any, **named: Any) -> np.ndarray:
    """What a primitive gives for arrays."""
    b = Body()
    loaded = [
        b.load(n, b.index(0), "bool" if x.dtype == bool else f"{x.dtype.kind}{8 * x.itemsize}", 1)
        for n, x in enumerate(columns)
    ]
    made = b.op(op, *loaded, **named)
    b.store(len(columns), b.index(0), made)
    out = []
    for row in zip(*columns, strict=True):
        buffers = [np.array([x]) for x in row]
        buffers.append(np.zeros(1, interpret.REGISTERS[b.kinds[made][0]]))
        interpret.run(b.function(len(buffers)), [x.view(np.uint8) for x in buffers], b"")
        out.append(buffers[-1])
    return np.concatenate(out)


@pytest.mark.parametrize(
    ("op", "columns", "result", "named"),
    [
        ("div", [np.int32([7, -7, 7, -(2**31), 5]), np.int32([-2, 2, 2, -1, 0])],
         [-3, -3, 3, -(2**31), 0], {}),
        ("rem", [np.int32([7, -7, -(2**31), 5]), np.int32([-2, 2, -1, 0])], [1, -1, 0, 0], {}),
        ("min", [np.float32([1, NAN, 2]), np.float32([NAN, 1, 3])], [NAN, NAN, 2], {}),
        ("max", [np.float32([1, NAN, 2]), np.float32([NAN, 1, 3])], [NAN, NAN, 3], {}),
        ("round", [np.float32([0.5, 1.5, -2.5])], [0, 2, -2], {}),
        ("cast", [np.float32([300.7, -1.5, 2.0**32 + 512, NAN, INF])], [44, 255, 0, 0, 0],
         {"type": "u8"}),
        ("cast", [np.float32([-1.5, NAN, 1e30])], [-1, -(2**63), -(2**63)], {"type": "i64"}),
        ("cast", [np.float32([0.5, 0, NAN])], [True, False, True], {"type": "bool"}),
        ("cast", [np.int64([-1, 2**40 + 5])], [2**32 - 1, 5], {"type": "u32"}),
        ("bitcast", [np.float32([1, -0.0])], [0x3F800000, -(2**31)], {"type": "i32"}),
        ("narrow", [np.float32([1 + 2**-11, 1e6, 2**-24])], [1, INF, 2**-24], {"value": "float16"}),
        ("narrow", [np.float32([1 + 2**-8, 1 + 3 * 2**-8])], [1, 1 + 2**-6], {"value": "bfloat16"}),
        ("shr", [np.int8([-8]), np.int8([1])], [-4], {}),
        ("shr", [np.uint8([248]), np.uint8([1])], [124], {}),
        ("sub", [np.uint8([1]), np.uint8([2])], [255], {}),
        ("select", [np.array([True, False]), np.float32([1, 2]), np.float32([3, 4])], [1, 4], {}),
    ],
)  # fmt: skip
def test_primitives(op: str, columns: Any, result: Any, named: Any) -> None:
    np.testing.assert_array_equal(applied(op, *columns, **named), result)


def test_a_program_with_loops_and_variables() -> None:
    rows, nested, params, constants = loops(4)
    data = rows.buffers[0]
    np.testing.assert_array_equal(expected(rows)[1], data.sum(1))
    # 1; 1 * 3 + 0; the same; (1 * 3 + 0) * 3 + 2
    np.testing.assert_array_equal(expected(nested)[0].reshape(4, 4)[:, 0], np.cumsum([1, 3, 3, 11]))
    assert [x.shape for x in expected(params)] == [(4,)] * 12
    assert np.isnan(expected(constants)[0]).sum() == 4


def test_only_valid_lanes_are_read() -> None:
    b = Body()
    inside = b.op("lt", b.iota("i32", 4), b.const(2, "i32", 4))
    b.store(1, b.index(0), b.load(0, b.index(1), "f32", 4, 1, inside))
    out = np.ones(4, np.float32)
    data = np.arange(3, dtype=np.float32)
    interpret.run(b.function(2), [data.view(np.uint8), out.view(np.uint8)], b"")
    np.testing.assert_array_equal(out, [1, 2, 0, 0])


def test_the_table_has_every_primitive_and_the_programs_are_whole() -> None:
    """What printers are tested with: each runs, and is compared with itself."""
    names = {case.name.partition("-")[0] for case in primitives(4)}
    assert names == PRIMITIVES
    found = cases(4)
    assert len({case.name for case in found}) == len(found)
    for case in found:
        compare(case, expected(case))


def test_an_index_is_as_wide_as_an_address() -> None:
    b = Body()
    far = b.op("mul", b.index(1 << 40), b.index(3))
    b.store(0, b.index(0), b.op("cast", far, type="i64"))
    out = np.zeros(1, np.int64)
    interpret.run(b.function(1), [out.view(np.uint8)], b"")
    assert out[0] == 3 << 40
    assert interpret.REGISTERS[INDEX] == np.int64
