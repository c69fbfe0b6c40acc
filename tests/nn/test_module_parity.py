"""Programs with modules, run with PyTorch and pyframe: what they see, print, warn of and raise.

A program knows the library `t`, its `nn`, which is `n`, and an empty list, `seen`.
"""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
from beside import programs, run

import pyframe as pf


def plain(x: Any) -> Any:
    """What both libraries say alike."""
    if "Uninitialized" in type(x).__name__:
        return repr(x)
    if hasattr(x, "detach") and hasattr(x, "tolist"):
        return type(x).__name__.replace("Buffer", "Tensor"), x.requires_grad, x.detach().tolist()
    if isinstance(x, dict):
        return [(k, plain(v)) for k, v in x.items()]
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    return repr(x).replace("pyframe", "torch")


def caught(kind: type[Exception], call: Callable[[], Any]) -> bool:
    """Whether a call raises an error of this kind."""
    try:
        call()
    except kind:
        return True
    return False


def linear(t: Any, n: Any, a: int = 2, b: int = 2) -> Any:
    """A Linear whose weights are known."""
    m = n.Linear(a, b)
    with t.no_grad():
        m.weight.copy_(t.arange(a * b, dtype=t.float32).reshape(b, a) - 1)
        m.bias.copy_(t.arange(b, dtype=t.float32))
    return m


def note(seen: list[Any], what: str, answer: Any = None) -> Callable[..., Any]:
    """A hook that tells of what it is called with, but for modules, and gives `answer`."""

    def hook(*args: Any, **kwargs: Any) -> Any:
        kept = [type(a).__name__ if hasattr(a, "named_modules") else a for a in args]
        seen.append((what, plain(kept)))
        return answer(*args) if callable(answer) else answer

    return hook


def tied(t: Any, n: Any) -> Any:
    m = n.Sequential(n.Linear(2, 2), n.Sequential(n.BatchNorm1d(2), n.ReLU()))
    m.again = m[1]
    m.shared = n.Linear(2, 2)
    m.shared.weight = m[0].weight
    m.empty = None
    return m


def lazy(t: Any, n: Any) -> tuple[Any, Any]:
    class Scale(n.Module):  # type: ignore[misc]
        def __init__(self, size: int, lazy: bool = False) -> None:
            super().__init__()
            if not lazy:
                self.weight = n.Parameter(t.ones(size))
                self.register_buffer("seen", t.zeros(size))

        def forward(self, x: Any) -> Any:
            return x * self.weight

    class LazyScale(n.modules.lazy.LazyModuleMixin, Scale):  # type: ignore[misc]
        cls_to_become = Scale

        def __init__(self, dtype: Any = None, buffer: bool = True) -> None:
            super().__init__(0, lazy=True)
            self.weight = n.UninitializedParameter(dtype=dtype)
            if buffer:
                self.seen = n.UninitializedBuffer(dtype=dtype)

        def initialize_parameters(self, x: Any) -> None:
            if self.has_uninitialized_params():
                with t.no_grad():
                    self.weight.materialize((x.shape[-1],))
                    self.weight.fill_(2.0)
                    if x.shape[0] < 3 and hasattr(self, "seen"):
                        self.seen.materialize(x.shape[-1:])
                        self.seen.fill_(0.0)

    return Scale, LazyScale


def changed(thing: Any, *actions: Any) -> Any:
    """The thing, after each action (method, *arguments) on it."""
    for method, *args in actions:
        getattr(thing, method)(*args)
    return thing


class Keeps:
    """Hooks and classes that pickle can find."""

    @staticmethod
    def double(m: Any, args: Any, out: Any) -> Any:
        return out * 2

    @staticmethod
    def rename(m: Any, state: Any, prefix: str, *rest: Any) -> None:
        state[f"{prefix}weight"] = state.pop(f"{prefix}w")


PROGRAMS = programs(r"""
== buffers
m = n.Module()
m.register_buffer("a", t.ones(1))
m.register_buffer("b", t.ones(2), persistent=False)
m.register_buffer("none", None)
m.c = n.Buffer(t.ones(3))
m.d = n.Buffer(t.ones(4), persistent=False)
m.plain = t.ones(1)
m.b = t.zeros(2)  # stays out of the state_dict
m.c = n.Buffer(t.zeros(3), persistent=False)
m.d = n.Buffer(t.zeros(4))
? list(m.state_dict()), [k for k, _ in m.named_buffers()]
? isinstance(m.c, n.Buffer), isinstance(m.a, n.Buffer), isinstance(m.c, t.Tensor)
del m.b
m.register_buffer("b", t.ones(2))
m.c = None
? list(m.state_dict()), m.c, hasattr(m, "none")
! setattr(m, "a", 3) | m.register_buffer("x", [1]) | setattr(m, "plain", n.Buffer(t.ones(1)))
! m.register_buffer("x.y", None) | n.Buffer() | n.Buffer(t.ones(1, requires_grad=True))
== fields before init
class Early(n.Module):
    def __init__(self, value, register=None):
        if register:
            getattr(self, register)("x", value)
        self.x = value
! Early(n.Parameter(t.ones(1))) | Early(n.ReLU()) | Early(n.Buffer(t.ones(1))) | Early(3).x
! Early(3).training | Early(None, "register_parameter") | Early(None, "register_buffer")
! Early(3)(1)
== parameters as fields
m = n.Module()
m.a, m.b = n.Parameter(t.ones(1)), 3
m.b = n.Parameter(t.ones(2))  # takes the place of an attribute
m.a = None
m.register_parameter("c", None)
m.c = n.Parameter(t.ones(3), requires_grad=False)
m.d = n.ReLU()
m.d = n.Parameter(t.ones(4))
? list(m._parameters), list(m._modules), "b" in m.__dict__, m.a
del m.d
m.d = n.Tanh()
? list(m._parameters), m, [p.shape for p in m.parameters()]
! setattr(m, "d", 3) | m.register_parameter("b.c", None) | m.register_parameter(3, None)
! n.Parameter(t.ones(1, dtype=t.int64)) | n.Module(3) | n.Module(a=3)
! n.Parameter(t.ones(1, dtype=t.int64), requires_grad=False)
made = n.Parameter(t.ones(1))
made.requires_grad_(False)
? made, {"c", "d", "training"} <= set(dir(m)), "0" in dir(n.Sequential(n.ReLU()))
== super init
class Base:
    def __init__(self, value=0):
        self.value = value
class On(n.Module, Base):
    call_super_init = True
class Off(n.Module, Base):
    pass
? On(3).value, On(value=4).value, hasattr(Off(), "value")
! Off(3)
== walking
m = tied(t, n)
for kw in ({}, {"prefix": "p"}, {"remove_duplicate": False}, {"recurse": False}):
    for walk in (m.named_parameters, m.named_buffers):
        ? [k for k, _ in walk(**kw)]
    if "recurse" not in kw:
        ? [k for k, _ in m.named_modules(**kw)]
? [k for k, _ in m.named_modules({m[1]}, "x")]
? [k for k, _ in m.named_children()]
? [len(list(x)) for x in (m.children(), m.modules(), m.parameters(), m.buffers())]
? [k for k, _ in m._named_members(lambda mod: mod._buffers.items(), recurse=True)]
== by name
m = tied(t, n)
m.set_submodule("1.1", n.Tanh())
m.set_submodule("1.2", n.GELU())
m.set_submodule("0", n.Identity(), strict=True)
? m, m.get_submodule("") is m
! m.set_submodule("", n.ReLU()) | m.set_submodule("1.5", n.ReLU(), strict=True)
! m.set_submodule("7.5", n.ReLU()) | m.set_submodule("shared.weight", n.ReLU())
! m.set_submodule("1", 3) | m.get_submodule("1.9") | m.get_parameter("shared.bias").shape
! m.get_buffer("1.0.running_mean").shape | m.get_buffer("1.7.weight")
== printing
class Told(n.Module):
    def __init__(self, said, *children):
        super().__init__()
        self.said = said
        for i, m in enumerate(children):
            self.add_module(f"m{i}", m)
    def extra_repr(self):
        return self.said
    def _get_name(self):
        return "Named"
print(Told("a=1"), Told(""), Told("a\nb"), Told("a\n\nb", Told("c\n\nd")))
print(n.Sequential(Told("a\nb", n.ReLU()), None, n.ModuleList([Told("x\n\ny"), n.ReLU()])))
== messages and reprs
!! n.ModuleList([n.Linear(2, 2), n.Linear(2, 2), n.ReLU(), n.Linear(2, 2)])
!! n.ModuleList([n.Sequential(n.ReLU(), n.Tanh())] * 2) | n.ModuleList([n.ReLU()])(t.zeros(1))
!! n.ModuleDict()["absent"] | n.ModuleDict({"keys": n.ReLU()})
!! n.ParameterList([t.zeros(2), t.zeros(3, 2), t.zeros(())])
!! n.Sequential(OrderedDict(a=n.Sequential(n.Linear(1, 2)), b=n.ReLU()))
!! n.Sequential(n.ReLU())["a"] | setattr(n.Sequential(n.ReLU()), "0", 1)
!! setattr(n.Linear(1, 1), "weight", 1) | n.ReLU().register_buffer("", None)
!! n.ReLU().register_buffer("inplace", None) | n.ReLU().register_buffer(1, None)
!! n.ReLU().register_parameter("b", 3) | n.ReLU().register_parameter("training", None)
!! n.ReLU().add_module("a", 3) | n.ReLU().add_module("a.b", n.ReLU()) | n.ReLU().absent
!! delattr(n.ReLU(), "absent") | n.ReLU().train(1) | n.Sequential(n.ReLU()).get_submodule("1")
!! n.Sequential(n.Linear(1, 1)).get_submodule("0.weight")
!! n.Sequential(n.Linear(1, 1)).get_parameter("0.w")
!! n.Sequential(n.Linear(1, 1)).get_parameter("0")
!! n.CrossEntropyLoss(t.ones(2)).get_buffer("weight") | n.Linear(1, 1).get_buffer("weight")
!! n.Linear(2, 3).load_state_dict({"weight": t.zeros(3, 2), "x": t.zeros(3)}, False)
!! n.Linear(2, 3).load_state_dict([1])
!! n.Linear(2, 3).load_state_dict({"weight": t.zeros(2), "x": t.zeros(1)})
!! n.Parameter(t.ones(2), requires_grad=False) | n.Parameter()
!! [type(x).__name__ for x in (n.Parameter(t.ones(1)) * 2, n.Parameter().detach())]
== pre hooks
class Add(n.Module):
    def forward(self, x, y=0, *, z=0):
        return x + y + z
m, x = Add(), t.ones(2)
m.register_forward_pre_hook(note(seen, "plain"))
m.register_forward_pre_hook(note(seen, "one", lambda mod, args: args[0] * 3))
last = m.register_forward_pre_hook(
    note(seen, "kwargs", lambda mod, args, kw: (args, {**kw, "z": 5})), with_kwargs=True
)
m.register_forward_pre_hook(
    note(seen, "first", lambda mod, args: (args[0] + 1, 1)), prepend=True
)
? m(x), m(x, z=2)
last.remove()
last.remove()
? m(x, z=2)
m.register_forward_pre_hook(lambda mod, args, kw: args, with_kwargs=True)
? seen, len(m._forward_pre_hooks)
! m(x)
== forward hooks
m, x = linear(t, n), t.ones(1, 2)
m.register_forward_hook(note(seen, "a", lambda mod, args, out: out * 2))
h = m.register_forward_hook(
    note(seen, "b", lambda mod, args, kw, out: out + len(kw)), with_kwargs=True
)
m.register_forward_hook(note(seen, "c"), prepend=True)
? m(x), m(input=x)
with h:
    pass
? m(x), seen, len(m._forward_hooks), len(m._forward_hooks_with_kwargs)
== hooks that are always called
class Fails(n.Module):
    def forward(self, x):
        raise ValueError("no")
def bad(*args):
    raise KeyError("bad")
m, x = Fails(), t.ones(1)
m.register_forward_hook(note(seen, "never"))
m.register_forward_hook(note(seen, "always"), always_call=True)
m.register_forward_hook(note(seen, "kwargs"), always_call=True, with_kwargs=True)
m.register_forward_hook(bad, always_call=True)
ok = n.Identity()
ok.register_forward_hook(note(seen, "before"), always_call=True)
ok.register_forward_hook(bad)
ok.register_forward_hook(note(seen, "after"), always_call=True)
with n.modules.module.register_module_forward_hook(note(seen, "all"), always_call=True):
    ! m(x) | ok(x)
? seen
== hooks on all modules
of, seen = n.modules.module, []
net = n.Sequential(linear(t, n), n.ReLU())
net[0].register_forward_pre_hook(note(seen, "own pre"))
net[0].register_forward_hook(note(seen, "own"))
net[0].register_full_backward_hook(note(seen, "own backward"))
net[0].register_full_backward_pre_hook(note(seen, "own backward pre"))
handles = [
    of.register_module_forward_pre_hook(note(seen, "pre", lambda m, args: args[0] + 1)),
    of.register_module_forward_hook(note(seen, "forward", lambda m, args, out: out * 2)),
    of.register_module_forward_hook(note(seen, "kwargs"), with_kwargs=True),
    of.register_module_full_backward_hook(note(seen, "backward", lambda m, i, o: (i[0] + 1,))),
    of.register_module_full_backward_pre_hook(note(seen, "backward pre")),
]
x = t.ones(1, 2, requires_grad=True)
try:
    y = net(x)
    y.sum().backward()
    ! of.register_module_backward_hook(note(seen, "regular"))
finally:
    for h in handles:
        h.remove()
? y, x.grad, net(x), seen
== hooks on registration
of, seen = n.modules.module, []
new = n.Parameter(t.zeros(2))
handles = [
    of.register_module_parameter_registration_hook(
        lambda m, name, p: seen.append(("parameter", name)) or (new if name == "b" else None)
    ),
    of.register_module_buffer_registration_hook(
        lambda m, name, b: seen.append(("buffer", name)) or (b + 1 if name == "d" else None)
    ),
    of.register_module_module_registration_hook(
        lambda m, name, c: seen.append(("module", name)) or (n.Tanh() if name == "e" else None)
    ),
]
try:
    m = n.Module()
    m.a, m.b = n.Parameter(t.ones(1)), n.Parameter(t.ones(2))
    m.register_parameter("none", None)
    m.register_buffer("c", t.ones(1))
    m.d = n.Buffer(t.ones(1))
    m.c = t.zeros(1)
    m.e, m.f = n.ReLU(), n.ReLU()
    m.add_module("g", None)
    m.register_module("e", n.GELU())
finally:
    for h in handles:
        h.remove()
m.after = n.ReLU()
? seen, m, m.b is new, m.d
== backward hooks
m = linear(t, n)
m.register_full_backward_hook(note(seen, "a", lambda mod, i, o: (i[0] * 2,)))
m.register_full_backward_hook(note(seen, "b"), prepend=True)
m.register_full_backward_pre_hook(note(seen, "p", lambda mod, o: (o[0] + 1,)))
h = m.register_full_backward_pre_hook(note(seen, "q"), prepend=True)
x = t.ones(1, 2, requires_grad=True)
m(x).sum().backward()
h.remove()
m(x * 2).sum().backward()
? x.grad, m.weight.grad, m.bias.grad, seen
! m.register_backward_hook(h)
== backward hooks on parts
class Two(n.Module):
    def forward(self, a, b, i=None):
        return a * 2, b * 3, a.detach() + 1, t.arange(2), None
m = Two()
m.register_full_backward_hook(note(seen, "full"))
m.register_full_backward_pre_hook(note(seen, "pre"))
a, b = t.ones(2, requires_grad=True), t.ones(2)
out = m(a, b, t.arange(2))
out[0].sum().backward()
c = t.ones(2, requires_grad=True)
m(a, c)[1].sum().backward()
x, y = m(a, c)[:2]
(x + y).sum().backward()
with t.no_grad():
    m(a, c)
table = n.Embedding(3, 2)
table.register_full_backward_hook(note(seen, "of ints"))
with warnings.catch_warnings(action="ignore"):  # PyTorch's, where no input requires grad
    table(t.tensor([0, 2])).sum().backward()
? [o is not None and o.requires_grad for o in out], seen, a.grad, c.grad
== backward hooks that are wrong
def run(kind, answer, needs=True):
    m = linear(t, n)
    getattr(m, f"register_full_backward_{kind}")(lambda *args: answer)
    with warnings.catch_warnings(action="ignore"):  # PyTorch's, where no input requires grad
        m(t.ones(1, 2, requires_grad=needs)).sum().backward()
    return m.bias.grad
g = t.ones(1, 2)
! run("hook", (g, g)) | run("pre_hook", (g, g)) | run("hook", (g,), False)
! run("hook", (None,), False) | run("pre_hook", (g * 2,), False)
== regular backward hooks
m = n.ReLU()
h = m.register_backward_hook(note(seen, "regular", lambda mod, i, o: (i[0] * 3,)))
x = t.ones(2, requires_grad=True)
m(x * 1).sum().backward()
! m.register_full_backward_hook(note(seen, "full"))
h.remove()
? seen, x.grad
== state dicts
m = n.Sequential(linear(t, n), n.BatchNorm1d(2))
state = m.state_dict()
mine = {"a": 1}
? list(state), {k: dict(v) for k, v in state._metadata.items()}, type(state).__name__,
  list(m.state_dict(prefix="x.")), m.state_dict(destination=mine) is mine, list(mine),
  m.state_dict()["0.weight"].requires_grad, m.state_dict(keep_vars=True)["0.weight"] is m[0].weight,
  list(m.state_dict(OrderedDict(), "p.", True))
with t.no_grad():
    state["0.bias"].fill_(7.0)  # the memory is shared
? m[0].bias, pickle.loads(pickle.dumps(m.state_dict()))._metadata["1"]
== state dict hooks
m = n.Sequential(linear(t, n), n.ReLU())
m[0].register_state_dict_pre_hook(note(seen, "pre"))
m[0].register_state_dict_post_hook(lambda mod, state, prefix, meta: state.update(more=prefix))
m[0]._register_state_dict_hook(lambda mod, state, prefix, meta: {"ignored": 1})
? list(m.state_dict()), list(m[0].state_dict(prefix="q."))
def public(mod, state, prefix, meta):
    return {}
m.register_state_dict_post_hook(public)
? seen
! m._register_state_dict_hook(public) | m.state_dict()
== extra state
class Counts(n.Module):
    def __init__(self):
        super().__init__()
        self.seen = {"n": 1}
    def get_extra_state(self):
        return self.seen
    def set_extra_state(self, state):
        self.seen = state
a, b = n.Sequential(Counts()), n.Sequential(Counts())
a[0].seen = {"n": 5}
state = a.state_dict()
? state, b.load_state_dict(state), b[0].seen
? b.load_state_dict({}, strict=False), n.Sequential(n.ReLU()).load_state_dict(state, strict=False)
! b.load_state_dict({}) | n.Sequential(n.ReLU()).load_state_dict(state)
! n.ReLU().get_extra_state() | n.ReLU().set_extra_state(1)
== loading
def net():
    m = n.Sequential(linear(t, n), n.BatchNorm1d(2))
    m.register_buffer("scale", t.tensor(1.0))
    m.register_parameter("none", None)
    return m
m = net()
good = {k: v * 0 + 2 for k, v in m.state_dict().items()}
? m.load_state_dict(good), m.state_dict()
? m.load_state_dict({**good, "scale": t.tensor([3.0]), "x": 1}, strict=False), m.scale
? m.load_state_dict({"0.weight": t.ones(2, 2, dtype=t.int64)}, strict=False)
? m[0].weight, m[0].weight.dtype
! m.load_state_dict({**good, "0.bias": t.ones(3)}, strict=False)
! m.load_state_dict({**good, "none": t.ones(3)})
! m.load_state_dict({**good, "0.bias": [1.0, 2.0]})
! m.load_state_dict({**good, "0.x.y": t.ones(1)})
! m.load_state_dict({**good, "1.weight.z": t.ones(1)})
! m.load_state_dict({k: v for k, v in good.items() if k != "scale"}) | m.load_state_dict(3)
! m.load_state_dict(OrderedDict(good))
== assigning
m = linear(t, n)
m.weight.requires_grad_(False)
given = {"weight": t.ones(2, 2, dtype=t.float64), "bias": n.Parameter(t.ones(2))}
result = m.load_state_dict(given, assign=True)
with t.no_grad():
    given["weight"][0, 0] = 9
bad = {**given, "bias": t.ones(2, dtype=t.int64)}
? result, m.weight, m.weight.dtype, m.bias, type(m.weight).__name__
! linear(t, n).load_state_dict(bad, assign=True)
== load hooks
m = n.Sequential(linear(t, n), n.ReLU())
m[0].register_load_state_dict_pre_hook(
    lambda mod, state, prefix, *rest: state.update({f"{prefix}bias": t.zeros(2) + 4})
)
m[0]._register_load_state_dict_pre_hook(note(seen, "no module"))
m[0].register_load_state_dict_post_hook(note(seen, "post"))
h = m.register_load_state_dict_post_hook(lambda mod, keys: keys.unexpected_keys.clear())
state = {"0.weight": t.zeros(2, 2), "more": t.ones(1)}
? m.load_state_dict(state), list(state), m[0].bias, m[0].weight, seen
h.remove()
! m.load_state_dict(state)
m.register_load_state_dict_post_hook(lambda mod, keys: 3)
! m.load_state_dict(state)
== copies
m = n.Sequential(linear(t, n), n.Linear(2, 2))
m[1].weight = m[0].weight
m[1].bias.requires_grad_(False)
m.register_buffer("scratch", t.ones(1), persistent=False)
m.b = n.Buffer(t.ones(2), persistent=False)
m.register_buffer("none", None)
hook = m[0].register_forward_hook(Keeps.double)
m[0].register_load_state_dict_pre_hook(Keeps.rename)
m.hook = hook
m.eval()
m(t.ones(1, 2)).sum().backward()
for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
    items = other.state_dict().items()
    other.load_state_dict(OrderedDict((k.replace("0.weight", "0.w"), v + 1) for k, v in items))
    ? other, other[0].weight is other[1].weight, other[0].weight is m[0].weight,
      [p.grad for p in other.parameters()], [p.requires_grad for p in other.parameters()],
      list(other.state_dict()), other.scratch, other.b, other.training, other[0](t.ones(1, 2)),
      m[0].weight, type(other[0].weight).__name__
    other.hook.remove()
    ? other[0](t.ones(1, 2)), m[0](t.ones(1, 2)), len(m[0]._forward_hooks)
shallow = copy.copy(m)
? shallow[0] is m[0], shallow.scratch is m.scratch
== parameters of users
class Named(n.Parameter):
    def __new__(cls, data, name, requires_grad=True):
        self = super().__new__(cls, data, requires_grad)
        self.tag = name
        return self
p, q = Named(t.ones(2), "w", requires_grad=False), Named(t.ones(3), "v")
m = n.Module()
m.p, m.q = p, q
(m.q * 2).sum().backward()
m.double()
? p, p.tag, q, q.tag, type(m.p).__name__, m.p is p, q.grad, list(m.state_dict()),
  type(p * 2).__name__
== conversions
def net():
    m = n.Sequential(n.Linear(2, 1), n.BatchNorm1d(1))
    m(t.ones(3, 2)).sum().backward()
    return m
def kinds(m):
    m.register_buffer("flag", t.tensor(True))
    return [x.dtype for x in (*m.parameters(), *m.buffers(), m[0].weight.grad)]
m = net()
before = list(m.parameters())
made = [
    kinds(net().double()), kinds(net().half()), kinds(net().bfloat16()),
    kinds(net().double().float()), kinds(net().to(t.float16)), kinds(net().type(t.float64)),
    kinds(net().to("cpu", t.float64)), kinds(net().to(device="cpu", dtype=t.float16)),
    kinds(net().to(t.ones(1, dtype=t.float64))), kinds(net().to("cpu", t.float16, True)),
    kinds(net().to(dtype=t.float64, non_blocking=True)), kinds(net().cpu()),
    kinds(net().to(None)), kinds(net().to_empty(device="cpu")),
]
same = [a is b for a, b in zip(before, m.double().parameters(), strict=True)]
conv = n.Conv2d(2, 3, 3).to(memory_format=t.channels_last)
? made, same, m.double() is m, conv.weight.is_contiguous(memory_format=t.channels_last),
  conv.bias.shape
! m.to(t.int64) | m.to("nowhere") | m.to(a=3) | m.to([1]) | m.to_empty("cpu")
== applying
log = []
class Own(n.Module):
    def __init__(self):
        super().__init__()
        self.w, self.extra = n.Parameter(t.ones(2)), t.ones(1)
    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        self.extra = fn(self.extra)
        return self
m = n.Sequential(Own(), n.Sequential(Own()))
m[1][0].w = m[0].w
m.apply(lambda x: log.append(type(x).__name__))
? m.double() is m, str(m[1][0].extra.dtype)[-7:], m[1][0].w is m[0].w
m._apply(lambda x: x * 2, recurse=False)
? m[0].w
n.Linear(1, 1)._apply(lambda x: log.append(type(x).__name__) or x)
m.share_memory()
? log, m.type(t.float32)[0].w
== gradients
m = linear(t, n)
? m.requires_grad_(False) is m, [p.requires_grad for p in m.parameters()]
m.requires_grad_()
m(t.ones(1, 2)).sum().backward()
g = m.bias.grad
m.zero_grad(set_to_none=False)
? g, m.bias.grad is g
m.zero_grad()
? m.bias.grad, m.train(False) is m, m.training, m.eval().training, m.train().training
? n.Module.dump_patches, n.Module._version, n.Module.call_super_init
! m.train("yes") | m.train(None)
== lazy modules
scale, lazy_scale = lazy(t, n)
m = lazy_scale()
? m.has_uninitialized_params(), m.state_dict(), list(m.parameters()), m.weight.dtype
m.double()
? str(m.weight.dtype)[-7:], str(m.seen.dtype)[-7:]
m.float()
! caught(RuntimeError, lambda: m.weight.shape) | caught(ValueError, lambda: m.weight + 1)
! caught(ValueError, lambda: m.weight.sum())
! caught(ValueError, lambda: t.nn.functional.linear(t.ones(1, 2), m.weight))
! caught(RuntimeError, lambda: scale(2).load_state_dict(lazy_scale().state_dict()))
! m.weight.device.type | m.weight.requires_grad | m.weight.is_floating_point()
! m.share_memory() | m(t.ones(3, 2)) | copy.deepcopy(m.weight)
! caught(RuntimeError, lambda: m.load_state_dict(lazy_scale().state_dict()))
! lazy_scale().load_state_dict(lazy_scale().state_dict())
! n.UninitializedParameter(requires_grad=False).requires_grad
m = lazy_scale()
w = m.weight
? m(t.ones(2, 3)), type(m).__name__, w is m.weight, type(m.weight).__name__, m.weight.requires_grad
? list(m.state_dict()), len(m._forward_pre_hooks), hasattr(m, "_load_hook"), m
? isinstance(m.seen, n.Buffer), m(t.ones(1, 3))
== lazy modules that are loaded
scale, lazy_scale = lazy(t, n)
full = scale(3)
m = n.Sequential(lazy_scale())
? m.load_state_dict({f"0.{k}": v * 3 for k, v in full.state_dict().items()})
? m[0].weight, type(m[0]).__name__, m[0].has_uninitialized_params()
? m(t.ones(1, 3)), type(m[0]).__name__
for other in (copy.deepcopy(lazy_scale(buffer=False)), lazy_scale()):
    ? other(t.ones(1, 4)), type(other).__name__
class Unwritten(n.modules.lazy.LazyModuleMixin, scale):
    pass
! Unwritten(2)(t.ones(1))
== older arguments
"Which say how a loss is reduced, and names that were others."
x, y = t.ones(3), t.arange(3.0)
for given in ((True,), (False,), (None, False), (None, True), (False, True), (False, False)):
    loss = n.CrossEntropyLoss(None, given[0], 3, *given[1:])
    ? n.MSELoss(*given).reduction, loss.reduction, loss.ignore_index
    ? n.functional.mse_loss(x, y, *given)
? n.NLLLoss2d(), n.Hardtanh(max_value=2.0)
== tables that are given
table = t.arange(12.0).reshape(4, 3)
for kind, at in ((n.Embedding, [1, 3]), (n.EmbeddingBag, [[1, 3], [0, 0]])):
    for freeze in (True, False):
        m = kind.from_pretrained(table, freeze, padding_idx=3)
        ? m, m.weight.requires_grad, m(t.tensor(at))
== without elements
m = n.Linear(0, 3)
? m(t.zeros(2, 0)).tolist() == [m.bias.tolist()] * 2
== sequentials
def net():
    return n.Sequential(n.ReLU(), n.Tanh())
named = n.Sequential(OrderedDict(a=n.ReLU(), b=n.Tanh(), c=n.GELU()))
m = net()
same = (net() * 2)[0] is not (net() * 2)[2]
m += net()
m *= 2
? m, same, 3 * net(), net() + net(), net().extend([n.GELU()]), named[0:2], named[-1],
  net().insert(1, n.GELU()), net().insert(-1, n.GELU()), net().append(n.GELU()),
  changed(net(), ("__delitem__", slice(0, 1))), net().pop(slice(0, 2)), len(named),
  net()(t.ones(2)), next(iter(named)), [x for x in dir(net()) if x.isdigit()]
! [*net(), n.ReLU()] | net() * 0 | net() * 1.5 | net().__imul__(-1)
! net().__iadd__([n.ReLU()]) | net().insert(9, n.ReLU()) | net().insert(0, 3) | net()[7]
! net().pop(5) | net().append(3) | n.Sequential(n.ReLU) | n.Sequential({"a": n.ReLU()})
! n.Sequential()(3)
== module lists
def made():
    return n.ModuleList([n.ReLU(), n.Tanh(), n.GELU()])
m = made()
m += [n.ReLU()]
? m, made()[::-1], made()[-1], made() + [n.ReLU()], n.ModuleList(x for x in m),
  made().append(n.ELU()), made().extend(made()), changed(made(), ("insert", 1, n.ELU())),
  changed(made(), ("__setitem__", -1, n.ELU())), made().pop(-1), len(m), m[0] in m,
  changed(made(), ("__delitem__", slice(None, None, 2)))
! made()[3] | made().extend(3) | made().append(3) | n.ModuleList(n.ReLU()) | n.ModuleList([3])
! made()["0"] | made().__setitem__(5, n.ReLU()) | made().pop()
== module dicts
m = n.ModuleDict({"b": n.ReLU(), "a": n.Tanh()})
m.update([("c", n.GELU()), ["b", n.ELU()]])
m.update(n.ModuleDict({"d": n.ReLU()}))
? m, list(m), list(m.keys()), next(iter(m.items()))[0], len(list(m.values())), "a" in m, "x" in m,
  m.pop("a"), m["b"], len(m), changed(m, ("clear",))
! m.pop("x") | m.__delitem__("x") | n.ModuleDict({"a.b": n.ReLU()})
! n.ModuleDict({3: n.ReLU()}) | n.ModuleDict(3) | n.ModuleDict([3])
! n.ModuleDict([("a", n.ReLU(), 3)]) | n.ModuleDict({"a": 3}) | m(3)
== parameter lists
shared = n.Parameter(t.ones(3))
m = n.ParameterList([t.ones(2), shared, 3, "x", None, n.ReLU()])
m.append(t.zeros(1)).extend([shared])
m += (4.0,)
? m, len(m), m[1] is shared, type(m[0]).__name__, list(m.state_dict()), m[2], m[-1]
m[0] = t.zeros(2, 2)
m[2] = t.zeros(1)
m.note = 3
? m[0], m[1:3], m[::-2], [type(x).__name__ for x in m], list(n.ParameterList())
? len(list(m.parameters()))
! m[20] | m["a"] | m.__setitem__(20, t.ones(1)) | n.ParameterList(3)
! n.ParameterList(t.ones(2)) | m(3) | m.extend(3) | copy.deepcopy(m)[1] is shared
== parameter dicts
m = n.ParameterDict({"b": t.ones(2), "a": n.Parameter(t.zeros(1)), "n": 3})
? m, list(m), list(m.keys()), [k for k, _ in m.items()], len(list(m.values()))
m.update(OrderedDict(z=t.ones(1), y="s"))
m.update([("x", t.ones(1)), ["w", None]])
? list(m), list(reversed(m)), "x" in m, "q" in m, m["n"], m.get("q"), m.get("q", 3)
? m.setdefault("k", t.ones(4)), m.setdefault("n", 9), m.pop("z"), m.popitem()[0]
more = m.copy()
more["b"] = t.zeros(7)
? m["b"].shape, more["a"] is m["a"], list(m | n.ParameterDict({"new": 1}))
? list(m.fromkeys(["p", "q"], 2).items()), list(n.ParameterDict({"u": 1}) | m)
m |= n.ParameterDict({"last": t.ones(1)})
del m["n"]
? list(m), list(m.state_dict()), len(m), [k for k, _ in m.named_parameters()]
! m["q"] | m.pop("q") | m.__delitem__("q") | m[3] | n.ParameterDict({3: 4})
! n.ParameterDict({"a.b": t.ones(1)}) | n.ParameterDict({"keys": t.ones(1)})
! n.ParameterDict(3) | n.ParameterDict([3]) | n.ParameterDict([("a", 1, 2)]) | m(3)
! n.ParameterDict().popitem() | len(changed(m, ("clear",)))
! copy.deepcopy(n.ParameterDict({"a": 1, "b": t.ones(1)}))
""")


def outcome(name: str, lib: Any) -> tuple[list[Any], str, list[str]]:
    more: dict[str, Any] = {"copy": copy, "pickle": pickle, "OrderedDict": OrderedDict, "seen": []}
    with (
        warnings.catch_warnings(record=True, action="always") as warned,
        contextlib.redirect_stdout(io.StringIO()) as said,
    ):
        seen = run(PROGRAMS[name], {**globals(), **more, "t": lib, "n": lib.nn}, plain)
    return seen, said.getvalue().replace("pyframe", "torch"), [w.category.__name__ for w in warned]


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_what_pytorch_does(name: str, torch: Any) -> None:
    ours, theirs = outcome(name, pf), outcome(name, torch)
    assert ours[0] or ours[1]
    assert ours == theirs
