"""Known nets at odd sizes: some steps of training, compiled."""

from __future__ import annotations

import math

from . import nets
from .check import Living
from .families import Draw, family

OPTIMIZERS = ["SGD(P, lr=0.05)", "SGD(P, lr=0.05, momentum=0.9, nesterov=True)", "Adam(P, EPS)",
              "AdamW(P, EPS, weight_decay=0.1)", "RMSprop(P, EPS)"]  # fmt: skip
EPS = "lr=1e-3, eps=1e-3"  # with a small one a gradient that is rounding alone makes a full step


@family("nets")
def training(d: Draw) -> None:
    name = d.pick(*nets.NETS)
    d.real, d.mode = "float32", "none"
    arguments, shape, kind = nets.NETS[name].drawn(d)
    d.net(f"nets.{name}(T, {arguments})")
    d.setup.append(
        f"opt = T.optim.{d.pick(*OPTIMIZERS).replace('EPS', EPS).replace('P', 'net.parameters()')}"
    )
    d.arg("x", shape, kind, grad=False)
    d.line("opt.zero_grad()")
    d.line("out = net(x)")
    d.line("loss = (out * out.detach().cos()).mean()")
    d.line("loss.backward()")
    d.line("opt.step()")
    d.results("loss.detach(), out.detach(), *[p + 0 for p in net.state_dict().values()]")


W, M, X = "{|, weight_decay=0.1}", "{||, maximize=True}", "{|||, foreach=True|, foreach=False}"
F = X.replace("}", "|, fused=True}")
TWO = "{|, betas=(0.7, 0.8)}"
STEPPED = f"""
SGD(P, lr=0.1{{|, momentum=0.9{{|, nesterov=True}}|, momentum=0.5, dampening=0.3}}{W}{M}{F})
Adam(P, lr=0.1{{|, amsgrad=True}}{{|, decoupled_weight_decay=True}}{TWO}{W}{M}{F})
AdamW(P, lr=0.1{{|, amsgrad=True}}{TWO}{W}{M}{F})  ASGD(P, lr=0.1{{|, t0=1, lambd=0.1}}{W}{M}{X})
Adagrad(P, lr=0.1{{|, lr_decay=0.1, initial_accumulator_value=0.2}}{W}{M}{F})
Adadelta(P{{|, lr=0.5, rho=0.7}}{W}{M}{X})  Adafactor(P, lr=0.1{{|, d=1.5, beta2_decay=-0.5}}{W}{M})
RMSprop(P, lr=0.1{{|, momentum=0.9}}{{|, centered=True}}{W}{M}{X})  Adamax(P, lr=0.1{TWO}{W}{M}{X})
Rprop(P, lr=0.1{{|, etas=(0.3, 1.7), step_sizes=(1e-3, 0.3)}}{M}{X})
NAdam(P, lr=0.1{{|, momentum_decay=0.1}}{{|, decoupled_weight_decay=True}}{TWO}{W}{M}{X})
RAdam(P, lr=0.1{{|, decoupled_weight_decay=True}}{TWO}{W}{M}{X})
LBFGS([p, q], lr=0.5, max_iter={{1|3}}{{|, history_size=2}})"""
GROUPS = """[p, q]  [p, q]  [dict(params=[p], lr=0.03), dict(params=q)]
[dict(params=[q, p], maximize=True)]  [dict(params=q), dict(params=p, lr=rate)]
[dict(params=p, weight_decay=0.2), dict(params=q, lr=0.02, maximize=True)]"""
SCHEDULES = """
StepLR(O, {1|2}, 0.5)  MultiStepLR(O, [1, 3], 0.3)  ExponentialLR(O, 0.8)  ConstantLR(O, 0.5, 2)
LinearLR(O, 0.3, total_iters=3)  PolynomialLR(O, 4, {1.0|2.0})  CosineAnnealingLR(O, {2|5}, 0.01)
CosineAnnealingWarmRestarts(O, {2|3}, {1|2})  LambdaLR(O, lambda e: 0.9 ** e)
MultiplicativeLR(O, lambda e: 0.9)  CyclicLR(O, 0.01, 0.2, 2, cycle_momentum=False)
OneCycleLR(O, 0.2, 9, cycle_momentum=False)  ReduceLROnPlateau(O, patience=0)"""
BOTH = ["SequentialLR(O, [A, L.B], [2])", "ChainedScheduler([A, L.B], O)"]
LOADS = """a = o[0].state_dict(); o[0] = new(); o[0].load_state_dict(a)
f = io.BytesIO(); T.save(o[0].state_dict(), f); f.seek(0); o[0].load_state_dict(T.load(f))
o[0].add_param_group(dict(params=[u], lr=0.01))  o[0].param_groups[0]['lr'] = 0.07"""


@family("optimizers")
def optimizers(d: Draw) -> Living:
    """Steps with groups, flags, schedules and a GradScaler; states are saved and loaded."""
    d.mode, d.calls = "none", d.pick(4, 6)
    d.real = d.pick("float32", "float32", "float64", d.pick("float16", "bfloat16"))
    shapes = d.shape(1, 3), d.shape(0, 2), (3,)
    for name, shape in zip("pqu", shapes, strict=True):
        made = f"np.linspace(-1, 1, {math.prod(shape)}).reshape({shape}).astype('float32')"
        made = f"T.from_numpy(np.asarray({made})).to(T.{d.real})"
        d.setup.append(f"{name} = wide({made}).to(device).requires_grad_()")
        d.arg(name * 2, shape, grad=False)
    made = d.one(STEPPED).replace("(P", f"({d.one(GROUPS)}")
    loss = "sum((v * w + v * v * 0.1).sum() for v, w in ((p, pp), (q, qq), (u, uu)))"
    d.setup += ["import io", "rate = T.tensor(0.05, dtype=T.float64)",
                f"new = lambda: T.optim.{d.text(made)}", "o = [new()]",
                f"loss = lambda pp, qq, uu: {loss}"]  # fmt: skip
    d.line("o[0].zero_grad({|set_to_none=False})")
    if "LBFGS" in made:
        d.line("def again(): o[0].zero_grad(); v = loss(pp, qq, uu); v.backward(); return v")
        d.line("y = o[0].step(again)")
    elif d.maybe(0.2):
        d.setup.append("s = T.amp.GradScaler(device, init_scale=8.0, growth_interval=2)")
        d.line("y = loss(pp, qq, uu)")
        d.line("s.scale(y).backward()")
        d.perhaps(0.5, """s.unscale_(o[0])
                  s.unscale_(o[0]); T.nn.utils.clip_grad_norm_([p, q], 0.5)""")  # fmt: skip
        d.line("s.step(o[0]); s.update()")
        d.before.append(f"pp = pp * float('inf') if call == {d.int(0, 3)} else pp")
        d.after.append("y.append(s.get_scale())")
    else:
        d.line("y = loss(pp, qq, uu); y.backward()")
        d.perhaps(0.2, """T.nn.utils.clip_grad_norm_([p, q], 0.5)
                  T.nn.utils.clip_grad_value_([p, q], 0.3)""")  # fmt: skip
        d.line("o[0].step()")
    d.results("y.detach() * 1, *[v.detach() * 1 for v in (p, q, u)]")
    if d.maybe(0.4):
        d.before.append(f"if call == {d.int(1, 3)}: {d.one(LOADS)}")
    elif d.maybe(0.6):
        one, two = (f"L.{d.text(d.one(SCHEDULES))}" for _ in "12")
        if d.maybe(0.3) and "Plateau" not in one + two:
            one = f"L.{d.pick(*BOTH)}".replace("A", one, 1).replace("L.B", two)
        one = one.replace("(O,", "(o[0],").replace(", O)", ", o[0])")
        d.setup += ["L = T.optim.lr_scheduler", f"sched = lambda: {one}", "c = [sched()]"]
        d.after.append(f"c[0].step({'float(y[0])' if 'Plateau' in one else ''})")
        d.after.append("y += [float(g['lr']) for g in o[0].param_groups]")
        if d.maybe(0.4):
            d.before.append("a, b = o[0].state_dict(), c[0].state_dict()")
            again = "o[0] = new(); c[0] = sched(); o[0].load_state_dict(a); c[0].load_state_dict(b)"
            d.before.append(f"if call == {d.int(1, 3)}: {again}")
    return Living(d.program())
