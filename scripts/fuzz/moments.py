"""Eager programs that look at values at random moments, share memory with NumPy, write in place and
use threads: all that they see is what PyTorch shows, whatever is recorded and computed late.

Lines are drawn by running them with PyTorch, and kept where it takes them and numbers stay small.
"""

from __future__ import annotations

import itertools
import re
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

import pyframe as pf

from .backends import Backend, compiling, recording
from .check import FailureError
from .families import Draw, family

OFF = 1e-3  # of the largest number, or of 1
MOST = 1e3
ERRORS = (RuntimeError, ValueError, IndexError, TypeError)

# {x}, {y}, {z} are matrices (6, 6), {v} a view, {a} an array (6, 6); w is a parameter of `net`
VALUES = """
{x} = {y} + {z}  {x} = {y} * 0.5 + {z}  {x} = ({y} @ {z}).clamp(-3, 3)  {x} = {y}.relu() - 1
{x} = {y}.softmax(1)  {x} = {y}.t().contiguous()  {x} = T.cat([{y}[:3], {z}[3:]])  {x} = {y}.clone()
{x} = T.where({y} > {z}, {y}, {z})  {x} = {y}.double().float()  {x} = {y}  {x} = {y}.detach()
{x} = {y}[T.tensor([1, 0, 2, 5, 4, 3])]  {x} = {y} - {y}.mean(0)  {x} = T.ones(6, 6) * 2
{x} = {y} * {v}.sum().clamp(-1, 1)  {x} = {y}.cumsum(0).clamp(-3, 3)  {x} = {y}.sin() * {z}.cos()
{x} = {y} + w.detach()  {x} = F.layer_norm({y}, (6,))  {x} = T.zeros(6, 6)
"""
WRITES = """
{x}.add_({y})  {x}.mul_(0.5)  {x}.copy_({y})  {x}.copy_(T.from_numpy({a}))  {x}.zero_()
{x}[...] = {y}  {x}[2] = {y}[3] * 1  {x}[1:3] = {y}[2:4] * 1  {x}[:, 1] = 0.5  {x}.clamp_(-2, 2)
{x}.fill_({y}[0, 0] * 1)  {x}.fill_(T.from_numpy({a})[0, 0])  {x}[...] = T.from_numpy({a})
T.add({y}, 1, out={x})  {x} += {y}  {x}.masked_fill_({y} > 0.5, 0.25)  {x}.sub_({y}.mean())
{x}.index_add_(0, T.tensor([1, 1, 4]), {y}[:3] * 1)  {x}.data.mul_(0.5)  {x}.detach().add_(1)
{x}.copy_({y}[0] * 1)  {x}.lerp_({y}, 0.5)  {x}[{y} > 0.7] = 0.5  {x}.copy_({y}, non_blocking=True)
{x}.copy_(T.from_numpy({a}).t())  {x}[2:].copy_(T.from_numpy({a})[2:])  {x}.t_()
{x}.copy_(T.from_numpy({a}[0]))  {x}.add_(T.from_numpy({a}))  {x}.neg_()
"""
VIEWS = """
{v} = {x}[1:4]  {v} = {x}.t()  {v} = {x}.reshape(36)[6:30].view(4, 6)  {v} = {x}[::2]  {v} = {x}[0]
{v} = {x}.diagonal()  {v}.add_(1)  {v}.mul_(0.5)  {v}.zero_()  {v} = {v} * 2  {v} = {v}[:2]
{v} = {x}.view(6, 6)  {v}.copy_({v} * 0.5)  {v} = T.from_numpy({a})[1:]  {v}.clamp_(-1, 1)
"""
SHARED = """
{a} = {x}.numpy()  {a} = np.asarray({x})  {x} = T.from_numpy({a})  {x} = T.as_tensor({a})
{a} += 1  {a}[...] = 3  {a} *= 0.5  {a}[1] = 2  {a} = {a}.copy()  {a} = {a}.T  {a}[:, 2:] -= 1
{x} = T.from_numpy({a}.copy())  {x} = T.from_dlpack({a})  np.copyto({a}, 4)
{a} = {x}.numpy().copy()  {a} = np.from_dlpack({x})  {a}[...] = {x}.numpy()
{x} = T.from_numpy(np.full((6, 6), 2, np.float32))
{a} = np.linspace(-1, 1, 36, dtype=np.float32).reshape(6, 6)  np.negative({a}, out={a})
{x} = T.frombuffer({a}.copy().data, dtype=T.float32).reshape(6, 6)  {a} = {x}.view(6, 6).numpy()
{x}.data_ptr()  np.add({a}, {x}.numpy(), out={a})
"""
SEEN = """
see({x})  see({x}.sum())  see({a})  see({v})  see({x}.sum().item())  see(float({x}[1, 2]))
see({x}.tolist())  bool(({x} > 0).any())  str({x})  see(w)  see(w.grad)  kept.append({x})
kept.append({x} * 2)  kept.append({a})  kept.append({v})  kept.append({v} + 1)
kept.append(T.from_numpy({a}))  kept.append(({x}, {x}.sum(0)))  see(kept[0]) if kept else None
"""
STEPS = """
(({x}.detach() * w).sum() * 0.1).backward()  opt.step()  opt.zero_grad()
(w * w).mean().backward()  ({y}.detach() @ w).clamp(-1, 1).mean().backward(); opt.step()
net.load_state_dict({{"weight": {x}}})  net.load_state_dict({{"weight": T.from_numpy({a})}})
with T.no_grad(): w.copy_({x})  with T.no_grad(): w.mul_(0.5)  w.data.copy_(T.from_numpy({a}))
with T.no_grad(): w.copy_(T.from_numpy({a}))  net.load_state_dict(net.state_dict())
w.grad = {x} * 1  kept.append(net.state_dict()["weight"])  {a} = w.detach().numpy()  {x} = w.data
"""
THREADS = """
aside(lambda: {x}.add_(1))  aside(lambda: see({x}.sum()))  aside(lambda: {x}.copy_({y}))
aside(lambda: kept.append({x} * 2))  aside(lambda: {x}.numpy().fill(1))
jobs.append(start(lambda x={x}.clone(), y={y} * 1: (x.add_(y) @ y).sum()))  join()
jobs.append(start(lambda x={x} * 2, y=T.from_numpy({a}.copy()): x.copy_(y).mul_(2)))
jobs.append(start(lambda x={x}.clone(): [x.mul_(0.9).sum() for _ in range(3)]))  join()
jobs.append(start(lambda x={x} + 1: x.numpy().sum()))
"""
KINDS = [
    re.split(r"  +|\n", some.strip())
    for some in (VALUES, VALUES, WRITES, WRITES, VIEWS, SHARED, SHARED, SEEN, SEEN, STEPS, THREADS)
]
BEGIN = """
see, kept, jobs = seen.append, [], []
F, net = T.nn.functional, T.nn.Linear(6, 6, bias=False)
w, opt = net.weight, T.optim.SGD(net.parameters(), 0.1, momentum=0.5)
a0, a1 = [np.arange(n, n + 36, dtype=np.float32).reshape(6, 6) / 36 - 0.5 for n in (0, 7)]
net.load_state_dict({"weight": T.from_numpy(a1 * 1)})
x0, x1, x2 = T.from_numpy(a0 * 2), T.ones(6, 6), T.from_numpy(a1 * 1) + 1
v0, v1 = x0[1:4], x2.t()
""".strip().splitlines()


class Stage:
    """Where lines run, one after the other: what they see is copied at once."""

    def __init__(self, T: Any) -> None:
        self.T, self.seen = T, list[Any]()
        self.space: dict[str, Any] = {
            "T": T, "np": np, "seen": self, "aside": self.aside, "start": self.start,
            "join": self.join,
        }  # fmt: skip

    def run(self, line: str) -> None:
        exec(line, self.space)

    def append(self, x: Any) -> None:
        """See a value: an array, a number, or several."""
        if isinstance(x, (tuple, list)) and not all(isinstance(v, (float, list)) for v in x):
            for v in x:
                self.append(v)
        elif x is not None:
            x = x.detach().numpy() if isinstance(x, self.T.Tensor) else x
            self.seen.append(np.array(x, np.float64))

    def start(self, work: Any) -> Any:
        """Do something in another thread; `join` waits for it, and sees what it gives."""
        found: list[Any] = []

        def run() -> None:
            try:
                found.append(work())
            except BaseException as error:  # what it is, the waiting thread says
                found.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread, found

    def join(self) -> None:
        jobs = self.space["jobs"]
        while jobs:
            self.append(self.done(jobs.pop(0)))

    def done(self, job: Any) -> Any:
        """What another thread has given."""
        thread, found = job
        thread.join()
        if isinstance(found[0], BaseException):
            raise found[0]
        return found[0]

    def aside(self, work: Any) -> None:
        """Do something in another thread, and wait for it."""
        self.done(self.start(work))

    def end(self) -> None:
        """See all that is left."""
        for line in ("join()", "see(kept)", "see((x0, x1, x2, v0, v1, a0, a1, w, w.grad))"):
            self.run(line)

    def takes(self, line: str) -> bool:
        """Run it, unless it may move elements within one memory: PyTorch does that in any order."""
        moves = re.search(r"_\(.*(\[|\.t\()|\] \S?=|out=", line) is not None
        names = {*re.findall(r"\b(?:[xva][0-2]|w)\b", line)}
        found = [self.space[n] for n in names if n in self.space]
        some = [np.asarray(v.detach() if isinstance(v, torch.Tensor) else v) for v in found]
        for p, q in itertools.combinations(some, 2):
            same = p.__array_interface__ == q.__array_interface__
            if (moves or not same) and np.shares_memory(p, q):
                return False
        self.run(line)
        return True

    def small(self) -> bool:
        """Whether all numbers are."""
        s = self.space
        some = [s[n].detach().numpy() for n in "x0 x1 x2 v0 v1 w".split()] + [s["a0"], s["a1"]]
        return all(np.isfinite(v).all() and abs(v).max(initial=0) < MOST for v in some)


@dataclass(frozen=True)
class Moments:
    """Lines, which PyTorch takes."""

    lines: tuple[str, ...]

    def check(self, backend: Backend) -> bool:
        """Compare all that is seen with PyTorch."""
        if backend.name not in ("recorded", "wasm", "eager", "numpy"):
            return False  # a GPU shares no memory with NumPy, and nothing is captured
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                stage = Stage(torch)
                lines = [line for line in (*BEGIN, *self.lines) if stage.takes(line)]
                stage.end()
            except ERRORS:
                return False
            want = stage.seen
            compiles = backend.name in ("recorded", "wasm")
            try:
                with compiling(backend.generator), recording(self if compiles else None):
                    stage = Stage(pf)
                    for line in lines:
                        stage.run(line)
                    stage.end()
                    got = stage.seen
            except Exception as e:
                raise FailureError("raises", f"{type(e).__name__}: {e}") from e
        if len(got) != len(want):
            raise FailureError("count", f"{len(got)} values are seen, not {len(want)}")
        for n, (x, y) in enumerate(zip(got, want, strict=True)):
            if x.shape != y.shape:
                raise FailureError("shape", f"value {n} is {x.shape}, not {y.shape}")
            if not np.allclose(x, y, OFF, OFF * max(abs(y).max(initial=0), 1)):
                raise FailureError("value", f"value {n} is {x}, not {y}")
        return True

    def smaller(self) -> Iterator[Moments]:
        for n in (8, 4, 2, 1):
            for k in range(0, len(self.lines), n):
                yield replace(self, lines=self.lines[:k] + self.lines[k + n :])

    def text(self, backend: Backend) -> str:
        return "\n".join(("# as scripts/fuzz/moments.py runs it", *BEGIN, *self.lines))


@family("moments")
def moments(d: Draw) -> Moments:
    """Some 10 to 40 lines."""
    stage, lines = Stage(torch), []
    for line in BEGIN:
        stage.run(line)
    names = {"x": "x0 x1 x2", "y": "x0 x1 x2", "z": "x0 x1 x2", "v": "v0 v1", "a": "a0 a1"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(d.int(10, 40)):
            line = d.pick(*d.pick(*KINDS))
            line = line.format(**{k: d.pick(*v.split()) for k, v in names.items()})
            try:
                if not stage.takes(line):
                    continue
            except ERRORS:
                continue
            lines.append(line)
            if not stage.small():
                more = [f"{n}.clamp_(-2, 2)" for n in ("x0", "x1", "x2")]
                more += [f"np.clip({n}, -2, 2, out={n})" for n in ("a0", "a1")]
                more.append("with T.no_grad(): w.clamp_(-2, 2)")
                for line in more:
                    stage.run(line)
                lines += more
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stage.end()
    return Moments(tuple(lines))
