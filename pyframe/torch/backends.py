"""torch.backends: switches of libraries that pyframe does not use; they can be set and read."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

from pyframe.torch.cuda import is_available as _gpu


def _accept(*args: Any, **kwargs: Any) -> None:
    """Accepted, without effect."""


def _library(available: Any = lambda: False, **switches: Any) -> ModuleType:
    found = ModuleType("library")  # programs say import torch.backends.cudnn
    found.__dict__.update(is_available=available, is_built=available, **switches)
    return found


cudnn = _library(
    enabled=False, benchmark=False, deterministic=False, allow_tf32=False, version=lambda: None
)
cuda = _library(
    matmul=SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=False),
    enable_flash_sdp=_accept,
    enable_math_sdp=_accept,
    enable_mem_efficient_sdp=_accept,
)
mps = _library(lambda: sys.platform == "darwin" and _gpu())
mkl, mkldnn, openmp, opt_einsum = _library(), _library(enabled=False), _library(), _library()
