"""Classes derived from Tensor, `__torch_function__`, and modes, beside PyTorch's."""

from __future__ import annotations

import copy
import operator
import pickle
import threading
from typing import Any, ClassVar

import numpy as np
import pytest
from refused import calls

import pyframe as pf
from pyframe.ops.api import public


def classes(t: Any) -> Any:
    """A class without anything of its own, and one that notes what is called."""

    class Plain(t.Tensor):
        pass

    class Noting(t.Tensor):
        log: ClassVar[list[str]] = []

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            cls.log.append(getattr(func, "__name__", str(func)))
            return super().__torch_function__(func, types, args, kwargs or {})

    return Plain, Noting


class Kept(pf.Tensor):
    """One that pickle finds."""


# x is of the class, p a plain tensor.
CALLS = """
x + 1 | 1 + x | p + x | x - p | 1 - x | x / 2 | 1 / x | x ** 2 | 2 ** x | x // 1 | x % 2 | -x
abs(x) if False else x.abs_() | x @ p | x < 1 | x == 1 | x[0] | x[:1] | x.T | x.sum() | x.sum(0)
x.max(0) | x.split(1) | t.exp(x) | t.relu(x) | t.cat([p, x]) | t.where(p > 0, p, x) | x.clone()
t.nn.functional.linear(x, p) | x.detach() | x.to(t.float64) | x.float() | x.view(-1) | x.size()
x.shape | x.dim() | x.requires_grad | x.data | x.is_leaf | t.zeros_like(x) | t.stack([x])
float(x[0]) | bool(x[0]) | len(x) | x.__setitem__(0, 1.0) | operator.iadd(x.clone(), 1) | x.mul_(p)
t.add(p, x, alpha=2) | x.unsqueeze(0) | t.var_mean(x, 0) | x.numel()
t.nn.functional.softmax(x, 0) | t.linalg.norm(x) | x.new_ones(2) | x.masked_fill(p > 1, 0.0)
"""


@pytest.mark.filterwarnings("ignore:The use of `x.T`")
@pytest.mark.parametrize("which", [0, 1])
def test_classes_stay(which: int, torch: Any) -> None:
    for call in calls(CALLS):
        seen = []
        for t in (pf, torch):
            kind = classes(t)[which]
            x, p = t.tensor([1.0, 2.0]).as_subclass(kind), t.tensor([1.0, 2.0])
            if which:
                kind.log.clear()
            found = eval(call, {"x": x, "p": p, "t": t, "operator": operator})
            parts = list(found) if isinstance(found, (tuple, list)) else [found]
            parts = [
                (type(v).__name__, np.round(v.detach().double().numpy(), 5).tolist())
                if isinstance(v, t.Tensor) else v for v in parts
            ]  # fmt: skip
            log = [n for n in kind.log if n not in ("numel", "tolist")] if which else []
            seen.append((parts, log))
        (got, log), (want, wanted) = seen
        assert repr(got) == repr(want) or "size" in call or "shape" in call, call
        different = {"type_": "type", "absolute": "abs", "run": "__rdiv__", "norm": "linalg_norm"}
        assert [different.get(n, n) for n in log][:1] == wanted[:1], call


def test_copies_gradients_and_compiled_steps() -> None:
    x = Kept([1.0, 2.0])
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(y) is Kept
        assert y.tolist() == [1, 2]
    w = pf.ones(2, requires_grad=True)
    loss = (x * w).sum()
    assert type(loss) is Kept
    loss.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [1, 2]
    assert type(w.grad) is pf.Tensor
    step = pf.compile(lambda a: (a * 2).exp().sum())
    with pytest.warns(RuntimeWarning, match="runs eagerly"):
        step(x)
    for _ in range(2):
        assert float(step(x)) == pytest.approx(float((x * 2).exp().sum()))
    leaf = pf.Tensor._make_subclass(Kept, pf.ones(2), True)
    assert leaf.is_leaf
    assert leaf.requires_grad
    assert type(leaf) is Kept
    shared = pf.ones(2)
    shared.as_subclass(Kept).add_(1)
    assert shared.tolist() == [2, 2]  # one memory
    with pytest.raises(TypeError, match="derived from Tensor"):
        shared.as_subclass(int)


def test_a_class_with_its_own_init_and_attributes() -> None:
    class Named(pf.Tensor):
        @staticmethod
        def __new__(cls: Any, data: Any, name: str) -> Any:
            return pf.Tensor._make_subclass(cls, pf.as_tensor(data))

        def __init__(self, data: Any, name: str) -> None:
            self.name = name

        def __add__(self, other: Any) -> Any:
            out = super().__add__(other)
            out.name = f"{self.name} plus"
            return out

    x = Named([1.0], "one")
    assert ((x + 1).name, type(x + 1), x.tolist()) == ("one plus", Named, [1.0])


class Duck:
    """No tensor, but it takes calls over."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return pf.overrides.resolve_name(func), types


def test_others_among_the_arguments() -> None:
    duck, p = Duck(), pf.ones(2)
    F = pf.nn.functional
    for call in (lambda: pf.add(p, duck), lambda: p + duck, lambda: pf.relu(duck),
                 lambda: pf.cat([p, duck]), lambda: F.linear(p, duck), lambda: p.add(duck),
                 lambda: pf.mean(duck), lambda: pf.linalg.norm(duck),
                 lambda: F.gelu(duck)):  # fmt: skip
        name, types = call()  # type: ignore[no-untyped-call]
        assert types == (Duck,)
        assert name.startswith("torch.")


def test_subclasses_are_asked_first_and_nobody_answers() -> None:
    order = []

    class Base(pf.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            order.append(cls.__name__)
            return NotImplemented

    class Derived(Base):
        pass

    with pytest.raises(TypeError, match=r"no implementation found for 'torch\.add'"):
        pf.add(Base([1.0]), Derived([1.0]))
    assert order == ["Derived", "Base"]
    with pf.overrides.DisableTorchFunctionSubclass():
        assert type(pf.add(Base([1.0]), 1)) is pf.Tensor
    assert order == ["Derived", "Base"]


def test_modes() -> None:
    seen: list[Any] = []

    class Note(pf.overrides.TorchFunctionMode):
        def __init__(self, name: str) -> None:
            self.name = name

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append((self.name, pf.overrides.resolve_name(func)))
            return func(*args, **(kwargs or {}))

    x = pf.ones(3)
    with Note("outer"), Note("inner"):
        x * 2
        pf.exp(x)
        elsewhere = threading.Thread(target=lambda: x + 1)  # has no mode
        elsewhere.start()
        elsewhere.join()
    x * 3
    names = ["torch.mul", "torch.exp"]
    assert [n for w, n in seen if w == "inner"] == [n for w, n in seen if w == "outer"] == names
    with Note("off"), pf.overrides.DisableTorchFunction():
        x.exp()
    assert len(seen) == 4


def test_what_programs_ask() -> None:
    o = pf.overrides
    kind = classes(pf)[1]
    assert o.has_torch_function([1, kind([1.0])])
    assert not o.has_torch_function([pf.ones(1)])
    assert not o.has_torch_function([pf.nn.Parameter(pf.ones(1))])
    assert o.is_tensor_like(Duck())
    assert o.is_tensor_like(pf.ones(1))
    assert not o.is_tensor_like(3)


def test_parameters_are_plain() -> None:
    class Own(pf.nn.Parameter):
        pass

    for x in (pf.nn.Parameter(pf.ones(2)), Own(pf.ones(2)), pf.nn.Buffer(pf.ones(2))):
        assert type(x + 1) is pf.Tensor
        assert public.NOBODY is pf.overrides.taken_over(pf.add, (x, x), {})


def test_after_a_trace() -> None:
    """Whose hooks on functions go, and leave those of derived classes."""
    pf.jit.trace(lambda x: x.exp(), (pf.ones(1),))
    assert type(pf.exp(Kept([1.0]))) is Kept
    assert pf.sqrt(Duck())[1] == (Duck,)


def test_a_parameter_that_takes_calls_over() -> None:
    called = []

    class Own(pf.nn.Parameter):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            called.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    x = Own(pf.ones(2))
    called.clear()
    pf.exp(x), x.sin()
    assert called == ["exp", "sin"]


# What PyTorch took before 1.5, and factors that are tensors.
FACTORS = """
a.add(0.5, b) | a.sub(2, b) | a.clone().add_(0.5, b) | t.add(a, 0.5, b) | a.addcmul(0.5, b, b)
a.addcdiv(2, b, b) | a.addmm(2, b, b) | a.addmm(2, 3, b, b) | t.addmm(2, a, 3, b, b)
a.add(b, alpha=t.tensor(0.5)) | a.sub(b, alpha=t.tensor(2)) | a.addcmul(b, b, value=t.tensor(0.5))
a.addmm(b, b, beta=t.tensor(2.0), alpha=t.tensor(3.0)) | a.int().add(b.int(), alpha=t.tensor(2))
a.int().add(b.int(), alpha=t.tensor(0.5)) | a.add(b, alpha=t.tensor([1.0, 2.0])) | a.add(b, 3, b)
a.add(b, alpha=t.tensor(True)) | a.addcmul(b, b, value=t.tensor(1j)) | a.add("x", b)
a.split(split_size=1) | a.split(split_size=[2, 1]) | a.to(None) | a.to(device=None, dtype=None)
a.to(None, t.float64) | t.split(a, 2)
"""


@pytest.mark.filterwarnings("ignore:.*overload of")
def test_factors_and_forms_of_before(torch: Any) -> None:
    for call in calls(FACTORS):
        seen: list[Any] = []
        for t in (pf, torch):
            a, b = t.arange(9.0).view(3, 3), t.arange(9.0).view(3, 3).cos()
            try:
                found = eval(call, {"t": t, "a": a, "b": b})
                parts = found if isinstance(found, tuple) else [found]
                seen.append([np.round(v.double().numpy(), 4).tolist() for v in parts])
            except (TypeError, RuntimeError) as error:
                seen.append(type(error))
        assert seen[0] == seen[1], call
    with pytest.warns(UserWarning, match=r"overload of add_ is deprecated.*alpha=0.5"):
        pf.ones(2).add_(0.5, pf.ones(2))
