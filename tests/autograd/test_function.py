"""autograd.Function: the same classes on both frameworks."""

from __future__ import annotations

from typing import Any

from autograd_programs import attempt, leaf, programs

program, test_both = programs()


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


@program
def saved_results(t: Any, d: str) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        z = y * 2
        ctx.save_for_backward(y, None, z)
        return y, z

    def backward(ctx: Any, a: Any, b: Any) -> Any:
        y, none, z = ctx.saved_tensors
        assert none is None
        return a * y + b * z

    x = leaf(t, d)
    y, z = make(t, forward, backward).apply(x)
    (g,) = t.autograd.grad((y * z).sum(), x, create_graph=True)
    (h,) = t.autograd.grad(g.sum(), x)
    return y, z, g, h


@program
def setup_context(t: Any, d: str) -> Any:
    def forward(x: Any, k: Any, w: Any) -> Any:
        return x * k, w.sum(), x.floor()

    def setup(ctx: Any, inputs: Any, output: Any) -> Any:
        x, ctx.k, w = inputs
        a, b, whole = output
        ctx.save_for_backward(x, w)
        ctx.mark_non_differentiable(whole)
        ctx.seen = (tuple(a.shape), tuple(b.shape))

    def backward(ctx: Any, a: Any, b: Any, whole: Any) -> Any:
        _, w = ctx.saved_tensors
        return a * ctx.k, None, b * t.ones_like(w)

    x, w = leaf(t, d), leaf(t, d)
    a, b, whole = make(t, forward, backward, setup).apply(x, 3.0, w)
    out = [a, b, whole, a.grad_fn.seen, a.grad_fn.k, a.grad_fn.needs_input_grad]
    (a * b).sum().backward()
    return [*out, x.grad, w.grad]


@program
def what_backward_gets(t: Any, d: str) -> Any:
    out = []
    for materialize in (True, False):
        seen: list[Any] = []

        def forward(ctx: Any, x: Any, flag: bool = materialize) -> Any:
            ctx.set_materialize_grads(flag)
            return x * 2, x * 3, x.sum(), (x * 4).long(), "text"

        def backward(ctx: Any, *grads: Any, seen: list[Any] = seen) -> Any:
            seen += [g is None or tuple(g.shape) for g in grads]
            return grads[1] * 3, None

        x = leaf(t, d)
        results = make(t, forward, backward).apply(x)
        results[1].sum().backward()
        out += [seen, x.grad, [getattr(r, "requires_grad", r) for r in results]]
    return out


@program
def wrong_gradients(t: Any, d: str) -> Any:
    def of(found: Any, k: Any = None) -> Any:
        f = make(t, lambda ctx, x, k: x * 2, lambda ctx, g: found(g))
        x = leaf(t, d)
        f.apply(x, k).sum().backward()
        return x.grad

    cases = [
        lambda g: (g, None), lambda g: (g, None, None), lambda g: (g, None, g), lambda g: g,
        lambda g: (g, g), lambda g: (3, None), lambda g: (t.ones(4, device=d), None),
        lambda g: (t.ones(2, 3, device=d), None), lambda g: (g.sum(), None),
        lambda g: (g.half(), None), lambda g: (None, None), lambda g: [g, None],
    ]  # fmt: skip
    return [attempt(lambda c=c: of(c)) for c in cases]  # type: ignore[misc]


@program
def unfinished(t: Any, d: str) -> Any:
    x = leaf(t, d)
    none = type("None_", (t.autograd.Function,), {})
    half = type("Half", (t.autograd.Function,), {"forward": staticmethod(lambda ctx, x: x * 2)})
    save = make(t, lambda ctx, x: ctx.save_for_backward(3), lambda ctx, g: g)
    return [
        attempt(lambda: none.apply(x)),
        attempt(lambda: half.apply(x).sum().backward()),
        attempt(lambda: save.apply(x)),
        attempt(lambda: cube(t)()(x)),
    ]


@program
def inputs_as_results(t: Any, d: str) -> Any:
    same = make(t, lambda ctx, x: x, lambda ctx, g: g * 5)
    x = leaf(t, d)
    y = same.apply(x)
    y.sum().backward()
    plain = t.ones(2, device=d)
    view = make(t, lambda ctx, x: x.view(3, 1), lambda ctx, g: g.view(3) * 7)
    v = view.apply(x * 1)
    v.sum().backward()
    return [y is x, x.is_leaf, x.grad, same.apply(plain) is plain,
            attempt(lambda: same.apply(x * 1).add_(1)), attempt(lambda: v.add_(1)),
            attempt(lambda: v[0].add_(1))]  # fmt: skip


@program
def dirty(t: Any, d: str) -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        x.mul_(2)
        return x

    f = make(t, forward, lambda ctx, g: g * 100).apply
    x = leaf(t, d)
    y = x * 1
    z = f(y)
    z.sum().backward()
    whole = x * 1
    f(whole[:2])
    (whole * t.tensor([1.0, 2.0, 3.0], device=d)).sum().backward()

    def not_returned(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x * 1

    lost = make(t, not_returned, lambda ctx, g: g)
    plain = t.ones(2, device=d)
    f(plain)
    return [z is y, y, x.grad, attempt(lambda: f(x)), attempt(lambda: lost.apply(x * 1)), plain]


@program
def changed_after_it_was_saved(t: Any, d: str) -> Any:
    x = leaf(t, d)
    out = []
    y = x * 1
    z = cube(t).apply(y)
    y.add_(1)
    out.append(attempt(lambda: z.sum().backward()))
    y = x * 1
    z = cube(t).apply(y)
    z.mul_(2)  # the result was not saved
    z.sum().backward()
    out.append(attempt(lambda: z.sum().backward()))
    f = make(t, lambda ctx, x: (ctx.save_for_backward(x), x * 2)[1], lambda ctx, g: g)
    y = f.apply(x)
    y.sum().backward()
    y.sum().backward()  # nothing that was freed is asked for
    return [*out, x.grad, attempt(lambda: y.grad_fn.saved_tensors)]


@program
def the_node(t: Any, d: str) -> Any:
    x = leaf(t, d)
    y = cube(t).apply(x)
    a, b = make(t, lambda ctx, x: (x * 1, x * 2), lambda ctx, g, h: g + h).apply(x)
    seen: list[Any] = []
    a.grad_fn.register_prehook(lambda gs: seen.append([g.sum().item() for g in gs]))
    b.grad_fn.register_hook(lambda gi, go: seen.append((len(gi), len(go))))
    a.register_hook(lambda g: g * 10)
    b.retain_grad()
    (a + b * 2).sum().backward()
    return [y.grad_fn.name(), y.grad_fn.saved_tensors, len(y.grad_fn.next_functions),
            a.grad_fn.name(), a.grad_fn.next_functions[0][0].variable is x, seen, x.grad, b.grad,
            t.autograd.grad(y.sum(), x)]  # fmt: skip


@program
def one_derivative_only(t: Any, d: str) -> Any:
    once = t.autograd.function.once_differentiable
    f = make(t, lambda ctx, x: x**2, once(lambda ctx, g: g * 2)).apply
    x = leaf(t, d)
    (g,) = t.autograd.grad(f(x).sum(), x)
    (h,) = t.autograd.grad((f(x) * x).sum(), x, create_graph=True)
    return g, attempt(lambda: t.autograd.grad(f(x).sum(), x, create_graph=True)[0].sum().backward()
                      or "no error"), h  # fmt: skip


@program
def backward_within_backward(t: Any, d: str) -> Any:
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        with t.enable_grad():
            v = x.detach().requires_grad_()
            (v.exp() * v).sum().backward()
        return g * v.grad

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        with t.enable_grad():
            v = x.detach().requires_grad_()
            (slope,) = t.autograd.grad((v**2).sum(), v)
        return x * 1 + slope * 0

    x = leaf(t, d)
    y = x * 2
    (make(t, forward, backward).apply(y) * y).sum().backward()
    return x.grad


@program
def saved_hooks_see_them(t: Any, d: str) -> Any:
    x = leaf(t, d)
    count = [0]

    def pack(v: Any) -> Any:
        count[0] += 1
        return v.detach() * 2

    with t.autograd.graph.saved_tensors_hooks(pack, lambda v: v / 2):
        y = cube(t).apply(x * 1)
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    return count[0] > 0, g, t.autograd.grad(g.sum(), x)
