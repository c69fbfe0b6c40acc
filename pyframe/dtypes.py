"""Data types: one table with what NumPy and WGSL call each, and PyTorch's promotion rules."""

from __future__ import annotations

from typing import Any

import numpy as np

BOOL, INTEGER, FLOAT = 0, 1, 2


class dtype:  # noqa: N801  (PyTorch's name)
    """The element type of a tensor.

    `storage` and `compute` are the WGSL types that hold it in a buffer and in a register
    (None: the GPU lacks it); `wrap` narrows a computed value back to the type's range.
    """

    __slots__ = ("category", "compute", "itemsize", "name", "numpy", "storage", "wrap")

    def __init__(
        self,
        name: str,
        category: int,
        storage: str | None,
        compute: str | None = None,
        wrap: str = "",
    ) -> None:
        self.name = name
        self.numpy = np.dtype(name)
        self.category = category
        self.storage = storage
        self.compute = compute or storage
        self.wrap = wrap
        self.itemsize = self.numpy.itemsize

    @property
    def is_floating_point(self) -> bool:
        return self.category == FLOAT

    @property
    def is_complex(self) -> bool:
        return False

    @property
    def is_signed(self) -> bool:
        return self.numpy.kind in "if"

    @property
    def device_itemsize(self) -> int:
        """Bytes of one element in a GPU buffer (everything but float16 takes 4)."""
        return 2 if self.storage == "f16" else 4

    @staticmethod
    def from_numpy(numpy_dtype: Any) -> dtype:
        """The dtype of a NumPy dtype; TypeError if pyframe has none for it."""
        try:
            return _FROM_NUMPY[np.dtype(numpy_dtype)]
        except KeyError:
            raise TypeError(
                f"can't convert np.ndarray of type {numpy_dtype}: pyframe has "
                f"{', '.join(d.name for d in ALL)}; convert it with .astype first"
            ) from None

    def __repr__(self) -> str:
        return f"pyframe.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    def __deepcopy__(self, memo: dict[int, Any]) -> dtype:
        return self


float32 = dtype("float32", FLOAT, "f32")
float16 = dtype("float16", FLOAT, "f16", compute="f32")
float64 = dtype("float64", FLOAT, None)
int64 = dtype("int64", INTEGER, "i32")  # 32 bits on the GPU: every upload is checked
int32 = dtype("int32", INTEGER, "i32")
int16 = dtype("int16", INTEGER, "i32", wrap="(({x} << 16u) >> 16u)")
int8 = dtype("int8", INTEGER, "i32", wrap="(({x} << 24u) >> 24u)")
uint8 = dtype("uint8", INTEGER, "u32", wrap="({x} & 255u)")
uint32 = dtype("uint32", INTEGER, "u32")
bool_ = dtype("bool", BOOL, "u32", compute="bool")

ALL = (float32, float64, float16, int64, int32, int16, int8, uint8, uint32, bool_)
_FROM_NUMPY = {d.numpy: d for d in ALL}
_FROM_PYTHON = {bool: bool_, int: int64, float: float32}
_DEFAULT = [float32]


def get_default_dtype() -> dtype:
    """The float dtype that Python floats take (float32 unless changed)."""
    return _DEFAULT[0]


def set_default_dtype(d: dtype) -> None:
    """Set the float dtype of new tensors; TypeError unless `d` is a float dtype."""
    if not isinstance(d, dtype) or d.category != FLOAT:
        raise TypeError(f"set_default_dtype: only float dtypes can be the default, got {d}")
    _DEFAULT[0] = d


def from_numpy_fast(numpy_dtype: np.dtype[Any]) -> dtype:
    return _FROM_NUMPY[numpy_dtype]


def of_scalar(value: Any) -> dtype:
    """The dtype that a Python number takes as a tensor of its own."""
    d = _FROM_PYTHON.get(type(value))
    if d is None:
        if isinstance(value, np.generic):
            return dtype.from_numpy(value.dtype)
        d = bool_ if isinstance(value, bool) else int64 if isinstance(value, int) else float32
    return _DEFAULT[0] if d is float32 else d


def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest dtype to which both convert, as torch.promote_types."""
    if a is b:
        return a
    if a.category != b.category:
        return a if a.category > b.category else b
    if a.category == FLOAT:
        return a if a.itemsize > b.itemsize else b
    return _FROM_NUMPY[np.promote_types(a.numpy, b.numpy)]


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether an in-place result of dtype `from_` may be stored in `to`, as torch.can_cast."""
    return from_.category <= to.category


def convert_scalar(value: Any, d: dtype) -> Any:
    """`value` as a NumPy scalar of dtype `d`; RuntimeError where it does not fit."""
    try:
        return d.numpy.type(value)
    except OverflowError:
        raise RuntimeError(
            f"value {value} cannot be converted to {d.name} without overflow"
        ) from None
