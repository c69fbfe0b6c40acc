"""Products of matrices as text: y[b, m, n] = sum over k of a[b, m, k] * b[b, k, n].

There are three forms. "tiles": blocks of both operands pass through workgroup memory, and each
thread multiplies what stands in its registers (see Goto and van de Geijn 2008). "vectors": one
operand has few rows, and the other, which is read once, is walked by many threads side by side.
"registers": no workgroup memory and no barriers, which a CPU that plays a GPU pays for.
The tables have rows of numbers for these, of which `chosen` takes the one that is done first.

Both operands are read four elements at a time along the axis in which they lie in memory. At the
edges of a matrix indices are clamped, so that nothing in the loops asks where they are: what is
computed there is not stored. Only past the end of the shared dim zeros must be put in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from pyframe.codegen.wgsl import library, scalars
from pyframe.codegen.wgsl.block import (
    WgslBlock,
    beside,
    epilogue,
    indented,
    loaded_four,
    operand,
    whole_access,
    whole_words,
)
from pyframe.core.limits import Limits
from pyframe.core.op import Grid, KernelSpec, grid_1d
from pyframe.core.sizes import (
    is_symbolic_size,
    size_hint,
    statically_divides,
    statically_equal,
    tuning_hint,
)
from pyframe.graph.loops import Let, nest as loops_of, position
from pyframe.graph.program import Apply, Expr, InBounds, Kernel, Load, RowSum, Store, index_map_of
from pyframe.graph.scalar import Scalar


class TileConfig(NamedTuple):
    """A row of the table. TX x TY threads make RM x RN results each, and take BK of the shared dim
    at a time (0: none of it passes through workgroup memory). For "vectors" RM is how many rows
    there may be, and TX how many threads share a result. `rate`: the share of a device's peak that
    the static model gives it (scripts/bench/products.py), or of the best that was measured where a
    CPU plays the GPU."""

    form: str
    tx: int
    ty: int
    rm: int
    rn: int
    bk: int
    rate: float

    @property
    def name(self) -> str:
        """What tells it from the others."""
        step = f" by {self.bk}" if self.bk else ""
        return f"{self.form} {self.tx}x{self.ty} of {self.rm}x{self.rn}{step}"

    @property
    def bm(self) -> int:
        """The rows of a workgroup's tile, or of a thread's."""
        return self.ty * self.rm if self.bk else self.rm

    @property
    def bn(self) -> int:
        """The columns of a workgroup's tile, or of a thread's."""
        return self.tx * self.rn if self.bk else self.rn

    @property
    def threads(self) -> int:
        """Invocations of a workgroup."""
        return self.tx * self.ty

    @property
    def nbytes(self) -> int:
        """Workgroup memory that it takes."""
        if self.form == "vectors":
            return 8 * 4 * self.threads
        return 4 * self.bk * (self.bm + self.bn)


class GpuTarget(NamedTuple):
    """What is known of a kind of device: how many workgroups it runs at once, and its table."""

    units: int
    variants: tuple[TileConfig, ...]


GPU = (
    TileConfig("tiles", 16, 16, 8, 8, 16, 0.86),  # 128 x 128 in 16 KiB, which WebGPU promises
    TileConfig("tiles", 16, 8, 8, 8, 16, 0.86),  # 64 x 128
    TileConfig("tiles", 8, 8, 8, 8, 16, 0.85),  # 64 x 64
    TileConfig("tiles", 8, 8, 4, 8, 16, 0.77),  # 32 x 64
    TileConfig("tiles", 8, 8, 4, 4, 16, 0.66),  # 32 x 32
    TileConfig("tiles", 16, 4, 4, 4, 16, 0.48),  # 16 x 64
    TileConfig("tiles", 32, 2, 4, 4, 16, 0.39),  # 8 x 128
    TileConfig("tiles", 64, 1, 4, 4, 8, 0.27),  # 4 x 256
    TileConfig("vectors", 64, 4, 8, 1, 0, 1.0),
    TileConfig("registers", 64, 1, 4, 4, 0, 0.2),  # batches of small matrices
)
# Compilers of software adapters vectorize across invocations and have few registers; even so large
# tiles win, as each element that is loaded costs more than several products.
SOFTWARE = (
    TileConfig("registers", 16, 1, 8, 8, 0, 1.0),
    TileConfig("registers", 16, 1, 4, 8, 0, 0.73),
    TileConfig("registers", 16, 1, 8, 4, 0, 0.73),
    TileConfig("registers", 16, 1, 1, 8, 0, 0.26),
    TileConfig("registers", 16, 1, 8, 1, 0, 0.26),
    TileConfig("registers", 16, 1, 1, 1, 0, 0.1),
)
# By `Limits.kind`; a vendor's GPUs get a row of their own once they were measured.
MACHINES = {"": GpuTarget(64, GPU), "software": GpuTarget(2, SOFTWARE)}

ASSUMED_SIZE = 64  # what sizes that change are at least taken for
MIN_PART_LENGTH = 256  # of the shared dim: no part of it that another workgroup adds up is shorter
ANOTHER_KERNEL = 1 << 20  # products that a unit makes while one begins


def machine(limits: Limits) -> GpuTarget:
    """What is known of the kind of device."""
    return MACHINES.get(limits.kind, MACHINES[""])


def variants(call: KernelSpec) -> dict[str, TileConfig]:
    """Those that a product may have, by name; the one that should be done first is first."""
    (batch, m, k), n = call.operands[0], call.shape[2]
    return {v.name: v for v in _ranked(m, n, k, batch, call.limits)}


def chosen(m: int, n: int, k: int, batch: int, limits: Limits) -> TileConfig:
    """The variant that should be done first."""
    return _ranked(m, n, k, batch, limits)[0]


def _ranked(m: int, n: int, k: int, batch: int, limits: Limits) -> list[TileConfig]:
    units, _ = machine(limits)
    m, n, k, batch = [tuning_hint(x, ASSUMED_SIZE) for x in (m, n, k, batch)]

    def cost(v: TileConfig) -> float:
        if v.form == "vectors":
            return -1.0 if min(m, n) <= v.rm and min(max(m, n), k) >= 64 else math.inf
        return _rounds(v, m, n, batch, units)

    return sorted([v for v in _fitting(limits) if cost(v) < math.inf], key=cost)


def parts(m: int, n: int, k: int, batch: int, limits: Limits) -> int:
    """Into how many parts to cut the shared dim so that all units of a device have work: more than
    one where this takes less than half the time, the kernel that adds them up included."""
    units, _ = machine(limits)
    m, n, k, batch = [tuning_hint(x, ASSUMED_SIZE) for x in (m, n, k, batch)]
    if chosen(m, n, k, batch, limits).form != "tiles" or not m * n * batch:
        return 1

    def cost(v: TileConfig, count: int) -> float:
        again = ANOTHER_KERNEL + batch * m * n * count if count > 1 else 0
        return _rounds(v, m, n, batch * count, units) * -(-k // count) + again

    found = []
    for v in _fitting(limits):
        if v.form == "tiles":
            most = min(units // (batch * -(-m // v.bm) * -(-n // v.bn)), k // MIN_PART_LENGTH)
            found += [(cost(v, count), count) for count in {1, max(most, 1)}]
    most = min(found)[1]
    if min(found)[0] * 2 > min(c for c, count in found if count == 1):
        return 1
    return next((p for p in range(most, 2 * most) if not k % (16 * p)), most)


def _fitting(limits: Limits) -> list[TileConfig]:
    """The variants that a device takes."""
    return [
        v for v in machine(limits).variants
        if v.threads <= limits.workgroup_size and v.nbytes <= limits.workgroup_bytes
    ]  # fmt: skip


def _rounds(v: TileConfig, m: int, n: int, batch: int, units: int) -> float:
    """The time that a product takes for each step of the shared dim: rounds over all units, each
    as long as its tile takes."""
    tiles, each = batch * -(-m // v.bm) * -(-n // v.bn), v.bm * v.bn
    if v.form == "registers":  # a workgroup has as many as it has threads
        tiles, each = -(-tiles // v.threads), each * v.threads
    return -(-tiles // units) * each / v.rate


class Operand(NamedTuple):
    """How an operand lies in memory: the axis along which neighbours do (1 or 2), and whether four
    of them are loaded as one vector."""

    name: str
    along: int
    four: bool

    @property
    def along_k(self) -> bool:
        """Whether neighbours are along the shared dim."""
        return self.along == (2 if self.name == "a" else 1)


def product(kernel: Kernel, call: KernelSpec) -> tuple[str, Grid, Collection[int], dict[int, str]]:
    """The text of a product with its loads and its epilogue, its workgroups, the bindings that it
    reads as vectors, and by binding what writes whole words."""
    assert kernel.routine is not None
    (batch, m, k), n = call.operands[0], call.shape[2]
    v = call.variant or chosen(m, n, k, batch, call.limits)
    found = loaded_as(kernel, v, kernel.routine.operands)
    half = all(d.storage == "f16" for d in call.dtypes)
    return printed(kernel, call, v, (batch, m, n, k), found, half=half)


def printed(
    kernel: Kernel, call: KernelSpec, v: TileConfig, sizes: tuple[int, int, int, int],
    layouts: list[tuple[Operand, Expr]], loads: str = "", half: bool = False,
) -> tuple[str, Grid, Collection[int], dict[int, str]]:  # fmt: skip
    """The same of operands that lie so; `loads` are functions that load what has no expression,
    which is b along the shared dim."""
    batch, m, n, k = sizes
    a, b = [o for o, _ in layouts][:2] + [Operand("b", 1, True)] * bool(loads)
    p = _Product(v, m, n, k, half, a, b)
    p.row_sums = any(isinstance(i, RowSum) for i in kernel.code)
    words = p.of_words(kernel, batch)
    p.each = max([s.dtype.packed for s in words], default=1)
    text = f"alias Acc = {call.dtype.compute};\nalias Vec = vec4<Acc>;\n" + loads
    named = {"BATCH": batch, "M": m, "N": n, "K": k}
    text += "".join(
        f"const {name} = {n};\n" for name, n in named.items() if not is_symbolic_size(n)
    )
    fours = set()
    exprs_of = [layouts[0][1]], [e for _, e in layouts[1:]]
    for o, exprs in zip((a, b), exprs_of, strict=True):
        name, make = (f"load4_{o.name}", _load4) if o.four else (f"load_{o.name}", operand)
        text += beside(make, name, exprs, 2, o.four) if exprs else ""
        fours |= {_load_of(e).binding for e in exprs if o.four}
    text += epilogue(kernel, call.dtype, by_index=True) + p.globals()
    text += HEAD.format(threads=v.threads, place=p.tile) + indented(p.body()) + "}\n"
    text = library.named(text, p.rounded)
    text = library.named(
        text, {x: scalars.count(n) for x, n in named.items() if is_symbolic_size(n)}
    )
    size = batch * m * n
    whole = {s.binding: whole_access(s, size) for s in words}
    return text, grid_1d(p.groups(batch)), fours, whole


HEAD = """@compute @workgroup_size({threads})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {{
  let g = {place};
  if (g >= BATCH * DOWN * ACROSS) {{ return; }}
  let batch = g / (DOWN * ACROSS);
  let t = i32(local);
"""
XYZW = "xyzw"


class _Product:
    """Prints a product as its variant says."""

    def __init__(
        self, v: TileConfig, m: int, n: int, k: int, half: bool, a: Operand, b: Operand
    ) -> None:
        self.v, self.m, self.n, self.k, self.a, self.b = v, m, n, k, a, b
        self.half = half and v.form == "tiles"  # float16 in workgroup memory
        step = {"tiles": v.bk, "vectors": 4, "registers": 1}[v.form]
        # Whether loads may pass the end of the shared dim
        self.tail = not statically_divides(step, k)
        few = tuning_hint(m, ASSUMED_SIZE) <= tuning_hint(n, ASSUMED_SIZE)
        self.few, self.long, self.count = (a, b, m) if few else (b, a, n)  # of "vectors"
        self.rounded: dict[str, str] = {}  # what is no constant, as sizes change
        self.row_sums = False  # whether those of the left operand are stored too
        self.each = 1  # neighbours that a thread stores one after the other, from a multiple on
        self.per = v.bm, v.bn  # the rows and the columns of a workgroup, or of a thread
        if v.form == "vectors":
            _, each, side = self.shared
            self.per = (v.rm, each * side) if self.few is a else (each * side, v.rm)

    def of_words(self, kernel: Kernel, batch: int) -> list[Store]:
        """The stores whose words are of one thread each."""
        of_b = self.v.form == "vectors" and self.few is self.b
        if not of_b and (
            statically_equal(self.n, 1) or (self.v.form == "registers" and self.v.rn < 4)
        ):
            return []
        line = statically_equal(batch, 1) and (of_b or statically_equal(self.m, 1))
        found = whole_words(kernel.stores, kernel.space, line)
        return [s for s in found if not isinstance(kernel.code[s.value], RowSum)]

    @property
    def tile(self) -> str:
        """Which tile a workgroup, or a thread, makes."""
        place = "group.x + group.y * groups.x"
        if self.v.form == "registers":
            place = f"({place}) * {self.v.threads}u + local"
        return f"i32({place})"

    def groups(self, batch: int) -> int:
        """How many workgroups it takes."""
        tiles = batch * -(-self.m // self.per[0]) * -(-self.n // self.per[1])
        return -(-tiles // self.v.threads) if self.v.form == "registers" else tiles

    @property
    def shared(self) -> tuple[int, int, int]:
        """Of "vectors": how many threads share a result, how many rows of the long operand, or
        columns, each walks together, and how many threads lie side by side along these."""
        v, sides = self.v, [tuning_hint(n, ASSUMED_SIZE) for n in (self.m, self.n)]
        rows, length = sorted(sides)
        if self.long.along_k:
            lanes = v.tx if tuning_hint(self.k, ASSUMED_SIZE) >= 4 * v.tx else 16
            return lanes, 2 if rows <= v.rm // 2 else 1, v.threads // lanes
        wide = 16 if length >= 4096 else 4
        return v.threads // wide, 4, wide

    def body(self) -> list[str]:
        """The lines of the kernel."""
        if self.v.form == "tiles":
            return self.tiles()
        if self.v.form == "vectors":
            lines = self.dots() if self.long.along_k else self.sums()
        else:
            lines = self.registers()
        return [*lines, *self.rows()] if self.row_sums else lines

    def rows(self) -> list[str]:
        """The lines that store the sums of rows, read once more: each thread those of its own."""
        begin, among = (0, 1) if self.v.form == "registers" else ("t", self.v.threads)
        step, at = 1, "load_a(batch, m, k)"
        if self.a.four:
            step, at = 1, "four_a(batch, m / 4 * 4, k)[m % 4]"
            if self.a.along_k:
                step, at = 4, "dot(four_a(batch, m, k), Vec(1))"
        return [
            f"let top = g / ACROSS % DOWN * {self.per[0]};",
            f"let bottom = min(top + {self.per[0]}, M);",
            "if (g % ACROSS == 0) {",
            f"  for (var m = top + {begin}; m < bottom; m += {among}) {{",
            "    var sum = Acc(0);",
            f"    for (var k = 0; k < K; k += {step}) {{ sum += {at}; }}",
            "    store_row(batch, m, sum);", "  }", "}",
        ]  # fmt: skip

    def globals(self) -> str:
        """How many workgroups there are along both sides, workgroup memory, and what loads."""
        text, (rows, columns) = "", self.per
        for name, size, n, per in (("DOWN", "M", self.m, rows), ("ACROSS", "N", self.n, columns)):
            if is_symbolic_size(n):
                self.rounded[name] = f"(({size} + {per - 1}) / {per})"
            else:
                text += f"const {name} = ({size} + {per - 1}) / {per};\n"
        return text + self.memory() + self.four(self.a, "m", "M") + self.four(self.b, "n", "N")

    def memory(self) -> str:
        """The tiles, which results pass through as well: those of float16 through more of it."""
        v = self.v
        size = v.bk * (v.bm + v.bn) // 4
        kind = "vec4<f16>" if self.half else "Vec"
        if v.form == "registers":
            return ""
        if v.form == "vectors":
            kind, size = "Vec", v.threads
            if self.long.along_k:
                kind, size = "Acc", v.threads * self.shared[1] * self.count
        text = f"var<workgroup> tile: array<{kind}, {size}>;\n"
        if v.form == "vectors" and not self.long.along_k and self.each > 1:
            text += f"var<workgroup> made: array<Acc, {2 * v.threads}>;\n"
        if self.half:
            text += f"var<workgroup> stage: array<Vec, {size // 2}>;\n"
        return text

    # --- loads

    def index(self, o: Operand, free: str, k: str) -> str:
        """The index of an operand's element, of which `free` is along its own axis."""
        return f"batch, {free}, {k}" if o.name == "a" else f"batch, {k}, {free}"

    def four(self, o: Operand, free: str, size: str) -> str:
        """The function `four_a(batch, m, k)`, or `four_b(batch, n, k)`: four elements from there on
        along the way they lie, with zeros past the end of the shared dim."""
        lines, tail, name = [], self.tail, o.name
        if o.along_k:
            lines.append(f"let i = min({free}, {size} - 1);")
            if o.four:
                load = f"load4_{name}({self.index(o, 'i', 'min(k, K - 4)' if tail else 'k')})"
                found = f"select(Vec(), {load}, k < K)" if tail else load
            else:
                each = []
                for x in range(4):
                    k = f"k + {x}" if x else "k"
                    load = f"load_{name}({self.index(o, 'i', f'min({k}, K - 1)' if tail else k)})"
                    each.append(f"select(Acc(0), {load}, {k} < K)" if tail else load)
                found = f"Vec({', '.join(each)})"
        else:
            k = "min(k, K - 1)" if tail else "k"
            if o.four:
                found = f"load4_{name}({self.index(o, f'min({free}, {size} - 4)', k)})"
            else:
                places = [f"min({free} + {x}, {size} - 1)" for x in range(4)]
                each = [f"load_{name}({self.index(o, i, k)})" for i in places]
                found = f"Vec({', '.join(each)})"
            if tail:
                found = f"select(Vec(), {found}, k < K)"
        lines.append(f"return {found};")
        return f"fn four_{name}(batch: i32, {free}: i32, k: i32) -> Vec {{\n{indented(lines)}}}\n"

    def taken(
        self, o: Operand, origin: str, count: int, single: bool = False
    ) -> tuple[list[str], Callable[[int, int], str]]:
        """The lines that load `count` elements of an operand's own axis for four steps of the
        shared dim from `k` on, or for one, and the text of one by (element, step)."""
        name = o.name
        if not o.along_k:
            fours = [
                f"let {name}{i}_{x} = four_{name}(batch, {origin} + {i}, k + {x});"
                for x in range(1 if single else 4) for i in range(0, count, 4)
            ]  # fmt: skip
            return fours, lambda i, x: f"{name}{i // 4 * 4}_{x}.{XYZW[i % 4]}"
        if not single:
            rows = [f"let {name}{i} = four_{name}(batch, {origin} + {i}, k);" for i in range(count)]
            return rows, lambda i, x: f"{name}{i}.{XYZW[x]}"
        last = "M - 1" if name == "a" else "N - 1"
        at = [self.index(o, f"min({origin} + {i}, {last})", "k") for i in range(count)]
        return (
            [f"let {name}{i} = load_{name}({here});" for i, here in enumerate(at)],
            lambda i, x: f"{name}{i}",
        )

    def accumulators(self) -> list[str]:
        """The lines that begin the sums of a thread, four columns together."""
        v = self.v
        zero = "Vec()" if v.rn >= 4 else "Acc(0)"
        return [f"var acc{i}_{j} = {zero};" for i in range(v.rm) for j in range(0, v.rn, 4)]

    def origin(self) -> list[str]:
        """The lines that find where a tile begins."""
        return [
            f"let m0 = g / ACROSS % DOWN * {self.v.bm};",
            f"let n0 = g % ACROSS * {self.v.bn};",
        ]

    # --- registers

    def registers(self) -> list[str]:
        """Each thread makes its results of what it loads, four steps of the shared dim at a time;
        threads beside each other have neighbouring columns."""
        v = self.v
        lines = [*self.origin(), *self.accumulators()]
        lines += ["for (var k = 0; k < K / 4 * 4; k += 4) {"]
        lines += [*["  " + x for x in self.steps()], "}"]
        if not statically_divides(4, self.k):
            lines.append("for (var k = K / 4 * 4; k < K; k++) {")
            lines += [*["  " + x for x in self.steps(True)], "}"]
        each = max(v.rn // 4, 1)
        kind, part = ("Acc", "") if v.rn < 4 else ("Vec", "[i % 4]")
        lines.append(f"var sums: array<{kind}, {v.rm * each}>;")  # so that `store` is inlined once
        for i in range(v.rm):
            lines += [f"sums[{i * each + j}] = acc{i}_{4 * j};" for j in range(each)]
        store = f"store(batch, m, n, sums[i / {min(v.rn, 4)}]{part});"
        return [
            *lines, f"for (var i = 0; i < {v.rm * v.rn}; i++) {{",
            f"  let m = m0 + i / {v.rn};", f"  let n = n0 + i % {v.rn};",
            f"  if ((m < M) & (n < N)) {{ {store} }}", "}",
        ]  # fmt: skip

    def steps(self, single: bool = False) -> list[str]:
        """The lines that multiply what is at the four steps from `k` on, or at a `single` one."""
        v = self.v
        lines, a = self.taken(self.a, "m0", v.rm, single)
        more, b = self.taken(self.b, "n0", v.rn, single)
        lines += more
        for x in range(1 if single else 4):
            for j in range(0, v.rn, 4):
                column = b(j, x) if v.rn < 4 else f"b{j}_{x}"
                if v.rn >= 4 and self.b.along_k:
                    each = ", ".join(b(j + y, x) for y in range(4))
                    lines.append(f"let {column} = Vec({each});")
                lines += [f"acc{i}_{j} += {a(i, x)} * {column};" for i in range(v.rm)]
        return lines

    # --- vectors: the rows of `few` are few, and each element of `long` is read once

    def place(self, other: str) -> str:
        """The index of a result, in row `r` of `few`."""
        return f"batch, r, {other}" if self.few is self.a else f"batch, {other}, r"

    def dots(self) -> list[str]:
        """The long operand lies along the shared dim: threads side by side read a row of it. What
        they have is added up in workgroup memory."""
        lanes, each, side = self.shared
        threads, few, long = self.v.threads, self.few, self.long
        rows = self.count
        values = [(j, i) for j in range(each) for i in range(rows)]
        loads, text = self.taken(few, "0", rows)
        row = [
            f"{few.name}{i}" if few.along_k else f"Vec({', '.join(text(i, x) for x in range(4))})"
            for i in range(rows)
        ]
        body = [
            *[f"let w{j} = four_{long.name}(batch, c + {j * side}, k);" for j in range(each)],
            *loads, *[f"acc{j}_{i} += dot(w{j}, {row[i]});" for j, i in values],
        ]  # fmt: skip
        return [
            f"let lane = t % {lanes};",
            f"let first = g % (DOWN * ACROSS) * {each * side};",
            f"let c = first + t / {lanes};",
            *[f"var acc{j}_{i} = Acc(0);" for j, i in values],
            f"for (var k = 4 * lane; k < K; k += {4 * lanes}) {{",
            *["  " + x for x in body], "}",
            *[f"tile[{threads * x} + t] = acc{j}_{i};" for x, (j, i) in enumerate(values)],
            "workgroupBarrier();",
            f"for (var half = {lanes // 2}; half > 0; half /= 2) {{",
            "  if (lane < half) {",
            *[f"    tile[{x} + t] += tile[{x} + t + half];"
              for x in range(0, threads * len(values), threads)],
            "  }", "  workgroupBarrier();", "}",
            *self.stored(each * side, side, f"tile[x * {threads} + s * {lanes}]"),
        ]  # fmt: skip

    def stored(self, count: int, side: int, value: str) -> list[str]:
        """The lines that store `count` results of each row of `few`, or column. Of the number `x`
        of `side` beside each other the result number `s` is `value`."""
        if self.few is self.a:
            rows, size = self.m, "N"
            places = f"let s = u % {side}; let x = u / {side}; let r = x % {rows};"
            n = f"x / {rows} * {side} + s"
        else:  # those of a row of results come first
            rows, size = self.n, "M"
            places = f"let r = u % {rows}; let s = u / {rows} % {side};"
            places += f" let x = u / {side * rows} * {rows} + r;"
            n = f"u / {rows}"
        begin, end = self.by_thread("u", count * rows)
        return [
            *begin, f"  {places}", f"  let n = first + {n};",
            f"  if (n < {size}) {{ store({self.place('n')}, {value}); }}", *end,
        ]  # fmt: skip

    def by_thread(self, i: str, count: int) -> tuple[list[str], list[str]]:
        """What stands around the lines that store result number `i` of a workgroup's."""
        v, each = self.v, self.each
        if each == 1:
            return [f"for (var {i} = t; {i} < {count}; {i} += {v.threads}) {{"], ["}"]
        begin = f"for (var own = {each} * t; own < {count}; own += {each * v.threads}) {{"
        return [begin, f"for (var {i} = own; {i} < own + {each}; {i}++) {{"], ["}", "}"]

    def sums(self) -> list[str]:
        """The long operand lies along its own axis: threads side by side read that, four columns
        each, and others take other steps of the shared dim."""
        lanes, _, wide = self.shared
        threads, few, long = self.v.threads, self.few, self.long
        rows, size = self.count, "N" if few is self.a else "M"
        put, more = f"store({self.place('first + t')}, sum);", list[str]()
        if self.each > 1:
            put, at = f"made[r * {4 * wide} + t] = sum;", f"made[x * {4 * wide} + s]"
            more = self.stored(4 * wide, 4 * wide, at)
        loads, text = self.taken(few, "0", rows)
        body = [f"let w{x} = four_{long.name}(batch, c, k + {x});" for x in range(4)] + loads
        body += [f"acc{i} += {text(i, x)} * w{x};" for x in range(4) for i in range(rows)]
        return [
            f"let first = g % (DOWN * ACROSS) * {4 * wide};",
            f"let c = first + 4 * (t % {wide});",
            *[f"var acc{i} = Vec();" for i in range(rows)],
            f"for (var k = 4 * (t / {wide}); k < K; k += {4 * lanes}) {{",
            *["  " + x for x in body], "}",
            f"for (var r = 0; r < {rows}; r++) {{",
            *[f"  if (r == {i}) {{ tile[t] = acc{i}; }}" for i in range(rows)],
            "  workgroupBarrier();",
            f"  if ((t < {4 * wide}) & (first + t < {size})) {{",
            "    var sum = Acc(0);",
            f"    for (var i = t / 4; i < {threads}; i += {wide}) {{ sum += tile[i][t % 4]; }}",
            f"    {put}", "  }", "  workgroupBarrier();", "}", *more,
        ]  # fmt: skip

    # --- tiles

    def tiles(self) -> list[str]:
        """A thread loads blocks of 4 x 4 elements along the way they lie in memory, turns them if
        need be, and puts them into workgroup memory as vectors along m and n. The columns of a tile
        are exchanged by k, so that the threads of a subgroup write to different banks."""
        v = self.v
        wide_a, wide_b = v.bm // 4, v.bn // 4
        inner = ["let swap = 2 * (k / 4);"]
        for i in range(v.rm // 4):
            at = f"k * {wide_a} + ((ty + {i * v.ty}) ^ {_masked('swap', wide_a)})"
            inner.append(f"let a{4 * i} = Vec(tile[{at}]);")
        for j in range(v.rn // 4):
            at = f"{v.bk * wide_a} + k * {wide_b} + ((tx + {j * v.tx}) ^ {_masked('swap', wide_b)})"
            inner.append(f"let b{4 * j} = Vec(tile[{at}]);")
        inner += [
            f"acc{i}_{j} += a{i // 4 * 4}.{XYZW[i % 4]} * b{j};"
            for i in range(v.rm) for j in range(0, v.rn, 4)
        ]  # fmt: skip
        begin, each, end = ([], [], []) if not self.row_sums else self.tile_rows()
        return [
            *self.origin(), f"let tx = t % {v.tx};", f"let ty = t / {v.tx};", *self.accumulators(),
            *begin,
            f"for (var k0 = 0; k0 < K; k0 += {v.bk}) {{", *["  " + x for x in self.fills()],
            "  workgroupBarrier();", *["  " + x for x in each],
            f"  for (var k = 0; k < {v.bk}; k++) {{", *["    " + x for x in inner], "  }",
            "  workgroupBarrier();", "}", *end, *self.staged(),
        ]  # fmt: skip

    def tile_rows(self) -> tuple[list[str], list[str], list[str]]:
        """The lines before the loop over tiles, within it and after it by which the tiles of the
        first columns sum the rows of the left operand."""
        v, wide = self.v, self.v.bm // 4
        at = f"tile[k * {wide} + ((t / 4) ^ {_masked('(2 * (k / 4))', wide)})][t % 4]"
        mine = f"(n0 == 0) & (t < {v.bm})"
        each = [
            f"if ({mine}) {{", "  var part = Acc(0);",
            f"  for (var k = 0; k < {v.bk}; k++) {{ part += Acc({at}); }}", "  row += part;", "}",
        ]  # fmt: skip
        end = f"if ({mine} & (m0 + t < M)) {{ store_row(batch, m0 + t, row); }}"
        return ["var row = Acc(0);"], each, [end]

    def fills(self) -> list[str]:
        """The lines that fill both tiles: where there are as many blocks as threads, some threads
        load those of a, the others those of b."""
        v, out = self.v, list[str]()
        wides = [v.bm // 4, v.bn // 4]
        blocks = [w * (v.bk // 4) for w in wides]
        second = v.bk * wides[0]  # where the tile of b begins
        if sum(blocks) == v.threads:
            out += [f"if (t < {blocks[0]}) {{", *self.fill(self.a, wides[0], "t", 0), "} else {"]
            return [*out, *self.fill(self.b, wides[1], f"t - {blocks[0]}", second), "}"]
        for o, wide, n, begin in ((self.a, wides[0], blocks[0], 0),
                                  (self.b, wides[1], blocks[1], second)):  # fmt: skip
            for start in range(0, n, v.threads):
                out.append(f"if (t < {n - start}) {{" if n - start < v.threads else "{")
                out += [*self.fill(o, wide, f"t + {start}", begin), "}"]
        return out

    def fill(self, o: Operand, wide: int, block: str, begin: int) -> list[str]:
        """The lines that put block number `block` of an operand into its tile, which begins at
        `begin` and is `wide` vectors wide. Neighbouring threads read neighbours."""
        name, origin, fours = o.name, "m0" if o.name == "a" else "n0", self.v.bk // 4
        lines = [f"let i = {block};"]
        if o.along_k:
            lines += [f"let q = i % {fours};", f"let c = i / {fours};"]
            for x in range(4):
                lines.append(f"let r{x} = four_{name}(batch, {origin} + 4 * c + {x}, k0 + 4 * q);")
            values = [f"Vec({', '.join(f'r{y}.{x}' for y in range(4))})" for x in XYZW]
        else:
            lines += [f"let c = i % {wide};", f"let q = i / {wide};"]
            at = f"{origin} + 4 * c, k0 + 4 * q"
            values = [f"four_{name}(batch, {at} + {x})" for x in range(4)]
        lines.append(f"let at = {begin} + 4 * q * {wide} + (c ^ {_masked('(2 * q)', wide)});")
        for x, value in enumerate(values):
            value = f"vec4<f16>({value})" if self.half else value
            lines.append(f"tile[at + {x * wide}] = {value};")
        return ["  " + x for x in lines]

    def staged(self) -> list[str]:
        """The lines that store the results. They pass through workgroup memory, so that
        neighbouring threads store neighbours and the epilogue stands in the text once."""
        v = self.v
        wide, stage = v.bn // 4, "stage" if self.half else "tile"
        room = v.bk * (v.bm + v.bn) // (2 if self.half else 1)
        rows = min(1 << ((room // v.bn).bit_length() - 1), 4 * v.ty)
        turns = 4 * v.ty // rows  # for each four rows of a thread
        lines = [
            f"for (var turn = 0; turn < {turns * v.rm // 4}; turn++) {{",
            f"  if (4 * ty / {rows} == turn % {turns}) {{",
            f"    let at = 4 * ty % {rows} * {wide} + tx;",
        ]
        for part in range(v.rm // 4):
            puts = [
                f"{stage}[at + {i * wide + j * v.tx}] = acc{4 * part + i}_{4 * j};"
                for i in range(4) for j in range(v.rn // 4)
            ]  # fmt: skip
            lines += [
                f"    if (turn / {turns} == {part}) {{",
                *["      " + p for p in puts],
                "    }",
            ]
        inside = ["(m < M)"] * (not statically_divides(v.bm, self.m))
        inside += ["(n < N)"] * (not statically_divides(v.bn, self.n))
        store = f"store(batch, m, n, {stage}[i / 4][i % 4]);"
        begin, end = self.by_thread("i", rows * v.bn)
        return [
            *lines, "  }", "  workgroupBarrier();", *["  " + x for x in begin],
            f"    let m = m0 + turn * {rows} + i / {v.bn};",
            f"    let n = n0 + i % {v.bn};",
            f"    if ({' & '.join(inside)}) {{ {store} }}" if inside else f"    {store}",
            *["  " + x for x in end], "  workgroupBarrier();", "}",
        ]  # fmt: skip


def _masked(swap: str, wide: int) -> str:
    """An exchange of columns that stays within a tile `wide` vectors wide."""
    return swap if wide >= 8 else f"({swap} & {wide - 1})"


# --- how operands lie in memory


def _load_of(e: Expr) -> Load:
    """The load of an expression that reads most."""

    def elements(i: Load) -> Any:
        v = i.index_map[-1]
        return size_hint(math.prod(n for n, s in zip(v.shape, v.strides, strict=True) if s))

    return max([i for i in e.code if isinstance(i, Load)], key=elements)


def loaded_as(kernel: Kernel, v: TileConfig, exprs: Sequence[Expr]) -> list[tuple[Operand, Expr]]:
    """How operands of a product lie in memory. A buffer is bound as vectors only if all that read
    it can take them."""
    found = [_layout("b" if i else "a", e) for i, e in enumerate(exprs)]
    if v.form == "registers":  # single rows and columns don't begin at multiples of 4
        for i, o in enumerate(found):
            count, along = (v.rn, 1) if i else (v.rm, 2)
            if count < 4 and o.along != along:
                found[i] = Operand(o.name, along, False)
    for _ in found:  # what one can't take the other may not either
        if len({*found[1:]}) > 1:  # weights beside each other are read alike
            found[1:] = [o._replace(along=found[1].along, four=False) for o in found[1:]]
        scalar = {i.binding for i in kernel.code if isinstance(i, Load)}
        for o, e in zip(found, exprs, strict=True):
            scalar |= {i.binding for i in e.code if isinstance(i, Load) and not o.four}
        found = [
            o._replace(four=o.four and _load_of(e).binding not in scalar)
            for o, e in zip(found, exprs, strict=True)
        ]
    return list(zip(found, exprs, strict=True))


VECTORS = ("f32", "i32", "u32")  # types in registers


def _layout(name: str, e: Expr) -> Operand:
    """How an operand lies in memory, as far as it alone decides: as vectors if it is computed of
    one element of a buffer, at positions of which each four begin at a multiple of 4."""
    loads = [i for i in e.code if isinstance(i, Load)]
    if not loads:
        return Operand(name, 2, False)
    main = _load_of(e)
    at, valid = position(main.index_map, e.shape)
    terms = _summands(at)

    def step(d: int) -> Any:
        steps = [size_hint(_factor(x)) for x in terms if d in scalars.axes_of(x)]
        return min(steps, default=1 << 40)

    along = 1 if step(1) < step(2) else 2
    plain = [x for x in terms if _goes_on(x, along)]
    others = [x for x in terms if x not in plain]
    four = (
        len(loads) == len(plain) == 1
        and valid is None
        and main.dtype.compute in VECTORS
        and not any(isinstance(i, (InBounds, Apply)) and index_map_of(i) for i in e.code)
        and statically_divides(4, e.shape[along])
        and all(_stays(x, along) and statically_divides(4, _factor(x)) for x in others)
    )  # fmt: skip
    return Operand(name, along, four)


def _summands(x: Scalar) -> list[Scalar]:
    """What a position is the sum of."""
    return [y for a in x.args for y in _summands(a)] if x.op == "add" else [x]


def _goes_on(x: Scalar, along: int) -> bool:
    """Whether it grows by one within each four indices along an axis from a multiple of 4 on."""
    if x.op == "rem" and x.args[1].op == "const" and statically_divides(4, x.args[1].value):
        return _goes_on(x.args[0], along)
    return x.op == "index" and x.value == along


def _stays(x: Scalar, along: int) -> bool:
    """Whether it is the same for each four such indices."""
    if along not in scalars.axes_of(x):
        return True
    if x.op not in ("mul", "div", "rem") or x.args[1].op != "const":
        return False
    whole = x.op == "div" and statically_divides(4, x.args[1].value) and _goes_on(x.args[0], along)
    return whole or _stays(x.args[0], along)


def _factor(x: Scalar) -> Any:
    """By what a summand of a position is multiplied; a constant is its own."""
    if x.op == "const":
        return x.value
    return x.args[1].value if x.op == "mul" and x.args[1].op == "const" else 1


def _load4(name: str, e: Expr) -> str:
    """The function that loads four elements of an operand from an index on, at a multiple of 4 in
    its buffer, and computes of each what the operand is."""
    nest = loops_of(Kernel(e.shape, e.code, (), 0, 0))
    main, kind = _load_of(e), e.dtype.compute
    block, each = WgslBlock(nest), WgslBlock(nest)
    at = block.position(main.index_map)[0]
    block.lines.append(f"let w = b{main.binding}[({at}) / 4];")
    four = ", ".join(loaded_four("w", main.dtype))
    block.lines.append(f"let v = vec4<{main.dtype.compute}>({four});")
    text, value = "", "v"
    if len(e.code) > 1:
        for k, i in enumerate(e.code):
            if isinstance(i, Load):
                each.names[k] = "x"
            else:
                each.compute(Let(k))
        lines = [*each.lines, f"return {each.names[len(e.code) - 1]};"]
        of = name.replace("load4", "of")
        text = f"fn {of}(x: {main.dtype.compute}) -> {kind} {{\n{indented(lines)}}}\n"
        value = f"vec4<{kind}>({', '.join(f'{of}(v.{x})' for x in XYZW)})"
    lines = [*block.lines, f"return {value};"]
    return text + (
        f"fn {name}(i0: i32, i1: i32, i2: i32) -> vec4<{kind}> {{\n{indented(lines)}}}\n"
    )
