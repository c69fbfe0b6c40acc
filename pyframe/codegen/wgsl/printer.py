"""From a Kernel (data) to a WGSL compute shader.

Binding b of a kernel is the variable `b0`, `b1`, …; after them comes, if the kernel has scalars, a
uniform block `params`, where the sizes that change follow. Indices are i32, so that a flipped or
padded view may pass below zero.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from pyframe.codegen.wgsl import library, products, scalars
from pyframe.codegen.wgsl.block import (
    FLAT,
    MAIN,
    THREADS,
    Block,
    epilogue,
    fours as fours_of,
    indented,
    loaded_four,
    operand,
    packed_access,
    statements,
    stored_four,
)
from pyframe.codegen.wgsl.reduction import reduction_kernel
from pyframe.core.dtypes import PACKED
from pyframe.core.limits import LEAST, Limits
from pyframe.core.op import REGISTRY, Grid, KernelCall, in_a_line
from pyframe.core.sizes import SymbolicSize, changes, is_symbolic
from pyframe.graph.loops import Let, Nest, Write, nest as loops_of
from pyframe.graph.program import Apply, Kernel, Load, Param, Reduce, Store, Valid, operands


class Printed(NamedTuple):
    """What prints all the text of a kernel by hand: its text, its workgroups, and the bindings that
    it reads as vectors; and what its variants are, by name."""

    text: Callable[[Kernel, KernelCall], tuple[str, Grid, frozenset[int]]]
    variants: Callable[[KernelCall], dict[str, Any]]


PRINTED = {"product": Printed(products.product, products.variants)}
FOURS = 1 << 17  # elements of a map: so many keep a GPU busy also where a thread has four
MAX_FOURS = 64  # instructions of such a map, of which each stands in the text four times


class Shader(NamedTuple):
    """A compute shader: its text (entry point `main`), a label, its workgroups in x, y, z, and the
    sizes that change, which it reads after its scalars."""

    code: str
    label: str
    grid: tuple[int, int, int]
    sizes: tuple[SymbolicSize, ...] = ()


@functools.lru_cache(maxsize=4096)
def generate(kernel: Kernel, limits: Limits = LEAST) -> Shader:
    """The shader of `kernel` for a device of these limits; equal kernels give equal text."""
    nest, scalars.printed.sizes = loops_of(kernel), {}
    if nest.size(0) == 0:
        return Shader("", label(kernel), (0, 0, 0))
    fours: Collection[int] = ()
    if kernel.routine is not None:
        body, grid, fours = _routine(kernel, limits)
    else:
        fours = _fours(kernel, nest, limits)
        body, grid = reduction_kernel(nest, limits) if len(nest.levels) > 1 else _map(nest, fours)
    sizes = tuple(scalars.printed.sizes)
    words = kernel.params + len(sizes)
    head = _bindings(kernel, words, fours) + scalars.reads(kernel.params, len(sizes))
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
    space = "x".join(["n" if changes(n) else str(n) for n in kernel.space])
    return f"{name}[{space}]" + (f"+{len(names)}" if names else "")


def _bindings(kernel: Kernel, words: int, fours: Collection[int]) -> str:
    """The declarations of the kernel's buffers, those of `fours` as vectors, and of so many words
    of scalars."""
    written = {s.binding: s.dtype.storage or "f32" for s in kernel.stores}
    kinds = written.copy()
    operands = kernel.routine.operands if kernel.routine else ()
    for code in (kernel.code, *[e.code for e in operands]):
        for i in code:
            if isinstance(i, Load):
                kinds[i.binding] = i.dtype.storage or "f32"
    lines, access = [], ""
    for b in range(kernel.bindings):
        kind, mode = kinds[b], "read_write" if b in written else "read"
        if b in fours:
            kind = fours_of(kind)
        elif kind in PACKED:
            access += packed_access(b, kind, b in written)
            kind = "atomic<u32>" if b in written else "u32"
        lines.append(f"@group(0) @binding({b}) var<storage, {mode}> b{b}: array<{kind}>;")
    if words:
        kind = f"array<vec4<u32>, {-(-words // 4)}>"
        lines.append(f"@group(0) @binding({kernel.bindings}) var<uniform> params: {kind};")
    return "\n".join(lines) + "\n" + access


def _fours(kernel: Kernel, nest: Nest, limits: Limits) -> set[int]:
    """The bindings of a map that a thread reads and writes four elements of at once, as vectors:
    those whose neighbours lie side by side, begin at such places and are used in no other way.
    None where some are neither that nor the same for all four, and of maps that are small, unless
    four are then drawn at once, or words written whole."""
    space = nest.space
    if len(nest.levels) > 1 or not space or is_symbolic(space) or space[-1] % 4:
        return set()
    numbered = [i for i in kernel.code if isinstance(i, Apply) and i.index is not None]
    many = nest.size(0) >= FOURS and not limits.alone
    better = any(_four_of(i) for i in numbered) or any(s.dtype.packed > 1 for s in kernel.stores)
    if not (many or better) or len(kernel.code) > MAX_FOURS:
        return set()
    apart: set[int] = set()
    together: set[int] = set()
    for i in (*kernel.code, *kernel.stores):
        if isinstance(i, Param) or (isinstance(i, Apply) and i.index is None):
            continue
        where = i.index if isinstance(i, Apply) else getattr(i, "index_map", None)
        if where is None or isinstance(i, Valid) or len(where) > 1 or where[0].mask is not None:
            return set()
        (v,) = where
        whole = v.strides[-1] == 1 and not any(n % 4 for n in (v.offset, *v.strides[:-1]))
        if not whole and (v.strides[-1] or not isinstance(i, Load)):
            return set()
        if isinstance(i, (Load, Store)):
            if i.dtype.storage == "c64":
                return set()
            (together if whole else apart).add(i.binding)
    return set() if apart & together else together


def _four_of(i: Apply) -> str:
    """The function that gives four neighbouring results of an op that takes the index, from a
    multiple of four on, or ''."""
    meaning = scalars.computed(REGISTRY[i.op], ("u32",) * len(i.args), i.dtype)
    name = f"pf_{meaning.value}_four"
    return name if meaning.op == "call" and name in library.functions() else ""


def _map_of_fours(nest: Nest, fours: Collection[int]) -> tuple[str, Grid]:
    """The text of a map whose threads have four neighbours each, and its workgroups."""
    size = nest.size(0) // 4
    lanes = [Block(nest, "at") for _ in "xyzw"]
    first, *others = lanes
    for lane in others:
        lane.lines, lane.let, lane.positions = first.lines, first.let, first.positions
    alike: set[int] = set()  # instructions that give the same for all four
    for st in nest.body:
        if isinstance(st, Write):
            s = nest.stores[st.store]
            four = stored_four([lane.names[s.value] for lane in lanes], s.dtype)
            at = first.position(s.index_map)[0]
            first.lines.append(f"b{s.binding}[({at}) >> 2u] = {four};")
            continue
        assert isinstance(st, Let)
        i = nest.code[st.value]
        if isinstance(i, Load) and i.binding in fours:
            v = first.let(f"b{i.binding}[({first.position(i.index_map)[0]}) >> 2u]")
            for lane, value in zip(lanes, loaded_four(v, i.dtype), strict=True):
                lane.names[st.value] = lane.let(value)
        elif isinstance(i, Apply) and i.index is not None:
            at = first.let(first.position(i.index)[0])
            if alike.issuperset(i.args) and (function := _four_of(i)):
                args = [first.names[a] for a in i.args]
                v = first.let(f"{function}({', '.join([*args, at])})")
                for lane, part in zip(lanes, "xyzw", strict=True):
                    lane.names[st.value] = f"{v}.{part}"
            else:
                for n, lane in enumerate(lanes):
                    args = [*[lane.names[a] for a in i.args], f"({at} + {n})"]
                    text = scalars.text_of(first.meaning(i), args, lane.let)
                    lane.names[st.value] = lane.let(text)
        elif alike.issuperset(operands(i)):
            alike.add(st.value)
            first.compute(st)
            for lane in others:
                lane.names[st.value] = first.names[st.value]
        else:
            for lane in lanes:
                lane.compute(st)
    begin = [FLAT.format(n=THREADS), f"if (flat >= {size}) {{ return; }}", "let at = 4 * flat;"]
    lines = [*begin, *first.indices("at"), *first.lines]
    return MAIN.format(n=THREADS) + indented(lines) + "}\n", in_a_line(-(-size // THREADS))


def _map(nest: Nest, fours: Collection[int]) -> tuple[str, Grid]:
    """The text of a kernel without reductions, a thread for each index, and its workgroups."""
    if fours:
        return _map_of_fours(nest, fours)
    size = nest.size(0)
    block = Block(nest, "flat")
    statements(nest, block)
    begin = [FLAT.format(n=THREADS), f"if (flat >= {scalars.count(size)}) {{ return; }}"]
    lines = [*begin, *block.indices("flat"), *block.lines]
    return MAIN.format(n=THREADS) + indented(lines) + "}\n", in_a_line(-(-size // THREADS))


# --- routines: a file of shaders/, with generated loads and an epilogue before its stores


def _call(kernel: Kernel, limits: Limits) -> KernelCall:
    assert kernel.routine is not None
    name, attrs, operands, dtype = kernel.routine
    op = REGISTRY[name]
    shapes = tuple([e.shape for e in operands])
    results = (kernel.space,) if op.results is None else op.results(*shapes, *attrs)
    return KernelCall(
        kernel.space, shapes, dtype, tuple([e.dtype for e in operands]), results,
        dict(zip(op.attrs, attrs, strict=False)), limits,
    )  # fmt: skip


def variants(kernel: Kernel, limits: Limits) -> dict[str, Any]:
    """The variants that a kernel may have on a device of these limits, by name, the one that it has
    first: the fastest that was measured, or what the cost model says. Those that the driver has
    refused are none, unless it has refused all. Most kernels have none."""
    if kernel.routine is None:
        return {}
    name, how = kernel.routine.name, REGISTRY[kernel.routine.name].kernel
    of = PRINTED[how].variants if isinstance(how, str) else how and how.variants
    if of is None:
        return {}
    found = of(_call(kernel, limits))
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
            else i._replace(word=0) if isinstance(i, Param)
            else i
            for i in e.code
        ]  # fmt: skip
        read.append((e.shape, code, e.dtype))
    text = json.dumps((name, attrs, read, dtype), default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _routine(kernel: Kernel, limits: Limits) -> tuple[str, Grid, frozenset[int]]:
    """The text of a kernel written by hand with its loads and stores, its workgroups, and the
    bindings that it reads as vectors."""
    assert kernel.routine is not None
    op, operands, dtype = REGISTRY[kernel.routine.name], *kernel.routine[2:]
    assert op.kernel is not None
    call = _call(kernel, limits)
    if limits.tuned or limits.refused:
        found = variants(kernel, limits)
        call = call._replace(variant=next(iter(found.values()), None))
    if isinstance(op.kernel, str):
        return PRINTED[op.kernel].text(kernel, call)
    constants, grid = op.kernel.plan(call)
    code = f"alias Acc = {dtype.compute};\n"
    for name, e in zip(op.inputs, operands, strict=True):
        code += operand(f"load_{name}", e)
    code += epilogue(kernel, dtype)
    text = library.specialise(op.kernel.file, constants, scalars.count)
    return code + text, grid, frozenset()
