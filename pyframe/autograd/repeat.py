"""A backward pass like one before: what it records depends on the steps alone, so that it is one
subgraph (tensor/subgraph.py), which no step has to run for."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

from pyframe.core.grad_node import GradNode, PackedSavedTensor
from pyframe.core.modes import mode
from pyframe.tensor import Tensor
from pyframe.tensor.subgraph import (
    SubgraphCache,
    SubgraphInputs,
    SubgraphRecorder,
    can_cache_subgraph,
)

_known = SubgraphCache()
_seq = operator.attrgetter("seq")


class CachedBackward:
    """The steps of a backward pass, what they have saved, and the leaves that they lead to."""

    def __init__(self, steps: list[GradNode], leaves: list[Tensor], given: SubgraphInputs) -> None:
        self.steps, self.leaves, self.given = steps, leaves, given
        self.saved: list[tuple[GradNode, int, int]] = []  # which input is which entry of a step
        self.numbers: list[tuple[GradNode, int]] = []  # entries that are numbers
        self.graph, self.notes = _known.get(given)

    def repeated(self, retain: bool) -> list[tuple[Tensor, Tensor]] | None:
        """The leaves with their gradients, if a pass like it was noted before."""
        graph = self.graph
        found = None if graph is None else graph.call(self.given)
        if found is None:
            return None
        if not retain:
            for step in self.steps:
                step.free()
        return [(self.leaves[i], g) for i, g in zip(graph.rest, found, strict=True)]  # type: ignore[union-attr]

    @contextlib.contextmanager
    def subgraph_recorder(self, leaves: dict[int, Tensor], grads: dict[int, Any]) -> Iterator[None]:
        """Within it the steps are run, for these gradients of leaves, and noted."""
        exposed = set(self.given.exposed)
        noting, kept = SubgraphRecorder(self.given), []
        others: list[tuple[GradNode, int, Any]] = [
            (step, j, (noting.tensors[at], 0)) for step, j, at in self.saved if at in exposed
        ]
        others += [(*entry, x) for entry, x in zip(self.numbers, noting.scalars, strict=True)]
        for step, j, entry in others:
            kept.append((step, j, step.saved[j]))  # type: ignore[index]
            step.saved[j] = entry  # type: ignore[index]
        try:
            with noting:
                yield
                found = noting.apart([grads[key] for key in leaves])
        finally:
            for step, j, entry in kept:
                if step.saved is not None:
                    step.saved[j] = entry
        grads.update(zip(leaves, found, strict=True))
        graph = noting.finish(found)
        if graph is not None:
            number = {id(x): i for i, x in enumerate(self.leaves)}
            graph.rest = [number[key] for key in leaves]
        _known.put(self.given, graph)


def match_cached_backward(starts: list[Any], seeds: list[Tensor]) -> CachedBackward | None:
    """A backward pass on the CPU that is recorded as a whole; None for any other."""
    if mode.trace is None or not can_cache_subgraph():
        return None
    steps: list[GradNode] = []
    number: dict[int, int] = {}
    stack = list(starts)
    while stack:
        step = stack.pop()
        if id(step) in number:
            continue
        if type(step) is not GradNode or step.extra is not None or step.saved is None:
            return None
        number[id(step)] = 0
        steps.append(step)
        stack += [e for e in step.edges if isinstance(e, GradNode)]
    steps.sort(key=_seq, reverse=True)
    for i, step in enumerate(steps):
        number[id(step)] = i
    given = SubgraphInputs()
    kinds = given.kinds
    for start, seed in zip(starts, seeds, strict=True):
        kinds += (number[id(start)], given.add(seed))
    if not all(x is not None for x in kinds):
        return None
    leaves: list[Tensor] = []
    saved: list[tuple[GradNode, int, int]] = []
    numbers: list[tuple[GradNode, int]] = []
    for step in steps:
        kinds += (step.op, step.attrs, *step.specs)
        for e in step.edges:
            at = None
            if e is not None:
                at = number.get(id(e))
                if at is None:
                    if e._view_chain:
                        return None
                    at = number[id(e)] = ~len(leaves)
                    leaves.append(e)
            kinds.append(at)
        for j, entry in enumerate(step.saved):  # type: ignore[arg-type]
            if entry is None:
                continue
            if type(entry) is tuple:
                x, version = entry
                at = given.add(x) if x._storage.version == version else None
                if at is None:
                    return None
                saved.append((step, j, at))
                kinds += (j, at)
            elif type(entry) is float:
                given.scalars.append(entry)
                numbers.append((step, j))
                kinds += (j, float)
            elif type(entry) is PackedSavedTensor:
                return None
            else:
                kinds += (j, type(entry), entry or repr(entry))
    if not given.wide:
        return None
    out = CachedBackward(steps, leaves, given)
    out.saved, out.numbers = saved, numbers
    return out
