"""Damaged and hostile ONNX files: an error that says why, in little time and memory."""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyframe as pf

pytest.importorskip("onnx.defs", reason="the package onnx is not installed")
import onnx.parser
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


def model(
    nodes: list[Any], initializers: Any = (), outputs: Any = ("y",), sparse: Any = (),
    opset: int = 18, **more: Any,
) -> Any:  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [tensor("x")], [tensor(n) for n in outputs], list(initializers),
        sparse_initializer=list(sparse),
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **more)


def array(name: str, values: Any) -> Any:
    return numpy_helper.from_array(np.asarray(values), name)


# with weights, shapes that are computed, a branch, a loop and a function
GOOD = """
<ir_version: 10, opset_import: ["": 18, "own": 1]>
g (float[n, 4] x) => (float[n, 4] y)
<float[4, 4] weight = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1},
 float[4] bias = {1, 1, 1, 1}, int64[1] one = {1}, int64[1] minus = {-1}, bool yes = {1},
 int64 three = {3}> {
    [dense] h = Gemm(x, weight, bias)
    s = Shape(h)
    k = Gather(s, one)
    shape = Concat<axis = 0>(minus, k)
    r = Reshape(h, shape)
    t = If(yes)<then_branch = then () => (float[n, 4] a) { a = Neg(h) },
                else_branch = other () => (float[n, 4] b) { b = Relu(h) }>
    u = Loop(three, yes, t)<body = body (int64 i, bool c, float[n, 4] v)
        => (bool go, float[n, 4] w) { go = Identity(c) w = Add(v, h) }>
    d = own.Twice(u)
    n = LayerNormalization(d, bias)
    y = Add(n, r)
}
<domain: "own", opset_import: ["": 18]>
Twice (p) => (q) { q = Add(p, p) }
"""


def good() -> Any:
    """A model whose constants are bytes, as files have them."""
    made = onnx.parser.parse_model(GOOD)
    for proto in made.graph.initializer:
        proto.CopyFrom(array(proto.name, numpy_helper.to_array(proto)))
    return made


def calling(calls: list[tuple[str, list[str]]]) -> Any:
    """A model whose functions call others."""
    sets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    functions = []
    for name, called in calls:
        edges = [(c, [f"v{i}"], [f"v{i + 1}"]) for i, c in enumerate(called)]
        nodes = [helper.make_node(*edge, domain="own") for edge in edges]
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


def text(parts: list[str]) -> Any:
    return TensorProto(
        name="s", data_type=TensorProto.STRING, dims=[len(parts)],
        string_data=[p.encode() for p in parts],
    )  # fmt: skip


def sparse(size: int, place: int) -> Any:
    """A vector of which one number is given."""
    return helper.make_sparse_tensor(array("s", [1.0]), array("", [place]), [size])


def many_ways(depth: int) -> Any:
    """Functions that hand on what they are called with: each calls the next with 0 and with 1."""
    names, sets = [f"a{i}" for i in range(depth)], [("", 18), ("own", 1)]
    opsets = [helper.make_opsetid(*s) for s in sets]
    functions = []
    for i in range(depth):
        nodes = []
        for first in (0, 1):
            called = helper.make_node(f"F{i + 1}", ["p"], [f"q{first}"], domain="own", a0=first)
            for name, before in zip(names[1:], names, strict=False):
                called.attribute.add(name=name, ref_attr_name=before, type=2)
            nodes.append(called)
        functions.append(helper.make_function("own", f"F{i}", ["p"], ["q1"], nodes, opsets, names))
    last = [helper.make_node("Neg", ["p"], ["q1"])]
    functions.append(helper.make_function("own", f"F{depth}", ["p"], ["q1"], last, opsets, names))
    start = helper.make_node("F0", ["x"], ["y"], domain="own", **dict.fromkeys(names, 0))
    made = model([start], functions=functions)
    made.opset_import.append(opsets[1])
    return made


def looped(kept: int) -> Any:
    """A loop that keeps so many numbers of each of its rounds."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Identity", ["big"], ["o"])],
        "body", [tensor("i", (), TensorProto.INT64), tensor("c", (), TensorProto.BOOL)],
        [tensor("d", (), TensorProto.BOOL), tensor("o")],
    )  # fmt: skip
    nodes = [
        helper.make_node("Expand", ["one", "size"], ["big"]),
        helper.make_node("Loop", ["n", "", *[]], ["y"], body=body),
    ]
    given = [array("one", np.float32([1])), array("size", [kept]), array("n", 1 << 40)]
    return model(nodes, given)


def zeros(nodes: list[Any], *shape: int, **given: Any) -> Any:
    """A model of what is `z`: zeros of this shape, made by a node."""
    made = helper.make_node("ConstantOfShape", ["shape"], ["z"])
    return model([made, *nodes], [array("shape", shape), *(array(n, v) for n, v in given.items())])


TREE = {
    "nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3,
    "nodes_values": [0.0] * 3, "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"],
    "nodes_truenodeids": [1, 1, 0], "nodes_falsenodeids": [2, 2, 0], "target_treeids": [0],
    "target_nodeids": [2], "target_ids": [0], "target_weights": [1.0],
}  # fmt: skip


def tree(**changed: Any) -> Any:
    made = model([node("TreeEnsembleRegressor", ["x"], ["y"], "wood", domain="ai.onnx.ml",
                       **{**TREE, "n_targets": 1, **changed})])  # fmt: skip
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    return made


node = helper.make_node
RAGGED = ["a" * 40_000, *[""] * 40_000]  # of 78 KB, of which NumPy makes 6 GB
# A model, what is said of it, and the type of error, which else is ValueError.
BAD: dict[str, tuple[Any, ...]] = {
    "unknown operator": (lambda: model([node("Magic", ["x"], ["y"], "spell")]),
        "node 'spell' (Magic): no operator Magic of ai.onnx 18 here", NotImplementedError),
    "unknown domain": (lambda: model([node("Magic", ["x"], ["y"], domain="far")]),
        "a node Magic: the model imports no operator set 'far'"),
    "unknown attribute": (lambda: model([node("Relu", ["x"], ["y"], "r", slope=1.0)]),
        "node 'r' (Relu): its attribute 'slope' is not known here", NotImplementedError),
    "opset of the future": (
        lambda: helper.make_model(good().graph, opset_imports=[helper.make_opsetid("", 999)]),
        "operator set ai.onnx 999: the onnx package here knows it up to"),
    "cycle": (lambda: model([node("Neg", ["z"], ["y"], "first"), node("Neg", ["y"], ["z"])]),
        "node 'first' (Neg) reads 'z', which is no input and which no earlier node computes"),
    "itself": (lambda: model([node("Add", ["x", "y"], ["y"])]), "reads 'y'"),
    "twice": (lambda: model([node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["y"])]),
        "'y' is computed twice"),
    "no output": (lambda: model([node("Neg", ["x"], ["z"])]), "outputs reads 'y'"),
    "too many inputs": (lambda: model([node("Relu", ["x"] * 3, ["y"])]), "expected 1 input, got 3"),
    "functions in a circle": (lambda: calling([("A", ["B"]), ("B", ["A"])]), "more than 64 deep"),
    "functions that double": (
        lambda: calling([(f"F{i}", [f"F{i + 1}"] * 2) for i in range(50)] + [("F50", [])]),
        "more than 1000000 nodes"),
    "absurd shape": (lambda: raw([1 << 40, 1 << 20], b"1234"), "can't be read"),
    "shape beyond ints": (lambda: raw([1 << 62] * 4, b"1234"), "can't be read"),
    "negative size": (lambda: raw([-1], b"1234"), "a negative size"),
    "too few bytes": (lambda: raw([3], b"1234"), "can't be read"),
    "unknown dtype": (lambda: raw([1], b"1234", 99), "can't be read"),
    "gigantic constant": (
        lambda: model([node("ConstantOfShape", ["s"], ["y"])], [array("s", [1 << 40, 1 << 10])]),
        "can't allocate memory", RuntimeError),
    "absolute path": (lambda: outside("/etc/passwd"), "not a file in the model's"),
    "parent": (lambda: outside("../secret"), "not a file in the model's folder"),
    "hidden parent": (lambda: outside("a/../../secret"), "not a file in the model's"),
    "link": (lambda: outside("link"), "not a file in the model's folder"),
    "linked folder": (lambda: outside("folder/secret"), "not a file in the model's"),
    "short file": (lambda: outside("data", offset="8"), "does not have its 8 bytes"),
    "negative offset": (lambda: outside("data", offset="-4"), "does not have its"),
    "other length": (lambda: outside("data", length="4"), "does not have its 8 bytes"),
    "offset of words": (lambda: outside("data", offset="end"), "can't be read"),
    "no such file": (lambda: outside("none"), "can't be read"),
    "sparse": (lambda: model([node("Neg", ["s"], ["y"])], sparse=[sparse(1 << 30, 0)]),
        "the sparse constant 's' asks for 8589934592 bytes", MemoryError),
    "sparse places": (lambda: model([node("Neg", ["s"], ["y"])], sparse=[sparse(3, -1)]),
        "the sparse constant 's' of the shape (3,) has places outside of it"),
    "sparse value": (
        lambda: model([node("Constant", [], ["y"], "big", sparse_value=sparse(1 << 30, 0))]),
        "node 'big' (Constant): its value asks for 8589934592 bytes", MemoryError),
    "ragged strings": (lambda: model([node("Identity", ["s"], ["y"])], [text(RAGGED)]),
        "the tensor 's': a result of 6400160000 bytes is too large", MemoryError),
    "ragged constant": (lambda: model([node("Constant", [], ["y"], "big", value_strings=RAGGED)]),
        "node 'big' (Constant): a result of", MemoryError),
    "strings that are split": (
        lambda: model([node("StringSplit", ["s"], ["y", "n"], delimiter=",")],
                      [text([",".join("a" * 9000), *RAGGED[:9000]])], opset=20),
        "is too large", MemoryError),
    "strings that double": (lambda: model([node("StringConcat", [f"{'s' if i == 0 else i}"] * 2,
                            [f"{'y' if i == 29 else i + 1}"]) for i in range(30)],
                      [text(["word"])], opset=20), "is too large", MemoryError),
    "regex without end": (lambda: model([node("RegexFullMatch", ["s"], ["y"], pattern="(a+)+$")],
                      [text(["a" * 40 + "b"])], opset=20), "the regex '(a+)+$' may take for ever"),
    "regex of nothing": (
        lambda: model([node("RegexFullMatch", ["s"], ["y"], pattern="(?:){999999999}")],
                      [text(["a"])], opset=20), "it repeats 999999999 times what may be nothing"),
    "functions in many ways": (lambda: many_ways(14),
        "functions are called in more than 4000 ways"),
    "loop that keeps": (lambda: looped(1 << 24), "is too large", MemoryError),
    "scan of nothing": (
        lambda: zeros([node("Scan", ["z"], ["y"], num_scan_inputs=1, body=helper.make_graph(
            [node("Neg", ["a"], ["b"])], "body", [tensor("a")], [tensor("b")]))], 1 << 40, 0),
        "1099511627776 rounds: at most 1000000 are done"),
    "steps of nothing": (
        lambda: zeros([node("RNN", ["z", "w", "w"], ["y"], hidden_size=1, clip=1.0)], 1 << 40, 0, 1,
                      w=np.ones((1, 1, 1), np.float32)),
        "1099511627776 steps: at most 1000000 are done"),
    "regions of many cells": (
        lambda: zeros([node("MaxRoiPool", ["z", "r"], ["y"], pooled_shape=[1 << 20, 1 << 20])],
                      1, 1, 4, 4, r=np.zeros((1, 5), np.float32)),
        "1099511627776 cells: at most 1000000 are done"),
    "many mels": (lambda: model([node("MelWeightMatrix", ["n", "n", "n", "f", "f"], ["y"])],
                      [array("n", 1 << 35), array("f", np.float32(1))]),
        "34359738368 bins: at most 1000000 are done"),
    "grams of great numbers": (
        lambda: model([node("TfIdfVectorizer", ["k"], ["y"], "grams", max_gram_length=1 << 40,
                            min_gram_length=1, max_skip_count=1 << 40, mode="TF",
                            ngram_counts=[0, 1 << 50], ngram_indexes=[1 << 45], pool_int64s=[1])],
                      [array("k", np.arange(9))]), "is too large", MemoryError),
    "no output of a constant": (lambda: model([node("Constant", [], [], "none", value_float=1.0)]),
        "node 'none' (Constant): list index out of range"),
    "an input of no type": (
        lambda: helper.make_model(helper.make_graph([node("Neg", ["x"], ["y"])], "g",
                                                    [tensor("x", (2,), 99)], [tensor("y")])),
        "the input 'x' is of the unknown type 99"),
    "a text that is none": (lambda: model([node("Cast", ["x"], ["y"], "bytes", to=b"\xff\xfe")]),
        "node 'bytes' (Cast): 'utf-8' codec can't decode"),
    "beyond a sequence": (lambda: model([node("SequenceConstruct", ["x"], ["q"]),
                       node("SequenceAt", ["q", "k"], ["y"], "far")], [array("k", 7)]),
        "node 'far' (SequenceAt) does not fit its inputs: IndexError"),
    "trees in circles": (lambda: tree(nodes_truenodeids=[1, 0, 0]),
        "node 'wood' (TreeEnsembleRegressor): one of its trees has no root"),
    "a branch to nowhere": (lambda: tree(nodes_truenodeids=[9, 1, 0]),
        "node 'wood' (TreeEnsembleRegressor): (0, 9)"),
    "trees of many targets": (lambda: tree(n_targets=1 << 40),
        "node 'wood' (TreeEnsembleRegressor): a result of", MemoryError),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_refused(name: str, tmp_path: Path) -> None:
    make, words, kind = (*BAD[name], ValueError)[:3]
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
    """A file with some bits flipped, or bytes that are gone or came."""
    made = bytearray(data)
    for _ in range(draw.choice([1, 1, 1, 2, 8])):
        i, gone = draw.randrange(len(made)), draw.choice([0, 1, 8])
        made[i : i + gone] = draw.choice([b"", b"\xff", draw.randbytes(gone)])
        made[draw.randrange(len(made))] ^= draw.choice([0, 1 << draw.randrange(8)])
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
