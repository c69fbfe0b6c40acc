"""autograd.functional and pf.func: the same programs on both frameworks."""

from __future__ import annotations

from typing import Any

from autograd_programs import in_both

import pyframe as pf


def points(t: Any, d: str) -> dict[str, Any]:
    x, w = t.tensor([0.5, -1.0, 2.0], device=d), t.tensor([1.0, 0.3, -0.7], device=d)
    return {"x": x, "w": w, "layer": layer, "f": t.func, "F": t.autograd.functional}


def layer(t: Any, d: str) -> Any:
    m = t.nn.Sequential(t.nn.Linear(3, 2), t.nn.Tanh(), t.nn.Linear(2, 1)).to(d)
    with t.no_grad():
        for i, p in enumerate(m.parameters()):
            p.copy_((t.arange(p.numel(), device=d).reshape(p.shape) * 0.3 - 0.4 * i).float())
    return m


test_both = in_both(
    r"""
== jacobians
one = F.jacobian(lambda a: (a * a).exp().reshape(3, 1), x)
two = F.jacobian(lambda a, b: (a * b, (a * a).sum()), (x, w), vectorize=True)
unused = F.jacobian(lambda a, b: a * 2, (x, w))
x.requires_grad_()
made = F.jacobian(lambda a: a**3, x, create_graph=True)
? one, two, unused, made, t.autograd.grad(made.sum(), x), F.jacobian(lambda a: a**2, x)
== hessians
def f(a, b):
    return (a**2 * b).sum() + (b * b).prod()
x.requires_grad_()
made = F.hessian(lambda a: (a**4).sum(), x, create_graph=True)
? F.hessian(lambda a: (a**3).sum(), w), F.hessian(f, (x, w)), F.vhp(f, (x, w), (w, x)),
  F.hvp(f, (x, w), (w, x)), F.hessian(lambda a: (a**3).sum().reshape(1), w), made,
  t.autograd.grad(made.sum(), x)
== products
def f(a, b):
    return (a * b).exp(), a.sum()
v = (x, t.tensor(2.0, device=d))
x.requires_grad_()
made = F.vjp(lambda a: (a**3).sum(), x, create_graph=True)
? F.vjp(f, (x, w), v), F.jvp(f, (x, w), (w, x)), F.vjp(lambda a: a.sum(), x),
  F.jvp(lambda a: a**3, x, w), made, t.autograd.grad(made[1].sum(), x),
  F.jvp(lambda a: a * 2, t.tensor(3.0, device=d))
== functional errors
const = t.ones(3, device=d)
! F.vjp(lambda a: a * 2, x) | F.vjp(lambda a: a * 2, x, t.ones(2, device=d))
! F.vjp(lambda a: (a, a), x, (w,)) | F.vjp(lambda a: 3, x) | F.vjp(lambda a: a, [x])
! F.jvp(lambda a: a * 2, x) | F.jvp(lambda a: a * 2, x, (w, w))
! F.vjp(lambda a: const, x, w, strict=True) | F.jacobian(lambda a, b: a, (x, w), strict=True)
! F.jacobian(lambda a: const, x, strict=True) | F.jacobian(lambda a: a, x, strategy="sideways")
! F.jacobian(lambda a: a, x, strict=True, vectorize=True)
! F.jacobian(lambda a: a, x, strategy="forward-mode") | F.hessian(lambda a: a, x)
! F.hessian(lambda a: a.sum(), x, strict=True) | F.hvp(lambda a: a, x, w)
! F.vhp(lambda a: a.sum(), x)
? attempt(lambda: F.jacobian(lambda a: const, x)), attempt(lambda: F.vjp(lambda a: const, x, w))
# --- func
== gradients
def loss(a, b, k=1.0):
    return (a * b).sin().sum() * k
tree = {"a": x, "more": [w, (x,)]}
? f.grad(loss)(x, w), f.grad(loss, argnums=1)(x, w, k=2.0), f.grad(loss, (0, 1))(x, w),
  f.grad(loss, -1)(x, w), f.grad_and_value(loss)(x, w),
  f.grad(lambda a: (a.sum(), {"aux": a * 2}), has_aux=True)(x),
  f.grad_and_value(lambda a: (a.sum(), a * 2), has_aux=True)(x),
  f.grad(lambda p: (p["a"] * p["more"][0]).sum() + (p["more"][1][0] ** 2).sum())(tree),
  f.grad(lambda a: w.sum())(x)
== nested
s = t.tensor(0.7, device=d)
def perturbed(a):  # the inner derivative is of b alone
    return a * f.grad(lambda b: a * b * b)(s)
? f.grad(f.grad(lambda a: a**4))(s), f.grad(f.grad(f.grad(lambda a: a.exp() * a)))(s),
  f.grad(perturbed)(s), f.jacrev(f.jacrev(lambda a: a**3))(x),
  f.hessian(lambda a: (a**3).sum())(x), f.jacfwd(f.grad(lambda a: (a * w).prod()))(x),
  f.vmap(f.grad(lambda a: a**3))(x), f.vmap(f.hessian(lambda a: (a**3).sum()))(t.stack([x, w])),
  f.grad(lambda a: f.jvp(lambda b: b**3, (a,), (w,))[1].sum())(x),
  f.grad(lambda a: f.vjp(lambda b: b**3, a)[1](w)[0].sum())(x),
  f.jacfwd(lambda a: f.vjp(lambda b: b.sin(), a)[1](w)[0])(x)
== inside autograd
free = f.grad(lambda a: (a**3).sum())(x)
x.requires_grad_()
w.requires_grad_()
g = f.grad(lambda a: (a**3 * w).sum())(x)
closed = f.grad(lambda a: (a * w).sum())(x.detach())
with t.no_grad():
    quiet = f.grad(lambda a: (a**3).sum())(x)
    def silent(a):
        with t.no_grad():
            part = a**2
        return (a * part).sum()
    kept = f.grad(silent)(x)
? free, g, t.autograd.grad(g.sum(), [x, w]), closed, quiet, kept, x.grad is None
== pushes and pulls
out, pull = f.vjp(lambda a, b: {"p": a * b, "q": (a + b,)}, x, w)
found = pull({"p": x, "q": (w,)})
again = pull({"p": w, "q": (x,)})
single, back, aux = f.vjp(lambda a: (a**2, a * 5), x, has_aux=True)
one = f.jvp(lambda a, b: (a * b, a.sum()), (x, w), (w, x))
with_aux = f.jvp(lambda a: (a**2, a + 1), (x,), (w,), has_aux=True)
value, push = f.linearize(lambda a: a.sin() * 2, x)
? out, found, again, single, back(w), aux, one, with_aux, value, push(w), push(x)
== jacobian trees
pair = f.jacrev(lambda a, b: (a * b, a.sum()), argnums=(0, 1))(x, w)
named = f.jacfwd(lambda p: {"y": p["a"] * p["b"]})({"a": x, "b": w})
aux = f.jacrev(lambda a: (a**2, a + 1), has_aux=True)(x)
two = f.hessian(lambda a, b: (a * b).sum() ** 2, argnums=(0, 1))(x, w)
? pair, named, aux, two, f.jacrev(lambda a: w)(x)
== vmaps
vmap = t.vmap
a = t.arange(6.0, device=d).reshape(2, 3)
b = t.arange(12.0, device=d).reshape(3, 4)
v = t.tensor([1.0, -2.0, 0.5], device=d)
? vmap(t.dot)(a, a), vmap(t.dot, (0, None))(a, v), vmap(lambda x: x * 2, 1)(a),
  vmap(lambda x: x * 2, in_dims=1, out_dims=1)(a), vmap(lambda x: (x.sum(), x))(a),
  vmap(lambda x: (x.sum(), x), out_dims=(0, 1))(a), vmap(vmap(lambda x: x.exp()))(a),
  vmap(vmap(t.mul, (None, 0)), (0, None))(v, v), vmap(lambda x, y: x @ y, (None, 1))(a, b),
  vmap(lambda p: {"r": p["x"] + p["y"][0]}, ({"x": 0, "y": [None]},))({"x": a, "y": [v]}),
  vmap(lambda x: x.sum(-1), in_dims=-1)(b), vmap(lambda x, k=2: x * k, chunk_size=1)(a),
  f.vmap(lambda x: x.sum(), out_dims=-1)(a), vmap(lambda x, y: x + y)(a, (a > 2).long()),
  vmap(lambda x, n: x * n, (0, None))(a, 3)
== func errors
! f.grad(lambda a: a)(x) | f.grad(lambda a: 3.0)(x) | f.grad(lambda a: a.sum(), argnums=2)(x)
! f.grad(lambda a: a.sum(), has_aux=True)(x) | f.vjp(lambda a: a, x)[1]((x, x))
! f.jvp(lambda a: a, (x,), (t.ones(2, device=d),)) | f.jvp(lambda a: a, x, w)
! t.vmap(lambda a: 3)(x) | t.vmap(lambda a, b: a)(x, t.ones(2, device=d))
! t.vmap(lambda a: a, in_dims=3)(x) | t.vmap(lambda a: a, in_dims=(0, 0))(x)
! t.vmap(lambda a: a)(3) | t.vmap(lambda: 1)() | t.vmap(lambda a: a, randomness="odd")(x)
! t.vmap(lambda a: a, in_dims=None)(x) | t.vmap(lambda a: a.sum(), out_dims=(0, 0))(x)
== modules as functions
call = f.functional_call
m = layer(t, d)
params = {k: (v * 0.5).detach() for k, v in m.named_parameters()}
before = m(x)
halved = call(m, params, (x,))
some = call(m, {"0.bias": t.ones(2, device=d)}, x)
both = call(m, ({"0.bias": params["0.bias"]}, {"2.bias": params["2.bias"]}), args=(x,))
g = f.grad(lambda p: call(m, p, (x,)).sum())(params)
per_sample = t.vmap(f.grad(lambda p, v: call(m, p, (v,)).sum()), (None, 0))(
    params, t.stack([x, w])
)
? before, halved, some, both, g, m(x), per_sample
! call(m, [3], (x,)) | call(m, 3, (x,)) | call(m, {"0.bias": w}, (x,), strict=True)
! call(m, (params, params), (x,))
== tied modules
class Tied(t.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = t.nn.Linear(2, 2, bias=False)
        self.b = t.nn.Linear(2, 2, bias=False)
        self.b.weight = self.a.weight
        self.register_buffer("scale", t.ones(1))
    def forward(self, x, factor=1.0):
        return self.b(self.a(x)) * self.scale * factor
m = Tied().to(d)
x = t.ones(1, 2, device=d)
new = {"a.weight": t.eye(2, device=d) * 3, "scale": t.full((1,), 2.0, device=d)}
call = f.functional_call
alone = call(m, {**new, "b.weight": t.eye(2, device=d)}, x, {"factor": 2.0}, tie_weights=False)
? call(m, new, (x,)), alone, m.scale
== ensembles
models = [layer(t, d) for _ in range(3)]
with t.no_grad():
    models[1][0].bias.add_(1)
params, buffers = f.stack_module_state(models)
? t.vmap(lambda p, b: f.functional_call(models[0], (p, b), (x,)))(params, buffers)
? params, buffers
! f.stack_module_state([])
""",
    points,
)


def test_value_and_grad(device: str) -> None:
    x = pf.tensor([1.0, 2.0], device=device)
    value, g = pf.func.value_and_grad(lambda a: (a**2).sum())(x)
    assert (value.item(), g.tolist()) == (5, [2, 4])
