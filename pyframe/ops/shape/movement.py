"""Movement: ops that only say where each element comes from. On the GPU they cost nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pyframe.core import dispatch as _dispatch, dtypes as dt, view as views
from pyframe.core.dispatch import apply, install_callbacks, is_materialized
from pyframe.core.modes import mode
from pyframe.core.node import Node
from pyframe.core.op import ELEMENTWISE, MOVEMENT, Op
from pyframe.core.sizes import SymbolicSize, is_symbolic_size, statically_equal
from pyframe.core.view import inverse_order
from pyframe.ops.api import check
from pyframe.ops.api.public import public
from pyframe.ops.math.elementwise import copy, eq, iota, ordered, where
from pyframe.ops.math.promotion import broadcast
from pyframe.tensor import Size, Tensor, normalize_dim

Shape = tuple[int, ...]


def like(shape_of: Any) -> Any:
    return lambda x, *attrs: (shape_of(x.shape, *attrs), x.dtype)


def _np_slices(starts: Shape, sizes: Shape, steps: Shape) -> tuple[slice, ...]:
    out = []
    for a, n, k in zip(starts, sizes, steps, strict=True):
        stop = a + n * k
        out.append(slice(a, None if stop < 0 else stop, k) if n else slice(0, 0))
    return tuple(out)


def _np_reshape(x: np.ndarray, shape: Shape) -> np.ndarray:
    if (
        0 in x.strides and x.ndim > 1 and x.strides[-1] == 0 != x.strides[-2]
        and 1 < x.shape[-1] <= 8 < x.shape[-2] and shape and shape[-1] > x.shape[-1]
    ):  # few repeats, which no view can have, copied one after the other  # fmt: skip
        out = np.empty(x.shape, x.dtype)
        for i in range(x.shape[-1]):
            out[..., i] = x[..., i]
        x = out
    return x.reshape(shape)


def np_pad(x: np.ndarray, widths: Any, value: Any = 0) -> np.ndarray:
    """np.pad of one value, many times faster on small arrays."""
    out = np.full([n + a + b for n, (a, b) in zip(x.shape, widths, strict=True)], value, x.dtype)
    out[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, widths, strict=True))] = x
    return out


class Movement(Op):
    """An op whose result only says where each of its elements comes from."""

    def __init__(
        self, name: str, inputs: str, attrs: str = "", *,
        batch_attrs: Callable[..., tuple[Any, ...]] | None = None, overlaps: bool = False,
        in_memory: bool = False, changes_order: bool = False, put: Callable[..., Any] | None = None,
        lower_view: Callable[[Any], Any] | None = None, **kw: Any,
    ) -> None:  # fmt: skip
        self.changes_order = changes_order
        # (attrs, shape of an example, size): those that do the same to each example of a batch;
        # None if they count dims from the end
        self.batch_attrs = batch_attrs
        self.overlaps = overlaps  # an element may show several times: a write through it is none
        self.in_memory = in_memory  # it counts in memory, and means that of the owner
        self.put = put  # (base, what the view shows now): what the base is then
        self.lower_view = lower_view
        # what shows parts of elements is computed by kernels
        super().__init__(name, ELEMENTWISE if "scalar" in kw else MOVEMENT, inputs, attrs, **kw)


def _batch_first(attrs: Any, shape: Shape, size: int) -> Any:
    return ((size, *attrs[0]),)


def _expand_batched(c: Any) -> Tensor:
    """The rule of `expand`: new dims come between that of the batch and the example's."""
    return apply(c.op, (c.with_rank(0, len(c.shape)),), _batch_first(c.attrs, c.shape, c.size))


reshape_op = Movement(
    "reshape", "x", "shape", alias=True,
    infer=like(lambda s, shape: shape), numpy=_np_reshape, view=views.reshape,
    undo=lambda x, shape: (x.shape,), x=lambda g, x_spec: reshape(g, x_spec.shape),
    batch_attrs=_batch_first,
)  # fmt: skip
permute_op = Movement(
    "permute", "x", "dims", alias=True,
    infer=like(lambda s, dims: tuple([s[d] for d in dims])),
    numpy=lambda x, dims: x.transpose(dims), view=views.permute,
    undo=lambda x, dims: (inverse_order(dims),),
    x=lambda g, dims: permute(g, inverse_order(dims)),
    batch_attrs=lambda attrs, shape, size: ((0, *[d + 1 for d in attrs[0]]),), changes_order=True,
)  # fmt: skip
install_callbacks(PERMUTE=permute_op)
expand_op = Movement(
    "expand", "x", "shape", alias=True,
    infer=like(lambda s, shape: shape),
    numpy=lambda x, shape: np.lib.stride_tricks.as_strided(
        x, shape, views.expand((views.View(x.shape, x.strides),), shape)[0].strides
    ),
    view=views.expand, x=lambda g: g,  # the caller sums g to the input's shape
    batch=_expand_batched, batch_attrs=_batch_first,
)  # fmt: skip
slice_op = Movement(
    "slice", "x", "starts sizes steps", alias=True,
    infer=like(lambda s, starts, sizes, steps: sizes),
    numpy=lambda x, *a: x[_np_slices(*a)], view=views.slice_,
    x=lambda g, x_spec, starts, sizes, steps: unslice(g, x_spec.shape, starts, steps),
    batch_attrs=lambda attrs, shape, size: ((0, *attrs[0]), (size, *attrs[1]), (1, *attrs[2])),
)  # fmt: skip
pad_op = Movement(
    "pad", "x", "widths value",
    infer=like(lambda s, w, v: tuple(n + a + b for n, (a, b) in zip(s, w, strict=True))),
    numpy=np_pad,
    view=lambda t, widths, value: views.pad(t, widths),
    x=lambda g, x_spec, widths: slice_(g, tuple(a for a, _ in widths), x_spec.shape),
    batch_attrs=lambda attrs, shape, size: (((0, 0), *attrs[0]), attrs[1]),
)  # fmt: skip
diagonal_op = Movement(
    "diagonal", "x", "offset dim1 dim2", alias=True,
    infer=like(lambda s, k, a, b: views.diagonal_shape(s, k, a, b)),
    numpy=lambda x, k, a, b: np.lib.stride_tricks.as_strided(
        x[views.diagonal_start(x.shape, k, a, b)], views.diagonal_shape(x.shape, k, a, b),
        views.diagonal_strides(x.strides, a, b),
    ),
    view=views.diagonal,
    x=lambda g, x_spec, offset, dim1, dim2: undiagonal(g, x_spec.shape, offset, dim1, dim2),
    batch_attrs=lambda attrs, shape, size: (attrs[0], attrs[1] + 1, attrs[2] + 1),
    changes_order=True,
)  # fmt: skip


def zeros_for(g: Tensor, shape: Shape) -> Tensor:
    """Zeros that depend on g, if on nothing of it: the gradient of what has no elements."""
    zeros = g.new_zeros(shape)
    return zeros + g.sum() if g.requires_grad else zeros


def undiagonal(g: Tensor, shape: Shape, offset: int, dim1: int, dim2: int) -> Tensor:
    """The gradient of a diagonal: `g` there, 0 elsewhere."""
    n, m = shape[dim1], shape[dim2]
    length = g.shape[-1]
    if not length:
        return zeros_for(g, shape)
    above, below = max(offset, 0), max(-offset, 0)
    widths = ((below, n - below - length), (above, m - above - length))
    whole = pad(_as_diagonal(g), ((0, 0),) * (g.ndim - 1) + widths)
    return movedim(whole, (-2, -1), (dim1, dim2))


def _as_diagonal(x: Tensor) -> Tensor:
    """(..., n) -> (..., n, n) with `x` on the diagonal, 0 elsewhere."""
    hot = on_diagonal(x.shape[-1], x.device)
    return where(hot, unsqueeze(x, -1), False if x.dtype is dt.bool_ else 0)


def on_diagonal(n: int, device: Any) -> Tensor:
    """bool (n, n): which elements of a matrix lie on its diagonal."""
    return eq(iota((n, 1), device), iota((n,), device))


# --- the same with checks, in terms of tensors


def as_ints(name: str, shape: Any) -> Shape:
    """Ints (or 0-d tensors) given one by one or as one sequence; TypeError for others."""
    if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)):
        first = shape[0]
        shape = first if not isinstance(first, Tensor) else (first,) if not first.ndim else first
    try:
        return tuple([n if type(n) in (int, SymbolicSize) else _as_int(n) for n in shape])
    except (AttributeError, TypeError):
        raise TypeError(f"{name}: expected ints, got {shape!r}") from None


def _as_int(n: Any) -> int:
    return int(n) if isinstance(n, Tensor) else n.__index__()


def as_sizes(name: str, given: Any, named: Any) -> Shape:
    """Ints given one by one, as a sequence, or by the parameter's own name."""
    if named is not None:
        if given:
            raise TypeError(f"{name}: sizes were given twice: {given!r} and {named!r}")
        given = (named,)
    return as_ints(name, given)


def reshape(input: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
    """The same elements in another shape (one size may be -1): a view where that is possible."""
    new = as_sizes("reshape", sizes, shape)
    old = input.shape
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
    if not is_materialized(input) and input._view_chain:
        index_map = views.reshape(input._index_map(), new)
        if len(index_map) > 1:  # no strides can say it, so PyTorch copies
            input = copy(input)
    return apply(reshape_op, (input,), (new,))


def in_shape(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`reshape`, but `x` itself where it has the shape."""
    return x if statically_equal(x.shape, shape) else reshape(x, shape)


def view(input: Tensor, *shape: Any, dtype: Any = None, size: Any = None) -> Tensor:
    """`reshape` that never copies; with a dtype, the same bytes read as another dtype (CPU).
    RuntimeError where the memory layout does not allow it."""
    if len(shape) == 1 and isinstance(shape[0], dt.dtype):
        dtype, shape = shape[0], ()
    if dtype is not None:
        return _view_dtype(input, dtype)
    out = reshape(input, *shape, shape=size)
    if out._storage is not input._storage:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return out


view_dtype_op = Movement(
    "view_dtype", "x", "dtype", alias=True,
    infer=lambda x, dtype: (_bytes_shape(x.shape, x.dtype, dtype), dtype),
    numpy=lambda x, dtype: x.view(dtype.numpy) if x.ndim else x.reshape(1).view(dtype.numpy)[0:1]
    .reshape(()),
)  # fmt: skip


def _bytes_shape(shape: Shape, old: dt.dtype, new: dt.dtype) -> Shape:
    if old.itemsize == new.itemsize:
        return shape
    if not shape or shape[-1] * old.itemsize % new.itemsize:
        raise RuntimeError(
            f"view: self.size(-1) must be divisible by {new.itemsize / old.itemsize:g} to view "
            f"{old.name} as {new.name} (different element sizes), but got shape {list(shape)}"
        )
    return (*shape[:-1], shape[-1] * old.itemsize // new.itemsize)


def _view_dtype(x: Tensor, d: dt.dtype) -> Tensor:
    if d is x.dtype:
        return x.detach()
    if not x.device.wide or x.dtype.narrow or d.narrow:
        raise RuntimeError(
            f"view: reading {x.dtype.name} as {d.name} is supported between the CPU's NumPy dtypes "
            f"(on {x.device} they have other bytes); convert with .to() or move with .cpu()"
        )
    shape = _bytes_shape(x.shape, x.dtype, d)
    if d.itemsize != x.dtype.itemsize and x.stride(-1) != 1:
        raise RuntimeError(
            f"view: self.stride(-1) must be 1 to view {x.dtype.name} as {d.name} (different "
            f"element sizes), but got {x.stride(-1)}"
        )
    if mode.capture is not None:
        mode.capture.graph_break("reads bytes as another dtype")
    if x.is_meta:
        return _dispatch.tensor_from_node(
            Node(None, (), (), shape, d, x.device, x._storage.node.data)
        )
    return apply(view_dtype_op, (x,), (d,)).detach()


def permute(input: Tensor, *order_: Any, dims: Any = None) -> Tensor:
    """The dims in another order; torch.permute."""
    given = as_sizes("permute", order_, dims)
    order = [normalize_dim(d, input.ndim) for d in given] if len(given) == input.ndim else [-1]
    if sorted(order) != list(range(input.ndim)):
        raise RuntimeError(
            f"permute: dims {list(given)} do not match a tensor of {input.ndim} dims: "
            "expected each dim once"
        )
    return apply(permute_op, (input,), (tuple(order),))


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
    return transpose(input, 0, input.ndim - 1)


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Dims moved to other positions, the others keeping their order."""
    if not input.ndim and isinstance(source, int):
        return transpose(input, source, destination)  # checks the dims
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


def expand(input: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """Dims of size 1 repeated without copying; -1 keeps a size."""
    sizes = as_sizes("expand", sizes, size)
    old = input.shape
    extra = len(sizes) - len(old)
    if extra < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(sizes)}) must be greater or equal to the "
            f"number of dimensions in the tensor ({len(old)})"
        )
    new = tuple([old[d - extra] if n == -1 and d >= extra else n for d, n in enumerate(sizes)])
    for d, n in enumerate(new):
        if n < 0 or (d >= extra and old[d - extra] not in (1, n)):
            raise RuntimeError(
                f"expand: the expanded size ({n}) must match the existing size at dim {d}: "
                f"{list(old)} doesn't expand to {list(sizes)}"
            )
    return input if new == old else apply(expand_op, (input,), (new,))


def expand_view(input: Tensor, *sizes: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """`expand` that gives a view of its own where nothing is repeated too."""
    out = expand(input, *sizes, size=size)
    return out if out is not input else apply(reshape_op, (input,), (input.shape,))


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """`input` expanded to the shape of `other`."""
    return expand_view(input, other.shape)


def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """`expand` under NumPy's name."""
    return expand_view(input, size)


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes have together; an int counts as a shape."""
    given = [as_ints("broadcast_shapes", (s,)) for s in shapes]
    if any(n < 0 for s in given for n in s):
        raise RuntimeError(f"broadcast_shapes: negative sizes in {[list(s) for s in given]}")
    return Size(broadcast("broadcast_shapes", *given) if given else ())


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape."""
    xs = given_tensors("broadcast_tensors", tensors)
    if not xs:
        return ()
    shape = broadcast("broadcast_tensors", *[x.shape for x in xs])
    return tuple([expand(x, shape) for x in xs])


def slice_(x: Tensor, starts: Shape, sizes: Shape, steps: Shape | None = None) -> Tensor:
    """Elements starts + i * steps, i < sizes, of each dim, as a view."""
    return apply(slice_op, (x,), (starts, sizes, steps or (1,) * len(starts)))


def unslice(g: Tensor, shape: Shape, starts: Shape, steps: Shape) -> Tensor:
    """The gradient of a slice: `g` where the slice was taken from, 0 elsewhere."""
    if 0 in g.shape:
        return zeros_for(g, shape)
    flipped = tuple(d for d, k in enumerate(steps) if k < 0)
    if flipped:
        g = flip(g, flipped)
    g = dilate(g, tuple(builtin_abs(k) for k in steps))
    widths = []
    for n, m, a, k in zip(shape, g.shape, starts, steps, strict=True):
        first = a if k > 0 else a - (m - 1)
        widths.append((first, n - first - m))
    return pad(g, tuple(widths))


builtin_abs = abs


def dilate(x: Tensor, steps: Shape) -> Tensor:
    """`steps - 1` zeros between neighbours of the last dims."""
    k = len(steps)
    if all(s == 1 for s in steps):
        return x
    lead, sizes = x.shape[:-k], x.shape[-k:]
    apart = reshape(x, (*lead, *(m for n in sizes for m in (n, 1))))
    widths = ((0, 0),) * len(lead) + tuple(w for s in steps for w in ((0, 0), (0, s - 1)))
    wide = reshape(pad(apart, widths), (*lead, *(n * s for n, s in zip(sizes, steps, strict=True))))
    ends = tuple((n - 1) * s + 1 for n, s in zip(sizes, steps, strict=True))
    return slice_(wide, (0,) * (len(lead) + k), (*lead, *ends))


def flip(input: Tensor, *axes: Any, dims: Any = None) -> Tensor:
    """The order of elements reversed along dims (a copy, as PyTorch's)."""
    named = as_sizes("flip", axes, dims)
    which = {normalize_dim(d, input.ndim) for d in named}
    if len(which) < len(named):
        raise RuntimeError(f"flip: a dim appears more than once in {list(named)}")
    shape = input.shape
    if not which or not shape or 0 in shape:
        return input.clone()
    starts = tuple(n - 1 if d in which else 0 for d, n in enumerate(shape))
    steps = tuple(-1 if d in which else 1 for d in range(len(shape)))
    return slice_(input, starts, shape, steps).clone()


def pad(x: Tensor, widths: Any, value: Any = 0) -> Tensor:
    """Add (before, after) elements of `value` to each dim; negative widths cut."""
    if any(a < 0 or b < 0 for a, b in widths):
        starts = tuple(max(-a, 0) for a, _ in widths)
        sizes = tuple(
            n - max(-a, 0) - max(-b, 0) for n, (a, b) in zip(x.shape, widths, strict=True)
        )
        x = slice_(x, starts, sizes)
        widths = tuple((max(a, 0), max(b, 0)) for a, b in widths)
    if all(statically_equal(w, (0, 0)) for w in widths):
        return x
    return apply(pad_op, (x,), (tuple(widths), value))


def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Dims of size 1 removed: all, or those named."""
    shape = input.shape
    if dim is None:
        drop = {d for d, n in enumerate(shape) if n == 1}
    else:
        dims = as_ints("squeeze", (dim,))
        drop = {normalize_dim(d, input.ndim) for d in dims}
        if len(drop) < len(dims):
            raise RuntimeError(f"squeeze: a dim appears more than once in {list(dims)}")
        drop = {d for d in drop if shape and shape[d] == 1}
    return reshape(input, tuple(n for d, n in enumerate(shape) if d not in drop))


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A dim of size 1 inserted at `dim`."""
    d = normalize_dim(dim, input.ndim + 1)
    shape = input.shape
    return reshape(input, (*shape[:d], 1, *shape[d:]))


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dims start_dim..end_dim joined into one."""
    shape = input.shape
    a, b = normalize_dim(start_dim, input.ndim), normalize_dim(end_dim, input.ndim)
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if a == b and shape:
        return input
    return reshape(input, (*shape[:a], math.prod(shape[a : b + 1]), *shape[b + 1 :]))


def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """One dim split into several (one size may be -1)."""
    d = normalize_dim(dim, input.ndim)
    shape, new = input.shape, as_ints("unflatten", (sizes,))
    if not shape or not new:
        raise RuntimeError(f"unflatten: expected a dim and sizes, got {list(shape)}, {list(new)}")
    known = math.prod(n for n in new if n != -1)
    if new.count(-1) == 1 and known and shape[d] % known == 0:
        new = tuple(shape[d] // known if n == -1 else n for n in new)
    if math.prod(new) != shape[d] or any(n < 0 for n in new):
        raise RuntimeError(
            f"unflatten: Provided sizes {list(new)} don't multiply up to the size of dim {d} "
            f"({shape[d]}) in the input tensor"
        )
    return reshape(input, (*shape[:d], *new, *shape[d + 1 :]))


def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """Elements start..start+length of a dim, as a view."""
    if isinstance(start, Tensor):
        if start.ndim or start.dtype.category != dt.INTEGER:
            raise RuntimeError("narrow: start must be an 0-dim integral Tensor.")
        start = int(start)
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    d, shape = normalize_dim(dim, input.ndim), input.shape
    if length < 0:
        raise RuntimeError(f"narrow(): length must be non-negative, got {length}")
    if not -shape[d] <= start <= shape[d]:
        raise IndexError(
            f"narrow: start {start} is out of range for size {shape[d]} at dim {d}; expected "
            f"{-shape[d]} to {shape[d]}"
        )
    start += shape[d] if start < 0 else 0
    if start + length > shape[d]:
        raise RuntimeError(
            f"start ({start}) + length ({length}) exceeds dimension size ({shape[d]})."
        )
    return part(input, d, start, length)


def part(x: Tensor, d: int, start: int, length: int) -> Tensor:
    """`narrow` with a dim and a start that are known to be right."""
    shape = x.shape
    starts = (0,) * d + (start,) + (0,) * (len(shape) - d - 1)
    return slice_(x, starts, (*shape[:d], length, *shape[d + 1 :]))


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at `index` of a dim, without that dim."""
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = normalize_dim(dim, input.ndim)
    index = index if is_symbolic_size(index) else index.__index__()
    n = input.shape[d]
    if not -n <= index < n:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} "
            f"at dimension {d}; expected {-n} to {n - 1}"
        )
    shape = input.shape
    return apply(
        reshape_op,
        (part(input, d, index + n if index < 0 else index, 1),),
        ((*shape[:d], *shape[d + 1 :]),),
    )  # of one size 1 less: a view always


def given_tensors(name: str, given: tuple[Any, ...]) -> list[Tensor]:
    """Tensors that are given one by one, or as one sequence; TypeError for anything else."""
    one = len(given) == 1 and isinstance(given[0], (list, tuple))
    xs = list(given[0] if one else given)
    check.tensors(name, *xs)
    return xs


def repeat(input: Tensor, *sizes: Any, repeats: Any = None) -> Tensor:
    """The tensor copied along each dim as often as `sizes` says."""
    counts = as_sizes("repeat", sizes, repeats)
    if any(n < 0 for n in counts):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(counts)}")
    shape: tuple[int, ...] = input.shape
    if len(counts) < len(shape):
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            f"tensor: got {list(counts)} for shape {list(shape)}"
        )
    shape = (1,) * (len(counts) - len(shape)) + shape
    spread = reshape(input, tuple(m for n in shape for m in (1, n)))
    wide = expand(spread, tuple(m for c, n in zip(counts, shape, strict=True) for m in (c, n)))
    return reshape(copy(wide), tuple(c * n for c, n in zip(counts, shape, strict=True)))


def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """Itself if its memory is in row-major order (or as `memory_format` says), else a copy."""
    if input.is_contiguous(memory_format):
        return input
    if memory_format is None:
        return copy(input)
    return ordered(input, memory_format, "contiguous")


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """`view` in the shape of `other`."""
    return view(input, other.shape)


def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """`reshape` to the shape of `other`."""
    return reshape(input, other.shape)


def nothing_of(x: Tensor, shape: Any) -> Tensor:
    """A tensor of a shape without elements, of which `x` is an input."""
    return reshape(slice_(ravel(x), (0,), (0,)), shape)


def ravel(input: Tensor) -> Tensor:
    """All elements as a vector: a view of a contiguous tensor."""
    return reshape(input, (math.prod(input.shape),))


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """`transpose` under NumPy's name."""
    return transpose(input, axis0, axis1)


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A diagonal of two dims as the last dim, a view; `offset` counts up and to the right."""
    a, b = normalize_dim(dim1, input.ndim), normalize_dim(dim2, input.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return apply(diagonal_op, (input,), (offset.__index__(), a, b))


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """(..., n) on a diagonal of two new dims of size n + |offset|, 0 elsewhere."""
    a, b = normalize_dim(dim1, input.ndim + 1), normalize_dim(dim2, input.ndim + 1)
    if a == b or not input.ndim:
        raise RuntimeError(
            f"diag_embed: expected a dim and two different dim1, dim2; got shape "
            f"{list(input.shape)}, dims {dim1}, {dim2}"
        )
    shape = list(input.shape[:-1])
    size = input.shape[-1] + builtin_abs(offset)
    for d in sorted((a, b)):
        shape.insert(d, size)
    return undiagonal(input, tuple(shape), offset, a, b)


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """All elements on a diagonal of a matrix."""
    return diag_embed(ravel(input), offset)


public(
    globals(), both="""reshape permute movedim moveaxis=movedim broadcast_to flip flatten
    unflatten narrow select diagonal ravel diag_embed diagflat""",
    rebind="squeeze unsqueeze transpose swapaxes swapdims=transpose t", methods="""view view_as
    reshape_as expand=expand_view expand_as repeat contiguous""",
    functions="broadcast_tensors broadcast_shapes", rows="diag_embed",
)  # fmt: skip
