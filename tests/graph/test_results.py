"""What a compiled function returns and keeps is what PyTorch gives: tensors with their own base,
history and gradients in each call, which later calls leave alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from compared import alike, plain

import pyframe as pf


class Side(NamedTuple):
    """One of the frameworks: its functions, how it compiles, and what is to be compared."""

    t: Any
    compile: Callable[..., Any]
    device: str
    shown: list[Any]

    def ones(self, *shape: int, scale: float = 1.0) -> Any:
        return (self.t.ones(shape, device=self.device) * scale).requires_grad_(False)

    def leaf(self, *shape: int) -> Any:
        n = self.t.arange(4, dtype=self.t.float32, device=self.device) / 4 + 0.5
        return n[: shape[0]].clone().requires_grad_() if shape else n.clone().requires_grad_()

    def show(self, *values: Any) -> None:
        self.shown.append(plain(list(values)))

    def attempt(self, call: Callable[[], Any]) -> None:
        """Show what it gives, or that it raises."""
        try:
            self.show(call())
        except RuntimeError as e:
            self.show("modified" if "modified" in str(e) else "raises")


def writes(s: Side, op: Callable[[Any], Any], keep: bool = True) -> None:
    """A forward that writes in place, backward outside, later."""
    p, held = s.leaf(), []
    f = s.compile(lambda x: op(p * x))
    for i in range(3):
        held.append(f(s.ones(4, scale=1.0 + i / 2)))
        if not keep:
            held[-1].sum().backward()
    for y in held if keep else ():
        p.grad = None
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        s.show(p.grad, y)
    s.show(p.grad)


WRITES: dict[str, Callable[[Any], Any]] = {
    "clamp_": lambda y: y.clamp_(0.6, 1.1), "sin_": lambda y: y.sin_(), "cos_": lambda y: y.cos_(),
    "pow_": lambda y: y.pow_(3), "lgamma_": lambda y: y.lgamma_(), "mul_": lambda y: y.mul_(2.0),
    "digamma_": lambda y: y.digamma_(), "add_ itself": lambda y: y.add_(y).sin(),
    "view": lambda y: y.view(2, 2)[1].sin_().exp(), "then read": lambda y: y.sin_().mul_(3).sin(),
    "row": lambda y: (y[:2].sin_(), y.view(2, 2))[1], "t": lambda y: y.view(2, 2).t().sin_(),
    "item": lambda y: (y.__setitem__(0, 2.0), y.view(2, 2))[1],
}  # fmt: skip


def stale(s: Side) -> None:
    """What was saved and then written to is refused in each call."""
    p = s.leaf()

    def f() -> Any:
        y = p * 2
        z = y.sin()
        y.mul_(3)
        return z

    g = s.compile(f)
    for _ in range(3):
        s.attempt(lambda: g().sum().backward())


def stepped(s: Side) -> None:
    """A saved parameter that is written to within the call."""
    p = s.leaf()

    def f() -> Any:
        y = p.sin()
        with s.t.no_grad():
            p.mul_(0.9)
        return y

    g = s.compile(f)
    for _ in range(3):
        s.attempt(lambda: g().sum().backward())


def double(s: Side) -> None:
    """Gradients of gradients, of results that are kept."""
    p = s.leaf()
    g = s.compile(lambda: (p * 2).sin_().mul_(p))
    for y in [g() for _ in range(3)]:
        (a,) = s.t.autograd.grad(y.sum(), p, create_graph=True)
        (b,) = s.t.autograd.grad(a.sum(), p)
        s.show(a, b)


def identity(s: Side) -> None:
    """A view has its base, and the same tensor twice is one: a write outside is seen by both."""
    p = s.leaf()

    def f() -> Any:
        y = p * 2
        return y, y[1:], y

    g = s.compile(f)
    for _ in range(3):
        y, v, again = g()
        s.show(y is again, v._base is y, y._version)
        v.mul_(3)
        p.grad = None
        y.sum().backward()
        s.show(p.grad)


def overlapping(s: Side) -> None:
    """Two views of what is not returned itself."""
    p = s.leaf()

    def f() -> Any:
        y = (p * 2).sin_()
        return y[1:], y[:3]

    g = s.compile(f)
    for _ in range(3):
        a, b = g()
        a.mul_(3)
        p.grad = None
        b.sum().backward()
        s.show(p.grad, a, b)


def several(s: Side) -> None:
    """Views of which a function gives several are not written to."""
    p = s.leaf()
    for f in (lambda: (p * 2).chunk(2), lambda: p.unbind(0), lambda: (p * p).view(2, 2).split(1)):
        g = s.compile(f)
        for _ in range(3):
            s.attempt(lambda: g()[0].mul_(3))  # noqa: B023


def of_parameter(s: Side) -> None:
    """Views of a parameter that an optimizer steps."""
    p = s.leaf()
    opt = s.t.optim.SGD([p], lr=0.1)

    def f() -> Any:
        opt.zero_grad()
        v = p.chunk(2)[1]
        v.square().sum().backward()
        opt.step()
        return v, p[1:], p.detach()

    g, held = s.compile(f), []
    for _ in range(4):
        held.append(g())
        v, w, d = held[-1]
        s.show(v, w, d, v._base is p, w._base is p, [x.requires_grad for x in (v, w, d)])
        s.attempt(lambda: v.grad_fn is None)  # noqa: B023
    s.show(held)


def leaves(s: Side) -> None:
    """A leaf that each call makes, and what is computed from it."""

    def f() -> Any:
        y = s.t.ones(3, device=s.device).requires_grad_()
        return y, y.sin()

    g = s.compile(f)
    for y, z in [g() for _ in range(3)]:
        z.sum().backward()
        s.show(y.requires_grad, y.grad)


def retained(s: Side) -> None:
    p = s.leaf()

    def f() -> Any:
        y = p * 2
        y.retain_grad()
        return y

    g = s.compile(f)
    for y in [g() for _ in range(3)]:
        y.square().sum().backward()
        s.show(y.grad)


def hooks(s: Side) -> None:
    """A hook of one result is not another's."""
    p = s.leaf()

    def f() -> Any:
        y = p * 2
        y.register_hook(lambda g: g * 2)
        return y

    g = s.compile(f)
    for _ in range(3):
        y = g()
        y.register_hook(lambda g: g * 3)
        p.grad = None
        y.sum().backward()
        s.show(p.grad)


def gradients(s: Side) -> None:
    """Gradients that someone holds stay as they are."""
    p, held = s.leaf(), []

    def inside() -> Any:
        p.grad = None
        (p * p).sum().backward()
        return p.grad

    def outside() -> None:
        (p * p).sum().backward()

    for f in (inside, outside):
        g = s.compile(f)
        for _ in range(4):
            p.grad = None
            s.show(g() is (p.grad if f is inside else None))
            held.append(p.grad)
            p.data.add_(1)
    s.show(held)


def reset_gradient(s: Side) -> None:
    """A .grad that a step takes away is gone after each call, whoever made it in between."""
    p = s.leaf()

    def f(x: Any) -> Any:
        p.grad = None
        return p * x

    g = s.compile(f)
    for _ in range(3):
        y = g(s.ones(4))
        s.show(p.grad is None)
        y.sum().backward()
        s.show(p.grad)


def part_of_gradient(s: Side) -> None:
    p, held = s.leaf(), []

    def f() -> Any:
        p.grad = None
        (p * p).sum().backward()
        return p.grad[1:], p.grad.detach()

    g = s.compile(f)
    for _ in range(3):
        held.append(g())
        p.data.add_(1)
    s.show(held)


def gradients_of_arguments(s: Side) -> None:
    def f(x: Any) -> Any:
        (x * x).sum().backward()
        return x.grad

    g = s.compile(f)
    xs = [s.leaf().detach().mul(i).requires_grad_() for i in range(4)]
    for _ in range(3):
        held = [g(x) for x in xs]
        s.show([x.grad for x in xs], [x.grad is y for x, y in zip(xs, held, strict=True)])


def gradients_with_history(s: Side) -> None:
    p = s.leaf()

    def f() -> None:
        p.grad = None
        (p**3).sum().backward(create_graph=True)

    g = s.compile(f)
    for _ in range(4):
        g()
        found, p.grad = p.grad, None
        found.sum().backward()
        s.show(p.grad)
        p.grad = None
        p.data.add_(1)


def state(s: Side) -> None:
    """What lies outside and is written to, returned with views of it."""
    b = s.ones(4)

    def f(x: Any) -> Any:
        b.add_(x)
        return b, b[1:], b.detach()

    g, held = s.compile(f), []
    for _ in range(3):
        held.append(g(s.ones(4)))
        x, v, d = held[-1]
        s.show(x is b, v._base is b, d is b)
        v.mul_(2)
        s.show(held)


def of_argument(s: Side) -> None:
    p = s.leaf()
    g = s.compile(lambda x: (x[1:], x.view(2, 2), x, x.detach()))
    for _ in range(3):
        x = s.ones(4) * p
        v, u, same, d = g(x)
        s.show(same is x, v._base is x, d.requires_grad)
        v.mul_(2)
        p.grad = None
        u.sum().backward()
        s.show(p.grad, d)


def gone_through(s: Side) -> None:
    """A gradient was taken within: what needs nothing saved leads on, the rest can't be gone
    through again, and says so."""
    p = s.leaf()
    for make in (lambda: p.exp(), lambda: p[1:], lambda: p + 1, lambda: p.exp()[1:],
                 lambda: p.sum(), lambda: p[1:].exp(), lambda: s.t.cat([p, p]),
                 lambda: p.max(0)[0]):  # fmt: skip

        def f(make: Any = make) -> Any:
            y = make()
            (g,) = s.t.autograd.grad(y.square().sum(), [p])
            return y, g

        g = s.compile(f)
        for _ in range(3):
            p.grad = None
            y, again = g()[0], g()[0]
            s.attempt(lambda y=y: y.square().sum().backward())  # type: ignore[misc]
            s.attempt(lambda y=again: s.t.autograd.grad(y.sum(), [p]))  # type: ignore[misc]
            s.show(p.grad)


def overwritten(s: Side) -> None:
    """What a value was computed of that another took the place of has a gradient: 0."""
    p, q = s.leaf(), s.leaf()
    for write in (lambda y: y.copy_(q), lambda y: y.copy_(q[:1]), lambda y: y.zero_().add_(q)):
        g = s.compile(lambda write=write: write(p * 2))
        for _ in range(3):
            p.grad = q.grad = None
            g().square().sum().backward()
            s.show(p.grad, q.grad)


def nothing(s: Side) -> None:
    """Writes to no elements count, too."""
    for write in (lambda x: x.relu_(), lambda x: x[0::2].relu_(), lambda x: x[:, 1].mul_(2)):
        g = s.compile(write)
        for n in (0, 0, 0, 2, 2):
            x = s.ones(n, 3, 3)
            y = g(x[:, 1])
            s.show(y._version, x._version, y)


def counted(s: Side) -> None:
    """A number that is written outside and returned is that of this call."""
    layer = s.t.nn.Identity()
    layer.calls, layer.scale = 0, 1.0

    def f(x: Any) -> Any:
        before = layer.calls
        layer.calls += 1
        layer.scale *= 0.5
        return x * layer.scale, before, layer.calls, [layer.calls + 5, layer.scale]

    g = s.compile(f)
    for _ in range(6):
        s.show(g(s.ones(4)), layer.calls, layer.scale)


PATTERNS = [counted, stale, stepped, double, identity, overlapping, several, of_parameter, leaves,
            retained, hooks, gradients, reset_gradient, part_of_gradient, gradients_of_arguments,
            gradients_with_history, state, of_argument, gone_through, overwritten,
            nothing]  # fmt: skip


def agree(pattern: Callable[[Side], None], torch: Any, device: str) -> None:
    want = Side(torch, lambda f: f, "cpu", [])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*runs eagerly.*")  # which is right, if slow
        warnings.filterwarnings("ignore", ".*create_graph=True will create a reference cycle")
        pattern(want)
        for wrap in (lambda f: f, pf.compile):
            got = Side(pf, wrap, device, [])
            pattern(got)
            alike(got.shown, want.shown, 1e-4, 5e-5)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.__name__)
def test_results(pattern: Any, torch: Any, device: str) -> None:
    agree(pattern, torch, device)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("keep", [True, False], ids=["kept", "in turns"])
def test_writes(name: str, keep: bool, torch: Any, device: str) -> None:
    agree(lambda s: writes(s, WRITES[name], keep), torch, device)
