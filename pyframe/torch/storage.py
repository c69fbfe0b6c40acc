"""torch.storage: what pickles of tensors name."""

from __future__ import annotations

import io
from typing import Any

from pyframe.io import pt
from pyframe.tensor.storage import UntypedStorage as UntypedStorage


def _load_from_bytes(b: bytes) -> Any:
    """What `torch.save` wrote: a tensor, or the elements of a storage."""
    return pt.load(io.BytesIO(b))


_load_from_bytes.__module__ = "torch.storage"  # for pickles
