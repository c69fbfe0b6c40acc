"""Functions and modules in the subset of jit.script: a script gives what Python gives, also after
it was written down and read again."""

from __future__ import annotations

import io
import linecache
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyframe as pf

from .check import FailureError, NoProgramError
from .families import Draw, family

# Expressions by their type, of variables {i}nt, {f}loat, {b}ool, {x} tensor, {l}ist of ints, {t}uple,
# {s}tring, {d}ict of ints by strings
EXPRESSIONS = {
    "i": """{i} + {i}  {i} - 2  {i} * {i} % 7  {i} // 3  -{i}  len({l})  {l}[0]  {x}.shape[0]
        min({i}, {i})  {x}.size(-1)  abs({i})  {i} if {b} else {i}  sum({l})  {t}[0]
        int({f})  {i} ** 2 % 11  {i} & 3  helper({i}, {i})  {x}.dim()  max({l}) + {l}[-1]
        {i} | 1  {i} << 1 & 15  divmod({i}, 3)[1]  rest({i}, {i}, {i})  rest(*{l})
        {l}.count({i})  len(f"«{i}»-«{f}:.2f»")  round({f})  {l}.index({l}[-1])  len({s})
        {d}.get('a', {i})  sum({d}.values())  {s}.count('a')  {s}.find('b')  {d}['b']
        len({d})  pow({i} % 5, 2)  sum([v for r in [{l}, {l}] for v in r])  {l}.copy().pop(0)""",
    "f": """{f} * 0.5  {f} + {i}  float({i})  {i} / 3  {x}.sum().item()  math.sqrt(abs({f}))
        {t}[1]  max({f}, 0.5)  {f} if {i} > {i} else -{f}  float({b})""",
    "b": """{i} > {i}  {i} <= {f}  not {b}  {b} and {b}  {b} or {i} == 1  0 < {i} < 5
        {i} in {l}  {x}.sum() > 0  bool({x}.max() > {f})  {i} != {i}  {x} is None
        {s} in {d}  'a' in {s}  {s}.startswith('a')  {s} == {s}  {l} == {l}  {l} < {l}
        {d} == {d}  {i} not in (1, 2)  isinstance({i}, int)  any([{b}, {b}])  all([v > 1 for v in {l}])""",
    "x": """{x} + {x}  {x} * {f}  {x}.relu()  {x} - {i}  T.tanh({x})  {x} if {b} else {x} * 2
        {x}.flip(0)  T.cat([{x}, {x}])[: {x}.shape[0]]  {x}.clone()
        T.where({x} > 0, {x}, -{x})  {x}.abs().sqrt()  T.stack([{x}, {x}], dim=0).sum(0)
        {x}.reshape(-1).reshape({x}.shape)  torchlike({x}, k={i})  T.zeros_like({x}) + {i}
        {x}.view(*{x}.shape)  {x}.permute(*range({x}.dim())) + 1
        {x}[:, {i} % 2 :].sum() + {x}  F.softmax({x}, dim=-1)  {x}.max(dim=0).values + {x}""",
    "l": """[{i}, {i}]  [v * 2 for v in {l}]  {l} + [{i}]  {l}[:3]  {l}[::-1]
        [v for v in {l} if v > 1] + [1]  list(range(1, 4))  sorted({l})  [{i}] * 2
        list({x}.shape)  [a + b for a, b in zip({l}, {l})]  {l}.copy()  list({d}.values())
        sorted({l}, reverse={b})  list(reversed({l}))  [len(k) for k in {d}]
        [a * b for a in range(3) for b in {l}[:2] if a != b]  [len(p) for p in {s}.split('a')]
        [*{l}[:2], {i}]  list((1, {i}))""",
    "s": """str({i})  {s}[:4] + {s}[:3]  {s}.upper()  {s}.replace('a', 'bb')[:9]  {s}[::-1]  {s}[:3] * 2
        ','.join([str(v % 9) for v in {l}])[:9]  f"«{i}»«{s}»"[:9]  {s}.strip('b').rjust(3)
        {s}.partition('a')[0]  {s} if {b} else {s}  list({d})[0]  '%03d' % ({i} % 99)""",
    "d": """{d}  {d}.copy()  «'a': {i}, 'b': 2»  «k: v + 1 for k, v in {d}.items()»
        «str(v % 5): v for v in {l} if v != 1»  {d} if {b} else {d}  dict({d})
        «k + 'a': {i} for k in {d}»""",
    "t": """({i}, {f})  ({i} + 1, {f} * 2.0)  {t}  swapped({t})""",
}  # fmt: skip
# Statements that change a list, a dict and a string
CHANGES = {
    "l": """{it}.append({i})  {it}.extend({l}[:2])  {it}.insert({i}, 3)  {it}.sort()  {it}.reverse()
        {it}.sort(reverse={b})  {it}.remove({i})  {it}.pop()  {it}.pop(0)  {it}[0] = {i}  {it}[1:2] = {l}[:2]
        {it} += {l}[:2]  {it}[-1] += {i}  {it}.clear()  del {it}[0]  {it} = {it}[:5]""",
    "d": """{it}['a'] = {i}  {it}[{s}] = {i}  {it}.update({d})  {it}.setdefault('c', {i})  {it}.pop('b', 0)
        {it}['b'] += {i}  del {it}['b']""",
    "s": """{it} += {s}[:2]  {it} = {it}[:6]  {it} = {it}.replace('b', {s}[:2])""",
}  # fmt: skip
HELPERS = """
import math
import pyframe as T
from pyframe import nn
from pyframe.nn import functional as F

def helper(a: int, b: int):
    if a > b:
        return a - b
    for k in range(3):
        if k == b:
            return k
        a += k
    return a + 2 * b

def rest(first: int, *others):
    total = first
    for o in others:
        total = total * 2 + o
    return total + len(others)

def swapped(pair):
    a, b = pair
    return int(b), float(a)

def torchlike(x, k: int = 1):
    k %= 9
    while k > 4:
        k -= 3
    y = x * k
    return y if k % 2 == 0 else -y
"""


@dataclass(frozen=True)
class Scripted:
    """The body of a function of a tensor, an int and a float, perhaps a module's `forward`."""

    lines: tuple[str, ...]
    module: bool

    def source(self) -> str:
        """The whole file."""
        if not self.module:
            return "\n".join([HELPERS, "def f(x, i: int, f: float):",
                              *[f"    {line}" for line in self.lines]])  # fmt: skip
        return "\n".join([
            HELPERS, "class Part(nn.Module):", "    def __init__(self, k):",
            "        super().__init__()", "        self.k, self.fc = k, nn.Linear(3, 3)",
            "    def forward(self, x):", "        if self.k > 1 and x.sum() > 0:",
            "            return self.fc(x)", "        return x * self.k",
            "class Net(nn.Module):", "    def __init__(self):", "        super().__init__()",
            "        self.parts = nn.ModuleList([Part(k) for k in range(3)])",
            "        self.register_buffer('seen', T.zeros(()))",
            "    def own(self, x, *more):", "        for p in self.parts:", "            x = p(x)",
            "        for m in more:", "            x = x + m", "        return x",
            "    def forward(self, x, i: int, f: float):",
            *[f"        {line}" for line in self.lines], "f = Net()",
        ])  # fmt: skip

    def check(self, backend: Any) -> bool:
        """Compare some calls."""
        name, text = "<scripted>", self.source()
        linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
        space: dict[str, Any] = {"__name__": name}
        pf.manual_seed(0)
        try:
            exec(compile(text, name, "exec"), space)
        except SyntaxError as error:
            raise NoProgramError(str(error)) from None
        plain = space["f"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                scripted = pf.jit.script(plain)
                file = io.BytesIO()
                pf.jit.save(scripted, file)
            except Exception as error:
                raise FailureError("refuses", f"{type(error).__name__}: {error}") from None
            file.seek(0)
            held = False
            for n, (i, f) in enumerate([(0, 0.5), (3, -1.25), (7, 2.0)]):
                pf.manual_seed(n)
                x = pf.randn(2, 3) + 0.2
                want = outcome(plain, x.clone(), i, f)
                for kind, fn in (("script", scripted), ("loaded", pf.jit.load(file))):
                    got = outcome(fn, x.clone(), i, f)
                    if got != want:
                        raise FailureError("other", f"{kind}({i}, {f}) gives {got}; Python: {want}")
                held = held or not want.startswith("raises")
        return held

    def smaller(self) -> Iterator[Scripted]:
        for k in range(len(self.lines)):
            yield replace(self, lines=(*self.lines[:k], *self.lines[k + 1 :]))

    def text(self, backend: Any) -> str:
        end = "s = T.jit.script(f)\nx = T.ones(2, 3)\nprint(s(x, 3, 0.5), f(x, 3, 0.5))"
        return f"{self.source()}\n{end}"


def outcome(fn: Any, *args: Any) -> str:
    """What a call gives, or raises."""
    try:
        return repr(fn(*args))
    except Exception as error:
        return f"raises {type(error).__name__}"


@family("scripts")
def scripts(d: Draw) -> Scripted:
    """Branches, loops and early returns around expressions of all kinds."""
    return Scripted(*_Writer(d).body())


class _Writer:
    def __init__(self, d: Draw) -> None:
        self.d, self.module = d, d.maybe(0.4)
        self.known = {"i": ["i", "2"], "f": ["f", "0.25"], "b": ["True"], "x": ["x"],
                      "l": ["[1, 2, 3]"], "t": ["(2, 0.5)"], "s": ["'ab'"],
                      "d": ["«'b': 3»"]}  # fmt: skip
        self.lines: list[str] = []
        self.count = 0

    def body(self) -> tuple[tuple[str, ...], bool]:
        self.block(self.d.int(3, 8), 0, False)
        found = ", ".join(names[-1] for names in self.known.values())
        lines = [*self.lines, f"return {found}"]
        return tuple([line.replace("«", "{").replace("»", "}") for line in lines]), self.module

    def expression(self, kind: str, deep: int = 0) -> str:
        d = self.d
        if deep > 1 or (deep and d.maybe(0.6)):
            return str(d.pick(*self.known[kind]))
        if kind == "x" and self.module and d.maybe(0.3):
            own = d.pick("self.own({x})", "self.own({x}, {x}, {x})", "self.parts[1]({x})",
                         "self.parts[2]({x}) + self.parts[0].k")  # fmt: skip
            return f"({self.filled(own, deep)})"
        return f"({self.filled(d.one(EXPRESSIONS[kind]), deep)})"

    def filled(self, text: str, deep: int) -> str:
        for kind in EXPRESSIONS:
            while "{" + kind in text:
                at = text.index("{" + kind)
                end = at + 2
                inner = self.expression(kind, 2 if "«" in text else deep + 1)
                text = text[:at] + inner + text[end + 1 :]
        return text

    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def block(self, n: int, depth: int, loop: bool) -> None:
        d, pad = self.d, "    " * depth
        before = {k: list(v) for k, v in self.known.items()}
        for _ in range(n):
            how = d.int(0, 13 if depth < 3 else 7)
            kind = d.pick(*EXPRESSIONS)
            names = [v for v in self.known[kind] if v.isidentifier() and v != "True"]
            if how < 4:
                name = d.pick(*names) if names and d.maybe() else self.fresh(kind)
                self.lines.append(f"{pad}{name} = {self.expression(kind)}")
                if name not in self.known[kind]:
                    self.known[kind].append(name)
            elif how == 4 and kind in "ifx" and names:
                sign = d.pick("+", "-", "*")
                name = d.pick(*names)
                self.lines.append(f"{pad}{name} {sign}= {self.expression(kind, 1)}")
                if kind == "i" and sign == "*":
                    self.lines.append(f"{pad}{name} %= 9973")
            elif how == 5 and kind in CHANGES and self.known[kind][1:]:
                line = d.one(CHANGES[kind]).replace("{it}", d.pick(*self.known[kind][1:]))
                self.lines.append(pad + self.filled(line, 1))
            elif how == 6 and self.known["t"][1:]:
                a, b = self.fresh("i"), self.fresh("f")
                self.lines.append(f"{pad}{a}, {b} = {d.pick(*self.known['t'])}")
                self.known["i"].append(a)
                self.known["f"].append(b)
            elif how == 7:
                late = ["assert {b} or {i} < 90", "if {b}: raise ValueError('no')"]
                late += ["if {b}: break", "if {b}: continue"] * (2 * loop)
                late += ["if {b}: return {x}, {i}"] * (not loop or d.maybe(0.3))
                self.lines.append(pad + self.filled(d.pick(*late), 0))
            elif how in (8, 9):
                self.lines.append(f"{pad}if {self.expression('b')}:")
                self.block(d.int(1, 3), depth + 1, loop)
                if d.maybe(0.3):
                    self.lines.append(f"{pad}elif {self.expression('b')}:")
                    self.block(d.int(1, 2), depth + 1, loop)
                if d.maybe():
                    self.lines.append(f"{pad}else:")
                    self.block(d.int(1, 3), depth + 1, loop)
            elif how in (10, 11):
                item = self.fresh("i")
                over = d.pick("range(3)", "range({i} % 4)", "{l}[:4]", "(1, 2)", "range(1, 6, 2)")
                head = self.filled(over, 1)
                if d.maybe(0.2):
                    self.lines.append(f"{pad}for {item}, _{item} in enumerate({head}):")
                else:
                    self.lines.append(f"{pad}for {item} in {head}:")
                self.known["i"].append(item)
                self.block(d.int(1, 3), depth + 1, True)
                self.known["i"].remove(item)
            elif how == 12:
                name = self.fresh("n")
                self.lines.append(f"{pad}{name} = 0")
                self.lines.append(f"{pad}while {name} < {d.int(1, 4)}:")
                self.lines.append(f"{pad}    {name} += 1")
                self.block(d.int(1, 2), depth + 1, True)
            elif self.module:
                self.lines.append(f"{pad}self.seen += {self.expression('f', 1)}")
            else:
                self.lines.append(f"{pad}with T.no_grad():")
                self.block(1, depth + 1, loop)
        if depth:
            self.known = before
