"""What lies behind tensors: storages, legacy tensor types, and layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyframe.core import dtypes as dt, view as views
from pyframe.core.devices import device as Device
from pyframe.core.node import Storage
from pyframe.core.symbolic import recording
from pyframe.ops.elementwise import copy
from pyframe.tensor import Tensor, from_numpy, tensor


class UntypedStorage:
    """The memory that a tensor shares with its views, in bytes."""

    __slots__ = ("_storage",)

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def device(self) -> Device:
        return self._storage.node.device

    def nbytes(self) -> int:
        """Bytes of the whole memory."""
        array = self._array()
        if array is None:
            node = self._storage.node
            return int(np.prod(node.shape, dtype=np.int64)) * node.dtype.itemsize
        low, high = _bounds(array)
        return high - low

    size = nbytes

    def __len__(self) -> int:
        return self.nbytes()

    def _array(self) -> np.ndarray | None:
        node = self._storage.node
        return None if node.device.always_lazy or node.data is None else node.data

    def data_ptr(self) -> int:
        """The address of the first byte; on the GPU a number that only tells storages apart."""
        array = self._array()
        return id(self._storage) if array is None else _bounds(array)[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other._storage is self._storage

    def __hash__(self) -> int:
        return hash(id(self._storage))

    def __repr__(self) -> str:
        return f"<pyframe.UntypedStorage of {self.nbytes()} bytes on {self.device}>"

    def tolist(self) -> list[int]:
        """The bytes, as ints."""
        array = self._array()
        if array is None:
            raise TypeError(f"UntypedStorage.tolist: on {self.device}; use .cpu() on the tensor")
        return list(np.ascontiguousarray(array).tobytes())


def _bounds(array: np.ndarray) -> tuple[int, int]:
    """The addresses of the first byte of an array's elements and after the last."""
    low = high = array.ctypes.data
    if array.size == 0:
        return low, low
    for n, s in zip(array.shape, array.strides, strict=True):
        low, high = (low + (n - 1) * s, high) if s < 0 else (low, high + (n - 1) * s)
    return low, high + array.itemsize


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory behind this tensor: equal for a tensor and its views."""
    return UntypedStorage(self._storage)


def data_ptr(self: Tensor) -> int:
    """The address of the first element; on the GPU a number that only tells places apart."""
    node = self._value()
    if node.data is not None and not node.device.always_lazy:
        return int(node.data.ctypes.data) if node.data.size else 0
    return id(self._storage) + storage_offset(self) * self.itemsize


def storage_offset(self: Tensor) -> int:
    """How many elements of the storage lie before the first one."""
    node, capture = self._node, recording()
    if capture is not None:
        capture.places = True
    if node.data is not None and not node.device.always_lazy:
        start = untyped_storage(self).data_ptr()
        return int(node.data.ctypes.data - start) // node.data.itemsize if node.data.size else 0
    return self._index_map()[-1].offset


# --- layouts and memory formats: names that ported code passes on


class layout:  # noqa: N801  (PyTorch's name)
    """How a tensor lies in memory: always `strided`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"pyframe.{self._name}"


class memory_format(layout):  # noqa: N801  (PyTorch's name)
    """In which order the dims lie in memory."""

    def __init__(self, name: str, order: tuple[int, ...] = ()) -> None:
        super().__init__(name)
        self.order = order  # of the dims in memory, where it is not the usual one


strided, sparse_coo = layout("strided"), layout("sparse_coo")
contiguous_format, preserve_format = (
    memory_format("contiguous_format"),
    memory_format("preserve_format"),
)
channels_last = memory_format("channels_last", (0, 2, 3, 1))
channels_last_3d = memory_format("channels_last_3d", (0, 2, 3, 4, 1))


def ordered(x: Tensor, format: Any, name: str) -> Tensor:
    """`x` copied into the memory order of `format`."""
    if format in (None, preserve_format):
        return x.clone()
    if format is contiguous_format:
        return copy(x)
    if x.ndim != len(format.order):
        raise RuntimeError(
            f"{name}: required rank {len(format.order)} tensor to use {format._name} format, got "
            f"{x.ndim} dims"
        )
    back = [format.order.index(d) for d in range(x.ndim)]
    return copy(x.permute(format.order)).permute(back)


def in_format(x: Tensor, format: Any) -> bool:
    """Whether the elements lie in memory as `format` says."""
    if format in (None, contiguous_format, preserve_format):
        return x._row_major()
    if x.ndim != len(format.order):
        return False
    shape = tuple(x._node.shape[d] for d in format.order)
    strides = tuple(x.stride(d) for d in format.order)
    return views.is_contiguous((views.View(shape, strides),))


# --- FloatTensor and its kin


class _TensorType(type):
    """`pf.FloatTensor([1, 2])` makes a tensor, `isinstance(x, pf.FloatTensor)` asks for it."""

    dtype: dt.dtype
    where: str  # 'cpu' or 'gpu'

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        if args and all(isinstance(a, int) for a in args):
            from pyframe.ops.creation import empty

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
            {"dtype": d, "where": where, "__doc__": f"Tensors of {d.name} on the {where.upper()}."},
        )
        for name, d in {
            "Float": dt.float32, "Double": dt.float64, "Half": dt.float16, "BFloat16": dt.bfloat16,
            "Byte": dt.uint8, "Char": dt.int8, "Short": dt.int16, "Int": dt.int32, "Long": dt.int64,
            "Bool": dt.bool_, "ComplexFloat": dt.complex64, "ComplexDouble": dt.complex128,
        }.items()
    }  # fmt: skip


TYPES = _types("cpu")
GPU_TYPES = _types("gpu")  # PyTorch's torch.cuda.FloatTensor and its kin


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
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


# --- other libraries' memory


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A CPU tensor that shares memory with any array of the DLPack protocol."""
    return from_numpy(np.from_dlpack(ext_tensor))


def frombuffer(
    buffer: Any, *, dtype: dt.dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-d CPU tensor that shares memory with a Python buffer; offset is in bytes."""
    size = memoryview(buffer).nbytes
    if not size:
        raise ValueError(f"frombuffer: both buffer length ({size}) and count must not be 0")
    if not 0 <= offset < size:
        raise ValueError(f"frombuffer: offset ({offset}) must be within the buffer of {size} bytes")
    if dtype.narrow is not None:
        raise TypeError(f"frombuffer: NumPy has no {dtype.name}; read int16 and convert")
    left = (size - offset) // dtype.itemsize
    if count > left or (count < 0 and (size - offset) % dtype.itemsize):
        raise ValueError(
            f"frombuffer: {count if count > 0 else 'all'} elements of {dtype.itemsize} bytes don't "
            f"fit {size - offset} bytes"
        )
    out = from_numpy(np.frombuffer(buffer, dtype.numpy, count, offset))
    return out.requires_grad_(requires_grad)


def asarray(
    obj: Any, *, dtype: dt.dtype | None = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of a tensor, an array, a buffer or numbers, sharing memory where nothing changes
    unless `copy`; ValueError where `copy=False` can't hold."""
    if isinstance(obj, Tensor):
        out = obj.detach()
    elif isinstance(obj, (np.ndarray, np.generic)):
        out = from_numpy(np.asarray(obj))
    elif hasattr(obj, "__dlpack__"):
        out = from_dlpack(obj)
    elif isinstance(obj, (bytes, bytearray, memoryview)):
        out = frombuffer(obj, dtype=dtype or dt.get_default_dtype())
    else:
        if copy is False:
            raise ValueError("asarray: can't alias an arbitrary sequence; copy=None copies it")
        return tensor(obj, dtype=dtype, device=device, requires_grad=requires_grad)
    source = out
    out = out.to(device if device is not None else out.device, dtype or out.dtype)
    if copy and out._storage is source._storage:
        out = out.clone()
    if copy is False and out._storage is not source._storage:
        raise ValueError("asarray: can't alias with another device or dtype; copy=None copies it")
    return out.detach().requires_grad_(requires_grad)


def to_dlpack(self: Tensor, **kwargs: Any) -> Any:
    """The DLPack capsule of a CPU tensor (for NumPy, CuPy, JAX, PyTorch …)."""
    if self.requires_grad:
        raise BufferError(
            "Can't export tensors that require gradient, use tensor.detach() beforehand"
        )
    if self.is_cuda:
        raise BufferError(f"DLPack: device '{self.device}' is not shared; use .cpu() first")
    kwargs.pop("stream", None)
    return self.numpy().__dlpack__(**kwargs)


_ABSENT = "sparse sparse_csr quantized meta mkldnn mps xpu nested".split()


def _attach() -> None:
    t: Any = Tensor
    t.untyped_storage = t.storage = untyped_storage
    t.data_ptr = t.const_data_ptr = data_ptr
    t.storage_offset, t.type = storage_offset, type_
    t.__dlpack__ = to_dlpack
    t.__dlpack_device__ = lambda self: (1, 0)
    t.layout = property(lambda self: strided)
    t.is_cpu = property(lambda self: not self.is_cuda)
    for name in _ABSENT:
        setattr(t, f"is_{name}", property(lambda self: False))
    t.nelement, t.ndimension = Tensor.numel, Tensor.dim
    t.get_device = lambda self: self.device.index if self.is_cuda else -1
    t.is_set_to = lambda self, other: (
        self.data_ptr() == other.data_ptr()
        and self.shape == other.shape
        and self.stride() == other.stride()
    )
    t.pin_memory = t.share_memory_ = lambda self, *args: self
    t.is_pinned = t.is_shared = lambda self, *args: False
    t.dim_order = lambda self: tuple(sorted(range(self.ndim), key=lambda d: (-self.stride(d), d)))
    t.new = lambda self, *data, device=None: next(
        kind for kind in TYPES.values() if kind.dtype is self.dtype
    )(*data, device=device or self.device)
    t.new_tensor = lambda self, data, **kw: tensor(
        data, **{"dtype": self.dtype, "device": self.device, **kw}
    )
    for name, text in _DOCS.items():
        getattr(t, name).__doc__ = text


_DOCS = {
    "layout": "`pf.strided`, always.",
    "is_cpu": "Whether it is on the CPU.",
    **dict.fromkeys(
        [f"is_{name}" for name in _ABSENT], "False: there are no such tensors; for PyTorch's code."
    ),
    "get_device": "The index of the GPU, -1 on the CPU.",
    "is_set_to": "Whether both are the same view of the same memory.",
    "pin_memory": "The tensor itself: memory need not be pinned.",
    "is_pinned": "False: memory need not be pinned.",
    "dim_order": "The dims from the longest stride to the shortest.",
    "new_tensor": "A copy of `data`, by default with the dtype and device of this tensor.",
}
_attach()
