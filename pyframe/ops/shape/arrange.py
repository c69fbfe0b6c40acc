"""Splitting, joining, tiling, rolling and copying: compositions of movement."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.modes import mode
from pyframe.core.sizes import indices as cut, is_symbolic
from pyframe.ops.api.public import public
from pyframe.ops.index.select import index_select
from pyframe.ops.math.elementwise import copy
from pyframe.ops.shape import join, movement as mv
from pyframe.ops.shape.join import cat
from pyframe.ops.shape.movement import flip, narrow, reshape, select, transpose, unsqueeze
from pyframe.ops.spatial import sliding
from pyframe.tensor import Tensor, normalize_dim, upload

# --- taking apart


def _cuttable(name: str, x: Tensor, dim: int) -> tuple[int, int]:
    """The dim counted from the front and its size; RuntimeError for a tensor without dims."""
    if not x.ndim:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    d = normalize_dim(dim, x.ndim)
    return d, x.shape[d]


def _of_many(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose views autograd does not let be written to."""

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        if "split_size" in kwargs:  # as PyTorch's method calls it
            kwargs["split_size_or_sections"] = kwargs.pop("split_size")
        out: tuple[Tensor, ...] = fn(*args, **kwargs)
        if mode.grad:
            for i, x in enumerate(out):
                x._refuse_writes((name, i))
        return out

    run.__name__ = run.__qualname__ = name
    return run


def unsafe_split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of equal size (the last may be smaller), or of the sizes given, along a dim."""
    sizes = split_size_or_sections
    if not isinstance(sizes, (int, np.integer)):
        return unsafe_split_with_sizes(tensor, sizes, dim)
    d, n = _cuttable("split", tensor, dim)
    if sizes < 0 or (sizes == 0 and n):
        raise RuntimeError(
            f"split expects split_size be non-negative (0 for a size of 0), but got {sizes} for "
            f"size {n}"
        )
    if is_symbolic((n, sizes)):
        cuts, left = [], n
        while left > sizes:  # how many they are, is asked
            cuts.append(sizes)
            left = left - sizes
        return unsafe_split_with_sizes(tensor, [*cuts, left], d)
    step = max(int(sizes), 1)
    cuts = [min(step, n - i) for i in range(0, n, step)] or [0]
    return unsafe_split_with_sizes(tensor, cuts, d)


def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of the sizes given, one after the other along a dim."""
    d, n = _cuttable("split_with_sizes", input, dim)
    sizes = mv.as_ints("split_with_sizes", (list(split_sizes),))
    if sum(sizes) != n or min(sizes, default=0) < 0:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to be at least 0 and sum exactly to {n} (input "
            f"tensor's size at dimension {d}), but got split_sizes={list(sizes)}"
        )
    out, start = [], 0
    for size in sizes:
        out.append(mv.part(input, d, start, size))
        start += size
    return tuple(out)


def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` views of equal size along a dim."""
    d, n = _cuttable("chunk", input, dim)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    if not n:
        return unsafe_split_with_sizes(input, [0] * chunks, d)
    return unsafe_split(input, -(-n // chunks), d)


split = _of_many("split", unsafe_split)
split_with_sizes = _of_many("split_with_sizes", unsafe_split_with_sizes)
chunk = _of_many("chunk", unsafe_chunk)


def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None,
    sections: Any = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Views: as many as said, of sizes that differ by at most 1, or cut at the indices given."""
    at = next((v for v in (indices_or_sections, indices, sections) if v is not None), None)
    d, n = _cuttable("tensor_split", input, dim)
    if isinstance(at, Tensor):
        if at.dtype is not dt.int64 or at.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be an int64 tensor of at most "
                f"1 dim, but got {at.dtype.name} {list(at.shape)}"
            )
        at = at.tolist()
    if isinstance(at, (int, np.integer)):
        if at <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {at}")
        size, more = divmod(n, int(at))
        cuts = [size] * int(at)  # which Python refuses at once where there is no room
        i = 0
        while i < more:  # what of a size that changes is a question
            cuts[i], i = size + 1, i + 1
        return unsafe_split_with_sizes(input, cuts, d)
    if at is None:
        raise TypeError("tensor_split: expected indices_or_sections")
    ends = [cut(slice(0, i), n)[1] for i in mv.as_ints("tensor_split", (at,))]
    pairs = zip([0, *ends], [*ends, n], strict=True)
    return tuple([mv.part(input, d, a, max(b - a, 0)) for a, b in pairs])


def _along(name: str, least: int, dim_of: Callable[[int], int]) -> Callable[..., Any]:
    def run(input: Tensor, indices_or_sections: Any = None, *, indices: Any = None,
            sections: Any = None) -> tuple[Tensor, ...]:  # fmt: skip
        at = next((v for v in (indices_or_sections, indices, sections) if v is not None), None)
        if input.ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension"
                f"{'s' * (least > 1)}, but got a tensor with {input.ndim} dimensions!"
            )
        d = dim_of(input.ndim)
        n = input.shape[d]
        if isinstance(at, int) and (at <= 0 or n % at):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {d}, but the size of the "
                f"dimension {n} is not divisible by the split_size {at}!"
            )
        return tensor_split(input, at, d)

    run.__name__ = run.__qualname__ = name
    return run


hsplit = _along("hsplit", 1, lambda ndim: 0 if ndim == 1 else 1)
vsplit = _along("vsplit", 2, lambda ndim: 0)
dsplit = _along("dsplit", 3, lambda ndim: 2)


def unbind_along(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along a dim, without it."""
    if not input.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    d = normalize_dim(dim, input.ndim)
    return tuple([select(input, d, i) for i in range(input.shape[d])])


unbind = _of_many("unbind", unbind_along)


# --- putting together


def _least(input: Tensor, ndim: int) -> Tensor:
    shape = input.shape
    if len(shape) >= ndim:
        return input
    if ndim == 3 and len(shape) == 2:
        return reshape(input, (*shape, 1))
    return reshape(input, (1,) * (min(ndim, 2) - len(shape)) + shape + (1,) * (ndim == 3))


def _at_least(ndim: int) -> Callable[..., Any]:
    @overload
    def run(tensor: Tensor, /) -> Tensor: ...
    @overload
    def run(first: Tensor, second: Tensor, /, *tensors: Tensor) -> tuple[Tensor, ...]: ...
    @overload
    def run(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]: ...
    def run(*tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return _least(tensors[0], ndim)
        return tuple([_least(x, ndim) for x in mv.given_tensors(f"atleast_{ndim}d", tensors)])

    run.__name__ = run.__qualname__ = f"atleast_{ndim}d"
    return run


atleast_1d, atleast_2d, atleast_3d = _at_least(1), _at_least(2), _at_least(3)


def hstack(tensors: Any) -> Tensor:
    """Joined along dim 1 (vectors along dim 0)."""
    xs = [_least(x, 1) for x in join.tensor_list("hstack", tensors)]
    return cat(xs, 0 if xs[0].ndim == 1 else 1)


def vstack(tensors: Any) -> Tensor:
    """Joined along dim 0, vectors as rows."""
    return cat([_least(x, 2) for x in join.tensor_list("vstack", tensors)], 0)


def dstack(tensors: Any) -> Tensor:
    """Joined along dim 2."""
    return cat([_least(x, 3) for x in join.tensor_list("dstack", tensors)], 2)


def column_stack(tensors: Any) -> Tensor:
    """Joined along dim 1, vectors as columns."""
    xs = join.tensor_list("column_stack", tensors)
    return hstack([reshape(x, (x.numel(), 1)) if x.ndim < 2 else x for x in xs])


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Each vector expanded over the grid of all, as views; 'xy' swaps the first two dims."""
    xs = mv.given_tensors("meshgrid", tensors)
    if not xs:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f"meshgrid: indexing must be one of 'xy' or 'ij', but got {indexing!r}")
    for x in xs:
        if x.ndim > 1:
            raise RuntimeError(
                f"meshgrid: Expected scalar or 1D tensors in the list, but got: {list(x.shape)}"
            )
        if x.dtype is not xs[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
        if x.device is not xs[0].device:
            raise RuntimeError("meshgrid expects all tensors to have the same device")
    swap = indexing == "xy" and len(xs) > 1
    if swap:
        xs = [xs[1], xs[0], *xs[2:]]
    shape = tuple(x.numel() for x in xs)
    out = []
    for d, x in enumerate(xs):
        apart = tuple(n if i == d else 1 for i, n in enumerate(shape))
        out.append(mv.expand(reshape(x, apart), shape))
    if swap:
        out[:2] = out[1], out[0]
    return tuple(out)


# --- repeating and turning


def tile(input: Tensor, *counts: Any, dims: Any = None) -> Tensor:
    """`repeat` that takes missing leading counts as 1."""
    sizes = mv.as_sizes("tile", counts, dims)
    return mv.repeat(input, (1,) * (input.ndim - len(sizes)) + sizes)


def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element of a dim (of all, flattened) `repeats` times; a tensor says it for each
    (and is read). Without `repeats`: index i as often as input[i] says."""
    if repeats is None:
        if input.ndim != 1 or input.dtype not in (dt.int64, dt.int32):
            raise RuntimeError(
                "repeat_interleave only accepts 1D int32 or int64 vectors as repeat, got "
                f"{input.dtype.name} {list(input.shape)}"
            )
        counts = _counts(input, output_size)
        index = np.repeat(np.arange(len(counts), dtype=input.dtype.numpy), counts)
        return upload(index, input.device)
    if dim is not None and not input.ndim:
        raise IndexError(f"repeat_interleave: dim {dim} of a tensor without dims; leave it out")
    x = mv.ravel(input) if dim is None else input
    d = 0 if dim is None else normalize_dim(dim, x.ndim)
    n = x.shape[d]
    if isinstance(repeats, Tensor):
        if repeats.dtype not in (dt.int64, dt.int32) or repeats.ndim > 1:
            raise RuntimeError(
                "repeat_interleave: repeats has to be an int32 or int64 scalar or vector, got "
                f"{repeats.dtype.name} {list(repeats.shape)}"
            )
        if repeats.numel() not in (1, n) or (repeats.numel() == 1 and repeats.ndim and n == 0):
            raise RuntimeError(
                f"repeats must have the same size as input along dim, but got {repeats.numel()} "
                f"and {n}"
            )
        if repeats.numel() != 1:
            indices = np.repeat(np.arange(n), _counts(repeats, output_size))
            return index_select(x, d, upload(indices, x.device))
        repeats = int(repeats.item())
    if repeats < 0:
        raise RuntimeError(f"repeats can not be negative, got {repeats}")
    shape = x.shape
    if output_size not in (None, n * repeats):
        raise RuntimeError(f"repeat_interleave: allocated size {output_size} is not {n * repeats}")
    wide = mv.expand(unsqueeze(x, d + 1), (*shape[: d + 1], repeats, *shape[d + 1 :]))
    return reshape(copy(wide), (*shape[:d], n * repeats, *shape[d + 1 :]))


def _counts(repeats: Tensor, output_size: int | None) -> np.ndarray:
    counts = repeats._host()
    if counts.size and counts.min() < 0:
        raise RuntimeError(f"repeats can not be negative, got {counts.min()}")
    if output_size not in (None, counts.sum()):
        raise RuntimeError(f"repeat_interleave: allocated size {output_size} is not {counts.sum()}")
    return counts


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements moved along dims, those that fall off the end coming in at the start."""
    by = mv.as_ints("roll", (shifts,))
    whole = dims is None or (isinstance(dims, (list, tuple)) and not dims)
    at = () if whole else mv.as_ints("roll", (dims,))
    if len(by) != (1 if whole else len(at)):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(by)}, dims:{len(at)}"
            if by else "`shifts` required"
        )  # fmt: skip
    if whole:
        return reshape(roll(mv.ravel(input), by[0], 0), input.shape)
    out = input
    for shift, dim in zip(by, at, strict=True):
        if not input.ndim:
            raise IndexError(f"roll: Dimension specified as {dim} but tensor has no dimensions")
        d = normalize_dim(dim, input.ndim)
        n = input.shape[d]
        if n and shift % n:
            k = n - shift % n
            out = cat([mv.part(out, d, k, n - k), mv.part(out, d, 0, k)], d)
    return input.clone() if out is input else out


def fliplr(input: Tensor) -> Tensor:
    """The order of columns reversed."""
    if input.ndim < 2:
        raise RuntimeError(f"Input must be >= 2-d, got {input.ndim}-d")
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """The order of rows reversed."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d, got 0-d")
    return flip(input, 0)


def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """Turned k times by 90 degrees, from the first of two dims to the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (normalize_dim(d, input.ndim) for d in dims)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got {dims[0]}, {dims[1]}")
    if k % 4 == 1:
        return transpose(flip(input, b), a, b).clone()
    if k % 4 == 3:
        return transpose(flip(input, a), a, b).clone()
    return flip(input, a, b) if k % 4 else input.clone()


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A vector on the diagonal of a matrix; of a matrix a copy of its diagonal."""
    if input.ndim == 1:
        return mv.diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    n, m = input.shape
    if not -n <= diagonal <= m:
        raise RuntimeError(f"diag(): diagonal {diagonal} is out of range for a {n}x{m} matrix")
    return mv.diagonal(input, diagonal).clone()


def positive(input: Tensor) -> Tensor:
    """`input` itself; RuntimeError for bools."""
    if input.dtype is dt.bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


# --- views as copies


def _copied(fn: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        out = fn(*args, **kwargs)
        if isinstance(out, tuple):
            return tuple([copy(x) for x in out])
        return copy(out)

    functools.update_wrapper(run, fn, assigned=())
    run.__name__ = run.__qualname__ = f"{fn.__name__}_copy"
    return run


def alias_copy(input: Tensor) -> Tensor:
    """A copy."""
    return copy(input)


def view_copy(input: Tensor, *shape: Any, dtype: Any = None, size: Any = None) -> Tensor:
    """`view` that copies, also where the memory layout allows no view."""
    if dtype is not None or isinstance(shape[0] if shape else None, dt.dtype):
        return mv.view(input, *shape, dtype=dtype).clone()
    return mv.reshape(input, *(shape or (size,))).clone()


for _view in (
    mv.expand, mv.permute, mv.diagonal, mv.squeeze, mv.t, transpose, unsqueeze, sliding.unfold,
    narrow, select, unbind, split, split_with_sizes,
):  # fmt: skip
    globals()[f"{_view.__name__}_copy"] = _copied(_view)


def detach_copy(input: Tensor) -> Tensor:
    """A copy with no history."""
    return input.detach().clone()


public(
    globals(), both="""split split_with_sizes chunk tensor_split hsplit vsplit dsplit unbind tile
    unsafe_split unsafe_chunk unsafe_split_with_sizes repeat_interleave roll fliplr flipud rot90
    diag positive narrow_copy""", functions="""atleast_1d atleast_2d atleast_3d hstack vstack
    row_stack=vstack dstack column_stack meshgrid view_copy expand_copy permute_copy diagonal_copy
    alias_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unsqueeze_copy
    unfold_copy unbind_copy select_copy detach_copy""", out_exact="""alias_copy diag diagonal_copy
    expand_copy narrow_copy permute_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy
    unbind_copy unfold_copy unsqueeze_copy view_copy""",
)  # fmt: skip
