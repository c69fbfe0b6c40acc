"""Boxes, regions and blocks, against torchvision's formulas or obvious loops."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from refused import calls, check_refused, rows

import pyframe as pf
from pyframe import nn
from pyframe.vision import ops


def boxes(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.RandomState(seed)
    low, size = rng.uniform(0, 10, (*shape, 2)), rng.uniform(0.1, 10, (*shape, 2))
    return np.concatenate([low, low + size], -1).astype(np.float32)


def masks() -> np.ndarray:
    found = np.zeros((3, 6, 7), np.uint8)
    found[0, 2:4, 1:5] = 1
    found[2, 5, 6] = 3
    return found


A, B = (2, 5), (2, 3)
PAIRWISE = ["box_iou", "generalized_box_iou", "distance_box_iou", "complete_box_iou"]
LOSSES = ["generalized_box_iou_loss", "distance_box_iou_loss", "complete_box_iou_loss"]
FORMS = ["xyxy", "xywh", "cxcywh"]
CALLS: list[tuple[str, list[Any], dict[str, Any]]] = [
    *((name, [boxes(*A), boxes(*B, seed=1)], {}) for name in PAIRWISE),
    *(("box_iou", [boxes(*A), boxes(*B, seed=1)], {"fmt": form}) for form in FORMS),
    *(("box_area", [boxes(*A)], {"fmt": form}) for form in FORMS),
    *(("box_convert", [boxes(*A), a, b], {}) for a in FORMS for b in FORMS),
    ("box_area", [(boxes(4) * 10).astype(np.int16)], {}),
    ("box_iou", [boxes(4).astype(np.float16), boxes(3, seed=1).astype(np.float16)], {}),
    ("clip_boxes_to_image", [boxes(*A), (7, 5)], {}),
    ("remove_small_boxes", [boxes(9), 4.0], {}),
    ("masks_to_boxes", [masks()], {}),
    ("masks_to_boxes", [np.zeros((0, 3, 3), np.uint8)], {}),
    *((name, [boxes(6), boxes(6, seed=1)], {"reduction": "none"}) for name in LOSSES),
    *((name, [boxes(6), boxes(6, seed=1)], {"reduction": "mean"}) for name in LOSSES),
    ("distance_box_iou_loss", [boxes(0), boxes(0)], {"reduction": "mean"}),
    ("sigmoid_focal_loss", [boxes(3) - 5, boxes(3) // 20], {"reduction": "sum"}),
    ("sigmoid_focal_loss", [boxes(3) - 5, boxes(3) // 20], {"alpha": -1, "gamma": 1.5}),
]


def given(make: Any, args: list[Any], grad: bool) -> list[Any]:
    tensors = [make(a.copy()) if isinstance(a, np.ndarray) else a for a in args]
    if grad:
        tensors[0].requires_grad_()
    return tensors


@pytest.mark.parametrize(("name", "args", "options"), CALLS)
def test_formulas(
    name: str, args: list[Any], options: dict[str, Any], torch: Any, torchvision: Any
) -> None:
    grad = args[0].dtype == np.float32 and name not in ("remove_small_boxes",)
    x, y = given(pf.from_numpy, args, grad), given(torch.from_numpy, args, grad)
    ours, theirs = getattr(ops, name)(*x, **options), getattr(torchvision.ops, name)(*y, **options)
    assert str(ours.dtype).partition(".")[2] == str(theirs.dtype).partition(".")[2]
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-4, atol=1e-5)
    if grad:
        ours.sum().backward()
        theirs.sum().backward()
        np.testing.assert_allclose(x[0].grad.numpy(), y[0].grad.numpy(), rtol=1e-3, atol=1e-4)


UNKNOWN = r"""
box_convert(x, "xyxy", "xyx") | box_area(x, "area") | box_iou(x, x, "cxcywhr")
sigmoid_focal_loss(x, x, reduction="most") | sigmoid_focal_loss(x, x, alpha=2)
stochastic_depth(x, 1.5, "row") | stochastic_depth(x, 0.5, "column")
"""
MISFITS = r"""
nms(x, pf.zeros(2), 0.5) -> RuntimeError: boxes \(N, 4\) and scores \(N,\), got \[3, 4\]
batched_nms(x, pf.zeros(3), pf.zeros(2), 0.5) -> RuntimeError: expected idxs \(3,\), got \[2\]
roi_align(maps, x, 2) -> AssertionError: roi_align: expected .*\(L, 4\)
roi_align(maps, [pf.zeros(3, 5)], 2) -> AssertionError: roi_align: expected .*\(L, 4\)
roi_align(maps, "boxes", 2) -> AssertionError: roi_align: expected .*\(L, 4\)
"""
WRONG = [(call, "ValueError: expected|between|has to be") for call in calls(UNKNOWN)]


@pytest.mark.parametrize(("call", "text"), WRONG + rows(MISFITS))
def test_wrong_calls(call: str, text: str) -> None:
    names = {"pf": pf, "x": pf.zeros(3, 4), "maps": pf.zeros(2, 3, 9, 11)}
    check_refused(call, text, lambda lib: {**vars(ops), **names})


# --- which boxes stay


def kept(box: np.ndarray, score: np.ndarray, threshold: float, classes: np.ndarray) -> list[int]:
    """One after the other, best first: a box stays unless one that stays overlaps it."""

    def overlap(a: np.ndarray, b: np.ndarray) -> float:
        w, h = (min(a[i + 2], b[i + 2]) - max(a[i], b[i]) for i in (0, 1))
        inner = max(w, 0) * max(h, 0)
        areas = ((c[2] - c[0]) * (c[3] - c[1]) for c in (a, b))
        return float(inner / (sum(areas) - inner))

    found: list[int] = []
    for i in sorted(range(len(box)), key=lambda i: -score[i]):
        if all(classes[i] != classes[j] or overlap(box[i], box[j]) <= threshold for j in found):
            found.append(i)
    return found


def test_nms(device: str) -> None:
    box, score = boxes(40), np.random.randint(0, 20, 40).astype(np.float32)  # some are equal
    classes = np.random.randint(0, 3, 40)
    x, s, c = (pf.from_numpy(a).to(device) for a in (box, score, classes))
    for threshold in (0.1, 0.5, 1.0):
        found = ops.nms(x, s, threshold)
        assert (found.dtype, found.device.type) == (pf.int64, x.device.type)
        assert found.tolist() == kept(box, score, threshold, np.zeros(40))
        assert ops.batched_nms(x, s, c, threshold).tolist() == kept(box, score, threshold, classes)
    assert ops.nms(x[:0], s[:0], 0.5).shape == (0,)


def test_nms_of_boxes_without_an_area() -> None:
    x = pf.zeros(3, 4)
    assert ops.nms(x, pf.tensor([1.0, 3.0, 2.0]), 0.5).tolist() == [1, 2, 0]


# --- regions


MAPS = np.random.RandomState(1).normal(size=(2, 3, 9, 11)).astype(np.float32)
REGIONS = np.array(  # within the maps; the last but one is small, the last a point
    [[0, 0, 0, 10, 8], [1, 1.3, 2.2, 7.9, 5.1], [1, 3, 1, 4.5, 7.7], [0, 2, 2, 2.4, 2.3],
     [0, 5, 5, 5, 5]], np.float32
)  # fmt: skip


ALIGNMENTS = [(r, s, a) for r, s in ((2, 1.0), (1, 0.5), (-1, 0.9)) for a in (False, True)]


def check_roi_align(device: str, ratio: int, scale: float, aligned: bool, torch: Any) -> None:
    """Against torchvision's Python version, which needs regions that lie within the maps."""
    written = importlib.import_module("torchvision.ops.roi_align")._roi_align.__wrapped__
    regions = REGIONS[:-1] if aligned else REGIONS  # else the point is no sample: 0 / 0 there
    theirs = torch.from_numpy(MAPS).clone().requires_grad_()
    ours = pf.from_numpy(MAPS).to(device).requires_grad_()
    expected = written(theirs, torch.from_numpy(regions), scale, 3, 2, ratio, aligned)
    out = ops.roi_align(ours, pf.from_numpy(regions).to(device), (3, 2), scale, ratio, aligned)
    assert out.device.type == ours.device.type
    np.testing.assert_allclose(out.detach().cpu().numpy(), expected.detach().numpy(), atol=1e-4)
    (expected * expected).sum().backward()
    (out * out).sum().backward()
    np.testing.assert_allclose(ours.grad.cpu().numpy(), theirs.grad.numpy(), atol=1e-3)


@pytest.mark.parametrize(("ratio", "scale", "aligned"), ALIGNMENTS)
def test_roi_align(ratio: int, scale: float, aligned: bool, torch: Any, torchvision: Any) -> None:
    check_roi_align("cpu", ratio, scale, aligned, torch)


def test_roi_align_on_the_gpu(gpu: str, torch: Any, torchvision: Any) -> None:
    check_roi_align(gpu, -1, 0.9, True, torch)


def test_roi_align_beyond_the_maps() -> None:
    """What lies more than a pixel outside counts as 0, what lies nearer as the edge."""
    ones = pf.ones(1, 1, 4, 4)
    out = ops.roi_align(ones, pf.tensor([[0.0, -4.0, 0.0, 4.0, 4.0]]), (1, 8), sampling_ratio=1)
    assert out.flatten().tolist() == [0.0] * 3 + [1.0] * 5
    far = ops.roi_align(ones, pf.tensor([[0.0, 90.0, 90.0, 99.0, 99.0]]), 2, sampling_ratio=2)
    assert far.flatten().tolist() == [0.0] * 4


def test_regions_in_both_forms() -> None:
    maps = pf.from_numpy(MAPS)
    lists = [pf.from_numpy(REGIONS[REGIONS[:, 0] == i, 1:]) for i in (0, 1)]
    table = pf.from_numpy(REGIONS[np.argsort(REGIONS[:, 0], kind="stable")])
    for layer in (ops.RoIAlign((2, 3), 1.0, 2, aligned=True), ops.RoIPool(2, 1.0)):
        np.testing.assert_array_equal(layer(maps, lists).numpy(), layer(maps, table).numpy())
    text = "RoIAlign(output_size=7, spatial_scale=0.5, sampling_ratio=-1, aligned=False)"
    assert repr(ops.RoIAlign(7, 0.5, -1)) == text
    assert ops.roi_align(maps, table[:0], 2).shape == (0, 3, 2, 2)


def pooled(maps: np.ndarray, region: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """The definition, bin by bin (Fast R-CNN, section 2.1)."""
    x1, y1, x2, y2 = (int(np.floor(v + 0.5)) for v in region[1:])
    out = np.zeros((maps.shape[1], rows, columns), np.float32)
    for i in range(rows):
        for j in range(columns):
            h, w = max(y2 - y1 + 1, 1) / rows, max(x2 - x1 + 1, 1) / columns
            top, left = (max(int(np.floor(k * s)) + o, 0) for k, s, o in ((i, h, y1), (j, w, x1)))
            bottom, right = (int(np.ceil((k + 1) * s)) + o for k, s, o in ((i, h, y1), (j, w, x1)))
            part = maps[int(region[0]), :, top:bottom, left:right]
            if part.size:
                out[:, i, j] = part.max((1, 2))
    return out


def test_roi_pool(device: str) -> None:
    regions = np.concatenate([REGIONS, [[1, 8, 6, 14, 12], [0, 20, 20, 22, 22]]]).astype(np.float32)
    maps = pf.from_numpy(MAPS).to(device).requires_grad_()
    out = ops.roi_pool(maps, pf.from_numpy(regions).to(device), (3, 2))
    expected = np.stack([pooled(MAPS, region, 3, 2) for region in regions])
    np.testing.assert_array_equal(out.detach().cpu().numpy(), expected)
    out.sum().backward()
    counted = np.zeros_like(MAPS)
    for value, region in zip(expected, regions, strict=True):
        for c in range(3):
            for v in value[c].flat:
                counted[int(region[0]), c] += MAPS[int(region[0]), c] == v
    np.testing.assert_allclose(maps.grad.cpu().numpy(), counted)


# --- blocks


def test_stochastic_depth(device: str) -> None:
    x = pf.ones(400, 2, 3, device=device)
    rows = ops.stochastic_depth(x, 0.25, "row").cpu().numpy()
    assert set(np.unique(rows)) == {0.0, np.float32(1 / 0.75)}
    assert (rows == rows[:, :1, :1]).all(), "a row is dropped or stays as a whole"
    assert 0.15 < (rows[:, 0, 0] == 0).mean() < 0.35
    batches = [ops.stochastic_depth(x, 0.5, "batch").unique().tolist() for _ in range(12)]
    assert sorted({b for batch in batches for b in batch}) == [0.0, 2.0]
    assert all(len(batch) == 1 for batch in batches)
    assert ops.stochastic_depth(x, 0.9, "row", training=False) is x
    assert ops.stochastic_depth(x, 1.0, "row").abs().max().item() == 0.0
    layer = ops.StochasticDepth(0.5, "row")
    assert repr(layer) == "StochasticDepth(p=0.5, mode=row)"
    assert layer.eval()(x) is x


# blocks, and the shapes of their samples
BLOCKS = """
Conv2dNormActivation(3, 4) -> 3, 7, 7
Conv2dNormActivation(4, 8, 5, 2, groups=2, dilation=2, inplace=None) -> 4, 7, 7
Conv2dNormActivation(3, 4, (3, 5), norm_layer=None, bias=False) -> 3, 7, 7
Conv2dNormActivation(3, 4, 3, dilation=(1, 2), activation_layer=None) -> 3, 7, 7
Conv3dNormActivation(2, 3) -> 2, 7, 7, 7
MLP(3, [4, 5], dropout=0.1) -> 3
MLP(3, [4, 5, 6], inplace=True, bias=False) -> 3
SqueezeExcitation(8, 2) -> 8, 7, 7
FrozenBatchNorm2d(4, eps=1e-3) -> 4, 7, 7
Permute([0, 2, 1]) -> 3, 7
"""


@pytest.mark.parametrize(("call", "shape"), rows(BLOCKS))
def test_blocks(call: str, shape: str, torch: Any, torchvision: Any) -> None:
    theirs, ours = (eval(f"ops.{call}", {"ops": lib}) for lib in (torchvision.ops, ops))
    assert repr(ours) == repr(theirs)
    state = theirs.state_dict()
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict({k: pf.from_numpy(v.numpy().copy()) for k, v in state.items()})
    x = torch.rand(2, *map(int, shape.split(", ")))
    found, want = ours.eval()(pf.from_numpy(x.numpy())), theirs.eval()(x)
    np.testing.assert_allclose(found.detach().numpy(), want.detach().numpy(), atol=1e-5)


def test_frozen_batch_norm_takes_the_state_of_one_that_is_not() -> None:
    norm = nn.BatchNorm2d(3)
    norm(pf.rand(4, 3, 5, 5))
    frozen = ops.FrozenBatchNorm2d(3)
    frozen.load_state_dict(norm.state_dict())
    assert not list(frozen.parameters())
    x = pf.rand(2, 3, 4, 4)
    np.testing.assert_allclose(frozen(x).numpy(), norm.eval()(x).detach().numpy(), atol=1e-5)
