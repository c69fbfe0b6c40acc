"""Kernels as lane programs against the interpreter of kernels: each kind of loop, lane and tail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyframe as pf
import pyframe.nn.functional as F
from pyframe.backend.interpreter import HOST
from pyframe.codegen.lanes import lower as lowering, reductions
from pyframe.codegen.lanes.lower import lower
from pyframe.codegen.lanes.program import (
    For,
    LaneLoad as LoadLanes,
    LaneProgram,
    UnsupportedKernelError,
)
from pyframe.core.dtypes import bfloat16, dtype as DType, from_storage, storage_dtype, to_storage
from pyframe.core.limits import Limits
from pyframe.core.node import toposort
from pyframe.graph.interpret import run_kernel
from pyframe.graph.lower import lower as lower_graph
from pyframe.graph.program import Kernel, Load, ScalarParam
from pyframe.graph.schedule import schedule
from pyframe.ops.math import elementwise as el
from tests import interpreted
from tests.graph.plans import value

WIDTHS = (1, 4, 16)


@pytest.fixture(autouse=True)
def small(monkeypatch: Any) -> None:
    """Units of little work, and sums that are carried on soon."""
    monkeypatch.setattr(lowering, "WORK_PER_ITEM", 1 << 10)
    monkeypatch.setattr(reductions, "COMPENSATION_INTERVAL", 8)


# name: a function of tensors of these shapes
CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "map": (lambda x, y: x * y + x, ((7, 33), (7, 33))),
    "map, many units": (lambda x, y: x * y, ((5000,), (5000,))),
    "map, units over two axes": (lambda x, y: x * y, ((30, 301), (301,))),
    "broadcast": (lambda x, y, z: x * y + z, ((7, 1, 33), (5, 1), (33,))),
    "triple": (lambda x: x * 3, ((231,),)),
    "little": (lambda x: x * 2, ((3,),)),
    "a number": (lambda x: x * 2, ((),)),
    "nothing": (lambda x: x * 2, ((0, 5),)),
    "transposed": (lambda x: x.t() * 2, ((9, 70),)),
    "transposed in memory": (lambda x: x.t().reshape(-1) * 2, ((9, 70),)),
    "permuted": (lambda x: x.permute(2, 0, 1, 3).reshape(5, 12, 6) * 2, ((3, 4, 5, 6),)),
    "backwards, every other": (lambda x: x.flip(0)[::2] * 2, ((91,),)),
    "diagonal": (lambda x: x.diagonal() * 2, ((9, 9),)),
    "padded": (lambda x: F.pad(x, (1, 2, 3, 4)) * 2 + 1, ((9, 70),)),
    "padded, reduced": (lambda x: F.pad(x, (1, 2, 3, 4)).sum(1), ((9, 70),)),
    "rolled": (lambda x: x.roll(2, 0) * 2, ((9, 70),)),
    "triangle": (lambda x: x.tril().sum(), ((9, 9),)),
    "windows": (lambda x: x.unfold(1, 3, 2).sum(-1), ((9, 70),)),
    "joined": (lambda x, y: pf.cat([x, y], 1) * 2, ((9, 7), (9, 8))),
    "parts as long as vectors": (
        lambda x: F.pad(x, (16, 32)).reshape(9, -1, 16).permute(1, 0, 2).reshape(-1, 12) * 2,
        ((9, 48),),
    ),
    "parts of rows": (
        lambda x, y, z: pf.cat([x, y, z], -1).view(5, 3, 32).permute(1, 0, 2).reshape(-1) * 2,
        ((5, 32), (5, 32), (5, 32)),
    ),
    "numbers of places": (lambda x: el.iota((77,), x.device).float() * x, ((9, 77),)),
    "rows": (lambda x: x.sum(1), ((30, 1037),)),
    "long rows": (lambda x: x.sum(1), ((3, 3005),)),
    "short rows": (lambda x: x.sum(1), ((40, 3),)),
    "columns": (lambda x: x.sum(0), ((300, 37),)),
    "long columns": (lambda x: x.sum(0), ((300, 70),)),
    "all": (lambda x: x.sum(), ((7001,),)),
    "outer axes": (lambda x: x.sum((0, 2)), ((6, 5, 40),)),
    "three axes": (lambda x: x.sum((0, 2, 3)), ((3, 5, 4, 7),)),
    "many rounds of rows": (lambda x: x.sum((0, 2)), ((90, 2, 70),)),
    "what does not vary": (lambda x: x.expand(4, 6, 33).sum(0), ((6, 33),)),
    "product": (lambda x: x.prod(1), ((9, 7),)),
    "largest": (lambda x: x.amax((0, 2)), ((3, 40, 50),)),
    "smallest": (lambda x: x.amin(), ((333,),)),
    "where, rows": (lambda x: x.argmax(1), ((9, 70),)),
    "where, columns": (lambda x: x.argmin(0), ((70, 9),)),
    "where of all": (lambda x: x.argmax(), ((9, 70),)),
    "nothing is added": (lambda x: x[:0].sum(0), ((9, 77),)),
    "mean and spread": (lambda x: F.layer_norm(x, (35,)), ((5, 35),)),
    "softmax": (lambda x: (x - x.amax(-1, True)).square().sum(-1), ((9, 65),)),
    "a number for all": (lambda x: x - x.mean(), ((33, 7),)),
    "two levels": (lambda x: (x.sum(1) * 2).sum(), ((9, 70),)),
    "an outer product, reduced": (lambda x, y: (x[:, None] * y).sum(-1), ((9, 70), (13, 70))),
    "comparison": (lambda x: (x > 0).sum(), ((9, 70),)),
    "any": (lambda x: (x > 0).any(1), ((9, 70),)),
    "half": (lambda x: x.half() + 1, ((9, 70),)),
    "half, reduced": (lambda x: x.half().sum(1), ((9, 70),)),
    "bfloat16": (lambda x: x.bfloat16() * 3, ((9, 70),)),
    "small ints": (lambda x: x.to(pf.int32).to(pf.uint8) * 77, ((9, 70),)),
}  # fmt: skip


def kernels(name: str, on: Any) -> list[Kernel]:
    """The kernels that the CPU is given for a case, in ops that a GPU has kernels for."""
    fn, shapes = CASES[name]
    roots: Any = [fn(*[value(on, *shape) for shape in shapes])._storage.node]
    order, roots = lower_graph(toposort(roots), roots, Limits())
    return [k for k in schedule(order, roots, HOST)[0].kernels if k.routine is None]


def memory(kernel: Kernel) -> tuple[list[np.ndarray], list[DType]]:
    """Random numbers in the buffers that a kernel reads, and their dtypes."""
    rng = np.random.default_rng(0)
    found: dict[int, tuple[DType, int]] = {}
    for i in [*(i for i in kernel.code if isinstance(i, Load)), *kernel.stores]:
        v = i.index_map[0]
        size = v.offset + sum(max((n - 1) * s, 0) for n, s in zip(v.shape, v.strides, strict=True))
        found[i.binding] = i.dtype, max(found.get(i.binding, (i.dtype, 0))[1], size + 1)
    out = [
        (rng.standard_normal(found[b][1]) * 5).astype(found[b][0].numpy)
        for b in range(kernel.bindings)
    ]
    return out, [found[b][0] for b in range(kernel.bindings)]


def numbers(kernel: Kernel, stride: int, stored: Callable[[DType], np.dtype]) -> bytes:
    """The kernel's scalars, one each `stride` bytes."""
    out = bytearray(stride * kernel.params)
    for i in kernel.code:
        if isinstance(i, ScalarParam):
            raw = np.array([i.word + 2]).astype(stored(i.dtype)).tobytes()
            out[stride * i.word : stride * i.word + len(raw)] = raw
    return bytes(out)


def by_lanes(kernel: Kernel, arrays: list[np.ndarray], function: LaneProgram) -> list[np.ndarray]:
    """What the lane program leaves in the buffers, its units in any order."""
    raw = [np.ascontiguousarray(a).view(np.uint8).copy() for a in arrays]
    params = numbers(kernel, 8, lambda d: d.numpy)
    for unit in np.random.default_rng(1).permutation(function.units):
        interpreted.run(function, raw, params, int(unit), int(unit) + 1)
    return [r.view(a.dtype) for r, a in zip(raw, arrays, strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_is_the_same_in_lanes(name: str, lazy: Any) -> None:
    found = kernels(name, lazy)
    assert found
    for kernel in found:
        arrays, dtypes = memory(kernel)
        want = [to_storage(a, d).view(np.uint8) for a, d in zip(arrays, dtypes, strict=True)]
        run_kernel(
            kernel,
            want,
            numbers(kernel, 4, lambda d: d.numpy if d is bfloat16 else storage_dtype(d)),
        )
        for width in WIDTHS:
            got = by_lanes(kernel, arrays, lower(kernel, lambda types, width=width: width))
            for s in kernel.stores:
                expected = from_storage(want[s.binding].view(storage_dtype(s.dtype)), s.dtype)
                pair = [x.astype(np.float64) for x in (got[s.binding], expected)]
                np.testing.assert_allclose(*pair, 2e-5, 2e-3, err_msg=f"{width} lanes")


def loads(function: LaneProgram) -> list[int]:
    """The lanes of each load."""
    out: list[int] = []

    def walk(body: Any) -> None:
        for i in body:
            if isinstance(i, For):
                walk(i.body)
            elif isinstance(i, LoadLanes):
                out.append(i.lanes)

    walk(function.body)
    return out


def test_work_is_cut_into_units_by_its_size_alone(lazy: Any) -> None:
    (small,), (large,) = kernels("little", lazy), kernels("map, many units", lazy)
    assert lower(small, lambda types: 4).units == 1
    assert lower(large, lambda types: 4).units > 8


def test_what_is_left_over_takes_fewer_lanes(lazy: Any) -> None:
    (kernel,) = kernels("triple", lazy)  # of 231 elements in one piece
    assert loads(lower(kernel, lambda types: 16)) == [16, 4, 1]
    assert loads(lower(kernel, lambda types: 4)) == [4, 1]


def test_what_has_no_form_is_named(lazy: Any) -> None:
    roots = [value(lazy, 3).lgamma()._storage.node]
    (kernel,) = schedule(toposort(roots), roots, HOST)[0].kernels
    with pytest.raises(UnsupportedKernelError, match="lgamma"):
        lower(kernel, lambda types: 4)
