"""torch._tensor: what pickles of tensors with attributes, or of a class of one's own, call."""

from __future__ import annotations

from typing import Any

from pyframe.tensor import Tensor as Tensor
from pyframe.tensor.copying import leaf_alias


def _rebuild_from_type_v2(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    made = func(*args)
    if type(made) is not new_type:
        made = leaf_alias(new_type, made, made.requires_grad)
    if hasattr(new_type, "__setstate__"):
        made.__setstate__(state)
    else:
        for part in state if isinstance(state, tuple) else (state,):
            made.__dict__.update(part or {})
    return made


_rebuild_from_type_v2.__module__ = "torch._tensor"  # for pickles
