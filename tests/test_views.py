"""Views and in-place ops on each device: what is refused, and memory that is shared. Programs of
them are in autograd/test_view_programs.py."""

from __future__ import annotations

import copy
import pickle

import pytest

import pyframe as pf


def test_inplace_checks(device: str) -> None:
    x = pf.ones(3, device=device).requires_grad_()
    with pf.no_grad():
        x.add_(1)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.*exp"):
        y.sum().backward()


def test_copies_and_pickles(device: str) -> None:
    x = pf.arange(6.0, device=device).reshape(2, 3).requires_grad_()
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.tolist() == x.tolist()
        assert y.requires_grad
        assert y.device == x.device
        with pf.no_grad():
            y.zero_()
        assert x.sum().item() == 15


@pytest.mark.usefixtures("gpu")
def test_a_view_written_before_and_after_a_flush() -> None:
    x = pf.zeros(4, 4, device="gpu")
    v = x[1]
    v += 1
    pf.flush()
    w = x.T[1]
    w += 1
    pf.flush()
    v *= 10
    assert x.cpu().tolist() == [[0, 1, 0, 0], [10, 20, 10, 10], [0, 1, 0, 0], [0, 1, 0, 0]]
    assert w.tolist() == [1, 20, 1, 1]


def test_views_that_gradients_cannot_follow(device: str) -> None:
    x = pf.ones(4, device=device).requires_grad_()
    many = {
        "split": lambda y: y.split(2), "chunk": lambda y: y.chunk(2), "unbind": lambda y: y.unbind()
    }  # fmt: skip
    for name, cut in many.items():
        y = x * 1
        with pytest.raises(RuntimeError, match=f"Output 1 of {name} is a view.*multiple views"):
            cut(y)[1].mul_(2)
        with pytest.raises(RuntimeError, match=f"Output 1 of {name} is a view"):
            cut(y)[1].view(-1).zero_()
        part = cut(y)[0]
        y.mul_(2)
        with pytest.raises(RuntimeError, match="another view of its base has been modified"):
            part * 2
        with pf.no_grad():
            cut(y)[1].zero_()
        cut(x.detach().clone())[1].mul_(2)
    y = x * 1
    y.tensor_split(2)[0].mul_(2)
    y.unsafe_chunk(2)[0].mul_(2)
    with pf.no_grad():
        part = y[0]
    assert part.requires_grad
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        part.mul_(2)
    with pf.inference_mode():
        part = y[0]
    with pytest.raises(RuntimeError, match="created in inference mode"):
        part.mul_(2)


def test_memory_that_overlaps(device: str) -> None:
    x, i = pf.arange(6.0, device=device), pf.arange(5, device=device)
    late, early = x[1:], x[:-1]
    for write in (
        lambda: late.add_(early), lambda: late.copy_(early), lambda: late.lerp_(early, 0.5),
        lambda: x.__setitem__(slice(1, None), early), lambda: late.index_add_(0, i, early),
        lambda: pf.add(late, 1, out=early), lambda: pf.gather(late, 0, i, out=late),
        lambda: pf.cat([x[:0], x], out=x),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="single memory location"):
            write()
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    x.add_(x)
    late.mul_(late)
    pf.add(x, 1, out=x)
    wide = x.view(2, 3)
    wide[:, 1:].add_(wide[:, :-1])  # with gaps: as if copied first
    assert x.tolist() == [1, 6, 22, 37, 102, 166]
    once = pf.zeros(3, 1, device=device).expand(3, 2).fill_(7)  # one number may go anywhere
    assert once.tolist() == [[7, 7]] * 3


def test_order_in_memory() -> None:
    x = pf.zeros(2, 3, 4).permute(2, 0, 1)
    for y in (x.clone(), pf.zeros_like(x), pf.full_like(x, 2), x * 2, x[1:].clone()[:, :]):
        assert y.stride()[0] == 1
    kept = (x.contiguous(), x.clone(memory_format=pf.contiguous_format))
    assert all(y.is_contiguous() for y in kept)
    assert pf.zeros(1, 2, 3, 3).clone(memory_format=pf.channels_last).stride()[1] == 1


def test_views_of_what_became_another_view(device: str) -> None:
    x = pf.arange(6.0, device=device).reshape(2, 3).requires_grad_()
    y = x * 1
    v, w = y[0], y.as_strided((2,), (4,))
    y.t_()
    assert y._version == 1
    v.mul_(2)
    w.mul_(10)
    y.unsqueeze_(0)
    (y[0, 0] * 3 + v.sum()).sum().backward()
    assert x.grad.tolist() == [[100, 4, 4], [3, 0, 0]]
    assert y.tolist() == [[[0, 3], [2, 40], [4, 5]]]
    c = pf.view_as_complex(pf.ones(3, 2)).imag
    assert c.as_strided((2,), (2,), 1).dtype is pf.float32
