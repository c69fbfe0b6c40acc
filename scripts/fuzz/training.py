"""Known nets at odd sizes: some steps of training, compiled."""

from __future__ import annotations

from . import nets
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
