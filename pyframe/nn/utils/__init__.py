"""What training needs beside the layers, as torch.nn.utils."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyframe.core import also_named as _also_named
from pyframe.nn.utils import rnn as rnn
from pyframe.nn.utils.parameters import *
from pyframe.nn.utils.weight_hooks import (
    remove_spectral_norm as remove_spectral_norm,
    remove_weight_norm as remove_weight_norm,
    spectral_norm as spectral_norm,
    weight_norm as weight_norm,
)

if TYPE_CHECKING:
    from pyframe.nn.utils import (
        parametrizations as parametrizations,
        parametrize as parametrize,
        prune as prune,
        stateless as stateless,
    )
else:
    _also_named(__name__, "parameters", "clip_grad convert_parameters fusion init memory_format")
    _also_named(__name__, "weight_hooks", "spectral_norm weight_norm")

    def __getattr__(name: str) -> Any:
        """Load what few networks need when it is first used."""
        if name in ("parametrizations", "parametrize", "prune", "stateless"):
            import importlib

            return importlib.import_module(f"pyframe.nn.utils.{name}")
        raise AttributeError(f"module 'pyframe.nn.utils' has no attribute {name!r}")
