"""Pages: what they show of a program (`Demo` and its parts), and what writes and serves them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pyframe.web.demo import *

if TYPE_CHECKING:
    from pyframe.core.limits import Limits as Limits
    from pyframe.web import notebook as notebook
    from pyframe.web.exporter import Export as Export, ExportError as ExportError, export as export
    from pyframe.web.onnx_file import OnnxFile as OnnxFile
else:

    def __getattr__(name: str) -> Any:
        """`export` and what belongs to it, and `notebook`, which load when they are first used."""
        if name == "notebook":
            return importlib.import_module("pyframe.web.notebook")
        if name == "OnnxFile":
            from pyframe.core.extras import check_installed

            check_installed("pyframe.web.onnx_file")
            return importlib.import_module("pyframe.web.onnx_file").OnnxFile
        if name in ("export", "Export", "ExportError", "Limits"):
            return getattr(importlib.import_module("pyframe.web.exporter"), name)
        raise AttributeError(f"module 'pyframe.web' has no attribute {name!r}")
