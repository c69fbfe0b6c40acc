"""Layouts and memory formats: in which order the dims of a tensor lie in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyframe.core import view as views
from pyframe.core.dtypes import dtype

if TYPE_CHECKING:
    from pyframe.tensor.tensor import Tensor


class layout:  # noqa: N801  (PyTorch's name)
    """How a tensor lies in memory: always `strided`.

    Args:
        name: what it is called.

    >>> pf.zeros(2).layout is pf.strided
    True
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"{dtype.home}.{self._name}"


class memory_format(layout):  # noqa: N801  (PyTorch's name)
    """In which order the dims lie in memory.

    Args:
        name: what it is called.
        order: the dims in memory, the last one changing fastest.

    >>> pf.zeros(1, 3, 4, 4).to(memory_format=pf.channels_last).stride()
    (48, 1, 12, 3)
    """

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


def order_of(format: Any) -> tuple[int, ...]:
    """The order of the dims that a memory format names; TypeError for what is none."""
    if not isinstance(format, memory_format):
        raise TypeError(
            f"argument 'memory_format' must be pyframe.memory_format, not {type(format).__name__}"
        )
    return format.order


def in_format(x: Tensor, format: Any) -> bool:
    """Whether the elements lie in memory as `format` says."""
    if format in (None, contiguous_format, preserve_format):
        return x._is_row_major()
    order = order_of(format)
    if x.ndim != len(order):
        return False
    shape = tuple(x._node.shape[d] for d in order)
    strides = tuple(x.stride(d) for d in order)
    return views.is_contiguous((views.View(shape, strides),))


def layout_of(self: Tensor) -> layout:
    """`pf.strided`, always."""
    return strided


def dim_order(self: Tensor) -> tuple[int, ...]:
    """The dims from the longest stride to the shortest."""
    return tuple(sorted(range(self.ndim), key=lambda d: (-self.stride(d), d)))
