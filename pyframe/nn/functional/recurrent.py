"""Recurrent networks and their cells: torch's lstm, gru, rnn_tanh, rnn_relu and *_cell.

The products with the inputs of all steps are one product, outside the loop; a step is a product
with the state and elementwise ops: 1 dispatch of a GPU, or of gates whose products are large 2.
Backward walks the steps the other way: what their gradients are multiplied with is computed for all
of them at once before, the gradients of weights are one product over all of them behind.

Rows lie as in a PackedSequence, step by step: (T * B, …) where all sequences are as long.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, overload

from pyframe.autograd.function import Function
from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, runs_kernel
from pyframe.core.modes import is_grad_enabled, mode
from pyframe.core.sizes import is_symbolic_size, size_hint, size_hints
from pyframe.nn.functional.dropouts import dropout as _dropout
from pyframe.nn.functional.linear_maps import linear
from pyframe.ops.api.autocast import autocast
from pyframe.ops.api.public import as_public, publish
from pyframe.ops.index.rows import take_rows
from pyframe.ops.linalg.matmul import matmul, matmul_op, sum_over
from pyframe.ops.math import elementwise as el
from pyframe.ops.reduce import reductions as rd
from pyframe.ops.shape import join, movement as mv
from pyframe.tensor import Tensor
from pyframe.tensor.subgraph import call_cached

__all__ = [
    "gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh",
    "rnn_tanh_cell",
]  # fmt: skip


# --- what a step computes


class _Cell:
    """A step and its gradient, of n sequences. `x` and `p` (n, gates * H) are the products with
    the input and with the state, `h` and `c` the state."""

    gates = 1
    keeps = False  # whether `step` finds what `slopes` needs to know: `kept` of x and p
    bias_apart = False  # whether b_hh may not be added to the product with the input
    from_dh = False  # whether `finish` begins with the gradient of h, not with that of p

    def step(self, x: Tensor, p: Any, h: Tensor, c: Any) -> tuple[Any, Tensor, Any]:
        """What `slopes` needs to know, and the next h and c; `p` may be a list of the gates'."""
        raise NotImplementedError

    def kept(self, x: Any, p: Any) -> Any:
        """What `slopes` needs to know."""
        return None

    def slopes(self, x: Tensor, kept: Any, h: Any, c: Any) -> tuple[Tensor, ...]:
        """What `back` multiplies gradients with, for the rows of all steps; `h` and `c` are pairs:
        before a step and behind it."""
        raise NotImplementedError

    def back(self, slopes: list[Tensor], dh: Tensor, dc: Any) -> tuple[Tensor, Any, Any]:
        """The gradients of p, of h (without what it gets through p) and of c before a step."""
        raise NotImplementedError

    def finish(self, slopes: Any, d: Tensor, more: Tensor | None) -> tuple[Tensor, Tensor]:
        """The gradients of x and p for all steps; `more` is that of what was kept."""
        return d, d


class _RNN(_Cell):
    """h = f(x + p) (Elman 1990)."""

    def __init__(self, relu: bool) -> None:
        self.relu = relu

    def step(self, x: Tensor, p: Tensor, h: Tensor, c: Any) -> tuple[Any, Tensor, Any]:
        return None, el.relu(x + p) if self.relu else el.tanh(x + p), None

    def slopes(self, x: Tensor, kept: Any, h: Any, c: Any) -> tuple[Tensor, ...]:
        y = h[1]
        return (el.gt(y, 0).to(y.dtype) if self.relu else 1.0 - y * y,)

    def back(self, slopes: list[Tensor], dh: Tensor, dc: Any) -> tuple[Tensor, Any, Any]:
        return dh * slopes[0], None, None


class _LSTM(_Cell):
    """c = sigmoid(f) * c + sigmoid(i) * tanh(g), h = sigmoid(o) * tanh(c) of the parts i, f, g, o
    of x + p (Hochreiter & Schmidhuber 1997)."""

    gates = 4
    keeps = True

    def step(self, x: Tensor, p: Any, h: Tensor, c: Any) -> tuple[Any, Tensor, Any]:
        a = self.kept(x, p)
        i, f, g, o = _parts(a, 4)
        c = el.sigmoid(f) * c + el.sigmoid(i) * el.tanh(g)
        return a, el.sigmoid(o) * el.tanh(c), c

    def slopes(self, x: Tensor, kept: Any, h: Any, c: Any) -> tuple[Tensor, ...]:
        i, f, g, o = _parts(kept, 4)
        i, f, g, o, t = el.sigmoid(i), el.sigmoid(f), el.tanh(g), el.sigmoid(o), el.tanh(c[1])
        of_p = [g * i * (1.0 - i), c[0] * f * (1.0 - f), i * (1.0 - g * g), t * o * (1.0 - o)]
        return join.stack(of_p, 1), o * (1.0 - t * t), f

    def back(self, slopes: list[Tensor], dh: Tensor, dc: Any) -> tuple[Tensor, Any, Any]:
        of_p, of_c, f = slopes
        dc = dh * of_c if dc is None else dh * of_c + dc
        return _flat(join.stack([dc, dc, dc, dh], 1) * of_p), None, dc * f

    def kept(self, x: Any, p: Any) -> Any:
        return (
            x + p
            if isinstance(p, Tensor)
            else [a + b for a, b in zip(_parts(x, 4), p, strict=True)]
        )

    def hidden(self, kept: Tensor, c: Tensor) -> Tensor:
        """h, which a projection was applied to."""
        return el.sigmoid(_parts(kept, 4)[3]) * el.tanh(c)


class _GRU(_Cell):
    """h = n + z * (h - n), n = tanh(x_n + r * p_n), r and z = sigmoid(x + p) (arXiv 1406.1078)."""

    gates = 3
    keeps = bias_apart = from_dh = True

    def step(self, x: Tensor, p: Any, h: Tensor, c: Any) -> tuple[Any, Tensor, Any]:
        _, z, n, _ = self._gates(x, p)
        return p, n + z * (h - n), None

    def kept(self, x: Any, p: Any) -> Any:
        return p

    def _gates(self, x: Tensor, p: Any) -> tuple[Tensor, ...]:
        (x_r, x_z, x_n), (p_r, p_z, p_n) = _parts(x, 3), _parts(p, 3)
        r = el.sigmoid(x_r + p_r)
        return r, el.sigmoid(x_z + p_z), el.tanh(x_n + r * p_n), p_n

    def slopes(self, x: Tensor, kept: Any, h: Any, c: Any) -> tuple[Tensor, ...]:
        r, z, n, p_n = self._gates(x, kept)
        of_n = (1.0 - z) * (1.0 - n * n)
        of_rz = [of_n * p_n * r * (1.0 - r), (h[0] - n) * z * (1.0 - z)]
        return join.stack([*of_rz, of_n * r], 1), z, join.stack([*of_rz, of_n], 1)

    def back(self, slopes: list[Tensor], dh: Tensor, dc: Any) -> tuple[Tensor, Any, Any]:
        of_p, z, _ = slopes
        return _flat(mv.unsqueeze(dh, 1) * of_p), dh * z, None

    def finish(self, slopes: Any, d: Tensor, more: Tensor | None) -> tuple[Tensor, Tensor]:
        of_p, _, of_x = slopes
        d = mv.unsqueeze(d, 1)
        return _flat(d * of_x), _plus(_flat(d * of_p), more)


def _parts(x: Any, n: int, dim: int = 1) -> list[Tensor]:
    """(rows, n * H) as n of (rows, H), which may be given."""
    if isinstance(x, list):
        return x
    size = x.shape[dim] // n
    return [mv.part(x, dim, i * size, size) for i in range(n)]


FEW_MULTIPLICATIONS = 1 << 22  # multiplications of a step whose dispatch costs more than they do


def _apart(cell: _Cell, steps: _TimeSteps, w: Tensor) -> bool:
    """Whether the gates' products are sums of a kernel that does the whole step, in which each unit
    is added up by itself; what `slopes` needs to know is then computed again for all steps."""
    rows = max([size_hint(n) for _, n in steps.rows], default=0)
    return (
        cell.gates > 1
        and runs_kernel(matmul_op, w.device)
        and rows * w.numel() <= FEW_MULTIPLICATIONS
    )


def _summed(h: Tensor, w: Tensor, b: Any) -> Tensor:
    """(n, K) times (H, K), as a sum for each result."""
    x, y = mv.unsqueeze(h, 1), mv.unsqueeze(w, 0)
    if h.dtype.itemsize == 2:
        x, y = x.to(dt.float32), y.to(dt.float32)
    p = sum_over(x * y, -1).to(h.dtype)
    return p if b is None else p + b


def _flat(x: Tensor) -> Tensor:
    rows, gates, size = x.shape
    return x.reshape(rows, gates * size)


def _plus(x: Any, y: Any) -> Any:
    return y if x is None else x if y is None else x + y


_TANH, _RELU, _LONG, _GATED = _RNN(relu=False), _RNN(relu=True), _LSTM(), _GRU()


# --- all steps


class _TimeSteps:
    """Where the rows of each step lie, in the order of the walk: sequences end on the way, or, when
    they are walked from their ends, begin on it."""

    def __init__(self, sizes: Sequence[int], reverse: bool) -> None:
        starts = itertools.accumulate(sizes, initial=0)
        self.rows = [(start, n) for start, n in zip(starts, sizes, strict=False)]
        self.reverse = reverse
        if reverse:
            self.rows.reverse()

    @property
    def walked(self) -> _TimeSteps:
        """What says how they are walked, and holds no tensor."""
        return self

    def at_present(self) -> _TimeSteps:
        """The same with numbers for sizes that change."""
        out = copy.copy(self)
        vars(out).update({k: size_hints(v) for k, v in vars(self).items()})
        return out

    def joined(self, found: list[Any]) -> Any:
        """What was found on the way, one a step, as rows."""
        return None if found[0] is None else join.cat(found[::-1] if self.reverse else found)

    def before(self, first: Tensor, rows: Tensor) -> Tensor:
        """The state before each row, given those at the beginning and behind each."""
        found: list[list[Any]] = []
        at, there = 0, 0
        for start, n in self.rows:
            old = [(rows, at, min(n, there))] if there else []
            found.append(old + ([(first, there, n - there)] if n > there else []))
            at, there = start, n
        parts = [p for step in (found[::-1] if self.reverse else found) for p in step]
        return _pieces(parts or [(rows, 0, 0)])

    def last(self, rows: Tensor) -> Tensor:
        """(B, H): the state at the end of each sequence."""
        found, done = [], 0
        for start, n in reversed(self.rows):
            if n > done:
                found.append((rows, start + done, n - done))
                done = n
        return _pieces(found or [(rows, 0, 0)])

    def entered(self, rows: Tensor) -> Tensor:
        """Rows of all steps as they are walked."""
        return rows

    def left(self, rows: Tensor) -> Tensor:
        """What was found, as rows of all steps."""
        return rows

    def stored(self, grad: Tensor) -> Tensor:
        """The gradient of what was found, in memory."""
        return grad


FEWEST = 16  # steps of sequences whose length changes


class _AnySteps(_TimeSteps):
    """The steps of sequences of a length that changes: as many as the next power of two, so that
    few captures are for all lengths. What lies behind the end is 0, and reaches no result."""

    def __init__(self, length: Any, batch: Any, reverse: bool) -> None:
        steps = FEWEST
        while steps < length:
            steps *= 2
        super().__init__([batch] * steps, False)
        self.length, self.batch, self.turned, self.steps = length, batch, reverse, steps

    def _turned(self, rows: Tensor) -> Tensor:
        if not self.turned:
            return rows
        x = rows.reshape(self.length, self.batch, rows.shape[1])
        return mv.flip(x, 0).reshape(rows.shape)

    def entered(self, rows: Tensor) -> Tensor:
        more = (self.steps - self.length) * self.batch
        return join.cat([self._turned(rows), rows.new_zeros(more, rows.shape[1])])

    def left(self, rows: Tensor) -> Tensor:
        return self._turned(mv.part(rows, 0, 0, self.length * self.batch))

    def stored(self, grad: Tensor) -> Tensor:
        """Else each step would ask which of its rows lie behind the end."""
        return join.cat([grad, grad.new_zeros(1, grad.shape[1])])

    def last(self, rows: Tensor) -> Tensor:
        return mv.part(rows, 0, (self.length - 1) * self.batch, self.batch)


class _EndedSteps(_TimeSteps):
    """The steps of padded sequences whose lengths a tensor says: what lies behind the end of one
    reaches no result. Walked from their ends, each is turned over as far as it goes."""

    def __init__(self, length: Any, batch: Any, reverse: bool, lengths: Tensor) -> None:
        self.all = _steps_of(length, batch, False)
        self.turned, self.lengths = reverse, lengths.to(dt.int32)
        self.sequences, self.length = el.iota((batch,), lengths.device), length

    @property
    def walked(self) -> _TimeSteps:
        return self.all

    def _turned(self, rows: Tensor) -> Tensor:
        if not self.turned:
            return rows
        n, t = self.lengths, el.dim_indices(self.length, 1, rows.device)
        index = el.where(t < n, n - 1 - t, t) * n.shape[0] + self.sequences
        return apply(take_rows, (rows, index.reshape(-1)))

    def entered(self, rows: Tensor) -> Tensor:
        return self.all.entered(self._turned(rows))

    def left(self, rows: Tensor) -> Tensor:
        return self._turned(self.all.left(rows))

    def last(self, rows: Tensor) -> Tensor:
        index = (self.lengths - 1) * self.lengths.shape[0] + self.sequences
        return apply(take_rows, (self.all.left(rows), index))


def _steps_of(length: Any, batch: Any, reverse: bool, any_length: bool = True) -> _TimeSteps:
    """The steps of sequences that are all as long."""
    if any_length and is_symbolic_size(length):
        return _AnySteps(length, batch, reverse)
    return _TimeSteps([batch] * length, reverse)


def _pieces(found: list[tuple[Tensor, int, int]]) -> Tensor:
    """Rows (of, start, count) one after the other; neighbours are taken at once."""
    runs: list[tuple[Tensor, int, int]] = []
    for x, start, n in found:
        if runs and runs[-1][0] is x and sum(runs[-1][1:]) == start:
            runs[-1] = (x, runs[-1][1], runs[-1][2] + n)
        else:
            runs.append((x, start, n))
    parts = [mv.part(x, 0, start, n) for x, start, n in runs]
    return parts[0] if len(parts) == 1 else join.cat(parts)


def _walk(
    keep: bool, cell: _Cell, steps: _TimeSteps, x: Tensor, h0: Tensor, c0: Any, w: Tensor, b: Any,
    v: Any,
) -> tuple[Any, Tensor, Any]:  # fmt: skip
    """(kept, h, c) of all rows, given the product x with the inputs of all, the state before the
    first step and the weights of the state, of its bias and of its projection."""
    apart = _apart(cell, steps, w)
    n = cell.gates if apart else 1
    weights, biases = _parts(w, n, 0), [None] * n if b is None else _parts(b, n, 0)
    w = mv.transpose(w, 0, 1).contiguous()  # BLAS packs it anew in each step otherwise
    v = None if v is None else mv.transpose(v, 0, 1).contiguous()
    kept, hs, cs = [], [], []
    h, c = h0, c0
    for start, n in steps.rows:
        h, c = _fit(h, h0, n), None if c0 is None else _fit(c, c0, n)
        if apart:
            p: Any = [_summed(h, *gate) for gate in zip(weights, biases, strict=True)]
        else:
            p = matmul(h, w) if b is None else matmul(h, w) + b
        k, h, c = cell.step(mv.part(x, 0, start, n), p, h, c)
        h = h if v is None else matmul(h, v)
        kept.append(k)
        hs.append(h)
        cs.append(c)
    return steps.joined(kept) if keep and not apart else None, steps.joined(hs), steps.joined(cs)


def _walk_again(keep: bool, cell: _Cell, steps: _TimeSteps, *tensors: Any) -> tuple[Any, ...]:
    """`_walk`, as one subgraph where the CPU records it again."""
    walk: Any = functools.partial(_walk, keep, cell, steps)
    return call_cached(("walk", keep, *_what(cell, steps)), walk, *tensors)


def _what(cell: _Cell, steps: _TimeSteps) -> tuple[Any, ...]:
    return (cell, type(steps), steps.reverse, *steps.rows)


def _fit(h: Tensor, h0: Tensor, n: int) -> Tensor:
    """The first n rows of h, and of h0 those that are missing."""
    there = h.shape[0]
    if there >= n:
        return h if there == n else mv.part(h, 0, 0, n)
    return join.cat([h, mv.part(h0, 0, there, n - there)])


class _Walk(Function):
    """`_walk` with its gradient. What it keeps for backward are arguments and results, so that the
    gradient has a gradient too."""

    _replays = _sized = True

    @staticmethod
    def forward(ctx: Any, cell: _Cell, steps: _TimeSteps, *tensors: Any) -> tuple[Any, ...]:
        """(kept, h, c) of all rows."""
        found = _walk_again(True, cell, steps, *tensors)
        ctx.cell, ctx.steps = cell, steps
        ctx.set_materialize_grads(False)
        again = cell.from_dh or (cell.keeps and found[0] is None)
        ctx.save_for_backward(*tensors if again else (None, *tensors[1:]), *found)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """None twice, and the gradients of `_walk`'s tensors."""
        cell, steps = ctx.cell, ctx.steps
        given = (*grads, *ctx.saved_tensors)
        back: Any = functools.partial(_walk_back, cell, steps)
        if mode.grad:
            return None, None, *back(*given)
        return None, None, *call_cached(("back", *_what(cell, steps)), back, *given)


def _walk_back(
    cell: Any, steps: _TimeSteps, of_kept: Any, of_hs: Any, of_cs: Any, x: Any, h0: Tensor, c0: Any,
    w: Tensor, b: Any, v: Any, kept: Any, hs: Tensor, cs: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """The gradients of `_walk`'s tensors, given those of its results."""
    of_kept, of_hs, of_cs = [
        None if g is None else steps.stored(g) for g in (of_kept, of_hs, of_cs)
    ]
    h = steps.before(h0, hs), hs
    c = None if cs is None else (steps.before(c0, cs), cs)
    if cell.keeps and kept is None:
        p = matmul(h[0], mv.transpose(w, 0, 1))
        kept = cell.kept(x, p if b is None else p + b)
    slopes = cell.slopes(x, kept, h, c)
    dh = dc = None
    found, of_h = [], []
    dh0: list[Any] = []
    dc0: list[Any] = []
    for start, n in reversed(steps.rows):
        dh, dc = _back_to(dh, n, dh0), _back_to(dc, n, dc0)
        here = [None if g is None else mv.part(g, 0, start, n) for g in (of_hs, of_cs, of_kept)]
        dh, dc = _plus(here[0], dh), _plus(here[1], dc)
        if dh is None:
            dh = mv.part(hs, 0, start, n).new_zeros(n, hs.shape[1])
        if v is not None:
            of_h.append(dh)
            dh = matmul(dh, v)
        dp, rest, dc = cell.back([mv.part(s, 0, start, n) for s in slopes], dh, dc)
        dp = _plus(dp, here[2])
        found.append(dh if cell.from_dh else dp)
        dh = _plus(matmul(dp, w), rest)
    back = found if steps.reverse else found[::-1]
    dx, dp = cell.finish(slopes, join.cat(back), of_kept)
    dw = matmul(mv.transpose(dp, 0, 1), h[0])
    dv = None
    if v is not None:
        back = of_h if steps.reverse else of_h[::-1]
        dv = matmul(mv.transpose(join.cat(back), 0, 1), cell.hidden(kept, cs))
    db = None if b is None else rd.sum(dp, 0)
    dh, dc = _back_to(dh, None, dh0), _back_to(dc, None, dc0)
    return dx, dh, dc, dw, db, dv


def _back_to(d: Any, n: int | None, aside: list[Any]) -> Any:
    """The gradient of a state for n sequences: of those that end here it is 0, that of those that
    begin behind here is put aside; without n that of all."""
    if d is None:
        return None
    there = d.shape[0]
    if n is None:
        return join.cat([d, *aside]) if aside else d
    if n > there:
        return mv.pad(d, ((0, n - there), (0, 0)))
    if n < there:
        aside.insert(0, mv.part(d, 0, n, there - n))
        return mv.part(d, 0, 0, n)
    return d


# --- networks


def _network(
    cell: _Cell, x: Tensor, ways: Sequence[_TimeSteps], h0: Tensor, c0: Any, params: Any,
    has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[Tensor, Tensor, Any]:  # fmt: skip
    """(output, h, c) of rows x; h0 and c0 are (layers * directions, B, H). `ways` are the steps of
    one direction, or of both."""
    projected = c0 is not None and h0.shape[2] != c0.shape[2]
    each = 2 + 2 * has_biases + projected
    directions = 1 + bidirectional
    if len(params) != num_layers * directions * each:
        raise RuntimeError(
            f"expected {num_layers * directions * each} params ({each} for each layer and "
            f"direction), got {len(params)}"
        )
    hs, cs = [], []
    for layer in range(num_layers):
        outs = []
        for k, steps in enumerate(ways, layer * directions):
            w_ih, w_hh, *more = params[k * each : (k + 1) * each]
            b_ih, b_hh = (more[0], more[1]) if has_biases else (None, None)
            if b_ih is not None and not cell.bias_apart:
                b_ih, b_hh = b_ih + b_hh, None
            given = (
                steps.entered(linear(x, w_ih, b_ih)), h0[k], None if c0 is None else c0[k], w_hh,
                b_hh, more[-1] if projected else None,
            )  # fmt: skip
            if is_grad_enabled() and any(t is not None and t.requires_grad for t in given):
                _, h, c = _Walk.apply(cell, steps.walked, *given)
            else:
                _, h, c = _walk_again(False, cell, steps.walked, *given)
            outs.append(steps.left(h))
            hs.append(steps.last(h))
            cs.append(None if c is None else steps.last(c))
        x = outs[0] if directions == 1 else join.cat(outs, 1)
        if dropout and layer < num_layers - 1:
            x = _dropout(x, dropout, train)
    return x, join.stack(hs), None if c0 is None else join.stack(cs)


_PADDED = """input hx params has_biases num_layers dropout train bidirectional batch_first"""
_PACKED = """data batch_sizes hx params has_biases num_layers dropout train bidirectional"""


def _run(name: str, cell: _Cell, args: Any, kwargs: dict[str, Any]) -> tuple[Tensor, ...]:
    """Either form of a network's call: of padded sequences, or of packed ones."""
    packed = "data" in kwargs or (len(args) > 3 and isinstance(args[3], (list, tuple)))
    names = (_PACKED if packed else _PADDED).split()
    lengths = kwargs.pop("lengths", None)  # of `Padded`
    given = dict(zip(names, args, strict=False)) | kwargs
    if len(args) > len(names) or given.keys() != set(names):
        raise TypeError(f"{name}() takes ({', '.join(names)}), got {len(args)} and {list(kwargs)}")
    hx = given.pop("hx")
    h0, c0 = hx if cell is _LONG else (hx, None)
    both = (False, True) if given["bidirectional"] else (False,)
    if packed:
        x, sizes = given.pop("data"), given.pop("batch_sizes").tolist()
        ways = [_TimeSteps(sizes, reverse) for reverse in both]
        out, h, c = _network(cell, x, ways, h0, c0, **given)
        return (out, h) if c is None else (out, h, c)
    x, batch_first = given.pop("input"), given.pop("batch_first")
    x = mv.transpose(x, 0, 1) if batch_first else x
    length, batch, width = x.shape
    if not length:
        raise RuntimeError(f"{name}: Expected sequence length to be larger than 0 in RNN")
    x = x.reshape(length * batch, width)
    if lengths is None:
        any_length = cell is not _RELU  # which may grow behind the end
        ways = [_steps_of(length, batch, reverse, any_length) for reverse in both]
    else:
        ways = [_EndedSteps(length, batch, reverse, lengths) for reverse in both]
    out, h, c = _network(cell, x, ways, h0, c0, **given)
    out = out.reshape(length, batch, out.shape[1])
    out = mv.transpose(out, 0, 1) if batch_first else out
    return (out, h) if c is None else (out, h, c)


def _network_function(name: str, cell: _Cell, doc: str) -> Callable[..., tuple[Tensor, ...]]:
    @overload
    def run(
        input: Tensor, hx: Any, params: Sequence[Tensor], has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> tuple[Tensor, ...]: ...  # fmt: skip
    @overload
    def run(
        data: Tensor, batch_sizes: Tensor, hx: Any, params: Sequence[Tensor], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool,
    ) -> tuple[Tensor, ...]: ...  # fmt: skip
    def run(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        return _run(name, cell, args, kwargs)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = doc
    return run


lstm = _network_function(
    "lstm",
    _LONG,
    """(output, h, c) of layers of LSTM: see nn.LSTM.

    Takes (input, (h, c), params, has_biases, num_layers, dropout, train, bidirectional,
    batch_first), or for packed sequences (data, batch_sizes, (h, c), params, has_biases,
    num_layers, dropout, train, bidirectional).
    """,
)
_ONE_STATE = "(output, h) of layers of {}. Arguments as of `lstm`, with h alone."
gru = _network_function("gru", _GATED, _ONE_STATE.format("GRU: see nn.GRU"))
rnn_tanh = _network_function("rnn_tanh", _TANH, _ONE_STATE.format("RNN: see nn.RNN"))
rnn_relu = _network_function("rnn_relu", _RELU, _ONE_STATE.format("RNN with relu: see nn.RNN"))


# --- cells

_autocast_linear = as_public("linear", linear)  # which has a rule for mixed precision


def _one_step(
    cell: _Cell, input: Tensor, h: Tensor, c: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any
) -> tuple[Any, Tensor, Any]:
    if input.shape[1:] != w_ih.shape[1:]:
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.shape[-1]} expected {w_ih.shape[-1]}"
        )
    size = w_hh.shape[1]
    for i, x in enumerate((h,) if c is None else (h, c)):
        if x.ndim != 2 or x.shape[0] != input.shape[0]:
            raise RuntimeError(
                f"Input batch size {input.shape[0]} doesn't match hidden{i} batch size {x.shape[0]}"
            )
        if x.shape[1] != size:
            raise RuntimeError(
                f"hidden{i} has inconsistent hidden_size: got {x.shape[1]}, expected {size}"
            )
    return cell.step(_autocast_linear(input, w_ih, b_ih), _autocast_linear(h, w_hh, b_hh), h, c)


def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The next (h, c): see nn.LSTMCell. (N, in) and (N, H) twice."""
    _, h, c = _one_step(_LONG, input, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh)
    return h, c


def _cell_function(name: str, cell: _Cell, layer: str) -> Callable[..., Tensor]:
    def run(
        input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        return _one_step(cell, input, hx, None, w_ih, w_hh, b_ih, b_hh)[1]

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"The next h: see nn.{layer}. (N, in) and (N, H)."
    return run


gru_cell = _cell_function("gru_cell", _GATED, "GRUCell")
rnn_tanh_cell = _cell_function("rnn_tanh_cell", _TANH, "RNNCell")
rnn_relu_cell = _cell_function("rnn_relu_cell", _RELU, "RNNCell")


autocast(
    globals(),
    lower="lstm gru rnn_tanh rnn_relu rnn_tanh_cell rnn_relu_cell",
    gpu_lower="lstm_cell gru_cell",
)
publish(globals(), __all__)
