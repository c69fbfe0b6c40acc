"""Running sums, products and maxima; float32 is scanned in float64, as in NumPy."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyframe.codegen.cpu.assembler import F32, F64, I32, I64, Assembler
from pyframe.codegen.cpu.routines import Addr, KernelBody, KernelInvocation, LibraryCall, parts

TYPES = {"f4": F32, "f8": F64, "i4": I32, "i8": I64}
_WORDS = "@to @x outer n inner x_outer x_step x_inner"


def _scan(type: str, name: str) -> KernelBody:
    wide = F64 if type == F32 else type
    size = 8 if type in (F64, I64) else 4

    def write(f: Assembler, w: Any, first: Any, last: Any, part: Any) -> None:
        total = f.local(type=wide)
        n, inner = w["n"], w["inner"]
        with f.count(first, last) as o, f.count(0, inner) as i:
            at = f.local(w["x"] + o * w["x_outer"] + i * w["x_inner"])
            into = f.local(w["to"] + (o * n * inner + i) * size)
            with f.count(0, n) as j:
                here = f.local(f.load(type, at).cast(wide), wide)
                with f.when(j.equals(0)):
                    total.set(here)
                    f.otherwise()
                    if name == "max" and type in (I32, I64):
                        total.set(total.where(total > here, here))
                    else:
                        total.set(total.op(name, here))
                f.store(into, total.cast(type))
                at.add(w["x_step"])
                into.add(inner * size)

    return KernelBody(_WORDS, "outer", write)


BODIES = {
    f"scan_{name}_{kind}": _scan(type, name)
    for (kind, type), name in itertools.product(TYPES.items(), ("add", "mul", "max"))
}


def _routine(
    name: str, inputs: Sequence[np.ndarray], attrs: tuple[Any, ...], out: np.ndarray
) -> LibraryCall | None:
    """Of a scan by this instruction, of any strides."""
    (x,) = inputs
    kind = x.dtype.str[1:]
    if kind not in TYPES:
        return None
    words = Addr(1), Addr(0), *x.shape, *x.strides
    return LibraryCall((KernelInvocation(f"scan_{name}_{kind}", words, parts(len(x), x.size)),))


cumsum = functools.partial(_routine, "add")
cumprod = functools.partial(_routine, "mul")
cummax = functools.partial(_routine, "max")
