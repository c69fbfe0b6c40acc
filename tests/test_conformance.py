"""PyTorch's own operator database against pyframe: results, types, gradients, the method, in-place
and operator forms of each op, and what it must refuse.

Two samples of each op; more with PYFRAME_CONFORMANCE=20 (0: all of them), and
PYFRAME_CONFORMANCE_DEVICE=gpu takes them to the GPU. What is left out, and why, is in
`conformance/operators.py`.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="the database is PyTorch's")

from conformance.bridge import Bridge  # noqa: E402
from conformance.operators import Operator, database  # noqa: E402

SAMPLES = int(os.environ.get("PYFRAME_CONFORMANCE", "2"))
DEVICE = os.environ.get("PYFRAME_CONFORMANCE_DEVICE", "cpu")
CASES = [
    (dtype, name)
    for dtype in ("float32", "int64", "bool")
    for name in database(getattr(torch, dtype))
]


@pytest.mark.filterwarnings("ignore")  # PyTorch's, and what both say of such samples
@pytest.mark.parametrize(("dtype", "name"), CASES, ids=[f"{n}-{d}" for d, n in CASES])
def test_operator(dtype: str, name: str) -> None:
    kind = getattr(torch, dtype)
    op = Operator(Bridge("pyframe", DEVICE), name, database(kind)[name], kind)
    op.run(SAMPLES, 1)
    assert op.problems == []
