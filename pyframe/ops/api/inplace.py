"""In-place variants: methods `name_` that write to the tensor what the function `name` gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.core import dispatch as _dispatch, dtypes as dt
from pyframe.core.dispatch import computes_now
from pyframe.core.grad_node import GradNode, next_seq
from pyframe.core.modes import mode, no_grad
from pyframe.core.node import UNCOUNTED, Pending, is_array
from pyframe.core.op import REGISTRY
from pyframe.core.symbolic import hint
from pyframe.core.trace import recording
from pyframe.ops.api import check
from pyframe.ops.api.public import as_public
from pyframe.ops.math import promotion
from pyframe.tensor import Tensor, own_storage
from pyframe.tensor.writing import written_later


def inplace_variant(name: str, fn: Callable[..., Any]) -> Callable[..., Tensor]:
    """`name_`: what `fn` gives is written to the tensor, in its memory."""
    op = getattr(fn, "op", fn)  # what checks its operands first names the op
    op = op if isinstance(op, promotion.Elementwise) else REGISTRY.get(name)
    to_bool = isinstance(op, promotion.Elementwise) and op.rule is promotion.TO_BOOL
    ufunc = op.numpy if op is not None and isinstance(op.numpy, np.ufunc) and not to_bool else None
    fn = as_public(f"{name}_", fn)

    def run(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if ufunc is not None and not kwargs and _written_directly(ufunc, self, args):
            return self
        for a in args:
            if a is not self and isinstance(a, Tensor) and a._storage is self._storage:
                check.no_overlap(f"{name}_", self, a)
        first = next_seq() if mode.grad else 0
        out = fn(self, *args, **kwargs)
        if mode.grad and out._grad_fn is not None:
            _keep_saved(self, out._grad_fn, first)
        if type(out._node) is Pending and not to_bool and written_later(self, out):
            return self
        return self._write(out.to(self.dtype) if to_bool else out)

    run.__name__ = run.__qualname__ = f"{name}_"
    run.__doc__ = f"In-place version of `{name}`; returns self."
    run.__wrapped__ = fn  # type: ignore[attr-defined]
    return run


def _keep_saved(x: Tensor, last: Any, first: int) -> None:
    """Before `x` is written to: the steps up to `last`, recorded since `first`, that saved `x` keep
    what it is now, as PyTorch's in-place ops do."""
    steps = [last]
    while steps:
        step = steps.pop()
        if not isinstance(step, GradNode) or step.seq < first or step.saved is None:
            continue
        steps += step.edges
        for j, entry in enumerate(step.saved):
            if type(entry) is tuple and entry[0]._storage is x._storage:
                z = entry[0]
                with no_grad():  # a value that is there changes with its memory
                    node = z._value()
                    there = mode.capture is not None and node.data is not None
                    changes = is_array(node) or there
                    kept = z.clone() if changes else own_storage(z)
                kept._grad_fn = z.grad_fn
                step.saved[j] = (kept, kept._storage.version)


def view_variant(name: str, fn: Callable[..., Any]) -> Callable[..., Tensor]:
    """`name_` of a view: the tensor itself becomes the view that `fn` gives, of the same memory."""
    fn = as_public(f"{name}_", fn)

    def run(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self._become(lambda: fn(self, *args, **kwargs))

    run.__name__ = run.__qualname__ = f"{name}_"
    run.__doc__ = f"Make this tensor what `{name}` gives, of the same memory; returns self."
    run.__wrapped__ = fn  # type: ignore[attr-defined]
    return run


_quiet = _dispatch._Quiet()


def _written_directly(ufunc: np.ufunc, x: Tensor, args: tuple[Any, ...]) -> bool:
    """Let NumPy write over a float CPU tensor, without a temporary, where nothing is recorded and
    no dtype or shape needs a word; False where the usual way must be taken."""
    node = x._node
    if not computes_now(node.device) or recording.open or _dispatch.records(x):
        return False
    if node.dtype.category != dt.FLOAT or (mode.grad and x.requires_grad) or node.dtype.narrow:
        return False
    operands = [node.data]
    for a in args:
        if isinstance(a, Tensor):
            n = a._node
            if a._storage is x._storage and a is not x:
                return False  # see whether they overlap
            if n.dtype is not node.dtype or n.device is not node.device or n.shape != node.shape:
                return False
            if mode.grad and a.requires_grad:
                return False
            operands.append(n.data)
        elif isinstance(a, (int, float)):
            operands.append(a if type(a) is float else hint(a))  # of a capture that has ended
        else:
            return False
    if not node.data.flags.c_contiguous or not node.data.flags.writeable:
        return False
    if x._storage.version == UNCOUNTED and not mode.inference:
        return False
    if len(operands) != ufunc.nin:
        return False
    try:
        _quiet.run(ufunc, *operands, node.data)
    except RuntimeError:
        if not _quiet.entered():
            raise
        return False  # a finalizer writes within another write's NumPy
    x._wrote()
    return True
