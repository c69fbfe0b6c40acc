"""pf.plot: what is drawn is what was given, on figures that show themselves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from processes import python

import pyframe as pf
from pyframe import nn

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is missing (scripts/test)")

from matplotlib import figure as figures  # noqa: E402

TABLE = {
    "loss": [2.0, 1.0, 0.5, 0.4],
    "accuracy": [0.2, 0.5, 0.7, 0.8],
    "lr": [0.1, 0.01, 0.001, 0.0001],
    "val_loss": [2.5, 1.5, 1.25, 1.75],
    "val_accuracy": [0.7, 0.6],
}


def lines(ax: Any) -> dict[str, tuple[list[float], list[float]]]:
    """The lines of an Axes by their labels."""
    return {line.get_label(): tuple(map(list, line.get_data())) for line in ax.lines}


def pictures(figure: Any) -> list[np.ndarray]:
    """The images of a figure, in order."""
    return [np.asarray(ax.images[0].get_array()) for ax in figure.axes if ax.images]


def drawn(figure: Any) -> bytes:
    """The PNG that a notebook shows, which must be without warnings."""
    data, size = figure._repr_png_()
    width, height = figure.get_size_inches()
    assert size == {"width": round(100 * width), "height": round(100 * height)}
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return bytes(data)


def test_history() -> None:
    figure = pf.plot.history(TABLE)
    loss, accuracy, rate = figure.axes
    assert [a.get_title("left") for a in figure.axes] == ["loss", "accuracy", "learning rate"]
    found = lines(loss)
    assert found["training"] == ([1, 2, 3, 4], TABLE["loss"])
    assert found["validation"] == ([1, 2, 3, 4], TABLE["val_loss"])
    assert found["least: 1.25 in epoch 3"] == ([3], [1.25])
    assert lines(accuracy)["validation"] == ([3, 4], [0.7, 0.6])  # only the last epochs had it
    assert rate.get_yscale() == "log"
    assert rate.get_legend() is None
    assert loss.get_xlabel() == "epoch"
    assert all(tick == int(tick) for tick in loss.get_xticks())
    drawn(figure)


def test_history_takes_what_fit_gives() -> None:
    fitted = SimpleNamespace(history={"loss": [3.0, pf.tensor(2.0)]}, epoch=[4, 5])
    for given in (fitted, SimpleNamespace(history=fitted)):  # a History, and a Model that has one
        (ax,) = pf.plot.history(given).axes
        assert lines(ax)["training"] == ([4, 5], [3, 2])
    own = figures.Figure()
    ax = own.add_subplot()
    assert pf.plot.history(TABLE, ax) is own
    assert {"training", "validation", "accuracy", "val_accuracy", "lr"} <= set(lines(ax))
    net = nn.Linear(2, 1)
    model = pf.Model(net, nn.MSELoss(), pf.optim.SGD(net.parameters(), 0.1))
    found = model.fit(pf.ones(4, 2), pf.ones(4, 1), epochs=2, device=None, verbose=0)
    assert lines(pf.plot.history(found).axes[0])["training"] == ([1, 2], found.history["loss"])
    constant = {"loss": [2.0, 1.0], "lr": [0.1, 0.1]}
    assert len(pf.plot.history(constant).axes) == 1
    assert len(pf.plot.history({"lr": [0.1, 0.1]}).axes) == 1
    gaps = {"loss": [1.0, 2.0, 3.0], "val_loss": [float("nan"), 4.0, float("nan")]}
    assert lines(pf.plot.history(gaps).axes[0])["validation"] == ([2], [4])
    for wrong, error in (({}, ValueError), ({"loss": []}, ValueError), (3, TypeError)):
        with pytest.raises(error, match=r"plot\.history: "):
            pf.plot.history(wrong)


def test_lr_find() -> None:
    rates = np.logspace(-5, 0, 20)
    losses = np.r_[np.linspace(2, 1, 17), 5, 1000, np.inf]
    figure = pf.plot.lr_find(rates, pf.tensor(losses), suggestion=3e-3)
    (ax,) = figure.axes
    assert ax.get_xscale() == "log"
    assert ax.get_ylim()[1] < 4  # what comes before it diverges can be seen
    assert len(ax.lines[0].get_xdata()) == 19
    assert [t.get_text() for t in ax.texts] == ["suggested: 0.003"]
    drawn(figure)
    assert not pf.plot.lr_find(rates, losses).axes[0].texts
    with pytest.raises(ValueError, match=r"got \[2\] and \[3\]"):
        pf.plot.lr_find([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="positive rates with finite losses"):
        pf.plot.lr_find([1.0], [np.nan])


def test_confusion_matrix(device: str) -> None:
    counts = pf.tensor([[90, 10, 0], [0, 40, 10], [0, 0, 0]], device=device)
    figure = pf.plot.confusion_matrix(counts, ["cat", "dog", "cow"])
    ax = figure.axes[0]
    np.testing.assert_allclose(pictures(figure)[0], [[0.9, 0.1, 0], [0, 0.8, 0.2], [0, 0, 0]])
    assert {t.get_text() for t in ax.texts} == {
        "90\n90.0 %", "10\n10.0 %", "40\n80.0 %", "10\n20.0 %"
    }  # fmt: skip
    assert [t.get_text() for t in ax.get_xticklabels()] == ["cat", "dog", "cow"]
    assert ax.get_title("left") == "86.7 % of 150 are right"
    colors = {t.get_text()[:2]: t.get_color() for t in ax.texts}
    assert colors["90"] == "white" != colors["10"]
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("true class", "predicted class")
    drawn(figure)
    metric = SimpleNamespace(compute=lambda: counts)
    assert len(pf.plot.confusion_matrix(metric).axes[0].texts) == 4
    assert not pf.plot.confusion_matrix(np.ones((40, 40))).axes[0].texts  # too small to read
    with pytest.raises(ValueError, match=r"expected counts \(C, C\), got shape \[2, 3\]"):
        pf.plot.confusion_matrix(np.ones((2, 3)))
    with pytest.raises(ValueError, match="got 1 labels for 3 classes"):
        pf.plot.confusion_matrix(counts, ["cat"])


def test_images(device: str) -> None:
    x = pf.rand(5, 3, 7, 6, device=device)
    figure = pf.plot.images(x, pf.arange(5, device=device).cpu())
    shown = pictures(figure)
    np.testing.assert_array_equal(shown[2], x[2].permute(1, 2, 0).cpu().numpy())
    assert [ax.get_title() for ax in figure.axes[:5]] == ["0", "1", "2", "3", "4"]
    drawn(figure)
    arrays = x.cpu().numpy()
    forms = {
        "NCHW": arrays, "NHWC": arrays.transpose(0, 2, 3, 1), "list": list(arrays),
        "bytes": (arrays * 255).astype(np.uint8),
    }  # fmt: skip
    for form, given in forms.items():
        np.testing.assert_allclose(pictures(pf.plot.images(given))[2], shown[2], atol=1 / 255,
                                   err_msg=form)  # fmt: skip
    gray = pictures(pf.plot.images(pf.randn(3, 5, 5) * 4, ["a", "b", "c"]))
    assert [p.shape for p in gray] == [(5, 5)] * 3
    assert (np.min(gray), np.max(gray)) == (0, 1)  # scaled, all alike
    many = pf.plot.images(pf.zeros(10, 1, 2, 2), most=4, columns=2)
    assert len(pictures(many)) == 4
    assert many.get_suptitle() == "4 of 10 images"
    with pytest.raises(ValueError, match=r"got shape \[2, 5, 6, 6\]"):
        pf.plot.images(pf.zeros(2, 5, 6, 6))
    with pytest.raises(ValueError, match="got 1 labels for 5 images"):
        pf.plot.images(x, ["a"])
    with pytest.raises(TypeError, match=r"plot\.images: expected numbers, got str"):
        pf.plot.images("cat.png")


FILTERS = [  # a layer, how many pictures, of what shape
    (nn.Conv2d(3, 8, 5), 8, (5, 5, 3)),
    (nn.Conv2d(1, 8, 5), 8, (5, 5)),
    (nn.Conv2d(20, 8, 3), 64, (3, 3)),  # 4 filters, 16 channels of each
    (nn.ConvTranspose2d(3, 8, 4), 8, (4, 4, 3)),
    (nn.Conv1d(4, 6, 7), 6, (4, 7)),
    (nn.Conv3d(1, 2, 3), 2, (3, 3)),
    (nn.Linear(49, 10), 10, (7, 7)),
    (nn.Linear(10, 3), 1, (3, 10)),
]


@pytest.mark.parametrize("layer", FILTERS, ids=lambda layer: type(layer[0]).__name__)
def test_filters(layer: tuple[Any, int, tuple[int, ...]]) -> None:
    net, count, shape = layer
    shown = pictures(pf.plot.filters(net))
    assert [p.shape for p in shown] == [shape] * count
    if len(shape) == 3:
        assert all((p.min(), p.max()) == (0, 1) for p in shown)
    else:
        assert max(np.abs(p).max() for p in shown) == 1


def test_feature_maps(device: str) -> None:
    net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 5)).to(
        device
    )
    x = pf.rand(2, 1, 8, 8)
    out = net[0](x.to(device))[0].detach().cpu().numpy()
    for layer in ("0", net[0]):
        shown = pictures(pf.plot.feature_maps(pf.Model(net), x.numpy(), layer))
        assert len(shown) == 6
        for map_, found in zip(out, shown, strict=True):
            scaled = (map_ - map_.min()) / (map_.max() - map_.min())
            np.testing.assert_allclose(found, scaled, rtol=1e-4, atol=1e-5)
    figure = pf.plot.feature_maps(net, x, "3")
    assert figure.get_suptitle() == "3 (Linear): 1 map of 1×5"
    assert not net[0]._forward_hooks
    with pytest.raises(ValueError, match="there is no layer 'conv'; expected one of 0, 1, 2, 3"):
        pf.plot.feature_maps(net, x, "conv")
    with pytest.raises(ValueError, match="the layer is no module of the net"):
        pf.plot.feature_maps(net, x, nn.ReLU())


def test_embedding() -> None:
    points = np.random.default_rng(0).normal(size=(60, 5)) * [9, 1, 0.5, 4, 0.1]
    figure = pf.plot.embedding(pf.tensor(points), [*"abc"] * 20)
    (ax,) = figure.axes
    assert [c.get_label() for c in ax.collections] == ["a", "b", "c"]
    drawn(figure)
    order = np.argsort(np.r_[0:60:3, 1:60:3, 2:60:3])
    found = np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])[order]
    centred = points - points.mean(0)
    _, s, vh = np.linalg.svd(centred, full_matrices=False)
    for i in range(2):
        want = centred @ vh[i]
        assert np.allclose(found[:, i], want) or np.allclose(found[:, i], -want)
    share = 100 * s[0] ** 2 / (s**2).sum()
    assert ax.get_xlabel() == f"first principal component ({share:.1f} % of the variance)"
    values = pf.plot.embedding(points[:, :2], pf.tensor(points[:, 2]))
    np.testing.assert_array_equal(values.axes[0].collections[0].get_offsets(), points[:, :2])
    assert len(values.axes) == 2  # with a bar for the values
    many = pf.plot.embedding(points, np.arange(60) % 12)
    assert len(many.axes[0].collections) == 12
    for wrong, said in (
        ({"points": points[:, :1]}, "expected points"),
        ({"points": points, "labels": [1, 2]}, "expected 60 labels"),
        ({"points": points, "method": "umap"}, "'pca' or 'tsne', got 'umap'"),
    ):
        with pytest.raises(ValueError, match=said):
            pf.plot.embedding(**wrong)


def test_embedding_by_tsne() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is missing (scripts/test)")
    points = 50 * np.eye(2, 6)[np.arange(20) % 2] + np.random.default_rng(0).normal(size=(20, 6))
    found = pf.plot.embedding(points, method="tsne").axes[0].collections[0].get_offsets()
    near = np.linalg.norm(found[:, None] - found[None], axis=-1) + np.eye(20) * 1e9
    assert (near.argmin(0) % 2 == np.arange(20) % 2).all()  # the nearest is of the same group


def test_no_pyplot_no_window_no_extra() -> None:
    code = (
        "import sys, pyframe as pf; pf.plot.lr_find([1, 2], [3, 4])._repr_png_();"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    python("-W", "error", "-c", code)
    code = "import sys; sys.modules['matplotlib'] = None; import pyframe as pf; pf.plot.history"
    _, err = python("-c", code, status=1)
    assert 'ImportError: pyframe.plot needs matplotlib: pip install -e ".[plot]"' in err
