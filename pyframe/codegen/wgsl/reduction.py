"""Reduction kernels: each result is reduced by one thread, or by several of a workgroup together.

A thread walks its share of what is reduced in a loop, adds what it finds to accumulators, and goes
on with what follows from them: another loop (softmax has two), or stores.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyframe.codegen.wgsl import scalars
from pyframe.codegen.wgsl.block import (
    FLAT,
    GROUPS,
    MAIN,
    SUBGROUPS,
    THREADS,
    WgslBlock,
    gathered_access,
    in_order,
    indented,
    stored,
    whole_access,
    whole_words,
)
from pyframe.core.limits import Limits
from pyframe.core.op import Grid, grid_1d
from pyframe.core.sizes import is_symbolic_size, size_hint, statically_equal, tuning_hint
from pyframe.graph.loops import Let, Loop, LoopNest, Write
from pyframe.graph.program import combine_of, dtype_of
from pyframe.graph.scalar import Scalar, meaning_of

ONE_THREAD = 32  # elements: fewer are reduced by one thread
MANY_RESULTS = 1 << 13  # side by side: each thread reduces one
FEW_RESULTS = 4  # where threads do best alone: fewer are reduced by several all the same,
FEW_ELEMENTS = 1 << 10  # unless these are few: barriers take a driver long to compile
COLUMNS = 16  # neighbouring results that a workgroup reduces together, where they lie side by side
ANY_LENGTH = 64  # elements that are reduced at least, where their number changes
LOADS_IN_FLIGHT = 4  # elements of a short row that a thread has: so many loads are under way
LEAST_WIDTH = 32  # threads that share a short row
# Elements that a thread holds at once, and instructions for them
MAX_REGISTER_ELEMENTS, WORK = 16, 256
NEIGHBOUR_INSTRUCTIONS = 32  # instructions that a text may grow by so that threads have neighbours
GROUP = "i32(group.x + group.y * groups.x)"
COMPENSATION_INTERVAL = 32  # numbers that one thread adds one after the other
# Of a loop: Mesa's software driver stops a thread, and tells nobody, after 65535 of all its loops,
# of which up to LOOPS have so many rounds, and more of them fewer.
MAX_LOOP_TRIPS, LOOPS = 1 << 13, 7


class ReductionTiling(NamedTuple):
    """Who reduces what: `width` threads of a workgroup have a result together (1: each has one of
    its own). `neighbours`: the results lie side by side in memory, rather than what is reduced, and
    so do the threads that begin with them. `each`: a thread's elements, where it holds them all at
    once, so that they are read and computed once; 0 where it walks them."""

    width: int
    neighbours: bool
    each: int = 0

    @property
    def results(self) -> int:
        """How many results a workgroup has."""
        return THREADS // self.width

    @property
    def stride(self) -> int:
        """How far apart the threads of one result are."""
        return self.results if self.neighbours else 1


def sharing(nest: LoopNest, limits: Limits) -> ReductionTiling:
    """One thread has a result where little is reduced, less if the elements are stored too, where
    results are many and lie side by side, or where threads do best alone. Else a workgroup's
    threads share one or some."""
    results, n = size_hint(nest.size(0)), tuning_hint(nest.size(1), ANY_LENGTH)
    last = max((d for d, m in enumerate(nest.space) if is_symbolic_size(m) or m != 1), default=0)
    neighbours = last in nest.levels[0]
    twice = len(nest.levels) > 2  # results are reduced to scalars: one workgroup does it all
    if not twice:
        little = n <= ONE_THREAD // 2
        only_read = n <= ONE_THREAD and not any(nest.level_of(s) for s in nest.stores)
        many = (neighbours and results >= MANY_RESULTS) or (limits.alone and results >= FEW_RESULTS)
        if little or only_read or many:
            return ReductionTiling(1, False, _held(nest, 1))
    total = math.prod(nest.space)
    if limits.alone and not is_symbolic_size(total) and total <= FEW_ELEMENTS:
        return ReductionTiling(1, False, 0 if twice else _held(nest, 1))
    if twice:
        return ReductionTiling(THREADS, neighbours)
    if neighbours:
        return ReductionTiling(THREADS // COLUMNS, True)
    width = min(THREADS, max(1 << (-(-n // LOADS_IN_FLIGHT) - 1).bit_length(), LEAST_WIDTH))
    each = _held(nest, width)
    if not each and n > LEAST_WIDTH:
        width = min(THREADS, 1 << (n - 1).bit_length())
    return ReductionTiling(width, False, each)


def _held(nest: LoopNest, width: int) -> int:
    """How many elements a thread holds at once; 0 where they are too many, or too much text."""
    if is_symbolic_size(nest.size(1)):
        return 0
    each = -(-nest.size(1) // width)
    return each if each <= MAX_REGISTER_ELEMENTS and each * _work(nest) <= WORK else 0


def _work(nest: LoopNest) -> int:
    """Instructions for each element."""
    return sum(level == 1 for level in nest.at)


def _loops(body: Sequence[Let | Loop | Write]) -> int:
    """How many loops there are, one within another and one after another."""
    return sum(1 + _loops(st.body) for st in body if isinstance(st, Loop))


class _Reductions:
    """Prints a kernel with reductions. The walk over level 1 is shared by the threads that have
    a result together, deeper ones are done by each thread alone."""

    def __init__(self, nest: LoopNest, how: ReductionTiling, limits: Limits) -> None:
        self.nest, self.width, self.stride = nest, how.width, how.stride
        self.how, self.run = how, 1  # `run`: neighbouring elements that a thread has
        self.whole: dict[int, str] = {}  # the functions that write whole words of a binding
        self.gathered: dict[int, int] = {}  # words of results, and how many each has
        # whether threads hand each other values rather than put them into workgroup memory
        subgroups = limits.subgroups and not limits.alone
        self.subgroups = subgroups and how.stride == 1 < how.width
        self.spread = 0 if how.width == 1 else 1  # the level whose walk is shared
        self.globals: dict[str, str] = {}
        self.count = 0
        self.held: list[WgslBlock] = []  # of each element that a thread holds: what is known of it
        self.within = ""  # the condition under which that is an element
        self.rounds = MAX_LOOP_TRIPS * LOOPS // max(_loops(nest.body), LOOPS)
        self.of_words(limits)

    def of_words(self, limits: Limits) -> None:
        """Find out which words are written whole: those of elements by threads that have
        neighbours, those of results by one thread for all whose results they are."""
        nest, how = self.nest, self.how
        single, bindings = statically_equal(nest.size(0), 1), [s.binding for s in nest.stores]
        last = max(
            (d for d, n in enumerate(nest.space) if is_symbolic_size(n) or n != 1), default=0
        )
        line = single and len(nest.levels) == 2 and sorted(nest.levels[1]) == nest.levels[1]
        words = [
            s for s in whole_words(nest.stores, nest.space, line)
            if (level := nest.level_of(s)) and nest.levels[level][-1] == last
        ]  # fmt: skip
        shared = [s for s in words if nest.level_of(s) == 1]
        if how.width > 1 and shared:
            run = max(s.dtype.packed for s in shared)
            each = run * -(-nest.size(1) // (run * how.width)) if how.each else 0
            more = (each - how.each) * _work(nest)
            if each * _work(nest) <= WORK and more <= NEIGHBOUR_INSTRUCTIONS and self.times(1) == 1:
                self.run, self.how = run, how._replace(each=each)
            else:
                words = [s for s in words if s not in shared]
        self.whole = {s.binding: whole_access(s, math.prod(nest.space)) for s in words}
        for s in nest.stores:
            b, per = s.binding, s.dtype.packed
            if per == 1 or nest.level_of(s) or bindings.count(b) > 1:
                continue
            if not in_order(s.index_map, nest.space, nest.levels[0]):
                continue
            if single:
                self.whole[b] = whole_access(s, 1)
            elif per <= how.results and not limits.alone:
                self.whole[b] = gathered_access(s, how.results, nest.size(0))
                self.gathered[b] = per

    def statements(self, block: WgslBlock, body: Sequence[Let | Loop | Write]) -> None:
        for st in body:
            if isinstance(st, Let):
                if st.value not in block.names:
                    block.compute(st)
            elif isinstance(st, Loop):
                (self.at_once if self.how.each else self.loop)(block, st)
            elif (s := self.nest.stores[st.store]).binding in self.gathered:
                text = f"word{s.binding}[mine] = {stored(block.names[s.value], s.dtype)};"
                block.lines.append(self.guarded(block.level, text))
            else:
                block.lines.append(self.guarded(block.level, block.store(st.store)))

    def guarded(self, level: int, text: str) -> str:
        """A store by one of the threads that all have the value, where its result exists."""
        conditions = ["live"] * (self.spread or bool(self.gathered))
        if level:
            conditions += [f"({self.within})"] * bool(self.within)
        elif self.spread:
            conditions.append("(lane == 0)")
        return f"if ({' & '.join(conditions)}) {{ {text} }}" if conditions else text

    def at_once(self, block: WgslBlock, loop: Loop) -> None:
        """What `loop` does, for all the elements of a thread one after the other in the text: what
        an earlier walk has computed of them is still there."""
        size, width, run = self.nest.size(1), self.width, self.run
        places = [n // run * width * run + n % run for n in range(self.how.each)]
        lane = "lane" if run == 1 else f"{run} * lane"
        at = [f"{p}" if width == 1 else f"{lane} + {p}" if p else lane for p in places]
        inside = [p - p % run + width * run <= size for p in places]
        accs = self.accumulators(block, loop.reduces)
        if not self.held:
            for n in range(self.how.each):
                inner = WgslBlock(self.nest, parent=block)
                inner.let = scalars.naming(inner.lines, f"{inner.tag}{n}_")
                place = at[n] if inside[n] else f"min({at[n]}, {size - 1})"
                block.lines.append(f"let r1_{n} = {place};")
                self.held.append(inner)
        for n, inner in enumerate(self.held):
            inner.names.update(block.names)
            begin, axes = len(inner.lines), inner.axes.copy()
            self.within = "" if inside[n] else f"{at[n]} < {size}"
            self.statements(inner, loop.body)
            for k, name in accs.items():
                text = f"{name} = {self.function(k)}({name}, {self.lifted(inner, k, f'r1_{n}')});"
                inner.lines.append(f"if ({self.within}) {{ {text} }}" if self.within else text)
            new, inner.axes = inner.axes, inner.axes - axes
            lines = [*inner.indices(f"r1_{n}"), *inner.lines[begin:]]
            inner.axes = new
            of_row = [d for d in self.nest.levels[1] if d in new]
            block.axes |= new
            for line in lines:
                for d in of_row:
                    line = re.sub(rf"\bi{d}\b", f"i{d}_{n}", line)
                block.lines.append(line)
        self.within = ""
        self.finish(block, accs, self.width > 1)

    def accumulators(self, block: WgslBlock, reduces: Sequence[int]) -> dict[int, str]:
        """The names of what each reduction has so far."""
        names = {}
        for k in reduces:
            names[k] = f"acc{self.count}"
            self.count += 1
            block.lines.append(f"var {names[k]} = {self.start(k)};")
        return names

    def lifted(self, block: WgslBlock, k: int, at: str) -> str:
        """What reduction `k` combines of one element, the one at `at`."""
        how, kind = self.combine(k)
        value = block.names[self.nest.code[k].arg]
        return f"Arg_{kind}({value}, {at})" if how.arg else value

    def finish(self, block: WgslBlock, accs: dict[int, str], shared: bool) -> None:
        """Name the results, once the threads that share one have put theirs together."""
        if shared and accs:
            self.gather(block, accs)
        for k, name in accs.items():
            block.names[k] = block.let(self.result(k, name))

    def loop(self, block: WgslBlock, loop: Loop) -> None:
        """Walk the axes of a level once, for the reductions and the statements of `loop`."""
        level = loop.level
        size = self.nest.size(level)
        inner = WgslBlock(self.nest, parent=block)
        r = f"r{level}"
        self.statements(inner, loop.body)
        names = self.accumulators(block, loop.reduces)
        for k, name in names.items():
            inner.lines.append(f"{name} = {self.function(k)}({name}, {self.lifted(inner, k, r)});")
        block.axes |= inner.axes
        shared = level == self.spread
        first, step = ("lane", self.width) if shared else ("0", 1)
        run = self.run if shared else 1
        body = [*inner.indices(r), *inner.lines]
        times = self.times(level)
        sums = {name: self.start(k) for k, name in names.items() if self.sums_floats(k)}
        terms = tuning_hint(-(-size // step), COMPENSATION_INTERVAL + 1)
        carry, total = self.carry(block, sums, terms, min(times, COMPENSATION_INTERVAL))
        end = scalars.count(size)
        head = "for (var {0} = {1}; {0} < {2}; {0} += {3}) {{"
        if run > 1:
            block.lines.append(head.format("own", f"{run} * lane", end, step * run))
            block.lines.append(f"for (var {r} = own; {r} < min(own + {run}, {end}); {r}++) {{")
            block.lines += ["  " + x for x in (*body, *carry, "}")]
        elif times == 1:
            block.lines.append(head.format(r, first, end, step))
            block.lines += ["  " + x for x in (*body, *carry)]
        else:
            s = f"s{level}"
            block.lines.append(head.format(s, first, end, step * times))
            for k in range(times):
                block.lines.append(f"  if ({s} + {k * step} < {end}) {{")
                block.lines += ["    " + x for x in (f"let {r} = {s} + {k * step};", *body)]
                block.lines.append("  }")
                if (k + 1) % COMPENSATION_INTERVAL == 0 or k + 1 == times:
                    block.lines += ["  " + x for x in carry]
        block.lines += ["}", *total]
        self.finish(block, names, shared)

    def carry(
        self, block: WgslBlock, sums: dict[str, str], terms: int, each: int
    ) -> tuple[list[str], list[str]]:
        """What follows `each` terms of the loop that makes `sums` (and the zeros of their types),
        and what follows the loop: a thread adds SUMMED numbers, then SUMMED such sums, and so on,
        so that errors stay small."""
        if not sums or terms <= COMPENSATION_INTERVAL:
            return [], []
        depth = range(1, math.ceil(math.log(terms, COMPENSATION_INTERVAL)))
        kept = [[*sums], *[[f"{name}_{k}" for name in sums] for k in depth]]
        counter = f"n{self.count}"
        for k in depth:
            block.lines += [f"var {name}_{k} = {zero};" for name, zero in sums.items()]
        block.lines.append(f"var {counter} = 0;")
        after = [f"{counter} += 1;"]
        for k in depth:
            after.append(f"if (({counter} & {COMPENSATION_INTERVAL**k // each - 1}) == 0) {{")
            pairs = zip(kept[k - 1], kept[k], sums.values(), strict=True)
            after += [f"{to} += {name}; {name} = {zero};" for name, to, zero in pairs]
        after.append("}" * len(depth))
        return after, [f"{n} += {n}_{k};" for k in depth for n in sums]

    def times(self, level: int) -> int:
        """How often the body of the loop over `level` stands in the text, so that a thread passes
        it in at most `rounds` rounds, those of the loops around it counted."""
        rounds = 1
        for at in range(1, level + 1):
            rounds *= -(-self.nest.size(at) // (self.width if at == self.spread else 1))
        times = 1
        while rounds > times * self.rounds:
            times *= 2
        return times

    def combine(self, k: int) -> tuple[Any, str]:
        i = self.nest.code[k]
        return combine_of(i), dtype_of(self.nest.code[i.arg]).compute or "f32"

    def sums_floats(self, k: int) -> bool:
        how, kind = self.combine(k)
        return bool(how.sums) and kind in ("f32", "c64")

    def start(self, k: int) -> str:
        how, kind = self.combine(k)
        init = scalars.literal(how.start(kind), kind)
        return f"Arg_{kind}({init}, 2147483647)" if how.arg else init

    def result(self, k: int, name: str) -> str:
        how, _ = self.combine(k)
        if how.arg:
            return f"{name}.i"
        dtype = self.nest.code[k].dtype
        return scalars.text_of(scalars.wrapped(dtype), [name], scalars.naming([]))

    def function(self, k: int) -> str:
        """The name of the function that combines two values of reduction `k` into one."""
        how, kind = self.combine(k)
        name = f"combine_{self.nest.code[k].op}_{kind}"
        lines: list[str] = []
        let = scalars.naming(lines)
        if how.arg:
            self.globals[f"Arg_{kind}"] = f"struct Arg_{kind} {{ v: {kind}, i: i32 }}"
            beats = scalars.text_of(_beats(how.scalar, kind), ("a.v", "b.v", "a.i", "b.i"), let)
            lines.append(f"if ({beats}) {{ return b; }} return a;")
            kind = f"Arg_{kind}"
        else:
            meaning = meaning_of(how.scalar, (kind, kind), kind)
            lines.append(f"return {scalars.text_of(meaning, ('a', 'b'), let)};")
        body = " ".join(lines)
        self.globals[name] = f"fn {name}(a: {kind}, b: {kind}) -> {kind} {{ {body} }}"
        return name

    def put_together(self) -> list[str]:
        """The lines that write the words of results, once a workgroup has all of these."""
        n, lines = self.how.results, ["workgroupBarrier();"] * bool(self.gathered)
        for b, per in self.gathered.items():
            lines.append(f"if (i32(t) < {n // per}) {{ put{b}({per} * i32(t), {GROUP} * {n}); }}")
        return lines

    def gather(self, block: WgslBlock, accs: dict[int, str]) -> None:
        """Combine what the threads of a result have, of all reductions at once, and give it to all
        of them."""
        parts = []  # of each: the accumulator, workgroup memory, and what combines two of its kind
        for n, (k, name) in enumerate(accs.items()):
            how, kind = self.combine(k)
            kind = f"Arg_{kind}" if how.arg else kind
            parts.append((name, f"part{n}_{kind}", self.function(k)))
            self.globals[parts[-1][1]] = f"var<workgroup> part{n}_{kind}: array<{kind}, {THREADS}>;"
        kinds = {self.combine(k)[1] for k in accs}
        if self.subgroups and "bool" not in kinds:
            block.lines += self.by_subgroups(parts)
            return
        other = f"t + half{'' if self.stride == 1 else f' * {self.stride}u'}"
        first = "0" if self.width == THREADS else "first"
        block.lines += [
            *[f"{part}[t] = {name};" for name, part, _ in parts],
            "workgroupBarrier();",
            f"for (var half = {self.width // 2}u; half > 0u; half >>= 1u) {{",
            "  if (u32(lane) < half) {",
            *[f"    {part}[t] = {f}({part}[t], {part}[{other}]);" for _, part, f in parts],
            "  }",
            "  workgroupBarrier();",
            "}",
            *[f"{name} = {part}[{first}];" for name, part, _ in parts],
            "workgroupBarrier();",
        ]

    def by_subgroups(self, parts: Sequence[tuple[str, str, str]]) -> list[str]:
        """The same where threads of a subgroup hand each other what they have: of each chunk one
        value passes through workgroup memory."""
        first = "0u" if self.width == THREADS else "u32(first) / chunk"
        lines = ["for (var half = 1u; half < chunk; half <<= 1u) {"]
        for name, part, f in parts:
            handed = f"subgroupShuffleXor({name}, half)"
            if "_Arg_" in part:
                each = [f"subgroupShuffleXor({name}.{x}, half)" for x in "vi"]
                handed = f"{part.partition('_')[2]}({', '.join(each)})"
            lines.append(f"  {name} = {f}({name}, {handed});")
        return [
            *lines, "}",
            "if (u32(lane) % chunk == 0u) {",
            *[f"  {part}[t / chunk] = {name};" for name, part, _ in parts], "}",
            "workgroupBarrier();",
            *[f"{name} = {part}[{first}];" for name, part, _ in parts],
            f"for (var other = 1u; other < {self.width}u / chunk; other++) {{",
            *[f"  {name} = {f}({name}, {part}[{first} + other]);" for name, part, f in parts], "}",
            "workgroupBarrier();",
        ]  # fmt: skip


@functools.cache
def _beats(wins: Callable[[Scalar, Scalar], Scalar], kind: str) -> Scalar:
    """Whether the second number takes the place of the first; their indices decide between equals.
    Operands: both numbers, both indices."""
    a, b, i, j = [Scalar("arg", (), t, n) for n, t in enumerate((kind, kind, "i32", "i32"))]
    return wins(a, b) | (~wins(b, a) & (j < i))


def reduction_kernel(nest: LoopNest, limits: Limits) -> tuple[str, Grid, dict[int, str]]:
    """The text of a kernel that reduces, its workgroups, and the functions that write whole words,
    by the binding."""
    results = nest.size(0)
    made = _Reductions(nest, sharing(nest, limits), limits)
    how = made.how
    block = WgslBlock(nest)
    made.statements(block, nest.body)
    if how.width == 1 and not made.gathered:
        begin = [FLAT.format(n=THREADS), f"if (flat >= {scalars.count(results)}) {{ return; }}"]
        main, groups = MAIN, -(-results // THREADS)
    else:
        begin = _shared_by_threads(how, results, bool(made.gathered))
        block.lines += made.put_together()
        main, groups = SUBGROUPS if made.subgroups else GROUPS, -(-results // how.results)
    code = "".join(f"{text}\n" for _, text in sorted(made.globals.items(), key=_structs_first))
    body = indented([*begin, *block.indices("flat"), *block.lines])
    code += main.format(n=THREADS, width=how.width) + body + "}\n"
    return code, grid_1d(groups), made.whole


def _shared_by_threads(how: ReductionTiling, results: int, gathered: bool) -> list[str]:
    """Which result a thread works on (`flat`), as which of the threads that do (`lane`), and which
    of the workgroup's results that is (`mine`), if they are gathered."""
    if how.results == 1:
        begin = ["let lane = i32(t);", f"let row = {GROUP};"]
    else:
        n = how.results if how.stride > 1 else how.width
        over, rest = f"i32(t) / {n}" if n > 1 else "i32(t)", f"i32(t) % {n}"
        lane, row = (over, rest) if how.stride > 1 else (rest, over)
        begin = [f"let lane = {lane};"] * (how.width > 1) + [f"let mine = {row};"] * gathered
        begin.append(f"let row = {GROUP} * {how.results} + {row};")
    begin += [
        f"let live = row < {scalars.count(results)};",
        f"let flat = min(row, {scalars.count(results - 1)});",  # all threads meet at the barriers
    ]
    if how.results > 1 < how.width:
        first = f"({over}) * {how.width}" if how.stride == 1 else rest
        begin.append(f"let first = {first};")
    return begin


def _structs_first(item: tuple[str, str]) -> tuple[bool, str]:
    return not item[1].startswith("struct"), item[0]
