"""Functions whose results lie in memory as PyTorch says of the whole function: row-major, like what
is given, or with the channels last where they come so. Elementwise ops follow their operands by
themselves (`in_order` of core/dispatch.py), and other primitives give row-major results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyframe.core.dispatch import copy_in, order_like
from pyframe.core.modes import mode
from pyframe.tensor import Tensor

Order = tuple[int, ...] | None  # of the dims in memory; None for row-major
Rule = Callable[[tuple[Any, ...], Tensor], Order]


def lie(scope: dict[str, Any], **rules: str) -> None:
    """Say of functions of a family how their results lie: `rows=` and so on name those of a rule
    below."""
    for rule, names in rules.items():
        for name in names.split():
            scope[name].lies = globals()[f"_{rule}"]


def _rows(args: tuple[Any, ...], y: Tensor) -> Order:
    return None


def _like(args: tuple[Any, ...], y: Tensor) -> Order:
    """As the first argument, if it has as many dims."""
    return order_like(args[0]) if args[0].shape == y.shape else None


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
            found = order_like(x)
            shape = x.shape
            if found and [d for d in found if shape[d] > 1] == [d for d in order if shape[d] > 1]:
                return order
    return None


def laid_out(out: Any, rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The results `out` of a call, lying as `rule` says."""
    if mode.capture is not None and not mode.capture.orders:
        return out
    given = (*args, *kwargs.values())
    if isinstance(out, Tensor):
        return lying(out, rule(given, out))
    made = [lying(y, rule(given, y)) if isinstance(y, Tensor) else y for y in out]
    return type(out)(*made) if hasattr(out, "_fields") else type(out)(made)


def lying(y: Tensor, order: Order) -> Tensor:
    """`y`, copied unless it lies in this order."""
    if order is None:
        return y if not y._view_chain or y._is_row_major() else copy_in(None, y)
    return y if order_like(y) == order else copy_in(order, y)
