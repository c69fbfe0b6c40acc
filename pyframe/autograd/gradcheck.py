"""gradcheck: gradients against central differences, in float64 on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe import dtypes as dt
from pyframe.tensor import Tensor, from_numpy, no_grad


class GradcheckError(RuntimeError):
    """A gradient differs from its numerical estimate."""


def gradcheck(
    func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, raise_exception: bool = True,
) -> bool:  # fmt: skip
    """Whether `func`'s gradients at float64 `inputs` match central differences.

    Raises GradcheckError (a RuntimeError) where they don't, ValueError for inputs that can't be
    checked.
    """
    args = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    checked = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
    if not checked:
        raise ValueError("gradcheck expects at least one input tensor to require gradient")
    for i in checked:
        if args[i].dtype is not dt.float64:
            raise ValueError(
                f"gradcheck: input {i} is {args[i].dtype.name}; expected float64, else rounding "
                "hides what is checked"
            )
    try:
        outputs = _tuple(func(*args))
        for k, y in enumerate(outputs):
            if y.requires_grad:
                _check_output(func, args, checked, k, y, eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _tuple(y: Any) -> tuple[Any, ...]:
    return y if isinstance(y, tuple) else (y,)


def _check_output(
    func: Any, args: Any, checked: list[int], k: int, y: Tensor, eps: float, atol: float,
    rtol: float,
) -> None:  # fmt: skip
    from pyframe.autograd import grad

    wanted = [args[i] for i in checked]
    analytic = [np.zeros((y.numel(), a.numel())) for a in wanted]
    for row in range(y.numel()):
        seed = np.zeros(y.shape)
        seed.reshape(-1)[row] = 1
        found = grad(y, wanted, from_numpy(seed), retain_graph=True, allow_unused=True)
        for j, g in enumerate(found):
            if g is not None:
                analytic[j][row] = g.detach().numpy().reshape(-1)
    for j, i in enumerate(checked):
        numeric = np.zeros_like(analytic[j])
        base = np.array(args[i].detach().numpy())
        for column in range(base.size):
            sides = []
            for sign in (1, -1):
                moved = base.copy()
                moved.reshape(-1)[column] += sign * eps
                trial = list(args)
                trial[i] = from_numpy(moved).requires_grad_()
                value = _tuple(func(*trial))[k]
                with no_grad():
                    sides.append(np.array(value.detach().numpy()).reshape(-1))
            numeric[:, column] = (sides[0] - sides[1]) / (2 * eps)
        if not np.allclose(analytic[j], numeric, rtol, atol, equal_nan=True):
            worst = np.unravel_index(np.argmax(np.abs(analytic[j] - numeric)), numeric.shape)
            raise GradcheckError(
                f"Jacobian mismatch for output {k} with respect to input {i}: at element "
                f"{tuple(int(v) for v in worst)} numerical {numeric[worst]:.6g}, analytical "
                f"{analytic[j][worst]:.6g}"
            )


def gradgradcheck(func: Callable[..., Any], inputs: Any, **kw: Any) -> bool:
    """`gradcheck` of the gradients themselves: second derivatives."""
    from pyframe.autograd import grad
    from pyframe.ops.creation import ones_like

    args = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)

    fixed = [ones_like(y).detach() * 0.7 for y in _tuple(func(*args)) if y.requires_grad]

    def with_fixed_seeds(*xs: Any) -> Any:
        ys = [y for y in _tuple(func(*xs)) if y.requires_grad]
        wanted = [x for x in xs if isinstance(x, Tensor) and x.requires_grad]
        found = grad(ys, wanted, fixed, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(with_fixed_seeds, inputs, **kw)
