"""torch.cpu: the CPU as if it were one device of several."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any


def is_available() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """'cpu'."""
    return "cpu"


def set_device(device: Any) -> None:
    """Accepted: there is one."""


def synchronize(device: Any = None) -> None:
    """Accepted: what a tensor's values need is waited for when they are read."""


def stream(stream: Any) -> Any:
    """Accepted: there is one."""
    return nullcontext()
