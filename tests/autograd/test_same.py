"""Small programs on both frameworks: values, what requires grad, and the types of errors."""

from __future__ import annotations

from autograd_programs import in_both

test_both = in_both(r"""
== grad options
y = (x * w).exp()
? t.autograd.grad(y, [x, w], t.ones_like(y), retain_graph=True),
  t.autograd.grad([y, y * 2], x, [t.ones_like(y), t.ones_like(y)], retain_graph=True),
  t.autograd.grad(y.sum(), [x, unused], retain_graph=True, allow_unused=True),
  t.autograd.grad(y.sum(), [x, unused], retain_graph=True, materialize_grads=True),
  t.autograd.grad(y.sum(), x, create_graph=True),
  t.autograd.grad(outputs=y.sum(), inputs=(x, x), retain_graph=True)
! t.autograd.grad(y.sum(), unused, retain_graph=True) | t.autograd.grad(y, x, retain_graph=True)
! t.autograd.grad(y, x, t.ones(2, device=d), retain_graph=True)
! t.autograd.grad(y, x, [3], retain_graph=True) | t.autograd.grad(y.sum(), [])
! t.autograd.grad([y, y], x, [t.ones_like(y)], retain_graph=True)
! t.autograd.grad(y.sum(), t.ones(3, device=d)) | t.autograd.grad(t.ones((), device=d), x)
! t.autograd.grad(y.sum(), x, allow_unused=False, materialize_grads=True)
! t.autograd.backward([y, y], [t.ones_like(y)]) | t.autograd.backward(y.sum(), inputs=[])
== batched grads
y = x * x * w
seeds = t.eye(3, device=d)
kw = {"is_grads_batched": True, "retain_graph": True}
? t.autograd.grad(y, [x, w], seeds, **kw),
  t.autograd.grad(y, [x, unused], seeds, allow_unused=True, **kw)
! t.autograd.grad(y, x, t.ones(2, 4, device=d), **kw)
== backward options
y = x * w
t.autograd.backward([y.sum(), (y * y).sum()])
z = x * w
t.autograd.backward(z, grad_tensors=t.ones_like(z), inputs=[w, z])
? x.grad, w.grad, z.grad
== freed only if asked for
y = (x + 1).sum()
y.backward()
y.backward()
z = (x * x).sum()
z.backward(retain_graph=True)
z.backward()
? x.grad
! z.backward()
rows, F = t.ones(1, 2, 3, device=d, requires_grad=True), t.nn.functional
for f in (
    lambda v: v.mean(0), lambda v: 3 - v, lambda v: t.add(v, v, alpha=0.5), t.tril,
    lambda v: t.lerp(v, v + 1, 0.3), lambda v: v.triu(1), lambda v: v.cumsum(1),
    lambda v: F.interpolate(v, scale_factor=2, mode="linear"),
    lambda v: F.affine_grid(v, (1, 1, 3, 4), align_corners=False), t.exp, t.square,
    lambda v: v @ v[0].T, lambda v: v / v, lambda v: v.var(1), t.relu,
):
    y = f(rows).sum()
    y.backward()
    ? rows.grad.clone()
    ! y.backward()
    ? rows.grad
== gradient edges
y = x * 2
z = (y * y).sum()
edge = t.autograd.graph.get_gradient_edge
? t.autograd.grad(z, edge(y), retain_graph=True), t.autograd.grad(z, edge(x), retain_graph=True),
  t.autograd.grad(edge(y), x, t.ones_like(y), retain_graph=True), edge(y).output_nr
! edge(t.ones(2))
# --- modes
== modes
@t.no_grad
def bare(v):
    return (v * 2).requires_grad, t.is_grad_enabled()
@t.enable_grad
def on(v):
    return (v * 2).requires_grad
@t.set_grad_enabled(False)
def off(v):
    return (v * 2).requires_grad
? bare(x), off(x), t.is_grad_enabled()
with t.no_grad():
    ? on(x)
    with t.enable_grad():
        ? (x * 2).requires_grad
t.set_grad_enabled(False)
? (x * 2).requires_grad
t.set_grad_enabled(True)
with t.set_grad_enabled(False):
    ? t.is_grad_enabled()
? t.is_grad_enabled()
with t.no_grad(), t.inference_mode(False):
    ? t.is_grad_enabled()
== decorated generators
@t.no_grad()
def steps():
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
? seen
== inference
with t.inference_mode():
    a, b = t.ones(3, device=d), x * 2
    view, grown = x.view(3, 1), leaf(t, d)
    a.add_(1)
    ? t.is_inference_mode_enabled(), a.is_inference(), b.is_inference()
    ? b.requires_grad, view.is_inference(), grown.requires_grad, t.is_grad_enabled()
    x.mul_(2)
    with t.inference_mode(False):
        ? t.ones(1, device=d).is_inference(), (x * 2).requires_grad
? t.is_inference_mode_enabled(), x.is_inference(), x._version
? a.view(1, 3).is_inference(), a.detach().is_inference(), (a + 1).is_inference()
? a.clone().is_inference(), (x + a).requires_grad
! a[0].fill_(1) | a._version | a.requires_grad_()
? (x * a.clone()).requires_grad
with t.inference_mode():
    a.add_(1)
@t.inference_mode()
def made(v):
    return (v * 2).is_inference()
@t.inference_mode
def bare(v):
    return (v * 2).is_inference()
? made(x), bare(x), (x * 2).is_inference()
# --- hooks
== tensor hooks
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
? first, x.grad, seen, y.grad, y.retains_grad, x.retains_grad
== hooks that return rubbish
for bad in (3, t.ones(7, device=d), t.ones(3, device=d).half()):
    y = x * 2
    y.register_hook(lambda g, bad=bad: bad)
    ! y.sum().backward()
! t.ones(2).register_hook(print) | t.ones(2).retain_grad()
! t.ones(2).register_post_accumulate_grad_hook(print)
! (x * 2).register_post_accumulate_grad_hook(print)
== hooks and inplace
y = x * 2
y.register_hook(lambda g: g * 10)  # of the value before
y.retain_grad()  # of the tensor, whatever it is then
y.mul_(3)
y.sum().backward()
? x.grad, y.grad, y.retains_grad
== post accumulate hooks
handle = x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.clone())))
(x * 2).sum().backward()
(x * 3).sum().backward()
t.autograd.grad((x * 3).sum(), x)
(x * 4).sum().backward(inputs=[x])
handle.remove()
(x * 5).sum().backward()
def step(p):
    with t.no_grad():
        p -= p.grad
    p.grad = None
x.register_post_accumulate_grad_hook(step)
(x * 2).sum().backward()
? seen, x, x.grad is None
== node hooks
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
? seen, x.grad, acc.variable is x
== multi grad hooks
register = t.autograd.graph.register_multi_grad_hook
y = x * w
h = register((x, y, unused), lambda gs: seen.append([g is None for g in gs]))
first = register((x, y), lambda g: seen.append(g.clone()), mode="any")
y.sum().backward()
h.remove()
(x * w).sum().backward()
first.remove()
(x * w).sum().backward()
? seen
! register((x,), print, mode="some")
== nodes
y = x * 2
z = (y * x).sum()
acc, two = y.grad_fn.next_functions
y.grad_fn.metadata["note"] = 5
? y.grad_fn.name(), z.grad_fn.name(), acc[0].name(), acc[1], two, acc[0].next_functions,
  y.grad_fn.metadata["note"], isinstance(y.grad_fn, t.autograd.graph.Node),
  z.grad_fn.next_functions[0][0].name(), x.grad_fn is None,
  acc[0] == (x * 3).grad_fn.next_functions[0][0]
# --- what is saved
== versions
"Of what is written to unseen; what is seen test_view_programs.py draws."
y = x * 1
z = y * y
y.data.add_(1)  # not seen, as it says in PyTorch's documentation
y.data[0] = 5
z.sum().backward()
? x.grad, y._version, y.data.requires_grad
x.grad = None
z = x.cumprod(0)  # whose gradient needs both what it read and what it gave
z.data.mul_(2)  # is not seen either, but is what there is now
z.sum().backward()
? x.grad, z._version
x.grad = None
y = x * 1
z = y * y
t.autograd.graph.increment_version(y)
! z.sum().backward()
? y._version
== detach in place
y = x * 2
y.detach_()
? y.requires_grad, y.is_leaf, y.grad_fn is None
! x.view(3, 1).detach_()
? y.requires_grad_(True).requires_grad
! (x * 2).requires_grad_(False) | t.ones(2, dtype=t.int64).requires_grad_()
== saved hooks
def pack(v):
    seen.append("pack")
    return v.detach().clone() * 2, 5
def unpack(p):
    seen.append("unpack")
    return p[0] / 2
with t.autograd.graph.saved_tensors_hooks(pack, unpack):
    y = x * x
    z = y.exp()
(g,) = t.autograd.grad(z.sum(), x, create_graph=True)
(h,) = t.autograd.grad((g * g).sum(), x)
? g, h, sorted(set(seen))
== saved hooks count and fail
hooks = t.autograd.graph.saved_tensors_hooks
count = [0, 0]
def pack(v):
    count[0] += 1
    return v
def unpack(v):
    count[1] += 1
    return v
with hooks(pack, unpack):
    y = (x * 1).exp() * 2
y.sum().backward()
with hooks(lambda v: v, lambda v: 3):
    y = x * x
? count, x.grad
! y.sum().backward()
with t.autograd.graph.disable_saved_tensors_hooks("not now"):
    ! hooks(pack, unpack).__enter__()
with hooks(lambda v: v.mul_(2), unpack):
    ? attempt(lambda: (x * 1).exp())
with t.autograd.graph.save_on_cpu():
    y = x.exp() * x
? t.autograd.grad(y.sum(), x)
== what is not kept
"Operands and the result (-1) are written to between the passes."
i, mask = t.tensor([0, 1, 1], device=d), t.tensor([True], device=d)
for written, fn, *given in (
    ((0, -1), t.erfinv),
    ((0, -1), lambda x: 3 / x),
    ((0, -1), lambda x: t.linalg.inv(x.expand(3, 3) + t.eye(3, device=d) * 9)),
    ((0, 2, -1), lambda x, index, y: x.scatter_add(0, index, y), i, leaf(t, d)),
    ((1, -1), lambda x, index: t.take_along_dim(x, index, 0), i),
    ((1,), lambda x, m: t.masked.norm(x, 2.0, dim=0, mask=m), mask),
    ((1,), lambda x, w: t.nn.functional.instance_norm(x[None, None], weight=w),
     t.ones(1, device=d, requires_grad=True)),
):
    for k in written:
        x = leaf(t, d, 0.5, -0.25, 0.75)
        operands = [x * 1, *(v.detach().clone().requires_grad_(v.requires_grad) for v in given)]
        operands = [v * 1 if v.requires_grad else v for v in operands]
        y = fn(*operands)
        with t.no_grad():
            (*operands, y)[k].zero_()
        ? attempt(lambda: t.autograd.grad(y.sum(), x)[0])
== cuts of nothing
p = t.ones(0, 3, device=d, requires_grad=True)
for y in (p[:, 1:], p.diagonal(), p.unbind(1)[0], p.narrow(1, 0, 2), p.as_strided((0,), (1,)),
          p.median()):
    (g,) = t.autograd.grad(y.sin().sum(), p, create_graph=True)
    ? [y.requires_grad, g.requires_grad, list(g.shape)]
== anomaly
x = leaf(t, d, 0.0)
? t.is_anomaly_enabled()
with t.autograd.set_detect_anomaly(True):
    ? t.is_anomaly_enabled(), t.is_anomaly_check_nan_enabled()
with t.autograd.set_detect_anomaly(True, check_nan=False):
    (x.sqrt() * 0).sum().backward()
t.autograd.set_detect_anomaly(True)
t.autograd.set_detect_anomaly(False)
? t.is_anomaly_enabled(), x.grad.isnan().tolist()
""")
