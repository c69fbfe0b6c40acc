"""What the second version of torchvision's transforms has beyond the first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import pyframe as pf
import pyframe.nn.functional as nnF
from pyframe.core.dtypes import dtype as DType
from pyframe.tensor import Tensor
from pyframe.tensor.tree import map_parts
from pyframe.vision.transforms import _draw, transforms
from pyframe.vision.transforms._functional_pil import is_pil
from pyframe.vision.transforms._transform import (
    PLAIN,
    RandomlyApplied,
    Transform,
    fields,
    first_image,
    parts,
)
from pyframe.vision.transforms.functional import interpolation_mode
from pyframe.vision.transforms.transforms import check_sequence
from pyframe.vision.transforms.v2 import functional as F

__all__ = [
    "JPEG", "RGB", "CutMix", "GaussianNoise", "Identity", "Lambda", "MixUp",
    "RandomChannelPermutation", "RandomEqualize", "RandomPhotometricDistort", "RandomPosterize",
    "RandomResize", "RandomRotation", "RandomShortestSize", "RandomZoomOut", "ScaleJitter",
    "ToDtype", "ToImage", "ToPureTensor", "UniformTemporalSubsample",
]  # fmt: skip


class Identity(Transform):
    """The sample as it is."""

    def transform(self, inpt: Any, params: Any) -> Any:
        return inpt


class Lambda(Transform):
    """A function as a transform of each part of a sample that is of one of `types`.

    Args:
        lambd: A function of one part.
    """

    def __init__(self, lambd: Callable[[Any], Any], *types: type) -> None:
        super().__init__()
        self.lambd = lambd
        self.types = types or (object,)

    def _chosen(self, flat: list[Any]) -> list[bool]:
        return [isinstance(part, self.types) for part in flat]

    def transform(self, inpt: Any, params: Any) -> Any:
        return self.lambd(inpt) if isinstance(inpt, self.types) else inpt

    def extra_repr(self) -> str:
        name = getattr(self.lambd, "__name__", "")
        return f"{name + ', ' if name else ''}types={[t.__name__ for t in self.types]}"


class ToImage(Transform):
    """A PIL image or an array becomes a Tensor (C, H, W) of its own dtype."""

    _transformed_types = (Tensor, is_pil, np.ndarray)
    _function = F.to_image


class ToPureTensor(Identity):
    """Nothing: images are plain Tensors here."""


class ToDtype(Transform):
    """A Tensor in another dtype; `scale` keeps white white. `dtype` may be a dict of them by type,
    with "others"; None leaves as it is."""

    _transformed_types = (Tensor,)

    @fields(PLAIN)
    def __init__(self, dtype: Any, scale: bool = False) -> None:
        if not isinstance(dtype, (dict, DType)):
            raise ValueError(f"dtype must be a dict or a pyframe.dtype, got {type(dtype)} instead")

    def transform(self, inpt: Any, params: Any) -> Any:
        dtype: Any = self.dtype
        if isinstance(dtype, dict):
            if type(inpt) not in dtype and "others" not in dtype:
                raise ValueError(
                    f"No dtype was specified for type {type(inpt)}; the key 'others' is for all "
                    "that have none"
                )
            dtype = dtype.get(type(inpt), dtype.get("others"))
        if dtype is None or not isinstance(inpt, Tensor):
            return inpt
        return F.to_dtype(inpt, dtype, self.scale)


class RGB(Transform):
    """A gray image in three channels."""

    _function = F.grayscale_to_rgb


class RandomRotation(transforms.RandomRotation):
    """As the first version's, by `v2.functional.rotate`."""

    _function = F.rotate


class RandomPosterize(transforms.RandomPosterize):
    """As the first version's, of ints of any size."""

    _function = F.posterize


class RandomEqualize(transforms.RandomEqualize):
    """As the first version's, of ints of any size."""

    _function = F.equalize


class RandomChannelPermutation(Transform):
    """The channels in random order."""

    _function = F.permute_channels

    def make_params(self, flat_inputs: list[Any]) -> Any:
        return {"permutation": _draw.permutation(F.get_num_channels(first_image(flat_inputs)))}


class RandomPhotometricDistort(Transform):
    """Brightness, contrast, saturation, hue and the channels' order changed, each with
    probability `p`.

    Liu et al., "SSD: Single Shot MultiBox Detector", 2016.
    """

    @fields("brightness contrast hue saturation p")  # torchvision's order
    def __init__(
        self, brightness: Any = (0.875, 1.125), contrast: Any = (0.5, 1.5),
        saturation: Any = (0.5, 1.5), hue: Any = (-0.05, 0.05), p: float = 0.5,
    ) -> None: ...  # fmt: skip

    def make_params(self, flat_inputs: list[Any]) -> Any:
        """The functions that are done, each with its argument."""
        channels = F.get_num_channels(first_image(flat_inputs))
        adjust = [
            (F.adjust_brightness, self.brightness), (F.adjust_contrast, self.contrast),
            (F.adjust_saturation, self.saturation), (F.adjust_hue, self.hue),
        ]  # fmt: skip
        if _draw.uniform() < 0.5:  # contrast comes first or last of these
            adjust.append(adjust.pop(1))
        done: list[Any] = [
            (fn, _draw.uniform(*between)) for fn, between in adjust if _draw.uniform() < self.p
        ]
        if _draw.uniform() < self.p:
            done.append((F.permute_channels, _draw.permutation(channels)))
        return done

    def transform(self, inpt: Any, params: Any) -> Any:
        for fn, argument in params:
            inpt = fn(inpt, argument)
        return inpt


class GaussianNoise(Transform):
    """A uint8 or float Tensor with normal noise, white being 1.

    Args:
        mean, sigma: Mean and standard deviation of the noise, white being 1.
    """

    _function = F.gaussian_noise

    @fields(PLAIN)
    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None: ...


class JPEG(Transform):
    """A uint8 image as it comes back from a JPEG file of a quality, or of one between two.

    Args:
        quality: From 1 to 100, or (least, most).
    """

    _function = F.jpeg

    @fields(PLAIN)
    def __init__(self, quality: Any) -> None:
        if isinstance(quality, bool):
            raise TypeError("quality can't be bool")
        if isinstance(quality, int):
            quality = [quality, quality]
        check_sequence(quality, "quality", (2,))
        low, high = quality
        if not (isinstance(low, int) and isinstance(high, int) and 1 <= low <= high <= 100):
            raise ValueError(f"quality must be an integer from 1 to 100, got quality ={quality!r}")
        self.quality = quality

    def make_params(self, flat_inputs: list[Any]) -> Any:
        return {"quality": _draw.randint(self.quality[0], self.quality[1] + 1)}


class UniformTemporalSubsample(Transform):
    """`num_samples` frames of a video (..., T, C, H, W)."""

    _function = F.uniform_temporal_subsample

    @fields(PLAIN)
    def __init__(self, num_samples: int) -> None: ...


# --- sizes


class RandomZoomOut(RandomlyApplied):
    """An image somewhere on a canvas of `fill`, whose sides are a factor of `side_range` longer."""

    _function = F.pad
    _shown = PLAIN

    def __init__(self, fill: Any = 0, side_range: Any = (1.0, 4.0), p: float = 0.5) -> None:
        super().__init__(p)
        self.fill = fill
        check_sequence(side_range, "side_range", (2,))
        self.side_range = side_range
        if side_range[0] < 1.0 or side_range[0] > side_range[1]:
            raise ValueError(f"Invalid side range provided {side_range}.")

    def make_params(self, flat_inputs: list[Any]) -> Any:
        h, w = F.get_size(first_image(flat_inputs))
        r = _draw.uniform(*self.side_range)
        more_w, more_h = int(w * r) - w, int(h * r) - h
        left, top = int(more_w * _draw.uniform()), int(more_h * _draw.uniform())
        return {"padding": [left, top, more_w - left, more_h - top]}


class _Resized(Transform):
    """An image of a size that is drawn."""

    _function = F.resize

    def _size(self, h: int, w: int) -> Any:
        raise NotImplementedError

    def make_params(self, flat_inputs: list[Any]) -> Any:
        return {"size": self._size(*F.get_size(first_image(flat_inputs))), "max_size": None}


class ScaleJitter(_Resized):
    """An image as large as fits into `target_size` (w, h), times a factor of `scale_range`."""

    @fields(PLAIN, interpolation=interpolation_mode)
    def __init__(
        self, target_size: Any, scale_range: Any = (0.1, 2.0), interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None: ...  # fmt: skip

    def _size(self, h: int, w: int) -> Any:
        r = min(self.target_size[1] / h, self.target_size[0] / w) * _draw.uniform(*self.scale_range)
        return int(h * r), int(w * r)


class RandomShortestSize(_Resized):
    """An image whose shorter side is one of `min_size`, and the longer at most `max_size`."""

    @fields(PLAIN, interpolation=interpolation_mode)
    def __init__(
        self, min_size: Any, max_size: int | None = None, interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:  # fmt: skip
        self.min_size = [min_size] if isinstance(min_size, int) else list(min_size)

    def _size(self, h: int, w: int) -> Any:
        r = self.min_size[_draw.randint(0, len(self.min_size))] / min(h, w)
        if self.max_size is not None:
            r = min(r, self.max_size / max(h, w))
        return int(h * r), int(w * r)


class RandomResize(_Resized):
    """An image whose shorter side is from `min_size` to `max_size` - 1."""

    @fields(PLAIN, interpolation=interpolation_mode)
    def __init__(
        self, min_size: int, max_size: int, interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None: ...  # fmt: skip

    def _size(self, h: int, w: int) -> Any:
        return [_draw.randint(self.min_size, self.max_size)]


# --- mixtures of a batch


def _found_labels(inputs: Any) -> Any:
    """The second part of a tuple, or what a dict has under a name with "label"."""
    if isinstance(inputs, (tuple, list)):
        inputs = inputs[1]
    if isinstance(inputs, Tensor):
        return inputs
    if not isinstance(inputs, Mapping):
        raise ValueError(
            "When using the default labels_getter, the input passed to forward must be a "
            "dictionary or a two-tuple whose second item is a dictionary or a tensor, but got "
            f"{type(inputs)} instead."
        )
    names = sorted((k for k in inputs if "label" in k.lower()), key=lambda k: k.lower() != "labels")
    if not names:
        raise ValueError(
            f"Could not infer where the labels are among {list(inputs)}: pass a callable as the "
            "labels_getter"
        )
    return inputs[names[0]]


class _Mixture(Transform):
    """A batch of images and labels (N,) or (N, classes) mixed with the batch moved on by one."""

    def __init__(
        self, *, alpha: float = 1.0, num_classes: int | None = None, labels_getter: Any = "default"
    ) -> None:
        super().__init__()
        if alpha <= 0:
            raise ValueError(f"{type(self).__name__}: alpha must be positive, got {alpha}")
        if labels_getter not in ("default", None) and not callable(labels_getter):
            raise ValueError(
                "labels_getter should either be 'default', a callable, or None, but got "
                f"{labels_getter}."
            )
        self.alpha = float(alpha)
        self.num_classes = num_classes
        self._labels_getter = _found_labels if labels_getter == "default" else labels_getter

    def forward(self, *inputs: Any) -> Any:
        """The batch, mixed; labels come out as floats (N, classes)."""
        batch = inputs if len(inputs) > 1 else inputs[0]
        flat = parts(batch)
        if any(map(is_pil, flat)):
            raise ValueError(f"{type(self).__name__}() does not support PIL images.")
        labels = self._check(self._labels_getter(batch) if self._labels_getter else None)
        images = [part for part, yes in zip(flat, self._chosen(flat), strict=True) if yes]
        for img in images:
            if img.ndim != 4:
                raise ValueError(
                    f"Expected a batched input with 4 dims, but got {img.ndim} dimensions instead."
                )
            if len(img) != len(labels):
                raise ValueError(
                    "The batch size of the image does not match the batch size of the labels: "
                    f"{len(img)} != {len(labels)}."
                )
        params = self.make_params(images)

        def changed(part: Any) -> Any:
            if part is labels:
                return self._mixed_labels(part, params["lam"])
            return self.transform(part, params) if any(part is x for x in images) else part

        return map_parts(batch, changed)

    def _check(self, labels: Any) -> Tensor:
        if not isinstance(labels, Tensor):
            raise ValueError(f"The labels must be a tensor, but got {type(labels)} instead.")
        if labels.ndim not in (1, 2):
            raise ValueError(
                "labels should be index based with shape (batch_size,) or probability based with "
                f"shape (batch_size, num_classes), but got a tensor of shape {list(labels.shape)} "
                "instead."
            )
        if labels.ndim == 1 and self.num_classes is None:
            raise ValueError("num_classes must be passed if the labels are index-based (1D)")
        if labels.ndim == 2 and self.num_classes not in (None, labels.shape[1]):
            raise ValueError(
                "When passing 2D labels, the number of elements in last dimension must match "
                f"num_classes: {labels.shape[1]} != {self.num_classes}"
            )
        return labels

    def _mixed_labels(self, labels: Tensor, lam: float) -> Tensor:
        if labels.ndim == 1:
            labels = nnF.one_hot(labels, self.num_classes or -1)
        if not labels.is_floating_point():
            labels = labels.to(pf.float32)
        return labels.roll(1, 0) * (1.0 - lam) + labels * lam


class MixUp(_Mixture):
    """Each image and label of a batch mixed with another's, by a factor of the beta distribution.

    For labels (N,) give `num_classes`. Zhang et al., "mixup: Beyond Empirical Risk Minimization",
    2017.

    Args:
        alpha: Above 0; both parameters of that distribution.
    """

    def make_params(self, flat_inputs: list[Any]) -> Any:
        return {"lam": _draw.beta(self.alpha)}

    def transform(self, inpt: Any, params: Any) -> Any:
        return inpt.roll(1, 0) * (1.0 - params["lam"]) + inpt * params["lam"]


class CutMix(_Mixture):
    """A rectangle of each image of a batch comes from another; labels are mixed likewise.

    For labels (N,) give `num_classes`. Yun et al., "CutMix: Regularization Strategy to Train Strong
    Classifiers with Localizable Features", 2019.

    Args:
        alpha: Above 0; both parameters of the beta distribution of how much of an image stays.
    """

    def make_params(self, flat_inputs: list[Any]) -> Any:
        h, w = F.get_size(first_image(flat_inputs))
        half = 0.5 * math.sqrt(1.0 - _draw.beta(self.alpha))
        x, y = _draw.randints(w, h)
        dx, dy = int(half * w), int(half * h)
        left, right, top, bottom = max(x - dx, 0), min(x + dx, w), max(y - dy, 0), min(y + dy, h)
        return {
            "box": (left, top, right, bottom),
            "lam": 1.0 - (right - left) * (bottom - top) / (w * h),
        }

    def transform(self, inpt: Any, params: Any) -> Any:
        left, top, right, bottom = params["box"]
        out = inpt.clone()
        out[..., top:bottom, left:right] = inpt.roll(1, 0)[..., top:bottom, left:right]
        return out
