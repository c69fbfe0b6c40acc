"""From a Kernel (data) to a WGSL compute shader.

Binding b of a kernel is the variable `b0`, `b1`, …; after them comes, if the kernel has scalars, a
uniform block `params`, where the sizes that change follow. Indices are i32, so that a flipped or
padded view may pass below zero.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import math
import re
from collections.abc import Collection
from typing import Any, NamedTuple

from pyframe.codegen.wgsl import library, scalars
from pyframe.codegen.wgsl.block import (
    FLAT,
    MAIN,
    THREADS,
    WgslBlock,
    epilogue,
    fours as fours_of,
    indented,
    loaded_four,
    operand,
    packed_access,
    statements,
    stored_four,
    whole_access,
    whole_words,
)
from pyframe.codegen.wgsl.reduction import reduction_kernel
from pyframe.core.dtypes import PACKED
from pyframe.core.limits import WEBGPU_LIMITS, Limits
from pyframe.core.op import REGISTRY, Grid, KernelSpec, grid_1d
from pyframe.core.sizes import SymbolicSize, is_symbolic, is_symbolic_size, statically_divides
from pyframe.core.view import is_contiguous
from pyframe.graph.loops import Let, LoopNest, Write, axes_of, nest as loops_of
from pyframe.graph.program import (
    Apply,
    InBounds,
    Kernel,
    Load,
    Reduce,
    ScalarParam,
    Store,
    operands,
)

# Modules that print all the text of a kernel by hand: `product` gives its text, its workgroups, the
# bindings that it reads as vectors, and by binding what writes whole words; `variants` what its
# variants are, by name.
KERNEL_GENERATORS = {"product": "products", "packed": "packed"}
# Elements of a map: so many keep a GPU busy also where a thread has four
VEC4_MIN_ELEMENTS = 1 << 17
MAX_FOURS = 64  # instructions of such a map, of which each stands in the text four times


class Shader(NamedTuple):
    """A compute shader: its text (entry point `main`), a label, its workgroups in x, y, z, and the
    sizes that change, which it reads after its scalars."""

    code: str
    label: str
    grid: tuple[int, int, int]
    sizes: tuple[SymbolicSize, ...] = ()


@functools.lru_cache(maxsize=4096)
def generate(kernel: Kernel, limits: Limits = WEBGPU_LIMITS) -> Shader:
    """The shader of `kernel` for a device of these limits; equal kernels give equal text."""
    nest, scalars.printed.sizes = loops_of(kernel), {}
    if nest.size(0) == 0:
        return Shader("", label(kernel), (0, 0, 0))
    fours: Collection[int] = ()
    whole: dict[int, str] = {}
    if kernel.routine is not None:
        body, grid, fours, whole = _routine(kernel, limits)
    elif len(nest.levels) > 1:
        body, grid, whole = reduction_kernel(nest, limits)
    else:
        fours = _fours(kernel, nest, limits)
        body, grid = _map(nest, fours)
    sizes = tuple(scalars.printed.sizes)
    words = kernel.params + len(sizes)
    head = _bindings(kernel, words, fours, whole) + scalars.reads(kernel.params, len(sizes))
    code = library.with_includes(head + _naming_all(kernel, body), scalars.definition)
    if "c64" in code:
        code = "alias c64 = vec2<f32>;\n" + code
    if "f16" in code:
        code = "enable f16;\n" + code
    return Shader(code, label(kernel), grid, sizes)


def _naming_all(kernel: Kernel, body: str) -> str:
    """`body` with each binding in it: the automatic layout drops those that nothing names."""
    names = [f"b{b}" for b in range(kernel.bindings)] + ["params"] * bool(kernel.params)
    named = set(re.findall(r"\b(?:b\d+|params)\b", re.sub(r"\b(?:get|put)(\d+)", r"b\1", body)))
    unused = [n for n in names if n not in named]
    if not unused:
        return body
    start = body.index("{\n", body.index("fn main(")) + 2
    return body[:start] + "".join(f"  _ = &{n};\n" for n in unused) + body[start:]


def label(kernel: Kernel) -> str:
    """A name that says what a kernel computes, for debugging and profiles."""
    names = [i.op for i in kernel.code if isinstance(i, (Apply, Reduce))]
    reductions = [i.op for i in kernel.code if isinstance(i, Reduce)]
    if kernel.routine is not None:
        name = kernel.routine.name
        names += [i.op for e in kernel.routine.operands for i in e.code if isinstance(i, Apply)]
    else:
        name = reductions[-1] if reductions else names[-1] if names else "copy"
        names = names[1:]
    space = "x".join(["n" if is_symbolic_size(n) else str(n) for n in kernel.space])
    return f"{name}[{space}]" + (f"+{len(names)}" if names else "")


def _bindings(kernel: Kernel, words: int, fours: Collection[int], whole: dict[int, str]) -> str:
    """The declarations of the kernel's buffers, those of `fours` as vectors, those of `whole` with
    these functions to write to them, and of so many words of scalars."""
    written = {s.binding: s.dtype.storage or "f32" for s in kernel.stores}
    read: dict[int, str] = {}
    operands = kernel.routine.operands if kernel.routine else ()
    for code in (kernel.code, *[e.code for e in operands]):
        for i in code:
            if isinstance(i, Load):
                read[i.binding] = i.dtype.storage or "f32"
    kinds = written | read
    lines, access = [], ""
    for b in range(kernel.bindings):
        kind, mode = kinds[b], "read_write" if b in written else "read"
        if b in fours:
            kind = fours_of(kind)
        elif kind in PACKED:
            shared = b in written and b not in whole
            if b in read or shared:
                access += packed_access(b, kind, shared)
            access += whole.get(b, "")
            kind = "atomic<u32>" if shared else "u32"
        lines.append(f"@group(0) @binding({b}) var<storage, {mode}> b{b}: array<{kind}>;")
    if words:
        kind = f"array<vec4<u32>, {-(-words // 4)}>"
        lines.append(f"@group(0) @binding({kernel.bindings}) var<uniform> params: {kind};")
    return "\n".join(lines) + "\n" + access


def _fours(kernel: Kernel, nest: LoopNest, limits: Limits) -> set[int]:
    """The bindings of a map that a thread reads and writes four elements of at once, as vectors:
    those whose neighbours lie side by side, begin at such places and are used in no other way.
    None where some are neither that nor the same for all four, and of maps that are small, unless
    four are then drawn at once. Where words can be written whole that is done: what neighbours read
    may then lie anywhere, and where rows are no multiple of four all lies in their order."""
    space, size = nest.space, nest.size(0)
    if len(nest.levels) > 1 or not space or is_symbolic(space) or len(kernel.code) > MAX_FOURS:
        return set()
    numbered = [i for i in kernel.code if isinstance(i, Apply) and i.index is not None]
    packed = any(s.dtype.packed > 1 for s in kernel.stores)
    many = size >= VEC4_MIN_ELEMENTS and not limits.alone
    rows = space[-1] % 4 == 0
    if not (packed or (rows and (many or any(_four_of(i) for i in numbered)))):
        return set()
    if size % 4 and any(s.dtype.packed < 4 for s in kernel.stores):
        return set()
    apart: set[int] = set()
    together: set[int] = set()
    for i in (*kernel.code, *kernel.stores):
        where = i.index if isinstance(i, Apply) else getattr(i, "index_map", None)
        if where is None:
            continue
        whole, v = False, where[-1]
        if not isinstance(i, InBounds) and len(where) == 1 and v.mask is None:
            if rows:
                whole = v.strides[-1] == 1 and not any(n % 4 for n in (v.offset, *v.strides[:-1]))
            else:
                whole = is_contiguous(where) and v.shape == space
        if isinstance(i, Load) and not (whole and size % 4 == 0):
            plain = len(where) == 1 and v.mask is None and not v.strides[-1]
            if not packed and not plain:
                return set()
            apart.add(i.binding)
        elif isinstance(i, InBounds):
            if not packed:
                return set()
        elif not whole or (isinstance(i, (Load, Store)) and i.dtype.storage == "c64"):
            return set()
        elif isinstance(i, (Load, Store)):
            together.add(i.binding)
    written = [s.binding for s in kernel.stores]
    if apart & set(written) or len({*written}) < len(written) or (apart & together and not packed):
        return set()
    return together - apart


def _four_of(i: Apply) -> str:
    """The function that gives four neighbouring results of an op that takes the index, from a
    multiple of four on, or ''."""
    meaning = scalars.computed(REGISTRY[i.op], ("u32",) * len(i.args), i.dtype)
    name = f"pf_{meaning.value}_four"
    return name if meaning.op == "call" and name in library.functions() else ""


def _map_of_fours(nest: LoopNest, fours: Collection[int]) -> tuple[str, Grid]:
    """The text of a map whose threads have four neighbours each, and its workgroups. Within a row
    their last indices are apart; else each has indices of its own."""
    size, axes = nest.size(0), frozenset(range(len(nest.space)))
    rows = nest.space[-1] % 4 == 0
    own = frozenset([len(nest.space) - 1]) if rows else axes
    lanes = [WgslBlock(nest, f"at_{n}" if n else "at") for n in range(4)]
    first, *others = lanes
    for n, lane in enumerate(others, 1):
        lane.lines, lane.let = first.lines, first.let
        lane.own, lane.ending = own, f"_{n}"
    alike: set[int] = set()  # instructions that give the same for all four
    for st in nest.body:
        if isinstance(st, Write):
            s = nest.stores[st.store]
            four = stored_four([lane.names[s.value] for lane in lanes], s.dtype)
            word = f"b{s.binding}[({first.position(s.index_map)[0]}) >> 2u]"
            if size % 4:  # the last word may have neighbours
                four, kept = first.let(four), (0xFFFFFFFF << 8 * (size % 4)) & 0xFFFFFFFF
                merged = f"({word} & {kept}u) | ({four} & {kept ^ 0xFFFFFFFF}u)"
                first.lines.append(f"if (at > {size - 4}) {{ {word} = {merged}; }} else {{")
                four += "; }"
            first.lines.append(f"{word} = {four}" + ("" if size % 4 else ";"))
            continue
        assert isinstance(st, Let)
        i = nest.code[st.value]
        if isinstance(i, Load) and i.binding in fours:
            v = first.let(f"b{i.binding}[({first.position(i.index_map)[0]}) >> 2u]")
            for lane, value in zip(lanes, loaded_four(v, i.dtype), strict=True):
                lane.names[st.value] = lane.let(value)
        elif isinstance(i, Apply) and i.index is not None:
            at = first.let(first.position(i.index)[0])
            if alike.issuperset(i.args) and (function := _four_of(i)) and rows:
                args = [first.names[a] for a in i.args]
                v = first.let(f"{function}({', '.join([*args, at])})")
                for lane, part in zip(lanes, "xyzw", strict=True):
                    lane.names[st.value] = f"{v}.{part}"
            else:
                for n, lane in enumerate(lanes):
                    args = [*[lane.names[a] for a in i.args], f"({at} + {n})"]
                    text = scalars.text_of(first.meaning(i), args, lane.let)
                    lane.names[st.value] = lane.let(text)
        elif alike.issuperset(operands(i)) and not (
            isinstance(i, (Load, InBounds)) and axes_of(i.index_map) & own
        ):
            alike.add(st.value)
            first.compute(st)
            for lane in others:
                lane.names[st.value] = first.names[st.value]
        else:
            for lane in lanes:
                lane.compute(st)
    begin = [FLAT.format(n=THREADS), f"if (flat >= {-(-size // 4)}) {{ return; }}"]
    begin.append("let at = 4 * flat;")
    indices = []
    for n, lane in enumerate(others, 1):
        if any(lane.flat in line for line in first.lines) or (lane.axes and not rows):
            end = f"min(at + {n}, {size - 1})" if size % 4 else f"at + {n}"
            indices.append(f"let {lane.flat} = {end};")
        if rows:
            indices += [f"let i{d}_{n} = i{d} + {n};" for d in lane.axes & own]
            first.axes |= lane.axes
        else:
            indices += [lane.renamed(line) for line in lane.indices(lane.flat)]
    lines = [*begin, *first.indices("at"), *indices, *first.lines]
    return MAIN.format(n=THREADS) + indented(lines) + "}\n", grid_1d(-(-size // (4 * THREADS)))


def _map(nest: LoopNest, fours: Collection[int]) -> tuple[str, Grid]:
    """The text of a kernel without reductions, a thread for each index, and its workgroups."""
    if fours:
        return _map_of_fours(nest, fours)
    size = nest.size(0)
    block = WgslBlock(nest, "flat")
    statements(nest, block)
    begin = [FLAT.format(n=THREADS), f"if (flat >= {scalars.count(size)}) {{ return; }}"]
    lines = [*begin, *block.indices("flat"), *block.lines]
    return MAIN.format(n=THREADS) + indented(lines) + "}\n", grid_1d(-(-size // THREADS))


# --- routines: a file of shaders/, with generated loads and an epilogue before its stores


def _call(kernel: Kernel, limits: Limits) -> KernelSpec:
    assert kernel.routine is not None
    name, attrs, operands, dtype = kernel.routine
    op = REGISTRY[name]
    shapes = tuple([e.shape for e in operands])
    results = (kernel.space,) if op.results is None else op.results(*shapes, *attrs)
    return KernelSpec(
        kernel.space, shapes, dtype, tuple([e.dtype for e in operands]), results,
        dict(zip(op.attrs, attrs, strict=False)), limits,
    )  # fmt: skip


def _printing(kernel: str) -> Any:
    """The module that prints a kernel of KERNEL_GENERATORS."""
    return importlib.import_module(f"pyframe.codegen.wgsl.{KERNEL_GENERATORS[kernel]}")


def variants(kernel: Kernel, limits: Limits) -> dict[str, Any]:
    """The variants that a kernel may have on a device of these limits, by name, the one that it has
    first: the fastest that was measured, or what the cost model says. Those that the driver has
    refused are none, unless it has refused all. Most kernels have none."""
    if kernel.routine is None:
        return {}
    name, how = kernel.routine.name, REGISTRY[kernel.routine.name].kernel
    of = _printing(how).variants if isinstance(how, str) else how and how.variants
    if of is None:
        return {}
    found: dict[str, Any] = of(_call(kernel, limits))
    taken = {k: v for k, v in found.items() if (name, k) not in limits.refused} or found
    fastest = dict(limits.tuned).get(key(kernel)) if limits.tuned else None
    return {fastest: taken[fastest], **taken} if fastest in taken else taken


def key(kernel: Kernel) -> str:
    """What tells a routine from others in any process: what it computes of operands that are read
    so, whatever comes after it. "" where sizes change."""
    assert kernel.routine is not None
    name, attrs, operands, dtype = kernel.routine
    if is_symbolic(kernel.routine):
        return ""
    numbers: dict[int, int] = {}  # of bindings, which what comes after counts among its own
    read = []
    for e in operands:
        code = [
            i._replace(binding=numbers.setdefault(i.binding, len(numbers)))
            if isinstance(i, Load)
            else i._replace(word=0) if isinstance(i, ScalarParam)
            else i
            for i in e.code
        ]  # fmt: skip
        read.append((e.shape, code, e.dtype))
    text = json.dumps((name, attrs, read, dtype), default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _routine(kernel: Kernel, limits: Limits) -> tuple[str, Grid, Collection[int], dict[int, str]]:
    """The text of a kernel written by hand with its loads and stores, its workgroups, the bindings
    that it reads as vectors, and by binding what writes whole words."""
    assert kernel.routine is not None
    op, operands, dtype = REGISTRY[kernel.routine.name], *kernel.routine[2:]
    assert op.kernel is not None
    call = _call(kernel, limits)
    if limits.tuned or limits.refused:
        found = variants(kernel, limits)
        call = call._replace(variant=next(iter(found.values()), None))
    if isinstance(op.kernel, str):
        made: tuple[str, Grid, Collection[int], dict[int, str]]
        made = _printing(op.kernel).product(kernel, call)
        return made
    constants, grid = op.kernel.plan(call)
    words: list[Store] = []
    if (sizes := constants.pop("NEIGHBOURS", None)) is not None:
        words = whole_words(kernel.stores, kernel.space)
        words = [s for s in words if all(statically_divides(s.dtype.packed, x) for x in sizes)]
    each = max([s.dtype.packed for s in words], default=1)
    code = f"alias Acc = {dtype.compute};\n"
    for name, e in zip(op.inputs, operands, strict=True):
        code += operand(f"load_{name}", e)
    code += epilogue(kernel, dtype)
    if sizes is not None:  # else EACH, if the file has it, is the plan's own
        constants["EACH"] = each
    text = library.specialise(op.kernel.file, constants, scalars.count)
    size = constants.get("SIZE")
    if "fn element(" in text:
        text += _elements(each, scalars.count(size))
    if each > 1 and size is not None:
        grid = grid_1d(-(-size // (THREADS * each)))
    size = math.prod(kernel.space)
    return code + text, grid, (), {s.binding: whole_access(s, size) for s in words}


def _elements(each: int, size: str) -> str:
    """The text by which each thread does so many neighbouring elements of a file's."""
    lines = [FLAT.format(n=THREADS), f"if (flat < {size}) {{ element(flat); }}"]
    if each > 1:
        lines[1:] = [
            f"let end = min({each} * flat + {each}, {size});",
            f"for (var i = {each} * flat; i < end; i++) {{ element(i); }}",
        ]
    return MAIN.format(n=THREADS) + indented(lines) + "}\n"
