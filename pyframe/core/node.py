"""Node: an immutable value of the graph, computed or lazy. Storage: the memory tensors share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np

from pyframe.core import dtypes as dt

if TYPE_CHECKING:
    from pyframe.core.devices import device as Device
    from pyframe.core.dtypes import dtype as DType
    from pyframe.core.op import Op


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple with `numel()`.

    Args:
        iterable: the sizes.

    >>> pf.zeros(2, 3).shape.numel()
    6
    """

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements."""
        n = 1
        for size in self:
            n *= size
        return n

    @overload
    def __getitem__(self, key: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> Size: ...
    def __getitem__(self, key: Any) -> Any:
        part = tuple.__getitem__(self, key)
        return Size(part) if isinstance(key, slice) else part

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, other))

    def __mul__(self, n: Any) -> Any:
        return Size(tuple.__mul__(self, n))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"{dt.dtype.home}.Size({list(map(int, self))})"


class Node:
    """A value of the graph, which never becomes another one: the result of an op, or data.

    `data` is the value: a NumPy array on the CPU, a buffer on the GPU, None while it is only
    recorded. A node that has its value keeps no inputs. `shared` says that several storages may
    hold the node, so that its buffer is not to be written over.
    """

    __slots__ = ("attrs", "data", "device", "dtype", "inputs", "op", "shape", "shared")

    def __init__(
        self, op: Op | None, inputs: tuple[Node, ...], attrs: tuple[Any, ...],
        shape: tuple[int, ...], dtype: DType, device: Device, data: Any = None,
    ) -> None:  # fmt: skip
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.shape = shape if type(shape) is Size else Size(shape)
        self.dtype = dtype
        self.device = device
        self.data = data
        self.shared = False

    def __repr__(self) -> str:
        name = self.op.name if self.op else "value"
        return f"Node({name}, {list(self.shape)}, {self.dtype.name})"


_data: Any = Node.__dict__["data"]  # the slot


class LazyNode(Node):
    """A value of the CPU that is recorded and not computed yet. Who asks for its `data` has it
    computed; then it is a Node like others. Until then its slot holds the LazyTrace that it is
    in, or None for a view."""

    __slots__ = ()

    @property
    def data(self) -> Any:
        """The value, computed now; None for who computes it."""
        found = _data.__get__(self)
        if type(found) is not np.ndarray:
            self.device.executor.force(self)
            found = _data.__get__(self)
        return found if type(found) is np.ndarray else None

    @data.setter
    def data(self, value: Any) -> None:
        _data.__set__(self, value)


trace_of: Callable[[Node], Any] = _data.__get__  # the LazyTrace of a recorded node; None for a view
set_trace: Callable[[Node, Any], None] = _data.__set__


def lazy_node(
    op: Op, inputs: tuple[Node, ...], attrs: tuple[Any, ...], shape: tuple[int, ...],
    dtype: DType, device: Device,
) -> Node:  # fmt: skip
    """What an op of the CPU gives, still to be computed."""
    n = Node(op, inputs, attrs, shape, dtype, device)
    n.__class__ = LazyNode
    return n


def is_array(node: Node) -> bool:
    """Whether a write may change what the node holds: a NumPy array's, but no buffer's, and nothing
    that is only recorded."""
    return type(node) is not LazyNode and node.data is not None and not node.device.is_lazy


class Storage:
    """What a tensor and its views share: the whole value, and how often it was written to.

    `writes` counts all writes: a view looks there whether its own node is out of date. `version`
    counts those that autograd minds: not those through `x.data`, and none (it is NO_VERSION) to the
    memory of inference tensors. `aliased_outside` says that others than tensors may write to the
    memory: a NumPy array that shares it, or (ADDRESS_ESCAPED) who knows its address; see
    `is_aliased_outside`.
    """

    __slots__ = ("__weakref__", "aliased_outside", "node", "version", "writes")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.aliased_outside: bool | str = False
        self.version = self.writes = 0

    def wrote(self, times: int = 1) -> None:
        """Count a write, which autograd is to see so many times."""
        self.writes += 1
        if self.version != NO_VERSION:
            self.version += times

    @property
    def is_inference(self) -> bool:
        """Whether it was made in inference mode, for tensors that take no part in autograd."""
        return self.version == NO_VERSION


class Lasting(Storage):
    """That of a mask, or of weights, that a formula made for itself: when the backward pass lets go
    of what was saved, steps keep it."""

    __slots__ = ()


NO_VERSION = -1  # the version of inference tensors
ADDRESS_ESCAPED = "address"  # what is exposed for good


def is_aliased_outside(storage: Storage) -> bool:
    """Whether a NumPy array or a raw pointer may still write this memory; False once the storage
    is its only owner."""
    if storage.aliased_outside is True and type(storage.node) is Node:
        held: Any = storage.node, "data"
        while _references(*held) == _ONE:
            array = getattr(*held)
            if type(array) is not np.ndarray:
                break
            if array.base is None:
                storage.aliased_outside = not array.flags.owndata
                break
            held = array, "base"
    return bool(storage.aliased_outside)


def _references(holder: Any, name: str) -> int:
    """How many references there are to what one attribute holds."""
    found = getattr(holder, name)
    return sys.getrefcount(found)


_ONE = _references(slice(object()), "stop")


def may_change(x: Any, n: Node) -> bool:
    """Whether others than tensors may write to what `n` holds, the node of a tensor `x` or itself
    one: it must not be read late."""
    return (
        type(n) is Node is not type(x)
        and x._storage.aliased_outside
        and is_aliased_outside(x._storage)
    )


def toposort(roots: Sequence[Node]) -> list[Node]:
    """The nodes that must be computed for `roots`, each after its inputs. Views that kernels know
    as other ops become these."""
    order: list[Node] = []
    done: dict[int, bool] = {}  # False while a node, of which it comes, waits for its inputs
    stack = [*reversed(roots)]
    while stack:
        node = stack.pop()
        found = done.get(id(node))
        if found is None and node.data is None and (node.inputs or node.op is not None):
            done[id(node)] = False
            stack.append(node)
            if node.op is not None and node.op.lower_view is not None:
                made = node.op.lower_view(*node.inputs)
                node.op, node.inputs, node.attrs = made.op, made.inputs, made.attrs
            stack += [i for i in reversed(node.inputs) if id(i) not in done]
        elif not found:
            done[id(node)] = True
            order.append(node)
    return order
