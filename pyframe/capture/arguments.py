"""Call signatures. Two calls share captures if theirs are equal: the structure, dtypes, shapes and
layouts of the arguments, and the modes of the thread."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pyframe.core import dtypes as dt
from pyframe.core.devices import device as Device, get_default_device
from pyframe.core.modes import mode
from pyframe.core.node import Size
from pyframe.core.objects import reference
from pyframe.core.view import is_contiguous
from pyframe.tensor import Tensor


class CallSignature(NamedTuple):
    """The kind of a call."""

    picture: tuple[Any, ...]  # all but its numbers
    numbers: tuple[Any, ...]  # its numbers, with None for each one that replays are given


def flatten_argument(value: Any, tensors: list[Tensor], numbers: list[Any]) -> Any:
    """A hashable picture of an argument. Its tensors and its numbers are collected in order.

    TypeError for what could change without being noticed."""
    if isinstance(value, Tensor):
        tensors.append(value)
        n = value._node
        if not value._view_chain:
            return n.shape, n.dtype, n.device, value.requires_grad
        return n.shape, n.dtype, n.device, value.requires_grad, _layout(value)
    if type(value) in (int, float):
        numbers.append(value)
        return type(value)
    if isinstance(value, float):
        return type(value), value.hex()  # 0.0 and -0.0 are equal
    if value is None or isinstance(value, (int, str, bytes, dt.dtype, Device)):
        return type(value), value
    if isinstance(value, tuple):
        return type(value), *[flatten_argument(v, tensors, numbers) for v in value]
    if isinstance(value, (list, dict)):  # what is in them can't be dynamic: they may be written to
        inside: list[Any] = []
        items = value.items() if isinstance(value, dict) else enumerate(value)
        picture = [(k, flatten_argument(v, tensors, inside)) for k, v in items]
        return type(value), *picture, *[(type(n), exact(n)) for n in inside]
    if isinstance(value, (set, np.ndarray, np.generic)):
        raise TypeError(f"an argument is a {type(value).__name__}; make it a tensor")
    return _Identity(value)


def modes() -> tuple[Any, ...]:
    """The modes and defaults of this thread that decide what a function computes."""
    casting = None if mode.autocast is None else mode.autocast.key
    return (
        mode.grad, mode.inference, mode.training is None, casting, dt.get_default_dtype(),
        get_default_device(), Device.current,
    )  # fmt: skip


def shared_memory(tensors: list[Tensor]) -> list[Any]:
    """Which of the tensors share memory; nothing where none do, as in most calls."""
    ids = [id(x._storage) for x in tensors]
    return [repr([ids.index(i) for i in ids])] if len(set(ids)) < len(ids) else []


def exact(number: Any) -> Any:
    """What is equal for the same number alone, as 0.0 and -0.0 are not."""
    return number.hex() if type(number) is float else number


class _Identity:
    """Equal only for the same object, which it does not keep alive if it can do without."""

    __slots__ = ("hash", "ref")

    def __init__(self, value: Any) -> None:
        self.hash, self.ref = id(value), reference(value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Identity):
            return False
        mine = self.ref()
        return mine is not None and other.ref() is mine

    def __hash__(self) -> int:
        return self.hash


def erase_sizes(picture: Any) -> Any:
    """The structure without sizes: equal for tensors of any size with the same layout."""
    if type(picture) is Size:
        return len(picture)
    if type(picture) is Strides:
        return "with steps"
    if type(picture) is not tuple:
        return picture
    if picture and type(picture[-1]) is Strides and picture[-1].in_a_row and not picture[-2]:
        picture = picture[:-1]  # as a tensor that is no view, where no history is looked at
    return tuple(map(erase_sizes, picture))


class Strides(tuple[int, ...]):
    """Those of a view on the CPU, in bytes; or of one that lies in a row."""

    in_a_row = False


# --- views


def _layout(x: Tensor) -> Any:
    """How a view lies in memory, but for where it begins."""
    if x._node.data is not None and not x.device.is_lazy:
        data = x._node.data
        out = Strides(data.strides)
        out.in_a_row = data.flags.c_contiguous
        return out
    if not _is_plain(x):
        return part_of_memory(x)
    (view,) = x._index_map()
    if not is_contiguous((view._replace(offset=0),)):
        return view.strides
    in_a_row = Strides(view.strides)
    in_a_row.in_a_row = True
    return in_a_row


def _is_plain(x: Tensor) -> bool:
    """Whether strides say which elements of its memory a view shows, and not parts of them."""
    index_map = x._index_map()
    whole = x.dtype is x._storage.node.dtype
    return whole and len(index_map) == 1 and index_map[0].mask is None


def part_of_memory(x: Tensor) -> Any:
    """Which part of its memory a view is."""
    return x._storage.node.shape, x._view_chain


def is_copied(x: Tensor) -> bool:
    """Whether a replay is given a copy of a view's elements; on the CPU they are there."""
    return bool(x._view_chain) and x.device.is_lazy and _is_plain(x)
