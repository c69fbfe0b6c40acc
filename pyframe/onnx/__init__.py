"""ONNX, the exchange format of models: `pip install 'pyframe-webgpu[onnx]'`.

    net = pf.onnx.load("model.onnx")
    y = net(x)

`load` gives a Module that runs and trains as any other. Each operator is a row of the table in
`operators/`, written in public ops; operators that ONNX itself defines by a function, and functions
of the model's own, need none.
"""

from __future__ import annotations

from typing import Any

from pyframe.onnx.module import OnnxModule

__all__ = ["OnnxModule", "load"]


def load(source: Any) -> OnnxModule:
    """The model of an ONNX file, of its bytes, or of an `onnx.ModelProto`.

    ValueError for what is no valid model, NotImplementedError for an operator that is not known.
    """
    return OnnxModule(source)
