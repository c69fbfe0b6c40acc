"""LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyframe as pf
from pyframe.nn import functional as F
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
_BETA = {"HardSigmoid": 0.5, "ScaledTanh": 1.0}

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


def _recurrent(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, lens: Tensor | None,
    states: list[Tensor | None], direction: str, layout: int, cell: Callable[..., Any],
    fused: Callable[..., Any] | None, peephole: Tensor | None = None,
) -> Any:  # fmt: skip
    """Y, and the last states. `cell` makes a step of a direction's weights."""
    if layout:
        x = x.transpose(0, 1)
        states = [s if s is None else s.transpose(0, 1) for s in states]
    count, hidden = w.shape[0], r.shape[2]
    zero = pf.zeros(count, x.shape[1], hidden, dtype=x.dtype, device=x.device)
    initial = [zero if s is None else s for s in states]
    if fused is not None and lens is None and direction != "reverse" and x.shape[0] > 2:
        y, *last = fused(x, initial, w, r, b)
        y = y.unflatten(2, (count, hidden)).movedim(2, 1)
    else:
        ys, ends = [], []
        for i in range(count):
            backward = direction == "reverse" or i == 1
            step, given = cell(x, w[i], r[i], None if b is None else b[i], i, peephole)
            found, end = _walk(given, lens, backward, tuple(s[i] for s in initial), step)
            ys.append(found)
            ends.append(end)
        y = pf.stack(ys, 1)
        last = [pf.stack(parts) for parts in zip(*ends, strict=True)]
    if layout:
        y, last = y.permute(2, 0, 1, 3), [s.transpose(0, 1) for s in last]
    return (y, *last)


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


def _cut(x: Tensor, clip: float | None) -> Tensor:
    return x.clamp(-clip, clip) if clip else x


def _halves(b: Tensor | None) -> Any:
    """The biases of the input and of the state."""
    return (None, None) if b is None else b.chunk(2)


def _usual(names: Any, usual: list[str], clip: Any) -> bool:
    return not clip and (not names or all(n == usual[i % len(usual)] for i, n in enumerate(names)))


@op("LSTM")
def lstm(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lens: Tensor | None = None,
    h: Tensor | None = None, c: Tensor | None = None, p: Tensor | None = None, *,
    activations: Any = None, activation_alpha: Any = None, activation_beta: Any = None,
    clip: float | None = None, direction: str, hidden_size: int | None = None,
    input_forget: int, layout: int = 0, output_sequence: int = 0,
) -> Any:  # fmt: skip
    usual = ["Sigmoid", "Tanh", "Tanh"]

    def cell(x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, at: int, p: Any) -> Any:
        f, g, k = _functions(activations, usual, activation_alpha, activation_beta, at)
        pi, po, pf_ = (None, None, None) if p is None else p[at].chunk(3)
        wb, rb = _halves(b)

        def step(x: Tensor, state: State) -> State:
            h, c = state
            i, o, forget, new = (x + F.linear(h, r, rb)).chunk(4, -1)
            i, o, forget, new = (_cut(v, clip) for v in (i, o, forget, new))
            i = f(i if pi is None else i + pi * c)
            forget = 1 - i if input_forget else f(forget if pf_ is None else forget + pf_ * c)
            c = forget * c + i * g(new)
            o = f(o if po is None else o + po * c)
            return o * k(c), c

        return step, F.linear(x, w, wb)

    plain = p is None and not input_forget and _usual(activations, usual, clip)
    fused = _fused(pf.lstm, [0, 2, 3, 1]) if plain else None
    return _recurrent(x, w, r, b, lens, [h, c], direction, layout, cell, fused, p)


@op("GRU")
def gru(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lens: Tensor | None = None,
    h: Tensor | None = None, *, activations: Any = None, activation_alpha: Any = None,
    activation_beta: Any = None, clip: float | None = None, direction: str,
    hidden_size: int | None = None, linear_before_reset: int = 0, layout: int = 0,
    output_sequence: int = 0,
) -> Any:  # fmt: skip
    usual = ["Sigmoid", "Tanh"]

    def cell(x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, at: int, p: Any) -> Any:
        f, g = _functions(activations, usual, activation_alpha, activation_beta, at)
        n = r.shape[1]
        wb, rb = _halves(b)

        def step(x: Tensor, state: State) -> State:
            (h,) = state
            both = F.linear(h, r[: 2 * n], None if rb is None else rb[: 2 * n])
            z, reset = f(_cut(x[:, : 2 * n] + both, clip)).chunk(2, -1)
            bias = None if rb is None else rb[2 * n :]
            if linear_before_reset:
                inner = reset * F.linear(h, r[2 * n :], bias)
            else:
                inner = F.linear(reset * h, r[2 * n :], bias)
            new = g(_cut(x[:, 2 * n :] + inner, clip))
            return ((1 - z) * new + z * h,)

        return step, F.linear(x, w, wb)

    plain = linear_before_reset and _usual(activations, usual, clip)
    fused = _fused(pf.gru, [1, 0, 2]) if plain else None
    return _recurrent(x, w, r, b, lens, [h], direction, layout, cell, fused)


@op("RNN")
def rnn(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lens: Tensor | None = None,
    h: Tensor | None = None, *, activations: Any = None, activation_alpha: Any = None,
    activation_beta: Any = None, clip: float | None = None, direction: str,
    hidden_size: int | None = None, layout: int = 0, output_sequence: int = 0,
) -> Any:  # fmt: skip
    def cell(x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, at: int, p: Any) -> Any:
        (f,) = _functions(activations, ["Tanh"], activation_alpha, activation_beta, at)
        wb, rb = _halves(b)

        def step(x: Tensor, state: State) -> State:
            total = x + F.linear(state[0], r, rb)
            return (f(_cut(total, clip)),)

        return step, F.linear(x, w, wb)

    plain = _usual(activations, ["Tanh"], clip)
    return _recurrent(
        x, w, r, b, lens, [h], direction, layout, cell,
        _fused(pf.rnn_tanh, [0]) if plain else None,
    )  # fmt: skip
