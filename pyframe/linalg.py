"""Linear algebra under PyTorch's names: decompositions, solvers, norms.

NumPy computes the decompositions; for tensors on the GPU the host does, and the result goes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyframe.ops.api.public import as_functions as _as_functions
from pyframe.ops.linalg import (
    contraction as _contraction,
    factor as _factor,
    functions as _linalg,
    matmul as _matmul,
    spectral as _spectral,
)
from pyframe.ops.linalg.matrices import LinAlgError as LinAlgError

if TYPE_CHECKING:
    from pyframe._stubs.linalg import *

_NAMES = {
    _factor: """cholesky_ex inv inv_ex ldl_factor ldl_factor_ex ldl_solve lu_factor lu_factor_ex
    solve solve_ex solve_triangular""",
    _spectral: "eig eigh eigvals eigvalsh householder_product lstsq matrix_rank pinv svdvals",
    _linalg: """cond det matrix_exp matrix_norm matrix_power norm slogdet tensorinv tensorsolve
    vector_norm""",
    _contraction: "multi_dot",
    _matmul: "matmul vecdot",
}
_OTHERS = {  # these names are also functions of pyframe, with other arguments or results
    _factor: "cholesky lu lu_solve",
    _linalg: "diagonal vander",
    _matmul: "cross",
    _spectral: "qr svd",
}

for _module, _names in _NAMES.items():
    globals().update(_as_functions({n: getattr(_module, n) for n in _names.split()}))
for _module, _names in _OTHERS.items():
    globals().update(_as_functions({n: getattr(_module, f"linalg_{n}") for n in _names.split()}))
