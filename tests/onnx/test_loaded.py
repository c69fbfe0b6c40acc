"""What a loaded ONNX model is as a Module."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from steps import training_step

import pyframe as pf

pytest.importorskip("onnx.defs", reason="the package onnx is not installed")
from onnx import TensorProto, helper, numpy_helper


def made(
    nodes: list[Any], constants: dict[str, Any], shape: Any = ("n", 4), opset: int = 18
) -> Any:
    """A model of x to y."""
    given = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", [x], [y], given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


node = helper.make_node
rng = np.random.default_rng(0)
WEIGHTS = {
    "layer.weight": rng.standard_normal((3, 4)).astype(np.float32),
    "layer.bias": np.zeros(3, np.float32),
}
LINEAR = [node("Gemm", ["x", "layer.weight", "layer.bias"], ["y"], transB=1)]


def test_names_and_repr() -> None:
    net = pf.onnx.load(made(LINEAR, WEIGHTS))
    assert (net.input_names, net.output_names) == (["x"], ["y"])
    assert list(net.state_dict()) == ["layer.weight", "layer.bias"]
    assert repr(net) == (
        "OnnxModule('net', opset=ai.onnx 18, nodes=1, inputs=['x'], outputs=['y'])"
    )
    assert not net.training
    twin = pf.nn.ModuleDict({"layer": pf.nn.Linear(4, 3)})
    twin.load_state_dict(net.state_dict())  # the keys that PyTorch's exporter keeps
    x = pf.randn(2, 4)
    assert pf.allclose(net(x), twin["layer"](x))
    assert pf.allclose(net(x=x), copy.deepcopy(net)(x.numpy()))


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (["a", "a.b", "a.b.c"], ["a", "a_b", "a_b_c"]),
        (["a.b", "a"], ["a.b", "a_"]),
        (
            ["a." * 20_000 + "b", "b..c", "b_.c", "b__c"],
            ["a_" * 20_000 + "b", "b__c", "b_.c", "b__c_"],
        ),
        (["forward", "train.x", ".x", "a..b"], ["forward_", "train_x", "_x", "a__b"]),
    ],
)
def test_names_that_a_module_has(names: list[str], kept: list[str]) -> None:
    nodes = [
        node("Add", [f"t{i}" if i else "x", name], [f"t{i + 1}"]) for i, name in enumerate(names)
    ]
    nodes[-1].output[0] = "y"
    net = pf.onnx.load(made(nodes, {n: np.ones(4, np.float32) for n in names}))
    assert sorted(net.state_dict()) == sorted(kept)
    assert net(pf.zeros(1, 4)).tolist() == [[len(names)] * 4]


def test_it_trains(device: str) -> None:
    net = pf.onnx.load(made(LINEAR, WEIGHTS)).to(device)
    optimizer = pf.optim.SGD(net.parameters(), 0.1)
    x, y = pf.randn(32, 4, device=device), pf.randn(32, 3, device=device)
    step = pf.compile(training_step(optimizer, lambda: ((net(x) - y) ** 2).mean()))
    losses = [step().item() for _ in range(50)]
    assert losses[-1] < losses[0]


def test_wrong_inputs() -> None:
    net = pf.onnx.load(made(LINEAR, WEIGHTS))
    for args, kwargs, kind, words in [
        ((), {}, TypeError, "the input 'x' is missing"),
        ((1, 2), {}, TypeError, "expected 1 inputs, got 2"),
        ((), {"z": 1}, TypeError, "'z' is no input"),
        ((pf.ones(4),), {}, ValueError, "the input 'x' has 2 dims, got 1"),
        ((pf.ones(2, 4, dtype=pf.int64),), {}, TypeError, "the input 'x' is of float32, got"),
    ]:
        with pytest.raises(kind, match=re.escape(words)):
            net(*args, **kwargs)


def test_errors_name_their_node() -> None:
    net = pf.onnx.load(made([node("MatMul", ["x", "w"], ["y"], "last")], {"w": np.ones((5, 2))}))
    with pytest.raises(RuntimeError) as caught:
        net(pf.ones(2, 4))
    assert "in node 'last' (MatMul) of the ONNX model" in caught.value.__notes__


def test_a_capture_names_the_node_that_waits() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (4,))
    y = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    graph = helper.make_graph([node("NonZero", ["x"], ["y"], "find")], "net", [x], [y])
    step = pf.compile(pf.onnx.load(helper.make_model(graph)))
    with pytest.warns(RuntimeWarning, match=r"node 'find' \(NonZero\) reads the value of a tensor"):
        assert step(pf.tensor([0.0, 1.0, 0.0, 2.0])).tolist() == [[1, 3]]


def test_modes() -> None:
    """In train() dropout drops, and batch norms move their running statistics."""
    stats = {n: np.ones(4, np.float32) for n in ("scale", "bias", "mean", "var")}
    net = pf.onnx.load(
        made(
            [
                node("BatchNormalization", ["x", "scale", "bias", "mean", "var"], ["b"]),
                node("Dropout", ["b"], ["y"]),
            ],
            stats,
            opset=13,
        )
    )
    assert [n for n, _ in net.named_parameters()] == ["scale", "bias"]
    x = pf.ones(6, 4)
    assert (net(x) == 1).all()
    y = net.train()(x)
    assert set(y.unique().tolist()) <= {0.0, 2.0}
    assert net.mean.tolist() == [1] * 4
    assert pf.allclose(net.var, pf.full((4,), 0.9))


SIZES = [
    node("Shape", ["x"], ["s"]),
    node("Gather", ["s", "zero"], ["n"]),
    node("Unsqueeze", ["n", "zeros"], ["ns"]),
    node("Concat", ["ns", "minus"], ["to"], axis=0),
    node("Reshape", ["x", "to"], ["r"]),
    node("Mul", ["n", "two"], ["m"]),
    node("Unsqueeze", ["m", "zeros"], ["ms"]),
    node("Concat", ["ms", "minus"], ["half"], axis=0),
    node("Reshape", ["r", "half"], ["y"]),
]
NUMBERS = {"zero": np.array(0), "zeros": [0], "minus": [-1], "two": np.array(2)}


def test_sizes_are_computed_on_the_host() -> None:
    """So that a model is one Program, and a size that changes is a symbol."""
    net = pf.onnx.load(made(SIZES, NUMBERS, ("n", 2, 6)))
    step = pf.compile(net)
    for n in (1, 2, 3, 4, 5, 7, 9):
        x = pf.randn(n, 2, 6)
        assert (step(x) == x.reshape(2 * n, 6)).all()
    assert str(step.explain()).startswith("<compiled OnnxModule>: 3 captures, 4 replays")


def test_marked_sizes_are_symbols() -> None:
    net = pf.onnx.load(made(SIZES, NUMBERS, ("n", 2, 6)))
    step = pf.compile(net)
    for n in (3, 4, 5):
        x = pf.randn(n, 2, 6)
        pf.mark_dynamic(x, 0)
        assert (step(x) == x.reshape(2 * n, 6)).all()
    assert str(step.explain()).startswith("<compiled OnnxModule>: 2 captures, 1 replay")


NARROW = [
    node("Shape", ["x"], ["s"]),
    node("Cast", ["s"], ["s32"], to=TensorProto.INT32),
    node("Gather", ["s32", "zeros"], ["n"]),
    node("Mul", ["n", "two"], ["m"]),
    node("Concat", ["m", "minus"], ["both"], axis=0),
    node("Add", ["x", "one"], ["more"]),
    node("Cast", ["both"], ["to"], to=TensorProto.INT64),
    node("Reshape", ["more", "to"], ["y"]),
    node("Expand", ["m", "places"], ["sizes"]),
    node("Max", ["sizes", "many"], ["many_sizes"]),
]


def test_sizes_that_are_cast_to_int32_stay_symbols() -> None:
    """What is computed of them is of int32, too."""
    numbers = {
        "zeros": [0], "minus": np.array([-1], np.int32), "two": np.array(2, np.int32),
        "one": np.float32(1), "places": [6], "many": np.zeros(6, np.int32),
    }  # fmt: skip
    model = made(NARROW, numbers, ("n", 2, 6))
    model.graph.output.add(name="many_sizes").type.tensor_type.elem_type = TensorProto.INT32
    net = pf.onnx.load(model)
    step = pf.compile(net)
    for n in (1, 2, 3, 4, 5, 7, 9):
        x = pf.randn(n, 2, 6)
        y, sizes = step(x)
        assert (y == (x + 1).reshape(2 * n, 6)).all()
        assert sizes.dtype is pf.int32
        assert sizes.tolist() == [2 * n] * 6
    assert str(step.explain()).startswith("<compiled OnnxModule>: 3 captures, 4 replays")


def sizes_as_floats(*between: Any) -> list[Any]:
    """Nodes that reshape x to as many rows as `between` makes of its first size, a float `f`."""
    return [
        node("Shape", ["x"], ["s"]),
        node("Cast", ["s"], ["floats"], to=TensorProto.FLOAT),
        node("Gather", ["floats", "zeros"], ["f"]),
        *between,
        node("Cast", ["out"], ["rows"], to=TensorProto.INT64),
        node("Concat", ["rows", "minus"], ["to"], axis=0),
        node("Reshape", ["x", "to"], ["y"]),
    ]


FLOATS: dict[str, tuple[list[Any], Any]] = {
    "twice": ([node("Mul", ["f", "two"], ["out"])], lambda n: 2 * n),
    "floor": (
        [
            node("Mul", ["f", "half"], ["h"]),
            node("Floor", ["h"], ["whole"]),
            node("Sub", ["f", "whole"], ["rest"]),
            node("Mul", ["rest", "zero"], ["none"]),
            node("Add", ["f", "none"], ["out"]),
        ],
        lambda n: n,
    ),
    "ceil": (
        [
            node("Div", ["f", "two"], ["h"]),
            node("Ceil", ["h"], ["whole"]),
            node("Div", ["two", "two"], ["one"]),
            node("Div", ["f", "f"], ["same"]),
            node("Sub", ["whole", "whole"], ["none"]),
            node("Add", ["none", "f"], ["more"]),
            node("Mul", ["more", "same"], ["out"]),
        ],
        lambda n: n,
    ),
}


@pytest.mark.parametrize("name", FLOATS)
def test_sizes_that_are_cast_to_float_stay_symbols(name: str) -> None:
    """Where floats round nothing, and through what makes ints of them again."""
    between, rows = FLOATS[name]
    numbers = {
        "zeros": [0], "minus": [-1], "two": np.float32(2), "half": np.float32(0.5),
        "zero": np.float32(0),
    }  # fmt: skip
    step = pf.compile(pf.onnx.load(made(sizes_as_floats(*between), numbers, ("n", 2, 6))))
    for n in (1, 2, 3, 4, 5, 7, 9):
        x = pf.randn(n, 2, 6)
        assert (step(x) == x.reshape(rows(n), -1)).all()
    assert str(step.explain()).startswith("<compiled OnnxModule>: 3 captures, 4 replays")


def test_an_image_is_enlarged_by_sizes_that_were_floats() -> None:
    """As PyTorch's exporter writes `interpolate(x, scale_factor=2)` of images of any size."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Slice", ["s", "two", "four"], ["hw"]),
        node("Cast", ["hw"], ["f"], to=TensorProto.FLOAT),
        node("Mul", ["f", "scale"], ["m"]),
        node("Floor", ["m"], ["whole"]),
        node("Cast", ["whole"], ["i"], to=TensorProto.INT64),
        node("Slice", ["s", "zero", "two"], ["nc"]),
        node("Concat", ["nc", "i"], ["to"], axis=0),
        node("Resize", ["x", "", "", "to"], ["y"], mode="nearest",
             coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    ]  # fmt: skip
    numbers = {"zero": [0], "two": [2], "four": [4], "scale": np.float32(2)}
    step = pf.compile(pf.onnx.load(made(nodes, numbers, (1, 1, "h", "w"))))
    for h in (2, 3, 4, 5, 7, 9):
        x = pf.randn(1, 1, h, 2 * h)
        assert (step(x) == pf.nn.functional.interpolate(x, scale_factor=2)).all()
    assert str(step.explain()).startswith("<compiled OnnxModule>: 3 captures, 3 replays")


def test_a_size_that_floats_round_is_that_of_the_call() -> None:
    """0.7 is no float; what is computed is what onnxruntime computes, a capture for each size."""
    made_of = node("Mul", ["f", "share"], ["some"]), node("Floor", ["some"], ["out"])
    nodes = [n for n in sizes_as_floats(*made_of) if n.op_type not in ("Concat", "Reshape")]
    nodes.append(node("Slice", ["x", "zeros", "rows", "zeros"], ["y"]))
    model = made(nodes, {"zeros": [0], "share": np.float32(0.7)}, ("n", 4))
    net = pf.onnx.load(model)
    step = pf.compile(net)
    for n in range(1, 30):
        x = pf.randn(n, 4)
        rows = int(np.floor(np.float32(n) * np.float32(0.7)))
        assert step(x).shape == net(x).shape == (rows, 4), n


def test_without_the_package() -> None:
    program = "import sys; sys.modules['onnx'] = None; import pyframe as pf; pf.onnx.load(b'')"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "ImportError: pyframe.onnx needs the package onnx: pip install" in found.stderr
