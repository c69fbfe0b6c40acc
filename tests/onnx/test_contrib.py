"""Operators give what they give in onnxruntime: its own, those of ai.onnx.ml, and forms of ONNX's
that its own tests leave out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe.onnx import values

helper = pytest.importorskip("onnx.helper", reason="the package onnx is not installed")
runtime = pytest.importorskip("onnxruntime")

rng = np.random.default_rng(3)


def f(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def packed(*shape: int) -> np.ndarray:
    return rng.integers(0, 256, shape).astype(np.uint8)


ANGLES = np.arange(16)[:, None] / 100 ** (np.arange(4) / 4)
COS, SIN = np.cos(ANGLES).astype(np.float32), np.sin(ANGLES).astype(np.float32)
WIDE_COS, WIDE_SIN = (np.concatenate([v, v / 2], 1) for v in (COS, SIN))
FIRST, NEXT = np.array([4], np.int32), np.array([5], np.int32)  # lengths of keys, less one
GROUPED = {"num_heads": 4, "kv_num_heads": 2}

# operator, inputs, attributes, how many outputs
CASES: list[tuple[str, list[Any], dict[str, Any], int]] = [
    ("MatMulNBits", [f(3, 64), packed(8, 2, 16), f(16)], {"K": 64, "N": 8, "block_size": 32}, 1),
    ("MatMulNBits", [f(2, 3, 48), packed(8, 3, 8), f(24), packed(16)],
        {"K": 48, "N": 8, "block_size": 16}, 1),
    ("MatMulNBits", [f(3, 32), packed(8, 2, 16), f(16)],
        {"K": 32, "N": 8, "block_size": 16, "bits": 8}, 1),
    ("FusedMatMul", [f(2, 4, 3), f(2, 5, 4)], {"transA": 1, "transB": 1, "alpha": 0.5}, 1),
    ("Gelu", [f(3, 4)], {}, 1),
    ("BiasGelu", [f(3, 4), f(4)], {}, 1),
    ("FastGelu", [f(3, 4), f(4)], {}, 1),
    ("QuickGelu", [f(3, 4)], {"alpha": 1.5}, 1),
    ("SkipSimplifiedLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8)], {"epsilon": 1e-3}, 1),
    ("SkipLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), f(8), f(8)], {}, 1),
    ("RotaryEmbedding", [f(2, 3, 16), np.array([2]), COS, SIN], {}, 1),
    ("RotaryEmbedding", [f(2, 2, 3, 8), np.array([[0, 1, 2], [4, 5, 6]]), COS, SIN],
        {"interleaved": 1}, 1),
    ("GroupQueryAttention",
        [f(1, 5, 32), f(1, 5, 16), f(1, 5, 16), None, None, FIRST, np.array(5, np.int32)],
        GROUPED, 3),
    ("GroupQueryAttention",
        [f(1, 1, 128), None, None, f(1, 2, 5, 16), f(1, 2, 5, 16), NEXT, np.array(6, np.int32),
         WIDE_COS, WIDE_SIN], {**GROUPED, "do_rotary": 1}, 3),
    ("GroupQueryAttention",
        [f(1, 5, 32), f(1, 5, 16), f(1, 5, 16), None, None, FIRST, np.array(5, np.int32)],
        {**GROUPED, "local_window_size": 2, "scale": 0.3}, 3),
    ("MultiHeadAttention", [f(2, 3, 8), f(2, 5, 8), f(2, 5, 8), f(24)], {"num_heads": 2}, 1),
]  # fmt: skip


TEXTS = {"classlabels_strings": ["a", "b", "c"]}
MACHINE = {
    "kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0], "support_vectors": f(6, 3).ravel(),
    "post_transform": "NONE",
}  # fmt: skip
TWO: dict[str, Any] = {  # a tree with two leaves, of which two classes have one
    "nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3,
    "nodes_values": [0.1, 0, 0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "class_treeids": [0, 0],
    "class_nodeids": [1, 2], "class_ids": [0, 0], "classlabels_int64s": [7, -1],
}  # fmt: skip
# those that scripts/fuzz doesn't draw, or seldom
ML: list[tuple[str, list[Any], dict[str, Any], int]] = [
    *[
        case for how in ("NONE", "LOGISTIC") for case in (
            ("LinearClassifier", [f(4, 2)], {"coefficients": f(2), "intercepts": f(1),
             "classlabels_ints": [3, 1], "post_transform": how}, 2),
            *(("TreeEnsembleClassifier", [f(9, 1)], {**TWO, "class_weights": weights,
               "post_transform": how}, 2) for weights in ([0.25, 0.5], [0.25, -0.5])),
        )
    ],
    ("SVMRegressor", [f(4, 3)],
        {**MACHINE, "n_supports": 6, "coefficients": f(6), "rho": [0.2]}, 1),
    *[
        (
            "SVMClassifier", [f(5, 3)],
            {**MACHINE, "vectors_per_class": [2, 1, 3], "coefficients": f(12), "rho": f(3),
             "classlabels_ints": [4, 2, 9], **sure}, 2,
        )
        for sure in ({}, {"prob_a": [-1.0, -2.0, -0.5], "prob_b": [0.1, 0.0, -0.1]})
    ],
]  # fmt: skip


TRANSPOSED = [
    ("ConvTranspose", [f(1, 2, 4), f(2, 1, 3)],
     {"strides": [2], "output_shape": [n], **({"auto_pad": mode} if mode else {})}, 1)
    for n in (6, 7, 8, 9) for mode in ("", "SAME_UPPER", "SAME_LOWER")
]  # fmt: skip
RESIZED = [
    ("Resize", [f(1, 7), None, np.array([1, 4 / 7], np.float32)],
     {"nearest_mode": how, "coordinate_transformation_mode": "asymmetric"}, 1)
    for how in ("round_prefer_ceil", "round_prefer_floor")
]  # fmt: skip


DOMAINS = [("com.microsoft", case) for case in CASES] + [("ai.onnx.ml", case) for case in ML]


@pytest.mark.parametrize(("domain", "case"), DOMAINS)
def test_operators_of_other_domains(domain: str, case: Any, device: str) -> None:
    compared(*case, device, domain)


def test_forms_of_others(device: str) -> None:
    for case in [*TRANSPOSED, *RESIZED][:: 1 if device == "cpu" else 8]:
        compared(*case, device)
    given = [f(1, 5), np.array([1, 1.7], np.float32)]  # version 10 has modes of its own
    compared("Resize", given, {"mode": "nearest"}, 1, device, opset=10)


def test_affine_adds_its_beta() -> None:
    """Which onnxruntime does not."""
    x, w, r = f(3, 1, 2), f(1, 2, 2), f(1, 2, 2)
    more = {"activations": ["Affine"], "activation_alpha": [0.3], "activation_beta": [0.1]}
    h = np.zeros((1, 2))
    for step in x:
        h = 0.3 * (step @ w[0].T + h @ r[0].T) + 0.1
    _, model = made("RNN", [x, w, r], {"hidden_size": 2, **more}, 2)
    _, found = pf.onnx.load(model)(*map(pf.tensor, (x, w, r)))
    np.testing.assert_allclose(found[0].numpy(), h, rtol=1e-5)


def test_scores_by_the_names_of_classes() -> None:
    _, model = made("ZipMap", [f(2, 3)], TEXTS, 1, "ai.onnx.ml")
    found = pf.onnx.load(model)(pf.tensor([[1.0, 2, 3], [4, 5, 6]]))
    assert found == [{"a": 1, "b": 2, "c": 3}, {"a": 4, "b": 5, "c": 6}]


def made(
    name: str, inputs: list[Any], attributes: dict[str, Any], outputs: int, domain: str = "",
    opset: int = 18,
) -> Any:  # fmt: skip
    """The inputs by name, and a model of one node."""
    names = ["" if v is None else f"i{i}" for i, v in enumerate(inputs)]
    given = {n: v for n, v in zip(names, inputs, strict=True) if n}
    outs = [f"o{i}" for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(name, names, outs, domain=domain, **attributes)], "g",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in given.items()
        ],
        [helper.make_empty_tensor_value_info(n) for n in outs],
    )  # fmt: skip
    sets = [("", opset), ("com.microsoft", 1), ("ai.onnx.ml", 3)]
    opsets = [helper.make_opsetid(*s) for s in sets]
    return given, helper.make_model(graph, opset_imports=opsets, ir_version=10)


def compared(
    name: str, inputs: list[Any], attributes: dict[str, Any], outputs: int, device: str,
    domain: str = "", opset: int = 18,
) -> None:  # fmt: skip
    given, model = made(name, inputs, attributes, outputs, domain, opset)
    data, providers = model.SerializeToString(), ["CPUExecutionProvider"]
    want = runtime.InferenceSession(data, providers=providers).run(None, given)
    net = pf.onnx.load(model).to(device)
    found = net(*(values.tensor(v, device) for v in given.values()))
    for one, other in zip(found if outputs > 1 else [found], want, strict=True):
        if other.dtype == object:
            assert one.tolist() == other.tolist()
            continue
        assert one.device.type == device
        assert tuple(one.shape) == other.shape, (name, inputs, attributes)
        np.testing.assert_allclose(one.cpu().numpy(), other, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_counts_of_grams_are_weighted(mode: str) -> None:
    """No case of the ONNX project's has weights."""
    attributes = {
        "mode": mode, "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1,
        "ngram_counts": [0, 3], "ngram_indexes": [3, 0, 1, 2, 4],
        "pool_int64s": [2, 3, 5, 2, 3, 5, 2], "weights": [0.5, 2.0, 3.0, 4.0, 0.25],
    }  # fmt: skip
    x = np.array([[2, 3, 2, 3, 5], [5, 2, 2, 3, 7]], np.int64)
    compared("TfIdfVectorizer", [x], attributes, 1, "cpu")
