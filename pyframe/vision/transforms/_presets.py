"""What makes a model's input of an image, as weights name it."""

from __future__ import annotations

from typing import Any

import pyframe as pf
from pyframe import nn
from pyframe.tensor import Tensor
from pyframe.vision.transforms import functional as F
from pyframe.vision.transforms.functional import InterpolationMode


class ImageClassification(nn.Module):
    """The smaller side resized, the middle cut out, and channels normalized: a PIL image or a
    tensor (..., 3, H, W) becomes (..., 3, crop_size, crop_size) of float32."""

    def __init__(
        self, *, crop_size: int, resize_size: int = 256,
        mean: tuple[float, ...] = (0.485, 0.456, 0.406),
        std: tuple[float, ...] = (0.229, 0.224, 0.225),
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.crop_size, self.resize_size = [crop_size], [resize_size]
        self.mean, self.std = [*mean], [*std]
        self.interpolation, self.antialias = interpolation, antialias

    def forward(self, img: Any) -> Tensor:
        """See the class."""
        img = F.resize(img, self.resize_size, self.interpolation, antialias=self.antialias)
        img = F.center_crop(img, self.crop_size)
        if not isinstance(img, Tensor):
            img = F.pil_to_tensor(img)
        return F.normalize(F.convert_image_dtype(img, pf.float32), self.mean, self.std)

    def __repr__(self) -> str:
        names = ("crop_size", "resize_size", "mean", "std", "interpolation")
        lines = "".join(f"\n    {name}={getattr(self, name)}" for name in names)
        return f"{type(self).__name__}({lines}\n)"
