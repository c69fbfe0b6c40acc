"""The former place of `pyframe.func.functional_call`, as torch.nn.utils.stateless."""

from __future__ import annotations

import warnings
from typing import Any

from pyframe import func

__all__ = ["functional_call"]


def functional_call(
    module: Any, parameters_and_buffers: dict[str, Any], args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """`pyframe.func.functional_call`; warns."""
    warnings.warn(
        "nn.utils.stateless.functional_call is deprecated; use pyframe.func.functional_call, which "
        "takes the same arguments",
        FutureWarning,
        stacklevel=2,
    )
    return func.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
