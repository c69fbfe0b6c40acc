"""Routines of the page's CPU: functions of one library (library.py), and how an op calls them.

An op names its own in its declaration (`routine="gemm.matmul"`: a function of a module of this
package, loaded when it is asked for). It is planned from the operands' shapes, strides and dtypes,
as `lower_routine` is, and gives calls with fixed arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pyframe.core.op import Op

SCRATCH, TABLES = -1, -2


class At(NamedTuple):
    """An address that is known when a call is bound: `offset` bytes past operand number `of` (the
    result comes after the inputs), the routine's SCRATCH memory, or its TABLES."""

    of: int
    offset: int = 0


class Call(NamedTuple):
    """A call of a function of the library; all its arguments are i32, and it gives nothing."""

    function: str
    arguments: tuple[int | At, ...]


class Routine(NamedTuple):
    """What computes an op: calls, one after the other, with `scratch` bytes of memory, which hold
    nothing between runs, and `tables`, which stay as they are; both at a multiple of 16 bytes. What
    the op's NumPy function raises an error for (an index out of range), traps."""

    calls: tuple[Call, ...]
    scratch: int = 0
    tables: np.ndarray | None = None  # int32


Plan: TypeAlias = Callable[[Sequence[np.ndarray], tuple[Any, ...], np.ndarray], "Routine | None"]


def routine(
    op: Op, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> Routine | None:
    """How WebAssembly computes `op`. Of the arrays shapes, strides and dtypes count, addresses
    don't; the result is C-contiguous. None: it has no routine for these, and NumPy runs it."""
    if op.routine is None:
        return None
    module, _, name = op.routine.partition(".")
    plan: Plan = getattr(import_module(f"pyframe.codegen.wasm.{module}"), name)
    return plan(inputs, attrs, out) if out.size else Routine(())
