#!/usr/bin/env python3
"""Breaks one op after the other, and looks whether the tests of its own samples notice:

    .venv/bin/python scripts/mutate.py [-k softmax] [--list]

A mutant is one part of an op's declaration made wrong within this process: a gradient that is
zeroed, negated, scaled or lifted; a `numpy`, `scalar` or `combine` whose results are a little off;
a `view` that reads backwards. It is killed when a test fails: the op's rows against PyTorch and by
gradcheck, its meanings, its compiled rows. Those that survive are listed: they ask for a row in
tests/samples. tests/ops/test_mutants.py tries a mutant of each op.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
# folders by themselves, as pytest has them: `ops` is also the name of a script of scripts/bench
PATHS = [*(str(ROOT / "tests" / name) for name in ("ops", "nn")), str(ROOT / "tests"), str(ROOT)]
sys.path[:0] = [path for path in PATHS if path not in sys.path]
os.environ.setdefault("PYFRAME_ADAPTER", "software")  # as the tests have it

import test_attention
import test_compiled_rows
import test_complex
import test_kernel_ops
import test_meanings
import test_ops
from samples import ROWS, Row

import pyframe as pf
from pyframe.codegen.lanes import lower
from pyframe.codegen.wgsl import printer, scalars
from pyframe.core.devices import device
from pyframe.core.op import REDUCTION, REGISTRY, Op
from pyframe.core.view import slice_

GRADIENT = "the gradient of "
HOW: dict[str, Callable[[Any], Any]] = {  # a gradient is made wrong
    "zeroed": lambda g: g * 0,
    "negated": lambda g: -g,
    "scaled": lambda g: g * 1.5,
    "lifted": lambda g: g + 1,
}
# Tests apart from the tables, of what the meanings say and what NumPy gives
APART: dict[str, list[Callable[[], Any]]] = {
    "cast": [functools.partial(test_meanings.test_casts, d) for d in test_meanings.DTYPES],
    "iota": [test_meanings.test_values_from_the_index],
    "random_bits": [test_meanings.test_values_from_the_index],
    "normal_from_bits": [test_meanings.test_normal_numbers_are_the_same_bits],
}
# Ops that no function is of alone: the rows whose gradients, or kernels, are made of them
THROUGH = {"conv_weight": "conv", "linalg_cofactors": "linalg_det", "permute": "transpose"}


@functools.cache
def on_gpus() -> bool:
    """Whether there is a GPU to try a shader on."""
    try:
        return device("gpu").executor is not None
    except (ImportError, RuntimeError):
        return False


class Mutant(NamedTuple):
    """An op, the part of its declaration that is made wrong, and how."""

    op: Op
    part: str
    how: str

    def __str__(self) -> str:
        return f"{self.op.name}: {self.part} {self.how}"


def mutants() -> list[Mutant]:
    """All of them, by the names of the ops."""
    found = []
    for _, op in sorted(REGISTRY.items()):
        for name, rule in zip(op.inputs, op.vjps, strict=True):
            ways = _ways(rule) if rule else ()
            found += [Mutant(op, f"{GRADIENT}{name}", how) for how in ways]
        parts = {"numpy": "off", "scalar": "off", "combine": "off", "view": "backwards"}
        found += [Mutant(op, part, how) for part, how in parts.items() if getattr(op, part)]
    return found


def _ways(rule: Any) -> Iterable[str]:
    """How a gradient can be made wrong: one that is always 0 by adding to it alone, and one that
    is refused in no way."""
    if [kind for kind, _ in rule.args] != ["g"]:
        return HOW
    try:
        return HOW if rule.fn(pf.ones(2, 2, 2)).any() else ["lifted"]
    except Exception as e:
        return [] if "is not implemented" in str(e) else HOW


def rows_of(op: Op) -> list[Row]:
    """The rows of an op; those of `cat` are of any number of tensors."""
    own = re.sub(r"^cat\d+$", "cat", op.name.partition(":")[0])
    names = {own, THROUGH.get(own, own)}
    return [row for row in ROWS if row.name.partition(":")[0] in names]


# --- how a part is made wrong


@contextlib.contextmanager
def broken(mutant: Mutant) -> Iterator[None]:
    """The op as the mutant has it."""
    op, part, how = mutant
    target: Any = op
    if part.startswith(GRADIENT):
        target, part = op.vjps[op.inputs.index(part.split()[-1])], "fn"
        change = HOW[how]
    else:
        change = {
            "numpy": _backwards if op.alias else _off, "scalar": _off_scalar,
            "combine": _off_scalar, "view": _view_backwards,
        }[part]  # fmt: skip
    was = getattr(target, part)
    if part == "combine":
        setattr(target, part, was._replace(scalar=_then(was.scalar, change)))
    else:
        setattr(target, part, _then(was, change))
    _forget()
    try:
        yield
    finally:
        setattr(target, part, was)
        _forget()


def _then(fn: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrong(*args: Any, **names: Any) -> Any:
        return change(fn(*args, **names))

    return wrong


def _forget() -> None:
    """What was compiled with an op's meaning before."""
    for known in (lower.meaning, printer.generate, scalars.computed):
        known.cache_clear()
    for where in ("cpu", *["gpu"] * on_gpus()):
        device(where).executor.forget_programs()


def _off(y: Any) -> Any:
    y = np.asarray(y)
    return ~y if y.dtype == bool else y + 1 if y.dtype.kind in "iu" else y * 1.01 + 0.01


def _off_scalar(y: Any) -> Any:
    return ~y if y.type == "bool" else y + 1 if y.type[0] in "iu" else y * 1.01 + 0.01


def _backwards(y: Any) -> Any:
    return np.flip(y)


def _view_backwards(t: Any) -> Any:
    shape = t[-1].shape
    return slice_(t, tuple(n - 1 for n in shape), shape, (-1,) * len(shape))


# --- what is to notice it


def checks(mutant: Mutant, torch: Any) -> Iterator[Callable[[], Any]]:
    """The tests that this part of the op is to fail, one row or dtype each: of its rows."""
    op, part, _ = mutant
    if part in ("numpy", "scalar"):
        yield from APART.get(op.name, [])
        for name, d in test_meanings.CASES:
            if name == op.name:
                yield functools.partial(test_meanings.test_meanings, name, d)
    if part == "combine" and op.kind == REDUCTION:
        for d in test_meanings.DTYPES:
            yield functools.partial(test_meanings.test_reductions, op, d)
    if part == "numpy" and op.kernel is not None:
        kernels = test_kernel_ops.test_kernels_give_what_their_fallbacks_give
        yield functools.partial(kernels, op.name, "cpu")
    if op.name == "to_device" and on_gpus():
        yield functools.partial(test_ops.test_a_gradient_goes_back_to_the_device, "gpu")
    if op.name == "attention" and on_gpus():
        yield _attention
    if op.name in ("real", "view_as_complex", "view_as_real") and part == "view" and on_gpus():
        yield functools.partial(test_complex.test_writes_through_parts, "gpu")
    for row in rows_of(op):
        if part == "numpy" or (part.startswith(GRADIENT) and row.grad):
            yield functools.partial(test_ops.test_against_pytorch, row, "cpu", torch)
        if part.startswith(GRADIENT) and row in test_ops.CHECKED:
            yield functools.partial(test_ops.test_gradients_are_slopes, row)
        if part in ("scalar", "combine", "view"):
            yield functools.partial(_compiled, row)
        if part == "scalar" and on_gpus():  # of some functions the CPU has no text
            yield functools.partial(test_ops.test_against_pytorch, row, "gpu", torch)


def _attention() -> None:
    """By the kernels of real GPUs: software adapters have products and a softmax instead."""
    executor = device("gpu").executor
    before = executor.backend.limits
    executor.backend.limits = dataclasses.replace(before, kind="")
    try:
        test_attention.compare(test_attention.given(*test_attention.SHAPES["odd"]), "gpu")
    finally:
        executor.backend.limits = before
        executor.forget_programs()


def _compiled(row: Row) -> None:
    values_matter = ["in some rows"]
    with pytest.MonkeyPatch.context() as patch:
        test_compiled_rows.test_compiled("cpu", row, values_matter, None, patch)


def can_be_noticed(mutant: Mutant) -> bool:
    """Without a GPU some can't: nothing on the CPU is made of that part. A collective is noticed in
    several processes (tests/distributed), a product of packed weights by tests of its layers."""
    name = mutant.op.name
    external = mutant.part == "scalar" and name in test_meanings.EXTERNAL
    on_gpus_alone = external or name in ("to_device", "attention", "view_as_complex")
    return name not in ("collective", "packed_linear") and (on_gpus() or not on_gpus_alone)


def fails(check: Callable[[], Any]) -> bool:
    """Whether a test fails; each begins with the same random state."""
    pf.manual_seed(0)
    try:
        check()
    except pytest.skip.Exception:
        return False
    except (Exception, pytest.fail.Exception):
        return True
    return False


def survives(mutant: Mutant, torch: Any, *, sure: bool = False) -> bool:
    """Whether no test notices it; `sure` counts those alone that pass without it."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for check in checks(mutant, torch):
            with broken(mutant):
                noticed = fails(check)
            if noticed and not (sure and fails(check)):
                return False
    return True


def main() -> int:
    import torch

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-k", default="", help="only mutants whose name has this in it")
    parser.add_argument("--list", action="store_true", help="name the mutants, and try none")
    given = parser.parse_args()
    chosen = [m for m in mutants() if given.k in str(m)]
    if given.list:
        print(*chosen, sep="\n")
        return 0
    left = []
    for mutant in chosen:
        if survives(mutant, torch, sure=True):
            left.append(mutant)
            print(mutant, flush=True)
    print(f"{len(chosen)} mutants, {len(left)} survive")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
