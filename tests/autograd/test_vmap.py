"""vmap: all ops over a batch give what a loop over its examples gives, in one run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from samples import FAMILIES, ROWS, Row, make

import pyframe as pf
import pyframe.nn.functional as F
from pyframe import nn
from pyframe.ops.api import batching_rules
from pyframe.tensor.tree import leaves

SIZE = 2
# What a batch cannot do, as in PyTorch: shapes that depend on values, and reading them
READS = set(
    """argwhere bincount index:mask nonzero put_rows:many unique unique:rows
    unique_consecutive""".split()
)
# An example is a tensor of its own, of which as_strided sees nothing else; x[i] is a view
OTHER_MEMORY = {"as_strided", "as_strided_scatter"}


def batches(row: Row, mapped: tuple[int | None, ...], device: str, grad: bool) -> list[pf.Tensor]:
    """Inputs of `row`: SIZE of them stacked where `mapped` is 0, and one for all where None."""
    sets = [[make(s, np.random.default_rng(i)) for s in row.specs] for i in range(SIZE)]
    out = []
    for i, d in enumerate(mapped):
        array = np.stack([s[i] for s in sets]) if d == 0 else sets[0][i]
        x = pf.from_numpy(array).to(device)
        out.append(x.requires_grad_(grad and x.is_floating_point()))
    return out


def with_gradients(run: Callable[..., list[pf.Tensor]], xs: list[pf.Tensor]) -> list[Any]:
    ys = run(*xs)
    smooth = [y for y in ys if y.requires_grad]
    wanted = [x for x in xs if x.requires_grad]
    seeds = [pf.cos(pf.arange(y.numel(), device=y.device)).reshape(y.shape).to(y.dtype)
             for y in smooth]  # fmt: skip
    grads = pf.autograd.grad(smooth, wanted, seeds, allow_unused=True) if smooth else ()
    return [None if t is None else t.detach().cpu().numpy() for t in (*ys, *grads)]


def check(row: Row, device: str, seen: set[Any]) -> None:
    """With a batch in each operand, and in one alone unless another row of the op had it there."""
    k = len(row.specs)
    each = [tuple(0 if i == j else None for i in range(k)) for j in range(k)]
    op = row.name.partition(":")[0]
    for mapped in dict.fromkeys([(0,) * k, *(m for m in each if (op, m) not in seen)]):
        seen.add((op, mapped))

        def call(*xs: Any) -> list[pf.Tensor]:
            return leaves(row.call(pf, F, *xs))

        def loop(*xs: Any, mapped: Any = mapped, call: Any = call) -> list[pf.Tensor]:
            rows = [
                call(*[x[i] if d == 0 else x for x, d in zip(xs, mapped, strict=True)])
                for i in range(SIZE)
            ]
            return [pf.stack(ys) for ys in zip(*rows, strict=True)]

        want = with_gradients(loop, batches(row, mapped, device, row.grad))
        over = pf.vmap(call, mapped, randomness="same")
        got = with_gradients(over, batches(row, mapped, device, row.grad))
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            assert (a is None) == (b is None), mapped
            if a is not None:
                assert a.dtype == b.dtype
                np.testing.assert_allclose(a, b, 1e-4, 1e-5, err_msg=f"{row.name} {mapped}")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_every_row_over_a_batch(family: Any) -> None:
    seen: set[Any] = set()
    for row in family.ROWS:
        if row.specs and row.name not in READS | OTHER_MEMORY:
            check(row, "cpu", seen)


@pytest.mark.parametrize("row", [r for r in ROWS[::160] if r.specs and not r.cpu],
                         ids=lambda r: r.name)  # fmt: skip
def test_rows_over_a_batch_on_the_gpu(row: Row) -> None:
    check(row, "gpu", set())


def test_only_rare_ops_run_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()
    each = batching_rules.loop_fallback
    monkeypatch.setattr(batching_rules, "loop_fallback", lambda c: names.add(c.op.name) or each(c))  # type: ignore[func-returns-value]
    for row in ROWS:
        if row.specs and row.name not in READS:
            xs = batches(row, (0,) * len(row.specs), "cpu", False)
            pf.vmap(lambda *a, row=row: leaves(row.call(pf, F, *a)), randomness="same")(*xs)
    assert names <= {"ctc_loss", "linalg_ldl_solve", "linalg_pinv", "linalg_row_order"}


def per_sample(device: str) -> tuple[Any, Any]:
    pf.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3)
    ).to(device)

    def loss(params: Any, x: pf.Tensor, label: pf.Tensor) -> pf.Tensor:
        y = pf.func.functional_call(net, params, (x[None],))
        return F.cross_entropy(y, label[None])

    return pf.func.grad(loss), {k: p.detach() for k, p in net.named_parameters()}


def test_dispatches_do_not_grow_with_the_batch(gpu: str) -> None:
    slope, params = per_sample(gpu)
    over = pf.vmap(slope, (None, 0, 0))
    counts = []
    for n in (2, 9):
        x, t = pf.randn(n, 2, 4, 4, device=gpu), pf.zeros(n, dtype=pf.int64, device=gpu)
        stats = x.device.backend.stats
        before = stats.dispatches
        [g.cpu() for g in over(params, x, t).values()]
        counts.append(stats.dispatches - before)
    assert counts[0] == counts[1] > 0


def test_history_of_what_is_outside(device: str) -> None:
    w = pf.tensor([1.0, -2.0], device=device, requires_grad=True)
    xs = pf.tensor([[1.0, 2.0], [3.0, 4.0]], device=device, requires_grad=True)

    def f(x: pf.Tensor) -> pf.Tensor:
        out = x.new_zeros(3)
        out[0] = (w * x).sum()  # a tensor made inside becomes an example
        out[1:] = x.detach() * 10
        return out

    y = pf.vmap(f)(xs)
    assert y.tolist() == [[-3, 10, 20], [-5, 30, 40]]
    gw, gx = pf.autograd.grad(y.sum(), (w, xs))
    assert gw.tolist() == [4, 6]
    assert gx.tolist() == [[1, -2], [1, -2]]


def test_writes(device: str) -> None:
    xs = pf.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    count, same = pf.zeros(2, device=device), pf.ones(2, device=device)

    def f(x: pf.Tensor) -> pf.Tensor:
        x[0].mul_(10)
        same.add_(1)  # of no example: written once
        view = x.T
        x.add_(1)
        return view * same

    assert pf.vmap(f)(xs).tolist() == [[22, 6], [62, 10]]
    assert xs.tolist() == [[11, 3], [31, 5]]
    assert same.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="from outside of the mapped function"):
        pf.vmap(lambda x: count.add_(x))(xs)
    assert count.tolist() == [0, 0]


def test_with_compiled_functions(device: str) -> None:
    a = pf.randn(3, 4, device=device)

    def f(u: pf.Tensor) -> pf.Tensor:
        return (u * 2).softmax(0) * u

    want = pf.stack([f(r) for r in a]).cpu().numpy()
    for run in (pf.vmap(pf.compile(f)), pf.compile(pf.vmap(f))):
        np.testing.assert_allclose(run(a).cpu().numpy(), want, 1e-5)
        np.testing.assert_allclose(run(a * 1).cpu().numpy(), want, 1e-5)


class Tripled(pf.autograd.Function):
    """x * x, whose gradient is said to be 3 x."""

    calls = 0

    @staticmethod
    def forward(ctx: Any, x: pf.Tensor) -> pf.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: pf.Tensor) -> pf.Tensor:
        Tripled.calls += 1
        return 3 * g * ctx.saved_tensors[0]


def test_a_jacobian_is_one_backward_pass(device: str) -> None:
    x = pf.tensor([1.0, 2.0, 3.0], device=device)
    want = [[3, 0, 0], [0, 6, 0], [0, 0, 9]]
    jacobian = pf.autograd.functional.jacobian
    for run, calls in (
        (lambda: pf.func.jacrev(Tripled.apply)(x), 1),
        (lambda: pf.func.jacrev(Tripled.apply, chunk_size=2)(x), 2),
        (lambda: jacobian(Tripled.apply, x, vectorize=True), 1),
        (lambda: jacobian(Tripled.apply, x), 3),
    ):
        Tripled.calls = 0
        assert run().tolist() == want
        assert Tripled.calls == calls


def test_an_example_has_no_value_afterwards(device: str) -> None:
    kept: list[pf.Tensor] = []
    y = pf.vmap(lambda v: kept.append(v * 2) or v + 1)(pf.ones(2, 3, device=device))  # type: ignore[func-returns-value]
    for use in (lambda x: x.tolist(), lambda x: (x + 1).tolist(), lambda x: (x @ y[0]).item()):
        with pytest.raises(RuntimeError, match="return what you need of it"):
            use(kept[0])
    assert (y + 1).tolist() == [[3] * 3] * 2


def test_chunks(device: str) -> None:
    seen = []

    def f(x: pf.Tensor) -> tuple[pf.Tensor, pf.Tensor]:
        seen.append(x.shape)
        return x * 2, x.sum()

    x = pf.arange(10.0, device=device).reshape(5, 2)
    for size, calls in ((2, 3), (5, 1), (9, 1), (None, 1)):
        seen.clear()
        y, s = pf.vmap(f, out_dims=(1, 0), chunk_size=size)(x)
        assert seen == [(2,)] * calls
        assert y.tolist() == (x * 2).T.tolist()
        assert s.tolist() == x.sum(1).tolist()


def test_random_numbers(device: str) -> None:
    x = pf.zeros(4, 8, device=device)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        pf.vmap(lambda v: v + pf.rand_like(v))(x)
    drop = pf.vmap(lambda v: F.dropout(v + 1), randomness="different")(x).cpu().numpy()
    assert set(np.unique(drop)) == {0, 2}
    assert len({tuple(r) for r in drop}) > 1
    with pytest.raises(RuntimeError, match="drawn on the host"):
        pf.vmap(lambda v: v.clone().normal_(), randomness="different")(x)
    for draw in (lambda v: v.clone().normal_(), lambda v: v + pf.rand(8, device=device)):
        same = pf.vmap(draw, randomness="same")(x).cpu().numpy()
        assert (same == same[0]).all()
    other = pf.vmap(lambda v: v + pf.rand(8, device=device), randomness="different")(x)
    assert (other[0] != other[1]).any()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: pf.vmap(lambda v: v * v.sum().item())(x), RuntimeError, "calling .item()"),
        (lambda x: pf.vmap(lambda v: v if v.sum() > 0 else -v)(x), RuntimeError, "control flow"),
        (lambda x: pf.vmap(lambda v: v[v > 0])(x), RuntimeError, "no value of its own"),
        (lambda x: pf.vmap(lambda v: v.sum(), out_dims=None)(x), ValueError, "out_dim is None"),
        (lambda x: pf.vmap(lambda v: v, chunk_size=0)(x), ValueError, "greater than 0, got 0"),
        (lambda x: pf.vmap(lambda v: v)(x[:0]), ValueError, "at least one element"),
        (lambda x: pf.vmap(lambda v: v.requires_grad_().sum().backward())(x), RuntimeError,
         "use pf.func.grad"),
        (lambda x: pf.vmap(lambda v, i: v[i])(x, pf.tensor([1, 9], device=x.device)).cpu(),
         IndexError, "out of"),
    ],
)  # fmt: skip
def test_what_it_refuses(call: Any, error: type[Exception], text: str, device: str) -> None:
    x = pf.tensor([[1.0, -2.0], [3.0, 4.0]], device=device)
    with pytest.raises(error, match=re.escape(text)):
        call(x)
    assert (x + 1).tolist() == [[2, -1], [4, 5]]  # what comes next runs as ever


@pytest.mark.filterwarnings("ignore:pf.compile")
def test_a_capture_that_ends_within_it(device: str) -> None:
    """What follows in the mapped function runs eagerly, as what follows after it."""
    w, count = pf.tensor([2.0, 3.0], device=device), pf.zeros(2, device=device)

    def row(v: pf.Tensor) -> pf.Tensor:
        first = w[0].item()
        count.add_(w)
        return (v * first).sum()

    step = pf.compile(lambda x: pf.vmap(row)(x + 1) * 2)
    for call in range(3):
        found = step(pf.full((3, 2), float(call), device=device))
        assert found.tolist() == [8.0 * (call + 1)] * 3
        assert count.tolist() == [2.0 * (call + 1), 3.0 * (call + 1)]
