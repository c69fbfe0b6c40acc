"""What a compiled function returns and keeps is what PyTorch gives: tensors with their own base,
history and gradients in each call, which later calls leave alone."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from compared import alike, plain
from forms import once, programs

import pyframe as pf

PATTERNS = programs(
    __file__,
    r"""
def leaf(x):
    return (pf.arange(4.0, device=x.device) / 4 + 0.5).requires_grad_()

== counted
"A number that is written outside and returned is that of this call."
layer = nn.Identity()
layer.calls, layer.scale = 0, 1.0
def f(x):
    before = layer.calls
    layer.calls += 1
    layer.scale *= 0.5
    return x * layer.scale, before, layer.calls, [layer.calls + 5, layer.scale]
each 6 -> f(x), layer.calls, layer.scale
== identity
"A view has its base, and the same tensor twice is one: a write outside is seen by both."
p = leaf(x)
def f(x):
    y = p * 2
    return y, y[1:], y
for i in range(3):
    y, v, again = f(x)
    yield y is again, v._base is y, y._version
    v.mul_(3)
    p.grad = None
    y.sum().backward()
    yield p.grad
== of a view
"What is computed of a part that was written to."
p = leaf(x)
? (p * x).view(2, 2)[1].sin_().exp()
for y in [f(x * (1.0 + i)) for i in range(3)]:
    p.grad = None
    y.sum().backward()
    yield p.grad, y
== several
"Views of which a function gives several are not written to."
p = leaf(x)
for views in lambda: (p * 2).chunk(2), lambda: p.unbind(0), lambda: (p * p).view(2, 2).split(1):
    f = c(views)
    for i in range(3):
        yield attempt(lambda: f()[0].mul_(3))
== of parameter
"Views of a parameter that an optimizer steps."
p = leaf(x)
opt, held = optim.SGD([p], lr=0.1), []
def f(x):
    opt.zero_grad()
    v = p.chunk(2)[1]
    v.square().sum().backward()
    opt.step()
    return v, p[1:], p.detach()
for i in range(4):
    held.append(f(x))
    v, w, d = held[-1]
    yield v, w, d, v._base is p, w._base is p, [y.requires_grad for y in (v, w, d)]
    yield attempt(lambda: v.grad_fn is None)
yield held
== retained
p = leaf(x)
def f(x):
    y = p * 2
    y.retain_grad()
    return y
for y in [f(x) for _ in range(3)]:
    y.square().sum().backward()
    yield y.grad
== hooks
"A hook of one result is not another's."
p = leaf(x)
def f(x):
    y = p * 2
    y.register_hook(lambda g: g * 2)
    return y
for i in range(3):
    y = f(x)
    y.register_hook(lambda g: g * 3)
    p.grad = None
    y.sum().backward()
    yield p.grad
== gradients
"Gradients that someone holds stay as they are."
p, held = leaf(x), []
def inside():
    p.grad = None
    (p * p).sum().backward()
    return p.grad
def outside():
    (p * p).sum().backward()
for g in inside, outside:
    f = c(g)
    for i in range(4):
        p.grad = None
        yield f() is (p.grad if g is inside else None)
        held.append(p.grad)
        p.data.add_(1)
yield held
== reset gradient
"A .grad that a step takes away is gone after each call, whoever made it in between."
p = leaf(x)
def f(x):
    p.grad = None
    return p * x
for i in range(3):
    y = f(x)
    yield p.grad is None
    y.sum().backward()
    yield p.grad
== part of gradient
p, held = leaf(x), []
def f(x):
    p.grad = None
    (p * p).sum().backward()
    return p.grad[1:], p.grad.detach()
each 3: held.append(f(x)) -> p.data.add_(1)
yield held
== gradients of arguments
def f(x):
    (x * x).sum().backward()
    return x.grad
xs = [leaf(x).detach().mul(i).requires_grad_() for i in range(4)]
for i in range(3):
    held = [f(x) for x in xs]
    yield [x.grad for x in xs], [x.grad is y for x, y in zip(xs, held, strict=True)]
== gradients with history
p = leaf(x)
def f(x):
    p.grad = None
    (p**3).sum().backward(create_graph=True)
for i in range(4):
    f(x)
    found, p.grad = p.grad, None
    found.sum().backward()
    yield p.grad
    p.grad = None
    p.data.add_(1)
== of argument
p = leaf(x)
? (x[1:], x.view(2, 2), x, x.detach())
for i in range(3):
    y = x * p
    v, u, same, d = f(y)
    yield same is y, v._base is y, d.requires_grad
    v.mul_(2)
    p.grad = None
    u.sum().backward()
    yield p.grad, d
== gone through
"A gradient was taken within: what needs nothing saved leads on, the rest can't be gone through"
"again, and says so."
p = leaf(x)
for make in (
    lambda: p.exp(), lambda: p[1:], lambda: p + 1, lambda: p.exp()[1:], lambda: p.sum(),
    lambda: p[1:].exp(), lambda: pf.cat([p, p]), lambda: p.max(0)[0],
):
    def g(make=make):
        y = make()
        return y, pf.autograd.grad(y.square().sum(), [p])[0]
    f = c(g)
    for i in range(3):
        p.grad = None
        y, again = f()[0], f()[0]
        yield attempt(lambda: y.square().sum().backward())
        yield attempt(lambda: pf.autograd.grad(again.sum(), [p])), p.grad
== overwritten
"What a value was computed of that another took the place of has a gradient: 0."
p, q = leaf(x), leaf(x)
for write in lambda y: y.copy_(q), lambda y: y.copy_(q[:1]), lambda y: y.zero_().add_(q):
    f = c(lambda write=write: write(p * 2))
    for i in range(3):
        p.grad = q.grad = None
        f().square().sum().backward()
        yield p.grad, q.grad
== nothing
"Writes to no elements count, too."
for write in lambda y: y.relu_(), lambda y: y[0::2].relu_(), lambda y: y[:, 1].mul_(2):
    f = c(write)
    for n in 0, 0, 0, 2, 2:
        t = pf.ones(n, 3, 3, device=x.device)
        y = f(t[:, 1])
        yield y._version, t._version, y
""",
)


def shown(program: Any, wrap: Any, library: Any, device: str) -> list[Any]:
    return [plain(v) for v in program(wrap, library.ones(4, device=device), library)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PATTERNS)
def test_results(name: str, torch: Any, device: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*runs eagerly.*")  # which is right, if slow
        warnings.filterwarnings("ignore", ".*create_graph=True will create a reference cycle")
        want = shown(PATTERNS[name], once, torch, "cpu")
        for wrap in (once, pf.compile):
            alike(shown(PATTERNS[name], wrap, pf, device), want, 1e-4, 5e-5)
