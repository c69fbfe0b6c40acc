"""torchvision.transforms.functional: each function takes a Tensor (..., C, H, W) or a PIL image.

TypeError for what is neither. Numbers come out as torchvision's, except where an interpolated level
of uint8 falls between two: there it can be the neighbouring one.
https://docs.pytorch.org/vision/stable/transforms.html
"""

from __future__ import annotations

import functools
import math
import numbers
import sys
import warnings
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

import pyframe as pf
from pyframe.tensor import Tensor
from pyframe.vision.transforms import _functional_pil as _pil, _functional_tensor as _tensor
from pyframe.vision.transforms._functional_pil import is_pil, pillow

PADDING_MODES = ("constant", "edge", "reflect", "symmetric")


class InterpolationMode(Enum):
    """How pixels between pixels come about; tensors know the first four."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


pil_modes_mapping = {
    InterpolationMode.NEAREST: 0,
    InterpolationMode.NEAREST_EXACT: 0,
    InterpolationMode.LANCZOS: 1,
    InterpolationMode.BILINEAR: 2,
    InterpolationMode.BICUBIC: 3,
    InterpolationMode.BOX: 4,
    InterpolationMode.HAMMING: 5,
}
_NAMED: dict[Any, InterpolationMode] = {mode.value: mode for mode in InterpolationMode}
_NAMED.update((i, mode) for mode, i in reversed(pil_modes_mapping.items()))


def interpolation_mode(given: InterpolationMode | str | int) -> InterpolationMode:
    """The mode of a name or of Pillow's int. TypeError where there is none.

    Args:
        given: A mode, its name, or Pillow's int.
    """
    if isinstance(given, InterpolationMode):
        return given
    if isinstance(given, (str, int)) and given in _NAMED:
        return _NAMED[given]
    raise TypeError(
        "Argument interpolation should be a InterpolationMode, its name or a corresponding Pillow "
        f"integer constant, got {given!r}"
    )


def _of(img: Any) -> Any:
    """The functions of an image's kind."""
    if isinstance(img, Tensor):
        return _tensor
    if is_pil(img):
        return _pil
    hint = "; ToTensor() makes one of an array" if isinstance(img, np.ndarray) else ""
    raise TypeError(
        f"img should be a Tensor image or a PIL image. Unexpected type {type(img)}{hint}"
    )


def _expect_tensor(img: Any) -> Tensor:
    if not isinstance(img, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(img)}")
    return img


def _as_mode(img: Any, given: Any) -> Any:
    """A mode as the functions of the image's kind take it: a name for tensors, an int for PIL."""
    mode = interpolation_mode(given)
    return mode.value if isinstance(img, Tensor) else pil_modes_mapping[mode]


def pair(size: Any) -> Sequence[int]:
    """(h, w) of a number, of a sequence of one or of two. ValueError for others."""
    if isinstance(size, numbers.Number):
        return int(size), int(size)  # type: ignore[call-overload]
    if len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError(f"Please provide only two dimensions (h, w) for size. Got {size}")
    return size


# --- what an image is


def get_dimensions(img: Any) -> list[int]:
    """[C, H, W]."""
    return _of(img).get_dimensions(img)


def get_image_size(img: Any) -> list[int]:
    """[W, H]."""
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img: Any) -> int:
    """How many channels an image has."""
    return get_dimensions(img)[0]


# --- from one kind to another

_MODES = {"I": np.int32, "F": np.float32} | dict.fromkeys(
    ("I;16", "I;16B", "I;16L", "I;16N"), np.int16
)
_OF_ONE_CHANNEL = {
    np.dtype(np.uint8): "L",
    np.dtype(np.int16): "I;16" if sys.byteorder == "little" else "I;16B",
    np.dtype(np.uint16): "I;16" if sys.byteorder == "little" else "I;16B",
    np.dtype(np.int32): "I",
    np.dtype(np.float32): "F",
}
_OF_CHANNELS = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}


def to_tensor(pic: Any) -> Tensor:
    """A PIL image or an array (H, W, C) or (H, W) as a Tensor (C, H, W) on the CPU: uint8 from 0
    to 1 in the default dtype, other dtypes as they are; 16 bits of a PIL image as int16, in which
    what is above 32767 is below 0 (`pil_to_tensor` gives uint16).

    Args:
        pic: TypeError for what is neither.
    """
    if isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        array = pic
    elif is_pil(pic):
        array = np.array(pic, _MODES.get(pic.mode, np.uint8))
        if pic.mode == "1":
            array *= 255
    else:
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    array = array.transpose(2, 0, 1) if array.ndim == 3 else array[None]
    if array.dtype != np.uint8:
        return pf.from_numpy(np.ascontiguousarray(array))
    dtype = pf.get_default_dtype()
    if dtype is not pf.float32:
        return pf.from_numpy(np.ascontiguousarray(array)).to(dtype).div(255)
    return pf.from_numpy(np.divide(array, np.float32(255), dtype=np.float32, order="C"))


def pil_to_tensor(pic: Any) -> Tensor:
    """A PIL image as a Tensor (C, H, W) of its own dtype.

    Args:
        pic: The image; TypeError for others.
    """
    pillow()
    if not is_pil(pic):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    array = np.array(pic)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return pf.from_numpy(array).permute(2, 0, 1) if array.ndim == 3 else pf.from_numpy(array[None])


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A Tensor (C, H, W) or an array (H, W, C), floats from 0 to 1 or ints, as a PIL image.

    ValueError where the shape fits no image, or the mode does not fit it.

    Args:
        mode: A mode of Pillow that fits the channels; None takes the usual one.
        pic: TypeError for what is neither.
    """
    if isinstance(pic, Tensor):
        array = pic.detach().cpu().numpy()
        array = array.transpose(1, 2, 0) if array.ndim == 3 else array
    elif isinstance(pic, np.ndarray):
        array = pic
    else:
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3:
        raise ValueError(f"pic should be 2/3 dimensional. Got {array.ndim} dimensions.")
    channels = array.shape[2]
    if channels > 4:
        raise ValueError(f"pic should not have > 4 channels. Got {channels} channels.")
    if np.issubdtype(array.dtype, np.floating) and mode != "F":
        array = (array * 255).astype(np.uint8)
    if channels == 1:
        array = array[:, :, 0]
        known: Sequence[Any] = (_OF_ONE_CHANNEL.get(array.dtype),)
    else:
        known = _OF_CHANNELS[channels]
    if mode is not None and mode not in known:
        raise ValueError(
            f"Incorrect mode ({mode}) supplied for {channels} channels of {array.dtype}: only "
            f"{list(known)} are supported"
        )
    if mode is None and (channels == 1 or array.dtype == np.uint8):
        mode = known[0]
    if mode is None:
        raise TypeError(f"Input type {array.dtype} is not supported")
    image = pillow().Image
    if array.itemsize == 4:
        return image.fromarray(array)
    return image.frombuffer(mode, array.shape[1::-1], array.tobytes(), "raw", mode, 0, 1)


def convert_image_dtype(image: Any, dtype: Any = pf.float32) -> Tensor:
    """`image` in another dtype, scaled so that white stays white: 255 in uint8, 1 in floats.
    RuntimeError from floats to ints that are too wide for them.

    Args:
        dtype: The dtype.
    """
    if not isinstance(image, Tensor):
        raise TypeError(f"Input img should be Tensor Image. Got {type(image)}")
    return _tensor.convert_image_dtype(image, dtype)


# --- values


@functools.lru_cache(256)
def _per_channel(values: tuple[float, ...], dtype: Any, divides: bool) -> np.ndarray:
    array = np.array(values, dtype)
    if divides and not array.all():
        raise ValueError(
            f"std evaluated to zero after conversion to {array.dtype}, leading to division by "
            f"zero: {list(values)}"
        )
    return array.reshape(-1, 1, 1)


def _statistic(values: Any, img: Tensor, divides: bool) -> Any:
    """A mean or a deviation as it is subtracted from an image, or divides it."""
    if isinstance(values, Tensor):
        out = values.to(img.device, img.dtype)
        if divides and bool((out == 0).any()):
            raise ValueError("std evaluated to zero, leading to division by zero.")
        return out.view(-1, 1, 1) if out.ndim == 1 else out
    if isinstance(values, numbers.Number):
        values = (values,)
    wide = np.float64 if img.dtype is pf.float64 else np.float32
    array = _per_channel(tuple(values), wide, divides)
    if img.device.type == "cpu" and img.dtype in (pf.float32, pf.float64):
        return pf.from_numpy(array)
    return pf.tensor(array, dtype=img.dtype, device=img.device)


def normalize(tensor: Any, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """(tensor - mean) / std, a number for each channel of (..., C, H, W).

    TypeError for ints, ValueError where std has a 0.

    Args:
        tensor: Floats (..., C, H, W).
    """
    img = _expect_tensor(tensor)
    if not img.is_floating_point():
        raise TypeError(
            f"Input tensor should be a float tensor. Got {img.dtype}; ToTensor() or "
            "ConvertImageDtype(pf.float32) makes one."
        )
    if img.ndim < 3:
        raise ValueError(
            "Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = "
            f"{list(img.shape)}"
        )
    mean, std = _statistic(mean, img, False), _statistic(std, img, True)
    return img.sub_(mean).div_(std) if inplace else (img - mean) / std


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Tensor:
    """A Tensor whose pixels from row i and column j on, h x w of them, are `v`.

    Args:
        i, j, h, w: The first row and column, and how many of them.
        img: TypeError for what is no Tensor.
    """
    return _tensor.erase(_expect_tensor(img), i, j, h, w, v, inplace)


# --- form


def hflip(img: Any) -> Any:
    """Left and right change places."""
    return _of(img).hflip(img)


def vflip(img: Any) -> Any:
    """Top and bottom change places."""
    return _of(img).vflip(img)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """The part from row `top` and column `left` on; what lies outside of the image is 0."""
    return _of(img).crop(img, top, left, height, width)


def center_crop(img: Any, output_size: Any) -> Any:
    """The middle of an image, padded with 0 where it is smaller."""
    height, width = pair(output_size)
    _, h, w = get_dimensions(img)
    if width > w or height > h:
        dx, dy = max(width - w, 0), max(height - h, 0)
        img = pad(img, [dx // 2, dy // 2, (dx + 1) // 2, (dy + 1) // 2])
        _, h, w = get_dimensions(img)
        if (height, width) == (h, w):
            return img
    return crop(img, round((h - height) / 2), round((w - width) / 2), height, width)


def five_crop(img: Any, size: Any) -> tuple[Any, ...]:
    """The four corners and the middle. ValueError where the image is smaller."""
    height, width = pair(size)
    _, h, w = get_dimensions(img)
    if width > w or height > h:
        raise ValueError(f"Requested crop size {size} is bigger than input size {(h, w)}")
    corners = [(y, x) for y in (0, h - height) for x in (0, w - width)]
    crops = (crop(img, y, x, height, width) for y, x in corners)
    return *crops, center_crop(img, (height, width))


def ten_crop(img: Any, size: Any, vertical_flip: bool = False) -> tuple[Any, ...]:
    """`five_crop` of the image and of its flipped twin."""
    return five_crop(img, size) + five_crop((vflip if vertical_flip else hflip)(img), size)


def check_padding(padding: Any, padding_mode: Any) -> None:
    """TypeError or ValueError where `pad` could not take them.

    Args:
        padding: A width, or two or four of them.
    """
    if not isinstance(padding, (numbers.Number, tuple, list)):
        raise TypeError(f"Got inappropriate padding arg: {padding!r}")
    if not isinstance(padding_mode, str):
        raise TypeError(f"Got inappropriate padding_mode arg: {padding_mode!r}")
    if isinstance(padding, Sequence) and len(padding) not in (1, 2, 4):
        raise ValueError(
            "Padding must be an int or a 1, 2, or 4 element tuple, not a "
            f"{len(padding)} element tuple"
        )
    if padding_mode not in PADDING_MODES:
        raise ValueError(
            "Padding mode should be either constant, edge, reflect or symmetric, got "
            f"{padding_mode!r}"
        )


def check_fill(fill: Any) -> None:
    """TypeError unless it is a color."""
    if fill is not None and not isinstance(fill, (numbers.Number, tuple, list)):
        raise TypeError(f"Got inappropriate fill arg, expected numbers: {fill!r}")


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """An image with a border: `padding` is one width, (sides, top and bottom), or (left, top,
    right, bottom). The border is `fill`, or what `padding_mode` makes of the image: its "edge",
    or its mirror image without ("reflect") or with ("symmetric") the edge."""
    kind = _of(img)
    check_padding(padding, padding_mode)
    check_fill(fill)
    if isinstance(padding, numbers.Number):
        left = top = right = bottom = padding
    elif len(padding) == 4:
        left, top, right, bottom = padding
    else:
        left, top = right, bottom = padding[0], padding[-1]
    return kind.pad(img, [left, right, top, bottom], fill, padding_mode)


def _resized(h: int, w: int, size: Any, max_size: int | None) -> list[int]:
    """[H, W] of an image whose shorter side becomes `size`, and the longer at most `max_size`."""
    if size is not None and len(size) == 2:
        return list(size)
    short, long = min(h, w), max(h, w)
    if size is None:
        if not isinstance(max_size, int):
            raise ValueError(f"max_size must be an integer when size is None, but got {max_size}")
        new_short, new_long = int(max_size * short / long), max_size
    else:
        new_short, new_long = size[0], int(size[0] * long / short)
        if max_size is not None:
            if max_size <= new_short:
                raise ValueError(
                    f"max_size = {max_size} must be strictly greater than the requested size for "
                    f"the smaller edge size = {size[0]}"
                )
            if new_long > max_size:
                new_short, new_long = int(max_size * new_short / new_long), max_size
    return [new_long, new_short] if w <= h else [new_short, new_long]


def resize(
    img: Any, size: Any, interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None, antialias: bool | None = True,
) -> Any:  # fmt: skip
    """An image of `size`: (H, W), or an int for its shorter side, while the longer is at most
    `max_size`; where size is None, the longer side becomes `max_size`.

    A PIL image is smoothed whatever `antialias` says.
    """
    mode = _as_mode(img, interpolation)
    if isinstance(size, int):
        size = [size]
    elif size is not None:
        if len(size) not in (1, 2):
            raise ValueError(
                "Size must be an int or a 1 or 2 element tuple/list, not a "
                f"{len(size)} element tuple/list"
            )
        if max_size is not None and len(size) != 1:
            raise ValueError(
                "max_size should only be passed if size specifies the length of the smaller edge, "
                f"i.e. size should be an int; got size={size}"
            )
    _, h, w = get_dimensions(img)
    target = _resized(h, w, size, max_size)
    if target == [h, w]:
        return img
    if antialias is False and not isinstance(img, Tensor):
        warnings.warn(
            "Anti-alias option is always applied for PIL Image input. Argument antialias is "
            "ignored.",
            stacklevel=2,
        )
    return _of(img).resize(img, target, mode, antialias)


def resized_crop(
    img: Any, top: int, left: int, height: int, width: int, size: Any,
    interpolation: Any = InterpolationMode.BILINEAR, antialias: bool | None = True,
) -> Any:  # fmt: skip
    """`crop`, then `resize`.

    Args:
        size: As `resize` takes it.
    """
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


# --- geometry


def _inverse_affine(
    center: Sequence[float], angle: float, translate: Sequence[float], scale: float,
    shear: Sequence[float],
) -> list[float]:  # fmt: skip
    """The inverse of T C R S C^-1, in its first two rows: T moves by `translate`, C to `center`,
    R turns by `angle`, S shears and scales."""
    turn, sx, sy = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    (cx, cy), (tx, ty) = center, translate
    a = math.cos(turn - sy) / math.cos(sy)
    b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
    m = [x / scale for x in (d, -b, 0.0, -c, a, 0.0)]
    m[2] += m[0] * (-cx - tx) + m[1] * (-cy - ty) + cx
    m[5] += m[3] * (-cx - tx) + m[4] * (-cy - ty) + cy
    return m


def _from_middle(img: Tensor, center: Any) -> list[float]:
    """A center as tensors have it, from the middle of the image on."""
    _, h, w = get_dimensions(img)
    return [0.0, 0.0] if center is None else [center[0] - w * 0.5, center[1] - h * 0.5]


def _check_angle(angle: Any, center: Any) -> None:
    if not isinstance(angle, (int, float)):
        raise TypeError(f"Argument angle should be int or float, got {type(angle)}")
    if center is not None and not isinstance(center, (list, tuple)):
        raise TypeError(f"Argument center should be a sequence, got {type(center)}")


def _rotated_size(matrix: list[float], h: int, w: int) -> tuple[int, int]:
    """(H, W) that a turned image needs."""
    corners = np.array([[x, y, 1.0] for x in (-0.5 * w, 0.5 * w) for y in (-0.5 * h, 0.5 * h)])
    there = (corners @ np.array(matrix).reshape(2, 3).T).astype(np.float32)
    there += np.array([0.5 * w, 0.5 * h], np.float32)
    tol = np.float32(1e-4)  # sizes that are whole but for rounding
    most = np.ceil(np.trunc(there.max(0) / tol) * tol)
    least = np.floor(np.trunc(there.min(0) / tol) * tol)
    width, height = (most - least).astype(int)
    return int(height), int(width)


def rotate(
    img: Any, angle: float, interpolation: Any = InterpolationMode.NEAREST, expand: bool = False,
    center: Any = None, fill: Any = None,
) -> Any:  # fmt: skip
    """An image turned by `angle` degrees counterclockwise around `center` (x, y), by default its
    middle; where it should `expand`, it becomes as large as what is turned."""
    mode = _as_mode(img, interpolation)
    _check_angle(angle, center)
    if not isinstance(img, Tensor):
        return _of(img).rotate(img, angle, mode, expand, center, fill)
    matrix = _inverse_affine(_from_middle(img, center), -angle, (0.0, 0.0), 1.0, (0.0, 0.0))
    _, h, w = get_dimensions(img)
    return _tensor.affine(img, matrix, mode, fill, _rotated_size(matrix, h, w) if expand else None)


def affine(
    img: Any, angle: float, translate: Any, scale: float, shear: Any,
    interpolation: Any = InterpolationMode.NEAREST, fill: Any = None, center: Any = None,
) -> Any:  # fmt: skip
    """An image turned by `angle` degrees clockwise around `center`, moved by `translate` (x, y),
    scaled, and sheared by `shear` degrees: of x, or (of x, of y).

    Args:
        scale: A factor, above 0; ValueError otherwise.
    """
    mode = _as_mode(img, interpolation)
    _check_angle(angle, center)
    if not isinstance(translate, (list, tuple)):
        raise TypeError(f"Argument translate should be a sequence, got {type(translate)}")
    if len(translate) != 2:
        raise ValueError(f"Argument translate should be a sequence of length 2, got {translate}")
    if scale <= 0.0:
        raise ValueError(f"Argument scale should be positive, got {scale}")
    if not isinstance(shear, (numbers.Number, list, tuple)):
        raise TypeError(
            f"Shear should be either a single value or a sequence of two values, got {type(shear)}"
        )
    shear = [shear, 0.0] if isinstance(shear, numbers.Number) else list(shear)
    shear = shear * 2 if len(shear) == 1 else shear
    if len(shear) != 2:
        raise ValueError(f"Shear should be a sequence containing two values. Got {shear}")
    kind = _of(img)
    if kind is _tensor:
        center = _from_middle(img, center)
    elif center is None:
        _, h, w = get_dimensions(img)
        center = [w * 0.5, h * 0.5]
    matrix = _inverse_affine(center, angle, translate, scale, shear)
    return kind.affine(img, matrix, mode, fill)


def _perspective_coefficients(startpoints: Any, endpoints: Any) -> list[float]:
    """(a, …, h), so that ((ax + by + c) / (gx + hy + 1), (dx + ey + f) / (gx + hy + 1)) is a
    point of the input for each (x, y) of the output."""
    if len(startpoints) != 4 or len(endpoints) != 4:
        raise ValueError(
            f"Please provide exactly four corners, got {len(startpoints)} startpoints and "
            f"{len(endpoints)} endpoints."
        )
    rows = []
    for (x, y), (u, v) in zip(endpoints, startpoints, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    points = np.array(startpoints, np.float64).reshape(8)
    solution = np.linalg.lstsq(np.array(rows, np.float64), points, rcond=None)[0]
    return solution.astype(np.float32).tolist()


def perspective(
    img: Any, startpoints: Any, endpoints: Any, interpolation: Any = InterpolationMode.BILINEAR,
    fill: Any = None, coefficients: list[float] | None = None,
) -> Any:  # fmt: skip
    """An image seen so that its four corners `startpoints` (x, y) come to be at `endpoints`; the
    eight numbers of that map can be given instead.

    Args:
        coefficients: Those eight, of which a source's place follows from a result's.
    """
    if coefficients is None:
        coefficients = _perspective_coefficients(startpoints, endpoints)
    elif len(coefficients) != 8:
        raise ValueError(f"Argument coefficients should have 8 float values, got {coefficients}")
    return _of(img).perspective(img, coefficients, _as_mode(img, interpolation), fill)


def _through_tensor(img: Any, compute: Any) -> Any:
    """What has no counterpart in Pillow: a PIL image is a tensor meanwhile."""
    if _of(img) is _tensor:
        return compute(img)
    return to_pil_image(compute(pil_to_tensor(img)), mode=img.mode)


def elastic_transform(
    img: Any, displacement: Any, interpolation: Any = InterpolationMode.BILINEAR, fill: Any = None
) -> Any:
    """An image whose pixels come from `displacement` (1, H, W, 2) away; 2 is its whole size."""
    if not isinstance(displacement, Tensor):
        raise TypeError(f"Argument displacement should be a Tensor, got {type(displacement)}")
    expected = [1, *get_dimensions(img)[1:], 2]
    if list(displacement.shape) != expected:
        raise ValueError(
            f"Argument displacement shape should be {expected}, but given "
            f"{list(displacement.shape)}"
        )
    mode = interpolation_mode(interpolation).value
    return _through_tensor(img, lambda x: _tensor.elastic_transform(x, displacement, mode, fill))


# --- neighborhoods


def _pair_of(name: str, given: Any, number: type | tuple[type, ...]) -> list[Any]:
    if not isinstance(given, (number, list, tuple)):
        raise TypeError(f"{name} should be a number or a sequence of two. Got {type(given)}")
    values = list(given) if isinstance(given, (list, tuple)) else [given]
    values = values * 2 if len(values) == 1 else values
    if len(values) != 2:
        raise ValueError(f"If {name} is a sequence, its length should be 2. Got {len(values)}")
    return values


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """An image blurred with a Gaussian: `kernel_size` and `sigma` in x and y. A sigma that is not
    given follows from the size, which is odd. ValueError for one that is not positive."""
    size = _pair_of("kernel_size", kernel_size, int)
    if any(k % 2 == 0 or k < 0 for k in size):
        raise ValueError(f"kernel_size should have odd and positive integers. Got {kernel_size}")
    if sigma is None:
        sigma = [k * 0.15 + 0.35 for k in size]
    sigma = _pair_of("sigma", sigma, (int, float))
    if any(s <= 0 for s in sigma):
        raise ValueError(f"sigma should have positive values. Got {sigma}")
    return _through_tensor(img, lambda x: _tensor.gaussian_blur(x, size, sigma))


def _factor(name: str, img: Any, factor: float) -> Any:
    kind = _of(img)
    if factor < 0 and kind is _tensor:
        raise ValueError(f"{name}_factor ({factor}) is not non-negative.")
    return kind


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """0 is blurred, 1 is the image, 2 is twice as sharp.

    Args:
        sharpness_factor: At least 0; ValueError otherwise.
    """
    return _factor("sharpness", img, sharpness_factor).adjust_sharpness(img, sharpness_factor)


# --- color


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """0 is black, 1 is the image, 2 is twice as bright.

    Args:
        brightness_factor: At least 0; ValueError otherwise.
    """
    return _factor("brightness", img, brightness_factor).adjust_brightness(img, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """0 is all gray, 1 is the image, 2 has twice the contrast.

    Args:
        contrast_factor: At least 0; ValueError otherwise.
    """
    return _factor("contrast", img, contrast_factor).adjust_contrast(img, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """0 is black and white, 1 is the image, 2 has twice the color.

    Args:
        saturation_factor: At least 0; ValueError otherwise.
    """
    return _factor("saturation", img, saturation_factor).adjust_saturation(img, saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """The hue turned by `hue_factor` of its circle, from -0.5 to 0.5."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    return _of(img).adjust_hue(img, hue_factor)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """gain * img ** gamma, white being 1.

    Args:
        gamma: At least 0; ValueError otherwise.
        gain: A factor.
    """
    kind = _of(img)
    if gamma < 0:
        raise ValueError(f"Gamma should be a non-negative real number, got {gamma}")
    return kind.adjust_gamma(img, gamma, gain)


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Gray in 1 channel or in 3 that are alike."""
    kind = _of(img)
    if num_output_channels not in (1, 3):
        raise ValueError(f"num_output_channels should be either 1 or 3, got {num_output_channels}")
    return kind.rgb_to_grayscale(img, num_output_channels)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """`rgb_to_grayscale` of a PIL image of any mode.

    Args:
        img: The image; TypeError for others.
    """
    if not is_pil(img):
        raise TypeError(f"Input should be PIL Image. Got {type(img)}")
    return rgb_to_grayscale(img, num_output_channels)


def invert(img: Any) -> Any:
    """The negative."""
    return _of(img).invert(img)


def _check_levels(name: str, img: Any) -> None:
    if isinstance(img, Tensor) and img.dtype is not pf.uint8 and not img.is_floating_point():
        raise TypeError(
            f"Only uint8 and float image tensors are supported by {name}, but found {img.dtype}; "
            f"v2.functional.{name} takes others"
        )


def posterize(img: Any, bits: int) -> Any:
    """Each channel in its upper `bits`, from 0 to 8; others are 0."""
    kind = _of(img)
    if not 0 <= bits <= 8:
        raise ValueError(f"The number of bits should be between 0 and 8. Got {bits}")
    _check_levels("posterize", img)
    return kind.posterize(img, bits)


def solarize(img: Any, threshold: float) -> Any:
    """What is not below `threshold` is inverted.

    Args:
        threshold: A level: of 255 in uint8, of 1 in floats; TypeError if it is above white.
    """
    return _of(img).solarize(img, threshold)


def autocontrast(img: Any) -> Any:
    """Each channel spread from black to white."""
    return _of(img).autocontrast(img)


def equalize(img: Any) -> Any:
    """Each channel's levels spread so that all are about as frequent."""
    _check_levels("equalize", img)
    return _of(img).equalize(img)
