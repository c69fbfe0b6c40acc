"""What flows between nodes: tensors, NumPy arrays on the host, lists, and None for what is absent.

An array on the host is what is known without asking a device: numbers that decide shapes, and what
tensors have no dtype for (strings, eight bits of float, four of int). An array of dtype object has
sizes that a capture keeps as symbols; it counts as int64, or as int32 where it is Narrow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

import pyframe as pf
from pyframe.core.sizes import changes
from pyframe.tensor import Tensor

Host: TypeAlias = np.ndarray  # a parameter of an operator that is read on the host
State: TypeAlias = Tensor  # one that is no parameter but state, such as a running mean

# Numbers of TensorProto.DataType; the others are known to NumPy alone.
DTYPES: dict[int, pf.dtype] = {
    1: pf.float32, 2: pf.uint8, 3: pf.int8, 4: pf.uint16, 5: pf.int16, 6: pf.int32, 7: pf.int64,
    9: pf.bool, 10: pf.float16, 11: pf.float64, 12: pf.uint32, 13: pf.uint64, 14: pf.complex64,
    15: pf.complex128, 16: pf.bfloat16,
}  # fmt: skip
TYPES = {dtype: number for number, dtype in DTYPES.items()}
STRING = 8
_NAMES = {str(dtype).partition(".")[2]: dtype for dtype in TYPES}


_NUMPY: dict[int, np.dtype] = {}
_NUMBERS: dict[np.dtype, int] = {}


def learn(onnx: Any) -> None:
    """NumPy's dtypes of all that the onnx package has, those of a few bits too."""
    for number in onnx.TensorProto.DataType.values():
        if number not in (0, STRING):
            _NUMPY[number] = dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
            _NUMBERS[dtype] = number
    _NUMPY[STRING] = np.dtype(str)


def numpy_dtype(number: int) -> np.dtype:
    """NumPy's dtype of a TensorProto.DataType; strings are object in the onnx package, here U."""
    return _NUMPY[number]


class Narrow(np.ndarray):
    """Sizes of dtype object that count as int32."""


def type_of(value: Any) -> int:
    """The TensorProto.DataType of a value."""
    if isinstance(value, Tensor):
        return TYPES[value.dtype]
    if value.dtype.kind == "U":
        return STRING
    if value.dtype == object:
        return 6 if isinstance(value, Narrow) else 7
    return _NUMBERS[value.dtype]


def dtype_of(array: np.ndarray) -> pf.dtype | None:
    """A tensor's dtype for a NumPy array; None where there is none."""
    return DTYPES[type_of(array)] if array.dtype == object else _NAMES.get(array.dtype.name)


def is_host(value: Any) -> bool:
    """Whether it is known without a device."""
    return value is None or isinstance(value, np.ndarray)


def tensor(array: np.ndarray, device: Any = None) -> Tensor:
    """A tensor of an array. TypeError for what tensors have no dtype for."""
    dtype = dtype_of(array)
    if dtype is None:
        raise TypeError(f"tensors have no dtype for {array.dtype.name}")
    if array.dtype == object:  # sizes, some of which are symbols
        flat = [pf.full((), n, dtype=dtype, device=device) for n in array.ravel().tolist()]
        return pf.stack(flat).reshape(array.shape) if array.ndim else flat[0]
    if dtype is pf.bfloat16:
        return pf.tensor(array.astype(np.float32), device=device).to(pf.bfloat16)
    return pf.tensor(array, device=device)


def array(value: Any) -> np.ndarray:
    """A value on the host, which is waited for."""
    if not isinstance(value, Tensor):
        return np.asarray(value)
    value = value.detach().cpu()
    if value.dtype is pf.bfloat16:
        return np.asarray(value.float().numpy()).astype(numpy_dtype(16))
    return np.asarray(value.numpy())


def sizes(shape: Iterable[Any]) -> np.ndarray:
    """A shape as a value: of int64 where all is known."""
    shape = list(shape)
    known = all(type(n) is int for n in shape)
    made = np.empty(len(shape), np.int64 if known else object)
    for i, n in enumerate(shape):  # one by one: NumPy would ask symbols for their numbers
        made[i] = n
    return made


def boxed(value: Any) -> np.ndarray:
    """What a NumPy function gave as an array; of arrays of symbols it may be a symbol itself."""
    if isinstance(value, np.ndarray | np.generic | int | float) and not changes(value):
        return np.asarray(value)
    made = np.empty((), object)
    made[()] = value
    return made


def ints(values: Any) -> list[Any]:
    """The sizes or axes that an operator reads; symbols stay what they are."""
    return np.asarray(values).ravel().tolist()


def has_dtype(value: Any) -> bool:
    """Whether tensors have its dtype."""
    return isinstance(value, Tensor) or dtype_of(value) is not None


def whole(value: Any) -> int:
    """The one number of an array, an int."""
    return int(np.asarray(value).reshape(()))
