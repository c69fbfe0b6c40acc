"""PyTorch's operator database through `pf.compile`, with the backward pass in it or after it,
without one, in place, with `out=`, and with operands that are written to between the passes."""

from __future__ import annotations

import contextlib
import functools
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

import pyframe as pf

from . import known
from .backends import ROOT, Backend, compiling
from .check import FailureError
from .families import Draw, family
from .program import Refused

if str(ROOT / "tests") not in sys.path:
    sys.path.append(str(ROOT / "tests"))

from conformance import bridge, operators
from conformance.bridge import Bridge, UnsupportedError, flat, tree_map, unflat
from conformance.operators import GAUGE, LOOSE, RANDOM, RB, UNORDERED, bind

DTYPES = {
    "float32": 12, "float64": 3, "int64": 3, "int32": 1, "bool": 2, "float16": 2, "complex64": 1,
    "uint8": 1, "bfloat16": 1,
}  # fmt: skip
MODES = {"inside": 6, "outside": 4, "inplace": 2, "out": 2, "plain": 1, "written": 2}
EPS = {torch.float32: 1.2e-7, torch.float64: 2.3e-16, torch.float16: 1e-3, torch.bfloat16: 8e-3}
# (times PyTorch's own error, times the dtype's epsilon): how far from the truth a result may be
BOUND = 12.0, {torch.float32: 80.0, torch.float64: 4e4, torch.float16: 8.0, torch.bfloat16: 8.0}
CALLS = 3


@dataclass(frozen=True)
class Sample:
    """One sample of the database, and how it is run."""

    name: str
    dtype: str
    mode: str
    index: int
    layout: int  # 0: as the database has it

    def check(self, backend: Backend) -> bool:
        """Raise FailureError where it does not hold; whether there was anything to compare."""
        if backend.name.startswith("page") or not backend.values:
            return False
        if backend.exports and self.dtype == "float64":
            return False
        if backend.plain and self.dtype == "bfloat16":  # which NumPy has not
            return False
        with compiling(backend.generator), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                problem = Run(self.within(backend), backend).problem()
            except UnsupportedError:
                return False
            except Exception as error:
                if known.documented(Refused(type(error).__name__, str(error))):
                    return False
                raise FailureError("raises", f"{type(error).__name__}: {error} {self}") from None
        if problem is not None:
            raise FailureError("wrong", f"{problem} {self}")
        return True

    def within(self, backend: Backend) -> Sample:
        """The same, of which an export has all within its function."""
        modes = {"outside": "inside", "written": "inside", "out": "plain"}
        if backend.plain:
            return replace(self, mode="plain")
        return replace(self, mode=modes.get(self.mode, self.mode)) if backend.exports else self

    def smaller(self) -> Iterator[Sample]:
        """As the database has it, and without a backward pass."""
        if self.layout:
            yield replace(self, layout=0)
        if self.mode in ("inside", "outside"):
            yield replace(self, mode="plain")

    def text(self, backend: Backend) -> str:
        """How to have it again, and its arguments."""
        s = samples(self.name, self.dtype, 0)[self.index]
        given = str(tree_map(_shown, [s.input, *s.args, s.kwargs]))[1:-1]
        return (
            f"from fuzz.backends import BACKENDS\nfrom fuzz.database import Sample\n"
            f"{self!r}.check(BACKENDS[{backend.name!r}])  # {given}"
        )


def _shown(x: Any) -> Any:
    return f"Tensor{tuple(x.shape)}" if isinstance(x, torch.Tensor) else x


@functools.cache
def ops(dtype: str) -> dict[str, Any]:
    return operators.database(getattr(torch, dtype))


@functools.lru_cache(maxsize=256)
def samples(name: str, dtype: str, draw: int) -> list[Any]:
    """What the database has for an op; each draw has other numbers."""
    op, kind = ops(dtype)[name], getattr(torch, dtype)
    grads = (op.supports_autograd and kind.is_floating_point) or kind.is_complex
    grads = grads and op.supports_autograd and kind in op.backward_dtypes
    bridge.seed((name, draw))
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for s in op.sample_inputs("cpu", kind, requires_grad=grads):
            found.append(s)
            if len(found) >= 300:
                break
    return found


@family("database")
def drawn(d: Draw) -> Sample:
    """A random case."""
    rng = d.rng
    while True:
        (dtype,) = rng.choices(list(DTYPES), list(DTYPES.values()))
        (mode,) = rng.choices(list(MODES), list(MODES.values()))
        name = rng.choice(list(ops(dtype)))
        if dtype == "float64" and name in known.SEVEN_DIGITS:
            continue
        op = ops(dtype)[name]
        if mode == "inplace" and op.inplace_variant is None:
            mode = "inside"
        if mode == "out" and not op.supports_out:
            mode = "plain"
        count = len(samples(name, dtype, 0))
        if count:
            # as_strided looks at the memory that a view lies in
            layout = 0 if "as_strided" in name or mode == "written" else rng.randrange(4)
            return Sample(name, dtype, mode, rng.randrange(count), layout)


def relaid(t: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """The same numbers with other strides."""
    how = rng.randrange(4)
    if t.layout != torch.strided or t.dim() < 1 or how == 0 or t.numel() < 2:
        return t
    a = t.detach()
    if how == 1:
        dims = list(range(a.dim()))
        rng.shuffle(dims)
        back = [dims.index(i) for i in range(a.dim())]
        a = a.permute(dims).contiguous().permute(back)
    elif how == 2:
        wide = torch.zeros(*a.shape[:-1], 2 * a.shape[-1], dtype=a.dtype)
        wide[..., 1::2] = a
        a = wide[..., 1::2]
    else:
        wide = torch.zeros(a.shape[0] + 2, *a.shape[1:], dtype=a.dtype)
        wide[1:-1] = a
        a = wide[1:-1]
    return a.requires_grad_(t.requires_grad)


def inputs(case: Sample) -> list[Any]:
    """The sample, with CALLS draws of its numbers: the same arguments but for these."""
    first = samples(case.name, case.dtype, 0)[case.index]
    out = []
    for draw in range(CALLS):
        some = samples(case.name, case.dtype, draw)
        s = some[case.index] if case.index < len(some) else first
        s = s if signature(s) == signature(first) else first
        out.append(laid(s, random.Random(case.layout)) if case.layout else s)  # each draw's alike
    return out


def laid(s: Any, rng: random.Random) -> Any:
    """A sample whose tensors have other strides."""
    memo: dict[int, Any] = {}

    def lay(t: Any) -> Any:
        if isinstance(t, torch.Tensor):
            if id(t) not in memo:
                memo[id(t)] = relaid(t, rng)
            return memo[id(t)]
        return t

    return type(s)(
        tree_map(lay, s.input), args=tree_map(lay, tuple(s.args)),
        kwargs=tree_map(lay, dict(s.kwargs)), output_process_fn_grad=s.output_process_fn_grad,
        broadcasts_input=s.broadcasts_input,
    )  # fmt: skip


def signature(s: Any) -> str:
    def show(t: Any) -> Any:
        if isinstance(t, torch.Tensor):
            return f"{tuple(t.shape)}{t.stride()}{t.dtype}{t.requires_grad}{t.layout}"
        return t

    return repr(tree_map(show, [s.input, list(s.args), s.kwargs]))


# --- comparison


def distance(
    want: torch.Tensor, got: torch.Tensor, truth: torch.Tensor | None, loose: float = 1
) -> str | None:
    """Why `got` is wrong: `want` is PyTorch's, `truth` PyTorch's in float64."""
    if want.numel() == 0:
        return None
    if not (want.is_floating_point() or want.is_complex()):
        bad = want != got
        if truth is not None and truth.shape == want.shape and not truth.is_floating_point():
            bad &= truth.to(want.dtype) != got
        if not bad.any():
            return None
        i = int(bad.flatten().nonzero()[0])
        return (
            f"{int(bad.sum())} of {bad.numel()} differ, the first at {i}: "
            f"{want.flatten()[i].item()} expected, {got.flatten()[i].item()} found"
        )
    kind = {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(
        want.dtype, want.dtype
    )
    wide = torch.complex128 if want.is_complex() else torch.float64
    w, g = want.to(wide), got.to(wide)
    t = truth.detach().to(wide) if truth is not None and truth.shape == want.shape else w
    if want.is_complex():
        w, g, t = (torch.view_as_real(x.resolve_conj()) for x in (w, g, t))
    own = (w - t).abs()
    fine = own[own.isfinite()]
    rms = t[t.isfinite()]
    scale = float(rms.square().mean().sqrt()) if rms.numel() else 0.0
    times, floors = BOUND
    times *= loose
    floor = floors[kind] * EPS[kind] * loose
    most = float(fine.max()) if fine.numel() else 0.0
    bound = times * most + floor * (t.abs() + max(scale, 1.0))
    ok = (g - t).abs() <= bound
    for x in (w, t, t.to(kind).to(wide)):
        ok |= (g == x) | (g.isnan() & x.isnan())
    if ok.all():
        return None
    i = int((~ok).flatten().nonzero()[0])
    a, b, c = (x.flatten()[i].item() for x in (t, w, g))
    return (
        f"{int((~ok).sum())} of {ok.numel()} differ, the first at {i}: {a:.17g} expected, "
        f"{b:.17g} of PyTorch, {c:.17g} found"
    )


def different(
    case: Sample, want: Any, got: Any, truth: Any, what: str, pick: Any = None
) -> str | None:
    wants, gots = flat(want), flat(got)
    truths = flat(truth) if truth is not None else [None] * len(wants)
    if len(truths) != len(wants):
        truths = [None] * len(wants)
    loose = LOOSE.get(case.name, 1)
    for i, (w, g, t) in enumerate(zip(wants, gots, truths, strict=True)):
        if pick is not None and not pick(i, w):
            continue
        if isinstance(w, torch.Tensor):
            t = t if isinstance(t, torch.Tensor) else None
            problem = distance(w, g, t, loose)
        else:
            problem = None if w == g or (w != w and g != g) else f"{w!r} expected, {g!r} found"
            if problem and isinstance(w, (float, complex)) and abs(w - g) <= 1e-5 + 1e-4 * abs(w):
                problem = None
        if problem:
            return f"{what} {i}: {problem}"
    return None


# --- running


class Laid(Bridge):
    """Keeps the strides of what it carries, on a GPU too, where they are those of a view."""

    def tensor(self, t: torch.Tensor) -> Any:
        if t.layout != torch.strided or t.is_contiguous() or 0 in t.shape or 0 in t.stride():
            return super().tensor(t)
        length = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
        whole = torch.zeros(length + 1, dtype=t.dtype)
        whole[1:].as_strided(t.shape, t.stride()).copy_(t.detach())
        y = super().tensor(whole).as_strided(tuple(t.shape), t.stride(), 1)
        if t.requires_grad:
            self.leaves.append(y.requires_grad_(True))
        return y


class Reference:
    """What PyTorch makes of a sample: results, seeds of the backward pass, gradients, the truth."""

    def __init__(self, case: Sample, s: Any, make: Callable[[Any], Any], inplace: bool) -> None:
        op = ops(case.dtype)[case.name]
        kind = getattr(torch, case.dtype)
        self.process = operators.processing(op, case.name, s)
        own = getattr(s.output_process_fn_grad, "__qualname__", "")
        default = own == "SampleInput.__init__.<locals>.<lambda>"
        unordered = case.name in UNORDERED
        self.gp = self.process if default or unordered else s.output_process_fn_grad
        torch.manual_seed(1)
        self.out, self.leaves = self._call(RB, make, s, inplace)
        if any(
            isinstance(t, torch.Tensor)
            and (t.layout != torch.strided or t.dtype == torch.complex32)
            for t in flat(self.out)
        ):
            raise UnsupportedError("result layout")
        self.plain = operators.plain_of(self.out)
        self.flows = [isinstance(t, torch.Tensor) and t.requires_grad for t in flat(self.out)]
        self.truth = self.wide = None
        wide = operators.WIDE
        if kind in (torch.float16, torch.bfloat16):
            wide = Bridge(cast={kind: torch.float64})
        if kind in (torch.float32, torch.complex64, torch.float16, torch.bfloat16):
            try:
                torch.manual_seed(1)
                self.wide, self.wide_leaves = self._call(wide, make, s, inplace)
                self.truth = operators.plain_of(self.wide)
            except Exception:
                self.wide = None

    @staticmethod
    def _call(B: Any, make: Callable[[Any], Any], s: Any, inplace: bool) -> tuple[Any, list[Any]]:
        x, args, kwargs = bind(B, s)
        leaves = B.leaves
        if inplace:
            x = x.clone()
        return make(B)(x, *args, **kwargs), leaves

    def seeds(self, plain: Any) -> list[Any]:
        return operators.weights(self.gp, self.out, flat(plain))

    @functools.cached_property
    def backward(self) -> Any:
        """PyTorch's gradients, and those in float64; None where it has none."""
        try:
            grads = gradients(torch, self.out, self.seeds(self.plain), self.leaves)
        except Exception:
            return None
        truths = None
        if self.wide is not None:
            with contextlib.suppress(Exception):
                seeds = operators.weights(self.gp, self.wide, flat(self.truth))
                truths = gradients(torch, self.wide, seeds, self.wide_leaves)
        return grads, truths


def gradients(T: Any, out: Any, seeds: list[Any], leaves: Any) -> Any:
    """Of the results that have a seed."""
    pairs = [(o, w) for o, w in zip(flat(out), seeds, strict=True) if w is not None]
    roots, grads = [o for o, _ in pairs], [w for _, w in pairs]
    return T.autograd.grad(roots, leaves, grads, allow_unused=True)


class Run:
    """One case on one device."""

    def __init__(self, case: Sample, backend: Backend) -> None:
        self.case = case
        self.B = Laid("pyframe", backend.device)
        self.op = ops(case.dtype)[case.name]
        inplace = case.mode == "inplace"

        def make(B: Any) -> Any:
            if inplace:
                f = self.op.inplace_variant
                if isinstance(f, functools.partial):
                    return B.rebind(f)
                if getattr(f, "__module__", None) and str(f.__module__).startswith("torch.testing"):
                    return B.rebind(f)
                return operators.method(B, f.__name__)
            return operators.carry(B, self.op.op, self.op.name)

        self.make, self.inplace = make, inplace
        self.fn = make(self.B)
        self.compile, self.exports = backend.wrap, backend.exports

    def problem(self) -> str | None:
        """What is wrong, or None. UnsupportedError where PyTorch refuses the sample."""
        case = self.case
        todo = inputs(case)
        refs = []
        for s in todo:
            try:
                refs.append(Reference(case, s, self.make, self.inplace))
            except UnsupportedError:
                raise
            except Exception as e:
                raise UnsupportedError(f"torch refuses: {e}") from None
        try:
            return getattr(self, case.mode if case.mode != "inplace" else "inside")(todo, refs)
        except TypeError as e:
            if "device 'gpu' has no" in str(e):
                raise UnsupportedError(str(e)) from None
            raise

    def bound(self, s: Any) -> Any:
        x, args, kwargs = bind(self.B, s)
        return x, args, kwargs, self.B.leaves

    def compared(self, ref: Reference, out: Any, what: str) -> str | None:
        case, B = self.case, self.B
        if self.exports and len(flat(out)) == len(flat(ref.plain)):
            out = unflat(ref.plain, flat(out))  # a page gives tensors in a row
        problem = bridge.shape_problem(ref.plain, out, B, False)
        if problem:
            return f"{what}: {problem[1]}"
        if case.name in RANDOM or case.name in operators.UNDEFINED:
            return None
        got = unflat(ref.plain, flat(B.take(out)))
        process = ref.process or (lambda t: t)
        inside = getattr(torch, case.dtype).is_floating_point or case.name not in operators.TIES

        def pick(i: int, r: Any) -> bool:
            index = isinstance(r, torch.Tensor) and r.dtype == torch.int64
            return inside or not (index and (i > 0 or case.name.startswith("arg")))

        truth = None if ref.truth is None else process(ref.truth)
        return different(case, process(ref.plain), process(got), truth, what, pick)

    def gradients(self, ref: Reference, got: Any, what: str) -> str | None:
        case = self.case
        if case.name in RANDOM:
            return None
        want, truth = ref.backward
        view = operators.grad_view(self.op)
        for i, (w, g) in enumerate(zip(want, got, strict=True)):
            if w is None and g is None:
                continue
            g = None if g is None else self.B.take(g)
            w = torch.zeros_like(g) if w is None else w
            g = torch.zeros_like(w) if g is None else g
            w = w.resolve_conj().resolve_neg()
            if w.shape != g.shape or w.dtype != g.dtype:
                return f"{what} {i}: {w.dtype}{tuple(w.shape)} expected, {g.dtype}{tuple(g.shape)}"
            t = truth[i] if truth is not None else None
            t = view(i, t) if t is not None else None
            problem = distance(view(i, w), view(i, g), t, LOOSE.get(case.name, 1))
            if problem:
                return f"{what} {i}: {problem}"
        return None

    def seeds(self, ref: Reference, s: Any) -> list[Any]:
        """For the backward pass of each result, as pyframe's tensors."""
        if self.case.name in GAUGE or self.case.name in UNORDERED:
            x, args, kwargs, _ = self.bound(s)
            plain = self.B.take(self.fn(x, *args, **kwargs))
            return [None if w is None else self.B.put(w.resolve_conj()) for w in ref.seeds(plain)]
        try:
            ws = ref.seeds(ref.plain)
        except Exception as e:
            raise UnsupportedError(f"torch refuses: {e}") from None
        return [None if w is None else self.B.put(w.resolve_conj()) for w in ws]

    def noted(self, tree: Any) -> list[Any]:
        """Values as they are now."""
        return [self.B.take(t).clone() if self.B.is_tensor(t) else t for t in flat(tree)]

    def changed(self, results: list[tuple[Any, list[Any]]]) -> str | None:
        """Whether the results of a call are others than when they were noted."""
        for n, (tree, before) in enumerate(results):
            for a, b in zip(self.noted(tree), before, strict=True):
                same = (a == b) | ((a != a) & (b != b))
                if not (same.all() if isinstance(a, torch.Tensor) else same):
                    return f"the results of call {n} have changed after later calls"
        return None

    def inside(self, todo: list[Any], refs: list[Reference]) -> str | None:
        """Forward and backward in one compiled function."""
        fn, inplace = self.fn, self.inplace
        flows = any(refs[0].flows) and bool(refs[0].leaves)

        def step(x: Any, args: Any, kwargs: Any, leaves: Any, seeds: Any) -> Any:
            if inplace:
                x = x.clone()
            out = fn(x, *args, **kwargs)
            return out, gradients(pf, out, seeds, leaves) if seeds else ()

        compiled = self.compile(step)
        results = []
        for n, (s, ref) in enumerate(zip(todo, refs, strict=True)):
            flows = flows and ref.backward is not None
            seeds = self.seeds(ref, s) if flows else []
            x, args, kwargs, leaves = self.bound(s)
            pf.manual_seed(1)
            out, grads = compiled(x, args, kwargs, leaves, seeds)
            problem = self.compared(ref, out, f"call {n}, result")
            if not problem and seeds:
                problem = self.gradients(ref, grads, f"call {n}, gradient")
            if problem:
                return problem
            results.append(((out, grads), self.noted((out, grads))))
        return self.changed(results)

    def outside(self, todo: list[Any], refs: list[Reference]) -> str | None:
        """The forward pass compiled; the backward passes after all calls."""
        compiled = self.compile(lambda x, args, kwargs: self.fn(x, *args, **kwargs))
        made = []
        for n, (s, ref) in enumerate(zip(todo, refs, strict=True)):
            x, args, kwargs, leaves = self.bound(s)
            pf.manual_seed(1)
            out = compiled(x, args, kwargs)
            problem = self.compared(ref, out, f"call {n}, result")
            if problem:
                return problem
            flows = [self.B.is_tensor(o) and bool(o.requires_grad) for o in flat(out)]
            if flows != ref.flows:
                return f"call {n}: requires_grad {ref.flows} expected, {flows} found"
            made.append((out, leaves, self.noted(out)))
        for n, (out, leaves, _) in enumerate(made):
            if not any(refs[n].flows) or not leaves or refs[n].backward is None:
                continue
            grads = gradients(pf, out, self.seeds(refs[n], todo[n]), leaves)
            problem = self.gradients(refs[n], grads, f"call {n}, gradient outside")
            if problem:
                return problem
        return self.changed([(out, noted) for out, _, noted in made])

    def plain(self, todo: list[Any], refs: list[Reference]) -> str | None:
        """Without gradients."""
        with pf.no_grad():
            compiled = self.compile(lambda x, args, kwargs: self.fn(x, *args, **kwargs))
            for n, (s, ref) in enumerate(zip(todo, refs, strict=True)):
                x, args, kwargs, _ = self.bound(s)
                pf.manual_seed(1)
                problem = self.compared(ref, compiled(x, args, kwargs), f"call {n}, result")
                if problem:
                    return problem
        return None

    def out(self, todo: list[Any], refs: list[Reference]) -> str | None:
        """With `out=`: memory of the right shape with strides of its own, written and returned."""
        with torch.no_grad(), pf.no_grad():
            compiled = self.compile(
                lambda x, args, kwargs, out: self.fn(x, *args, **kwargs, out=out)
            )
            for n, (s, ref) in enumerate(zip(todo, refs, strict=True)):
                rng = random.Random(self.case.layout + 5)
                if not all(isinstance(t, torch.Tensor) for t in flat(ref.plain)):
                    raise UnsupportedError("a number")
                outs = [torch.zeros_like(t) for t in flat(ref.plain)]
                if self.case.dtype != "bfloat16":  # whose copies are contiguous
                    outs = [relaid(t, rng) for t in outs]
                given = outs[0] if isinstance(ref.plain, torch.Tensor) else tuple(outs)
                x, args, kwargs = bind(RB, s)
                if "out" in kwargs:
                    raise UnsupportedError("has out already")
                # other strides may have PyTorch's LAPACK calls write beside them
                own = RB.put(tree_map(torch.zeros_like, ref.plain))
                try:
                    self.make(RB)(x, *args, **kwargs, out=own)
                except Exception as e:
                    raise UnsupportedError(f"torch refuses: {e}") from None
                x, args, kwargs, _ = self.bound(s)
                mine = self.B.put(given)
                pf.manual_seed(1)
                got = compiled(x, args, kwargs, mine)
                for what, y in (("result", got), ("out", mine)):
                    y = unflat(ref.plain, flat(y)) if what == "out" else y
                    problem = self.compared(ref, y, f"call {n}, {what}")
                    if problem:
                        return problem
                want = [t.stride() for t in outs if t.numel()]
                have = [tuple(t.stride()) for t in flat(mine) if t.numel()]
                if want != have:
                    return f"strides of out: {want} expected, {have} found"
        return None

    def written(self, todo: list[Any], refs: list[Reference]) -> str | None:
        """Each input is written in place after the forward pass: the backward pass raises where
        PyTorch's does, and gives what PyTorch's gives."""
        s, ref = todo[0], refs[0]
        if not any(ref.flows) or not ref.leaves or ref.backward is None:
            raise UnsupportedError("no gradient")
        seeds = ref.seeds(ref.plain)

        def tried(B: Any, which: int) -> Any:
            torch.manual_seed(1)
            pf.manual_seed(1)
            x, args, kwargs = bind(B, s)
            leaves = B.leaves
            given = [t for t in flat([x, args, kwargs]) if B.is_tensor(t)]
            memo = {id(t): t * 1 if t.requires_grad else t for t in given}
            x, args, kwargs = tree_map(
                lambda t: memo.get(id(t), t) if B.is_tensor(t) else t, [x, args, kwargs]
            )
            out = self.make(B)(x, *args, **kwargs)
            with B.m.no_grad():
                [*[memo[id(t)] for t in given], *flat(out)][which].zero_()
            try:
                put = [None if w is None else B.put(w.resolve_conj()) for w in seeds]
                return gradients(B.m, out, put, leaves)
            except RuntimeError as e:
                if "modified by an inplace operation" in str(e) or "in place" in str(e):
                    return "raised"
                return f"raised {e}"

        view = operators.grad_view(self.op)
        given = [t for t in flat([s.input, s.args, s.kwargs]) if isinstance(t, torch.Tensor)]
        outs = [t for t in flat(ref.out) if isinstance(t, torch.Tensor)]
        if len(outs) != len(flat(ref.out)):
            outs = []
        for which in range(len(given) + len(outs)):
            what = f"input {which}" if which < len(given) else f"result {which - len(given)}"
            try:
                want = tried(RB, which)
            except Exception:
                continue
            got = tried(self.B, which)
            if isinstance(want, str) or isinstance(got, str):
                stale = not isinstance(want, str) and not all(
                    (a is b) or torch.equal(a.nan_to_num(), b.nan_to_num())
                    for a, b in zip(want, ref.backward[0], strict=True)
                )  # PyTorch has not noticed: gradients of what was written
                if isinstance(got, str) and not isinstance(want, str) and not stale:
                    return f"{what} is kept for the backward pass, which PyTorch does not: {got}"
                continue
            for i, (w, g) in enumerate(zip(want, got, strict=True)):
                if self.case.name in RANDOM | GAUGE or w is None or g is None:
                    continue
                w, g = (view(i, t) for t in (w.resolve_conj().resolve_neg(), self.B.take(g)))
                problem = distance(w, g, None, 10)
                if problem:
                    return f"{what} written after the forward pass, gradient {i}: {problem}"
        return None
