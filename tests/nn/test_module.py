"""Module: what it registers, walks, saves and loads, and the errors of PyTorch's."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import pytest

import pyframe as pf
from pyframe import nn


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 3)
        self.tied = self.first
        self.scale = nn.Parameter(pf.ones(1))
        self.register_buffer("seen", pf.zeros(1))
        self.register_buffer("scratch", pf.zeros(2), persistent=False)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x).relu()) * self.scale


def test_walking() -> None:
    m = Block()
    names = [n for n, _ in m.named_parameters()]
    assert names == ["scale", "first.weight", "first.bias", "second.weight", "second.bias"]
    assert [n for n, _ in m.named_modules()] == ["", "first", "second"]
    assert [n for n, _ in m.named_children()] == ["first", "second"]
    assert [n for n, _ in m.named_buffers()] == ["seen", "scratch"]
    assert list(m.state_dict()) == [
        "scale", "seen", "first.weight", "first.bias", "second.weight", "second.bias",
        "tied.weight", "tied.bias",
    ]  # fmt: skip
    assert m.get_submodule("first") is m.first
    assert m.get_parameter("second.bias") is m.second.bias
    m.eval()
    assert not m.first.training
    assert m.train().second.training


def test_fields() -> None:
    m = Block()
    with pytest.raises(TypeError, match=r"cannot assign 'int' as parameter 'scale'"):
        m.scale = 3
    with pytest.raises(TypeError, match="cannot assign 'str' as child module 'first'"):
        m.first = "x"
    with pytest.raises(AttributeError, match="'Block' object has no attribute 'nothing'"):
        m.nothing
    with pytest.raises(KeyError, match="name can.*t contain"):
        m.register_buffer("a.b", pf.zeros(1))
    with pytest.raises(KeyError, match="attribute 'forward' already exists"):
        m.register_parameter("forward", None)
    with pytest.raises(TypeError, match="is not a Module subclass"):
        m.add_module("x", 3)  # type: ignore[arg-type]
    m.scale = None
    assert m.scale is None
    del m.second
    assert not hasattr(m, "second")
    m.seen = pf.ones(1)
    assert m._buffers["seen"].item() == 1

    class Early(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Early()
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        nn.Module()(1)


def test_hooks() -> None:
    m = Block()
    seen: list[str] = []
    before = m.register_forward_pre_hook(lambda mod, args: (args[0] * 2,))
    after = m.register_forward_hook(lambda mod, args, out: seen.append("after") or out + 1)
    x = pf.ones(2, 3)
    y = m(x)
    assert seen == ["after"]
    before.remove()
    with after:
        pass
    assert ((m(x * 2) + 1) - y).abs().max().item() < 1e-6


def test_load_state_dict_is_all_or_nothing(device: str) -> None:
    m = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)).to(device)
    before = {k: v.cpu().tolist() for k, v in m.state_dict().items()}
    bad = {
        "0.weight": pf.zeros(3, 2), "0.bias": pf.zeros(4), "1.weight": pf.zeros(1, 3),
        "2.weight": pf.zeros(1),
    }  # fmt: skip
    with pytest.raises(RuntimeError) as error:
        m.load_state_dict(bad)
    text = str(error.value)
    assert text.startswith("Error(s) in loading state_dict for Sequential:")
    assert 'Unexpected key(s) in state_dict: "2.weight".' in text
    assert 'Missing key(s) in state_dict: "1.bias".' in text
    assert "size mismatch for 0.bias: copying a param with shape pyframe.Size([4])" in text
    assert {k: v.cpu().tolist() for k, v in m.state_dict().items()} == before
    with pytest.raises(TypeError, match="dict-like"):
        m.load_state_dict([])  # type: ignore[arg-type]
    del bad["0.bias"]
    result = m.load_state_dict(bad, strict=False)
    assert result.missing_keys == ["0.bias", "1.bias"]
    assert result.unexpected_keys == ["2.weight"]
    assert m[0].weight.abs().sum().item() == 0
    assert repr(m.load_state_dict(m.state_dict())) == "<All keys matched successfully>"


def test_moving_keeps_the_parameters(gpu: str) -> None:
    m = Block()
    before = list(m.parameters())
    m(pf.ones(1, 3)).sum().backward()
    m.to(gpu)
    assert all(a is b for a, b in zip(before, m.parameters(), strict=True))
    assert {str(p.device) for p in m.parameters()} == {"gpu"}
    assert str(m.seen.device) == "gpu"
    assert str(before[0].grad.device) == "gpu"
    assert str(m.cpu().scale.device) == "cpu"
    assert m.double().scale.dtype is pf.float64
    with pytest.raises(TypeError, match="only accepts floating point dtypes"):
        m.to(pf.int64)


def test_copies() -> None:
    m = Block()
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert other.tied is other.first
        assert isinstance(other.scale, nn.Parameter)
        with pf.no_grad():
            other.scale.fill_(5)
        assert m.scale.item() == 1
        x = pf.ones(2, 3)
        assert (other(x) - 5 * m(x)).abs().max().item() < 1e-5


def test_zero_grad_apply_and_requires_grad() -> None:
    m = Block()
    m(pf.ones(1, 3)).sum().backward()
    m.zero_grad(set_to_none=False)
    assert m.scale.grad.item() == 0
    m.zero_grad()
    assert m.scale.grad is None
    names: list[str] = []
    m.apply(lambda x: names.append(type(x).__name__))
    assert names == ["Linear", "Linear", "Block"]
    m.requires_grad_(False)
    assert not any(p.requires_grad for p in m.parameters())


def test_containers() -> None:
    a, b, c = nn.Linear(1, 1), nn.ReLU(), nn.Tanh()
    s = nn.Sequential(OrderedDict(one=a, two=b))
    assert s.one is s[0] is s[-2]
    assert list(s[1:]) == [b]
    s.append(c)
    assert len(s) == 3
    s[1] = nn.Sigmoid()
    del s[0]
    assert [type(m).__name__ for m in s] == ["Sigmoid", "Tanh"]
    with pytest.raises(IndexError, match="out of range for 2 modules"):
        s[2]
    listed = nn.ModuleList([a, b])
    listed.insert(1, c)
    assert list(listed) == [a, c, b]
    assert list(listed.state_dict()) == ["0.weight", "0.bias"]
    named = nn.ModuleDict({"x": a})
    named["y"] = b
    assert list(named) == ["x", "y"]
    assert "x" in named
    del named["x"]
    assert len(named) == 1
    params = nn.ParameterList([pf.ones(2), nn.Parameter(pf.zeros(1))])
    assert [p.numel() for p in params.parameters()] == [2, 1]


def test_printing() -> None:
    text = repr(nn.Sequential(nn.Linear(1, 2), nn.ModuleList([nn.ReLU()])))
    assert text == (
        "Sequential(\n  (0): Linear(in_features=1, out_features=2, bias=True)\n"
        "  (1): ModuleList(\n    (0): ReLU()\n  )\n)"
    )
    assert repr(nn.Parameter(pf.ones(1))).startswith("Parameter containing:\ntensor([1.]")
