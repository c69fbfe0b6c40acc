"""The scheduler and its Programs, with no device: fusion, buffers, the views' arithmetic."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from plans import plan, run, value

import pyframe as pf
import pyframe.nn.functional as F
from pyframe.capture import executable
from pyframe.core import dtypes as dt, view as views
from pyframe.core.dispatch import apply
from pyframe.core.node import toposort
from pyframe.core.op import REGISTRY, Op
from pyframe.graph import fuse, schedule
from pyframe.graph.program import Reduce
from pyframe.graph.schedule import graph_key
from pyframe.runtime.offline import offline_device
from pyframe.tools.bench.plans import GPT2, LARGE_GPU, BenchModel


def test_a_long_chain_is_cut(lazy: Any) -> None:
    x = value(lazy, 3)
    y = x
    for _ in range(1000):
        y = y * 1.001 + 0.001
    program, (got,) = run(y)
    assert 1 < len(program.steps) <= 20
    want = x._node.data.astype(np.float64)
    for _ in range(1000):
        want = want * 1.001 + 0.001
    np.testing.assert_allclose(got, want, rtol=1e-4)


def test_scalars_are_parameters_not_text(lazy: Any) -> None:
    x = value(lazy, 3)
    first, second = x * 2.5 + 1, x * 7.0 + 3
    a, b = plan(first), plan(second)
    assert a[0].kernels == b[0].kernels
    assert graph_key(a[3], a[4]) == graph_key(b[3], b[4])
    assert [c.attrs[0] for c in a[2]] == [2.5, 1]
    other = plan(value(lazy, 4) * 2.5 + 1)
    assert graph_key(other[3], other[4]) != graph_key(a[3], a[4])


moves = st.lists(st.integers(0, 5), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), moves)
def test_any_chain_of_movement_is_what_numpy_says(rnd: Any, kinds: list[int]) -> None:
    """Index maps compose: read through them, a buffer shows what the NumPy views show."""
    shape = tuple(rnd.choice([1, 2, 3, 4]) for _ in range(rnd.randint(1, 3)))
    array = np.arange(1, int(np.prod(shape)) + 1, dtype=np.float32).reshape(shape)
    index_map = views.contiguous(shape)
    flat = array.reshape(-1).copy()
    for kind in kinds:
        op, attrs = random_move(rnd, kind, array.shape)
        array = op.numpy(array, *attrs)  # type: ignore[misc]
        index_map = op.view(index_map, *attrs)  # type: ignore[misc]
        assert index_map[-1].shape == array.shape
        np.testing.assert_array_equal(views.read(flat, index_map), array)
    for outer, inner in zip(index_map[1:], index_map, strict=False):
        check_unravel(outer, inner.shape)
    collapsed, small, _ = views.collapse([index_map], array.shape)
    np.testing.assert_array_equal(views.read(flat, collapsed[0]).reshape(array.shape), array)
    assert np.prod(small, dtype=int) == array.size


def check_unravel(v: views.View, shape: tuple[int, ...]) -> None:
    """Dim by dim, the index is that of the flat position."""
    parts = views.unravel(v, shape)
    if parts is None or v.mask is not None:
        return
    for index in np.ndindex(*v.shape):
        flat = v.offset + sum(i * s for i, s in zip(index, v.strides, strict=True))
        want = np.unravel_index(flat, shape)
        for (offset, terms), w in zip(parts, want, strict=True):
            got = offset
            for t in terms:
                digit = index[t.dim] // t.div
                got += (digit % t.mod if t.mod else digit) * t.factor
            assert got == w


def test_windows_of_padding_need_no_division(lazy: Any) -> None:
    t = views.pad(views.contiguous((2, 3, 8, 8)), ((0, 0), (0, 0), (1, 1), (1, 1)))
    t = views.sliding_windows(t, (3, 3), (2, 2), (1, 1))
    parts = views.unravel(t[-1], t[-2].shape)
    assert parts is not None
    assert all(term.div == 1 and term.mod == 0 for _, terms in parts for term in terms)
    columns = views.reshape(views.permute(t, (0, 1, 4, 5, 2, 3)), (2, 27, 16))
    split = views.unravel(columns[-1], columns[-2].shape)
    assert split is not None
    assert [len(terms) for _, terms in split] == [1, 1, 1, 1, 1, 1]


def random_move(rnd: Any, kind: int, shape: tuple[int, ...]) -> tuple[Op, tuple[Any, ...]]:
    if kind == 0:
        dims = list(range(len(shape)))
        rnd.shuffle(dims)
        return REGISTRY["permute"], (tuple(dims),)
    if kind == 1:
        return REGISTRY["pad"], (tuple((rnd.randint(0, 2), rnd.randint(0, 1)) for _ in shape), 0)
    if kind == 2:
        sizes = tuple(rnd.randint(1, n) for n in shape)
        starts = tuple(rnd.randint(0, n - k) for n, k in zip(shape, sizes, strict=True))
        return REGISTRY["slice"], (starts, sizes, (1,) * len(shape))
    if kind == 3:
        starts = tuple(n - 1 for n in shape)
        steps = tuple(rnd.choice([-1, -2]) for _ in shape)
        sizes = tuple((n - 1) // -k + 1 for n, k in zip(shape, steps, strict=True))
        return REGISTRY["slice"], (starts, sizes, steps)
    if kind == 4:
        return REGISTRY["expand"], ((rnd.randint(1, 3), *shape),)
    n = int(np.prod(shape))
    first = rnd.choice([d for d in range(1, n + 1) if n % d == 0])
    return REGISTRY["reshape"], ((first, n // first),)


def test_apply_checks_the_device(lazy: Any) -> None:
    with pytest.raises(TypeError, match="has no float64; use float32"):
        apply(REGISTRY["cast"], (value(lazy, 2),), (dt.float64,))


CALLED: dict[str, Callable[[pf.Tensor, pf.Tensor], pf.Tensor]] = {
    "conv": lambda x, w: F.conv2d(x, w, stride=2, padding=1),
    "max_pool": lambda x, w: F.max_pool2d(x, 2),
    "softmax": lambda x, w: x.softmax(1),
    "argsort": lambda x, w: x.reshape(6, 64).argsort(1),
}


@pytest.mark.parametrize("name", CALLED)
def test_a_node_is_what_was_called_until_its_graph_is_scheduled(lazy: Any, name: str) -> None:
    x, w = value(lazy, 2, 3, 8, 8), value(lazy, 4, 3, 3, 3)
    out = CALLED[name](x, w)
    assert name in {n.op.name for n in toposort([out._storage.node]) if n.op is not None}
    program, (got,) = run(out)
    routines = {k.routine.name for k in program.kernels if k.routine is not None}
    assert routines == {"conv": {"matmul"}, "argsort": {"sort_runs"}}.get(name, set())
    want = CALLED[name](*[pf.tensor(a._node.data) for a in (x, w)]).numpy()
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "reduce", "kernels", "most"),
    [
        ((1_000_003,), lambda x: x.sum(), 2, 1 << 12),  # a prime
        ((1_000_003,), lambda x: x.argmax(), 2, 1 << 12),
        ((1021, 1021), lambda x: x.argmin(), 2, 1 << 13),
        ((3, 99_991), lambda x: x.amax(1), 2, 1 << 12),
        ((8192, 768), lambda x: x.sum(0), 2, 1 << 12),
        ((5003, 100), lambda x: x.mean(0), 2, 1 << 12),
        ((1024, 768), lambda x: x.sum(0), 1, 1 << 12),
        ((100_003,), lambda x: x.sum(), 1, 1 << 17),  # one workgroup does this
    ],
)
def test_long_reductions_are_split(
    lazy: Any, shape: tuple[int, ...], reduce: Any, kernels: int, most: int
) -> None:
    """So that one workgroup does not do all of it; results are those of one kernel."""
    x = value(lazy, *shape)
    y = reduce(x)
    program = plan(y)[0]
    assert len(program.steps) == kernels
    for kernel in program.kernels:
        walked = {d for i in kernel.code if isinstance(i, Reduce) for d in i.axes}
        assert math.prod(n for d, n in enumerate(kernel.space) if d in walked) <= most
    (got,) = run(y)[1]
    want = reduce(pf.tensor(np.asarray(x._node.data)))
    np.testing.assert_allclose(np.asarray(got).ravel(), want.numpy().ravel(), 1e-4, 1e-3)


@pytest.fixture(params=["gpu", "cpu"])
def planned_for(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "cpu":
        yield pf.device("cpu")
    else:
        with offline_device(LARGE_GPU) as device:
            yield device


def test_planning_is_linear_in_the_layers(
    planned_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted are the lines of graph/ that run, each round of a loop as one."""
    lines, plan_it = 0, executable.schedule

    def count(frame: Any, event: str, arg: Any) -> Any:
        nonlocal lines
        if "graph" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return count

    def counted(*args: Any) -> Any:
        before = sys.gettrace()
        sys.settrace(count)
        try:
            return plan_it(*args)
        finally:
            sys.settrace(before)

    monkeypatch.setattr(executable, "schedule", counted)

    def step(layers: int) -> int:
        nonlocal lines
        lines = 0
        train(layers, planned_for)
        return lines

    _, small, middle, large = (step(n) for n in (1, 2, 3, 5))  # the first one fills caches
    assert 0 < large - middle < 2.25 * (middle - small)


def train(layers: int, device: Any) -> None:
    """The first step of a GPT."""
    plan = BenchModel("", lambda: GPT2(11, 8, 8, layers, 2), (2, 8), text=True)
    net = plan.net().to(device)
    x = pf.zeros(plan.shape, dtype=pf.int64, device=device)
    pf.compile(plan.training(net))(x, x.flatten())


def test_equal_layers_are_planned_once(planned_for: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted are the nodes that code is made for, and the kernels that are made of it."""
    made, found, plan_it = [0, 0], [(0, 0)], executable.schedule

    def counted(number: int, fn: Any) -> Any:
        def call(*args: Any) -> Any:
            made[number] += 1
            return fn(*args)

        return call

    def planned(*args: Any) -> Any:
        made[:] = 0, 0
        out = plan_it(*args)
        found.append((made[0], made[1]))
        return out

    join = fuse.FusionGroup.compute_member
    monkeypatch.setattr(fuse.FusionGroup, "compute_member", counted(0, join))
    monkeypatch.setattr(schedule, "_kernel", counted(1, schedule._kernel))
    monkeypatch.setattr(executable, "schedule", planned)

    counts = []
    for layers in (3, 6, 9):
        train(layers, planned_for)
        counts.append(found[-1])
    few, more, many = counts
    assert few == more == many
    assert 40 < few[1] < few[0] < 150


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted), max_size=30))
def test_temporaries_take_the_first_buffer_that_is_free(spans: list[tuple[int, int]]) -> None:
    taken, owners = schedule._LifetimeTree(13), list[list[tuple[int, int]]]()
    for a, b in spans:
        free = (k for k, some in enumerate(owners) if all(b < x or y < a for x, y in some))
        k = next(free, len(owners))
        assert taken.first(a, b) == k
        if k == len(owners):
            owners.append([])
        owners[k].append((a, b))
