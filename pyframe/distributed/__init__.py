"""torch.distributed over MPI: processes that an `mpiexec` has started work together.

`mpiexec -n 4 python train.py` starts four; each calls `init_process_group()` (`Model.fit` by
itself) and then the collectives. A process that was started alone is a world of one, in which
all of them work. MPI comes with `mpi4py` (the extra `mpi`), or is that of a cluster.
"""

from __future__ import annotations

import os
import shutil
import socket
import sysconfig
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pyframe.distributed import world as _world
from pyframe.distributed.collectives import (
    GroupMember as GroupMember,
    ReduceOp as ReduceOp,
    all_gather as all_gather,
    all_gather_into_tensor as all_gather_into_tensor,
    all_reduce as all_reduce,
    all_to_all as all_to_all,
    all_to_all_single as all_to_all_single,
    broadcast as broadcast,
    gather as gather,
    group as group,
    group_of,
    reduce as reduce,
    reduce_scatter as reduce_scatter,
    reduce_scatter_tensor as reduce_scatter_tensor,
    scatter as scatter,
)
from pyframe.distributed.messages import (
    P2POp as P2POp,
    all_gather_object as all_gather_object,
    barrier as barrier,
    batch_isend_irecv as batch_isend_irecv,
    broadcast_object_list as broadcast_object_list,
    gather_object as gather_object,
    irecv as irecv,
    isend as isend,
    monitored_barrier as monitored_barrier,
    recv as recv,
    scatter_object_list as scatter_object_list,
    send as send,
)
from pyframe.distributed.world import (
    ProcessGroup as ProcessGroup,
    Work as Work,
    launched as launched,
    stats as stats,
)
from pyframe.ops.api.layouts import texts as _texts

default_pg_timeout = timedelta(seconds=_world.TIMEOUT)
Backend = str  # all are MPI
_BACKENDS = ("mpi", "gloo", "nccl", "ucc", "xccl", "cpu", "cuda", "gpu", "undefined")


def is_available() -> bool:
    """True: a process that was started alone is a world of one."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return _world.world is not None


def is_mpi_available() -> bool:
    """Whether mpi4py is installed."""
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


is_gloo_available = is_nccl_available = is_mpi_available  # programs choose one of them


def mpiexec() -> str | None:
    """Where the program is that starts processes, if there is one."""
    return shutil.which(
        "mpiexec", path=f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ.get('PATH', '')}"
    )


def is_torchelastic_launched() -> bool:
    """False: processes are started by mpiexec."""
    return False


def environ() -> None:
    """Set what torchrun sets (RANK, WORLD_SIZE, LOCAL_RANK …), where mpiexec has started this."""
    found = launched()
    if found is not None:
        local = os.environ.get("MPI_LOCALNRANKS", found["WORLD_SIZE"])
        more = {"LOCAL_WORLD_SIZE": local, "MASTER_ADDR": socket.gethostname(), "MASTER_PORT": 0}
        for name, value in (found | more).items():
            os.environ.setdefault(name, str(value))


def init_process_group(
    backend: str | None = None, init_method: str | None = None,
    timeout: timedelta | None = None, world_size: int = -1, rank: int = -1, store: Any = None,
    group_name: str = "", pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Join the other processes that the same mpiexec has started.

    Any backend of PyTorch's is MPI; how processes find each other is MPI's affair. Work that waits
    longer than `timeout` (30 minutes) for a process raises RuntimeError, which names it.
    RuntimeError where mpi4py is missing, or where `world_size` or torchrun's environment speak of
    processes that no mpiexec has started; ValueError for another backend, or a second call.

    Args:
        backend: A name, or one for each device: "cpu:gloo,cuda:nccl".
        init_method, store, group_name, rank: Nothing is done with them: MPI counts processes.
    """
    for part in (backend or "mpi").lower().split(","):
        if part.partition(":")[0] not in _BACKENDS:
            raise ValueError(f"init_process_group: unknown backend {backend!r}; expected 'mpi'")
    if _world.world is not None:
        raise ValueError("trying to initialize the default process group twice!")
    wanted = world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", 0))
    here = launched()
    if here is None and wanted > 1 and "PMIX_RANK" not in os.environ:
        raise RuntimeError(
            f"init_process_group: {wanted} processes are asked for, and this one was not started "
            "by an mpiexec; start the program as mpiexec -n "
            f"{wanted} python program.py (python -m pyframe launch -n {wanted} program.py)"
        )
    _world.start(timeout)
    size = get_world_size()
    if wanted > 0 and wanted != size:
        destroy_process_group()
        raise RuntimeError(
            f"init_process_group: {wanted} processes are asked for, there are {size}"
        )
    environ()


def destroy_process_group(group: Any = None) -> None:
    """Let a group, or all of them, go.

    Args:
        group: The one that goes; None for all.
    """
    g = None if group is None else group_of(group)
    if g is None or g is _world.world:
        _world.stop()
    else:
        _world.groups.pop(g.name, None)


def new_group(
    ranks: Sequence[int] | None = None, timeout: timedelta | None = None,
    backend: str | None = None, pg_options: Any = None, use_local_synchronization: bool = False,
    group_desc: str | None = None, device_id: Any = None,
) -> Any:  # fmt: skip
    """A group of some processes, by default of all. All processes call it, also those that are not
    in it: they get GroupMember.NON_GROUP_MEMBER.

    Args:
        ranks: The processes, counted among all; None for all.
        timeout: How long its work waits for a process; None is that of `init_process_group`.
        backend, use_local_synchronization, group_desc: Nothing is done with them.
    """
    world = group_of(None)
    assert world is not None
    wanted = [*range(world.size())] if ranks is None else sorted(ranks)
    if len({*wanted}) < len(wanted) or not {*wanted} <= {*range(world.size())}:
        raise RuntimeError(f"new_group: {ranks} are not ranks of {world.size()} processes")
    name = str(next(_world.names))
    patience = world.timeout if timeout is None else _world.seconds(timeout)
    if world.comm is None:
        return ProcessGroup(None, wanted, name, patience)
    Work(world, "new_group", _world.agree(world, f"new_group of {wanted}"), str).wait()
    mine = world.rank in wanted
    comm = world.comm.Split(0 if mine else 1, world.rank)
    return ProcessGroup(comm, wanted, name, patience) if mine else GroupMember.NON_GROUP_MEMBER


def get_rank(group: Any = None) -> int:
    """The number of this process in a group; -1 if it is not in it."""
    g = group_of(group)
    return -1 if g is None else g.rank


def get_world_size(group: Any = None) -> int:
    """How many processes a group has; -1 if this one is not in it."""
    g = group_of(group)
    return -1 if g is None else g.size()


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process among those of its machine.

    Args:
        fallback_rank: What it is where nobody has started several; None for 0.
    """
    found = launched()
    if found is None and "LOCAL_RANK" not in os.environ and fallback_rank is not None:
        return fallback_rank
    return int(os.environ.get("LOCAL_RANK", found["LOCAL_RANK"] if found else 0))


def get_backend(group: Any = None) -> str:
    """'mpi'."""
    group_of(group)
    return "mpi"


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The ranks of a group, as all processes are counted."""
    g = group_of(group)
    return [] if g is None else list(g.ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank among all processes of one of a group.

    Args:
        group_rank: The rank in the group.
    """
    return get_process_group_ranks(group)[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group of one of all processes. ValueError if it is not in it.

    Args:
        global_rank: The rank among all.
    """
    ranks = get_process_group_ranks(group)
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


if _texts:
    _texts.complete_docstrings(globals())
