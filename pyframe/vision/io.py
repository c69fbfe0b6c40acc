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
from pyframe.io.files import Bounded, most_of, opened, replacing
from pyframe.io.kinds import mistaken
from pyframe.tensor import Tensor, from_numpy

_PNG = b"\x89PNG\r\n\x1a\n"
_FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # that Pillow may read
# of an interlaced PNG: where its parts begin, and their steps, in x and y
_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
          (0, 1, 1, 2))  # fmt: skip
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
    """The pixels (H, W, C) of the image in `file`, in Pillow's `mode` or the file's own: uint8;
    uint16 where a PNG, PGM or gray TIFF has 16 bits; int32 or float32 of gray TIFFs of these.
    (Of TIFFs in color Pillow knows 8 bits alone.)

    ValueError, which says `name`, unless it is an image that is whole and not far too large.
    """
    image, begin = pillow("reading images"), file.tell()
    try:
        with opened_image(file, "reading images") as opened:
            at = file.tell()
            file.seek(begin)
            start = file.read(26)
            file.seek(begin if (deep := start.startswith(_PNG) and start[24:25] == b"\x10") else at)
            if deep and opened.mode != "I;16":
                pixels = _as_mode(_png_of_16_bits(file), mode)
            elif opened.mode[0] in "IF":  # which Pillow would clip at 255
                kind = np.uint16 if opened.mode != "I" or opened.format == "PPM" else np.int32
                kind = np.float32 if opened.mode == "F" else kind
                pixels = _as_mode(np.array(opened).astype(kind)[..., None], mode)
            else:
                if mode is None:  # bits, palettes and colors for print become what a net can take
                    transparent = "transparency" in opened.info
                    palette = "RGBA" if transparent else "RGB"
                    mode = {
                        "1": "L", "P": palette, "PA": "RGBA", "CMYK": "RGB", "YCbCr": "RGB"
                    }.get(opened.mode, opened.mode)  # fmt: skip
                pixels = np.array(opened if opened.mode == mode else opened.convert(mode))
    except image.DecompressionBombError as error:
        raise ValueError(
            f"{name}: far too large an image: {error} Where it is meant, raise "
            "PIL.Image.MAX_IMAGE_PIXELS"
        ) from None
    except (
        OSError,
        SyntaxError,
        ValueError,
        KeyError,
        EOFError,
        struct.error,
        zlib.error,
    ) as error:
        file.seek(begin)
        why = mistaken(file.read(100)) or error
        raise ValueError(f"{name}: not an image that Pillow can read ({why})") from None
    return pixels if pixels.ndim == 3 else pixels[..., None]


def _white(dtype: np.dtype[Any]) -> int:
    """What white is in a dtype of pixels: 1 in floats."""
    return int(np.iinfo(dtype).max) if dtype.kind in "iu" else 1


def _as_mode(pixels: np.ndarray, mode: str | None) -> np.ndarray:
    """Pixels of any dtype, with the channels of a mode; gray is Pillow's."""
    if mode is None:
        return pixels
    alpha = pixels.shape[2] % 2 == 0
    color, opacity = (pixels[..., :-1], pixels[..., -1:]) if alpha else (pixels, None)
    if mode[0] == "L" and color.shape[2] == 3:
        mixed = color @ np.array([19595, 38470, 7471], np.uint64)[:, None]
        color = ((mixed + 0x8000) >> 16).astype(pixels.dtype)
    elif mode[0] == "R" and color.shape[2] == 1:
        color = np.repeat(color, 3, 2)
    if mode[-1] != "A":
        return color
    full = np.full_like(color[..., :1], _white(pixels.dtype))
    return np.concatenate([color, full if opacity is None else opacity], 2)


def _png_of_16_bits(file: BinaryIO) -> np.ndarray:
    """The pixels of a PNG, which Pillow would cut to 8 bits: uint16 (H, W, C)."""
    begin = file.tell()
    most = most_of(file.seek(0, os.SEEK_END) - begin)
    file.seek(begin)
    bounded, packed, kind = Bounded(file), [], b""
    bounded.read(len(_PNG))
    while kind != b"IEND":
        size, kind = struct.unpack(">I4s", bounded.read(8))
        data = bounded.read(size)
        if bounded.read(4) != struct.pack(">I", zlib.crc32(kind + data)):
            raise ValueError(f"its part {kind!r} is damaged")
        if kind == b"IHDR":
            width, height, _, color, _, _, interlaced = struct.unpack(">IIBBBBB", data)
        elif kind == b"IDAT":
            packed.append(data)
    channels = {color: n for n, color in _PNG_COLORS.items()}[color]
    parts = [
        (x, y, dx, dy, -(-(height - y) // dy), -(-(width - x) // dx))
        for x, y, dx, dy in (_ADAM7 if interlaced else ((0, 0, 1, 1),))
        if x < width and y < height
    ]
    total = sum(h * (1 + w * 2 * channels) for *_, h, w in parts)
    if total > most:
        raise ValueError(f"its pixels take {total} bytes, far more than such a file holds")
    lines = np.frombuffer(zlib.decompressobj().decompress(b"".join(packed), total), np.uint8)
    if lines.size < total:
        raise EOFError(f"it has {lines.size} of {total} bytes")
    out = np.empty((height, width, channels), np.uint16)
    for x, y, dx, dy, h, w in parts:
        part, lines = np.split(lines, [h * (1 + w * 2 * channels)])
        part = part.reshape(h, -1)
        found = _unfiltered(part[:, 0], part[:, 1:].reshape(h, w, -1))
        out[y::dy, x::dx] = found.view(">u2")
    return out


def _unfiltered(kinds: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """The bytes (H, W, n) of a PNG, of what its filters made of them: each depends on those to the
    left and above, so that all of a diagonal are computed at once."""
    height, width, n = lines.shape
    padded = np.zeros((height + 1, width + 1, n), np.int16)
    padded[1:, 1:] = lines
    flat = padded.reshape(-1, n)
    for d in range(height + width - 1):
        first, last = max(0, d - width + 1), min(height, d + 1)
        at = (first + 1) * (width + 1) + d - first + 1
        here, left, above, corner = (
            flat[at - back : at - back + (last - first - 1) * width + 1 : width]
            for back in (0, 1, width + 1, width + 2)
        )
        a, b, c = abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)
        nearest = np.where((a <= b) & (a <= c), left, np.where(b <= c, above, corner))  # Paeth's
        filters = np.zeros_like(left), left, above, (left + above) >> 1, nearest
        here[:] = (here + np.choose(kinds[first:last, None], filters)) & 255
    return padded[1:, 1:].astype(np.uint8)


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
    """The image in a file: uint8 (C, H, W); uint16 of a PNG, a PGM or a gray TIFF of 16 bits, and
    int32 or float32 of a gray TIFF of these, whatever the mode. ValueError if there is none."""
    with opened(path) as file:
        return _channels_first(decode(file, os.fspath(path), _mode(mode)))


def decode_image(
    input: Tensor | str | os.PathLike[str], mode: ImageReadMode | str = ImageReadMode.UNCHANGED
) -> Tensor:
    """The image in the bytes of a file (uint8 (N,)) or in a file, as `read_image` gives it."""
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
