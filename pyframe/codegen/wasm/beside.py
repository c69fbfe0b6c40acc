"""Products beside each other (graph/products.py) in WebAssembly: one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyframe.codegen.cpu.routines import Addr, Arrays, LibraryCall, Plan
from pyframe.codegen.wasm import gemm, packed


def _each(plan: Plan, weights: int, columns: int) -> Plan:
    """What plans several products by the plan of one with so many weights, whose columns are this
    dim of the first one."""

    def planned(inputs: Arrays, attrs: tuple[Any, ...], out: np.ndarray) -> LibraryCall | None:
        x, *rest = inputs
        n, at, calls, scratch = len(rest) // weights, 0, list[Any](), 0
        for i in range(n):
            own = rest[i::n]
            part = out[..., at : at + own[0].shape[columns]]
            found = plan((x, *own), attrs, part)
            if found is None or found.tables is not None:
                return None
            places = {0: Addr(0), weights + 1: Addr(len(inputs), at * out.itemsize)}
            places |= {1 + k: Addr(1 + i + k * n) for k in range(weights)}
            for call in found.calls:
                moved = [
                    places[a.of]._replace(offset=places[a.of].offset + a.offset)
                    if isinstance(a, Addr) and a.of >= 0
                    else a
                    for a in call.arguments
                ]
                calls.append(call._replace(arguments=tuple(moved)))
            at, scratch = at + part.shape[-1], max(scratch, found.scratch)
        return LibraryCall(tuple(calls), scratch)

    return planned


matmul = _each(gemm.matmul, 1, 2)
packed_linear = _each(packed.product, 3, 0)
