"""All ops by their families, and which of their functions are public: as functions of `pyframe`, as
methods of `Tensor` (pyframe/methods.py attaches them), or both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyframe.core.dispatch import apply
from pyframe.core.op import REGISTRY, Op
from pyframe.ops import (
    activation,
    along,
    arrange,
    bins,
    complex,
    contraction,
    conv as conv,
    creation,
    elementwise as el,
    extremes,
    factor,
    fft as _fft,
    index,
    join,
    ldl as ldl,
    linalg,
    masks,
    matmul,
    movement,
    norms,
    pointwise,
    pool as pool,
    promotion,
    random as _random,
    reduce,
    resample,
    scan,
    sliding,
    sort,
    special,
    spectral,
    strided,
    subscript,
    view_writes as view_writes,
    windows,
)
from pyframe.ops.inplace import inplace_variant, view_variant
from pyframe.ops.public import as_functions as as_functions

__all__ = ["FUNCTIONS", "METHODS", "REGISTRY", "Op", "apply"]

FAMILIES = (
    promotion,
    el,
    pointwise,
    special,
    movement,
    join,
    sliding,
    reduce,
    extremes,
    norms,
    scan,
    sort,
    bins,
    matmul,
    contraction,
    factor,
    spectral,
    linalg,
    along,
    index,
    masks,
    subscript,
    creation,
    complex,
    windows,
    resample,
    activation,
    _random,
    _fft,
    arrange,
    strided,
)

# Functions of pyframe whose first argument is a tensor: each is a method of Tensor too.
METHODS: dict[str, Callable[..., Any]] = {}
ONLY_METHODS: dict[str, Callable[..., Any]] = {}  # methods that are no functions of pyframe
FUNCTIONS: dict[str, Callable[..., Any]] = {}  # functions that are no methods
VARIANTS: dict[str, Callable[..., Any]] = {}  # in-place variants, `name_`: methods
for _family in FAMILIES:
    METHODS.update(_family.PUBLIC.both)
    ONLY_METHODS.update(_family.PUBLIC.methods)
    FUNCTIONS.update(_family.PUBLIC.functions)
    for _name, _fn in _family.PUBLIC.inplace.items():
        VARIANTS[f"{_name}_"] = inplace_variant(_name, _fn)
    for _name, _fn in _family.PUBLIC.rebind.items():
        VARIANTS[f"{_name}_"] = view_variant(_name, _fn)
for _family in FAMILIES:
    FUNCTIONS.update({f"{n}_": VARIANTS[f"{n}_"] for n in _family.PUBLIC.inplace_functions})
