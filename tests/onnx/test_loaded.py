"""What a loaded ONNX model is as a Module."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest
from onnx_models import made, nodes
from processes import python
from steps import training_step

import pyframe as pf

from_array: Any = pytest.importorskip("onnx.numpy_helper").from_array
helper = pytest.importorskip("onnx.helper", reason="the package onnx is not installed")
FLOAT, INT32, INT64 = 1, 6, 7
rng = np.random.default_rng(0)
WEIGHTS = {
    "layer.weight": rng.standard_normal((3, 4)).astype(np.float32),
    "layer.bias": np.zeros(3, np.float32),
}
LINEAR = "y = Gemm<transB=1>(x, layer.weight, layer.bias)"


def test_names_and_repr() -> None:
    net = pf.onnx.load(made(LINEAR, WEIGHTS))
    assert (net.input_names, net.output_names) == (["x"], ["y"])
    assert list(net.state_dict()) == ["layer.weight", "layer.bias"]
    text = "OnnxModule('net', opset=ai.onnx 18, nodes=1, inputs=['x'], outputs=['y'])"
    assert repr(net) == text
    assert not net.training
    twin = pf.nn.ModuleDict({"layer": pf.nn.Linear(4, 3)})
    twin.load_state_dict(net.state_dict())  # the keys that PyTorch's exporter keeps
    x = pf.randn(2, 4)
    assert pf.allclose(net(x), twin["layer"](x))
    assert pf.allclose(net(x=x), copy.deepcopy(net)(x.numpy()))


LONG = "a." * 20_000
KEPT = [
    (["a", "a.b", "a.b.c"], ["a", "a_b", "a_b_c"]),
    (["a.b", "a"], ["a.b", "a_"]),
    ([f"{LONG}b", "b..c", "b_.c", "b__c"], [f"{'a_' * 20_000}b", "b__c", "b_.c", "b__c_"]),
    (["forward", "train.x", ".x", "a..b"], ["forward_", "train_x", "_x", "a__b"]),
]


@pytest.mark.parametrize(("names", "kept"), KEPT)
def test_names_that_a_module_has(names: list[str], kept: list[str]) -> None:
    adds = [f"t{i + 1} = Add({f't{i}' if i else 'x'}, w{i})" for i in range(len(names))]
    model = made(";".join(adds).replace(f"t{len(names)} =", "y ="), {})
    for name, n in zip(names, model.graph.node, strict=True):  # which the text can't have
        n.input[1] = name
        model.graph.initializer.append(from_array(np.ones(4, np.float32), name))
    net = pf.onnx.load(model)
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
    net = pf.onnx.load(made("[last] y = MatMul(x, w)", {"w": np.ones((5, 2))}))
    with pytest.raises(RuntimeError) as caught:
        net(pf.ones(2, 4))
    assert "in node 'last' (MatMul) of the ONNX model" in caught.value.__notes__


def test_a_capture_names_the_node_that_waits() -> None:
    x = helper.make_tensor_value_info("x", FLOAT, (4,))
    y = helper.make_tensor_value_info("y", INT64, None)
    graph = helper.make_graph(nodes("[find] y = NonZero(x)"), "net", [x], [y])
    step = pf.compile(pf.onnx.load(helper.make_model(graph)))
    with pytest.warns(RuntimeWarning, match=r"node 'find' \(NonZero\) reads the value of a tensor"):
        assert step(pf.tensor([0.0, 1.0, 0.0, 2.0])).tolist() == [[1, 3]]


def test_modes() -> None:
    """In train() dropout drops, and batch norms move their running statistics."""
    stats = {n: np.ones(4, np.float32) for n in ("scale", "bias", "mean", "var")}
    layers = "b = BatchNormalization(x, scale, bias, mean, var); y = Dropout(b)"
    net = pf.onnx.load(made(layers, stats, opset=13))
    assert [n for n, _ in net.named_parameters()] == ["scale", "bias"]
    x = pf.ones(6, 4)
    assert (net(x) == 1).all()
    y = net.train()(x)
    assert set(y.unique().tolist()) <= {0.0, 2.0}
    assert net.mean.tolist() == [1] * 4
    assert pf.allclose(net.var, pf.full((4,), 0.9))


def sizes_as_floats(between: str) -> str:
    """Nodes that reshape x to as many rows as `between` makes of its first size, a float `f`."""
    return (
        f"s = Shape(x); floats = Cast<to=1>(s); f = Gather(floats, zeros); {between};"
        "rows = Cast<to=7>(out); to = Concat<axis=0>(rows, minus); y = Reshape(x, to)"
    )


NUMBERS = {
    "zero": np.array(0), "zeros": [0], "minus": [-1], "two": np.array(2), "twos": [2], "fours": [4],
    "f_two": np.float32(2), "f_half": np.float32(0.5), "f_zero": np.float32(0),
    "f_one": np.float32(1), "i_minus": np.array([-1], np.int32), "i_two": np.array(2, np.int32),
    "places": [6], "many": np.zeros(6, np.int32),
}  # fmt: skip
# nodes, the shape of x, what they make of it; what is cast to int32, or to floats that round
# nothing, and through what makes ints of them again; the last is what PyTorch's exporter writes of
# `interpolate(x, scale_factor=2)`
SIZES: dict[str, tuple[str, Any, Any]] = {
    "ints": ("""s = Shape(x); n = Gather(s, zero); ns = Unsqueeze(n, zeros);
        to = Concat<axis=0>(ns, minus); r = Reshape(x, to); m = Mul(n, two);
        ms = Unsqueeze(m, zeros); half = Concat<axis=0>(ms, minus); y = Reshape(r, half)""",
        ("n", 2, 6), lambda x: x.reshape(2 * len(x), 6)),
    "int32": ("""s = Shape(x); s32 = Cast<to=6>(s); n = Gather(s32, zeros); m = Mul(n, i_two);
        both = Concat<axis=0>(m, i_minus); more = Add(x, f_one); to = Cast<to=7>(both);
        y = Reshape(more, to); sizes = Expand(m, places); many_sizes = Max(sizes, many)""",
        ("n", 2, 6), lambda x: (x + 1).reshape(2 * len(x), 6)),
    "twice": (sizes_as_floats("out = Mul(f, f_two)"), ("n", 2, 6),
        lambda x: x.reshape(2 * len(x), -1)),
    "floor": (sizes_as_floats("""h = Mul(f, f_half); whole = Floor(h); rest = Sub(f, whole);
        none = Mul(rest, f_zero); out = Add(f, none)"""), ("n", 2, 6), lambda x: x.flatten(1)),
    "ceil": (sizes_as_floats("""h = Div(f, f_two); whole = Ceil(h); one = Div(f_two, f_two);
        same = Div(f, f); none = Sub(whole, whole); more = Add(none, f); out = Mul(more, same)"""),
        ("n", 2, 6), lambda x: x.flatten(1)),
    "an image": ("""s = Shape(x); hw = Slice(s, twos, fours); f = Cast<to=1>(hw);
        m = Mul(f, f_two); whole = Floor(m); i = Cast<to=7>(whole); nc = Slice(s, zeros, twos);
        to = Concat<axis=0>(nc, i);
        y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric",
                   nearest_mode="floor">(x, , , to)""",
        (1, 1, "h", "w"), lambda x: pf.nn.functional.interpolate(x, scale_factor=2)),
}  # fmt: skip


@pytest.mark.parametrize("name", [*SIZES, "ints, marked"])
def test_sizes_are_computed_on_the_host(name: str) -> None:
    """So that a model is one Program, and a size that changes, or is marked, is a symbol."""
    text, shape, want = SIZES[name.partition(",")[0]]
    given = {n: v for n, v in NUMBERS.items() if re.search(rf"\b{n}\b", text)}
    model = made(text, given, shape)
    if name == "int32":
        model.graph.output.add(name="many_sizes").type.tensor_type.elem_type = INT32
    step, marked = pf.compile(pf.onnx.load(model)), "marked" in name
    for n in (3, 4, 5) if marked else (1, 2, 3, 4, 5, 7, 9):
        x = pf.randn(*({"n": n, "h": n, "w": 2 * n}.get(size, size) for size in shape))
        if marked:
            pf.mark_dynamic(x, 0)
        y = step(x)
        if name == "int32":  # what is computed of it is of int32, too
            y, sizes = y
            assert sizes.dtype is pf.int32
            assert sizes.tolist() == [2 * n] * 6
        assert y.shape == want(x).shape
        assert (y == want(x)).all()
    counts = "2 captures, 1 replay" if marked else "3 captures, 4 replays"
    assert str(step.explain()).startswith(f"<compiled OnnxModule>: {counts}")


def test_a_size_that_floats_round_is_that_of_the_call() -> None:
    """0.7 is no float; what is computed is what onnxruntime computes, a capture for each size."""
    text = """
        s = Shape(x); floats = Cast<to=1>(s); f = Gather(floats, zeros); some = Mul(f, share);
        out = Floor(some); rows = Cast<to=7>(out); y = Slice(x, zeros, rows, zeros)"""
    model = made(text, {"zeros": [0], "share": np.float32(0.7)}, ("n", 4))
    net = pf.onnx.load(model)
    step = pf.compile(net)
    for n in range(1, 30, 3):
        x = pf.randn(n, 4)
        rows = int(np.floor(np.float32(n) * np.float32(0.7)))
        assert step(x).shape == net(x).shape == (rows, 4), n


def test_without_the_package() -> None:
    program = "import sys; sys.modules['onnx'] = None; import pyframe as pf; pf.onnx.load(b'')"
    _, said = python("-c", program, status=1)
    assert "ImportError: pyframe.onnx needs the package onnx: pip install" in said
