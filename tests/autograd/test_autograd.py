"""The backward walk: its errors and memory; what PyTorch's does is in test_same.py."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe.autograd import Function, grad, gradcheck, gradgradcheck


def leaf(device: str, *values: float) -> pf.Tensor:
    return pf.tensor(list(values), device=device).requires_grad_()


def test_grad_and_double_backward(device: str, torch: Any) -> None:
    x, y = leaf(device, 0.5, -1.0, 2.0), torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
    (g,) = grad((x**3).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad((y**3).sum(), y, create_graph=True)
    (g.sigmoid() * x).sum().backward()
    (h.sigmoid() * y).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.cpu().numpy(), y.grad.numpy(), rtol=1e-4)
    (third,) = grad(grad(grad((x**4).sum(), x, create_graph=True)[0].sum(), x, create_graph=True)[0].sum(), x)  # fmt: skip # noqa: E501
    np.testing.assert_allclose(third.cpu().numpy(), 24 * x.detach().cpu().numpy(), rtol=1e-4)


def test_grad_of_inner_values(device: str) -> None:
    x, unused = leaf(device, 2.0), leaf(device, 1.0)
    y = x * 3
    z = (y * y).sum()
    gy, gx = grad(z, [y, x], retain_graph=True)
    assert (gy.item(), gx.item()) == (12, 36)
    assert x.grad is None
    with pytest.raises(RuntimeError, match="allow_unused=True"):
        grad(z, unused, retain_graph=True)
    assert grad(z, [x, unused], retain_graph=True, allow_unused=True)[1] is None
    assert grad(z, unused, materialize_grads=True)[0].item() == 0


def test_errors(device: str) -> None:
    x = leaf(device, 1.0, 2.0)
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        pf.ones(1, device=device).backward()
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        pf.ones(1, device=device).register_hook(print)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(pf.ones(3, device=device))
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="only Tensors of floating point and complex dtype"):
        pf.ones(2, dtype=pf.int64, device=device).requires_grad_()
    with pytest.raises(RuntimeError, match="only change requires_grad flags of leaf"):
        (x * 2).requires_grad_(False)


class Split(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: float, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        ctx.factor = factor
        whole = x.floor()
        ctx.mark_non_differentiable(whole)
        return x * factor, x * w, whole

    @staticmethod
    def backward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
        x, w = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False, True)
        return a * ctx.factor + b * w, None, b * x


def test_function(device: str) -> None:
    x, w = leaf(device, 1.5, 2.0), leaf(device, 3.0, 4.0)
    a, b, whole = Split.apply(x, 10.0, w)
    assert not whole.requires_grad
    assert "Split" in repr(a.grad_fn)
    (a + b * 2).sum().backward()
    assert x.grad is not None
    assert w.grad is not None
    assert x.grad.tolist() == [16, 18]
    assert w.grad.tolist() == [3, 4]
    only_b = Split.apply(x, 1.0, w)[1]
    only_b.sum().backward()
    assert x.grad.tolist() == [19, 22]
    with pf.no_grad():
        assert not Split.apply(x, 1.0, w)[0].requires_grad


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


class Wrong(Cube):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


class TooMany(Cube):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, g


def test_gradcheck_tells_right_from_wrong() -> None:
    x = pf.tensor([0.5, -1.5], dtype=pf.float64).requires_grad_()
    assert gradcheck(Cube.apply, (x,))
    assert gradgradcheck(Cube.apply, (x,))
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0"):
        gradcheck(Wrong.apply, (x,))
    assert not gradcheck(Wrong.apply, (x,), raise_exception=False)
    with pytest.raises(ValueError, match="expected float64"):
        gradcheck(Cube.apply, (x.detach().float().requires_grad_(),))
    with pytest.raises(ValueError, match="at least one input"):
        gradcheck(Cube.apply, (x.detach(),))
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        TooMany.apply(x).sum().backward()


def test_a_saved_tensor_of_a_function_is_guarded(device: str) -> None:
    x = leaf(device, 1.0)
    y = x * 1
    z = Cube.apply(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


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
    assert x.grad is not None
    assert y.grad is not None
    x.grad.add_(5)
    assert y.grad.tolist() == [1, 1]
    assert seed.tolist() == [1, 1]
    z = leaf(device, 3.0, 4.0)
    z.sum().backward()  # the gradient is an expanded view
    assert z.grad is not None
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


def test_a_deep_graph_does_not_recurse(device: str) -> None:
    x = leaf(device, 1.0)
    y = x
    for _ in range(3000):
        y = y * 1.0
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.item() == 1


def test_dtypes_and_casts(device: str) -> None:
    x = leaf(device, 1.0, 2.0)
    (x.half() * 2).float().sum().backward()
    assert x.grad is not None
    assert x.grad.dtype is pf.float32
    assert x.grad.tolist() == [2, 2]
    (x * pf.tensor([1, 2], device=device)).sum().backward()
    assert x.grad.tolist() == [3, 4]
