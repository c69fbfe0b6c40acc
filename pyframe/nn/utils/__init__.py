"""What training needs beside the layers, as torch.nn.utils."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyframe.nn.utils import parametrize as parametrize, rnn as rnn
from pyframe.nn.utils.clip_grad import *
from pyframe.nn.utils.convert_parameters import *
from pyframe.nn.utils.fusion import *
from pyframe.nn.utils.init import skip_init as skip_init
from pyframe.nn.utils.memory_format import *
from pyframe.nn.utils.spectral_norm import (
    remove_spectral_norm as remove_spectral_norm,
    spectral_norm as spectral_norm,
)
from pyframe.nn.utils.weight_norm import (
    remove_weight_norm as remove_weight_norm,
    weight_norm as weight_norm,
)

if TYPE_CHECKING:
    from pyframe.nn.utils import (
        parametrizations as parametrizations,
        prune as prune,
        stateless as stateless,
    )
else:

    def __getattr__(name: str) -> Any:
        """Load what few networks need when it is first used."""
        if name in ("parametrizations", "prune", "stateless"):
            import importlib

            return importlib.import_module(f"pyframe.nn.utils.{name}")
        raise AttributeError(f"module 'pyframe.nn.utils' has no attribute {name!r}")
