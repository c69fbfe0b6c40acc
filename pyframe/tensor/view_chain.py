"""Views: the chain of movement ops that cuts one from its memory, and what autograd minds of it.

The functions are methods of Tensor, which names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pyframe.core import view as views
from pyframe.core.dispatch import apply
from pyframe.core.modes import mode
from pyframe.core.node import Node, is_array
from pyframe.core.op import Op, PermutedLayout

if TYPE_CHECKING:
    from pyframe.tensor.tensor import Tensor

# How a view was cut from the memory: movement ops with their attributes, applied one by one
ViewChain = tuple[tuple[Op, tuple[Any, ...]], ...]


class Creation(NamedTuple):
    """Creation metadata: how a tensor was made, where autograd can't or shall not follow a write
    to it."""

    # Why it can't: a sentence, or the function of which it is the result of this number
    why: str | tuple[str, int] | None
    version: int  # of the memory at that time: such a view may be used until it is written to
    hidden: bool  # made by `.data`: writes are not to be seen

    def __str__(self) -> str:
        if not isinstance(self.why, tuple):
            return str(self.why)
        name, number = self.why
        return (
            f"Output {number} of {name} is a view. This view is the output of a function that "
            "returns multiple views. Such functions do not allow the output views to be modified "
            "inplace"
        )


BY_DATA = Creation(None, 0, hidden=True)


def set_view_of(self: Tensor, x: Tensor, op: Op, attrs: tuple[Any, ...]) -> None:
    """Become the view of `x` that `op` with `attrs` cuts."""
    self._storage = x._storage
    chain = (*x._view_chain, (op, attrs))
    self._view_chain = (
        PermutedLayout(chain)
        if op.changes_order or type(x._view_chain) is PermutedLayout
        else chain
    )
    self._view_version = x._storage.writes
    self._base = base = x._base if x._base is not None else x
    self._base_fn, self._creation = base._grad_fn, x._creation
    if not mode.grad:
        refuse_in_mode(self)
    if mode.capture is not None:
        x._alias_changed()
        self._alias_changed()


def apply_view_chain(x: Tensor, chain: ViewChain) -> Tensor:
    """The view of `x` that a chain cuts."""
    for op, attrs in chain:
        x = apply(op, (x,), attrs)
    return x


def cut_array(array: np.ndarray, chain: ViewChain) -> np.ndarray:
    """The view of an array that a chain cuts."""
    for op, attrs in chain:
        array = op.numpy(array, *attrs)  # type: ignore[misc]
    return array


def refuse_writes(self: Tensor, why: str | tuple[str, int]) -> None:
    """Let no gradient follow a write to this view, or one that changes it: see `Creation`."""
    before = self._creation
    self._creation = Creation(why, self._storage.version, before is not None and before.hidden)


def refuse_in_mode(self: Tensor) -> None:
    """Refuse writes to a view that is made while no gradients are recorded. Of a base without
    history PyTorch does so too; but many ops give a view of what they made."""
    if self._base is not None and self._base.requires_grad:
        why = "inference mode" if mode.inference else "no_grad mode"
        refuse_writes(self, f"A view was created in {why}. This is ambiguous")


def restriction(self: Tensor) -> Creation | None:
    """The creation metadata of this tensor if, by it, no gradient may follow a write; else None."""
    found = self._creation
    return None if found is None or found.why is None else found


def check_unwritten(self: Tensor) -> None:
    """RuntimeError if the memory was written to since this view was made, and no gradient may
    follow that."""
    why = restriction(self)
    if why is not None and self._storage.version != why.version:
        raise RuntimeError(
            f"{why}, and its base or another view of its base has been modified "
            "inplace with grad mode enabled: make the view after the write, or clone() it"
        )


def show_writes(self: Tensor) -> None:
    """Let autograd see what is written to this tensor from now on, even if `.data` made it."""
    if self._creation is not None and self._creation.hidden:
        why = self._creation._replace(hidden=False)
        self._creation = why if why.why is not None else None


def index_map(self: Tensor) -> views.IndexMap:
    """How this tensor lies in its storage."""
    t = views.contiguous(self._storage.node.shape)
    for op, attrs in self._view_chain:
        t = op.view(t, *attrs)  # type: ignore[misc]
    return t


def is_row_major(self: Tensor) -> bool:
    """Whether the elements lie one after the other in memory, in row-major order."""
    if is_array(self._node):
        return bool(self._node.data.flags.c_contiguous)
    if not self._view_chain:
        return True
    t = index_map(self)
    return views.is_contiguous(t if len(t) > 1 else (t[0]._replace(offset=0),))


def chain_from(self: Tensor, base: Tensor) -> ViewChain | None:
    """The chain from `base`, which may have become another view of the memory since, to this view
    of it; None if it became a part of the memory."""
    mine, its = self._view_chain, base._view_chain
    if mine[: len(its)] == its:
        return mine[len(its) :]
    back = invert_view_chain(self._storage.node, its)
    return None if back is None else back + mine


def invert_view_chain(node: Node, chain: ViewChain) -> ViewChain | None:
    """The chain from the view that `chain` cuts of `node` back to all of it; None where it shows
    only a part."""
    back: ViewChain = ()
    for op, attrs in chain:
        if op.undo is None:
            return None
        back = ((op, op.undo(node, *attrs)), *back)
        shape, dtype = op.infer(node, *attrs)  # type: ignore[misc]
        node = Node(op, (), attrs, shape, dtype, node.device)
    return back
