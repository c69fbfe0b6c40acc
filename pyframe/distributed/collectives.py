"""What the processes of a group do together with tensors, under the names of torch.distributed.

A collective is a function of arrays, a row of `_STEPS`. It is called at once; within a capture it
is the op `collective`, which a replay calls in its place among the others.
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from pyframe.codegen.numpy.threads import Stage
from pyframe.core import dispatch
from pyframe.core.devices import cpu
from pyframe.core.dtypes import COMPLEX, FLOAT, dtype as DType
from pyframe.core.modes import mode, no_grad
from pyframe.core.node import Node
from pyframe.core.op import EXTERN, Op
from pyframe.distributed import world as _world
from pyframe.distributed.world import ProcessGroup, Steps, Work, agree, groups, objects, stats
from pyframe.tensor import Tensor

Async = Work | None


class ReduceOp(enum.Enum):
    """How the values of the processes become one."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = "sum avg product min max band bor bxor".split()


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # PyTorch's name of the members' type


_MPI = {
    ReduceOp.SUM: "SUM", ReduceOp.AVG: "SUM", ReduceOp.PRODUCT: "PROD", ReduceOp.MIN: "MIN",
    ReduceOp.MAX: "MAX", ReduceOp.BAND: "BAND", ReduceOp.BOR: "BOR", ReduceOp.BXOR: "BXOR",
}  # fmt: skip
_OF_BOOLS = _MPI | {  # as PyTorch counts them: a sum is true where one is
    ReduceOp.SUM: "MAX", ReduceOp.AVG: "MAX", ReduceOp.PRODUCT: "MIN",
}  # fmt: skip


# --- of arrays: each process gives `x`, and gets a new array


def _reduction(x: np.ndarray, op: ReduceOp) -> tuple[np.ndarray, Any]:
    """What is given to MPI: it has no float16, and bools are numbers to it."""
    names = _OF_BOOLS if x.dtype == np.bool_ else _MPI
    wide = x.view(np.uint8) if x.dtype == np.bool_ else x
    wide = x.astype(np.float32) if x.dtype == np.float16 else wide
    return wide, getattr(_world.world.mpi, names[op])  # type: ignore[union-attr]


def _reduced(out: np.ndarray, x: np.ndarray, op: ReduceOp, n: int) -> np.ndarray:
    if op is ReduceOp.AVG and x.dtype != np.bool_:
        divide: Any = np.true_divide if out.dtype.kind in "fc" else np.floor_divide
        divide(out, np.array(n, out.dtype), out=out)
    return out.view(np.bool_) if x.dtype == np.bool_ else out.astype(x.dtype, copy=False)


def _all_reduce(g: ProcessGroup, x: np.ndarray, op: Any, root: int, into: Any = None) -> Steps:
    wide, how = _reduction(x, op)
    out = np.empty_like(wide) if into is None or wide is not x else into
    yield g.comm.Iallreduce(wide, out, how)
    return _reduced(out, x, op, g.size())


def _reduce(g: ProcessGroup, x: np.ndarray, op: Any, root: int) -> Steps:
    wide, how = _reduction(x, op)
    out = np.empty_like(wide)
    yield g.comm.Ireduce(wide, out, how, root)
    return _reduced(out, x, op, g.size()) if g.rank == root else x.copy()


def _reduce_scatter(g: ProcessGroup, x: np.ndarray, op: Any, root: int) -> Steps:
    wide, how = _reduction(x, op)
    out = np.empty_like(wide[0])
    yield g.comm.Ireduce_scatter_block(wide, out, how)
    return _reduced(out, x, op, g.size())


def _broadcast(g: ProcessGroup, x: np.ndarray, op: Any, root: int) -> Steps:
    out = x.copy()
    yield g.comm.Ibcast(raw(out), root)
    return out


def _all_gather(g: ProcessGroup, x: np.ndarray, op: Any, root: int) -> Steps:
    out = np.empty((g.size(), *x.shape), x.dtype)
    yield g.comm.Iallgather(raw(x), raw(out))
    return out


def _gather(g: ProcessGroup, x: np.ndarray, op: Any, root: int) -> Steps:
    out = np.empty((g.size(), *x.shape), x.dtype) if g.rank == root else x[None]
    yield g.comm.Igather(raw(x), raw(out) if g.rank == root else None, root)
    return out


def _scatter(g: ProcessGroup, x: np.ndarray, op: Any, root: int) -> Steps:
    out = np.empty_like(x[0])  # other processes give one piece, for its shape
    yield g.comm.Iscatter(raw(x) if g.rank == root else None, raw(out), root)
    return out


def _all_to_all(g: ProcessGroup, x: np.ndarray, op: Any, root: int) -> Steps:
    out = np.empty_like(x)
    yield g.comm.Ialltoall(raw(x), raw(out))
    return out


def raw(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1).view(np.uint8)


_STEPS: dict[str, Callable[[ProcessGroup, np.ndarray, Any, int], Steps]] = {
    fn.__name__[1:]: fn
    for fn in (
        _all_reduce, _reduce, _reduce_scatter, _broadcast, _all_gather, _gather, _scatter,
        _all_to_all,
    )
}  # fmt: skip
_GATHERS, _SPREADS = ("all_gather", "gather"), ("reduce_scatter", "scatter")


def _steps(g: ProcessGroup, kind: str, x: np.ndarray, op: Any, root: int, text: str) -> Steps:
    """A collective, once all agree on it; that of one process alone is done."""
    if g.comm is None:
        out = x[None] if kind in _GATHERS else x[0] if kind in _SPREADS else x
        return out.copy()
    yield from agree(g, text)
    x = np.ascontiguousarray(x).reshape(x.shape)
    _count(kind, x)
    return (yield from _STEPS[kind](g, x, op, root))


def _at_once(
    x: np.ndarray, after: Any, kind: str, op: str, root: int, group: str, shape: Any, text: str
) -> np.ndarray:
    work = Work(groups[group], kind, _steps(groups[group], kind, x, ReduceOp(op), root, text), same)
    work.wait()
    return work.result() if kind == "all_reduce" else work.result().reshape(shape)


def _in_place(xs: Sequence[Any], attrs: Any, out: np.ndarray, workers: int) -> Any:
    """As `_at_once` within a Program: MPI writes to the result's own memory."""
    kind, op, root, group, _, text = attrs
    if kind != "all_reduce" or groups[group].comm is None or not xs[0].flags.c_contiguous:
        return None

    def steps(x: np.ndarray) -> Steps:
        yield from agree(groups[group], text)
        _count(kind, x)
        found = yield from _all_reduce(groups[group], x, ReduceOp(op), root, out)
        if found is not out:
            np.copyto(out, found)

    def run(x: np.ndarray) -> None:
        Work(groups[group], kind, steps(x), same).wait()

    return [Stage([[(run, (xs[0],))]])]


def _count(kind: str, x: np.ndarray) -> None:
    stats[kind] += 1
    stats["bytes"] += x.nbytes


def same(x: Any) -> Any:
    return x


def _gradient(g: Tensor, kind: str, op: str, root: int, group: str) -> Tensor:
    """Of a sum over processes: the sum of their gradients."""
    if kind != "all_reduce" or op not in ("sum", "avg"):
        raise RuntimeError(f"distributed.{kind}: only all_reduce of sums has a gradient")
    return summed(g, groups[group], ReduceOp(op))


# `after` is the collective before it in the capture: all processes do them in one order
COLLECTIVE = Op(
    "collective", EXTERN, "x after", "kind op root group shape text", numpy=_at_once,
    lower_extern=_in_place,
    infer=lambda x, after, kind, op, root, group, shape, text: (shape, x.dtype),
    x=_gradient, after=None, runs_on_host=lambda kind, *_: kind == "all_reduce",
    flops=lambda shapes, shape: 0,
)  # fmt: skip


def _in_graph(
    x: Tensor, kind: str, op: ReduceOp, root: int, g: ProcessGroup, shape: Any, text: str
) -> Tensor:
    """The collective as an op, which has a gradient and may be captured."""
    order = getattr(mode.capture, "collectives", {})
    after = order.get(x.device, x)
    out = dispatch.apply(COLLECTIVE, (x, after), (kind, op.value, root, g.name, shape, text))
    order[x.device] = out._node
    return out


def summed(x: Tensor, group: Any = None, op: ReduceOp = ReduceOp.SUM) -> Tensor:
    """The sum, or by `op` the mean, of a tensor over all processes, with its gradient."""
    g = group_of(group)
    if g is None or g.comm is None:
        return x
    return _in_graph(x.contiguous(), "all_reduce", op, 0, g, x.shape, _text("all_reduce", x, op))


# --- of tensors


def _text(kind: str, x: Tensor, op: ReduceOp | None = None, root: int | None = None) -> str:
    how = "" if op is None else f" ({op.value})"
    to = "" if root is None else f" with root {root}"
    return f"{kind}{how} of {x.dtype.name} {list(x.shape)}{to}"


def group_of(group: Any) -> ProcessGroup | None:
    """The group that is meant; None for one that this process is not in."""
    if _world.world is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    if group is None or group is GroupMember.WORLD:
        return _world.world
    return None if group is GroupMember.NON_GROUP_MEMBER else group


P = ParamSpec("P")
R = TypeVar("R")


def for_members(fn: Callable[P, R]) -> Callable[P, R]:
    """`fn`, whose `group` is a ProcessGroup; who is not in it does nothing, and gets None."""
    signature = inspect.signature(fn)

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given = signature.bind(*args, **kwargs)
        found = given.arguments["group"] = group_of(given.arguments.get("group"))
        return None if found is None else fn(*given.args, **given.kwargs)  # type: ignore[return-value]

    return call


class GroupMember:
    """What stands for a group: WORLD for that of all processes, another for none."""

    WORLD: Any = type("WORLD", (), {"__repr__": lambda self: "group.WORLD"})()
    NON_GROUP_MEMBER: Any = type("NON_GROUP_MEMBER", (), {})()


group = GroupMember


def root_of(g: ProcessGroup, rank: int | None, group_rank: int | None) -> int:
    if group_rank is not None:
        return group_rank
    if rank is None:
        return 0
    if rank not in g.ranks:
        raise ValueError(f"Global rank {rank} is not part of group {g}")
    return g.ranks.index(rank)


def check(name: str, *tensors: Any) -> None:
    for x in tensors:
        if not isinstance(x, Tensor):
            raise TypeError(
                f"Invalid function argument. Expected parameter of type torch.Tensor but got "
                f"{type(x).__name__} instead ({name})"
            )
    if len({x.dtype for x in tensors}) > 1:
        raise ValueError(
            f"{name}: tensors of a collective must have one dtype, got "
            f"{', '.join(sorted({x.dtype.name for x in tensors}))}"
        )


def _check_op(op: Any, dtype: DType) -> None:
    if not isinstance(op, ReduceOp):
        raise TypeError(f"expected a ReduceOp, got {op!r}")
    if op.value[0] == "b" and dtype.category >= FLOAT:
        raise ValueError(f"Cannot use ReduceOp.{op.name} with {dtype.name}")
    if op.value[0] == "m" and dtype.category == COMPLEX:
        raise ValueError(f"{op.name} is not defined for {dtype.name}")


def fill(x: Tensor, array: np.ndarray) -> None:
    """Write an array of the tensor's elements to it."""
    array = array.reshape(x.shape)
    if x.dtype.narrow is not None:
        array = x.dtype.narrow(array)
    with no_grad():
        x.copy_(dispatch.tensor_from_node(Node(None, (), (), x.shape, x.dtype, cpu, array)))


def host(x: Tensor) -> np.ndarray:
    """The elements of a tensor, one after the other in memory of the host."""
    return np.ascontiguousarray(x._host()).reshape(x.shape)


def stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors of one shape as one, along a new dim."""
    from pyframe.ops import FUNCTIONS

    stack: Any = FUNCTIONS["stack"]
    out: Tensor = stack(list(tensors))
    return out


def _same_shapes(name: str, tensors: Sequence[Tensor], shape: Any, n: int) -> None:
    if len(tensors) != n:
        raise ValueError(f"{name}: expected a tensor for each of {n} processes, got {len(tensors)}")
    odd = next((x for x in tensors if x.shape != shape), None)
    if odd is not None:
        raise ValueError(
            f"{name}: expected tensors of shape {list(shape)}, got one of {list(odd.shape)}"
        )


def _collective(
    kind: str, x: Tensor, outs: Sequence[Tensor], g: ProcessGroup, async_op: bool = False,
    op: ReduceOp | None = None, root: int | None = None, text: str = "", joined: bool = False,
) -> Async:  # fmt: skip
    """Do it with `x`; the result, or if there are many, its rows go to `outs`."""
    if op is not None:
        _check_op(op, x.dtype)
    text = text or _text(kind, x, op, root)
    one = tuple(outs[0].shape) if outs else ()
    shape = one if joined else (len(outs), *one)
    how, at = op or ReduceOp.SUM, root or 0

    def finish(out: Any) -> Any:
        out = out.reshape(shape) if outs else out
        for i, tensor in enumerate(outs):
            if isinstance(out, Tensor):
                with no_grad():
                    tensor.copy_(out if joined else out[i])
            else:
                fill(tensor, out if joined else out[i])
        return list(outs)

    with no_grad():
        if mode.capture is not None:
            if kind == "gather":
                mode.capture.graph_break(
                    f"calls distributed.{kind}, which is another on each process"
                )
            else:
                finish(_in_graph(x.contiguous(), kind, how, at, g, shape, text))
                return Work(g, kind, nothing(), same, 0) if async_op else None
        large = x.is_cuda and x.nbytes > x.device.executor.piece
        if kind == "all_reduce" and large and g.comm is not None:
            return begun(g, kind, _by_pieces(g, x.contiguous(), how, text), finish, async_op)
        return begun(g, kind, _steps(g, kind, host(x), how, at, text), finish, async_op)


def _by_pieces(g: ProcessGroup, x: Tensor, op: ReduceOp, text: str) -> Steps:
    """all_reduce of a large value of a GPU: reading, reducing and writing go on side by side."""
    yield from agree(g, text)
    executor = x.device.executor
    out = executor.alloc(x.numel() * x.dtype.device_itemsize)
    for array, put in executor.pieces(x, out):
        _count("all_reduce", array)
        put((yield from _all_reduce(g, array, op, 0)))
    return dispatch.tensor_from_node(Node(None, (), (), x.shape, x.dtype, x.device, out))


def nothing() -> Steps:
    """Nothing is to do."""
    yield from ()


def begun(
    g: ProcessGroup, name: str, steps: Steps, finish: Any, async_op: bool, peer: int | None = None
) -> Async:
    """Begin a work, and do it to its end unless it is to go on by itself."""
    if mode.capture is not None:
        mode.capture.graph_break(f"calls distributed.{name}")
    work = Work(g, name, steps, finish, peer)
    if async_op:
        return work
    work.wait()
    return None


@for_members
def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Async:
    """Let the tensor be the sum (or another `op`) of those of all processes.

    Args:
        tensor: Overwritten with the result; all have one shape and dtype.
    """
    check("all_reduce", tensor)
    return _collective("all_reduce", tensor, [tensor], group, async_op, op, joined=True)


@for_members
def reduce(
    tensor: Tensor, dst: int | None = None, op: ReduceOp = ReduceOp.SUM, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Async:  # fmt: skip
    """As all_reduce, on the process `dst` alone.

    Args:
        tensor: Overwritten with the result there; all have one shape and dtype.
    """
    check("reduce", tensor)
    return _collective(
        "reduce", tensor, [tensor], group, async_op, op, root_of(group, dst, group_dst), joined=True
    )


@for_members
def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Async:  # fmt: skip
    """Let the tensor be that of the process `src`.

    Args:
        tensor: What is sent, or is overwritten with it; all have one shape and dtype.
    """
    check("broadcast", tensor)
    root = root_of(group, src, group_src)
    return _collective("broadcast", tensor, [tensor], group, async_op, root=root, joined=True)


@for_members
def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Async:
    """Fill the list with the tensors of all processes.

    Args:
        tensor_list: A tensor for each process, of the shape and dtype of `tensor`.
        tensor: This process's.
    """
    check("all_gather", tensor, *tensor_list)
    _same_shapes("all_gather", tensor_list, tensor.shape, group.size())
    return _collective("all_gather", tensor, tensor_list, group, async_op)


@for_members
def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Async:
    """Put the tensors of all processes one after the other, along the first dim or a new one.

    Args:
        output_tensor: (n, *shape) or (n * rows, …), n being the number of processes.
        input_tensor: This process's.
    """
    check("all_gather_into_tensor", output_tensor, input_tensor)
    _whole("all_gather_into_tensor", output_tensor, input_tensor, group.size())
    return _collective("all_gather", input_tensor, [output_tensor], group, async_op, joined=True)


def _whole(name: str, whole: Tensor, part: Tensor, n: int) -> None:
    shape = tuple(part.shape)
    fits = [(n, *shape), (n * shape[0], *shape[1:]) if shape else (n,)]
    if tuple(whole.shape) not in fits:
        raise ValueError(
            f"{name}: a tensor of shape {list(shape)} of each of {n} processes makes one of "
            f"{' or '.join(str(list(s)) for s in fits)}, got {list(whole.shape)}"
        )


@for_members
def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None,
    group: Any = None, async_op: bool = False, group_dst: int | None = None,
) -> Async:  # fmt: skip
    """As all_gather, on the process `dst` alone.

    Args:
        tensor: This process's.
        gather_list: There a tensor for each process; None elsewhere.
    """
    check("gather", tensor, *(gather_list or ()))
    root = root_of(group, dst, group_dst)
    outs = _listed("gather_list", gather_list, group.rank == root, tensor, group)
    return _collective("gather", tensor, outs, group, async_op, root=root)


def _listed(name: str, some: Any, is_root: bool, like: Tensor, g: ProcessGroup) -> list[Tensor]:
    if not is_root:
        if some:
            raise ValueError(f"Argument ``{name}`` must NOT be specified on non-root ranks.")
        return []
    if not some:
        raise ValueError(f"Argument ``{name}`` must be specified on the root rank.")
    _same_shapes(name, some, like.shape, g.size())
    return list(some)


@for_members
def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None,
    group: Any = None, async_op: bool = False, group_src: int | None = None,
) -> Async:  # fmt: skip
    """Let the tensor be that of the list of process `src` which is for this one.

    Args:
        tensor: Overwritten with that one.
        scatter_list: On `src` a tensor for each process, of the shape of `tensor`; None elsewhere.
    """
    check("scatter", tensor, *(scatter_list or ()))
    root = root_of(group, src, group_src)
    parts = _listed("scatter_list", scatter_list, group.rank == root, tensor, group)
    x, text = stacked(parts or [tensor]), _text("scatter", tensor, root=root)
    return _collective("scatter", x, [tensor], group, async_op, root=root, text=text, joined=True)


@for_members
def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> Async:  # fmt: skip
    """Let `output` be the sum of those tensors of all lists which are for this process.

    Args:
        input_list: A tensor for each process, of the shape of `output`.
    """
    check("reduce_scatter", output, *input_list)
    _same_shapes("reduce_scatter", input_list, output.shape, group.size())
    return _collective(
        "reduce_scatter", stacked(input_list), [output], group, async_op, op, joined=True
    )


@for_members
def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> Async:  # fmt: skip
    """As reduce_scatter of a tensor that has the parts one after the other.

    Args:
        output: Overwritten with the sum.
    """
    check("reduce_scatter_tensor", output, input)
    _whole("reduce_scatter_tensor", input, output, group.size())
    x = input.reshape(group.size(), *output.shape)
    return _collective("reduce_scatter", x, [output], group, async_op, op, joined=True)


@for_members
def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None,
    async_op: bool = False,
) -> Async:  # fmt: skip
    """Send the i-th tensor to process i, and receive the i-th from it; they may differ in size.

    Args:
        output_tensor_list: A tensor for each process, overwritten with what it sends.
        input_tensor_list: A tensor for each process, of the same dtype.
    """
    check("all_to_all", *output_tensor_list, *input_tensor_list)
    for some in (output_tensor_list, input_tensor_list):
        if len(some) != group.size():
            raise ValueError(f"all_to_all: expected a tensor for each of {group.size()} processes")
    sent, taken = ([x.numel() for x in some] for some in (input_tensor_list, output_tensor_list))
    flat = np.concatenate([host(x).reshape(-1) for x in input_tensor_list])

    def finish(out: np.ndarray) -> list[Tensor]:
        for x, part in zip(output_tensor_list, np.split(out, np.cumsum(taken)[:-1]), strict=True):
            fill(x, part)
        return output_tensor_list

    steps = _uneven(group, flat, sent, taken, f"all_to_all of {input_tensor_list[0].dtype.name}")
    return begun(group, "all_to_all", steps, finish, async_op)


def _uneven(g: ProcessGroup, x: np.ndarray, sent: list[int], taken: list[int], text: str) -> Steps:
    """all_to_all of pieces of `x`, counted in elements."""
    if g.comm is None:
        return x.copy()
    yield from agree(g, text)
    mine, theirs = np.array(sent, np.int64), np.empty(len(sent), np.int64)
    yield g.comm.Ialltoall(mine, theirs)
    wrong = yield from objects(g, theirs.tolist() != taken)
    if any(wrong):
        raise RuntimeError(
            f"{text}: rank {g.ranks[wrong.index(True)]} expects pieces of other sizes than it is "
            f"sent; rank {g.ranks[g.rank]} expects {taken} elements and gets {theirs.tolist()}"
        )
    stats["all_to_all"] += 1
    stats["bytes"] += x.nbytes
    out = np.empty(sum(taken), x.dtype)
    size = x.itemsize
    yield g.comm.Ialltoallv(
        (raw(x), [n * size for n in sent]), (raw(out), [n * size for n in taken])
    )
    return out


@for_members
def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None, group: Any = None, async_op: bool = False,
) -> Async:  # fmt: skip
    """all_to_all of parts of a tensor along its first dim, equal ones unless their sizes are
    given.

    Args:
        output: Overwritten with what is received.
        output_split_sizes, input_split_sizes: How many rows of each are from, and for, each
            process.
    """
    check("all_to_all_single", output, input)
    n = group.size()
    if not output_split_sizes and not input_split_sizes:
        for x in (output, input):
            if x.shape[0] % n:
                raise ValueError(
                    f"all_to_all_single: the first dim of {list(x.shape)} is not divisible by {n}"
                )
        if output.numel() != input.numel():
            raise ValueError(
                f"all_to_all_single: {list(input.shape)} gives {list(input.shape)}, got an output "
                f"of {list(output.shape)}"
            )
        x = input.reshape(n, input.shape[0] // n, *input.shape[1:])
        return _collective("all_to_all", x, [output], group, async_op, joined=True)
    outs = list(output.split(output_split_sizes or [output.shape[0] // n] * n))
    parts = list(input.split(input_split_sizes or [input.shape[0] // n] * n))
    return all_to_all(outs, parts, group, async_op)
