"""ONNX, the exchange format of models: `pip install "pyframe-webgpu[onnx]"`.

    net = pf.onnx.load("model.onnx")
    y = net(x)
    pf.onnx.export(net, (x,), "copy.onnx")

`load` gives a Module that runs and trains as any other. Each operator is a row of the table in
`operators/`, written in public ops; operators that ONNX itself defines by a function, and functions
of the model's own, need none. `export` writes the graph of a function or module, whose calls and
ops are rows of `export_table`.
"""

from __future__ import annotations

from typing import Any

from pyframe.onnx.export import (
    OnnxExporterError as OnnxExporterError,
    ONNXProgram as ONNXProgram,
    TrainingMode as TrainingMode,
    UnsupportedOperatorError as UnsupportedOperatorError,
    export as export,
    is_in_onnx_export as is_in_onnx_export,
)
from pyframe.onnx.module import OnnxModule

__all__ = ["OnnxModule", "export", "load"]


def load(source: Any) -> OnnxModule:
    """The model of an ONNX file, of its bytes, or of an `onnx.ModelProto`.

    ValueError for what is no valid model, NotImplementedError for an operator that is not known.

    Args:
        source: A path, bytes, or a ModelProto.
    """
    return OnnxModule(source)
