"""All ops by their families, and which of their functions are public: as functions of `pyframe`, as
methods of `Tensor` (pyframe/methods.py attaches them), or both."""

# ruff: noqa: F401  (each module declares its ops and publishes its functions)
from __future__ import annotations

from pyframe.core.dispatch import apply
from pyframe.core.op import REGISTRY, Op
from pyframe.ops.api import inplace, public
from pyframe.ops.api.inplace import inplace_variant, view_variant
from pyframe.ops.api.public import (
    FUNCTIONS,
    METHODS,
    ONLY_METHODS as ONLY_METHODS,
    as_functions as as_functions,
)
from pyframe.ops.index import along, bins, masks, select, sort, subscript
from pyframe.ops.linalg import contraction, factor, fft, functions, matmul, spectral
from pyframe.ops.math import complex, elementwise, pointwise, promotion, special
from pyframe.ops.random import creation, draws, windows
from pyframe.ops.reduce import extremes, norms, reductions, scan
from pyframe.ops.shape import arrange, join, movement, strided
from pyframe.ops.spatial import conv, pool, resample, sliding

__all__ = ["FUNCTIONS", "METHODS", "REGISTRY", "Op", "apply"]

VARIANTS = {f"{name}_": inplace_variant(name, fn) for name, fn in public.INPLACE.items()}
VARIANTS |= {f"{name}_": view_variant(name, fn) for name, fn in public.INPLACE_VIEW_OPS.items()}
FUNCTIONS |= {f"{name}_": VARIANTS[f"{name}_"] for name in public.INPLACE_FUNCTIONS}
