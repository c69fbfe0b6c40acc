"""What users' steps read and change outside, as programs. They need no PyTorch.

PROGRAMS holds their source. A program makes a function with `c` (pf.compile, or nothing) and calls
it with the tensor `x`, with changes in between; what it yields is the same for both. It is Python,
the body of a generator, in which these lines are short for

    ? e                  f = c(lambda x: e)
    def f(x):            a function that is compiled, as is `def step(x):`
    calls                two calls of f
    each n: change       n calls, each after the change; `-> e` yields that instead of f(x)
    each a, b: change    a call for each of the values `i`
    turns: change        seven calls, with a change before some of them, see `turns`
    train adam: change   steps of a net with an optimizer, see `training`; `g` is its first group

At the end of a program the function still replays, without a warning; unless it is *eager*: no
replay can be right for it, and a warning says so, once.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import pyframe as pf
from pyframe import nn, optim

REPLAYS, EAGER = "replays", "runs eagerly"


def turns(f: Any, *args: Any, change: Any, at: Any = (2, 4), n: int = 7) -> Iterator[Any]:
    """`n` calls with a change before some of them."""
    for i in range(n):
        if i in at:
            change(i)
        yield f(*args)


class Plain:
    """An object with attributes."""

    def __init__(self, **names: Any) -> None:
        self.__dict__.update(names)


def mlp(x: Any, *more: Any) -> Any:
    pf.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3), *more).to(x.device)


def training(
    c: Any, x: Any, make: Any, change: Any = None, at: Any = (3,), n: int = 7, zero: Any = None
) -> Any:
    net = mlp(x)
    o = Plain(net=net, opt=make(net.parameters()))

    @c
    def step(x: Any) -> Any:
        (zero or o.opt.zero_grad)() if zero is None else zero(o)
        loss = o.net(x).square().mean()
        loss.backward()
        o.opt.step()
        return loss.detach()

    for i in range(n):
        if change is not None and i in at:
            change(o)
        yield step(x)
        yield [p.detach().clone() for p in net.parameters()]


def adam(params: Any) -> Any:
    return optim.Adam(params, lr=0.1)


def sgd(params: Any) -> Any:
    return optim.SGD(params, lr=0.1, momentum=0.9)


def a_step_in_parts(c: Any, x: Any, set_to_none: bool) -> Iterator[Any]:
    """Gradients of two batches, or of one, with an update that is a function of its own."""
    pf.manual_seed(0)
    net = nn.Linear(3, 2).to(x.device)  # whose gradients are views
    opt = optim.Adam(net.parameters(), lr=0.1)

    def step(x: Any, first: bool, last: bool) -> Any:
        if first:
            opt.zero_grad(set_to_none)
        net(x).square().mean().backward()
        if last:
            opt.step()

    step, update = c(step), c(lambda: opt.step())
    for i in range(4):
        step(x + i, True, False)
        if i == 2:
            net.weight.grad.mul_(2)
        step(x - i, False, True)
        yield net.weight.grad
        step(x * i, True, False)
        update() if i != 1 else opt.step()
        yield net.weight.detach(), net.bias.grad


PROGRAMS = r"""
import collections, contextlib, copy, dataclasses, importlib.machinery, math, operator, os, sys
import types
from pyframe.nn import functional as F

SCALE, LATEST, CALLS = 1.0, None, 0

# --- globals
== a global number
def change(i):
    global SCALE
    SCALE = 1.0 + i
change(0)
yield from turns(c(lambda x: x * SCALE), x, change=change)
change(0)
== a counter that the function advances
global CALLS
CALLS = 0
def f(x):
    global CALLS
    CALLS += 1
    return x * CALLS
each 6 -> f(x), CALLS
== a global that is only written
global LATEST
def f(x):
    global LATEST
    LATEST = x * 2
    return x + 1
each 4: LATEST = None -> f(x + i), LATEST
# --- closures, defaults, partial functions
== functions of one code
def make(k):
    return lambda x: x * k[0]
ks = [[1.0], [2.0]]
o = Plain(a=make(ks[0]), b=make(ks[1]))
? o.a(x) + o.b(x)
turns: operator.setitem(ks[1], 0, float(i))
turns: operator.setitem(ks[0], 0, float(i))
== attributes set behind the class
o = Plain(a=0.0, b=0.0)
def f(x):
    object.__setattr__(o, "a", 1.0)
    vars(o)["b"] = 2.0
    return x * 2
for i in range(6):
    if i > 2:
        o.a = o.b = float(i)
    yield f(x), o.a, o.b
== a number as a key
o, table = Plain(k=0), {i: pf.ones(3, device=x.device) * i for i in range(-2, 3)}
? x * table[o.k]
each 0, 1, 2, -1, -2, 0, 1, 2, -1, -2: o.k = i
== a rare number among the arguments
f = c(lambda x, t: x * math.exp(-t))
each 24 -> f(x, float(i // 3))
== a counter in a cell
n = 0
def f(x):
    nonlocal n
    n += 2
    return x + n
each 6 -> f(x), n
== a result in a cell
last = None
def f(x):
    nonlocal last
    last = x * 3
    return x
each 4: f(x + i) -> last
== no grad as a decorator
k = 1.0
@pf.no_grad()
def g(x):
    return x * k
? g(x)
for k in 1.0, 1.0, 2.0, 2.0, 3.0, 4.0:
    yield f(x)
# --- objects
== a dict with attributes
class Config(dict):
    def __getattr__(self, name):
        return self[name]
o = Config(t=1.0, more=Config(u=2.0))
? x * o.t + o.more.u
turns: o.more.update(u=float(i))
== an object as an argument
o = Plain(t=1.0)
yield from turns(c(lambda x, o: x * o.t), x, o, change=lambda i: setattr(o, "t", float(i)))
== objects within an argument
o = {"cfg": [Plain(t=1.0)]}
f = c(lambda x, o: x * o["cfg"][0].t)
yield from turns(f, x, o, change=lambda i: setattr(o["cfg"][0], "t", float(i)))
== an attribute that is only written
o = Plain(last=None, status="")
def f(x):
    o.last = x * 2
    o.status = "done"
    return x
for i in range(5):
    o.status = "" if i == 3 else o.status
    f(x + i)
    yield o.last, o.status
== results in containers that are kept
o = Plain()
def f(x):
    o.out = {"a": x * 2, "more": [x + 1, (x, "text")]}
    return x
kept = []
for i in range(4):
    f(x + i)
    kept.append(o.out)
for out in kept:
    yield out["a"], out["more"][0], out["more"][1]
== a counter on an object
o = Plain(n=0)
def f(x):
    o.n += 1
    return x * o.n
for i in range(7):
    if i == 5:
        o.n = 100
    yield f(x), o.n
== every third call
o = Plain(n=0)
def f(x):
    o.n += 1
    return x * 2 if o.n % 3 == 0 else x + 1
each 12 -> f(x), o.n
== a tensor that is carried
o = Plain(h=x * 0)
def f(x):
    o.h = (o.h * 0.5 + x).tanh()
    return o.h * 2
for i in range(7):
    if i == 5:
        o.h = x * 0
    yield f(x + i), o.h
== a moving average in a dict
ema = {"x": x * 0}
def f(x):
    ema["x"] = ema["x"] * 0.9 + x * 0.1
    return ema["x"].sum()
each 6 -> f(x + i), ema["x"]
== tensors from outside that change each time
o = Plain(batch=x)
f = c(lambda: o.batch * 2)
each 8: o.batch = x + i -> f()
== an attribute that is deleted
o = Plain()
def f(x):
    o.tmp = x * 2
    y = o.tmp + 1
    del o.tmp
    return y
each 4 -> f(x + i), hasattr(o, "tmp")
== settings that are restored
o = Plain(t=1.0)
@contextlib.contextmanager
def scaled(k):
    before, o.t = o.t, k
    try:
        yield
    finally:
        o.t = before
def f(x):
    with scaled(3.0):
        y = x * o.t
    return y + o.t
turns: setattr(o, "t", float(i))
# --- containers
== tensors in a list
ws = [x + 1, x + 2]
? sum(x * w for w in ws)
calls
ws[1] = x + 7
calls
ws.append(x)
calls
with pf.no_grad():
    ws[0].mul_(3)
calls
== numbers that are equal but not the same
o = Plain(v=1)
? x.int() * o.v if o.v != 0 else x / o.v
each 1, 1, True, 1.0, 1, 0.0, -0.0, 0.0, -0.0: o.v = i
== a nan
o = Plain(v=math.nan)
? x if o.v != o.v else x * o.v
each math.nan, math.nan, float("nan"), 2.0, 2.0: o.v = i
== types dtypes and devices
o = Plain(dtype=pf.float32, shape=(2, 3), part=slice(0, 1))
? pf.ones(o.shape, dtype=o.dtype, device=x.device)[o.part] + x[:1]
calls
o.dtype = pf.int32
calls
o.part = slice(0, 2)
calls
o.shape = [1, 3]
calls
== what a shape is made of
o = Plain(w=x + 1)
? x.sum() * o.w.shape[0] * o.w.ndim
calls
o.w = pf.cat([x, x])
calls
o.w = o.w[:1]
calls
== a view that is rebound
table = pf.arange(12, dtype=pf.float32, device=x.device).reshape(4, 3)
o = Plain(v=table[0])
? x * o.v
each 0, 0, 1, 1, 2, 3, 3: o.v = table[i]
== an attribute of a tensor
w = x + 1
w.scale = 2.0
? x * w * w.scale
turns: setattr(w, "scale", float(i))
== an import that reads a file
"As of a page, where some modules are fetched when they are first imported."
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "found_late":
            return None
        with open(os.devnull) as file:
            file.read()
        return importlib.machinery.ModuleSpec(name, None, is_package=True)
sys.modules.pop("found_late", None)
sys.meta_path.append(Finder)
def f(x):
    import found_late
    return x * len(found_late.__name__)
each 4
sys.meta_path.remove(Finder)
== a view that alone has its memory
t = pf.arange(6.0, device=x.device).reshape(2, 3)
? x * t
turns: t.add_(i)
== new gradients for another function
yield from a_step_in_parts(c, x, True)
== the same gradients for another function
yield from a_step_in_parts(c, x, False)
== whether a tensor needs a gradient
w = pf.ones(3, device=x.device)
? x * (2 if w.requires_grad else 3)
calls
w.requires_grad_()
calls
== the data of a tensor
w = pf.ones(3, device=x.device)
? x * w * w.shape[0]
calls
w.data = pf.ones(1, device=x.device) * 4
calls
# --- numbers that change in each call
== a temperature
o = Plain(t=1.0)
? F.softmax(x / o.t, -1)
each 9: o.t = 1.0 + 0.1 * i
== a number as an argument
f = c(lambda x, t: x * t + (1 - t))
each 9 -> f(x, 0.1 * i)
== an int as an argument
f = c(lambda x, n, k=0: x * 0.9 ** n + k)
each 9 -> f(x, i, k=i)
== a backward pass outside
o, w = Plain(t=1.0), pf.ones(3, device=x.device, requires_grad=True)
? (x * w * o.t).sum() / (o.t + 1)
for i in range(8):
    o.t = 1.0 + i
    w.grad = None
    f(x).backward()
    yield w.grad
== numbers that are kept and returned
o = Plain(t=1.0)
def f(x):
    o.kept = {"t": o.t * 2, "deep": [o.t, (o.t, x)]}
    o.note = types.SimpleNamespace(half=o.t / 2)
    return types.SimpleNamespace(y=x * o.t, t=o.t), [o.t + 1], (o.t,)
for i in range(8):
    o.t = 1.0 + i
    a, b, d = f(x)
    parts = [a.t, b[0], d[0], o.kept["t"], o.kept["deep"][0], o.kept["deep"][1][0], o.note.half]
    yield a.y, parts, [type(v).__name__ for v in parts], o.kept["deep"][1][1]
== a list from outside that is returned
ks = [1.0, 2.0]
? (ks, x * ks[0])
each 4: found, y = f(x) -> found is ks, y
== an argument that is changed later (eager)
def f(batch, t):
    if t > 4:
        batch["y"] = batch["x"] * t
    return batch["x"] * t
for i in range(8):
    batch = {"x": x + i, "k": float(i)}
    yield f(batch, float(i)), sorted(batch), batch.get("y", 0)
== an object that holds itself is kept (eager)
o = Plain()
def f(x):
    o.node = Plain(value=x * 2)
    o.node.itself = o.node
    return x
each 4: f(x + i) -> o.node.value, o.node.itself is o.node
== subclasses of containers
class Named(list):
    def __init__(self, name, *parts):
        super().__init__(parts)
        self.name = name
? (Named("two", x, x + 1), collections.deque([x], maxlen=3))
each 4: a, d = f(x + i) -> a.name, list(a), len(a), d.maxlen, d[0]
== several numbers at once
o = Plain(a=1.0, b=2, cfg={"c": 3.0}, deep=[[4.0]])
? x * o.a + o.b * o.cfg["c"] - o.deep[0][0] ** 2
each 9: o.a, o.b, o.cfg["c"], o.deep[0][0] = 1.0 / (i + 1), i, 0.5 * i, -float(i)
== a schedule with branches
o = Plain(step=0)
def f(x):
    warm = min(1.0, (o.step + 1) / 4)
    scale = warm * 0.5 if o.step < 8 else 0.01
    return x * scale * 0.99 ** o.step
each 14: o.step = i
== a number beyond float32
o = Plain(t=1.0)
? x * (1000000.0 * (o.t - 0.9999999))
each 7: o.t = 1.0 + i * 1e-09
== a number for ints
o = Plain(n=1)
y = x.int()
f = c(lambda y: (y + o.n) * 2 - (y < o.n).int())
each 8: o.n = i -> f(y)
== a number in float16
if x.device.type != "cpu":
    return
y, o = x.half(), Plain(t=1.0)
f = c(lambda y: y * o.t + 1)
each 7: o.t = 1 + i / 8 -> f(y)
== numbers of functions
o = Plain(t=0.1)
def f(x):
    y = F.leaky_relu(x, o.t) + pf.where(x > 0, x, o.t) + pf.full_like(x, 2.0).mul_(o.t)
    return pf.lerp(x, y, 0.5).add_(y, alpha=2) + pf.maximum(x, pf.zeros_like(x) + o.t)
each 8: o.t = 0.1 * (i + 1)
== numbers of numpy
o = Plain(a=np.float64(1.0), b=np.float32(2.0), n=np.int64(1))
? x * o.a + (1 - o.a) * o.b - np.float64(2.0) * o.a + 0.5 ** o.n
each 9: o.a, o.b, o.n = np.float64(1.0 + i), np.float32(i), np.int64(i)
== a number where only a number goes (eager)
import json
o = Plain(t=1.0, kept=None)
def f(x):
    o.kept = json.dumps({"t": o.t})
    return x * o.t
each 8: o.t = 1.0 + i -> f(x), o.kept
== names that a run adds
config = sys.modules["user_config"] = types.ModuleType("user_config")
o, w = Plain(), x + 1
def f(x):
    config.last = 3.0
    Plain.extra = 4.0
    w.note = "seen"
    return x * config.last
each 5 -> f(x), config.last, o.extra, w.note
del Plain.extra
== abs round and divmod
o = Plain(t=0.25)
? x * abs(-o.t) + round(o.t, 1) + o.t // 0.1 + o.t % 0.1 + divmod(o.t, 1)[1]
each 8: o.t = 0.25 + i * 0.31
== a number that math wants (eager)
o = Plain(t=1.0)
? x * math.exp(-o.t)
each 8: o.t = float(i)
== a number that numpy makes an array of (eager)
o = Plain(t=1.0)
? x * float(np.asarray(o.t))
each 8: o.t = float(i)
== a number that math wants and that changes rarely
o = Plain(t=1.0)
? x * math.exp(-o.t)
each 20: o.t = float(i // 4)
== an int that sizes are made of
o = Plain(n=1)
? x.repeat(o.n, 1).sum() + x[:o.n].sum()
each 1, 1, 2, 2, 3, 3, 1, 2, 3: o.n = i
== a string that changes in each call (eager)
o = Plain(name="")
? x * len(o.name)
each 12: o.name = "a" * i
== one of several modes
o = Plain(mode="a", acts={"a": pf.tanh, "b": pf.sin, "c": pf.cos, "d": pf.exp, "e": pf.abs})
? o.acts[o.mode](x)
each "abcdeabcde": o.mode = i
== a loss scale
pf.manual_seed(0)
net = nn.Linear(3, 2).to(x.device)
opt = optim.SGD(net.parameters(), lr=0.1)
o = Plain(scale=1024.0)
def step(x):
    opt.zero_grad()
    (net(x).square().mean() * o.scale).backward()
    with pf.no_grad():
        for p in net.parameters():
            p.grad.mul_(1 / o.scale)
    opt.step()
    return net.weight.sum()
each 7: o.scale = 1024.0 / 2 ** i -> step(x)
# --- side effects
== a list that grows (eager)
seen = []
def f(x):
    seen.append(x * 2)
    return x
each 4: f(x + i) -> len(seen), seen[-1]
== a dict that grows (eager)
o = Plain(log={}, n=0)
def f(x):
    o.log[len(o.log)] = "call"
    return x
each 4 -> f(x), len(o.log)
== an argument that is changed (eager)
def f(batch, out):
    batch["y"] = batch["x"] * 2
    out.append(batch["y"])
    return batch["y"]
each 4: batch, out = ({"x": x + i}, []) -> f(batch, out), len(out), sorted(batch)
== batches that are drawn inside (eager)
it = iter([x, x + 1, x + 2, x + 3, x + 4])
f = c(lambda: next(it) * 2)
each 4 -> f()
== a value that is read (eager)
? x * 2 if x.sum().item() > 0 else x
each 1, -1, 1 -> f(x * i)
== printing
def f(x):
    print(end="")
    return x * 2
each 3 -> f(x + i)
== what a function makes for itself
class Node:
    def __init__(self, value, parent):
        self.value, self.parent = value, parent
def f(x):
    n, log, table = Node(x, None), [], {}
    for i in range(3):
        n = Node(n.value * 2, n)
        n.self = n
        log.append(n)
        table[i] = n.value
    return sum(m.value for m in log) + table[1] + n.parent.value
each 4 -> f(x + i)
== results of classes of the users
@dataclasses.dataclass
class Output:
    loss: Any
    parts: dict[str, Any]
    name: str = "output"
kept = []
? Output(x.sum(), {"double": x * 2})
for i in range(4):
    kept.append(f(x + i))
    kept[-1].name += str(i)
for o in kept:
    yield o.loss, o.parts["double"], o.name
== results with slots
@dataclasses.dataclass(slots=True, frozen=True)
class Output:
    loss: Any
    n: int = 3
? Output(x.sum())
kept = [f(x + i) for i in range(4)]
for o in kept:
    yield o.loss, o.n
== a list in two places
shared = [1.0]
o = Plain(a=shared, b=shared)
? x * o.a[0] + o.b[0]
calls
o.b = [2.0]
calls
o.a.append(o.a)
calls
== results of many kinds
Pair = collections.namedtuple("Pair", "a b")
def f(x):
    return (
        Pair(x * 2, None), collections.OrderedDict(k=x + 1), [x, "text", 3],
        types.SimpleNamespace(y=x - 1), {1, 2}, collections.deque([x * 3]),
    )
for i in range(4):
    p, d, l, n, s, q = f(x + i)
    yield p.a, p.b, d["k"], l, n.y, sorted(s), q[0], type(d).__name__, type(p).__name__
== results that lie outside
o = Plain(t=1.0)
? (o, x * o.t)
for i in range(5):
    o.t = float(i // 2)
    found, y = f(x)
    yield found is o, y
# --- modules
== a compiled module
net = mlp(x)
f = c(net)
calls
net[2] = nn.Linear(4, 2).to(x.device)
yield from (f(x).shape, f(x).shape)
== lazy layers
"Their weights are made, and drawn, in the first call."
pf.manual_seed(4)
net = nn.Sequential(nn.LazyLinear(3), nn.ReLU()).to(x.device)
? net(x)
yield from (f(x), f(x), f(x))
net[1] = nn.LazyLinear(2).to(x.device)
yield from (f(x), f(x), f(x))
== values of parameter containers
d = nn.ParameterDict({"k": 2.0, "w": pf.ones(3, device=x.device)})
m = nn.ParameterList([pf.ones(3, device=x.device), 0.5])
? (x[..., :3] * d["w"] * d["k"] + m[0] * m[1]) * len(d)
calls
d["k"] = 3.0
calls
m[1] = -1.0
calls
d["w"] = d["w"].detach() * 2
calls
d["more"] = 1
calls
== layers replaced added and removed
net = mlp(x)
? net(x)
calls
net[1] = nn.ReLU()
calls
net.append(nn.Tanh())
calls
del net[1]
calls
net.insert(0, nn.Flatten())
calls
== module containers
pf.manual_seed(0)
new = lambda: nn.Linear(3, 3).to(x.device)
layers, table = nn.ModuleList([new()]), nn.ModuleDict({"a": new()})
weights = nn.ParameterList([nn.Parameter(pf.ones(3, device=x.device))])
def f(x):
    for m in layers:
        x = m(x)
    for k, m in table.items():
        x = m(x) + len(k)
    for w in weights:
        x = x * w
    return x.detach()
calls
layers.append(new())
calls
table["bb"] = new()
calls
weights.append(nn.Parameter(pf.ones(3, device=x.device) * 2))
calls
weights[0] = nn.Parameter(pf.ones(3, device=x.device) * 7)
calls
== hooks added and removed
net = mlp(x)
? net(x)
calls
h = net[0].register_forward_hook(lambda m, a, out: out * 2)
calls
g = net.register_forward_pre_hook(lambda m, a: (a[0] + 1,))
calls
h.remove()
calls
g.remove()
calls
== hooks on all modules
net, of = mlp(x), nn.modules.module
def f(x):
    x = x.detach().requires_grad_()
    y = net(x)
    y.square().sum().backward()
    net.zero_grad()
    return y.detach(), x.grad
calls
for register, hook in (
    (of.register_module_forward_pre_hook, lambda m, a: (a[0] + 1,)),
    (of.register_module_forward_hook, lambda m, a, out: out * 2),
    (of.register_module_full_backward_hook, lambda m, gi, go: (gi[0] * 3,)),
    (of.register_module_full_backward_pre_hook, lambda m, go: (go[0] * 0.5,)),
):
    with register(hook):
        yield from [f(x) for _ in range(2)]
    yield from (f(x), f(x))
with net[0].register_full_backward_pre_hook(lambda m, go: (go[0] * 2,)):
    yield from [f(x) for _ in range(2)]
calls
== a hook that reads outside
net, o = mlp(x), Plain(t=1.0)
net[0].register_forward_hook(lambda m, a, out: out * o.t)
? net(x)
turns: setattr(o, "t", float(i))
== a hook that collects (eager)
net, seen = mlp(x), []
net[0].register_forward_hook(lambda m, a, out: seen.append(out.detach()))
? net(x)
each 4: f(x + i) -> len(seen), seen[-1]
== a hook that keeps the latest
net, seen = mlp(x), {"out": x}
net[0].register_forward_hook(lambda m, a, out: seen.update(out=out.detach()))
? net(x).sum()
each 6 -> f(x + i), seen["out"]
== backward hooks
net, o = mlp(x), Plain(k=2.0)
net[0].register_full_backward_hook(lambda m, gi, go: (gi[0] * o.k,))
def f(x):
    net.zero_grad()
    x = x.detach().requires_grad_()
    net(x).square().sum().backward()
    return x.grad
turns: setattr(o, "k", float(i))
== training and evaluation
net = mlp(x, nn.Dropout(0.5))
? net(x)
for i in range(6):
    net.train(i % 3 == 2)
    pf.manual_seed(3)
    yield f(x)
net.eval()
net[3].train()
pf.manual_seed(3)
yield f(x)
== the rate of dropout
drop = nn.Dropout(0.5)
? drop(x)
for p in 0.5, 0.5, 0.1, 0.1, 0.9, 0.0, 0.0, 1.0, 0.3, 0.4:
    drop.p = p
    pf.manual_seed(3)
    yield f(x)
== batch norm
if not hasattr(nn, "BatchNorm1d"):
    return
bn = nn.BatchNorm1d(3).to(x.device)
? bn(x).detach()
for i in range(9):
    if i == 4:
        bn.eval()
    if i == 6:
        bn.momentum = 0.5
        bn.train()
    yield f(x + i), bn.running_mean, bn.num_batches_tracked
bn.reset_running_stats()
yield f(x), bn.running_mean
== a module that sets itself
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.cache, self.calls = nn.Linear(3, 3), None, 0
    def forward(self, x):
        self.calls += 1
        self.cache = self.lin(x).detach()
        return self.cache * 2
pf.manual_seed(0)
net = Net().to(x.device)
? net(x)
each 6 -> f(x + i), net.cache, net.calls
== a state dict that is loaded
net, other = mlp(x), mlp(x)
with pf.no_grad():
    for p in other.parameters():
        p.add_(1)
? net(x)
calls
net.load_state_dict(other.state_dict())
calls
net.load_state_dict({k: v * 2 for k, v in other.state_dict().items()}, assign=True)
calls
== frozen layers
net = mlp(x)
def f(x):
    net.zero_grad()
    net(x).square().sum().backward()
    return [p.grad for p in net.parameters()]
calls
net[0].requires_grad_(False)
calls
net[0].requires_grad_(True)
calls
# --- training
== zero grad of the net
yield from training(c, x, adam, zero=lambda o: o.net.zero_grad())
== zero grad that keeps the gradients
yield from training(c, x, adam, zero=lambda o: o.net.zero_grad(set_to_none=False))
== gradients set to none by hand
def zero(o):
    for p in o.net.parameters():
        p.grad = None
yield from training(c, x, sgd, zero=zero)
== gradients zeroed by hand
def zero(o):
    for p in o.net.parameters():
        if p.grad is not None:
            p.grad.zero_()
yield from training(c, x, sgd, zero=zero)
== gradients that are read
net = mlp(x)
opt = optim.SGD(net.parameters(), lr=0.1)
def step(x):
    net.zero_grad()
    net(x).square().mean().backward()
    norm = sum((p.grad ** 2).sum() for p in net.parameters() if p.grad is not None)
    opt.step()
    return norm
for i in range(6):
    if i == 3:
        net[0].requires_grad_(False)
    yield step(x)
== gradients that are clipped by hand
o = Plain(limit=0.1)
net = mlp(x)
opt = sgd(net.parameters())
def step(x):
    opt.zero_grad()
    net(x).square().mean().backward()
    with pf.no_grad():
        for p in net.parameters():
            p.grad.clamp_(-o.limit, o.limit)
    opt.step()
    return net[0].weight.sum()
yield from turns(step, x, change=lambda i: setattr(o, "limit", 0.01 * i))
== a learning rate
train adam, at=range(7): g["lr"] *= 0.5
== a learning rate that the step sets
net = mlp(x)
o = Plain(n=0, opt=sgd(net.parameters()))
def step(x):
    o.n += 1
    for g in o.opt.param_groups:
        g["lr"] = 0.1 * min(1.0, o.n / 4) * 0.9 ** o.n
    o.opt.zero_grad()
    net(x).square().mean().backward()
    o.opt.step()
    return net[0].weight.sum()
each 12 -> step(x), o.opt.param_groups[0]["lr"], o.n
== a learning rate that the step reads
net = mlp(x)
opt = adam(net.parameters())
def step(x):
    opt.zero_grad()
    (net(x).square().mean() * opt.param_groups[0]["lr"]).backward()
    opt.step()
    return net[0].weight.sum()
each 9: opt.param_groups[0]["lr"] = 0.1 / (i + 1) -> step(x)
== losses kept in an array of places (eager)
kept, o = [x] * 9, Plain(i=0)
def f(x):
    kept[o.i] = x * 2
    return x
for i in range(9):
    o.i = i
    f(x + i)
    yield kept[i]
== recursion
o = Plain(depth=2, k=0.5)
def g(x, n):
    return x if n == 0 else g(x * o.k + 1, n - 1)
? g(x, o.depth)
turns: setattr(o, "k", float(i))
o.depth = 3
calls
== a property with a setter
class A:
    def __init__(self):
        self.raw = 1.0
    @property
    def t(self):
        return self.raw * 2
    @t.setter
    def t(self, value):
        self.raw = value
o = A()
def f(x):
    y = x * o.t
    o.t = o.t / 4 + 1
    return y
each 7 -> f(x), o.raw
== sizes of arguments
? x.sum() / x.shape[0] + x.ndim
for n in 2, 2, 4, 4, 2:
    yield f(pf.ones(n, 3, device=x.device))
== a number that becomes something else
o = Plain(v=1.0)
def f(x):
    if isinstance(o.v, (list, str)):
        return x * len(o.v)
    return x if o.v is None else x + 1 if o.v is True else x - 1 if o.v is False else x * o.v
values = [1.0, 2.0, 3.0, 4.0, None, None, 5.0, True, False, True, "a", "bb", [1], [1, 2], 6.0]
for v in values:
    o.v = v
    yield f(x)
    if isinstance(v, list):
        v.append(3)
        yield f(x)
== a state that is forgotten
o = Plain(h=None)
def f(x):
    o.h = x if o.h is None else o.h * 0.5 + x
    return o.h * 2
for i in range(14):
    if i % 5 == 4:
        o.h = None
    yield f(x + i), o.h
== the type of a number (eager)
o = Plain(v=1.0)
? x * o.v if type(o.v) is float else x + 100
each 8: o.v = float(i)
== a learning rate that is a tensor
train sgd, n=8: g["lr"] = pf.tensor(0.01, device=x.device)
== a group that is added
net = mlp(x)
opt = optim.SGD(net[0].parameters(), lr=0.1)
def step(x):
    opt.zero_grad()
    net(x).square().mean().backward()
    opt.step()
    return net[2].weight.sum() + net[0].weight.sum()
new = {"params": list(net[2].parameters()), "lr": 0.5}
yield from turns(step, x, change=lambda i: opt.add_param_group(new), at=(3,))
== a group that is replaced
train adam, at=(2, 4): o.opt.param_groups[0] = {**g, "lr": 0.01}
== groups that are replaced
def change(o):
    g = o.opt.param_groups[0]
    half = len(g["params"]) // 2
    first, rest = g["params"][:half], g["params"][half:]
    o.opt.param_groups = [{**g, "params": first}, {**g, "params": rest, "lr": 0.5}]
yield from training(c, x, adam, change)
== a parameter that leaves its group
train sgd: g["params"].pop()
== parameters whose data is replaced
train adam: for p in o.net.parameters(): p.data = p.data * 0.5
== weights that are loaded while it trains
train sgd: o.net.load_state_dict({k: v * 0.5 for k, v in o.net.state_dict().items()})
== state of an optimizer that is loaded
def change(o):
    state = o.opt.state_dict()
    for s in state["state"].values():
        s.update({k: v * 0 + 1 for k, v in s.items()})
    o.opt.load_state_dict(state)
yield from training(c, x, adam, change)
yield from training(c, x, sgd, change)
== parameters that are written to in part
def change(o):
    with pf.no_grad():
        for p in o.net.parameters():
            p[..., 0] += 1
            p.mul_(0.5)
yield from training(c, x, adam, change)
== gradients that are set in between
train sgd: for p in o.net.parameters(): p.grad = pf.ones_like(p)
== gradients that are forgotten in between
train adam: o.opt.zero_grad()
== a parameter that is frozen while it trains
train adam: next(o.net.parameters()).requires_grad_(False)
== a net that is moved and comes back
train adam: o.net.to("cpu").to(x.device)
== arguments that share memory
def f(a, b):
    a.add_(1)
    return b * 2
for i in range(2):
    a, b = pf.zeros(3, device=x.device), pf.zeros(3, device=x.device)
    yield f(a, b), f(a, a), f(a[:2], a[1:])
== arguments of all kinds
Pair = collections.namedtuple("Pair", "first second")
def f(x, n, how, *, shift=None, more=()):
    out = x * n if how == "mul" else x + n
    if shift is not None:
        out = out + shift["by"][0]
    for p in more:
        out = out + p.first * p.second
    return out
for i in range(2):
    y, z = x + i, x * i + 5
    yield f(y, 2, "mul"), f(y, 2, "add"), f(y, 2.5, "mul"), f(y, y, "mul"), f(y, z, "mul")
    yield f(y, 1, "mul", shift={"by": [z]}), f(y, 0, "add", more=[Pair(y, z), Pair(z, 2)])
    yield f(y.int(), True, "mul")
== a number of a constant
def f(x):
    table = pf.tensor([[2, 3], [4, 5]])
    return x * int(table[1, 0]) + float(table.mT[1, 1:])
each 3 -> f(x + i)
== functions in functions methods and modules
inner = c(lambda x: x * 2)
outer, net = c(lambda x: inner(x) + inner(x + 1)), c(mlp(x))
class Model:
    def __init__(self, scale):
        self.scale = scale
    @c
    def scaled(self, x):
        return x * self.scale
one, two = Model(1.0), Model(2.0)
for i in range(3):
    yield outer(x + i), inner(x + i), net(x + i), one.scaled(x + i), two.scaled(x + i)
yield [name for name, _ in net.named_parameters()]
== a loss that is read before the step (eager)
net = mlp(x)
opt = adam(net.parameters())
def step(x):
    loss = net(x).square().mean()
    opt.zero_grad()
    loss.backward()
    value = loss.item()
    opt.step()
    return value
each 3: loss = step(x + i) -> round(loss, 4), list(net.parameters())
== averages of weights
functions = optim.swa_utils
for kw in {}, {"multi_avg_fn": functions.get_ema_multi_avg_fn(0.75), "use_buffers": True}:
    net = mlp(x, nn.BatchNorm1d(3).to(x.device))
    opt, averaged = sgd(net.parameters()), functions.AveragedModel(net, **kw)
    def step(x):
        opt.zero_grad()
        net(x).square().mean().backward()
        opt.step()
        averaged.update_parameters(net)
    step = c(step)
    for i in range(6):
        if i == 5:
            averaged.n_averaged.zero_()
        step(x + i)
        yield list(averaged.parameters()), averaged.n_averaged
== segments that are checkpointed
from pyframe.utils.checkpoint import checkpoint_sequential
for again in True, False:
    net = mlp(x)
    opt = sgd(net.parameters())
    def step(x):
        opt.zero_grad()
        loss = checkpoint_sequential(net, 2, x * 1, use_reentrant=again).square().mean()
        loss.backward()
        opt.step()
        return loss.detach()
    step = c(step)
    for i in range(4):
        yield step((x + i).requires_grad_()), list(net.parameters())
== an optimizer within the function
def f(x):
    w = pf.zeros(3, device=x.device).requires_grad_()
    opt = adam([w])
    for _ in range(3):
        opt.zero_grad()
        ((w - x.detach()) ** 2).sum().backward()
        opt.step()
    p = x * 0.5
    inner = optim.SGD([p], lr=0.1, momentum=0.5, differentiable=True)
    for _ in range(2):
        p.grad = x * x
        inner.step()
    return w.detach(), pf.autograd.grad(p.sum(), x)[0]
each 4 -> f((x + i).requires_grad_())
== an error that a changing number leads to
o = Plain(n=0)
def f(x):
    o.n += 1
    if o.n == 4:
        raise ValueError("four")
    return x * o.n
for i in range(6):
    try:
        yield f(x)
    except ValueError:
        yield o.n
== zero and minus zero as arguments
f = c(lambda x, n: x.abs() * n)
each 0.0, -0.0, 0.0, -0.0 -> pf.signbit(f(x, i))
== one True and 1.0 as arguments
f = c(lambda x, n: x.int() * n)
each 1, True, 1.0, 1, True, 1.0 -> f(x, i)
== tensors that a call makes and writes to
def f(x):
    made = pf.tensor([1.0, 2.0, 3.0], device=x.device)
    made += x[0]
    full = pf.full((2,), 3.0, device=x.device)
    full[0] = 5
    return made, full, pf.arange(2, device=x.device)
for i in range(3):
    out = f(x + i)
    yield out
    for t in out:
        t.zero_()
== writes to arguments and to what lies outside
a, base, outside = x.clone(), x * 2, pf.cat([x, x])
row = outside[1]
def f(a, v):
    a.add_(1)
    v[:, ::2] *= 2
    row.sub_(a[0])
    outside.T[0] += 1
    return outside.sum() + v.sum(), row * 1
each 3 -> f(a, base[1:]), a, base, outside
== views of weights whose backward pass is outside
"The handles that the run made of them are gone; the weights change between the calls."
w = pf.tensor([1.0, 2.0], device=x.device, requires_grad=True)
scale = pf.tensor([3.0, 5.0], device=x.device, requires_grad=True)
? x * w.reshape(2, 1) * scale.reshape(2, 1)
y = x.clone().requires_grad_()
for i in range(3):
    y.grad = w.grad = None
    f(y).sum().backward()
    yield y.grad, w.grad
    with pf.no_grad():
        w.add_(1)
        scale.mul_(2)
== copies of parameters that are stepped
"load_state_dict shares values until one of the two is written to."
net, twin = mlp(x), mlp(x)
twin.load_state_dict(net.state_dict())
opt = sgd(net.parameters())
def step(x):
    opt.zero_grad()
    net(x).square().mean().backward()
    opt.step()
each 3: step(x) -> list(net.parameters()), list(twin.parameters())
== a largest norm that changes
o, net = Plain(most=0.0), mlp(x)
opt = sgd(net.parameters())
def step(x):
    opt.zero_grad()
    net(x).square().mean().backward()
    nn.utils.clip_grad_norm_(net.parameters(), o.most)
    opt.step()
    return net[0].weight.sum()
each 8: o.most = 0.01 * (i + 1) -> step(x)
== a module that is parametrized and pruned
class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(pf.tensor(2.0, device=x.device))
    def forward(self, w):
        return w * self.factor
pf.manual_seed(0)
net, p, prune = nn.Linear(3, 3).to(x.device), nn.utils.parametrize, nn.utils.prune
five = nn.Parameter(pf.tensor(5.0, device=x.device))
? net(x) * 2
for change in (
    lambda: p.register_parametrization(net, "weight", Symmetric()),
    lambda: p.register_parametrization(net, "weight", Scaled()),
    lambda: setattr(net.parametrizations.weight[1], "factor", five),
    lambda: p.remove_parametrizations(net, "weight"),
    lambda: prune.l1_unstructured(net, "weight", 3),
    lambda: prune.l1_unstructured(net, "weight", 3),
    lambda: prune.remove(net, "weight"),
    lambda: nn.utils.spectral_norm(net).eval(),
    lambda: net.train(),
    lambda: nn.utils.remove_spectral_norm(net),
):
    yield from (f(x), f(x))
    change()
calls
== a rate that is a tensor and is written to
rate = pf.tensor(0.1)
for kind in optim.SGD, optim.Adam:
    rate.fill_(0.1)
    make = lambda params: kind(params, lr=rate)
    yield from training(c, x, make, lambda o: rate.fill_(0.01))
== hooks of an optimizer that come and go
handles = []
def clip(optimizer, args, kwargs):
    for p in optimizer.param_groups[0]["params"]:
        p.grad.clamp_(max=0.01)
def change(o):
    if handles:
        handles.pop().remove()
    else:
        handles.append(o.opt.register_step_pre_hook(clip))
yield from training(c, x, sgd, change, at=(2, 5))
== a scheduler within a step (eager)
net = mlp(x)
opt = sgd(net.parameters())
schedule = optim.lr_scheduler.CosineAnnealingLR(opt, 6)
def step(x):
    opt.zero_grad()
    net(x).square().mean().backward()
    opt.step()
    schedule.step()
    return net[0].weight.sum()
each 8 -> step(x), schedule.last_epoch, schedule.get_last_lr()
== an optimizer that is replaced
train adam: o.opt = sgd(o.net.parameters())
== state that is cleared
train adam: o.opt.state.clear()
== state that is replaced
kept = []
def change(o):
    kept.append(o.opt.state)
    for s in o.opt.state.values():
        kept.append(s["exp_avg"])
        s["exp_avg"] = pf.zeros_like(s["exp_avg"])
yield from training(c, x, adam, change)
== an optimizer of the users
class Sign(optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})
    def _update(self, group, params):
        for p in params:
            p.sub_(p.grad.sign() * group["lr"])
train Sign, at=range(8), n=8: g["lr"] *= 0.5
== updates by hand
net, o = mlp(x), Plain(lr=0.1, mom=0.9)
velocity = [pf.zeros_like(p) for p in net.parameters()]
def step(x):
    loss = net(x).square().mean()
    grads = pf.autograd.grad(loss, list(net.parameters()))
    with pf.no_grad():
        for p, v, g in zip(net.parameters(), velocity, grads, strict=True):
            v.mul_(o.mom).add_(g)
            p.sub_(v * o.lr)
    return loss.detach()
each 8: o.lr = 0.1 / (i + 1) -> step(x)
== two nets in turns
nets = [mlp(x), mlp(x)]
opts = [adam(n.parameters()) for n in nets]
o = Plain(k=0)
def step(x):
    opts[o.k].zero_grad()
    loss = nets[o.k](x).square().mean()
    loss.backward()
    opts[o.k].step()
    return loss.detach()
each 8: o.k = i % 2 -> step(x)
== accumulation every second step
net = mlp(x)
o = Plain(n=0, opt=sgd(net.parameters()))
def step(x):
    net(x).square().mean().backward()
    o.n += 1
    if o.n % 2 == 0:
        o.opt.step()
        o.opt.zero_grad()
    return net[0].weight.sum()
each 10 -> step(x + i), o.n
== a trainer class
class Trainer:
    def __init__(self):
        self.net, self.step_number, self.smooth = mlp(x), 0, None
        self.opt, self.name = adam(self.net.parameters()), "trainer"
        self.train_step = c(self.train_step)
    def train_step(self, x):
        self.opt.zero_grad()
        loss = self.loss(x)
        loss.backward()
        self.opt.step()
        self.step_number += 1
        detached = loss.detach()
        old = detached if self.smooth is None else self.smooth
        self.smooth = old * 0.9 + detached * 0.1
        return detached
    def loss(self, x):
        return self.net(x).square().mean() * self.weight
    weight = 1.0
t = Trainer()
for i in range(9):
    if i == 6:
        t.weight = 0.5
    yield t.train_step(x), t.smooth, t.step_number
# --- host data
== an array that is changed
a = np.arange(3, dtype=np.float32)
? x + pf.tensor(a, device=x.device)
each 8: a += i
== an array that shares memory
a = np.arange(3, dtype=np.float32)
if x.device.type != "cpu":
    return
? x + pf.from_numpy(a)
each 8: a += i
== an array that is rebound
o = Plain(a=np.arange(3, dtype=np.float32))
? x + pf.tensor(o.a, device=x.device)
each 8: o.a = o.a + i
== a part of an array
o = Plain(a=np.arange(12, dtype=np.float32).reshape(4, 3))
? x + pf.tensor(o.a[1], device=x.device)
each 8: o.a[1] += i
== a large array
o = Plain(a=np.zeros((40000, 3), np.float32))
? x + pf.tensor(o.a[:1], device=x.device)
each 8: o.a[0] += i
== an array whose numbers are read (eager)
o = Plain(a=np.arange(3, dtype=np.float32))
? x * float(o.a[1])
each 8: o.a += i
== an array that is read and made a tensor (eager)
o = Plain(a=np.arange(3, dtype=np.float32))
? pf.tensor(o.a, device=x.device) + (x if o.a[0] > 3 else -x)
each 8: o.a += i
== a large array whose numbers are read (eager)
o = Plain(a=np.zeros(40000, np.float32))
? x * float(o.a.sum())
each 4: o.a[0] += i
== an array that numpy turns into a plain one (eager)
o = Plain(a=np.arange(3, dtype=np.float32))
? x * float(np.asarray(o.a)[1])
each 8: o.a += i
== arrays in a list that is made a tensor (eager)
o = Plain(a=np.arange(3, dtype=np.float32))
? x + pf.tensor([o.a, o.a], device=x.device)
each 8: o.a += i
== a buffer of an array (eager)
o = Plain(a=np.arange(3, dtype=np.float32))
? x * memoryview(o.a)[1]
each 8: o.a += i
== sums and comparisons of an array (eager)
o = Plain(a=np.arange(3, dtype=np.float32))
? x * (2 if (o.a + 1 > 5).any() else 3)
each 8: o.a += i
== an array beside a tensor
o = Plain(a=np.arange(3, dtype=np.float32))
? x * o.a + pf.as_tensor(o.a[1:], device=x.device).sum()
each 8: o.a += i
== an argument that is read from outside too
y, o = x + 100, Plain(t=x)
f = c(lambda a: a.sum() + o.t.mean() * 1000)
for a in x, x, y, y, x, y:
    yield f(a)
== handles on an argument
f = c(lambda a: a.detach() * 2 + a.data.view(-1)[0] + a.reshape(3, 2).sum())
each 4 -> f(x + i)
== a part of what is read from outside
big = pf.cat([x + i for i in range(6)])
f = c(lambda a, b: (a * b + big.mean(), b))
each 4 -> f(big[i:i + 2], big[i + 1:i + 3])
other = big * 2
each 4 -> f(other[i:i + 2], big[i + 1:i + 3])
== memory that is written to through another name
y, o = x + 100, Plain(t=x.clone())
def f(a):
    a.mul_(2)
    return o.t.sum()
for a in y, y, o.t, o.t, y:
    yield f(a), a
== views of one tensor are told apart
f = c(lambda a, b: (b, a[0], a * b))
for i in range(4):
    big = x + i
    yield f(big[0], big[1])
    yield f(big[1], big[0])
== slices that move
big = pf.cat([x + i for i in range(6)])
w = pf.ones(3, device=x.device, requires_grad=True)
def f(a, b):
    out = (a.t() * w[0]).sum() + (b @ w).sum()
    out.backward()
    return out.detach(), a.reshape(-1)[1:], b[:, 1]
for i in range(6):
    yield f(big[i:i + 2], big[i + 3:i + 6]), w.grad
    yield f(big[i:i + 4:2], big[i:i + 3].flip(0)), w.grad
    yield f(big[:, i % 2:i % 2 + 2][i:i + 2], big[i:i + 3]), w.grad
== slices that are written to
big = pf.cat([x + i for i in range(6)])
f = c(lambda a: a.add_(1).sum() * 2)
each 0, 1, 0, 2, 0 -> f(big[i:i + 2]), big
== where a slice begins
big = pf.cat([x + i for i in range(6)])
f = c(lambda a: a.sum() * a.storage_offset())
each 0, 1, 0, 2, 0 -> f(big[i:i + 2])
== a number that is made a tensor
o = Plain(t=1.0)
? x * pf.tensor(o.t, device=x.device) + pf.full((3,), o.t, device=x.device)
each 8: o.t = 1.0 + i
# --- modes
== modes of pyframe
w = pf.ones(3, device=x.device, requires_grad=True)
? x * w
yield f(x).requires_grad, f(x).requires_grad
with pf.no_grad():
    yield f(x).requires_grad, f(x).requires_grad
with pf.inference_mode():
    yield f(x).is_inference(), f(x).is_inference()
yield f(x).requires_grad, f(x).is_inference()
== the default dtype and device
if x.device.type != "cpu":
    return
? x + pf.ones(3)
yield f(x).dtype, f(x).dtype
pf.set_default_dtype(pf.float64)
try:
    yield f(x).dtype, f(x).dtype
finally:
    pf.set_default_dtype(pf.float32)
yield f(x).dtype
== a compiled function within another
o = Plain(t=1.0)
inner = c(lambda x: x * o.t)
? inner(x) + 1
for t in 1.0, 1.0, 2.0, 2.0, 3.0:
    o.t = t
    yield f(x), inner(x)
== vmap inside
o = Plain(t=1.0)
? pf.vmap(lambda row: row * o.t + row.sum())(x)
each 8: o.t = 1.0 + i
== grad inside
o = Plain(t=1.0)
? pf.func.grad(lambda y: (y ** 2).sum() * o.t)(x)
each 8: o.t = 1.0 + i
== a function of autograd
class Scaled(pf.autograd.Function):
    k = 2.0
    @staticmethod
    def forward(ctx, x):
        return x * Scaled.k
    @staticmethod
    def backward(ctx, g):
        return g * Scaled.k
def f(x):
    y = x.detach().requires_grad_()
    g, = pf.autograd.grad(Scaled.apply(y).sum(), y)
    return g
turns: setattr(Scaled, "k", float(i))
== code that is executed
space = {"k": 2.0}
exec('def g(x):\n    return x * k\n', space)
? space["g"](x)
turns: space.update(k=float(i))
== a history that keeps tensors of host data
w = pf.ones(5, 3, device=x.device).requires_grad_()
o = types.SimpleNamespace(rows=np.array([0, 1]))
def f(x):
    places = pf.arange(2, device=x.device)
    rows = pf.tensor(o.rows, device=x.device)
    return (x * w[places] * w[rows]).sum()
for i in range(5):
    o.rows = np.array([i, 2 * i % 5])
    w.grad = None
    loss = f(x)
    loss.backward()
    yield loss, w.grad
== a tensor that is turned each time (eager)
table = x * 1
def f(x):
    table.t_()
    return x * 2
each 4 -> f(x), table.clone()
== a tensor that gains a dim and is written (eager)
table = x.sum()
def f(x):
    table[...] = 0.25
    table.unsqueeze_(0)
    return x * 2
each 4 -> f(x), table.clone()
"""


def patterns(text: str) -> Iterator[tuple[str, str, str]]:
    """The name of each program, its source, and how its function runs."""
    for block in text.split("\n== ")[1:]:
        title, *lines = block.splitlines()
        name = re.sub(r"\W+", "_", title.removesuffix(" (eager)"))
        source = "".join(f"\n    {line}" for written in lines for line in in_full(written))
        yield name, f"def {name}(c, x):{source}\n", EAGER if "(eager)" in title else REPLAYS


def in_full(line: str) -> list[str]:
    """A line of a program as Python."""
    if found := re.fullmatch(r"\? (.*)", line):
        return [f"f = c(lambda x: {found[1]})"]
    if line.startswith(("def f(", "def step(")):
        return ["@c", line]
    if line == "calls":
        return ["yield from (f(x), f(x))"]
    if found := re.fullmatch(r"turns: (.*)", line):
        return [f"yield from turns(f, x, change=lambda i: {found[1]})"]
    if found := re.fullmatch(r"train ([^:]*): (.*)", line):
        change = ["def change(o):", "    g = o.opt.param_groups[0]", f"    {found[2]}"]
        return [*change, f"yield from training(c, x, {found[1]}, change=change)"]
    if found := re.fullmatch(r"each (.+?)(?:: (.*?))?(?: -> (.*))?", line):
        values, change, seen = found.groups("")
        values = f"range({values})" if values.isdecimal() else values
        loop = [f"for i in {values}:", f"    {change}", f"    yield {seen or 'f(x)'}"]
        return [part for part in loop if part.strip()]
    return [line]


def run_source(text: str) -> None:
    """In this module, which the functions' globals are: as of a user's file."""
    exec(compile(text, __file__, "exec"), globals())


PATTERNS: dict[str, tuple[Callable[..., Iterator[Any]], str]] = {}
run_source(PROGRAMS.split("\n== ")[0])
for _name, _source, _how in patterns(PROGRAMS):
    run_source(_source)
    PATTERNS[_name] = globals()[_name], _how


# --- running them


def plain(value: Any) -> Any:
    """A picture of what a pattern saw, taken at once: later calls may write over it."""
    if isinstance(value, pf.Tensor):
        return np.array(value.numpy(force=True))
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return value


def same(a: Any, b: Any, what: str) -> None:
    if isinstance(a, np.ndarray):
        assert isinstance(b, np.ndarray), what
        assert (a.shape, a.dtype) == (b.shape, b.dtype), what
        tolerance = 2e-3 if a.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance / 10, err_msg=what)
    elif isinstance(a, list):
        assert len(a) == len(b), what
        for x, y in zip(a, b, strict=True):
            same(x, y, what)
    else:
        assert a == b or a is b, (what, a, b)


OWN_DEVICE = {
    "a_number_in_float16", "an_array_that_shares_memory", "the_default_dtype_and_device",
}  # fmt: skip


def run(name: str, device: str) -> None:
    """AssertionError unless a pattern gives what it gives without pf.compile, call by call. That is
    computed on the CPU where that gives the same: a driver would compile as many kernels again."""
    fn, how = PATTERNS[name]
    x = pf.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -1.5]], device=device)
    made: list[Any] = []

    def wrap(f: Any) -> Any:
        made.append(pf.compile(f))
        return made[-1]

    want = [plain(v) for v in fn(lambda f: f, x if name in OWN_DEVICE else x.cpu())]
    with warnings.catch_warnings(record=True, action="always") as told:
        got = [plain(v) for v in fn(wrap, x)]
    for i, (a, b) in enumerate(zip(want, got, strict=True)):
        same(a, b, f"call {i}")
    texts = [str(w.message) for w in told if issubclass(w.category, RuntimeWarning)]
    if how == EAGER:
        assert len(texts) == 1, texts
        assert "runs eagerly" in texts[0]
        assert re.search(r"stale_patterns\.py:\d+", texts[0]), texts[0]
    elif want:
        assert not texts, texts
        assert any(f.replayed for f in made), "no replay"
