"""The summary of a net: layers, shapes, parameters, FLOPs and memory, counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import nn
from pyframe.nn import functional as F
from pyframe.train.summary import Summary, summarize


def rows(found: Summary) -> list[tuple[str, str, str, str]]:
    return [layer.cells() for layer in found.layers]


def attention_flops(n: int, d: int, heads: int) -> int:
    """Self-attention of n vectors: projections with bias, the scaling of q, scores, softmax, sums,
    the output's projection, and the mean of the weights over the heads."""
    project = 4 * (2 * n * d * d + n * d)
    scores = 2 * n * n * d
    return project + n * d + 2 * scores + (5 + 1) * heads * n * n + n * n


class Attention(nn.Module):
    """What computes by itself has no layer for that."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24, bias=False)

    def forward(self, x: pf.Tensor) -> pf.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v)


LAYERS: list[tuple[Callable[[], nn.Module], Any, str, int, int]] = [
    # the layer, a sample's shape, its output's, parameters, FLOPs
    (lambda: nn.Linear(5, 7), (5,), "[N, 7]", 42, 2 * 5 * 7 + 7),
    (lambda: nn.Linear(5, 7, bias=False), (3, 5), "[N, 3, 7]", 35, 3 * 2 * 5 * 7),
    (lambda: nn.Conv2d(3, 8, 3), (3, 9, 9), "[N, 8, 7, 7]", 224, 49 * 8 * (2 * 27 + 1)),
    (lambda: nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2, bias=False), (4, 8, 8),
     "[N, 8, 4, 4]", 144, 16 * 8 * 2 * 18),
    (lambda: nn.ConvTranspose2d(3, 8, 3, bias=False), (3, 4, 4), "[N, 8, 6, 6]", 216,
     16 * 3 * 2 * 8 * 9),
    (nn.ReLU, (10,), "[N, 10]", 0, 10),
    (nn.Flatten, (3, 4), "[N, 12]", 0, 0),
    (lambda: nn.MultiheadAttention(16, 4, batch_first=True), [(5, 16)] * 3,
     "([N, 5, 16], [N, 5, 5])", 4 * (16 * 16 + 16), attention_flops(5, 16, 4)),
    (Attention, (6, 8), "[N, 6, 8]", 192,
     6 * 2 * 8 * 24 + 6 * 8 + 2 * 2 * 6 * 6 * 8 + 5 * 6 * 6),
]  # fmt: skip


@pytest.mark.sampled(len(LAYERS))
@pytest.mark.parametrize("row", LAYERS, ids=lambda row: type(row[0]()).__name__)
def test_flops_and_shapes_of_a_layer(row: Any, device: str) -> None:
    make, size, shape, parameters, flops = row
    layer = make()
    found = summarize(layer.to(device), tuple(size))
    assert (found.parameters, found.flops) == (parameters, flops)
    top = found.layers[0]
    assert top.cells()[:2] == (type(layer).__name__, shape)
    assert sum(one.flops for one in found.layers) == flops
    assert sum(one.parameters for one in found.layers) == parameters


def net() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(4 * 2 * 2, 3).requires_grad_(False),
    )  # fmt: skip


def test_a_table_of_layers() -> None:
    found = summarize(net(), (1, 4, 4))
    assert isinstance(found, str)
    lines = found.splitlines()
    assert lines[0].split() == ["layer", "output", "parameters", "FLOPs"]
    assert lines[2].split("  ")[0] == "0: Conv2d"
    assert [row[:3] for row in rows(found)] == [
        ("0: Conv2d", "[N, 4, 4, 4]", "40"), ("1: BatchNorm2d", "[N, 4, 4, 4]", "8"),
        ("2: ReLU", "[N, 4, 4, 4]", "0"), ("3: MaxPool2d", "[N, 4, 2, 2]", "0"),
        ("4: Flatten", "[N, 16]", "0"), ("5: Linear", "[N, 3]", "51"),
    ]  # fmt: skip
    assert (found.parameters, found.trained, found.bytes) == (99, 48, 396)
    assert lines[-1] == "99 parameters (48 trained), 0.4 KiB"
    # ReLU writes where BatchNorm did, Flatten is a view
    assert found.activation_bytes == 4 * (64 + 64 + 16 + 3)
    assert found.flops is not None
    assert lines[-3] == f"for a sample: {found.flops / 1000:.2f} k FLOPs, 0.6 KiB of outputs"
    assert found.buffer_bytes == 4 * 8 + pf.tensor(0).nbytes
    assert lines[-2] == f"{found.buffer_bytes} B of buffers"
    page = found._repr_html_()
    assert page.count("<tr>") == 7
    assert '<td style="text-align:left">0: Conv2d</td>' in page
    batch = summarize(net(), input_data=np.zeros((6, 1, 4, 4), np.float32))
    assert [row[:3] for row in rows(batch)] == [row[:3] for row in rows(found)]
    assert batch.activation_bytes == found.activation_bytes
    conv, linear = batch.layers[0].flops, batch.layers[5].flops  # of a sample too
    assert (conv, linear) == (16 * 4 * (2 * 9 + 1), 3 * (2 * 16 + 1))


def test_without_an_input_nothing_runs() -> None:
    class Fails(nn.Linear):
        def forward(self, x: pf.Tensor) -> pf.Tensor:
            raise AssertionError

    found = summarize(nn.Sequential(Fails(2, 3), nn.LazyLinear(4)))
    assert found.flops is None
    assert repr(found) == "<Summary of 2 layers, 9 parameters>"  # a prompt has its table already
    assert found.activation_bytes is None
    assert found.splitlines()[0].split() == ["layer", "output", "parameters"]
    assert [row[2] for row in rows(found)] == ["9", "0"]


def test_a_summary_leaves_the_net_as_it_is() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
    before = {k: v.tolist() for k, v in model.state_dict().items()}
    state = pf.random.default_generator.get_state().tolist()
    summarize(model, input_data=pf.randn(8, 3))
    pf.manual_seed(1)
    summarize(nn.Sequential(model, Noisy()), (3,))
    drawn = pf.rand(2).tolist()
    pf.manual_seed(1)
    assert drawn == pf.rand(2).tolist()
    assert len(state) > 0
    assert before == {k: v.tolist() for k, v in model.state_dict().items()}
    assert model.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


class Noisy(nn.Module):
    def forward(self, x: pf.Tensor) -> pf.Tensor:
        return x + pf.randn_like(x) if x.sum().item() > -1e9 else x  # it may read values


class Two(nn.Module):
    """Two inputs; a layer that is called twice, one that shares its weight, one never called; and a
    parameter between them."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.shift = nn.Parameter(pf.zeros(4))
        self.act = nn.Tanh()
        self.unused = nn.Linear(2, 2)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: pf.Tensor, scale: pf.Tensor) -> dict[str, Any]:
        x = self.act(self.embed(ids) * scale.unsqueeze(-1) + self.shift)
        return {"scores": self.head(self.act(x)), "parts": (x, x.mean(1)), "note": None}


def test_several_inputs_and_outputs() -> None:
    forms: list[dict[str, Any]] = [
        {"input_size": ((5,), (5,)), "dtype": (pf.int64, pf.float32)},
        {"input_size": {"ids": (5,), "scale": (5,)}, "dtype": {"ids": pf.int64, "scale": None}},
        {"input_data": {"ids": np.zeros((3, 5), np.int64), "scale": np.ones((3, 5))}},
    ]
    for form in forms:
        found = summarize(Two(), **form)
        assert rows(found) == [
            ("Two", "{scores: [N, 5, 10], parts: ([N, 5, 4], [N, 4]), note: None}", "4", "64"),
            ("embed: Embedding", "[N, 5, 4]", "40", "0"),
            ("act: Tanh ×2", "[N, 5, 4]", "0", "40"),
            ("unused: Linear", "", "6", ""),
            ("head: Linear", "[N, 5, 10]", "shared", "400"),
        ]
        assert (found.parameters, found.flops) == (50, 64 + 40 + 400)


def test_what_is_refused() -> None:
    """What forward raises says what it was given."""
    with pytest.raises(ValueError, match="not both"):
        summarize(nn.Linear(2, 2), (2,), input_data=pf.ones(1, 2))
    with pytest.raises(ValueError, match="batch of inputs"):
        summarize(nn.Linear(2, 2), input_data=pf.tensor(1.0))
    with pytest.raises(RuntimeError) as caught:
        summarize(nn.Linear(3, 2), (4,))
    assert "summary ran the net on [1, 4] of" in caught.value.__notes__[-1]
    assert "input_data takes a batch" in caught.value.__notes__[-1]
