"""utils.checkpoint: gradients as without, against PyTorch's; random numbers and captures."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from autograd_programs import in_both

import pyframe as pf
import pyframe.nn.functional as F
from pyframe.utils.checkpoint import checkpoint, checkpoint_sequential

BOTH = pytest.mark.parametrize("reentrant", [False, True], ids=["hooks", "reentrant"])

test_both = in_both(r"""
== plain and nested
point = t.utils.checkpoint.checkpoint
for reentrant in (False, True):
    x, w = leaf(t, d), leaf(t, d)
    calls = [0]
    def inner(a, w=w, calls=calls):
        calls[0] += 1
        return (a * w).exp().tanh()
    def outer(a, inner=inner, reentrant=reentrant):
        return point(inner, a.sin() * 2, use_reentrant=reentrant) * a
    y = point(inner, x, use_reentrant=reentrant) + point(outer, x, use_reentrant=reentrant)
    before = calls[0]
    y.sum().backward()
    ? y, x.grad, w.grad, before
== without reentry
point = t.utils.checkpoint.checkpoint
plain = t.ones(3, device=d)
def f(a, k, *, scale, more):
    return {"y": (a * scale["s"]).exp() * k, "n": 5}, a.sum() + more[0].sum()
found, total = point(f, x, 2.0, scale={"s": w}, more=[x * 2], use_reentrant=False)
y = found["y"]
g = t.autograd.grad(y.sum() + total, [x, w], create_graph=True)
h = t.autograd.grad(g[0].sum(), [x, w], retain_graph=True)
again = t.autograd.grad(g[0].sum(), [x, w])
only_outside = point(lambda a: (a * w).exp(), plain, use_reentrant=False)
only_outside.sum().backward()
with t.no_grad():
    quiet = point(lambda a: (a * w).exp(), x, use_reentrant=False)
? found["n"], g, h, again, w.grad, quiet.requires_grad
== refusals
point = t.utils.checkpoint.checkpoint
turns = [0]
def changes(a):
    turns[0] += 1
    return (a.exp() if turns[0] == 1 else a[:2].exp()).sum()
def saves_less(a):
    turns[0] += 1
    return a.exp().sin() if turns[0] == 1 else a * 2
for fn in (changes, saves_less):
    turns[0] = 0
    y = point(fn, x, use_reentrant=False)
    ! y.sum().backward()
y = point(lambda a: a.exp(), x, use_reentrant=True)
! t.autograd.grad(y.sum(), x) | y.sum().backward(inputs=[x])
! point(lambda a: a, x, use_reentrant=True, odd=1)
! point(lambda a: a, x, use_reentrant=False, determinism_check="odd")
== in segments
for reentrant in (False, True):
    net = t.nn.Sequential(*[t.nn.Linear(3, 3) for _ in range(5)]).to(d)
    with t.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_((t.arange(p.numel(), device=d).reshape(p.shape) * 0.05 - 0.1 * i).float())
    x = leaf(t, d)
    y = t.utils.checkpoint.checkpoint_sequential(net, 2, x, use_reentrant=reentrant)
    y.sum().backward()
    ? [y, x.grad, [p.grad for p in net.parameters()]]
""")


@pytest.mark.sampled(2)
@BOTH
def test_random_numbers_are_drawn_again(device: str, reentrant: bool) -> None:
    x = pf.ones(64, device=device).requires_grad_()

    def noisy(a: pf.Tensor) -> pf.Tensor:
        return F.dropout(a * a, 0.5)

    y = checkpoint(noisy, x, use_reentrant=reentrant)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == (y * 2).tolist()

    def stream(call: Any) -> list[list[float]]:
        """What is drawn around it."""
        pf.manual_seed(3)
        return [pf.rand(3, device=device).tolist() for _ in call()]

    def checked() -> Any:
        yield
        z = checkpoint(noisy, x, use_reentrant=reentrant)
        yield
        z.sum().backward()  # leaves the stream where it was
        yield

    def plain() -> Any:
        yield
        noisy(x)
        yield
        yield

    assert stream(checked) == stream(plain)


@BOTH
def test_forward_keeps_nothing(reentrant: bool) -> None:
    x = pf.ones(8).requires_grad_()
    kept: list[Any] = []

    def f(a: pf.Tensor) -> pf.Tensor:
        inner = a.exp()
        kept.append(weakref.ref(inner._storage))
        return inner.sin()

    y = checkpoint(f, x, use_reentrant=reentrant)
    assert kept[0]() is None
    y.sum().backward()
    assert len(kept) == 2


@pytest.mark.sampled(2)
@BOTH
def test_compiled_gradients_are_those_without(device: str, reentrant: bool) -> None:
    """Of a checkpoint within another one, too; and an input that is not finite is that alone."""
    x = pf.tensor([[1.0, 2.0, float("inf")], [0.5, -1.0, 2.0]], device=device)

    def gradients(call: Any) -> list[Any]:
        pf.manual_seed(0)
        net = pf.nn.Sequential(*[pf.nn.Linear(3, 3), pf.nn.Tanh()] * 2).to(device)

        def step(x: pf.Tensor) -> list[Any]:
            y = call(lambda z: call(net, z).exp() * z.sin(), x * net[0].weight[0])
            y[1].sum().backward()
            return [y.detach(), *(p.grad for p in net.parameters())]

        return pf.compile(step)(x)

    def again(f: Any, z: Any) -> Any:
        return checkpoint(f, z, use_reentrant=reentrant)

    want = gradients(lambda f, z: f(z))
    for a, b in zip(gradients(again), want, strict=True):
        np.testing.assert_allclose(a.cpu(), b.cpu(), 1e-6, 1e-6)


def test_it_says_what_to_pass() -> None:
    x = pf.ones(2).requires_grad_()
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed"):
        checkpoint(lambda a: a * 2, x)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
        checkpoint(lambda a: a * 2, x.detach(), use_reentrant=True)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed"):
        checkpoint_sequential([pf.exp, pf.sin], 2, x)
