"""The instructions of kernels as bound NumPy calls."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from pyframe.codegen.numpy.elementwise import Call, ufunc_call
from pyframe.core import dtypes as dt
from pyframe.core.op import REGISTRY
from pyframe.graph.program import Apply, Reduce, combine_of

Array: TypeAlias = np.ndarray


def acc_dtype(i: Reduce) -> np.dtype:
    """The dtype in which a reduction adds up."""
    return np.dtype(np.float32) if combine_of(i).sums and i.dtype is dt.float16 else i.dtype.numpy


@functools.cache
def _resolves(fn: np.ufunc, dtypes: tuple[np.dtype, ...], out: np.dtype) -> bool:
    try:
        return fn.resolve_dtypes((*dtypes, None))[-1] == out and fn.nout == 1
    except TypeError:
        return False


def is_plain(i: Apply, xs: Sequence[Array]) -> bool:
    """Whether the op is one ufunc call."""
    fn = REGISTRY[i.op].numpy
    return (
        isinstance(fn, np.ufunc)
        and not i.attrs
        and _resolves(fn, tuple(x.dtype for x in xs), i.dtype.numpy)
    )


def op_calls(i: Apply, xs: Sequence[Array], out: Array, scratch: Any) -> list[Call]:
    """An elementwise op as calls that write to `out`, which no other operand overlaps unless it is
    one ufunc call."""
    op = REGISTRY[i.op]
    if is_plain(i, xs):
        calls = [ufunc_call(op.numpy, xs, out)]
    else:
        found = op.lower and op.lower(xs, i.attrs, out, scratch)
        calls = found or [(copy_result, (op.numpy, out, *xs, *i.attrs))]
    return calls if i.dtype.narrow is None else [*calls, (narrow, (i.dtype.narrow, out))]


def narrow(fn: Any, x: Array) -> None:
    """Round what a wider type of NumPy's holds to its dtype."""
    np.copyto(x, fn(x))


def copy_result(fn: Any, out: Array, *args: Any) -> None:
    np.copyto(out, fn(*args), casting="unsafe")


class Cached:
    """Values of scalars alone, computed again only if these have changed."""

    def __init__(self, fn: Any, args: list[Array], out: Array) -> None:
        self.fn, self.args, self.out = fn, args, out
        self.last: Any = None

    def run(self) -> None:
        now = [a.item() for a in self.args]
        if now != self.last:
            np.copyto(self.out, self.fn(*self.args, self.out.shape), casting="unsafe")
            self.last = now
