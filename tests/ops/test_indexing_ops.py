"""Indexing, movement, creation and random numbers: writes through views, bad inputs, draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from beside import programs, run
from compared import alike, plain
from refused import calls

import pyframe as pf
import pyframe.nn.functional as F

# Of the library `t` and a matrix `x`
PROGRAMS = programs("""
== shapes in place
y = x[1:].clone()
y.squeeze_().unsqueeze_(1).transpose_(0, 1).add_(1)
z = y.clone().resize_(2, 4)
w = t.arange(6.0).to(x.device).resize_as_(z)
w[1, 2:] = 0  # PyTorch's new elements are undefined
v = x.clone()
v.as_strided_((3,), (4,), 1).mul_(3)
v.swapaxes_(0, 0)
? y, z, w, v
== diagonals in place
tall, wide = x.reshape(8, 2).clone(), x.reshape(2, 8).clone()
cube = x[0].expand(4, 4, 4).clone()
for y in (tall, wide, cube, x.T):
    y.fill_diagonal_(5)
? tall, wide, cube, x, x.reshape(8, 2).clone().fill_diagonal_(-1, wrap=True)
== gradients of draws
p = (x.requires_grad_() * 0 + 1) * 1
y = t.bernoulli(p) + t.normal(p, 0.0) + t.poisson(p * 0) + p.clone().uniform_(1, 1)
y.sum().backward()
? y, x.grad
""")


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_pytorch(name: str, device: str, torch: Any) -> None:
    data = np.arange(16, dtype=np.float32).reshape(4, 4) * 0.5 - 3
    got, want = (
        run(PROGRAMS[name], {"t": t, "x": t.from_numpy(data.copy()).to(where)}, plain)
        for t, where in ((pf, device), (torch, "cpu"))
    )
    alike(got, want, 0, 0)


def test_gradient_of_as_strided_scatter(device: str) -> None:
    """What src replaced has no gradient (that of PyTorch 2.13 has only what was replaced)."""
    x, s = pf.zeros(6, device=device).requires_grad_(), pf.ones(2, device=device).requires_grad_()
    y = pf.as_strided_scatter(x, s, (2,), (3,), 1)
    (y * pf.arange(1.0, 7, device=device)).sum().backward()
    assert x.grad.tolist() == [1, 0, 3, 4, 0, 6]
    assert s.grad.tolist() == [2, 5]


def test_equal_places_are_deterministic(device: str) -> None:
    i = pf.tensor([[1, 1, 1, 0]]).to(device)
    x, s = pf.zeros(1, 3, device=device), pf.tensor([[1.0, 2, 3, 4]]).to(device)
    assert x.scatter(1, i, s).tolist() == [[4, 3, 0]]
    assert x[0].index_copy(0, i[0], s[0]).tolist() == [4, 3, 0]
    assert x[0].index_put((i[0],), s[0]).tolist() == [4, 3, 0]


def setitem(x: Any, key: Any, value: Any) -> Any:
    x = x.clone()
    x[key] = value
    return x


def grad(fn: Callable[..., Any], x: Any, i: Any) -> Any:
    x.requires_grad_()
    return pf.autograd.grad(fn(x, i).sum(), [x])[0]


def label(x: Any, i: Any) -> Any:
    """(1, 5): the bad label, the end of the list, and what follows it."""
    return pf.cat([i, pf.full((4,), -1, device=i.device)]).reshape(1, 5)


# x: (5, 5), i: (1,); what the error names first, and a call
OUT_OF_RANGE = """
gather: x.gather(0, i.expand(1, 5)) | gather: x.gather(1, i.expand(5, 1))
gather: grad(lambda x, i: x.gather(0, i.expand(1, 5)), x, i)
take_along_dim: pf.take_along_dim(x, i.expand(1, 5), 0)
scatter: x.scatter(0, i.expand(1, 5), x[:1]) | scatter: x.scatter(1, i.expand(5, 1), x)
scatter: x.scatter(0, i.expand(1, 5), 1.0) | scatter_add: x.scatter_add(0, i.expand(1, 5), x[:1])
index_select: x.index_select(0, i) | index_select: x.index_select(1, i)
index_select: grad(lambda x, i: x.index_select(0, i), x, i) | index_add: x.index_add(0, i, x[:1])
index_copy: x.index_copy(0, i, x[:1]) | index_fill: x.index_fill(0, i, 1.0) | take: x.take(i * 5)
put_: x.clone().put_(i * 5, x[0, :1]) | put_: x.clone().put_(i * 5, x[0, :1], accumulate=True)
index: x[i] | index: x[:, i] | index: x[i, i] | index: x.index_put((i,), x[0])
index: x.index_put((i, i), x[0, :1], accumulate=True) | index: setitem(x, i, 2.0)
index: setitem(x, (slice(None), i), x[:, :1]) | index: x[:, i[0]] | index: setitem(x, i[0], x[0])
gather: pf.searchsorted(x[0], x[1], sorter=i.expand(5)) | embedding: F.embedding(i, x)
embedding: F.embedding(i, x.clone(), max_norm=1.0)
embedding: grad(lambda x, i: F.embedding(i, x), x, i) | one_hot: F.one_hot(i, 5)
nll_loss: F.nll_loss(x[:1], i) | nll_loss: F.nll_loss(x.reshape(1, 5, 5), i.expand(1, 5))
nll_loss: F.nll_loss(x[:1], i, weight=x[0]) | cross_entropy: F.cross_entropy(x[:1], i)
cross_entropy: F.cross_entropy(x[:1], i, label_smoothing=0.1)
cross_entropy: grad(lambda x, i: F.cross_entropy(x[:1], i), x, i)
multi_margin_loss: F.multi_margin_loss(x[:1], i)
multilabel_margin_loss: F.multilabel_margin_loss(x[:1], label(x, i))
ctc_loss: F.ctc_loss(x.reshape(5, 1, 5), i.reshape(1, 1), (5,), (1,))
max_unpool1d: F.max_unpool1d(x.reshape(1, 5, 5)[..., :1], i.expand(1, 5, 1), 2)
"""
CALLS = [
    *calls(OUT_OF_RANGE),
    *(f"scatter_reduce: x.scatter_reduce(0, i.expand(1, 5), x, {how!r})"
      for how in ("sum", "prod", "mean", "amax", "amin")),
    *(f"index_reduce: x.index_reduce(0, i, x[:1], {how!r})"
      for how in ("prod", "mean", "amax", "amin")),
    *(f"embedding_bag: F.embedding_bag(i[None], x, mode={how!r})"
      for how in ("sum", "mean", "max")),
]  # fmt: skip


RUNTIME = set(
    """ctc_loss embedding_bag gather max_unpool1d multi_margin_loss multilabel_margin_loss
one_hot scatter scatter_add scatter_reduce""".split()
)  # RuntimeError in PyTorch, others IndexError


@pytest.mark.sampled(4)
@pytest.mark.parametrize("row", CALLS)
@pytest.mark.parametrize("bad", [5, -6])
def test_out_of_range(row: str, bad: int, device: str) -> None:
    """At once on the CPU, at the next read on the GPU; no other memory is read or written."""
    near = [pf.full((64,), 777.0, device=device) * 2 for _ in range(4)]
    x, i = pf.arange(25.0, device=device).reshape(5, 5) + 0, pf.tensor([bad], device=device)
    near += [pf.full((64,), 777.0, device=device) * 2 for _ in range(4)]
    names = {**globals(), "F": F, "x": x, "i": i}
    name, _, call = row.partition(": ")
    message = rf"{name}.*(out of (range|bounds)|must be from)"
    message += ".* to (4|24|1[,;] got)"
    error = RuntimeError if name in RUNTIME else IndexError
    if device == "cpu":
        with pytest.raises(error, match=message):
            eval(call, names)
    else:
        y = eval(call, names)
        with pytest.raises(error, match=message):
            y.tolist()
        assert not (y == 1554).any()  # the error is said once
    assert all((n == 1554).all() for n in near)


def test_elements_one_by_one() -> None:
    x = pf.arange(4.0)
    assert x.apply_(lambda v: v + 1).tolist() == [1, 2, 3, 4]
    assert x.map_(pf.tensor([10.0]), lambda a, b: a * b).tolist() == [10, 20, 30, 40]
    assert x[:2].map2_(x[2:], x[1:3], lambda a, b, c: a + b * c).tolist() == [610, 1220]
    assert x.tolist() == [610, 1220, 30, 40]


def test_handles_on_other_memory(device: str) -> None:
    x, v = pf.zeros(2, device=device), pf.arange(6.0, device=device)
    assert x.set_(v[1:]).add_(1).shape == (5,)
    assert v.tolist() == [0, 2, 3, 4, 5, 6]
    assert x.set_(v.untyped_storage(), 1, (2, 2)).tolist() == [[2, 3], [4, 5]]
    assert x.set_(v.untyped_storage()).tolist() == v.tolist()
    assert x.set_().shape == (0,)
    assert (x.new(2, 3).shape, x.int().new([1.0, 2]).dtype) == ((2, 3), pf.int32)
    assert x.new([1, 2]).tolist() == [1, 2]


def test_memory_of_resized_tensors(device: str) -> None:
    x = pf.arange(6.0, device=device)
    v = x.detach().resize_(2, 2)
    v[0, 0] = 9
    assert x.tolist() == [9, 1, 2, 3, 4, 5]
    v.resize_(8)
    assert v.tolist() == [9, 1, 2, 3, 4, 5, 0, 0]
    x.fill_(1)
    assert v[:2].tolist() == [9, 1]


def test_bytes_as_another_dtype(torch: Any) -> None:
    x = pf.tensor([1.0, -2.0])
    bits = x.view(pf.int32)
    assert bits.tolist() == torch.tensor([1.0, -2.0]).view(torch.int32).tolist()
    bits[0] = 0
    assert x.tolist() == [0, -2]
    assert pf.tensor(1.0).view(pf.int32).shape == ()
    with pytest.raises(RuntimeError, match="between the CPU's"):
        x.bfloat16().view(pf.int16)


def test_sizes_of_many_kinds() -> None:
    n = pf.tensor(2)
    assert pf.zeros(n, np.int64(3)).shape == (2, 3)
    assert pf.ones(pf.Size([2, 3])).reshape(pf.tensor([3, 2])).shape == (3, 2)
    assert pf.empty(size=[2, 1]).expand(size=(2, n)).shape == (2, 2)
    assert pf.ones(2, 3).permute(dims=(1, 0)).tile(dims=(2,)).repeat(repeats=(1, 2)).shape == (3, 8)
    assert pf.broadcast_shapes((2, 1), 3, (1, 1, 1)) == (1, 2, 3)


def test_extremes_of_wide_ints() -> None:
    for how, value in (("amin", 1 << 40), ("amax", -(1 << 40))):
        source, index = pf.tensor([value]), pf.tensor([0])
        out = pf.zeros(2, dtype=pf.int64).scatter_reduce(0, index, source, how, include_self=False)
        assert out.tolist() == [value, 0]
