"""What becomes of values on their way into kernels: what fuses, what is stored, and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from plans import bodies, check, loaded, made, plan, run, stores, value

import pyframe as pf
from pyframe.codegen.wgsl import generate
from pyframe.core import dtypes as dt
from pyframe.core.dispatch import tensor_from_node
from pyframe.core.node import Node
from pyframe.graph import fuse, products, schedule
from pyframe.graph.program import TEMP, Apply, Load
from pyframe.nn import functional as F
from pyframe.ops.linalg import matmul as mm
from pyframe.ops.math import elementwise as el
from pyframe.ops.reduce import reductions as rd
from pyframe.ops.shape import join, movement as mv


def near(got: Any, want: Any, tol: float = 1e-5) -> None:
    want = np.asarray(want)
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=tol, atol=tol)


def on_cpu(x: Any) -> Any:
    return pf.from_numpy(x._node.data.copy())


def fused(
    lazy: Any, call: Callable[..., Any], *shapes: Any, over: dict[int, int] | None = None,
    movable: Any = None, buffers: int = 8, tol: float = 1e-5,
) -> Any:  # fmt: skip
    """The Program of a function, which gives what the CPU computes at once. `over` says by number
    which result may be written over which input, `movable` which inputs may be moved."""
    xs = [
        value(lazy, *shape, seed=k) if isinstance(shape, tuple) else shape
        for k, shape in enumerate(shapes)
    ]
    outs, want = (
        found if isinstance(found, (tuple, list)) else [found]
        for found in (call(*xs), call(*[on_cpu(x) for x in xs]))
    )
    program, got = run(
        *outs, buffers=buffers, over={outs[k]: xs[i] for k, i in (over or {}).items()},
        movable=None if movable is None else [xs[i] for i in movable],
    )  # fmt: skip
    for g, w in zip(got, want, strict=True):
        near(g, w.numpy(), tol)
    return program


def with_gradients(call: Callable[..., Any]) -> Callable[..., Any]:
    """The function, and its gradients of all inputs that are floats."""

    def both(*inputs: Any) -> list[Any]:
        leaves = [x.requires_grad_() if x.dtype.is_floating_point else x for x in inputs]
        out = call(*leaves)
        wanted = [x for x in leaves if x.requires_grad]
        return [out.detach(), *pf.autograd.grad(out, wanted, pf.ones_like(out) * 0.5)]

    return both


def classes(lazy: Any, n: int, k: int) -> Any:
    """Targets of a classification."""
    return tensor_from_node(Node(None, (), (), (n,), dt.int64, lazy, np.arange(n) % k))


# --- what fuses


def scaled(x: Any) -> Any:
    y = mm.matmul(x, x) * 2
    return y.T + 1, y.sum(0)


def in_two_orders(x: Any) -> Any:
    y = x.exp().square().exp().square().sqrt()  # too dear to compute twice
    return y + 1, (y.T * 2).contiguous()


def around_a_product(x: Any) -> Any:
    a = x.exp()
    return a, a.T.sqrt() + mm.matmul(a, a)


SQUARE = (6, 6)
# how many kernels a function of tensors of these shapes takes, at most
KERNELS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "a bias and relu join the product": (
        lambda x, w, b: F.linear(x, w, b).relu(), ((6, 5), (4, 5), (4,)), 1,
    ),
    "a residual joins the product too": (
        lambda x, w, r: r + mm.matmul(x, w) * 0.5, ((6, 5), (5, 5), (6, 5)), 1,
    ),
    "a scaled product feeds another kernel once": (scaled, (SQUARE,), 3),
    "two levels of folding": (
        lambda x: (x - x.mean(1, keepdim=True)).square().sum(1).max(), ((6, 8),), 1,
    ),
    "long argmax stays whole": (lambda x: x.argmax(), ((1 << 17,),), 1),
    "a value read in another order is not in the kernel": (in_two_orders, ((4, 4),), 2),
    "a product between two maps forbids that they merge": (around_a_product, ((4, 4),), 3),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(lazy: Any, name: str) -> None:
    call, shapes, most = KERNELS[name]
    program = fused(lazy, call, *shapes, tol=1e-4)
    assert len(program.steps) <= most, bodies(program)


FORWARD: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: rd.softmax(x, 1), "log_softmax": lambda x: rd.log_softmax(x, 1),
    "layer_norm": lambda x: F.layer_norm(x, 7), "mean": lambda x: x.mean(1),
    "std": lambda x: x.std(1), "var": lambda x: x.var(0), "norm": lambda x: x.norm(),
    "logsumexp": lambda x: x.logsumexp(1), "columns": lambda x: rd.softmax(x, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", FORWARD)
def test_it_is_one_kernel(lazy: Any, name: str) -> None:
    program = fused(lazy, FORWARD[name], (5, 7))
    assert len(program.steps) == 1, bodies(program)
    assert stores(program) == 1


@pytest.mark.parametrize("rows", [6, 8192])
def test_the_gradients_of_scale_and_shift_share_a_kernel(lazy: Any, rows: int) -> None:
    """Of many rows the second of two."""
    call = with_gradients(lambda x, w, b: F.layer_norm(x, 7, w, b).square())
    program = fused(lazy, call, (rows, 7), (7,), (7,), tol=1e-4 if rows == 6 else 2e-3)
    outputs = program.outputs[2:]
    homes = [
        {i for i, s in enumerate(program.steps)
         if o in {s.slots[k] for k in program.kernels[s.kernel].written}}
        for o in outputs
    ]  # fmt: skip
    assert homes[0] == homes[1], "one kernel reduces both over the rows"


def test_a_chain_through_views_is_one_kernel(lazy: Any) -> None:
    def chain(x: Any) -> Any:
        y = (x.exp().T[1:].reshape(10, 2) + 1).flip(0)
        return mv.pad(y, ((1, 0), (0, 1)), 2.0).permute(1, 0)[:, ::2] * 3

    assert bodies(fused(lazy, chain, (4, 6))) == ["map"]


@pytest.mark.parametrize(("n", "steps"), [(1024, 1), (1031, 2)])
def test_an_op_with_a_loop_is_in_no_long_reduction(lazy: Any, n: int, steps: int) -> None:
    """A thread has but so many rounds of all its loops on Mesa's software driver."""
    x = value(lazy, 3, n)
    for y in ((x % 0.25).sum(1), (x % 0.25) / (x + 9).sum(1, keepdim=True)):
        program, (got,) = run(y)
        assert len(program.steps) == steps, bodies(program)
        assert np.isfinite(got).all()


@pytest.mark.parametrize(("n", "times"), [(3, 3), (1 << 21, 1), ((1 << 21) + 1, 2), (1 << 24, 8)])
def test_a_long_loop_has_its_body_several_times(lazy: Any, n: int, times: int) -> None:
    program, *_ = plan(mv.expand(value(lazy, 1), (65, n)).argmax(1))
    code = generate(program.kernels[0]).code
    assert code.count("= combine_argmax_f32(acc0,") == times
    assert code.count("for (var") == 2 * (n > 32)


# --- siblings, and what must not merge


@pytest.mark.parametrize(("rows", "columns", "axis", "kernels"), [
    (1000, 66, 0, 1), (1000, 66, 1, 2), (100, 66, 0, 2), (1100, 60, 0, 2),
])  # fmt: skip
def test_a_product_sums_what_it_reads(
    lazy: Any, rows: int, columns: int, axis: int, kernels: int
) -> None:
    """The gradients of a weight and of a bias, whichever is asked for first, unless they are small
    or the sum is of other axes."""

    def grads(g: Any, x: Any) -> Any:
        return mm.matmul(g.t(), x), g.sum(axis)

    shapes = (rows, columns), (rows, 70)
    for call in (grads, lambda g, x: grads(g, x)[::-1]):
        program = fused(lazy, call, *shapes, tol=1e-3)
        assert len(program.steps) == kernels, bodies(program)


def test_a_product_stores_what_follows_in_another_order(lazy: Any) -> None:
    def turned(a: Any, b: Any, c: Any) -> Any:
        y = (a @ b).reshape(4, 6, 5, 8)
        turned = el.copy(y.permute(2, 0, 3, 1)).reshape(20, 48)
        return (turned * 2 + c).relu()

    program = fused(lazy, turned, (24, 7), (7, 40), (20, 1))
    assert bodies(program) == ["matmul"]
    program = fused(lazy, lambda a, b: el.copy((a @ b).t()[:5]), (24, 7), (7, 40))
    assert bodies(program) == ["matmul", "map"]


def test_what_is_put_together_as_it_was_is_not_copied(lazy: Any) -> None:
    """As the gradients of parts are; in another order they are copied, and a gap is of zeros."""

    def parts(m: Any, *places: int) -> Any:
        some = [m[:, i : i + 8] for i in (0, 8, 16)]
        return join.cat([some[i] for i in places], 1) * 2

    for places, kernels in (((0, 1, 2), 1), ((1, 0, 2), 2), ((0, 0, 2), 2)):
        program = fused(lazy, lambda a, b, p=places: parts(a @ b, *p), (6, 7), (7, 24))
        assert len(program.steps) == kernels, bodies(program)

    def with_a_gap(a: Any, b: Any) -> Any:
        m = a @ b
        return mv.pad(m[:, 8:16], ((0, 0), (8, 8))) + mv.pad(m[:, 16:], ((0, 0), (16, 0)))

    fused(lazy, with_a_gap, (6, 7), (7, 24))


def test_a_large_activation_is_made_again(lazy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a map before the product for a weight's gradient, which reads what is kept anyway."""
    call = with_gradients(lambda x, w, v: mm.matmul(F.gelu(mm.matmul(x, w)), v).square())
    shapes = (90, 8), (8, 80), (80, 70)
    once = fused(lazy, call, *shapes, tol=1e-3)
    for module in (fuse, products, schedule):
        monkeypatch.setattr(module, "REMATERIALIZE_MIN_ELEMENTS", 90 * 80)
    again = fused(lazy, call, *shapes, tol=1e-3)
    assert len(again.steps) == len(once.steps) + 1
    assert bodies(again).count("map") == bodies(once).count("map") + 1


def test_siblings_of_one_size_share_a_kernel(lazy: Any) -> None:
    program = fused(lazy, lambda x, y: (x + y, x * y, (x - y).exp()), (4, 5), (4, 5))
    assert bodies(program) == ["map"]


def test_a_product_loads_each_element_from_one_buffer(lazy: Any) -> None:
    """It loads it several times: what is computed of several buffers is stored, what is computed
    of one is not."""

    def block(x: Any, y: Any, w: Any) -> Any:
        return mm.matmul(mm.matmul(x * y, el.exp(w)) + x, w)

    program = fused(lazy, block, (600, 128), (600, 128), (128, 128), tol=1e-3)
    products = [k.routine for k in program.kernels if k.routine]
    assert len(program.kernels) == 3, "x * y is stored, the sum by the product before it"
    assert len(products) == 2
    for r in products:
        for e in r.operands:
            assert len({i.binding for i in e.code if isinstance(i, Load)}) == 1
    assert any(i.op == "exp" for i in products[0].operands[1].code if isinstance(i, Apply))


def test_diamonds_have_no_cycle(lazy: Any) -> None:
    """Each of two chains of reductions reads what the other made."""

    def chains(x: Any) -> Any:
        p, q = x.exp(), x.sin()
        for i in range(4):
            p, q = p - q.sum(i % 2, keepdim=True) * 0.1, q + p.T.amax(1, keepdim=True) * 0.1
        return p * q, q

    fused(lazy, chains, SQUARE, tol=1e-4)


def test_many_readers_after_unions(lazy: Any) -> None:
    """A group that was put in another's place is found by who reads the same later."""

    def readers(x: Any) -> Any:
        twice = x + x
        outs = [twice, *[x.tanh() * k for k in range(7)], el.where(el.gt(x, 0.1), x, twice)]
        total = outs[0].sum()
        for o in outs[1:]:
            total = total + (o * 0.3).sum()
        soft = rd.softmax(x * 1, 0)
        return total + soft.sum() + (x * 1).tanh().sum(), *outs, soft

    fused(lazy, readers, (2, 3), tol=1e-4)


@pytest.mark.parametrize("buffers", range(3, 11))
def test_no_kernel_binds_too_much(lazy: Any, buffers: int) -> None:
    def many(*xs: Any) -> Any:
        wide = xs[0]
        for x in xs[1:]:
            wide = wide * 0.9 + x
        sums = (xs[0] * xs[1] + xs[2] * xs[3] - xs[4] * xs[5]).sum(1)
        product = mm.matmul(xs[6] + xs[7] * xs[8], (xs[9] * xs[10] + xs[11]).T)
        return wide, sums, product + xs[12][:, :4] * xs[13][:, 2:]

    program = fused(lazy, many, *[(4, 6)] * 14, buffers=buffers, tol=1e-4)
    assert all(len(s.slots) <= buffers for s in program.steps)


# --- what is written


def test_only_what_is_needed_is_written(lazy: Any) -> None:
    program = fused(lazy, lambda x: rd.softmax(x, 1).square().sum(1), (5, 7))
    assert stores(program) == made(program) == 1

    def both(x: Any) -> Any:
        soft = rd.softmax(x, 1)
        return soft, soft.square().sum(1)

    program = fused(lazy, both, (5, 7))
    assert stores(program) == made(program) == 2


def test_temporaries_take_turns(lazy: Any) -> None:
    def product(x: Any) -> Any:
        y = x
        for _ in range(6):
            y = mm.matmul(y, x) * 0.1
        return y

    program = fused(lazy, product, (32, 32), tol=1e-3)
    assert sum(s.kind == TEMP for s in program.slots) == 2
    assert program.peak_bytes == 4 * 32 * 32 * 4  # input, output and two


@pytest.mark.parametrize(
    ("call", "temps"),
    [
        (lambda y: y.softmax(1), 1),  # each element is read last where it is written
        (lambda y: y + y.t(), 2),
        (lambda y: (y - y.amax(1, True)) * y.sum(1, True).exp(), 1),
        (lambda y: y * y.sum(), 1),
    ],
)
def test_a_value_is_written_over_a_temporary(lazy: Any, call: Any, temps: int) -> None:
    program = fused(lazy, lambda a, b: call(a @ b) @ b, (9, 9), (9, 9), tol=1e-3)
    assert sum(s.kind == TEMP for s in program.slots) == temps


def test_not_over_one_that_a_later_walk_reads(lazy: Any) -> None:
    def both(a: Any, b: Any) -> Any:
        y = a @ b
        early = y - y.amax(1, True)
        return early.t() @ (y * early.exp().sum(1, True))

    program = fused(lazy, both, (9, 9), (9, 9), tol=1e-3)
    (kernel,) = [k for k in program.kernels if k.routine is None]
    first, then = sorted(kernel.stores, key=lambda s: s.value)
    assert first.binding not in loaded(kernel)
    assert then.binding in loaded(kernel)


def test_temporaries_of_other_sizes_share_too(lazy: Any) -> None:
    program = fused(  # temporaries of 64 and 128 elements
        lazy, lambda x: mm.matmul(mm.matmul(mm.matmul(x, x.T), x), x.T), (8, 16), tol=1e-3
    )
    assert program.peak_bytes == 4 * (128 + 64 + 64 + 128)


# --- in place


def written_over(program: Any) -> bool:
    return program.slots[program.outputs[0]].kind == "input"


def before_a_reduction(x: Any, y: Any) -> Any:
    z = el.copy(y)
    return z, z.sum(0), mm.matmul(x, x)


def needed_later(x: Any, y: Any) -> Any:
    z = mm.matmul(x, x).relu().sum(0, keepdim=True) + x
    return z, mm.matmul(z, x)


# the first result may be written over the first input: whether it is
IN_PLACE: dict[str, tuple[Callable[..., Any], bool]] = {
    "a map": (lambda x, y: x * 2 + y, True),
    "earlier readers run first": (lambda x, y: (x + 1, mm.matmul(x, x)), True),
    "and before a reduction": (before_a_reduction, True),
    "a later reader needs the old value": (needed_later, False),
    "transposed": (lambda x, y: (x.T + 1).contiguous(), False),
    "flipped": (lambda x, y: x.flip(0) * 2, False),
    "both": (lambda x, y: x + x.T, False),
    "shifted": (lambda x, y: mv.pad(x[1:], ((0, 1), (0, 0)), 0.0) + x, False),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(lazy: Any, name: str) -> None:
    call, over = IN_PLACE[name]
    program = fused(lazy, call, (4, 4), (4, 4), over={0: 0}, tol=1e-4)
    assert written_over(program) == over
    if name == "a map":
        assert program.peak_bytes == 2 * 64


def test_not_where_a_fold_reads_it(lazy: Any) -> None:
    program = fused(lazy, lambda x: x - x.sum(1, keepdim=True), (4, 4), over={0: 0})
    if written_over(program):  # then the sum lies in a kernel of its own
        assert len(program.steps) == 2


def test_what_is_not_read_is_no_place_to_write(lazy: Any) -> None:
    fused(lazy, lambda x, y: y * 2, (4,), (4,), over={0: 0})


def test_two_values_that_change_places(lazy: Any) -> None:
    fused(lazy, lambda x, y: (y + 0.5, x * 2), (4,), (4,), over={0: 0, 1: 1})


# --- many tensors as one


SIZES = [(3,), (7, 5), (64,), (130,)]
ALL = range(2 * len(SIZES))


def updates(*xs: Any) -> list[Any]:
    """Of parameters and their gradients."""
    return [p - g * 0.1 for p, g in zip(xs[:4], xs[4:], strict=True)]


def merged(
    lazy: Any, call: Callable[..., Any], *shapes: tuple[int, ...], movable: Any = ALL
) -> Any:
    """The Program of new values of the first inputs, which are written over these."""
    return fused(lazy, call, *shapes, over={k: k for k in range(len(SIZES))}, movable=movable)


def test_equal_maps_over_many_tensors_become_one(lazy: Any) -> None:
    program = merged(lazy, updates, *SIZES, *SIZES)
    assert bodies(program) == ["map"]
    assert program.regions == [256 + 256 + 256 + 768] * 2
    assert program.peak_bytes == 2 * sum(program.regions[:1])
    offsets = sorted({s.offset for s in program.slots if s.region == 0})
    assert offsets == [0, 256, 512, 768]


def test_without_movable_inputs_nothing_is_merged(lazy: Any) -> None:
    program = merged(lazy, updates, *SIZES, *SIZES, movable=None)
    assert not program.regions
    assert len(program.steps) == len(SIZES)
    program = merged(lazy, updates, *SIZES, *SIZES, movable=range(4))
    assert not program.regions


def test_other_numbers_are_merged_apart(lazy: Any) -> None:
    def apart(*xs: Any) -> list[Any]:
        rates = [0.1, 0.1, 0.2, 0.2]
        return [p - g * k for p, g, k in zip(xs[:4], xs[4:], rates, strict=True)]

    program = merged(lazy, apart, *SIZES, *SIZES)
    assert len(program.steps) == 2
    assert len(program.regions) == 4


def test_gradients_that_kernels_make_are_merged(lazy: Any) -> None:
    def sums(*xs: Any) -> list[Any]:
        return updates(*xs[:4], *[m.sum(0) for m in xs[4:]])

    program = merged(lazy, sums, *SIZES, *[(6, *s) for s in SIZES], movable=range(4))
    assert len(program.steps) <= len(SIZES) + 1


def test_merged_kernels_that_wait_for_one_another(lazy: Any) -> None:
    """C needs A, and B needs D: {A, B} and {C, D} cannot both be one kernel."""

    def waiting(a: Any, b: Any, c: Any, d: Any) -> Any:
        new_a = a * 2
        new_c = (new_a.flip(0) + c.exp()).sin()  # after A
        new_d = (d.flip(0) * 1 + d.exp()).sin()
        new_b = b * 2
        return new_a, new_b, new_c, new_d, new_d.flip(0) + new_b.flip(0)

    fused(lazy, waiting, (64,), (65,), (64,), (65,), movable=range(4))


def test_two_merged_kernels_crosswise(lazy: Any) -> None:
    """Each merged kernel would have to run before the other."""

    def crosswise(a: Any, b: Any, c: Any, d: Any, ga: Any, hc: Any) -> Any:
        new_a, new_c = a - ga * 0.1, c + hc.exp()
        new_b = b + mm.matmul(new_a, new_a).exp()
        return new_a, new_b, new_c, d - mm.matmul(new_c, new_c) * 0.1

    merged(lazy, crosswise, *[(8, 8)] * 6, movable=range(6))


def test_a_kernel_that_reads_one_member_and_writes_another_prevents_the_merge(lazy: Any) -> None:
    def mixed(x: Any, y: Any, w: Any) -> Any:
        a = x * 2
        return a, (mm.matmul(w, a.reshape(64, 1)).reshape(70) + y) * 2

    program = fused(lazy, mixed, (64,), (70,), (70, 64), movable=(0, 1), tol=1e-4)
    check(program)
    for step in program.steps:
        kernel = program.kernels[step.kernel]
        regions = [program.slots[s].region for s in step.slots]
        read = {regions[k] for k in loaded(kernel) - kernel.written} - {-1}
        assert not read & {regions[k] for k in kernel.written}
