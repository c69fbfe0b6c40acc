"""Module: what it says, loads and moves; what it does as PyTorch's is in test_module_parity.py."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

import pyframe as pf
from pyframe import nn
from tests.nn.test_module_parity import changed


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


def test_loading_converts_or_assigns() -> None:
    m = nn.Linear(2, 3)
    half = {"weight": pf.ones(3, 2, dtype=pf.float16), "bias": pf.ones(3, dtype=pf.int64)}
    m.load_state_dict(half)
    assert m.weight.dtype is m.bias.dtype is pf.float32
    assert m.weight.tolist() == [[1, 1]] * 3
    weight = m.weight
    with pytest.raises(RuntimeError, match="bias: pyframe.int64 can't take the place of"):
        m.load_state_dict(half, assign=True)
    assert m.weight.dtype is pf.float32
    m.load_state_dict({"weight": half["weight"], "bias": pf.zeros(3)}, assign=True)
    assert m.weight is weight
    assert m.weight.dtype is pf.float16
    assert m.weight.requires_grad


def calls(make: Callable[..., Any], torch: Any) -> tuple[str, str]:
    """What a call gives or raises, here and in PyTorch, in the same names."""
    said = []
    for lib in (pf, torch):
        try:
            result = repr(make(lib, lib.nn))
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
        said.append(result.replace("pyframe", "torch"))
    return said[0], said[1]


SAID: list[Callable[..., Any]] = [
    lambda t, n: n.ModuleList([n.Linear(2, 2), n.Linear(2, 2), n.ReLU(), n.Linear(2, 2)]),
    lambda t, n: n.ModuleList([n.Sequential(n.ReLU(), n.Tanh())] * 2),
    lambda t, n: n.ModuleList(),
    lambda t, n: n.ModuleList([n.ReLU()])(t.zeros(1)),
    lambda t, n: n.ModuleDict({"a": n.Linear(2, 2), "b": n.ReLU()}),
    lambda t, n: n.ModuleDict([("b", n.ReLU()), ("a", n.Tanh())]),
    lambda t, n: n.ModuleDict()["absent"],
    lambda t, n: n.ModuleDict({"keys": n.ReLU()}),
    lambda t, n: n.ParameterList([t.zeros(2), t.zeros(3, 2), t.zeros(())]),
    lambda t, n: n.Sequential(),
    lambda t, n: n.Sequential(OrderedDict(a=n.Sequential(n.Linear(1, 2)), b=n.ReLU())),
    lambda t, n: changed(n.Sequential(OrderedDict(a=n.ReLU(), b=n.Tanh())), ("__delitem__", 0)),
    lambda t, n: changed(n.Sequential(n.ReLU(), n.Tanh()), ("__setitem__", 0, n.GELU())),
    lambda t, n: n.Sequential(n.ReLU())["a"],
    lambda t, n: setattr(n.Sequential(n.ReLU()), "0", 1),
    lambda t, n: setattr(n.Linear(1, 1), "weight", 1),
    lambda t, n: n.ReLU().register_buffer("", None),
    lambda t, n: n.ReLU().register_buffer("inplace", None),
    lambda t, n: n.ReLU().register_buffer(1, None),
    lambda t, n: n.ReLU().register_parameter("b", 3),
    lambda t, n: n.ReLU().register_parameter("training", None),
    lambda t, n: n.ReLU().add_module("a", 3),
    lambda t, n: n.ReLU().add_module("a.b", n.ReLU()),
    lambda t, n: n.ReLU().absent,
    lambda t, n: delattr(n.ReLU(), "absent"),
    lambda t, n: n.ReLU().train(1),
    lambda t, n: n.Sequential(n.ReLU()).get_submodule("1"),
    lambda t, n: n.Sequential(n.Linear(1, 1)).get_submodule("0.weight"),
    lambda t, n: n.Sequential(n.Linear(1, 1)).get_parameter("0.w"),
    lambda t, n: n.Sequential(n.Linear(1, 1)).get_parameter("0"),
    lambda t, n: n.CrossEntropyLoss(t.ones(2)).get_buffer("weight"),
    lambda t, n: n.Linear(1, 1).get_buffer("weight"),
    lambda t, n: n.Linear(2, 3).load_state_dict({"weight": t.zeros(3, 2), "x": t.zeros(3)}, False),
    lambda t, n: n.Linear(2, 3).load_state_dict([1]),
    lambda t, n: n.Linear(2, 3).load_state_dict({"weight": t.zeros(2), "x": t.zeros(1)}),
    lambda t, n: n.Parameter(t.ones(2), requires_grad=False),
    lambda t, n: n.Parameter(),
    lambda t, n: [type(x).__name__ for x in (n.Parameter(t.ones(1)) * 2, n.Parameter().detach())],
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SAID)))
def test_it_says_what_pytorch_says(number: int, torch: Any) -> None:
    """Reprs, results and error messages."""
    ours, theirs = calls(SAID[number], torch)
    assert ours == theirs


def test_backward_hooks_need_tensors() -> None:
    class Odd(nn.Module):
        def forward(self, x: Any) -> Any:
            return {"x": x}

    m = Odd()
    m.register_full_backward_hook(lambda *args: None)
    with pytest.raises(TypeError, match="Odd: backward hooks need a result that is a Tensor"):
        m(pf.ones(1))


def test_a_failed_load_leaves_all_as_it_was(device: str) -> None:
    """Also where a module changes what is loaded, and where memory is taken over."""

    class Own(nn.Linear):
        def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
            super()._load_from_state_dict(state_dict, prefix, *rest)
            with pf.no_grad():
                self.bias.mul_(2)  # it is loaded by now

    m = nn.Sequential(Own(2, 2), nn.Linear(2, 1)).to(device)
    memory = [p.data_ptr() for p in m.parameters()] if device == "cpu" else []
    before = {k: v.tolist() for k, v in m.state_dict().items()}
    for bad in ({"1.bias": pf.ones(2)}, {"1.x": pf.ones(1)}):
        for assign in (False, True):
            given = {k: pf.ones(v.shape) for k, v in m.state_dict().items()} | bad
            with pytest.raises(RuntimeError, match="loading state_dict for Sequential"):
                m.load_state_dict(given, assign=assign)
            assert {k: v.tolist() for k, v in m.state_dict().items()} == before
            if memory:
                assert [p.data_ptr() for p in m.parameters()] == memory
    m.load_state_dict({k: pf.ones(v.shape) for k, v in m.state_dict().items()})
    assert m[0].bias.tolist() == [2, 2]


def test_uninitialized_on_each_device(device: str) -> None:
    p = nn.UninitializedParameter(dtype=pf.float16, device=device)
    assert (str(p.device), p.dtype, str(p)) == (device, pf.float16, "<UninitializedParameter>")
    for use in (lambda: p + 1, lambda: p.shape, lambda: p.detach(), lambda: p.tolist()):
        with pytest.raises(nn.parameter.UninitializedError, match="forward with a batch first"):
            use()
    moved = p.float().cpu()
    assert isinstance(moved, nn.UninitializedParameter)
    assert (str(moved.device), moved.dtype) == ("cpu", pf.float32)
    for twin in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert (str(twin.device), twin.dtype) == (device, pf.float16)
    p.materialize((2, 3))
    assert type(p) is nn.Parameter
    assert (p + 1).shape == (2, 3)
    b = nn.UninitializedBuffer(persistent=False)
    b.materialize(2, dtype=pf.float64)
    assert (type(b), b.persistent, b.dtype) == (nn.Buffer, False, pf.float64)


def test_what_is_not_there() -> None:
    with pytest.raises(IndexError, match="out of range for 2 modules"):
        nn.Sequential(nn.ReLU(), nn.Tanh())[2]

    class Early(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Early()


def test_regular_backward_hooks_on_all_modules() -> None:
    of = nn.modules.module
    seen: list[Any] = []
    x = pf.ones(2, requires_grad=True)
    with of.register_module_backward_hook(lambda m, gi, go: seen.append((gi, go))):
        nn.ReLU()(x * 2).sum().backward()
        with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full"):
            of.register_module_full_backward_hook(print)
        with pytest.warns(FutureWarning, match="Sequential.*is deprecated"):
            nn.Sequential(nn.Tanh(), nn.Tanh())(x * 2)
    assert len(seen) == 1  # of the backward that ran
    with of.register_module_full_backward_hook(lambda *args: None):
        nn.ReLU()(x * 2).sum().backward()


def test_modules_with_hooks_die_without_the_collector() -> None:
    """Hooks and their handles keep no module alive, nor do modules that have been called."""
    gc.collect()
    gc.disable()
    try:
        m = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        handle = m[0].register_load_state_dict_pre_hook(lambda *args: None)
        m.register_forward_hook(lambda m, args, out: out * 2)
        m[0].register_full_backward_hook(lambda *args: None)
        m.load_state_dict(m.state_dict())
        m(pf.ones(1, 2)).sum().backward()
        ref = weakref.ref(m[0])
        del m
        assert ref() is None
        handle.remove()
    finally:
        gc.enable()


def test_compile_is_for_one_object(device: str) -> None:
    m = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).to(device)
    x = pf.ones(1, 2, device=device)
    want = m(x).tolist()
    m.register_forward_hook(lambda m, args, out: out + 1)
    m.compile()
    for _ in range(3):
        assert m(x).tolist() == [[v + 1 for v in want[0]]]
    assert m.forward.replayed == 2  # type: ignore[attr-defined]
    with m[1].register_forward_hook(lambda m, args, out: out * 0):
        assert m(x).tolist() == [[1, 1]]
    for twin in (copy.deepcopy(m[:]), copy.copy(m)):
        assert "forward" not in vars(twin)
    m.compile()
    assert m(x).tolist() == [[v + 1 for v in want[0]]]


def test_conversions_reach_every_tensor_or_none(gpu: str) -> None:
    """`_apply` of a child is called by its parent's, and only once all can be converted."""
    seen: list[str] = []

    class Own(nn.Linear):
        def _apply(self, fn: Any, recurse: bool = True) -> Any:
            seen.append("called")
            return super()._apply(fn, recurse)

    m = nn.Sequential(Own(2, 2), nn.Linear(2, 2).double())
    with pytest.raises(TypeError, match="device 'gpu' has no float64"):
        m.gpu()
    assert not seen
    m[1].float()
    assert str(m.cuda(0)[0].weight.device) == "gpu"
    assert seen == ["called"]
    assert str(m.to(pf.ones(1))[0].weight.device) == "cpu"
    with pytest.raises(TypeError, match=r"unexpected arguments \['devise'\]"):
        m.to(devise=gpu)
