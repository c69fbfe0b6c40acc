"""Tensor: a mutable handle on an immutable Node."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from pyframe.core import dispatch as _dispatch, dtypes as dt, modes as _grad_mode
from pyframe.core.devices import device as Device
from pyframe.core.grad_node import GradNode, NodeHooks
from pyframe.core.modes import enable_grad, mode
from pyframe.core.node import NO_VERSION, Node, Size, Storage, is_array
from pyframe.core.sizes import DynamicShapeError, is_symbolic
from pyframe.core.view import row_major_strides
from pyframe.tensor import reading, view_chain, writing
from pyframe.tensor.memory_format import in_format
from pyframe.tensor.printing import tensor_html, tensor_repr
from pyframe.tensor.view_chain import BY_DATA, Creation, ViewChain

_object: Any = object.__new__


if TYPE_CHECKING:  # what pyframe/methods.py attaches, by scripts/make_stubs
    from pyframe._stubs.functions import _TensorMethods as TensorMethods
else:
    TensorMethods = object


class _NotOneError(RuntimeError, ValueError):
    """PyTorch's error where a number is asked for; NumPy and Matplotlib look for a ValueError."""


def _of_node(name: str, doc: str) -> Any:
    """A property of tensors that their node has, read without a call of Python's."""
    return property(operator.attrgetter(f"_node.{name}"), doc=doc)


# What packages above this one use of a tensor's inside; all else is of `core` and `tensor` alone.
INSIDE = (
    "_node", "_value", "_host",  # what it is now
    "_storage", "_view_chain", "_view_version", "_alias", "_share", "_index_map", "_is_row_major",
    "_write", "_overwrite", "_change", "_change_node", "_become", "_wrote",  # in place
    "_grad_fn", "_needs_grad", "_hooks", "_check_history", "_rebase",  # its history
    # of a view
    "_base", "_base_fn", "_chain_from", "_creation", "_refuse_writes", "_refuse_in_mode",
)  # fmt: skip


class Tensor(TensorMethods):
    """An n-dimensional array with gradients, as torch.Tensor.

    It is a handle. Its value is a Node, which is immutable; a write in place gives its Storage
    another one (or changes the NumPy array, on the CPU). Views share the storage; each knows the
    chain of movement ops that cut it, so that a write to one is seen by all. Its history is a
    GradNode, that of a view follows its base's.

    Args:
        args: sizes, of elements that may be anything; or a tensor, whose memory it has; or values,
            which become the default dtype.
        kwargs: `device`, where it lies.

    >>> x = pf.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> x.sum().backward()
    >>> x.grad
    tensor([[1., 1.],
            [1., 1.]])
    """

    # slots are read and written faster; any other attribute goes to __dict__
    __slots__ = (
        "__dict__", "__weakref__", "_base", "_base_fn", "_creation", "_grad_fn", "_hooks",
        "_needs_grad", "_node", "_storage", "_view_chain", "_view_version", "grad",
    )  # fmt: skip
    _node: Node  # what it was when this handle last asked; `_value()` is what it is now
    _storage: Storage
    _view_chain: ViewChain  # how a view was cut from the storage
    _view_version: int  # the storage's writes when a lazy view's node was made
    _grad_fn: GradNode | None
    _needs_grad: bool  # leaves only
    _base: Tensor | None  # of a differentiable view: the tensor whose history it follows
    _base_fn: Any  # the base's grad_fn when this view's own was made
    _creation: Creation | None
    _hooks: NodeHooks | None  # of a leaf
    grad: Tensor | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = _object(cls)
        self._view_chain, self._view_version, self._needs_grad = (), 0, False
        self._base = self._base_fn = self._grad_fn = self._hooks = self.grad = None
        self._creation = None
        return self

    # --- what it is

    shape: Size = _of_node("shape", "The sizes of all dims.")
    dtype: dt.dtype = _of_node("dtype", "The type of the elements.")
    device: Device = _of_node("device", "Where the elements are.")

    @overload
    def size(self) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Size | int:
        """The shape, or the size of one dim."""
        return self.shape if dim is None else self._node.shape[normalize_dim(dim, self.ndim)]

    @property
    def is_cuda(self) -> bool:
        """Whether it is on the GPU."""
        return self.device.kind == "gpu"

    @property
    def is_meta(self) -> bool:
        """Whether it has a shape and a dtype, and no memory."""
        return self.device.kind == "meta"

    @property
    def is_cpu(self) -> bool:
        """Whether it is on the CPU."""
        return self.device.kind == "cpu"

    def get_device(self) -> int:
        """The index of the GPU, -1 elsewhere."""
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

    @overload
    def stride(self) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """The strides in elements, or that of one dim."""
        if is_array(self._node):
            data = self._node.data
            if mode.capture is not None and is_symbolic(self._node.shape):
                if not data.flags.c_contiguous:
                    raise DynamicShapeError("it asks for the strides of a view")
                strides = row_major_strides(self._node.shape)
                return strides if dim is None else strides[dim]
            strides = tuple(s // data.itemsize for s in data.strides)
        else:
            strides = self._index_map()[-1].strides
        return strides if dim is None else strides[dim]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in memory in row-major order (or as `memory_format` says)."""
        return self._is_row_major() if memory_format is None else in_format(self, memory_format)

    # --- its memory: see view_chain.py and writing.py

    _index_map, _is_row_major = view_chain.index_map, view_chain.is_row_major
    _share, _chain_from = view_chain.set_view_of, view_chain.chain_from
    _refuse_writes, _refuse_in_mode = view_chain.refuse_writes, view_chain.refuse_in_mode
    _write, _overwrite, _become = writing.write, writing.assign_inplace, writing.rebind_as_view
    _change, _change_node, _wrote = writing.write_inplace, writing.change_node, writing.wrote
    _check_history, _rebase = writing.check_history, writing.rebase_history

    # --- its value

    _host, _host_async = reading.host, reading.host_async

    def _value(self) -> Node:
        """The node that holds what this tensor is now."""
        always_lazy = self._node.device.is_lazy
        capture = mode.capture
        if capture is None and not always_lazy:
            return self._node
        storage = self._storage
        node = before = self._node
        if not self._view_chain:
            node = storage.node
        elif self._view_version != storage.writes:
            # on the CPU a write to data that is there is seen by a view that was cut from it
            if always_lazy or storage.node.data is None:
                node = storage.node
                for op, attrs in self._view_chain:
                    shape, d = op.infer(node, *attrs)  # type: ignore[misc]
                    node = Node(op, (node,), attrs, shape, d, node.device)
            self._view_version = storage.writes
        self._node = node
        if capture is not None:
            if node is not before:
                self._alias_changed()
            if storage.node.data is not None:
                capture.on_operand(self)  # what the capture reads from outside
                return self._node
        return node

    def _alias_changed(self) -> None:
        """Within a capture: note a tensor whose node it changed or made, as a handle on memory that
        others may see too."""
        if mode.capture is not None:
            mode.capture.on_alias_changed(self)

    def _pending(self) -> None:
        """The storage has a new node: whoever runs what is recorded must compute it."""
        if mode.capture is not None:
            mode.capture.due(self._storage)
        else:
            self.device.executor.pending.append(weakref.ref(self._storage))

    def _alias(self) -> Tensor:
        """Another handle on the same value and memory, with no history."""
        out = Tensor.__new__(Tensor)
        out._node, out._storage = self._value(), self._storage
        if self._view_chain:
            out._view_chain, out._view_version = self._view_chain, self._storage.writes
        if mode.capture is not None:
            self._alias_changed()
            out._alias_changed()
        return out

    # --- autograd

    @property
    def grad_fn(self) -> GradNode | None:
        """The step that made this tensor; None for a leaf."""
        base = self._base
        if base is None:
            return self._grad_fn
        if self._creation is not None and (self._grad_fn is not None or base.requires_grad):
            view_chain.check_unwritten(self)
        if base._grad_fn is not self._base_fn:
            self._base_fn = base._grad_fn  # the base was written to: follow its new history
            chain = self._chain_from(base)
            if chain is None:
                return self._grad_fn
            with enable_grad():
                self._grad_fn = view_chain.apply_view_chain(base, chain)._grad_fn
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
        view_chain.show_writes(self)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded step made it."""
        return self.grad_fn is None

    def is_inference(self) -> bool:
        """Whether it was made in inference mode: such tensors (and views of them) take no part in
        autograd, and are written to in that mode only; `clone()` gives a normal one."""
        return self._storage.is_inference

    @property
    def _version(self) -> int:
        if self._storage.is_inference:
            raise RuntimeError("Inference tensors do not track version counter.")
        return self._storage.version

    def detach(self) -> Tensor:
        """The same memory, with no history."""
        return self._alias()

    def detach_(self) -> Tensor:
        """Forget the history, in place."""
        if self._base is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        self._grad_fn, self._needs_grad = None, False
        view_chain.show_writes(self)
        return self

    @property
    def data(self) -> Tensor:
        """A tensor of the same memory whose writes the history does not see."""
        out = self._alias()
        out._creation = BY_DATA
        return out

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Tensor.data: expected a Tensor, got {type(value).__name__}")
        self._node, self._storage = value._value(), value._storage
        self._view_chain, self._view_version = value._view_chain, value._storage.writes
        self._base = None
        self._alias_changed()

    def _attach(self) -> NodeHooks:
        if self._hooks is None:
            self._hooks = NodeHooks()
        return self._hooks

    def _alias_history(self) -> Tensor:
        out = self._alias()
        out._grad_fn = self.grad_fn
        return out

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The value as a NumPy array that shares memory with a CPU tensor.

        Raises RuntimeError for a tensor that requires grad, unless within `no_grad`, TypeError for
        one on the GPU, unless `force`. `await t.numpy_async()` is the twin that does not block.
        """
        if not force:
            if self.requires_grad and mode.grad:
                raise RuntimeError(
                    "Can't call numpy() on Tensor that requires grad. Use "
                    "tensor.detach().numpy() instead."
                )
            if self.dtype.narrow is not None:
                raise TypeError("Got unsupported ScalarType BFloat16: NumPy has none; use .float()")
            if self.device.is_lazy:
                raise TypeError(
                    f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() "
                    "to copy the tensor to host memory first."
                )
        return reading.to_shared_array(self)

    async def numpy_async(self) -> np.ndarray:
        """The value as a NumPy array, from any device."""
        if not self.device.is_lazy:
            return reading.to_shared_array(self)
        return await self._host_async()

    def _one(self, array: np.ndarray) -> Any:
        if array.size != 1:
            raise _NotOneError(
                f"a Tensor with {array.size} elements cannot be converted to Scalar; "
                "use tolist() or index it"
            )
        return array.item()

    def item(self) -> Any:
        """The only element, as a Python number. RuntimeError if there are more."""
        if self.is_meta:
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
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
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"copy=False, but {array.dtype} as {np.dtype(dtype)} is a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

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


def base_tensor(storage: Storage) -> Tensor:
    """A tensor of all that a storage holds, with one of its own."""
    out = Tensor.__new__(Tensor)
    out._node, out._storage = storage.node, Storage(storage.node)
    return out


def new(node: Node) -> Tensor:
    out: Tensor = _object(Tensor)  # with the body of __new__ here: this is called most
    out._node = node
    out._storage = Storage(node)
    out._view_chain, out._view_version, out._needs_grad = (), 0, False
    out._base = out._base_fn = out._creation = out._grad_fn = out._hooks = out.grad = None
    if _grad_mode.inferring and mode.inference:
        out._storage.version = NO_VERSION
    return out


def made(data: np.ndarray, shape: tuple[int, ...], dtype: dt.dtype, device: Device) -> Tensor:
    """`new` of a node of this array, in line: this is called most of all."""
    n: Node = _object(Node)
    n.op, n.inputs, n.attrs, n.shared = None, (), (), False
    n.shape = shape if type(shape) is Size else Size(shape)
    n.dtype, n.device, n.data = dtype, device, data
    s: Storage = _object(Storage)
    s.node, s.aliased_outside, s.version, s.writes = n, False, 0, 0
    out: Tensor = _object(Tensor)
    out._node, out._storage = n, s
    out._view_chain, out._view_version, out._needs_grad = (), 0, False
    out._base = out._base_fn = out._creation = out._grad_fn = out._hooks = out.grad = None
    if _grad_mode.inferring and mode.inference:
        s.version = NO_VERSION
    return out


_dispatch.install_callbacks(tensor_from_node=new, tensor_from_array=made)


def normalize_dim(dim: int, ndim: int) -> int:
    """`dim` counted from the front. IndexError where it is out of range."""
    n = max(ndim, 1)
    if not -n <= dim < n:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
        )
    return dim % n
