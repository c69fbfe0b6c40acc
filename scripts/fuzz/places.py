"""A tensor written and read at places that move from call to call, as a cache of keys and values
is: what a compiled function gives, and leaves in it, is what eager execution on the CPU does."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import pyframe as pf

from .backends import Backend, compiling
from .check import FailureError
from .families import Draw, family

CALLS = 7
OFF = 1e-2  # of a number: sums of half floats are added in another order
DTYPES = ("float32", "float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool")

# lines of a step: {at} is a row of `c` that moves, {row} what fits there, {d} its dim, {dt} its
# dtype; `p` and `q` are numbers, or tensors if a line asks for these
WRITES = """
c[{at}] = {row}  c[{at}] = {row}  c[{at}] = {row}  c[{back}] = {row}  c[{part}] = v
c[{at}] = 1  c[{at}] += {row}  c.index_copy_({d}, {one}, v)  c.index_copy_({d}, {one}, v)
c[{part}] = c[{part}] + v  c.select({d}, p).copy_({row})  c.narrow({d}, p, 1).copy_(v)
c[{at}] = {row} + c.select({d}, 0)  c[{other}] = {row}  c.index_fill_({d}, {one}, 1)  c.add_(1)
"""
READS = """
y.append(c.float().sum())  y.append((c * 1).float().sum())  y.append(c.clone())
y.append(c[{at}] * 2)  y.append(c[{part}].clone())  y.append(c.transpose(0, -1) * 2)
y.append(c.float().sum({d}))  w = c.clone(); y.append(w)  y.append(c.flip({d}))
"""
NUMERIC = re.compile(r"[+*]|add_|mul_|index_fill")  # not for bools
INTS = re.compile(r"part|\(.*, p")  # not for places that are tensors
BETWEEN = """
kept.append(c.clone())  kept.append(c)  c.add_(1)  c = c.clone()  whole.mul_(2)  c[..., :1] = 1
kept.append(c.transpose(0, -1))  kept.append(whole.clone())  c.zero_()  whole[-1] = 1
"""


@dataclass(frozen=True)
class Places:
    """A step as lines, what is done before each call, and the places of each."""

    shape: tuple[int, ...]
    dtype: str
    d: int
    lines: tuple[str, ...]
    between: tuple[tuple[int, str], ...]  # the number of a call, and a line before it
    places: tuple[tuple[int, int], ...]
    view: bool  # whether it is a part of a larger tensor
    given: bool  # whether it is an argument, not found in a closure
    tensors: bool  # whether places are tensors

    def check(self, backend: Backend) -> bool:
        """Compare all that can be seen after each call."""
        space: dict[str, Any] = {"np": np}
        exec(self.source(), space)
        device = "gpu" if backend.name in ("wgsl", "lazy") else "cpu"
        compiles = backend.wrap is pf.compile  # no model goes on with what it was given
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = space["run"](pf, lambda f: f, "cpu")
            try:
                with compiling(backend.generator):
                    got = space["run"](pf, pf.compile if compiles else lambda f: f, device)
            except (RuntimeError, ValueError, IndexError, TypeError) as e:
                raise FailureError("raises", f"{type(e).__name__}: {e}") from e
        for n, (a, b) in enumerate(zip(got, want, strict=True)):
            if a.shape != b.shape or a.dtype != b.dtype:
                raise FailureError("shape", f"result {n} is {a.shape}, eagerly {b.shape}")
            if not np.allclose(a, b, OFF, OFF, equal_nan=True):
                raise FailureError("value", f"result {n} is {a}, eagerly {b}")
        return True

    def source(self) -> str:
        """A function that runs it and gives all that was seen, as arrays."""
        row = tuple(1 if d == self.d else n for d, n in enumerate(self.shape))
        whole = (2, *self.shape) if self.view else self.shape
        place = "T.tensor({}, device=device)" if self.tensors else "{}"
        lines = [
            "def run(T, wrap, device):",
            "    def data(seed, shape):",
            "        made = np.random.default_rng(seed).integers(0, 2, shape)",
            f"        return T.tensor(made).to(T.{self.dtype}).to(device)",
            "",
            "    def step(c, p, q, v):",
            "        y = []",
            *[f"        {line}" for line in self.lines],
            "        return y",
            "",
            f"    whole = data(100, {whole})",
            f"    c = whole{'[1]' * self.view}",
            f"    call = wrap({'step' if self.given else 'lambda p, q, v: step(c, p, q, v)'})",
            "    seen, kept = [], []",
            "    with T.no_grad():",
            f"        for i, (p, q) in enumerate({self.places}):",
            *[f"            if i == {i}: {line}" for i, line in self.between],
            f"            given = {place.format('p')}, {place.format('q')}, data(i, {row})",
            f"            y = call({'c, ' * self.given}*given)",
            "            seen += [v.float().cpu().numpy() for v in y]",
            "            kept += y",
            "    return [*seen, *[v.float().cpu().numpy() for v in (c, whole, *kept)]]",
        ]
        return "\n".join(lines)

    def smaller(self) -> Iterator[Places]:
        for name in ("lines", "between", "places"):
            some = getattr(self, name)
            for k in range(len(some)):
                yield replace(self, **{name: (*some[:k], *some[k + 1 :])})
        for name in ("view", "tensors"):
            if getattr(self, name):
                yield replace(self, **{name: False})

    def text(self, backend: Backend) -> str:
        device = "gpu" if backend.name in ("wgsl", "lazy") else "cpu"
        each = f'zip(run(pf, lambda f: f, "cpu"), run(pf, pf.compile, "{device}"))'
        lines = ["import numpy as np, pyframe as pf", self.source()]
        lines += [f"for a, b in {each}:", "    print(np.abs(a - b).max(initial=0))"]
        return "\n".join(lines)


@family("places")
def places(d: Draw) -> Places:
    """Writes of a row or a part, and reads before, between and after them."""
    dtype = d.pick(*DTYPES)
    shape = tuple(d.pick(1, 2, 3, 5, 8) for _ in range(d.int(1, 4)))
    dim, tensors = d.int(0, len(shape) - 1), d.maybe(0.4)
    before = ":, " * dim
    names = {
        "at": f"{before}p", "back": f"{before}p - {shape[dim]}", "part": f"{before}p : p + 1",
        "other": f"{before}q", "row": f"v.select({dim}, 0)", "d": str(dim),
        "one": "p.reshape(1)" if tensors else "T.tensor([p], device=device)",
    }  # fmt: skip

    def line(some: str) -> str:
        found = d.one(some)
        while (dtype == "bool" and NUMERIC.search(found)) or (tensors and INTS.search(found)):
            found = d.one(some)
        return found.format(**names)

    lines = [line(WRITES if d.maybe(0.55) else READS) for _ in range(d.int(1, 4))]
    lines.insert(d.int(0, len(lines)), line(WRITES))
    between = [(d.int(1, CALLS - 1), line(BETWEEN)) for _ in range(d.int(0, 3))]
    some = [(d.int(0, shape[dim] - 1), d.int(0, shape[dim] - 1)) for _ in range(CALLS)]
    return Places(
        shape, dtype, dim, tuple(lines), tuple(between), tuple(some), d.maybe(0.3), d.maybe(),
        tensors,
    )  # fmt: skip
