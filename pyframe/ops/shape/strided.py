"""Views of a tensor's whole memory by strides: as_strided, resize_, tensors made with strides."""

from __future__ import annotations

import math
from typing import Any, Unpack

import numpy as np

from pyframe.core import dtypes as dt, view as views
from pyframe.core.dispatch import apply, suspend_capture, tensor_from_node
from pyframe.core.grad_node import GradNode
from pyframe.core.modes import mode, no_grad
from pyframe.core.node import Node, is_array
from pyframe.core.op import const
from pyframe.ops.api.public import public
from pyframe.ops.index.rows import add_rows, put_rows, take_rows
from pyframe.ops.math import elementwise as el
from pyframe.ops.math.complex import view_as_real
from pyframe.ops.random import creation
from pyframe.ops.shape import movement as mv
from pyframe.tensor import Tensor, base_tensor, upload

Shape = tuple[int, ...]


def _memory(x: np.ndarray) -> np.ndarray:
    """All elements between the first and the last one of an array in memory, as a vector."""
    if x.flags.c_contiguous:
        return x.reshape(-1)
    first = x[tuple(slice(None, None, -1 if s < 0 else 1) for s in x.strides)]
    span = sum((n - 1) * abs(s) for n, s in zip(x.shape, x.strides, strict=True)) // x.itemsize
    return np.lib.stride_tricks.as_strided(first, (span + 1 if x.size else 0,), (x.itemsize,))


def _np_as_strided(x: np.ndarray, size: Shape, stride: Shape, offset: int, *_: Any) -> np.ndarray:
    steps = tuple(s * x.itemsize for s in stride)
    return np.lib.stride_tricks.as_strided(_memory(x)[offset:], size, steps)


def _batch_attrs(attrs: Any, shape: Shape, size: int) -> Any:
    sizes, strides, offset, (at, start) = attrs
    n = math.prod(shape)
    return (size, *sizes), (n, *strides), offset, ((n, *at), start)


# `x` is the tensor that owns the memory. What a gradient flows to may be a view of it, whose
# strides and offset are `at`.
as_strided_op = mv.Movement(
    "as_strided", "x", "size stride offset at", alias=True,
    infer=lambda x, size, *_: (size, x.dtype), numpy=_np_as_strided, view=views.as_strided,
    x=lambda g, x_spec, size, stride, offset, at: _unstrided(
        g, x_spec.shape, at, size, stride, offset
    ),
    overlaps=True, in_memory=True, changes_order=True, batch_attrs=_batch_attrs,
    batch=lambda c: apply(c.op, (c.xs[0].contiguous(),), c.movement_attrs()),
)  # fmt: skip


def _indices(size: Shape, stride: Shape, offset: int) -> np.ndarray:
    out = np.array(offset)
    for n, s in zip(size, stride, strict=True):
        out = out[..., None] + np.arange(n) * s
    return out.reshape(-1)


def elements(base: Node, size: Shape, stride: Shape, offset: int) -> Node:
    """A copy of a view of what a GPU holds; its offset is a value, so that one kernel does all."""
    memory = Node(None, (), (), (math.prod(base.shape), 1), base.dtype, base.device, base.data)
    with suspend_capture(), no_grad():
        indices = tensor_from_node(const(offset, dt.int32, base.device))
        for n, s in zip(size, stride, strict=True):
            indices = indices.unsqueeze(-1) + el.iota((n,), base.device) * s
        return (
            apply(take_rows, (tensor_from_node(memory), indices.reshape(-1))).reshape(size)._value()
        )


def _extent(size: Shape, stride: Shape, offset: int) -> int:
    """How many elements of memory a view needs."""
    if 0 in size:
        return 0
    return 1 + offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))


def _unstrided(
    g: Tensor, shape: Shape, at: tuple[Shape, int], size: Shape, stride: Shape, offset: int
) -> Tensor:
    """The gradient of an input of `shape`, whose strides and offset are `at`: g added up in
    memory, read where the input lies; elements that share a place share its gradient equally."""
    n = max(_extent(shape, *at), _extent(size, stride, offset))
    if not g.numel() or not math.prod(shape):
        return g.new_zeros(shape)
    to = upload(_indices(size, stride, offset), g.device)
    memory = apply(add_rows, (to, mv.reshape(g, (-1, 1))), (n,))
    indices = _indices(shape, *at)
    if np.array_equal(indices, np.arange(len(indices))):
        return mv.reshape(mv.slice_(memory, (0, 0), (len(indices), 1)), shape)
    count = np.bincount(indices, minlength=n)
    if count.max() > 1:
        share = upload(np.maximum(count, 1).astype(g.dtype.to_real().numpy), g.device)
        memory = memory / mv.reshape(share, (-1, 1))
    return mv.reshape(apply(take_rows, (memory, upload(indices, g.device))), shape)


def _layout(x: Tensor) -> tuple[Shape, int]:
    """Strides and offset in the storage."""
    return tuple(x.stride()), x.storage_offset()


def _room(x: Tensor) -> int:
    """The number of elements in the storage."""
    return int(x.untyped_storage().nbytes()) // x.itemsize


def _checked(
    name: str, x: Tensor, size: Any, stride: Any, offset: int | None
) -> tuple[Shape, Shape, int]:
    size, stride = mv.as_ints(name, (size,)), mv.as_ints(name, (stride,))
    if len(size) != len(stride):
        raise RuntimeError(
            f"mismatch in length of strides and shape: {name} got {list(size)} and {list(stride)}"
        )
    start = x.storage_offset() if offset is None else offset.__index__()
    if start < 0 or any(n < 0 for n in size) or any(s < 0 for s in stride):
        raise RuntimeError(
            f"{name}: Negative sizes, strides and offsets are not supported, got {list(size)}, "
            f"{list(stride)} and {start}"
        )
    if _extent(size, stride, start) > _room(x):
        raise RuntimeError(
            f"setStorage: {name} with sizes {list(size)}, strides {list(stride)}, storage offset "
            f"{start} needs {_extent(size, stride, start)} elements, which are out of bounds for "
            f"storage of {_room(x)}"
        )
    return size, stride, start


def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A view of the whole memory behind `input`, by strides and offset in elements."""
    args = _checked("as_strided", input, size, stride, storage_offset)
    base = input if input._base is None else input._base
    if mode.capture is not None:
        memory = input._storage.node
        if is_array(memory) and not memory.data.flags.c_contiguous:
            mode.capture.graph_break("sees strided memory as other strides")
    if base._view_chain:  # a handle on part of the memory: its owner is gone
        owner = base_tensor(base._storage)
        owner._storage = base._storage
    else:
        owner = base
    if owner.is_complex() and not input.is_complex():
        owner = view_as_real(owner)
    if owner.dtype is not input.dtype:
        owner = apply(mv.view_dtype_op, (owner,), (input.dtype,))
    out = apply(as_strided_op, (owner,), (*args, _layout(owner)))
    out._base, out._base_fn, out._grad_fn = base, base._grad_fn, None
    out._creation = input._creation
    if not mode.grad:
        out._refuse_in_mode()
    if out._chain_from(base) is None:
        out._refuse_writes("as_strided of a handle on part of the memory is a view")
    if mode.grad and input.requires_grad:
        out._grad_fn = GradNode(as_strided_op, (input,), (*args, _layout(input)), out)
    return out


def as_strided_(self: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """Be from now on what `as_strided` gives; returns self."""
    return self._become(lambda: as_strided(self, size, stride, storage_offset))


def as_strided_copy(
    input: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """`as_strided` that copies."""
    return el.copy(as_strided(input, size, stride, storage_offset))


def as_strided_scatter(
    input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """A copy of `input` with `src` where the view `as_strided` would be."""
    args = _checked("as_strided_scatter", input, size, stride, storage_offset)
    if src.shape != args[0]:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(args[0])}"
        )
    lies, goes = _indices(input.shape, *_layout(input)), _indices(*args)
    of = np.full(max(lies.max(initial=-1), goes.max(initial=-1)) + 1, -1)
    of[lies] = np.arange(len(lies))
    to = of[goes]
    values = mv.reshape(src.to(input.dtype), (len(to), 1))
    if (to < 0).any():
        values = apply(take_rows, (values, upload(np.flatnonzero(to >= 0), src.device)))
        to = to[to >= 0]
    flat = mv.reshape(input, (len(lies), 1))
    out = apply(put_rows, (flat, upload(to, input.device), values))
    return mv.reshape(out, input.shape)


def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Another shape in place: of the same memory, row-major, as far as it reaches, else of
    more (whose new elements are 0). RuntimeError where a gradient is needed, and where processes
    share what is too small."""
    shape = mv.as_ints("resize_", sizes)
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if any(n < 0 for n in shape):
        raise RuntimeError(f"resize_: Trying to create tensor with negative dimension: {shape}")
    if shape == self.shape:
        return self
    offset, room = self.storage_offset(), _room(self)
    if offset + math.prod(shape) > room:
        if self.is_shared():
            raise RuntimeError(
                "resize_: Trying to resize storage that is not resizable: processes share it; make "
                "a larger tensor, and share that"
            )
        held = as_strided(self, (room - offset,), (1,), offset)
        self.data = mv.reshape(
            mv.pad(held, ((0, math.prod(shape) + offset - room),)), shape
        ).clone()
    else:
        self.data = as_strided(self, shape, views.row_major_strides(shape), offset)
    return self


def resize_as_(input: Tensor, other: Tensor, *, memory_format: Any = None) -> Tensor:
    """`resize_` to the shape of `other`."""
    return resize_(input, other.shape)


def set_(
    self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
) -> Tensor:
    """Be from now on a handle on the memory of `source` (a tensor or a storage; None: nothing):
    as the tensor is, or of `size`, `stride` (row-major by default) from `storage_offset` on."""
    from pyframe.tensor.storage import UntypedStorage

    if mode.grad and self.requires_grad:
        self._check_history()
    if source is None:
        source = creation.empty(0, dtype=self.dtype, device=self.device)
    if isinstance(source, UntypedStorage):
        memory = base_tensor(source._storage)
        memory._storage = source._storage
        size = (_room(memory),) if size is None else size
    elif isinstance(source, Tensor):
        memory = source.detach()
    else:
        raise TypeError(f"set_: expected a Tensor or a storage, got {type(source).__name__}")
    if memory.dtype is not self.dtype or memory.device is not self.device:
        raise RuntimeError(
            f"Could not set tensor of type {memory.dtype.name} on {memory.device} to a tensor of "
            f"type {self.dtype.name} on {self.device}; convert it with .to()"
        )
    if size is not None:
        size = mv.as_ints("set_", (size,))
        stride = views.row_major_strides(size) if stride is None else stride
        memory = as_strided(memory, size, stride, storage_offset)
    self.data = memory
    return self


def empty_strided(size: Any, stride: Any, **kw: Unpack[creation.FactoryOptions]) -> Tensor:
    """A tensor of zeros whose memory has these strides."""
    size, stride = mv.as_ints("empty_strided", (size,)), mv.as_ints("empty_strided", (stride,))
    if len(size) != len(stride) or any(v < 0 for v in (*size, *stride)):
        raise RuntimeError(
            f"empty_strided: expected as many strides as sizes, none negative; got {list(size)} "
            f"and {list(stride)}"
        )
    requires_grad = kw.pop("requires_grad", False)
    memory = creation.empty(_extent(size, stride, 0), **kw)
    return as_strided(memory, size, stride, 0).detach().requires_grad_(requires_grad)


def empty_permuted(
    size: Any, physical_layout: Any, **kw: Unpack[creation.FactoryOptions]
) -> Tensor:
    """A tensor of zeros whose dims lie in memory in the order `physical_layout`."""
    size = mv.as_ints("empty_permuted", (size,))
    order = mv.as_ints("empty_permuted", (physical_layout,))
    if sorted(order) != list(range(len(size))):
        raise RuntimeError(
            f"empty_permuted: Dimensions {list(order)} must name each of {len(size)} dims once"
        )
    strides = dict(
        zip(order, views.row_major_strides(tuple([max(size[d], 1) for d in order])), strict=True)
    )
    return empty_strided(size, tuple(strides[d] for d in range(len(size))), **kw)


def new_empty_strided(
    self: Tensor, size: Any, stride: Any, **kw: Unpack[creation.FactoryOptions]
) -> Tensor:
    """`empty_strided` with the dtype and device of `self`."""
    return empty_strided(size, stride, **creation.like_options(self, kw))


public(
    globals(), both="as_strided as_strided_ as_strided_scatter resize_as_",
    methods="resize_ set_ new_empty_strided",
    functions="as_strided_copy empty_strided empty_permuted", out_exact="as_strided_copy",
    like="as_strided_scatter",
)  # fmt: skip
