"""Programs as rows of text, which give the same in all forms in which they are run.

A row is the body of a generator, which needs no PyTorch. It makes functions with `c` (pf.compile,
or nothing), calls them, often with the tensor `x` of (2, 3), with changes in between, and yields
what is seen then: the same in each form. `== a title (notes): line` begins a row; `: line` is its
first line, if it has but few. Notes are `eager`, where no replay can be right, which a warning then
says, once; `any`, where one may say it; `cpu`, if it is about that device; and `3 captures`, if all
calls may take no more. These lines are short for

    ? e                   f = c(lambda x: e)
    def f(x):             a function that is compiled, as is `def step(x):`
    calls                 two calls of f; `then change` is a change before two calls
    each n: change        n calls, each after the change; `-> e` yields that instead of f(x)
    each a, b: change     a call for each of the values `i`
    turns: change         seven calls, with a change before some of them, see `turns`
    train adam: change    steps of a net with an optimizer, see `training`; `g` is its first group
    numbers e             calls of c(lambda x: e), which reads the number o.t; `arrays e` o.a
    lengths (n, 4): e     calls of c(lambda x: e) with tensors of many lengths `n` and `m`, which
                          are x, y …; `over [5, 7]` behind the shapes says with which. Three
                          captures are enough if no note says another number

`programs` reads a table, `run` compares a compiled program with the eager one.
"""

from __future__ import annotations

import functools
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import pyframe as pf

# What programs use; `pf` may be PyTorch.
HELPERS = r"""
import collections, contextlib, copy, dataclasses, importlib.machinery, itertools, math, operator
import os, sys, types
import numpy as np
from typing import Any

nn, optim, F = pf.nn, pf.optim, pf.nn.functional


class Plain:
    "An object with attributes."

    def __init__(self, **names):
        self.__dict__.update(names)


def turns(f, *args, change, at=(2, 4), n=7):
    "`n` calls with a change before some of them."
    for i in range(n):
        if i in at:
            change(i)
        yield f(*args)


def mlp(x, *more):
    pf.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3), *more).to(x.device)


def adam(params):
    return optim.Adam(params, lr=0.1)


def sgd(params):
    return optim.SGD(params, lr=0.1, momentum=0.9)


def learning(net, opt, then=None):
    "A step of training."

    def step(x):
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        if then is not None:
            then()
        return loss.detach()

    return step


def training(
    c, x, make, change=None, at=(3,), n=7, zero=None, loss=None, grads=None, **names
):
    "`n` steps of a net; `loss` and `grads` work on its loss and gradients before the update."
    net = mlp(x)
    o = Plain(net=net, opt=make(net.parameters()), **names)

    @c
    def step(x):
        o.opt.zero_grad() if zero is None else zero(o)
        found = o.net(x).square().mean()
        (found if loss is None else loss(o, found)).backward()
        told = None if grads is None else grads(o)
        o.opt.step()
        return found.detach(), told

    for i in range(n):
        if change is not None and i in at:
            change(o)
        yield step(x)
        yield [p.detach().clone() for p in net.parameters()]


def attempt(call):
    "What it gives, or that it raises."
    try:
        return call()
    except RuntimeError as e:
        return "modified" if "modified" in str(e) else "raises"


# lengths of one input after the other, and of two; the last ones that a program may see for the
# first time take no capture
ONE = [5, 7, 9, 33, 16, 3, 130, 8]
TWO = [(5, 9), (7, 6), (9, 13), (33, 3), (16, 70), (3, 50), (130, 8)]


def of_lengths(f, x, shapes, lengths):
    "Calls with tensors of these shapes; of ints, where a shape is a list."
    for n, m in [p if isinstance(p, tuple) else (p, 5) for p in lengths]:
        rng = np.random.default_rng(n * 1000 + m)
        with pf.device(x.device):
            given = [
                pf.tensor(rng.integers(0, 4, s)) if isinstance(s, list) else
                pf.tensor(rng.standard_normal(s).astype(np.float32)).requires_grad_()
                for s in shapes(n, m)
            ]
            found = f(*given)
        yield found
"""


class Program(NamedTuple):
    """A row of a table."""

    name: str
    source: str
    table: Any  # its file, what all its programs begin with, and what else they are given
    notes: tuple[str, ...]

    def __call__(self, c: Callable[[Any], Any], x: Any, library: Any = pf) -> Iterator[Any]:
        """What it shows, call by call."""
        module = _module(*self.table, library)
        _exec(self.source, self.table[0], module)
        return module.program(c, x)

    @property
    def captures(self) -> int | None:
        """How many captures it may take, if that is said."""
        found = [n for n in self.notes if n.endswith("captures")]
        return int(found[0].split()[0]) if found else None


@functools.cache
def _module(file: str, begin: str, given: Any, library: Any) -> Any:
    """What the functions' globals are: as of a user's file."""
    name = f"user_{hash((file, begin, library.__name__))}"
    module = sys.modules[name] = types.ModuleType(name)
    vars(module).update(given, pf=library)
    _exec(HELPERS + begin, file, module)
    return module


def _exec(text: str, file: str, module: Any) -> None:
    exec(compile(text, file, "exec", dont_inherit=True), vars(module))


def programs(file: str, text: str, **given: Any) -> dict[str, Program]:
    """The programs of a table; what is given, or stands before them, is there for all of them."""
    begin, *blocks = f"\n{text}".split("\n== ")
    out = {}
    for block in blocks:
        title, *lines = block.splitlines()
        title, _, first = title.partition(": ")
        title, _, notes = title.partition(" (")
        name = re.sub(r"\W+", "_", title)
        body = [p for line in [first, *lines] for p in in_full(line)]
        if first.startswith("lengths") or any(line.startswith("lengths") for line in lines):
            notes = notes if "captures" in notes else f"3 captures, {notes}"
        source = "\n    ".join(["def program(c, x):", *body, ""])
        noted = tuple(notes.rstrip(")").split(", "))
        assert name not in out, f"two programs of the name {title!r} in {file}"
        out[name] = Program(name, source, (file, begin, tuple(given.items())), noted)
    return out


def in_full(line: str) -> list[str]:
    """A line of a program as Python."""
    if found := re.fullmatch(r"\? (.*)", line):
        return [f"f = c(lambda x: {found[1]})"]
    if line.startswith(("def f(", "def step(")):
        return ["@c", line]
    if line == "calls":
        return ["yield from (f(x), f(x))"]
    if found := re.fullmatch(r"then (.*)", line):
        return [found[1], *in_full("calls")]
    if found := re.fullmatch(r"numbers (.*)", line):
        return ["o = Plain(t=1.0)", *in_full(f"? {found[1]}"), *in_full("each 8: o.t = 1.0 + i")]
    if found := re.fullmatch(r"arrays (.*)", line):
        made = "o = Plain(a=np.arange(3, dtype=np.float32))"
        return [made, *in_full(f"? {found[1]}"), *in_full("each 8: o.a += i")]
    if found := re.fullmatch(r"turns: (.*)", line):
        return [f"yield from turns(f, x, change=lambda i: {found[1]})"]
    if found := re.fullmatch(r"train ([^:]*): (.*)", line):
        change = ["def change(o):", "    g = o.opt.param_groups[0]", f"    {found[2]}"]
        return [*change, f"yield from training(c, x, {found[1]}, change=change)"]
    if found := re.fullmatch(r"each (.+?)(?:: (.*?))?(?: -> (.*))?", line):
        values, change, seen = found.groups("")
        values = f"range({values})" if values.isdecimal() else values
        loop = [f"for i in {values}:", f"    {change}", f"    yield {seen or 'f(x)'}"]
        return [part for part in loop if part.strip()]
    if found := re.fullmatch(r"lengths (.+?)(?: over (.+?))?: (.*)", line):
        shapes, lengths, body = found.groups()
        *first, last = body.split("; ")
        names = "xyzw"[: len(eval(f"[{shapes}]", {"n": 3, "m": 5}))]
        calls = f"lambda n, m: [{shapes}], {lengths or ('TWO' if 'm' in shapes else 'ONE')}"
        f = ["@c", f"def f({', '.join(names)}):", *[f"    {s}" for s in first]]
        return [*f, f"    return {last}", f"yield from of_lengths(f, x, {calls})"]
    return [line] if line.strip() else []


# --- running them


def plain(value: Any) -> Any:
    """A picture of what a program saw, taken at once: later calls may write over it."""
    if isinstance(value, pf.Tensor):
        return np.array(value.numpy(force=True))
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return value


def same(a: Any, b: Any, what: str = "", rtol: float = 2e-5, atol: float = 2e-6) -> None:
    """AssertionError unless `b` is `a`: pictures, of which float16 may differ a hundred times as
    much."""
    if isinstance(a, np.ndarray):
        assert isinstance(b, np.ndarray), what
        assert (a.shape, a.dtype) == (b.shape, b.dtype), what
        half = 100 if a.dtype == np.float16 else 1
        np.testing.assert_allclose(b, a, rtol * half, atol * half, err_msg=what)
    elif isinstance(a, list):
        assert len(a) == len(b), what
        for x, y in zip(a, b, strict=True):
            same(x, y, what, rtol, atol)
    else:
        assert type(a) is type(b), (what, a, b)
        assert a == b or a is b, (what, a, b)


def anywhere(table: dict[str, Program], gpu: Any = None) -> Any:
    """Parametrizes a test of a device and a name: with all on the CPU, and on the GPU those named,
    or all that is not about the CPU."""
    import pytest  # which a page has not

    some = [n for n in table if "cpu" not in table[n].notes] if gpu is None else gpu
    cases = [*[("cpu", n) for n in table], *[("gpu", n) for n in some]]
    return pytest.mark.parametrize(("device", "name"), cases, indirect=["device"])


def once(f: Any) -> Any:
    return f


def tensor(device: str) -> pf.Tensor:
    """What programs are given."""
    return pf.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -1.5]], device=device)


def run(
    program: Program,
    device: str,
    within: Any = once,
    compile: Any = None,
    more: int = 0,
    **tolerance: float,
) -> list[Any]:
    """AssertionError unless a program gives what it gives without pf.compile, call by call. That is
    computed on the CPU: a driver would compile as many kernels again. The functions that were
    compiled, each of them `within` another, for which it may take `more` captures."""
    made: list[Any] = []

    def wrap(f: Any) -> Any:
        made.append((compile or pf.compile)(within(f)))
        return made[-1]

    want = [plain(v) for v in program(within, tensor("cpu"))]
    with warnings.catch_warnings(record=True, action="always") as told:
        got = [plain(v) for v in program(wrap, tensor(device))]
    for i, (a, b) in enumerate(zip(want, got, strict=True)):
        same(a, b, f"call {i} of {program.name}", **tolerance)
    if "any" in program.notes:
        return made
    texts = [str(w.message) for w in told if issubclass(w.category, RuntimeWarning)]
    if "eager" in program.notes:
        assert len(texts) == 1, texts
        assert "runs eagerly" in texts[0]
        assert re.search(r"\w+\.py:\d+", texts[0]), texts[0]
    else:
        assert not texts, texts
        assert any(f.replayed for f in made), "no replay"
    most, counts = None if compile else program.captures, [f.captured for f in made]
    assert most is None or 1 <= min(counts) <= max(counts) <= most + more, (
        f"{counts} captures, not {most}"
    )
    return made
