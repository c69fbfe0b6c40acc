"""Module: hooks, failed loads, moving; what it does as PyTorch's is in test_module_parity.py."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest

import pyframe as pf
from pyframe import nn


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
