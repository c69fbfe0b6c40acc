"""What the threads of a kernel compute: instructions as lines of WGSL, each where it varies."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from pyframe.codegen.wgsl import scalars
from pyframe.core import dtypes as dt
from pyframe.core.op import REGISTRY
from pyframe.core.view import IndexMap, Shape, Term, is_contiguous, unravel
from pyframe.graph.program import Apply, Kernel, Load, Param, Reduce, Store, Valid

THREADS = 256  # of a workgroup


# --- levels: the axes of a kernel are walked in a nest, the outermost side by side


def nested(kernel: Kernel) -> list[list[int]]:
    """The axes level by level: those of the grid, then those that are reduced; the first reduction
    walks the innermost level."""
    reduced: list[tuple[int, ...]] = []
    for i in kernel.code:
        if isinstance(i, Reduce) and i.axes and i.axes not in reduced:
            reduced.append(i.axes)
    inside = {d for axes in reduced for d in axes}
    grid = [d for d in range(len(kernel.space)) if d not in inside]
    return [grid, *[list(axes) for axes in reversed(reduced)]]


class Levels:
    """What every scope of a kernel shares: its code, and on which level each value varies."""

    def __init__(self, kernel: Kernel) -> None:
        self.code: Sequence[Any] = kernel.code
        self.space, self.nest = kernel.space, nested(kernel)
        depth = {d: level for level, axes in enumerate(self.nest) for d in axes}
        self.at: list[int] = []
        self.walks: list[int] = []  # the level that a Reduce walks; -1 for all else

        def of(t: IndexMap) -> int:
            v = t[-1]
            used = [d for d, n in enumerate(v.shape) if n != 1 and (
                v.strides[d] or (v.mask is not None and v.mask[d] != (0, n)))]  # fmt: skip
            return max([depth[d] for d in used], default=0)

        for i in self.code:
            walk = -1
            if isinstance(i, (Load, Valid)):
                level = of(i.index_map)
            elif isinstance(i, Apply):
                level = max([self.at[a] for a in i.args], default=0)
                level = max(level, of(i.index)) if i.index is not None else level
            elif isinstance(i, Reduce):
                walk = depth[i.axes[0]] if i.axes else -1
                level = walk - 1 if i.axes else self.at[i.arg]
            else:
                level = 0
            self.at.append(level)
            self.walks.append(walk)

    def args(self, k: int) -> tuple[int, ...]:
        i = self.code[k]
        return i.args if isinstance(i, Apply) else (i.arg,) if isinstance(i, Reduce) else ()

    def of_store(self, s: Store) -> int:
        used = [d for d, stride in enumerate(s.index_map[0].strides) if stride]
        return max([lv for lv, axes in enumerate(self.nest) if set(axes) & set(used)], default=0)


class Scope:
    """Emits instructions where some levels' indices are known, each value once; what varies less
    is emitted in the scope around it."""

    def __init__(
        self, levels: Levels, level: int, flat: str | None = None, parent: Scope | None = None
    ) -> None:
        self.levels, self.level, self.flat, self.parent = levels, level, flat, parent
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self.positions: dict[IndexMap, tuple[str, str]] = {}
        self.tag: str = "t" if parent is None else parent.tag + "abcdefgh"[level]
        self.let = scalars.naming(self.lines, self.tag)

    def value(self, k: int) -> str:
        """The name of instruction `k`'s value."""
        scope: Scope | None = self
        while scope is not None:
            if k in scope.names:
                return scope.names[k]
            scope = scope.parent
        if self.parent is not None and self.levels.at[k] < self.level:
            return self.parent.value(k)
        self.names[k] = name = self._emit(k)
        return name

    def _emit(self, k: int) -> str:
        i = self.levels.code[k]
        if isinstance(i, Load):
            return self.let(self._load(i))
        if isinstance(i, Param):
            return self.let(_param(i))
        if isinstance(i, Valid):
            return self.let(self.position(i.index_map)[1] or "true")
        if isinstance(i, Apply):
            args = [self.value(a) for a in i.args]
            return self.let(self._apply(i, args, [self.levels.code[a] for a in i.args]))
        assert isinstance(i, Reduce), i
        assert not i.axes, "a reduction is made by the loop around it"
        combine: Any = REGISTRY[i.op].combine
        return self.let("0") if combine.arg else self.value(i.arg)

    def position(self, index_map: IndexMap) -> tuple[str, str]:
        """(flat position in the buffer, condition of validity or '') of an index map."""
        found = self.positions.get(index_map)
        if found is None:
            found = self.positions[index_map] = self._position(index_map)
        return found

    def _position(self, index_map: IndexMap) -> tuple[str, str]:
        space = self.levels.space
        if self.flat and is_contiguous(index_map) and index_map[0].shape == space:
            return self.flat, ""
        if any(0 in v.shape for v in index_map[:-1]):  # all is padding around nothing
            return "0", "false"
        index = [f"i{d}" for d in range(len(space))]
        conditions: list[str] = []
        for depth in reversed(range(len(index_map))):
            v = index_map[depth]
            for d, n in enumerate(v.shape):
                if v.mask:
                    lo, hi = v.mask[d]
                    if lo >= hi:
                        conditions.append("false")
                    if lo > 0:
                        conditions.append(f"{index[d]} >= {lo}")
                    if hi < n:
                        conditions.append(f"{index[d]} < {hi}")
            if depth == 0:
                break
            shape = index_map[depth - 1].shape
            # where a mask lets an index pass its bounds, the digits need not be in range
            parts = unravel(v, shape) if v.mask is None else None
            if parts is None:
                flat = self.let(_sum(v.offset, v.strides, index, v.shape))
                index = [
                    self.let(_unravel(flat, shape, d)) if n > 1 else "0"
                    for d, n in enumerate(shape)
                ]
            else:
                index = [self.let(self._terms(offset, terms, index)) for offset, terms in parts]
        v = index_map[0]
        return _sum(v.offset, v.strides, index, v.shape), _every(conditions)

    def _terms(self, offset: int, terms: list[Term], index: list[str]) -> str:
        """The text of an index that `unravel` gives as a sum of terms."""
        out = [str(offset)] if offset or not terms else []
        for t in terms:
            text = index[t.dim]
            if t.div > 1:
                text = f"{text} / {t.div}"
            if t.mod:
                text = f"({text}) % {t.mod}"
            if t.factor != 1:
                text = f"({text}) * {t.factor}"
            out.append(text)
        return " + ".join(out)

    def _load(self, i: Load) -> str:
        """The text that reads an element, as the type that kernels compute with; 0 in padding."""
        at, valid = self.position(i.index_map)
        kind = i.dtype.compute or "f32"
        text = f"b{i.binding}[{at}]"
        if kind == "bool":
            text = f"({text} != 0u)"
        elif kind != i.dtype.storage:
            text = f"{kind}({text})"
        if not valid:
            return text
        # the index is moved to 0 where invalid, so that nothing is read out of bounds
        safe = self.let(f"select(0, {at}, {valid})")
        return f"select({kind}(0), {text.replace(f'[{at}]', f'[{safe}]')}, {valid})"

    def _apply(self, i: Apply, args: list[str], of: Sequence[Any]) -> str:
        """The op's meaning for `args`, the names of what the instructions `of` give."""
        op: Any = REGISTRY[i.op]
        types = tuple([type_of(a).compute for a in of])
        if i.index is not None:
            args = [*args, self.let(self.position(i.index)[0])]
        return scalars.text_of(scalars.computed(op, types, i.dtype), args, self.let)


def _every(conditions: list[str]) -> str:
    """That all hold, without branches: of dozens of `&&` in a loop some compilers make so many
    paths that they run out of memory."""
    if len(conditions) < 2:
        return "".join(conditions)
    return " & ".join(c if c == "false" else f"({c})" for c in conditions)


def _param(i: Param) -> str:
    word = f"params[{i.word // 4}][{i.word % 4}]"
    kind = i.dtype.storage
    if i.dtype.compute == "bool":
        return f"({word} != 0u)"
    if kind == "f16":
        return f"unpack2x16float({word}).x"
    return word if kind == "u32" else f"bitcast<{kind}>({word})"


def _sum(offset: int, strides: Shape, index: list[str], shape: Shape) -> str:
    """offset + the products of indices and strides."""
    terms = [str(offset)] if offset else []
    for i, s, n in zip(index, strides, shape, strict=True):
        if n > 1 and s:
            terms.append(i if s == 1 else f"{i} * {s}")
    return " + ".join(terms) or "0"


def _unravel(flat: str, shape: tuple[int, ...], d: int) -> str:
    """Index d of flat position `flat` over `shape`."""
    inner = math.prod(shape[d + 1 :])
    outer = math.prod(shape[:d])
    text = flat if inner == 1 else f"{flat} / {inner}"
    return text if outer == 1 else f"({text}) % {shape[d]}"


def stored(value: str, dtype: dt.dtype) -> str:
    if dtype.compute == "bool":
        return f"select(0u, 1u, {value})"
    return value if dtype.compute == dtype.storage else f"{dtype.storage}({value})"


def indented(lines: list[str]) -> str:
    return "".join(f"  {line}\n" for line in lines)


FLAT = "let flat = i32(id.x + id.y * groups.x * {n}u);"
MAIN = """@compute @workgroup_size({n})
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {{
"""
GROUPS = """@compute @workgroup_size({n})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {{
"""


def type_of(i: Any) -> dt.dtype:
    found: dt.dtype = getattr(i, "dtype", dt.bool_)  # a Valid is a bool
    return found


def index_lines(flat: str, levels: Levels, axes: Sequence[int], text: str) -> list[str]:
    """The indices along `axes` of a flat position over them, as far as `text` asks for them."""
    shape = tuple(levels.space[d] for d in axes)
    return [
        f"let i{d} = {_unravel(flat, shape, k)};"
        for k, d in enumerate(axes)
        if f"i{d}" in _words(text)
    ]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\bi\d+\b", text))


def in_rows(groups: int) -> tuple[int, int, int]:
    """Workgroups over x and y: at most 65535 in each."""
    if groups <= 65535:
        return groups, 1, 1
    rows = math.ceil(groups / 65535)
    return math.ceil(groups / rows), rows, 1
