"""In-place writes: to the memory, to its version, and to the history that autograd follows.

The functions are methods of Tensor, which names them.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from pyframe.core import dispatch as _dispatch, dtypes as dt, op as _op
from pyframe.core.grad_node import GradNode
from pyframe.core.modes import inference_mode, mode, no_grad
from pyframe.core.node import (
    NO_VERSION,
    LazyNode,
    Storage,
    is_aliased_outside,
    is_array,
    trace_of,
)  # fmt: skip
from pyframe.core.trace import flush_cpu, trace
from pyframe.tensor.view_chain import invert_view_chain, restriction

if TYPE_CHECKING:
    from pyframe.tensor.tensor import Tensor


def write(self: Tensor, value: Tensor) -> Tensor:
    """self[...] = value, of any dtype that can be cast: seen by all that shares the memory."""
    node = self._value()
    device, dtype = node.device, node.dtype
    if value._node.device is not device:
        value = value.to(device)
    no_more_dims(value, node.shape)
    if value._node.dtype is not dtype and not dt.can_cast(value.dtype, dtype):
        raise RuntimeError(
            f"result type {value.dtype.name} can't be cast to the desired output type {dtype.name}"
        )
    return assign_inplace(self, value, True)


def assign_inplace(self: Tensor, value: Tensor, temporary: bool = False) -> Tensor:
    """self[...] = value, of one device; `temporary` says that no one else holds the value. One
    number may go where elements share memory too."""
    node = self._node
    needs = mode.grad and (self.requires_grad or value.requires_grad)
    needs = needs and node.dtype.category >= dt.FLOAT
    if needs:
        check_history(self)
    if value._node.dtype is not node.dtype:
        value = value.to(node.dtype)
    one = not value._node.shape
    if value._node.shape != node.shape:
        value = _fit(value, node.shape)
    if self._storage.version == NO_VERSION and not mode.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can "
            "make a clone to get a normal tensor before doing inplace update."
        )
    plain = type(node) is not LazyNode and type(node.data) is np.ndarray
    if not one and not (plain and 0 not in node.data.strides) and _has_internal_overlap(self):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    write_inplace(self, value, temporary, needs)
    wrote(self)
    if needs:
        rebase_history(self, value, temporary)
    return self


def write_inplace(self: Tensor, value: Tensor, temporary: bool, records: bool) -> None:
    """Let the memory hold `value`, of this shape and dtype: see `Interceptor.write`."""
    node = self._node
    if mode.capture is not None:
        mode.capture.write(self, value, temporary, records)
    elif node.device.is_lazy:
        change_node(self, value, temporary)
    elif mode.trace is not None and mode.trace.open and _is_alone(self):
        _change_later(self, value, temporary)
    else:
        flush_cpu()
        if not node.data.flags.writeable:
            raise _read_only_error()
        np.copyto(node.data, value._node.data)


def try_lazy_write(self: Tensor, value: Tensor) -> bool:
    """The fast path of a lazy in-place write: no autograd, no aliases, same dtype and shape."""
    n, v = self._node, value._node
    if mode.grad or v.dtype is not n.dtype or v.shape != n.shape or v.device is not n.device:
        return False
    if self._storage.version == NO_VERSION or not _is_alone(self) or self._creation is not None:
        return False
    _change_later(self, value, True)
    self._storage.wrote()
    return True


def _is_alone(x: Tensor) -> bool:
    """Whether nobody but this tensor of the CPU sees its memory."""
    return (
        not x._view_chain
        and not is_aliased_outside(x._storage)
        and sys.getrefcount(x._storage) == ALONE
    )


def can_write_lazily(x: Tensor) -> bool:
    """Whether an in-place write may be recorded without checks of autograd and aliases."""
    n = x._node
    return (
        _is_alone(x)
        and x._storage.version != NO_VERSION
        and x._creation is None
        and (type(n) is LazyNode or n.data.flags.writeable)
    )


def _change_later(self: Tensor, value: Tensor, temporary: bool) -> None:
    """Record the write on the CPU: the memory holds the value once it is computed."""
    storage, old, new = self._storage, self._node, value._node
    with old.device.executor.lock:
        here = trace()
        if type(old) is not LazyNode or trace_of(old) is not here:
            if not old.data.flags.writeable:
                raise _read_only_error()
            here.writes(storage, old)
        own = temporary and _is_alone(value)  # a gradient may have saved it
        if not own or type(new) is not LazyNode or trace_of(new) is not here:
            copy = _op.REGISTRY["copy"]
            new = here.record(copy, (value,), (new,), (), new.shape, new.dtype, new.device)
        self._node = storage.node = new
        here.waiting.append(weakref.ref(storage))


def change_node(self: Tensor, value: Tensor, temporary: bool) -> None:
    """Let the storage have a node in which `value` lies where this tensor is."""
    storage, old = self._storage, self._storage.node
    if is_array(old) and not old.data.flags.writeable:
        raise _read_only_error()
    back = invert_view_chain(old, self._view_chain)
    if back is None:
        with no_grad():
            whole = _dispatch.tensor_from_node(storage.node)
            whole._storage = Storage(storage.node)
            if storage.node.device.is_lazy:
                put = _op.PUT.fallback(whole, value, self._view_chain)
            else:
                put = _dispatch.apply(_op.PUT, (whole, value), (self._view_chain,))
            if put._value() is storage.node:  # nothing is written; a replay must count it, too
                put = _dispatch.apply(_op.REGISTRY["copy"], (whole,))
            storage.node = put._value()
    else:
        with no_grad():
            for op, attrs in back:
                if op is _op.PERMUTE:
                    value = _dispatch.permute_to(value, *attrs)
                else:
                    value = _dispatch.apply(op, (value,), attrs)
            new = value._value()
            # a storage holds a whole value, not a view of another's, nor another's array
            if (new.op is not None and new.op.kind == _op.MOVEMENT) or is_array(new):
                new = _dispatch.apply(_op.REGISTRY["copy"], (value,))._value()
        new.shared = not temporary
        storage.node = new
    if mode.capture is None and old.device.is_lazy:
        if not self._view_chain:
            self._node = storage.node  # so that nothing holds the old one
        if old.data is not None:
            old.device.executor.replaces(storage, old)
    self._pending()
    self._alias_changed()


def wrote(self: Tensor) -> None:
    """Count a write to this tensor: `Storage.wrote`, in line."""
    storage, creation = self._storage, self._creation
    storage.writes += 1
    if (creation is None or not creation.hidden) and storage.version != NO_VERSION:
        storage.version += 1


# --- the history


def check_history(self: Tensor) -> None:
    """RuntimeError where autograd can't follow a write to this tensor."""
    base, why = self._base, restriction(self)
    if why is not None:
        raise RuntimeError(
            f"{why}, and it is being modified inplace with grad mode enabled: clone() it first"
        )
    if self.requires_grad and (self.is_leaf or (base is not None and base.is_leaf)):
        what = "a leaf" if base is None else "a view of a leaf"
        raise RuntimeError(
            f"{what} Variable that requires grad is being used in an in-place operation; "
            "wrap it in pf.no_grad() or work on a clone"
        )


def rebase_history(self: Tensor, value: Tensor, temporary: bool = False) -> None:
    """Make the history of this tensor (and its base) say that `value` was written to it, which no
    one else holds if it is `temporary`."""
    if self._base is None:
        retains = self.retains_grad
        if retains:
            self._grad_fn.extra.retained = None  # type: ignore[union-attr]
        if temporary and value._grad_fn is not None:
            self._grad_fn = value._grad_fn
        elif value.requires_grad and self._grad_fn is None:
            self._grad_fn = GradNode(_op.REGISTRY["copy"], (value,), (), self)
        else:  # what it was computed of has the gradient 0, as in PyTorch
            self._grad_fn = GradNode(_op.PUT, (self._alias_history(), value), ((),), self)
        if retains:
            self.retain_grad()
        return
    base = self._base
    chain = self._chain_from(base)
    base._grad_fn = GradNode(_op.PUT, (base._alias_history(), value), (chain,), base)


def rebind_as_view(self: Tensor, see: Callable[[], Tensor]) -> Tensor:
    """Be from now on the view of this tensor that `see` makes: the same memory."""
    if mode.grad and self.requires_grad:
        check_history(self)
    follows = restriction(self) is None
    # its history is recorded in any mode, except where there is none to follow
    with inference_mode(False) if follows else no_grad():
        view = see()
        if follows and not self.is_leaf:
            self._grad_fn = view.grad_fn
    self._node, self._storage = view._value(), view._storage
    self._view_chain, self._view_version = view._view_chain, view._storage.writes
    if self._base is not None:
        self._base_fn = self._base.grad_fn
    wrote(self)
    self._alias_changed()
    return self


_one = slice(object())  # has one reference
ALONE = sys.getrefcount(_one.stop)  # what getrefcount says of a sole owner


# --- what is refused


def _has_internal_overlap(x: Tensor) -> bool:
    """Whether several elements of `x` are the same memory, by a stride of 0."""
    node = x._node
    if is_array(node):
        strides = node.data.strides
    else:
        strides = x.stride() if x._view_chain else ()
    if 0 not in strides or 0 in node.shape:
        return False
    return any(n > 1 and s == 0 for n, s in zip(node.shape, strides, strict=True))


def _read_only_error() -> RuntimeError:
    return RuntimeError(
        "in-place write: the NumPy array behind this tensor is read-only; clone() it"
    )


def no_more_dims(value: Tensor, shape: tuple[int, ...]) -> None:
    """RuntimeError where what is to be written in place has more dims than there are."""
    if len(value._node.shape) > len(shape):
        raise RuntimeError(
            f"shape mismatch: output with shape {list(shape)} doesn't match the broadcast shape "
            f"{list(value._node.shape)}; an in-place op keeps the shape"
        )


def _fit(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    try:
        return value.expand(shape)
    except RuntimeError:
        raise RuntimeError(
            f"shape mismatch: value of shape {list(value._node.shape)} can't be written to a "
            f"tensor of shape {list(shape)}"
        ) from None
