"""Models as ONNX files: what onnx's checker accepts, and onnxruntime computes alike."""

from __future__ import annotations

import io
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyframe as pf
from pyframe import nn
from pyframe.jit.graph import GraphError
from pyframe.nn import functional as F
from pyframe.tensor.tree import leaves
from pyframe.vision import models
from pyframe.vision.models.resnet import BasicBlock

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def run(proto: Any, args: Any) -> list[np.ndarray]:
    """What onnxruntime gives; `proto` may be a file."""
    data = proto if isinstance(proto, str) else proto.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    given = {f"in{i}": x.numpy() for i, x in enumerate(args) if f"in{i}" in names}
    return list(session.run(None, given))


def exported(net: Any, args: Any, *others: Any, axes: Any = None, **more: Any) -> Any:
    """The model, which computes as `net` does for these arguments, and for others."""
    names = [f"in{i}" for i in range(len(args))]
    axes = dict.fromkeys(names, axes) if axes is not None else None
    program = pf.onnx.export(net, args, input_names=names, dynamic_axes=axes, **more)
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    for given in (args, *others):
        with pf.no_grad():
            expected = leaves(net(*given))
        for x, y in zip(expected, run(proto, given), strict=True):
            assert tuple(x.shape) == y.shape
            assert x.numpy().dtype == y.dtype
            largest = np.abs(y.astype(float)).max(initial=1e-30)
            assert np.abs(x.numpy().astype(float) - y).max(initial=0) <= 1e-5 * max(largest, 1e-30)
    return proto


def kinds(proto: Any) -> set[str]:
    return {n.op_type for n in proto.graph.node}


def example(name: str) -> Any:
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    return runpy.run_path(str(path))["make_model"]().net.eval()


def test_vision_models() -> None:
    """As small as they can be, and with all that their large ones have."""
    x, y = pf.randn(1, 3, 32, 32), pf.randn(3, 3, 32, 32)
    resnet = models.ResNet(BasicBlock, [1, 1, 1, 1], num_classes=3).eval()
    exported(resnet, (x,), (y,), axes={0: "batch"})
    exported(models.mobilenet_v3_small(num_classes=3).eval(), (x,), (y,), axes={0: "batch"})
    vit = models.VisionTransformer(32, 16, 2, 2, 16, 32, num_classes=3).eval()
    nn.init.normal_(vit.heads[0].weight)
    proto = exported(vit, (x,), (y,), axes={0: "b"})
    assert {"LayerNormalization", "Gelu", "Softmax"} <= kinds(proto)
    x, y = pf.randn(1, 1, 16, 16), pf.randn(2, 1, 16, 16)
    exported(models.UNet(channels=(4, 8)).eval(), (x,), (y,), axes={0: "b"})


class Words(nn.Module):
    """A classifier of sequences."""

    def __init__(self, kind: Any, **more: Any) -> None:
        super().__init__()
        self.table, self.fc = nn.Embedding(10, 8), nn.Linear(12, 3)
        self.net = kind(8, 6, 2, batch_first=True, bidirectional=True, **more)

    def forward(self, i: Any) -> Any:
        return self.fc(self.net(self.table(i))[0][:, -1])


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN, lambda *a, **k: nn.RNN(
    *a, nonlinearity="relu", **k)])  # fmt: skip
def test_recurrent(kind: Any) -> None:
    i, j = pf.randint(0, 10, (2, 5)), pf.randint(0, 10, (3, 9))
    exported(Words(kind), (i,), (j,), axes={0: "batch", 1: "length"})


@pytest.mark.parametrize("opset", [13, 17, 20, 23, 24])
def test_transformers(opset: int) -> None:
    net = nn.Transformer(16, 2, 1, 1, 32, activation="gelu", batch_first=True).eval()
    given = [(pf.randn(b, s, 16), pf.randn(b, t, 16)) for b, s, t in ((1, 5, 4), (3, 7, 6))]
    names = ["in0", "in1"]
    axes = {"in0": {0: "batch", 1: "source"}, "in1": {0: "batch", 1: "target"}}
    more = {"dynamic_axes": axes, "opset_version": opset}
    proto = pf.onnx.export(net, given[0], input_names=names, **more).model_proto
    onnx.checker.check_model(proto, full_check=True)
    for args in given:
        with pf.no_grad():
            (found,) = run(proto, args)
            assert np.abs(net(*args).numpy() - found).max() < 1e-5
    for kind, since in (("LayerNormalization", 17), ("Gelu", 20), ("Attention", 23)):
        assert (kind in kinds(proto)) == (opset >= since)


class Masked(nn.Module):
    """A transformer with a mask of what is padded."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 16)
        self.net = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1)

    def forward(self, i: Any) -> Any:
        return self.net(self.table(i), src_key_padding_mask=i == 0).mean(1)


@pytest.mark.parametrize("opset", [17, 23])
def test_masks_of_padding(opset: int) -> None:
    i, j = pf.randint(0, 10, (2, 5)), pf.randint(0, 10, (3, 8))
    i[:, 0] = j[:, 0] = 1
    axes = {0: "batch", 1: "length"}
    exported(Masked().eval(), (i,), (j,), axes=axes, opset_version=opset)


def test_gpt_and_vae() -> None:
    x, y = pf.randint(0, 60, (2, 8)), pf.randint(0, 60, (3, 12))
    proto = exported(example("gpt"), (x,), (y,), axes={0: "batch", 1: "length"})
    assert any(n.name.startswith("/blocks/0/norm1/LayerNorm") for n in proto.graph.node)
    assert "blocks.0.qkv.bias" in {t.name for t in proto.graph.initializer}
    vae = example("vae")
    exported(vae.encoder, (pf.rand(1, 1, 28, 28),), (pf.rand(5, 1, 28, 28),), axes={0: "n"})
    exported(vae.decoder, (pf.rand(1, 2),), (pf.rand(5, 2),), axes={0: "n"})
    whole = pf.onnx.export(vae, (pf.rand(2, 1, 28, 28),), input_names=["in0"]).model_proto
    image = pf.rand(2, 1, 28, 28)
    drawn, mean, _ = run(whole, (image,))
    assert drawn.shape == (2, 1, 28, 28)
    assert np.abs(vae(image)[1].detach().numpy() - mean).max() < 1e-5


# scripts/fuzz exports programs of all kinds: these are what it seldom draws
FUNCTIONS = {
    "numbers": lambda x: (
        (x * 7) // 2, x % 0.3, (x * 9).long() // 4, (x * 9).long() % 4, (x * 9).to(pf.int16) * 3,
        pf.atan2(x, x.flip(1)), x.clamp(x - 1, x.flip(0)), (x > 0).amin(1), (x > 0) >= (x > 1),
        pf.maximum(x > 0, x < 1), x.argmin(), x.argmax(1), pf.linalg.det(x), x.logsumexp(1),
    ),
    "indices": lambda x: (
        x.gather(1, x.argsort(1)), x.topk(2, 1)[0], x.unfold(1, 2, 1), F.one_hot(x.argmax(2), 4),
        pf.einsum("btc,bdc->btd", x, x), x.index_add(1, pf.tensor([1, 0, 1]), x[:, :3]),
        x.kthvalue(2, 1)[0], x.msort(), x.median(2)[0], x.tril(), pf.cumulative_trapezoid(x, dim=1),
        pf.arange(x.shape[0]) * 2, x.view(x.shape[0] * x.shape[1], -1), *x.chunk(2, 1),
    ),
    "masks": lambda x: (
        pf.masked.softmax(x, 2, mask=x >= x[..., :1]), F.normalize(x), F.glu(x), F.hardswish(x),
        F.scaled_dot_product_attention(x, x, x, attn_mask=pf.eye(4).bool() & (x[0] > 0)[:, :1]),
        F.scaled_dot_product_attention(x, x, x, attn_mask=pf.ones(4, 4).tril().bool()),
        F.gelu(x), F.gelu(x, approximate="tanh"), F.mish(x), F.celu(x), F.rms_norm(x, (4,)),
    ),
}  # fmt: skip
OF_IMAGES = {
    "pools": lambda x: (
        F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 2, ceil_mode=True), F.avg_pool2d(x, 3, 2, 1),
        F.avg_pool2d(x, 2, count_include_pad=False), F.adaptive_avg_pool2d(x, (2, 4)),
        F.adaptive_max_pool2d(x, 2), F.adaptive_avg_pool2d(x, 3), F.instance_norm(x),
        F.group_norm(x, 2), F.fold(F.unfold(x, 2), (8, 8), 2),
    ),
    "sizes": lambda x: (
        F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 7), mode="bilinear"),
        F.interpolate(x, scale_factor=1.3, mode="bilinear", align_corners=True),
        F.interpolate(x, size=(16, 12), mode="bicubic"), F.pixel_shuffle(x, 2),
        F.conv2d(x, pf.ones(4, 4, 3, 3), padding="same"),
        F.conv_transpose2d(x, pf.ones(4, 2, 3, 3), stride=2, padding=1, output_padding=1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("opset", [18, 24])
@pytest.mark.parametrize("name", [*FUNCTIONS, *OF_IMAGES])
def test_functions_of_any_batch(name: str, opset: int) -> None:
    fn = {**FUNCTIONS, **OF_IMAGES}[name]
    more = (4, 4) if name in FUNCTIONS else (4, 8, 8)
    x, y = pf.randn(2, *more), pf.randn(3, *more)
    exported(fn, (x,), (y,), axes={0: "batch"}, opset_version=opset)


def test_what_an_opset_has_not_is_named() -> None:
    x = pf.randint(0, 9, (2, 3))
    with pytest.raises(pf.onnx.UnsupportedOperatorError, match="opset 17 has no BitwiseAnd"):
        pf.onnx.export(lambda x: x & 3, x, opset_version=17)
    with pytest.raises(pf.onnx.UnsupportedOperatorError, match="ScatterND of opset 13 has no redu"):
        pf.onnx.export(lambda x: x.index_add(0, pf.tensor([0]), x[:1]), x, opset_version=13)
    with pytest.raises(pf.onnx.UnsupportedOperatorError, match="ONNX has no complex64 here"):
        pf.onnx.export(lambda x: x.conj(), pf.zeros(2, dtype=pf.complex64))


def test_softmax_of_a_number() -> None:
    x = pf.tensor(2.0)
    exported(lambda x: (pf.softmax(x, 0), pf.log_softmax(x, -1), pf.softmax(x, 0).log()), (x,))


def test_the_nearest_element_is_the_one_of_others() -> None:
    """The scale comes in float32, in which 2 / 0.4 is 5."""
    x = pf.randn(1, 1, 3, 8)
    resized = lambda x: F.interpolate(x, scale_factor=0.4)  # noqa: E731
    model = exported(resized, (x,))
    assert (pf.onnx.load(model)(x) == resized(x)).all()


def test_numbers_of_bfloat16() -> None:
    proto = pf.onnx.export(lambda x: (x * 1.5).float(), pf.ones(3).bfloat16()).model_proto
    onnx.checker.check_model(proto, full_check=True)
    assert pf.onnx.load(proto)(pf.ones(3).bfloat16()).tolist() == [1.5] * 3


def test_for_which_sizes_a_model_is() -> None:
    axes = {"x": {0: "b"}}
    program = pf.onnx.export(lambda x: x.chunk(3)[-1], pf.ones(3, 2), dynamic_axes=axes)
    assert program.graph.guards
    with pytest.raises(pf.export.ConstraintViolationError, match="asks for the memory of a tensor"):
        pf.onnx.export(lambda x: x.as_strided((2,), (1,)), pf.ones(3, 2), dynamic_axes=axes)


def test_writes_in_place() -> None:
    def fn(x: Any) -> Any:
        y = x.clone()
        y[:, 0] = 1
        y[:, 1].mul_(2)
        y[pf.tensor([0, 1]), pf.tensor([2, 3])] = 7.0
        y += 1
        z = y.index_reduce(1, pf.tensor([1, 0]), y[:, :2] * 2, "amax")
        return y, F.relu(y, inplace=True), y, z

    exported(fn, (pf.randn(2, 4),))


def test_what_is_exported_may_be_a_trace_or_a_program() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval()
    x, y = pf.randn(2, 4), pf.randn(5, 4)
    exported(pf.jit.trace(net, x), (x,), (y,), axes={0: "b"})
    program = pf.export.export(net, (x,), dynamic_shapes={"input": {0: pf.export.Dim("b")}})
    proto = pf.onnx.export(program, input_names=["in0"]).model_proto
    assert np.abs(run(proto, (y,))[0] - net(y).detach().numpy()).max() < 1e-6
    assert proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "b"


def test_training_mode_is_left_alone() -> None:
    net = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5))
    before = net[0].running_mean.clone()
    proto = pf.onnx.export(net, (pf.randn(3, 4),)).model_proto
    assert net.training
    assert (net[0].running_mean == before).all()
    assert kinds(proto) == {"BatchNormalization", "Identity"}


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = nn.Linear(64, 32), pf.randn(64)
    path = str(tmp_path / "net.onnx")
    pf.onnx.export(net, x, path, input_names=["in0"], output_names=["scores"])
    assert onnx.load(path).graph.output[0].name == "scores"
    whole = run(path, (x,))
    file = io.BytesIO()
    pf.onnx.export(net, x, file, input_names=["in0"], output_names=["scores"])
    assert file.getvalue() == Path(path).read_bytes()
    pf.onnx.export(net, x, path, input_names=["in0"], external_data=True)
    assert Path(f"{path}.data").stat().st_size == 4 * 64 * 32
    onnx.checker.check_model(path, full_check=True)
    assert (run(path, (x,))[0] == whole[0]).all()
    large = str(tmp_path / "large.onnx")
    monkeypatch.setattr(sys.modules["pyframe.onnx.export"], "LARGEST", 4 * 64 * 32)
    pf.onnx.export(nn.Sequential(net, nn.Linear(32, 64)), x, large, input_names=["in0"])
    assert Path(f"{large}.data").exists()
    assert run(large, (x,))[0].shape == (64,)


def test_packed_sequences() -> None:
    """The example fills its padding, and so does what comes out, whatever the lengths are."""
    utils, rnn, x = nn.utils.rnn, nn.GRU(1, 2, batch_first=True), pf.randn(2, 3, 1)

    def through(x: Any, lengths: Any) -> Any:
        found, _ = rnn(utils.pack_padded_sequence(x, lengths, True, False))
        return utils.pad_packed_sequence(found, True, 0.5, 3)[0]

    with pytest.raises(GraphError, match="the example of an export needs a sequence that fills"):
        pf.onnx.export(through, (x, pf.tensor([1, 2])))
    names = {"input_names": ["in0", "in1"]}
    proto = pf.onnx.export(through, (x, pf.tensor([2, 3])), **names).model_proto
    for lengths in ([3, 1], [1, 2]):
        want = through(x, pf.tensor(lengths)).detach().numpy()
        (found,) = run(proto, (x, pf.tensor(lengths)))
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_what_there_is_no_row_for_is_named() -> None:
    class Bessel(nn.Module):
        def forward(self, x: Any) -> Any:
            return pf.special.i0e(x)

    net = nn.Sequential(nn.Linear(2, 2), Bessel())
    with pytest.raises(pf.onnx.UnsupportedOperatorError, match=r"op.i0e in 1 can't be written"):
        pf.onnx.export(net, pf.randn(1, 2))
    with pytest.raises(pf.onnx.UnsupportedOperatorError, match="the memory of x, which lies in"):
        pf.onnx.export(lambda x: x.as_strided((2,), (1,)), pf.randn(2, 2).T)
    with pytest.raises(ValueError, match="an opset of 13 to 24, got 7"):
        pf.onnx.export(net, pf.randn(1, 2), opset_version=7)
