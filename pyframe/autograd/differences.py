"""gradcheck: gradients against central differences, in float64 on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.autograd.walk import grad
from pyframe.core import dtypes as dt
from pyframe.core.modes import no_grad
from pyframe.tensor import Tensor, from_numpy

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A gradient differs from its numerical estimate."""


def gradcheck(
    func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, raise_exception: bool = True, nondet_tol: float = 0.0,
    check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
    check_batched_grad: bool = False, check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False, check_backward_ad: bool = True, fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:  # fmt: skip
    """Whether `func`'s gradients at float64 (or complex128) `inputs` match central differences.

    A complex number counts as two real ones. Raises GradcheckError (a RuntimeError) where they
    don't, or where two backward passes differ by more than `nondet_tol`; ValueError for inputs that
    can't be checked. `fast_mode` checks as much as without; other options are for compatibility.

    Args:
        eps: Half of the step between two points.
        atol, rtol: What the gradients may differ by, at all and relative to them.
        raise_exception: Whether to raise, else False is the answer.
        check_undefined_grad, check_grad_dtypes, check_batched_grad, masked: Those others.
        check_batched_forward_grad, check_forward_ad, check_backward_ad: More of them.

    >>> x = pf.tensor([1.0, 2.0], dtype=pf.float64, requires_grad=True)
    >>> pf.autograd.gradcheck(pf.sin, x)
    True
    """
    args = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    checked = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
    if not checked:
        raise ValueError("gradcheck expects at least one input tensor to require gradient")
    for i in checked:
        if args[i].dtype not in (dt.float64, dt.complex128):
            raise ValueError(
                f"gradcheck: input {i} is {args[i].dtype.name}; expected float64, else rounding "
                "hides what is checked"
            )
    if check_forward_ad:
        raise NotImplementedError("gradcheck: check_forward_ad, and there is no forward mode")
    try:
        outputs = _tuple(func(*args))
        smooth = [k for k, y in enumerate(outputs) if isinstance(y, Tensor) and y.requires_grad]
        checks = smooth or [k for k, y in enumerate(outputs) if _is_smooth(y)]
        numeric = _numeric(func, args, checked, checks, eps)
        for at, k in enumerate(checks):
            found = _analytic(outputs[k], [args[i] for i in checked], nondet_tol)
            for j, i in enumerate(checked):
                _compare(found[j], numeric[at][j], k, i, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _tuple(y: Any) -> tuple[Any, ...]:
    return tuple(y) if isinstance(y, (tuple, list)) else (y,)


def _is_smooth(y: Any) -> bool:
    return isinstance(y, Tensor) and y.dtype.category >= dt.FLOAT


def _real(x: Tensor) -> np.ndarray:
    """The numbers of `x` one after the other, of a complex one both parts."""
    array = np.array(x.detach().numpy(force=True)).reshape(-1)
    return array.view(np.float64) if array.dtype.kind == "c" else array


def _analytic(y: Tensor, wanted: list[Tensor], nondet_tol: float) -> list[np.ndarray]:
    """The Jacobian of `y` by each of `wanted`, a backward pass for each row."""
    size = _real(y).size
    out = [np.zeros((size, _real(x).size)) for x in wanted]
    if not y.requires_grad:
        return out

    def back(seed: np.ndarray) -> list[np.ndarray | None]:
        shaped = seed.astype(np.float64).view(y.dtype.numpy if y.is_complex() else np.float64)
        g = from_numpy(shaped.reshape(y.shape).astype(y.dtype.numpy)).to(y.device)
        found = grad(y, wanted, g, retain_graph=True, allow_unused=True)
        for x, part in zip(wanted, found, strict=True):
            if part is not None and (part.dtype, part.shape) != (x.dtype, x.shape):
                raise GradcheckError(
                    f"Gradient has dtype {part.dtype} and shape {list(part.shape)}, expected "
                    f"{x.dtype} and {list(x.shape)}"
                )
        return [None if g is None else _real(g) for g in found]

    for row in range(size):
        seed = np.zeros(size)
        seed[row] = 1
        for j, g in enumerate(back(seed)):
            if g is not None:
                out[j][row] = g
    seed = np.cos(np.arange(size))
    for a, b in zip(back(seed), back(seed), strict=True):
        if a is not None and b is not None and not np.allclose(a, b, 0, nondet_tol, equal_nan=True):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output "
                "multiple times gives different values. The tolerance for nondeterminism was "
                f"{nondet_tol}."
            )
    return out


def _numeric(
    func: Any, args: tuple[Any, ...], checked: list[int], outputs: list[int], eps: float
) -> list[list[np.ndarray]]:
    """For each output and each checked input: the central differences, (output, input)."""
    found: list[list[Any]] = [[[] for _ in checked] for _ in outputs]
    for j, i in enumerate(checked):
        x = args[i]
        base = _real(x)
        for column in range(base.size):
            sides = []
            for sign in (1, -1):
                moved = base.copy()
                moved[column] += sign * eps
                trial = list(args)
                array = moved.view(x.dtype.numpy).reshape(x.shape)
                trial[i] = from_numpy(array).to(x.device).requires_grad_()
                ys = _tuple(func(*trial))
                with no_grad():
                    sides.append([_real(ys[k]) for k in outputs])
            for at, (up, down) in enumerate(zip(*sides, strict=True)):
                found[at][j].append((up - down) / (2 * eps))
    return [[np.array(c).T if len(c) else None for c in row] for row in found]


def _compare(
    analytic: np.ndarray, numeric: np.ndarray | None, k: int, i: int, atol: float, rtol: float
) -> None:
    if numeric is None or np.allclose(analytic, numeric, rtol, atol, equal_nan=True):
        return
    error = np.abs(analytic - numeric)
    worst = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), numeric.shape)
    raise GradcheckError(
        f"Jacobian mismatch for output {k} with respect to input {i}: at element "
        f"{tuple(int(v) for v in worst)} numerical {numeric[worst]:.6g}, analytical "
        f"{analytic[worst]:.6g},\nnumerical:{numeric}\nanalytical:{analytic}\n"
    )


def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *,
    gen_non_contig_grad_outputs: bool = False, **kw: Any,
) -> bool:  # fmt: skip
    """`gradcheck` of the gradients themselves, as functions of `inputs` and of `grad_outputs` (made
    up if not given): second derivatives.

    Args:
        func: A function of tensors.
        gen_non_contig_grad_outputs: Allowed, and not needed.
        kw: The options of `gradcheck`.

    >>> x = pf.tensor([1.0, 2.0], dtype=pf.float64, requires_grad=True)
    >>> pf.autograd.gradgradcheck(pf.sin, x)
    True
    """
    args = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = [y for y in _tuple(func(*args)) if isinstance(y, Tensor) and y.requires_grad]
    if grad_outputs is None:
        seeds = []
        for y in outputs:
            array = np.cos(np.arange(y.numel())).reshape(y.shape).astype(y.dtype.numpy)
            seeds.append(from_numpy(array).to(y.device).requires_grad_())
    else:
        seeds = list(_tuple(grad_outputs))

    def gradients(*xs: Any) -> Any:
        xs, gs = xs[: len(args)], xs[len(args) :]
        ys = [y for y in _tuple(func(*xs)) if isinstance(y, Tensor) and y.requires_grad]
        wanted = [x for x in xs if isinstance(x, Tensor) and x.requires_grad]
        found = grad(ys, wanted, gs, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(gradients, (*args, *seeds), **kw)
