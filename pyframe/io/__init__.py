"""Files: weights and checkpoints, data sets in the IDX format, downloads.

`save` writes what PyTorch's `torch.save` does, or under a name that says so safetensors or NumPy's
.npz; `load` reads all of them.
"""

from __future__ import annotations

import importlib
import os
from typing import IO, TYPE_CHECKING, Any

from pyframe.io import safetensors
from pyframe.io.download import download as download
from pyframe.io.files import beginning, head
from pyframe.io.idx import read_idx as read_idx
from pyframe.io.safetensors import (
    SafetensorError as SafetensorError,
    describe as describe,
    safe_open as safe_open,
    save_file_async as save_async,
)

_LATER = ("npz", "pt")  # modules that few programs need, and pages fetch when one does

__all__ = [
    "SafetensorError", "describe", "download", "load", "read_idx", "safe_open", "save",
    "save_async",
]  # fmt: skip


def save(
    obj: Any, f: str | os.PathLike[str] | IO[bytes], pickle_module: Any = None,
    pickle_protocol: int = 2, *, max_shard_size: int | str | None = None,
) -> None:  # fmt: skip
    """Write an object with the tensors in it, as `torch.save`; tensors by name as safetensors or
    NumPy's arrays where the path ends in .safetensors or .npz. The file holds all of it or what it
    held before. ValueError for names of other programs' files, such as .h5 and .onnx.

    `max_shard_size` (bytes, or "2GB") makes several .safetensors files and their index of what is
    larger: see `safetensors.save_file`.

    Args:
        obj: Tensors, and containers, numbers and texts around them.
        f: A path, or a file that is open.
        pickle_module: Accepted, without effect. TypeError for what is no module.
        pickle_protocol: That of a .pt file.

    >>> pf.save({"x": pf.tensor([1, 2])}, "x.safetensors")
    >>> pf.load("x.safetensors")
    {'x': tensor([1, 2])}
    """
    if pickle_module is not None and not hasattr(pickle_module, "Pickler"):
        raise TypeError(
            f"save: expected a module such as pickle as pickle_module, got {pickle_module!r}; a "
            "protocol is given as pickle_protocol="
        )
    name = os.fspath(f) if isinstance(f, (str, os.PathLike)) else ""
    if name.endswith(".safetensors"):
        safetensors.save_file(obj, name, max_shard_size=max_shard_size)
        return
    if max_shard_size is not None:
        raise ValueError(
            f"save: max_shard_size makes a set of .safetensors files, got {name or f!r}: give a "
            "path that ends in .safetensors"
        )
    if name.endswith(".npz"):
        from pyframe.io import npz

        npz.save(obj, name)
    else:
        from pyframe.io import pt

        pt.save(obj, f, pickle_protocol)


def load(
    f: str | os.PathLike[str] | IO[bytes], map_location: Any = None, pickle_module: Any = None, *,
    weights_only: bool | None = None, mmap: bool | None = None, encoding: str = "utf-8",
) -> Any:  # fmt: skip
    """Read what `save` or `torch.save` wrote: a .pt, .safetensors or .npz file, whatever it is
    called, and a set of safetensors files by its index or its folder. See `pt.load`; with `mmap`
    tensors are the pages of a file on the disk.

    Args:
        f: A path, or a file that is open.
        map_location: The device of the tensors.
        pickle_module: Allowed, and not needed.
        weights_only: False reads whatever Python can pickle, and runs what it says; by default
            tensors and plain containers alone are read.
        encoding: That of texts which Python 2 wrote.

    >>> pf.save({"x": pf.tensor([1, 2])}, "x.pt")
    >>> pf.load("x.pt")
    {'x': tensor([1, 2])}
    """
    if isinstance(f, (str, os.PathLike)):
        device = "cpu" if map_location is None else map_location
        if (start := head(f)) and start[:2] != b"PK" and start[8:9] != b"{":
            from pyframe.io.kinds import not_ours

            if kind := not_ours(os.fspath(f), start):
                raise ValueError(
                    f"load: {os.fspath(f)} is {kind}. pf.load reads PyTorch's .pt, .safetensors "
                    "and .npz"
                )
        holds = beginning(f)
        if holds == "npz":
            from pyframe.io import npz

            return npz.load(f, device)
        if not holds:
            return safetensors.load_file(f, device, mmap=bool(mmap))
    from pyframe.io import pt

    return pt.load(f, map_location, weights_only=weights_only, mmap=mmap, encoding=encoding)


if TYPE_CHECKING:
    from pyframe.io import npz as npz, pt as pt
else:

    def __getattr__(name: str) -> Any:
        if name in _LATER:
            return importlib.import_module(f"pyframe.io.{name}")
        raise AttributeError(f"module 'pyframe.io' has no attribute {name!r}")
