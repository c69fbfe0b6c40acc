"""`pyframe.data` where PyTorch has it, with the modules in it."""

from __future__ import annotations

import sys

from pyframe.data import *  # noqa: F403
from pyframe.data import __all__ as __all__, collate, dataloader, dataset, distributed, sampler

for _module in (collate, dataloader, dataset, distributed, sampler):
    sys.modules[f"{__name__}.{_module.__name__.rpartition('.')[2]}"] = _module
