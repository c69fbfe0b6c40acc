"""Programs of views, writes in place, parameters, optimizers and results that are kept: a function
is called several times, and around the calls its results are written to, differentiated and held.

Lines are drawn by running them with PyTorch, and kept where it takes them; all that can be seen is
compared after each call: values, versions, layouts, gradients, and what earlier calls have given.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

import pyframe as pf

from . import known
from .backends import Backend, compiling
from .check import Case, Compared, FailureError, NoProgramError, compared, expected, tried
from .families import Draw, family
from .program import REAL, Arg, Outcome, Program, Refused, outcome

SHAPES = ((4,), (2, 3), (3, 1), (4, 4), (1, 3), (2, 3, 2), (), (6,), (1,), (0, 3), (2, 2, 4),
          (5, 3))  # fmt: skip
MOST = 1e3  # larger values are left out: they drown the others in rounding
ERRORS = (RuntimeError, IndexError, ValueError, TypeError)
KEPT = "backward(retain_graph=True)"  # what a step saves, and so frees, is not PyTorch's

VALUES = """
    {x} * {y}   {x} + {y}   {x} - {y}.mean()   {x} * 0.5 + 1   {x} / (1 + {y}.abs())   1 - {x}
    {x}.tanh()   {x}.sin()   {x}.sigmoid()   {x}.relu()   -{x}   {x}.square()
    ({x}.abs() + 0.1).sqrt()   {x}.clone()   {x}.contiguous()   {x}.reshape(-1)   {x}.detach()
    {x} * {x}   T.maximum({x}, {y})   {x}.clamp(max=2).exp()   {x}.clamp(-0.7, 0.7)
    T.where({x} > 0.37, {x}, {y})   {x}.flip({d})   {x}.masked_fill({x} > 0.37, 0.5)   {x}.sum()
    {x}.mean({d})   {x}.sum({d}, keepdim=True)   {x}.amax({d})   {x}.softmax({d})
    {x}.log_softmax({d})   {x}.logsumexp({d})   {x}.cumsum({d})   T.cat([{x}, {y}], {d})
    T.stack([{x}, {y}], {d})   ({x} @ {y}).clone()   ({x} @ {x}.mT).clone()   F.pad({x}, (1, 0))
    {x}.index_select({d}, {i})   {x}[{i}]   {x}[{x} > 5]   T.zeros_like({x})   T.ones_like({x})
    {x} > 0.37   ({x} < {y}).to({x}.dtype)   ({x} > 0.37).to(T.int64)   {x}.new_zeros(2, 3)
    {x}.new_ones(3).requires_grad_()   {x}.prod({d})   {x} - {x}.mean({d}, keepdim=True)
    {x}.roll(1)   F.linear({x}, {y}).clone()   {x}.repeat(2, 1)   {x}.to({y}.dtype)
    {x}.unsqueeze({d}).expand(2, *{x}.shape)   F.dropout({x}, 0.0)   {x}.square().sum({d})
    {x}.any()   {x}.all({d})   {x}.triu()   {x}.var({d})
"""
VIEWS = """
    {x}[{k}]   {x}[{k}]   {x}[{k}]   {x}.select({d}, 0)   {x}.select({d}, -1)
    {x}.transpose({d}, {e})   {x}.mT   {x}.permute({p})   {x}.expand(2, *{x}.shape)
    {x}.diagonal({o}, {d}, {e})   {x}.view(-1)   {x}.unfold({d}, {n}, {n})   {x}.unfold({d}, 2, 1)
    {x}.view({x}.numel() // 2, 2)   {x}.detach()   {x}.reshape(2, -1)   {x}.flatten()
    {x}.squeeze()   {x}.squeeze({d})   {x}.unsqueeze({d})   {x}.split({n}, {d})[-1]
    {x}.chunk(2, {d})[0]   {x}.chunk(2, {d})[-1]   {x}.unbind({d})[0]   {x}.movedim({d}, {e})
    {x}.narrow({d}, 0, {n})   {x}.view_as({x})   {x}.as_strided((2,), ({n},))
    {x}.as_strided((2, 2), ({n}, 1), 1)   {x}.tensor_split(2, {d})[-1]   {x}.swapaxes(0, {d})
"""
WRITES = """
    {x}.add_({y})   {x}.add_(1)   {x}.mul_({y})   {x}.mul_(0.5)   {x}.mul_({y})   {x} += {y}
    {x} *= 0.5   {x}.copy_({y})   {x}.fill_(0.5)   {x}.zero_()   {x}.neg_()   {x}[{k}] = 0.25
    {x}[{k}] = {y}   {x}[{k}] *= 2   {x}[{k}] += {y}   {x}[{x} > 0.63] = 0.5   {x}[...] = {y}
    {x}[{i}] = 0.25   {x}.index_add_({d}, {i}, {x}.index_select({d}, {i}))
    {x}.index_fill_({d}, {i}, 0.5)   {x}.index_put_(({i},), {x}[{i}] * 2)
    {x}.masked_fill_({x} > 0.37, 0.5)   {x}.clamp_(-0.7, 0.7)   {x}.masked_fill_({y} > 0.37, 0.5)
    {x}.relu_()   {x}.tanh_()   {x}.sin_()   {x}.cos_()   {x}.pow_(2)   {x}.sigmoid_()
    {x}.square_()   {x}.abs_()   {x}.sub_({y}.mean())   {x}.div_(2)   {x}.lerp_({y}, 0.5)
    {x}.addcmul_({y}, {y})   {x}.detach_()   {x}.data.mul_(0.5)   {x}.detach().add_(1)
    {x}.floor_()   T.add({y}, 1, out={x})   T.sin({y}, out={x})   {x}.t_()   {x}.squeeze_()
    {x}.unsqueeze_({d})   {x}.clamp_(0.5, 2).lgamma_()   {x}.clamp_(0.5, 2).digamma_()
    {x}.index_copy_({d}, {i}, {y})   {x}.transpose_({d}, {e})   {x}.requires_grad_()
    {x}.scatter_(0, {i}, 0.5)
"""
STEPS = """
    {x}.sum().backward()   ({x} * {x}.detach().cos()).sum().backward()
    {x}.sum().backward(retain_graph=True)   opt.step()   opt.zero_grad()   {q}.grad = None
    {q}.grad is None or {q}.grad.mul_(0.5)   {q}.mul_(0.9)   {q}.data.add_(0.1)
    g = T.autograd.grad({x}.square().sum(), [{q}], create_graph=True)[0]
    g = T.autograd.grad({x}.sum(), [{q}])[0]   g = {q}.grad   {x}.retain_grad()
    {x}.register_hook(lambda g: g * 2)
"""
AFTER = """
    {y}.sum().backward()   ({y} * {y}.detach().cos()).sum().backward()
    {y}.sum().backward(retain_graph=True)
    {y}.sum().backward(retain_graph=True); {y}.square().sum().backward()   {y}.mul_(2)   {y}.sin_()
    {y}[0] = 0.5   {y}.detach_()   opt.step()   opt.zero_grad()   {q}.grad = None
    {q}.data.mul_(0.9)   {q}.grad is None or {q}.grad.mul_(0.5)   kept.append({q}.grad)
    kept.append(T.autograd.grad({y}.square().sum(), [{q}], create_graph=True)[0])
    T.autograd.grad({y}.sin().sum(), [{q}], create_graph=True)[0].sum().backward()
    {y}.register_hook(lambda g: g * 2)   {a}.mul_(0.5)   {y}.add_({a})   {b}.add_(1)
    kept.append({y}[0])   with T.no_grad(): {y}.mul_(0.5)   with T.no_grad(): {q}.mul_(0.9)
    with T.no_grad(): {y}.copy_({q})
"""
BEFORE = """
    {a} = {q}   {a} = {c}   {a} = {b}   {a} = {c}[1:]   {a} = {c}.transpose(0, -1)   {a} = {c} * 2
    {a} = {a} * {q}.sum()   {a} = {b}[:1]   {a} = {c}.detach()   {a} = {q}.detach()   {a} = {a}.t()
    {a} = held[0][0] if held else {a}
"""


HELPERS = ("def wide_of(x): return wide(T.from_numpy(np.asarray(x, 'float32'))).to(device)",
           "s = np.random.default_rng(9)")  # fmt: skip


@dataclass(frozen=True)
class Story:
    """Lines that are run once, before each call, in the function, and after call 0, 1, …"""

    args: tuple[Arg, ...]
    setup: tuple[str, ...]
    before: tuple[str, ...]
    body: tuple[str, ...]
    results: tuple[str, ...]
    after: tuple[tuple[str, ...], ...]
    state: tuple[str, ...]
    seed: int = 0
    mode = "none"

    @property
    def calls(self) -> int:
        """How many there are."""
        return len(self.after)

    arguments = Program.arguments

    def step(self) -> str:
        """The text of `make`, which gives what does a call and gives all that can be seen then;
        `within` wraps the function itself."""
        names = ", ".join(a.name for a in self.args)
        # ops that change the shape in place count as writes in PyTorch, and change no memory; so
        # do those by which it makes gradients
        counted = re.search(r"\.(t|squeeze|unsqueeze|transpose)_\(|\.grad\b", str(self.body))
        version = "" if counted else "{v._version}"
        state = ", ".join([*self.state, *(a.name for a in self.args)])
        after = []
        for k, one in enumerate(self.after):
            after += [f"        if call == {k}:"] if one else []
            after += [f"            {line}" for line in one]
        lines = [
            "F = T.nn.functional",
            *HELPERS,
            *self.setup,
            f"def step({names}):",
            *[f"    {line}" for line in self.body],
            f"    return [{', '.join(self.results)}]",
            "steps, held, kept, over = [step], [], [], []",
            f"def drive({names}):",
            "    call, stage, y = len(held), 'before', []",
            "    if over: return []",
            "    try:",
            *[f"        {line}" for line in self.before],
            "        stage = 'step'",
            f"        y = steps[0]({names})",
            "        held.append(y)",
            "        stage = 'after'",
            *after,
            "    except (RuntimeError, IndexError, ValueError, TypeError) as e:",
            "        over.append(e)",
            "        kind = next(k.__name__ for k in type(e).__mro__ if k in ERRORS)",
            # of an index PyTorch raises the one or the other, by op and number of dims
            "        kind = 'RuntimeError' if kind == 'IndexError' else kind",
            f"        if 'modified by an inplace' in str(e): kind = {known.MODIFIED!r}",
            "        return [f'{stage}: {kind}']",
            # a view of ints, too, needs a gradient in PyTorch after a float that does was written
            f"    said = [f'{{v.requires_grad and v.is_floating_point()}} {version}' for v in y]",
            "    seen = ['fine', *said, *y, *[v for h in held[:-1] for v in h], *kept]",
            f"    return [*seen, *[part for v in [{state}] for part in (v.detach(), v.grad)]]",
            "drive.within = lambda wrap: (steps.__setitem__(0, wrap(step)), drive)[1]",
        ]
        parts = ["ERRORS = (RuntimeError, IndexError, ValueError, TypeError)",
                 "def make(T, device, wide):"]  # fmt: skip
        return "\n".join([*parts, *[f"    {line}" for line in lines], "    return drive"])

    def text(self, device: str = "cpu") -> str:
        """A script of it that shows both."""
        lines = [
            "import numpy as np, pyframe as pf, torch", "", self.arguments(), "", self.step(), "",
            f"for T, device in (torch, 'cpu'), (pf, {device!r}):",
            "    drive = make(T, device, lambda v: v)",
            "    if T is pf: drive = drive.within(pf.compile)",
            f"    for call in range({self.calls}):",
            f"        r = np.random.default_rng([{self.seed}, call])",
            "        print(T.__name__, call, drive(*arguments(T, r, device, lambda v: v)))",
        ]  # fmt: skip
        return "\n".join(lines)

    def of(self, real: str) -> Story:
        """The same with one dtype of real numbers."""
        names = rf"T\.({'|'.join(REAL)})\b"
        return replace(self, body=tuple(re.sub(names, f"T.{real}", t) for t in self.body))

    def alone(self) -> Program:
        """The function and what it changes, with nothing around its calls."""
        seen = ", ".join([*self.results, *(f"{v}.detach()" for v in self.state)])
        return Program(self.args, self.body, seen, (*HELPERS, *self.setup), calls=self.calls,
                       seed=self.seed)  # fmt: skip

    def smaller(self) -> Iterator[Story]:
        """Stories with less of it."""
        if self.calls > 1:
            yield replace(self, after=self.after[:-1])
        for field in ("body", "before", "results", "state"):
            lines = getattr(self, field)
            for k in reversed(range(len(lines))):
                if len(lines) > (field != "before"):
                    yield replace(self, **{field: lines[:k] + lines[k + 1 :]})
        for k, one in enumerate(self.after):
            for j in range(len(one)):
                less = one[:j] + one[j + 1 :]
                yield replace(self, after=(*self.after[:k], less, *self.after[k + 1 :]))
        for k, line in enumerate(self.setup):
            if not re.match(r"(p|b)\d = ", line) or line[:2] not in self.state:
                yield replace(self, setup=self.setup[:k] + self.setup[k + 1 :])
        for k, a in enumerate(self.args):
            for other in (replace(a, view=""), replace(a, grad=False)):
                if other != a:
                    yield replace(self, args=(*self.args[:k], other, *self.args[k + 1 :]))


@dataclass(frozen=True)
class Told(Compared):
    """A story that is to go as it does with PyTorch."""

    program: Any  # a Story

    def check(self, backend: Backend) -> bool:
        """Run it with both."""
        if backend.name.startswith("page") or not backend.values:
            return False
        if backend.exports or backend.plain:
            return self.exported(backend)
        story = self.program
        found, right = backend.run(story), expected(story)
        if isinstance(right.rough, Refused) and any(
            "Error" in n for n in right.rough.error.split()
        ):
            found = found if isinstance(found, Refused) else Refused("", "")
        try:
            return compared(story, found, right)
        except NoProgramError:  # a later call finds no .grad, say
            return False
        except FailureError:
            if _lenient(story, backend, found, right.rough):
                return False
            raise

    def text(self, backend: Backend) -> str:
        """A script of it."""
        return (
            super().text(backend)
            if not (backend.exports or backend.plain)
            else self.program.alone().text()
        )

    def exported(self, backend: Backend) -> bool:
        """Its function alone, where eager calls of it give what PyTorch's give."""
        if backend.plain and "autograd.grad" in str(self.program.body):
            return False
        alone = Compared(self.program.alone())
        try:
            return alone.check(backend)
        except NoProgramError:
            return False
        except FailureError:
            eager = Backend("eager", "cpu", wrap=lambda f: f)
            if isinstance(tried(alone, eager), tuple):
                return False
            raise


def _lenient(story: Story, backend: Backend, found: Outcome, theirs: Outcome) -> bool:
    """Whether PyTorch refuses what pyframe, eager and compiled, can tell: what was written over
    wholly has no history here, and an op in place keeps its result apart."""
    if isinstance(found, Refused) or isinstance(theirs, Refused):
        return False
    with compiling(backend.generator):
        eager = outcome(pf, story, backend.device, lambda f: f)  # type: ignore[arg-type]
    if isinstance(eager, Refused):
        return False
    for x, y, z in zip(found, eager, theirs, strict=True):
        said = [str(v[0].array) if v and v[0] else "" for v in (x, y, z)]
        if said[0] != said[2]:
            # a result that is a view of what its op has made; products of no bools
            if "RuntimeError" in said[0] and re.search(r"detach_|@|linear", story.step()):
                return said[0] == said[1]
            return said[0] == said[1] == "fine" and "RuntimeError" in said[2]
    return False


@family("programs")
def programs(d: Draw) -> Case:
    """A story."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Told(_Writer(d).story())


class _Writer:
    """Draws the lines of a story, and runs each of them."""

    def __init__(self, d: Draw) -> None:
        self.d = d
        for k in range(d.int(1, 3)):
            kind = d.pick("normal", "normal", "normal", "normal", "int:-3:4", "bool")
            d.real = "float32"
            d.arg(f"a{k}", d.pick(*SHAPES), kind, grad=d.maybe(0.4))
        self.args = [a.name for a in d.args]
        self.params = [f"p{k}" for k in range(d.int(1, 2))]
        self.buffers = ["b0"]
        optimizer = d.pick("SGD([PS], lr=0.1)", "SGD([PS], lr=0.1, momentum=0.9)",
                           "Adam([PS], lr=0.1)", "AdamW([PS], lr=0.1)")  # fmt: skip
        self.setup = [
            *[f"{p} = wide_of(s.standard_normal({d.pick(*SHAPES)})).requires_grad_()"
              for p in self.params],
            *[f"{b} = wide_of(s.standard_normal({d.pick(*SHAPES)}))" for b in self.buffers],
            f"opt = T.optim.{optimizer}".replace("PS", ", ".join(self.params)),
        ]  # fmt: skip
        self.scope: dict[str, Any] = {"T": torch, "F": torch.nn.functional, "held": [], "kept": []}

    def story(self) -> Story:
        """Draw it all."""
        import numpy as np

        d = self.d
        frame = Story(tuple(d.args), tuple(self.setup), (), (), (), ((),), ())
        scope = self.scope
        exec(frame.arguments(), scope | {"np": np}, scope)
        scope |= {"np": np, "s": np.random.default_rng(9), "wide": lambda v: v,
                  "wide_of": lambda x: torch.from_numpy(np.asarray(x, "float32"))}  # fmt: skip
        for line in self.setup:
            exec(line, scope)
        rng = np.random.default_rng([d.seed, 0])
        values = scope["arguments"](torch, rng, "cpu", lambda v: v)
        scope |= dict(zip(self.args, values, strict=True))
        before = [t for _ in range(2) if d.maybe(0.3) and (t := self.line(BEFORE))]
        self.known = [*self.args, *self.params, *self.buffers]
        body: list[str] = []
        for _ in range(d.int(3, 13)):
            line = self.draw(len(body))
            if line:
                body.append(line)
        made = [v for v in self.known if v.startswith("v") or d.maybe(0.15)] or self.known
        results = tuple(dict.fromkeys(d.pick(*made) for _ in range(d.int(1, 4))))
        scope["y"] = [scope[r] for r in results]
        self.results = [f"y[{k}]" for k in range(len(results))]
        after: list[tuple[str, ...]] = []
        for call in range(d.pick(2, 3, 3, 4)):
            scope["held"] = [scope["y"]] * (call + 1)
            if call:
                self.results += [f"held[0][{k}]" for k in range(len(results))]
            some = [self.line(AFTER, run=call == 0) for _ in range(d.int(0, 3))]
            after.append(tuple(t.replace("backward()", KEPT) for t in some if t))
        return Story(tuple(d.args), tuple(self.setup), tuple(before), tuple(body), results,
                     tuple(after), (*self.params, *self.buffers), d.seed)  # fmt: skip

    def draw(self, number: int) -> str:
        """A line of the function, run; nothing where PyTorch refuses what was drawn."""
        d = self.d
        what = d.pick(*"vvvvwwwwwwxxxxxs")
        if what == "s":
            line = self.filled(d.one(STEPS))
            if line.startswith("g = "):
                name = f"v{number}"
                return self.run(f"{name}{line[1:]}", name)
            return self.run(line)
        mode = d.pick(*[""] * 9, "with T.no_grad(): ")
        if what in "vx":
            name = f"v{number}"
            made = self.filled(d.one(VIEWS if what == "v" else VALUES))
            return self.run(f"{mode}{name} = {made}", name)
        return self.run(mode + self.filled(d.one(WRITES)))

    def line(self, some: str, run: bool = True) -> str:
        """One of some lines around the calls."""
        line = self.filled(self.d.one(some))
        return self.run(line) if run else "" if self.undefined(line) else line

    def run(self, line: str, name: str = "") -> str:
        """The line, if PyTorch takes it and nothing in it is undefined."""
        if not line or self.undefined(line) or re.match(r"[pb]\d [+*]= ", line):
            return ""
        before = dict(self.scope)
        try:
            exec(line, self.scope)
            fine = all(_tame(x) for x in self.scope.values() if isinstance(x, torch.Tensor))
        except (*ERRORS, AttributeError):
            fine = False
        if not fine:
            self.scope.clear()
            self.scope.update(before)
            return ""
        if name:
            if not isinstance(self.scope[name], torch.Tensor):
                return ""
            self.known.append(name)
        return line

    def undefined(self, line: str) -> bool:
        """Whether it writes to what it reads elsewhere, or to elements that share memory."""
        found = re.findall(r"\b[apbv]\d\b|\b(?:y|held\[0\])\[\d\]", line)
        tensors: list[Any] = []
        for name in dict.fromkeys(found):
            try:
                value = eval(name, self.scope)
            except (NameError, IndexError):
                continue
            tensors += [value] if isinstance(value, torch.Tensor) else []
        if "register_hook" in line and any(x._is_view() or _leaf(x) for x in tensors):
            return True  # PyTorch crashes for some
        if "detach_" in line and any(_leaf(x) and x.requires_grad for x in tensors):
            return True  # what led to it before leads nowhere in PyTorch
        if not re.search(r"_\(|\] [*+]?= |[*+]= |out=", line) or not tensors:
            return False
        for x in tensors:
            if x._is_view() and _repeats(x):
                return True
        first = tensors[0] if "out=" not in line else tensors[-1]
        memory = first.untyped_storage().data_ptr()
        same = [x for x in tensors if x is not first and x.untyped_storage().data_ptr() == memory]
        return bool(same) or ("out=" in line and tensors[0].shape != tensors[-1].shape)

    def filled(self, template: str) -> str:
        """A template with names and numbers in its places."""
        d = self.d
        known = [*self.known[-5:], *self.known] if hasattr(self, "known") else self.args
        x = d.pick(*known)
        shape = tuple(self.scope[x].shape) if x in self.scope else ()
        n = len(shape)
        dim = d.int(-n, n - 1) if n else 0
        size = shape[dim] if n else 1
        places = [d.int(0, max(size - 1, 0)) for _ in range(2)]
        if "index_add" in template or "index_copy" in template or "index_put" in template:
            places = sorted({*places})
        if "softmax" in template and not self.scope[x].is_floating_point():
            template = "{x}.clone()"  # PyTorch takes bools
        parts = {
            "x": x, "y": d.pick(*known), "d": dim, "e": d.int(-n, n - 1) if n else 0,
            "q": d.pick(*self.params), "a": d.pick(*self.args), "b": "b0", "n": d.int(1, 2),
            "c": d.pick(*self.args), "o": d.int(-1, 1), "k": self.key(shape),
            "p": d.rng.sample(range(n), n), "i": f"T.tensor({places}, device=device)",
        }  # fmt: skip
        if hasattr(self, "results"):
            parts["y"] = d.pick(*self.results)
        self.scope["device"] = "cpu"
        if not n:
            template = template.replace(".mT", "").replace(".permute({p})", "")  # deprecated
        return template.format(**parts)

    def key(self, shape: tuple[int, ...]) -> str:
        """What stands in brackets."""
        d, parts = self.d, []
        for n in shape[: d.int(1, max(len(shape), 1))]:
            kinds = [":", f"{d.int(0, n)}::{d.int(1, 2)}", f":{d.int(-1, n)}", "None", "1:"]
            kinds += [f"{d.int(-n, n - 1)}"] * 2 if n else []
            parts.append(d.pick(*kinds))
        return ", ".join(parts) or "..."


def _leaf(x: Any) -> bool:
    """Whether it is one; a view that may not be used is none."""
    try:
        return bool(x.is_leaf)
    except RuntimeError:
        return False


def _tame(x: Any) -> bool:
    """Whether it is small, and all of its numbers are."""
    least = x.detach().double().abs().nan_to_num(9e9)
    return x.numel() < 200 and (not x.numel() or float(least.max()) < MOST)


def _repeats(x: Any) -> bool:
    """Whether elements share memory: what a write leaves is undefined then."""
    places = {0}
    for n, s in zip(x.shape, x.stride(), strict=True):
        places = {p + i * s for p in places for i in range(n)}
    return len(places) < x.numel()
