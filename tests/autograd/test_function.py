"""autograd.Function: the same classes on both frameworks."""

from __future__ import annotations

from typing import Any

from autograd_programs import in_both


def make(t: Any, forward: Any, backward: Any, setup: Any = None) -> Any:
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    if setup is not None:
        members["setup_context"] = staticmethod(setup)
    return type("Made", (t.autograd.Function,), members)


def cube(t: Any) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3 * x * x

    return make(t, forward, backward)


test_both = in_both(
    r"""
== saved results
def forward(ctx, x):
    y = x.exp()
    z = y * 2
    ctx.save_for_backward(y, None, z)
    return y, z
def backward(ctx, a, b):
    y, none, z = ctx.saved_tensors
    assert none is None
    return a * y + b * z
y, z = make(t, forward, backward).apply(x)
(g,) = t.autograd.grad((y * z).sum(), x, create_graph=True)
(h,) = t.autograd.grad(g.sum(), x)
? y, z, g, h
== setup context
def forward(x, k, w):
    return x * k, w.sum(), x.floor()
def setup(ctx, inputs, output):
    x, ctx.k, w = inputs
    a, b, whole = output
    ctx.save_for_backward(x, w)
    ctx.mark_non_differentiable(whole)
    ctx.seen = (tuple(a.shape), tuple(b.shape))
def backward(ctx, a, b, whole):
    _, w = ctx.saved_tensors
    return a * ctx.k, None, b * t.ones_like(w)
a, b, whole = make(t, forward, backward, setup).apply(x, 3.0, w)
? a, b, whole, a.grad_fn.seen, a.grad_fn.k, a.grad_fn.needs_input_grad
(a * b).sum().backward()
? x.grad, w.grad
== what backward gets
for materialize in (True, False):
    seen = []
    def forward(ctx, x, flag=materialize):
        ctx.set_materialize_grads(flag)
        return x * 2, x * 3, x.sum(), (x * 4).long(), "text"
    def backward(ctx, *grads, seen=seen):
        seen += [g is None or tuple(g.shape) for g in grads]
        return grads[1] * 3, None
    x = leaf(t, d)
    results = make(t, forward, backward).apply(x)
    results[1].sum().backward()
    ? seen, x.grad, [getattr(r, "requires_grad", r) for r in results]
== wrong gradients
def of(found, k=None):
    f = make(t, lambda ctx, x, k: x * 2, lambda ctx, g: found(g))
    x = leaf(t, d)
    f.apply(x, k).sum().backward()
    return x.grad
for found in (
    lambda g: (g, None), lambda g: (g, None, None), lambda g: (g, None, g), lambda g: g,
    lambda g: (g, g), lambda g: (3, None), lambda g: (t.ones(4, device=d), None),
    lambda g: (t.ones(2, 3, device=d), None), lambda g: (g.sum(), None),
    lambda g: (g.half(), None), lambda g: (None, None), lambda g: [g, None],
):
    ? attempt(lambda: of(found))
== unfinished
none = type("None_", (t.autograd.Function,), {})
half = type("Half", (t.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x * 2)})
save = make(t, lambda ctx, x: ctx.save_for_backward(3), lambda ctx, g: g)
! none.apply(x) | half.apply(x).sum().backward() | save.apply(x) | cube(t)()(x)
== inputs as results
same = make(t, lambda ctx, x: x, lambda ctx, g: g * 5)
y = same.apply(x)
y.sum().backward()
plain = t.ones(2, device=d)
view = make(t, lambda ctx, x: x.view(3, 1), lambda ctx, g: g.view(3) * 7)
v = view.apply(x * 1)
v.sum().backward()
? y is x, x.is_leaf, x.grad, same.apply(plain) is plain
! same.apply(x * 1).add_(1) | v.add_(1) | v[0].add_(1)
== dirty
def forward(ctx, x):
    ctx.mark_dirty(x)
    x.mul_(2)
    return x
f = make(t, forward, lambda ctx, g: g * 100).apply
y = x * 1
z = f(y)
z.sum().backward()
whole = x * 1
f(whole[:2])
(whole * t.tensor([1.0, 2.0, 3.0], device=d)).sum().backward()
def not_returned(ctx, x):
    ctx.mark_dirty(x)
    return x * 1
lost = make(t, not_returned, lambda ctx, g: g)
plain = t.ones(2, device=d)
f(plain)
? z is y, y, x.grad
! f(x) | lost.apply(x * 1)
? plain
== changed after it was saved
y = x * 1
z = cube(t).apply(y)
y.add_(1)
! z.sum().backward()
y = x * 1
z = cube(t).apply(y)
z.mul_(2)  # the result was not saved
z.sum().backward()
! z.sum().backward()
f = make(t, lambda ctx, x: (ctx.save_for_backward(x), x * 2)[1], lambda ctx, g: g)
y = f.apply(x)
y.sum().backward()
y.sum().backward()  # nothing that was freed is asked for
? x.grad
! y.grad_fn.saved_tensors
== the node
y = cube(t).apply(x)
a, b = make(t, lambda ctx, x: (x * 1, x * 2), lambda ctx, g, h: g + h).apply(x)
a.grad_fn.register_prehook(lambda gs: seen.append([g.sum().item() for g in gs]))
b.grad_fn.register_hook(lambda gi, go: seen.append((len(gi), len(go))))
a.register_hook(lambda g: g * 10)
b.retain_grad()
(a + b * 2).sum().backward()
? y.grad_fn.name(), y.grad_fn.saved_tensors, len(y.grad_fn.next_functions), a.grad_fn.name(),
  a.grad_fn.next_functions[0][0].variable is x, seen, x.grad, b.grad, t.autograd.grad(y.sum(), x)
== one derivative only
once = t.autograd.function.once_differentiable
f = make(t, lambda ctx, x: x**2, once(lambda ctx, g: g * 2)).apply
(g,) = t.autograd.grad(f(x).sum(), x)
(h,) = t.autograd.grad((f(x) * x).sum(), x, create_graph=True)
? g
! t.autograd.grad(f(x).sum(), x, create_graph=True)[0].sum().backward() or "no error"
? h
== backward within backward
def backward(ctx, g):
    (x,) = ctx.saved_tensors
    with t.enable_grad():
        v = x.detach().requires_grad_()
        (v.exp() * v).sum().backward()
    return g * v.grad
def forward(ctx, x):
    ctx.save_for_backward(x)
    with t.enable_grad():
        v = x.detach().requires_grad_()
        (slope,) = t.autograd.grad((v**2).sum(), v)
    return x * 1 + slope * 0
y = x * 2
(make(t, forward, backward).apply(y) * y).sum().backward()
? x.grad
== saved hooks see them
count = [0]
def pack(v):
    count[0] += 1
    return v.detach() * 2
with t.autograd.graph.saved_tensors_hooks(pack, lambda v: v / 2):
    y = cube(t).apply(x * 1)
(g,) = t.autograd.grad(y.sum(), x, create_graph=True)
? count[0] > 0, g, t.autograd.grad(g.sum(), x)
""",
    lambda t, d: {"make": make, "cube": cube},
)
