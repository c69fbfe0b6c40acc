"""The backward walk: its errors and memory; what PyTorch's does is in test_same.py."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from refused import check_refused, rows

import pyframe as pf


def leaf(device: str, *values: float) -> pf.Tensor:
    return pf.tensor(list(values), device=device).requires_grad_()


REFUSED = r"""
(x * 2).backward() -> only for scalar outputs
t.ones(1).backward() -> does not require grad
t.ones(1).register_hook(print) -> doesn't require gradient
(x * 2).backward(t.ones(3)) -> Mismatch in shape
[y.backward(), y.backward()] -> a second time
t.ones(2, dtype=t.int64).requires_grad_() -> only Tensors of floating point and complex dtype
(x * 2).requires_grad_(False) -> only change requires_grad flags of leaf
t.autograd.grad(y, t.ones(1).requires_grad_()) -> allow_unused=True
"""


@pytest.mark.parametrize(("call", "text"), rows(REFUSED))
def test_refused(call: str, text: str, torch: Any) -> None:
    def names(t: Any) -> dict[str, Any]:
        x = t.tensor([1.0, 2.0]).requires_grad_()
        return {"t": t, "x": x, "y": (x * x).sum()}

    check_refused(call, text, names, torch)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "f",
    [
        lambda x: pf.nn.functional.max_pool2d(x, 2),
        lambda x: pf.nn.functional.adaptive_max_pool2d(x, 2),
        lambda x: x / x.norm(dim=1, keepdim=True),
        lambda x: x.amax(1),
    ],
)
def test_a_result_that_a_step_can_do_without_may_be_written_to(f: Any, device: str) -> None:
    x = pf.arange(32.0, device=device).view(1, 2, 4, 4).requires_grad_()
    (want,) = pf.autograd.grad((f(x) * 2 + 1).sum(), x)
    (got,) = pf.autograd.grad(f(x).mul_(2).add_(1).sum(), x)
    assert got.tolist() == want.tolist()


def test_gradients_share_no_memory(device: str) -> None:
    x, y = leaf(device, 1.0, 2.0), leaf(device, 1.0, 2.0)
    seed = pf.ones(2, device=device)
    (x + y).backward(seed)
    x.grad.add_(5)
    assert y.grad.tolist() == [1, 1]
    assert seed.tolist() == [1, 1]
    z = leaf(device, 3.0, 4.0)
    z.sum().backward()  # the gradient is an expanded view
    z.grad[0] = 7
    assert z.grad.tolist() == [7, 1]


def test_backward_frees_what_was_saved() -> None:
    x = pf.ones(10).requires_grad_()
    inner = x.exp()
    ref = weakref.ref(inner._storage)
    y = inner.sin().sum()
    del inner
    y.backward()
    gc.collect()
    assert ref() is None


def test_only_what_gradients_name_is_saved() -> None:
    x = pf.ones(10).requires_grad_()
    inner = x * 2
    ref = weakref.ref(inner._storage)
    y = inner + 1  # an addition needs neither operand
    del inner
    assert ref() is None
    assert y.requires_grad


def test_a_deep_graph_does_not_recurse() -> None:
    x = leaf("cpu", 1.0)
    y = x
    for _ in range(3000):
        y = y * 1.0
    y.sum().backward()
    assert x.grad.item() == 1
