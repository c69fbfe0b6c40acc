"""Statements of a kernel's loops as lines of WGSL."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pyframe.codegen.wgsl import scalars
from pyframe.core import dtypes as dt
from pyframe.core.op import REGISTRY
from pyframe.core.sizes import is_symbolic, is_symbolic_size, statically_divides, statically_equal
from pyframe.core.view import IndexMap, Shape, contiguous, is_contiguous
from pyframe.graph.loops import INDEX, Let, LoopNest, Write, digit, nest as loops_of, position
from pyframe.graph.program import (
    Apply,
    Expr,
    ExternResult,
    InBounds,
    Kernel,
    Load,
    Reduce,
    RowSum,
    ScalarParam,
    Store,
    dtype_of,
    operands,
)
from pyframe.graph.scalar import Scalar

THREADS = 256  # of a workgroup


class WgslBlock:
    """Lines where the indices of the levels up to `level` are known, with the names of the values
    computed in them; a block within another sees what that has named before."""

    def __init__(self, nest: LoopNest, flat: str = "", parent: WgslBlock | None = None) -> None:
        self.nest, self.flat = nest, flat  # `flat`: the position in all the space, in row order
        self.level: int = 0 if parent is None else parent.level + 1
        self.lines: list[str] = []
        self.axes: set[int] = set()  # along which an index is asked for
        self.names: dict[int, str] = {} if parent is None else parent.names.copy()
        self.positions: dict[IndexMap, tuple[str, str]] = (
            {} if parent is None else parent.positions.copy()
        )
        # of a lane beside another: the axes along which it has indices of its own, and their ending
        self.own: frozenset[int] = frozenset()
        self.ending = ""
        self.tag: str = "t" if parent is None else parent.tag + "abcdefgh"[self.level]
        self.let = scalars.naming(self.lines, self.tag)

    def compute(self, st: Let) -> None:
        """The line of an instruction."""
        i = self.nest.code[st.value]
        args = [self.names[a] for a in operands(i)]
        self.names[st.value] = self.let(self.value(i, args))

    def value(self, i: Any, args: list[str]) -> str:
        """The text of an instruction's value; `args` are the names of what it takes."""
        if isinstance(i, Load):
            return self.load(i)
        if isinstance(i, ScalarParam):
            return _param(i)
        if isinstance(i, InBounds):
            return self.position(i.index_map)[1] or "true"
        if isinstance(i, Apply):
            if i.index is not None:
                args = [*args, self.let(self.position(i.index)[0])]
            return scalars.text_of(self.meaning(i), args, self.let)
        assert isinstance(i, Reduce), i  # along axes of size 1: others are made by a loop
        combine: Any = REGISTRY[i.op].combine
        return "0" if combine.arg else args[0]

    def meaning(self, i: Apply) -> Scalar:
        """What an op is for operands of the types that it has here."""
        types = tuple([dtype_of(self.nest.code[a]).compute or "f32" for a in i.args])
        return scalars.computed(REGISTRY[i.op], types, i.dtype)

    def load(self, i: Load) -> str:
        """The text that reads an element, as the type that kernels compute with; 0 in padding."""
        at, valid = self.position(i.index_map)
        kind = i.dtype.compute or "f32"
        if valid:  # the index is 0 where invalid, so that nothing is read out of bounds
            at = f"select(0, {at}, {valid})"
        text = loaded(element(i.binding, at, i.dtype), i.dtype)
        return f"select({scalars.literal(0, kind)}, {text}, {valid})" if valid else text

    def store(self, number: int) -> str:
        """The line of store `number`."""
        s = self.nest.stores[number]
        value, at = stored(self.names[s.value], s.dtype), self.position(s.index_map)[0]
        if s.dtype.packed > 1:
            return f"put{s.binding}({at}, {value});"
        return f"b{s.binding}[{at}] = {value};"

    def position(self, index_map: IndexMap) -> tuple[str, str]:
        """(flat position in the buffer, condition of validity or '') of an index map."""
        found = self.positions.get(index_map)
        if found is None:
            found = self.positions[index_map] = self._position(index_map)
        return found

    def _position(self, index_map: IndexMap) -> tuple[str, str]:
        space = self.nest.space
        if self.flat and in_order(index_map, space):
            return self.flat, ""
        at, valid = position(index_map, space)
        return self.text(at), "" if valid is None else self.let(self.text(valid))

    def text(self, x: Scalar) -> str:
        """The text of a Scalar over indices."""
        self.axes |= scalars.axes_of(x)
        begin = len(self.lines)
        text = scalars.text_of(x, (), self.let)
        if self.ending:
            self.lines[begin:] = [self.renamed(line) for line in self.lines[begin:]]
            text = self.renamed(text)
        return text

    def renamed(self, text: str) -> str:
        """A text with the names of indices that are the lane's own."""
        for d in self.own:
            text = re.sub(rf"\bi{d}\b", f"i{d}{self.ending}", text)
        return text

    def indices(self, flat: str) -> list[str]:
        """The lines that make a flat position over the axes of the block's level into the indices
        that are asked for."""
        axes = self.nest.levels[self.level]
        shape = tuple([self.nest.space[d] for d in axes])
        whole = Scalar("arg", (), INDEX, 0)
        return [
            f"let i{d} = {scalars.text_of(digit(whole, shape, k), [flat], _no_let)};"
            for k, d in enumerate(axes)
            if d in self.axes
        ]


def in_order(index_map: IndexMap, space: Shape, axes: Sequence[int] | None = None) -> bool:
    """Whether the elements over `space`, or over these axes of it, lie one after the other from the
    first on, for all sizes that a size which changes may be."""
    if axes is not None and len(index_map) == 1:
        v, space = index_map[0], tuple([space[d] for d in axes])
        strides = tuple([v.strides[d] for d in axes])
        index_map = (v._replace(shape=space, strides=strides),)
    if is_symbolic(index_map):
        return statically_equal(index_map, contiguous(space))
    return is_contiguous(index_map) and index_map[0].shape == space


def _no_let(text: str) -> str:
    raise AssertionError(f"{text} is needed once")


def _param(i: ScalarParam) -> str:
    word = f"params[{i.word // 4}][{i.word % 4}]"
    kind = i.dtype.compute
    if kind == "bool":
        return f"{word} != 0u"
    if i.dtype.storage == "f16":
        return f"unpack2x16float({word}).x"
    return word if kind == "u32" else f"bitcast<{kind}>({word})"


# --- elements in memory. Of a packed dtype several share a word, the first in the lowest bits.


def element(binding: int, at: str, dtype: dt.dtype) -> str:
    """The text that reads what `loaded` takes: an element, or bits with a packed one in the lowest
    of them."""
    return f"get{binding}({at})" if dtype.packed > 1 else f"b{binding}[{at}]"


def loaded(text: str, dtype: dt.dtype) -> str:
    """What lies in memory as a value to compute with."""
    kind, bits = dtype.compute or "f32", 32 // dtype.packed
    if dtype.packed == 1:
        return text if kind == dtype.storage else f"{kind}({text})"
    if kind == "f32":
        return f"bitcast<f32>(({text}) << 16u)"
    if kind == "i32":
        return f"bitcast<i32>(({text}) << {32 - bits}u) >> {32 - bits}u"
    whole = f"({text}) & {(1 << bits) - 1}u"
    return f"({whole}) != 0u" if kind == "bool" else whole


def stored(value: str, dtype: dt.dtype) -> str:
    """A computed value as it lies in memory, a packed one in the lowest bits of an u32."""
    kind, bits = dtype.compute, 32 // dtype.packed
    if dtype.packed == 1:
        return value if kind == dtype.storage else f"{dtype.storage}({value})"
    if kind == "f32":
        return f"pf_bits_of_bfloat16({value})"
    if kind == "bool":
        return f"select(0u, 1u, {value})"
    return f"{value if kind == 'u32' else f'bitcast<u32>({value})'} & {(1 << bits) - 1}u"


def fours(storage: str) -> str:
    """The type that holds four elements beside each other in a buffer."""
    words = -(-4 // dt.PACKED.get(storage, 1))
    kind = "u32" if storage in dt.PACKED else storage
    return kind if words == 1 else f"vec{words}<{kind}>"


def loaded_four(text: str, dtype: dt.dtype) -> list[str]:
    """Four elements that lie in `text`, a name, as values to compute with."""
    each = dtype.packed
    words = [f"{text}.{x}" for x in "xyzw"[: 4 // each]] if each < 4 else [text]
    bits = 32 // each
    parts = [w if each == 1 or not n else f"{w} >> {n * bits}u" for w in words for n in range(each)]
    return [loaded(part, dtype) for part in parts]


def stored_four(values: Sequence[str], dtype: dt.dtype) -> str:
    """Four computed values as they lie in memory."""
    each = dtype.packed
    parts = [stored(v, dtype) for v in values]
    if each > 1:
        parts = [
            f"({p})" + f" << {n % each * 32 // each}u" * (n % each > 0) for n, p in enumerate(parts)
        ]
        parts = [" | ".join(f"({p})" for p in parts[n : n + each]) for n in range(0, 4, each)]
    return f"{fours(dtype.storage or 'f32')}({', '.join(parts)})"


def whole_words(stores: Sequence[Store], space: Shape, flat: bool = True) -> list[Store]:
    """Those of packed elements whose words are of one thread each, where threads store neighbours
    along the last axis one after the other, from multiples of what a word has on. `flat`: they go
    on in the next row; else rows must be multiples."""
    bindings = [s.binding for s in stores]
    last = max((d for d, n in enumerate(space) if is_symbolic_size(n) or n != 1), default=0)
    out = []
    for s in stores:
        v, each = s.index_map[-1], s.dtype.packed
        if each > 1 and len(s.index_map) == 1 and bindings.count(s.binding) == 1 and space:
            others = (space[last], v.offset, *v.strides[:last])
            rows = statically_equal(v.strides[last], 1) and all(
                statically_divides(each, n) for n in others
            )
            if (rows and v.mask is None) or (flat and in_order(s.index_map, space)):
                out.append(s)
    return out


def packed_access(binding: int, storage: str, shared: bool) -> str:
    """The functions that read and write an element of a buffer of packed ones, where several
    threads may write to a word: `shared`. A thread turns those bits alone that become others."""
    bits = 32 // dt.PACKED[storage]
    shift, name = f"{bits}u * (u32(at) % {32 // bits}u)", f"b{binding}[at / {32 // bits}]"
    word = f"atomicLoad(&{name})" if shared else name
    text = f"fn get{binding}(at: i32) -> u32 {{ return {word} >> ({shift}); }}\n"
    if shared:
        text += (
            f"fn put{binding}(at: i32, v: u32) {{\n  let old = get{binding}(at);\n"
            f"  atomicXor(&{name}, ((old ^ v) & {(1 << bits) - 1}u) << ({shift}));\n}}\n"
        )
    return text


def whole_access(s: Store, size: Any) -> str:
    """The function that stores an element where a thread has all of a word, one after the other;
    what lies past the end of `size` elements in the last word stays."""
    each, b = s.dtype.packed, s.binding
    bits, word, name = 32 // each, f"word{b}", f"b{b}[at / {each}]"
    lines = [
        f"let shift = {bits}u * (u32(at) % {each}u);",
        f"{word} = select({word}, 0u, shift == 0u) | (v << shift);",
        f"if (shift == {32 - bits}u) {{ {name} = {word}; }}",
    ]
    if not statically_divides(each, size):
        kept = f"(0xffffffffu << (shift + {bits}u))"
        lines[-1] += (
            f" else if (at == {scalars.count(size - 1)}) {{ {name} = ({name} & {kept}) | {word}; }}"
        )
    return f"var<private> {word}: u32;\nfn put{b}(at: i32, v: u32) {{\n{indented(lines)}}}\n"


def gathered_access(s: Store, count: int, size: Any) -> str:
    """Workgroup memory for `count` of `size` elements, and the function that writes one word of
    them: from place `own` there to the same place in the buffer from `first` on."""
    each, b = s.dtype.packed, s.binding
    bits, word, name = 32 // each, f"word{b}", f"b{b}[at / {each}]"
    parts = [f"{word}[own + {n}] << {bits * n}u" if n else f"{word}[own]" for n in range(each)]
    lines = [
        "let at = first + own;",
        f"if (at >= {scalars.count(size)}) {{ return; }}",
        f"var whole = {' | '.join(f'({p})' for p in parts)};",
    ]
    if not statically_divides(each, size):
        kept = f"(0xffffffffu << ({bits}u * u32({scalars.count(size)} - at)))"
        lines.append(f"if (at + {each} > {scalars.count(size)}) {{ whole |= {name} & {kept}; }}")
    return (
        f"var<workgroup> {word}: array<u32, {count}>;\n"
        f"fn put{b}(own: i32, first: i32) {{\n{indented([*lines, f'{name} = whole;'])}}}\n"
    )


def statements(nest: LoopNest, block: WgslBlock) -> None:
    """What a thread does for one index."""
    for st in nest.body:
        if isinstance(st, Let):
            if st.value not in block.names:
                block.compute(st)
        else:
            assert isinstance(st, Write)
            block.lines.append(block.store(st.store))


def operand(name: str, e: Expr) -> str:
    """The function that computes an operand of a routine at an index."""
    block = WgslBlock(loops_of(Kernel(e.shape, e.code, (), 0, 0)))
    for k in range(len(e.code)):
        block.compute(Let(k))
    lines = [*block.lines, f"return {block.names[len(e.code) - 1]};"]
    return f"fn {name}({_indices(e.shape)}) -> {e.dtype.compute} {{\n{indented(lines)}}}\n"


def beside(
    make: Callable[[str, Expr], str], name: str, es: Sequence[Expr], d: int, four: bool = False
) -> str:
    """The function that computes what stands beside each other along dim `d`."""
    if len(es) == 1:
        return make(name, es[0])
    text, lines, at = "", list[str](), 0
    for k, e in enumerate(es):
        text += make(f"{name}{k}", e)
        index = [f"i{x} - {at}" if x == d else f"i{x}" for x in range(len(e.shape))]
        at += e.shape[d]
        call = f"return {name}{k}({', '.join(index)});"
        lines.append(call if k == len(es) - 1 else f"if (i{d} < {at}) {{ {call} }}")
    kind = es[0].dtype.compute
    kind = f"vec4<{kind}>" if four else kind
    return text + f"fn {name}({_indices(es[0].shape)}) -> {kind} {{\n{indented(lines)}}}\n"


def epilogue(kernel: Kernel, dtype: dt.dtype, by_index: bool = False) -> str:
    """The function that takes a result of a routine and stores what follows from it: by the flat
    position `at`, or by the index."""
    of_rows = [s for s in kernel.stores if isinstance(kernel.code[s.value], RowSum)]
    nest = loops_of(replace(kernel, stores=tuple([s for s in kernel.stores if s not in of_rows])))
    block = WgslBlock(nest, "at")
    result = next((k for k, i in enumerate(kernel.code) if isinstance(i, ExternResult)), 0)
    block.names[result] = block.let(scalars.text_of(scalars.wrapped(dtype), ["v"], block.let))
    statements(nest, block)
    if by_index:
        at = "i0"
        for d, n in enumerate(kernel.space[1:], 1):
            at = f"({at} * {scalars.count(n)} + i{d})"
        text = "" if not of_rows else _row_store(replace(kernel, stores=tuple(of_rows)))
        return text + (
            f"fn store({_indices(kernel.space)}, v: Acc) {{\n"
            + indented([f"let at = {at};", *block.lines])
            + "}\n"
        )
    lines = [*block.indices("at"), *block.lines]
    return f"fn store(at: i32, v: Acc) {{\n{indented(lines)}}}\n"


def _row_store(kernel: Kernel) -> str:
    """The function that stores the sum of a row of a product's left operand."""
    nest = loops_of(kernel)
    block = WgslBlock(nest)
    block.names = {s.value: "v" for s in kernel.stores}
    statements(nest, block)
    return f"fn store_row(i0: i32, i1: i32, v: Acc) {{\n{indented(block.lines)}}}\n"


def _indices(shape: Sequence[int]) -> str:
    """Parameters: an index along each axis."""
    return ", ".join(f"i{d}: i32" for d in range(len(shape)))


def indented(lines: Sequence[str]) -> str:
    """The lines of a function's body."""
    return "".join(f"  {line}\n" for line in lines)


FLAT = "let flat = i32(id.x + id.y * groups.x * {n}u);"
MAIN = """@compute @workgroup_size({n})
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {{
"""
GROUPS = """@compute @workgroup_size({n})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {{
"""
# Threads are numbered by their subgroups, whatever these are. `chunk` of them, whose numbers are
# side by side, can hand each other values; where some subgroup is not full, no thread can.
SUBGROUPS = """@compute @workgroup_size({n})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32, @builtin(subgroup_size) size: u32,
        @builtin(num_subgroups) subgroups: u32, @builtin(subgroup_id) subgroup: u32,
        @builtin(subgroup_invocation_id) within: u32) {{
  let full = subgroups * size == {n}u;
  let t = select(local, subgroup * size + within, full);
  let chunk = select(1u, min(size, {width}u), full);
"""
