"""Recorded slices with offsets that change from call to call, as batches of a dataset have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyframe.core.node import Node
from pyframe.core.op import CONST, MOVEMENT
from pyframe.core.view import IndexMap, View, contiguous
from pyframe.ops.shape.movement import slice_op

MAX_VIEW_KINDS = 512  # kinds of views whose beginnings are remembered


class Slices:
    """Where slices were seen to begin. A kernel knows where it reads, so each beginning would be a
    Program of its own: a slice that has begun at two places is copied out of its buffer instead."""

    def __init__(self) -> None:
        self._starts: dict[Any, int | None] = {}  # by the kind of view; None: several

    def has_dynamic_offset(self, base: Node, index_map: IndexMap) -> bool:
        """Whether views like this one have been seen to begin at several places."""
        view = index_map[0]
        if len(index_map) > 1 or view.mask:
            return False
        key = base.shape, base.dtype, view.shape, view.strides
        if len(self._starts) > MAX_VIEW_KINDS:
            self._starts.clear()
        if self._starts.setdefault(key, view.offset) == view.offset:
            return False
        self._starts[key] = None
        return True

    def cut(
        self, order: Sequence[Node], roots: Sequence[Node], copy: Callable[[Node, View], Any]
    ) -> list[tuple[Node, Any]]:
        """Let such slices of what is computed already be buffers that `copy(base, view)` makes, for
        one run. Gives their nodes with the inputs that they had, to be put back."""
        movements = [n for n in order if n.data is None and n.op.kind == MOVEMENT]  # type: ignore[union-attr]
        if all(n.op is not slice_op for n in movements):
            return []
        known: dict[int, tuple[Node, IndexMap]] = {}  # of a movement: what it shows, and how
        last: dict[int, list[Node]] = {}  # of a base: the last slices of it
        for n in movements:
            (x,) = n.inputs
            base, index_map = known.get(id(x)) or (x, contiguous(x.shape))
            if base.data is not None and base.op is not CONST:
                known[id(n)] = base, n.op.view(index_map, *n.attrs)  # type: ignore[union-attr, misc]
                if n.op is slice_op:
                    cuts = last.setdefault(id(base), [])
                    cuts[:] = [m for m in cuts if m is not x] + [n]
        out = []
        for cuts in last.values():
            for n in cuts:
                base, index_map = known[id(n)]
                alone = len(cuts) == 1 and all(n is not r for r in roots)
                if self.has_dynamic_offset(base, index_map) and alone:
                    out.append((n, n.inputs))
                    n.data, n.inputs = copy(base, index_map[0]), ()
        return out
