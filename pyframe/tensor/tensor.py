"""Tensor: a mutable handle on an immutable Node."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from pyframe.core import (
    dispatch as _dispatch,
    dtypes as dt,
    modes as _grad_mode,
    op as _op,
    view as views,
)
from pyframe.core.devices import device as Device
from pyframe.core.grad_node import INFERENCE, UNSEEN, Attached, GradNode
from pyframe.core.modes import enable_grad, mode, no_grad
from pyframe.core.node import Node, Storage
from pyframe.core.op import Op
from pyframe.tensor.memory_format import in_format
from pyframe.tensor.printing import tensor_html, tensor_repr

_object: Any = object.__new__

# How a view was cut from the memory: movement ops with their attributes, applied one by one
ViewChain = tuple[tuple[Op, tuple[Any, ...]], ...]


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple with `numel()`."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements."""
        n = 1
        for size in self:
            n *= size
        return n

    def __getitem__(self, key: Any) -> Any:
        part = tuple.__getitem__(self, key)
        return Size(part) if isinstance(key, slice) else part

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, other))

    def __mul__(self, n: Any) -> Any:
        return Size(tuple.__mul__(self, n))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"{dt.dtype.home}.Size({list(self)})"


if TYPE_CHECKING:  # what pyframe/methods.py attaches, by scripts/make_stubs
    from pyframe._stubs.methods import TensorMethods
else:
    TensorMethods = object


class Tensor(TensorMethods):
    """An n-dimensional array with gradients, as torch.Tensor.

    A tensor owns a Storage or shares one as a view of it. A view is known by the steps
    (movement op, attributes) that cut it from the storage, so that a write to one is seen by all.
    """

    # slots are read and written faster; any other attribute goes to __dict__
    __slots__ = (
        "__dict__", "__weakref__", "_base", "_base_fn", "_creation", "_grad_fn", "_hooks",
        "_needs_grad", "_node", "_storage", "_view_chain", "_viewed_version", "grad",
    )  # fmt: skip
    _view_chain: ViewChain
    _base: Tensor | None  # of a differentiable view: the tensor whose history it follows
    _base_fn: Any  # the base's grad_fn when this view's own was made
    _creation: tuple[Any, int] | None  # why no gradient may follow a write to this view, and the
    # version of the memory when it was made
    _viewed_version: int  # the storage's version of which a lazy view's node was made
    _grad_fn: GradNode | None
    _needs_grad: bool | None  # leaves only; None: `.data`, whose writes no version counts
    _hooks: Attached | None  # of a leaf
    grad: Tensor | None
    _node: Node
    _storage: Storage

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = _object(cls)
        self._view_chain, self._viewed_version, self._needs_grad = (), 0, False
        self._base = self._base_fn = self._grad_fn = self._hooks = self.grad = None
        self._creation = None
        return self

    # --- what it is

    @property
    def shape(self) -> Size:
        """The sizes of all dims."""
        return Size(self._node.shape)

    @overload
    def size(self) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Size | int:
        """The shape, or the size of one dim."""
        return self.shape if dim is None else self._node.shape[normalize_dim(dim, self.ndim)]

    @property
    def dtype(self) -> dt.dtype:
        """The type of the elements."""
        return self._node.dtype

    @property
    def device(self) -> Device:
        """Where the elements are."""
        return self._node.device

    @property
    def is_cuda(self) -> bool:
        """Whether it is on the GPU."""
        return self.device.always_lazy

    @property
    def is_cpu(self) -> bool:
        """Whether it is on the CPU."""
        return not self.device.always_lazy

    def get_device(self) -> int:
        """The index of the GPU, -1 on the CPU."""
        return self.device.index if self.is_cuda else -1

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self._node.shape)

    def dim(self) -> int:
        """The number of dims."""
        return len(self._node.shape)

    def numel(self) -> int:
        """The number of elements."""
        return self.shape.numel()

    ndimension, nelement = dim, numel

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.numel() * self.dtype.itemsize

    def is_floating_point(self) -> bool:
        """Whether the dtype is a float."""
        return self.dtype.category == dt.FLOAT

    def is_complex(self) -> bool:
        """Whether the dtype is complex."""
        return self.dtype.category == dt.COMPLEX

    def __len__(self) -> int:
        if not self._node.shape:
            raise TypeError("len() of a 0-d tensor")
        return self._node.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self._node.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind())

    def __hash__(self) -> int:
        return id(self)

    def _index_map(self) -> views.IndexMap:
        """How this tensor lies in its storage."""
        t = views.contiguous(self._storage.node.shape)
        for op, attrs in self._view_chain:
            t = op.view(t, *attrs)  # type: ignore[misc]
        return t

    @overload
    def stride(self) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """The strides in elements, or that of one dim."""
        if self._node.data is not None and not self.device.always_lazy:
            data = self._node.data
            strides = tuple(s // data.itemsize for s in data.strides)
        else:
            strides = self._index_map()[-1].strides
        return strides if dim is None else strides[dim]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in memory in row-major order (or as `memory_format` says)."""
        return self._row_major() if memory_format is None else in_format(self, memory_format)

    def _row_major(self) -> bool:
        if self._node.data is not None and not self.device.always_lazy:
            return bool(self._node.data.flags.c_contiguous)
        return not self._view_chain or views.is_contiguous(_without_offset(self._index_map()))

    # --- its value

    def _value(self) -> Node:
        """The node that holds what this tensor is now."""
        always_lazy = self._node.device.always_lazy
        capture = mode.capture
        if capture is None and not always_lazy:
            return self._node
        storage = self._storage
        node = before = self._node
        if not self._view_chain:
            node = storage.node
        elif self._viewed_version != storage.version:
            # on the CPU a write to data that is there is seen by a view that was cut from it
            if always_lazy or storage.node.data is None:
                node = storage.node
                for op, attrs in self._view_chain:
                    shape, d = op.infer(node, *attrs)  # type: ignore[misc]
                    node = Node(op, (node,), attrs, shape, d, node.device)
            self._viewed_version = storage.version
        self._node = node
        if capture is not None:
            if node is not before:
                self._touched()
            if storage.node.data is not None:
                capture.saw(self)  # what the capture reads from outside
                return self._node
        return node

    def _touched(self) -> None:
        """Within a capture: note a tensor of the CPU whose node it changed or made, as a handle
        (weak, so that temporaries die) on memory that others may see too."""
        if mode.capture is not None and not self._node.device.always_lazy:
            mode.capture.touched(self)

    def _pending(self) -> None:
        """The storage has a new node: whoever runs what is recorded must compute it."""
        if mode.capture is not None:
            mode.capture.due(self._storage)
        else:
            self.device.executor.pending.append(weakref.ref(self._storage))

    def _share(self, x: Tensor, op: Op, attrs: tuple[Any, ...]) -> None:
        """Become the view of `x` that `op` with `attrs` cuts."""
        self._storage = x._storage
        self._view_chain = (*x._view_chain, (op, attrs))
        self._viewed_version = x._storage.version
        self._base = base = x._base if x._base is not None else x
        self._base_fn, self._creation = base._grad_fn, x._creation
        if not mode.grad:
            self._refuse_in_mode()
        if x._needs_grad is None:
            self._needs_grad = None
        if mode.capture is not None:
            x._touched()
            self._touched()

    def _refuse_in_mode(self) -> None:
        """Refuse writes to a view that is made while no gradients are recorded. Of a base without
        history PyTorch does so too; but many ops give a view of what they made."""
        if self._base is not None and self._base.requires_grad:
            why = "inference mode" if mode.inference else "no_grad mode"
            self._refuse_writes(f"A view was created in {why}. This is ambiguous")

    def _chain_from(self, base: Tensor) -> ViewChain | None:
        """The steps from `base`, which may have become another view of the memory since, to this
        view of it; None if it became a part of the memory."""
        mine, its = self._view_chain, base._view_chain
        if mine[: len(its)] == its:
            return mine[len(its) :]
        back = views_undone(self._storage.node, its)
        return None if back is None else back + mine

    def _refuse_writes(self, why: str | tuple[str, int]) -> None:
        """Let no gradient follow a write to this view, or one that changes it: for a reason, or
        as one of several results of a function, by its name and number."""
        self._creation = why, self._storage.version

    def _why(self) -> str:
        why: Any = self._creation and self._creation[0]
        if isinstance(why, str):
            return why
        return (
            f"Output {why[1]} of {why[0]} is a view. This view is the output of a function that "
            "returns multiple views. Such functions do not allow the output views to be modified "
            "inplace"
        )

    def _alias(self) -> Tensor:
        """Another handle on the same value and memory, with no history."""
        out = Tensor.__new__(Tensor)
        out._node, out._storage = self._value(), self._storage
        if self._view_chain:
            out._view_chain, out._viewed_version = self._view_chain, self._storage.version
        if mode.capture is not None:
            self._touched()
            out._touched()
        return out

    # --- autograd

    @property
    def grad_fn(self) -> GradNode | None:
        """The step that made this tensor; None for a leaf."""
        base = self._base
        if base is None:
            return self._grad_fn
        if (
            self._creation is not None
            and (self._storage.version ^ self._creation[1]) & (UNSEEN - 1)
            and (self._grad_fn is not None or base.requires_grad)
        ):
            raise RuntimeError(
                f"{self._why()}, and its base or another view of its base has been modified "
                "inplace with grad mode enabled: make the view after the write, or clone() it"
            )
        if base._grad_fn is not self._base_fn:
            self._base_fn = base._grad_fn  # the base was written to: follow its new history
            steps = self._chain_from(base)
            if steps is None:
                return self._grad_fn
            with enable_grad():
                x = base
                for op, attrs in steps:
                    x = _dispatch.apply(op, (x,), attrs)
            self._grad_fn = x._grad_fn
        return self._grad_fn

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient is wanted, or flows through."""
        base = self._base
        return bool(
            self._needs_grad
            or self._grad_fn is not None
            or (base is not None and (base._grad_fn is not None or base._needs_grad))
        )

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Record gradients for this leaf, in place. RuntimeError for ints and non-leaves."""
        if self.grad_fn is not None:
            if requires_grad:
                return self
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
        if requires_grad and self.dtype.category < dt.FLOAT:
            raise RuntimeError(
                "only Tensors of floating point and complex dtype can require gradients, got "
                f"{self.dtype}"
            )
        if requires_grad and self.is_inference() and not mode.inference:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not "
                "allowed; clone() it first"
            )
        self._needs_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded step made it."""
        return self.grad_fn is None

    def is_inference(self) -> bool:
        """Whether it was made in inference mode: such tensors (and views of them) take no part in
        autograd, and are written to in that mode only; `clone()` gives a normal one."""
        return self._storage.version < 0

    @property
    def _version(self) -> int:
        if self._storage.version < 0:
            raise RuntimeError("Inference tensors do not track version counter.")
        return self._storage.version & (UNSEEN - 1)

    def detach(self) -> Tensor:
        """The same memory, with no history."""
        return self._alias()

    def detach_(self) -> Tensor:
        """Forget the history, in place."""
        if self._base is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        self._grad_fn, self._needs_grad = None, False
        return self

    @property
    def data(self) -> Tensor:
        """A tensor of the same memory whose writes the history does not see."""
        out = self._alias()
        out._needs_grad = None
        return out

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Tensor.data: expected a Tensor, got {type(value).__name__}")
        self._node, self._storage = value._value(), value._storage
        self._view_chain, self._viewed_version = value._view_chain, value._storage.version
        self._base = None
        self._touched()

    def _attach(self) -> Attached:
        if self._hooks is None:
            self._hooks = Attached()
        return self._hooks

    # --- writing

    def _write(self, value: Tensor) -> Tensor:
        """self[...] = value: seen by every tensor that shares the memory."""
        node = self._value()
        d = node.device
        if value.device is not d:
            value = value.to(d)
        no_more_dims(value, node.shape)
        if not dt.can_cast(value.dtype, node.dtype):
            raise RuntimeError(
                f"result type {value.dtype.name} can't be cast to the desired output type "
                f"{node.dtype.name}"
            )
        return self._overwrite(value, True)

    def _overwrite(self, value: Tensor, temporary: bool = False) -> Tensor:
        """self[...] = value, of one device; `temporary` says that no one else holds the value. One
        number may go where elements share memory too."""
        node = self._node
        needs = mode.grad and (self.requires_grad or value.requires_grad)
        needs = needs and node.dtype.category >= dt.FLOAT
        if needs:
            self._check_history()
        if value.dtype is not node.dtype:
            value = value.to(node.dtype)
        one = not value._node.shape
        if value._node.shape != node.shape:
            value = _fit(value, node.shape)
        storage = self._storage
        if storage.version < 0 and not mode.inference:
            raise RuntimeError(
                "Inplace update to inference tensor outside InferenceMode is not allowed. You can "
                "make a clone to get a normal tensor before doing inplace update."
            )
        if not one and _repeats(self):
            raise _overlap_error()
        self._change(value, temporary, needs)
        self._wrote()
        if needs:
            self._rebase(value, temporary)
        return self

    def _change(self, value: Tensor, temporary: bool, records: bool) -> None:
        """Let the memory hold `value`, of this shape and dtype: see `Recorder.write`."""
        node = self._node
        if mode.capture is not None:
            mode.capture.write(self, value, temporary, records)
        elif node.device.always_lazy:
            self._change_node(value, temporary)
        else:
            if not node.data.flags.writeable:
                raise _read_only_error()
            np.copyto(node.data, value._node.data)

    def _change_node(self, value: Tensor, temporary: bool) -> None:
        """Let the storage have a node in which `value` lies where this tensor is."""
        storage = self._storage
        if _is_array(storage.node) and not storage.node.data.flags.writeable:
            raise _read_only_error()
        if self._view_chain:
            with no_grad():
                whole = whole_of(storage)
                if storage.node.device.always_lazy:
                    put = _op.PUT.fallback(whole, value, self._view_chain)
                else:
                    put = _dispatch.apply(_op.PUT, (whole, value), (self._view_chain,))
                storage.node = put._value()
        else:
            new = value._value()
            # a storage holds a whole value, not a view of another's, nor another's array
            if (new.op is not None and new.op.kind == _op.MOVEMENT) or _is_array(new):
                with no_grad():
                    new = value.clone()._value()
            new.shared = not temporary
            storage.node = new
        self._pending()
        self._touched()

    def _check_history(self) -> None:
        """RuntimeError where autograd can't follow a write to this tensor."""
        base = self._base
        if self._creation is not None:
            raise RuntimeError(
                f"{self._why()}, and it is being modified inplace with grad mode enabled: "
                "clone() it first"
            )
        if self.requires_grad and (self.is_leaf or (base is not None and base.is_leaf)):
            what = "a leaf" if base is None else "a view of a leaf"
            raise RuntimeError(
                f"{what} Variable that requires grad is being used in an in-place operation; "
                "wrap it in pf.no_grad() or work on a clone"
            )

    def _wrote(self) -> None:
        self._storage.version += 1 if self._needs_grad is not None else UNSEEN

    def _rebase(self, value: Tensor, temporary: bool = False) -> None:
        """Make the history of this tensor (and its base) say that `value` was written to it, which
        no one else holds if it is `temporary`."""
        if self._base is None:
            retains = self.retains_grad
            if retains:
                self._grad_fn.extra.retained = None  # type: ignore[union-attr]
            if temporary and value._grad_fn is not None:
                self._grad_fn = value._grad_fn
            elif value.requires_grad:
                self._grad_fn = GradNode(_op.REGISTRY["copy"], (value,), (), self)
            else:
                self._grad_fn = GradNode(_op.PUT, (self._alias_history(), value), ((),), self)
            if retains:
                self.retain_grad()
            return
        base = self._base
        steps = self._chain_from(base)
        base._grad_fn = GradNode(_op.PUT, (base._alias_history(), value), (steps,), base)

    def _become(self, see: Callable[[], Tensor]) -> Tensor:
        """Be from now on the view of this tensor that `see` makes: the same memory."""
        if mode.grad and self.requires_grad:
            self._check_history()
        # its history is recorded in any mode, except where there is none to follow
        with _grad_mode.inference_mode(False) if self._creation is None else no_grad():
            view = see()
            if self._creation is None and not self.is_leaf:
                self._grad_fn = view.grad_fn
        self._node, self._storage = view._value(), view._storage
        self._view_chain, self._viewed_version = view._view_chain, view._storage.version
        if self._base is not None:
            self._base_fn = self._base.grad_fn
        self._wrote()
        self._touched()
        return self

    def _alias_history(self) -> Tensor:
        out = self._alias()
        out._grad_fn = self.grad_fn
        return out

    # --- reading

    def _host(self) -> np.ndarray:
        if mode.capture is not None:
            mode.capture.read(self)  # ends it: what is read may decide what is done next
        node = self._value()
        if not node.device.always_lazy:
            data: np.ndarray = node.data
            return data
        return node.device.executor.fetch([self])[0]

    async def _host_async(self) -> np.ndarray:
        if mode.capture is not None:
            mode.capture.read(self)
        node = self._value()
        if not node.device.always_lazy:
            data: np.ndarray = node.data
            return data
        return (await node.device.executor.fetch_async([self]))[0]

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The value as a NumPy array that shares memory with a CPU tensor.

        Raises RuntimeError for a tensor that requires grad, TypeError for one on the GPU, unless
        `force`. `await t.numpy_async()` is the twin that does not block.
        """
        if not force:
            if self.requires_grad:
                raise RuntimeError(
                    "Can't call numpy() on Tensor that requires grad. Use "
                    "tensor.detach().numpy() instead."
                )
            if self.dtype.narrow is not None:
                raise TypeError("Got unsupported ScalarType BFloat16: NumPy has none; use .float()")
            if self.device.always_lazy:
                raise TypeError(
                    f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() "
                    "to copy the tensor to host memory first."
                )
        return self._host()

    async def numpy_async(self) -> np.ndarray:
        """The value as a NumPy array, from any device."""
        return await self._host_async()

    def _one(self, array: np.ndarray) -> Any:
        if array.size != 1:
            raise RuntimeError(
                f"a Tensor with {array.size} elements cannot be converted to Scalar; "
                "use tolist() or index it"
            )
        return array.item()

    def item(self) -> Any:
        """The only element, as a Python number. RuntimeError if there are more."""
        return self._one(self._host() if self.numel() == 1 else np.empty(self._node.shape))

    async def item_async(self) -> Any:
        """`item` that gives the thread back while it waits."""
        return self._one(await self._host_async())

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self._host().tolist()

    async def tolist_async(self) -> Any:
        """`tolist` that gives the thread back while it waits."""
        return (await self._host_async()).tolist()

    __array_priority__ = 1000  # NumPy's numbers and arrays leave operators to tensors

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __bool__(self) -> bool:
        if self.numel() != 1:
            n = self.numel()
            raise RuntimeError(
                "Boolean value of Tensor with "
                + ("no values" if n == 0 else "more than one value")
                + " is ambiguous"
            )
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, (Tensor, bool, int, float, complex, np.generic)):
            raise RuntimeError(
                "Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
                f"{type(element).__name__}; make it a tensor with pf.tensor"
            )
        return bool((self == element).any())

    def __index__(self) -> int:
        if self.dtype.category >= dt.FLOAT or self.numel() != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __repr__(self) -> str:
        return tensor_repr(self)

    def _repr_html_(self) -> str | None:
        return tensor_html(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if not self._node.shape else object.__format__(self, spec)


def _without_offset(t: views.IndexMap) -> views.IndexMap:
    return t if len(t) > 1 else (t[0]._replace(offset=0),)


def _repeats(x: Tensor) -> bool:
    """Whether several elements of `x` are the same memory, by a stride of 0."""
    shape, data = x._node.shape, x._node.data
    if data is None or x._node.device.always_lazy:
        strides = x.stride() if x._view_chain else ()
    else:
        strides = data.strides
    return (
        0 in strides
        and 0 not in shape
        and any(n > 1 and s == 0 for n, s in zip(shape, strides, strict=True))
    )


def _overlap_error() -> RuntimeError:
    return RuntimeError(
        "unsupported operation: more than one element of the written-to tensor refers to a single "
        "memory location. Please clone() the tensor before performing the operation."
    )


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


def views_undone(node: Node, chain: ViewChain) -> ViewChain | None:
    """The chain from the view that `chain` cuts of `node` back to all of it; None where it shows
    only a part."""
    back: ViewChain = ()
    for op, attrs in chain:
        if op.undo is None:
            return None
        back = ((op, op.undo(node, *attrs)), *back)
        shape, dtype = op.infer(node, *attrs)  # type: ignore[misc]
        node = Node(op, (), attrs, shape, dtype, node.device)
    return back


def whole_of(storage: Storage) -> Tensor:
    """A tensor of all that a storage holds, with one of its own."""
    out = Tensor.__new__(Tensor)
    out._node, out._storage = storage.node, Storage(storage.node)
    return out


def new(node: Node) -> Tensor:
    out: Tensor = _object(Tensor)  # with the body of __new__ here: this is called most
    out._node = node
    out._storage = Storage(node)
    out._view_chain, out._viewed_version, out._needs_grad = (), 0, False
    out._base = out._base_fn = out._creation = out._grad_fn = out._hooks = out.grad = None
    if _grad_mode.inferring and mode.inference:
        out._storage.version = INFERENCE
    return out


_dispatch.new = new


def _is_array(node: Node) -> bool:
    """Whether a write may change what the node holds: a NumPy array's, but no buffer's."""
    return node.data is not None and not node.device.always_lazy


def own_storage(x: Tensor) -> Tensor:
    """A lazy tensor's value in a storage of its own: values never change, so nothing is copied."""
    if (x._view_chain and not views.is_contiguous(x._index_map())) or _is_array(x._value()):
        with no_grad():
            return x.clone()
    out = x._alias()
    x._storage.node.shared = True
    out._storage = Storage(x._storage.node)
    out._viewed_version = 0
    out._pending()
    return out


def normalize_dim(dim: int, ndim: int) -> int:
    """`dim` counted from the front. IndexError where it is out of range."""
    n = max(ndim, 1)
    if not -n <= dim < n:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
        )
    return dim % n
