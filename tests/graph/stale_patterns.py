"""What users' steps read and change outside, as rows for forms.py. They need no PyTorch."""

from __future__ import annotations

from forms import programs

PATTERNS = programs(
    __file__,
    r"""
SCALE, LATEST, CALLS = 1.0, None, 0

# --- globals
== a global number (3 captures)
? x * SCALE
turns: globals().update(SCALE=1.0 + i)
globals().update(SCALE=1.0)
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
each 6: o.a, o.b = (float(i), float(i)) if i > 2 else (o.a, o.b) -> f(x), o.a, o.b
== a number as a key
o, table = Plain(k=0), {i: pf.ones(3, device=x.device) * i for i in range(-2, 3)}
? x * table[o.k]
each 0, 1, 2, -1, -2, 0, 1, 2, -1, -2: o.k = i
== a result in a cell
last = None
def f(x):
    nonlocal last
    last = x * 3
    return x
each 4: f(x + i) -> last
# --- objects
== an object as an argument
f = c(lambda x, o, more: x * o.t + more["cfg"][0].u)
o, p = Plain(t=1.0), Plain(u=1.0)
yield from turns(f, x, o, {"cfg": [p]}, change=lambda i: setattr(o, "t", float(i)))
yield from turns(f, x, o, {"cfg": [p]}, change=lambda i: setattr(p, "u", float(i)))
== a tensor that is carried (3 captures)
o = Plain(h=x * 0)
def f(x):
    o.h = (o.h * 0.5 + x).tanh()
    return o.h * 2
each 7: o.h = x * 0 if i == 5 else o.h -> f(x + i), o.h
== tensors from outside that change each time (3 captures)
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
# --- containers
== tensors in a list
ws = [x + 1, x + 2]
? sum(x * w for w in ws)
calls
then ws[1] = x + 7
then ws.append(x)
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
then o.dtype = pf.int32
then o.part = slice(0, 2)
then o.shape = [1, 3]
== an attribute of a tensor
w = x + 1
w.scale = 2.0
? x * w * w.scale
turns: setattr(w, "scale", float(i))
== an import that reads a file
"As of a page, where some modules are fetched when they are first imported."
class Finder:
    def find_spec(name, path=None, target=None):
        if name == "found_late":
            open(os.devnull).close()
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
"Of two batches, or of one, with an update that is a function of its own."
for set_to_none in True, False:
    pf.manual_seed(0)
    net = nn.Linear(3, 2).to(x.device)  # whose gradients are views
    opt = adam(net.parameters())
    @c
    def step(x, first, last):
        if first:
            opt.zero_grad(set_to_none)
        net(x).square().mean().backward()
        if last:
            opt.step()
    update = c(lambda: opt.step())
    for i in range(4):
        step(x + i, True, False)
        if i == 2:
            net.weight.grad.mul_(2)
        step(x - i, False, True)
        yield net.weight.grad
        step(x * i, True, False)
        update() if i != 1 else opt.step()
        yield net.weight.detach(), net.bias.grad
== whether a tensor needs a gradient
w = pf.ones(3, device=x.device)
? x * (2 if w.requires_grad else 3)
each 0, 0, 1, 1: w.requires_grad_(bool(i))
== the data of a tensor
w = pf.ones(3, device=x.device)
? x * w * w.shape[0]
calls
then w.data = pf.ones(1, device=x.device) * 4
# --- numbers that change in each call
== a temperature (3 captures): numbers F.softmax(x / o.t, -1)
== an int as an argument (3 captures)
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
== several numbers at once (3 captures)
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
== a number beyond float32: numbers x * (1000000.0 * (0.9999999 + o.t * 1e-09 - 0.9999999))
== a number for ints
o = Plain(n=1)
? (x.int() + o.n) * 2 - (x.int() < o.n).int()
each 8: o.n = i
== a number in float16 (cpu): numbers (x.half() * (o.t / 8) + 1)
== numbers of functions (3 captures)
o = Plain(t=0.1)
def f(x):
    y = F.leaky_relu(x, o.t) + pf.where(x > 0, x, o.t) + pf.full_like(x, 2.0).mul_(o.t)
    z = pf.addcmul(y, x, x, value=o.t) + F.threshold(x, 2.0, o.t) + pf.add(x, x, alpha=o.t)
    z = z.scatter(0, pf.tensor([[0]], device=x.device), o.t)
    return pf.lerp(x, z, 0.5).add_(y, alpha=2) + pf.maximum(x, pf.zeros_like(x) + o.t)
each 8: o.t = 0.1 * (i + 1)
== a number of a class
class C:
    t = 1.0
? x * C.t
each 6: C.t = 1.0 + i
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
numbers x * abs(-o.t) + round(o.t / 3, 1) + o.t // 0.3 + o.t % 0.7 + divmod(o.t, 2)[1]
== a number that math wants (eager, 3 captures): numbers x * math.exp(-o.t)
== a number that numpy makes an array of (eager): numbers x * float(np.asarray(o.t))
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
# --- side effects
== a list that grows (eager)
seen = []
? seen.append(x * 2) or x
each 4: f(x + i) -> len(seen), seen[-1]
== an argument that is changed (eager)
def f(batch, out):
    batch["y"] = batch["x"] * 2
    out.append(batch["y"])
each 4: batch, out = ({"x": x + i}, []); f(batch, out) -> out, batch["y"], sorted(batch)
== batches that are drawn inside (eager)
it = iter([x, x + 1, x + 2, x + 3, x + 4])
f = c(lambda: next(it) * 2)
each 4 -> f()
== a value that is read (eager)
? x * 2 if x.sum().item() > 0 else x
each 1, -1, 1 -> f(x * i)
== printing
? print(end="") or x * 2
each 3 -> f(x + i)
== results of classes of the users
@dataclasses.dataclass
class Output:
    loss: Any
    parts: dict[str, Any]
    name: str = "output"
@dataclasses.dataclass(slots=True, frozen=True)
class Slots:
    loss: Any
    n: int = 3
? (Output(x.sum(), {"double": x * 2}), Slots(x.sum()))
kept = []
for i in range(4):
    kept.append(f(x + i))
    kept[-1][0].name += str(i)
for o, s in kept:
    yield o.loss, o.parts["double"], o.name, s.loss, s.n
== a list in two places
shared = [1.0]
o = Plain(a=shared, b=shared)
? x * o.a[0] + o.b[0]
calls
then o.b = [2.0]
then o.a.append(o.a)
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
turns: d.update({"k": 3.0})
turns: operator.setitem(m, 1, -float(i))
turns: d.update({"w": d["w"].detach() * 2})
turns: operator.setitem(d, "more", 1)
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
== the rate of dropout
drop = nn.Dropout(0.5)
? drop(x)
each 0.5, 0.5, 0.1, 0.1, 0.9, 0.0, 0.0, 1.0, 0.3, 0.4: drop.p = i; pf.manual_seed(3)
== a state dict that is loaded
net, other = mlp(x), mlp(x)
with pf.no_grad():
    for p in other.parameters():
        p.add_(1)
? net(x)
turns: net.load_state_dict(other.state_dict())
turns: net.load_state_dict({k: v * i for k, v in other.state_dict().items()}, assign=True)
# --- training
== zero grad that keeps the gradients
yield from training(c, x, adam, zero=lambda o: o.net.zero_grad(set_to_none=False))
== a learning rate (3 captures): train adam, at=range(7): g["lr"] *= 0.5
== a property with a setter
class A:
    raw = 1.0
    t = property(lambda self: self.raw * 2, lambda self, v: setattr(self, "raw", v))
o = A()
def f(x):
    y = x * o.t
    o.t = o.t / 4 + 1
    return y
each 7 -> f(x), o.raw
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
== the type of a number (eager): numbers x * o.t if type(o.t) is float else x + 100
== a learning rate that is a tensor: train sgd, n=8: g["lr"] = pf.tensor(0.01, device=x.device)
== groups that are replaced
def change(o):
    g = o.opt.param_groups[0]
    half = len(g["params"]) // 2
    first, rest = g["params"][:half], g["params"][half:]
    o.opt.param_groups = [{**g, "params": first}, {**g, "params": rest, "lr": 0.5}]
yield from training(c, x, adam, change)
== a parameter that leaves its group: train sgd: g["params"].pop()
== state of an optimizer that is loaded
def change(o):
    state = o.opt.state_dict()
    for s in state["state"].values():
        s.update({k: v * 0 + 1 for k, v in s.items()})
    o.opt.load_state_dict(state)
yield from training(c, x, adam, change)
yield from training(c, x, sgd, change)
== gradients that are set in between
train sgd: for p in o.net.parameters(): p.grad = pf.ones_like(p)
== a parameter that is frozen while it trains
train adam: next(o.net.parameters()).requires_grad_(False)
== a net that is moved and comes back: train adam: o.net.to("cpu").to(x.device)
== arguments that share memory
def f(a, b):
    a.add_(1)
    return b * 2
for i in range(2):
    a, b = pf.zeros(3, device=x.device), pf.zeros(3, device=x.device)
    yield f(a, b), f(a, a), f(a[:2], a[1:])
== arguments of all kinds (8 captures)
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
== a number of a constant (1 captures)
def f(x):
    table = pf.tensor([[2, 3], [4, 5]])
    return x * int(table[1, 0]) + float(table.mT[1, 1:])
each 3 -> f(x + i)
== functions in functions methods and modules (2 captures)
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
        raise RuntimeError("four")
    return x * o.n
each 6 -> attempt(lambda: f(x)), o.n
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
step = c(learning(net, opt))
each 3: step(x) -> list(net.parameters()), list(twin.parameters())
== a largest norm that changes (3 captures)
clip = lambda o: nn.utils.clip_grad_norm_(o.net.parameters(), o.most)
change = lambda o: setattr(o, "most", o.most + 0.01)
yield from training(c, x, sgd, change, range(8), 8, grads=clip, most=0.0)
== a rate that is a tensor and is written to
rate = pf.tensor(0.1)
for kind in optim.SGD, optim.Adam:
    rate.fill_(0.1)
    make = lambda params: kind(params, lr=rate)
    yield from training(c, x, make, lambda o: rate.fill_(0.01))
== a scheduler within a step (eager)
net = mlp(x)
opt = sgd(net.parameters())
schedule = optim.lr_scheduler.CosineAnnealingLR(opt, 6)
step = c(learning(net, opt, schedule.step))
each 8 -> step(x), schedule.last_epoch, schedule.get_last_lr()
== an optimizer that is replaced: train adam: o.opt = sgd(o.net.parameters())
== state that is cleared: train adam: o.opt.state.clear()
== an optimizer of the users (3 captures)
class Sign(optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})
    def _update(self, group, params):
        for p in params:
            p.sub_(p.grad.sign() * group["lr"])
train Sign, at=range(8), n=8: g["lr"] *= 0.5
# --- host data
== an array that is changed (3 captures): arrays x + pf.tensor(o.a, device=x.device)
== an array that shares memory (cpu): arrays x + pf.from_numpy(o.a)
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
== an array whose numbers are read (eager): arrays x * float(o.a[1])
== an array that is read and made a tensor (eager)
arrays pf.tensor(o.a, device=x.device) + (x if o.a[0] > 3 else -x)
== an array that numpy turns into a plain one (eager): arrays x * float(np.asarray(o.a)[1])
== arrays in a list that is made a tensor (eager): arrays x + pf.tensor([o.a, o.a], device=x.device)
== a buffer of an array (eager): arrays x * memoryview(o.a)[1]
== sums and comparisons of an array (eager): arrays x * (2 if (o.a + 1 > 5).any() else 3)
== an array beside a tensor: arrays x * o.a + pf.as_tensor(o.a[1:], device=x.device).sum()
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
== a row of a cache that is added to
"What is written is a view of the cache then, which was changed in place before."
cache, row = pf.zeros(2, 5, 3, device=x.device), pf.arange(3.0, device=x.device)
def f(cache, i, row):
    cache[:, i] += row
    cache[1:, i] *= 2
for i in 0, 3, pf.tensor(1, device=x.device), 3, pf.tensor(3, device=x.device):
    f(cache, i, row)
    yield cache
== a view that is an argument and was written to
whole = pf.zeros(2, 2, 3, device=x.device)
def f(part, i, row):
    old = part.sum()
    part[i] = row
    return old, part.sum()
for k, i in enumerate((0, 1, 0, 0, 0, 1)):
    yield f(whole[1], i, pf.ones(3, device=x.device) * k)
== where a slice begins
big = pf.cat([x + i for i in range(6)])
f = c(lambda a: a.sum() * a.storage_offset())
each 0, 1, 0, 2, 0 -> f(big[i:i + 2])
== a number that is made a tensor
numbers x * pf.tensor(o.t, device=x.device) + pf.full((3,), o.t, device=x.device)
# --- modes
== modes of pyframe
w = pf.ones(3, device=x.device, requires_grad=True)
? x * w
calls
for mode in pf.no_grad(), pf.inference_mode(), pf.enable_grad():
    with mode:
        found = f(x), f(x)
    yield [(y.requires_grad, y.is_inference()) for y in found]
== the default dtype and device (cpu)
? x + pf.ones(3)
for dtype in pf.float32, pf.float64, pf.float32:
    pf.set_default_dtype(dtype)
    found = f(x), f(x)
    pf.set_default_dtype(pf.float32)
    yield [y.dtype for y in found]
== a compiled function within another
o = Plain(t=1.0)
inner = c(lambda x: x * o.t)
? inner(x) + 1
each 1.0, 1.0, 2.0, 2.0, 3.0: o.t = i -> f(x), inner(x)
== vmap inside: numbers pf.vmap(lambda row: row * o.t + row.sum())(x)
== grad inside: numbers pf.func.grad(lambda y: (y ** 2).sum() * o.t)(x)
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
? x * 2 if table.t_() is table else x
each 4 -> f(x), table.clone()
== a tensor that gains a dim and is written (eager)
table = x.sum()
def f(x):
    table[...] = 0.25
    table.unsqueeze_(0)
    return x * 2
each 4 -> f(x), table.clone()
""",
)
