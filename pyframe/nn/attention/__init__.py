"""Which kernel computes attention, as torch.nn.attention: here there is one."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """PyTorch's kernels of scaled_dot_product_attention, by name."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[dict[str, Any]]:
    """Accepted, and without effect: all kernels compute the same. AssertionError for others than
    an SDPBackend or a list of them."""
    given = backends if isinstance(backends, list) else [backends]
    if not all(isinstance(b, SDPBackend) for b in given):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{backends!r}"
        )
    yield {}
