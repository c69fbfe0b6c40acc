"""Damaged and hostile ONNX files: an error that says why, in little time and memory."""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyframe as pf

pytest.importorskip("onnx.defs", reason="the package onnx is not installed")
import onnx
from onnx import TensorProto, helper, numpy_helper

CASES = int(os.environ.get("PYFRAME_ONNX_FUZZ", "300"))
# What a damaged file may raise: it is no model, it asks for an operator that is not there, or it is
# a model whose nodes do not fit each other or its inputs.
REFUSED = (
    ValueError, TypeError, NotImplementedError, RuntimeError, IndexError, MemoryError,
    OverflowError, ZeroDivisionError, KeyError, AttributeError, AssertionError,
)  # fmt: skip


def tensor(name: str, shape: Any = ("n", 4), kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: list[Any], initializers: Any = (), outputs: Any = ("y",), **more: Any) -> Any:
    graph = helper.make_graph(
        nodes, "g", [tensor("x")], [tensor(n) for n in outputs], list(initializers)
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], **more)


def array(name: str, values: Any) -> Any:
    return numpy_helper.from_array(np.asarray(values), name)


def good() -> Any:
    """A model with weights, shapes that are computed, a branch, a loop and a function."""
    then = helper.make_graph([helper.make_node("Neg", ["h"], ["a"])], "then", [], [tensor("a")])
    other = helper.make_graph([helper.make_node("Relu", ["h"], ["b"])], "other", [], [tensor("b")])
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["go"]),
            helper.make_node("Add", ["v", "h"], ["w"]),
        ],
        "body",
        [
            tensor("i", (), TensorProto.INT64), tensor("c", (), TensorProto.BOOL), tensor("v"),
        ],
        [tensor("go", (), TensorProto.BOOL), tensor("w")],
    )  # fmt: skip
    function = helper.make_function(
        "own", "Twice", ["p"], ["q"], [helper.make_node("Add", ["p", "p"], ["q"])],
        [helper.make_opsetid("", 18)],
    )  # fmt: skip
    nodes = [
        helper.make_node("Gemm", ["x", "weight", "bias"], ["h"], "dense"),
        helper.make_node("Shape", ["h"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["k"]),
        helper.make_node("Concat", ["minus", "k"], ["shape"], axis=0),
        helper.make_node("Reshape", ["h", "shape"], ["r"]),
        helper.make_node("If", ["yes"], ["t"], then_branch=then, else_branch=other),
        helper.make_node("Loop", ["three", "yes", "t"], ["u"], body=body),
        helper.make_node("Twice", ["u"], ["d"], domain="own"),
        helper.make_node("LayerNormalization", ["d", "bias"], ["n"]),
        helper.make_node("Add", ["n", "r"], ["y"]),
    ]
    made = model(
        nodes,
        [
            array("weight", np.eye(4, dtype=np.float32)), array("bias", np.ones(4, np.float32)),
            array("one", [1]), array("minus", [-1]), array("yes", True), array("three", 3),
        ],
        functions=[function],
    )  # fmt: skip
    made.opset_import.append(helper.make_opsetid("own", 1))
    return made


def calling(calls: list[tuple[str, list[str]]]) -> Any:
    """A model whose functions call others."""
    sets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    functions = []
    for name, called in calls:
        nodes = [
            helper.make_node(c, [f"v{i}"], [f"v{i + 1}"], domain="own")
            for i, c in enumerate(called)
        ]
        end = f"v{len(called)}"
        nodes.append(helper.make_node("Neg", [end], ["out"]))
        functions.append(helper.make_function("own", name, ["v0"], ["out"], nodes, sets))
    made = model([helper.make_node(calls[0][0], ["x"], ["y"], domain="own")], functions=functions)
    made.opset_import.append(sets[1])
    return made


def raw(shape: list[int], data: bytes, kind: int = TensorProto.FLOAT) -> Any:
    proto = TensorProto(name="w", data_type=kind, raw_data=data)
    proto.dims.extend(shape)
    return model([helper.make_node("Add", ["x", "w"], ["y"])], [proto])


def outside(where: str, **said: str) -> Any:
    proto = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2])
    proto.data_location = TensorProto.EXTERNAL
    for key, value in {"location": where, **said}.items():
        proto.external_data.add(key=key, value=value)
    return model([helper.make_node("Add", ["x", "w"], ["y"])], [proto])


node = helper.make_node
BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "unknown operator": (
        lambda: model([node("Magic", ["x"], ["y"], "spell")]), NotImplementedError,
        "node 'spell' (Magic): no operator Magic of ai.onnx 18 here",
    ),
    "unknown domain": (
        lambda: model([node("Magic", ["x"], ["y"], domain="far")]), ValueError,
        "a node Magic: the model imports no operator set 'far'",
    ),
    "unknown attribute": (
        lambda: model([node("Relu", ["x"], ["y"], "r", slope=1.0)]), NotImplementedError,
        "node 'r' (Relu): its attribute 'slope' is not known here",
    ),
    "opset of the future": (
        lambda: helper.make_model(good().graph, opset_imports=[helper.make_opsetid("", 999)]),
        ValueError, "operator set ai.onnx 999: the onnx package here knows it up to",
    ),
    "cycle": (
        lambda: model([node("Neg", ["z"], ["y"], "first"), node("Neg", ["y"], ["z"])]), ValueError,
        "node 'first' (Neg) reads 'z', which is no input and which no earlier node computes",
    ),
    "itself": (lambda: model([node("Add", ["x", "y"], ["y"])]), ValueError, "reads 'y'"),
    "twice": (
        lambda: model([node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["y"])]), ValueError,
        "'y' is computed twice",
    ),
    "no output": (lambda: model([node("Neg", ["x"], ["z"])]), ValueError, "outputs reads 'y'"),
    "too many inputs": (
        lambda: model([node("Relu", ["x"] * 3, ["y"])]), ValueError, "expected 1 input, got 3",
    ),
    "functions in a circle": (
        lambda: calling([("A", ["B"]), ("B", ["A"])]), ValueError, "more than 64 deep",
    ),
    "functions that double": (
        lambda: calling([(f"F{i}", [f"F{i + 1}"] * 2) for i in range(50)] + [("F50", [])]),
        ValueError, "more than 1000000 nodes",
    ),
    "absurd shape": (lambda: raw([1 << 40, 1 << 20], b"1234"), ValueError, "can't be read"),
    "shape beyond ints": (lambda: raw([1 << 62] * 4, b"1234"), ValueError, "can't be read"),
    "negative size": (lambda: raw([-1], b"1234"), ValueError, "a negative size"),
    "too few bytes": (lambda: raw([3], b"1234"), ValueError, "can't be read"),
    "unknown dtype": (lambda: raw([1], b"1234", 99), ValueError, "can't be read"),
    "gigantic constant": (
        lambda: model([node("ConstantOfShape", ["s"], ["y"])], [array("s", [1 << 40, 1 << 10])]),
        RuntimeError, "can't allocate memory",
    ),
    "absolute path": (lambda: outside("/etc/passwd"), ValueError, "not a file in the model's"),
    "parent": (lambda: outside("../secret"), ValueError, "not a file in the model's folder"),
    "hidden parent": (lambda: outside("a/../../secret"), ValueError, "not a file in the model's"),
    "link": (lambda: outside("link"), ValueError, "not a file in the model's folder"),
    "linked folder": (lambda: outside("folder/secret"), ValueError, "not a file in the model's"),
    "short file": (lambda: outside("data", offset="8"), ValueError, "does not have its 8 bytes"),
    "negative offset": (lambda: outside("data", offset="-4"), ValueError, "does not have its"),
    "other length": (lambda: outside("data", length="4"), ValueError, "does not have its 8 bytes"),
    "offset of words": (lambda: outside("data", offset="end"), ValueError, "can't be read"),
    "no such file": (lambda: outside("none"), ValueError, "can't be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_refused(name: str, tmp_path: Path) -> None:
    make, kind, words = BAD[name]
    (tmp_path / "secret").write_bytes(b"12345678")
    inner = tmp_path / "models"
    inner.mkdir()
    (inner / "data").write_bytes(b"12345678")
    (inner / "link").symlink_to(tmp_path / "secret")
    (inner / "folder").symlink_to(tmp_path)
    path = inner / "model.onnx"
    path.write_bytes(make().SerializeToString())
    with pytest.raises(kind, match=re.escape(words)):
        pf.onnx.load(path)(pf.ones(2, 4))


def test_data_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(np.arange(3, dtype="<f4").tobytes())
    (tmp_path / "model.onnx").write_bytes(outside("data", offset="4").SerializeToString())
    net = pf.onnx.load(tmp_path / "model.onnx")
    assert net.w.tolist() == [1, 2]
    with pytest.raises(ValueError, match="load the model by its path"):
        pf.onnx.load(outside("data"))


def test_ten_thousand_graphs_in_each_other() -> None:
    """What protobuf itself refuses; written by hand, as it would not write it either."""

    def field(number: int, data: bytes) -> bytes:
        size, n = b"", len(data)
        while n >= 128:
            size, n = size + bytes([n & 127 | 128]), n >> 7
        return bytes([number << 3 | 2]) + size + bytes([n]) + data

    graph = b""
    for _ in range(10_000):  # graph.node.attribute.g
        graph = field(1, field(5, field(6, graph)))
    with pytest.raises(ValueError, match="damaged, or nested too deep"):
        pf.onnx.load(b"\x08\x08" + field(7, graph))


@pytest.mark.parametrize("data", [b"", b"\x00", b"PK\x03\x04", b"\x08\x08", b"not a model at all"])
def test_no_model(data: bytes) -> None:
    with pytest.raises(ValueError, match="no ONNX model"):
        pf.onnx.load(data)


def damaged(data: bytes, draw: random.Random) -> bytes:
    """A file with some bytes flipped, cut, doubled or moved."""
    made = bytearray(data)
    for _ in range(draw.choice([1, 1, 1, 2, 8])):
        i, n = draw.randrange(len(made) or 1), draw.randrange(1, 9)
        if not made:
            break
        what = draw.randrange(6)
        if what == 0:
            made[i] ^= 1 << draw.randrange(8)
        elif what == 1:
            made[i] = draw.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif what == 2:
            del made[i : i + n]
        elif what == 3:
            made[i:i] = made[i : i + n]
        elif what == 4:
            del made[max(i, 1) :]
        else:
            made[i:i] = draw.randbytes(n)
    return bytes(made)


def changed(draw: random.Random) -> Any:
    """A model whose fields were changed, so that it is read."""
    made = good()
    graph = made.graph
    what, some = draw.randrange(8), draw.choice(graph.node)
    names = [n for other in graph.node for n in (*other.input, *other.output)]
    if what == 0 and some.input:
        some.input[draw.randrange(len(some.input))] = draw.choice(names)
    elif what == 1:
        some.op_type = draw.choice(
            ["Conv", "LSTM", "Scan", "Split", "Slice", "Resize", "Tile", "Expand", "Pad", "TopK",
             "Range", "OneHot", "Squeeze", "DFT", "MaxPool", "QLinearConv", "SequenceAt"]
        )  # fmt: skip
    elif what == 2:
        proto = draw.choice(graph.initializer)
        proto.dims[:] = [draw.choice([0, 1, 2, 1 << 33, 1 << 62, -1])] * draw.randrange(4)
    elif what == 3:
        proto = draw.choice(graph.initializer)
        proto.data_type = draw.randrange(30)
    elif what == 4:
        proto = draw.choice(graph.initializer[2:])
        value = draw.choice([0, -1, 7, 1 << 31, 1 << 40, (1 << 63) - 1])
        proto.raw_data = np.int64(value).tobytes() if proto.data_type == 7 else proto.raw_data
    elif what == 5:
        made.opset_import[0].version = draw.randrange(-1, 40)
    elif what == 6:
        del graph.node[draw.randrange(len(graph.node))]
    else:
        some.attribute.append(helper.make_attribute(draw.choice(["axis", "axes", "to"]), 1 << 40))
    return made


def test_thousands_of_damaged_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is refused or is a model; PYFRAME_ONNX_FUZZ says how many."""
    monkeypatch.setattr("pyframe.onnx.values.ROUNDS", 100)
    draw, data = random.Random(7), good().SerializeToString()
    held = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(CASES):
        source: Any = damaged(data, draw) if i % 2 else changed(draw)
        with contextlib.suppress(*REFUSED), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of NumPy's casts
            pf.onnx.load(source)(pf.ones(2, 4))
            held += 1
    assert 0 < held < CASES
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 1 << 20, f"{grown >> 10} MB more"


def test_the_model_that_is_damaged() -> None:
    net = pf.onnx.load(good())
    onnx.checker.check_model(good())
    assert net(pf.ones(2, 4)).shape == (2, 4)
