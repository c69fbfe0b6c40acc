"""GPU captures with steps on the host, such as collectives: the capture is split into Programs, and
between two of them the host reads a value, works with it, and puts the result back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyframe.capture.capture import Capture, host_result
from pyframe.capture.executable import DeviceExecutable
from pyframe.core.node import Node, Storage, toposort
from pyframe.core.op import CONST


class HostStep:
    """What the host computes between two Programs; stands among Executables."""

    program = None
    fresh = fixed = states = arguments = ()

    def __init__(self, node: Node, shown: Sequence[Storage]) -> None:
        """`shown` are the storages whose value it is."""
        self.node, self.shown, self.device = node, shown, node.device
        self.operand: Node = node.inputs[0]
        self.data: Any = None

    def ready(self) -> bool:
        """What it reads is computed before it."""
        return True

    def run(self, args: Any) -> list[Any]:
        """Read, work, and put the result where it was put first."""
        new = host_result(self.node, self.operand)
        if self.data is None:
            self.data = new
        else:
            self.device.executor.copy(self.data, new, self.data.nbytes)
        n = self.node
        for s in self.shown:
            if s.node is not n and s.node.data is not self.data:
                s.node = Node(None, (), (), n.shape, n.dtype, n.device, self.data)
        return []

    def settle(self, data: Any) -> None:
        """Give the captured tensors what the first run computed."""
        self.node.data, self.node.inputs = self.data, ()


def split_at_host_ops(
    capture: Capture, roots: list[Storage], works: list[Node], argument_of: Any,
    fresh: set[Storage],
) -> Iterator[Any]:  # fmt: skip
    """The Executables of a GPU, and between them the host's `works`. Each has to be run and settled
    before the next is asked for."""
    _unshare(capture, roots, argument_of)
    for s in roots:  # what each call gives anew is a copy
        if s in fresh and s.node in works:
            capture.copy(s)
    order = toposort([s.node for s in roots])
    level: dict[Node, int] = {}
    for n in order:
        inputs = n.inputs if n.data is None else ()
        level[n] = max([level[i] for i in inputs], default=0) + (n in works)
    users: dict[Node, int] = {}  # what is needed late alone is computed late
    for n in reversed(order):
        if n.data is None and n not in works:
            level[n] = max(level[n], users.get(n, level[n]))
        for i in n.inputs if n.data is None else ():
            users[i] = min(users.get(i, level[n] - (n in works)), level[n] - (n in works))
    kept: list[Storage] = []  # values that later Programs read
    made = {s.node for s in roots}
    for n in order:
        for i in n.inputs if n.data is None else ():
            later = level[n] > level[i] or n in works
            if later and i.data is None and i not in works and i.op is not CONST and i not in made:
                kept.append(Storage(i))
                made.add(i)
    _keep_old(capture, roots, order, level, kept)
    built: list[DeviceExecutable] = []
    for k in range(max(level.values()) + 1):
        for w in [w for w in works if level[w] == k]:
            yield HostStep(w, [s for s in roots if s.node is w])
        mine = [s for s in [*roots, *kept] if level[s.node] == k and s.node not in works]
        if mine:
            new = DeviceExecutable(capture, mine, argument_of, fresh)
            for e in built:
                e.rebind()
            built.append(new)
            yield new
        capture.pinned |= {s.node for s in mine} | {w for w in works if level[w] == k}


def _unshare(capture: Capture, roots: list[Storage], argument_of: Any) -> None:
    """Values that are written over and held by others too: the Programs have copies, all the same
    ones."""
    device, own = roots[0].node.device, {}
    for s, n in capture.replaced():
        if n.shared and n.device is device and n not in argument_of and n not in own:
            data = device.executor.alloc(n.data.nbytes)
            device.executor.copy(data, n.data, n.data.nbytes)
            own[n] = Node(None, (), (), n.shape, n.dtype, n.device, data)
            capture.written[id(s)] = s, own[n]
    for n in toposort([s.node for s in roots]) if own else ():
        if n.data is None:
            n.inputs = tuple([own.get(i, i) for i in n.inputs])


def _keep_old(
    capture: Capture, roots: list[Storage], order: list[Node], level: dict[Node, int],
    kept: list[Storage],
) -> None:  # fmt: skip
    """Copy each value that one Program overwrites before a later one reads it."""
    from pyframe.core.op import REGISTRY

    before = dict(capture.replaced())
    for s in roots:
        old = before.get(s)
        if old is None or old not in level:
            continue
        late = [n for n in order if n.data is None and old in n.inputs and level[n] > level[s.node]]
        if late:
            copy = Node(REGISTRY["copy"], (old,), (), old.shape, old.dtype, old.device)
            level[copy] = level[s.node]
            kept.append(Storage(copy))
            for n in late:
                n.inputs = tuple([copy if i is old else i for i in n.inputs])
