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
from pyframe.core.dispatch import new
from pyframe.core.node import Node
from pyframe.graph.program import TEMP, Reduce
from pyframe.nn import functional as F
from pyframe.ops.linalg import matmul as mm
from pyframe.ops.math import elementwise as el
from pyframe.ops.reduce import reductions as rd
from pyframe.ops.shape import movement as mv


def near(got: Any, want: Any, tol: float = 1e-5) -> None:
    want = np.asarray(want)
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=tol, atol=tol)


def of(x: Any) -> Any:
    return x._node.data


def on_cpu(x: Any) -> Any:
    return pf.from_numpy(of(x).copy())


def backward(
    lazy: Any, call: Callable[..., Any], *inputs: Any
) -> tuple[Any, list[np.ndarray], list[np.ndarray]]:
    """The Program of forward and backward, what it gives, and what the CPU gives."""
    found = []
    for args in (list(inputs), [on_cpu(x) for x in inputs]):
        leaves = [x.requires_grad_() if x.dtype.is_floating_point else x for x in args]
        out = call(*leaves)
        g = pf.ones_like(out) * 0.5
        grads = pf.autograd.grad(out, [x for x in leaves if x.requires_grad], g)
        found.append([out.detach(), *grads])
    program, got = run(*found[0], buffers=8)
    return program, got, [x.numpy() for x in found[1]]


# --- what fuses


def test_a_bias_and_relu_join_the_product(lazy: Any) -> None:
    x, w, b = value(lazy, 6, 5), value(lazy, 4, 5), value(lazy, 4)
    program, (got,) = run(F.linear(x, w, b).relu())
    assert bodies(program) == ["matmul"] or bodies(program) == ["linear"]
    near(got, np.maximum(of(x) @ of(w).T + of(b), 0))


def test_a_residual_joins_the_product_too(lazy: Any) -> None:
    x, w, r = value(lazy, 6, 5), value(lazy, 5, 5), value(lazy, 6, 5, seed=3)
    program, (got,) = run(r + mm.matmul(x, w) * 0.5)
    assert len(program.steps) == 1
    near(got, of(r) + of(x) @ of(w) * 0.5)


def test_a_scaled_product_feeds_another_kernel_once(lazy: Any) -> None:
    x = value(lazy, 6, 6)
    y = mm.matmul(x, x) * 2
    program, (a, b) = run(y.T + 1, y.sum(0))
    assert len(program.steps) <= 3
    want = of(x) @ of(x) * 2
    near(a, want.T + 1, 1e-4)
    near(b, want.sum(0), 1e-4)


FORWARD = [
    ("softmax", lambda x: rd.softmax(x, 1), lambda a: _softmax(a)),
    ("log_softmax", lambda x: rd.log_softmax(x, 1), lambda a: np.log(_softmax(a))),
    ("layer_norm", lambda x: F.layer_norm(x, 7), lambda a: _normal(a)),
    ("mean", lambda x: x.mean(1), lambda a: a.mean(1)),
    ("std", lambda x: x.std(1), lambda a: a.std(1, ddof=1)),
    ("var", lambda x: x.var(0), lambda a: a.var(0, ddof=1)),
    ("norm", lambda x: x.norm(), lambda a: np.sqrt((a * a).sum())),
    ("logsumexp", lambda x: x.logsumexp(1), lambda a: np.log(np.exp(a).sum(1))),
    ("columns", lambda x: rd.softmax(x, 0), lambda a: _softmax(a.T).T),
]


def _softmax(a: Any) -> Any:
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _normal(a: Any) -> Any:
    c = a - a.mean(1, keepdims=True)
    return c / np.sqrt((c * c).mean(1, keepdims=True) + 1e-5)


@pytest.mark.parametrize(("name", "call", "want"), FORWARD, ids=[row[0] for row in FORWARD])
def test_it_is_one_kernel(lazy: Any, name: str, call: Any, want: Any) -> None:
    x = value(lazy, 5, 7)
    program, (got,) = run(call(x))
    assert len(program.steps) == 1, bodies(program)
    assert stores(program) == 1
    near(got, want(of(x)))


def test_cross_entropy_is_one_kernel(lazy: Any) -> None:
    x = value(lazy, 6, 5)
    y = new(Node(None, (), (), (6,), dt.int64, lazy, np.arange(6) % 5))
    program, (got,) = run(F.cross_entropy(x, y))
    assert len(program.steps) == 1, bodies(program)
    near(got, -np.log(_softmax(of(x)))[np.arange(6), np.arange(6) % 5].mean())


BACKWARD = [
    ("softmax", lambda x: rd.softmax(x, 1), 3),
    ("log_softmax", lambda x: rd.log_softmax(x, 1), 3),
    ("layer_norm", lambda x: F.layer_norm(x, 7), 3),
    ("cross_entropy", lambda x: F.cross_entropy(x, pf.arange(5, device=x.device)), 3),
]


@pytest.mark.parametrize(("name", "call", "most"), BACKWARD, ids=[row[0] for row in BACKWARD])
def test_forward_and_backward(lazy: Any, name: str, call: Any, most: int) -> None:
    if name == "cross_entropy":
        y = new(Node(None, (), (), (5,), dt.int64, lazy, np.arange(5)))
        program, got, want = backward(lazy, F.cross_entropy, value(lazy, 5, 7), y)
    else:
        program, got, want = backward(lazy, call, value(lazy, 5, 7))
    assert len(program.steps) <= most, bodies(program)
    for a, b in zip(got, want, strict=True):
        near(a, b)


def test_the_gradients_of_scale_and_shift_share_a_kernel(lazy: Any) -> None:
    x, w, b = value(lazy, 6, 7), value(lazy, 7), value(lazy, 7, seed=1)
    program, got, want = backward(lazy, lambda x, w, b: F.layer_norm(x, 7, w, b).square(), x, w, b)
    for p, q in zip(got, want, strict=True):
        near(p, q, 1e-4)
    outputs = program.outputs[2:]
    homes = [
        {i for i, s in enumerate(program.steps)
         if o in {s.slots[k] for k in program.kernels[s.kernel].written}}
        for o in outputs
    ]  # fmt: skip
    assert homes[0] == homes[1], "one kernel reduces both over the rows"


def test_a_chain_through_views_is_one_kernel(lazy: Any) -> None:
    x = value(lazy, 4, 6)
    y = (x.exp().T[1:].reshape(10, 2) + 1).flip(0)
    y = mv.pad(y, ((1, 0), (0, 1)), 2.0).permute(1, 0)[:, ::2] * 3
    program, (got,) = run(y)
    assert bodies(program) == ["map"]
    a = (np.exp(of(x)).T[1:].reshape(10, 2) + 1)[::-1]
    near(got, np.pad(a, ((1, 0), (0, 1)), constant_values=2).T[:, ::2] * 3)


def test_two_levels_of_folding(lazy: Any) -> None:
    x = value(lazy, 6, 8)
    program, (got,) = run((x - x.mean(1, keepdim=True)).square().sum(1).max())
    assert len(program.steps) == 1, bodies(program)
    near(got, ((of(x) - of(x).mean(1, keepdims=True)) ** 2).sum(1).max())


@pytest.mark.parametrize("shape", [(1 << 18,), (4, 1 << 16), (1 << 16, 4)])
@pytest.mark.parametrize("how", ["sum", "amax", "mean"])
def test_a_long_reduction_is_done_in_two_kernels(lazy: Any, shape: Any, how: str) -> None:
    x = value(lazy, *shape)
    d = int(np.argmax(shape))
    program, (got,) = run(getattr(x * 2, how)(d))
    assert len(program.steps) == 2, bodies(program)
    near(got, getattr(of(x).astype(np.float64) * 2, how.replace("amax", "max"))(d), 2e-3)


def test_long_argmax_stays_whole(lazy: Any) -> None:
    x = value(lazy, 1 << 17)
    program, (got,) = run(x.argmax())
    assert len(program.steps) == 1
    assert got == of(x).argmax()


@pytest.mark.parametrize(("n", "steps"), [(1024, 1), (1031, 2)])
def test_an_op_with_a_loop_is_in_no_long_reduction(lazy: Any, n: int, steps: int) -> None:
    """A thread has but so many rounds of all its loops on Mesa's software driver."""
    x = value(lazy, 3, n)
    for y in ((x % 0.25).sum(1), (x % 0.25) / (x + 9).sum(1, keepdim=True)):
        program, (got,) = run(y)
        assert len(program.steps) == steps, bodies(program)
        assert np.isfinite(got).all()


@pytest.mark.parametrize(("n", "times"), [(3, 1), (1 << 21, 1), ((1 << 21) + 1, 2), (1 << 24, 8)])
def test_a_long_loop_has_its_body_several_times(lazy: Any, n: int, times: int) -> None:
    program, *_ = plan(mv.expand(value(lazy, 1), (n,)).argmax())
    code = generate(program.kernels[0]).code
    assert code.count("= combine_argmax_f32(acc0,") == times
    assert code.count("for (var") == 1 + (n > 32)


# --- siblings, and what must not merge


def test_siblings_of_one_size_share_a_kernel(lazy: Any) -> None:
    x, y = value(lazy, 4, 5), value(lazy, 4, 5, seed=1)
    program, (a, b, c) = run(x + y, x * y, (x - y).exp())
    assert bodies(program) == ["map"]
    near(a, of(x) + of(y))
    near(b, of(x) * of(y))
    near(c, np.exp(of(x) - of(y)))


def test_a_value_read_in_another_order_is_not_in_the_kernel(lazy: Any) -> None:
    x = value(lazy, 4, 4)
    y = x.exp().square().exp().square().sqrt()  # too dear to compute twice
    program, (a, b) = run(y + 1, (y.T * 2).contiguous())
    want = np.exp(np.exp(of(x)) ** 2)
    near(a, want + 1, 1e-4)
    near(b, want.T * 2, 1e-4)
    assert len(program.steps) == 2


def test_a_product_between_two_maps_forbids_that_they_merge(lazy: Any) -> None:
    x = value(lazy, 4, 4)
    a = x.exp()
    b = mm.matmul(a, a)
    c = a.T.sqrt() + b  # needs both
    program, (got_a, got_c) = run(a, c)
    near(got_a, np.exp(of(x)))
    e = np.exp(of(x))
    near(got_c, np.sqrt(e).T + e @ e, 1e-4)
    assert len(program.steps) <= 3


def test_diamonds_have_no_cycle(lazy: Any) -> None:
    """Each of two chains of reductions reads what the other made."""
    x = value(lazy, 6, 6)
    p, q = x.exp(), x.sin()
    wp, wq = of(x), of(x)
    wp, wq = np.exp(wp), np.sin(wq)
    for i in range(4):
        p, q = p - q.sum(i % 2, keepdim=True) * 0.1, q + p.T.amax(1, keepdim=True) * 0.1
        wp, wq = (
            wp - wq.sum(i % 2, keepdims=True) * 0.1, wq + wp.T.max(1, keepdims=True) * 0.1
        )  # fmt: skip
    _program, (a, b) = run(p * q, q)
    near(a, wp * wq, 1e-4)
    near(b, wq, 1e-4)


def test_many_readers_after_unions(lazy: Any) -> None:
    """A group that was put in another's place is found by who reads the same later."""
    x = value(lazy, 2, 3)
    twice = x + x
    outs = [twice, *[x.tanh() * k for k in range(7)], el.where(el.gt(x, 0.1), x, twice)]
    total = outs[0].sum()
    for o in outs[1:]:
        total = total + (o * 0.3).sum()
    soft = rd.softmax(x * 1, 0)
    _program, got = run(total + soft.sum() + (x * 1).tanh().sum(), *outs, soft)
    a = of(x)
    tanh = np.tanh(a)
    want = [2 * a, *[tanh * k for k in range(7)], np.where(a > 0.1, a, 2 * a)]
    sums = want[0].sum() + sum((w * 0.3).sum() for w in want[1:]) + 3 + tanh.sum()
    for g, w in zip(got, [sums, *want, _softmax(a.T).T], strict=True):
        near(g, w, 1e-4)


@pytest.mark.parametrize("buffers", range(3, 11))
def test_no_kernel_binds_too_much(lazy: Any, buffers: int) -> None:
    xs = [value(lazy, 4, 6, seed=i) for i in range(14)]
    wide = xs[0]
    for x in xs[1:]:
        wide = wide * 0.9 + x
    sums = (xs[0] * xs[1] + xs[2] * xs[3] - xs[4] * xs[5]).sum(1)
    product = mm.matmul(xs[6] + xs[7] * xs[8], (xs[9] * xs[10] + xs[11]).T)
    program, (a, b, c) = run(wide, sums, product + xs[12][:, :4] * xs[13][:, 2:], buffers=buffers)
    assert all(len(s.slots) <= buffers for s in program.steps)
    v = [of(x) for x in xs]
    want = v[0]
    for x in v[1:]:
        want = want * 0.9 + x
    near(a, want)
    near(b, (v[0] * v[1] + v[2] * v[3] - v[4] * v[5]).sum(1))
    near(c, (v[6] + v[7] * v[8]) @ (v[9] * v[10] + v[11]).T + v[12][:, :4] * v[13][:, 2:], 1e-4)


# --- what is written


def test_only_what_is_needed_is_written(lazy: Any) -> None:
    x = value(lazy, 5, 7)
    total = rd.softmax(x, 1).square().sum(1)
    program, _ = run(total)
    assert stores(program) == made(program) == 1
    soft = rd.softmax(x, 1)
    program, _ = run(soft, soft.square().sum(1))
    assert stores(program) == made(program) == 2


def test_temporaries_take_turns(lazy: Any) -> None:
    x = value(lazy, 32, 32)
    y = x
    for _ in range(6):
        y = mm.matmul(y, x)
    program, (got,) = run(y)
    want = of(x).astype(np.float64)
    for _ in range(6):
        want = want @ of(x)
    near(got / np.abs(want).max(), want / np.abs(want).max(), 1e-3)
    one = 32 * 32 * 4
    assert sum(s.kind == TEMP for s in program.slots) == 2
    assert program.peak_bytes == 4 * one  # input, output and two


def test_temporaries_of_other_sizes_share_too(lazy: Any) -> None:
    x = value(lazy, 8, 16)
    y = mm.matmul(mm.matmul(mm.matmul(x, x.T), x), x.T)  # temporaries of 64 and 128 elements
    program, (got,) = run(y)
    a = of(x)
    near(got, a @ a.T @ a @ a.T, 1e-4)
    assert program.peak_bytes == 4 * (128 + 64 + 64 + 128)


# --- in place


def written_over(program: Any) -> bool:
    return program.slots[program.outputs[0]].kind == "input"


def test_a_map_is_written_over_its_input(lazy: Any) -> None:
    x, y = value(lazy, 4, 5), value(lazy, 4, 5, seed=1)
    new = x * 2 + y
    program, (got,) = run(new, over={new: x})
    assert written_over(program)
    assert program.peak_bytes == 2 * 80
    near(got, of(x) * 2 + of(y))


def test_earlier_readers_run_first(lazy: Any) -> None:
    x = value(lazy, 4, 4)
    new = x + 1
    product = mm.matmul(x, x)
    program, (a, b) = run(new, product, over={new: x})
    assert written_over(program)
    near(a, of(x) + 1)
    near(b, of(x) @ of(x))


def test_they_do_so_before_a_reduction_too(lazy: Any) -> None:
    x, y = value(lazy, 4, 4), value(lazy, 4, 4, seed=1)
    product = mm.matmul(x, x)
    new = el.copy(y)
    program, (a, b, c) = run(new, new.sum(0), product, over={new: x})
    assert written_over(program)
    near(a, of(y))
    near(b, of(y).sum(0))
    near(c, of(x) @ of(x))


def test_not_where_a_later_reader_needs_the_old_value(lazy: Any) -> None:
    x = value(lazy, 4, 4)
    new = mm.matmul(x, x).relu().sum(0, keepdim=True) + x
    late = mm.matmul(new, x)  # needs both
    program, (a, b) = run(new, late, over={new: x})
    want = np.maximum(of(x) @ of(x), 0).sum(0, keepdims=True) + of(x)
    near(a, want, 1e-4)
    near(b, want @ of(x), 1e-4)
    assert not written_over(program)


@pytest.mark.parametrize(
    "make",
    [lambda x: (x.T + 1).contiguous(), lambda x: x.flip(0) * 2, lambda x: x + x.T,
     lambda x: mv.pad(x[1:], ((0, 1), (0, 0)), 0.0) + x],
    ids=["transposed", "flipped", "both", "shifted"],
)  # fmt: skip
def test_not_where_an_element_reads_another(lazy: Any, make: Any) -> None:
    x = value(lazy, 4, 4)
    new = make(x)
    program, (got,) = run(new, over={new: x})
    assert not written_over(program)
    near(got, make(on_cpu(x)).numpy())


def test_not_where_a_fold_reads_it(lazy: Any) -> None:
    x = value(lazy, 4, 4)
    new = x - x.sum(1, keepdim=True)
    program, (got,) = run(new, over={new: x})
    near(got, of(x) - of(x).sum(1, keepdims=True))
    if written_over(program):  # then the sum lies in a kernel of its own
        assert len(program.steps) == 2


def test_what_is_not_read_is_no_place_to_write(lazy: Any) -> None:
    x, y = value(lazy, 4), value(lazy, 4, seed=1)
    new = y * 2
    _, (got,) = run(new, over={new: x})
    near(got, of(y) * 2)


def test_two_values_that_change_places(lazy: Any) -> None:
    x, y = value(lazy, 4), value(lazy, 4, seed=1)
    a, b = y + 0.5, x * 2
    _, (got_a, got_b) = run(a, b, over={a: x, b: y})
    near(got_a, of(y) + 0.5)
    near(got_b, of(x) * 2)


# --- many tensors as one


SIZES = [(3,), (7, 5), (64,), (130,)]


def updates(lazy: Any) -> tuple[list[Any], list[Any], list[Any]]:
    old = [value(lazy, *s) for s in SIZES]
    grads = [value(lazy, *s, seed=9) for s in SIZES]
    return old, grads, [p - g * 0.1 for p, g in zip(old, grads, strict=True)]


def region_maps(program: Any) -> int:
    """Kernels that go over a whole region."""
    return sum(
        any(program.slots[s].nbytes == program.regions[program.slots[s].region]
            for s in step.slots if program.slots[s].region >= 0)
        for step in program.steps
    )  # fmt: skip


def test_equal_maps_over_many_tensors_become_one(lazy: Any) -> None:
    old, grads, new = updates(lazy)
    program, got = run(*new, over=dict(zip(new, old, strict=True)), movable=[*old, *grads])
    assert bodies(program) == ["map"]
    for g, p, d in zip(got, old, grads, strict=True):
        near(g, of(p) - of(d) * 0.1)
    assert program.regions == [256 + 256 + 256 + 768] * 2
    assert program.peak_bytes == 2 * sum(program.regions[:1])
    offsets = sorted({s.offset for s in program.slots if s.region == 0})
    assert offsets == [0, 256, 512, 768]


def test_without_movable_inputs_nothing_is_merged(lazy: Any) -> None:
    old, _grads, new = updates(lazy)
    program, _ = run(*new, over=dict(zip(new, old, strict=True)))
    assert not program.regions
    assert len(program.steps) == len(SIZES)
    program, _ = run(*new, over=dict(zip(new, old, strict=True)), movable=old)
    assert not program.regions


def test_other_numbers_are_merged_apart(lazy: Any) -> None:
    old, grads, _ = updates(lazy)
    new = [p - g * k for p, g, k in zip(old, grads, [0.1, 0.1, 0.2, 0.2], strict=True)]
    program, got = run(*new, over=dict(zip(new, old, strict=True)), movable=[*old, *grads])
    assert len(program.steps) == 2
    assert len(program.regions) == 4
    for g, p, d, k in zip(got, old, grads, [0.1, 0.1, 0.2, 0.2], strict=True):
        near(g, of(p) - of(d) * k)


def test_gradients_that_kernels_make_are_merged(lazy: Any) -> None:
    old = [value(lazy, *s) for s in SIZES]
    many = [value(lazy, 6, *s, seed=2) for s in SIZES]
    grads = [m.sum(0) for m in many]
    new = [p - g * 0.1 for p, g in zip(old, grads, strict=True)]
    program, got = run(*new, over=dict(zip(new, old, strict=True)), movable=old)
    assert len(program.steps) <= len(SIZES) + 1
    for g, p, m in zip(got, old, many, strict=True):
        near(g, of(p) - of(m).sum(0) * 0.1)


def test_merged_kernels_that_wait_for_one_another(lazy: Any) -> None:
    """C needs A, and B needs D: {A, B} and {C, D} cannot both be one kernel."""
    a, b, c, d = (value(lazy, n, seed=n) for n in (64, 65, 64, 65))
    new_a = a * 2
    new_c = (new_a.flip(0) + c.exp()).sin()  # after A
    new_d = (d.flip(0) * 1 + d.exp()).sin()
    new_b = b * 2
    late = new_d.flip(0) + new_b.flip(0)
    _program, got = run(new_a, new_b, new_c, new_d, late, movable=[a, b, c, d])
    want_d = np.sin(of(d)[::-1] + np.exp(of(d)))
    want = [
        of(a) * 2, of(b) * 2, np.sin(of(a)[::-1] * 2 + np.exp(of(c))), want_d,
        want_d[::-1] + of(b)[::-1] * 2,
    ]  # fmt: skip
    for g, w in zip(got, want, strict=True):
        near(g, w)


def test_two_merged_kernels_crosswise(lazy: Any) -> None:
    """Each merged kernel would have to run before the other."""
    a, b, c, d, ga, hc = (value(lazy, 8, 8, seed=k) for k in range(6))
    new_a, new_c = a - ga * 0.1, c + hc.exp()
    new_b = b + mm.matmul(new_a, new_a).exp()
    new_d = d - mm.matmul(new_c, new_c) * 0.1
    over = {new_a: a, new_b: b, new_c: c, new_d: d}
    _, got = run(*over, over=over, movable=[a, b, c, d, ga, hc])
    va, vc = of(a) - of(ga) * 0.1, of(c) + np.exp(of(hc))
    want = [va, of(b) + np.exp(va @ va), vc, of(d) - vc @ vc * 0.1]
    for g, w in zip(got, want, strict=True):
        near(g, w, 1e-4)


def test_a_kernel_that_reads_one_member_and_writes_another_prevents_the_merge(lazy: Any) -> None:
    x, y = value(lazy, 64), value(lazy, 70)
    a = x * 2
    b = mm.matmul(value(lazy, 70, 64, seed=1), a.reshape(64, 1)).reshape(70) + y
    c = b * 2
    program, got = run(a, c, movable=[x, y])
    check(program)
    want = (value(lazy, 70, 64, seed=1)._node.data @ (of(x) * 2) + of(y)) * 2
    near(got[0], of(x) * 2)
    near(got[1], want, 1e-4)
    for step in program.steps:
        kernel = program.kernels[step.kernel]
        regions = [program.slots[s].region for s in step.slots]
        read = {regions[k] for k in loaded(kernel) - kernel.written} - {-1}
        assert not read & {regions[k] for k in kernel.written}


def test_reductions_know_their_axes(lazy: Any) -> None:
    x = value(lazy, 4, 5, 6)
    program, (got,) = run((x.exp() - 1).sum((0, 2)))
    (kernel,) = program.kernels
    assert [i.op for i in kernel.code if isinstance(i, Reduce)] == ["sum"]
    near(got, (np.exp(of(x)) - 1).sum((0, 2)), 1e-4)


def test_empty_and_single_elements(lazy: Any) -> None:
    none, one = value(lazy, 0, 3), value(lazy, 1, 1)
    _, (a, b, c, d) = run(none * 2, none.sum(0), one.sum(), rd.softmax(one, 1))
    assert a.shape == (0, 3)
    assert (b == 0).all()
    near(c, of(one).sum())
    near(d, 1)
    assert plan(none.sum())[0].steps
