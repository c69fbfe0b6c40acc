"""Tensors joined along a dim: cat and stack."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.dispatch import apply, install_callbacks
from pyframe.core.op import EXTERN, Op
from pyframe.core.sizes import is_symbolic_size, statically_equal
from pyframe.ops.api.public import public
from pyframe.ops.math.elementwise import logical_or
from pyframe.ops.shape.movement import pad, part, reshape, select, unsqueeze
from pyframe.tensor import Tensor, memory_format as formats, normalize_dim

_MAX_CAT = 64  # tensors that one op joins: it has a gradient for each, and a kernel few buffers


@functools.cache
def _cat_op(n: int) -> Op:
    """n tensors after one another along `dim`, from `starts` on; stacked if those are ()."""

    def vjp_of(i: int) -> Any:
        return lambda g, dim, starts: (
            part(g, dim, starts[i], starts[i + 1] - starts[i]) if starts else select(g, dim, i)
        )

    return Op(
        f"cat{n}", EXTERN, " ".join([f"x{i}" for i in range(n)]), "dim starts",
        infer=lambda x, *a: (
            (*x.shape[: a[-2]], a[-1][-1], *x.shape[a[-2] + 1 :]) if a[-1]
            else (*x.shape[: a[-2]], n, *x.shape[a[-2] :]), x.dtype,
        ),
        numpy=lambda *a: np.concatenate(a[:-2], a[-2]) if a[-1] else _np_stack(a[:-2], a[-2]),
        fallback=_cat_by_pads, routine="join.cat",
        batch=lambda c: apply(c.op, tuple(c.all()), (c.attrs[0] + 1, c.attrs[1])),
        **{f"x{i}": vjp_of(i) for i in range(n)},
    )  # fmt: skip


def _np_stack(arrays: Sequence[np.ndarray], dim: int) -> np.ndarray:
    if dim:
        return np.stack(arrays, dim)
    first = arrays[0]
    if not first.size:
        return np.empty((len(arrays), *first.shape), first.dtype)
    return np.concatenate([a[None] for a in arrays])


def _cat_by_pads(*args: Any) -> Tensor:
    """A sum (for bools, an or) of the inputs, each padded with zeros to the whole size."""
    xs, dim = args[:-2], args[-2]
    if not args[-1]:
        xs = tuple(unsqueeze(x, dim) for x in xs)
    total = sum(x.shape[dim] for x in xs)
    out: Any = None
    start = 0
    for x in xs:
        size = x.shape[dim]
        after = total - start - size
        if is_symbolic_size(size) or size:
            one = pad(x, tuple((start, after) if d == dim else (0, 0) for d in range(x.ndim)))
            if out is None:
                out = one
            else:
                out = logical_or(out, one) if x.dtype is dt.bool_ else out + one
        start += size
    return xs[0].clone() if out is None else out


def tensor_list(name: str, tensors: Any) -> list[Tensor]:
    """A sequence of tensors as a list; TypeError for others, RuntimeError for none."""
    if isinstance(tensors, Tensor) or not isinstance(tensors, Iterable):
        seen = type(tensors).__name__
        raise TypeError(f"{name}(): expected a list or tuple of Tensors, got {seen}")
    xs = list(tensors)
    if not xs:
        raise RuntimeError(f"{name}: expected a non-empty list of Tensors")
    for x in xs:
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: expected Tensors, got {type(x).__name__}")
    return xs


def _promoted(xs: list[Tensor]) -> list[Tensor]:
    common = xs[0].dtype
    same = True
    for x in xs:
        d = x.dtype
        if d is not common:
            common, same = dt.promote_types(common, d), False
    return xs if same else [x.to(common) for x in xs]


def cat(tensors: Any, dim: int = 0) -> Tensor:
    """The tensors one after the other along an existing dim."""
    xs = tensor_list("cat", tensors)
    for x in xs:
        if x.ndim == 0:
            raise RuntimeError("cat: zero-dimensional tensors cannot be concatenated; use stack")
    kept = [x for x in xs if not statically_equal(x.shape, (0,))]
    empty = [x for x in xs if x.requires_grad and statically_equal(x.shape, (0,))] if kept else []
    kept = kept or xs
    first = kept[0].shape
    d = normalize_dim(dim, len(first))
    for i, x in enumerate(kept):
        s = x.shape
        if len(s) != len(first) or any(
            a != b for j, (a, b) in enumerate(zip(s, first, strict=True)) if j != d
        ):
            raise RuntimeError(
                f"cat: Sizes of tensors must match except in dimension {d}. Expected "
                f"{list(first)} but got {list(s)} for tensor number {i} in the list."
            )
    common = _promoted(xs)[0].dtype
    kept += [reshape(x, (*first[:d], 0, *first[d + 1 :])) for x in empty]  # they have gradients
    kept = [x.to(common) for x in kept]
    if len(kept) == 1:
        order = {4: formats.channels_last, 5: formats.channels_last_3d}.get(len(first))
        if len(xs) > 1 or kept[0]._is_row_major() or not formats.in_format(kept[0], order):
            order = formats.contiguous_format
        return kept[0].clone(memory_format=order)
    if len(kept) > _MAX_CAT:
        return cat([cat(kept[i : i + _MAX_CAT], d) for i in range(0, len(kept), _MAX_CAT)], d)
    starts = (0, *itertools.accumulate([x.shape[d] for x in kept]))
    return apply(_cat_op(len(kept)), tuple(kept), (d, starts))


install_callbacks(CAT=cat)
concat = concatenate = cat


def stack(tensors: Any, dim: int = 0) -> Tensor:
    """The tensors, all of one shape, along a new dim."""
    xs = tensor_list("stack", tensors)
    shape = xs[0].shape
    for i, x in enumerate(xs):
        if x.shape != shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                f"{list(x.shape)} at entry {i}"
            )
    d = normalize_dim(dim, len(shape) + 1)
    xs = _promoted(xs)
    if len(xs) > _MAX_CAT:
        return cat([stack(xs[i : i + _MAX_CAT], d) for i in range(0, len(xs), _MAX_CAT)], d)
    return apply(_cat_op(len(xs)), tuple(xs), (d, ()))


public(globals(), functions="cat concat=cat concatenate=cat stack", out_apart="cat")
