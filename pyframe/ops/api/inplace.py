"""In-place variants: methods `name_` that write to the tensor what the function `name` gives.

Writes through views put what a view chain cut from a tensor back into it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.core import dispatch as _dispatch, dtypes as dt, view as views
from pyframe.core.dispatch import apply, install_callbacks, is_eager
from pyframe.core.grad_node import GradNode, next_seq
from pyframe.core.modes import mode, no_grad
from pyframe.core.node import NO_VERSION, LazyNode, is_array
from pyframe.core.op import EXTERN, REGISTRY, Op
from pyframe.core.symbolic import hint
from pyframe.core.trace import lazy_policy
from pyframe.ops.api import check
from pyframe.ops.api.batching_rules import BatchedCall, batched_chain
from pyframe.ops.api.layouts import texts
from pyframe.ops.api.public import as_public
from pyframe.ops.index.rows import put_rows
from pyframe.ops.math import promotion
from pyframe.ops.math.elementwise import where
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, unshare_storage, upload
from pyframe.tensor.writing import try_lazy_write


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
        if type(out._node) is LazyNode and not to_bool and try_lazy_write(self, out):
            return self
        return self._write(out.to(self.dtype) if to_bool else out)

    run.__name__ = run.__qualname__ = f"{name}_"
    if texts:
        run.__doc__ = texts.in_place(f"In-place version of `{name}`", fn)
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
                    kept = z.clone() if changes else unshare_storage(z)
                kept._grad_fn = z.grad_fn
                step.saved[j] = (kept, kept._storage.version)


def view_variant(name: str, fn: Callable[..., Any]) -> Callable[..., Tensor]:
    """`name_` of a view: the tensor itself becomes the view that `fn` gives, of the same memory."""
    fn = as_public(f"{name}_", fn)

    def run(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self._become(lambda: fn(self, *args, **kwargs))

    run.__name__ = run.__qualname__ = f"{name}_"
    if texts:
        run.__doc__ = texts.in_place(f"Make this tensor what `{name}` gives, of one memory", fn)
    run.__wrapped__ = fn  # type: ignore[attr-defined]
    return run


_quiet = _dispatch._IgnoreFpErrors()


def _written_directly(ufunc: np.ufunc, x: Tensor, args: tuple[Any, ...]) -> bool:
    """Let NumPy write over a float CPU tensor, without a temporary, where nothing is recorded and
    no dtype or shape needs a word; False where the usual way must be taken."""
    node = x._node
    if not is_eager(node.device) or lazy_policy.open or _dispatch.should_record(x):
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
    if x._storage.version == NO_VERSION and not mode.inference:
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


def _put_numpy(base: np.ndarray, value: np.ndarray, chain: Any) -> np.ndarray:
    out = np.array(base, order="C")
    part = _np_cut(out, chain)
    if not part.size or np.may_share_memory(part, out):
        part[...] = value
    else:  # the view is none in this memory order: find the positions that it shows
        indices = np.arange(out.size).reshape(out.shape)
        out.reshape(-1)[_np_cut(indices, chain)] = value
    return out


def _np_cut(x: np.ndarray, chain: Any) -> np.ndarray:
    for op, attrs in chain:
        if op.in_memory:
            x = np.ascontiguousarray(x)
        x = op.numpy(x, *attrs)
    return x


def _put_by_views(base: Tensor, value: Tensor, chain: Any) -> Tensor:
    """`base` with `value` where the view that `chain` cut from it is."""
    if not chain:
        return value
    (op, attrs), rest = chain[0], chain[1:]
    if op.put is not None:
        inner = value if not rest else _put_by_views(apply(op, (base,), attrs), value, rest)
        return op.put(base, inner)
    repeats = op is mv.expand_op and math.prod(attrs[0]) != base.numel()
    if repeats or any(op.overlaps for op, _ in chain):
        return _put_by_indices(base, value, chain)
    inner = value if not rest else _put_by_views(apply(op, (base,), attrs), value, rest)
    if op is mv.permute_op:
        return mv.permute(inner, mv.inverse_order(attrs[0]))
    if op in (mv.reshape_op, mv.expand_op):
        return mv.reshape(inner, base.shape)
    spread: Callable[..., Tensor]
    if op is mv.slice_op:
        spread, size, at = mv.unslice, attrs[1], attrs[::2]
    elif op is mv.diagonal_op:
        spread, size, at = mv.undiagonal, views.diagonal_shape(base.shape, *attrs), attrs
    else:
        raise RuntimeError(f"in-place write through a view made by {op.name}; clone() it first")
    if 0 in size:
        return base
    written = spread(base.new_ones((), dtype=dt.bool_).expand(size), base.shape, *at)
    return where(written, spread(inner, base.shape, *at), base)


def _put_by_indices(base: Tensor, value: Tensor, chain: Any) -> Tensor:
    shape = base.shape
    indices = _np_cut(np.arange(math.prod(shape)).reshape(shape), chain)
    index = upload(np.ascontiguousarray(indices).reshape(-1), base.device)
    out = apply(put_rows, (mv.reshape(base, (-1, 1)), index, mv.reshape(value, (-1, 1))))
    return mv.reshape(out, shape)


def _cut(g: Tensor, chain: Any) -> Tensor:
    for op, attrs in chain:
        g = apply(op, (mv.contiguous(g) if op.in_memory else g,), attrs)
    return g


def _put_batched(c: BatchedCall) -> Tensor:
    base, value = c.all()
    chain = batched_chain(c.attrs[0], c.nodes[0], c.size)
    return apply(c.op, (base.contiguous(), value), (chain,))


put_op = Op(
    "put", EXTERN, "base value", "chain",
    infer=lambda base, value, chain: (base.shape, base.dtype),
    numpy=_put_numpy, fallback=_put_by_views,
    base=lambda g, chain: apply(put_op, (g, _cut(g, chain) * 0), (chain,)),
    value=lambda g, chain: _cut(g, chain), batch=_put_batched,
)  # fmt: skip


put_op.decomposes_when_called = True
install_callbacks(PUT=put_op)
