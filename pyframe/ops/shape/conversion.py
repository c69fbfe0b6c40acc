"""Conversions: to a dtype, a device or a tensor type, as `FloatTensor`; and Tensor(...) itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numpy as np

from pyframe.core import devices as _device, dtypes as dt
from pyframe.core.devices import device as Device
from pyframe.core.dispatch import order_of, permute_to, view_in_order
from pyframe.core.grad_node import GradNode
from pyframe.core.modes import mode, no_grad
from pyframe.core.op import EXTERN, Op, no_flops
from pyframe.ops.math.elementwise import cast, ordered
from pyframe.ops.random.creation import empty
from pyframe.tensor import Tensor, from_numpy, read_again, tensor, upload


@overload
def to(
    self: Tensor, dtype: dt.dtype, non_blocking: bool = False, *, copy: bool = False,
    memory_format: Any = None,
) -> Tensor: ...  # fmt: skip
@overload
def to(
    self: Tensor, device: Device | str | int | None = None, dtype: dt.dtype | None = None,
    non_blocking: bool = False, *, copy: bool = False, memory_format: Any = None,
) -> Tensor: ...  # fmt: skip
@overload
def to(
    self: Tensor, other: Tensor, non_blocking: bool = False, *, copy: bool = False,
    memory_format: Any = None,
) -> Tensor: ...  # fmt: skip
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """This tensor with another device and/or dtype: `to(dtype)`, `to(device)`, `to(other)`.

    Returns self where nothing changes, unless `copy=True`.
    """
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    copy, format = kwargs.pop("copy", False), kwargs.pop("memory_format", None)
    kwargs.pop("non_blocking", None)
    if kwargs:
        raise TypeError(f"to() got unexpected arguments {sorted(kwargs)}")
    for a in args:
        if isinstance(a, dt.dtype):
            dtype = a
        elif isinstance(a, Tensor):
            device, dtype = a.device, a.dtype
        elif isinstance(a, (str, Device, int)):
            device = device if isinstance(a, bool) else a  # a bool is PyTorch's non_blocking
        elif a is not None:  # which stands for what it has
            raise TypeError(f"to() takes a device, a dtype or a Tensor, got {type(a).__name__}")
    out = self
    target = self.device if device is None else Device(device)
    if target is not self.device:
        out = _to_device(out, target, dtype)
    elif dtype is not None and dtype is not self.dtype:
        out = cast(out, dtype)
    if format is not None and not out.is_contiguous(format):
        return ordered(out, format, "to")
    return out.clone() if copy and out is self else out


def _to_dtype(name: str, d: dt.dtype) -> Callable[..., Tensor]:
    def run(self: Tensor, memory_format: Any = None) -> Tensor:
        return self.to(d, memory_format=memory_format) if memory_format else self.to(d)

    run.__doc__ = f"Converted to {d.name}."
    run.__name__ = name
    return run


_DTYPES = {  # by their names in the types of tensors
    "Float": dt.float32, "Double": dt.float64, "Half": dt.float16, "BFloat16": dt.bfloat16,
    "Byte": dt.uint8, "Char": dt.int8, "Short": dt.int16, "Int": dt.int32, "Long": dt.int64,
    "Bool": dt.bool_, "ComplexFloat": dt.complex64, "ComplexDouble": dt.complex128,
}  # fmt: skip
TO_DTYPES = {  # float, bfloat16, cfloat, …
    name: _to_dtype(name, d)
    for name, d in ((n.lower().replace("complex", "c"), d) for n, d in _DTYPES.items())
}


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """Converted to the dtype of `other`."""
    return self.to(other.dtype)


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor itself, or converted: all are dense.

    Args:
        dtype: What it is converted to.
        masked_grad: Of gradients of sparse tensors.
    """
    return self if dtype is None else self.to(dtype)


def cpu(self: Tensor) -> Tensor:
    """On the CPU."""
    return self.to(_device.cpu)


def gpu(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """On the GPU, or on the one of this number or name."""
    return self.to(Device("gpu") if device is None else device)


def is_cuda(self: Tensor) -> bool:
    """Whether it is on the GPU."""
    return self.device.kind == "gpu"


to_device = Op(
    "to_device", EXTERN, "x", "source dtype", flops=no_flops, x=lambda g, source: g.to(source)
)


def _to_device(x: Tensor, target: Device, dtype: dt.dtype | None) -> Tensor:
    """Copy `x` to another device, differentiably."""
    order = order_of(x)
    if order is None:
        out = _transfer(x, target, dtype)
    else:
        with no_grad():
            out = view_in_order(_transfer(permute_to(x, order), target, dtype), order)
    if mode.grad and x.requires_grad and out.dtype.category >= dt.FLOAT:
        out._grad_fn = GradNode(to_device, (x,), (x.device, x.dtype), out)
    return out


def _transfer(x: Tensor, target: Device, dtype: dt.dtype | None) -> Tensor:
    d = x.dtype
    if target.kind == "meta":
        return empty(x.shape, dtype=dtype or d, device=target)
    make = None if mode.capture is None else mode.capture.source(x)

    def converted(array: np.ndarray) -> Any:
        if dtype is None or dtype is d:
            return array
        inner, mode.capture = mode.capture, None  # what the host knows it converts at once
        try:
            return cast(from_numpy(array), dtype)._node.data
        finally:
            mode.capture = inner

    if make is None:
        return upload(converted(x._host()), target, dtype or d)
    out = upload(converted(make()), target, dtype or d)
    read_again(out, lambda: converted(make()))
    return out


# --- Tensor(...), FloatTensor(...) and its kin


def initialize(self: Tensor, *data: Any, device: Any = None) -> None:
    """`Tensor(2, 3)` has these sizes, `Tensor([1, 2])` these values, in the default dtype."""
    if hasattr(self, "_node"):  # the __new__ of a derived class has made it
        return
    if device is None and _device.get_default_device().kind == "meta":
        device = "cpu"  # as in PyTorch, whose programs read these values
    if data and all(isinstance(n, int) for n in data):  # sizes
        source = empty(*data, device=device)
    elif len(data) > 1:
        raise TypeError(f"Tensor: expected sizes or one sequence, got {len(data)} arguments")
    elif data and isinstance(data[0], Tensor):
        source = data[0]
    else:
        values = data[0] if data else ()
        source = tensor(values, dtype=dt.get_default_dtype(), device=device)
    self._node, self._storage = source._node, source._storage
    self._view_chain = source._view_chain


class _TensorType(type):
    """`pf.FloatTensor([1, 2])` makes a tensor, `isinstance(x, pf.FloatTensor)` asks for it."""

    dtype: dt.dtype
    where: str  # 'cpu' or 'gpu'

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        if args and all(isinstance(a, int) for a in args):
            return empty(*args, dtype=cls.dtype, device=device or cls.where)
        if len(args) > 1:
            raise TypeError(f"{cls.__name__}: expected sizes or one sequence, got {len(args)} args")
        if args and isinstance(args[0], Tensor):
            if args[0].dtype is not cls.dtype:
                raise TypeError(f"expected {cls.__name__}, got a tensor of {args[0].dtype.name}")
            return args[0].detach()
        return tensor(args[0] if args else [], dtype=cls.dtype, device=device or cls.where)

    def __instancecheck__(cls, obj: Any) -> bool:
        is_cuda = cls.where == "gpu"
        return isinstance(obj, Tensor) and obj.dtype is cls.dtype and obj.is_cuda is is_cuda

    def __repr__(cls) -> str:
        return f"<class '{dt.dtype.home}.{'cuda.' * (cls.where == 'gpu')}{cls.__name__}'>"


def _types(where: str) -> dict[str, Any]:
    return {
        f"{name}Tensor": _TensorType(
            f"{name}Tensor", (),
            {"dtype": d, "where": where, "__doc__": f"Tensors of {d.name} on the {where.upper()}: "
             f"what isinstance asks for, or to make.\n\n>>> pf.{name}Tensor([1, 0]).dtype\n{d!r}"},
        )
        for name, d in _DTYPES.items()
    }  # fmt: skip


TYPES = _types("cpu")
GPU_TYPES = _types("gpu")  # PyTorch's torch.cuda.FloatTensor and its kin


@overload
def type_(self: Tensor, dtype: None = None, non_blocking: bool = False) -> str: ...
@overload
def type_(self: Tensor, dtype: Any, non_blocking: bool = False) -> Tensor: ...
def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> str | Tensor:
    """The name of this tensor's type; with `dtype` (a dtype, type or name), converted to it. A
    type is of the CPU or of the GPU, and the tensor goes there."""
    if dtype is None:
        name = next(n for n, t in TYPES.items() if t.dtype is self.dtype)
        return f"{dt.dtype.home}.{'cuda.' if self.is_cuda else ''}{name}"
    if isinstance(dtype, str):
        types = GPU_TYPES if ".cuda." in dtype else TYPES
        dtype = types.get(dtype.rpartition(".")[2], dtype)
    if isinstance(dtype, _TensorType):
        there = self.is_cuda is (dtype.where == "gpu")
        return self.to(self.device if there else dtype.where, dtype.dtype)
    if not isinstance(dtype, dt.dtype):
        raise TypeError(f"type: expected a dtype, a tensor type or its name, got {dtype!r}")
    return self.to(dtype)


def new(self: Tensor, *data: Any, device: Any = None) -> Tensor:
    """A tensor of this one's dtype and device, of sizes or of values."""
    kind = next(kind for kind in TYPES.values() if kind.dtype is self.dtype)
    return kind(*data, device=device or self.device)


def new_tensor(self: Tensor, data: Any, **kw: Any) -> Tensor:
    """A copy of `data`, by default with the dtype and device of this tensor."""
    return tensor(data, **{"dtype": self.dtype, "device": self.device, **kw})
