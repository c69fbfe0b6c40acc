"""Memory shared with other libraries: buffers, and DLPack both ways (dmlc.github.io/dlpack/latest).

NumPy makes and reads the capsules; bfloat16, which it lacks, is put into their description.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from pyframe.core import devices as _device, dtypes as dt
from pyframe.tensor.construction import from_host, from_numpy, tensor
from pyframe.tensor.reading import host, shown
from pyframe.tensor.tensor import Tensor

CPU, WEBGPU = 1, 15  # numbers of kinds of devices in dlpack.h
_INT, _BFLOAT = 0, 4  # and of dtypes
_WITH_VERSIONS = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """The kind and number of the device: (1, 0) for the CPU, (15, n) for a GPU."""
    return (WEBGPU, self.device.index or 0) if self.is_cuda else (CPU, 0)


def to_dlpack(
    self: Tensor, *, stream: Any = None, max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None, copy: bool | None = None,
) -> Any:  # fmt: skip
    """The DLPack capsule of this tensor's memory, which stays as long as the capsule's user.

    BufferError for a tensor that requires grad, and for what has to be copied if `copy` is False:
    bfloat16 (four bytes here), memory in reverse, which PyTorch can't take, and a tensor of the
    GPU, which only `dl_device=(1, 0)` moves.
    """
    if self.requires_grad:
        raise BufferError(
            "Can't export tensors that require gradient, use tensor.detach() beforehand"
        )
    if stream is not None and stream != -1:
        raise AssertionError(f"stream should be None on cpu, got {stream}")
    if dl_device not in (None, (CPU, 0)):
        raise BufferError(
            f"DLPack: only the CPU's memory is given, dl_device=(1, 0), not {tuple(dl_device)}"
        )
    if self.is_cuda and dl_device is None:
        raise BufferError(
            f"DLPack: device '{self.device}' is not shared; use .cpu() first, or dl_device=(1, 0)"
        )
    copies = self.is_cuda or self.dtype is dt.bfloat16 or min((1, *self.stride())) < 0
    if copies and copy is False:
        raise BufferError(
            f"DLPack: {self.dtype.name} on '{self.device}' with strides {self.stride()} would be "
            "copied, and copy=False says that it may not"
        )
    array = host(self) if copies or copy else shown(self)
    if self.dtype is dt.bfloat16:
        array = np.asarray(array.view(np.uint32) >> np.uint32(16)).astype(np.int16)
    elif copies or copy:
        array = array.copy()
    versions = {"max_version": max_version} if _WITH_VERSIONS and max_version is not None else {}
    capsule = array.__dlpack__(**versions)
    if self.dtype is dt.bfloat16:
        described(capsule).code = _BFLOAT
    return capsule


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A CPU tensor that shares memory with an array of the DLPack protocol, or with a capsule.

    It is copied if `copy`, and where it must be: bfloat16 (with `copy=False` a BufferError), and
    for `device`. Memory that its library calls read-only is not written to: RuntimeError.
    """
    if copy is False and device is not None and _device.resolve(device).always_lazy:
        raise BufferError(f"from_dlpack: copy=False, but memory on '{device}' is a copy")
    source = _Source(ext_tensor, device)
    try:
        array = np.from_dlpack(source)
        is_bfloat16 = False
    except RuntimeError:  # a dtype that NumPy lacks
        if source.capsule is None or (told := described(source.capsule)).code != _BFLOAT:
            raise
        told.code, is_bfloat16 = _INT, True
        array = np.from_dlpack(source)
    if is_bfloat16:
        if copy is False:
            raise BufferError("from_dlpack: copy=False, but bfloat16 is copied, to four bytes each")
        wide = array.view(np.uint16).astype(np.uint32) << np.uint32(16)
        out = from_host(wide.view(np.float32), dt.bfloat16)
    else:
        out = from_numpy(array.copy() if copy else array)
    return out if device is None else out.to(device)


class _Source:
    """What NumPy is given for another library's array, or for the capsule of one."""

    def __init__(self, of: Any, device: Any) -> None:
        self._of, self._options = of, dict[str, Any]()
        self.capsule: Any = of if type(of).__name__ == "PyCapsule" else None
        if self.capsule is not None:
            if '"used_' in repr(of):
                raise RuntimeError("from_dlpack: this capsule was taken before; one takes it once")
            return
        if not hasattr(of, "__dlpack__"):
            raise TypeError(
                f"from_dlpack: expected an array with __dlpack__, got {type(of).__name__}"
            )
        kind, number = of.__dlpack_device__()
        if kind != CPU:
            if device is None:
                raise BufferError(
                    f"from_dlpack: the array lies on device {int(number)} of DLPack's kind "
                    f"{int(kind)}, and only the CPU's memory is shared; device='cpu' copies it"
                )
            self._options["dl_device"] = (CPU, 0)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0

    def __dlpack__(self, **options: Any) -> Any:
        if self.capsule is None:
            try:
                self.capsule = self._of.__dlpack__(**options, **self._options)
            except TypeError:  # a library from before DLPack 1.0
                self.capsule = self._of.__dlpack__(**self._options)
        return self.capsule


class _Description(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("kind", ctypes.c_int), ("number", ctypes.c_int),
        ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )  # fmt: skip


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned, as far as it is read."""

    _fields_ = (
        ("version", ctypes.c_uint32 * 2), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Description),
    )  # fmt: skip


def described(capsule: Any) -> Any:
    """What a capsule says of its tensor, as `code`, `bits` … in the capsule's own memory."""
    api = ctypes.pythonapi
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    if (kind := name(capsule)) == b"dltensor_versioned":
        return _Versioned.from_address(pointer(capsule, kind)).tensor
    return _Description.from_address(pointer(capsule, kind))


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
