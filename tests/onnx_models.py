"""Small ONNX models, written as text, and what onnxruntime gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx.defs", reason="the package onnx is not installed")
from onnx import TensorProto, helper, numpy_helper, parser


def nodes(text: str) -> list[Any]:
    """Nodes such as `[name] y = Cast<to=1>(x)`, one after the other with `;` between them. What
    they read may have dots in its names, which the parser takes for others."""
    found = [parser.parse_node(part.replace(".", "__")) for part in text.split(";")]
    for node in found:
        node.input[:] = [name.replace("__", ".") for name in node.input]
    return found


def made(
    text: str, constants: dict[str, Any], shape: Any = ("n", 4), kind: int = TensorProto.FLOAT,
    opset: int = 18,
) -> Any:  # fmt: skip
    """A model of nodes that compute y of x."""
    given = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    x = helper.make_tensor_value_info("x", kind, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes(text), "net", [x], [y], given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def by_runtime(path: Path, feeds: dict[str, Any]) -> list[np.ndarray]:
    """What onnxruntime gives."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))
