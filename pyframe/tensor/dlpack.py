"""What DLPack takes: capsules of this library's memory, and arrays of other libraries' capsules.

NumPy makes and reads the capsules; bfloat16, which it lacks, is put into their description
(https://dmlc.github.io/dlpack/latest).
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from pyframe.core import devices as _device, dtypes as dt
from pyframe.tensor.reading import host, to_shared_array

if TYPE_CHECKING:
    from pyframe.tensor.tensor import Tensor

CPU = 1  # the number of the kind of device in dlpack.h
_INT, _BFLOAT = 0, 4  # and of dtypes
_WITH_VERSIONS = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def given(
    self: Tensor, stream: Any, max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None, copy: bool | None,
) -> Any:  # fmt: skip
    """The capsule of a tensor, see `interchange.to_dlpack`."""
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
    array = host(self) if copies or copy else to_shared_array(self)
    if self.dtype is dt.bfloat16:
        array = np.asarray(array.view(np.uint32) >> np.uint32(16)).astype(np.int16)
    elif copies or copy:
        array = array.copy()
    versions = {"max_version": max_version} if _WITH_VERSIONS and max_version is not None else {}
    capsule = array.__dlpack__(**versions)
    if self.dtype is dt.bfloat16:
        described(capsule).code = _BFLOAT
    return capsule


def import_capsule(ext_tensor: Any, device: Any, copy: bool | None) -> tuple[np.ndarray, bool]:
    """Another library's memory, and whether it is bfloat16, which is copied to float32."""
    if copy is False and device is not None and _device.resolve(device).is_lazy:
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
    if not is_bfloat16:
        return array.copy() if copy else array, False
    if copy is False:
        raise BufferError("from_dlpack: copy=False, but bfloat16 is copied, to four bytes each")
    wide = array.view(np.uint16).astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32), True


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
