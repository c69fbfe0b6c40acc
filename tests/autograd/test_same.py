"""Small programs on both frameworks: values, what requires grad, and the types of errors."""

from __future__ import annotations

from typing import Any

from autograd_programs import attempt, leaf, programs

program, test_both = programs()


# --- grad and backward


@program
def grad_options(t: Any, d: str) -> Any:
    x, w, unused = leaf(t, d), leaf(t, d), leaf(t, d)
    y = (x * w).exp()
    out = [
        t.autograd.grad(y, [x, w], t.ones_like(y), retain_graph=True),
        t.autograd.grad([y, y * 2], x, [t.ones_like(y), t.ones_like(y)], retain_graph=True),
        t.autograd.grad(y.sum(), [x, unused], retain_graph=True, allow_unused=True),
        t.autograd.grad(y.sum(), [x, unused], retain_graph=True, materialize_grads=True),
        t.autograd.grad(y.sum(), x, create_graph=True),
        t.autograd.grad(outputs=y.sum(), inputs=(x, x), retain_graph=True),
    ]
    for bad in (
        lambda: t.autograd.grad(y.sum(), unused, retain_graph=True),
        lambda: t.autograd.grad(y, x, retain_graph=True),
        lambda: t.autograd.grad(y, x, t.ones(2, device=d), retain_graph=True),
        lambda: t.autograd.grad(y, x, [3], retain_graph=True),
        lambda: t.autograd.grad([y, y], x, [t.ones_like(y)], retain_graph=True),
        lambda: t.autograd.grad(y.sum(), []),
        lambda: t.autograd.grad(y.sum(), t.ones(3, device=d)),
        lambda: t.autograd.grad(t.ones((), device=d), x),
        lambda: t.autograd.grad(y.sum(), x, allow_unused=False, materialize_grads=True),
        lambda: t.autograd.backward([y, y], [t.ones_like(y)]),
        lambda: t.autograd.backward(y.sum(), inputs=[]),
    ):
        out.append(attempt(bad))
    return out


@program
def batched_grads(t: Any, d: str) -> Any:
    x, w, unused = leaf(t, d), leaf(t, d), leaf(t, d)
    y = x * x * w
    seeds = t.eye(3, device=d)
    kw: Any = {"is_grads_batched": True, "retain_graph": True}
    return [
        t.autograd.grad(y, [x, w], seeds, **kw),
        t.autograd.grad(y, [x, unused], seeds, allow_unused=True, **kw),
        attempt(lambda: t.autograd.grad(y, x, t.ones(2, 4, device=d), **kw)),
    ]


@program
def backward_options(t: Any, d: str) -> Any:
    x, w = leaf(t, d), leaf(t, d)
    y = x * w
    t.autograd.backward([y.sum(), (y * y).sum()])
    z = x * w
    t.autograd.backward(z, grad_tensors=t.ones_like(z), inputs=[w, z])
    return x.grad, w.grad, z.grad


@program
def freed_only_if_asked_for(t: Any, d: str) -> Any:
    x = leaf(t, d)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    z = (x * x).sum()
    z.backward()
    out, rows = [x.grad, attempt(z.backward)], t.ones(1, 2, 3, device=d, requires_grad=True)
    F = t.nn.functional
    for f in (
        lambda v: v.mean(0),
        lambda v: 3 - v,
        lambda v: t.add(v, v, alpha=0.5),
        lambda v: t.lerp(v, v + 1, 0.3),
        t.tril,
        lambda v: v.triu(1),
        lambda v: v.cumsum(1),
        lambda v: F.interpolate(v, scale_factor=2, mode="linear"),
        lambda v: F.affine_grid(v, (1, 1, 3, 4), align_corners=False),
        t.exp,
        t.square,
        lambda v: v @ v[0].T,
        lambda v: v / v,
        lambda v: v.var(1),
        t.relu,
    ):
        y = f(rows).sum()
        y.backward()
        out += [rows.grad.clone(), attempt(y.backward), rows.grad]
    return out


@program
def gradient_edges(t: Any, d: str) -> Any:
    x = leaf(t, d)
    y = x * 2
    z = (y * y).sum()
    edge = t.autograd.graph.get_gradient_edge
    return [
        t.autograd.grad(z, edge(y), retain_graph=True),
        t.autograd.grad(z, edge(x), retain_graph=True),
        t.autograd.grad(edge(y), x, t.ones_like(y), retain_graph=True),
        edge(y).output_nr,
        attempt(lambda: edge(t.ones(2))),
    ]


# --- modes


@program
def modes(t: Any, d: str) -> Any:
    x = leaf(t, d)
    out = []

    @t.no_grad
    def bare(v: Any) -> Any:
        return (v * 2).requires_grad, t.is_grad_enabled()

    @t.enable_grad
    def on(v: Any) -> Any:
        return (v * 2).requires_grad

    @t.set_grad_enabled(False)
    def off(v: Any) -> Any:
        return (v * 2).requires_grad

    out += [bare(x), off(x), t.is_grad_enabled()]
    with t.no_grad():
        out.append(on(x))
        with t.enable_grad():
            out.append((x * 2).requires_grad)
    t.set_grad_enabled(False)
    out.append((x * 2).requires_grad)
    t.set_grad_enabled(True)
    with t.set_grad_enabled(False):
        out.append(t.is_grad_enabled())
    out.append(t.is_grad_enabled())
    with t.no_grad(), t.inference_mode(False):
        out.append(t.is_grad_enabled())
    return out


@program
def decorated_generators(t: Any, d: str) -> Any:
    seen = []

    @t.no_grad()
    def steps() -> Any:
        for _ in range(2):
            seen.append(t.is_grad_enabled())
            try:
                got = yield t.is_grad_enabled()
                seen.append(got)
            except ValueError:
                seen.append("thrown")
        return "end"

    g = steps()
    seen += [next(g), t.is_grad_enabled(), g.send(7), t.is_grad_enabled()]
    try:
        g.throw(ValueError())
    except StopIteration as stop:
        seen.append(stop.value)
    other = steps()
    next(other)
    other.close()
    return seen


@program
def inference(t: Any, d: str) -> Any:
    x = leaf(t, d)
    with t.inference_mode():
        a, b = t.ones(3, device=d), x * 2
        view, grown = x.view(3, 1), leaf(t, d)
        a.add_(1)
        out: list[Any] = [t.is_inference_mode_enabled(), a.is_inference(), b.is_inference()]
        out += [b.requires_grad, view.is_inference(), grown.requires_grad, t.is_grad_enabled()]
        x.mul_(2)
        with t.inference_mode(False):
            out += [t.ones(1, device=d).is_inference(), (x * 2).requires_grad]
    out += [t.is_inference_mode_enabled(), x.is_inference(), x._version]
    out += [a.view(1, 3).is_inference(), a.detach().is_inference(), (a + 1).is_inference()]
    out += [a.clone().is_inference(), (x + a).requires_grad]
    out += [attempt(lambda: a[0].fill_(1)), attempt(lambda: a._version)]
    out += [attempt(lambda: a.requires_grad_()), (x * a.clone()).requires_grad]
    with t.inference_mode():
        a.add_(1)

    @t.inference_mode()
    def made(v: Any) -> Any:
        return (v * 2).is_inference()

    @t.inference_mode
    def bare(v: Any) -> Any:
        return (v * 2).is_inference()

    return [*out, made(x), bare(x), (x * 2).is_inference()]


# --- hooks


@program
def tensor_hooks(t: Any, d: str) -> Any:
    x = leaf(t, d)
    seen: list[Any] = []
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: seen.append(g.clone()))
    y.retain_grad()
    handle = x.register_hook(lambda g: g + 1)
    y.sum().backward()
    handle.remove()
    handle.remove()  # it is gone
    first = x.grad.clone()
    (x * 2).sum().backward()
    return [first, x.grad, seen, y.grad, y.retains_grad, x.retains_grad]


@program
def hooks_that_return_rubbish(t: Any, d: str) -> Any:
    x = leaf(t, d)
    out = []
    for bad in (3, t.ones(7, device=d), t.ones(3, device=d).half()):
        y = x * 2
        y.register_hook(lambda g, bad=bad: bad)
        out.append(attempt(y.sum().backward))
    out.append(attempt(lambda: t.ones(2).register_hook(print)))
    out.append(attempt(lambda: t.ones(2).retain_grad()))
    out.append(attempt(lambda: t.ones(2).register_post_accumulate_grad_hook(print)))
    out.append(attempt(lambda: (x * 2).register_post_accumulate_grad_hook(print)))
    return out


@program
def hooks_and_inplace(t: Any, d: str) -> Any:
    x = leaf(t, d)
    y = x * 2
    y.register_hook(lambda g: g * 10)  # of the value before
    y.retain_grad()  # of the tensor, whatever it is then
    y.mul_(3)
    y.sum().backward()
    return x.grad, y.grad, y.retains_grad


@program
def post_accumulate_hooks(t: Any, d: str) -> Any:
    x = leaf(t, d)
    seen = []
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.clone())))
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    t.autograd.grad((x * 3).sum(), x)
    (x * 4).sum().backward(inputs=[x])
    handle.remove()
    (x * 5).sum().backward()

    def step(p: Any) -> None:
        with t.no_grad():
            p -= p.grad
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * 2).sum().backward()
    return seen, x, x.grad is None


@program
def node_hooks(t: Any, d: str) -> Any:
    x = leaf(t, d)
    seen: list[Any] = []
    y = x * 2
    y.grad_fn.register_prehook(lambda gs: seen.append(("pre", gs[0].clone())))
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 3,))
    h = y.grad_fn.register_hook(lambda gi, go: seen.append(("post", len(gi), gi[1] is None)))
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * go[0], None))
    (y * y).sum().backward(retain_graph=True)
    h.remove()
    acc = y.grad_fn.next_functions[0][0]
    acc.register_hook(lambda gi, go: seen.append(("acc", gi, go[0].clone())))
    acc.register_prehook(lambda gs: (gs[0] * 2,))
    y.sum().backward()
    return seen, x.grad, acc.variable is x


@program
def multi_grad_hooks(t: Any, d: str) -> Any:
    x, w, unused = leaf(t, d), leaf(t, d), leaf(t, d)
    register = t.autograd.graph.register_multi_grad_hook
    seen: list[Any] = []
    y = x * w
    h = register((x, y, unused), lambda gs: seen.append([g is None for g in gs]))
    first = register((x, y), lambda g: seen.append(g.clone()), mode="any")
    y.sum().backward()
    h.remove()
    (x * w).sum().backward()
    first.remove()
    (x * w).sum().backward()
    return seen, attempt(lambda: register((x,), print, mode="some"))


@program
def nodes(t: Any, d: str) -> Any:
    x = leaf(t, d)
    y = x * 2
    z = (y * x).sum()
    acc, two = y.grad_fn.next_functions
    y.grad_fn.metadata["note"] = 5
    return [
        y.grad_fn.name(), z.grad_fn.name(), acc[0].name(), acc[1], two, acc[0].next_functions,
        y.grad_fn.metadata["note"], isinstance(y.grad_fn, t.autograd.graph.Node),
        (z.grad_fn.next_functions[0][0]).name(), x.grad_fn is None,
        acc[0] == (x * 3).grad_fn.next_functions[0][0],
    ]  # fmt: skip


# --- what is saved


@program
def versions(t: Any, d: str) -> Any:
    """Of what is written to unseen; what is seen test_view_programs.py draws."""
    x = leaf(t, d)
    out: list[Any] = []
    y = x * 1
    z = y * y
    y.data.add_(1)  # not seen, as it says in PyTorch's documentation
    y.data[0] = 5
    z.sum().backward()
    out += [x.grad, y._version, y.data.requires_grad]
    x.grad = None
    z = x.cumprod(0)  # whose gradient needs both what it read and what it gave
    z.data.mul_(2)  # is not seen either, but is what there is now
    z.sum().backward()
    out += [x.grad, z._version]
    x.grad = None
    y = x * 1
    z = y * y
    t.autograd.graph.increment_version(y)
    out += [attempt(z.sum().backward), y._version]
    return out


@program
def detach_in_place(t: Any, d: str) -> Any:
    x = leaf(t, d)
    y = x * 2
    y.detach_()
    return [y.requires_grad, y.is_leaf, y.grad_fn is None, attempt(lambda: x.view(3, 1).detach_()),
            y.requires_grad_(True).requires_grad, attempt(lambda: (x * 2).requires_grad_(False)),
            attempt(lambda: t.ones(2, dtype=t.int64).requires_grad_())]  # fmt: skip


@program
def saved_hooks(t: Any, d: str) -> Any:
    x = leaf(t, d)
    seen: list[Any] = []

    def pack(v: Any) -> Any:
        seen.append("pack")
        return v.detach().clone() * 2, 5

    def unpack(p: Any) -> Any:
        seen.append("unpack")
        return p[0] / 2

    with t.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x * x
        z = y.exp()
    (g,) = t.autograd.grad(z.sum(), x, create_graph=True)
    (h,) = t.autograd.grad((g * g).sum(), x)
    return g, h, sorted(set(seen))


@program
def saved_hooks_count_and_fail(t: Any, d: str) -> Any:
    x = leaf(t, d)
    hooks = t.autograd.graph.saved_tensors_hooks
    count = [0, 0]

    def pack(v: Any) -> Any:
        count[0] += 1
        return v

    def unpack(v: Any) -> Any:
        count[1] += 1
        return v

    with hooks(pack, unpack):
        y = (x * 1).exp() * 2
    y.sum().backward()
    with hooks(lambda v: v, lambda v: 3):
        y = x * x
    out = [count, x.grad, attempt(y.sum().backward)]
    with t.autograd.graph.disable_saved_tensors_hooks("not now"):
        out.append(attempt(lambda: hooks(pack, unpack).__enter__()))
    with hooks(lambda v: v.mul_(2), unpack):
        out.append(attempt(lambda: (x * 1).exp()))
    with t.autograd.graph.save_on_cpu():
        y = x.exp() * x
    out.append(t.autograd.grad(y.sum(), x))
    return out


@program
def what_is_not_kept(t: Any, d: str) -> Any:
    """Operands and the result (-1) are written to between the passes."""
    i, mask = t.tensor([0, 1, 1], device=d), t.tensor([True], device=d)
    out = []
    for written, fn, *given in (
        ((0, -1), t.erfinv),
        ((0, -1), lambda x: 3 / x),
        ((0, -1), lambda x: t.linalg.inv(x.expand(3, 3) + t.eye(3, device=d) * 9)),
        ((0, 2, -1), lambda x, index, y: x.scatter_add(0, index, y), i, leaf(t, d)),
        ((1, -1), lambda x, index: t.take_along_dim(x, index, 0), i),
        ((1,), lambda x, m: t.masked.norm(x, 2.0, dim=0, mask=m), mask),
        ((1,), lambda x, w: t.nn.functional.instance_norm(x[None, None], weight=w),
         t.ones(1, device=d, requires_grad=True)),
    ):  # fmt: skip
        for k in written:
            x = leaf(t, d, 0.5, -0.25, 0.75)
            operands = [x * 1, *(v.detach().clone().requires_grad_(v.requires_grad) for v in given)]
            operands = [v * 1 if v.requires_grad else v for v in operands]
            y = fn(*operands)
            with t.no_grad():
                (*operands, y)[k].zero_()
            out.append(attempt(lambda y=y, x=x: t.autograd.grad(y.sum(), x)[0]))
    return out


@program
def cuts_of_nothing(t: Any, d: str) -> Any:
    p = t.ones(0, 3, device=d, requires_grad=True)
    out = []
    for y in (p[:, 1:], p.diagonal(), p.unbind(1)[0], p.narrow(1, 0, 2), p.as_strided((0,), (1,)),
              p.median()):  # fmt: skip
        (g,) = t.autograd.grad(y.sin().sum(), p, create_graph=True)
        out.append([y.requires_grad, g.requires_grad, list(g.shape)])
    return out


@program
def anomaly(t: Any, d: str) -> Any:
    x = leaf(t, d, 0.0)
    out: list[Any] = [t.is_anomaly_enabled()]
    with t.autograd.set_detect_anomaly(True):
        out += [t.is_anomaly_enabled(), t.is_anomaly_check_nan_enabled()]
    with t.autograd.set_detect_anomaly(True, check_nan=False):
        (x.sqrt() * 0).sum().backward()
    t.autograd.set_detect_anomaly(True)
    t.autograd.set_detect_anomaly(False)
    return [*out, t.is_anomaly_enabled(), x.grad.isnan().tolist()]
