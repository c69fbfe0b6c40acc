"""Weights of 8 or 4 bits: what is held, how far it is off, and that every way of reading it gives
the same."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from played import Played
from refused import check_refused, rows

import pyframe as pf
from pyframe import nn
from pyframe.nn.quantized import BITS, QuantizedLinear, quantize_

MODES = [(mode, group, symmetric) for mode in ("int8", "int4") for group in (32, 64)
         for symmetric in (True, False)]  # fmt: skip
# A layer, and what it is called with: a tuple is a shape of random numbers.
LAYERS: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "Linear": (lambda: nn.Linear(96, 10), (2, 96)),
    "Linear, many rows": (lambda: nn.Linear(96, 10, bias=False), (2, 5, 96)),
    "Linear, one vector": (lambda: nn.Linear(70, 10), (70,)),
    "Linear, a width that groups don't divide": (lambda: nn.Linear(37, 5), (3, 37)),
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3), (2, 4, 9)),
    "Conv2d": (lambda: nn.Conv2d(6, 8, 3, padding=1, groups=2, bias=False), (2, 6, 7, 5)),
    "Conv3d": (lambda: nn.Conv3d(2, 3, 2), (1, 2, 4, 3, 5)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 3, 3, stride=2), (1, 4, 3, 3)),
    "Embedding": (lambda: nn.Embedding(11, 50), pf.tensor([[0, 10, 3], [3, 7, 1]])),
    "Embedding, padded": (lambda: nn.Embedding(5, 8, padding_idx=1), pf.tensor(1)),
}


def given(x: Any, device: str) -> pf.Tensor:
    return x.to(device) if isinstance(x, pf.Tensor) else pf.randn(x, device=device)


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, device: str) -> None:
    """The layer computes what one with the unpacked weight does, eagerly and compiled."""
    make, x = LAYERS[name]
    for mode, group, symmetric in MODES if device == "cpu" else MODES[1::5]:
        layer = make().to(device)
        plain, inputs = copy.deepcopy(layer), given(x, device)
        assert quantize_(layer, mode, group, symmetric) is layer
        assert isinstance(layer, type(plain))
        with pf.no_grad():
            plain.weight.copy_(layer.weight)  # type: ignore[arg-type]
            expected = plain(inputs).cpu().numpy()
            np.testing.assert_allclose(layer(inputs).cpu().numpy(), expected, 1e-5, 1e-5)
        compiled = pf.compile(lambda x, layer=layer: layer(x))
        for _ in range(2 if (mode, group, symmetric) in MODES[1::5] else 0):
            np.testing.assert_allclose(
                compiled(inputs).detach().cpu().numpy(), expected, 1e-5, 1e-5
            )


@pytest.mark.parametrize(("mode", "group", "symmetric"), MODES)
def test_each_weight_is_half_a_step_off_at_most(mode: str, group: int, symmetric: bool) -> None:
    layer = nn.Linear(200, 16, bias=False)
    with pf.no_grad():
        layer.weight[0] = 0
        layer.weight[1] = 0.5
        layer.weight[2] *= 1e6
    before = layer.weight.detach().numpy().copy()
    quantize_(layer, mode, group, symmetric)
    scale = layer.scale.repeat_interleave(layer.group, 1)[:, :200].numpy()
    off = np.abs(layer.weight.numpy() - before)
    assert (off <= scale * 0.5001 + np.abs(before) * 1e-6).all()
    assert (layer.weight[0] == 0).all()
    assert layer.offset is None if symmetric else (layer.weight[1] == 0.5).all()


def test_what_fills_up_a_row_has_no_part_in_its_range() -> None:
    """An offset stands for the weights alone: those of one sign get all steps."""
    for layer in (nn.Conv2d(1, 8, 3), nn.Linear(33, 8), nn.Embedding(8, 40)):
        with pf.no_grad():
            layer.weight.copy_(pf.rand(layer.weight.shape) * 0.1 + 2)
        want = layer.weight.detach().numpy().reshape(8, -1).copy()
        quantize_(layer, "int4", 32, False)
        assert np.abs(layer.weight.numpy().reshape(8, -1) - want).max() < 0.51 * 0.1 / 15
    x, layer = pf.rand(3, 33), nn.Linear(33, 8)
    with pf.no_grad():
        layer.weight.abs_()
    y = quantize_(layer, "int4", 32, False)(x).detach()
    want = x @ layer.weight.t() + layer.bias.detach()
    np.testing.assert_allclose(y, want, 1e-5, 1e-5)


@pytest.mark.parametrize(("mode", "share"), [("int8", 4), ("int4", 8)])
def test_memory(mode: str, share: int, device: str) -> None:
    layer = nn.Linear(1024, 64, bias=False).to(device)
    floats = layer.weight.numel() * 4
    quantize_(layer, mode, group=128)
    assert layer.packed.dtype is pf.int32  # which has four bytes on every device
    assert layer.packed.numel() * 4 * share == floats
    assert layer.scale.numel() * 128 * 4 == floats
    assert [*layer.parameters()] == []


def net() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 12), nn.Linear(12, 4)
    )


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_files(suffix: str, symmetric: bool, tmp_path: Path) -> None:
    first, second = (quantize_(net(), "int4", 32, symmetric) for _ in range(2))
    x = pf.randn(2, 3, 6, 6)
    assert not first(x).equal(second(x))
    pf.save(first.state_dict(), tmp_path / f"weights.{suffix}")
    second.load_state_dict(pf.load(tmp_path / f"weights.{suffix}"))
    assert first(x).equal(second(x))
    with pytest.raises(RuntimeError, match=r'Missing key.*"0\.weight"'):
        net().load_state_dict(first.state_dict())
    with pytest.raises(RuntimeError, match="size mismatch for 3.packed"):
        quantize_(net(), "int8", 32, symmetric).load_state_dict(first.state_dict())
    for again in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert again(x).equal(first(x))
    assert "QuantizedLinear(in_features=12, out_features=4, bias=True, int4, group=32" in str(first)


def test_what_is_quantized() -> None:
    model = nn.ModuleDict({"table": nn.Embedding(10, 16), "head": nn.Linear(16, 10, bias=False),
                           "norm": nn.LayerNorm(16), "short": nn.Embedding(4, 8, max_norm=1.0),
                           "other": nn.Linear(16, 2)})  # fmt: skip
    model["head"].weight = model["table"].weight
    quantize_(model, only=lambda name, layer: name != "other")
    assert model["head"].packed is model["table"].packed, "shared weights stay shared"
    assert type(model["short"]) is nn.Embedding, "it writes to its table"
    assert type(model["other"]) is nn.Linear
    quantize_(model)
    assert type(model["other"]) is QuantizedLinear
    with pytest.raises(IndexError):
        model["table"](pf.tensor([10]))
    x = pf.randn(2, 16, requires_grad=True)
    model["other"](x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy()[0], model["other"].weight.sum(0).numpy(), 1e-5, 1e-6)
    half = quantize_(nn.Linear(16, 4).bfloat16())
    assert half.scale.dtype is half(pf.ones(1, 16).bfloat16()).dtype is pf.bfloat16


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("rows", "width", "out"), [(5, 1024, 33), (70, 530, 64), (9, 4096, 1)])
@pytest.mark.parametrize(("mode", "group", "symmetric"), MODES[::3])
def test_many_rows(
    rows: int, width: int, out: int, mode: str, group: int, symmetric: bool, device: str
) -> None:
    """Panels of weights are unpacked within the product: its edges, its blocks and its gradient."""
    layer = quantize_(nn.Linear(width, out).to(device), mode, group, symmetric)
    weight, x = layer.weight.cpu().numpy(), pf.randn(rows, width, device=device)
    expected = x.cpu().numpy() @ weight.T + layer.bias.detach().cpu().numpy()
    step = pf.compile(lambda x: layer(x))
    for fn in (layer, layer, layer, step, step):
        with pf.no_grad():
            np.testing.assert_allclose(fn(x).cpu().numpy(), expected, 2e-4, 2e-5)
    for few in (x, x[:2].detach()):
        few.requires_grad_()
        (layer(few) * 2).sum().backward()
        found = np.broadcast_to(2 * weight.sum(0), few.shape)
        np.testing.assert_allclose(few.grad.cpu().numpy(), found, 1e-3, 1e-4)


@pytest.mark.parametrize("rows", [2, 32])
def test_a_gradient_keeps_no_weight_as_floats(rows: int) -> None:
    """An adapter's gradient passes quantized layers, of which one at a time is unpacked."""
    net = nn.Sequential(*[nn.Linear(512, 512, bias=False) for _ in range(8)])
    x = pf.randn(rows, 512, requires_grad=True)
    for layer in net:
        quantize_(layer)
    net(x).sum().backward()
    tracemalloc.start()
    try:
        net(x).sum().backward()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 4 * 512 * 512 * 4  # of eight


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("mode", "group", "symmetric"), MODES[::3])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_activations(mode: str, group: int, symmetric: bool, rows: int, device: str) -> None:
    """Rows that are whole steps lose nothing; others are half a step off at most, and one alone
    loses nothing; a gradient is that of the product with floats."""
    layer = nn.Linear(200, 70).to(device)
    quantize_(layer, mode, group, symmetric, activations="int8")
    assert "activations='int8'" in repr(layer)
    weight, bias = layer.weight.cpu().numpy(), layer.bias.detach().cpu().numpy()
    whole = pf.randint(-127, 128, (rows, 200)).float()
    whole[:, 3] = 127
    whole *= 2.0 ** pf.arange(rows)[:, None].remainder(9) / 64
    for x in (whole, pf.randn(rows, 200)):
        expected = x.numpy() @ weight.T + bias
        given, step = x.to(device), pf.compile(lambda x: layer(x))
        off = x.abs().amax(1, keepdim=True).numpy() / 254 * np.abs(weight).sum(1)
        for fn in (layer, layer, step, step):
            with pf.no_grad():
                found = fn(given).cpu().numpy()
            if x is whole or rows == 1:
                np.testing.assert_allclose(found, expected, 1e-4, 1e-4 * np.abs(expected).max())
            else:
                assert (np.abs(found - expected) <= off * 1.01).all()
                assert np.abs(found - expected).max() > off.max() / 1000
    given.requires_grad_()
    layer(given).sum().backward()
    np.testing.assert_allclose(given.grad.cpu().numpy()[0], weight.sum(0), 1e-3, 1e-4)


def test_rows_of_nothing_and_of_what_is_not_finite() -> None:
    layer = quantize_(nn.Linear(64, 3, bias=False), activations="int8")
    x = pf.zeros(3, 64)
    x[1, 5], x[2, 7] = float("nan"), float("inf")
    with pf.no_grad():
        found = layer(x).numpy()
    assert (found[0] == 0).all()
    assert np.isnan(found[1]).all()
    assert not np.isfinite(found[2]).any()


def test_an_encoder_still_runs() -> None:
    encoder = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    x = pf.randn(2, 5, 32)
    before = encoder(x)
    quantize_(encoder, "int8")
    assert type(encoder.linear1) is QuantizedLinear
    assert (encoder(x) - before).abs().max() < 0.05


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("device", ["wasm", "gpu"])
def test_exported(mode: str, device: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """For a page without Python: its file has the packed words, which its kernels read."""
    if device == "gpu":
        request.getfixturevalue("gpu")
    else:
        pytest.importorskip("wasmtime")
    model, x = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 4)), pf.randn(2, 256)
    quantize_(model, mode, 32)
    pf.web.export({"ask": model}, {"ask": (x,)}, to=tmp_path, state=[model], element=False)
    (found,) = Played(tmp_path, device).run("ask", x.numpy())
    np.testing.assert_allclose(found, model(x).detach().numpy(), 1e-4, 1e-5)
    floats = (256 * 64 + 64 * 4) * 4
    held = (tmp_path / "state.safetensors").stat().st_size
    assert held < floats * (1 / 32 + BITS[mode] / 32) + 2000


INFINITE = nn.Sequential(nn.Linear(8, 8))
with pf.no_grad():
    INFINITE[0].weight[0, 0] = float("inf")
REFUSED = """
quantize_(nn.Linear(8, 8), "int2") -> ValueError: 'int8' or 'int4', got 'int2'
quantize_(nn.Linear(8, 8), group=12) -> ValueError: multiple of 32.*got 12
quantize_(nn.Linear(8, 8), activations="int4") -> ValueError: None or 'int8', got 'int4'
quantize_(nn.ReLU()) -> ValueError: no layer to quantize; it takes Linear, Embedding
quantize_(nn.LSTM(3, 4)) -> ValueError: no layer to quantize
quantize_(INFINITE) -> ValueError: the weight of 0 is not finite
"""


@pytest.mark.parametrize(("call", "text"), rows(REFUSED))
def test_refused(call: str, text: str) -> None:
    check_refused(call, text, lambda lib: globals())
