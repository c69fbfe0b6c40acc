"""Movement: ops that only say where each element comes from. On the GPU they cost nothing."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe import dtypes as dt
from pyframe.graph import view as views
from pyframe.ops import op as _op
from pyframe.ops.elementwise import broadcast, logical_or
from pyframe.ops.op import MOVEMENT, ROUTINE, Op, apply
from pyframe.ops.public import public
from pyframe.tensor import Tensor, normalize_dim

Shape = tuple[int, ...]


def _like(shape_of: Any) -> Any:
    return lambda x, *attrs: (shape_of(x.shape, *attrs), x.dtype)


def _invert(dims: Shape) -> Shape:
    out = [0] * len(dims)
    for i, d in enumerate(dims):
        out[d] = i
    return tuple(out)


def _np_slices(starts: Shape, sizes: Shape, steps: Shape) -> tuple[slice, ...]:
    out = []
    for a, n, k in zip(starts, sizes, steps, strict=True):
        stop = a + n * k
        out.append(slice(a, None if stop < 0 else stop, k) if n else slice(0, 0))
    return tuple(out)


def _np_windows(x: np.ndarray, size: Shape, stride: Shape, dilation: Shape) -> np.ndarray:
    k = len(size)
    count = views.window_count(x.shape[-k:], size, stride, dilation)
    s = x.strides
    strides = (
        *s[:-k],
        *(a * b for a, b in zip(s[-k:], stride, strict=True)),
        *(a * b for a, b in zip(s[-k:], dilation, strict=True)),
    )
    shape = (*x.shape[:-k], *count, *size)
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


reshape_op = Op(
    "reshape", MOVEMENT, "x", "shape", alias=True,
    infer=_like(lambda s, shape: shape), numpy=np.reshape, view=views.reshape,
    x=lambda g, x_spec: reshape(g, x_spec.shape),
)  # fmt: skip
permute_op = Op(
    "permute", MOVEMENT, "x", "dims", alias=True,
    infer=_like(lambda s, dims: tuple(s[d] for d in dims)), numpy=np.transpose, view=views.permute,
    x=lambda g, dims: permute(g, _invert(dims)),
)  # fmt: skip
expand_op = Op(
    "expand", MOVEMENT, "x", "shape", alias=True,
    infer=_like(lambda s, shape: shape),
    numpy=lambda x, shape: np.lib.stride_tricks.as_strided(
        x, shape, views.expand((views.View(x.shape, x.strides),), shape)[0].strides
    ),
    view=views.expand, x=lambda g: g,  # the caller sums g to the input's shape
)  # fmt: skip
slice_op = Op(
    "slice", MOVEMENT, "x", "starts sizes steps", alias=True,
    infer=_like(lambda s, starts, sizes, steps: sizes),
    numpy=lambda x, *a: x[_np_slices(*a)], view=views.slice_,
    x=lambda g, x_spec, starts, sizes, steps: _unslice(g, x_spec.shape, starts, steps),
)  # fmt: skip
pad_op = Op(
    "pad", MOVEMENT, "x", "widths value",
    infer=_like(lambda s, w, v: tuple(n + a + b for n, (a, b) in zip(s, w, strict=True))),
    numpy=lambda x, widths, value: np.pad(x, widths, constant_values=value),
    view=lambda t, widths, value: views.pad(t, widths),
    x=lambda g, x_spec, widths: slice_(g, tuple(a for a, _ in widths), x_spec.shape),
)  # fmt: skip
windows_op = Op(
    "windows", MOVEMENT, "x", "size stride dilation", alias=True,
    infer=_like(
        lambda s, k, st, d: (
            *s[: -len(k)], *views.window_count(s[-len(k) :], k, st, d), *k
        )
    ),
    numpy=_np_windows, view=views.windows,
    x=lambda g, x_spec, size, stride, dilation: fold(
        g, x_spec.shape[-len(size) :], stride, dilation
    ),
)  # fmt: skip


def _np_fold(cols: np.ndarray, spatial: Shape, stride: Shape, dilation: Shape) -> np.ndarray:
    k = len(spatial)
    count, size = cols.shape[-2 * k : -k], cols.shape[-k:]
    out = np.zeros((*cols.shape[: -2 * k], *spatial), cols.dtype)
    for at in np.ndindex(*size):
        place = tuple(
            slice(i * d, i * d + (n - 1) * s + 1, s)
            for i, d, n, s in zip(at, dilation, count, stride, strict=True)
        )
        out[(..., *place)] += cols[(..., *at)]
    return out


def _fold_by_views(cols: Tensor, spatial: Shape, stride: Shape, dilation: Shape) -> Tensor:
    """A sum of one shifted, dilated copy per position in the window: one kernel when fused."""
    k = len(spatial)
    shape = cols.shape
    lead, count, size = shape[: -2 * k], shape[-2 * k : -k], shape[-k:]
    total: Tensor | None = None
    for at in np.ndindex(*size):
        one = slice_(cols, (0,) * (len(shape) - k) + at, (*lead, *count) + (1,) * k)
        one = dilate(reshape(one, (*lead, *count)), stride)
        before = tuple(i * d for i, d in zip(at, dilation, strict=True))
        widths = tuple(
            (b, n - b - m) for b, n, m in zip(before, spatial, one.shape[-k:], strict=True)
        )
        one = pad(one, ((0, 0),) * len(lead) + widths)
        total = one if total is None else total + one
    assert total is not None
    return total


fold_op = Op(
    "fold", ROUTINE, "cols", "spatial stride dilation",
    infer=_like(lambda s, n, st, d: (*s[: -2 * len(n)], *n)),
    numpy=_np_fold, fallback=_fold_by_views,
    cols=lambda g, cols_spec, stride, dilation: windows(
        g, cols_spec.shape[-len(stride) :], stride, dilation
    ),
)  # fmt: skip


# --- the same with checks, in terms of tensors


def _ints(name: str, shape: Any) -> Shape:
    if len(shape) == 1 and not isinstance(shape[0], int) and not isinstance(shape[0], Tensor):
        shape = shape[0]
    try:
        return tuple(int(n) if isinstance(n, Tensor) else n.__index__() for n in shape)
    except (AttributeError, TypeError):
        raise TypeError(f"{name}: expected ints, got {shape!r}") from None


def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape (one size may be -1): a view where that is possible."""
    new = _ints("reshape", shape)
    old = input._node.shape
    n = math.prod(old)
    if -1 in new:
        known = -math.prod(new)
        if new.count(-1) > 1 or known == 0 or n % known:
            why = "only one dimension can be inferred" if new.count(-1) > 1 else "no size fits -1"
            raise RuntimeError(f"shape '{list(new)}' is invalid for input of size {n}: {why}")
        new = tuple(n // known if s == -1 else s for s in new)
    if math.prod(new) != n or any(s < 0 for s in new):
        raise RuntimeError(
            f"shape '{list(new)}' is invalid for input of size {n}: reshape of {list(old)} needs "
            f"sizes whose product is {n}"
        )
    if input.device.lazy and input._steps:
        tracker = views.reshape(input._tracker(), new)
        if len(tracker) > 1:  # no strides can say it, so PyTorch copies
            input = input.clone()
    return apply(reshape_op, (input,), (new,))


def view(input: Tensor, *shape: Any) -> Tensor:
    """`reshape` that never copies. RuntimeError where the memory layout does not allow it."""
    if len(shape) == 1 and isinstance(shape[0], dt.dtype):
        raise TypeError("view: reading the bytes as another dtype is not supported; use to()")
    out = reshape(input, *shape)
    if out._storage is not input._storage:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return out


def permute(input: Tensor, *dims: Any) -> Tensor:
    """The dims in another order; torch.permute."""
    order = tuple(normalize_dim(d, input.ndim) for d in _ints("permute", dims))
    if sorted(order) != list(range(input.ndim)):
        raise RuntimeError(
            f"permute(sparse_coo): dims {list(order)} do not match a tensor of {input.ndim} dims: "
            "expected each dim once"
        )
    return apply(permute_op, (input,), (order,))


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dims swapped."""
    a, b = normalize_dim(dim0, input.ndim), normalize_dim(dim1, input.ndim)
    order = list(range(input.ndim))
    if order:
        order[a], order[b] = order[b], order[a]
    return apply(permute_op, (input,), (tuple(order),))


def t(input: Tensor) -> Tensor:
    """The transpose of a matrix (at most 2 dims)."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return transpose(input, 0, 1) if input.ndim == 2 else input


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Dims moved to other positions, the others keeping their order."""
    src = [source] if isinstance(source, int) else list(source)
    dst = [destination] if isinstance(destination, int) else list(destination)
    src = [normalize_dim(d, input.ndim) for d in src]
    dst = [normalize_dim(d, input.ndim) for d in dst]
    if len(src) != len(dst) or len(set(src)) != len(src) or len(set(dst)) != len(dst):
        raise RuntimeError(
            f"movedim: source {src} and destination {dst} must be unique dims, as many of each"
        )
    order = [d for d in range(input.ndim) if d not in src]
    for d, s in sorted(zip(dst, src, strict=True)):
        order.insert(d, s)
    return apply(permute_op, (input,), (tuple(order),))


def expand(input: Tensor, *sizes: Any) -> Tensor:
    """Dims of size 1 repeated without copying; -1 keeps a size."""
    sizes = _ints("expand", sizes)
    old = input._node.shape
    extra = len(sizes) - len(old)
    if extra < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(sizes)}) must be greater or equal to the "
            f"number of dimensions in the tensor ({len(old)})"
        )
    new = tuple(old[d - extra] if n == -1 and d >= extra else n for d, n in enumerate(sizes))
    for d, n in enumerate(new):
        if n < 0 or (d >= extra and old[d - extra] not in (1, n)):
            raise RuntimeError(
                f"expand: the expanded size ({n}) must match the existing size at dim {d}: "
                f"{list(old)} doesn't expand to {list(sizes)}"
            )
    return input if new == old else apply(expand_op, (input,), (new,))


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """`input` expanded to the shape of `other`."""
    return expand(input, other._node.shape)


def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """`expand` under NumPy's name."""
    return expand(input, size)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape."""
    shape = broadcast("broadcast_tensors", *[x._node.shape for x in tensors])
    return tuple(expand(x, shape) for x in tensors)


def slice_(x: Tensor, starts: Shape, sizes: Shape, steps: Shape | None = None) -> Tensor:
    return apply(slice_op, (x,), (starts, sizes, steps or (1,) * len(starts)))


def _unslice(g: Tensor, shape: Shape, starts: Shape, steps: Shape) -> Tensor:
    """The gradient of a slice: `g` where the slice was taken from, 0 elsewhere."""
    if 0 in g._node.shape:
        return full_like_shape(g, shape)
    flipped = tuple(d for d, k in enumerate(steps) if k < 0)
    if flipped:
        g = flip(g, flipped)
    g = dilate(g, tuple(builtin_abs(k) for k in steps))
    widths = []
    for n, m, a, k in zip(shape, g._node.shape, starts, steps, strict=True):
        first = a if k > 0 else a - (m - 1)
        widths.append((first, n - first - m))
    return pad(g, tuple(widths))


builtin_abs = abs


def full_like_shape(x: Tensor, shape: Shape) -> Tensor:
    from pyframe.ops.creation import zeros

    return zeros(shape, dtype=x.dtype, device=x.device)


def dilate(x: Tensor, steps: Shape) -> Tensor:
    """`steps - 1` zeros between neighbours of the last dims."""
    k = len(steps)
    if all(s == 1 for s in steps):
        return x
    lead, sizes = x._node.shape[:-k], x._node.shape[-k:]
    apart = reshape(x, (*lead, *(m for n in sizes for m in (n, 1))))
    widths = ((0, 0),) * len(lead) + tuple(w for s in steps for w in ((0, 0), (0, s - 1)))
    wide = reshape(pad(apart, widths), (*lead, *(n * s for n, s in zip(sizes, steps, strict=True))))
    ends = tuple((n - 1) * s + 1 for n, s in zip(sizes, steps, strict=True))
    return slice_(wide, (0,) * (len(lead) + k), (*lead, *ends))


def flip(input: Tensor, *axes: Any, dims: Any = None) -> Tensor:
    """The order of elements reversed along dims (a copy, as PyTorch's)."""
    named = _ints("flip", axes if dims is None else (dims,))
    which = {normalize_dim(d, input.ndim) for d in named}
    if len(which) < len(named):
        raise RuntimeError(f"flip: a dim appears more than once in {list(named)}")
    if not which:
        return input.clone()
    shape = input._node.shape
    starts = tuple(n - 1 if d in which else 0 for d, n in enumerate(shape))
    steps = tuple(-1 if d in which else 1 for d in range(len(shape)))
    if 0 in shape:
        return input.clone()
    return slice_(input, starts, shape, steps).clone()


def pad(x: Tensor, widths: Any, value: Any = 0) -> Tensor:
    """Add (before, after) elements of `value` to each dim; negative widths cut."""
    if any(a < 0 or b < 0 for a, b in widths):
        starts = tuple(max(-a, 0) for a, _ in widths)
        sizes = tuple(
            n - max(-a, 0) - max(-b, 0) for n, (a, b) in zip(x._node.shape, widths, strict=True)
        )
        x = slice_(x, starts, sizes)
        widths = tuple((max(a, 0), max(b, 0)) for a, b in widths)
    if all(w == (0, 0) for w in widths):
        return x
    return apply(pad_op, (x,), (tuple(widths), value))


def windows(x: Tensor, size: Shape, stride: Shape, dilation: Shape) -> Tensor:
    """Sliding windows: (..., *spatial) -> (..., *positions, *size), a view."""
    return apply(windows_op, (x,), (tuple(size), tuple(stride), tuple(dilation)))


def fold(cols: Tensor, spatial: Shape, stride: Shape, dilation: Shape) -> Tensor:
    """The transpose of `windows`: overlapping elements are added."""
    return apply(fold_op, (cols,), (tuple(spatial), tuple(stride), tuple(dilation)))


def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Dims of size 1 removed: all, or those named."""
    shape = input._node.shape
    if dim is None:
        drop = {d for d, n in enumerate(shape) if n == 1}
    else:
        dims = [dim] if isinstance(dim, int) else dim
        drop = {normalize_dim(d, input.ndim) for d in dims}
        drop = {d for d in drop if shape and shape[d] == 1}
    return reshape(input, tuple(n for d, n in enumerate(shape) if d not in drop))


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A dim of size 1 inserted at `dim`."""
    d = normalize_dim(dim, input.ndim + 1)
    shape = input._node.shape
    return reshape(input, (*shape[:d], 1, *shape[d:]))


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dims start_dim..end_dim joined into one."""
    shape = input._node.shape
    a, b = normalize_dim(start_dim, input.ndim), normalize_dim(end_dim, input.ndim)
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if a == b and shape:
        return input
    return reshape(input, (*shape[:a], math.prod(shape[a : b + 1]), *shape[b + 1 :]))


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dim split into several."""
    d = normalize_dim(dim, input.ndim)
    shape = input._node.shape
    return reshape(input, (*shape[:d], *sizes, *shape[d + 1 :]))


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Elements start..start+length of a dim, as a view."""
    d, shape = normalize_dim(dim, input.ndim), input._node.shape
    if not -shape[d] <= start <= shape[d]:
        raise IndexError(f"narrow: start {start} is out of range for size {shape[d]} at dim {d}")
    start += shape[d] if start < 0 else 0
    if length < 0 or start + length > shape[d]:
        raise RuntimeError(
            f"start ({start}) + length ({length}) exceeds dimension size ({shape[d]})."
        )
    starts = tuple(start if i == d else 0 for i in range(len(shape)))
    return slice_(input, starts, tuple(length if i == d else n for i, n in enumerate(shape)))


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at `index` of a dim, without that dim."""
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = normalize_dim(dim, input.ndim)
    n = input._node.shape[d]
    if not -n <= index < n:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input._node.shape)} "
            f"at dimension {d}; expected {-n} to {n - 1}"
        )
    return squeeze(narrow(input, d, index % n, 1), d)


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of equal size (the last may be smaller), or of the sizes given, along a dim."""
    d = normalize_dim(dim, tensor.ndim)
    n = tensor._node.shape[d]
    sizes = split_size_or_sections
    if isinstance(sizes, int):
        if sizes <= 0 and not (sizes == 0 and n == 0):
            raise RuntimeError(f"split: expected a positive split_size, got {sizes}")
        step = max(sizes, 1)
        sizes = [min(step, n - i) for i in range(0, n, step)] or [0]
    elif sum(sizes) != n:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at "
            f"dimension {d}), but got split_sizes={list(sizes)}"
        )
    out, start = [], 0
    for size in sizes:
        out.append(narrow(tensor, d, start, size))
        start += size
    return tuple(out)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` views of equal size along a dim."""
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = input._node.shape[normalize_dim(dim, input.ndim)]
    return split(input, max(-(-n // chunks), 1), dim)


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along a dim, without it."""
    d = normalize_dim(dim, input.ndim)
    return tuple(select(input, d, i) for i in range(input._node.shape[d]))


@functools.cache
def _cat_op(n: int) -> Op:
    names = [f"x{i}" for i in range(n)]

    def vjp_of(i: int) -> Any:
        scope: dict[str, Any] = {}
        specs = ", ".join(f"x{j}_spec" for j in range(i + 1))
        exec(f"def vjp(g, dim, {specs}): return cut(g, dim, ({specs},))", {"cut": _cut}, scope)
        return scope["vjp"]

    return Op(
        f"cat{n}", ROUTINE, " ".join(names), "dim",
        infer=lambda *a: (
            tuple(
                sum(x.shape[d] for x in a[:-1]) if d == a[-1] else m
                for d, m in enumerate(a[0].shape)
            ),
            a[0].dtype,
        ),
        numpy=lambda *a: np.concatenate(a[:-1], a[-1]),
        fallback=_cat_by_pads, **{f"x{i}": vjp_of(i) for i in range(n)},
    )  # fmt: skip


def _cut(g: Tensor, dim: int, specs: tuple[Any, ...]) -> Tensor:
    sizes = [s.shape[dim] for s in specs]
    return narrow(g, dim, sum(sizes[:-1]), sizes[-1])


def _cat_by_pads(*args: Any) -> Tensor:
    """A sum (for bools, an or) of the inputs, each padded with zeros to the whole size."""
    xs, dim = args[:-1], args[-1]
    total = sum(x.shape[dim] for x in xs)
    out: Any = None
    start = 0
    for x in xs:
        size = x.shape[dim]
        after = total - start - size
        if size:
            one = pad(x, tuple((start, after) if d == dim else (0, 0) for d in range(x.ndim)))
            if out is None:
                out = one
            else:
                out = logical_or(out, one) if x.dtype is dt.bool_ else out + one
        start += size
    return xs[0].clone() if out is None else out


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after the other along an existing dim."""
    xs = list(tensors)
    if not xs:
        raise RuntimeError("cat: expected a non-empty list of Tensors")
    for x in xs:
        if not isinstance(x, Tensor):
            raise TypeError(f"cat: expected Tensors, got {type(x).__name__}")
        if x.ndim == 0:
            raise RuntimeError("cat: zero-dimensional tensors cannot be concatenated; use stack")
    kept = [x for x in xs if x._node.shape != (0,)] or xs[:1]
    first = kept[0]._node.shape
    d = normalize_dim(dim, len(first))
    for i, x in enumerate(kept):
        s = x._node.shape
        if len(s) != len(first) or any(
            a != b for j, (a, b) in enumerate(zip(s, first, strict=True)) if j != d
        ):
            raise RuntimeError(
                f"cat: Sizes of tensors must match except in dimension {d}. Expected "
                f"{list(first)} but got {list(s)} for tensor number {i} in the list."
            )
    common = kept[0].dtype
    for x in kept[1:]:
        common = dt.promote_types(common, x.dtype)
    kept = [x.to(common) for x in kept]
    if len(kept) == 1:
        return kept[0].clone()
    return apply(_cat_op(len(kept)), tuple(kept), (d,))


concat = concatenate = cat


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors, all of one shape, along a new dim."""
    xs = list(tensors)
    if not xs:
        raise RuntimeError("stack: expected a non-empty list of Tensors")
    for x in xs:
        if x._node.shape != xs[0]._node.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(xs[0].shape)} and "
                f"{list(x.shape)}"
            )
    d = normalize_dim(dim, xs[0].ndim + 1)
    return cat([unsqueeze(x, d) for x in xs], d)


def repeat(input: Tensor, *sizes: Any) -> Tensor:
    """The tensor copied along each dim as often as `sizes` says."""
    counts = _ints("repeat", sizes)
    shape = input._node.shape
    if len(counts) < len(shape):
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            f"tensor: got {list(counts)} for shape {list(shape)}"
        )
    shape = (1,) * (len(counts) - len(shape)) + shape
    spread = reshape(input, tuple(m for n in shape for m in (1, n)))
    wide = expand(spread, tuple(m for c, n in zip(counts, shape, strict=True) for m in (c, n)))
    return wide.clone().reshape(tuple(c * n for c, n in zip(counts, shape, strict=True)))


def contiguous(input: Tensor) -> Tensor:
    """Itself if its memory is in row-major order, else a copy that is."""
    return input if input.is_contiguous() else input.clone()


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """`view` in the shape of `other`."""
    return view(input, other._node.shape)


# --- the writes behind in-place ops on views


def _put_numpy(base: np.ndarray, value: np.ndarray, steps: Any) -> np.ndarray:
    out = np.array(base, order="C")
    part = _np_cut(out, steps)
    if not part.size or np.may_share_memory(part, out):
        part[...] = value
    else:  # the view is none in this memory order: find the positions that it shows
        places = np.arange(out.size).reshape(out.shape)
        out.reshape(-1)[_np_cut(places, steps)] = value
    return out


def _np_cut(x: np.ndarray, steps: Any) -> np.ndarray:
    for op, attrs in steps:
        x = op.numpy(x, *attrs)
    return x


def _put_by_views(base: Tensor, value: Tensor, steps: Any) -> Tensor:
    """`base` with `value` where the view that `steps` cut from it is."""
    from pyframe.ops.creation import ones
    from pyframe.ops.elementwise import where

    if not steps:
        return value
    (op, attrs), rest = steps[0], steps[1:]
    inner = value if not rest else _put_by_views(apply(op, (base,), attrs), value, rest)
    if op is slice_op:
        starts, sizes, strides = attrs
        if 0 in sizes:
            return base
        shape = base._node.shape
        inside = ones((), dtype=dt.bool_, device=base.device).expand(sizes)
        return where(
            _unslice(inside, shape, starts, strides), _unslice(inner, shape, starts, strides), base
        )
    if op is reshape_op:
        return reshape(inner, base._node.shape)
    if op is permute_op:
        return permute(inner, _invert(attrs[0]))
    if op is expand_op:
        return reshape(inner, base._node.shape)  # an expand that is written to repeats nothing
    raise RuntimeError(f"in-place write through a view made by {op.name}; clone() it first")


def _cut_steps(g: Tensor, steps: Any) -> Tensor:
    for op, attrs in steps:
        g = apply(op, (g,), attrs)
    return g


put_op = Op(
    "put", ROUTINE, "base value", "steps",
    infer=lambda base, value, steps: (base.shape, base.dtype),
    numpy=_put_numpy, fallback=_put_by_views,
    base=lambda g, steps: apply(put_op, (g, _cut_steps(g, steps) * 0), (steps,)),
    value=lambda g, steps: _cut_steps(g, steps),
)  # fmt: skip
_op.PUT = put_op
_op.TO_DEVICE = Op("to_device", ROUTINE, "x", "source dtype", x=lambda g, source: g.to(source))


PUBLIC = public(
    globals(),
    both="""reshape permute transpose swapaxes=transpose t movedim broadcast_to flip squeeze
    unsqueeze flatten unflatten narrow select split chunk unbind""",
    methods="view view_as expand expand_as repeat contiguous",
    functions="cat concat=cat concatenate=cat stack broadcast_tensors",
    rebind="squeeze unsqueeze transpose swapaxes t",
)
