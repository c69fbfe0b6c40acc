"""What flows between nodes: tensors, NumPy arrays on the host, lists, and None for what is absent.

An array on the host is what is known without asking a device: numbers that decide shapes, and what
tensors have no dtype for (strings, eight bits of float, four of int). An array of dtype object has
sizes that a capture keeps as symbols; it counts as int64, as int32 where it is Narrow, and as float
where it has Ratios.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

import pyframe as pf
from pyframe.core.sizes import is_symbolic_size, statically_divides
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


@functools.total_ordering
class SymbolicFloat:
    """A size that a capture keeps as a symbol, as a float: `top` over a power of two.

    What floats would round is no ratio: it is calculated of the present size, which is pinned.
    """

    __slots__ = ("bottom", "kind", "top")
    LARGEST = {1: 1 << 24, 11: 1 << 53}  # noqa: RUF012  up to where floats have all ints

    def __init__(self, x: Any, kind: int, bottom: int = 1) -> None:
        if x != x:
            raise OverflowError("nan is no ratio")
        self.top: Any
        self.top, self.bottom = x.as_integer_ratio() if isinstance(x, float) else (x, bottom)
        self.kind = kind

    def _made(self, top: Any, bottom: int) -> SymbolicFloat:
        most = self.LARGEST[self.kind]
        if (
            is_symbolic_size(top)
            and bottom & (bottom - 1) == 0
            and bottom < most
            and -most < top < most
        ):
            return SymbolicFloat(top, self.kind, bottom)
        return SymbolicFloat(numpy_dtype(self.kind).type(int(top) / bottom).item(), self.kind)

    def _other(self, x: Any) -> SymbolicFloat:
        return x if isinstance(x, SymbolicFloat) else SymbolicFloat(x, self.kind)

    def __add__(self, other: Any) -> SymbolicFloat:
        b = self._other(other)
        return self._made(self.top * b.bottom + b.top * self.bottom, self.bottom * b.bottom)

    __radd__ = __add__

    def __neg__(self) -> SymbolicFloat:
        return SymbolicFloat(-self.top, self.kind, self.bottom)

    def __sub__(self, other: Any) -> SymbolicFloat:
        return self + -self._other(other)

    def __rsub__(self, other: Any) -> SymbolicFloat:
        return -self + other

    def __mul__(self, other: Any) -> SymbolicFloat:
        b = self._other(other)
        return self._made(self.top * b.top, self.bottom * b.bottom)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SymbolicFloat:
        b = self._other(other)
        top, bottom = self.top * b.bottom, self.bottom * b.top
        if statically_divides(b.top, top):
            return self._made(top // b.top, self.bottom)
        return self._made(-top if bottom < 0 else top, abs(int(bottom)))

    def __rtruediv__(self, other: Any) -> SymbolicFloat:
        return self._other(other) / self

    def __floor__(self) -> Any:
        return self.top // self.bottom

    def __ceil__(self) -> Any:
        return -(-self.top // self.bottom)

    def __trunc__(self) -> Any:
        return self.__floor__() if self.top >= 0 else self.__ceil__()

    def rint(self) -> Any:
        """The nearest int, of two the even one; NumPy calls it so."""
        whole, twice = self.top // self.bottom, 2 * (self.top % self.bottom)
        up = twice > self.bottom or (twice == self.bottom and whole % 2 == 1)
        return whole + 1 if up else whole

    def __abs__(self) -> SymbolicFloat:
        return self if self.top >= 0 else -self

    def __eq__(self, other: object) -> bool:
        return bool((self - other).top == 0)

    def __lt__(self, other: Any) -> bool:
        return bool((self - other).top < 0)

    __hash__ = None  # type: ignore[assignment]

    def __float__(self) -> float:
        return float(self.top / self.bottom)


def type_of(value: Any) -> int:
    """The TensorProto.DataType of a value."""
    if isinstance(value, Tensor):
        return TYPES[value.dtype]
    if value.dtype.kind == "U":
        return STRING
    if value.dtype == object:
        first = next(iter(value.flat), None)
        return (
            first.kind
            if isinstance(first, SymbolicFloat)
            else 6
            if isinstance(value, Narrow)
            else 7
        )
    return _NUMBERS[value.dtype]


def typed(array: np.ndarray, number: int) -> np.ndarray:
    """An array of sizes, some of which are symbols, as what counts as this type."""
    if array.dtype != object:
        return array
    if number not in SymbolicFloat.LARGEST:
        return array.view(Narrow if number == 6 else np.ndarray)
    found = np.empty(array.shape, object)
    found.flat = [
        x if isinstance(x, SymbolicFloat) else SymbolicFloat(x, number) for x in array.flat
    ]
    known = not any(is_symbolic_size(x.top) for x in found.flat)
    return found.astype(numpy_dtype(number)) if known else found


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
        flat = [
            pf.full(
                (),
                n.top / n.bottom if isinstance(n, SymbolicFloat) else n,
                dtype=dtype,
                device=device,
            )
            for n in array.ravel().tolist()
        ]
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


TEXTS = 1 << 27  # bytes of an array that only the host has; each string has the longest's


@functools.cache
def memory() -> int:
    """The bytes of this machine's memory."""
    try:
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # Windows, a page
        return 1 << 34


def see_room(shape: Iterable[Any], itemsize: int, most: int | None = None) -> None:
    """MemoryError, before it is made, for an array of more bytes than `most`: this machine's
    memory if that is None. Sizes that are symbols are left out."""
    size = math.prod(n for n in shape if isinstance(n, int | np.integer)) * itemsize
    if size > (memory() if most is None else most):
        raise MemoryError(f"a result of {size} bytes is too large")


ROUNDS = 1_000_000  # of a loop, after which it is taken for endless


def see_end(rounds: Any, what: str) -> None:
    """ValueError for what is done in Python so often, of sizes that a file gives."""
    if type(rounds) is int and rounds > ROUNDS:
        raise ValueError(f"{rounds} {what}: at most {ROUNDS} are done")


def strings(parts: list[str], shape: Any, like: int = 0) -> np.ndarray:
    """An array of strings. MemoryError if it had more than TEXTS or `like` bytes."""
    see_room([len(parts), max(map(len, parts), default=1)], 4, max(TEXTS, like))
    return np.array(parts, str).reshape(shape)


def size_of(value: Any) -> int:
    """The bytes of a value."""
    if isinstance(value, list):
        return sum(map(size_of, value))
    if isinstance(value, Tensor):
        known = [n for n in value.shape if type(n) is int]
        return math.prod(known) * value.element_size()
    return 0 if value is None else int(value.nbytes)


def boxed(value: Any) -> np.ndarray:
    """What a NumPy function gave as an array; of arrays of symbols it may be a symbol itself."""
    if isinstance(value, np.ndarray | np.generic | int | float) and not is_symbolic_size(value):
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
