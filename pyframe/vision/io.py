"""Images from files and to files, as torchvision.io.

PNG is written without help; all else is read and written by Pillow (extra `images`).
"""

from __future__ import annotations

import enum
import io
import os
import struct
import zlib
from typing import Any, BinaryIO

import numpy as np

from pyframe.core import dtypes
from pyframe.core.extras import install
from pyframe.io.files import Bounded, mistaken, opened, replacing
from pyframe.tensor import Tensor, from_numpy

_PNG = b"\x89PNG\r\n\x1a\n"
_FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # that Pillow may read
_PNG_COLORS = {1: 0, 2: 4, 3: 2, 4: 6}  # channels: PNG's color type


class ImageReadMode(enum.Enum):
    """The channels that `decode_image` gives: those of the file, or these. Names do as well."""

    UNCHANGED = None
    GRAY = "L"
    GRAY_ALPHA = "LA"
    RGB = "RGB"
    RGB_ALPHA = "RGBA"


def pillow(what: str) -> Any:
    """PIL.Image. ImportError that says how to get it for `what`."""
    try:
        import PIL.Image
    except ImportError:
        raise ImportError(f"{what} needs Pillow: {install('images')}") from None
    return PIL.Image


def opened_image(file: BinaryIO, what: str) -> Any:
    """The PIL image in `file`, whose pixels are not read yet, whatever it is called: of the formats
    that are pixels alone. Pillow knows more, some of which are programs (of PostScript's)."""
    image = pillow(what)
    start, bounded = file.tell(), Bounded(file)
    for load in (image.preinit, image.init):  # the common ones, in a moment; all that Pillow has
        load()
        try:
            return image.open(bounded, formats=[f for f in _FORMATS if f in image.OPEN])
        except image.UnidentifiedImageError as error:
            file.seek(start)
            unknown = error
    raise unknown


def decode(file: BinaryIO, name: str, mode: str | None) -> np.ndarray:
    """The pixels (H, W, C) of the image in `file`, in Pillow's `mode` or the file's own.

    ValueError, which says `name`, unless it is an image that is whole and not far too large.
    """
    image = pillow("reading images")
    try:
        with opened_image(file, "reading images") as opened:
            if mode is None:  # bits, palettes and colors for print become what a net can take
                transparent = "transparency" in opened.info
                palette = "RGBA" if transparent else "RGB"
                mode = {"1": "L", "P": palette, "PA": "RGBA", "CMYK": "RGB", "YCbCr": "RGB"}.get(
                    opened.mode, opened.mode
                )
            pixels = np.array(opened if opened.mode == mode else opened.convert(mode))
    except image.DecompressionBombError as error:
        raise ValueError(
            f"{name}: far too large an image: {error} Where it is meant, raise "
            "PIL.Image.MAX_IMAGE_PIXELS"
        ) from None
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error) as error:
        file.seek(0)
        why = mistaken(file.read(100)) or f"not an image that Pillow can read ({error})"
        raise ValueError(f"{name}: {why}") from None
    return pixels if pixels.ndim == 3 else pixels[..., None]


def _mode(mode: ImageReadMode | str) -> str | None:
    if isinstance(mode, str):
        if mode.upper() not in ImageReadMode.__members__:
            raise ValueError(
                f"unknown mode {mode!r}, expected one of {', '.join(ImageReadMode.__members__)}"
            )
        mode = ImageReadMode[mode.upper()]
    return mode.value


def _channels_first(pixels: np.ndarray) -> Tensor:
    return from_numpy(np.ascontiguousarray(np.moveaxis(pixels, -1, 0)))


def read_image(
    path: str | os.PathLike[str], mode: ImageReadMode | str = ImageReadMode.UNCHANGED
) -> Tensor:
    """The image in a file: uint8 (C, H, W). ValueError if there is none."""
    with opened(path) as file:
        return _channels_first(decode(file, os.fspath(path), _mode(mode)))


def decode_image(
    input: Tensor | str | os.PathLike[str], mode: ImageReadMode | str = ImageReadMode.UNCHANGED
) -> Tensor:
    """The image in the bytes of a file (uint8 (N,)) or in a file: uint8 (C, H, W)."""
    if not isinstance(input, Tensor):
        return read_image(input, mode)
    if input.dtype != dtypes.uint8 or input.ndim != 1:
        raise RuntimeError(
            f"decode_image: expected the bytes of a file, uint8 (N,), got {input.dtype} of shape "
            f"{list(input.shape)}"
        )
    return _channels_first(decode(io.BytesIO(input.numpy().tobytes()), "input", _mode(mode)))


def read_file(path: str | os.PathLike[str]) -> Tensor:
    """The bytes of a file: uint8 (N,)."""
    with opened(path) as file:
        return from_numpy(np.fromfile(file, np.uint8))


def write_file(filename: str | os.PathLike[str], data: Tensor) -> None:
    """Write the bytes uint8 (N,) to a file."""
    with replacing(filename) as file:
        file.write(data.numpy().tobytes())


def _pixels(input: Tensor, name: str) -> np.ndarray:
    if input.dtype != dtypes.uint8 or input.ndim != 3 or input.shape[0] not in _PNG_COLORS:
        raise RuntimeError(
            f"{name}: expected an image uint8 (C, H, W) with 1 to 4 channels, got {input.dtype} of "
            f"shape {list(input.shape)}; floats from 0 to 1 are saved by vision.utils.save_image"
        )
    return np.ascontiguousarray(np.moveaxis(input.detach().cpu().numpy(), 0, -1))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(pixels: np.ndarray, level: int) -> bytes:
    """A PNG file (https://www.w3.org/TR/png/) of uint8 (H, W, C); no line is filtered."""
    height, width, channels = pixels.shape
    head = struct.pack(">IIBBBBB", width, height, 8, _PNG_COLORS[channels], 0, 0, 0)
    lines = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0)))  # each begins with its filter, 0
    data = zlib.compress(lines.tobytes(), level)
    return _PNG + _chunk(b"IHDR", head) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """The bytes (uint8 (N,)) of a PNG file of the image uint8 (C, H, W), C from 1 to 4.

    Args:
        compression_level: From 0 to 9, the smallest file.
    """
    data = _png(_pixels(input, "encode_png"), compression_level)
    return from_numpy(np.frombuffer(data, np.uint8).copy())


def write_png(input: Tensor, filename: str | os.PathLike[str], compression_level: int = 6) -> None:
    """Write the image uint8 (C, H, W), C from 1 to 4, to a PNG file; Pillow is not needed."""
    write_file(filename, encode_png(input, compression_level))


def encode_jpeg(input: Tensor, quality: int = 75) -> Tensor:
    """The bytes (uint8 (N,)) of a JPEG file of the image uint8 (C, H, W), C 1 or 3."""
    pixels, file = _pixels(input, "encode_jpeg"), io.BytesIO()
    pillow("writing JPEG").fromarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels).save(
        file, "JPEG", quality=quality
    )
    return from_numpy(np.frombuffer(file.getvalue(), np.uint8).copy())


def write_jpeg(input: Tensor, filename: str | os.PathLike[str], quality: int = 75) -> None:
    """Write the image uint8 (C, H, W), C 1 or 3, to a JPEG file."""
    write_file(filename, encode_jpeg(input, quality))
