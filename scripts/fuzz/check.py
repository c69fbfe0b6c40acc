"""What PyTorch gives in float64, how far off it may be, and the smallest program that fails."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from . import known
from .backends import Backend
from .program import Outcome, Program, Refused, outcome, pairs

TIMES = 16  # by how much the error may be larger than PyTorch's own in the same dtype
FLOOR = 16  # and the least error that is allowed, in the dtype's steps at the largest number
EPS = {"float32": 2**-23, "float64": 2**-52, "float16": 2**-10, "bfloat16": 2**-7,
       "complex64": 2**-23, "complex128": 2**-52}  # fmt: skip
LARGEST = {"float32": 2.0**128 * (1 - 2**-24), "float16": 65504.0,
           "bfloat16": 2.0**128 * (1 - 2**-8)}  # fmt: skip
HALVES = ("float16", "bfloat16")
SMALLER = EPS["float64"] / EPS["float32"]
SHAKES = 3  # how often arguments are moved by a step, to see what that does
REDUCING = 40.0  # seconds


class FailureError(Exception):
    """What did not hold: in a word, and in a sentence."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class NoProgramError(Exception):
    """A case that no Python runs: the family's mistake."""


class Case(Protocol):
    """What a family gives."""

    def check(self, backend: Backend) -> bool:
        """Raise FailureError where it does not hold; whether there was anything to compare."""

    def smaller(self) -> Iterator[Case]:
        """Cases with less of it, to find the smallest that fails."""

    def text(self, backend: Backend) -> str:
        """What a person pastes to see it."""


@dataclass(frozen=True)
class Compared:
    """A program that is to give what PyTorch gives."""

    program: Program

    def check(self, backend: Backend) -> bool:
        """Run it with both."""
        program = backend.suited(self.program)
        rough = expected(program).rough
        if isinstance(rough, Refused) and program.mode != "none" and "'int'" in rough.text:
            program = replace(program, mode="none")  # no result has a gradient
        try:
            return compared(program, backend.run(program), expected(program), backend.values)
        except FailureError as failure:  # a model does not check what it is given
            if backend.plain and failure.kind in ("takes", "another error"):
                return False
            raise

    def smaller(self) -> Iterator[Compared]:
        """The same of smaller programs."""
        return map(type(self), self.program.smaller())

    def text(self, backend: Backend) -> str:
        """The program as a script."""
        return backend.suited(self.program).text(backend.device)


@dataclass(frozen=True)
class Living(Compared):
    """What has a state or derivatives that no graph says."""

    def check(self, backend: Backend) -> bool:
        """Nothing where a graph runs."""
        if backend.plain or backend.exports or backend.name == "traced":
            return False
        return super().check(backend)


class Expected(NamedTuple):
    """What PyTorch gives: in float64, in the program's own dtypes, and all in float32."""

    want: Outcome
    rough: Outcome
    narrow: Outcome


@functools.lru_cache(maxsize=8)
def expected(program: Program) -> Expected:
    """What PyTorch gives. The last is asked for where the program is of float64 itself."""
    run = functools.partial(outcome, torch, program, "cpu", lambda f: f)
    rough, own = run(""), "float64" in str(program)
    return Expected(run("float64"), rough, run("float32") if own else rough)


@functools.lru_cache(maxsize=8)
def shaken(program: Program, real: str, step: float, again: int) -> Outcome:
    """What PyTorch gives for arguments and parameters that are off by a step: its own error must
    not be small by luck, and where the problem is badly conditioned no one can be nearer."""
    return outcome(torch, program, "cpu", lambda f: f, real, step, again)


def compared(program: Program, found: Outcome, right: Expected, values: bool = True) -> bool:
    """Raise FailureError where an outcome, or all of it but its values, is not PyTorch's."""
    want, rough, narrow = right
    refusals = [r for r in right if isinstance(r, Refused)]
    if not values and (refusals or known.of_values(found)):
        return False
    if refusals:
        theirs = refusals[0]
        if {"NameError", "SyntaxError", "AttributeError"} & {*theirs.error.split()}:
            raise NoProgramError(f"no program: {theirs.text}\n{program.text()}")
        if len(refusals) < len(right) or known.mine(theirs) or known.theirs(program):
            return False
        if not isinstance(found, Refused):
            raise FailureError("takes", f"what PyTorch refuses: {theirs.text}")
        if known.alike(theirs, found) or known.documented(found):
            return False
        if theirs.error.split()[0] not in found.error.split():
            raise FailureError("another error", f"{found.text}; PyTorch: {theirs.text}")
        return False
    if isinstance(found, Refused):
        if known.documented(found) or known.late(rough, found):
            return False
        raise FailureError("raises", found.text)
    assert not isinstance(want, Refused)
    sizes = [max([largest(v.array) for v in call if v], default=0.0) for call in want]
    for call, n, (x, *others) in pairs(found, want, rough, narrow):
        y, z, narrower = others
        where = f"result {n} of call {call}"
        if z is not None and known.went_on(z.array):
            return True
        if (x is None) != (z is None):
            got, theirs = ("None" if v is None else "a tensor" for v in (x, z))
            raise FailureError("None", f"{where} is {got}; PyTorch: {theirs}")
        if x is None:
            continue
        if x.dtype != z.dtype:
            raise FailureError("dtype", f"{where} is {x.dtype}; PyTorch: {z.dtype}")
        if x.array.shape != z.array.shape:
            raise FailureError("shape", f"{where} is {x.array.shape}; PyTorch: {z.array.shape}")
        if not values:
            continue
        error = [differ(y.array, z.array), SMALLER * differ(y.array, narrower.array)]
        off = difference(x.dtype, x.array, y.array, z.array, max(error), sizes[call])
        if off and x.dtype in HALVES:  # rounded once, after a kernel: what cancels leaves a step
            sizes[call] = max(sizes[call], given(program, call))
            off = difference(x.dtype, x.array, y.array, z.array, max(error), sizes[call])
        for again in range(SHAKES):
            if not off or x.dtype not in EPS or any(a.kind == "ties" for a in program.args):
                break
            # where float64 meets float32, what comes before it has the steps of that
            eps = max([EPS[x.dtype], *(EPS[a.dtype] for a in program.args if a.dtype == "float32")])
            step = min(2 * eps, EPS["float32"])
            others = [shaken(program, "float64", step, again)]
            others.append(shaken(program, "", 2 * eps, again))
            for other, times in zip(others, (max(eps / step, 1), 1), strict=True):
                if not isinstance(other, Refused) and (moved := other[call][n]) is not None:
                    error.append(times * differ(y.array, moved.array))
            off = difference(x.dtype, x.array, y.array, z.array, max(error), sizes[call])
        if off and not known.theirs(program):
            raise FailureError("wrong", f"{where} {off}")
    return True


@functools.lru_cache(maxsize=8)
def given(program: Program, call: int) -> float:
    """The largest number of a call's arguments."""
    scope: dict[str, Any] = {"np": np}
    exec(compile(program.arguments(), "<fuzz>", "exec"), scope)
    r = np.random.default_rng([program.seed, call])
    made = scope["arguments"](torch, r, "cpu", lambda v: v.double())
    return max((largest(v.detach().numpy()) for v in made), default=0.0)


def differ(y: np.ndarray, z: np.ndarray) -> float:
    """By how much finite numbers differ at most."""
    if y.shape != z.shape or y.dtype.kind not in "fc":
        return 0.0
    wide = z.astype(np.complex128 if np.iscomplexobj(y) else np.float64)
    with np.errstate(all="ignore"):
        return float(np.abs(wide - y)[np.isfinite(y) & np.isfinite(z)].max(initial=0))


def largest(x: np.ndarray) -> float:
    """The largest size of finite numbers."""
    return float(np.abs(x[np.isfinite(x)]).max(initial=0)) if x.dtype.kind in "fc" else 0.0


def difference(
    dtype: str, x: np.ndarray, y: np.ndarray, z: np.ndarray, error: float, whole: float
) -> str:
    """What is wrong with numbers x where float64 gives y, PyTorch z, which is off by `error`;
    `whole` is the largest number of all results, of which a step may be left where they cancel."""
    if dtype not in EPS:
        same = (x == z) | (x == y)
        return "" if same.all() else f"is {told(x, ~same)}, not {told(z, ~same)}"
    finite = np.isfinite(y) & np.isfinite(z)
    same = (x == z) | (x == y) | (np.isnan(x) & (np.isnan(z) | np.isnan(y)))
    wrong = ~finite & ~same & (np.isfinite(y) == np.isfinite(z))
    if wrong.any():
        return f"is {told(x, wrong)}, not {told(y, wrong)}"
    size = largest(y[finite])
    least = 1e-37 if dtype in ("float32", "complex64") else 0
    near = x.astype(y.dtype)
    if dtype in LARGEST:  # an infinity is as far off as the largest number
        near = np.clip(near, -LARGEST[dtype], LARGEST[dtype])
    bound = TIMES * error + EPS[dtype] * max(FLOOR * size, 2 * whole) + least
    with np.errstate(all="ignore"):
        off = np.where(finite & ~same, np.abs(near - y), 0)
    bad = ~(off <= bound)
    if not bad.any():
        return ""
    return (
        f"is {told(x, bad)}, not {told(y, bad)}: {bad.sum()} of {bad.size} are off by up to "
        f"{off.max():.2g}; PyTorch's are by {error:.2g} of {size:.2g}"
    )


def told(x: np.ndarray, where: np.ndarray) -> str:
    """Some of the numbers."""
    return ", ".join(f"{v:.6g}" if x.dtype.kind in "fc" else str(v) for v in x[where][:4])


def failure(case: Case, backend: Backend, plain: bool = False) -> str | bool:
    """What does not hold, with the smallest program of it unless `plain`; else whether there was
    anything to compare."""
    found = tried(case, backend)
    if not isinstance(found, tuple) or plain:
        return found[1] if isinstance(found, tuple) else found
    small = reduced(case, backend, found[0])
    last = tried(small, backend)
    return f"{last[1] if isinstance(last, tuple) else found[1]}\n{small.text(backend)}"


def tried(case: Case, backend: Backend) -> tuple[str, str] | bool:
    """The kind and the text of a failure, or whether there was anything to compare."""
    try:
        return case.check(backend)
    except FailureError as failure:
        return failure.kind, str(failure)


def reduced(case: Case, backend: Backend, kind: str) -> Case:
    """The smallest case found that fails in the same way."""
    end = time.monotonic() + REDUCING
    going = True
    while going:
        going = False
        for other in case.smaller():
            if time.monotonic() > end:
                return case
            try:
                found = tried(other, backend)
            except NoProgramError:
                continue
            if isinstance(found, tuple) and found[0] == kind:
                case, going = other, True
                break
    return case
