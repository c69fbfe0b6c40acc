"""`pyframe.data` where PyTorch has it, with the modules in it."""

from __future__ import annotations

import sys

from pyframe.data import *  # noqa: F403
from pyframe.data import (
    __all__ as __all__,
    collate as collate,
    dataloader as dataloader,
    dataset as dataset,
    sampler as sampler,
)

for _name in ("collate", "dataloader", "dataset", "sampler"):
    sys.modules[f"{__name__}.{_name}"] = globals()[_name]
distributed = sys.modules[f"{__name__}.distributed"] = sampler  # PyTorch's name
