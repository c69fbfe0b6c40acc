"""Data types: one table with what NumPy and WGSL call each, and PyTorch's promotion rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from pyframe.core import host_memory
from pyframe.core.modes import mode

BOOL, INTEGER, FLOAT, COMPLEX = 0, 1, 2, 3


class dtype:  # noqa: N801  (PyTorch's name)
    """The element type of a tensor.

    `storage` and `compute` are the WGSL types that hold it in a buffer and in a register
    (None: the GPU lacks it). Of `PACKED` ones several lie in a word of a buffer. `narrow` rounds
    arrays of a NumPy type that is wider to what it holds.

    Args:
        name, category: what it is called, and whether it is bool, integer, float or complex.
        numpy: its NumPy type, by default the one of this name.

    >>> pf.float32.itemsize, pf.float32.is_floating_point
    (4, True)
    """

    __slots__ = (
        "category",
        "compute",
        "cpu_compilable",
        "itemsize",
        "name",
        "narrow",
        "numpy",
        "storage",
    )  # fmt: skip

    home: ClassVar[str] = "pyframe"  # what a repr calls the library

    def __init__(
        self, name: str, category: int, storage: str | None, compute: str | None = None,
        numpy: Any = None, narrow: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.numpy = np.dtype(name) if numpy is None else numpy
        self.category = category
        self.storage = storage
        self.compute = compute or storage
        self.narrow = narrow
        self.itemsize = 2 if narrow else self.numpy.itemsize
        self.cpu_compilable = category != COMPLEX  # whether compiled plans of the CPU know it

    @property
    def is_floating_point(self) -> bool:
        return self.category == FLOAT

    @property
    def is_complex(self) -> bool:
        return self.category == COMPLEX

    @property
    def is_signed(self) -> bool:
        return self.numpy.kind in "ifc"

    def to_real(self) -> dtype:
        """The dtype of the parts of a complex dtype; any other dtype itself."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    def to_complex(self) -> dtype:
        """The complex dtype whose parts have this precision."""
        return self if self.category == COMPLEX else complex128 if self is float64 else complex64

    @property
    def device_itemsize(self) -> int:
        """Bytes of one element in a GPU buffer."""
        return {"f16": 2, "c64": 8}.get(self.storage or "", 4 // self.packed)

    @property
    def packed(self) -> int:
        """How many elements share a word of a GPU buffer that no type of WGSL's is for."""
        return PACKED.get(self.storage or "", 1)

    @staticmethod
    def from_numpy(numpy_dtype: Any) -> dtype:
        """The dtype of a NumPy dtype; TypeError if pyframe has none for it.

        Args:
            numpy_dtype: it, or what `np.dtype` takes.
        """
        try:
            return _FROM_NUMPY[np.dtype(numpy_dtype)]
        except KeyError:
            raise TypeError(
                f"can't convert np.ndarray of type {numpy_dtype}: pyframe has "
                f"{', '.join(d.name for d in ALL)}; convert it with .astype first"
            ) from None

    def __repr__(self) -> str:
        return f"{self.home}.{self.name}"

    def __reduce__(self) -> str:
        return "bool_" if repr(self) == "pyframe.bool" else self.name

    def __deepcopy__(self, memo: dict[int, Any]) -> dtype:
        return self


# What WGSL has no type for, but for float16, which is one where the GPU knows it: how many a word
# of 32 bits has, the first in its lowest bits.
PACKED = {"bf16": 2, "i16": 2, "u16": 2, "i8": 4, "u8": 4, "bool": 4}

float32 = dtype("float32", FLOAT, "f32")
float16 = dtype("float16", FLOAT, "f16", compute="f32")
float64 = dtype("float64", FLOAT, None)
int64 = dtype("int64", INTEGER, "i32")  # 32 bits on the GPU: every upload is checked
int32 = dtype("int32", INTEGER, "i32")
int16 = dtype("int16", INTEGER, "i16", compute="i32")
int8 = dtype("int8", INTEGER, "i8", compute="i32")
uint8 = dtype("uint8", INTEGER, "u8", compute="u32")
uint16 = dtype("uint16", INTEGER, "u16", compute="u32")
uint32 = dtype("uint32", INTEGER, "u32")
uint64 = dtype("uint64", INTEGER, None)
bool_ = dtype("bool", BOOL, "bool")
complex64 = dtype("complex64", COMPLEX, "c64")
complex128 = dtype("complex128", COMPLEX, None)


def _round_bfloat16(x: np.ndarray) -> np.ndarray:
    """float32 rounded to the nearest number with 8 bits of mantissa, ties to even."""
    flat = np.asarray(x, np.float32).reshape(-1)
    bits = flat.view(np.uint32)
    out = bits >> np.uint32(16)
    out &= np.uint32(1)
    out += np.uint32(0x7FFF)
    out += bits
    out &= np.uint32(0xFFFF0000)
    rounded = out.view(np.float32)
    nan = np.isnan(flat)
    if nan.any():
        rounded[nan] = flat[nan]
    return rounded.reshape(np.shape(x))


# NumPy has no bfloat16: float32 arrays hold its values.
bfloat16 = dtype(
    "bfloat16", FLOAT, "bf16", compute="f32", narrow=_round_bfloat16,
    numpy=np.dtype(np.float32, metadata={"holds": "bfloat16"}),
)  # fmt: skip

ALL = (
    float32, float64, float16, bfloat16, int64, int32, int16, int8, uint8, bool_, complex64,
    complex128, uint16, uint32, uint64,
)  # fmt: skip
_FROM_NUMPY = {d.numpy: d for d in ALL if d is not bfloat16}
_FROM_PYTHON = {bool: bool_, int: int64, float: float32, complex: complex64}
_BARELY = (uint16, uint32, uint64)  # PyTorch promotes these with floats only
_DEFAULT = [float32]


def get_default_dtype() -> dtype:
    """The float dtype that Python floats take (float32 unless changed).

    >>> pf.get_default_dtype()
    pyframe.float32
    """
    return _DEFAULT[0]


def set_default_dtype(d: dtype) -> None:
    """Set the float dtype of new tensors; TypeError unless `d` is a float dtype.

    >>> pf.set_default_dtype(pf.float64)
    >>> pf.tensor(1.5).dtype
    pyframe.float64
    >>> pf.set_default_dtype(pf.float32)
    """
    if not isinstance(d, dtype) or d.category != FLOAT:
        raise TypeError(f"set_default_dtype: only float dtypes can be the default, got {d}")
    _DEFAULT[0] = d


def of_scalar(value: Any) -> dtype:
    """The dtype that a Python number takes as a tensor of its own."""
    d = _FROM_PYTHON.get(type(value))
    if d is None:
        if isinstance(value, np.generic):
            return dtype.from_numpy(value.dtype)
        for kind in (bool, int, float, complex):
            if isinstance(value, kind):
                d = _FROM_PYTHON[kind]
                break
        else:
            raise TypeError(f"expected a number, got {type(value).__name__}")
    return _DEFAULT[0] if d is float32 else _DEFAULT[0].to_complex() if d is complex64 else d


def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest dtype to which both convert, as torch.promote_types.

    Args:
        a, b: Two dtypes.

    >>> pf.promote_types(pf.int64, pf.float16)
    pyframe.float16
    """
    if a is b:
        return a
    low, high = (a, b) if a.category <= b.category else (b, a)
    if (low in _BARELY or high in _BARELY) and high.category != FLOAT:
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{a.name} and {b.name}; convert one with .to(dtype)"
        )
    if high.category == COMPLEX:
        wide = complex128 in (a, b) or float64 in (a, b)
        return complex128 if wide else complex64
    if low.category != high.category:
        return high
    if high.category == FLOAT:
        return (a if a.itemsize > b.itemsize else b) if a.itemsize != b.itemsize else float32
    return _FROM_NUMPY[np.promote_types(a.numpy, b.numpy)]


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether an in-place result of dtype `from_` may be stored in `to`, as torch.can_cast.

    >>> pf.can_cast(pf.float32, pf.int64), pf.can_cast(pf.int64, pf.float32)
    (False, True)
    """
    return from_.category <= to.category


class Beyond32BitsError(RuntimeError, OverflowError):
    """An int is larger than what the GPU holds."""


def check_32_bits(low: int, high: int) -> None:
    """Beyond32BitsError where not all of int64 low..high are among what the GPU's 32 bits hold."""
    if low < -(2**31) or high >= 2**31:
        raise Beyond32BitsError(
            f"int64 is held in 32 bits on the GPU and {low if low < -(2**31) else high} does not "
            "fit; keep this tensor on the CPU or use float32"
        )


def check_room(*shape: int, itemsize: int = 8) -> None:
    """RuntimeError for a shape that no memory holds, for which NumPy would raise ValueError; where
    a file says what is made, for one that this machine has no memory for."""
    size = math.prod(shape) * itemsize
    if size >= 2**63 or (mode.counts and size > 1 << 26 and size > host_memory.available() * 0.75):
        raise RuntimeError(f"can't allocate memory for a result of shape {list(shape)}")


def wrapped(value: int, d: dtype) -> Any:
    """An int as a NumPy scalar of the int dtype `d`, modulo 2^bits as C converts it."""
    return np.asarray(value & ((1 << 64) - 1), np.uint64).astype(d.numpy)[()]


def of_argument(name: str, value: Any) -> dtype | None:
    """A `dtype=` argument: a dtype, None, or float, int, bool or complex; TypeError otherwise."""
    if value is None or isinstance(value, dtype):
        return value
    if isinstance(value, type) and value in _FROM_PYTHON:
        return {float: float64, complex: complex128}.get(value, _FROM_PYTHON[value])
    seen = value.__name__ if isinstance(value, type) else type(value).__name__
    raise TypeError(
        f"{name}(): argument 'dtype' must be pyframe.dtype, such as pf.float32, not {seen}"
    )


def convert_scalar(value: Any, d: dtype) -> Any:
    """`value` as a NumPy scalar of dtype `d`; RuntimeError where it does not fit."""
    try:
        if isinstance(value, complex) and d.category != COMPLEX:
            if value.imag:
                raise OverflowError
            value = value.real
        if d.category == INTEGER:
            if isinstance(value, float):
                value = int(value)  # OverflowError of inf, ValueError of nan
            if value < 0 and not d.is_signed and -value <= np.iinfo(d.numpy).max:
                return wrapped(value, d)
        elif d.category == FLOAT and np.isinf(found := rounded(value, d)):
            if not np.isinf(value):
                raise OverflowError
            return found
        return d.numpy.type(value)
    except (OverflowError, ValueError):
        raise RuntimeError(
            f"value {value} cannot be converted to {d.name} without overflow"
        ) from None


def rounded(value: Any, d: dtype) -> Any:
    """`value` as a NumPy scalar of dtype `d`, as arithmetic takes it: beyond a float dtype inf."""
    if d.category == FLOAT and isinstance(value, (int, float)) and not abs(value) <= 65504:
        with np.errstate(over="ignore"):
            return d.numpy.type(value)
    return d.numpy.type(value) if d.category == FLOAT else convert_scalar(value, d)


# --- limits of dtypes


class finfo:  # noqa: N801  (PyTorch's name)
    """What a float dtype can hold: bits, eps, max, min, tiny, smallest_normal, resolution.

    Args:
        type: a float or a complex dtype, of whose parts it tells; by default the default dtype.

    >>> pf.finfo(pf.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: dtype | None = None) -> None:
        d = (type or get_default_dtype()).to_real()
        if d.category != FLOAT:
            raise TypeError(
                f"pf.finfo() requires a floating point input type, got {d.name}; use pf.iinfo"
            )
        info: Any = np.finfo(np.float32 if d is bfloat16 else d.numpy)
        self.bits, self.dtype = d.itemsize * 8, d.name
        self.tiny = self.smallest_normal = float(info.tiny)
        if d is bfloat16:
            self.eps, self.max, self.resolution = 2.0**-7, float((2 - 2.0**-7) * 2.0**127), 0.01
        else:
            self.eps, self.max = float(info.eps), float(info.max)
            self.resolution = float(str(info.resolution))
        self.min = -self.max

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        inner = ", ".join(f"{n}={getattr(self, n):g}" for n in names)
        return f"finfo({inner}, dtype={self.dtype})"


class iinfo:  # noqa: N801  (PyTorch's name)
    """What an integer dtype can hold: bits, max, min.

    Args:
        type: an integer dtype.

    >>> pf.iinfo(pf.int8).max
    127
    """

    def __init__(self, type: dtype) -> None:
        if type.category != INTEGER:
            raise TypeError(
                f"pf.iinfo() requires an integer input type, got {type.name}; use pf.finfo"
            )
        info = np.iinfo(type.numpy)
        self.bits, self.min, self.max, self.dtype = info.bits, info.min, info.max, type.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


_STORAGE = {"i32": np.int32, "u32": np.uint32, "bf16": np.uint16}


def storage_dtype(d: dtype) -> np.dtype:
    """The NumPy dtype of a value in a device buffer: of bfloat16 its bits."""
    return np.dtype(_STORAGE.get(d.storage or "", d.numpy))


with np.errstate(invalid="ignore"):
    SATURATES = np.float32(np.inf).astype(np.int64) > 0  # as ARM casts


def to_storage(x: np.ndarray, d: dtype) -> np.ndarray:
    """Values of dtype `d` as they lie in a device buffer."""
    if d is not bfloat16:
        return x.astype(storage_dtype(d), copy=False)
    bits = np.asarray(x, np.float32).view(np.uint32) >> np.uint32(16)
    return (bits | np.isnan(x) * np.uint32(64)).astype(np.uint16)  # a NaN stays one


def from_storage(x: np.ndarray, d: dtype) -> np.ndarray:
    """What lies in a device buffer as values of dtype `d`."""
    if d is not bfloat16:
        return x.astype(d.numpy)
    return (x.astype(np.uint32) << np.uint32(16)).view(d.numpy)
