"""What a Module counts among its parameters and buffers, as torch.nn.parameter."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pyframe.core.devices import device as Device
from pyframe.core.dtypes import dtype as DType
from pyframe.core.node import Node
from pyframe.ops.random.creation import empty, zeros
from pyframe.tensor import Size, Tensor

__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedError", "UninitializedParameter",
    "UninitializedTensorMixin", "is_lazy",
]  # fmt: skip


def _holding(cls: Any, data: Tensor | None, requires_grad: bool) -> Any:
    """A new tensor of a class, another handle on what `data` holds."""
    if data is not None and not isinstance(data, Tensor):
        raise TypeError(f"{cls.__name__}: expected a Tensor, got {type(data).__name__}")
    out = Tensor.__new__(cls)
    out.data = (zeros(0) if data is None else data).detach()
    if requires_grad:
        out.requires_grad_()
    return out


class Parameter(Tensor):
    """A tensor that a Module counts among its parameters as soon as it is its attribute.

    Args:
        data: the tensor, whose memory is shared; None for an empty one.
        requires_grad: whether gradients are computed for it.

    >>> nn.Parameter(pf.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    _takes_over = False

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        return _holding(cls, data, requires_grad)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """It is all there: subclasses may have more arguments, as PyTorch's."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        out = super().__deepcopy__(memo)
        out.grad = None  # as PyTorch's
        return out

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Buffer(Tensor):
    """A tensor that a Module counts among its buffers as soon as it is its attribute: state that
    isn't trained, such as running statistics.

    Args:
        data: the tensor, whose memory is shared; None for an empty one.
        persistent: whether it is in the module's state_dict.

    >>> module = nn.Module()
    >>> module.steps = nn.Buffer(pf.zeros(1))
    >>> list(module.state_dict())
    ['steps']
    """

    _takes_over = False
    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        out = _holding(cls, data, getattr(data, "requires_grad", False))
        out.persistent = persistent
        return out

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """It is all there."""


_NODE: Any = Tensor.__dict__["_node"]  # the slot itself


class UninitializedError(RuntimeError, ValueError):
    """A lazy parameter was used before it had a shape; PyTorch raises either of the bases."""


class UninitializedTensorMixin:
    """What has a device and a dtype, but no shape and no elements until `materialize`."""

    __slots__ = ()
    cls_to_become: ClassVar[type[Tensor]]
    requires_grad: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """It is all there."""

    def materialize(
        self, shape: Any, device: Device | str | None = None, dtype: DType | None = None
    ) -> None:
        """Become a tensor of this shape, whose elements are still to be written."""
        new = empty(shape, device=device or self.device, dtype=dtype or self.dtype)
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        self.data = new

    def _error(self, what: str) -> Exception:
        return UninitializedError(
            f"{what} an uninitialized parameter or buffer: this {type(self).__name__} has no shape "
            "yet. Call the module's forward with a batch first, which gives it one; until then its "
            "state_dict can be loaded only into a module that is as new"
        )

    @property
    def _node(self) -> Node:  # what every op reads first
        raise self._error("Attempted to use")

    @_node.setter
    def _node(self, node: Node) -> None:
        _NODE.__set__(self, node)

    @property
    def shape(self) -> Size:
        """UninitializedError: there is none."""
        raise self._error("Can't access the shape of")

    @property
    def dtype(self) -> DType:
        """The type that the elements will have."""
        found: DType = _NODE.__get__(self).dtype
        return found

    @property
    def device(self) -> Device:
        """Where the elements will be."""
        found: Device = _NODE.__get__(self).device
        return found

    def is_floating_point(self) -> bool:
        """Whether the dtype is a float."""
        return self.data.is_floating_point()

    def is_complex(self) -> bool:
        """Whether the dtype is complex."""
        return self.data.is_complex()

    @property
    def data(self) -> Tensor:
        """A tensor without elements, of this device and dtype."""
        out = Tensor.__new__(Tensor)
        out._node, out._storage = _NODE.__get__(self), self._storage  # type: ignore[attr-defined]
        return out

    @data.setter
    def data(self, value: Tensor) -> None:
        value = value.data if is_lazy(value) else value
        Tensor.data.fset(self, value)  # type: ignore[attr-defined]

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """One of another device or dtype; self where nothing changes."""
        new = self.data.to(*args, **kwargs)
        if new.device is self.device and new.dtype is self.dtype:
            return self
        out = self.__copy__()
        out.data = new
        return out

    def share_memory_(self) -> Any:
        """RuntimeError: there is no memory."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __copy__(self) -> Any:
        make, args, state = self.__reduce_ex__(2)
        out = make(*args)
        out.__dict__.update(state or {})
        return out

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = self.__copy__()
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        made = self.requires_grad, str(self.device), self.dtype
        return type(self), made, self.__dict__ or None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def _repr_html_(self) -> None:
        """None: notebooks show the text."""


def _in_dtype(name: str) -> Any:
    def method(self: UninitializedTensorMixin) -> Any:
        new = getattr(self.data, name)()
        return self.to(new.device, new.dtype)

    method.__name__, method.__doc__ = name, f"As Tensor.{name}."
    return method


for _name in ("half", "float", "double", "bfloat16", "char", "short", "int", "long", "cpu",
              "gpu", "cuda"):  # fmt: skip
    setattr(UninitializedTensorMixin, _name, _in_dtype(_name))


def is_lazy(param: Any) -> bool:
    """Whether it is an UninitializedParameter or UninitializedBuffer."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[override]
    """A parameter whose shape is not known yet. It can be moved and converted; any other use of it
    is a ValueError until `materialize`.

    Args:
        requires_grad: whether it will get gradients.
        device, dtype: where its elements will lie and of which dtype; None is the default.

    >>> weight = nn.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> type(weight).__name__, weight.shape
    ('Parameter', pyframe.Size([2, 3]))
    """

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: DType | None = None
    ) -> Self:
        return _holding(cls, empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):  # type: ignore[override]
    """A buffer whose shape is not known yet, as UninitializedParameter.

    Args:
        requires_grad, device, dtype: as of UninitializedParameter.
        persistent: whether a state_dict has it.

    >>> mean = nn.UninitializedBuffer()
    >>> mean.materialize((3,))
    >>> type(mean).__name__, mean.shape
    ('Buffer', pyframe.Size([3]))
    """

    cls_to_become = Buffer

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: DType | None = None,
        persistent: bool = True,
    ) -> Self:  # fmt: skip
        out = _holding(cls, empty(0, device=device, dtype=dtype), requires_grad)
        out.persistent = persistent
        return out
