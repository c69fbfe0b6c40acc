"""Files: weights in the safetensors format, data sets in the IDX format, downloads.

`save` writes a state dict to a file, `load` reads it back.
"""

from __future__ import annotations

from pyframe.io.download import download as download
from pyframe.io.idx import read_idx as read_idx
from pyframe.io.safetensors import (
    SafetensorError as SafetensorError,
    load_file as load,
    save_file as save,
    save_file_async as save_async,
)

__all__ = ["SafetensorError", "download", "load", "read_idx", "save", "save_async"]
