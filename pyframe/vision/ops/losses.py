"""Losses of detectors, as torchvision.ops has them."""

from __future__ import annotations

import pyframe.nn.functional as F
from pyframe.tensor import Tensor
from pyframe.vision.ops.boxes import _complete_iou, _distance_iou, _hull, _inner_and_union, _wide

__all__ = [
    "complete_box_iou_loss", "distance_box_iou_loss", "generalized_box_iou_loss",
    "sigmoid_focal_loss",
]  # fmt: skip


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    if reduction == "mean":
        return loss.mean() if loss.numel() else 0.0 * loss.sum()
    if reduction == "sum":
        return loss.sum()
    raise ValueError(
        f"Invalid Value for arg 'reduction': {reduction!r}; expected 'none', 'mean' or 'sum'"
    )


def sigmoid_focal_loss(
    inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2,
    reduction: str = "none",
) -> Tensor:  # fmt: skip
    """Binary cross entropy of logits in which what is easy counts little (arXiv 1708.02002).

    `targets` are 0 or 1, in the shape of `inputs`. `alpha` weighs the ones, 1 - alpha the zeros;
    -1 weighs nothing.
    """
    if not 0 <= alpha <= 1 and alpha != -1:
        raise ValueError(
            f"sigmoid_focal_loss: invalid alpha {alpha}, expected 0 to 1, or -1 for none"
        )
    p = inputs.sigmoid()
    right = p * targets + (1 - p) * (1 - targets)
    loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    loss = loss * (1 - right) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return _reduced(loss, reduction)


def generalized_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """1 less the generalized IoU of boxes (N, 4), xyxy, pair by pair (arXiv 1902.09630)."""
    a, b = _wide(boxes1), _wide(boxes2)
    inner, union = _inner_and_union(a, b)
    hull = _hull(a, b)
    area = hull[..., 0] * hull[..., 1]
    return _reduced(1 - inner / (union + eps) + (area - union) / (area + eps), reduction)


def distance_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """1 less the distance IoU of boxes (N, 4), xyxy, pair by pair (arXiv 1911.08287)."""
    return _reduced(1 - _distance_iou(_wide(boxes1), _wide(boxes2), eps, eps)[0], reduction)


def complete_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """1 less the complete IoU of boxes (N, 4), xyxy, pair by pair (arXiv 1911.08287)."""
    a, b = _wide(boxes1), _wide(boxes2)
    return _reduced(1 - _complete_iou(a, b, eps, *_distance_iou(a, b, eps, eps)), reduction)
