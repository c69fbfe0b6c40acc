"""The transforms of PIL images, by Pillow, which is imported when it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyframe.core.extras import install, is_pil as is_pil


def pillow() -> Any:
    """Pillow with the modules that are used here. ImportError where it is not installed."""
    try:
        import PIL
        import PIL.Image
        import PIL.ImageEnhance
        import PIL.ImageOps
    except ImportError:
        raise ImportError(
            f"PIL images need Pillow, which is not installed: {install('images')}"
        ) from None
    return PIL


def get_dimensions(img: Any) -> list[int]:
    width, height = img.size
    return [len(img.getbands()), height, width]


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    return img.crop((left, top, left + width, top + height))


def hflip(img: Any) -> Any:
    return img.transpose(pillow().Image.Transpose.FLIP_LEFT_RIGHT)


def vflip(img: Any) -> Any:
    return img.transpose(pillow().Image.Transpose.FLIP_TOP_BOTTOM)


# --- geometry


def _fill(fill: Any, img: Any) -> Any:
    """The color of an image's mode that a number or a sequence of numbers stands for."""
    channels = len(img.getbands())
    values = list(fill) if isinstance(fill, Sequence) else [fill or 0]
    if len(values) not in (1, channels):
        raise ValueError(
            "The number of elements in 'fill' does not match the number of channels of the image "
            f"({len(values)} != {channels})"
        )
    if img.mode != "F":
        values = [int(v) for v in values]
    return tuple(values * (channels // len(values))) if channels > 1 else values[0]


def pad(img: Any, padding: list[int], fill: Any, padding_mode: str) -> Any:
    left, right, top, bottom = padding
    if padding_mode == "constant":
        border = (left, top, right, bottom)
        out = pillow().ImageOps.expand(img, border, _fill(fill, img))
    else:
        cut = [-min(p, 0) for p in padding]
        if any(cut):
            img = img.crop((cut[0], cut[2], img.width - cut[1], img.height - cut[3]))
        left, right, top, bottom = (max(p, 0) for p in padding)
        widths = [(top, bottom), (left, right), (0, 0)]
        array = np.asarray(img)
        out = pillow().Image.fromarray(np.pad(array, widths[: array.ndim], padding_mode))
    if img.mode == "P":
        out.putpalette(img.getpalette())
    return out


def resize(img: Any, size: list[int], interpolation: int, antialias: bool | None) -> Any:
    return img.resize((size[1], size[0]), interpolation)


def affine(img: Any, matrix: list[float], interpolation: int, fill: Any) -> Any:
    kind = pillow().Image.Transform.AFFINE
    return img.transform(img.size, kind, matrix, interpolation, fillcolor=_fill(fill, img))


def rotate(img: Any, angle: float, interpolation: int, expand: bool, center: Any, fill: Any) -> Any:
    return img.rotate(angle, interpolation, expand, center, fillcolor=_fill(fill, img))


def perspective(img: Any, coefficients: list[float], interpolation: int, fill: Any) -> Any:
    kind = pillow().Image.Transform.PERSPECTIVE
    return img.transform(img.size, kind, coefficients, interpolation, fillcolor=_fill(fill, img))


# --- color


def _enhanced(kind: str) -> Callable[[Any, float], Any]:
    return lambda img, factor: getattr(pillow().ImageEnhance, kind)(img).enhance(factor)


adjust_brightness, adjust_contrast = _enhanced("Brightness"), _enhanced("Contrast")
adjust_saturation, adjust_sharpness = _enhanced("Color"), _enhanced("Sharpness")


def adjust_hue(img: Any, factor: float) -> Any:
    if img.mode in {"L", "1", "I", "F"}:
        return img
    image = pillow().Image
    h, s, v = img.convert("HSV").split()
    turned = np.asarray(h, np.uint8) + np.uint8(int(factor * 255) % 256)  # modulo 256
    return image.merge("HSV", (image.fromarray(turned), s, v)).convert(img.mode)


def adjust_gamma(img: Any, gamma: float, gain: float) -> Any:
    levels = [int((255 + 1 - 1e-3) * gain * (level / 255.0) ** gamma) for level in range(256)]
    return img.convert("RGB").point(levels * 3).convert(img.mode)


def rgb_to_grayscale(img: Any, channels: int) -> Any:
    gray = img.convert("L")
    return pillow().Image.merge("RGB", (gray, gray, gray)) if channels == 3 else gray


def grayscale_to_rgb(img: Any) -> Any:
    return img.convert("RGB")


def _of_ops(name: str) -> Callable[..., Any]:
    return lambda img, *args: getattr(pillow().ImageOps, name)(img, *args)


invert, posterize, solarize, autocontrast, equalize = map(
    _of_ops, ("invert", "posterize", "solarize", "autocontrast", "equalize")
)
