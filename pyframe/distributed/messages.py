"""Messages from one process to another, objects, and barriers."""

from __future__ import annotations

import pickle
import time
from datetime import timedelta
from typing import Any

import numpy as np

from pyframe.core.modes import mode
from pyframe.distributed import world as _world
from pyframe.distributed.collectives import (
    Async,
    begun,
    check,
    fill,
    for_members,
    host,
    nothing,
    raw,
    root_of,
    same,
)
from pyframe.distributed.world import ProcessGroup, Steps, Work, agree, objects, stats
from pyframe.tensor import Tensor


def _peer(g: ProcessGroup, rank: int | None, group_rank: int | None) -> int:
    peer = root_of(g, rank, group_rank)
    if peer == g.rank:
        raise ValueError(
            "Invalid destination rank: a process can't send to, or receive from, itself"
        )
    return peer


def _head(x: Tensor) -> np.ndarray:
    """What is said of a message before it: a hash of its dtype, and its size."""
    return np.array([*x.dtype.name.encode().ljust(16)[:16], x.numel()], np.int64)


def _send(g: ProcessGroup, x: np.ndarray, head: np.ndarray, dst: int, tag: int) -> Steps:
    first, second = g.heads.Isend(head, dst, tag), g.mail.Isend(raw(x), dst, tag)
    stats["send"] += 1
    stats["bytes"] += x.nbytes
    yield first
    yield second


def _receive(g: ProcessGroup, x: Tensor, src: int | None, tag: int) -> Steps:
    mpi: Any = _world.world.mpi  # type: ignore[union-attr]
    out = np.empty(tuple(x.shape), x.dtype.numpy)
    head, status = np.empty(17, np.int64), mpi.Status()
    source = mpi.ANY_SOURCE if src is None else src
    first = g.heads.Irecv(head, source, tag)
    second = None if src is None else g.mail.Irecv(raw(out), src, tag)
    while not first.Test(status):
        yield _Later()
    source = status.source
    if not np.array_equal(head, _head(x)):
        if second is not None:
            second.Cancel()
        name = bytes(head[:16].astype(np.uint8)).decode().strip()
        raise RuntimeError(
            f"recv: rank {g.ranks[source]} sends {int(head[16])} elements of {name}, and rank "
            f"{g.ranks[g.rank]} expects {x.numel()} of {x.dtype.name}"
        )
    yield g.mail.Irecv(raw(out), source, tag) if second is None else second
    return out, source


class _Later:
    """Stands where a request is looked at by the generator itself: it is over the second time."""

    def __init__(self) -> None:
        self.looked = False

    def Test(self) -> bool:  # noqa: N802
        looked, self.looked = self.looked, True
        return looked


def _posted(
    send: bool, x: Tensor, rank: int | None, group: Any, tag: int, group_rank: int | None,
    async_op: bool,
) -> Work | None:  # fmt: skip
    name, g = "send" if send else "recv", group
    check(name, x)
    if g.comm is None:
        raise ValueError(f"distributed.{name}: there is no other process")
    if send or rank is not None or group_rank is not None:
        peer = _peer(g, rank, group_rank)
    else:
        peer = -1
    if send:
        return begun(g, name, _send(g, host(x), _head(x), peer, tag), same, async_op, peer)

    def finish(got: Any) -> Tensor:
        fill(x, got[0])
        x.__dict__["_sender"] = g.ranks[got[1]]
        return x

    steps = _receive(g, x, None if peer < 0 else peer, tag)
    return begun(g, name, steps, finish, async_op, peer if peer >= 0 else g.size())


@for_members
def send(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Send a tensor to the process `dst`.

    Args:
        tensor: What is sent.
    """
    _posted(True, tensor, dst, group, tag, group_dst, False)


@for_members
def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Begin to send a tensor.

    Args:
        tensor: What is sent.
    """
    return _posted(True, tensor, dst, group, tag, group_dst, True)


@for_members
def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> int:  # fmt: skip
    """Receive a tensor of this shape and dtype from `src`, or from anyone; gives from whom.

    Args:
        tensor: Overwritten with what comes.
    """
    _posted(False, tensor, src, group, tag, group_src, False)
    return int(tensor.__dict__.pop("_sender"))


@for_members
def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Begin to receive a tensor.

    Args:
        tensor: Overwritten with what comes.
        src: From whom; None for anyone.
    """
    return _posted(False, tensor, src, group, tag, group_src, True)


class P2POp:
    """isend or irecv with its arguments, for `batch_isend_irecv`.

    Args:
        op: `isend` or `irecv`; ValueError otherwise.
        tensor: What is sent, or overwritten.
        peer: The other process, counted among all.
    """

    def __init__(
        self, op: Any, tensor: Tensor, peer: int | None = None, group: Any = None, tag: int = 0,
        group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be isend or irecv")
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin all of them.

    Args:
        p2p_op_list: What to begin, in this order.
    """
    return [p.op(p.tensor, p.peer, p.group, p.tag, p.group_peer) for p in p2p_op_list]


# --- objects, and waiting for each other


def _objects(name: str, given: Any, g: ProcessGroup) -> list[Any]:
    """What all processes give. They agree on `name` before."""
    if g.comm is None:
        return [pickle.loads(pickle.dumps(given))]

    def steps() -> Steps:
        yield from agree(g, name)
        return (yield from objects(g, given))

    found: list[Any] = []
    begun(g, name, steps(), found.extend, False)
    return found


@for_members
def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Fill the list with the objects of all processes.

    Args:
        object_list: Whose elements become the objects.
        obj: This process's, which pickle can write.
    """
    object_list[:] = _objects("all_gather_object", obj, group)


@for_members
def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None,
    group: Any = None, group_dst: int | None = None,
) -> None:  # fmt: skip
    """As all_gather_object, on the process `dst` alone.

    Args:
        obj: This process's, which pickle can write.
        object_gather_list: There the list to fill.
    """
    found = _objects("gather_object", obj, group)
    if group.rank == root_of(group, dst, group_dst) and object_gather_list is not None:
        object_gather_list[:] = found


@for_members
def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """Fill the list with that of the process `src`.

    Args:
        object_list: What is sent, or becomes it.
        device: Nothing is done with it.
    """
    root = root_of(group, src, group_src)
    found = _objects("broadcast_object_list", object_list if group.rank == root else None, group)
    object_list[:] = found[root]


@for_members
def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
    src: int | None = None, group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Put that object of the list of process `src` which is for this one into the first list.

    Args:
        scatter_object_output_list: A list of at least one element.
        scatter_object_input_list: On `src` an object for each process.
    """
    root = root_of(group, src, group_src)
    given = scatter_object_input_list if group.rank == root else None
    found = _objects("scatter_object_list", given, group)
    scatter_object_output_list[0] = found[root][group.rank]


@for_members
def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Async:
    """Wait until all processes are here.

    Args:
        device_ids: Nothing is done with it.
    """
    steps = nothing() if group.comm is None else agree(group, "barrier")
    return begun(group, "barrier", steps, same, async_op)


@for_members
def monitored_barrier(
    group: Any = None, timeout: timedelta | float | None = None, wait_all_ranks: bool = False
) -> None:
    """A barrier of which the first process knows who came. RuntimeError names who did not within
    `timeout`: the first such process, or with `wait_all_ranks` all."""
    if group.comm is None:
        return
    if mode.capture is not None:
        mode.capture.graph_break("calls distributed.monitored_barrier")
    patience = group.timeout if timeout is None else _world.seconds(timeout)
    word, tag = np.zeros(1, np.int64), 32000
    if group.rank:
        group.heads.Isend(word, 0, tag)
        try:
            Work(group, "monitored_barrier", _one(group.heads.Irecv(word, 0, tag)), same, 0).wait(
                patience
            )
        except RuntimeError:
            raise RuntimeError(
                f"Rank {group.ranks[group.rank]} successfully reached monitoredBarrier, but "
                f"received errors while waiting for send/recv from rank {group.ranks[0]}. Please "
                f"check rank {group.ranks[0]} logs for faulty rank."
            ) from None
        return
    waited = {r: group.heads.Irecv(np.empty(1, np.int64), r, tag) for r in range(1, group.size())}
    end = time.monotonic() + patience
    while waited and time.monotonic() < end:
        waited = {r: x for r, x in waited.items() if not x.Test()}
        time.sleep(0.0005)
    if waited:
        late = [group.ranks[r] for r in waited][: None if wait_all_ranks else 1]
        raise RuntimeError(
            f"[Rank {group.ranks[0]}]: {_world.ranked(late).capitalize()} failed to pass "
            f"monitoredBarrier in {patience * 1000:.0f} ms"
        )
    for r in range(1, group.size()):
        group.heads.Send(word, r, tag)


def _one(request: Any) -> Steps:
    yield request
