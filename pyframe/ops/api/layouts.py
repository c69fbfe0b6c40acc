"""Functions whose results lie in memory as PyTorch says of the whole function: row-major, like what
is given, or with the channels last where they come so; and `out=`, the tensors that results are
written to. Elementwise ops follow their operands by themselves (`in_order` of core/dispatch.py),
and other primitives give row-major results.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

from pyframe.core.dispatch import copy_to_order, order_of
from pyframe.core.modes import mode
from pyframe.ops.api import check
from pyframe.tensor import Tensor
from pyframe.tensor.tree import leaves

try:
    from pyframe.ops.api import texts
except ImportError:  # a page has none
    texts: Any = None  # type: ignore[no-redef]

Order = tuple[int, ...] | None  # of the dims in memory; None for row-major
Rule = Callable[[tuple[Any, ...], Tensor], Order]


def declare_layout(scope: dict[str, Any], **rules: str) -> None:
    """Say of functions of a family how their results lie: `rows=` and so on name those of a rule
    below."""
    for rule, names in rules.items():
        for name in names.split():
            scope[name].lies = globals()[f"_{rule}"]


def _rows(args: tuple[Any, ...], y: Tensor) -> Order:
    return None


def _like(args: tuple[Any, ...], y: Tensor) -> Order:
    """As the first argument, if it has as many dims."""
    return order_of(args[0]) if args[0].shape == y.shape else None


def _columns(args: tuple[Any, ...], y: Tensor) -> Order:
    """The last dim first in memory."""
    return (1, 0) if y.ndim == 2 else None


def _last(args: tuple[Any, ...], y: Tensor) -> Order:
    """Channels last if images or volumes, or the weight, come so; else row-major."""
    return _line_last(args, y) if y.ndim > 3 and "circular" not in args[1:] else None


def _line_last(args: tuple[Any, ...], y: Tensor) -> Order:
    """`_last`, of one spatial dim too."""
    n = y.ndim
    order = (0, *range(2, n), 1)
    for x in args[:2]:
        if isinstance(x, Tensor) and x.ndim == n > 2 and x._view_chain:
            found = order_of(x)
            shape = x.shape
            if found and [d for d in found if shape[d] > 1] == [d for d in order if shape[d] > 1]:
                return order
    return None


def apply_layout(out: Any, rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The results `out` of a call, lying as `rule` says."""
    if mode.capture is not None and not mode.capture.orders:
        return out
    given = (*args, *kwargs.values())
    if isinstance(out, Tensor):
        return ensure_order(out, rule(given, out))
    made = [ensure_order(y, rule(given, y)) if isinstance(y, Tensor) else y for y in out]
    return type(out)(*made) if hasattr(out, "_fields") else type(out)(made)


def ensure_order(y: Tensor, order: Order) -> Tensor:
    """`y`, copied unless it lies in this order."""
    if order is None:
        return y if not y._view_chain or y._is_row_major() else copy_to_order(None, y)
    return y if order_of(y) == order else copy_to_order(order, y)


# What the families declare with `public`
EXACT_DTYPE_OUT: set[str] = set()  # whose out= must be of the result's dtype; the others convert
NO_ALIAS_OUT: set[str] = set()  # whose out= must not be what they read: they read on as they write


def with_out(name: str, fn: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    """`fn`, which takes `out=` too: one tensor, or as many as it has results."""

    def run(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return fn(*args, **kwargs)
        casting, mode.autocast = mode.autocast, None  # what is written keeps its dtype
        try:
            result = fn(*args, **kwargs)
        finally:
            mode.autocast = casting
        return _store(name, result, out, [*args, *kwargs.values()], 3)

    functools.update_wrapper(run, fn, assigned=("__doc__",), updated=())
    run.__name__ = run.__qualname__ = name
    run.__module__ = "pyframe"
    shown = run.__signature__ = _showing_out(signature)  # type: ignore[attr-defined]
    if texts:
        run.__doc__ = texts.with_out(run.__doc__ or "", shown is not signature)
    return run


def _showing_out(known: inspect.Signature) -> inspect.Signature:
    """A signature with `out=`, if there is something to put there."""
    result, parameters = known.return_annotation, list(known.parameters.values())
    if not parameters or result in ("bool", "None", "Size", "dt.dtype"):
        return known
    last = parameters[-1:] if parameters[-1].kind is inspect.Parameter.VAR_KEYWORD else []
    parameters[len(parameters) - len(last) :] = [_OUT if result == "Tensor" else _OUTS, *last]
    return inspect.Signature(parameters, return_annotation=result, __validate_parameters__=False)


_OUT, _OUTS = (
    inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
    for kind in ("Tensor | None", "Any")
)


def _store(name: str, result: Any, out: Any, read: Any, stacklevel: int) -> Any:
    """Put a result (or several) into the tensors given as `out=`, resized where they don't fit."""
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(f"{name}: out= must be a tuple of {len(result)} tensors")
        stored = []
        for r, o in zip(result, out, strict=True):  # no comprehension: it may be a frame
            stored.append(_store(name, r, o, read, stacklevel + 1))
        return type(result)(*stored) if hasattr(result, "_fields") else tuple(stored)
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}: out= must be a Tensor, got {type(out).__name__}")
    if mode.grad and (result.requires_grad or out.requires_grad):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    if out.device is not result.device:
        raise RuntimeError(f"{name}: expected out= on {result.device}, got {out.device}")
    if out.dtype is not result.dtype and name in EXACT_DTYPE_OUT:
        raise RuntimeError(
            f"{name}: Expected out tensor to have dtype {result.dtype.name}, but got "
            f"{out.dtype.name} instead"
        )
    check.no_overlap(name, out, *leaves(read), same=name not in NO_ALIAS_OUT)
    if out.shape != result.shape:
        if out.numel():
            warnings.warn(
                f"An output with one or more elements was resized since it had shape "
                f"{list(out.shape)}, which does not match the required output shape "
                f"{list(result.shape)}. Pass a tensor of that shape, or out.resize_(0).",
                stacklevel=stacklevel,
            )
        out.data = out.new_empty(result.shape)
    return out._write(result)
