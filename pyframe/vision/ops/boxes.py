"""Boxes around things: overlaps, forms and the choice of the best, as torchvision.ops.boxes.

A box is the last dim of a tensor: xyxy (left, top, right, bottom), xywh (left, top, width, height)
or cxcywh (its middle, width, height).
"""

from __future__ import annotations

import math

import numpy as np

from pyframe import any as any_of, atan, maximum, minimum, no_grad, stack, where
from pyframe.core.dtypes import float32, float64, int32, int64
from pyframe.tensor import Tensor, from_numpy

__all__ = [
    "batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou",
    "distance_box_iou", "generalized_box_iou", "masks_to_boxes", "nms", "remove_small_boxes",
]  # fmt: skip

_FORMS = ("xyxy", "xywh", "cxcywh")


def _wide(t: Tensor) -> Tensor:
    """In a dtype in which areas fit: half precision and small integers become 32 bits wide."""
    if t.is_floating_point():
        return t if t.dtype in (float32, float64) else t.float()
    return t if t.dtype in (int32, int64) else t.int()


def _check_form(form: str, name: str) -> None:
    if form not in _FORMS:
        raise ValueError(f"{name}: unsupported form {form!r}, expected one of {', '.join(_FORMS)}")


def _corners(boxes: Tensor, form: str) -> tuple[Tensor, Tensor]:
    """The (left, top) and the (right, bottom) of each box."""
    a, b = boxes[..., :2], boxes[..., 2:]
    if form == "xyxy":
        return a, b
    if form == "xywh":
        return a, a + b
    return a - b / 2, a + b / 2


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes (..., 4) in another form. ValueError for a form other than the module's three."""
    _check_form(in_fmt, "box_convert")
    _check_form(out_fmt, "box_convert")
    if in_fmt == out_fmt:
        return boxes.clone()
    (x1, y1), (x2, y2) = (corner.unbind(-1) for corner in _corners(boxes, in_fmt))
    if out_fmt == "xyxy":
        return stack((x1, y1, x2, y2), -1)
    if out_fmt == "xywh":
        return stack((x1, y1, x2 - x1, y2 - y1), -1)
    return stack(((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1), -1)


def box_area(boxes: Tensor, fmt: str = "xyxy") -> Tensor:
    """The areas (...) of boxes (..., 4)."""
    _check_form(fmt, "box_area")
    boxes = _wide(boxes)
    size = boxes[..., 2:] - boxes[..., :2] if fmt == "xyxy" else boxes[..., 2:]
    return size[..., 0] * size[..., 1]


def _pairs(boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor]:
    """Boxes (..., N, 1, 4) and (..., 1, M, 4): each meets each."""
    return boxes1[..., :, None, :], boxes2[..., None, :, :]


def _inner_and_union(boxes1: Tensor, boxes2: Tensor, form: str = "xyxy") -> tuple[Tensor, Tensor]:
    """The areas (...) that two boxes share and that they cover together; they broadcast."""
    (low1, high1), (low2, high2) = _corners(boxes1, form), _corners(boxes2, form)
    size = _wide(minimum(high1, high2) - maximum(low1, low2)).clamp(min=0)
    inner = size[..., 0] * size[..., 1]
    return inner, box_area(boxes1, form) + box_area(boxes2, form) - inner


def _hull(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Width and height (..., 2) of the smallest box around both."""
    size = maximum(boxes1[..., 2:], boxes2[..., 2:]) - minimum(boxes1[..., :2], boxes2[..., :2])
    return _wide(size).clamp(min=0)


def box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """Intersection over union (..., N, M) of boxes (..., N, 4) and (..., M, 4)."""
    _check_form(fmt, "box_iou")
    inner, union = _inner_and_union(*_pairs(boxes1, boxes2), fmt)
    return inner / union


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """IoU less the share of the hull that neither box covers (arXiv 1902.09630): (..., N, M)."""
    a, b = _pairs(boxes1, boxes2)
    inner, union = _inner_and_union(a, b)
    hull = _hull(a, b)
    area = hull[..., 0] * hull[..., 1]
    return inner / union - (area - union) / area


def _distance_iou(a: Tensor, b: Tensor, eps: float, eps_union: float = 0) -> tuple[Tensor, Tensor]:
    """(IoU less the distance of the middles over the hull's diagonal, both squared; IoU)."""
    inner, union = _inner_and_union(a, b)
    iou = inner / (union + eps_union) if eps_union else inner / union
    apart = (a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) / 2
    return iou - _wide(apart).square().sum(-1) / (_hull(a, b).square().sum(-1) + eps), iou


def _complete_iou(a: Tensor, b: Tensor, eps: float, distance: Tensor, iou: Tensor) -> Tensor:
    """The distance IoU less what the shapes differ in (arXiv 1911.08287, eq. 8 to 11)."""
    size_a, size_b = a[..., 2:] - a[..., :2], b[..., 2:] - b[..., :2]
    angles = atan(size_a[..., 0] / size_a[..., 1]) - atan(size_b[..., 0] / size_b[..., 1])
    shapes = 4 / math.pi**2 * angles.square()
    with no_grad():
        alpha = shapes / (1 - iou + shapes + eps)
    return distance - alpha * shapes


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """IoU less the squared distance of the middles, in hulls (arXiv 1911.08287): (..., N, M)."""
    return _distance_iou(*_pairs(_wide(boxes1), _wide(boxes2)), eps)[0]


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """The distance IoU less what the boxes' shapes differ in (arXiv 1911.08287): (..., N, M)."""
    a, b = _pairs(_wide(boxes1), _wide(boxes2))
    return _complete_iou(a, b, eps, *_distance_iou(a, b, eps))


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes (..., 4), xyxy, moved into an image of `size` (height, width)."""
    height, width = size
    x, y = boxes[..., 0::2].clamp(0, width), boxes[..., 1::2].clamp(0, height)
    return stack((x, y), -1).reshape(boxes.shape)


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """The indices, int64 (K,), of boxes (N, 4), xyxy, with both sides at least `min_size`."""
    size = boxes[..., 2:] - boxes[..., :2]
    return where((size >= min_size).all(-1))[0]


def masks_to_boxes(masks: Tensor) -> Tensor:
    """The boxes float32 (N, 4), xyxy, of what is not 0 in masks (N, H, W): ends included.

    Args:
        masks: Ints, floats or bools.
    """
    if not masks.numel():
        return masks.new_zeros((0, 4), dtype=float32)
    masks = masks.bool()
    rows, columns = any_of(masks, 2).float(), any_of(masks, 1).float()
    h, w = masks.shape[1:]
    low = stack((columns.argmax(1), rows.argmax(1)), 1)
    high = stack((w - 1 - columns.flip(1).argmax(1), h - 1 - rows.flip(1).argmax(1)), 1)
    found = stack((low, high), 1).reshape(-1, 4).float()
    return where(any_of(rows.bool(), 1)[:, None], found, 0.0)


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The indices, int64 (K,), of the boxes that stay, best first.

    Of boxes (N, 4), xyxy, with an IoU above the threshold only the one with the best score (N,)
    stays; of equal scores the first one counts as better. How many stay depends on the values, so
    they are read, and the choice is made on the host.
    """
    return _keep(boxes, scores, iou_threshold, None, "nms")


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """`nms` within each class: boxes whose `idxs` (N,) differ do not meet."""
    return _keep(boxes, scores, iou_threshold, idxs, "batched_nms")


def _keep(
    boxes: Tensor, scores: Tensor, threshold: float, classes: Tensor | None, name: str
) -> Tensor:
    if boxes.ndim != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        raise RuntimeError(
            f"{name}: expected boxes (N, 4) and scores (N,), got {list(boxes.shape)} and "
            f"{list(scores.shape)}"
        )
    if classes is not None and classes.shape != scores.shape:
        raise RuntimeError(f"{name}: expected idxs ({len(scores)},), got {list(classes.shape)}")
    corners = _wide(boxes.detach()).cpu().numpy()
    # Worst first; of equals the last first, so that the first is the best.
    backwards = scores.detach().float().cpu().numpy()[::-1]
    order = len(backwards) - 1 - np.argsort(backwards, kind="stable")
    kinds = None if classes is None else classes.cpu().numpy()
    area = (corners[:, 2:] - corners[:, :2]).prod(1)
    kept = []
    while len(order):
        best, order = order[-1], order[:-1]
        kept.append(best)
        size = np.minimum(corners[best, 2:], corners[order, 2:]) - np.maximum(
            corners[best, :2], corners[order, :2]
        )
        inner = size.clip(min=0).prod(1)
        with np.errstate(divide="ignore", invalid="ignore"):  # boxes without an area overlap none
            beaten = inner / (area[best] + area[order] - inner) > threshold
        if kinds is not None:
            beaten &= kinds[order] == kinds[best]
        order = order[~beaten]
    return from_numpy(np.asarray(kept, np.int64)).to(boxes.device)
