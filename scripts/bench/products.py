"""Products of matrices on paper: what bounds each variant, and what some shapes take of a GPU.

The model is of a unit of a GPU: 128 multiply-adds, four instructions of 32 threads, and one access
of 128 bytes to workgroup memory a clock, whose 32 banks are 4 bytes wide. Sectors of memory that a
load touches (32 bytes) pass the same way as workgroup memory. It knows nothing of latencies.
"""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyframe as pf
from pyframe.codegen.wgsl import generate, products
from pyframe.codegen.wgsl.products import GPU, TileConfig
from pyframe.core.limits import Limits
from pyframe.runtime.offline import offline_device
from pyframe.tools.bench.measure import table
from pyframe.tools.cost import si

LIMITS = Limits(binding_bytes=1 << 30, buffer_bytes=1 << 30)  # all else as WebGPU promises
WARP = 32  # threads that a unit issues together
SHAPES = [  # m, k, n, batch
    (4096, 4096, 4096, 1), (1024, 1024, 1024, 1), (512, 512, 512, 1), (1000, 1000, 1000, 1),
    (64, 784, 256, 1), (64, 65536, 64, 1), (8192, 768, 3072, 1), (1, 768, 30000, 1),
    (8, 4096, 4096, 1), (1024, 64, 1024, 96), (3, 9, 2, 70_000),
]  # fmt: skip
Lane = Callable[[int], "int | None"]  # the address of a thread's access; None: it has none


class Clocks(NamedTuple):
    """What a workgroup takes of a unit for one step of BK."""

    multiply: float
    memory: float
    issue: float

    @property
    def share(self) -> float:
        """How much of the multiply-adds' rate is left."""
        return self.multiply / max(self)


def conflicts(vectors: Sequence[int]) -> int:
    """Accesses of workgroup memory that these vectors of 16 bytes take: threads that read the same
    share one, and as many vectors as there are banks for pass at once."""

    def once(group: Sequence[int]) -> int:
        banks: dict[int, set[int]] = {}
        for v in group:
            banks.setdefault(v % 8, set()).add(v)
        return max((len(v) for v in banks.values()), default=0)

    for parts in (1, 2, 4):
        size = WARP // parts
        groups = [vectors[i : i + size] for i in range(0, len(vectors), size)]
        if parts == 4 or all(len(set(g)) <= 8 for g in groups):
            return sum(map(once, groups))
    raise AssertionError


def clocks(
    threads: int, products_each: int, bk: int, reads: Callable[[int, int], list[int]],
    loads: Sequence[tuple[Lane, int]], writes: Sequence[Lane], guards: int,
) -> Clocks:  # fmt: skip
    """`reads(t, k)`: the vectors that thread t takes from workgroup memory at step k; `loads`:
    byte addresses in memory and how many bytes; `writes`: vectors; `guards`: instructions that ask
    whether a load may be done."""
    warps = [range(w, min(w + WARP, threads)) for w in range(0, threads, WARP)]
    each = len(reads(0, 0))
    memory = 0.0
    for w in warps:
        for k in range(bk):
            memory += sum(conflicts([reads(t, k)[j] for t in w]) for j in range(each))
    issued = len(warps) * (bk * (products_each + each + 3) + 40)
    for lane, width in loads:
        for w in warps:
            at = [a for a in map(lane, w) if a is not None]
            if at:
                sectors = {(a + i) // 32 for a in at for i in range(0, width, 4)}
                memory += len(sectors) / 4 + 1
                issued += 1 + guards
    for lane in writes:
        for w in warps:
            at = [a for a in map(lane, w) if a is not None]
            if at:
                memory += conflicts(at + at[:1] * (WARP - len(at)))
                issued += 1
    return Clocks(threads * products_each * bk / 128, memory, issued / 4)


LINE = 1 << 14  # bytes from one row of a matrix to the next


def of_variant(v: TileConfig, along: tuple[bool, bool]) -> Clocks:
    """A variant of the form "tiles", whose operands lie `along` the shared dim or not."""
    fours, wides = v.bk // 4, (v.bm // 4, v.bn // 4)
    blocks = [w * fours for w in wides]
    shared = sum(blocks) == v.threads  # some threads load a, the others b
    loads: list[tuple[Lane, int]] = []
    writes: list[Lane] = []
    for i, (wide, n) in enumerate(zip(wides, blocks, strict=True)):
        for start in range(0, n, v.threads):
            first = -blocks[0] if shared and i else start
            for x in range(4):

                def place(t: int, n: int = n, first: int = first) -> int | None:
                    return t + first if 0 <= t + first < n else None

                def read(
                    t: int, i: int = i, x: int = x, wide: int = wide, of: Lane = place
                ) -> int | None:
                    at = of(t)
                    if at is None:
                        return None
                    major, minor = divmod(at, fours if along[i] else wide)
                    return (4 * major + x) * LINE + 16 * minor

                def write(
                    t: int, i: int = i, x: int = x, wide: int = wide, of: Lane = place
                ) -> int | None:
                    at = of(t)
                    if at is None:
                        return None
                    c, q = divmod(at, fours) if along[i] else divmod(at, wide)[::-1]
                    return (4 * q + x) * wide + (c ^ (2 * q & (wide - 1)))

                loads.append((read, 16))
                writes.append(write)

    def reads(t: int, k: int) -> list[int]:
        swap = 2 * (k // 4)
        a = [
            k * wides[0] + ((t // v.tx + i * v.ty) ^ (swap & (wides[0] - 1)))
            for i in range(v.rm // 4)
        ]
        b = [
            k * wides[1] + ((t % v.tx + j * v.tx) ^ (swap & (wides[1] - 1)))
            for j in range(v.rn // 4)
        ]
        return [*a, *[v.bk * wides[0] + x for x in b]]

    return clocks(v.threads, v.rm * v.rn, v.bk, reads, loads, writes, 1)


def report(args: Namespace) -> list[str]:
    """What bounds each variant, and what some shapes take, as Markdown."""
    rows = []
    for v in GPU:
        if v.form == "tiles":
            shares = [of_variant(v, along).share for along in
                      ((True, False), (True, True), (False, False))]  # fmt: skip
            reuse = 2 * v.bm * v.bn / (4 * (v.bm + v.bn))
            rows.append([
                f"{v.bm} x {v.bn}", f"{v.rm} x {v.rn}", str(v.threads), f"{v.nbytes >> 10} KiB",
                *[f"{x:.0%}" for x in shares], f"{reuse:.0f}", f"{v.rate:.2f}",
            ])  # fmt: skip
    head = ("tile", "a thread", "threads", "memory", "A B", "A B^T", "A^T B", "FLOP / B", "rate")
    out = ["# Products of matrices on paper", "", *table(head, rows), ""]
    rows, texts = [], dict[str, None]()
    for m, k, n, batch in SHAPES[-1:] if args.quick else SHAPES:
        parts = products.parts(m, n, k, batch, LIMITS)
        v = products.chosen(m, n, k // parts, batch * parts, LIMITS)
        with offline_device(LIMITS) as device:
            run = pf.compile(lambda a, b: a @ b)
            run(pf.zeros(batch, m, k, device=device), pf.zeros(batch, k, n, device=device))
            made = [generate(x) for p in run.programs for x in p.kernels]
        texts.update(dict.fromkeys(s.code for s in made))
        groups = [math.prod(s.grid) for s in made]
        bm, bn = (m, n) if v.form == "vectors" else (v.bm, v.bn)
        read = 4 * k * batch * (-(-m // bm) * bm * -(-n // bn) + -(-n // bn) * bn * -(-m // bm))
        rows.append([
            f"{batch} x {m} x {k} x {n}", v.form if v.form != "tiles" else f"{v.bm} x {v.bn}",
            str(parts), " + ".join(map(str, groups)), si(read, "B"),
            str(sum(len(s.code) for s in made)),
        ])  # fmt: skip
    head = ("batch x m x k x n", "variant", "parts", "workgroups", "loaded", "letters")
    return [*out, *table(head, rows), "", f"{len(texts)} different texts"]
