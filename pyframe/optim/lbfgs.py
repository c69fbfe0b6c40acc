"""L-BFGS."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import pyframe as pf
from pyframe.core.modes import no_grad
from pyframe.ops.api.layouts import texts as _texts
from pyframe.optim.optimizer import USUAL_RANGES, Optimizer, options
from pyframe.tensor import Tensor


class LBFGS(Optimizer):
    """Steps along -H g, where H, the inverse Hessian, is what the last moves and the gradients'
    changes tell of it (Nocedal & Wright, Numerical Optimization, algorithms 7.4, 3.5 and 3.6).

    `step` takes a closure, which it calls up to `max_eval` times. The state, that of the first
    parameter, is for all of them. What a step does depends on values, which it reads: within
    pf.compile it runs eagerly.

    Args:
        params: parameters, all in one group.
        lr: the length of a step, where no line search finds it.
        max_iter: how many steps along a direction a call of `step` takes at most.
        max_eval: how often it calls the closure at most; None for 5 / 4 of `max_iter`.
        tolerance_grad: it ends where no element of the gradient is larger.
        tolerance_change: it ends where a step, or the change of the loss, is smaller.
        history_size: how many moves H is of.
        line_search_fn: "strong_wolfe", or None for steps of lr.

    Raises:
        ValueError: there are several groups, or an option is out of range.

    >>> w = nn.Parameter(pf.tensor([1.0, 2.0]))
    >>> optimizer = optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - 3) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item(), w.data.round()
    (5.0, tensor([3., 3.]))
    """

    _ranges: ClassVar = USUAL_RANGES

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1, max_iter: int = 20,
        max_eval: int | None = None, tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9,
        history_size: int = 100, line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, options(locals()))
        if len(self.param_groups) != 1:
            raise ValueError(
                "LBFGS doesn't support parameter groups; expected one list of parameters, got "
                f"{len(self.param_groups)} groups"
            )

    def _fits(self, value: Tensor, p: Tensor) -> bool:
        return True

    def step(self, closure: Callable[[], Any]) -> Any:
        """Take up to `max_iter` steps; `closure` clears the gradients, computes the loss, calls
        backward and returns the loss. Gives the loss before the step."""
        if len(self.param_groups) != 1:
            raise AssertionError(
                f"LBFGS: expected one parameter group, got {len(self.param_groups)}"
            )
        with no_grad():
            return self._minimize(closure)

    def _minimize(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        params: list[Tensor] = group["params"]
        lr, most, most_evals = float(group["lr"]), group["max_iter"], group["max_eval"]
        flat, little = group["tolerance_grad"], group["tolerance_change"]
        search = group["line_search_fn"]

        def evaluate() -> tuple[Any, float, Tensor]:
            with pf.enable_grad():
                loss = closure()
            return loss, float(loss), _flat_gradient(params)

        first, loss, g = evaluate()
        state = self.state[params[0]]
        state["func_evals"] = state.get("func_evals", 0) + 1
        state.setdefault("n_iter", 0)
        if _numbers(g.abs().max())[0] <= flat:
            return first
        d: Any = state.get("d")
        t: Any = state.get("t")
        before: Any = state.get("prev_flat_grad")
        memory = _CurvatureHistory(*(state.get(k) or [] for k in ("old_dirs", "old_stps", "ro")))
        scale = float(state.get("H_diag") or 1)
        evals = 1
        for i in range(1, most + 1):
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                memory, scale = _CurvatureHistory([], [], []), 1.0
                d = -g
            else:
                y, s = g - before, d * float(t)
                ys, yy = _numbers(y.dot(s), y.dot(y))
                if ys > 1e-10:
                    memory.add(y, s, 1 / ys, group["history_size"])
                    scale = ys / yy
                d = memory.direction(g, scale)
            before, loss_before = g, loss
            slope, size = _numbers(g.dot(d), g.abs().sum())
            t = min(1.0, 1 / size) * lr if state["n_iter"] == 1 else lr
            if slope > -little:
                break
            taken = 0
            if search is None:
                _move(params, d, t)
                if i < most:  # after the last move it is not needed
                    _, loss, g = evaluate()
                    taken = 1
            elif search == "strong_wolfe":
                start = [p.clone() for p in params]

                def at(t: float, d: Tensor = d, start: list[Tensor] = start) -> _Point:
                    _move(params, d, t)
                    _, f, g = evaluate()
                    for p, value in zip(params, start, strict=True):
                        p.copy_(value)
                    return _Point(t, f, _numbers(g.dot(d))[0], g)

                longest = _numbers(d.abs().max())[0]
                found, taken = _strong_wolfe(
                    at, _Point(0.0, loss, slope, g), t, longest, most_evals - evals
                )
                t, loss, g = found.t, found.f, found.gradient
                _move(params, d, t)
            else:
                raise RuntimeError(
                    f"LBFGS: line_search_fn: expected 'strong_wolfe' or None, got {search!r}"
                )
            evals += taken
            state["func_evals"] += taken
            steep, far = _numbers(g.abs().max(), (d * t).abs().max())
            if evals >= most_evals or steep <= flat or far <= little:
                break
            if abs(loss - loss_before) < little:
                break
        state.update(
            d=d, t=t, old_dirs=memory.changes, old_stps=memory.moves, ro=memory.inverses,
            H_diag=scale, prev_flat_grad=before, prev_loss=loss_before,
        )  # fmt: skip
        return first


def _numbers(*values: Tensor) -> list[float]:
    """The values of scalars, read at once."""
    found: list[float] = pf.stack(values).tolist()
    return found


def _real(x: Tensor) -> Tensor:
    return pf.view_as_real(x) if x.is_complex() else x


def _flat_gradient(params: list[Tensor]) -> Tensor:
    grads = [pf.zeros_like(p) if p.grad is None else p.grad for p in params]
    return pf.cat([_real(g).reshape(-1) for g in grads])


def _move(params: list[Tensor], d: Tensor, t: float) -> None:
    """Add t * d, d for all parameters one after the other."""
    begin = 0
    for p in map(_real, params):
        p.add_(d[begin : begin + p.numel()].reshape(p.shape) * t)
        begin += p.numel()


class _CurvatureHistory:
    """The last changes y of the gradient with the moves s that made them, and 1 / (y s)."""

    def __init__(self, changes: list[Tensor], moves: list[Tensor], inverses: list[Any]) -> None:
        self.changes, self.moves, self.inverses = changes, moves, inverses

    def add(self, y: Tensor, s: Tensor, inverse: float, most: int) -> None:
        if len(self.changes) == most:
            del self.changes[0], self.moves[0], self.inverses[0]
        self.changes.append(y)
        self.moves.append(s)
        self.inverses.append(inverse)

    def direction(self, g: Tensor, scale: float) -> Tensor:
        """-H g, by two loops over the memory."""
        rows = list(zip(self.changes, self.moves, map(float, self.inverses), strict=True))
        q, parts = -g, []
        for y, s, inverse in reversed(rows):
            parts.append(s.dot(q) * inverse)
            q = q - y * parts[-1]
        q = q * scale
        for y, s, inverse in rows:
            q = q + s * (parts.pop() - y.dot(q) * inverse)
        return q


class _Point(NamedTuple):
    """A place on the line: how far along it, the loss there, its slope, and the gradient."""

    t: float
    f: float
    slope: float
    gradient: Tensor


def _strong_wolfe(
    at: Callable[[float], _Point], start: _Point, t: float, longest: float, most: int
) -> tuple[_Point, int]:
    """A point that is low and flat enough, by the strong Wolfe conditions, and how many were
    looked at: a bracket is widened until it holds one, and narrowed until one is found."""

    def too_high(x: _Point) -> bool:
        return x.f > start.f + 1e-4 * x.t * start.slope

    def is_flat(x: _Point) -> bool:
        return abs(x.slope) <= -0.9 * start.slope

    before, x, tries = start, at(t), 0
    while tries < most:
        if too_high(x) or (tries > 1 and x.f >= before.f) or (x.slope >= 0 and not is_flat(x)):
            bracket = [before, x]
            break
        if is_flat(x):
            return x, tries + 1
        t = _lowest_of_cubic(before, x, x.t + 0.01 * (x.t - before.t), x.t * 10)
        before, x, tries = x, at(t), tries + 1
    else:
        bracket = [start, x]
    bracket.sort(key=lambda x: x.f)  # the lower one is first
    stuck = False
    while tries < most:
        low, high = bracket
        left, right = sorted((low.t, high.t))
        if (right - left) * longest < 1e-9:
            break
        t = _lowest_of_cubic(low, high, left, right)
        margin = 0.1 * (right - left)
        near = min(right - t, t - left) < margin
        if near and (stuck or not left < t < right):  # keep away from the ends
            t = right - margin if abs(t - right) < abs(t - left) else left + margin
            near = False
        stuck = near
        x, tries = at(t), tries + 1
        if too_high(x) or x.f >= low.f:
            bracket = sorted((low, x), key=lambda x: x.f)
        elif is_flat(x):
            return x, tries + 1
        else:
            bracket = [x, low if x.slope * (high.t - low.t) >= 0 else high]
    return bracket[0], tries + 1


def _lowest_of_cubic(a: _Point, b: _Point, least: float, most: float) -> float:
    """Where the cubic through two points with their slopes is lowest, within the bounds."""
    middle = (least + most) / 2
    if a.t == b.t:
        return middle
    if a.t > b.t:
        a, b = b, a
    d1 = a.slope + b.slope - 3 * (a.f - b.f) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return middle
    root = square**0.5
    below = b.slope - a.slope + 2 * root
    if below == 0:
        return middle
    t = b.t - (b.t - a.t) * ((b.slope + root - d1) / below)
    return min(max(t, least), most)


if _texts:
    _texts.complete_docstrings(globals())
