"""Grids and files of images."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refused import calls, check_refused, rows

import pyframe as pf
from pyframe.vision import io as vio, utils
from pyframe.vision.datasets.folder import default_loader, pil_loader

FLOATS = np.random.RandomState(0).uniform(-1, 2, (5, 3, 4, 6)).astype(np.float32)
BYTES = np.random.RandomState(0).randint(0, 256, (5, 3, 4, 6), np.uint8)


GRIDS = """
x | x, nrow=2, padding=3, pad_value=0.5 | x, nrow=3, padding=0 | x, nrow=2, normalize=True
x, nrow=2, normalize=True, scale_each=True | x, normalize=True, value_range=(0, 1)
x * 0, normalize=True | x[:, :1], nrow=2 | x[:1] | x[0], normalize=True | x[0, 0] | x[0, :1]
x[:, :2], nrow=2 | of_bytes, nrow=2, pad_value=9
"""


@pytest.mark.parametrize("given", calls(GRIDS))
def test_make_grid(given: str, torch: Any, torchvision: Any) -> None:
    grids = []
    for lib, of in ((pf, utils), (torch, torchvision.utils)):
        x, of_bytes = (lib.from_numpy(images.copy()) for images in (FLOATS, BYTES))
        names = {"x": x, "of_bytes": of_bytes, "make_grid": of.make_grid}
        grids.append(eval(f"make_grid({given})", names).numpy())
        for images, kept in ((x, FLOATS), (of_bytes, BYTES)):
            np.testing.assert_array_equal(images.numpy(), kept, err_msg="they stay as they are")
    grid, expected = grids
    assert grid.dtype == expected.dtype
    np.testing.assert_allclose(grid, expected, atol=1e-6)


def test_make_grid_of_a_list_on_the_gpu(gpu: str) -> None:
    images = [pf.from_numpy(FLOATS[i]).to(gpu) for i in range(5)]
    grid = utils.make_grid(images, nrow=2)
    assert grid.device.type == images[0].device.type
    expected = utils.make_grid(pf.from_numpy(FLOATS), nrow=2)
    np.testing.assert_array_equal(grid.cpu().numpy(), expected.numpy())


def filtered(pixels: np.ndarray, kinds: list[int]) -> bytes:
    """The lines of a PNG, each by one of the five filters, byte by byte."""
    n, out, above = 2 * pixels.shape[2], bytearray(), [0] * pixels[0].nbytes
    for kind, row in zip(kinds, pixels, strict=False):
        line = list(row.astype(">u2").tobytes())
        out.append(kind)
        for i, x in enumerate(line):
            a, b, c = (line[i - n], above[i], above[i - n]) if i >= n else (0, above[i], 0)
            p = a + b - c
            nearest = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            out.append((x - (0, a, b, (a + b) // 2, nearest)[kind]) % 256)
        above = line
    return bytes(out)


def png_of_16_bits(pixels: np.ndarray, interlaced: bool, kinds: list[int]) -> bytes:
    h, w, channels = pixels.shape
    parts = [pixels[y::dy, x::dx] for x, y, dx, dy in (
        vio._ADAM7 if interlaced else [(0, 0, 1, 1)])]  # fmt: skip
    packed = zlib.compress(b"".join(filtered(part, kinds) for part in parts if part.size))
    head = struct.pack(">IIBBBBB", w, h, 16, vio._PNG_COLORS[channels], 0, 0, interlaced)
    cut = len(packed) // 2
    chunks = (b"IHDR", head), (b"IDAT", packed[:cut]), (b"IDAT", packed[cut:]), (b"IEND", b"")
    return vio._PNG + b"".join(vio._chunk(*chunk) for chunk in chunks)


def test_png_of_16_bits_that_unpacks_to_far_more(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    head = struct.pack(">IIBBBBB", 9_000, 9_000, 16, 6, 0, 0, 0)
    chunks = (b"IHDR", head), (b"IDAT", zlib.compress(bytes(1 << 20))), (b"IEND", b"")
    (tmp_path / "x.png").write_bytes(vio._PNG + b"".join(vio._chunk(*c) for c in chunks))
    with pytest.raises(ValueError, match="take 648009000 bytes, far more than such a file holds"):
        vio.read_image(tmp_path / "x.png")


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_of_16_bits(channels: int, tmp_path: Path) -> None:
    """All bits come, as uint16, in any mode: torchvision's decode_image."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(channels)
    for h, w in ((1, 1), (1, 9), (9, 1), (7, 11)):
        pixels = rng.integers(0, 65536, (h, w, channels)).astype(np.uint16)
        for interlaced in (False, True):
            file = png_of_16_bits(pixels, interlaced, rng.integers(0, 5, h).tolist())
            with image.open(io.BytesIO(file)) as other:  # it sees the same picture, in 8 bits
                seen = np.array(other).reshape(h, w, -1)
            eight = pixels if channels == 1 else pixels >> 8
            np.testing.assert_array_equal(seen[..., [0, -1]], eight[..., [0, -1]])
            read = vio.decode_image(pf.tensor(np.frombuffer(file, np.uint8).copy()))
            assert read.dtype is pf.uint16
            np.testing.assert_array_equal(read.numpy(), np.moveaxis(pixels, -1, 0))
    (tmp_path / "x.png").write_bytes(file)
    color, opacity = (pixels[..., :-1], pixels[..., -1]) if channels in (2, 4) else (pixels, None)
    gray = color[..., 0] if channels < 3 else color @ np.array([0.299, 0.587, 0.114])
    full = np.full((h, w), 65535) if opacity is None else opacity
    for mode in vio.ImageReadMode:
        x = vio.read_image(tmp_path / "x.png", mode).numpy()
        assert x.dtype == np.uint16
        assert len(x) == len(mode.value or "RGBA"[:channels])
        if mode.value in ("L", "LA"):
            assert np.abs(x[0] - gray).max() <= 1
        if mode.value in ("RGB", "RGBA"):
            want = np.broadcast_to(np.moveaxis(color, -1, 0), (3, h, w))
            np.testing.assert_array_equal(x[:3], want)
        if mode.value in ("LA", "RGBA"):
            np.testing.assert_array_equal(x[-1], full)
    rgb = vio.read_image(tmp_path / "x.png", "RGB").numpy()
    np.testing.assert_allclose(default_loader(tmp_path / "x.png").numpy(), rgb / 65535, atol=1e-6)
    eight = np.array(pil_loader(tmp_path / "x.png"))
    np.testing.assert_array_equal(eight, np.moveaxis(rgb >> 8, 0, -1))
    for damaged in (file[:-30], file[:60] + b"?" + file[61:]):
        with pytest.raises(ValueError, match="not an image that Pillow can read"):
            vio.decode_image(pf.tensor(np.frombuffer(damaged, np.uint8).copy()))


def test_wide_images_of_other_formats(tmp_path: Path) -> None:
    """Nothing is clipped at 255: what has no white of its own keeps its numbers."""
    image = pytest.importorskip("PIL.Image")
    sixteen = (np.arange(12).reshape(3, 4) * 5000).astype(np.uint16)
    for name, array in (
        ("a.tif", sixteen), ("b.tif", sixteen.astype(">u2")), ("a.pgm", sixteen),
        ("int.tif", sixteen.astype(np.int32) - 9), ("float.tif", sixteen.astype(np.float32) / 9),
    ):  # fmt: skip
        path = tmp_path / name
        if name == "a.pgm":
            path.write_bytes(b"P5 4 3 65535\n" + array.astype(">u2").tobytes())
        else:
            image.fromarray(array).save(path)
        expected = array.astype(array.dtype.newbyteorder("="))
        for mode, channels in ((None, 1), ("RGB", 3), ("GRAY", 1)):
            x = vio.read_image(path, *([] if mode is None else [mode])).numpy()
            assert x.dtype == expected.dtype
            np.testing.assert_array_equal(x, np.broadcast_to(expected, (channels, 3, 4)))
        if name == "int.tif":
            with pytest.raises(ValueError, match="32 bits, of which no number is white"):
                default_loader(path)
        else:
            most = 65535 if array.itemsize == 2 else 1
            np.testing.assert_allclose(default_loader(path).numpy()[1], expected / most, rtol=1e-6)


REFUSED = r"""
utils.make_grid(3) -> TypeError: tensor or list of tensors expected
utils.make_grid([x, "x"]) -> TypeError: tensor or list of tensors expected
utils.make_grid((x,)) -> TypeError: tensor or list of tensors expected
utils.make_grid(x, normalize=True, value_range=[0, 1]) -> TypeError: value_range has to be a tuple
utils.save_image(x, io.BytesIO()) -> ValueError: give format='png'
vio.encode_png(x) -> RuntimeError: encode_png: expected an image uint8 \(C, H, W\)
vio.encode_png(x[0].byte()) -> RuntimeError: encode_png: expected an image uint8 \(C, H, W\)
vio.encode_png(pf.ones(5, 4, 4).byte()) -> RuntimeError: encode_png: expected an image uint8 \(C, H
vio.decode_image(pf.ones(3)) -> RuntimeError: decode_image: expected the bytes of a file
"""


@pytest.mark.parametrize(("call", "text"), rows(REFUSED))
def test_refused(call: str, text: str) -> None:
    check_refused(call, text, lambda lib: {**globals(), "x": pf.ones(3, 4, 4)})


def opened(file: Any) -> np.ndarray:
    image = pytest.importorskip("PIL.Image", reason="Pillow, the oracle for files, is missing")
    with image.open(file) as found:
        return np.array(found)


def test_save_image(tmp_path: Path, torch: Any, torchvision: Any) -> None:
    for name in ("x.png", "x.bmp", "x.PNG"):
        utils.save_image(pf.from_numpy(FLOATS), tmp_path / name, nrow=2)
        torchvision.utils.save_image(torch.from_numpy(FLOATS), tmp_path / "y.png", nrow=2)
        np.testing.assert_array_equal(opened(tmp_path / name), opened(tmp_path / "y.png"))
    stream = io.BytesIO()
    utils.save_image(pf.from_numpy(FLOATS[0]), stream, format="png")
    assert opened(stream).shape == (4, 6, 3)
    assert not list(tmp_path.glob("*.part"))


def test_png_needs_no_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, name, None)
    utils.save_image(pf.from_numpy(FLOATS), tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    for call in (
        lambda: utils.save_image(pf.from_numpy(FLOATS), tmp_path / "x.jpg"),
        lambda: vio.read_image(tmp_path / "x.png"),
    ):
        with pytest.raises(ImportError, match=r'needs Pillow: pip install .*\[images\]"'):
            call()


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_and_back(tmp_path: Path, channels: int) -> None:
    pytest.importorskip("PIL", reason="Pillow, which reads images, is missing")
    pixels = np.random.randint(0, 256, (channels, 5, 7), np.uint8)
    image = pf.from_numpy(pixels)
    vio.write_png(image, tmp_path / "x.png")
    np.testing.assert_array_equal(vio.read_image(tmp_path / "x.png").numpy(), pixels)
    data = vio.encode_png(image, compression_level=0)
    np.testing.assert_array_equal(vio.decode_image(data).numpy(), pixels)
    vio.write_file(tmp_path / "y.png", data)
    assert vio.read_file(tmp_path / "y.png").tolist() == data.tolist()
    turned = vio.encode_png(image.permute(0, 2, 1))
    np.testing.assert_array_equal(vio.decode_image(turned).numpy(), pixels.transpose(0, 2, 1))


def test_modes(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow, which reads images, is missing")
    path = tmp_path / "x.png"
    for mode, channels in (("1", 1), ("P", 3), ("L", 1), ("LA", 2), ("RGB", 3), ("RGBA", 4)):
        image.new(mode, (4, 3), 1 if mode == "1" else 0).save(path)
        found = vio.read_image(path)
        assert (found.shape, found.dtype) == ((channels, 3, 4), pf.uint8)
        for name, expected in (("GRAY", 1), ("gray_alpha", 2), ("RGB", 3), ("RGB_ALPHA", 4)):
            assert vio.read_image(path, name).shape == (expected, 3, 4)
        assert vio.read_image(path, vio.ImageReadMode.RGB).shape == (3, 3, 4)
    with pytest.raises(ValueError, match="unknown mode 'CMYK', expected one of UNCHANGED, GRAY"):
        vio.read_image(path, "CMYK")


def test_jpeg(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="Pillow, which reads images, is missing")
    for channels in (1, 3):
        flat = pf.full((channels, 16, 16), 100).to(pf.uint8)
        vio.write_jpeg(flat, tmp_path / "x.jpg", quality=95)
        found = vio.read_image(tmp_path / "x.jpg")
        assert found.shape == flat.shape
        assert (found.int() - 100).abs().max().item() <= 2


def test_files_that_are_no_images(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="Pillow, which reads images, is missing")
    good = vio.encode_png(pf.from_numpy(BYTES[0])).numpy().tobytes()
    for data in (b"", b"<html>", good[:30], good[: len(good) // 2], good[:50] + b"x" * 40):
        path = tmp_path / "x.png"
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"x\.png: not an image that Pillow can read"):
            vio.read_image(path)
