"""Products with packed weights (nn/quantized.py lays them out), unpacked as they are loaded.

Of floats they are products as codegen/wgsl/products.py prints them. Of ints of 8 bits a thread
sums the products of a group as ints, four at once where the language has `dot4I8Packed`.
"""

from __future__ import annotations

from collections.abc import Collection

from pyframe.codegen.wgsl import library, products, scalars
from pyframe.codegen.wgsl.block import beside, epilogue, indented, operand
from pyframe.codegen.wgsl.products import ASSUMED_SIZE, TileConfig
from pyframe.core import dtypes as dt
from pyframe.core.op import Grid, KernelSpec, grid_1d
from pyframe.core.sizes import is_symbolic_size, tuning_hint
from pyframe.core.view import is_contiguous
from pyframe.graph.program import Expr, Kernel, Load

# four elements of a row of the weight from `k` on
LOAD = """fn load4_b(batch: i32, k: i32, n: i32) -> Vec {{
  let group = k / {group};
  let word = load_packed(n, group, k % {group} / {ints});
  let q = (vec4<i32>(word) << (vec4<u32>({ups}){half})) >> vec4<u32>({down}u);
  return Vec(q) * load_scale(n, group){offset};
}}
"""
# a total and the products of four ints in each of two words
DOT = """fn dot_of(a: u32, b: u32, total: i32) -> i32 {
  let up = vec4<u32>(24u, 16u, 8u, 0u);
  let x = (vec4<i32>(bitcast<i32>(a)) << up) >> vec4<u32>(24u);
  let y = (vec4<i32>(bitcast<i32>(b)) << up) >> vec4<u32>(24u);
  return total + dot(x, y);
}
"""
DOT_PACKED = """fn dot_of(a: u32, b: u32, total: i32) -> i32 { return total + dot4I8Packed(a, b); }
"""
HEAD = """@compute @workgroup_size({threads})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {{
"""


def _sizes(call: KernelSpec) -> tuple[int, int, int, int]:
    """(1, m, n, k)."""
    _, m, k = call.operands[0]
    return 1, m, call.shape[2], k


def variants(call: KernelSpec) -> dict[str, TileConfig]:
    """Those of the product; of ints there is one."""
    if call.dtypes[0] is dt.int8:
        return {}
    batch, m, n, k = _sizes(call)
    return products.variants(call._replace(operands=((batch, m, k), (batch, k, n))))


def product(kernel: Kernel, call: KernelSpec) -> tuple[str, Grid, Collection[int], dict[int, str]]:
    """The text of a product, its workgroups, the bindings that it reads as vectors, and by binding
    what writes whole words."""
    assert kernel.routine is not None
    (batch, m, n, k), bits = _sizes(call), call.attrs["bits"]
    x, *weight = kernel.routine.operands
    some = len(weight) // 3  # of each, where products stand beside each other
    loads = "".join(
        beside(operand, f"load_{name}", weight[i * some : (i + 1) * some], 0)
        for i, name in enumerate(("packed", "scale", "offset"))
        if name != "offset" or not call.attrs["symmetric"]
    )
    groups = call.operands[1 + some][1]
    if call.dtypes[0] is dt.int8:
        return _ints(kernel, call, loads, groups)
    offset = "" if call.attrs["symmetric"] else " + load_offset(n, group)"
    ups = ", ".join(f"{32 - bits - 8 * byte}u" for byte in range(4))
    half = "" if bits == 8 else " - 4u * u32(k / 4 % 2)"
    loads += LOAD.format(
        group=k // groups, ints=32 // bits, ups=ups, half=half, down=32 - bits,
        offset=offset,
    )  # fmt: skip
    v = call.variant or products.chosen(m, n, k, batch, call.limits)
    found = products.loaded_as(kernel, v, [x])
    return products.printed(kernel, call, v, (batch, m, n, k), found, loads)


def _word(e: Expr) -> str:
    """The function that gives a word of four ints of a row of x."""
    (first, *more), width = e.code, e.shape[2]
    if isinstance(first, Load) and not more and is_contiguous(first.index_map):
        words = f"m * {width // 4} + at"
        return f"fn word_x(m: i32, at: i32) -> u32 {{ return b{first.binding}[{words}]; }}\n"
    each = [f"(bitcast<u32>(load_x(0, m, 4 * at + {i})) & 255u) << {8 * i}u" for i in range(4)]
    four = " | ".join(f"({x})" for x in each)
    return operand("load_x", e) + (f"fn word_x(m: i32, at: i32) -> u32 {{ return {four}; }}\n")


def _ints(
    kernel: Kernel, call: KernelSpec, loads: str, groups: int
) -> tuple[str, Grid, Collection[int], dict[int, str]]:
    assert kernel.routine is not None
    (_, m, n, k), bits, symmetric = _sizes(call), call.attrs["bits"], call.attrs["symmetric"]
    rows = tuning_hint(m, ASSUMED_SIZE)
    if call.limits.alone:
        threads, lanes, rm, rn = 16, 1, min(rows, 4), 4
    elif rows <= 8:
        threads, lanes, rm, rn = 64, 16, rows, 1
    else:
        threads, lanes, rm, rn = 64, 1, 4, 4
    across, pairs = -(-n // rn), [(i, j) for i in range(rm) for j in range(rn)]
    halves = 8 // bits
    text = f"alias Acc = {call.dtype.compute};\n" + loads
    text += DOT_PACKED if call.limits.dots else DOT
    text += _word(kernel.routine.operands[0])
    text += epilogue(kernel, call.dtype, by_index=True)
    inner = [f"let w{j} = bitcast<u32>(load_packed(n{j}, g, w));" for j in range(rn)]
    for j in range(rn if bits == 4 else 0):
        inner += [f"let w{j}_0 = (w{j} << 4u) & 0xf0f0f0f0u;", f"let w{j}_1 = w{j} & 0xf0f0f0f0u;"]
    words = k // groups // 4 // halves
    for h in range(halves):
        at = f"{halves} * (g * {words} + w) + {h}"
        inner += [f"let x{i}_{h} = word_x(m{i}, {at});" for i in range(rm)]
        word = [f"w{j}" if bits == 8 else f"w{j}_{h}" for j in range(rn)]
        inner += [f"acc{i}_{j} = dot_of(x{i}_{h}, {word[j]}, acc{i}_{j});" for i, j in pairs]
        if not symmetric:
            inner += [f"sum{i} = dot_of(x{i}_{h}, 0x01010101u, sum{i});" for i in range(rm)]
    body = [f"var acc{i}_{j} = 0;" for i, j in pairs]
    body += [f"var sum{i} = 0;" for i in range(rm)] * (not symmetric)
    body += [f"for (var w = 0; w < {words}; w++) {{", *["  " + x for x in inner], "}"]
    for j in range(rn):  # ints of 4 bits are 16 times what they are
        body.append(f"let s{j} = load_scale(n{j}, g){' * 0.0625' * (bits == 4)};")
        body += [f"total{i}_{j} += Acc(acc{i}_{j}) * s{j};" for i in range(rm)]
        if not symmetric:
            body.append(f"let o{j} = load_offset(n{j}, g);")
            body += [f"total{i}_{j} += Acc(sum{i}) * o{j};" for i in range(rm)]
    lines = [
        "let t = i32(local);", f"let lane = t % {lanes};",
        f"let tile = i32(group.x + group.y * groups.x) * {threads // lanes} + t / {lanes};",
        f"let top = tile / {across} * {rm};", f"let left = tile % {across} * {rn};",
        *[f"let m{i} = min(top + {i}, M - 1);" for i in range(rm)],
        *[f"let n{j} = min(left + {j}, {n - 1});" for j in range(rn)],
        *[f"var total{i}_{j} = Acc(0);" for i, j in pairs],
        f"for (var g = lane; g < {groups}; g += {lanes}) {{", *["  " + x for x in body], "}",
    ]  # fmt: skip
    if lanes > 1:
        text += f"var<workgroup> shared_totals: array<Acc, {threads * len(pairs)}>;\n"
        mine = [f"shared_totals[{threads * x} + t" for x in range(len(pairs))]
        lines += [f"{a}] = total{i}_{j};" for a, (i, j) in zip(mine, pairs, strict=True)]
        lines += [
            "workgroupBarrier();", f"for (var half = {lanes // 2}; half > 0; half /= 2) {{",
            "  if (lane < half) {", *[f"    {a}] += {a} + half];" for a in mine], "  }",
            "  workgroupBarrier();", "}", "if (lane > 0) { return; }",
            *[f"total{i}_{j} = {a}];" for a, (i, j) in zip(mine, pairs, strict=True)],
        ]  # fmt: skip
    lines.append(f"var totals: array<Acc, {len(pairs)}>;")  # so that `store` is inlined once
    lines += [f"totals[{x}] = total{i}_{j};" for x, (i, j) in enumerate(pairs)]
    lines += [
        f"for (var i = 0; i < {len(pairs)}; i++) {{",
        f"  let m = top + i / {rn};", f"  let n = left + i % {rn};",
        f"  if ((m < M) & (n < {n})) {{ store(0, m, n, totals[i]); }}", "}",
    ]  # fmt: skip
    text += HEAD.format(threads=threads) + indented(lines) + "}\n"
    text = (
        library.named(text, {"M": scalars.count(m)})
        if is_symbolic_size(m)
        else f"const M = {m};\n" + text
    )
    tiles = across * -(-m // rm)
    return text, grid_1d(-(-tiles // (threads // lanes))), (), {}
