"""From a Kernel (data) to a WGSL compute shader.

Every kernel binds its inputs in order, then its output, then (if it has scalars) a uniform block
`params`. Indices are i32, so that a flipped or padded view may pass below zero.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

from pyframe import dtypes as dt
from pyframe.graph.program import Apply, Expr, Kernel, Load, Param, Valid
from pyframe.graph.view import Shape, Term, Tracker, is_contiguous, unravel
from pyframe.ops.op import REGISTRY
from pyframe.wgsl import library

THREADS = 256
ROW_THREADS = 256
ONE_THREAD_A_ROW = 64  # a shorter reduction is done by one thread for each result


class Shader(NamedTuple):
    """A compute shader: its text (entry point `main`), a label, and its workgroups in x, y, z."""

    code: str
    label: str
    grid: tuple[int, int, int]


@functools.lru_cache(maxsize=4096)
def generate(kernel: Kernel) -> Shader:
    """The shader of `kernel`; equal kernels give equal text."""
    size = math.prod(kernel.shape)
    if size == 0:
        return Shader("", kernel.body, (0, 0, 0))
    body, grid = (
        _map(kernel, size)
        if kernel.body == "map"
        else _reduction(kernel, size)
        if kernel.operands and REGISTRY[kernel.body].kernel is None
        else _routine(kernel)
    )
    head = _bindings(kernel)
    code = library.with_includes(head + body)
    if "f16" in code:
        code = "enable f16;\n" + code
    return Shader(code, label(kernel), grid)


def label(kernel: Kernel) -> str:
    """A name that says what a kernel computes, for debugging and profiles."""
    ops = [i.op for e in kernel.operands for i in e.code if isinstance(i, Apply)]
    name = kernel.body if kernel.body != "map" else (ops[-1] if ops else "copy")
    return f"{name}[{'x'.join(map(str, kernel.shape))}]" + (f"+{len(ops)}" if ops else "")


def fold_grid(groups: int) -> tuple[int, int, int]:
    """Workgroups over x and y: at most 65535 in each."""
    if groups <= 65535:
        return groups, 1, 1
    rows = math.ceil(groups / 65535)
    return math.ceil(groups / rows), rows, 1


def _bindings(kernel: Kernel) -> str:
    kinds: dict[int, str] = {}
    for e in kernel.operands:
        for i in e.code:
            if isinstance(i, Load):
                kinds[i.binding] = i.dtype.storage or "f32"
    lines = [
        f"@group(0) @binding({b}) var<storage, read> in{b}: array<{kinds[b]}>;"
        for b in range(kernel.inputs)
    ]
    lines.append(
        f"@group(0) @binding({kernel.inputs}) var<storage, read_write> out: "
        f"array<{kernel.dtype.storage}>;"
    )
    if kernel.params:
        words = -(-kernel.params // 4)
        lines.append(
            f"@group(0) @binding({kernel.inputs + 1}) var<uniform> params: "
            f"array<vec4<u32>, {words}>;"
        )
    return "\n".join(lines) + "\n"


# --- expressions


class _Lines:
    """Emits the instructions of one Expr; index variables are given by name."""

    def __init__(self, shape: tuple[int, ...], index: list[str], flat: str | None) -> None:
        self.lines: list[str] = []
        self.shape, self.index, self.flat = shape, index, flat
        self.count = 0
        self.positions: dict[Tracker, tuple[str, str]] = {}

    def let(self, text: str) -> str:
        name = f"t{self.count}"
        self.count += 1
        self.lines.append(f"let {name} = {text};")
        return name

    def position(self, tracker: Tracker) -> tuple[str, str]:
        """(flat position in the buffer, condition of validity or '') of a tracker."""
        found = self.positions.get(tracker)
        if found is None:
            found = self.positions[tracker] = self._position(tracker)
        return found

    def _position(self, tracker: Tracker) -> tuple[str, str]:
        if self.flat and is_contiguous(tracker) and tracker[0].shape == self.shape:
            return self.flat, ""
        index = self.index
        conditions: list[str] = []
        for depth in reversed(range(len(tracker))):
            v = tracker[depth]
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
            shape = tracker[depth - 1].shape
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
        v = tracker[0]
        return _sum(v.offset, v.strides, index, v.shape), " && ".join(conditions)

    def _terms(self, offset: int, terms: list[Term], index: list[str]) -> str:
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

    def run(self, e: Expr) -> str:
        """Emit all instructions; the name of the value."""
        names: list[str] = []
        types: list[dt.dtype] = []
        for i in e.code:
            if isinstance(i, Load):
                names.append(self.let(self._load(i)))
                types.append(i.dtype)
            elif isinstance(i, Param):
                names.append(self.let(_param(i)))
                types.append(i.dtype)
            elif isinstance(i, Valid):
                names.append(self.let(self.position(i.tracker)[1] or "true"))
                types.append(dt.bool_)
            else:
                args = [names[a] for a in i.args]
                names.append(self.let(self._apply(i, args, [types[a] for a in i.args])))
                types.append(i.dtype)
        return names[-1]

    def _load(self, i: Load) -> str:
        at, valid = self.position(i.tracker)
        kind = i.dtype.compute or "f32"
        text = f"in{i.binding}[{at}]"
        if kind == "bool":
            text = f"({text} != 0u)"
        elif kind != i.dtype.storage:
            text = f"{kind}({text})"
        if not valid:
            return text
        # the index is moved to 0 where invalid, so that nothing is read out of bounds
        safe = self.let(f"select(0, {at}, {valid})")
        return f"select({kind}(0), {text.replace(f'[{at}]', f'[{safe}]')}, {valid})"

    def _apply(self, i: Apply, args: list[str], types: list[dt.dtype]) -> str:
        op: Any = REGISTRY[i.op]
        values = dict(zip(op.inputs, args, strict=True))
        if i.index is not None:
            values["i"] = self.let(self.position(i.index)[0])
        out = i.dtype.compute
        operand = types[op.promoted_from].compute if types else out
        if operand == "bool" and not op.takes_bool:
            values = {k: f"u32({v})" for k, v in values.items()}
            operand = "u32"
        if callable(op.wgsl):
            text = op.wgsl(**values, t=out)
        else:
            text = op.wgsl.format(**values, t=operand)
        if operand == "u32" and out == "bool" and op.rule != "to_bool" and i.op != "cast":
            text = f"bool({text})"
        return i.dtype.wrap.format(x=f"({text})") if i.dtype.wrap else text


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


def _stored(value: str, dtype: dt.dtype) -> str:
    if dtype.compute == "bool":
        return f"select(0u, 1u, {value})"
    return value if dtype.compute == dtype.storage else f"{dtype.storage}({value})"


def _indent(lines: list[str]) -> str:
    return "".join(f"  {line}\n" for line in lines)


_FLAT = "let flat = i32(id.x + id.y * groups.x * {n}u);"
_MAIN = """@compute @workgroup_size({n})
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {{
"""


def _map(kernel: Kernel, size: int) -> tuple[str, tuple[int, int, int]]:
    e = kernel.operands[0]
    names = [f"i{d}" for d in range(len(e.shape))]
    out = _Lines(e.shape, names, "flat")
    value = out.run(e)
    text = "\n".join(out.lines)
    unravel = [
        f"let {name} = {_unravel('flat', e.shape, d)};"
        for d, name in enumerate(names)
        if name in text
    ]
    lines = [
        _FLAT.format(n=THREADS),
        f"if (flat >= {size}) {{ return; }}",
        *unravel,
        *out.lines,
        f"out[flat] = {_stored(value, kernel.dtype)};",
    ]
    code = _MAIN.format(n=THREADS) + _indent(lines) + "}\n"
    return code, fold_grid(math.ceil(size / THREADS))


# --- reductions


def _value_function(name: str, e: Expr, args: list[str], unravel: list[str]) -> str:
    index = [f"i{d}" for d in range(len(e.shape))]
    out = _Lines(e.shape, index, None)
    value = out.run(e)
    params = ", ".join(f"{a}: i32" for a in args)
    return (
        f"fn {name}({params}) -> {e.dtype.compute} {{\n"
        + _indent([*unravel, *out.lines, f"return {value};"])
        + "}\n"
    )


def _reduction(kernel: Kernel, size: int) -> tuple[str, tuple[int, int, int]]:
    e = kernel.operands[0]
    axes = kernel.attrs[0]
    kept = [d for d in range(len(e.shape)) if d not in axes]
    inner, outer = [e.shape[d] for d in axes], [e.shape[d] for d in kept]
    n = math.prod(inner)
    unravel = [f"let i{d} = {_unravel('o', tuple(outer), k)};" for k, d in enumerate(kept)] + [
        f"let i{d} = {_unravel('r', tuple(inner), k)};" for k, d in enumerate(axes)
    ]
    fold: Any = REGISTRY[kernel.body].wgsl
    t = e.dtype.compute or "f32"
    code = _value_function("element", e, ["o", "r"], unravel)
    code += f"alias T = {t};\n"
    if fold.arg:
        test = fold.combine.format(x="b.v", a="a.v", t=t)
        back = fold.combine.format(x="a.v", a="b.v", t=t)
        code += (
            "struct Acc { v: T, i: i32 }\n"
            "fn combine(a: Acc, b: Acc) -> Acc {\n"
            f"  if ({test} || (!{back} && b.i < a.i)) {{ return b; }}\n  return a;\n}}\n"
        )
        start = f"Acc(T({fold.init[t]}), 2147483647)"
        lift, result = "Acc(element(o, r), r)", "acc.i"
    else:
        code += (
            "alias Acc = T;\nfn combine(a: Acc, b: Acc) -> Acc { return "
            + fold.combine.format(a="a", x="b", t=t)
            + "; }\n"
        )
        start, lift, result = f"T({fold.init[t]})", "element(o, r)", "acc"
    if kernel.dtype.wrap and not fold.arg:
        result = kernel.dtype.wrap.format(x=result)
    result = _stored(result, kernel.dtype)
    if n <= ONE_THREAD_A_ROW:
        lines = [
            _FLAT.format(n=THREADS),
            f"if (flat >= {size}) {{ return; }}",
            "let o = flat;",
            f"var acc = {start};",
            f"for (var r = 0; r < {n}; r++) {{ acc = combine(acc, {lift}); }}",
            f"out[o] = {result};",
        ]
        code += _MAIN.format(n=THREADS) + _indent(lines) + "}\n"
        return code, fold_grid(math.ceil(size / THREADS))
    lines = [
        "let o = i32(group.x + group.y * groups.x);",
        f"var acc = {start};",
        f"for (var r = i32(t); r < {n}; r += {ROW_THREADS}) {{",
        f"  if (o < {size}) {{ acc = combine(acc, {lift}); }}",
        "}",
        "partial[t] = acc;",
        "workgroupBarrier();",
        f"for (var half = {ROW_THREADS // 2}u; half > 0u; half >>= 1u) {{",
        "  if (t < half) { partial[t] = combine(partial[t], partial[t + half]); }",
        "  workgroupBarrier();",
        "}",
        f"if (t == 0u && o < {size}) {{ acc = partial[0]; out[o] = {result}; }}",
    ]
    code += (
        f"var<workgroup> partial: array<Acc, {ROW_THREADS}>;\n"
        f"@compute @workgroup_size({ROW_THREADS})\n"
        "fn main(@builtin(workgroup_id) group: vec3<u32>,\n"
        "        @builtin(num_workgroups) groups: vec3<u32>,\n"
        "        @builtin(local_invocation_index) t: u32) {\n" + _indent(lines) + "}\n"
    )
    return code, fold_grid(size)


# --- routines: a file of shaders/, with generated loads and store


def _routine(kernel: Kernel) -> tuple[str, tuple[int, int, int]]:
    op = REGISTRY[kernel.body]
    assert op.kernel is not None
    constants, grid = op.kernel.plan(kernel.shape, [e.shape for e in kernel.operands])
    code = f"alias Acc = {kernel.dtype.compute};\n"
    for name, e in zip(op.inputs, kernel.operands, strict=True):
        args = [f"i{d}" for d in range(len(e.shape))]
        code += _value_function(f"load_{name}", e, args, [])
    value = kernel.dtype.wrap.format(x="v") if kernel.dtype.wrap else "v"
    code += f"fn store(at: i32, v: Acc) {{ out[at] = {_stored(value, kernel.dtype)}; }}\n"
    return code + library.specialise(op.kernel.file, constants), grid
