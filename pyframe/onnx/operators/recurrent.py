"""LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyframe as pf
from pyframe.nn import functional as F
from pyframe.onnx import values
from pyframe.onnx.operators.movement import reverse_sequence
from pyframe.onnx.table import op
from pyframe.tensor import Tensor

_ACTIVATIONS: dict[str, Callable[[Tensor, float, float], Tensor]] = {
    "Sigmoid": lambda x, a, b: pf.sigmoid(x),
    "Tanh": lambda x, a, b: pf.tanh(x),
    "Relu": lambda x, a, b: F.relu(x),
    "Affine": lambda x, a, b: a * x + b,
    "LeakyRelu": lambda x, a, b: F.leaky_relu(x, a),
    "ThresholdedRelu": lambda x, a, b: pf.where(x > a, x, 0),
    "ScaledTanh": lambda x, a, b: a * pf.tanh(b * x),
    "HardSigmoid": lambda x, a, b: pf.clamp(a * x + b, 0, 1),
    "Elu": lambda x, a, b: F.elu(x, a),
    "Softsign": lambda x, a, b: F.softsign(x),
    "Softplus": lambda x, a, b: F.softplus(x),
}
_ALPHA = {"LeakyRelu": 0.01, "ThresholdedRelu": 1.0, "HardSigmoid": 0.2, "Elu": 1.0, "Affine": 1.0,
          "ScaledTanh": 1.0}  # fmt: skip
_BETA = {"HardSigmoid": 0.5, "ScaledTanh": 1.0, "Affine": 0.0}

State = tuple[Tensor, ...]
Step = Callable[[Tensor, State], State]


def _functions(names: Any, usual: list[str], alphas: Any, betas: Any, at: int) -> list[Any]:
    """The activations of direction `at`; those that take numbers take the next ones."""
    named = names or usual * (at + 1)
    alphas, betas = list(alphas or ()), list(betas or ())
    found = []
    for name in named:
        known = {n.lower(): n for n in _ACTIVATIONS}
        if name.lower() not in known:
            raise NotImplementedError(f"the activation {name!r}")
        name = known[name.lower()]
        a = alphas.pop(0) if name in _ALPHA and alphas else _ALPHA.get(name, 0.0)
        b = betas.pop(0) if name in _BETA and betas else _BETA.get(name, 0.0)
        found.append(lambda x, f=_ACTIVATIONS[name], a=a, b=b: f(x, a, b))
    return found[at * len(usual) : (at + 1) * len(usual)]


def _walk(x: Tensor, lens: Tensor | None, reverse: bool, state: State, step: Step) -> Any:
    """(T, B, ...) along time: all outputs and the last state."""
    if reverse:
        x = x.flip(0) if lens is None else reverse_sequence(x, lens, batch_axis=1, time_axis=0)
    values.see_end(x.shape[0], "steps")
    outputs = []
    for t in range(x.shape[0]):
        new = step(x[t], state)
        if lens is None:
            outputs.append(new[0])
            state = new
        else:
            on = (t < lens)[:, None]
            outputs.append(pf.where(on, new[0], 0))
            state = tuple(pf.where(on, n, old) for n, old in zip(new, state, strict=True))
    y = pf.stack(outputs)
    if reverse:
        y = y.flip(0) if lens is None else reverse_sequence(y, lens, batch_axis=1, time_axis=0)
    return y, state


def _directions(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, lens: Tensor | None, initial: list[Tensor],
    reverse: bool, cell: Callable[[int], Step],
) -> Any:  # fmt: skip
    """The outputs (T, directions, B, hidden) and the last states, step by step."""
    ys, ends = [], []
    for i in range(w.shape[0]):
        given = F.linear(x, w[i], None if b is None else b[i].chunk(2)[0])
        state = tuple(s[i] for s in initial)
        found, end = _walk(given, lens, reverse or i == 1, state, cell(i))
        ys.append(found)
        ends.append(end)
    return pf.stack(ys, 1), [pf.stack(parts) for parts in zip(*ends, strict=True)]


def _ordered(weight: Tensor, order: list[int]) -> Tensor:
    """Rows of gates in another order."""
    parts = weight.chunk(len(order))
    return pf.cat([parts[i] for i in order])


def _fused(function: Any, order: list[int]) -> Any:
    """PyTorch's function of all steps, whose gates come in another order."""

    def run(x: Tensor, initial: list[Tensor], w: Tensor, r: Tensor, b: Tensor | None) -> Any:
        weights = []
        for i in range(w.shape[0]):
            weights += [_ordered(w[i], order), _ordered(r[i], order)]
            if b is not None:
                weights += [_ordered(half, order) for half in b[i].chunk(2)]
        hx = initial if len(initial) > 1 else initial[0]
        return function(x, hx, weights, b is not None, 1, 0.0, False, w.shape[0] > 1, False)

    return run


def _lstm(linear: Any, fns: Any, cut: Any, more: Any, p: Tensor | None) -> Step:
    f, g, k = fns
    peeps = (None, None, None) if p is None else p.chunk(3)

    def seen(x: Tensor, c: Tensor, at: int) -> Tensor:
        return f(cut(x if peeps[at] is None else x + peeps[at] * c))

    def step(x: Tensor, state: State) -> State:
        h, c = state
        i, o, forget, new = (x + linear(h, 0, 4)).chunk(4, -1)
        i = seen(i, c, 0)
        forget = 1 - i if more["input_forget"] else seen(forget, c, 2)
        c = forget * c + i * g(cut(new))
        return seen(o, c, 1) * k(c), c

    return step


def _gru(linear: Any, fns: Any, cut: Any, more: Any, p: Tensor | None) -> Step:
    f, g = fns

    def step(x: Tensor, state: State) -> State:
        (h,) = state
        n = 2 * h.shape[-1]
        z, reset = f(cut(x[:, :n] + linear(h, 0, 2))).chunk(2, -1)
        before = more["linear_before_reset"]
        inner = reset * linear(h, 2, 3) if before else linear(reset * h, 2, 3)
        new = g(cut(x[:, n:] + inner))
        return ((1 - z) * new + z * h,)

    return step


def _rnn(linear: Any, fns: Any, cut: Any, more: Any, p: Tensor | None) -> Step:
    return lambda x, state: (fns[0](cut(x + linear(state[0], 0, 1))),)


# of each operator: what makes its step, its usual activations, PyTorch's function of all steps and
# the order of its gates
_LAYERS: dict[str, tuple[Callable[..., Step], list[str], Any, list[int]]] = {
    "LSTM": (_lstm, ["Sigmoid", "Tanh", "Tanh"], pf.lstm, [0, 2, 3, 1]),
    "GRU": (_gru, ["Sigmoid", "Tanh"], pf.gru, [1, 0, 2]),
    "RNN": (_rnn, ["Tanh"], pf.rnn_tanh, [0]),
}


def _layer(kind: str) -> None:
    make, usual, function, order = _LAYERS[kind]

    @op(kind)
    def layer(
        x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lens: Tensor | None = None,
        h: Tensor | None = None, c: Tensor | None = None, p: Tensor | None = None, *,
        activations: Any = None, activation_alpha: Any = None, activation_beta: Any = None,
        clip: float | None = None, direction: str, hidden_size: int | None = None,
        input_forget: int = 0, linear_before_reset: int = 0, layout: int = 0,
        output_sequence: int = 0,
    ) -> Any:  # fmt: skip
        """Y, and the last states."""
        states = [h, c] if kind == "LSTM" else [h]
        if layout:
            x = x.transpose(0, 1)
            states = [s if s is None else s.transpose(0, 1) for s in states]
        zero = pf.zeros(w.shape[0], x.shape[1], r.shape[2], dtype=x.dtype, device=x.device)
        initial = [zero if s is None else s for s in states]
        named = [n == usual[i % len(usual)] for i, n in enumerate(activations or ())]
        plain = all(named) and not clip and p is None and not input_forget
        plain = plain and lens is None and direction != "reverse" and x.shape[0] > 2
        if plain and (kind != "GRU" or linear_before_reset):
            y, *last = _fused(function, order)(x, initial, w, r, b)
            y = y.unflatten(2, r.shape[::2]).movedim(2, 1)
        else:
            more = {"input_forget": input_forget, "linear_before_reset": linear_before_reset}

            def cell(at: int) -> Step:
                fns = _functions(activations, usual, activation_alpha, activation_beta, at)
                weight, n = r[at], r.shape[2]
                bias = None if b is None else b[at].chunk(2)[1]

                def linear(h: Tensor, first: int, end: int) -> Tensor:
                    gates = slice(first * n, end * n)
                    return F.linear(h, weight[gates], None if bias is None else bias[gates])

                cut = lambda v: v.clamp(-clip, clip) if clip else v  # noqa: E731
                return make(linear, fns, cut, more, None if p is None else p[at])

            y, last = _directions(x, w, r, b, lens, initial, direction == "reverse", cell)
        if layout:
            y, last = y.permute(2, 0, 1, 3), [s.transpose(0, 1) for s in last]
        return (y, *last)


for _kind in _LAYERS:
    _layer(_kind)
