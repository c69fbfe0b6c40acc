"""What `torch` has at its top level beside tensors: versions, settings, and what is accepted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyframe as pf

__version__ = "2.13.0+pyframe"  # of the API
version = SimpleNamespace(__version__=__version__, cuda=None, hip=None, git_version=pf.__version__)

_settings: dict[str, Any] = {"precision": "highest", "deterministic": False, "threads": 1}


def set_default_tensor_type(t: Any) -> None:
    """The dtype of new tensors, by a type such as torch.DoubleTensor; with torch.cuda.FloatTensor
    they are on the GPU."""
    made = pf.ones(0).type(t)
    pf.set_default_dtype(made.dtype)
    if made.is_cuda:
        pf.set_default_device(made.device)


def get_float32_matmul_precision() -> str:
    """What was set; products are float32 whatever it is."""
    return str(_settings["precision"])


def set_float32_matmul_precision(precision: str) -> None:
    """Accepted, without effect. ValueError unless 'highest', 'high' or 'medium'."""
    if precision not in ("highest", "high", "medium"):
        raise ValueError(
            f"set_float32_matmul_precision: {precision!r} is not one of 'highest', 'high', 'medium'"
        )
    _settings["precision"] = precision


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accepted: what pyframe computes on one device is always the same."""
    _settings["deterministic"] = mode


def are_deterministic_algorithms_enabled() -> bool:
    """What was set."""
    return bool(_settings["deterministic"])


def get_num_threads() -> int:
    """What was set; pyframe takes all cores."""
    return int(_settings["threads"])


def set_num_threads(threads: int) -> None:
    """Accepted, without effect; OMP_NUM_THREADS in the environment bounds NumPy's."""
    _settings["threads"] = threads


def set_flush_denormal(mode: bool) -> bool:
    """False: it can't be set."""
    return False


def is_autocast_cpu_enabled() -> bool:
    """pf.is_autocast_enabled of the CPU."""
    return bool(pf.is_autocast_enabled("cpu"))


def get_autocast_gpu_dtype() -> Any:
    """pf.get_autocast_dtype of the GPU."""
    return pf.get_autocast_dtype("gpu")


def get_autocast_cpu_dtype() -> Any:
    """pf.get_autocast_dtype of the CPU."""
    return pf.get_autocast_dtype("cpu")
