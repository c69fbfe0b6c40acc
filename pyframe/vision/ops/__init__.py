"""What detectors and models of images need beside layers: the names of torchvision.ops."""

from __future__ import annotations

from pyframe.vision.ops.boxes import (
    batched_nms,
    box_area,
    box_convert,
    box_iou,
    clip_boxes_to_image,
    complete_box_iou,
    distance_box_iou,
    generalized_box_iou,
    masks_to_boxes,
    nms,
    remove_small_boxes,
)
from pyframe.vision.ops.losses import (
    complete_box_iou_loss,
    distance_box_iou_loss,
    generalized_box_iou_loss,
    sigmoid_focal_loss,
)
from pyframe.vision.ops.misc import (
    MLP,
    Conv2dNormActivation,
    Conv3dNormActivation,
    FrozenBatchNorm2d,
    Permute,
    SqueezeExcitation,
    StochasticDepth,
    stochastic_depth,
)
from pyframe.vision.ops.roi import RoIAlign, RoIPool, roi_align, roi_pool

__all__ = [
    "MLP", "Conv2dNormActivation", "Conv3dNormActivation", "FrozenBatchNorm2d", "Permute",
    "RoIAlign", "RoIPool", "SqueezeExcitation", "StochasticDepth", "batched_nms", "box_area",
    "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou", "complete_box_iou_loss",
    "distance_box_iou", "distance_box_iou_loss", "generalized_box_iou", "generalized_box_iou_loss",
    "masks_to_boxes", "nms", "remove_small_boxes", "roi_align", "roi_pool", "sigmoid_focal_loss",
    "stochastic_depth",
]  # fmt: skip
