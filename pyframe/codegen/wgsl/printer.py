"""From a Kernel (data) to a WGSL compute shader.

Binding b of a kernel is the variable `b0`, `b1`, …; after them comes, if the kernel has scalars, a
uniform block `params`. Indices are i32, so that a flipped or padded view may pass below zero.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pyframe.codegen.wgsl import library
from pyframe.core import dtypes as dt
from pyframe.core.limits import LEAST, Limits
from pyframe.core.op import REGISTRY, Grid, KernelCall
from pyframe.core.view import IndexMap, Shape, Term, is_contiguous, unravel
from pyframe.graph.program import Apply, Expr, Kernel, Load, Param, Reduce, Result, Store, Valid

THREADS = 256
ONE_THREAD_A_ROW = 32  # a shorter row is folded by one thread
COLUMNS = 16  # neighbouring results that a workgroup folds together, where they lie side by side
SUMMED = 32  # numbers that one thread adds one after the other
ROUNDS = 1 << 13  # of a loop: Mesa's software driver stops a thread after 65535 of all its loops


class Shader(NamedTuple):
    """A compute shader: its text (entry point `main`), a label, and its workgroups in x, y, z."""

    code: str
    label: str
    grid: tuple[int, int, int]


@functools.lru_cache(maxsize=4096)
def generate(kernel: Kernel, limits: Limits = LEAST) -> Shader:
    """The shader of `kernel` for a device of these limits; equal kernels give equal text."""
    nest = _nest(kernel)
    make: Callable[[Kernel], tuple[str, Grid]]
    if kernel.routine is not None:
        empty = 0 in kernel.space
        make = functools.partial(_routine, limits=limits)
    else:
        empty = math.prod(kernel.space[d] for d in nest[0]) == 0
        make = _rows if len(nest) > 1 else _map
    if empty:
        return Shader("", label(kernel), (0, 0, 0))
    body, grid = make(kernel)
    code = library.with_includes(_bindings(kernel) + _naming_all(kernel, body))
    if "f16" in code:
        code = "enable f16;\n" + code
    return Shader(code, label(kernel), grid)


def _naming_all(kernel: Kernel, body: str) -> str:
    """`body` with each binding in it: the automatic layout drops those that nothing names."""
    names = [f"b{b}" for b in range(kernel.bindings)] + ["params"] * bool(kernel.params)
    unused = [n for n in names if not re.search(rf"\b{n}\b", body)]
    if not unused:
        return body
    start = body.index("{\n", body.index("fn main(")) + 2
    return body[:start] + "".join(f"  _ = &{n};\n" for n in unused) + body[start:]


def label(kernel: Kernel) -> str:
    """A name that says what a kernel computes, for debugging and profiles."""
    names = [i.op for i in kernel.code if isinstance(i, (Apply, Reduce))]
    folds = [i.op for i in kernel.code if isinstance(i, Reduce)]
    if kernel.routine is not None:
        name = kernel.routine.name
        names += [i.op for e in kernel.routine.operands for i in e.code if isinstance(i, Apply)]
    else:
        name = folds[-1] if folds else names[-1] if names else "copy"
        names = names[1:]
    return f"{name}[{'x'.join(map(str, kernel.space))}]" + (f"+{len(names)}" if names else "")


def fold_grid(groups: int) -> tuple[int, int, int]:
    """Workgroups over x and y: at most 65535 in each."""
    if groups <= 65535:
        return groups, 1, 1
    rows = math.ceil(groups / 65535)
    return math.ceil(groups / rows), rows, 1


def _bindings(kernel: Kernel) -> str:
    kinds: dict[int, str] = {s.binding: s.dtype.storage or "f32" for s in kernel.stores}
    operands = kernel.routine.operands if kernel.routine else ()
    for code in (kernel.code, *[e.code for e in operands]):
        for i in code:
            if isinstance(i, Load):
                kinds[i.binding] = i.dtype.storage or "f32"
    written = kernel.written
    lines = [
        f"@group(0) @binding({b}) var<storage, {'read_write' if b in written else 'read'}> b{b}: "
        f"array<{kinds[b]}>;"
        for b in range(kernel.bindings)
    ]
    if kernel.params:
        words = -(-kernel.params // 4)
        lines.append(
            f"@group(0) @binding({kernel.bindings}) var<uniform> params: array<vec4<u32>, {words}>;"
        )
    return "\n".join(lines) + "\n"


# --- scopes: the axes of a kernel are walked in a nest, the outermost side by side


def _nest(kernel: Kernel) -> list[list[int]]:
    """The axes level by level: those of the grid, then those that are folded, the first last."""
    folded: list[tuple[int, ...]] = []
    for i in kernel.code:
        if isinstance(i, Reduce) and i.axes and i.axes not in folded:
            folded.append(i.axes)
    inside = {d for axes in folded for d in axes}
    grid = [d for d in range(len(kernel.space)) if d not in inside]
    return [grid, *[list(axes) for axes in reversed(folded)]]


class _Plan:
    """What every scope of a kernel shares: its code, and on which level each value varies."""

    def __init__(self, kernel: Kernel) -> None:
        self.code: Sequence[Any] = kernel.code
        self.space, self.nest = kernel.space, _nest(kernel)
        depth = {d: level for level, axes in enumerate(self.nest) for d in axes}
        self.level: list[int] = []
        self.folds: list[int] = []  # the level that a Reduce walks; -1 for all else

        def of(t: IndexMap) -> int:
            v = t[-1]
            used = [d for d, n in enumerate(v.shape) if n != 1 and (
                v.strides[d] or (v.mask is not None and v.mask[d] != (0, n)))]  # fmt: skip
            return max([depth[d] for d in used], default=0)

        for i in self.code:
            fold = -1
            if isinstance(i, (Load, Valid)):
                level = of(i.index_map)
            elif isinstance(i, Apply):
                level = max([self.level[a] for a in i.args], default=0)
                level = max(level, of(i.index)) if i.index is not None else level
            elif isinstance(i, Reduce):
                fold = depth[i.axes[0]] if i.axes else -1
                level = fold - 1 if i.axes else self.level[i.arg]
            else:
                level = 0
            self.level.append(level)
            self.folds.append(fold)

    def args(self, k: int) -> tuple[int, ...]:
        i = self.code[k]
        return i.args if isinstance(i, Apply) else (i.arg,) if isinstance(i, Reduce) else ()

    def store_level(self, s: Store) -> int:
        used = [d for d, stride in enumerate(s.index_map[0].strides) if stride]
        return max([lv for lv, axes in enumerate(self.nest) if set(axes) & set(used)], default=0)


class _Scope:
    """Emits instructions where some levels' indices are known, each value once; what varies less
    is emitted in the scope around it."""

    def __init__(
        self, plan: _Plan, level: int, flat: str | None = None, parent: _Scope | None = None
    ) -> None:
        self.plan, self.level, self.flat, self.parent = plan, level, flat, parent
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self.positions: dict[IndexMap, tuple[str, str]] = {}
        self.tag: str = "t" if parent is None else parent.tag + "abcdefgh"[level]

    def let(self, text: str) -> str:
        name = f"{self.tag}{len(self.lines)}"
        self.lines.append(f"let {name} = {text};")
        return name

    def value(self, k: int) -> str:
        """The name of instruction `k`'s value."""
        scope: _Scope | None = self
        while scope is not None:
            if k in scope.names:
                return scope.names[k]
            scope = scope.parent
        if self.parent is not None and self.plan.level[k] < self.level:
            return self.parent.value(k)
        self.names[k] = name = self._emit(k)
        return name

    def _emit(self, k: int) -> str:
        i = self.plan.code[k]
        if isinstance(i, Load):
            return self.let(self._load(i))
        if isinstance(i, Param):
            return self.let(_param(i))
        if isinstance(i, Valid):
            return self.let(self.position(i.index_map)[1] or "true")
        if isinstance(i, Apply):
            args = [self.value(a) for a in i.args]
            return self.let(self._apply(i, args, [self.plan.code[a] for a in i.args]))
        assert isinstance(i, Reduce), i
        assert not i.axes, "a fold is made by the loop around it"
        combine: Any = REGISTRY[i.op].combine
        return self.let("0") if combine.arg else self.value(i.arg)

    def position(self, index_map: IndexMap) -> tuple[str, str]:
        """(flat position in the buffer, condition of validity or '') of an index map."""
        found = self.positions.get(index_map)
        if found is None:
            found = self.positions[index_map] = self._position(index_map)
        return found

    def _position(self, index_map: IndexMap) -> tuple[str, str]:
        space = self.plan.space
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
        op: Any = REGISTRY[i.op]
        values = dict(zip(op.inputs, args, strict=True))
        if i.index is not None:
            values["i"] = self.let(self.position(i.index)[0])
        out = i.dtype.compute
        operand = _type(of[op.promoted_from]).compute if of else out
        widened = operand == "bool" and not op.takes_bool
        if widened:
            values = {k: f"u32({v})" for k, v in values.items()}
            operand = "u32"
        text = op.wgsl if isinstance(op.wgsl, str) else op.wgsl.get(operand, op.wgsl.get(""))
        text = text.format(**values, t=operand, out=out)
        if widened and out == "bool" and op.rule != "to_bool":
            text = f"bool({text})"
        return i.dtype.wrap.format(x=f"({text})") if i.dtype.wrap else text


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
_GROUPS = """@compute @workgroup_size({n})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {{
"""


def _type(i: Any) -> dt.dtype:
    found: dt.dtype = getattr(i, "dtype", dt.bool_)  # a Valid is a bool
    return found


def _index_lines(flat: str, plan: _Plan, axes: Sequence[int], text: str) -> list[str]:
    """The indices along `axes` of a flat position over them, as far as `text` asks for them."""
    shape = tuple(plan.space[d] for d in axes)
    return [
        f"let i{d} = {_unravel(flat, shape, k)};"
        for k, d in enumerate(axes)
        if f"i{d}" in _words(text)
    ]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\bi\d+\b", text))


def _map(kernel: Kernel) -> tuple[str, tuple[int, int, int]]:
    size = math.prod(kernel.space)
    plan = _Plan(kernel)
    scope = _Scope(plan, 0, "flat")
    for s in kernel.stores:
        at, value = scope.position(s.index_map)[0], scope.value(s.value)
        scope.lines.append(f"b{s.binding}[{at}] = {_stored(value, s.dtype)};")
    body = _last(scope.lines)
    lines = [
        _FLAT.format(n=THREADS),
        f"if (flat >= {size}) {{ return; }}",
        *_index_lines("flat", plan, plan.nest[0], "\n".join(body)),
        *body,
    ]
    code = _MAIN.format(n=THREADS) + _indent(lines) + "}\n"
    return code, fold_grid(math.ceil(size / THREADS))


def _last(lines: list[str]) -> list[str]:
    """The stores after everything else: a buffer that is written in place is read before."""
    stores = [x for x in lines if not x.startswith("let ")]
    return [x for x in lines if x.startswith("let ")] + stores


# --- rows: kernels that fold axes


class _Rows:
    """Generates a kernel with folds. The walk over level `spread` is shared by `width` threads of
    a workgroup, deeper ones are done by each thread alone; 0: a thread has all of its row."""

    def __init__(self, plan: _Plan, stores: Sequence[Store], spread: int, width: int) -> None:
        self.plan, self.stores, self.spread, self.width = plan, stores, spread, width
        self.globals: dict[str, str] = {}
        self.count = 0

    def scope(self, scope: _Scope, values: Iterable[int], stores: Sequence[Store]) -> None:
        """Emit `values` and `stores` where the levels up to the scope's are known."""
        plan, level = self.plan, scope.level
        here = [s for s in stores if plan.store_level(s) <= level]
        deeper = [s for s in stores if plan.store_level(s) > level]
        wanted = [*values, *[s.value for s in stores]]
        stage: dict[int, int] = {}

        def stage_of(k: int) -> int:
            if k not in stage:
                found = max([stage_of(a) for a in plan.args(k)], default=0)
                stage[k] = found + (plan.folds[k] == level + 1)
            return stage[k]

        last = max([stage_of(k) for k in wanted], default=0)
        todo = sorted(k for k in stage if plan.folds[k] == level + 1 and not self.known(scope, k))
        for at in range(last + 1):
            folds = [k for k in todo if stage[k] == at + 1]
            inner = [s for s in deeper if stage[s.value] == at]
            if folds or inner:
                self.loop(scope, folds, inner)
        for k in values:
            scope.value(k)
        for s in here:
            at_ = scope.position(s.index_map)[0]
            text = f"b{s.binding}[{at_}] = {_stored(scope.value(s.value), s.dtype)};"
            scope.lines.append(self.guarded(scope, text))

    def known(self, scope: _Scope | None, k: int) -> bool:
        while scope is not None:
            if k in scope.names:
                return True
            scope = scope.parent
        return False

    def guarded(self, scope: _Scope, text: str) -> str:
        """A store by one of the threads that all have the value, where its row exists."""
        if not self.spread:
            return text
        if scope.level >= self.spread:
            return f"if (live) {{ {text} }}"
        return f"if (live & (lane == 0)) {{ {text} }}"

    def loop(self, scope: _Scope, folds: list[int], stores: Sequence[Store]) -> None:
        """Walk the next level once, for `folds` and `stores`."""
        plan, level = self.plan, scope.level + 1
        axes = plan.nest[level]
        size = math.prod(plan.space[d] for d in axes)
        inner = _Scope(plan, level, None, scope)
        r = f"r{level}"
        self.scope(inner, [plan.code[k].arg for k in folds], stores)
        names = {}
        for k in folds:
            names[k] = f"acc{self.count}"
            self.count += 1
            how, kind = self.combine(k)
            lifted = inner.value(plan.code[k].arg)
            if how.arg:
                lifted = f"Arg_{kind}({lifted}, {r})"
            scope.lines.append(f"var {names[k]} = {self.start(k)};")
            inner.lines.append(f"{names[k]} = {self.function(k)}({names[k]}, {lifted});")
        shared = level == self.spread
        first, step = ("lane", self.width) if shared else ("0", 1)
        body = [*_index_lines(r, plan, axes, "\n".join(inner.lines)), *inner.lines]
        times = self.times(level)
        sums = [names[k] for k in folds if self.combine(k)[0].sums == self.combine(k)[1]]
        carry, total = self.carry(scope, sums, -(-size // step), min(times, SUMMED))
        head = "for (var {0} = {1}; {0} < {2}; {0} += {3}) {{"
        if times == 1:
            scope.lines.append(head.format(r, first, size, step))
            scope.lines += ["  " + x for x in (*body, *carry)]
        else:
            s = f"s{level}"
            scope.lines.append(head.format(s, first, size, step * times))
            for k in range(times):
                scope.lines.append(f"  if ({s} + {k * step} < {size}) {{")
                scope.lines += ["    " + x for x in (f"let {r} = {s} + {k * step};", *body)]
                scope.lines.append("  }")
                if (k + 1) % SUMMED == 0 or k + 1 == times:
                    scope.lines += ["  " + x for x in carry]
        scope.lines += ["}", *total]
        for n, k in enumerate(folds):
            if shared:
                self.gather(scope, k, names[k], n)
            scope.names[k] = scope.let(self.result(k, names[k]))

    def carry(
        self, scope: _Scope, sums: list[str], terms: int, each: int
    ) -> tuple[list[str], list[str]]:
        """What follows `each` terms of the loop that makes `sums`, and what follows the loop: a
        thread adds SUMMED numbers, then SUMMED such sums, and so on, so that errors stay small."""
        if not sums or terms <= 2 * SUMMED:
            return [], []
        depth = range(1, math.ceil(math.log(terms, SUMMED)))
        kept = [sums, *[[f"{name}_{k}" for name in sums] for k in depth]]
        counter = f"n{self.count}"
        scope.lines += [f"var {name} = f32(0);" for names in kept[1:] for name in names]
        scope.lines.append(f"var {counter} = 0;")
        after = [f"{counter} += 1;"]
        for k in depth:
            after.append(f"if (({counter} & {SUMMED**k // each - 1}) == 0) {{")
            pairs = zip(kept[k - 1], kept[k], strict=True)
            after += [f"{to} += {name}; {name} = f32(0);" for name, to in pairs]
        after.append("}" * len(depth))
        return after, [f"{n} += {n}_{k};" for k in depth for n in sums]

    def times(self, level: int) -> int:
        """How often the body of the loop over `level` stands in the text, so that a thread passes
        it in at most ROUNDS rounds, those of the loops around it counted."""
        rounds = 1
        for at in range(1, level + 1):
            size = math.prod(self.plan.space[d] for d in self.plan.nest[at])
            rounds *= -(-size // (self.width if at == self.spread else 1))
        return 1 << (-(-rounds // ROUNDS) - 1).bit_length() if rounds > ROUNDS else 1

    def combine(self, k: int) -> tuple[Any, str]:
        i = self.plan.code[k]
        source = _type(self.plan.code[i.arg])
        return REGISTRY[i.op].combine, source.compute or "f32"

    def start(self, k: int) -> str:
        how, kind = self.combine(k)
        init = f"{kind}({how.start[kind]})"
        return f"Arg_{kind}({init}, 2147483647)" if how.arg else init

    def result(self, k: int, name: str) -> str:
        how, _ = self.combine(k)
        wrap = self.plan.code[k].dtype.wrap
        if how.arg:
            return f"{name}.i"
        return str(wrap.format(x=name)) if wrap else name

    def function(self, k: int) -> str:
        """The name of the function that folds two values of reduction `k` into one."""
        how, kind = self.combine(k)
        name = f"fold_{self.plan.code[k].op}_{kind}"
        if how.arg:
            self.globals[f"Arg_{kind}"] = f"struct Arg_{kind} {{ v: {kind}, i: i32 }}"
            test = how.wgsl.format(x="b.v", a="a.v", t=kind)
            back = how.wgsl.format(x="a.v", a="b.v", t=kind)
            body = f"if ({test} | (!{back} & (b.i < a.i))) {{ return b; }} return a;"
            kind = f"Arg_{kind}"
        else:
            body = f"return {how.wgsl.format(a='a', x='b', t=kind)};"
        self.globals[name] = f"fn {name}(a: {kind}, b: {kind}) -> {kind} {{ {body} }}"
        return name

    def gather(self, scope: _Scope, k: int, name: str, n: int) -> None:
        """Fold what the threads of a row have, and give it to all of them."""
        how, kind = self.combine(k)
        kind = f"Arg_{kind}" if how.arg else kind
        part = f"part{n}_{kind}"
        self.globals[part] = f"var<workgroup> {part}: array<{kind}, {THREADS}>;"
        function = self.function(k)
        other = f"{part}[t + half{'' if self.stride == 1 else f' * {self.stride}u'}]"
        scope.lines += [
            f"{part}[t] = {name};",
            "workgroupBarrier();",
            f"for (var half = {self.width // 2}u; half > 0u; half >>= 1u) {{",
            f"  if (u32(lane) < half) {{ {part}[t] = {function}({part}[t], {other}); }}",
            "  workgroupBarrier();",
            "}",
            f"{name} = {part}[{'0' if self.width == THREADS else 'first'}];",
            "workgroupBarrier();",
        ]

    stride = 1


def _rows(kernel: Kernel) -> tuple[str, tuple[int, int, int]]:
    plan = _Plan(kernel)
    grid = tuple(plan.space[d] for d in plan.nest[0])
    rows, n = math.prod(grid), math.prod(plan.space[d] for d in plan.nest[1])
    last = max((d for d, m in enumerate(plan.space) if m != 1), default=0)
    side_by_side = last in plan.nest[0]  # results, not what is folded, are neighbours in memory
    alone = len(plan.nest) == 2 and (n <= ONE_THREAD_A_ROW // 2 or (
        n <= ONE_THREAD_A_ROW and not any(plan.store_level(s) for s in kernel.stores)) or (
        side_by_side and rows >= 8192))  # fmt: skip
    if alone:
        width = 1
    elif len(plan.nest) > 2 or not side_by_side:
        width = min(THREADS, 1 << max(n - 1, 1).bit_length())
        if len(plan.nest) > 2:
            width = THREADS
    else:
        width = THREADS // COLUMNS
    gen = _Rows(plan, kernel.stores, 0 if alone else 1, width)
    together = THREADS // width  # rows of a workgroup
    gen.stride = together if side_by_side and not alone else 1
    scope = _Scope(plan, 0)
    gen.scope(scope, [], kernel.stores)
    body = scope.lines
    text = "\n".join(body)
    if alone:
        lines = [
            _FLAT.format(n=THREADS),
            f"if (flat >= {rows}) {{ return; }}",
            *_index_lines("flat", plan, plan.nest[0], text),
            *body,
        ]
        main, groups = _MAIN, math.ceil(rows / THREADS)
    else:
        if gen.stride > 1:
            lane, row = f"i32(t) / {together}", f"i32(t) % {together}"
            first = "i32(t) % " + str(together)
        else:
            lane, row = f"i32(t) % {width}", f"i32(t) / {width}"
            first = f"(i32(t) / {width}) * {width}"
        start = "i32(group.x + group.y * groups.x)"
        lines = [
            f"let lane = {lane};" if together > 1 else "let lane = i32(t);",
            f"let row = {start} * {together} + {row};" if together > 1 else f"let row = {start};",
            f"let live = row < {rows};",
            f"let flat = min(row, {rows - 1});",  # all threads meet at the barriers
            *([f"let first = {first};"] if together > 1 else []),
            *_index_lines("flat", plan, plan.nest[0], text),
            *body,
        ]
        main, groups = _GROUPS, math.ceil(rows / together)
    code = "".join(f"{text}\n" for _, text in sorted(gen.globals.items(), key=_structs_first))
    return code + main.format(n=THREADS) + _indent(lines) + "}\n", fold_grid(groups)


def _structs_first(item: tuple[str, str]) -> tuple[bool, str]:
    return not item[1].startswith("struct"), item[0]


# --- routines: a file of shaders/, with generated loads and an epilogue before its stores


def _routine(kernel: Kernel, limits: Limits) -> tuple[str, Grid]:
    assert kernel.routine is not None
    name, attrs, operands, dtype = kernel.routine
    op = REGISTRY[name]
    assert op.kernel is not None
    shapes = tuple([e.shape for e in operands])
    results = (kernel.space,) if op.results is None else op.results(*shapes, *attrs)
    call = KernelCall(
        kernel.space, shapes, dtype, tuple([e.dtype for e in operands]), results,
        dict(zip(op.attrs, attrs, strict=False)), limits,
    )  # fmt: skip
    constants, grid = op.kernel.plan(call)
    code = f"alias Acc = {dtype.compute};\n"
    for operand, e in zip(op.inputs, operands, strict=True):
        code += _operand(f"load_{operand}", e)
    plan = _Plan(kernel)
    scope = _Scope(plan, 0, "at")
    result = next((k for k, i in enumerate(kernel.code) if isinstance(i, Result)), 0)
    scope.names[result] = scope.let(dtype.wrap.format(x="v")) if dtype.wrap else "v"
    for s in kernel.stores:
        at, value = scope.position(s.index_map)[0], scope.value(s.value)
        scope.lines.append(f"b{s.binding}[{at}] = {_stored(value, s.dtype)};")
    body = _last(scope.lines)
    index = _index_lines("at", plan, plan.nest[0], "\n".join(body))
    code += "fn store(at: i32, v: Acc) {\n" + _indent([*index, *body]) + "}\n"
    return code + library.specialise(op.kernel.file, constants), grid


def _operand(name: str, e: Expr) -> str:
    """The function that computes an operand at an index."""
    k = Kernel(e.shape, e.code, (), 0, 0)
    scope = _Scope(_Plan(k), 0)
    value = scope.value(len(e.code) - 1)
    params = ", ".join(f"i{d}: i32" for d in range(len(e.shape)))
    lines = [*scope.lines, f"return {value};"]
    return f"fn {name}({params}) -> {e.dtype.compute} {{\n" + _indent(lines) + "}\n"
