"""All ops by their families, and which of their functions are public: as functions of `pyframe`, as
methods of `Tensor` (pyframe/methods.py attaches them), or both."""

# isort: skip_file
from __future__ import annotations

from pyframe.core.dispatch import apply
from pyframe.core.op import REGISTRY, Op
from pyframe.ops import (  # noqa: F401 (each declares its ops and publishes its functions)
    activation, along, arrange, bins, complex, contraction, conv, creation, elementwise, extremes,
    factor, fft, index, join, ldl, linalg, masks, matmul, movement, norms, pointwise, pool,
    promotion, public, random, reduce, resample, scan, sliding, sort, special, spectral, strided,
    subscript, view_writes, windows,
)  # fmt: skip
from pyframe.ops.inplace import inplace_variant, view_variant
from pyframe.ops.public import FUNCTIONS, METHODS, ONLY_METHODS as ONLY_METHODS
from pyframe.ops.public import as_functions as as_functions

__all__ = ["FUNCTIONS", "METHODS", "REGISTRY", "Op", "apply"]

VARIANTS = {f"{name}_": inplace_variant(name, fn) for name, fn in public.INPLACE.items()}
VARIANTS |= {f"{name}_": view_variant(name, fn) for name, fn in public.REBIND.items()}
FUNCTIONS |= {f"{name}_": VARIANTS[f"{name}_"] for name in public.INPLACE_FUNCTIONS}
