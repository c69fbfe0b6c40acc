"""Each collective, against NumPy, by each process of a job (checks.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import distributed as dist
from pyframe.distributed import ReduceOp

REDUCTIONS: dict[ReduceOp, Any] = {
    ReduceOp.SUM: np.add, ReduceOp.AVG: np.add, ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum, ReduceOp.MAX: np.maximum, ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or, ReduceOp.BXOR: np.bitwise_xor,
}  # fmt: skip
DTYPES = """float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool
    complex64 complex128""".split()
SHAPES = [(), (1,), (3, 5), (1031,), (2, 0)]


def given(rank: int, dtype: str, shape: tuple[int, ...]) -> Any:
    """Small whole numbers, which all dtypes hold exactly."""
    rng = np.random.default_rng(rank)
    name = "float32" if dtype == "bfloat16" else dtype
    return rng.integers(0, 2 if dtype == "bool" else 4, shape).astype(name)


def made(array: Any, dtype: str, device: str) -> Any:
    return pf.tensor(array, dtype=getattr(pf, dtype), device=device)


def seen(x: Any) -> Any:
    return (x.float() if x.dtype is pf.bfloat16 else x).cpu().numpy()


def expected(op: ReduceOp, all_: list[Any]) -> Any:
    if all_[0].dtype == np.bool_ and op is ReduceOp.AVG:
        return np.logical_or.reduce(all_)
    total = REDUCTIONS[op].reduce(all_, dtype=all_[0].dtype)
    if op is ReduceOp.AVG:
        n = np.array(len(all_), total.dtype)
        total = total / n if total.dtype.kind in "fc" else total // n
    return total.astype(all_[0].dtype)


def same(x: Any, wanted: Any, what: Any) -> None:
    rough = "float16" in str(what) or "bfloat16" in str(what)  # a mean of thirds
    np.testing.assert_allclose(
        seen(x), wanted, rtol=1e-2 if rough else 1e-6, err_msg=f"rank {dist.get_rank()}: {what}"
    )


def check_all(device: str, dtypes: list[str]) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    for dtype in dtypes:
        for shape in SHAPES if dtype == "float32" else SHAPES[2:3]:
            all_ = [given(r, dtype, shape) for r in range(n)]
            for op in REDUCTIONS:
                kind = all_[0].dtype.kind
                if (kind in "fc" and op.value[0] == "b") or (kind == "c" and op.value[0] == "m"):
                    continue
                what = op, dtype, shape
                x = made(all_[rank], dtype, device)
                dist.all_reduce(x, op)
                same(x, expected(op, all_), what)
                x = made(all_[rank], dtype, device)
                dist.reduce(x, n - 1, op)
                same(x, expected(op, all_) if rank == n - 1 else all_[rank], what)
                parts = [made(a, dtype, device) for a in all_]
                dist.reduce_scatter(x, parts, op)  # each process gives the same parts
                same(x, expected(op, [all_[rank]] * n), what)
            what = dtype, shape
            x = made(all_[rank], dtype, device)
            dist.broadcast(x, n - 1)
            same(x, all_[n - 1], what)
            x = made(all_[rank], dtype, device)
            outs = [pf.zeros_like(x) for _ in range(n)]
            dist.all_gather(outs, x)
            for r, out in enumerate(outs):
                same(out, all_[r], what)
            whole = pf.zeros((n, *shape), dtype=x.dtype, device=device)
            dist.all_gather_into_tensor(whole, x)
            same(whole, np.stack(all_), what)
            outs = [pf.zeros_like(x) for _ in range(n)]
            dist.gather(x, outs if rank == 0 else None)
            if rank == 0:
                same(outs[-1], all_[-1], what)
            x = pf.zeros_like(x)
            dist.scatter(x, [made(a, dtype, device) for a in all_] if rank == 0 else None, 0)
            same(x, all_[rank], what)
            own = [made(given(rank * n + r, dtype, shape), dtype, device) for r in range(n)]
            outs = [pf.zeros_like(x) for _ in range(n)]
            dist.all_to_all(outs, own)
            for r, out in enumerate(outs):
                same(out, given(r * n + rank, dtype, shape), what)


def check_more() -> None:
    """Views, parts of other sizes, messages, groups, objects, work that goes on by itself."""
    n, rank = dist.get_world_size(), dist.get_rank()
    base = pf.zeros(6, 4)
    dist.all_reduce(view := base.t()[1:3], ReduceOp.SUM)
    view += rank + 1
    dist.all_reduce(view)  # of memory that is not in one piece
    total = n * (n + 1) / 2
    assert base.sum().item() == total * 12, base
    whole = pf.arange(n * 3.0).reshape(n * 3, 1)
    out = pf.zeros(3, 1)
    dist.reduce_scatter_tensor(out, whole)
    assert out.flatten().tolist() == [n * (3.0 * rank + i) for i in range(3)]
    joined = pf.zeros(n * 3, 1)
    dist.all_gather_into_tensor(joined, out)
    assert joined.flatten().tolist() == [n * float(i) for i in range(3 * n)]
    out = pf.zeros(n, 2)
    dist.all_to_all_single(out, pf.full((n, 2), float(rank)))
    assert out[:, 0].tolist() == list(range(n))
    sizes = [rank + 1] * n
    out = pf.zeros(sum(range(1, n + 1)), 2)
    dist.all_to_all_single(out, pf.full((sum(sizes), 2), float(rank)), [*range(1, n + 1)], sizes)
    assert out[:, 1].tolist() == [float(r) for r in range(n) for _ in range(r + 1)]
    a = [pf.full((i + 1,), 1) for i in range(4)]
    works = [dist.all_reduce(x, async_op=True) for x in a]
    for work in works:
        assert work.wait()
    assert [x.tolist() for x in a] == [[n] * (i + 1) for i in range(4)]
    objects: list[Any] = [None] * n
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(n)]
    some = [f"of {rank}", rank]
    dist.broadcast_object_list(some, n - 1)
    assert some == [f"of {n - 1}", n - 1]
    dist.gather_object(rank, got := [None] * n if rank == 0 else None)
    assert rank or got == [*range(n)]
    dist.scatter_object_list(one := [None], [*"abcde"[:n]] if rank == 0 else None)
    assert one == ["abcde"[rank]]
    dist.barrier()
    dist.monitored_barrier()
    if n > 1:
        check_messages(n, rank)
        check_groups(n, rank)


def check_messages(n: int, rank: int) -> None:
    right, left = (rank + 1) % n, (rank - 1) % n
    x = pf.full((3,), rank)
    works = [dist.isend(x, right, tag=5), dist.irecv(y := pf.zeros(3, dtype=pf.int64), left, tag=5)]
    for work in works:
        work.wait()
    assert y.tolist() == [left] * 3
    if rank == 0:
        got = {dist.recv(z := pf.zeros(2), tag=7) for _ in range(n - 1)}
        assert got == {*range(1, n)}
        assert z[0].item() in got
    else:
        dist.send(pf.full((2,), float(rank)), 0, tag=7)
    ops = [dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, y, left)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    if n == 2 and rank == 0:
        with pytest.raises(RuntimeError, match="1 sends 4 elements of float32, and rank 0 exp.* 5"):
            dist.recv(pf.zeros(5), 1)
    elif n == 2:
        dist.send(pf.zeros(4), 0)


def check_groups(n: int, rank: int) -> None:
    evens = dist.new_group([*range(0, n, 2)])
    x = pf.ones(2) * (rank + 1)
    dist.all_reduce(x, group=evens)
    wanted = sum(range(1, n + 1, 2)) if rank % 2 == 0 else rank + 1
    assert x.tolist() == [wanted] * 2
    assert dist.get_rank(evens) == (-1 if rank % 2 else rank // 2)
    if rank % 2 == 0:
        dist.broadcast(x := pf.full((1,), rank), 0, group=evens)
        assert x.item() == 0
        assert dist.get_process_group_ranks(evens) == [*range(0, n, 2)]


def check_pieces() -> None:
    """What is large goes to the host and back by pieces, some of which are read ahead."""
    n, rank = dist.get_world_size(), dist.get_rank()
    stats, executor = pf.device("gpu").backend.stats, pf.device("gpu").executor
    executor.piece = 4096
    for dtype in (pf.float32, pf.float16):
        size = 3 * executor.piece // dtype.device_itemsize + 7
        start = (pf.arange(size) % 1001 - 500).to(dtype).to("gpu") + rank

        def mean(x: Any) -> Any:
            y = x * 2
            dist.all_reduce(y)
            return y + 1

        wanted = start.cpu() * 2 * n + (n * (n - 1) - 2 * n * rank + 1)
        before = stats.reads
        assert pf.equal(mean(start).cpu(), wanted)
        assert stats.reads - before == 5
        compiled = pf.compile(mean)
        for _ in range(3):
            assert pf.equal(compiled(start).cpu(), wanted)
        assert compiled.captured == 1
        out, counts = executor.alloc(start.nbytes), []
        before = stats.reads
        for array, put in executor.pieces(start, out):
            counts.append(stats.reads - before)
            put(array)
        assert counts == [3, 4, 4, 4]


def check_refusals() -> None:
    """What differs between processes is an error on each of them, and nothing hangs."""
    n, rank = dist.get_world_size(), dist.get_rank()
    last = rf"rank 0 calls all_reduce .* \[3\], rank {n - 1} all_reduce \(sum\) of float32 \[4\]"
    for differ, words in (
        (lambda: dist.all_reduce(pf.zeros(3 + (rank == n - 1))), last),
        (lambda: dist.all_reduce(pf.zeros(2 + rank)), r"all_reduce \(sum\) of float32 \[3\]"),
        (lambda: dist.all_reduce(pf.zeros(2, dtype=[pf.int32, pf.float32][rank % 2])), "int32"),
        (lambda: dist.broadcast(pf.zeros(2), rank % 2), "with root 1"),
        (lambda: dist.barrier() if rank else dist.all_reduce(pf.zeros(1)), "barrier"),
    ):
        with pytest.raises(RuntimeError, match=words):
            differ()


def check(device: str = "cpu") -> None:
    if device == "gpu":
        check_all("gpu", ["float32", "int64", "bool"])
        check_pieces()
        return
    check_all("cpu", DTYPES)
    check_more()
    if dist.get_world_size() > 1:
        check_refusals()
