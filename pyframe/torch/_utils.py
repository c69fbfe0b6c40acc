"""torch._utils: what pickles of PyTorch's tensors call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyframe.io import pt
from pyframe.tensor import Tensor


def _rebuilder(name: str) -> Callable[..., Tensor]:
    def rebuild(first: Any, *args: Any) -> Tensor:
        reading = pt._Reading("cpu", lambda key, d, count: first)
        if isinstance(first, Tensor):  # the elements of a storage
            reading.stored[id(first)] = first
            reading.untyped[id(first)] = first, "cpu", {}
        made: Tensor = reading.names["torch._utils", name](first, *args)
        return made

    rebuild.__module__ = "torch._utils"  # for pickles
    rebuild.__name__ = rebuild.__qualname__ = name
    return rebuild


_rebuild_tensor = _rebuilder("_rebuild_tensor")
_rebuild_tensor_v2 = _rebuilder("_rebuild_tensor_v2")
_rebuild_tensor_v3 = _rebuilder("_rebuild_tensor_v3")
_rebuild_parameter = _rebuilder("_rebuild_parameter")
_rebuild_parameter_with_state = _rebuilder("_rebuild_parameter_with_state")
