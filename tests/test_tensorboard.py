"""SummaryWriter: TensorBoard's own reader finds in its files what was added."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import python

import pyframe as pf
from pyframe import nn

pytest.importorskip("tensorboardX", reason="tensorboardX is missing (scripts/test)")
pytest.importorskip("tensorboard", reason="tensorboard, which reads the files, is missing")
# its own modules use what protobuf will drop
with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2
    from tensorboard.util import tensor_util

from pyframe.utils.tensorboard import SummaryWriter


def read(folder: Any) -> EventAccumulator:
    """What TensorBoard finds in a folder."""
    found = EventAccumulator(str(folder), size_guidance={})
    found.Reload()
    return found


def test_numbers(device: str, tmp_path: Path) -> None:
    x = pf.tensor(2.5, device=device, requires_grad=True)
    values = [x * 2, 3, np.float32(0.5), pf.tensor([7.0], dtype=pf.bfloat16, device=device)]
    with SummaryWriter(tmp_path) as writer:
        assert writer.get_logdir() == str(tmp_path)
        for step, value in enumerate(values):
            writer.add_scalar("loss/train", value, step, walltime=100.0 + step)
        writer.add_scalar("new", x, pf.tensor(4), new_style=True)
        writer.add_scalar("precise", 1 / 3, 4, double_precision=True)
        writer.add_tensor("whole", pf.arange(6, device=device).reshape(2, 3), 1)
        writer.add_scalars("both", {"a": x, "b": 2}, 5)
        with pytest.raises(ValueError, match=r"add_scalar\('many'\): expected one number"):
            writer.add_scalar("many", pf.ones(2))
        with pytest.raises(TypeError, match="expected a Tensor, an array or numbers, got 'text'"):
            writer.add_scalar("text", "text")
    found = read(tmp_path)
    events = found.Scalars("loss/train")
    assert [(e.step, e.value, e.wall_time) for e in events] == [
        (0, 5, 100), (1, 3, 101), (2, 0.5, 102), (3, 7, 103)
    ]  # fmt: skip
    tensors = {t: tensor_util.make_ndarray(found.Tensors(t)[0].tensor_proto)
               for t in ("new", "precise", "whole")}  # fmt: skip
    assert found.Tensors("new")[0].step == 4
    assert tensors["new"] == 2.5
    assert tensors["precise"] == 1 / 3
    np.testing.assert_array_equal(tensors["whole"], [[0, 1, 2], [3, 4, 5]])
    assert [e.value for e in read(tmp_path / "both_a").Scalars("both")] == [2.5]
    assert [e.value for e in read(tmp_path / "both_b").Scalars("both")] == [2]


def test_distributions(tmp_path: Path) -> None:
    x = pf.randn(1000)
    labels, scores = (pf.rand(200) > 0.5).int(), pf.rand(200)
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("weights", x, 3)
        writer.add_histogram("few", x.tolist(), 3, bins=10, max_bins=5)
        counts, ends = np.histogram(x.numpy(), bins=4)
        writer.add_histogram_raw("raw", x.min(), x.max(), 1000, x.sum(), (x * x).sum(), ends[1:],
                                 counts)  # fmt: skip
        writer.add_pr_curve("pr", labels, scores, 1, num_thresholds=11)
        with pytest.raises(ValueError, match="as many bucket_counts as bucket_limits, got 4 and 5"):
            writer.add_histogram_raw("raw", 0, 1, 1, 1, 1, ends, counts)
    found = read(tmp_path)
    for tag in ("weights", "few", "raw"):
        histogram = found.Histograms(tag)[0].histogram_value
        assert histogram.num == 1000
        assert histogram.min == pytest.approx(x.min().item())
        assert sum(histogram.bucket) == 1000
    assert found.Histograms("raw")[0].histogram_value.bucket == counts.tolist()
    curve = tensor_util.make_ndarray(found.Tensors("pr")[0].tensor_proto)
    assert curve.shape == (6, 11)
    assert curve[0, 0] == labels.sum().item()  # at a threshold of 0 all are called true


def test_pictures_texts_and_points(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is missing")
    from io import BytesIO

    def pixels(tag: str) -> np.ndarray:
        return np.asarray(image.open(BytesIO(found.Images(tag)[0].encoded_image_string)))

    x = pf.zeros(3, 4, 6)
    x[0], x[1] = 1.0, 0.5
    x[2] = 7.0  # too bright
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("one", x, 1)
        writer.add_image("gray", np.full((4, 6), 9, np.uint8), dataformats="HW")
        writer.add_images("some", pf.stack([x, x]))
        writer.add_images("list", [x, x, x], dataformats="CHW")
        writer.add_image_with_boxes("boxes", x, pf.tensor([[1, 1, 3, 3]]))
        writer.add_text("notes", "it *learns*", 2)
        writer.add_mesh("mesh", pf.rand(1, 5, 3))
        writer.add_embedding(pf.eye(4, 3), ["a", "b", "c", "d"], pf.rand(4, 3, 8, 8), 7, "e/x")
        writer.add_embedding(pf.eye(4, 3), [["a", 1]] * 4, metadata_header=["name", "number"])
        writer.add_custom_scalars_multilinechart(["a", "b"], "all", "two")
        with pytest.raises(ValueError, match="got 3 metadata for 4 points"):
            writer.add_embedding(pf.eye(4), ["a", "b", "c"])
        with pytest.raises(ValueError, match="expected 3 tags"):
            writer.add_custom_scalars_marginchart(["a"])
    found = read(tmp_path)
    np.testing.assert_array_equal(pixels("one"), np.broadcast_to([255, 127, 255], (4, 6, 3)))
    assert (pixels("gray") == 9).all()
    assert found.Images("some")[0].width == 12
    assert found.Images("list")[0].width * found.Images("list")[0].height >= 3 * 24
    assert found.Images("boxes")[0].height == 4
    (text,) = tensor_util.make_ndarray(found.Tensors("notes/text_summary")[0].tensor_proto)
    assert text == b"it *learns*"
    mesh = tensor_util.make_ndarray(found.Tensors("mesh_1")[0].tensor_proto)
    assert mesh.shape == (1, 5, 3)
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert 'tensor_path: "00007/e%2fx/tensors.tsv"' in config
    assert config.count("embeddings {") == 2
    rows = (tmp_path / "00007" / "e%2fx" / "tensors.tsv").read_text().splitlines()
    assert rows[1] == "0.0\t1.0\t0.0"
    assert (tmp_path / "00007" / "e%2fx" / "sprite.png").exists()
    labels = (tmp_path / "00000" / "default" / "metadata.tsv").read_text().splitlines()
    assert labels[0] == "name\tnumber"
    assert labels[1] == "a\t1"


@pytest.mark.parametrize(
    ("method", "module", "package"),
    [
        ("add_video", "moviepy", "moviepy"),
        ("add_audio", "soundfile", "soundfile"),
        ("add_image", "PIL", "pillow"),
    ],
)
def test_other_packages(
    method: str, module: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    said = f"{method} needs {package}: pip install {package}"
    with SummaryWriter(tmp_path) as writer, pytest.raises(ImportError, match=said):
        getattr(writer, method)("tag", pf.zeros(1, 1, 3, 2, 2))


def test_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is missing")
    figure = pf.plot.lr_find([1e-3, 1e-2, 1e-1], [2.0, 1.0, 3.0])
    with SummaryWriter(tmp_path) as writer:
        writer.add_figure("one", figure, 1)
        writer.add_figure("two", [figure, figure], 1)
    found = read(tmp_path)
    one, two = found.Images("one")[0], found.Images("two")[0]
    width, height = figure.get_size_inches() * figure.dpi
    assert (one.width, one.height) == (int(width), int(height))
    assert two.width == 2 * one.width


def test_hparams(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams(
            {"lr": 0.1, "layers": 3, "norm": True, "name": "adam", "no": None, "wd": pf.tensor(2)},
            {"hparam/loss": pf.tensor(0.25)}, {"layers": [1, 3, 5], "name": ["adam", "sgd"]},
            run_name="run", global_step=9,
        )  # fmt: skip
        with pytest.raises(ValueError, match="'sizes' must be a bool, str, float, int or None"):
            writer.add_hparams({"sizes": [1, 2]}, {})
        with pytest.raises(TypeError, match="should be dictionary"):
            writer.add_hparams([1], {})  # type: ignore[arg-type]
    found = read(tmp_path / "run")
    assert [(e.step, e.value) for e in found.Scalars("hparam/loss")] == [(9, 0.25)]

    def data(tag: str) -> Any:
        content = found.SummaryMetadata(f"_hparams_/{tag}").plugin_data
        assert content.plugin_name == "hparams"
        return plugin_data_pb2.HParamsPluginData.FromString(content.content)

    given = data("session_start_info").session_start_info.hparams
    assert given["lr"].number_value == 0.1
    assert given["wd"].number_value == 2
    assert given["norm"].bool_value
    assert given["name"].string_value == "adam"
    infos = {i.name: i for i in data("experiment").experiment.hparam_infos}
    assert list(infos["layers"].domain_discrete) == [1, 3, 5]
    metrics = data("experiment").experiment.metric_infos
    assert [m.name.tag for m in metrics] == ["hparam/loss"]


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x: pf.Tensor, scale: pf.Tensor) -> pf.Tensor:
        return (x + self.body(x)) * scale


def test_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Residual()
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(net, (pf.ones(2, 4), pf.ones(1)), verbose=True)
        with pytest.raises(ValueError, match="give an input"):
            writer.add_graph(net)
    assert "Residual/body/0" in capsys.readouterr().out
    found = read(tmp_path).Graph()
    nodes = {n.name: n for n in found.node}
    assert {name: list(n.input) for name, n in nodes.items()} == {
        "Residual/input/x": [],
        "Residual/input/scale": [],
        "Residual/body/0": ["Residual/input/x"],
        "Residual/body/1": ["Residual/body/0"],
        "Residual/add, mul": [
            "Residual/input/scale", "Residual/input/x", "Residual/body/1"
        ],
        "Residual/output": ["Residual/add, mul"],
    }  # fmt: skip
    linear = nodes["Residual/body/0"]
    assert linear.op == "Linear"
    assert linear.attr["parameters"].i == 20
    assert linear.attr["attr"].s == b"in_features=4, out_features=4, bias=True"
    shape = linear.attr["_output_shapes"].list.shape[0]
    assert [d.size for d in shape.dim] == [2, 4]


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    writer = SummaryWriter(comment="_small", filename_suffix=".end")
    folder = Path(writer.get_logdir())
    assert folder.parent == Path("runs")
    assert folder.name.endswith("_small")
    writer.add_scalar("a", 1, 0)
    writer.flush()
    assert [e.step for e in read(folder).Scalars("a")] == [0]
    writer.close()
    writer.close()
    writer.add_scalar("a", 2, 1)  # a new file
    writer.close()
    assert all(name.endswith(".end") for name in os.listdir(folder))
    with SummaryWriter(folder, purge_step=1) as again:
        again.add_scalar("a", 3, 1)
    assert [(e.step, e.value) for e in read(folder).Scalars("a")] == [(0, 1), (1, 3)]


def test_signatures_are_pytorchs(torch: Any) -> None:
    with warnings.catch_warnings(action="ignore"):
        theirs = pytest.importorskip("torch.utils.tensorboard").SummaryWriter
    missing = {"add_onnx_graph"}  # there is no ONNX
    for name, method in inspect.getmembers(theirs, inspect.isfunction):
        if name in missing or (name.startswith("_") and name != "__init__"):
            continue
        want = inspect.signature(method).parameters
        got = inspect.signature(getattr(SummaryWriter, name)).parameters
        assert [*got] == [*want], name
        for k in got:
            if k != "self":
                assert got[k].default == want[k].default, (name, k)


def test_programs_of_pytorchs(tmp_path: Path) -> None:
    code = (
        "from torch.utils.tensorboard import SummaryWriter\n"
        "with SummaryWriter('logs') as w:\n    w.add_scalar('a', 1.5, 2)\n"
    )
    (tmp_path / "program.py").write_text(code)
    python("-m", "pyframe.torch", "program.py", folder=tmp_path)
    assert [(e.step, e.value) for e in read(tmp_path / "logs").Scalars("a")] == [(2, 1.5)]
    blocked = "import sys; sys.modules['tensorboardX'] = None; "
    code = f"{blocked}from pyframe.torch import install; install(); import torch.utils.tensorboard"
    _, err = python("-c", code, status=1)
    assert "ImportError: pyframe.utils.tensorboard needs tensorboardX: pip" in err
