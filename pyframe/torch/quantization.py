"""torch.ao.quantization: weights of 8 bits, by pf.quantize_."""

from __future__ import annotations

import copy
from typing import Any

import pyframe as pf
from pyframe import nn
from pyframe.torch.names import qint8


def quantize_dynamic(
    model: nn.Module, qconfig_spec: Any = None, dtype: Any = qint8, mapping: Any = None,
    inplace: bool = False,
) -> nn.Module:  # fmt: skip
    """A copy of a model whose Linear layers hold weights of 8 bits and round their inputs to 8 bits
    while they run. `qconfig_spec` is a set of nn.Linear and of layers' names. ValueError for what
    pyframe does not round, as recurrent layers, and for another dtype than torch.qint8."""
    wanted = {nn.Linear} if qconfig_spec is None else set(qconfig_spec)
    modules = dict(model.named_modules())
    below = {n for n, m in modules.items() if isinstance(m, nn.Linear)}
    for one in wanted - {nn.Linear}:
        if not isinstance(one, str) or not any(f"{n}.".startswith(f"{one}.") for n in below):
            raise ValueError(
                f"quantize_dynamic: expected nn.Linear and names of layers, got {one!r}; "
                "pf.quantize_ packs the weights of convolutions and embeddings"
            )
    if dtype is not qint8 or mapping is not None:
        raise ValueError(
            f"quantize_dynamic: dtype is torch.qint8, without a mapping, got {dtype} and "
            f"mapping={mapping}; model.half() has weights of 16 bits"
        )

    def chosen(name: str, layer: nn.Module) -> bool:
        return isinstance(layer, nn.Linear) and (
            nn.Linear in wanted
            or any(f"{name}.".startswith(f"{n}.") for n in wanted if isinstance(n, str))
        )

    model = model if inplace else copy.deepcopy(model)
    return pf.quantize_(model.eval(), only=chosen, activations="int8")
