"""Files: weights and checkpoints, data sets in the IDX format, downloads.

`save` writes what PyTorch's `torch.save` does, or the safetensors format under a name that says so;
`load` reads both.
"""

from __future__ import annotations

import os
from typing import IO, Any

from pyframe.io import pt, safetensors
from pyframe.io.download import download as download
from pyframe.io.idx import read_idx as read_idx
from pyframe.io.safetensors import (
    SafetensorError as SafetensorError,
    save_file_async as save_async,
)

__all__ = ["SafetensorError", "download", "load", "read_idx", "save", "save_async"]


def save(obj: Any, f: str | os.PathLike[str] | IO[bytes], pickle_protocol: int = 2) -> None:
    """Write an object with the tensors in it, as `torch.save`; tensors by name as safetensors where
    the path ends in .safetensors. The file holds all of it or what it held before."""
    if isinstance(f, (str, os.PathLike)) and os.fspath(f).endswith(".safetensors"):
        safetensors.save_file(obj, f)
    else:
        pt.save(obj, f, pickle_protocol)


def load(
    f: str | os.PathLike[str] | IO[bytes], map_location: Any = None, pickle_module: Any = None, *,
    weights_only: bool = True, mmap: bool | None = None, encoding: str = "utf-8",
) -> Any:  # fmt: skip
    """Read what `save` or `torch.save` wrote, or a safetensors file: see `pt.load`."""
    if isinstance(f, (str, os.PathLike)):
        named = os.fspath(f).endswith(".safetensors")
        if named or not pt.is_pickled(f):
            return safetensors.load_file(f, "cpu" if map_location is None else map_location)
    return pt.load(f, map_location, weights_only=weights_only, encoding=encoding)
