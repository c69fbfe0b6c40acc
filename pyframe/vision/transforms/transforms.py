"""The transforms of images as objects, as torchvision.transforms.

Each takes a Tensor (..., C, H, W) or a PIL image, or a sample that contains one: see Transform.
What they draw comes from the host's stream, which pf.manual_seed fixes.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.nn import ModuleList
from pyframe.tensor import Tensor
from pyframe.vision.transforms import _draw, functional as F
from pyframe.vision.transforms._functional_pil import is_pil
from pyframe.vision.transforms._transform import (
    PLAIN,
    RandomlyApplied,
    Transform,
    fields,
    first_image,
    probability,
)
from pyframe.vision.transforms.functional import InterpolationMode, interpolation_mode, pair

__all__ = [
    "CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype", "ElasticTransform", "FiveCrop",
    "GaussianBlur", "Grayscale", "InterpolationMode", "Lambda", "LinearTransformation",
    "Normalize", "PILToTensor", "Pad", "RandomAdjustSharpness", "RandomAffine", "RandomApply",
    "RandomAutocontrast", "RandomChoice", "RandomCrop", "RandomEqualize", "RandomErasing",
    "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomOrder", "RandomPerspective",
    "RandomPosterize", "RandomResizedCrop", "RandomRotation", "RandomSolarize",
    "RandomVerticalFlip", "Resize", "TenCrop", "ToPILImage", "ToTensor",
]  # fmt: skip


# --- what arguments must be


def check_sequence(x: Any, name: str, sizes: tuple[int, ...]) -> None:
    """TypeError for no sequence, ValueError for one of another length."""
    lengths = " or ".join(map(str, sizes))
    if not isinstance(x, Sequence):
        raise TypeError(f"{name} should be a sequence of length {lengths}. Got {type(x)}")
    if len(x) not in sizes:
        raise ValueError(f"{name} should be a sequence of length {lengths}. Got {len(x)}")


def _angles(x: Any, name: str, sizes: tuple[int, ...] = (2,)) -> list[float]:
    """(-x, x) of a number, else the sequence."""
    if isinstance(x, numbers.Number):
        if x < 0:  # type: ignore[operator]
            raise ValueError(f"If {name} is a single number, it must be positive. Got {x}")
        x = (-x, x)  # type: ignore[operator]
    check_sequence(x, name, sizes)
    return [float(angle) for angle in x]


def _color(fill: Any) -> Any:
    if fill is not None and not isinstance(fill, (Sequence, numbers.Number)):
        raise TypeError(f"Fill should be either a sequence or a number. Got {type(fill)}")
    return 0 if fill is None else fill


def _ranges(scale: Any, ratio: Any) -> None:
    for name, value in (("Scale", scale), ("Ratio", ratio)):
        if not isinstance(value, Sequence):
            raise TypeError(f"{name} should be a sequence. Got {type(value)}")
    if scale[0] > scale[1] or ratio[0] > ratio[1]:
        warnings.warn("Scale and ratio should be of kind (min, max)", stacklevel=4)


# --- transforms of transforms


class _OfTransforms(Transform):
    """A transform that calls others."""

    @fields()
    def __init__(self, transforms: Any) -> None: ...

    def _in_turn(self, transforms: Any, inputs: tuple[Any, ...]) -> Any:
        several = len(inputs) > 1
        for t in transforms:
            out = t(*inputs)
            inputs = out if several else (out,)
        return inputs if several else inputs[0]

    def _lines(self) -> list[str]:
        return list(map(str, self.transforms))

    def __repr__(self) -> str:
        return "\n    ".join([f"{type(self).__name__}(", *self._lines()]) + "\n)"


class Compose(_OfTransforms):
    """Several transforms, one after the other."""

    def forward(self, *inputs: Any) -> Any:
        """What the last one gives."""
        return self._in_turn(self.transforms, inputs)


class RandomApply(_OfTransforms):
    """Several transforms, one after the other, with probability `p`; else none of them."""

    @fields(p=probability)
    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        if not isinstance(transforms, (Sequence, ModuleList)):
            raise TypeError(
                f"Argument transforms should be a sequence of callables. Got {type(transforms)}"
            )

    def forward(self, *inputs: Any) -> Any:
        """The sample, transformed or as it is."""
        return self._in_turn(self.transforms if _draw.uniform() < self.p else (), inputs)

    def _lines(self) -> list[str]:
        return [f"p={self.p}", *super()._lines()]


class RandomTransforms(_OfTransforms):
    """The base of those that choose among transforms."""

    @fields()
    def __init__(self, transforms: Any) -> None:
        if not isinstance(transforms, Sequence):
            raise TypeError(f"Argument transforms should be a sequence. Got {type(transforms)}")


class RandomOrder(RandomTransforms):
    """All of the transforms, in random order."""

    def forward(self, *inputs: Any) -> Any:
        """What the last one gives."""
        order = _draw.permutation(len(self.transforms))
        return self._in_turn([self.transforms[i] for i in order], inputs)


class RandomChoice(RandomTransforms):
    """One of the transforms, as likely as its weight in `p`."""

    def __init__(self, transforms: Any, p: Any = None) -> None:
        super().__init__(transforms)
        if p is not None and not isinstance(p, Sequence):
            raise TypeError(f"Argument p should be a sequence. Got {type(p)}")
        if p is not None and len(p) != len(transforms):
            raise ValueError(
                f"Length of p doesn't match the number of transforms: {len(p)} != {len(transforms)}"
            )
        self.p = p

    def forward(self, *inputs: Any) -> Any:
        """What it gives."""
        return self.transforms[_draw.choice(self.p or [1] * len(self.transforms))](*inputs)

    def __repr__(self) -> str:
        return f"{super().__repr__()}(p={self.p})"


class Lambda(Transform):
    """A function as a transform of the whole sample.

    Args:
        lambd: A function of the sample.
    """

    def __init__(self, lambd: Callable[..., Any]) -> None:
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        super().__init__()
        self.lambd = lambd

    def forward(self, *inputs: Any) -> Any:
        """What the function gives."""
        return self.lambd(*inputs)


# --- from one kind to another


class ToTensor(Transform):
    """A PIL image or an array (H, W, C) becomes a Tensor (C, H, W), uint8 from 0 to 1.

    A Tensor, as data sets have them, stays as it is.
    """

    _transformed_types = (np.ndarray, is_pil)

    def transform(self, inpt: Any, params: Any) -> Tensor:
        return inpt if isinstance(inpt, Tensor) else F.to_tensor(inpt)


class PILToTensor(Transform):
    """A PIL image becomes a Tensor (C, H, W) of the same dtype.

    A Tensor of floats from 0 to 1, as data sets have them, becomes uint8.
    """

    _transformed_types = (is_pil, Tensor)

    def transform(self, inpt: Any, params: Any) -> Tensor:
        if isinstance(inpt, Tensor):
            return (inpt * 255).round().to(pf.uint8) if inpt.is_floating_point() else inpt
        return F.pil_to_tensor(inpt)


class ToPILImage(Transform):
    """A Tensor (C, H, W) or an array (H, W, C) becomes a PIL image.

    Args:
        mode: A mode of Pillow that fits the channels; None takes the usual one.
    """

    _transformed_types = (Tensor, np.ndarray)
    _function = F.to_pil_image

    @fields(PLAIN)
    def __init__(self, mode: str | None = None) -> None: ...


class ConvertImageDtype(Transform):
    """A Tensor in another dtype, scaled so that white stays white.

    Args:
        dtype: The dtype.
    """

    _function = F.convert_image_dtype

    @fields(PLAIN)
    def __init__(self, dtype: Any = pf.float32) -> None: ...


# --- values


class Normalize(Transform):
    """(x - mean) / std, a number for each channel of a float Tensor."""

    _function = F.normalize

    @fields("mean std")
    def __init__(self, mean: Any, std: Any, inplace: bool = False) -> None: ...


class LinearTransformation(Transform):
    """(x - mean_vector) @ transformation_matrix of a Tensor's C * H * W numbers (whitening).

    Args:
        transformation_matrix: (C * H * W, C * H * W).
        mean_vector: (C * H * W,).
    """

    @fields()
    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor) -> None:
        matrix, mean = transformation_matrix, mean_vector
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(
                f"transformation_matrix should be square. Got {list(matrix.shape)} rectangular "
                "matrix."
            )
        if mean.shape[0] != matrix.shape[0]:
            raise ValueError(
                f"mean_vector should have the same length {mean.shape[0]} as any one of the "
                f"dimensions of the transformation_matrix {list(matrix.shape)}"
            )
        for what in ("device", "dtype"):
            if getattr(matrix, what) != getattr(mean, what):
                raise ValueError(
                    f"Input tensors should have the same {what}. Got {getattr(matrix, what)} and "
                    f"{getattr(mean, what)}"
                )

    def transform(self, inpt: Any, params: Any) -> Tensor:
        shape, n = inpt.shape, len(self.mean_vector)
        if math.prod(shape[-3:]) != n:
            raise ValueError(
                "Input tensor and transformation matrix have incompatible shape: "
                f"{list(shape[-3:])} has not {n} numbers"
            )
        if inpt.device != self.mean_vector.device:
            raise ValueError(
                "Input tensor should be on the same device as transformation matrix and mean "
                f"vector. Got {inpt.device} vs {self.mean_vector.device}"
            )
        flat = inpt.reshape(-1, n) - self.mean_vector
        return (flat @ self.transformation_matrix.to(flat.dtype)).reshape(shape)

    def extra_repr(self) -> str:
        matrix, mean = self.transformation_matrix.tolist(), self.mean_vector.tolist()
        return f"transformation_matrix={matrix}, mean_vector={mean}"


class RandomErasing(RandomlyApplied):
    """A rectangle of a Tensor becomes `value`: a number, one for each channel, or "random"; it
    covers a part `scale` of the image, its sides are in `ratio`.

    Zhong et al., "Random Erasing Data Augmentation", 2017.

    Args:
        scale, ratio: (least, most): of the area, and of the height by the width.
    """

    _function = F.erase

    @fields(p=probability)
    def __init__(
        self, p: float = 0.5, scale: Any = (0.02, 0.33), ratio: Any = (0.3, 3.3), value: Any = 0,
        inplace: bool = False,
    ) -> None:  # fmt: skip
        if not isinstance(value, (numbers.Number, str, tuple, list)):
            raise TypeError(
                f"Argument value should be either a number or str or a sequence. Got {type(value)}"
            )
        if isinstance(value, str) and value != "random":
            raise ValueError(f"If value is str, it should be 'random'. Got {value!r}")
        _ranges(scale, ratio)
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError(f"Scale should be between 0 and 1. Got {scale}")

    @staticmethod
    def get_params(
        img: Tensor, scale: Any, ratio: Any, value: list[float] | None = None
    ) -> tuple[int, int, int, int, Tensor]:
        """(top, left, height, width, value) for `img`; all of it where nothing fits."""
        channels, h, w = F.get_dimensions(img)
        for _ in range(10):
            height, width = _sides(h * w, scale, ratio)
            if not (height < h and width < w):
                continue
            if value is None:
                v = pf.empty(channels, height, width, device="cpu").normal_()
            else:
                v = pf.tensor(value, device="cpu")[:, None, None]
            top, left = _draw.randints(h - height + 1, w - width + 1)
            return top, left, height, width, v.to(img.device)
        return 0, 0, h, w, img

    def make_params(self, flat_inputs: list[Any]) -> Any:
        img = first_image(flat_inputs)
        value: Any = self.value
        if isinstance(value, str):
            value = None
        elif isinstance(value, numbers.Number):
            value = [value]
        channels = F.get_dimensions(img)[0]
        if value is not None and len(value) not in (1, channels):
            raise ValueError(
                "If value is a sequence, it should have either a single value or "
                f"{channels} (number of input channels). Got {len(value)}"
            )
        values = None if value is None else [float(v) for v in value]
        return self.get_params(img, self.scale, self.ratio, values)


def _sides(area: int, scale: Any, ratio: Any) -> tuple[int, int]:
    """The sides of a part `scale` of an area, whose quotient is in `ratio`."""
    part = area * _draw.uniform(*scale)
    aspect = math.exp(_draw.uniform(math.log(ratio[0]), math.log(ratio[1])))
    return round(math.sqrt(part * aspect)), round(math.sqrt(part / aspect))


# --- form


class Resize(Transform):
    """An image of another size: (H, W), or an int for its shorter side.

    Args:
        size: (height, width), or an int for the shorter side; None where `max_size` is the longer
            one.
    """

    _function = F.resize

    @fields("size interpolation.value max_size antialias", interpolation=interpolation_mode)
    def __init__(
        self, size: Any, interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None, antialias: bool | None = True,
    ) -> None:  # fmt: skip
        if size is None and isinstance(max_size, int):
            pass
        elif not isinstance(size, (int, Sequence)):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        elif isinstance(size, Sequence) and len(size) not in (1, 2):
            raise ValueError(f"If size is a sequence, it should have 1 or 2 values. Got {size}")


class CenterCrop(Transform):
    """The middle of an image, padded with 0 where it is smaller."""

    @fields(size=pair)
    def __init__(self, size: Any) -> None: ...

    def transform(self, inpt: Any, params: Any) -> Any:
        return F.center_crop(inpt, self.size)


class FiveCrop(Transform):
    """A tuple of the four corners and the middle."""

    _function = F.five_crop

    @fields(size=pair)
    def __init__(self, size: Any) -> None: ...


class TenCrop(Transform):
    """A tuple of the `FiveCrop` of the image and of its flipped twin."""

    _function = F.ten_crop

    @fields(size=pair)
    def __init__(self, size: Any, vertical_flip: bool = False) -> None: ...


class Pad(Transform):
    """An image with a border: see functional.pad.

    Args:
        padding: One width, (sides, top and bottom), or (left, top, right, bottom).
    """

    _function = F.pad

    @fields()
    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        F.check_padding(padding, padding_mode)
        F.check_fill(fill)


class RandomCrop(Transform):
    """A part of an image, which is padded before: by `padding`, or where it is smaller.

    Args:
        pad_if_needed: Whether an image that is smaller is padded; ValueError otherwise.
    """

    @fields("size padding", size=lambda size: tuple(pair(size)))
    def __init__(
        self, size: Any, padding: Any = None, pad_if_needed: bool = False, fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:  # fmt: skip
        F.check_padding(0 if padding is None else padding, padding_mode)

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """(top, left, height, width) in `img`, the last two of `output_size`. ValueError where it
        is smaller."""
        _, h, w = F.get_dimensions(img)
        height, width = output_size
        if h < height or w < width:
            raise ValueError(
                f"Required crop size {(height, width)} is larger than input image size {(h, w)}; "
                "pad_if_needed=True pads it"
            )
        if (h, w) == (height, width):
            return 0, 0, h, w
        top, left = _draw.randints(h - height + 1, w - width + 1)
        return top, left, height, width

    def _padded(self, img: Any) -> Any:
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        if self.pad_if_needed:
            _, h, w = F.get_dimensions(img)
            missing = [max(self.size[1] - w, 0), max(self.size[0] - h, 0)]
            if any(missing):
                img = F.pad(img, missing, self.fill, self.padding_mode)
        return img

    def make_params(self, flat_inputs: list[Any]) -> Any:
        first_image(flat_inputs)
        return [None]  # where the crop lies, once an image is padded

    def transform(self, inpt: Any, params: Any) -> Any:
        img = self._padded(inpt)
        params[0] = params[0] or self.get_params(img, self.size)
        return F.crop(img, *params[0])


class RandomResizedCrop(Transform):
    """A part `scale` of an image, its sides in `ratio`, resized to `size`.

    Args:
        scale, ratio: (least, most): of the area, and of the width by the height.
    """

    _function = F.resized_crop

    @fields(size=pair, interpolation=interpolation_mode)
    def __init__(
        self, size: Any, scale: Any = (0.08, 1.0), ratio: Any = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = InterpolationMode.BILINEAR, antialias: bool | None = True,
    ) -> None:  # fmt: skip
        _ranges(scale, ratio)

    @staticmethod
    def get_params(img: Any, scale: Any, ratio: Any) -> tuple[int, int, int, int]:
        """(top, left, height, width) in `img`; what fits in the middle where ten draws do not."""
        _, h, w = F.get_dimensions(img)
        for _ in range(10):
            width, height = _sides(h * w, scale, ratio)
            if 0 < width <= w and 0 < height <= h:
                top, left = _draw.randints(h - height + 1, w - width + 1)
                return top, left, height, width
        width, height = w, h
        if w / h < min(ratio):
            height = round(w / min(ratio))
        elif w / h > max(ratio):
            width = round(h * max(ratio))
        return (h - height) // 2, (w - width) // 2, height, width

    def make_params(self, flat_inputs: list[Any]) -> Any:
        return self.get_params(first_image(flat_inputs), self.scale, self.ratio)

    def extra_repr(self) -> str:
        scale, ratio = (tuple(round(x, 4) for x in pair) for pair in (self.scale, self.ratio))
        return (
            f"size={self.size}, scale={scale}, ratio={ratio}, "
            f"interpolation={self.interpolation.value}, antialias={self.antialias}"
        )


class RandomHorizontalFlip(RandomlyApplied):
    """Left and right change places with probability `p`."""

    _function = F.hflip


class RandomVerticalFlip(RandomlyApplied):
    """Top and bottom change places with probability `p`."""

    _function = F.vflip


# --- geometry


class RandomRotation(Transform):
    """An image turned by an angle of `degrees`, (least, most) or -degrees to degrees.

    Args:
        degrees: x for -x to x, or (least, most); counterclockwise.
    """

    _function = F.rotate

    @fields(interpolation=interpolation_mode, fill=_color)
    def __init__(
        self, degrees: Any, interpolation: Any = InterpolationMode.NEAREST, expand: bool = False,
        center: Any = None, fill: Any = 0,
    ) -> None:  # fmt: skip
        self.degrees = _angles(degrees, "degrees")
        if center is not None:
            check_sequence(center, "center", (2,))

    @staticmethod
    def get_params(degrees: Any) -> float:
        """The angle."""
        return _draw.uniform(*degrees)

    def make_params(self, flat_inputs: list[Any]) -> Any:
        return {"angle": self.get_params(self.degrees)}

    def extra_repr(self) -> str:
        center = "" if self.center is None else f", center={self.center}"
        return (
            f"degrees={self.degrees}, interpolation={self.interpolation.value}, "
            f"expand={self.expand}{center}, fill={self.fill}"
        )


class RandomAffine(Transform):
    """An image turned by `degrees`, moved by at most `translate` of its size, scaled, sheared.

    Args:
        degrees: x for -x to x, or (least, most).
        translate: (x, y): parts of the width and of the height, from 0 to 1; None moves nothing.
        scale: (least, most) factor; None for 1.
        shear: Degrees: x for -x to x, (least, most) along x, or both for x and y in four numbers.
        scale_ranges, shears, img_size: In `get_params` these, and (width, height).
    """

    _function = F.affine

    @fields(interpolation=interpolation_mode, fill=_color)
    def __init__(
        self, degrees: Any, translate: Any = None, scale: Any = None, shear: Any = None,
        interpolation: Any = InterpolationMode.NEAREST, fill: Any = 0, center: Any = None,
    ) -> None:  # fmt: skip
        self.degrees = _angles(degrees, "degrees")
        if translate is not None:
            check_sequence(translate, "translate", (2,))
            if not all(0.0 <= t <= 1.0 for t in translate):
                raise ValueError(f"translation values should be between 0 and 1. Got {translate}")
        if scale is not None:
            check_sequence(scale, "scale", (2,))
            if any(s <= 0 for s in scale):
                raise ValueError(f"scale values should be positive. Got {scale}")
        if center is not None:
            check_sequence(center, "center", (2,))
        self.shear = None if shear is None else _angles(shear, "shear", (2, 4))

    @staticmethod
    def get_params(
        degrees: Any, translate: Any, scale_ranges: Any, shears: Any, img_size: Any
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """(angle, translation, scale, shear) for an image of (w, h)."""
        angle = _draw.uniform(*degrees)
        tx = ty = 0
        if translate is not None:
            tx, ty = (
                round(_draw.uniform(-part * side, part * side))
                for part, side in zip(translate, img_size, strict=True)
            )
        scale = 1.0 if scale_ranges is None else _draw.uniform(*scale_ranges)
        sx = sy = 0.0
        if shears is not None:
            sx = _draw.uniform(shears[0], shears[1])
            if len(shears) == 4:
                sy = _draw.uniform(shears[2], shears[3])
        return angle, (tx, ty), scale, (sx, sy)

    def make_params(self, flat_inputs: list[Any]) -> Any:
        size = F.get_image_size(first_image(flat_inputs))
        return self.get_params(self.degrees, self.translate, self.scale, self.shear, size)

    def extra_repr(self) -> str:
        shown = {name: getattr(self, name) for name in ("translate", "scale", "shear")}
        if self.interpolation is not InterpolationMode.NEAREST:
            shown["interpolation"] = self.interpolation.value
        shown["fill"] = self.fill if self.fill != 0 else None
        shown["center"] = self.center
        set_ = (f", {name}={value}" for name, value in shown.items() if value is not None)
        return f"degrees={self.degrees}{''.join(set_)}"


class RandomPerspective(RandomlyApplied):
    """An image as seen from aside, with probability `p`: each corner moves inwards by at most
    `distortion_scale` of half of the size.

    Args:
        distortion_scale: From 0 to 1.
    """

    _function = F.perspective

    @fields("p", p=probability, interpolation=interpolation_mode, fill=_color)
    def __init__(
        self, distortion_scale: float = 0.5, p: float = 0.5,
        interpolation: Any = InterpolationMode.BILINEAR, fill: Any = 0,
    ) -> None: ...  # fmt: skip

    @staticmethod
    def get_params(
        width: int, height: int, distortion_scale: float
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Where the corners (x, y) of an image of `width` and `height` are, and where they go: from
        the top left one on clockwise."""
        dx = int(distortion_scale * (width // 2)) + 1
        dy = int(distortion_scale * (height // 2)) + 1
        start = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        end = []
        for x, y in start:
            inwards = _draw.randints(dx, dy)
            end.append([abs(x - inwards[0]), abs(y - inwards[1])])
        return start, end

    def make_params(self, flat_inputs: list[Any]) -> Any:
        width, height = F.get_image_size(first_image(flat_inputs))
        return self.get_params(width, height, self.distortion_scale)


def _two_floats(x: Any, name: str) -> list[float]:
    if not isinstance(x, (int, float, Sequence)):
        raise TypeError(f"{name} should be float or a sequence of floats. Got {type(x)}")
    values = list(x) if isinstance(x, Sequence) else [x]
    if len(values) == 1:
        values *= 2
    if len(values) != 2:
        raise ValueError(f"If {name} is a sequence its length should be 2. Got {len(values)}")
    if not all(isinstance(v, (int, float)) for v in values):
        raise TypeError(f"{name} should be a sequence of floats. Got {x}")
    return [float(v) for v in values]


class ElasticTransform(Transform):
    """An image as under water: its pixels move by at most `alpha`, smoothly where sigma is large.

    Simard, Steinkraus, Platt, "Best Practices for Convolutional Neural Networks", 2003.

    Args:
        sigma: A number, or one for each of x and y.
    """

    _function = F.elastic_transform

    @fields(interpolation=interpolation_mode)
    def __init__(
        self, alpha: Any = 50.0, sigma: Any = 5.0, interpolation: Any = InterpolationMode.BILINEAR,
        fill: Any = 0,
    ) -> None:  # fmt: skip
        self.alpha = _two_floats(alpha, "alpha")
        self.sigma = _two_floats(sigma, "sigma")
        if not isinstance(fill, (int, float, list, tuple)):
            raise TypeError(
                f"fill should be int or float or a list or tuple of them. Got {type(fill)}"
            )
        self.fill = [float(f) for f in (fill if isinstance(fill, Sequence) else [fill])]

    @staticmethod
    def get_params(alpha: Any, sigma: Any, size: Any) -> Tensor:
        """The displacement (1, H, W, 2) for an image of `size` (h, w)."""
        h, w = size
        moved = []
        for far, smooth, side in ((alpha[0], sigma[0], w), (alpha[1], sigma[1], h)):
            d = pf.empty(1, 1, h, w, device="cpu").uniform_(-1, 1)
            if smooth > 0:
                kernel = int(8 * smooth + 1) | 1
                d = F.gaussian_blur(d, [kernel, kernel], list(sigma))
            moved.append(d * far / side)
        return pf.cat(moved, 1).permute(0, 2, 3, 1)

    def make_params(self, flat_inputs: list[Any]) -> Any:
        size = F.get_dimensions(first_image(flat_inputs))[1:]
        return {"displacement": self.get_params(self.alpha, self.sigma, size)}


# --- neighborhoods and color


class GaussianBlur(Transform):
    """An image blurred with a Gaussian whose sigma is drawn between two.

    Args:
        kernel_size: Odd: a number, or (height, width).
        sigma: A number above 0, or (least, most).
        sigma_min, sigma_max: In `get_params` the two.
    """

    _function = F.gaussian_blur

    @fields()
    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        self.kernel_size = pair(kernel_size)
        if any(k <= 0 or k % 2 == 0 for k in self.kernel_size):
            raise ValueError(
                f"Kernel size value should be an odd and positive number. Got {kernel_size}"
            )
        if isinstance(sigma, numbers.Number):
            sigma = (sigma, sigma)
        if not isinstance(sigma, Sequence) or len(sigma) != 2:
            raise ValueError(
                f"sigma should be a single number or a list/tuple with length 2. Got {sigma}"
            )
        if not 0.0 < sigma[0] <= sigma[1]:
            raise ValueError(
                f"sigma values should be positive and of the form (min, max). Got {sigma}"
            )
        self.sigma = sigma

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """The sigma."""
        return _draw.uniform(sigma_min, sigma_max)

    def make_params(self, flat_inputs: list[Any]) -> Any:
        return {"sigma": [self.get_params(self.sigma[0], self.sigma[1])] * 2}


class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue changed in random order: each by a factor between
    two, or of 1 - x to 1 + x; the hue by a part of its circle.

    Args:
        brightness, contrast, saturation: x, at least 0, or (least, most).
        hue: x, from 0 to 0.5, or (least, most) from -0.5 to 0.5.
    """

    _adjust = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)

    @fields()
    def __init__(
        self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0
    ) -> None:
        self.brightness = self._range(brightness, "brightness")
        self.contrast = self._range(contrast, "contrast")
        self.saturation = self._range(saturation, "saturation")
        self.hue = self._range(hue, "hue", 0, (-0.5, 0.5))

    @staticmethod
    def _range(
        value: Any, name: str, center: float = 1, bound: tuple[float, float] = (0, math.inf)
    ) -> tuple[float, float] | None:
        if isinstance(value, numbers.Number) or value is None:
            far = float(value or 0)  # type: ignore[arg-type]
            if far < 0:
                raise ValueError(f"If {name} is a single number, it must be non negative: {far}")
            low, high = center - far, center + far
            if center:
                low = max(low, 0.0)
        elif isinstance(value, (tuple, list)) and len(value) == 2:
            low, high = float(value[0]), float(value[1])
        else:
            raise TypeError(
                f"{name} should be a single number or a list/tuple with length 2. Got {value!r}"
            )
        if not bound[0] <= low <= high <= bound[1]:
            raise ValueError(f"{name} values should be between {bound}, but got {[low, high]}.")
        return None if low == high == center else (low, high)

    @staticmethod
    def get_params(
        brightness: Any, contrast: Any, saturation: Any, hue: Any
    ) -> tuple[Any, float | None, float | None, float | None, float | None]:
        """(the order of the four, their factors; None where nothing changes)."""
        order = pf.from_numpy(_draw.permutation(4))
        b, c, s, h = (
            None if between is None else _draw.uniform(*between)
            for between in (brightness, contrast, saturation, hue)
        )
        return order, b, c, s, h

    def make_params(self, flat_inputs: list[Any]) -> Any:
        return self.get_params(self.brightness, self.contrast, self.saturation, self.hue)

    def transform(self, inpt: Any, params: Any) -> Any:
        order, *factors = params
        for i in order.tolist() if isinstance(order, Tensor) else order:
            if factors[i] is not None:
                inpt = self._adjust[i](inpt, factors[i])
        return inpt


class Grayscale(Transform):
    """An image in gray, in 1 channel or in 3 that are alike."""

    _function = F.rgb_to_grayscale

    @fields()
    def __init__(self, num_output_channels: int = 1) -> None: ...


class RandomGrayscale(RandomlyApplied):
    """An image in gray with probability `p`, in as many channels as before."""

    @fields(p=probability)
    def __init__(self, p: float = 0.1) -> None: ...

    def transform(self, inpt: Any, params: Any) -> Any:
        return F.rgb_to_grayscale(inpt, F.get_image_num_channels(inpt))


class RandomInvert(RandomlyApplied):
    """The negative with probability `p`."""

    _function = F.invert


class RandomPosterize(RandomlyApplied):
    """Each channel in its upper `bits` with probability `p`.

    Args:
        bits: From 0 to 8.
    """

    _function = F.posterize
    _between = ","

    @fields(p=probability)
    def __init__(self, bits: int, p: float = 0.5) -> None: ...


class RandomSolarize(RandomlyApplied):
    """What is not below `threshold` is inverted with probability `p`.

    Args:
        threshold: A level: of 255 in uint8, of 1 in floats.
    """

    _function = F.solarize
    _between = ","

    @fields(p=probability)
    def __init__(self, threshold: float, p: float = 0.5) -> None: ...


class RandomAdjustSharpness(RandomlyApplied):
    """Sharper or more blurred by a factor, with probability `p`.

    Args:
        sharpness_factor: 0 is blurred, 1 is the image, 2 is twice as sharp.
    """

    _function = F.adjust_sharpness
    _between = ","

    @fields(p=probability)
    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None: ...


class RandomAutocontrast(RandomlyApplied):
    """Each channel spread from black to white with probability `p`."""

    _function = F.autocontrast


class RandomEqualize(RandomlyApplied):
    """Each channel's levels made about as frequent with probability `p`."""

    _function = F.equalize
